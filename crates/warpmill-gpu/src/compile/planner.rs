//! Chooses the layout of each sink in device memory before code is generated: from types, row bounds, estimates, and hints of earlier runs.

mod narrow;
mod pruning;

use warpmill_ir::{
    AggregateExpr, BuildRows, Expr, JoinKind, Operator, Pipeline, Probe, Program, Sink, SinkId, Source, Unsupported,
};

use super::aggregates::Aggregates;
use super::asof;
use super::cpp::CType;
use super::estimate;
use super::filters::{ScanFilters, selectivities};
use super::grouped;
use super::hints::{Hints, Limits};
use super::keys::{KeyShape, quick_columns};
use super::layout::{
    BuildLayout, GroupLayout, GroupTable, Grouped, KeyOrder, RowsLayout, SinkLayout, Sorted, Table, Top, Windowed,
};
use super::order;
use super::probe::compares_unknown;
use super::sort::{FEW_ROWS, TEXT_WORDS};
use super::storage::{FlatColumn, Storage};
use super::top::is_computable;

/// Lays out all sinks of `program`. `inputs` has the rows of each external input.
///
/// # Errors
/// Operations that the device does not support, filters that cannot be evaluated.
pub fn sinks(program: &Program, inputs: &[u64], hints: &Hints, limits: Limits) -> Result<Vec<SinkLayout>, Unsupported> {
    lay_out(program, &selectivities(program, &ScanFilters::of_program(program)?), inputs, hints, limits)
}

/// The same with the selectivity of each pipeline's scan filters; the filters themselves are not looked at.
///
/// # Errors
/// Operations that the device does not support.
pub fn lay_out(
    program: &Program,
    selectivities: &[f64],
    inputs: &[u64],
    hints: &Hints,
    limits: Limits,
) -> Result<Vec<SinkLayout>, Unsupported> {
    let mut bounds: Vec<u64> = vec![0; program.sinks.len()];
    let mut estimates: Vec<f64> = vec![0.0; program.sinks.len()];
    let mut layouts: Vec<Option<SinkLayout>> = vec![None; program.sinks.len()];
    let mut on_host = vec![false; program.sinks.len()];
    let mut fractions: Vec<f64> = vec![1.0; program.sinks.len()];
    for (index, pipeline) in program.pipelines.iter().enumerate() {
        let rows = source_rows(pipeline, inputs, &bounds);
        bounds[pipeline.sink] = bounds[pipeline.sink].saturating_add(rows);
        estimates[pipeline.sink] +=
            estimate::rows(pipeline, selectivities[index], inputs, &estimates, |build| fractions[build]);
        on_host[pipeline.sink] |= matches!(&pipeline.source, Source::Rows { sink, .. } if on_host[*sink]);
        let last = program.pipelines[index + 1..].iter().all(|later| later.sink != pipeline.sink);
        if last {
            let estimate = estimates[pipeline.sink].min(bounds[pipeline.sink] as f64).max(1.0);
            let (id, rows) = (pipeline.sink, bounds[pipeline.sink]);
            let planner =
                Planner { program, hints, limits, id, rows, estimate, on_host: on_host[id], fractions: &fractions };
            let (layout, bound) = planner.layout()?;
            match &layout {
                SinkLayout::Groups(groups) => estimates[id] = groups.rows.capacity as f64,
                SinkLayout::Rows(RowsLayout { sorted: Some(sorted), .. }) => {
                    estimates[id] = estimates[id].min(sorted.rows.capacity as f64);
                }
                SinkLayout::Rows(RowsLayout { grouped: Some(_), .. }) => {
                    estimates[id] = estimates[id].min(planner.expected_groups());
                }
                SinkLayout::Rows(_) => on_host[id] |= matches!(program.sinks[id], Sink::Sort { .. }),
                SinkLayout::Build(build) => fractions[id] = build.fraction,
            }
            bounds[pipeline.sink] = bound;
            layouts[pipeline.sink] = Some(layout);
        }
    }
    layouts.into_iter().collect::<Option<_>>().ok_or_else(|| Unsupported::new("program", "a sink that nothing feeds"))
}

/// Upper bound of the rows that a pipeline starts with, if no join multiplies rows.
fn source_rows(pipeline: &Pipeline, inputs: &[u64], bounds: &[u64]) -> u64 {
    match &pipeline.source {
        Source::Scan(scan) => scan.table.num_rows(),
        Source::Rows { sink, .. } | Source::Build { sink, .. } => bounds[*sink],
        Source::Input { input, .. } => inputs.get(*input).copied().unwrap_or(0),
        Source::Values { rows, .. } => rows.len() as u64,
    }
}

struct Planner<'a> {
    program: &'a Program,
    hints: &'a Hints,
    limits: Limits,
    id: SinkId,
    /// Upper bound of the rows that reach the sink, if no join multiplies them.
    rows: u64,
    /// Estimated rows that reach the sink.
    estimate: f64,
    /// Whether some rows come from the host.
    on_host: bool,
    /// The fraction of its source's rows that each earlier hash build holds; 1 for other sinks.
    fractions: &'a [f64],
}

/// Fraction of rows reaching an aggregation that justifies a large table in shared memory, at the expense of the cache.
const MANY: f64 = 0.02;

/// Bytes of shared memory that a group table may always take.
const SMALL_SHARED: u64 = 16 << 10;

/// Largest number of words of a record that each thread sums in registers.
const MOST_COMBINED: usize = 4;

/// Slots of an open-addressing table for `rows` rows.
fn slots_for(rows: u64) -> u64 {
    (2 * rows).next_power_of_two().max(1024)
}

/// Number of rows from which sinks reserve positions per warp.
const MANY_ROWS: u64 = 1 << 20;

/// Capacity for `rows` rows, including positions that warps may reserve in vain.
pub fn with_reserved(rows: u64) -> u64 {
    if rows > MANY_ROWS { rows.saturating_add(1 << 21) } else { rows }
}

impl Planner<'_> {
    fn layout(&self) -> Result<(SinkLayout, u64), Unsupported> {
        Ok(match &self.program.sinks[self.id] {
            Sink::HashBuild { .. } => self.build()?,
            Sink::Aggregate { groups, aggregates, .. } => {
                let layout = self.groups(groups, aggregates)?;
                let bound = layout.rows.capacity;
                (SinkLayout::Groups(layout), bound)
            }
            sink @ Sink::Window { fields, .. } => {
                let columns = FlatColumn::all(&self.owner(), fields);
                let capacity = self.capacity();
                // Rows that come from the host get their window functions there, too.
                let window = (!self.on_host).then(|| self.windowed(sink, &columns, capacity)).transpose()?;
                let window = window.map(Box::new);
                (SinkLayout::Rows(RowsLayout { columns, capacity, window, ..RowsLayout::default() }), capacity)
            }
            sink @ Sink::Functions { .. } => {
                if self.hints.host_sorts.contains(&self.id) {
                    let reason = "by strings that differ behind 248 bytes only";
                    return Err(Unsupported::new("functions of groups", reason));
                }
                let capacity = self.capacity();
                grouped::check_loops(sink, self.estimate, self.expected_groups())?;
                let (columns, grouped) = Grouped::of(self.id, sink, capacity, self.text_words())?;
                let grouped = Some(Box::new(grouped));
                (SinkLayout::Rows(RowsLayout { columns, capacity, grouped, ..RowsLayout::default() }), capacity)
            }
            Sink::Sort { fields, .. } | Sink::Collect { fields } => {
                let columns = FlatColumn::all(&self.owner(), fields);
                let capacity = self.capacity();
                let told_apart = !self.hints.all_rows.contains(&self.id);
                let top = Top::of(self.id, &self.program.sinks[self.id], capacity).filter(|_| told_apart).map(Box::new);
                let sorted = self.sorted(top.as_ref().map_or(capacity, |top| top.rows.capacity)).map(Box::new);
                let bound = sorted.as_ref().map_or(capacity, |sorted| sorted.rows.capacity);
                (SinkLayout::Rows(RowsLayout { columns, capacity, top, sorted, ..RowsLayout::default() }), bound)
            }
        })
    }

    /// The sort of the sink's rows on the device, with capacity `capacity`; `None`: the host sorts, because there are few rows or the device cannot.
    fn sorted(&self, capacity: u64) -> Option<Sorted> {
        let Sink::Sort { keys, skip, fetch, fields } = &self.program.sinks[self.id] else { return None };
        let possible = !self.on_host
            && !self.hints.host_sorts.contains(&self.id)
            && capacity < u64::from(u32::MAX)
            && !keys.is_empty()
            && keys.iter().all(|key| is_computable(&key.expr, fields))
            && order::device_reads(self.program, self.id);
        let limit = fetch.map_or(f64::INFINITY, |fetch| fetch.saturating_add(*skip) as f64);
        let many = self.estimate.min(limit) > FEW_ROWS as f64;
        if !possible || !many && order::host_reads(self.program, self.id) {
            return None;
        }
        Some(Sorted::of(self.id, (keys, fields), (*skip, *fetch), capacity, self.text_words()))
    }

    /// The evaluation of a window's functions; `columns` are the output columns.
    fn windowed(&self, sink: &Sink, columns: &[FlatColumn], capacity: u64) -> Result<Windowed, Unsupported> {
        if self.hints.host_sorts.contains(&self.id) {
            return Err(Unsupported::new("window", "by strings that differ behind 248 bytes only"));
        }
        Windowed::of(self.id, sink, columns, capacity, self.text_words())
    }

    fn owner(&self) -> String {
        format!("sink{}", self.id)
    }

    /// Capacity of the sink in rows.
    fn capacity(&self) -> u64 {
        let few = self.limits.few_rows;
        let guess = match (self.rows <= few, self.hints.frugal) {
            (true, _) => self.rows,
            (false, true) => few,
            (false, false) => self.rows.min((self.estimate * 1.3) as u64 + few),
        };
        self.hints.capacity.get(&self.id).copied().unwrap_or(guess).max(1)
    }

    /// Strict upper bound of the rows that reach the sink, joins included.
    fn most_rows(&self) -> u64 {
        let multiplies = |operator: &Operator| {
            matches!(operator, Operator::Probe(probe)
                if probe.asof.is_none() && !matches!(probe.kind, JoinKind::ProbeSemi | JoinKind::ProbeAnti | JoinKind::ProbeMark))
        };
        let mut feeding = self.program.pipelines.iter().filter(|pipeline| pipeline.sink == self.id);
        let exact = feeding.all(|pipeline| {
            matches!(pipeline.source, Source::Scan(_) | Source::Values { .. })
                && !pipeline.operators.iter().any(multiplies)
        });
        if exact { self.rows } else { 1 << 40 }
    }

    fn build(&self) -> Result<(SinkLayout, u64), Unsupported> {
        let Sink::HashBuild { keys, payload, fields, null_equals_null, track_matches, order } =
            &self.program.sinks[self.id]
        else {
            unreachable!("called for hash builds")
        };
        let keys = &narrow::narrowed(self.program, self.id, keys);
        // Ordered builds also serve range conditions, which devices evaluate as residuals.
        let time = order.as_ref().filter(|_| self.probes().any(|probe| probe.asof.is_some()));
        let shape = KeyShape::of(keys.iter().map(|key| &key.ty), *null_equals_null);
        let capacity = self.capacity();
        let on_host = self.hints.is_on_host(self.id);
        let payload_bytes: u64 =
            FlatColumn::all("", fields).iter().map(|column| column.row_bytes() as u64).sum::<u64>() + 1;
        let only_exists = payload.is_empty() && !track_matches && !self.has_residual();
        let table = match &shape {
            KeyShape::None => Table::All,
            _ if self.probes().any(compares_unknown) => Table::Wide,
            KeyShape::Wide => Table::Wide,
            KeyShape::Packed { cells, .. } if time.is_some() => {
                let fits = *cells <= 16 * self.rows + (1 << 16) && 8 * cells <= self.limits.table_bytes;
                if fits && *cells < u64::from(u32::MAX) { Table::Direct } else { Table::Hash }
            }
            KeyShape::Packed { cells, .. } => {
                // NULL keys have no bit in a bitmap, but their rows may be needed.
                let null_rows = *track_matches && keys.iter().any(|key| key.ty.nullable) && !null_equals_null;
                let few = *cells <= 16 * self.rows + (1 << 16);
                // With rows on the host, a smaller table leaves more room for keys.
                let direct_bytes = match on_host {
                    true => self.limits.table_bytes.max(slots_for(capacity).saturating_mul(12)),
                    false => self.limits.table_bytes,
                };
                // Rows on the host may be stored at the positions of their keys if few positions stay empty.
                let bitmap_bytes = match on_host && *cells <= 2 * self.rows {
                    true => cells / 8,
                    false => cells / 8 + cells.saturating_mul(payload_bytes),
                };
                // Positions are 32-bit numbers, the last of which means none.
                let numbered = *cells < u64::from(u32::MAX);
                let marks = only_exists
                    && numbered
                    && cells / 8 <= self.limits.table_bytes
                    && *cells / 64 <= self.rows + (1 << 20);
                let fits = few && numbered && bitmap_bytes <= self.limits.table_bytes;
                if marks || (fits && !null_rows && self.is_unique(keys)) {
                    Table::Bitmap
                } else if few && 4 * cells <= direct_bytes && capacity < u64::from(u32::MAX) {
                    Table::Direct
                } else {
                    Table::Hash
                }
            }
        };
        let rows = match (&table, shape.cells()) {
            (Table::Bitmap, Some(cells)) => cells,
            _ => capacity,
        };
        if table != Table::Bitmap && rows >= u64::from(u32::MAX) {
            return Err(Unsupported::new("hash build", format!("{rows} rows are more than 32-bit row numbers hold")));
        }
        let owner = self.owner();
        let key_columns = match table {
            Table::Wide => {
                keys.iter().enumerate().map(|(i, key)| FlatColumn::new(&format!("{owner}.key"), i, &key.ty)).collect()
            }
            _ => vec![],
        };
        let slots = match time {
            Some(_) if table == Table::Hash => slots_for(self.keys_of(keys, rows)),
            _ => slots_for(rows),
        };
        let order = time.map(|time| self.key_order(time, (table, &shape, slots), rows)).transpose()?;
        // Reserved positions may stay unused, so the rows must not be read sequentially.
        let chained = match &order {
            Some(order) => order.marks_rows(),
            None => matches!(table, Table::Direct | Table::Hash),
        };
        // Unused positions must look like rows that are not read.
        let read = self.rows_read();
        let hides_unused = match read.as_slice() {
            [] => !track_matches,
            [first, ..] => *first != BuildRows::Marked && read.iter().all(|rows| rows == first),
        };
        let reserves = chained && hides_unused && (read.is_empty() || order.is_none()) && rows > MANY_ROWS;
        let rows = if reserves { with_reserved(rows) } else { rows };
        let order = order.map(|order| Box::new(order.with_capacity(rows)));
        let from: f64 = self.source_rows();
        let layout = BuildLayout {
            fraction: (self.estimate / from.max(1.0)).min(1.0),
            folded_bits: self.folded_bits(),
            reserves,
            flags_unused: reserves && read.contains(&BuildRows::Unmatched),
            bounds: self.bounds(keys),
            bitmaps: if (table == Table::Bitmap && keys.len() == 1) || *null_equals_null {
                vec![]
            } else {
                self.bitmaps(keys)
            },
            keys: shape,
            table,
            payload: FlatColumn::all(&owner, fields),
            key_columns,
            capacity: rows,
            slots,
            track_matches: *track_matches,
            only_exists,
            null_equals_null: *null_equals_null,
            partition: None,
            on_host: on_host && !payload.is_empty(),
            order,
        };
        Ok((SinkLayout::Build(layout), rows))
    }

    /// The order of the rows of each key for ASOF joins, for a table with `slots` slots and `capacity` rows.
    fn key_order(
        &self,
        time: &Expr,
        (table, shape, slots): (Table, &KeyShape, u64),
        capacity: u64,
    ) -> Result<KeyOrder, Unsupported> {
        let refuse = |reason: &str| Err(Unsupported::new("ASOF join", reason));
        if self.probes().any(|probe| probe.asof.is_none()) {
            return refuse("with rows that another join compares with all of their key");
        }
        if self.hints.host_sorts.contains(&self.id) {
            return refuse("by strings that differ behind 248 bytes only");
        }
        if capacity > asof::MOST_ROWS {
            return refuse(&format!("with more than {} rows to choose from", asof::MOST_ROWS));
        }
        let keys = match table {
            Table::All => None,
            Table::Direct => shape.cells(),
            _ => Some(slots),
        };
        Ok(KeyOrder::of(self.id, time, (table, keys), capacity, self.text_words()))
    }

    /// Estimated number of groups of group functions.
    fn expected_groups(&self) -> f64 {
        let Sink::Functions { groups, .. } = &self.program.sinks[self.id] else { return self.estimate };
        let mut feeding = self.program.pipelines.iter().filter(|pipeline| pipeline.sink == self.id);
        let expected = match (feeding.next(), feeding.next()) {
            (Some(pipeline), None) => estimate::groups(self.program, pipeline, groups),
            _ => None,
        };
        expected.unwrap_or(self.estimate).min(self.estimate).max(1.0)
    }

    /// Capacity in keys for at most `rows` rows: numbers of few keys have few digits to sort by.
    fn keys_of(&self, keys: &[Expr], rows: u64) -> u64 {
        let feeding: Vec<&Pipeline> = self.program.pipelines.iter().filter(|p| p.sink == self.id).collect();
        let expected = match feeding.as_slice() {
            [pipeline] if !self.hints.capacity.contains_key(&self.id) => estimate::groups(self.program, pipeline, keys),
            _ => None,
        };
        expected.map_or(rows, |keys| rows.min((1.3 * keys) as u64 + 64))
    }

    /// Number of words of strings that sorts compare.
    fn text_words(&self) -> u32 {
        self.hints.text_words.get(&self.id).copied().unwrap_or(TEXT_WORDS)
    }

    /// The rows of this build that pipelines read as their source.
    fn rows_read(&self) -> Vec<BuildRows> {
        let read = |pipeline: &Pipeline| match pipeline.source {
            Source::Build { sink, rows, .. } if sink == self.id => Some(rows),
            _ => None,
        };
        self.program.pipelines.iter().filter_map(read).collect()
    }

    /// Rows of the tables that feed the sink.
    fn source_rows(&self) -> f64 {
        let feeding = self.program.pipelines.iter().filter(|pipeline| pipeline.sink == self.id);
        let rows = feeding.map(|pipeline| match &pipeline.source {
            Source::Scan(scan) => scan.table.num_rows() as f64,
            _ => self.rows as f64,
        });
        rows.sum()
    }

    /// Probes of this build.
    fn probes(&self) -> impl Iterator<Item = &Probe> {
        self.program.pipelines.iter().flat_map(|pipeline| &pipeline.operators).filter_map(|operator| match operator {
            Operator::Probe(probe) if probe.build == self.id => Some(probe),
            _ => None,
        })
    }

    /// Whether probes read rows of the build.
    fn has_residual(&self) -> bool {
        let only_exists = |probe: &Probe| {
            probe.residual.is_none()
                && matches!(probe.kind, JoinKind::ProbeSemi | JoinKind::ProbeAnti | JoinKind::ProbeMark)
        };
        !self.probes().all(only_exists)
    }

    /// Whether keys are expected to be unique; a wrong guess is detected, and the query run again.
    fn is_unique(&self, keys: &[Expr]) -> bool {
        if self.hints.repeated_keys.contains(&self.id) {
            return false;
        }
        let feeding: Vec<&Pipeline> = self.program.pipelines.iter().filter(|p| p.sink == self.id).collect();
        let ([pipeline], [key]) = (feeding.as_slice(), keys) else { return false };
        source_is_unique(self.program, pipeline, key)
    }

    /// Whether a group table of `bytes` bytes in each block's shared memory is worth it.
    fn shares(&self, bytes: u64) -> bool {
        bytes <= SMALL_SHARED
            || (bytes <= self.limits.shared_bytes.into() && self.estimate >= MANY * self.source_rows())
    }

    /// Capacity in groups.
    fn groups_capacity(&self, groups: &[Expr]) -> u64 {
        if let Some(&capacity) = self.hints.capacity.get(&self.id) {
            return capacity.max(1);
        }
        let few = self.limits.few_rows;
        if self.rows <= few || self.hints.frugal {
            return self.rows.min(few).max(1);
        }
        let feeding: Vec<&Pipeline> = self.program.pipelines.iter().filter(|p| p.sink == self.id).collect();
        let distinct = match feeding.as_slice() {
            [pipeline] => estimate::groups(self.program, pipeline, groups),
            _ => None,
        };
        let rows = self.estimate * 1.3;
        let groups = distinct.map_or(rows, |distinct| (distinct * 1.2).min(rows));
        self.rows.min(groups as u64 + few)
    }

    fn groups(&self, groups: &[Expr], aggregates: &[AggregateExpr]) -> Result<GroupLayout, Unsupported> {
        let groups = &narrow::narrowed(self.program, self.id, groups);
        let mut plan = Aggregates::default();
        let rows = self.most_rows();
        for aggregate in aggregates {
            plan.add(aggregate, rows, !groups.is_empty())?;
        }
        let keys = KeyShape::of(groups.iter().map(|group| &group.ty), true);
        let bytes = |cells: u64, words: usize| cells.saturating_mul(8 * words as u64);
        let capacity = self.groups_capacity(groups);
        let marked = !plan.tells_presence();
        let words = plan.words + usize::from(marked);
        let table = match (&keys, keys.cells()) {
            (KeyShape::None, _) => GroupTable::One,
            (_, Some(cells)) if plan.distinct.is_empty() && cells.saturating_mul(words as u64) <= 64 => {
                GroupTable::Private
            }
            (_, Some(cells)) if plan.distinct.is_empty() && self.shares(bytes(cells, words)) => GroupTable::Shared,
            (_, Some(cells))
                if cells <= 4 * self.rows + (1 << 18) && bytes(cells, plan.words) <= self.limits.table_bytes =>
            {
                GroupTable::Dense
            }
            (_, Some(_)) => GroupTable::Hash,
            (_, None) => GroupTable::Wide,
        };
        // Groups without rows do not exist; open addressing recognizes them by empty keys.
        let marked = marked && table == GroupTable::Dense;
        let counted = marked.then(|| plan.counted()).flatten();
        let indexed = matches!(table, GroupTable::Private | GroupTable::Shared | GroupTable::Dense);
        let presence = (indexed && !marked).then(|| plan.presence());
        let mut feeding = self.program.pipelines.iter().filter(|pipeline| pipeline.sink == self.id);
        let combined = table == GroupTable::Dense
            && plan.words <= MOST_COMBINED
            && plan.slots.iter().all(|slot| slot.accumulator.is_plain())
            && feeding.all(|pipeline| matches!(pipeline.source, Source::Scan(_)));
        let most = keys.cells().unwrap_or(u64::MAX).min(capacity);
        let owner = self.owner();
        for (index, set) in plan.distinct.iter_mut().enumerate() {
            let ty = plan.arguments[set.argument].ty.with_nullable(false);
            let values = KeyShape::of([&ty], false).cells();
            let members = values.and_then(|values| values.checked_mul(4 * keys.cells().unwrap_or(capacity).max(most)));
            if members.is_none_or(|members| members > 1 << 63) {
                let storage = Storage::Whole(CType::U64);
                let group =
                    FlatColumn { buffer: format!("{owner}.set{index}.0"), ty: CType::U64, storage, nullable: false };
                set.columns = vec![group, FlatColumn::new(&format!("{owner}.set{index}"), 1, &ty)];
            }
        }
        let cells = match table {
            GroupTable::One => 1,
            GroupTable::Private | GroupTable::Shared | GroupTable::Dense => keys.cells().unwrap_or(1),
            GroupTable::Hash => (2 * most).next_power_of_two().max(1024),
            GroupTable::Wide => capacity,
        };
        let key_columns = match table {
            GroupTable::Wide => {
                groups.iter().enumerate().map(|(i, key)| FlatColumn::new(&format!("{owner}.key"), i, &key.ty)).collect()
            }
            _ => vec![],
        };
        let most = if table == GroupTable::One { 1 } else { most.min(cells) };
        let reserves = most > MANY_ROWS;
        let rows = RowsLayout {
            columns: FlatColumn::all(&owner, self.program.sinks[self.id].fields()),
            capacity: with_reserved(most),
            reserves,
            ..RowsLayout::default()
        };
        // Many rows of few groups would all wait for the same words of the global table.
        let own_slots = (2 * most).next_power_of_two();
        let own = table == GroupTable::Hash
            && self.hints.counted.contains(&self.id)
            && !self.hints.makes_parts()
            && bytes(own_slots, plan.words + 1) <= SMALL_SHARED
            && plan.distinct.is_empty()
            && plan.slots.iter().all(|slot| slot.accumulator.is_plain());
        Ok(GroupLayout {
            keys,
            own_slots: own.then_some(own_slots),
            table,
            key_columns,
            quick: quick_columns(groups.iter().map(|group| &group.ty)).filter(|_| table == GroupTable::Wide),
            distinct_slots: (2 * self.capacity()).next_power_of_two().max(1024),
            arguments: plan.arguments,
            filters: plan.filters,
            distinct: plan.distinct,
            slots: plan.slots,
            outputs: plan.outputs,
            presence,
            marked,
            counted,
            combined,
            words: plan.words,
            cells,
            rows,
            partition: None,
        })
    }
}

/// Whether the values of `key` at the end of `pipeline` are probably unique: the column that they come from is a key of its table. Joins are assumed
/// not to repeat rows.
fn source_is_unique(program: &Program, pipeline: &Pipeline, key: &Expr) -> bool {
    let Some(column) = estimate::source_column(pipeline, key) else { return false };
    match &pipeline.source {
        Source::Scan(scan) => {
            let rows = scan.table.num_rows();
            let distinct = scan.table.column_stats(scan.columns[column]).distinct;
            distinct.is_some_and(|distinct| distinct as f64 >= 0.9 * rows as f64)
        }
        Source::Rows { sink, .. } => match &program.sinks[*sink] {
            Sink::Aggregate { groups, .. } => groups.len() == 1 && column == 0,
            _ => false,
        },
        _ => false,
    }
}
