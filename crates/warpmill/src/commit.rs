//! The point after which a statement that writes is not cancelled any more.

use std::sync::Arc;

use parking_lot::Mutex;

/// Decides between the commit of a statement and its cancellation: whichever comes first. Clones share the gate.
#[derive(Debug, Clone, Default)]
pub struct CommitGate(Arc<Mutex<Stage>>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// Both are possible.
    #[default]
    Open,
    /// Cancelled: nothing more is committed.
    Cancelled,
    /// Committed or committing. `late`: a cancellation was requested since.
    Committed { late: bool },
}

tokio::task_local! {
    static SHARED: CommitGate;
}

impl CommitGate {
    /// The gate of [`CommitGate::scope`] around the caller, or a new one.
    pub(crate) fn current() -> Self {
        SHARED.try_with(Self::clone).unwrap_or_default()
    }

    /// Makes all statements that `work` starts on its own task use this gate, one after the other.
    pub async fn scope<F: Future>(&self, work: F) -> F::Output {
        SHARED.scope(self.clone(), work).await
    }

    /// Makes all statements that `work` starts on this thread use this gate, one after the other.
    pub fn scope_sync<T>(&self, work: impl FnOnce() -> T) -> T {
        SHARED.sync_scope(self.clone(), work)
    }

    /// Whether a write may be committed. If so, it is too late to cancel.
    pub fn pass(&self) -> bool {
        let mut stage = self.0.lock();
        if *stage == Stage::Open {
            *stage = Stage::Committed { late: false };
        }
        *stage != Stage::Cancelled
    }

    /// Prevents further commits; returns false if it is too late.
    pub fn cancel(&self) -> bool {
        let mut stage = self.0.lock();
        *stage = match *stage {
            Stage::Open | Stage::Cancelled => Stage::Cancelled,
            Stage::Committed { .. } => Stage::Committed { late: true },
        };
        *stage == Stage::Cancelled
    }

    /// Cancels if `look` returns an error, which is passed on. No commit passes the gate during the call; if one has passed, `look` is not called.
    pub fn cancel_if<E>(&self, look: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        // `look` may call this again: it is not called twice.
        let Some(mut stage) = self.0.try_lock() else { return Ok(()) };
        if matches!(*stage, Stage::Committed { .. }) {
            return Ok(());
        }
        look().inspect_err(|_| *stage = Stage::Cancelled)
    }

    /// Reopens the gate for another statement, or another attempt. Returns whether it may run: a cancellation that was too late for the last one
    /// cancels this one.
    pub(crate) fn reopen(&self) -> bool {
        let mut stage = self.0.lock();
        *stage = match *stage {
            Stage::Open | Stage::Committed { late: false } => Stage::Open,
            Stage::Cancelled | Stage::Committed { late: true } => Stage::Cancelled,
        };
        *stage == Stage::Open
    }
}

/// Cancels when dropped before [`GivenUp::done`]: a dropped future commits nothing.
pub(crate) struct GivenUp(Option<CommitGate>);

impl GivenUp {
    pub(crate) fn cancels(gate: &CommitGate) -> Self {
        Self(Some(gate.clone()))
    }

    /// Records that there is an outcome.
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
