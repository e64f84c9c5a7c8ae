//! The profile of a program on a device.

use serde::Serialize;
use warpmill_format::Codec;
use warpmill_ir::pruning::PruningReport;

use crate::compile::join::JoinPlan;
use crate::data::form::{DataSource, Form};
use crate::data::mirror::MirrorProfile;
use crate::data::paths::model::{ScanColumn, Stages};
use crate::data::transfer::TransferProfile;
use crate::device::exchange::Traffic;

use crate::data::paths::{Choice, FixedForm};

/// Launches of a kernel.
#[derive(Debug, Clone, Default, Serialize)]
pub struct KernelProfile {
    /// Name of the kernel.
    pub label: String,
    /// Its pipeline.
    pub pipeline: usize,
    /// Number of launches: one per batch if segments are streamed.
    pub launches: u32,
    /// Device time of all launches in nanoseconds; 0 if not measured.
    pub nanos: u64,
    /// Encoded bytes of the rows processed, of all columns of its scan; 0 for other sources.
    pub bytes: u64,
    /// Blocks and threads per block.
    pub shape: (u32, u32),
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of local memory per thread: register spills and indexed arrays.
    pub local: u32,
    /// Fraction of the measured bandwidth that `bytes` and `nanos` amount to; `None` if either is unknown. More than 1 if bytes come from the L2
    /// cache, or columns are not read because no rows are left.
    pub peak_fraction: Option<f64>,
}

/// Pruning of a scan.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ScanProfile {
    /// The pipeline whose source it is.
    pub pipeline: usize,
    /// The table.
    pub table: String,
    /// Uncompressed bytes of its columns, skipped rows included.
    pub plain_bytes: u64,
    /// The zones ruled out by metadata, and, for streamed segments, by join keys. Kernels skip these zones; segments are copied completely unless
    /// they are among the `segments_pruned`.
    pub pruning: PruningReport,
    /// Decoding of Parquet columns; `None` for other tables.
    pub parquet: Option<ParquetProfile>,
}

/// Decoding of the columns of a Parquet scan.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ParquetProfile {
    /// Column chunks whose pages the device decodes.
    pub by_device: u64,
    /// Bytes of these pages in the files; for remote files including headers.
    pub stored_bytes: u64,
    /// Bytes of their decoded values.
    pub decoded_bytes: u64,
    /// Pages of filtered columns that page indexes rule out; they are not read.
    pub pages_left_out: u64,
    /// Column chunks that the host decodes.
    pub by_host: u64,
    /// Distinct reasons why the host decodes them.
    pub reasons: Vec<String>,
}

/// A column of streamed data.
#[derive(Debug, Clone, Serialize)]
pub struct PassedColumn {
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
    /// The form in which it was streamed.
    pub form: Form,
    /// Codec of its compressed form; `none` without one.
    pub codec: &'static str,
    /// The decompressor: `device` (Warpmill's kernels), the name of the vendor's library, or `host`; `None` if it was not compressed.
    pub undone_by: Option<String>,
    /// Bytes read from storage.
    pub stored_bytes: u64,
    /// Bytes copied to the device.
    pub copied_bytes: u64,
}

/// Streaming of a program's data.
#[derive(Debug, Clone, Serialize)]
pub struct PathProfile {
    /// Source: `pinned`, `host` or `disk`.
    pub source: &'static str,
    /// Its columns, with form and decompressor.
    pub columns: Vec<PassedColumn>,
    /// Reason of the choice: `forced` (by the setting), `only` (no alternative), `predicted` (predicted to be fastest), `measured` (fastest in
    /// earlier runs), `tried` (as an experiment).
    pub reason: &'static str,
    /// Predicted times of these forms.
    pub predicted: Stages,
    /// Measured times of this run; `None` before it.
    pub measured: Option<Stages>,
    /// Times with all columns in one form.
    pub fixed: Vec<FixedForm>,
    /// Bytes found in the caching region, not copied.
    pub found_bytes: u64,
    /// Bytes copied and newly kept there.
    pub kept_bytes: u64,
    /// The reason why the device has no decompression library, if a column needs one.
    pub no_library: Option<String>,
}

impl PathProfile {
    /// The profile of a choice for `columns` on a device with a library, or the reason why it has none.
    pub fn new(source: DataSource, columns: &[ScanColumn], choice: &Choice, library: &Result<String, String>) -> Self {
        let undone_by = |column: &ScanColumn, form: Form| {
            let work = column.work(form);
            if work.on_host.iter().any(|&bytes| bytes > 0) {
                return Some("host".to_owned());
            }
            let own = column.codec == Codec::Lz4.name() || column.codec == Codec::Snappy.name();
            let by = || if own { "device".to_owned() } else { library.clone().unwrap_or_default() };
            work.on_device.iter().any(|&bytes| bytes > 0).then(by)
        };
        let lacks = |column: &ScanColumn| column.codec != Codec::None.name() && !column.undone;
        let passed = |(column, form): (&ScanColumn, &Form)| PassedColumn {
            table: column.name.0.clone(),
            column: column.name.1.clone(),
            form: *form,
            codec: column.codec,
            undone_by: undone_by(column, *form),
            stored_bytes: column.work(*form).read,
            copied_bytes: column.work(*form).copied,
        };
        Self {
            source: source.name(),
            columns: columns.iter().zip(&choice.forms).map(passed).collect(),
            reason: choice.reason,
            predicted: choice.predicted,
            measured: None,
            fixed: choice.fixed.clone(),
            found_bytes: 0,
            kept_bytes: 0,
            no_library: library.clone().err().filter(|_| columns.iter().any(lacks)),
        }
    }
}

impl std::fmt::Display for PathProfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { source, columns, reason, predicted, measured, fixed, found_bytes, kept_bytes, no_library } = self;
        write!(f, "passes through from {source}, {reason}:")?;
        for (form, name) in [(Form::Light, "light"), (Form::Heavy, "heavy"), (Form::HeavyOnHost, "heavy (host)")] {
            let own: Vec<&PassedColumn> = columns.iter().filter(|column| column.form == form).collect();
            if own.is_empty() {
                continue;
            }
            let bytes: u64 = own.iter().map(|column| column.stored_bytes).sum();
            let mut tables: Vec<(&str, Vec<&str>)> = vec![];
            for column in own {
                match tables.last_mut() {
                    Some((table, columns)) if *table == column.table => columns.push(&column.column),
                    _ => tables.push((&column.table, vec![&column.column])),
                }
            }
            let tables: Vec<String> =
                tables.iter().map(|(table, columns)| format!("{table}({})", columns.join(", "))).collect();
            write!(f, " {name} {} ({bytes} bytes);", tables.join(", "))?;
        }
        let stages = |stages: &Stages| {
            let parts = [
                ("reading", stages.read),
                ("host", stages.host),
                ("copying", stages.copy),
                ("decompressing", stages.decompress),
                ("kernels", stages.kernels),
            ];
            let parts: Vec<String> = parts.iter().map(|(what, time)| format!("{what} {:.3}", time * 1e3)).collect();
            format!("{:.3} ms ({})", stages.total * 1e3, parts.join(", "))
        };
        write!(f, " predicted {}", stages(predicted))?;
        if let Some(measured) = measured {
            write!(f, ", measured {}", stages(measured))?;
        }
        let all: Vec<String> = fixed
            .iter()
            .map(|fixed| {
                let measured = fixed.measured.map(|time| format!(", measured {:.3}", time * 1e3)).unwrap_or_default();
                format!("{} {:.3}{measured}", fixed.form.name(), fixed.predicted * 1e3)
            })
            .collect();
        write!(f, "; all columns in one form: {} ms", all.join("; "))?;
        if *found_bytes > 0 {
            write!(f, "; {found_bytes} bytes were in the caching region")?;
        }
        if *kept_bytes > 0 {
            write!(f, "; {kept_bytes} bytes stay there from now on")?;
        }
        let mut undone: Vec<(&str, &str)> = vec![];
        for column in columns {
            if let Some(by) = &column.undone_by
                && !undone.contains(&(column.codec, by))
            {
                undone.push((column.codec, by));
            }
        }
        for (codec, by) in undone {
            write!(f, "; {codec} undone by {by}")?;
        }
        if let Some(reason) = no_library {
            write!(f, "; {reason}")?;
        }
        Ok(())
    }
}

impl PathProfile {
    /// Adds the streaming of another program of the same query.
    fn add(&mut self, other: Self) {
        self.columns.extend(other.columns);
        self.predicted.add(&other.predicted);
        self.measured = match (self.measured, other.measured) {
            (Some(mut all), Some(other)) => {
                all.add(&other);
                Some(all)
            }
            (own, other) => own.or(other),
        };
        for fixed in other.fixed {
            let Some(all) = self.fixed.iter_mut().find(|all| all.form == fixed.form) else { continue };
            all.predicted += fixed.predicted;
            all.measured = all.measured.zip(fixed.measured).map(|(a, b)| a + b);
        }
        self.found_bytes += other.found_bytes;
        self.kept_bytes += other.kept_bytes;
        self.no_library = self.no_library.take().or(other.no_library);
    }
}

/// A sink that was built in parts, because it did not fit.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PartProfile {
    /// The sink.
    pub sink: usize,
    /// Its kind: hash build, or groups.
    pub what: &'static str,
    /// Number of parts.
    pub parts: u64,
    /// Number of parts built; some are rebuilt for every part of another sink.
    pub made: u64,
    /// Number of parts that were too large and were split.
    pub cut: u64,
    /// Limit of device memory of a part in bytes.
    pub bytes: u64,
}

/// Data exchanged between devices before a run: for one device, the data that it received; for several, the sum.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ExchangeProfile {
    /// Planned bytes, by source and destination.
    pub planned: Traffic,
    /// Copied bytes, by source and destination; less than planned if a device failed or was late.
    pub traffic: Traffic,
    /// Links over which data is staged through the host, and the reasons.
    pub staged_links: Vec<String>,
}

/// A program's run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DeviceProfile {
    /// The device's name.
    pub device: String,
    /// Scans, by pipeline.
    pub scans: Vec<ScanProfile>,
    /// Sinks that were built in parts.
    pub parts: Vec<PartProfile>,
    /// Strategy for joins whose hash builds did not fit, and the reason.
    pub join: Option<JoinPlan>,
    /// Bytes of page-locked host memory for rows of hash builds, strings included.
    pub mapped_bytes: u64,
    /// Bytes of segments that were read repeatedly for parts.
    pub bytes_again: u64,
    /// Result rows flushed to the host while others were still made.
    pub flushed_rows: u64,
    /// Kernels in launch order.
    pub kernels: Vec<KernelProfile>,
    /// Streaming of the data; `None` if all of it was in device memory.
    pub path: Option<PathProfile>,
    /// Copies to and from the device.
    pub transfers: Vec<TransferProfile>,
    /// Data received from other devices; `None` if none was planned.
    pub exchange: Option<ExchangeProfile>,
    /// Bytes of device memory for the query's tables and rows.
    pub processing_bytes: u64,
    /// Bytes of device memory for cached data.
    pub cached_bytes: u64,
    /// Counts of mirrored copies since the device was opened; `None` if data is not mirrored. For several devices, those of one of them.
    pub mirror: Option<MirrorProfile>,
    /// Number of runs of the program; more than one if a size was guessed too small.
    pub runs: u32,
    /// Whether all kernels were found loaded: none was compiled, and no text was looked up.
    pub found_kernels: bool,
    /// Row segments or spans for which descriptors were made for this run; 0 if an earlier program read the same.
    pub described_segments: u64,
    /// Nanoseconds to generate, compile and load kernels; 0 if the program was prepared before.
    pub prepare_nanos: u64,
    /// Nanoseconds of waiting for other programs.
    pub wait_nanos: u64,
    /// Nanoseconds until all work was queued.
    pub queue_nanos: u64,
    /// Nanoseconds that the host then waited for the device.
    pub sync_nanos: u64,
    /// Nanoseconds to decode the rows, and to copy those that did not come with the states.
    pub fetch_nanos: u64,
    /// Nanoseconds until results were on the host: queueing, waiting and reading.
    pub device_nanos: u64,
    /// Nanoseconds of the host's work on the rows.
    pub host_nanos: u64,
    /// Nanoseconds thereof to make Arrow batches.
    pub arrow_nanos: u64,
}

impl DeviceProfile {
    /// Sum of kernel times, in nanoseconds.
    pub fn kernel_nanos(&self) -> u64 {
        self.kernels.iter().map(|kernel| kernel.nanos).sum()
    }

    /// Renumbers the profile of a piece for the whole program: `pipelines` and `sinks` map the piece's numbers.
    pub(super) fn renumbered(mut self, pipelines: &[usize], sinks: &[usize]) -> Self {
        for scan in &mut self.scans {
            scan.pipeline = pipelines[scan.pipeline];
        }
        for kernel in &mut self.kernels {
            if let Some(rest) = kernel.label.strip_prefix(&format!("pipeline {}:", kernel.pipeline)) {
                kernel.label = format!("pipeline {}:{rest}", pipelines[kernel.pipeline]);
            }
            kernel.pipeline = pipelines[kernel.pipeline];
        }
        for part in &mut self.parts {
            part.sink = sinks.get(part.sink).copied().unwrap_or(part.sink);
        }
        self
    }

    /// Adds copies to those of the same kind.
    pub(super) fn add_transfer(&mut self, transfer: TransferProfile) {
        match self.transfers.iter_mut().find(|all| all.what == transfer.what) {
            Some(all) => {
                all.bytes += transfer.bytes;
                all.count += transfer.count;
                all.nanos += transfer.nanos;
            }
            None if transfer.count > 0 => self.transfers.push(transfer),
            None => {}
        }
    }

    /// Adds traffic between devices.
    pub(super) fn add_exchange(&mut self, moved: ExchangeProfile) {
        match &mut self.exchange {
            Some(all) => {
                all.planned.add_all(&moved.planned);
                all.traffic.add_all(&moved.traffic);
            }
            None => self.exchange = Some(moved),
        }
    }

    /// Adds the profile of later work for the same program.
    pub fn add(&mut self, other: Self) {
        self.scans.extend(other.scans);
        self.parts.extend(other.parts);
        self.mapped_bytes = self.mapped_bytes.max(other.mapped_bytes);
        self.bytes_again += other.bytes_again;
        self.flushed_rows += other.flushed_rows;
        self.kernels.extend(other.kernels);
        self.path = match (self.path.take(), other.path) {
            (Some(mut all), Some(other)) => {
                all.add(other);
                Some(all)
            }
            (own, other) => own.or(other),
        };
        other.transfers.into_iter().for_each(|transfer| self.add_transfer(transfer));
        other.exchange.into_iter().for_each(|moved| self.add_exchange(moved));
        self.processing_bytes = self.processing_bytes.max(other.processing_bytes);
        self.cached_bytes = other.cached_bytes;
        self.mirror = other.mirror.or(self.mirror);
        self.runs = self.runs.max(other.runs);
        self.found_kernels &= other.found_kernels;
        self.described_segments += other.described_segments;
        self.prepare_nanos += other.prepare_nanos;
        self.wait_nanos += other.wait_nanos;
        self.queue_nanos += other.queue_nanos;
        self.sync_nanos += other.sync_nanos;
        self.fetch_nanos += other.fetch_nanos;
        self.device_nanos += other.device_nanos;
    }
}
