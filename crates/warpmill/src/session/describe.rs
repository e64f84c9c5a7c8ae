//! DESCRIBE and SHOW, in the form of DuckDB's.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use arrow::record_batch::RecordBatch;

use super::{QueryResult, Session};
use crate::dialect::shown;
use crate::{Error, Result};

impl Session {
    /// `SHOW TABLES [FROM schema]`, `SHOW ALL TABLES`, `SHOW SCHEMAS`; `None`: it is DataFusion's.
    pub(super) fn show(&self, sql: &str, words: &[&str]) -> Result<Option<QueryResult>> {
        let catalog = &self.inner.catalog;
        match words {
            ["show", "tables"] => {
                let schema = catalog.schema_called(&self.default_schema())?;
                texts(&["name"], vec![schema.names()?.into_iter().map(Some).collect()]).map(Some)
            }
            ["show", "tables", "from", ..] => {
                let name = sql.get("show tables from ".len()..).unwrap_or_default().trim_matches('"');
                let schema = catalog.schema_called(name)?;
                texts(&["name"], vec![schema.names()?.into_iter().map(Some).collect()]).map(Some)
            }
            ["show", "schemas" | "databases"] => {
                texts(&["name"], vec![catalog.all_schemas()?.into_iter().map(Some).collect()]).map(Some)
            }
            ["show", "all", "tables"] => {
                let infos = catalog.infos()?;
                let of =
                    |value: fn(&crate::TableInfo) -> &str| infos.iter().map(|i| Some(value(i).to_string())).collect();
                let columns = vec![of(|info| &info.schema), of(|info| &info.name), of(|info| &info.kind)];
                texts(&["schema", "name", "kind"], columns).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// The rows of DESCRIBE.
pub(super) fn describe(schema: &Schema) -> Result<QueryResult> {
    let fields = schema.fields();
    let of = |value: fn(&Field) -> String| fields.iter().map(|field| Some(value(field))).collect();
    let nothing = || vec![None; fields.len()];
    let columns = vec![
        of(|field| shown(field.name()).to_string()),
        of(|field| type_name(field.data_type())),
        of(|field| if field.is_nullable() { "YES" } else { "NO" }.to_string()),
        nothing(),
        nothing(),
        nothing(),
    ];
    texts(&["column_name", "column_type", "null", "key", "default", "extra"], columns)
}

fn texts(names: &[&str], columns: Vec<Vec<Option<String>>>) -> Result<QueryResult> {
    let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Utf8, true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let columns = columns.into_iter().map(|column| Arc::new(StringArray::from(column)) as ArrayRef);
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.collect()).map_err(Error::from)?;
    let batches = if batch.num_rows() == 0 { vec![] } else { vec![batch] };
    Ok(QueryResult { schema, batches, ..QueryResult::empty() })
}

/// What DuckDB calls a type; types that it does not have keep Arrow's name.
fn type_name(data_type: &DataType) -> String {
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
        Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) | Decimal256(p, s) => return format!("DECIMAL({p},{s})"),
        List(item) | LargeList(item) | ListView(item) => return format!("{}[]", type_name(item.data_type())),
        FixedSizeList(item, length) => return format!("{}[{length}]", type_name(item.data_type())),
        Struct(fields) => {
            let fields = fields.iter().map(|field| format!("\"{}\" {}", field.name(), type_name(field.data_type())));
            return format!("STRUCT({})", fields.collect::<Vec<_>>().join(", "));
        }
        Dictionary(_, value) => return type_name(value),
        other => return other.to_string(),
    };
    name.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_names_of_duckdb() {
        assert_eq!(type_name(&DataType::Decimal128(10, 2)), "DECIMAL(10,2)");
        let list = DataType::List(Arc::new(Field::new("item", DataType::Int32, true)));
        assert_eq!(type_name(&list), "INTEGER[]");
        let fields = vec![Field::new("a", list, true)];
        assert_eq!(type_name(&DataType::Struct(fields.into())), "STRUCT(\"a\" INTEGER[])");
    }
}
