//! Internal table names that no text can contain: versions of a table, and tables with row numbers.

use super::{Schema, WarpmillTable};
use crate::{Error, Result};

/// The column of row numbers, whose name no text can contain.
pub(crate) const ROW: &str = "\u{1}row";
/// Prefix of the name of a table with that column.
pub(crate) const NUMBERED: &str = "\u{1}numbered ";
/// Prefix of the name of a table's version, followed by its number and its table.
const VERSION: &str = "\u{1}version ";

/// The name of version `version` of table `name`.
pub(crate) fn version_name(name: &str, version: u64) -> String {
    format!("{VERSION}{version} {name}")
}

/// The beginning of a name for the answer of DESCRIBE, SUMMARIZE or PRAGMA table_info, whose text follows.
const STATEMENT: &str = "\u{1}answer of ";

/// The name of the table that is the answer of DESCRIBE, SUMMARIZE or PRAGMA table_info.
pub(crate) fn statement_name(sql: &str) -> String {
    format!("{STATEMENT}{sql}")
}

/// The statement that `name` is the answer of.
pub(crate) fn named_statement(name: &str) -> Option<&str> {
    name.strip_prefix(STATEMENT)
}

/// The version and the table that `name` is the name of.
fn named_version(name: &str) -> Option<(u64, &str)> {
    let (version, table) = name.strip_prefix(VERSION)?.split_once(' ')?;
    Some((version.parse().ok()?, table))
}

impl Schema {
    /// A version of a table, or a table with row numbers; `None` for other names.
    pub(super) fn special(&self, name: &str) -> Result<Option<WarpmillTable>> {
        if let Some(name) = name.strip_prefix(NUMBERED) {
            let table = self.warpmill_table(name)?;
            return table.map(|table| WarpmillTable::numbered(name, table)).transpose();
        }
        let Some((version, name)) = named_version(name) else { return Ok(None) };
        match self.warpmill_table(name)? {
            Some(table) => WarpmillTable::at(name, table, version).map(Some),
            None => match self.kind(name)? {
                Some(_) => Err(Error::Catalog(format!("'{name}' is no table of Warpmill: it has no versions"))),
                None => Err(Error::Catalog(format!("table '{name}' not found"))),
            },
        }
    }
}
