//! Plans the operands of window functions, and series of them.

use warpmill_ir::{
    AggregateFunction as F, ColType, Exclude, Expr, ExprKind, Frame, FrameBound, FrameUnits, Phys, Scalar, Sink,
    SinkId, SortKey, Unsupported, WindowCall, WindowFunction,
};

use crate::compile::layout::{Accumulator, Operand, Series, Sorted, Way, Windowed};
use crate::compile::storage::FlatColumn;

/// Largest number of rows that can be numbered.
const MOST_ROWS: u64 = u32::MAX as u64 - 1;

/// Number of values combined by an entry of the next level (kernels/window.cuh).
pub(super) const FAN: u64 = 16;

/// Largest number of values that a thread sums without levels.
const FEW: u64 = 2 * FAN;

impl Windowed {
    /// The evaluation of the functions of `sink`, with output columns `columns` and capacity `capacity`. Sorting looks at `text_words` words of
    /// strings.
    ///
    /// # Errors
    /// Functions and frames that devices do not support.
    pub fn of(
        id: SinkId,
        sink: &Sink,
        columns: &[FlatColumn],
        capacity: u64,
        text_words: u32,
    ) -> Result<Self, Unsupported> {
        let Sink::Window { partition, order, calls, .. } = sink else { unreachable!("called for windows") };
        if capacity > MOST_ROWS {
            return Err(Unsupported::new("window", format!("over more than {MOST_ROWS} rows")));
        }
        let owner = format!("sink{id}.window");
        let mut window = Self {
            operands: vec![],
            keys: vec![],
            partition: partition.len(),
            sorted: None,
            has_partitions: !partition.is_empty(),
            has_groups: false,
            series: vec![],
            listed: vec![],
            capacity,
            owner,
        };
        if calls.is_empty() {
            window.has_partitions = false;
            return Ok(window);
        }
        let output = (sink, columns);
        let ascending = |expr: &Expr| SortKey { expr: expr.clone(), descending: false, nulls_first: false };
        for key in partition.iter().map(ascending).chain(order.iter().cloned()) {
            let operand = window.operand(&key.expr, output);
            window.keys.push(SortKey { expr: Expr::column(operand, key.expr.ty.clone()), ..key });
        }
        let keys = &window.keys;
        window.sorted = (!keys.is_empty()).then(|| Sorted::in_place(id, keys, capacity, text_words));
        for call in calls {
            window.add(call, output)?;
        }
        Ok(window)
    }

    /// Partitions of rows with `operands` by equal keys, sorted by `sorted`, with capacity `capacity`.
    pub fn of_partitions(
        owner: String,
        operands: Vec<Operand>,
        (keys, sorted): (Vec<SortKey>, Option<Sorted>),
        capacity: u64,
    ) -> Self {
        let (series, listed) = Default::default();
        let (partition, has_partitions, has_groups) = (keys.len(), !keys.is_empty(), false);
        Self { operands, keys, partition, sorted, has_partitions, has_groups, series, listed, capacity, owner }
    }

    /// The index of operand `expr`. Output columns are used as operands, not stored twice.
    pub(super) fn operand(&mut self, expr: &Expr, (sink, columns): (&Sink, &[FlatColumn])) -> usize {
        if let Some(known) = self.operands.iter().position(|operand| operand.expr == *expr) {
            return known;
        }
        let Sink::Window { payload, fields, .. } = sink else { unreachable!("called for windows") };
        let kept = match expr.kind {
            ExprKind::Column(column) => payload.iter().position(|&from| from == column),
            _ => None,
        };
        let kept = kept.filter(|&at| fields[at].ty == expr.ty && (fields[at].ty.nullable || !expr.ty.nullable));
        let number = self.operands.len();
        let column = match kept {
            Some(at) => columns[at].clone(),
            None => FlatColumn::new(&format!("{}.operand", self.owner), number, &expr.ty),
        };
        self.operands.push(Operand { expr: expr.clone(), column, own: kept.is_none() });
        number
    }

    /// The operand and type of a call's argument.
    pub(super) fn argument(&self, call: &WindowCall) -> Result<(usize, &ColType), Unsupported> {
        let argument = call.argument.as_ref();
        let known = argument.and_then(|expr| self.operands.iter().position(|operand| operand.expr == *expr));
        known.map(|at| (at, &self.operands[at].expr.ty)).ok_or_else(|| Unsupported::new("window", "no argument"))
    }

    /// The frame of a call; without an order all rows of a partition are peers.
    pub(super) fn frame(&self, call: &WindowCall) -> Frame {
        let mut frame = call.frame.clone();
        if self.keys.len() == self.partition && frame.units == FrameUnits::Range {
            if frame.start == FrameBound::CurrentRow {
                frame.start = FrameBound::UnboundedPreceding;
            }
            if frame.end == FrameBound::CurrentRow {
                frame.end = FrameBound::UnboundedFollowing;
            }
        }
        frame
    }

    /// The accumulator of a call.
    pub(super) fn accumulator(&self, function: F, argument: &ColType) -> Result<Accumulator, Unsupported> {
        let refuse = |reason: &str| Err(Unsupported::new("window", reason));
        let most = argument.range.map(|(lo, hi)| lo.unsigned_abs().max(hi.unsigned_abs()));
        let most = most.and_then(|most| most.checked_mul(self.capacity.into()));
        Ok(match (function, argument.phys) {
            (F::Sum | F::Avg, Phys::F32 | Phys::F64) => Accumulator::SumF64,
            (F::Sum | F::Avg, phys) if phys.is_int() => match most {
                Some(most) if most <= i64::MAX as u128 => Accumulator::SumI64,
                Some(most) if most <= i128::MAX as u128 => Accumulator::SumI128,
                _ => Accumulator::SumWide,
            },
            (F::Min | F::Max, Phys::Str) => return refuse("the least or greatest of strings without a dictionary"),
            (F::Min | F::BoolAnd, Phys::I128) => Accumulator::MinWide,
            (F::Max | F::BoolOr, Phys::I128) => Accumulator::MaxWide,
            (F::Min | F::BoolAnd, _) => Accumulator::Min,
            (F::Max | F::BoolOr, _) => Accumulator::Max,
            _ => return refuse("this aggregate function"),
        })
    }

    /// The method of summing a frame.
    pub(super) fn way(&self, accumulator: Accumulator, frame: &Frame) -> Way {
        let exact = matches!(
            accumulator,
            Accumulator::Count | Accumulator::SumI64 | Accumulator::SumI128 | Accumulator::SumWide
        );
        match frame.start {
            _ if exact => Way::Differences,
            FrameBound::UnboundedPreceding => Way::Running,
            _ => {
                let most = length(frame).map_or(self.capacity, |length| length.min(self.capacity));
                let (mut levels, mut reach) = (0, FEW);
                while reach < most {
                    levels += 1;
                    reach *= FAN;
                }
                Way::Tree(levels)
            }
        }
    }

    /// The index of a series.
    pub(super) fn series(&self, operand: usize, accumulator: Accumulator, way: Way) -> Result<usize, Unsupported> {
        let wanted = Series { operand, accumulator, way };
        let known = self.series.iter().position(|series| *series == wanted);
        known.ok_or_else(|| Unsupported::new("window", "a series that was not planned"))
    }

    fn add_series(&mut self, operand: usize, accumulator: Accumulator, way: Way) {
        let series = Series { operand, accumulator, way };
        if !self.series.contains(&series) {
            self.series.push(series);
        }
    }

    /// The operand of the order key that value frames compare, and the use of its series.
    pub(super) fn search(&self) -> Result<(usize, Way), Unsupported> {
        let key = self.keys.get(self.partition).filter(|_| self.keys.len() == self.partition + 1);
        let key = key.ok_or_else(|| Unsupported::new("window", "a frame of values without one order key"))?;
        let ExprKind::Column(operand) = key.expr.kind else {
            return Err(Unsupported::new("window", "an order key that is no column"));
        };
        Ok((operand, Way::Search { descending: key.descending }))
    }

    fn add_search(&mut self) -> Result<(), Unsupported> {
        let (operand, way) = self.search()?;
        let ty = &self.operands[operand].expr.ty;
        if !ty.phys.is_int() && !matches!(ty.phys, Phys::F32 | Phys::F64) {
            return Err(Unsupported::new("window", "a frame at distances of values that are no numbers"));
        }
        let nullable = ty.nullable;
        self.add_series(operand, Accumulator::MaxWide, way);
        if nullable {
            self.add_series(operand, Accumulator::Count, Way::Differences);
        }
        Ok(())
    }

    fn add(&mut self, call: &WindowCall, output: (&Sink, &[FlatColumn])) -> Result<(), Unsupported> {
        if call.function.has_frame() && call.frame.exclude != Exclude::Nothing {
            return Err(Unsupported::new("window", "of frames without some of their rows"));
        }
        let argument = call.argument.as_ref().map(|expr| (self.operand(expr, output), expr.ty.clone()));
        let frame = self.frame(call);
        if call.function.has_frame() && frame.compares_values() {
            self.add_search()?;
        }
        let nullable = argument.as_ref().is_some_and(|(_, ty)| ty.nullable);
        if let (true, true, Some((operand, _))) = (call.ignore_nulls, nullable, &argument) {
            self.add_series(*operand, Accumulator::Count, Way::Differences);
            if !self.listed.contains(operand) {
                self.listed.push(*operand);
            }
        }
        self.has_groups |= match &call.function {
            WindowFunction::Rank
            | WindowFunction::DenseRank
            | WindowFunction::PercentRank
            | WindowFunction::CumeDist => true,
            function => function.has_frame() && has_groups(&frame),
        };
        if let (WindowFunction::Aggregate(function), Some((operand, ty))) = (&call.function, argument) {
            if nullable {
                self.add_series(operand, Accumulator::Count, Way::Differences);
            }
            if !matches!(function, F::Count | F::CountStar) {
                let accumulator = self.accumulator(*function, &ty)?;
                self.add_series(operand, accumulator, self.way(accumulator, &frame));
            }
        }
        Ok(())
    }
}

/// Whether ends of a frame are ends of groups of peers.
fn has_groups(frame: &Frame) -> bool {
    let whole = |bound: &FrameBound| matches!(bound, FrameBound::UnboundedPreceding | FrameBound::UnboundedFollowing);
    frame.units != FrameUnits::Rows && !(whole(&frame.start) && whole(&frame.end))
}

/// A distance in rows or groups, clamped to a number that no table exceeds.
pub(super) fn distance(distance: &Scalar) -> u64 {
    match distance {
        Scalar::Int(rows) => u64::try_from(*rows).unwrap_or(u64::MAX).min(1 << 40),
        _ => 0,
    }
}

/// Largest number of rows of a frame; `None`: unbounded.
fn length(frame: &Frame) -> Option<u64> {
    let place = |bound: &FrameBound| match bound {
        FrameBound::Preceding(rows) => Some(-(distance(rows) as i64)),
        FrameBound::CurrentRow => Some(0),
        FrameBound::Following(rows) => Some(distance(rows) as i64),
        FrameBound::UnboundedPreceding | FrameBound::UnboundedFollowing => None,
    };
    let (start, end) = (place(&frame.start)?, place(&frame.end)?);
    (frame.units == FrameUnits::Rows).then(|| u64::try_from(end - start + 1).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_rows_have_a_length() {
        use FrameBound::{CurrentRow, Following, Preceding, UnboundedPreceding};
        let frame = |units, start, end| length(&Frame { units, start, end, exclude: Exclude::Nothing });
        let rows = |rows: i128| Scalar::Int(rows);
        assert_eq!(frame(FrameUnits::Rows, Preceding(rows(99)), CurrentRow), Some(100));
        assert_eq!(frame(FrameUnits::Rows, Preceding(rows(9)), Preceding(rows(5))), Some(5));
        assert_eq!(frame(FrameUnits::Rows, Following(rows(9)), Following(rows(5))), Some(0));
        assert_eq!(frame(FrameUnits::Rows, UnboundedPreceding, CurrentRow), None);
        assert_eq!(frame(FrameUnits::Groups, Preceding(rows(1)), CurrentRow), None);
    }
}
