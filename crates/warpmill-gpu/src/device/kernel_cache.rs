//! Compiled kernels on disk.
//!
//! One file per kernel under `<root>/<folder>/`, named by the hash of everything that determines its bytes. A file starts with a checksum over its
//! key and content, so that a torn, foreign or renamed file is a miss; files appear by rename. The root is `$WARPMILL_CACHE_DIR`,
//! `$XDG_CACHE_HOME/warpmill` or `~/.cache/warpmill`. `WARPMILL_CACHE_LIMIT` limits its bytes (1 GiB by default, 0 disables the cache); the least
//! recently used files are evicted. Errors never fail a query: unreadable kernels are compiled again, and unwritable ones are not kept.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use xxhash_rust::xxh3::Xxh3;

const DEFAULT_LIMIT: u64 = 1 << 30;
const MAGIC: &[u8; 8] = b"WMKERN01";
const HEADER: usize = MAGIC.len() + 16;
/// Number of writes after which the folder is measured again, to account for other processes.
const WRITES_PER_SCAN: u32 = 64;
/// Interval at which hits update a file's time of last use.
const USE_RESOLUTION: Duration = Duration::from_secs(3600);
/// Age at which unfinished files of dead processes are removed.
const PARTIAL_AGE: Duration = Duration::from_secs(3600);
const PARTIAL_PREFIX: &str = ".partial-";

/// Identifies a compiled kernel: the hash of everything that determines its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key(u128);

impl Key {
    /// Hashes `fields` with their lengths, so that different lists never hash the same bytes.
    pub(crate) fn of<'a>(fields: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = Xxh3::new();
        for field in fields {
            hasher.update(&(field.len() as u64).to_le_bytes());
            hasher.update(field);
        }
        Self(hasher.digest128())
    }

    fn file_name(self) -> String {
        format!("{:032x}", self.0)
    }
}

/// One folder of the cache on disk. Threads and processes may share it.
#[derive(Debug)]
pub(crate) struct KernelCache {
    root: PathBuf,
    folder: PathBuf,
    limit: u64,
    usage: Mutex<Usage>,
    warned: AtomicBool,
}

/// This process's estimate of the bytes under the root.
#[derive(Debug, Default)]
struct Usage {
    bytes: u64,
    writes_until_scan: u32,
}

impl KernelCache {
    /// The folder `folder` (relative) of the user's cache; `None` if there is no location for it, or it is disabled.
    pub(crate) fn open(folder: &str) -> Option<Self> {
        let limit = limit();
        (limit > 0).then(|| Some(Self::at(root()?, folder, limit))).flatten()
    }

    /// The folder `folder` of a cache at `root` that holds at most `limit` bytes.
    fn at(root: PathBuf, folder: &str, limit: u64) -> Self {
        let folder = root.join(folder);
        Self { root, folder, limit, usage: Mutex::default(), warned: AtomicBool::new(false) }
    }

    /// The content stored under `key`.
    pub(crate) fn get(&self, key: Key) -> Option<Vec<u8>> {
        let path = self.folder.join(key.file_name());
        let file = fs::read(&path).ok()?;
        let Some(content) = open_file(key, &file) else {
            tracing::debug!(path = %path.display(), "a cached kernel is damaged");
            return None;
        };
        mark_used(&path);
        Some(content.to_vec())
    }

    /// Whether there is a file under `key`; it may be damaged.
    pub(crate) fn has(&self, key: Key) -> bool {
        self.folder.join(key.file_name()).exists()
    }

    /// Stores `content` under `key`.
    pub(crate) fn put(&self, key: Key, content: &[u8]) {
        if let Err(error) = self.write(key, content)
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(folder = %self.folder.display(), %error, "compiled kernels cannot be kept on disk");
        }
    }

    fn write(&self, key: Key, content: &[u8]) -> io::Result<()> {
        let bytes = (HEADER + content.len()) as u64;
        if bytes > self.limit {
            return Ok(());
        }
        fs::create_dir_all(&self.folder)?;
        let mut file = tempfile::Builder::new().prefix(PARTIAL_PREFIX).tempfile_in(&self.folder)?;
        file.write_all(MAGIC)?;
        file.write_all(&checksum(key, content))?;
        file.write_all(content)?;
        file.persist(self.folder.join(key.file_name())).map_err(|failure| failure.error)?;
        self.account(bytes)
    }

    /// Accounts for `bytes` just written, and evicts if the limit is exceeded.
    fn account(&self, bytes: u64) -> io::Result<()> {
        let mut usage = self.usage.lock();
        usage.bytes += bytes;
        if usage.writes_until_scan > 0 && usage.bytes <= self.limit {
            usage.writes_until_scan -= 1;
            return Ok(());
        }
        usage.bytes = evict(&self.root, self.limit)?;
        usage.writes_until_scan = WRITES_PER_SCAN;
        Ok(())
    }
}

/// The root of the user's cache.
fn root() -> Option<PathBuf> {
    // By the XDG specification an empty variable counts as unset, and relative paths are ignored.
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("WARPMILL_CACHE_DIR").or_else(|| {
        let base = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        Some(base.or_else(|| Some(variable("HOME")?.join(".cache")))?.join("warpmill"))
    })
}

/// Byte limit of the cache.
fn limit() -> u64 {
    let Some(text) = std::env::var_os("WARPMILL_CACHE_LIMIT") else { return DEFAULT_LIMIT };
    text.to_str().and_then(|text| text.trim().parse().ok()).unwrap_or_else(|| {
        tracing::warn!(value = ?text, "WARPMILL_CACHE_LIMIT is not a number of bytes");
        DEFAULT_LIMIT
    })
}

fn checksum(key: Key, content: &[u8]) -> [u8; 16] {
    Key::of([&key.0.to_le_bytes()[..], content]).0.to_le_bytes()
}

/// The content of a file, if it is complete and was written for `key`.
fn open_file(key: Key, file: &[u8]) -> Option<&[u8]> {
    let (header, content) = file.split_at_checked(HEADER)?;
    let (magic, sum) = header.split_at(MAGIC.len());
    (magic == MAGIC && sum == checksum(key, content)).then_some(content)
}

/// Marks the file as most recently used. Best effort: the file may be read-only or gone.
fn mark_used(path: &Path) {
    let now = SystemTime::now();
    let fresh = |modified| now.duration_since(modified).is_ok_and(|age| age < USE_RESOLUTION);
    if !fs::metadata(path).and_then(|metadata| metadata.modified()).is_ok_and(fresh) {
        let _ = File::options().append(true).open(path).and_then(|file| file.set_modified(now));
    }
}

struct Entry {
    used: SystemTime,
    bytes: u64,
    path: PathBuf,
}

/// If the files exceed `limit`, removes the least recently used ones until nine tenths of it are in use, and unfinished files of dead processes.
/// Returns the bytes left.
fn evict(root: &Path, limit: u64) -> io::Result<u64> {
    let mut entries = Vec::new();
    list(root, &mut entries)?;
    let mut total: u64 = entries.iter().map(|entry| entry.bytes).sum();
    if total <= limit {
        return Ok(total);
    }
    entries.sort_by_key(|entry| entry.used);
    let goal = limit - limit / 10;
    for entry in entries {
        if total <= goal {
            break;
        }
        // Another process may have removed it.
        match fs::remove_file(&entry.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => total -= entry.bytes,
        }
    }
    Ok(total)
}

/// Adds the cache's files under `folder` to `entries`.
fn list(folder: &Path, entries: &mut Vec<Entry>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Other processes may remove files meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if metadata.is_dir() {
            list(&entry.path(), entries)?;
        } else if name.starts_with(PARTIAL_PREFIX) {
            if metadata.modified()?.elapsed().is_ok_and(|age| age > PARTIAL_AGE) {
                let _ = fs::remove_file(entry.path());
            }
        } else if name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            entries.push(Entry { used: metadata.modified()?, bytes: metadata.len(), path: entry.path() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
