//! Tests of morsels, and of the chunks of scans with few qualifying rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};
use arrow::record_batch::RecordBatch;
use warpmill_format::table::WriteOptions;
use warpmill_format::{Table, TableSnapshot};
use warpmill_ir::{ColType, CompareOp, Expr, ExprKind, Field, PruningMode, Scalar, Scan};

use super::{MORSEL_ROWS, TableSource, in_morsels};
use crate::CHUNK_ROWS;
use crate::chunk::Chunk;
use crate::compaction::Compaction;
use crate::context::{CancelToken, QueryContext, Settings};
use crate::source::ChunkSource;
use crate::vector::Data;

#[test]
fn ranges_of_rows_become_morsels_of_their_row_segments() {
    let rows = [(3, 0, 1024), (3, 4096, 2 * MORSEL_ROWS + 1), (7, 2048, 100), (8, 0, MORSEL_ROWS)];
    let (segments, morsels) = in_morsels(&rows);
    assert_eq!(segments.iter().map(|s| (s.segment, s.left())).collect::<Vec<_>>(), [(3, 4), (7, 1), (8, 1)]);
    let second = 4096 + MORSEL_ROWS;
    let expected = [
        (0, 0, 1024),
        (0, 4096, MORSEL_ROWS),
        (0, second, MORSEL_ROWS),
        (0, second + MORSEL_ROWS, 1),
        (1, 2048, 100),
        (2, 0, MORSEL_ROWS),
    ];
    assert_eq!(morsels, expected);
    assert!(in_morsels(&[]).0.is_empty());
}

const ROWS: i64 = 3 * MORSEL_ROWS as i64 + 1000;

fn number(row: i64) -> Option<i64> {
    (row % 7 != 0).then_some(row * row % 1_000_003)
}

fn flag(row: i64) -> Option<bool> {
    (row % 5 != 0).then_some(row % 3 == 0)
}

fn text(row: i64) -> Option<String> {
    (row % 11 != 0).then(|| format!("row {row}"))
}

/// A table with a column `place`, the number of each row in its block, and other columns with NULLs.
fn table() -> Arc<TableSnapshot> {
    let rows = 0..ROWS;
    let columns: [(&str, ArrayRef, bool); 5] = [
        ("place", Arc::new(rows.clone().map(|row| Some(row % CHUNK_ROWS as i64)).collect::<Int64Array>()), false),
        ("number", Arc::new(rows.clone().map(number).collect::<Int64Array>()), true),
        ("flag", Arc::new(rows.clone().map(flag).collect::<BooleanArray>()), true),
        (
            "ratio",
            Arc::new(rows.clone().map(|row| number(row).map(|n| n as f64 / 4.0)).collect::<Float64Array>()),
            true,
        ),
        ("text", Arc::new(rows.map(text).collect::<StringArray>()), true),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let mut writer = Table::in_memory(batch.schema()).append(WriteOptions::default()).unwrap();
    writer.write(&batch).unwrap();
    writer.commit().unwrap()
}

/// The scan of rows with `place < places`.
fn scan(table: &Arc<TableSnapshot>, places: i128) -> Scan {
    let columns = table.schema().fields().iter();
    let fields: Vec<Field> = columns
        .map(|field| Field {
            name: field.name().clone(),
            ty: ColType::of(field.data_type(), field.is_nullable()).unwrap(),
        })
        .collect();
    let key = fields[0].ty.clone();
    let filter = Expr {
        kind: ExprKind::Compare {
            op: CompareOp::Lt,
            left: Box::new(Expr::column(0, key.clone())),
            right: Box::new(Expr::literal(Scalar::Int(places), key)),
        },
        ty: ColType::of(&arrow::datatypes::DataType::Boolean, false).unwrap(),
    };
    Scan {
        table: table.clone(),
        name: "t".into(),
        columns: (0..fields.len()).collect(),
        fields,
        filters: vec![filter],
        prune: vec![],
        sideways: vec![],
        pruning: PruningMode::All,
    }
}

/// The chunks of `scan`, in the order of the scan.
fn chunks(scan: &Scan, compaction: Compaction) -> Vec<Chunk> {
    let source = TableSource::new(scan, vec![]).unwrap();
    let settings = Settings { compaction, ..Settings::default() };
    let query = Arc::new(QueryContext::new(settings, CancelToken::default()));
    let mut local = source.local(&query);
    let mut chunks = vec![];
    while local
        .next_morsel(&mut |chunk| {
            chunks.push(chunk);
            Ok(())
        })
        .unwrap()
    {}
    chunks
}

/// Checks that `chunks` have the rows of the table with `place < places`, with all values and in order.
fn check(chunks: &[Chunk], places: i64) {
    assert!(chunks.iter().all(|chunk| chunk.len() <= CHUNK_ROWS));
    assert!(chunks.is_sorted_by(|a, b| a.sequence < b.sequence));
    let mut rows = (0..ROWS).filter(|row| row % (CHUNK_ROWS as i64) < places);
    for chunk in chunks {
        let dense = chunk.to_dense();
        for i in 0..chunk.len() {
            let row = rows.next().expect("a row too many");
            let valid = |column: usize| dense[column].is_valid(i);
            let Data::I64(numbers) = &dense[1].data else { panic!("numbers") };
            assert_eq!(valid(1).then(|| numbers[i]), number(row), "row {row}");
            let Data::Bool(flags) = &dense[2].data else { panic!("flags") };
            assert_eq!(valid(2).then(|| flags[i]), flag(row), "row {row}");
            let Data::F64(ratios) = &dense[3].data else { panic!("ratios") };
            assert_eq!(valid(3).then(|| ratios[i]), number(row).map(|n| n as f64 / 4.0), "row {row}");
            let Data::Str(texts) = &dense[4].data else { panic!("texts") };
            assert_eq!(valid(4).then(|| texts[i].as_str().to_string()), text(row), "row {row}");
        }
    }
    assert_eq!(rows.next(), None);
}

#[test]
fn few_rows_of_many_blocks_are_one_chunk() {
    let table = table();
    let blocks = (ROWS as usize).div_ceil(CHUNK_ROWS);
    for (places, compaction, count) in [
        (20, Compaction::Smart, 4),
        (20, Compaction::Logical, 4),
        (20, Compaction::None, blocks),
        // A morsel has more qualifying rows than a chunk holds.
        (200, Compaction::Smart, 3 * 4 + 1),
        (1000, Compaction::Smart, blocks),
        (CHUNK_ROWS as i64, Compaction::Smart, blocks),
        (0, Compaction::Smart, 0),
    ] {
        let found = chunks(&scan(&table, places.into()), compaction);
        check(&found, places);
        assert_eq!(found.len(), count, "{places} rows of each block, {compaction:?}");
    }
}
