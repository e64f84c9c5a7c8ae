//! Translation of joins into a hash build and probes.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use warpmill_ir::{
    Asof, BuildRows, ColType, Expr, ExprKind, Field, JoinKind, Operator, Probe, PruneKey, Sink, SinkId, Source,
    Unsupported,
};

use super::asof_exec::{AsofJoinExec, AsofMatch};
use super::expr::{Limit, Scope, comparable};
use super::stream::{Branch, Origin, Rows, ScanPlace, Stream};
use super::{Translator, range, scope, subquery_scope};

/// A join in DataFusion's terms.
struct Join<'a> {
    name: &'a str,
    left: &'a Arc<dyn ExecutionPlan>,
    right: &'a Arc<dyn ExecutionPlan>,
    on: &'a [(PhysicalExprRef, PhysicalExprRef)],
    filter: Option<&'a JoinFilter>,
    join_type: JoinType,
    null_equality: NullEquality,
    null_aware: bool,
    projection: Option<&'a [usize]>,
    /// The order of right-side rows with equal keys, for joins that take only the nearest.
    asof: Option<&'a AsofMatch>,
    /// Whether the left side is the build side.
    build_left: bool,
}

/// The build rows emitted after all probes, if any.
type AfterProbes = Option<BuildRows>;

impl Translator<'_> {
    pub(super) fn hash_join(&mut self, node: &HashJoinExec) -> Result<Stream, Unsupported> {
        self.join(Join {
            name: "HashJoinExec",
            left: node.left(),
            right: node.right(),
            on: node.on(),
            filter: node.filter(),
            join_type: *node.join_type(),
            null_equality: node.null_equality(),
            null_aware: node.null_aware,
            projection: node.projection.as_deref(),
            asof: None,
            // NOT IN streams the rows that it keeps: only then are NULLs among the other rows known in time.
            build_left: !node.null_aware,
        })
    }

    pub(super) fn sort_merge_join(&mut self, node: &SortMergeJoinExec) -> Result<Stream, Unsupported> {
        self.join(Join {
            name: "SortMergeJoinExec",
            left: unsorted(node.left()),
            right: unsorted(node.right()),
            on: node.on(),
            filter: node.filter().as_ref(),
            join_type: node.join_type(),
            null_equality: node.null_equality(),
            null_aware: false,
            projection: None,
            asof: None,
            // The side whose rows or match marks are emitted streams.
            build_left: matches!(
                node.join_type(),
                JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark
            ),
        })
    }

    pub(super) fn nested_loop_join(&mut self, node: &NestedLoopJoinExec) -> Result<Stream, Unsupported> {
        self.join(Join {
            name: "NestedLoopJoinExec",
            left: node.left(),
            right: node.right(),
            on: &[],
            filter: node.filter(),
            join_type: *node.join_type(),
            null_equality: NullEquality::NullEqualsNothing,
            null_aware: false,
            projection: node.projection().as_deref(),
            asof: None,
            build_left: true,
        })
    }

    pub(super) fn asof_join(&mut self, node: &AsofJoinExec) -> Result<Stream, Unsupported> {
        self.join(Join {
            name: "AsofJoinExec",
            left: node.left(),
            right: node.right(),
            on: node.on(),
            filter: None,
            join_type: node.join_type(),
            null_equality: NullEquality::NullEqualsNothing,
            null_aware: false,
            projection: None,
            asof: Some(node.nearest()),
            build_left: false,
        })
    }

    pub(super) fn cross_join(&mut self, node: &CrossJoinExec) -> Result<Stream, Unsupported> {
        self.join(Join {
            name: "CrossJoinExec",
            left: node.left(),
            right: node.right(),
            on: &[],
            filter: None,
            join_type: JoinType::Inner,
            null_equality: NullEquality::NullEqualsNothing,
            null_aware: false,
            projection: None,
            asof: None,
            build_left: true,
        })
    }

    fn join(&mut self, mut join: Join<'_>) -> Result<Stream, Unsupported> {
        let (mut build_plan, mut probe_plan) =
            if join.build_left { (join.left, join.right) } else { (join.right, join.left) };
        let mut build = self.stream(build_plan)?;
        let first = self.pipelines.len();
        let mut probe = self.stream(probe_plan)?;
        let turned = join.on.is_empty() && range::builds_left(join.filter) == Some(!join.build_left);
        if turned && !join.null_aware && join.asof.is_none() && build.rows.likely >= range::MANY {
            // The other side's values are sorted, so that rows between two values of this side are found by search.
            (build_plan, probe_plan) = (probe_plan, build_plan);
            std::mem::swap(&mut build, &mut probe);
            join.build_left = !join.build_left;
        }
        let join = join;
        let build_on = join.on.iter().map(|(l, r)| if join.build_left { l } else { r });
        let probe_on = join.on.iter().map(|(l, r)| if join.build_left { r } else { l });
        let order = join.asof.map(|asof| &asof.order);
        self.attach_subqueries(&mut build, build_on.clone().chain(order))?;
        let build_schema = build_plan.schema();
        let build_keys = keys(&scope(&build, &build_schema), build_on)?;
        let order = order.map(|order| scope(&build, &build_schema).expr(order)).transpose()?;
        let value = join.asof.map(|asof| &asof.value);
        let filter = join.filter.map(JoinFilter::expression);
        self.attach_subqueries(&mut probe, probe_on.clone().chain(filter).chain(value))?;
        let probe_keys = keys(&scope(&probe, &probe_plan.schema()), probe_on)?;
        let value = value.map(|value| scope(&probe, &probe_plan.schema()).expr(value)).transpose()?;
        let limit = Limit::of_keys(build.rows.likely + probe.rows.likely);
        let pairs = build_keys.into_iter().zip(probe_keys).map(|(b, p)| {
            let text = format!("{b} = {p}");
            let (b, p) = limit.one_dictionary(limit.encode(b), limit.encode(p));
            comparable(b, p).ok_or_else(|| Unsupported::new(join.name, format!("join keys of these types: {text}")))
        });
        let (build_keys, probe_keys): (Vec<_>, Vec<_>) = pairs.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();

        let (order, asof) = match (order, value, join.asof) {
            (Some(order), Some(value), Some(asof)) => {
                let text = format!("{value} and {order}");
                let alike = comparable(order, value);
                let (order, value) = alike
                    .ok_or_else(|| Unsupported::new(join.name, format!("an inequality of these types: {text}")))?;
                (Some(order), Some(Asof { value, nearest: asof.nearest }))
            }
            _ => (None, None),
        };
        let null_aware = join.null_aware;
        let (kind, after) = kind_of(join.join_type, join.build_left);
        let residual = match join.filter {
            Some(filter) => {
                let condition = self.condition(filter.expression())?;
                Some(scope_of_pairs(&join, filter, &probe, &build)?.expr(&condition)?)
            }
            None => None,
        };
        let (order, range) = match (order, &residual) {
            (None, Some(residual)) if !null_aware && join.null_equality == NullEquality::NullEqualsNothing => {
                let repeats = join.on.is_empty() || range::many_of_a_key(&build, &build_keys);
                match range::of(residual, probe.fields.len()).filter(|found| repeats && found.pays(&build_keys)) {
                    Some(found) => (Some(found.order), Some(found.range)),
                    None => (None, None),
                }
            }
            (order, _) => (order, None),
        };
        let rows = if asof.is_some() { probe.rows } else { joined_rows(kind, &build, &probe, &build_keys) };
        let build_shape = (build.fields.clone(), build.columns.clone(), build.distinct.clone());
        let (sink, origin) = self.build(build, (build_keys, order), &join, after.is_some());
        let probe_template = Probe {
            build: sink,
            kind,
            keys: probe_keys,
            residual,
            asof,
            range,
            null_aware,
            output: vec![],
            fields: vec![],
        };
        self.prune_scans(&mut probe, &probe_template, first);
        joined_origins(&mut probe, &probe_template, &self.sinks[sink], &origin);
        let mut stream = self.probe(probe, probe_template, build_shape, after, rows);
        project_join(&join, &mut stream);
        Ok(stream.0)
    }

    /// Ends `build` in a hash build. Returns the sink and the origins of its columns for probing pipelines.
    fn build(
        &mut self,
        build: Stream,
        (keys, order): (Vec<Expr>, Option<Expr>),
        join: &Join<'_>,
        track_matches: bool,
    ) -> (SinkId, Vec<Vec<Origin>>) {
        let fields = build.fields.clone();
        let sink = self.sinks.len();
        let mut origins = vec![vec![]; fields.len()];
        for (i, branch) in build.branches.iter().enumerate() {
            origins.iter_mut().enumerate().for_each(|(column, all)| all.extend(branch.origins_below(column, sink, i)));
        }
        let sink = Sink::HashBuild {
            keys,
            payload: (0..fields.len()).collect(),
            fields,
            null_equals_null: join.null_equality == NullEquality::NullEqualsNull,
            track_matches,
            order,
        };
        (self.finish(build, sink), origins)
    }

    /// Prunes the scans whose rows the join of `probe` drops. These include scans of builds that the probe side probes, and of groups that are its
    /// rows: their pipelines follow from `first` on, and the join's own build is moved before them.
    fn prune_scans(&mut self, input: &mut Stream, probe: &Probe, first: usize) {
        let Sink::HashBuild { null_equals_null: false, .. } = self.sinks[probe.build] else { return };
        let drops = match probe.kind {
            JoinKind::Inner | JoinKind::ProbeSemi | JoinKind::BuildOuter => true,
            JoinKind::BuildOnly => !probe.null_aware,
            JoinKind::ProbeOuter | JoinKind::ProbeAnti | JoinKind::ProbeMark | JoinKind::Full => false,
        };
        let total = probe.keys.iter().all(Expr::is_total);
        let mut below = vec![];
        for branch in input.branches.iter_mut().filter(|_| drops) {
            for (key, expr) in probe.keys.iter().enumerate() {
                let Some(column) = pruning_column(expr) else { continue };
                let origins: Vec<Origin> = branch.origins(column).filter(|origin| total || !origin.grouped).collect();
                for origin in origins {
                    let prune = PruneKey { column: origin.column, build: probe.build, key };
                    match origin.scan {
                        ScanPlace::Own => add_prune(&mut branch.source, prune),
                        ScanPlace::Below(sink, index) => below.push((sink, index, prune)),
                    }
                }
            }
        }
        if below.is_empty() {
            return;
        }
        let own = self.pipelines.iter().filter(|pipeline| pipeline.sink == probe.build).count();
        self.pipelines[first..].rotate_right(own);
        for (sink, index, prune) in below {
            if let Some(pipeline) = self.pipelines.iter_mut().filter(|pipeline| pipeline.sink == sink).nth(index) {
                add_prune(&mut pipeline.source, prune);
            }
        }
    }

    /// Appends `probe` to all branches of `input`. Returns the joined stream and the column positions of both sides.
    fn probe(
        &mut self,
        mut input: Stream,
        probe: Probe,
        (payload, build_columns, build_distinct): (Vec<Field>, Vec<usize>, Vec<Option<u64>>),
        after: AfterProbes,
        rows: Rows,
    ) -> (Stream, Sides) {
        let (inputs, payloads) = (input.fields.len(), payload.len());
        let probe_columns = input.columns.clone();
        let mark = Field { name: "mark".into(), ty: Expr::bool(true).ty.with_nullable(probe.null_aware) };
        let nullable = |list: &[Field], yes: bool| -> Vec<Field> {
            let field = |f: &Field| Field { name: f.name.clone(), ty: f.ty.with_nullable(f.ty.nullable || yes) };
            list.iter().map(field).collect()
        };
        // If build rows follow, payload columns come first, so that both kinds of branches have the same columns.
        let (fields, output, sides): (Vec<Field>, Vec<usize>, Sides) = match probe.kind {
            JoinKind::Inner | JoinKind::ProbeOuter => {
                let mut fields = input.fields.clone();
                fields.extend(nullable(&payload, probe.kind == JoinKind::ProbeOuter));
                let build = build_columns.iter().map(|i| inputs + i).collect();
                (fields, (0..inputs + payloads).collect(), Sides { probe: probe_columns, build, mark: None })
            }
            JoinKind::BuildOuter | JoinKind::Full => {
                let mut fields = nullable(&payload, probe.kind == JoinKind::Full);
                fields.extend(nullable(&input.fields, true));
                let output = (inputs..inputs + payloads).chain(0..inputs).collect();
                let shifted = probe_columns.iter().map(|i| payloads + i).collect();
                (fields, output, Sides { probe: shifted, build: build_columns, mark: None })
            }
            JoinKind::ProbeSemi | JoinKind::ProbeAnti => {
                (input.fields.clone(), (0..inputs).collect(), Sides { probe: probe_columns, build: vec![], mark: None })
            }
            JoinKind::ProbeMark => {
                let mut fields = input.fields.clone();
                fields.push(mark.clone());
                let output = (0..inputs).chain([inputs + payloads]).collect();
                (fields, output, Sides { probe: probe_columns, build: vec![], mark: Some(inputs) })
            }
            JoinKind::BuildOnly => (vec![], vec![], Sides { probe: vec![], build: build_columns, mark: None }),
        };
        let probe = Probe { output, fields: fields.clone(), ..probe };
        let distinct: Vec<Option<u64>> =
            input.distinct.iter().copied().chain(build_distinct.iter().copied()).chain([Some(2)]).collect();
        input.distinct = probe.output.iter().map(|&i| distinct[i]).collect();
        input.subqueries.retain_mut(|(_, i)| probe.output.iter().position(|o| o == i).map(|at| *i = at).is_some());
        input.branches.iter_mut().for_each(|branch| append(branch, &probe));
        if probe.kind == JoinKind::BuildOnly {
            input.columns.clear();
            input.fields.clear();
            self.finish(input, Sink::Collect { fields: vec![] });
            let rows_kind = after.unwrap_or(BuildRows::Matched);
            let (mut fields, mut distinct) = (payload, build_distinct);
            let mut sides = sides;
            if rows_kind == BuildRows::Marked {
                sides.mark = Some(fields.len());
                fields.push(mark);
                distinct.push(Some(2));
            }
            let source = Source::Build { sink: probe.build, rows: rows_kind, fields };
            return (Stream { distinct, ..Stream::of_source(source, rows) }, sides);
        }
        if let Some(rows) = after {
            let source = Source::Build { sink: probe.build, rows, fields: fields.clone() };
            let origin = vec![vec![]; fields.len()];
            input.branches.push(Branch { source, operators: vec![], origin });
        }
        input.fields = fields;
        input.rows = rows;
        (input, sides)
    }
}

/// The columns of a joined stream that belong to each side.
struct Sides {
    probe: Vec<usize>,
    build: Vec<usize>,
    mark: Option<usize>,
}

/// Adds the origins that an inner join implies: payload columns keep their origins, and equal keys share theirs.
fn joined_origins(input: &mut Stream, probe: &Probe, build: &Sink, payload: &[Vec<Origin>]) {
    let Sink::HashBuild { keys, .. } = build else { return };
    let inputs = input.fields.len();
    for branch in &mut input.branches {
        // If another join dropped the nearest row below an ASOF join, the next one would take its place.
        let inner = probe.kind == JoinKind::Inner && probe.asof.is_none();
        branch.origin.extend(payload.iter().map(|origin| if inner { origin.clone() } else { vec![] }));
        // The mark has no origin.
        branch.origin.push(vec![]);
        for (own, other) in probe.keys.iter().zip(keys).filter(|_| inner) {
            if let (Some(own), Some(other)) = (pruning_column(own), pruning_column(other)) {
                // Removes duplicates: if all keys are equal to each other, lists would double with every pair otherwise.
                let mut both = branch.origin[own].clone();
                for origin in &branch.origin[inputs + other] {
                    if !both.contains(origin) {
                        both.push(*origin);
                    }
                }
                branch.origin[own].clone_from(&both);
                branch.origin[inputs + other] = both;
            }
        }
    }
}

/// Appends a probe to a branch whose origins describe the joined columns.
fn append(branch: &mut Branch, probe: &Probe) {
    let Branch { operators, origin, .. } = branch;
    if matches!(probe.kind, JoinKind::BuildOuter | JoinKind::Full | JoinKind::BuildOnly) {
        // Rows dropped further up have set match flags here: pruning them from the scan would lose the flags.
        origin.fill(vec![]);
    }
    *origin = probe.output.iter().map(|&i| origin[i].clone()).collect();
    operators.push(Operator::Probe(probe.clone()));
}

fn add_prune(source: &mut Source, key: PruneKey) {
    if let Source::Scan(scan) = source
        && !scan.prune.contains(&key)
    {
        scan.prune.push(key);
    }
}

/// The column of a key whose values are the column's unchanged.
pub(super) fn pruning_column(key: &Expr) -> Option<usize> {
    match &key.kind {
        ExprKind::Column(index) => Some(*index),
        ExprKind::Widen(inner) if inner.ty.phys.is_int() => super::column_of(inner),
        _ => None,
    }
}

fn keys<'a>(scope: &Scope<'_>, on: impl Iterator<Item = &'a PhysicalExprRef>) -> Result<Vec<Expr>, Unsupported> {
    on.map(|expr| scope.expr(expr)).collect()
}

/// The kind of the probe, and the build rows that follow it.
fn kind_of(join_type: JoinType, build_left: bool) -> (JoinKind, AfterProbes) {
    let seen_from_probe =
        if build_left || matches!(join_type, JoinType::Inner | JoinType::Full) { join_type } else { join_type.swap() };
    match seen_from_probe {
        JoinType::Inner => (JoinKind::Inner, None),
        JoinType::Left => (JoinKind::BuildOuter, Some(BuildRows::Unmatched)),
        JoinType::Right => (JoinKind::ProbeOuter, None),
        JoinType::Full => (JoinKind::Full, Some(BuildRows::Unmatched)),
        JoinType::LeftSemi => (JoinKind::BuildOnly, Some(BuildRows::Matched)),
        JoinType::LeftAnti => (JoinKind::BuildOnly, Some(BuildRows::Unmatched)),
        JoinType::LeftMark => (JoinKind::BuildOnly, Some(BuildRows::Marked)),
        JoinType::RightSemi => (JoinKind::ProbeSemi, None),
        JoinType::RightAnti => (JoinKind::ProbeAnti, None),
        JoinType::RightMark => (JoinKind::ProbeMark, None),
    }
}

/// The meaning of the names of the residual condition: the probe's input columns followed by the build's.
fn scope_of_pairs<'a>(
    join: &Join<'_>,
    filter: &'a JoinFilter,
    probe: &'a Stream,
    build: &'a Stream,
) -> Result<Scope<'a>, Unsupported> {
    let build_side = if join.build_left { JoinSide::Left } else { JoinSide::Right };
    let columns = filter.column_indices().iter().map(|column| match column.side {
        JoinSide::None => Err(Unsupported::new(join.name, "a join filter on the mark column")),
        side if side == build_side => {
            let index = build.columns[column.index];
            Ok((probe.fields.len() + index, &build.fields[index].ty))
        }
        _ => {
            let index = probe.columns[column.index];
            Ok((index, &probe.fields[index].ty))
        }
    });
    let columns: Vec<(usize, &ColType)> = columns.collect::<Result<_, _>>()?;
    let schema: &Schema = filter.schema();
    Ok(Scope { columns, schema, subqueries: subquery_scope(probe) })
}

/// Orders the columns of a joined stream as DataFusion's join does.
fn project_join(join: &Join<'_>, (stream, sides): &mut (Stream, Sides)) {
    let (left, right) = if join.build_left { (&sides.build, &sides.probe) } else { (&sides.probe, &sides.build) };
    let mut columns = match join.join_type {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => left.clone(),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => right.clone(),
        _ => left.iter().chain(right).copied().collect(),
    };
    columns.extend(sides.mark);
    stream.columns = match join.projection {
        Some(projection) => projection.iter().map(|&i| columns[i]).collect(),
        None => columns,
    };
}

/// Estimated number of rows of a join.
fn joined_rows(kind: JoinKind, build: &Stream, probe: &Stream, keys: &[Expr]) -> Rows {
    let pairs = || {
        let bound = build.rows.bound.zip(probe.rows.bound).and_then(|(b, p)| b.checked_mul(p));
        // Each probe row matches as many build rows as there are per distinct key.
        let distinct = keys.iter().map(|key| build.distinct_of(key).map_or(1.0, |n| n as f64));
        let fan_out = (build.rows.likely / distinct.product::<f64>().max(1.0)).max(1.0);
        // Distinct counts are estimates: nearly one row per key counts as one.
        let fan_out = if fan_out < 1.25 && !keys.is_empty() { 1.0 } else { fan_out };
        Rows { bound, likely: probe.rows.likely * fan_out }
    };
    match kind {
        JoinKind::Inner => pairs(),
        JoinKind::ProbeOuter => {
            let pairs = pairs();
            let bound = pairs.bound.zip(probe.rows.bound).map(|(a, b)| a.max(b));
            Rows { bound, likely: pairs.likely.max(probe.rows.likely) }
        }
        JoinKind::BuildOuter => pairs().plus(build.rows),
        JoinKind::Full => pairs().plus(build.rows).plus(probe.rows),
        JoinKind::ProbeSemi | JoinKind::ProbeAnti | JoinKind::ProbeMark => probe.rows,
        JoinKind::BuildOnly => build.rows,
    }
}

/// A sort merge join's input without the sorting.
fn unsorted(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    if let Some(sort) = plan.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none()) {
        return unsorted(sort.input());
    }
    if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>().filter(|merge| merge.fetch().is_none()) {
        return unsorted(merge.input());
    }
    match plan.downcast_ref::<RepartitionExec>() {
        Some(repartition) => unsorted(repartition.input()),
        None => plan,
    }
}
