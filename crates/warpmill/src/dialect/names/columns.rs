//! `COLUMNS(...)`: an expression for each column of FROM that it names.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, LambdaFunction,
    OneOrManyWithParens, SelectItem, Value, WildcardAdditionalOptions,
};
use regex::Regex;

use super::calls::lambda_of;
use super::more_calls::unnested;
use super::scope::{Scope, Visible, combined, nested};
use super::{Binder, parts, same};
use crate::visit::{visit_expressions, visit_expressions_mut};
use crate::{Error, Result, ScalarValue};

impl Binder<'_> {
    /// The items that `item` expands to, with the names of their source columns.
    pub(super) fn columns(&mut self, item: SelectItem, scope: &Scope<'_>) -> Result<Vec<(SelectItem, Option<String>)>> {
        if let Some(columns) = parts::starred(&item, scope) {
            return Ok(columns);
        }
        let expr = match &item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr,
            _ => return Ok(vec![(item, None)]),
        };
        if let SelectItem::UnnamedExpr(Expr::Function(call)) = &item
            && let Some(columns) = unnested(call)
        {
            let column = |(name, value)| (SelectItem::UnnamedExpr(value), Some(name));
            return Ok(columns.into_iter().map(column).collect());
        }
        if let SelectItem::UnnamedExpr(Expr::Function(call)) = &item
            && let Some(columns) = parts::unnested(call, scope)
        {
            return Ok(columns);
        }
        let Some(call) = columns_in(expr) else { return Ok(vec![(item, None)]) };
        if matches!(item, SelectItem::ExprWithAlias { .. }) {
            return Err(Error::NotImplemented("an alias of COLUMNS(...)".into()));
        }
        let columns = self.chosen(&call, scope)?;
        Ok(columns
            .into_iter()
            .map(|column| (SelectItem::UnnamedExpr(with_column(expr.clone(), &column)), Some(column.name)))
            .collect())
    }

    /// A condition with `COLUMNS(...)`, which is that of all the columns.
    pub(super) fn columns_condition(&mut self, condition: &mut Expr, scope: &Scope<'_>) -> Result<()> {
        let Some(call) = columns_in(condition) else { return Ok(()) };
        let each = self.chosen(&call, scope)?.into_iter().map(|column| nested(with_column(condition.clone(), &column)));
        if let Some(all) = combined(each.collect(), &BinaryOperator::And) {
            *condition = all;
        }
        Ok(())
    }

    /// The columns that `COLUMNS(...)` names.
    pub(super) fn chosen(&mut self, call: &Function, scope: &Scope<'_>) -> Result<Vec<Visible>> {
        scope.refuse_twice()?;
        if scope.is_open() {
            return Err(Error::NotImplemented("COLUMNS(...) of columns that are not known before".into()));
        }
        let all = scope.visible.clone();
        let refused = || Err(Error::NotImplemented("COLUMNS takes *, a regular expression or a list of names".into()));
        let FunctionArguments::List(list) = &call.args else { return refused() };
        let [FunctionArg::Unnamed(arg)] = list.args.as_slice() else { return refused() };
        let text = |expr: &Expr| match expr {
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(text) => Some(text.clone()),
                _ => None,
            },
            _ => None,
        };
        match arg {
            FunctionArgExpr::Wildcard => Ok(all),
            FunctionArgExpr::WildcardWithOptions(options) => {
                let mut options: WildcardAdditionalOptions = options.clone();
                Ok(self.wildcard(Some(all), &mut options, scope)?.unwrap_or_default())
            }
            FunctionArgExpr::Expr(Expr::Array(Array { elem, .. })) => {
                let Some(names) = elem.iter().map(text).collect::<Option<Vec<_>>>() else { return refused() };
                if let Some(name) = names.iter().find(|name| !all.iter().any(|column| same(&column.name, name))) {
                    return Err(Error::Plan(format!(
                        "Column \"{name}\" was selected but was not found in the FROM clause"
                    )));
                }
                Ok(all.into_iter().filter(|column| names.iter().any(|name| same(&column.name, name))).collect())
            }
            FunctionArgExpr::Expr(expr) if lambda(expr).is_some() => {
                let found = self.chosen_by(&lambda(expr).ok_or_else(no_function)?, all)?;
                match found.is_empty() {
                    true => Err(Error::Plan("No columns satisfy the function of COLUMNS".into())),
                    false => Ok(found),
                }
            }
            FunctionArgExpr::Expr(expr) => {
                let Some(pattern) = text(expr) else { return refused() };
                let regex = Regex::new(&pattern).map_err(|error| {
                    Error::Plan(format!("COLUMNS: {pattern} is not a valid regular expression: {error}"))
                })?;
                let found: Vec<_> = all.into_iter().filter(|column| regex.is_match(&column.name)).collect();
                match found.is_empty() {
                    true => Err(Error::Plan(format!("No matching columns found that match regex \"{pattern}\""))),
                    false => Ok(found),
                }
            }
            FunctionArgExpr::QualifiedWildcard(_) => refused(),
        }
    }
}

impl Binder<'_> {
    /// The columns whose names satisfy a lambda.
    fn chosen_by(&mut self, lambda: &LambdaFunction, all: Vec<Visible>) -> Result<Vec<Visible>> {
        let params = match &lambda.params {
            OneOrManyWithParens::One(one) => std::slice::from_ref(one),
            OneOrManyWithParens::Many(many) => many,
        };
        let [parameter] = params else {
            return Err(Error::NotImplemented("COLUMNS takes a function of one parameter, the name".into()));
        };
        let mut found = vec![];
        for column in all {
            let mut condition = (*lambda.body).clone();
            let _: ControlFlow<()> = visit_expressions_mut(&mut condition, |e| {
                if matches!(e, Expr::Identifier(name) if same(&name.value, &parameter.name.value)) {
                    *e = Expr::Value(Value::SingleQuotedString(column.name.clone()).into());
                }
                ControlFlow::Continue(())
            });
            self.expr(&mut condition, &Scope::default())?;
            match self.tables.constant(condition)? {
                ScalarValue::Boolean(Some(true)) => found.push(column),
                ScalarValue::Boolean(_) | ScalarValue::Null => {}
                other => {
                    return Err(Error::Plan(format!("the function of COLUMNS must return a BOOLEAN, not {other}")));
                }
            }
        }
        Ok(found)
    }
}

/// A function as an argument.
fn lambda(expr: &Expr) -> Option<LambdaFunction> {
    match lambda_of(expr) {
        Some(Expr::Lambda(lambda)) => Some(lambda),
        _ => match expr {
            Expr::Lambda(lambda) => Some(lambda.clone()),
            _ => None,
        },
    }
}

fn no_function() -> Error {
    Error::Plan("COLUMNS takes a function of a name".into())
}

fn is_columns(expr: &Expr) -> Option<&Function> {
    match expr {
        Expr::Function(call) if call.over.is_none() => {
            let [name] = call.name.0.as_slice() else { return None };
            name.as_ident().is_some_and(|name| name.value.eq_ignore_ascii_case("columns")).then_some(call)
        }
        _ => None,
    }
}

fn columns_in(expr: &Expr) -> Option<Function> {
    // The break value of a walk is small: each level of an expression holds one for each of its parts.
    let mut found = None;
    let _: ControlFlow<()> = visit_expressions(expr, |e| {
        found = is_columns(e).cloned();
        if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found
}

fn with_column(mut expr: Expr, column: &Visible) -> Expr {
    let _: ControlFlow<()> = visit_expressions_mut(&mut expr, |e| {
        if is_columns(e).is_some() {
            *e = column.expr.clone();
        }
        ControlFlow::Continue(())
    });
    expr
}
