//! Queries: WITH, SELECT and its clauses, ORDER BY.

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Fetch, Function, GroupByExpr, LimitClause, NamedWindowDefinition, NamedWindowExpr, ObjectNamePart,
    OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, Select, SelectFlavor, SelectItem, SetExpr,
    TableAliasColumnDef, Value, VisitMut, VisitorMut, WildcardAdditionalOptions, WindowSpec, WindowType, With,
};
use std::ops::ControlFlow;

use super::expr::Preference;
use super::items::Items;
use super::scope::{Field, Fields, Scope, distinct_names, quoted, same};
use super::unread::{unread_of_query, unread_of_select};
use super::windows::take_excluded;
use super::{Binder, Cte, Names, collation, distinct, rows, truths};
use crate::visit::{visit_expressions_mut, visit_mut, visit_relations};
use crate::{Error, Result};

impl Binder<'_> {
    /// Binds a query within `outer`. Returns its columns.
    pub(super) fn query(&mut self, query: &mut Query, outer: Option<&Scope<'_>>, names: Names) -> Result<Fields> {
        if let Some(what) = unread_of_query(query) {
            return Err(Error::NotImplemented(what));
        }
        limit_fetched(query);
        let around = self.ctes.len();
        if let Some(with) = &mut query.with {
            self.with(with, outer)?;
        }
        let fields = match &mut *query.body {
            SetExpr::Select(select) => self.select(select, query.order_by.as_mut(), outer, names)?,
            body => {
                let fields = self.set_expr(body, outer, names)?;
                if let Some(order) = &mut query.order_by {
                    order_by_output(order, fields.as_deref())?;
                }
                fields
            }
        };
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause {
            for count in limit.iter_mut().chain(offset.as_mut().map(|offset| &mut offset.value)) {
                self.expr(count, &Scope::inside(None))?;
            }
        }
        self.ctes.truncate(around);
        Ok(fields)
    }

    pub(super) fn with(&mut self, with: &mut With, outer: Option<&Scope<'_>>) -> Result<()> {
        let (recursive, around) = (with.recursive, self.ctes.len());
        for cte in &mut with.cte_tables {
            let name = cte.alias.name.value.clone();
            let given = distinct_names(cte.alias.columns.iter().map(|column| column.name.value.as_str()));
            let called = |fields: Fields| -> Fields {
                let mut fields = fields?;
                for (field, name) in fields.iter_mut().zip(&given) {
                    (field.name, field.column) = (name.clone(), name.clone());
                }
                Some(fields)
            };
            let fields = match self.recursion(cte, recursive, outer)? {
                Some(fields) => fields,
                None => called(self.query(&mut cte.query, outer, Names::Own)?),
            };
            let columns = &mut cte.alias.columns;
            if let (false, Some(fields)) = (columns.is_empty(), &fields) {
                columns.extend(
                    fields[columns.len().min(fields.len())..]
                        .iter()
                        .map(|field| TableAliasColumnDef { name: quoted(&field.column), data_type: None }),
                );
            }
            for (column, name) in columns.iter_mut().zip(&given) {
                column.name = quoted(name);
            }
            // A plan has each name once: within one that is around it, another means something else.
            let plan_name = match self.ctes[..around].iter().any(|outer| same(&outer.name, &name)) {
                true => format!("{name} {around}"),
                false => name.clone(),
            };
            cte.alias.name = quoted(&plan_name);
            self.ctes.push(Cte { name, plan_name, fields, reading: None });
        }
        Ok(())
    }

    /// Binds a SELECT and the ORDER BY of its query.
    pub(super) fn select(
        &mut self,
        select: &mut Select,
        mut order: Option<&mut OrderBy>,
        outer: Option<&Scope<'_>>,
        names: Names,
    ) -> Result<Fields> {
        if let Some(what) = unread_of_select(select) {
            return Err(Error::NotImplemented(what));
        }
        if select.qualify.is_some() && !select.named_window.is_empty() && !select.window_before_qualify {
            let what = "syntax error at or near \"WINDOW\": its clause comes before that of QUALIFY";
            return Err(Error::Parse(what.into()));
        }
        let mut scope = Scope::inside(outer);
        self.from(&mut select.from, &mut scope)?;
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
            select.flavor = SelectFlavor::Standard;
        }
        self.one_group(select)?;
        let windows = std::mem::take(&mut select.named_window);
        define_windows(&mut select.projection, &windows);
        define_windows(&mut select.qualify, &windows);

        let items = self.items(std::mem::take(&mut select.projection), &mut scope)?;
        for condition in select.selection.iter_mut().chain(&mut select.having).chain(&mut select.qualify) {
            rows::in_condition(condition)?;
        }
        if let Some(condition) = &mut select.selection {
            self.columns_condition(condition, &scope)?;
            self.expr(condition, &scope)?;
            truths::condition(condition);
        }
        let mut grouped = Vec::new();
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            for key in keys {
                self.group_key(key, &items, &scope)?;
                grouped.extend(items.at_position(key).or(Some(&*key)).cloned());
            }
        }
        if let Some(having) = &mut select.having {
            self.expr_of(having, &scope, Preference::AliasUnlessGrouped(&grouped))?;
            truths::condition(having);
        }
        if let Some(condition) = &mut select.qualify {
            self.expr(condition, &scope)?;
            truths::condition(condition);
        }
        if let Some(Distinct::On(keys)) = &mut select.distinct {
            for key in keys {
                self.distinct_key(key, &items, &scope)?;
            }
        }
        if let Some(order) = order.as_deref_mut() {
            define_windows(order, &windows);
            if scope.find(&[quoted("all")])?.is_none() {
                read_all(order);
            }
            if let (OrderByKind::All(options), Some(all)) = (&order.kind, items.len()) {
                let options = *options;
                order.kind = OrderByKind::Expressions((1..=all).map(|at| sort_key(at, options)).collect());
            }
            if let OrderByKind::Expressions(keys) = &mut order.kind {
                for key in keys {
                    collation::sorted(&mut key.expr)?;
                    self.sort_expr(&mut key.expr, &items, &scope)?;
                }
            }
        }
        distinct::choose(select, order.as_deref(), &items)?;
        let (projection, fields) = items.named(&scope, names)?;
        select.projection = projection;
        self.tell_apart(select, order, &grouped);
        Ok(fields)
    }

    /// A key of ORDER BY: an item of the SELECT list by its name, otherwise an expression.
    fn sort_expr(&mut self, key: &mut Expr, items: &Items, scope: &Scope<'_>) -> Result<()> {
        if let Expr::Identifier(name) = &*key
            && let Some(position) = items.position(&name.value)
        {
            *key = number(position);
            return Ok(());
        }
        if let Expr::Value(value) = &*key {
            return check_sort_literal(&value.value);
        }
        self.expr(key, scope)?;
        if let Some(position) = items.position_of(key) {
            *key = number(position);
        }
        Ok(())
    }
}

/// Whether a relation of `body` is called `name`.
pub(super) fn reads(body: &SetExpr, name: &str) -> bool {
    let found = visit_relations(body, |relation| match relation.0.last().and_then(ObjectNamePart::as_ident) {
        Some(last) if relation.0.len() == 1 && same(&last.value, name) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Refuses a literal that sorts nothing: only a whole number names a column.
pub(super) fn check_sort_literal(value: &Value) -> Result<()> {
    match value {
        Value::Number(number, _) if number.parse::<u64>().is_ok() => Ok(()),
        Value::Placeholder(_) => Ok(()),
        value => Err(Error::Plan(format!("ORDER BY {value}: a literal that is no number of a column has no effect"))),
    }
}

/// Replaces `FETCH FIRST n ROWS ONLY` by LIMIT.
fn limit_fetched(query: &mut Query) {
    let Some(Fetch { with_ties: false, percent: false, quantity }) = &query.fetch else { return };
    let count = quantity.clone().unwrap_or_else(|| number(1));
    if query.limit_clause.is_none() {
        query.limit_clause = Some(LimitClause::LimitOffset { limit: None, offset: None, limit_by: vec![] });
    }
    if let Some(LimitClause::LimitOffset { limit, .. }) = &mut query.limit_clause
        && limit.is_none()
    {
        *limit = Some(count);
        query.fetch = None;
    }
}

/// Binds an ORDER BY whose scope is the columns of a result.
fn order_by_output(order: &mut OrderBy, fields: Option<&[Field]>) -> Result<()> {
    let Some(fields) = fields else { return Ok(()) };
    if !fields.iter().any(|field| same(&field.name, "all")) {
        read_all(order);
    }
    if let OrderByKind::All(options) = &order.kind {
        let options = *options;
        order.kind = OrderByKind::Expressions((1..=fields.len()).map(|at| sort_key(at, options)).collect());
    }
    let position = |name: &str| fields.iter().position(|field| same(&field.name, name)).map(|at| number(at + 1));
    if let OrderByKind::Expressions(keys) = &mut order.kind {
        for key in keys {
            let found = match &key.expr {
                Expr::Value(value) => {
                    check_sort_literal(&value.value)?;
                    continue;
                }
                Expr::Identifier(name) => position(&name.value),
                Expr::CompoundIdentifier(parts) => parts.last().and_then(|name| position(&name.value)),
                _ => None,
            };
            match found {
                Some(found) => key.expr = found,
                None => rename_outputs(&mut key.expr, fields),
            }
        }
    }
    Ok(())
}

/// Replaces names by a result's columns in an expression over it.
fn rename_outputs(expr: &mut Expr, fields: &[Field]) {
    let _: ControlFlow<()> = visit_expressions_mut(expr, |expr| {
        if let Expr::Identifier(name) = expr
            && let Some(field) = fields.iter().find(|field| same(&field.name, &name.value))
        {
            *name = quoted(&field.column);
        }
        ControlFlow::Continue(())
    });
}

/// Reads `ORDER BY ALL`, which the parser takes for a column.
fn read_all(order: &mut OrderBy) {
    if let OrderByKind::Expressions(keys) = &order.kind
        && let [OrderByExpr { expr: Expr::Identifier(name), options, with_fill: None }] = keys.as_slice()
        && name.quote_style.is_none()
        && same(&name.value, "all")
    {
        order.kind = OrderByKind::All(*options);
    }
}

pub(super) fn number(position: usize) -> Expr {
    Expr::Value(Value::Number(position.to_string(), false).into())
}

fn sort_key(position: usize, options: OrderByOptions) -> OrderByExpr {
    OrderByExpr { expr: number(position), options, with_fill: None }
}

/// Puts the definitions of named windows where they are named.
fn define_windows<T: VisitMut>(part: &mut T, windows: &[NamedWindowDefinition]) {
    if !windows.is_empty() {
        let _: ControlFlow<()> = visit_mut(part, &mut Windows(windows));
    }
}

struct Windows<'w>(&'w [NamedWindowDefinition]);

impl Windows<'_> {
    fn definition(&self, name: &str) -> Option<WindowSpec> {
        let found = self.0.iter().find(|definition| same(&definition.0.value, name))?;
        match &found.1 {
            NamedWindowExpr::WindowSpec(spec) => Some(self.complete(spec.clone())),
            NamedWindowExpr::NamedWindow(other) if !same(&other.value, name) => self.definition(&other.value),
            NamedWindowExpr::NamedWindow(_) => None,
        }
    }

    /// `spec` completed by the window that it names.
    fn complete(&self, mut spec: WindowSpec) -> WindowSpec {
        let excluded = take_excluded(&mut spec);
        if let Some(base) = spec.window_name.as_ref().and_then(|name| self.definition(&name.value)) {
            spec.window_name = None;
            if spec.partition_by.is_empty() {
                spec.partition_by = base.partition_by;
            }
            if spec.order_by.is_empty() {
                spec.order_by = base.order_by;
            }
            spec.window_frame = spec.window_frame.or(base.window_frame);
        }
        spec.partition_by.extend(excluded);
        spec
    }
}

impl VisitorMut for Windows<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(Function { over: Some(over), .. }) = expr {
            let spec = match &*over {
                // An undefined name may be a window of an inner query; DataFusion refuses names without a definition.
                WindowType::NamedWindow(name) => self.definition(&name.value),
                WindowType::WindowSpec(spec) => Some(self.complete(spec.clone())),
            };
            if let Some(spec) = spec {
                *over = WindowType::WindowSpec(spec);
            }
        }
        ControlFlow::Continue(())
    }
}
