//! Children of nested values as columns: scans read, prune by and compare fields of structs and lengths of lists like any other column.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema};
use serde::{Deserialize, Serialize};

use super::TableSnapshot;
use super::chunk::{Chunk, Source};
use super::manifest::StatsEntry;
use super::version::{RowSegment, Version};
use crate::ColumnStats;
use crate::segment::{Encoding, Segment, is_nested};

/// The manifest's entry for a child of the nested values of one row segment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PartEntry {
    pub rows: usize,
    pub encoding: Encoding,
    #[serde(flatten)]
    pub stats: StatsEntry,
    /// Bytes of its segment.
    pub bytes: u64,
    /// Its own children, if it is nested itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartEntry>,
}

impl PartEntry {
    /// The entries for the children of the values in `segment`.
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

/// A non-nested child with one value per row.
#[derive(Debug, Clone)]
struct Leaf {
    /// The column, then the index of each child in its parent.
    path: Vec<usize>,
    /// The names of its parent structs and its own, separated by dots.
    name: String,
    data_type: DataType,
}

/// The leaves of columns, or of the fields of the struct `around`.
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

/// A version of a table with children of nested values as additional columns.
#[derive(Debug)]
pub struct WithParts {
    /// The version: the additional columns follow the others.
    pub table: Arc<TableSnapshot>,
    /// For each additional column: its column, then the index of each field in its parent struct; 0 for lengths.
    pub paths: Vec<Vec<usize>>,
}

impl TableSnapshot {
    /// The same rows with additional columns after the others: the non-nested fields of structs (also of nested structs), NULL where a parent struct
    /// is, and the lengths of lists, maps and binary values, NULL where these are. `None` if there are none.
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

/// `version` with `leaves` as additional columns.
fn with_columns(version: &Version, leaves: &[Leaf]) -> Version {
    let mut fields: Vec<Arc<Field>> = version.schema.fields().iter().cloned().collect();
    fields.extend(leaves.iter().map(|leaf| Arc::new(Field::new(&leaf.name, leaf.data_type.clone(), true))));
    let segments = version.segments.iter().map(|row| {
        let own = leaves.iter().map(|leaf| {
            let path: Arc<[usize]> = leaf.path[..].into();
            let (stats, encoding) = row.columns[path[0]].part(&path[1..]).expect("a part that is known");
            Chunk::new(stats, encoding, None, Source::Part(path), None)
        });
        let columns = row.columns.iter().cloned().chain(own).collect();
        RowSegment { rows: row.rows, columns, deletions: row.deletions.clone() }
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
