//! Keys and grouping sets of GROUP BY.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Function, GroupByExpr, Select, Visit};

use super::Binder;
use super::calls::{arguments, binary};
use super::expr::function;
use super::items::Items;
use super::query::number;
use super::scope::{Scope, same};
use crate::planning::limits::check_grouping_sets;
use crate::visit::visit_expressions;
use crate::{Error, Result};

impl Binder<'_> {
    /// Expands the keys of GROUP BY, and makes one group of all rows for HAVING or `GROUP BY ()` without aggregates.
    ///
    /// # Errors
    /// The keys have too many grouping sets.
    pub(super) fn one_group(&self, select: &mut Select) -> Result<()> {
        let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return Ok(()) };
        let given = !keys.is_empty();
        *keys = std::mem::take(keys).into_iter().flat_map(together).collect();
        check_grouping_sets(keys.iter().fold(1, |sets: usize, key| sets.saturating_mul(sets_of(key))))?;
        keys.iter_mut().for_each(spread);
        let is_whole = keys.is_empty() && (given || select.having.is_some());
        if is_whole && !self.has_aggregates(&select.projection) && !self.has_aggregates(&select.having) {
            // A condition that is true for every group: HAVING implies one.
            let is_there = binary(function("count", vec![number(1)]), BinaryOperator::GtEq, number(0));
            select.having = Some(match select.having.take() {
                Some(having) => binary(having, BinaryOperator::And, is_there),
                None => is_there,
            });
        }
        Ok(())
    }

    fn has_aggregates(&self, part: &impl Visit) -> bool {
        let found = visit_expressions(part, |e| match self.is_aggregate(e) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        found.is_break()
    }

    /// A key of GROUP BY: a column, otherwise an item of the SELECT list by its alias; or sets of these.
    pub(super) fn group_key(&mut self, key: &mut Expr, items: &Items, scope: &Scope<'_>) -> Result<()> {
        if let Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) = key {
            // Expressions in place of numbers and aliases, which mean nothing within sets.
            for part in sets.iter_mut().flatten() {
                self.group_key(part, items, scope)?;
                if let Some(item) = items.at_position(part) {
                    *part = item.clone();
                }
            }
            return Ok(());
        }
        if let Expr::Identifier(name) = &*key
            && scope.column(std::slice::from_ref(name))?.is_none()
            && !scope.is_open()
            && let Some(alias) = scope.alias(&name.value)
        {
            *key = number(alias.position);
            return Ok(());
        }
        refuse_alias(key, scope)?;
        self.expr(key, scope)
    }
}

/// Refuses an alias in an expression of GROUP BY.
fn refuse_alias(key: &Expr, scope: &Scope<'_>) -> Result<()> {
    let is_alias = |e: &Expr| match e {
        Expr::Identifier(name) if !scope.is_open() && scope.alias(&name.value).is_some() => {
            Ok(scope.column(std::slice::from_ref(name))?.is_none())
        }
        _ => Ok(false),
    };
    let found = visit_expressions(key, |e| match is_alias(e) {
        Ok(false) => ControlFlow::Continue(()),
        Ok(true) => {
            ControlFlow::Break(Error::Plan(format!("GROUP BY {key}: alias {e} cannot be part of an expression")))
        }
        Err(error) => ControlFlow::Break(error),
    });
    match found {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The keys in parentheses: `(a, b)`, and none for `()`.
fn together(key: Expr) -> Vec<Expr> {
    match key {
        Expr::Tuple(parts) => parts,
        key => vec![key],
    }
}

/// Whether a column is in several parts.
fn has_twice(parts: &[Vec<Expr>]) -> bool {
    let all: Vec<&Expr> = parts.iter().flatten().collect();
    (1..all.len()).any(|at| all[..at].contains(&all[at]))
}

/// A set without duplicates.
fn once(set: Vec<Expr>) -> Vec<Expr> {
    set.into_iter().fold(vec![], |mut kept, key| {
        if !kept.contains(&key) {
            kept.push(key);
        }
        kept
    })
}

/// The number of grouping sets of a key.
fn sets_of(key: &Expr) -> usize {
    let chosen =
        |parts: usize| u32::try_from(parts).ok().and_then(|parts| 1usize.checked_shl(parts)).unwrap_or(usize::MAX);
    match key {
        Expr::Rollup(parts) => parts.len() + 1,
        Expr::Cube(parts) => chosen(parts.len()),
        Expr::GroupingSets(sets) => sets.iter().fold(0, |all: usize, set| {
            let called = |call: &Function, name: &str| same(&call.name.to_string(), name);
            all.saturating_add(match &set[..] {
                [Expr::Function(call)] if called(call, "cube") => {
                    arguments(call).map_or(1, |parts| chosen(parts.len()))
                }
                [Expr::Function(call)] if called(call, "rollup") => arguments(call).map_or(1, |parts| parts.len() + 1),
                _ => 1,
            })
        }),
        _ => 1,
    }
}

/// Replaces ROLLUP and CUBE by grouping sets if they contain parenthesised or duplicate columns, or are within GROUPING SETS: DataFusion does not
/// plan these.
fn spread(key: &mut Expr) {
    let together = |parts: &[Vec<Expr>]| parts.iter().any(|part| part.len() != 1) || has_twice(parts);
    let sets = match &*key {
        Expr::Rollup(parts) if together(parts) => Some(rolled_up(parts)),
        Expr::Cube(parts) if together(parts) => choices(parts),
        Expr::GroupingSets(sets) => {
            sets.iter().map(|set| within(set)).collect::<Option<Vec<_>>>().map(|sets| sets.concat())
        }
        _ => None,
    };
    if let Some(sets) = sets {
        *key = Expr::GroupingSets(sets);
    }
}

/// The sets of one member of GROUPING SETS.
fn within(set: &[Expr]) -> Option<Vec<Vec<Expr>>> {
    let [Expr::Function(call)] = set else { return Some(vec![set.to_vec()]) };
    let name = call.name.to_string().to_lowercase();
    if !matches!(name.as_str(), "rollup" | "cube") {
        return Some(vec![set.to_vec()]);
    }
    let part = |expr: Expr| match expr {
        Expr::Tuple(parts) => parts,
        expr => vec![expr],
    };
    let parts: Vec<_> = arguments(call)?.into_iter().map(part).collect();
    if name == "rollup" { Some(rolled_up(&parts)) } else { choices(&parts) }
}

/// The sets of ROLLUP.
fn rolled_up(parts: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    (0..=parts.len()).rev().map(|count| once(parts[..count].concat())).collect()
}

/// The sets of CUBE; `None` if there are too many.
fn choices(parts: &[Vec<Expr>]) -> Option<Vec<Vec<Expr>>> {
    let set = |choice: usize| -> Vec<Expr> {
        let chosen = parts.iter().enumerate().filter(|(at, _)| (choice >> at) & 1 == 1);
        once(chosen.flat_map(|(_, part)| part.iter().cloned()).collect())
    };
    (parts.len() <= 12).then(|| (0..1usize << parts.len()).rev().map(set).collect())
}
