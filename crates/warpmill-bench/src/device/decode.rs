//! Decoding of 250 million values in every encoding: fused with a sum, and written to memory.
//!
//! Uniform widths and the three distributions of the GPU-FOR evaluation: D1 sorted with a number of unique values, D2 normal
//! with a standard deviation of 20, D3 Zipfian. A segment of 2^20 rows is packed on the host and lies in device memory as
//! often as needed, so that its bytes come from memory, not from a cache.

use warpmill_gpu::device::kernel::{Kernel, ParamBytes};
use warpmill_gpu::device::{DevicePtr, Result};

use super::encode;
use super::harness::{Bench, Buffer};
use super::report::{Measurement, Report, Target};
use crate::kernels;

const DATA: &str = include_str!("../../kernels/measure/data.cuh");
const LANES: &str = include_str!("../../kernels/measure/decode.cuh");
const TILES: &str = include_str!("../../kernels/measure/decode_tiles.cuh");

const ROWS: u64 = 250_000_000;
const SEGMENT_ROWS: u64 = 1 << 20;

/// A column to decode.
struct Dataset {
    name: String,
    values: Vec<u32>,
    sum: u64,
}

/// The encodings that a dataset is measured in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encodings {
    /// Frame of reference only.
    For,
    /// Deltas too.
    Delta,
    /// Deltas and runs too.
    All,
}

/// The kernels that every encoding shares.
struct Suite<'a> {
    bench: &'a Bench,
    tiles: [Kernel; 6],
    sum_words: Kernel,
    out: Buffer,
    /// The kernel's sum, and the sum of the words that it wrote.
    sums: Buffer,
    rows: u64,
    copies: u64,
}

/// One way to decode.
struct Decoder<'a> {
    name: String,
    kernel: &'a Kernel,
    /// Blocks that have work.
    most_blocks: u64,
    packed_bytes: u64,
    writes: bool,
    target: Option<Target>,
}

pub(super) fn run(bench: &mut Bench, report: &mut Report) -> Result<()> {
    // Several copies even when scaled down.
    let rows = (bench.rows(ROWS, 1024) / 3072 * 1024).clamp(1024, SEGMENT_ROWS);
    let names = ["gpu_for_sum", "gpu_for_write", "gpu_dfor_sum", "gpu_dfor_write", "gpu_rfor_sum", "gpu_rfor_write"];
    let text = [kernels::GPU_FOR, DATA, TILES].concat();
    let tiles = kernels::compile(&bench.device, text, names.map(|name| (name, 128, 0)))?;
    let [sum_words] = kernels::compile(&bench.device, DATA.to_owned(), [("sum_words", 256, 0)])?;
    let copies = bench.rows(ROWS, 1024) / rows;
    let (out, sums) = (bench.buffer(4 * rows * copies)?, bench.buffer(16)?);
    let suite = Suite { bench, tiles, sum_words, out, sums, rows, copies };
    for (dataset, encodings) in datasets(rows as usize) {
        suite.lane_for(report, &dataset)?;
        suite.gpu(report, &dataset, encodings)?;
        if encodings != Encodings::For {
            suite.lane_delta(report, &dataset)?;
        }
        if encodings == Encodings::All {
            suite.lane_rle(report, &dataset)?;
        }
    }
    Ok(())
}

impl Suite<'_> {
    fn ptr(&self, writes: bool) -> [DevicePtr; 2] {
        [if writes { self.out.ptr } else { 0 }, self.sums.ptr]
    }

    /// Measures one kernel and checks its sum, or its output.
    fn measure(
        &self,
        report: &mut Report,
        dataset: &Dataset,
        decoder: &Decoder,
        params: impl Fn() -> ParamBytes,
    ) -> Result<()> {
        let (n, bench) = (self.rows * self.copies, self.bench);
        if decoder.writes {
            bench.fill(&self.out, 0xA5, 4 * n)?;
        }
        let zero = || bench.fill(&self.sums, 0, 16);
        let times = bench.measure_kernel(decoder.kernel, decoder.most_blocks, zero, params)?;
        if decoder.writes {
            bench.prepare(&self.sum_words, n, ParamBytes::new().u64(self.out.ptr).u64(self.sums.ptr).u64(n))?;
        }
        let mut verified = bench.read(self.sums.ptr, 1)?[0] == dataset.sum.wrapping_mul(self.copies);
        if decoder.writes {
            let first = bench.read(self.out.ptr, self.rows as usize / 2)?;
            let pairs = dataset.values.chunks(2).map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32);
            verified &= first.into_iter().eq(pairs);
        }
        let bytes = decoder.packed_bytes * self.copies + if decoder.writes { 4 * n } else { 0 };
        let name = format!("{} {} {}", dataset.name, decoder.name, if decoder.writes { "write" } else { "sum" });
        let measurement = Measurement::new("decode", name, n, bytes, times).kernel(decoder.kernel).verified(verified);
        report.add(match decoder.target {
            Some(target) => measurement.target(target),
            None => measurement,
        });
        Ok(())
    }

    fn lane_kernels<const N: usize>(&self, needs: &[&str], entries: [(&str, String); N]) -> Result<[Kernel; N]> {
        let body: String = entries
            .iter()
            .map(|(name, call)| {
                let (template, params) = call.split_once(' ').expect("a template and its parameter's type");
                format!("extern \"C\" __global__ void __launch_bounds__(256) {name}({params} p) {{ {template}(p); }}\n")
            })
            .collect();
        let text = [&needs.concat(), DATA, LANES, &body].concat();
        kernels::compile(&self.bench.device, text, entries.each_ref().map(|&(name, _)| (name, 256, 0)))
    }

    fn lane_for(&self, report: &mut Report, dataset: &Dataset) -> Result<()> {
        let column = encode::lane_for(&dataset.values);
        let w = column.width;
        let kernels = self.lane_kernels(
            &[kernels::LANE, kernels::LANE_DELTA, kernels::LANE_RLE],
            [
                ("decode_sum", format!("lane_sum<{w}> LaneDecode")),
                ("decode_write", format!("lane_write<{w}> LaneDecode")),
            ],
        )?;
        let stride = column.words.len() as u64;
        let packed = self.bench.copies(&column.words, stride, self.copies)?;
        let vectors = self.rows / 1024 * self.copies;
        for (kernel, writes) in kernels.iter().zip([false, true]) {
            let target = if w >= 8 { Target::Floor(0.95) } else { Target::GigaItems(4000.0) };
            let decoder = Decoder {
                name: format!("lane FOR {w} bits"),
                kernel,
                most_blocks: vectors.div_ceil(8),
                packed_bytes: 4 * stride,
                writes,
                target: (!writes).then_some(target),
            };
            let [out, sum] = self.ptr(writes);
            self.measure(report, dataset, &decoder, || {
                ParamBytes::new().u64(packed.ptr).u64(out).u64(sum).u64(vectors).u32(column.reference)
            })?;
        }
        Ok(())
    }

    fn lane_delta(&self, report: &mut Report, dataset: &Dataset) -> Result<()> {
        let column = encode::lane_delta(&dataset.values);
        let w = column.width;
        let kernels = self.lane_kernels(
            &[kernels::LANE, kernels::LANE_DELTA, kernels::LANE_RLE],
            [
                ("decode_sum", format!("delta_sum<{w}> DeltaDecode")),
                ("decode_write", format!("delta_write<{w}> DeltaDecode")),
            ],
        )?;
        let copy = |words: &[u32]| self.bench.copies(words, words.len() as u64, self.copies);
        let (packed, bases) = (copy(&column.words)?, copy(&column.bases)?);
        let references = copy(&column.references)?;
        let vectors = self.rows / 1024 * self.copies;
        for (kernel, writes) in kernels.iter().zip([false, true]) {
            let decoder = Decoder {
                name: format!("lane delta {w} bits"),
                kernel,
                most_blocks: vectors.div_ceil(8),
                packed_bytes: 4 * (column.words.len() + column.bases.len() + column.references.len()) as u64,
                writes,
                target: (!writes).then_some(Target::Floor(0.8)),
            };
            let [out, sum] = self.ptr(writes);
            self.measure(report, dataset, &decoder, || {
                let params = ParamBytes::new().u64(packed.ptr).u64(bases.ptr).u64(references.ptr).u64(out).u64(sum);
                params.u64(vectors).u32(column.step).u32(column.base_bytes)
            })?;
        }
        Ok(())
    }

    fn lane_rle(&self, report: &mut Report, dataset: &Dataset) -> Result<()> {
        let column = encode::lane_rle(&dataset.values);
        let widths = format!("{}, {}", column.ends.width, column.values.width);
        let kernels = self.lane_kernels(
            &[kernels::LANE, kernels::LANE_DELTA, kernels::LANE_RLE],
            [
                ("runs_sum", format!("rle_run_sum<{widths}> RleDecode")),
                ("rows_sum", format!("rle_sum<{widths}> RleDecode")),
                ("rows_write", format!("rle_write<{widths}> RleDecode")),
            ]
            .map(|(name, call)| (name, call.replace(", ", ","))),
        )?;
        let parts = [&column.starts, &column.ends.words, &column.values.words];
        let strides = parts.map(|words| words.len() as u64);
        let [starts, ends, values] = parts.map(|words| self.bench.copies(words, words.len() as u64, self.copies));
        let (starts, ends, values) = (starts?, ends?, values?);
        let (vectors, run_vectors) = (self.rows / 1024, u64::from(column.runs).div_ceil(1024));
        let run_length = self.rows / u64::from(column.runs);
        for (kernel, (how, writes, units)) in kernels.iter().zip([
            ("by runs", false, run_vectors),
            ("by rows", false, vectors),
            ("by rows", true, vectors),
        ]) {
            let decoder = Decoder {
                name: format!("lane RLE, {run_length} rows a run, {how}"),
                kernel,
                most_blocks: (units * self.copies).div_ceil(8),
                packed_bytes: 4 * strides.iter().sum::<u64>(),
                writes,
                target: (how == "by runs").then_some(Target::Floor(0.6)),
            };
            let [out, sum] = self.ptr(writes);
            self.measure(report, dataset, &decoder, || {
                let params = ParamBytes::new().u64(starts.ptr).u64(ends.ptr).u64(values.ptr).u64(out).u64(sum);
                let params = strides.iter().fold(params.u64(self.copies), |params, &stride| params.u64(stride));
                let params = params.u32(vectors as u32).u32(column.runs);
                params.u32(column.ends.reference).u32(column.values.reference)
            })?;
        }
        Ok(())
    }

    fn gpu(&self, report: &mut Report, dataset: &Dataset, encodings: Encodings) -> Result<()> {
        let values = &dataset.values;
        self.tiles(report, dataset, "GPU-FOR", 0, &[encode::gpu_for(values)])?;
        if encodings != Encodings::For {
            self.tiles(report, dataset, "GPU-DFOR", 2, &[encode::gpu_dfor(values)])?;
        }
        if encodings == Encodings::All {
            self.tiles(report, dataset, "GPU-RFOR", 4, &encode::gpu_rfor(values))?;
        }
        Ok(())
    }

    fn tiles(
        &self,
        report: &mut Report,
        dataset: &Dataset,
        name: &str,
        first_kernel: usize,
        streams: &[encode::TileStream],
    ) -> Result<()> {
        let (mut buffers, mut strides) = (vec![], vec![]);
        for words in streams.iter().flat_map(|stream| [&stream.starts, &stream.data]) {
            buffers.push(self.bench.copies(words, words.len() as u64, self.copies)?);
            strides.push(words.len() as u64);
        }
        let packed_bytes = 4 * strides.iter().sum::<u64>();
        strides.resize(4, 0);
        let tiles = self.rows / 512;
        for (kernel, writes) in self.tiles[first_kernel..].iter().zip([false, true]) {
            let decoder = Decoder {
                name: name.to_owned(),
                kernel,
                most_blocks: tiles * self.copies,
                packed_bytes,
                writes,
                target: None,
            };
            let [out, sum] = self.ptr(writes);
            self.measure(report, dataset, &decoder, || {
                let address = |i: usize| buffers.get(i).map_or(0, |buffer: &Buffer| buffer.ptr);
                let params = (0..4).fold(ParamBytes::new(), |params, i| params.u64(address(i)));
                let params = params.u64(out).u64(sum).u64(self.copies);
                strides.iter().fold(params, |params, &stride| params.u64(stride)).u32(tiles as u32).u32(0)
            })?;
        }
        Ok(())
    }
}

/// Pseudo-random draws.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    }

    /// Even in 0 .. 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A random number with a Poisson distribution of mean `mean`.
    fn poisson(&mut self, mean: f64) -> u32 {
        let (limit, mut product, mut count) = ((-mean).exp(), self.unit(), 0);
        while product > limit {
            product *= self.unit();
            count += 1;
        }
        count
    }
}

fn datasets(rows: usize) -> Vec<(Dataset, Encodings)> {
    let mut draws = Draws(7);
    let mut all: Vec<(String, Vec<u32>, Encodings)> = vec![];
    for bits in (2..=30).step_by(2) {
        let values = (0..rows).map(|_| (draws.next() >> (64 - bits)) as u32).collect();
        all.push((format!("uniform {bits} bits"), values, Encodings::For));
    }
    // D1: a stretch of 2^28 sorted rows with 2^k unique values.
    for k in [18, 22, 25, 28] {
        let mut value = 1u32 << 27;
        let mut next = || {
            value += draws.poisson(f64::powi(2.0, k - 28));
            value
        };
        let encodings = if k < 28 { Encodings::All } else { Encodings::Delta };
        all.push((format!("D1 2^{k} unique"), (0..rows).map(|_| next()).collect(), encodings));
    }
    let mut normal = || (0..12).map(|_| draws.unit()).sum::<f64>() - 6.0;
    let values = (0..rows).map(|_| (f64::from(1 << 20) + 20.0 * normal()) as u32).collect();
    all.push(("D2 mean 2^20".into(), values, Encodings::Delta));
    for alpha in [1, 3] {
        let cumulative: Vec<f64> = (1..=1 << 16)
            .scan(0.0, |sum, rank| {
                *sum += f64::from(rank).powi(-alpha);
                Some(*sum)
            })
            .collect();
        let all_ranks = cumulative[cumulative.len() - 1];
        let mut rank = || {
            let drawn = draws.unit() * all_ranks;
            cumulative.partition_point(|&c| c < drawn) as u32
        };
        all.push((format!("D3 alpha {alpha}"), (0..rows).map(|_| rank()).collect(), Encodings::For));
    }
    let sum = |values: &[u32]| values.iter().map(|&x| u64::from(x)).sum();
    all.into_iter().map(|(name, values, encodings)| (Dataset { name, sum: sum(&values), values }, encodings)).collect()
}
