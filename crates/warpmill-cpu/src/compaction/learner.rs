//! Learns a compaction threshold while a query runs: a multi-armed bandit with one arm per threshold (chunk compaction paper, section 4.2),
//! UCB1-tuned over moving averages, with the paper's constants. It deviates from the paper where the paper assumes runs of 20 million rows, over
//! which eight tries of each of nine arms are cheap whatever they cost:
//!
//! - **Only arms that differ are tried.** Thresholds with no chunk sizes between them copy the same chunks; the least stands for all ([`Sizes`]).
//! - **Hopeless arms are not tried**: arms that could not pay even if the operators behind took no time, and arms that copy more than an arm that
//!   took [`HOPELESS`] times as long as the best.
//! - **Exploration has a budget.** Each arm is tried once, and abandoned when it takes [`PATIENCE`] times as long as the best ([`Learner::limit`]);
//!   after that, an arm other than the best is used only while the total cost of exploration stays below [`BUDGET`] of the time. The first eight
//!   tries count toward this budget.
//! - **Rewards are relative.** The paper's confidence bounds suit rewards from 2 to 20 (latencies of 50 to 500 microseconds); here the best arm's
//!   reward counts as [`BEST`] whatever the latency.

/// The thresholds: chunks of at most this many rows are copied together.
pub const THRESHOLDS: [usize; 9] = [0, 32, 64, 128, 256, 384, 512, 768, 1024];

const ARMS: usize = THRESHOLDS.len();

/// Tries of each arm before the best is preferred, as far as the budget allows.
const FIRST_TRIES: u64 = 8;
/// Number of rewards in the moving average of an arm.
const WINDOW: usize = 16;
/// Chunks between two comparisons of the estimates.
const CHECK_CHUNKS: u64 = 1024;
/// Factor by which an estimate must have changed between two checks for learning to start over.
const ANOMALY: f64 = 2.0;
/// Largest share of the time that exploration may cost.
const BUDGET: f64 = 0.01;
/// The ratio to the best arm's time from which on an arm rules out all arms that copy more.
const HOPELESS: f64 = 1.5;
/// The ratio to the best arm's time at which a new arm is abandoned.
const PATIENCE: f64 = 2.0;
/// Upper bounds of the speed of gathering values from vectors: into a buffer that fits caches, and into a larger one.
const COPY_BYTES_PER_NANO: [f64; 2] = [16.0, 4.0];
/// Largest size of a buffer that fits caches, in bytes.
const CACHED_BUFFER: usize = 1 << 20;
/// The first arm for short rows: DuckDB's fixed threshold.
const START: usize = 3;
/// Largest size of a short row, in bytes.
const SHORT_ROW: usize = 512;
/// The best arm's mean reward in confidence bounds: the middle of the paper's range.
const BEST: f64 = 10.0;
/// Arms differ if at least this share of all chunks lies between their thresholds.
const DIFFERENCE: f64 = 1.0 / 16.0;

/// Estimates of one worker for one compaction operator: nothing is shared, so no locks.
#[derive(Debug)]
pub(super) struct Learner {
    arms: [Arm; ARMS],
    sizes: Sizes,
    row_bytes: usize,
    chunks: u64,
    snapshot: Option<[f64; ARMS]>,
    resets: u64,
    /// Nanoseconds of all episodes, and nanoseconds lost against the best arm.
    spent: f64,
    lost: f64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Arm {
    tries: u64,
    /// Rows per nanosecond.
    rewards: [f64; WINDOW],
}

/// Histogram of input chunks and their rows by the least arm that copies them; the last element counts chunks that no arm copies.
#[derive(Debug, Default, Clone)]
struct Sizes {
    chunks: [u64; ARMS + 1],
    rows: [u64; ARMS + 1],
}

impl Arm {
    fn window(&self) -> &[f64] {
        &self.rewards[..WINDOW.min(self.tries as usize)]
    }

    fn mean(&self) -> f64 {
        self.window().iter().sum::<f64>() / self.window().len() as f64
    }

    /// Upper confidence bound of UCB1-tuned after `n` tries of all arms, with rewards scaled by `scale`.
    fn bound(&self, n: f64, scale: f64) -> f64 {
        let (mean, tries) = (self.mean() * scale, self.tries as f64);
        let squares = self.window().iter().map(|reward| (reward * scale).powi(2)).sum::<f64>();
        let variance = squares / self.window().len() as f64 - mean * mean + (2.0 * n.ln() / tries).sqrt();
        mean + (n.ln() / tries * variance.min(0.25)).sqrt()
    }
}

impl Sizes {
    fn see(&mut self, rows: usize, full: usize) {
        let arm = THRESHOLDS.iter().position(|&threshold| rows <= threshold.min(full / 2)).unwrap_or(ARMS);
        self.chunks[arm] += 1;
        self.rows[arm] += rows as u64;
    }

    /// Halves the counts, so that old chunks count less.
    fn fade(&mut self) {
        self.chunks.iter_mut().chain(&mut self.rows).for_each(|count| *count /= 2);
    }

    /// Whether `arm` copies more than the next smaller one.
    fn differs(&self, arm: usize) -> bool {
        let all = self.chunks.iter().sum::<u64>();
        arm == 0 || self.chunks[arm] as f64 > all as f64 * DIFFERENCE
    }

    /// The share of rows that `arm` copies.
    fn copied(&self, arm: usize) -> f64 {
        if arm == 0 {
            return 0.0;
        }
        let all = self.rows.iter().sum::<u64>();
        self.rows[..=arm].iter().sum::<u64>() as f64 / all.max(1) as f64
    }
}

impl Learner {
    /// A learner for rows of `row_bytes` bytes.
    pub fn new(row_bytes: usize) -> Self {
        Self {
            arms: Default::default(),
            sizes: Sizes::default(),
            row_bytes,
            chunks: 0,
            snapshot: None,
            resets: 0,
            spent: 0.0,
            lost: 0.0,
        }
    }

    /// Number of times that learning started over.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// Whether `arm` has had fewer than `FIRST_TRIES` tries.
    pub fn is_new(&self, arm: usize) -> bool {
        self.arms[arm].tries < FIRST_TRIES
    }

    /// Records an input chunk of `rows` rows; `full` is the number of rows of a full chunk.
    pub fn see(&mut self, rows: usize, full: usize) {
        self.sizes.see(rows, full);
    }

    /// The arm to use next.
    pub fn select(&self) -> usize {
        let Some(best) = self.best() else { return self.first() };
        if let Some(arm) = (0..ARMS).find(|&arm| self.is_worth_a_try(arm, best)) {
            return arm;
        }
        let tried = || (0..ARMS).filter(|&arm| self.arms[arm].tries > 0 && self.sizes.differs(arm));
        let fewest = tried().filter(|&arm| self.affords(arm, best)).min_by_key(|&arm| self.arms[arm].tries);
        if let Some(arm) = fewest.filter(|&arm| self.is_new(arm)) {
            return arm;
        }
        let n = self.arms.iter().map(|arm| arm.tries).sum::<u64>() as f64;
        let scale = BEST / self.arms[best].mean();
        let bound = |arm: usize| self.arms[arm].bound(n, scale);
        let arm = tried().max_by(|&a, &b| bound(a).total_cmp(&bound(b))).unwrap_or(best);
        if self.affords(arm, best) { arm } else { best }
    }

    /// Nanoseconds after which an episode of `arm` that has not emitted a full chunk is abandoned.
    pub fn limit(&self, arm: usize) -> f64 {
        let best = self.best().filter(|_| self.is_new(arm));
        best.map_or(f64::INFINITY, |best| PATIENCE * crate::CHUNK_ROWS as f64 / self.arms[best].mean())
    }

    /// The first arm: nothing to compare with is known, so it must not be very wrong.
    fn first(&self) -> usize {
        let start = if self.row_bytes <= SHORT_ROW { START } else { 0 };
        (0..=start).rev().find(|&arm| self.sizes.differs(arm)).unwrap_or(0)
    }

    /// Lower bound of the time to copy a row, in nanoseconds.
    fn copy_nanos(&self) -> f64 {
        let cached = self.row_bytes * crate::CHUNK_ROWS <= CACHED_BUFFER;
        self.row_bytes as f64 / COPY_BYTES_PER_NANO[usize::from(!cached)]
    }

    /// The arm with the greatest mean reward.
    fn best(&self) -> Option<usize> {
        let tried = (0..ARMS).filter(|&arm| self.arms[arm].tries > 0);
        tried.max_by(|&a, &b| self.arms[a].mean().total_cmp(&self.arms[b].mean()))
    }

    /// Whether `arm` has not been tried yet and may beat `best`.
    fn is_worth_a_try(&self, arm: usize, best: usize) -> bool {
        if self.arms[arm].tries > 0 || !self.sizes.differs(arm) {
            return false;
        }
        // The first round is free: without it nothing is known. Rounds after learning started over are not.
        let free = self.resets == 0 || self.lost <= self.spent * BUDGET;
        let reward = self.arms[best].mean();
        let too_slow = self.sizes.copied(arm) * self.copy_nanos() * reward > 1.0;
        let hopeless = |less: &Arm| less.tries > 0 && less.mean() * HOPELESS < reward;
        let worse_below = arm > 0 && self.arms[1..arm].iter().any(hopeless);
        free && !too_slow && !worse_below
    }

    /// Whether another try of `arm` keeps exploration within its budget.
    fn affords(&self, arm: usize, best: usize) -> bool {
        let nanos = |arm: usize| crate::CHUNK_ROWS as f64 / self.arms[arm].mean();
        arm == best || self.lost + nanos(arm) - nanos(best) <= self.spent * BUDGET
    }

    /// Records that `arm` emitted `rows` rows in `nanos` while `chunks` chunks came in. The reward is proportional to the paper's, the reciprocal of
    /// a full chunk's latency.
    pub fn update(&mut self, arm: usize, rows: usize, nanos: u64, chunks: u64) {
        let nanos = nanos.max(1) as f64;
        self.spent += nanos;
        if let Some(best) = self.best().filter(|&best| best != arm) {
            self.lost += (nanos - rows as f64 / self.arms[best].mean()).max(0.0);
        }
        let own = &mut self.arms[arm];
        own.rewards[own.tries as usize % WINDOW] = rows.max(1) as f64 / nanos;
        own.tries += 1;
        self.chunks += chunks;
        if self.chunks >= CHECK_CHUNKS && !self.is_new(self.best().unwrap_or(arm)) {
            self.chunks = 0;
            self.check();
        }
    }

    /// Compares the estimates with the last check's, except for arms with few tries.
    fn check(&mut self) {
        let means = self.arms.map(|arm| if arm.tries < FIRST_TRIES { 0.0 } else { arm.mean() });
        let moved = |before: &[f64; ARMS]| {
            let known = before.iter().zip(means).filter(|(before, now)| **before > 0.0 && *now > 0.0);
            known.into_iter().any(|(before, now)| now / before >= ANOMALY || before / now >= ANOMALY)
        };
        if self.snapshot.as_ref().is_some_and(moved) {
            (self.arms, self.snapshot) = (Default::default(), None);
            self.resets += 1;
        } else {
            self.snapshot = Some(means);
        }
        self.sizes.fade();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `episodes` episodes with chunks of `sizes`, in which arm `i` takes `nanos(i)` for 2048 rows. Returns how often each arm was chosen, and
    /// the total time.
    fn run(
        learner: &mut Learner,
        episodes: usize,
        sizes: &[usize],
        nanos: impl Fn(usize) -> u64,
    ) -> ([usize; ARMS], u64) {
        let (mut chosen, mut total) = ([0; ARMS], 0);
        for _ in 0..episodes {
            sizes.iter().for_each(|&rows| learner.see(rows, 2048));
            let arm = learner.select();
            chosen[arm] += 1;
            total += nanos(arm);
            learner.update(arm, 2048, nanos(arm), sizes.len() as u64);
        }
        (chosen, total)
    }

    /// A chunk of each size that makes an arm differ.
    const ALL_SIZES: [usize; ARMS] = [2000, 32, 64, 128, 256, 384, 512, 768, 1024];

    #[test]
    fn tries_the_arms_that_differ() {
        let (chosen, _) = run(&mut Learner::new(16), 9 * 8, &ALL_SIZES, |_| 100_000);
        assert_eq!(chosen, [8; 9]);
        let (chosen, _) = run(&mut Learner::new(16), 16, &[250, 256, 200], |_| 100_000);
        assert_eq!(chosen, [8, 0, 0, 0, 8, 0, 0, 0, 0]);
        let (chosen, _) = run(&mut Learner::new(16), 16, &[1025, 2048], |_| 100_000);
        assert_eq!(chosen[0], 16, "no arm copies anything");
    }

    #[test]
    fn prefers_the_fastest_arm() {
        let mut learner = Learner::new(16);
        let (chosen, _) = run(&mut learner, 2000, &ALL_SIZES, |arm| if arm == 3 { 100_000 } else { 120_000 });
        assert!(chosen[3] > 1500, "{chosen:?}");
    }

    #[test]
    fn exploring_costs_little() {
        for (slow, copies) in [(10, 200), (40, 2000), (2, 20)] {
            let nanos = |arm: usize| if arm == 0 { 50_000 } else { 50_000 * slow + arm as u64 };
            let (chosen, total) = run(&mut Learner::new(copies), 2000, &ALL_SIZES, nanos);
            assert!(total < 2000 * 52_000 + 50_000 * slow, "{chosen:?} took {total}");
        }
        // Copying 2048 rows of 2000 bytes alone takes longer than the whole episode without copying.
        let (chosen, _) = run(&mut Learner::new(2000), 100, &[256], |_| 50_000);
        assert_eq!(chosen[0], 100);
    }

    #[test]
    fn a_bad_first_impression_is_corrected() {
        let mut learner = Learner::new(16);
        let slow_once = std::cell::Cell::new(true);
        let nanos = |arm: usize| match arm {
            4 if slow_once.replace(false) => 1_000_000,
            4 => 100_000,
            _ => 150_000,
        };
        let (chosen, _) = run(&mut learner, 2000, &[200], nanos);
        assert!(chosen[4] > 1500, "{chosen:?}");
    }

    #[test]
    fn learns_anew_when_the_data_changes() {
        let mut learner = Learner::new(16);
        run(&mut learner, 1000, &ALL_SIZES, |arm| if arm == 3 { 100_000 } else { 120_000 });
        assert_eq!(learner.resets, 0);
        let nanos = |arm| if arm == 7 { 1_000_000 } else { 1_300_000 };
        let (chosen, _) = run(&mut learner, 4000, &ALL_SIZES, nanos);
        assert!(learner.resets > 0);
        assert!(chosen[7] > 2000, "{chosen:?}");
    }
}
