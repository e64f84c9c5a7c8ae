//! The settings `warpmill.*`, for `SET`, `SHOW` and builders.

mod entries;
mod names;
mod progress;
mod workers;

use std::any::Any;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{DataFusionError, Result};
use warpmill_engine::{
    CancelToken, ClaimUnit, Compaction, DataSource, DeviceChoice, DeviceExchange, ExecutionContext, FirstRuns,
    Granularity, JoinStrategy, MirrorOptions, Ordinals, Pipelines, Policy, QueryProgress, Representation,
};
use warpmill_format::codec::{CodecChoice, CodecOptions, MAX_BLOCK_BYTES, Machine, Objective};
use warpmill_format::pruning::Metadata;
use warpmill_format::{FileAccess, column_cache};
use warpmill_ir::PruningMode;

pub use self::progress::ProgressMode;

use self::names::{
    COMPACTIONS, DATA_SOURCES, DEVICES, EXCHANGES, FILE_ACCESS, FIRST_RUNS, JOINS, PLACEMENTS, PROFILES, PRUNING,
    REPLICATIONS, REPRESENTATIONS, name_of, parse_device,
};
pub use self::workers::WorkerOptions;
use crate::remote::RemoteOptions;

/// The settings of a session.
#[derive(Debug, Clone)]
pub struct WarpmillOptions {
    /// The treatment of a plan with an operator that Warpmill does not run.
    pub fallback: FallbackMode,
    /// The time when small chunks are copied together.
    pub compaction: Compaction,
    /// The place where queries run.
    pub device: DeviceChoice,
    /// The devices of that kind.
    pub ordinals: Ordinals,
    /// The unit of work that CPU and devices are assigned.
    pub placement: Granularity,
    /// The unit that devices claim of pipelines that they share with the CPU.
    pub claim_unit: ClaimUnit,
    /// The seed of a random assignment of row segments to sites (for tests).
    pub placement_seed: Option<u64>,
    /// The site that runs programs for which a device has to compile kernels first.
    pub first_runs: FirstRuns,
    /// The treatment of programs that the chosen device cannot run: the CPU runs them, or they are refused.
    pub device_fallback: FallbackMode,
    /// Bytes of GPU memory that may be used; 0: nearly all.
    pub gpu_memory_limit: usize,
    /// Bytes per second at which a device's data are read from files, at most; 0: unlimited.
    pub io_bandwidth_limit: usize,
    /// Bytes of page-locked memory for copies of a device's data, at most; 0: unlimited.
    pub pinned_memory_limit: usize,
    /// The form of columns that are streamed through device memory: light or heavy.
    pub representation: Representation,
    /// The number of parts of every hash build and group table on a device; 0: by memory.
    pub device_partitions: u32,
    /// The strategy for joins whose hash builds exceed device memory.
    pub device_join: JoinStrategy,
    /// The number of batches in flight of data streamed through device memory, and their bytes.
    pub device_pipelines: Pipelines,
    /// Whether batches are prepared while a device's kernels run.
    pub device_overlap: bool,
    /// The exchange of data that several devices need.
    pub device_exchange: DeviceExchange,
    /// Worker threads; 0: all cores.
    pub threads: usize,
    /// Bytes that a query may hold in pipeline breakers.
    pub memory_limit: usize,
    /// Whether CPU pipeline breakers spill to temporary files beyond that limit.
    pub spill: bool,
    /// The directory of temporary files; empty: the system's.
    pub temp_directory: String,
    /// Bytes that a query's temporary files may take together.
    pub temp_directory_limit: usize,
    /// How the bytes of tables' files come into memory.
    pub file_access: FileAccess,
    /// Whether joins are reordered by estimated cardinality.
    pub join_order: bool,
    /// The profile that results carry.
    pub profile: ProfileMode,
    /// When shells, notebooks and scripts show the progress of queries.
    pub progress: ProgressMode,
    /// The location of the data of programs on a device.
    pub device_data: DataSource,
    /// The mirrored data with copies in device memory.
    pub mirror: MirrorOptions,
    /// Whether plans of repeated queries are kept.
    pub plan_cache: bool,
    /// Whether optimized plans are reused for statements with other constants, where plans are cached.
    pub plan_templates: bool,
    /// Whether columns of Parquet files are cached between queries, encoded like those of tables.
    pub column_cache: bool,
    /// Rows of a full chunk: a power of two from 2 to 2048 (small values are for tests).
    pub chunk_rows: usize,
    /// Whether joins and aggregations use hash lookups only, with all hashes equal (for tests of collisions).
    pub equal_hashes: bool,
    /// Rows of a segment in written tables: a multiple of 1024; 0: chosen by the writer.
    pub segment_rows: usize,
    /// The compression of written tables.
    pub codec: CodecSettings,
    /// Whether all chunks are aligned for direct I/O.
    pub direct_io: bool,
    /// The metadata by which scans skip rows.
    pub pruning: PruningMode,
    /// The metadata for that in tables that the session writes.
    pub pruning_metadata: Metadata,
    /// Rows per zone of metadata in written tables: a multiple of 1024.
    pub zone_rows: usize,
    /// Versions of a written table that stay readable.
    pub keep_versions: usize,
    /// Number of rows from which on a row segment keeps its deleted rows, marked (for tests).
    pub least_marked: usize,
    /// Sideways metadata of written tables, from attributes of other tables: `table.column=other.key:attribute,...; ...`.
    pub sideways: String,
    /// The sort order of written tables: nothing (empty), columns, or `auto`.
    pub cluster: String,
    /// The access to object stores and web servers.
    pub remote: RemoteOptions,
    /// The workers that run queries together, and the connection options.
    pub workers: WorkerOptions,
}

/// The compression of tables.
#[derive(Debug, Clone, PartialEq)]
pub struct CodecSettings {
    /// The codec; `None`: that of the table's columns, none for a new table.
    pub choice: Option<CodecChoice>,
    /// The objective of `auto`.
    pub objective: Objective,
    /// The fraction of a column that `auto` samples.
    pub sample: f64,
    /// Uncompressed bytes of a block; `None`: 64 KiB, or the size that `auto` chooses.
    pub block_bytes: Option<usize>,
    /// Whether compressed columns are stored uncompressed (light), too.
    pub light: bool,
    /// Bytes per second of the storage, for the cost model.
    pub storage_bandwidth: f64,
}

impl Default for CodecSettings {
    fn default() -> Self {
        let CodecOptions { objective, sample, block_bytes, light, machine, .. } = CodecOptions::default();
        Self { choice: None, objective, sample, block_bytes, light, storage_bandwidth: machine.storage_bandwidth }
    }
}

impl CodecSettings {
    /// The options of writers, for scans by `workers` threads; `None`: unchanged.
    pub fn options(&self, workers: usize) -> Option<CodecOptions> {
        let Self { choice, objective, sample, block_bytes, light, storage_bandwidth } = *self;
        let machine = Machine { storage_bandwidth, workers, ..Machine::default() };
        choice.map(|choice| CodecOptions { choice, objective, sample, block_bytes, light, machine })
    }
}

/// The profile that results carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProfileMode {
    /// No profile.
    Off,
    /// Times of the host, rows, bytes, transfers.
    On,
    /// Also the durations of a device's kernels; measuring takes a few microseconds each.
    Kernels,
}

/// The treatment of operators that Warpmill does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FallbackMode {
    /// DataFusion runs them.
    Allow,
    /// The query is refused; the error names the operator and the reason.
    Error,
}

impl FallbackMode {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "allow" => Some(Self::Allow),
            "error" => Some(Self::Error),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Error => "error",
        }
    }
}

impl Default for WarpmillOptions {
    fn default() -> Self {
        Self {
            fallback: FallbackMode::Allow,
            compaction: Compaction::default(),
            device: DeviceChoice::default(),
            ordinals: Ordinals::default(),
            placement: Granularity::default(),
            claim_unit: ClaimUnit::default(),
            placement_seed: None,
            first_runs: FirstRuns::default(),
            device_fallback: FallbackMode::Allow,
            gpu_memory_limit: 0,
            io_bandwidth_limit: 0,
            pinned_memory_limit: 0,
            representation: Representation::default(),
            device_partitions: 0,
            device_join: JoinStrategy::default(),
            device_pipelines: Pipelines::default(),
            device_overlap: true,
            device_exchange: DeviceExchange::default(),
            threads: 0,
            memory_limit: usize::MAX,
            spill: true,
            temp_directory: String::new(),
            temp_directory_limit: usize::MAX,
            file_access: FileAccess::default(),
            join_order: true,
            profile: ProfileMode::On,
            progress: ProgressMode::Auto,
            device_data: DataSource::default(),
            mirror: MirrorOptions::default(),
            plan_cache: true,
            plan_templates: true,
            column_cache: true,
            chunk_rows: 2048,
            equal_hashes: false,
            segment_rows: 0,
            codec: CodecSettings::default(),
            direct_io: false,
            pruning: PruningMode::default(),
            pruning_metadata: Metadata::default(),
            zone_rows: warpmill_format::pruning::ZONE_ROWS,
            keep_versions: 1,
            least_marked: crate::WriteOptions::default().least_marked,
            sideways: String::new(),
            cluster: String::new(),
            remote: RemoteOptions::default(),
            workers: WorkerOptions::default(),
        }
    }
}

impl WarpmillOptions {
    /// The settings in `config`; defaults where the extension is not there.
    pub fn of(config: &ConfigOptions) -> Self {
        config.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// The translation options of these settings.
    pub(crate) fn translation(&self) -> warpmill_translate::Options<'static> {
        let spills = self.spill && self.memory_limit != usize::MAX;
        warpmill_translate::Options { pruning: self.pruning, windows: !spills, ..Default::default() }
    }

    /// Worker threads, at least one.
    pub fn worker_threads(&self) -> usize {
        match self.threads {
            0 => warpmill_machine::cores(),
            n => n,
        }
    }

    /// The execution context of programs under these settings, until `cancel` stops them.
    pub fn execution(&self, cancel: CancelToken) -> ExecutionContext {
        ExecutionContext {
            threads: self.threads,
            memory_limit: self.memory_limit,
            spill: warpmill_engine::SpillSettings {
                enabled: self.spill,
                directory: (!self.temp_directory.is_empty()).then(|| self.temp_directory.clone().into()),
                limit: self.temp_directory_limit as u64,
                ..warpmill_engine::SpillSettings::default()
            },
            chunk_rows: self.chunk_rows,
            compaction: self.compaction,
            device: self.device,
            ordinals: self.ordinals,
            granularity: self.placement,
            claim_unit: self.claim_unit,
            placement_seed: self.placement_seed,
            first_runs: self.first_runs,
            gpu_memory_limit: self.gpu_memory_limit as u64,
            io_bandwidth_limit: self.io_bandwidth_limit as u64,
            pinned_memory_limit: self.pinned_memory_limit as u64,
            representation: self.representation,
            device_partitions: self.device_partitions,
            device_join: self.device_join,
            device_pipelines: self.device_pipelines,
            device_overlap: self.device_overlap,
            device_exchange: self.device_exchange,
            device_strict: self.device_fallback == FallbackMode::Error,
            time_kernels: self.profile == ProfileMode::Kernels,
            device_data: self.device_data,
            mirror: self.mirror,
            equal_hashes: self.equal_hashes,
            cancel,
            progress: QueryProgress::default(),
        }
    }

    fn device_name(&self) -> String {
        let name = name_of(&DEVICES, &self.device);
        let ordinals = self.ordinals.as_slice();
        let list = || ordinals.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        match self.device {
            _ if self.ordinals == Ordinals::default() => name.to_string(),
            DeviceChoice::Sim => format!("{name}:{}", ordinals.len()),
            _ => format!("{name}:{}", list()),
        }
    }

    fn compaction_name(&self) -> &'static str {
        name_of(&COMPACTIONS, &self.compaction)
    }
}

impl ConfigExtension for WarpmillOptions {
    const PREFIX: &'static str = "warpmill";
}

impl ExtensionOptions for WarpmillOptions {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        if let Some(done) = self.remote.set(key, value).or_else(|| self.workers.set(key, value)) {
            return done;
        }
        let text = value.trim().to_ascii_lowercase();
        let expects = |what: &str| {
            DataFusionError::Configuration(format!("warpmill.{key} expects {what}, not '{}'", value.trim()))
        };
        match key {
            "fallback" => self.fallback = FallbackMode::parse(&text).ok_or_else(|| expects("'allow' or 'error'"))?,
            "device_fallback" => {
                self.device_fallback = FallbackMode::parse(&text).ok_or_else(|| expects("'allow' or 'error'"))?;
            }
            "placement" => {
                let found = PLACEMENTS.iter().find(|(name, _)| *name == text);
                let names = PLACEMENTS.map(|(name, _)| name).join(", ");
                (self.placement, self.claim_unit) = found.ok_or_else(|| expects(&format!("one of {names}")))?.1;
            }
            "debug.placement_seed" => {
                let seed = if text == "off" { Some(None) } else { text.parse().ok().map(Some) };
                self.placement_seed = seed.ok_or_else(|| expects("a number, or 'off'"))?;
            }
            "debug.plan_templates" => {
                self.plan_templates = parse_switch(&text).ok_or_else(|| expects("on or off"))?;
            }
            "debug.least_marked" => {
                self.least_marked = text.parse().map_err(|_| expects("a number of rows"))?;
            }
            "debug.first_runs" => {
                let found = FIRST_RUNS.iter().find(|(name, _)| *name == text);
                self.first_runs = found.ok_or_else(|| expects("auto, device or cpu"))?.1;
            }
            "compaction" => {
                let found = COMPACTIONS.iter().find(|(name, _)| *name == text);
                self.compaction = found.ok_or_else(|| expects("none, full, binary, logical, learning or smart"))?.1;
            }
            "device" => {
                let found = parse_device(&text);
                let expected =
                    "auto, cpu, gpu, gpu:0,1 (GPUs by their ordinals), sim or sim:4 (so many simulated devices)";
                (self.device, self.ordinals) = found.ok_or_else(|| expects(expected))?;
            }
            "gpu_memory_limit" => {
                let bytes = parse_bytes(&text).ok_or_else(|| expects("a size such as 16GB, or 'unlimited'"))?;
                self.gpu_memory_limit = if bytes == usize::MAX { 0 } else { bytes };
            }
            "io_bandwidth_limit" => {
                let bytes =
                    parse_bytes(&text).ok_or_else(|| expects("bytes per second such as 2GB, or 'unlimited'"))?;
                self.io_bandwidth_limit = if bytes == usize::MAX { 0 } else { bytes };
            }
            "pinned_memory_limit" => {
                let bytes = parse_bytes(&text).ok_or_else(|| expects("a size such as 16GB, or 'unlimited'"))?;
                self.pinned_memory_limit = if bytes == usize::MAX { 0 } else { bytes };
            }
            "representation" => {
                let found = REPRESENTATIONS.iter().find(|(name, _)| *name == text);
                self.representation = found.ok_or_else(|| expects("auto, light, heavy or heavy_host"))?.1;
            }
            "threads" => self.threads = text.parse().map_err(|_| expects("a number of threads (0: all cores)"))?,
            "memory_limit" => {
                self.memory_limit = parse_bytes(&text).ok_or_else(|| expects("a size such as 4GB, or 'unlimited'"))?;
            }
            "spill" => self.spill = parse_switch(&text).ok_or_else(|| expects("on or off"))?,
            "temp_directory" => self.temp_directory = value.trim().to_string(),
            "temp_directory_limit" => {
                let bytes = parse_bytes(&text).ok_or_else(|| expects("a size such as 100GB, or 'unlimited'"))?;
                self.temp_directory_limit = bytes;
            }
            "file_access" => {
                let found = FILE_ACCESS.iter().find(|(name, _)| *name == text);
                self.file_access = found.ok_or_else(|| expects("map or read"))?.1;
            }
            "join_order" => self.join_order = parse_switch(&text).ok_or_else(|| expects("on or off"))?,
            "profile" => {
                let found = PROFILES.iter().find(|(name, _)| *name == text).map(|(_, mode)| *mode);
                let switch = |on| if on { ProfileMode::On } else { ProfileMode::Off };
                let found = found.or_else(|| parse_switch(&text).map(switch));
                self.profile = found.ok_or_else(|| expects("off, on or kernels"))?;
            }
            "progress" => self.progress = ProgressMode::parse(&text).ok_or_else(|| expects("on, off or auto"))?,
            "device_data" => {
                let found = DATA_SOURCES.iter().find(|(name, _)| *name == text);
                self.device_data = found.ok_or_else(|| expects("cache, mirrored, pinned, host or disk"))?.1;
            }
            "device_cache_policy" => {
                let found = Policy::ALL.iter().find(|(name, _)| *name == text);
                let names = Policy::ALL.map(|(name, _)| name).join(", ");
                self.mirror.policy = found.ok_or_else(|| expects(&format!("one of {names}")))?.1;
            }
            "device_cache_limit" => {
                let bytes = parse_bytes(&text).ok_or_else(|| expects("a size such as 16GB, or 'unlimited'"))?;
                self.mirror.limit = if bytes == usize::MAX { 0 } else { bytes as u64 };
            }
            "device_cache_every" => {
                let queries = text.parse().ok().filter(|queries| *queries > 0);
                self.mirror.every = queries.ok_or_else(|| expects("a number of queries, 1 or more"))?;
            }
            "device_exchange" => {
                let found = EXCHANGES.iter().find(|(name, _)| *name == text);
                self.device_exchange = found.ok_or_else(|| expects("auto, staged or off"))?.1;
            }
            "device_replication" => {
                let found = REPLICATIONS.iter().find(|(name, _)| *name == text);
                self.mirror.replication = found.ok_or_else(|| expects("auto, always or never"))?.1;
            }
            "device_partitions" => {
                let parts = text.parse().ok().filter(|parts| *parts <= 1024);
                self.device_partitions = parts.ok_or_else(|| expects("a number of parts up to 1024"))?;
            }
            "device_join" => {
                let found = JOINS.iter().find(|(name, _)| *name == text);
                self.device_join = found.ok_or_else(|| expects("auto, partitioned, hybrid, fallback, naive or cpu"))?.1;
            }
            "device_pipelines" => {
                let count = text.parse().ok().filter(|count| *count <= 16);
                self.device_pipelines.count =
                    count.ok_or_else(|| expects("a number up to 16 (0: as many as overlap)"))?;
            }
            "device_batch" => {
                let bytes = if text == "auto" { Some(0) } else { parse_bytes(&text).filter(|bytes| *bytes <= 1 << 30) };
                let bytes = bytes.ok_or_else(|| expects("a size up to 1GB such as 16MB, or 'auto'"))?;
                self.device_pipelines.batch_bytes = bytes as u64;
            }
            "device_overlap" => self.device_overlap = parse_switch(&text).ok_or_else(|| expects("on or off"))?,
            "column_cache" => self.column_cache = parse_switch(&text).ok_or_else(|| expects("on or off"))?,
            "column_cache_limit" => {
                let bytes = parse_bytes(&text).ok_or_else(|| expects("a size such as 4GB"))?;
                column_cache::set_limit(bytes as u64);
            }
            "plan_cache" => self.plan_cache = parse_switch(&text).ok_or_else(|| expects("on or off"))?,
            "chunk_rows" => {
                let rows = text.parse().ok().filter(|n: &usize| n.is_power_of_two() && (2..=2048).contains(n));
                self.chunk_rows = rows.ok_or_else(|| expects("a power of two from 2 to 2048"))?;
            }
            "equal_hashes" => self.equal_hashes = parse_switch(&text).ok_or_else(|| expects("on or off"))?,
            "segment_rows" => {
                let fits = |n: &usize| *n > 0 && n.is_multiple_of(1024) && *n <= warpmill_format::SEGMENT_ROWS;
                let rows = if text == "auto" { Some(0) } else { text.parse().ok().filter(fits) };
                self.segment_rows = rows.ok_or_else(|| expects("a multiple of 1024 up to 1048576, or 'auto'"))?;
            }
            "codec" => {
                let found = (text != "keep").then(|| text.parse::<CodecChoice>()).transpose();
                self.codec.choice =
                    found.map_err(|_| expects("keep, none, lz4, snappy, zstd, deflate, gdeflate or auto"))?;
            }
            "codec_light" => self.codec.light = parse_switch(&text).ok_or_else(|| expects("on or off"))?,
            "direct_io" => self.direct_io = parse_switch(&text).ok_or_else(|| expects("on or off"))?,
            "codec_objective" => {
                self.codec.objective = text.parse().map_err(|_| expects("time, size or balanced"))?;
            }
            "codec_sample" => {
                let part = text.parse().ok().filter(|part: &f64| *part > 0.0 && *part <= 1.0);
                self.codec.sample = part.ok_or_else(|| expects("a part above 0 and at most 1, such as 0.1"))?;
            }
            "codec_block" => {
                let fits = |bytes: &usize| bytes.is_multiple_of(4096) && (4096..=MAX_BLOCK_BYTES).contains(bytes);
                let found = match &text[..] {
                    "auto" => None,
                    text => Some(
                        parse_bytes(text)
                            .filter(fits)
                            .ok_or_else(|| expects("auto, or 4KiB to 1MiB in steps of 4KiB"))?,
                    ),
                };
                self.codec.block_bytes = found;
            }
            "storage_bandwidth" => {
                let bytes = parse_bytes(&text).filter(|bytes| (1..usize::MAX).contains(bytes));
                self.codec.storage_bandwidth = bytes.ok_or_else(|| expects("bytes per second, such as 2GB"))? as f64;
            }
            "pruning" => {
                let found = PRUNING.iter().find(|(name, _)| *name == text);
                self.pruning = found.ok_or_else(|| expects("none, minmax or all"))?.1;
            }
            "pruning_metadata" => {
                let expected = || expects("auto, none, minmax, histogram, bloom or all");
                self.pruning_metadata = Metadata::parse(&text).ok_or_else(expected)?;
            }
            "sideways" => self.sideways = value.trim().to_string(),
            "cluster" => self.cluster = value.trim().to_string(),
            "keep_versions" => {
                let versions = value.parse().ok().filter(|versions| (1..=1000).contains(versions));
                self.keep_versions = versions.ok_or_else(|| expects("a number from 1 to 1000"))?;
            }
            "zone_rows" => {
                let rows = text.parse().ok().filter(|n: &usize| *n > 0 && n.is_multiple_of(1024) && *n <= 1 << 30);
                self.zone_rows = rows.ok_or_else(|| expects("a multiple of 1024"))?;
            }
            _ => return Err(DataFusionError::Configuration(format!("there is no setting warpmill.{key}"))),
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        entries::entries(self)
    }
}

fn parse_switch(text: &str) -> Option<bool> {
    match text {
        "on" | "true" | "1" => Some(true),
        "off" | "false" | "0" => Some(false),
        _ => None,
    }
}

/// A size: a number of bytes, optionally with a unit (KB = KiB = 1024 bytes and so on).
fn parse_bytes(text: &str) -> Option<usize> {
    let text = text.trim().to_ascii_lowercase();
    if text == "unlimited" {
        return Some(usize::MAX);
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c.is_whitespace());
    let shift = match text[digits.len()..].trim() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let bytes = digits.parse::<f64>().ok()? * f64::from(1u32 << (shift % 30)) * f64::from(1u32 << (shift / 30 * 30));
    (bytes >= 0.0 && bytes.is_finite()).then_some(bytes as usize)
}

#[cfg(test)]
mod tests;
