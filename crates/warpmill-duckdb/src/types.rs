//! DuckDB's types: this table tells which of them are exact here, and which are refused.
//!
//! | DuckDB | here | |
//! |---|---|---|
//! | BOOLEAN, TINYINT to BIGINT, UTINYINT to UBIGINT, FLOAT, DOUBLE, VARCHAR | the same | exact |
//! | DECIMAL(w, s) | a decimal in 128 bits | exact: w digits |
//! | HUGEINT, UHUGEINT | a decimal of 38 digits | exact up to 38 digits; a larger value ends the query here |
//! | DATE, TIMESTAMP | the same | exact; an infinite one ends the query here |
//! | INTERVAL, NULL | constants | not in columns and results |
//! | all others | | refused by name |
//!
//! Input rows ([`crate::input`]), constants and results ([`crate::output`]) have to be within [`Type::limits`]. DuckDB runs queries that end here.

use std::ops::RangeInclusive;

use arrow::datatypes::{DataType, TimeUnit};

use crate::Refused;

/// A type with the same meaning in Warpmill and DuckDB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "DuckDB's names")]
pub enum Type {
    Boolean,
    TinyInt,
    SmallInt,
    Integer,
    BigInt,
    UTinyInt,
    USmallInt,
    UInteger,
    UBigInt,
    HugeInt,
    UHugeInt,
    Float,
    Double,
    Decimal(u8, i8),
    Varchar,
    Date,
    Timestamp,
    /// The type of constants only.
    Interval,
    /// The type of a bare NULL.
    Null,
}

/// Largest number of digits of decimals in 128 bits.
pub const DIGITS: u8 = 38;

/// DuckDB's smallest timestamp; smaller numbers are no timestamps.
const FIRST_TIMESTAMP: i128 = -9_223_372_022_400_000_000;

impl Type {
    /// The type called `name`.
    pub fn parse(name: &str) -> Result<Self, Refused> {
        Ok(match name {
            "BOOLEAN" => Type::Boolean,
            "TINYINT" => Type::TinyInt,
            "SMALLINT" => Type::SmallInt,
            "INTEGER" => Type::Integer,
            "BIGINT" => Type::BigInt,
            "UTINYINT" => Type::UTinyInt,
            "USMALLINT" => Type::USmallInt,
            "UINTEGER" => Type::UInteger,
            "UBIGINT" => Type::UBigInt,
            "HUGEINT" => Type::HugeInt,
            "UHUGEINT" => Type::UHugeInt,
            "FLOAT" => Type::Float,
            "DOUBLE" => Type::Double,
            "VARCHAR" => Type::Varchar,
            "DATE" => Type::Date,
            "TIMESTAMP" => Type::Timestamp,
            "INTERVAL" => Type::Interval,
            "\"NULL\"" | "NULL" => Type::Null,
            _ => return decimal(name).ok_or_else(|| Refused::new(format!("the type {name}"))),
        })
    }

    /// The type called `name`, if columns of tables can have it.
    pub fn of_column(name: &str) -> Option<Self> {
        Self::parse(name).ok().filter(|ty| ty.is_column())
    }

    /// The Arrow type of its values.
    pub fn arrow(self) -> DataType {
        match self {
            Type::Boolean => DataType::Boolean,
            Type::TinyInt => DataType::Int8,
            Type::SmallInt => DataType::Int16,
            Type::Integer => DataType::Int32,
            Type::BigInt => DataType::Int64,
            Type::UTinyInt => DataType::UInt8,
            Type::USmallInt => DataType::UInt16,
            Type::UInteger => DataType::UInt32,
            Type::UBigInt => DataType::UInt64,
            Type::HugeInt | Type::UHugeInt => DataType::Decimal128(DIGITS, 0),
            Type::Float => DataType::Float32,
            Type::Double => DataType::Float64,
            Type::Decimal(width, scale) => DataType::Decimal128(width, scale),
            Type::Varchar => DataType::Utf8,
            Type::Date => DataType::Date32,
            Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Type::Interval => DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano),
            Type::Null => DataType::Null,
        }
    }

    /// The supported values, as integers, if the Arrow type has others, too.
    pub fn limits(self) -> Option<RangeInclusive<i128>> {
        let digits = |digits: u8| 10i128.pow(digits.into()) - 1;
        Some(match self {
            Type::HugeInt => -digits(DIGITS)..=digits(DIGITS),
            Type::UHugeInt => 0..=digits(DIGITS),
            Type::Decimal(width, _) => -digits(width)..=digits(width),
            // The excluded values are infinite dates.
            Type::Date => i128::from(-i32::MAX) + 1..=i128::from(i32::MAX) - 1,
            Type::Timestamp => FIRST_TIMESTAMP..=i128::from(i64::MAX) - 1,
            _ => return None,
        })
    }

    /// The refusal of a value beyond [`Self::limits`].
    pub fn beyond_limits(self) -> Refused {
        Refused::new(match self {
            Type::Date | Type::Timestamp => "a date or timestamp is infinite".to_string(),
            Type::Decimal(width, _) => format!("a decimal of more than {width} digits"),
            _ => format!("a whole number of more than {DIGITS} digits"),
        })
    }

    /// Whether values are whole numbers of at most 64 bits.
    pub fn is_integer(self) -> bool {
        self.bits().is_some()
    }

    /// The number of bits of whole numbers of at most 64 bits.
    pub fn bits(self) -> Option<u8> {
        Some(match self {
            Type::TinyInt | Type::UTinyInt => 8,
            Type::SmallInt | Type::USmallInt => 16,
            Type::Integer | Type::UInteger => 32,
            Type::BigInt | Type::UBigInt => 64,
            _ => return None,
        })
    }

    /// Whether values are floating-point numbers.
    pub fn is_float(self) -> bool {
        matches!(self, Type::Float | Type::Double)
    }

    /// The number of digits after the point of exact numbers with arithmetic; UHUGEINT has comparisons only.
    pub fn scale(self) -> Option<i8> {
        match self {
            Type::Decimal(_, scale) => Some(scale),
            Type::HugeInt => Some(0),
            _ => self.is_integer().then_some(0),
        }
    }

    /// Whether columns of tables and of results can have it.
    pub fn is_column(self) -> bool {
        !matches!(self, Type::Interval | Type::Null)
    }
}

fn decimal(name: &str) -> Option<Type> {
    let (width, scale) = name.strip_prefix("DECIMAL(")?.strip_suffix(')')?.split_once(',')?;
    let (width, scale): (u8, i8) = (width.trim().parse().ok()?, scale.trim().parse().ok()?);
    let is_one = (1..=DIGITS).contains(&width) && scale >= 0 && scale.unsigned_abs() <= width;
    is_one.then_some(Type::Decimal(width, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(Type::parse("DECIMAL(15,2)").unwrap(), Type::Decimal(15, 2));
        assert_eq!(Type::parse("BIGINT").unwrap().arrow(), DataType::Int64);
        let unknown = ["STRUCT(a INTEGER)", "INTEGER[]", "TIMESTAMP WITH TIME ZONE", "DECIMAL(x,2)", "DECIMAL(39,0)"];
        for unknown in unknown.into_iter().chain(["DECIMAL(3,4)", "UUID", "JSON", "TIME", "TIMESTAMP_NS", ""]) {
            assert_eq!(Type::parse(unknown).unwrap_err().to_string(), format!("the type {unknown}"));
            assert_eq!(Type::of_column(unknown), None);
        }
        assert_eq!(Type::of_column("INTERVAL"), None);
        assert_eq!(Type::of_column("UHUGEINT"), Some(Type::UHugeInt));
    }

    #[test]
    fn limits() {
        assert_eq!(Type::Decimal(4, 1).limits(), Some(-9999..=9999));
        assert!(!Type::Date.limits().unwrap().contains(&i128::from(i32::MAX)));
        assert!(!Type::Timestamp.limits().unwrap().contains(&i128::from(-i64::MAX)));
        assert!(!Type::UHugeInt.limits().unwrap().contains(&-1));
        assert_eq!(Type::Double.limits(), None);
    }
}
