//! Aggregates that are rewritten, mostly to functions of the list of their values, and calls of aggregates that DuckDB refuses.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Array, ArrayElemTypeDef, BinaryOperator, CaseWhen, DataType, DuplicateTreatment, ExactNumberInfo, Expr, Function,
    FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident, LambdaFunction,
    LambdaFunctionParameter, LambdaSyntax, ObjectName, ObjectNamePart, OneOrManyWithParens, OrderByExpr,
    OrderByOptions, UnaryOperator, Value,
};

use super::calls::{arguments, binary, case, cast, number, text};
use super::expr::function;
use super::query::check_sort_literal;
use super::scope::nested;
use super::windows::extreme;
use crate::dialect::aggregates::frames;
use crate::dialect::library;
use crate::visit::{visit_expressions, visit_expressions_mut};
use crate::{Error, Result};

/// Number of bits of GROUPING's result.
const MOST_GROUPS: usize = 64;

/// Removes parts of aggregate calls without effect: orders by constants or by a value twice, DISTINCT where it changes nothing.
///
/// # Errors
/// Calls that DuckDB refuses: `count(DISTINCT *)`, DISTINCT values ordered by another expression; `is_volatile` tells which functions are volatile.
pub(super) fn settle(call: &mut Function, is_volatile: &dyn Fn(&str) -> bool) -> Result<()> {
    let Some(name) = call.name.0.last().and_then(ObjectNamePart::as_ident) else { return Ok(()) };
    let name = name.value.to_lowercase();
    without_separator(&name, call);
    let args = arguments(call).unwrap_or_default();
    let over = call.over.is_some();
    let FunctionArguments::List(list) = &mut call.args else { return Ok(()) };
    let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    let is_star = |arg: &FunctionArg| matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Wildcard));
    if distinct && list.args.iter().any(is_star) {
        return Err(Error::Plan(format!("{name}(DISTINCT *): * is no value of a row")));
    }
    if matches!(name.as_str(), "grouping" | "grouping_id") && list.args.len() > MOST_GROUPS {
        return Err(Error::Plan(format!("GROUPING of more than {MOST_GROUPS} groups")));
    }
    for clause in &mut list.clauses {
        let FunctionArgumentClause::OrderBy(keys) = clause else { continue };
        let mut kept: Vec<OrderByExpr> = vec![];
        for key in std::mem::take(keys) {
            if let Expr::Value(value) = &key.expr {
                check_sort_literal(&value.value)?;
                continue;
            }
            if distinct && !follows(&key.expr, &args, is_volatile) {
                let reason = "In a DISTINCT aggregate, ORDER BY expressions must appear in the argument list";
                return Err(Error::Plan(reason.into()));
            }
            if !kept.iter().any(|other| other.expr == key.expr) {
                kept.push(key);
            }
        }
        *keys = kept;
    }
    list.clauses.retain(|clause| !matches!(clause, FunctionArgumentClause::OrderBy(keys) if keys.is_empty()));
    let same_for_equal = ["first", "last", "arbitrary", "any_value", "min", "max", "bool_and", "bool_or"];
    if distinct && !over && args.len() == 1 && same_for_equal.contains(&name.as_str()) {
        list.duplicate_treatment = None;
    }
    Ok(())
}

/// Whether a key of ORDER BY is a function of some arguments.
fn follows(key: &Expr, args: &[Expr], is_volatile: &dyn Fn(&str) -> bool) -> bool {
    if args.contains(key) {
        return true;
    }
    let mut rest = nested(key.clone());
    let _: ControlFlow<()> = visit_expressions_mut(&mut rest, |e| {
        if args.contains(e) {
            *e = Expr::Value(Value::Null.into());
        }
        ControlFlow::Continue(())
    });
    let found = visit_expressions(&rest, |e| match e {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) => ControlFlow::Break(()),
        Expr::Function(call) if is_volatile(&call.name.to_string().to_lowercase()) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_continue()
}

/// Texts between NULLs are NULL.
fn without_separator(name: &str, call: &mut Function) {
    let is_null = |arg: &FunctionArg| matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) if is_null(e));
    let FunctionArguments::List(list) = &mut call.args else { return };
    if matches!(name, "string_agg" | "group_concat" | "listagg") && list.args.len() == 2 && is_null(&list.args[1]) {
        let nothing = cast(Expr::Value(Value::Null.into()), DataType::Varchar(None));
        list.args = [nothing, text(",")].map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).into();
        list.clauses.clear();
        list.duplicate_treatment = None;
    }
}

/// Whether an expression is the constant NULL.
fn is_null(e: &Expr) -> bool {
    match e {
        Expr::Value(value) => value.value == Value::Null,
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => is_null(inner),
        _ => false,
    }
}

/// `call` as one of another function with other arguments.
pub(in crate::dialect) fn renamed(call: &Function, name: &str, args: Vec<Expr>) -> Function {
    let mut made = call.clone();
    made.name = ObjectName::from(vec![Ident::new(name)]);
    if let FunctionArguments::List(list) = &mut made.args {
        list.args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    }
    made
}

fn present(x: &Expr) -> Expr {
    Expr::IsNotNull(Box::new(nested(x.clone())))
}

/// `call` with the additional filter `condition`.
pub(in crate::dialect) fn filtered(mut call: Function, condition: Expr) -> Function {
    call.filter = Some(Box::new(match call.filter.take() {
        Some(filter) => binary(condition, BinaryOperator::And, *filter),
        None => condition,
    }));
    call
}

/// A function of the list `values` with further arguments; over a window, the aggregate that is this function of each frame.
fn of_list(list_function: &str, values: Function, rest: &[Expr]) -> Expr {
    if values.over.is_some() {
        let args = arguments(&values).unwrap_or_default().into_iter().chain(rest.iter().cloned()).collect();
        return Expr::Function(renamed(&values, &frames::of_list(list_function), args));
    }
    function(list_function, std::iter::once(Expr::Function(values)).chain(rest.iter().cloned()).collect())
}

/// The list of the values that an aggregate is of.
fn listed(call: &Function, x: &Expr) -> Function {
    renamed(call, "array_agg", vec![x.clone()])
}

/// The rewritten form of an aggregate call; `None` if it is a function itself.
pub(super) fn composed(name: &str, call: &Function) -> Option<Expr> {
    if matches!(name, "percentile_cont" | "percentile_disc") {
        return percentile(name, call);
    }
    let args = arguments(call)?;
    if let Some(list_function) = library::composed_of_list(name) {
        let (x, rest) = args.split_first()?;
        // With given bins it is an aggregate itself.
        if list_function == "list_histogram" && !rest.is_empty() {
            return None;
        }
        if let ("list_quantile_cont" | "list_quantile_disc", [at]) = (list_function, rest) {
            return Some(quantile(list_function, call, x, at));
        }
        return Some(of_list(list_function, listed(call, x), rest));
    }
    let double = |x: &Expr| cast(x.clone(), DataType::Double(ExactNumberInfo::None));
    Some(match (name, args.as_slice()) {
        ("count_if" | "countif", [condition]) => counted(call, condition),
        ("group_concat" | "listagg", _) if ordered_texts(call).is_some() => ordered_texts(call)?,
        ("group_concat" | "listagg", [x]) => Expr::Function(renamed(call, "string_agg", vec![x.clone(), text(",")])),
        ("group_concat" | "listagg", [_, _]) => Expr::Function(renamed(call, "string_agg", args)),
        ("fsum" | "sumkahan" | "kahan_sum", [x]) if call.over.is_some() => {
            Expr::Function(renamed(call, "sum", vec![double(x)]))
        }
        ("favg", [x]) if call.over.is_some() => Expr::Function(renamed(call, "avg", vec![double(x)])),
        ("fsum" | "sumkahan" | "kahan_sum", [_]) => Expr::Function(renamed(call, "fsum", args)),
        ("favg", [_]) => Expr::Function(call.clone()),
        ("weighted_avg" | "wavg", [x, weight]) => {
            let there = binary(present(x), BinaryOperator::And, present(weight));
            let sum = |e: Expr| Expr::Function(filtered(renamed(call, "sum", vec![e]), there.clone()));
            let weighted = binary(double(x), BinaryOperator::Multiply, nested(weight.clone()));
            binary(sum(weighted), BinaryOperator::Divide, sum(double(weight)))
        }
        ("json_group_object", [key, x]) => {
            let lists = [key, x].map(|x| Expr::Function(listed(call, x)));
            function("json_object_of_lists", lists.into())
        }
        ("json_group_array", [x]) => {
            function("to_json", vec![function("coalesce", vec![Expr::Function(listed(call, x))])])
        }
        ("approx_count_distinct", [_]) => {
            let mut count = renamed(call, "count", args);
            if let FunctionArguments::List(list) = &mut count.args {
                list.duplicate_treatment = Some(DuplicateTreatment::Distinct);
            }
            Expr::Function(count)
        }
        (name, [x, y, rest @ ..]) => by_extreme(name, call, [x, y], rest)?,
        _ => return None,
    })
}

/// The number of rows that satisfy `condition`; NULL without rows.
fn counted(call: &Function, condition: &Expr) -> Expr {
    let mut counted = case(condition.clone(), number(1), None);
    if let Expr::Case { conditions, .. } = &mut counted {
        let not = Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(condition.clone())) };
        conditions.push(CaseWhen { condition: not, result: number(0) });
    }
    Expr::Function(renamed(call, "sum", vec![counted]))
}

/// `percentile_cont(at) WITHIN GROUP (ORDER BY x)`, and `percentile_disc`, as quantiles: from the end in descending order.
fn percentile(name: &str, call: &Function) -> Option<Expr> {
    let [OrderByExpr { expr: x, options, .. }] = call.within_group.as_slice() else { return None };
    let FunctionArguments::List(list) = &call.args else { return None };
    let is_quantile = |name: &Ident| name.value.eq_ignore_ascii_case("quantile");
    let at = match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(at))] => at,
        [FunctionArg::Named { name, arg: FunctionArgExpr::Expr(at), .. }] if is_quantile(name) => at,
        [FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(at), .. }]
            if is_quantile(name) =>
        {
            at
        }
        _ => return None,
    };
    if matches!(at, Expr::UnaryOp { op: UnaryOperator::Minus, .. }) {
        return None;
    }
    let mut values = listed(call, x);
    values.within_group.clear();
    let list_function = if name == "percentile_cont" { "list_quantile_cont" } else { "list_quantile_disc" };
    let at = if options.asc == Some(false) { from_end(at) } else { at.clone() };
    Some(of_list(list_function, values, &[at]))
}

/// The fraction of a quantile, or fractions, in descending order.
fn from_end(at: &Expr) -> Expr {
    match at {
        Expr::Array(Array { elem, named }) => {
            Expr::Array(Array { elem: elem.iter().map(from_end).collect(), named: *named })
        }
        // The end itself has no sign.
        Expr::Value(value) if matches!(&value.value, Value::Number(digits, _) if digits.parse() == Ok(0.0)) => {
            number(1)
        }
        at => Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(nested(at.clone())) },
    }
}

/// `quantile_cont(x, at ORDER BY x DESC)`: its order tells from which end it counts.
fn quantile(list_function: &str, call: &Function, x: &Expr, at: &Expr) -> Expr {
    let mut values = listed(call, x);
    let mut descending = false;
    if let FunctionArguments::List(list) = &mut values.args {
        list.clauses.retain(|clause| match clause {
            FunctionArgumentClause::OrderBy(keys) => {
                descending = keys.first().is_some_and(|key| key.options.asc == Some(false));
                false
            }
            _ => true,
        });
    }
    let at = if descending { from_end(at) } else { at.clone() };
    of_list(list_function, values, &[at])
}

/// `sum(x ORDER BY y)`, whose last digits depend on the order.
pub(super) fn ordered_sum(call: &Function, x: &Expr) -> Option<Expr> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let ordered = list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)));
    (ordered && call.over.is_none()).then(|| function("list_sum", vec![Expr::Function(listed(call, x))]))
}

/// `arg_max(x, y)` etc.: x in the row with the greatest y, or in the n rows with the greatest.
fn by_extreme(name: &str, call: &Function, [x, y]: [&Expr; 2], rest: &[Expr]) -> Option<Expr> {
    let descending = match name {
        "arg_max" | "argmax" | "max_by" | "arg_max_null" => true,
        "arg_min" | "argmin" | "min_by" | "arg_min_null" => false,
        _ => return None,
    };
    let keeps_null = name.ends_with("_null");
    if call.over.is_some() {
        let of_frames = || Expr::Function(renamed(call, frames::of_extreme(descending), vec![x.clone(), y.clone()]));
        let is_known = rest.is_empty() && !keeps_null;
        return is_known.then(|| extreme(call, descending, x, y).unwrap_or_else(of_frames));
    }
    let mut first = renamed(call, if rest.is_empty() { "first_value" } else { "array_agg" }, vec![x.clone()]);
    let FunctionArguments::List(list) = &mut first.args else { return None };
    if !list.clauses.is_empty() || list.duplicate_treatment.is_some() && !rest.is_empty() {
        return None;
    }
    list.duplicate_treatment = None;
    // A constant is no order.
    if !matches!(y, Expr::Value(_)) {
        let options = OrderByOptions { asc: Some(!descending), nulls_first: Some(false) };
        let key = OrderByExpr { expr: y.clone(), options, with_fill: None };
        list.clauses.push(FunctionArgumentClause::OrderBy(vec![key]));
    }
    let there = if keeps_null { present(y) } else { binary(present(x), BinaryOperator::And, present(y)) };
    let first = Expr::Function(filtered(first, there));
    match rest {
        [] => Some(first),
        [count] => Some(function("list_head", vec![first, count.clone(), text("arg_min/arg_max")])),
        _ => None,
    }
}

/// `max(x, n)`: a list of the n greatest values.
pub(super) fn several(name: &str, call: &Function, x: &Expr, count: &Expr) -> Option<Expr> {
    let list = listed(call, x);
    let FunctionArguments::List(given) = &list.args else { return None };
    if !given.clauses.is_empty() {
        return None;
    }
    let sort = if name == "max" { "list_reverse_sort" } else { "list_sort" };
    let sorted = function(sort, vec![Expr::Function(filtered(list, present(x)))]);
    Some(function("list_head", vec![sorted, count.clone(), text("MIN/MAX")]))
}

/// `string_agg(x, by ORDER BY x)` as a sorted list, so that several of them may have different orders. DISTINCT values ordered by a function of them
/// are sorted with its results.
pub(super) fn ordered_texts(call: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let [FunctionArgumentClause::OrderBy(keys)] = list.clauses.as_slice() else { return None };
    let [OrderByExpr { expr: key, options, with_fill: None }] = keys.as_slice() else { return None };
    let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    let (x, by) = match arguments(call)?.as_slice() {
        [x] => (x.clone(), text(",")),
        [x, by] => (x.clone(), by.clone()),
        _ => return None,
    };
    if *key != x && !distinct || call.over.is_some() || !call.within_group.is_empty() {
        return None;
    }
    let value = match *key == x {
        true => x.clone(),
        false => function("named_struct", vec![text("key"), key.clone(), text("value"), x.clone()]),
    };
    let mut values = filtered(listed(call, &value), present(&x));
    if let FunctionArguments::List(list) = &mut values.args {
        list.clauses.clear();
    }
    let sort = if options.asc == Some(false) { "list_reverse_sort" } else { "list_sort" };
    let sorted = function(sort, vec![Expr::Function(values)]);
    let sorted = if *key == x { sorted } else { function("list_transform", vec![sorted, part("value")]) };
    let texts = DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(DataType::Varchar(None)), None));
    Some(function("list_string_agg", vec![cast(sorted, texts), by]))
}

/// The function that returns a field of a struct.
fn part(name: &str) -> Expr {
    let whole = Ident::new("__whole");
    Expr::Lambda(LambdaFunction {
        params: OneOrManyWithParens::Many(vec![LambdaFunctionParameter { name: whole.clone(), data_type: None }]),
        body: Box::new(function("get_field", vec![Expr::Identifier(whole), text(name)])),
        syntax: LambdaSyntax::Arrow,
    })
}
