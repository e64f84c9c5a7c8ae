//! Plans of other front ends (Substrait, DataFusion's data frames) instead of SQL texts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::logical_expr::LogicalPlan;

use super::{QueryResult, Session};
use crate::planning::bound;
use crate::{Result, ScalarValue, dialect};

/// The columns and the parameters of a statement.
#[derive(Debug, Clone)]
pub struct Description {
    /// Names and types of the columns.
    pub columns: SchemaRef,
    /// The types of `$1`, `$2`, ..., where they can be inferred.
    pub parameters: HashMap<String, Option<DataType>>,
}

impl Session {
    /// The columns and parameters of a statement, without running it.
    pub async fn describe(&self, sql: &str) -> Result<Description> {
        let plan = bound(&Arc::new(self.inner.context.state()), sql, &[]).await?;
        let fields = plan.schema().fields().iter();
        let fields = fields.map(|field| field.as_ref().clone().with_name(dialect::shown(field.name())));
        let columns = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Description { columns, parameters: plan.get_parameter_types()? })
    }

    /// Runs a query that another front end has planned, as a query text is run: optimized, placed, with a profile. Its tables should be those of
    /// [`Session::context`]. The plan cache is not used.
    pub async fn execute_plan(&self, plan: LogicalPlan) -> Result<QueryResult> {
        let query = self.inner.running.start();
        let work = async {
            let start = Instant::now();
            let state = Arc::new(self.inner.context.state());
            let (prepared, _) = self.prepare(&state, Arc::new(plan), &self.options()).await?;
            let planning_nanos = start.elapsed().as_nanos() as u64;
            let mut result = self.run_prepared(&prepared, &query).await?;
            if let Some(profile) = result.profile.as_mut().and_then(Arc::get_mut) {
                profile.planning_nanos = planning_nanos;
            }
            Ok(result)
        };
        query.until_cancelled(work).await
    }

    /// The text of [`Session::explain`] for a logical plan.
    pub async fn explain_plan(&self, plan: &LogicalPlan, analyze: bool) -> Result<String> {
        let query = self.inner.running.start();
        query.until_cancelled(self.explain_logical(Arc::new(plan.clone()), analyze, &query)).await
    }

    /// The logical plan of a query after all rules, the order of joins included. `params` are the values of `$1`, `$2`, ...
    pub async fn optimized_plan(&self, sql: &str, params: &[ScalarValue]) -> Result<LogicalPlan> {
        let state = Arc::new(self.inner.context.state());
        let plan = bound(&state, sql, params).await?;
        self.optimized(&state, Arc::new(plan)).await
    }
}
