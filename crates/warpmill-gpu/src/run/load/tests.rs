//! Data expected from another device.

use super::*;
use crate::device::sim::{SimDevice, SimOptions};
use crate::memory::regions::KeyMap;
use crate::run::peers::{PeerGroup, RunExchange};
use crate::run::shared::Shared;

#[test]
fn what_another_device_cannot_give_comes_from_the_host() {
    let member = |ordinal| {
        let options = SimOptions { ordinal, memory_bytes: 4 << 20, ..SimOptions::default() };
        Arc::new(Shared::new(Arc::new(SimDevice::new(options).unwrap()), 4 << 20).unwrap())
    };
    let members: Vec<Arc<Shared>> = (0..2).map(member).collect();
    let (own, source) = (&members[0].store, &members[1].store);
    let codes: [Arc<[u32]>; 2] = [(0..1000).collect(), (7..70).collect()];
    let items = codes.map(Item::Remap);
    // The first address is valid; the second is outside the device's memory.
    let mut lane = Lane::new(&source.device).unwrap();
    let mut copies = Copies::default();
    copies.bring(source, &mut lane, &items[0]).unwrap();
    copies.publish(source);
    source.cache.lock().insert(items[1].key(), 64, items[1].image(64));
    let group = Arc::new(PeerGroup::new(members.clone(), false));
    let peers = RunExchange::new(group, vec![KeyMap::default(); 2], Traffic::new(2), vec![]).part(0);
    let mut lane = Lane::new(&own.device).unwrap();
    let (options, mut profile) = (Options::default(), DeviceProfile::default());
    let peers = (&peers, 1, PeerPart::deadline());
    let traffic = fetch(own, &mut lane, items.iter().collect(), peers, (&options, &mut profile)).unwrap();
    assert_eq!(traffic, Traffic::new(2), "nothing counts that was copied again");
    for item in &items {
        let (at, image) = own.cache.lock().get(&item.key()).cloned().unwrap();
        let mut found = vec![0; item.bytes() as usize];
        // SAFETY: reserved with this size; `found` outlives the synchronization.
        unsafe { own.device.copy_to_host(&mut found, at, lane.stream).unwrap() };
        own.device.synchronize(lane.stream).unwrap();
        assert_eq!(found, image_bytes(&image));
    }
    let [host] = &profile.transfers[..] else { panic!("{:?}", profile.transfers) };
    assert_eq!((host.what, host.count), ("segments to the device", 2));
}
