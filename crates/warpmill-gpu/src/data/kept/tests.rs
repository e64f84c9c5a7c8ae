//! Kept chunks on a device with a few kilobytes.

use std::sync::Arc;

use super::*;
use crate::device::sim::{SimDevice, SimOptions};

const ROOM: u64 = 8 << 10;
/// Bytes of a chunk, padding included.
const CHUNK: u64 = 1 << 10;

/// A kept cache and columns of `width` chunks each, identified by number.
struct Machine {
    kept: Kept,
    width: u64,
    room: u64,
}

impl Machine {
    fn new(width: u64) -> Self {
        let device = SimDevice::new(SimOptions { memory_bytes: 1 << 20, ..SimOptions::default() }).unwrap();
        let region = Region::new(Arc::new(device), "the caching region", ROOM);
        Self { kept: Kept::new(region), width, room: ROOM }
    }

    fn id(column: usize) -> ColumnId {
        ColumnId { table: "t".into(), column: column.to_string(), form: Form::Light }
    }

    /// Runs a program that reads `columns`; returns the number of copied chunks.
    fn run(&mut self, columns: &[usize]) -> u64 {
        if self.kept.is_stale() {
            self.kept.clear();
        }
        let read: Vec<_> = columns.iter().map(|&column| (Self::id(column), self.width * CHUNK)).collect();
        let left = self.kept.begin(&read);
        let mut travelled = 0;
        for ((&column, (id, _)), left) in columns.iter().zip(&read).zip(left) {
            for chunk in 0..self.width {
                let key = (column * 1000 + chunk as usize, 0);
                if self.kept.get(&key).is_some() {
                    continue;
                }
                travelled += 1;
                let spare = self.room.saturating_sub(self.kept.held());
                if let Some(at) = self.kept.reserve(key, (id, CHUNK), CHUNK - 16, (spare, left)) {
                    assert!(self.kept.reserve(key, (id, CHUNK), CHUNK - 16, (spare, left)).is_none(), "it is coming");
                    self.kept.insert(key, at, Arc::new(()));
                }
            }
        }
        self.kept.end(self.room.saturating_sub(self.kept.held()));
        assert!(self.kept.held() <= self.room);
        travelled
    }
}

impl Machine {
    fn repeat(&mut self, runs: u64, columns: &[usize]) {
        for _ in 0..runs {
            self.run(columns);
        }
    }
}

#[test]
fn what_has_room_stays() {
    let mut machine = Machine::new(4);
    assert_eq!([machine.run(&[1]), machine.run(&[1])], [4, 0]);
    // Half of the other columns fits.
    assert_eq!([machine.run(&[1, 2, 3]), machine.run(&[1, 2, 3])], [8, 4]);
    assert_eq!(machine.kept.bytes_of("t", "1"), 4 * CHUNK);
    machine.kept.clear();
    assert_eq!((machine.kept.held(), machine.kept.bytes_of("t", "1")), (0, 0));
}

#[test]
fn queries_that_take_turns_leave_each_other_alone() {
    for queries in [2, 5, 30] {
        let mut machine = Machine::new(6);
        let mut rounds = vec![];
        for _ in 0..12 {
            rounds.push((0..queries).map(|query| machine.run(&[query])).sum::<u64>());
        }
        // A kept chunk is there from the second round on.
        assert_eq!(rounds[1..], [6 * queries as u64 - 8; 11], "{queries} queries");
    }
}

#[test]
fn what_is_read_more_often_gets_the_room() {
    let mut machine = Machine::new(8);
    machine.repeat(4, &[1]);
    let mut travelled: Vec<u64> = (0..200).map(|_| machine.run(&[2])).collect();
    let changed = travelled.iter().position(|&chunks| chunks == 0).unwrap();
    assert!((4..20).contains(&changed), "{changed}");
    assert!(travelled[changed..].iter().all(|&chunks| chunks == 0));
    // A column that is read rarely takes no room from it, even after everything was dropped.
    machine.kept.clear();
    travelled = [[1], [2], [2], [1], [2]].iter().map(|columns| machine.run(columns)).collect();
    assert_eq!(travelled, [8, 8, 0, 8, 0]);
}

#[test]
fn columns_that_are_gone_are_forgotten() {
    let mut machine = Machine::new(8);
    machine.repeat(40, &[1]);
    machine.repeat(70, &[2]);
    assert_eq!((machine.run(&[2]), machine.kept.columns.len()), (0, 1));
}

#[test]
fn room_that_a_program_needed_is_left_to_it() {
    let mut machine = Machine::new(8);
    machine.run(&[1]);
    machine.kept.make_way(3 * CHUNK);
    assert_eq!([machine.run(&[1]), machine.run(&[1])], [8, 5]);
    // Until the program has not run for a while.
    machine.repeat(LEAVES_ROOM, &[1]);
    assert_eq!(machine.run(&[1]), 0);
}

#[test]
fn less_room_keeps_less() {
    let mut machine = Machine::new(8);
    machine.room = 3 * CHUNK;
    assert_eq!([machine.run(&[1]), machine.run(&[1])], [8, 5]);
    machine.room = ROOM;
    assert_eq!([machine.run(&[1]), machine.run(&[1])], [5, 0]);
    let key = (9, 0);
    let id = Machine::id(1);
    machine.kept.clear();
    machine.kept.reserve(key, (&id, CHUNK), CHUNK - 16, (ROOM, 0)).unwrap();
    machine.kept.abandon(&key, (&id, CHUNK));
    assert!(machine.kept.get(&key).is_none());
    assert_eq!(machine.kept.bytes_of("t", "1"), 0);
}
