//! The rows of each pipeline that a device has if some scans are split between devices: all of them, or those of its key range.

use std::collections::{BTreeSet, HashMap};

use warpmill_ir::graph::sets_flags;
use warpmill_ir::origin::{column, width};
use warpmill_ir::{JoinKind, Operator, Pipeline, Probe, Program, Sink, SinkId, Source, Unsupported};

use super::refusal;
use crate::share::varies;

/// The rows of a pipeline or a sink that a device has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spread {
    /// All rows, on every device.
    Everywhere,
    /// Each row on one device: the one whose range contains the key in these columns. Without columns: on any device.
    Split(BTreeSet<usize>),
}

/// The reason for refusing a sink that gets all rows of one pipeline and parts of another.
const MIXED: &str = "a sink of rows that are split and of rows that are not";

/// The output of a probe without rows.
const NO_ROWS: Spread = Spread::Everywhere;

/// The rows of a sink that a device has.
#[derive(Debug, Clone)]
pub struct SinkSpread {
    /// The sink's rows; the payload of a hash build.
    pub rows: Spread,
    /// For hash builds: the build keys that contain the partition key.
    pub keys: BTreeSet<usize>,
}

/// A walk through a program's pipelines that records each sink's spread, up to the sink that combines the parts.
pub struct Walk<'a> {
    program: &'a Program,
    /// The split scans, each with the output column that contains the key, if there is one.
    split: &'a HashMap<usize, Option<usize>>,
    /// The aggregation whose groups are each on one device.
    groups: Option<SinkId>,
    sinks: HashMap<SinkId, SinkSpread>,
}

impl<'a> Walk<'a> {
    /// The sink that combines the parts of devices if scans are `split`, and all rows of each group of `groups` are on one device.
    ///
    /// # Errors
    /// The reason why the parts do not add up to the whole.
    pub fn meeting(
        program: &'a Program,
        split: &'a HashMap<usize, Option<usize>>,
        groups: Option<SinkId>,
    ) -> Result<SinkId, Unsupported> {
        let mut walk = Self { program, split, groups, sinks: HashMap::new() };
        let mut meeting = None;
        for (index, pipeline) in program.pipelines.iter().enumerate() {
            if meeting.is_some_and(|sink| program.pipelines[index..].iter().all(|later| later.sink != sink)) {
                break;
            }
            let spread = walk.pipeline(index, pipeline)?;
            match meeting {
                Some(sink) if sink == pipeline.sink && spread == Spread::Everywhere => return Err(refusal(MIXED)),
                Some(sink) if sink == pipeline.sink => {}
                // A second such sink before the first is complete: its readers would lack rows.
                Some(_) => drop(walk.enter_sink(pipeline, spread)?),
                None if walk.enter_sink(pipeline, spread)? => meeting = Some(pipeline.sink),
                None => {}
            }
        }
        let sink = meeting.ok_or_else(|| refusal("nothing that is split arrives anywhere"))?;
        // Pipelines before the first one that meets the parts may have delivered all rows.
        match walk.sinks.get(&sink) {
            Some(SinkSpread { rows: Spread::Everywhere, .. }) => Err(refusal(MIXED)),
            _ => Ok(sink),
        }
    }

    /// The rows that reach the sink of a pipeline.
    fn pipeline(&self, index: usize, pipeline: &Pipeline) -> Result<Spread, Unsupported> {
        let mut spread = match &pipeline.source {
            Source::Scan(scan) if scan.table.is_parquet() => return Err(refusal("a scan of Parquet files")),
            Source::Scan(_) => match self.split.get(&index) {
                Some(key) => Spread::Split(key.iter().copied().collect()),
                None => Spread::Everywhere,
            },
            Source::Rows { sink, .. } | Source::Build { sink, .. } => {
                let known = self.sinks.get(sink).ok_or_else(|| refusal("rows of a sink that is not finished"))?;
                known.rows.clone()
            }
            Source::Input { .. } => match self.split.get(&index) {
                Some(key) => Spread::Split(key.iter().copied().collect()),
                None => Spread::Everywhere,
            },
            Source::Values { .. } => Spread::Everywhere,
        };
        for (position, operator) in pipeline.operators.iter().enumerate() {
            spread = match operator {
                Operator::Filter(_) => spread,
                Operator::Limit { .. } => return Err(refusal("a limit counts all rows")),
                Operator::Project(list) => {
                    let exprs: Vec<_> = list.iter().map(|(_, expr)| column(expr)).collect();
                    spread.picked(|from| positions(&exprs, from))
                }
                Operator::Probe(probe) => self.probe(probe, width(pipeline, position), spread)?,
            };
        }
        Ok(spread)
    }

    fn probe(&self, probe: &Probe, width: usize, spread: Spread) -> Result<Spread, Unsupported> {
        let build = self.sinks.get(&probe.build).ok_or_else(|| refusal("a join before its build"))?;
        if probe.asof.is_some() {
            return Err(refusal("an ASOF join: of rows of the same time each site may take another"));
        }
        let outputs = |from: usize| -> Vec<usize> {
            probe.output.iter().enumerate().filter(|(_, at)| **at == from).map(|(to, _)| to).collect()
        };
        let of_probe =
            |holding: &BTreeSet<usize>| -> BTreeSet<usize> { holding.iter().flat_map(|&from| outputs(from)).collect() };
        // Payload columns certainly equal the probe's key only if there is always a partner: build rows without one belong to another pipeline.
        let of_payload = |holding: &BTreeSet<usize>| -> BTreeSet<usize> {
            match probe.kind {
                JoinKind::Inner | JoinKind::BuildOuter => {
                    holding.iter().flat_map(|&column| outputs(width + column)).collect()
                }
                _ => BTreeSet::new(),
            }
        };
        match (&spread, &build.rows) {
            (Spread::Everywhere, Spread::Everywhere) => Ok(Spread::Everywhere),
            (Spread::Split(_), Spread::Everywhere) if sets_flags(probe) => {
                Err(refusal("a join asks which rows of its build have found no partner at all"))
            }
            (Spread::Split(own), Spread::Everywhere) => Ok(Spread::Split(of_probe(own))),
            (Spread::Split(own), Spread::Split(payload)) => {
                let meets = |key: &usize| column(&probe.keys[*key]).is_some_and(|column| own.contains(&column));
                if probe.null_aware || !build.keys.iter().any(meets) {
                    return Err(refusal("a join of rows that are split by another key"));
                }
                if probe.kind == JoinKind::BuildOnly {
                    return Ok(NO_ROWS);
                }
                Ok(Spread::Split(of_probe(own).into_iter().chain(of_payload(payload)).collect()))
            }
            (Spread::Everywhere, Spread::Split(payload)) => match probe.kind {
                // Each pair is on the device of the build row.
                JoinKind::Inner | JoinKind::BuildOuter => Ok(Spread::Split(of_payload(payload))),
                JoinKind::BuildOnly => Ok(NO_ROWS),
                _ => Err(refusal("a join that asks which rows have found no partner in any part of its build")),
            },
        }
    }

    /// Records the rows that a sink gets. Returns whether it combines the parts of devices.
    fn enter_sink(&mut self, pipeline: &Pipeline, spread: Spread) -> Result<bool, Unsupported> {
        let sink = &self.program.sinks[pipeline.sink];
        let is_last = pipeline.sink + 1 == self.program.sinks.len();
        let (mut rows, mut keys) = (Spread::Everywhere, BTreeSet::new());
        match (sink, &spread) {
            (Sink::HashBuild { keys: built, payload, .. }, Spread::Split(holding)) => {
                let held = |expr: &warpmill_ir::Expr| column(expr).is_some_and(|column| holding.contains(&column));
                keys = (0..built.len()).filter(|&key| held(&built[key])).collect();
                rows = spread.picked(|from| {
                    payload.iter().enumerate().filter(|(_, column)| **column == from).map(|(to, _)| to).collect()
                });
            }
            (Sink::Aggregate { .. }, Spread::Split(_)) if self.groups == Some(pipeline.sink) => {
                rows = Spread::Split(BTreeSet::new());
            }
            (Sink::Aggregate { groups, .. }, Spread::Split(_)) => {
                let columns: Vec<_> = groups.iter().map(column).collect();
                rows = spread.picked(|from| positions(&columns, from));
                if rows == Spread::Split(BTreeSet::new()) || is_last {
                    return Ok(true);
                }
            }
            (Sink::Functions { .. }, _) => return Err(refusal("functions of groups run on one device")),
            (Sink::Sort { .. } | Sink::Collect { .. } | Sink::Window { .. }, Spread::Split(_)) => return Ok(true),
            (Sink::Aggregate { aggregates, .. }, Spread::Everywhere) if aggregates.iter().any(varies) => {
                return Err(refusal("aggregates of floats, or any values, which may be others at each site"));
            }
            (Sink::Window { .. } | Sink::Sort { fetch: Some(_), .. }, Spread::Everywhere) => {
                return Err(refusal("windows, or any rows of a limit, which may be others at each site"));
            }
            (_, Spread::Everywhere) => {}
        }
        let merged = match self.sinks.remove(&pipeline.sink) {
            // Rows of one group are on several devices.
            Some(known) if matches!(sink, Sink::Aggregate { .. }) && !known.rows.shares_columns(&rows) => {
                return Ok(true);
            }
            None => SinkSpread { rows, keys },
            Some(known) => match (known.rows, rows) {
                (Spread::Everywhere, Spread::Everywhere) => SinkSpread { rows: Spread::Everywhere, keys },
                (Spread::Split(a), Spread::Split(b)) => SinkSpread {
                    rows: Spread::Split(a.intersection(&b).copied().collect()),
                    keys: known.keys.intersection(&keys).copied().collect(),
                },
                _ => return Err(refusal(MIXED)),
            },
        };
        self.sinks.insert(pipeline.sink, merged);
        Ok(false)
    }
}

impl Spread {
    /// Whether both are split with the key in the same column.
    fn shares_columns(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Split(a), Self::Split(b)) => !a.is_disjoint(b),
            _ => true,
        }
    }

    /// The same spread with renumbered columns: `to` returns the new positions of a column.
    fn picked(&self, to: impl Fn(usize) -> Vec<usize>) -> Self {
        match self {
            Self::Everywhere => Self::Everywhere,
            Self::Split(holding) => Self::Split(holding.iter().flat_map(|&from| to(from)).collect()),
        }
    }
}

/// The positions of column `from` in a list of columns.
fn positions(columns: &[Option<usize>], from: usize) -> Vec<usize> {
    columns.iter().enumerate().filter(|(_, column)| **column == Some(from)).map(|(to, _)| to).collect()
}
