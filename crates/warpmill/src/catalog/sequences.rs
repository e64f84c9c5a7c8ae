//! Sequences: numbers that are returned once, stored in files beside the tables if there is a database.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use warpmill_format::FormatError;
use warpmill_format::table::leftovers;

use super::redefined::{Meaning, Sort};
use super::{Schema, create_directory, creating, entries, io_error, plain};
use crate::{Error, Result};

/// Suffix of a sequence's file.
pub(super) const SUFFIX: &str = ".sequence";
/// Suffix of the file that is locked while a sequence advances. It is never removed.
pub(super) const LOCK_SUFFIX: &str = ".sequence.lock";
const FORMAT: &str = "warpmill sequence";
const VERSION: u32 = 1;

/// A sequence and its state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sequence {
    format: String,
    version: u32,
    increment: i64,
    min: i64,
    max: i64,
    cycle: bool,
    start: i64,
    /// The next number; `None`: exhausted.
    next: Option<i64>,
}

/// The options of CREATE SEQUENCE; `None` means the default.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SequenceOptions {
    pub(crate) start: Option<i64>,
    pub(crate) increment: Option<i64>,
    pub(crate) min: Option<i64>,
    pub(crate) max: Option<i64>,
    pub(crate) cycle: bool,
}

impl Sequence {
    /// A new sequence.
    ///
    /// # Errors
    /// Options without any number, refused as in PostgreSQL and DuckDB.
    pub(crate) fn new(options: SequenceOptions) -> Result<Self> {
        let increment = options.increment.unwrap_or(1);
        let ascends = increment > 0;
        let min = options.min.unwrap_or(if ascends { 1 } else { i64::MIN });
        let max = options.max.unwrap_or(if ascends { i64::MAX } else { -1 });
        let start = options.start.unwrap_or(if ascends { min } else { max });
        let refused = |text: String| Err(Error::Plan(format!("CREATE SEQUENCE: {text}")));
        if increment == 0 {
            return refused("INCREMENT must not be 0".into());
        }
        if min >= max {
            return refused(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})"));
        }
        if !(min..=max).contains(&start) {
            return refused(format!("START ({start}) must be between MINVALUE ({min}) and MAXVALUE ({max})"));
        }
        let (format, version, cycle) = (FORMAT.into(), VERSION, options.cycle);
        Ok(Self { format, version, increment, min, max, cycle, start, next: Some(start) })
    }

    /// The first number.
    pub(crate) fn start(&self) -> i64 {
        self.start
    }

    /// The least number.
    pub(crate) fn min(&self) -> i64 {
        self.min
    }

    /// The greatest number.
    pub(crate) fn max(&self) -> i64 {
        self.max
    }

    /// The distance of a number from the one before.
    pub(crate) fn increment(&self) -> i64 {
        self.increment
    }

    /// Whether it begins again at its end.
    pub(crate) fn cycles(&self) -> bool {
        self.cycle
    }

    /// The number that was given last; `None`: none was, or the sequence has begun again since.
    pub(crate) fn last(&self) -> Option<i64> {
        match self.next {
            Some(next) if next == self.start => None,
            Some(next) => next.checked_sub(self.increment).filter(|last| (self.min..=self.max).contains(last)),
            None if self.increment > 0 => Some(self.max - (self.max - self.start) % self.increment),
            None => Some(self.min + (self.start - self.min) % self.increment.abs()),
        }
    }

    /// The text that makes a sequence which gives the numbers that this one has left.
    pub(crate) fn creating(&self, schema: &str, name: &str) -> String {
        let Self { increment, min, max, start, .. } = self;
        let (start, name) = (self.next.unwrap_or(*start), creating::qualified(schema, name));
        let cycle = if self.cycle { "CYCLE" } else { "NO CYCLE" };
        format!("CREATE SEQUENCE {name} INCREMENT BY {increment} MINVALUE {min} MAXVALUE {max} START {start} {cycle};")
    }

    /// The next `count` numbers.
    pub(super) fn advance(&mut self, name: &str, count: usize) -> Result<Vec<i64>> {
        let first = if self.increment > 0 { self.min } else { self.max };
        let mut given = Vec::with_capacity(count);
        for _ in 0..count {
            let Some(number) = self.next else {
                let (end, bound) = if self.increment > 0 { ("maximum", self.max) } else { ("minimum", self.min) };
                return Err(Error::Execution(format!("nextval: reached {end} value of sequence {name:?} ({bound})")));
            };
            given.push(number);
            let following = number.checked_add(self.increment).filter(|next| (self.min..=self.max).contains(next));
            self.next = following.or(self.cycle.then_some(first));
        }
        Ok(given)
    }

    /// The content of its file.
    pub(super) fn to_text(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map_err(|error| Error::Internal(error.to_string()))
    }
}

/// The error for a sequence that is not there.
pub(super) fn missing(name: &str) -> Error {
    Error::Catalog(format!("sequence '{name}' does not exist"))
}

impl Schema {
    /// Adds or replaces a sequence: stored if there is a database, unless it is `temporary`.
    pub(crate) fn put_sequence(&self, name: &str, sequence: Sequence, temporary: bool) -> Result<()> {
        let name = name.to_lowercase();
        if self.redefine(Sort::Sequence, &name, Some(Meaning::Sequence(sequence.clone())), temporary)? {
            return Ok(());
        }
        match self.folder.as_ref().filter(|_| !temporary) {
            Some(folder) => {
                create_directory(folder)?;
                leftovers::clean(folder)?;
                let file = SequenceFile::hold(folder, &name)?;
                file.write(&sequence)?;
                self.sequences.lock().remove(&name);
            }
            None => drop(self.sequences.lock().insert(name, sequence)),
        }
        Ok(())
    }

    /// All sequences, with their names, and whether they are the session's beside stored ones.
    pub(crate) fn all_sequences(&self) -> Result<Vec<(String, Sequence, bool)>> {
        let own = self.sequences.lock().clone();
        let temporary = self.folder.is_some();
        let mut all: Vec<_> = own.into_iter().map(|(name, sequence)| (name, sequence, temporary)).collect();
        if let Some(folder) = &self.folder {
            for file in entries(folder)?.iter().filter(|file| !file.starts_with('.')) {
                let Some(name) = file.strip_suffix(SUFFIX) else { continue };
                if all.iter().any(|(known, ..)| known == name) {
                    continue;
                }
                if let Some(sequence) = SequenceFile::hold(folder, name)?.read()? {
                    all.push((name.to_string(), sequence, false));
                }
            }
        }
        self.sequences_in_transaction(&mut all);
        all.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(all)
    }

    /// Whether there is a sequence of that name.
    pub(crate) fn has_sequence(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        if let Some(now) = self.redefined(Sort::Sequence, &name) {
            return now.is_some();
        }
        self.sequences.lock().contains_key(&name) || self.sequence_path(&name).is_some_and(|path| path.exists())
    }

    /// Takes the next `count` numbers of a sequence; no other caller gets them, whether a transaction that uses them commits or not.
    ///
    /// # Errors
    /// The sequence does not exist or is exhausted, or its file cannot be read or written.
    pub(crate) fn next_values(&self, name: &str, count: usize) -> Result<Vec<i64>> {
        let name = name.to_lowercase();
        if let Some(given) = self.advance_in_transaction(&name, count)? {
            return Ok(given);
        }
        if let Some(sequence) = self.sequences.lock().get_mut(&name) {
            let mut after = sequence.clone();
            let given = after.advance(&name, count)?;
            *sequence = after;
            return Ok(given);
        }
        let missing = || missing(&name);
        self.shared.finish_commits()?;
        if !self.sequence_path(&name).is_some_and(|path| path.exists()) {
            return Err(missing());
        }
        let file = SequenceFile::hold(self.folder.as_deref().ok_or_else(missing)?, &name)?;
        let mut sequence = file.read()?.ok_or_else(missing)?;
        let given = sequence.advance(&name, count)?;
        file.write(&sequence)?;
        Ok(given)
    }

    /// Removes a sequence; returns false if it does not exist.
    pub(crate) fn remove_sequence(&self, name: &str) -> Result<bool> {
        let name = name.to_lowercase();
        if self.shared.is_in_transaction() {
            let is_own = self.has_own(Sort::Sequence, &name);
            let temporary = self.redefined_as(Sort::Sequence, &name).unwrap_or(is_own);
            return Ok(self.has_sequence(&name) && self.redefine(Sort::Sequence, &name, None, temporary)?);
        }
        if self.sequences.lock().remove(&name).is_some() {
            return Ok(true);
        }
        let Some(path) = self.sequence_path(&name).filter(|path| path.exists()) else { return Ok(false) };
        std::fs::remove_file(&path).map_err(|error| io_error("cannot drop sequence", &path, &error))?;
        leftovers::sync_folder_of(&path)?;
        Ok(true)
    }

    fn sequence_path(&self, name: &str) -> Option<PathBuf> {
        let folder = self.folder.as_ref().filter(|_| plain(name).is_ok())?;
        Some(folder.join(format!("{name}{SUFFIX}")))
    }
}

/// The file of a sequence, locked against other processes.
pub(super) struct SequenceFile {
    path: PathBuf,
    _lock: File,
}

impl SequenceFile {
    pub(super) fn hold(folder: &Path, name: &str) -> Result<Self> {
        let name = plain(name)?;
        let lock = folder.join(format!(".{name}{LOCK_SUFFIX}"));
        let failed = |error: std::io::Error| io_error("cannot lock", &lock, &error);
        let opened = File::options().create(true).append(true).open(&lock).map_err(failed)?;
        opened.lock().map_err(failed)?;
        Ok(Self { path: folder.join(format!("{name}{SUFFIX}")), _lock: opened })
    }

    fn read(&self) -> Result<Option<Sequence>> {
        let bytes = match std::fs::read(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(|error| io_error("cannot read", &self.path, &error))?,
        };
        let corrupt = |detail: String| FormatError::Corrupt { path: self.path.clone(), segment: None, detail };
        let sequence: Sequence =
            serde_json::from_slice(&bytes).map_err(|error| corrupt(format!("not a sequence: {error}")))?;
        match (sequence.format.as_str(), sequence.version) {
            (FORMAT, VERSION) if sequence.increment != 0 && sequence.min < sequence.max => Ok(Some(sequence)),
            _ => Err(corrupt("not a sequence that is known here".into()).into()),
        }
    }

    fn write(&self, sequence: &Sequence) -> Result<()> {
        Ok(leftovers::write_file(&self.path, sequence.to_text()?.as_bytes())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_or_begin_again() {
        let options = SequenceOptions { min: Some(1), max: Some(5), increment: Some(2), ..SequenceOptions::default() };
        let mut ends = Sequence::new(options).unwrap();
        assert_eq!(ends.advance("s", 3).unwrap(), [1, 3, 5]);
        assert!(ends.advance("s", 1).unwrap_err().to_string().contains("maximum value"));
        let mut again = Sequence::new(SequenceOptions { cycle: true, start: Some(3), ..options }).unwrap();
        assert_eq!(again.advance("s", 4).unwrap(), [3, 5, 1, 3]);
        let down = SequenceOptions { increment: Some(-1), ..SequenceOptions::default() };
        assert_eq!(Sequence::new(down).unwrap().advance("s", 2).unwrap(), [-1, -2]);
        let last = SequenceOptions { start: Some(i64::MAX), ..SequenceOptions::default() };
        assert_eq!(Sequence::new(last).unwrap().advance("s", 1).unwrap(), [i64::MAX]);
        for refused in [
            SequenceOptions { increment: Some(0), ..options },
            SequenceOptions { min: Some(5), ..options },
            SequenceOptions { start: Some(6), ..options },
        ] {
            assert!(Sequence::new(refused).is_err());
        }
    }
}
