//! Rows in memory: the output of a sink, constant rows, and what one back end hands to another.

use std::sync::Arc;

use warpmill_format::{Bitmap, StrView};
use warpmill_ir::{Field, Scalar};

use crate::queue::SharedScan;
use crate::vector::{Data, Vector};

/// Materialized rows: dense batches of any length, in order.
#[derive(Debug, Default)]
pub struct RowSet {
    /// Each batch's columns (equal length) and its number of rows.
    pub batches: Vec<(Vec<Arc<Vector>>, usize)>,
}

impl RowSet {
    /// Number of rows of all batches.
    pub fn rows(&self) -> usize {
        self.batches.iter().map(|(_, rows)| rows).sum()
    }
}

/// Constant rows as a [`RowSet`]; strings point into `rows`, which the running program keeps alive.
pub fn values(rows: &[Vec<Scalar>], fields: &[Field]) -> RowSet {
    let columns = fields
        .iter()
        .enumerate()
        .map(|(c, field)| {
            let mut data = Data::zeros(field.ty.phys, rows.len());
            let validity = Bitmap::from_fn(rows.len(), |r| rows[r][c] != Scalar::Null);
            for (r, row) in rows.iter().enumerate() {
                set(&mut data, r, &row[c]);
            }
            Arc::new(Vector::with_validity(data, Some(validity)))
        })
        .collect();
    RowSet { batches: vec![(columns, rows.len())] }
}

fn set(data: &mut Data, row: usize, value: &Scalar) {
    match (data, value) {
        (_, Scalar::Null) => {}
        (Data::Bool(out), Scalar::Bool(v)) => out[row] = *v,
        (Data::I32(out), Scalar::Int(v)) => out[row] = *v as i32,
        (Data::I64(out), Scalar::Int(v)) => out[row] = *v as i64,
        (Data::I128(out), Scalar::Int(v)) => out[row] = *v,
        (Data::Code(out), Scalar::Int(v)) => out[row] = *v as u32,
        (Data::F32(out), Scalar::Float(v)) => out[row] = *v as f32,
        (Data::F64(out), Scalar::Float(v)) => out[row] = *v,
        (Data::Str(out), Scalar::Str(v)) => out[row] = StrView::new(v),
        (data, value) => unreachable!("constant {value:?} in a column of {:?}", data.phys()),
    }
}

/// The place where a pipeline of a program is run.
#[derive(Debug, Clone, Default)]
pub enum Placed {
    /// By the CPU back end.
    #[default]
    Here,
    /// By another back end, which keeps what its sink holds.
    Elsewhere,
    /// By another back end up to its sink, at which these rows arrive.
    Arrived(Arc<RowSet>),
    /// By another back end, as all that feed its sink: these are the sink's rows.
    Finished(Arc<RowSet>),
    /// By another back end up to one of its operators, or its sink, and by the CPU back end from there.
    Resumed {
        /// The rows that arrive there: all columns, of which those that nothing reads from there on may hold anything.
        rows: Arc<RowSet>,
        /// The number of operators that are done.
        operators: usize,
    },
    /// By the CPU back end on row segments that it claims, and by other sites on theirs; what these have done arrives at its sink.
    Shared(Arc<SharedScan>),
}
