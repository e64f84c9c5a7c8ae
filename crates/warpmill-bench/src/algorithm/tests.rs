//! The algorithms on the simulated device against the standard library.

use std::ops::Range;
use std::sync::Arc;

use warpmill_gpu::device::sim::{SimDevice, SimOptions};
use warpmill_gpu::device::{Device, DevicePtr, Stream};

use super::prefix_sum::PrefixSum;
use super::sort::{Geometry, Key, Options, RadixSort, Rows};
use super::substring::{Strings, SubstringSearch};

/// A device with a stream; dropping the device frees its memory.
struct Fixture {
    device: Arc<dyn Device>,
    stream: Stream,
}

/// Runs `test` with lanes executed first to last and last to first: a missing barrier shows in one of them. With
/// `WARPMILL_SIM_SANITIZE` set, and AddressSanitizer preloaded, accesses out of bounds show too.
fn in_both_orders(test: impl Fn(&Fixture)) {
    for reverse in [false, true] {
        let sanitize = std::env::var_os("WARPMILL_SIM_SANITIZE").is_some();
        let options = SimOptions { reverse, sanitize, ..SimOptions::default() };
        let device: Arc<dyn Device> = Arc::new(SimDevice::new(options).expect("a C++ compiler"));
        let stream = device.stream().unwrap();
        test(&Fixture { device, stream });
    }
}

impl Fixture {
    fn room(&self, bytes: u64) -> DevicePtr {
        self.device.allocate(bytes.max(256)).unwrap()
    }

    fn upload(&self, bytes: &[u8]) -> DevicePtr {
        let ptr = self.room(bytes.len().next_multiple_of(16) as u64);
        unsafe { self.device.copy_to_device(ptr, bytes, self.stream).unwrap() };
        ptr
    }

    fn upload_u32(&self, words: &[u32]) -> DevicePtr {
        self.upload(&words.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>())
    }

    fn upload_u64(&self, words: &[u64]) -> DevicePtr {
        self.upload(&words.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>())
    }

    fn download(&self, ptr: DevicePtr, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        unsafe { self.device.copy_to_host(&mut out, ptr, self.stream).unwrap() };
        self.device.synchronize(self.stream).unwrap();
        out
    }

    fn download_u32(&self, ptr: DevicePtr, n: usize) -> Vec<u32> {
        self.download(ptr, 4 * n).as_chunks().0.iter().map(|&x| u32::from_le_bytes(x)).collect()
    }

    fn download_u64(&self, ptr: DevicePtr, n: usize) -> Vec<u64> {
        self.download(ptr, 8 * n).as_chunks().0.iter().map(|&x| u64::from_le_bytes(x)).collect()
    }
}

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

/// One tile more or less than full, and several.
const SIZES: [usize; 9] = [0, 1, 2, 31, 33, 3071, 3072, 3073, 10_000];

/// A small tile, so that few rows fill several tiles.
const SMALL: Geometry = Geometry { threads: 256, items: 12 };

fn sorted(fixture: &Fixture, sort: &RadixSort, keys: &[u64], wide: bool, bits: Range<u32>) -> (Vec<u64>, Vec<u32>) {
    let n = keys.len();
    let narrow: Vec<u32> = keys.iter().map(|&x| x as u32).collect();
    let keys = if wide { fixture.upload_u64(keys) } else { fixture.upload_u32(&narrow) };
    let values = fixture.upload_u32(&(0..n as u32).collect::<Vec<_>>());
    let scratch = fixture.room(sort.scratch_bytes(n as u64));
    unsafe { sort.sort(fixture.stream, Rows { keys, values }, n as u64, bits, scratch).unwrap() };
    let keys = match wide {
        true => fixture.download_u64(keys, n),
        false => fixture.download_u32(keys, n).into_iter().map(u64::from).collect(),
    };
    (keys, fixture.download_u32(values, n))
}

#[test]
fn any_number_of_rows_is_sorted_stably() {
    in_both_orders(|fixture| {
        for (key, wide, most) in [(Key::U32, false, 1 << 20), (Key::U64, true, 1 << 20), (Key::U32, false, 1 << 31)] {
            let options = Options { geometry: SMALL, ..Options::new(key, true, most) };
            let sort = RadixSort::new(&fixture.device, options).unwrap();
            for n in SIZES {
                let mask = if wide { u64::MAX } else { u64::from(u32::MAX) };
                for mask in [mask, 0x0103, 0] {
                    let keys: Vec<u64> = draws(n, n as u64 + 1).iter().map(|x| x & mask).collect();
                    let mut rows: Vec<(u64, u32)> = keys.iter().copied().zip(0..).collect();
                    rows.sort();
                    let bits = 0..if wide { 64 } else { 32 };
                    let (got_keys, got_rows) = sorted(fixture, &sort, &keys, wide, bits);
                    assert!(got_keys.into_iter().zip(got_rows).eq(rows), "{n} rows, mask {mask:x}");
                }
            }
        }
    });
}

#[test]
fn only_the_named_bits_order_rows() {
    in_both_orders(|fixture| {
        let options = Options { geometry: SMALL, ..Options::new(Key::U32, true, 1 << 20) };
        let sort = RadixSort::new(&fixture.device, options).unwrap();
        for bits in [0..1, 3..14, 4..12, 29..32, 7..7] {
            let keys: Vec<u64> = draws(5000, 3).iter().map(|x| x & 0xFFFF_FFFF).collect();
            let mut rows: Vec<u32> = (0..5000).collect();
            let place = |row: &u32| keys[*row as usize] >> bits.start & ((1 << bits.len()) - 1);
            rows.sort_by_key(place);
            assert_eq!(sorted(fixture, &sort, &keys, false, bits.clone()).1, rows, "bits {bits:?}");
        }
    });
}

#[test]
fn keys_alone_are_sorted_by_the_default_shape() {
    in_both_orders(|fixture| {
        let sort = RadixSort::new(&fixture.device, Options::new(Key::U32, false, 1 << 20)).unwrap();
        let mut keys: Vec<u32> = draws(20_000, 5).iter().map(|&x| x as u32).collect();
        let ptr = fixture.upload_u32(&keys);
        let scratch = fixture.room(sort.scratch_bytes(20_000));
        unsafe { sort.sort(fixture.stream, Rows { keys: ptr, values: 0 }, 20_000, 0..32, scratch).unwrap() };
        keys.sort_unstable();
        assert_eq!(fixture.download_u32(ptr, 20_000), keys);
    });
}

#[test]
fn partitions_begin_where_they_say() {
    in_both_orders(|fixture| {
        let options = Options { geometry: SMALL, ..Options::new(Key::U64, false, 1 << 20) };
        let sort = RadixSort::new(&fixture.device, options).unwrap();
        let keys = draws(9000, 8);
        let (from, to) = (fixture.upload_u64(&keys), fixture.room(8 * 9000));
        let state = fixture.room(sort.state_bytes(9000));
        let rows = |keys| Rows { keys, values: 0 };
        unsafe { sort.partition(fixture.stream, rows(from), rows(to), 9000, 60..64, state).unwrap() };
        let (starts, parted) = (fixture.download_u64(state, 16), fixture.download_u64(to, 9000));
        for part in 0..16 {
            let end = starts.get(part + 1).map_or(9000, |&end| end as usize);
            let expected: Vec<u64> = keys.iter().copied().filter(|key| key >> 60 == part as u64).collect();
            assert_eq!(parted[starts[part] as usize..end], expected);
        }
    });
}

#[test]
fn sums_are_exclusive_and_end_with_the_total() {
    in_both_orders(|fixture| {
        let prefix = PrefixSum::new(&fixture.device).unwrap();
        for n in [0, 1, 4095, 4096, 4097, 50_000] {
            let items: Vec<u32> = draws(n, 4).iter().map(|&x| x as u32).collect();
            let mut expected = vec![0u64];
            items.iter().for_each(|&x| expected.push(expected[expected.len() - 1] + u64::from(x)));
            let (input, out) = (fixture.upload_u32(&items), fixture.room(8 * (n as u64 + 1)));
            let scratch = fixture.room(prefix.scratch_bytes(n as u64));
            unsafe { prefix.run(fixture.stream, input, out, n as u64, scratch).unwrap() };
            assert_eq!(fixture.download_u64(out, n + 1), expected, "{n} items");
        }
    });
}

/// The naive search.
fn contains(mut text: &[u8], pieces: &[&[u8]]) -> bool {
    pieces.iter().all(|piece| match text.windows(piece.len()).position(|window| window == *piece) {
        Some(at) => {
            text = &text[at + piece.len()..];
            true
        }
        None => false,
    })
}

fn search(fixture: &Fixture, search: &SubstringSearch, rows: &[Vec<u8>], pieces: &[&[u8]]) {
    let mut offsets = vec![0u32];
    rows.iter().for_each(|row| offsets.push(offsets[offsets.len() - 1] + row.len() as u32));
    let (bytes, offsets) = (fixture.upload(&rows.concat()), fixture.upload_u32(&offsets));
    let words = rows.len().div_ceil(32);
    let out = fixture.room(4 * words as u64);
    let strings = Strings { bytes, offsets, rows: rows.len() as u64 };
    unsafe { search.search(fixture.stream, strings, pieces, out).unwrap() };
    let bits = fixture.download_u32(out, words);
    for (r, row) in rows.iter().enumerate() {
        let found = bits[r / 32] >> (r % 32) & 1 == 1;
        assert_eq!(found, contains(row, pieces), "row {r} {:?} in {:?}", String::from_utf8_lossy(row), pieces.len());
    }
}

#[test]
fn rows_that_contain_the_pieces_are_found() {
    in_both_orders(|fixture| {
        let substring = SubstringSearch::new(&fixture.device).unwrap();
        // Few letters, so that pieces are frequent, overlap, and span rows.
        let random = |rows: usize, longest: u64, seed: u64| -> Vec<Vec<u8>> {
            let lengths = draws(rows, seed).into_iter().map(|x| (x >> 8) % (longest + 1));
            lengths
                .enumerate()
                .map(|(i, len)| {
                    draws(len as usize, i as u64 + 9).iter().map(|x| b"abc"[(x >> 20) as usize % 3]).collect()
                })
                .collect()
        };
        let pieces: [&[&[u8]]; 7] = [
            &[b"a"],
            &[b"ab", b"ba"],
            &[b"a", b"b"],
            &[b"abcab"],
            &[b"aaa", b"c", b"bb"],
            &[b"a", b"a", b"b", b"abcc"],
            &[b"\xFFz"],
        ];
        for rows in [random(0, 9, 1), random(1, 9, 2), random(700, 40, 3), random(300, 3, 4), random(40, 20_000, 5)] {
            for pieces in pieces {
                search(fixture, &substring, &rows, pieces);
            }
        }
        // One row longer than a block scans at once, with pieces far apart and across the boundary.
        let mut long = vec![b'x'; 70_000];
        long[16_382..16_387].copy_from_slice(b"abcab");
        long[69_999] = b'z';
        search(fixture, &substring, &[vec![], long, b"z".to_vec()], &[b"abcab", b"z"]);
    });
}
