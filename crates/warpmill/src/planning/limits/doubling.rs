//! Calls that double the work of planning what is in them: those with lambdas, whose types DataFusion asks for twice, and `coalesce`, which becomes a CASE
//! that has each argument but the last one twice.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Visitor};

use super::{MAX_DOUBLING, visit};
use crate::{Error, Result};

/// Refuses a statement with too many such calls inside each other. Takes time linear in the statement.
pub(crate) fn check_doubling(statement: &Statement) -> Result<()> {
    match visit(statement, &mut Calls::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Limit(format!(
            "more than {MAX_DOUBLING} calls with lambdas, or of coalesce in its own arguments, are inside each other, which is the limit"
        ))),
    }
}

/// The calls around the expression that is being visited.
#[derive(Default)]
struct Calls {
    /// The number of arguments that double, of all calls around.
    depth: usize,
    /// For each call around, the innermost last: the argument that does not double, by its place in memory.
    calls: Vec<Option<*const Expr>>,
    /// Whether each expression around is an argument that doubles.
    around: Vec<bool>,
}

impl Visitor for Calls {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let doubles = self.calls.last().is_some_and(|call| call.is_some_and(|last| !std::ptr::eq(last, expr)));
        self.around.push(doubles);
        self.depth += usize::from(doubles);
        self.calls.push(match expr {
            Expr::Function(call) => doubling(call),
            _ => None,
        });
        if self.depth > MAX_DOUBLING { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.calls.pop();
        self.depth -= usize::from(self.around.pop().unwrap_or(false));
        ControlFlow::Continue(())
    }
}

/// The place of the argument that a call does not double, if it doubles others.
fn doubling(call: &Function) -> Option<*const Expr> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let arg = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))
        | FunctionArg::Named { arg: FunctionArgExpr::Expr(expr), .. }
        | FunctionArg::ExprNamed { arg: FunctionArgExpr::Expr(expr), .. } => Some(std::ptr::from_ref(expr)),
        _ => None,
    };
    let has_lambda =
        list.args.iter().any(|arg| matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Lambda(_)))));
    let name = call.name.to_string().to_lowercase();
    match name.as_str() {
        _ if has_lambda => Some(std::ptr::null()),
        "coalesce" | "ifnull" | "nvl" if list.args.len() > 1 => arg(list.args.last()?),
        _ => None,
    }
}
