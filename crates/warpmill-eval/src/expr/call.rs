//! Functions of whole vectors: code shared by the modules for strings, numbers and dates.

use warpmill_format::Bitmap;
use warpmill_ir::CompareOp;

use super::arith::is_set;
use super::compare;
use super::value::{Native, Value, both, with_native, zip};
use crate::error::{ExecError, Result};
use crate::memory::Worker;
use crate::vector::Vector;

/// A function of evaluated arguments.
pub(super) trait Compute: std::fmt::Debug + Send + Sync {
    /// The value for `len` rows.
    fn eval(&self, args: &[Value], len: usize, worker: &mut Worker) -> Result<Value>;

    /// Whether some row can be an error.
    fn fallible(&self) -> bool;

    /// Whether it costs more per row than selecting rows does.
    fn heavy(&self) -> bool {
        true
    }
}

/// Rows in which all arguments are valid, or `None` if an argument is NULL for all rows.
pub(super) fn all_valid(args: &[Value]) -> Option<Option<Bitmap>> {
    if args.iter().any(Value::is_null_const) {
        return None;
    }
    Some(args.iter().fold(None, |valid: Option<Bitmap>, arg| both(valid.as_ref(), arg.validity())))
}

/// `f(row)` for each of `len` rows that are valid.
#[inline(always)]
pub(super) fn rows<T: Native>(
    len: usize,
    valid: Option<&Bitmap>,
    mut f: impl FnMut(usize) -> Result<T>,
) -> Result<Vec<T>> {
    // Not `collect` into a result, which cannot reserve capacity.
    let mut out = Vec::with_capacity(len);
    for i in 0..len {
        out.push(if is_set(valid, i) { f(i)? } else { T::default() });
    }
    Ok(out)
}

/// GREATEST and LEAST: NULLs are ignored.
#[derive(Debug)]
pub(super) struct Extreme {
    pub greatest: bool,
}

impl Compute for Extreme {
    fn eval(&self, args: &[Value], len: usize, _worker: &mut Worker) -> Result<Value> {
        let mut best = args[0].clone();
        for next in &args[1..] {
            best = self.better(&best, next, len);
        }
        Ok(best)
    }

    fn fallible(&self) -> bool {
        false
    }
}

impl Extreme {
    fn better(&self, best: &Value, next: &Value, len: usize) -> Value {
        if next.is_null_const() {
            return best.clone();
        }
        if best.is_null_const() {
            return next.clone();
        }
        let op = if self.greatest { CompareOp::Gt } else { CompareOp::Lt };
        let all = Bitmap::new(len, true);
        let (a, b) = (best.validity().unwrap_or(&all), next.validity().unwrap_or(&all));
        let mut taken = compare::compare(op, next, best, len).truth;
        taken.or_assign(&zip(b, a, |next, best| next & !best));
        let data = with_native!(best.vector().data.phys(), T => {
            let (best, next) = (best.side::<T>(), next.side::<T>());
            T::wrap((0..len).map(|i| if taken.get(i) { next.at(i) } else { best.at(i) }).collect())
        });
        Value::rows(Vector::with_validity(data, Some(zip(a, b, |a, b| a | b))))
    }
}

/// The value of a scalar subquery; the second argument counts its rows.
#[derive(Debug)]
pub(super) struct OnlyRow;

impl Compute for OnlyRow {
    fn eval(&self, args: &[Value], len: usize, _worker: &mut Worker) -> Result<Value> {
        if args[1].is_null_const() {
            return Ok(args[0].clone());
        }
        let (rows, valid) = (args[1].side::<i64>(), args[1].validity());
        if (0..len).any(|row| is_set(valid, row) && rows.at(row) > 1) {
            let text = "More than one row returned by a subquery used as an expression - scalar subqueries can only return a single row.";
            return Err(ExecError::Value(text.into()));
        }
        Ok(args[0].clone())
    }

    fn fallible(&self) -> bool {
        true
    }
}
