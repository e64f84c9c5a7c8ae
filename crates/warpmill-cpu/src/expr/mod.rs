//! Expressions over chunks.

use std::sync::Arc;

use warpmill_plan::Expr;

use crate::chunk::Chunk;
use crate::context::{Result, Worker};
use crate::vector::Vector;

/// An expression made ready for execution: shared by all workers.
#[derive(Debug)]
pub struct PreparedExpr {}

impl PreparedExpr {
    /// Prepares `expr`: folds constants, compiles patterns, evaluates sub-expressions over a single dictionary column once
    /// per dictionary entry.
    pub fn new(_expr: &Expr) -> Result<Self> {
        todo!()
    }

    /// The value for every row of `chunk`, dense.
    pub fn eval(&self, _chunk: &Chunk, _worker: &mut Worker) -> Result<Arc<Vector>> {
        todo!()
    }

    /// The logical rows for which a predicate is true, ascending; `None`: all rows.
    pub fn select(&self, _chunk: &Chunk, _worker: &mut Worker) -> Result<Option<Vec<u32>>> {
        todo!()
    }
}
