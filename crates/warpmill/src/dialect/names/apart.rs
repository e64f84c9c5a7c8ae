//! Marks casts to distinguish expressions.
//!
//! DataFusion names an expression without its casts, and the aggregates, windows and keys of a query must have unique names. Where some differ in
//! casts only, these are marked ([`casts::shown`]), so that names contain them until the plan is made.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, OrderBy, Select, Visit, VisitMut};

use super::Binder;
use super::expr::function;
use crate::dialect::casts;
use crate::visit::{visit_expressions, visit_expressions_mut};

impl Binder<'_> {
    /// Marks the casts of a SELECT, grouped by `keys`, and its ORDER BY, where names require it.
    pub(super) fn tell_apart(&self, select: &mut Select, order: Option<&mut OrderBy>, keys: &[Expr]) {
        let mut calls = vec![];
        self.calls(&select.projection, &mut calls);
        self.calls(&select.having, &mut calls);
        self.calls(&select.qualify, &mut calls);
        if let Some(order) = order.as_deref() {
            self.calls(order, &mut calls);
        }
        let keys = keys.iter().flat_map(parts).cloned().collect();
        let casts: HashSet<Expr> = [calls, keys].into_iter().flat_map(casts_in_question).collect();
        if casts.is_empty() {
            return;
        }
        mark(&mut select.projection, &casts);
        mark(&mut select.group_by, &casts);
        mark(&mut select.having, &casts);
        mark(&mut select.qualify, &casts);
        mark(&mut select.distinct, &casts);
        if let Some(order) = order {
            mark(order, &casts);
        }
    }

    /// Adds the calls of aggregate and window functions in `part`.
    fn calls(&self, part: &impl Visit, calls: &mut Vec<Expr>) {
        let _: ControlFlow<()> = visit_expressions(part, |e| {
            if matches!(e, Expr::Function(call) if call.over.is_some()) || self.is_aggregate(e) {
                calls.push(e.clone());
            }
            ControlFlow::Continue(())
        });
    }
}

/// The keys in a set of keys, or the key itself.
fn parts(key: &Expr) -> Vec<&Expr> {
    match key {
        Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => sets.iter().flatten().collect(),
        Expr::Tuple(parts) => parts.iter().collect(),
        Expr::Nested(inner) => parts(inner),
        key => vec![key],
    }
}

/// The casts in expressions that are equal without casts, and different with them.
fn casts_in_question(all: Vec<Expr>) -> Vec<Expr> {
    if !all.iter().any(has_casts) {
        return vec![];
    }
    let mut alike: HashMap<String, Vec<Expr>> = HashMap::new();
    for e in all {
        let mut plain = e.clone();
        let _: ControlFlow<()> = visit_expressions_mut(&mut plain, |e| {
            if let Expr::Cast { expr, .. } | Expr::Nested(expr) = e {
                *e = (**expr).clone();
            }
            ControlFlow::Continue(())
        });
        let others = alike.entry(plain.to_string().to_lowercase()).or_default();
        if !others.contains(&e) {
            others.push(e);
        }
    }
    let mut casts = vec![];
    for mut e in alike.into_values().filter(|alike| alike.len() > 1).flatten() {
        // From the inside, as [`mark`] does: the expressions searched for have marks inside already.
        let _: ControlFlow<()> = visit_expressions_mut(&mut e, |e| {
            if matches!(e, Expr::Cast { .. }) {
                casts.push(e.clone());
                *e = marked(e);
            }
            ControlFlow::Continue(())
        });
    }
    casts
}

fn has_casts(e: &Expr) -> bool {
    let found = visit_expressions(e, |e| match e {
        Expr::Cast { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn mark(part: &mut impl VisitMut, casts: &HashSet<Expr>) {
    let _: ControlFlow<()> = visit_expressions_mut(part, |e| {
        if casts.contains(e) {
            *e = marked(e);
        }
        ControlFlow::Continue(())
    });
}

/// A cast with a mark.
pub(super) fn marked(cast: &Expr) -> Expr {
    function(casts::SHOWN, vec![cast.clone()])
}
