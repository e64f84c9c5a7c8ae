//! LIKE '%a%b%' over strings of 50 bytes.

use super::report::Target;
use super::{Bench, Measurement, Report};
use crate::algorithm::launch::{Kernel, ParamBytes};
use crate::algorithm::substring::{Strings, SubstringSearch};
use crate::device::Result;

const DATA: &str = include_str!("../../kernels/bench/data.cuh");
const LIKE_DATA: &str = include_str!("../../kernels/bench/like.cuh");

const ROWS: u64 = 64_000_000;
const ROW_BYTES: u32 = 50;
/// Every how many rows hold the pieces.
const PLANT: u32 = 8;

pub(super) fn run(bench: &mut Bench, report: &mut Report) -> Result<()> {
    let text = [DATA, LIKE_DATA].concat();
    let [make, check] = Kernel::compile(&bench.device, text, [("like_make", 256, 0), ("like_check", 256, 0)])?;
    let search = SubstringSearch::new(&bench.device)?;
    let n = bench.rows(ROWS, 1);
    let (bytes, offsets) = (bench.buffer(n * u64::from(ROW_BYTES))?, bench.buffer(4 * (n + 1))?);
    let (out, wrong) = (bench.buffer(4 * n.div_ceil(32))?, bench.buffer(16)?);
    for pieces in [["special", "requests"], ["a", "b"], ["ab", "xyz"]] {
        let pieces: [&[u8]; 2] = pieces.map(str::as_bytes);
        let needles = bench.buffer(64)?;
        // SAFETY: the buffer has room for the few bytes.
        unsafe { bench.device.copy_to_device(needles.ptr, &pieces.concat(), bench.stream)? };
        let params = || {
            let params = ParamBytes::new().u64(bytes.ptr).u64(offsets.ptr).u64(needles.ptr).u64(0).u64(wrong.ptr);
            let lens = pieces.map(|piece| piece.len() as u32);
            params.u64(out.ptr).u64(n).u32(ROW_BYTES).u32(lens[0]).u32(lens[1]).u32(PLANT)
        };
        bench.prepare(&make, n + 1, params())?;
        let strings = Strings { bytes: bytes.ptr, offsets: offsets.ptr, rows: n };
        let times = bench.measure(
            || bench.fill(&out, 0xA5, 4 * n.div_ceil(32)),
            // SAFETY: the buffers have the sizes that the search asks for.
            || unsafe { search.search(bench.stream, strings, &pieces, out.ptr) },
        )?;
        bench.fill(&wrong, 0, 16)?;
        bench.prepare(&check, n, params())?;
        let counts = bench.read(wrong.ptr, 2)?;
        let [a, b] = pieces.map(|piece| String::from_utf8_lossy(piece));
        let moved = n * u64::from(ROW_BYTES) + 4 * (n + 1) + n / 8;
        let measurement = Measurement::new("like", format!("'%{a}%{b}%', {} rows match", counts[1]), n, moved, times);
        report.add(measurement.verified(counts[0] == 0).target(Target::GigaBytes(500.0)));
    }
    Ok(())
}
