//! Warpmill inside DataFusion sessions of other people.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow::record_batch::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use warpmill::accelerate::is_accelerated;
use warpmill::offload::WarpmillExec;
use warpmill_datagen::Suite;

const TABLES: [&str; 8] = ["nation", "region", "part", "supplier", "partsupp", "customer", "orders", "lineitem"];

fn contains_program(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<WarpmillExec>() || plan.children().into_iter().any(contains_program)
}

/// The rows as text, sorted: rows with equal sort keys come in any order.
async fn rows(context: &SessionContext, sql: &str) -> String {
    let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
    let text = pretty_format_batches(&batches).unwrap().to_string();
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn register(context: &SessionContext, sf: f64) {
    for table in TABLES {
        let schema = warpmill_datagen::schema(Suite::Tpch, table).unwrap();
        let batches: Vec<_> = warpmill_datagen::stream(Suite::Tpch, table, sf, 1).unwrap().collect();
        let half = batches.len() / 2;
        let partitions = vec![batches[..half].to_vec(), batches[half..].to_vec()];
        context.register_table(table, Arc::new(MemTable::try_new(schema, partitions).unwrap())).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_over_memory_tables_give_the_same_rows() {
    let config = || SessionConfig::new().with_target_partitions(3);
    let (plain, fast) = (SessionContext::new_with_config(config()), SessionContext::new_with_config(config()));
    register(&plain, 0.01);
    register(&fast, 0.01);
    warpmill::accelerate(&fast);
    for query in warpmill_datagen::queries(Suite::Tpch) {
        let plan = fast.sql(query.sql).await.unwrap().create_physical_plan().await.unwrap();
        assert!(contains_program(&plan), "{}", query.name);
        assert_eq!(rows(&fast, query.sql).await, rows(&plain, query.sql).await, "{}", query.name);
    }
}

fn strings(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_files_are_read_by_datafusion_and_aggregated_by_warpmill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let schema =
        Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8, true), Field::new("v", DataType::Int64, true)]));
    let names = strings(&[Some("a"), None, Some("b"), Some("a"), None]);
    let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None, Some(4), Some(i64::MAX - 2)]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![names, values]).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), schema, None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();

    let context = SessionContext::new();
    context.register_parquet("t", path.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
    let sql = "SELECT s, sum(v) AS total, count(*) AS n FROM t GROUP BY s ORDER BY s NULLS FIRST";
    let before = rows(&context, sql).await;
    warpmill::accelerate(&context);
    let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    assert!(contains_program(&plan));
    assert_eq!(rows(&context, sql).await, before);
    assert!(rows(&context, &format!("EXPLAIN {sql}")).await.contains("WarpmillExec"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accelerated_context_keeps_what_it_had() {
    let state = SessionStateBuilder::new().with_default_features().build();
    let context = SessionContext::new_with_state(state);
    context.sql("CREATE TABLE t AS VALUES (1), (2)").await.unwrap().collect().await.unwrap();
    context.sql("SET datafusion.execution.batch_size = 77").await.unwrap();
    let id = context.session_id();
    warpmill::accelerate(&context);
    warpmill::accelerate(&context);
    let state = context.state();
    assert!(is_accelerated(&state));
    assert_eq!(state.physical_optimizers().iter().filter(|rule| rule.name() == "warpmill_offload").count(), 1);
    assert_eq!((context.session_id(), state.config().batch_size()), (id, 77));
    let batches = context.sql("SELECT sum(column1) FROM t").await.unwrap().collect().await.unwrap();
    assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().value(0), 3);
    assert!(!is_accelerated(&SessionContext::new().state()));
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_those_of_sessions() {
    let context = SessionContext::new();
    warpmill::accelerate(&context);
    context.sql("SET warpmill.fallback = 'error'").await.unwrap().collect().await.unwrap();
    let sql = "SELECT column1, sum(DISTINCT column1) OVER (ORDER BY column1) FROM (VALUES (1), (2)) AS v";
    let error = context.sql(sql).await.unwrap().collect().await.unwrap_err();
    assert!(error.to_string().contains("warpmill.fallback is 'error'"), "{error}");
    context.sql("SET warpmill.fallback = 'allow'").await.unwrap().collect().await.unwrap();
    let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
    assert_eq!(batches.iter().map(|batch| batch.column(0).len()).sum::<usize>(), 2);
    assert!(context.sql("SET warpmill.no_such_setting = 1").await.is_err());
}
