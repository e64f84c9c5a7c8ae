//! Atomic commits of several tables: a file with the steps to do, all of which are durable under staging names by then. The transaction is committed
//! when the file exists; if its writer has died, the next process that finds it does the remaining steps.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::directory::{self, is_file_at};
use super::fs::{FileSystem, OutputFile, SystemFs};
use super::{Identity, leftovers};
use crate::{FormatError, Result};

/// The folder of such files in a database; it exists during commits.
const FOLDER: &str = ".commits";
const EXTENSION: &str = ".commit";
/// Suffix of the name of a commit that could not be finished.
const DAMAGED: &str = ".damaged";

/// Longest time to wait for a commit of a running process.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(2);

/// A step of a commit. Paths are relative to the database. Steps that have been done already are skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Step {
    /// The table gets a version whose manifest is staged.
    Version { table: String, version: u64 },
    /// The folder `from` becomes the table.
    Made { from: String, table: String },
    /// The folder `from` of the table with that identity becomes the table.
    Renamed { from: String, table: String, identity: Option<Identity> },
    /// The table is dropped, if it has that identity.
    Dropped { table: String, identity: Option<Identity> },
    /// The file has this text; `None`: there is none. Not done in a folder that is not there: it has been made or removed since.
    File { file: String, text: Option<String> },
    /// The folder `from`, of tables and files, becomes `folder`.
    FolderMade { from: String, folder: String },
    /// The folder is removed with all that is in it.
    FolderRemoved { folder: String },
}

impl Step {
    /// Does the step in the database. Returns a path that remains to be removed. Does not lock folders: a process that drops one may call this.
    pub(super) fn apply(&self, fs: &dyn FileSystem, database: &Path) -> Result<Option<PathBuf>> {
        match self {
            Self::Version { table, version } => {
                let directory = inside(database, table)?;
                match directory::place_manifest(fs, &directory, *version) {
                    Err(error) if is_missing(&error) => {}
                    placed => {
                        placed?;
                        directory::mark_committed(fs, &directory, *version);
                    }
                }
            }
            Self::Made { from, table } => {
                let (from, to) = (inside(database, from)?, inside(database, table)?);
                match directory::move_to(fs, &from, &to) {
                    Err(error) if is_missing(&error) => {}
                    moved => moved?,
                }
            }
            Self::Renamed { from, table, identity } => {
                let (from, to) = (inside(database, from)?, inside(database, table)?);
                if directory::identity_of(&from)? == Some(*identity) {
                    directory::move_to(fs, &from, &to)?;
                }
            }
            Self::Dropped { table, identity } => {
                let directory = inside(database, table)?;
                if directory::identity_of(&directory)? == Some(*identity) {
                    let aside = leftovers::set_aside_in(fs, &directory)?;
                    let folder = directory.parent().unwrap_or(database);
                    fs.sync_dir(folder).map_err(FormatError::io("cannot sync", folder))?;
                    return Ok(Some(aside));
                }
            }
            Self::File { file, text } => {
                let path = inside(database, file)?;
                match text {
                    _ if path.parent().is_some_and(|folder| folder.symlink_metadata().is_err()) => {}
                    Some(text) => leftovers::write_file_of_holder(&path, text.as_bytes())?,
                    None => match fs.remove_file(&path) {
                        Err(error) if error.kind() == ErrorKind::NotFound => {}
                        removed => {
                            removed.map_err(FormatError::io("cannot remove", &path))?;
                            leftovers::sync_folder_of(&path)?;
                        }
                    },
                }
            }
            Self::FolderMade { from, folder } => {
                match directory::move_to(fs, &inside(database, from)?, &inside(database, folder)?) {
                    Err(error) if is_missing(&error) => {}
                    moved => moved?,
                }
            }
            Self::FolderRemoved { folder } => {
                let folder = inside(database, folder)?;
                if folder.symlink_metadata().is_ok() {
                    let aside = leftovers::set_aside_in(fs, &folder)?;
                    fs.sync_dir(database).map_err(FormatError::io("cannot sync", database))?;
                    return Ok(Some(aside));
                }
            }
        }
        Ok(None)
    }
}

fn is_missing(error: &FormatError) -> bool {
    matches!(error, FormatError::Io { source, .. } if source.kind() == ErrorKind::NotFound)
}

/// The path of `relative` in the database; it must not leave the database.
fn inside(database: &Path, relative: &str) -> Result<PathBuf> {
    let path = Path::new(relative);
    match !relative.is_empty() && path.components().all(|part| matches!(part, Component::Normal(_))) {
        true => Ok(database.join(path)),
        false => Err(FormatError::corrupt(&database.join(FOLDER), format!("{relative:?} is no place in the database"))),
    }
}

/// A commit of several steps, in progress or unfinished.
pub(super) struct Journal {
    path: PathBuf,
    /// The file, locked so that other processes do not mistake the commit for a dead process's.
    file: File,
}

impl Journal {
    /// Commits: from then on, these steps will be done by some process. `committing` is called when everything else has been done.
    pub fn commit(
        fs: &dyn FileSystem,
        database: &Path,
        steps: &[Step],
        committing: impl FnOnce() -> Result<()>,
    ) -> Result<Self> {
        let folder = database.join(FOLDER);
        let Unnamed { path: temporary, file, mut out } = Unnamed::create(fs, database, &folder)?;
        let path = temporary.with_extension("");
        let bytes = serde_json::to_vec(steps).expect("steps are JSON");
        out.write_all(&bytes).map_err(FormatError::io("cannot write", &temporary))?;
        out.sync().map_err(FormatError::io("cannot sync", &temporary))?;
        drop(out);
        committing().inspect_err(|_| {
            let _ = fs.remove_file(&temporary);
            let _ = fs.remove_dir(&folder);
        })?;
        fs.rename(&temporary, &path).map_err(FormatError::io("cannot rename to", &path))?;
        fs.sync_dir(&folder).map_err(FormatError::io("cannot sync", &folder))?;
        Ok(Self { path, file })
    }

    /// Does all steps, and removes the commit.
    pub fn finish(self, fs: &dyn FileSystem, database: &Path, steps: &[Step]) -> Result<()> {
        let aside = done_in(fs, database, steps)?;
        self.forget(fs, database, &aside)
    }

    /// Removes the finished commit, and the paths that its steps have set aside.
    fn forget(self, fs: &dyn FileSystem, database: &Path, aside: &[PathBuf]) -> Result<()> {
        let folder = database.join(FOLDER);
        fs.remove_file(&self.path).map_err(FormatError::io("cannot remove", &self.path))?;
        // Otherwise it could reappear after others have made further changes.
        fs.sync_dir(&folder).map_err(FormatError::io("cannot sync", &folder))?;
        // Fails if others commit, too.
        let _ = fs.remove_dir(&folder);
        // Files are removed without the lock: others need not wait for it.
        drop(self);
        aside.iter().for_each(|path| leftovers::remove(path));
        Ok(())
    }

    /// Renames a commit that cannot be finished, so that it does not block others.
    fn put_aside(self, error: &FormatError) -> Result<()> {
        tracing::error!(commit = %self.path.display(), %error, "a commit of several tables cannot be finished, and is left out");
        let damaged = self.path.with_added_extension(&DAMAGED[1..]);
        std::fs::rename(&self.path, &damaged).map_err(FormatError::io("cannot rename to", &damaged))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Closing is not enough: a forked process may have the file open, too.
        let _ = self.file.unlock();
    }
}

/// Does `steps` in the database. Returns the paths that remain to be removed.
fn done_in(fs: &dyn FileSystem, database: &Path, steps: &[Step]) -> Result<Vec<PathBuf>> {
    let mut aside = vec![];
    for step in steps {
        aside.extend(step.apply(fs, database)?);
    }
    Ok(aside)
}

/// The locked file of a commit before it gets its name.
struct Unnamed {
    path: PathBuf,
    file: File,
    out: Box<dyn OutputFile>,
}

/// Largest number of attempts to create a file while other processes remove it as a dead process's.
const MOST_ATTEMPTS: usize = 100;

impl Unnamed {
    /// Creates one in `folder`, which exists only while there are files in it.
    fn create(fs: &dyn FileSystem, database: &Path, folder: &Path) -> Result<Self> {
        for _ in 0..MOST_ATTEMPTS {
            match fs.create_dir(folder) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(FormatError::io("cannot create directory", folder)(error));
                }
                _ => {}
            }
            fs.sync_dir(database).map_err(FormatError::io("cannot sync", database))?;
            let path = folder.join(format!("{}{EXTENSION}.tmp", own_name()));
            let out = match fs.create_file(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                out => out.map_err(FormatError::io("cannot create", &path))?,
            };
            let file = match File::open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                file => file.map_err(FormatError::io("cannot open", &path))?,
            };
            file.lock().map_err(FormatError::io("cannot lock", &path))?;
            if is_file_at(&file, &path) {
                return Ok(Self { path, file, out });
            }
        }
        Err(FormatError::Locked { table: folder.display().to_string() })
    }
}

/// A name that no other commit has.
fn own_name() -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    format!("{nanos:032}-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed))
}

/// [`finish`] in the database to which tables in `folder` may belong: the folder, or its parent if it is a schema.
pub(super) fn finish_around(folder: &Path) -> Result<()> {
    finish(folder)?;
    let may_be_schema = folder.extension().is_some_and(|extension| extension == "schema");
    folder.parent().filter(|_| may_be_schema).map_or(Ok(()), finish)
}

/// Finishes commits of several tables in `database`: those of dead processes; waits for those of running ones.
///
/// Errors: of the file system; [`FormatError::Locked`] after seconds. A damaged commit, or one made impossible by manual changes, is renamed out of
/// the way.
pub fn finish(database: &Path) -> Result<()> {
    let folder = database.join(FOLDER);
    let names = match std::fs::read_dir(&folder) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
        Err(error) => return Err(FormatError::io("cannot list", &folder)(error)),
        Ok(_) => directory::names(&folder),
    };
    let mut names = match names {
        Err(error) if is_missing(&error) => return Ok(()),
        names => names?,
    };
    // The earliest first: later ones may depend on it.
    names.sort();
    for name in names {
        let path = folder.join(&name);
        let unnamed = name.strip_suffix(".tmp");
        if !unnamed.unwrap_or(&name).ends_with(EXTENSION) {
            continue;
        }
        let Some(file) = locked(&path)? else { continue };
        if unnamed.is_some() {
            // Its writer died before the commit.
            leftovers::remove(&path);
            continue;
        }
        let journal = Journal { path, file };
        match steps_of(&journal.path).and_then(|steps| done_in(&SystemFs, database, &steps)) {
            Err(error @ (FormatError::Corrupt { .. } | FormatError::Replaced { .. })) => journal.put_aside(&error)?,
            done => journal.forget(&SystemFs, database, &done?)?,
        }
    }
    let _ = std::fs::remove_dir(&folder);
    Ok(())
}

/// Opens and locks the file at `path`; `None`: it does not exist any more.
fn locked(path: &Path) -> Result<Option<File>> {
    let begun = Instant::now();
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(FormatError::io("cannot open", path))?,
    };
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(is_file_at(&file, path).then_some(file)),
            // One that is not committed yet is not waited for.
            Err(_) if path.extension().is_some_and(|extension| extension == "tmp") => return Ok(None),
            Err(std::fs::TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(FormatError::Locked { table: path.display().to_string() });
            }
            Err(std::fs::TryLockError::Error(error)) => return Err(FormatError::io("cannot lock", path)(error)),
        }
    }
}

fn steps_of(path: &Path) -> Result<Vec<Step>> {
    let bytes = std::fs::read(path).map_err(FormatError::io("cannot read", path))?;
    serde_json::from_slice(&bytes).map_err(|error| FormatError::corrupt(path, error.to_string()))
}
