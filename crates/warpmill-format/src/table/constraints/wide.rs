//! Keys of any types and several columns: rows of bytes that are equal where the values are, in a hash table.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Datum, Scalar};
use arrow::compute::kernels::cmp::eq;
use arrow::compute::{concat, filter, max, max_string, min, min_string, or_kleene};
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type, Schema};
use arrow::row::{Row, RowConverter, Rows, SortField};
use hashbrown::HashTable;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use xxhash_rust::xxh3::xxh3_64;

use super::keys::{Freed, Twice, without_key};
use super::places::{Place, first_of};
use crate::table::TableSnapshot;
use crate::{Bitmap, Result, StatValue, enums};

/// Up to this number of new keys are first compared with the first column of a row segment without decoding it.
const FEW: usize = 8;

/// The keys of new rows.
pub(super) struct Wide {
    converter: RowConverter,
    rows: Rows,
    places: HashTable<usize>,
    /// By column, the least and the greatest value; `None` if unknown.
    bounds: Vec<Option<(StatValue, StatValue)>>,
    /// The values of the first column, as long as there are few.
    few: Option<Vec<ArrayRef>>,
}

impl Wide {
    /// No keys yet, for these columns.
    pub fn new(schema: &Schema, columns: &[usize]) -> Result<Self> {
        let field = |column: &usize| match schema.field(*column).data_type() {
            ty if enums::is_enum(ty) => SortField::new(DataType::UInt32),
            ty => SortField::new(ty.clone()),
        };
        let fields = columns.iter().map(field);
        let converter = RowConverter::new(fields.collect())?;
        let rows = converter.empty_rows(0, 0);
        Ok(Self { converter, rows, places: HashTable::new(), bounds: vec![], few: Some(vec![]) })
    }

    /// Bytes that the keys take.
    pub fn bytes(&self) -> usize {
        self.rows.size() + self.places.capacity() * (size_of::<usize>() + 1)
    }

    /// Adds the keys of rows; rows with NULL have none. Returns a duplicate key, if any.
    pub fn add(&mut self, columns: &[ArrayRef]) -> Result<Option<Twice>> {
        let columns = without_nulls(columns, None)?;
        let rows = columns[0].len();
        if rows == 0 {
            return Ok(None);
        }
        self.note(&columns)?;
        let first = self.rows.num_rows();
        self.converter.append(&mut self.rows, &columns)?;
        let Self { rows: all, places, .. } = self;
        places.reserve(rows, |&place| xxh3_64(all.row(place).as_ref()));
        for row in 0..rows {
            let own = all.row(first + row);
            let hash = xxh3_64(own.as_ref());
            if places.find(hash, |&place| all.row(place) == own).is_some() {
                return Ok(Some(Twice { values: columns, row }));
            }
            places.insert_unique(hash, first + row, |&place| xxh3_64(all.row(place).as_ref()));
        }
        Ok(None)
    }

    /// Adds the keys of rows as a set: equal ones count once, rows with NULL have none.
    pub fn merge(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let columns = without_nulls(columns, None)?;
        if columns[0].is_empty() {
            return Ok(());
        }
        self.note(&columns)?;
        let new = self.converter.convert_columns(&columns)?;
        let Self { rows: all, places, .. } = self;
        for row in &new {
            let hash = xxh3_64(row.as_ref());
            if places.find(hash, |&place| all.row(place) == row).is_none() {
                let place = all.num_rows();
                all.push(row);
                places.insert_unique(hash, place, |&place| xxh3_64(all.row(place).as_ref()));
            }
        }
        Ok(())
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Removes the keys of another set.
    pub fn remove(&mut self, others: &Self) {
        for &other in &others.places {
            let key = others.rows.row(other);
            let Self { rows, places, .. } = self;
            if let Ok(found) = places.find_entry(xxh3_64(key.as_ref()), |&place| rows.row(place) == key) {
                found.remove();
            }
        }
    }

    /// Notes bounds, and values of the first column as long as they are few.
    fn note(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let rows = columns[0].len();
        let few = self.few.take().filter(|few| few.iter().map(|part| part.len()).sum::<usize>() + rows <= FEW);
        self.few = few.map(|mut few| {
            few.push(columns[0].clone());
            few
        });
        self.note_bounds(columns)
    }

    fn note_bounds(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let new = columns.iter().map(bounds).collect::<Result<Vec<_>>>()?;
        if self.bounds.is_empty() {
            self.bounds = new;
            return Ok(());
        }
        for (known, new) in self.bounds.iter_mut().zip(new) {
            *known = known.take().zip(new).map(|((least, greatest), (new_least, new_greatest))| {
                (
                    if new_least < least { new_least } else { least },
                    if new_greatest > greatest { new_greatest } else { greatest },
                )
            });
        }
        Ok(())
    }

    /// Finds a key that a row of `base` also has in `columns`, ignoring rows whose keys are `freed`.
    pub fn look_up(&self, base: &TableSnapshot, columns: &[usize], freed: &Freed) -> Result<Option<Twice>> {
        if self.is_empty() {
            return Ok(None);
        }
        let few = self.first_values()?;
        if let Some(values) = few.as_ref().filter(|values| *values.data_type() == DataType::Utf8)
            && let Some(dictionary) = base.dictionary(columns[0])
            && values.as_string::<i32>().iter().flatten().all(|value| dictionary.code(value).is_none())
        {
            return Ok(None);
        }
        let place = |segment: usize| Place { base, segment, column: columns[0] };
        let may_be_in = |segment: &usize| self.may_be_in(place(*segment), &columns[1..]);
        let segments: Vec<usize> = (0..base.num_segments()).filter(may_be_in).collect();
        let found = first_of(&segments, |&segment| {
            let place = place(segment);
            self.look_up_in(place, &columns[1..], few.as_ref(), freed).transpose()
        });
        found.transpose()
    }

    /// The values of the first column, if they are few.
    fn first_values(&self) -> Result<Option<ArrayRef>> {
        let Some(few) = &self.few else { return Ok(None) };
        let parts: Vec<&dyn Array> = few.iter().map(|part| &**part).collect();
        Ok(Some(concat(&parts)?))
    }

    /// Finds a key that no row of `base` has in `columns`, ignoring rows whose keys are `freed`.
    pub fn look_up_missing(&self, base: &TableSnapshot, columns: &[usize], freed: &Freed) -> Result<Option<Twice>> {
        if self.is_empty() {
            return Ok(None);
        }
        let few = self.first_values()?;
        let found: Vec<AtomicBool> = (0..self.rows.num_rows()).map(|_| AtomicBool::new(false)).collect();
        (0..base.num_segments()).into_par_iter().try_for_each(|segment| -> Result<()> {
            let first = Place { base, segment, column: columns[0] };
            let there = self.candidates(first, &columns[1..], few.as_ref(), freed)?;
            let there = there.iter().flat_map(|(_, rows)| rows.iter());
            there.filter_map(|row| self.place_of(row)).for_each(|place| found[place].store(true, Ordering::Relaxed));
            Ok(())
        })?;
        let missing = self.places.iter().filter(|&&place| !found[place].load(Ordering::Relaxed)).min();
        let twice = missing.map(|&place| -> Result<Twice> {
            Ok(Twice { values: self.converter.convert_rows([self.rows.row(place)])?, row: 0 })
        });
        twice.transpose()
    }

    /// The number of the row that has this key, if it is one of the keys.
    fn place_of(&self, key: Row<'_>) -> Option<usize> {
        self.places.find(xxh3_64(key.as_ref()), |&place| self.rows.row(place) == key).copied()
    }

    /// Finds a key that a row of one row segment also has, ignoring rows whose keys are `freed`. `first` is the first column of the key, `others` are
    /// the others, `few` the new values of the first, if they are few.
    fn look_up_in(
        &self,
        first: Place<'_>,
        others: &[usize],
        few: Option<&ArrayRef>,
        freed: &Freed,
    ) -> Result<Option<Twice>> {
        let Some((values, found)) = self.candidates(first, others, few, freed)? else { return Ok(None) };
        let row = (0..found.num_rows()).find(|&row| self.place_of(found.row(row)).is_some());
        Ok(row.map(|row| Twice { values, row }))
    }

    /// The keys of the rows of one row segment that may have one of the keys; arguments as above.
    fn candidates(
        &self,
        first: Place<'_>,
        others: &[usize],
        few: Option<&ArrayRef>,
        freed: &Freed,
    ) -> Result<Option<(Vec<ArrayRef>, Rows)>> {
        let Place { base, segment, column } = first;
        let freed = without_key(base, segment, freed)?;
        let freed = freed.as_deref();
        if freed.is_some_and(Bitmap::all) {
            return Ok(None);
        }
        if let Some(values) = few.filter(|values| *values.data_type() == DataType::Utf8)
            && base.dictionary(column).is_none()
        {
            let texts: Vec<&str> = values.as_string::<i32>().iter().flatten().collect();
            if !first.may_have_text(&texts)? {
                return Ok(None);
            }
        }
        let rows = base.segment_rows(segment);
        let mut kept = freed.map(|freed| (0..rows).map(|row| Some(!freed.get(row))).collect::<BooleanArray>());
        let first = normal(&base.array(segment, column)?);
        if let Some(values) = few {
            let equal = equal_to_any(&first, values)?;
            if equal.true_count() == 0 {
                return Ok(None);
            }
            kept = Some(match kept {
                Some(kept) => arrow::compute::and(&kept, &equal)?,
                None => equal,
            });
        }
        let mut arrays = vec![first];
        for &column in others {
            arrays.push(base.array(segment, column)?);
        }
        let arrays = without_nulls(&arrays, kept)?;
        let found = self.converter.convert_columns(&arrays)?;
        Ok(Some((arrays, found)))
    }

    /// Whether the bounds of a row segment admit one of the keys.
    fn may_be_in(&self, first: Place<'_>, others: &[usize]) -> bool {
        let columns = std::iter::once(&first.column).chain(others);
        columns.zip(&self.bounds).all(|(column, bounds)| {
            let stats = first.base.segment_stats(first.segment, *column);
            let below = |a: &Option<StatValue>, b: &StatValue| a.as_ref().is_some_and(|a| a < b);
            let above = |a: &Option<StatValue>, b: &StatValue| a.as_ref().is_some_and(|a| a > b);
            let is_out = bounds
                .as_ref()
                .is_some_and(|(least, greatest)| below(&stats.max, least) || above(&stats.min, greatest));
            stats.nulls < stats.rows && !is_out
        })
    }
}

/// The `kept` rows without NULL in any column, in normal form.
fn without_nulls(columns: &[ArrayRef], kept: Option<BooleanArray>) -> Result<Vec<ArrayRef>> {
    let columns: Vec<ArrayRef> = columns.iter().map(normal).collect();
    let mut kept = kept;
    for column in &columns {
        if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
            let valid = BooleanArray::new(nulls.inner().clone(), None);
            kept = Some(match kept {
                Some(kept) => arrow::compute::and(&kept, &valid)?,
                None => valid,
            });
        }
    }
    match kept {
        None => Ok(columns),
        Some(kept) => columns.iter().map(|column| Ok(filter(column, &kept)?)).collect(),
    }
}

/// Normalizes floats so that values equal in SQL have equal bits (one zero, one NaN), and ENUMs to positions. Other values are unchanged.
fn normal(array: &ArrayRef) -> ArrayRef {
    if let Some(positions) = enums::positions(array) {
        return Arc::new(positions);
    }
    match array.data_type() {
        DataType::Float32 => {
            let floats = array.as_primitive::<Float32Type>();
            Arc::new(floats.unary::<_, Float32Type>(|x| if x.is_nan() { f32::NAN } else { x + 0.0 }))
        }
        DataType::Float64 => {
            let floats = array.as_primitive::<Float64Type>();
            Arc::new(floats.unary::<_, Float64Type>(|x| if x.is_nan() { f64::NAN } else { x + 0.0 }))
        }
        _ => array.clone(),
    }
}

/// The rows of `column` that are equal to one of `values`, which are few.
fn equal_to_any(column: &ArrayRef, values: &ArrayRef) -> Result<BooleanArray> {
    let mut equal = BooleanArray::new(arrow::buffer::BooleanBuffer::new_unset(column.len()), None);
    for at in 0..values.len() {
        let value = Scalar::new(values.slice(at, 1));
        equal = or_kleene(&equal, &eq(&column as &dyn Datum, &value as &dyn Datum)?)?;
    }
    // NULL is equal to none.
    Ok(match equal.nulls() {
        Some(nulls) => BooleanArray::new(equal.values() & nulls.inner(), None),
        None => equal,
    })
}

/// The least and the greatest of values without NULL; `None` for types without bounds in statistics.
fn bounds(array: &ArrayRef) -> Result<Option<(StatValue, StatValue)>> {
    let of_strings = || {
        let strings = array.as_string::<i32>();
        let bound = |value: &str| StatValue::Str(value.to_owned());
        Some((bound(min_string(strings)?), bound(max_string(strings)?)))
    };
    let of_decimals = || {
        let decimals = array.as_primitive::<Decimal128Type>();
        Some((StatValue::Int(min(decimals)?), StatValue::Int(max(decimals)?)))
    };
    Ok(match array.data_type() {
        DataType::Utf8 => of_strings(),
        DataType::Decimal128(..) => of_decimals(),
        ty => match super::narrow::Narrow::of(ty) {
            Some(_) => super::narrow::bounds(array)?,
            None => None,
        },
    })
}
