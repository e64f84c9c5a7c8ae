//! Prepares columns of COPY ... TO so that DataFusion writes DuckDB's output: folder names, CSV and JSON lines.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::file_format::csv::CsvFormatFactory;
use datafusion::datasource::file_format::format_as_file_type;
use datafusion::functions::core::expr_fn::{coalesce, named_struct};
use datafusion::functions::core::with_metadata;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlanBuilder, lit};

use super::library::{self, csv_field};
use super::{casts, outside, states};
use crate::catalog::hive;

/// A COPY with texts where DataFusion's format differs from DuckDB's.
pub(super) fn written(copy: CopyTo) -> Result<CopyTo> {
    let is_left = |option: &String| option.ends_with("_format") || option.ends_with("quote_style");
    let copy = partitioned(plain(copy)?)?;
    match copy.file_type.get_ext().as_str() {
        "csv" if !copy.options.keys().any(is_left) => fields(copy),
        "json" if copy.partition_by.is_empty() && is_file(&copy.output_url) => lines(copy),
        "json" => moments(copy),
        _ => with_uuids(copy),
    }
}

/// `copy` with states as structs and values, and ENUMs as texts.
fn plain(copy: CopyTo) -> Result<CopyTo> {
    let schema = Arc::clone(copy.input.schema());
    let plain = |ty: &DataType| outside::without_enums(&states::plain(ty));
    if schema.fields().iter().all(|field| plain(field.data_type()) == *field.data_type()) {
        return Ok(copy);
    }
    with_columns(copy, |name, column| {
        let to = plain(&column.get_type(&schema)?);
        Ok(casts::bind(column, &to, false, &schema)?.alias(name))
    })
}

/// Whether DataFusion takes a place for a file's.
fn is_file(url: &str) -> bool {
    let name = url.rsplit('/').next().unwrap_or(url);
    name.rsplit_once('.').is_some_and(|(name, extension)| !name.is_empty() && !extension.is_empty())
}

/// `copy` with converted columns under the same names.
fn with_columns(copy: CopyTo, value: impl Fn(&str, Expr) -> Result<Expr>) -> Result<CopyTo> {
    let columns = copy.input.schema().columns().into_iter().map(|column| {
        let name = column.name.clone();
        value(&name, Expr::Column(column))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let input = LogicalPlanBuilder::from(copy.input.as_ref().clone()).project(columns)?.build()?;
    Ok(CopyTo::new(Arc::new(input), copy.output_url, copy.partition_by, copy.file_type, copy.options))
}

/// Partition columns as texts, with a name for NULL, which DataFusion would write as 0.
fn partitioned(copy: CopyTo) -> Result<CopyTo> {
    if copy.partition_by.is_empty() {
        return Ok(copy);
    }
    let (schema, names) = (Arc::clone(copy.input.schema()), copy.partition_by.clone());
    with_columns(copy, |name, column| match names.iter().any(|by| by == name) {
        true => Ok(coalesce(vec![casts::bind(column, &DataType::Utf8, false, &schema)?, lit(hive::NULL)]).alias(name)),
        false => Ok(column),
    })
}

/// Columns whose fields mark UUIDs, for typed formats.
fn with_uuids(copy: CopyTo) -> Result<CopyTo> {
    let own = Arc::clone(copy.input.schema().inner());
    let given = outside::given_schema(&own, outside::Form::Extension);
    if given == own {
        return Ok(copy);
    }
    with_columns(copy, |name, column| {
        let field = given.field_with_name(name)?;
        let is_nested = field.data_type() != own.field_with_name(name)?.data_type();
        let value = if is_nested { casts::with_fields(column, field.data_type()) } else { column };
        let noted = field.metadata().iter().flat_map(|(key, value)| [lit(key.as_str()), lit(value.as_str())]);
        let args: Vec<Expr> = std::iter::once(value).chain(noted).collect();
        Ok(match args.len() {
            1 => args.into_iter().next().unwrap_or_default(),
            _ => with_metadata().call(args),
        }
        .alias(name))
    })
}

/// Formats the fields of CSV: an empty text is quoted, NULL is not.
fn fields(mut copy: CopyTo) -> Result<CopyTo> {
    let option = |name: &str, otherwise: &str| {
        let found = copy.options.get(&format!("format.{name}"));
        found.map_or_else(|| otherwise.to_string(), String::clone)
    };
    let (delimiter, quote, null) = (option("delimiter", ","), option("quote", "\""), option("null_value", ""));
    let escape = if option("double_quote", "true") == "true" { quote.clone() } else { option("escape", "\\") };
    let (schema, names) = (Arc::clone(copy.input.schema()), copy.partition_by.clone());
    let marks = [delimiter, quote, escape, null];
    copy.options.insert("format.quote_style".into(), "never".into());
    with_columns(copy, |name, column| {
        if names.iter().any(|by| by == name) {
            return Ok(column);
        }
        let text = casts::bind(column, &DataType::Utf8, false, &schema)?;
        let args = std::iter::once(text).chain(marks.iter().map(|mark| lit(mark.as_str())));
        let [delimiter, quote, escape, null] = marks.each_ref().map(String::as_str);
        let heading = csv_field::written(name, &csv_field::Marks { delimiter, quote, escape, null });
        called("csv_field", args.collect()).map(|field| field.alias(heading))
    })
}

/// Formats timestamps for JSON that DataFusion writes.
fn moments(copy: CopyTo) -> Result<CopyTo> {
    let schema = Arc::clone(copy.input.schema());
    with_columns(copy, |name, column| match column.get_type(&schema)? {
        DataType::Timestamp(..) => Ok(casts::bind(column, &DataType::Utf8, false, &schema)?.alias(name)),
        _ => Ok(column),
    })
}

/// JSON objects with all columns: DataFusion omits those that are NULL.
fn lines(mut copy: CopyTo) -> Result<CopyTo> {
    let columns = copy.input.schema().columns().into_iter();
    let parts = columns.flat_map(|column| [lit(column.name.as_str()), Expr::Column(column)]).collect();
    let line = called("to_json", vec![named_struct(parts)])?.alias("line");
    let input = LogicalPlanBuilder::from(copy.input.as_ref().clone()).project([line])?.build()?;
    copy.options.insert("format.has_header".into(), "false".into());
    copy.options.insert("format.quote_style".into(), "never".into());
    let text = format_as_file_type(Arc::new(CsvFormatFactory::new()));
    Ok(CopyTo::new(Arc::new(input), copy.output_url, copy.partition_by, text, copy.options))
}

fn called(name: &str, args: Vec<Expr>) -> Result<Expr> {
    library::call(name, args).map_or_else(|| plan_err!("no function {name}"), Ok)
}
