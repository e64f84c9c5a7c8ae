//! Streamed data: segments that do not fit device memory, or are not to be kept there.
//!
//! Row segments are copied in batches to a few slots of the processing region. While a kernel reads one slot, the next batch is copied to another,
//! and the host prepares the one after that: the pipelines of GOLAP (Boeschen et al., section 4), with fixed buffers. Copies have their own stream,
//! ordered by events; the host waits only for page-locked memory that it is about to refill.
//!
//! `plan` cuts scans into batches, `head` lays out a slot, `open` and `batches` decompress in a slot (all in [`crate::data::stream`]). `ready` and
//! `disk` bring data into page-locked memory, `ahead` prefetches remote files, `keep` retains chunks; `mirrored` finds copies on this device,
//! `remote` copies on others.

mod ahead;
mod keep;
mod mirrored;
mod ready;
mod remote;

use std::time::{Duration, Instant};

use super::copies::Ready;
use super::options::Options;
use crate::data::batch_spec::Wanted;
use crate::data::form::DataSource;
use crate::data::paths::measured::Measured;
use crate::data::row_segment::RowSegment;
use crate::data::slot::{Found, Part, chunks};
use crate::data::transfer::TransferProfile;
use crate::device::batch::BatchFormat;
use crate::device::exchange::Traffic;
use crate::device::{DevicePtr, Event, Stream};
use crate::memory::error::{Failure, Result};
use crate::memory::lane::Lane;
use crate::memory::mirrors::Mirrors;

use super::disk::{self, Files};
use super::shared::Shared;
use crate::compile::prepared::Prepared;
use crate::data::chunks::Chunk;
use crate::data::items::Descriptors;
use crate::data::parquet;
use crate::data::segments::{COMPRESSED, EXPANSION};
use crate::memory::regions::KeyMap;

use crate::data::stream::batches::{Batches, PAGE_ENTRY, Scratch};
use crate::data::stream::head::{
    Group, batched_pages, compressed, copied_bytes, expansions, head_bytes, place, places_in_head, slot_bytes,
};
use crate::data::stream::open::Openers;
use crate::data::stream::plan::StreamPlan;
use ahead::Ahead;
use keep::Keeper;
use mirrored::Mirrored;
use ready::{Throttle, fill, pinned};
use remote::Remote;

/// A slot of a run.
struct Slot {
    at: DevicePtr,
    /// Event after its last copy: then its page-locked memory can be refilled.
    copied: Option<Event>,
    /// Event after the last kernel that reads it.
    read: Option<Event>,
}

/// Streams the batches of a run to the device.
pub struct Feed<'a> {
    shared: &'a Shared,
    source: DataSource,
    throttle: Throttle,
    files: Files,
    /// Byte limit of all page-locked copies; `None` once a copy had no room: this run makes no more.
    pinned_limit: Option<u64>,
    /// The program's `QueryState`, which receives errors of damaged data.
    state: DevicePtr,
    base: DevicePtr,
    slot_bytes: u64,
    scratch: Scratch,
    slots: Vec<Slot>,
    next: usize,
    /// Begin, end and bytes of each copy.
    copies: Vec<(Event, Event, u64)>,
    /// Events of each batch: copied, decompressed, kernels done.
    work: Vec<[Event; 3]>,
    /// The first two events of the batch whose kernels are being queued.
    arrived: Option<[Event; 2]>,
    transfer: TransferProfile,
    /// The host's work of preparing batches.
    filling: TransferProfile,
    /// Measurements for the cost model.
    measured: Measured,
    started: Instant,
    openers: Option<Openers>,
    /// Keeps chunks; `None` if nothing is to be kept.
    keeper: Option<Keeper<'a>>,
    /// Finds mirrored copies; `None` if data is not mirrored.
    mirrored: Option<Mirrored<'a>>,
    /// Finds copies on other devices; `None` if they have none for this run.
    remote: Option<Remote<'a>>,
    /// Whether batches are prepared while kernels run.
    overlap: bool,
    /// Prefetches remote files for the batches of a kernel.
    ahead: Option<Ahead>,
}

/// A batch whose copy is queued; work queued on the lane's stream from now on finds it.
pub struct Arrival {
    slot: usize,
    /// Descriptors of its row segments.
    pub descriptors: Descriptors,
}

impl<'a> Feed<'a> {
    /// Allocates the slots of a run, and `behind` bytes right behind them for other uses.
    ///
    /// # Errors
    /// The device's, if there is no room for them.
    pub fn new(
        shared: &'a Shared,
        plan: &StreamPlan,
        lane: &mut Lane,
        (source, options): (DataSource, &Options),
        state: DevicePtr,
        behind: u64,
    ) -> Result<Self> {
        let mut slots = vec![];
        let bytes = plan.bytes() + behind;
        let base = if bytes > 0 { lane.region.allocate(bytes)? } else { 0 };
        if plan.slots > 0 {
            // One range, by which kernels recognize strings that must be copied.
            slots.extend((0..plan.slots).map(|slot| Slot {
                at: base + slot * plan.slot_bytes,
                copied: None,
                read: None,
            }));
            let staging = match source {
                DataSource::Pinned if options.pinned_memory_limit == 0 => plan.descriptor_bytes,
                DataSource::Disk => plan.slot_bytes + (plan.segments + 1) * disk::SLACK,
                DataSource::Cache | DataSource::Mirrored | DataSource::Host | DataSource::Pinned => plan.slot_bytes,
            };
            lane.staging(plan.slots as usize, staging as usize)?;
        }
        let filling = TransferProfile { what: source.filling(), ..TransferProfile::default() };
        let transfer = TransferProfile { what: source.transfer(), ..TransferProfile::default() };
        let openers = plan.opens.then(|| shared.openers()).transpose()?;
        // One-time work is done by now.
        let started = Instant::now();
        let throttle = Throttle { limit: options.io_bandwidth_limit, started, bytes: 0 };
        let (next, copies, work, arrived, measured) = (0, vec![], vec![], None, Measured::default());
        Ok(Self {
            shared,
            source,
            throttle,
            files: Files::default(),
            pinned_limit: Some(match options.pinned_memory_limit {
                0 => u64::MAX,
                limit => limit.saturating_sub(shared.store.mapped.bytes()),
            }),
            state,
            base,
            slot_bytes: plan.slot_bytes,
            scratch: plan.scratch,
            slots,
            next,
            copies,
            work,
            arrived,
            transfer,
            filling,
            measured,
            started,
            openers,
            keeper: None,
            mirrored: None,
            remote: None,
            overlap: options.overlap,
            ahead: None,
        })
    }

    /// Enables lookup of `prepared`'s data in the caching region, and keeping of chunks for which there is room.
    pub fn keep(&mut self, prepared: &Prepared) {
        self.keeper = Some(Keeper::new(self.shared, prepared));
    }

    /// Enables lookup of mirrored copies, also on other devices if `options` name them, and records for the policy what `prepared` reads.
    ///
    /// # Errors
    /// The device's.
    pub fn mirror(&mut self, prepared: &Prepared, lane: &mut Lane, options: &'a Options) -> Result<()> {
        let (mirror, threads) = (options.mirror, options.host_threads);
        self.mirrored = Some(Mirrored::new(self.shared, prepared, (mirror, options.reads.as_ref()), threads));
        if let Some(reads) = &options.reads {
            let copies = (&*self.shared.store.device, lane.copies()?);
            self.remote = Some(Remote::new(reads, prepared, copies));
        }
        Ok(())
    }

    /// The addresses of chunks of these row segments of `pipeline` that need no copy. Host originals of their strings are added to `mirrors`.
    pub fn find(&mut self, pipeline: usize, rows: &[RowSegment<'_>], mirrors: &mut Mirrors) -> Found {
        match (&mut self.mirrored, &mut self.keeper) {
            (Some(mirrored), _) => {
                let is_whole = self.remote.as_ref().is_some_and(|remote| remote.is_whole(pipeline));
                let found = mirrored.find((pipeline, is_whole), rows, mirrors);
                self.remote.iter_mut().for_each(|remote| remote.find(pipeline, rows, &found));
                found
            }
            (None, Some(keeper)) => keeper.find(rows, mirrors),
            (None, None) => Found::default(),
        }
    }

    /// The addresses of mirrored copies of these row segments, without recording a read.
    pub fn look(&self, rows: &[RowSegment<'_>]) -> Found {
        self.mirrored.as_ref().map_or_else(Found::default, |mirrored| mirrored.look(rows))
    }

    /// Bytes found in device memory, and bytes newly kept there.
    pub fn kept(&self) -> (u64, u64) {
        let found = self.mirrored.as_ref().map_or(0, |mirrored| mirrored.found);
        self.keeper.as_ref().map_or((found, 0), |keeper| (keeper.found, keeper.kept))
    }

    /// Planned and actual traffic from other devices, and the number of copies; `None` if data is not read from other devices.
    pub fn exchanged(&self) -> Option<(Traffic, Traffic, u64)> {
        self.remote.as_ref().map(|remote| (remote.planned.clone(), remote.traffic.clone(), remote.copies))
    }

    /// The address of the first slot.
    pub fn base(&self) -> DevicePtr {
        self.base
    }

    /// Starts to prefetch the remote columns of these row segments of kernel `kernel`, in the order in which they will be brought.
    pub fn expect(&mut self, prepared: &Prepared, kernel: usize, rows: &[RowSegment<'_>]) {
        // The previous prefetch ends first, and frees its memory.
        self.ahead = None;
        let scan = prepared.scans.get(&prepared.kernels()[kernel].pipeline);
        self.ahead = scan.filter(|scan| scan.rows.to_come).and_then(|_| Ahead::of(rows));
    }

    /// Waits until the copies to the next slot are done, so that [`Feed::bring`] need not wait.
    ///
    /// # Errors
    /// The device's.
    pub fn wait_for_slot(&mut self, stream: Stream) -> Result<()> {
        let device = &*self.shared.store.device;
        if !self.overlap {
            device.synchronize(stream)?;
        }
        if let Some(copied) = self.slots.get_mut(self.next).and_then(|slot| slot.copied.take()) {
            device.finish(copied)?;
            device.destroy_event(copied);
        }
        Ok(())
    }

    /// Copies row segments of kernel `kernel` to the next slot. `kept` has the addresses of dictionaries, `found` those of chunks that need no copy.
    ///
    /// # Errors
    /// The device's; unreadable data.
    pub fn bring(
        &mut self,
        lane: &mut Lane,
        prepared: &Prepared,
        (kept, found): (&KeyMap<DevicePtr>, &Found),
        (kernel, rows): (usize, &[RowSegment<'_>]),
    ) -> Result<Arrival> {
        let (asked, waiting) = (rows, Instant::now());
        let opened = self.ahead.as_ref().map(|ahead| ahead.open(rows)).transpose()?;
        let read = opened.as_ref().map(|columns| {
            rows.iter().zip(columns).map(|(row, columns)| RowSegment { columns, ..*row }).collect::<Vec<_>>()
        });
        let rows = read.as_deref().unwrap_or(rows);
        if read.is_some() {
            self.measured.read += waiting.elapsed();
            // Network time does not depend on forms.
            self.measured.first = true;
            // Actual sizes may exceed the footer's: never write beyond a slot.
            if slot_bytes(rows, found) > self.slot_bytes {
                return Err(Failure::Unforeseen);
            }
        }
        self.wait_for_slot(lane.stream)?;
        let number = self.next;
        self.next = (number + 1) % self.slots.len();
        let device = &*self.shared.store.device;
        let at = self.slots[number].at;
        let mut places = kept.clone();
        let (parts, stored) = place(rows, (self.source, found), at, &mut places);
        let (parts, elsewhere) = match &self.remote {
            Some(remote) => remote.split(parts),
            None => (parts, vec![]),
        };
        let (mut descriptors, columns, counts) = prepared.describe(kernel, rows, &places)?;
        let [counts_at, expansions_at, compressed_at, parquet_at, pages_at] = places_in_head(rows);
        (descriptors.columns, descriptors.rows) = (at, at + counts_at as u64);
        let (expansions, vectors) = expansions(&stored, &places)?;
        let (compressed, groups) = compressed(&stored, &places)?;
        let (batched, formats) = batched_pages(&stored, &places)?;
        let pages = stored.iter().map(|(chunk, stored)| (&***chunk, *stored));
        let (tasks, pages) = parquet::describe(pages, &places)?;
        let head = [
            (0, &columns),
            (counts_at, &counts),
            (expansions_at, &expansions),
            (compressed_at, &compressed),
            (parquet_at, &tasks),
            (pages_at, &batched),
        ];
        let started = Instant::now();
        let staging = &mut lane.staging[number][..];
        head.iter().for_each(|(start, bytes)| staging[*start..start + bytes.len()].copy_from_slice(bytes));
        let ready = self.make_ready(staging, head_bytes(rows), &parts)?;
        if let Some(ahead) = &self.ahead {
            ahead.written(asked);
        }
        let copied = parts.iter().map(|part| part.chunk.copied_bytes()).sum::<u64>();
        if !matches!(ready, Ready::Pinned(_)) {
            self.filling.nanos += started.elapsed().as_nanos() as u64;
            (self.filling.bytes, self.filling.count) = (self.filling.bytes + copied, self.filling.count + 1);
        }
        self.transfer.bytes += copied;
        self.copy(lane, number, (ready, &elsewhere), (head_bytes(rows), copied_bytes(rows, found)))?;
        if let Some(mirrored) = &mut self.mirrored {
            let remote: u64 = elsewhere.iter().map(|part| part.chunk.copied_bytes()).sum();
            mirrored.found += chunks(rows).map(|chunk| chunk.copied_bytes()).sum::<u64>() - copied - remote;
        }
        if let Some(keeper) = &mut self.keeper {
            let all = chunks(rows).map(|chunk| chunk.copied_bytes()).sum::<u64>();
            keeper.found += all - copied;
            let pipeline = prepared.kernels()[kernel].pipeline;
            keeper.keep((pipeline, rows), (at, &parts), lane.stream)?;
        }
        let there = device.record(lane.stream)?;
        let made = |bytes: &[u8], size: usize| (bytes.len() / size) as u32;
        // SAFETY: the descriptors that were just copied name complete chunks and pages in this slot, and room for their decompressed data.
        unsafe {
            self.decompress((at + compressed_at as u64, &groups), lane.stream)?;
            self.decompress_pages((at + pages_at as u64, &formats), lane.stream)?;
        }
        self.arrived = Some([there, device.record(lane.stream)?]);
        if let Some(openers) = self.openers.as_ref().filter(|_| vectors > 0) {
            let values = (at + expansions_at as u64, made(&expansions, EXPANSION), vectors);
            // SAFETY: as above.
            unsafe { openers.expand(values, lane.stream)? };
        }
        for (chunk, _) in &stored {
            let (codec, bytes) = chunk.undone_bytes();
            self.measured.on_device.0[codec as usize] += bytes;
        }
        if pages.pages > 0 {
            // SAFETY: the descriptors that were just copied name complete images and work areas of the required size, both in this slot.
            unsafe { self.shared.parquet()?.decode((at + parquet_at as u64, pages), self.state, lane.stream)? };
        }
        Ok(Arrival { slot: number, descriptors })
    }

    /// Queues the decompression of chunks, described at `at`, group by group.
    ///
    /// # Safety
    /// The descriptors name stored chunks of these groups and device memory for their segments.
    unsafe fn decompress(&mut self, (at, groups): (DevicePtr, &[Group]), stream: Stream) -> Result<()> {
        let mut at = at;
        for &Group { chunks, wanted, own } in groups {
            if let Some(openers) = self.openers.as_ref().filter(|_| own > 0) {
                // SAFETY: the caller's promise.
                unsafe { openers.decompress((at, chunks, own), self.state, stream)? };
            }
            if let Some(wanted) = wanted {
                let batches = self.batches(wanted.format)?;
                // SAFETY: the caller's promise; the scratch memory is the run's own, all of whose work is on this stream.
                unsafe { batches.chunks((at, chunks), &wanted, self.scratch(), self.state, stream)? };
            }
            at += u64::from(chunks) * COMPRESSED as u64;
        }
        Ok(())
    }

    /// Queues the decompression of pages, listed at `at`, format by format.
    ///
    /// # Safety
    /// The entries name pages and device memory for them.
    unsafe fn decompress_pages(&mut self, (at, formats): (DevicePtr, &[Wanted]), stream: Stream) -> Result<()> {
        let mut at = at;
        for wanted in formats {
            // SAFETY: as of chunks.
            unsafe { self.batches(wanted.format)?.pages(at, wanted, self.scratch(), self.state, stream)? };
            at += wanted.count * PAGE_ENTRY as u64;
        }
        Ok(())
    }

    /// The decompressor of `format`.
    fn batches(&mut self, format: BatchFormat) -> Result<Batches> {
        let batches = self.shared.batches()?;
        if batches.is_first(format) {
            (self.measured.first, self.measured.cold) = (true, true);
        }
        Ok(batches)
    }

    /// The scratch memory of the vendor's library, and its address.
    fn scratch(&self) -> (&Scratch, DevicePtr) {
        (&self.scratch, self.base + self.slots.len() as u64 * self.slot_bytes)
    }

    /// Brings the parts into page-locked memory.
    fn make_ready(&mut self, staging: &mut [u8], head: u64, parts: &[Part]) -> Result<Ready> {
        let (started, decoding) = (Instant::now(), &self.measured.on_host);
        let (decoded, busy) = (decoding.bytes(), decoding.time());
        let stays = match self.source {
            DataSource::Pinned => pinned(&self.shared.store, parts, decoding, self.pinned_limit)?,
            _ => None,
        };
        let ready = match (self.source, stays) {
            (_, Some((ready, made))) => {
                self.measured.first |= made;
                ready
            }
            (DataSource::Disk, None) => {
                let chunks: Vec<(u64, &Chunk)> = parts.iter().map(|part| (part.offset, &*part.chunk)).collect();
                let (ready, bytes) = self.files.read_all(staging, head, &chunks, decoding)?;
                let all = started.elapsed();
                if 2 * (decoding.time() - busy).div_f64(rayon::current_num_threads() as f64) <= all {
                    add(&mut self.measured.disk, bytes, all);
                } else {
                    let rate = bytes as f64 / all.as_secs_f64();
                    self.measured.disk_least = self.measured.disk_least.max(rate);
                }
                self.throttle.wait(bytes);
                ready
            }
            (_, None) => {
                self.pinned_limit = None;
                let ready = fill(staging, parts, decoding)?;
                if decoding.bytes() == decoded {
                    let bytes = parts.iter().map(|part| part.chunk.copied_bytes()).sum();
                    add(&mut self.measured.staging, bytes, started.elapsed());
                }
                ready
            }
        };
        // Threads decompress in parallel; in the remaining time they read, or the host waited.
        let all = started.elapsed();
        let decoding = (decoding.time() - busy).div_f64(rayon::current_num_threads() as f64).min(all);
        match self.source {
            DataSource::Disk => {
                self.measured.read += all - decoding;
                self.measured.host += decoding;
            }
            _ => self.measured.host += all,
        }
        Ok(ready)
    }

    /// Queues the copies to slot `number`, after the kernels that still read it; the lane's stream waits for them. The slot's image has `bytes`
    /// bytes, of which the first `head` are descriptors.
    fn copy(
        &mut self,
        lane: &mut Lane,
        number: usize,
        (ready, elsewhere): (Ready, &[Part]),
        (head, bytes): (u64, u64),
    ) -> Result<()> {
        let (device, copies) = (&*self.shared.store.device, lane.copies()?);
        if let Some(read) = self.slots[number].read.take() {
            device.wait(copies, read)?;
            device.destroy_event(read);
        }
        let before = device.record(copies)?;
        let at = self.slots[number].at;
        let queued = ready.queue(device, &lane.staging[number], (at, head, bytes), copies);
        let copied = queued.and_then(|count| {
            self.transfer.count += count;
            // After the copies from the host, which may overwrite the whole slot.
            if let Some(remote) = self.remote.as_mut().filter(|_| !elsewhere.is_empty()) {
                remote.pull(elsewhere, at, copies)?;
            }
            Ok(device.record(copies)?)
        });
        let copied = copied.inspect_err(|_| device.destroy_event(before))?;
        self.slots[number].copied = Some(copied);
        device.wait(lane.stream, copied)?;
        self.copies.push((before, device.record(copies)?, bytes));
        Ok(())
    }

    /// Marks the slot of `arrival` as free once the work queued on the lane's stream so far is done.
    ///
    /// # Errors
    /// The device's.
    pub fn release(&mut self, lane: &Lane, arrival: &Arrival) -> Result<()> {
        let read = self.shared.store.device.record(lane.stream)?;
        self.slots[arrival.slot].read = Some(read);
        if let Some([there, decompressed]) = self.arrived.take() {
            self.work.push([there, decompressed, self.shared.store.device.record(lane.stream)?]);
        }
        Ok(())
    }

    /// Waits for all copies. Returns their profiles, and the measurements for the cost model.
    ///
    /// # Errors
    /// The device's.
    pub fn profile(mut self) -> Result<(Vec<TransferProfile>, Measured)> {
        self.settle()?;
        if let Some(keeper) = &mut self.keeper {
            keeper.publish();
        }
        let mut measured = std::mem::take(&mut self.measured);
        measured.total = self.started.elapsed();
        let profiles = [self.filling.clone(), self.transfer.clone()];
        Ok((profiles.into_iter().filter(|transfer| transfer.count > 0).collect(), measured))
    }

    /// Sums the times of copies and kernels, all of which are done.
    ///
    /// # Errors
    /// The device's.
    pub fn settle(&mut self) -> Result<()> {
        let device = &*self.shared.store.device;
        let elapsed =
            |from, to| Ok::<_, Failure>(Duration::from_secs_f64(f64::from(device.elapsed_ms(from, to)?) / 1e3));
        for (before, after, bytes) in std::mem::take(&mut self.copies) {
            // The lane waited for the copy, not for this event after it.
            device.finish(after)?;
            let time = elapsed(before, after)?;
            self.transfer.nanos += time.as_nanos() as u64;
            self.measured.copied(bytes, time);
            [before, after].into_iter().for_each(|event| device.destroy_event(event));
        }
        for events in std::mem::take(&mut self.work) {
            let [there, decompressed, done] = events;
            self.measured.on_device.1 += elapsed(there, decompressed)?;
            self.measured.kernels += elapsed(decompressed, done)?;
            events.into_iter().for_each(|event| device.destroy_event(event));
        }
        Ok(())
    }
}

impl Drop for Feed<'_> {
    fn drop(&mut self) {
        let events = self.slots.iter().flat_map(|slot| [slot.copied, slot.read]).flatten();
        let timed = self.copies.iter().flat_map(|&(before, after, _)| [before, after]);
        let work = self.work.iter().flatten().chain(self.arrived.iter().flatten()).copied();
        events.chain(timed).chain(work).for_each(|event| self.shared.store.device.destroy_event(event));
    }
}

fn add(sum: &mut (u64, Duration), bytes: u64, time: Duration) {
    *sum = (sum.0 + bytes, sum.1 + time);
}
