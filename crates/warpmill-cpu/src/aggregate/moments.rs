//! Count, mean and sum of squared deviations, updated and merged in a numerically stable way.

/// The state of variance and standard deviation (Welford 1962; merge: Chan, Golub, LeVeque 1979).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// Adds a value.
    #[inline(always)]
    pub fn add(&mut self, value: f64) {
        self.count += 1.0;
        let delta = value - self.mean;
        self.mean += delta / self.count;
        self.squares += delta * (value - self.mean);
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Moments) {
        if self.count == 0.0 || other.count == 0.0 {
            if self.count == 0.0 {
                *self = *other;
            }
            return;
        }
        let count = self.count + other.count;
        let delta = other.mean - self.mean;
        self.mean += delta * (other.count / count);
        self.squares += other.squares + delta * delta * (self.count * other.count / count);
        self.count = count;
    }

    /// Count, mean and sum of squared deviations.
    pub fn parts(&self) -> [f64; 3] {
        [self.count, self.mean, self.squares]
    }

    /// The inverse of [`Moments::parts`].
    pub fn of_parts([count, mean, squares]: [f64; 3]) -> Self {
        Self { count, mean, squares }
    }

    /// The variance; `None` where it is undefined (no values; a single value for the sample variance).
    pub fn variance(&self, sample: bool) -> Option<f64> {
        let n = if sample { self.count - 1.0 } else { self.count };
        (n > 0.0).then(|| self.squares / n)
    }
}
