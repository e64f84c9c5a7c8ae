//! A file system on a real directory that fails, or loses power, at its n-th operation; several writers may share it.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::fs::{FileSystem, OutputFile, SystemFs};

/// The fault at the operation chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The operation fails; later ones work.
    Error,
    /// This many operations fail; later ones work.
    Errors(usize),
    /// The process ends: the operation is done by half, and later ones have no effect. The system keeps what has been done.
    Kill,
    /// The operation is done by half and power fails; later ones have no effect. Unsynced data are lost: file contents only, or also names (files
    /// created, renamed and removed).
    PowerLoss { names: bool },
}

/// A writer's view of the disk: counts its operations; the fault strikes number `at` (from 0).
#[derive(Debug)]
pub(crate) struct FaultyFs {
    writer: Arc<Writer>,
    disk: Arc<Mutex<Disk>>,
    /// Keeps removed and replaced files, so that their removal can be lost.
    attic: PathBuf,
}

/// The process of a file system.
struct Writer {
    fault: Fault,
    at: usize,
    /// Called when the fault strikes.
    struck: Box<dyn Fn() + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    done: usize,
    dead: bool,
}

/// The state of the disk that a power failure reveals.
#[derive(Debug, Default)]
struct Disk {
    /// Number of durable bytes of each file written here.
    synced: HashMap<PathBuf, u64>,
    /// Changes of names that are not durable, oldest first.
    names: Vec<NameChange>,
    /// Number of files in the attic.
    kept: usize,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} at {}", self.fault, self.at)
    }
}

#[derive(Debug)]
enum NameChange {
    Made(PathBuf),
    Renamed { from: PathBuf, to: PathBuf },
    Removed { path: PathBuf, kept: PathBuf },
}

impl NameChange {
    fn directory(&self) -> &Path {
        let (Self::Made(path) | Self::Renamed { to: path, .. } | Self::Removed { path, .. }) = self;
        path.parent().unwrap()
    }

    fn undo(self) {
        // The file may be gone with its directory: then nothing has to be undone.
        let _ = match self {
            Self::Made(path) if path.is_dir() => std::fs::remove_dir_all(path),
            Self::Made(path) => std::fs::remove_file(path),
            Self::Renamed { from, to } => std::fs::rename(to, from),
            Self::Removed { path, kept } => std::fs::rename(kept, path),
        };
    }
}

impl FaultyFs {
    /// `attic` is an existing directory outside the table.
    pub(crate) fn new(fault: Fault, at: usize, attic: &Path) -> Arc<Self> {
        Self::striking(fault, at, attic, || ())
    }

    /// The same, which calls `struck` when the fault strikes, before the writer hears of it.
    pub(crate) fn striking(
        fault: Fault,
        at: usize,
        attic: &Path,
        struck: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        let writer = Arc::new(Writer { fault, at, struck: Box::new(struck), state: Mutex::default() });
        Arc::new(Self { writer, disk: Arc::default(), attic: attic.to_owned() })
    }

    /// The same disk for another writer, which meets no fault.
    pub(crate) fn beside(&self) -> Arc<Self> {
        let (at, struck) = (usize::MAX, Box::new(|| ()));
        let writer = Arc::new(Writer { fault: Fault::Error, at, struck, state: Mutex::default() });
        Arc::new(Self { writer, disk: Arc::clone(&self.disk), attic: self.attic.clone() })
    }

    /// Whether the fault has struck.
    pub(crate) fn struck(&self) -> bool {
        self.writer.state.lock().done > self.writer.at
    }

    /// Loses what a power failure loses, if that is the fault. The process that used this file system is dead.
    pub(crate) fn lose(&self) {
        if let Fault::PowerLoss { names } = self.writer.fault {
            self.lose_power(names);
        }
    }

    /// Loses what is not durable: file contents only, or also `names`.
    pub(crate) fn lose_power(&self, names: bool) {
        let disk = std::mem::take(&mut *self.disk.lock());
        for (path, synced) in disk.synced {
            if let Ok(file) = std::fs::OpenOptions::new().write(true).open(&path) {
                let length = file.metadata().unwrap().len();
                file.set_len(synced.min(length)).unwrap();
            }
        }
        if names {
            disk.names.into_iter().rev().for_each(NameChange::undo);
        }
    }

    fn keep(&self) -> PathBuf {
        let mut disk = self.disk.lock();
        disk.kept += 1;
        self.attic.join(disk.kept.to_string())
    }

    fn file(&self, file: Box<dyn OutputFile>, path: &Path, written: u64) -> Box<dyn OutputFile> {
        let (writer, disk) = (Arc::clone(&self.writer), Arc::clone(&self.disk));
        Box::new(FaultyFile { file, path: path.to_owned(), written, writer, disk })
    }
}

impl Writer {
    fn step(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.dead {
            return Err(io::Error::other("power is off"));
        }
        state.done += 1;
        let (number, count) = (state.done - 1, if let Fault::Errors(count) = self.fault { count } else { 1 });
        if !(self.at..self.at.saturating_add(count)).contains(&number) {
            return Ok(());
        }
        state.dead = !matches!(self.fault, Fault::Error | Fault::Errors(_));
        drop(state);
        (self.struck)();
        Err(io::Error::other("injected fault"))
    }
}

impl FileSystem for FaultyFs {
    /// Small, so that every write has files that are synced in the background.
    fn full_file_bytes(&self) -> u64 {
        8192
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.writer.step()?;
        SystemFs.create_dir(path)?;
        self.disk.lock().names.push(NameChange::Made(path.to_owned()));
        Ok(())
    }

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn OutputFile>> {
        self.writer.step()?;
        let file = SystemFs.create_file(path)?;
        let mut disk = self.disk.lock();
        disk.names.push(NameChange::Made(path.to_owned()));
        disk.synced.insert(path.to_owned(), 0);
        drop(disk);
        Ok(self.file(file, path, 0))
    }

    fn open_at(&self, path: &Path, at: u64) -> io::Result<Box<dyn OutputFile>> {
        self.writer.step()?;
        let file = SystemFs.open_at(path, at)?;
        let length = std::fs::metadata(path)?.len();
        self.disk.lock().synced.entry(path.to_owned()).or_insert(length);
        Ok(self.file(file, path, at))
    }

    fn cut(&self, path: &Path, bytes: u64) -> io::Result<()> {
        self.writer.step()?;
        SystemFs.cut(path, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.writer.step()?;
        assert!(!to.exists(), "{} would replace {}", from.display(), to.display());
        SystemFs.rename(from, to)?;
        let mut disk = self.disk.lock();
        disk.names.push(NameChange::Renamed { from: from.to_owned(), to: to.to_owned() });
        let synced = std::mem::take(&mut disk.synced);
        let moved = |path: PathBuf| path.strip_prefix(from).map(|rest| to.join(rest)).unwrap_or(path.clone());
        // `join("")` would add a slash.
        let moved = |path: PathBuf| if path == from { to.to_owned() } else { moved(path) };
        disk.synced = synced.into_iter().map(|(path, bytes)| (moved(path), bytes)).collect();
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.writer.step()?;
        let kept = self.keep();
        std::fs::rename(path, &kept)?;
        self.disk.lock().names.push(NameChange::Removed { path: path.to_owned(), kept });
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.writer.step()?;
        SystemFs.remove_dir(path)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.writer.step()?;
        let bytes = std::fs::metadata(path)?.len();
        self.disk.lock().synced.insert(path.to_owned(), bytes);
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.writer.step()?;
        self.disk.lock().names.retain(|change| change.directory() != path);
        Ok(())
    }
}

struct FaultyFile {
    file: Box<dyn OutputFile>,
    path: PathBuf,
    written: u64,
    writer: Arc<Writer>,
    disk: Arc<Mutex<Disk>>,
}

impl OutputFile for FaultyFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.writer.step() {
            self.file.write_all(&bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        self.written += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.writer.step()?;
        *self.disk.lock().synced.get_mut(&self.path).expect("made here, not renamed while open") = self.written;
        Ok(())
    }
}
