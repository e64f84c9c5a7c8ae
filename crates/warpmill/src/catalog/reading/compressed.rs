//! Files that are compressed as a whole.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::{Error, Result};

/// The compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::catalog) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// `said`, or the compression according to the file's extension.
    pub(in crate::catalog) fn of(said: Option<Self>, path: &Path) -> Self {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        said.unwrap_or_else(|| Self::called(extension).unwrap_or(Self::None))
    }

    /// The compression of files with an extension.
    pub(in crate::catalog) fn called(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "gz" => Some(Self::Gzip),
            "zst" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Opens a file, decompressing it.
    ///
    /// # Errors
    /// A file that cannot be opened. Wrongly compressed bytes cause errors when they are read.
    pub(in crate::catalog) fn open(self, path: &Path) -> Result<Box<dyn Read + Send>> {
        let failed = |error: std::io::Error| Error::Io(format!("cannot open {}: {error}", path.display()));
        let file = File::open(path).map_err(failed)?;
        Ok(match self {
            Self::None => Box::new(file),
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(file)),
            Self::Zstd => Box::new(zstd::Decoder::new(file).map_err(failed)?),
        })
    }
}
