//! Window functions, in projections and in separate relations.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{Sort, WindowFunction as WindowExpr, WindowFunctionParams};
use datafusion::logical_expr::utils::find_window_exprs;
use datafusion::logical_expr::{
    Expr, LogicalPlanBuilder, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};
use datafusion_substrait::substrait::proto::aggregate_function::AggregationInvocation;
use datafusion_substrait::substrait::proto::expression::WindowFunction;
use datafusion_substrait::substrait::proto::expression::window_function::bound::Kind;
use datafusion_substrait::substrait::proto::expression::window_function::{Bound, BoundsType};
use datafusion_substrait::substrait::proto::{ConsistentPartitionWindowRel, FunctionOption};

use super::cast::conformed;
use super::function::Argument;
use super::types::data_type;
use super::{Reader, Rows, Scope};
use crate::error::{Result, SubstraitError, invalid, required, unsupported};
use crate::functions::Finish;

/// The parts that all kinds of window functions have.
struct Call<'a> {
    anchor: u32,
    arguments: Vec<Argument>,
    options: &'a [FunctionOption],
    partition_by: Vec<Expr>,
    order_by: Vec<Sort>,
    frame: (i32, Option<&'a Bound>, Option<&'a Bound>),
    distinct: bool,
}

impl Reader<'_> {
    pub(super) fn window_function(&mut self, call: &WindowFunction, scope: &Scope) -> Result<Expr> {
        #[allow(deprecated, reason = "plans of earlier versions hold arguments that are all expressions")]
        let arguments = self.arguments(&call.arguments, &call.args, scope)?;
        let partition_by = call.partitions.iter().map(|key| self.expression(key, scope)).collect::<Result<_>>()?;
        let order_by = self.sort_keys(&call.sorts, scope)?;
        let expr = self.window(Call {
            anchor: call.function_reference,
            arguments,
            options: &call.options,
            partition_by,
            order_by,
            frame: (call.bounds_type, call.lower_bound.as_ref(), call.upper_bound.as_ref()),
            distinct: call.invocation == AggregationInvocation::Distinct as i32,
        })?;
        let output = call.output_type.as_ref().map(|ty| data_type(ty, self.declarations)).transpose()?;
        conformed(expr, output.as_ref(), &scope.schema)
    }

    /// The rows of the input with the results of functions that share partitions and order.
    pub(super) fn window_relation(&mut self, relation: &ConsistentPartitionWindowRel) -> Result<Rows> {
        let rows = self.input(relation.input.as_deref(), "window")?;
        let scope = rows.scope();
        let keys = relation.partition_expressions.iter().map(|key| self.expression(key, &scope));
        let partition_by = keys.collect::<Result<Vec<_>>>()?;
        let order_by = self.sort_keys(&relation.sorts, &scope)?;
        let mut added = Vec::with_capacity(relation.window_functions.len());
        for call in &relation.window_functions {
            let arguments = self.arguments(&call.arguments, &[], &scope)?;
            let expr = self.window(Call {
                anchor: call.function_reference,
                arguments,
                options: &call.options,
                partition_by: partition_by.clone(),
                order_by: order_by.clone(),
                frame: (call.bounds_type, call.lower_bound.as_ref(), call.upper_bound.as_ref()),
                distinct: call.invocation == AggregationInvocation::Distinct as i32,
            })?;
            let output = call.output_type.as_ref().map(|ty| data_type(ty, self.declarations)).transpose()?;
            added.push((conformed(expr, output.as_ref(), &scope.schema)?, None));
        }
        let rows = self.with_windows(rows, &added)?;
        self.extended(rows, added)
    }

    /// `rows` with the window functions in `exprs` computed; projections find them there.
    pub(super) fn with_windows(&mut self, rows: Rows, exprs: &[(Expr, Option<u32>)]) -> Result<Rows> {
        let windows = find_window_exprs(exprs.iter().map(|(expr, _)| expr));
        if windows.is_empty() {
            return Ok(rows);
        }
        let plan = LogicalPlanBuilder::window_plan(rows.plan, windows)?;
        Ok(Rows { plan, slots: rows.slots })
    }

    fn window(&mut self, call: Call<'_>) -> Result<Expr> {
        let (fun, args) = match self.window_function_name(call.anchor)? {
            Some(name) => {
                let functions = self.state.window_functions();
                let function = required(functions.get(&name), "a window function of the session")?;
                (
                    WindowFunctionDefinition::WindowUDF(Arc::clone(function)),
                    self.values_of(call.anchor, call.arguments)?,
                )
            }
            None => {
                let found = self.aggregate_function(call.anchor, call.arguments, call.options, "window")?;
                if found.finish != Finish::Nothing {
                    let name = self.declarations.function(call.anchor)?.named("window", call.anchor);
                    return Err(SubstraitError::UnknownFunction(name));
                }
                (WindowFunctionDefinition::AggregateUDF(found.function), found.arguments)
            }
        };
        let mut order_by = call.order_by;
        let window_frame = frame(call.frame, !order_by.is_empty())?;
        window_frame.regularize_order_bys(&mut order_by)?;
        Ok(Expr::from(WindowExpr {
            fun,
            params: WindowFunctionParams {
                args,
                partition_by: call.partition_by,
                order_by,
                window_frame,
                filter: None,
                null_treatment: None,
                distinct: call.distinct,
            },
        }))
    }

    fn values_of(&self, anchor: u32, arguments: Vec<Argument>) -> Result<Vec<Expr>> {
        let value = |argument: Argument| match argument {
            Argument::Value(expr) => Ok(expr),
            Argument::Word(word) => {
                let name = self.declarations.function(anchor)?.named("window", anchor);
                unsupported(format!("argument '{word}' of {name}"))
            }
        };
        arguments.into_iter().map(value).collect()
    }
}

fn frame(frame: (i32, Option<&Bound>, Option<&Bound>), ordered: bool) -> Result<WindowFrame> {
    let (kind, lower, upper) = frame;
    let units = match BoundsType::try_from(kind) {
        Ok(BoundsType::Rows) => WindowFrameUnits::Rows,
        Ok(BoundsType::Range) => WindowFrameUnits::Range,
        Ok(BoundsType::Unspecified) if ordered => WindowFrameUnits::Range,
        Ok(BoundsType::Unspecified) => WindowFrameUnits::Rows,
        Err(_) => return invalid(format!("window bounds of type {kind}")),
    };
    Ok(WindowFrame::new_bounds(units, bound(lower, true)?, bound(upper, false)?))
}

fn bound(bound: Option<&Bound>, lower: bool) -> Result<WindowFrameBound> {
    let unbounded = || match lower {
        true => WindowFrameBound::Preceding(ScalarValue::Null),
        false => WindowFrameBound::Following(ScalarValue::Null),
    };
    let offset = |rows: i64| match u64::try_from(rows) {
        Ok(rows) if rows > 0 => Ok(ScalarValue::UInt64(Some(rows))),
        _ => invalid(format!("a window bound {rows} rows away")),
    };
    let Some(bound) = bound else { return Ok(unbounded()) };
    Ok(match required(bound.kind.as_ref(), "the kind of a window bound")? {
        Kind::CurrentRow(_) => WindowFrameBound::CurrentRow,
        Kind::Unbounded(_) => unbounded(),
        Kind::Preceding(preceding) => WindowFrameBound::Preceding(offset(preceding.offset)?),
        Kind::Following(following) => WindowFrameBound::Following(offset(following.offset)?),
    })
}
