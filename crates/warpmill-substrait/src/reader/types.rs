//! Conversion of Substrait types to Arrow types.
//!
//! Strings are `Utf8` whatever their kind: `string`, `varchar<n>`, `fixedchar<n>` (not padded). Only the variations of DataFusion's plans are
//! supported; other producers have none.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, TimeUnit};
use datafusion_substrait::substrait::proto::r#type::Kind;
use datafusion_substrait::substrait::proto::{NamedStruct, Type};

use crate::declarations::Declarations;
use crate::error::{Result, invalid, required, unsupported};

/// DataFusion's variation for unsigned integers.
const UNSIGNED: u32 = 1;

/// A column of a read relation as declared by the plan.
#[derive(Debug, Clone)]
pub(crate) struct DeclaredColumn {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    /// Largest length of a string in characters.
    pub(crate) chars: Option<u32>,
}

/// The columns of a schema. Names of nested fields follow their column's name.
pub(crate) fn columns(schema: &NamedStruct, declarations: &Declarations) -> Result<Vec<DeclaredColumn>> {
    let types = &required(schema.r#struct.as_ref(), "the struct of a base schema")?.types;
    let mut names = schema.names.iter();
    let mut found = Vec::with_capacity(types.len());
    for ty in types {
        let name = required(names.next(), "the name of a column in a base schema")?.clone();
        let data_type = data_type(ty, declarations)?;
        for _ in 0..nested_names(&data_type) {
            required(names.next(), "the name of a nested field in a base schema")?;
        }
        found.push(DeclaredColumn { name, data_type, chars: chars(ty) });
    }
    match names.count() {
        0 => Ok(found),
        more => invalid(format!("a base schema has {more} names too many")),
    }
}

/// The number of names of nested fields in a column of a type: one for each field of its structs.
pub(crate) fn nested_names(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| 1 + nested_names(field.data_type())).sum(),
        DataType::List(item) | DataType::LargeList(item) => nested_names(item.data_type()),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => fields.iter().map(|field| nested_names(field.data_type())).sum(),
            _ => 0,
        },
        _ => 0,
    }
}

/// The `n` of `varchar<n>` and `fixedchar<n>`.
pub(crate) fn chars(ty: &Type) -> Option<u32> {
    let length = match &ty.kind {
        Some(Kind::Varchar(ty)) => ty.length,
        Some(Kind::FixedChar(ty)) => ty.length,
        _ => return None,
    };
    u32::try_from(length).ok().filter(|&length| length > 0)
}

pub(crate) fn data_type(ty: &Type, declarations: &Declarations) -> Result<DataType> {
    let kind = required(ty.kind.as_ref(), "the kind of a type")?;
    #[allow(deprecated, reason = "plans of earlier versions hold these types")]
    Ok(match kind {
        Kind::Bool(_) => DataType::Boolean,
        Kind::I8(ty) => integer(ty.type_variation_reference, DataType::Int8, DataType::UInt8)?,
        Kind::I16(ty) => integer(ty.type_variation_reference, DataType::Int16, DataType::UInt16)?,
        Kind::I32(ty) => integer(ty.type_variation_reference, DataType::Int32, DataType::UInt32)?,
        Kind::I64(ty) => integer(ty.type_variation_reference, DataType::Int64, DataType::UInt64)?,
        Kind::Fp32(_) => DataType::Float32,
        Kind::Fp64(_) => DataType::Float64,
        Kind::String(_) | Kind::Varchar(_) | Kind::FixedChar(_) => DataType::Utf8,
        Kind::Binary(_) => DataType::Binary,
        Kind::FixedBinary(ty) => DataType::FixedSizeBinary(size(ty.length)?),
        Kind::Uuid(_) => DataType::FixedSizeBinary(16),
        Kind::Date(_) => DataType::Date32,
        Kind::Timestamp(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
        Kind::TimestampTz(_) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Kind::PrecisionTimestamp(ty) => DataType::Timestamp(unit(ty.precision)?, None),
        Kind::PrecisionTimestampTz(ty) => DataType::Timestamp(unit(ty.precision)?, Some("UTC".into())),
        Kind::Time(_) => DataType::Time64(TimeUnit::Microsecond),
        Kind::PrecisionTime(ty) => match unit(ty.precision)? {
            unit @ (TimeUnit::Second | TimeUnit::Millisecond) => DataType::Time32(unit),
            unit => DataType::Time64(unit),
        },
        Kind::IntervalYear(_) | Kind::IntervalDay(_) | Kind::IntervalCompound(_) => {
            DataType::Interval(IntervalUnit::MonthDayNano)
        }
        Kind::Decimal(ty) => {
            let (digits, scale) = decimal_digits(ty.precision, ty.scale)?;
            DataType::Decimal128(digits, scale)
        }
        Kind::List(ty) => {
            let item = data_type(required(ty.r#type.as_deref(), "the item type of a list")?, declarations)?;
            DataType::List(Arc::new(Field::new_list_field(item, true)))
        }
        Kind::Struct(ty) => DataType::Struct(fields(&ty.types, declarations)?),
        Kind::Map(ty) => {
            let key = data_type(required(ty.key.as_deref(), "the key type of a map")?, declarations)?;
            let value = data_type(required(ty.value.as_deref(), "the value type of a map")?, declarations)?;
            let entry = vec![Field::new("key", key, false), Field::new("value", value, true)];
            DataType::Map(Arc::new(Field::new_struct("entries", entry, false)), false)
        }
        Kind::UserDefined(ty) => match declarations.type_name(ty.type_reference) {
            Some("null") => DataType::Null,
            Some("fp16") => DataType::Float16,
            Some(name) => return unsupported(format!("user-defined type '{name}' (anchor {})", ty.type_reference)),
            None => return invalid(format!("type anchor {} is not declared", ty.type_reference)),
        },
        Kind::UserDefinedTypeReference(anchor) => return unsupported(format!("user-defined type (anchor {anchor})")),
        Kind::Func(_) => return unsupported("function type"),
        Kind::Alias(alias) => return unsupported(format!("type alias (anchor {})", alias.type_alias_reference)),
    })
}

/// Precision and scale of a decimal that fits 128 bits.
pub(crate) fn decimal_digits(precision: i32, scale: i32) -> Result<(u8, i8)> {
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(digits @ 1..=38), Ok(scale)) if scale >= 0 && scale as u8 <= digits => Ok((digits, scale)),
        _ => invalid(format!("decimal<{precision}, {scale}> is not a type")),
    }
}

/// The unit of a timestamp with `precision` digits after the second.
pub(crate) fn unit(precision: i32) -> Result<TimeUnit> {
    match precision {
        0 => Ok(TimeUnit::Second),
        3 => Ok(TimeUnit::Millisecond),
        6 => Ok(TimeUnit::Microsecond),
        9 => Ok(TimeUnit::Nanosecond),
        digits => unsupported(format!("time type with {digits} digits (0, 3, 6 and 9 are)")),
    }
}

fn integer(variation: u32, signed: DataType, unsigned: DataType) -> Result<DataType> {
    match variation {
        0 => Ok(signed),
        UNSIGNED => Ok(unsigned),
        other => unsupported(format!("type variation {other} of {signed}")),
    }
}

fn size(length: i32) -> Result<i32> {
    if length < 0 { invalid(format!("fixedbinary<{length}> is not a type")) } else { Ok(length) }
}

fn fields(types: &[Type], declarations: &Declarations) -> Result<Fields> {
    let field = |(at, ty): (usize, &Type)| Ok(Field::new(format!("c{at}"), data_type(ty, declarations)?, true));
    types.iter().enumerate().map(field).collect()
}
