//! Constraints of tables: declarations, CHECK conditions as expressions, and their display in DuckDB's syntax.
//!
//! Keys are checked where rows are written (`warpmill_format::table`); conditions are planned here, and evaluated there.

mod alter;
mod check;
mod declare;
mod expressions;
mod foreign;
mod index;
pub(crate) mod shown;

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::LogicalPlan;
use warpmill_format::table::{Constraint, is_key_type};

use crate::catalog::WarpmillTable;
use crate::dialect::type_name;
use crate::{Error, Result};

pub(super) use alter::Moved;
pub(crate) use check::Checks;
pub(super) use declare::{added_column, take_constraints};
pub(super) use expressions::parsed;
pub(super) use foreign::{Declaration, Made};

/// The parts of a table's declaration besides names and types of columns.
#[derive(Debug, Clone, Default)]
pub(super) struct Declared {
    /// Columns with the SQL of their defaults.
    pub defaults: Vec<(String, String)>,
    /// Keys and conditions.
    pub constraints: Vec<Constraint>,
    /// Foreign keys, which are resolved once the table's columns are known.
    pub foreign: Vec<Declaration>,
}

/// The constraints of the table whose rows a plan reads unchanged; none for other plans.
pub(crate) fn of_plan(plan: &LogicalPlan) -> Result<Arc<[Constraint]>> {
    let scan = match plan {
        LogicalPlan::Projection(projection) => &*projection.input,
        plan => plan,
    };
    // Of a name with a schema.
    let scan = match scan {
        LogicalPlan::SubqueryAlias(alias) => &*alias.input,
        plan => plan,
    };
    let LogicalPlan::TableScan(scan) = scan else { return Ok(Arc::default()) };
    let provider = source_as_provider(&scan.source)?;
    let table = provider.downcast_ref::<WarpmillTable>();
    let same = |table: &&WarpmillTable| table.snapshot().schema().fields().len() == plan.schema().fields().len();
    Ok(table.filter(same).map(|table| Arc::clone(table.snapshot().constraints())).unwrap_or_default())
}

/// Whether the columns of keys are of types that keys can have.
///
/// # Errors
/// In DuckDB's words.
pub(super) fn check_types(constraints: &[Constraint], schema: &Schema) -> Result<()> {
    let key = |constraint: &'_ Constraint| match constraint {
        Constraint::ForeignKey { columns, .. } => columns.clone(),
        other => other.key().unwrap_or_default().to_vec(),
    };
    let columns: Vec<usize> = constraints.iter().flat_map(key).collect();
    let types = columns.iter().filter_map(|column| schema.fields().get(*column)).map(|field| field.data_type());
    match types.into_iter().find(|data_type| !is_key_type(data_type)) {
        Some(other) => Err(Error::Plan(format!("Invalid Type [{}]: Invalid type for index key.", type_name(other)))),
        None => Ok(()),
    }
}
