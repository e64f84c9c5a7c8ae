//! EXPORT DATABASE and IMPORT DATABASE, in DuckDB's form: a folder with the statements that create all objects (`schema.sql`), the statements
//! that load the rows (`load.sql`), and a file of rows for each table.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use warpmill_format::Table;
use warpmill_format::table::{Constraint, leftovers};

use super::changes::OwnTransaction;
use super::copy;
use super::running::Query;
use super::statements::Taken;
use super::{QueryResult, Session};
use crate::catalog::{Defined, Schema, View, comment_of, creating, is_main, same};
use crate::dialect::optionally_quoted;
use crate::pieces::statements;
use crate::plan_cache::normalized;
use crate::remote::is_remote;
use crate::visit::visit_relations;
use crate::{Error, Result};

const SCHEMA: &str = "schema.sql";
const LOAD: &str = "load.sql";

/// The format of the files of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Csv,
    Parquet,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Parquet => "parquet",
        }
    }
}

/// `EXPORT DATABASE 'folder' (options)`.
#[derive(Debug)]
struct Export {
    /// The path of the folder, as written in the statement.
    folder: String,
    format: Format,
    /// The options of COPY, without the format.
    options: Vec<(String, String)>,
}

impl Export {
    fn parse(sql: &str) -> Result<Self> {
        let malformed = || Error::Parse(format!("{sql}: expected EXPORT DATABASE 'folder' (FORMAT parquet)"));
        let rest = tokens(sql, "export database ".len())?;
        let [Token::SingleQuotedString(folder), rest @ ..] = &rest[..] else { return Err(malformed()) };
        let options = match rest {
            [] => vec![],
            [Token::LParen, inside @ .., Token::RParen] => copy::options(inside)?,
            _ => return Err(malformed()),
        };
        let mut export = Self { folder: folder.clone(), format: Format::Csv, options: vec![] };
        for (name, value) in options {
            match (name.as_str(), value.to_ascii_lowercase().as_str()) {
                ("format", "csv") => export.format = Format::Csv,
                ("format", "parquet") => export.format = Format::Parquet,
                ("format", other) => {
                    return Err(Error::NotImplemented(format!(
                        "EXPORT DATABASE has no format {other}: use csv or parquet"
                    )));
                }
                _ => export.options.push((name, value)),
            }
        }
        Ok(export)
    }

    /// The options for a table. In CSV, a NULL that is the only field of its row is written as a text.
    fn of_table(&self, table: &TableText) -> Self {
        let Self { folder, format, options } = self;
        let mut options = options.clone();
        if table.is_single && *format == Format::Csv && !options.iter().any(|(name, _)| is_null_text(name)) {
            options.push(("null".into(), "\\N".into()));
        }
        Self { folder: folder.clone(), format: *format, options }
    }

    /// The statement that writes the rows of a table.
    fn copy_to(&self, table: &str, path: &str) -> String {
        let mut options = vec![format!("FORMAT {}", self.format.name())];
        if self.format == Format::Csv && !self.options.iter().any(|(name, _)| name == "header") {
            options.push("HEADER true".into());
        }
        options.extend(self.options.iter().map(|(name, value)| match value.as_str() {
            "" => name.clone(),
            value => format!("{name} {}", text(value)),
        }));
        format!("COPY {table} TO {} ({})", text(path), options.join(", "))
    }

    /// The statement that reads the rows of a table.
    fn copy_from(&self, table: &str, path: &str) -> String {
        let options = match self.format {
            Format::Parquet => String::new(),
            Format::Csv => {
                let given = |names: &[&str]| self.options.iter().find(|(name, _)| names.contains(&name.as_str()));
                let value = |names: &[&str], usual: &str| {
                    text(given(names).map_or(usual, |(_, value)| if value.is_empty() { usual } else { value }))
                };
                let mut options = format!(
                    ", allow_quoted_nulls false, quote {}, delimiter {}, header {}",
                    value(&["quote"], "\""),
                    value(&["delimiter", "delim", "sep"], ","),
                    value(&["header"], "true"),
                );
                for (name, written) in [("escape", &["escape"][..]), ("nullstr", &["null", "nullstr"])] {
                    if let Some((_, value)) = given(written) {
                        options.push_str(&format!(", {name} {}", text(value)));
                    }
                }
                options
            }
        };
        format!("COPY {table} FROM {} (FORMAT '{}'{options});", text(path), self.format.name())
    }
}

fn is_null_text(option: &str) -> bool {
    ["null", "nullstr"].contains(&option)
}

/// The tokens of a statement from byte `from` on, without blanks and the semicolon at the end.
fn tokens(sql: &str, from: usize) -> Result<Vec<Token>> {
    let rest = sql.get(from..).unwrap_or_default().trim_end_matches([';', ' ']);
    let tokens = Tokenizer::new(&DuckDbDialect, rest).tokenize();
    let tokens = tokens.map_err(|error| Error::Parse(error.to_string()))?;
    Ok(tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect())
}

fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The statements that create the objects of a database.
#[derive(Debug, Default)]
struct Contents {
    schemas: Vec<String>,
    sequences: Vec<String>,
    types: Vec<String>,
    tables: Vec<TableText>,
    macros: Vec<String>,
    views: Vec<ViewText>,
    /// The names of relations that no statement can create.
    left_out: Vec<String>,
}

#[derive(Debug, Default)]
struct TableText {
    schema: String,
    name: String,
    /// Whether the table has one column: a blank line of its CSV file would be no row.
    is_single: bool,
    create: String,
    indexes: Vec<String>,
    comments: Vec<String>,
    /// The tables to which its foreign keys refer.
    refers_to: Vec<String>,
}

#[derive(Debug)]
struct ViewText {
    name: String,
    /// The schema for names without one.
    default_schema: String,
    create: String,
    comments: Vec<String>,
    /// The names of the relations that the view reads, in lower case.
    reads: HashSet<String>,
}

impl Session {
    /// `EXPORT DATABASE 'folder' (FORMAT parquet | csv, options of COPY)`.
    pub(super) async fn export_database(&self, sql: &str, query: &Query) -> Result<Taken> {
        self.check_files("EXPORT DATABASE")?;
        let export = Export::parse(sql)?;
        let folder = folder_of(&export.folder)?;
        // A transaction, so that all tables are read in the same state. A session with workers exports without one.
        let own = match self.is_in_transaction() || !self.options().workers.addresses.is_empty() {
            true => None,
            false => {
                self.begin_now()?;
                Some(OwnTransaction::of(&self.inner.catalog))
            }
        };
        let contents = self.contents().await?;
        match std::fs::create_dir(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => made.map_err(|error| Error::Io(format!("{}: {error}", folder.display())))?,
        }
        let mut load = String::new();
        let mut files = HashSet::new();
        for table in &contents.tables {
            let file = file_name(table, export.format, &mut files);
            let name = creating::qualified(&table.schema, &table.name);
            let path = format!("{}/{file}", export.folder.trim_end_matches('/'));
            let own = export.of_table(table);
            Box::pin(self.run_statement(&own.copy_to(&name, &path), &[], query)).await?;
            load.push_str(&own.copy_from(&name, &path));
            load.push('\n');
        }
        leftovers::write_file(&folder.join(SCHEMA), contents.statements().as_bytes())?;
        leftovers::write_file(&folder.join(LOAD), load.as_bytes())?;
        drop(own);
        let mut done = QueryResult::empty();
        if !contents.left_out.is_empty() {
            done.notices.push(format!("EXPORT DATABASE leaves out {}", contents.left_out.join(", ")));
        }
        Ok(Taken::Done(done))
    }

    /// `IMPORT DATABASE 'folder'`.
    pub(super) async fn import_database(&self, sql: &str, query: &Query) -> Result<Taken> {
        self.check_files("IMPORT DATABASE")?;
        let rest = tokens(sql, "import database ".len())?;
        let [Token::SingleQuotedString(given)] = &rest[..] else {
            return Err(Error::Parse(format!("{sql}: expected IMPORT DATABASE 'folder'")));
        };
        let folder = folder_of(given)?;
        let (schema, load) = (read(&folder.join(SCHEMA))?, read(&folder.join(LOAD))?);
        // All statements are checked before the first one runs.
        let schema: Vec<String> = statements(&schema).into_iter().map(normalized).collect();
        schema.iter().try_for_each(|sql| check_making(sql))?;
        let load: Vec<String> =
            statements(&load).into_iter().map(|sql| loading(&normalized(sql), given)).collect::<Result<_>>()?;
        let default = self.default_schema();
        let imported = self.run_import(&schema, &load, query).await;
        self.use_schema(&default)?;
        let mut done = QueryResult::empty();
        done.notices = imported?;
        Ok(Taken::Done(done))
    }

    /// Runs the statements of an import and returns their notices. A view that reads a later one waits for it: DuckDB writes views in any order.
    async fn run_import(&self, schema: &[String], load: &[String], query: &Query) -> Result<Vec<String>> {
        let mut notices = vec![];
        let mut waiting: Vec<(&String, String)> = vec![];
        for sql in schema {
            let within = self.default_schema();
            match Box::pin(self.run_statement(sql, &[], query)).await {
                Ok(result) => notices.extend(result.notices),
                Err(Error::Catalog(_)) if makes_view(sql) => waiting.push((sql, within)),
                Err(error) => return Err(error),
            }
        }
        while !waiting.is_empty() {
            let (before, mut last) = (waiting.len(), None);
            for (sql, within) in std::mem::take(&mut waiting) {
                self.use_schema(&within)?;
                match Box::pin(self.run_statement(sql, &[], query)).await {
                    Ok(result) => notices.extend(result.notices),
                    Err(error) => {
                        last = Some(error);
                        waiting.push((sql, within));
                    }
                }
            }
            if let Some(error) = last.filter(|_| waiting.len() == before) {
                return Err(error);
            }
        }
        for sql in load {
            notices.extend(Box::pin(self.run_statement(sql, &[], query)).await?.notices);
        }
        Ok(notices)
    }

    fn check_files(&self, what: &str) -> Result<()> {
        match self.inner.remote.allowed() {
            true => Ok(()),
            false => Err(Error::NotImplemented(format!("{what}: this session may not read or write files"))),
        }
    }

    async fn contents(&self) -> Result<Contents> {
        let catalog = &self.inner.catalog;
        let mut contents = Contents::default();
        for name in catalog.all_schemas()? {
            let schema = catalog.schema_called(&name)?;
            if !is_main(&name) {
                contents.schemas.push(format!("CREATE SCHEMA {};", optionally_quoted(&name)));
            }
            for (sequence, state, temporary) in schema.all_sequences()? {
                if !temporary {
                    contents.sequences.push(state.creating(&name, &sequence));
                }
            }
            for defined in schema.stored_definitions(Defined::Type)? {
                let definition = schema.definition(Defined::Type, &defined)?.unwrap_or_default();
                contents.types.push(format!("CREATE TYPE {} AS {definition};", creating::qualified(&name, &defined)));
            }
            for defined in schema.stored_definitions(Defined::Macro)? {
                let sql = schema.definition(Defined::Macro, &defined)?.unwrap_or_default();
                contents.macros.push(creating::macro_called(&creating::qualified(&name, &defined), &sql)?);
            }
            for found in schema.names()? {
                if !schema.is_temporary(&found)? {
                    self.add_relation(&schema, &found, &mut contents)?;
                }
            }
        }
        contents.order_tables();
        Ok(contents)
    }

    /// Adds the statements of a table or a view.
    fn add_relation(&self, schema: &Arc<Schema>, name: &str, contents: &mut Contents) -> Result<()> {
        if let Some(table) = schema.warpmill_table(name)? {
            contents.tables.push(TableText::of(schema.name(), name, &table)?);
        } else if let Some(view) = schema.view(name)? {
            contents.views.push(self.view_text(schema, name, &view)?);
        } else {
            contents.left_out.push(creating::qualified(schema.name(), name));
        }
        Ok(())
    }

    fn view_text(&self, schema: &Schema, name: &str, view: &View) -> Result<ViewText> {
        let qualified = creating::qualified(schema.name(), name);
        let mut reads = HashSet::new();
        if let Some(statement) = self.parsed(view.sql())? {
            let _: ControlFlow<()> = visit_relations(&statement, |relation| {
                reads.extend(relation.0.last().and_then(|part| Some(part.as_ident()?.value.to_lowercase())));
                ControlFlow::Continue(())
            });
        }
        let comments = view.comment().map(|comment| format!("COMMENT ON VIEW {qualified} IS {};", text(comment)));
        let of_column = |(column, comment): (&String, &String)| {
            format!("COMMENT ON COLUMN {qualified}.{} IS {};", optionally_quoted(column), text(comment))
        };
        Ok(ViewText {
            name: name.to_lowercase(),
            default_schema: view.default_schema().to_string(),
            create: creating::view(&qualified, view)?,
            comments: comments.into_iter().chain(view.column_comments().iter().map(of_column)).collect(),
            reads,
        })
    }
}

impl TableText {
    fn of(schema: &str, name: &str, table: &Table) -> Result<Self> {
        let snapshot = table.snapshot()?;
        let (fields, constraints) = (snapshot.schema(), snapshot.constraints());
        let qualified = creating::qualified(schema, name);
        let comment = comment_of(fields.metadata());
        let mut comments: Vec<String> =
            comment.iter().map(|comment| format!("COMMENT ON TABLE {qualified} IS {};", text(comment))).collect();
        for field in fields.fields() {
            if let Some(comment) = comment_of(field.metadata()) {
                let column = optionally_quoted(field.name());
                comments.push(format!("COMMENT ON COLUMN {qualified}.{column} IS {};", text(comment)));
            }
        }
        Ok(Self {
            schema: schema.to_string(),
            name: name.to_string(),
            is_single: fields.fields().len() == 1,
            create: creating::table(schema, name, fields, constraints),
            refers_to: constraints.iter().filter_map(referenced).collect(),
            indexes: constraints.iter().filter_map(|one| creating::index(&qualified, fields, one)).collect(),
            comments,
        })
    }
}

/// The other table to which a foreign key refers.
fn referenced(constraint: &Constraint) -> Option<String> {
    match constraint {
        Constraint::ForeignKey { table, .. } => table.clone(),
        _ => None,
    }
}

impl Contents {
    /// Puts tables behind those to which their foreign keys refer.
    fn order_tables(&mut self) {
        let mut waiting = std::mem::take(&mut self.tables);
        while !waiting.is_empty() {
            let is_there = |table: &TableText, name: &String| {
                waiting.iter().any(|other| other.schema == table.schema && same(&other.name, name))
            };
            let later = |table: &TableText| table.refers_to.iter().any(|name| is_there(table, name));
            let wait: Vec<bool> = waiting.iter().map(later).collect();
            // No table refers to one that is younger.
            let none_goes = !wait.contains(&false);
            let (mut now, mut rest) = (vec![], vec![]);
            for (table, waits) in waiting.into_iter().zip(wait) {
                if waits && !none_goes { rest.push(table) } else { now.push(table) }
            }
            self.tables.append(&mut now);
            waiting = rest;
        }
    }

    /// The statements of `schema.sql`, in an order in which each finds the objects that it names.
    fn statements(&self) -> String {
        let mut all: Vec<&str> = vec![];
        all.extend(self.schemas.iter().chain(&self.sequences).chain(&self.types).map(String::as_str));
        all.extend(self.tables.iter().map(|table| table.create.as_str()));
        all.extend(self.macros.iter().map(String::as_str));
        let mut used = vec![];
        for view in in_order(&self.views) {
            let own = !is_main(&view.default_schema);
            used.extend(own.then(|| format!("USE {};", optionally_quoted(&view.default_schema))));
            used.push(view.create.clone());
            used.extend(own.then(|| "USE main;".to_string()));
        }
        all.extend(used.iter().map(String::as_str));
        all.extend(self.tables.iter().flat_map(|table| &table.indexes).map(String::as_str));
        let comments = self.tables.iter().flat_map(|table| &table.comments);
        all.extend(comments.chain(self.views.iter().flat_map(|view| &view.comments)).map(String::as_str));
        all.iter().map(|statement| format!("{statement}\n")).collect()
    }
}

/// The views, each one after the views that it reads.
fn in_order(views: &[ViewText]) -> Vec<&ViewText> {
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, view) in views.iter().enumerate() {
        by_name.entry(&view.name).or_default().push(at);
    }
    let (mut ordered, mut met) = (vec![], vec![false; views.len()]);
    // A depth-first search: the second part of an entry tells whether the views that the view reads have been visited.
    for first in 0..views.len() {
        let mut waiting = vec![(first, false)];
        while let Some((at, done)) = waiting.pop() {
            if done {
                ordered.push(&views[at]);
                continue;
            }
            if std::mem::replace(&mut met[at], true) {
                continue;
            }
            waiting.push((at, true));
            let mut before: Vec<&String> = views[at].reads.iter().collect();
            before.sort();
            let found = before.into_iter().filter_map(|name| by_name.get(name.as_str())).flatten();
            waiting.extend(found.filter(|other| !met[**other]).map(|other| (*other, false)));
        }
    }
    ordered
}

/// A file name for a table that no other table has.
fn file_name(table: &TableText, format: Format, taken: &mut HashSet<String>) -> String {
    let plain = |name: &str| -> String {
        name.chars().map(|letter| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '_' }).collect()
    };
    let stem = match is_main(&table.schema) {
        true => plain(&table.name),
        false => format!("{}_{}", plain(&table.schema), plain(&table.name)),
    };
    let numbered = (0..).map(|number: u32| if number == 0 { stem.clone() } else { format!("{stem}_{number}") });
    // Some file systems do not distinguish upper and lower case.
    let name = numbered.into_iter().find(|name| taken.insert(name.to_lowercase())).unwrap_or_default();
    format!("{name}.{}", format.name())
}

fn folder_of(given: &str) -> Result<PathBuf> {
    match is_remote(given) {
        true => Err(Error::NotImplemented(format!("{given}: databases are exported to folders of this machine"))),
        false => Ok(PathBuf::from(given)),
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| Error::Io(format!("{}: {error}", path.display())))
}

/// Refuses statements of `schema.sql` other than CREATE, COMMENT ON and USE.
fn check_making(sql: &str) -> Result<()> {
    let words: Vec<&str> = sql.split(' ').take(2).collect();
    let is_one = match words[..] {
        [first, second] => {
            same(first, "create") && !same(second, "external")
                || same(first, "comment") && same(second, "on")
                || same(first, "use")
        }
        _ => false,
    };
    match is_one {
        true => Ok(()),
        false => {
            Err(Error::NotImplemented(format!("{SCHEMA} has a statement other than CREATE, COMMENT ON and USE: {sql}")))
        }
    }
}

fn makes_view(sql: &str) -> bool {
    sql.split(' ').take(4).any(|word| same(word, "view"))
}

/// A statement of `load.sql` with the path of the file in `folder`, independent of the path that was written.
fn loading(sql: &str, folder: &str) -> Result<String> {
    let refused = || Error::NotImplemented(format!("{LOAD} has a statement other than COPY ... FROM 'file': {sql}"));
    let Some(copy::Copy::From(from)) = copy::parse(sql).ok().flatten() else { return Err(refused()) };
    let file = from.path().rsplit(['/', '\\']).next().filter(|name| !name.is_empty()).ok_or_else(refused)?;
    let path = format!("{}/{file}", folder.trim_end_matches('/'));
    let (before, after) = sql.split_once(&text(from.path())).ok_or_else(refused)?;
    Ok(format!("{before}{}{after}", text(&path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_understood() {
        let export = Export::parse("EXPORT DATABASE '/tmp/a b' (FORMAT parquet, COMPRESSION zstd);").unwrap();
        assert_eq!((export.folder.as_str(), export.format), ("/tmp/a b", Format::Parquet));
        assert_eq!(export.copy_to("t", "x"), "COPY t TO 'x' (FORMAT parquet, compression 'zstd')");
        assert_eq!(export.copy_from("t", "x"), "COPY t FROM 'x' (FORMAT 'parquet');");
        let export = Export::parse("export database 'd' (delimiter '|')").unwrap();
        assert_eq!(export.copy_to("t", "it's"), "COPY t TO 'it''s' (FORMAT csv, HEADER true, delimiter '|')");
        assert_eq!(
            export.copy_from("t", "x"),
            "COPY t FROM 'x' (FORMAT 'csv', allow_quoted_nulls false, quote '\"', delimiter '|', header 'true');"
        );
        let single = TableText { is_single: true, ..TableText::default() };
        let export = Export::parse("EXPORT DATABASE 'd'").unwrap().of_table(&single);
        assert!(
            export.copy_to("t", "x").ends_with("null '\\N')")
                && export.copy_from("t", "x").ends_with(", nullstr '\\N');")
        );
        for wrong in ["EXPORT DATABASE", "EXPORT DATABASE 'd' parquet", "EXPORT DATABASE 'd' (FORMAT json)"] {
            assert!(Export::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn files_are_those_of_the_folder() {
        let load = "COPY s.t FROM '/else/where/s_t.csv' (FORMAT 'csv', header 1)";
        assert_eq!(loading(load, "here/").unwrap(), "COPY s.t FROM 'here/s_t.csv' (FORMAT 'csv', header 1)");
        for wrong in ["DROP TABLE t", "COPY t TO 'x.csv'", "COPY t FROM 'x/' (FORMAT 'csv')"] {
            assert!(loading(wrong, "here").is_err(), "{wrong}");
        }
        assert!(check_making("CREATE TABLE t(a INTEGER)").is_ok());
        for wrong in ["DROP TABLE t", "SET threads = 1", "CREATE EXTERNAL TABLE t", "COPY t TO 'x'", "CREATE"] {
            assert!(check_making(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_of_files_differ() {
        let table =
            |schema: &str, name: &str| TableText { schema: schema.into(), name: name.into(), ..TableText::default() };
        let mut taken = HashSet::new();
        let mut of = |schema: &str, name: &str| file_name(&table(schema, name), Format::Csv, &mut taken);
        assert_eq!(of("public", "od d/x"), "od_d_x.csv");
        assert_eq!(of("s", "t"), "s_t.csv");
        assert_eq!(of("public", "S_t"), "S_t_1.csv");
    }

    #[test]
    fn views_are_behind_those_that_they_read() {
        let view = |name: &str, reads: &[&str]| ViewText {
            name: name.into(),
            default_schema: "main".into(),
            create: String::new(),
            comments: vec![],
            reads: reads.iter().map(ToString::to_string).collect(),
        };
        let views = [view("a", &["b", "t"]), view("b", &["c"]), view("c", &["t"]), view("d", &["d"])];
        let names: Vec<&str> = in_order(&views).into_iter().map(|view| view.name.as_str()).collect();
        assert_eq!(names, ["c", "b", "a", "d"]);
    }
}
