//! CSV files: what is not said of them is found in them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::csv::ReaderBuilder;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::ViewTable;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::functions::expr_fn::coalesce;
use datafusion::logical_expr::{Case, Expr, LogicalPlan, LogicalPlanBuilder, lit};
use regex::Regex;
use warpmill_format::FormatError;
use warpmill_format::ingest::{CsvColumns, CsvOptions};

use super::{Call, Given};
use crate::catalog::files::urls;
use crate::catalog::same;
use crate::planning::bound;
use crate::{Error, Result, dialect};

/// Between fields, in the order in which they are tried.
const DELIMITERS: [u8; 4] = [b',', b'|', b';', b'\t'];
/// Records that are looked at for the delimiter.
const SNIFFED: usize = 100;
/// Files that may have columns of their own (their names, their folders).
const MOST_FILES: usize = 1000;

/// What is said of CSV files.
#[derive(Debug, Clone, Default)]
pub(in crate::catalog) struct Options {
    /// Between fields.
    delimiter: Option<u8>,
    /// The path, folder or pattern that the files are of: those that are there when they are read.
    place: Option<String>,
    header: Option<bool>,
    quote: Option<u8>,
    escape: Option<u8>,
    /// All columns with the names of their types.
    columns: Option<Vec<(String, String)>>,
    /// The names of types, by column; those of the first columns have no name.
    types: Vec<(Option<String>, String)>,
    names: Vec<String>,
    all_text: bool,
    /// Fields that mean NULL.
    nulls: Option<Vec<String>>,
    filename: bool,
    hive: Option<bool>,
}

impl Options {
    /// Files of which no more is said than what is between their fields.
    pub(in crate::catalog) fn delimited(delimiter: Option<u8>, place: &str) -> Self {
        Self { delimiter, place: Some(place.to_string()), ..Self::default() }
    }

    /// The options of a call.
    pub(super) fn of(call: &Call) -> Result<Self> {
        let mut own = Self::default();
        for (option, given) in &call.options {
            own.add(call, option, given)?;
        }
        Ok(own)
    }

    fn add(&mut self, call: &Call, option: &str, given: &Given) -> Result<()> {
        let byte = || match given {
            Given::One(text) if text == "\\t" => Ok(b'\t'),
            Given::One(text) if text.len() == 1 => Ok(text.as_bytes()[0]),
            _ => Err(call.refused(format!("{option} is one byte"))),
        };
        match (option, given) {
            ("delim" | "sep" | "delimiter", _) => self.delimiter = Some(byte()?),
            ("quote", _) => self.quote = Some(byte()?),
            ("escape", _) => self.escape = Some(byte()?),
            ("header", given) => self.header = Some(call.truth(option, given)?),
            ("columns", Given::Map(columns)) => self.columns = Some(columns.clone()),
            ("types" | "dtypes" | "column_types", Given::Map(types)) => {
                self.types = types.iter().map(|(name, ty)| (Some(name.clone()), ty.clone())).collect();
            }
            ("types" | "dtypes" | "column_types", Given::List(types)) => {
                self.types = types.iter().map(|ty| (None, ty.clone())).collect();
            }
            ("names" | "column_names", Given::List(names)) => self.names.clone_from(names),
            ("all_varchar", given) => self.all_text = call.truth(option, given)?,
            ("nullstr" | "null", Given::One(text)) => self.nulls = Some(vec![text.clone()]),
            ("nullstr" | "null", Given::List(texts)) => self.nulls = Some(texts.clone()),
            ("filename", given) => self.filename = call.truth(option, given)?,
            ("hive_partitioning", given) => self.hive = Some(call.truth(option, given)?),
            ("compression", Given::One(kind)) => match kind.to_ascii_lowercase().as_str() {
                "auto" | "none" => {}
                other => return Err(call.refused(format!("the compression {other}"))),
            },
            ("skip", Given::One(count)) if count == "0" => {}
            ("auto_detect", given) if call.truth(option, given)? => {}
            ("ignore_errors" | "union_by_name" | "null_padding" | "store_rejects" | "normalize_names", given)
                if !call.truth(option, given)? => {}
            // All rows are looked at, and read as they are.
            ("sample_size" | "parallel" | "buffer_size" | "max_line_size", _) => {}
            _ => return Err(call.unknown(option)),
        }
        Ok(())
    }

    /// The fields that mean NULL as a regular expression; `None`: empty ones.
    fn null_regex(&self) -> Option<String> {
        let texts: Vec<String> = self.nulls.as_ref()?.iter().map(|text| regex::escape(text)).collect();
        Some(format!("^(?:{})$", texts.join("|")))
    }

    /// Whether an empty field is a text of its own.
    fn keeps_empty(&self) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| !nulls.iter().any(String::is_empty))
    }
}

/// What has been found in CSV files.
struct Found {
    delimiter: u8,
    header: bool,
    multi_line: bool,
    schema: SchemaRef,
}

/// The rows of CSV files.
///
/// # Errors
/// Files that are no CSV, or whose columns are not those of the first.
pub(in crate::catalog) async fn table(
    state: &SessionState,
    files: Vec<String>,
    options: Options,
) -> Result<Arc<dyn TableProvider>> {
    let options = Arc::new(options);
    if let Some(file) = files.iter().find(|file| file.to_lowercase().ends_with(".gz")) {
        return Err(Error::NotImplemented(format!("{file}: a compressed file; Parquet is compressed by itself")));
    }
    let (paths, own) = (files.iter().map(PathBuf::from).collect::<Vec<_>>(), Arc::clone(&options));
    let found = tokio::task::spawn_blocking(move || sniff(&paths, &own)).await;
    let found = found.map_err(|error| Error::Other(error.to_string()))??;
    let declared = declared(state, &found.schema, &options).await?;
    // What is declared is read as text: what it means is for casts to say. So is all where texts mean NULL.
    let nulls = options.nulls.as_deref();
    let declared: Vec<Option<DataType>> = declared
        .into_iter()
        .zip(found.schema.fields())
        .map(|(ty, field)| ty.or_else(|| nulls.map(|_| field.data_type().clone())))
        .collect();
    let fields = found.schema.fields().iter().zip(&declared).map(|(field, ty)| match ty {
        Some(_) => Field::new(field.name(), DataType::Utf8, true),
        None => field.as_ref().clone(),
    });
    let read = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let format = CsvFormat::default()
        .with_options(state.default_table_options().csv)
        .with_has_header(found.header)
        .with_delimiter(found.delimiter)
        .with_quote(options.quote.unwrap_or(b'"'))
        .with_escape(options.escape.filter(|escape| *escape != options.quote.unwrap_or(b'"')))
        .with_newlines_in_values(found.multi_line);
    let format = Arc::new(format);
    let listing = |files: &[String]| -> Result<Arc<dyn TableProvider>> {
        let listed = ListingOptions::new(Arc::clone(&format) as _).with_file_extension("");
        let urls = files.iter().map(|file| ListingTableUrl::parse(glob::Pattern::escape(file)));
        let config = ListingTableConfig::new_with_multi_paths(urls.collect::<Result<Vec<_>, _>>()?);
        let config = config.with_listing_options(listed).with_schema(Arc::clone(&read));
        Ok(Arc::new(ListingTable::try_new(config)?))
    };
    let folder = options.place.as_ref().filter(|place| Path::new(place).is_dir());
    let folders = folders(&files, &found.schema, folder.map_or(options.hive, |_| Some(false)))?;
    if folders.is_empty() && !options.filename && declared.iter().all(Option::is_none) {
        let Some(place) = &options.place else { return listing(&files) };
        let extension = if folder.is_some() { ".csv" } else { "" };
        let listed = ListingOptions::new(Arc::clone(&format) as _).with_file_extension(extension);
        let config = ListingTableConfig::new_with_multi_paths(urls(place)?).with_listing_options(listed);
        let config = if folder.is_some() { config.infer_partitions_from_path(state).await? } else { config };
        return Ok(Arc::new(ListingTable::try_new(config.with_schema(read))?));
    }
    let columns = |source: Arc<dyn TableProvider>, extra: Vec<(String, ScalarValue)>| -> Result<LogicalPlan> {
        let rows = LogicalPlanBuilder::scan("rows", provider_as_source(source), None)?.build()?;
        let of = |field: &Arc<Field>| Expr::Column(Column::new(Some("rows"), field.name()));
        let mut exprs = vec![];
        for (field, ty) in read.fields().iter().zip(&declared) {
            exprs.push(match ty {
                Some(ty) => {
                    let value = nulls.map_or_else(|| of(field), |nulls| with_nulls(of(field), nulls));
                    dialect::cast(value, ty, rows.schema())?.alias(field.name())
                }
                None => of(field).alias(field.name()),
            });
        }
        exprs.extend(extra.into_iter().map(|(name, value)| lit(value).alias(name)));
        Ok(LogicalPlanBuilder::from(rows).project(exprs)?.build()?)
    };
    if folders.is_empty() && !options.filename {
        return Ok(Arc::new(ViewTable::new(columns(listing(&files)?, vec![])?, None)));
    }
    if files.len() > MOST_FILES {
        let text = format!("{} CSV files with columns of their own: {MOST_FILES} are the limit", files.len());
        return Err(Error::Limit(text));
    }
    let mut plans = vec![];
    for (at, file) in files.iter().enumerate() {
        let mut extra: Vec<(String, ScalarValue)> = vec![];
        if options.filename {
            extra.push(("filename".into(), ScalarValue::from(file.as_str())));
        }
        extra.extend(folders.iter().map(|(name, values)| (name.clone(), values[at].clone())));
        plans.push(columns(listing(std::slice::from_ref(file))?, extra)?);
    }
    let mut plans = plans.into_iter();
    let first = plans.next().ok_or_else(|| Error::Io("no CSV file is there".into()))?;
    let all = plans.try_fold(LogicalPlanBuilder::from(first), LogicalPlanBuilder::union)?.build()?;
    Ok(Arc::new(ViewTable::new(all, None)))
}

/// A text that has been read, or NULL where it is one of `nulls`. An empty field, which is read as NULL, is a text then.
pub(crate) fn with_nulls(value: Expr, nulls: &[String]) -> Expr {
    let text = coalesce(vec![value, lit("")]);
    let listed = text.clone().in_list(nulls.iter().map(|null| lit(null.as_str())).collect(), false);
    Expr::Case(Case::new(None, vec![(Box::new(listed), Box::new(lit(ScalarValue::Utf8(None))))], Some(Box::new(text))))
}

/// By column, the type that it is declared to have.
async fn declared(state: &SessionState, found: &Schema, options: &Options) -> Result<Vec<Option<DataType>>> {
    let mut named: Vec<(usize, String)> = vec![];
    for (at, (name, ty)) in options.types.iter().enumerate() {
        let place = match name {
            Some(name) => found.fields().iter().position(|field| same(field.name(), name)),
            None => Some(at).filter(|at| *at < found.fields().len()),
        };
        let missing = || {
            let which = name.as_ref().map_or_else(|| format!("column {}", at + 1), |name| format!("column {name:?}"));
            Error::Plan(format!("read_csv: types has {which}, which the file has not"))
        };
        named.push((place.ok_or_else(missing)?, ty.clone()));
    }
    for (at, (_, ty)) in options.columns.iter().flatten().enumerate() {
        named.push((at, ty.clone()));
    }
    let mut types = vec![None; found.fields().len()];
    if options.all_text {
        types.fill(Some(DataType::Utf8));
    }
    let state = Arc::new(state.clone());
    for (at, ty) in named {
        let plan = bound(&state, &format!("SELECT CAST(NULL AS {ty}) AS x"), &[]).await;
        let plan = plan.map_err(|error| Error::Plan(format!("read_csv: the type {ty}: {error}")))?;
        types[at] = Some(plan.schema().field(0).data_type().clone());
    }
    Ok(types)
}

/// Columns that the names of folders say (`key=value`), with a value for each file; none where not all files have the same.
fn folders(files: &[String], found: &Schema, wanted: Option<bool>) -> Result<Vec<(String, Vec<ScalarValue>)>> {
    if wanted == Some(false) {
        return Ok(vec![]);
    }
    let pairs = |file: &String| -> Vec<(String, String)> {
        let parts = Path::new(file).parent().into_iter().flat_map(Path::components);
        let pair = |part: std::path::Component<'_>| {
            let (key, value) = part.as_os_str().to_str()?.split_once('=')?;
            (!key.is_empty()).then(|| (key.to_string(), value.to_string()))
        };
        parts.filter_map(pair).collect()
    };
    let all: Vec<Vec<(String, String)>> = files.iter().map(pairs).collect();
    let Some(first) = all.first().filter(|first| !first.is_empty()) else { return Ok(vec![]) };
    let keys: Vec<String> = first.iter().map(|(key, _)| key.clone()).collect();
    let alike = all.iter().all(|pairs| pairs.len() == keys.len() && pairs.iter().zip(&keys).all(|((a, _), b)| a == b));
    if !alike {
        return match wanted {
            Some(true) => Err(Error::Plan("read_csv: the files are in folders of different keys".into())),
            _ => Ok(vec![]),
        };
    }
    let mut columns = vec![];
    for (at, key) in keys.into_iter().enumerate() {
        if found.fields().iter().any(|field| same(field.name(), &key)) {
            let text = format!("read_csv: column {key:?} is in the files, and in the names of their folders");
            return Err(Error::NotImplemented(text));
        }
        let values: Vec<&str> = all.iter().map(|pairs| pairs[at].1.as_str()).collect();
        let numbers: Option<Vec<i64>> = values.iter().map(|value| value.parse().ok()).collect();
        let dates = |ty: &DataType| {
            let cast = |value: &&str| ScalarValue::from(*value).cast_to(ty).ok().filter(|value| !value.is_null());
            values.iter().map(cast).collect::<Option<Vec<_>>>()
        };
        columns.push((
            key,
            match numbers {
                Some(numbers) => numbers.into_iter().map(ScalarValue::from).collect(),
                None => dates(&DataType::Date32)
                    .unwrap_or_else(|| values.iter().map(|value| ScalarValue::from(*value)).collect()),
            },
        ));
    }
    columns.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(columns)
}

fn open(path: &Path) -> warpmill_format::Result<std::fs::File> {
    let failed = |source| FormatError::Io { action: "cannot open", path: path.to_owned(), source };
    std::fs::File::open(path).map_err(failed)
}

/// The columns of `files`.
fn sniff(files: &[PathBuf], options: &Options) -> Result<Found> {
    let Some(first) = files.first() else { return Err(Error::Io("no CSV file is there".into())) };
    let quote = options.quote.unwrap_or(b'"');
    let delimiter = match options.delimiter {
        Some(delimiter) => delimiter,
        None => delimiter_of(first, quote)?,
    };
    let read = |header: bool| -> Result<CsvColumns> {
        let csv = CsvOptions {
            delimiter,
            quote,
            escape: options.escape.filter(|escape| *escape != quote),
            has_header: header,
            null_values: options.nulls.clone().unwrap_or_default(),
            ..CsvOptions::default()
        };
        let mut all: Option<CsvColumns> = None;
        for path in files {
            let found = CsvColumns::read(path, || Ok(Box::new(open(path)?) as _), &csv)?;
            all = match all {
                None => Some(found),
                Some(all) => Some(all.and(found).ok_or_else(|| {
                    let text = format!("{}: other columns than {}", path.display(), first.display());
                    Error::Execution(text)
                })?),
            };
        }
        all.ok_or_else(|| Error::Io("no CSV file is there".into()))
    };
    let mut header = options.header.unwrap_or(true);
    let mut columns = read(header)?;
    let mut schema = match columns.schema(first) {
        Ok(schema) => schema,
        // A name that is there twice may be a value.
        Err(error) if options.header.is_none() => {
            header = false;
            columns = read(false)?;
            let schema = columns.schema(first)?;
            if schema.fields().iter().all(|field| field.data_type() == &DataType::Utf8) {
                return Err(error.into());
            }
            schema
        }
        Err(error) => return Err(error.into()),
    };
    if options.header.is_none() && header && crate::catalog::files::looks_like_data(&schema).is_some() {
        header = false;
        columns = read(false)?;
        schema = columns.schema(first)?;
    }
    let mut fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    if !header {
        let digits = fields.len().saturating_sub(1).to_string().len();
        let named = fields.into_iter().enumerate();
        fields = named.map(|(at, field)| field.with_name(format!("column{at:0digits$}"))).collect();
    }
    let given: Vec<&String> = match &options.columns {
        Some(columns) => columns.iter().map(|(name, _)| name).collect(),
        None => options.names.iter().collect(),
    };
    if given.len() > fields.len() || options.columns.is_some() && given.len() != fields.len() {
        let (found, wanted) = (fields.len(), given.len());
        return Err(Error::Plan(format!("{}: {found} columns, where {wanted} are named", first.display())));
    }
    for (field, name) in fields.iter_mut().zip(given) {
        *field = field.clone().with_name(name);
    }
    if options.keeps_empty() {
        texts_of_empty(files, &mut fields, options, delimiter, header)?;
    }
    let mut seen = std::collections::HashSet::new();
    if let Some(twice) = fields.iter().find(|field| !seen.insert(field.name().to_lowercase())) {
        return Err(Error::Plan(format!("{}: column {:?} is there twice", first.display(), twice.name())));
    }
    Ok(Found { delimiter, header, multi_line: columns.multi_line, schema: Arc::new(Schema::new(Fields::from(fields))) })
}

/// Makes columns with empty fields, which are no NULLs, columns of texts.
fn texts_of_empty(
    files: &[PathBuf],
    fields: &mut [Field],
    options: &Options,
    delimiter: u8,
    header: bool,
) -> Result<()> {
    let texts = Fields::from_iter(fields.iter().map(|field| Field::new(field.name(), DataType::Utf8, true)));
    let nulls = options.null_regex().unwrap_or_default();
    let nulls = Regex::new(&nulls).map_err(|error| Error::Plan(format!("read_csv: nullstr: {error}")))?;
    for path in files {
        let reader = ReaderBuilder::new(Arc::new(Schema::new(texts.clone())))
            .with_header(header)
            .with_delimiter(delimiter)
            .with_quote(options.quote.unwrap_or(b'"'))
            .with_null_regex(nulls.clone())
            .build(open(path)?)?;
        for batch in reader {
            for (field, column) in fields.iter_mut().zip(batch?.columns()) {
                if column.as_string::<i32>().iter().flatten().any(str::is_empty) {
                    *field = field.clone().with_data_type(DataType::Utf8);
                }
            }
        }
    }
    Ok(())
}

/// What is between the fields of a file: of the candidates that each record has as often, the one that makes most columns.
fn delimiter_of(path: &Path, quote: u8) -> Result<u8> {
    let extension = path.to_string_lossy().to_ascii_lowercase();
    let mut order = DELIMITERS;
    if extension.ends_with(".tsv") {
        order.rotate_right(1);
    }
    let mut reader = BufReader::new(open(path)?);
    let mut counts: Vec<[usize; 4]> = vec![];
    let (mut quoted, mut count, mut any) = (false, [0usize; 4], false);
    let mut line = vec![];
    while counts.len() < SNIFFED {
        line.clear();
        let length =
            reader.read_until(b'\n', &mut line).map_err(|error| Error::Io(format!("{}: {error}", path.display())))?;
        if length == 0 {
            break;
        }
        for byte in &line {
            if *byte == quote {
                quoted = !quoted;
            }
            if !quoted && let Some(at) = order.iter().position(|other| other == byte) {
                count[at] += 1;
            }
            any |= !matches!(byte, b'\r' | b'\n');
        }
        if !quoted {
            if any {
                counts.push(count);
            }
            (count, any) = ([0; 4], false);
        }
    }
    let Some(first) = counts.first() else { return Ok(order[0]) };
    let steady = |at: &usize| first[*at] > 0 && counts.iter().all(|count| count[*at] == first[*at]);
    let mut best: Option<usize> = None;
    for at in (0..4).filter(steady) {
        if best.is_none_or(|best| first[at] > first[best]) {
            best = Some(at);
        }
    }
    Ok(best.map_or(order[0], |at| order[at]))
}
