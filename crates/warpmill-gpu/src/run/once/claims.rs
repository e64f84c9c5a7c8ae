//! Row segments of a shared scan that a run has claimed.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::state::Run;
use crate::compile::prepared::Prepared;
use crate::data::form::DataSource;
use crate::data::items::{Descriptors, Resident};
use crate::data::row_segment::RowSegment;
use crate::data::slot::{Found, chunks};
use crate::memory::error::Result;
use crate::run::feed::Feed;
use crate::run::options::{ClaimUnit, SharedPart};

/// The outcome of each claim. All kernels of a pipeline see the same claimed row segments, however often they read them.
#[derive(Default)]
pub(super) struct Claims {
    rows: HashMap<usize, bool>,
    /// Whether the device takes part; decided once for all kernels.
    takes_part: Option<bool>,
}

impl Claims {
    /// Claims row segment `number`; returns whether it is this run's.
    fn claim(&mut self, shared: &SharedPart, number: usize) -> bool {
        *self.rows.entry(number).or_insert_with(|| shared.queue.claim(shared.party, number))
    }
}

impl<'a> Run<'a> {
    /// The shared scan, if kernel `kernel` reads it.
    pub(super) fn shared_by(&self, kernel: usize) -> Option<&'a SharedPart> {
        let options = self.options;
        let pipeline = self.prepared.kernels()[kernel].pipeline;
        options.shared.as_ref().filter(|shared| shared.pipeline == pipeline && self.prepared.scan(kernel).is_some())
    }

    /// Claims row segments of kernel `kernel`, and returns those that are this run's; all of them if the scan is not shared.
    pub(super) fn claimed<'r>(&mut self, kernel: usize, rows: &[RowSegment<'r>]) -> Vec<RowSegment<'r>> {
        match self.shared_by(kernel) {
            None => rows.to_vec(),
            Some(shared) => rows.iter().filter(|row| self.claims.claim(shared, row.number)).copied().collect(),
        }
    }

    /// Claims the row segments that metadata or join keys rule out, so that no site reads them.
    pub(super) fn claim_others(&mut self, kernel: usize, rows: &[RowSegment<'_>]) {
        let (Some(shared), Some(scan)) = (self.shared_by(kernel), self.prepared.scan(kernel)) else { return };
        let pipeline = shared.pipeline;
        let mut read: HashSet<usize> = rows.iter().map(|row| row.number).collect();
        // Kernels for other encodings read other row segments.
        for other in (0..self.prepared.kernels().len()).filter(|&other| other != kernel) {
            if self.prepared.kernels()[other].pipeline == pipeline {
                read.extend(self.prepared.row_segments(other).into_iter().flatten().map(|row| row.number));
            }
        }
        for number in (0..scan.table.num_segments()).filter(|number| !read.contains(number)) {
            self.claims.claim(shared, number);
        }
    }

    /// The descriptors of cached data for kernel `kernel`: of the row segments that are this run's.
    pub(super) fn resident_descriptors(&mut self, kernel: usize, resident: &Resident) -> Result<Descriptors> {
        let prepared: &'a Prepared = self.prepared;
        let (all, pipeline) = (resident.descriptors[kernel], prepared.kernels()[kernel].pipeline);
        if self.shared_by(kernel).is_none() {
            return Ok(all);
        }
        let rows = prepared.row_segments(kernel).unwrap_or_default();
        let own = self.claimed(kernel, &rows);
        self.claim_others(kernel, &rows);
        if let Some(shared) = self.shared_by(kernel) {
            shared.queue.release();
        }
        if own.len() == rows.len() {
            return Ok(all);
        }
        let (mut made, columns, counts) = prepared.describe(kernel, &own, resident.places_of(pipeline))?;
        let (device, stream) = (self.device(), self.lane.stream);
        for (bytes, at) in [(&columns, &mut made.columns), (&counts, &mut made.rows)] {
            *at = self.lane.region.allocate(bytes.len() as u64)?;
            // SAFETY: just allocated with this size.
            unsafe { device.copy_to_device(*at, bytes, stream)? };
        }
        Ok(made)
    }
}

impl Run<'_> {
    /// Decides whether the device takes part in a shared scan of these row segments, of which `found` need no copy. Afterwards the CPU may claim the
    /// rest; for all-or-nothing units it waits for this decision.
    pub(super) fn takes_part(&mut self, kernel: usize, rows: &[RowSegment<'_>], found: &Found) -> bool {
        let Some(shared) = self.shared_by(kernel) else { return true };
        if let Some(decided) = self.claims.takes_part {
            return decided;
        }
        let all: u64 = chunks(rows).map(|chunk| chunk.copied_bytes()).sum();
        let travelling = chunks(rows).filter(|chunk| !found.contains_key(&chunk.travels_as()));
        let travelling: u64 = travelling.map(|chunk| chunk.copied_bytes()).sum();
        let takes = match shared.unit {
            ClaimUnit::Groups | ClaimUnit::Segments => return true,
            ClaimUnit::OperatorByData => travelling == 0,
            ClaimUnit::OperatorByCost => {
                let cpu = warpmill_machine::current().cpu.encoded_bytes();
                let on_cpu = all as f64 / (cpu * self.options.host_threads.max(1) as f64);
                travelling as f64 / self.shared.paths.rates().link < on_cpu
            }
        };
        // Row segments claimed by an earlier run of the same part belong to this device.
        let takes = takes || shared.queue.count(shared.party).1 > 0;
        if let (true, Some(scan)) = (takes, self.prepared.scan(kernel)) {
            for number in 0..scan.table.num_segments() {
                let _owned = self.claims.claim(shared, number);
            }
        }
        self.claims.takes_part = Some(takes);
        shared.queue.release();
        takes
    }
}

impl Run<'_> {
    /// Claims row segments before the first launch: those that need no copy, which take almost no time. Announces the time that each other one takes,
    /// by which the CPU decides what to leave to the device.
    pub(super) fn claim_first(&mut self, feed: &Feed<'_>) {
        let Some(shared) = self.options.shared.as_ref().filter(|shared| shared.unit == ClaimUnit::Groups) else {
            return;
        };
        let kernels: Vec<usize> =
            (0..self.prepared.kernels().len()).filter(|&it| self.shared_by(it).is_some()).collect();
        // With several kernels for several encodings, the remaining rows of one kernel do not tell the pace.
        if let [kernel] = kernels[..] {
            let rows = self.prepared.row_segments(kernel).unwrap_or_default();
            let found = feed.look(&rows);
            let (mut bytes, mut others) = (0, 0);
            let mut distances = vec![0; self.prepared.scan(kernel).map_or(0, |scan| scan.table.num_segments())];
            for row in &rows {
                match travelling(row, &found) {
                    0 => drop(self.claims.claim(shared, row.number)),
                    some => (bytes, others, distances[row.number]) = (bytes + some, others + 1, some),
                }
            }
            shared.queue.announce_distances(distances);
            let rates = self.shared.paths.rates();
            let rate = match self.options.data.passing() {
                DataSource::Disk => rates.link.min(rates.disk),
                DataSource::Host | DataSource::Cache => rates.link.min(rates.staging),
                DataSource::Mirrored | DataSource::Pinned => rates.link,
            };
            let pace = bytes as f64 / rate.max(1.0) / f64::from(others.max(1));
            shared.queue.announce(shared.party, Duration::from_secs_f64(pace));
        }
        shared.queue.release();
    }
}

/// Bytes of a row segment that must be copied.
fn travelling(row: &RowSegment<'_>, found: &Found) -> u64 {
    let absent = chunks(std::slice::from_ref(row)).filter(|chunk| !found.contains_key(&chunk.travels_as()));
    absent.map(|chunk| chunk.copied_bytes()).sum()
}

/// Sorts row segments by the bytes that must be copied.
pub(super) fn nearest_first(rows: &mut [RowSegment<'_>], found: &Found) {
    rows.sort_by_cached_key(|row| travelling(row, found));
}
