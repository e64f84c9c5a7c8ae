//! Representations of times in ASOF joins; their kernels also compile as CUDA.

use warpmill_ir::Asof;

use super::*;
use crate::compile::build;
use crate::compile::keys::KeyShape;
use crate::compile::layout::RowsLayout;
use crate::device::cuda::nvrtc;

fn time(logical: DataType, range: Option<(i128, i128)>) -> Expr {
    let ty = ColType::of(&logical, true).unwrap();
    Expr::column(0, range.map_or(ty.clone(), |range| ty.narrowed(range)))
}

fn order(time: &Expr, keys: Option<u64>) -> KeyOrder {
    let table = if keys.is_some() { Table::Direct } else { Table::All };
    KeyOrder::of(3, time, (table, keys), 100_000, 2)
}

#[test]
fn numbers_that_are_searched_are_as_narrow_as_times() {
    let search = |time: &Expr, keys| order(time, keys).search;
    let year = time(DataType::Int64, Some((1000, 1000 + 30_000_000)));
    let distances = Search::Distances { least: 1000, most: 30_001_000, span: 30_000_001 };
    assert_eq!([search(&year, Some(10_000)), search(&year, None)], [distances; 2]);
    assert_eq!(distances.element(), "u32");
    let bits = |time: &Expr, keys| order(time, keys).sorted.words.iter().map(|word| word.bits).collect::<Vec<_>>();
    // Key number and distance share a word.
    assert_eq!([bits(&year, Some(10_000)), bits(&year, None)], [[39], [25]]);
    assert_eq!(bits(&time(DataType::Int64, Some((0, 99_999_999))), Some(10_000)), [40]);
    assert_eq!(bits(&time(DataType::Int32, Some((7, 7))), None), [1]);
    let micros = time(DataType::Int64, Some((0, 1 << 45)));
    assert_eq!(search(&micros, Some(1000)).element(), "u64");
    assert_eq!(bits(&micros, Some(1 << 17)), [63]);
    // They do not fit one word.
    assert_eq!((search(&micros, Some(1 << 20)), bits(&micros, Some(1 << 20))), (Search::Images, vec![20, 46]));
    let far = time(DataType::Int64, None);
    assert_eq!([search(&far, Some(10)), search(&far, None)], [Search::Images; 2]);
    assert_eq!(search(&time(DataType::Float64, None), Some(10)), Search::Images);
    assert_eq!(search(&time(DataType::Decimal128(38, 2), None), Some(10)), Search::Values);
    assert!(matches!(search(&time(DataType::Decimal128(38, 2), Some((-5, 5))), Some(10)), Search::Distances { .. }));
    assert_eq!(search(&time(DataType::Utf8, None), None), Search::Values);
    assert!(order(&time(DataType::Utf8, None), None).is_text() && !order(&far, None).is_text());
}

#[test]
fn the_kernels_are_cuda_too() {
    if nvrtc::available().is_err() {
        return;
    }
    let compile = |kernel: &Kernel| {
        let source = crate::compile::functions::source(kernel);
        nvrtc::compile_cubin(&source, "sm_90").unwrap_or_else(|error| panic!("{error}"));
    };
    let distances = Some((0, 100));
    let cases = [
        (DataType::Int32, distances, Table::All, Nearest::AtMost),
        (DataType::Int64, None, Table::Wide, Nearest::Above),
        (DataType::Float32, None, Table::Direct, Nearest::Below),
        (DataType::Decimal128(38, 2), distances, Table::Hash, Nearest::AtLeast),
        (DataType::Decimal128(38, 2), None, Table::Direct, Nearest::AtMost),
        (DataType::Utf8, None, Table::All, Nearest::Below),
    ];
    for (logical, range, table, nearest) in cases {
        let time = time(logical, range);
        let keys = (table != Table::All).then_some(1 << 18);
        let layout = layout(table, KeyOrder::of(3, &time, (table, keys), 100_000, 2));
        let own = kernels(3, &layout, layout.order.as_deref().unwrap(), 0).unwrap();
        own.iter().filter(|kernel| kernel.entry.starts_with("asof")).for_each(compile);
        compile(&probing(&layout, &time, nearest));
        compile(&appending(&layout, &time));
    }
}

fn layout(table: Table, order: KeyOrder) -> BuildLayout {
    let key = ColType::of(&DataType::Int64, false).unwrap().narrowed((0, 999));
    let wide = ColType::of(&DataType::Utf8, true).unwrap();
    BuildLayout {
        keys: match table {
            Table::All => KeyShape::None,
            Table::Wide => KeyShape::Wide,
            _ => KeyShape::of([&key], false),
        },
        table,
        payload: vec![FlatColumn::new("sink3", 0, &key)],
        key_columns: if table == Table::Wide { vec![FlatColumn::new("sink3.key", 0, &wide)] } else { vec![] },
        capacity: 100_000,
        slots: 1 << 18,
        track_matches: false,
        only_exists: false,
        null_equals_null: false,
        fraction: 1.0,
        bitmaps: vec![],
        bounds: vec![],
        reserves: order.marks_rows(),
        flags_unused: false,
        folded_bits: None,
        partition: None,
        on_host: false,
        order: Some(Box::new(order)),
    }
}

fn key_type(table: Table) -> Option<ColType> {
    match table {
        Table::All => None,
        Table::Wide => ColType::of(&DataType::Utf8, true),
        _ => ColType::of(&DataType::Int64, true),
    }
}

/// Opens a loop over rows with times and keys.
fn looping(time: &Expr, table: Table) -> Generator {
    let types: Vec<ColType> = [time.ty.clone()].into_iter().chain(key_type(table)).collect();
    let columns: Vec<FlatColumn> = types.iter().enumerate().map(|(i, ty)| FlatColumn::new("input0", i, ty)).collect();
    let mut g = Generator::new();
    g.code.line("const u32 lane = threadIdx.x & 31;");
    g.code.line("Reserved reserved = {0, 0};");
    source::flat(&mut g, "1000");
    let loads = g.flat_loads(&columns, "row", None);
    g.push_loads(loads);
    g
}

/// A kernel that appends such rows.
fn appending(layout: &BuildLayout, time: &Expr) -> Kernel {
    let mut g = looping(time, layout.table);
    let sink = Sink::HashBuild {
        keys: key_type(layout.table).map(|ty| Expr::column(1, ty)).into_iter().collect(),
        payload: vec![],
        fields: vec![],
        null_equals_null: false,
        track_matches: false,
        order: Some(time.clone()),
    };
    append(&mut g, 3, layout, layout.order.as_deref().unwrap(), &sink).unwrap();
    g.code.close_to(1);
    if layout.reserves {
        epilogue(&mut g, 3, layout);
    }
    kernel(g, "append".into(), BLOCK, Work::Rows(1000), 0, "append".into())
}

/// A kernel that probes with such rows.
fn probing(layout: &BuildLayout, time: &Expr, nearest: Nearest) -> Kernel {
    let mut g = looping(time, layout.table);
    let key = key_type(layout.table).map(|ty| Expr::column(1, ty));
    let probe = Probe {
        build: 3,
        kind: JoinKind::ProbeOuter,
        output: vec![1 + usize::from(key.is_some())],
        keys: key.into_iter().collect(),
        residual: None,
        asof: Some(Asof { value: time.clone(), nearest }),
        range: None,
        null_aware: false,
        fields: vec![],
    };
    super::probe(&mut g, &probe, layout, layout.order.as_deref().unwrap()).unwrap();
    let rows = RowsLayout { columns: layout.payload.clone(), capacity: 1000, ..RowsLayout::default() };
    let found = g.column(g.scope(), 0).unwrap();
    build::append_at(&mut g, &rows, &[found], "row");
    g.code.close_to(1);
    kernel(g, "probe".into(), BLOCK, Work::Rows(1000), 0, "probe".into())
}
