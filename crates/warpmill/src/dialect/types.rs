//! DuckDB's types: the meaning of their names, and the common type of several.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use datafusion::common::datatype::DataTypeExt;
use datafusion::common::{DataFusionError, Result, not_impl_err, plan_datafusion_err, plan_err};
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType as SqlType, EnumMember, ExactNumberInfo, StructField, TimezoneInfo,
};

use super::custom_types::CustomTypes;
use super::field_names::is_row;
use super::uuids::{BYTES, UUID};
use super::{enums, states};
use crate::planning::limits::check_fields;

/// Digits of the widest decimal.
pub(super) const MAX_WIDTH: u8 = 38;

/// 128-bit integers, limited to the digits of a decimal.
pub(super) const HUGEINT: DataType = DataType::Decimal128(MAX_WIDTH, 0);

/// Moments without a time zone.
pub(super) const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Moments of all time zones, shown in UTC.
pub(super) fn timestamptz() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// The meaning of type names, including user-defined types.
#[derive(Debug, Default)]
pub(super) struct Names(pub(super) CustomTypes);

impl TypePlanner for Names {
    fn plan_type_field(&self, name: &SqlType) -> Result<Option<FieldRef>> {
        Ok(named(name, &self.0)?.map(DataTypeExt::into_nullable_field_ref))
    }
}

/// The type called `name` where DataFusion names it differently, or does not know it.
pub(super) fn named(name: &SqlType, own: &CustomTypes) -> Result<Option<DataType>> {
    let zoned = |zone: &TimezoneInfo| matches!(zone, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz);
    Ok(Some(match name {
        SqlType::TinyInt(Some(_))
        | SqlType::SmallInt(Some(_))
        | SqlType::Int(Some(_))
        | SqlType::Integer(Some(_))
        | SqlType::BigInt(Some(_)) => return plan_err!("the type {name}: whole numbers have no width"),
        SqlType::Int16 => DataType::Int16,
        SqlType::Int32 | SqlType::Signed | SqlType::SignedInteger => DataType::Int32,
        SqlType::Int64 => DataType::Int64,
        SqlType::HugeInt | SqlType::Int128 => HUGEINT,
        SqlType::UTinyInt | SqlType::UInt8 => DataType::UInt8,
        SqlType::USmallInt | SqlType::UInt16 => DataType::UInt16,
        SqlType::UInt32 | SqlType::Unsigned | SqlType::UnsignedInteger => DataType::UInt32,
        SqlType::UBigInt | SqlType::UInt64 => DataType::UInt64,
        SqlType::UHugeInt | SqlType::UInt128 => {
            return not_impl_err!("the type {name}: whole numbers have at most {MAX_WIDTH} digits");
        }
        SqlType::Float(ExactNumberInfo::Precision(bits)) if *bits > 24 => DataType::Float64,
        SqlType::Float(_) | SqlType::Float32 => DataType::Float32,
        SqlType::Float64 | SqlType::Double(ExactNumberInfo::None) => DataType::Float64,
        SqlType::Decimal(info) | SqlType::Numeric(info) | SqlType::Dec(info) => decimal(info)?,
        // DuckDB's texts have no limit, whatever their type says.
        SqlType::Char(_)
        | SqlType::Character(_)
        | SqlType::Varchar(_)
        | SqlType::CharVarying(_)
        | SqlType::CharacterVarying(_)
        | SqlType::Nvarchar(_)
        | SqlType::String(_)
        | SqlType::Text => DataType::Utf8,
        SqlType::JSON => {
            return not_impl_err!("the type JSON of a column: a text is VARCHAR, which functions of JSON read");
        }
        SqlType::Uuid => UUID,
        SqlType::Map(key, value) => map(key, value, own)?,
        SqlType::Blob(_) | SqlType::Binary(_) | SqlType::Varbinary(_) | SqlType::Bytea => DataType::Binary,
        SqlType::Time(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            DataType::Time64(TimeUnit::Microsecond)
        }
        SqlType::Timestamp(_, zone) if zoned(zone) => timestamptz(),
        SqlType::Timestamp(None | Some(4..=6), _) | SqlType::Datetime(_) => TIMESTAMP,
        SqlType::Timestamp(Some(digits), _) => DataType::Timestamp(unit(*digits), None),
        SqlType::Struct(fields, _) => structure(fields, own)?,
        SqlType::Enum(members, None) => members_of(members)?,
        SqlType::Custom(name, modifiers) if modifiers.is_empty() => match name.to_string().to_uppercase().as_str() {
            "INT1" => DataType::Int8,
            "SHORT" => DataType::Int16,
            "LONG" => DataType::Int64,
            "UINTEGER" => DataType::UInt32,
            "TIMESTAMP_S" => DataType::Timestamp(TimeUnit::Second, None),
            "TIMESTAMP_MS" => DataType::Timestamp(TimeUnit::Millisecond, None),
            "TIMESTAMP_US" => TIMESTAMP,
            "TIMESTAMP_NS" => DataType::Timestamp(TimeUnit::Nanosecond, None),
            "LOGICAL" => DataType::Boolean,
            "BPCHAR" => DataType::Utf8,
            "GUID" => UUID,
            _ => match own.called(name)? {
                Some(made) => made,
                None => return plan_err!("Type with name {name} does not exist"),
            },
        },
        _ => return Ok(None),
    }))
}

/// The type `MAP(key, value)`, as calls of `map` make it.
fn map(key: &SqlType, value: &SqlType, own: &CustomTypes) -> Result<DataType> {
    let entry = vec![Field::new("key", whole(key, own)?, false), Field::new("value", whole(value, own)?, true)];
    let entries = Field::new("entries", DataType::Struct(entry.into()), false);
    Ok(DataType::Map(Arc::new(entries), false))
}

/// The ENUM of these members.
fn members_of(members: &[EnumMember]) -> Result<DataType> {
    let text = |member: &EnumMember| match member {
        EnumMember::Name(text) => Ok(text.clone()),
        EnumMember::NamedValue(text, _) => plan_err!("the member {text} of an ENUM has a number"),
    };
    enums::data_type(&members.iter().map(text).collect::<Result<Vec<_>>>()?)
}

fn structure(fields: &[StructField], own: &CustomTypes) -> Result<DataType> {
    if fields.is_empty() {
        return not_impl_err!("the type STRUCT without fields");
    }
    let mut count = 0;
    let field = |(at, field): (usize, &StructField)| {
        let name = field.field_name.as_ref().map_or_else(|| format!("c{at}"), |name| name.value.clone());
        let ty = whole(&field.field_type, own)?;
        // Types may have more fields than texts have letters.
        count += 1 + fields_of(&ty);
        check_fields(count)?;
        Ok::<_, DataFusionError>(Field::new(name, ty, true))
    };
    Ok(DataType::Struct(fields.iter().enumerate().map(field).collect::<Result<_>>()?))
}

/// The number of fields within a type.
fn fields_of(ty: &DataType) -> usize {
    match ty {
        DataType::Struct(fields) => fields.iter().map(|field| 1 + fields_of(field.data_type())).sum(),
        DataType::List(field) | DataType::FixedSizeList(field, _) | DataType::Map(field, _) => {
            fields_of(field.data_type())
        }
        _ => 0,
    }
}

/// The type called `name` nested in another one, which DataFusion does not ask the planner for.
pub(super) fn whole(name: &SqlType, own: &CustomTypes) -> Result<DataType> {
    if let Some(named) = named(name, own)? {
        return Ok(named);
    }
    let element = |name: &SqlType| Ok::<_, DataFusionError>(Arc::new(Field::new_list_field(whole(name, own)?, true)));
    Ok(match name {
        SqlType::Boolean | SqlType::Bool => DataType::Boolean,
        SqlType::TinyInt(_) => DataType::Int8,
        SqlType::SmallInt(_) | SqlType::Int2(_) => DataType::Int16,
        SqlType::Int(_) | SqlType::Integer(_) | SqlType::Int4(_) => DataType::Int32,
        SqlType::BigInt(_) | SqlType::Int8(_) => DataType::Int64,
        SqlType::Real | SqlType::Float4 => DataType::Float32,
        SqlType::Double(_) | SqlType::DoublePrecision | SqlType::Float8 => DataType::Float64,
        SqlType::Date => DataType::Date32,
        SqlType::Time(..) => DataType::Time64(TimeUnit::Microsecond),
        SqlType::Interval { .. } => DataType::Interval(IntervalUnit::MonthDayNano),
        SqlType::Array(ArrayElemTypeDef::SquareBracket(inner, None)) => DataType::List(element(inner)?),
        SqlType::Array(ArrayElemTypeDef::SquareBracket(inner, Some(length))) => {
            let length =
                i32::try_from(*length).map_err(|_| plan_datafusion_err!("the type {name} has too many elements"))?;
            DataType::FixedSizeList(element(inner)?, length)
        }
        other => return not_impl_err!("the type {other} within another one"),
    })
}

fn unit(digits: u64) -> TimeUnit {
    match digits {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}

fn decimal(info: &ExactNumberInfo) -> Result<DataType> {
    let (width, scale) = match *info {
        ExactNumberInfo::None => (18, 3),
        ExactNumberInfo::Precision(width) => (width, 0),
        ExactNumberInfo::PrecisionAndScale(width, scale) => (width, scale),
    };
    match (u8::try_from(width), i8::try_from(scale)) {
        (Ok(width @ 1..=MAX_WIDTH), Ok(scale @ 0..)) if scale <= width as i8 => Ok(DataType::Decimal128(width, scale)),
        _ => plan_err!("DECIMAL({width},{scale}): the width is between 1 and {MAX_WIDTH}, the scale at most that"),
    }
}

/// Width and scale of the decimal that holds every value of an exact number's type; `None` for other types.
pub(super) fn digits(ty: &DataType) -> Option<(u8, i8)> {
    Some(match ty {
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        DataType::Decimal32(width, scale) | DataType::Decimal64(width, scale) | DataType::Decimal128(width, scale) => {
            (*width, *scale)
        }
        _ => return None,
    })
}

/// Whether values are floating-point numbers.
pub(super) fn is_float(ty: &DataType) -> bool {
    matches!(ty, DataType::Float16 | DataType::Float32 | DataType::Float64)
}

/// Whether values are decimals.
pub(super) fn is_decimal(ty: &DataType) -> bool {
    digits(ty).is_some() && !ty.is_integer()
}

/// Whether values are numbers.
pub(super) fn is_number(ty: &DataType) -> bool {
    is_float(ty) || digits(ty).is_some()
}

pub(super) fn is_text(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether values are whole numbers; a decimal of the full width without a point is a HUGEINT.
pub(super) fn is_whole(ty: &DataType) -> bool {
    ty.is_integer() || *ty == HUGEINT
}

/// The numeric type that holds values of both; DOUBLE wins over FLOAT, and FLOAT over exact numbers. `None` where a type is not numeric.
pub(super) fn common_number(left: &DataType, right: &DataType) -> Option<DataType> {
    if is_float(left) || is_float(right) {
        let both = is_number(left) && is_number(right);
        let double = *left == DataType::Float64 || *right == DataType::Float64;
        return both.then_some(if double { DataType::Float64 } else { DataType::Float32 });
    }
    if left.is_integer() && right.is_integer() {
        return Some(common_integer(left, right));
    }
    let ((lw, ls), (rw, rs)) = (digits(left)?, digits(right)?);
    let whole = (i16::from(lw) - i16::from(ls)).max(i16::from(rw) - i16::from(rs));
    let scale = ls.max(rs);
    // All digits after the point are kept; values with too many digits before it are conversion errors.
    Some(DataType::Decimal128((whole + i16::from(scale)).min(MAX_WIDTH.into()) as u8, scale))
}

fn common_integer(left: &DataType, right: &DataType) -> DataType {
    use DataType::{Int16, Int32, Int64};
    let (bits, other) = (width_of(left), width_of(right));
    match (left.is_signed_integer(), right.is_signed_integer()) {
        (true, true) | (false, false) => {
            if bits >= other {
                left.clone()
            } else {
                right.clone()
            }
        }
        (signed, _) => {
            let (signed, unsigned) = if signed { (bits, other) } else { (other, bits) };
            match signed.max(unsigned * 2) {
                16 => Int16,
                32 => Int32,
                64 => Int64,
                _ => HUGEINT,
            }
        }
    }
}

fn width_of(ty: &DataType) -> u16 {
    ty.primitive_width().map_or(64, |bytes| bytes as u16 * 8)
}

/// The common type for comparing or mixing values of both, where DataFusion would choose another one: for numbers, for truth values with integers, of
/// which they are 0 and 1, and for dates with timestamps.
pub(super) fn common(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{Boolean, Date32, Timestamp};
    match (left, right) {
        (left, right) if left == right => Some(left.clone()),
        (Boolean, number) | (number, Boolean) if is_whole(number) => Some(number.clone()),
        (Timestamp(_, Some(_)), Timestamp(..) | Date32) | (Timestamp(..) | Date32, Timestamp(_, Some(_))) => {
            Some(timestamptz())
        }
        (Date32, Timestamp(..)) => Some(right.clone()),
        (Timestamp(..), Date32) => Some(left.clone()),
        (Timestamp(a, None), Timestamp(b, None)) => Some(Timestamp(*a.max(b), None)),
        (DataType::List(left), DataType::List(right)) => {
            let both = common_number(left.data_type(), right.data_type())?;
            Some(DataType::new_list(both, true))
        }
        _ => common_number(left, right),
    }
}

/// DuckDB's name of a type; types that DuckDB lacks keep Arrow's name.
pub(crate) fn type_name(data_type: &DataType) -> String {
    use DataType::*;
    let name = match data_type {
        Null => "\"NULL\"",
        Boolean => "BOOLEAN",
        Int8 => "TINYINT",
        Int16 => "SMALLINT",
        Int32 => "INTEGER",
        Int64 => "BIGINT",
        UInt8 => "UTINYINT",
        UInt16 => "USMALLINT",
        UInt32 => "UINTEGER",
        UInt64 => "UBIGINT",
        Float32 => "FLOAT",
        Float64 => "DOUBLE",
        Utf8 | LargeUtf8 | Utf8View => "VARCHAR",
        FixedSizeBinary(BYTES) => "UUID",
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => "BLOB",
        Date32 => "DATE",
        Time64(TimeUnit::Microsecond) => "TIME",
        Time64(TimeUnit::Nanosecond) => "TIME_NS",
        Timestamp(TimeUnit::Second, None) => "TIMESTAMP_S",
        Timestamp(TimeUnit::Millisecond, None) => "TIMESTAMP_MS",
        Timestamp(TimeUnit::Microsecond, None) => "TIMESTAMP",
        Timestamp(TimeUnit::Nanosecond, None) => "TIMESTAMP_NS",
        Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE",
        Interval(IntervalUnit::MonthDayNano) => "INTERVAL",
        Decimal128(MAX_WIDTH, 0) => "HUGEINT",
        Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) | Decimal256(p, s) => return format!("DECIMAL({p},{s})"),
        List(item) | LargeList(item) | ListView(item) => return format!("{}[]", type_name(item.data_type())),
        FixedSizeList(item, length) => return format!("{}[{length}]", type_name(item.data_type())),
        Struct(_) if states::is_state(data_type) => states::TYPE_NAME,
        Struct(_) if let Some(members) = enums::members(data_type) => return enums::name(&members),
        Struct(fields) if is_row(fields) => {
            let types: Vec<_> = fields.iter().map(|field| type_name(field.data_type())).collect();
            return format!("TUPLE({})", types.join(", "));
        }
        Struct(fields) => {
            let fields = fields
                .iter()
                .map(|field| format!("{} {}", optionally_quoted(field.name()), type_name(field.data_type())));
            return format!("STRUCT({})", fields.collect::<Vec<_>>().join(", "));
        }
        Map(entries, _) => {
            if let Struct(fields) = entries.data_type()
                && let [key, value] = &fields[..]
            {
                return format!("MAP({}, {})", type_name(key.data_type()), type_name(value.data_type()));
            }
            return data_type.to_string();
        }
        Dictionary(_, value) => return type_name(value),
        other => return other.to_string(),
    };
    name.to_string()
}

/// The words that DuckDB writes in quotes where they are names: `duckdb_keywords()`.
const KEYWORDS: &str = include_str!("keywords.txt");

/// A name in quotes, if it needs them.
pub(crate) fn optionally_quoted(name: &str) -> String {
    let plain = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_keyword = KEYWORDS.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case(name));
    if plain && !is_keyword { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::{Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt32, UInt64, Utf8};

    #[test]
    fn common_types_are_duckdbs() {
        for (left, right, both) in [
            (Float64, Decimal128(2, 1), Float64),
            (Float32, Decimal128(2, 1), Float32),
            (Float32, Int64, Float32),
            (Int32, Decimal128(2, 1), Decimal128(11, 1)),
            (Int64, Decimal128(2, 1), Decimal128(20, 1)),
            (HUGEINT, Decimal128(2, 1), Decimal128(38, 1)),
            (Decimal128(20, 0), Decimal128(30, 20), Decimal128(38, 20)),
            (Decimal128(3, 2), Decimal128(3, 1), Decimal128(4, 2)),
            (Int8, Int32, Int32),
            (UInt8, Int8, Int16),
            (UInt32, Int32, Int64),
            (UInt64, Int64, HUGEINT),
        ] {
            assert_eq!(common(&left, &right), Some(both.clone()), "{left} {right}");
            assert_eq!(common(&right, &left), Some(both), "{right} {left}");
        }
        assert_eq!(common(&Int64, &Utf8), None);
    }

    #[test]
    fn decimals_have_a_width() {
        assert!(decimal(&ExactNumberInfo::PrecisionAndScale(39, 0)).is_err());
        assert!(decimal(&ExactNumberInfo::PrecisionAndScale(4, 5)).is_err());
        assert_eq!(decimal(&ExactNumberInfo::None).unwrap(), DataType::Decimal128(18, 3));
    }

    #[test]
    fn types_have_the_names_of_duckdb() {
        assert_eq!(type_name(&DataType::Decimal128(10, 2)), "DECIMAL(10,2)");
        let list = DataType::new_list(Int32, true);
        assert_eq!(type_name(&list), "INTEGER[]");
        let fields = vec![arrow::datatypes::Field::new("a", list, true)];
        assert_eq!(type_name(&DataType::Struct(fields.into())), "STRUCT(a INTEGER[])");
    }
}
