//! CASE, COALESCE, NULLIF: values from one of several expressions, row by row.

use warpmill_format::Bitmap;
use warpmill_ir::CompareOp;

use super::compare;
use super::logic::{truth, worth_selecting};
use super::node::Node;
use super::value::{Native, Side, Value, bits_at, rows_of, unpack, with_native, zip};
use crate::chunk::Chunk;
use crate::error::Result;
use crate::memory::Worker;
use crate::vector::{Data, Vector};

/// A result put together from parts; rows that no part covers are NULL.
struct Blend {
    data: Data,
    valid: Bitmap,
}

impl Blend {
    fn new(node: &Node, len: usize) -> Self {
        Self { data: Data::zeros(node.phys(), len), valid: Bitmap::new(len, false) }
    }

    /// Takes the rows of `mask` from `value`, which has all rows.
    fn put(&mut self, mask: &Bitmap, value: &Value) {
        if value.is_null_const() {
            return;
        }
        let taken = unpack(mask);
        with_native!(self.data.phys(), T => {
            let out = T::values_mut(&mut self.data).iter_mut().zip(&taken);
            match value.side::<T>() {
                Side::One(one) => out.for_each(|(out, &taken)| *out = if taken { one } else { *out }),
                Side::Many(values) => {
                    out.zip(values).for_each(|((out, &taken), &value)| *out = if taken { value } else { *out });
                }
            }
        });
        match value.validity() {
            None => self.valid.or_assign(mask),
            Some(valid) => self.valid.or_assign(&zip(mask, valid, |a, b| a & b)),
        }
    }

    /// Takes row `rows[i]` from row `i` of `value`.
    fn scatter(&mut self, rows: &[u32], value: &Value) {
        if value.is_null_const() {
            return;
        }
        with_native!(self.data.phys(), T => {
            let out = T::values_mut(&mut self.data);
            let value = value.side::<T>();
            rows.iter().enumerate().for_each(|(i, &row)| out[row as usize] = value.at(i));
        });
        let valid = rows.iter().enumerate().filter(|(i, _)| value.is_valid(*i)).map(|(_, &row)| row);
        self.valid.or_assign(&bits_at(valid, self.data.len()));
    }

    /// Takes the values of `node` for the rows of `mask`, evaluated on all rows or on these only.
    fn take(&mut self, mask: &Bitmap, node: &Node, chunk: &Chunk, worker: &mut Worker) -> Result<()> {
        let count = mask.count_ones();
        if count == 0 {
            return Ok(());
        }
        if worth_selecting(node, count, chunk.len()) {
            let rows = rows_of(mask);
            let value = node.eval(&chunk.selected(&rows), worker)?;
            self.scatter(&rows, &value);
        } else {
            self.put(mask, &node.eval(chunk, worker)?);
        }
        Ok(())
    }

    fn finish(self) -> Value {
        Value::rows(Vector::with_validity(self.data, Some(self.valid)))
    }
}

/// The rows of `open` for which `node` is true.
fn true_among(open: &Bitmap, node: &Node, chunk: &Chunk, worker: &mut Worker) -> Result<Bitmap> {
    if worth_selecting(node, open.count_ones(), chunk.len()) {
        let rows = rows_of(open);
        let part = truth(node, &chunk.selected(&rows), worker)?;
        return Ok(bits_at(rows_of(&part).into_iter().map(|i| rows[i as usize]), chunk.len()));
    }
    Ok(zip(&truth(node, chunk, worker)?, open, |a, b| a & b))
}

/// CASE: each condition is evaluated on the rows that no earlier one selected, each value on the rows that its condition selected.
pub(super) fn case(
    node: &Node,
    branches: &[(Node, Node)],
    otherwise: Option<&Node>,
    chunk: &Chunk,
    worker: &mut Worker,
) -> Result<Value> {
    let mut open = Bitmap::new(chunk.len(), true);
    let mut result: Option<Blend> = None;
    for (when, then) in branches {
        if open.count_ones() == 0 {
            break;
        }
        let taken = true_among(&open, when, chunk, worker)?;
        if taken.all() {
            return then.eval(chunk, worker);
        }
        let result = result.get_or_insert_with(|| Blend::new(node, chunk.len()));
        result.take(&taken, then, chunk, worker)?;
        open = zip(&open, &taken, |open, taken| open & !taken);
    }
    match (result, otherwise) {
        (None, None) => Ok(Value::null(node.phys())),
        (None, Some(otherwise)) => otherwise.eval(chunk, worker),
        (Some(result), None) => Ok(result.finish()),
        (Some(_), Some(otherwise)) if open.all() => otherwise.eval(chunk, worker),
        (Some(mut result), Some(otherwise)) => {
            result.take(&open, otherwise, chunk, worker)?;
            Ok(result.finish())
        }
    }
}

/// The first argument that is not NULL.
pub(super) fn coalesce(node: &Node, args: &[Node], chunk: &Chunk, worker: &mut Worker) -> Result<Value> {
    let mut result: Option<Blend> = None;
    for arg in args {
        let Some(blend) = &mut result else {
            let first = arg.eval(chunk, worker)?;
            if !first.is_null_const() && first.validity().is_none() {
                return Ok(first);
            }
            let mut blend = Blend::new(node, chunk.len());
            blend.put(&Bitmap::new(chunk.len(), true), &first);
            result = Some(blend);
            continue;
        };
        let open = blend.valid.not();
        blend.take(&open, arg, chunk, worker)?;
    }
    Ok(result.map_or_else(|| Value::null(node.phys()), Blend::finish))
}

/// `value`, but NULL where it equals `other`.
pub(super) fn null_if(value: Value, other: &Value, len: usize) -> Value {
    if value.is_null_const() {
        return value;
    }
    let same = compare::compare(CompareOp::Eq, &value, other, len).truth;
    let vector = value.into_vector(len);
    let valid = match &vector.validity {
        None => same.not(),
        Some(valid) => zip(valid, &same, |valid, same| valid & !same),
    };
    Value::rows(Vector::with_validity(vector.data.clone(), Some(valid)))
}
