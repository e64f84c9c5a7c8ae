//! Radix select on the simulated device, with lanes executed first to last and last to first, against sorting.

use std::sync::Arc;

use super::*;
use crate::device::cuda::nvrtc;
use crate::device::sim::{SimDevice, SimOptions};
use crate::device::{Device, KernelSource, LaunchShape};

const THREADS: u32 = 256;

fn draws(n: usize, seed: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    };
    (0..n).map(|_| next()).collect()
}

fn top(limit: u64, enough: u64, bits: u32) -> Top {
    let order =
        FlatColumn { buffer: "order".into(), ty: CType::U64, storage: Storage::Whole(CType::U64), nullable: false };
    let rows = RowsLayout::default();
    Top { limit, enough, order, bits, rows, owner: "test".into() }
}

fn kernel(g: &Generator) -> KernelSource {
    let text = format!(
        "{}\n{}extern \"C\" __global__ void __launch_bounds__({THREADS}) find(const Params p) {{\n{}}}\n",
        g.params.library_text(),
        g.params.definition("Params"),
        g.code.text()
    );
    KernelSource { text, entries: vec!["find".into()] }
}

/// The threshold that the device finds among `words`.
fn threshold(device: &Arc<dyn Device>, words: &[u64], top: &Top) -> u64 {
    let stream = device.stream().unwrap();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let order = device.allocate(bytes.len().max(8) as u64).unwrap();
    let selection = device.allocate(SELECTION_BYTES).unwrap();
    let mut found = [0; 8];
    // SAFETY: both arrays are as long as what is copied and what the kernel touches.
    unsafe {
        device.copy_to_device(order, &bytes, stream).unwrap();
        device.fill(selection, 0, SELECTION_BYTES, stream).unwrap();
        for digit in top.digits() {
            let mut g = Generator::new();
            select(&mut g, top, &digit, &format!("{}ull", words.len()));
            let source = kernel(&g);
            let function = device.compile(&source).unwrap().function("find").unwrap();
            let image = g.params.image(|member| match &member.binding {
                Binding::Bytes(bytes) => bytes.clone(),
                Binding::Named(name) if *name == top.selection() => selection.to_le_bytes().to_vec(),
                Binding::Named(_) => order.to_le_bytes().to_vec(),
                other => panic!("{other:?}"),
            });
            let shape = LaunchShape { blocks: 3, threads: THREADS, shared: 0 };
            device.launch(&function, shape, &image, stream).unwrap();
        }
        device.copy_to_host(&mut found, selection, stream).unwrap();
        device.synchronize(stream).unwrap();
        device.free(order);
        device.free(selection);
    }
    device.destroy_stream(stream);
    u64::from_le_bytes(found)
}

fn check(words: &[u64], bits: u32) {
    let mut sorted = words.to_vec();
    sorted.sort_unstable();
    for reverse in [false, true] {
        let sanitize = std::env::var_os("WARPMILL_SIM_SANITIZE").is_some();
        let options = SimOptions { reverse, sanitize, ..SimOptions::default() };
        let device: Arc<dyn Device> = Arc::new(SimDevice::new(options).expect("a C++ compiler"));
        let limits = [1, 2, 100, 1000, 4999, 5000, 5001].into_iter();
        for (limit, enough) in limits.flat_map(|limit| [(limit, 0), (limit, limit + 300)]) {
            let found = threshold(&device, words, &top(limit, enough, bits));
            let wanted = sorted.partition_point(|&word| word <= found) as u64;
            let Some(&least) = sorted.get(limit as usize - 1) else {
                assert_eq!(found, u64::MAX, "{bits} bits, {limit} of {}", words.len());
                continue;
            };
            let ties = sorted.partition_point(|&word| word <= least) as u64;
            assert!(found >= least, "{bits} bits, {limit} of {}: {found:x} for {least:x}", words.len());
            assert!(wanted <= ties.max(enough), "{bits} bits, {limit} of {}: {wanted} rows", words.len());
        }
    }
}

#[test]
fn the_threshold_is_the_word_of_the_last_rank() {
    let random = draws(5000, 3);
    check(&random, 64);
    // Only lower bits differ: all digits are looked at.
    check(&random.iter().map(|word| word >> 50 | 0x1234_5678 << 32).collect::<Vec<_>>(), 64);
    check(&random.iter().map(|word| word >> 41).collect::<Vec<_>>(), 64);
    check(&random.iter().map(|word| word >> 33 << 33).collect::<Vec<_>>(), 31);
    check(&random.iter().map(|word| word >> 62 << 62).collect::<Vec<_>>(), 2);
    check(&[u64::MAX; 5000], 64);
    check(&[0; 300], 1);
    check(&[], 64);
}

#[test]
fn it_is_cuda_too() {
    if nvrtc::available().is_err() {
        return;
    }
    let mut g = Generator::new();
    let top = top(1, 0, 64);
    select(&mut g, &top, &top.digits()[0], "5ull");
    nvrtc::compile_cubin(&kernel(&g), "sm_90").unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn digits_cover_the_bits_that_differ() {
    let shifts = |bits| top(1, 0, bits).digits().iter().map(|digit| (digit.shift, digit.bits)).collect::<Vec<_>>();
    assert_eq!(shifts(1), [(53, 11)]);
    assert_eq!(shifts(12), [(53, 11), (42, 11)]);
    assert_eq!(shifts(64), [(53, 11), (42, 11), (31, 11), (20, 11), (9, 11), (0, 9)]);
}
