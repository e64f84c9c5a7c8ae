//! Spilled texts: decoded strings that rows refer to, in mapped temporary files.
//!
//! Spilled rows keep views of strings, so that these must stay readable at their address. The operating system writes the pages of a mapped file out
//! and reads them again as memory requires.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use warpmill_eval::memory::TextStore;
use warpmill_format::Mapping;

use super::{SpillFile, SpillSettings};

/// Bytes of a file, unless a text is larger.
const FILE_BYTES: usize = 64 << 20;

/// The texts of a query.
#[derive(Debug)]
pub(crate) struct SpillTexts {
    settings: SpillSettings,
    used: Arc<AtomicU64>,
    written: Arc<AtomicU64>,
    files: Mutex<Vec<TextFile>>,
}

/// A file and its mapping.
#[derive(Debug)]
struct TextFile {
    // Dropped before the file, which releases the bytes.
    map: Mapping,
    file: SpillFile,
    free: usize,
}

impl SpillTexts {
    /// An empty store; `used` and `written` count the bytes of its files, made with `settings`.
    pub fn new(settings: SpillSettings, used: Arc<AtomicU64>, written: Arc<AtomicU64>) -> Self {
        Self { settings, used, written, files: Mutex::default() }
    }

    fn create(&self, bytes: usize) -> Option<TextFile> {
        let file = SpillFile::create(&self.settings, self.used.clone(), self.written.clone()).ok()?;
        let map = file.map(bytes).ok()?;
        Some(TextFile { map, file, free: bytes })
    }
}

impl TextStore for SpillTexts {
    fn store(&self, text: &[u8]) -> Option<*const u8> {
        let mut files = self.files.lock();
        if files.last().is_none_or(|file| file.free < text.len()) {
            let file = self.create(FILE_BYTES.max(text.len()))?;
            files.push(file);
        }
        let last = files.last_mut()?;
        // If a file has no room left or the disk is full, the text stays in memory, where the limit applies. Nothing more is appended to the file:
        // after a failed write, further texts would lie behind a gap.
        let Ok(offset) = last.file.append_bytes(text) else {
            last.free = 0;
            return None;
        };
        last.free -= text.len();
        let offset = usize::try_from(offset).ok()?;
        Some(last.map.get(offset..offset.checked_add(text.len())?)?.as_ptr())
    }
}
