//! Expressions over chunks.
//!
//! An [`Expr`] is prepared once ([`PreparedExpr::new`]) and evaluated by all workers:
//! - `node`: the prepared tree and its evaluation; `prepare`: its preparation;
//! - `value`: operands as columns or broadcast constants, truth values as bits;
//! - `arith`, `compare`, `cast`: loops over slices, one per representation and operation;
//! - `logic`, `branch`: three-valued logic, selection and CASE, each part on the rows that need it;
//! - `call`: functions of whole vectors: `text`, `math`, `dates`, `members` (IN lists); `text/test`: tests of texts that scans evaluate on symbols;
//! - `lookup`: sub-expressions over one dictionary column become tables indexed by code;
//! - `recode`: strings computed from a few dictionary columns become codes of a new dictionary;
//! - `range`: predicates that a scan can evaluate on encoded values.

use std::sync::Arc;

use warpmill_format::Bitmap;
use warpmill_ir::{Expr, Phys};

use crate::chunk::Chunk;
use crate::error::Result;
use crate::memory::{QueryMemory, StringArena, Worker};
use crate::vector::Vector;

mod arith;
mod branch;
mod call;
mod cast;
mod compare;
mod dates;
mod logic;
mod lookup;
mod math;
mod members;
mod node;
mod prepare;
mod range;
mod recode;
mod text;
mod value;

pub use lookup::{Table, code_set, fold, tabulate};
pub use range::int_range;
pub use recode::recode;
pub use text::test::TextTest;

#[cfg(test)]
mod tests;

/// A prepared expression, shared by all workers.
///
/// It owns the bytes of its string literals and of strings computed once per dictionary entry: results refer to them, so it must live until the
/// query's results have been copied out (the pipelines that own it do).
#[derive(Debug)]
pub struct PreparedExpr {
    root: node::Node,
    code_set: Option<(usize, Bitmap)>,
    int_range: Option<(usize, i128, i128)>,
    text_test: Option<Arc<TextTest>>,
    _strings: StringArena,
}

impl PreparedExpr {
    /// Prepares `expr`: folds constants, compiles patterns, evaluates sub-expressions over a single dictionary column once
    /// per dictionary entry.
    pub fn new(expr: &Expr) -> Result<Self> {
        let mut worker = Worker::new(&Arc::new(QueryMemory::for_planning()));
        let root = prepare::with_lookups(expr, &mut worker)?;
        let code_set = match &root.kind {
            _ if expr.ty.phys != Phys::Bool => None,
            node::Kind::Lookup(lookup) => lookup.code_set().map(|set| (lookup.column, set)),
            _ => lookup::Lookup::tabulate(expr, &mut worker)
                .and_then(|lookup| lookup.code_set().map(|set| (lookup.column, set))),
        };
        let (int_range, text_test) = (range::int_range(expr), TextTest::of(expr).map(Arc::new));
        Ok(Self { root, code_set, int_range, text_test, _strings: std::mem::take(&mut worker.strings) })
    }

    /// The representation of its values.
    pub fn phys(&self) -> Phys {
        self.root.phys()
    }

    /// The value for every row of `chunk`, dense.
    pub fn eval(&self, chunk: &Chunk, worker: &mut Worker) -> Result<Arc<Vector>> {
        if chunk.is_empty() {
            return Ok(Arc::new(Vector::nulls(self.root.phys(), 0)));
        }
        Ok(self.root.eval(chunk, worker)?.into_vector(chunk.len()))
    }

    /// The logical rows for which a predicate is true, ascending; `None`: all rows.
    pub fn select(&self, chunk: &Chunk, worker: &mut Worker) -> Result<Option<Vec<u32>>> {
        if chunk.is_empty() {
            return Ok(None);
        }
        logic::select(&self.root, chunk, worker)
    }

    /// For a predicate on one dictionary column that is not true for NULL: the column and the codes for which it is true. Scans evaluate it without
    /// decoding strings ([`warpmill_format::Segment::select_codes`]).
    pub fn as_code_set(&self) -> Option<(usize, &Bitmap)> {
        self.code_set.as_ref().map(|(column, set)| (*column, set))
    }

    /// For a predicate that is true exactly if an integer column is not NULL and within bounds: the column and the inclusive bounds (`lo > hi` if no
    /// value is). Scans prune by it and evaluate it on encoded values ([`warpmill_format::Segment::select_range`]).
    pub fn as_int_range(&self) -> Option<(usize, i128, i128)> {
        self.int_range
    }

    /// For a predicate that is true exactly if a string column is not NULL and its text passes a test: that test. Scans evaluate it without decoding
    /// strings ([`warpmill_format::Segment::and_text`]).
    pub fn as_text_test(&self) -> Option<&Arc<TextTest>> {
        self.text_test.as_ref()
    }
}
