//! Strings of sinks in parts, and rows that are flushed to the host while others are still made.

use std::collections::HashMap;
use std::sync::Arc;

use warpmill_ir::SinkId;

use super::state::{Parts, Step, Stop, row_text};
use crate::compile::generator::host_text;
use crate::compile::layout::{SinkLayout, Table};
use crate::compile::plan::{SINK_STATE, Stage};
use crate::compile::replay::Places;
use crate::memory::error::{Failure, Result};
use crate::memory::mirrors::Mirrors;
use crate::run::once::state::{Copied, Flushed, Run};

impl Run<'_> {
    /// Assigns memory for the strings of sinks in parts: device memory from `base`, or host memory.
    pub(super) fn place_texts(&self, places: &Places, base: u64, names: &mut HashMap<String, u64>) -> Result<()> {
        let memory = &self.prepared.memory;
        let mut texts = vec![];
        let mut at = base;
        for &(id, bytes) in &memory.texts {
            texts.extend(memory.text_state(id).map(|state| (state, bytes, at)));
            at += bytes;
        }
        at = places.hosted;
        for &(id, bytes) in &memory.host_texts {
            let Some(state) = memory.host_text_state(id) else { continue };
            names.insert(host_text(id), places.states + state);
            texts.push((state, bytes, at));
            at += bytes;
        }
        for (state, bytes, at) in texts {
            let image: Vec<u8> = [0, 0, bytes, at].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
            // SAFETY: a `QueryState`; the copy is done before the image is gone.
            unsafe { self.device().copy_to_device(places.states + state, &image, self.lane.stream)? };
            self.device().synchronize(self.lane.stream)?;
        }
        Ok(())
    }
}

impl Parts<'_, '_> {
    /// Discards the strings of sink `id`.
    pub(super) fn clear_text(&mut self, id: SinkId) -> Step {
        let memory = &self.prepared().memory;
        for at in memory.text_state(id).into_iter().chain(memory.host_text_state(id)) {
            // SAFETY: the first words of a `QueryState`: errors, which have been checked, and the bytes used.
            unsafe { self.run.device().fill(self.places.states + at, 0, 16, self.run.lane.stream)? };
        }
        Ok(())
    }

    /// Bytes of the strings of sink `id`, if they did not fit.
    pub(super) fn full_text(&self, id: SinkId, words: &[u64]) -> Option<u64> {
        let at = self.prepared().memory.text_state(id)? as usize / 8;
        (words[at] >> 32 != 0).then(|| words[at + 1])
    }

    /// Requests another run with more room if the strings of build `id` on the host did not fit.
    pub(super) fn check_host_text(&self, id: SinkId, words: &[u64]) -> Step {
        let prepared = self.prepared();
        let Some(at) = prepared.memory.host_text_state(id).map(|at| at as usize / 8) else { return Ok(()) };
        let SinkLayout::Build(build) = &prepared.layouts()[id] else { return Ok(()) };
        if words[at] >> 32 == 0 {
            return self.run.check_values(&words[at..]).map_err(Stop::from);
        }
        let count = self.run.state(words, id, Stage::Own).count;
        let rows = if build.table == Table::Bitmap { build.capacity } else { count.min(build.capacity) };
        let mut hints = prepared.hints().clone();
        hints.host_text.insert(id, row_text(words[at + 1], rows));
        Err(Stop::Again(Box::new(hints)))
    }

    /// Removes all rows of a sink that flushes.
    pub(super) fn empty(&mut self, sink: SinkId) -> Step {
        let (device, stream) = (self.run.device(), self.run.lane.stream);
        // SAFETY: a `SinkState`.
        unsafe { device.fill(self.names[&format!("sink{sink}.state")], 0, SINK_STATE, stream)? };
        self.clear_text(sink)
    }

    /// Moves the first `rows` rows of a sink to the host.
    pub(super) fn flush(&mut self, sink: SinkId, rows: u64) -> Step {
        let results = &self.prepared().memory.results;
        let Some(number) = results.iter().position(|result| result.sink == sink) else {
            return Err(Failure::from(warpmill_ir::Unsupported::new(
                "rows",
                "copied to the host, of a sink that is not among the program's results",
            ))
            .into());
        };
        let result = &results[number];
        let flushed = if result.has_strings() {
            let (bytes, offsets) = self.run.copy_rows(result, rows, self.places)?;
            let text = self.copy_text(sink)?;
            self.run.flushed_bytes += (bytes.len() + text.bytes()) as u64;
            Flushed::Copied(Copied { result: number, rows, bytes, offsets, text })
        } else {
            let (rows, bytes) = self.run.copy_decoded(result, rows, self.places)?;
            self.run.flushed_bytes += bytes;
            Flushed::Decoded { result: number, rows }
        };
        self.run.flushed.push(flushed);
        if let Some(limit) = self.run.options.piece_bytes.filter(|limit| self.run.flushed_bytes > *limit) {
            return Err(Failure::HostRows { bytes: self.run.flushed_bytes, limit }.into());
        }
        self.run.profile.flushed_rows += rows;
        self.empty(sink)
    }

    /// Copies the strings of a sink to the host.
    fn copy_text(&mut self, sink: SinkId) -> Step<Mirrors> {
        let mut mirrors = Mirrors::default();
        if let Some(at) = self.prepared().memory.text_state(sink) {
            let words = self.states()?;
            let [_, used, size, base] = words[at as usize / 8..][..4] else { return Ok(mirrors) };
            let mut bytes = vec![0u8; used.min(size) as usize];
            let stream = self.run.lane.stream;
            // SAFETY: the sink's strings have room for as many bytes as its state says; the copy is waited for.
            unsafe { self.run.device().copy_to_host(&mut bytes, base, stream)? };
            self.run.device().synchronize(stream)?;
            let bytes = Arc::new(bytes);
            mirrors.add(base, &bytes, bytes.clone());
        }
        Ok(mirrors)
    }

    /// The number of rows that a split of a part of sink `id` should assume because its strings, of `bytes` bytes, did not fit. `rows` is its number
    /// of rows, 0 if unknown.
    pub(super) fn too_long(&self, id: SinkId, bytes: u64, rows: u64) -> Step<u64> {
        let prepared = self.prepared();
        let room = prepared.layouts()[id].partition().map_or(1, |partition| partition.room);
        if rows > 0 && !prepared.hints().row_text.contains_key(&id) {
            let mut hints = prepared.hints().clone();
            hints.row_text.insert(id, row_text(bytes, rows));
            return Err(Stop::Again(Box::new(hints)));
        }
        let had = prepared.memory.texts.iter().find(|(other, _)| *other == id).map_or(1, |(_, bytes)| *bytes);
        Ok(room.saturating_mul(bytes.div_ceil(had).clamp(2, 4)))
    }
}
