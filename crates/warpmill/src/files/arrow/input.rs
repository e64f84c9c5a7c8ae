//! The bytes of a file: buffers are never larger than the file.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::common::Result;
use object_store::{GetResultPayload, ObjectMeta, ObjectStore, ObjectStoreExt};
use warpmill_eval::free_memory;
use warpmill_format::FormatError;

use crate::Error;
use crate::files::damaged;
use crate::files::format::base_of;
use crate::files::readers::{LOCAL, path_of};
use crate::remote::{Bytes, Pinned};

/// A file that is open.
pub(super) struct Input {
    bytes: Source,
    /// Its size.
    pub size: u64,
    path: PathBuf,
}

enum Source {
    File(File),
    Whole(Bytes),
    Remote(Box<(Pinned, ObjectMeta)>),
}

impl Input {
    /// Opens the object `object` of `store`.
    pub async fn open(store: &Arc<dyn ObjectStore>, object: &ObjectMeta) -> Result<Self> {
        let base = base_of(store);
        let path = path_of(&base, object.location.as_ref());
        if !base.starts_with(LOCAL) {
            let pinned = Pinned::new(Arc::clone(store), &base, object.clone());
            return Ok(Self { bytes: Source::Remote(Box::new((pinned, object.clone()))), size: object.size, path });
        }
        let found = store.get(&object.location).await?;
        let size = found.meta.size;
        let bytes = match found.payload {
            GetResultPayload::File(file, _) => Source::File(file),
            GetResultPayload::Stream(_) => Source::Whole(found.bytes().await?),
        };
        Ok(Self { bytes, size, path })
    }

    /// The bytes of a range, aligned for Arrow's numbers.
    ///
    /// # Errors
    /// A range outside of the file, a file that has become shorter, no memory.
    pub async fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        if range.start > range.end || range.end > self.size {
            return Err(self.damage(format!("bytes {}..{} of {}", range.start, range.end, self.size)));
        }
        if range.is_empty() {
            return Ok(vec![]);
        }
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| no_room(length as u64))?;
        match &self.bytes {
            Source::File(file) => {
                bytes.resize(length, 0);
                file.read_exact_at(&mut bytes, range.start).map_err(|error| match error.kind() {
                    ErrorKind::UnexpectedEof => self.damage("cut off while it was read".into()),
                    _ => Error::Io(format!("cannot read {}: {error}", self.path.display())).into(),
                })?;
            }
            Source::Whole(whole) => match whole.get(range.start as usize..range.end as usize) {
                Some(part) => bytes.extend_from_slice(part),
                None => return Err(self.damage("it is shorter than it was".into())),
            },
            Source::Remote(remote) => {
                let (store, object) = &**remote;
                bytes.extend_from_slice(&store.get_range(&object.location, range).await?);
            }
        }
        match bytes.len() == length {
            true => Ok(bytes),
            false => Err(self.damage(format!("{} bytes instead of {length}", bytes.len()))),
        }
    }

    /// Whether the file is in a remote store.
    pub fn is_remote(&self) -> bool {
        matches!(self.bytes, Source::Remote(_))
    }

    /// Reads the whole file into memory, for files that are read in many small parts.
    pub async fn bring(&mut self) -> Result<()> {
        self.bytes = Source::Whole(self.read(0..self.size).await?.into());
        Ok(())
    }

    /// The error of a file that cannot be read as this table.
    pub fn mismatch(&self, detail: &str) -> datafusion::common::DataFusionError {
        Error::Plan(format!("{}: {detail}", self.path.display())).into()
    }

    /// The error of a damaged file.
    pub fn damage(&self, detail: String) -> datafusion::common::DataFusionError {
        damaged(FormatError::Corrupt { path: self.path.clone(), segment: None, detail })
    }
}

/// Whether there is memory for the `claimed` decompressed bytes of a batch of `there` bytes. Uncompressed data share the batch's memory.
pub(super) fn has_room(claimed: u64, there: usize) -> crate::Result<()> {
    match claimed > there as u64 && free_memory().is_some_and(|free| claimed > free as u64 / 2) {
        true => Err(no_room(claimed)),
        false => Ok(()),
    }
}

fn no_room(bytes: u64) -> Error {
    Error::OutOfMemory(format!("a batch of Arrow takes {bytes} bytes, for which there is no room"))
}
