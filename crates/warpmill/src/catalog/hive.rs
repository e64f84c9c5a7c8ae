//! Hive partitioning: folders whose names are column values, `year=2024/month=1/a.parquet`.
//!
//! The type of a column is one that fits all of its values: BIGINT, DATE or TIMESTAMP, otherwise VARCHAR. NULL has a special name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::datasource::ViewTable;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::functions::core::expr_fn::nullif;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, cast, lit};

use crate::Error;

/// The folder value that represents NULL.
pub(crate) const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// Largest number of sets of values with separate scans, if a pattern selects only some of the files.
const MOST_PARTS: usize = 256;

/// The partition columns of a file by name, with values as text.
type Values = BTreeMap<String, String>;

/// The partition columns in `path`, in order.
fn keys_of(path: &Path) -> Vec<(String, String)> {
    let folders = path.parent().map(|folder| folder.iter().filter_map(|part| part.to_str())).into_iter().flatten();
    let keys = folders
        .filter_map(|part| part.split_once('='))
        .filter(|(name, value)| !name.is_empty() && !value.contains('='));
    keys.map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// The partition values of every file, if all have the same columns; `None` without partition columns.
fn values_of(files: &[PathBuf]) -> Option<Vec<Values>> {
    let all: Vec<Values> = files.iter().map(|file| keys_of(file).into_iter().collect()).collect();
    let first = all.first().filter(|first| !first.is_empty())?;
    all.iter().all(|values| values.keys().eq(first.keys())).then_some(all)
}

/// The type of a column with these values.
fn type_of<'a>(values: impl Iterator<Item = &'a str> + Clone) -> DataType {
    let is = |ty: &DataType| values.clone().filter(|value| *value != NULL).all(|value| is_written(value, ty));
    let types = [DataType::Int64, DataType::Date32, DataType::Timestamp(TimeUnit::Microsecond, None)];
    match values.clone().all(|value| value == NULL) {
        true => DataType::Utf8,
        false => types.into_iter().find(is).unwrap_or(DataType::Utf8),
    }
}

/// Whether `text` is how a value of type `ty` is written.
fn is_written(text: &str, ty: &DataType) -> bool {
    let given = ScalarValue::from(text);
    let again = |value: ScalarValue| value.cast_to(&DataType::Utf8).map(|text| text.to_string().replace('T', " "));
    given.cast_to(ty).and_then(again).is_ok_and(|again| again == text)
}

/// The types of columns, in the order of their names.
fn types(all: &[Values]) -> Vec<(String, DataType)> {
    let names = all.first().into_iter().flat_map(|first| first.keys());
    names
        .map(|name| (name.clone(), type_of(all.iter().filter_map(|values| values.get(name)).map(String::as_str))))
        .collect()
}

/// The value that is written as `text`.
fn value_of(text: &str, ty: &DataType) -> Result<ScalarValue> {
    match text == NULL {
        true => ScalarValue::try_from(ty),
        false => ScalarValue::from(decoded(text)).cast_to(ty),
    }
}

/// Decodes `%20` and similar escapes.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 3).and_then(|code| std::str::from_utf8(code).ok());
        match code.filter(|_| bytes[at] == b'%').and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_string())
}

/// Whether folders of `path` are values of columns.
pub(super) fn has_keys(path: &Path) -> bool {
    !keys_of(path).is_empty()
}

/// A column with one value per file: its name and the values.
pub(super) type FileColumn = (String, Vec<ScalarValue>);

/// The partition columns of `files`, in order of their names, with a value per file; `None` if files differ in their columns.
///
/// # Errors
/// Values that do not fit the column's type.
pub(super) fn constants(files: &[PathBuf]) -> Result<Option<Vec<FileColumn>>> {
    let Some(all) = values_of(files) else { return Ok(None) };
    let column = |(name, ty): (String, DataType)| -> Result<(String, Vec<ScalarValue>)> {
        let values = all.iter().map(|values| value_of(&values[&name], &ty)).collect::<Result<Vec<_>>>()?;
        Ok((name, values))
    };
    types(&all).into_iter().map(column).collect::<Result<_>>().map(Some)
}

/// The table of `files` with their partition columns; `None` if there are none.
///
/// # Errors
/// Files that cannot be read; a selection of the files of very many folders.
pub(super) async fn table(
    state: &SessionState,
    files: &[PathBuf],
    options: &ListingOptions,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let Some(all) = values_of(files) else { return Ok(None) };
    let types = types(&all);
    if let Some((folder, names)) = whole(files, &options.file_extension) {
        return listed(state, &folder, &names, &types, options).await.map(Some);
    }
    let mut parts: BTreeMap<&Values, Vec<&PathBuf>> = BTreeMap::new();
    for (values, file) in all.iter().zip(files) {
        parts.entry(values).or_default().push(file);
    }
    if parts.len() > MOST_PARTS {
        let count = parts.len();
        let text = format!(
            "a part of the files in {count} folders of values of columns: name the folder, and what is wanted in WHERE"
        );
        return Err(Error::NotImplemented(text).into());
    }
    let mut made: Option<LogicalPlanBuilder> = None;
    for (values, files) in parts {
        let urls = files.into_iter().map(|file| ListingTableUrl::parse(glob::Pattern::escape(&file.to_string_lossy())));
        let config = ListingTableConfig::new_with_multi_paths(urls.collect::<Result<_>>()?);
        let options = options.clone().with_file_extension("");
        let table = ListingTable::try_new(config.with_listing_options(options).infer_schema(state).await?)?;
        let schema = table.schema();
        let constant = |name: &String, ty: &DataType| value_of(&values[name], ty).map(lit);
        let part = with_columns(Arc::new(table), &schema, &types, constant)?;
        made = Some(match made {
            Some(before) => before.union(part.build()?)?,
            None => part,
        });
    }
    let Some(made) = made else { return Ok(None) };
    Ok(Some(Arc::new(ViewTable::new(made.build()?, None))))
}

/// The folder that contains exactly `files`, and its partition columns in order.
fn whole(files: &[PathBuf], extension: &str) -> Option<(PathBuf, Vec<String>)> {
    let (first, names) =
        (files.first()?, keys_of(files.first()?).into_iter().map(|(name, _)| name).collect::<Vec<_>>());
    let folder = first.ancestors().nth(names.len() + 1)?;
    let is_regular = |file: &Path| {
        let inside = file.strip_prefix(folder).ok();
        inside.is_some_and(|inside| {
            inside.iter().count() == names.len() + 1 && keys_of(inside).iter().map(|(name, _)| name).eq(&names)
        })
    };
    let pattern = match folder.as_os_str().is_empty() {
        true => "**/*".to_string(),
        false => format!("{}/**/*", glob::Pattern::escape(&folder.to_string_lossy())),
    };
    let mut there: Vec<PathBuf> = glob::glob(&pattern).ok()?.flatten().filter(|path| path.is_file()).collect();
    there.retain(|file| file.to_string_lossy().ends_with(extension));
    let mut files = files.to_vec();
    files.sort();
    there.sort();
    (files == there && files.iter().all(|file| is_regular(file))).then(|| (folder.to_owned(), names))
}

/// The files below `folder`, whose folders are values of the columns `names`.
async fn listed(
    state: &SessionState,
    folder: &Path,
    names: &[String],
    types: &[(String, DataType)],
    options: &ListingOptions,
) -> Result<Arc<dyn TableProvider>> {
    let folder = std::path::absolute(folder)?;
    let texts = names.iter().map(|name| (name.clone(), DataType::Utf8)).collect();
    let options = options.clone().with_table_partition_cols(texts);
    let url = ListingTableUrl::parse(format!("{}/", glob::Pattern::escape(&folder.to_string_lossy())))?;
    let schema = options.infer_schema(state, &url).await?;
    let is_own = |name: &str| !names.iter().any(|other| other.eq_ignore_ascii_case(name));
    let own: Vec<_> = schema.fields().iter().filter(|field| is_own(field.name())).cloned().collect();
    let own = Arc::new(Schema::new_with_metadata(own, schema.metadata().clone()));
    let config = ListingTableConfig::new(url).with_listing_options(options).with_schema(own);
    let column = |name: &String, ty: &DataType| {
        let text = nullif(Expr::Column(Column::new(Some(FILES), name)), lit(NULL));
        Ok(if *ty == DataType::Utf8 { text } else { cast(text, ty.clone()) })
    };
    let plan = with_columns(Arc::new(ListingTable::try_new(config)?), &schema, types, column)?;
    Ok(Arc::new(ViewTable::new(plan.build()?, None)))
}

/// The relation of the files.
const FILES: &str = "files";

/// The columns `schema` of `table` with partition columns: replacing columns of the same names, then appended.
fn with_columns(
    table: Arc<dyn TableProvider>,
    schema: &SchemaRef,
    types: &[(String, DataType)],
    value: impl Fn(&String, &DataType) -> Result<Expr>,
) -> Result<LogicalPlanBuilder> {
    let mut columns = vec![];
    for field in schema.fields() {
        columns.push(match types.iter().find(|(name, _)| name.eq_ignore_ascii_case(field.name())) {
            Some((name, ty)) => value(name, ty)?.alias(field.name()),
            None => Expr::Column(Column::new(Some(FILES), field.name())).alias(field.name()),
        });
    }
    let is_new = |name: &String| !schema.fields().iter().any(|field| name.eq_ignore_ascii_case(field.name()));
    for (name, ty) in types.iter().filter(|(name, _)| is_new(name)) {
        columns.push(value(name, ty)?.alias(name));
    }
    LogicalPlanBuilder::scan(FILES, provider_as_source(table), None)?.project(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_those_that_all_values_have() {
        let of = |values: &[&str]| type_of(values.iter().copied());
        assert_eq!(of(&["1", "-20", NULL]), DataType::Int64);
        assert_eq!(of(&["2020-01-01", NULL]), DataType::Date32);
        assert_eq!(of(&["2020-01-01 10:00:00"]), DataType::Timestamp(TimeUnit::Microsecond, None));
        for texts in
            [&["1", "01"][..], &["+1"], &["1", "2020-01-01"], &["1.5"], &[""], &[NULL], &["99999999999999999999"]]
        {
            assert_eq!(of(texts), DataType::Utf8, "{texts:?}");
        }
    }

    #[test]
    fn columns_are_those_of_all_folders() {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert!(values_of(&paths(&["p/k=1/a", "p/k=2/j=1/a"])).is_none());
        assert!(values_of(&paths(&["p/a=b.parquet"])).is_none());
        let found = values_of(&paths(&["p/k=1/j=x%20y/a", "p/j=2/k=1/a"])).unwrap();
        assert_eq!(types(&found), [("j".to_string(), DataType::Utf8), ("k".to_string(), DataType::Int64)]);
        assert_eq!(value_of(&found[0]["j"], &DataType::Utf8).unwrap(), ScalarValue::from("x y"));
        assert_eq!(decoded("100%"), "100%");
    }
}
