//! One run of a program: memory, launches, checks, and the rows that the host continues with.

mod claims;
mod parts;
mod piece;
mod results;
mod shuffle;
mod sizes;
pub(super) mod state;
mod timings;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use warpmill_eval::ExecError;
use warpmill_ir::{AggregateExpr, Program, Sink};

use super::options::{ClaimUnit, DeviceOutput, Options, Outcome};
use crate::compile::generator::{SLOT_BYTES, SLOTS};
use crate::compile::layout::{SinkLayout, Table};
use crate::compile::replay::{Launch, Places};
use crate::data::form::{DataSource, is_scanned};
use crate::data::row_segment::RowSegment;
use crate::data::stream::plan::{SHARED_BATCH_BYTES, StreamPlan};
use crate::data::transfer::TransferProfile;
use crate::device::{Device, DevicePtr};
use crate::memory::error::{Failure, Result};
use crate::memory::lane::Lane;
use crate::memory::mirrors::Mirrors;
use state::{Flushed, Run, SinkWords};

use super::feed::Feed;
use super::inputs::{InputArray, Inputs};
use super::launch;
use super::profile::{DeviceProfile, ExchangeProfile, KernelProfile};
use super::prune::KeyBitmaps;
use super::shared::Shared;
use crate::compile::buffers::Buffer;
use crate::compile::plan::{QUERY_STATE, SINK_STATE, Stage};
use crate::compile::prepared::Prepared;
use crate::data::items::{Descriptors, Resident};
use crate::memory::regions::{Owner, aligned};

use claims::nearest_first;
use timings::Timings;

impl<'a> Run<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        lane: &'a mut Lane,
        (asked, prepared): (&'a Arc<Program>, &'a Arc<Prepared>),
        resident: Arc<Resident>,
        options: &'a Options,
        profile: DeviceProfile,
    ) -> Self {
        let (program, mirrors, started) = (&prepared.program, Mirrors::default(), Instant::now());
        let (profiled, flushed, flushed_bytes, claims) = Default::default();
        Self {
            shared,
            lane,
            program,
            asked,
            prepared,
            resident,
            options,
            mirrors,
            texts: vec![],
            profile,
            profiled,
            flushed,
            flushed_bytes,
            claims,
            started,
        }
    }

    fn device(&self) -> &'a dyn Device {
        &*self.shared.store.device
    }

    pub(super) fn run(mut self, inputs: &Inputs) -> Result<Outcome> {
        self.options.cancel.check()?;
        let places = self.allocate()?;
        let names = self.upload(inputs)?;
        let timings = match &self.prepared.stream {
            Some(stream) if self.prepared.hints().makes_parts() => match self.run_parts(stream, &places, names)? {
                Ok(timings) => timings,
                Err(hints) => return Ok(Outcome::Again(hints)),
            },
            _ => self.launch_all(&places, names)?,
        };
        let host = self.queue_results(&places)?;
        self.profile.queue_nanos = self.started.elapsed().as_nanos() as u64;
        self.device().synchronize(self.lane.stream)?;
        let synchronized = self.started.elapsed().as_nanos() as u64;
        self.profile.sync_nanos = synchronized - self.profile.queue_nanos;
        self.read_timings(&timings)?;
        let words = self.words();
        if let Some(outcome) = self.check(&words)? {
            return Ok(outcome);
        }
        if let Some(end) = &self.options.shuffle {
            return self.shuffle(end, &words, (&places, &host));
        }
        self.count_sizes(&words);
        let placed = self.fetch(&words, &places, &host)?;
        self.profile.device_nanos = self.started.elapsed().as_nanos() as u64;
        self.profile.fetch_nanos = self.profile.device_nanos - synchronized;
        self.profile.processing_bytes = self.lane.region.used();
        self.profile.mapped_bytes = self.prepared.memory.on_host();
        self.profile.cached_bytes = self.shared.store.cache.lock().used() + self.shared.store.kept.lock().held();
        let mirrored = self.options.data == DataSource::Mirrored;
        self.profile.mirror = mirrored.then(|| self.shared.store.mirror.lock().profile());
        let program = self.program.clone();
        let mut owners = self.mirrors.owners;
        owners.extend(self.flushed.into_iter().flat_map(Flushed::owners));
        owners.extend(self.texts.into_iter().map(|texts| texts as Owner));
        owners.push(self.resident);
        Ok(Outcome::Done(Box::new(DeviceOutput { program, placed, owners, host_bytes: 0, profile: self.profile })))
    }

    /// Allocates and initializes constants, states and buffers.
    fn allocate(&mut self) -> Result<Places> {
        let (device, stream, plan) = (self.device(), self.lane.stream, &self.prepared.memory);
        let block = self.lane.region.allocate(plan.block_bytes)?;
        let states = block + plan.states_at;
        let mut on_host = match plan.on_host() {
            0 => 0,
            bytes => self.lane.map(
                &self.shared.store.mapped,
                bytes,
                self.shared.room_on_host(self.options.pinned_memory_limit),
            )?,
        };
        let region = &mut self.lane.region;
        let place = |buffer: &Buffer| {
            if !buffer.on_host {
                return region.allocate(buffer.bytes);
            }
            let at = on_host;
            on_host += aligned(buffer.bytes);
            Ok(at)
        };
        let buffers: Vec<DevicePtr> = plan.buffers.iter().map(place).collect::<Result<_>>()?;
        let hosted = on_host;
        let arena = if plan.arena > 0 { region.allocate(plan.arena)? } else { 0 };
        let mut image = self.prepared.constants.image(block);
        image.resize(plan.block_bytes as usize, 0);
        let arena_at = plan.states_at as usize + 16;
        image[arena_at..arena_at + 8].copy_from_slice(&plan.arena.to_le_bytes());
        image[arena_at + 8..arena_at + 16].copy_from_slice(&arena.to_le_bytes());
        // SAFETY: just allocated with this size.
        unsafe { device.copy_to_device(block, &image, stream)? };
        self.mirrors.add(block, self.prepared.constants.bytes(), self.prepared.clone());
        let places = Places { block, states, arena, hosted, buffers };
        self.fill(&places)?;
        Ok(places)
    }

    /// Fills buffers, adjacent ones by one call.
    fn fill(&self, places: &Places) -> Result<()> {
        let mut fills: Vec<(DevicePtr, u64, u8)> = vec![];
        for (buffer, &at) in self.prepared.memory.buffers.iter().zip(&places.buffers) {
            let Some(value) = buffer.fill.filter(|_| buffer.bytes > 0) else { continue };
            match fills.last_mut() {
                Some((start, bytes, same))
                    if *same == value && *start + aligned(*bytes) == at && self.lane.region.together(*start, at) =>
                {
                    *bytes = at + buffer.bytes - *start;
                }
                _ => fills.push((at, buffer.bytes, value)),
            }
        }
        for (at, bytes, value) in fills {
            // SAFETY: allocated; gaps between two buffers are unused.
            unsafe { self.device().fill(at, value, bytes, self.lane.stream)? };
        }
        Ok(())
    }

    /// Uploads input rows and constant rows; returns the addresses and counts by name.
    fn upload(&mut self, inputs: &Inputs) -> Result<HashMap<String, u64>> {
        let mut names = HashMap::new();
        for (owner, rows, arrays) in &inputs.sources {
            let (device, stream, region) = (&*self.shared.store.device, self.lane.stream, &mut self.lane.region);
            for array in arrays {
                names.insert(array.name().into(), array.upload(device, stream, region, &mut self.mirrors)?);
            }
            names.insert(format!("{owner}.count"), *rows);
            let bytes = arrays.iter().map(InputArray::bytes).sum();
            let what = if inputs.shuffled.is_some() { "rows from other devices" } else { "rows to the device" };
            self.profile.transfers.push(TransferProfile { what, bytes, count: arrays.len() as u64, nanos: 0 });
        }
        self.texts.clone_from(&inputs.texts);
        inputs.shuffled.iter().for_each(|moved| self.profile.add_exchange(moved.clone()));
        Ok(names)
    }

    /// Queues all kernels; returns their timings.
    fn launch_all(&mut self, places: &Places, inputs: HashMap<String, u64>) -> Result<Timings<'a>> {
        let (device, prepared, resident) = (self.device(), self.prepared, self.resident.clone());
        if let Some(stream) = &prepared.stream {
            return self.launch_streamed(stream, places, inputs);
        }
        if self.options.shared.is_some() {
            return self.launch_claimed(places, inputs);
        }
        // Input rows are at other addresses each time.
        let again = inputs.is_empty();
        let found = again.then(|| prepared.replays.find(places, &resident)).flatten();
        let (replay, made);
        let launches: &[Launch] = match found {
            Some(found) => {
                replay = found;
                &replay.launches
            }
            None => {
                let names = launch::names(prepared, places, inputs);
                made = launch::launches(device, prepared, &resident, places, &names)?;
                if again {
                    replay = prepared.replays.keep(places.clone(), resident, made);
                    &replay.launches
                } else {
                    &made
                }
            }
        };
        let mut timings = Timings::new(device);
        for launch in launches {
            self.launch(launch, &mut timings)?;
        }
        Ok(timings)
    }

    /// Queues all kernels of a program that shares a scan with other sites.
    fn launch_claimed(&mut self, places: &Places, inputs: HashMap<String, u64>) -> Result<Timings<'a>> {
        let (device, prepared, resident) = (self.device(), self.prepared, self.resident.clone());
        let names = launch::names(prepared, places, inputs);
        let at = (places.block, places.states, &*resident);
        let mut timings = Timings::new(device);
        for kernel in 0..prepared.kernels().len() {
            let segments = self.resident_descriptors(kernel, &resident)?;
            let made = launch::launch(device, prepared, (kernel, segments), at, &names)?;
            made.map(|launch| self.launch(&launch, &mut timings)).transpose()?;
        }
        Ok(timings)
    }

    /// Queues all kernels, once per batch, while batches arrive.
    fn launch_streamed(
        &mut self,
        plan: &StreamPlan,
        places: &Places,
        inputs: HashMap<String, u64>,
    ) -> Result<Timings<'a>> {
        let (device, prepared, resident) = (self.device(), self.prepared, self.resident.clone());
        let mut feed = self.feed(plan, places)?;
        let mut names = launch::names(prepared, places, inputs);
        names.insert(SLOTS.into(), feed.base());
        names.insert(SLOT_BYTES.into(), plan.bytes());
        let at = (places.block, places.states, &*resident);
        let mut timings = Timings::new(device);
        let mut bitmaps = KeyBitmaps::default();
        self.claim_first(&feed);
        for kernel in 0..prepared.kernels().len() {
            let Some(rows) = prepared.row_segments(kernel) else {
                let made = launch::launch(device, prepared, (kernel, Descriptors::default()), at, &names)?;
                made.map(|launch| self.launch(&launch, &mut timings)).transpose()?;
                continue;
            };
            let all: Vec<usize> = rows.iter().map(|row| row.number).collect();
            let rows = bitmaps.surviving(device, self.lane.stream, prepared, (kernel, rows), &names)?;
            self.note_pruned(kernel, all, &rows);
            let mut rows = rows;
            let found = feed.find(prepared.kernels()[kernel].pipeline, &rows, &mut self.mirrors);
            if self.shared_by(kernel).is_some() || self.options.data == DataSource::Mirrored {
                nearest_first(&mut rows, &found);
            }
            let places = (&resident.places, &found);
            if !self.takes_part(kernel, &rows, &found) {
                continue;
            }
            feed.expect(prepared, kernel, &rows);
            let shared = self.shared_by(kernel);
            let batches = match shared.map(|shared| shared.unit) {
                Some(ClaimUnit::Segments) => (0..rows.len()).map(|row| row..row + 1).collect(),
                Some(_) => plan.batches_of(SHARED_BATCH_BYTES, &rows, &found),
                None => plan.batches(&rows, &found),
            };
            for batch in batches {
                if shared.is_some() {
                    // Claims as late as possible.
                    feed.wait_for_slot(self.lane.stream)?;
                }
                let batch = self.claimed(kernel, &rows[batch]);
                if batch.is_empty() {
                    continue;
                }
                let arrival = feed.bring(self.lane, prepared, places, (kernel, &batch))?;
                let made = launch::launch(device, prepared, (kernel, arrival.descriptors), at, &names)?;
                made.map(|launch| self.launch(&launch, &mut timings)).transpose()?;
                feed.release(self.lane, &arrival)?;
            }
            self.claim_others(kernel, &rows);
        }
        // Results are fetched in one go; their sizes are known after the copy of the states.
        self.device().synchronize(self.lane.stream)?;
        self.note_passed(feed, true)?;
        Ok(timings)
    }

    /// The source of streamed data.
    fn source(&self) -> DataSource {
        match self.options.data.passing() {
            // Page-locked copies of external files are not kept: the files may change.
            DataSource::Pinned if is_scanned(&self.prepared.program) => DataSource::Host,
            other => other,
        }
    }

    /// Records the work of `feed` in the profile, once it is done; `whole`: it covers the whole program.
    fn note_passed(&mut self, feed: Feed<'_>, whole: bool) -> Result<()> {
        let (found, kept) = feed.kept();
        if let (Some((planned, traffic, count)), Some(reads)) = (feed.exchanged(), &self.options.reads) {
            let (what, bytes) = ("data from other devices", traffic.total());
            self.profile.add_transfer(TransferProfile { what, bytes, count, nanos: 0 });
            let staged_links = reads.group().staged_links();
            self.profile.exchange = Some(ExchangeProfile { planned, traffic, staged_links });
        }
        let (transfers, measured) = feed.profile()?;
        self.profile.transfers.extend(transfers);
        if let Some(path) = &mut self.profile.path {
            path.measured = Some(measured.stages());
            (path.found_bytes, path.kept_bytes) = (found, kept);
        }
        // Copies of such a run share the link and the host's memory with kernels that access host memory, or with rows on their way back: the
        // measured rates are not representative.
        let shared = self.prepared.memory.on_host() > 0 || self.options.piece_bytes.is_some() && self.flushed_bytes > 0;
        // Bytes from other devices did not use the link to the host.
        let from_others = self.profile.exchange.as_ref().is_some_and(|exchange| exchange.traffic.total() > 0);
        // The time of a part does not represent the program.
        if !shared && !from_others && self.options.shared.is_none() {
            let place = (self.source(), self.options.io_bandwidth_limit);
            self.shared.paths.learn(self.asked, &self.prepared.forms, place, (&measured, whole));
        }
        Ok(())
    }

    /// Prepares the streaming of segments.
    fn feed(&mut self, plan: &StreamPlan, places: &Places) -> Result<Feed<'a>> {
        let source = self.source();
        let texts = self.prepared.memory.texts.iter().map(|(_, bytes)| bytes).sum();
        let mut feed = Feed::new(self.shared, plan, self.lane, (source, self.options), places.states, texts)?;
        // The other sources are copied for every run by definition.
        match self.options.data {
            DataSource::Cache => feed.keep(self.prepared),
            DataSource::Mirrored => feed.mirror(self.prepared, self.lane, self.options)?,
            DataSource::Pinned | DataSource::Host | DataSource::Disk => {}
        }
        Ok(feed)
    }

    /// Bytes of the buffers of sink `id`.
    fn bytes_of_sink(&self, id: usize) -> u64 {
        crate::compile::buffers::bytes_of_sink(id, &self.prepared.layouts()[id])
    }

    /// Records in the profile that kernel `kernel` skips the row segments in `all` that are not in `rows`.
    fn note_pruned(&mut self, kernel: usize, all: Vec<usize>, rows: &[RowSegment<'_>]) {
        let prepared = self.prepared;
        let pipeline = prepared.kernels()[kernel].pipeline;
        let profile = self.profile.scans.iter_mut().find(|scan| scan.pipeline == pipeline);
        let (Some(profile), Some(scan)) = (profile, prepared.scan(kernel)) else { return };
        let kept: HashSet<usize> = rows.iter().map(|row| row.number).collect();
        for segment in all.into_iter().filter(|segment| !kept.contains(segment)) {
            let left = prepared.scans[&pipeline].selected.left(&scan.table, segment);
            profile.pruning.segment_ruled_out_by_keys(left);
        }
    }

    /// Queues a kernel, timed by `timings` if profiling is on.
    fn launch(&mut self, launch: &Launch, timings: &mut Timings<'_>) -> Result<()> {
        self.options.cancel.check()?;
        let (device, prepared, stream) = (self.device(), self.prepared, self.lane.stream);
        let (kernel, function) = (&prepared.kernels()[launch.kernel], prepared.function(launch.kernel));
        let fresh = self.profile.kernels.len();
        let position = *self.profiled.entry(launch.kernel).or_insert(fresh);
        if position == fresh {
            self.profile.kernels.push(KernelProfile {
                label: kernel.label.clone(),
                pipeline: kernel.pipeline,
                shape: (launch.shape.blocks, launch.shape.threads),
                registers: function.registers,
                local: function.local,
                ..KernelProfile::default()
            });
        }
        let queue = || {
            // SAFETY: every address in the parameters was allocated for this run or lies in the cache, with the sizes of the layouts from which the
            // kernel was generated.
            unsafe { device.launch(function, launch.shape, &launch.params, stream).map_err(Failure::from) }
        };
        if self.options.profile {
            timings.time(position, stream, queue)?
        } else {
            queue()?
        }
        let profile = &mut self.profile.kernels[position];
        profile.bytes += launch.bytes;
        profile.launches += 1;
        Ok(())
    }

    /// The states of all sinks. All work is done.
    fn words(&self) -> Vec<u64> {
        let bytes = self.lane.host.as_deref().unwrap_or_default();
        let states = &bytes[..self.prepared.memory.read_bytes as usize];
        states.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }

    fn read_timings(&mut self, timings: &Timings<'_>) -> Result<()> {
        let peak = if timings.is_empty() { None } else { self.shared.peak_bandwidth() };
        for (kernel, ms) in timings.read()? {
            self.profile.kernels[kernel].nanos += (f64::from(ms) * 1e6) as u64;
        }
        for profile in &mut self.profile.kernels {
            if profile.bytes > 0 && profile.nanos > 0 {
                profile.peak_fraction = peak.map(|peak| profile.bytes as f64 * 1e9 / profile.nanos as f64 / peak);
            }
        }
        Ok(())
    }

    /// Fails if a value raised an error.
    fn check_values(&self, words: &[u64]) -> Result<()> {
        match words[0] as u32 {
            0 => Ok(()),
            error => Err(Failure::Value(error)),
        }
    }

    /// Evaluates the states: continue (`None`), run again with new hints, or fail.
    fn check(&self, words: &[u64]) -> Result<Option<Outcome>> {
        self.check_values(words)?;
        let mut hints = self.prepared.hints().clone();
        if words[0] >> 32 != 0 {
            hints.capacity.insert(usize::MAX, words[1] + words[1] / 4);
        }
        for (id, layout) in self.prepared.layouts().iter().enumerate() {
            let state = self.state(words, id, Stage::Own);
            // At least twice the last guess, so that guesses always grow.
            let twice = 2 * hints.capacity.get(&id).copied().unwrap_or(0);
            if layout.partition().is_some() {
                // Parts are checked one by one when they are made.
                continue;
            }
            match layout {
                SinkLayout::Build(build) => {
                    if build.table == Table::Bitmap {
                        if state.duplicate && !build.only_exists {
                            hints.repeated_keys.push(id);
                        }
                    } else if state.overflow {
                        hints.capacity.insert(id, state.count.max(2 * build.capacity).max(twice));
                    } else if state.count > build.capacity {
                        hints.capacity.insert(id, state.count.max(2 * build.capacity));
                    } else if build.order.is_some() && self.state(words, id, Stage::Sorted).overflow {
                        hints.more_text(id);
                    }
                }
                SinkLayout::Groups(groups) => {
                    if state.overflow {
                        let members = if groups.distinct.is_empty() { 0 } else { groups.distinct_slots / 2 };
                        let room = groups.rows.capacity.max(groups.cells).max(members);
                        hints.capacity.insert(id, (2 * room).max(twice));
                    } else if state.count > groups.rows.capacity {
                        hints.capacity.insert(id, state.count);
                    } else if let Sink::Aggregate { aggregates, .. } = &self.program.sinks[id]
                        && let Some(safe) = aggregates.iter().filter_map(AggregateExpr::safe_rows).min()
                        && state.input > safe
                    {
                        return Err(ExecError::NeedsWideSums { safe }.into());
                    }
                }
                SinkLayout::Rows(rows) => {
                    if state.count > rows.capacity {
                        hints.capacity.insert(id, state.count);
                    } else if let Some(top) = &rows.top
                        && self.state(words, id, Stage::First).count > top.rows.capacity
                    {
                        hints.all_rows.push(id);
                    } else if (rows.sorted.is_some() || rows.window.is_some() || rows.grouped.is_some())
                        && self.state(words, id, Stage::Sorted).overflow
                    {
                        hints.more_text(id);
                    }
                }
            }
        }
        Ok((hints != *self.prepared.hints()).then(|| Outcome::Again(Box::new(hints))))
    }

    /// The state of stage `stage` of sink `id`.
    fn state(&self, words: &[u64], id: usize, stage: Stage) -> SinkWords {
        SinkWords::of(words, stage as usize * self.program.sinks.len() + id)
    }
}

impl SinkWords {
    /// The state at index `number`.
    fn of(words: &[u64], number: usize) -> Self {
        let at = ((QUERY_STATE + SINK_STATE * number as u64) / 8) as usize;
        Self {
            count: words[at],
            duplicate: words[at + 1] >> 32 != 0,
            overflow: words[at + 2] as u32 != 0,
            input: words[at + 3],
            taken: words[at + 4],
        }
    }
}
