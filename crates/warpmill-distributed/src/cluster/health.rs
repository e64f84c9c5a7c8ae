//! Tracks which workers are available.
//!
//! All are checked before each query is planned. A worker that stops answering fails the query that finds out, once; later queries avoid it, and
//! check it again at intervals.

use std::time::{Duration, Instant};

use futures::future::join_all;
use parking_lot::Mutex;
use url::Url;
use warpmill::{Error, Result};

use crate::link::{Channels, version};

/// The interval at which an unavailable worker is checked again.
const AGAIN: Duration = Duration::from_secs(3);
/// The time for such a worker to answer.
const SECOND_CHANCE: Duration = Duration::from_millis(500);

/// State of the workers of a cluster.
pub(super) struct Health {
    workers: Vec<Known>,
}

struct Known {
    name: String,
    url: Url,
    /// The time of the last failure to answer, if a query has failed because of it.
    lost: Mutex<Option<Instant>>,
}

/// The answer of a worker.
enum Said {
    Here,
    /// No answer for some time.
    Nothing,
    Failed(Error),
}

impl Health {
    pub fn new(workers: Vec<(String, Url)>) -> Self {
        let known = |(name, url)| Known { name, url, lost: Mutex::default() };
        Self { workers: workers.into_iter().map(known).collect() }
    }

    /// The available workers, in the order of the settings.
    ///
    /// # Errors
    /// [`Error::Worker`] for one that has just become unavailable, or has another version or cluster; and if none is available.
    pub async fn present(&self, channels: &Channels, timeout: Duration) -> Result<Vec<(String, Url)>> {
        let said = join_all(self.workers.iter().map(|worker| worker.ask(channels, timeout))).await;
        let mut present = vec![];
        let mut failed = None;
        for (worker, said) in self.workers.iter().zip(said) {
            match said {
                Said::Here => present.push((worker.name.clone(), worker.url.clone())),
                Said::Nothing => {}
                Said::Failed(error) => failed = failed.or(Some(error)),
            }
        }
        match (failed, self.workers.first()) {
            (Some(error), _) => Err(error),
            (None, Some(first)) if present.is_empty() => {
                let reason = match self.workers.len() {
                    1 => "it does not answer".to_string(),
                    count => format!("it does not answer, and neither do the others of {count}"),
                };
                Err(Error::Worker { worker: first.name.clone(), reason })
            }
            _ => Ok(present),
        }
    }

    /// Records that a query has failed because of `worker`.
    pub fn lost(&self, worker: &str) {
        if let Some(worker) = self.workers.iter().find(|known| known.name == worker) {
            *worker.lost.lock() = Some(Instant::now());
        }
    }
}

impl Known {
    async fn ask(&self, channels: &Channels, timeout: Duration) -> Said {
        let lost = *self.lost.lock();
        if lost.is_some_and(|at| at.elapsed() < AGAIN) {
            return Said::Nothing;
        }
        let time = if lost.is_some() { timeout.min(SECOND_CHANCE) } else { timeout };
        match channels.ask(&self.url, time).await {
            Ok(other) if other != version() => Said::Failed(Error::Worker {
                worker: self.name.clone(),
                reason: format!(
                    "it runs Warpmill {other}, and this process {}: all processes have to run the same version",
                    version()
                ),
            }),
            Ok(_) => {
                *self.lost.lock() = None;
                Said::Here
            }
            Err(error) => {
                *self.lost.lock() = Some(Instant::now());
                if lost.is_some() { Said::Nothing } else { Said::Failed(error) }
            }
        }
    }
}
