//! Queues of rows whose total is known.

/// A value computed from rows one after the other.
pub(super) trait Total: Copy + Default {
    type Row;

    fn add(&mut self, row: &Self::Row);

    /// Adds the rows of `later`.
    fn merge(&mut self, later: &Self);
}

/// A queue of two stacks. A row moves from one to the other once, so that rows are added two times, and never subtracted.
#[derive(Debug)]
pub(super) struct Queue<T: Total> {
    /// For each of the oldest rows, from the last to the first: the total from it to the end of this stack.
    front: Vec<T>,
    back: Vec<T::Row>,
    back_total: T,
}

impl<T: Total> Default for Queue<T> {
    fn default() -> Self {
        Self { front: vec![], back: vec![], back_total: T::default() }
    }
}

impl<T: Total> Queue<T> {
    pub(super) fn push(&mut self, row: T::Row) {
        self.back_total.add(&row);
        self.back.push(row);
    }

    /// Removes the oldest row.
    pub(super) fn pop(&mut self) {
        if self.front.is_empty() {
            let mut total = T::default();
            self.front.extend(self.back.drain(..).rev().map(|row| {
                total.add(&row);
                total
            }));
            self.back_total = T::default();
        }
        self.front.pop();
    }

    pub(super) fn total(&self) -> T {
        let mut total = self.front.last().copied().unwrap_or_default();
        total.merge(&self.back_total);
        total
    }

    pub(super) fn size(&self) -> usize {
        self.front.capacity() * size_of::<T>() + self.back.capacity() * size_of::<T::Row>()
    }
}
