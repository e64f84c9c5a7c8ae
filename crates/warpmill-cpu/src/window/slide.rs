//! Aggregates over sliding frames without an inverse operation (Tangwongsan, Hirzel, Schneider, In-Order Sliding-Window Aggregation in Worst-Case
//! Constant Time: two stacks). Each row enters each stack once, whatever the frame size.

use super::frame::Bounds;

/// An associative operation on values at positions.
pub(super) trait Monoid {
    /// A value, or several values combined.
    type Item: Copy;
    /// The neutral element.
    fn identity(&self) -> Self::Item;
    /// The value at a position.
    fn item(&self, position: usize) -> Self::Item;
    /// Combines two values, of which `first` comes before `second`.
    fn combine(&self, first: Self::Item, second: Self::Item) -> Self::Item;
}

/// The aggregates of frames in `parts`.
pub(super) fn of_frames<M: Monoid>(monoid: &M, parts: &[Bounds]) -> Vec<M::Item> {
    let of_part = |part: &Bounds| {
        let mut slide = Slide::new(monoid);
        part.iter().map(|frame| slide.to(frame.start, frame.end)).collect::<Vec<_>>()
    };
    let add = |mut all: Vec<M::Item>, more: Vec<M::Item>| {
        all.iter_mut().zip(more).for_each(|(all, more)| *all = monoid.combine(*all, more));
        all
    };
    parts.iter().map(of_part).reduce(add).unwrap_or_default()
}

/// The aggregate of a frame whose ends only move forward.
pub(super) struct Slide<'a, M: Monoid> {
    monoid: &'a M,
    /// Aggregates of `start .. middle` for each start from the frame's first position, which is last.
    front: Vec<M::Item>,
    middle: usize,
    /// Aggregate of `middle .. end`.
    back: M::Item,
    end: usize,
}

impl<'a, M: Monoid> Slide<'a, M> {
    /// An empty frame.
    pub fn new(monoid: &'a M) -> Self {
        Self { monoid, front: vec![], middle: 0, back: monoid.identity(), end: 0 }
    }

    /// Moves the frame to `start .. end`. Returns its aggregate.
    pub fn to(&mut self, start: usize, end: usize) -> M::Item {
        if start >= self.end {
            self.front.clear();
            (self.middle, self.end, self.back) = (start, start, self.monoid.identity());
        }
        while self.end < end {
            self.back = self.monoid.combine(self.back, self.monoid.item(self.end));
            self.end += 1;
        }
        if start > self.middle {
            self.turn(start);
        } else {
            self.front.truncate(self.middle - start);
        }
        match self.front.last() {
            Some(&front) => self.monoid.combine(front, self.back),
            None => self.back,
        }
    }

    /// Makes all values from `start` the front.
    fn turn(&mut self, start: usize) {
        self.front.clear();
        let mut all = self.monoid.identity();
        for position in (start..self.end).rev() {
            all = self.monoid.combine(self.monoid.item(position), all);
            self.front.push(all);
        }
        (self.middle, self.back) = (self.end, self.monoid.identity());
    }
}
