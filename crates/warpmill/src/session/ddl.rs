//! Statements that make and remove schemas, tables and views.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{SchemaReference, TableReference};
use datafusion::logical_expr::{CreateMemoryTable, DdlStatement, LogicalPlan};
use datafusion::physical_plan::execute_stream;

use super::constraints::{Checks, Declared, Made, check_types};
use super::running::Query;
use super::{QueryResult, Session};
use crate::catalog::{Existing, Kind, View, guarded, no_schema, same, write_options, write_stream};
use crate::commit::GivenUp;
use crate::plan_cache::Prepared;
use crate::planning::bound;
use crate::{Error, Result, dialect};

/// The options for creating a table or view that may exist already.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Making {
    pub if_not_exists: bool,
    pub or_replace: bool,
    pub temporary: bool,
}

impl Session {
    /// Runs statements that drop objects; `None`: it is left to DataFusion.
    pub(super) async fn run_ddl(&self, statement: &DdlStatement, query: &Query) -> Result<Option<QueryResult>> {
        match statement {
            // Only from prepared statements: other CREATE TABLE statements are run by `take_statement`.
            DdlStatement::CreateMemoryTable(command) => {
                return Box::pin(self.create_table_as(command.clone(), false, &Declared::default(), query))
                    .await
                    .map(Some);
            }
            DdlStatement::CreateView(_) | DdlStatement::CreateCatalogSchema(_) => {
                return Err(Error::NotImplemented("CREATE VIEW and CREATE SCHEMA in PREPARE".into()));
            }
            DdlStatement::DropCatalogSchema(command) => {
                if let SchemaReference::Full { catalog, .. } = &command.name {
                    self.inner.catalog.check_catalog(catalog)?;
                }
                let name = command.name.schema_name();
                if !self.inner.catalog.drop_schema(name, command.cascade)? && !command.if_exists {
                    return Err(no_schema(name));
                }
                if same(name, &self.default_schema()) {
                    self.use_schema(crate::catalog::MAIN)?;
                }
            }
            DdlStatement::DropTable(command) => self.drop_named(&command.name, Kind::Table, command.if_exists)?,
            DdlStatement::DropView(command) => self.drop_named(&command.name, Kind::View, command.if_exists)?,
            DdlStatement::CreateCatalog(command) => {
                let text = format!("CREATE DATABASE {}: a session has one database", command.catalog_name);
                return Err(Error::NotImplemented(text));
            }
            _ => return Ok(None),
        }
        Ok(Some(QueryResult::empty()))
    }

    fn drop_named(&self, name: &TableReference, kind: Kind, if_exists: bool) -> Result<()> {
        let word = if kind == Kind::Table { "table" } else { "view" };
        let missing = |reason: String| match if_exists {
            true => Ok(()),
            false => Err(Error::Catalog(format!("there is no {word} '{name}'{reason}"))),
        };
        let (schema, table) = match self.place(name) {
            Ok(place) => place,
            Err(Error::Catalog(reason)) => return missing(format!(": {reason}")),
            Err(error) => return Err(error),
        };
        if schema.remove(&table, kind)? { Ok(()) } else { missing(String::new()) }
    }

    /// `CREATE TABLE name (columns)` and `CREATE TABLE name AS query`: a stored table where there is a database directory, otherwise, or if it is
    /// `temporary`, one in memory. The rows become visible at once, or not at all.
    pub(super) async fn create_table_as(
        &self,
        command: CreateMemoryTable,
        temporary: bool,
        declared: &Declared,
        query: &Query,
    ) -> Result<QueryResult> {
        self.create_table_from(command, None, temporary, declared, query).await
    }

    /// [`Session::create_table_as`] of rows whose plan may be there.
    pub(super) async fn create_table_from(
        &self,
        command: CreateMemoryTable,
        planned: Option<Arc<Prepared>>,
        temporary: bool,
        declared: &Declared,
        query: &Query,
    ) -> Result<QueryResult> {
        let CreateMemoryTable { name, input, if_not_exists, or_replace, column_defaults, constraints, .. } = command;
        let defaults = &declared.defaults;
        if !constraints.is_empty() {
            return Err(Error::NotImplemented(format!("table {name}: constraints in PREPARE")));
        }
        if !column_defaults.is_empty() && defaults.is_empty() {
            return Err(Error::NotImplemented(format!("DEFAULT of column {:?} in PREPARE", column_defaults[0].0)));
        }
        let (place, table) = self.place(&name)?;
        let making = Making { if_not_exists, or_replace, temporary };
        let there = if temporary { place.session_kind(&table)? } else { place.kind(&table)? };
        if !may_make(&name, Kind::Table, there, making)? {
            return Ok(QueryResult::empty());
        }
        let state = Arc::new(self.inner.context.state());
        let options = self.options();
        let prepared = match planned {
            Some(prepared) => prepared,
            None => self.prepare(&state, Arc::clone(&input), &options).await?.0,
        };
        // Columns of a query may get NULLs later, whatever its own rows are; those of a list are what it says.
        let is_list = matches!(&*input, LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row);
        let schema = match is_list {
            true => with_defaults(&table_schema(input.schema().inner()), defaults),
            false => nullable(&table_schema(&prepared.plan.schema())),
        };
        let mut constraints = declared.constraints.clone();
        if temporary && or_replace {
            place.check_replaceable(&table)?;
        }
        if !declared.foreign.is_empty() {
            let stored = !temporary && place.is_stored();
            let made = Made { place: &place, name: &table, schema: &schema, constraints: &constraints, stored };
            let foreign = self.foreign_keys(&declared.foreign, &made, query).await?;
            constraints.extend(foreign);
        }
        check_types(&constraints, &schema)?;
        let checks = Checks::planned(&state, &schema, &constraints, &table).await?;
        let layout = self.layout(&table, write_options(&options))?;
        let existing = if or_replace { Existing::Goes } else { Existing::Stays };
        let mut writer = match temporary {
            true => place.build_in_memory(schema, layout)?,
            false => place.build(&table, schema, layout, existing)?,
        };
        if !constraints.is_empty() {
            writer.declare(constraints)?;
        }
        let siblings = place.siblings(&table, writer.table());
        guarded(&mut writer, &table, checks.as_ref(), Some(&siblings));
        let gate = query.handle.commit.clone();
        let given_up = GivenUp::cancels(&gate);
        writer.commit_only_if(move || gate.pass());
        let written = async {
            let rows = execute_stream(Arc::clone(&prepared.plan), self.task_context(query))?;
            let (writer, _) = write_stream(writer, rows).await?;
            let committed = tokio::task::spawn_blocking(move || place.commit(&table, writer, existing)).await;
            committed.map_err(|error| Error::Internal(error.to_string()))?
        };
        let written = written.await;
        given_up.done();
        written.map(|()| QueryResult::empty())
    }

    /// Whether SQL that a column called `name` has as its default is an expression of constants that can be one of its type.
    pub(super) async fn check_default(&self, name: &str, sql: &str, ty: &DataType) -> Result<()> {
        let (state, text) = (Arc::new(self.inner.context.state()), format!("SELECT ({sql}) AS x"));
        let fails = |error: Error| Error::Plan(format!("DEFAULT of column {name}: {error}"));
        let plan = bound(&state, &text, &[]).await.map_err(fails)?;
        dialect::assigned(plan, std::slice::from_ref(ty)).map_err(|error| fails(error.into()))?;
        Ok(())
    }

    /// `CREATE VIEW`: the text is stored, in the database where there is one, and planned at each use.
    pub(super) async fn create_view(&self, name: &TableReference, sql: &str, making: Making) -> Result<QueryResult> {
        let (place, view_name) = self.place(name)?;
        let there = if making.temporary { place.session_kind(&view_name)? } else { place.kind(&view_name)? };
        if !may_make(name, Kind::View, there, making)? {
            return Ok(QueryResult::empty());
        }
        let view = View::new(sql, &self.default_schema());
        view.provider(place.name(), &view_name, self.inner.context.state()).await?;
        place.put_view(&view_name, view, making.temporary)?;
        Ok(QueryResult::empty())
    }
}

/// Whether an object of kind `kind` may be created where one of kind `there` has the name.
fn may_make(name: &TableReference, kind: Kind, there: Option<Kind>, making: Making) -> Result<bool> {
    match (there, making.if_not_exists, making.or_replace) {
        (_, true, true) => Err(Error::Plan("IF NOT EXISTS and OR REPLACE exclude each other".into())),
        (None, _, _) => Ok(true),
        (Some(there), false, true) if there == kind => Ok(true),
        (Some(there), true, false) if there == kind => Ok(false),
        (Some(Kind::Table), _, _) => Err(Error::Catalog(format!("table '{name}' already exists"))),
        (Some(Kind::View), _, _) => Err(Error::Catalog(format!("view '{name}' already exists"))),
    }
}

/// The schema of a table that holds the rows of a query: distinct names, without metadata.
pub(super) fn table_schema(schema: &SchemaRef) -> SchemaRef {
    let names = dialect::distinct_names(schema.fields().iter().map(|field| field.name().as_str()));
    let fields = schema.fields().iter().zip(names).map(|(field, name)| {
        let data_type = match field.data_type() {
            // A column of literal NULLs has no type of its own.
            DataType::Null => DataType::Int32,
            data_type => data_type.clone(),
        };
        Field::new(name, data_type, field.is_nullable())
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The metadata key for the SQL of a field's default.
const DEFAULT: &str = "warpmill.default";

/// The SQL of a column's default; `None`: NULL.
pub(crate) fn default_of(field: &Field) -> Option<&str> {
    field.metadata().get(DEFAULT).map(String::as_str)
}

/// `field` with another default.
pub(super) fn with_default(field: Field, default: Option<String>) -> Field {
    let mut metadata = field.metadata().clone();
    match default {
        Some(sql) => metadata.insert(DEFAULT.to_string(), sql),
        None => metadata.remove(DEFAULT),
    };
    field.with_metadata(metadata)
}

fn with_defaults(schema: &SchemaRef, defaults: &[(String, String)]) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let default = defaults.iter().find(|(name, _)| same(name, field.name()));
        with_default(field.as_ref().clone(), default.map(|(_, sql)| sql.clone()))
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn nullable(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
