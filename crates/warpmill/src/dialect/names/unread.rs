//! Parts of statements that DataFusion ignores: they are refused, since a result without them would be wrong.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, Query, Select, TableFactor,
    WildcardAdditionalOptions,
};

/// The part of a query, outside of its body, that would be ignored.
pub(super) fn unread_of_query(query: &Query) -> Option<String> {
    let found = [
        (!query.locks.is_empty(), "FOR UPDATE and FOR SHARE"),
        (query.for_clause.is_some(), "FOR XML, FOR JSON and FOR BROWSE"),
        (query.settings.is_some(), "SETTINGS"),
        (query.format_clause.is_some(), "FORMAT"),
        (query.order_by.as_ref().is_some_and(|order| order.interpolate.is_some()), "INTERPOLATE"),
    ];
    first(&found)
}

/// The part of a SELECT that would be ignored.
pub(super) fn unread_of_select(select: &Select) -> Option<String> {
    let modified = match &select.group_by {
        GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers) => !modifiers.is_empty(),
    };
    let found = [
        (select.prewhere.is_some(), "PREWHERE"),
        (!select.connect_by.is_empty(), "CONNECT BY"),
        (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
        (select.value_table_mode.is_some(), "SELECT AS STRUCT and AS VALUE"),
        (select.exclude.is_some(), "EXCLUDE after a SELECT list"),
        (select.select_modifiers.is_some(), "modifiers of SELECT"),
        (modified, "GROUP BY ... WITH ROLLUP, CUBE and TOTALS"),
    ];
    first(&found)
}

/// The part of a relation that would be ignored.
pub(super) fn unread_of_relation(relation: &TableFactor) -> Option<String> {
    let found = match relation {
        TableFactor::Table { version, with_ordinality, partitions, json_path, sample, index_hints, .. } => vec![
            (sample.is_some(), "TABLESAMPLE"),
            (version.is_some(), "a table's version (AS OF, FOR SYSTEM_TIME)"),
            (*with_ordinality, "WITH ORDINALITY"),
            (!partitions.is_empty(), "PARTITION of a table"),
            (json_path.is_some(), "paths after a table's name"),
            (!index_hints.is_empty(), "index hints"),
        ],
        TableFactor::Derived { sample, .. } => vec![(sample.is_some(), "TABLESAMPLE")],
        TableFactor::Function { with_ordinality, .. } => vec![(*with_ordinality, "WITH ORDINALITY")],
        _ => vec![],
    };
    first(&found)
}

/// The option of `*` that would be ignored.
pub(super) fn unread_of_wildcard(options: &WildcardAdditionalOptions) -> Option<String> {
    first(&[(options.opt_ilike.is_some(), "* ILIKE"), (options.opt_alias.is_some(), "an alias of *")])
}

/// The part of an expression that would be ignored.
pub(super) fn unread_of_expr(expr: &Expr) -> Option<String> {
    let found = match expr {
        Expr::Like { any: true, .. } | Expr::ILike { any: true, .. } => vec![(true, "LIKE ANY")],
        Expr::SimilarTo { escape_char: Some(_), .. } => vec![(true, "SIMILAR TO ... ESCAPE")],
        Expr::Cast { format: Some(_), .. } => vec![(true, "CAST ... FORMAT")],
        Expr::Collate { .. } => vec![(true, "COLLATE outside of comparisons and ORDER BY")],
        Expr::Function(function) => {
            let clauses = match &function.args {
                FunctionArguments::List(list) => list.clauses.as_slice(),
                _ => &[],
            };
            let has = |clause: fn(&FunctionArgumentClause) -> bool| clauses.iter().any(clause);
            vec![
                (has(|clause| matches!(clause, FunctionArgumentClause::Limit(_))), "LIMIT of a function's arguments"),
                (has(|clause| matches!(clause, FunctionArgumentClause::Having(_))), "HAVING of a function's arguments"),
                (has(|clause| matches!(clause, FunctionArgumentClause::OnOverflow(_))), "ON OVERFLOW"),
                (has(|clause| matches!(clause, FunctionArgumentClause::Separator(_))), "SEPARATOR"),
                (!matches!(function.parameters, FunctionArguments::None), "parameters of a function"),
            ]
        }
        _ => vec![],
    };
    first(&found)
}

fn first(found: &[(bool, &str)]) -> Option<String> {
    found.iter().find(|(present, _)| *present).map(|(_, what)| format!("{what}: not supported"))
}

/// DuckDB's words after a call, which the parser takes for a name.
pub(super) fn unread_of_alias(expr: &Expr, alias: &Ident) -> Option<String> {
    let is_call = matches!(expr, Expr::Function(_)) && alias.quote_style.is_none();
    (is_call && alias.value.eq_ignore_ascii_case("export_state")).then(|| "EXPORT_STATE".into())
}
