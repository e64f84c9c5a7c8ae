//! Streamed results that exceed the memory limit.

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use warpmill::Session;

const ROWS: i64 = 200_000;

/// A table many times as large as the operators' memory limit.
fn session() -> Session {
    let builder = Session::builder().set("warpmill.device", "cpu").set("warpmill.fallback", "error");
    let session = builder.set("warpmill.threads", "2").build().unwrap();
    let rows = format!(
        "CREATE TABLE t AS SELECT CASE WHEN value % 9 = 0 THEN NULL ELSE value * 7919 % 100003 END AS k, value AS v,
         'a text for every row, ' || (value % 1000) AS s FROM range({ROWS}) AS r(value)"
    );
    session.execute(&rows, &[]).unwrap();
    session.set("warpmill.memory_limit", "1MB").unwrap();
    session
}

const SORTED: &str = "SELECT k, v, s FROM t ORDER BY k NULLS FIRST, v";

#[test]
fn sorted_rows_come_as_they_are_read() {
    let session = session();
    let mut last = (None, -1);
    let (mut rows, mut batches) = (0, 0);
    for batch in session.query_stream(SORTED, &[]).unwrap() {
        let batch = batch.unwrap();
        let (keys, values) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_primitive::<Int64Type>());
        for row in 0..batch.num_rows() {
            let this = (keys.is_valid(row).then(|| keys.value(row)), values.value(row));
            assert!(last < this, "{last:?} before {this:?}");
            last = this;
        }
        rows += batch.num_rows() as i64;
        batches += 1;
        assert!(batch.num_rows() <= 20_000, "{} rows at once", batch.num_rows());
    }
    assert_eq!(rows, ROWS);
    assert!(batches > 10, "{batches} batches");
    // DataFusion's operators read the same rows.
    session.set("warpmill.fallback", "allow").unwrap();
    let above =
        format!("SELECT count(*), max(n) FROM (SELECT stddev(v) OVER (ORDER BY k, v) AS n FROM ({SORTED}) AS t) AS t");
    let counted = session.execute(&above, &[]).unwrap();
    assert_eq!(counted.batches[0].column(0).as_primitive::<Int64Type>().value(0), ROWS);
}

#[test]
fn whoever_stops_reading_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let session = session();
    session.set("warpmill.temp_directory", folder.path().to_str().unwrap()).unwrap();
    session.set("warpmill.temp_directory_limit", "100MB").unwrap();
    for _ in 0..3 {
        let mut stream = session.query_stream(SORTED, &[]).unwrap();
        assert!(stream.next().unwrap().unwrap().num_rows() > 0);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    assert_eq!(
        session.query_stream(SORTED, &[]).unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>(),
        200_000
    );
    // A statement that is cancelled in between ends with that.
    let stream = session.query_stream(SORTED, &[]).unwrap();
    session.cancel_handle().cancel();
    assert!(stream.filter_map(Result::err).any(|error| matches!(error, warpmill::Error::Cancelled)));
    session.set("warpmill.temp_directory_limit", "1MB").unwrap();
    let failed = session.query_stream(SORTED, &[]).and_then(|stream| stream.collect::<Result<Vec<_>, _>>());
    assert!(failed.unwrap_err().to_string().contains("warpmill.temp_directory_limit"));
}

#[test]
fn profiles_know_how_it_ended() {
    let session = session();
    let result = session.execute(SORTED, &[]).unwrap();
    assert_eq!(result.batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 200_000);
    let program = &result.profile.as_ref().unwrap().programs[0];
    assert!(program.spilled_bytes > 4 << 20 && program.peak_memory < 3 << 20, "{program:?}");
    let text = session.explain(SORTED, true).unwrap();
    assert!(text.contains("Sort (external)") && text.contains("spilled"), "{text}");
}
