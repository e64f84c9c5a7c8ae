//! Window functions: one sink for all calls with the same partitions and order.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Literal, lit};
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};
use warpmill_ir::{
    AggregateFunction, ColType, Exclude, Expr, ExprKind, Field, Frame, FrameBound, FrameUnits, Phys, Scalar, Sink,
    SortKey, Source, Unsupported, WindowCall, WindowFunction,
};

use super::aggregate;
use super::excluded;
use super::expr::{Limit, Scope, convert, interval};
use super::stream::{Rows, Stream};
use super::{Translator, moved, scope};

/// Largest number of rows of a window.
const MOST_ROWS: u128 = u32::MAX as u128;

/// The window functions that a plan node computes, and its input.
pub(super) struct Windows<'a> {
    calls: &'a [Arc<dyn WindowExpr>],
    input: &'a Arc<dyn ExecutionPlan>,
}

impl<'a> Windows<'a> {
    /// The window functions that `plan` computes, if it computes some.
    pub fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(node) = plan.downcast_ref::<WindowAggExec>() {
            return Some(Self { calls: node.window_expr(), input: node.input() });
        }
        let node = plan.downcast_ref::<BoundedWindowAggExec>()?;
        Some(Self { calls: node.window_expr(), input: node.input() })
    }

    /// The input without the sorts that are there for the windows only.
    fn unsorted(&self) -> &'a Arc<dyn ExecutionPlan> {
        let ordered = self.calls.iter().any(|call| !call.order_by().is_empty());
        let mut input = self.input;
        loop {
            let sort = input.downcast_ref::<SortExec>();
            let of_partitions = |sort: &SortExec| {
                let keys = sort.expr().iter().map(|key| &key.expr);
                self.calls.iter().any(|call| keys.clone().eq(call.partition_by()))
            };
            if let Some(sort) = sort.filter(|sort| sort.fetch().is_none() && (ordered || of_partitions(sort))) {
                input = sort.input();
            } else if let Some(merge) = input.downcast_ref::<SortPreservingMergeExec>().filter(|m| m.fetch().is_none())
            {
                input = merge.input();
            } else if let Some(below) = moved(input).filter(|_| input.fetch().is_none()) {
                input = below;
            } else {
                return input;
            }
        }
    }
}

impl Translator<'_> {
    pub(super) fn windows(&mut self, node: &Windows<'_>) -> Result<Stream, Unsupported> {
        let input = node.unsorted();
        let mut stream = self.stream(input)?;
        let read: Vec<Arc<dyn PhysicalExpr>> = node.calls.iter().flat_map(expressions).collect();
        self.attach_subqueries(&mut stream, read.iter())?;
        let schema = input.schema();
        let mut columns: Vec<Option<usize>> = vec![None; node.calls.len()];
        for first in 0..node.calls.len() {
            if columns[first].is_some() {
                continue;
            }
            let alike = |call: &Arc<dyn WindowExpr>| {
                call.partition_by() == node.calls[first].partition_by()
                    && call.order_by() == node.calls[first].order_by()
            };
            let group: Vec<usize> = (first..node.calls.len()).filter(|&call| alike(&node.calls[call])).collect();
            let width = stream.fields.len();
            group.iter().enumerate().for_each(|(at, &call)| columns[call] = Some(width + at));
            let sink = window(&stream, &scope(&stream, &schema), group.iter().map(|&call| &node.calls[call]))?;
            let (fields, rows) = (sink.fields().to_vec(), stream.rows);
            let mut distinct = stream.distinct.clone();
            distinct.resize(fields.len(), None);
            let (kept, subqueries) = (stream.columns.clone(), std::mem::take(&mut stream.subqueries));
            let sink = self.finish(stream, sink);
            stream = Stream::of_source(Source::Rows { sink, fields }, rows);
            stream = Stream { columns: kept, subqueries, distinct, ..stream };
        }
        stream.columns.extend(columns.into_iter().flatten());
        stream.subqueries.clear();
        Ok(stream)
    }
}

/// The expressions that a call reads.
fn expressions(call: &Arc<dyn WindowExpr>) -> Vec<Arc<dyn PhysicalExpr>> {
    let order = call.order_by().iter().map(|key| Arc::clone(&key.expr));
    call.expressions().into_iter().chain(call.partition_by().iter().cloned()).chain(order).collect()
}

/// The sink of calls with the same partitions and order.
fn window<'a>(
    stream: &Stream,
    scope: &Scope<'_>,
    calls: impl Iterator<Item = &'a Arc<dyn WindowExpr>> + Clone,
) -> Result<Sink, Unsupported> {
    let Some(first) = calls.clone().next() else { return Err(Unsupported::new("window", "no function")) };
    let limit = Limit::of_keys(stream.rows.likely);
    let partition = first.partition_by().iter().map(|key| Ok(limit.encode(scope.expr(key)?)));
    let partition = partition.collect::<Result<Vec<_>, Unsupported>>()?;
    let order = first.order_by().iter().map(|key| {
        let expr = limit.encode(scope.expr(&key.expr)?);
        Ok(SortKey { expr, descending: key.options.descending, nulls_first: key.options.nulls_first })
    });
    let order = order.collect::<Result<Vec<_>, Unsupported>>()?;
    let mut fields = stream.fields.clone();
    let payload = (0..fields.len()).collect();
    let mut translated = vec![];
    for call in calls {
        let context = Context { scope, rows: stream.rows, order: &order, call: call.as_ref() };
        let call = context.call()?;
        fields.push(Field { name: context.field()?.name().clone(), ty: call.ty.clone() });
        translated.push(call);
    }
    Ok(Sink::Window { partition, order, calls: translated, payload, fields })
}

/// A call with its input columns and types.
struct Context<'a> {
    scope: &'a Scope<'a>,
    rows: Rows,
    order: &'a [SortKey],
    call: &'a dyn WindowExpr,
}

impl Context<'_> {
    fn unsupported(&self, reason: &str) -> Unsupported {
        Unsupported::new(self.call.name(), reason)
    }

    fn field(&self) -> Result<arrow::datatypes::FieldRef, Unsupported> {
        self.call.field().map_err(|error| self.unsupported(&error.to_string()))
    }

    fn call(&self) -> Result<WindowCall, Unsupported> {
        let any = self.call.as_any();
        if let Some(standard) = any.downcast_ref::<StandardWindowExpr>() {
            let function = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>();
            return self.standard(function.ok_or_else(|| self.unsupported("this window function"))?);
        }
        // The filter is shown only.
        let unfiltered = |shown: String| match shown.ends_with("filter: None }") {
            true => Ok(()),
            false => Err(self.unsupported("an aggregate with FILTER in a window")),
        };
        if let Some(plain) = any.downcast_ref::<PlainAggregateWindowExpr>() {
            unfiltered(format!("{plain:?}"))?;
            return self.aggregate(plain.get_aggregate_expr());
        }
        if let Some(sliding) = any.downcast_ref::<SlidingAggregateWindowExpr>() {
            unfiltered(format!("{sliding:?}"))?;
            return self.aggregate(sliding.get_aggregate_expr());
        }
        Err(self.unsupported("this window function"))
    }

    fn standard(&self, function: &WindowUDFExpr) -> Result<WindowCall, Unsupported> {
        // The two flags are visible in the debug text only.
        let shown = format!("{function:?}");
        let ignore_nulls = shown.ends_with("ignore_nulls: true }");
        let reversed = shown.contains("is_reversed: true, ignore_nulls: ");
        let (args, exclude) = excluded::taken(function.args())?;
        let argument = || args.first().map(|arg| self.scope.expr(arg)).transpose();
        let integer = |at: usize| match args.get(at) {
            None => Ok(None),
            Some(arg) => self.integer(arg).map(Some),
        };
        let window_function = match function.fun().name() {
            "row_number" => WindowFunction::RowNumber,
            "rank" => WindowFunction::Rank,
            "dense_rank" => WindowFunction::DenseRank,
            "percent_rank" => WindowFunction::PercentRank,
            "cume_dist" => WindowFunction::CumeDist,
            "ntile" => {
                let parts = integer(0)?.and_then(|parts| u64::try_from(parts).ok()).filter(|&parts| parts > 0);
                WindowFunction::Ntile(parts.ok_or_else(|| self.unsupported("this number of parts"))?)
            }
            "first_value" => WindowFunction::First,
            "last_value" => WindowFunction::Last,
            "nth_value" if !reversed => {
                WindowFunction::Nth(integer(1)?.ok_or_else(|| self.unsupported("no number of a row"))?)
            }
            name @ ("lag" | "lead") if !reversed => {
                let rows = integer(1)?.unwrap_or(1);
                let back = if name == "lag" { Some(rows) } else { rows.checked_neg() };
                let back = back.ok_or_else(|| self.unsupported("this number of rows"))?;
                let argument = argument()?.ok_or_else(|| self.unsupported("no argument"))?;
                let (argument, default) = self.with_default(argument, args.get(2))?;
                return self.picked(WindowFunction::Shift { back, default }, Some(argument), ignore_nulls, exclude);
            }
            _ => return Err(self.unsupported("this window function")),
        };
        match window_function {
            WindowFunction::First | WindowFunction::Last | WindowFunction::Nth(_) => {
                let argument = argument()?.map(|argument| Limit::of_keys(self.rows.likely).encode(argument));
                self.picked(window_function, argument, ignore_nulls, exclude)
            }
            function => self.position(function),
        }
    }

    /// A call that returns one of the argument's values.
    fn picked(
        &self,
        function: WindowFunction,
        argument: Option<Expr>,
        ignore_nulls: bool,
        exclude: Exclude,
    ) -> Result<WindowCall, Unsupported> {
        let argument = argument.ok_or_else(|| self.unsupported("no argument"))?;
        let ty = ColType { logical: self.field()?.data_type().clone(), ..argument.ty.with_nullable(true) };
        let frame = if function.has_frame() { self.frame(exclude)? } else { Frame::whole() };
        Ok(WindowCall { function, argument: Some(argument), frame, ignore_nulls, ty })
    }

    /// A call whose value depends on the position alone.
    fn position(&self, function: WindowFunction) -> Result<WindowCall, Unsupported> {
        let logical = self.field()?.data_type().clone();
        let ty = ColType::of(&logical, false).ok_or_else(|| self.unsupported("this type"))?;
        let most = self.rows.bound.unwrap_or(MOST_ROWS).min(MOST_ROWS);
        let ty = if ty.phys.is_int() { ty.narrowed((0, most as i128)) } else { ty };
        Ok(WindowCall { function, argument: None, frame: Frame::whole(), ignore_nulls: false, ty })
    }

    fn aggregate(&self, call: &AggregateFunctionExpr) -> Result<WindowCall, Unsupported> {
        let (arguments, exclude) = excluded::taken(&call.expressions())?;
        let picks = match call.fun().name() {
            "first_value" => Some((WindowFunction::First, call.ignore_nulls())),
            "last_value" => Some((WindowFunction::Last, call.ignore_nulls())),
            "any_value" => Some((WindowFunction::First, true)),
            _ => None,
        };
        if let Some((function, ignore_nulls)) = picks {
            if !call.order_bys().is_empty() || call.is_distinct() {
                return Err(self.unsupported("an ordered aggregate in a window"));
            }
            let argument = arguments.first().map(|argument| self.scope.expr(argument)).transpose()?;
            return self.picked(function, argument, ignore_nulls, exclude);
        }
        let context = aggregate::Context { scope: self.scope, rows: self.rows, grouped: false, wide: true };
        let aggregate = context.aggregate_of(call, &arguments, None)?;
        if aggregate.distinct {
            return Err(self.unsupported("an aggregate of different values in a window"));
        }
        use AggregateFunction::{Avg, BoolAnd, BoolOr, Count, CountStar, Max, Min, Sum};
        match aggregate.function {
            CountStar | Count | Sum | Avg | Min | Max | BoolAnd | BoolOr => {}
            _ => return Err(self.unsupported("this aggregate function in a window")),
        }
        let function = WindowFunction::Aggregate(aggregate.function);
        let (argument, ty) = (aggregate.argument, aggregate.ty);
        Ok(WindowCall { function, argument, frame: self.frame(exclude)?, ignore_nulls: false, ty })
    }

    fn integer(&self, arg: &Arc<dyn PhysicalExpr>) -> Result<i64, Unsupported> {
        let value = arg.downcast_ref::<Literal>().map(Literal::value).filter(|value| value.data_type().is_integer());
        match value.map(|value| value.cast_to(&DataType::Int64)) {
            Some(Ok(ScalarValue::Int64(Some(value)))) => Ok(value),
            _ => Err(self.unsupported("an argument that is no constant number")),
        }
    }

    /// The argument of a shift and its default, in one representation.
    fn with_default(
        &self,
        argument: Expr,
        default: Option<&Arc<dyn PhysicalExpr>>,
    ) -> Result<(Expr, Scalar), Unsupported> {
        let Some(default) = default else { return Ok((argument, Scalar::Null)) };
        let value = default.downcast_ref::<Literal>().map(Literal::value);
        let value = value.ok_or_else(|| self.unsupported("a default that is not constant"))?;
        if value.is_null() {
            return Ok((argument, Scalar::Null));
        }
        let value = value.cast_to(&argument.ty.logical).map_err(|error| self.unsupported(&error.to_string()))?;
        let default = self.scope.expr(&lit(value))?;
        let ExprKind::Literal(value) = default.kind else { return Err(self.unsupported("this default")) };
        let argument = match (argument.ty.phys, argument.ty.range, default.ty.range) {
            (Phys::Code, ..) => argument.widen(Phys::Str),
            (phys, Some(a), Some(b)) if phys.is_int() => {
                let range = (a.0.min(b.0), a.1.max(b.1));
                let mut argument = argument.widen(Phys::for_range(range).max(phys));
                argument.ty.range = Some(range);
                argument
            }
            _ => argument,
        };
        Ok((argument, value))
    }

    fn frame(&self, exclude: Exclude) -> Result<Frame, Unsupported> {
        let WindowFrame { units, start_bound, end_bound, .. } = self.call.get_window_frame().as_ref();
        let units = match units {
            WindowFrameUnits::Rows => FrameUnits::Rows,
            WindowFrameUnits::Range => FrameUnits::Range,
            WindowFrameUnits::Groups => FrameUnits::Groups,
        };
        let bound = |bound: &WindowFrameBound| {
            Ok(match bound {
                WindowFrameBound::CurrentRow => FrameBound::CurrentRow,
                WindowFrameBound::Preceding(value) if value.is_null() => FrameBound::UnboundedPreceding,
                WindowFrameBound::Following(value) if value.is_null() => FrameBound::UnboundedFollowing,
                WindowFrameBound::Preceding(value) => FrameBound::Preceding(self.distance(units, value)?),
                WindowFrameBound::Following(value) => FrameBound::Following(self.distance(units, value)?),
            })
        };
        Ok(Frame { units, start: bound(start_bound)?, end: bound(end_bound)?, exclude })
    }

    /// The distance of a bound of a frame.
    fn distance(&self, units: FrameUnits, value: &ScalarValue) -> Result<Scalar, Unsupported> {
        let unsupported = || self.unsupported(&format!("a frame of {value} {units:?}"));
        let distance = match (units, self.order) {
            (FrameUnits::Rows | FrameUnits::Groups, _) => constant(&self.scope.expr(&lit(value.clone()))?),
            (FrameUnits::Range, [key]) => match interval(value) {
                Some(interval) => units_of(&key.expr.ty.logical, interval).map(Scalar::Int),
                None if key.expr.ty.phys.is_int() || matches!(key.expr.ty.phys, Phys::F32 | Phys::F64) => {
                    let distance = self.scope.expr(&lit(value.clone()))?;
                    constant(&convert(distance, &key.expr.ty.logical, false)?)
                }
                None => None,
            },
            _ => None,
        };
        let positive = |distance: &Scalar| match distance {
            Scalar::Int(distance) => *distance >= 0,
            Scalar::Float(distance) => *distance >= 0.0,
            _ => false,
        };
        distance.filter(positive).ok_or_else(unsupported)
    }
}

fn constant(expr: &Expr) -> Option<Scalar> {
    match &expr.kind {
        ExprKind::Literal(value) => Some(value.clone()),
        ExprKind::Widen(input) => constant(input),
        _ => None,
    }
}

/// An interval in the units of a type; `None` if it is no whole number of them.
fn units_of(ty: &DataType, (months, days, nanos): (i32, i32, i64)) -> Option<i128> {
    const DAY: i128 = 86_400_000_000_000;
    let unit = match ty {
        DataType::Date32 => DAY,
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1,
        _ => return None,
    };
    let nanos = i128::from(days) * DAY + i128::from(nanos);
    (months == 0 && nanos % unit == 0).then_some(nanos / unit)
}
