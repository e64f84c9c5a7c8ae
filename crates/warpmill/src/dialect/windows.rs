//! Window functions that the planner adds.

use datafusion::common::Result;
use datafusion::logical_expr::expr::{Sort, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{Expr, WindowFrame, WindowFunctionDefinition};

/// A window function of all rows in the order of `keys`.
pub(crate) fn window(fun: WindowFunctionDefinition, args: Vec<Expr>, keys: Vec<Sort>) -> Result<Expr> {
    window_in(fun, args, vec![], keys)
}

/// A window function of the rows of each partition in the order of `keys`.
pub(super) fn window_in(
    fun: WindowFunctionDefinition,
    args: Vec<Expr>,
    partition_by: Vec<Expr>,
    keys: Vec<Sort>,
) -> Result<Expr> {
    let window_frame = WindowFrame::new((!keys.is_empty()).then_some(false));
    let params = WindowFunctionParams {
        args,
        partition_by,
        order_by: keys,
        window_frame,
        filter: None,
        null_treatment: None,
        distinct: false,
    };
    Ok(Expr::from(WindowFunction { fun, params }))
}
