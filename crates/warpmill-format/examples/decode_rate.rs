//! Decode and selection rates of the packed encodings on one core, from cache: `cargo run --release --example decode_rate`.
//!
//! Prints billions of values per second, by bit width. The packed data of each width are 16 vectors, which stay in L1 or L2.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int32Array};
use warpmill_format::{Encoding, Segment};

const ROWS: usize = 16 * 1024;
const CHUNK: usize = 2048;

/// The best rate of a few short runs of `pass`, which processes [`ROWS`] values, in G values/s.
fn rate(mut pass: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        (0..40).for_each(|_| pass());
        best = best.min(start.elapsed().as_secs_f64() / 40.0);
    }
    ROWS as f64 / best / 1e9
}

fn chunks() -> impl Iterator<Item = usize> {
    (0..ROWS).step_by(CHUNK)
}

fn main() -> Result<(), warpmill_format::FormatError> {
    println!("G values/s, one core, {ROWS} values, chunks of {CHUNK}");
    println!("width | LaneFor i32  LaneFor i64  GpuFor i32 | select 50%  select 1% | gather 1/8 (G rows/s)");
    for width in [1, 2, 4, 6, 8, 12, 16, 18, 21, 24, 27, 30, 32] {
        let field = |i: usize| (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - width);
        let values: Int32Array = (0..ROWS).map(|i| Some(field(i) as u32 as i32)).collect();
        let array: ArrayRef = Arc::new(values);
        let lane = Segment::encode(&array, None, Some(Encoding::LaneFor))?;
        let gpu = Segment::encode(&array, None, Some(Encoding::GpuFor))?;
        let (mut narrow, mut wide) = ([0i32; CHUNK], [0i64; CHUNK]);
        let mut decode = |segment: &Segment| {
            rate(|| {
                chunks().for_each(|start| {
                    segment.decode_i32(start, &mut narrow);
                    black_box(&narrow);
                })
            })
        };
        let (lane_rate, gpu_rate) = (decode(&lane), decode(&gpu));
        let wide_rate = rate(|| {
            chunks().for_each(|start| {
                lane.decode_i64(start, &mut wide);
                black_box(&wide);
            })
        });
        let mut sorted: Vec<i32> = (0..ROWS).map(|i| field(i) as u32 as i32).collect();
        sorted.sort_unstable();
        let mut rows = Vec::new();
        let mut select = |share: usize| {
            let hi = i128::from(sorted[(ROWS / share).min(ROWS - 1)]) - 1;
            rate(|| {
                chunks().for_each(|start| {
                    rows.clear();
                    lane.select_range(start, CHUNK, i128::MIN, hi, &mut rows);
                    black_box(&rows);
                })
            })
        };
        let (half, few) = (select(2), select(100));
        let picked: Vec<u32> = (0..ROWS as u32).step_by(8).collect();
        let mut gathered = vec![0i32; picked.len()];
        let gather = rate(|| {
            lane.gather_i32(&picked, &mut gathered);
            black_box(&gathered);
        }) / 8.0;
        println!(
            "{width:5} | {lane_rate:11.2} {wide_rate:12.2} {gpu_rate:11.2} | {half:10.2} {few:10.2} | {gather:8.2}"
        );
    }
    Ok(())
}
