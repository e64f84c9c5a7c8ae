use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, i256};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use warpmill_format::{Bitmap, Dictionary, StrView};
use warpmill_ir::{AggregateExpr, AggregateFunction as F, ColType, Expr, Field, Phys};

use super::AggregateSink;
use crate::chunk::Chunk;
use crate::context::{ExecError, QueryContext, Result, Settings};
use crate::operator::{Sink, SinkOutput};
use crate::rows::RowSet;
use crate::source::ChunkSource;
use crate::spill::{Fault, SpillSettings};
use crate::vector::{Data, Vector};

/// A value of any type, for oracles.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum V {
    Null,
    Int(i128),
    Float(f64),
    Text(&'static str),
}

const TEXTS: [&str; 6] = ["", "a", "abcd", "abcde", "abcdefghijklmnopqrstuvwxyz", "größer"];

fn int(logical: DataType, phys: Phys, range: (i128, i128)) -> ColType {
    ColType { logical, phys, nullable: true, range: Some(range), dictionary: None }
}

/// Columns of every representation.
pub(crate) fn types() -> Vec<ColType> {
    let dictionary = Arc::new(Dictionary::from_sorted(["", "a", "abcd"]));
    vec![
        int(DataType::Int32, Phys::I32, (-3, 4)),
        int(DataType::Int64, Phys::I64, (i64::MIN.into(), i64::MAX.into())),
        int(DataType::Decimal128(38, 2), Phys::I128, (-(10i128.pow(38) - 1), 10i128.pow(38) - 1)),
        ColType::of(&DataType::Float64, true).unwrap(),
        ColType::of(&DataType::Float32, true).unwrap(),
        ColType::of(&DataType::Boolean, true).unwrap(),
        ColType::of(&DataType::Utf8, true).unwrap(),
        ColType { phys: Phys::Code, dictionary: Some(dictionary), ..ColType::of(&DataType::Utf8, true).unwrap() },
        int(DataType::Decimal128(12, 2), Phys::I64, (-1_000_000, 1_000_000)),
    ]
}

pub(crate) fn vector(ty: &ColType, values: &[V]) -> Arc<Vector> {
    let int = |v: &V| if let V::Int(v) = v { *v } else { 77 };
    let float = |v: &V| if let V::Float(v) = v { *v } else { 7.7 };
    let text = |v: &V| StrView::new(if let V::Text(v) = v { v } else { "unspecified" });
    let data = match ty.phys {
        Phys::Bool => Data::Bool(values.iter().map(|v| int(v) == 1).collect()),
        Phys::I32 => Data::I32(values.iter().map(|v| int(v) as i32).collect()),
        Phys::I64 => Data::I64(values.iter().map(|v| int(v) as i64).collect()),
        Phys::I128 => Data::I128(values.iter().map(int).collect()),
        Phys::F32 => Data::F32(values.iter().map(|v| float(v) as f32).collect()),
        Phys::F64 => Data::F64(values.iter().map(float).collect()),
        Phys::Str => Data::Str(values.iter().map(text).collect()),
        Phys::Code => Data::Code(values.iter().map(|v| int(v) as u32).collect()),
    };
    Arc::new(Vector::with_validity(data, Some(Bitmap::from_fn(values.len(), |i| values[i] != V::Null))))
}

pub(crate) fn value(vector: &Vector, row: usize) -> V {
    if !vector.is_valid(row) {
        return V::Null;
    }
    match &vector.data {
        Data::Bool(v) => V::Int(v[row].into()),
        Data::I32(v) => V::Int(v[row].into()),
        Data::I64(v) => V::Int(v[row].into()),
        Data::I128(v) => V::Int(v[row]),
        Data::F32(v) => V::Float(v[row].into()),
        Data::F64(v) => V::Float(v[row]),
        Data::Str(v) => V::Text(v[row].as_str().to_owned().leak()),
        Data::Code(v) => V::Int(v[row].into()),
    }
}

/// A string that is equal for values of the same group.
fn name(value: &V) -> String {
    match value {
        V::Float(v) => format!("{:?}", if *v == 0.0 { 0.0 } else { *v }),
        other => format!("{other:?}"),
    }
}

fn cell(column: usize) -> BoxedStrategy<V> {
    let some = match column {
        0 => (-3i128..=4).prop_map(V::Int).boxed(),
        1 => prop_oneof![Just(i64::MIN), Just(i64::MAX), 0i64..5].prop_map(|v| V::Int(v.into())).boxed(),
        2 => prop_oneof![Just(10i128.pow(36)), Just(-(10i128.pow(36))), 0i128..5].prop_map(V::Int).boxed(),
        3 | 4 => prop_oneof![Just(f64::NAN), Just(-f64::NAN), Just(-0.0), Just(0.0), Just(1.5), Just(f64::INFINITY)]
            .prop_map(V::Float)
            .boxed(),
        5 => (0i128..2).prop_map(V::Int).boxed(),
        6 => (0usize..TEXTS.len()).prop_map(|i| V::Text(TEXTS[i])).boxed(),
        7 => (0i128..3).prop_map(V::Int).boxed(),
        _ => (-1_000_000i128..=1_000_000).prop_map(V::Int).boxed(),
    };
    prop_oneof![1 => Just(V::Null), 5 => some].boxed()
}

pub(crate) fn row() -> impl Strategy<Value = Vec<V>> {
    (0..9).map(cell).collect::<Vec<_>>()
}

/// Runs the sink over `rows` in chunks of `chunk_rows`, dealt to `workers` workers.
fn run(sink: &AggregateSink, types: &[ColType], rows: &[Vec<V>], chunk_rows: usize, workers: usize) -> Result<RowSet> {
    run_under(Settings::default(), sink, types, rows, chunk_rows, workers)
}

/// As [`run`], under `settings`.
fn run_under(
    settings: Settings,
    sink: &AggregateSink,
    types: &[ColType],
    rows: &[Vec<V>],
    chunk_rows: usize,
    workers: usize,
) -> Result<RowSet> {
    let query = Arc::new(QueryContext::new(settings, Default::default()));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let mut locals: Vec<_> = (0..workers).map(|_| sink.local(&query)).collect();
    for (i, rows) in rows.chunks(chunk_rows).enumerate() {
        let column = |c: usize| vector(&types[c], &rows.iter().map(|row| row[c].clone()).collect::<Vec<_>>());
        locals[i % workers].consume(Chunk::from_vectors((0..types.len()).map(column).collect()))?;
    }
    match sink.finish(locals, &query, &pool)? {
        SinkOutput::Rows(rows) => Ok(Arc::into_inner(rows).unwrap()),
        SinkOutput::Spilled(rows) => drain(rows.source().as_ref(), &query),
        SinkOutput::Hash(_) => unreachable!(),
    }
}

/// All rows of a source, read by one worker.
pub(crate) fn drain(source: &dyn ChunkSource, query: &Arc<QueryContext>) -> Result<RowSet> {
    let mut rows = RowSet::default();
    let mut local = source.local(query);
    while local.next_morsel(&mut |chunk| {
        rows.batches.push((chunk.to_dense(), chunk.len()));
        Ok(())
    })? {}
    Ok(rows)
}

pub(crate) fn table(rows: &RowSet) -> Vec<Vec<V>> {
    let batch = |(columns, rows): &(Vec<Arc<Vector>>, usize)| -> Vec<Vec<V>> {
        (0..*rows).map(|row| columns.iter().map(|column| value(column, row)).collect()).collect()
    };
    rows.batches.iter().flat_map(batch).collect()
}

fn aggregate(function: F, column: Option<(usize, &ColType)>, ty: ColType) -> AggregateExpr {
    let argument = column.map(|(index, ty)| Expr::column(index, ty.clone()));
    AggregateExpr { function, argument, second: None, filter: None, distinct: false, ty }
}

fn of(logical: DataType) -> ColType {
    ColType::of(&logical, true).unwrap()
}

fn fields(groups: &[Expr], aggregates: &[AggregateExpr]) -> Vec<Field> {
    let types = groups.iter().map(|g| g.ty.clone()).chain(aggregates.iter().map(|a| a.ty.clone()));
    types.map(|ty| Field { name: String::new(), ty }).collect()
}

/// Every function over columns of every representation.
fn all_aggregates(types: &[ColType]) -> Vec<AggregateExpr> {
    let column = |c: usize| Some((c, &types[c]));
    let mut list = vec![
        aggregate(F::CountStar, None, of(DataType::Int64)),
        aggregate(F::Sum, column(0), of(DataType::Int64)),
        aggregate(F::Sum, column(2), of(DataType::Decimal128(38, 2))),
        aggregate(F::Sum, column(8), of(DataType::Decimal128(22, 2))),
        aggregate(F::Avg, column(8), of(DataType::Decimal128(16, 6))),
        aggregate(F::Avg, column(1), of(DataType::Float64)),
        aggregate(F::VarPop, column(0), of(DataType::Float64)),
        aggregate(F::StddevSamp, column(8), of(DataType::Float64)),
        aggregate(F::BoolAnd, column(5), of(DataType::Boolean)),
        aggregate(F::BoolOr, column(5), of(DataType::Boolean)),
    ];
    for (c, ty) in types.iter().enumerate() {
        list.push(aggregate(F::Count, column(c), of(DataType::Int64)));
        list.push(aggregate(F::Min, column(c), ty.clone()));
        list.push(aggregate(F::Max, column(c), ty.clone()));
        let distinct = aggregate(F::Count, column(c), of(DataType::Int64));
        list.push(AggregateExpr { distinct: true, ..distinct });
    }
    let filter = Expr::column(5, types[5].clone());
    list.extend([0, 3, 6].map(|c| aggregate(F::AnyValue, column(c), types[c].clone())));
    for c in [0, 6, 8] {
        let count = aggregate(F::Count, column(c), of(DataType::Int64));
        list.push(AggregateExpr { filter: Some(filter.clone()), distinct: true, ..count });
        let min = aggregate(F::Min, column(c), types[c].clone());
        list.push(AggregateExpr { filter: Some(filter.clone()), ..min });
    }
    let sum = aggregate(F::Sum, column(0), of(DataType::Int64));
    list.push(AggregateExpr { distinct: true, ..sum });
    list
}

pub(crate) fn order(a: &V, b: &V) -> std::cmp::Ordering {
    match (a, b) {
        (V::Int(a), V::Int(b)) => a.cmp(b),
        (V::Text(a), V::Text(b)) => a.cmp(b),
        (V::Float(a), V::Float(b)) => a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
        _ => unreachable!("one type"),
    }
}

fn column(expr: &Expr) -> usize {
    if let warpmill_ir::ExprKind::Column(c) = expr.kind { c } else { unreachable!("a column") }
}

/// The expected value of an aggregate; `None` where it does not fit.
fn expected(aggregate: &AggregateExpr, rows: &[&Vec<V>]) -> Option<V> {
    let passing = |row: &&&Vec<V>| aggregate.filter.as_ref().is_none_or(|filter| row[column(filter)] == V::Int(1));
    let rows: Vec<_> = rows.iter().filter(passing).collect();
    let Some(argument) = &aggregate.argument else { return Some(V::Int(rows.len() as i128)) };
    let mut values: Vec<V> = rows.iter().map(|row| row[column(argument)].clone()).filter(|v| *v != V::Null).collect();
    if aggregate.distinct {
        values = values.into_iter().map(|v| (name(&v), v)).collect::<BTreeMap<_, _>>().into_values().collect();
    }
    let ints = || values.iter().map(|v| if let V::Int(v) = v { *v } else { unreachable!() });
    let n = values.len() as f64;
    if aggregate.function == F::Count {
        return Some(V::Int(values.len() as i128));
    }
    if values.is_empty() {
        return Some(V::Null);
    }
    let squares = |scale: f64| {
        let mean = ints().map(|v| v as f64 * scale).sum::<f64>() / n;
        ints().map(|v| (v as f64 * scale - mean).powi(2)).sum::<f64>()
    };
    Some(match aggregate.function {
        F::Sum => {
            let (lo, hi) = ColType::range_of(&aggregate.ty.logical).unwrap();
            let sum = ints().fold(i256::ZERO, |sum, value| sum + i256::from_i128(value)).to_i128()?;
            return (lo..=hi).contains(&sum).then_some(V::Int(sum));
        }
        F::Avg if aggregate.ty.phys == Phys::F64 => V::Float(ints().sum::<i128>() as f64 / n),
        F::Avg => V::Int(ints().sum::<i128>() * 10_000 / values.len() as i128),
        F::Min | F::BoolAnd => values.into_iter().min_by(order).unwrap(),
        F::Max | F::BoolOr => values.into_iter().max_by(order).unwrap(),
        F::VarPop => V::Float(squares(1.0) / n),
        F::StddevSamp if values.len() < 2 => V::Null,
        F::StddevSamp => V::Float((squares(0.01) / (n - 1.0)).sqrt()),
        other => unreachable!("{other:?}"),
    })
}

fn close(a: &V, b: &V) -> bool {
    match (a, b) {
        (V::Float(a), V::Float(b)) => {
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
        }
        _ => a == b,
    }
}

/// Compares the sink with the oracle.
fn check(rows: &[Vec<V>], keys: &[usize], chunk_rows: usize, workers: usize) {
    check_under(Settings::default(), rows, keys, chunk_rows, workers);
}

/// As [`check`], under `settings`.
fn check_under(settings: Settings, rows: &[Vec<V>], keys: &[usize], chunk_rows: usize, workers: usize) {
    let types = types();
    let groups: Vec<Expr> = keys.iter().map(|&c| Expr::column(c, types[c].clone())).collect();
    let aggregates = all_aggregates(&types);
    let sink = AggregateSink::new(&groups, &aggregates, &fields(&groups, &aggregates), None).unwrap();
    let sink = if settings.spill.enabled { sink.with_perfect_bytes(0) } else { sink };
    let actual = run_under(settings, &sink, &types, rows, chunk_rows, workers);
    let mut oracle: BTreeMap<Vec<String>, Vec<&Vec<V>>> = BTreeMap::new();
    for row in rows {
        oracle.entry(keys.iter().map(|&c| name(&row[c])).collect()).or_default().push(row);
    }
    if keys.is_empty() {
        oracle.entry(vec![]).or_default();
    }
    let values = |aggregate: &AggregateExpr, members: &[&Vec<V>]| match aggregate.function {
        F::AnyValue => Some(V::Null),
        _ => expected(aggregate, members),
    };
    let fits = |members: &Vec<&Vec<V>>| aggregates.iter().all(|aggregate| values(aggregate, members).is_some());
    let actual = match actual {
        Ok(rows) => table(&rows),
        Err(ExecError::Value(error)) if !oracle.values().all(fits) => return assert_eq!(error, "overflow in sum"),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(actual.len(), oracle.len(), "number of groups by {keys:?}");
    for row in actual {
        let key: Vec<String> = row[..keys.len()].iter().map(name).collect();
        let members = oracle.remove(&key).unwrap_or_else(|| panic!("group {key:?} twice, or of no row"));
        for (aggregate, actual) in aggregates.iter().zip(&row[keys.len()..]) {
            if aggregate.function == F::AnyValue {
                let values = members.iter().map(|row| name(&row[column(aggregate.argument.as_ref().unwrap())]));
                let mut values = values.filter(|name| name != "Null").peekable();
                assert!(*actual == V::Null && values.peek().is_none() || values.any(|value| value == name(actual)));
                continue;
            }
            let expected = expected(aggregate, &members).expect("a sum that fits");
            assert!(close(actual, &expected), "{aggregate:?}: {actual:?}, not {expected:?}, for {members:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn agrees_with_the_oracle(
        rows in prop::collection::vec(row(), 0..60),
        keys in prop::sample::subsequence((0..9).collect::<Vec<usize>>(), 0..4),
        chunk_rows in 1usize..20,
        workers in 1usize..4,
    ) {
        check(&rows, &keys, chunk_rows, workers);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn agrees_with_the_oracle_when_groups_are_put_aside(
        rows in prop::collection::vec(row(), 0..60),
        keys in prop::sample::subsequence((0..9).collect::<Vec<usize>>(), 0..4),
        chunk_rows in 1usize..20,
        workers in 1usize..4,
        limit in prop_oneof![Just(0usize), 0usize..200_000],
    ) {
        check_under(spilling(limit), &rows, &keys, chunk_rows, workers);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]
    #[test]
    fn agrees_with_the_oracle_when_rows_come_in_order(
        (mut rows, last) in (prop::collection::vec(row(), 0..80), prop::collection::vec(row(), 0..3)),
        key in prop::sample::select(vec![1usize, 3, 8]),
        chunk_rows in 1usize..9,
        workers in 1usize..5,
        limit in prop_oneof![Just(None), (0usize..100_000).prop_map(Some)],
    ) {
        let least = |value: &V| if *value == V::Null { 0 } else { 1 };
        rows.sort_by(|a, b| match (&a[key], &b[key]) {
            (V::Null, _) | (_, V::Null) => least(&a[key]).cmp(&least(&b[key])),
            (a, b) => order(a, b),
        });
        // Rows that follow rows with greater keys.
        rows.extend(last);
        check_under(limit.map(spilling).unwrap_or_default(), &rows, &[key], chunk_rows, workers);
    }
}

#[test]
fn many_groups_in_order_need_no_merge() {
    let types = [int(DataType::Int64, Phys::I64, (0, 1_000_000))];
    let groups = [Expr::column(0, types[0].clone())];
    let aggregates = [aggregate(F::CountStar, None, of(DataType::Int64))];
    let sink = AggregateSink::new(&groups, &aggregates, &fields(&groups, &aggregates), None).unwrap();
    const GROUPS: i64 = 200_000;
    // Every key three times: groups span batches and workers.
    let rows: Vec<Vec<V>> = (0..3 * GROUPS).map(|i| vec![V::Int((i / 3).into())]).collect();
    for workers in [1, 2, 3] {
        let found = run(&sink, &types, &rows, 2048, workers).unwrap();
        assert_eq!(found.batches.len(), workers, "a batch for each worker");
        let mut found = table(&found);
        found.sort_by(|a, b| order(&a[0], &b[0]));
        let expected: Vec<Vec<V>> = (0..GROUPS).map(|key| vec![V::Int(key.into()), V::Int(3)]).collect();
        assert!(found == expected, "{workers} workers");
    }
}

/// Settings with a memory limit beyond which everything is spilled.
pub(crate) fn spilling(memory_limit: usize) -> Settings {
    let spill = SpillSettings { enabled: true, working_memory: Some(0), ..SpillSettings::default() };
    Settings { memory_limit, threads: 2, spill, ..Settings::default() }
}

#[test]
fn each_single_key_and_all_at_once() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let rows = prop::collection::vec(row(), 500).new_tree(&mut runner).unwrap().current();
    (0..9).for_each(|key| check(&rows, &[key], 64, 3));
    check(&rows, &(0..9).collect::<Vec<_>>(), 64, 1);
    check(&rows, &[], 64, 3);
}

#[test]
fn many_groups_are_frozen_and_merged() {
    let types = [int(DataType::Int64, Phys::I64, (i64::MIN.into(), i64::MAX.into()))];
    let groups = [Expr::column(0, types[0].clone())];
    let aggregates = [
        aggregate(F::CountStar, None, of(DataType::Int64)),
        aggregate(F::Sum, Some((0, &types[0])), of(DataType::Decimal128(38, 0))),
    ];
    let sink = AggregateSink::new(&groups, &aggregates, &fields(&groups, &aggregates), None).unwrap();
    const GROUPS: i64 = 400_000;
    // Every key twice, far apart, in unsorted order.
    let rows: Vec<Vec<V>> = (0..2 * GROUPS).map(|i| vec![V::Int((i * 7919 % GROUPS).into())]).collect();
    for workers in [1, 3] {
        for settings in
            [Settings::default(), Settings { spill: spilling(0).spill, memory_limit: 4 << 20, ..Settings::default() }]
        {
            let actual = table(&run_under(settings, &sink, &types, &rows, 2048, workers).unwrap());
            assert_eq!(actual.len(), GROUPS as usize);
            for row in actual {
                let V::Int(key) = row[0] else { panic!("a NULL key") };
                assert_eq!(row[1..], [V::Int(2), V::Int(2 * key)]);
            }
        }
    }
}

#[test]
fn failing_files_fail_the_query() {
    let types = types();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let rows = prop::collection::vec(row(), 500).new_tree(&mut runner).unwrap().current();
    let groups = [Expr::column(8, types[8].clone())];
    let aggregates = all_aggregates(&types);
    let sink = AggregateSink::new(&groups, &aggregates, &fields(&groups, &aggregates), None).unwrap();
    let sink = sink.with_perfect_bytes(0);
    for fault in [Fault::FullAt(5000), Fault::EndsAt(5000), Fault::FlippedAt(5000)] {
        let mut settings = spilling(0);
        settings.spill.fault = Some(fault);
        let error = run_under(settings, &sink, &types, &rows, 64, 2).unwrap_err();
        assert!(matches!(error, ExecError::Spill { .. }), "{fault:?}: {error}");
    }
}

#[test]
fn overflow_is_an_error() {
    let types = [ColType { range: None, ..int(DataType::Decimal128(38, 0), Phys::I128, (0, 0)) }];
    let aggregates = [aggregate(F::Sum, Some((0, &types[0])), types[0].clone())];
    let sink = AggregateSink::new(&[], &aggregates, &fields(&[], &aggregates), None).unwrap();
    let rows = vec![vec![V::Int(i128::MAX)], vec![V::Int(1)]];
    for (chunk_rows, workers) in [(2, 1), (1, 2)] {
        let error = run(&sink, &types, &rows, chunk_rows, workers).unwrap_err();
        assert!(matches!(error, ExecError::Value(_)), "{error}");
    }
}

#[test]
fn sums_may_leave_128_bits_on_their_way() {
    const MOST: i128 = 10i128.pow(38) - 1;
    let types = [int(DataType::Decimal128(38, 0), Phys::I128, (-MOST, MOST)), int(DataType::Int64, Phys::I64, (0, 3))];
    let value = Some((0, &types[0]));
    let aggregates = [aggregate(F::Sum, value, types[0].clone()), aggregate(F::Avg, value, of(DataType::Float64))];
    let rows = |values: &[i128]| -> Vec<Vec<V>> {
        let keys = |&value: &i128| (0..4).map(move |key| vec![V::Int(value), V::Int(key)]);
        values.iter().flat_map(keys).collect()
    };
    for groups in [vec![], vec![Expr::column(1, types[1].clone())]] {
        let sink = AggregateSink::new(&groups, &aggregates, &fields(&groups, &aggregates), None).unwrap();
        let sink = sink.with_perfect_bytes(0);
        for (settings, chunk_rows, workers) in
            [(Settings::default(), 9, 1), (Settings::default(), 2, 3), (spilling(0), 1, 2)]
        {
            let run = |values: &[i128]| run_under(settings.clone(), &sink, &types, &rows(values), chunk_rows, workers);
            let fits = run(&[MOST, MOST, MOST, 5 - MOST, -MOST, -MOST, 0, 0, 0, 0]).unwrap();
            let times = if groups.is_empty() { 4 } else { 1 };
            for row in table(&fits) {
                assert_eq!(row[groups.len()..], [V::Int(5 * times), V::Float(0.5)]);
            }
            for values in [[MOST, MOST, MOST, 1], [-MOST, -MOST, -MOST, -1]] {
                let error = run(&values).unwrap_err();
                assert!(matches!(error, ExecError::Value(_)), "{error}");
            }
        }
    }
}

#[test]
fn rows_beyond_the_proof_of_narrow_sums_are_refused() {
    let value = int(DataType::Int64, Phys::I64, (0, i64::MAX as i128 / 100));
    let aggregates = [aggregate(F::Sum, Some((0, &value)), of(DataType::Int64))];
    let run = |rows: usize, chunk_rows: usize, workers: usize| {
        let sink = AggregateSink::new(&[], &aggregates, &fields(&[], &aggregates), None).unwrap();
        let rows = vec![vec![V::Int(i64::MAX as i128 / 100)]; rows];
        run(&sink, std::slice::from_ref(&value), &rows, chunk_rows, workers)
    };
    for (chunk_rows, workers) in [(1, 1), (100, 1), (7, 3)] {
        assert!(run(100, chunk_rows, workers).is_ok());
        let error = run(101, chunk_rows, workers).unwrap_err();
        assert!(matches!(error, ExecError::NeedsWideSums { safe: 100 }), "{error}");
    }
}

#[test]
fn memory_is_accounted() {
    let types = [int(DataType::Int64, Phys::I64, (i64::MIN.into(), i64::MAX.into()))];
    let groups = [Expr::column(0, types[0].clone())];
    let sink = AggregateSink::new(&groups, &[], &fields(&groups, &[]), None).unwrap();
    let settings = Settings { memory_limit: 100_000, ..Settings::default() };
    let query = Arc::new(QueryContext::new(settings, Default::default()));
    let mut local = sink.local(&query);
    let chunk =
        |start: i64| Chunk::from_vectors(vec![Arc::new(Vector::new(Data::I64((start..start + 2048).collect())))]);
    local.consume(chunk(0)).unwrap();
    assert!(query.memory_used() > 0);
    assert!((1..100).any(|i| matches!(local.consume(chunk(i * 2048)), Err(ExecError::OutOfMemory { .. }))));
    drop(local);
    assert_eq!(query.memory_used(), 0);
}

/// CPU time of this thread, which other processes hardly disturb.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}

#[test]
#[ignore = "prints timings"]
fn timings() {
    const ROWS: usize = 20_000_000;
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    for groups in [0u64, 1, 6, 1000, 100_000, 1_000_000, 10_000_000] {
        let key = int(DataType::Int64, Phys::I64, (0, groups.max(1) as i128 - 1));
        let value = ColType { nullable: false, ..int(DataType::Decimal128(12, 2), Phys::I64, (0, 1_000_000)) };
        let keys = if groups == 0 { vec![] } else { vec![Expr::column(0, ColType { nullable: false, ..key })] };
        let argument = Some((1, &value));
        let aggregates = [
            aggregate(F::Sum, argument, of(DataType::Int64)),
            aggregate(F::Avg, argument, of(DataType::Decimal128(16, 6))),
            aggregate(F::CountStar, None, of(DataType::Int64)),
        ];
        let sink = AggregateSink::new(&keys, &aggregates, &fields(&keys, &aggregates), None).unwrap();
        let query = Arc::new(QueryContext::default());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let chunks: Vec<Chunk> = (0..ROWS / 2048)
            .map(|_| {
                let keys = (0..2048).map(|_| next(groups.max(1)) as i64).collect();
                let values = (0..2048).map(|_| next(1_000_000) as i64).collect();
                Chunk::from_vectors([keys, values].map(|v| Arc::new(Vector::new(Data::I64(v)))).to_vec())
            })
            .collect();
        let mut local = sink.local(&query);
        let start = std::time::Instant::now();
        let on_cpu = cpu_seconds();
        chunks.into_iter().for_each(|chunk| local.consume(chunk).unwrap());
        let (consumed, on_cpu) = (start.elapsed(), cpu_seconds() - on_cpu);
        sink.finish(vec![local], &query, &pool).map(|_| ()).unwrap();
        let finish = start.elapsed() - consumed;
        println!(
            "{groups} groups: consume {consumed:?} ({on_cpu:.3} s on the CPU), finish {finish:?}, {}",
            sink.name()
        );
    }
}
