//! Teams of threads for group functions; their kernels also compile as CUDA.

use std::sync::Arc;

use arrow::datatypes::DataType;
use warpmill_ir::{ColType, Field, FunctionCall, GroupFunction};

use super::*;
use crate::device::cuda::nvrtc;

/// Text as written by `tests/python/udf/test_compiled.py`: a loop, and reductions.
const COMPOUNDED: &str = include_str!("../../kernels/tests/udf/compounded.cuh");
const CENTRED: &str = include_str!("../../kernels/tests/udf/centred.cuh");

fn ty(logical: &DataType, nullable: bool) -> ColType {
    ColType::of(logical, nullable).unwrap()
}

/// Both functions, with keys of these types.
fn sink(keys: &[ColType]) -> Sink {
    let function = |name: &str, text: &str| {
        Arc::new(GroupFunction { name: name.into(), text: text.into(), whole: vec![1, 2], floats: vec![0.5] })
    };
    let groups: Vec<Expr> = keys.iter().enumerate().map(|(at, key)| Expr::column(at, key.clone())).collect();
    let column = |at: usize, logical: &DataType, nullable| Expr::column(keys.len() + at, ty(logical, nullable));
    let (x, y) = (column(0, &DataType::Float64, true), column(1, &DataType::Int64, false));
    let result = ty(&DataType::Float64, true);
    let calls = vec![
        FunctionCall { function: function("compounded", COMPOUNDED), arguments: vec![x.clone()], ty: result.clone() },
        FunctionCall { function: function("centred", CENTRED), arguments: vec![x, y], ty: result.clone() },
    ];
    let types = keys.iter().cloned().chain([result.clone(), result]);
    let fields = types.map(|ty| Field { name: "f".into(), ty }).collect();
    Sink::Functions { groups, calls, fields }
}

fn layout(sink: &Sink) -> RowsLayout {
    let (columns, grouped) = Grouped::of(3, sink, 100_000, 2).unwrap();
    RowsLayout { columns, capacity: 100_000, grouped: Some(Box::new(grouped)), ..RowsLayout::default() }
}

#[test]
fn loops_have_a_thread_and_reductions_many() {
    let teams = |text| [0, 1, 2].map(|list| Team::of(text, list));
    assert_eq!(teams(COMPOUNDED), [Team::Thread, Team::Thread, Team::Lane]);
    assert_eq!(teams(CENTRED), [Team::Thread, Team::Warp, Team::Block]);
    assert_eq!(teams(&format!("{COMPOUNDED}{CENTRED}")), [Team::Thread, Team::Warp, Team::Warp]);
}

#[test]
fn long_loops_are_left_to_the_host() {
    let sink = sink(&[]);
    assert_eq!(check_loops(&sink, 1e7, 1e3), Ok(()));
    let refused = check_loops(&sink, 1e7, 1.0).unwrap_err();
    assert_eq!(refused.to_string(), "compounded: a loop over about 10000000 rows of a group, one after the other");
}

#[test]
fn lists_with_the_same_threads_share_a_kernel() {
    let text = |keys: &[ColType]| {
        let sink = sink(keys);
        let kernels = kernels(3, &layout(&sink), &sink, 0).unwrap();
        let own = kernels.into_iter().filter(|kernel| kernel.entry == "group_function");
        own.map(|kernel| kernel.text).collect::<Vec<_>>()
    };
    let one = text(&[]);
    let [loops @ .., _, _, _] = &one[..] else { panic!("three kernels for each call") };
    assert!(loops.len() == 3 && loops[0] == loops[1] && loops[1] != loops[2]);
    assert!(one[3] != one[4] && one[4] != one[5]);
    // The texts do not depend on the keys.
    assert_eq!(one, text(&[ty(&DataType::Utf8, true)]));
}

#[test]
fn arguments_are_kept_once() {
    let sink = sink(&[ty(&DataType::Int64, true), ty(&DataType::Int64, true)]);
    let layout = layout(&sink);
    let grouped = layout.grouped.unwrap();
    assert_eq!((layout.columns.len(), grouped.keys, grouped.calls), (4, vec![0, 1], vec![vec![2], vec![2, 3]]));
}

#[test]
fn the_kernels_are_cuda_too() {
    if nvrtc::available().is_err() {
        return;
    }
    let keys = [
        vec![],
        vec![ty(&DataType::Int32, true).narrowed((0, 1000))],
        vec![ty(&DataType::Utf8, true), ty(&DataType::Float64, true)],
    ];
    for keys in keys {
        let sink = sink(&keys);
        for kernel in kernels(3, &layout(&sink), &sink, 0).unwrap() {
            if kernel.entry.starts_with("group") {
                let source = crate::compile::functions::source(&kernel);
                nvrtc::compile_cubin(&source, "sm_90").unwrap_or_else(|error| panic!("{}: {error}", kernel.entry));
            }
        }
    }
}
