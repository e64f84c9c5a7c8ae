//! What policies rank by.

/// The uses of a segment, or of a column.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct History {
    /// The query that used it last, by its number; 0: none.
    pub last: u64,
    /// The one before that.
    pub before: u64,
    /// Queries that used it; aged.
    pub uses: f64,
    /// The time that copies of it would have saved, in seconds; aged.
    pub weight: f64,
}

impl History {
    /// Notes a use by query `query`, in which a copy would save `weight` seconds.
    pub fn note(&mut self, query: u64, weight: f64) {
        if self.last != query {
            (self.before, self.last) = (self.last, query);
            self.uses += 1.0;
        }
        self.weight += weight;
    }

    /// Lets counters fade: a new epoch begins (section 4.4.2.4).
    pub fn age(&mut self) {
        self.uses *= AGING;
        self.weight *= AGING;
    }
}

/// The factor of counters at each replacement.
pub(crate) const AGING: f64 = 0.5;
