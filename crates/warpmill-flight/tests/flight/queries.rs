//! Queries, parameters, updates, ingest, sessions.

use std::sync::Arc;

use arrow::array::{Array, AsArray, StringArray};
use arrow::datatypes::DataType;
use arrow_flight::error::FlightError;
use arrow_flight::sql::{
    ActionCancelQueryRequest, Any, CommandStatementIngest, ProstMessageExt, TableDefinitionOptions, TableExistsOption,
    TableNotExistOption,
};
use arrow_flight::{Action, FlightDescriptor, SchemaResult};
use futures::StreamExt;
use prost::Message;
use tonic::Code;

use crate::support::*;

#[test]
fn queries_give_rows_of_the_announced_columns() {
    test(async {
        let server = start(|_| ());
        let mut client = server.client().await;
        assert_eq!(
            update(&mut client, "CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 5) AS s(value)")
                .await
                .unwrap(),
            0
        );
        assert_eq!(number(&mut client, "SELECT sum(a) FROM t").await, 15);
        let rows =
            query(&mut client, "SELECT a, a % 2 = 0 AS even, 'x' AS s FROM t WHERE a > 3 ORDER BY a").await.unwrap();
        assert_eq!(numbers(&rows), [Some(4), Some(5)]);
        assert!(query(&mut client, "SELECT a FROM t WHERE a > 99").await.unwrap().is_empty());
        // More than one message.
        let rows = query(&mut client, "SELECT value FROM generate_series(1, 1000000) AS s(value)").await.unwrap();
        assert!(rows.len() > 1);
        let all = numbers(&rows);
        assert_eq!((all.len(), all[999_999]), (1_000_000, Some(1_000_000)));
        // Dictionaries travel as their values.
        let rows = query(&mut client, "SELECT arrow_cast('x', 'Dictionary(Int32, Utf8)') AS d").await.unwrap();
        assert_eq!(rows[0].column(0).data_type(), &DataType::Utf8);
        assert!(query(&mut client, "EXPLAIN SELECT a FROM t").await.unwrap()[0].num_rows() > 0);
        assert!(query(&mut client, "EXPLAIN KERNELS SELECT sum(a) FROM t").await.unwrap()[0].num_rows() > 0);
        assert!(!query(&mut client, "SHOW TABLES").await.unwrap().is_empty());
    });
}

#[test]
fn failures_have_their_status() {
    test(async {
        let server = start(|_| ());
        let mut client = server.client().await;
        update(&mut client, "CREATE TABLE t AS SELECT 1 AS a, 0 AS b").await.unwrap();
        for (sql, expected) in [
            ("SELEC", Code::InvalidArgument),
            ("SELECT nope FROM t", Code::InvalidArgument),
            ("SELECT * FROM nowhere", Code::NotFound),
            ("SELECT a // b FROM t", Code::InvalidArgument),
            ("SELECT * FROM '/etc/passwd'", Code::NotFound),
            ("CREATE TABLE t AS SELECT 2", Code::AlreadyExists),
            ("CREATE TABLE u (a INT GENERATED ALWAYS AS (1) STORED)", Code::Unimplemented),
        ] {
            assert_eq!(code(&mut client, sql).await, expected, "{sql}");
        }
        assert_eq!(update(&mut client, "DROP TABLE nowhere").await.unwrap_err().code(), Code::NotFound);
        assert_eq!(update(&mut client, "SELECT 1").await.unwrap_err().code(), Code::InvalidArgument);
        assert_eq!(number(&mut client, "SELECT a FROM t").await, 1);
    });
}

#[test]
fn updates_change_what_all_sessions_see() {
    test(async {
        let server = start(|_| ());
        let (mut one, mut other) = (server.own().await, server.own().await);
        assert_eq!(update(&mut one, "CREATE TABLE t (a BIGINT, s VARCHAR)").await.unwrap(), 0);
        assert_eq!(update(&mut one, "INSERT INTO t VALUES (1, 'x'), (2, NULL)").await.unwrap(), 2);
        assert_eq!(number(&mut other, "SELECT count(*) FROM t").await, 2);
        // A change sent as a query is executed when its schema is requested, and not again.
        let info = other.execute("INSERT INTO t VALUES (3, 'z')".into(), None).await.unwrap();
        assert_eq!(number(&mut one, "SELECT count(*) FROM t").await, 3);
        assert_eq!(numbers(&fetch(&mut other, info.clone()).await.unwrap()), [Some(1)]);
        assert_eq!(status(fetch(&mut other, info).await.unwrap_err()).code(), Code::NotFound, "read once");
        assert_eq!(number(&mut one, "SELECT count(*) FROM t").await, 3);
        // The same name, dropped and created again by another session.
        assert_eq!(update(&mut other, "DROP TABLE t").await.unwrap(), 0);
        assert_eq!(code(&mut one, "SELECT count(*) FROM t").await, Code::NotFound);
        assert!(query(&mut other, "CREATE TABLE t AS SELECT 'new' AS s").await.unwrap().is_empty());
        let rows = query(&mut one, "SELECT s FROM t").await.unwrap();
        assert_eq!(rows[0].column(0).as_string::<i32>().value(0), "new");
    });
}

#[test]
fn writers_of_one_table_take_turns() {
    test(async {
        let server = start(|_| ());
        let mut first = server.own().await;
        update(&mut first, "CREATE TABLE t (a BIGINT)").await.unwrap();
        let insert = |n: i64| {
            let client = server.own();
            async move { update(&mut client.await, &format!("INSERT INTO t VALUES ({n})")).await.unwrap() }
        };
        let inserted = futures::future::join_all((0..12).map(insert)).await;
        assert_eq!(inserted, [1; 12]);
        assert_eq!(number(&mut first, "SELECT sum(a) FROM t").await, 66);
    });
}

#[test]
fn prepared_statements_take_parameters() {
    test(async {
        let server = start(|_| ());
        let mut client = server.client().await;
        update(&mut client, "CREATE TABLE t AS SELECT value AS a, CASE WHEN value > 0 THEN 'n' || value END AS s FROM generate_series(1, 5) AS s(value)")
            .await
            .unwrap();
        for sql in ["SELECT a FROM t WHERE a > ? AND s <> ?", "SELECT a FROM t WHERE a > $1 AND s <> $2"] {
            let mut prepared = client.prepare(sql.into(), None).await.unwrap();
            let parameters = prepared.parameter_schema().unwrap().clone();
            let types: Vec<_> = parameters.fields().iter().map(|field| field.data_type().clone()).collect();
            assert_eq!(types, [DataType::Int64, DataType::Utf8]);
            assert_eq!(prepared.dataset_schema().unwrap().fields().len(), 1);
            assert_eq!(status(prepared.execute().await.unwrap_err()).code(), Code::InvalidArgument, "nothing bound");
            let names = |names: &[&str]| Arc::new(StringArray::from_iter_values(names)) as _;
            let one = batch(vec![("a", integers([Some(2)])), ("s", names(&["n4"]))]);
            prepared.set_parameters(one).unwrap();
            let info = prepared.execute().await.unwrap();
            assert_eq!(numbers(&fetch(&mut client, info).await.unwrap()), [Some(3), Some(5)]);
            // Several rows: the query runs for each.
            let two = batch(vec![("a", integers([Some(4), None])), ("s", names(&["", ""]))]);
            prepared.set_parameters(two).unwrap();
            let info = prepared.execute().await.unwrap();
            assert_eq!(numbers(&fetch(&mut client, info).await.unwrap()), [Some(5)]);
            prepared.set_parameters(batch(vec![("a", integers([Some(2)]))])).unwrap();
            assert_eq!(status(prepared.execute().await.unwrap_err()).code(), Code::InvalidArgument, "one of two");
            prepared.close().await.unwrap();
        }
        let mut insert = client.prepare("INSERT INTO t VALUES (?, ?)".into(), None).await.unwrap();
        assert!(insert.dataset_schema().unwrap().fields().is_empty(), "drivers take it for an update");
        let names = Arc::new(StringArray::from(vec![Some("x"), None])) as _;
        insert.set_parameters(batch(vec![("a", integers([Some(10), Some(20)])), ("s", names)])).unwrap();
        assert_eq!(insert.execute_update().await.unwrap(), 2);
        assert_eq!(number(&mut client, "SELECT sum(a) FROM t WHERE a >= 10").await, 30);
        let failed = client.prepare("SELECT * FROM nowhere".into(), None).await.map(drop).unwrap_err();
        assert_eq!(status(failed).code(), Code::NotFound);
        assert_eq!(code(&mut client, "SELECT a FROM t WHERE a = ?").await, Code::InvalidArgument);
    });
}

fn ingest(table: &str, exists: TableExistsOption, absent: TableNotExistOption) -> CommandStatementIngest {
    CommandStatementIngest {
        table: table.into(),
        table_definition_options: Some(TableDefinitionOptions {
            if_exists: exists as i32,
            if_not_exist: absent as i32,
        }),
        ..CommandStatementIngest::default()
    }
}

#[test]
fn batches_become_tables() {
    test(async {
        let server = start(|_| ());
        let mut client = server.client().await;
        let (create, fail) = (TableNotExistOption::Create, TableNotExistOption::Fail);
        let rows = |values: &[i64]| {
            let strings = StringArray::from_iter_values(values.iter().map(|v| v.to_string()));
            Ok(batch(vec![("a", integers(values.iter().copied().map(Some))), ("s", Arc::new(strings))]))
        };
        let send = |batches: Vec<Result<_, FlightError>>| futures::stream::iter(batches);
        let new = ingest("t", TableExistsOption::Fail, create);
        assert_eq!(client.execute_ingest(new.clone(), send(vec![rows(&[1, 2]), rows(&[3])])).await.unwrap(), 3);
        let again = client.execute_ingest(new, send(vec![rows(&[1])])).await.unwrap_err();
        assert_eq!(status(again).code(), Code::AlreadyExists);
        let append = ingest("t", TableExistsOption::Append, fail);
        let swapped = batch(vec![("s", Arc::new(StringArray::from(vec!["x"])) as _), ("a", integers([Some(10)]))]);
        assert_eq!(client.execute_ingest(append.clone(), send(vec![Ok(swapped)])).await.unwrap(), 1);
        let part = batch(vec![("a", integers([Some(20)]))]);
        assert_eq!(client.execute_ingest(append.clone(), send(vec![Ok(part)])).await.unwrap(), 1);
        assert_eq!(number(&mut client, "SELECT sum(a) FROM t").await, 36);
        assert_eq!(number(&mut client, "SELECT count(s) FROM t").await, 4);
        let unknown = batch(vec![("b", integers([Some(20)]))]);
        let refused = client.execute_ingest(append, send(vec![Ok(unknown)])).await.unwrap_err();
        assert_eq!(status(refused).code(), Code::InvalidArgument);
        let absent = ingest("nowhere", TableExistsOption::Append, fail);
        let absent = client.execute_ingest(absent, send(vec![rows(&[1])])).await.unwrap_err();
        assert_eq!(status(absent).code(), Code::NotFound);
        let replace = ingest("t", TableExistsOption::Replace, create);
        // A client that disconnects before its last batch leaves the table unchanged.
        let endless = futures::StreamExt::chain(send(vec![rows(&[7])]), futures::stream::pending());
        let ingested = client.execute_ingest(replace.clone(), endless);
        assert!(tokio::time::timeout(std::time::Duration::from_millis(500), ingested).await.is_err());
        assert_eq!(number(&mut client, "SELECT count(*) FROM t").await, 5);
        assert_eq!(client.execute_ingest(replace, send(vec![rows(&[7])])).await.unwrap(), 1);
        assert_eq!(number(&mut client, "SELECT sum(a) FROM t").await, 7);
        let temporary = CommandStatementIngest { temporary: true, ..ingest("u", TableExistsOption::Fail, create) };
        let refused = client.execute_ingest(temporary, send(vec![rows(&[1])])).await.unwrap_err();
        assert_eq!(status(refused).code(), Code::Unimplemented);
    });
}

#[test]
fn schemas_are_told_without_running() {
    test(async {
        let server = start(|_| ());
        let client = server.client().await;
        let command =
            arrow_flight::sql::CommandStatementQuery { query: "SELECT 1 AS one".into(), transaction_id: None };
        let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
        let result: SchemaResult = client.into_inner().get_schema(descriptor).await.unwrap().into_inner();
        assert_eq!(arrow::datatypes::Schema::try_from(&result).unwrap().field(0).name(), "one");
    });
}

/// Runs for minutes, and returns rows only at its end.
const SLOW: &str = "SELECT count(*) FROM generate_series(1, 3000000) AS a(x) CROSS JOIN generate_series(1, 3000000) AS b(y) WHERE x * y % 7 = 1";

async fn action(client: &mut Client, name: &str, body: Vec<u8>) -> Result<Vec<u8>, tonic::Status> {
    let mut answers = client.do_action(Action::new(name, body)).await.map_err(status)?;
    Ok(answers.message().await?.map_or_else(Vec::new, |answer| answer.body.to_vec()))
}

#[test]
fn queries_are_cancelled() {
    test(async {
        let server = start(|_| ());
        for old in [false, true] {
            let (mut client, mut other) = (server.client().await, server.client().await);
            let info = client.execute(SLOW.into(), None).await.unwrap();
            let cancel = |info: &arrow_flight::FlightInfo| match old {
                true => {
                    let request = ActionCancelQueryRequest { info: info.encode_to_vec().into() };
                    ("CancelQuery", request.as_any().encode_to_vec())
                }
                false => ("CancelFlightInfo", arrow_flight::CancelFlightInfoRequest::new(info.clone()).encode_to_vec()),
            };
            let reading = tokio::spawn({
                let info = info.clone();
                async move { fetch(&mut client, info).await }
            });
            until("it runs", || async { metric(&server, "warpmill_statements_running").await == 1.0 }).await;
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            let (name, body) = cancel(&info);
            let answer = action(&mut other, name, body.clone()).await.unwrap();
            let value = match old {
                true => {
                    let any = Any::decode(&*answer).unwrap();
                    any.unpack::<arrow_flight::sql::ActionCancelQueryResult>().unwrap().unwrap().result
                }
                false => arrow_flight::CancelFlightInfoResult::decode(&*answer).unwrap().status,
            };
            assert_eq!(value, arrow_flight::CancelStatus::Cancelling as i32);
            assert_eq!(status(reading.await.unwrap().unwrap_err()).code(), Code::Cancelled);
            assert_eq!(action(&mut other, name, body).await.unwrap_err().code(), Code::NotFound, "it has ended");
            // A result that is not being read.
            let waiting = other.execute("SELECT 1".into(), None).await.unwrap();
            let (name, body) = cancel(&waiting);
            action(&mut other, name, body).await.unwrap();
            assert_eq!(status(fetch(&mut other, waiting).await.unwrap_err()).code(), Code::NotFound);
        }
    });
}

#[test]
fn clients_that_go_away_cancel_their_statements() {
    test(async {
        let server = start(|_| ());
        let running = || async { metric(&server, "warpmill_statements_running").await };
        for sql in [SLOW, "SELECT value FROM generate_series(1, 10000000000) AS s(value)"] {
            let mut client = server.client().await;
            let info = client.execute(sql.into(), None).await.unwrap();
            let mut stream = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
            if sql != SLOW {
                stream.next().await.unwrap().unwrap();
            }
            until("it runs", || async { running().await == 1.0 }).await;
            drop((stream, client));
            until("it stops", || async { running().await == 0.0 }).await;
        }
        // An update, whose request is dropped before its answer.
        let mut client = server.client().await;
        let create = format!("CREATE TABLE t AS {SLOW}");
        let created = tokio::time::timeout(std::time::Duration::from_millis(500), update(&mut client, &create)).await;
        assert!(created.is_err());
        drop(client);
        until("it stops", || async { running().await == 0.0 }).await;
        assert_eq!(code(&mut server.client().await, "SELECT * FROM t").await, Code::NotFound);
        assert!(metric(&server, "warpmill_statements_total{kind=\"query\",code=\"Cancelled\"}").await >= 2.0);
    });
}
