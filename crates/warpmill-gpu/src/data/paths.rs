//! Choice of the form in which a column is streamed, and of the processor that decompresses it.
//!
//! A column may be stored as encoded (light), under a codec (heavy), or both (docs/format.md, section 2). Fewer bytes are read and copied sooner;
//! decompressing them takes time of the device or of the host's threads. All stages overlap, so the slowest one decides. Boeschen et al. (GOLAP,
//! SIGMOD 2024) and the study of compression for out-of-memory data (DaMoN 2025) measure fixed choices; here each program gets the choice with the
//! best prediction. Rates are measured while programs run; before that they are those of the hardware profile. A choice never changes an answer.

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

/// A choice of forms, and its reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The form of each column.
    pub forms: Forms,
    /// The predicted times.
    pub predicted: Stages,
    /// The reason: `forced`, `only`, `predicted`, `measured`, `tried`.
    pub reason: &'static str,
    /// The times with all columns in one form, for each form.
    pub fixed: Vec<FixedForm>,
}

/// Times with all columns in one form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FixedForm {
    /// The form.
    pub form: Form,
    /// Predicted seconds.
    pub predicted: f64,
    /// Measured seconds, where the program has run so.
    pub measured: Option<f64>,
}

/// Times of a program's runs with one choice of forms.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Outcome {
    /// Seconds of the last two runs, the later first.
    seconds: [f64; 2],
    runs: u32,
}

impl Outcome {
    /// The better of the last two runs: the first may include checksums and allocation.
    fn best(&self) -> f64 {
        if self.runs > 1 { self.seconds[0].min(self.seconds[1]) } else { self.seconds[0] }
    }
}

/// Measurements of a program.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Seconds of its kernels.
    kernels: Option<f64>,
    outcomes: HashMap<(DataSource, u64, Forms), Outcome>,
    /// Number of choices tried although predicted to be slower, by source and disk limit.
    tried: HashMap<(DataSource, u64), u32>,
    /// Reason of the last choice.
    reason: &'static str,
}

/// A fixed form is tried once if its prediction is at most this multiple of the best.
const WORTH_TRYING: f64 = 1.25;

/// The same if the prediction rests on guessed rates: of a new codec, or a disk that was never the slowest stage.
const WORTH_FINDING_OUT: f64 = 2.0;

/// Largest number of tried forms per program and source.
const MOST_TRIED: u32 = 2;

/// Number of measured choices from which only measured ones are considered.
const MOST_MEASURED: usize = 6;

/// Relative gain below which a program keeps its forms.
const LEAST_GAIN: f64 = 0.03;

/// Number of programs from which those that are gone are removed.
const MOST_KNOWN: usize = 1024;

/// Measured rates of a device, and times of programs on it.
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
    /// The paths of a device with these rates, without measurements yet.
    pub fn new(kind: DeviceKind, device: &DeviceRates) -> Self {
        let rates = Rates::new(&warpmill_machine::current(), device, rayon::current_num_threads());
        let name = (kind == DeviceKind::Cuda).then(|| device.name.clone());
        let (rates, programs) = (Mutex::new(rates), Mutex::default());
        Self { name, scanning: device.plain_bytes / 2.0, rates, programs }
    }

    /// Chooses the forms in which `columns` of `program` are streamed in about `batches` batches.
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

    /// Like [`Paths::choose`], for a program that is not run now: records nothing.
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

    /// Explains the forms that were chosen for `columns` of `program`.
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
            // The address was reused: the earlier program is gone.
            (*held, *known) = (Arc::downgrade(program), Known::default());
        }
        let kernels = known.kernels.unwrap_or_else(|| self.guess_kernels(program, columns));
        let setting = Setting { source, disk_limit: limit_of(source, disk_limit), kernels, batches };
        then(known, &rates, setting)
    }

    /// Estimated seconds of the kernels of a program that has not run: bytes at the rate of simple scans, times 1 + the number of joins.
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

    /// Forgets the run times of `program`, which will run in another way.
    pub fn forget_outcomes(&self, program: &Arc<Program>) {
        if let Some((_, known)) = self.programs.lock().get_mut(&(Arc::as_ptr(program) as usize)) {
            known.outcomes.clear();
        }
    }

    /// Learns from a run of `program` with these forms: the rates, and, if the run was `whole`, its time.
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
        // Copies of a simulated device stay in the host's caches; with their rate, no copy would be worth its room.
        if measured.link > 0.0 && self.name.is_some() {
            let bytes = measured.copies.0;
            learnt.learn(2, bytes, bytes as f64 / measured.link);
        }
        learnt.disk = learnt.disk.max(measured.disk_least);
        let decoded: u64 = measured.on_device.0.iter().sum();
        for codec in 0..CODECS {
            // Codecs that were decompressed together share their time by bytes.
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

    /// The current rates.
    pub fn rates(&self) -> Rates {
        self.rates.lock().clone()
    }
}

/// The disk's bandwidth limit, 0 if nothing is read from a disk.
fn limit_of(source: DataSource, limit: u64) -> u64 {
    if source == DataSource::Disk { limit } else { 0 }
}

/// Encoded bytes of a column's segments.
fn decoded_bytes(work: &Work) -> u64 {
    work.copied
}

impl Known {
    /// The times with all columns in one form, for each form.
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
        // The part of a run's time that the model leaves out hardly depends on the forms.
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
        // Of nearly equal choices, prefer the one with the most runs.
        let near = forms.iter().filter(|other| estimate(self, other) * (1.0 - LEAST_GAIN) <= best);
        let runs = |forms: &Forms| outcome(self, forms).map_or(0, |outcome| outcome.runs);
        let most = near.fold(&forms[0], |most, other| if runs(other) > runs(most) { other } else { most }).clone();
        if runs(&most) == 0 {
            return chosen(most, "predicted");
        }
        // Trying a form is not worth making page-locked copies.
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
