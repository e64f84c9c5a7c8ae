//! Measures the speed of reading columns through codecs, for `warpmill bench scan`.

use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::DataType;
use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};
use rayon::slice::ParallelSlice;
use warpmill_format::{FormatError, Result, Segment, StrView, TableSnapshot, VECTOR_ROWS};

/// Rows that one task decodes: a morsel of the CPU back end.
const TASK_ROWS: usize = 64 * VECTOR_ROWS;

/// Bytes that one task reads of plain memory.
const TASK_BYTES: usize = 1 << 20;

/// The measurements of one column.
#[derive(Debug, Clone)]
pub struct ScanTimes {
    /// Seconds of each run that read as many bytes of memory as the column has uncompressed.
    pub plain: Vec<f64>,
    /// Seconds of each run over the column, by snapshot: decompressed, decoded, summed.
    pub scans: Vec<Vec<f64>>,
}

/// Reads column `column` of tables with the same rows, stored differently: `runs` rounds over the tables in turn, after a warm-up round. `threads`
/// threads read (0: all cores).
///
/// # Errors
/// Damaged files; [`FormatError::Catalog`] if two tables have different values.
pub fn scan(snapshots: &[Arc<TableSnapshot>], column: usize, runs: usize, threads: usize) -> Result<ScanTimes> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|e| FormatError::Catalog(format!("cannot start {threads} threads: {e}")))?;
    let bytes = snapshots.first().map_or(0, |snapshot| snapshot.column_stats(column).plain_bytes) as usize;
    let plain: Vec<u64> = (0..bytes.div_ceil(8) as u64).collect();
    let mut times = ScanTimes { plain: vec![], scans: vec![vec![]; snapshots.len()] };
    let mut sums = vec![];
    for run in 0..=runs {
        let start = Instant::now();
        let sum = pool.install(|| plain.par_chunks(TASK_BYTES / 8).map(add).reduce(|| 0, u64::wrapping_add));
        std::hint::black_box(sum);
        let seconds = start.elapsed().as_secs_f64();
        if run > 0 {
            times.plain.push(seconds);
        }
        for (snapshot, times) in snapshots.iter().zip(&mut times.scans) {
            let start = Instant::now();
            let sum = pool.install(|| column_sum(snapshot, column))?;
            let seconds = start.elapsed().as_secs_f64();
            match run {
                0 => sums.push(sum),
                _ => times.push(seconds),
            }
        }
    }
    if sums.windows(2).any(|pair| pair[0] != pair[1]) {
        let name = snapshots[0].schema().field(column).name().clone();
        return Err(FormatError::Catalog(format!("column {name:?} has other values through one codec than another")));
    }
    Ok(times)
}

fn add(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

/// A checksum of a column's values, decoded vector by vector.
fn column_sum(snapshot: &TableSnapshot, column: usize) -> Result<u64> {
    let data_type = snapshot.schema().field(column).data_type();
    let segments: Vec<usize> = (0..snapshot.num_segments()).collect();
    let sums = segments.par_iter().map(|&number| {
        let segment = snapshot.segment(number, column)?;
        let tasks = (0..segment.rows().div_ceil(TASK_ROWS)).into_par_iter();
        let sum = tasks.map(|task| {
            let start = task * TASK_ROWS;
            range_sum(&segment, data_type, start, (segment.rows() - start).min(TASK_ROWS))
        });
        Ok(sum.reduce(|| 0, u64::wrapping_add))
    });
    sums.try_reduce(|| 0, |a, b| Ok(a.wrapping_add(b)))
}

fn range_sum(segment: &Segment, data_type: &DataType, start: usize, rows: usize) -> u64 {
    let mut sum = 0u64;
    let each = |at: usize, n: usize, sum: &mut u64| {
        let fits = |bits: u32| {
            segment.stats().int_range().is_none_or(|(lo, hi)| lo >= -(1 << (bits - 1)) && hi < 1 << (bits - 1))
        };
        match data_type {
            DataType::Float32 => {
                let mut out = [0f32; VECTOR_ROWS];
                segment.decode_f32(at, &mut out[..n]);
                out[..n].iter().for_each(|x| *sum = sum.wrapping_add(x.to_bits().into()));
            }
            DataType::Float64 => {
                let mut out = [0f64; VECTOR_ROWS];
                segment.decode_f64(at, &mut out[..n]);
                out[..n].iter().for_each(|x| *sum = sum.wrapping_add(x.to_bits()));
            }
            _ if segment.is_dictionary() => {
                let mut out = [0u32; VECTOR_ROWS];
                segment.decode_codes(at, &mut out[..n]);
                out[..n].iter().for_each(|x| *sum = sum.wrapping_add((*x).into()));
            }
            DataType::Utf8 => {
                let mut out = [StrView::default(); VECTOR_ROWS];
                let mut text = Vec::new();
                segment.decode_str(at, &mut text, &mut out[..n]);
                let text = |view: &StrView| view.as_bytes().iter().fold(0u32, |a, b| a.wrapping_add((*b).into()));
                out[..n].iter().for_each(|view| *sum = sum.wrapping_add(text(view).into()));
            }
            _ if fits(32) => {
                let mut out = [0i32; VECTOR_ROWS];
                segment.decode_i32(at, &mut out[..n]);
                out[..n].iter().for_each(|x| *sum = sum.wrapping_add(*x as u64));
            }
            _ if fits(64) => {
                let mut out = [0i64; VECTOR_ROWS];
                segment.decode_i64(at, &mut out[..n]);
                out[..n].iter().for_each(|x| *sum = sum.wrapping_add(*x as u64));
            }
            _ => {
                let mut out = [0i128; VECTOR_ROWS];
                segment.decode_i128(at, &mut out[..n]);
                out[..n].iter().for_each(|x| *sum = sum.wrapping_add(*x as u64));
            }
        }
    };
    for at in (start..start + rows).step_by(VECTOR_ROWS) {
        each(at, (start + rows - at).min(VECTOR_ROWS), &mut sum);
    }
    sum
}
