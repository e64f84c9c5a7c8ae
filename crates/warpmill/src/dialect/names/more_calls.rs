//! Rewrites calls with lists, positions and orders.

use std::collections::HashMap;

use datafusion::sql::sqlparser::ast::{
    Array, ArrayElemTypeDef, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    LambdaFunction, LambdaFunctionParameter, LambdaSyntax, OneOrManyWithParens, TimezoneInfo, Value,
};
use regex::Regex;

use super::aggregate_calls;
use super::calls::{arguments, case, cast, number, text};
use super::expr::function;
use super::scope::nested;
use super::windows;
use crate::dialect::library;
use crate::dialect::macros::substituted;

/// The rewritten form of a call of lower-case `name`; `None`: it is a function.
pub(super) fn meaning(name: &str, call: &Function) -> Option<Expr> {
    if matches!(name, "string_agg") {
        return aggregate_calls::ordered_texts(call);
    }
    if matches!(name, "struct_insert" | "struct_update") {
        return with_names(name, call);
    }
    let args = arguments(call)?;
    Some(match (name, args.as_slice()) {
        ("sum", [x]) => aggregate_calls::ordered_sum(call, x)?,
        ("max" | "min", [x, count]) if call.over.is_none() => aggregate_calls::several(name, call, x, count)?,
        ("regexp_extract", [subject, pattern, Expr::Array(Array { elem, .. })]) => {
            let names = elem.iter().map(constant).collect::<Option<Vec<_>>>()?;
            if Regex::new(&constant(pattern)?).ok()?.captures_len() <= names.len() {
                return None;
            }
            let group =
                |at: usize| function("regexp_extract", vec![subject.clone(), pattern.clone(), number(at as i64)]);
            of_present(subject, names.iter().enumerate().map(|(at, name)| (name.as_str(), group(at + 1))))
        }
        ("date_part" | "datepart", [Expr::Array(Array { elem, .. }), moment]) => {
            let names = elem.iter().map(constant).collect::<Option<Vec<_>>>()?;
            let part = |name: &String| function("date_part", vec![text(name), moment.clone()]);
            of_present(moment, names.iter().map(|name| (name.as_str(), part(name))))
        }
        ("lead" | "lag", [x, rows, default]) if call.over.is_some() && !is_constant(default) && *rows != null() => {
            windows::with_default(call, x, rows, default)?
        }
        ("generate_subscripts", [list, dimension]) if *dimension == number(1) => {
            let numbers = function("generate_series", vec![number(1), function("len", vec![list.clone()])]);
            function("unnest", vec![numbers])
        }
        ("age", [moment]) => {
            let today = cast(function("current_date", vec![]), DataType::Timestamp(None, TimezoneInfo::None));
            function("age", vec![today, moment.clone()])
        }
        ("map_contains", [map, key]) => {
            function("list_contains", vec![function("map_keys", vec![map.clone()]), key.clone()])
        }
        ("list_aggregate" | "list_aggr" | "array_aggregate" | "array_aggr" | "aggregate", [list, of, by])
            if constant(of)?.eq_ignore_ascii_case("string_agg") =>
        {
            let texts = ArrayElemTypeDef::SquareBracket(Box::new(DataType::Varchar(None)), None);
            function("list_string_agg", vec![cast(list.clone(), DataType::Array(texts)), by.clone()])
        }
        ("list_aggregate" | "list_aggr" | "array_aggregate" | "array_aggr" | "aggregate", [list, of, rest @ ..])
            if let Some(named) = constant(of).and_then(|of| library::composed_of_list(&of.to_lowercase())) =>
        {
            function(named, std::iter::once(list).chain(rest).cloned().collect())
        }
        _ => return None,
    })
}

/// `struct_insert(s, name := value)` or `struct_update` with the names as texts.
fn with_names(name: &str, call: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let (first, rest) = list.args.split_first()?;
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(of)) = first else { return None };
    let mut args = vec![of.clone()];
    for arg in rest {
        match arg {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. }
            | FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), .. } => {
                args.extend([text(&name.value), value.clone()]);
            }
            _ => return None,
        }
    }
    (args.len() > 1).then(|| function(name, args))
}

/// The columns of `unnest({...})`, and of `unnest([{...}], recursive := true)`: a struct's fields by name.
pub(super) fn unnested(call: &Function) -> Option<Vec<(String, Expr)>> {
    if !call.name.to_string().eq_ignore_ascii_case("unnest") {
        return None;
    }
    let FunctionArguments::List(list) = &call.args else { return None };
    let fields = |expr: &Expr| match expr {
        Expr::Dictionary(fields) => {
            Some(fields.iter().map(|field| (field.key.value.clone(), (*field.value).clone())).collect::<Vec<_>>())
        }
        _ => None,
    };
    let is_plain = |fields: &[(String, Expr)]| {
        fields.iter().all(|(_, value)| !matches!(value, Expr::Dictionary(_) | Expr::Array(_)))
    };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(one))] => fields(one),
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(Array { elem, .. }))), how] => {
            let (FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. }
            | FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), .. }) = how
            else {
                return None;
            };
            let yes = matches!(value, Expr::Value(value) if value.value == Value::Boolean(true));
            if !name.value.eq_ignore_ascii_case("recursive") || !yes {
                return None;
            }
            let rows = elem.iter().map(fields).collect::<Option<Vec<_>>>()?;
            let first = rows.first()?;
            let alike = |row: &Vec<(String, Expr)>| {
                is_plain(row) && row.len() == first.len() && row.iter().zip(first).all(|((a, _), (b, _))| a == b)
            };
            if !rows.iter().all(alike) {
                return None;
            }
            let column = |(at, (name, _)): (usize, &(String, Expr))| {
                let elem = rows.iter().map(|row| row[at].1.clone()).collect();
                (name.clone(), function("unnest", vec![Expr::Array(Array { elem, named: false })]))
            };
            Some(first.iter().enumerate().map(column).collect())
        }
        _ => None,
    }
}

fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

/// Whether an expression has the same value in all rows, by its form.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) | Expr::TypedString(_) | Expr::Interval(_) => true,
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) | Expr::Cast { expr, .. } => is_constant(expr),
        _ => false,
    }
}

/// The text of a constant.
fn constant(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// A struct of `fields`, or NULL if `of` is.
fn of_present<'n>(of: &Expr, fields: impl Iterator<Item = (&'n str, Expr)>) -> Expr {
    let args = fields.flat_map(|(name, value)| [text(name), value]).collect();
    case(Expr::IsNotNull(Box::new(nested(of.clone()))), function("named_struct", args), None)
}

/// `list_transform(l, (x, i) -> e)` and `list_filter` with the position of each element: over pairs of elements and positions.
pub(super) fn with_positions(call: &Function) -> Option<Expr> {
    let [name] = call.name.0.as_slice() else { return None };
    let name = name.as_ident()?.value.to_lowercase();
    let filters = match name.as_str() {
        "list_transform" | "array_transform" | "list_apply" | "array_apply" | "apply" => false,
        "list_filter" | "array_filter" | "filter" => true,
        _ => return None,
    };
    let FunctionArguments::List(list) = &call.args else { return None };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(of)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Lambda(lambda))),
    ] = list.args.as_slice()
    else {
        return None;
    };
    let OneOrManyWithParens::Many(params) = &lambda.params else { return None };
    let [element, position] = params.as_slice() else { return None };
    let pair = || Expr::Identifier(Ident::new("__pair"));
    let part = |at: &str| function("get_field", vec![pair(), text(at)]);
    let over = |body: Expr| {
        Expr::Lambda(LambdaFunction {
            params: OneOrManyWithParens::Many(vec![LambdaFunctionParameter {
                name: Ident::new("__pair"),
                data_type: None,
            }]),
            body: Box::new(body),
            syntax: LambdaSyntax::Arrow,
        })
    };
    let places = HashMap::from([
        (element.name.value.to_lowercase(), part("1")),
        (position.name.value.to_lowercase(), part("2")),
    ]);
    let body = substituted((*lambda.body).clone(), &places);
    let positions = function(
        "range",
        vec![
            number(1),
            Expr::BinaryOp {
                left: Box::new(function("length", vec![of.clone()])),
                op: datafusion::sql::sqlparser::ast::BinaryOperator::Plus,
                right: Box::new(number(1)),
            },
        ],
    );
    let pairs = function("list_zip", vec![of.clone(), positions]);
    let made = match filters {
        true => function("list_transform", vec![function("list_filter", vec![pairs, over(body)]), over(part("1"))]),
        false => function("list_transform", vec![pairs, over(body)]),
    };
    Some(case(Expr::IsNotNull(Box::new(nested(of.clone()))), made, None))
}
