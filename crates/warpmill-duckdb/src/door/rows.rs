//! Rows of one table, copied from DuckDB's vectors.

use std::ffi::c_void;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use warpmill_format::Table;
use warpmill_format::table::Piece;

use crate::Refused;
use crate::input::{Encoder, Part, VectorView};
use crate::types::Type;

/// Number of rows of a part: that of a row group of DuckDB.
const PART_ROWS: usize = 122_880;

/// A column of a chunk in the layout of DuckDB's flat vectors; see `wm_source` in `duckdb/src/engine.h`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SourceView {
    values: *const c_void,
    validity: *const u64,
}

/// Rows in the order in which they were added.
pub struct Rows {
    schema: SchemaRef,
    types: Vec<Type>,
    parts: Vec<Part>,
}

impl Rows {
    /// An empty collection with the columns of `schema`: lines of a name, a space, and a type.
    pub fn new(schema: &str) -> Result<Self, Refused> {
        let columns = schema.lines().map(|line| {
            let (name, ty) = line.split_once(' ').ok_or_else(|| Refused::new("a column without a type"))?;
            let ty = Type::of_column(ty).ok_or_else(|| Refused::new(format!("a column of the type {ty}")))?;
            Ok((Field::new(name, ty.arrow(), true), ty))
        });
        let (fields, types): (Vec<Field>, Vec<Type>) =
            columns.collect::<Result<Vec<_>, Refused>>()?.into_iter().unzip();
        Ok(Self { schema: Arc::new(Schema::new(fields)), types, parts: vec![] })
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.types.len()
    }

    /// Adds copies of `rows` rows.
    ///
    /// # Safety
    /// The columns are flat vectors of DuckDB's with this many rows, and have the types of this collection.
    pub unsafe fn push(&mut self, rows: usize, columns: &[SourceView]) -> Result<(), Refused> {
        if self.parts.last().is_none_or(|part| part.rows() >= PART_ROWS) {
            let pieces = self.types.iter().map(|ty| Piece::new(&ty.arrow(), false));
            self.parts.push(Part::new(self.types.clone(), pieces.collect::<Result<_, _>>()?));
        }
        let part = self.parts.last_mut().expect("there is one now");
        let views: Vec<_> = columns.iter().map(|view| VectorView::flat(view.values, view.validity)).collect();
        // SAFETY: the caller's promise.
        unsafe { part.push(rows, &views) }
    }

    /// Adds the rows of `other`, which has the same columns.
    pub fn merge(&mut self, mut other: Self) {
        self.parts.append(&mut other.parts);
    }

    /// All rows as a table with the columns of `schema`, encoded by at most `threads` threads.
    pub fn table(self, schema: &SchemaRef, threads: usize) -> Result<Arc<Table>, Refused> {
        if self.schema != *schema {
            return Err(Refused::new("rows with other columns than the plan reads"));
        }
        let encoder = Encoder::new(schema.fields().iter().cloned(), self.types)?;
        self.parts.into_iter().try_for_each(|part| encoder.take(part, None, 0))?;
        Ok(Table::of_columns(&encoder.finish(threads)?.0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::entry;

    fn view<T>(values: &[T], validity: Option<&u64>) -> SourceView {
        SourceView { values: values.as_ptr().cast(), validity: validity.map_or(std::ptr::null(), std::ptr::from_ref) }
    }

    #[test]
    fn columns_are_copied() {
        let mut rows = Rows::new("c0 INTEGER\nc1 VARCHAR\nc2 DECIMAL(15,2)\nc3 BOOLEAN").unwrap();
        let valid = 0b101;
        let texts = [entry("short"), entry(""), entry("longer than twelve bytes")];
        let columns = [
            view(&[1i32, 2, 3], Some(&valid)),
            view(&texts, None),
            view(&[100i64, -1, 7], None),
            view(&[1u8, 0, 1], None),
        ];
        // SAFETY: three rows of these types.
        unsafe { rows.push(3, &columns) }.unwrap();
        let mut other = Rows::new("c0 INTEGER\nc1 VARCHAR\nc2 DECIMAL(15,2)\nc3 BOOLEAN").unwrap();
        // SAFETY: two rows of these types.
        unsafe { other.push(2, &columns) }.unwrap();
        rows.merge(other);
        let schema = Arc::clone(&rows.schema);
        let table = rows.table(&schema, 2).unwrap();
        let snapshot = table.snapshot().unwrap();
        assert_eq!((snapshot.num_rows(), snapshot.column_stats(0).nulls), (5, 2));
        assert_eq!(snapshot.column_stats(0).int_range(), Some((1, 3)));
        assert_eq!(snapshot.column_stats(2).int_range(), Some((-1, 100)));
        assert_eq!(
            snapshot.dictionary(1).unwrap().iter().collect::<Vec<_>>(),
            ["", "longer than twelve bytes", "short"]
        );
    }

    #[test]
    fn infinite_dates_are_refused() {
        for (name, valid, refused) in [("DATE", 1u64, true), ("DATE", 0, false), ("INTEGER", 1, false)] {
            let mut rows = Rows::new(&format!("c0 {name}")).unwrap();
            // SAFETY: one row of this type.
            let pushed = unsafe { rows.push(1, &[view(&[i32::MAX], Some(&valid))]) };
            assert_eq!(pushed.is_err(), refused, "{name} {valid}");
        }
    }

    #[test]
    fn tables_have_the_columns_of_the_plan() {
        let rows = Rows::new("c0 INTEGER").unwrap();
        let other = Arc::new(Schema::new(vec![Field::new("c1", Type::Integer.arrow(), true)]));
        assert!(rows.table(&other, 1).is_err());
        assert!(Rows::new("c0 INTERVAL").is_err() && Rows::new("c0").is_err());
        let rows = Rows::new("c0 INTEGER").unwrap();
        let schema = Arc::clone(&rows.schema);
        assert_eq!(rows.table(&schema, 1).unwrap().snapshot().unwrap().num_rows(), 0);
    }
}
