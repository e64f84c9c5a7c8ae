//! Chunks of joined rows, without copying values.

use std::sync::Arc;

use crate::chunk::{Chunk, Column, Selection, Values};
use crate::vector::{Data, Vector};

/// The columns of a joined chunk as indices into the input columns, then the payload columns, then the mark.
#[derive(Debug)]
pub(super) struct Output {
    pub columns: Vec<usize>,
}

/// The rows of both sides of a joined chunk.
pub(super) struct Joined<'a> {
    pub input: &'a Chunk,
    /// Rows of the input; `None`: all.
    pub rows: Option<Arc<Vec<u32>>>,
    pub payload: &'a [Arc<Vector>],
    /// Rows of the payload. Unused by join kinds that emit no payload.
    pub build: Option<Selection>,
    pub mark: Option<Vector>,
}

impl Output {
    pub fn chunk(&self, joined: Joined<'_>) -> Chunk {
        let Joined { input, rows, payload, build, mark } = joined;
        let len = rows.as_ref().map_or(input.len(), |rows| rows.len());
        if self.columns.is_empty() {
            let mut chunk = Chunk::without_columns(len);
            chunk.sequence = input.sequence;
            return chunk;
        }
        let inputs = input.columns().len();
        let mut groups = Vec::with_capacity(input.groups().len() + 2);
        let mut group_of = vec![usize::MAX; input.groups().len()];
        let (mut build_group, mut mark) = (usize::MAX, mark);
        let columns = self.columns.iter().map(|&index| {
            if index < inputs {
                let column = &input.columns()[index];
                let group = &mut group_of[column.group];
                if *group == usize::MAX {
                    *group = groups.len();
                    groups.push(select(&input.groups()[column.group], rows.as_ref()));
                }
                return Column { values: column.values.clone(), group: *group };
            }
            if let Some(vector) = payload.get(index - inputs) {
                if build_group == usize::MAX {
                    build_group = groups.len();
                    groups.push(build.clone().expect("a join kind with payload"));
                }
                return Column { values: Values::Vector(vector.clone()), group: build_group };
            }
            let mark = mark.take().expect("the mark, once");
            debug_assert!(matches!(mark.data, Data::Bool(_)));
            groups.push(Selection::Range { start: 0 });
            Column { values: Values::Vector(Arc::new(mark)), group: groups.len() - 1 }
        });
        let columns = columns.collect();
        let mut chunk = Chunk::from_parts(len, columns, groups);
        chunk.sequence = input.sequence;
        chunk
    }
}

/// Rows `rows` of a selection; `None`: all.
fn select(group: &Selection, rows: Option<&Arc<Vec<u32>>>) -> Selection {
    let Some(rows) = rows else { return group.clone() };
    let pick = |old: &[u32]| Arc::new(rows.iter().map(|&row| old[row as usize]).collect());
    match group {
        Selection::Range { start: 0 } => Selection::Rows(rows.clone()),
        Selection::Range { start } => Selection::Rows(Arc::new(rows.iter().map(|row| row + start).collect())),
        Selection::Rows(old) => Selection::Rows(pick(old)),
        Selection::RowsOrNull(old) => Selection::RowsOrNull(pick(old)),
    }
}
