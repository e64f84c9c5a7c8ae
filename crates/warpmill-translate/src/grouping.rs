//! Grouping sets, ROLLUP and CUBE.
//!
//! The finest set is grouped from the rows; every coarser one is aggregated from the partial results of the smallest set that contains it. Where a
//! result cannot be computed from partial results (DISTINCT, variances), or no set contains all others and grouping by all keys together would leave
//! nearly as many groups as rows, each set is grouped from the rows. These are recomputed for each set, or collected if a recomputation might return
//! different rows.

use std::collections::HashMap;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use warpmill_ir::{
    AggregateExpr, AggregateFunction, ArithOp, ColType, Expr, ExprKind, Field, Function, FunctionCall, Operator, Phys,
    Scalar, Sink, Source, Unsupported,
};

use super::aggregate::{Context, group_counts};
use super::expr::{self, Limit, arith, convert};
use super::stream::{Branch, Rows, Stream};
use super::{Translator, scope};

/// Largest number of sets of an aggregation: each is a pipeline or two, for which devices compile kernels.
const MOST_SETS: usize = 64;

/// Largest number of sets that are grouped from the rows separately.
const MOST_PASSES: usize = 16;

/// Largest number of groups by all keys, as a share of the rows, for grouping by all keys where these are no set of the query: for rows of joins, and
/// for rows of a table, which is faster to read again.
const FEW_GROUPS: (f64, f64) = (1.0 / 4.0, 1.0 / 64.0);

/// The rows to group, with all group keys and aggregates over them.
struct Input {
    stream: Stream,
    keys: Vec<Expr>,
    names: Vec<String>,
    aggregates: Vec<AggregateExpr>,
    /// The partial results from which the aggregates are computed; `None` if one cannot be.
    parts: Option<Parts>,
}

/// Partial results, and how each aggregate is computed from them.
#[derive(Default)]
struct Parts {
    partial: Vec<AggregateExpr>,
    finals: Vec<Final>,
}

/// How an aggregate is computed from partial results, given by position.
#[derive(Clone)]
enum Final {
    /// The partial result itself.
    Same(usize),
    /// A count: zero for no groups.
    Count(usize),
    /// A sum divided by a count, as `ty`. If `ty` is a float, the sum's integers are 10^`digits` times the values.
    Average { sum: usize, count: usize, digits: u32, ty: ColType },
}

/// Sizes of the program before the rows were translated.
struct Made {
    pipelines: usize,
    sinks: usize,
}

/// The groups of a set: positions of its keys among all keys, then partial or final results.
struct Grouped {
    keys: Vec<usize>,
    stream: Stream,
}

impl Translator<'_> {
    /// Translates all grouping sets of `first`, with the columns of `node`.
    pub(super) fn grouping_sets(&mut self, node: &AggregateExec, first: &AggregateExec) -> Result<Stream, Unsupported> {
        let sets: Vec<Vec<usize>> = first.group_expr().groups().iter().map(|nulls| keys_of(nulls)).collect();
        if sets.len() > MOST_SETS {
            return Err(Unsupported::new("grouping sets", format!("more than {MOST_SETS}")));
        }
        let made = Made { pipelines: self.pipelines.len(), sinks: self.sinks.len() };
        let input = self.grouping_input(first, !first.group_expr().expr().is_empty())?;
        let all: Vec<usize> = (0..input.keys.len()).collect();
        let is_set = sets.contains(&all);
        let (rows, _) = group_counts(&input.stream, &input.keys, 0);
        let is_joined =
            |branch: &Branch| branch.operators.iter().any(|operator| matches!(operator, Operator::Probe(_)));
        let part = if input.stream.branches.iter().any(is_joined) { FEW_GROUPS.0 } else { FEW_GROUPS.1 };
        let few = is_set || rows.likely <= input.stream.rows.likely * part;
        let types: Vec<ColType> = input.keys.iter().map(|key| key.ty.clone()).collect();
        let (grouped, finals) = match input.parts {
            Some(_) if few => self.nested(input, &sets),
            _ => self.passes(input, first, (&sets, made))?,
        };
        let results = Results { sets: first.group_expr().groups(), types: &types, grouped: &grouped, finals: &finals };
        results.stream(&node.schema())
    }

    fn grouping_input(&mut self, first: &AggregateExec, grouped: bool) -> Result<Input, Unsupported> {
        let mut stream = self.stream(first.input())?;
        let (keys, names): (Vec<_>, Vec<_>) = first.group_expr().expr().iter().cloned().unzip();
        let arguments: Vec<_> = first.aggr_expr().iter().flat_map(|aggregate| aggregate.expressions()).collect();
        let filters = first.filter_expr().iter().flatten();
        self.attach_subqueries(&mut stream, keys.iter().chain(&arguments).chain(filters))?;
        let schema = first.input().schema();
        let (keys, aggregates, parts) = {
            let scope = scope(&stream, &schema);
            let limit = Limit::of_keys(stream.rows.likely);
            let keys =
                keys.iter().map(|key| Ok(limit.encode(scope.expr(key)?))).collect::<Result<Vec<_>, Unsupported>>()?;
            let context = Context { scope: &scope, rows: stream.rows, grouped, wide: self.options.wide_sums };
            let calls = first.aggr_expr().iter().zip(first.filter_expr());
            let aggregates = calls.map(|(call, filter)| context.aggregate(call, filter.as_ref()));
            let aggregates = aggregates.collect::<Result<Vec<_>, Unsupported>>()?;
            let parts = Parts::of(&aggregates, &context);
            (keys, aggregates, parts)
        };
        Ok(Input { stream, keys, names, aggregates, parts })
    }

    /// Groups the finest set from the rows, and every other one from the smallest set that contains it.
    fn nested(&mut self, input: Input, sets: &[Vec<usize>]) -> (Vec<Grouped>, Vec<Final>) {
        let Parts { partial, finals } = input.parts.unwrap_or_default();
        let functions: Vec<AggregateFunction> = partial.iter().map(|aggregate| aggregate.function).collect();
        let all: Vec<usize> = (0..input.keys.len()).collect();
        let mut wanted: Vec<&Vec<usize>> = sets.iter().filter(|set| **set != all).collect();
        wanted.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
        wanted.dedup();
        let base = self.grouped(input.stream, (all, &input.names), input.keys, partial);
        let mut grouped = vec![base];
        for set in wanted {
            let above = grouped.iter().filter(|other| set.iter().all(|key| other.keys.contains(key)));
            let Some(above) = above.min_by(|one, other| one.stream.rows.likely.total_cmp(&other.stream.rows.likely))
            else {
                continue;
            };
            let column = |at: usize| Expr::column(at, above.stream.fields[at].ty.clone());
            let place = |key: &usize| above.keys.iter().position(|known| known == key).unwrap_or(0);
            let keys: Vec<Expr> = set.iter().map(|key| column(place(key))).collect();
            let partial = (above.keys.len()..above.stream.fields.len()).zip(&functions);
            let merged = partial.map(|(at, &function)| merge(function, column(at), above.stream.rows, set.is_empty()));
            let merged = merged.collect();
            let stream = above.stream.again();
            grouped.push(self.grouped(stream, (set.clone(), &input.names), keys, merged));
        }
        (grouped, finals)
    }

    /// Groups each set from the rows, which are recomputed for each if they are always the same, or collected.
    fn passes(
        &mut self,
        input: Input,
        first: &AggregateExec,
        (sets, made): (&[Vec<usize>], Made),
    ) -> Result<(Vec<Grouped>, Vec<Final>), Unsupported> {
        let mut wanted: Vec<&Vec<usize>> = sets.iter().collect();
        wanted.sort_by(|one, other| other.cmp(one));
        wanted.dedup();
        if wanted.len() > MOST_PASSES {
            return Err(Unsupported::new("grouping sets", format!("more than {MOST_PASSES} that read the rows again")));
        }
        let Input { stream, keys, names, aggregates, .. } = input;
        let finals = (0..aggregates.len()).map(Final::Same).collect();
        let (mut ready, kept) = match wanted.len() > 1 && !self.is_repeatable(&made, &stream) {
            true => (None, Some(self.kept(stream))),
            false => (Some(stream), None),
        };
        let mut grouped = vec![];
        for set in wanted {
            let (stream, keys, aggregates) = match (&kept, ready.take()) {
                (Some(kept), _) => (kept.again(), keys.clone(), aggregates.clone()),
                (None, Some(stream)) => (stream, keys.clone(), aggregates.clone()),
                (None, None) => {
                    let input = self.grouping_input(first, true)?;
                    (input.stream, input.keys, input.aggregates)
                }
            };
            let groups = set.iter().map(|&key| keys[key].clone()).collect();
            let aggregates = aggregates.into_iter().map(|aggregate| over(aggregate, set.is_empty())).collect();
            grouped.push(self.grouped(stream, (set.clone(), &names), groups, aggregates));
        }
        Ok((grouped, finals))
    }

    /// Computes group functions for all sets of `first` from the collected rows of `stream`.
    pub(super) fn function_sets(
        &mut self,
        (node, first): (&AggregateExec, &AggregateExec),
        stream: Stream,
        (keys, calls): (Vec<Expr>, Vec<FunctionCall>),
    ) -> Result<Stream, Unsupported> {
        let mut wanted: Vec<Vec<usize>> = first.group_expr().groups().iter().map(|nulls| keys_of(nulls)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.len() > MOST_PASSES {
            return Err(Unsupported::new("functions of groups", format!("over more than {MOST_PASSES} grouping sets")));
        }
        let types: Vec<ColType> = keys.iter().map(|key| key.ty.clone()).collect();
        let finals: Vec<Final> = (0..calls.len()).map(Final::Same).collect();
        let (kept, mut grouped) = (self.kept(stream), vec![]);
        for set in wanted {
            let groups: Vec<Expr> = set.iter().map(|&key| keys[key].clone()).collect();
            let types = groups.iter().map(|key| &key.ty).chain(calls.iter().map(|call| &call.ty));
            let named = types.enumerate().map(|(at, ty)| Field { name: format!("part{at}"), ty: ty.clone() });
            let (fields, (rows, distinct)) = (named.collect::<Vec<_>>(), group_counts(&kept, &groups, calls.len()));
            let (calls, own) = (calls.clone(), fields.clone());
            let sink = self.finish(kept.again(), Sink::Functions { groups, calls, fields: own });
            let stream = Stream { distinct, ..Stream::of_source(Source::Rows { sink, fields }, rows) };
            grouped.push(Grouped { keys: set, stream });
        }
        let results = Results { sets: first.group_expr().groups(), types: &types, grouped: &grouped, finals: &finals };
        results.stream(&node.schema())
    }

    /// Whether `stream`, which consists of everything after `made`, returns the same rows each time: external inputs may be readable only once or
    /// random, and limits and `any_value` may pick different rows among equal ones.
    fn is_repeatable(&self, made: &Made, stream: &Stream) -> bool {
        let is_same = |source: &Source, operators: &[Operator]| {
            !matches!(source, Source::Input { .. }) && !operators.iter().any(|it| matches!(it, Operator::Limit { .. }))
        };
        let sinks = self.sinks[made.sinks..].iter().all(|sink| match sink {
            Sink::Sort { fetch, .. } => fetch.is_none(),
            // Sums of floats depend on the order of rows.
            Sink::Window { .. } | Sink::Functions { .. } => false,
            Sink::Aggregate { aggregates, .. } => {
                aggregates.iter().all(|aggregate| aggregate.function != AggregateFunction::AnyValue)
            }
            Sink::HashBuild { .. } | Sink::Collect { .. } => true,
        });
        sinks
            && self.pipelines[made.pipelines..].iter().all(|it| is_same(&it.source, &it.operators))
            && stream.branches.iter().all(|it| is_same(&it.source, &it.operators))
    }

    /// Collects the rows of `stream`, so that they can be read several times.
    pub(super) fn kept(&mut self, stream: Stream) -> Stream {
        let (fields, distinct, rows) = (stream.fields.clone(), stream.distinct.clone(), stream.rows);
        let sink = self.finish(stream, Sink::Collect { fields: fields.clone() });
        Stream { distinct, ..Stream::of_source(Source::Rows { sink, fields }, rows) }
    }

    /// Ends `stream` in an aggregation.
    fn grouped(
        &mut self,
        stream: Stream,
        (keys, names): (Vec<usize>, &[String]),
        groups: Vec<Expr>,
        aggregates: Vec<AggregateExpr>,
    ) -> Grouped {
        let (rows, distinct) = group_counts(&stream, &groups, aggregates.len());
        let types = groups.iter().map(|key| &key.ty).chain(aggregates.iter().map(|aggregate| &aggregate.ty));
        let names =
            keys.iter().map(|&key| names[key].clone()).chain((0..aggregates.len()).map(|at| format!("part{at}")));
        let fields: Vec<Field> = names.zip(types).map(|(name, ty)| Field { name, ty: ty.clone() }).collect();
        let sink = self.finish(stream, Sink::Aggregate { groups, aggregates, fields: fields.clone() });
        Grouped { keys, stream: Stream { distinct, ..Stream::of_source(Source::Rows { sink, fields }, rows) } }
    }
}

/// `aggregate` without groups if `all`: it then returns a row for empty input, too.
fn over(aggregate: AggregateExpr, all: bool) -> AggregateExpr {
    match aggregate.function {
        AggregateFunction::Count | AggregateFunction::CountStar => aggregate,
        _ => AggregateExpr { ty: aggregate.ty.with_nullable(aggregate.ty.nullable || all), ..aggregate },
    }
}

/// The positions of a set's keys.
fn keys_of(nulls: &[bool]) -> Vec<usize> {
    (0..nulls.len()).filter(|&key| !nulls[key]).collect()
}

impl Parts {
    /// The partial results from which `aggregates` are computed.
    fn of(aggregates: &[AggregateExpr], context: &Context<'_>) -> Option<Self> {
        let mut parts = Self::default();
        for aggregate in aggregates {
            let made = parts.add(aggregate, context)?;
            parts.finals.push(made);
        }
        Some(parts)
    }

    /// The position of a partial result, which several aggregates may share.
    fn position(&mut self, partial: AggregateExpr) -> usize {
        self.partial.iter().position(|known| *known == partial).unwrap_or_else(|| {
            self.partial.push(partial);
            self.partial.len() - 1
        })
    }

    fn add(&mut self, aggregate: &AggregateExpr, context: &Context<'_>) -> Option<Final> {
        use AggregateFunction as F;
        if aggregate.distinct {
            return None;
        }
        Some(match aggregate.function {
            F::CountStar | F::Count => Final::Count(self.position(aggregate.clone())),
            F::Sum | F::Min | F::Max | F::BoolAnd | F::BoolOr | F::AnyValue => {
                Final::Same(self.position(aggregate.clone()))
            }
            F::Avg => self.average(aggregate, context)?,
            F::StddevSamp | F::StddevPop | F::VarSamp | F::VarPop | F::OfPairs(_) => return None,
        })
    }

    fn average(&mut self, average: &AggregateExpr, context: &Context<'_>) -> Option<Final> {
        let argument = average.argument.as_ref()?;
        let nullable = average.filter.is_some() || argument.ty.nullable;
        let (sum, digits) = if argument.ty.phys.is_int() {
            let digits = match argument.ty.logical {
                DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => scale,
                _ => 0,
            };
            // A float quotient divides the unscaled sum, as the average itself does.
            let of_floats = !average.ty.phys.is_int();
            let logical = DataType::Decimal128(38, if of_floats { 0 } else { digits });
            let ty = context.sum(ColType::of(&logical, nullable)?, argument)?;
            (ty, if of_floats { u32::try_from(digits).ok()? } else { 0 })
        } else {
            (ColType::of(&DataType::Float64, nullable).filter(|ty| ty.phys == argument.ty.phys)?, 0)
        };
        let count = if argument.ty.nullable { AggregateFunction::Count } else { AggregateFunction::CountStar };
        let most = context.rows.bound.and_then(|rows| i128::try_from(rows).ok()).unwrap_or(i128::MAX);
        let counted = ColType { phys: Phys::I64, ..ColType::of(&DataType::Int64, false)?.narrowed((0, most)) };
        let part = |function, argument, ty| AggregateExpr {
            function,
            argument,
            second: None,
            filter: average.filter.clone(),
            distinct: false,
            ty,
        };
        let sum = self.position(part(AggregateFunction::Sum, Some(argument.clone()), sum));
        let argument = Some(argument.clone()).filter(|_| count == AggregateFunction::Count);
        let count = self.position(part(count, argument, counted));
        Some(Final::Average { sum, count, digits, ty: average.ty.clone() })
    }
}

/// The aggregate that merges partial results of `function` in `column` over `rows` groups.
fn merge(function: AggregateFunction, column: Expr, rows: Rows, is_total: bool) -> AggregateExpr {
    use AggregateFunction as F;
    let (function, ty) = match function {
        F::CountStar | F::Count | F::Sum => (F::Sum, column.ty.with_nullable(column.ty.nullable || is_total)),
        function => (function, column.ty.with_nullable(column.ty.nullable || is_total)),
    };
    let narrow = AggregateExpr { function, argument: Some(column), second: None, filter: None, distinct: false, ty };
    // The total of all groups is within the type's range; accumulators are checked by the number of rows added.
    let takes_all = |most: u64| rows.bound.is_some_and(|rows| rows <= u128::from(most));
    match narrow.safe_rows() {
        Some(most) if !takes_all(most) => AggregateExpr { ty: narrow.ty.widened(Phys::I128), ..narrow },
        _ => narrow,
    }
}

/// The groups of all sets.
struct Results<'a> {
    /// By set and key: whether the key is NULL.
    sets: &'a [Vec<bool>],
    /// Types of the keys.
    types: &'a [ColType],
    grouped: &'a [Grouped],
    finals: &'a [Final],
}

impl Results<'_> {
    /// Concatenates the rows of all sets with the columns of `schema`: keys, set number, aggregates.
    fn stream(&self, schema: &SchemaRef) -> Result<Stream, Unsupported> {
        let mut seen: HashMap<&[bool], u64> = HashMap::new();
        let mut sets = vec![];
        for nulls in self.sets {
            let keys = keys_of(nulls);
            let grouped = self.grouped.iter().find(|grouped| grouped.keys == keys);
            let grouped = grouped.ok_or_else(|| Unsupported::new("grouping sets", "a set without groups"))?;
            let repeated = seen.entry(nulls).or_default();
            sets.push((grouped, self.columns(grouped, number(nulls, *repeated), schema)?));
            *repeated += 1;
        }
        let fields = schema.fields().iter().enumerate().map(|(at, field)| {
            let ty = expr::common_type(sets.iter().map(|(_, columns)| &columns[at].ty));
            Some(Field { name: field.name().clone(), ty: ty? })
        });
        let fields: Option<Vec<Field>> = fields.collect();
        let fields = fields.ok_or_else(|| Unsupported::new("grouping sets", "no sets"))?;
        let rows = sets.iter().map(|(grouped, _)| grouped.stream.rows).reduce(Rows::plus).unwrap_or(Rows::at_most(0));
        let mut branches = vec![];
        for (grouped, columns) in sets {
            let mut stream = grouped.stream.again();
            let list = fields.iter().zip(columns).map(|(field, column)| (field.clone(), column.widen(field.ty.phys)));
            stream.project(list.collect());
            branches.extend(stream.branches);
        }
        let columns = (0..fields.len()).collect();
        Ok(Stream { branches, distinct: vec![None; fields.len()], fields, columns, rows, subqueries: vec![] })
    }

    /// The output columns of a set's rows.
    fn columns(&self, grouped: &Grouped, number: u64, schema: &SchemaRef) -> Result<Vec<Expr>, Unsupported> {
        let fields = &grouped.stream.fields;
        let key = |(key, ty): (usize, &ColType)| match grouped.keys.iter().position(|known| *known == key) {
            Some(at) => Expr::column(at, fields[at].ty.clone()),
            None => Expr::literal(Scalar::Null, ty.with_nullable(true)),
        };
        let keys = self.types.iter().enumerate().map(key);
        let logical = schema.field(self.types.len()).data_type();
        let ty = ColType::of(logical, false).ok_or_else(|| Unsupported::new("grouping sets", format!("{logical}")))?;
        let id = Expr::literal(Scalar::Int(number.into()), ty.narrowed((number.into(), number.into())));
        let part = |at: usize| Expr::column(grouped.keys.len() + at, fields[grouped.keys.len() + at].ty.clone());
        let of = |made: &Final| match made {
            Final::Same(at) => Ok(part(*at)),
            Final::Count(at) => Ok(or_zero(part(*at))),
            Final::Average { sum, count, digits, ty } => average(part(*sum), part(*count), (*digits, ty)),
        };
        keys.chain([id]).map(Ok).chain(self.finals.iter().map(of)).collect()
    }
}

/// The number of a set in DataFusion's encoding: a bit for each NULL key, the last key's lowest, and above them how often the same set occurred
/// before.
fn number(nulls: &[bool], repeated: u64) -> u64 {
    let set = nulls.iter().fold(0, |all: u64, &is_null| all << 1 | u64::from(is_null));
    set | repeated.checked_shl(nulls.len() as u32).unwrap_or(0)
}

/// A count that is 0 instead of NULL for no groups.
fn or_zero(count: Expr) -> Expr {
    if !count.ty.nullable {
        return count;
    }
    let ty = count.ty.with_nullable(false);
    let zero = Expr::literal(Scalar::Int(0), ty.clone());
    Expr { kind: ExprKind::Call { function: Function::Coalesce, args: vec![count, zero] }, ty }
}

/// A sum divided by a count; NULL without a sum.
fn average(sum: Expr, count: Expr, (digits, ty): (u32, &ColType)) -> Result<Expr, Unsupported> {
    let unsupported = || Unsupported::new("avg", "this type over grouping sets");
    let divided = |left: Expr, right: Expr| arith(ArithOp::Div, left, right, &ty.logical).ok_or_else(unsupported);
    let zero = Expr::literal(Scalar::Int(0), count.ty.with_nullable(false));
    let counted = count.ty.with_nullable(true);
    let count = Expr { kind: ExprKind::Call { function: Function::NullIf, args: vec![count, zero] }, ty: counted };
    if ty.phys.is_int() {
        return divided(sum, count);
    }
    let float = |expr: Expr| convert(expr, &DataType::Float64, false);
    let quotient = divided(float(sum)?, float(count)?)?;
    if digits == 0 {
        return Ok(quotient);
    }
    let unit = Expr::literal(
        Scalar::Float(10f64.powi(digits as i32)),
        ColType::of(&DataType::Float64, false).ok_or_else(unsupported)?,
    );
    divided(quotient, unit)
}
