//! Checks the rows of a writer against a table's constraints.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;

use super::foreign::{ForeignKey, kept};
use super::keys::Key;
use super::referrers::Referrers;
use super::{Constraint, Relatives, RowCheck, Rows};
use crate::table::{Changes, TableSnapshot};
use crate::{FormatError, Result};

/// The constraints of a table while rows are written.
pub(crate) struct Guard {
    constraints: Arc<[Constraint]>,
    schema: SchemaRef,
    keys: Vec<Key>,
    foreign: Vec<ForeignKey>,
    /// The foreign keys of other tables, once rows lose keys.
    referrers: Option<Referrers>,
    relatives: Option<Arc<dyn Relatives>>,
    rows: Rows,
    /// A version all of whose rows are replaced.
    replaced: Option<Arc<TableSnapshot>>,
    /// Bytes that keys of new rows may take.
    most_bytes: usize,
}

impl Guard {
    /// A guard for a table with these constraints and this schema; keys may take `most_bytes` bytes.
    pub fn new(constraints: Arc<[Constraint]>, schema: &SchemaRef, most_bytes: usize) -> Result<Self> {
        let (mut keys, mut foreign, schema) = (vec![], vec![], Arc::clone(schema));
        for constraint in &*constraints {
            keys.extend(Key::of(constraint, &schema)?);
            foreign.extend(ForeignKey::of(constraint, &schema)?);
        }
        let (referrers, relatives, rows, replaced) = (None, None, None, None);
        Ok(Self { constraints, schema, keys, foreign, referrers, relatives, rows, replaced, most_bytes })
    }

    /// The table's constraints.
    pub fn constraints(&self) -> &Arc<[Constraint]> {
        &self.constraints
    }

    /// Sets the evaluator of CHECK conditions.
    pub fn evaluate_by(&mut self, rows: Arc<dyn RowCheck>) {
        self.rows = Some(rows);
    }

    /// Sets the tables to which foreign keys relate the table.
    pub fn relate(&mut self, relatives: Arc<dyn Relatives>) {
        self.relatives = Some(relatives);
    }

    /// Lets foreign keys be: the new rows have the keys of the rows that they replace.
    pub fn keep_references(&mut self) {
        self.foreign.clear();
    }

    /// Checks as if all rows of a version were deleted, too.
    pub fn replace(&mut self, old: Arc<TableSnapshot>) {
        self.replaced = Some(old);
    }

    /// The evaluator of CHECK conditions; `None` without conditions.
    fn conditions(&self) -> Result<Option<&dyn RowCheck>> {
        let any = self.constraints.iter().any(|constraint| matches!(constraint, Constraint::Check(_)));
        match &self.rows {
            _ if !any => Ok(None),
            Some(rows) => Ok(Some(&**rows)),
            None => {
                Err(FormatError::Catalog("a table with CHECK constraints is written through SQL sessions only".into()))
            }
        }
    }

    /// Checks new rows, of the table's types.
    ///
    /// # Errors
    /// [`FormatError::Constraint`] if a condition is false, or two rows have the same key (this may also be detected by [`Guard::finish`]);
    /// [`FormatError::Memory`].
    pub fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        if self.constraints.is_empty() {
            return Ok(());
        }
        self.lose_replaced()?;
        let of = |columns: &[usize]| -> Vec<ArrayRef> { columns.iter().map(|&c| rows.column(c).clone()).collect() };
        if let Some(conditions) = self.conditions()? {
            conditions.check(&of(conditions.columns()), rows.num_rows())?;
        }
        for key in &mut self.keys {
            let columns = of(key.columns());
            key.add(&columns)?;
        }
        self.foreign.iter_mut().try_for_each(|foreign| foreign.add(rows.columns()))?;
        self.referrers.iter_mut().try_for_each(|referrers| referrers.add(rows.columns()))?;
        self.check_memory()
    }

    /// Checks changes of rows.
    ///
    /// # Errors
    /// The errors of [`Guard::add`] and of reading.
    pub fn change(&mut self, changes: &Changes) -> Result<()> {
        if self.constraints.is_empty() {
            return Ok(());
        }
        if let Some(conditions) = self.conditions()? {
            for segment in changes.segments() {
                if let Some(columns) = changes.updated(segment, conditions.columns())? {
                    conditions.check(&columns, columns.first().map_or(0, |column| column.len()))?;
                }
            }
        }
        self.keys.iter_mut().try_for_each(|key| key.change(changes))?;
        self.foreign.iter_mut().try_for_each(|foreign| foreign.change(changes))?;
        let is_freed = |key: &Key| changes.segments().any(|segment| changes.freed(segment, key.columns()).is_some());
        if self.keys.iter().any(is_freed) {
            let mut referrers = self.lock_referrers()?;
            referrers.change(changes)?;
            self.referrers = Some(referrers);
        }
        self.check_memory()
    }

    fn lock_referrers(&self) -> Result<Referrers> {
        Referrers::lock(&self.constraints, &self.schema, self.relatives.as_ref())
    }

    /// Takes the keys of a version whose rows are all replaced.
    fn lose_replaced(&mut self) -> Result<()> {
        if let Some(old) = self.replaced.take().filter(|old| old.num_rows() > 0) {
            let mut referrers = self.lock_referrers()?;
            referrers.lose_all(&old)?;
            self.referrers = Some(referrers);
        }
        Ok(())
    }

    /// Checks for duplicate keys among the new rows and the rows of `base`, the version being written on, that keep their keys, and foreign keys.
    ///
    /// # Errors
    /// [`FormatError::Constraint`] for a duplicate, a foreign key without its key, or a lost key that is referenced; [`FormatError::Changed`]; errors
    /// of reading.
    pub fn finish(&mut self, base: Option<&TableSnapshot>) -> Result<()> {
        self.lose_replaced()?;
        self.keys.iter_mut().try_for_each(|key| key.finish(base))?;
        let relatives = self.relatives.as_deref();
        self.foreign.iter_mut().try_for_each(|foreign| foreign.finish(base, relatives))?;
        let name = relatives.map_or("", Relatives::name);
        self.referrers.iter_mut().try_for_each(|referrers| referrers.finish(name))
    }

    fn check_memory(&self) -> Result<()> {
        let of_keys = self.keys.iter().map(Key::bytes).chain(self.foreign.iter().map(ForeignKey::bytes));
        let bytes = of_keys.chain(self.referrers.as_ref().map(Referrers::bytes)).sum::<usize>();
        let most = self.most_bytes;
        match bytes > most {
            true => Err(FormatError::Memory(format!("the keys of new rows take {bytes} bytes, more than {most}"))),
            false => Ok(()),
        }
    }
}

/// Checks the rows of `base` against new constraints.
///
/// # Errors
/// [`FormatError::Constraint`] for a duplicate key; errors of reading.
pub(crate) fn check_rows(base: &TableSnapshot, constraints: &[Constraint], schema: &SchemaRef) -> Result<()> {
    for constraint in constraints {
        let Some(mut key) = Key::of(constraint, schema)? else { continue };
        for segment in 0..base.num_segments() {
            let columns = kept(base, segment, key.columns(), None)?;
            key.add(&columns)?;
        }
        key.finish(None)?;
    }
    Ok(())
}
