//! Scans, numbers and trees of `window.cuh`, compared with loops on the host.

use std::sync::Arc;

use crate::device::kernel::{Kernel, ParamBytes};
use crate::device::sim::{SimDevice, SimOptions};
use crate::device::{Device, DevicePtr, Stream};
use crate::kernels::library::Library;

const CHECK: &str = r#"
struct Check {
    u64* words;             // any numbers
    double* floats;
    u8* heads;
    Long* longs;
    u64* word_totals;
    Since<FloatSum>::T* float_totals;
    Long* long_totals;
    u64* head_totals;
    u32* partitions;
    u32* partition_starts;
    u32* groups;
    u32* group_starts;
    u64* tree;
    const u64* frames;      // [rows][2]
    u64* out;               // [rows][4]: differences of longs, sums since heads, greatest of frames
    u64 rows;
    u64 room;
    u32 levels;
};

extern "C" __global__ void tiles(Check p) {
    scan_series<LongSum>(p.longs, p.long_totals, p.rows);
    __syncthreads();
    scan_partitions<FloatSum>(p.floats, p.heads, p.float_totals, p.rows);
    __syncthreads();
    count_heads(p.heads, p.head_totals, p.rows);
}
extern "C" __global__ void totals(Check p) {
    scan_totals<LongSum>(p.long_totals, p.rows);
    scan_totals<Since<FloatSum>>(p.float_totals, p.rows);
    scan_totals<WordSum>(p.head_totals, p.rows);
}
extern "C" __global__ void numbers(Check p) {
    number_heads<true, true>(p.heads, p.head_totals, {p.partitions, p.partition_starts}, {p.groups, p.group_starts}, p.rows);
}
extern "C" __global__ void level(Check p) {
    // One level after the other.
    const u64* below = p.words;
    u64* own = p.tree;
    u64 count = p.rows, room = p.room;
    for (u32 level = 0; level < p.levels; level++) {
        make_level<Greatest>(below, own, count);
        __syncthreads();
        room = (room + 15) / 16;
        count = (count + 15) / 16;
        below = own;
        own += room;
    }
}
extern "C" __global__ void results(Check p) {
    for (u64 row = threadIdx.x; row < p.rows; row += blockDim.x) {
        const u64 from = p.frames[2 * row], to = p.frames[2 * row + 1];
        const Long sum = long_difference(all_before<LongSum>(p.longs, p.long_totals, to), all_before<LongSum>(p.longs, p.long_totals, from));
        p.out[4 * row] = sum.low;
        p.out[4 * row + 1] = sum.top;
        const u64 start = p.partition_starts[p.partitions[row]];
        p.out[4 * row + 2] = double_bits(since_head<FloatSum>(p.floats, p.float_totals, start, row + 1));
        p.out[4 * row + 3] = sum_of_frame<Greatest>(p.words, p.tree, p.room, p.levels, from, to);
    }
}
"#;

struct Fixture {
    device: Arc<dyn Device>,
    stream: Stream,
}

impl Fixture {
    fn upload(&self, bytes: &[u8]) -> DevicePtr {
        let at = self.device.allocate((bytes.len() as u64).max(16)).unwrap();
        // SAFETY: just allocated, at least as long.
        unsafe { self.device.copy_to_device(at, bytes, self.stream).unwrap() };
        at
    }

    fn words(&self, words: &[u64]) -> DevicePtr {
        self.upload(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())
    }

    fn download<const N: usize>(&self, from: DevicePtr, count: usize) -> Vec<[u8; N]> {
        let mut bytes = vec![0; N * count];
        // SAFETY: what was uploaded there is as long.
        unsafe { self.device.copy_to_host(&mut bytes, from, self.stream).unwrap() };
        self.device.synchronize(self.stream).unwrap();
        bytes.as_chunks().0.to_vec()
    }
}

fn draw(at: usize, seed: u64) -> u64 {
    let x = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed.wrapping_mul(0xd6e8_feb8_6659_fd93);
    (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ x >> 31
}

/// `partitions`: average rows of a partition; `length`: largest length of a frame.
fn check(rows: usize, partitions: u64, length: u64, reverse: bool) {
    let sanitize = std::env::var_os("WARPMILL_SIM_SANITIZE").is_some();
    let options = SimOptions { reverse, sanitize, ..SimOptions::default() };
    let device: Arc<dyn Device> = Arc::new(SimDevice::new(options).expect("a C++ compiler"));
    let stream = device.stream().unwrap();
    let f = Fixture { device, stream };
    let parts = [Library::Value, Library::Lane, Library::Aggregate, Library::Window];
    let text = parts.map(Library::text).into_iter().chain([CHECK]).collect::<Vec<_>>().join("\n");
    let entries = [("tiles", 256, 0), ("totals", 1024, 0), ("numbers", 256, 0), ("level", 256, 0), ("results", 256, 0)];
    let [tiles, totals, numbers, level, results] = Kernel::compile(&f.device, text, entries).unwrap();

    let words: Vec<u64> = (0..rows).map(|row| draw(row, 1)).collect();
    let floats: Vec<f64> = (0..rows).map(|row| (draw(row, 2) % 1000) as f64 / 8.0 - 60.0).collect();
    let longs: Vec<i128> =
        (0..rows).map(|row| (draw(row, 3) as i128 * draw(row, 4) as i128) * 2 - (1 << 126)).collect();
    let head = |row: usize| match (row, draw(row, 5) % partitions, draw(row, 6) % 3) {
        (0, ..) | (_, 0, _) => 3u8,
        (.., 0) => 1,
        _ => 0,
    };
    let heads: Vec<u8> = (0..rows).map(head).collect();
    let frames: Vec<(u64, u64)> = (0..rows)
        .map(|row| {
            let from = draw(row, 7) % (rows as u64 + 1);
            (from, (from + draw(row, 8) % (length + 1)).min(rows as u64))
        })
        .collect();
    let mut levels = 0;
    while 32 * 16u64.pow(levels) < length {
        levels += 1;
    }
    // A larger capacity than there are rows.
    let room = rows as u64 + 77;
    let all_tiles = rows.div_ceil(2048);
    let long_words: Vec<u64> =
        longs.iter().flat_map(|x| [*x as u64, (*x >> 64) as u64, if *x < 0 { u64::MAX } else { 0 }]).collect();
    let zeros = |words: usize| f.words(&vec![0; words]);
    let series = [f.words(&words), f.words(&floats.iter().map(|x| x.to_bits()).collect::<Vec<_>>()), f.upload(&heads)];
    let places = [f.words(&long_words), zeros(all_tiles), zeros(2 * all_tiles), zeros(3 * all_tiles), zeros(all_tiles)];
    let of = [zeros(rows / 2 + 1), zeros(rows / 2 + 1), zeros(rows / 2 + 1), zeros(rows / 2 + 1)];
    let bounds: Vec<u64> = frames.iter().flat_map(|&(from, to)| [from, to]).collect();
    let rest = [zeros(room as usize / 15 + 10), f.words(&bounds), zeros(4 * rows)];
    let params = || {
        let addresses = series.into_iter().chain(places).chain(of).chain(rest);
        addresses.fold(ParamBytes::new(), ParamBytes::u64).u64(rows as u64).u64(room).u32(levels)
    };
    // SAFETY: all arrays are as long as the kernels take them to be.
    unsafe {
        tiles.launch(all_tiles as u64 + 1, params(), stream).unwrap();
        totals.launch(1, params(), stream).unwrap();
        numbers.launch(all_tiles as u64 + 1, params(), stream).unwrap();
        level.launch(1, params(), stream).unwrap();
        results.launch(1, params(), stream).unwrap();
    }
    let out: Vec<[u64; 4]> =
        f.download::<32>(rest[2], rows).iter().map(|row| std::array::from_fn(|i| word(row, i))).collect();
    let numbers = |at: DevicePtr, count: usize| f.download::<4>(at, count).into_iter().map(u32::from_le_bytes);
    let (partition, group): (Vec<u32>, Vec<u32>) = (numbers(of[0], rows).collect(), numbers(of[2], rows).collect());
    let starts = |flag: u8| -> Vec<u32> {
        let heads = heads.iter().enumerate().filter(|(_, head)| **head & flag != 0).map(|(row, _)| row as u32);
        heads.chain([rows as u32]).collect()
    };
    assert_eq!(numbers(of[1], starts(2).len()).collect::<Vec<_>>(), starts(2));
    assert_eq!(numbers(of[3], starts(1).len()).collect::<Vec<_>>(), starts(1));
    let (mut partitions, mut groups, mut sum) = (0, 0, 0.0);
    for row in 0..rows {
        partitions += u32::from(heads[row] & 2 != 0);
        groups += u32::from(heads[row] & 1 != 0);
        assert_eq!((partition[row] + 1, group[row] + 1), (partitions, groups), "row {row} of {rows}");
        sum = if heads[row] & 2 != 0 { floats[row] } else { sum + floats[row] };
        assert_eq!(f64::from_bits(out[row][2]), sum, "row {row} of {rows}");
        let (from, to) = (frames[row].0 as usize, frames[row].1 as usize);
        assert_eq!(out[row][3], words[from..to].iter().copied().max().unwrap_or(0), "frame {from}..{to}");
        // Modulo 2^64, and the bits above 2^128.
        let low = longs[from..to].iter().fold(0u64, |sum, x| sum.wrapping_add(*x as u64));
        assert_eq!(out[row][0], low, "frame {from}..{to}");
        let high = longs[from..to].iter().fold((0u128, 0i64), |(low, top), x| {
            let (sum, carry) = low.overflowing_add(*x as u128);
            (sum, top + i64::from(carry) - i64::from(*x < 0))
        });
        assert_eq!(out[row][1] as i64, high.1, "frame {from}..{to}");
    }
    f.device.destroy_stream(stream);
}

fn word(bytes: &[u8; 32], at: usize) -> u64 {
    bytes.as_chunks().0.get(at).map_or(0, |word| u64::from_le_bytes(*word))
}

#[test]
fn sums_and_numbers_agree_with_loops() {
    for rows in [1, 31, 32, 257, 2047, 2048, 2049] {
        check(rows, 5, 40, false);
    }
    check(9000, 9, 9000, false);
    check(9000, 3000, 300, true);
    check(5000, 1, 5000, true);
    check(5000, u64::MAX, 7, false);
}

#[test]
fn totals_of_many_tiles_are_scanned() {
    let device: Arc<dyn Device> = Arc::new(SimDevice::new(SimOptions::default()).expect("a C++ compiler"));
    let stream = device.stream().unwrap();
    let f = Fixture { device, stream };
    let check = r#"
struct Totals { u64* totals; u64 rows; };
extern "C" __global__ void totals(Totals p) { scan_totals<WordSum>(p.totals, p.rows); }
"#;
    let parts = [Library::Value, Library::Lane, Library::Aggregate, Library::Window];
    let text = parts.map(Library::text).into_iter().chain([check]).collect::<Vec<_>>().join("\n");
    let [totals] = Kernel::compile(&f.device, text, [("totals", 1024, 0)]).unwrap();
    for tiles in [1, 1023, 1024, 1025, 5000] {
        let own: Vec<u64> = (0..tiles).map(|tile| draw(tile, 9)).collect();
        let at = f.words(&own);
        // SAFETY: there are as many totals as tiles.
        unsafe { totals.launch(1, ParamBytes::new().u64(at).u64(2048 * tiles as u64 - 5), stream).unwrap() };
        let found: Vec<u64> = f.download::<8>(at, tiles).into_iter().map(u64::from_le_bytes).collect();
        let before = own.iter().scan(0u64, |sum, own| Some(std::mem::replace(sum, sum.wrapping_add(*own))));
        assert_eq!(found, before.collect::<Vec<_>>());
    }
    f.device.destroy_stream(stream);
}
