//! PIVOT and UNPIVOT in FROM, rewritten to queries: groups with an aggregate per value, and unnested lists of columns.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ExprWithAlias, Function, FunctionArg, FunctionArgExpr, FunctionArguments, NullInclusion, PivotValueSource,
    Query, TableFactor, UnaryOperator, Value,
};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::Binder;
use super::label::label;
use super::scope::{Scope, quoted, same};
use crate::dialect::syntax::GROUPS;
use crate::planning::limits::check_columns;
use crate::visit::visit_expressions;
use crate::{Error, Result};

/// PIVOTs and UNPIVOTs inside each other.
const MOST_TURNED: usize = 8;

/// The names of the columns of an UNPIVOT before they are renamed.
const NAME: &str = "\u{1}name";
const VALUE: &str = "\u{1}value";

impl Binder<'_> {
    /// Makes PIVOT and UNPIVOT queries in their place.
    pub(super) fn turned(&mut self, factor: &mut TableFactor, outer: &Scope<'_>) -> Result<()> {
        let (text, alias) = match factor {
            TableFactor::Pivot { table, aggregate_functions, value_column, value_source, default_on_null, alias } => {
                if default_on_null.is_some() {
                    return Err(Error::NotImplemented("PIVOT ... DEFAULT ON NULL".into()));
                }
                let columns = self.columns_of(table, outer)?;
                let columns: Vec<String> = columns.visible.iter().map(|column| column.name.clone()).collect();
                (pivot(table, aggregate_functions, value_column, value_source, &columns)?, alias.take())
            }
            TableFactor::Unpivot { table, value, null_inclusion, name, columns, alias } => {
                let source = self.columns_of(table, outer)?;
                let nulls = *null_inclusion == Some(NullInclusion::IncludeNulls);
                let mut listed = vec![];
                for column in columns.iter() {
                    listed.extend(self.unpivoted(column, &source)?);
                }
                let all: Vec<String> = source.visible.iter().map(|column| column.name.clone()).collect();
                (unpivot(table, value, &quoted(&name.value).to_string(), nulls, &listed, &all)?, alias.take())
            }
            _ => return Ok(()),
        };
        let subquery = Box::new(parsed(&text)?);
        *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
        Ok(())
    }

    /// The columns of the relation that is turned.
    fn columns_of<'s>(&mut self, table: &TableFactor, outer: &'s Scope<'s>) -> Result<Scope<'s>> {
        let mut scope = Scope::inside(Some(outer));
        // Each of them is bound twice.
        if self.turned >= MOST_TURNED {
            return Err(Error::Limit(format!("more than {MOST_TURNED} PIVOTs and UNPIVOTs inside each other")));
        }
        self.turned += 1;
        let operand = self.relation(&mut table.clone(), outer);
        self.turned -= 1;
        let operand = operand?;
        (scope.relations, scope.visible) = (operand.relations, operand.visible);
        if scope.is_open() {
            let text = format!("PIVOT and UNPIVOT of {table}, whose columns are not known before");
            return Err(Error::NotImplemented(text));
        }
        Ok(scope)
    }

    /// The columns, each with its name, of an item of an UNPIVOT's list.
    fn unpivoted(&mut self, item: &ExprWithAlias, source: &Scope<'_>) -> Result<Vec<(String, Vec<String>)>> {
        let known = |name: &str| {
            let found = source.visible.iter().find(|column| same(&column.name, name));
            found
                .map(|column| column.name.clone())
                .ok_or_else(|| Error::Plan(format!("Column \"{name}\" of UNPIVOT was not found in the FROM clause")))
        };
        let column = |expr: &Expr| match expr {
            Expr::Identifier(name) => known(&name.value),
            Expr::CompoundIdentifier(parts) => known(parts.last().map_or("", |part| part.value.as_str())),
            other => Err(Error::NotImplemented(format!("UNPIVOT of {other}: only columns are supported"))),
        };
        let of = |columns: Vec<String>| {
            let name = item.alias.as_ref().map_or_else(|| columns.join("_"), |alias| alias.value.clone());
            vec![(name, columns)]
        };
        match &item.expr {
            Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("columns") => {
                let chosen = self.chosen(call, source)?;
                Ok(chosen.into_iter().map(|column| (column.name.clone(), vec![column.name])).collect())
            }
            Expr::Tuple(parts) => Ok(of(parts.iter().map(column).collect::<Result<_>>()?)),
            Expr::Nested(inner) => Ok(of(vec![column(inner)?])),
            one => Ok(of(vec![column(one)?])),
        }
    }
}

/// A query of the plan's own.
pub(super) fn parsed(text: &str) -> Result<Query> {
    let parser = Parser::new(&DuckDbDialect).with_recursion_limit(10_000).try_with_sql(text);
    let query = parser.and_then(|mut parser| parser.parse_query());
    query.map(|query| *query).map_err(|error| Error::Parse(format!("{error} (of {text})")))
}

fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// The query of a PIVOT: a group for each combination of the unnamed columns, or of those of GROUP BY.
fn pivot(
    table: &TableFactor,
    aggregates: &[ExprWithAlias],
    on: &[Expr],
    values: &PivotValueSource,
    columns: &[String],
) -> Result<String> {
    let PivotValueSource::List(values) = values else {
        return Err(Error::NotImplemented(
            "PIVOT here takes the values of its column in a list: ON column IN (value, ...)".into(),
        ));
    };
    let (groups, aggregates): (Vec<_>, Vec<_>) = aggregates.iter().partition(|item| call(&item.expr, GROUPS).is_some());
    let groups: Vec<String> = match groups.first().and_then(|item| call(&item.expr, GROUPS)) {
        Some(by) => arguments(by)?.iter().map(ToString::to_string).collect(),
        None => {
            let mut named = vec![];
            on.iter().for_each(|column| names_in(column, &mut named));
            aggregates.iter().for_each(|item| names_in(&item.expr, &mut named));
            let left = columns.iter().filter(|column| !named.iter().any(|name| same(name, column)));
            left.map(|column| quoted(column).to_string()).collect()
        }
    };
    check_columns(values.len().saturating_mul(aggregates.len()))?;
    let mut items = groups.clone();
    for value in values {
        let parts: Vec<&Expr> = match &value.expr {
            Expr::Tuple(parts) => parts.iter().collect(),
            one => vec![one],
        };
        if parts.len() != on.len() {
            return Err(Error::Plan(format!("PIVOT on {} columns has the value {}", on.len(), value.expr)));
        }
        let known = parts.iter().map(|part| constant(part)).collect::<Result<Vec<_>>>()?;
        let conditions = on.iter().zip(&known).map(|(column, value)| match value {
            Some(value) => format!("CAST(({column}) AS VARCHAR) = {}", text(value)),
            None => format!("({column}) IS NULL"),
        });
        let condition = conditions.collect::<Vec<_>>().join(" AND ");
        let called = known.iter().map(|value| value.as_deref().unwrap_or("NULL")).collect::<Vec<_>>().join("_");
        let called = value.alias.as_ref().map_or(called, |alias| alias.value.clone());
        for aggregate in &aggregates {
            let Expr::Function(function) = &aggregate.expr else {
                return Err(Error::NotImplemented(format!("PIVOT with {}: only calls of aggregates", aggregate.expr)));
            };
            let name = match (&aggregate.alias, aggregates.len()) {
                (Some(alias), _) => format!("{called}_{}", alias.value),
                (None, 1) => called.clone(),
                (None, _) => format!("{called}_{}", label(&aggregate.expr, "")),
            };
            if function.filter.is_some() {
                return Err(Error::NotImplemented(format!("PIVOT with {function}: put the condition into its table")));
            }
            items.push(format!("{function} FILTER (WHERE {condition}) AS {}", quoted(&name)));
        }
    }
    let by = if groups.is_empty() { String::new() } else { format!(" GROUP BY {}", groups.join(", ")) };
    Ok(format!("SELECT {} FROM {table}{by}", items.join(", ")))
}

/// The query of an UNPIVOT: the other columns, and lists of names and of values that are unnested together.
fn unpivot(
    table: &TableFactor,
    value: &Expr,
    name: &str,
    nulls: bool,
    listed: &[(String, Vec<String>)],
    all: &[String],
) -> Result<String> {
    let values: Vec<String> = match value {
        Expr::Tuple(parts) => parts.iter().map(ToString::to_string).collect(),
        Expr::Nested(one) => vec![one.to_string()],
        one => vec![one.to_string()],
    };
    if let Some((called, columns)) = listed.iter().find(|(_, columns)| columns.len() != values.len()) {
        let (given, wanted) = (columns.len(), values.len());
        return Err(Error::Plan(format!("UNPIVOT of {given} columns, called \"{called}\", into {wanted} values")));
    }
    let used = |column: &&String| !listed.iter().any(|(_, columns)| columns.iter().any(|other| same(other, column)));
    let others: Vec<String> = all.iter().filter(used).map(|column| quoted(column).to_string()).collect();
    let names = listed.iter().map(|(name, _)| text(name)).collect::<Vec<_>>().join(", ");
    let mut inner = others.clone();
    let mut outer = others;
    inner.push(format!("unnest([{names}]) AS {}", quoted(NAME)));
    outer.push(format!("{} AS {name}", quoted(NAME)));
    let mut present = vec![];
    for (at, value) in values.iter().enumerate() {
        let columns = listed.iter().filter_map(|(_, columns)| columns.get(at)).map(|name| quoted(name).to_string());
        let own = quoted(&format!("{VALUE}{at}"));
        inner.push(format!("unnest([{}]) AS {own}", columns.collect::<Vec<_>>().join(", ")));
        outer.push(format!("{own} AS {value}"));
        present.push(format!("{own} IS NOT NULL"));
    }
    let condition = if nulls { String::new() } else { format!(" WHERE {}", present.join(" AND ")) };
    let (inner, outer) = (inner.join(", "), outer.join(", "));
    Ok(format!("SELECT {outer} FROM (SELECT {inner} FROM {table}) AS \"\u{1}unpivoted\"{condition}"))
}

/// `expr`, if it is a call of this name.
fn call<'e>(expr: &'e Expr, name: &str) -> Option<&'e Function> {
    match expr {
        Expr::Function(call) if call.name.to_string() == name => Some(call),
        _ => None,
    }
}

/// The arguments of a call that represents a clause.
pub(crate) fn arguments(call: &Function) -> Result<Vec<Expr>> {
    let FunctionArguments::List(list) = &call.args else { return Ok(vec![]) };
    let arg = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr.clone()),
        other => Err(Error::NotImplemented(format!("PIVOT with {other}"))),
    };
    list.args.iter().map(arg).collect()
}

fn names_in(expr: &Expr, names: &mut Vec<String>) {
    let _: ControlFlow<()> = visit_expressions(expr, |e| {
        match e {
            Expr::Identifier(name) => names.push(name.value.clone()),
            Expr::CompoundIdentifier(parts) => names.extend(parts.last().map(|part| part.value.clone())),
            _ => {}
        }
        ControlFlow::Continue(())
    });
}

/// The text of a value of a PIVOT's column; `None`: NULL.
fn constant(expr: &Expr) -> Result<Option<String>> {
    Ok(Some(match expr {
        Expr::Nested(inner) => return constant(inner),
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.clone(),
            Value::SingleQuotedString(text) => text.clone(),
            Value::Boolean(value) => value.to_string(),
            Value::Null => return Ok(None),
            other => return Err(Error::NotImplemented(format!("the value {other} of a PIVOT"))),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match constant(expr)? {
            Some(number) => format!("-{number}"),
            None => return Ok(None),
        },
        Expr::TypedString(string) => match &string.value.value {
            Value::SingleQuotedString(text) => text.clone(),
            other => return Err(Error::NotImplemented(format!("the value {other} of a PIVOT"))),
        },
        other => return Err(Error::NotImplemented(format!("the value {other} of a PIVOT: only constants"))),
    }))
}
