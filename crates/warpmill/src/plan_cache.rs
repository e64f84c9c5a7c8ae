//! Plans of repeated queries.
//!
//! A plan is found by the query's text without comments and with single spaces, and by its parameters. It is used while planning would give the same
//! plan: same settings, same catalog, every table at the version that was planned, and every Parquet file unchanged. Only queries whose plan depends
//! on nothing else are cached: on tables of Warpmill, a few local files, and immutable functions.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use datafusion::catalog::TableProvider;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::source_as_provider;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use warpmill_format::parquet_file::ParquetFile;
use warpmill_format::{Table, TableSnapshot};

use crate::Result;
use crate::catalog::{WarpmillTable, file_statistics};
use crate::offload::Fallback;
use crate::pieces::{Piece, pieces};

/// Plans that are kept.
const CAPACITY: usize = 256;

/// A query ready to run.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The plan that runs.
    pub plan: Arc<dyn ExecutionPlan>,
    /// The operators that DataFusion runs.
    pub fallbacks: Vec<Fallback>,
    /// Titles and texts for EXPLAIN: stages over workers, or why there are none.
    pub parts: Vec<(String, String)>,
    /// The addresses of the workers that the plan was made for; empty: the session has none.
    pub workers: Vec<String>,
    /// Whether the optimized plan came from a template.
    pub from_template: bool,
    /// Whether the template was found by the statement's text.
    pub from_text: bool,
    /// Whether it writes rows of constants, with a new plan, which has no state of an earlier run.
    pub rows_only: bool,
    /// The duration of the last run in nanoseconds, of this plan or another one of its template; 0: there was none.
    pub last_nanos: Arc<AtomicU64>,
}

impl Prepared {
    /// A plan that runs entirely in Warpmill, in this process.
    pub fn of(plan: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            plan,
            fallbacks: vec![],
            parts: vec![],
            workers: vec![],
            from_template: false,
            from_text: false,
            rows_only: false,
            last_nanos: Arc::default(),
        }
    }
}

/// The version of a session's settings and catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Generation {
    /// [`crate::catalog::Catalog::changes`].
    pub catalog: u64,
    /// Changes of settings.
    pub settings: u64,
}

/// The state that a plan was made for.
#[derive(Debug)]
pub(crate) struct Basis {
    pub generation: Generation,
    /// The data that is read.
    pub read: Read,
}

/// A table, and one of its versions.
type TableVersion = (Arc<Table>, Arc<TableSnapshot>);

/// A table of files, with the files.
type FileTable = (Arc<dyn TableProvider>, Vec<Arc<ParquetFile>>);

/// The data that a plan reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Read {
    /// Every table, and the version that the plan reads.
    pub tables: Vec<TableVersion>,
    /// Every table of files, with the files.
    pub files: Vec<FileTable>,
    /// The folder to which relative paths in the query's text refer, where files are read.
    pub folder: Option<PathBuf>,
}

/// The most files of a table in cached plans: all are checked before each run.
const MOST_FILES: usize = 64;

impl Read {
    /// Adds a table of files; returns whether its changes are detectable.
    pub fn add_files(&mut self, provider: &Arc<dyn TableProvider>) -> bool {
        let files = provider.downcast_ref::<ListingTable>().and_then(file_statistics::files);
        let Some(files) = files.filter(|files| files.len() <= MOST_FILES) else { return false };
        if self.folder.is_none() {
            self.folder = std::env::current_dir().ok();
        }
        let told = self.folder.is_some() && files.iter().all(|file| file.version().is_some());
        self.files.push((Arc::clone(provider), files));
        told
    }

    /// Whether `other` is the same versions of the same tables and files, in the same order.
    pub fn is_of_same(&self, other: &Self) -> bool {
        let same_table = |((_, a), (_, b)): (&TableVersion, &TableVersion)| Arc::ptr_eq(a, b);
        let same_files = |((_, a), (_, b)): (&FileTable, &FileTable)| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        self.tables.len() == other.tables.len()
            && self.files.len() == other.files.len()
            && self.tables.iter().zip(&other.tables).all(same_table)
            && self.files.iter().zip(&other.files).all(same_files)
            && self.folder == other.folder
    }

    /// Whether all data are unchanged.
    pub fn is_unchanged(&self) -> bool {
        let newest =
            |(table, planned): &TableVersion| table.snapshot().is_ok_and(|snapshot| Arc::ptr_eq(&snapshot, planned));
        let same = |(provider, planned): &FileTable| {
            let now = provider.downcast_ref::<ListingTable>().and_then(file_statistics::files);
            now.is_some_and(|now| now.len() == planned.len() && now.iter().zip(planned).all(|(a, b)| Arc::ptr_eq(a, b)))
        };
        let here = || self.folder.is_none() || std::env::current_dir().ok() == self.folder;
        self.tables.iter().all(newest) && self.files.iter().all(same) && here()
    }
}

/// The data that a plan reads, if all changes of them are detectable.
pub(crate) fn read_by(plan: &LogicalPlan, state: &SessionState) -> Result<Option<Read>> {
    let mut read = Some(Read::default());
    // The files of a folder are known for the default listing only.
    let usual = state.config_options().execution.listing_table_ignore_subdirectory;
    plan.apply_with_subqueries(|node| {
        if let (LogicalPlan::TableScan(scan), Some(all)) = (node, &mut read) {
            let provider = source_as_provider(&scan.source)?;
            let told = match provider.downcast_ref::<WarpmillTable>() {
                Some(table) => {
                    all.tables.push((Arc::clone(table.table()), Arc::clone(table.snapshot())));
                    true
                }
                None => usual && all.add_files(&provider),
            };
            if !told {
                read = None;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(read)
}

impl Basis {
    fn holds(&self, generation: Generation) -> bool {
        self.generation == generation && self.read.is_unchanged()
    }
}

/// A statement to be planned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Text {
    /// Its text, [`normalized`].
    pub sql: String,
    pub params: Vec<ScalarValue>,
}

struct Entry {
    prepared: Arc<Prepared>,
    basis: Basis,
    used: u64,
}

/// The least recently used plan makes room for a new one.
#[derive(Default)]
pub(crate) struct PlanCache {
    entries: HashMap<Text, Entry>,
    clock: u64,
}

impl PlanCache {
    /// The cached plan of a query, if it is still valid.
    pub(crate) fn get(&mut self, key: &Text, generation: Generation) -> Option<Arc<Prepared>> {
        self.clock += 1;
        let entry = self.entries.get_mut(key)?;
        if !entry.basis.holds(generation) {
            self.entries.remove(key);
            return None;
        }
        entry.used = self.clock;
        Some(Arc::clone(&entry.prepared))
    }

    /// Keeps a plan.
    pub(crate) fn put(&mut self, key: Text, prepared: Arc<Prepared>, basis: Basis) {
        self.clock += 1;
        if self.entries.len() >= CAPACITY && !self.entries.contains_key(&key) {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            oldest.map(|key| self.entries.remove(&key));
        }
        self.entries.insert(key, Entry { prepared, basis, used: self.clock });
    }
}

/// `sql` without comments and a final semicolon, outside of quotes with single spaces.
pub(crate) fn normalized(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len());
    for (piece, text) in pieces(sql) {
        match piece {
            Piece::Space | Piece::Comment if out.is_empty() || out.ends_with(' ') => {}
            Piece::Space | Piece::Comment => out.push(' '),
            Piece::Quoted | Piece::Word | Piece::Other => out.push_str(text),
        }
    }
    out.truncate(out.trim_end_matches([' ', ';']).len());
    out
}

#[cfg(test)]
mod tests {
    use super::normalized;

    #[test]
    fn spaces_and_comments_do_not_matter() {
        let text = "SELECT  a -- the column\n\tFROM /* a /* nested */ one */ t ;\n";
        assert_eq!(normalized(text), "SELECT a FROM t");
    }

    #[test]
    fn quoted_text_matters() {
        assert_eq!(normalized("SELECT 'a  -- b''  c', \"x  /*y*/\""), "SELECT 'a  -- b''  c', \"x  /*y*/\"");
        assert_ne!(normalized("SELECT 'a b'"), normalized("SELECT 'a  b'"));
        assert_eq!(normalized("SELECT 'open"), "SELECT 'open");
        for same in ["SELECT $$a  -- b$$", "SELECT $x$'  y$x$", r"SELECT E'it\'s  --', 'x'"] {
            assert_eq!(normalized(same), same);
        }
    }
}
