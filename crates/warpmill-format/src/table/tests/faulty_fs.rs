//! A file system on a real directory that fails, or loses power, at its n-th operation.

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
    /// The operation is done by half and power fails; later ones have no effect. Unsynced data are lost: file contents only, or also names (files
    /// created, renamed and removed).
    PowerLoss { names: bool },
}

/// Counts operations; the fault strikes number `at` (from 0).
#[derive(Debug)]
pub(crate) struct FaultyFs {
    fault: Fault,
    at: usize,
    state: Arc<Mutex<State>>,
    /// Keeps removed and replaced files, so that their removal can be lost.
    attic: PathBuf,
}

#[derive(Debug, Default)]
struct State {
    done: usize,
    dead: bool,
    /// Number of durable bytes of each file written here.
    synced: HashMap<PathBuf, u64>,
    /// Changes of names that are not durable, oldest first.
    names: Vec<NameChange>,
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
        Arc::new(Self { fault, at, state: Arc::default(), attic: attic.to_owned() })
    }

    /// Whether the fault has struck.
    pub(crate) fn struck(&self) -> bool {
        self.state.lock().done > self.at
    }

    /// Loses what a power failure loses. The process that used this file system is dead.
    pub(crate) fn lose(&self) {
        let Fault::PowerLoss { names } = self.fault else { return };
        let state = std::mem::take(&mut *self.state.lock());
        for (path, synced) in state.synced {
            if let Ok(file) = std::fs::OpenOptions::new().write(true).open(&path) {
                let length = file.metadata().unwrap().len();
                file.set_len(synced.min(length)).unwrap();
            }
        }
        if names {
            state.names.into_iter().rev().for_each(NameChange::undo);
        }
    }

    fn step(&self) -> io::Result<()> {
        step(&self.state, self.fault, self.at)
    }

    fn keep(&self) -> PathBuf {
        self.attic.join(self.state.lock().done.to_string())
    }
}

fn step(state: &Mutex<State>, fault: Fault, at: usize) -> io::Result<()> {
    let mut state = state.lock();
    if state.dead {
        return Err(io::Error::other("power is off"));
    }
    state.done += 1;
    if state.done - 1 == at {
        state.dead = fault != Fault::Error;
        return Err(io::Error::other("injected fault"));
    }
    Ok(())
}

impl FileSystem for FaultyFs {
    /// Small, so that every write has files that are synced in the background.
    fn full_file_bytes(&self) -> u64 {
        8192
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        SystemFs.create_dir(path)?;
        self.state.lock().names.push(NameChange::Made(path.to_owned()));
        Ok(())
    }

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn OutputFile>> {
        self.step()?;
        let file = SystemFs.create_file(path)?;
        let mut state = self.state.lock();
        state.names.push(NameChange::Made(path.to_owned()));
        state.synced.insert(path.to_owned(), 0);
        drop(state);
        Ok(Box::new(FaultyFile {
            file,
            path: path.to_owned(),
            written: 0,
            fault: self.fault,
            at: self.at,
            state: self.state.clone(),
        }))
    }

    fn open_at(&self, path: &Path, at: u64) -> io::Result<Box<dyn OutputFile>> {
        self.step()?;
        let file = SystemFs.open_at(path, at)?;
        let length = std::fs::metadata(path)?.len();
        self.state.lock().synced.entry(path.to_owned()).or_insert(length);
        Ok(Box::new(FaultyFile {
            file,
            path: path.to_owned(),
            written: at,
            fault: self.fault,
            at: self.at,
            state: self.state.clone(),
        }))
    }

    fn cut(&self, path: &Path, bytes: u64) -> io::Result<()> {
        self.step()?;
        SystemFs.cut(path, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        assert!(!to.exists(), "{} would replace {}", from.display(), to.display());
        SystemFs.rename(from, to)?;
        let mut state = self.state.lock();
        state.names.push(NameChange::Renamed { from: from.to_owned(), to: to.to_owned() });
        let synced = std::mem::take(&mut state.synced);
        let moved = |path: PathBuf| path.strip_prefix(from).map(|rest| to.join(rest)).unwrap_or(path.clone());
        // `join("")` would add a slash.
        let moved = |path: PathBuf| if path == from { to.to_owned() } else { moved(path) };
        state.synced = synced.into_iter().map(|(path, bytes)| (moved(path), bytes)).collect();
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        let kept = self.keep();
        std::fs::rename(path, &kept)?;
        self.state.lock().names.push(NameChange::Removed { path: path.to_owned(), kept });
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        SystemFs.remove_dir(path)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        let bytes = std::fs::metadata(path)?.len();
        *self.state.lock().synced.get_mut(path).expect("made here") = bytes;
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        self.state.lock().names.retain(|change| change.directory() != path);
        Ok(())
    }
}

struct FaultyFile {
    file: Box<dyn OutputFile>,
    path: PathBuf,
    written: u64,
    fault: Fault,
    at: usize,
    state: Arc<Mutex<State>>,
}

impl OutputFile for FaultyFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = step(&self.state, self.fault, self.at) {
            self.file.write_all(&bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        self.written += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        step(&self.state, self.fault, self.at)?;
        *self.state.lock().synced.get_mut(&self.path).expect("made here, not renamed while open") = self.written;
        Ok(())
    }
}
