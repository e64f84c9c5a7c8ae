//! Names in expressions, and operators with another meaning in DuckDB.

use std::ops::ControlFlow;

use datafusion::logical_expr::Volatility;
use datafusion::logical_expr::planner::ContextProvider;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
    Ident, ObjectName, OneOrManyWithParens, Query, UnaryOperator, Value, VisitMut, VisitorMut,
};

use super::aggregate_calls::settle;
use super::calls::{json_path, meaning, operator, take_lambdas, take_null_treatment};
use super::distinct_from::reassociate;
use super::more_calls::with_positions;
use super::scope::{Scope, field_access, nested, operation};
use super::unread::unread_of_expr;
use super::windows::exclude;
use super::{Binder, Names, collation, no_query, rows, truths};
use crate::dialect::states::{self, Known};
use crate::dialect::{library, walk};
use crate::visit::visit_mut;
use crate::{Error, Result};

/// The choice between a column and an alias of the same name.
#[derive(Clone, Copy)]
pub(super) enum Preference<'e> {
    /// The column.
    Column,
    /// The alias, unless the column is one of these, or within an aggregate function: HAVING.
    AliasUnlessGrouped(&'e [Expr]),
}

impl Binder<'_> {
    /// Binds the names in `expr`, including its queries.
    pub(super) fn expr(&mut self, expr: &mut Expr, scope: &Scope<'_>) -> Result<()> {
        self.expr_of(expr, scope, Preference::Column)
    }

    pub(super) fn expr_of(&mut self, expr: &mut Expr, scope: &Scope<'_>, preference: Preference<'_>) -> Result<()> {
        self.within(expr, scope, preference)
    }

    pub(super) fn within<T: VisitMut>(
        &mut self,
        part: &mut T,
        scope: &Scope<'_>,
        preference: Preference<'_>,
    ) -> Result<()> {
        let mut visitor = Binding { binder: self, scope, preference, aggregates: 0, queries: vec![], lambdas: vec![] };
        walk::result(visit_mut(part, &mut visitor))
    }

    /// Whether a function with this lower-case name is volatile.
    fn is_volatile(&self, name: &str) -> bool {
        let function = self.tables.get_function_meta(name);
        function.is_some_and(|function| function.signature().volatility == Volatility::Volatile)
    }

    /// Whether `expr` calls an aggregate function outside of a window.
    pub(super) fn is_aggregate(&self, expr: &Expr) -> bool {
        let Expr::Function(Function { name, over: None, .. }) = expr else { return false };
        name.0.last().and_then(|part| part.as_ident()).is_some_and(|name| Known::is_aggregate(self, &name.value))
    }
}

impl Known for Binder<'_> {
    fn is_aggregate(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        library::is_composed(&name) || self.tables.get_aggregate_meta(&name).is_some()
    }

    fn is_volatile(&self, name: &str) -> bool {
        Binder::is_volatile(self, name)
    }
}

/// A walk through an expression; queries are removed from it during the walk.
struct Binding<'b, 'a, 's> {
    binder: &'b mut Binder<'a>,
    scope: &'b Scope<'s>,
    preference: Preference<'b>,
    /// Aggregate functions around.
    aggregates: usize,
    /// Bound queries, to be put back.
    queries: Vec<Query>,
    /// Parameters of the lambda functions around.
    lambdas: Vec<String>,
}

impl VisitorMut for Binding<'_, '_, '_> {
    type Break = Box<Error>;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<Error>> {
        reassociate(expr);
        match states::expression(expr, &*self.binder) {
            Ok(None) => {}
            Ok(Some(state)) => *expr = state,
            Err(error) => return ControlFlow::Break(Box::new(error)),
        }
        if let Err(error) = collation::compared(expr) {
            return ControlFlow::Break(Box::new(error));
        }
        match rows::meaning(expr, &mut self.binder.rows) {
            Ok(None) => {}
            Ok(Some(whole)) => *expr = whole,
            Err(error) => return ControlFlow::Break(Box::new(error)),
        }
        if let Expr::Lambda(lambda) = expr
            && let Some(path) = json_path(lambda)
        {
            *expr = path;
        }
        if let Expr::Function(call) = expr {
            take_lambdas(call);
            take_null_treatment(call);
            if let Err(error) = exclude(call).and_then(|()| settle(call, &|name| self.binder.is_volatile(name))) {
                return ControlFlow::Break(Box::new(error));
            }
            if let Some(whole) = with_positions(call) {
                *expr = whole;
            }
        }
        if let Expr::Interval(interval) = expr
            && let Expr::Value(value) = interval.value.as_mut()
            && let Value::Number(count, _) = &value.value
        {
            value.value = Value::SingleQuotedString(count.clone());
        }
        if let Some(query) = query_in(expr) {
            let mut query = std::mem::replace(&mut **query, no_query());
            if let Err(error) = self.binder.query(&mut query, Some(self.scope), Names::Own) {
                return ControlFlow::Break(Box::new(error));
            }
            self.queries.push(query);
        }
        if let Expr::CompoundFieldAccess { root, access_chain } = expr {
            separate_path(root, access_chain);
        }
        if let Expr::Lambda(lambda) = expr {
            self.lambdas.extend(parameters(&lambda.params));
        }
        self.aggregates += usize::from(self.binder.is_aggregate(expr));
        match unread_of_expr(expr) {
            Some(what) => ControlFlow::Break(Box::new(Error::NotImplemented(what))),
            None => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<Error>> {
        if let Some(query) = query_in(expr) {
            **query = self.queries.pop().expect("one was pushed for this expression");
        }
        self.aggregates -= usize::from(self.binder.is_aggregate(expr));
        truths::operands(expr);
        let found = match expr {
            Expr::Lambda(lambda) => {
                let around = self.lambdas.len() - parameters(&lambda.params).count();
                self.lambdas.truncate(around);
                return ControlFlow::Continue(());
            }
            Expr::Identifier(name) => self.find(std::slice::from_ref(name)),
            Expr::CompoundIdentifier(parts) => self.find(parts),
            // Calls, which take positions of all integer types, and values of ENUMs as texts.
            Expr::Substring { expr, substring_from: Some(from), substring_for: count, .. } => {
                let args =
                    [Some(&*expr), Some(&*from), count.as_ref()].into_iter().flatten().map(|arg| (**arg).clone());
                Ok(Some(function("substr", args.collect())))
            }
            Expr::Position { expr, r#in: text } if self.binder.tables.has_enums() => {
                Ok(Some(function("strpos", vec![(**text).clone(), (**expr).clone()])))
            }
            Expr::Function(call) if self.binder.tables.session_value(call).is_some() => {
                Ok(self.binder.tables.session_value(call))
            }
            Expr::BinaryOp { left, op: BinaryOperator::BitwiseXor, right } => {
                Ok(Some(function("power", vec![(**left).clone(), (**right).clone()])))
            }
            _ => Ok(replacement(expr)),
        };
        match found {
            Ok(found) => {
                if let Some(found) = found {
                    *expr = found;
                }
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}

impl Binding<'_, '_, '_> {
    fn find(&self, parts: &[Ident]) -> Result<Option<Expr>> {
        let name = &parts[0].value;
        if self.lambdas.iter().any(|parameter| parameter == name)
            || parts[0].quote_style.is_none() && name.starts_with('@')
        {
            return Ok(None);
        }
        if let (Preference::AliasUnlessGrouped(grouped), [name], 0) = (self.preference, parts, self.aggregates) {
            let column = self.scope.column(parts)?;
            let alias = self.scope.alias(&name.value);
            match (column, alias) {
                (Some(column), _) if grouped.contains(&column) => return Ok(Some(column)),
                (_, Some(alias)) => return Ok(Some(nested(alias.expr.clone()))),
                _ => {}
            }
        }
        match (self.scope.find(parts)?, parts) {
            (None, [name]) => Ok(self.scope.row(name)),
            (found, _) => Ok(found),
        }
    }
}

fn query_in(expr: &mut Expr) -> Option<&mut Box<Query>> {
    match expr {
        Expr::Subquery(query) | Expr::Exists { subquery: query, .. } | Expr::InSubquery { subquery: query, .. } => {
            Some(query)
        }
        Expr::Function(Function { args: FunctionArguments::Subquery(query), .. }) => Some(query),
        _ => None,
    }
}

/// Joins `root` and the names directly after it to one path; later names are fields.
fn separate_path(root: &mut Expr, chain: &mut Vec<AccessExpr>) {
    if let Expr::Identifier(first) = root {
        let names = chain.iter().map_while(|access| match access {
            AccessExpr::Dot(Expr::Identifier(name)) => Some(name.clone()),
            _ => None,
        });
        let path: Vec<_> = std::iter::once(first.clone()).chain(names).collect();
        chain.drain(..path.len() - 1);
        *root = if path.len() == 1 { Expr::Identifier(first.clone()) } else { Expr::CompoundIdentifier(path) };
    }
    for access in chain {
        if let AccessExpr::Dot(Expr::Identifier(name)) = access {
            *access = field_access(name);
        }
    }
}

fn parameters(
    params: &OneOrManyWithParens<datafusion::sql::sqlparser::ast::LambdaFunctionParameter>,
) -> impl Iterator<Item = String> {
    let params = match params {
        OneOrManyWithParens::One(one) => std::slice::from_ref(one),
        OneOrManyWithParens::Many(many) => many,
    };
    params.iter().map(|parameter| parameter.name.value.clone())
}

/// The expression that DataFusion should read instead of `expr`.
fn replacement(expr: &mut Expr) -> Option<Expr> {
    let negation = |negated: bool, expr: Expr| match negated {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(expr)) },
        false => expr,
    };
    match expr {
        // `SIMILAR TO` matches the whole text, and its pattern is a regular expression.
        Expr::SimilarTo { negated, expr, pattern, escape_char: None } => {
            let text = |text: &str| Expr::Value(Value::SingleQuotedString(text.to_string()).into());
            let concat = |left: Expr, right: Expr| Expr::BinaryOp {
                left: Box::new(left),
                op: BinaryOperator::StringConcat,
                right: Box::new(right),
            };
            let whole = concat(concat(text("^(?:"), nested((**pattern).clone())), text(")$"));
            Some(negation(*negated, function("regexp_like", vec![(**expr).clone(), whole])))
        }
        Expr::Function(call) => part_of_moment(call).or_else(|| meaning(call)),
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } if elements(right).is_some() => {
            Some(function("list_contains", vec![elements(right)?, (**left).clone()]))
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } if elements(right).is_some() => {
            Some(negation(true, function("list_contains", vec![elements(right)?, (**left).clone()])))
        }
        Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr } => {
            let minus_one = Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr: Box::new(Expr::Value(Value::Number("1".to_string(), false).into())),
            };
            Some(function("xor", vec![(**expr).clone(), minus_one]))
        }
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
            in_subquery(left, right, false).or_else(|| any_element(left, right))
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => Some(in_subquery(left, right, true)?),
        other => operator(other),
    }
}

/// `year(x)` and similar calls as `date_part`.
fn part_of_moment(call: &Function) -> Option<Expr> {
    let ([name], FunctionArguments::List(list), None) = (call.name.0.as_slice(), &call.args, &call.over) else {
        return None;
    };
    let part = part_called(&name.as_ident()?.value)?;
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(moment))] = list.args.as_slice() else { return None };
    let text = Expr::Value(Value::SingleQuotedString(part.to_string()).into());
    Some(function("date_part", vec![text, moment.clone()]))
}

/// Parts of dates that are also function names.
const PARTS: [&str; 17] = [
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "isodow",
    "isoyear",
    "era",
    "millennium",
    "century",
    "decade",
    "millisecond",
    "microsecond",
    "yearweek",
];

/// The names of [`part_called`].
pub(crate) fn called_parts() -> impl Iterator<Item = &'static str> {
    let others = ["dayofmonth", "weekofyear", "dayofweek", "weekday", "dayofyear", "epoch"];
    PARTS.into_iter().chain(others)
}

/// The part of timestamps that the function `name` extracts.
pub(crate) fn part_called(name: &str) -> Option<&'static str> {
    Some(match name.to_lowercase().as_str() {
        "dayofmonth" => "day",
        "weekofyear" => "week",
        "dayofweek" | "weekday" => "dow",
        "dayofyear" => "doy",
        "epoch" => "epoch",
        name => PARTS.into_iter().find(|part| *part == name)?,
    })
}

/// The list of `IN l`, whose elements are compared.
pub(super) fn elements(right: &Expr) -> Option<Expr> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = right else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))] if name.to_string() == "__elements" => Some(list.clone()),
        _ => None,
    }
}

/// Whether an element of `list` equals `value`; NULL if unknown.
fn any_element(value: &Expr, list: &Expr) -> Option<Expr> {
    let of_list = |name: &str| function(name, vec![list.clone()]);
    let no_elements = Expr::Value(Value::Number("0".to_string(), false).into());
    let has_nulls = operation(of_list("len"), BinaryOperator::Gt, of_list("list_count"));
    let is_null = Expr::IsNull(Box::new(nested(value.clone())));
    let of_null = operation(is_null, BinaryOperator::And, operation(of_list("len"), BinaryOperator::Gt, no_elements));
    let unknown = operation(has_nulls, BinaryOperator::Or, nested(of_null));
    rows::three_valued(function("list_contains", vec![list.clone(), value.clone()]), unknown).ok()
}

fn in_subquery(left: &Expr, right: &Expr, negated: bool) -> Option<Expr> {
    let Expr::Subquery(subquery) = right else { return None };
    Some(Expr::InSubquery { expr: Box::new(left.clone()), subquery: subquery.clone(), negated })
}

/// A call of function `name`.
pub(in crate::dialect) fn function(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: vec![] }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}
