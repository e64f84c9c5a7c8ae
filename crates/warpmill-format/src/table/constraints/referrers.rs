//! Foreign keys of other tables to the table that is written: no key that rows lose may be referenced any more.
//!
//! The referring tables stay locked until the writer has committed or its transaction has ended, and writers of these tables look at the newest keys
//! with their own lock held: a key cannot go while a reference to it comes.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Schema, SchemaRef};

use super::foreign::{columns_of, described, kept, positions, referenced, unrelated};
use super::key_set::Exchange;
use super::keys::Freed;
use super::{Constraint, Relatives};
use crate::Result;
use crate::table::{Changes, TableSnapshot, WriterLock};

/// Foreign keys of other tables while rows are written.
pub(super) struct Referrers {
    found: Vec<Referrer>,
    #[expect(dead_code, reason = "held for its drop")]
    locks: Vec<WriterLock>,
}

/// A foreign key of another table.
struct Referrer {
    /// The name of the table.
    name: String,
    table: Arc<TableSnapshot>,
    /// Its columns.
    columns: Vec<usize>,
    /// The names of the referenced columns.
    names: Vec<String>,
    /// The referenced keys.
    keys: Exchange,
}

impl Referrers {
    /// Locks the tables that have foreign keys to a table with these constraints and this schema.
    ///
    /// # Errors
    /// [`FormatError::Locked`](crate::FormatError::Locked), [`FormatError::Changed`](crate::FormatError::Changed) if others are writing one, or have
    /// since the transaction began; errors of opening one.
    pub fn lock(
        constraints: &[Constraint],
        schema: &SchemaRef,
        relatives: Option<&Arc<dyn Relatives>>,
    ) -> Result<Self> {
        let (mut found, mut locks) = (vec![], vec![]);
        // In order: a table that is being renamed has an entry for its new name behind that for the old one.
        for constraint in constraints {
            let Constraint::ReferencedBy(name) = constraint else { continue };
            let relatives = relatives.ok_or_else(unrelated)?;
            let Some(table) = relatives.table(name)? else { continue };
            locks.extend(table.hold_for_others()?);
            let table = table.snapshot()?;
            for foreign in table.constraints().iter() {
                let Constraint::ForeignKey { columns, table: Some(to), keys } = foreign else { continue };
                if to.eq_ignore_ascii_case(relatives.name()) {
                    let (name, columns, names) = (name.clone(), columns.clone(), keys.clone());
                    let keys = Exchange::new(schema, positions(schema, keys)?)?;
                    found.push(Referrer { name, table: Arc::clone(&table), columns, names, keys });
                }
            }
        }
        // Without rows, they refer to no key.
        found.retain(|referrer| referrer.table.num_rows() > 0);
        Ok(Self { found, locks })
    }

    /// Bytes that keys take.
    pub fn bytes(&self) -> usize {
        self.found.iter().map(|referrer| referrer.keys.bytes()).sum()
    }

    /// Adds new rows, given as all of the table's columns.
    pub fn add(&mut self, rows: &[ArrayRef]) -> Result<()> {
        self.found.iter_mut().try_for_each(|one| one.keys.gained.add(&columns_of(rows, &one.keys.columns)))
    }

    /// Adds changes of rows.
    pub fn change(&mut self, changes: &Changes) -> Result<()> {
        for one in &mut self.found {
            let Exchange { columns, lost, gained } = &mut one.keys;
            for segment in changes.segments() {
                if let Some(freed) = changes.freed(segment, columns) {
                    lost.add(&kept(changes.table(), segment.segment(), columns, Some(&freed))?)?;
                }
                if let Some(updated) = changes.updated(segment, columns)? {
                    gained.add(&updated)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the loss of all rows of a version.
    pub fn lose_all(&mut self, old: &TableSnapshot) -> Result<()> {
        for Referrer { keys: Exchange { columns, lost, .. }, .. } in &mut self.found {
            for segment in 0..old.num_segments() {
                lost.add(&kept(old, segment, columns, None)?)?;
            }
        }
        Ok(())
    }

    /// Checks that no key that rows have lost is referenced.
    ///
    /// # Errors
    /// [`FormatError::Constraint`](crate::FormatError::Constraint); errors of reading.
    pub fn finish(&mut self, own: &str) -> Result<()> {
        for one in &mut self.found {
            let Exchange { lost, gained, .. } = &mut one.keys;
            lost.remove(gained);
            if let Some(key) = lost.any_in(&one.table, &one.columns, &Freed::new())? {
                let schema: &Schema = one.table.schema();
                let foreign = described(schema, &one.columns, &one.name, own, &one.names);
                return Err(referenced(schema, &one.columns, &key, &foreign, "a different table"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow::array::{Int64Array, RecordBatch, StringArray};
    use arrow::datatypes::{DataType, Field};

    use super::*;
    use crate::FormatError;
    use crate::table::tests::small;
    use crate::table::{Table, TableWriter};

    /// Tables by name, for the writer of one of them.
    struct Tables(&'static str, HashMap<&'static str, Arc<Table>>);

    impl Relatives for Tables {
        fn name(&self) -> &str {
            self.0
        }

        fn table(&self, name: &str) -> Result<Option<Arc<Table>>> {
            Ok(self.1.get(name).cloned())
        }
    }

    fn table(constraints: Vec<Constraint>) -> Arc<Table> {
        let fields = [("id", DataType::Int64), ("text", DataType::Utf8)];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
        let table = Table::in_memory(Arc::new(Schema::new(fields.to_vec())));
        let mut writer = table.append(small()).unwrap();
        writer.declare(constraints).unwrap();
        writer.commit().unwrap();
        table
    }

    /// A table with keys, and one with foreign keys of one column and of two to it.
    fn pair() -> HashMap<&'static str, Arc<Table>> {
        let unique = |columns: &[usize]| Constraint::Unique { columns: columns.to_vec(), index: None };
        let keys = vec![unique(&[0]), unique(&[1, 0]), Constraint::ReferencedBy("gone".into())];
        let p = table([keys, vec![Constraint::ReferencedBy("c".into())]].concat());
        let foreign = |columns: &[usize], keys: &[&str]| Constraint::ForeignKey {
            columns: columns.to_vec(),
            table: Some("p".into()),
            keys: keys.iter().map(|key| key.to_string()).collect(),
        };
        let c = table(vec![foreign(&[0], &["id"]), foreign(&[1, 0], &["text", "id"])]);
        HashMap::from([("p", p), ("c", c)])
    }

    fn writer(tables: &HashMap<&'static str, Arc<Table>>, name: &'static str) -> Result<TableWriter> {
        let mut writer = tables[name].append(small())?;
        writer.relate(Arc::new(Tables(name, tables.clone())));
        Ok(writer)
    }

    fn append(tables: &HashMap<&'static str, Arc<Table>>, name: &'static str, rows: &[(i64, &str)]) -> Result<()> {
        let ids = rows.iter().map(|(id, _)| Some(*id).filter(|id| *id >= 0));
        let texts = rows.iter().map(|(_, text)| Some(*text).filter(|text| !text.is_empty()));
        let columns: Vec<ArrayRef> =
            vec![Arc::new(ids.collect::<Int64Array>()), Arc::new(texts.collect::<StringArray>())];
        let schema = tables[name].snapshot()?.schema().clone();
        let mut writer = writer(tables, name)?;
        writer.write(&RecordBatch::try_new(schema, columns)?)?;
        writer.commit().map(drop)
    }

    fn delete(tables: &HashMap<&'static str, Arc<Table>>, name: &'static str, row: u64) -> Result<()> {
        let mut writer = writer(tables, name)?;
        let mut changes = Changes::new(writer.base().unwrap(), vec![]);
        assert!(changes.delete(row));
        writer.change(&changes)?;
        writer.commit().map(drop)
    }

    fn text(result: Result<()>) -> String {
        match result {
            Err(FormatError::Constraint(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn keys_are_there_as_long_as_rows_refer_to_them() {
        let tables = pair();
        append(&tables, "p", &[(1, "a"), (2, "b"), (3, "")]).unwrap();
        append(&tables, "c", &[(1, "a"), (-1, "q"), (3, ""), (1, "a")]).unwrap();
        let missing = text(append(&tables, "c", &[(1, ""), (7, "")]));
        assert!(
            missing.contains("\"id: 7\" does not exist in the referenced table \"p\": FOREIGN KEY (id)"),
            "{missing}"
        );
        let missing = text(append(&tables, "c", &[(1, "b")]));
        assert!(missing.contains("\"text: b, id: 1\" does not exist"), "{missing}");
        let there = text(delete(&tables, "p", 0));
        assert!(there.contains("\"id: 1\" is still referenced") && there.contains("of table \"c\""), "{there}");
        delete(&tables, "p", 1).unwrap();
        assert_eq!(tables["p"].snapshot().unwrap().num_rows(), 2);
    }

    #[test]
    fn tables_that_refer_are_locked_while_keys_go() {
        let tables = pair();
        append(&tables, "p", &[(1, "a"), (2, "b")]).unwrap();
        let held = tables["c"].append(small()).unwrap();
        assert!(matches!(delete(&tables, "p", 0), Err(FormatError::Locked { .. })));
        append(&tables, "p", &[(3, "c")]).unwrap();
        drop(held);
        let fork = tables["c"].fork().unwrap();
        let in_transaction = HashMap::from([("p", tables["p"].fork().unwrap()), ("c", fork)]);
        delete(&in_transaction, "p", 0).unwrap();
        assert!(matches!(append(&tables, "c", &[(1, "a")]), Err(FormatError::Locked { .. })));
        crate::table::transaction::end(in_transaction.into_values());
        append(&tables, "c", &[(1, "a")]).unwrap();
    }

    #[test]
    fn a_key_that_others_have_removed_is_none() {
        let tables = pair();
        append(&tables, "p", &[(1, "a"), (2, "b")]).unwrap();
        let own = HashMap::from([("p", tables["p"].fork().unwrap()), ("c", tables["c"].fork().unwrap())]);
        delete(&tables, "p", 0).unwrap();
        assert!(matches!(append(&own, "c", &[(1, "a")]), Err(FormatError::Changed { .. })));
        append(&own, "c", &[(2, "b")]).unwrap();
        assert!(matches!(delete(&tables, "p", 0), Err(FormatError::Locked { .. })));
        crate::table::transaction::end(own.into_values());
    }

    #[test]
    fn writers_without_the_related_tables_write_none() {
        let tables = pair();
        append(&tables, "p", &[(1, "a")]).unwrap();
        let mut writer = tables["c"].append(small()).unwrap();
        let schema = writer.schema().clone();
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(vec![1])), Arc::new(StringArray::from(vec![None::<&str>]))];
        writer.write(&RecordBatch::try_new(schema, columns).unwrap()).unwrap();
        assert!(matches!(writer.commit(), Err(FormatError::Catalog(_))));
        let mut writer = tables["p"].append(small()).unwrap();
        let mut changes = Changes::new(writer.base().unwrap(), vec![]);
        changes.delete_all();
        assert!(matches!(writer.change(&changes), Err(FormatError::Catalog(_))));
    }
}
