//! Plans of window functions; the kernels also compile as CUDA.

use arrow::datatypes::DataType;
use warpmill_ir::{
    AggregateFunction as F, ColType, Exclude, Expr, Field, Frame, FrameBound as B, FrameUnits as U, Scalar, SortKey,
    WindowCall, WindowFunction as W,
};

use super::*;
use crate::device::cuda::nvrtc;

fn types() -> Vec<ColType> {
    let ty = |logical: DataType, nullable| ColType::of(&logical, nullable).unwrap();
    vec![
        ty(DataType::Int32, true).narrowed((0, 1000)),
        ty(DataType::Int64, false),
        ty(DataType::Decimal128(38, 2), true),
        ty(DataType::Float64, true),
        ty(DataType::Utf8, true),
        ty(DataType::Boolean, true),
    ]
}

fn column(at: usize) -> Expr {
    Expr::column(at, types()[at].clone())
}

fn call(function: W, argument: Option<usize>, (units, start, end): (U, B, B), ty: ColType) -> WindowCall {
    let frame = Frame { units, start, end, exclude: Exclude::Nothing };
    WindowCall { function, argument: argument.map(column), frame, ignore_nulls: false, ty }
}

fn near() -> (U, B, B) {
    (U::Rows, B::Preceding(Scalar::Int(3)), B::Following(Scalar::Int(400)))
}

fn running() -> (U, B, B) {
    (U::Range, B::UnboundedPreceding, B::CurrentRow)
}

fn calls() -> Vec<WindowCall> {
    let whole = || ColType::of(&DataType::Int64, true).unwrap();
    let float = || ColType::of(&DataType::Float64, true).unwrap();
    let wide = || ColType::of(&DataType::Decimal128(38, 2), true).unwrap();
    let groups = (U::Groups, B::Preceding(Scalar::Int(1)), B::Following(Scalar::Int(2)));
    let mut calls: Vec<WindowCall> = [W::RowNumber, W::Rank, W::DenseRank, W::Ntile(7)]
        .into_iter()
        .map(|function| call(function, None, running(), whole().with_nullable(false)))
        .collect();
    calls.extend([W::PercentRank, W::CumeDist].map(|function| call(function, None, running(), float())));
    let of = |argument: usize| types()[argument].with_nullable(true);
    for argument in 0..6 {
        let shift = |back| W::Shift { back, default: Scalar::Null };
        calls.push(call(shift(1), Some(argument), running(), of(argument)));
        calls.push(call(shift(-2), Some(argument), running(), of(argument)));
        calls.push(call(W::Last, Some(argument), near(), of(argument)));
        calls.push(call(W::Nth(-2), Some(argument), groups.clone(), of(argument)));
        calls.push(call(W::Aggregate(F::Count), Some(argument), near(), whole()));
    }
    calls.push(call(W::Shift { back: 1, default: Scalar::Int(5) }, Some(0), running(), types()[0].with_nullable(true)));
    for (argument, ty) in [(0, whole()), (1, wide()), (2, wide()), (3, float())] {
        for frame in [near(), running(), groups.clone()] {
            calls.push(call(W::Aggregate(F::Sum), Some(argument), frame.clone(), ty.clone()));
            calls.push(call(W::Aggregate(F::Avg), Some(argument), frame.clone(), float()));
            calls.push(call(W::Aggregate(F::Min), Some(argument), frame.clone(), of(argument)));
            calls.push(call(W::Aggregate(F::Max), Some(argument), frame, of(argument)));
        }
    }
    calls
}

fn sink(partition: &[usize], order: &[usize], calls: Vec<WindowCall>) -> Sink {
    let field = |ty: &ColType| Field { name: "x".into(), ty: ty.clone() };
    let fields = types().iter().chain(calls.iter().map(|call| &call.ty)).map(field).collect();
    let key = |&at: &usize| SortKey { expr: column(at), descending: at % 2 == 1, nulls_first: at % 3 == 0 };
    let partition = partition.iter().map(|&at| column(at)).collect();
    Sink::Window { partition, order: order.iter().map(key).collect(), calls, payload: (0..6).collect(), fields }
}

fn layout(sink: &Sink, capacity: u64) -> Result<RowsLayout> {
    let columns = FlatColumn::all("sink2", sink.fields());
    let window = Windowed::of(2, sink, &columns, capacity, 2)?;
    Ok(RowsLayout { columns, capacity, window: Some(Box::new(window)), ..RowsLayout::default() })
}

#[test]
fn the_kernels_are_cuda_too() {
    if nvrtc::available().is_err() {
        return;
    }
    let forms = [(&[0][..], &[1][..]), (&[0, 4], &[3, 2]), (&[1], &[3]), (&[], &[0]), (&[0], &[]), (&[], &[])];
    // Quick runs, such as those of CI, compile a third of them.
    let step = if std::env::var_os("WARPMILL_QUICK").is_some() { 3 } else { 1 };
    for (partition, order) in forms.into_iter().step_by(step) {
        let mut calls = calls();
        if let [key] = order {
            let distance = || if *key == 3 { Scalar::Float(0.5) } else { Scalar::Int(3) };
            let values = (U::Range, B::Preceding(distance()), B::Following(distance()));
            let float = ColType::of(&DataType::Float64, true).unwrap();
            calls.push(call(W::Aggregate(F::Avg), Some(0), values.clone(), float));
            let text = || types()[4].clone();
            let ignoring =
                |function, frame| WindowCall { ignore_nulls: true, ..call(function, Some(4), frame, text()) };
            calls.push(ignoring(W::First, values));
            calls.push(ignoring(W::Shift { back: -1, default: Scalar::Null }, running()));
        }
        let sink = sink(partition, order, calls);
        let layout = layout(&sink, 100_000).unwrap();
        let sources: std::collections::HashSet<_> =
            kernels(2, &layout, &sink, 0).unwrap().iter().map(crate::compile::functions::source).collect();
        for source in sources {
            nvrtc::compile_cubin(&source, "sm_90").unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn functions_share_their_series() {
    let ty = || ColType::of(&DataType::Int64, true).unwrap();
    let sum = |frame| call(W::Aggregate(F::Sum), Some(0), frame, ty());
    let least = |frame| call(W::Aggregate(F::Min), Some(0), frame, types()[0].clone());
    let sink = sink(&[0], &[1], vec![sum(near()), sum(running()), least(near()), least(running())]);
    let window = layout(&sink, 5000).unwrap().window.unwrap();
    let series: Vec<(Accumulator, Way)> = window.series.iter().map(|series| (series.accumulator, series.way)).collect();
    let wanted = [
        (Accumulator::Count, Way::Differences),
        (Accumulator::SumI64, Way::Differences),
        (Accumulator::Min, Way::Tree(1)),
        (Accumulator::Min, Way::Running),
    ];
    assert_eq!(series, wanted);
    assert!(window.operands.iter().all(|operand| !operand.own), "all are columns of the output");
}

#[test]
fn what_devices_do_not_compute_is_told() {
    let refused = |order: &[usize], call: WindowCall| {
        let sink = sink(&[0], order, vec![call]);
        layout(&sink, 100).unwrap_err().to_string()
    };
    let values = (U::Range, B::Preceding(Scalar::Int(3)), B::CurrentRow);
    let text = types()[4].clone();
    assert!(refused(&[4], call(W::First, Some(0), values, types()[0].clone())).contains("distances of values"));
    assert!(refused(&[1], call(W::Aggregate(F::Min), Some(4), near(), text)).contains("strings"));
    let sink = sink(&[0], &[1], calls());
    assert!(layout(&sink, u64::from(u32::MAX)).unwrap_err().to_string().contains("4294967294 rows"));
}
