//! Each limit, and the status for exceeding it.

use std::time::{Duration, Instant};

use arrow::array::StringArray;
use arrow_flight::sql::{CommandStatementIngest, CommandStatementQuery, ProstMessageExt};
use arrow_flight::{FlightDescriptor, Ticket};
use futures::StreamExt;
use prost::Message;
use tonic::Code;

use crate::support::*;

const ENDLESS: &str = "SELECT value FROM generate_series(1, 10000000000) AS s(value)";

#[test]
fn time() {
    test(async {
        let server = start(|config| config.limits.query_seconds = 1);
        let mut client = server.client().await;
        let begun = Instant::now();
        assert_eq!(code(&mut client, ENDLESS).await, Code::DeadlineExceeded);
        assert!(begun.elapsed() < Duration::from_secs(30), "the statement would take minutes");
        let created = update(&mut client, &format!("CREATE TABLE t AS {ENDLESS}")).await;
        assert_eq!(created.unwrap_err().code(), Code::DeadlineExceeded);
        // Also for a client that stops reading.
        let info = client.execute(ENDLESS.into(), None).await.unwrap();
        let mut stream = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
        stream.next().await.unwrap().unwrap();
        until("it stops", || async { metric(&server, "warpmill_statements_running").await == 0.0 }).await;
        let last = stream.filter_map(|batch| std::future::ready(batch.err())).next().await.unwrap();
        assert_eq!(status(last).code(), Code::DeadlineExceeded);
    });
}

#[test]
fn memory() {
    test(async {
        let server = start(|config| {
            config.limits.memory = 64 << 20;
            config.limits.query_memory = 1 << 20;
        });
        let mut client = server.own().await;
        update(&mut client, "SET warpmill.memory_limit = '64MB'").await.unwrap();
        update(
            &mut client,
            "CREATE TABLE t AS SELECT value AS a, value % 1000 AS b FROM generate_series(1, 400000) AS s(value)",
        )
        .await
        .unwrap();
        let groups = "SELECT count(*) FROM (SELECT a, sum(b) AS s FROM t GROUP BY a) AS g";
        update(&mut client, "SET warpmill.memory_limit = '1MB'").await.unwrap();
        assert_eq!(number(&mut client, groups).await, 400_000);
        update(&mut client, "SET warpmill.spill = off").await.unwrap();
        assert_eq!(code(&mut client, groups).await, Code::ResourceExhausted);
        update(&mut client, "SET warpmill.memory_limit = '64MB'").await.unwrap();
        assert_eq!(number(&mut client, groups).await, 400_000);
        let refused = update(&mut client, "SET warpmill.memory_limit = '65MB'").await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        // A query of DataFusion's draws on the server's pool.
        let fallback = "SELECT count(*) FROM (SELECT array_agg(value) FROM generate_series(1, 20000000) AS s(value) GROUP BY value)";
        assert_eq!(code(&mut client, fallback).await, Code::ResourceExhausted);
    });
}

#[test]
fn sizes() {
    test(async {
        let server = start(|config| {
            config.limits.result_bytes = 1 << 20;
            config.limits.message_bytes = 1 << 20;
            config.limits.sql_bytes = 1000;
        });
        let mut client = server.client().await;
        assert_eq!(
            code(&mut client, "SELECT value FROM generate_series(1, 1000000) AS s(value)").await,
            Code::ResourceExhausted
        );
        assert_eq!(number(&mut client, "SELECT count(*) FROM generate_series(1, 1000000)").await, 1_000_000);
        let long = format!("SELECT '{}'", "x".repeat(1000));
        assert_eq!(client.execute(long, None).await.map_err(status).unwrap_err().code(), Code::ResourceExhausted);
        assert_eq!(code(&mut client, "SELECT repeat('x', 2000000)").await, Code::ResourceExhausted);
        // A request larger than a message, as one and in a stream.
        let command = CommandStatementQuery { query: "x".repeat(3 << 20), transaction_id: None };
        let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
        let refused = client.inner_mut().get_flight_info(descriptor).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        let refused = client.inner_mut().do_get(Ticket::new(vec![0; 3 << 20])).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        let wide = batch(vec![("s", std::sync::Arc::new(StringArray::from(vec!["x".repeat(3 << 20)])) as _)]);
        let ingest = CommandStatementIngest { table: "t".into(), ..CommandStatementIngest::default() };
        let refused = client.execute_ingest(ingest, futures::stream::iter([Ok(wide)])).await.unwrap_err();
        assert_eq!(status(refused).code(), Code::ResourceExhausted);
        assert_eq!(code(&mut client, "SELECT * FROM t").await, Code::NotFound);
    });
}

/// Starts a statement that does not end.
async fn occupy(server: &Running) -> impl Drop {
    struct Occupied(tokio::task::JoinHandle<()>);
    impl Drop for Occupied {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let mut client = server.own().await;
    let info = client.execute(ENDLESS.into(), None).await.unwrap();
    let mut stream = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    stream.next().await.unwrap().unwrap();
    Occupied(tokio::spawn(async move {
        let _held = (client, stream);
        std::future::pending::<()>().await;
    }))
}

#[test]
fn statements_at_once() {
    test(async {
        let server = start(|config| {
            config.limits.queries = 1;
            config.limits.queue = 1;
            config.limits.queue_seconds = 1;
        });
        let occupied = occupy(&server).await;
        let (mut waiting, mut refused) = (server.own().await, server.own().await);
        let first = tokio::spawn(async move { query(&mut waiting, "SELECT 1").await.map(drop) });
        until("it waits", || async { metric(&server, "warpmill_statements_waiting").await == 1.0 }).await;
        let full = query(&mut refused, "SELECT 1").await.unwrap_err();
        assert_eq!(full.code(), Code::ResourceExhausted);
        assert!(full.message().contains("wait already"), "{full}");
        assert_eq!(first.await.unwrap().unwrap_err().code(), Code::ResourceExhausted, "waited too long");
        drop(occupied);
        until("there is room", || async { metric(&server, "warpmill_statements_running").await == 0.0 }).await;
        assert_eq!(number(&mut refused, "SELECT 1").await, 1);
    });
}

#[test]
fn memory_is_reserved() {
    test(async {
        let server = start(|config| {
            config.limits.memory = 100 << 20;
            config.limits.query_memory = 60 << 20;
            config.limits.queue_seconds = 0;
        });
        let _occupied = occupy(&server).await;
        let mut client = server.own().await;
        assert_eq!(code(&mut client, "SELECT 1").await, Code::ResourceExhausted);
    });
}

#[test]
fn sessions_connections_and_handles() {
    test(async {
        let server = start(|config| {
            config.limits.sessions = 2;
            config.limits.connections = 3;
            config.limits.handles = 2;
        });
        let (mut one, _two) = (server.own().await, server.own().await);
        let mut third = server.client().await;
        assert_eq!(code(&mut third, "SELECT 1").await, Code::ResourceExhausted, "a third session");
        let prepared = one.prepare("SELECT 1".into(), None).await.unwrap();
        let info = one.execute("SELECT 2".into(), None).await.unwrap();
        assert_eq!(code(&mut one, "SELECT 3").await, Code::ResourceExhausted);
        assert_eq!(numbers(&fetch(&mut one, info).await.unwrap()), [Some(2)]);
        prepared.close().await.unwrap();
        assert_eq!(number(&mut one, "SELECT 3").await, 3);
        // A bare one: a client of gRPC would try again.
        let mut fourth = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let closed = tokio::io::AsyncReadExt::read(&mut fourth, &mut [0; 64]).await;
        assert!(!closed.is_ok_and(|bytes| bytes > 0));
        assert_eq!(metric(&server, "warpmill_connections_total{accepted=\"false\"}").await, 1.0);
    });
}

#[test]
fn results_wait_for_a_while() {
    test(async {
        let server = start(|config| config.limits.ticket_seconds = 1);
        let mut client = server.client().await;
        let info = client.execute("SELECT 1".into(), None).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert_eq!(status(fetch(&mut client, info).await.unwrap_err()).code(), Code::NotFound);
    });
}
