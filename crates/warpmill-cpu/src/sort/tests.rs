use std::cmp::Ordering;
use std::sync::Arc;

use arrow::datatypes::DataType;
use proptest::prelude::*;
use warpmill_format::StrView;
use warpmill_ir::{ColType, Expr, Field, SortKey};

use super::SortSink;
use crate::aggregate::tests::{V, drain, order, row, spilling, table, types, vector};
use crate::chunk::Chunk;
use crate::context::{QueryContext, Settings};
use crate::operator::{Sink, SinkOutput};
use crate::vector::{Data, Vector};

fn key(column: usize, descending: bool, nulls_first: bool) -> SortKey {
    SortKey { expr: Expr::column(column, types()[column].clone()), descending, nulls_first }
}

/// The result of the sink for `rows` in chunks dealt to `workers`, with the row's number as last column.
fn run(rows: &[Vec<V>], keys: &[SortKey], skip: u64, fetch: Option<u64>, chunk_rows: usize, workers: usize) -> Vec<V> {
    run_under(Settings::default(), rows, keys, (skip, fetch), chunk_rows, workers)
}

/// As [`run`], under `settings`.
fn run_under(
    settings: Settings,
    rows: &[Vec<V>],
    keys: &[SortKey],
    (skip, fetch): (u64, Option<u64>),
    chunk_rows: usize,
    workers: usize,
) -> Vec<V> {
    let mut types = types();
    types.push(types[2].clone());
    let fields: Vec<Field> = types.iter().map(|ty| Field { name: String::new(), ty: ty.clone() }).collect();
    let sink = SortSink::new(keys, skip, fetch, &fields).unwrap();
    let query = Arc::new(QueryContext::new(settings, Default::default()));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let mut locals: Vec<_> = (0..workers).map(|_| sink.local(&query)).collect();
    for (i, rows) in rows.chunks(chunk_rows).enumerate() {
        let mut columns: Vec<_> =
            (0..9).map(|c| vector(&types[c], &rows.iter().map(|row| row[c].clone()).collect::<Vec<_>>())).collect();
        let numbers: Vec<V> = (0..rows.len()).map(|row| V::Int((i * chunk_rows + row) as i128)).collect();
        columns.push(vector(&types[9], &numbers));
        let mut chunk = Chunk::from_vectors(columns);
        chunk.sequence = i as u64;
        locals[(i * 7 / 3) % workers].consume(chunk).unwrap();
    }
    let sorted = match sink.finish(locals, &query, &pool).unwrap() {
        SinkOutput::Rows(rows) => table(&rows),
        SinkOutput::Spilled(rows) => table(&drain(rows.source().as_ref(), &query).unwrap()),
        SinkOutput::Hash(_) => unreachable!(),
    };
    for row in &sorted {
        let V::Int(number) = row[9] else { unreachable!() };
        assert_eq!(format!("{:?}", &row[..9]), format!("{:?}", held(&rows[number as usize])));
    }
    sorted.into_iter().map(|mut row| row.pop().unwrap()).collect()
}

/// The row with values as its columns store them: single-precision floats are rounded.
fn held(row: &[V]) -> Vec<V> {
    let types = types();
    let columns: Vec<_> = row.iter().zip(&types).map(|(v, ty)| vector(ty, std::slice::from_ref(v))).collect();
    columns.iter().map(|column| crate::aggregate::tests::value(column, 0)).collect()
}

fn expected(rows: &[Vec<V>], keys: &[SortKey], skip: u64, fetch: Option<u64>) -> Vec<V> {
    let mut numbers: Vec<usize> = (0..rows.len()).collect();
    numbers.sort_by(|&i, &j| {
        let orders = keys.iter().map(|key| {
            let warpmill_ir::ExprKind::Column(c) = key.expr.kind else { unreachable!() };
            match (&rows[i][c], &rows[j][c]) {
                (V::Null, V::Null) => Ordering::Equal,
                (V::Null, _) if key.nulls_first => Ordering::Less,
                (_, V::Null) if !key.nulls_first => Ordering::Less,
                (V::Null, _) | (_, V::Null) => Ordering::Greater,
                (a, b) if key.descending => order(b, a),
                (a, b) => order(a, b),
            }
        });
        orders.fold(Ordering::Equal, Ordering::then)
    });
    let kept = numbers.into_iter().skip(skip as usize).take(fetch.map_or(usize::MAX, |fetch| fetch as usize));
    kept.map(|number| V::Int(number as i128)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn agrees_with_a_stable_sort(
        rows in prop::collection::vec(row(), 0..80),
        keys in prop::collection::vec((0usize..9, any::<bool>(), any::<bool>()), 0..5),
        skip in 0u64..10,
        fetch in prop::option::of(0u64..20),
        chunk_rows in 1usize..20,
        workers in 1usize..4,
    ) {
        let keys: Vec<SortKey> = keys.into_iter().map(|(c, descending, first)| key(c, descending, first)).collect();
        prop_assert_eq!(
            run(&rows, &keys, skip, fetch, chunk_rows, workers),
            expected(&rows, &keys, skip, fetch)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn agrees_with_a_stable_sort_when_runs_are_put_aside(
        rows in prop::collection::vec(row(), 0..80),
        keys in prop::collection::vec((0usize..9, any::<bool>(), any::<bool>()), 0..5),
        skip in 0u64..10,
        fetch in prop::option::of(0u64..20),
        (chunk_rows, workers) in (1usize..20, 1usize..4),
        limit in prop_oneof![Just(0usize), 0usize..20_000],
    ) {
        let keys: Vec<SortKey> = keys.into_iter().map(|(c, descending, first)| key(c, descending, first)).collect();
        let expected = expected(&rows, &keys, skip, fetch);
        prop_assert_eq!(run_under(spilling(limit), &rows, &keys, (skip, fetch), chunk_rows, workers), expected);
    }
}

#[test]
fn top_rows_are_cut_and_filtered_by_threshold() {
    let number = |i: usize, m: usize| V::Int((i * 7919 % m) as i128 % 5);
    let rows: Vec<Vec<V>> = (0..40_000)
        .map(|i| {
            let text = V::Text(["", "a", "abcd", "abcdefghijklmnopqrstuvwxyz"][i % 4]);
            vec![
                number(i, 31),
                number(i, 40_009),
                number(i, 7),
                V::Float(1.0),
                V::Null,
                V::Int(1),
                text,
                V::Int(0),
                V::Null,
            ]
        })
        .collect();
    for keys in [
        vec![key(1, true, true), key(0, false, false)],
        vec![key(0, true, true)],
        vec![key(6, true, false), key(1, false, false)],
        vec![],
    ] {
        for (skip, fetch) in [(0, 10), (3, 100), (39_990, 100), (0, 0)] {
            let expected = expected(&rows, &keys, skip, Some(fetch));
            assert_eq!(run(&rows, &keys, skip, Some(fetch), 512, 3), expected);
        }
        // The last chunk is cut: exactly as many rows as requested remain, with equal ones among them.
        let rows = &rows[..super::TOP_ROWS];
        assert_eq!(run(rows, &keys, 0, Some(10), 512, 1), self::expected(rows, &keys, 0, Some(10)));
    }
}

#[test]
#[ignore = "prints timings"]
fn timings() {
    const ROWS: usize = 5_000_000;
    let fields: Vec<Field> = [1, 6].map(|c: usize| Field { name: String::new(), ty: types()[c].clone() }).to_vec();
    let sort_key =
        |c: usize| SortKey { expr: Expr::column(c, fields[c].ty.clone()), descending: false, nulls_first: false };
    for (c, fetch) in [(0, None), (1, None), (0, Some(10)), (1, Some(1000))] {
        let sink = SortSink::new(&[sort_key(c)], 0, fetch, &fields).unwrap();
        let query = Arc::new(QueryContext::default());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let mut random = 1u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> 16
        };
        let names: Vec<String> = (0..1000).map(|i| format!("name {i} with a common prefix")).collect();
        let mut chunk = |sequence: usize| {
            let numbers = Data::I64((0..2048).map(|_| next() as i64).collect());
            let strings = Data::Str((0..2048).map(|_| StrView::new(&names[next() as usize % 1000])).collect());
            let mut chunk = Chunk::from_vectors([numbers, strings].map(|data| Arc::new(Vector::new(data))).to_vec());
            chunk.sequence = sequence as u64;
            chunk
        };
        let chunks: Vec<Chunk> = (0..ROWS / 2048).map(&mut chunk).collect();
        let mut local = sink.local(&query);
        let start = std::time::Instant::now();
        chunks.into_iter().for_each(|chunk| local.consume(chunk).unwrap());
        let consumed = start.elapsed();
        sink.finish(vec![local], &query, &pool).map(|_| ()).unwrap();
        println!("by column {c}, {fetch:?}: consume {consumed:?}, finish {:?}", start.elapsed() - consumed);
    }
}

/// The first ten of `texts` from a sort that has to copy strings because their originals are overwritten; the first `aside` rows are spilled before
/// the others arrive.
fn first_ten(texts: &[String], descending: bool, aside: usize) -> Vec<String> {
    const LIMIT: usize = 64 << 20;
    let ty = ColType::of(&DataType::Utf8, false).unwrap();
    let fields = [Field { name: "text".into(), ty: ty.clone() }];
    let keys = [SortKey { expr: Expr::column(0, ty), descending, nulls_first: false }];
    let sink = SortSink::new(&keys, 0, Some(10), &fields).unwrap();
    let query = Arc::new(QueryContext::new(spilling(LIMIT), Default::default()));
    let mut local = sink.local(&query);
    assert!(local.copies_texts(&[0]));
    let mut consume = |texts: &[String]| {
        let mut made = texts.to_vec();
        let views = made.iter().map(|text| StrView::new(text)).collect();
        local.consume(Chunk::from_vectors(vec![Arc::new(Vector::new(Data::Str(views)))])).unwrap();
        // Overwrites the originals: a remaining view would show it.
        made.iter_mut().for_each(|text| text.replace_range(.., &"~".repeat(text.len())));
        std::mem::forget(made);
    };
    let (before, after) = texts.split_at(aside);
    if aside > 0 {
        let _others = query.hold(LIMIT);
        consume(before);
    }
    after.chunks(1000).for_each(&mut consume);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    assert_eq!(query.spill.written() > 0, aside > 0);
    let rows = match sink.finish(vec![local], &query, &pool).unwrap() {
        SinkOutput::Rows(rows) => rows,
        SinkOutput::Spilled(rows) => Arc::new(drain(rows.source().as_ref(), &query).unwrap()),
        SinkOutput::Hash(_) => unreachable!(),
    };
    let texts = rows.batches.iter().flat_map(|(columns, _)| match &columns[0].data {
        Data::Str(views) => views.iter().map(|view| view.as_str().to_owned()).collect::<Vec<_>>(),
        other => unreachable!("{other:?}"),
    });
    texts.collect()
}

#[test]
fn strings_that_are_forgotten_were_copied() {
    const ROWS: usize = 40_000;
    let text = |i: usize| format!("a long beginning and {:06}", i * 7919 % ROWS);
    for descending in [false, true] {
        let mut expected: Vec<String> = (0..ROWS).map(text).collect();
        expected.sort_unstable_by(|a, b| if descending { b.cmp(a) } else { a.cmp(b) });
        // The five best rows are spilled first.
        let five = &expected[..5];
        let mut rows: Vec<String> = (0..ROWS).map(text).filter(|text| !five.contains(text)).collect();
        rows.splice(..0, five.iter().cloned());
        for aside in [0, 5] {
            assert_eq!(first_ten(&rows, descending, aside), expected[..10], "{descending} {aside}");
        }
    }
}
