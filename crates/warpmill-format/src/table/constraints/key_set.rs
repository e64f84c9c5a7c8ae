//! Sets of keys, which are compared with the rows of tables.

use arrow::array::ArrayRef;
use arrow::datatypes::Schema;

use super::keys::{Freed, Twice};
use super::narrow::Narrow;
use super::wide::Wide;
use crate::Result;
use crate::table::TableSnapshot;

/// Number of narrow keys from which on duplicates among them are removed while keys are added.
const MANY: usize = 1 << 20;

/// A set of keys without NULL.
pub(super) enum KeySet {
    Narrow {
        keys: Narrow,
        /// Number of keys, with duplicates, that sorts them.
        limit: usize,
    },
    Wide(Box<Wide>),
}

impl KeySet {
    /// An empty set of keys of the types of these columns.
    pub fn new(schema: &Schema, columns: &[usize]) -> Result<Self> {
        let narrow = match columns {
            [column] => Narrow::of(schema.field(*column).data_type()),
            _ => None,
        };
        Ok(match narrow {
            Some(keys) => Self::Narrow { keys, limit: MANY },
            None => Self::Wide(Box::new(Wide::new(schema, columns)?)),
        })
    }

    /// Bytes that the keys take.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Narrow { keys, .. } => keys.bytes(),
            Self::Wide(keys) => keys.bytes(),
        }
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Narrow { keys, .. } => keys.len() == 0,
            Self::Wide(keys) => keys.is_empty(),
        }
    }

    /// Adds the keys of rows, given as the columns of the key; rows with NULL have none.
    pub fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        match self {
            Self::Narrow { keys, limit } => {
                keys.add(&columns[0])?;
                if keys.len() >= *limit {
                    keys.merge_equal();
                    *limit = MANY.max(2 * keys.len());
                }
                Ok(())
            }
            Self::Wide(keys) => keys.merge(columns),
        }
    }

    /// Removes the keys of another set of the same types.
    pub fn remove(&mut self, others: &mut Self) {
        match (self, others) {
            (Self::Narrow { keys, .. }, Self::Narrow { keys: others, .. }) => {
                keys.merge_equal();
                others.merge_equal();
                keys.remove(others);
            }
            (Self::Wide(keys), Self::Wide(others)) => keys.remove(others),
            _ => {}
        }
    }

    /// Finds a key that a row of `base` has in `columns`, ignoring rows whose keys are `freed`.
    pub fn any_in(&mut self, base: &TableSnapshot, columns: &[usize], freed: &Freed) -> Result<Option<Twice>> {
        match self {
            Self::Narrow { keys, .. } => {
                keys.merge_equal();
                keys.look_up(base, columns[0], freed)
            }
            Self::Wide(keys) => keys.look_up(base, columns, freed),
        }
    }

    /// Finds a key that no row of `base` has in `columns`, ignoring rows whose keys are `freed`.
    pub fn any_missing(&mut self, base: &TableSnapshot, columns: &[usize], freed: &Freed) -> Result<Option<Twice>> {
        match self {
            Self::Narrow { keys, .. } => {
                keys.merge_equal();
                keys.look_up_missing(base, columns[0], freed)
            }
            Self::Wide(keys) => keys.look_up_missing(base, columns, freed),
        }
    }
}

/// The keys that a table's rows lose and gain.
pub(super) struct Exchange {
    /// The columns of the key.
    pub columns: Vec<usize>,
    pub lost: KeySet,
    pub gained: KeySet,
}

impl Exchange {
    /// No change yet of keys in these columns.
    pub fn new(schema: &Schema, columns: Vec<usize>) -> Result<Self> {
        let (lost, gained) = (KeySet::new(schema, &columns)?, KeySet::new(schema, &columns)?);
        Ok(Self { columns, lost, gained })
    }

    /// Bytes that the keys take.
    pub fn bytes(&self) -> usize {
        self.lost.bytes() + self.gained.bytes()
    }
}
