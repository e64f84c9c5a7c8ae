//! The representation of a column that passes through device memory, and where its codec is undone.
//!
//! A column may be stored as it is encoded (light), through a codec (heavy), or both (docs/format.md, section 2). Fewer bytes are read
//! and copied sooner; decompressing them takes the device, or the host's threads, some time. All of that overlaps, so that the slowest
//! stage decides: what Boeschen et al. (GOLAP, SIGMOD 2024) and the study of compression for out-of-memory data (DaMoN 2025) measure
//! at fixed choices is predicted here, and the best choice taken, for each program. Rates are measured while programs run; before that
//! they are those of the hardware profile. A choice never changes an answer.

pub(crate) mod measured;
pub(crate) mod model;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use warpmill_ir::{Operator, Program, Source};
use warpmill_machine::DeviceRates;

use super::decoding::CODECS;
use super::form::{DataSource, Form, Representation};
use crate::device::DeviceKind;

use measured::Measured;
use model::{Forms, Rates, ScanColumn, Setting, Stages, Work, candidates, predict, same, total};

/// A choice, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// By column.
    pub forms: Forms,
    /// The prediction for it.
    pub predicted: Stages,
    /// The reason: `forced`, `only`, `predicted`, `measured`, `tried`.
    pub reason: &'static str,
    /// The times of all columns in one form.
    pub fixed: Vec<FixedForm>,
}

/// All columns in one form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FixedForm {
    /// The form.
    pub form: Form,
    /// Predicted seconds.
    pub predicted: f64,
    /// Measured seconds, where the program has run so.
    pub measured: Option<f64>,
}

/// The time that a run of a program in some forms took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Outcome {
    /// The last two, in seconds; the later first.
    seconds: [f64; 2],
    runs: u32,
}

impl Outcome {
    /// The first run in some forms may have had more to do: checksums, memory.
    fn best(&self) -> f64 {
        if self.runs > 1 { self.seconds[0].min(self.seconds[1]) } else { self.seconds[0] }
    }
}

/// The facts about a program.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Seconds of its kernels.
    kernels: Option<f64>,
    outcomes: HashMap<(DataSource, u64, Forms), Outcome>,
    /// Forms that were tried although they seemed slower, by where the data was.
    tried: HashMap<(DataSource, u64), u32>,
    /// Of the last choice.
    reason: &'static str,
}

/// Fixed forms are tried once where they are predicted to take no more than this many times the best.
const WORTH_TRYING: f64 = 1.25;

/// The same where the prediction rests on guesses: for a new codec, or a disk that has always been waited for less than something else.
const WORTH_FINDING_OUT: f64 = 2.0;

/// As many of them, per program and place of its data.
const MOST_TRIED: u32 = 2;

/// A program has run in so many ways at most before only those are left to choose from.
const MOST_MEASURED: usize = 6;

/// A program stays with its forms unless others save this part of the time.
const LEAST_GAIN: f64 = 0.03;

/// Programs of which something is known.
const MOST_KNOWN: usize = 1024;

/// The measurements of a device.
#[derive(Debug)]
pub struct Paths {
    /// The device's name in the hardware profile; `None` for the simulated device, whose times mean nothing.
    name: Option<String>,
    /// Decoded bytes per second of a simple scan's kernels.
    scanning: f64,
    rates: Mutex<Rates>,
    programs: Mutex<HashMap<usize, (Weak<Program>, Known)>>,
}

impl Paths {
    /// For a device of these rates, on which nothing has run.
    pub fn new(kind: DeviceKind, device: &DeviceRates) -> Self {
        let rates = Rates::new(&warpmill_machine::current(), device, rayon::current_num_threads());
        let name = (kind == DeviceKind::Cuda).then(|| device.name.clone());
        let (rates, programs) = (Mutex::new(rates), Mutex::default());
        Self { name, scanning: device.plain_bytes / 2.0, rates, programs }
    }

    /// The forms in which `columns` of `program` pass through device memory, in `batches` batches or so.
    pub fn choose(
        &self,
        program: &Arc<Program>,
        columns: &[ScanColumn],
        (source, disk_limit): (DataSource, u64),
        (wanted, batches): (Representation, u64),
    ) -> Choice {
        self.with(program, columns, (source, disk_limit), batches, |known, rates, setting| {
            let choice = known.choose(columns, rates, setting, wanted);
            known.reason = choice.reason;
            choice
        })
    }

    /// As [`Paths::choose`], for a program that is not run now: nothing is noted.
    pub fn preview(
        &self,
        program: &Arc<Program>,
        columns: &[ScanColumn],
        place: (DataSource, u64),
        (wanted, batches): (Representation, u64),
    ) -> Choice {
        self.with(program, columns, place, batches, |known, rates, setting| {
            known.clone().choose(columns, rates, setting, wanted)
        })
    }

    /// The explanation of the forms that were chosen for `columns` of `program`.
    pub fn explain(
        &self,
        program: &Arc<Program>,
        columns: &[ScanColumn],
        place: (DataSource, u64),
        (forms, batches): (&Forms, u64),
    ) -> Choice {
        self.with(program, columns, place, batches, |known, rates, setting| {
            let predicted = predict(&total(columns, forms), rates, setting);
            let fixed = known.fixed(columns, rates, setting);
            Choice { forms: forms.clone(), predicted, reason: known.reason, fixed }
        })
    }

    fn with<T>(
        &self,
        program: &Arc<Program>,
        columns: &[ScanColumn],
        (source, disk_limit): (DataSource, u64),
        batches: u64,
        then: impl FnOnce(&mut Known, &Rates, Setting) -> T,
    ) -> T {
        let rates = self.rates();
        let mut programs = self.programs.lock();
        if programs.len() >= MOST_KNOWN {
            programs.retain(|_, (program, _)| program.strong_count() > 0);
        }
        let entry = programs.entry(Arc::as_ptr(program) as usize);
        let (held, known) = entry.or_insert_with(|| (Arc::downgrade(program), Known::default()));
        if !held.upgrade().is_some_and(|held| Arc::ptr_eq(&held, program)) {
            // Another program at the address of one that is gone.
            (*held, *known) = (Arc::downgrade(program), Known::default());
        }
        let kernels = known.kernels.unwrap_or_else(|| self.guess_kernels(program, columns));
        let setting = Setting { source, disk_limit: limit_of(source, disk_limit), kernels, batches };
        then(known, &rates, setting)
    }

    /// Seconds of the kernels of a program that has not run: bytes at the rate of simple scans, less for every join.
    fn guess_kernels(&self, program: &Program, columns: &[ScanColumn]) -> f64 {
        let bytes = |pipeline: usize| -> u64 {
            columns.iter().filter(|column| column.pipeline == pipeline).map(|column| decoded_bytes(&column.light)).sum()
        };
        let pipelines = program.pipelines.iter().enumerate();
        let scans = pipelines.filter(|(_, pipeline)| matches!(pipeline.source, Source::Scan(_)));
        let seconds = scans.map(|(index, pipeline)| {
            let joins = pipeline.operators.iter().filter(|operator| matches!(operator, Operator::Probe(_))).count();
            bytes(index) as f64 * (1 + joins) as f64 / self.scanning
        });
        seconds.sum()
    }

    /// Forgets how long `program` took: it will run in another way.
    pub fn forget_outcomes(&self, program: &Arc<Program>) {
        if let Some((_, known)) = self.programs.lock().get_mut(&(Arc::as_ptr(program) as usize)) {
            known.outcomes.clear();
        }
    }

    /// Learns from a run in which `program`'s columns had these forms: its rates, and, of a `whole` one, its time.
    pub fn learn(
        &self,
        program: &Arc<Program>,
        forms: &Forms,
        (source, limit): (DataSource, u64),
        (measured, whole): (&Measured, bool),
    ) {
        let mut learnt = self.rates.lock();
        let seconds = |time: Duration| time.as_secs_f64();
        for (which, (bytes, time)) in [measured.disk, measured.staging].into_iter().enumerate() {
            learnt.learn(which, bytes, seconds(time));
        }
        // Copies of a simulated device stay in the host's caches: with their rate, no copy would be worth its room.
        if measured.link > 0.0 && self.name.is_some() {
            let bytes = measured.copies.0;
            learnt.learn(2, bytes, bytes as f64 / measured.link);
        }
        learnt.disk = learnt.disk.max(measured.disk_least);
        let decoded: u64 = measured.on_device.0.iter().sum();
        for codec in 0..CODECS {
            // Codecs that were decompressed together have the same rate, as far as that can be told.
            let bytes = measured.on_device.0[codec];
            let part = bytes as f64 / decoded.max(1) as f64;
            if !measured.cold {
                learnt.learn(3 + codec, bytes, seconds(measured.on_device.1) * part);
            }
            let (bytes, time) = measured.on_host.of(codec);
            learnt.learn(3 + CODECS + codec, bytes, time);
        }
        if let Some(name) = &self.name {
            learnt.refine(name);
        }
        drop(learnt);
        if !whole {
            return;
        }
        let mut programs = self.programs.lock();
        let known = programs.get_mut(&(Arc::as_ptr(program) as usize));
        let Some((_, known)) = known.filter(|(held, _)| held.upgrade().is_some_and(|it| Arc::ptr_eq(&it, program)))
        else {
            return;
        };
        let kernels = seconds(measured.kernels);
        known.kernels = Some(known.kernels.map_or(kernels, |before| (before + kernels) / 2.0));
        if !measured.first {
            let outcome = known.outcomes.entry((source, limit_of(source, limit), forms.clone())).or_default();
            outcome.seconds = [seconds(measured.total), outcome.seconds[0]];
            outcome.runs += 1;
        }
    }

    /// The known rates of the device.
    pub fn rates(&self) -> Rates {
        self.rates.lock().clone()
    }
}

/// A limit of the disk's bandwidth means nothing where nothing is read from it.
fn limit_of(source: DataSource, limit: u64) -> u64 {
    if source == DataSource::Disk { limit } else { 0 }
}

/// Bytes of the segments of a column.
fn decoded_bytes(work: &Work) -> u64 {
    work.copied
}

impl Known {
    /// The times of all columns in one form.
    fn fixed(&self, columns: &[ScanColumn], rates: &Rates, setting: Setting) -> Vec<FixedForm> {
        let told = |form: Form| {
            let forms = vec![form; columns.len()];
            let predicted = predict(&total(columns, &forms), rates, setting).total;
            let outcome = self.outcomes.get(&(setting.source, setting.disk_limit, forms));
            FixedForm { form, predicted, measured: outcome.map(Outcome::best) }
        };
        Form::ALL.into_iter().map(told).collect()
    }

    fn choose(&mut self, columns: &[ScanColumn], rates: &Rates, setting: Setting, wanted: Representation) -> Choice {
        let predicted = |forms: &Forms| predict(&total(columns, forms), rates, setting);
        let place = (setting.source, setting.disk_limit);
        let outcome = |known: &Self, forms: &Forms| known.outcomes.get(&(place.0, place.1, forms.clone())).copied();
        let fixed = |form: Form| vec![form; columns.len()];
        let told = self.fixed(columns, rates, setting);
        let chosen = |forms: Forms, reason| Choice { predicted: predicted(&forms), forms, reason, fixed: told.clone() };
        if let Some(form) = wanted.form() {
            return chosen(fixed(form), "forced");
        }
        let mut forms = candidates(columns, rates);
        if forms.len() == 1 {
            return chosen(forms.remove(0), "only");
        }
        // The part of a run's time that the stages do not tell is about the same whatever the forms.
        let off = |known: &Self, forms: &Forms| outcome(known, forms).map(|it| it.best() / predicted(forms).total);
        let offs: Vec<f64> = forms.iter().filter_map(|forms| off(self, forms)).collect();
        let usual =
            if offs.is_empty() { 0.0 } else { offs.iter().map(|off| off.ln()).sum::<f64>() / offs.len() as f64 };
        let usual = usual.exp().clamp(0.8, 1.5);
        let estimate = |known: &Self, forms: &Forms| {
            let predicted = predicted(forms).total;
            match outcome(known, forms) {
                None => predicted * usual,
                Some(outcome) if outcome.runs > 1 => outcome.best(),
                Some(outcome) => (outcome.best() * predicted * usual).sqrt(),
            }
        };
        if forms.iter().filter(|forms| outcome(self, forms).is_some()).count() >= MOST_MEASURED {
            forms.retain(|forms| outcome(self, forms).is_some());
        }
        forms.sort_by(|a, b| estimate(self, a).total_cmp(&estimate(self, b)));
        let best = estimate(self, &forms[0]);
        // Of about equal ones the one that has run most.
        let near = forms.iter().filter(|other| estimate(self, other) * (1.0 - LEAST_GAIN) <= best);
        let runs = |forms: &Forms| outcome(self, forms).map_or(0, |outcome| outcome.runs);
        let most = near.fold(&forms[0], |most, other| if runs(other) > runs(most) { other } else { most }).clone();
        if runs(&most) == 0 {
            return chosen(most, "predicted");
        }
        // Page-locked copies are not made to try something.
        let tried = self.tried.get(&place).copied().unwrap_or_default();
        if setting.source != DataSource::Pinned && tried < MOST_TRIED {
            let untried = forms.iter().find(|&forms| {
                let fixed = Form::ALL.into_iter().any(|form| same(columns, forms, &fixed(form)));
                let guessed = rates.guesses(&total(columns, forms), setting.source);
                let most = if guessed { WORTH_FINDING_OUT } else { WORTH_TRYING };
                fixed && runs(forms) == 0 && estimate(self, forms) <= most * best
            });
            if let Some(untried) = untried.cloned() {
                *self.tried.entry(place).or_default() += 1;
                return chosen(untried, "tried");
            }
        }
        chosen(most, "measured")
    }
}

#[cfg(test)]
mod tests;
