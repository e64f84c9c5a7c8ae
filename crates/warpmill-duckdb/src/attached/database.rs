//! Database directories that are attached to DuckDB.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use warpmill::Session;

use super::{Failed, Kind};
use crate::plan::forget_tables;

/// Largest number of idle sessions that are kept for further transactions.
const IDLE: usize = 8;

/// A database directory, attached by one ATTACH.
#[derive(Debug)]
pub struct Database {
    path: PathBuf,
    idle: Mutex<Idle>,
}

/// Sessions without a transaction. They keep the tables that they have opened.
#[derive(Default)]
struct Idle(Vec<Session>);

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} sessions", self.0.len())
    }
}

impl Database {
    /// Opens the database directory `path`. The first write creates a missing directory, unless the database is read-only.
    ///
    /// # Errors
    /// A path that is no directory and at which none can be created; a directory that cannot be listed.
    pub fn open(path: &str, read_only: bool) -> Result<Self, Failed> {
        let path = std::path::absolute(path)
            .map_err(|error| Failed::new(Kind::Io, format!("cannot resolve {path:?}: {error}")))?;
        if !path.exists() {
            let parent = path.parent().unwrap_or(Path::new("/"));
            if read_only {
                let text = format!("{} is not there, and READ_ONLY makes no database", path.display());
                return Err(Failed::new(Kind::Io, text));
            }
            if !parent.is_dir() {
                let text = format!("{} cannot be made: {} is not a directory", path.display(), parent.display());
                return Err(Failed::new(Kind::Io, text));
            }
        }
        let database = Self { path, idle: Mutex::default() };
        let session = database.session()?;
        session.schemas()?;
        database.give_back(session);
        Ok(database)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A session without a transaction.
    pub(super) fn session(&self) -> Result<Session, Failed> {
        if let Some(session) = self.idle.lock().0.pop() {
            return Ok(session);
        }
        // The session computes nothing but the expressions of constraints.
        let builder = Session::builder().database(&self.path).set("device", "cpu").files_as_tables(false);
        Ok(builder.build()?)
    }

    /// Takes back a session whose transaction has ended.
    pub(super) fn give_back(&self, session: Session) {
        let mut idle = self.idle.lock();
        if idle.0.len() < IDLE && !session.is_in_transaction() {
            idle.0.push(session);
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Physical plans hold the tables that they were made for, and the files of these.
        forget_tables();
    }
}
