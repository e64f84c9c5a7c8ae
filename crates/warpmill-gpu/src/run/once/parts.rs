//! Runs of programs with sinks that are built in parts.
//!
//! A sink without parts is built once, and stays. A part is built when a pipeline that reads or probes the sink is run, for all parts one after the
//! other; that pipeline's own sink collects the rows of all of them. A pipeline that uses several such sinks is run for every combination of parts
//! that may have rows in common, and pipelines that feed a part may themselves use sinks in parts. Scans read only row segments that may have rows of
//! the parts: if a table is ordered by the keys, all parts together read the data about once.
//!
//! A part that turns out too large is split, as long as no pipeline has used it. The ranges are kept for the next run; if parts turn out much smaller
//! than expected, the next run has fewer ([`learn`]).

mod flush;
mod learn;
mod overlap;
mod state;

use std::collections::HashMap;

use warpmill_eval::ExecError;
use warpmill_ir::{AggregateExpr, Sink, SinkId};

use super::state::{Run, SinkWords};
use super::timings::Timings;
use crate::compile::generator::{HOSTED, HOSTED_BYTES, SLOT_BYTES, SLOTS};
use crate::compile::hints::Hints;
use crate::compile::kernel::{Kernel, Work};
use crate::compile::layout::{SinkLayout, Table, names};
use crate::compile::plan::{SINK_STATE, Stage};
use crate::compile::prepared::Prepared;
use crate::compile::program::Place;
use crate::compile::ranges::{MOST_PARTS, Range, RangeTest, expected};
use crate::compile::replay::Places;
use crate::compile::shares::Structure;
use crate::compile::source::{FROM, TO};
use crate::compile::{sort, top};
use crate::data::items::Descriptors;
use crate::data::row_segment::RowSegment;
use crate::data::stream::plan::StreamPlan;
use crate::memory::error::{Failure, Result};
use crate::run::launch;
use crate::run::options::Outcome;
use crate::run::profile::PartProfile;
use crate::run::prune::KeyBitmaps;
use state::{Divided, Parts, Step, Stop, row_text};

use super::piece::Piece;

/// Largest number of splits of a part: keys that are still together then are equal.
const MOST_CUTS: u32 = 12;

/// Largest number of parts that a split makes.
const MOST_PIECES: u64 = 64;

impl<'a> Run<'a> {
    /// Queues all kernels, those that feed parts once per part. Returns the timings, or hints for another run.
    pub(super) fn run_parts(
        &mut self,
        plan: &StreamPlan,
        places: &Places,
        inputs: HashMap<String, u64>,
    ) -> Result<Result<Timings<'a>, Box<Hints>>> {
        let prepared = self.prepared;
        let feed = self.feed(plan, places)?;
        let mut named = launch::names(prepared, places, inputs);
        named.insert(SLOTS.into(), feed.base());
        // Strings of parts are as short-lived as streamed ones: rows that are kept must copy them.
        named.insert(SLOT_BYTES.into(), plan.bytes() + prepared.memory.read_texts);
        named.insert(HOSTED.into(), places.hosted);
        named.insert(HOSTED_BYTES.into(), prepared.memory.host_text_bytes());
        self.place_texts(places, feed.base() + plan.bytes(), &mut named)?;
        let divided = prepared.layouts().iter().enumerate().filter_map(|(id, layout)| {
            let partition = *layout.partition()?;
            let known = prepared.ranges.lock().get(&id).cloned();
            let ranges = known.unwrap_or_else(|| expected(&partition));
            let what = if matches!(layout, SinkLayout::Build(_)) { "hash build" } else { "groups" };
            let profile = PartProfile { sink: id, what, parts: 0, made: 0, cut: 0, bytes: self.bytes_of_sink(id) };
            Some((id, Divided { partition, ranges, seen: 0, held: None, making: None, counts: vec![], profile }))
        });
        let divided = divided.collect();
        let structure =
            Structure { program: &prepared.program, layouts: prepared.layouts(), places: prepared.places() };
        let keys =
            prepared.program.pipelines.iter().map(|pipeline| overlap::keys(&prepared.program, pipeline)).collect();
        let (read, filled, passed) = Default::default();
        let timings = Timings::new(self.device());
        let mut parts = Parts {
            run: self,
            places,
            plan,
            feed,
            names: named,
            divided,
            structure,
            keys,
            timings,
            read,
            filled,
            made: 0,
            passed,
            again: 0,
        };
        let ended = parts.all();
        if ended.is_ok() {
            *prepared.learnt.lock() = parts.learnt();
        }
        let Parts { feed, divided, timings, again, .. } = parts;
        // Results are fetched in one go, or memory is reused; all copies must be complete.
        self.lane.synchronize()?;
        self.note_passed(feed, ended.is_ok())?;
        self.profile.bytes_again = again;
        let mut known = prepared.ranges.lock();
        for (id, divided) in divided {
            known.insert(id, divided.ranges.clone());
            let parts = divided.ranges.len() as u64;
            if parts > 1 {
                self.profile.parts.push(PartProfile { parts, ..divided.profile });
            }
        }
        self.profile.parts.sort_by_key(|part| part.sink);
        match ended {
            Ok(()) => Ok(Ok(timings)),
            Err(Stop::Again(hints)) => Ok(Err(hints)),
            Err(Stop::Failed(failure)) => Err(failure),
        }
    }
}

impl<'a> Parts<'_, 'a> {
    fn prepared(&self) -> &'a Prepared {
        self.run.prepared
    }

    /// Runs all pipelines; those that feed parts are run on demand.
    fn all(&mut self) -> Step {
        for index in 0..self.structure.places.len() {
            let Some(bundle) = self.bundle_ending_with(index) else { continue };
            let sink = self.structure.program.pipelines[index].sink;
            if self.divided.contains_key(&sink) {
                continue;
            }
            self.run_bundle(&bundle)?;
            let places = self.structure.places;
            if !self.structure.feeding(sink).any(|other| other > index && places[other] == Place::Device) {
                self.finish(sink)?;
                let words = self.states()?;
                self.check_host_text(sink, &words)?;
                if let Some(Outcome::Again(hints)) = self.run.check(&words)? {
                    return Err(Stop::Again(hints));
                }
            }
        }
        // Flush the remaining rows of sinks that flush.
        for (sink, rows) in std::mem::take(&mut self.filled) {
            if rows > 0 {
                self.flush(sink, rows)?;
            }
        }
        Ok(())
    }

    /// The build in parts whose rows are flagged when they find a partner, and the pipelines that must see the same part of it.
    fn flagged_by(&self, pipeline: usize) -> Option<(SinkId, Vec<usize>)> {
        let flagged = |id: &SinkId| self.divided.contains_key(id) && self.structure.is_flagged(*id);
        let id = self.structure.uses(pipeline).into_iter().find(flagged)?;
        Some((id, self.structure.using(id).collect()))
    }

    /// The pipelines that are run together and end with pipeline `index`; `None` if they end with another one, or the host runs it.
    fn bundle_ending_with(&self, index: usize) -> Option<Vec<usize>> {
        if self.structure.places[index] == Place::Host {
            return None;
        }
        match self.flagged_by(index) {
            Some((_, bundle)) => (bundle.last() == Some(&index)).then_some(bundle),
            None => Some(vec![index]),
        }
    }

    /// Runs pipelines for all parts of the sinks that they use.
    fn run_bundle(&mut self, bundle: &[usize]) -> Step {
        let Some((flagged, _)) = self.flagged_by(bundle[0]) else {
            let used = self.parts_used(bundle[0]);
            return self.combine(bundle[0], &used, &mut vec![]);
        };
        let mut number = 0;
        while number < self.divided[&flagged].ranges.len() {
            self.hold(flagged, number)?;
            for &pipeline in bundle {
                let others: Vec<SinkId> =
                    self.parts_used(pipeline).into_iter().filter(|&other| other != flagged).collect();
                self.combine(pipeline, &others, &mut vec![(flagged, number)])?;
            }
            number += 1;
        }
        Ok(())
    }

    /// The sinks in parts that a pipeline uses, the most expensive to build first.
    fn parts_used(&self, pipeline: usize) -> Vec<SinkId> {
        let mut used = self.structure.uses(pipeline);
        used.retain(|id| self.divided.contains_key(id));
        used.sort_by_key(|&id| std::cmp::Reverse(self.work(id)));
        used
    }

    /// Bytes of segments that are read to build sink `id`, without those of the sinks that its pipelines use.
    fn work(&self, id: SinkId) -> u64 {
        let kernels = self.prepared().kernels().iter().enumerate();
        let own = kernels.filter(|(_, kernel)| self.structure.program.pipelines[kernel.pipeline].sink == id);
        let rows = own.filter_map(|(index, _)| self.prepared().row_segments(index)).flatten();
        rows.flat_map(|row| row.columns).map(|chunk| chunk.bytes).sum()
    }

    /// Runs a pipeline for every combination of parts of `others` with the `chosen` ones.
    fn combine(&mut self, pipeline: usize, others: &[SinkId], chosen: &mut Vec<(SinkId, usize)>) -> Step {
        let Some((&id, others)) = others.split_first() else { return self.run_pipeline(pipeline, chosen) };
        let mut number = 0;
        // The loop may split parts.
        while number < self.divided[&id].ranges.len() {
            chosen.push((id, number));
            if self.may_meet(pipeline, chosen) {
                self.combine(pipeline, others, chosen)?;
            }
            chosen.pop();
            number += 1;
        }
        Ok(())
    }

    /// The index of the last pipeline that feeds sink `id`; its pipelines use only sinks with lower ranks.
    fn rank(&self, id: SinkId) -> usize {
        self.structure.feeding(id).last().unwrap_or(0)
    }

    fn run_pipeline(&mut self, pipeline: usize, chosen: &[(SinkId, usize)]) -> Step {
        // Building a part may evict parts of sinks that feed it, so higher ranks come first.
        let mut wanted = chosen.to_vec();
        wanted.sort_by_key(|&(id, _)| std::cmp::Reverse(self.rank(id)));
        for (id, number) in wanted {
            self.hold(id, number)?;
        }
        for kernel in self.kernels(|kernel| kernel.pipeline == pipeline && !kernel.finishes) {
            match self.prepared().row_segments(kernel) {
                Some(rows) => self.scan(kernel, rows)?,
                None => {
                    let Work::Rows(rows) = self.prepared().kernels()[kernel].work else { continue };
                    self.launch(kernel, Piece::Rows(0, rows))?;
                }
            }
        }
        Ok(())
    }

    fn kernels(&self, wanted: impl Fn(&Kernel) -> bool) -> Vec<usize> {
        let kernels = self.prepared().kernels().iter().enumerate();
        kernels.filter(|(_, kernel)| wanted(kernel)).map(|(index, _)| index).collect()
    }

    /// Builds part `number` of sink `id`, unless it is in memory.
    fn hold(&mut self, id: SinkId, number: usize) -> Step {
        let divided = &self.divided[&id];
        if divided.held == Some(divided.ranges[number]) {
            return Ok(());
        }
        let before = self.passed;
        let words = loop {
            self.make(id, number)?;
            let words = self.states()?;
            self.run.lane.synchronize()?;
            self.feed.settle()?;
            self.check_host_text(id, &words)?;
            let size = self.divided[&id].ranges[number].size;
            match self.too_many((id, size), &words)? {
                None => break words,
                Some(rows) => self.cut(id, number, rows)?,
            }
        };
        self.learn((id, number), &words, self.passed - before)?;
        let divided = self.divided.get_mut(&id).expect("a sink in parts");
        divided.held = Some(divided.ranges[number]);
        divided.seen = divided.seen.max(number + 1);
        Ok(())
    }

    /// Builds part `number` of sink `id`; it must not be used before its size has been checked.
    fn make(&mut self, id: SinkId, number: usize) -> Step {
        let divided = self.divided.get_mut(&id).expect("a sink in parts");
        let range = divided.ranges[number];
        (divided.held, divided.making) = (None, Some(range));
        divided.profile.made += 1;
        self.made += 1;
        if self.made > MOST_PARTS {
            let reason = format!("too little device memory: sinks would be made in more than {MOST_PARTS} parts");
            return Err(Failure::from(warpmill_ir::Unsupported::new("program", reason)).into());
        }
        for (name, value) in names(id).into_iter().zip([range.from, range.size]) {
            self.names.insert(name, value);
        }
        self.clear(id)?;
        let feeding: Vec<usize> = self.structure.feeding(id).collect();
        for index in feeding {
            if let Some(bundle) = self.bundle_ending_with(index) {
                self.run_bundle(&bundle)?;
            }
        }
        self.divided.get_mut(&id).expect("a sink in parts").making = None;
        self.finish(id)
    }

    /// Resets the buffers and states of sink `id`.
    fn clear(&mut self, id: SinkId) -> Step {
        let (device, stream) = (self.run.device(), self.run.lane.stream);
        let prefix = format!("sink{id}.");
        let buffers = self.prepared().memory.buffers.iter().zip(&self.places.buffers);
        for (buffer, &at) in buffers.filter(|(buffer, _)| buffer.name.starts_with(&prefix) && buffer.bytes > 0) {
            if let Some(value) = buffer.fill {
                // SAFETY: allocated with this size.
                unsafe { device.fill(at, value, buffer.bytes, stream)? };
            }
        }
        for name in [format!("sink{id}.state"), top::state(id), sort::state(id)] {
            // SAFETY: a `SinkState`.
            unsafe { device.fill(self.names[&name], 0, SINK_STATE, stream)? };
        }
        self.clear_text(id)
    }

    /// Fails if a value raised an error.
    fn check_values(&self, words: &[u64]) -> Result<()> {
        self.run.check_values(words)?;
        let memory = &self.prepared().memory;
        let own = memory.texts.iter().filter_map(|(id, _)| memory.text_state(*id));
        let on_host = memory.host_texts.iter().filter_map(|(id, _)| memory.host_text_state(*id));
        own.chain(on_host).try_for_each(|at| self.run.check_values(&words[at as usize / 8..]))
    }

    /// Queues the finishing kernels of sink `id`, after all pipelines that feed it.
    fn finish(&mut self, id: SinkId) -> Step {
        let pipelines = &self.structure.program.pipelines;
        for kernel in self.kernels(|kernel| kernel.finishes && pipelines[kernel.pipeline].sink == id) {
            self.queue(kernel, Descriptors::default())?;
        }
        Ok(())
    }

    /// The number of rows or groups in the part of sink `id`, with `size` key values, if they did not fit.
    fn too_many(&self, (id, size): (SinkId, u64), words: &[u64]) -> Step<Option<u64>> {
        self.check_values(words)?;
        let state = self.run.state(words, id, Stage::Own);
        if let Some(bytes) = self.full_text(id, words) {
            let rows = match &self.prepared().layouts()[id] {
                SinkLayout::Build(build) if build.table == Table::Bitmap => size,
                SinkLayout::Build(_) => state.count,
                _ => 0,
            };
            return self.too_long(id, bytes, rows).map(Some);
        }
        match &self.prepared().layouts()[id] {
            SinkLayout::Build(build) if build.table == Table::Bitmap => {
                if state.duplicate && !build.only_exists {
                    let mut hints = self.prepared().hints().clone();
                    hints.repeated_keys.push(id);
                    return Err(Stop::Again(Box::new(hints)));
                }
                Ok(None)
            }
            SinkLayout::Build(build) => {
                let over = state.count > build.capacity || state.overflow;
                Ok(over.then_some(state.count.max(build.capacity + 1)))
            }
            SinkLayout::Groups(groups) => {
                self.check_sums(id, &state)?;
                let room = groups.rows.capacity;
                // A full open-addressing table does not know the number of groups.
                let over = if state.overflow { Some(4 * room) } else { None };
                Ok(over.or((state.count > room).then_some(state.count)))
            }
            SinkLayout::Rows(_) => Ok(None),
        }
    }

    fn check_sums(&self, id: SinkId, state: &SinkWords) -> Result<()> {
        let Sink::Aggregate { aggregates, .. } = &self.structure.program.sinks[id] else { return Ok(()) };
        match aggregates.iter().filter_map(AggregateExpr::safe_rows).min() {
            Some(safe) if state.input > safe => Err(ExecError::NeedsWideSums { safe }.into()),
            _ => Ok(()),
        }
    }

    /// Splits part `number` of sink `id`, which had `rows` rows.
    fn cut(&mut self, id: SinkId, number: usize, rows: u64) -> Step {
        let mut hints = self.prepared().hints().clone();
        let divided = self.divided.get_mut(&id).expect("a sink in parts");
        let Range { from, size, cuts } = divided.ranges[number];
        let room = divided.partition.room;
        if size <= 1 || cuts >= MOST_CUTS || number < divided.seen {
            // A single key, or a hash table that overflowed by chance.
            hints.least_part.insert(id, rows.max(room + room / 2));
            return Err(Stop::Again(Box::new(hints)));
        }
        let pieces = (rows.saturating_mul(5) / 4).div_ceil(room.max(1)).clamp(2, MOST_PIECES).min(size);
        let step = size.div_ceil(pieces);
        let starts = (0..size.div_ceil(step)).map(|piece| piece * step);
        let smaller = starts.map(|at| Range { from: from + at, size: step.min(size - at), cuts: cuts + 1 });
        divided.ranges.splice(number..=number, smaller);
        divided.profile.cut += 1;
        Ok(())
    }

    /// Runs a kernel over the row segments that may have rows of the current parts.
    fn scan(&mut self, kernel: usize, rows: Vec<RowSegment<'_>>) -> Step {
        let prepared = self.prepared();
        let all: Vec<usize> = rows.iter().map(|row| row.number).collect();
        let mut bitmaps = KeyBitmaps::default();
        let stream = self.run.lane.stream;
        let mut rows = bitmaps.surviving(self.run.device(), stream, prepared, (kernel, rows), &self.names)?;
        if self.made == 0 {
            self.run.note_pruned(kernel, all, &rows);
        }
        for test in self.range_tests(prepared.kernels()[kernel].pipeline) {
            rows.retain(|row| test.may_pass(row.number));
        }
        let found = self.feed.find(prepared.kernels()[kernel].pipeline, &rows, &mut self.run.mirrors);
        self.passed += rows.iter().flat_map(|row| row.columns).map(|chunk| chunk.bytes).sum::<u64>();
        for row in &rows {
            if !self.read.insert((kernel, row.number)) {
                let travelling = row.columns.iter().filter(|chunk| !found.contains_key(&chunk.travels_as()));
                self.again += travelling.map(|chunk| chunk.read_bytes()).sum::<u64>();
            }
        }
        self.feed.expect(prepared, kernel, &rows);
        for batch in self.plan.batches(&rows, &found) {
            let columns = rows[batch.start].columns.len() as u64;
            let resident = self.run.resident.clone();
            let places = (&resident.places, &found);
            let arrival = self.feed.bring(self.run.lane, prepared, places, (kernel, &rows[batch]))?;
            self.launch(kernel, Piece::Segments(arrival.descriptors, columns))?;
            self.feed.release(self.run.lane, &arrival)?;
        }
        Ok(())
    }

    /// The range tests of the current parts on the columns of a pipeline's scan.
    fn range_tests(&self, pipeline: usize) -> Vec<RangeTest<'a>> {
        let sinks = (self.structure.program, self.structure.layouts);
        let mut tests = vec![];
        let sink = self.structure.program.pipelines[pipeline].sink;
        for (&id, divided) in &self.divided {
            let Some(range) = divided.held else { continue };
            tests.extend(RangeTest::of_probe(sinks, pipeline, id, range.values()));
        }
        // The part being built may restrict the scan only if no other sink needs the skipped rows.
        let pure = !self.structure.sets_flags(pipeline) && !self.structure.asks_for_nulls(sink);
        if pure && self.divided.contains_key(&sink) {
            let [from, size] = names(sink).map(|name| self.names[&name]);
            tests.extend(RangeTest::of_sink(sinks, pipeline, (from, size)));
        }
        tests
    }

    /// Runs a kernel over a piece of its input. If its sink flushes rows to the host and has no room left, the piece is run again after a flush, or
    /// in halves.
    fn launch(&mut self, kernel: usize, piece: Piece) -> Step {
        let sink = self.structure.program.pipelines[self.prepared().kernels()[kernel].pipeline].sink;
        let capacity = match &self.prepared().layouts()[sink] {
            SinkLayout::Rows(rows) if rows.flushes => rows.capacity,
            _ => return self.queue_piece(kernel, piece),
        };
        loop {
            self.queue_piece(kernel, piece)?;
            let words = self.states()?;
            self.check_values(&words)?;
            let count = self.run.state(&words, sink, Stage::Own).count;
            let text = self.full_text(sink, &words);
            if count <= capacity && text.is_none() {
                self.filled.insert(sink, count);
                return Ok(());
            }
            let before = self.filled.insert(sink, 0).unwrap_or(0);
            if before > 0 {
                self.flush(sink, before)?;
                continue;
            }
            self.empty(sink)?;
            let Some(halves) = piece.halves() else {
                let mut hints = self.prepared().hints().clone();
                hints.least_part.insert(sink, count);
                if let Some(bytes) = text {
                    hints.row_text.insert(sink, row_text(bytes, count));
                }
                return Err(Stop::Again(Box::new(hints)));
            };
            return halves.into_iter().try_for_each(|half| self.launch(kernel, half));
        }
    }

    fn queue_piece(&mut self, kernel: usize, piece: Piece) -> Step {
        match piece {
            Piece::Segments(descriptors, _) => self.queue(kernel, descriptors),
            Piece::Rows(from, to) => {
                self.names.insert(FROM.into(), from);
                self.names.insert(TO.into(), to);
                self.queue(kernel, Descriptors::default())
            }
        }
    }

    fn queue(&mut self, kernel: usize, descriptors: Descriptors) -> Step {
        let resident = self.run.resident.clone();
        let sink = self.structure.program.pipelines[self.prepared().kernels()[kernel].pipeline].sink;
        let state = self.places.states + self.prepared().memory.text_state(sink).unwrap_or(0);
        let at = (self.places.block, state, &*resident);
        let made = launch::launch(self.run.device(), self.prepared(), (kernel, descriptors), at, &self.names)?;
        if let Some(launch) = made {
            self.run.launch(&launch, &mut self.timings)?;
        }
        Ok(())
    }

    /// The states of all sinks, after all queued work.
    fn states(&mut self) -> Step<Vec<u64>> {
        let (device, stream) = (self.run.device(), self.run.lane.stream);
        let bytes = self.prepared().memory.read_bytes as usize;
        let memory = &mut self.run.lane.host(bytes)?[..bytes];
        // SAFETY: the states have this size; the memory is kept until the stream is synchronized.
        unsafe { device.copy_to_host(memory, self.places.states, stream)? };
        device.synchronize(stream)?;
        Ok(self.run.words())
    }
}
