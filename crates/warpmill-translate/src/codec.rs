//! Serialization of scans: plans for other processes refer to tables by path and version.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use datafusion::common::{DataFusionError, Result, exec_datafusion_err, not_impl_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use warpmill_format::table::Identity;
use warpmill_format::{FormatError, Table, TableSnapshot};

use crate::scan_exec::{RowsOfPart, WarpmillScanExec};

/// Serializes and deserializes [`WarpmillScanExec`]s for DataFusion's plan encoding. Both processes must see the tables' folders under the same
/// paths.
#[derive(Debug, Default)]
pub struct ScanCodec;

/// The serialized form of a scan.
#[derive(Debug, Serialize, Deserialize)]
struct Encoded {
    path: PathBuf,
    version: u64,
    identity: Option<Identity>,
    name: String,
    projection: Vec<usize>,
    part: Option<RowsOfPart>,
}

impl PhysicalExtensionCodec for ScanCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        _: &[Arc<dyn ExecutionPlan>],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let encoded = serde_json::from_slice(bytes);
        let encoded: Encoded = encoded.map_err(|error| exec_datafusion_err!("this is no scan in bytes: {error}"))?;
        let whole = TABLES.version(&encoded)?;
        if encoded.projection.iter().any(|&column| column >= whole.schema().fields().len()) {
            return Err(gone(&encoded.path, encoded.version));
        }
        let scan =
            WarpmillScanExec::try_new(Arc::clone(&whole), encoded.name.as_str(), Some(encoded.projection.clone()))?;
        let Some(rows) = encoded.part.clone() else { return Ok(Arc::new(scan)) };
        let has_segments = rows.segments.start <= rows.segments.end && rows.segments.end <= whole.num_segments();
        let has_keys = rows.keys.as_ref().is_none_or(|keys| keys.column < encoded.projection.len());
        if !has_segments || !has_keys {
            return Err(gone(&encoded.path, encoded.version));
        }
        Ok(Arc::new(scan.of_part(TABLES.part(&encoded, &whole, rows.segments.clone()), rows)))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(scan) = node.downcast_ref::<WarpmillScanExec>() else {
            return not_impl_err!("{} runs in this process only", node.name());
        };
        let whole = scan.part().map_or(scan.table(), |part| &part.whole);
        let Some(path) = whole.path().filter(|_| !whole.is_parquet()) else {
            return not_impl_err!("table {} is in the memory of this process", scan.table_name());
        };
        let encoded = Encoded {
            path: path.to_path_buf(),
            version: whole.version(),
            identity: whole.identity(),
            name: scan.table_name().to_string(),
            projection: scan.projection().to_vec(),
            part: scan.part().map(|part| part.rows.clone()),
        };
        serde_json::to_writer(bytes, &encoded).map_err(|error| DataFusionError::External(Box::new(error)))
    }
}

fn gone(path: &Path, version: u64) -> DataFusionError {
    exec_datafusion_err!("{} has no version {version} like the one that the query was planned for", path.display())
}

fn unreadable(error: FormatError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Versions and parts of tables that deserialized plans refer to. Each scan of a version gets the same object, because devices key their caches by
/// it.
#[derive(Default)]
struct Tables {
    kept: Mutex<HashMap<PathBuf, Opened>>,
}

/// A table, the newest version requested so far, and its parts.
struct Opened {
    table: Arc<Table>,
    version: Option<Arc<TableSnapshot>>,
    parts: HashMap<(usize, usize), Arc<TableSnapshot>>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(Tables::default);

/// Largest number of open tables; when it is exceeded all are dropped.
const MOST_TABLES: usize = 1024;

impl Tables {
    /// The table version that a scan reads.
    ///
    /// # Errors
    /// The table does not exist, is a different one, or no longer has the version.
    fn version(&self, scan: &Encoded) -> Result<Arc<TableSnapshot>> {
        let same = |version: &TableSnapshot| version.version() == scan.version && version.identity() == scan.identity;
        let known = {
            let kept = self.kept.lock();
            kept.get(&scan.path).map(|opened| (Arc::clone(&opened.table), opened.version.clone()))
        };
        if let Some((_, Some(version))) = &known
            && same(version)
        {
            return Ok(Arc::clone(version));
        }
        // A table that replaced another at the same path must be opened anew.
        let table = match known {
            Some((table, _)) if table.snapshot().is_ok_and(|newest| newest.identity() == scan.identity) => table,
            _ => Table::open(&scan.path).map_err(unreadable)?,
        };
        let version = table.snapshot_at(scan.version).map_err(unreadable)?;
        if !same(&version) {
            return Err(gone(&scan.path, scan.version));
        }
        let mut kept = self.kept.lock();
        if kept.len() >= MOST_TABLES {
            kept.clear();
        }
        let opened = Opened { table, version: Some(Arc::clone(&version)), parts: HashMap::new() };
        kept.insert(scan.path.clone(), opened);
        Ok(version)
    }

    /// Row segments `segments` of `whole`, for `scan`.
    fn part(&self, scan: &Encoded, whole: &Arc<TableSnapshot>, segments: Range<usize>) -> Arc<TableSnapshot> {
        let mut kept = self.kept.lock();
        match kept.get_mut(&scan.path) {
            Some(opened) if opened.version.as_ref().is_some_and(|version| Arc::ptr_eq(version, whole)) => {
                let key = (segments.start, segments.end);
                Arc::clone(opened.parts.entry(key).or_insert_with(|| whole.part(segments)))
            }
            _ => whole.part(segments),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};
    use arrow::record_batch::RecordBatch;
    use datafusion::prelude::SessionContext;
    use datafusion_proto::bytes::{
        physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec,
    };
    use warpmill_format::table::WriteOptions;
    use warpmill_ir::key_range::KeyRange;

    use super::*;
    use crate::scan_exec::KeysOfPart;

    fn rows(from: i64, count: i64) -> RecordBatch {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + count));
        RecordBatch::try_from_iter([("a", values.clone()), ("b", values)]).unwrap()
    }

    fn written(path: &Path, batches: &[RecordBatch]) -> Arc<TableSnapshot> {
        let options = WriteOptions { segment_rows: 1024, ..WriteOptions::default() };
        let mut writer = Table::build(path, batches[0].schema(), options).unwrap();
        for batch in batches {
            writer.write(batch).unwrap();
        }
        writer.commit().unwrap();
        Table::open(path).unwrap().snapshot().unwrap()
    }

    fn there_and_back(scan: WarpmillScanExec) -> Result<Arc<dyn ExecutionPlan>> {
        let bytes = physical_plan_to_bytes_with_extension_codec(Arc::new(scan), &ScanCodec)?;
        let context = SessionContext::new().task_ctx();
        physical_plan_from_bytes_with_extension_codec(&bytes, &context, &ScanCodec)
    }

    #[test]
    fn a_scan_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let table = written(&folder.path().join("t"), &[rows(0, 3000)]);
        let scan = WarpmillScanExec::try_new(Arc::clone(&table), "t", Some(vec![1])).unwrap();
        let keys = KeysOfPart { column: 0, range: KeyRange { least: i128::MIN, greatest: 2000 } };
        let rows = |segments: Range<usize>| RowsOfPart { segments, keys: Some(keys.clone()) };
        let back = there_and_back(scan.of_part(table.part(1..3), rows(1..3))).unwrap();
        let back = back.downcast_ref::<WarpmillScanExec>().unwrap();
        assert_eq!((back.projection(), back.table().num_rows()), (&[1][..], 3000 - 1024));
        assert_eq!(back.part().unwrap().rows, rows(1..3));
        // Deserializing again returns the same object for a part.
        let again = there_and_back(scan.of_part(table.part(1..3), rows(1..3))).unwrap();
        assert!(Arc::ptr_eq(back.table(), again.downcast_ref::<WarpmillScanExec>().unwrap().table()));
        let empty = there_and_back(scan.of_part(table.part(3..3), rows(3..3))).unwrap();
        assert_eq!(empty.downcast_ref::<WarpmillScanExec>().unwrap().table().num_rows(), 0);
    }

    #[test]
    fn another_table_of_the_same_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let old = written(&path, &[rows(0, 10)]);
        Table::remove(&path).unwrap();
        written(&path, &[rows(0, 10)]);
        let message = there_and_back(WarpmillScanExec::try_new(old, "t", None).unwrap()).unwrap_err().to_string();
        assert!(message.contains("version"), "{message}");
    }

    #[test]
    fn a_table_in_memory_stays_here() {
        let table = Table::in_memory(rows(0, 1).schema()).snapshot().unwrap();
        let scan = WarpmillScanExec::try_new(table, "t", None).unwrap();
        let message = there_and_back(scan).unwrap_err().to_string();
        assert!(message.contains("memory of this process"), "{message}");
    }
}
