//! A table of Warpmill as a table provider of DataFusion.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, Statistics, not_impl_err};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use warpmill_format::{Table, TableSnapshot};
use warpmill_translate::scan_exec::{WarpmillScanExec, table_statistics};

use super::relatives::Siblings;
use super::sink::TableSink;
use super::special::ROW;
use crate::Error;
use crate::session::constraints::Checks;

/// One version of a table: a statement that reads the table several times reads one version.
pub struct WarpmillTable {
    name: String,
    table: Arc<Table>,
    snapshot: Arc<TableSnapshot>,
    /// The tables beside it, for its foreign keys.
    siblings: Option<Arc<Siblings>>,
}

impl fmt::Debug for WarpmillTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WarpmillTable({}, version {})", self.name, self.snapshot.version())
    }
}

impl WarpmillTable {
    /// The newest version of `table`, called `name` in plans.
    pub fn open(name: impl Into<String>, table: Arc<Table>) -> Result<Self, Error> {
        let snapshot = table.snapshot()?;
        Ok(Self { name: name.into(), table, snapshot, siblings: None })
    }

    /// The newest version of `table`, with row numbers in an additional column, [`ROW`].
    pub(crate) fn numbered(name: &str, table: Arc<Table>) -> Result<Self, Error> {
        let snapshot = table.snapshot()?.numbered(ROW)?;
        Ok(Self { name: format!("{ROW}s of {name}"), table, snapshot, siblings: None })
    }

    /// Version `version` of `table`.
    pub(crate) fn at(name: &str, table: Arc<Table>, version: u64) -> Result<Self, Error> {
        let snapshot = table.snapshot_at(version)?;
        Ok(Self { name: name.to_string(), table, snapshot, siblings: None })
    }

    /// The same table with the tables beside it.
    pub(super) fn beside(self, siblings: Option<Arc<Siblings>>) -> Self {
        Self { siblings, ..self }
    }

    /// Name in plans.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The version.
    pub fn snapshot(&self) -> &Arc<TableSnapshot> {
        &self.snapshot
    }

    /// The table's CHECK conditions.
    async fn checks(&self, state: &dyn Session) -> Result<Option<Arc<Checks>>, Error> {
        if self.snapshot.constraints().is_empty() {
            return Ok(None);
        }
        let state = state.as_any().downcast_ref::<SessionState>();
        let state = state.ok_or_else(|| Error::Internal("a session that is none of DataFusion's".into()))?;
        let (schema, constraints) = (self.snapshot.schema(), self.snapshot.constraints());
        Checks::planned(&Arc::new(state.clone()), schema, constraints, &self.name).await
    }
}

#[async_trait]
impl TableProvider for WarpmillTable {
    fn schema(&self) -> SchemaRef {
        let schema = self.snapshot.schema();
        match schema.metadata().is_empty() {
            true => Arc::clone(schema),
            // Metadata of the table is no metadata of batches of its rows.
            false => Arc::new(Schema::new(schema.fields().clone())),
        }
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let snapshot = Arc::clone(&self.snapshot);
        Ok(Arc::new(WarpmillScanExec::try_new(snapshot, self.name.as_str(), projection.cloned())?))
    }

    fn statistics(&self) -> Option<Statistics> {
        let columns: Vec<usize> = (0..self.snapshot.schema().fields().len()).collect();
        Some(table_statistics(&self.snapshot, &columns))
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let overwrite = match op {
            InsertOp::Append => false,
            InsertOp::Overwrite => true,
            InsertOp::Replace => return not_impl_err!("REPLACE INTO is not supported: use INSERT OR REPLACE INTO"),
        };
        let sink = TableSink::new(&self.name, Arc::clone(&self.table), Arc::clone(&self.snapshot), overwrite);
        let sink = sink.with_checks(self.checks(state).await?, self.siblings.clone());
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }
}
