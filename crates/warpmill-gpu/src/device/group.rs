//! Devices of one process that exchange data, and the links between them.
//!
//! A link is direct if the destination can read the source's memory, and a test pattern copied over it has arrived: drivers that permit access and
//! report success have been seen to lose copies (NVIDIA/open-gpu-kernel-modules#1257). Otherwise data is staged through page-locked host memory, and
//! the link has the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::exchange::{Exchange, Move, Traffic, refused};
use super::pull::PullKernel;
use super::{Device, DeviceError, DeviceKind, DevicePtr, Event, PinnedBuffer, Reach, Result, Stream};

/// A link from one device's memory to another's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// Both are the same device.
    Own,
    /// The destination reads the source's memory.
    Direct,
    /// Staged through page-locked host memory, with the reason.
    Staged(String),
}

impl Link {
    /// Whether the link bypasses the host.
    pub fn is_direct(&self) -> bool {
        !matches!(self, Self::Staged(_))
    }
}

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Own => f.write_str("one device"),
            Self::Direct => f.write_str("direct"),
            Self::Staged(reason) => write!(f, "through the host: {reason}"),
        }
    }
}

/// Bytes of the test pattern that a link must transfer to be trusted.
const PROBE: usize = 1 << 20;

/// Bytes staged at a time.
const STAGED: u64 = 4 << 20;

/// Bytes of a piece from which a copy engine is as fast as a kernel. Copies from several devices at once use a kernel anyway, since copy engines then
/// reach only half of a GPU's link bandwidth (all-to-all of 1 GiB on four H100s: 195 GB/s).
const LARGE: u64 = 16 << 20;

/// Devices that exchange data.
#[derive(Debug)]
pub struct DeviceGroup {
    devices: Vec<Arc<dyn Device>>,
    /// By source and destination.
    links: Vec<Vec<Link>>,
    /// Traffic of all queued copies.
    traffic: Mutex<Traffic>,
    /// Streams of destinations for copies from one source each, by source and destination, made on first use: copies on one stream run in sequence,
    /// and a single link does not saturate a destination's share of a switch.
    lanes: Mutex<BTreeMap<(usize, usize), Stream>>,
    /// Whether copy kernels are used where they are faster. Simulated devices account for copy calls only, so they use none.
    by_kernels: bool,
    /// The copy kernel of each device, compiled on first use.
    pulls: Vec<OnceLock<PullKernel>>,
}

impl DeviceGroup {
    /// A group of `devices`, numbered in order; tests each link.
    pub fn new(devices: Vec<Arc<dyn Device>>) -> Self {
        let probe = |source: usize, destination: usize| match source == destination {
            true => Link::Own,
            false => probe(&devices[source], &devices[destination]),
        };
        let links = (0..devices.len()).map(|source| (0..devices.len()).map(|to| probe(source, to)).collect()).collect();
        Self::of(devices, links)
    }

    /// The same with all links staged, for tests and comparisons.
    pub fn staged(devices: Vec<Arc<dyn Device>>) -> Self {
        let link = |source: usize, destination: usize| match source == destination {
            true => Link::Own,
            false => Link::Staged("the setting asks for it".into()),
        };
        let links = (0..devices.len()).map(|source| (0..devices.len()).map(|to| link(source, to)).collect()).collect();
        Self::of(devices, links)
    }

    fn of(devices: Vec<Arc<dyn Device>>, links: Vec<Vec<Link>>) -> Self {
        let by_kernels = devices.iter().all(|device| device.properties().kind == DeviceKind::Cuda);
        let pulls = devices.iter().map(|_| OnceLock::new()).collect();
        let traffic = Mutex::new(Traffic::new(devices.len()));
        Self { devices, links, traffic, lanes: Mutex::default(), by_kernels, pulls }
    }

    /// The same without copy kernels, for a driver that runs none.
    #[cfg(test)]
    pub(crate) fn without_kernels(mut self) -> Self {
        self.by_kernels = false;
        self
    }

    /// The link from one device to another.
    pub fn link(&self, source: usize, destination: usize) -> &Link {
        &self.links[source][destination]
    }

    /// Traffic of all copies queued so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic.lock().clone()
    }

    /// Queues moves to device `to` on its stream `stream`. Sources are read at once: the sources' streams are not waited for.
    ///
    /// # Errors
    /// The devices'; a move to another destination.
    ///
    /// # Safety
    /// All ranges are allocated until `stream` is synchronized, and sources hold the data to copy.
    pub unsafe fn pull(&self, moves: &[Move], to: usize, stream: Stream) -> Result<()> {
        let destination = self.device(to)?;
        for moved in moves {
            self.device(moved.from.device)?;
            if moved.to.device != to {
                return Err(refused(format!("a move to device {} among those to device {to}", moved.to.device)));
            }
        }
        if self.is_for_kernels(moves, to) {
            // SAFETY: the caller's contract; all links are direct.
            unsafe { self.kernel(to)?.pull(moves, stream)? };
            self.count(moves, to);
            return Ok(());
        }
        for moved in moves.iter().filter(|moved| moved.bytes > 0) {
            let source = self.device(moved.from.device)?;
            // SAFETY: the caller's contract.
            unsafe {
                match self.link(moved.from.device, to) {
                    _ if moved.from.device == to => {
                        destination.copy_on_device(moved.to.at, moved.from.at, moved.bytes, stream)?;
                    }
                    Link::Own | Link::Direct => {
                        destination.copy_from_peer(moved.to.at, (source, moved.from.at), moved.bytes, stream)?;
                    }
                    Link::Staged(_) => stage((source, moved.from.at), (destination, moved.to.at), moved.bytes, stream)?,
                }
            }
            self.count(&[*moved], to);
        }
        Ok(())
    }

    /// The copy kernel of device `to`.
    fn kernel(&self, to: usize) -> Result<&PullKernel> {
        if let Some(kernel) = self.pulls[to].get() {
            return Ok(kernel);
        }
        let kernel = PullKernel::compile(&self.devices[to])?;
        Ok(self.pulls[to].get_or_init(|| kernel))
    }

    /// Adds queued moves to `to` to the traffic.
    fn count(&self, moves: &[Move], to: usize) {
        let mut traffic = self.traffic.lock();
        for moved in moves.iter().filter(|moved| moved.from.device != to) {
            traffic.add(moved.from.device, to, moved.bytes);
        }
    }

    /// Whether a kernel of device `to` copies faster than copy engines: from several devices at once, or small pieces.
    fn is_for_kernels(&self, moves: &[Move], to: usize) -> bool {
        let sources: BTreeSet<usize> =
            moves.iter().map(|moved| moved.from.device).filter(|&source| source != to).collect();
        let bytes: u64 = moves.iter().map(|moved| moved.bytes).sum();
        let small = moves.len() > 1 && bytes / (moves.len() as u64) < LARGE;
        let is_direct = sources.iter().all(|&source| self.link(source, to).is_direct());
        self.by_kernels && is_direct && (sources.len() > 1 || small)
    }

    fn device(&self, number: usize) -> Result<&dyn Device> {
        let there_is_none = || refused(format!("there is no device {number} in the group"));
        self.devices.get(number).map(|device| &**device).ok_or_else(there_is_none)
    }

    /// The stream of `to` for copies from `source`.
    fn lane(&self, source: usize, to: usize) -> Result<Stream> {
        let mut lanes = self.lanes.lock();
        if let Some(&lane) = lanes.get(&(source, to)) {
            return Ok(lane);
        }
        let lane = self.devices[to].stream()?;
        lanes.insert((source, to), lane);
        Ok(lane)
    }

    /// Waits for the copies on all lanes; their errors surface elsewhere.
    fn settle(&self) {
        for (&(_, to), &lane) in &*self.lanes.lock() {
            let _ = self.devices[to].synchronize(lane);
        }
    }

    /// Records events on the streams of `devices`.
    fn mark(&self, devices: impl Iterator<Item = usize>, streams: &[Stream]) -> Result<Marks<'_>> {
        let mut marks = Marks { group: self, events: BTreeMap::new() };
        for device in devices {
            marks.events.insert(device, self.devices[device].record(streams[device])?);
        }
        Ok(marks)
    }

    /// Queues the direct moves to `to` concurrently: by one kernel, or those of each source on its lane. Starts with the successor of `to`, so that
    /// devices do not all read the same one first.
    ///
    /// # Safety
    /// As for [`Self::pull`]; sources must only wait for the work before `marks`.
    unsafe fn pull_at_once(&self, moves: &[Move], to: usize, stream: Stream, marks: &Marks<'_>) -> Result<()> {
        let devices = self.devices.len();
        let direct = moves.iter().filter(|moved| self.link(moved.from.device, to).is_direct());
        let direct: Vec<Move> = direct.copied().collect();
        let of_source = |source: usize| -> Vec<Move> {
            direct.iter().filter(|moved| moved.from.device == source).copied().collect()
        };
        let parts: Vec<(usize, Vec<Move>)> = (1..devices)
            .map(|step| (to + step) % devices)
            .map(|source| (source, of_source(source)))
            .filter(|(_, moves)| !moves.is_empty())
            .collect();
        if self.is_for_kernels(&direct, to) {
            parts.iter().try_for_each(|(source, _)| marks.wait(*source, to, stream))?;
            // SAFETY: the caller's contract; the stream waits for all sources.
            return unsafe { self.pull(&direct, to, stream) };
        }
        let destination = &self.devices[to];
        let mut lanes = vec![];
        for (source, part) in &parts {
            let lane = self.lane(*source, to)?;
            // Earlier work of the destination may still use the overwritten memory.
            marks.wait(to, to, lane)?;
            marks.wait(*source, to, lane)?;
            // SAFETY: the caller's contract; the lane waits for the destination and the source.
            unsafe { self.pull(part, to, lane)? };
            lanes.push(lane);
        }
        // SAFETY: the caller's contract.
        unsafe { self.pull(&of_source(to), to, stream)? };
        for lane in lanes {
            let done = destination.record(lane)?;
            let waits = destination.wait(stream, done);
            // The driver keeps the event until it is reached.
            destination.destroy_event(done);
            waits?;
        }
        Ok(())
    }

    /// Queues moves, given by destination.
    ///
    /// # Safety
    /// As for [`Exchange::carry_out`].
    unsafe fn queue(&self, of_devices: &[Vec<Move>], streams: &[Stream]) -> Result<()> {
        let used = |device: &usize| {
            !of_devices[*device].is_empty() || of_devices.iter().flatten().any(|moved| moved.from.device == *device)
        };
        // All streams are marked before the first copy, so that no copy waits for another one of the same exchange.
        let marks = self.mark((0..self.devices.len()).filter(used), streams)?;
        for (to, moves) in of_devices.iter().enumerate() {
            // SAFETY: the caller's contract; what was queued on the sources' streams is waited for.
            unsafe { self.pull_at_once(moves, to, streams[to], &marks)? };
        }
        // The host copies staged data while direct copies run.
        for (to, moves) in of_devices.iter().enumerate() {
            let is_staged = |moved: &&Move| !self.link(moved.from.device, to).is_direct();
            let staged: Vec<Move> = moves.iter().filter(is_staged).copied().collect();
            for moved in &staged {
                marks.finish(moved.from.device)?;
            }
            // SAFETY: the caller's contract; the sources' work is done.
            unsafe { self.pull(&staged, to, streams[to])? };
        }
        let arrived = self.mark((0..self.devices.len()).filter(|&to| !of_devices[to].is_empty()), streams)?;
        for (to, moves) in of_devices.iter().enumerate() {
            let mut sources: Vec<usize> = moves.iter().map(|moved| moved.from.device).collect();
            sources.sort_unstable();
            sources.dedup();
            for source in sources.into_iter().filter(|&source| source != to) {
                arrived.wait(to, source, streams[source])?;
            }
        }
        Ok(())
    }
}

impl Drop for DeviceGroup {
    fn drop(&mut self) {
        self.settle();
        for (&(_, to), &lane) in &*self.lanes.lock() {
            self.devices[to].destroy_stream(lane);
        }
    }
}

/// Events on streams of several devices, by device. The driver keeps awaited events until they are reached.
struct Marks<'a> {
    group: &'a DeviceGroup,
    events: BTreeMap<usize, Event>,
}

impl Marks<'_> {
    fn of(&self, device: usize) -> Result<Event> {
        self.events.get(&device).copied().ok_or_else(|| refused(format!("device {device} has no mark")))
    }

    /// Makes a stream of device `waiting` wait for the mark of `device`.
    fn wait(&self, device: usize, waiting: usize, stream: Stream) -> Result<()> {
        self.group.devices[waiting].wait_for_peer(stream, &*self.group.devices[device], self.of(device)?)
    }

    /// Makes the host wait for the mark of `device`.
    fn finish(&self, device: usize) -> Result<()> {
        self.group.devices[device].finish(self.of(device)?)
    }
}

impl Drop for Marks<'_> {
    fn drop(&mut self) {
        self.events.iter().for_each(|(&device, &event)| self.group.devices[device].destroy_event(event));
    }
}

impl Exchange for DeviceGroup {
    fn devices(&self) -> usize {
        self.devices.len()
    }

    unsafe fn carry_out(&self, moves: &[Move], streams: &[Stream]) -> Result<()> {
        if streams.len() != self.devices.len() {
            return Err(refused(format!("{} streams for {} devices", streams.len(), self.devices.len())));
        }
        let mut of_devices: Vec<Vec<Move>> = vec![vec![]; self.devices.len()];
        for &moved in moves.iter().filter(|moved| moved.bytes > 0) {
            self.device(moved.from.device)?;
            self.device(moved.to.device)?;
            of_devices[moved.to.device].push(moved);
        }
        // SAFETY: the caller's contract.
        let queued = unsafe { self.queue(&of_devices, streams) };
        // After an error the destinations' streams may not wait for all lanes, which write to memory that the caller will free.
        queued.inspect_err(|_| self.settle())
    }
}

/// Copies through page-locked memory; completed on return.
///
/// # Safety
/// Both ranges are allocated; the source's holds the data to copy.
unsafe fn stage(
    (source, src): (&dyn Device, DevicePtr),
    (destination, dst): (&dyn Device, DevicePtr),
    bytes: u64,
    stream: Stream,
) -> Result<()> {
    // All devices of the process can access such memory.
    let mut buffer: PinnedBuffer = source.pinned(bytes.min(STAGED) as usize)?;
    let reading = OwnStream::new(source)?;
    let mut at = 0;
    while at < bytes {
        let piece = (bytes - at).min(STAGED) as usize;
        // SAFETY: the caller's contract; the buffer is used again only when both copies are done.
        unsafe {
            source.copy_to_host(&mut buffer[..piece], src + at, reading.stream)?;
            source.synchronize(reading.stream)?;
            destination.copy_to_device(dst + at, &buffer[..piece], stream)?;
        }
        destination.synchronize(stream)?;
        at += piece as u64;
    }
    Ok(())
}

/// Determines the link between two devices, by copying a test pattern.
fn probe(source: &Arc<dyn Device>, destination: &Arc<dyn Device>) -> Link {
    match destination.reach(&**source) {
        Ok(Reach::Own) => Link::Own,
        Ok(Reach::Peer) => match arrives(&**source, &**destination) {
            Ok(true) => Link::Direct,
            Ok(false) => Link::Staged("a pattern was copied without an error, and has not arrived".into()),
            Err(DeviceError::OutOfMemory { .. }) => Link::Staged("there is no memory to check it with".into()),
            Err(error) => Link::Staged(format!("a pattern could not be copied: {error}")),
        },
        Err(reason) => Link::Staged(reason),
    }
}

/// Whether a pattern copied between devices arrives, as observed by copies within the destination.
fn arrives(source: &dyn Device, destination: &dyn Device) -> Result<bool> {
    let from = OwnMemory::new(source, PROBE)?;
    let (to, copy) = (OwnMemory::new(destination, PROBE)?, OwnMemory::new(destination, PROBE)?);
    // Declared after the memory that their work uses, so dropped before it.
    let (writing, reading) = (OwnStream::new(source)?, OwnStream::new(destination)?);
    let bytes = PROBE as u64;
    let word = |index: usize| (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let pattern: Vec<u8> = (0..PROBE / 8).flat_map(|index| word(index).to_le_bytes()).collect();
    let mut found = vec![0; PROBE];
    // SAFETY: just allocated with these sizes, and freed after the streams that use them were synchronized.
    unsafe {
        source.copy_to_device(from.at, &pattern, writing.stream)?;
        destination.fill(to.at, 0, bytes, reading.stream)?;
        source.synchronize(writing.stream)?;
        destination.copy_from_peer(to.at, (source, from.at), bytes, reading.stream)?;
        destination.copy_on_device(copy.at, to.at, bytes, reading.stream)?;
        destination.copy_to_host(&mut found, copy.at, reading.stream)?;
    }
    destination.synchronize(reading.stream)?;
    Ok(found == pattern)
}

/// A stream, synchronized and destroyed on drop.
struct OwnStream<'a> {
    device: &'a dyn Device,
    stream: Stream,
}

impl<'a> OwnStream<'a> {
    fn new(device: &'a dyn Device) -> Result<Self> {
        Ok(Self { device, stream: device.stream()? })
    }
}

impl Drop for OwnStream<'_> {
    fn drop(&mut self) {
        // The memory that its work uses is freed after it.
        let _ = self.device.synchronize(self.stream);
        self.device.destroy_stream(self.stream);
    }
}

/// Device memory, freed on drop.
struct OwnMemory<'a> {
    device: &'a dyn Device,
    at: DevicePtr,
}

impl<'a> OwnMemory<'a> {
    fn new(device: &'a dyn Device, bytes: usize) -> Result<Self> {
        Ok(Self { device, at: device.allocate(bytes as u64)? })
    }
}

impl Drop for OwnMemory<'_> {
    fn drop(&mut self) {
        // SAFETY: allocated by this device; the streams whose work uses it were synchronized when they were dropped.
        unsafe { self.device.free(self.at) };
    }
}

#[cfg(test)]
mod tests;
