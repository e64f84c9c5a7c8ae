//! INSERTs of constants whose texts differ in constants only.
//!
//! Planning takes longer than writing a row. The second text of a kind ([`text`]) is analyzed after it has been planned: its rows become expressions
//! over its constants ([`learned`]). Later ones are neither parsed nor planned: their expressions are evaluated, and the rows are written as those of
//! planned statements. Such a text consists of a table, names of columns and constants; what it means depends on the table, which is looked up for
//! each statement, and on settings.

mod learned;
mod text;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::TableReference;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use warpmill_format::table::Constraint;
use warpmill_format::{Table, TableSnapshot};

use self::learned::Learned;
use self::text::Rows;
use crate::catalog::TableSink;
use crate::plan_cache::{Generation, Text};
use crate::session::constraints::Checks;
use crate::{Result, ScalarValue};

/// Kinds of texts that are kept.
const KINDS: usize = 256;

/// Kinds of texts that came once, by hash.
const MOST_ONCE: usize = 4096;

/// Statements of one kind: they differ in constants that are part of their plans.
const MOST_OF_ONE: usize = 8;

/// The INSERTs that a session has learned.
#[derive(Debug, Default)]
pub(crate) struct Inserts(Mutex<Store>);

#[derive(Debug, Default)]
struct Store {
    /// The changes of settings after which statements were learned.
    settings: u64,
    kinds: HashMap<String, Kind>,
    once: HashSet<u64>,
    clock: u64,
}

#[derive(Debug, Default)]
struct Kind {
    statements: Vec<Arc<Learned>>,
    /// Number of texts that could not be learned, or for few constants only.
    narrow: usize,
    used: u64,
}

/// The rows of an INSERT that needs no plan.
#[derive(Debug)]
pub(crate) struct Found {
    rows: RecordBatch,
    table: Arc<Table>,
    snapshot: Arc<TableSnapshot>,
    name: String,
    checks: Option<Arc<Checks>>,
}

impl Inserts {
    /// The rows of a text, if such a text was learned. `table` returns the table of a name.
    pub(crate) fn find(
        &self,
        text: &Text,
        generation: Generation,
        table: impl FnOnce(&TableReference) -> Option<Arc<Table>>,
    ) -> Option<Found> {
        let rows = Rows::of(&text.sql, &text.params)?;
        let learned = self.0.lock().find(&rows.shape.key, &rows.shape.constants, generation.settings)?;
        let table = table(&rows.table)?;
        // Foreign keys ask for the tables beside this one, which the planned statement looks up.
        let alone = |snapshot: &Arc<TableSnapshot>| !snapshot.constraints().iter().any(Constraint::is_reference);
        let snapshot =
            table.last_snapshot().filter(|snapshot| learned.holds(snapshot, generation.catalog) && alone(snapshot))?;
        let (name, checks) = (rows.table.table().to_string(), learned.checks());
        Some(Found { rows: learned.rows(&rows.shape.constants)?, table, snapshot, name, checks })
    }

    /// Whether a text is to be learned after it has been planned: it is not the first one of its kind.
    pub(crate) fn wants(&self, text: &Text, generation: Generation) -> bool {
        Rows::of(&text.sql, &text.params).is_some_and(|rows| self.0.lock().wants(&rows.shape.key, generation.settings))
    }

    /// Learns a text that has been planned as `plan`. `table` is the table that its name means. Errors here are not errors of the statement.
    pub(crate) async fn learn(
        &self,
        text: &Text,
        plan: &LogicalPlan,
        table: impl FnOnce(&TableReference) -> Option<Arc<Table>>,
        generation: Generation,
        state: &Arc<SessionState>,
    ) {
        let Some(rows) = Rows::of(&text.sql, &text.params) else { return };
        let learned = match table(&rows.table) {
            Some(table) => Learned::of(&rows, plan, &table, generation.catalog, state).await,
            None => None,
        };
        self.0.lock().add(&rows, learned, generation.settings);
    }
}

impl Found {
    /// The plan that writes the rows.
    pub(crate) fn plan(self) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = self.rows.schema();
        let rows = MemorySourceConfig::try_new_exec(&[vec![self.rows]], schema, None)?;
        let sink = TableSink::new(&self.name, self.table, self.snapshot, false).with_checks(self.checks, None);
        Ok(Arc::new(DataSinkExec::new(rows, Arc::new(sink), None)))
    }
}

impl Store {
    /// Empties the store after a change of settings.
    fn enter(&mut self, settings: u64) {
        if self.settings != settings {
            *self = Self { settings, ..Self::default() };
        }
        self.clock += 1;
    }

    fn find(&mut self, key: &str, constants: &[ScalarValue], settings: u64) -> Option<Arc<Learned>> {
        self.enter(settings);
        let kind = self.kinds.get_mut(key)?;
        kind.used = self.clock;
        kind.statements.iter().find(|learned| learned.is_of(constants)).cloned()
    }

    fn wants(&mut self, key: &str, settings: u64) -> bool {
        self.enter(settings);
        if let Some(kind) = self.kinds.get(key) {
            return kind.narrow < MOST_OF_ONE;
        }
        if self.once.len() >= MOST_ONCE {
            self.once.clear();
        }
        !self.once.insert(BuildHasherDefault::<DefaultHasher>::default().hash_one(key))
    }

    fn add(&mut self, rows: &Rows<'_>, learned: Option<Learned>, settings: u64) {
        self.enter(settings);
        if self.kinds.len() >= KINDS && !self.kinds.contains_key(&rows.shape.key) {
            let oldest = self.kinds.iter().min_by_key(|(_, kind)| kind.used).map(|(key, _)| key.clone());
            oldest.map(|key| self.kinds.remove(&key));
        }
        let kind = self.kinds.entry(rows.shape.key.clone()).or_default();
        kind.used = self.clock;
        // Each attempt costs as much as planning: a kind with ever new fixed constants is given up.
        kind.narrow += usize::from(learned.as_ref().is_none_or(Learned::is_narrow));
        if let Some(learned) = learned {
            kind.statements.retain(|known| !known.is_of(&rows.shape.constants));
            if kind.statements.len() >= MOST_OF_ONE {
                kind.statements.remove(0);
            }
            kind.statements.push(Arc::new(learned));
        }
    }
}
