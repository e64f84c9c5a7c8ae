//! The harness of the suites: buffers, and times of kernels.

use std::sync::Arc;

use warpmill_gpu::device::kernel::{Kernel, ParamBytes};
use warpmill_gpu::device::{Device, DeviceKind, DevicePtr, Result, Stream};

use crate::kernels;

/// Measured bytes per second that a streaming kernel reads from an H200's memory.
pub const FLOOR_BYTES_PER_SECOND: f64 = 4.6e12;

/// Options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Factor of all row counts.
    pub scale: f64,
    /// Timed runs of each kernel.
    pub runs: usize,
    /// Whether to try several launch shapes where there is a choice.
    pub tune: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { scale: 1.0, runs: 5, tune: false }
    }
}

/// Device memory, freed when dropped.
pub(super) struct Buffer {
    device: Arc<dyn Device>,
    stream: Stream,
    pub(super) ptr: DevicePtr,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // An error surfaces in the next call; the memory must go back either way.
        let _ = self.device.synchronize(self.stream);
        // SAFETY: allocated by `Bench::buffer`; all work is queued on the one stream, which is idle.
        unsafe { self.device.free(self.ptr) };
    }
}

/// Median and smallest milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) median_ms: f64,
    pub(super) min_ms: f64,
}

/// A buffer that is read to empty the L2 cache, so that the lines left in the cache are clean. Written lines would have to be flushed to memory while
/// the next kernel is timed.
pub(super) struct Flush {
    buffer: Buffer,
    words: u64,
    sum: Buffer,
    kernel: Kernel,
}

/// A device and a stream to measure on.
pub(super) struct Bench {
    pub(super) device: Arc<dyn Device>,
    pub(super) stream: Stream,
    pub(super) options: Options,
    /// Read between runs, so that the L2 cache holds nothing of a run's input.
    flush: Option<Flush>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        // A buffer waits for the stream when dropped: the stream is dropped last.
        self.flush = None;
        self.device.destroy_stream(self.stream);
    }
}

impl Bench {
    pub(super) fn new(device: &Arc<dyn Device>, options: &Options) -> Result<Self> {
        let stream = device.stream()?;
        let mut bench = Self { device: device.clone(), stream, options: options.clone(), flush: None };
        if device.properties().kind == DeviceKind::Cuda {
            let bytes = 4 * device.properties().l2_bytes.max(1 << 20);
            let text = include_str!("../../kernels/measure/data.cuh").to_owned();
            let [kernel] = kernels::compile(device, text, [("sum_words", 256, 0)])?;
            let (buffer, sum) = (bench.buffer(bytes)?, bench.buffer(8)?);
            bench.flush = Some(Flush { buffer, words: bytes / 4, sum, kernel });
        }
        Ok(bench)
    }

    /// `full` rows, scaled, as a multiple of `unit` and at least one unit.
    pub(super) fn rows(&self, full: u64, unit: u64) -> u64 {
        (((full as f64 * self.options.scale) as u64) / unit).max(1) * unit
    }

    /// `bytes` bytes, poisoned.
    pub(super) fn buffer(&self, bytes: u64) -> Result<Buffer> {
        let bytes = bytes.max(256).next_multiple_of(256);
        let ptr = self.device.allocate(bytes)?;
        let buffer = Buffer { device: self.device.clone(), stream: self.stream, ptr };
        // SAFETY: just allocated.
        unsafe { self.device.fill(ptr, 0xA5, bytes, self.stream)? };
        Ok(buffer)
    }

    /// A buffer with `words`, `copies` times, each copy padded to `stride` words.
    pub(super) fn copies(&self, words: &[u32], stride: u64, copies: u64) -> Result<Buffer> {
        assert!(words.len() as u64 <= stride, "a copy fits its stride");
        let buffer = self.buffer(4 * stride * copies)?;
        if stride == 0 {
            return Ok(buffer);
        }
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(4 * stride as usize, 0);
        // SAFETY: the ranges are within the buffer; each doubling copies the existing part to the next.
        unsafe {
            self.device.copy_to_device(buffer.ptr, &bytes, self.stream)?;
            let mut done = 1;
            while done < copies {
                let more = done.min(copies - done);
                let to = buffer.ptr + 4 * stride * done;
                self.device.copy_on_device(to, buffer.ptr, 4 * stride * more, self.stream)?;
                done += more;
            }
        }
        Ok(buffer)
    }

    pub(super) fn fill(&self, buffer: &Buffer, value: u8, bytes: u64) -> Result<()> {
        // SAFETY: callers pass at most the buffer's size.
        unsafe { self.device.fill(buffer.ptr, value, bytes, self.stream) }
    }

    /// Reads `n` 64-bit words from `ptr` after all queued work.
    pub(super) fn read(&self, ptr: DevicePtr, n: usize) -> Result<Vec<u64>> {
        let mut bytes = vec![0; 8 * n];
        // SAFETY: callers pass a buffer of at least `n` words; the copy ends before the bytes are used.
        unsafe { self.device.copy_to_host(&mut bytes, ptr, self.stream)? };
        self.device.synchronize(self.stream)?;
        Ok(bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect())
    }

    /// Launches an untimed kernel that strides over `items` items.
    pub(super) fn prepare(&self, kernel: &Kernel, items: u64, params: ParamBytes) -> Result<()> {
        let blocks = kernel.resident_blocks(items.div_ceil(u64::from(kernel.threads())).max(1))?;
        // SAFETY: the suites pass the parameters that their kernels declare, with buffers of the sizes they state.
        unsafe { kernel.launch(blocks, params, self.stream) }
    }

    /// Times `work` after `setup`, once to warm up and then for the number of runs in the options.
    pub(super) fn measure(
        &self,
        mut setup: impl FnMut() -> Result<()>,
        mut work: impl FnMut() -> Result<()>,
    ) -> Result<Times> {
        let mut times = Vec::new();
        for run in 0..=self.options.runs {
            setup()?;
            if let Some(Flush { buffer, words, sum, kernel }) = &self.flush {
                self.prepare(kernel, *words, ParamBytes::new().u64(buffer.ptr).u64(sum.ptr).u64(*words))?;
            }
            let start = self.device.record(self.stream)?;
            work()?;
            let end = self.device.record(self.stream)?;
            self.device.synchronize(self.stream)?;
            if run > 0 {
                times.push(f64::from(self.device.elapsed_ms(start, end)?));
            }
            self.device.destroy_event(start);
            self.device.destroy_event(end);
        }
        times.sort_by(f64::total_cmp);
        Ok(Times { median_ms: times[times.len() / 2], min_ms: times[0] })
    }

    /// Times one launch of `kernel` by `blocks` blocks.
    pub(super) fn measure_kernel(
        &self,
        kernel: &Kernel,
        most_blocks: u64,
        setup: impl FnMut() -> Result<()>,
        params: impl Fn() -> ParamBytes,
    ) -> Result<Times> {
        let blocks = kernel.resident_blocks(most_blocks.max(1))?;
        // SAFETY: as for `prepare`.
        self.measure(setup, || unsafe { kernel.launch(blocks, params(), self.stream) })
    }
}
