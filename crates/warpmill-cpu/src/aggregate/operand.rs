//! Group keys, arguments and sort keys, ready for evaluation by sinks.

use std::sync::Arc;

use warpmill_ir::{Expr, ExprKind};

use crate::chunk::Chunk;
use crate::context::{Result, Worker};
use crate::expr::PreparedExpr;
use crate::vector::Vector;

/// An expression over a sink's input. Plain columns, the usual case, need no evaluation.
#[derive(Debug)]
pub(crate) enum Operand {
    /// Column of the input.
    Column(usize),
    /// Any other expression.
    Expr(Box<PreparedExpr>),
}

impl Operand {
    /// Prepares `expr`.
    pub fn new(expr: &Expr) -> Result<Self> {
        Ok(match expr.kind {
            ExprKind::Column(index) => Self::Column(index),
            _ => Self::Expr(Box::new(PreparedExpr::new(expr)?)),
        })
    }

    /// The dense values of all rows of `chunk`.
    pub fn eval(&self, chunk: &Chunk, worker: &mut Worker) -> Result<Arc<Vector>> {
        match self {
            Self::Column(index) => Ok(chunk.dense(*index).clone()),
            Self::Expr(expr) => expr.eval(chunk, worker),
        }
    }
}
