//! Functions of positions: row numbers, ranks, and shares.

use std::ops::Range;

use warpmill_ir::{Phys, WindowFunction};

use super::order::{Order, Piece};
use crate::context::{ExecError, Result};
use crate::vector::Data;

/// The values at positions `rows` of a function without arguments; `None` for other functions.
pub(super) fn positions(
    function: &WindowFunction,
    phys: Phys,
    order: &Order,
    rows: Range<usize>,
) -> Result<Option<Data>> {
    let groups = &order.groups;
    let start = |piece: &Piece| piece.partition.start;
    let count = |piece: &Piece| piece.partition.len();
    Ok(Some(match function {
        WindowFunction::RowNumber => numbers(phys, order, rows, |piece, row, _| row - start(piece) + 1)?,
        WindowFunction::Rank => {
            numbers(phys, order, rows, |piece, _, group| groups[group] as usize - start(piece) + 1)?
        }
        WindowFunction::DenseRank => numbers(phys, order, rows, |piece, _, group| group - piece.groups.start + 1)?,
        WindowFunction::Ntile(parts) => {
            numbers(phys, order, rows, |piece, row, _| tile(row - start(piece), count(piece), *parts))?
        }
        WindowFunction::PercentRank => shares(order, rows, |piece, group| {
            let others = (count(piece) - 1).max(1);
            (groups[group] as usize - start(piece)) as f64 / others as f64
        }),
        WindowFunction::CumeDist => {
            shares(order, rows, |piece, group| (groups[group + 1] as usize - start(piece)) as f64 / count(piece) as f64)
        }
        _ => return Ok(None),
    }))
}

/// The index of the tile, of `parts`, to which row `row` of `rows` belongs.
fn tile(row: usize, rows: usize, parts: u64) -> usize {
    let parts = usize::try_from(parts).unwrap_or(usize::MAX);
    let (size, larger) = (rows / parts, rows % parts);
    let in_larger = larger * (size + 1);
    if row < in_larger { row / (size + 1) + 1 } else { larger + (row - in_larger) / size + 1 }
}

/// Computes numbers from piece, row and group.
fn numbers(
    phys: Phys,
    order: &Order,
    rows: Range<usize>,
    number: impl Fn(&Piece, usize, usize) -> usize,
) -> Result<Data> {
    macro_rules! held {
        ($variant:ident, $t:ty) => {{
            let mut numbers: Vec<$t> = Vec::with_capacity(rows.len());
            for piece in order.pieces(rows) {
                piece.for_each(order, |row, group| numbers.push(number(&piece, row, group) as $t));
            }
            Data::$variant(numbers)
        }};
    }
    Ok(match phys {
        Phys::I32 => held!(I32, i32),
        Phys::I64 => held!(I64, i64),
        Phys::I128 => held!(I128, i128),
        phys => return Err(ExecError::Unsupported(format!("positions held as {phys:?}"))),
    })
}

/// Computes shares from piece and group.
fn shares(order: &Order, rows: Range<usize>, share: impl Fn(&Piece, usize) -> f64) -> Data {
    let mut shares = Vec::with_capacity(rows.len());
    for piece in order.pieces(rows) {
        piece.for_each(order, |_, group| shares.push(share(&piece, group)));
    }
    Data::F64(shares)
}

#[cfg(test)]
mod tests {
    use super::tile;

    #[test]
    fn larger_parts_come_first() {
        let parts = |rows: usize, parts: u64| (0..rows).map(|row| tile(row, rows, parts)).collect::<Vec<_>>();
        assert_eq!(parts(10, 4), [1, 1, 1, 2, 2, 2, 3, 3, 4, 4]);
        assert_eq!(parts(3, 5), [1, 2, 3]);
        assert_eq!(parts(4, 1), [1, 1, 1, 1]);
    }
}
