//! Programs over mutated tables, several at a time and each on several threads: they return the rows that were written, or an error, and an error in
//! one thread frees nothing that another one still uses. `WARPMILL_MUTATIONS` sets the number of mutations (default 30), `WARPMILL_MUTATION_SEED`
//! their seed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use warpmill_format::table::WriteOptions;
use warpmill_format::{Codec, CodecOptions, Table, TableSnapshot};
use warpmill_ir::{
    AggregateExpr, AggregateFunction, ColType, CompareOp, Expr, ExprKind, Field, Phys, Pipeline, Program, PruningMode,
    Scalar, Scan, Sink, SortKey, Source,
};

use super::{Output, execute_placed};
use crate::arrow::to_batches;
use crate::context::{CancelToken, QueryContext, Settings};

/// Number of rows of a row segment: each is a morsel, which a worker claims.
const SEGMENT_ROWS: usize = 1024;
const SEGMENTS: usize = 12;
/// More than the number of cores of most test machines.
const THREADS: usize = 6;
/// Number of programs that run concurrently over one snapshot.
const AT_ONCE: usize = 3;

fn rows() -> RecordBatch {
    let count = (SEGMENT_ROWS * SEGMENTS) as i64;
    let word = |n: i64| (n % 13 != 5).then(|| ["nord", "süd", "hafen", ""][n as usize % 4]);
    let columns: [(&str, ArrayRef, bool); 4] = [
        ("k", Arc::new((0..count).map(Some).collect::<Int64Array>()), false),
        ("f", Arc::new((0..count).map(|n| (n % 11 != 0).then_some(n as f64 / 8.0)).collect::<Float64Array>()), true),
        ("word", Arc::new((0..count).map(word).collect::<StringArray>()), true),
        ("text", Arc::new((0..count).map(|n| Some(format!("row {n} of {count}"))).collect::<StringArray>()), false),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// A table of several row segments, compressed.
fn written(folder: &Path, codec: Codec) -> PathBuf {
    let path = folder.join(codec.name());
    let codec = Some(CodecOptions::fixed(codec));
    let options = WriteOptions { segment_rows: SEGMENT_ROWS, zone_rows: 1024, codec, threads: 1, ..Default::default() };
    let mut writer = Table::build(&path, rows().schema(), options).unwrap();
    writer.write(&rows()).unwrap();
    writer.commit().unwrap();
    path
}

/// The types of the columns, with their proven bounds.
fn fields(table: &TableSnapshot) -> Vec<Field> {
    let columns = table.schema().fields().iter().enumerate();
    let typed = |(column, field): (usize, &Arc<arrow::datatypes::Field>)| {
        let ty = ColType::of(field.data_type(), field.is_nullable()).unwrap();
        let ty = match table.dictionary(column) {
            Some(dictionary) => ColType { phys: Phys::Code, dictionary: Some(dictionary.clone()), ..ty },
            None => ty,
        };
        Field { name: field.name().clone(), ty }
    };
    columns.map(typed).collect()
}

/// A pipeline over the rows of `table` with `k >= from`.
fn program(table: &Arc<TableSnapshot>, from: Option<i128>, sink: Sink, schema: SchemaRef) -> Program {
    let fields = fields(table);
    let key = fields[0].ty.clone();
    let filter = from.map(|from| Expr {
        kind: ExprKind::Compare {
            op: CompareOp::Ge,
            left: Box::new(Expr::column(0, key.clone())),
            right: Box::new(Expr::literal(Scalar::Int(from), key)),
        },
        ty: ColType::of(&DataType::Boolean, false).unwrap(),
    });
    let scan = Scan {
        table: table.clone(),
        name: "t".into(),
        columns: (0..fields.len()).collect(),
        fields,
        filters: filter.into_iter().collect(),
        prune: vec![],
        sideways: vec![],
        pruning: PruningMode::All,
    };
    let last = sink.fields().to_vec();
    let mut pipelines = vec![Pipeline { source: Source::Scan(scan), operators: vec![], sink: 0 }];
    let mut sinks = vec![sink];
    if !matches!(sinks[0], Sink::Collect { .. }) {
        pipelines.push(Pipeline { source: Source::Rows { sink: 0, fields: last.clone() }, operators: vec![], sink: 1 });
        sinks.push(Sink::Collect { fields: last });
    }
    Program::new(pipelines, sinks, schema)
}

/// Programs that read all columns: unchanged rows, a selection, groups, and a sort.
fn programs(table: &Arc<TableSnapshot>) -> Vec<Program> {
    let (fields, schema) = (fields(table), table.schema().clone());
    let column = |index: usize| Expr::column(index, fields[index].ty.clone());
    let all = || Sink::Collect { fields: fields.clone() };
    let key = |index| SortKey { expr: column(index), descending: true, nulls_first: false };
    let sort = Sink::Sort { keys: vec![key(3)], skip: 0, fetch: None, fields: fields.clone() };
    let first = Sink::Sort { keys: vec![key(2), key(3)], skip: 5, fetch: Some(20), fields: fields.clone() };
    let aggregate = |index: usize, function| AggregateExpr {
        function,
        argument: Some(column(index)),
        second: None,
        filter: None,
        distinct: false,
        ty: fields[index].ty.with_nullable(true),
    };
    let aggregates = vec![
        aggregate(0, AggregateFunction::Max),
        aggregate(1, AggregateFunction::Min),
        aggregate(3, AggregateFunction::Max),
    ];
    let groups = vec![column(2)];
    let named = |index: usize| Field { name: fields[index].name.clone(), ty: fields[index].ty.with_nullable(true) };
    let of_groups = [2, 0, 1, 3].map(named).to_vec();
    let columns =
        of_groups.iter().map(|field| arrow::datatypes::Field::new(&field.name, field.ty.logical.clone(), true));
    let grouped = Arc::new(Schema::new(columns.collect::<Vec<_>>()));
    vec![
        program(table, None, all(), schema.clone()),
        program(table, Some(5000), all(), schema.clone()),
        program(table, None, sort, schema.clone()),
        program(table, Some(9000), first, schema),
        program(table, None, Sink::Aggregate { groups, aggregates, fields: of_groups }, grouped),
    ]
}

/// The rows of `program` as text.
fn run(program: &Program, pool: &rayon::ThreadPool) -> Result<String, String> {
    let settings = Settings { threads: THREADS, ..Settings::default() };
    let query = Arc::new(QueryContext::new(settings, CancelToken::default()));
    let done = execute_placed(program, &[], vec![], &query, pool);
    let (output, _) = done.map_err(|error| error.to_string())?;
    let Output::Rows(rows) = output else { panic!("nothing is put aside without a limit") };
    let fields = program.sinks.last().unwrap().fields();
    let batches = to_batches(rows, fields, &program.schema).map_err(|error| error.to_string())?;
    drop(query);
    let mut lines: Vec<String> = pretty_format_batches(&batches).unwrap().to_string().lines().map(Into::into).collect();
    if matches!(program.sinks[0], Sink::Aggregate { .. }) {
        // Groups come in any order.
        lines.sort();
    }
    Ok(lines.join("\n"))
}

/// The results of all programs over the table at `path`, several at a time; an error if the table cannot be opened.
fn outcomes(path: &Path, pool: &rayon::ThreadPool) -> Result<Vec<Result<String, String>>, String> {
    let table = Table::open(path).and_then(|table| table.snapshot()).map_err(|error| error.to_string())?;
    let programs = programs(&table);
    let mut found = vec![];
    for some in programs.chunks(AT_ONCE) {
        found.extend(std::thread::scope(|scope| {
            let running: Vec<_> = some.iter().map(|program| scope.spawn(|| run(program, pool))).collect();
            running.into_iter().map(|thread| thread.join().expect("an error is no panic")).collect::<Vec<_>>()
        }));
    }
    Ok(found)
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn mutated_tables_give_their_rows_or_errors_on_all_threads() {
    let folder = tempfile::tempdir().unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(THREADS).build().unwrap();
    let (tries, mut state) = (number("WARPMILL_MUTATIONS", 30), number("WARPMILL_MUTATION_SEED", 17));
    let mut random = |end: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % end
    };
    let (mut right, mut errors) = (0, 0);
    for codec in [Codec::Lz4, Codec::Zstd, Codec::None] {
        let path = written(folder.path(), codec);
        let expected = outcomes(&path, &pool).unwrap();
        assert!(expected.iter().all(Result::is_ok), "{expected:?}");
        let files = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
        let file = files.into_iter().find(|file| file.extension().is_some_and(|found| found == "data")).unwrap();
        let good = std::fs::read(&file).unwrap();
        for _ in 0..tries / 3 {
            let (mut bytes, at) = (good.clone(), random(good.len()));
            bytes[at] ^= 1 << random(8);
            // A new file, because the previous one may still be mapped.
            std::fs::remove_file(&file).unwrap();
            std::fs::write(&file, &bytes).unwrap();
            // A table that cannot be opened fails each of its programs.
            let found = outcomes(&path, &pool).unwrap_or_else(|error| vec![Err(error); expected.len()]);
            for (found, expected) in found.iter().zip(&expected) {
                assert!(found.is_err() || found == expected, "{codec:?}, a bit of byte {at}: {found:?}");
                right += u64::from(found.is_ok());
                errors += u64::from(found.is_err());
            }
        }
    }
    println!("\nattack-tally\tprograms over mutants\tright\t{right}");
    println!("\nattack-tally\tprograms over mutants\terror\t{errors}");
    assert!(tries < 30 || right > 0 && errors > 0, "{right} right, {errors} errors");
}
