//! Fields of structs as columns: what scans read, prune by and compare like any other column.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema};
use serde::{Deserialize, Serialize};

use super::TableSnapshot;
use super::manifest::StatsEntry;
use super::version::{Chunk, RowSegment, Source, Version};
use crate::ColumnStats;
use crate::segment::{Encoding, Segment, is_nested};

/// A field of a struct in one row segment, where it is not nested itself: as the manifest has it, by field of the struct, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FieldEntry {
    pub encoding: Encoding,
    #[serde(flatten)]
    pub stats: StatsEntry,
    /// Bytes of its segment.
    pub bytes: u64,
    /// Its own fields, where it is a struct.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldEntry>,
}

impl FieldEntry {
    /// The fields of the structs in `segment`; none where it has others.
    pub fn all(segment: &Segment) -> Vec<Self> {
        let entry = |field: &Segment| Self {
            encoding: field.encoding(),
            stats: StatsEntry::of(field.stats()),
            bytes: field.as_bytes().len() as u64,
            fields: Self::all(field),
        };
        segment.fields().iter().map(entry).collect()
    }

    /// The statistics of the field in `rows` rows; `None` for a bound that is no number.
    pub fn column_stats(&self, rows: usize) -> Option<ColumnStats> {
        self.stats.stats(rows, self.bytes)
    }
}

/// A field of a struct that is no struct itself.
#[derive(Debug, Clone)]
struct Leaf {
    /// The column that the struct is, then the position of each field in the one around it.
    path: Vec<usize>,
    /// Their names, with dots between them.
    name: String,
    data_type: DataType,
}

/// The fields of the structs that are `fields`, or in them; `path` and `name` are those of what is around.
fn leaves(fields: &Fields, around: Option<&Leaf>) -> Vec<Leaf> {
    let of = |(at, field): (usize, &Arc<Field>)| {
        let path = around.map_or(vec![at], |around| [&around.path[..], &[at]].concat());
        let name = around.map_or_else(|| field.name().clone(), |around| format!("{}.{}", around.name, field.name()));
        let own = Leaf { path, name, data_type: field.data_type().clone() };
        match field.data_type() {
            DataType::Struct(inner) => leaves(inner, Some(&own)),
            data_type if around.is_some() && !is_nested(data_type) => vec![own],
            _ => vec![],
        }
    };
    fields.iter().enumerate().flat_map(of).collect()
}

impl TableSnapshot {
    /// The same rows with one more column, behind the others, for each field of a struct (and of structs in structs) whose values are not nested,
    /// and the path of each: the struct's column, then the position of each field in the one around it. NULL where a struct around is.
    /// `None` where there are none.
    pub fn with_struct_fields(&self) -> Option<&(Arc<TableSnapshot>, Vec<Vec<usize>>)> {
        let made = self.struct_fields.get_or_init(|| {
            let known = |leaf: &Leaf| self.parts().segments.iter().all(|row| row.columns[leaf.path[0]].has_fields());
            let leaves: Vec<Leaf> = leaves(self.schema().fields(), None).into_iter().filter(known).collect();
            if leaves.is_empty() {
                return None;
            }
            let paths = leaves.iter().map(|leaf| leaf.path.clone()).collect();
            Some((Self::new(self.path().map(Into::into), with_columns(self.parts(), &leaves)), paths))
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
            let (stats, encoding) = row.columns[path[0]].field(&path[1..], row.rows).expect("a field that is known");
            Chunk::new(stats, encoding, None, Source::Field(path), None)
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
        dictionaries,
        codecs,
        segments: segments.collect(),
        pruning: version.pruning.clone(),
    }
}
