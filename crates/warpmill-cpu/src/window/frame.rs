//! Frames: the range of positions over which a function is computed for each row. Both ends never move back within a partition.

use std::ops::Range;

use warpmill_ir::{Exclude, Frame, FrameBound, FrameUnits, Scalar};

use super::order::{Order, Piece};
use crate::sort::normalize::{ordered_f32, ordered_f64};
use crate::vector::{Data, Vector};

/// Frames as positions, row by row.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// First positions.
    pub start: Vec<u32>,
    /// Ends (exclusive); never before the start.
    pub end: Vec<u32>,
}

impl Bounds {
    /// The frame of each row.
    pub fn iter(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.start.iter().zip(&self.end).map(|(&start, &end)| start as usize..end as usize)
    }

    /// The frame of the row with this number.
    pub fn of(&self, row: usize) -> Range<usize> {
        self.start[row] as usize..self.end[row] as usize
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// The frames that `ranges` has, row by row.
    fn collect(ranges: impl Iterator<Item = Range<usize>>) -> Self {
        let (start, end) = ranges.map(|range| (range.start as u32, range.end as u32)).unzip();
        Self { start, end }
    }
}

/// The frames of a call.
pub(super) struct Frames<'a> {
    pub order: &'a Order,
    pub frame: &'a Frame,
    /// The only order key, by position, and whether it descends (for RANGE frames).
    pub key: Option<(&'a Vector, bool)>,
}

/// An end of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Start,
    /// The position after the last row.
    After,
}

impl Frames<'_> {
    /// The frames of the rows at positions `rows`, in parts that follow each other: one, or several around excluded rows. The ends of each part never
    /// move back.
    pub fn parts(&self, rows: Range<usize>) -> Vec<Bounds> {
        let whole = self.bounds(rows.clone());
        let units = match self.frame.exclude {
            Exclude::Nothing => return vec![whole],
            Exclude::CurrentRow => FrameUnits::Rows,
            Exclude::Group | Exclude::Ties => FrameUnits::Groups,
        };
        let current = FrameBound::CurrentRow;
        let left_out = Frame { units, start: current.clone(), end: current, exclude: Exclude::Nothing };
        let left_out = Frames { frame: &left_out, ..*self }.bounds(rows.clone());
        let both = || whole.iter().zip(left_out.iter());
        let before = both().map(|(frame, out)| frame.start..frame.end.min(out.start).max(frame.start));
        let after = both().map(|(frame, out)| {
            let start = frame.start.max(out.end);
            start..frame.end.max(start)
        });
        let mut parts = vec![Bounds::collect(before)];
        if self.frame.exclude == Exclude::Ties {
            let own = whole.iter().zip(rows).map(|(frame, row)| row..row + usize::from(frame.contains(&row)));
            parts.push(Bounds::collect(own));
        }
        parts.push(Bounds::collect(after));
        parts
    }

    /// The frames of the rows at positions `rows`, with excluded rows.
    fn bounds(&self, rows: Range<usize>) -> Bounds {
        let mut bounds = Bounds { start: Vec::with_capacity(rows.len()), end: Vec::with_capacity(rows.len()) };
        for piece in self.order.pieces(rows) {
            self.side(&piece, &self.frame.start, End::Start, &mut bounds.start);
            self.side(&piece, &self.frame.end, End::After, &mut bounds.end);
        }
        let Bounds { start, end } = &mut bounds;
        end.iter_mut().zip(start).for_each(|(end, start)| *end = (*end).max(*start));
        bounds
    }

    fn side(&self, piece: &Piece, bound: &FrameBound, end: End, out: &mut Vec<u32>) {
        let Piece { partition, rows, groups, .. } = piece;
        let after = usize::from(end == End::After);
        match (self.frame.units, bound) {
            (_, FrameBound::UnboundedPreceding) => out.extend(rows.clone().map(|_| partition.start as u32)),
            (_, FrameBound::UnboundedFollowing) => out.extend(rows.clone().map(|_| partition.end as u32)),
            (FrameUnits::Rows, FrameBound::CurrentRow) => out.extend(rows.clone().map(|row| (row + after) as u32)),
            (FrameUnits::Rows, FrameBound::Preceding(count)) => {
                let count = size(count);
                out.extend(rows.clone().map(|row| (row + after).saturating_sub(count).max(partition.start) as u32));
            }
            (FrameUnits::Rows, FrameBound::Following(count)) => {
                let count = size(count).saturating_add(after);
                out.extend(rows.clone().map(|row| row.saturating_add(count).min(partition.end) as u32));
            }
            (_, FrameBound::CurrentRow) => {
                piece.for_each(self.order, |_, group| out.push(self.order.groups[group + after]));
            }
            (FrameUnits::Groups, FrameBound::Preceding(count)) => {
                let count = size(count);
                piece.for_each(self.order, |_, group| {
                    out.push(self.order.groups[(group + after).saturating_sub(count).max(groups.start)]);
                });
            }
            (FrameUnits::Groups, FrameBound::Following(count)) => {
                let count = size(count).saturating_add(after);
                piece.for_each(self.order, |_, group| {
                    out.push(self.order.groups[group.saturating_add(count).min(groups.end)]);
                });
            }
            (FrameUnits::Range, FrameBound::Preceding(distance)) => self.values(piece, (distance, true), end, out),
            (FrameUnits::Range, FrameBound::Following(distance)) => self.values(piece, (distance, false), end, out),
        }
    }

    /// Appends a bound at a `distance` from the row's key: before it, or after it.
    fn values(&self, piece: &Piece, (distance, before): (&Scalar, bool), end: End, out: &mut Vec<u32>) {
        let (key, descending) = self.key.expect("a frame of values has its key");
        // Larger values come first where the key descends.
        let less = before != descending;
        let int = match distance {
            Scalar::Int(distance) => {
                if less {
                    distance.saturating_neg()
                } else {
                    *distance
                }
            }
            _ => 0,
        };
        let float = match distance {
            Scalar::Float(distance) => {
                if less {
                    -distance
                } else {
                    *distance
                }
            }
            _ => 0.0,
        };
        // Codes that ascend with positions.
        let code = |code: i128| if descending { !code } else { code };
        let search = Search { order: self.order, piece, key, end };
        match &key.data {
            Data::I32(v) => search.run(|i| code(v[i].into()), |i| code(i128::from(v[i]) + int), out),
            Data::I64(v) => search.run(|i| code(v[i].into()), |i| code(i128::from(v[i]).saturating_add(int)), out),
            Data::I128(v) => search.run(|i| code(v[i]), |i| code(v[i].saturating_add(int)), out),
            Data::F32(v) => {
                let of = |value: f32| code(ordered_f32(value).into());
                search.run(|i| of(v[i]), |i| of(v[i] + float as f32), out);
            }
            Data::F64(v) => {
                let of = |value: f64| code(ordered_f64(value).into());
                search.run(|i| of(v[i]), |i| of(v[i] + float), out);
            }
            data => unreachable!("a frame of values of {:?}", data.phys()),
        }
    }
}

/// A search for one end of the frames of a piece by key values.
struct Search<'a> {
    order: &'a Order,
    piece: &'a Piece,
    key: &'a Vector,
    end: End,
}

impl Search<'_> {
    /// Appends the ends. `code` returns a number in key order for a row, `target` the bound's number.
    fn run(&self, code: impl Fn(usize) -> i128, target: impl Fn(usize) -> i128, out: &mut Vec<u32>) {
        let (order, piece) = (self.order, self.piece);
        let after = usize::from(self.end == End::After);
        let valid = self.valid();
        let passes = |row: usize, target: i128| {
            let code = code(row);
            if self.end == End::Start { code < target } else { code <= target }
        };
        let mut at = None;
        piece.for_each(order, |row, group| {
            // NULLs are within a distance of NULLs only.
            if !valid.contains(&row) {
                return out.push(order.groups[group + after]);
            }
            let target = target(row);
            let mut next = at.unwrap_or_else(|| first(valid.clone(), |row| passes(row, target)));
            while next < valid.end && passes(next, target) {
                next += 1;
            }
            at = Some(next);
            out.push(next as u32);
        });
    }

    /// The positions of the partition with a non-NULL key: NULLs are all at one end.
    fn valid(&self) -> Range<usize> {
        let Range { mut start, mut end } = self.piece.partition.clone();
        let groups = &self.piece.groups;
        if !self.key.is_valid(start) {
            start = self.order.groups[groups.start + 1] as usize;
        }
        if start < end && !self.key.is_valid(end - 1) {
            end = self.order.groups[groups.end - 1] as usize;
        }
        start..end
    }
}

/// The first position of `range` that does not pass; those that pass come first.
fn first(range: Range<usize>, passes: impl Fn(usize) -> bool) -> usize {
    let Range { mut start, mut end } = range;
    while start < end {
        let middle = start + (end - start) / 2;
        if passes(middle) { start = middle + 1 } else { end = middle }
    }
    start
}

/// A number of rows or groups.
fn size(count: &Scalar) -> usize {
    match count {
        Scalar::Int(count) => usize::try_from(*count).unwrap_or(usize::MAX),
        other => unreachable!("a frame of {other:?} rows"),
    }
}
