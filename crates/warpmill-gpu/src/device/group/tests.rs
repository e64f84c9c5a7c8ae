//! Exchanges on simulated devices: data that arrives, links used, and traffic.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::exchange::{Exchange, Move, Place, Traffic};
use super::super::sim::{SimDevice, SimOptions, SimPeers};
use super::super::{Device, DeviceError, DevicePtr, Stream};
use super::{DeviceGroup, Link};

/// Simulated devices with a stream each.
struct Rig {
    devices: Vec<Arc<SimDevice>>,
    group: DeviceGroup,
    streams: Vec<Stream>,
}

fn sim(ordinal: usize, peers: SimPeers) -> Arc<SimDevice> {
    let options = SimOptions { ordinal, peers, memory_bytes: 8 << 20, ..SimOptions::default() };
    Arc::new(SimDevice::new(options).expect("the host has a C++ compiler"))
}

impl Rig {
    fn new(peers: &[SimPeers]) -> Self {
        let devices: Vec<_> = peers.iter().enumerate().map(|(ordinal, &peers)| sim(ordinal, peers)).collect();
        let streams = devices.iter().map(|device| device.stream().unwrap()).collect();
        let group = DeviceGroup::new(devices.iter().map(|device| device.clone() as Arc<dyn Device>).collect());
        Self { devices, group, streams }
    }

    fn put(&self, device: usize, bytes: &[u8]) -> DevicePtr {
        let at = self.devices[device].allocate(bytes.len() as u64).unwrap();
        // SAFETY: just allocated.
        unsafe { self.devices[device].copy_to_device(at, bytes, self.streams[device]) }.unwrap();
        at
    }

    fn get(&self, Place { device, at }: Place, bytes: usize) -> Vec<u8> {
        let mut found = vec![0; bytes];
        // SAFETY: the tests ask for what they allocated.
        unsafe { self.devices[device].copy_to_host(&mut found, at, self.streams[device]) }.unwrap();
        self.devices[device].synchronize(self.streams[device]).unwrap();
        found
    }

    fn room(&self, device: usize, bytes: u64) -> Place {
        Place { device, at: self.devices[device].allocate(bytes).unwrap() }
    }

    /// The traffic counted by the devices, minus that of link tests.
    fn arrived(&self) -> Vec<BTreeMap<usize, u64>> {
        self.devices.iter().map(|device| device.arrived()).collect()
    }
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|index| (index as u8).wrapping_mul(31) ^ seed).collect()
}

/// Compares the group's traffic with that counted by its devices since `before`, and with the expected one.
fn check_traffic(rig: &Rig, before: &[BTreeMap<usize, u64>], expected: &Traffic) {
    assert_eq!(rig.group.traffic(), *expected);
    for (destination, now) in rig.arrived().iter().enumerate() {
        for (source, row) in expected.rows().iter().enumerate() {
            if *rig.group.link(source, destination) == Link::Direct {
                let counted = now.get(&source).unwrap_or(&0) - before[destination].get(&source).unwrap_or(&0);
                assert_eq!(counted, row[destination], "from {source} to {destination}");
            }
        }
    }
}

#[test]
fn data_is_broadcast_and_gathered() {
    for peers in [[SimPeers::Reachable; 3], [SimPeers::Unreachable; 3], [SimPeers::Lossy; 3]] {
        let rig = Rig::new(&peers);
        let before = rig.arrived();
        let data = pattern(1001, 7);
        let from = Place { device: 1, at: rig.put(1, &data) };
        let to: Vec<Place> = [0, 2].iter().map(|&device| rig.room(device, 1001)).collect();
        // SAFETY: allocated above.
        unsafe { rig.group.broadcast(from, 1001, &to, &rig.streams) }.unwrap();
        to.iter().for_each(|&to| assert_eq!(rig.get(to, 1001), data));
        let pieces: Vec<(Place, u64)> = [(0, 3), (1, 0), (2, 500), (1, 17)]
            .map(|(device, bytes)| {
                (Place { device, at: rig.put(device, &pattern(bytes + 1, device as u8)) }, bytes as u64)
            })
            .to_vec();
        let all = rig.room(0, 520);
        // SAFETY: allocated above.
        assert_eq!(unsafe { rig.group.gather(&pieces, all, &rig.streams) }.unwrap(), 520);
        let expected = [pattern(3, 0), pattern(500, 2), pattern(17, 1)].concat();
        assert_eq!(rig.get(all, 520), expected);
        let mut traffic = Traffic::new(3);
        for (from, to, bytes) in [(1, 0, 1001), (1, 2, 1001), (2, 0, 500), (1, 0, 17)] {
            traffic.add(from, to, bytes);
        }
        check_traffic(&rig, &before, &traffic);
    }
}

/// Runs an all-to-all exchange, and checks the received data.
fn exchange_all(rig: &Rig, bytes: &[Vec<u64>]) {
    let devices = bytes.len();
    let sent: Vec<Vec<u8>> = bytes
        .iter()
        .enumerate()
        .map(|(source, row)| pattern(row.iter().sum::<u64>() as usize, source as u8 + 1))
        .collect();
    let at: Vec<DevicePtr> = (0..devices).map(|device| rig.put(device, &sent[device])).collect();
    let sizes: Vec<u64> = (0..devices).map(|to| bytes.iter().map(|row| row[to]).sum()).collect();
    let to: Vec<Place> = (0..devices).map(|device| rig.room(device, sizes[device])).collect();
    let receive: Vec<DevicePtr> = to.iter().map(|place| place.at).collect();
    // SAFETY: allocated above, with the sums of rows and columns.
    unsafe { rig.group.all_to_all(bytes, (&at, &receive), &rig.streams) }.unwrap();
    for (destination, &place) in to.iter().enumerate() {
        let part = |source: usize| {
            let begin = bytes[source][..destination].iter().sum::<u64>() as usize;
            sent[source][begin..begin + bytes[source][destination] as usize].to_vec()
        };
        let expected: Vec<u8> = (0..devices).flat_map(part).collect();
        assert_eq!(rig.get(place, expected.len()), expected, "device {destination} of {bytes:?}");
    }
}

#[test]
fn kernels_copy_pieces_of_any_size_to_any_place() {
    let sizes = |devices: u64, size: fn(u64) -> u64| -> Vec<Vec<u64>> {
        (0..devices).map(|source| (0..devices).map(|to| size(source * 97 + to * 13)).collect()).collect()
    };
    for bytes in [
        sizes(3, |seed| seed % 19),
        sizes(4, |seed| seed * 1001),
        sizes(4, |seed| 16 * seed),
        sizes(3, |seed| seed % 3 * 70_001),
        sizes(2, |_| 0),
    ] {
        let mut rig = Rig::new(&vec![SimPeers::Reachable; bytes.len()]);
        rig.group.by_kernels = true;
        let before = rig.group.traffic().total();
        exchange_all(&rig, &bytes);
        let between = |(source, row): (usize, &Vec<u64>)| row.iter().sum::<u64>() - row[source];
        assert_eq!(rig.group.traffic().total() - before, bytes.iter().enumerate().map(between).sum::<u64>());
    }
    // More pieces than fit a launch, from one source and from two.
    let mut rig = Rig::new(&[SimPeers::Reachable; 3]);
    rig.group.by_kernels = true;
    let pieces: Vec<(Place, u64)> = (0..150)
        .map(|number| {
            let (device, bytes) = ([0, 1, 1, 2][number % 4], number % 23);
            (Place { device, at: rig.put(device, &pattern(bytes + 1, number as u8)) }, bytes as u64)
        })
        .collect();
    let expected: Vec<u8> = (0..150).flat_map(|number| pattern(number % 23, number as u8)).collect();
    let all = rig.room(0, expected.len() as u64);
    // SAFETY: allocated above.
    unsafe { rig.group.gather(&pieces, all, &rig.streams) }.unwrap();
    assert_eq!(rig.get(all, expected.len()), expected);
}

#[test]
fn everything_goes_to_everyone_in_uneven_parts() {
    let cases: [Vec<Vec<u64>>; 4] = [
        vec![vec![5]],
        vec![vec![0, 0], vec![0, 0]],
        vec![vec![1, 2, 3], vec![0, 4000, 7], vec![100, 0, 0]],
        (0..4).map(|source| (0..4).map(|to| source * 97 + to * 13).collect()).collect(),
    ];
    for bytes in cases {
        let devices = bytes.len();
        let rig = Rig::new(&vec![SimPeers::Reachable; devices]);
        let before = rig.arrived();
        exchange_all(&rig, &bytes);
        let mut expected = Traffic::new(devices);
        for (source, row) in bytes.iter().enumerate() {
            let others = row.iter().enumerate().filter(|(to, _)| *to != source);
            others.for_each(|(to, &bytes)| expected.add(source, to, bytes));
        }
        check_traffic(&rig, &before, &expected);
    }
}

#[test]
fn a_link_is_what_has_carried_a_pattern() {
    let rig = Rig::new(&[SimPeers::Reachable, SimPeers::Unreachable, SimPeers::Lossy]);
    let staged = |source: usize, destination: usize| match rig.group.link(source, destination) {
        Link::Staged(reason) => reason.clone(),
        other => panic!("{other}"),
    };
    assert_eq!(
        (rig.group.link(1, 0), rig.group.link(2, 0), rig.group.link(0, 0)),
        (&Link::Direct, &Link::Direct, &Link::Own)
    );
    assert!(staged(0, 1).contains("no access"));
    assert!(staged(1, 2).contains("has not arrived"));
    // The link tests have freed their memory.
    rig.devices.iter().for_each(|device| assert_eq!(device.free_memory().unwrap(), 8 << 20));
    let tight: Vec<Arc<dyn Device>> = (0..2)
        .map(|ordinal| {
            let options = SimOptions { ordinal, memory_bytes: 1 << 20, ..SimOptions::default() };
            Arc::new(SimDevice::new(options).unwrap()) as Arc<dyn Device>
        })
        .collect();
    assert!(DeviceGroup::new(tight.clone()).link(0, 1).to_string().contains("no memory to check"));
    assert!(!DeviceGroup::staged(tight).link(0, 1).is_direct());
}

#[test]
fn memory_of_a_peer_is_read_with_permission_only() {
    let (own, other) = (sim(3, SimPeers::Reachable), sim(4, SimPeers::Reachable));
    let (to, from) = (own.allocate(64).unwrap(), other.allocate(64).unwrap());
    let stream = own.stream().unwrap();
    // SAFETY: allocated above.
    let copy = |bytes: u64| unsafe { own.copy_from_peer(to, (&*other, from), bytes, stream) };
    // SAFETY: a copy within a device from memory of another is refused.
    let within = unsafe { own.copy_on_device(to, from, 64, stream) };
    assert!(matches!(within, Err(DeviceError::Call { .. })));
    let refused = copy(64).unwrap_err().to_string();
    assert!(refused.contains("device 3 is not permitted to read the memory of device 4"), "{refused}");
    // Permission is given for one direction.
    own.reach(&*other).unwrap();
    copy(64).unwrap();
    let stream = other.stream().unwrap();
    // SAFETY: allocated above.
    let back = unsafe { other.copy_from_peer(from, (&*own, to), 64, stream) };
    assert!(back.unwrap_err().to_string().contains("device 4 is not permitted"));
    assert!(copy(65).unwrap_err().to_string().contains("65 bytes"));
    assert_eq!(own.arrived(), BTreeMap::from([(4, 64)]));
}

#[test]
fn exchanges_that_make_no_sense_are_refused() {
    let rig = Rig::new(&[SimPeers::Reachable; 2]);
    let at = rig.room(0, 8);
    let elsewhere = Move { from: at, to: Place { device: 2, at: 0 }, bytes: 8 };
    // SAFETY: refused before anything is copied.
    unsafe {
        let found = rig.group.carry_out(&[elsewhere], &rig.streams).unwrap_err().to_string();
        assert!(found.contains("there is no device 2"), "{found}");
        let found = rig.group.carry_out(&[], &rig.streams[..1]).unwrap_err().to_string();
        assert!(found.contains("1 streams for 2 devices"), "{found}");
        let found = rig.group.all_to_all(&[vec![1, 2]], (&[0, 0], &[0, 0]), &rig.streams).unwrap_err().to_string();
        assert!(found.contains("other tables"), "{found}");
        let other = Move { from: at, to: Place { device: 1, at: 0 }, bytes: 8 };
        let found = rig.group.pull(&[other], 0, rig.streams[0]).unwrap_err().to_string();
        assert!(found.contains("a move to device 1"), "{found}");
    }
    assert_eq!(rig.group.traffic().total(), 0);
}

#[test]
fn traffic_adds_up() {
    let place = |device| Place { device, at: 0 };
    let moves = [(0, 1, 5), (1, 1, 9), (1, 0, 2), (0, 1, 1)];
    let moves = moves.map(|(from, to, bytes)| Move { from: place(from), to: place(to), bytes });
    let mut traffic = Traffic::of(2, &moves);
    assert_eq!(traffic.rows(), [vec![0, 6], vec![2, 0]]);
    let mut larger = Traffic::new(3);
    larger.add(2, 0, 4);
    traffic.add_all(&larger);
    assert_eq!((traffic.rows(), traffic.total()), (&[vec![0, 6, 0], vec![2, 0, 0], vec![4, 0, 0]][..], 12));
}
