//! Calls over windows that are rewritten before names are bound.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, OrderByExpr,
    OrderByOptions, Value, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
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

/// The largest frame, in rows, whose values are listed.
const NARROW: u64 = 512;

/// Whether a call is over a frame of few rows that slides: DataFusion subtracts the rows that leave from its variances, after which rounding errors
/// of large values are all that is left.
pub(super) fn has_narrow_frame(call: &Function) -> bool {
    let Some(WindowType::WindowSpec(window)) = &call.over else { return false };
    let Some(WindowFrame { units: WindowFrameUnits::Rows, start_bound, end_bound }) = &window.window_frame else {
        return false;
    };
    let is_near = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => true,
        WindowFrameBound::Preceding(Some(offset)) | WindowFrameBound::Following(Some(offset)) => match &**offset {
            Expr::Value(value) => match &value.value {
                Value::Number(number, _) => number.parse::<u64>().is_ok_and(|number| number <= NARROW),
                _ => false,
            },
            _ => false,
        },
        WindowFrameBound::Preceding(None) | WindowFrameBound::Following(None) => false,
    };
    is_near(start_bound) && end_bound.as_ref().is_none_or(is_near)
}
