//! Recursive common table expressions: rewritten to a parenthesised query with an alias, in which names of the table refer to the rows of a recursion
//! ([`crate::recursion`]).

use datafusion::sql::sqlparser::ast::{
    Cte as Expression, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, Query, Select, SelectItem, SetExpr, SetOperator, SetQuantifier, TableAlias, TableAliasColumnDef,
    TableFactor,
};

use super::expr::function;
use super::pivot::parsed;
use super::query::reads;
use super::scope::{Field, Fields, Scope, distinct_names, quoted, same};
use super::{Binder, Cte, Names, no_query};
use crate::recursion::{KEYED, Part, marker, table_name};
use crate::{Error, Result};

/// The schema that qualifies a recursive table's name to mean all of its rows.
const ALL_ROWS: &str = "recurring";

/// The recursion that a common table expression refers to while its recursive part is bound.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    number: u64,
}

/// A table of a recursion by its name in a statement.
pub(super) struct StepName {
    /// Name in statements.
    pub(super) path: Vec<String>,
    pub(super) fields: Fields,
}

impl Binder<'_> {
    /// Binds a common table expression that may be recursive. Returns its columns; `None` if it is not recursive.
    pub(super) fn recursion(
        &mut self,
        cte: &mut Expression,
        recursive: bool,
        outer: Option<&Scope<'_>>,
    ) -> Result<Option<Fields>> {
        let key = taken_key(&mut cte.query);
        let name = cte.alias.name.value.clone();
        if key.is_some() && !recursive {
            return Err(Error::Plan(format!("USING KEY of {name}, which is not recursive: WITH RECURSIVE is missing")));
        }
        let is_by_name = |quantifier| {
            let by_name = [SetQuantifier::ByName, SetQuantifier::AllByName, SetQuantifier::DistinctByName];
            by_name.contains(&quantifier)
        };
        let query = &mut *cte.query;
        let cut = query.order_by.is_some() || query.limit_clause.is_some();
        let (left, right) = match &mut *query.body {
            SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, left, right }
                if recursive && !is_by_name(*set_quantifier) =>
            {
                (left, right)
            }
            _ if key.is_some() => {
                return Err(Error::Plan(format!("USING KEY of {name} needs a UNION or UNION ALL")));
            }
            _ => return Ok(None),
        };
        if cut && (key.is_some() || reads(right, &name)) {
            return Err(Error::NotImplemented(format!("ORDER BY, LIMIT or OFFSET in recursive query {name}")));
        }
        let alias = |name: &str| TableAlias { explicit: true, name: quoted(name), columns: vec![], at: None };
        if cut {
            let fields = called(self.query(query, outer, Names::Own)?, &cte.alias.columns);
            in_brackets(query, alias(&name))?;
            return Ok(Some(fields));
        }
        let around = self.ctes.len();
        if let Some(with) = &mut query.with {
            self.with(with, outer)?;
        }
        let own = called(self.set_expr(left, outer, Names::Own)?, &cte.alias.columns);
        let mut fields = own.clone();
        let columns = match &mut fields {
            Some(fields) => {
                let names = distinct_names(fields.iter().map(|field| field.column.as_str()));
                fields.iter_mut().zip(&names).for_each(|(field, name)| field.column = name.clone());
                names
            }
            None => cte.alias.columns.iter().map(|column| column.name.value.clone()).collect(),
        };
        self.recursions += 1;
        let number = self.recursions;
        let (plan_name, reading) = (name.clone(), Some(Reading { number }));
        self.ctes.push(Cte { name: name.clone(), plan_name, fields: fields.clone(), reading });
        self.set_expr(right, outer, Names::Own)?;
        self.ctes.truncate(around);
        if !self.read.remove(&number) && key.is_none() {
            if query.with.is_some() {
                in_brackets(query, alias(&name))?;
            }
            return Ok(Some(own));
        }
        if let Some(items) = key {
            let Some(fields) = &fields else {
                return Err(Error::NotImplemented(format!("USING KEY of columns of a table function in {name}")));
            };
            let aggregation = self.aggregation(number, items, fields)?;
            let union = std::mem::replace(&mut query.body, no_query().body);
            *query.body = SetExpr::SetOperation {
                op: SetOperator::Intersect,
                set_quantifier: SetQuantifier::None,
                left: union,
                right: Box::new(aggregation),
            };
        }
        let column = |name: &String| TableAliasColumnDef { name: quoted(name), data_type: None };
        in_brackets(query, TableAlias { columns: columns.iter().map(column).collect(), ..alias(&marker(number)) })?;
        Ok(Some(fields))
    }

    /// The table of a recursion that `name` refers to; replaces it by the name in plans.
    pub(super) fn step_table(&mut self, name: &mut ObjectName) -> Option<StepName> {
        let (part, table) = match name.0.as_slice() {
            [ObjectNamePart::Identifier(table)] => (Part::Last, table),
            [ObjectNamePart::Identifier(schema), ObjectNamePart::Identifier(table)]
                if same(&schema.value, ALL_ROWS) =>
            {
                (Part::All, table)
            }
            _ => return None,
        };
        // Another table of that name may be in a nearer scope.
        let is_it = |cte: &&Cte| same(&cte.name, &table.value) && (part == Part::Last || cte.reading.is_some());
        let cte = self.ctes.iter().rev().find(is_it)?;
        let number = cte.reading?.number;
        let schema = (part == Part::All).then(|| ALL_ROWS.to_string());
        let found =
            StepName { path: schema.into_iter().chain([cte.name.clone()]).collect(), fields: cte.fields.clone() };
        self.read.insert(number);
        *name = ObjectName::from(vec![quoted(&table_name(number, part))]);
        Some(found)
    }

    /// The aggregation of rows by the key in `items`, for recursion `number` with columns `fields`.
    fn aggregation(&mut self, number: u64, items: Vec<SelectItem>, fields: &[Field]) -> Result<SetExpr> {
        let name = table_name(number, Part::Candidates);
        let mut columns = vec![Value::Last; fields.len()];
        for item in items {
            let (at, value) = item_of(item, fields)?;
            columns[at] = match (&columns[at], value) {
                (Value::Last, value) => value,
                (Value::Key, Value::Key) => Value::Key,
                (Value::Aggregate(_), Value::Aggregate(_)) => {
                    return Err(refused(&fields[at].name, "is referenced multiple times"));
                }
                _ => return Err(refused(&fields[at].name, "cannot be used as both key and aggregate")),
            };
        }
        let keys: Vec<String> = (fields.iter().zip(&columns))
            .filter(|(_, value)| matches!(value, Value::Key))
            .map(|(field, _)| quoted(&field.name).to_string())
            .collect();
        if keys.is_empty() {
            return Err(Error::Plan("USING KEY requires at least one key column".into()));
        }
        let text = format!("SELECT NULL FROM {} GROUP BY {}", quoted(&name), keys.join(", "));
        let mut query = parsed(&text)?;
        let select = select_of(&mut query)?;
        let item = |(field, value): (&Field, Value)| {
            let column = Expr::Identifier(quoted(&field.name));
            let expr = match value {
                Value::Key => column,
                Value::Last => function("last", vec![column]),
                Value::Aggregate(expr) => *expr,
            };
            SelectItem::ExprWithAlias { expr, alias: quoted(&field.name) }
        };
        select.projection = fields.iter().zip(columns).map(item).collect();
        let around = self.ctes.len();
        let plan_name = name.clone();
        self.ctes.push(Cte { name, plan_name, fields: Some(fields.to_vec()), reading: None });
        let bound = self.set_expr(&mut query.body, None, Names::Own);
        self.ctes.truncate(around);
        bound?;
        Ok(*query.body)
    }
}

/// The value of a column for a key.
#[derive(Debug, Clone)]
enum Value {
    Key,
    /// The value of the last row.
    Last,
    Aggregate(Box<Expr>),
}

/// The column of an item of USING KEY, and its value.
fn item_of(item: SelectItem, fields: &[Field]) -> Result<(usize, Value)> {
    let place = |name: &Ident| {
        let found = fields.iter().position(|field| same(&field.name, &name.value));
        found.ok_or_else(|| Error::Plan(format!("USING KEY: there is no column {name}")))
    };
    let column = |expr: &Expr| match expr {
        Expr::Identifier(name) => Some(place(name)),
        Expr::CompoundIdentifier(names) => names.last().map(place),
        _ => None,
    };
    match item {
        SelectItem::UnnamedExpr(expr) => {
            if let Some(at) = column(&expr) {
                return Ok((at?, Value::Key));
            }
            let Some(call) = aggregate(&expr) else {
                return Err(refused(&expr.to_string(), "can't be used in the USING KEY clause"));
            };
            match first_argument(call).and_then(column) {
                Some(at) => Ok((at?, Value::Aggregate(Box::new(expr)))),
                None => Err(Error::Plan(format!(
                    "{expr}: in USING KEY, an aggregate must either have a column reference as its first argument or an alias"
                ))),
            }
        }
        SelectItem::ExprWithAlias { expr, alias } => match aggregate(&expr) {
            Some(_) => Ok((place(&alias)?, Value::Aggregate(Box::new(expr)))),
            None => Err(refused(
                &expr.to_string(),
                "has an alias in USING KEY, where only direct calls to an aggregate function can have an alias",
            )),
        },
        item => Err(refused(&item.to_string(), "can't be used in the USING KEY clause")),
    }
}

fn refused(what: &str, why: &str) -> Error {
    Error::Plan(format!("{what} {why}"))
}

/// A call that may be an aggregate.
fn aggregate(expr: &Expr) -> Option<&Function> {
    match expr {
        Expr::Function(call) if call.over.is_none() => Some(call),
        _ => None,
    }
}

fn first_argument(call: &Function) -> Option<&Expr> {
    let FunctionArguments::List(list) = &call.args else { return None };
    match list.args.first()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// Unwraps `query` from the parentheses that represent USING KEY. Returns the items of the key.
fn taken_key(query: &mut Query) -> Option<Vec<SelectItem>> {
    let SetExpr::Select(select) = &mut *query.body else { return None };
    let [from] = select.from.as_mut_slice() else { return None };
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = &mut from.relation else { return None };
    if alias.name.value != KEYED {
        return None;
    }
    let inner = std::mem::replace(&mut **subquery, no_query());
    let items = std::mem::take(&mut select.projection);
    *query = inner;
    Some(items)
}

/// `fields` with the first ones renamed by the alias.
fn called(fields: Fields, columns: &[TableAliasColumnDef]) -> Fields {
    let mut fields = fields?;
    let given = distinct_names(columns.iter().map(|column| column.name.value.as_str()));
    for (field, name) in fields.iter_mut().zip(given) {
        (field.name, field.column) = (name.clone(), name);
    }
    Some(fields)
}

/// Wraps `query` in parentheses with an alias, and selects all columns.
fn in_brackets(query: &mut Query, alias: TableAlias) -> Result<()> {
    let mut around = parsed("SELECT * FROM (SELECT 1) AS \"around\"")?;
    let select = select_of(&mut around)?;
    let Some(TableFactor::Derived { subquery, alias: named, .. }) =
        select.from.first_mut().map(|from| &mut from.relation)
    else {
        return Err(Error::Parse("a query could not be put in brackets".into()));
    };
    *named = Some(alias);
    **subquery = std::mem::replace(query, no_query());
    *query = around;
    Ok(())
}

fn select_of(query: &mut Query) -> Result<&mut Select> {
    match &mut *query.body {
        SetExpr::Select(select) => Ok(select),
        _ => Err(Error::Parse("a query is no SELECT".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str) -> Field {
        Field { name: name.into(), column: name.into(), parts: None }
    }

    fn items(text: &str) -> Vec<SelectItem> {
        let mut query = parsed(&format!("SELECT {text}")).unwrap();
        select_of(&mut query).unwrap().projection.clone()
    }

    #[test]
    fn items_of_a_key_are_about_columns() {
        let fields = [field("a"), field("b"), field("c")];
        let about = |text: &str| -> Vec<Result<(usize, Value)>> {
            items(text).into_iter().map(|item| item_of(item, &fields)).collect()
        };
        let found = about("A, t.b, max(c), count(*) AS b, arg_min(b, c)");
        let places: Vec<usize> = found.into_iter().map(|item| item.unwrap().0).collect();
        assert_eq!(places, [0, 1, 2, 1, 1]);
        for refused in ["b + 1", "max(b)::INT", "max(b) OVER ()", "a AS b", "*", "count(*)", "d", "max(d)"] {
            assert!(about(refused).remove(0).is_err(), "{refused}");
        }
    }

    #[test]
    fn keys_are_taken_from_brackets() {
        let mut keyed = parsed(&format!("SELECT a, max(b) FROM (SELECT 1 UNION SELECT 2) AS \"{KEYED}\"")).unwrap();
        assert_eq!(taken_key(&mut keyed).unwrap().len(), 2);
        assert_eq!(keyed.to_string(), "SELECT 1 UNION SELECT 2");
        assert!(taken_key(&mut keyed).is_none());
    }
}
