//! Columns of all tables and views: `information_schema.columns`, `duckdb_columns()`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, UInt64Array};
use arrow::datatypes::{DataType, Field};
use datafusion::catalog::{SchemaProvider, TableProvider};

use super::{Described, shown_schema, table, texts, truths};
use crate::Result;
use crate::catalog::{CATALOG, comment_of};
use crate::dialect::{shown, type_name};
use crate::session::ddl::default_of;

/// A column of a table.
pub(super) struct Column {
    pub schema: String,
    pub table: String,
    /// The position, counted from 1.
    pub position: usize,
    pub field: Field,
    pub comment: Option<String>,
    /// The SQL text of the default; `None` for views.
    pub default: Option<String>,
    /// Whether the column may have NULLs; true for views.
    pub nullable: bool,
}

impl Described {
    /// The columns of all tables and views that can be read.
    pub(super) async fn all(&self) -> Result<Vec<Column>> {
        let mut all = vec![];
        for name in self.catalog.all_schemas()? {
            let Some(schema) = self.catalog.find_schema(&name)? else { continue };
            for table in schema.table_names() {
                let provider = match schema.table(&table).await {
                    Ok(Some(provider)) => provider,
                    Ok(None) => continue,
                    Err(error) => {
                        tracing::warn!(table, %error, "a table cannot be read");
                        continue;
                    }
                };
                let fields = provider.schema();
                let of_view = schema.view(&table).ok().flatten();
                all.extend(fields.fields().iter().enumerate().map(|(at, field)| Column {
                    schema: shown_schema(&name),
                    table: table.clone(),
                    position: at + 1,
                    default: default_of(field).filter(|_| of_view.is_none()).map(str::to_string),
                    nullable: of_view.is_some() || field.is_nullable(),
                    comment: match &of_view {
                        Some(view) => view.column_comment(shown(field.name())).map(str::to_string),
                        None => comment_of(field.metadata()).map(str::to_string),
                    },
                    field: field.as_ref().clone(),
                }));
            }
        }
        Ok(all)
    }

    /// `information_schema.columns`.
    pub(super) async fn columns(&self) -> Result<Arc<dyn TableProvider>> {
        let all = self.all().await?;
        let number = |of: &dyn Fn(&DataType) -> Option<u64>| -> ArrayRef {
            Arc::new(all.iter().map(|column| of(column.field.data_type())).collect::<UInt64Array>())
        };
        let digits = |ty: &DataType| match ty {
            DataType::Int8 | DataType::UInt8 => Some((8, 2, 0)),
            DataType::Int16 | DataType::UInt16 => Some((16, 2, 0)),
            DataType::Int32 | DataType::UInt32 => Some((32, 2, 0)),
            DataType::Int64 | DataType::UInt64 => Some((64, 2, 0)),
            DataType::Float32 => Some((24, 2, 0)),
            DataType::Float64 => Some((53, 2, 0)),
            DataType::Decimal128(width, scale) => Some(((*width).into(), 10, (*scale).max(0) as u64)),
            _ => None,
        };
        let nothing = || texts(all.iter().map(|_| None));
        table(vec![
            ("table_catalog", texts(all.iter().map(|_| Some(CATALOG.to_string())))),
            ("table_schema", texts(all.iter().map(|column| Some(column.schema.clone())))),
            ("table_name", texts(all.iter().map(|column| Some(column.table.clone())))),
            ("column_name", texts(all.iter().map(|column| Some(shown(column.field.name()).to_string())))),
            (
                "ordinal_position",
                Arc::new(all.iter().map(|column| Some(column.position as i32)).collect::<Int32Array>()) as ArrayRef,
            ),
            ("column_default", texts(all.iter().map(|column| column.default.clone()))),
            ("is_nullable", texts(all.iter().map(|c| Some(if c.nullable { "YES" } else { "NO" }.to_string())))),
            ("data_type", texts(all.iter().map(|column| Some(type_name(column.field.data_type()))))),
            ("character_maximum_length", number(&|_| None)),
            ("character_octet_length", number(&|_| None)),
            ("numeric_precision", number(&|ty| digits(ty).map(|(precision, _, _)| precision))),
            ("numeric_precision_radix", number(&|ty| digits(ty).map(|(_, radix, _)| radix))),
            ("numeric_scale", number(&|ty| digits(ty).map(|(_, _, scale)| scale))),
            ("datetime_precision", number(&|_| None)),
            ("interval_type", nothing()),
        ])
    }

    /// `duckdb_columns()`.
    pub(super) async fn duckdb_columns(&self) -> Result<Arc<dyn TableProvider>> {
        let all = self.all().await?;
        table(vec![
            ("database_name", texts(all.iter().map(|_| Some(CATALOG.to_string())))),
            ("schema_name", texts(all.iter().map(|column| Some(column.schema.clone())))),
            ("table_name", texts(all.iter().map(|column| Some(column.table.clone())))),
            ("column_name", texts(all.iter().map(|column| Some(shown(column.field.name()).to_string())))),
            (
                "column_index",
                Arc::new(all.iter().map(|column| Some(column.position as i32)).collect::<Int32Array>()) as ArrayRef,
            ),
            ("comment", texts(all.iter().map(|column| column.comment.clone()))),
            ("internal", truths(all.iter().map(|_| false))),
            ("column_default", texts(all.iter().map(|column| column.default.clone()))),
            ("is_nullable", truths(all.iter().map(|column| column.nullable))),
            ("data_type", texts(all.iter().map(|column| Some(type_name(column.field.data_type()))))),
        ])
    }
}
