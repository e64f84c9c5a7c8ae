//! Window functions compared with their definitions, row by row.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::datatypes::DataType;
use proptest::prelude::*;
use warpmill_ir::{
    AggregateFunction as F, ColType, Exclude, Expr, Frame, FrameBound as B, FrameUnits as U, Scalar, SortKey,
    WindowCall, WindowFunction as W,
};

use super::WindowSink;
use super::slide::{Monoid, Slide};
use crate::aggregate::tests::{V, order, row, table, types, vector};
use crate::chunk::Chunk;
use crate::context::{ExecError, QueryContext, Result, Settings};
use crate::operator::{Sink, SinkOutput};

fn column(column: usize) -> Expr {
    Expr::column(column, types()[column].clone())
}

fn key(at: usize, descending: bool, nulls_first: bool) -> SortKey {
    SortKey { expr: column(at), descending, nulls_first }
}

/// A window: partition, order, and the frame of a call over a column.
#[derive(Debug, Clone)]
struct Case {
    partition: Vec<usize>,
    order: Vec<(usize, bool, bool)>,
    call: WindowCall,
    argument: usize,
}

/// The values of the case's call, row by row.
fn run(case: &Case, rows: &[Vec<V>], chunk_rows: usize, workers: usize, settings: Settings) -> Result<Vec<V>> {
    let partition: Vec<Expr> = case.partition.iter().map(|&at| column(at)).collect();
    let order: Vec<SortKey> = case.order.iter().map(|&(at, descending, first)| key(at, descending, first)).collect();
    let sink = WindowSink::new(&partition, &order, std::slice::from_ref(&case.call), &[0])?;
    let query = Arc::new(QueryContext::new(settings, Default::default()));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let mut locals: Vec<_> = (0..workers).map(|_| sink.local(&query)).collect();
    for (i, rows) in rows.chunks(chunk_rows).enumerate() {
        let columns = (0..9).map(|c| vector(&types()[c], &rows.iter().map(|row| row[c].clone()).collect::<Vec<_>>()));
        let mut chunk = Chunk::from_vectors(columns.collect());
        chunk.sequence = i as u64;
        locals[(i * 7 / 3) % workers].consume(chunk)?;
    }
    let SinkOutput::Rows(output) = sink.finish(locals, &query, &pool)? else { unreachable!() };
    let output = table(&output);
    assert!(output.iter().zip(rows).all(|(output, row)| output[0] == row[0]));
    Ok(output.into_iter().map(|mut row| row.pop().unwrap()).collect())
}

/// Compares values; NaN is greatest, and `nulls_first` places NULLs.
fn compare(a: &V, b: &V, (descending, nulls_first): (bool, bool)) -> Ordering {
    match (*a == V::Null, *b == V::Null) {
        (true, true) => Ordering::Equal,
        (true, false) => {
            if nulls_first {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
        (false, true) => {
            if nulls_first {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        }
        _ if descending => order(b, a),
        _ => order(a, b),
    }
}

/// A sorted partition, and one of its rows.
struct Place<'a> {
    case: &'a Case,
    rows: Vec<&'a Vec<V>>,
    at: usize,
}

impl Place<'_> {
    fn order(&self, a: usize, b: usize) -> Ordering {
        let keys = self
            .case
            .order
            .iter()
            .map(|&(at, descending, first)| compare(&self.rows[a][at], &self.rows[b][at], (descending, first)));
        keys.fold(Ordering::Equal, Ordering::then)
    }

    /// Index of the peer group of a row.
    fn group(&self, row: usize) -> i128 {
        (1..=row).filter(|&row| self.order(row - 1, row).is_ne()).count() as i128
    }

    /// The order of a row relative to a bound: before, at or after it.
    fn beside_bound(&self, row: usize, bound: &B) -> Ordering {
        let (sign, distance) = match bound {
            B::UnboundedPreceding => return Ordering::Greater,
            B::UnboundedFollowing => return Ordering::Less,
            B::CurrentRow => (0, &Scalar::Int(0)),
            B::Preceding(distance) => (-1, distance),
            B::Following(distance) => (1, distance),
        };
        match (self.case.call.frame.units, distance) {
            (U::Rows, Scalar::Int(n)) => (row as i128).cmp(&(self.at as i128 + sign * n)),
            (U::Groups, Scalar::Int(n)) => self.group(row).cmp(&(self.group(self.at) + sign * n)),
            _ if sign == 0 => self.order(row, self.at),
            (_, distance) => {
                let (at, descending, first) = self.case.order[0];
                let sign = if descending { -sign } else { sign };
                let bound = match (&self.rows[self.at][at], distance) {
                    (V::Int(value), Scalar::Int(n)) => V::Int(value + sign * n),
                    (V::Float(value), Scalar::Float(n)) => V::Float(value + sign as f64 * n),
                    (value, _) => value.clone(),
                };
                compare(&self.rows[row][at], &bound, (descending, first))
            }
        }
    }

    /// The rows of the frame.
    fn frame(&self) -> Vec<usize> {
        let Frame { start, end, exclude, .. } = &self.case.call.frame;
        let counts = |row: &usize| match exclude {
            Exclude::Nothing => true,
            Exclude::CurrentRow => *row != self.at,
            Exclude::Group => self.order(*row, self.at).is_ne(),
            Exclude::Ties => *row == self.at || self.order(*row, self.at).is_ne(),
        };
        let inside = |row: &usize| self.beside_bound(*row, start).is_ge() && self.beside_bound(*row, end).is_le();
        (0..self.rows.len()).filter(inside).filter(counts).collect()
    }

    fn argument(&self, row: usize) -> V {
        self.rows[row][self.case.argument].clone()
    }

    fn value(&self) -> V {
        let ignores = self.case.call.ignore_nulls;
        let counts = |row: &usize| !ignores || self.argument(*row) != V::Null;
        let frame: Vec<usize> = self.frame();
        let counted: Vec<usize> = frame.iter().copied().filter(counts).collect();
        let valid: Vec<V> = frame.iter().map(|&row| self.argument(row)).filter(|v| *v != V::Null).collect();
        let pick = |row: Option<&usize>| row.map_or(V::Null, |&row| self.argument(row));
        let ints = || valid.iter().map(|v| if let V::Int(v) = v { *v } else { 0 });
        let floats = || valid.iter().map(|v| if let V::Float(v) = v { *v } else { 0.0 });
        let count = self.rows.len();
        let peers = |wanted: Ordering| (0..count).filter(|&row| self.order(row, self.at) == wanted).count();
        match &self.case.call.function {
            W::RowNumber => V::Int(self.at as i128 + 1),
            W::Rank => V::Int(peers(Ordering::Less) as i128 + 1),
            W::DenseRank => V::Int(self.group(self.at) + 1),
            W::PercentRank => V::Float(peers(Ordering::Less) as f64 / (count - 1).max(1) as f64),
            W::CumeDist => V::Float((count - peers(Ordering::Greater)) as f64 / count as f64),
            W::Shift { back, .. } => {
                let rows: Vec<usize> = (0..count).filter(counts).collect();
                let distance = back.unsigned_abs() as usize;
                match back {
                    0 => self.argument(self.at),
                    1.. => pick(rows.iter().rev().filter(|row| **row < self.at).nth(distance - 1)),
                    _ => pick(rows.iter().filter(|row| **row > self.at).nth(distance - 1)),
                }
            }
            W::First => pick(counted.first()),
            W::Last => pick(counted.last()),
            W::Nth(n) => pick(counted.get(*n as usize - 1)),
            W::Aggregate(F::Count) => V::Int(valid.len() as i128),
            W::Aggregate(F::Min) => valid.into_iter().min_by(order).unwrap_or(V::Null),
            W::Aggregate(F::Max) => valid.into_iter().min_by(|a, b| order(b, a)).unwrap_or(V::Null),
            W::Aggregate(_) if valid.is_empty() => V::Null,
            W::Aggregate(F::Avg) => V::Float(ints().sum::<i128>() as f64 / valid.len() as f64 / 100.0),
            W::Aggregate(_) if self.case.argument == 3 => V::Float(floats().sum()),
            W::Aggregate(_) => V::Int(ints().sum()),
            other => unreachable!("{other:?}"),
        }
    }
}

fn expected(case: &Case, rows: &[Vec<V>]) -> Vec<V> {
    let same = |a: &[V], b: &[V]| case.partition.iter().all(|&at| compare(&a[at], &b[at], (false, false)).is_eq());
    let value = |row: usize| {
        let mut members: Vec<usize> = (0..rows.len()).filter(|&other| same(&rows[row], &rows[other])).collect();
        members.sort_by(|&a, &b| {
            let keys = case.order.iter().map(|&(at, desc, first)| compare(&rows[a][at], &rows[b][at], (desc, first)));
            keys.fold(Ordering::Equal, Ordering::then)
        });
        let at = members.iter().position(|&member| member == row).unwrap();
        Place { case, rows: members.iter().map(|&member| &rows[member]).collect(), at }.value()
    };
    (0..rows.len()).map(value).collect()
}

/// A call with a suitable result type.
fn call(function: W, argument: usize, frame: Frame, ignore_nulls: bool) -> WindowCall {
    let ty = match &function {
        W::RowNumber | W::Rank | W::DenseRank | W::Aggregate(F::Count) => ColType::of(&DataType::Int64, false),
        W::PercentRank | W::CumeDist | W::Aggregate(F::Avg) => ColType::of(&DataType::Float64, true),
        W::Aggregate(F::Sum) if argument == 3 => ColType::of(&DataType::Float64, true),
        W::Aggregate(F::Sum) => ColType::of(&DataType::Decimal128(38, 2), true),
        _ => Some(types()[argument].clone()),
    };
    WindowCall { function, argument: Some(column(argument)), frame, ignore_nulls, ty: ty.unwrap() }
}

fn bounds(distance: fn(i128) -> Scalar) -> impl Strategy<Value = (B, B)> {
    let bound = (0i128..4, any::<bool>()).prop_map(move |(n, before)| match before {
        true => B::Preceding(distance(n)),
        false => B::Following(distance(n)),
    });
    let start = prop_oneof![Just(B::UnboundedPreceding), Just(B::CurrentRow), bound.clone()];
    (start, prop_oneof![Just(B::UnboundedFollowing), Just(B::CurrentRow), bound])
}

fn function() -> impl Strategy<Value = (W, usize)> {
    let aggregate = W::Aggregate;
    let shift = |back| W::Shift { back, default: Scalar::Null };
    prop_oneof![
        prop_oneof![Just(W::RowNumber), Just(W::Rank), Just(W::DenseRank), Just(W::PercentRank), Just(W::CumeDist)]
            .prop_map(|function| (function, 0)),
        (-3i64..4, 0usize..9).prop_map(move |(back, argument)| (shift(back), argument)),
        (prop_oneof![Just(W::First), Just(W::Last), Just(W::Nth(2))], 0usize..9),
        (prop_oneof![Just(aggregate(F::Count)), Just(aggregate(F::Min)), Just(aggregate(F::Max))], 0usize..9),
        prop_oneof![Just(0usize), Just(1), Just(2), Just(3), Just(8)].prop_map(move |at| (aggregate(F::Sum), at)),
        Just((aggregate(F::Avg), 8)),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let key = |columns: Vec<usize>| (proptest::sample::select(columns), any::<bool>(), any::<bool>());
    let order = || proptest::collection::vec(key((0..9).collect()), 0..3);
    let counted = (prop_oneof![Just(U::Rows), Just(U::Groups)], bounds(Scalar::Int), order());
    let of_ints = (Just(U::Range), bounds(Scalar::Int), key(vec![0, 1, 8]).prop_map(|key| vec![key]));
    let of_floats = (Just(U::Range), bounds(|n| Scalar::Float(n as f64)), key(vec![3]).prop_map(|key| vec![key]));
    let framed = prop_oneof![counted, of_ints, of_floats];
    let partition = proptest::collection::vec(0usize..9, 0..3);
    let exclude = proptest::sample::select(vec![Exclude::Nothing, Exclude::CurrentRow, Exclude::Group, Exclude::Ties]);
    (partition, framed, function(), any::<bool>(), exclude).prop_map(
        |(partition, framed, (function, argument), ignore_nulls, exclude)| {
            let (units, (start, end), order) = framed;
            let call = call(function, argument, Frame { units, start, end, exclude }, ignore_nulls);
            Case { partition, order, call, argument }
        },
    )
}

/// Text of a value in its stored precision; floats are rounded.
fn shown(value: &V, argument: usize) -> String {
    match value {
        V::Float(v) if argument == 4 => format!("{:?}", *v as f32 + 0.0),
        V::Float(v) => format!("{:.6}", if v.is_nan() { f64::NAN } else { *v + 0.0 }),
        other => format!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn calls_have_the_values_of_their_definition(
        case in case(), rows in proptest::collection::vec(row(), 0..40), chunk_rows in 1usize..20, workers in 1usize..4,
    ) {
        let values = run(&case, &rows, chunk_rows, workers, Settings::default()).unwrap();
        let show = |values: &[V]| values.iter().map(|value| shown(value, case.argument)).collect::<Vec<_>>();
        prop_assert_eq!(show(&values), show(&expected(&case, &rows)));
    }
}

fn sum_of(argument: usize, frame: Frame) -> Case {
    Case {
        partition: vec![],
        order: vec![(0, false, false)],
        call: call(W::Aggregate(F::Sum), argument, frame, false),
        argument,
    }
}

fn row_of(at: usize, value: i128) -> Vec<V> {
    let mut row = vec![V::Null; 9];
    row[0] = V::Int(0);
    row[at] = V::Int(value);
    row
}

#[test]
fn sums_that_leave_their_type_are_errors_and_others_are_exact() {
    let most = 10i128.pow(38) - 1;
    let running = Frame { units: U::Rows, start: B::UnboundedPreceding, end: B::CurrentRow, exclude: Exclude::Nothing };
    let rows = [row_of(2, most), row_of(2, 1)];
    let error = run(&sum_of(2, running), &rows, 8, 1, Settings::default()).unwrap_err();
    assert!(matches!(&error, ExecError::Value(text) if text.contains("overflow")), "{error}");
    // Prefix sums exceed 128 bits, sums of frames do not.
    let rows: Vec<Vec<V>> = (0..100).map(|_| row_of(2, most)).collect();
    let single = Frame { units: U::Rows, start: B::CurrentRow, end: B::CurrentRow, exclude: Exclude::Nothing };
    let sums = run(&sum_of(2, single), &rows, 8, 2, Settings::default()).unwrap();
    assert!(sums.iter().all(|sum| *sum == V::Int(most)));
}

#[test]
fn rows_beyond_the_memory_limit_are_an_error() {
    let rows: Vec<Vec<V>> = (0..1000).map(|i| row_of(0, i % 5)).collect();
    let settings = Settings { memory_limit: 20_000, ..Settings::default() };
    let error = run(&sum_of(0, Frame::whole()), &rows, 100, 1, settings).unwrap_err();
    assert!(error.to_string().contains("memory_limit"), "{error}");
}

#[test]
fn large_partitions_are_split_among_threads() {
    let rows: Vec<Vec<V>> = (0..70_000i128).map(|i| row_of(8, i * 37 % 1000)).collect();
    let bounds = (B::Preceding(Scalar::Int(10)), B::Following(Scalar::Int(3)));
    for function in [F::Sum, F::Min, F::Max, F::Count] {
        let frame = Frame { units: U::Rows, start: bounds.0.clone(), end: bounds.1.clone(), exclude: Exclude::Nothing };
        let case = Case { call: call(W::Aggregate(function), 8, frame, false), ..sum_of(8, Frame::whole()) };
        let values = run(&case, &rows, 2048, 3, Settings::default()).unwrap();
        for at in (0..rows.len()).step_by(997).chain([16_383, 16_384, 16_385, 69_999]) {
            let frame = rows[at.saturating_sub(10)..rows.len().min(at + 4)].iter();
            let frame: Vec<i128> = frame.map(|row| if let V::Int(v) = row[8] { v } else { 0 }).collect();
            let expected = match function {
                F::Sum => frame.iter().sum(),
                F::Min => *frame.iter().min().unwrap(),
                F::Max => *frame.iter().max().unwrap(),
                _ => frame.len() as i128,
            };
            assert_eq!(values[at], V::Int(expected), "{function:?} at {at}");
        }
    }
}

/// A monoid of ranges of consecutive positions.
struct Listed;

impl Monoid for Listed {
    type Item = (usize, usize);

    fn identity(&self) -> (usize, usize) {
        (0, 0)
    }

    fn item(&self, position: usize) -> (usize, usize) {
        (position, position + 1)
    }

    fn combine(&self, first: (usize, usize), second: (usize, usize)) -> (usize, usize) {
        match (first, second) {
            ((0, 0), other) | (other, (0, 0)) => other,
            ((start, middle), (from, end)) => {
                assert_eq!(middle, from);
                (start, end)
            }
        }
    }
}

proptest! {
    #[test]
    fn slides_hold_exactly_the_frame(steps in proptest::collection::vec((0usize..4, 0usize..4), 0..100)) {
        let mut slide = Slide::new(&Listed);
        let (mut start, mut end) = (1, 1);
        for (forward, longer) in steps {
            start += forward;
            end = (end + longer).max(start);
            let expected = if start == end { (0, 0) } else { (start, end) };
            prop_assert_eq!(slide.to(start, end), expected);
        }
    }
}
