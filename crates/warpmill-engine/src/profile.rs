//! The profile of a query, for EXPLAIN ANALYZE and for machines.

use serde::Serialize;
use warpmill_cpu::profile::PipelineProfile;
use warpmill_gpu::DeviceProfile;
use warpmill_gpu::run::profile::ExchangeProfile;

/// Times that the cost model compared for the parts of several devices: of scans, merging groups, and sending rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PredictedTimes {
    /// Milliseconds in parts.
    pub in_parts_ms: f64,
    /// Milliseconds for the same work on one device.
    pub alone_ms: f64,
}

/// The profile of one program.
#[derive(Debug, Clone, Default, Serialize)]
pub struct QueryProfile {
    /// In order of execution.
    pub pipelines: Vec<PipelineProfile>,
    /// Encoded bytes that scans read.
    pub bytes_read: u64,
    /// Largest memory account, in bytes.
    pub peak_memory: u64,
    /// Bytes written to temporary files, because the memory limit was reached.
    pub spilled_bytes: u64,
    /// From program to Arrow batches, in nanoseconds.
    pub wall_nanos: u64,
    /// The back end that ran it.
    pub device: &'static str,
    /// The reason why the requested device did not run it.
    pub not_on_device: Option<String>,
    /// The reasons why attempts before this run failed, in their order.
    pub failed_attempts: Vec<String>,
    /// Number of row segments of a shared pipeline that the CPU and each device processed; empty if one site ran the whole program.
    pub segments: Vec<usize>,
    /// Predicted times, if several devices ran parts.
    pub predicted: Option<PredictedTimes>,
    /// The profile of the device.
    pub on_device: Option<DeviceProfile>,
    /// Files that the CPU decoded although a device was requested, with the reason.
    pub decoded_on_host: Vec<String>,
    /// Files whose columns were cached in the encodings of tables.
    pub from_column_cache: Vec<String>,
}

impl std::fmt::Display for QueryProfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |nanos: u64| nanos as f64 / 1e6;
        writeln!(f, "{}: {:.3} ms, {} bytes read", self.device, ms(self.wall_nanos), self.bytes_read)?;
        if self.spilled_bytes > 0 {
            writeln!(f, "spilled {} bytes, {} bytes held at most", self.spilled_bytes, self.peak_memory)?;
        }
        if let Some(reason) = &self.not_on_device {
            writeln!(f, "not on the device: {reason}")?;
        }
        for reason in &self.failed_attempts {
            writeln!(f, "an attempt failed: {reason}")?;
        }
        if let Some((cpu, devices)) = self.segments.split_first() {
            writeln!(f, "row segments: {cpu} on the CPU, {devices:?} on devices")?;
        }
        for file in &self.from_column_cache {
            writeln!(f, "from the column cache: {file}")?;
        }
        for reason in &self.decoded_on_host {
            writeln!(f, "decoded by the CPU: {reason}")?;
        }
        if let Some(profile) = &self.on_device {
            device(f, profile)?;
        }
        for (i, pipeline) in self.pipelines.iter().enumerate().filter(|(_, pipeline)| pipeline.workers > 0) {
            let (wall, finish) = (ms(pipeline.wall_nanos), ms(pipeline.finish_nanos));
            writeln!(
                f,
                "pipeline {i}: {wall:.3} ms on {} worker(s), sink finished in {finish:.3} ms",
                pipeline.workers
            )?;
            for operator in &pipeline.operators {
                write!(f, "  {:<60} rows {:>10}", shortened(&operator.name, 60), operator.rows)?;
                write!(f, "  chunks {:>7}  {:>9.3} ms", operator.chunks, ms(operator.nanos))?;
                for (name, value) in &operator.counters {
                    write!(f, "  {name}={value}")?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

fn device(f: &mut std::fmt::Formatter<'_>, profile: &DeviceProfile) -> std::fmt::Result {
    let ms = |nanos: u64| nanos as f64 / 1e6;
    write!(f, "{}: {:.3} ms in kernels", profile.device, ms(profile.kernel_nanos()))?;
    writeln!(f, ", {:.3} ms until rows were here, {} run(s)", ms(profile.device_nanos), profile.runs)?;
    let rest = profile.host_nanos.saturating_sub(profile.arrow_nanos);
    let steps = [
        ("waiting for other programs", profile.wait_nanos),
        ("queueing", profile.queue_nanos),
        ("waiting for the device", profile.sync_nanos),
        ("reading rows", profile.fetch_nanos),
        ("sorting and the like", rest),
        ("Arrow", profile.arrow_nanos),
    ];
    let steps: Vec<String> = steps.iter().map(|(what, nanos)| format!("{what} {:.3} ms", ms(*nanos))).collect();
    writeln!(f, "  on the host: {}", steps.join(", "))?;
    for scan in &profile.scans {
        writeln!(f, "  {:<60} {}", format!("scan {}", scan.table), scan.pruning)?;
        if let Some(parquet) = &scan.parquet {
            let (stored, decoded) = (parquet.stored_bytes, parquet.decoded_bytes);
            write!(f, "    {} column chunks decoded on the device, {stored} bytes to {decoded}", parquet.by_device)?;
            if parquet.pages_left_out > 0 {
                write!(f, "; {} pages left out by indexes", parquet.pages_left_out)?;
            }
            if parquet.by_host > 0 {
                write!(f, "; {} by the host: {}", parquet.by_host, parquet.reasons.join(", "))?;
            }
            writeln!(f)?;
        }
    }
    if let Some(path) = &profile.path {
        writeln!(f, "  data {path}")?;
    }
    for part in &profile.parts {
        write!(
            f,
            "  {:<60} {} parts of at most {} bytes",
            format!("{} #{}", part.what, part.sink),
            part.parts,
            part.bytes
        )?;
        writeln!(f, ", made {} times, cut {} times", part.made, part.cut)?;
    }
    if !profile.parts.is_empty() {
        writeln!(f, "  {:<60} bytes {:>12}", "segments read again for parts", profile.bytes_again)?;
    }
    if let Some(plan) = &profile.join {
        writeln!(f, "  {plan}")?;
    }
    if profile.mapped_bytes > 0 {
        writeln!(f, "  {:<60} bytes {:>12}", "page-locked memory for rows of hash builds", profile.mapped_bytes)?;
    }
    if profile.flushed_rows > 0 {
        writeln!(f, "  {:<60} rows {:>12}", "to the host before all were there", profile.flushed_rows)?;
    }
    for transfer in &profile.transfers {
        write!(f, "  {:<60} bytes {:>12} in {} copies", transfer.what, transfer.bytes, transfer.count)?;
        if transfer.nanos > 0 {
            write!(f, ", {:.3} ms, {:.1} GB/s", ms(transfer.nanos), transfer.bytes as f64 / transfer.nanos as f64)?;
        }
        writeln!(f)?;
    }
    if let Some(exchange) = &profile.exchange {
        exchanged(f, exchange)?;
    }
    for kernel in &profile.kernels {
        write!(f, "  {:<60} {:>9.3} ms", shortened(&kernel.label, 60), ms(kernel.nanos))?;
        if kernel.launches > 1 {
            write!(f, " in {} launches", kernel.launches)?;
        }
        if kernel.bytes > 0 && kernel.nanos > 0 {
            let rate = kernel.bytes as f64 / kernel.nanos as f64;
            write!(f, "  bytes {:>12} {rate:>8.1} GB/s", kernel.bytes)?;
        }
        if let Some(fraction) = kernel.peak_fraction {
            write!(f, " ({:.0}% of peak)", 100.0 * fraction)?;
        }
        writeln!(f, "  {} x {} threads, {} registers", kernel.shape.0, kernel.shape.1, kernel.registers)?;
    }
    Ok(())
}

/// Bytes that devices have copied from each other, by source and destination.
fn exchanged(f: &mut std::fmt::Formatter<'_>, exchange: &ExchangeProfile) -> std::fmt::Result {
    for (source, (planned, found)) in exchange.planned.rows().iter().zip(exchange.traffic.rows()).enumerate() {
        for (destination, (&planned, &bytes)) in planned.iter().zip(found).enumerate() {
            if planned + bytes == 0 {
                continue;
            }
            write!(f, "  {:<60} bytes {bytes:>12}", format!("device {source} to device {destination}"))?;
            if planned != bytes {
                write!(f, ", {planned} were planned")?;
            }
            writeln!(f)?;
        }
    }
    for link in &exchange.staged_links {
        writeln!(f, "  link from device {link}")?;
    }
    Ok(())
}

fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_string();
    }
    text.chars().take(width - 3).chain("...".chars()).collect()
}
