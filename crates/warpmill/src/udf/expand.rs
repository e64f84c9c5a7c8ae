//! Checks the function calls of a statement, and replaces them by the functions' expressions.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::parser::Statement as AnyStatement;
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function as Call, FunctionArg, FunctionArgExpr, FunctionArguments, Select, VisitorMut,
};

use super::template::{self, Size};
use super::{Function, Functions};
use crate::dialect::walk;
use crate::visit::visit_expressions;
use crate::{Error, Result};

/// Expression nodes that replace the calls of one statement, at most.
const MOST_NODES: usize = 50_000;

/// The deepest nesting of calls in an expression: DataFusion names every call by its whole text.
const MOST_DEPTH: usize = 250;

/// Whether a function may return different results for the same arguments.
pub(crate) type Volatile<'v> = &'v (dyn Fn(&str) -> bool + Sync);

/// The treatment of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expansion {
    /// Replaced by expressions, where functions have one.
    Expressions,
    /// Left unchanged where there is code to call.
    Code,
}

/// Replaces the calls in `statement`; returns whether a replaced function could also have been called.
pub(crate) fn expand(
    statement: &mut AnyStatement,
    functions: &Functions,
    how: Expansion,
    volatile: Volatile<'_>,
) -> Result<bool> {
    if functions.is_empty() {
        return Ok(false);
    }
    let mut expander = Expander { functions, how, volatile, nodes: 0, replaced: false };
    walk::result(walk::statement(statement, &mut expander))?;
    Ok(expander.replaced)
}

struct Expander<'f> {
    functions: &'f Functions,
    how: Expansion,
    volatile: Volatile<'f>,
    nodes: usize,
    replaced: bool,
}

impl Expander<'_> {
    fn function(&self, call: &Call) -> Option<Arc<Function>> {
        let [name] = call.name.0.as_slice() else { return None };
        self.functions.get(&name.as_ident()?.value)
    }

    fn calls(&self, expr: &Expr) -> bool {
        let found = visit_expressions(expr, |e| match e {
            Expr::Function(call) if self.function(call).is_some() => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        found.is_break()
    }

    fn is_volatile(&self, expr: &Expr) -> bool {
        let found = visit_expressions(expr, |e| match e {
            Expr::Function(call) => {
                let name = call.name.0.last().and_then(|name| name.as_ident());
                let is = name.is_some_and(|name| (self.volatile)(&name.value.to_lowercase()));
                if is { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
            _ => ControlFlow::Continue(()),
        });
        found.is_break()
    }

    /// The expression that replaces a call, or `None` where it stays a call.
    fn replacement(&mut self, call: &Call, function: &Function) -> Result<Option<Expr>> {
        let args = arguments(call, function)?;
        let Some(expression) = &function.template else { return Ok(None) };
        if self.how == Expansion::Code && function.is_callable() {
            return Ok(None);
        }
        let repeated = args.iter().zip(&expression.uses).position(|(arg, uses)| *uses > 1 && self.is_volatile(arg));
        if let Some(at) = repeated {
            return match function.is_callable() {
                true => Ok(None),
                false => Err(Error::NotImplemented(format!(
                    "{}: argument {} gives another value each time, and is needed more than once: compute it in a table first",
                    function.name,
                    at + 1
                ))),
            };
        }
        let sizes: Vec<Size> = args.iter().map(Size::of).collect();
        let added: usize =
            sizes.iter().zip(&expression.uses).map(|(size, uses)| size.nodes.saturating_mul(*uses)).sum();
        self.nodes = self.nodes.saturating_add(expression.size.nodes).saturating_add(added);
        let depth = expression.size.depth + sizes.iter().map(|size| size.depth).max().unwrap_or(0);
        if self.nodes > MOST_NODES || depth > MOST_DEPTH {
            return Err(Error::Limit(format!(
                "calls of '{}' and other functions of the session make an expression that is too large ({} parts, {MOST_NODES} are the limit; \
                 {depth} inside each other, {MOST_DEPTH} are the limit)",
                function.name, self.nodes
            )));
        }
        self.replaced |= function.is_callable();
        Ok(Some(expression.applied(args, call)))
    }
}

impl VisitorMut for Expander<'_> {
    type Break = Box<Error>;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Box<Error>> {
        walk::name_columns(select, |expr| self.calls(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<Error>> {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        let Some(function) = self.function(call) else { return ControlFlow::Continue(()) };
        match self.replacement(call, &function) {
            Ok(Some(replacement)) => {
                *expr = replacement;
                ControlFlow::Continue(())
            }
            Ok(None) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}

/// The arguments of a call; syntax that functions of a session do not support is refused.
fn arguments(call: &Call, function: &Function) -> Result<Vec<Expr>> {
    let name = &function.name;
    let refused =
        |what: &str| Err(Error::NotImplemented(format!("{name}: {what} in a call of a function of the session")));
    let FunctionArguments::List(list) = &call.args else {
        return refused("no list of arguments");
    };
    let mut args = vec![];
    for arg in &list.args {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => args.push(arg.clone()),
            FunctionArg::Unnamed(_) => return refused("*"),
            _ => return refused("arguments with names"),
        }
    }
    if args.len() != function.parameters.len() {
        let (count, parameters) = (function.parameters.len(), function.parameters.join(", "));
        return Err(Error::Plan(format!(
            "{name} takes {count} argument{} ({parameters}), {} given",
            if count == 1 { "" } else { "s" },
            match args.len() {
                1 => "1 is".to_string(),
                given => format!("{given} are"),
            }
        )));
    }
    if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) {
        return refused("DISTINCT");
    }
    if !list.clauses.is_empty() || !call.within_group.is_empty() {
        return refused("ORDER BY");
    }
    if call.null_treatment.is_some() {
        return refused("IGNORE NULLS and RESPECT NULLS");
    }
    if !function.is_aggregate && (call.filter.is_some() || template::window(call).is_some()) {
        return refused("FILTER or OVER, which are for aggregates,");
    }
    Ok(args)
}
