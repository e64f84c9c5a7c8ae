//! Views: texts of CREATE VIEW, planned each time that they are used.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::datasource::ViewTable;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use serde::{Deserialize, Serialize};
use warpmill_format::FormatError;

use super::same;
use crate::dialect::Subqueries;
use crate::{Error, Result, planning};

/// Suffix of a view's file.
pub(crate) const SUFFIX: &str = ".view";
const FORMAT: &str = "warpmill view";
const VERSION: u32 = 1;

/// The stored form of a view.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct View {
    format: String,
    version: u32,
    /// The schema of names without one.
    default_schema: String,
    /// The text of CREATE VIEW.
    sql: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    comment: Option<String>,
    /// Comments on columns, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    column_comments: BTreeMap<String, String>,
}

tokio::task_local! {
    /// The views that are being planned, outermost first.
    static PLANNED: Vec<(String, String)>;
}

impl View {
    /// The view that `sql` creates.
    pub(crate) fn new(sql: &str, default_schema: &str) -> Self {
        let (sql, default_schema) = (sql.to_string(), default_schema.to_string());
        let (comment, column_comments) = (None, BTreeMap::new());
        Self { format: FORMAT.into(), version: VERSION, default_schema, sql, comment, column_comments }
    }

    /// The schema of names without one.
    pub(crate) fn default_schema(&self) -> &str {
        &self.default_schema
    }

    /// The text of CREATE VIEW.
    pub(crate) fn sql(&self) -> &str {
        &self.sql
    }

    /// The comment on the view.
    pub(crate) fn comment(&self) -> Option<&str> {
        self.comment.as_deref()
    }

    /// The comment on a column.
    pub(crate) fn column_comment(&self, column: &str) -> Option<&str> {
        let found = self.column_comments.iter().find(|(name, _)| same(name, column));
        found.map(|(_, comment)| comment.as_str())
    }

    /// The comments on columns, by their names.
    pub(crate) fn column_comments(&self) -> &BTreeMap<String, String> {
        &self.column_comments
    }

    /// The same view with another comment, or none, on it or on one of its columns.
    pub(crate) fn with_comment(mut self, column: Option<&str>, comment: Option<String>) -> Self {
        let Some(column) = column else { return Self { comment, ..self } };
        self.column_comments.retain(|name, _| !same(name, column));
        self.column_comments.extend(comment.map(|comment| (column.to_string(), comment)));
        self
    }

    /// The bytes of its file.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("texts and a number")
    }

    pub(super) fn read(path: &Path) -> Result<Self> {
        let bytes = match std::fs::read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                return Err(Error::Catalog(format!("view '{name}' not found")));
            }
            bytes => bytes.map_err(|error| super::io_error("cannot read", path, &error))?,
        };
        let corrupt = |detail: String| FormatError::Corrupt { path: path.to_owned(), segment: None, detail };
        let view: Self = serde_json::from_slice(&bytes).map_err(|error| corrupt(format!("not a view: {error}")))?;
        match (view.format.as_str(), view.version) {
            (FORMAT, VERSION) => Ok(view),
            (FORMAT, version) => {
                Err(corrupt(format!("a view of format version {version}, which a newer build of Warpmill has written"))
                    .into())
            }
            _ => Err(corrupt("not a view".into()).into()),
        }
    }

    /// The current meaning of the view. Names in it are looked up in the schema in which it was created.
    ///
    /// # Errors
    /// The view, and the part of its text that is no longer valid.
    pub(crate) async fn provider(
        &self,
        schema: &str,
        name: &str,
        mut state: SessionState,
    ) -> Result<Arc<dyn TableProvider>> {
        let this = (schema.to_string(), name.to_string());
        let mut planned = PLANNED.try_with(Clone::clone).unwrap_or_default();
        if planned.contains(&this) {
            return Err(Error::Catalog(format!("view '{name}' reads itself")));
        }
        planned.push(this);
        state.config_mut().options_mut().catalog.default_schema = self.default_schema.clone();
        let (state, sql) = (Arc::new(state), self.sql.clone());
        let plan = planning::run(PLANNED.scope(planned, async move {
            planning::limits::count_view()?;
            meaning(planning::bound(&state, &sql, &[]).await?, &state)
        }));
        let plan = plan.await.map_err(|error| within(name, error))?;
        Ok(Arc::new(ViewTable::new(plan, Some(self.sql.clone()))))
    }
}

/// The query of the plan of CREATE VIEW, with the types declared to its readers.
pub(crate) fn meaning(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    let LogicalPlan::Ddl(DdlStatement::CreateView(view)) = plan else {
        return Err(Error::Other("its text is not CREATE VIEW".into()));
    };
    let plan = coerced(Arc::unwrap_or_clone(view.input), state)?;
    let mut names = std::collections::HashSet::new();
    match plan.schema().fields().iter().find(|field| !names.insert(field.name().to_ascii_lowercase())) {
        Some(twice) => Err(Error::Plan(format!("view {} would have two columns called {:?}", view.name, twice.name()))),
        None => Ok(plan),
    }
}

/// The plan of a query with the types declared to its readers.
pub(super) fn coerced(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    let rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![Arc::new(TypeCoercion::new()), Arc::new(Subqueries)];
    Ok(Analyzer::with_rules(rules).execute_and_check(plan, state.config_options(), |_, _| {})?)
}

/// Adds a view's name to an error of planning it.
fn within(name: &str, error: Error) -> Error {
    match error {
        Error::Parse(text) => Error::Parse(format!("view '{name}': {text}")),
        Error::Plan(text) => Error::Plan(format!("view '{name}': {text}")),
        Error::Catalog(text) => Error::Catalog(format!("view '{name}': {text}")),
        Error::NotImplemented(text) => Error::NotImplemented(format!("view '{name}': {text}")),
        Error::Io(text) => Error::Io(format!("view '{name}': {text}")),
        error => error,
    }
}
