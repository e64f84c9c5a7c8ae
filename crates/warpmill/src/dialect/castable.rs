//! The pairs of types with casts, and the results of missing casts.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, new_null_array};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, exec_err, plan_err};

use super::types::{is_number, is_text, type_name};
use super::uuids::BYTES;
use super::{enums, own_casts};

/// Kinds of types with respect to casts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// NULLs, texts, and types that DuckDB lacks: decided by the computation of the cast.
    Any,
    Number,
    Uuid,
    Bytes,
    Date,
    Time,
    Timestamp,
    /// A moment of all time zones.
    Moment,
    Interval,
    List,
    Struct,
}

impl Kind {
    fn of(ty: &DataType) -> Self {
        use DataType::*;
        match ty {
            Boolean | Decimal256(..) => Kind::Number,
            ty if is_number(ty) => Kind::Number,
            FixedSizeBinary(BYTES) => Kind::Uuid,
            Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => Kind::Bytes,
            Date32 | Date64 => Kind::Date,
            Time32(_) | Time64(_) => Kind::Time,
            Timestamp(_, None) => Kind::Timestamp,
            Timestamp(_, Some(_)) => Kind::Moment,
            Interval(_) | Duration(_) => Kind::Interval,
            Struct(_) => Kind::Struct,
            ty if element(ty).is_some() => Kind::List,
            _ => Kind::Any,
        }
    }
}

/// The element type of a list type.
fn element(ty: &DataType) -> Option<&FieldRef> {
    use DataType::{FixedSizeList, LargeList, LargeListView, List, ListView};
    match ty {
        List(element) | LargeList(element) | FixedSizeList(element, _) | ListView(element) | LargeListView(element) => {
            Some(element)
        }
        _ => None,
    }
}

/// Whether DuckDB has a cast between two types. Numbers cannot be cast to timestamps, times and blobs.
pub(super) fn exists(from: &DataType, to: &DataType) -> bool {
    use Kind::{Any, Bytes, Date, Moment, Time, Timestamp, Uuid};
    match (from, to) {
        (DataType::Dictionary(_, from), to) => return exists(from, to),
        (from, DataType::Dictionary(_, to)) => return exists(from, to),
        // Values of ENUMs are the texts of their members.
        (from, to) if enums::is_enum(to) => return from.is_null() || is_text(from) || enums::is_enum(from),
        (from, to) if enums::is_enum(from) => return exists(&DataType::Utf8, to),
        (DataType::Struct(from), DataType::Struct(to)) => {
            let cast = |to: &FieldRef| {
                let same = from.iter().find(|from| from.name().eq_ignore_ascii_case(to.name()));
                same.is_none_or(|from| exists(from.data_type(), to.data_type()))
            };
            return to.iter().all(cast);
        }
        (from, to) => {
            if let (Some(from), Some(to)) = (element(from), element(to)) {
                return exists(from.data_type(), to.data_type());
            }
        }
    }
    match (Kind::of(from), Kind::of(to)) {
        (Any, _) | (_, Any) | (Uuid, Bytes) | (Bytes, Uuid) => true,
        (Timestamp | Moment, Date | Timestamp | Moment) | (Timestamp, Time) | (Date, Timestamp | Moment) => true,
        (from, to) => from == to,
    }
}

/// Refuses to compare or mix two types without a cast in either direction.
pub(super) fn check_pair(left: &DataType, right: &DataType) -> Result<()> {
    let fits = match own_casts::has_enums(left) || own_casts::has_enums(right) {
        true => enums::common(left, right).is_some(),
        false => exists(left, right) || exists(right, left),
    };
    if fits {
        return Ok(());
    }
    plan_err!("values of the types {} and {} cannot be compared or combined", type_name(left), type_name(right))
}

/// The result of a missing cast: NULL for NULLs, also for NULL elements of lists; otherwise an error, or NULL for `TRY_CAST`.
pub(super) fn refused(array: &ArrayRef, to: &DataType, try_cast: bool) -> Result<ArrayRef> {
    match (array.data_type(), to) {
        (DataType::List(_), DataType::List(element)) => elements::<i32>(array, element, try_cast),
        (DataType::LargeList(_), DataType::LargeList(element)) => elements::<i64>(array, element, try_cast),
        (from, to) => {
            if !try_cast && array.logical_null_count() < array.len() {
                return exec_err!("there is no cast from {} to {}", type_name(from), type_name(to));
            }
            Ok(new_null_array(to, array.len()))
        }
    }
}

fn elements<O: OffsetSizeTrait>(array: &ArrayRef, to: &FieldRef, try_cast: bool) -> Result<ArrayRef> {
    let lists = array.as_list::<O>();
    let (offsets, nulls) = (lists.offsets(), lists.nulls());
    let filled = (0..lists.len()).filter(|&row| lists.is_valid(row));
    for row in filled {
        refused(&lists.value(row), to.data_type(), try_cast)?;
    }
    let values = new_null_array(to.data_type(), lists.values().len());
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(to), offsets.clone(), values, nulls.cloned())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, ListArray};
    use arrow::datatypes::{Field, Int32Type, TimeUnit};

    const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

    #[test]
    fn numbers_are_no_moments_and_no_bytes() {
        use DataType::{Binary, Boolean, Date32, Float64, Int64, Time64, Utf8};
        let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let time = Time64(TimeUnit::Microsecond);
        for (from, to) in [
            (Int64, TIMESTAMP),
            (Float64, zoned.clone()),
            (Boolean, Date32),
            (Int64, time.clone()),
            (Int64, Binary),
            (Binary, Boolean),
            (Date32, time.clone()),
            (DataType::new_list(Int64, true), DataType::new_list(TIMESTAMP, true)),
        ] {
            assert!(!exists(&from, &to), "{from} {to}");
            assert!(!exists(&to, &from), "{to} {from}");
        }
        for (from, to) in [(Boolean, Float64), (Date32, TIMESTAMP), (TIMESTAMP, zoned.clone()), (Utf8, Binary)] {
            assert!(exists(&from, &to) && exists(&to, &from), "{from} {to}");
        }
        assert!(exists(&TIMESTAMP, &time) && !exists(&time, &TIMESTAMP) && !exists(&zoned, &time));
        let uuid = DataType::FixedSizeBinary(BYTES);
        assert!(exists(&uuid, &Binary) && exists(&Binary, &uuid) && exists(&Utf8, &uuid));
        assert!(!exists(&uuid, &Int64) && !exists(&Boolean, &uuid) && !exists(&uuid, &Date32));
        let list = DataType::new_list(Int64, true);
        assert!(exists(&list, &Utf8) && !exists(&list, &Int64) && !exists(&Int64, &list));
    }

    #[test]
    fn fields_are_cast_by_their_names() {
        let of = |fields: Vec<(&str, DataType)>| {
            DataType::Struct(fields.into_iter().map(|(name, ty)| Field::new(name, ty, true)).collect())
        };
        let from = of(vec![("a", DataType::Int32), ("b", DataType::Int32)]);
        assert!(exists(&from, &of(vec![("B", DataType::Int64), ("c", TIMESTAMP)])));
        assert!(!exists(&from, &of(vec![("A", TIMESTAMP)])));
    }

    #[test]
    fn nothing_becomes_nothing() {
        let cast = |array: ArrayRef, to: &DataType, try_cast| refused(&array, to, try_cast);
        let nulls: ArrayRef = Arc::new(Int32Array::from(vec![None, None]));
        assert_eq!(cast(Arc::clone(&nulls), &TIMESTAMP, false).unwrap().null_count(), 2);
        let one: ArrayRef = Arc::new(Int32Array::from(vec![None, Some(1)]));
        let error = cast(Arc::clone(&one), &TIMESTAMP, false).unwrap_err();
        assert!(error.to_string().contains("there is no cast from INTEGER to TIMESTAMP"), "{error}");
        assert_eq!(cast(one, &TIMESTAMP, true).unwrap().null_count(), 2);

        let to = DataType::new_list(TIMESTAMP, true);
        let lists = |rows: Vec<Option<Vec<Option<i32>>>>| -> ArrayRef {
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows))
        };
        let empty = cast(lists(vec![Some(vec![]), None, Some(vec![None])]), &to, false).unwrap();
        assert_eq!((empty.len(), empty.null_count()), (3, 1));
        let full = lists(vec![Some(vec![None, Some(1)])]);
        assert!(cast(Arc::clone(&full), &to, false).is_err());
        let tried = cast(full, &to, true).unwrap();
        assert_eq!((tried.null_count(), tried.as_list::<i32>().value(0).null_count()), (0, 2));
    }
}
