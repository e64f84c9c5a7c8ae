//! Programs that the CPU and devices run together: each runs the shared pipeline on the row segments that it claims; the CPU merges the devices'
//! results into its sink, and runs the rest.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use warpmill_eval::ExecError;
use warpmill_eval::cancel::CancelToken;
use warpmill_eval::queue::{Arrival, CPU, Exchange, Pace, Party, SegmentQueue, SharedScan};
use warpmill_eval::rows::{Placed, RowSet};
use warpmill_gpu::{
    ClaimUnit, DataSource, DeviceProfile, Executor, Failure, Options, PeerPart, SharedPart, ShufflePart,
};
use warpmill_ir::{Pipeline, Program, Source, Unsupported, graph};
use warpmill_place::{Arrives, Partition, Share, Site};

use crate::background;

/// The devices' part of a run.
pub(crate) struct Together {
    scan: Arc<SharedScan>,
    pipeline: usize,
    findings: Arc<Mutex<Findings>>,
    /// Number of row segments of each device's part, if devices have parts.
    parts: Option<Vec<usize>>,
    /// Whether no device had to compile kernels of a shared scan after the beginning.
    pub were_ready: bool,
    /// Stops them.
    cancel: CancelToken,
}

/// The findings of devices.
#[derive(Default)]
struct Findings {
    profiles: Vec<DeviceProfile>,
    /// Number of rows that the host gets.
    rows: usize,
    /// The first failure.
    failure: Option<(Site, Failure)>,
}

impl Findings {
    /// Records a failure if it is the first one, or a root cause while the first is only a consequence.
    fn fail(&mut self, site: Site, failure: Failure) {
        if self.failure.as_ref().is_none_or(|(_, known)| matches!(known, Failure::Peer(_))) {
            self.failure = Some((site, failure));
        }
    }
}

impl Together {
    /// Starts `devices` on their fragments. `assigned`: the site of each row segment, for tests; otherwise row segments are claimed.
    pub fn begin(
        (share, program): (&Arc<Share>, &Program),
        devices: Vec<(Site, Arc<Executor>)>,
        options: &Options,
        (unit, assigned): (ClaimUnit, Option<Vec<Party>>),
    ) -> Self {
        let (parties, is_assigned) = (devices.len() + 1, assigned.is_some());
        let queue = match assigned {
            Some(owners) => SegmentQueue::assigned(owners, parties),
            None => SegmentQueue::new(share.segments, parties),
        };
        let all_or_nothing = matches!(unit, ClaimUnit::OperatorByData | ClaimUnit::OperatorByCost);
        // All-or-nothing claims apply to mirrored data only, without a fixed placement.
        let unit = if all_or_nothing && (is_assigned || options.data != DataSource::Mirrored) {
            ClaimUnit::Groups
        } else {
            unit
        };
        match unit {
            _ if parties == 1 || is_assigned => {}
            ClaimUnit::OperatorByData | ClaimUnit::OperatorByCost => queue.hold(),
            ClaimUnit::Groups => queue.hold_for(DECISION),
            ClaimUnit::Segments => {}
        }
        let scan = SharedScan {
            queue: Arc::new(queue),
            exchange: Arc::new(Exchange::new(parties)),
            others: (CPU + 1..parties).collect(),
            below: share.only.clone(),
            expected: expected(share, program, options.host_threads),
            measured: Mutex::default(),
        };
        let together = Self {
            scan: Arc::new(scan),
            pipeline: share.pipeline,
            findings: Arc::default(),
            parts: None,
            were_ready: devices.iter().all(|(_, executor)| executor.is_ready(&share.program, options)),
            cancel: options.cancel.part(),
        };
        let options = Options { cancel: together.cancel.clone(), ..options.clone() };
        for (party, (site, executor)) in (CPU + 1..).zip(devices) {
            let queue = together.scan.queue.clone();
            let options =
                Options { shared: Some(SharedPart { queue, party, pipeline: share.own, unit }), ..options.clone() };
            together.start((None, &share.program), share.arrives, (party, site), executor, options);
        }
        together
    }

    /// Starts `devices` on one part each, with the options and the shuffle part that `of_device` returns for each position. The queue has one entry
    /// per device, claimed already: the CPU merges the states and rows.
    pub fn begin_parts(
        partition: &Partition,
        devices: Vec<(Site, Arc<Executor>)>,
        (cancel, of_device): (&CancelToken, &dyn Fn(usize) -> (Options, Option<ShufflePart>)),
    ) -> Self {
        let parties = devices.len() + 1;
        let queue = SegmentQueue::assigned((CPU + 1..parties).collect(), parties);
        for party in CPU + 1..parties {
            let _own = queue.claim(party, party - 1);
        }
        let scan = SharedScan {
            queue: Arc::new(queue),
            exchange: Arc::new(Exchange::new(parties)),
            others: (CPU + 1..parties).collect(),
            below: partition.elsewhere.clone(),
            expected: Pace::default(),
            measured: Mutex::default(),
        };
        let (pipeline, cancel) = (partition.pipeline, cancel.part());
        let parts = Some(partition.segments.clone());
        let together =
            Self { scan: Arc::new(scan), pipeline, findings: Arc::default(), parts, were_ready: true, cancel };
        for ((party, (site, executor)), program) in (CPU + 1..).zip(devices).zip(&partition.programs) {
            let number = party - (CPU + 1);
            let (options, shuffle) = of_device(number);
            let options = Options { cancel: together.cancel.clone(), ..options };
            let firsts = partition.shuffle.iter().filter_map(|shuffle| shuffle.firsts.get(number)).cloned();
            let first = shuffle.zip(firsts.into_iter().next());
            together.start((first, program), partition.arrives, (party, site), executor, options);
        }
        together
    }

    /// Starts a device's part on a new thread: a program, preceded by the program whose rows devices exchange, if there is one.
    fn start(
        &self,
        (first, program): (Option<(ShufflePart, Arc<Program>)>, &Arc<Program>),
        arrives: Arrives,
        (party, site): (Party, Site),
        executor: Arc<Executor>,
        options: Options,
    ) {
        let (program, scan, findings) = (program.clone(), self.scan.clone(), self.findings.clone());
        // The CPU's part of the program is not counted.
        let options = Options { cpu_threads: 0, ..options };
        let peers = options.peers.clone();
        let shuffle = first.as_ref().map(|(part, _)| part.clone());
        let mut ending = Ending { scan, findings, site, party, peers, shuffle, arrival: Arrival::Failed };
        let run = move || {
            let output = match &first {
                Some((part, first)) => executor.execute_shuffled((first, &program), part, &options),
                None => executor.execute(&program, &[], &options),
            };
            let outcome = output.and_then(|output| {
                let rows = rows(output.placed)?;
                Ok((rows, output.owners, output.profile))
            });
            match outcome {
                Ok((rows, owners, profile)) => {
                    {
                        let mut findings = ending.findings.lock();
                        findings.profiles.push(profile);
                        findings.rows += rows.rows();
                    }
                    let (rows, owners) = (Arc::new(rows), Box::new(owners));
                    ending.arrival = match arrives {
                        Arrives::States => Arrival::States(rows, owners),
                        Arrives::Rows => Arrival::Rows(rows, owners),
                    };
                }
                Err(failure) => ending.findings.lock().fail(site, failure),
            }
        };
        // Without a thread, the CPU does all the work.
        background::spawn(run);
    }

    /// The places where the pipelines of `program` run.
    pub fn placed(&self, program: &Program) -> Vec<Placed> {
        let place = |index| if index == self.pipeline { Placed::Shared(self.scan.clone()) } else { Placed::Here };
        (0..program.pipelines.len()).map(place).collect()
    }

    /// Records the CPU's pace with `program`. If it was left out, a slightly faster pace is assumed for the next time, so that it is tried again
    /// eventually: it may have been slow for another reason.
    pub fn learn(&self, program: &Program) {
        // It has had no row segments.
        if let Some(parts) = &self.parts {
            program.derived.get::<KnownRows>().0.lock().insert(parts.len(), self.findings.lock().rows);
            return;
        }
        let known = program.derived.get::<KnownPace>();
        let mut known = known.0.lock();
        match *self.scan.measured.lock() {
            Some(pace) => drop(known.insert(self.pipeline, pace)),
            None => {
                if let Some(pace) = known.get_mut(&self.pipeline) {
                    *pace = Pace { begin: pace.begin.mul_f64(AGEING), segment: pace.segment.mul_f64(AGEING) };
                }
            }
        }
    }

    /// Whether the CPU has little to do: to merge the few rows that devices' parts brought in the last run, and to scan nearly nothing.
    pub fn brings_few_rows(&self, program: &Program) -> bool {
        let Some(parts) = &self.parts else { return false };
        let scanned = |pipeline: &Pipeline| match &pipeline.source {
            Source::Scan(scan) => scan.plain_bytes(),
            _ => 0,
        };
        let known = program.derived.get::<KnownRows>().0.lock().get(&parts.len()).copied();
        // Joins may make many rows of few.
        let joins = |pipeline: &Pipeline| graph::probes(pipeline).next().is_some();
        let is_here = |(index, _): &(usize, &Pipeline)| *index != self.pipeline && !self.scan.below.contains(index);
        let here: Vec<&Pipeline> = program.pipelines.iter().enumerate().filter(is_here).map(|(_, it)| it).collect();
        known.is_some_and(|rows| rows < FEW_ROWS)
            && !here.iter().any(|pipeline| joins(pipeline))
            && here.iter().map(|pipeline| scanned(pipeline)).sum::<u64>() < FEW_BYTES
    }

    /// The failure of a device, after the CPU has ended with an error.
    pub fn failure(&self) -> Option<(Site, Failure)> {
        self.findings.lock().failure.take()
    }

    /// The combined profile of the devices that have finished: the first one's, plus the copies and launches of the others.
    pub fn profile(&self) -> Option<DeviceProfile> {
        let profiles = std::mem::take(&mut self.findings.lock().profiles);
        profiles.into_iter().reduce(|mut all, other| {
            all.add(other);
            all
        })
    }

    /// Number of row segments of the CPU, and of each device.
    pub fn segments(&self) -> Vec<usize> {
        if let Some(parts) = &self.parts {
            return [0].iter().chain(parts).copied().collect();
        }
        [CPU].iter().chain(&self.scan.others).map(|&party| self.scan.queue.count(party).1).collect()
    }
}

/// The time for devices that are ready to decide which row segments they leave for the CPU.
const DECISION: Duration = Duration::from_millis(2);

/// Factor of the CPU's recorded pace after each run without the CPU.
const AGEING: f64 = 0.95;

/// Number of rows from devices that several threads process: waking them takes longer than processing fewer.
pub(crate) const FEW_ROWS: usize = 1 << 16;

/// Bytes of plain values from which several threads scan them.
const FEW_BYTES: u64 = 1 << 20;

/// Number of rows that devices' parts brought in the last run of a program, by number of devices; stored with the program.
#[derive(Default)]
struct KnownRows(Mutex<HashMap<usize, usize>>);

/// The CPU's pace in the last run of a program, by shared pipeline; stored with the program.
#[derive(Default)]
struct KnownPace(Mutex<HashMap<usize, Pace>>);

/// The expected pace of the CPU: that of the last run.
fn expected(share: &Share, program: &Program, threads: usize) -> Pace {
    if let Some(&known) = program.derived.get::<KnownPace>().0.lock().get(&share.pipeline) {
        return known;
    }
    let bytes = |pipeline: usize| match &program.pipelines[pipeline].source {
        Source::Scan(scan) => scan.plain_bytes(),
        _ => 0,
    };
    let begin = time_to_read(share.only.iter().map(|&pipeline| bytes(pipeline)).sum(), threads);
    Pace { begin, segment: time_to_read(bytes(share.pipeline) / share.segments.max(1) as u64, threads) }
}

/// The time for the CPU to process `bytes` bytes of plain values.
pub(crate) fn time_to_read(bytes: u64, threads: usize) -> Duration {
    Duration::from_secs_f64(bytes as f64 / (warpmill_machine::current().cpu.plain_bytes() * threads.max(1) as f64))
}

impl Drop for Together {
    fn drop(&mut self) {
        // Cancels devices that have claimed nothing, or whose query has failed: the others have finished.
        self.cancel.cancel();
    }
}

/// Signals the end of a device's part, however it ends: the CPU waits for it.
struct Ending {
    scan: Arc<SharedScan>,
    findings: Arc<Mutex<Findings>>,
    site: Site,
    party: Party,
    /// Its part in an exchange, for which others wait.
    peers: Option<PeerPart>,
    shuffle: Option<ShufflePart>,
    arrival: Arrival,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.peers.iter().for_each(PeerPart::leave);
        self.shuffle.iter().for_each(ShufflePart::leave);
        if matches!(self.arrival, Arrival::Failed) {
            let early = || (self.site, Unsupported::new("shared scan", "the device's thread has ended early").into());
            self.findings.lock().failure.get_or_insert_with(early);
        }
        if matches!(self.arrival, Arrival::Failed) {
            // No party waits for it any more.
            self.scan.queue.close(self.party);
        }
        // Lets the CPU claim all row segments that the device has not.
        self.scan.queue.release();
        self.scan.exchange.put(self.party, std::mem::replace(&mut self.arrival, Arrival::Failed));
    }
}

/// The rows that a device's part gave.
fn rows(placed: Vec<Placed>) -> Result<RowSet, Failure> {
    let mut all = RowSet::default();
    for placed in placed {
        match placed {
            Placed::Elsewhere => {}
            Placed::Arrived(rows) | Placed::Finished(rows) => all.batches.extend(rows.batches.iter().cloned()),
            Placed::Here | Placed::Resumed { .. } | Placed::Shared(_) => {
                let reason = ExecError::Unsupported("a shared pipeline that needs the host in between".into());
                return Err(reason.into());
            }
        }
    }
    Ok(all)
}
