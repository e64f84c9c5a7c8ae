//! `SET VARIABLE name = value`, `getvariable('name')`.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::Parser;
use parking_lot::RwLock;

use super::running::Query;
use super::statements::Taken;
use super::{QueryResult, Session};
use crate::dialect::order_operators;
use crate::{Error, Result, ScalarValue};

/// The variables of a session: the SQL of their values by lower-case name.
#[derive(Debug, Default)]
pub(crate) struct Variables(RwLock<HashMap<String, String>>);

/// A variable as `duckdb_variables()` tells it.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
    pub(crate) ty: String,
}

impl Variables {
    /// All variables, by name.
    pub(crate) fn all(&self) -> Vec<Variable> {
        let mut names: Vec<String> = self.0.read().keys().cloned().collect();
        names.sort();
        let told = |name: String| match self.get(&name)? {
            Expr::Cast { expr, data_type, .. } => {
                let value = match *expr {
                    Expr::Value(value) => value.value.into_string(),
                    _ => None,
                };
                Some(Variable { name, value, ty: data_type.to_string() })
            }
            _ => Some(Variable { name, value: None, ty: "\"NULL\"".to_string() }),
        };
        names.into_iter().filter_map(told).collect()
    }

    /// The value of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<Expr> {
        let sql = self.0.read().get(&name.to_lowercase()).cloned()?;
        let parser = Parser::new(&DuckDbDialect).try_with_sql(&sql);
        let mut value = parser.and_then(|mut parser| parser.parse_expr()).ok()?;
        order_operators(&mut value);
        Some(value)
    }
}

impl Session {
    /// `SET VARIABLE name = value`: a constant expression, or a query of one value.
    pub(super) async fn set_variable(&self, sql: &str, params: &[ScalarValue], query: &Query) -> Result<Taken> {
        let rest = sql.get("set variable ".len()..).unwrap_or_default().trim_end_matches([';', ' ']);
        let Some((name, value)) = rest.split_once('=') else {
            return Err(Error::Parse(format!("{sql}: expected SET VARIABLE name = value")));
        };
        let name = name.trim().trim_end_matches(':').trim().trim_matches('"').to_lowercase();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(Error::Parse(format!("{sql}: {name:?} is not a valid name of a variable")));
        }
        let text = format!("SELECT typeof(v) AS kind, CAST(v AS VARCHAR) AS v FROM (SELECT ({}) AS v)", value.trim());
        let rows = Box::pin(self.run_statement(&text, params, query)).await?;
        let count: usize = rows.batches.iter().map(arrow::array::RecordBatch::num_rows).sum();
        let [batch] = &rows.batches[..] else {
            return Err(Error::Plan(format!("SET VARIABLE {name}: {count} values, where one is expected")));
        };
        let (kinds, values) = (cast(batch.column(0), &DataType::Utf8)?, cast(batch.column(1), &DataType::Utf8)?);
        let (kind, value) = (kinds.as_string::<i32>().value(0), values.as_string::<i32>());
        let is_plain =
            |kind: &str| !kind.contains(['[', '"']) && !kind.starts_with("STRUCT") && !kind.starts_with("MAP");
        let sql = match values.is_valid(0) && kind != "\"NULL\"" {
            false => "NULL".to_string(),
            true if is_plain(kind) => format!("CAST('{}' AS {kind})", value.value(0).replace('\'', "''")),
            true => return Err(Error::NotImplemented(format!("SET VARIABLE {name}: a value of type {kind}"))),
        };
        self.with_variables(|all| drop(all.insert(name, sql)));
        Ok(Taken::Done(QueryResult::empty()))
    }

    /// `RESET VARIABLE name`.
    pub(super) fn reset_variable(&self, sql: &str) -> Result<Taken> {
        let name =
            sql.get("reset variable ".len()..).unwrap_or_default().trim_end_matches([';', ' ']).trim_matches('"');
        self.with_variables(|all| drop(all.remove(&name.to_lowercase())));
        Ok(Taken::Done(QueryResult::empty()))
    }

    fn with_variables(&self, change: impl FnOnce(&mut HashMap<String, String>)) {
        if let Some(variables) = self.inner.context.copied_config().get_extension::<Variables>() {
            change(&mut variables.0.write());
        }
        // Values are in plans.
        self.inner.settings_changes.fetch_add(1, Ordering::AcqRel);
    }
}
