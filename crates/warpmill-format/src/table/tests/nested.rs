//! Columns of nested types: random types and values, in memory and on disk, through every way of writing.

use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::compute::{concat, take};
use arrow::datatypes::{Fields, IntervalMonthDayNanoType, IntervalUnit};

use super::changes::Draw;
use super::*;
use crate::codec::{Codec, CodecChoice, CodecOptions};
use crate::segment::{SegmentBytes, is_nested};

/// A random storable type with at most `levels` levels of nesting.
fn random_type(draw: &mut Draw, levels: u64) -> DataType {
    let field = |draw: &mut Draw, name: &str| Field::new(name, random_type(draw, levels.saturating_sub(1)), true);
    match draw.below(if levels == 0 { 8 } else { 13 }) {
        0 => DataType::Int64,
        1 => DataType::Utf8,
        2 => DataType::Float64,
        3 => DataType::Boolean,
        4 => DataType::Decimal128(30, 3),
        5 => DataType::Binary,
        6 => DataType::Interval(IntervalUnit::MonthDayNano),
        7 => DataType::FixedSizeBinary(16),
        8 | 9 => DataType::List(Arc::new(field(draw, "element"))),
        10 => DataType::FixedSizeList(Arc::new(field(draw, "element")), 1 + draw.below(3) as i32),
        11 => {
            let fields = (0..1 + draw.below(3)).map(|at| field(draw, &format!("f{at}")));
            DataType::Struct(fields.collect::<Vec<_>>().into())
        }
        _ => {
            let entry = vec![Field::new("keys", DataType::Utf8, false), field(draw, "values")];
            DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entry.into()), false)), false)
        }
    }
}

/// A random validity of `rows` rows; `None` (all valid) in a third of the cases.
fn random_nulls(draw: &mut Draw, rows: usize) -> Option<NullBuffer> {
    let one_in = [1, 2, 9][draw.below(3) as usize];
    (one_in > 1).then(|| NullBuffer::from_iter((0..rows).map(|_| draw.below(one_in) > 0)))
}

/// Offsets of `rows` lists, also of NULL ones.
fn random_offsets(draw: &mut Draw, rows: usize) -> OffsetBuffer<i32> {
    let most = [1, 3, 40][draw.below(3) as usize];
    OffsetBuffer::from_lengths((0..rows).map(|_| draw.below(most) as usize).collect::<Vec<_>>())
}

fn last(offsets: &OffsetBuffer<i32>) -> usize {
    *offsets.last().unwrap() as usize
}

fn random_struct(draw: &mut Draw, fields: &Fields, rows: usize, nulls: Option<NullBuffer>) -> StructArray {
    let array = |field: &Arc<Field>| match field.is_nullable() {
        true => random_array(draw, field.data_type(), rows),
        false => Arc::new(StringArray::from_iter_values((0..rows).map(|_| format!("key {}", draw.below(50))))),
    };
    let columns = fields.iter().map(array).collect();
    StructArray::try_new_with_length(fields.clone(), columns, nulls, rows).unwrap()
}

/// Random values, also in NULL rows.
fn random_array(draw: &mut Draw, data_type: &DataType, rows: usize) -> ArrayRef {
    let nulls = random_nulls(draw, rows);
    let valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    match data_type {
        DataType::Int64 => Arc::new(Int64Array::from_iter(
            (0..rows).map(|row| valid(row).then(|| [i64::MIN, -1, 0, 7, i64::MAX][draw.below(5) as usize])),
        )),
        DataType::Utf8 => Arc::new(StringArray::from_iter((0..rows).map(|row| {
            valid(row).then(|| ["", "a", "déjà vu", "a longer text than a view holds"][draw.below(4) as usize])
        }))),
        DataType::Float64 => Arc::new(Float64Array::from_iter(
            (0..rows).map(|row| valid(row).then(|| [-0.0, 1.5, f64::NAN, f64::INFINITY][draw.below(4) as usize])),
        )),
        DataType::Boolean => {
            Arc::new(BooleanArray::from_iter((0..rows).map(|row| valid(row).then(|| draw.below(2) == 0))))
        }
        DataType::Decimal128(p, s) => {
            let values = (0..rows).map(|row| valid(row).then(|| i128::from(draw.below(1 << 40)) << 50));
            Arc::new(Decimal128Array::from_iter(values).with_precision_and_scale(*p, *s).unwrap())
        }
        DataType::Binary => {
            let offsets = random_offsets(draw, rows);
            let bytes = Buffer::from_iter((0..last(&offsets)).map(|_| draw.below(256) as u8));
            Arc::new(BinaryArray::try_new(offsets, bytes, nulls).unwrap())
        }
        DataType::FixedSizeBinary(size) => {
            let byte = [0, 255, draw.below(256) as u8][draw.below(3) as usize];
            let bytes = (0..rows * *size as usize).map(|at| if at % 5 == 0 { draw.below(256) as u8 } else { byte });
            Arc::new(FixedSizeBinaryArray::try_new(*size, Buffer::from_iter(bytes), nulls).unwrap())
        }
        DataType::Interval(_) => Arc::new(IntervalMonthDayNanoArray::from_iter((0..rows).map(|row| {
            let (months, days, nanos) = (draw.below(30) as i32 - 15, i32::MIN, i64::MAX - draw.below(3) as i64);
            valid(row).then(|| IntervalMonthDayNanoType::make_value(months, days, nanos))
        }))),
        DataType::List(element) => {
            let offsets = random_offsets(draw, rows);
            let values = random_array(draw, element.data_type(), last(&offsets));
            Arc::new(ListArray::try_new(element.clone(), offsets, values, nulls).unwrap())
        }
        DataType::FixedSizeList(element, length) => {
            let values = random_array(draw, element.data_type(), rows * *length as usize);
            let lists = FixedSizeListArray::try_new_with_length(element.clone(), *length, values, nulls, rows);
            Arc::new(lists.unwrap())
        }
        DataType::Struct(fields) => Arc::new(random_struct(draw, fields, rows, nulls)),
        DataType::Map(entry, ordered) => {
            let DataType::Struct(fields) = entry.data_type() else { panic!("{entry}") };
            let offsets = random_offsets(draw, rows);
            let entries = random_struct(draw, fields, last(&offsets), None);
            Arc::new(MapArray::try_new(entry.clone(), offsets, entries, nulls, *ordered).unwrap())
        }
        other => panic!("{other}"),
    }
}

/// All rows of a column.
fn whole(snapshot: &TableSnapshot, column: usize) -> ArrayRef {
    let parts: Vec<ArrayRef> = (0..snapshot.num_segments()).map(|s| snapshot.array(s, column).unwrap()).collect();
    concat(&parts.iter().map(|part| &**part).collect::<Vec<_>>()).unwrap()
}

fn random_rows(draw: &mut Draw, schema: &SchemaRef, rows: usize) -> RecordBatch {
    let columns = schema.fields().iter().map(|field| match field.is_nullable() {
        true => random_array(draw, field.data_type(), rows),
        false => Arc::new(Int64Array::from_iter_values(0..rows as i64)),
    });
    RecordBatch::try_new(schema.clone(), columns.collect()).unwrap()
}

fn assert_is(snapshot: &TableSnapshot, wanted: &RecordBatch) {
    snapshot.verify().unwrap();
    assert_eq!(snapshot.num_rows(), wanted.num_rows() as u64);
    for (column, array) in wanted.columns().iter().enumerate() {
        assert_eq!(&whole(snapshot, column), array, "{}", array.data_type());
        assert_eq!(snapshot.column_stats(column).nulls, array.logical_null_count() as u64);
    }
    assert_parts_are(snapshot, wanted);
}

/// Asserts that fields of structs and lengths of lists are columns, which are NULL where a parent struct, or the list, is.
fn assert_parts_are(snapshot: &TableSnapshot, wanted: &RecordBatch) {
    let Some(WithParts { table: with_parts, paths }) = snapshot.with_parts() else {
        let leaf = |data_type: &DataType| match data_type {
            DataType::Struct(inner) => {
                inner.iter().any(|field| !is_nested(field.data_type()) || *field.data_type() == DataType::Binary)
            }
            DataType::List(_) | DataType::Map(..) | DataType::Binary => true,
            _ => false,
        };
        assert!(snapshot.schema().fields().iter().all(|field| !leaf(field.data_type())));
        return;
    };
    let own = snapshot.schema().fields().len();
    assert_eq!(with_parts.schema().fields().len(), own + paths.len());
    for (at, path) in paths.iter().enumerate() {
        let mut array = wanted.column(path[0]).clone();
        for &part in &path[1..] {
            let inner: ArrayRef = match array.data_type() {
                DataType::Struct(_) => array.as_struct().column(part).clone(),
                DataType::List(_) => lengths(array.as_list::<i32>().offsets()),
                DataType::Map(..) => lengths(array.as_map().offsets()),
                DataType::Binary => lengths(array.as_binary::<i32>().offsets()),
                other => panic!("{other}"),
            };
            let null = arrow::compute::is_null(&array).unwrap();
            array = arrow::compute::nullif(&inner, &null).unwrap();
        }
        assert_eq!(&whole(with_parts, own + at), &array);
        let stats = with_parts.column_stats(own + at);
        assert_eq!((stats.rows, stats.nulls), (array.len() as u64, array.null_count() as u64));
        let numbers = array.as_primitive_opt::<arrow::datatypes::Int64Type>();
        let bounds = numbers.and_then(|numbers| arrow::compute::min(numbers).zip(arrow::compute::max(numbers)));
        if let Some((least, most)) = bounds {
            assert_eq!(stats.int_range(), Some((least.into(), most.into())));
        }
    }
}

fn lengths(offsets: &OffsetBuffer<i32>) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(offsets.lengths().map(|length| length as u32)))
}

#[test]
fn random_types_and_values() {
    for seed in 0..120 {
        let mut draw = Draw(seed);
        let mut fields = vec![Field::new("id", DataType::Int64, false)];
        fields.extend((0..3).map(|at| Field::new(format!("n{at}"), random_type(&mut draw, 3), true)));
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let codec = [None, Some(Codec::Lz4), Some(Codec::Zstd)][draw.below(3) as usize];
        let choice = codec.map_or(CodecChoice::Auto, CodecChoice::Fixed);
        let codec = (draw.below(2) == 0).then(|| CodecOptions { choice, ..CodecOptions::default() });
        let options = WriteOptions { metadata: crate::pruning::Metadata::All, codec, ..small() };
        let dir = tempfile::tempdir().unwrap();
        let table = match draw.below(2) {
            0 => Table::in_memory(schema.clone()),
            _ => Table::create(&dir.path().join("t"), schema.clone()).unwrap(),
        };
        let rows = [1, 100, 1024, 2500][draw.below(4) as usize];
        // A slice: offsets do not begin at 0.
        let first = random_rows(&mut draw, &schema, rows + 5).slice(5, rows);
        let second = random_rows(&mut draw, &schema, 77);
        for batch in [&first, &second] {
            let mut writer = table.append(options.clone()).unwrap();
            writer.write(batch).unwrap();
            writer.commit().unwrap();
        }
        let mut wanted = arrow::compute::concat_batches(&schema, [&first, &second]).unwrap();
        assert_is(&table.snapshot().unwrap(), &wanted);
        // Deletions, and updates with values of other rows.
        let mut writer = table.append(options.clone()).unwrap();
        let mut changes = Changes::new(writer.base().unwrap(), (0..4).collect());
        let values = changes.add_values(second.columns()).unwrap();
        let mut order: Vec<Option<u64>> = (0..wanted.num_rows() as u64).map(Some).collect();
        for _ in 0..20 {
            let row = draw.below(order.len() as u64);
            match draw.below(2) {
                0 if changes.delete(row) => order[row as usize] = None,
                1 if changes.update(row, values, row as usize % 77) => {
                    order[row as usize] = Some((rows + row as usize % 77) as u64);
                }
                _ => {}
            }
        }
        writer.change(&changes).unwrap();
        writer.commit().unwrap();
        let order = UInt64Array::from_iter_values(order.into_iter().flatten());
        let columns = wanted.columns().iter().map(|column| take(column, &order, None).unwrap()).collect();
        wanted = RecordBatch::try_new(schema.clone(), columns).unwrap();
        assert_is(&table.snapshot().unwrap(), &wanted);
        let mut writer = table.append(options).unwrap();
        writer.merge_small(0).unwrap();
        writer.commit().unwrap();
        match table.path() {
            Some(path) => assert_is(&fresh(path), &wanted),
            None => assert_is(&table.snapshot().unwrap(), &wanted),
        }
    }
}

#[test]
fn other_types_become_those_that_are_stored() {
    let element = |name: &str, data_type| Arc::new(Field::new(name, data_type, true));
    let schema = schema_of(&[
        ("large", DataType::LargeList(element("item", DataType::LargeUtf8))),
        ("bytes", DataType::BinaryView),
        ("sixteen", DataType::FixedSizeBinary(16)),
        ("seventeen", DataType::FixedSizeBinary(17)),
        ("span", DataType::Interval(IntervalUnit::DayTime)),
        ("none", DataType::List(element("item", DataType::Null))),
    ]);
    let stored = stored_schema(&schema).unwrap();
    let stored: Vec<DataType> = stored.fields().iter().map(|field| field.data_type().clone()).collect();
    let wanted = [
        DataType::List(element("item", DataType::Utf8)),
        DataType::Binary,
        DataType::FixedSizeBinary(16),
        DataType::Binary,
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::List(element("item", DataType::Int32)),
    ];
    assert_eq!(stored, wanted);
    let mut deep = DataType::Int32;
    for _ in 0..32 {
        deep = DataType::List(element("item", deep));
    }
    assert!(stored_schema(&schema_of(&[("x", deep.clone())])).is_ok());
    let deeper = DataType::List(element("item", deep));
    assert!(stored_schema(&schema_of(&[("x", deeper)])).is_err());
}

/// Changed bytes of a segment cause an error, or other values: never a panic.
#[test]
fn damaged_parts_are_refused() {
    for seed in 0..60 {
        let mut draw = Draw(1000 + seed);
        let data_type = random_type(&mut draw, 3);
        if !is_nested(&data_type) {
            continue;
        }
        let array = random_array(&mut draw, &data_type, 50);
        let bytes = Segment::encode(&array, None, None).unwrap().to_bytes();
        for _ in 0..200 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + draw.below(3) {
                let at = draw.below(damaged.len() as u64) as usize;
                damaged[at] = draw.below(256) as u8;
            }
            let len = if draw.below(8) == 0 { draw.below(bytes.len() as u64) as usize } else { bytes.len() };
            let opened = Segment::from_bytes(SegmentBytes::copy_from(&damaged[..len]), &data_type, 50);
            drop(opened.and_then(|segment| crate::segment::arrays::array(&segment, &data_type)));
        }
    }
}
