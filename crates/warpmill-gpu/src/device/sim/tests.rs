//! Kernels that use the features of the prelude, and defects that the device must detect.

use std::path::PathBuf;
use std::sync::Arc;

use super::super::{BuildOrigin, Device, DeviceError, Function, KernelSource, LaunchShape, Stream};
use super::compiler::Toolchain;
use super::{SimDevice, SimOptions};

/// The parameter struct of all tests: addresses and counts, 8 bytes each.
const PARAMS: &str = "struct Params { u64* in; u64* out; u64 n; };\n";

struct Rig {
    device: SimDevice,
    stream: Stream,
}

impl Rig {
    fn new() -> Self {
        Self::with(SimOptions { memory_bytes: 64 << 20, threads: 3, ..SimOptions::default() })
    }

    fn with(options: SimOptions) -> Self {
        let device = SimDevice::new(options).expect("the host has a C++ compiler");
        let stream = device.stream().unwrap();
        Self { device, stream }
    }

    fn kernel(&self, name: &str, body: &str) -> Function {
        let text = format!("{PARAMS}extern \"C\" __global__ void {name}(const Params p) {{\n{body}\n}}\n");
        let source = KernelSource { text, entries: vec![name.into()] };
        self.device.compile(&source).unwrap_or_else(|error| panic!("{error}")).function(name).unwrap()
    }

    fn upload(&self, values: &[u64]) -> u64 {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let ptr = self.device.allocate(bytes.len().max(1) as u64).unwrap();
        // SAFETY: just allocated.
        unsafe { self.device.copy_to_device(ptr, &bytes, self.stream) }.unwrap();
        ptr
    }

    fn download(&self, ptr: u64, count: usize) -> Vec<u64> {
        let mut bytes = vec![0; count * 8];
        // SAFETY: the tests ask for what they allocated.
        unsafe { self.device.copy_to_host(&mut bytes, ptr, self.stream) }.unwrap();
        self.device.synchronize(self.stream).unwrap();
        bytes.chunks(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap())).collect()
    }

    /// Launches with `{input, output, n}` and waits.
    fn launch(&self, function: &Function, shape: LaunchShape, params: [u64; 3]) -> Result<(), DeviceError> {
        let bytes: Vec<u8> = params.iter().flat_map(|value| value.to_le_bytes()).collect();
        // SAFETY: the tests pass buffers of the sizes that their kernels expect.
        unsafe { self.device.launch(function, shape, &bytes, self.stream) }?;
        self.device.synchronize(self.stream)
    }

    /// Runs `body` on `input` with `outputs` zeroed results.
    fn run(&self, body: &str, shape: LaunchShape, input: &[u64], outputs: usize) -> Vec<u64> {
        let function = self.kernel("kernel", body);
        let (input_ptr, output_ptr) = (self.upload(input), self.upload(&vec![0; outputs]));
        self.launch(&function, shape, [input_ptr, output_ptr, input.len() as u64])
            .unwrap_or_else(|error| panic!("{error}"));
        self.download(output_ptr, outputs)
    }

    /// The defect detected in `body`, run by one block.
    fn defect(&self, threads: u32, body: &str) -> String {
        let function = self.kernel("faulty", body);
        match self.launch(&function, LaunchShape { blocks: 1, threads, shared: 0 }, [0; 3]) {
            Err(DeviceError::KernelDefect { kernel, detail }) if kernel == "faulty" => detail,
            other => panic!("a defect was expected, not {other:?}"),
        }
    }
}

fn shape(blocks: u32, threads: u32) -> LaunchShape {
    LaunchShape { blocks, threads, shared: 0 }
}

const BLOCK_SUM: &str = r"
    __shared__ u64 partial[32];
    u64 sum = 0;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < p.n; i += (u64)gridDim.x * blockDim.x) sum += p.in[i];
    for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if ((threadIdx.x & 31) == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
        for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
        if (threadIdx.x == 0) atomicAdd(p.out, sum);
    }";

#[test]
fn blocks_reduce_with_shuffles_and_shared_memory() {
    let input: Vec<u64> = (0..10_000).map(|i| i * i).collect();
    let expected = input.iter().sum::<u64>();
    for reverse in [false, true] {
        let rig = Rig::with(SimOptions { reverse, ..SimOptions::default() });
        for (blocks, threads) in [(1, 32), (7, 256), (3, 1024)] {
            assert_eq!(rig.run(BLOCK_SUM, shape(blocks, threads), &input, 1), [expected]);
        }
    }
}

#[test]
fn lanes_exit_at_different_times() {
    // Lane i leaves the loop after i rounds; ballots and barriers of the others do not wait for it.
    let body = r"
        for (u32 round = 0; round < threadIdx.x; round++) {
            u32 votes = __ballot_sync(0xffffffffu, 1);
            if (round + 1 == threadIdx.x) p.out[threadIdx.x] = votes;
            if (threadIdx.x >= 32) __syncthreads();
        }";
    let out = Rig::new().run(body, shape(1, 32), &[], 32);
    for (lane, &votes) in out.iter().enumerate().skip(1) {
        assert_eq!(votes, u64::from(u32::MAX << lane), "lane {lane}");
    }
    let body = "if (threadIdx.x % 3 == 1) return; int live = __syncthreads_count(1); p.out[threadIdx.x] = live;";
    let out = Rig::new().run(body, shape(1, 96), &[], 96);
    assert!(out.iter().enumerate().all(|(t, &live)| live == if t % 3 == 1 { 0 } else { 64 }));
}

#[test]
fn warps_loop_while_any_lane_has_work() {
    // Collatz steps: the lanes of a warp finish at different times.
    let body = r"
        u64 i = blockIdx.x * blockDim.x + threadIdx.x, x = p.in[i], steps = 0;
        while (__any_sync(0xffffffffu, x != 1)) {
            if (x != 1) { x = x & 1 ? 3 * x + 1 : x / 2; steps++; }
        }
        p.out[i] = steps;";
    let input: Vec<u64> = (1..=512).collect();
    let expected: Vec<u64> = input
        .iter()
        .map(|&start| {
            std::iter::successors(Some(start), |&x| (x != 1).then(|| if x & 1 == 1 { 3 * x + 1 } else { x / 2 }))
        })
        .map(|path| path.count() as u64 - 1)
        .collect();
    assert_eq!(Rig::new().run(body, shape(4, 128), &input, 512), expected);
}

#[test]
fn blocks_on_several_host_threads_share_atomics() {
    let body = r"
        u64 i = blockIdx.x * blockDim.x + threadIdx.x;
        for (; i < p.n; i += (u64)gridDim.x * blockDim.x) {
            atomicAdd(&p.out[p.in[i] % 7], 1);
            atomicMax(&p.out[7], p.in[i]);
            atomicMin((u32*)&p.out[8], (u32)p.in[i]);
            atomicXor(&p.out[9], p.in[i]);
            atomicAdd((double*)&p.out[10], 0.5);
        }";
    let rig = Rig::new();
    let function = rig.kernel("kernel", body);
    let input: Vec<u64> = (1..50_000).collect();
    let mut start = [0; 11];
    start[8] = u64::from(u32::MAX);
    let (input_ptr, output) = (rig.upload(&input), rig.upload(&start));
    rig.launch(&function, shape(64, 128), [input_ptr, output, input.len() as u64]).unwrap();
    let out = rig.download(output, 11);
    for (bucket, &count) in out[..7].iter().enumerate() {
        assert_eq!(count, input.iter().filter(|&&x| x % 7 == bucket as u64).count() as u64);
    }
    assert_eq!(out[7..10], [49_999, 1, input.iter().fold(0, |a, b| a ^ b)]);
    assert_eq!(f64::from_bits(out[10]), input.len() as f64 / 2.0);
}

#[test]
fn dynamic_shared_memory_is_per_block_and_poisoned() {
    let body = r"
        DYNAMIC_SHARED(u64, values);
        __shared__ u32 still;
        u64 before = values[threadIdx.x];
        u32 poison = still;
        __syncthreads();
        values[threadIdx.x] = blockIdx.x * 1000 + threadIdx.x;
        still = 0;
        __syncthreads();
        u64 other = values[blockDim.x - 1 - threadIdx.x];
        p.out[blockIdx.x * blockDim.x + threadIdx.x] =
            before == 0xa5a5a5a5a5a5a5a5ull && poison == 0xa5a5a5a5u ? other : 99999;";
    let shape = LaunchShape { blocks: 5, threads: 64, shared: 64 * 8 };
    let out = Rig::new().run(body, shape, &[], 5 * 64);
    for (i, &value) in out.iter().enumerate() {
        assert_eq!(value, (i / 64 * 1000 + 63 - i % 64) as u64);
    }
}

#[test]
fn integers_of_128_bits_multiply_and_divide() {
    let body = r"
        i128 product = (i128)(i64)p.in[0] * (i64)p.in[1];
        p.out[0] = (u64)product; p.out[1] = (u64)(product >> 64);
        p.out[2] = (u64)(product / 1000); p.out[3] = __umul64hi(p.in[0], p.in[1]);
        p.out[4] = (u64)((u128)p.in[0] * p.in[1] % 1000003);";
    let (a, b) = (-1_234_567_890_123_456_789_i64, 987_654_321_987_654_321_i64);
    let product = i128::from(a) * i128::from(b);
    let unsigned = u128::from(a as u64) * b as u128;
    let expected = [
        product as u64,
        (product >> 64) as u64,
        (product / 1000) as u64,
        (unsigned >> 64) as u64,
        (unsigned % 1_000_003) as u64,
    ];
    let out = Rig::new().run(body, LaunchShape { blocks: 1, threads: 32, shared: 0 }, &[a as u64, b as u64], 5);
    assert_eq!(out, expected);
}

#[test]
fn collectives_compute_what_cuda_defines() {
    let body = r"
        u32 t = threadIdx.x, all = 0xffffffffu;
        u64* out = p.out + t * 16;
        out[0] = __match_any_sync(all, t % 3);
        out[1] = __reduce_min_sync(all, (int)t - 16);
        out[2] = __reduce_max_sync(all, t) + __reduce_add_sync(all, 2u);
        out[3] = __shfl_up_sync(all, (i64)t, 3, 8);
        out[4] = __shfl_sync(all, t * 1.5, 35);
        out[5] = __all_sync(all, t < 32) + 2 * __all_sync(all, t < 31);
        out[6] = __popc(lane_mask_lt());
        // Two halves of the warp at different collectives.
        out[7] = t < 16 ? __ballot_sync(0xffffu, t & 1) : __shfl_down_sync(0xffff0000u, t, 1);
        int same;
        out[8] = __match_all_sync(all, 5ull, &same);
        out[8] += same;
        out[9] = __syncthreads_or(t == 9) + 2 * __syncthreads_and(t < 5);
        if (t & 1) out[10] = __activemask();
        else __syncwarp(out[10] = __activemask());
        out[11] = __byte_perm(0x33221100u, 0x77665544u, 0x7250u);
        out[12] = __funnelshift_r(0x89abcdefu, 0x01234567u, 8) + ((u64)__brev(1u) << 32);
        out[13] = __clz(1) + __clzll(1) + __ffs(8) + __ffsll(16) + __popcll(255);
        out[14] = (u64)pow(1.0f, 2.0) - 1 + min(3, 4u) + max((i64)-5, 2ll) + (u64)sqrt(49.0f);
        u16 half = 7; atomicCAS(&half, 7, 9); out[15] = half + make_uint4(1, 2, 3, 4).w + sizeof(ulonglong2);";
    let out = Rig::new().run(body, shape(1, 32), &[], 32 * 16);
    for t in 0..32_u64 {
        let same_rest = (0..32).filter(|i| i % 3 == t % 3).fold(0, |mask, i| mask | 1_u64 << i);
        let halves = match t {
            0..16 => 0xaaaa,
            31 => 31,
            _ => t + 1,
        };
        let expected = [
            same_rest,
            -16_i64 as u64,
            31 + 64,
            if t % 8 >= 3 { t - 3 } else { t },
            4,
            1,
            t,
            halves,
            0x1_0000_0000,
            1,
            if t % 2 == 1 { 0xaaaa_aaaa } else { 0x5555_5555 },
            0x7722_5500,
            0x8000_0000_6789_abcd,
            31 + 63 + 4 + 5 + 8,
            3 + 2 + 7,
            9 + 4 + 16,
        ];
        assert_eq!(out[t as usize * 16..][..16], expected, "lane {t}");
    }
}

#[test]
fn spinning_on_another_lane_or_block_ends() {
    // A lock within the warp, then a chain of blocks as in a look-back scan.
    let body = r"
        while (atomicCAS(&p.out[0], 0, 1) != 0) {}
        p.out[1] = p.out[1] + 1;
        __threadfence();
        atomicExch(&p.out[0], 0);
        if (threadIdx.x == 0) {
            while (atomicAdd(&p.out[2], 0) != blockIdx.x) {}
            atomicAdd(&p.out[2], 1);
        }";
    assert_eq!(Rig::new().run(body, shape(20, 64), &[], 3), [0, 20 * 64, 20]);
}

#[test]
fn divergent_barriers_are_named() {
    let rig = Rig::new();
    let detail = rig.defect(64, "if (threadIdx.x < 40)\n__syncthreads();\nelse\n__syncthreads();");
    // Line numbers count from the first line of the kernel text: two lines precede the body.
    assert!(detail.contains("block 0: divergent barrier: thread 40 arrives at __syncthreads (line 6)"), "{detail}");
    assert!(detail.contains("threads 0-39 wait at __syncthreads (line 4)"), "{detail}");
}

#[test]
fn deadlocks_are_named() {
    let rig = Rig::new();
    let detail = rig.defect(64, "if (threadIdx.x < 5) __syncthreads(); else __syncwarp();");
    assert!(detail.contains("deadlock"), "{detail}");
    assert!(detail.contains("threads 0-4 wait at __syncthreads (line 3)"), "{detail}");
    assert!(detail.contains("threads 5-31 wait at __syncwarp (line 3, mask 0xffffffff)"), "{detail}");
    assert!(detail.contains("threads 32-63 have exited"), "{detail}");

    let detail = rig.defect(32, "if (threadIdx.x & 1) __ballot_sync(~0u, 1); else __any_sync(~0u, 1);");
    assert!(detail.contains("thread 1 waits at __ballot_sync"), "{detail}");
    assert!(detail.contains("thread 2 waits at __any_sync"), "{detail}");

    let detail = rig.defect(32, "__syncwarp(2);");
    assert!(
        detail.contains("thread 0 calls __syncwarp (line 3) with mask 0x00000002, which leaves it out"),
        "{detail}"
    );

    let detail = rig.defect(32, "if (threadIdx.x == 7) __trap();");
    assert!(detail.contains("thread 7 calls __trap (line 3)"), "{detail}");

    // The stream is usable again after the error was reported.
    assert_eq!(rig.run(BLOCK_SUM, shape(2, 64), &[1, 2, 3], 1), [6]);
}

#[test]
fn hangs_are_named() {
    let detail =
        Rig::new().defect(32, "__shared__ u64 flag; if (threadIdx.x == 3) while (atomicAdd(&flag, 0) != 1) {}");
    assert!(detail.contains("hang") && detail.contains("thread 3 can run"), "{detail}");

    // A block that waits for a failed one does not hang.
    let rig = Rig::new();
    let function = rig.kernel("faulty", "if (blockIdx.x == 0) __trap(); else while (atomicAdd(p.out, 0) != 1) {}");
    let flag = rig.upload(&[0]);
    let error = rig.launch(&function, shape(3, 32), [0, flag, 0]).unwrap_err();
    assert!(error.to_string().contains("block 0: thread 0 calls __trap"), "{error}");
}

#[test]
fn reverse_order_shows_a_missing_barrier() {
    let body = "__shared__ u64 x; if (threadIdx.x == 0) x = 5; p.out[threadIdx.x] = x;";
    let run = |reverse| Rig::with(SimOptions { reverse, ..SimOptions::default() }).run(body, shape(1, 32), &[], 32);
    assert_eq!(run(false), [5; 32]);
    assert_ne!(run(true), [5; 32]);
}

#[test]
fn launches_of_wrong_shape_are_refused() {
    let rig = Rig::new();
    let function = rig.kernel("kernel", "p.out[0] = 1;");
    let launch = |shape, bytes: usize| {
        // SAFETY: refused before anything runs.
        unsafe { rig.device.launch(&function, shape, &vec![0; bytes], rig.stream) }.unwrap_err().to_string()
    };
    let detail = launch(shape(1, 32), 16);
    assert!(detail.contains("the parameter of kernel kernel has 24 bytes, 16 were given"), "{detail}");
    assert!(launch(shape(1, 33), 24).contains("33 threads"));
    assert!(launch(shape(0, 32), 24).contains("0 blocks"));
    assert!(launch(LaunchShape { blocks: 1, threads: 32, shared: 1 << 20 }, 24).contains("shared memory"));
    assert!(function.module.function("other").is_err());
}

#[test]
fn compile_errors_carry_the_log() {
    let device = SimDevice::new(SimOptions::default()).unwrap();
    let source = KernelSource { text: "\nthis is not C++;".into(), entries: vec![] };
    match device.compile(&source) {
        Err(DeviceError::Compile { log }) => assert!(log.contains("kernel.cu:2"), "{log}"),
        other => panic!("a compile error was expected, not {other:?}"),
    }
}

#[test]
fn modules_come_from_memory_then_disk() {
    let folder = tempfile::tempdir().unwrap();
    let source = KernelSource {
        text:
            "struct P { u64* out; };\nextern \"C\" __global__ void k(const P p) { if (threadIdx.x == 3) *p.out = 42; }"
                .into(),
        entries: vec!["k".into()],
    };
    let device = || {
        let toolchain = Toolchain::new(false, Some(PathBuf::from(folder.path()))).unwrap();
        SimDevice::with_toolchain(SimOptions::default(), Arc::new(toolchain))
    };
    let first = device();
    assert_eq!(first.compile(&source).unwrap().build().origin, BuildOrigin::Compiled);
    assert_eq!(first.compile(&source).unwrap().build().origin, BuildOrigin::Memory);
    let second = device();
    let module = second.compile(&source).unwrap();
    assert_eq!(module.build().origin, BuildOrigin::Disk);
    assert!(module.build().code_bytes > 0);
    let stream = second.stream().unwrap();
    let out = second.allocate(8).unwrap();
    let mut answer = [0; 8];
    // SAFETY: `out` is what the kernel writes.
    unsafe {
        second.launch(&module.function("k").unwrap(), shape(1, 32), &out.to_le_bytes(), stream).unwrap();
        second.copy_to_host(&mut answer, out, stream).unwrap();
    }
    assert_eq!(u64::from_le_bytes(answer), 42);

    for entry in std::fs::read_dir(folder.path().join("sim")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[200] ^= 1;
        // Write a new file, as the old one is mapped by this process.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, bytes).unwrap();
    }
    let build = device().compile(&source).unwrap().build().clone();
    assert_eq!(build.origin, BuildOrigin::Compiled, "a damaged file is as good as none");
}

#[test]
fn memory_is_counted_poisoned_and_checked() {
    let rig = Rig::with(SimOptions { memory_bytes: 1000, ..SimOptions::default() });
    let ptr = rig.device.allocate(600).unwrap();
    assert_eq!(ptr % 256, 0);
    assert_eq!(rig.device.free_memory().unwrap(), 400);
    match rig.device.allocate(401) {
        Err(DeviceError::OutOfMemory { what: "device", requested: 401, available: 400 }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(rig.download(ptr, 2), [0xcdcd_cdcd_cdcd_cdcd; 2]);
    // SAFETY: the device checks ranges; `ptr` is freed once.
    unsafe {
        assert!(rig.device.copy_to_device(ptr + 599, &[1, 2], rig.stream).is_err());
        assert!(rig.device.fill(ptr - 1, 0, 1, rig.stream).is_err());
        rig.device.fill(ptr, 7, 600, rig.stream).unwrap();
        assert!(rig.device.copy_on_device(ptr + 4, ptr, 8, rig.stream).is_err());
        rig.device.copy_on_device(ptr + 8, ptr, 8, rig.stream).unwrap();
        rig.device.free(ptr);
    }
    assert_eq!(rig.device.free_memory().unwrap(), 1000);
    assert_eq!(&rig.device.pinned(5).unwrap()[..], [0; 5]);
}

#[test]
fn two_devices_work_at_once() {
    let input: Vec<u64> = (0..20_000).collect();
    let expected = [input.iter().sum::<u64>()];
    std::thread::scope(|scope| {
        for ordinal in 0..2 {
            let (input, expected) = (&input, &expected);
            scope.spawn(move || {
                let rig = Rig::with(SimOptions { ordinal, threads: 2, ..SimOptions::default() });
                assert_eq!(rig.device.properties().ordinal, ordinal);
                for _ in 0..20 {
                    assert_eq!(&rig.run(BLOCK_SUM, shape(8, 128), input, 1), expected);
                }
            });
        }
    });
}

#[test]
fn events_and_streams_have_lives() {
    let rig = Rig::new();
    let (start, end) = (rig.device.record(rig.stream).unwrap(), rig.device.record(rig.stream).unwrap());
    rig.device.wait(rig.stream, start).unwrap();
    assert!(rig.device.elapsed_ms(start, end).unwrap() >= 0.0);
    rig.device.destroy_event(start);
    assert!(rig.device.elapsed_ms(start, end).is_err());
    rig.device.destroy_stream(rig.stream);
    assert!(rig.device.synchronize(rig.stream).is_err());
}

/// Runs the kernel named by the environment, sanitized; does nothing in an ordinary run.
#[test]
fn sanitized_child() {
    let Ok(body) = std::env::var("WARPMILL_SIM_SANITIZED_KERNEL") else { return };
    let rig = Rig::with(SimOptions { sanitize: true, threads: 2, memory_bytes: 1 << 20, ..SimOptions::default() });
    let shape = LaunchShape { blocks: 4, threads: 128, shared: 1000 };
    assert_eq!(rig.run(&body, shape, &[1, 2, 3], 1), [6]);
}

#[test]
fn sanitizers_run_and_find_defects() {
    let refused = SimDevice::new(SimOptions { sanitize: true, ..SimOptions::default() }).map(drop);
    assert!(matches!(refused, Err(DeviceError::NoCompiler(how)) if how.contains("LD_PRELOAD=")));
    let library = std::process::Command::new("c++").arg("-print-file-name=libasan.so").output().unwrap().stdout;
    let library = String::from_utf8(library).unwrap().trim().to_owned();
    if !library.starts_with('/') {
        eprintln!("skipped: the compiler has no AddressSanitizer");
        return;
    }
    let cases = [
        (BLOCK_SUM.to_owned(), None),
        (format!("{BLOCK_SUM}\np.in[3] = 0;"), Some("heap-buffer-overflow")),
        (format!("DYNAMIC_SHARED(u8, s); s[1000 + blockIdx.x] = 0;\n{BLOCK_SUM}"), Some("heap-buffer-overflow")),
        (format!("__shared__ u32 s[8]; s[8 + blockIdx.x] = 0;\n{BLOCK_SUM}"), Some("out of bounds")),
        (format!("*(u64*)((u8*)p.in + 4) = 0;\n{BLOCK_SUM}"), Some("misaligned address")),
    ];
    for (body, defect) in cases {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "device::sim::tests::sanitized_child", "--nocapture"])
            .env("LD_PRELOAD", &library)
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .env("WARPMILL_SIM_SANITIZED_KERNEL", &body)
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&child.stderr);
        match defect {
            None => assert!(child.status.success(), "{body}\n{log}"),
            Some(defect) => assert!(!child.status.success() && log.contains(defect), "{body}\n{log}"),
        }
    }
}

#[test]
fn kernels_reach_page_locked_memory_of_their_device() {
    let rig = Rig::new();
    let mut memory = rig.device.pinned(64 * 8).unwrap();
    let free = rig.device.free_memory().unwrap();
    memory.as_chunks_mut::<8>().0.iter_mut().zip(0u64..).for_each(|(word, value)| *word = value.to_le_bytes());
    let at = rig.device.mapped(&memory).unwrap();
    let function = rig.kernel("reach", "p.out[threadIdx.x] = p.in[threadIdx.x] * 3; p.in[threadIdx.x] = 7;");
    let output = rig.upload(&[0; 64]);
    rig.launch(&function, shape(1, 64), [at, output, 64]).unwrap();
    assert_eq!(rig.download(output, 64), (0..64).map(|value| value * 3).collect::<Vec<u64>>());
    assert!(memory.as_chunks::<8>().0.iter().all(|word| u64::from_le_bytes(*word) == 7));
    // It is not device memory, so device copies refuse it.
    assert_eq!(rig.device.free_memory().unwrap() + 64 * 8, free);
    // SAFETY: the device refuses the range.
    let refused = unsafe { rig.device.copy_to_device(at, &[0; 8], rig.stream) };
    assert!(refused.unwrap_err().to_string().contains("not allocated"));
    let other = Rig::new();
    assert!(other.device.mapped(&memory).unwrap_err().to_string().contains("not of this device"));
}
