//! Hidden entries in a folder of tables: tables and files being created or removed. Their names begin with a dot and contain the final name and the
//! purpose: `.orders.building-17-0-5f3a`. The process that creates one holds a lock on it, so that the next writer can distinguish the leftovers of
//! dead processes from entries in use.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::directory::{self, DirectoryLock, LOCK_NAME, is_file_at};
use super::fs::{FileSystem, SystemFs};
use super::journal;
use crate::{FormatError, Result};

/// The purpose of a hidden entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A folder of files that get their names when they are complete.
    Building,
    /// A file that gets its name when it is complete.
    Writing,
    /// An entry that has lost its name, and is being removed: not in use.
    Dropped,
}

impl Purpose {
    const ALL: [Purpose; 3] = [Purpose::Building, Purpose::Writing, Purpose::Dropped];

    fn mark(self) -> &'static str {
        match self {
            Purpose::Building => ".building-",
            Purpose::Writing => ".writing-",
            Purpose::Dropped => ".dropped-",
        }
    }

    /// The purpose of the entry `name`, if it has our format: a name, a mark, and numbers.
    fn of(name: &str) -> Option<Self> {
        let name = name.strip_prefix('.')?;
        Self::ALL.into_iter().find(|purpose| {
            let Some((of, tag)) = name.rsplit_once(purpose.mark()) else { return false };
            let is_tag = |tag: &str| !tag.is_empty() && tag.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
            !of.is_empty() && is_tag(tag)
        })
    }
}

/// An unused path beside `path`.
fn beside(path: &Path, purpose: Purpose) -> Result<PathBuf> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let nameless = || FormatError::Catalog(format!("{} is no name for a table", path.display()));
    let name = path.file_name().ok_or_else(nameless)?.to_string_lossy();
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
    let (process, count) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    Ok(path.with_file_name(format!(".{name}{}{process}-{count}-{nanos:x}", purpose.mark())))
}

/// A locked hidden folder in which the content of `path` is prepared. Its remaining content is removed when dropped.
#[derive(Debug)]
pub struct HiddenFolder {
    path: PathBuf,
    /// Whether a commit may move what is in it.
    committing: AtomicBool,
    _lock: DirectoryLock,
}

impl HiddenFolder {
    /// Creates one beside `path`.
    pub fn beside(path: &Path) -> Result<Self> {
        let (path, lock) = create_folder(&SystemFs, path)?;
        Ok(Self { path, committing: AtomicBool::new(false), _lock: lock })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on its content may belong to a commit, whose steps may be left to another process: dropping it removes it only if it is empty.
    pub fn commits(&self) {
        self.committing.store(true, Ordering::Relaxed);
    }
}

impl Drop for HiddenFolder {
    fn drop(&mut self) {
        let is_used = || directory::names(&self.path).is_ok_and(|names| names.iter().any(|name| name != LOCK_NAME));
        if !self.committing.load(Ordering::Relaxed) || !is_used() {
            remove(&self.path);
        }
    }
}

/// Creates and locks a hidden folder beside `path`.
pub(crate) fn create_folder(fs: &dyn FileSystem, path: &Path) -> Result<(PathBuf, DirectoryLock)> {
    // Until it is locked, another process may remove it as a dead process's.
    for _ in 0..100 {
        let folder = beside(path, Purpose::Building)?;
        fs.create_dir(&folder).map_err(FormatError::io("cannot create directory", &folder))?;
        match directory::try_lock(&folder) {
            Ok(Some(lock)) => return Ok((folder, lock)),
            Ok(None) | Err(FormatError::Catalog(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Err(FormatError::Locked { table: path.display().to_string() })
}

/// Writes file `path` atomically: readers see either the old content or all of `bytes`.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let _names = hold_names(folder_of(path))?;
    write_file_of_holder(path, bytes)
}

/// [`write_file`] by who may hold the folder.
pub(super) fn write_file_of_holder(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::io::Write;
    let (hidden, mut file) = create_file(path)?;
    let written =
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(FormatError::io("cannot write", &hidden));
    let renamed =
        written.and_then(|()| std::fs::rename(&hidden, path).map_err(FormatError::io("cannot rename to", path)));
    if renamed.is_err() {
        let _ = std::fs::remove_file(&hidden);
        return renamed;
    }
    sync_folder_of(path)
}

fn create_file(path: &Path) -> Result<(PathBuf, File)> {
    for _ in 0..100 {
        let hidden = beside(path, Purpose::Writing)?;
        let file = OpenOptions::new().write(true).create_new(true).open(&hidden);
        let file = file.map_err(FormatError::io("cannot create", &hidden))?;
        if file.try_lock().is_ok() && is_file_at(&file, &hidden) {
            return Ok((hidden, file));
        }
    }
    Err(FormatError::Locked { table: path.display().to_string() })
}

/// Renames the entry at `path` to a hidden name. Returns that path, for removal.
pub fn set_aside(path: &Path) -> Result<PathBuf> {
    set_aside_in(&SystemFs, path)
}

/// [`set_aside`] in this file system.
pub(crate) fn set_aside_in(fs: &dyn FileSystem, path: &Path) -> Result<PathBuf> {
    let aside = beside(path, Purpose::Dropped)?;
    fs.rename(path, &aside).map_err(FormatError::io("cannot remove", path))?;
    Ok(aside)
}

/// Prevents the removal of `folder` while names in it are being added, until dropped. `None`: the system cannot lock folders there, as in network
/// file systems.
///
/// Errors: [`FormatError::Replaced`] if the folder does not exist any more.
pub fn hold_names(folder: &Path) -> Result<Option<FolderLock>> {
    lock_folder(folder, File::lock_shared)
}

/// Prevents new names in `folder`, until dropped; otherwise as [`hold_names`].
pub fn hold_folder(folder: &Path) -> Result<Option<FolderLock>> {
    lock_folder(folder, File::lock)
}

/// A lock on a folder, held until dropped.
#[derive(Debug)]
pub struct FolderLock(File);

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Closing is not enough: a forked process may have the folder open, too.
        let _ = self.0.unlock();
    }
}

fn lock_folder(folder: &Path, lock: impl FnOnce(&File) -> std::io::Result<()>) -> Result<Option<FolderLock>> {
    let gone = || FormatError::Replaced { table: folder.display().to_string() };
    let file = match File::open(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(gone()),
        file => file.map_err(FormatError::io("cannot open", folder))?,
    };
    if let Err(error) = lock(&file) {
        tracing::debug!(folder = %folder.display(), %error, "a folder cannot be locked");
        return Ok(None);
    }
    let lock = FolderLock(file);
    if is_file_at(&lock.0, folder) { Ok(Some(lock)) } else { Err(gone()) }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the names in the folder of `path` durable.
pub fn sync_folder_of(path: &Path) -> Result<()> {
    let folder = folder_of(path);
    SystemFs.sync_dir(folder).map_err(FormatError::io("cannot sync", folder))
}

/// Removes `path` with all of its content. Entries that cannot be removed now are left for the next writer.
pub fn remove(path: &Path) {
    let removed = match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "cannot remove what an interrupted writer has left");
        }
        _ => {}
    }
}

/// Removes the staging folder of a table.
pub(crate) fn remove_folder(fs: &dyn FileSystem, folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        fs.remove_file(&entry?.path())?;
    }
    fs.remove_dir(folder)
}

/// Removes leftovers of dead processes in `folder`, except those of a committed transaction, which are renamed.
pub fn clean(folder: &Path) -> Result<()> {
    journal::finish_around(folder)?;
    for name in directory::names(folder)? {
        let path = folder.join(&name);
        match Purpose::of(&name) {
            // A process that still uses it holds its lock.
            Some(Purpose::Building) if path.is_dir() => {
                if let Ok(Some(_lock)) = directory::try_lock(&path) {
                    // Its writer may have committed it, and died before the rename.
                    journal::finish_around(folder)?;
                    remove(&path);
                }
            }
            Some(Purpose::Writing) => {
                let file = File::open(&path);
                if file.is_ok_and(|file| file.try_lock().is_ok() && is_file_at(&file, &path)) {
                    remove(&path);
                }
            }
            Some(Purpose::Dropped) => remove(&path),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_ours() {
        assert_eq!(Purpose::of(".t.building-12-3"), Some(Purpose::Building));
        assert_eq!(Purpose::of(".a.b.dropped-12-3-5f"), Some(Purpose::Dropped));
        for name in ["t", ".t", ".building-1", ".t.building-", ".t.building-x y", "t.building-1", ".git"] {
            assert_eq!(Purpose::of(name), None, "{name}");
        }
    }

    #[test]
    fn what_somebody_holds_stays_and_the_rest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let held = HiddenFolder::beside(&at("held")).unwrap();
        let (writing, file) = create_file(&at("view")).unwrap();
        std::fs::create_dir(at(".dead.building-1-2")).unwrap();
        std::fs::write(at(".dead.building-1-2/x.data"), "x").unwrap();
        std::fs::write(at(".dead.writing-1-2"), "x").unwrap();
        std::fs::create_dir_all(at(".dead.dropped-1-2/deep/er")).unwrap();
        std::fs::create_dir(at(".mine")).unwrap();
        clean(folder.path()).unwrap();
        let mut left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        left.sort();
        let mut expected = vec![held.path().to_owned(), writing, at(".mine")];
        expected.sort();
        assert_eq!(left, expected);
        drop((held, file));
        clean(folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
