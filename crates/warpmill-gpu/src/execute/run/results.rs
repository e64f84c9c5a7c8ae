//! The rows that the host goes on with: how they come there.

use std::collections::HashMap;
use std::sync::Arc;

use warpmill_cpu::operator::RowSet;
use warpmill_cpu::pipeline::Placed;

use crate::codegen::program::Place;
use crate::device::DevicePtr;
use crate::execute::Result;
use crate::execute::launch::Places;
use crate::execute::memory::aligned;
use crate::execute::plan::{ResultRows, Stage};
use crate::execute::profile::TransferProfile;
use crate::execute::rows::{self, Mirrors};

use super::Run;

/// Page-locked memory for results is kept up to this size; larger results are copied to pageable memory.
const MOST_HOST: u64 = 64 << 20;

/// Rows of a result on the host, as they were on the device.
pub(super) struct Flushed {
    /// Which result of the plan.
    pub result: usize,
    pub rows: u64,
    pub bytes: Vec<u8>,
    /// Where in `bytes` each array is.
    pub offsets: Vec<u64>,
    /// Their strings, which were made again after that.
    pub text: Mirrors,
}

impl Run<'_> {
    /// Queues copies of the states, and of the first rows of each result, to the lane's host memory. Gives where there each array
    /// of each result is, and the first text that kernels made.
    pub(super) fn queue_results(&mut self, places: &Places) -> Result<HostPlaces> {
        let (device, plan) = (self.device(), &self.prepared.memory);
        let mut copies: Vec<(DevicePtr, u64, u64)> = vec![(places.states, plan.read_bytes, 0)];
        // As far from the states as on the device, if the arrays follow them there.
        let mut end = aligned(plan.states_at + plan.states_bytes) - plan.states_at;
        let mut host = HostPlaces::default();
        for result in &plan.results {
            let mut arrays = vec![];
            for (buffer, size) in result.parts() {
                let (at, bytes) = (places.buffers[buffer], size * result.first_rows);
                arrays.push(end);
                let (start, length, to) = copies.last_mut().expect("the states are there");
                let near = end - *to - *length < 2 * aligned(plan.states_bytes);
                if near && at.checked_sub(*start) == Some(end - *to) && self.lane.region.together(*start, at) {
                    *length = end + bytes - *to;
                } else if bytes > 0 {
                    copies.push((at, bytes, end));
                }
                end += aligned(bytes);
            }
            host.arrays.push(arrays);
        }
        if plan.first_text > 0 {
            host.text = end;
            copies.push((places.arena, plan.first_text, end));
            end += plan.first_text;
        }
        let stream = self.lane.stream;
        let memory = self.lane.host(end as usize)?;
        for (at, bytes, to) in copies {
            let to = &mut memory[to as usize..(to + bytes) as usize];
            // SAFETY: allocated with these sizes; ranges that follow each other are one allocation. The lane keeps its host memory
            // until the stream is synchronized.
            unsafe { device.copy_to_host(to, at, stream)? };
        }
        Ok(host)
    }

    /// Where each pipeline ran, with the rows that the host goes on with.
    pub(super) fn fetch(&mut self, words: &[u64], places: &Places, host: &HostPlaces) -> Result<Vec<Placed>> {
        let prepared = self.prepared;
        self.fetch_text(words, places, host)?;
        self.mirrors.sort();
        let mut arrived: HashMap<usize, Placed> = HashMap::new();
        let count = |result: &ResultRows| self.state(words, result.sink, result.stage).count;
        let results: Vec<(&ResultRows, u64)> =
            prepared.memory.results.iter().map(|result| (result, count(result))).collect();
        // What came with the states is read before its memory is used again.
        let mut flushed = self.decode_flushed()?;
        for ((result, rows), offsets) in results.iter().zip(&host.arrays) {
            if *rows <= result.first_rows {
                let memory = self.lane.host.as_deref().unwrap_or_default();
                let mut all = flushed.remove(&result.pipeline).unwrap_or_default();
                all.batches.extend(self.decode(result, *rows, memory, offsets)?.batches);
                arrived.insert(result.pipeline, placed(result, all));
            }
        }
        for (result, rows) in &results {
            if *rows > result.first_rows {
                let mut all = flushed.remove(&result.pipeline).unwrap_or_default();
                all.batches.extend(self.fetch_rows(result, *rows, places)?.batches);
                arrived.insert(result.pipeline, placed(result, all));
            }
            let (bytes, count) = (result.bytes(*rows), result.parts().count() as u64);
            self.profile.transfers.push(TransferProfile { what: "rows to the host", bytes, count, nanos: 0 });
        }
        let placed = (0..self.program.pipelines.len()).map(|pipeline| match prepared.lowered.places[pipeline] {
            Place::Host => Placed::Here,
            Place::Device => arrived.remove(&pipeline).unwrap_or(Placed::Elsewhere),
        });
        Ok(placed.collect())
    }

    /// The rows of a result whose arrays are in `memory` at `offsets`.
    fn decode(&self, result: &ResultRows, rows: u64, memory: &[u8], offsets: &[u64]) -> Result<RowSet> {
        self.decode_with(result, rows, memory, offsets, &[&self.mirrors, &self.resident.mirrors])
    }

    fn decode_with(
        &self,
        result: &ResultRows,
        rows: u64,
        memory: &[u8],
        offsets: &[u64],
        mirrors: &[&Mirrors],
    ) -> Result<RowSet> {
        let mut parts =
            result.parts().zip(offsets).map(|((_, size), &at)| &memory[at as usize..(at + size * rows) as usize]);
        let mut part = || parts.next().unwrap_or_default();
        let arrays: Vec<(&[u8], &[u8])> =
            result.columns.iter().map(|column| (part(), if column.nullable { part() } else { &[][..] })).collect();
        let fields = self.program.sinks[result.sink].fields();
        rows::decode(&result.columns, fields, rows as usize, &arrays, mirrors)
    }

    /// The rows that went to the host before, by the pipeline of their result.
    fn decode_flushed(&self) -> Result<HashMap<usize, RowSet>> {
        let mut sets: HashMap<usize, RowSet> = HashMap::new();
        for flushed in &self.flushed {
            let result = &self.prepared.memory.results[flushed.result];
            let mirrors = [&flushed.text, &self.mirrors, &self.resident.mirrors];
            let decoded = self.decode_with(result, flushed.rows, &flushed.bytes, &flushed.offsets, &mirrors)?;
            sets.entry(result.pipeline).or_default().batches.extend(decoded.batches);
        }
        Ok(sets)
    }

    /// Copies the first rows of a result, array by array; gives where each of them is.
    pub(super) fn copy_rows(&mut self, result: &ResultRows, rows: u64, places: &Places) -> Result<(Vec<u8>, Vec<u64>)> {
        let (device, stream) = (self.device(), self.lane.stream);
        let (mut bytes, mut offsets) = (vec![0u8; result.bytes(rows) as usize], vec![]);
        let mut left = &mut bytes[..];
        let mut at = 0;
        for (buffer, size) in result.parts() {
            let (to, rest) = left.split_at_mut((size * rows) as usize);
            // SAFETY: the arrays have room for their capacity, of which `rows` is at most; the memory lives past the
            // synchronization.
            unsafe { device.copy_to_host(to, places.buffers[buffer], stream)? };
            offsets.push(at);
            at += size * rows;
            left = rest;
        }
        device.synchronize(stream)?;
        Ok((bytes, offsets))
    }

    /// Copies more rows of a result than came with the states.
    fn fetch_rows(&mut self, result: &ResultRows, rows: u64, places: &Places) -> Result<RowSet> {
        let (device, stream) = (self.device(), self.lane.stream);
        let mut offsets = vec![];
        let mut end = 0;
        for (_, size) in result.parts() {
            offsets.push(end);
            end += aligned(size * rows);
        }
        let mut pageable = vec![0u8; if end > MOST_HOST { end as usize } else { 0 }];
        let memory = if pageable.is_empty() { &mut self.lane.host(end as usize)?[..] } else { &mut pageable[..] };
        for ((buffer, size), &at) in result.parts().zip(&offsets) {
            let to = &mut memory[at as usize..(at + size * rows) as usize];
            // SAFETY: the arrays have room for their capacity, of which `rows` is at most; the memory lives past the
            // synchronization.
            unsafe { device.copy_to_host(to, places.buffers[buffer], stream)? };
        }
        device.synchronize(stream)?;
        let memory = if pageable.is_empty() { self.lane.host.as_deref().unwrap_or_default() } else { &pageable };
        self.decode(result, rows, memory, &offsets)
    }

    /// The strings that kernels made, where rows may point into them.
    fn fetch_text(&mut self, words: &[u64], places: &Places, host: &HostPlaces) -> Result<()> {
        let (used, first) = (words[1], self.prepared.memory.first_text);
        if first == 0 || used == 0 {
            return Ok(());
        }
        let bytes = if used <= first {
            let memory = self.lane.host.as_deref().unwrap_or_default();
            memory[host.text as usize..(host.text + used) as usize].to_vec()
        } else {
            let mut bytes = vec![0u8; used as usize];
            // SAFETY: the arena is at least this long: it did not overflow.
            unsafe { self.device().copy_to_host(&mut bytes, places.arena, self.lane.stream)? };
            self.device().synchronize(self.lane.stream)?;
            bytes
        };
        let bytes = Arc::new(bytes);
        self.mirrors.add(places.arena, &bytes, bytes.clone());
        Ok(())
    }
}

/// Where the pipeline of a result ran.
fn placed(result: &ResultRows, rows: RowSet) -> Placed {
    let rows = Arc::new(rows);
    match result.stage {
        Stage::Sorted => Placed::Finished(rows),
        Stage::Own | Stage::First => Placed::Arrived(rows),
    }
}

/// Where in the lane's host memory the first rows and strings are.
#[derive(Default)]
pub(super) struct HostPlaces {
    /// By result and array.
    arrays: Vec<Vec<u64>>,
    text: u64,
}
