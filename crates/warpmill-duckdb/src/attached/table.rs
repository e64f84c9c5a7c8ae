//! Versions of tables, as DuckDB's transactions see them.

use std::ffi::CString;
use std::sync::Arc;

use warpmill_format::{Table, TableSnapshot};

use super::Failed;
use crate::Refused;
use crate::abi::c_text;
use crate::plan::Needed;
use crate::types::Type;

/// One version of a table.
pub struct OwnTable {
    /// The table with this version only, also after later writes.
    table: Arc<Table>,
    snapshot: Arc<TableSnapshot>,
    columns: Vec<Column>,
    keys: Vec<Key>,
}

/// A key that the table declares. Warpmill refuses rows that violate it.
pub struct Key {
    /// The positions of its columns.
    pub columns: Vec<u32>,
    /// Whether the key is PRIMARY KEY; otherwise it is UNIQUE.
    pub is_primary: bool,
}

/// A column as DuckDB describes it.
pub struct Column {
    /// The name of the column.
    pub name: CString,
    /// DuckDB's name of its type.
    pub ty: CString,
    /// Whether the column takes NULLs.
    pub nullable: bool,
    /// The SQL text of its default.
    pub default: Option<CString>,
}

impl OwnTable {
    /// The newest version of `table`.
    ///
    /// # Errors
    /// The table is damaged.
    pub fn of(table: &Arc<Table>) -> Result<Self, Failed> {
        let table = table.fork()?;
        let snapshot = table.snapshot()?;
        let columns = snapshot.schema().fields().iter().map(|field| Column {
            name: c_text(field.name()),
            ty: c_text(&warpmill::duckdb_type(field.data_type())),
            nullable: field.is_nullable(),
            default: warpmill::column_default(field).map(c_text),
        });
        let columns = columns.collect();
        let keys = snapshot.constraints().iter().filter_map(|constraint| {
            let columns = constraint.key()?.iter().map(|&column| column as u32).collect();
            Some(Key { columns, is_primary: constraint.is_primary() })
        });
        let keys = keys.collect();
        Ok(Self { table, snapshot, columns, keys })
    }

    /// The version.
    pub fn snapshot(&self) -> &Arc<TableSnapshot> {
        &self.snapshot
    }

    /// The columns of the table.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The keys of the table.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The table for a plan that reads its columns `needed`.
    ///
    /// # Errors
    /// A column whose type differs from that of the plan, or with values that the type of the engine does not have.
    pub fn for_plan(&self, needed: &Needed) -> Result<Arc<Table>, Refused> {
        for (&position, &ty) in needed.positions.iter().zip(&needed.types) {
            let field = self.snapshot.schema().fields().get(position as usize);
            let field = field.ok_or_else(|| Refused::new(format!("column {position} of a table that has fewer")))?;
            if *field.data_type() != ty.arrow() {
                let text = format!("column {:?}, which is stored as {}", field.name(), field.data_type());
                return Err(Refused::new(text));
            }
            self.check_limits(position as usize, ty)?;
        }
        Ok(Arc::clone(&self.table))
    }

    fn check_limits(&self, position: usize, ty: Type) -> Result<(), Refused> {
        let (Some(limits), stats) = (ty.limits(), self.snapshot.column_stats(position)) else { return Ok(()) };
        let known = stats.rows == stats.nulls
            || stats.int_range().is_some_and(|(least, most)| limits.contains(&least) && limits.contains(&most));
        if known { Ok(()) } else { Err(ty.beyond_limits()) }
    }
}
