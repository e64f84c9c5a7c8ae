//! Functions of `lane.cuh` and `lane_filter.cuh` at every width, compared with the packed values.

use std::sync::Arc;

use super::{LANE, LANE_FILTER};
use crate::device::kernel::{Kernel, ParamBytes};
use crate::device::sim::{SimDevice, SimOptions};
use crate::device::{Device, DevicePtr, Stream};

mod asof;
mod decompress;
mod expand;
mod functions;
mod parquet;
mod records;
mod strings;
mod window;

const ROWS: usize = 2048;

/// Runs everything at width W on two vectors; `out` has, per vector, 32 range masks, 32 set masks, 32 row masks, and twice all rows by random access.
const CHECK: &str = r#"
struct Check {
    const u32* packed;
    const u32* bitmap;
    u32* out;
    u32 w;
    u32 lo;
    u32 len;
    u32 reference;
    u32 codes;
    u32 rows;
};

template <int W>
__device__ void check(const Check& p) {
    const u32 lane = threadIdx.x % 32;
    for (u32 v = 0; v < 2; v++) {
        const u32* vector = p.packed + v * 32 * W;
        p.out[96 * v + lane] = lane_range_mask<W>(vector, lane, p.lo, p.len);
        p.out[96 * v + 32 + lane] = lane_set_mask<W>(vector, lane, p.bitmap, p.reference, p.codes);
        p.out[96 * v + 64 + lane] = lane_rows_mask(lane, p.rows);
    }
    for (u32 row = lane; row < 2048; row += 32) {
        p.out[192 + row] = lane_at<W>(p.packed, row);
        p.out[192 + 2048 + row] = lane_at(p.packed, p.w, row);
    }
}

template <int W>
__device__ void check_from(const Check& p) {
    if (p.w == W) {
        check<W>(p);
    } else if constexpr (W < 32) {
        check_from<W + 1>(p);
    }
}

extern "C" __global__ void check_lanes(Check p) { check_from<0>(p); }
"#;

struct Fixture {
    device: Arc<dyn Device>,
    stream: Stream,
}

impl Fixture {
    fn upload(&self, words: &[u32]) -> DevicePtr {
        let ptr = self.device.allocate((4 * words.len() as u64).max(256)).unwrap();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        unsafe { self.device.copy_to_device(ptr, &bytes, self.stream).unwrap() };
        ptr
    }

    fn download(&self, ptr: DevicePtr, n: usize) -> Vec<u32> {
        let mut bytes = vec![0; 4 * n];
        unsafe { self.device.copy_to_host(&mut bytes, ptr, self.stream).unwrap() };
        self.device.synchronize(self.stream).unwrap();
        bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect()
    }
}

fn draw(i: usize, seed: u32) -> u32 {
    let x = (i as u32).wrapping_mul(0x9E37_79B9) ^ seed.wrapping_mul(0x85EB_CA6B);
    (x ^ x >> 15).wrapping_mul(0x2C1B_3C6D) ^ x >> 7
}

/// The row of field `j` of lane `l`.
fn row(l: usize, j: usize) -> usize {
    128 * (j / 4) + 4 * l + j % 4
}

/// A vector of fields of `width` bits, packed as specified in docs/format.md, section 5.
fn packed(fields: &[u32], width: u32) -> Vec<u32> {
    let w = width as usize;
    let (mut words, quads) = (vec![0; 32 * w], w / 4);
    let place = |k: usize, l: usize| match k {
        _ if k < 4 * quads => 128 * (k / 4) + 4 * l + k % 4,
        _ if w & 2 != 0 && k < 4 * quads + 2 => 128 * quads + 2 * l + (k - 4 * quads),
        _ => 32 * (w - 1) + l,
    };
    for (l, j) in (0..32).flat_map(|l| (0..32).map(move |j| (l, j))) {
        let (k, shift) = (j * w / 32, j * w % 32);
        let both = u64::from(fields[row(l, j)]) << shift;
        if w > 0 {
            words[place(k, l)] |= both as u32;
        }
        if shift + w > 32 {
            words[place(k + 1, l)] |= (both >> 32) as u32;
        }
    }
    words
}

#[test]
fn masks_and_single_rows_agree_with_the_values_at_every_width() {
    let device: Arc<dyn Device> = Arc::new(SimDevice::new(SimOptions::default()).expect("a C++ compiler"));
    let stream = device.stream().unwrap();
    let fixture = Fixture { device, stream };
    let text = [LANE, LANE_FILTER, CHECK].concat();
    let [kernel] = Kernel::compile(&fixture.device, text, [("check_lanes", 32, 0)]).unwrap();
    let bitmap: Vec<u32> = (0..1 << 11).map(|i| draw(i, 99)).collect();
    let bitmap_ptr = fixture.upload(&bitmap);
    for w in 0..=32u32 {
        let most = if w == 32 { u32::MAX } else { (1 << w) - 1 };
        // Include the extremes.
        let mut values: Vec<u32> = (0..ROWS).map(|i| draw(i, w) & most).collect();
        (values[5], values[1500]) = (0, most);
        let packed = fixture.upload(&values.chunks(1024).flat_map(|vector| packed(vector, w)).collect::<Vec<_>>());
        // Nothing, one value, all but one, all (impossible for 32-bit fields), a part; code counts that end inside a word.
        let all = if w == 32 { u32::MAX } else { most + 1 };
        let part = (most / 3, (most / 2).max(1));
        let cases = [(0, 0, 0, 0), (most, 1, 0, 1), (1.min(most), most, 3, 40), (0, all, 31, 65_536)];
        for (i, (lo, len, reference, codes)) in cases.into_iter().chain([(part.0, part.1, 7, 50_001)]).enumerate() {
            let rows = [0, 1, 130, 1023, 1024][i];
            let out = fixture.upload(&[0; 192 + 2 * ROWS]);
            let params = ParamBytes::new().u64(packed).u64(bitmap_ptr).u64(out).u32(w).u32(lo).u32(len);
            let params = params.u32(reference).u32(codes).u32(rows as u32);
            unsafe { kernel.launch(1, params, stream).unwrap() };
            let out = fixture.download(out, 192 + 2 * ROWS);
            assert_eq!(out[192..192 + ROWS], values, "width {w}, compile-time access");
            assert_eq!(out[192 + ROWS..], values, "width {w}, run-time access");
            for (v, masks) in out[..192].chunks(96).enumerate() {
                for (l, j) in (0..32).flat_map(|l| (0..32).map(move |j| (l, j))) {
                    let value = values[1024 * v + row(l, j)];
                    let bit = |block: usize| masks[32 * block + l] >> j & 1 == 1;
                    let in_range = value >= lo && u64::from(value) < u64::from(lo) + u64::from(len);
                    assert_eq!(bit(0), in_range, "width {w}, {value} in {lo} + {len}");
                    if let Some(code) = value.checked_add(reference) {
                        let in_set = code < codes && bitmap[code as usize / 32] >> (code % 32) & 1 == 1;
                        assert_eq!(bit(1), in_set, "width {w}, code {code} of {codes}");
                    }
                    assert_eq!(bit(2), row(l, j) < rows, "row {} of {rows}", row(l, j));
                }
            }
        }
    }
}
