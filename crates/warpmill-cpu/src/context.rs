//! The state that all operators of a query share: settings, memory account, cancellation, string arenas, errors.

use std::any::Any;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use warpmill_format::{FormatError, StrView};

use crate::compaction::Compaction;
use crate::machine::free_memory;
use crate::spill::{SpillArea, SpillSettings};

/// The reason why a query failed while it ran.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The query would need more memory than its limit.
    #[error(
        "out of memory: {operator} needs {requested} more bytes, {used} of {limit} in use (raise warpmill.memory_limit)"
    )]
    #[allow(missing_docs, reason = "fields are named in the message")]
    OutOfMemory { operator: &'static str, requested: usize, used: usize, limit: usize },
    /// A temporary file failed.
    #[error(
        "cannot {action} {}, a temporary file for what exceeds warpmill.memory_limit: {reason} (see warpmill.temp_directory; warpmill.spill = off uses none)",
        path.display()
    )]
    #[allow(missing_docs, reason = "fields are named in the message")]
    Spill { action: &'static str, path: PathBuf, reason: String },
    /// The query would need more room on disk than its limit.
    #[error(
        "temporary files are full: {} needs {requested} more bytes, {used} of {limit} in use (raise warpmill.temp_directory_limit or warpmill.memory_limit)",
        path.display()
    )]
    #[allow(missing_docs, reason = "fields are named in the message")]
    SpillLimit { path: PathBuf, requested: u64, used: u64, limit: u64 },
    /// The query was cancelled.
    #[error("query cancelled")]
    Cancelled,
    /// Overflow, division by zero, an impossible cast: the SQL-level error text.
    #[error("{0}")]
    Value(String),
    /// A segment could not be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// More rows reached an aggregation than its 64-bit sums are proven for. The program has to be translated again with
    /// 128-bit sums (`warpmill_translate::Options::wide_sums`); nothing overflowed.
    #[error("more than the expected {safe} rows reached sums of 64 bits")]
    NeedsWideSums {
        /// Rows up to which the sums cannot overflow.
        safe: u64,
    },
    /// An input from outside failed.
    #[error("{0}")]
    Input(String),
    /// The program asks for something this back end does not have. The planner should have fallen back.
    #[error("not supported by the CPU back end: {0}")]
    Unsupported(String),
}

/// The result of running anything.
pub type Result<T, E = ExecError> = std::result::Result<T, E>;

/// The way a query is run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Worker threads (at least 1).
    pub threads: usize,
    /// Bytes the query may hold in pipeline breakers.
    pub memory_limit: usize,
    /// Rows of a full chunk: a power of two from 2 to 2048 (small values are for tests).
    pub chunk_rows: usize,
    /// The time when small chunks are copied together.
    pub compaction: Compaction,
    /// Whether joins and aggregations look up everything by hash, and all hashes are equal (for tests of collisions).
    pub equal_hashes: bool,
    /// The policy at the memory limit.
    pub spill: SpillSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            threads: 1,
            memory_limit: usize::MAX,
            chunk_rows: crate::CHUNK_ROWS,
            compaction: Compaction::Smart,
            equal_hashes: false,
            spill: SpillSettings::default(),
        }
    }
}

/// A flag that asks a query to stop.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Asks the query to stop; it does so at its next chunk.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// `Err(Cancelled)` once [`CancelToken::cancel`] was called.
    pub fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(ExecError::Cancelled) } else { Ok(()) }
    }
}

/// Bytes that a query holds.
#[derive(Debug, Default)]
struct Account {
    used: AtomicUsize,
    peak: AtomicUsize,
}

impl Account {
    fn add(&self, bytes: usize) {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        self.peak.fetch_max(used + bytes, Ordering::Relaxed);
    }

    fn remove(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Memory that cannot be put aside. Where other memory can, each of these is compared with the limit by itself: the rest makes room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Rows of the result.
    Result,
    /// Strings that are kept until the query ends.
    Strings,
    /// Decompressed segments.
    Segments,
}

/// Bytes that are accounted for until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    account: Arc<Account>,
    bytes: usize,
}

impl Reservation {
    /// Takes over `bytes` that are accounted for already.
    pub fn adopt(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Accounts for `bytes` instead of what it was.
    pub fn resize(&mut self, bytes: usize) {
        self.account.add(bytes.saturating_sub(self.bytes));
        self.account.remove(self.bytes.saturating_sub(bytes));
        self.bytes = bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.account.remove(self.bytes);
    }
}

/// State shared by all operators of a running query.
#[derive(Debug)]
pub struct QueryContext {
    /// The way to run.
    pub settings: Settings,
    /// Whether to stop.
    pub cancel: CancelToken,
    /// Temporary files.
    pub spill: SpillArea,
    memory: Arc<Account>,
    /// Bytes that cannot be put aside, by [`Share`].
    shares: [AtomicUsize; 3],
    arenas: Mutex<Vec<StringArena>>,
    kept: Mutex<Kept>,
}

/// Things that own strings which results may view; a mutex makes any of them shareable.
#[derive(Default)]
struct Kept(Vec<Box<dyn Any + Send>>);

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} kept", self.0.len())
    }
}

impl Default for QueryContext {
    fn default() -> Self {
        Self::new(Settings::default(), CancelToken::default())
    }
}

impl QueryContext {
    /// A context with the given settings.
    pub fn new(settings: Settings, cancel: CancelToken) -> Self {
        let spill = SpillArea::new(settings.spill.clone());
        let (memory, shares) = (Arc::default(), Default::default());
        Self { settings, cancel, spill, memory, shares, arenas: Mutex::default(), kept: Mutex::default() }
    }

    /// Whether operators put aside what does not fit.
    pub fn spills(&self) -> bool {
        self.settings.spill.enabled && self.settings.memory_limit != usize::MAX
    }

    /// Bytes that a worker's part of an operator may hold whatever the others do: with less, putting aside makes too little room
    /// for its cost. What operators hold can exceed the limit by this for each of them.
    pub fn working_memory(&self) -> usize {
        let part = self.settings.memory_limit / (16 * self.settings.threads.max(1));
        self.settings.spill.working_memory.unwrap_or(part.clamp(1 << 10, 4 << 20))
    }

    /// Bytes left.
    pub fn room(&self) -> usize {
        self.settings.memory_limit.saturating_sub(self.memory_used())
    }

    /// Accounts for `bytes` more if they, and `spare` after them, are within the limit; whether they are.
    pub fn try_reserve(&self, bytes: usize, spare: usize) -> bool {
        let used = self.memory.used.fetch_add(bytes, Ordering::Relaxed);
        let fits = used.saturating_add(bytes).saturating_add(spare) <= self.settings.memory_limit;
        if fits {
            self.memory.peak.fetch_max(used + bytes, Ordering::Relaxed);
        } else {
            self.memory.remove(bytes);
        }
        fits
    }

    /// Accounts for `bytes` until the result is dropped.
    pub fn hold(&self, bytes: usize) -> Reservation {
        self.memory.add(bytes);
        Reservation { account: self.memory.clone(), bytes }
    }

    /// As [`QueryContext::reserve`], of memory that cannot be put aside.
    pub fn reserve_share(&self, share: Share, operator: &'static str, bytes: usize) -> Result<()> {
        if !self.spills() {
            return self.reserve(operator, bytes);
        }
        let used = self.shares[share as usize].fetch_add(bytes, Ordering::Relaxed);
        let limit = self.settings.memory_limit;
        if used.saturating_add(bytes) > limit {
            self.shares[share as usize].fetch_sub(bytes, Ordering::Relaxed);
            return Err(ExecError::OutOfMemory { operator, requested: bytes, used, limit });
        }
        self.memory.add(bytes);
        Ok(())
    }

    /// Gives back `bytes` of [`QueryContext::reserve_share`].
    pub fn release_share(&self, share: Share, bytes: usize) {
        if self.spills() {
            self.shares[share as usize].fetch_sub(bytes, Ordering::Relaxed);
        }
        self.release(bytes);
    }

    /// As [`QueryContext::reserve`] where what does not fit is put aside at once or not at all: it may exceed the limit then.
    pub fn reserve_or_exceed(&self, operator: &'static str, bytes: usize) -> Result<()> {
        if !self.spills() {
            return self.reserve(operator, bytes);
        }
        self.memory.add(bytes);
        Ok(())
    }

    /// Accounts for `bytes` more memory held by `operator` until the query ends (or [`QueryContext::release`]).
    pub fn reserve(&self, operator: &'static str, bytes: usize) -> Result<()> {
        let used = self.memory.used.fetch_add(bytes, Ordering::Relaxed);
        let limit = self.settings.memory_limit;
        if used.saturating_add(bytes) > limit {
            self.memory.remove(bytes);
            return Err(ExecError::OutOfMemory { operator, requested: bytes, used, limit });
        }
        self.memory.peak.fetch_max(used + bytes, Ordering::Relaxed);
        Ok(())
    }

    /// A context for what is computed before a query runs: the values of dictionaries' entries and of constants.
    pub fn for_planning() -> Self {
        /// Bytes of strings that are worth it.
        const STRINGS: usize = 64 << 20;
        Self::new(Settings { memory_limit: STRINGS, ..Settings::default() }, CancelToken::default())
    }

    /// Accounts for `bytes` of strings that are kept until the query ends; [`QueryContext::check_strings`] follows.
    pub fn account_strings(&self, bytes: usize) {
        self.shares[Share::Strings as usize].fetch_add(bytes, Ordering::Relaxed);
        self.memory.add(bytes);
    }

    /// Gives back `bytes` of [`QueryContext::account_strings`].
    fn release_texts(&self, bytes: usize) {
        self.shares[Share::Strings as usize].fetch_sub(bytes, Ordering::Relaxed);
        self.memory.remove(bytes);
    }

    /// Accounts for `bytes` more memory where nothing can fail.
    pub fn account(&self, bytes: usize) {
        self.memory.add(bytes);
    }

    /// Whether what [`QueryContext::account_strings`] counted for `operator` is within the limit.
    pub fn check_strings(&self, operator: &'static str) -> Result<()> {
        let strings = self.shares[Share::Strings as usize].load(Ordering::Relaxed);
        let used = if self.spills() { strings } else { self.memory_used() };
        let limit = self.settings.memory_limit;
        match used > limit {
            true => Err(ExecError::OutOfMemory { operator, requested: used - limit, used, limit }),
            false => Ok(()),
        }
    }

    /// [`QueryContext::check_strings`] of texts that are computed, for which half of the machine's memory is the limit where there is none.
    fn check_texts(&self) -> Result<()> {
        static MOST: LazyLock<usize> = LazyLock::new(|| free_memory().map_or(usize::MAX, |free| free / 2));
        let (used, limit) = (self.shares[Share::Strings as usize].load(Ordering::Relaxed), self.settings.memory_limit);
        match limit == usize::MAX && used > *MOST {
            true => Err(ExecError::OutOfMemory { operator: TEXTS, requested: used - *MOST, used, limit: *MOST }),
            false => self.check_strings(TEXTS),
        }
    }

    /// The error of `operator`, which cannot do with what is left.
    pub fn out_of_memory(&self, operator: &'static str) -> ExecError {
        let (used, limit) = (self.memory_used(), self.settings.memory_limit);
        ExecError::OutOfMemory { operator, requested: limit, used, limit }
    }

    /// Gives back `bytes` of an earlier reservation.
    pub fn release(&self, bytes: usize) {
        self.memory.remove(bytes);
    }

    /// The most bytes accounted for at any time.
    pub fn memory_peak(&self) -> usize {
        self.memory.peak.load(Ordering::Relaxed)
    }

    /// Bytes accounted for at present.
    pub fn memory_used(&self) -> usize {
        self.memory.used.load(Ordering::Relaxed)
    }

    /// Keeps a worker's strings alive until the query ends.
    pub fn keep(&self, arena: StringArena) {
        self.arenas.lock().push(arena);
    }

    /// Keeps the owner of strings (an input batch, prepared expressions) alive until the query ends.
    pub fn keep_alive(&self, owner: impl Any + Send) {
        self.kept.lock().0.push(Box::new(owner));
    }
}

/// Bytes of strings that expressions make. Views stay valid while the arena lives: blocks are never moved or shrunk.
#[derive(Debug, Default)]
pub struct StringArena {
    blocks: Vec<Vec<u8>>,
}

/// Bytes of an arena's first block, and of most: those between are twice as large as the one before, those of long strings larger.
const BLOCKS: (usize, usize) = (4 << 10, 64 << 10);

impl StringArena {
    /// Copies `s` into the arena.
    pub fn alloc(&mut self, s: &str) -> StrView {
        if self.free() < s.len() {
            self.blocks.push(Vec::with_capacity(self.next_block(s.len())));
        }
        let Some(block) = self.blocks.last_mut() else { return StrView::default() };
        let start = block.len();
        block.extend_from_slice(s.as_bytes());
        // SAFETY: these are the bytes of `s`; the block has room for them, so it is not reallocated now or later.
        StrView::new(unsafe { std::str::from_utf8_unchecked(&block[start..]) })
    }

    /// Copies `s`, which is ASCII and for which there is room, with every letter changed by `change`.
    fn alloc_ascii(&mut self, s: &str, change: impl Fn(u8) -> u8) -> StrView {
        let Some(block) = self.blocks.last_mut() else { return StrView::default() };
        let start = block.len();
        // Bytes that are not ASCII would break UTF-8.
        block.extend(s.bytes().map(|byte| change(byte) & 0x7f));
        // SAFETY: the bytes are ASCII; the block has room for them, so it is not reallocated now or later.
        StrView::new(unsafe { std::str::from_utf8_unchecked(&block[start..]) })
    }

    /// Bytes for which there is room.
    fn free(&self) -> usize {
        self.blocks.last().map_or(0, |block| block.capacity() - block.len())
    }

    /// The size of a new block in which a string of `bytes` has room.
    fn next_block(&self, bytes: usize) -> usize {
        (BLOCKS.0 << self.blocks.len().min(8)).min(BLOCKS.1).max(bytes)
    }

    /// Forgets all strings; the bytes of the blocks that are freed.
    fn clear(&mut self) -> usize {
        let Some(mut last) = self.blocks.pop() else { return 0 };
        let freed = self.blocks.drain(..).map(|block| block.capacity()).sum();
        last.clear();
        self.blocks.push(last);
        freed
    }
}

/// A worker's own state for evaluating expressions; its strings pass to the query when it is dropped.
#[derive(Debug)]
pub struct Worker {
    /// The query.
    pub query: Arc<QueryContext>,
    /// Strings made by this worker.
    pub strings: StringArena,
}

impl Worker {
    /// State for one worker (or one operator of one worker).
    pub fn new(query: &Arc<QueryContext>) -> Self {
        Self { query: query.clone(), strings: StringArena::default() }
    }

    /// Copies `s`, to be kept until the query ends.
    ///
    /// # Errors
    /// [`ExecError::OutOfMemory`] where there is no memory for it: within the query's limit, or at all.
    pub fn text(&mut self, s: &str) -> Result<StrView> {
        self.make_room(s.len())?;
        Ok(self.strings.alloc(s))
    }

    /// [`Worker::text`] of `s`, which is ASCII, with every letter changed by `change`.
    ///
    /// # Errors
    /// Those of [`Worker::text`].
    pub fn ascii_text(&mut self, s: &str, change: impl Fn(u8) -> u8) -> Result<StrView> {
        self.make_room(s.len())?;
        Ok(self.strings.alloc_ascii(s, change))
    }

    fn make_room(&mut self, bytes: usize) -> Result<()> {
        if self.strings.free() >= bytes {
            return Ok(());
        }
        if bytes > MOST_BYTES {
            return Err(ExecError::Value(format!("a text of {bytes} bytes is too long: {MOST_BYTES} are the most")));
        }
        let size = self.strings.next_block(bytes);
        let mut block = Vec::new();
        self.query.account_strings(size);
        let checked = self.query.check_texts();
        if checked.is_err() || block.try_reserve_exact(size).is_err() {
            self.query.release_texts(size);
            return checked.and(Err(self.no_room(size)));
        }
        // What the allocator gives beyond that is used, too.
        self.query.account_strings(block.capacity() - size);
        self.strings.blocks.push(block);
        Ok(())
    }

    /// Room in `line`, a buffer, for `bytes` more.
    ///
    /// # Errors
    /// Those of [`Worker::text`]: what is made there is to be kept.
    pub fn room_in(&self, line: &mut String, bytes: usize) -> Result<()> {
        let size = line.len().saturating_add(bytes);
        match size <= self.query.settings.memory_limit && line.try_reserve(bytes).is_ok() {
            true => Ok(()),
            false => Err(self.no_room(bytes)),
        }
    }

    /// Adds `part` to `line`, a buffer.
    ///
    /// # Errors
    /// Those of [`Worker::room_in`], which is asked where the buffer is full.
    #[inline]
    pub fn push(&self, line: &mut String, part: &str) -> Result<()> {
        if line.capacity() - line.len() < part.len() {
            self.room_in(line, part.len())?;
        }
        line.push_str(part);
        Ok(())
    }

    fn no_room(&self, requested: usize) -> ExecError {
        let (used, limit) = (self.query.memory_used(), self.query.settings.memory_limit);
        ExecError::OutOfMemory { operator: TEXTS, requested, used, limit }
    }

    /// Forgets the strings that were made so far: nothing views them any more.
    pub fn forget_texts(&mut self) {
        let freed = self.strings.clear();
        self.query.release_texts(freed);
    }
}

/// Bytes of the longest string that a view can have.
pub(crate) const MOST_BYTES: usize = u32::MAX as usize;

/// The name of expressions in errors about memory.
const TEXTS: &str = "texts that are computed";

impl Drop for Worker {
    fn drop(&mut self) {
        self.query.keep(std::mem::take(&mut self.strings));
    }
}
