//! `arg_max(x, y)` and `arg_min` over frames.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef};
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use super::{Frame, accumulator, keys};

pub(super) const ARG_MAX: &str = "frame_arg_max";
pub(super) const ARG_MIN: &str = "frame_arg_min";

/// Whether a function of this name is one of the two.
pub(super) fn is_extreme(name: &str) -> bool {
    matches!(name, ARG_MAX | ARG_MIN)
}

/// The two functions.
pub(super) fn functions() -> impl Iterator<Item = Arc<AggregateUDF>> {
    static FUNCTIONS: LazyLock<[Arc<AggregateUDF>; 2]> = LazyLock::new(|| {
        [false, true].map(|descending| {
            let signature = Signature::user_defined(Volatility::Immutable);
            Arc::new(AggregateUDF::from(Extreme { descending, signature }))
        })
    });
    FUNCTIONS.iter().cloned()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    descending: bool,
    signature: Signature,
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        super::of_extreme(self.descending)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [_, _] => Ok(types.to_vec()),
            _ => plan_err!("{} takes a value and a key", self.name()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let [value, key] = args.expr_fields else { return internal_err!("{} of a value and a key", self.name()) };
        let options = SortOptions { descending: self.descending, nulls_first: false };
        let key = keys(&arrow::array::new_empty_array(key.data_type())).data_type().clone();
        Ok(accumulator(Firsts {
            values: RowConverter::new(vec![SortField::new(value.data_type().clone())])?,
            keys: RowConverter::new(vec![SortField::new_with_options(key, options)])?,
            rows: VecDeque::new(),
            to: args.return_field.data_type().clone(),
            pushed: 0,
            popped: 0,
        }))
    }
}

/// A row that is the first by its key once all before it have left.
#[derive(Debug)]
struct Candidate {
    place: u64,
    key: OwnedRow,
    value: OwnedRow,
}

/// The rows of a frame that may be the first by their keys, in their order: keys ascend.
#[derive(Debug)]
struct Firsts {
    values: RowConverter,
    keys: RowConverter,
    rows: VecDeque<Candidate>,
    to: DataType,
    /// Number of rows that have entered the frame, and of those that have left it.
    pushed: u64,
    popped: u64,
}

impl Frame for Firsts {
    fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let [values, keys] = [&columns[0], &self::keys(&columns[1])].map(ArrayRef::clone);
        let [value_rows, key_rows] = [
            self.values.convert_columns(std::slice::from_ref(&values))?,
            self.keys.convert_columns(std::slice::from_ref(&keys))?,
        ];
        for row in 0..values.len() {
            let place = self.pushed;
            self.pushed += 1;
            if values.is_null(row) || keys.is_null(row) {
                continue;
            }
            let key = key_rows.row(row);
            while self.rows.back().is_some_and(|last| last.key.row() > key) {
                self.rows.pop_back();
            }
            self.rows.push_back(Candidate { place, key: key.owned(), value: value_rows.row(row).owned() });
        }
        Ok(())
    }

    fn remove(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.popped += columns[0].len() as u64;
        while self.rows.front().is_some_and(|first| first.place < self.popped) {
            self.rows.pop_front();
        }
        Ok(())
    }

    fn value(&mut self) -> Result<ScalarValue> {
        match self.rows.front() {
            Some(first) => ScalarValue::try_from_array(&self.values.convert_rows([first.value.row()])?[0], 0),
            None => ScalarValue::try_from(&self.to),
        }
    }

    fn size(&self) -> usize {
        self.rows.capacity() * size_of::<Candidate>()
    }
}
