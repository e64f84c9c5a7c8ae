//! Columns with one value per file: its path, and its partition columns.

use std::path::PathBuf;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};

use crate::catalog::{hive, same};
use crate::{Error, Result};

/// Largest number of files with such columns.
const MOST_FILES: usize = 1000;

/// Columns with a value for each file.
pub(super) struct OwnColumns(Vec<(String, Vec<ScalarValue>)>);

impl OwnColumns {
    /// The column `filename`, if requested, and partition columns, if all files have the same; `hive` tells whether these are requested.
    ///
    /// # Errors
    /// Requested partition columns that differ between files.
    pub(super) fn of(function: &str, files: &[String], filename: Option<&str>, hive: Option<bool>) -> Result<Self> {
        let mut columns = vec![];
        if let Some(name) = filename {
            columns.push((name.to_string(), files.iter().map(|file| ScalarValue::from(file.as_str())).collect()));
        }
        if hive != Some(false) {
            let paths: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            match hive::constants(&paths)? {
                Some(folders) => columns.extend(folders),
                None if hive == Some(true) && paths.iter().any(|path| hive::has_keys(path)) => {
                    return Err(Error::Plan(format!("{function}: the files are in folders of different keys")));
                }
                None => {}
            }
        }
        Ok(Self(columns))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses files that are too many for a scan each.
    pub(super) fn check_count(&self, what: &str, files: usize) -> Result<()> {
        match files > MOST_FILES {
            true => {
                Err(Error::Limit(format!("{files} {what} files with columns of their own: {MOST_FILES} are the limit")))
            }
            false => Ok(()),
        }
    }

    /// `columns` with those of file `at`: replacing columns of the same names, then appended.
    pub(super) fn with(&self, mut columns: Vec<Expr>, at: usize) -> Vec<Expr> {
        for (name, values) in &self.0 {
            let value = lit(values[at].clone()).alias(name);
            let place = columns.iter_mut().find(|column| same(&column.schema_name().to_string(), name));
            match place {
                Some(place) => *place = value,
                None => columns.push(value),
            }
        }
        columns
    }
}

/// The rows of all plans.
pub(super) fn union(plans: Vec<LogicalPlan>) -> Result<LogicalPlan> {
    let mut plans = plans.into_iter();
    let first = plans.next().ok_or_else(|| Error::Io("no file is there".into()))?;
    Ok(plans.try_fold(LogicalPlanBuilder::from(first), LogicalPlanBuilder::union)?.build()?)
}
