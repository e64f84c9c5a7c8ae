//! Group records updated by many threads: `best_string.cuh` and `moments.cuh`, compared with a loop on the host.

use std::sync::Arc;

use crate::device::kernel::{Kernel, ParamBytes};
use crate::device::sim::{SimDevice, SimOptions};
use crate::device::{Device, DevicePtr, Stream};
use crate::kernels::library::Library;

/// Each thread processes the rows of its stride, into records in global memory; for group 0 through its own words and its warp.
const CHECK: &str = r#"
struct Check {
    const u8* bytes;
    const u32* strings;     // where each begins and how long it is
    const double* values;
    u64* records;           // [groups][4 + 4 + 3]
    u64* lengths;           // of the best strings of each group: least, greatest
    u32* best;              // their bytes begin here
    u32 rows;
    u32 groups;
};

extern "C" __global__ void take_in(Check p) {
    const u32 lane = threadIdx.x & 31;
    const Keep none = {nullptr, nullptr, 0};
    u64 least = 0, least_length = 0, greatest = 0, greatest_length = 0, shift = 0, sum = 0, squares = 0;
    for (u32 row = blockIdx.x * blockDim.x + threadIdx.x; row < p.rows; row += gridDim.x * blockDim.x) {
        const Str s = {p.bytes + p.strings[2 * row], p.strings[2 * row + 1]};
        const u32 group = row % p.groups;
        u64* const record = p.records + 11 * group;
        if (group == 0) {
            own_string<true>(least, least_length, s);
            own_string<false>(greatest, greatest_length, s);
            add_moments(shift, sum, squares, record + 8, p.values[row]);
        } else {
            best_string<true>(record, s, none);
            best_string<false>(record + 4, s, none);
            add_moments(record + 8, record + 8, p.values[row]);
        }
    }
    best_string_of_warp<true>(p.records, least, least_length, lane, none);
    best_string_of_warp<false>(p.records + 4, greatest, greatest_length, lane, none);
    const double all = warp_sum(bits_double(sum)), all_squares = warp_sum(bits_double(squares));
    if (lane == 0) {
        atomicAdd((double*)(p.records + 9), all);
        atomicAdd((double*)(p.records + 10), all_squares);
    }
}

extern "C" __global__ void give_out(Check p) {
    const u32 group = threadIdx.x;
    if (group >= p.groups) return;
    const u64* const record = p.records + 11 * group;
    for (u32 i = 0; i < 2; i++) {
        p.best[2 * group + i] = (u32)((const u8*)record[4 * i + 1] - p.bytes);
        p.lengths[2 * group + i] = record[4 * i + 2];
    }
    const u64 count = p.rows / p.groups + (group < p.rows % p.groups);
    p.records[11 * group + 8] = double_bits(variance(count, bits_double(record[9]), bits_double(record[10]), true));
}
"#;

struct Fixture {
    device: Arc<dyn Device>,
    stream: Stream,
}

impl Fixture {
    fn upload(&self, bytes: &[u8]) -> DevicePtr {
        // Strings are read in words of 16 bytes.
        let at = self.device.allocate((bytes.len() as u64 + 1).next_multiple_of(16)).unwrap();
        // SAFETY: just allocated, at least as long.
        unsafe { self.device.copy_to_device(at, bytes, self.stream).unwrap() };
        at
    }

    fn download<const N: usize>(&self, from: DevicePtr, count: usize) -> Vec<[u8; N]> {
        let mut bytes = vec![0; N * count];
        // SAFETY: what was uploaded there is as long.
        unsafe { self.device.copy_to_host(&mut bytes, from, self.stream).unwrap() };
        self.device.synchronize(self.stream).unwrap();
        bytes.as_chunks().0.to_vec()
    }
}

/// Strings with a common prefix; some are prefixes of others.
fn strings(rows: usize) -> Vec<String> {
    let tail = |row: usize| row.wrapping_mul(7919) % 1000;
    (0..rows)
        .map(|row| {
            format!(
                "{}{}",
                ["prefix 00000 ", "", "prefix "][row % 3],
                "x".repeat(tail(row) % 9) + &tail(row).to_string()
            )
        })
        .collect()
}

fn check(rows: usize, groups: usize, reverse: bool) {
    let sanitize = std::env::var_os("WARPMILL_SIM_SANITIZE").is_some();
    let options = SimOptions { reverse, sanitize, ..SimOptions::default() };
    let device: Arc<dyn Device> = Arc::new(SimDevice::new(options).expect("a C++ compiler"));
    let stream = device.stream().unwrap();
    let f = Fixture { device, stream };
    let parts = [Library::Value, Library::Compare, Library::Strings, Library::Text, Library::Lane, Library::Aggregate];
    let parts = parts.into_iter().chain([Library::Moments, Library::BestString]);
    let text = parts.map(Library::text).chain([CHECK]).collect::<Vec<_>>().join("\n");
    let [take_in, give_out] = Kernel::compile(&f.device, text, [("take_in", 128, 0), ("give_out", 64, 0)]).unwrap();

    let texts = strings(rows);
    let values: Vec<f64> = (0..rows).map(|row| 1e9 + (row * 31 % 1000) as f64 / 64.0).collect();
    let mut at = 0;
    let places: Vec<u8> = texts
        .iter()
        .flat_map(|text| {
            at += text.len() as u32;
            [at - text.len() as u32, text.len() as u32]
        })
        .flat_map(u32::to_le_bytes)
        .collect();
    let bytes = f.upload(texts.concat().as_bytes());
    let places = f.upload(&places);
    let numbers = f.upload(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>());
    let records = f.upload(&vec![0; 88 * groups]);
    let (lengths, best) = (f.upload(&vec![0; 16 * groups]), f.upload(&vec![0; 8 * groups]));
    let params = || {
        let addresses = [bytes, places, numbers, records, lengths, best];
        addresses.into_iter().fold(ParamBytes::new(), ParamBytes::u64).u32(rows as u32).u32(groups as u32)
    };
    // SAFETY: all arrays are as long as the kernels take them to be.
    unsafe {
        take_in.launch(3, params(), stream).unwrap();
        give_out.launch(1, params(), stream).unwrap();
    }
    let records: Vec<u64> = f.download(records, 11 * groups).into_iter().map(u64::from_le_bytes).collect();
    let lengths: Vec<u64> = f.download(lengths, 2 * groups).into_iter().map(u64::from_le_bytes).collect();
    let best: Vec<u32> = f.download(best, 2 * groups).into_iter().map(u32::from_le_bytes).collect();
    let all = texts.concat();
    for group in 0..groups {
        let own: Vec<usize> = (group..rows).step_by(groups).collect();
        let wanted = [own.iter().map(|&row| &texts[row]).min(), own.iter().map(|&row| &texts[row]).max()];
        for (i, wanted) in wanted.into_iter().enumerate() {
            let (from, length) = (best[2 * group + i] as usize, lengths[2 * group + i] as usize);
            assert_eq!(Some(&all[from..from + length - 1]), wanted.map(String::as_str), "group {group} of {groups}");
        }
        let mean = own.iter().map(|&row| values[row]).sum::<f64>() / own.len() as f64;
        let squares: f64 = own.iter().map(|&row| (values[row] - mean).powi(2)).sum();
        let (found, wanted) = (f64::from_bits(records[11 * group + 8]), squares / (own.len() - 1) as f64);
        assert!((found - wanted).abs() <= 1e-9 * wanted, "group {group}: {found} for {wanted}");
    }
    f.device.destroy_stream(stream);
}

#[test]
fn threads_that_race_agree_with_a_loop() {
    for reverse in [false, true] {
        check(2000, 1, reverse);
        check(3000, 7, reverse);
        check(400, 40, reverse);
    }
}
