//! Calls of window functions, prepared, and their results.

use std::ops::Range;

use rayon::prelude::*;
use warpmill_ir::{
    AggregateFunction, ColType, Field, Frame, FrameBound, FrameUnits, Scalar, WindowCall, WindowFunction,
};

use super::frame::{Bounds, Frames};
use super::order::{Order, Piece};
use super::pick::{Counted, extremes, of_frames, shifted};
use super::rank::positions;
use super::sum::{Prepared, counts};
use crate::context::{ExecError, QueryContext, Result};
use crate::rows::values;
use crate::vector::{Data, NULL_ROW, Vector};

/// Smallest number of rows of a thread's task.
const TASK_ROWS: usize = 1 << 14;

/// A call with the columns that it reads.
pub(super) struct Call<'a> {
    pub call: &'a WindowCall,
    pub order: &'a Order,
    /// The argument, by position in the window order.
    pub argument: Option<&'a Vector>,
    /// The only order key, by position, and whether it descends (for RANGE frames).
    pub key: Option<(&'a Vector, bool)>,
}

/// Results of a call.
pub(super) enum Values {
    /// One value for each position.
    Positions(Vector),
    /// One value for each partition.
    Partitions(Vector),
}

impl Call<'_> {
    /// The values of the call.
    pub fn evaluate(&self, query: &QueryContext) -> Result<Values> {
        let WindowCall { function, ty, .. } = self.call;
        match function {
            WindowFunction::Aggregate(AggregateFunction::Sum | AggregateFunction::Avg) => self.sums(query),
            WindowFunction::Aggregate(AggregateFunction::CountStar) => self.counts(&Counted::all(), query),
            WindowFunction::Aggregate(AggregateFunction::Count) => {
                self.counts(&Counted::valid(self.argument()?), query)
            }
            WindowFunction::Aggregate(function) => {
                let greatest = match function {
                    AggregateFunction::Min | AggregateFunction::BoolAnd => false,
                    AggregateFunction::Max | AggregateFunction::BoolOr => true,
                    other => return Err(ExecError::Unsupported(format!("{other:?} in windows"))),
                };
                let argument = self.argument()?;
                self.framed(self.splits(true), query, |parts| {
                    Ok(argument.gather_or_null(&extremes(argument, greatest, parts)))
                })
            }
            WindowFunction::First | WindowFunction::Last | WindowFunction::Nth(_) => {
                let (argument, counted) = (self.argument()?, self.counted()?);
                self.framed(true, query, |parts| Ok(argument.gather_or_null(&of_frames(function, &counted, parts))))
            }
            WindowFunction::Shift { back, default } => self.shift(*back, default, query).map(Values::Positions),
            _ => {
                let values = self.tasks(true, query, |rows| match positions(function, ty.phys, self.order, rows)? {
                    Some(data) => Ok(Vector::new(data)),
                    None => Err(ExecError::Unsupported(format!("{function:?} in windows"))),
                });
                values.map(Values::Positions)
            }
        }
    }

    fn argument(&self) -> Result<&Vector> {
        self.argument.ok_or_else(|| ExecError::Unsupported(format!("{:?} without an argument", self.call.function)))
    }

    /// The rows that functions of single rows count.
    fn counted(&self) -> Result<Counted> {
        Ok(if self.call.ignore_nulls { Counted::valid(self.argument()?) } else { Counted::all() })
    }

    fn counts(&self, counted: &Counted, query: &QueryContext) -> Result<Values> {
        self.framed(true, query, |parts| {
            let counts = counts(counted, parts);
            Ok(Vector::new(match self.call.ty.phys {
                warpmill_ir::Phys::I32 => Data::I32(counts.into_iter().map(|count| count as i32).collect()),
                _ => Data::I64(counts),
            }))
        })
    }

    fn sums(&self, query: &QueryContext) -> Result<Values> {
        let (argument, WindowFunction::Aggregate(function)) = (self.argument()?, &self.call.function) else {
            return Err(ExecError::Unsupported("a sum that is no aggregate".into()));
        };
        let unknown = || ExecError::Unsupported("a sum without an argument".into());
        let ty: &ColType = self.call.argument.as_ref().map(|argument| &argument.ty).ok_or_else(unknown)?;
        let (prepared, counted) = (Prepared::new(argument, ty)?, Counted::valid(argument));
        self.framed(self.splits(prepared.slides()), query, |parts| {
            prepared.of_frames((*function, &self.call.ty), ty, &counted, parts)
        })
    }

    fn shift(&self, back: i64, default: &Scalar, query: &QueryContext) -> Result<Vector> {
        let (argument, counted) = (self.argument()?, self.counted()?);
        if *default == Scalar::Null {
            return self
                .tasks(true, query, |rows| Ok(argument.gather_or_null(&shifted(self.order, &counted, back, rows))));
        }
        // The default is appended as one more row.
        let field = Field { name: String::new(), ty: self.call.ty.clone() };
        let default = values(&[vec![default.clone()]], &[field]);
        let mut with_default = argument.clone();
        with_default.extend(&default.batches[0].0[0]);
        let row = argument.len() as u32;
        self.tasks(true, query, |rows| {
            let mut picked = shifted(self.order, &counted, back, rows);
            picked.iter_mut().filter(|picked| **picked == NULL_ROW).for_each(|picked| *picked = row);
            Ok(with_default.gather(&picked))
        })
    }

    /// The values that `value` computes for frames in parts. Frames that are whole partitions are computed once per partition.
    fn framed(
        &self,
        split: bool,
        query: &QueryContext,
        value: impl Fn(&[Bounds]) -> Result<Vector> + Sync,
    ) -> Result<Values> {
        if self.call.frame.is_whole() {
            let of_partitions = |rows| {
                let bounds = |piece: Piece| (piece.partition.start as u32, piece.partition.end as u32);
                let (start, end) = self.order.pieces(rows).map(bounds).unzip();
                value(&[Bounds { start, end }])
            };
            return self.tasks(false, query, of_partitions).map(Values::Partitions);
        }
        let frames = Frames { order: self.order, frame: &self.call.frame, key: self.key };
        self.tasks(split, query, |rows| value(&frames.parts(rows))).map(Values::Positions)
    }

    /// Whether several threads may compute the frames of one partition: sliding frames start over in each part, which pays only for small frames.
    fn splits(&self, slides: bool) -> bool {
        let is_small = |bound: &FrameBound| match bound {
            FrameBound::Preceding(Scalar::Int(n)) | FrameBound::Following(Scalar::Int(n)) => *n < TASK_ROWS as i128,
            FrameBound::CurrentRow => true,
            _ => false,
        };
        let Frame { units, start, end, .. } = &self.call.frame;
        !slides || (*units == FrameUnits::Rows && is_small(start) && is_small(end))
    }

    /// Concatenates the values that `task` computes for ranges of positions.
    fn tasks(
        &self,
        split: bool,
        query: &QueryContext,
        task: impl Fn(Range<usize>) -> Result<Vector> + Sync,
    ) -> Result<Vector> {
        let checked = |rows: Range<usize>| {
            query.cancel.check()?;
            task(rows)
        };
        let parts = self.order.tasks(TASK_ROWS, split).into_par_iter().map(checked);
        let parts = parts.collect::<Result<Vec<Vector>>>()?;
        Ok(concat(parts.iter(), self.call.ty.phys))
    }
}

/// Concatenates all values of `parts`.
pub(super) fn concat<'a>(parts: impl Iterator<Item = &'a Vector> + Clone, phys: warpmill_ir::Phys) -> Vector {
    let len = parts.clone().map(Vector::len).sum();
    let mut all = Vector::new(Data::with_capacity(phys, len));
    parts.for_each(|part| all.extend(part));
    all
}
