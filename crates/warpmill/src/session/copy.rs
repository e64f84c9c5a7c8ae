//! COPY in DuckDB's form: `COPY t FROM 'file' (options)`, `COPY t TO 'file' (options)`.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};
use datafusion::prelude::col;
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, Word};

use super::ddl::default_of;
use super::running::Query;
use super::{QueryResult, Session};
use crate::catalog::reading;
use crate::catalog::{files, same};
use crate::{Error, Result, ScalarValue, dialect};

/// A COPY statement with options in parentheses, or COPY FROM.
#[derive(Debug)]
pub(super) enum Copy {
    From(CopyFrom),
    /// COPY TO rewritten to DataFusion's form.
    To(String),
}

/// `COPY target (columns) FROM 'path' (options)`.
#[derive(Debug)]
pub(super) struct CopyFrom {
    target: String,
    columns: Vec<String>,
    path: String,
    options: Vec<(String, String)>,
}

/// Parses a COPY statement; `None`: it is in DataFusion's form already.
///
/// # Errors
/// Unknown options.
pub(super) fn parse(sql: &str) -> Result<Option<Copy>> {
    // Tokens that are written again keep their quotes.
    let tokens = Tokenizer::new(&DuckDbDialect, sql).with_unescape(false).tokenize();
    let tokens = tokens.map_err(|error| Error::Parse(error.to_string()))?;
    let mut depth = 0;
    let direction = tokens.iter().position(|token| {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0 && (is_word(token, "from") || is_word(token, "to"))
    });
    let Some(at) = direction else { return Ok(None) };
    let (source, rest) = (&tokens[1..at], &tokens[at + 1..]);
    let mut rest = rest.iter().filter(|token| !matches!(token, Token::Whitespace(_))).cloned().peekable();
    let from = is_word(&tokens[at], "from");
    let Some(Token::SingleQuotedString(path)) = rest.next().map(unescaped) else {
        return if from { Err(Error::Parse("COPY ... FROM takes a path in quotes".into())) } else { Ok(None) };
    };
    rest.next_if(|token| is_word(token, "with"));
    let rest: Vec<Token> = rest.map(unescaped).collect();
    let options = match &rest[..] {
        [] => vec![],
        [Token::LParen, inner @ .., Token::RParen] => options(inner)?,
        _ if from => return Err(Error::Parse("COPY ... FROM takes options in parentheses after the path".into())),
        _ => return Ok(None),
    };
    if from {
        let (target, columns) = target(source)?;
        return Ok(Some(Copy::From(CopyFrom { target, columns, path, options })));
    }
    if options.is_empty() {
        return Ok(None);
    }
    to_datafusion(&text(source), &path, &options).map(|text| Some(Copy::To(text)))
}

/// A token whose text is what it means, not how it is written.
fn unescaped(token: Token) -> Token {
    match token {
        Token::SingleQuotedString(text) => Token::SingleQuotedString(text.replace("''", "'")),
        Token::Word(word) if word.quote_style == Some('"') => {
            Token::Word(Word { value: word.value.replace("\"\"", "\""), ..word })
        }
        token => token,
    }
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

fn text(tokens: &[Token]) -> String {
    tokens.iter().map(ToString::to_string).collect::<String>().trim().to_string()
}

/// Name and columns of `name (columns)`.
fn target(tokens: &[Token]) -> Result<(String, Vec<String>)> {
    let open = tokens.iter().position(|token| *token == Token::LParen);
    let Some(open) = open else { return Ok((text(tokens), vec![])) };
    let columns = tokens[open..].iter().filter_map(|token| match token {
        Token::Word(_) => match unescaped(token.clone()) {
            Token::Word(word) => Some(word.value),
            _ => None,
        },
        _ => None,
    });
    match text(&tokens[..open]) {
        name if name.is_empty() => Err(Error::Parse("COPY ... FROM takes the name of a table, not a query".into())),
        name => Ok((name, columns.collect())),
    }
}

/// `NAME [value], ...`, names in lower case.
pub(super) fn options(tokens: &[Token]) -> Result<Vec<(String, String)>> {
    let mut depth = 0;
    let parts = tokens.split(|token| {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0 && *token == Token::Comma
    });
    let option = |part: &[Token]| match part {
        [Token::Word(name), value @ ..] => {
            let value = value.iter().filter(|token| **token != Token::Eq).map(|token| match token {
                Token::SingleQuotedString(text) => text.clone(),
                Token::Word(word) => word.value.clone(),
                token => token.to_string(),
            });
            Ok((name.value.to_ascii_lowercase(), value.collect::<String>()))
        }
        other => Err(Error::Parse(format!("COPY has no option {}", text(other)))),
    };
    parts.map(option).collect()
}

fn is_true(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "" | "true" | "1" | "on" => Ok(true),
        "false" | "0" | "off" => Ok(false),
        _ => Err(Error::Plan(format!("{name} is true or false, not {value:?}"))),
    }
}

fn unknown(name: &str) -> Error {
    Error::NotImplemented(format!("option {} of COPY", name.to_uppercase()))
}

/// `COPY ... TO` as DataFusion writes it.
fn to_datafusion(source: &str, path: &str, options: &[(String, String)]) -> Result<String> {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let (mut stored, mut partitioned, mut formats) = (String::new(), String::new(), Vec::new());
    let is_parquet = options.iter().any(|(name, value)| name == "format" && same(value, "parquet"))
        || path.to_ascii_lowercase().ends_with(".parquet");
    for (name, value) in options {
        let format = match name.as_str() {
            "format" => {
                stored = format!(" STORED AS {value}");
                continue;
            }
            "partition_by" => {
                partitioned = format!(" PARTITIONED BY ({})", value.trim_matches(['(', ')']));
                continue;
            }
            "header" => ("has_header", is_true(name, value)?.to_string()),
            "delimiter" | "delim" | "sep" => ("delimiter", if value == "\\t" { "\t".into() } else { value.clone() }),
            "quote" => ("quote", value.clone()),
            "escape" => {
                // Quotes are doubled if the escape character is the quote itself.
                let quote = options.iter().find(|(name, _)| name == "quote").map_or("\"", |(_, quote)| quote.as_str());
                formats.push(format!("'format.double_quote' '{}'", value == quote));
                ("escape", value.clone())
            }
            "null" | "nullstr" => ("null_value", value.clone()),
            "compression" => ("compression", compression(value, is_parquet)?),
            "row_group_size" if is_parquet => ("max_row_group_size", value.clone()),
            _ => return Err(unknown(name)),
        };
        formats.push(format!("'format.{}' {}", format.0, quoted(&format.1)));
    }
    let formats = if formats.is_empty() { String::new() } else { format!(" OPTIONS ({})", formats.join(", ")) };
    Ok(format!("COPY {source} TO {}{stored}{partitioned}{formats}", quoted(path)))
}

fn compression(value: &str, is_parquet: bool) -> Result<String> {
    let value = value.to_ascii_lowercase();
    Ok(match (value.as_str(), is_parquet) {
        ("zstd", true) => "zstd(3)".into(),
        ("gzip", true) => "gzip(6)".into(),
        ("snappy" | "uncompressed" | "lz4" | "lz4_raw", true) | ("gzip" | "zstd", false) => value,
        ("none", false) => "uncompressed".into(),
        _ => return Err(Error::NotImplemented(format!("COMPRESSION {value:?} of COPY"))),
    })
}

impl Session {
    /// Appends the rows of files to a table: columns by position, values as casts make them.
    pub(super) async fn copy_from(&self, from: CopyFrom, query: &Query) -> Result<QueryResult> {
        let name = TableReference::parse_str(&from.target);
        if !self.inner.remote.allowed() {
            return Err(Error::NotImplemented("COPY ... FROM: this session may not read files".into()));
        }
        let target = self.inner.context.table_provider(name.clone()).await?;
        let schema = target.schema();
        let columns = positions(&schema, &from.columns)?;
        let left =
            schema.fields().iter().enumerate().find(|(at, field)| !columns.contains(at) && default_of(field).is_some());
        if let Some((_, field)) = left {
            let text = format!("COPY ... FROM without column {}, which has a default", field.name());
            return Err(Error::NotImplemented(text));
        }
        let state = self.inner.context.state();
        let source = match from.format()? {
            "csv" => from.csv(&state, &schema, &columns).await?,
            // Without partition columns from folder names.
            "parquet" if !std::path::Path::new(&from.path).is_dir() => {
                self.inner.context.table_provider(TableReference::bare(from.parquet().name())).await?
            }
            _ => files::named(&state, &from.path)
                .await?
                .ok_or_else(|| Error::Io(format!("no such file: {}", from.path)))?,
        };
        let given = source.schema();
        if given.fields().len() != columns.len() {
            let (found, wanted) = (given.fields().len(), columns.len());
            return Err(Error::Plan(format!("{}: {found} columns, where {} takes {wanted}", from.path, from.target)));
        }
        let rows = LogicalPlanBuilder::scan("source", provider_as_source(source), None)?.build()?;
        let values = schema.fields().iter().enumerate().map(|(at, field)| {
            let value = match columns.iter().position(|column| *column == at) {
                Some(place) => col(datafusion::common::Column::new(Some("source"), given.field(place).name())),
                None => lit(ScalarValue::Null),
            };
            Ok(dialect::cast(value, field.data_type(), rows.schema())?.alias(field.name()))
        });
        let values: Vec<Expr> = values.collect::<Result<_>>()?;
        let rows = LogicalPlanBuilder::from(rows).project(values)?.build()?;
        let plan =
            LogicalPlanBuilder::insert_into(rows, name, provider_as_source(target), InsertOp::Append)?.build()?;
        let (prepared, _) = self.prepare(&Arc::new(state), Arc::new(plan), &self.options()).await?;
        self.run_prepared(&prepared, query).await
    }
}

/// The positions of the columns called `names`; all columns if the list is empty.
fn positions(schema: &Schema, names: &[String]) -> Result<Vec<usize>> {
    if names.is_empty() {
        return Ok((0..schema.fields().len()).collect());
    }
    let position = |name: &String| {
        let found = schema.fields().iter().position(|field| same(field.name(), name));
        found.ok_or_else(|| Error::Plan(format!("COPY: there is no column {name:?}")))
    };
    names.iter().map(position).collect()
}

impl CopyFrom {
    /// The path of the file.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The call that reads the columns of Parquet files.
    fn parquet(&self) -> reading::Call {
        let options = vec![("hive_partitioning".to_string(), reading::Given::One("false".to_string()))];
        reading::Call { function: "read_parquet".to_string(), paths: vec![self.path.clone()], options }
    }

    fn format(&self) -> Result<&str> {
        let said = self.options.iter().find(|(name, _)| name == "format").map(|(_, value)| value.to_ascii_lowercase());
        let path = self.path.to_ascii_lowercase();
        let path = path.trim_end_matches(".gz").trim_end_matches(".zst");
        let is = |extension: &str| path.ends_with(extension);
        match said.as_deref() {
            Some("csv") => Ok("csv"),
            Some("parquet") if is(".parquet") => Ok("parquet"),
            Some("json") if is("json") => Ok("json"),
            Some(other) => Err(Error::NotImplemented(format!("FORMAT {other} of COPY FROM {:?}", self.path))),
            None if is(".parquet") => Ok("parquet"),
            None if is("json") || is(".jsonl") => Ok("json"),
            None => Ok("csv"),
        }
    }

    /// The rows of the file: `read_csv` with the columns of the table.
    async fn csv(&self, state: &SessionState, table: &SchemaRef, columns: &[usize]) -> Result<Arc<dyn TableProvider>> {
        let mut given = vec![];
        for (name, value) in self.options.iter().filter(|(name, _)| name != "format") {
            let value = if value.is_empty() && is_flag(name) { "true" } else { value };
            let value = match name.as_str() {
                "force_not_null" => {
                    let columns = value.trim_matches(['(', ')']).split(',');
                    reading::Given::List(columns.map(|column| column.trim().to_string()).collect())
                }
                _ => reading::Given::One(value.to_string()),
            };
            given.push((name.clone(), value));
        }
        let call = reading::Call { function: "COPY".to_string(), paths: vec![self.path.clone()], options: given };
        let mut options = reading::CsvGiven::of(&call)?;
        let declared = |at: &usize| {
            let field = table.field(*at);
            (field.name().clone(), reading::Declared::Known(field.data_type().clone()))
        };
        let columns: Vec<_> = columns.iter().map(declared).collect();
        let files = call.files()?;
        if options.header.is_none() {
            options.header = Some(self.has_header(&files, &columns, &options)?);
        }
        (options.columns, options.sniffs, options.hive) = (Some(columns), false, Some(false));
        reading::csv_table(state, files, options).await
    }

    /// Whether the first line is the names of the columns.
    fn has_header(
        &self,
        files: &[String],
        columns: &[(String, reading::Declared)],
        options: &reading::CsvGiven,
    ) -> Result<bool> {
        let Some(first) = files.first() else { return Err(Error::Io(format!("no such file: {}", self.path))) };
        let line = options.first_line(first)?;
        let delimiter = options.delimiter.unwrap_or(b',') as char;
        let fields: Vec<&str> = line.trim_end().split(delimiter).map(|field| field.trim().trim_matches('"')).collect();
        if fields.len() == columns.len() && fields.iter().zip(columns).all(|(field, (name, _))| same(field, name)) {
            return Ok(true);
        }
        let text = "the first line is not the names of the columns: say HEADER or HEADER false";
        Err(Error::Plan(format!("{}: {text}", self.path)))
    }
}

/// Whether an option without a value is wanted.
fn is_flag(name: &str) -> bool {
    matches!(name, "header" | "ignore_errors" | "null_padding" | "all_varchar" | "auto_detect")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(sql: &str) -> String {
        match parse(sql).unwrap() {
            Some(Copy::To(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn copy_to_is_translated() {
        assert_eq!(
            to("COPY (SELECT 'a, b' AS x FROM t) TO 'o''x.csv' (HEADER false, DELIMITER '|')"),
            "COPY (SELECT 'a, b' AS x FROM t) TO 'o''x.csv' OPTIONS ('format.has_header' 'false', 'format.delimiter' '|')"
        );
        assert_eq!(
            to("copy s.t to 'dir' (format parquet, partition_by (a, b), compression zstd)"),
            "COPY s.t TO 'dir' STORED AS parquet PARTITIONED BY (a,b) OPTIONS ('format.compression' 'zstd(3)')"
        );
        for same in ["COPY t TO 'x.csv'", "COPY t TO 'x' STORED AS CSV", "COPY t TO 'x' OPTIONS ('a' 'b')"] {
            assert!(parse(same).unwrap().is_none(), "{same}");
        }
        assert_eq!(
            to("COPY (SELECT 'it''s' AS \"a\"\"b\") TO 'x.csv' (HEADER)"),
            "COPY (SELECT 'it''s' AS \"a\"\"b\") TO 'x.csv' OPTIONS ('format.has_header' 'true')"
        );
        assert!(parse("COPY t TO 'x.csv' (ROW_GROUP_SIZE 3)").is_err());
    }

    #[test]
    fn copy_from_is_understood() {
        let Some(Copy::From(from)) = parse("COPY s.\"T\" (a, \"B\") FROM 'x.csv' WITH (HEADER, NULL 'NA')").unwrap()
        else {
            panic!("no COPY FROM");
        };
        assert_eq!((from.target.as_str(), from.path.as_str()), ("s.\"T\"", "x.csv"));
        assert_eq!(from.columns, ["a", "B"]);
        assert_eq!(from.options, [("header".to_string(), String::new()), ("null".to_string(), "NA".to_string())]);
    }
}
