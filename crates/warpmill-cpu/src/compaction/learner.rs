//! Learns a compaction threshold while a query runs: a multi-armed bandit with one arm per threshold (chunk compaction
//! paper, section 4.2).

/// The thresholds to choose from: chunks of at most so many rows are copied together.
pub const THRESHOLDS: [usize; 9] = [0, 32, 64, 128, 256, 384, 512, 768, 1024];

/// Each arm is tried so often before any is preferred.
const FIRST_TRIES: u64 = 8;
/// An arm's estimate is the mean of so many rewards.
const WINDOW: usize = 16;
/// Chunks between two comparisons of the estimates.
const CHECK_CHUNKS: u64 = 1024;
/// The factor by which an estimate must have moved between them for everything to be learned anew.
const ANOMALY: f64 = 2.0;

/// One compaction operator's estimates, of one worker: nothing is shared, so nothing is locked.
#[derive(Debug, Default)]
pub(super) struct Learner {
    arms: [Arm; THRESHOLDS.len()],
    chunks: u64,
    snapshot: Option<[f64; THRESHOLDS.len()]>,
    resets: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Arm {
    tries: u64,
    rewards: [f64; WINDOW],
}

impl Arm {
    fn window(&self) -> &[f64] {
        &self.rewards[..WINDOW.min(self.tries as usize)]
    }

    fn mean(&self) -> f64 {
        self.window().iter().sum::<f64>() / self.window().len() as f64
    }

    /// The upper confidence bound of UCB1-tuned after `n` tries of all arms.
    fn bound(&self, n: f64) -> f64 {
        let (mean, tries) = (self.mean(), self.tries as f64);
        let squares = self.window().iter().map(|reward| reward * reward).sum::<f64>() / self.window().len() as f64;
        let variance = squares - mean * mean + (2.0 * n.ln() / tries).sqrt();
        mean + (n.ln() / tries * variance.min(0.25)).sqrt()
    }
}

impl Learner {
    /// How often everything was learned anew.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// The arm to use next.
    pub fn select(&self) -> usize {
        let arms = || self.arms.iter().enumerate();
        let (least, arm) = arms().min_by_key(|(_, arm)| arm.tries).expect("there are arms");
        if arm.tries < FIRST_TRIES {
            return least;
        }
        let n = self.arms.iter().map(|arm| arm.tries).sum::<u64>() as f64;
        arms().max_by(|(_, a), (_, b)| a.bound(n).total_cmp(&b.bound(n))).expect("there are arms").0
    }

    /// Notes that `arm` passed on `rows` rows in `nanos` while `chunks` chunks came in. The reward is the paper's, the
    /// reciprocal of a full chunk's latency in milliseconds, so that bounds and rewards are of like size.
    pub fn update(&mut self, arm: usize, rows: usize, nanos: u64, chunks: u64) {
        let reward = rows as f64 / nanos as f64 * (1e6 / crate::CHUNK_ROWS as f64);
        let own = &mut self.arms[arm];
        own.rewards[own.tries as usize % WINDOW] = reward;
        own.tries += 1;
        self.chunks += chunks;
        if self.chunks >= CHECK_CHUNKS && self.arms.iter().all(|arm| arm.tries >= FIRST_TRIES) {
            self.chunks = 0;
            self.check();
        }
    }

    fn check(&mut self) {
        let means = self.arms.map(|arm| arm.mean());
        let moved = |before: &[f64; THRESHOLDS.len()]| {
            before.iter().zip(means).any(|(before, now)| now / before >= ANOMALY || before / now >= ANOMALY)
        };
        if self.snapshot.as_ref().is_some_and(moved) {
            *self = Self { resets: self.resets + 1, ..Self::default() };
        } else {
            self.snapshot = Some(means);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `episodes` episodes in which arm `i` takes `nanos(i)` for 2048 rows; how often each was chosen.
    fn run(learner: &mut Learner, episodes: usize, nanos: impl Fn(usize) -> u64) -> [usize; THRESHOLDS.len()] {
        let mut chosen = [0; THRESHOLDS.len()];
        for _ in 0..episodes {
            let arm = learner.select();
            chosen[arm] += 1;
            learner.update(arm, 2048, nanos(arm), 10);
        }
        chosen
    }

    #[test]
    fn tries_every_arm_first() {
        let chosen = run(&mut Learner::default(), 9 * 8, |_| 100_000);
        assert_eq!(chosen, [8; 9]);
    }

    #[test]
    fn prefers_the_fastest_arm() {
        let mut learner = Learner::default();
        let chosen = run(&mut learner, 2000, |arm| if arm == 3 { 100_000 } else { 150_000 });
        assert!(chosen[3] > 1500, "{chosen:?}");
    }

    #[test]
    fn learns_anew_when_the_data_changes() {
        let mut learner = Learner::default();
        run(&mut learner, 1000, |arm| if arm == 3 { 100_000 } else { 150_000 });
        assert_eq!(learner.resets, 0);
        let chosen = run(&mut learner, 2000, |arm| if arm == 7 { 1_000_000 } else { 2_000_000 });
        assert!(learner.resets > 0);
        assert!(chosen[7] > 1000, "{chosen:?}");
    }
}
