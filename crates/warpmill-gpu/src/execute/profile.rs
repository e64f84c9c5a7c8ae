//! What a program did on a device.

use serde::Serialize;
use warpmill_plan::pruning::PruningReport;

/// A kernel launch.
#[derive(Debug, Clone, Default, Serialize)]
pub struct KernelProfile {
    /// What it did.
    pub label: String,
    /// The pipeline that it belongs to.
    pub pipeline: usize,
    /// How often it was launched: once for each batch of segments that passed through.
    pub launches: u32,
    /// Time on the device of all launches, in nanoseconds; 0 where it was not measured.
    pub nanos: u64,
    /// Encoded bytes of the segments that it went through (all of its scan's columns); 0 for other sources.
    pub bytes: u64,
    /// Blocks and threads per block.
    pub shape: (u32, u32),
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of local memory per thread: spills and indexed arrays.
    pub local: u32,
    /// Which part of the bandwidth that was measured on this device its bytes and time are; `None` where either is not known.
    /// More than 1 where the bytes come from the L2 cache, or columns are not read where no row is left.
    pub peak_fraction: Option<f64>,
}

/// Copies between host and device of one kind.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TransferProfile {
    /// What was copied.
    pub what: &'static str,
    /// Bytes.
    pub bytes: u64,
    /// Copies.
    pub count: u64,
    /// Time, in nanoseconds, where it was measured.
    pub nanos: u64,
}

/// What a scan left out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ScanProfile {
    /// The pipeline that it is the source of.
    pub pipeline: usize,
    /// The table.
    pub table: String,
    /// Bytes of its columns, uncompressed, rows that are skipped included.
    pub plain_bytes: u64,
    /// What metadata ruled out, and, of segments that pass through, the keys of joins. Kernels read whole row segments: only
    /// `segments_pruned` saves something, zones that are ruled out in other row segments do not.
    pub pruning: PruningReport,
}

/// A sink that was made in parts, because all of it did not fit.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PartProfile {
    /// The sink.
    pub sink: usize,
    /// What it is: a hash build, or groups.
    pub what: &'static str,
    /// Its parts.
    pub parts: u64,
    /// How often a part was made: some are made again for every part of another sink.
    pub made: u64,
    /// How often a part turned out too large, and was cut into smaller ones.
    pub cut: u64,
    /// Bytes of device memory that a part may take.
    pub bytes: u64,
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
    /// Bytes of segments that were read more than once for that.
    pub bytes_again: u64,
    /// Rows of the result that went to the host while others were still made.
    pub flushed_rows: u64,
    /// In order.
    pub kernels: Vec<KernelProfile>,
    /// To the device and back.
    pub transfers: Vec<TransferProfile>,
    /// Device memory of the query's tables and rows.
    pub processing_bytes: u64,
    /// Device memory of cached data.
    pub cached_bytes: u64,
    /// How often the program was run, because a size was guessed too small.
    pub runs: u32,
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
}
