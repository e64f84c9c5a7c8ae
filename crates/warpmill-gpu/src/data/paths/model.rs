//! Cost model of copying columns to the device: bytes, rates, and the times of the stages.

use serde::Serialize;
use warpmill_format::parquet_file::PageCodec;
use warpmill_format::{Codec, Encoding, TableSnapshot};
use warpmill_ir::Scan;
use warpmill_machine::{CodecRates, DeviceRates, HardwareProfile, Origin, Rate};

use crate::data::decoding::{ByCodec, CODECS};
use crate::data::form::{DataSource, Form};
use crate::data::undone::{Undone, batch_format, same_rate};

/// Amount of work to bring columns to the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes as stored.
    pub read: u64,
    /// Bytes copied to the device.
    pub copied: u64,
    /// Bytes that the device decompresses to.
    pub on_device: ByCodec<u64>,
    /// Bytes that the host decompresses to.
    pub on_host: ByCodec<u64>,
    /// Bytes of the largest block that a single warp decompresses.
    pub largest: u64,
}

impl Work {
    pub(super) fn add(&mut self, other: &Work) {
        self.read += other.read;
        self.copied += other.copied;
        self.largest = self.largest.max(other.largest);
        for codec in 0..CODECS {
            self.on_device[codec] += other.on_device[codec];
            self.on_host[codec] += other.on_host[codec];
        }
    }
}

/// A column of a scan with the work of each form, summed over the row segments that are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanColumn {
    /// The pipeline whose source the scan is.
    pub pipeline: usize,
    /// The table and the column.
    pub name: (String, String),
    /// Codec of the first chunk that has one.
    pub codec: &'static str,
    /// Whether the device decompresses that codec.
    pub undone: bool,
    pub(super) light: Work,
    pub(super) heavy: Work,
    pub(super) on_host: Work,
}

impl ScanColumn {
    /// Column `position` of `pipeline`'s scan, over the row segments `segments`, for a device that decompresses the codecs `undone`.
    pub fn new(pipeline: usize, scan: &Scan, position: usize, segments: &[usize], undone: Undone) -> Self {
        let (table, column) = (&scan.table, scan.columns[position]);
        let name = (scan.name.clone(), table.schema().field(column).name().clone());
        let (light, heavy, on_host) = Default::default();
        let mut found = Self { pipeline, name, codec: Codec::None.name(), undone: false, light, heavy, on_host };
        for &segment in segments {
            let stats = table.segment_stats(segment, column);
            let (read, copied) = match table.segment_encoding(segment, column) {
                // The host decodes symbols to plain strings.
                Encoding::Symbols => (stats.stored_bytes, stats.plain_bytes),
                _ => (stats.stored_bytes, stats.stored_bytes),
            };
            let as_it_is = Work { read, copied, ..Work::default() };
            let Some(form) = Compressed::of(table, segment, column, undone) else {
                [&mut found.light, &mut found.heavy, &mut found.on_host]
                    .into_iter()
                    .for_each(|work| work.add(&as_it_is));
                continue;
            };
            let Compressed { name, codec, stored, decompressed, largest, undone, light } = form;
            if found.codec == Codec::None.name() {
                (found.codec, found.undone) = (name, undone);
            }
            let mut on_host = Work { read: stored, copied: decompressed, ..Work::default() };
            let mut heavy = Work { read: stored, copied: stored, ..Work::default() };
            on_host.on_host[codec as usize] = decompressed;
            heavy.on_device[codec as usize] = decompressed;
            heavy.largest = largest;
            found.light.add(if light { &as_it_is } else { &on_host });
            found.heavy.add(if undone { &heavy } else { &on_host });
            found.on_host.add(&on_host);
        }
        found
    }

    /// The work in form `form`.
    pub fn work(&self, form: Form) -> &Work {
        match form {
            Form::Light => &self.light,
            Form::Heavy => &self.heavy,
            Form::HeavyOnHost => &self.on_host,
        }
    }
}

/// Typical uncompressed bytes of a large Parquet page (PyArrow, Java; about that of DuckDB's single page per row group of 122,880 rows).
const USUAL_PAGE: u64 = 1 << 20;

/// Typical uncompressed bytes of a block of a large chunk.
const USUAL_BLOCK: u64 = 64 << 10;

/// A compressed column of a row segment.
struct Compressed {
    name: &'static str,
    /// The codec whose rate applies.
    codec: Codec,
    stored: u64,
    decompressed: u64,
    /// Approximate bytes of the largest block that a single warp decompresses; 0: the vendor's library decompresses.
    largest: u64,
    /// Whether the device decompresses it.
    undone: bool,
    /// Whether it is also stored without the codec.
    light: bool,
}

impl Compressed {
    fn of(table: &TableSnapshot, segment: usize, column: usize, device: Undone) -> Option<Self> {
        if let Some((pages, stored, decompressed)) = table.page_sizes(segment, column) {
            let (name, undone) = match pages {
                PageCodec::Zstd => ("zstd", device.pages().zstd),
                PageCodec::Gzip => ("gzip", device.pages().gzip),
                PageCodec::Snappy => ("snappy", device.pages().own),
                PageCodec::Lz4 => ("lz4", device.pages().own),
                PageCodec::None => return None,
            };
            let codec = same_rate(pages);
            let largest = if batch_format(codec).is_some() { 0 } else { decompressed.min(USUAL_PAGE) };
            return Some(Self { name, codec, stored, decompressed, largest, undone, light: false });
        }
        let (codec, stored, decompressed) = table.stored_sizes(segment, column)?;
        let (undone, light) = (device.has(codec), table.has_light(segment, column));
        let largest = if batch_format(codec).is_some() { 0 } else { decompressed.min(USUAL_BLOCK) };
        Some(Self { name: codec.name(), codec, stored, decompressed, largest, undone, light })
    }
}

/// Rates of the stages, in bytes per second.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// File reads past the page cache.
    pub disk: f64,
    /// Copies to page-locked memory.
    pub staging: f64,
    /// Copies from page-locked memory to the device.
    pub link: f64,
    /// Decompression on the device, by codec.
    pub on_device: ByCodec<f64>,
    /// Decompression by one host thread, by codec.
    pub on_host: ByCodec<f64>,
    /// Decompression by a single warp, with Warpmill's own kernels.
    pub warp: f64,
    /// Number of host threads.
    pub threads: usize,
    /// Whether each rate was measured: disk, staging, link, then codecs on the device, then codecs on the host.
    pub measured: [bool; 3 + 2 * CODECS],
}

impl Rates {
    /// Measured or assumed rates from the hardware profile, for a host of `threads` threads.
    pub fn new(host: &HardwareProfile, device: &DeviceRates, threads: usize) -> Self {
        let threads = threads.max(1);
        let mut measured = [false; 3 + 2 * CODECS];
        let known = |rate: Rate| host.measured.contains(&rate) || device.measured.contains(&rate);
        measured[..3].copy_from_slice(&[known(Rate::Storage), known(Rate::Copy), known(Rate::Link)]);
        for codec in 0..CODECS {
            (measured[3 + codec], measured[3 + CODECS + codec]) = (known(Rate::DeviceCodecs), known(Rate::HostCodecs));
        }
        Self {
            disk: host.storage.bandwidth,
            staging: host.cpu.copying(threads),
            link: device.link.bandwidth,
            on_device: by_codec(&device.codecs),
            on_host: by_codec(&host.cpu.codecs),
            warp: device.warp,
            threads,
            measured,
        }
    }
}

fn by_codec(rates: &CodecRates) -> ByCodec<f64> {
    let CodecRates { lz4, snappy, zstd, deflate, gdeflate } = *rates;
    let known = [
        (Codec::Lz4, lz4),
        (Codec::Snappy, snappy),
        (Codec::Zstd, zstd),
        (Codec::Deflate, deflate),
        (Codec::Gdeflate, gdeflate),
    ];
    let mut rates = [f64::INFINITY; CODECS];
    known.into_iter().for_each(|(codec, rate)| rates[codec as usize] = rate);
    rates
}

/// Times of the stages of streamed data, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Stages {
    /// File reads.
    pub read: f64,
    /// Other work of the host: copies to page-locked memory, decompression.
    pub host: f64,
    /// Copies to the device.
    pub copy: f64,
    /// Decompression on the device.
    pub decompress: f64,
    /// The query's kernels.
    pub kernels: f64,
    /// Total, with stages overlapped.
    pub total: f64,
}

impl Stages {
    /// Adds the times of stages that run before or after.
    pub fn add(&mut self, other: &Self) {
        self.read += other.read;
        self.host += other.host;
        self.copy += other.copy;
        self.decompress += other.decompress;
        self.kernels += other.kernels;
        self.total += other.total;
    }
}

/// Inputs of a prediction besides work and rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Location of the data.
    pub source: DataSource,
    /// Limit of the file read rate in bytes per second; 0: none.
    pub disk_limit: u64,
    /// Seconds of the query's kernels.
    pub kernels: f64,
    /// Number of batches: the first batch overlaps with nothing.
    pub batches: u64,
}

/// Predicts the times of `work`: host, link and device work at the same time, each on another batch.
pub fn predict(work: &Work, rates: &Rates, setting: Setting) -> Stages {
    let sum = |bytes: &ByCodec<u64>, rates: &ByCodec<f64>| -> f64 {
        bytes.iter().zip(rates).map(|(&bytes, &rate)| if bytes == 0 { 0.0 } else { bytes as f64 / rate }).sum()
    };
    let decoding = sum(&work.on_host, &rates.on_host) / rates.threads as f64;
    let limit = if setting.disk_limit == 0 { f64::INFINITY } else { setting.disk_limit as f64 };
    let decoded: u64 = work.on_host.iter().sum();
    let (read, host) = match setting.source {
        DataSource::Disk => (work.read as f64 / rates.disk.min(limit), decoding),
        // The host decompresses straight to page-locked memory; the rest is copied there.
        DataSource::Host | DataSource::Cache => {
            (0.0, decoding + work.copied.saturating_sub(decoded) as f64 / rates.staging)
        }
        // Was copied and decompressed once, before.
        DataSource::Mirrored | DataSource::Pinned => (0.0, 0.0),
    };
    let copy = work.copied as f64 / rates.link;
    // Batches are decompressed in sequence, each at least as long as its largest block.
    let alone = setting.batches.max(1) as f64 * work.largest as f64 / rates.warp;
    let decompress = sum(&work.on_device, &rates.on_device).max(alone);
    let kernels = setting.kernels;
    // Threads that wait for the disk leave others time to decompress.
    let stages = [read.max(host), copy, decompress + kernels];
    let slowest = stages.iter().copied().fold(0.0, f64::max);
    let fill = (stages.iter().sum::<f64>() - slowest) / setting.batches.max(1) as f64;
    Stages { read, host, copy, decompress, kernels, total: slowest + fill }
}

/// The form of each column.
pub type Forms = Vec<Form>;

/// Assignments of forms that can be optimal: growing sets of compressed columns, ordered by bytes saved per second of decompression.
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

/// The summed work of all columns.
pub fn total(columns: &[ScanColumn], forms: &[Form]) -> Work {
    let mut work = Work::default();
    columns.iter().zip(forms).for_each(|(column, form)| work.add(column.work(*form)));
    work
}

impl Rates {
    /// Whether the prediction for `work` depends on a guessed rate of a codec, the disk, or copies to page-locked memory.
    pub(super) fn guesses(&self, work: &Work, source: DataSource) -> bool {
        let codecs = (0..CODECS).any(|codec| {
            (work.on_device[codec] > 0 && !self.measured[3 + codec])
                || (work.on_host[codec] > 0 && !self.measured[3 + CODECS + codec])
        });
        let staged = work.copied > work.on_host.iter().sum();
        codecs
            || (source == DataSource::Disk && !self.measured[0])
            || (source == DataSource::Host && staged && !self.measured[1])
    }

    /// Updates the hardware profile with measured rates that differ much from it.
    pub(super) fn refine(&self, device: &str) {
        let profile = warpmill_machine::current();
        let (known, differ) = (profile.device(device), |found: f64, known: f64| (found / known - 1.0).abs() > MUCH);
        let is_measured = |which: usize| self.measured[which];
        let link = is_measured(2) && differ(self.link, known.link.bandwidth);
        let disk = is_measured(0) && differ(self.disk, profile.storage.bandwidth);
        if !(link || disk) || !matches!(warpmill_machine::origin(), Origin::File(_)) {
            return;
        }
        warpmill_machine::refine(|profile| {
            if link {
                let mut rates = profile.device(device);
                rates.link.bandwidth = self.link;
                rates.measured.insert(Rate::Link);
                profile.put_device(rates);
            }
            if disk {
                profile.storage.bandwidth = self.disk;
                profile.measured.insert(Rate::Storage);
            }
        });
    }

    /// Records that `bytes` bytes took `seconds`, for the rate at index `which` of [`Rates::measured`]. The rate models what is reachable: other
    /// users of the link, threads or memory, and start-up times, only make it seem slower. So it falls slowly, and in proportion to the bytes of the
    /// measurement.
    pub(super) fn learn(&mut self, which: usize, bytes: u64, seconds: f64) {
        // Small measurements are mostly overhead.
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
        let weight = (bytes as f64 / MANY_BYTES as f64).min(1.0);
        let known = std::mem::replace(&mut self.measured[which], true);
        let trust = match (known, found < *rate) {
            (false, _) => 1.0,
            (true, true) => FALLING,
            (true, false) => RISING,
        };
        *rate += (found - *rate) * weight * trust;
    }
}

/// Relative difference from which the profile is updated.
const MUCH: f64 = 0.1;

/// Bytes below which a measurement is ignored.
const LEAST_BYTES: u64 = 64 << 10;

/// Bytes from which a measurement has full weight.
const MANY_BYTES: u64 = 16 << 20;

/// Fraction of the difference by which a measured rate rises.
const RISING: f64 = 0.5;

/// Fraction of the difference by which a measured rate falls.
const FALLING: f64 = 0.2;

/// Whether two assignments are the same work.
pub(super) fn same(columns: &[ScanColumn], a: &[Form], b: &[Form]) -> bool {
    columns.iter().zip(a.iter().zip(b)).all(|(column, (a, b))| column.work(*a) == column.work(*b))
}
