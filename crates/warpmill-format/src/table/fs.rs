//! All changes that the table layer makes to a file system, as a small trait: tests replace it by one that fails, or "loses power", at the n-th
//! operation.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

/// The operations that change a file system. Reading is not part of it.
pub(crate) trait FileSystem: Send + Sync + std::fmt::Debug {
    /// Makes directory `path`, which must not exist.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes (or empties) file `path` for writing.
    fn create_file(&self, path: &Path) -> io::Result<Box<dyn OutputFile>>;
    /// Opens file `path`, which exists, for writing from byte `at` on.
    fn open_at(&self, path: &Path, at: u64) -> io::Result<Box<dyn OutputFile>>;
    /// Shortens file `path` to `bytes` bytes.
    fn cut(&self, path: &Path, bytes: u64) -> io::Result<()>;
    /// Renames file or directory `from` to `to`, replacing a file of that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes file `path`.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes the empty directory `path`.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the content of file `path` durable.
    fn sync_file(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in directory `path` durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// The size of a full data file, after which the next one is started.
    fn full_file_bytes(&self) -> u64 {
        1 << 30
    }
}

/// A file being written from start to end.
pub(crate) trait OutputFile: Send {
    /// Appends `bytes`.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes everything written durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// The operating system's file system.
#[derive(Debug)]
pub(crate) struct SystemFs;

impl FileSystem for SystemFs {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn OutputFile>> {
        Ok(Box::new(OpenOptions::new().write(true).create(true).truncate(true).open(path)?))
    }

    fn open_at(&self, path: &Path, at: u64) -> io::Result<Box<dyn OutputFile>> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.seek(SeekFrom::Start(at))?;
        Ok(Box::new(Appended(file)))
    }

    fn cut(&self, path: &Path, bytes: u64) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.set_len(bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// A file that gets longer.
struct Appended(File);

impl OutputFile for Appended {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        Write::write_all(&mut self.0, bytes)
    }

    /// Its bytes and its length; not the time of the change.
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

impl OutputFile for File {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        Write::write_all(self, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}
