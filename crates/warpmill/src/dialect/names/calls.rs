//! Rewrites calls that represent operators, CASE, or other functions.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Array, BinaryOperator, CaseWhen, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident, Interval, LambdaFunction, ObjectName,
    OneOrManyWithParens, Subscript, TimezoneInfo, UnaryOperator, Value,
};

use super::aggregate_calls;
use super::expr::function;
use super::scope::nested;
use crate::dialect::library;
use crate::visit::visit_expressions;

/// The arguments of a call without names; `None` if some are named.
pub(in crate::dialect) fn arguments(call: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let arg = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().map(arg).collect()
}

/// `coalesce(args)`, without such a call in its own first argument: `coalesce(coalesce(a, b), c)` is `coalesce(a, b, c)`.
pub(super) fn first_known(mut args: Vec<Expr>) -> Expr {
    while let Some(Expr::Function(call)) = args.first().filter(|first| is_first_known(first)) {
        let Some(inner) = arguments(call) else { break };
        args.splice(..1, inner);
    }
    function("coalesce", args)
}

/// Whether an expression is a call of `coalesce`.
fn is_first_known(expr: &Expr) -> bool {
    let Expr::Function(call) = expr else { return false };
    let name = call.name.to_string().to_lowercase();
    matches!(name.as_str(), "coalesce" | "ifnull" | "nvl")
        && call.over.is_none()
        && call.filter.is_none()
        && arguments(call).is_some_and(|args| args.len() > 1)
}

pub(in crate::dialect) fn text(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_string()).into())
}

pub(in crate::dialect) fn number(number: i64) -> Expr {
    Expr::Value(Value::Number(number.to_string(), false).into())
}

pub(in crate::dialect) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(nested(left)), op, right: Box::new(nested(right)) }
}

pub(in crate::dialect) fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

pub(in crate::dialect) fn case(condition: Expr, then: Expr, otherwise: Option<Expr>) -> Expr {
    let token = || datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty();
    Expr::Case {
        case_token: token(),
        end_token: token(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: then }],
        else_result: otherwise.map(Box::new),
    }
}

/// Names of calls that are rewritten for some arguments ([`meaning`]), besides composed aggregates.
const MEANINGS: [&str; 30] = [
    "add",
    "current_catalog",
    "current_database",
    "current_schema",
    "current_setting",
    "date_part",
    "getvariable",
    "map",
    "map_contains",
    "max",
    "min",
    "regexp_extract",
    "string_agg",
    "array_push_back",
    "array_push_front",
    "current_timestamp",
    "date_add",
    "divide",
    "get_current_timestamp",
    "if",
    "iff",
    "ifnull",
    "log",
    "mod",
    "multiply",
    "now",
    "struct_pack",
    "subtract",
    "transaction_timestamp",
    "version",
];

/// Whether calls of a lower-case name may be rewritten, or have lambdas.
pub(crate) fn stands_for_other(name: &str) -> bool {
    MEANINGS.contains(&name) || TAKING.contains(&name)
}

/// Names of calls that may be rewritten.
pub(crate) fn calls_for_others() -> impl Iterator<Item = &'static str> {
    MEANINGS.into_iter().chain(TAKING)
}

/// The rewritten form of a call; `None`: it is a function.
pub(super) fn meaning(call: &Function) -> Option<Expr> {
    let [name] = call.name.0.as_slice() else { return None };
    let name = name.as_ident()?.value.to_lowercase();
    if library::is_composed(&name) {
        return aggregate_calls::composed(&name, call);
    }
    // The first non-NULL value in the order.
    if name == "any_value"
        && let FunctionArguments::List(list) = &call.args
        && list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)))
        && let [x] = arguments(call)?.as_slice()
    {
        let mut first = call.clone();
        first.name = ObjectName::from(vec![Ident::new("first_value")]);
        let there = Expr::IsNotNull(Box::new(nested(x.clone())));
        first.filter = Some(Box::new(match first.filter.take() {
            Some(filter) => binary(there, BinaryOperator::And, *filter),
            None => there,
        }));
        return Some(Expr::Function(first));
    }
    // Between commas, unless it says otherwise.
    if name == "string_agg"
        && let [_] = arguments(call)?.as_slice()
    {
        let mut separated = call.clone();
        if let FunctionArguments::List(list) = &mut separated.args {
            list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(text(","))));
        }
        return Some(meaning(&separated).unwrap_or(Expr::Function(separated)));
    }
    if name == "struct_pack" {
        return packed(call);
    }
    if let Some(other) = super::more_calls::meaning(&name, call) {
        return Some(other);
    }
    let args = match &call.args {
        FunctionArguments::None => vec![],
        _ => arguments(call)?,
    };
    if call.over.is_some() || call.filter.is_some() {
        return None;
    }
    use BinaryOperator::{Minus, Modulo, Multiply, Plus};
    Some(match (name.as_str(), args.as_slice()) {
        ("if" | "iff", [condition, then, otherwise]) => case(condition.clone(), then.clone(), Some(otherwise.clone())),
        ("ifnull", [_, _]) => first_known(args),
        ("coalesce", [first, _, ..]) if is_first_known(first) => first_known(args),
        ("mod", [x, y]) => binary(x.clone(), Modulo, y.clone()),
        ("add", [x, y]) | ("date_add", [x, y]) => binary(x.clone(), Plus, y.clone()),
        ("subtract", [x, y]) => binary(x.clone(), Minus, y.clone()),
        ("multiply", [x, y]) => binary(x.clone(), Multiply, y.clone()),
        ("divide", [x, y]) => binary(x.clone(), BinaryOperator::DuckIntegerDivide, y.clone()),
        ("now" | "current_timestamp" | "get_current_timestamp" | "transaction_timestamp", []) => {
            cast(function("now", vec![]), DataType::Timestamp(None, TimezoneInfo::WithTimeZone))
        }
        ("version", []) => text(concat!("Warpmill ", env!("CARGO_PKG_VERSION"))),
        ("array_push_front", [list, x]) => function("array_prepend", vec![x.clone(), list.clone()]),
        // DataFusion takes `map` for pairs of arguments.
        ("map", []) => {
            let nothing = || Expr::Array(Array { elem: vec![], named: false });
            function("map_of_lists", vec![nothing(), nothing()])
        }
        ("map", _) => function("map_of_lists", args),
        ("array_push_back", [_, _]) => function("array_append", args),
        ("log", [x]) => function("log10", vec![x.clone()]),
        // DataFusion's function returns bytes.
        ("sha256", [_]) => function("simple_lower", vec![function("hex", vec![function("sha256", args)])]),
        _ => return None,
    })
}

/// `struct_pack(a := 1)`.
fn packed(call: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let field = |arg: &FunctionArg| match arg {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => Some([text(&name.value), value.clone()]),
        FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), .. } => {
            Some([text(&name.value), value.clone()])
        }
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => {
            let name = match value {
                Expr::Identifier(name) => name.value.clone(),
                Expr::CompoundIdentifier(parts) => parts.last()?.value.clone(),
                _ => return None,
            };
            Some([text(super::shown(&name)), value.clone()])
        }
        _ => None,
    };
    let fields = list.args.iter().map(field).collect::<Option<Vec<_>>>()?;
    Some(function("named_struct", fields.into_iter().flatten().collect()))
}

/// `INTERVAL (x) DAY`, of which DataFusion plans only integer constants without parentheses, and some units.
fn counted(interval: &Interval) -> Option<Expr> {
    let (Some(unit), None) = (&interval.leading_field, &interval.last_field) else { return None };
    let unit = unit.to_string().to_lowercase();
    let unit = unit.trim_end_matches('s');
    let (name, whole) = match unit {
        "year" | "quarter" | "month" | "week" | "day" | "decade" => {
            (format!("to_{unit}s"), Some(DataType::Integer(None)))
        }
        "century" => ("to_centuries".to_string(), Some(DataType::Integer(None))),
        "millennium" | "millenium" => ("to_millennia".to_string(), Some(DataType::Integer(None))),
        "hour" | "minute" | "microsecond" => (format!("to_{unit}s"), Some(DataType::BigInt(None))),
        "second" | "millisecond" => (format!("to_{unit}s"), None),
        _ => return None,
    };
    let is_known = !matches!(unit, "quarter" | "decade" | "century" | "millennium" | "millenium");
    if is_known && is_whole(&interval.value) {
        return None;
    }
    let count = cast((*interval.value).clone(), DataType::Double(ExactNumberInfo::None));
    let count = match whole {
        Some(ty) => cast(function("trunc", vec![count]), ty),
        None => count,
    };
    Some(function(&name, vec![count]))
}

/// Whether a value is an integer, or the text of one.
fn is_whole(value: &Expr) -> bool {
    let Expr::Value(value) = value else { return false };
    match &value.value {
        Value::SingleQuotedString(text) | Value::Number(text, _) => text.trim().parse::<i64>().is_ok(),
        _ => false,
    }
}

/// `INTERVAL '1 day 04:05'`, whose time is parsed by casts.
fn with_clock(interval: &Interval) -> Option<Expr> {
    let Expr::Value(value) = &*interval.value else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let plain = interval.leading_field.is_none() && interval.last_field.is_none() && text.contains(':');
    plain.then(|| cast((*interval.value).clone(), DataType::Interval { fields: None, precision: None }))
}

/// The rewritten form of an operator that DuckDB and DataFusion read differently.
pub(super) fn operator(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::BinaryOp { left, op, right } => {
            let pair = || vec![(**left).clone(), (**right).clone()];
            Some(match op {
                // Matches a part of the text, since DuckDB 2.0.
                BinaryOperator::PGRegexMatch => function("regexp_matches", pair()),
                BinaryOperator::PGRegexNotMatch => {
                    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(function("regexp_matches", pair()))) }
                }
                BinaryOperator::PGStartsWith => function("starts_with", pair()),
                BinaryOperator::Arrow => function("json_extract", pair()),
                BinaryOperator::LongArrow => function("json_extract_string", pair()),
                BinaryOperator::PGOverlap => function("list_has_any", pair()),
                BinaryOperator::AtArrow => function("list_has_all", pair()),
                BinaryOperator::ArrowAt => function("list_has_all", pair().into_iter().rev().collect()),
                _ => return None,
            })
        }
        Expr::Interval(interval) => counted(interval).or_else(|| with_clock(interval)),
        Expr::UnaryOp { op: UnaryOperator::PGAbs, expr } => Some(function("abs", vec![(**expr).clone()])),
        Expr::UnaryOp { op: UnaryOperator::PGPostfixFactorial, expr } => {
            Some(function("factorial", vec![(**expr).clone()]))
        }
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type: DataType::JSON, .. } => {
            Some(function("cast_to_json", vec![(**expr).clone()]))
        }
        Expr::CompoundFieldAccess { root, access_chain } => sliced(root, access_chain),
        // GLOB, for the parser.
        Expr::RLike { negated, expr, pattern, regexp: false } => {
            let matches = function("glob_matches", vec![(**expr).clone(), (**pattern).clone()]);
            Some(match negated {
                true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(matches)) },
                false => matches,
            })
        }
        Expr::Like { negated, any: false, expr, pattern, escape_char } => {
            let (pattern, escape_char) = (Box::new(pattern_of(pattern, escape_char.as_ref())?), None);
            Some(Expr::Like { negated: *negated, any: false, expr: expr.clone(), pattern, escape_char })
        }
        Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
            let (pattern, escape_char) = (pattern_of(pattern, escape_char.as_ref())?, None);
            // DataFusion compiles a pattern per row for ILIKE.
            if !matches!(pattern, Expr::Value(_)) {
                let [expr, pattern] = [(**expr).clone(), pattern].map(|e| Box::new(function("lower", vec![e])));
                return Some(Expr::Like { negated: *negated, any: false, expr, pattern, escape_char });
            }
            let pattern = Box::new(pattern);
            Some(Expr::ILike { negated: *negated, any: false, expr: expr.clone(), pattern, escape_char })
        }
        _ => None,
    }
}

/// A pattern for DataFusion, in which a backslash escapes; in DuckDB nothing escapes without ESCAPE. `None`: it needs no change, or DataFusion
/// refuses it.
fn pattern_of(pattern: &Expr, escape: Option<&datafusion::sql::sqlparser::ast::ValueWithSpan>) -> Option<Expr> {
    let escape = match escape.map(|escape| &escape.value) {
        None => None,
        Some(Value::SingleQuotedString(escape)) if escape == "\\" => return None,
        Some(Value::SingleQuotedString(escape)) => {
            let mut characters = escape.chars();
            match (characters.next(), characters.next()) {
                (None, _) => None,
                (Some(c), None) => Some(c),
                _ => return None,
            }
        }
        Some(_) => return None,
    };
    if let Expr::Value(value) = pattern
        && let Value::SingleQuotedString(given) = &value.value
    {
        let mut out = String::new();
        let mut characters = given.chars();
        while let Some(c) = characters.next() {
            let (c, plain) = match escape == Some(c) {
                true => (characters.next()?, true),
                false => (c, c == '\\'),
            };
            if plain && matches!(c, '%' | '_' | '\\') {
                out.push('\\');
            }
            out.push(c);
        }
        return (escape.is_some() || out != *given).then(|| text(&out));
    }
    match escape {
        Some(_) => None,
        None => Some(function("replace", vec![pattern.clone(), text("\\"), text("\\\\")])),
    }
}

/// A path whose slices are function calls, which support open ends and texts.
fn sliced(root: &Expr, chain: &[AccessExpr]) -> Option<Expr> {
    let at = chain.iter().position(|access| matches!(access, AccessExpr::Subscript(Subscript::Slice { .. })))?;
    let of = match at {
        0 => root.clone(),
        at => Expr::CompoundFieldAccess { root: Box::new(root.clone()), access_chain: chain[..at].to_vec() },
    };
    let AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride }) = &chain[at] else { return None };
    // Backwards from the end where the step is negative.
    let backwards = matches!(stride, Some(Expr::UnaryOp { op: UnaryOperator::Minus, .. }));
    let (first, last) = if backwards { (-1, 1) } else { (1, -1) };
    let bound = |bound: &Option<Expr>, open: i64| bound.clone().unwrap_or_else(|| number(open));
    let mut args = vec![of, bound(lower_bound, first), bound(upper_bound, last)];
    args.extend(stride.clone());
    let slice = function("list_slice", args);
    let rest = chain[at + 1..].to_vec();
    Some(match rest.is_empty() {
        true => slice,
        false => {
            let again = Expr::CompoundFieldAccess { root: Box::new(slice), access_chain: rest };
            sliced_or(again)
        }
    })
}

fn sliced_or(expr: Expr) -> Expr {
    match &expr {
        Expr::CompoundFieldAccess { root, access_chain } => sliced(root, access_chain).unwrap_or(expr),
        _ => expr,
    }
}

/// Functions that take functions.
const TAKING: [&str; 14] = [
    "list_transform",
    "array_transform",
    "list_apply",
    "array_apply",
    "apply",
    "list_filter",
    "array_filter",
    "filter",
    "list_reduce",
    "array_reduce",
    "reduce",
    "array_any_match",
    "any_match",
    "list_any_match",
];

/// Converts arguments `x -> e` and `(x, y) -> e` of functions with lambdas to lambda functions.
pub(super) fn take_lambdas(call: &mut Function) {
    let Some(name) = call.name.0.last().and_then(|part| part.as_ident()) else { return };
    if !TAKING.contains(&name.value.to_lowercase().as_str()) {
        return;
    }
    let FunctionArguments::List(list) = &mut call.args else { return };
    for arg in list.args.iter_mut().skip(1) {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg
            && let Some(lambda) = lambda_of(expr)
        {
            *expr = lambda;
        }
    }
}

/// Moves the NULL treatment after a window function's last argument to the function: if the argument is a call, the parser has attached it to that.
pub(super) fn take_null_treatment(call: &mut Function) {
    if call.over.is_none() || call.null_treatment.is_some() {
        return;
    }
    let FunctionArguments::List(list) = &mut call.args else { return };
    if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(last)))) = list.args.last_mut()
        && last.over.is_none()
    {
        call.null_treatment = last.null_treatment.take();
    }
}

/// Converts the parser's operator `->` to a lambda function; operators after it belong to its body.
pub(super) fn lambda_of(expr: &Expr) -> Option<Expr> {
    let mut whole = expr.clone();
    let mut first = &mut whole;
    let (names, body) = loop {
        match first {
            Expr::BinaryOp { left, op: BinaryOperator::Arrow, right } => break (names_of(left)?, (**right).clone()),
            Expr::BinaryOp { left, .. } => first = left,
            Expr::IsNull(inner) | Expr::IsNotNull(inner) => first = inner,
            _ => return None,
        }
    };
    *first = body;
    let parameter = |name: Ident| datafusion::sql::sqlparser::ast::LambdaFunctionParameter { name, data_type: None };
    Some(Expr::Lambda(LambdaFunction {
        params: OneOrManyWithParens::Many(names.into_iter().map(parameter).collect()),
        body: Box::new(whole),
        syntax: datafusion::sql::sqlparser::ast::LambdaSyntax::Arrow,
    }))
}

fn names_of(expr: &Expr) -> Option<Vec<Ident>> {
    match expr {
        Expr::Identifier(name) => Some(vec![name.clone()]),
        Expr::Nested(inner) => names_of(inner),
        Expr::Tuple(parts) => {
            let name = |part: &Expr| if let Expr::Identifier(name) = part { Some(name.clone()) } else { None };
            parts.iter().map(name).collect()
        }
        _ => None,
    }
}

/// Converts `name -> 'path'`, which the parser reads as a lambda function of `name`, to a JSON extraction.
pub(super) fn json_path(lambda: &LambdaFunction) -> Option<Expr> {
    let OneOrManyWithParens::One(parameter) = &lambda.params else { return None };
    let name = &parameter.name;
    if mentions(&lambda.body, &name.value) {
        return None;
    }
    Some(extracted(Expr::Identifier(name.clone()), (*lambda.body).clone()))
}

/// `root -> body`, where arrows in the body apply afterwards.
fn extracted(root: Expr, body: Expr) -> Expr {
    match body {
        Expr::BinaryOp { left, op: op @ (BinaryOperator::Arrow | BinaryOperator::LongArrow), right } => {
            Expr::BinaryOp { left: Box::new(extracted(root, *left)), op, right }
        }
        body => Expr::BinaryOp { left: Box::new(root), op: BinaryOperator::Arrow, right: Box::new(body) },
    }
}

fn mentions(expr: &Expr, name: &str) -> bool {
    use std::ops::ControlFlow;
    let found = visit_expressions(expr, |e| {
        let here = match e {
            Expr::Identifier(ident) => ident.value.eq_ignore_ascii_case(name),
            Expr::CompoundIdentifier(parts) => parts[0].value.eq_ignore_ascii_case(name),
            _ => false,
        };
        if here { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found.is_break()
}
