use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::execution::context::{SessionConfig, SessionContext};
use datafusion::logical_expr::{AggregateUDF, Expr, TableType};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use warpmill_datagen::Suite;
use warpmill_format::{Table, TableSnapshot};

use crate::scan_exec::WarpmillScanExec;
use crate::{Options, Translated, translate};
use warpmill_ir::{GroupFunction, JoinKind, Operator, Phys, Program, Sink, Source, Unsupported};

/// A table as plans see it.
struct Stored {
    name: String,
    table: Arc<TableSnapshot>,
}

impl std::fmt::Debug for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

#[async_trait]
impl TableProvider for Stored {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.table.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = WarpmillScanExec::try_new(Arc::clone(&self.table), &self.name, projection.cloned())?;
        Ok(Arc::new(scan))
    }
}

fn session() -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2))
}

fn stored(name: &str, batches: &[RecordBatch]) -> Arc<Stored> {
    let table = Table::in_memory(batches[0].schema());
    let mut writer = table.append(Default::default()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    Arc::new(Stored { name: name.into(), table: writer.commit().unwrap() })
}

/// The tables of a suite at a small scale, made once.
fn suite(suite: Suite) -> SessionContext {
    type Tables = Vec<(&'static str, Arc<Stored>)>;
    static TABLES: [OnceLock<Tables>; 2] = [const { OnceLock::new() }; 2];
    let tables = TABLES[usize::from(suite == Suite::Ssb)].get_or_init(|| {
        let sf = 0.01;
        let make = |&name: &&'static str| {
            let parts = warpmill_datagen::parts(suite, name, sf).unwrap();
            let batches = (0..parts).flat_map(|part| warpmill_datagen::generate(suite, name, sf, part).unwrap());
            (name, stored(name, &batches.collect::<Vec<_>>()))
        };
        warpmill_datagen::tables(suite).iter().map(make).collect()
    });
    let context = session();
    for (name, table) in tables {
        context.register_table(*name, Arc::clone(table) as _).unwrap();
    }
    context
}

fn plan(context: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { context.sql(sql).await.unwrap().create_physical_plan().await.unwrap() })
}

fn translated(context: &SessionContext, sql: &str) -> Translated {
    let plan = plan(context, sql);
    let shown = || displayable(plan.as_ref()).indent(false).to_string();
    let translated = translate(&plan, &Options::default()).unwrap_or_else(|e| panic!("{sql}\n{e}\n{}", shown()));
    translated.program.validate().unwrap_or_else(|e| panic!("{sql}\n{e}\n{}", shown()));
    translated
}

fn query(suite_of: Suite, name: &str) -> &'static str {
    warpmill_datagen::queries(suite_of).iter().find(|query| query.name == name).unwrap().sql
}

#[test]
fn every_query_of_the_suites_translates_as_a_whole() {
    let mut failures = Vec::new();
    for which in [Suite::Tpch, Suite::Ssb] {
        let context = suite(which);
        for query in warpmill_datagen::queries(which) {
            let plan = plan(&context, query.sql);
            let shown = displayable(plan.as_ref()).indent(false).to_string();
            match translate(&plan, &Options::default()) {
                Err(error) => failures.push(format!("{which} {}: {error}\n{shown}", query.name)),
                Ok(translated) => {
                    if let Err(error) = translated.program.validate() {
                        failures.push(format!("{which} {}: {error}\n{shown}", query.name));
                    }
                    assert!(translated.inputs.is_empty() && translated.fallbacks.is_empty());
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

macro_rules! suite_snapshots {
    ($($test:ident: $suite:ident $name:literal;)*) => {
        $(#[test]
        fn $test() {
            let program = translated(&suite(Suite::$suite), query(Suite::$suite, $name)).program;
            insta::assert_snapshot!(program);
        })*
    };
}

suite_snapshots! {
    tpch_1_aggregates_in_one_pass: Tpch "1";
    tpch_3_joins_and_keeps_ten: Tpch "3";
    tpch_4_semi_join: Tpch "4";
    tpch_6_filters_in_the_scan: Tpch "6";
    tpch_11_subquery_in_having: Tpch "11";
    tpch_13_outer_join: Tpch "13";
    tpch_15_subquery_in_a_join: Tpch "15";
    tpch_16_not_in: Tpch "16";
    tpch_18_semi_join_with_groups: Tpch "18";
    tpch_19_residual: Tpch "19";
    tpch_21_semi_and_anti_joins_with_residuals: Tpch "21";
    tpch_22_subquery_and_anti_join: Tpch "22";
    ssb_1_1: Ssb "1.1";
    ssb_4_1: Ssb "4.1";
}

/// Tables `a (id, v, name)` and `b (id, w, name)` with NULLs, and `m`, a copy of `b` that stays in DataFusion.
fn small() -> SessionContext {
    let batch = |keys: Vec<Option<i64>>, value: &str| {
        let n = keys.len() as i128;
        let values =
            Decimal128Array::from_iter_values((0..n).map(|i| i * 100)).with_precision_and_scale(10, 2).unwrap();
        let names = StringArray::from_iter((0..n).map(|i| (i % 2 == 0).then(|| format!("n{}", i % 4))));
        let columns: Vec<(&str, ArrayRef)> =
            vec![("id", Arc::new(Int64Array::from(keys))), (value, Arc::new(values)), ("name", Arc::new(names))];
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
            .unwrap()
    };
    let (a, b) = (batch(vec![Some(1), Some(2), None, Some(4), Some(4)], "v"), batch(vec![Some(2), None, Some(4)], "w"));
    let context = session();
    context.register_table("a", stored("a", &[a])).unwrap();
    let memory = MemTable::try_new(b.schema(), vec![vec![b.clone()]]).unwrap();
    context.register_table("m", Arc::new(memory)).unwrap();
    context.register_table("b", stored("b", &[b])).unwrap();
    context
}

fn probes(program: &Program) -> Vec<JoinKind> {
    let operators = program.pipelines.iter().flat_map(|pipeline| &pipeline.operators);
    operators
        .filter_map(|operator| if let Operator::Probe(probe) = operator { Some(probe.kind) } else { None })
        .collect()
}

#[test]
fn every_kind_of_join_translates() {
    let context = small();
    for sql in [
        "select a.v, b.w from a join b on a.id = b.id",
        "select a.v, b.w from a left join b on a.id = b.id and a.v < b.w",
        "select a.v, b.w from a right join b on a.id = b.id",
        "select a.v, b.w, a.name from a full join b on a.id = b.id",
        "select a.v, b.w from a join b on a.name = b.name",
        "select a.v, b.w from a full join b on a.v < b.w",
        "select a.v, b.w from a cross join b",
        "select v from a where exists (select 1 from b where b.id = a.id)",
        "select v from a where not exists (select 1 from b where b.id = a.id and b.w <> a.v)",
        "select v from a where id in (select id from b) or v = 1",
        "select v from a where a.id is not distinct from (select max(id) from b)",
        "select a.v from a join b on a.id is not distinct from b.id",
        "select v from a intersect select w from b",
        "select v from a except select w from b",
    ] {
        let program = translated(&context, sql).program;
        assert!(!probes(&program).is_empty(), "{sql}\n{program}");
    }
}

#[test]
fn not_in_streams_the_rows_that_it_keeps() {
    let program = translated(&small(), "select v from a where id not in (select id from b)").program;
    let aware = program.pipelines.iter().flat_map(|pipeline| &pipeline.operators).any(
        |operator| matches!(operator, Operator::Probe(probe) if probe.null_aware && probe.kind == JoinKind::ProbeAnti),
    );
    assert!(aware, "{program}");
}

#[test]
fn joins_on_null_keys_do_not_prune_scans() {
    let program = translated(&small(), "select a.v from a join b on a.id is not distinct from b.id").program;
    let scans =
        program.pipelines.iter().filter_map(|p| if let Source::Scan(scan) = &p.source { Some(scan) } else { None });
    assert!(scans.into_iter().all(|scan| scan.prune.is_empty()), "{program}");
}

#[test]
fn operators_and_expressions_translate() {
    let context = small();
    for sql in [
        "select 1 + 1, 'x' || 'y', cast(null as int)",
        "select count(*) from a",
        "select count(distinct id), sum(v), avg(v), min(name), max(id), stddev(cast(id as double)) from a",
        "select name, sum(v) filter (where id > 1) from a group by name having count(*) > 1 order by 2 desc nulls first limit 3 offset 1",
        "select distinct name from a",
        "select v from a union all select w from b union all select w from m limit 4",
        "select v from (select v from a union all select w from b) order by v limit 2",
        "select case name when 'n0' then v when 'n2' then 2 * v else null end, coalesce(id, 0), nullif(id, 2) from a",
        "select upper(name), substr(name, 1, 1), name || id, length(name), name like 'n%', name ~ '^n' from a",
        "select abs(id - 3), -v, v / 3, id / 2, id % 2, v * v * v, cast(v as double) as d, cast(v as int) as i, try_cast(name as int) as t from a",
        "select * from a where id in (1, 2, 99999999999, null) or not (name in ('n0', 'zz')) or id between 3 and 5",
        "select * from a where v > (select avg(w) from b) and id > 1",
        "select (select max(w) from b), v from a",
    ] {
        translated(&context, sql);
    }
}

#[test]
fn predicates_on_statistics_fold() {
    let context = small();
    let program = translated(&context, "select v from a where v < 1000 and v >= 0").program;
    assert!(!program.to_string().contains("where"), "v is in 0 .. 4: {program}");
    let program = translated(&context, "select id from a where id < 1000").program;
    assert!(program.to_string().contains("where"), "id can be NULL: {program}");
}

#[test]
fn sums_are_wide_where_rows_are_unknown_or_it_is_asked_for() {
    let context = small();
    let held = |sql: &str, wide_sums: bool| {
        let translated = translate(&plan(&context, sql), &Options { wide_sums, ..Default::default() }).unwrap();
        let sums = translated.program.sinks.iter().filter_map(|sink| match sink {
            Sink::Aggregate { aggregates, .. } => Some(aggregates[0].ty.phys),
            _ => None,
        });
        sums.collect::<Vec<_>>()
    };
    assert_eq!(held("select sum(v) from a", true), [Phys::I64]);
    assert_eq!(held("select sum(w) from m", false), [Phys::I128]);
}

#[test]
fn an_unsupported_subtree_becomes_an_input() {
    let context = small();
    let sql = "select name, count(*) from (select name, sum(distinct id) over (order by id) r from a) where r > 1 \
               group by name";
    let plan = plan(&context, sql);
    let error = translate(&plan, &Options::default()).unwrap_err();
    assert!(error.reason.contains("different values in a window"), "{error}");
    let translated = translate(&plan, &Options { fallback: true, ..Default::default() }).unwrap();
    translated.program.validate().unwrap();
    assert_eq!((translated.inputs.len(), translated.fallbacks.len()), (1, 1));
    assert_eq!(translated.fallbacks[0], error);
}

#[test]
fn promised_orders_are_kept_where_the_sorting_is_not() {
    let context = SessionContext::new_with_config(
        SessionConfig::new().with_target_partitions(2).set_bool("datafusion.optimizer.prefer_hash_join", false),
    );
    let from = small();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for name in ["a", "b"] {
        let table = runtime.block_on(from.table_provider(name)).unwrap();
        context.register_table(name, table).unwrap();
    }
    let program = translated(&context, "select a.id, v, w from a join b on a.id = b.id order by a.id").program;
    assert!(matches!(program.sinks.last(), Some(Sink::Sort { .. })), "{program}");
}

#[test]
fn scans_know_their_statistics() {
    use datafusion::common::stats::Precision;
    use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
    let context = small();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let table = runtime.block_on(context.table_provider("a")).unwrap();
    let scan = runtime.block_on(table.scan(&context.state(), Some(&vec![0]), &[], None)).unwrap();
    let statistics = StatisticsContext::new().compute(scan.as_ref(), &StatisticsArgs::new()).unwrap();
    assert_eq!(statistics.num_rows, Precision::Exact(5));
    let id = &statistics.column_statistics[0];
    assert_eq!(id.null_count, Precision::Exact(1));
    assert_eq!(
        (id.min_value.clone(), id.max_value.clone()),
        (Precision::Exact(1i64.into()), Precision::Exact(4i64.into()))
    );
}

#[test]
fn strings_of_few_codes_are_keys_as_codes() {
    let context = small();
    let keys = |sql: &str| {
        let program = translated(&context, sql).program;
        let keys = program.sinks.iter().find_map(|sink| match sink {
            Sink::Aggregate { groups, .. } => Some(groups.clone()),
            Sink::HashBuild { keys, .. } => Some(keys.clone()),
            Sink::Sort { keys, .. } => Some(keys.iter().map(|key| key.expr.clone()).collect()),
            Sink::Window { partition, .. } => Some(partition.clone()),
            Sink::Functions { groups, .. } => Some(groups.clone()),
            Sink::Collect { .. } => None,
        });
        let held = keys.unwrap_or_default().into_iter().map(|key| match key.ty.dictionary {
            Some(dictionary) => dictionary.iter().collect::<Vec<_>>().join(" "),
            None => format!("{:?}", key.ty.phys),
        });
        held.collect::<Vec<_>>()
    };
    for (key, held) in [
        ("upper(name)", "N0 N2"),
        // The same codes twice.
        ("name || name", "n0n0 n2n2"),
        ("substr(name, 1, 1)", "n"),
        ("coalesce(name, 'none')", "n0 n2 none"),
        ("case when id > 2 then 'b' when id > 1 then 'a' end", "a b"),
        ("case when id > 2 then name else upper(name) end", "N0 N2 n0 n2"),
        ("upper(case when id > 2 then name else 'x' end)", "N0 N2 X"),
        ("case when id > 2 then cast(id as varchar) else name end", "3 4 n0 n2"),
        ("name || id", "n01 n02 n03 n04 n21 n22 n23 n24"),
        ("name || cast(v as double)", "Str"),
    ] {
        assert_eq!(keys(&format!("select {key}, count(*) from a group by 1")), [held], "{key}");
        assert_eq!(keys(&format!("select id from a order by {key}")), [held], "{key}");
    }
    let join = |on: &str| keys(&format!("select count(*) from a join b on {on}"));
    assert_eq!(join("a.name = b.name"), ["n0 n2"]);
    assert_eq!(join("upper(a.name) = upper(b.name)"), ["N0 N2"]);
    assert_eq!(join("upper(a.name) = b.name"), ["N0 N2 n0 n2"]);
    let shown = translated(&context, "select upper(name), count(*) from a group by 1").program.to_string();
    assert!(shown.contains("aggregate by [upper(name)]"), "{shown}");
}

#[test]
fn windows_of_the_same_order_are_one_sink() {
    let context = small();
    let shown = |sql: &str| translated(&context, sql).program.to_string();
    let lines = |sql: &str| {
        let shown = shown(sql);
        shown.lines().map(str::trim).filter(|line| line.starts_with("window")).map(str::to_owned).collect::<Vec<_>>()
    };
    let over = "over (partition by name order by id)";
    assert_eq!(
        lines(&format!("select rank() {over}, lag(id) {over}, count(v) {over} from a")),
        ["window by [name] order [id] [rank(), lag 1(id), count() range ..0]"]
    );
    // The program omits the sorts that DataFusion has put below.
    let two = shown("select rank() over (order by id), min(v) over (partition by name rows 2 preceding) from a");
    assert!(!two.contains("sort by [name") && two.matches("  window").count() == 2, "{two}");
    // The output omits columns that only keys read, and unused calls.
    let program = translated(
        &context,
        "select r from (select id, rank() over (order by v) as r, ntile(2) over (order by v) from a) q",
    );
    let fields = |sink: &Sink| sink.fields().iter().map(|field| field.name.clone()).collect::<Vec<_>>();
    let window = program.program.sinks.iter().find(|sink| matches!(sink, Sink::Window { .. })).unwrap();
    assert_eq!(fields(window).len(), 1, "{}", program.program);
}

#[test]
fn windows_that_stay_say_why() {
    let context = small();
    for (call, reason) in [
        ("sum(distinct id) over (partition by name)", "different values"),
        ("stddev(id) over (partition by name)", "this aggregate function in a window"),
        ("sum(id) filter (where id > 1) over (partition by name)", "FILTER"),
    ] {
        let plan = plan(&context, &format!("select {call} from a"));
        let error = translate(&plan, &Options::default()).unwrap_err();
        assert!(error.reason.contains(reason), "{call}: {error}");
    }
}

/// Translates a plan for devices that run `median` and `corr` as host-language functions.
fn with_functions(sql: &str) -> std::result::Result<Program, Unsupported> {
    let functions = |function: &AggregateUDF, types: &[DataType]| {
        let text = format!("{types:?}").into();
        let translated = GroupFunction { name: function.name().into(), text, whole: vec![], floats: vec![] };
        matches!(function.name(), "median" | "corr").then(|| Ok(Arc::new(translated)))
    };
    let translated = translate(&plan(&small(), sql), &Options { group_functions: &functions, ..Options::default() })?;
    translated.program.validate().unwrap_or_else(|error| panic!("{sql}\n{error}"));
    Ok(translated.program)
}

#[test]
fn functions_of_groups_are_a_sink() {
    let program = with_functions("SELECT name, median(v), corr(id, v) FROM a WHERE id > 1 GROUP BY name").unwrap();
    let Some(Sink::Functions { groups, calls, fields }) = program.sinks.first() else { panic!("{program}") };
    assert_eq!((groups.len(), fields.len()), (1, 3));
    let held = calls.iter().flat_map(|call| call.arguments.iter().map(|argument| argument.ty.phys));
    assert_eq!(held.collect::<Vec<_>>(), [Phys::F64; 3], "decimals become floats");
    assert!(calls.iter().all(|call| call.ty.nullable) && program.calls_functions());
    // Without keys there is one group.
    let program = with_functions("SELECT median(id) FROM a").unwrap();
    assert!(matches!(&program.sinks[0], Sink::Functions { groups, .. } if groups.is_empty()));
}

#[test]
fn other_aggregates_are_joined_to_functions_of_groups() {
    let program = with_functions("SELECT name, count(*), median(id), sum(v) FROM a GROUP BY name").unwrap();
    let [Sink::Collect { .. }, Sink::Functions { .. }, Sink::Aggregate { aggregates, .. }, build, _] =
        &program.sinks[..]
    else {
        panic!("{program}")
    };
    assert_eq!(aggregates.len(), 2);
    assert!(matches!(build, Sink::HashBuild { null_equals_null: true, .. }));
    let names: Vec<&str> = program.schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["name", "count(*)", "median(a.id)", "sum(a.v)"]);
}

#[test]
fn functions_of_grouping_sets_are_computed_of_the_same_rows() {
    let program = with_functions("SELECT name, median(id) FROM a WHERE id > 1 GROUP BY ROLLUP (name)").unwrap();
    let sets = program.sinks.iter().filter_map(|sink| match sink {
        Sink::Functions { groups, .. } => Some(groups.len()),
        _ => None,
    });
    assert_eq!(sets.collect::<Vec<_>>(), [0, 1], "{program}");
    let scans = program.pipelines.iter().filter(|pipeline| matches!(pipeline.source, Source::Scan(_)));
    assert_eq!(scans.count(), 1, "{program}");
}

#[test]
fn what_devices_do_not_call_is_refused() {
    for (sql, reason) in [
        ("SELECT median(id) FILTER (WHERE id > 1) FROM a", "median: FILTER"),
        (
            "SELECT name, median(id), count(*) FROM a GROUP BY ROLLUP (name)",
            "functions of groups: beside other aggregates, over grouping sets",
        ),
        (
            "SELECT CAST(id AS DOUBLE), median(id), count(*) FROM a GROUP BY CAST(id AS DOUBLE)",
            "functions of groups: beside other aggregates, by floats",
        ),
    ] {
        assert_eq!(with_functions(sql).unwrap_err().to_string(), reason, "{sql}");
    }
}
