use std::sync::Arc;

use arrow::array::*;
use arrow::compute::cast;
use arrow::datatypes::*;
use warpmill_format::Dictionary;
use warpmill_ir::{ColType, Field, Phys};

use super::{from_arrow, to_batches};
use crate::rows::RowSet;
use crate::vector::{Data, Vector};

/// An array of every supported type, with NULLs and extremes, 200 rows.
fn arrays() -> Vec<ArrayRef> {
    const ROWS: i64 = 200;
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..ROWS).map(|i| (i % 7 != 3).then_some(i % 100))));
    let texts = ["", "a", "abcd", "abcdefghijklmnopqrstuvwxyz", "größer"];
    let strings: ArrayRef =
        Arc::new(StringArray::from_iter((0..ROWS).map(|i| (i % 5 != 1).then_some(texts[i as usize * 3 % 5]))));
    let zone = Some("+02:00".into());
    let integers = [
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(12, 2),
        DataType::Decimal128(38, 10),
        DataType::Duration(TimeUnit::Second),
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Millisecond, zone),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Date64,
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Time64(TimeUnit::Nanosecond),
    ];
    let mut arrays: Vec<ArrayRef> = integers.iter().map(|ty| cast(&numbers, ty).unwrap()).collect();
    let small = cast(&numbers, &DataType::Int32).unwrap();
    for ty in [DataType::Date32, DataType::Time32(TimeUnit::Second), DataType::Time32(TimeUnit::Millisecond)] {
        arrays.push(cast(&small, &ty).unwrap());
    }
    for ty in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
        arrays.push(cast(&strings, &ty).unwrap());
    }
    arrays.push(Arc::new(BooleanArray::from_iter((0..ROWS).map(|i| (i % 3 != 0).then_some(i % 2 == 0)))));
    arrays.push(Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX])));
    arrays.push(Arc::new(UInt64Array::from(vec![u64::MIN, u64::MAX])));
    arrays.push(Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(-0.0), None, Some(f64::INFINITY)])));
    let most = 10i128.pow(38) - 1;
    let wide = Decimal128Array::from(vec![Some(most), None, Some(-most)]);
    arrays.push(Arc::new(wide.with_precision_and_scale(38, 0).unwrap()));
    arrays
}

fn field(ty: &ColType) -> [Field; 1] {
    [Field { name: "c".into(), ty: ty.clone() }]
}

fn schema(ty: &DataType) -> SchemaRef {
    Arc::new(Schema::new(vec![arrow::datatypes::Field::new("c", ty.clone(), true)]))
}

fn back(vectors: Vec<Vector>, ty: &ColType, target: &DataType) -> Vec<RecordBatch> {
    let batch = |vector: Vector| {
        let rows = vector.len();
        (vec![Arc::new(vector)], rows)
    };
    let rows = RowSet { batches: vectors.into_iter().map(batch).collect() };
    to_batches(Arc::new(rows), &field(ty), &schema(target)).unwrap()
}

#[test]
fn every_type_survives_the_round_trip() {
    for array in arrays() {
        let ty = ColType::of(array.data_type(), true).unwrap();
        let slices = [(0, array.len()), (0, 0), (1, array.len() - 1), (array.len() / 2, array.len() / 3)];
        for (start, len) in slices {
            let slice = array.slice(start, len);
            let vector = from_arrow(slice.as_ref(), &ty).unwrap();
            assert_eq!(vector.data.phys(), ty.phys);
            let batches = back(vec![vector], &ty, array.data_type());
            assert_eq!(batches.len(), usize::from(len > 0));
            if let [batch] = batches.as_slice() {
                assert_eq!(batch.column(0).as_ref(), slice.as_ref());
            }
        }
    }
}

#[test]
fn dictionary_arrays_are_unfolded_and_made() {
    let target = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let array: DictionaryArray<Int32Type> = vec![Some("b"), None, Some("a"), Some("b")].into_iter().collect();
    let ty = ColType::of(&DataType::Utf8, true).unwrap();
    let vector = from_arrow(&array.slice(1, 3), &ty).unwrap();
    let plain = back(vec![vector.clone()], &ty, &DataType::Utf8);
    assert_eq!(plain[0].column(0).as_string::<i32>(), &StringArray::from(vec![None, Some("a"), Some("b")]));
    let folded = back(vec![vector], &ty, &target);
    assert_eq!(&cast(folded[0].column(0), &DataType::Utf8).unwrap(), plain[0].column(0));
    let empty: DictionaryArray<Int32Type> = vec![None, None::<&str>].into_iter().collect();
    assert!(!from_arrow(&empty, &ty).unwrap().is_valid(1));
}

#[test]
fn codes_become_strings() {
    let dictionary = Some(Arc::new(Dictionary::from_sorted(["x", "yy"])));
    let ty = ColType { phys: Phys::Code, dictionary, ..ColType::of(&DataType::Utf8, true).unwrap() };
    let batches = back(vec![Vector::new(Data::Code(vec![1, 0, 1]))], &ty, &DataType::Utf8View);
    assert_eq!(batches[0].column(0).as_string_view(), &StringViewArray::from(vec!["yy", "x", "yy"]));
}

#[test]
fn batches_are_put_together_and_cut() {
    let ty = ColType::of(&DataType::Int64, true).unwrap();
    let small: Vec<Vector> = (0..100).map(|i| Vector::new(Data::I64((i * 2048..(i + 1) * 2048).collect()))).collect();
    let large = vec![Vector::new(Data::I64((0..204_800).collect()))];
    for vectors in [small, large] {
        let batches = back(vectors, &ty, &DataType::Int64);
        assert_eq!(batches.len(), 4);
        let values = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
        assert!(values.eq(0..204_800));
    }
}

#[test]
fn buffers_are_moved() {
    let ty = ColType::of(&DataType::Int64, true).unwrap();
    let values = vec![1i64, 2, 3];
    let address = values.as_ptr();
    let batches = back(vec![Vector::new(Data::I64(values))], &ty, &DataType::Int64);
    assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().values().as_ptr(), address);
}

#[test]
fn what_does_not_fit_is_an_error() {
    let narrow = ColType { phys: Phys::I32, ..ColType::of(&DataType::Int64, true).unwrap() };
    assert!(from_arrow(&Int64Array::from(vec![i64::MAX]), &narrow).is_err());
    assert!(from_arrow(&StringArray::from(vec!["a"]), &narrow).is_err());
    let rows = RowSet { batches: vec![(vec![Arc::new(Vector::new(Data::I32(vec![300])))], 1)] };
    assert!(to_batches(Arc::new(rows), &field(&narrow), &schema(&DataType::Int8)).is_err());
}

#[test]
fn rows_without_columns_are_counted() {
    let rows = RowSet { batches: vec![(vec![], 5), (vec![], 7)] };
    let batches = to_batches(Arc::new(rows), &[], &Arc::new(Schema::empty())).unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 12);
}
