//! DISTINCT ON, and DISTINCT with an order by other expressions: the first row of each value, by row number.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, Function, OrderBy, OrderByExpr, OrderByKind, Select, Value, WindowSpec, WindowType,
};

use super::Binder;
use super::calls::binary;
use super::expr::function;
use super::items::Items;
use super::query::{check_sort_literal, number};
use super::scope::Scope;
use crate::{Error, Result};

impl Binder<'_> {
    /// A key of DISTINCT ON: an item of the SELECT list by its position, or an expression.
    pub(super) fn distinct_key(&mut self, key: &mut Expr, items: &Items, scope: &Scope<'_>) -> Result<()> {
        let Expr::Value(value) = &*key else { return self.expr(key, scope) };
        check_sort_literal(&value.value)?;
        match items.at_position(key) {
            Some(item) => *key = item.clone(),
            None => return Err(Error::Plan(format!("DISTINCT ON ({key}): there is no such column"))),
        }
        Ok(())
    }
}

/// Replaces DISTINCT by a condition on row numbers, if the plan has no other form of it. The keys of `order` are bound.
///
/// # Errors
/// A QUALIFY clause beside it.
pub(super) fn choose(select: &mut Select, order: Option<&OrderBy>, items: &Items) -> Result<()> {
    let order: &[OrderByExpr] = match order.map(|order| &order.kind) {
        Some(OrderByKind::Expressions(keys)) => keys,
        _ => &[],
    };
    let is_item = |key: &OrderByExpr| matches!(key.expr, Expr::Value(_));
    let (keys, order) = match &select.distinct {
        Some(Distinct::On(keys)) => (keys.clone(), order),
        // Among equal rows, the first one in the order determines the position.
        Some(Distinct::Distinct) if !order.iter().all(is_item) => match items.all() {
            Some(keys) => (keys, &[][..]),
            None => return Ok(()),
        },
        _ => return Ok(()),
    };
    if select.qualify.is_some() {
        return Err(Error::NotImplemented("DISTINCT ON with QUALIFY: put one of them into a subquery".into()));
    }
    let sorted = order.iter().map(|key| match items.at_position(&key.expr) {
        Some(item) => Ok(OrderByExpr { expr: item.clone(), ..key.clone() }),
        None if matches!(&key.expr, Expr::Value(value) if matches!(value.value, Value::Number(..))) => {
            Err(Error::Plan(format!("ORDER BY {}: there is no such column", key.expr)))
        }
        None => Ok(key.clone()),
    });
    let window = WindowSpec {
        window_name: None,
        partition_by: keys,
        order_by: sorted.collect::<Result<_>>()?,
        window_frame: None,
    };
    let Expr::Function(numbered) = function("row_number", vec![]) else { return Ok(()) };
    let numbered = Function { over: Some(WindowType::WindowSpec(window)), ..numbered };
    select.qualify = Some(binary(Expr::Function(numbered), BinaryOperator::Eq, number(1)));
    select.distinct = None;
    Ok(())
}
