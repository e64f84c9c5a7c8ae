//! Copies of result rows to the host.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;
use warpmill_eval::rows::{Placed, RowSet};
use warpmill_ir::Field;

use super::state::{Flushed, Run};
use crate::compile::plan::{ResultRows, Stage};
use crate::compile::program::Place;
use crate::compile::replay::Places;
use crate::data::transfer::TransferProfile;
use crate::device::DevicePtr;
use crate::memory::error::Result;
use crate::memory::mirrors::Mirrors;
use crate::memory::regions::aligned;
use crate::run::rows;

/// Limit of page-locked memory for results in bytes; larger results are copied to pageable memory.
const MOST_HOST: u64 = 64 << 20;

/// Rows that a thread decodes at once; fewer with strings, each of which is looked up and read.
const DECODED_ROWS: u64 = 1 << 16;
const DECODED_STRINGS: u64 = 1 << 11;

impl Run<'_> {
    /// Queues copies of the states, and of the first rows of each result, to the lane's host memory. Returns the offsets there of each result's
    /// arrays, and of the first strings that kernels made.
    pub(super) fn queue_results(&mut self, places: &Places) -> Result<HostPlaces> {
        let (device, plan) = (self.device(), &self.prepared.memory);
        let mut copies: Vec<(DevicePtr, u64, u64)> = vec![(places.states, plan.read_bytes, 0)];
        // At the same distance from the states as on the device, so that adjacent arrays are one copy.
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

    /// Fetches the results, and returns how each pipeline was run.
    pub(super) fn fetch(&mut self, words: &[u64], places: &Places, host: &HostPlaces) -> Result<Vec<Placed>> {
        let prepared = self.prepared;
        self.fetch_text(words, places, host)?;
        self.mirrors.sort();
        let mut arrived: HashMap<usize, Placed> = HashMap::new();
        let count = |result: &ResultRows| self.state(words, result.sink, result.stage).count;
        let results: Vec<(&ResultRows, u64)> =
            prepared.memory.results.iter().map(|result| (result, count(result))).collect();
        // Rows that came with the states are decoded before the memory is reused.
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
        if self.flushed_bytes > 0 {
            let (bytes, count) = (self.flushed_bytes, self.flushed.len() as u64);
            self.profile.transfers.push(TransferProfile { what: "rows to the host", bytes, count, nanos: 0 });
        }
        let placed = (0..self.program.pipelines.len()).map(|pipeline| match prepared.places()[pipeline] {
            Place::Host => Placed::Here,
            Place::Device => arrived.remove(&pipeline).unwrap_or(Placed::Elsewhere),
        });
        Ok(placed.collect())
    }

    /// Host originals of strings in results.
    fn originals(&self) -> Vec<&Mirrors> {
        let received = self.texts.iter().flat_map(|texts| texts.mirrors());
        std::iter::once(&self.mirrors).chain(self.resident.mirrors()).chain(received).collect()
    }

    /// Decodes the rows of a result whose arrays are in `memory` at `offsets`.
    fn decode(&self, result: &ResultRows, rows: u64, memory: &[u8], offsets: &[u64]) -> Result<RowSet> {
        let fields = self.program.sinks[result.sink].fields();
        decode_all(result, fields, rows, (memory, offsets), &self.originals())
    }

    /// The flushed rows, by the pipeline of their result.
    fn decode_flushed(&mut self) -> Result<HashMap<usize, RowSet>> {
        let mut sets: HashMap<usize, RowSet> = HashMap::new();
        let results = &self.prepared.memory.results;
        for flushed in &mut self.flushed {
            let (result, rows) = match flushed {
                Flushed::Decoded { result, rows } => (*result, std::mem::take(rows)),
                Flushed::Copied(copied) => {
                    let sink = results[copied.result].sink;
                    let (fields, result) = (self.program.sinks[sink].fields(), &results[copied.result]);
                    let mirrors =
                        [&copied.text, &self.mirrors].into_iter().chain(self.resident.mirrors()).collect::<Vec<_>>();
                    (
                        copied.result,
                        decode_all(result, fields, copied.rows, (&copied.bytes, &copied.offsets), &mirrors)?,
                    )
                }
            };
            sets.entry(results[result].pipeline).or_default().batches.extend(rows.batches);
        }
        Ok(sets)
    }

    /// Copies the first rows of a result without strings in chunks of page-locked memory, and decodes them with all threads. Returns the rows and
    /// their bytes.
    pub(super) fn copy_decoded(&mut self, result: &ResultRows, rows: u64, places: &Places) -> Result<(RowSet, u64)> {
        let (device, stream) = (&*self.shared.store.device, self.lane.stream);
        let fields = self.program.sinks[result.sink].fields();
        let most = (MOST_HOST / result.bytes(1).max(1)).max(1);
        let mut all = RowSet::default();
        let mut from = 0;
        while from < rows {
            let count = most.min(rows - from);
            let memory = &mut self.lane.host(result.bytes(count) as usize)?[..];
            let (mut offsets, mut at) = (vec![], 0);
            for (buffer, size) in result.parts() {
                let to = &mut memory[at as usize..(at + size * count) as usize];
                // SAFETY: the arrays have room for their capacity, of which `rows` is at most; the lane keeps its host memory until the
                // stream is synchronized.
                unsafe { device.copy_to_host(to, places.buffers[buffer] + size * from, stream)? };
                offsets.push(at);
                at += size * count;
            }
            device.synchronize(stream)?;
            all.batches.extend(decode_all(result, fields, count, (memory, &offsets), &[])?.batches);
            from += count;
        }
        Ok((all, result.bytes(rows)))
    }

    /// Copies the first rows of a result; returns the bytes, and the offset of each array.
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

    /// Copies the rows of a result that has more than came with the states.
    fn fetch_rows(&mut self, result: &ResultRows, rows: u64, places: &Places) -> Result<RowSet> {
        if !result.has_strings() && rows > DECODED_ROWS {
            return Ok(self.copy_decoded(result, rows, places)?.0);
        }
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

    /// Fetches the strings that kernels made, which rows may point to.
    pub(super) fn fetch_text(&mut self, words: &[u64], places: &Places, host: &HostPlaces) -> Result<()> {
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

/// Decodes the rows of a result with types `fields`, whose arrays are in `memory` at `offsets`; many rows are decoded by all threads.
fn decode_all(
    result: &ResultRows,
    fields: &[Field],
    rows: u64,
    (memory, offsets): (&[u8], &[u64]),
    mirrors: &[&Mirrors],
) -> Result<RowSet> {
    let at_once = if result.has_strings() { DECODED_STRINGS } else { DECODED_ROWS };
    let decode = |from: u64| {
        let count = at_once.min(rows - from);
        let bytes = |at: u64, size: u64| &memory[(at + size * from) as usize..(at + size * (from + count)) as usize];
        let mut parts = result.parts().zip(offsets).map(|((_, size), &at)| bytes(at, size));
        let mut part = || parts.next().unwrap_or_default();
        let arrays: Vec<(&[u8], &[u8])> =
            result.columns.iter().map(|column| (part(), if column.nullable { part() } else { &[][..] })).collect();
        rows::decode(&result.columns, fields, count as usize, &arrays, mirrors)
    };
    if rows <= at_once {
        return decode(0);
    }
    let starts: Vec<u64> = (0..rows).step_by(at_once as usize).collect();
    let decoded: Vec<RowSet> = starts.into_par_iter().map(decode).collect::<Result<_>>()?;
    Ok(RowSet { batches: decoded.into_iter().flat_map(|set| set.batches).collect() })
}

/// The outcome of the pipeline that made a result.
fn placed(result: &ResultRows, rows: RowSet) -> Placed {
    let rows = Arc::new(rows);
    match result.stage {
        Stage::Sorted => Placed::Finished(rows),
        Stage::Own | Stage::First => Placed::Arrived(rows),
    }
}

/// Offsets of the first rows and strings in the lane's host memory.
#[derive(Default)]
pub(super) struct HostPlaces {
    /// By result and array.
    arrays: Vec<Vec<u64>>,
    text: u64,
}
