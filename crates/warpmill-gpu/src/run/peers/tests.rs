//! Waits of devices for each other.

use super::*;
use crate::device::sim::{SimDevice, SimOptions, SimPeers};
use crate::memory::error::Failure;

fn group(peers: SimPeers, staged: bool) -> Arc<PeerGroup> {
    let member = |ordinal| {
        let options = SimOptions { ordinal, peers, memory_bytes: 4 << 20, ..SimOptions::default() };
        Arc::new(Shared::new(Arc::new(SimDevice::new(options).unwrap()), 4 << 20).unwrap())
    };
    Arc::new(PeerGroup::new((0..2).map(member).collect(), staged))
}

fn exchange(group: Arc<PeerGroup>) -> Arc<RunExchange> {
    let mut planned = Traffic::new(2);
    planned.add(0, 1, 30);
    planned.add(1, 0, 4);
    let origins = vec![KeyMap::from_iter([((1, 0), Origin::Host), ((2, 0), Origin::Peer(1))]), KeyMap::default()];
    RunExchange::new(group, origins, planned, vec![])
}

#[test]
fn a_part_knows_what_comes_to_it() {
    let exchange = exchange(group(SimPeers::Reachable, false));
    let (first, second) = (exchange.part(0), exchange.part(1));
    assert_eq!(first.origin(&(1, 0)), Some(Origin::Host));
    assert_eq!((first.origin(&(2, 0)), first.origin(&(3, 0))), (Some(Origin::Peer(1)), None));
    assert_eq!((first.planned().rows()[1][0], first.planned().total()), (4, 4));
    assert_eq!(second.planned().rows()[0], [0, 30]);
}

#[test]
fn links_that_are_staged_have_a_reason() {
    assert!(group(SimPeers::Reachable, false).staged_links().is_empty());
    let links = group(SimPeers::Unreachable, false).staged_links();
    assert_eq!(links.len(), 2);
    assert!(links[0].starts_with("0 to 1: through the host: ") && links[0].contains("no access"), "{links:?}");
    assert_eq!(group(SimPeers::Reachable, true).staged_links().len(), 2);
}

#[test]
fn nobody_waits_for_those_that_are_gone_or_late() {
    let exchange = exchange(group(SimPeers::Reachable, false));
    let (first, second) = (exchange.part(0), exchange.part(1));
    let cancel = CancelToken::default();
    std::thread::scope(|scope| {
        second.begin();
        let waiting = scope.spawn(|| first.wait(1, PeerPart::deadline(), &cancel));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!waiting.is_finished(), "it is loading");
        second.loaded();
        waiting.join().unwrap().unwrap();
    });
    // Loaded data stays available after the run.
    second.leave();
    first.wait(1, PeerPart::deadline(), &cancel).unwrap();
    // A device that has not begun is waited for; one that has left is not.
    let (started, deadline) = (Instant::now(), PeerPart::deadline());
    second.wait(0, deadline, &cancel).unwrap();
    assert!(started.elapsed() >= PATIENCE);
    // The deadline covers all devices together.
    let started = Instant::now();
    second.wait(0, deadline, &cancel).unwrap();
    assert!(started.elapsed() < PATIENCE);
    first.leave();
    let started = Instant::now();
    second.wait(0, PeerPart::deadline(), &cancel).unwrap();
    assert!(started.elapsed() < PATIENCE);
    // The device tries again.
    first.begin();
    cancel.cancel();
    assert!(matches!(second.wait(0, PeerPart::deadline(), &cancel), Err(Failure::Exec(_))));
}
