//! Usage histories, by which policies rank segments and columns.

/// The usage history of a segment or a column.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct History {
    /// Number of the last query that used it; 0: none.
    pub last: u64,
    /// Number of the query that used it before that.
    pub before: u64,
    /// Number of queries that used it; aged.
    pub uses: f64,
    /// Seconds that copies would have saved; aged.
    pub weight: f64,
}

impl History {
    /// Records a use by query `query`, in which a copy would save `weight` seconds.
    pub fn note(&mut self, query: u64, weight: f64) {
        if self.last != query {
            (self.before, self.last) = (self.last, query);
            self.uses += 1.0;
        }
        self.weight += weight;
    }

    /// Ages the counters: a new epoch begins (section 4.4.2.4).
    pub fn age(&mut self) {
        self.uses *= AGING;
        self.weight *= AGING;
    }
}

/// Factor of the counters at each replacement.
pub(crate) const AGING: f64 = 0.5;
