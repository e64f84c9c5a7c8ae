//! Scopes: the meaning of names at a position of a statement.

use std::cell::Cell;
use std::collections::HashMap;

use datafusion::sql::sqlparser::ast::{AccessExpr, BinaryOperator, Expr, Ident, Value};

use super::parts::Parts;
use crate::catalog::ROW;
use crate::{Error, Result};

/// Separates a name from the number that makes it unique: users' names do not contain it.
const MARK: char = '\u{1f}';

/// A column that a relation or a query shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    /// Name in statements.
    pub(super) name: String,
    /// Name in the plan.
    pub(super) column: String,
    /// The fields of its structs, as far as known.
    pub(super) parts: Option<Parts>,
}

/// The columns of a relation or result; `None` if only DataFusion knows them.
pub(super) type Fields = Option<Vec<Field>>;

/// Something in a FROM clause.
#[derive(Debug)]
pub(super) struct Relation {
    /// Its names, from the catalog to its alias.
    pub(super) path: Vec<String>,
    /// Name in the plan.
    pub(super) qualifier: String,
    pub(super) fields: Fields,
    /// Whether `rowid` refers to its row number, which `*` does not include.
    pub(super) has_rowid: bool,
}

/// A column that `*` includes, and that can be named without its relation.
#[derive(Debug, Clone)]
pub(super) struct Visible {
    pub(super) name: String,
    pub(super) expr: Expr,
}

/// An item of a SELECT list that later items, and other clauses, can refer to.
#[derive(Debug)]
pub(super) struct Alias {
    pub(super) name: String,
    pub(super) expr: Expr,
    /// Its position in the list, from one.
    pub(super) position: usize,
}

/// The relations of a FROM clause, or the known part of it, nested within outer queries.
#[derive(Debug, Default)]
pub(super) struct Scope<'s> {
    pub(super) parent: Option<&'s Scope<'s>>,
    pub(super) relations: Vec<Relation>,
    pub(super) visible: Vec<Visible>,
    pub(super) aliases: Vec<Alias>,
    /// Whether a query inside of this scope has named one of its columns.
    pub(super) used: Cell<bool>,
}

impl<'s> Scope<'s> {
    pub(super) fn inside(parent: Option<&'s Scope<'s>>) -> Self {
        Self { parent, ..Self::default() }
    }

    /// Whether unknown names may belong to a relation with unknown columns.
    pub(super) fn is_open(&self) -> bool {
        self.relations.iter().any(|relation| relation.fields.is_none())
    }

    /// The column that `parts` refer to, in this or an outer scope; `None` if there is none, or only DataFusion can know.
    pub(super) fn find(&self, parts: &[Ident]) -> Result<Option<Expr>> {
        if let Some(expr) = self.column(parts)? {
            return Ok(Some(expr));
        }
        if self.is_open() {
            return Ok(None);
        }
        if let [name] = parts
            && let Some(alias) = self.alias(&name.value)
        {
            return Ok(Some(nested(alias.expr.clone())));
        }
        let Some(parent) = self.parent else { return Ok(None) };
        let found = parent.find(parts)?;
        if found.is_some() && parent.column(parts)?.is_some() {
            parent.used.set(true);
        }
        Ok(found.map(with_calls))
    }

    /// The rows of a relation of that name, in this or an outer scope, as structs.
    pub(super) fn row(&self, name: &Ident) -> Option<Expr> {
        let called = |relation: &&Relation| relation.is_called(std::slice::from_ref(name));
        if self.is_open() {
            return None;
        }
        let Some(relation) = self.relations.iter().find(called) else { return self.parent?.row(name) };
        let text = |text: &str| Expr::Value(Value::SingleQuotedString(text.to_string()).into());
        let fields = relation.fields.as_ref()?;
        let args = fields.iter().flat_map(|field| [text(&field.name), relation.column(field)]).collect();
        self.used.set(true);
        Some(super::expr::function("named_struct", args))
    }

    /// The fields of the structs in a column, which `expr` names in full or as statements do.
    pub(super) fn parts(&self, expr: &Expr) -> Option<Parts> {
        let names = match expr {
            Expr::Identifier(name) => std::slice::from_ref(name),
            Expr::CompoundIdentifier(parts) => parts,
            _ => return None,
        };
        let named = self.column(names).ok().flatten();
        let mut columns =
            self.relations.iter().flat_map(|of| of.fields.iter().flatten().map(move |field| (of.column(field), field)));
        let (_, field) = columns.find(|(column, _)| column == expr || named.as_ref() == Some(column))?;
        field.parts.clone()
    }

    /// The item of the SELECT list called `name`.
    pub(super) fn alias(&self, name: &str) -> Option<&Alias> {
        self.aliases.iter().find(|alias| same(&alias.name, name))
    }

    /// The column of this FROM clause that `parts` name.
    pub(super) fn column(&self, parts: &[Ident]) -> Result<Option<Expr>> {
        match self.shown_column(parts)? {
            Some(column) => Ok(Some(column)),
            None => self.rowid(parts),
        }
    }

    /// The row number that `rowid` refers to if no column has that name.
    fn rowid(&self, parts: &[Ident]) -> Result<Option<Expr>> {
        let Some((name, relation)) = parts.split_last().filter(|(name, _)| same(&name.value, "rowid")) else {
            return Ok(None);
        };
        let mut of = self.relations.iter().filter(|of| of.has_rowid && (relation.is_empty() || of.is_called(relation)));
        match (of.next(), of.next()) {
            (Some(of), None) => Ok(Some(Expr::CompoundIdentifier(vec![quoted(&of.qualifier), quoted(ROW)]))),
            (Some(_), Some(_)) => {
                Err(Error::Plan(format!("Ambiguous reference to column name \"{name}\": name the table, too")))
            }
            (None, _) => Ok(None),
        }
    }

    fn shown_column(&self, parts: &[Ident]) -> Result<Option<Expr>> {
        for split in (1..parts.len()).rev() {
            let (qualifier, rest) = parts.split_at(split);
            let mut called = self.relations.iter().filter(|relation| relation.is_called(qualifier));
            let found = called.find_map(|relation| Some((relation, relation.field(&rest[0].value)?)));
            if let Some((relation, field)) = found {
                return match called.next() {
                    Some(_) => Err(duplicate(relation)),
                    // DataFusion would take the column for a table of that name.
                    None if rest.len() > 1 && self.relations.iter().any(|other| other.is_called(&rest[..1])) => {
                        Ok(Some(with_calls(with_fields(relation.column(field), &rest[1..]))))
                    }
                    None => Ok(Some(with_fields(relation.column(field), &rest[1..]))),
                };
            }
        }
        let (name, rest) = (&parts[0], &parts[1..]);
        let mut found = self.visible.iter().filter(|visible| same(&visible.name, &name.value));
        match (found.next(), found.next()) {
            (None, _) => Ok(None),
            // A struct's field; a table of that name that lacks the column is the likelier meaning.
            (Some(_), _) if !rest.is_empty() && self.relations.iter().any(|other| other.is_called(&parts[..1])) => {
                Ok(None)
            }
            (Some(only), None) => Ok(Some(with_fields(only.expr.clone(), rest))),
            (Some(_), Some(_)) => {
                let candidates = self.relations.iter().filter(|relation| relation.field(&name.value).is_some());
                let candidates: Vec<_> =
                    candidates.map(|relation| format!("{}.{}", relation.alias(), name.value)).collect();
                let use_one = candidates.join("' or '");
                Err(Error::Plan(format!("Ambiguous reference to column name \"{}\" (use: '{use_one}')", name.value)))
            }
        }
    }

    /// Refuses relations of the same name, which cannot be distinguished.
    pub(super) fn refuse_twice(&self) -> Result<()> {
        for (at, one) in self.relations.iter().enumerate() {
            if !one.path.is_empty() && self.relations[..at].iter().any(|other| other.path == one.path) {
                return Err(duplicate(one));
            }
        }
        Ok(())
    }

    /// The relation that `parts` name, in this FROM clause.
    pub(super) fn relation(&self, parts: &[Ident]) -> Option<&Relation> {
        self.relations.iter().find(|relation| relation.is_called(parts))
    }

    /// Whether the plan has a relation of this name, in this or an outer scope.
    pub(super) fn has_qualifier(&self, name: &str) -> bool {
        self.relations.iter().any(|relation| relation.qualifier == name)
            || self.parent.is_some_and(|parent| parent.has_qualifier(name))
    }
}

impl Relation {
    pub(super) fn alias(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    fn is_called(&self, parts: &[Ident]) -> bool {
        parts.len() <= self.path.len()
            && self.path.iter().rev().zip(parts.iter().rev()).all(|(name, part)| same(name, &part.value))
    }

    fn field(&self, name: &str) -> Option<&Field> {
        self.fields.as_ref()?.iter().find(|field| same(&field.name, name))
    }

    fn column(&self, field: &Field) -> Expr {
        Expr::CompoundIdentifier(vec![quoted(&self.qualifier), quoted(&field.column)])
    }

    /// Its columns, if known.
    pub(super) fn columns(&self) -> Vec<Visible> {
        let fields = self.fields.iter().flatten();
        fields.map(|field| Visible { name: field.name.clone(), expr: self.column(field) }).collect()
    }
}

fn duplicate(relation: &Relation) -> Error {
    let name = relation.alias();
    Error::Plan(format!(
        "Ambiguous reference to table \"{name}\" (duplicate alias \"{name}\", explicitly alias one of the tables using \"AS my_alias\")"
    ))
}

/// Whether two names are equal, ignoring case.
pub(super) fn same(one: &str, other: &str) -> bool {
    one == other || one.to_lowercase() == other.to_lowercase()
}

/// `name` as a quoted identifier.
pub(crate) fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

pub(super) fn operation(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// Several conditions as one. They are not nested one in the other: what is asked of a condition is asked of those in it, too.
pub(super) fn combined(mut conditions: Vec<Expr>, op: &BinaryOperator) -> Option<Expr> {
    while conditions.len() > 1 {
        let mut rest = std::mem::take(&mut conditions).into_iter();
        while let Some(left) = rest.next() {
            conditions.push(match rest.next() {
                Some(right) => nested(operation(left, op.clone(), right)),
                None => left,
            });
        }
    }
    conditions.pop()
}

pub(in crate::dialect) fn nested(expr: Expr) -> Expr {
    match expr {
        expr @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) | Expr::Nested(_)) => expr,
        expr => Expr::Nested(Box::new(expr)),
    }
}

/// `expr`, or the field of it that `names` select.
fn with_fields(expr: Expr, names: &[Ident]) -> Expr {
    match (expr, names) {
        (expr, []) => expr,
        (Expr::CompoundIdentifier(mut parts), names) => {
            parts.extend(names.iter().cloned());
            Expr::CompoundIdentifier(parts)
        }
        (root, names) => {
            let access_chain = names.iter().map(field_access).collect();
            Expr::CompoundFieldAccess { root: Box::new(nested(root)), access_chain }
        }
    }
}

/// Field access as calls: DataFusion supports no other form for outer columns.
fn with_calls(expr: Expr) -> Expr {
    // A relation and a column of it come first.
    let Expr::CompoundIdentifier(mut column) = expr else { return expr };
    let fields = column.split_off(column.len().min(2));
    let called = |around: Expr, field: Ident| {
        let name = Expr::Value(Value::SingleQuotedString(field.value).into());
        super::expr::function("struct_extract", vec![around, name])
    };
    fields.into_iter().fold(Expr::CompoundIdentifier(column), called)
}

/// The access to the struct field `name`.
pub(super) fn field_access(name: &Ident) -> AccessExpr {
    AccessExpr::Dot(Expr::Value(Value::SingleQuotedString(name.value.clone()).into()))
}

/// A name of the plan's own, which shows as `name`.
pub(super) fn marked(name: &str, number: usize) -> String {
    format!("{name}{MARK}{number}")
}

/// The displayed name of a result column.
pub(crate) fn shown(column: &str) -> &str {
    column.split(MARK).next().unwrap_or(column)
}

/// Makes names unique: later duplicates get numbers, as in DuckDB.
pub(crate) fn distinct_names<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    // Number of occurrences of each name, in lower case.
    let mut taken: HashMap<String, usize> = HashMap::new();
    let unique = |name: &str| {
        let own = name.to_lowercase();
        let mut number = taken.get(&own).copied().unwrap_or(0);
        let mut candidate = name.to_string();
        if number > 0 {
            candidate = format!("{name}_{number}");
            while taken.contains_key(&candidate.to_lowercase()) {
                number += 1;
                candidate = format!("{name}_{number}");
            }
            taken.insert(candidate.to_lowercase(), 1);
        }
        taken.insert(own, number + 1);
        candidate
    };
    names.map(unique).collect()
}
