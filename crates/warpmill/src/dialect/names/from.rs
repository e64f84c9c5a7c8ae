//! FROM clauses: relations, and the columns of joins.

use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::ResolvedTableReference;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart,
    TableAlias, TableAliasColumnDef, TableFactor, TableFunctionArgs, TableWithJoins, Value,
};

use super::calls::first_known;
use super::parts::Parts;
use super::recursive::StepName;
use super::sample::sampled;
use super::scope::{Field, Fields, Relation, Scope, Visible, distinct_names, marked, operation, quoted, same};
use super::unread::unread_of_relation;
use super::{Binder, Names, rows};
use crate::asof;
use crate::catalog::NUMBERED;
use crate::{Error, Result};

/// The relations and columns of a join operand.
pub(super) struct Operand {
    pub(super) relations: Vec<Relation>,
    pub(super) visible: Vec<Visible>,
}

/// A relation before its alias is applied.
#[derive(Default)]
struct Unnamed {
    /// Its names, from the catalog on; empty for a query.
    path: Vec<String>,
    /// DataFusion's name for it.
    qualifier: Option<String>,
    fields: Fields,
    has_rowid: bool,
    /// The name of the recursive table expression whose rows it reads, within its recursive part.
    step: Option<String>,
}

/// The kind of a join: treatment of rows without a partner, or restriction to one side's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Inner,
    Left,
    Right,
    Full,
    /// Only the left side's columns.
    LeftOnly,
    /// Only the right side's columns.
    RightOnly,
}

impl Binder<'_> {
    /// Binds a FROM clause, and adds its relations to `scope`.
    pub(super) fn from(&mut self, from: &mut [TableWithJoins], scope: &mut Scope<'_>) -> Result<()> {
        for tree in from {
            let operand = self.tree(tree, scope)?;
            scope.relations.extend(operand.relations);
            scope.visible.extend(operand.visible);
        }
        Ok(())
    }

    fn tree(&mut self, tree: &mut TableWithJoins, before: &Scope<'_>) -> Result<Operand> {
        let mut scope = Scope::inside(Some(before));
        let first = self.relation(&mut tree.relation, &scope)?;
        (scope.relations, scope.visible) = (first.relations, first.visible);
        for join in &mut tree.joins {
            let right = self.relation(&mut join.relation, &scope)?;
            match &mut join.join_operator {
                JoinOperator::AsOf { .. } => self.asof(&mut join.join_operator, &mut scope, right)?,
                operator => self.join(operator, &mut scope, right)?,
            }
        }
        in_brackets(tree);
        Ok(Operand { relations: scope.relations, visible: scope.visible })
    }

    fn join(&mut self, operator: &mut JoinOperator, scope: &mut Scope<'_>, right: Operand) -> Result<()> {
        use JoinOperator::*;
        *operator = match std::mem::replace(operator, ArrayJoin) {
            Semi(constraint) => LeftSemi(constraint),
            Anti(constraint) => LeftAnti(constraint),
            other => other,
        };
        let (kind, constraint) = match operator {
            Join(on) | Inner(on) | CrossJoin(on) => (Kind::Inner, on),
            Left(on) | LeftOuter(on) => (Kind::Left, on),
            Right(on) | RightOuter(on) => (Kind::Right, on),
            FullOuter(on) => (Kind::Full, on),
            LeftSemi(on) | LeftAnti(on) => (Kind::LeftOnly, on),
            RightSemi(on) | RightAnti(on) => (Kind::RightOnly, on),
            _ => return Err(Error::NotImplemented("APPLY, ARRAY and STRAIGHT joins: not supported".into())),
        };
        let (left_relations, left_visible) = (scope.relations.len(), scope.visible.len());
        let is_open = scope.is_open() || right.relations.iter().any(|relation| relation.fields.is_none());
        let right_only = (kind == Kind::RightOnly).then(|| right.visible.clone());
        let keys = match &*constraint {
            JoinConstraint::Using(names) => {
                if let Some(name) = names.iter().find(|name| name.0.len() > 1) {
                    return Err(Error::Plan(format!(
                        "USING ({name}): columns of both sides have names without a table"
                    )));
                }
                Some(names.iter().map(column_name).collect())
            }
            JoinConstraint::Natural => Some(common_names(&scope.visible, &right.visible)),
            JoinConstraint::On(_) | JoinConstraint::None => None,
        };
        scope.relations.extend(right.relations);
        match keys {
            // Only DataFusion knows these columns, and it does not merge two to one.
            Some(_) if is_open && matches!(kind, Kind::Right | Kind::Full) => {
                return Err(Error::NotImplemented(
                    "RIGHT and FULL JOIN with USING or NATURAL of a table function: not supported".into(),
                ));
            }
            Some(_) if is_open => scope.visible.extend(right.visible),
            Some(keys) => {
                *constraint = JoinConstraint::On(merge(&keys, kind, &mut scope.visible, right.visible)?);
            }
            None => {
                scope.visible.extend(right.visible);
                if let JoinConstraint::On(condition) = constraint {
                    self.expr(condition, scope)?;
                }
            }
        }
        match (kind, right_only) {
            (Kind::LeftOnly, _) => {
                scope.relations.truncate(left_relations);
                scope.visible.truncate(left_visible);
            }
            (_, Some(visible)) => {
                scope.relations.drain(..left_relations);
                scope.visible = visible;
            }
            _ => {}
        }
        Ok(())
    }

    /// Binds an ASOF join; moves all conditions to its ON clause. Its MATCH_CONDITION then holds the kind.
    fn asof(&mut self, operator: &mut JoinOperator, scope: &mut Scope<'_>, right: Operand) -> Result<()> {
        let JoinOperator::AsOf { match_condition, constraint } = operator else { return Ok(()) };
        let kind = match asof::marker(match_condition) {
            None => None,
            Some(asof::POSITIONAL) => {
                scope.relations.extend(right.relations);
                scope.visible.extend(right.visible);
                return Ok(());
            }
            Some(kind @ (asof::INNER | asof::LEFT)) => Some(kind.to_string()),
            Some(kind) => {
                let kind = kind.trim_start_matches("asof ").to_uppercase();
                return Err(Error::NotImplemented(format!(
                    "ASOF {kind} JOIN: not supported; there are ASOF JOIN and ASOF LEFT JOIN"
                )));
            }
        };
        let is_open = scope.is_open() || right.relations.iter().any(|relation| relation.fields.is_none());
        scope.relations.extend(right.relations);
        let mut condition = match &*constraint {
            JoinConstraint::Using(_) if is_open => {
                return Err(Error::NotImplemented("ASOF JOIN with USING of a table function: not supported".into()));
            }
            JoinConstraint::Using(names) => {
                let keys: Vec<String> = names.iter().map(column_name).collect();
                let equal = merge(&keys, Kind::Left, &mut scope.visible, right.visible)?;
                // In DuckDB's spelling the last column is the inequality's.
                Some(if kind.is_some() { last_at_most(equal) } else { equal })
            }
            JoinConstraint::Natural => return Err(Error::NotImplemented("NATURAL ASOF JOIN: not supported".into())),
            JoinConstraint::On(condition) => {
                scope.visible.extend(right.visible);
                let mut condition = condition.clone();
                self.expr(&mut condition, scope)?;
                Some(condition)
            }
            JoinConstraint::None => {
                scope.visible.extend(right.visible);
                None
            }
        };
        if kind.is_none() {
            self.expr(match_condition, scope)?;
            let matched = std::mem::replace(match_condition, Expr::value(Value::Null));
            condition = Some(match condition {
                Some(before) => operation(before, BinaryOperator::And, Expr::Nested(Box::new(matched))),
                None => matched,
            });
        }
        let Some(condition) = condition else {
            return Err(Error::Plan("ASOF JOIN needs an ON or a USING clause".into()));
        };
        // With a MATCH_CONDITION, rows without a partner are kept.
        let kind = kind.unwrap_or_else(|| asof::LEFT.to_string());
        *match_condition = Expr::value(Value::SingleQuotedString(kind));
        *constraint = JoinConstraint::On(condition);
        Ok(())
    }

    /// Binds something in FROM.
    pub(super) fn relation(&mut self, relation: &mut TableFactor, scope: &Scope<'_>) -> Result<Operand> {
        sampled(relation)?;
        if let Some(what) = unread_of_relation(relation) {
            return Err(Error::NotImplemented(what));
        }
        self.turned(relation, scope)?;
        match relation {
            TableFactor::Table { name, alias, args: None, .. } => {
                let table = self.table(name);
                if let (true, Some(own)) = (table.fields.is_none(), &table.step) {
                    // DataFusion would call it by another name.
                    alias.get_or_insert_with(|| alias_of(own));
                }
                self.named(table, alias, scope)
            }
            TableFactor::Table { name, alias, args: Some(args), .. } => {
                let function = self.table_function(name, alias, args, scope)?;
                self.named(function, alias, scope)
            }
            TableFactor::Derived { lateral, subquery, alias, .. } => {
                let sides = || scope.parent.into_iter().chain([scope]);
                sides().for_each(|side| side.used.set(false));
                let fields = self.query(subquery, Some(scope), Names::Own)?;
                *lateral |= sides().any(|side| side.used.get());
                rows::check(alias.as_ref(), fields.as_ref().map(Vec::len))?;
                self.named(Unnamed { fields, ..Unnamed::default() }, alias, scope)
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => self.tree(table_with_joins, scope),
            TableFactor::UNNEST { alias, array_exprs, .. } => {
                for array in array_exprs.iter_mut() {
                    self.expr(array, scope)?;
                }
                if array_exprs.len() == 1 {
                    let alias = alias.get_or_insert_with(|| alias_of("unnest"));
                    if alias.columns.is_empty() {
                        alias.columns.push(alias_column("unnest"));
                    }
                }
                self.named(Unnamed::default(), alias, scope)
            }
            TableFactor::Function { name, args, alias, .. } => {
                for arg in args {
                    self.function_arg(arg, scope)?;
                }
                let path = vec![name.to_string()];
                self.named(Unnamed { path, ..Unnamed::default() }, alias, scope)
            }
            // DataFusion refuses the others, or finds their columns itself.
            _ => Ok(operand(Relation { path: vec![], qualifier: String::new(), fields: None, has_rowid: false })),
        }
    }

    fn function_arg(&mut self, arg: &mut FunctionArg, scope: &Scope<'_>) -> Result<()> {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))
            | FunctionArg::Named { arg: FunctionArgExpr::Expr(expr), .. } => self.expr(expr, scope),
            _ => Ok(()),
        }
    }

    /// A table, view, file or common table expression.
    fn table(&mut self, name: &mut ObjectName) -> Unnamed {
        if let Some(StepName { path, fields }) = self.step_table(name) {
            let step = path.last().cloned();
            return Unnamed { path, fields, step, ..Unnamed::default() };
        }
        if let [ObjectNamePart::Identifier(only)] = name.0.as_mut_slice()
            && let Some(cte) = self.ctes.iter().rev().find(|cte| same(&cte.name, &only.value))
        {
            *only = quoted(&cte.plan_name);
            return Unnamed {
                path: vec![cte.name.clone()],
                qualifier: Some(cte.plan_name.clone()),
                fields: cte.fields.clone(),
                ..Unnamed::default()
            };
        }
        let Some((table, schema)) = self.found(name) else {
            return Unnamed { path: vec![name.to_string()], ..Unnamed::default() };
        };
        let names = distinct_names(schema.fields().iter().map(|field| field.name().as_str()));
        let fields = names.into_iter().zip(schema.fields());
        let field = |(name, field): (String, &FieldRef)| Field {
            name,
            column: field.name().clone(),
            parts: Parts::of_type(field.data_type()),
        };
        let fields = fields.map(field).collect();
        let numbered = self.tables.numbered(&table);
        let qualifier = (name.0.len() == 1 && numbered.is_none()).then(|| table.table.to_string());
        let has_rowid = numbered.is_some() || table.table.starts_with(NUMBERED);
        if let Some((numbered, last)) = numbered.zip(name.0.last_mut()) {
            *last = ObjectNamePart::Identifier(quoted(&numbered));
        }
        let shown = file_stem(&table.table).to_string();
        Unnamed {
            path: vec![table.catalog.to_string(), table.schema.to_string(), shown],
            qualifier,
            fields: Some(fields),
            has_rowid,
            step: None,
        }
    }

    /// A table function.
    fn table_function(
        &mut self,
        name: &mut ObjectName,
        alias: &mut Option<TableAlias>,
        args: &mut TableFunctionArgs,
        scope: &Scope<'_>,
    ) -> Result<Unnamed> {
        for part in &mut name.0 {
            if let ObjectNamePart::Identifier(word) = part {
                word.value = word.value.to_lowercase();
            }
        }
        for arg in &mut args.args {
            self.function_arg(arg, scope)?;
        }
        let function = name.to_string().to_lowercase();
        // The only column of these is named like the relation.
        if matches!(function.as_str(), "range" | "generate_series") {
            let alias = alias.get_or_insert_with(|| alias_of(&function));
            if alias.columns.is_empty() {
                alias.columns.push(alias_column(&alias.name.value));
            }
        }
        Ok(Unnamed { path: vec![function], ..Unnamed::default() })
    }

    /// Names a relation by its alias, with a qualifier that is unique in the scope.
    fn named(&mut self, unnamed: Unnamed, alias: &mut Option<TableAlias>, scope: &Scope<'_>) -> Result<Operand> {
        let Unnamed { mut path, qualifier, mut fields, has_rowid, .. } = unnamed;
        if let Some(alias) = alias {
            path = vec![alias.name.value.clone()];
            fields = renamed(fields, alias)?;
        }
        if alias.is_none() && fields.is_none() {
            // DataFusion finds its columns, under the name that it gives the relation.
            return Ok(operand(Relation { path, qualifier: String::new(), fields, has_rowid }));
        }
        let wanted = match (&*alias, &qualifier) {
            // Names left to DataFusion are folded like unquoted names.
            (Some(alias), _) if fields.is_none() && alias.name.quote_style.is_none() => alias.name.value.to_lowercase(),
            (Some(alias), _) => alias.name.value.clone(),
            (None, Some(own)) => own.clone(),
            (None, None) => path.last().map_or_else(|| "unnamed_subquery".to_string(), String::clone),
        };
        let taken = path.is_empty() || scope.has_qualifier(&wanted);
        self.relations += usize::from(taken);
        let unique = if taken { marked(&wanted, self.relations) } else { wanted };
        match alias {
            Some(alias) => alias.name = quoted(&unique),
            None if qualifier.as_ref() == Some(&unique) => {}
            None => *alias = Some(alias_of(&unique)),
        }
        Ok(operand(Relation { path, qualifier: unique, fields, has_rowid }))
    }

    fn found(&self, name: &ObjectName) -> Option<(ResolvedTableReference, SchemaRef)> {
        let reference = object_name_to_table_reference(name.clone(), true).ok()?;
        let schema = self.tables.schema(reference.clone())?;
        Some((self.tables.resolved(reference), schema))
    }

    /// The columns of a session table.
    pub(super) fn schema(&self, name: &ObjectName) -> Option<SchemaRef> {
        Some(self.found(name)?.1)
    }
}

/// Puts every ASOF join of a FROM item, with everything before it, in parentheses, where its planner finds it.
fn in_brackets(tree: &mut TableWithJoins) {
    for join in std::mem::take(&mut tree.joins) {
        let is_asof = matches!(join.join_operator, JoinOperator::AsOf { .. });
        tree.joins.push(join);
        if is_asof {
            let joins = std::mem::take(&mut tree.joins);
            let nothing = TableFactor::TableFunction { expr: Expr::value(Value::Null), alias: None };
            let relation = std::mem::replace(&mut tree.relation, nothing);
            let table_with_joins = Box::new(TableWithJoins { relation, joins });
            tree.relation = TableFactor::NestedJoin { table_with_joins, alias: None };
        }
    }
}

/// A conjunction of equalities with the last one as `>=`.
fn last_at_most(equal: Expr) -> Expr {
    match equal {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            Expr::BinaryOp { left, op: BinaryOperator::And, right: Box::new(last_at_most(*right)) }
        }
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
            Expr::BinaryOp { left, op: BinaryOperator::GtEq, right }
        }
        other => other,
    }
}

fn operand(relation: Relation) -> Operand {
    let visible = relation.columns();
    Operand { relations: vec![relation], visible }
}

fn alias_of(name: &str) -> TableAlias {
    TableAlias { explicit: true, name: quoted(name), columns: vec![], at: None }
}

fn alias_column(name: &str) -> TableAliasColumnDef {
    TableAliasColumnDef { name: quoted(name), data_type: None }
}

/// `fields` with the column names of an alias, which is completed.
fn renamed(fields: Fields, alias: &mut TableAlias) -> Result<Fields> {
    if alias.columns.is_empty() {
        return Ok(fields);
    }
    let given = alias.columns.len();
    if let Some(fields) = &fields {
        if given > fields.len() {
            let (name, all) = (&alias.name.value, fields.len());
            return Err(Error::Plan(format!(
                "table \"{name}\" has {all} columns available but {given} columns specified"
            )));
        }
        alias.columns.extend(fields[given..].iter().map(|field| alias_column(&field.name)));
    }
    let names = distinct_names(alias.columns.iter().map(|column| column.name.value.as_str()));
    alias.columns = names.iter().map(|name| alias_column(name)).collect();
    let mut parts = fields.into_iter().flatten().map(|field| field.parts);
    let field = |name: String| Field { column: name.clone(), name, parts: parts.next().flatten() };
    Ok(Some(names.into_iter().map(field).collect()))
}

/// The name of a file without its folder and its extension: its default alias.
fn file_stem(name: &str) -> &str {
    match name.rsplit_once('/') {
        None if !name.contains('.') => name,
        folder => {
            let file = folder.map_or(name, |(_, file)| file);
            file.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or(name)
        }
    }
}

fn column_name(name: &ObjectName) -> String {
    name.0.last().and_then(ObjectNamePart::as_ident).map_or_else(|| name.to_string(), |ident| ident.value.clone())
}

/// The common column names of both sides of a NATURAL join.
fn common_names(left: &[Visible], right: &[Visible]) -> Vec<String> {
    let common = left.iter().filter(|one| right.iter().any(|other| same(&one.name, &other.name)));
    common.map(|column| column.name.clone()).collect()
}

/// The condition of a join by equal names, whose columns are merged.
fn merge(keys: &[String], kind: Kind, left: &mut Vec<Visible>, right: Vec<Visible>) -> Result<Expr> {
    if keys.is_empty() {
        return Err(Error::Plan("No columns found to join on in NATURAL JOIN".into()));
    }
    let mut rest = right;
    let mut condition: Option<Expr> = None;
    for key in keys {
        let at = only(left, key, "left")?;
        let other = rest.remove(only(&rest, key, "right")?);
        let equal = operation(left[at].expr.clone(), BinaryOperator::Eq, other.expr.clone());
        condition = Some(match condition {
            Some(before) => operation(before, BinaryOperator::And, equal),
            None => equal,
        });
        match kind {
            Kind::Right => left[at].expr = other.expr,
            Kind::Full => left[at].expr = first_known(vec![left[at].expr.clone(), other.expr]),
            Kind::Inner | Kind::Left | Kind::LeftOnly | Kind::RightOnly => {}
        }
    }
    left.extend(rest);
    Ok(condition.expect("there are keys"))
}

/// The position of the only column named `key`.
fn only(columns: &[Visible], key: &str, side: &str) -> Result<usize> {
    let mut found = columns.iter().enumerate().filter(|(_, column)| same(&column.name, key));
    match (found.next(), found.next()) {
        (Some((at, _)), None) => Ok(at),
        (None, _) => Err(Error::Plan(format!("Column \"{key}\" does not exist on {side} side of join!"))),
        (Some(_), Some(_)) => Err(Error::Plan(format!(
            "Column name \"{key}\" is ambiguous: it exists more than once on {side} side of join"
        ))),
    }
}
