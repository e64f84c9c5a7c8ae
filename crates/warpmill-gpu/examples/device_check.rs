//! Checks that the engine works on a GPU, and measures the GPU: `device_check [ordinal] [--fault]`.
//!
//! Every value returned by the device is compared; the first difference ends the program with an error. `--fault` makes a kernel read an invalid
//! address at the end, to check that the device is reported as lost.

use std::sync::Arc;
use std::time::Instant;

use warpmill_gpu::device::cuda::{CudaDevice, nvrtc};
use warpmill_gpu::device::{
    BuildOrigin, Device, DeviceError, DevicePtr, Function, KernelSource, LaunchShape, Result, Stream,
};

const MIB: usize = 1 << 20;
/// Bytes of dynamic shared memory that need permission.
const LARGE_SHARED: u32 = 96 << 10;

const SOURCE: &str = r#"
struct Params { const u32* values; u64 count; u64* sum; };

extern "C" __global__ void empty(Params) {}

extern "C" __global__ void sum(Params p) {
    DYNAMIC_SHARED(u64, partial);
    const uint4* values = reinterpret_cast<const uint4*>(p.values);
    const u64 quads = p.count / 4;
    u64 mine = 0;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < quads; i += (u64)gridDim.x * blockDim.x) {
        const uint4 quad = values[i];
        mine += (u64)quad.x + quad.y + quad.z + quad.w;
    }
    partial[threadIdx.x] = mine;
    __syncthreads();
    if (lane_mask_lt() != 0) return;
    for (u32 i = 1; i < 32; i++) mine += partial[threadIdx.x + i];
    atomicAdd(p.sum, mine);
}
"#;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ordinal = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(0);
    if let Err(error) = check(ordinal, arguments.iter().any(|argument| argument == "--fault")) {
        eprintln!("device_check: {error}");
        std::process::exit(1);
    }
}

fn check(ordinal: usize, fault: bool) -> Result<()> {
    let nvrtc = nvrtc::available()?;
    println!("nvrtc {nvrtc} at {:?}, for {:?}", nvrtc.path, nvrtc::supported_archs()?);
    println!("devices {}", CudaDevice::count()?);
    let start = Instant::now();
    let device = CudaDevice::open(ordinal)?;
    println!("opened in {:.1} ms: {:#?}", ms(start), device.properties());
    println!("free memory {:.2} GiB", device.free_memory()? as f64 / (1u64 << 30) as f64);
    let stream = device.stream()?;
    compile(&device)?;
    round_trips(&*device, stream)?;
    sums(&*device, stream)?;
    errors(&*device, stream)?;
    launches(&*device, stream)?;
    bandwidths(&*device, stream)?;
    if fault {
        lose(&*device, stream)?;
    }
    device.destroy_stream(stream);
    println!("ok");
    Ok(())
}

fn ms(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn source() -> KernelSource {
    KernelSource { text: SOURCE.into(), entries: vec!["empty".into(), "sum".into()] }
}

/// The bytes of `Params`.
fn params(values: DevicePtr, count: u64, sum: DevicePtr) -> Vec<u8> {
    [values, count, sum].iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Threads that request a source concurrently get one module; later ones find it in memory, or, in another process, on disk.
fn compile(device: &Arc<CudaDevice>) -> Result<()> {
    let modules = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| device.compile(&source()))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Result<Vec<_>>>()
    })?;
    let made = modules.iter().filter(|module| module.build().origin != BuildOrigin::Memory).count();
    assert_eq!(made, 1, "modules compiled or read from disk");
    for module in &modules {
        println!("module: {:?}", module.build());
    }
    let other = KernelSource { text: format!("{SOURCE}// {:?}", Instant::now()), ..source() };
    println!("new source: {:?}", device.compile(&other)?.build());
    println!("again: {:?}", device.compile(&other)?.build());
    let reopened = CudaDevice::open(device.properties().ordinal)?;
    println!("another device object: {:?}", reopened.compile(&other)?.build());
    Ok(())
}

fn function(device: &dyn Device, name: &str) -> Result<Function> {
    device.compile(&source())?.function(name)
}

/// Bytes that differ from their neighbours and from those of other seeds.
fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3] ^ seed).collect()
}

/// Copies of all kinds, at odd lengths and addresses.
fn round_trips(device: &dyn Device, stream: Stream) -> Result<()> {
    let room = 40 * MIB;
    let base = device.allocate(room as u64)?;
    for (seed, length) in [0, 1, 13, 4096, MIB - 1, MIB, 4 * MIB, 33 * MIB + 13].into_iter().enumerate() {
        let at = base + seed as u64;
        let sent = pattern(length, seed as u8);
        let mut back = vec![0; length];
        // SAFETY: within the allocation; `back` lives until the stream is synchronized.
        unsafe {
            let mut source = sent.clone();
            device.copy_to_device(at, &source, stream)?;
            source.fill(0xEE); // pageable memory was read
            device.copy_to_host(&mut back, at, stream)?;
        }
        device.synchronize(stream)?;
        assert!(sent == back, "pageable round trip of {length} bytes");

        let mut pinned = device.pinned(length)?;
        assert!(pinned.iter().all(|&byte| byte == 0), "pinned memory is zeroed");
        pinned.copy_from_slice(&sent);
        let mut pinned_back = device.pinned(length)?;
        // SAFETY: as above.
        unsafe {
            device.fill(at, 0xA5, length as u64, stream)?;
            device.copy_to_device(at, &pinned, stream)?;
            device.copy_to_host(&mut pinned_back, at, stream)?;
        }
        device.synchronize(stream)?;
        assert!(pinned_back[..] == sent[..], "pinned round trip of {length} bytes");
    }
    fills(device, base, stream)?;
    // SAFETY: all work on it is done.
    unsafe { device.free(base) };
    println!("round trips ok");
    Ok(())
}

/// Checks that fills write their range only; checks copies on the device.
fn fills(device: &dyn Device, base: DevicePtr, stream: Stream) -> Result<()> {
    for (offset, length) in [(0u64, 64u64), (1, 64), (4, 7), (8, 3), (3, 1), (0, 0), (12, 1001)] {
        let mut back = vec![0; 2048];
        // SAFETY: within the allocation; `back` lives until the stream is synchronized.
        unsafe {
            device.fill(base, 0x11, 2048, stream)?;
            device.fill(base + 16 + offset, 0xA5, length, stream)?;
            device.copy_on_device(base + 4096, base, 2048, stream)?;
            device.copy_to_host(&mut back, base + 4096, stream)?;
        }
        device.synchronize(stream)?;
        let filled = (16 + offset) as usize..(16 + offset + length) as usize;
        for (i, &byte) in back.iter().enumerate() {
            assert_eq!(byte, if filled.contains(&i) { 0xA5 } else { 0x11 }, "fill {offset} {length} at {i}");
        }
    }
    Ok(())
}

/// Runs a kernel with little and with much shared memory; a second stream waits for the first.
fn sums(device: &dyn Device, stream: Stream) -> Result<()> {
    let count = 10 * MIB;
    let values = device.allocate(4 * count as u64)?;
    let sum = device.allocate(8)?;
    let sum_kernel = function(device, "sum")?;
    println!(
        "sum: {} registers, {} B shared, {} B local",
        sum_kernel.registers, sum_kernel.static_shared, sum_kernel.local
    );
    let bytes = pattern(4 * count, 1);
    let expected: u64 = bytes.chunks_exact(4).map(|word| u64::from(u32::from_le_bytes(word.try_into().unwrap()))).sum();
    let second = device.stream()?;
    for (threads, shared) in [(256, 256 * 8), (512, LARGE_SHARED), (32, LARGE_SHARED)] {
        let occupancy = device.occupancy(&sum_kernel, threads, shared)?;
        assert_eq!(occupancy, device.occupancy(&sum_kernel, threads, shared)?);
        let shape = LaunchShape { blocks: occupancy * device.properties().multiprocessors, threads, shared };
        let mut back = [0; 8];
        // SAFETY: within the allocations; the parameter is `Params`.
        unsafe {
            device.copy_to_device(values, &bytes, stream)?;
            device.fill(sum, 0, 8, stream)?;
            device.launch(&sum_kernel, shape, &params(values, count as u64, sum), stream)?;
            let done = device.record(stream)?;
            device.wait(second, done)?;
            device.copy_to_host(&mut back, sum, second)?;
            device.synchronize(second)?;
            device.destroy_event(done);
        }
        assert_eq!(u64::from_le_bytes(back), expected, "{shape:?}");
        println!("sum ok: {threads} threads, {shared} B dynamic shared, {occupancy} blocks per multiprocessor");
    }
    device.destroy_stream(second);
    // SAFETY: all work on them is done.
    unsafe {
        device.free(values);
        device.free(sum);
    }
    Ok(())
}

/// Makes calls that must fail and leave the device usable.
fn errors(device: &dyn Device, stream: Stream) -> Result<()> {
    let sum = function(device, "sum")?;
    let shape = LaunchShape { blocks: 1, threads: 32, shared: 0 };
    // SAFETY: nothing is launched.
    let outcomes = unsafe {
        [
            ("too large an allocation", device.allocate(1 << 50).map(drop)),
            ("a short parameter", device.launch(&sum, shape, &[0; 8], stream)),
            ("part of a warp", device.launch(&sum, LaunchShape { threads: 33, ..shape }, &[0; 24], stream)),
            ("too much shared memory", device.launch(&sum, LaunchShape { shared: 1 << 20, ..shape }, &[0; 24], stream)),
            ("too many threads", device.launch(&sum, LaunchShape { threads: 4096, ..shape }, &[0; 24], stream)),
            ("an unknown entry point", function(device, "missing").map(drop)),
            ("a wrong kernel", device.compile(&KernelSource { text: "x".into(), entries: vec![] }).map(drop)),
        ]
    };
    for (what, outcome) in outcomes {
        println!("{what}: {}", outcome.expect_err(what));
    }
    device.synchronize(stream)
}

fn launches(device: &dyn Device, stream: Stream) -> Result<()> {
    let empty = function(device, "empty")?;
    let shape = LaunchShape { blocks: 1, threads: 32, shared: 0 };
    let bytes = params(0, 0, 0);
    for (what, rounds, synchronize) in [("launch", 10_000, false), ("launch and synchronize", 2_000, true)] {
        for round in 0..=1 {
            let start = Instant::now();
            for _ in 0..rounds {
                // SAFETY: the kernel reads nothing.
                unsafe { device.launch(&empty, shape, &bytes, stream)? };
                if synchronize {
                    device.synchronize(stream)?;
                }
            }
            device.synchronize(stream)?;
            if round == 1 {
                println!("{what}: {:.2} us", ms(start) * 1e3 / f64::from(rounds));
            }
        }
    }
    Ok(())
}

/// The median rate of `work`, which moves `bytes` bytes, by the device's clock and by the host's.
fn rate(
    device: &dyn Device,
    stream: Stream,
    what: &str,
    bytes: usize,
    mut work: impl FnMut() -> Result<()>,
) -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..8 {
        let wall = Instant::now();
        let start = device.record(stream)?;
        work()?;
        let end = device.record(stream)?;
        device.synchronize(stream)?;
        times.push((device.elapsed_ms(start, end)?, ms(wall)));
        device.destroy_event(start);
        device.destroy_event(end);
    }
    times.remove(0);
    times.sort_by(|left, right| left.1.total_cmp(&right.1));
    let (events, wall) = times[times.len() / 2];
    let gigabytes = bytes as f64 / 1e6;
    println!("{what}: {:.1} GB/s by events, {:.1} GB/s by wall time", gigabytes / f64::from(events), gigabytes / wall);
    Ok(())
}

fn bandwidths(device: &dyn Device, stream: Stream) -> Result<()> {
    let length = 256 * MIB;
    let large = 4096 * MIB;
    let memory = device.allocate(large as u64)?;
    let sum = device.allocate(8)?;
    let mut pinned = device.pinned(length)?;
    let mut pageable = vec![1u8; length];
    // SAFETY (all below): within the allocations; buffers live until `rate` has synchronized.
    unsafe {
        device.fill(memory, 1, large as u64, stream)?;
        rate(device, stream, "pinned to device", length, || device.copy_to_device(memory, &pinned, stream))?;
        rate(device, stream, "device to pinned", length, || device.copy_to_host(&mut pinned, memory, stream))?;
        rate(device, stream, "pageable to device", length, || device.copy_to_device(memory, &pageable, stream))?;
        rate(device, stream, "device to pageable", length, || device.copy_to_host(&mut pageable, memory, stream))?;
        let half = (large / 2) as u64;
        rate(device, stream, "on the device (read and written)", large, || {
            device.copy_on_device(memory + half, memory, half, stream)
        })?;
        rate(device, stream, "fill", large, || device.fill(memory, 1, large as u64, stream))?;
        let kernel = function(device, "sum")?;
        let (threads, shared) = (256, 256 * 8);
        let blocks = device.occupancy(&kernel, threads, shared)? * device.properties().multiprocessors;
        let bytes = params(memory, large as u64 / 4, sum);
        rate(device, stream, "summing kernel", large, || {
            device.launch(&kernel, LaunchShape { blocks, threads, shared }, &bytes, stream)
        })?;
        device.free(memory);
        device.free(sum);
    }
    Ok(())
}

/// Reads an invalid address, and checks the report.
fn lose(device: &dyn Device, stream: Stream) -> Result<()> {
    let sum = function(device, "sum")?;
    let shape = LaunchShape { blocks: 1, threads: 32, shared: 256 };
    // SAFETY: none: the address is invalid. The device refuses the access and ends the context.
    let launched = unsafe { device.launch(&sum, shape, &params(16, 1 << 20, 16), stream) };
    for outcome in [launched.and_then(|()| device.synchronize(stream)), device.allocate(1).map(drop)] {
        match outcome {
            Err(DeviceError::Lost { what, detail }) => println!("lost in {what}: {detail}"),
            other => panic!("the device should be lost: {other:?}"),
        }
    }
    Ok(())
}
