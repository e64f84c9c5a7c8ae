//! Columns encoded from pieces contain the original values.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use proptest::prelude::*;

use super::*;
use crate::StrView;

/// Rows of a column: values, `None` where null.
type Rows<T> = Vec<Option<T>>;

/// Divides `rows` into pieces of `piece_rows` rows, filled by `fill` two rows at a time, and encodes them in row segments of `segment_rows` rows, the
/// last one first.
fn encoded<T: Clone>(
    data_type: DataType,
    rows: &Rows<T>,
    (piece_rows, segment_rows): (usize, usize),
    fill: impl Fn(&mut Values, &Option<T>),
) -> Arc<EncodedColumn> {
    let writer = ColumnWriter::new(Arc::new(Field::new("c", data_type, true))).unwrap();
    let pieces = rows.chunks(piece_rows).map(|rows| {
        let mut piece = writer.piece();
        for rows in rows.chunks(2) {
            rows.iter().for_each(|row| fill(piece.values(), row));
            let valid = |row: usize| rows[row].is_some();
            piece.added(rows.len(), rows.iter().any(Option::is_none).then_some(&valid));
        }
        piece
    });
    let pieces: Vec<Piece> = pieces.collect();
    for segment in (0..rows.len().div_ceil(segment_rows)).rev() {
        let (from, to) = (segment * segment_rows, rows.len().min((segment + 1) * segment_rows));
        let parts = pieces.iter().enumerate().filter_map(|(i, piece)| {
            let start = i * piece_rows;
            let range = from.max(start)..to.min(start + piece.len());
            (range.start < range.end).then(|| (piece, range.start - start..range.end - start))
        });
        writer.encode(segment, &parts.collect::<Vec<_>>()).unwrap();
    }
    Arc::new(writer.finish().unwrap())
}

/// All values of column `column`; `read` decodes a segment.
fn decoded<T>(table: &Table, column: usize, read: impl Fn(&TableSnapshot, &Segment) -> Vec<T>) -> Rows<T> {
    let snapshot = table.snapshot().unwrap();
    let segments = (0..snapshot.num_segments()).flat_map(|s| {
        let segment = snapshot.segment(s, column).unwrap();
        let valid = segment.validity(0, segment.rows());
        let values = read(&snapshot, &segment).into_iter().enumerate();
        let values = values.map(|(row, x)| valid.as_ref().is_none_or(|v| v.get(row)).then_some(x));
        values.collect::<Vec<_>>()
    });
    segments.collect()
}

fn strings(snapshot: &TableSnapshot, segment: &Segment, column: usize) -> Vec<String> {
    if let Some(dictionary) = snapshot.dictionary(column) {
        let mut codes = vec![0; segment.rows()];
        segment.decode_codes(0, &mut codes);
        let text = |&code: &u32| if (code as usize) < dictionary.len() { dictionary.get(code) } else { "" };
        return codes.iter().map(|code| text(code).to_string()).collect();
    }
    let mut views = vec![StrView::default(); segment.rows()];
    let mut text = Vec::new();
    segment.decode_str(0, &mut text, &mut views);
    views.iter().map(|view| String::from_utf8(view.as_bytes().to_vec()).unwrap()).collect()
}

fn fill_narrow(values: &mut Values, row: &Option<i64>) {
    let Values::Narrow(values) = values else { panic!("narrow") };
    values.push(row.unwrap_or(i64::MIN));
}

fn fill_strings(values: &mut Values, row: &Option<String>) {
    let Values::Strings(values) = values else { panic!("strings") };
    match row {
        Some(text) => values.push(text.as_bytes()).unwrap(),
        None => values.push_null(),
    }
}

fn optional<T: std::fmt::Debug + Clone>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop_oneof![1 => Just(None), 6 => value.prop_map(Some)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn values_come_back(
        integers in prop::collection::vec(optional(prop_oneof![any::<i64>(), 0..9i64, Just(i64::MAX)]), 1..400),
        wide in prop::collection::vec(optional(prop_oneof![any::<i64>().prop_map(i128::from), -9..9i128, Just(10i128.pow(30))]), 400),
        floats in prop::collection::vec(optional(any::<f64>().prop_filter("finite", |x| x.is_finite())), 400),
        texts in prop::collection::vec(optional("[ab]{0,3}|[a-zé]{0,40}"), 400),
        cut in (1usize..60, 1usize..300),
    ) {
        let n = integers.len();
        let (wide, floats, texts) = (wide[..n].to_vec(), floats[..n].to_vec(), texts[..n].to_vec());
        let columns = [
            encoded(DataType::Int64, &integers, cut, fill_narrow),
            encoded(DataType::Decimal128(38, 2), &wide, (cut.0 + 1, cut.1), |values, row| {
                let Values::Wide(values) = values else { panic!("wide") };
                values.push(row.unwrap_or(i128::MAX));
            }),
            encoded(DataType::Float64, &floats, cut, |values, row| {
                let Values::F64(values) = values else { panic!("floats") };
                values.push(row.unwrap_or(0.5));
            }),
            encoded(DataType::Utf8, &texts, cut, fill_strings),
        ];
        let names = ["a", "b", "c", "d"];
        let columns: Vec<_> = columns.into_iter().zip(names).map(|(column, name)| {
            let column = Arc::into_inner(column).unwrap();
            let field = Arc::new(column.field.as_ref().clone().with_name(name));
            Arc::new(EncodedColumn { field, ..column })
        }).collect();
        let table = Table::of_columns(&columns).unwrap();
        let snapshot = table.snapshot().unwrap();
        prop_assert_eq!(snapshot.num_rows(), n as u64);
        snapshot.verify().unwrap();
        let back = decoded(&table, 0, |_, segment| {
            let mut out = vec![0i64; segment.rows()];
            segment.decode_i64(0, &mut out);
            out
        });
        prop_assert_eq!(back, integers.clone());
        let back = decoded(&table, 1, |_, segment| {
            let mut out = vec![0i128; segment.rows()];
            segment.decode_i128(0, &mut out);
            out
        });
        prop_assert_eq!(back, wide);
        let back = decoded(&table, 2, |_, segment| {
            let mut out = vec![0f64; segment.rows()];
            segment.decode_f64(0, &mut out);
            out
        });
        prop_assert_eq!(back, floats);
        prop_assert_eq!(decoded(&table, 3, |snapshot, segment| strings(snapshot, segment, 3)), texts);
        // Statistics match the values.
        let stats = snapshot.column_stats(0);
        let valid = integers.iter().flatten();
        prop_assert_eq!(stats.nulls, n as u64 - valid.clone().count() as u64);
        let range = valid.clone().min().zip(valid.max()).map(|(&lo, &hi)| (i128::from(lo), i128::from(hi)));
        prop_assert_eq!(stats.int_range(), range);
    }
}

#[test]
fn strings_get_a_dictionary_when_few() {
    let few: Rows<String> = (0..5000).map(|i| (i % 7 != 0).then(|| format!("value {}", i % 30))).collect();
    let many: Rows<String> = (0..70_000).map(|i| Some(format!("{i}"))).collect();
    let table = Table::of_columns(&[encoded(DataType::Utf8, &few, (700, 1500), fill_strings)]).unwrap();
    let snapshot = table.snapshot().unwrap();
    assert_eq!(snapshot.dictionary(0).map(|d| d.len()), Some(30));
    assert_eq!(decoded(&table, 0, |snapshot, segment| strings(snapshot, segment, 0)), few);
    for cut in [(70_000, 70_000), (20_000, 30_000), (9_000, 70_000)] {
        let table = Table::of_columns(&[encoded(DataType::Utf8, &many, cut, fill_strings)]).unwrap();
        assert!(table.snapshot().unwrap().dictionary(0).is_none(), "{cut:?}");
        assert_eq!(decoded(&table, 0, |snapshot, segment| strings(snapshot, segment, 0)), many);
    }
}

#[test]
fn columns_of_other_rows_are_no_table() {
    let rows: Rows<i64> = (0..100).map(Some).collect();
    let (a, b) = (
        encoded(DataType::Int64, &rows, (10, 60), fill_narrow),
        encoded(DataType::Int64, &rows, (10, 50), fill_narrow),
    );
    assert!(matches!(Table::of_columns(&[Arc::clone(&a), b]), Err(FormatError::Schema { .. })));
    assert!(matches!(Table::of_columns(&[Arc::clone(&a), Arc::clone(&a)]), Err(FormatError::Schema { .. })));
    let none = encoded(DataType::Int64, &vec![], (10, 60), fill_narrow);
    assert_eq!(Table::of_columns(&[none]).unwrap().snapshot().unwrap().num_rows(), 0);
}

#[test]
fn text_that_is_not_utf8_is_an_error() {
    let writer = ColumnWriter::new(Arc::new(Field::new("c", DataType::Utf8, true))).unwrap();
    writer.plain.store(true, Ordering::Relaxed);
    let mut piece = writer.piece();
    let Values::Strings(values) = piece.values() else { panic!("strings") };
    values.push(&[0xff]).unwrap();
    piece.added(1, None);
    assert!(writer.encode(0, &[(&piece, 0..1)]).is_err());
}
