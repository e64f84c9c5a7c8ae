//! The text form of programs, as `EXPLAIN` prints it: one block per pipeline, a line per source, operator and sink.
//!
//! ```text
//! pipeline 1 -> hash build #0
//!   scan orders [o_orderkey, o_custkey] where o_orderdate < DATE '1995-03-15'
//!   probe #1 semi on o_custkey -> [o_orderkey]
//!   build on [o_orderkey] keep []
//! ```

mod expr;
mod literal;

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use self::literal::literal;
use crate::{
    AggregateExpr, AggregateFunction, Bound, BuildRows, ColType, Exclude, Expr, Field, Frame, FrameBound, FunctionCall,
    JoinKind, Nearest, Operator, Pipeline, Probe, Program, Scalar, Scan, Sink, SinkId, SortKey, Source, WindowCall,
    WindowFunction,
};

/// A pipeline as EXPLAIN shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Described {
    /// Index of the pipeline.
    pub pipeline: usize,
    /// The sink that it feeds.
    pub sink: SinkId,
    /// Whether that is the result of the program.
    pub result: bool,
    /// Source, operators, sink.
    pub steps: Vec<Step>,
}

/// A source, an operator or a sink as EXPLAIN shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Step {
    /// `scan`, `rows`, `build rows`, `input`, `values`; `filter`, `limit`, `project`, `probe`; `build`, `aggregate`, `functions`, `sort`, `window`,
    /// `collect`.
    pub operator: &'static str,
    /// The line of the text form.
    pub text: String,
    /// The table of a scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The name of a probe's join kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<&'static str>,
    /// The sinks that it reads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<SinkId>,
    /// Conditions that rows pass, in SQL terms.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
    /// Keys of joins, groups, partitions or sorts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Aggregates, window functions and computed columns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expressions: Vec<String>,
    /// Output columns, or columns that a sink keeps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
}

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for Described { pipeline, sink, result, steps } in self.described() {
            writeln!(f, "pipeline {pipeline} -> #{sink}{}", if result { " (result)" } else { "" })?;
            steps.iter().try_for_each(|step| writeln!(f, "  {}", step.text))?;
        }
        Ok(())
    }
}

impl Program {
    /// The program's pipelines as shown by EXPLAIN.
    pub fn described(&self) -> Vec<Described> {
        let described = |(index, pipeline): (usize, &Pipeline)| {
            let mut fields = pipeline.source.fields().to_vec();
            let mut steps = vec![source(&pipeline.source)];
            for operator in &pipeline.operators {
                steps.push(self.operator(operator, &fields));
                match operator {
                    Operator::Project(list) => fields = list.iter().map(|(field, _)| field.clone()).collect(),
                    Operator::Probe(probe) => fields.clone_from(&probe.fields),
                    Operator::Filter(_) | Operator::Limit { .. } => {}
                }
            }
            steps.push(sink(&self.sinks[pipeline.sink], &fields));
            let result = pipeline.sink + 1 == self.sinks.len();
            Described { pipeline: index, sink: pipeline.sink, result, steps }
        };
        self.pipelines.iter().enumerate().map(described).collect()
    }

    /// Describes `operator`, whose input is `fields`.
    fn operator(&self, operator: &Operator, fields: &[Field]) -> Step {
        match operator {
            Operator::Filter(predicate) => {
                let condition = predicate.over(fields).to_string();
                let text = format!("filter {condition}");
                Step { operator: "filter", text, conditions: vec![condition], ..Step::default() }
            }
            Operator::Limit { skip, fetch } => {
                Step { operator: "limit", text: format!("limit{}", bounds(*skip, *fetch)), ..Step::default() }
            }
            Operator::Project(list) => {
                let shown = list.iter().map(|(field, expr)| {
                    let text = expr.over(fields).to_string();
                    if text == field.name { text } else { format!("{text} AS {}", field.name) }
                });
                let expressions: Vec<String> = shown.collect();
                let text = format!("project [{}]", expressions.join(", "));
                let columns = list.iter().map(|(field, _)| field.name.clone()).collect();
                Step { operator: "project", text, expressions, columns, ..Step::default() }
            }
            Operator::Probe(probe) => self.probe(probe, fields),
        }
    }

    fn probe(&self, probe: &Probe, fields: &[Field]) -> Step {
        let kind = join(probe.kind);
        let asof = if probe.asof.is_some() { " asof" } else { "" };
        let mut text = format!("probe #{}{asof} {kind}", probe.build);
        if probe.null_aware {
            text += " null-aware";
        }
        let (keys, mut conditions) = (shown(&probe.keys, fields), vec![]);
        if !keys.is_empty() {
            text += &format!(" on {}", listed(&keys));
        }
        if let Some(asof) = &probe.asof {
            let op = match asof.nearest {
                Nearest::AtMost => ">=",
                Nearest::Below => ">",
                Nearest::AtLeast => "<=",
                Nearest::Above => "<",
            };
            let condition = format!("{} {op} its order", asof.value.over(fields));
            text += &format!(" and {condition}");
            conditions.push(condition);
        }
        if let Some(range) = &probe.range {
            let bound = |bound: &Option<Bound>, op: &str| {
                let text = |bound: &Bound| {
                    let equal = if bound.inclusive { "=" } else { "" };
                    format!(" {op}{equal} {}", bound.value.over(fields))
                };
                bound.as_ref().map(text).unwrap_or_default()
            };
            text += &format!(" within its order{}{}", bound(&range.lower, ">"), bound(&range.upper, "<"));
        }
        if let Some(residual) = &probe.residual {
            let payload = self.sinks.get(probe.build).map_or(&[][..], Sink::fields);
            let both: Vec<Field> = fields.iter().chain(payload).cloned().collect();
            let condition = residual.over(&both).to_string();
            text += &format!(" if {condition}");
            conditions.push(condition);
        }
        let columns = names(&probe.fields);
        text += &format!(" -> {}", listed(&columns));
        let reads = vec![probe.build];
        Step { operator: "probe", text, join: Some(kind), reads, conditions, keys, columns, ..Step::default() }
    }
}

fn join(kind: JoinKind) -> &'static str {
    match kind {
        JoinKind::Inner => "inner",
        JoinKind::ProbeOuter => "probe outer",
        JoinKind::ProbeSemi => "semi",
        JoinKind::ProbeAnti => "anti",
        JoinKind::ProbeMark => "mark",
        JoinKind::BuildOuter => "build outer",
        JoinKind::Full => "full",
        JoinKind::BuildOnly => "mark build",
    }
}

/// Describes a sink, whose input is `fields`.
fn sink(sink: &Sink, fields: &[Field]) -> Step {
    match sink {
        Sink::HashBuild { keys, fields: kept, null_equals_null, track_matches, order, .. } => {
            let nulls = if *null_equals_null { " nulls equal" } else { "" };
            let matches = if *track_matches { " with match flags" } else { "" };
            let order = order.as_ref().map(|order| format!(" order {}", order.over(fields))).unwrap_or_default();
            let (keys, columns) = (shown(keys, fields), names(kept));
            let text = format!("build on {}{order} keep {}{nulls}{matches}", listed(&keys), listed(&columns));
            Step { operator: "build", text, keys, columns, ..Step::default() }
        }
        Sink::Aggregate { groups, aggregates, fields: output } => {
            let keys = shown(groups, fields);
            let by = if keys.is_empty() { String::new() } else { format!(" by {}", listed(&keys)) };
            let expressions: Vec<String> = aggregates.iter().map(|aggregate| call(aggregate, fields)).collect();
            let text = format!("aggregate{by} {}", listed(&expressions));
            Step { operator: "aggregate", text, keys, expressions, columns: names(output), ..Step::default() }
        }
        Sink::Functions { groups, calls, fields: output } => {
            let keys = shown(groups, fields);
            let by = if keys.is_empty() { String::new() } else { format!(" by {}", listed(&keys)) };
            let call =
                |call: &FunctionCall| format!("{}({})", call.function.name, shown(&call.arguments, fields).join(", "));
            let expressions: Vec<String> = calls.iter().map(call).collect();
            let text = format!("functions{by} {}", listed(&expressions));
            Step { operator: "functions", text, keys, expressions, columns: names(output), ..Step::default() }
        }
        Sink::Sort { keys, skip, fetch, fields: output } => {
            let keys: Vec<String> = keys.iter().map(|key| sort_key(key, fields)).collect();
            let text = format!("sort by {}{}", listed(&keys), bounds(*skip, *fetch));
            Step { operator: "sort", text, keys, columns: names(output), ..Step::default() }
        }
        Sink::Window { partition, order, calls, fields: output, .. } => {
            let keys = shown(partition, fields);
            let mut text = "window".to_string();
            if !keys.is_empty() {
                text += &format!(" by {}", listed(&keys));
            }
            if !order.is_empty() {
                let order: Vec<String> = order.iter().map(|key| sort_key(key, fields)).collect();
                text += &format!(" order {}", listed(&order));
            }
            let key = order.first().map(|key| &key.expr.ty);
            let expressions: Vec<String> = calls.iter().map(|call| window_call(call, fields, key)).collect();
            text += &format!(" {}", listed(&expressions));
            Step { operator: "window", text, keys, expressions, columns: names(output), ..Step::default() }
        }
        Sink::Collect { fields } => {
            let columns = names(fields);
            Step { operator: "collect", text: format!("collect {}", listed(&columns)), columns, ..Step::default() }
        }
    }
}

fn source(source: &Source) -> Step {
    let columns = names(source.fields());
    let (operator, text, reads) = match source {
        Source::Scan(of) => return Step { columns, ..scan(of) },
        Source::Rows { sink, .. } => ("rows", format!("rows of #{sink}"), vec![*sink]),
        Source::Build { sink, rows, .. } => {
            let rows = match rows {
                BuildRows::Matched => "matched",
                BuildRows::Unmatched => "unmatched",
                BuildRows::Marked => "marked",
            };
            ("build rows", format!("{rows} rows of build #{sink}"), vec![*sink])
        }
        Source::Input { input, .. } => ("input", format!("input {input}"), vec![]),
        Source::Values { rows, .. } => ("values", format!("{} constant rows", rows.len()), vec![]),
    };
    Step { operator, text: format!("{text} {}", listed(&columns)), reads, columns, ..Step::default() }
}

fn scan(scan: &Scan) -> Step {
    let mut text = format!("scan {} {}", scan.name, listed(&names(&scan.fields)));
    let conditions = shown(&scan.filters, &scan.fields);
    for (i, condition) in conditions.iter().enumerate() {
        text += &format!(" {} {condition}", if i == 0 { "where" } else { "and" });
    }
    for key in &scan.prune {
        text += &format!(" prune {} by #{}.{}", scan.fields[key.column].name, key.build, key.key);
    }
    for filter in &scan.sideways {
        text += &format!(" sideways {} by {}", scan.fields[filter.column].name, filter.table.name());
    }
    let reads = scan.prune.iter().map(|key| key.build).collect();
    Step { operator: "scan", text, table: Some(scan.name.clone()), reads, conditions, ..Step::default() }
}

fn names(fields: &[Field]) -> Vec<String> {
    fields.iter().map(|field| field.name.clone()).collect()
}

fn shown(exprs: &[Expr], fields: &[Field]) -> Vec<String> {
    exprs.iter().map(|expr| expr.over(fields).to_string()).collect()
}

fn listed(texts: &[String]) -> String {
    format!("[{}]", texts.join(", "))
}

fn bounds(skip: u64, fetch: Option<u64>) -> String {
    let skip = if skip == 0 { String::new() } else { format!(" skip {skip}") };
    let fetch = fetch.map_or(String::new(), |fetch| format!(" first {fetch}"));
    format!("{skip}{fetch}")
}

fn sort_key(key: &SortKey, fields: &[Field]) -> String {
    let direction = if key.descending { " desc" } else { "" };
    // The SQL default here: NULLs are larger than all values.
    let nulls = match (key.nulls_first, key.descending, key.expr.ty.nullable) {
        (true, false, true) => " nulls first",
        (false, true, true) => " nulls last",
        _ => "",
    };
    format!("{}{direction}{nulls}", key.expr.over(fields))
}

/// A call over `fields`; `key` is the type of the first key that rows are ordered by.
fn window_call(call: &WindowCall, fields: &[Field], key: Option<&ColType>) -> String {
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
        WindowFunction::Aggregate(function) => function.name().to_owned(),
    };
    let argument = call.argument.as_ref().map_or(String::new(), |argument| argument.over(fields).to_string());
    let nulls = if call.ignore_nulls { " ignore nulls" } else { "" };
    let frame =
        if call.function.has_frame() { format!(" {}", Framed { frame: &call.frame, key }) } else { String::new() };
    format!("{name}({argument}{nulls}){frame}")
}

/// A frame with the key's type, for RANGE distances.
struct Framed<'a> {
    frame: &'a Frame,
    key: Option<&'a ColType>,
}

impl Display for Framed<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", format!("{:?}", self.frame.units).to_lowercase())?;
        self.bound(f, &self.frame.start)?;
        write!(f, "..")?;
        self.bound(f, &self.frame.end)?;
        match Exclude::ALL.iter().find(|(exclude, _)| *exclude == self.frame.exclude) {
            Some((_, words)) => write!(f, " without {words}"),
            None => Ok(()),
        }
    }
}

impl Framed<'_> {
    fn bound(&self, f: &mut Formatter<'_>, bound: &FrameBound) -> fmt::Result {
        let (sign, distance) = match bound {
            FrameBound::UnboundedPreceding | FrameBound::UnboundedFollowing => return Ok(()),
            FrameBound::CurrentRow => return write!(f, "0"),
            FrameBound::Preceding(distance) => ("-", distance),
            FrameBound::Following(distance) => ("+", distance),
        };
        write!(f, "{sign}")?;
        // Distances of dates or timestamps are shown as numbers of days, or of the timestamps' unit.
        let decimal = |key: &&ColType| self.frame.compares_values() && key.logical.is_decimal();
        match (self.key.filter(decimal), distance) {
            (Some(key), distance) => literal(f, distance, key),
            (None, Scalar::Int(value)) => write!(f, "{value}"),
            (None, Scalar::Float(value)) => write!(f, "{value:?}"),
            (None, distance) => write!(f, "{distance:?}"),
        }
    }
}

fn call(aggregate: &AggregateExpr, fields: &[Field]) -> String {
    let name = aggregate.function.name();
    let distinct = if aggregate.distinct { "distinct " } else { "" };
    let argument = aggregate.argument.as_ref().map_or("*".to_owned(), |argument| argument.over(fields).to_string());
    let second = aggregate.second.as_ref().map_or(String::new(), |second| format!(", {}", second.over(fields)));
    let filter = aggregate.filter.as_ref().map_or(String::new(), |filter| format!(" if {}", filter.over(fields)));
    // The accumulator matters to the cost of sums.
    let held = match aggregate.function {
        AggregateFunction::Sum => format!(":{:?}", aggregate.ty.phys).to_lowercase(),
        _ => String::new(),
    };
    format!("{name}({distinct}{argument}{second}){held}{filter}")
}
