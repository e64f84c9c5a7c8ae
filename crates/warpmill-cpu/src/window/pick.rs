//! Functions whose result is the argument of one row: shifts, rows of the frame, extremes.

use std::cmp::Ordering;
use std::ops::Range;

use warpmill_format::StrView;
use warpmill_ir::WindowFunction;

use super::frame::Bounds;
use super::order::Order;
use super::slide::{self, Monoid};
use crate::sort::normalize::{ordered_f32, ordered_f64};
use crate::vector::{NULL_ROW, Vector};
use crate::with_data;

/// The rows that a function counts: all, or those with a non-NULL argument.
pub(super) struct Counted {
    /// Number of counted rows before each position, and in total at the end; `None`: all rows count.
    before: Option<Vec<u32>>,
    /// Positions of the counted rows.
    positions: Vec<u32>,
}

impl Counted {
    /// Counts all rows.
    pub fn all() -> Self {
        Self { before: None, positions: vec![] }
    }

    /// Counts the rows at which `values` are not NULL.
    pub fn valid(values: &Vector) -> Self {
        let Some(validity) = &values.validity else { return Self::all() };
        let mut before = Vec::with_capacity(values.len() + 1);
        let mut positions = vec![];
        for position in 0..values.len() {
            before.push(positions.len() as u32);
            if validity.get(position) {
                positions.push(position as u32);
            }
        }
        before.push(positions.len() as u32);
        Self { before: Some(before), positions }
    }

    /// Number of counted rows before a position.
    pub fn before(&self, position: usize) -> usize {
        self.before.as_ref().map_or(position, |before| before[position] as usize)
    }

    /// Number of counted rows of a frame.
    pub fn count(&self, frame: &Range<usize>) -> usize {
        self.before(frame.end) - self.before(frame.start)
    }

    /// Position of counted row `number` if it is in the frame; otherwise [`NULL_ROW`].
    fn nth(&self, number: Option<usize>, frame: &Range<usize>) -> u32 {
        let in_frame = |number: &usize| (self.before(frame.start)..self.before(frame.end)).contains(number);
        match number.filter(in_frame) {
            Some(number) if self.before.is_some() => self.positions[number],
            Some(number) => number as u32,
            None => NULL_ROW,
        }
    }
}

/// For each of `rows`, the position `back` counted rows before it in its partition; [`NULL_ROW`] if there is none.
pub(super) fn shifted(order: &Order, counted: &Counted, back: i64, rows: Range<usize>) -> Vec<u32> {
    let mut picked = Vec::with_capacity(rows.len());
    for piece in order.pieces(rows) {
        let distance = usize::try_from(back.unsigned_abs()).unwrap_or(usize::MAX);
        picked.extend(piece.rows.clone().map(|row| match back {
            0 => row as u32,
            1.. => counted.nth(counted.before(row).checked_sub(distance), &piece.partition),
            // Counted rows after this one are numbered from the count up to and including it.
            _ => counted.nth(counted.before(row + 1).checked_add(distance - 1), &piece.partition),
        }));
    }
    picked
}

/// For each frame, the position that the function selects; [`NULL_ROW`] if there is none.
pub(super) fn of_frames(function: &WindowFunction, counted: &Counted, parts: &[Bounds]) -> Vec<u32> {
    let pick = |row: usize| {
        let frames = parts.iter().map(|part| part.of(row));
        let back = |n: u64| {
            let count: usize = frames.clone().map(|frame| counted.count(&frame)).sum();
            count.checked_sub(usize::try_from(n).unwrap_or(usize::MAX))
        };
        let number = match function {
            WindowFunction::First => Some(0),
            WindowFunction::Last => back(1),
            WindowFunction::Nth(n @ 1..) => usize::try_from(n - 1).ok(),
            WindowFunction::Nth(n) if *n < 0 => back(n.unsigned_abs()),
            _ => None,
        };
        let Some(mut number) = number else { return NULL_ROW };
        for frame in frames {
            let count = counted.count(&frame);
            if number < count {
                return counted.nth(Some(counted.before(frame.start) + number), &frame);
            }
            number -= count;
        }
        NULL_ROW
    };
    (0..parts.first().map_or(0, Bounds::len)).map(pick).collect()
}

/// For each frame, the position of its greatest or least value; [`NULL_ROW`] if all are NULL.
pub(super) fn extremes(values: &Vector, greatest: bool, parts: &[Bounds]) -> Vec<u32> {
    let wanted = if greatest { Ordering::Greater } else { Ordering::Less };
    with_data!(&values.data, data => {
        let extreme = Extreme { data: data.as_slice(), values, wanted };
        slide::of_frames(&extreme, parts)
    })
}

/// A monoid on positions: selects the value that is before or after all others.
struct Extreme<'a, T> {
    data: &'a [T],
    values: &'a Vector,
    wanted: Ordering,
}

impl<T: Ordered> Monoid for Extreme<'_, T> {
    type Item = u32;

    fn identity(&self) -> u32 {
        NULL_ROW
    }

    #[inline(always)]
    fn item(&self, position: usize) -> u32 {
        if self.values.is_valid(position) { position as u32 } else { NULL_ROW }
    }

    #[inline(always)]
    fn combine(&self, first: u32, second: u32) -> u32 {
        if second == NULL_ROW {
            return first;
        }
        if first == NULL_ROW || self.data[second as usize].order(&self.data[first as usize]) == self.wanted {
            second
        } else {
            first
        }
    }
}

/// A value with an order in which NaN is greatest.
trait Ordered {
    fn order(&self, other: &Self) -> Ordering;
}

macro_rules! ordered {
    ($($t:ty: $value:ident => $code:expr),*) => {$(
        impl Ordered for $t {
            #[inline(always)]
            fn order(&self, other: &Self) -> Ordering {
                let code = |$value: &$t| $code;
                code(self).cmp(&code(other))
            }
        }
    )*};
}
ordered!(bool: v => *v, i32: v => *v, i64: v => *v, i128: v => *v, u32: v => *v, StrView: v => *v);
ordered!(f32: v => ordered_f32(*v), f64: v => ordered_f64(*v));
