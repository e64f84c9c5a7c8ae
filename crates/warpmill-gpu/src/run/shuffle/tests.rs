//! Waits of devices for each other's rows.

use super::super::shared::Shared;
use super::*;
use crate::device::sim::{SimDevice, SimOptions};
use crate::memory::error::Failure;

fn shuffle(devices: usize, safe_rows: Option<u64>) -> Arc<Shuffle> {
    let member = |ordinal| {
        let options = SimOptions { ordinal, memory_bytes: 4 << 20, ..SimOptions::default() };
        Arc::new(Shared::new(Arc::new(SimDevice::new(options).unwrap()), 4 << 20).unwrap())
    };
    let group = Arc::new(PeerGroup::new((0..devices).map(member).collect(), false));
    Shuffle::new(group, Route::Hash { columns: vec![0] }, safe_rows)
}

fn sent(at: DevicePtr, starts: &[u64], input: u64) -> Sent {
    Sent { arrays: vec![(at, 8), (at + 1000, 1)], starts: starts.to_vec(), input, texts: None }
}

#[test]
fn a_device_gets_its_part_of_all_rows() {
    let shuffle = shuffle(2, Some(100));
    let (first, second) = (shuffle.part(0), shuffle.part(1));
    let cancel = CancelToken::default();
    first.send(sent(5000, &[0, 3, 10], 60));
    second.send(sent(7000, &[0, 0, 4], 40));
    let received = second.receive(&cancel).unwrap();
    assert_eq!(received.rows, 11);
    let place = |device, at| Place { device, at };
    assert_eq!(received.arrays[0], [(place(0, 5024), 56), (place(1, 7000), 32)]);
    assert_eq!(received.arrays[1], [(place(0, 6003), 7), (place(1, 8000), 4)]);
    assert_eq!(received.traffic().rows(), [[0, 63], [0, 0]]);
    assert_eq!(first.receive(&cancel).unwrap().rows, 3);
    // No memory is reused before both have copied.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| first.wait_until_copied());
        std::thread::sleep(Duration::from_millis(30));
        assert!(!waiting.is_finished());
        second.leave();
        waiting.join().unwrap();
    });
}

#[test]
fn accumulators_of_all_devices_together_are_checked() {
    let shuffle = shuffle(2, Some(100));
    let (first, second) = (shuffle.part(0), shuffle.part(1));
    first.send(sent(0, &[0, 0, 0], 60));
    second.send(sent(0, &[0, 0, 0], 41));
    let refused = first.receive(&CancelToken::default()).unwrap_err();
    assert!(matches!(refused, Failure::Exec(ExecError::NeedsWideSums { safe: 100 })), "{refused}");
}

#[test]
fn failures_and_cancellation_end_the_wait() {
    let shuffle = shuffle(3, None);
    let (first, second, third) = (shuffle.part(0), shuffle.part(1), shuffle.part(2));
    first.send(sent(0, &[0, 0, 0, 0], 0));
    let cancel = CancelToken::default();
    cancel.cancel();
    assert!(matches!(first.receive(&cancel).unwrap_err(), Failure::Exec(ExecError::Cancelled)));
    second.leave();
    let refused = first.receive(&CancelToken::default()).unwrap_err().to_string();
    assert!(refused.contains("another device has failed"), "{refused}");
    // Its rows are free: the third device has not come, so it cannot have begun to copy.
    first.wait_until_copied();
    third.send(sent(0, &[0, 0, 0, 0], 0));
    assert!(third.receive(&CancelToken::default()).is_err());
    third.wait_until_copied();
}

#[test]
fn a_device_that_waits_for_its_turn_is_waited_for_a_while() {
    let shuffle = shuffle(2, None);
    let (first, second) = (shuffle.part(0), shuffle.part(1));
    first.send(sent(0, &[0, 0, 0], 0));
    second.wait_for_turn();
    let started = Instant::now();
    let refused = first.receive(&CancelToken::default()).unwrap_err().to_string();
    assert!(refused.contains("busy") && started.elapsed() >= PATIENCE, "{refused}");
    // A running device ends without waiting, however long it takes.
    second.begin();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| first.receive(&CancelToken::default()));
        std::thread::sleep(PATIENCE + Duration::from_millis(100));
        assert!(!waiting.is_finished());
        second.send(sent(0, &[0, 0, 2], 0));
        assert_eq!(waiting.join().unwrap().unwrap().rows, 0);
    });
}
