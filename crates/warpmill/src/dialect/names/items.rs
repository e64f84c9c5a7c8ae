//! The items of a SELECT list.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, IdentWithAlias, ObjectName, ObjectNamePart, RenameSelectItem, SelectItem,
    SelectItemQualifiedWildcardKind, Value, WildcardAdditionalOptions,
};

use super::label::label;
use super::parts::Parts;
use super::scope::{Alias, Field, Fields, Scope, Visible, distinct_names, marked, quoted, same};
use super::sets::each_once;
use super::unread::{unread_of_alias, unread_of_wildcard};
use super::{Binder, Names};
use crate::catalog::ROW;
use crate::planning::limits::check_columns;
use crate::{Error, Result};

/// A SELECT list without wildcards.
#[derive(Default)]
pub(super) struct Items {
    list: Vec<Item>,
    /// Whether a wildcard remains whose columns only DataFusion knows.
    open: bool,
}

enum Item {
    /// A column of the result.
    Column { name: String, expr: Box<Expr>, aliased: bool },
    /// A wildcard that DataFusion expands.
    Wildcard(Box<SelectItem>),
}

impl Binder<'_> {
    /// Binds a SELECT list, and adds its aliases to `scope`.
    pub(super) fn items(&mut self, projection: Vec<SelectItem>, scope: &mut Scope<'_>) -> Result<Items> {
        let mut items = Items::default();
        let mut expanded = vec![];
        for item in projection {
            expanded.extend(self.columns(item, scope)?);
        }
        for (item, of_column) in expanded {
            match item {
                SelectItem::UnnamedExpr(mut expr) => {
                    let mut name = of_column.unwrap_or_else(|| label(&expr, self.sql));
                    self.expr(&mut expr, scope)?;
                    if let Some(shown) = scope.visible.iter().find(|column| column.expr == expr) {
                        name = shown.name.clone();
                    } else if let Expr::CompoundIdentifier(parts) = &expr
                        && let [.., column] = parts.as_slice()
                    {
                        name = if column.value == ROW { "rowid" } else { super::shown(&column.value) }.to_string();
                    }
                    items.list.push(Item::Column { name, expr: Box::new(expr), aliased: false });
                }
                SelectItem::ExprWithAlias { mut expr, alias } => {
                    if let Some(what) = unread_of_alias(&expr, &alias) {
                        return Err(Error::NotImplemented(what));
                    }
                    self.expr(&mut expr, scope)?;
                    let (name, position) = (alias.value, items.list.len() + 1);
                    scope.aliases.push(Alias { name: name.clone(), expr: expr.clone(), position });
                    items.list.push(Item::Column { name, expr: Box::new(expr), aliased: true });
                }
                SelectItem::Wildcard(mut options) => {
                    scope.refuse_twice()?;
                    let columns = scope.visible.clone();
                    let expanded = (!scope.is_open()).then_some(columns);
                    let expanded = self.wildcard(expanded, &mut options, scope)?;
                    items.extend(expanded, || SelectItem::Wildcard(options));
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), mut options) => {
                    let parts: Vec<_> = name.0.iter().filter_map(ObjectNamePart::as_ident).cloned().collect();
                    let relation = scope.relation(&parts);
                    let columns =
                        relation.filter(|relation| relation.fields.is_some()).map(|relation| relation.columns());
                    let expanded = self.wildcard(columns, &mut options, scope)?;
                    let kind = SelectItemQualifiedWildcardKind::ObjectName(name);
                    items.extend(expanded, || SelectItem::QualifiedWildcard(kind, options));
                }
                other => items.extend(None, || other),
            }
        }
        check_columns(items.list.len())?;
        Ok(items)
    }

    /// The columns of `*`, if known.
    pub(super) fn wildcard(
        &mut self,
        columns: Option<Vec<Visible>>,
        options: &mut WildcardAdditionalOptions,
        scope: &Scope<'_>,
    ) -> Result<Option<Vec<Visible>>> {
        if let Some(what) = unread_of_wildcard(options) {
            return Err(Error::NotImplemented(what));
        }
        if let Some(replace) = &mut options.opt_replace {
            for item in &mut replace.items {
                self.expr(&mut item.expr, scope)?;
            }
        }
        let Some(mut columns) = columns else {
            return match options.opt_rename {
                Some(_) => Err(Error::NotImplemented("* RENAME of a table function's columns: not supported".into())),
                None => Ok(None),
            };
        };
        let excluded = match (&options.opt_exclude, &options.opt_except) {
            (Some(ExcludeSelectItem::Single(name)), _) => vec![last(name)],
            (Some(ExcludeSelectItem::Multiple(names)), _) => names.iter().map(last).collect(),
            (None, Some(except)) => {
                let names = std::iter::once(&except.first_element).chain(&except.additional_elements);
                names.map(|name| name.value.as_str()).collect()
            }
            (None, None) => vec![],
        };
        let find = |columns: &[Visible], name: &str, list: &str| {
            let found = columns.iter().position(|column| same(&column.name, name));
            found.ok_or_else(|| Error::Plan(format!("Column \"{name}\" in {list} list not found in FROM clause")))
        };
        for name in excluded {
            find(&columns, name, "EXCLUDE")?;
            columns.retain(|column| !same(&column.name, name));
        }
        for item in options.opt_replace.iter().flat_map(|replace| &replace.items) {
            let at = find(&columns, &item.column_name.value, "REPLACE")?;
            columns[at] = Visible { name: item.column_name.value.clone(), expr: item.expr.clone() };
        }
        let renamed: &[IdentWithAlias] = match &options.opt_rename {
            Some(RenameSelectItem::Single(one)) => std::slice::from_ref(one),
            Some(RenameSelectItem::Multiple(many)) => many,
            None => &[],
        };
        for item in renamed {
            let at = find(&columns, &item.ident.value, "RENAME")?;
            columns[at].name = item.alias.value.clone();
        }
        Ok(Some(columns))
    }
}

impl Items {
    fn extend(&mut self, columns: Option<Vec<Visible>>, item: impl FnOnce() -> SelectItem) {
        match columns {
            Some(columns) => {
                let item = |Visible { name, expr }| Item::Column { name, expr: Box::new(expr), aliased: false };
                self.list.extend(columns.into_iter().map(item));
            }
            None => {
                self.open = true;
                self.list.push(Item::Wildcard(Box::new(item())));
            }
        }
    }

    /// The number of columns, if known.
    pub(super) fn len(&self) -> Option<usize> {
        (!self.open).then_some(self.list.len())
    }

    /// The position, from one, of the first column with the alias `name`, or otherwise with that name.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        let called = |item: &Item, given: bool| match item {
            Item::Column { name: other, aliased, .. } => same(other, name) && (*aliased || !given),
            Item::Wildcard(_) => false,
        };
        self.place(|item| called(item, true)).or_else(|| self.place(|item| called(item, false)))
    }

    /// The position, from one, of the first column that equals `expr`.
    pub(super) fn position_of(&self, expr: &Expr) -> Option<usize> {
        self.place(|item| matches!(item, Item::Column { expr: other, .. } if **other == *expr))
    }

    fn place(&self, is_it: impl Fn(&Item) -> bool) -> Option<usize> {
        let place = self.list.iter().position(is_it)?;
        (!self.open).then_some(place + 1)
    }

    /// The expressions of all columns, if known.
    pub(super) fn all(&self) -> Option<Vec<Expr>> {
        let expr = |item: &Item| match item {
            Item::Column { expr, .. } => Some((**expr).clone()),
            Item::Wildcard(_) => None,
        };
        self.list.iter().map(expr).collect()
    }

    /// The column for a number in GROUP BY.
    pub(super) fn at_position(&self, key: &Expr) -> Option<&Expr> {
        let Expr::Value(value) = key else { return None };
        let Value::Number(number, _) = &value.value else { return None };
        match self.list.get(number.to_string().parse::<usize>().ok()?.checked_sub(1)?)? {
            Item::Column { expr, .. } if !self.open => Some(expr),
            _ => None,
        }
    }

    /// The items with unique names that differ from the FROM clause's columns, and the resulting columns.
    ///
    /// # Errors
    /// Duplicate names where they are not permitted.
    pub(super) fn named(self, scope: &Scope<'_>, names: Names) -> Result<(Vec<SelectItem>, Fields)> {
        if self.open {
            return Ok((self.list.into_iter().map(Item::into_written).collect(), None));
        }
        let columns: Vec<_> = self.list.into_iter().filter_map(Item::column).collect();
        if names == Names::Refused {
            each_once(columns.iter().map(|(name, _)| name.as_str()))?;
        }
        let shown = distinct_names(columns.iter().map(|(name, _)| name.as_str()));
        let in_from: HashSet<&str> = scope
            .relations
            .iter()
            .flat_map(|relation| relation.fields.iter().flatten())
            .map(|field| field.column.as_str())
            .collect();
        let mut taken = HashSet::new();
        let mut fields = Vec::new();
        let mut projection = Vec::new();
        for (at, ((name, expr), shown)) in columns.into_iter().zip(shown).enumerate() {
            let own = match &expr {
                Expr::CompoundIdentifier(parts) if parts.len() == 2 => Some(parts[1].value.clone()),
                Expr::Identifier(name) if name.quote_style.is_none() => Some(name.value.to_lowercase()),
                Expr::Identifier(name) => Some(name.value.clone()),
                _ => None,
            };
            let column = match names {
                Names::Kept | Names::Refused => shown.clone(),
                Names::Own if taken.contains(&name) => marked(&name, at),
                Names::Own if own.as_ref() != Some(&name) && in_from.contains(name.as_str()) => marked(&name, at),
                Names::Own => name,
            };
            let parts = Parts::of(&expr, scope);
            projection.push(match own {
                Some(own) if own == column => SelectItem::UnnamedExpr(expr),
                _ => SelectItem::ExprWithAlias { expr, alias: quoted(&column) },
            });
            taken.insert(column.clone());
            fields.push(Field { name: shown, column, parts });
        }
        Ok((projection, Some(fields)))
    }
}

impl Item {
    fn into_written(self) -> SelectItem {
        match self {
            Item::Column { name, expr, aliased: true } => {
                SelectItem::ExprWithAlias { expr: *expr, alias: datafusion::sql::sqlparser::ast::Ident::new(name) }
            }
            Item::Column { expr, .. } => SelectItem::UnnamedExpr(*expr),
            Item::Wildcard(item) => *item,
        }
    }

    fn column(self) -> Option<(String, Expr)> {
        match self {
            Item::Column { name, expr, .. } => Some((name, *expr)),
            Item::Wildcard(_) => None,
        }
    }
}

fn last(name: &ObjectName) -> &str {
    name.0.last().and_then(ObjectNamePart::as_ident).map_or("", |name| name.value.as_str())
}
