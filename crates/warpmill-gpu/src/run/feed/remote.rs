//! Reads of mirrored copies on other devices, instead of host memory.

use std::collections::HashSet;

use crate::compile::prepared::Prepared;
use crate::data::admission::Lent;
use crate::data::row_segment::RowSegment;
use crate::data::slot::{Found, Part, chunks};
use crate::device::exchange::{Move, Place, Traffic};
use crate::device::{Device, DevicePtr, Stream};
use crate::memory::error::Result;
use crate::memory::regions::{KeyMap, padded};
use crate::run::peers::PeerReads;

use warpmill_ir::Source;

/// Copies on other devices that a run reads.
pub(super) struct Remote<'a> {
    reads: &'a PeerReads,
    /// Pipelines whose tables all devices read completely.
    pipelines: HashSet<usize>,
    /// Addresses of copies on other devices, by `Chunk::travels_as`.
    found: KeyMap<Place>,
    /// Bytes to copy and bytes queued, by source and destination, and the number of copies.
    pub planned: Traffic,
    pub traffic: Traffic,
    pub copies: u64,
    /// The stream that drop waits for before the lending devices may drop data.
    device: &'a dyn Device,
    stream: Stream,
    _lent: Vec<Lent<'a>>,
}

impl<'a> Remote<'a> {
    /// For a run of `prepared` on `device`, whose copies use `stream`.
    pub fn new(reads: &'a PeerReads, prepared: &Prepared, (device, stream): (&'a dyn Device, Stream)) -> Self {
        let is_whole = |pipeline: &usize| match &prepared.program.pipelines[*pipeline].source {
            Source::Scan(scan) => reads.is_whole(&scan.table),
            _ => false,
        };
        let devices = reads.devices();
        let others = (0..devices).filter(|&other| other != reads.number());
        Self {
            reads,
            pipelines: (0..prepared.program.pipelines.len()).filter(is_whole).collect(),
            found: KeyMap::default(),
            planned: Traffic::new(devices),
            traffic: Traffic::new(devices),
            copies: 0,
            device,
            stream,
            _lent: others.map(|other| reads.group().member(other).admission.lend()).collect(),
        }
    }

    /// Whether all devices read the table of `pipeline` completely.
    pub fn is_whole(&self, pipeline: usize) -> bool {
        self.pipelines.contains(&pipeline)
    }

    /// Looks up the chunks of row segments of `pipeline` that are not `here`. Each device asks its successor first, to spread the load.
    pub fn find(&mut self, pipeline: usize, rows: &[RowSegment<'_>], here: &Found) {
        if !self.is_whole(pipeline) {
            return;
        }
        let (own, devices) = (self.reads.number(), self.reads.devices());
        let mut found = KeyMap::<(Place, u64)>::default();
        for source in (1..devices).map(|next| (own + next) % devices).filter(|&source| self.reads.reaches(source)) {
            // Holds one lock at a time.
            let mirror = self.reads.group().member(source).store.mirror.lock();
            for chunk in chunks(rows).filter(|chunk| chunk.may_stay()) {
                let key = chunk.travels_as();
                if let Some(at) = mirror.get(&key).filter(|_| !here.contains_key(&key)) {
                    found.entry(key).or_insert((Place { device: source, at }, chunk.copied_bytes()));
                }
            }
        }
        for (key, (place, bytes)) in found {
            self.planned.add(place.device, own, bytes);
            self.found.insert(key, place);
        }
    }

    /// Splits `parts` into those from the host and those from other devices.
    pub fn split(&self, parts: Vec<Part>) -> (Vec<Part>, Vec<Part>) {
        parts.into_iter().partition(|part| !self.found.contains_key(&part.chunk.travels_as()))
    }

    /// Queues the copies of `parts` to the slot at `slot`.
    pub fn pull(&mut self, parts: &[Part], slot: DevicePtr, stream: Stream) -> Result<()> {
        let mut moves = vec![];
        for part in parts {
            let (at, bytes) = (slot + part.offset, part.chunk.copied_bytes());
            let to = Place { device: self.reads.number(), at };
            moves.push(Move { from: self.found[&part.chunk.travels_as()], to, bytes });
            // SAFETY: the slot has the padding behind the chunk.
            unsafe { self.device.fill(at + bytes, 0, padded(bytes) - bytes, stream)? };
        }
        // SAFETY: the slot has room for the parts; copies were complete before they were found, and stay until `self` is dropped.
        unsafe { self.reads.group().devices().pull(&moves, self.reads.number(), stream)? };
        self.traffic.add_all(&Traffic::of(self.reads.devices(), &moves));
        self.copies += moves.len() as u64;
        Ok(())
    }
}

impl Drop for Remote<'_> {
    fn drop(&mut self) {
        // Others that wait for the same stream get the error.
        let _ = self.device.synchronize(self.stream);
    }
}
