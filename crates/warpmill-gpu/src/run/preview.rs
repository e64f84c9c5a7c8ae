//! Predicts how a program fits a device, from statistics and estimates alone.

use std::collections::HashSet;
use std::sync::Arc;

use warpmill_ir::{Program, Source};

use super::options::Options;
use crate::compile::hints::Hints;
use crate::compile::join::{JoinPlan, JoinStrategy};
use crate::compile::layout::SinkLayout;
use crate::compile::{planner, program};
use crate::memory::error::Result;

use super::executor::Executor;
use crate::compile::joins;
use crate::compile::plan::first_arena;
use crate::compile::shares::{bytes, rows_of, share_out};

/// The predicted way of running a program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Strategy {
    /// Stored bytes of the columns that it reads.
    pub data: u64,
    /// Bytes of its hash tables and rows, without parts.
    pub sinks: u64,
    /// Whether its segments are streamed, because they do not fit beside its tables.
    pub streamed: bool,
    /// Bytes of its columns that are kept in the caching region.
    pub kept: u64,
    /// Sinks that are built in parts: kind, number, and number of parts.
    pub parts: Vec<(&'static str, usize, u64)>,
    /// Whether rows of the result are flushed to the host while others are still made.
    pub flushes: bool,
    /// Strategy for joins whose hash builds do not fit, and the reason.
    pub join: Option<JoinPlan>,
    /// Bytes of device memory that are missing; 0: it fits.
    pub lacks: u64,
}

impl Strategy {
    /// Whether the CPU runs the whole program because of joins.
    pub fn is_for_cpu(&self) -> bool {
        self.join.as_ref().is_some_and(|plan| plan.strategy == JoinStrategy::Cpu)
    }

    /// Whether the CPU runs a part of the program because of joins.
    pub fn is_split(&self) -> bool {
        self.join.as_ref().is_some_and(|plan| plan.strategy.splits())
    }

    /// Whether its tables and rows do not all fit at once.
    pub fn sinks_do_not_fit(&self) -> bool {
        self.flushes || self.lacks > 0 || self.join.is_some() || !self.parts.is_empty()
    }
}

impl std::fmt::Display for Strategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut says = vec![];
        if self.streamed {
            let kept = match self.kept {
                0 => String::new(),
                kept => format!(" but for {kept} bytes in the caching region"),
            };
            says.push(format!("{} bytes of segments pass through{kept}", self.data));
        }
        let parts = self.parts.iter().map(|(what, sink, parts)| format!("{what} #{sink} in {parts} parts"));
        says.extend(parts);
        says.extend(self.join.as_ref().map(JoinPlan::to_string));
        if self.flushes {
            says.push("rows of the result to the host as they are made".into());
        }
        if self.sinks_do_not_fit() {
            says.push(format!("{} bytes of tables and rows in all", self.sinks));
        }
        if self.lacks > 0 {
            says.push(format!("the cpu if {} bytes of device memory more are really needed", self.lacks));
        }
        f.write_str(&says.join(", "))
    }
}

impl Executor {
    /// Predicts how `program`, with inputs of these row counts, fits. Actual sizes may change it.
    ///
    /// # Errors
    /// Operations that the device does not support.
    pub fn strategy(&self, program: &Arc<Program>, inputs: &[u64], options: &Options) -> Result<Strategy> {
        let program = crate::compile::defer::defer_sorts(program).map_or_else(|| program.clone(), Arc::new);
        let limits = self.limits;
        let mut strategy = Strategy { data: data_bytes(&program), ..Strategy::default() };
        let whole = |hints: &Hints, layouts: &[SinkLayout]| {
            layouts.iter().enumerate().map(|(id, layout)| bytes(id, layout, hints)).sum::<u64>()
        };
        let mut hints = Hints::default();
        let layouts = planner::sinks(&program, inputs, &hints, limits)?;
        strategy.sinks = whole(&hints, &layouts);
        let (arena, memory) = (first_arena(limits), self.shared.store.memory);
        if strategy.data <= memory / 4 * 3 && strategy.data + strategy.sinks + arena <= memory {
            return Ok(strategy);
        }
        strategy.streamed = strategy.data > 0;
        strategy.kept = self.kept_bytes(&program).min(strategy.data);
        let slots = limits.stream_bytes.min(strategy.data);
        let room = memory.saturating_sub(slots + arena);
        if strategy.sinks <= room {
            return Ok(strategy);
        }
        hints.give_up_sorts(&program, &layouts, room);
        (hints.streamed, hints.partitioned) = (true, Some(room));
        strategy.join = joins::choose(&program, inputs, (&hints, limits), &self.means(options))?;
        if strategy.is_for_cpu() || strategy.is_split() {
            return Ok(strategy);
        }
        hints.join = strategy.join.clone();
        let mut layouts = planner::sinks(&program, inputs, &hints, limits)?;
        let whole_rows: Vec<u64> = layouts.iter().map(rows_of).collect();
        let places = program::places(&program, &layouts)?;
        share_out(&program, &mut layouts, &places, &hints);
        for (id, layout) in layouts.iter().enumerate() {
            let what = if matches!(layout, SinkLayout::Build(_)) { "hash build" } else { "groups" };
            let parts = layout.partition().map(|partition| partition.parts).filter(|parts| *parts > 1);
            strategy.parts.extend(parts.map(|parts| (what, id, parts)));
            strategy.flushes |=
                matches!(layout, SinkLayout::Rows(rows) if rows.flushes && rows.capacity < whole_rows[id]);
        }
        strategy.lacks = whole(&hints, &layouts).saturating_sub(room);
        Ok(strategy)
    }

    /// Bytes of the columns that a program reads which are kept in the caching region.
    fn kept_bytes(&self, program: &Program) -> u64 {
        let scans = program.pipelines.iter().filter_map(|pipeline| match &pipeline.source {
            Source::Scan(scan) => Some(scan),
            _ => None,
        });
        let names = scans.flat_map(|scan| {
            scan.columns.iter().map(move |&column| (&scan.name, scan.table.schema().field(column).name()))
        });
        let names: HashSet<(&String, &String)> = names.collect();
        let kept = self.shared.store.kept.lock();
        names.into_iter().map(|(table, column)| kept.bytes_of(table, column)).sum()
    }
}

/// Stored bytes of the columns that a program reads, without duplicates.
fn data_bytes(program: &Program) -> u64 {
    let mut seen = HashSet::new();
    let scans = program.pipelines.iter().filter_map(|pipeline| match &pipeline.source {
        Source::Scan(scan) => Some(scan),
        _ => None,
    });
    let columns = scans.flat_map(|scan| scan.columns.iter().map(move |&column| (&scan.table, column)));
    let fresh = columns.filter(|(table, column)| seen.insert((Arc::as_ptr(table), *column)));
    fresh.map(|(table, column)| table.column_stats(column).stored_bytes).sum()
}
