//! DuckDB's dialect in DataFusion's front end.
//!
//! The meaning of SQL texts is settled between the parser and the optimizer, on plans of texts only: plans of other front ends
//! (Substrait, data frames, DuckDB itself) say what they mean already.

mod aggregates;
mod bind;
mod castable;
mod casts;
mod dates;
mod epoch;
mod extremes;
mod functions;
mod intervals;
mod lists;
mod literals;
mod names;
mod operators;
mod rewrites;
mod shifts;
mod subqueries;
mod tables;
mod text;
mod texts;
mod types;
mod versions;

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ParamValues, Result};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::planner::SqlToRel;

pub(crate) use names::{distinct_names, shown};
pub(crate) use subqueries::Subqueries;
pub(crate) use types::type_name;
pub(crate) use versions::named as with_versions;

use crate::ScalarValue;
use crate::planning::limits::{check_ctes, check_plan, check_windows};

/// The plan of one statement, with its parameters bound.
pub(crate) async fn logical_plan(state: &SessionState, sql: &str, params: &[ScalarValue]) -> Result<LogicalPlan> {
    let dialect = state.config_options().sql_parser.dialect;
    let sql = versions::named(sql);
    let mut statement = state.sql_to_statement(&literals::plain_numbers(&sql), &dialect)?;
    check_ctes(&statement)?;
    check_windows(&statement)?;
    let tables = tables::Tables::of(state, &statement).await?;
    names::bind(&mut statement, &tables)?;
    literals::rewrite(&mut statement);
    let plan = SqlToRel::new_with_options(&tables, tables.parser_options()).statement_to_plan(statement)?;
    // Parts that are shared in it are copied from here on.
    check_plan(&plan)?;
    let plan = match params {
        [] => plan,
        params => plan.with_param_values(ParamValues::from(params.to_vec()))?,
    };
    rewrites::replace(bind::bind(plan)?)
}

/// `e` as `to`, as SQL texts cast it.
pub(crate) fn cast(e: Expr, to: &DataType, schema: &DFSchema) -> Result<Expr> {
    casts::bind(e, to, false, schema)
}

/// `plan` with columns of these types, cast as those of INSERT.
pub(crate) fn assigned(plan: LogicalPlan, types: &[DataType]) -> Result<LogicalPlan> {
    rewrites::replace(bind::retyped(plan, types)?)
}

/// The planners that SQL texts ask for the meaning of operators, types and functions.
pub(crate) fn planners(builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut builder = builder
        .with_expr_planners(vec![Arc::new(operators::Operators)])
        .with_type_planner(Arc::new(types::Names))
        .with_default_features();
    // The last function of a name is the one that counts.
    let functions = builder.scalar_functions().get_or_insert_default();
    functions.extend([dates::timezone(), functions::type_of(), epoch::to_timestamp()]);
    functions.extend(lists::functions());
    builder
}
