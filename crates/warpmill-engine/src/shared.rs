//! Programs that the CPU and devices run together: each runs the shared pipeline on the row segments that it claims, and the CPU merges what
//! devices leave at its sink, and runs the rest.

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
use warpmill_ir::{Program, Source, Unsupported};
use warpmill_place::{Arrives, Partition, Share, Site};

use crate::background;

/// The devices' part of a run.
pub(crate) struct Together {
    scan: Arc<SharedScan>,
    pipeline: usize,
    findings: Arc<Mutex<Findings>>,
    /// Row segments of each device's part, where they have parts.
    parts: Option<Vec<usize>>,
    /// Stops them.
    cancel: CancelToken,
}

/// The findings of devices.
#[derive(Default)]
struct Findings {
    profiles: Vec<DeviceProfile>,
    /// The first of them.
    failure: Option<(Site, Failure)>,
}

impl Findings {
    /// Keeps a failure, if it is the first one, or has a reason of its own and the first has not.
    fn fail(&mut self, site: Site, failure: Failure) {
        if self.failure.as_ref().is_none_or(|(_, known)| matches!(known, Failure::Peer(_))) {
            self.failure = Some((site, failure));
        }
    }
}

impl Together {
    /// Lets `devices` begin with their parts. `assigned`: the site of each row segment, for tests; otherwise it belongs to who claims it first.
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
        // All or nothing has a meaning only for mirrored data, and without a fixed placement.
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

    /// Lets `devices` begin with a part each, with the options, and the part in a shuffle, that `of_device` gives for each, by its position among them. The queue has one entry for each, which is claimed already: the CPU brings together the states and rows that arrive.
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
        let together = Self { scan: Arc::new(scan), pipeline, findings: Arc::default(), parts, cancel };
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

    /// Starts a device's part, on a thread of its own: a program, and the one whose rows devices send to each other before, where there is one.
    fn start(
        &self,
        (first, program): (Option<(ShufflePart, Arc<Program>)>, &Arc<Program>),
        arrives: Arrives,
        (party, site): (Party, Site),
        executor: Arc<Executor>,
        options: Options,
    ) {
        let (program, scan, findings) = (program.clone(), self.scan.clone(), self.findings.clone());
        // The rest of a program is no part of it.
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
                    ending.findings.lock().profiles.push(profile);
                    let (rows, owners) = (Arc::new(rows), Box::new(owners));
                    ending.arrival = match arrives {
                        Arrives::States => Arrival::States(rows, owners),
                        Arrives::Rows => Arrival::Rows(rows, owners),
                    };
                }
                Err(failure) => ending.findings.lock().fail(site, failure),
            }
        };
        // Without a thread, the CPU does it all.
        background::spawn(run);
    }

    /// The places where the pipelines of `program` run.
    pub fn placed(&self, program: &Program) -> Vec<Placed> {
        let place = |index| if index == self.pipeline { Placed::Shared(self.scan.clone()) } else { Placed::Here };
        (0..program.pipelines.len()).map(place).collect()
    }

    /// Keeps the CPU's pace with `program`. Where it was left out, it is expected to be a little faster the next time, so that it tries again
    /// some time: it may have been slow for another reason.
    pub fn learn(&self, program: &Program) {
        // It has had no row segments.
        if self.parts.is_some() {
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

    /// The failure of a device, once the CPU has ended with an error.
    pub fn failure(&self) -> Option<(Site, Failure)> {
        self.findings.lock().failure.take()
    }

    /// The profile of the devices that have done something by now: of the first, with what others have copied and launched.
    pub fn profile(&self) -> Option<DeviceProfile> {
        let profiles = std::mem::take(&mut self.findings.lock().profiles);
        profiles.into_iter().reduce(|mut all, other| {
            all.add(other);
            all
        })
    }

    /// Row segments of the CPU, and of each device.
    pub fn segments(&self) -> Vec<usize> {
        if let Some(parts) = &self.parts {
            return [0].iter().chain(parts).copied().collect();
        }
        [CPU].iter().chain(&self.scan.others).map(|&party| self.scan.queue.count(party).1).collect()
    }
}

/// The time that devices which are ready need to decide which row segments they leave for the CPU.
const DECISION: Duration = Duration::from_millis(2);

/// The part of a pace that is left after each run without the CPU.
const AGEING: f64 = 0.95;

/// The CPU's pace in the last run of a program, by its shared pipeline; kept with the program.
#[derive(Default)]
struct KnownPace(Mutex<HashMap<usize, Pace>>);

/// The pace that is expected of the CPU: that of the last run.
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

/// The time that the CPU takes to work on so many bytes of plain values.
pub(crate) fn time_to_read(bytes: u64, threads: usize) -> Duration {
    Duration::from_secs_f64(bytes as f64 / (warpmill_machine::current().cpu.plain_bytes() * threads.max(1) as f64))
}

impl Drop for Together {
    fn drop(&mut self) {
        // Stops devices that have claimed nothing, or whose query has failed: the others are done.
        self.cancel.cancel();
    }
}

/// The end of a device's part, whichever it is: the CPU waits for it.
struct Ending {
    scan: Arc<SharedScan>,
    findings: Arc<Mutex<Findings>>,
    site: Site,
    party: Party,
    /// Its part in an exchange, which others wait for.
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
            // Nobody counts on it any more.
            self.scan.queue.close(self.party);
        }
        // Lets the CPU have all row segments that the device has not claimed.
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
