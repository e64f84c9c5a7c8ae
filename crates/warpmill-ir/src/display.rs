//! The text form of programs, as `EXPLAIN` prints it: one block per pipeline, a line per source, operator and sink.
//!
//! ```text
//! pipeline 1 -> hash build #0
//!   scan orders [o_orderkey, o_custkey] where o_orderdate < 9204
//!   probe #1 semi on o_custkey -> [o_orderkey]
//!   build on [o_orderkey] keep []
//! ```

use std::fmt::{self, Display, Formatter};

use crate::{
    AggregateExpr, AggregateFunction, ArithOp, Bound, BuildRows, CompareOp, Expr, ExprKind, Field, Frame, FrameBound,
    JoinKind, Nearest, Operator, Pipeline, Probe, Program, Scalar, Scan, Sink, SortKey, Source, WindowCall,
    WindowFunction,
};

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, pipeline) in self.pipelines.iter().enumerate() {
            let result = if pipeline.sink + 1 == self.sinks.len() { " (result)" } else { "" };
            writeln!(f, "pipeline {index} -> #{}{result}", pipeline.sink)?;
            let mut fields = pipeline.source.fields().to_vec();
            source(f, &pipeline.source)?;
            for operator in &pipeline.operators {
                fields = self.show_operator(f, operator, fields)?;
            }
            self.show_sink(f, pipeline, &fields)?;
        }
        Ok(())
    }
}

impl Program {
    /// Writes `operator`, whose input is `fields`, and gives its output.
    fn show_operator(
        &self,
        f: &mut Formatter<'_>,
        operator: &Operator,
        fields: Vec<Field>,
    ) -> Result<Vec<Field>, fmt::Error> {
        match operator {
            Operator::Filter(predicate) => writeln!(f, "  filter {}", predicate.over(&fields))?,
            Operator::Limit { skip, fetch } => writeln!(f, "  limit{}", bounds(*skip, *fetch))?,
            Operator::Project(list) => {
                let shown = list.iter().map(|(field, expr)| {
                    let text = expr.over(&fields).to_string();
                    if text == field.name { text } else { format!("{text} AS {}", field.name) }
                });
                writeln!(f, "  project [{}]", shown.collect::<Vec<_>>().join(", "))?;
                return Ok(list.iter().map(|(field, _)| field.clone()).collect());
            }
            Operator::Probe(probe) => {
                self.show_probe(f, probe, &fields)?;
                return Ok(probe.fields.clone());
            }
        }
        Ok(fields)
    }

    fn show_probe(&self, f: &mut Formatter<'_>, probe: &Probe, fields: &[Field]) -> fmt::Result {
        let kind = match probe.kind {
            JoinKind::Inner => "inner",
            JoinKind::ProbeOuter => "probe outer",
            JoinKind::ProbeSemi => "semi",
            JoinKind::ProbeAnti => "anti",
            JoinKind::ProbeMark => "mark",
            JoinKind::BuildOuter => "build outer",
            JoinKind::Full => "full",
            JoinKind::BuildOnly => "mark build",
        };
        let asof = if probe.asof.is_some() { " asof" } else { "" };
        write!(f, "  probe #{}{asof} {kind}", probe.build)?;
        if probe.null_aware {
            write!(f, " null-aware")?;
        }
        if !probe.keys.is_empty() {
            write!(f, " on {}", list(&probe.keys, fields))?;
        }
        if let Some(asof) = &probe.asof {
            let op = match asof.nearest {
                Nearest::AtMost => ">=",
                Nearest::Below => ">",
                Nearest::AtLeast => "<=",
                Nearest::Above => "<",
            };
            write!(f, " and {} {op} its order", asof.value.over(fields))?;
        }
        if let Some(range) = &probe.range {
            let bound = |bound: &Option<Bound>, op: &str| {
                let text = |bound: &Bound| {
                    let equal = if bound.inclusive { "=" } else { "" };
                    format!(" {op}{equal} {}", bound.value.over(fields))
                };
                bound.as_ref().map(text).unwrap_or_default()
            };
            write!(f, " within its order{}{}", bound(&range.lower, ">"), bound(&range.upper, "<"))?;
        }
        if let Some(residual) = &probe.residual {
            let payload = self.sinks.get(probe.build).map_or(&[][..], Sink::fields);
            let both: Vec<Field> = fields.iter().chain(payload).cloned().collect();
            write!(f, " if {}", residual.over(&both))?;
        }
        writeln!(f, " -> [{}]", names(&probe.fields))
    }

    fn show_sink(&self, f: &mut Formatter<'_>, pipeline: &Pipeline, fields: &[Field]) -> fmt::Result {
        match &self.sinks[pipeline.sink] {
            Sink::HashBuild { keys, fields: kept, null_equals_null, track_matches, order, .. } => {
                let nulls = if *null_equals_null { " nulls equal" } else { "" };
                let matches = if *track_matches { " with match flags" } else { "" };
                let order = order.as_ref().map(|order| format!(" order {}", order.over(fields))).unwrap_or_default();
                writeln!(f, "  build on {}{order} keep [{}]{nulls}{matches}", list(keys, fields), names(kept))
            }
            Sink::Aggregate { groups, aggregates, .. } => {
                write!(f, "  aggregate")?;
                if !groups.is_empty() {
                    write!(f, " by {}", list(groups, fields))?;
                }
                let shown: Vec<String> = aggregates.iter().map(|aggregate| call(aggregate, fields)).collect();
                writeln!(f, " [{}]", shown.join(", "))
            }
            Sink::Sort { keys, skip, fetch, .. } => {
                let shown: Vec<String> = keys.iter().map(|key| sort_key(key, fields)).collect();
                writeln!(f, "  sort by [{}]{}", shown.join(", "), bounds(*skip, *fetch))
            }
            Sink::Window { partition, order, calls, .. } => {
                write!(f, "  window")?;
                if !partition.is_empty() {
                    write!(f, " by {}", list(partition, fields))?;
                }
                if !order.is_empty() {
                    let shown: Vec<String> = order.iter().map(|key| sort_key(key, fields)).collect();
                    write!(f, " order [{}]", shown.join(", "))?;
                }
                let shown: Vec<String> = calls.iter().map(|call| window_call(call, fields)).collect();
                writeln!(f, " [{}]", shown.join(", "))
            }
            Sink::Collect { fields } => writeln!(f, "  collect [{}]", names(fields)),
        }
    }
}

fn source(f: &mut Formatter<'_>, source: &Source) -> fmt::Result {
    match source {
        Source::Scan(scan) => self::scan(f, scan),
        Source::Rows { sink, fields } => writeln!(f, "  rows of #{sink} [{}]", names(fields)),
        Source::Build { sink, rows, fields } => {
            let rows = match rows {
                BuildRows::Matched => "matched",
                BuildRows::Unmatched => "unmatched",
                BuildRows::Marked => "marked",
            };
            writeln!(f, "  {rows} rows of build #{sink} [{}]", names(fields))
        }
        Source::Input { input, fields } => writeln!(f, "  input {input} [{}]", names(fields)),
        Source::Values { rows, fields } => writeln!(f, "  {} constant rows [{}]", rows.len(), names(fields)),
    }
}

fn scan(f: &mut Formatter<'_>, scan: &Scan) -> fmt::Result {
    write!(f, "  scan {} [{}]", scan.name, names(&scan.fields))?;
    for (i, filter) in scan.filters.iter().enumerate() {
        write!(f, " {} {}", if i == 0 { "where" } else { "and" }, filter.over(&scan.fields))?;
    }
    for key in &scan.prune {
        write!(f, " prune {} by #{}.{}", scan.fields[key.column].name, key.build, key.key)?;
    }
    for filter in &scan.sideways {
        write!(f, " sideways {} by {}", scan.fields[filter.column].name, filter.table.name())?;
    }
    writeln!(f)
}

fn names(fields: &[Field]) -> String {
    fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn list(exprs: &[Expr], fields: &[Field]) -> String {
    format!("[{}]", exprs.iter().map(|expr| expr.over(fields).to_string()).collect::<Vec<_>>().join(", "))
}

fn bounds(skip: u64, fetch: Option<u64>) -> String {
    let skip = if skip == 0 { String::new() } else { format!(" skip {skip}") };
    let fetch = fetch.map_or(String::new(), |fetch| format!(" first {fetch}"));
    format!("{skip}{fetch}")
}

fn sort_key(key: &SortKey, fields: &[Field]) -> String {
    let direction = if key.descending { " desc" } else { "" };
    // The default of SQL here: NULLs are larger than all values.
    let nulls = match (key.nulls_first, key.descending, key.expr.ty.nullable) {
        (true, false, true) => " nulls first",
        (false, true, true) => " nulls last",
        _ => "",
    };
    format!("{}{direction}{nulls}", key.expr.over(fields))
}

fn window_call(call: &WindowCall, fields: &[Field]) -> String {
    let name = match &call.function {
        WindowFunction::RowNumber => "row_number".to_owned(),
        WindowFunction::Rank => "rank".to_owned(),
        WindowFunction::DenseRank => "dense_rank".to_owned(),
        WindowFunction::PercentRank => "percent_rank".to_owned(),
        WindowFunction::CumeDist => "cume_dist".to_owned(),
        WindowFunction::Ntile(parts) => format!("ntile {parts}"),
        WindowFunction::Shift { back, .. } if *back < 0 => format!("lead {}", back.unsigned_abs()),
        WindowFunction::Shift { back, .. } => format!("lag {back}"),
        WindowFunction::First => "first_value".to_owned(),
        WindowFunction::Last => "last_value".to_owned(),
        WindowFunction::Nth(n) => format!("nth_value {n}"),
        WindowFunction::Aggregate(function) => aggregate_name(*function).to_owned(),
    };
    let argument = call.argument.as_ref().map_or(String::new(), |argument| argument.over(fields).to_string());
    let nulls = if call.ignore_nulls { " ignore nulls" } else { "" };
    let frame = if call.function.has_frame() { format!(" {}", call.frame) } else { String::new() };
    format!("{name}({argument}{nulls}){frame}")
}

impl Display for Frame {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let units = format!("{:?}", self.units).to_lowercase();
        write!(f, "{units} {}..{}", self.start, self.end)
    }
}

impl Display for FrameBound {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            FrameBound::UnboundedPreceding | FrameBound::UnboundedFollowing => Ok(()),
            FrameBound::CurrentRow => write!(f, "0"),
            FrameBound::Preceding(distance) => {
                write!(f, "-")?;
                scalar(f, distance)
            }
            FrameBound::Following(distance) => {
                write!(f, "+")?;
                scalar(f, distance)
            }
        }
    }
}

fn aggregate_name(function: AggregateFunction) -> &'static str {
    match function {
        AggregateFunction::CountStar | AggregateFunction::Count => "count",
        AggregateFunction::Sum => "sum",
        AggregateFunction::Min => "min",
        AggregateFunction::Max => "max",
        AggregateFunction::Avg => "avg",
        AggregateFunction::StddevSamp => "stddev_samp",
        AggregateFunction::StddevPop => "stddev_pop",
        AggregateFunction::VarSamp => "var_samp",
        AggregateFunction::VarPop => "var_pop",
        AggregateFunction::BoolAnd => "bool_and",
        AggregateFunction::BoolOr => "bool_or",
        AggregateFunction::AnyValue => "any_value",
    }
}

fn call(aggregate: &AggregateExpr, fields: &[Field]) -> String {
    let name = aggregate_name(aggregate.function);
    let distinct = if aggregate.distinct { "distinct " } else { "" };
    let argument = aggregate.argument.as_ref().map_or("*".to_owned(), |argument| argument.over(fields).to_string());
    let filter = aggregate.filter.as_ref().map_or(String::new(), |filter| format!(" if {}", filter.over(fields)));
    // The accumulator matters to the cost of sums.
    let held = match aggregate.function {
        AggregateFunction::Sum => format!(":{:?}", aggregate.ty.phys).to_lowercase(),
        _ => String::new(),
    };
    format!("{name}({distinct}{argument}){held}{filter}")
}

/// An expression with the names of its input's columns.
struct Named<'a> {
    expr: &'a Expr,
    fields: &'a [Field],
}

impl Expr {
    /// Shows the expression with the names of `fields`, the columns that it reads.
    pub fn over<'a>(&'a self, fields: &'a [Field]) -> impl Display + 'a {
        Named { expr: self, fields }
    }
}

/// Columns are shown as `$i`; see [`Expr::over`] for names.
impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Named { expr: self, fields: &[] }.fmt(f)
    }
}

impl<'a> Named<'a> {
    fn of(&self, expr: &'a Expr) -> Named<'a> {
        Named { expr, fields: self.fields }
    }

    /// An operand, in parentheses where it is an operator itself.
    fn operand(&self, expr: &'a Expr) -> String {
        let shown = self.of(expr).to_string();
        match expr.kind {
            ExprKind::Arith { .. }
            | ExprKind::Compare { .. }
            | ExprKind::And(_)
            | ExprKind::Or(_)
            | ExprKind::Not(_) => {
                format!("({shown})")
            }
            _ => shown,
        }
    }

    fn joined(&self, exprs: &'a [Expr], separator: &str) -> String {
        exprs.iter().map(|expr| self.operand(expr)).collect::<Vec<_>>().join(separator)
    }
}

impl Display for Named<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let not = |negated: bool| if negated { " NOT" } else { "" };
        match &self.expr.kind {
            ExprKind::Column(index) => match self.fields.get(*index) {
                Some(field) => f.write_str(&field.name),
                None => write!(f, "${index}"),
            },
            ExprKind::Literal(value) => scalar(f, value),
            ExprKind::Arith { op, left, right, checked } => {
                let mark = if *checked { "?" } else { "" };
                write!(f, "{} {}{mark} {}", self.operand(left), arith_symbol(*op), self.operand(right))
            }
            ExprKind::Negate { input, .. } => write!(f, "-{}", self.operand(input)),
            ExprKind::Compare { op, left, right } => {
                write!(f, "{} {} {}", self.operand(left), compare_symbol(*op), self.operand(right))
            }
            ExprKind::And(list) => f.write_str(&self.joined(list, " AND ")),
            ExprKind::Or(list) => f.write_str(&self.joined(list, " OR ")),
            ExprKind::Not(input) => write!(f, "NOT {}", self.operand(input)),
            ExprKind::IsNull(input) => write!(f, "{} IS NULL", self.operand(input)),
            ExprKind::IsNotNull(input) => write!(f, "{} IS NOT NULL", self.operand(input)),
            ExprKind::Case { branches, otherwise } => {
                write!(f, "CASE")?;
                for (when, then) in branches {
                    write!(f, " WHEN {} THEN {}", self.of(when), self.of(then))?;
                }
                if let Some(otherwise) = otherwise {
                    write!(f, " ELSE {}", self.of(otherwise))?;
                }
                write!(f, " END")
            }
            ExprKind::Cast { input, try_cast } => {
                let name = if *try_cast { "TRY_CAST" } else { "CAST" };
                write!(f, "{name}({} AS {})", self.of(input), self.expr.ty.logical)
            }
            // Another representation is no other value.
            ExprKind::Widen(input) => self.of(input).fmt(f),
            ExprKind::InList { input, list, has_null, negated } => {
                write!(f, "{}{} IN (", self.operand(input), not(*negated))?;
                for (i, value) in list.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    scalar(f, value)?;
                }
                f.write_str(if *has_null { ", NULL)" } else { ")" })
            }
            ExprKind::Like { input, pattern, case_insensitive, negated, .. } => {
                let like = if *case_insensitive { "ILIKE" } else { "LIKE" };
                write!(f, "{}{} {like} '{pattern}'", self.operand(input), not(*negated))
            }
            ExprKind::AddInterval { input, months, days, nanos } => {
                write!(f, "{} + INTERVAL '{months} months {days} days {nanos} ns'", self.operand(input))
            }
            ExprKind::Call { function, args } => {
                let args: Vec<String> = args.iter().map(|arg| self.of(arg).to_string()).collect();
                write!(f, "{}({})", format!("{function:?}").to_lowercase(), args.join(", "))
            }
            ExprKind::Recode(recoding) => {
                let input = |input: &'_ Expr| Field { name: self.of(input).to_string(), ty: input.ty.clone() };
                let inputs: Vec<Field> = recoding.inputs.iter().map(input).collect();
                recoding.source.over(&inputs).fmt(f)
            }
        }
    }
}

fn scalar(f: &mut Formatter<'_>, value: &Scalar) -> fmt::Result {
    match value {
        Scalar::Null => write!(f, "NULL"),
        Scalar::Bool(value) => write!(f, "{value}"),
        Scalar::Int(value) => write!(f, "{value}"),
        Scalar::Float(value) => write!(f, "{value:?}"),
        Scalar::Str(value) => write!(f, "'{}'", value.replace('\'', "''")),
    }
}

fn arith_symbol(op: ArithOp) -> &'static str {
    match op {
        ArithOp::Add => "+",
        ArithOp::Sub => "-",
        ArithOp::Mul => "*",
        ArithOp::Div => "/",
        ArithOp::Mod => "%",
    }
}

fn compare_symbol(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "=",
        CompareOp::Ne => "<>",
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
        CompareOp::IsDistinct => "IS DISTINCT FROM",
        CompareOp::IsNotDistinct => "IS NOT DISTINCT FROM",
    }
}
