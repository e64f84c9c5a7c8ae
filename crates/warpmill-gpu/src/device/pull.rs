//! A kernel that copies many pieces from the memory of other devices to its own device.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::exchange::Move;
use super::kernel::{Kernel, ParamBytes};
use super::{Device, Result, Stream};

const TEXT: &str = include_str!("../../kernels/pull.cuh");

/// Largest numbers of pieces and sources per launch, threads of a block, and bytes that a block copies at a time (kernels/pull.cuh).
const PIECES: usize = 64;
const SOURCES: usize = 16;
const THREADS: u32 = 256;
const TILE: u64 = 32 << 10;

/// The copy kernel, loaded on a device.
#[derive(Debug)]
pub(super) struct PullKernel(Kernel);

impl PullKernel {
    pub(super) fn compile(device: &Arc<dyn Device>) -> Result<Self> {
        let [kernel] = Kernel::compile(device, TEXT.to_string(), [("pull_pieces", THREADS, 0)])?;
        Ok(Self(kernel))
    }

    /// Queues `moves`, all of them to this device.
    ///
    /// # Errors
    /// The device's.
    ///
    /// # Safety
    /// The device can access the memory of all sources, and all ranges are allocated until `stream` is synchronized.
    pub(super) unsafe fn pull(&self, moves: &[Move], stream: Stream) -> Result<()> {
        let mut of_sources: BTreeMap<usize, Vec<Move>> = BTreeMap::new();
        for moved in moves.iter().filter(|moved| moved.bytes > 0) {
            of_sources.entry(moved.from.device).or_default().push(*moved);
        }
        let of_sources: Vec<Vec<Move>> = of_sources.into_values().collect();
        for sources in of_sources.chunks(SOURCES) {
            // Each launch has pieces of all sources.
            let share = PIECES / sources.len();
            let launches = sources.iter().map(|moves| moves.len().div_ceil(share)).max().unwrap_or(0);
            for launch in 0..launches {
                let pieces = sources.iter().map(|moves| moves.chunks(share).nth(launch).unwrap_or_default());
                // SAFETY: the caller's contract.
                unsafe { self.launch(&pieces.collect::<Vec<_>>(), stream)? };
            }
        }
        Ok(())
    }

    /// Launches the kernel for pieces, given by source.
    ///
    /// # Safety
    /// As for [`Self::pull`].
    unsafe fn launch(&self, pieces: &[&[Move]], stream: Stream) -> Result<()> {
        let mut params = ParamBytes::new();
        let all = || pieces.iter().copied().flatten();
        for moved in all() {
            params = params.u64(moved.from.at).u64(moved.to.at).u64(moved.bytes);
        }
        for _ in all().count()..PIECES {
            params = params.u64(0).u64(0).u64(0);
        }
        let mut end = 0;
        for source in 0..SOURCES {
            end += pieces.get(source).map_or(0, |pieces| pieces.len() as u32);
            params = params.u32(end);
        }
        let tiles: u64 = all().map(|moved| moved.bytes.div_ceil(TILE)).sum();
        let blocks = self.0.resident_blocks(tiles)?.max(pieces.len() as u64);
        // SAFETY: the caller's contract; the parameters are those of kernels/pull.cuh.
        unsafe { self.0.launch(blocks, params.u32(pieces.len() as u32), stream) }
    }
}
