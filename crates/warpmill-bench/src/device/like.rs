//! LIKE '%a%b%' over strings of 50 bytes: all bytes at once, and a row per thread as generated kernels do.

use warpmill_gpu::device::kernel::{Kernel, ParamBytes};
use warpmill_gpu::device::{DevicePtr, Result};
use warpmill_gpu::kernels::library::Library;

use super::harness::{Bench, Times};
use super::report::{Measurement, Report, Target};
use crate::algorithm::substring::{Strings, SubstringSearch};
use crate::kernels;

const DATA: &str = include_str!("../../kernels/measure/data.cuh");
const LIKE_DATA: &str = include_str!("../../kernels/measure/like.cuh");
const LIKE_ROWS: &str = include_str!("../../kernels/measure/like_rows.cuh");

const ROWS: u64 = 64_000_000;
const ROW_BYTES: u32 = 50;
/// One in this many rows contains the pieces.
const PLANT: u32 = 8;

/// The input of a search: strings in device memory, two consecutive pieces at `needles`, a result bit per row.
struct Search<'a> {
    bench: &'a Bench,
    strings: Strings,
    pieces: [&'a [u8]; 2],
    needles: DevicePtr,
    out: DevicePtr,
}

pub(super) fn run(bench: &mut Bench, report: &mut Report) -> Result<()> {
    let text = [DATA, LIKE_DATA].concat();
    let [make, check] = kernels::compile(&bench.device, text, [("like_make", 256, 0), ("like_check", 256, 0)])?;
    let all_bytes = SubstringSearch::new(&bench.device)?;
    let n = bench.rows(ROWS, 1);
    // Strings are read in aligned words of 16 bytes.
    let bytes = bench.buffer((n * u64::from(ROW_BYTES)).next_multiple_of(16))?;
    let offsets = bench.buffer(4 * (n + 1))?;
    let (out, wrong) = (bench.buffer(4 * n.div_ceil(32))?, bench.buffer(16)?);
    let needles = bench.buffer(64)?;
    for pieces in [["special", "requests"], ["a", "b"], ["ab", "xyz"]] {
        let pieces: [&[u8]; 2] = pieces.map(str::as_bytes);
        // SAFETY: the buffer has room for the few bytes.
        unsafe { bench.device.copy_to_device(needles.ptr, &pieces.concat(), bench.stream)? };
        let params = || {
            let params = ParamBytes::new().u64(bytes.ptr).u64(offsets.ptr).u64(needles.ptr).u64(0).u64(wrong.ptr);
            let lens = pieces.map(|piece| piece.len() as u32);
            params.u64(out.ptr).u64(n).u32(ROW_BYTES).u32(lens[0]).u32(lens[1]).u32(PLANT)
        };
        bench.prepare(&make, n + 1, params())?;
        let strings = Strings { bytes: bytes.ptr, offsets: offsets.ptr, rows: n };
        let search = Search { bench, strings, pieces, needles: needles.ptr, out: out.ptr };
        let kernel = search.row_kernel()?;
        for (how, kernel) in [("all bytes", None), ("a row per thread", Some(&kernel))] {
            let clear = || bench.fill(&out, 0xA5, 4 * n.div_ceil(32));
            let times = match kernel {
                None => search.all_bytes(&all_bytes, clear)?,
                Some(kernel) => bench.measure_kernel(kernel, n.div_ceil(256), clear, || search.row_params())?,
            };
            bench.fill(&wrong, 0, 16)?;
            bench.prepare(&check, n, params())?;
            let counts = bench.read(wrong.ptr, 2)?;
            let [a, b] = pieces.map(|piece| String::from_utf8_lossy(piece));
            let name = format!("'%{a}%{b}%' {how}, {} rows match", counts[1]);
            let moved = n * u64::from(ROW_BYTES) + 4 * (n + 1) + n / 8;
            let measurement = Measurement::new("like", name, n, moved, times).target(Target::GigaBytes(500.0));
            let measurement = kernel.into_iter().fold(measurement, Measurement::kernel);
            report.add(measurement.verified(counts[0] == 0));
        }
    }
    Ok(())
}

impl Search<'_> {
    fn all_bytes(&self, search: &SubstringSearch, clear: impl FnMut() -> Result<()>) -> Result<Times> {
        let Self { bench, strings, pieces, out, .. } = *self;
        // SAFETY: the buffers have the sizes that the search requires.
        bench.measure(clear, || unsafe { search.search(bench.stream, strings, &pieces, out) })
    }

    /// The row-per-thread search for pieces of these lengths.
    fn row_kernel(&self) -> Result<Kernel> {
        let libraries = [Library::Value, Library::Compare, Library::Strings, Library::Like].map(Library::text).concat();
        let [first, second] = self.pieces.map(span);
        let entry = format!(
            "extern \"C\" __global__ void __launch_bounds__(256) like_row_per_thread(LikeRows p) {{\n    \
                 like_rows<{first}, {second}>(p);\n}}\n"
        );
        let text = [&libraries, LIKE_ROWS, &entry].concat();
        let [kernel] = kernels::compile(&self.bench.device, text, [("like_row_per_thread", 256, 0)])?;
        Ok(kernel)
    }

    fn row_params(&self) -> ParamBytes {
        let Strings { bytes, offsets, rows } = self.strings;
        let mut params = ParamBytes::new().u64(bytes).u64(offsets).u64(self.out).u64(rows);
        let mut at = self.needles;
        for piece in self.pieces {
            let [first, other] = [piece[0], piece[span(piece)]].map(|byte| u32::from_ne_bytes([byte; 4]));
            params = params.u64(at).u64(piece.len() as u64).u32(first).u32(other);
            at += piece.len() as u64;
        }
        params
    }
}

/// The span of a needle (kernels/strings.cuh).
fn span(piece: &[u8]) -> usize {
    (piece.len() - 1).min(4)
}
