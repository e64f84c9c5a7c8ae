//! Parts of nested values as columns: fields of structs and lengths of lists, which scans read, prune by and compare like any other column.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema};
use serde::{Deserialize, Serialize};

use super::TableSnapshot;
use super::chunk::{Chunk, Source};
use super::manifest::StatsEntry;
use super::version::{RowSegment, Version};
use crate::ColumnStats;
use crate::segment::{Encoding, Segment, is_nested};

/// A part of the nested values of one row segment, as the manifest has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PartEntry {
    pub rows: usize,
    pub encoding: Encoding,
    #[serde(flatten)]
    pub stats: StatsEntry,
    /// Bytes of its segment.
    pub bytes: u64,
    /// Its own parts, where it is nested itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartEntry>,
}

impl PartEntry {
    /// The parts of the values in `segment`.
    pub fn all(segment: &Segment) -> Vec<Self> {
        let entry = |part: &Segment| Self {
            rows: part.rows(),
            encoding: part.encoding(),
            stats: StatsEntry::of(part.stats()),
            bytes: part.as_bytes().len() as u64,
            parts: Self::all(part),
        };
        segment.parts().iter().map(entry).collect()
    }

    /// The statistics of the part; `None` for a bound that is no number.
    pub fn column_stats(&self) -> Option<ColumnStats> {
        self.stats.stats(self.rows, self.bytes)
    }
}

/// A part of nested values that has one value, not nested, a row.
#[derive(Debug, Clone)]
struct Leaf {
    /// The column, then the position of each part in the one around it.
    path: Vec<usize>,
    /// The names of the structs around it and its own, with dots between them.
    name: String,
    data_type: DataType,
}

/// The leaves of columns, or of the fields of the struct that is `around`.
fn leaves(fields: &Fields, around: Option<&Leaf>) -> Vec<Leaf> {
    let of = |(at, field): (usize, &Arc<Field>)| {
        let path = around.map_or(vec![at], |around| [&around.path[..], &[at]].concat());
        let name = around.map_or_else(|| field.name().clone(), |around| format!("{}.{}", around.name, field.name()));
        let own = Leaf { path, name, data_type: field.data_type().clone() };
        match field.data_type() {
            DataType::Struct(inner) => leaves(inner, Some(&own)),
            DataType::List(_) | DataType::Map(..) | DataType::Binary => {
                let (path, name) = ([&own.path[..], &[0]].concat(), format!("{}.length", own.name));
                vec![Leaf { path, name, data_type: DataType::UInt32 }]
            }
            data_type if around.is_some() && !is_nested(data_type) => vec![own],
            _ => vec![],
        }
    };
    fields.iter().enumerate().flat_map(of).collect()
}

/// A version of a table with parts of nested values as further columns.
#[derive(Debug)]
pub struct WithParts {
    /// The version: the further columns are behind the others.
    pub table: Arc<TableSnapshot>,
    /// Of each further column: the column that it is a part of, then the position of each field in the struct around it, 0 for lengths.
    pub paths: Vec<Vec<usize>>,
}

impl TableSnapshot {
    /// The same rows with further columns behind the others: the fields of structs (also of structs in structs) that are not nested, NULL where a
    /// struct around is, and the lengths of lists, maps and bytes, NULL where these are. `None` where there are none.
    pub fn with_parts(&self) -> Option<&WithParts> {
        let made = self.with_parts.get_or_init(|| {
            let known = |leaf: &Leaf| self.parts().segments.iter().all(|row| row.columns[leaf.path[0]].has_parts());
            let leaves: Vec<Leaf> = leaves(self.schema().fields(), None).into_iter().filter(known).collect();
            if leaves.is_empty() {
                return None;
            }
            let paths = leaves.iter().map(|leaf| leaf.path.clone()).collect();
            let table = Self::new(self.path().map(Into::into), with_columns(self.parts(), &leaves));
            Some(WithParts { table, paths })
        });
        made.as_ref()
    }
}

/// `version` with `leaves` as further columns.
fn with_columns(version: &Version, leaves: &[Leaf]) -> Version {
    let mut fields: Vec<Arc<Field>> = version.schema.fields().iter().cloned().collect();
    fields.extend(leaves.iter().map(|leaf| Arc::new(Field::new(&leaf.name, leaf.data_type.clone(), true))));
    let segments = version.segments.iter().map(|row| {
        let own = leaves.iter().map(|leaf| {
            let path: Arc<[usize]> = leaf.path[..].into();
            let (stats, encoding) = row.columns[path[0]].part(&path[1..]).expect("a part that is known");
            Chunk::new(stats, encoding, None, Source::Part(path), None)
        });
        RowSegment { rows: row.rows, columns: row.columns.iter().cloned().chain(own).collect() }
    });
    let mut codecs = version.codecs.clone();
    if !codecs.is_empty() {
        codecs.resize(fields.len(), None);
    }
    let mut dictionaries = version.dictionaries.clone();
    dictionaries.resize(fields.len(), None);
    Version {
        number: version.number,
        identity: version.identity,
        schema: Arc::new(Schema::new_with_metadata(fields, version.schema.metadata().clone())),
        constraints: Arc::clone(&version.constraints),
        dictionaries,
        codecs,
        segments: segments.collect(),
        pruning: version.pruning.clone(),
    }
}
