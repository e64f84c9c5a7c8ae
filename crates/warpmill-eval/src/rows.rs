//! Rows in memory: the output of a sink, constant rows, and rows passed between back ends.

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

/// The place of a pipeline's execution.
#[derive(Debug, Clone, Default)]
pub enum Placed {
    /// On the CPU back end.
    #[default]
    Here,
    /// On another back end, which keeps the output of the sink.
    Elsewhere,
    /// On another back end up to its sink, to which these rows are added.
    Arrived(Arc<RowSet>),
    /// On another back end, like everything that feeds its sink: these are the sink's rows.
    Finished(Arc<RowSet>),
    /// On another back end up to one of its operators, or its sink, and on the CPU back end from there.
    Resumed {
        /// The rows before that operator: all columns; those that are not read afterwards may have any content.
        rows: Arc<RowSet>,
        /// The number of operators that are done.
        operators: usize,
    },
    /// On the CPU back end for row segments that it claims, and on other sites for theirs, whose results are added to its sink.
    Shared(Arc<SharedScan>),
}
