//! Programs of constant rows, before and after.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};

use super::merge_equal_sinks;
use crate::program::{BuildRows, JoinKind, Probe};
use crate::{
    AggregateExpr, AggregateFunction, ColType, CompareOp, Expr, ExprKind, Field, Operator, Pipeline, Program, Scalar,
    Sink, Source,
};

fn int() -> ColType {
    ColType::of(&DataType::Int64, false).unwrap()
}

fn field(name: &str) -> Field {
    Field { name: name.into(), ty: int() }
}

fn column() -> Expr {
    Expr::column(0, int())
}

/// Constant rows of one column.
fn values(numbers: &[i64]) -> Source {
    let rows = numbers.iter().map(|&number| vec![Scalar::Int(number.into())]).collect();
    Source::Values { rows, fields: vec![field("v")] }
}

fn rows(sink: usize) -> Source {
    Source::Rows { sink, fields: vec![field("r")] }
}

fn pipeline(source: Source, operators: Vec<Operator>, sink: usize) -> Pipeline {
    Pipeline { source, operators, sink }
}

/// Groups of the column, called `name`.
fn groups(name: &str) -> Sink {
    Sink::Aggregate { groups: vec![column()], aggregates: vec![], fields: vec![field(name)] }
}

fn collect() -> Sink {
    Sink::Collect { fields: vec![field("result")] }
}

fn build(track_matches: bool) -> Sink {
    let (keys, payload, fields) = (vec![column()], vec![0], vec![field("b")]);
    Sink::HashBuild { keys, payload, fields, null_equals_null: false, track_matches, order: None }
}

fn probe(build: usize, kind: JoinKind) -> Operator {
    let (keys, output, fields) = (vec![column()], vec![0], vec![field("p")]);
    let (residual, asof, range) = (None, None, None);
    Operator::Probe(Probe { build, kind, keys, residual, asof, range, null_aware: false, output, fields })
}

/// The program after merging equal sinks.
fn left(pipelines: Vec<Pipeline>, sinks: Vec<Sink>) -> Program {
    let mut program = Program::new(pipelines, sinks, Arc::new(Schema::empty()));
    merge_equal_sinks(&mut program);
    program
}

#[test]
fn equal_groups_are_made_once_whatever_they_are_called() {
    let program = left(
        vec![
            pipeline(values(&[1, 1, 2]), vec![], 0),
            pipeline(values(&[1, 1, 2]), vec![], 1),
            pipeline(rows(0), vec![], 2),
            pipeline(rows(1), vec![], 2),
        ],
        vec![groups("a"), groups("b"), collect()],
    );
    assert_eq!((program.pipelines.len(), program.sinks.len()), (3, 2));
    let read: Vec<_> = program.pipelines.iter().filter_map(crate::graph::read).collect();
    assert_eq!(read, [0, 0]);
    assert_eq!(program.pipelines.iter().map(|pipeline| pipeline.sink).collect::<Vec<_>>(), [0, 1, 1]);
}

#[test]
fn what_is_made_of_equal_rows_is_equal() {
    let program = left(
        vec![
            pipeline(values(&[1]), vec![], 0),
            pipeline(rows(0), vec![], 1),
            pipeline(values(&[1]), vec![], 2),
            pipeline(rows(2), vec![], 3),
            pipeline(rows(1), vec![], 4),
            pipeline(rows(3), vec![], 4),
        ],
        vec![collect(), groups("a"), collect(), groups("b"), collect()],
    );
    assert_eq!((program.pipelines.len(), program.sinks.len()), (4, 3));
}

#[test]
fn differences_are_seen() {
    let count =
        |function| AggregateExpr { function, argument: None, second: None, filter: None, distinct: false, ty: int() };
    let counted =
        |function| Sink::Aggregate { groups: vec![], aggregates: vec![count(function)], fields: vec![field("n")] };
    let greater = |than: i128| {
        let (left, right) = (Box::new(column()), Box::new(Expr::literal(Scalar::Int(than), int())));
        let kind = ExprKind::Compare { op: CompareOp::Gt, left, right };
        Operator::Filter(Expr { kind, ..Expr::bool(true) })
    };
    let limit = |fetch| Operator::Limit { skip: 0, fetch: Some(fetch) };
    let narrow = ColType { range: Some((0, 9)), ..int() };
    let narrow = Source::Values { rows: vec![vec![Scalar::Int(1)]], fields: vec![Field { ty: narrow, ..field("v") }] };
    let cases = [
        ((values(&[1]), vec![], groups("a")), (values(&[2]), vec![], groups("a"))),
        ((values(&[1]), vec![greater(1)], groups("a")), (values(&[1]), vec![greater(2)], groups("a"))),
        ((values(&[1]), vec![limit(1)], groups("a")), (values(&[1]), vec![limit(2)], groups("a"))),
        ((values(&[1]), vec![limit(1)], groups("a")), (values(&[1]), vec![], groups("a"))),
        ((values(&[1]), vec![], groups("a")), (narrow, vec![], groups("a"))),
        ((values(&[1]), vec![], groups("a")), (values(&[1]), vec![], collect())),
        (
            (values(&[1]), vec![], counted(AggregateFunction::CountStar)),
            (values(&[1]), vec![], counted(AggregateFunction::AnyValue)),
        ),
    ];
    for (number, ((source, operators, sink), (other, others, second))) in cases.into_iter().enumerate() {
        let program = left(
            vec![
                pipeline(source, operators, 0),
                pipeline(other, others, 1),
                pipeline(rows(0), vec![], 2),
                pipeline(rows(1), vec![], 2),
            ],
            vec![sink, second, collect()],
        );
        assert_eq!(program.pipelines.len(), 4, "case {number}");
    }
}

#[test]
fn builds_go_with_the_pipelines_that_probe_them() {
    let joined = |of: usize| vec![probe(of, JoinKind::Inner)];
    let program = left(
        vec![
            pipeline(values(&[1]), vec![], 0),
            pipeline(values(&[1]), vec![], 1),
            pipeline(values(&[1, 2]), joined(0), 2),
            pipeline(values(&[1, 2]), joined(1), 3),
            pipeline(rows(2), vec![], 4),
            pipeline(rows(3), vec![], 4),
        ],
        vec![build(false), build(false), groups("a"), groups("b"), collect()],
    );
    assert_eq!((program.pipelines.len(), program.sinks.len()), (4, 3));
    // The second one stays if another pipeline probes it.
    let program = left(
        vec![
            pipeline(values(&[1]), vec![], 0),
            pipeline(values(&[1]), vec![], 1),
            pipeline(values(&[1, 2]), joined(0), 2),
            pipeline(rows(2), joined(1), 3),
        ],
        vec![build(false), build(false), groups("a"), collect()],
    );
    assert_eq!((program.pipelines.len(), program.sinks.len()), (4, 4));
}

#[test]
fn flags_of_a_build_are_those_of_its_own_probes() {
    let matched = |sink| Source::Build { sink, rows: BuildRows::Matched, fields: vec![field("m")] };
    let mark = |of| vec![probe(of, JoinKind::BuildOnly)];
    let program = left(
        vec![
            pipeline(values(&[1, 2]), vec![], 0),
            pipeline(values(&[1]), mark(0), 1),
            pipeline(matched(0), vec![], 2),
            pipeline(values(&[1, 2]), vec![], 3),
            pipeline(values(&[2]), mark(3), 4),
            pipeline(matched(3), vec![], 5),
            pipeline(rows(2), vec![], 6),
            pipeline(rows(5), vec![], 6),
        ],
        vec![build(true), collect(), groups("a"), build(true), collect(), groups("b"), collect()],
    );
    assert_eq!((program.pipelines.len(), program.sinks.len()), (8, 7));
}
