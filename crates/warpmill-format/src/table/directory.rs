//! The directory of a table: its versions, its lock, and removal of obsolete files.

use std::collections::HashSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use super::data_file::LOG_EXTENSION;
use super::fs::FileSystem;
use super::log::{self, Log};
use super::log_reader::{LogReader, Logged};
use super::manifest::Manifest;
use super::manifest_check::{VERSION_DIGITS, is_number};
use super::version::{Shared, Version};
use super::{Identity, TableSnapshot};
use super::{journal, leftovers};
use crate::{FileAccess, FileState, FormatError, Result};

const MANIFEST_EXTENSION: &str = ".manifest";
/// Extension of empty marker files, each of which tells that its version was committed: its manifest, or a later one's, must exist.
const COMMITTED_EXTENSION: &str = ".committed";
pub(super) const LOCK_NAME: &str = "LOCK";

/// The path of the manifest of `version`.
pub(crate) fn manifest_path(directory: &Path, version: u64) -> PathBuf {
    directory.join(format!("{version:016}{MANIFEST_EXTENSION}"))
}

/// The version of the newest manifest in `directory`, and the newest version that is marked as committed, if any.
pub(crate) fn newest_versions(directory: &Path) -> Result<(Option<u64>, Option<u64>)> {
    let names = names(directory)?;
    let newest = |extension: &str| {
        let version = |name: &String| {
            let version = name.strip_suffix(extension)?;
            (version.len() == VERSION_DIGITS && is_number(version)).then(|| version.parse().ok())?
        };
        names.iter().filter_map(version).max()
    };
    Ok((newest(MANIFEST_EXTENSION), newest(COMMITTED_EXTENSION)))
}

pub(crate) fn names(directory: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(directory).map_err(FormatError::io("cannot list", directory))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.collect::<std::io::Result<_>>().map_err(FormatError::io("cannot list", directory))
}

/// The mark of a version by which it is still the newest one, or not: a manifest, and the state of its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The version of the manifest: the version itself, or an earlier one if it is in the log.
    pub base: u64,
    /// The first bytes of the manifest. They differ between manifests with the same name (of a table dropped and created again): they have the checksum
    /// of the rest, which contains the table's identity.
    pub first: [u8; 64],
    /// The log of the manifest, if it may have one.
    pub log: Option<Log>,
    /// A checksum of the manifest and of the records that make the version, by which two commits with the same number differ, the first of which has
    /// failed.
    pub seal: u64,
}

impl Stamp {
    fn of(bytes: &[u8], manifest: &Manifest) -> Self {
        let (log, first) = (manifest.log.then(|| Log::none(manifest)), first_of(bytes));
        Self { base: manifest.version, first, log, seal: xxh3_64(&first) }
    }

    /// Notes a further record of the log, with this checksum.
    pub(super) fn add(&mut self, bytes: usize, sum: u64) {
        if let Some(log) = &mut self.log {
            log.add(bytes, sum);
        }
        self.seal = xxh3_64(&[self.seal.to_le_bytes(), sum.to_le_bytes()].concat());
    }

    /// Makes the log durable, which a later manifest may name.
    ///
    /// Errors: those of the file system.
    pub fn sync_log(&self, fs: &dyn FileSystem, directory: &Path) -> Result<()> {
        self.log.as_ref().map_or(Ok(()), |log| log.sync(fs, directory, self.base))
    }

    /// Whether `version` in `directory`, of which this is the stamp, is still the newest one.
    pub fn is_newest(&self, directory: &Path, version: u64) -> Result<bool> {
        if first_bytes(directory, self.base)? != Some(self.first) || has_manifest(directory, version + 1)? {
            return Ok(false);
        }
        self.log.as_ref().map_or(Ok(true), |log| log.is_current(directory, self.base))
    }
}

fn first_of(manifest: &[u8]) -> [u8; 64] {
    let mut first = [0; 64];
    let bytes = manifest.len().min(64);
    first[..bytes].copy_from_slice(&manifest[..bytes]);
    first
}

/// The first bytes of the manifest of `version`; `None` if it does not exist.
fn first_bytes(directory: &Path, version: u64) -> Result<Option<[u8; 64]>> {
    let path = manifest_path(directory, version);
    let read = || {
        let mut first = [0; 64];
        let mut bytes = 0;
        let file = File::open(&path)?;
        while bytes < first.len() {
            match file.read_at(&mut first[bytes..], bytes as u64) {
                Ok(0) => break,
                Ok(more) => bytes += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(first)
    };
    match read() {
        Ok(first) => Ok(Some(first)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(FormatError::io("cannot read", &path)(e)),
    }
}

/// Whether there is a manifest of `version`.
fn has_manifest(directory: &Path, version: u64) -> Result<bool> {
    let path = manifest_path(directory, version);
    path.try_exists().map_err(FormatError::io("cannot read", &path))
}

/// Number of attempts to take a lock, and the pause between two.
const LOCK_ATTEMPTS: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The right to write a table, until dropped (or the process ends, however it ends).
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    file: File,
    path: PathBuf,
}

impl DirectoryLock {
    /// Whether the locked directory still has its name. Processes that follow the rules do not rename a locked one.
    pub fn holds(&self) -> bool {
        is_file_at(&self.file, &self.path)
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing is not enough: a forked process may have the file open, too.
        let _ = self.file.unlock();
    }
}

/// Locks the table in `directory` for writing.
///
/// Errors: [`FormatError::Locked`] if another writer holds the lock, [`FormatError::Catalog`] if the directory does not exist.
pub(crate) fn lock(directory: &Path) -> Result<DirectoryLock> {
    // A child process that is being spawned has copies of this process's descriptors, including a lock just released, until it executes its program:
    // a few milliseconds at most. Wait for that before reporting the table as locked.
    for attempt in (0..LOCK_ATTEMPTS).rev() {
        if let Some(lock) = try_lock(directory)? {
            return Ok(lock);
        }
        if attempt > 0 {
            std::thread::sleep(LOCK_PAUSE);
        }
    }
    Err(FormatError::Locked { table: directory.display().to_string() })
}

/// [`lock`] without waiting; `None` if another writer holds the lock, or if the directory was replaced meanwhile.
pub(crate) fn try_lock(directory: &Path) -> Result<Option<DirectoryLock>> {
    let path = directory.join(LOCK_NAME);
    let open = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = match open {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(FormatError::Catalog(format!("there is no table in {}", directory.display())));
        }
        open => open.map_err(FormatError::io("cannot open", &path))?,
    };
    match file.try_lock() {
        // The lock of a directory that was dropped after it was opened is useless for the one with that name now.
        Ok(()) => Ok(is_file_at(&file, &path).then_some(DirectoryLock { file, path })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(FormatError::io("cannot lock", &path)(e)),
    }
}

/// Whether `file` is the file that `path` names now.
pub(crate) fn is_file_at(file: &File, path: &Path) -> bool {
    let (Ok(own), Ok(found)) = (file.metadata(), std::fs::metadata(path)) else { return false };
    FileState::of(&own).is_same_file(&FileState::of(&found))
}

/// Whether `directory` contains a table, valid or damaged: it has files that only tables have.
pub(crate) fn is_table(directory: &Path) -> Result<bool> {
    match directory.metadata() {
        Ok(meta) if !meta.is_dir() => return Ok(false),
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(false),
        Err(error) => return Err(FormatError::io("cannot read", directory)(error)),
    }
    // Almost all tables have it, and a folder of many files takes longer to list.
    if directory.join(LOCK_NAME).is_file() {
        return Ok(true);
    }
    let is_ours = |name: &String| name.ends_with(MANIFEST_EXTENSION) || name.ends_with(".data");
    match names(directory) {
        Ok(names) => Ok(names.iter().any(is_ours)),
        // Dropped since.
        Err(FormatError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The versions that can be read, ascending.
pub(crate) fn versions(directory: &Path) -> Result<Vec<u64>> {
    let mut all = vec![];
    for base in manifests(directory)? {
        let reader = LogReader { directory, until: u64::MAX, access: FileAccess::default() };
        let found = read_manifest(directory, base)?.map(|found| reader.read(found)).transpose()?;
        all.extend(base..=found.map_or(base, |found| found.manifest.version));
    }
    // A record that failed and came back has the number of a manifest.
    all.dedup();
    Ok(all)
}

/// The versions that have a manifest, ascending.
fn manifests(directory: &Path) -> Result<Vec<u64>> {
    Ok(manifests_of(&names(directory)?))
}

fn manifests_of(names: &[String]) -> Vec<u64> {
    let version = |name: &String| name.strip_suffix(MANIFEST_EXTENSION)?.parse().ok();
    let mut versions: Vec<u64> = names.iter().filter_map(version).collect();
    versions.sort_unstable();
    versions
}

/// Loads version `version` with its stamp, sharing parts with `known`; `None` if it does not exist any more.
pub(crate) fn load_version(
    directory: &Path,
    version: u64,
    known: &Version,
    access: FileAccess,
) -> Result<Option<(Version, Stamp)>> {
    let base = manifests(directory)?.into_iter().rfind(|base| *base <= version);
    let Some(found) = base.map(|base| read_manifest(directory, base)).transpose()?.flatten() else { return Ok(None) };
    let Logged { manifest, stamp, records } = LogReader { directory, until: version, access }.read(found)?;
    if manifest.version != version {
        return Ok(None);
    }
    let path = manifest_path(directory, stamp.base);
    match Version::from_manifest(&manifest, &path, Shared { known: Some(known), records: &records }, access) {
        Ok(version) => Ok(Some((version, stamp))),
        // A writer has removed it since.
        Err(FormatError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The newest version of a table, with its stamp.
#[derive(Clone, Copy)]
pub(crate) struct Newest<'a> {
    pub snapshot: &'a TableSnapshot,
    pub stamp: Option<&'a Stamp>,
}

/// Removes every file that belongs neither to `newest` nor to the earlier versions that are kept with the next one (`keep` in
/// total): older manifests and their commit markers, data of older versions and of writers that did not commit. The caller holds the
/// lock. Readers of older versions have those files mapped, which unlinking does not affect. A file that cannot be removed is left for the next time.
pub(crate) fn collect_garbage(
    fs: &dyn FileSystem,
    directory: &Path,
    Newest { snapshot: newest, stamp }: Newest<'_>,
    keep: usize,
) -> Result<()> {
    let all = names(directory)?;
    let base = stamp.map_or(newest.version(), |stamp| stamp.base);
    let committed = format!("{:016}{COMMITTED_EXTENSION}", newest.version());
    let own = [format!("{base:016}{MANIFEST_EXTENSION}"), committed, log::name_of(base)];
    let mut kept: Vec<String> = vec![];
    let (oldest, mut next) = (newest.version().saturating_sub(keep.saturating_sub(2) as u64), base);
    let is_older = |version: &u64| *version < base && keep > 2;
    for version in manifests_of(&all).into_iter().rev().filter(is_older) {
        // Versions up to the next manifest may be in its log. A manifest that cannot be read is of no use to any reader.
        if next > oldest
            && let Ok(Some(Logged { manifest: older, .. })) = read_manifest(directory, version)
            && (version >= oldest || older.log)
        {
            kept.extend(older.files.iter().map(|file| file.name.clone()));
            kept.extend([format!("{version:016}{MANIFEST_EXTENSION}"), log::name_of(version)]);
        }
        next = version;
    }
    let named = stamp.and_then(|stamp| stamp.log.as_ref()).into_iter().flat_map(|log| log.files.iter());
    let files = newest.files().iter().map(|file| file.name()).chain(named.map(String::as_str));
    let live: HashSet<&str> = files.chain(own.iter().chain(&kept).map(String::as_str)).chain([LOCK_NAME]).collect();
    let mut garbage: Vec<String> = all.into_iter().filter(|name| !live.contains(name.as_str())).collect();
    // Only our own kinds of files, data last: a crash in between must not leave a manifest without its data.
    let kinds = [COMMITTED_EXTENSION, MANIFEST_EXTENSION, LOG_EXTENSION, ".data"];
    let kind = |name: &str| kinds.iter().position(|kind| name.strip_suffix(".tmp").unwrap_or(name).ends_with(kind));
    garbage.retain(|name| kind(name).is_some());
    garbage.sort_by_key(|name| (kind(name), name.clone()));
    for name in garbage {
        let path = directory.join(&name);
        if let Err(error) = fs.remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove a file of an old table version");
        }
    }
    Ok(())
}

/// Writes the manifest atomically: complete and durable under its name, or not at all; `renaming` is called before it gets its name. Returns its
/// stamp.
pub(crate) fn write_manifest(
    fs: &dyn FileSystem,
    directory: &Path,
    manifest: &Manifest,
    renaming: impl FnOnce() -> Result<()>,
) -> Result<Stamp> {
    let stamp = stage_manifest(fs, directory, manifest)?;
    renaming().inspect_err(|_| {
        let _ = fs.remove_file(&staged_path(directory, manifest.version));
    })?;
    place_manifest(fs, directory, manifest.version)?;
    Ok(stamp)
}

/// The path of a staged manifest of `version`, before it gets its name.
pub(crate) fn staged_path(directory: &Path, version: u64) -> PathBuf {
    manifest_path(directory, version).with_added_extension("tmp")
}

/// Writes the manifest under its staging name; its bytes are durable, that name may not be. Returns its stamp.
pub(crate) fn stage_manifest(fs: &dyn FileSystem, directory: &Path, manifest: &Manifest) -> Result<Stamp> {
    let temporary = staged_path(directory, manifest.version);
    let mut out = fs.create_file(&temporary).map_err(FormatError::io("cannot create", &temporary))?;
    let bytes = manifest.to_bytes();
    out.write_all(&bytes).map_err(FormatError::io("cannot write", &temporary))?;
    out.sync().map_err(FormatError::io("cannot sync", &temporary))?;
    Ok(Stamp::of(&bytes, manifest))
}

/// Renames the staged manifest of `version` ([`stage_manifest`]) to its name.
pub(crate) fn place_manifest(fs: &dyn FileSystem, directory: &Path, version: u64) -> Result<()> {
    let path = manifest_path(directory, version);
    remove_stale_log(fs, directory, version)?;
    fs.rename(&staged_path(directory, version), &path).map_err(FormatError::io("cannot rename to", &path))?;
    fs.sync_dir(directory).map_err(FormatError::io("cannot sync", directory))
}

/// Removes a log that has the name of that of the manifest of `version`, which does not exist yet: it would be mistaken for it.
fn remove_stale_log(fs: &dyn FileSystem, directory: &Path, version: u64) -> Result<()> {
    let path = log::path_of(directory, version);
    if manifest_path(directory, version).exists() || !path.exists() {
        return Ok(());
    }
    match fs.remove_file(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        removed => removed.map_err(FormatError::io("cannot remove", &path))?,
    }
    fs.sync_dir(directory).map_err(FormatError::io("cannot sync", directory))
}

/// Marks `version`, whose manifest exists, as committed: if the manifest vanishes, the previous version is not mistaken for the newest one. The mark
/// is optional, so that its failure does not fail the commit.
pub(crate) fn mark_committed(fs: &dyn FileSystem, directory: &Path, version: u64) {
    let path = directory.join(format!("{version:016}{COMMITTED_EXTENSION}"));
    let earlier = directory.join(format!("{:016}{COMMITTED_EXTENSION}", version.saturating_sub(1)));
    // The mark of the version before is of no use any more, and renaming it is cheaper than making a file.
    let marked = match earlier.exists() {
        true => fs.rename(&earlier, &path),
        false => fs.create_file(&path).map(drop),
    };
    if let Err(error) = marked {
        tracing::warn!(path = %path.display(), %error, "cannot note that a version of a table was committed");
    }
}

/// Reads the manifest of `version`; `None` if it has been removed since it was listed.
fn read_manifest(directory: &Path, version: u64) -> Result<Option<Logged>> {
    let path = manifest_path(directory, version);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(FormatError::io("cannot read", &path)(e)),
    };
    let manifest = Manifest::from_bytes(&bytes, &path)?;
    if manifest.version != version {
        return Err(FormatError::corrupt(&path, format!("it is the manifest of version {}", manifest.version)));
    }
    let stamp = Stamp::of(&bytes, &manifest);
    Ok(Some(Logged::without_log(manifest, stamp)))
}

/// The identity of the table in `directory`, if it has one; `None`: there is no table, or it cannot be read.
pub(crate) fn identity_of(directory: &Path) -> Result<Option<Option<Identity>>> {
    match load_newest(directory, None, FileAccess::default()) {
        Ok((version, _)) => Ok(Some(version.identity)),
        Err(FormatError::Catalog(_) | FormatError::Corrupt { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A version that is open, with its stamp.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub version: &'a Version,
    pub stamp: Option<&'a Stamp>,
}

/// Loads the newest version, sharing parts with `known`. A writer may remove files while they are being opened: then there is a newer version, which
/// is tried next. The directory may be replaced by another table's meanwhile: then everything that was read, including errors, is discarded.
pub(crate) fn load_newest(directory: &Path, known: Option<Known<'_>>, access: FileAccess) -> Result<(Version, Stamp)> {
    let none = || FormatError::Catalog(format!("there is no table in {}", directory.display()));
    loop {
        // While it is open, no other directory has its place.
        let open = match File::open(directory) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Err(none()),
            open => open.map_err(FormatError::io("cannot open", directory))?,
        };
        let loaded = load_from(directory, known, access);
        if is_file_at(&open, directory) {
            return loaded;
        }
    }
}

/// [`load_newest`] for a directory that is not replaced.
fn load_from(directory: &Path, known: Option<Known<'_>>, access: FileAccess) -> Result<(Version, Stamp)> {
    let mut failed: Option<(u64, FormatError)> = None;
    loop {
        let (base, committed) = newest_versions(directory)?;
        let Some(newest) = base.max(committed) else {
            return Err(match is_table(directory)? {
                true => FormatError::corrupt(directory, "a table without a manifest"),
                false => FormatError::Catalog(format!("there is no table in {}", directory.display())),
            });
        };
        if let Some((version, error)) = failed.take_if(|(version, _)| *version == newest) {
            tracing::debug!(version, "the newest version of a table cannot be opened");
            return Err(error);
        }
        let missing = || format!("missing, although version {newest} was committed");
        let found = base.map(|base| read_logged(directory, base, known, access)).transpose()?.flatten();
        let Some(Logged { manifest, stamp, records }) =
            found.filter(|found| found.manifest.version == newest || found.stamp.log.is_some())
        else {
            failed = Some((newest, FormatError::corrupt(&manifest_path(directory, newest), missing())));
            continue;
        };
        // A log that is gone may have gone with its manifest, in whose place there is a newer one.
        let has_log = stamp.log.as_ref().is_none_or(Log::has_file);
        if !has_log && first_bytes(directory, stamp.base)? != Some(stamp.first) {
            continue;
        }
        if manifest.version < newest {
            let path = log::path_of(directory, stamp.base);
            failed =
                Some((newest, FormatError::corrupt(&path, format!("its record of version {newest} is {}", missing()))));
            continue;
        }
        let (path, known) = (manifest_path(directory, stamp.base), known.map(|known| known.version));
        match Version::from_manifest(&manifest, &path, Shared { known, records: &records }, access) {
            Ok(version) => return Ok((version, stamp)),
            Err(FormatError::Io { path, source, .. }) if source.kind() == ErrorKind::NotFound => {
                let missing = format!("missing, although the manifest of version {newest} names it");
                failed = Some((newest, FormatError::corrupt(&path, missing)));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Reads the manifest of version `base`, the newest one, with its log; only what is new in the log since `known` if that is of it.
fn read_logged(directory: &Path, base: u64, known: Option<Known<'_>>, access: FileAccess) -> Result<Option<Logged>> {
    let reader = LogReader { directory, until: u64::MAX, access };
    if let Some(Known { version, stamp: Some(stamp) }) = known
        && stamp.base == base
        && first_bytes(directory, base)? == Some(stamp.first)
        && let Some(found) = reader.read_on(version, stamp)?
    {
        return Ok(Some(found));
    }
    read_manifest(directory, base)?.map(|found| reader.read(found)).transpose()
}

/// Renames the folder `from` to `path`, and makes that durable.
///
/// Errors: [`FormatError::Replaced`] if `path` exists.
pub(crate) fn move_to(fs: &dyn FileSystem, from: &Path, path: &Path) -> Result<()> {
    rename_new(fs, from, path)?;
    let parent = path.parent().unwrap_or(path);
    fs.sync_dir(parent).map_err(FormatError::io("cannot sync", parent))
}

fn rename_new(fs: &dyn FileSystem, from: &Path, path: &Path) -> Result<()> {
    fs.rename(from, path).map_err(|error| match error.kind() {
        ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
            FormatError::Replaced { table: path.display().to_string() }
        }
        _ => FormatError::io("cannot rename to", path)(error),
    })
}

/// Renames a finished table to its name; `renaming` is called before that. Fails if a directory exists there, unless it is empty, or `over` is its
/// lock, which means that it is replaced.
pub(crate) fn put_in_place(
    fs: &dyn FileSystem,
    staging: &Path,
    path: &Path,
    over: Option<&DirectoryLock>,
    renaming: impl FnOnce(),
) -> Result<()> {
    let replaced = || FormatError::Replaced { table: path.display().to_string() };
    let parent = path.parent().unwrap_or(path);
    let _names = leftovers::hold_names(parent)?;
    let mut aside = None;
    // A committed table that has the name may not have its place yet.
    journal::finish_around(parent)?;
    match over {
        Some(lock) if lock.holds() => aside = Some(leftovers::set_aside(path)?),
        None if path.symlink_metadata().is_err() => {}
        _ => return Err(replaced()),
    }
    rename_new(fs, staging, path)?;
    renaming();
    fs.sync_dir(parent).map_err(FormatError::io("cannot sync", parent))?;
    if let Some(aside) = aside {
        leftovers::remove(&aside);
    }
    Ok(())
}
