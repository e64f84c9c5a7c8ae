//! Row segments to write, of new rows and of the base version's rows, and their positions in the new version.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, NullBufferBuilder};
use arrow::record_batch::RecordBatch;

use super::changes::{Coded, Rewrite, without};
use super::chunk::Chunk;
use super::decode::{column_array, column_codes};
use super::interner::Interner;
use super::regroup::Origin;
use super::snapshot::TableSnapshot;
use super::strings::{Candidate, NarrowCodes};
use super::version::RowSegment;
use crate::{Dictionary, Result};

/// A written row segment: its number of rows and, by column, its chunk; `None`: the base version's.
pub(super) type Written = (usize, Vec<Option<Arc<Chunk>>>);

/// The rows of a row segment to write.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a> {
    /// New ones, in parts.
    Parts(&'a [RecordBatch]),
    /// Rows of one row segment of the base version, with changes.
    Changed(&'a Rewrite<'a>),
    /// Rows of row segments of the base version that are next to each other, without deleted ones.
    Merged(&'a Arc<TableSnapshot>, &'a Range<usize>),
}

impl Rows<'_> {
    pub fn rows(&self) -> usize {
        match self {
            Rows::Parts(parts) => parts.iter().map(|part| part.num_rows()).sum(),
            Rows::Changed(changed) => changed.rows(),
            Rows::Merged(base, range) => (*range).clone().map(|segment| base.kept_rows(segment)).sum(),
        }
    }

    /// The row segments of the base version that they replace.
    pub fn place(&self) -> Option<Range<usize>> {
        match self {
            Rows::Parts(_) => None,
            Rows::Changed(changed) => Some(changed.own.segment()..changed.own.segment() + 1),
            Rows::Merged(_, range) => Some((*range).clone()),
        }
    }

    pub fn is_same(&self, column: usize) -> bool {
        matches!(self, Rows::Changed(changed) if changed.is_same(column))
    }

    /// A column, in parts.
    pub fn arrays(&self, column: usize) -> Result<Vec<ArrayRef>> {
        match self {
            Rows::Parts(parts) => Ok(parts.iter().map(|part| part.column(column).clone()).collect()),
            Rows::Changed(changed) => Ok(vec![changed.array(column)?]),
            Rows::Merged(base, range) => {
                let kept = |segment: usize| {
                    let array = column_array(base, segment, column)?;
                    Ok(match base.kept(segment)? {
                        Some(kept) => arrow::compute::filter(&array, &kept)?,
                        None => array,
                    })
                };
                (*range).clone().map(kept).collect()
            }
        }
    }

    /// A dictionary column of the base version; `None` if the rows are not the base version's.
    pub fn coded(&self, column: usize) -> Result<Option<Coded>> {
        match self {
            Rows::Parts(_) => Ok(None),
            Rows::Changed(changed) if changed.all.table().dictionary(column).is_none() => Ok(None),
            Rows::Changed(changed) => changed.coded(column).map(Some),
            Rows::Merged(base, _) if base.dictionary(column).is_none() => Ok(None),
            Rows::Merged(base, range) => {
                let (mut codes, mut valid) = (vec![], NullBufferBuilder::new(self.rows()));
                for segment in (*range).clone() {
                    let (mut own, mut nulls) = column_codes(base, segment, column)?;
                    if let Some(deleted) = base.deleted(segment)? {
                        (own, nulls) = without(deleted, &own, nulls.as_ref());
                    }
                    match nulls {
                        Some(nulls) => valid.append_buffer(&nulls),
                        None => valid.append_n_non_nulls(own.len()),
                    }
                    codes.extend(own);
                }
                Ok(Some(Coded { codes, nulls: valid.finish(), new: Interner::new() }))
            }
        }
    }
}

/// A row segment with these chunks; missing ones are taken from `base`, and deletions if it has all of its rows.
pub(super) fn row_segment((rows, chunks): Written, base: Option<&RowSegment>) -> RowSegment {
    let deletions = base.filter(|base| base.rows == rows).and_then(|base| base.deletions.clone());
    let chunk = |(column, chunk): (usize, Option<Arc<Chunk>>)| {
        chunk.or_else(|| base.map(|base| base.columns[column].clone())).expect("every chunk has been encoded")
    };
    RowSegment { rows, columns: chunks.into_iter().enumerate().map(chunk).collect(), deletions }
}

/// The row segments of the base version, with some replaced by written ones, followed by the other written ones.
pub(super) fn placed(
    base: Vec<RowSegment>,
    own: Vec<Written>,
    places: &BTreeMap<usize, (usize, Option<usize>)>,
) -> Vec<(Origin, RowSegment)> {
    let mut own: Vec<Option<Written>> = own.into_iter().map(Some).collect();
    let (mut all, mut next) = (vec![], 0);
    while next < base.len() {
        match places.get(&next) {
            None => {
                all.push((Origin { base: Some(next), own: None, same: vec![] }, base[next].clone()));
                next += 1;
            }
            Some(&(count, position)) => {
                if let Some(position) = position
                    && let Some((rows, chunks)) = own[position].take()
                {
                    let same: Vec<bool> = chunks.iter().map(Option::is_none).collect();
                    let segment = row_segment((rows, chunks), (count == 1).then_some(&base[next]));
                    all.push((Origin { base: (count == 1).then_some(next), own: Some(position), same }, segment));
                }
                next += count;
            }
        }
    }
    for (position, written) in own.into_iter().enumerate() {
        if let Some((rows, chunks)) = written {
            all.push((Origin { base: None, own: Some(position), same: vec![] }, row_segment((rows, chunks), None)));
        }
    }
    all
}

/// Adds a row segment to `candidate` with codes of the base version's dictionary, its first entries, and of new strings.
pub(super) fn hold(candidate: &mut Candidate, position: usize, coded: Coded, dictionary: Option<&Arc<Dictionary>>) {
    let known = dictionary.map_or(0, |dictionary| dictionary.len()) as u32;
    let entries: Vec<u32> = (0..known).chain(candidate.intern(&coded.new)).collect();
    let most = entries.iter().max().copied().unwrap_or(0);
    let mut codes = NarrowCodes::with_capacity(most, coded.codes.len());
    codes.extend(&coded.codes, &entries);
    candidate.hold(position, codes, coded.nulls);
}
