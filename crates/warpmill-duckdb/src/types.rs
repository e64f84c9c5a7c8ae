//! DuckDB's types.

use arrow::datatypes::{DataType, TimeUnit};

use crate::Refused;

/// A type that Warpmill and DuckDB mean alike.
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
    /// 128 bits, held as a decimal of 38 digits: larger values end the query on Warpmill.
    HugeInt,
    Float,
    Double,
    Decimal(u8, i8),
    Varchar,
    Date,
    Timestamp,
    /// Of constants only.
    Interval,
    /// The type of a bare NULL.
    Null,
}

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

    /// How Arrow holds its values.
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
            Type::HugeInt => DataType::Decimal128(38, 0),
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

    /// Whether values are whole numbers of at most 64 bits.
    pub fn is_integer(self) -> bool {
        self.bits().is_some()
    }

    /// Width of whole numbers of at most 64 bits.
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

    /// Digits after the point of exact numbers.
    pub fn scale(self) -> Option<i8> {
        match self {
            Type::Decimal(_, scale) => Some(scale),
            Type::HugeInt => Some(0),
            _ => self.is_integer().then_some(0),
        }
    }

    /// Whether columns of tables can have it.
    pub fn is_column(self) -> bool {
        !matches!(self, Type::Interval | Type::Null | Type::HugeInt)
    }
}

fn decimal(name: &str) -> Option<Type> {
    let (width, scale) = name.strip_prefix("DECIMAL(")?.strip_suffix(')')?.split_once(',')?;
    Some(Type::Decimal(width.trim().parse().ok()?, scale.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(Type::parse("DECIMAL(15,2)").unwrap(), Type::Decimal(15, 2));
        assert_eq!(Type::parse("BIGINT").unwrap().arrow(), DataType::Int64);
        for unknown in ["STRUCT(a INTEGER)", "INTEGER[]", "TIMESTAMP WITH TIME ZONE", "DECIMAL(x,2)", "UUID", ""] {
            assert_eq!(Type::parse(unknown).unwrap_err().to_string(), format!("the type {unknown}"));
        }
    }
}
