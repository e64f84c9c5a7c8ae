//! Calls over windows that are rewritten before names are bound.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, NullTreatment, ObjectName,
    ObjectNamePart, OrderByExpr, OrderByOptions, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec,
    WindowType,
};

use warpmill_translate::excluded;

use super::calls::{arguments, binary, case, number, text};
use super::expr::function;
use super::scope::nested;
use crate::dialect::functions::TYPED_AS;
use crate::dialect::syntax::EXCLUDE;
use crate::{Error, Result};

/// Functions of a row's place in its partition, which do not depend on a frame.
const WITHOUT_FRAMES: [&str; 9] =
    ["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "fill"];

/// Removes the partition that stands for the EXCLUDE of a window's frame.
pub(super) fn take_excluded(window: &mut WindowSpec) -> Option<Expr> {
    let at = window.partition_by.iter().position(|key| excluded_words(key).is_some())?;
    Some(window.partition_by.remove(at))
}

/// The words of EXCLUDE that a partition stands for.
pub(super) fn excluded_words(partition: &Expr) -> Option<&str> {
    match partition {
        Expr::Identifier(name) => name.value.strip_prefix(EXCLUDE),
        _ => None,
    }
}

/// Replaces EXCLUDE in a call's frame by a function around its first argument ([`excluded`]).
///
/// # Errors
/// Calls without an argument.
pub(super) fn exclude(call: &mut Function) -> Result<()> {
    let Some(WindowType::WindowSpec(window)) = &mut call.over else { return Ok(()) };
    let Some(partition) = take_excluded(window) else { return Ok(()) };
    let Some(words) = excluded_words(&partition) else { return Ok(()) };
    let name = call.name.0.last().and_then(ObjectNamePart::as_ident).map(|name| name.value.to_lowercase());
    let name = name.unwrap_or_default();
    if WITHOUT_FRAMES.contains(&name.as_str()) {
        return Ok(());
    }
    let refused = || Err(Error::NotImplemented(format!("EXCLUDE in a frame of {name} with these arguments")));
    let args = arguments(call);
    let FunctionArguments::List(list) = &mut call.args else { return refused() };
    let wrapped = |argument: Expr| {
        let argument = function(excluded::NAME, vec![argument, text(words)]);
        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))
    };
    match args.as_deref() {
        Some([first, ..]) => list.args[0] = wrapped(first.clone()),
        // Of all rows.
        _ if name == "count" => list.args = vec![wrapped(number(1))],
        _ => return refused(),
    }
    Ok(())
}

/// The window of a call, where it has neither an order nor a frame, so that it is all rows of a partition; `None`: another window, or none.
pub(super) fn whole_window(call: &Function) -> Option<WindowSpec> {
    match &call.over {
        Some(WindowType::WindowSpec(window))
            if window.window_name.is_none() && window.order_by.is_empty() && window.window_frame.is_none() =>
        {
            Some(window.clone())
        }
        _ => None,
    }
}

/// `lead(x, rows, default) OVER (...)` and `lag`, with the default of the row itself where there is no other row.
pub(super) fn with_default(call: &Function, x: &Expr, rows: &Expr, default: &Expr) -> Option<Expr> {
    let of = |value: Expr| {
        let mut call = call.clone();
        let FunctionArguments::List(list) = &mut call.args else { return None };
        list.args = [value, rows.clone()].map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).into();
        Some(Expr::Function(call))
    };
    // Rows that are skipped are none.
    let there = match call.null_treatment {
        Some(NullTreatment::IgnoreNulls) => case(Expr::IsNotNull(Box::new(nested(x.clone()))), number(1), None),
        _ => number(1),
    };
    let missing = Expr::IsNull(Box::new(nested(of(there)?)));
    let default = function(TYPED_AS, vec![default.clone(), x.clone()]);
    Some(case(missing, default, Some(of(x.clone())?)))
}

/// `arg_max(x, y) OVER (...)` and `arg_min`: x in the first row by y of the rows where neither is NULL.
pub(super) fn extreme(call: &Function, descending: bool, x: &Expr, y: &Expr) -> Option<Expr> {
    let mut window = whole_window(call)?;
    let present = |x: &Expr| Expr::IsNotNull(Box::new(nested(x.clone())));
    let mut there = binary(present(x), BinaryOperator::And, present(y));
    let mut first = call.clone();
    first.name = ObjectName::from(vec![Ident::new("first_value")]);
    if let Some(filter) = first.filter.take() {
        there = binary(there, BinaryOperator::And, *filter);
    }
    window.order_by = vec![OrderByExpr {
        expr: case(there.clone(), y.clone(), None),
        options: OrderByOptions { asc: Some(!descending), nulls_first: Some(false) },
        with_fill: None,
    }];
    window.window_frame = Some(WindowFrame {
        units: WindowFrameUnits::Rows,
        start_bound: WindowFrameBound::Preceding(None),
        end_bound: Some(WindowFrameBound::Following(None)),
    });
    first.over = Some(WindowType::WindowSpec(window));
    let FunctionArguments::List(list) = &mut first.args else { return None };
    list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(case(there, x.clone(), None)))];
    Some(Expr::Function(first))
}
