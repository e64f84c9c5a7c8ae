//! The operator that probes hash tables.

use std::any::Any;
use std::sync::Arc;

use warpmill_format::Bitmap;
use warpmill_ir::{Bound, Expr, JoinKind, Nearest, Probe};

use super::asof::Times;
use super::output::{Joined, Output};
use super::pairs::{Enumerate, Pairs};
use super::resume::{Aside, Outgoing, RowFlags, Settle};
use super::table::{HashTable, Scratch, has_null_row, null_keys};
use super::{Columns, Matches};
use crate::chunk::{Chunk, Selection};
use crate::compaction::Compaction;
use crate::context::{ExecError, QueryContext, Result, Worker};
use crate::expr::PreparedExpr;
use crate::operator::{Emit, LocalOperator, Operator, Resumed};
use crate::vector::{Data, NULL_ROW, Vector};

/// Probes a hash table with each chunk of a pipeline.
///
/// With [`Compaction::Logical`] and [`Compaction::Smart`] the matches of a probe chunk are emitted in full chunks. The other strategies reproduce a
/// join without logical compaction for comparison: rows of one key are contiguous here, not chained, but each *step* (the first matches of all rows,
/// then the second ...) still makes a separate chunk, as following chains does (chunk compaction paper, section 2.2). Hash collisions, which lengthen
/// chains there, add no steps here.
pub struct ProbeOperator {
    spec: Arc<Spec>,
}

struct Spec {
    table: Arc<HashTable>,
    kind: JoinKind,
    exprs: Arc<Exprs>,
    null_aware: bool,
    output: Arc<Output>,
    /// Spill state of probe rows whose build partitions are not in memory.
    aside: Option<Arc<Aside>>,
    /// Set where the table is one of several blocks of a build that all meet all probe rows.
    settle: Option<Settle>,
}

/// Expressions to evaluate.
pub(super) struct Exprs {
    pub keys: Vec<PreparedExpr>,
    residual: Option<Residual>,
    /// The order value and direction of ASOF joins.
    asof: Option<(PreparedExpr, Nearest)>,
    /// Bounds on the build's order, each with whether it is inclusive.
    range: Option<[Option<(PreparedExpr, bool)>; 2]>,
}

/// A condition on pairs, over the columns that it reads.
struct Residual {
    columns: Output,
    condition: PreparedExpr,
}

impl Residual {
    fn new(condition: &Expr) -> Result<Self> {
        let mut columns = vec![];
        condition.visit_columns(&mut |column| columns.push(column));
        columns.sort_unstable();
        columns.dedup();
        let mut condition = condition.clone();
        condition.remap_columns(&|column| columns.binary_search(&column).expect("a column that it reads"));
        Ok(Self { columns: Output { columns }, condition: PreparedExpr::new(&condition)? })
    }
}

/// Prepares a bound of an order; the flag says whether it is inclusive.
fn bound(bound: Option<&Bound>) -> Result<Option<(PreparedExpr, bool)>> {
    bound.map(|bound| Ok((PreparedExpr::new(&bound.value)?, bound.inclusive))).transpose()
}

impl ProbeOperator {
    /// The operator for `probe` over its finished build.
    pub fn new(probe: &Probe, table: Arc<HashTable>) -> Result<Self> {
        if probe.null_aware && table.null_equals_null {
            return Err(ExecError::Unsupported("NOT IN where NULL equals NULL".into()));
        }
        let exprs = Arc::new(Exprs {
            keys: probe.keys.iter().map(PreparedExpr::new).collect::<Result<_>>()?,
            residual: match &probe.range {
                Some(range) => range.rest.as_ref(),
                None => probe.residual.as_ref(),
            }
            .map(Residual::new)
            .transpose()?,
            range: match &probe.range {
                Some(range) => Some([bound(range.lower.as_ref())?, bound(range.upper.as_ref())?]),
                None => None,
            },
            asof: match &probe.asof {
                Some(asof) => Some((PreparedExpr::new(&asof.value)?, asof.nearest)),
                None => None,
            },
        });
        let aside = table.spilled.as_ref().map(|build| {
            let mut used = probe.output.clone();
            probe.expressions().for_each(|expr| expr.visit_columns(&mut |column| used.push(column)));
            let blocks = probe.keys.is_empty() || probe.null_aware;
            let aside = Aside::new(build.clone(), exprs.clone(), probe.kind, blocks, used);
            Arc::new(if probe.asof.is_some() { aside.with_whole_keys() } else { aside })
        });
        let output = Arc::new(Output { columns: probe.output.clone() });
        let (kind, null_aware) = (probe.kind, probe.null_aware);
        Ok(Self { spec: Arc::new(Spec { table, kind, exprs, null_aware, output, aside, settle: None }) })
    }

    /// The same operator over a table of spilled rows.
    pub(super) fn standing_in(&self, table: Arc<HashTable>, settle: Option<Settle>) -> Self {
        let Spec { kind, exprs, null_aware, output, .. } = &*self.spec;
        let (exprs, output) = (exprs.clone(), output.clone());
        let spec = Spec { table, kind: *kind, exprs, null_aware: *null_aware, output, aside: None, settle };
        Self { spec: Arc::new(spec) }
    }

    /// The table that is probed.
    pub(super) fn table(&self) -> &Arc<HashTable> {
        &self.spec.table
    }
}

impl Operator for ProbeOperator {
    fn name(&self) -> String {
        let (kind, table) = (self.spec.kind, self.spec.table.kind());
        let asof = match (&self.spec.exprs.asof, &self.spec.exprs.range) {
            (Some(_), _) => "Asof ",
            (_, Some(_)) => "Range ",
            (None, None) => "",
        };
        match &self.spec.aside {
            Some(aside) => format!("Probe {asof}{kind:?} ({}; {table})", aside.strategy()),
            None => format!("Probe {asof}{kind:?} ({table})"),
        }
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let stats = self.spec.aside.as_ref().map(|aside| aside.stats.counters("spill_tables", "spill_blocks"));
        stats.unwrap_or_default()
    }

    fn resume(&self, query: &Arc<QueryContext>, pool: &rayon::ThreadPool) -> Result<Option<Resumed>> {
        match &self.spec.aside {
            Some(aside) => aside.resume(self, query, pool),
            None => Ok(None),
        }
    }

    fn into_kept(self: Box<Self>) -> Box<dyn Any + Send> {
        // Not the table, which may be large.
        Box::new(self.spec.exprs.clone())
    }

    fn local(&self, query: &Arc<QueryContext>) -> Box<dyn LocalOperator> {
        Box::new(LocalProbe {
            spec: self.spec.clone(),
            query: query.clone(),
            worker: Worker::new(&query.memory),
            cap: query.settings.chunk_rows,
            logical: matches!(query.settings.compaction, Compaction::Logical | Compaction::Smart),
            scratch: Scratch::default(),
            matches: Matches::default(),
            pairs: Pairs::default(),
            outgoing: Outgoing::new(query),
        })
    }
}

struct LocalProbe {
    spec: Arc<Spec>,
    query: Arc<QueryContext>,
    worker: Worker,
    /// Rows of a full chunk.
    cap: usize,
    logical: bool,
    scratch: Scratch,
    matches: Matches,
    pairs: Pairs,
    outgoing: Outgoing,
}

impl LocalOperator for LocalProbe {
    fn process(&mut self, mut chunk: Chunk, emit: Emit<'_>) -> Result<()> {
        let spec = self.spec.clone();
        if let Some(Settle::Final(flags)) = &spec.settle {
            return self.settle(&chunk, flags, emit);
        }
        let needs_rows =
            matches!(spec.kind, JoinKind::Inner | JoinKind::ProbeSemi | JoinKind::BuildOuter | JoinKind::BuildOnly);
        let pointless = needs_rows && spec.table.rows() == 0;
        if pointless && spec.aside.is_none() {
            return Ok(());
        }
        let eval = |chunk: &Chunk, worker: &mut Worker| {
            spec.exprs.keys.iter().map(|key| key.eval(chunk, worker)).collect::<Result<Columns>>()
        };
        let mut keys = eval(&chunk, &mut self.worker)?;
        if let Some(aside) = &spec.aside {
            let nulls = spec.table.null_equals_null;
            if let Some(rows) = self.outgoing.take(aside, &chunk, &keys, nulls, &self.query)? {
                keys = keys.iter().map(|key| Arc::new(key.gather(&rows))).collect();
                chunk.select(&rows);
            }
            if chunk.is_empty() || pointless {
                return Ok(());
            }
        }
        spec.table.lookup(&keys, chunk.len(), &mut self.scratch, &mut self.matches);
        if let (Some((value, nearest)), Some(times)) = (&spec.exprs.asof, &spec.table.times) {
            let values = value.eval(&chunk, &mut self.worker)?;
            self.matches.with_lens();
            times.pick(&values, *nearest, &mut self.matches);
            return self.join_unique(&chunk, emit);
        }
        if let (Some(bounds), Some(times)) = (&spec.exprs.range, &spec.table.times) {
            self.narrow(&chunk, bounds, times)?;
        }
        match (spec.kind, &spec.exprs.residual) {
            (JoinKind::Inner | JoinKind::ProbeOuter | JoinKind::BuildOuter | JoinKind::Full, None) => {
                self.join(&chunk, emit)
            }
            (JoinKind::Inner | JoinKind::ProbeOuter | JoinKind::BuildOuter | JoinKind::Full, Some(residual)) => {
                self.join_residual(&chunk, residual, emit)
            }
            (JoinKind::BuildOnly, None) => {
                self.mark_build();
                Ok(())
            }
            (JoinKind::BuildOnly, Some(residual)) => self.mark_build_residual(&chunk, residual),
            (JoinKind::ProbeSemi | JoinKind::ProbeAnti | JoinKind::ProbeMark, _) => self.exists(&chunk, &keys, emit),
        }
    }

    fn finish(&mut self, _emit: Emit<'_>) -> Result<()> {
        match &self.spec.aside {
            Some(aside) => self.outgoing.flush(aside, &self.query),
            None => Ok(()),
        }
    }
}

impl LocalProbe {
    /// Narrows matches to the build rows whose order value is within bounds.
    fn narrow(&mut self, chunk: &Chunk, bounds: &[Option<(PreparedExpr, bool)>; 2], times: &Times) -> Result<()> {
        let mut eval = |bound: &Option<(PreparedExpr, bool)>| -> Result<Option<(Arc<Vector>, bool)>> {
            match bound {
                Some((value, inclusive)) => Ok(Some((value.eval(chunk, &mut self.worker)?, *inclusive))),
                None => Ok(None),
            }
        };
        let [lower, upper] = bounds;
        let (lower, upper) = (eval(lower)?, eval(upper)?);
        self.matches.with_lens();
        times.narrow(lower, upper, &mut self.matches);
        if self.spec.table.unique {
            // Restores the form that a lookup leaves: no `lens`, [`NULL_ROW`] for no match.
            let Matches { starts, lens } = &mut self.matches;
            starts.iter_mut().zip(&*lens).filter(|(_, len)| **len == 0).for_each(|(start, _)| *start = NULL_ROW);
            lens.clear();
        }
        Ok(())
    }

    /// Whether rows without a match are emitted with NULLs.
    fn outer(&self) -> bool {
        matches!(self.spec.kind, JoinKind::ProbeOuter | JoinKind::Full) && self.spec.settle.is_none()
    }

    /// The flags that record matches of rows, where these are emitted only after the last block of the build.
    fn flags(&self) -> Option<Arc<RowFlags>> {
        match &self.spec.settle {
            Some(Settle::Collect(flags)) => Some(flags.clone()),
            _ => None,
        }
    }

    /// Emits rows whose result depends on all blocks of the build.
    fn settle(&mut self, chunk: &Chunk, flags: &RowFlags, emit: Emit<'_>) -> Result<()> {
        let (matched, unknown) = flags.of(chunk.sequence, chunk.len());
        if matches!(self.spec.kind, JoinKind::ProbeOuter | JoinKind::Full) {
            let missing: Vec<u32> = (0..chunk.len() as u32).filter(|&row| !matched[row as usize]).collect();
            let build = vec![NULL_ROW; missing.len()];
            return self.emit_pairs(chunk, Pairs { probe: missing, build }, emit);
        }
        let unknown = if self.spec.null_aware { unknown } else { vec![] };
        self.emit_existing(chunk, matched, &unknown, emit)
    }

    fn tracks(&self) -> bool {
        matches!(self.spec.kind, JoinKind::BuildOuter | JoinKind::Full)
    }

    fn enumerate(&self, outer: bool) -> Enumerate {
        if self.logical { Enumerate::rows() } else { Enumerate::steps(&self.matches, outer, false) }
    }

    /// Emits every pair (and every unmatched row, if outer).
    fn join(&mut self, chunk: &Chunk, emit: Emit<'_>) -> Result<()> {
        if self.tracks() {
            self.mark_build();
        }
        if self.spec.table.unique && self.spec.settle.is_none() {
            return self.join_unique(chunk, emit);
        }
        if let Some(flags) = self.flags() {
            self.matches.with_lens();
            let matched: Vec<bool> = self.matches.lens.iter().map(|&len| len > 0).collect();
            flags.add(chunk.sequence, &matched, &[]);
        }
        let outer = self.outer();
        let mut pairs = std::mem::take(&mut self.pairs);
        let mut batches = self.enumerate(outer);
        while batches.next(&self.matches, outer, &[], self.cap, &mut pairs) {
            self.query.cancel.check()?;
            self.emit_pairs(chunk, std::mem::take(&mut pairs), emit)?;
        }
        self.pairs = pairs;
        Ok(())
    }

    /// Joins with at most one match per row: no enumeration, and no selection where every row has a match.
    fn join_unique(&mut self, chunk: &Chunk, emit: Emit<'_>) -> Result<()> {
        let starts = &self.matches.starts;
        if self.outer() || !has_null_row(starts) {
            let build = build_selection(starts.clone());
            return emit(self.output(chunk, None, Some(build), None));
        }
        let (mut rows, mut build) = (vec![0u32; starts.len()], vec![0u32; starts.len()]);
        let mut len = 0;
        for (row, &start) in starts.iter().enumerate() {
            rows[len] = row as u32;
            build[len] = start;
            len += usize::from(start != NULL_ROW);
        }
        if len == 0 {
            return Ok(());
        }
        rows.truncate(len);
        build.truncate(len);
        emit(self.output(chunk, Some(Arc::new(rows)), Some(Selection::Rows(Arc::new(build))), None))
    }

    /// As [`LocalProbe::join`], for the pairs that satisfy the condition.
    fn join_residual(&mut self, chunk: &Chunk, residual: &Residual, emit: Emit<'_>) -> Result<()> {
        self.matches.with_lens();
        let outer = self.outer();
        let flags = self.flags();
        let mut has_match = vec![false; if outer || flags.is_some() { chunk.len() } else { 0 }];
        let (mut pairs, mut passed) = (std::mem::take(&mut self.pairs), Pairs::default());
        let mut batches = self.enumerate(false);
        while batches.next(&self.matches, false, &[], self.cap, &mut pairs) {
            self.query.cancel.check()?;
            self.retain(chunk, residual, &mut pairs)?;
            if !has_match.is_empty() {
                pairs.probe.iter().for_each(|&row| has_match[row as usize] = true);
            }
            if self.tracks() {
                pairs.build.iter().for_each(|&row| self.spec.table.set_matched(row..row + 1));
            }
            if passed.len() + pairs.len() > self.cap || !self.logical {
                self.emit_pairs(chunk, std::mem::take(&mut passed), emit)?;
            }
            passed.probe.append(&mut pairs.probe);
            passed.build.append(&mut pairs.build);
        }
        self.emit_pairs(chunk, passed, emit)?;
        if let Some(flags) = flags {
            flags.add(chunk.sequence, &has_match, &[]);
            self.pairs = pairs;
            return Ok(());
        }
        let missing: Vec<u32> = (0..has_match.len() as u32).filter(|&row| !has_match[row as usize]).collect();
        let build = vec![NULL_ROW; missing.len()];
        self.emit_pairs(chunk, Pairs { probe: missing, build }, emit)?;
        self.pairs = pairs;
        Ok(())
    }

    /// Sets the match flags of every build row that was found.
    fn mark_build(&mut self) {
        self.matches.with_lens();
        for (&start, &len) in self.matches.starts.iter().zip(&self.matches.lens) {
            // Only some rows of a key may be within bounds.
            match len {
                0 => {}
                _ if self.spec.exprs.range.is_some() => self.spec.table.set_matched(start..start + len),
                _ => self.spec.table.set_group_matched(start..start + len),
            }
        }
        if self.spec.table.unique {
            self.matches.lens.clear();
        }
    }

    fn mark_build_residual(&mut self, chunk: &Chunk, residual: &Residual) -> Result<()> {
        self.matches.with_lens();
        let mut pairs = std::mem::take(&mut self.pairs);
        let mut batches = Enumerate::rows();
        while batches.next(&self.matches, false, &[], self.cap, &mut pairs) {
            self.query.cancel.check()?;
            self.retain(chunk, residual, &mut pairs)?;
            pairs.build.iter().for_each(|&row| self.spec.table.set_matched(row..row + 1));
        }
        self.pairs = pairs;
        Ok(())
    }

    /// Semi, anti and mark joins: emits input rows by whether they have a match.
    fn exists(&mut self, chunk: &Chunk, keys: &[Arc<Vector>], emit: Emit<'_>) -> Result<()> {
        let spec = self.spec.clone();
        self.matches.with_lens();
        let matched = match &spec.exprs.residual {
            None => self.matches.lens.iter().map(|&len| len > 0).collect(),
            Some(_) => {
                let matches = std::mem::take(&mut self.matches);
                let matched = self.any_pair(chunk, &matches, |_, _| true)?;
                self.matches = matches;
                matched
            }
        };
        let unknown = if spec.null_aware { self.unknown(chunk, keys, &matched)? } else { vec![] };
        if let Some(flags) = self.flags() {
            flags.add(chunk.sequence, &matched, &unknown);
            return Ok(());
        }
        self.emit_existing(chunk, matched, &unknown, emit)
    }

    /// Emits input rows by whether they matched, and whether that is unknown (empty: known for all).
    fn emit_existing(&self, chunk: &Chunk, matched: Vec<bool>, unknown: &[bool], emit: Emit<'_>) -> Result<()> {
        let spec = &self.spec;
        let keep = |wanted: bool| -> Vec<u32> {
            let wanted = |row: usize| matched[row] == wanted && !unknown.get(row).is_some_and(|&unknown| unknown);
            (0..chunk.len()).filter(|&row| wanted(row)).map(|row| row as u32).collect()
        };
        let rows = match spec.kind {
            JoinKind::ProbeSemi => keep(true),
            JoinKind::ProbeAnti => keep(false),
            _ => {
                let validity = spec.null_aware.then(|| Bitmap::from_fn(chunk.len(), |row| !unknown[row]));
                let mark = Vector::with_validity(Data::Bool(matched), validity);
                return emit(self.output(chunk, None, None, Some(mark)));
            }
        };
        match rows.len() {
            0 => Ok(()),
            len if len == chunk.len() => emit(self.output(chunk, None, None, None)),
            _ => emit(self.output(chunk, Some(Arc::new(rows)), None, None)),
        }
    }

    /// The rows for which `IN` is NULL: unmatched rows that have a pair that satisfies the condition and whose keys are not known to differ.
    fn unknown(&mut self, chunk: &Chunk, keys: &[Arc<Vector>], matched: &[bool]) -> Result<Vec<bool>> {
        let spec = self.spec.clone();
        let table = &spec.table;
        let nulls = null_keys(keys);
        let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.get(row));
        if table.rows() == 0 {
            return Ok(vec![false; chunk.len()]);
        }
        let build_nulls = table.rows - table.keyed;
        if spec.exprs.residual.is_none() && keys.len() == 1 {
            return Ok((0..chunk.len()).map(|row| !matched[row] && (build_nulls > 0 || is_null(row))).collect());
        }
        let mut candidates = Matches::default();
        for (row, &matched) in matched.iter().enumerate() {
            let (start, len) = match (matched, is_null(row)) {
                (true, _) => (0, 0),
                (false, true) => (0, table.rows),
                (false, false) => (table.keyed, build_nulls),
            };
            candidates.starts.push(start as u32);
            candidates.lens.push(len as u32);
        }
        self.any_pair(chunk, &candidates, |i, row| table.maybe_equal(keys, i as usize, row as usize))
    }

    /// Per row of the chunk, whether one of its pairs in `matches` passes `test` and the condition.
    fn any_pair(&mut self, chunk: &Chunk, matches: &Matches, test: impl Fn(u32, u32) -> bool) -> Result<Vec<bool>> {
        let spec = self.spec.clone();
        let mut found = vec![false; chunk.len()];
        let mut pairs = std::mem::take(&mut self.pairs);
        let mut batches = Enumerate::steps(matches, false, true);
        while batches.next(matches, false, &found, self.cap, &mut pairs) {
            self.query.cancel.check()?;
            let passes: Vec<u32> =
                (0..pairs.len() as u32).filter(|&i| test(pairs.probe[i as usize], pairs.build[i as usize])).collect();
            pairs.keep(&passes);
            if let Some(residual) = &spec.exprs.residual {
                self.retain(chunk, residual, &mut pairs)?;
            }
            pairs.probe.iter().for_each(|&row| found[row as usize] = true);
        }
        self.pairs = pairs;
        Ok(found)
    }

    /// Keeps only the pairs that satisfy the condition.
    fn retain(&mut self, chunk: &Chunk, residual: &Residual, pairs: &mut Pairs) -> Result<()> {
        if pairs.len() == 0 {
            return Ok(());
        }
        let candidates = residual.columns.chunk(Joined {
            input: chunk,
            rows: Some(Arc::new(pairs.probe.clone())),
            payload: &self.spec.table.payload,
            build: Some(Selection::Rows(Arc::new(pairs.build.clone()))),
            mark: None,
        });
        if let Some(passes) = residual.condition.select(&candidates, &mut self.worker)? {
            pairs.keep(&passes);
        }
        Ok(())
    }

    fn emit_pairs(&self, chunk: &Chunk, pairs: Pairs, emit: Emit<'_>) -> Result<()> {
        if pairs.len() == 0 {
            return Ok(());
        }
        let build = build_selection(pairs.build);
        emit(self.output(chunk, Some(Arc::new(pairs.probe)), Some(build), None))
    }

    fn output(
        &self,
        input: &Chunk,
        rows: Option<Arc<Vec<u32>>>,
        build: Option<Selection>,
        mark: Option<Vector>,
    ) -> Chunk {
        self.spec.output.chunk(Joined { input, rows, payload: &self.spec.table.payload, build, mark })
    }
}

fn build_selection(rows: Vec<u32>) -> Selection {
    if has_null_row(&rows) { Selection::RowsOrNull(Arc::new(rows)) } else { Selection::Rows(Arc::new(rows)) }
}
