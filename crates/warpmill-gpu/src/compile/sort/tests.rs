//! Sort words made of keys; the kernels also compile as CUDA.

use arrow::datatypes::DataType;
use warpmill_ir::ColType;

use super::*;
use crate::device::cuda::nvrtc;

fn key(column: usize, logical: DataType, range: Option<(i128, i128)>, nullable: bool) -> SortKey {
    let ty = ColType::of(&logical, nullable).unwrap();
    let ty = range.map_or(ty.clone(), |range| ty.narrowed(range));
    SortKey { expr: Expr::column(column, ty), descending: column % 2 == 1, nulls_first: column.is_multiple_of(3) }
}

fn keys() -> Vec<SortKey> {
    vec![
        key(0, DataType::Int32, Some((10, 17)), false),
        key(1, DataType::Int64, Some((0, 1000)), true),
        key(2, DataType::Int64, None, true),
        key(3, DataType::Decimal128(38, 2), None, false),
        key(4, DataType::Float64, None, true),
        key(5, DataType::Utf8, None, true),
        key(6, DataType::Boolean, None, true),
    ]
}

fn bits(keys: &[SortKey]) -> Vec<u32> {
    let images = keys.iter().enumerate().flat_map(|(i, key)| images(i, key, 2)).collect();
    words(images).iter().map(|word| word.bits).collect()
}

#[test]
fn small_images_share_words() {
    let keys = keys();
    // 8 values; 1001 values and NULL.
    assert_eq!(bits(&keys[..2]), [3 + 10]);
    assert_eq!(bits(&keys[2..3]), [1, 64]);
    assert_eq!(bits(&keys[4..5]), [64]);
    assert_eq!(bits(&keys[6..]), [2]);
    // NULL, 16 bytes, the length.
    assert_eq!(bits(&keys[5..6]), [1, 64, 64, 8]);
    assert_eq!(bits(&[keys[0].clone(), keys[6].clone(), keys[4].clone()]), [5, 64]);
    let one = key(0, DataType::Int32, Some((4, 4)), false);
    assert_eq!(bits(&[one]), [1]);
}

#[test]
fn distances_of_128_bits_take_two_words() {
    let wide = images(3, &keys()[3], 2);
    let kinds: Vec<(bool, u32)> =
        wide.iter().map(|image| (matches!(image.kind, ImageKind::Wide { shift: 64, .. }), image.bits)).collect();
    assert_eq!(kinds, [(true, 64), (false, 64)]);
}

#[test]
fn strings_get_more_words_until_the_host_sorts_them() {
    let steps: Vec<u32> = std::iter::successors(Some(TEXT_WORDS), |&words| Sorted::more_text_words(words)).collect();
    assert_eq!(steps, [2, 8, 31]);
}

#[test]
fn the_kernels_are_cuda_too() {
    if nvrtc::available().is_err() {
        return;
    }
    let keys = keys();
    let field = |key: &SortKey| Field { name: "x".into(), ty: key.expr.ty.clone() };
    let fields: Vec<Field> = keys.iter().map(field).collect();
    for capacity in [100_000, 1 << 30] {
        let sorted = Sorted::of(4, (&keys, &fields), (3, Some(50_000)), capacity, 2);
        let layout = RowsLayout {
            columns: FlatColumn::all("sink4", &fields),
            capacity,
            sorted: Some(Box::new(sorted)),
            ..RowsLayout::default()
        };
        let sources: std::collections::HashSet<_> =
            kernels(4, &layout, &keys, 0).unwrap().iter().map(crate::compile::functions::source).collect();
        for source in sources {
            nvrtc::compile_cubin(&source, "sm_90").unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
