//! The point after which a statement that writes is not cancelled any more.

use std::sync::Arc;

use parking_lot::Mutex;

/// Decides between the commit of a statement and its cancellation: whichever comes first. Clones are the same gate.
#[derive(Debug, Clone, Default)]
pub struct CommitGate(Arc<Mutex<Stage>>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// Both are possible.
    #[default]
    Open,
    /// Nothing is committed any more.
    Cancelled,
    /// What was written gets, or has got, its name. `late`: somebody wanted to cancel since.
    Committed { late: bool },
}

tokio::task_local! {
    static SHARED: CommitGate;
}

impl CommitGate {
    /// That of [`CommitGate::scope`] around the caller, or a new one.
    pub(crate) fn current() -> Self {
        SHARED.try_with(Self::clone).unwrap_or_default()
    }

    /// Lets all statements that `work` starts on its own task have this gate, one after the other.
    pub async fn scope<F: Future>(&self, work: F) -> F::Output {
        SHARED.scope(self.clone(), work).await
    }

    /// Lets all statements that `work` starts on this thread have this gate, one after the other.
    pub fn scope_sync<T>(&self, work: impl FnOnce() -> T) -> T {
        SHARED.sync_scope(self.clone(), work)
    }

    /// Whether what was written may be committed. If so, it is too late to cancel.
    pub fn pass(&self) -> bool {
        let mut stage = self.0.lock();
        if *stage == Stage::Open {
            *stage = Stage::Committed { late: false };
        }
        *stage != Stage::Cancelled
    }

    /// Keeps what is not committed yet from being committed; `false`: it is too late.
    pub fn cancel(&self) -> bool {
        let mut stage = self.0.lock();
        *stage = match *stage {
            Stage::Open | Stage::Cancelled => Stage::Cancelled,
            Stage::Committed { .. } => Stage::Committed { late: true },
        };
        *stage == Stage::Cancelled
    }

    /// Cancels if `look` says so, by an error, which this gives back. Nobody passes while it looks; where somebody has, it is not asked.
    pub fn cancel_if<E>(&self, look: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        // What looks may come here again: it is not asked twice.
        let Some(mut stage) = self.0.try_lock() else { return Ok(()) };
        if matches!(*stage, Stage::Committed { .. }) {
            return Ok(());
        }
        look().inspect_err(|_| *stage = Stage::Cancelled)
    }

    /// Makes the gate that of another statement, or of another attempt, and says whether that may run: whoever came late to cancel the
    /// last one cancels this one.
    pub(crate) fn reopen(&self) -> bool {
        let mut stage = self.0.lock();
        *stage = match *stage {
            Stage::Open | Stage::Committed { late: false } => Stage::Open,
            Stage::Cancelled | Stage::Committed { late: true } => Stage::Cancelled,
        };
        *stage == Stage::Open
    }
}

/// Cancels when it is dropped before [`GivenUp::done`]: a future that nobody waits for any more commits nothing.
pub(crate) struct GivenUp(Option<CommitGate>);

impl GivenUp {
    pub(crate) fn cancels(gate: &CommitGate) -> Self {
        Self(Some(gate.clone()))
    }

    /// There is an outcome.
    pub(crate) fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        if let Some(gate) = &self.0 {
            gate.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whichever_comes_first_counts() {
        let gate = CommitGate::default();
        assert!(gate.pass() && gate.pass() && !gate.cancel());
        assert_eq!(gate.cancel_if(|| Err("not asked")), Ok(()));
        assert!(!gate.reopen() && !gate.pass() && gate.cancel());
        let gate = CommitGate::default();
        assert_eq!(gate.cancel_if(|| gate.cancel_if(|| Err("not asked"))), Ok(()));
        assert_eq!(gate.cancel_if(|| Err("stop")), Err("stop"));
        assert!(!gate.pass());
        let gate = CommitGate::default();
        GivenUp::cancels(&gate).done();
        assert!(gate.pass() && gate.reopen());
        drop(GivenUp::cancels(&gate));
        assert!(!gate.pass());
    }
}
