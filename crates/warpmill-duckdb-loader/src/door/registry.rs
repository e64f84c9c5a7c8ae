//! The state between the functions of one statement: collected rows, results, and the outcome of the last query.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::engine;

/// Unclaimed rows belong to a statement that failed midway: they are dropped after this time.
const UNCLAIMED: Duration = Duration::from_secs(3600);

/// Rows of one table, freed unless they are handed over.
pub struct Rows(*mut c_void);

// SAFETY: the engine's rows are used by one thread at a time, whichever it is.
unsafe impl Send for Rows {}

impl Rows {
    /// SAFETY: rows of the engine with no other owner, or null.
    pub unsafe fn new(rows: *mut c_void) -> Self {
        Self(rows)
    }

    /// Hands them over.
    pub fn into_raw(mut self) -> *mut c_void {
        std::mem::replace(&mut self.0, std::ptr::null_mut())
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: they are ours.
            unsafe { (engine().rows_free)(self.0) };
        }
    }
}

/// A result.
pub struct Answer(pub *mut c_void);

// SAFETY: results are only read.
unsafe impl Send for Answer {}
// SAFETY: see above.
unsafe impl Sync for Answer {}

impl Drop for Answer {
    fn drop(&mut self) {
        // SAFETY: it is ours.
        unsafe { (engine().answer_free)(self.0) };
    }
}

/// The outcome of the last query through the door.
#[derive(Clone, Default)]
pub struct Outcome {
    pub accelerated: bool,
    pub reason: Option<String>,
    pub profile: Option<String>,
}

#[derive(Default)]
struct Registry {
    rows: HashMap<u64, (Rows, Instant)>,
    answers: HashMap<u64, Arc<Answer>>,
    /// The results of each statement that runs.
    scopes: HashMap<u64, Vec<u64>>,
    last: Outcome,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Counters since the extension was loaded.
#[derive(Default)]
pub struct Counters {
    pub accelerated: AtomicU64,
    pub left: AtomicU64,
    pub failed: AtomicU64,
    pub scanned: AtomicU64,
}

pub static COUNTERS: LazyLock<Counters> = LazyLock::new(Counters::default);

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

fn next() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Keeps rows until they are taken.
pub fn put_rows(rows: Rows) -> u64 {
    let key = next();
    let mut registry = registry();
    registry.rows.retain(|_, (_, since)| since.elapsed() < UNCLAIMED);
    registry.rows.insert(key, (rows, Instant::now()));
    key
}

pub fn take_rows(key: u64) -> Option<Rows> {
    registry().rows.remove(&key).map(|(rows, _)| rows)
}

/// Begins a statement: its results live until [`close_scope`].
pub fn open_scope() -> u64 {
    let scope = next();
    registry().scopes.insert(scope, vec![]);
    scope
}

pub fn close_scope(scope: u64) {
    let mut registry = registry();
    let answers = registry.scopes.remove(&scope).unwrap_or_default();
    let gone: Vec<_> = answers.iter().filter_map(|answer| registry.answers.remove(answer)).collect();
    drop(registry);
    drop(gone);
}

/// Keeps a result while its statement runs; `None`: it has ended.
pub fn put_answer(scope: u64, answer: Answer) -> Option<u64> {
    let key = next();
    let mut registry = registry();
    registry.scopes.get_mut(&scope)?.push(key);
    registry.answers.insert(key, Arc::new(answer));
    Some(key)
}

pub fn answer(key: u64) -> Option<Arc<Answer>> {
    registry().answers.get(&key).cloned()
}

pub fn report(outcome: Outcome) {
    registry().last = outcome;
}

pub fn last() -> Outcome {
    registry().last.clone()
}
