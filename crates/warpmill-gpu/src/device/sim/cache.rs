//! Shared objects on disk, named by a hash of everything that they are made from.
//!
//! A file is the shared object followed by a trailer: the XXH3-128 of the preceding bytes, and a magic number. The dynamic loader ignores bytes after
//! an object. A file with a wrong trailer counts as missing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

const MAGIC: &[u8; 8] = b"WMSIMSO1";
const TRAILER: usize = 16 + MAGIC.len();

/// The hash of everything that a shared object is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key(u128);

impl Key {
    /// Hashes `fields` with their lengths, so that different lists never hash the same bytes.
    pub(super) fn of<'a>(fields: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Xxh3::new();
        for field in fields {
            hash.update(&(field.len() as u64).to_le_bytes());
            hash.update(field.as_bytes());
        }
        Self(hash.digest128())
    }
}

/// The folder of sources and objects.
#[derive(Debug)]
pub(super) struct ObjectCache {
    folder: PathBuf,
}

impl ObjectCache {
    /// Opens the cache below `root`, creating it if necessary.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let folder = root.join("sim");
        fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    /// The path of the object of `key`, if it exists and is intact.
    pub(super) fn find(&self, key: Key) -> Option<PathBuf> {
        let path = self.path(key);
        let bytes = fs::read(&path).ok()?;
        let (object, trailer) = bytes.split_at_checked(bytes.len().checked_sub(TRAILER)?)?;
        let whole = trailer[16..] == *MAGIC && trailer[..16] == xxh3_128(object).to_le_bytes();
        if !whole {
            tracing::warn!(path = %path.display(), "a cached kernel is damaged and will be compiled again");
        }
        whole.then_some(path)
    }

    /// Stores the object at `built`. If another process does the same concurrently, either file will do.
    pub(super) fn insert(&self, key: Key, built: &Path) -> io::Result<PathBuf> {
        let mut bytes = fs::read(built)?;
        let hash = xxh3_128(&bytes);
        bytes.extend_from_slice(&hash.to_le_bytes());
        bytes.extend_from_slice(MAGIC);
        let temporary = tempfile::NamedTempFile::new_in(&self.folder)?;
        fs::write(temporary.path(), &bytes)?;
        let path = self.path(key);
        temporary.persist(&path)?;
        Ok(path)
    }

    fn path(&self, key: Key) -> PathBuf {
        self.folder.join(format!("{:032x}.so", key.0))
    }
}

/// The root of all Warpmill caches: `$WARPMILL_CACHE_DIR`, `$XDG_CACHE_HOME/warpmill` or `~/.cache/warpmill`.
pub(super) fn default_root() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("WARPMILL_CACHE_DIR")
        .or_else(|| variable("XDG_CACHE_HOME").map(|home| home.join("warpmill")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache").join("warpmill")))
}
