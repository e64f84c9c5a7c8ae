//! Three-valued logic, and conversion of predicates to row numbers.
//!
//! Conjuncts and disjuncts are evaluated in order, each on the rows that the ones before left undecided: on a sub-chunk if these are few (or if
//! evaluating the others could fail), otherwise on all rows, intersecting bits.

use warpmill_format::Bitmap;

use super::node::{Kind, Node};
use super::value::{Bits, Value, bits_at, rows_of, zip};
use crate::chunk::Chunk;
use crate::error::Result;
use crate::memory::Worker;

/// Whether `node` should be evaluated on a sub-chunk of the `open` rows among `len`. Gathering a row costs about as much as a cheap comparison of
/// eight rows; a heavy expression always costs more than gathering.
pub(super) fn worth_selecting(node: &Node, open: usize, len: usize) -> bool {
    if open == len || node.constant().is_some() {
        false
    } else if node.fallible {
        true
    } else if node.heavy {
        open * 4 <= len * 3
    } else {
        open * 8 <= len
    }
}

/// The conjunction (or disjunction) of a list.
pub(super) fn connect(list: &[Node], conjunction: bool, chunk: &Chunk, worker: &mut Worker) -> Result<Bits> {
    let len = chunk.len();
    let mut result = Bits { truth: Bitmap::new(len, conjunction), valid: None };
    for node in list {
        let open = if conjunction { result.falsehood().not() } else { result.truth.not() };
        let count = open.count_ones();
        if count == 0 {
            break;
        }
        let next = if worth_selecting(node, count, len) {
            let rows = rows_of(&open);
            let part = node.bits(&chunk.selected(&rows), worker)?;
            // Rows left out keep their value: true is neutral for AND, false for OR.
            let at = |bits: &Bitmap| bits_at(rows_of(bits).into_iter().map(|i| rows[i as usize]), len);
            let closed = open.not();
            let mut truth = at(&part.truth);
            if conjunction {
                truth.or_assign(&closed);
            }
            let valid = part.valid.map(|valid| zip(&at(&valid), &closed, |a, b| a | b));
            Bits { truth, valid }
        } else {
            node.bits(chunk, worker)?
        };
        result = if conjunction { result.and(next) } else { result.or(next) };
    }
    Ok(result)
}

/// Whether the input is NULL.
pub(super) fn is_null(input: &Node, chunk: &Chunk, worker: &mut Worker) -> Result<Bits> {
    let len = chunk.len();
    let truth = match input.eval(chunk, worker)? {
        Value::Const(one) => Bitmap::new(len, !one.is_valid(0)),
        Value::Rows(vector) => vector.validity.as_ref().map_or_else(|| Bitmap::new(len, false), Bitmap::not),
    };
    Ok(Bits { truth, valid: None })
}

/// The rows for which a predicate is true, ascending; `None`: all.
pub(super) fn select(node: &Node, chunk: &Chunk, worker: &mut Worker) -> Result<Option<Vec<u32>>> {
    match &node.kind {
        Kind::And(list) => select_all_of(list, chunk, worker),
        _ => {
            let truth = truth(node, chunk, worker)?;
            Ok((!truth.all()).then(|| rows_of(&truth)))
        }
    }
}

/// The rows for which all of `list` are true: once few are left, the rest of the list is evaluated on these only.
fn select_all_of(list: &[Node], chunk: &Chunk, worker: &mut Worker) -> Result<Option<Vec<u32>>> {
    let len = chunk.len();
    let mut kept = Bitmap::new(len, true);
    for (i, node) in list.iter().enumerate() {
        let count = kept.count_ones();
        if count == 0 {
            return Ok(Some(vec![]));
        }
        if worth_selecting(node, count, len) {
            let rows = rows_of(&kept);
            let inner = select_all_of(&list[i..], &chunk.selected(&rows), worker)?;
            return Ok(Some(match inner {
                None => rows,
                Some(inner) => inner.into_iter().map(|i| rows[i as usize]).collect(),
            }));
        }
        kept.and_assign(&truth(node, chunk, worker)?);
    }
    Ok((!kept.all()).then(|| rows_of(&kept)))
}

/// The rows for which a predicate is true. A conjunction or disjunction need not distinguish false from NULL.
pub(super) fn truth(node: &Node, chunk: &Chunk, worker: &mut Worker) -> Result<Bitmap> {
    let len = chunk.len();
    match &node.kind {
        Kind::And(list) => Ok(match select_all_of(list, chunk, worker)? {
            None => Bitmap::new(len, true),
            Some(rows) => bits_at(rows, len),
        }),
        Kind::Or(list) => {
            let mut found = Bitmap::new(len, false);
            for node in list {
                let open = found.not();
                let count = open.count_ones();
                if count == 0 {
                    break;
                }
                if worth_selecting(node, count, len) {
                    let rows = rows_of(&open);
                    let part = truth(node, &chunk.selected(&rows), worker)?;
                    found.or_assign(&bits_at(rows_of(&part).into_iter().map(|i| rows[i as usize]), len));
                } else {
                    found.or_assign(&truth(node, chunk, worker)?);
                }
            }
            Ok(found)
        }
        _ => Ok(node.bits(chunk, worker)?.truth),
    }
}
