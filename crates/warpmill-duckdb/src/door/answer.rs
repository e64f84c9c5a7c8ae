//! The result of a query, with access to its rows by number.

use arrow::compute::concat_batches;

use super::rows::Rows;
use super::stopped;
use crate::Refused;
use crate::execute::{Ended, execute};
use crate::input::Reading;
use crate::output::{Batch, ColumnView};
use crate::plan::Plan;

/// All rows of a result.
pub struct Answer {
    batch: Option<Batch>,
    /// The measurements of the execution, as JSON.
    pub profile: String,
}

impl Answer {
    /// Runs the plan `statement` over the rows of its inputs; `None` is an input without rows.
    pub fn new(statement: &str, threads: usize, inputs: Vec<Option<Rows>>) -> Result<Self, Refused> {
        let plan = Plan::of(statement, || false)?.ok_or_else(stopped)?;
        if inputs.len() != plan.inputs.len() {
            return Err(Refused::new("a plan of other tables"));
        }
        let tables = inputs.into_iter().zip(&plan.inputs).map(|(rows, needed)| match rows {
            Some(rows) => rows.table(&needed.schema, threads.max(1)),
            None => {
                let table = warpmill_format::Table::in_memory(needed.schema.clone());
                table.replace(needed.schema.clone(), Default::default())?.commit()?;
                Ok(table)
            }
        });
        let tables = tables.collect::<Result<Vec<_>, Refused>>()?;
        let ended = execute(&plan, &tables, (threads, Reading::default()), || false);
        // The rows belong to this call only: no later call can use the tables.
        plan.forget();
        let Ended::Done(batches, profile) = ended? else { return Err(stopped()) };
        let batch = match batches.first() {
            None => None,
            Some(first) => {
                let all = concat_batches(&first.schema(), &batches).map_err(|error| Refused::new(error.to_string()))?;
                Some(Batch::with_wide_decimals(&all, &plan.types)?)
            }
        };
        Ok(Self { batch, profile: serde_json::to_string(&profile).unwrap_or_default() })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.batch.as_ref().map_or(0, Batch::rows)
    }

    /// A view of column `at`; valid as long as the answer.
    pub fn column(&self, at: usize) -> Option<ColumnView> {
        self.batch.as_ref()?.views().nth(at)
    }
}
