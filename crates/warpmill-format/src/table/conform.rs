//! Storable types, and conversion of batches to a table's schema.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, IntervalUnit, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use crate::segment::UUID_BYTES;
use crate::{FormatError, Result, enums};

/// Levels of nested types in a column's.
const MOST_LEVELS: usize = 32;

/// The type as which values of `data_type` are stored; `None` where they cannot be.
fn stored_type(data_type: &DataType) -> Option<DataType> {
    stored_within(data_type, MOST_LEVELS)
}

/// [`stored_type`] for at most `levels` levels of nesting.
fn stored_within(data_type: &DataType, levels: usize) -> Option<DataType> {
    use DataType::*;
    let stored_field = |field: &Field| {
        let stored = match field.data_type() {
            // Elements of an empty list.
            Null => Int32,
            other => stored_within(other, levels.checked_sub(1)?)?,
        };
        Some(Arc::new(field.clone().with_data_type(stored)))
    };
    Some(match data_type {
        Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 | Float32 | Float64 => {
            data_type.clone()
        }
        Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) | Decimal128(..) => data_type.clone(),
        Float16 => Float32,
        Decimal32(p, s) | Decimal64(p, s) => Decimal128(*p, *s),
        Utf8 | LargeUtf8 | Utf8View => Utf8,
        Dictionary(_, value) => stored_within(value, levels)?,
        List(element) | LargeList(element) | ListView(element) | LargeListView(element) => List(stored_field(element)?),
        FixedSizeList(element, length @ 1..) => FixedSizeList(stored_field(element)?, *length),
        Struct(fields) if !fields.is_empty() => {
            Struct(fields.iter().map(|field| stored_field(field)).collect::<Option<_>>()?)
        }
        Map(entry, ordered) => Map(stored_field(entry)?, *ordered),
        FixedSizeBinary(UUID_BYTES) => data_type.clone(),
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => Binary,
        Interval(_) => Interval(IntervalUnit::MonthDayNano),
        _ => return None,
    })
}

/// The stored schema: every string type becomes `Utf8`, dictionaries become their values. Errors contain the name of a column whose type cannot be
/// stored, or that occurs twice.
pub(crate) fn stored_schema(schema: &Schema) -> Result<SchemaRef> {
    let mut fields = Vec::with_capacity(schema.fields().len());
    for (i, field) in schema.fields().iter().enumerate() {
        let Some(data_type) = stored_type(field.data_type()) else {
            return Err(FormatError::schema(field.name(), format!("type {} cannot be stored", field.data_type())));
        };
        if schema.fields()[..i].iter().any(|f| f.name() == field.name()) {
            return Err(FormatError::schema(field.name(), "there are two columns of this name"));
        }
        let stored = Field::new(field.name(), data_type, field.is_nullable()).with_metadata(field.metadata().clone());
        fields.push(stored);
    }
    Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// Whether values of type `from` can be converted to type `to` with a check of each value, because both are of one kind.
pub(crate) fn converts(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    let from = match from {
        Dictionary(_, value) => value,
        other => other,
    };
    from == to
        || *from == Null
        || match to {
            // Positions mean something else in another ENUM.
            to if enums::is_enum(to) || enums::is_enum(from) => false,
            Utf8 => from.is_string(),
            Float32 | Float64 => from.is_numeric(),
            Decimal128(..) => from.is_integer() || from.is_decimal(),
            Timestamp(_, None) => matches!(from, Timestamp(_, None) | Date32 | Date64),
            Timestamp(_, Some(_)) => matches!(from, Timestamp(_, Some(_))),
            Date32 | Date64 => matches!(from, Date32 | Date64),
            Time32(_) | Time64(_) => matches!(from, Time32(_) | Time64(_)),
            Duration(_) => matches!(from, Duration(_)),
            Interval(_) => matches!(from, Interval(_)),
            Binary => from.is_binary() || matches!(from, FixedSizeBinary(_)),
            List(to) | FixedSizeList(to, _) => {
                element_of(from).is_some_and(|from| converts(from.data_type(), to.data_type()))
            }
            Map(to, _) => matches!(from, Map(from, _) if converts(from.data_type(), to.data_type())),
            Struct(to) => {
                matches!(from, Struct(from) if from.len() == to.len()
                    && from.iter().zip(to).all(|(from, to)| converts(from.data_type(), to.data_type())))
            }
            to => to.is_integer() && from.is_integer(),
        }
}

/// The elements of a type of lists.
fn element_of(data_type: &DataType) -> Option<&Field> {
    use DataType::*;
    match data_type {
        List(element) | LargeList(element) | ListView(element) | LargeListView(element) | FixedSizeList(element, _) => {
            Some(element)
        }
        _ => None,
    }
}

/// Converts `array` to `field`'s type. Errors contain the column's name: a type of another kind, a value out of range, or a NULL in a NOT NULL
/// column.
pub(crate) fn conform_column(array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    let error = |detail: String| FormatError::schema(field.name(), detail);
    let array = if array.data_type() == field.data_type() {
        array.clone()
    } else if converts(array.data_type(), field.data_type()) {
        let converted = strict_cast(array, field.data_type()).map_err(|e| error(e.to_string()))?;
        check_narrowed(array, &converted).map_err(error)?;
        converted
    } else {
        return Err(error(format!("values of type {} in a column of type {}", array.data_type(), field.data_type())));
    };
    if !field.is_nullable() && array.logical_null_count() > 0 {
        return Err(FormatError::NotNull { column: field.name().clone() });
    }
    Ok(array)
}

/// Converts `array` to another type; a value that does not fit is an error, not NULL.
pub(crate) fn strict_cast(array: &dyn Array, to: &DataType) -> std::result::Result<ArrayRef, ArrowError> {
    cast_with_options(array, to, &CastOptions { safe: false, ..CastOptions::default() })
}

/// Refuses numbers beyond 32-bit floats, which Arrow converts to infinity.
fn check_narrowed(array: &ArrayRef, converted: &ArrayRef) -> std::result::Result<(), String> {
    let (Some(wide), Some(narrow)) =
        (array.as_primitive_opt::<Float64Type>(), converted.as_primitive_opt::<Float32Type>())
    else {
        return Ok(());
    };
    match wide
        .iter()
        .zip(narrow)
        .find_map(|(wide, narrow)| wide.filter(|x| x.is_finite() && narrow.is_some_and(|x| x.is_infinite())))
    {
        Some(lost) => Err(format!("{lost:e} is out of range for {}", converted.data_type())),
        None => Ok(()),
    }
}

/// `batch` with the types of `schema`: the same columns in the same order, cast if types of one kind differ.
pub(crate) fn conform(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let found = batch.schema_ref().fields();
    for (i, field) in schema.fields().iter().enumerate() {
        match found.get(i) {
            None => return Err(FormatError::schema(field.name(), "missing in the input")),
            Some(other) if other.name() != field.name() => {
                return Err(FormatError::schema(
                    field.name(),
                    format!("the input has column {:?} there", other.name()),
                ));
            }
            Some(_) => {}
        }
    }
    if let Some(extra) = found.get(schema.fields().len()) {
        return Err(FormatError::schema(extra.name(), "the table has no such column"));
    }
    let columns = batch.columns().iter().zip(schema.fields()).map(|(array, field)| conform_column(array, field));
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns.collect::<Result<_>>()?, &options)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Float64Array;

    #[test]
    fn numbers_do_not_become_infinite() {
        let field = Field::new("x", DataType::Float32, true);
        let column = |values: Vec<Option<f64>>| -> ArrayRef { Arc::new(Float64Array::from(values)) };
        assert!(conform_column(&column(vec![Some(0.1), None, Some(f64::INFINITY), Some(f64::NAN)]), &field).is_ok());
        let error = conform_column(&column(vec![Some(1.0), Some(-1e39)]), &field).unwrap_err().to_string();
        assert!(error.contains("-1e39 is out of range"), "{error}");
    }
}
