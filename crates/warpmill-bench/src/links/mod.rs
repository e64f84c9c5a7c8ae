//! Measures the links between devices of one host: copies by copy engines and by kernels, random reads, and exchanges between all devices, compared
//! with NCCL's if it is installed. A failed step is recorded and the others continue; received data are checked.

mod nccl;
mod report;
mod rig;
mod steps;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

pub use nccl::NcclError;
pub use report::{Figure, LinkFound, LinkReport};
use warpmill_gpu::device::group::{DeviceGroup, Link};
use warpmill_gpu::device::{Device, Result};

use rig::Rig;

/// The sizes, devices and limits of a measurement.
#[derive(Debug, Clone)]
pub struct LinkOptions {
    /// Bytes of copies: multiples of 16.
    pub copies: Vec<u64>,
    /// Bytes that each device sends in an exchange.
    pub exchanges: Vec<u64>,
    /// Bytes of the table of random reads.
    pub table: u64,
    /// Bytes requested by random reads.
    pub reads: u64,
    /// Bytes of an all-reduce.
    pub reduced: u64,
    /// Timed runs of each step.
    pub runs: usize,
    /// No step begins later.
    pub until: Option<Instant>,
    /// NCCL's file or folder.
    pub nccl: Option<PathBuf>,
    /// The file of results, written after every step.
    pub out: Option<PathBuf>,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            copies: vec![64 << 10, 1 << 20, 16 << 20, 256 << 20, 1 << 30],
            exchanges: vec![16 << 20, 64 << 20, 256 << 20, 1 << 30],
            table: 1 << 30,
            reads: 4 << 30,
            reduced: 256 << 20,
            runs: 7,
            until: None,
            nccl: None,
            out: None,
        }
    }
}

impl LinkOptions {
    /// Sizes for simulated devices, whose times are meaningless.
    pub fn small() -> Self {
        Self {
            copies: vec![1 << 10, 16 << 10],
            exchanges: vec![48 << 10],
            table: 16 << 10,
            reads: 64 << 10,
            reduced: 16 << 10,
            runs: 1,
            ..Self::default()
        }
    }
}

/// Measures the links between `devices`, at least two.
///
/// # Errors
/// Devices without room for the buffers, or without a compiler; errors of a step are recorded in the report.
pub fn run(devices: &[Arc<dyn Device>], options: &LinkOptions) -> Result<LinkReport> {
    let mut report = LinkReport { out: options.out.clone(), ..LinkReport::default() };
    let properties = devices.iter().map(|device| serde_json::json!(device.properties()));
    report.devices = properties.collect();
    let group = DeviceGroup::new(devices.to_vec());
    for (source, destination) in pairs(devices.len()) {
        let link = group.link(source, destination);
        println!("link {source} -> {destination}: {link}");
        report.logical |= *link == Link::Own;
        report.links.push(LinkFound { source, destination, link: link.to_string(), direct: link.is_direct() });
    }
    report.write();
    let largest = |sizes: &[u64]| sizes.iter().copied().max().unwrap_or(0);
    let exchanged = largest(&options.exchanges);
    let send = largest(&options.copies).max(exchanged).max(options.table).max(options.reduced);
    let received = steps::counts(devices.len(), exchanged, true).iter().map(|row| row[0]).sum::<u64>();
    let receive = largest(&options.copies).max(received).max(options.reduced);
    let rig = Rig::new(group, devices, (send, receive), options.runs).inspect_err(|error| {
        let devices = (0..devices.len()).collect();
        report.add(Figure {
            what: "prepare",
            by: "buffers, kernels",
            devices,
            error: Some(error.to_string()),
            ..Figure::default()
        });
    })?;
    report.complete = steps::run(&rig, options, &mut report);
    report.write();
    Ok(report)
}

/// All ordered pairs of different numbers below `n`.
fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |first| (0..n).filter(move |&second| second != first).map(move |second| (first, second)))
}
