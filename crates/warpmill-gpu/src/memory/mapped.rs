//! Page-locked memory of the host that kernels read and write by address, over the link: rows of hash builds that do not fit the
//! device. It is no part of the device's memory, and bounded by `Options::pinned_memory_limit`.

use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;

use super::error::{Failure, Result};
use crate::device::{Device, DeviceError, DeviceKind, PinnedBuffer};

/// Fill of fresh memory on the simulated device, which exposes reads of unwritten bytes.
const POISON: u8 = 0xcd;

/// An idle piece is reused if it is at most this many times the requested size.
const MOST_TIMES: u64 = 4;

/// A pool of page-locked memory: page-locking takes longer than most programs use the memory.
#[derive(Debug, Default, Clone)]
pub struct MappedPool(Arc<Mutex<Pieces>>);

#[derive(Debug, Default)]
struct Pieces {
    idle: Vec<PinnedBuffer>,
    /// Bytes of all pieces, in use or idle.
    bytes: u64,
}

/// A piece of page-locked memory, given back on drop. No queued work may use it then.
#[derive(Debug)]
pub struct Mapped {
    pool: MappedPool,
    /// Taken when dropped.
    memory: Option<PinnedBuffer>,
}

impl MappedPool {
    /// Takes at least `bytes` bytes; all pieces together may have `room` bytes.
    ///
    /// # Errors
    /// [`Failure::HostMemory`] if there is not as much; the device's.
    pub fn take(&self, device: &dyn Device, bytes: u64, room: u64) -> Result<Mapped> {
        let mut pieces = self.0.lock();
        let fits = |piece: &&PinnedBuffer| (bytes..=bytes.saturating_mul(MOST_TIMES)).contains(&(piece.len() as u64));
        let found =
            pieces.idle.iter().enumerate().filter(|(_, piece)| fits(piece)).min_by_key(|(_, piece)| piece.len());
        let found = found.map(|(position, _)| position).filter(|_| pieces.bytes <= room);
        let mut memory = match found {
            Some(position) => pieces.idle.swap_remove(position),
            None => {
                // Idle pieces of other sizes make room.
                let idle: u64 = pieces.idle.drain(..).map(|piece| piece.len() as u64).sum();
                pieces.bytes -= idle;
                let available = room.saturating_sub(pieces.bytes);
                if bytes > available {
                    return Err(Failure::HostMemory { requested: bytes, available });
                }
                let made = device.pinned(bytes as usize).map_err(|error| match error {
                    DeviceError::OutOfMemory { requested, available, .. } => {
                        Failure::HostMemory { requested, available }
                    }
                    error => error.into(),
                })?;
                pieces.bytes += made.len() as u64;
                made
            }
        };
        drop(pieces);
        if device.properties().kind == DeviceKind::Sim {
            memory.fill(POISON);
        }
        Ok(Mapped { pool: self.clone(), memory: Some(memory) })
    }

    /// Frees idle pieces.
    pub fn clear(&self) {
        let mut pieces = self.0.lock();
        let idle: u64 = pieces.idle.drain(..).map(|piece| piece.len() as u64).sum();
        pieces.bytes -= idle;
    }

    /// Bytes of all pieces.
    pub fn bytes(&self) -> u64 {
        self.0.lock().bytes
    }
}

impl Deref for Mapped {
    type Target = PinnedBuffer;

    fn deref(&self) -> &PinnedBuffer {
        self.memory.as_ref().expect("there until dropped")
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.pool.0.lock().idle.extend(self.memory.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::{SimDevice, SimOptions};

    #[test]
    fn pieces_are_used_again_and_bounded() {
        let device = SimDevice::new(SimOptions::default()).expect("the host has a C++ compiler");
        let pool = MappedPool::default();
        let first = pool.take(&device, 1000, 3000).unwrap();
        let second = pool.take(&device, 1500, 3000).unwrap();
        assert_eq!((pool.bytes(), first.iter().all(|byte| *byte == POISON)), (2500, true));
        match pool.take(&device, 600, 3000) {
            Err(Failure::HostMemory { requested: 600, available: 500 }) => {}
            other => panic!("{other:?}"),
        }
        let at = second.as_ptr();
        drop(second);
        // The same piece is reused; it is freed for a request of another size, and for a smaller limit.
        let again = pool.take(&device, 1400, 3000).unwrap();
        assert_eq!((again.as_ptr(), again.len(), pool.bytes()), (at, 1500, 2500));
        drop(again);
        let small = pool.take(&device, 100, 3000).unwrap();
        assert_eq!(pool.bytes(), 1100);
        drop((first, small));
        assert!(matches!(pool.take(&device, 1000, 900), Err(Failure::HostMemory { available: 900, .. })));
        assert_eq!(pool.bytes(), 0);
    }
}
