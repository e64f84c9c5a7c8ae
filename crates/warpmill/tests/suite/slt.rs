//! Runs `sql/**/*.slt` under the default settings and under every adversarial configuration of `sql/configs/*.json`.
//!
//! The kernels of the simulated device are also compiled by NVRTC; no GPU is needed.
//!
//! Warpmill must run every query itself (`warpmill.fallback = 'error'`), unless a file says `# fallback: allow`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};
use warpmill::{Error, QueryResult, Session};

use crate::machine_code;
use crate::quick::cases;

struct Connection(Session);

impl DB for Connection {
    type Error = Error;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Error> {
        let result = self.0.execute(sql, &[])?;
        if result.schema.fields().is_empty() {
            return Ok(DBOutput::StatementComplete(0));
        }
        let types = vec![DefaultColumnType::Any; result.schema.fields().len()];
        Ok(DBOutput::Rows { types, rows: rows(&result)? })
    }

    fn engine_name(&self) -> &str {
        "warpmill"
    }
}

fn rows(result: &QueryResult) -> Result<Vec<Vec<String>>, Error> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in &result.batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        rows.extend((0..batch.num_rows()).map(|row| {
            let text = |column: &ArrayFormatter<'_>| match column.value(row).to_string() {
                empty if empty.is_empty() => "(empty)".to_string(),
                text => text,
            };
            columns.iter().map(text).collect()
        }));
    }
    Ok(rows)
}

fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
}

fn sql_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sql")
}

/// Runs all files under `settings`, for devices every third in quick runs; returns the failures.
fn run_files(config: &str, settings: &BTreeMap<String, String>) -> Vec<String> {
    let mut tests = Vec::new();
    files(&sql_folder(), "slt", &mut tests);
    assert!(!tests.is_empty());
    let step = if settings.contains_key("warpmill.device") { 3 } else { 1 };
    // Different files under different settings.
    let tests = cases(tests.into_iter().skip(config.len() % step), step);
    let mut failures = Vec::new();
    for path in tests {
        let text = std::fs::read_to_string(&path).unwrap();
        let fallback = if text.contains("# fallback: allow") { "allow" } else { "error" };
        let mut runner = Runner::new(|| async {
            let mut builder = Session::builder().set("warpmill.fallback", fallback);
            for (key, value) in settings {
                builder = builder.set(key, value);
            }
            Ok(Connection(builder.build()?))
        });
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match sqllogictest::parse_file::<DefaultColumnType>(&path) {
            Err(error) => failures.push(format!("[{config}] {name}: {error}")),
            Ok(records) => {
                for record in records {
                    if let Err(error) = runner.run(record) {
                        failures.push(format!("[{config}] {error}"));
                    }
                }
            }
        }
    }
    failures
}

#[test]
fn default_settings() {
    let failures = run_files("default", &BTreeMap::new());
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn adversarial_settings() {
    machine_code::record();
    let mut configs = Vec::new();
    files(&sql_folder().join("configs"), "json", &mut configs);
    assert!(!configs.is_empty());
    // One thread per core: device runs spend most of their time in a compiler.
    let (waiting, failures) = (Mutex::new(configs), Mutex::new(Vec::new()));
    let take = || waiting.lock().unwrap().pop();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(path) = take() {
                    let settings = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
                    let found = run_files(&path.file_stem().unwrap().to_string_lossy(), &settings);
                    failures.lock().unwrap().extend(found);
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n\n"));
    machine_code::check("sql");
}
