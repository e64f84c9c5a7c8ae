//! Radix sort: stable, any number of rows, unsigned keys of 32 or 64 bits with an optional u32 payload.
//!
//! For other orders the caller transforms keys to unsigned ones: flips sign bits, and complements keys to sort descending.

use std::ops::Range;
use std::sync::Arc;

use warpmill_gpu::device::kernel::{Kernel, ParamBytes};
use warpmill_gpu::device::{Device, DevicePtr, Result, Stream};

use crate::kernels;

const DIGITS: u64 = 256;

/// The rows to sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Unsigned 32-bit keys.
    U32,
    /// Unsigned 64-bit keys.
    U64,
}

impl Key {
    /// Bytes of a key.
    pub fn bytes(self) -> u64 {
        match self {
            Key::U32 => 4,
            Key::U64 => 8,
        }
    }

    fn cpp(self) -> &'static str {
        match self {
            Key::U32 => "u32",
            Key::U64 => "u64",
        }
    }
}

/// Threads per block and keys per thread of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// At least 256.
    pub threads: u32,
    /// Keys per thread.
    pub items: u32,
}

impl Geometry {
    /// The parameters that are used unless a caller tunes.
    pub fn default_for(key: Key, values: bool) -> Self {
        match (key, values) {
            (Key::U32, false) => Self { threads: 384, items: 20 },
            (Key::U32, true) => Self { threads: 384, items: 16 },
            (Key::U64, false) => Self { threads: 384, items: 12 },
            (Key::U64, true) => Self { threads: 256, items: 12 },
        }
    }

    fn rows(self) -> u64 {
        u64::from(self.threads) * u64::from(self.items)
    }
}

/// Options for the specialization of a [`RadixSort`].
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Key type.
    pub key: Key,
    /// Whether a u32 moves with each key.
    pub values: bool,
    /// Whether to use the digits of the key's hash: rows are then partitioned evenly instead of sorted.
    pub hashed: bool,
    /// Largest number of rows of a sort.
    pub most_rows: u64,
    /// Shape of the passes.
    pub geometry: Geometry,
}

impl Options {
    /// Sorting up to `most_rows` keys.
    pub fn new(key: Key, values: bool, most_rows: u64) -> Self {
        Self { key, values, hashed: false, most_rows, geometry: Geometry::default_for(key, values) }
    }

    /// Look-back words count rows in 30 or 62 bits.
    fn state_bytes(&self) -> u64 {
        if self.most_rows < 1 << 30 { 4 } else { 8 }
    }

    /// Bytes of `RadixTile::Shared`, rounded up.
    fn shared_bytes(&self) -> u32 {
        let rows = self.geometry.rows();
        let values = if self.values { rows } else { 2 };
        let bytes =
            8 * DIGITS + rows * self.key.bytes() + 4 * values + 4 * DIGITS * u64::from(self.geometry.threads) / 32;
        (bytes + 64) as u32
    }
}

/// The addresses of rows before and after a pass.
#[derive(Debug, Clone, Copy)]
pub struct Rows {
    /// Keys.
    pub keys: DevicePtr,
    /// Payloads (u32); ignored without payloads.
    pub values: DevicePtr,
}

/// The kernels of one specialization.
#[derive(Debug)]
pub struct RadixSort {
    device: Arc<dyn Device>,
    options: Options,
    count: Kernel,
    starts: Kernel,
    pass: Kernel,
}

impl RadixSort {
    /// Compiles the kernels.
    pub fn new(device: &Arc<dyn Device>, options: Options) -> Result<Self> {
        let Geometry { threads, items } = options.geometry;
        assert!((256..=1024).contains(&threads) && threads.is_multiple_of(32), "a pass has 256 to 1024 threads");
        let (key, hashed, values) = (options.key.cpp(), options.hashed, options.values);
        let state = if options.state_bytes() == 4 { "u32" } else { "u64" };
        let entries = format!(
            "extern \"C\" __global__ void __launch_bounds__(512) radix_count_keys(RadixCount p) {{\n    \
                 DYNAMIC_SHARED(u32, local);\n    radix_count<{key}, {hashed}>(p, local);\n}}\n\
             extern \"C\" __global__ void __launch_bounds__(256) radix_digit_starts(RadixCount p) {{\n    \
                 __shared__ u64 shared[8];\n    radix_starts(p.counts, shared);\n}}\n\
             typedef RadixTile<{key}, {state}, {threads}, {items}, {values}, {hashed}> Tile;\n\
             extern \"C\" __global__ void __launch_bounds__({threads}) radix_pass(RadixPass p) {{\n    \
                 DYNAMIC_SHARED(u64, shared);\n    Tile::run(p, *(Tile::Shared*)shared);\n}}\n"
        );
        let text = [kernels::LOOK_BACK, kernels::HASH, kernels::RADIX_SORT, &entries].concat();
        let count_shared = (options.key.bytes() * DIGITS * 4) as u32;
        let [count, starts, pass] = kernels::compile(
            device,
            text,
            [
                ("radix_count_keys", 512, count_shared),
                ("radix_digit_starts", 256, 0),
                ("radix_pass", threads, options.shared_bytes()),
            ],
        )?;
        Ok(Self { device: device.clone(), options, count, starts, pass })
    }

    /// Registers per thread of a pass, and bytes of local memory.
    pub fn resources(&self) -> (u32, u32) {
        (self.pass.registers(), self.pass.local())
    }

    fn tiles(&self, n: u64) -> u64 {
        n.div_ceil(self.options.geometry.rows())
    }

    /// Bytes of scratch memory of [`RadixSort::partition`] for `n` rows: digit counts of up to 8 places, look-back words, a
    /// counter. The counts come first: after a partition they are the positions where its parts begin (u64, 256 a place).
    pub fn state_bytes(&self, n: u64) -> u64 {
        (8 * DIGITS * 8 + self.tiles(n) * DIGITS * self.options.state_bytes() + 8).next_multiple_of(256)
    }

    /// Bytes of scratch memory of [`RadixSort::sort`] for `n` rows.
    pub fn scratch_bytes(&self, n: u64) -> u64 {
        let values = if self.options.values { (4 * n).next_multiple_of(256) } else { 0 };
        self.state_bytes(n) + (self.options.key.bytes() * n).next_multiple_of(256) + values
    }

    /// Queues a sort in place by bits `bits` of the keys; bits that are equal in all keys may be omitted.
    ///
    /// # Safety
    /// `rows` has `n` keys and payloads, `scratch` (256-byte aligned) [`RadixSort::scratch_bytes`], and they do not overlap.
    pub unsafe fn sort(&self, stream: Stream, rows: Rows, n: u64, bits: Range<u32>, scratch: DevicePtr) -> Result<()> {
        if n <= 1 || bits.is_empty() {
            return Ok(());
        }
        let other_keys = scratch + self.state_bytes(n);
        let other =
            Rows { keys: other_keys, values: other_keys + (self.options.key.bytes() * n).next_multiple_of(256) };
        let (mut from, mut to) = (rows, other);
        // SAFETY: the caller's promise; the second copy of the rows follows the state.
        unsafe {
            self.count_digits(stream, rows.keys, n, &bits, scratch)?;
            for (place, bit) in bits.clone().step_by(8).enumerate() {
                let place_bits = (bits.end - bit).min(8);
                self.pass(stream, from, to, n, bit, place_bits, place as u64, scratch)?;
                (from, to) = (to, from);
            }
            if from.keys != rows.keys {
                self.device.copy_on_device(rows.keys, from.keys, self.options.key.bytes() * n, stream)?;
                if self.options.values {
                    self.device.copy_on_device(rows.values, from.values, 4 * n, stream)?;
                }
            }
        }
        Ok(())
    }

    /// Queues one pass: moves rows to `to`, ordered by the `bits` (at most 8) of their keys (or of the keys' hashes), stably.
    /// Part `p` then begins at entry `p` of the u64 words at `state`.
    ///
    /// # Safety
    /// `from` and `to` have `n` keys and payloads, `state` (256-byte aligned) [`RadixSort::state_bytes`], without overlap.
    pub unsafe fn partition(
        &self,
        stream: Stream,
        from: Rows,
        to: Rows,
        n: u64,
        bits: Range<u32>,
        state: DevicePtr,
    ) -> Result<()> {
        assert!((1..=8).contains(&bits.len()), "a pass moves rows by 1 to 8 bits");
        // SAFETY: the caller's promise.
        unsafe {
            self.count_digits(stream, from.keys, n, &bits, state)?;
            self.pass(stream, from, to, n, bits.start, bits.len() as u32, 0, state)
        }
    }

    /// Counts the digits at all places of `bits` and converts the counts to positions, at the front of `state`.
    unsafe fn count_digits(
        &self,
        stream: Stream,
        keys: DevicePtr,
        n: u64,
        bits: &Range<u32>,
        state: DevicePtr,
    ) -> Result<()> {
        assert!(u64::from(bits.end) <= 8 * self.options.key.bytes(), "bits {bits:?} of a narrower key");
        let places = bits.len().div_ceil(8) as u64;
        let params = || ParamBytes::new().u64(keys).u64(state).u64(n).u32(bits.start).u32(bits.len() as u32);
        // SAFETY: the caller's promise.
        unsafe {
            self.device.fill(state, 0, 8 * DIGITS * places, stream)?;
            let blocks = self.count.resident_blocks(n.div_ceil(u64::from(self.count.threads())))?;
            self.count.launch(blocks, params(), stream)?;
            self.starts.launch(places, params(), stream)
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one row of a kernel's parameters")]
    unsafe fn pass(
        &self,
        stream: Stream,
        from: Rows,
        to: Rows,
        n: u64,
        bit: u32,
        place_bits: u32,
        place: u64,
        state: DevicePtr,
    ) -> Result<()> {
        let look_back = state + 8 * DIGITS * 8;
        let look_back_bytes = self.tiles(n) * DIGITS * self.options.state_bytes();
        let params = ParamBytes::new()
            .u64(from.keys)
            .u64(to.keys)
            .u64(from.values)
            .u64(to.values)
            .u64(state + 8 * DIGITS * place)
            .u64(look_back)
            .u64(look_back + look_back_bytes)
            .u64(n)
            .u32(bit)
            .u32(place_bits);
        // SAFETY: the caller's promise.
        unsafe {
            self.device.fill(look_back, 0, look_back_bytes + 8, stream)?;
            self.pass.launch(self.tiles(n), params, stream)
        }
    }
}
