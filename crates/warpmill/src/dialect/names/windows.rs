//! Calls over windows that are rewritten before names are bound.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, OrderByExpr,
    OrderByOptions, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};

use super::calls::{binary, case};
use super::scope::nested;

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
