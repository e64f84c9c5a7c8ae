//! The expression of a function, and its instantiation for a call.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Function, Ident, Visitor, VisitorMut, WindowType};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::operators;
use crate::visit::{visit, visit_mut};
use crate::{Error, Result};

/// The beginning of the names of parameters.
const PARAMETER: &str = "__p";

/// An expression over parameters.
#[derive(Debug, Clone)]
pub(super) struct Template {
    expr: Expr,
    /// How often each parameter is named.
    pub(super) uses: Vec<usize>,
    /// Its number of nodes, and its depth.
    pub(super) size: Size,
}

/// The size of an expression.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) nodes: usize,
    pub(super) depth: usize,
}

impl Size {
    pub(super) fn of(expr: &Expr) -> Self {
        let mut sizes = Sizes::default();
        let _: ControlFlow<()> = visit(expr, &mut sizes);
        sizes.size
    }
}

impl Template {
    /// Reads an expression over `count` parameters.
    pub(super) fn parse(text: &str, count: usize) -> Result<Self> {
        let parser = Parser::new(&DuckDbDialect).with_recursion_limit(10_000).try_with_sql(text);
        let expr = parser.and_then(|mut parser| parser.parse_expr());
        let expr = expr.map_err(|error| Error::Parse(format!("the expression of a function: {error}")))?;
        let mut uses = Uses(vec![0; count]);
        if let ControlFlow::Break(name) = visit(&expr, &mut uses) {
            return Err(Error::Plan(format!(
                "the expression of a function names {name}, which is none of its parameters"
            )));
        }
        let size = Size::of(&expr);
        Ok(Self { expr, uses: uses.0, size })
    }

    /// The expression with `args` for its parameters. Its aggregate functions get the filter and the window of `call`.
    pub(super) fn applied(&self, args: Vec<Expr>, call: &Function) -> Expr {
        let mut expr = self.expr.clone();
        let _: ControlFlow<()> = visit_mut(&mut expr, &mut Application { args, call });
        Expr::Nested(Box::new(expr))
    }
}

fn parameter(name: &Ident) -> Option<usize> {
    name.value.strip_prefix(PARAMETER)?.parse().ok()
}

#[derive(Default)]
struct Sizes {
    size: Size,
    depth: usize,
}

impl Visitor for Sizes {
    type Break = ();

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.depth += 1;
        self.size.nodes += 1;
        self.size.depth = self.size.depth.max(self.depth);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

struct Uses(Vec<usize>);

impl Visitor for Uses {
    type Break = String;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        match expr {
            Expr::Identifier(name) => match parameter(name).and_then(|at| self.0.get_mut(at)) {
                Some(uses) => {
                    *uses += 1;
                    ControlFlow::Continue(())
                }
                None => ControlFlow::Break(name.to_string()),
            },
            Expr::CompoundIdentifier(_) | Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
                ControlFlow::Break(expr.to_string())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

struct Application<'c> {
    args: Vec<Expr>,
    call: &'c Function,
}

impl VisitorMut for Application<'_> {
    type Break = ();

    // After the children are visited, so that the arguments are not traversed.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => {
                if let Some(arg) = parameter(name).and_then(|at| self.args.get(at)) {
                    *expr = Expr::Nested(Box::new(arg.clone()));
                }
            }
            Expr::Function(inner) if operators::is_aggregate(inner) => {
                inner.over = self.call.over.clone();
                inner.filter = both(inner.filter.take(), self.call.filter.clone());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn both(one: Option<Box<Expr>>, other: Option<Box<Expr>>) -> Option<Box<Expr>> {
    let nested = |e: Box<Expr>| Box::new(Expr::Nested(e));
    match (one, other) {
        (Some(left), Some(right)) => {
            Some(Box::new(Expr::BinaryOp { left: nested(left), op: BinaryOperator::And, right: nested(right) }))
        }
        (one, other) => one.or(other),
    }
}

/// The window of a call, if it has one.
pub(super) fn window(call: &Function) -> Option<&WindowType> {
    call.over.as_ref()
}
