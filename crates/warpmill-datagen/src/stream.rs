//! A whole table in order, made by several threads in bounded memory.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use arrow::array::RecordBatch;

use crate::{DatagenError, Suite, generate, parts};

/// Number of batches that a worker may be ahead of the reader.
const AHEAD: usize = 8;

/// The batches of a table in order; dropping it stops its workers.
pub struct Stream {
    /// One channel per worker; worker `w` makes parts w, w + workers, ... `None` ends a part.
    workers: Vec<Receiver<Option<RecordBatch>>>,
    part: usize,
    parts: usize,
}

/// Makes `table` on `threads` threads (0: all cores). Row order does not depend on `threads`.
pub fn stream(suite: Suite, table: &str, sf: f64, threads: usize) -> Result<Stream, DatagenError> {
    let parts = parts(suite, table, sf)?;
    let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
    let count = if threads == 0 { cores() } else { threads }.min(parts);
    let workers = (0..count)
        .map(|worker| {
            let (sender, receiver) = sync_channel(AHEAD);
            let table = table.to_owned();
            std::thread::spawn(move || send_parts(suite, &table, sf, (worker..parts).step_by(count), &sender));
            receiver
        })
        .collect();
    Ok(Stream { workers, part: 0, parts })
}

fn send_parts(
    suite: Suite,
    table: &str,
    sf: f64,
    parts: impl Iterator<Item = usize>,
    sender: &SyncSender<Option<RecordBatch>>,
) {
    for part in parts {
        let batches = generate(suite, table, sf, part).expect("the table, the scale and the part were checked");
        for item in batches.map(Some).chain([None]) {
            if sender.send(item).is_err() {
                return; // The reader has been dropped.
            }
        }
    }
}

impl Iterator for Stream {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        while self.part < self.parts {
            let worker = &self.workers[self.part % self.workers.len()];
            match worker.recv().expect("a worker ends every part that it starts") {
                Some(batch) => return Some(batch),
                None => self.part += 1,
            }
        }
        None
    }
}
