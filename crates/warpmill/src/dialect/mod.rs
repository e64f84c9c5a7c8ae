//! DuckDB's dialect in DataFusion's front end.
//!
//! The dialect works between the parser and the optimizer, on plans of texts only: plans of other front ends (Substrait, data frames, DuckDB itself)
//! have their exact meaning already.

mod aggregates;
mod alike;
mod bind;
mod castable;
mod casts;
mod copied;
mod custom_types;
mod dates;
mod described_ctes;
mod enums;
mod epoch;
mod extremes;
mod field_names;
mod functions;
mod interval_texts;
mod intervals;
mod library;
mod limits;
mod lists;
mod literals;
mod macros;
mod made;
mod moment_texts;
mod names;
mod nested_order;
mod nested_texts;
mod operators;
mod outer;
mod outside;
mod own_casts;
mod planner;
mod precedence;
mod quantile_windows;
mod readers;
mod rewrites;
mod row_lists;
mod row_queries;
mod sets;
mod shifts;
mod sources;
mod states;
mod subqueries;
mod syntax;

mod tables;
mod text;
mod texts;
mod types;
mod uuids;
mod versions;
pub(crate) mod walk;
mod windows;
mod written;

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::{DFSchema, ParamValues, Result};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility, lit};
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::SqlToRel;
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, Ident};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::Parser;

pub(crate) use aggregates::of_types as aggregates_of_types;
pub(crate) use custom_types::{casts_to, is_type, type_of};
pub use field_names::is_row;
pub(crate) use macros::{check as check_macro, parameters_of as macro_parameters};
pub use made::MadeFunction;
pub(crate) use names::{arguments, distinct_names, query_of, shown, with_typed_values};
pub(crate) use operators::{Op as Arithmetic, bind as arithmetic, chains};
pub use outside::{Form, given_schema, received_schema, with_schema, with_texts};
pub(crate) use own_casts::as_members;
pub(crate) use precedence::order as order_operators;
pub(crate) use quantile_windows::QuantileWindows;
pub use states::{column_type, schema_without_states, without_states};
pub(crate) use subqueries::{Subqueries, only_row, with_single_rows};
pub(crate) use syntax::{VALUES as PIVOT_VALUES, answer, plain};
pub(crate) use types::{optionally_quoted, type_name};
pub(crate) use windows::window;
pub use written::text as value_text;

use crate::asof::Relations;
use crate::once;
use crate::planning::limits::{check_ctes, check_doubling, check_plan, check_windows};
use crate::udf::{Expansion, Functions, Misfit, expand};

/// Plans one statement, with bound parameters.
pub(crate) async fn logical_plan(state: &SessionState, sql: &str, params: &[ScalarAndMetadata]) -> Result<LogicalPlan> {
    let mut statement = statement(state, sql)?;
    macros::expand(&mut statement, state)?;
    readers::rewrite(&mut statement)?;
    if sql_describes(sql) {
        described_ctes::rewrite(&mut statement)?;
    }
    let Some(functions) = state.config().get_extension::<Functions>() else {
        return planned(state, statement, sql, params).await;
    };
    let is_volatile = |name: &str| {
        let function = state.scalar_functions().get(library::scalar(name));
        function.is_some_and(|function| function.signature().volatility == Volatility::Volatile)
    };
    let mut expanded = statement.clone();
    if !expand(&mut expanded, &functions, Expansion::Expressions, &is_volatile)? {
        return planned(state, expanded, sql, params).await;
    }
    match planned(state, expanded, sql, params).await {
        // The types are none that the expressions of functions are for: their code is called.
        Err(error) if Misfit::find(&error).is_some() => {
            let mut called = statement;
            expand(&mut called, &functions, Expansion::Code, &is_volatile)?;
            planned(state, called, sql, params).await
        }
        plan => plan,
    }
}

/// Parses one statement, in any of the dialect's forms.
pub(crate) fn statement(state: &SessionState, sql: &str) -> Result<Statement> {
    parse(state, &literals::plain_numbers(&syntax::plain(&versions::named(sql))))
}

/// Parses one statement in plain syntax, with its operators in DuckDB's order.
fn parse(state: &SessionState, sql: &str) -> Result<Statement> {
    let mut statement = state.sql_to_statement(sql, &state.config_options().sql_parser.dialect)?;
    precedence::rewrite(&mut statement);
    row_queries::rewrite(&mut statement)?;
    Ok(statement)
}

/// Whether a text may describe something within a query.
fn sql_describes(sql: &str) -> bool {
    let lower = sql.to_ascii_lowercase();
    lower.contains("with") && (lower.contains("describe") || lower.contains("summarize"))
}

/// The plan of a statement that was read from the text `sql`.
async fn planned(
    state: &SessionState,
    mut statement: Statement,
    sql: &str,
    params: &[ScalarAndMetadata],
) -> Result<LogicalPlan> {
    states::marked(&mut statement)?;
    check_ctes(&statement)?;
    check_windows(&statement)?;
    let tables = tables::Tables::of(state, &statement, sql).await?;
    names::bind(&mut statement, &tables, sql)?;
    once::mark(&mut statement, &tables);
    literals::rewrite(&mut statement);
    check_doubling(&statement)?;
    let plan = sources::planned(&SqlToRel::new_with_options(&tables, tables.parser_options()), statement)?;
    // Shared parts are duplicated from here on.
    check_plan(&plan)?;
    let plan = match params {
        [] => plan,
        params => plan.with_param_values(ParamValues::List(params.to_vec()))?,
    };
    rewrites::replace(bind::bind(plan)?)
}

/// Whether calls of this lower-case name have a special meaning in the dialect or its parser.
pub(crate) fn is_taken(name: &str) -> bool {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if names::part_called(name).is_some() || names::stands_for_other(name) || library::is_taken(name) {
        return true;
    }
    // Other names need quotes.
    if !name.chars().all(is_word) {
        return false;
    }
    let text = format!("{name}(a)");
    let parsed = Parser::new(&DuckDbDialect).try_with_sql(&text).and_then(|mut parser| parser.parse_expr());
    !matches!(parsed, Ok(SqlExpr::Function(_)))
}

/// Whether a call represents an operator, a pattern without escapes, or a date literal. Its result is no larger than its arguments, and it does not
/// convert them.
pub(crate) fn is_part_of_constants(call: &ScalarFunction) -> bool {
    // `names` makes patterns without escapes so.
    let doubled = [lit("\\"), lit("\\\\")];
    let is_pattern = || call.func.name() == "replace" && call.args.get(1..) == Some(&doubled[..]);
    operators::is_operator(call) || dates::is_date_at_midnight(call) || casts::reads_moment(call) || is_pattern()
}

/// Names that calls may have in SQL besides registered functions: parts of dates, and calls that are rewritten.
pub(crate) fn called_names() -> impl Iterator<Item = &'static str> {
    names::called_parts().chain(names::calls_for_others())
}

/// Names of scalar functions that stand for others, each with the name that it stands for.
pub(crate) fn scalar_aliases() -> impl Iterator<Item = (&'static str, &'static str)> {
    library::scalar_aliases()
}

/// Names of aggregates that are not registered: they stand for others, or are made of others.
pub(crate) fn aggregate_names() -> impl Iterator<Item = &'static str> {
    library::aggregate_names()
}

/// The name of a column that a SELECT list has without one, as an alias.
pub(crate) fn alias_of(expr: &SqlExpr) -> Ident {
    names::quoted(&names::label(expr, ""))
}

/// `e` cast to `to` by the rules for SQL texts.
pub(crate) fn cast(e: Expr, to: &DataType, schema: &DFSchema) -> Result<Expr> {
    casts::bind(e, to, false, schema)
}

/// `e` as a value of type `to`, NULL if it is invalid.
pub(crate) fn try_cast(e: Expr, to: &DataType, schema: &DFSchema) -> Result<Expr> {
    casts::bind(e, to, true, schema)
}

/// Parses `text` by a `strptime` format to microseconds since 1970; `None` if it does not match.
///
/// # Errors
/// An invalid format.
pub(crate) fn moment_of(text: &str, format: &str) -> Result<Option<i64>> {
    library::moment_of(text, format)
}

/// `plan` with columns cast to these types by the rules of INSERT.
pub(crate) fn assigned(plan: LogicalPlan, types: &[DataType]) -> Result<LogicalPlan> {
    rewrites::replace(bind::retyped(plan, types)?)
}

/// Registers the planners for the operators, types and functions of SQL texts.
pub(crate) fn planners(builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut builder = builder
        .with_expr_planners(vec![Arc::new(planner::Operators)])
        .with_type_planner(Arc::new(types::Names::default()))
        .with_relation_planners(vec![Arc::new(Relations)])
        .with_default_features();
    // The last function of a name is used.
    let functions = builder.scalar_functions().get_or_insert_default();
    functions.extend([dates::timezone(), functions::type_of(), epoch::to_timestamp()]);
    functions.extend(lists::functions());
    functions.extend(library::functions());
    functions.extend(states::functions());
    builder.higher_order_functions().get_or_insert_default().push(library::reduce());
    let own = aggregates::functions().into_iter().chain(states::aggregates());
    builder.aggregate_functions().get_or_insert_default().extend(own);
    builder
}
