//! Admission on the simulated device.

use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use super::*;
use crate::device::sim::{SimDevice, SimOptions};
use crate::memory::regions::aligned;

const MEMORY: u64 = 1 << 20;

fn store() -> Store {
    let device = SimDevice::new(SimOptions { memory_bytes: MEMORY, ..SimOptions::default() }).unwrap();
    Store::new(Arc::new(device), MEMORY).unwrap()
}

fn wanted(processing: u64) -> Wanted<'static> {
    Wanted { data: None, processing, alone: false, nested: false }
}

#[test]
fn what_could_never_run_is_refused_at_once() {
    let store = store();
    let admission = Admission::default();
    let _running = admission.enter(&store, wanted(MEMORY), &CancelToken::default()).unwrap();
    match admission.enter(&store, wanted(MEMORY + 1), &CancelToken::default()) {
        Err(Failure::Memory { requested, available, .. }) => assert_eq!((requested, available), (MEMORY + 1, MEMORY)),
        _ => panic!("it does not fit"),
    }
}

#[test]
fn nobody_overtakes_and_all_get_their_turn() {
    let (store, admission) = (store(), Admission::default());
    let (sender, order) = channel();
    let both = Barrier::new(2);
    let waiting = |count: usize| {
        while admission.queue.lock().waiting.len() != count {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    std::thread::scope(|scope| {
        let first = admission.enter(&store, wanted(MEMORY * 6 / 10), &CancelToken::default()).unwrap();
        // The second needs all of the memory. The others would fit beside the first, but must not overtake the second.
        for (number, tenths) in [(2, 10), (3, 1), (4, 1)] {
            let (admission, store, sender, both) = (&admission, &store, sender.clone(), &both);
            scope.spawn(move || {
                let turn = admission.enter(store, wanted(MEMORY * tenths / 10), &CancelToken::default()).unwrap();
                sender.send(number).unwrap();
                if number > 2 {
                    // The last two run at the same time.
                    both.wait();
                }
                drop(turn);
            });
            waiting(number - 1);
        }
        std::thread::sleep(Duration::from_millis(30));
        assert!(order.try_recv().is_err(), "nobody but the first had a turn");
        drop(first);
        assert_eq!(order.recv().unwrap(), 2);
        let mut last = [order.recv().unwrap(), order.recv().unwrap()];
        last.sort_unstable();
        assert_eq!(last, [3, 4]);
    });
}

#[test]
fn a_program_that_waits_can_be_cancelled() {
    let (store, admission) = (store(), Admission::default());
    let running = admission.enter(&store, wanted(MEMORY), &CancelToken::default()).unwrap();
    let cancel = CancelToken::default();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| admission.enter(&store, wanted(1), &cancel).map(drop));
        std::thread::sleep(Duration::from_millis(20));
        cancel.cancel();
        assert!(matches!(waiting.join().unwrap(), Err(Failure::Exec(_))));
    });
    drop(running);
    // It left the queue: the next program is admitted.
    drop(admission.enter(&store, wanted(MEMORY), &CancelToken::default()).unwrap());
}

#[test]
fn programs_at_once_keep_to_their_own_memory() {
    let (store, admission) = (store(), Admission::default());
    let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..12u64 {
            let (store, admission, running, most) = (&store, &admission, &running, &most);
            scope.spawn(move || {
                for round in 0..20u64 {
                    let bytes = 1 + (thread * 7919 + round * 104_729) % (MEMORY / 2);
                    let alone = (thread + round) % 17 == 0;
                    let wanted = Wanted { alone, ..wanted(aligned(bytes)) };
                    let mut turn = admission.enter(store, wanted, &CancelToken::default()).unwrap();
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    assert!(!alone || now == 1, "alone with {now}");
                    let (device, lane) = (&store.device, turn.lane());
                    let at = lane.region.allocate(bytes).unwrap();
                    let (value, mut back) = ((thread * 20 + round) as u8, vec![0; bytes as usize]);
                    // SAFETY: just allocated with this size; `back` outlives the synchronization.
                    unsafe {
                        device.fill(at, value, bytes, lane.stream).unwrap();
                        std::thread::yield_now();
                        device.copy_to_host(&mut back, at, lane.stream).unwrap();
                    }
                    device.synchronize(lane.stream).unwrap();
                    assert!(back.iter().all(|&byte| byte == value));
                    running.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert!(most.load(Ordering::SeqCst) > 1, "some ran at the same time");
    let queue = admission.queue.lock();
    assert_eq!((queue.running, queue.claimed, queue.waiting.len()), (0, 0, 0));
}

#[test]
fn what_is_lent_is_not_dropped() {
    let (store, admission) = (store(), Admission::default());
    let at = store.cache.lock().reserve(100).unwrap();
    store.cache.lock().insert((7, 0), at, Arc::new(()));
    let lent = admission.lend();
    let cancel = CancelToken::default();
    // A program that fits beside it runs meanwhile.
    drop(admission.enter(&store, wanted(MEMORY / 2), &cancel).unwrap());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| drop(admission.enter(&store, wanted(MEMORY), &cancel).unwrap()));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!waiting.is_finished() && store.cache.lock().get(&(7, 0)).is_some());
        drop(lent);
    });
    assert!(store.cache.lock().get(&(7, 0)).is_none());
}
