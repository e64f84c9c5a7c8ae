//! The rates of the CPU back end, from the times of queries over tables of several sizes: `T(rows) = slope * rows + start`; the slope is the time per
//! row.

use std::time::Instant;

use warpmill_machine::{HardwareProfile, Line, Rate};

use crate::{Result, Session};

/// Sizes of tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Rows of the tables that are scanned.
    scanned: [u64; 3],
    /// Number of rows of a hash build within the processor's caches, and of a larger one.
    builds: [u64; 2],
    /// Number of timed runs of a query; the fastest counts.
    runs: usize,
}

/// Sizes for a real machine.
pub(super) const FULL: Sizes = Sizes { scanned: [1 << 20, 1 << 22, 1 << 23], builds: [1 << 14, 3 << 20], runs: 5 };

/// Measures [`Rate::Values`], [`Rate::Near`] and [`Rate::Far`]. Returns those that the times do not determine.
///
/// # Errors
/// Queries that fail.
pub(super) fn measure(profile: &mut HardwareProfile, threads: usize, sizes: Sizes) -> Result<Vec<String>> {
    let session = Session::builder().threads(threads).set("warpmill.device", "cpu").build()?;
    let run = |sql: &str| session.execute(sql, &[]).map(drop);
    for rows in sizes.scanned {
        // Unordered numbers of about 20 bits; `k` matches a row of any build.
        run(&format!(
            "CREATE TABLE probe_{rows} AS SELECT (i * 7919) % 1000003 AS a, (i * 104729) % 1000003 AS b, \
             (i * 2654435761) % {} * 1009 AS near, (i * 2654435761) % {} * 1009 AS far FROM range({rows}) AS r(i)",
            sizes.builds[0], sizes.builds[1]
        ))?;
    }
    for (name, rows) in [("near", sizes.builds[0]), ("far", sizes.builds[1])] {
        run(&format!(
            "CREATE TABLE build_{name} AS SELECT i * 1009 AS {name}, (i * 7919) % 1000003 AS v FROM range({rows}) AS r(i)"
        ))?;
    }
    let seconds_of_row = |query: &dyn Fn(u64) -> String| -> Result<Option<f64>> {
        let time = |rows: &u64| Ok((*rows as f64, fastest(&session, &query(*rows), sizes.runs)?));
        let times = sizes.scanned.iter().map(time).collect::<Result<Vec<_>>>()?;
        Ok(Line::fit(&times).map(|line| line.slope * threads as f64))
    };
    let mut problems = vec![];
    let scan = seconds_of_row(&|rows| format!("SELECT sum(a) FROM probe_{rows} WHERE b < 500000"))?;
    match scan {
        // Two columns.
        Some(seconds) => {
            profile.cpu.values = 2.0 / seconds;
            profile.measured.insert(Rate::Values);
        }
        None => problems.push("scans: larger tables did not take longer".to_string()),
    }
    let value = scan.map_or(0.0, |seconds| seconds / 2.0);
    for (name, rate) in [("near", Rate::Near), ("far", Rate::Far)] {
        let joined =
            seconds_of_row(&|rows| format!("SELECT sum(v) FROM probe_{rows} JOIN build_{name} USING ({name})"))?;
        match joined.filter(|seconds| *seconds > value) {
            Some(seconds) => {
                let found = 1.0 / (seconds - value);
                *(if rate == Rate::Near { &mut profile.cpu.near } else { &mut profile.cpu.far }) = found;
                profile.measured.insert(rate);
            }
            None => problems.push(format!("joins ({name}): more rows did not take longer")),
        }
    }
    Ok(problems)
}

/// Seconds of the fastest of some runs, after one that makes the plan.
fn fastest(session: &Session, sql: &str, runs: usize) -> Result<f64> {
    session.execute(sql, &[])?;
    let mut least = f64::INFINITY;
    for _ in 0..runs {
        let begun = Instant::now();
        session.execute(sql, &[])?;
        least = least.min(begun.elapsed().as_secs_f64());
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rate_is_measured_or_a_problem() {
        let mut profile = HardwareProfile::default();
        let sizes = Sizes { scanned: [1 << 14, 1 << 16, 1 << 18], builds: [1 << 8, 1 << 16], runs: 2 };
        let problems = measure(&mut profile, 2, sizes).unwrap();
        assert_eq!(profile.measured.len() + problems.len(), 3, "{profile:?} {problems:?}");
        let cpu = profile.cpu;
        assert!([cpu.values, cpu.near, cpu.far].iter().all(|rate| *rate > 1e4 && rate.is_finite()), "{cpu:?}");
    }
}
