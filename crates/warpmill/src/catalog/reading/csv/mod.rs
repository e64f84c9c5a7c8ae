//! CSV files; unspecified options are detected.
//!
//! DataFusion reads files of plain records; others are cleaned while they are read.

mod clean;
mod options;
mod sniff;
mod survey;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Format as RecordFormat;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::ViewTable;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions::string::expr_fn::replace;
use datafusion::logical_expr::{Case, Expr, LogicalPlan, LogicalPlanBuilder, lit};

use super::own_columns::{OwnColumns, union};
use super::stream::{self, Batches, Format};
use crate::catalog::files::urls;
use crate::catalog::same;
use crate::{Error, Result, dialect};
use clean::Cleaning;
use sniff::Found;

pub(crate) use options::{Declared, Options};

/// The name of an unnamed column among `width` columns.
fn numbered(at: usize, width: usize) -> String {
    let digits = width.saturating_sub(1).to_string().len();
    format!("column{at:0digits$}")
}

/// The rows of CSV files.
///
/// # Errors
/// Files that are not CSV, or that have other columns than the first one.
pub(crate) async fn table(
    state: &SessionState,
    files: Vec<String>,
    options: Options,
) -> Result<Arc<dyn TableProvider>> {
    let options = Arc::new(options);
    let (paths, given) = (files.iter().map(PathBuf::from).collect::<Vec<_>>(), Arc::clone(&options));
    let found = tokio::task::spawn_blocking(move || match given.sniffs {
        true => sniff::sniff(&paths, &given),
        false => Ok(sniff::said(&given)),
    });
    let found = found.await.map_err(|error| Error::Other(error.to_string()))??;
    let types = declared(state, &found.schema, &options).await?;
    let folder = options.place.as_ref().filter(|place| Path::new(place).is_dir());
    let hive = folder.map_or(options.hive, |_| Some(false));
    let own = OwnColumns::of("read_csv", &files, options.filename.as_deref(), hive)?;
    let csv = Csv { state, options: &options, found: &found, types };
    let is_whole = own.is_empty() && found.own.is_none();
    if is_whole && csv.types.iter().all(Option::is_none) {
        return match &options.place {
            Some(place) if csv.is_plain(&files) => csv.of_place(place, folder.is_some()).await,
            _ => csv.source(&files, &csv.read(&found.schema)),
        };
    }
    let plan = match is_whole {
        true => csv.rows(&files, &found.schema, &own, 0)?,
        false => {
            own.check_count("CSV", files.len())?;
            let schema = |at: usize| found.own.as_ref().map_or(&found.schema, |schemas| &schemas[at]);
            let file = |(at, file): (usize, &String)| csv.rows(std::slice::from_ref(file), schema(at), &own, at);
            union(files.iter().enumerate().map(file).collect::<Result<_>>()?)?
        }
    };
    Ok(Arc::new(ViewTable::new(plan, None)))
}

/// Records that are cleaned before they are read.
#[derive(Debug)]
struct Cleaned {
    format: RecordFormat,
    cleaning: Cleaning,
}

impl Format for Cleaned {
    fn open(&self, path: &Path, schema: &SchemaRef, rows: usize) -> Result<Batches> {
        let reader = ReaderBuilder::new(Arc::clone(schema)).with_format(self.format.clone()).with_batch_size(rows);
        let failed = |error| Error::Execution(format!("{}: {error}", path.display()));
        Ok(Box::new(reader.build(self.cleaning.open(path)?).map_err(failed)?))
    }
}

/// CSV files with their detected properties.
struct Csv<'a> {
    state: &'a SessionState,
    options: &'a Options,
    found: &'a Found,
    /// For each column the type to which its texts are cast; `None` if the reader parses it.
    types: Vec<Option<DataType>>,
}

impl Csv<'_> {
    fn is_plain(&self, files: &[String]) -> bool {
        files.iter().all(|file| self.found.cleaning.is_plain(Path::new(file)))
    }

    /// The position of a column in the union of all files' columns.
    fn column(&self, name: &str) -> Option<usize> {
        self.found.schema.fields().iter().position(|field| same(field.name(), name))
    }

    /// The columns of a file for the reader: declared columns are read as text, and cast later.
    fn read(&self, schema: &SchemaRef) -> SchemaRef {
        let fields = schema.fields().iter().map(|field| {
            let place = self.column(field.name());
            let ty = match place {
                Some(at) if self.types[at].is_some() => DataType::Utf8,
                Some(at) => self.found.schema.field(at).data_type().clone(),
                None => field.data_type().clone(),
            };
            Field::new(field.name(), ty, true)
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    fn format(&self) -> Arc<CsvFormat> {
        let format = CsvFormat::default()
            .with_options(self.state.default_table_options().csv)
            .with_has_header(self.found.header)
            .with_delimiter(self.found.delimiter)
            .with_quote(self.options.quote_byte())
            .with_escape(self.options.escape_byte())
            .with_newlines_in_values(self.found.multi_line);
        Arc::new(format)
    }

    /// The files at `place`, listed again for each execution.
    async fn of_place(&self, place: &str, is_folder: bool) -> Result<Arc<dyn TableProvider>> {
        let extension = if is_folder { ".csv" } else { "" };
        let listed = ListingOptions::new(self.format()).with_file_extension(extension);
        let config = ListingTableConfig::new_with_multi_paths(urls(place)?).with_listing_options(listed);
        let config = if is_folder { config.infer_partitions_from_path(self.state).await? } else { config };
        Ok(Arc::new(ListingTable::try_new(config.with_schema(self.read(&self.found.schema)))?))
    }

    /// The records of `files`.
    fn source(&self, files: &[String], read: &SchemaRef) -> Result<Arc<dyn TableProvider>> {
        if !self.is_plain(files) {
            let (format, cleaning) = (self.found.format(self.options), self.found.cleaning.clone());
            return stream::table(files, read, &(Arc::new(Cleaned { format, cleaning }) as Arc<dyn Format>));
        }
        let listed = ListingOptions::new(self.format()).with_file_extension("");
        let urls = files.iter().map(|file| ListingTableUrl::parse(glob::Pattern::escape(file)));
        let config = ListingTableConfig::new_with_multi_paths(urls.collect::<Result<Vec<_>, _>>()?);
        Ok(Arc::new(ListingTable::try_new(config.with_listing_options(listed).with_schema(Arc::clone(read)))?))
    }

    /// The rows of `files`, which have the columns `schema`, extended to the columns of all files and the file columns of file `at`.
    fn rows(&self, files: &[String], schema: &SchemaRef, own: &OwnColumns, at: usize) -> Result<LogicalPlan> {
        let read = self.read(schema);
        let rows = LogicalPlanBuilder::scan("rows", provider_as_source(self.source(files, &read)?), None)?.build()?;
        let (mut columns, mut fit) = (vec![], vec![]);
        for (field, ty) in self.found.schema.fields().iter().zip(&self.types) {
            let there = read.fields().iter().find(|there| same(there.name(), field.name()));
            let Some(there) = there else {
                let ty = ty.as_ref().unwrap_or(field.data_type());
                columns.push(lit(ScalarValue::try_from(ty)?).alias(field.name()));
                continue;
            };
            let text = Expr::Column(Column::new(Some("rows"), there.name()));
            let value = match ty {
                Some(ty) => {
                    let not_null = self.options.not_null.iter().any(|name| same(name, field.name()));
                    let null = ScalarValue::Utf8(not_null.then(String::new));
                    let text = match &self.options.nulls {
                        Some(nulls) => with_nulls(text, nulls, null),
                        None if not_null => coalesce(vec![text, lit("")]),
                        None => text,
                    };
                    let value = self.value(text.clone(), ty, &rows)?;
                    if self.options.ignore_errors && *ty != DataType::Utf8 {
                        fit.push(text.is_null().or(value.clone().is_not_null()));
                    }
                    value
                }
                None => text,
            };
            columns.push(value.alias(field.name()));
        }
        let rows = match fit.into_iter().reduce(Expr::and) {
            Some(fit) => LogicalPlanBuilder::from(rows).filter(fit)?,
            None => LogicalPlanBuilder::from(rows),
        };
        Ok(rows.project(own.with(columns, at))?.build()?)
    }

    /// `text` as a value of type `ty`; NULL for invalid texts if errors are ignored.
    fn value(&self, text: Expr, ty: &DataType, rows: &LogicalPlan) -> Result<Expr> {
        let is_number = matches!(ty, DataType::Float32 | DataType::Float64 | DataType::Decimal128(..));
        let written = match ty {
            DataType::Date32 => self.options.date_format.as_ref(),
            DataType::Timestamp(_, None) => self.options.timestamp_format.as_ref(),
            _ => None,
        };
        let value = match written {
            Some(format) => {
                let name = if self.options.ignore_errors { "try_strptime" } else { "strptime" };
                let function = self.state.scalar_functions().get(name);
                let function = function.ok_or_else(|| Error::Internal(format!("there is no {name}")))?;
                function.call(vec![text, lit(format.as_str())])
            }
            None if is_number && self.options.decimal_comma => replace(text, lit(","), lit(".")),
            None => text,
        };
        match self.options.ignore_errors {
            true => Ok(dialect::try_cast(value, ty, rows.schema())?),
            false => Ok(dialect::cast(value, ty, rows.schema())?),
        }
    }
}

/// The text of a field, or `null` if it is one of `nulls`. The reader returns NULL for an empty field, which is an empty text here.
fn with_nulls(value: Expr, nulls: &[String], null: ScalarValue) -> Expr {
    let text = coalesce(vec![value, lit("")]);
    let listed = text.clone().in_list(nulls.iter().map(|null| lit(null.as_str())).collect(), false);
    Expr::Case(Case::new(None, vec![(Box::new(listed), Box::new(lit(null)))], Some(Box::new(text))))
}

/// For each column the type to which its texts are cast; `None` if the reader parses it.
async fn declared(state: &SessionState, found: &Schema, options: &Options) -> Result<Vec<Option<DataType>>> {
    let is_written = |ty: &DataType| match ty {
        DataType::Date32 => options.date_format.is_some(),
        DataType::Timestamp(_, None) => options.timestamp_format.is_some(),
        DataType::Float64 | DataType::Decimal128(..) => options.decimal_comma,
        _ => false,
    };
    // With texts that mean NULL, all columns are read as text.
    let reads_texts = options.nulls.is_some() || !options.not_null.is_empty();
    let own = |field: &Arc<Field>| reads_texts || is_written(field.data_type());
    let types = found.fields().iter().map(|field| own(field).then(|| field.data_type().clone()));
    let mut types: Vec<Option<DataType>> = types.collect();
    if options.all_text {
        types.fill(Some(DataType::Utf8));
    }
    let mut named: Vec<(usize, &Declared)> = vec![];
    for (at, (name, ty)) in options.types.iter().enumerate() {
        let place = match name {
            Some(name) => found.fields().iter().position(|field| same(field.name(), name)),
            None => Some(at).filter(|at| *at < found.fields().len()),
        };
        let missing = || {
            let which = name.as_ref().map_or_else(|| format!("column {}", at + 1), |name| format!("column {name:?}"));
            Error::Plan(format!("read_csv: types names {which}, which the file does not have"))
        };
        named.push((place.ok_or_else(missing)?, ty));
    }
    named.extend(options.columns.iter().flatten().map(|(_, ty)| ty).enumerate());
    for (at, ty) in named {
        types[at] = Some(match ty {
            Declared::Known(ty) => ty.clone(),
            Declared::Sql(ty) => super::type_called(state, "read_csv", ty).await?,
        });
    }
    Ok(types)
}
