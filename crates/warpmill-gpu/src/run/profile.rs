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

/// A kernel launch.
#[derive(Debug, Clone, Default, Serialize)]
pub struct KernelProfile {
    /// Its name.
    pub label: String,
    /// The pipeline that it belongs to.
    pub pipeline: usize,
    /// The number of times that it was launched: once for each batch of segments that passed through.
    pub launches: u32,
    /// Time on the device of all launches, in nanoseconds; 0 where it was not measured.
    pub nanos: u64,
    /// Encoded bytes of what it went through of segments (all of its scan's columns), by rows; 0 for other sources.
    pub bytes: u64,
    /// Blocks and threads per block.
    pub shape: (u32, u32),
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of local memory per thread: spills and indexed arrays.
    pub local: u32,
    /// The part of the bandwidth measured on this device that its bytes and time are; `None` where either is not known.
    /// More than 1 where the bytes come from the L2 cache, or columns are not read where no row is left.
    pub peak_fraction: Option<f64>,
}

/// The rows that a scan left out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ScanProfile {
    /// The pipeline that it is the source of.
    pub pipeline: usize,
    /// The table.
    pub table: String,
    /// Bytes of its columns, uncompressed, rows that are skipped included.
    pub plain_bytes: u64,
    /// The zones that metadata ruled out, and, of segments that pass through, the keys of joins. Kernels look at no zone that is ruled out; segments
    /// are copied as a whole, unless they are among the `segments_pruned`.
    pub pruning: PruningReport,
    /// The decoder of columns of Parquet files; `None` where the table is of another kind.
    pub parquet: Option<ParquetProfile>,
}

/// The decoder of the columns of a scan of Parquet files.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ParquetProfile {
    /// Columns of row segments whose pages the device decodes.
    pub by_device: u64,
    /// Bytes of these pages in the files; of remote ones with their headers.
    pub stored_bytes: u64,
    /// Bytes of the values that become of them.
    pub decoded_bytes: u64,
    /// Pages of the columns that filters name of which indexes say that no row is wanted: nothing of them is read.
    pub pages_left_out: u64,
    /// Columns of row segments that the host decodes.
    pub by_host: u64,
    /// The reason why it does, each reason once.
    pub reasons: Vec<String>,
}

/// A column of data that passed through device memory.
#[derive(Debug, Clone, Serialize)]
pub struct PassedColumn {
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
    /// In which form it passed.
    pub form: Form,
    /// The codec of its compressed form; `none`: it has none.
    pub codec: &'static str,
    /// The one who undoes it: `device` (a kernel of ours), the vendor's library by name, or `host`; nobody where it passed without.
    pub undone_by: Option<String>,
    /// Bytes that are read of it where it is stored.
    pub stored_bytes: u64,
    /// Bytes that are copied to the device.
    pub copied_bytes: u64,
}

/// The way data passed through device memory.
#[derive(Debug, Clone, Serialize)]
pub struct PathProfile {
    /// The place where it was: `pinned`, `host` or `disk`.
    pub source: &'static str,
    /// Its columns, in which form each was read and where its codec was undone.
    pub columns: Vec<PassedColumn>,
    /// The reason: `forced` (by the setting), `only` (there is no other way), `predicted` (to be fastest), `measured` (fastest in earlier runs),
    /// `tried` (to see whether it is).
    pub reason: &'static str,
    /// The prediction for these forms.
    pub predicted: Stages,
    /// The measurements of this run; nothing before it.
    pub measured: Option<Stages>,
    /// The times of all columns in one form.
    pub fixed: Vec<FixedForm>,
    /// Bytes that did not travel: they were in the caching region.
    pub found_bytes: u64,
    /// Bytes that travelled, and stay there from this run on.
    pub kept_bytes: u64,
    /// The reason why the device has no library that undoes codecs, where one of a column's would need it.
    pub no_library: Option<String>,
}

impl PathProfile {
    /// Of a choice for `columns` on a device with `library`, or without one, for a reason.
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
    /// Adds what passed through before or after this.
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

/// A sink that was made in parts, because all of it did not fit.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PartProfile {
    /// The sink.
    pub sink: usize,
    /// Its kind: a hash build, or groups.
    pub what: &'static str,
    /// Its parts.
    pub parts: u64,
    /// The number of times that a part was made: some are made again for every part of another sink.
    pub made: u64,
    /// The number of times that a part turned out too large, and was cut into smaller ones.
    pub cut: u64,
    /// Bytes of device memory that a part may take.
    pub bytes: u64,
}

/// Data that devices brought to each other before a run. Of a device: what came to it; of several: of all.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ExchangeProfile {
    /// Bytes that were planned to be copied, by source and destination.
    pub planned: Traffic,
    /// Bytes that were copied, by source and destination. Less than planned where a device has failed, or was late.
    pub traffic: Traffic,
    /// Links between the devices over which data is staged through the host, and why.
    pub staged_links: Vec<String>,
}

/// A program's run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DeviceProfile {
    /// The device's name.
    pub device: String,
    /// By pipeline.
    pub scans: Vec<ScanProfile>,
    /// Sinks that were made in parts.
    pub parts: Vec<PartProfile>,
    /// The way joins were done of which hash builds did not fit, and why.
    pub join: Option<JoinPlan>,
    /// Bytes of page-locked memory of the host for rows of hash builds, strings included.
    pub mapped_bytes: u64,
    /// Bytes of segments that were read more than once for that.
    pub bytes_again: u64,
    /// Rows of the result that went to the host while others were still made.
    pub flushed_rows: u64,
    /// In order.
    pub kernels: Vec<KernelProfile>,
    /// The way data passed through device memory; nothing where all of it was there.
    pub path: Option<PathProfile>,
    /// To the device and back.
    pub transfers: Vec<TransferProfile>,
    /// Data that came from other devices; `None` where nothing was planned to.
    pub exchange: Option<ExchangeProfile>,
    /// Device memory of the query's tables and rows.
    pub processing_bytes: u64,
    /// Device memory of cached data.
    pub cached_bytes: u64,
    /// Counts of copies of mirrored data, since the device was opened; `None` where data is not mirrored. Of several devices: of one of them.
    pub mirror: Option<MirrorProfile>,
    /// The number of times that the program was run, because a size was guessed too small.
    pub runs: u32,
    /// Whether all of its kernels were those of programs before it: nothing was compiled, and no text looked up.
    pub found_kernels: bool,
    /// Row segments, or runs of their vectors, that were described to the device for this run; none where a program before it had read the same.
    pub described_segments: u64,
    /// Time to generate, compile and load kernels (0 when the program was prepared before), in nanoseconds.
    pub prepare_nanos: u64,
    /// Time that the program waited for other programs, in nanoseconds.
    pub wait_nanos: u64,
    /// Time until all work was queued, in nanoseconds.
    pub queue_nanos: u64,
    /// Time that the host then waited for the device, in nanoseconds.
    pub sync_nanos: u64,
    /// Time to read the rows, and to copy those that did not come with the states, in nanoseconds.
    pub fetch_nanos: u64,
    /// Time until the device was done and its results were on the host, in nanoseconds: queueing, waiting and reading.
    pub device_nanos: u64,
    /// Time of what the host did with the rows, in nanoseconds.
    pub host_nanos: u64,
    /// The part of it that made Arrow batches.
    pub arrow_nanos: u64,
}

impl DeviceProfile {
    /// Sum of kernel times, in nanoseconds.
    pub fn kernel_nanos(&self) -> u64 {
        self.kernels.iter().map(|kernel| kernel.nanos).sum()
    }

    /// The same of a program of which this one is a piece: `pipelines` and `sinks` are its numbers of the piece's.
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

    /// Adds bytes between devices.
    pub(super) fn add_exchange(&mut self, moved: ExchangeProfile) {
        match &mut self.exchange {
            Some(all) => {
                all.planned.add_all(&moved.planned);
                all.traffic.add_all(&moved.traffic);
            }
            None => self.exchange = Some(moved),
        }
    }

    /// Adds what the device did for the same program after this.
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
