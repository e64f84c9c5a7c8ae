//! Devices with their buffers and kernels, and times of work on them.

use std::sync::Arc;
use std::time::Instant;

use warpmill_gpu::device::group::DeviceGroup;
use warpmill_gpu::device::kernel::{Kernel, ParamBytes};
use warpmill_gpu::device::{Device, DevicePtr, Result, Stream};

use crate::kernels;

/// Runs before the timed ones.
const WARM_UPS: usize = 2;

/// Median and smallest microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) median_us: f64,
    pub(super) min_us: f64,
    pub(super) runs: usize,
}

impl Times {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Self { median_us: times[times.len() / 2], min_us: times[0], runs: times.len() }
    }
}

/// A device with its send and receive buffers.
pub(super) struct Member {
    pub(super) device: Arc<dyn Device>,
    pub(super) stream: Stream,
    /// Contains the pattern of the member's number; read-only.
    pub(super) send: DevicePtr,
    pub(super) receive: DevicePtr,
    tally: DevicePtr,
    fill: Kernel,
    check: Kernel,
    pub(super) copy: Kernel,
    pub(super) reads: Kernel,
    expect: Kernel,
    memory: Vec<DevicePtr>,
}

impl Member {
    fn new(device: &Arc<dyn Device>, number: usize, send: u64, receive: u64) -> Result<Self> {
        let text = include_str!("../../kernels/measure/links.cuh").to_owned();
        let names = ["link_fill", "link_check", "link_copy", "link_reads", "link_expect"].map(|name| (name, 256, 0));
        let [fill, check, copy, reads, expect] = kernels::compile(device, text, names)?;
        let stream = device.stream()?;
        let (device, memory) = (device.clone(), vec![]);
        let mut member =
            Self { device, stream, send: 0, receive: 0, tally: 0, fill, check, copy, reads, expect, memory };
        member.send = member.allocate(send)?;
        member.receive = member.allocate(receive)?;
        member.tally = member.allocate(8)?;
        let params = ParamBytes::new().u64(member.send).u64(send / 8).u64(number as u64);
        member.launch(&member.fill, send / 8, params)?;
        member.device.synchronize(member.stream)?;
        Ok(member)
    }

    fn allocate(&mut self, bytes: u64) -> Result<DevicePtr> {
        let at = self.device.allocate(bytes)?;
        self.memory.push(at);
        Ok(at)
    }

    /// Launches a kernel that strides over `items` items.
    pub(super) fn launch(&self, kernel: &Kernel, items: u64, params: ParamBytes) -> Result<()> {
        let blocks = kernel.resident_blocks(items.div_ceil(u64::from(kernel.threads())))?;
        // SAFETY: callers pass the parameters that the kernel declares, with buffers of at least the sizes that they state.
        unsafe { kernel.launch(blocks, params, self.stream) }
    }

    /// Overwrites the data received before.
    pub(super) fn clear(&self, bytes: u64) -> Result<()> {
        // SAFETY: callers pass at most the buffer's size.
        unsafe { self.device.fill(self.receive, 0x5A, bytes, self.stream)? };
        self.device.synchronize(self.stream)
    }

    /// Whether `bytes` bytes at `at` are the sum of the patterns of members `of`, from byte `begin` of their buffers.
    pub(super) fn holds(&self, at: DevicePtr, bytes: u64, of: std::ops::Range<usize>, begin: u64) -> Result<bool> {
        let (first, count) = (of.start as u64, of.len() as u64);
        let params = ParamBytes::new().u64(at).u64(bytes / 8).u64(first).u64(count).u64(begin / 8).u64(self.tally);
        Ok(self.tallied(|| self.launch(&self.check, bytes / 8, params.clone()))? == 0)
    }

    /// The sum that `reads` random reads of the first `units` units of member `of` find.
    pub(super) fn expected_reads(&self, of: usize, units: u64, reads: u64) -> Result<u64> {
        let params = ParamBytes::new().u64(of as u64).u64(units).u64(reads).u64(self.tally);
        self.tallied(|| self.launch(&self.expect, reads, params.clone()))
    }

    /// Queues `reads` random reads of the first `units` units of `table`.
    pub(super) fn read_randomly(&self, table: DevicePtr, units: u64, reads: u64) -> Result<()> {
        let params = ParamBytes::new().u64(table).u64(units).u64(reads).u64(self.tally);
        self.launch(&self.reads, reads, params)
    }

    /// Runs `work`. Returns the number that it adds to the tally.
    pub(super) fn tallied(&self, work: impl FnOnce() -> Result<()>) -> Result<u64> {
        let mut found = [0; 8];
        // SAFETY: the tally has 8 bytes; the copy has ended before they are used.
        unsafe {
            self.device.fill(self.tally, 0, 8, self.stream)?;
            work()?;
            self.device.copy_to_host(&mut found, self.tally, self.stream)?;
        }
        self.device.synchronize(self.stream)?;
        Ok(u64::from_le_bytes(found))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.device.synchronize(self.stream);
        self.device.destroy_stream(self.stream);
        for &at in &self.memory {
            // SAFETY: allocated by the member; all members' streams are idle, see `Rig`.
            unsafe { self.device.free(at) };
        }
    }
}

/// All members.
pub(super) struct Rig {
    pub(super) group: DeviceGroup,
    pub(super) members: Vec<Member>,
    runs: usize,
}

impl Drop for Rig {
    fn drop(&mut self) {
        // Members read each other's memory.
        self.members.iter().for_each(|member| drop(member.device.synchronize(member.stream)));
    }
}

impl Rig {
    pub(super) fn new(group: DeviceGroup, devices: &[Arc<dyn Device>], sizes: (u64, u64), runs: usize) -> Result<Self> {
        let member = |(number, device)| Member::new(device, number, sizes.0, sizes.1);
        let members = devices.iter().enumerate().map(member).collect::<Result<_>>()?;
        Ok(Self { group, members, runs: runs.max(1) })
    }

    /// Waits for the members `among`.
    pub(super) fn settle(&self, among: &[usize]) -> Result<()> {
        among.iter().map(|&number| &self.members[number]).try_for_each(|it| it.device.synchronize(it.stream))
    }

    /// Times `work` on the stream of one member by events on it.
    pub(super) fn by_events(&self, number: usize, work: impl Fn() -> Result<()>) -> Result<Times> {
        let Member { device, stream, .. } = &self.members[number];
        let once = || {
            let start = device.record(*stream)?;
            work()?;
            let end = device.record(*stream)?;
            device.synchronize(*stream)?;
            let time = device.elapsed_ms(start, end);
            device.destroy_event(start);
            device.destroy_event(end);
            Ok(f64::from(time?) * 1e3)
        };
        self.repeat(once)
    }

    /// Times `work` by the host's clock, from idle members until they are idle again.
    pub(super) fn by_host(&self, among: &[usize], work: impl Fn() -> Result<()>) -> Result<Times> {
        let once = || {
            self.settle(among)?;
            let start = Instant::now();
            work()?;
            self.settle(among)?;
            Ok(start.elapsed().as_secs_f64() * 1e6)
        };
        self.repeat(once)
    }

    fn repeat(&self, once: impl Fn() -> Result<f64>) -> Result<Times> {
        (0..WARM_UPS).try_for_each(|_| once().map(drop))?;
        Ok(Times::of((0..self.runs).map(|_| once()).collect::<Result<_>>()?))
    }
}
