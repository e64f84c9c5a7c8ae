//! Visits of parsed SQL.
//!
//! The parser's own `visit` is compiled for every type of visitor, as thousands of functions each. Here all visitors share one of these, which calls them
//! through a vtable.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};

/// Visits `node` and all in it.
pub(crate) fn visit<V: Visitor>(node: &impl Visit, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut stopped = Stopped { visitor, with: None };
    let _ = node.visit(&mut Shared(&mut stopped));
    stopped.with.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Visits `node` and all in it, which the visitor may change.
pub(crate) fn visit_mut<V: VisitorMut>(node: &mut impl VisitMut, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut stopped = Stopped { visitor, with: None };
    let _ = node.visit(&mut Mutable(&mut stopped));
    stopped.with.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Calls `f` with all expressions in `node`, an expression before those in it.
pub(crate) fn visit_expressions<E>(node: &impl Visit, f: impl FnMut(&Expr) -> ControlFlow<E>) -> ControlFlow<E> {
    visit(node, &mut Expressions(f))
}

/// Calls `f` with all expressions in `node`, an expression after those in it.
pub(crate) fn visit_expressions_mut<E>(
    node: &mut impl VisitMut,
    f: impl FnMut(&mut Expr) -> ControlFlow<E>,
) -> ControlFlow<E> {
    visit_mut(node, &mut Expressions(f))
}

/// Calls `f` with the names of all relations in `node`.
pub(crate) fn visit_relations<E>(node: &impl Visit, f: impl FnMut(&ObjectName) -> ControlFlow<E>) -> ControlFlow<E> {
    visit(node, &mut Relations(f))
}

struct Expressions<F>(F);

impl<E, F: FnMut(&Expr) -> ControlFlow<E>> Visitor for Expressions<F> {
    type Break = E;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<E> {
        self.0(expr)
    }
}

impl<E, F: FnMut(&mut Expr) -> ControlFlow<E>> VisitorMut for Expressions<F> {
    type Break = E;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<E> {
        self.0(expr)
    }
}

struct Relations<F>(F);

impl<E, F: FnMut(&ObjectName) -> ControlFlow<E>> Visitor for Relations<F> {
    type Break = E;

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<E> {
        self.0(relation)
    }
}

/// A visitor, and the value with which it has stopped.
struct Stopped<'v, V, B> {
    visitor: &'v mut V,
    with: Option<B>,
}

/// Declares the visitors without types, from their methods and the types of the nodes.
macro_rules! visitors {
    ($($method:ident: $node:ty),* $(,)?) => {
        /// A [`Visitor`] without its type.
        trait AnyVisitor {
            $(fn $method(&mut self, node: &$node) -> ControlFlow<()>;)*
        }

        impl<V: Visitor> AnyVisitor for Stopped<'_, V, V::Break> {
            $(fn $method(&mut self, node: &$node) -> ControlFlow<()> {
                self.visitor.$method(node).map_break(|with| self.with = Some(with))
            })*
        }

        struct Shared<'v>(&'v mut dyn AnyVisitor);

        impl Visitor for Shared<'_> {
            type Break = ();

            $(fn $method(&mut self, node: &$node) -> ControlFlow<()> {
                self.0.$method(node)
            })*
        }

        /// A [`VisitorMut`] without its type.
        trait AnyVisitorMut {
            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<()>;)*
        }

        impl<V: VisitorMut> AnyVisitorMut for Stopped<'_, V, V::Break> {
            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.visitor.$method(node).map_break(|with| self.with = Some(with))
            })*
        }

        struct Mutable<'v>(&'v mut dyn AnyVisitorMut);

        impl VisitorMut for Mutable<'_> {
            type Break = ();

            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$method(node)
            })*
        }
    };
}

visitors! {
    pre_visit_query: Query,
    post_visit_query: Query,
    pre_visit_select: Select,
    post_visit_select: Select,
    pre_visit_relation: ObjectName,
    post_visit_relation: ObjectName,
    pre_visit_table_factor: TableFactor,
    post_visit_table_factor: TableFactor,
    pre_visit_expr: Expr,
    post_visit_expr: Expr,
    pre_visit_statement: Statement,
    post_visit_statement: Statement,
    pre_visit_value: ValueWithSpan,
    post_visit_value: ValueWithSpan,
}
