//! The most frequent value of a frame.

use std::collections::{HashMap, VecDeque};

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use arrow::row::{OwnedRow, RowConverter};
use datafusion::common::{Result, ScalarValue};

use super::{Frame, converter, keys, present};

/// The values of a frame, without NULLs, with their places by value.
#[derive(Debug)]
pub(super) struct Frequencies {
    rows: RowConverter,
    ty: DataType,
    /// From the oldest to the newest.
    values: VecDeque<OwnedRow>,
    /// Number of values that left.
    left: u64,
    /// The places, in the order of values and counted from the first value of all, of each key; equal values have equal keys.
    places: HashMap<OwnedRow, VecDeque<u64>>,
    /// The most frequent key, the first one among equally frequent ones; `None`: to be found.
    best: Option<OwnedRow>,
}

impl Frequencies {
    pub(super) fn new(ty: &DataType) -> Result<Self> {
        Ok(Self {
            rows: converter(ty)?,
            ty: ty.clone(),
            values: VecDeque::new(),
            left: 0,
            places: HashMap::new(),
            best: None,
        })
    }

    fn push(&mut self, value: OwnedRow, key: OwnedRow) {
        let place = self.left + self.values.len() as u64;
        let is_first = self.values.is_empty();
        self.values.push_back(value);
        self.places.entry(key.clone()).or_default().push_back(place);
        let is_best = match &self.best {
            Some(best) => is_before(&self.places[&key], &self.places[best]),
            None => is_first,
        };
        if is_best {
            self.best = Some(key);
        }
    }

    /// Removes the oldest value.
    fn pop(&mut self, key: &OwnedRow) {
        self.values.pop_front();
        self.left += 1;
        if self.best.as_ref() == Some(key) {
            self.best = None;
        }
        if let Some(places) = self.places.get_mut(key) {
            places.pop_front();
            if places.is_empty() {
                self.places.remove(key);
            }
        }
    }
}

/// Whether the value at some places is the mode rather than the one at others.
fn is_before(a: &VecDeque<u64>, b: &VecDeque<u64>) -> bool {
    a.len() > b.len() || a.len() == b.len() && a.front() < b.front()
}

impl Frame for Frequencies {
    fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let (values, keys) = (present(&self.rows, &columns[0])?, present(&self.rows, &keys(&columns[0]))?);
        values.into_iter().zip(keys).for_each(|(value, key)| self.push(value, key));
        Ok(())
    }

    fn remove(&mut self, columns: &[ArrayRef]) -> Result<()> {
        present(&self.rows, &keys(&columns[0]))?.iter().for_each(|key| self.pop(key));
        Ok(())
    }

    fn value(&mut self) -> Result<ScalarValue> {
        if self.best.is_none() {
            let first = self.places.iter().reduce(|best, other| if is_before(other.1, best.1) { other } else { best });
            self.best = first.map(|(key, _)| key.clone());
        }
        let places = self.best.as_ref().and_then(|best| self.places.get(best)?.front());
        match places.and_then(|place| self.values.get((place - self.left) as usize)) {
            Some(value) => ScalarValue::try_from_array(&self.rows.convert_rows([value.row()])?[0], 0),
            None => ScalarValue::try_from(&self.ty),
        }
    }

    fn size(&self) -> usize {
        let places = self.places.len() * size_of::<(OwnedRow, VecDeque<u64>)>();
        places + self.values.capacity() * (size_of::<OwnedRow>() + 2 * size_of::<u64>())
    }
}
