//! Sessions as Rust users see them.

use std::sync::Arc;

use arrow::array::{Array, Int64Array};
use arrow::datatypes::DataType;
use datafusion::common::DataFusionError;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use warpmill::{Error, ScalarValue, Session, WriteOptions};

fn session() -> Session {
    Session::builder().threads(2).set("fallback", "error").build().unwrap()
}

fn number(session: &Session, sql: &str, params: &[ScalarValue]) -> i64 {
    let result = session.execute(sql, params).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let column = arrow::compute::cast(result.batches[0].column(0), &arrow::datatypes::DataType::Int64).unwrap();
    column.as_any().downcast_ref::<Int64Array>().filter(|c| c.len() == 1).expect("one number").value(0)
}

#[test]
fn a_database_keeps_its_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let first = Session::builder().database(&path).build().unwrap();
    first.execute("CREATE TABLE t AS SELECT column1 AS a FROM (VALUES (1), (2)) AS v", &[]).unwrap();
    let second = Session::builder().database(&path).set("fallback", "error").build().unwrap();
    assert_eq!(number(&second, "SELECT sum(a) FROM t", &[]), 3);
    first.execute("INSERT INTO t VALUES (40)", &[]).unwrap();
    assert_eq!(number(&second, "SELECT sum(a) FROM t", &[]), 43, "a new version of another session is seen");
    let info = &second.tables().unwrap()[0];
    assert_eq!((info.name.as_str(), info.kind.as_str(), info.rows), ("t", "stored", Some(3)));
    assert!(matches!(second.deregister("t"), Err(Error::Catalog(_))));
    second.execute("DROP TABLE t", &[]).unwrap();
    assert!(matches!(first.execute("SELECT * FROM t", &[]), Err(Error::Catalog(_))));
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
}

#[test]
fn repeated_queries_use_the_plan_cache_until_something_changes() {
    let session = session();
    session.execute("CREATE TABLE t AS SELECT 5 AS a", &[]).unwrap();
    let cached = |sql: &str| session.execute(sql, &[]).unwrap().profile.unwrap().plan_cached;
    assert!(!cached("SELECT sum(a) FROM t"));
    assert!(cached("SELECT  sum(a)\nFROM t; -- again"));
    session.execute("INSERT INTO t VALUES (6)", &[]).unwrap();
    assert!(!cached("SELECT sum(a) FROM t"));
    assert_eq!(number(&session, "SELECT sum(a) FROM t", &[]), 11);
    session.set("compaction", "none").unwrap();
    assert!(!cached("SELECT sum(a) FROM t"));
    session.execute("SET warpmill.plan_cache = off", &[]).unwrap();
    assert!(!cached("SELECT sum(a) FROM t") && !cached("SELECT sum(a) FROM t"));
}

#[test]
fn parameters_are_values() {
    let session = session();
    session.execute("CREATE TABLE t AS SELECT column1 AS a FROM (VALUES (1), (2), (3)) AS v", &[]).unwrap();
    for (bound, expected) in [(1, 2), (2, 1), (1, 2)] {
        assert_eq!(
            number(&session, "SELECT count(*) FROM t WHERE a > $1", &[ScalarValue::from(bound as i64)]),
            expected
        );
    }
}

/// Tables for which `JOINED` returns 40 200 rows where 800 are expected.
fn skewed() -> Session {
    let session = session();
    let digits = "(VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))";
    let numbers = format!(
        "SELECT a.column1 * 100 + b.column1 * 10 + c.column1 AS n FROM {digits} AS a, {digits} AS b, {digits} AS c"
    );
    let sql = format!(
        "CREATE TABLE skew AS SELECT CASE WHEN n < 200 THEN 0 ELSE n END AS k, CAST(5e14 AS DECIMAL(18, 0)) AS v \
         FROM ({numbers}) AS numbers WHERE n < 400"
    );
    session.execute(&sql, &[]).unwrap();
    session
}

const JOINED: &str = "SELECT sum(a.v) AS total FROM skew AS a JOIN skew AS b ON a.k = b.k";

#[test]
fn plans_whose_sums_were_too_narrow_are_kept_with_wide_ones() {
    let session = skewed();
    let mut runs = Vec::new();
    for _ in 0..3 {
        let result = session.execute(JOINED, &[]).unwrap();
        let total = arrow::util::display::array_value_to_string(result.batches[0].column(0), 0).unwrap();
        assert_eq!(total, "20100000000000000000");
        let profile = result.profile.unwrap();
        assert_eq!(profile.programs.len(), 1, "the first run leaves no trace");
        runs.push((profile.plan_cached, profile.widened));
    }
    assert_eq!(runs, [(false, 1), (true, 0), (true, 0)]);
    let text = session.explain(JOINED, true).unwrap();
    assert!(text.contains("128-bit sums") && text.contains("run again with wider sums"), "{text}");
    let small =
        session.execute("SELECT sum(a.v) FROM skew AS a JOIN skew AS b ON a.k = b.k WHERE a.k > 0", &[]).unwrap();
    assert_eq!(small.profile.unwrap().widened, 0);
}

#[test]
fn streams_see_nothing_of_a_run_with_narrow_sums() {
    let session = skewed();
    session.set("fallback", "allow").unwrap();
    // The window function runs in DataFusion, above and below the program.
    let sql = format!(
        "SELECT total, count(DISTINCT total) OVER () FROM (SELECT sum(a.v) AS total FROM \
         (SELECT *, count(DISTINCT v) OVER () AS r FROM skew) AS a JOIN skew AS b ON a.k = b.k WHERE r > 0) AS sums \
         UNION ALL SELECT total, 2 FROM ({JOINED}) AS sums"
    );
    for _ in 0..2 {
        let rows: usize = session.query_stream(&sql, &[]).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(rows, 2);
    }
}

#[test]
fn programs_below_the_input_of_a_program_do_not_wait_for_its_threads() {
    let session = skewed();
    session.set("fallback", "allow").unwrap();
    let mut sql = "SELECT k, count(*) AS n FROM skew GROUP BY k".to_string();
    for _ in 0..4 {
        sql = format!(
            "SELECT k, sum(r) AS n FROM (SELECT k, count(DISTINCT k) OVER (ORDER BY k) AS r FROM ({sql})) GROUP BY k"
        );
    }
    assert_eq!(number(&session, &format!("SELECT sum(n) FROM ({sql})"), &[]), 201 * 202 / 2);
}

#[test]
fn errors_have_types() {
    let session = session();
    let error = |sql: &str| session.execute(sql, &[]).unwrap_err();
    assert!(matches!(error("SELEC 1"), Error::Parse(_)));
    assert!(matches!(error("SELECT * FROM missing"), Error::Catalog(_)));
    assert!(matches!(error("SELECT nope FROM (SELECT 1 AS a) AS t"), Error::Plan(_)));
    assert!(matches!(session.set("threads", "many"), Err(Error::Setting(_))));
    session.execute("CREATE TABLE t AS SELECT 1 AS a", &[]).unwrap();
    match error("SELECT sum(DISTINCT a) OVER (ORDER BY a) FROM t") {
        Error::Fallback(fallback) => assert!(fallback.node.contains("Window"), "{fallback}"),
        other => panic!("{other:?}"),
    }
    session.set("memory_limit", "1").unwrap();
    session.set("spill", "off").unwrap();
    assert!(matches!(error("SELECT a, count(*) FROM t GROUP BY a"), Error::OutOfMemory(_)));
}

#[test]
fn a_panic_ends_its_statement_only() {
    let session = Session::new().unwrap();
    let panics = |_: &[ColumnarValue]| -> Result<ColumnarValue, DataFusionError> { panic!("no such luck") };
    let (name, int) = ("panics", DataType::Int64);
    let function = create_udf(name, vec![int.clone()], int, Volatility::Immutable, Arc::new(panics));
    session.context().register_udf(function);
    session.execute("CREATE TABLE t AS SELECT 5 AS a", &[]).unwrap();
    let internal = |error: Error, sql: &str| {
        assert!(matches!(&error, Error::Internal(text) if text.contains("no such luck")), "{sql}: {error:?}");
    };
    // During planning, and during execution.
    for sql in ["SELECT panics(1)", "SELECT panics(a) FROM t", "SELECT sum(panics(a)) FROM t GROUP BY a ORDER BY 1"] {
        internal(session.execute(sql, &[]).unwrap_err(), sql);
        internal(session.explain(sql, true).unwrap_err(), sql);
        let stream = session.query_stream(sql, &[]);
        internal(stream.and_then(|rows| rows.collect::<Result<Vec<_>, _>>()).unwrap_err(), sql);
    }
    let sql = "CREATE OR REPLACE TABLE t AS SELECT panics(a) AS a FROM t";
    internal(session.execute(sql, &[]).unwrap_err(), sql);
    assert_eq!(number(&session, "SELECT sum(a) FROM t", &[]), 5);
    session.execute("INSERT INTO t VALUES (6)", &[]).unwrap();
    assert_eq!(number(&session, "SELECT sum(a) FROM t", &[]), 11);
}

#[test]
fn files_are_tables() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("a.csv");
    std::fs::write(&csv, "k,v\n1,x\n2,y\n").unwrap();
    let session = session();
    let path = csv.to_str().unwrap();
    assert_eq!(number(&session, &format!("SELECT sum(k) FROM '{path}' WHERE v = 'y'"), &[]), 2);
    session.import(path, "t", WriteOptions::default(), None).unwrap();
    assert_eq!(number(&session, "SELECT count(*) FROM t", &[]), 2);
    session.register_csv("f", path).unwrap();
    std::fs::write(&csv, "k,v\n1,x\n2,y\nthree\n").unwrap();
    let message = session.import(path, "t", WriteOptions::default(), None).unwrap_err().to_string();
    assert!(message.contains("a.csv") && message.contains('4'), "{message}");
    assert_eq!(number(&session, "SELECT count(*) FROM t", &[]), 2);
    assert!(session.tables().unwrap().iter().any(|table| table.name == "f"));
    session.deregister("f").unwrap();
}

#[test]
fn a_running_query_is_cancelled() {
    let session = session();
    session
        .execute("CREATE TABLE t AS SELECT column1 AS a FROM (VALUES (1), (2), (3), (4), (5), (6), (7)) AS v", &[])
        .unwrap();
    let handle = session.cancel_handle();
    let other = std::thread::spawn(move || {
        for _ in 0..600 {
            std::thread::sleep(std::time::Duration::from_millis(50));
            handle.cancel();
        }
    });
    let sides: Vec<String> = (0..14).map(|i| format!("t AS t{i}")).collect();
    let sql = format!("SELECT sum(t0.a + t13.a) FROM {}", sides.join(", "));
    assert!(matches!(session.execute(&sql, &[]), Err(Error::Cancelled)));
    drop(other);
}

#[test]
fn explain_kernels_shows_what_the_device_runs() {
    let session = Session::builder().set("warpmill.device", "sim").build().unwrap();
    session.execute("CREATE TABLE t AS SELECT 1 AS a, CAST(2 AS DOUBLE) AS b", &[]).unwrap();
    let text = session.explain_kernels("SELECT a, count(*) FROM t GROUP BY a").unwrap();
    for part in ["== program 0, sim, pipeline 0: scan t ==", "groups to rows", "extern \"C\" __global__"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let rows = session.execute("explain -- a comment\n kernels SELECT a FROM t WHERE a = $1", &[1i64.into()]).unwrap();
    assert_eq!(rows.batches[0].num_rows(), 1);
    let sql = "SELECT regexp_like(CAST(a AS VARCHAR), '1[0-9]?$') FROM t";
    let text = session.explain(sql, false).unwrap();
    assert!(text.contains("program 0: cpu, not on the device: ") && text.contains("a regular expression"), "{text}");
    let text = session.explain_kernels(sql).unwrap();
    assert!(text.contains("not on the device: ") && text.contains("a regular expression"), "{text}");
    assert!(session.execute("EXPLAIN KERNELS SELECT nothing FROM t", &[]).is_err());
}

#[test]
fn explain_says_what_runs_where() {
    let session = Session::builder().build().unwrap();
    session.execute("CREATE TABLE t AS SELECT 1 AS a", &[]).unwrap();
    let text = session.explain("SELECT a, sum(DISTINCT a) OVER (ORDER BY a) FROM t WHERE a > 0", true).unwrap();
    for part in ["WarpmillExec", "== program 0 ==", "== run by DataFusion ==", "== profile =="] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let rows = session.execute("EXPLAIN SELECT sum(a) FROM t", &[]).unwrap();
    assert_eq!(rows.schema.field(1).name(), "plan");
    session.set("device", "cpu").unwrap();
    let text = session.explain("SELECT sum(a) FROM t", false).unwrap();
    assert!(text.contains("== runs on ==\nprogram 0: cpu\n"), "{text}");
    let sql = "EXPLAIN VERBOSE SELECT count(*) FROM t JOIN t AS u ON t.a = u.a";
    let rows = session.execute(sql, &[]).unwrap();
    let text = arrow::util::pretty::pretty_format_batches(&rows.batches).unwrap().to_string();
    assert!(text.contains("Join") && text.contains("[about 1 rows]"), "{text}");
    let stream = session.query_stream("SELECT a FROM t", &[]).unwrap();
    assert_eq!(stream.map(|batch| Arc::new(batch.unwrap()).num_rows()).sum::<usize>(), 1);
}

#[test]
fn a_planned_statement_knows_its_columns_and_runs_later() {
    use futures::StreamExt;
    let session = session();
    session.execute("CREATE TABLE t AS SELECT column1 AS a FROM (VALUES (1), (2)) AS v", &[]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let plan = session.plan("SELECT a, a > $1 AS b FROM t", &[ScalarValue::Int64(Some(1))]).await.unwrap();
        assert_eq!(plan.schema.field(1).name(), "b");
        // A plan reads the version that it was made for, in every run.
        session.execute_async("INSERT INTO t VALUES (3)", &[]).await.unwrap();
        for _ in 0..2 {
            let rows: Vec<_> = plan.rows().unwrap().map(|batch| batch.unwrap().num_rows()).collect().await;
            assert_eq!(rows.iter().sum::<usize>(), 2);
        }
        let insert = session.plan("INSERT INTO t VALUES (4)", &[]).await.unwrap();
        assert_eq!(session.execute_async("SELECT * FROM t", &[]).await.unwrap().batches[0].num_rows(), 3);
        assert_eq!(insert.rows().unwrap().map(|batch| batch.unwrap().num_rows()).collect::<Vec<_>>().await, [1]);
        assert_eq!(session.execute_async("SELECT * FROM t", &[]).await.unwrap().batches[0].num_rows(), 4);
        let stopped = session.plan("SELECT * FROM t", &[]).await.unwrap().rows().unwrap();
        session.cancel_handle().cancel();
        let outcomes: Vec<_> = stopped.collect().await;
        assert!(matches!(outcomes[..], [Err(Error::Cancelled)]));
    });
    let more = arrow::record_batch::RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![9])) as _)]);
    assert_eq!(session.append_table("t", std::iter::once(Ok(more.unwrap()))).unwrap(), 1);
    assert_eq!(number(&session, "SELECT max(a) FROM t", &[]), 9);
    assert!(matches!(session.append_table("nowhere", std::iter::empty()), Err(Error::Catalog(_))));
}

#[test]
fn appended_rows_fulfil_constraints() {
    let session = Session::new().unwrap();
    session.execute("CREATE TABLE t (a BIGINT PRIMARY KEY CHECK (a < 100))", &[]).unwrap();
    let append = |numbers: Vec<i64>| {
        let batch = arrow::record_batch::RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(numbers)) as _)]);
        session.append_table("t", std::iter::once(Ok(batch.unwrap())))
    };
    assert_eq!(append(vec![1, 2]).unwrap(), 2);
    for (numbers, words) in
        [(vec![2], "Duplicate key \"a: 2\""), (vec![5, 5], "Duplicate key"), (vec![100], "CHECK((a < 100))")]
    {
        let error = append(numbers).unwrap_err();
        assert!(matches!(&error, Error::Constraint(text) if text.contains(words)), "{error}");
    }
    assert_eq!(number(&session, "SELECT count(*) FROM t", &[]), 2);
}

#[test]
fn a_session_may_refuse_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.csv");
    std::fs::write(&file, "a\n1\n").unwrap();
    let sql = format!("SELECT * FROM '{}'", file.display());
    assert_eq!(number(&Session::new().unwrap(), &sql, &[]), 1);
    let closed = Session::builder().files_as_tables(false).build().unwrap();
    assert!(matches!(closed.execute(&sql, &[]), Err(Error::Catalog(_))));
}
