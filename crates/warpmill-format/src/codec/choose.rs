//! The choice of a column's codec.
//!
//! GOLAP (SIGMOD 2024, section 3): contiguous samples of a column's chunks are compressed with every setting of a grid, and the measurements (size,
//! and decompression speed on this machine) decide for an objective. Here columns arrive as a stream: each chunk is sampled as it arrives, up to the
//! given fraction of all bytes so far (except the first sample), all measurements of a column are accumulated, and each chunk is stored with the best
//! setting so far.

use std::time::Instant;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{BLOCK_BYTES, Codec, CodecConfig, CompressedChunk, block, compress};
use crate::{Encoding, FormatError, Result, Segment};

/// The objective of the choice of a column's codec.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// The shortest scan by the cost model ([`Machine::seconds`]).
    #[default]
    Time,
    /// The fewest bytes.
    Size,
    /// The smallest product of both, each relative to its best value.
    Balanced,
}

impl Objective {
    /// Name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Size => "size",
            Self::Balanced => "balanced",
        }
    }
}

impl std::str::FromStr for Objective {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Self> {
        let found = [Self::Time, Self::Size, Self::Balanced].into_iter().find(|o| o.name() == name.trim());
        found.ok_or_else(|| FormatError::Catalog(format!("objective {name:?}: there are time, size and balanced")))
    }
}

/// The codec that columns are stored with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodecChoice {
    /// This codec for all chunks (a chunk that it does not shrink is stored without).
    Fixed(Codec),
    /// The best codec for each chunk by samples.
    Auto,
}

impl std::str::FromStr for CodecChoice {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Self> {
        if name.trim().eq_ignore_ascii_case("auto") { Ok(Self::Auto) } else { name.parse().map(Self::Fixed) }
    }
}

/// The machine's parameters in the cost model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Bytes per second that chunks are read at from where tables are.
    pub storage_bandwidth: f64,
    /// Threads that decompress and run queries.
    pub workers: usize,
    /// Encoded bytes per second that one worker processes besides decompression: simple scans are faster, joins slower. Only matters if storage is
    /// faster than the workers.
    pub query_rate: f64,
}

impl Default for Machine {
    /// The rates of the hardware profile, and all cores.
    fn default() -> Self {
        let profile = warpmill_machine::current();
        let workers = warpmill_machine::cores();
        Self { storage_bandwidth: profile.storage.bandwidth, workers, query_rate: profile.cpu.encoded_bytes() }
    }
}

impl Machine {
    /// Seconds of a scan of `stored` bytes that decompress to `light` encoded bytes at `rate` bytes per second and worker. Reading overlaps with the
    /// workers' computation; decompression takes time from it.
    pub fn seconds(&self, stored: f64, light: f64, rate: f64) -> f64 {
        let workers = self.workers.max(1) as f64;
        let decompress = if rate.is_finite() { light / rate } else { 0.0 };
        (stored / self.storage_bandwidth).max((decompress + light / self.query_rate) / workers)
    }
}

/// How columns are compressed.
#[derive(Debug, Clone, PartialEq)]
pub struct CodecOptions {
    /// The codec, or automatic choice.
    pub choice: CodecChoice,
    /// The objective of the choice.
    pub objective: Objective,
    /// Fraction of a column's bytes to sample, above 0 and at most 1.
    pub sample: f64,
    /// Uncompressed bytes of a block; `None`: 64 KiB; [`CodecChoice::Auto`] also tries larger ones.
    pub block_bytes: Option<usize>,
    /// Whether compressed chunks are also stored without the codec, so that readers have the choice.
    pub light: bool,
    /// Parameters of the cost model.
    pub machine: Machine,
}

impl Default for CodecOptions {
    fn default() -> Self {
        Self {
            choice: CodecChoice::Fixed(Codec::None),
            objective: Objective::Time,
            sample: 0.1,
            block_bytes: None,
            light: false,
            machine: Machine::default(),
        }
    }
}

impl CodecOptions {
    /// Compresses all columns with `codec`.
    pub fn fixed(codec: Codec) -> Self {
        Self { choice: CodecChoice::Fixed(codec), ..Self::default() }
    }

    /// Whether tables can be written so.
    ///
    /// Errors: [`FormatError::Codec`] for the codec or its blocks, [`FormatError::Catalog`] for a sample that is no part.
    pub fn check(&self) -> Result<()> {
        if !(self.sample > 0.0 && self.sample <= 1.0) {
            return Err(FormatError::Catalog(format!("a sample of {} is not above 0 and at most 1", self.sample)));
        }
        match self.choice {
            CodecChoice::Fixed(codec) => self.config(codec).check(),
            // Deflate is tried if its blocks may have this size.
            CodecChoice::Auto => self.config(Codec::Lz4).check(),
        }
    }

    fn config(&self, codec: Codec) -> CodecConfig {
        let config = CodecConfig::new(codec).with_block_bytes(self.block_bytes.unwrap_or(BLOCK_BYTES));
        CodecConfig { light: self.light, ..config }
    }

    /// The settings that are tried.
    fn grid(&self) -> Vec<CodecConfig> {
        let mut grid = vec![CodecConfig::NONE];
        let blocks = match self.block_bytes {
            Some(bytes) => vec![bytes],
            None => vec![BLOCK_BYTES, SAMPLE_BYTES],
        };
        // GDeflate is larger than Deflate, and slower without a device: it is used on request only.
        for codec in Codec::AVAILABLE.into_iter().filter(|&codec| codec != Codec::Gdeflate) {
            let levels: &[i32] = match (codec, self.objective) {
                (Codec::Zstd, Objective::Size) => &[3, 9],
                (Codec::Zstd, _) => &[1, 3],
                (Codec::Deflate, _) => &[6],
                _ => &[0],
            };
            for &block_bytes in blocks.iter().filter(|&&bytes| bytes <= codec.max_block_bytes()) {
                for &level in levels {
                    let config = CodecConfig { codec, block_bytes, level, ..self.config(codec) };
                    grid.extend([false, true].map(|plain| CodecConfig { plain, ..config }));
                }
            }
        }
        grid
    }
}

/// The codec for further chunks of a column, as stored in manifests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ColumnChoice {
    /// This configuration.
    Fixed(CodecConfig),
    /// Not chosen yet: there are no rows.
    #[allow(missing_docs, reason = "as in the options")]
    Auto {
        objective: Objective,
        sample: f64,
        block_bytes: Option<usize>,
        storage_bandwidth: f64,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        light: bool,
    },
}

impl ColumnChoice {
    /// Whether chunks can be stored so.
    ///
    /// # Errors
    /// As [`CodecOptions::check`].
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Fixed(config) => config.check(),
            Self::Auto { sample, block_bytes, .. } => {
                let block_bytes = block_bytes.unwrap_or(BLOCK_BYTES);
                if !(*sample > 0.0 && *sample <= 1.0) {
                    return Err(FormatError::Catalog(format!("a sample of {sample} is not above 0 and at most 1")));
                }
                CodecConfig::new(Codec::Lz4).with_block_bytes(block_bytes).check()
            }
        }
    }
}

/// Bytes of one contiguous sample, and the largest block that is tried.
const SAMPLE_BYTES: usize = 256 << 10;

/// Number of times that a sample is decompressed; the fastest time counts.
const SAMPLE_RUNS: usize = 3;

/// Smallest fraction of the time that a codec must save to be chosen: less is within measurement noise.
const LEAST_GAIN: f64 = 0.02;

/// The measurements of one setting.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Bytes before compression.
    pub light: f64,
    /// Bytes as stored.
    pub stored: f64,
    /// Seconds that one thread took to decompress them.
    pub seconds: f64,
}

impl Rates {
    /// Uncompressed bytes that one thread produces per second; infinite without a codec.
    pub fn rate(&self) -> f64 {
        if self.seconds == 0.0 { f64::INFINITY } else { self.light / self.seconds }
    }

    fn add(&mut self, other: Rates) {
        self.light += other.light;
        self.stored += other.stored;
        self.seconds += other.seconds;
    }
}

/// Measures `config` on `sample`, which represents `scale` times as many bytes.
fn measure_scaled(config: &CodecConfig, sample: &[u8], scale: f64) -> Result<Rates, String> {
    let Rates { light, stored, seconds } = measure(config, sample)?;
    Ok(Rates { light: light * scale, stored: stored * scale, seconds: seconds * scale })
}

/// Measures `config` on `sample`.
fn measure(config: &CodecConfig, sample: &[u8]) -> Result<Rates, String> {
    let light = sample.len() as f64;
    if config.codec == Codec::None {
        return Ok(Rates { light, stored: light, seconds: 0.0 });
    }
    let blocks =
        sample.chunks(config.block_bytes).map(|block| block::compress(config, block).map(|c| (c, block.len())));
    let blocks: Vec<(Vec<u8>, usize)> = blocks.collect::<Result<_, String>>()?;
    let mut out = vec![0; config.block_bytes];
    let mut seconds = f64::INFINITY;
    for _ in 0..SAMPLE_RUNS {
        let start = Instant::now();
        for (block, length) in &blocks {
            block::decompress(config.codec, block, &mut out[..*length])?;
        }
        seconds = start.elapsed().as_secs_f64().min(seconds);
    }
    // Every block has an entry of 16 bytes in the table, and on average 8 bytes of padding.
    let stored = blocks.iter().map(|(block, _)| block.len() as f64 + 24.0).sum();
    Ok(Rates { light, stored, seconds })
}

/// The setting of `measured` that is best for `objective`.
fn best(measured: &[(CodecConfig, Rates)], objective: Objective, machine: &Machine) -> CodecConfig {
    let seconds = |rates: &Rates| machine.seconds(rates.stored, rates.light, rates.rate());
    let least = |of: &dyn Fn(&Rates) -> f64| measured.iter().map(|(_, r)| of(r)).fold(f64::INFINITY, f64::min);
    let (quickest, smallest) = (least(&seconds), least(&|r| r.stored));
    let cost = |config: &CodecConfig, rates: &Rates| match objective {
        Objective::Time if config.codec == Codec::None => seconds(rates) * (1.0 - LEAST_GAIN),
        Objective::Time => seconds(rates),
        Objective::Size => rates.stored,
        Objective::Balanced => seconds(rates) / quickest * (rates.stored / smallest),
    };
    // Among equals (a scan bound by something else) the smaller one, then packed values, which filters compare without decoding.
    let key = |(config, rates): &&(CodecConfig, Rates)| (cost(config, rates), rates.stored, config.plain);
    let found = measured.iter().min_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
    found.map_or(CodecConfig::NONE, |(config, _)| *config)
}

/// The samples of one column.
#[derive(Debug)]
pub(crate) struct Sampler {
    measured: Vec<(CodecConfig, Rates)>,
    /// Bytes of all chunks so far, and of all samples.
    seen: usize,
    sampled: usize,
}

impl Sampler {
    /// Samples a chunk, given as encoded and, if different, as plain values, and chooses.
    fn decide(&mut self, options: &CodecOptions, bytes: &[u8], plain: Option<&[u8]>) -> Result<CodecConfig> {
        self.seen += bytes.len();
        let due = (self.seen as f64 * options.sample) as usize;
        let count = match due.saturating_sub(self.sampled) / SAMPLE_BYTES {
            0 if self.sampled == 0 => 1,
            count => count.min(bytes.len().div_ceil(SAMPLE_BYTES)),
        };
        for i in 0..count {
            // Evenly spread, from the middle of each part.
            let part = |bytes: &'_ [u8]| {
                let start = (bytes.len() * (2 * i + 1) / (2 * count)).saturating_sub(SAMPLE_BYTES / 2);
                let start = start.min(bytes.len().saturating_sub(SAMPLE_BYTES));
                start..(start + SAMPLE_BYTES).min(bytes.len())
            };
            let sample = &bytes[part(bytes)];
            self.sampled += sample.len();
            // The same fraction of rows has more plain bytes.
            let plain = plain.unwrap_or(bytes);
            let plain_sample = &plain[part(plain)];
            let share = sample.len() as f64 / bytes.len() as f64;
            let scale = share * plain.len() as f64 / plain_sample.len().max(1) as f64;
            for (config, sum) in &mut self.measured {
                let (sample, scale) = if config.plain { (plain_sample, scale) } else { (sample, 1.0) };
                let failed = |detail| FormatError::Codec { codec: config.codec.name().into(), detail };
                sum.add(measure_scaled(config, sample, scale).map_err(failed)?);
            }
        }
        Ok(best(&self.measured, options.objective, &options.machine))
    }
}

/// How the chunks of a column are compressed while a version is written.
#[derive(Debug)]
pub(crate) enum ColumnCodec {
    Fixed(CodecConfig),
    Auto { options: CodecOptions, sampler: Mutex<Sampler> },
}

/// The stored form of a segment.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The segment: the compressed form's content, or stored in addition to it.
    pub segment: Segment,
    /// The compressed form, if there is a codec.
    pub compressed: Option<Compressed>,
}

/// A segment compressed by a codec.
#[derive(Debug)]
pub(crate) struct Compressed {
    pub config: CodecConfig,
    /// The encoding and the bytes of the segment.
    pub encoding: Encoding,
    pub segment_bytes: usize,
    pub bytes: Vec<u8>,
}

impl ColumnCodec {
    /// The codec for a new column, by `options`.
    pub fn new(options: &CodecOptions) -> Self {
        match options.choice {
            CodecChoice::Fixed(codec) => Self::Fixed(options.config(codec)),
            CodecChoice::Auto => {
                let measured = options.grid().into_iter().map(|config| (config, Rates::default())).collect();
                let sampler = Sampler { measured, seen: 0, sampled: 0 };
                Self::Auto { options: options.clone(), sampler: Mutex::new(sampler) }
            }
        }
    }

    /// The codec that an earlier version of the table has chosen.
    pub fn kept(choice: &ColumnChoice) -> Self {
        match *choice {
            ColumnChoice::Fixed(config) => Self::Fixed(config),
            ColumnChoice::Auto { objective, sample, block_bytes, storage_bandwidth, light } => {
                let machine = Machine { storage_bandwidth, ..Machine::default() };
                Self::new(&CodecOptions { choice: CodecChoice::Auto, objective, sample, block_bytes, light, machine })
            }
        }
    }

    /// The choice that later versions keep; `None`: no codec.
    pub fn choice(&self) -> Option<ColumnChoice> {
        match self {
            Self::Fixed(config) if config.codec == Codec::None => None,
            Self::Fixed(config) => Some(ColumnChoice::Fixed(*config)),
            Self::Auto { options, sampler } => {
                let sampler = sampler.lock();
                let CodecOptions { objective, sample, block_bytes, light, machine, .. } = *options;
                if sampler.sampled == 0 {
                    let storage_bandwidth = machine.storage_bandwidth;
                    return Some(ColumnChoice::Auto { objective, sample, block_bytes, storage_bandwidth, light });
                }
                let chosen = best(&sampler.measured, objective, &options.machine);
                Some(ColumnChoice::Fixed(chosen)).filter(|_| chosen.codec != Codec::None)
            }
        }
    }

    /// Prepares a segment for storage: with its codec and compressed form, or unchanged without a codec.
    pub fn store(&self, segment: Segment) -> Result<Stored> {
        let may_be_plain = match self {
            Self::Fixed(config) => config.plain,
            Self::Auto { .. } => true,
        };
        // A segment of one value has nothing to compress, and child segments keep their encodings.
        let packed = !matches!(segment.encoding(), Encoding::Plain | Encoding::Constant | Encoding::Nested);
        let plain = (may_be_plain && packed).then(|| segment.to_plain()).transpose()?;
        let config = match self {
            Self::Fixed(config) => *config,
            Self::Auto { options, sampler } => {
                let plain = plain.as_ref().map(|plain| &plain.as_bytes()[..]);
                sampler.lock().decide(options, segment.as_bytes(), plain)?
            }
        };
        let chosen = plain.filter(|_| config.plain);
        let source = chosen.as_ref().unwrap_or(&segment);
        let (encoding, segment_bytes) = (source.encoding(), source.as_bytes().len());
        let stored = compress(&config, source.as_bytes())?.filter(|stored| stored.len() < segment.as_bytes().len());
        let compressed = stored.map(|bytes| Compressed { config, encoding, segment_bytes, bytes });
        let replaced = chosen.filter(|_| compressed.is_some() && !config.light);
        Ok(Stored { segment: replaced.unwrap_or(segment), compressed })
    }
}

/// Measures the decompressed bytes per second of `chunk` on one thread.
pub(crate) fn decompression_rate(chunk: &CompressedChunk) -> Result<f64> {
    let mut seconds = f64::INFINITY;
    for _ in 0..SAMPLE_RUNS {
        let start = Instant::now();
        chunk.decompress()?;
        seconds = start.elapsed().as_secs_f64().min(seconds);
    }
    Ok(chunk.uncompressed_bytes() as f64 / seconds.max(1e-9))
}
