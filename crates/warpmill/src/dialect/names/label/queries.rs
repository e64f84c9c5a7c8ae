//! Queries within expressions.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Cte, CteAsMaterialized, Distinct, Expr, GroupByExpr, Join, JoinConstraint, JoinOperator,
    LimitClause, ObjectName, OrderByKind, Query, Select, SelectItem, SetExpr, SetOperator, SetQuantifier, TableAlias,
    TableFactor, TableWithJoins, Values,
};

use super::{Writer, elements, negation, object};
use crate::dialect::types::optionally_quoted;

impl Writer<'_> {
    /// Labels of EXISTS, IN, ANY, ALL, and scalar queries.
    pub(super) fn subquery(self, expr: &Expr) -> String {
        match expr {
            Expr::Exists { subquery, negated } => negation(*negated, format!("EXISTS({})", self.query(subquery))),
            Expr::Subquery(query) => format!("({})", self.query(query)),
            Expr::InSubquery { expr, subquery, negated } => {
                negation(*negated, format!("({} = ANY({}))", self.text(expr), self.query(subquery)))
            }
            Expr::AnyOp { left, compare_op, right, .. } => match elements(right) {
                Some(list) => self.contains(&list, left, false),
                None => format!("({} {} ANY({}))", self.text(left), comparison(compare_op), self.rows(right)),
            },
            Expr::AllOp { left, compare_op, right } => match elements(right) {
                Some(list) => self.contains(&list, left, true),
                None => format!("(NOT ({} {} ANY({})))", self.text(left), opposite(compare_op), self.rows(right)),
            },
            expr => expr.to_string(),
        }
    }

    /// The query of ANY and ALL, or the elements of a list as one.
    fn rows(self, right: &Expr) -> String {
        match right {
            Expr::Nested(inner) => self.rows(inner),
            Expr::Subquery(query) => self.query(query),
            list => format!("SELECT unnest({})", self.text(list)),
        }
    }

    pub(super) fn query(self, query: &Query) -> String {
        let mut text = String::new();
        if let Some(with) = &query.with {
            let ctes: Vec<_> = with.cte_tables.iter().map(|cte| self.cte(cte)).collect();
            let recursive = if with.recursive { "RECURSIVE " } else { "" };
            text.push_str(&format!("WITH {recursive}{} ", ctes.join(", ")));
        }
        text.push_str(&self.body(&query.body));
        match query.order_by.as_ref().map(|order| &order.kind) {
            Some(OrderByKind::Expressions(keys)) => text.push_str(&format!(" ORDER BY {}", self.sort_keys(keys))),
            Some(OrderByKind::All(_)) => text.push_str(" ORDER BY COLUMNS(*)"),
            None => {}
        }
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause {
            let limit = limit.as_ref().map_or_else(String::new, |limit| format!(" LIMIT {}", self.text(limit)));
            let offset = offset.as_ref().map_or_else(String::new, |of| format!(" OFFSET {}", self.text(&of.value)));
            text.push_str(&format!("{limit}{offset}"));
        }
        text
    }

    fn cte(self, cte: &Cte) -> String {
        let columns: Vec<_> = cte.alias.columns.iter().map(|column| optionally_quoted(&column.name.value)).collect();
        let columns = if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
        let kept = match cte.materialized {
            Some(CteAsMaterialized::Materialized) => "MATERIALIZED ",
            Some(CteAsMaterialized::NotMaterialized) => "NOT MATERIALIZED ",
            None => "",
        };
        format!("{}{columns} AS {kept}({})", optionally_quoted(&cte.alias.name.value), self.query(&cte.query))
    }

    fn body(self, body: &SetExpr) -> String {
        match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::Query(query) => self.query(query),
            SetExpr::Values(values) => self.values(values),
            SetExpr::SetOperation { op, set_quantifier, left, right } => {
                let name = match set_quantifier {
                    SetQuantifier::None | SetQuantifier::Distinct => op.to_string(),
                    quantifier => format!("{op} {quantifier}"),
                };
                let mut operands = vec![self.body(right)];
                let mut first = &**left;
                // Unions of one kind are combined.
                while let SetExpr::SetOperation { op: SetOperator::Union, set_quantifier: inner, left, right } = first
                    && (op, inner) == (&SetOperator::Union, set_quantifier)
                {
                    operands.push(self.body(right));
                    first = left;
                }
                let first = format!("({})", self.body(first));
                let join = |text: String, (at, operand): (usize, String)| {
                    let space = if at == 0 { " " } else { "" };
                    format!("{text}{space}{name} ({operand})")
                };
                operands.into_iter().rev().enumerate().fold(first, join)
            }
            body => body.to_string(),
        }
    }

    fn values(self, values: &Values) -> String {
        let rows = values.rows.iter().map(|row| format!("({})", self.texts(&row.content)));
        format!("SELECT * FROM (VALUES {}) AS valueslist", rows.collect::<Vec<_>>().join(", "))
    }

    fn select(self, select: &Select) -> String {
        let mut text = String::from("SELECT ");
        match &select.distinct {
            Some(Distinct::Distinct) => text.push_str("DISTINCT "),
            Some(Distinct::On(keys)) => text.push_str(&format!("DISTINCT ON ({}) ", self.texts(keys))),
            Some(Distinct::All) | None => {}
        }
        match select.projection.is_empty() {
            true => text.push('*'),
            false => {
                let items: Vec<_> = select.projection.iter().map(|item| self.item(item)).collect();
                text.push_str(&items.join(", "));
            }
        }
        if !select.from.is_empty() {
            let relations: Vec<_> = select.from.iter().map(|relation| self.joined(relation)).collect();
            text.push_str(&format!(" FROM {}", relations.join(" , ")));
        }
        if let Some(condition) = &select.selection {
            text.push_str(&format!(" WHERE {}", self.text(condition)));
        }
        match &select.group_by {
            GroupByExpr::All(_) => text.push_str(" GROUP BY ALL"),
            GroupByExpr::Expressions(keys, _) if keys.is_empty() => {}
            GroupByExpr::Expressions(keys, _) => text.push_str(&format!(" GROUP BY {}", self.texts(keys))),
        }
        if let Some(condition) = &select.having {
            text.push_str(&format!(" HAVING {}", self.text(condition)));
        }
        if let Some(condition) = &select.qualify {
            text.push_str(&format!(" QUALIFY {}", self.text(condition)));
        }
        text
    }

    fn item(self, item: &SelectItem) -> String {
        match item {
            SelectItem::UnnamedExpr(expr) => self.text(expr),
            SelectItem::ExprWithAlias { expr, alias } => {
                format!("{} AS {}", self.text(expr), optionally_quoted(&alias.value))
            }
            item => item.to_string(),
        }
    }

    fn joined(self, relation: &TableWithJoins) -> String {
        let first = self.relation(&relation.relation);
        relation.joins.iter().fold(first, |left, join| self.join(&left, join))
    }

    fn join(self, left: &str, join: &Join) -> String {
        use JoinOperator::{
            Anti, AsOf, CrossJoin, FullOuter, Inner, Join, Left, LeftAnti, LeftOuter, LeftSemi, Right, RightOuter, Semi,
        };
        let right = self.relation(&join.relation);
        let (kind, constraint) = match &join.join_operator {
            Join(constraint) | Inner(constraint) => ("INNER", constraint),
            Left(constraint) | LeftOuter(constraint) => ("LEFT", constraint),
            Right(constraint) | RightOuter(constraint) => ("RIGHT", constraint),
            FullOuter(constraint) => ("FULL", constraint),
            CrossJoin(constraint) => ("CROSS", constraint),
            Semi(constraint) | LeftSemi(constraint) => ("SEMI", constraint),
            Anti(constraint) | LeftAnti(constraint) => ("ANTI", constraint),
            AsOf { constraint, .. } => ("ASOF INNER", constraint),
            _ => return format!("({left} {join})"),
        };
        match constraint {
            JoinConstraint::On(condition) => format!("({left} {kind} JOIN {right} ON ({}))", self.text(condition)),
            JoinConstraint::Using(columns) => {
                let columns: Vec<_> = columns.iter().map(object).collect();
                format!("({left} {kind} JOIN {right} USING ({}))", columns.join(", "))
            }
            JoinConstraint::Natural => format!("({left} NATURAL {kind} JOIN {right})"),
            JoinConstraint::None => format!("({left} {kind} JOIN {right})"),
        }
    }

    fn relation(self, relation: &TableFactor) -> String {
        match relation {
            TableFactor::Table { name, alias, args: None, .. } => with_alias(object(name), alias.as_ref()),
            TableFactor::Table { name, alias, args: Some(args), .. } => {
                let args: Vec<_> = args.args.iter().map(|arg| self.argument(arg)).collect();
                with_alias(self.table_call(name, &args), alias.as_ref())
            }
            TableFactor::Function { name, args, alias, .. } => {
                let args: Vec<_> = args.iter().map(|arg| self.argument(arg)).collect();
                with_alias(self.table_call(name, &args), alias.as_ref())
            }
            TableFactor::Derived { subquery, alias, .. } => {
                with_alias(format!("({})", self.query(subquery)), alias.as_ref())
            }
            TableFactor::UNNEST { array_exprs, alias, .. } => {
                with_alias(format!("unnest({})", self.texts(array_exprs)), alias.as_ref())
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => self.joined(table_with_joins),
            relation => relation.to_string(),
        }
    }

    fn table_call(self, name: &ObjectName, args: &[String]) -> String {
        format!("{}({})", object(name).to_lowercase(), args.join(", "))
    }
}

fn with_alias(relation: String, alias: Option<&TableAlias>) -> String {
    let Some(alias) = alias else { return relation };
    let columns: Vec<_> = alias.columns.iter().map(|column| optionally_quoted(&column.name.value)).collect();
    let columns = if columns.is_empty() { String::new() } else { format!("({})", columns.join(", ")) };
    format!("{relation} AS {}{columns}", optionally_quoted(&alias.name.value))
}

fn comparison(op: &BinaryOperator) -> String {
    match op {
        BinaryOperator::NotEq => "!=".to_string(),
        op => op.to_string(),
    }
}

/// The comparison that is true where `op` is false.
fn opposite(op: &BinaryOperator) -> String {
    match op {
        BinaryOperator::Eq => "!=".to_string(),
        BinaryOperator::NotEq => "=".to_string(),
        BinaryOperator::Lt => ">=".to_string(),
        BinaryOperator::LtEq => ">".to_string(),
        BinaryOperator::Gt => "<=".to_string(),
        BinaryOperator::GtEq => "<".to_string(),
        op => op.to_string(),
    }
}
