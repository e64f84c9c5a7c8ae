//! Calls over windows that are rewritten before names are bound.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, OrderByExpr,
    OrderByOptions, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};

use warpmill_translate::excluded;

use super::calls::{arguments, binary, case, number, text};
use super::expr::function;
use super::scope::nested;
use crate::dialect::syntax::EXCLUDE;
use crate::{Error, Result};

/// Functions of a row's place among all rows of its partition, whatever its frame is.
const WITHOUT_FRAMES: [&str; 9] =
    ["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "fill"];

/// What the frame of a window leaves out, as the partition that it was written as.
pub(super) fn take_excluded(window: &mut WindowSpec) -> Option<Expr> {
    let at = window.partition_by.iter().position(|key| excluded_words(key).is_some())?;
    Some(window.partition_by.remove(at))
}

/// The words of such a partition.
pub(super) fn excluded_words(partition: &Expr) -> Option<&str> {
    match partition {
        Expr::Identifier(name) => name.value.strip_prefix(EXCLUDE),
        _ => None,
    }
}

/// Makes what the frame of a call leaves out a function of its first argument, which [`excluded`] gives the frame back.
///
/// # Errors
/// Calls without an argument.
pub(super) fn exclude(call: &mut Function) -> Result<()> {
    let Some(WindowType::WindowSpec(window)) = &mut call.over else { return Ok(()) };
    let Some(partition) = take_excluded(window) else { return Ok(()) };
    let Some(words) = excluded_words(&partition) else { return Ok(()) };
    let name = call.name.to_string().to_lowercase();
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
