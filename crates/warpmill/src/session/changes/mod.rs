//! Statements that change rows of Warpmill's tables: DELETE, UPDATE, MERGE and TRUNCATE.
//!
//! Each is a query over its table with row numbers, which finds the rows to delete or update and their new values. It is planned and run with the
//! table's lock held, so that it reads the newest version, and no other writer's rows are lost.

mod assign;
mod conflict;
mod in_ctes;
mod merge;
mod optimize;
mod target;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt64Array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::execute_stream;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::sql::sqlparser::ast::{Delete, FromTable, SetExpr, Statement, Update, UpdateTableFromKind, With};
use futures::StreamExt;
use warpmill_format::table::Changes;
use warpmill_format::{Table, TableSnapshot, TableWriter};

use super::constraints::Checks;
use super::running::Query;
use super::statements::Taken;
use super::{QueryResult, Session, returning};
use crate::catalog::{ROW, WarpmillTable, guarded, write_options};
use crate::commit::GivenUp;
use crate::planning::{self, bound};
use crate::{Error, Result, ScalarValue, dialect};
pub(super) use in_ctes::OwnTransaction;
use target::{Target, quoted};

/// The change of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    Delete,
    /// The columns of the query's rows from this position on are the new values of [`Edit::columns`].
    Update(usize),
    /// The columns of the query's rows from this position on are a new row.
    Insert(usize),
}

/// A statement as a query over its table. Its columns: the row number, the number of the action if there are several, and the actions' values.
struct Edit {
    /// The query's text up to FROM.
    select: String,
    /// The query's text from FROM on.
    from: String,
    actions: Vec<Action>,
    /// The positions of the table's columns that are set.
    columns: Vec<usize>,
    /// The types of the query's columns.
    types: Vec<DataType>,
    /// Whether the same row may be found several times with the same values.
    repeats: bool,
    /// Whether rows have the number of their action.
    chosen: bool,
    /// For each action, the query columns that make up a row of the table for RETURNING; `None`: no RETURNING.
    returned: Option<Vec<Vec<usize>>>,
    /// The word of the statement.
    word: &'static str,
}

/// A statement that changes rows.
struct Change<'a> {
    statement: &'a Statement,
    /// The CTEs before it.
    with: &'a str,
    target: &'a Target,
    /// The expressions of its RETURNING clause.
    returning: Option<&'a str>,
    params: &'a [ScalarValue],
}

impl Session {
    /// Runs or explains a statement that changes rows; `None`: another statement.
    pub(in crate::session) async fn change_statement(
        &self,
        sql: &str,
        words: &[&str],
        params: &[ScalarValue],
        query: &Query,
    ) -> Result<Option<Taken>> {
        if let ["optimize", ..] = words {
            return self.optimize_statement(sql, query).await.map(|done| Some(Taken::Done(done)));
        }
        let explained = words.first() == Some(&"explain");
        let sql = if explained { sql.get("explain ".len()..).unwrap_or_default() } else { sql };
        let verb = if explained { words.get(1) } else { words.first() };
        let is_ours = match verb {
            Some(&("delete" | "update" | "merge" | "truncate")) => true,
            Some(&"with") => {
                let lower = sql.to_ascii_lowercase();
                ["delete from", "update ", "merge into"].iter().any(|word| lower.contains(word))
            }
            _ => false,
        };
        if !is_ours {
            return Ok(None);
        }
        let (sql, returning) = returning::split(sql);
        let Some(statement) = self.parsed(sql)? else { return Ok(None) };
        let Some((with, statement)) = without_ctes(statement) else { return Ok(None) };
        let target = match &statement {
            Statement::Truncate(truncate) => Target::of_truncate(truncate)?,
            Statement::Delete(delete) => {
                let from = match &delete.from {
                    FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from) => from,
                };
                Target::of_tables("DELETE", from)?
            }
            Statement::Update(update) => Target::of_tables("UPDATE", std::slice::from_ref(&update.table))?,
            Statement::Merge(merge) => Target::of_factor("MERGE", &merge.table)?,
            _ => return Ok(None),
        };
        let table = self.changed_table(&target)?;
        let change = Change { statement: &statement, with: &with, target: &target, returning, params };
        if explained {
            let Some(edit) = edit(&change, &*table.snapshot()?)? else {
                return Err(Error::NotImplemented("EXPLAIN TRUNCATE".into()));
            };
            return Ok(Some(Taken::Instead(format!("EXPLAIN {}", edit.query()))));
        }
        Box::pin(self.change(&table, &change, query)).await.map(|done| Some(Taken::Done(done)))
    }

    /// The table of Warpmill that a statement changes.
    fn changed_table(&self, target: &Target) -> Result<Arc<Table>> {
        let (schema, name) = self.place(&target.reference)?;
        if let Some(table) = schema.warpmill_table(&name)? {
            return Ok(table);
        }
        Err(match schema.kind(&name)? {
            Some(crate::catalog::Kind::View) => {
                Error::Catalog(format!("'{}' is a view: its rows cannot be changed", target.reference))
            }
            Some(_) => {
                Error::Catalog(format!("'{}' is no table of Warpmill: its rows cannot be changed", target.reference))
            }
            None => Error::Catalog(format!("table '{}' not found", target.reference)),
        })
    }

    /// Changes rows and commits; returns the number of changed rows, or the rows of RETURNING.
    async fn change(&self, table: &Arc<Table>, change: &Change<'_>, query: &Query) -> Result<QueryResult> {
        let options = self.options();
        let gate = query.handle.commit.clone();
        let given_up = GivenUp::cancels(&gate);
        let changed = async {
            let (owned, write) = (Arc::clone(table), write_options(&options));
            let mut writer = blocking(move || Ok(owned.append(write)?)).await?;
            writer.commit_only_if(move || gate.pass());
            let base = writer.base().cloned().ok_or_else(|| Error::Internal("a writer without a base".into()))?;
            let (state, name) = (Arc::new(self.inner.context.state()), change.target.reference.table());
            let checks = Checks::planned(&state, base.schema(), base.constraints(), name).await?;
            let siblings = self.place(&change.target.reference)?.0.siblings(name, table);
            guarded(&mut writer, name, checks.as_ref(), Some(&siblings));
            let Some(edit) = edit(change, &base)? else {
                let mut changes = Changes::new(&base, vec![]);
                changes.delete_all();
                return finish(writer, changes, vec![], base.num_rows()).await.map(counted);
            };
            let returning = match change.returning {
                Some(said) => Some(self.returning(said, &change.target.plain(), change.params).await?),
                None => None,
            };
            let plan = self.edit_plan(&edit, table, &base, change.params).await?;
            let (prepared, _) = self.prepare(&state, Arc::new(plan), &options).await?;
            let plan = reset_plan_states(Arc::clone(&prepared.plan))?;
            let mut rows = execute_stream(plan, self.task_context(query))?;
            let mut found = Found::new(&edit, &base, name);
            while let Some(batch) = rows.next().await.transpose()? {
                found.add(&batch, options.memory_limit)?;
            }
            let returned = match returning {
                Some(returning) => Some(self.returned(returning, std::mem::take(&mut found.returned), query).await?),
                None => None,
            };
            let count = finish(writer, found.changes, found.inserted, found.count).await?;
            Ok(returned.unwrap_or_else(|| counted(count)))
        };
        let changed = changed.await;
        given_up.done();
        changed
    }

    async fn edit_plan(
        &self,
        edit: &Edit,
        table: &Arc<Table>,
        base: &TableSnapshot,
        params: &[ScalarValue],
    ) -> Result<LogicalPlan> {
        let state = Arc::new(self.inner.context.state());
        let plan = bound(&state, &edit.query(), params).await?;
        let (table, version) = (Arc::clone(table), base.version());
        let (types, repeats) = (edit.types.clone(), edit.repeats);
        planning::run(async move {
            plan.apply_with_subqueries(|node| {
                if let LogicalPlan::TableScan(scan) = node
                    && let Some(read) = source_as_provider(&scan.source)?.downcast_ref::<WarpmillTable>()
                    && Arc::ptr_eq(read.table(), &table)
                    && read.name().starts_with(ROW)
                    && read.snapshot().version() != version
                {
                    return Err(Error::Internal("a table has changed while it was locked".into()).into());
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
            let plan = dialect::assigned(plan, &types)?;
            match repeats {
                true => Ok(LogicalPlanBuilder::from(plan).distinct()?.build()?),
                false => Ok(plan),
            }
        })
        .await
    }
}

/// A statement as a query; `None`: it is TRUNCATE.
fn edit(change: &Change, base: &TableSnapshot) -> Result<Option<Edit>> {
    let target = change.target;
    let mut edit = match change.statement {
        Statement::Delete(delete) => deletion(delete, target)?,
        Statement::Update(update) => updated(update, target, base)?,
        Statement::Merge(merge) => merge::edit(merge, target, base)?,
        _ => {
            refuse("TRUNCATE", change.returning.is_some(), "RETURNING")?;
            return Ok(None);
        }
    };
    if change.returning.is_some() {
        edit.return_rows(target, base);
    }
    edit.select = format!("{}{}", change.with, edit.select);
    Ok(Some(edit))
}

impl Edit {
    fn query(&self) -> String {
        format!("{} {}", self.select, self.from)
    }

    /// Adds the columns of the table that are not among the new values.
    fn return_rows(&mut self, target: &Target, base: &TableSnapshot) {
        let fields = base.schema().fields();
        let mut kept: Vec<Option<usize>> = vec![None; fields.len()];
        let all_change = |action: &Action| match action {
            Action::Insert(_) => true,
            Action::Update(_) => self.columns.len() == fields.len(),
            Action::Delete => false,
        };
        if !self.actions.iter().all(all_change) {
            for (column, field) in fields.iter().enumerate() {
                let (at, name) = (self.types.len(), quoted(field.name()));
                self.select.push_str(&format!(", {}.{name} AS {}", target.alias(), quoted(&format!("{ROW}{at}"))));
                self.types.push(field.data_type().clone());
                kept[column] = Some(at);
            }
        }
        let row_of = |action: &Action| {
            let place = |column: usize| match action {
                Action::Insert(first) => Some(first + column),
                Action::Update(first) => {
                    let changed = self.columns.iter().position(|changed| *changed == column);
                    changed.map(|at| first + at).or(kept[column])
                }
                Action::Delete => kept[column],
            };
            (0..fields.len()).filter_map(place).collect()
        };
        self.returned = Some(self.actions.iter().map(row_of).collect());
    }
}

/// The rows that a statement has found.
struct Found<'a> {
    edit: &'a Edit,
    /// The name of the table in errors.
    table: &'a str,
    base: Arc<TableSnapshot>,
    changes: Changes,
    inserted: Vec<RecordBatch>,
    /// Rows for RETURNING.
    returned: Vec<RecordBatch>,
    count: u64,
    bytes: usize,
}

impl<'a> Found<'a> {
    fn new(edit: &'a Edit, base: &Arc<TableSnapshot>, table: &'a str) -> Self {
        let changes = Changes::new(base, edit.columns.clone());
        Self { edit, table, base: Arc::clone(base), changes, inserted: vec![], returned: vec![], count: 0, bytes: 0 }
    }

    fn add(&mut self, batch: &RecordBatch, memory_limit: usize) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        for (number, action) in self.edit.actions.iter().enumerate() {
            let chosen = if self.edit.chosen { Some(chosen(batch, number)?) } else { None };
            let part = match &chosen {
                Some(mask) if mask.true_count() == 0 => continue,
                Some(mask) => filter_record_batch(batch, mask)?,
                None => batch.clone(),
            };
            if *action != Action::Delete || self.edit.returned.is_some() {
                self.bytes += part.get_array_memory_size();
                if self.bytes > memory_limit {
                    let (word, limit) = (self.edit.word, memory_limit);
                    let text = format!("{word}: new values take more than warpmill.memory_limit ({limit} bytes)");
                    return Err(Error::OutOfMemory(text));
                }
            }
            self.take(&part, number)?;
        }
        Ok(())
    }

    /// Does action `number` to the rows of `batch`.
    fn take(&mut self, batch: &RecordBatch, number: usize) -> Result<()> {
        let schema = self.base.schema();
        match &self.edit.actions[number] {
            Action::Delete => {
                let rows = numbers(batch, 0)?.values().iter();
                let fresh: Vec<bool> = rows.map(|row| self.changes.delete(*row as u64)).collect();
                if self.edit.chosen && fresh.contains(&false) {
                    return Err(twice(self.edit.word));
                }
                self.count += fresh.iter().filter(|fresh| **fresh).count() as u64;
                self.give_back(&filter_record_batch(batch, &fresh.into())?, number)?;
            }
            Action::Update(at) => {
                let values: Vec<ArrayRef> = batch.columns()[*at..*at + self.edit.columns.len()].to_vec();
                let values = self.changes.add_values(&values).map_err(|error| error.of_table(self.table))?;
                for (at, row) in numbers(batch, 0)?.values().iter().enumerate() {
                    if !self.changes.update(*row as u64, values, at) {
                        return Err(twice(self.edit.word));
                    }
                }
                self.count += batch.num_rows() as u64;
                self.give_back(batch, number)?;
            }
            Action::Insert(at) => {
                let columns = batch.columns()[*at..*at + schema.fields().len()].to_vec();
                let fields = schema.fields().iter().zip(&columns);
                let fields = fields.map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true));
                let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
                self.inserted.push(RecordBatch::try_new(schema, columns)?);
                self.count += batch.num_rows() as u64;
                self.give_back(batch, number)?;
            }
        }
        Ok(())
    }
}

impl Found<'_> {
    /// Keeps the rows of action `number` in `batch` for RETURNING.
    fn give_back(&mut self, batch: &RecordBatch, number: usize) -> Result<()> {
        let Some(columns) = self.edit.returned.as_ref().map(|all| &all[number]) else { return Ok(()) };
        let schema = self.base.schema();
        let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let rows = columns.iter().map(|column| Arc::clone(batch.column(*column))).collect();
        self.returned.push(RecordBatch::try_new(schema, rows)?);
        Ok(())
    }
}

/// Commits the changes that a statement has found, if any.
async fn finish(mut writer: TableWriter, changes: Changes, inserted: Vec<RecordBatch>, count: u64) -> Result<u64> {
    blocking(move || {
        if changes.is_empty() && inserted.is_empty() {
            return Ok(count);
        }
        writer.change(&changes)?;
        drop(changes);
        inserted.iter().try_for_each(|batch| writer.write(batch))?;
        writer.commit()?;
        Ok(count)
    })
    .await
}

fn twice(word: &str) -> Error {
    let text = format!("{word}: several rows match the same row of the table, and do not say the same of it");
    Error::Execution(text)
}

fn numbers(batch: &RecordBatch, column: usize) -> Result<&Int64Array> {
    let numbers = batch.column(column).as_primitive_opt::<Int64Type>();
    numbers.ok_or_else(|| Error::Internal("numbers of rows are integers".into()))
}

/// Which rows have action `number`.
fn chosen(batch: &RecordBatch, number: usize) -> Result<BooleanArray> {
    let actions = numbers(batch, 1)?;
    Ok(actions.iter().map(|action| Some(action == Some(number as i64))).collect())
}

/// The result of a statement that has changed this many rows.
fn counted(rows: u64) -> QueryResult {
    let schema = Arc::new(Schema::new(vec![Field::new("count", DataType::UInt64, false)]));
    let rows: ArrayRef = Arc::new(UInt64Array::from(vec![rows]));
    let batches = RecordBatch::try_new(Arc::clone(&schema), vec![rows]).into_iter().collect();
    QueryResult { schema, batches, ..QueryResult::empty() }
}

/// A statement that changes rows without the CTEs before it, and these as text.
fn without_ctes(statement: Statement) -> Option<(String, Statement)> {
    let Statement::Query(query) = statement else { return Some((String::new(), statement)) };
    let with = query.with.as_ref().map(With::to_string).map(|with| format!("{with} ")).unwrap_or_default();
    match *query.body {
        SetExpr::Delete(statement) | SetExpr::Update(statement) | SetExpr::Merge(statement) => Some((with, statement)),
        _ => None,
    }
}

fn deletion(delete: &Delete, target: &Target) -> Result<Edit> {
    refuse("DELETE", delete.output.is_some(), "OUTPUT")?;
    refuse("DELETE", !delete.order_by.is_empty() || delete.limit.is_some(), "ORDER BY and LIMIT")?;
    refuse("DELETE", !delete.tables.is_empty(), "a list of tables")?;
    let select = format!("SELECT {} AS {}", target.row(), quoted(ROW));
    let mut from = format!("FROM {}", target.numbered());
    for table in delete.using.iter().flatten() {
        from.push_str(&format!(", {table}"));
    }
    if let Some(condition) = &delete.selection {
        from.push_str(&format!(" WHERE {condition}"));
    }
    let (actions, columns, types) = (vec![Action::Delete], vec![], vec![DataType::Int64]);
    let (repeats, chosen) = (false, false);
    Ok(Edit { select, from, actions, columns, types, returned: None, repeats, chosen, word: "DELETE" })
}

fn updated(update: &Update, target: &Target, base: &TableSnapshot) -> Result<Edit> {
    refuse("UPDATE", update.output.is_some(), "OUTPUT")?;
    refuse("UPDATE", update.or.is_some(), "OR")?;
    refuse("UPDATE", !update.order_by.is_empty() || update.limit.is_some(), "ORDER BY and LIMIT")?;
    let set = assign::assignments(&update.assignments, base, target)?;
    let named =
        |(at, (_, value)): (usize, &(usize, String))| format!(", ({value}) AS {}", quoted(&format!("{ROW}{at}")));
    let values: String = set.iter().enumerate().map(named).collect();
    let select = format!("SELECT {} AS {}{values}", target.row(), quoted(ROW));
    let mut from = format!("FROM {}", target.numbered());
    let mut repeats = false;
    if let Some(UpdateTableFromKind::BeforeSet(tables) | UpdateTableFromKind::AfterSet(tables)) = &update.from {
        for table in tables {
            from.push_str(&format!(", {table}"));
        }
        repeats = true;
    }
    if let Some(condition) = &update.selection {
        from.push_str(&format!(" WHERE {condition}"));
    }
    let columns: Vec<usize> = set.iter().map(|(column, _)| *column).collect();
    let of = |column: &usize| base.schema().field(*column).data_type().clone();
    let types = std::iter::once(DataType::Int64).chain(columns.iter().map(of)).collect();
    let (actions, chosen) = (vec![Action::Update(1)], false);
    Ok(Edit { select, from, actions, columns, types, returned: None, repeats, chosen, word: "UPDATE" })
}

fn refuse(word: &str, there: bool, what: &str) -> Result<()> {
    if there { Err(Error::NotImplemented(format!("{word} with {what}"))) } else { Ok(()) }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::Internal(error.to_string()))?
}
