//! Size and decoding rates of plain and symbol-encoded strings: `cargo run --release --example text_rate -- TABLE...`, for tables with plain strings.
//!
//! One core; a scan decodes 2048 rows at a time and searches them for the letter "z", a gather reads every 16th row.

use std::hint::black_box;
use std::time::{Duration, Instant};

use warpmill_format::{FormatError, Segment, SegmentBytes, StrView, Table};

const CHUNK: usize = 2048;

/// The shortest of a few runs.
fn best(mut pass: impl FnMut()) -> Duration {
    let time = |_| {
        let start = Instant::now();
        pass();
        start.elapsed()
    };
    (0..5).map(time).min().unwrap_or_default()
}

fn scan(segment: &Segment, look: bool) -> usize {
    let (mut text, mut views) = (Vec::new(), vec![StrView::default(); CHUNK]);
    let mut found = 0;
    for start in (0..segment.rows()).step_by(CHUNK) {
        let views = &mut views[..CHUNK.min(segment.rows() - start)];
        segment.decode_str(start, &mut text, views);
        if look {
            found += views.iter().filter(|view| memchr::memchr(b'z', view.as_bytes()).is_some()).count();
        }
        black_box(&views);
    }
    found
}

fn gather(segment: &Segment) {
    let (mut text, mut views) = (Vec::new(), vec![StrView::default(); CHUNK / 16]);
    for start in (0..segment.rows() / CHUNK).map(|i| i * CHUNK) {
        let rows: Vec<u32> = (start..start + CHUNK).step_by(16).map(|row| row as u32).collect();
        segment.gather_str(&rows, &mut text, &mut views);
        black_box(&views);
    }
}

fn main() -> Result<(), FormatError> {
    println!(
        "column: MB plain, in symbols | encode MB/s | open ms | decode, scan GB/s | gather M rows/s; plain / symbols"
    );
    for path in std::env::args().skip(1) {
        let snapshot = Table::open(std::path::Path::new(&path))?.snapshot()?;
        for (column, field) in snapshot.schema().fields().iter().enumerate() {
            let plain = snapshot.segment(0, column)?;
            if !field.data_type().is_string() || plain.is_dictionary() {
                continue;
            }
            let plain_bytes = plain.stats().plain_bytes as f64;
            let start = Instant::now();
            let symbols = plain.to_symbols()?;
            let encode = plain_bytes / start.elapsed().as_secs_f64() / 1e6;
            let Some(symbols) = symbols else {
                println!("{}: {:.2} MB stay plain, {encode:.0} MB/s", field.name(), plain_bytes / 1e6);
                continue;
            };
            let row = [&*plain, &symbols].map(|segment| {
                let open = best(|| {
                    let bytes: SegmentBytes = segment.as_bytes().clone();
                    black_box(Segment::from_bytes(bytes, field.data_type(), segment.rows()).is_ok());
                });
                let rate = |time: Duration| plain_bytes / time.as_secs_f64() / 1e9;
                let decode = rate(best(|| _ = black_box(scan(segment, false))));
                let look = rate(best(|| _ = black_box(scan(segment, true))));
                let gather = (segment.rows() / 16) as f64 / best(|| gather(segment)).as_secs_f64() / 1e6;
                (segment.as_bytes().len() as f64 / 1e6, open.as_secs_f64() * 1e3, decode, look, gather)
            });
            let [p, s] = row;
            println!(
                "{}: {:.2} {:.2} ({:.2}x) | {encode:.0} | {:.2} {:.2} | {:.2} {:.2}, {:.2} {:.2} | {:.1} {:.1}",
                field.name(),
                p.0,
                s.0,
                p.0 / s.0,
                p.1,
                s.1,
                p.2,
                s.2,
                p.3,
                s.3,
                p.4,
                s.4
            );
        }
    }
    Ok(())
}
