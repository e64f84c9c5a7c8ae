//! Which representation of a column passes through device memory, and where its codec is undone.
//!
//! A column may be stored as it is encoded (light), through a codec (heavy), or both (docs/format.md, section 2). Fewer bytes are read
//! and copied sooner; decompressing them takes the device, or the host's threads, some time. All of that overlaps, so that the slowest
//! stage decides: what Boeschen et al. (GOLAP, SIGMOD 2024) and the study of compression for out-of-memory data (DaMoN 2025) measure
//! at fixed choices is predicted here, and the best choice taken, for each program. Rates are measured while programs run; before that
//! there are guesses. A choice never changes an answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use warpmill_format::Codec;
use warpmill_plan::{Operator, Program, Scan, Source};

use crate::device::DeviceKind;

use super::source::DataSource;

/// How a column of a scan gets to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// As it is encoded; where it is only stored through a codec, the host undoes that on the way.
    Light,
    /// Through its codec, which the device undoes where it can (LZ4, Snappy), otherwise the host on the way.
    Heavy,
    /// Read through its codec, which the host undoes on the way.
    #[serde(rename = "heavy_host")]
    HeavyOnHost,
}

impl Form {
    /// All forms.
    pub const ALL: [Form; 3] = [Form::Light, Form::Heavy, Form::HeavyOnHost];

    /// As the setting calls it.
    pub fn name(self) -> &'static str {
        match self {
            Form::Light => "light",
            Form::Heavy => "heavy",
            Form::HeavyOnHost => "heavy_host",
        }
    }
}

/// Which representation is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Representation {
    /// What is predicted to be fastest.
    #[default]
    Auto,
    /// All columns [`Form::Light`].
    Light,
    /// All columns [`Form::Heavy`].
    Heavy,
    /// All columns [`Form::HeavyOnHost`].
    HeavyOnHost,
}

impl Representation {
    fn form(self) -> Option<Form> {
        match self {
            Representation::Auto => None,
            Representation::Light => Some(Form::Light),
            Representation::Heavy => Some(Form::Heavy),
            Representation::HeavyOnHost => Some(Form::HeavyOnHost),
        }
    }
}

const CODECS: usize = Codec::ALL.len();

/// Bytes by codec.
type ByCodec<T> = [T; CODECS];

/// What bringing some columns to the device takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes as stored.
    pub read: u64,
    /// Bytes that are copied to the device.
    pub copied: u64,
    /// Bytes that the device decompresses to.
    pub on_device: ByCodec<u64>,
    /// Bytes that the host decompresses to.
    pub on_host: ByCodec<u64>,
}

impl Work {
    fn add(&mut self, other: &Work) {
        self.read += other.read;
        self.copied += other.copied;
        for codec in 0..CODECS {
            self.on_device[codec] += other.on_device[codec];
            self.on_host[codec] += other.on_host[codec];
        }
    }
}

/// Whether devices undo a codec.
pub fn device_undoes(codec: Codec) -> bool {
    matches!(codec, Codec::Lz4 | Codec::Snappy)
}

/// A column of a scan: the work that each form of it is, over the row segments that are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanColumn {
    /// The pipeline whose source the scan is.
    pub pipeline: usize,
    /// The table and the column.
    pub name: (String, String),
    /// Its codec, of the first chunk that has one.
    pub codec: Codec,
    light: Work,
    heavy: Work,
    on_host: Work,
}

impl ScanColumn {
    /// Of `pipeline`'s scan, column `position`, of row segments `segments`.
    pub fn new(pipeline: usize, scan: &Scan, position: usize, segments: &[usize]) -> Self {
        let (table, column) = (&scan.table, scan.columns[position]);
        let name = (scan.name.clone(), table.schema().field(column).name().clone());
        let (light, heavy, on_host) = Default::default();
        let mut found = Self { pipeline, name, codec: Codec::None, light, heavy, on_host };
        for &segment in segments {
            let bytes = table.segment_stats(segment, column).stored_bytes;
            let as_it_is = Work { read: bytes, copied: bytes, ..Work::default() };
            let Some((codec, stored, decompressed)) = table.stored_sizes(segment, column) else {
                [&mut found.light, &mut found.heavy, &mut found.on_host]
                    .into_iter()
                    .for_each(|work| work.add(&as_it_is));
                continue;
            };
            if found.codec == Codec::None {
                found.codec = codec;
            }
            let mut on_host = Work { read: stored, copied: decompressed, ..Work::default() };
            let mut heavy = Work { read: stored, copied: stored, ..Work::default() };
            on_host.on_host[codec as usize] = decompressed;
            heavy.on_device[codec as usize] = decompressed;
            found.light.add(if table.has_light(segment, column) { &as_it_is } else { &on_host });
            found.heavy.add(if device_undoes(codec) { &heavy } else { &on_host });
            found.on_host.add(&on_host);
        }
        found
    }

    /// The work of a form.
    pub fn work(&self, form: Form) -> &Work {
        match form {
            Form::Light => &self.light,
            Form::Heavy => &self.heavy,
            Form::HeavyOnHost => &self.on_host,
        }
    }
}

/// Bytes per second (seconds, where that is said) of everything that happens on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// Reading from files, past the page cache.
    pub disk: f64,
    /// Copying to page-locked memory.
    pub staging: f64,
    /// Copying from there to the device.
    pub link: f64,
    /// What the device gives, by codec.
    pub on_device: ByCodec<f64>,
    /// What one thread of the host gives, by codec.
    pub on_host: ByCodec<f64>,
    /// Threads of the host.
    pub threads: usize,
    /// Which of them were measured: disk, staging, link, then codecs on the device, then on the host.
    pub measured: [bool; 3 + 2 * CODECS],
}

impl Rates {
    /// Before anything has been measured: an H200 and an NVMe drive; or the simulated device, whose threads are slow.
    pub fn guess(kind: DeviceKind, threads: usize) -> Self {
        let by_codec = |lz4: f64, snappy: f64, zstd: f64, deflate: f64| {
            let mut rates = [f64::INFINITY; CODECS];
            for (codec, rate) in
                [(Codec::Lz4, lz4), (Codec::Snappy, snappy), (Codec::Zstd, zstd), (Codec::Deflate, deflate)]
            {
                rates[codec as usize] = rate;
            }
            rates
        };
        let on_host = by_codec(2e9, 1.5e9, 0.9e9, 0.5e9);
        let (link, device) = match kind {
            DeviceKind::Cuda => (50e9, 40e9),
            DeviceKind::Sim => (5e9, 20e6),
        };
        let on_device = by_codec(device, device, f64::INFINITY, f64::INFINITY);
        let staging = (4e9 * threads.max(1) as f64).min(40e9);
        Self {
            disk: 2.2e9,
            staging,
            link,
            on_device,
            on_host,
            threads: threads.max(1),
            measured: [false; 3 + 2 * CODECS],
        }
    }
}

/// Times of what happens while data passes through, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Stages {
    /// Reading files.
    pub read: f64,
    /// What the host does besides: copying to page-locked memory, decompressing.
    pub host: f64,
    /// Copying to the device.
    pub copy: f64,
    /// Decompressing on the device.
    pub decompress: f64,
    /// The query's kernels.
    pub kernels: f64,
    /// All of it, overlapping.
    pub total: f64,
}

/// Everything else that a prediction depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Where the data is.
    pub source: DataSource,
    /// Bytes per second that files are read with at most; 0: as fast as drives are.
    pub disk_limit: u64,
    /// Seconds of the query's kernels.
    pub kernels: f64,
    /// Batches: what is done of the first overlaps with nothing.
    pub batches: u64,
}

/// Predicts the stages of `work`: the host, the link and the device work at the same time, each on another batch.
pub fn predict(work: &Work, rates: &Rates, setting: Setting) -> Stages {
    let sum = |bytes: &ByCodec<u64>, rates: &ByCodec<f64>| -> f64 {
        bytes.iter().zip(rates).map(|(&bytes, &rate)| if bytes == 0 { 0.0 } else { bytes as f64 / rate }).sum()
    };
    let decoding = sum(&work.on_host, &rates.on_host) / rates.threads as f64;
    let limit = if setting.disk_limit == 0 { f64::INFINITY } else { setting.disk_limit as f64 };
    let decoded: u64 = work.on_host.iter().sum();
    let (read, host) = match setting.source {
        DataSource::Disk => (work.read as f64 / rates.disk.min(limit), decoding),
        // What is decompressed is written where it is wanted; the rest is copied there.
        DataSource::Host | DataSource::Cache => {
            (0.0, decoding + work.copied.saturating_sub(decoded) as f64 / rates.staging)
        }
        // Copied and decompressed once.
        DataSource::Pinned => (0.0, 0.0),
    };
    let (copy, decompress) = (work.copied as f64 / rates.link, sum(&work.on_device, &rates.on_device));
    let kernels = setting.kernels;
    // Threads that wait for the disk leave others time to decompress.
    let stages = [read.max(host), copy, decompress + kernels];
    let slowest = stages.iter().copied().fold(0.0, f64::max);
    let fill = (stages.iter().sum::<f64>() - slowest) / setting.batches.max(1) as f64;
    Stages { read, host, copy, decompress, kernels, total: slowest + fill }
}

/// The forms of a program's columns.
pub type Forms = Vec<Form>;

/// Assignments of forms that can be the best: as many columns compressed as the stages balance, those first that save the most
/// bytes for the time that decompressing them takes.
pub fn candidates(columns: &[ScanColumn], rates: &Rates) -> Vec<Forms> {
    let mut found = vec![vec![Form::Light; columns.len()]];
    for form in [Form::Heavy, Form::HeavyOnHost] {
        let mut order: Vec<usize> =
            (0..columns.len()).filter(|&c| columns[c].work(form) != &columns[c].light).collect();
        let gain = |&c: &usize| {
            let (light, own) = (&columns[c].light, columns[c].work(form));
            let saved = (light.read as f64 - own.read as f64) + (light.copied as f64 - own.copied as f64);
            let nothing = Setting { source: DataSource::Host, disk_limit: 0, kernels: 0.0, batches: 1 };
            let only = Work { read: 0, copied: 0, ..*own };
            let stages = predict(&only, rates, nothing);
            saved / (stages.decompress + stages.host).max(1e-12)
        };
        order.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
        let mut forms = found[0].clone();
        for c in order {
            forms[c] = form;
            if !found.iter().any(|other| same(columns, other, &forms)) {
                found.push(forms.clone());
            }
        }
    }
    found
}

/// The work of all columns.
pub fn total(columns: &[ScanColumn], forms: &[Form]) -> Work {
    let mut work = Work::default();
    columns.iter().zip(forms).for_each(|(column, form)| work.add(column.work(*form)));
    work
}

/// A choice, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// By column.
    pub forms: Forms,
    /// What is predicted of it.
    pub predicted: Stages,
    /// Why: `forced`, `only`, `predicted`, `measured`, `tried`.
    pub reason: &'static str,
    /// What all columns in one form would take.
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

/// What a run of a program in some forms took.
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

/// What is known of a program.
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

/// What has been measured on a device.
#[derive(Debug)]
pub struct Paths {
    kind: DeviceKind,
    rates: Mutex<Rates>,
    programs: Mutex<HashMap<usize, (Weak<Program>, Known)>>,
}

impl Rates {
    /// Whether what is predicted for `work` depends on a guess: of what a codec's decompression takes, of the disk, or of
    /// copying to page-locked memory.
    fn guesses(&self, work: &Work, source: DataSource) -> bool {
        let codecs = (0..CODECS).any(|codec| {
            (work.on_device[codec] > 0 && !self.measured[3 + codec])
                || (work.on_host[codec] > 0 && !self.measured[3 + CODECS + codec])
        });
        let staged = work.copied > work.on_host.iter().sum();
        codecs
            || (source == DataSource::Disk && !self.measured[0])
            || (source == DataSource::Host && staged && !self.measured[1])
    }

    /// Notes that `bytes` bytes took `seconds`, of the rate at position `which` of [`Rates::measured`].
    fn learn(&mut self, which: usize, bytes: u64, seconds: f64) {
        // What is quickly done is mostly overhead.
        if bytes < LEAST_BYTES || seconds <= 0.0 {
            return;
        }
        let rate = match which {
            0 => &mut self.disk,
            1 => &mut self.staging,
            2 => &mut self.link,
            _ if which < 3 + CODECS => &mut self.on_device[which - 3],
            _ => &mut self.on_host[which - 3 - CODECS],
        };
        let found = bytes as f64 / seconds;
        *rate = if std::mem::replace(&mut self.measured[which], true) { (*rate + found) / 2.0 } else { found };
    }
}

/// Fewer bytes tell nothing of a rate.
const LEAST_BYTES: u64 = 64 << 10;

/// What a run measured.
#[derive(Debug, Default)]
pub struct Measured {
    /// From the first batch to the last kernel.
    pub total: Duration,
    /// Bytes and time of reading files in batches in which that, not the host's decompressing, took most of the time.
    pub disk: (u64, Duration),
    /// Bytes per second that files can be read with at least: what they were in other batches.
    pub disk_least: f64,
    /// The same of copying to page-locked memory.
    pub staging: (u64, Duration),
    /// Bytes and time of copies to the device.
    pub link: (u64, Duration),
    /// What the host waited for files, or for slower drives.
    pub read: Duration,
    /// What it did besides.
    pub host: Duration,
    /// Bytes that the device decompressed to, and the time of that.
    pub on_device: (ByCodec<u64>, Duration),
    /// Bytes that the host decompressed to, and the time of all threads.
    pub on_host: Decoding,
    /// The query's kernels.
    pub kernels: Duration,
    /// Whether things were made that later runs find: their time says nothing.
    pub first: bool,
}

impl Measured {
    /// As stages.
    pub fn stages(&self) -> Stages {
        let seconds = |duration: Duration| duration.as_secs_f64();
        Stages {
            read: seconds(self.read),
            host: seconds(self.host),
            copy: seconds(self.link.1),
            decompress: seconds(self.on_device.1),
            kernels: seconds(self.kernels),
            total: seconds(self.total),
        }
    }
}

/// What the host's threads decompressed.
#[derive(Debug, Default)]
pub struct Decoding(ByCodec<(AtomicU64, AtomicU64)>);

impl Decoding {
    /// A thread took `time` for `bytes` bytes of `codec`.
    pub fn add(&self, codec: Codec, bytes: u64, time: Duration) {
        let (all, nanos) = &self.0[codec as usize];
        all.fetch_add(bytes, Ordering::Relaxed);
        nanos.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Bytes of all codecs.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|(bytes, _)| bytes.load(Ordering::Relaxed)).sum()
    }

    /// Time of all threads together.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.0.iter().map(|(_, nanos)| nanos.load(Ordering::Relaxed)).sum())
    }

    fn of(&self, codec: usize) -> (u64, f64) {
        let (bytes, nanos) = &self.0[codec];
        (bytes.load(Ordering::Relaxed), nanos.load(Ordering::Relaxed) as f64 / 1e9)
    }
}

impl Paths {
    /// Nothing is known of a device of this kind.
    pub fn new(kind: DeviceKind) -> Self {
        let rates = Rates::guess(kind, rayon::current_num_threads());
        Self { kind, rates: Mutex::new(rates), programs: Mutex::default() }
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

    /// What is known of forms that were chosen for `columns` of `program`.
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
        let rate = match self.kind {
            DeviceKind::Cuda => 500e9,
            DeviceKind::Sim => 20e6,
        };
        let bytes = |pipeline: usize| -> u64 {
            columns.iter().filter(|column| column.pipeline == pipeline).map(|column| decoded_bytes(&column.light)).sum()
        };
        let pipelines = program.pipelines.iter().enumerate();
        let scans = pipelines.filter(|(_, pipeline)| matches!(pipeline.source, Source::Scan(_)));
        let seconds = scans.map(|(index, pipeline)| {
            let joins = pipeline.operators.iter().filter(|operator| matches!(operator, Operator::Probe(_))).count();
            bytes(index) as f64 * (1 + joins) as f64 / rate
        });
        seconds.sum()
    }

    /// Learns from a run in which `program`'s columns had these forms.
    pub fn learn(
        &self,
        program: &Arc<Program>,
        forms: &Forms,
        (source, limit): (DataSource, u64),
        measured: &Measured,
    ) {
        let mut learnt = self.rates.lock();
        let seconds = |time: Duration| time.as_secs_f64();
        for (which, (bytes, time)) in [measured.disk, measured.staging, measured.link].into_iter().enumerate() {
            learnt.learn(which, bytes, seconds(time));
        }
        learnt.disk = learnt.disk.max(measured.disk_least);
        let decoded: u64 = measured.on_device.0.iter().sum();
        for codec in 0..CODECS {
            // Codecs that were decompressed together have the same rate, as far as that can be told.
            let bytes = measured.on_device.0[codec];
            let part = bytes as f64 / decoded.max(1) as f64;
            learnt.learn(3 + codec, bytes, seconds(measured.on_device.1) * part);
            let (bytes, time) = measured.on_host.of(codec);
            learnt.learn(3 + CODECS + codec, bytes, time);
        }
        drop(learnt);
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

    /// What is known of the device's rates.
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
    /// What all columns in one form take.
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
        // What a run takes that the stages do not tell is about the same whatever the forms.
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

/// Whether two assignments are the same work.
fn same(columns: &[ScanColumn], a: &[Form], b: &[Form]) -> bool {
    columns.iter().zip(a.iter().zip(b)).all(|(column, (a, b))| column.work(*a) == column.work(*b))
}

#[cfg(test)]
mod tests;
