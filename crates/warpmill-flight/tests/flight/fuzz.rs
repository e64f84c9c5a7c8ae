//! Random protocol messages: each gets a typed status or an answer, and the server keeps running.

use std::sync::Arc;

use arrow::array::{DictionaryArray, StringArray, new_null_array};
use arrow::datatypes::{DataType, Int32Type};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::IpcWriteOptions;
use arrow::record_batch::RecordBatch;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest, Any,
    CommandGetCatalogs, CommandGetCrossReference, CommandGetDbSchemas, CommandGetPrimaryKeys, CommandGetSqlInfo,
    CommandGetTables, CommandGetXdbcTypeInfo, CommandPreparedStatementQuery, CommandPreparedStatementUpdate,
    CommandStatementIngest, CommandStatementQuery, CommandStatementSubstraitPlan, CommandStatementUpdate,
    ProstMessageExt, TableDefinitionOptions, TableExistsOption, TableNotExistOption, TicketStatementQuery,
};
use arrow_flight::{Action, Criteria, FlightData, FlightDescriptor, HandshakeRequest, Ticket};
use futures::TryStreamExt;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use prost::Message;
use tonic::{Code, Status};

use crate::support::*;

/// Seed messages: whole ones are damaged, names are combined with other contents.
fn seeds() -> Vec<Vec<u8>> {
    let text = || Some("%".to_string());
    vec![
        CommandStatementQuery { query: "SELECT 1".into(), transaction_id: None }.as_any().encode_to_vec(),
        CommandStatementUpdate { query: "SET x = 1".into(), transaction_id: None }.as_any().encode_to_vec(),
        CommandStatementIngest { table: "f".into(), ..Default::default() }.as_any().encode_to_vec(),
        CommandStatementSubstraitPlan::default().as_any().encode_to_vec(),
        CommandPreparedStatementQuery { prepared_statement_handle: vec![7; 64].into() }.as_any().encode_to_vec(),
        CommandPreparedStatementUpdate { prepared_statement_handle: vec![7; 64].into() }.as_any().encode_to_vec(),
        CommandGetCatalogs {}.as_any().encode_to_vec(),
        CommandGetDbSchemas { catalog: text(), db_schema_filter_pattern: text() }.as_any().encode_to_vec(),
        CommandGetTables {
            table_name_filter_pattern: text(),
            table_types: vec!["VIEW".into()],
            include_schema: true,
            ..Default::default()
        }
        .as_any()
        .encode_to_vec(),
        CommandGetSqlInfo { info: vec![0, 1, 517, 99999] }.as_any().encode_to_vec(),
        CommandGetXdbcTypeInfo { data_type: Some(12) }.as_any().encode_to_vec(),
        CommandGetPrimaryKeys { table: "t".into(), ..Default::default() }.as_any().encode_to_vec(),
        CommandGetCrossReference::default().as_any().encode_to_vec(),
        TicketStatementQuery { statement_handle: vec![b'a'; 64].into() }.as_any().encode_to_vec(),
        ActionCreatePreparedStatementRequest { query: "SELECT ?".into(), transaction_id: None }
            .as_any()
            .encode_to_vec(),
        ActionClosePreparedStatementRequest { prepared_statement_handle: vec![1].into() }.as_any().encode_to_vec(),
        ActionCancelQueryRequest { info: vec![10, 0].into() }.as_any().encode_to_vec(),
        vec![],
    ]
}

/// Changes at random places: (place, byte), a length to cut to, bytes to add.
#[derive(Debug, Clone)]
struct Damage {
    bytes: Vec<(usize, u8)>,
    keep: usize,
    more: Vec<u8>,
}

fn damage() -> impl Strategy<Value = Damage> {
    (
        vec((any::<usize>(), any::<u8>()), 0..6),
        prop_oneof![2 => Just(usize::MAX), 1 => 0..200usize],
        vec(any::<u8>(), 0..20),
    )
        .prop_map(|(bytes, keep, more)| Damage { bytes, keep, more })
}

impl Damage {
    fn apply(&self, mut message: Vec<u8>) -> Vec<u8> {
        for (place, byte) in &self.bytes {
            if let Some(length) = message.len().checked_sub(1) {
                message[place % (length + 1)] = *byte;
            }
        }
        message.truncate(self.keep);
        message.extend(&self.more);
        message
    }
}

/// A damaged message, a known name with random contents, or random bytes.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let seeds = seeds();
    let named = (0..seeds.len(), vec(any::<u8>(), 0..60)).prop_map(|(i, value)| {
        let known = Any::decode(&*self::seeds()[i]).unwrap_or_default();
        Any { type_url: known.type_url, value: value.into() }.encode_to_vec()
    });
    prop_oneof![
        3 => (0..seeds.len(), damage()).prop_map(move |(i, damage)| damage.apply(self::seeds()[i].clone())),
        2 => named,
        1 => vec(any::<u8>(), 0..200),
    ]
}

/// An answer, or a status that says what was wrong with the request.
fn typed<T>(outcome: Result<T, Status>) {
    if let Err(status) = outcome {
        let expected = [
            Code::InvalidArgument,
            Code::NotFound,
            Code::Unimplemented,
            Code::AlreadyExists,
            Code::FailedPrecondition,
            Code::PermissionDenied,
            Code::ResourceExhausted,
            Code::Unauthenticated,
        ];
        assert!(expected.contains(&status.code()), "{status}");
    }
}

fn run(cases: u32, work: impl AsyncFn(&mut Client, proptest::test_runner::TestRunner)) {
    runtime().block_on(async {
        let server = start(|config| config.limits.handles = 100_000);
        let mut client = server.own().await;
        let runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases, ..ProptestConfig::default() });
        work(&mut client, runner).await;
        assert_eq!(number(&mut server.own().await, "SELECT 42").await, 42, "the server goes on");
        // For the table of `python tests/attack`.
        println!("\nattack-tally\tmessages\tanswers and typed errors\t{cases}");
    });
}

/// Values of a strategy, without shrinking: the messages are small.
fn values<S: Strategy>(strategy: S, mut runner: proptest::test_runner::TestRunner) -> Vec<S::Value> {
    let cases = runner.config().cases;
    (0..cases).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

#[test]
fn commands_and_tickets() {
    run(600, async |client, runner| {
        for bytes in values(message(), runner) {
            let token = client.token().cloned().unwrap();
            let inner = client.inner_mut();
            let with = |message| {
                let mut request = tonic::Request::new(message);
                request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
                request
            };
            let descriptor = FlightDescriptor { r#type: 2, cmd: bytes.clone().into(), path: vec![] };
            typed(inner.get_flight_info(with(descriptor.clone())).await);
            typed(inner.get_schema(with(descriptor)).await);
            let mut request = tonic::Request::new(Ticket::new(bytes));
            request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
            typed(match inner.do_get(request).await {
                Ok(answer) => answer.into_inner().try_collect::<Vec<_>>().await,
                Err(status) => Err(status),
            });
        }
    });
}

#[test]
fn actions() {
    let names = [
        "CreatePreparedStatement",
        "ClosePreparedStatement",
        "CancelQuery",
        "CancelFlightInfo",
        "SetSessionOptions",
        "GetSessionOptions",
        "BeginTransaction",
        "CreatePreparedSubstraitPlan",
        "x",
        "",
    ];
    run(600, async |client, runner| {
        for (name, body) in values((0..names.len(), message()), runner) {
            typed(match client.do_action(Action::new(names[name], body)).await.map_err(status) {
                Ok(answers) => answers.try_collect::<Vec<_>>().await,
                Err(status) => Err(status),
            });
        }
    });
}

#[test]
fn streams_of_batches() {
    run(400, async |client, runner| {
        let strings: Vec<Option<&str>> = (0..50).map(|i| (i % 3 > 0).then_some("text")).collect();
        let lists = arrow::compute::cast(&integers((0..50).map(Some)), &list_type()).unwrap();
        let columns = vec![
            ("a", integers((0..50).map(|i| (i % 7 > 0).then_some(i)))),
            ("s", std::sync::Arc::new(StringArray::from(strings)) as _),
            ("l", lists),
        ];
        let rows = batch(columns);
        let encoder = FlightDataEncoderBuilder::new().with_schema(rows.schema());
        let messages = encoder.build(futures::stream::iter([Ok(rows)])).try_collect::<Vec<FlightData>>();
        let messages = messages.await.unwrap();
        let strategy = (message(), vec((0..messages.len(), any::<bool>(), damage()), 0..4), any::<bool>());
        for (i, (command, damages, whole)) in values(strategy, runner).into_iter().enumerate() {
            let command = if whole {
                let table = format!("fuzz{i}");
                CommandStatementIngest { table, ..Default::default() }.as_any().encode_to_vec()
            } else {
                command
            };
            let mut sent = messages.clone();
            for (at, header, damage) in damages {
                let part = if header { &mut sent[at].data_header } else { &mut sent[at].data_body };
                *part = damage.apply(part.to_vec()).into();
            }
            sent[0].flight_descriptor = Some(FlightDescriptor::new_cmd(command));
            typed(match client.do_put(futures::stream::iter(sent)).await.map_err(status) {
                Ok(answers) => answers.try_collect::<Vec<_>>().await.map(drop),
                Err(status) => Err(status),
            });
        }
    });
}

#[test]
fn buffers_that_claim_too_much() {
    test(async {
        let server = start(|_| {});
        let mut client = server.own().await;
        let rows = batch(vec![("a", integers((0..5000).map(|i| Some(i % 7))))]);
        let compressed = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).unwrap();
        let encoder = FlightDataEncoderBuilder::new().with_schema(rows.schema()).with_options(compressed);
        let messages = encoder.build(futures::stream::iter([Ok(rows)])).try_collect::<Vec<FlightData>>().await.unwrap();
        for claimed in [-2, 1 << 34, 1 << 50, i64::MAX] {
            let mut sent = messages.clone();
            // Every buffer begins with its claimed uncompressed size.
            let mut body = sent[1].data_body.to_vec();
            for place in (0..body.len() - 8).step_by(8) {
                body[place..place + 8].copy_from_slice(&i64::to_le_bytes(claimed));
            }
            sent[1].data_body = body.into();
            let status = ingested(&mut client, "claims", sent).await.unwrap_err();
            assert!(matches!(status.code(), Code::InvalidArgument | Code::ResourceExhausted), "{status}");
        }
        assert_eq!(number(&mut server.own().await, "SELECT 42").await, 42);
    });
}

/// Sends messages into a table, which is created if it does not exist.
async fn ingested(client: &mut Client, table: &str, mut sent: Vec<FlightData>) -> Result<(), Status> {
    let append = TableDefinitionOptions {
        if_exists: TableExistsOption::Append as i32,
        if_not_exist: TableNotExistOption::Create as i32,
    };
    let command =
        CommandStatementIngest { table: table.into(), table_definition_options: Some(append), ..Default::default() };
    sent[0].flight_descriptor = Some(FlightDescriptor::new_cmd(command.as_any().encode_to_vec()));
    match client.do_put(futures::stream::iter(sent)).await.map_err(status) {
        Ok(answers) => answers.try_collect::<Vec<_>>().await.map(drop),
        Err(status) => Err(status),
    }
}

/// The messages of one batch, undivided.
async fn whole(rows: RecordBatch, compression: Option<CompressionType>) -> Vec<FlightData> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let encoder = FlightDataEncoderBuilder::new().with_schema(rows.schema()).with_options(options);
    let encoder = encoder.with_max_flight_data_size(usize::MAX).with_dictionary_handling(DictionaryHandling::Resend);
    encoder.build(futures::stream::iter([Ok(rows)])).try_collect().await.unwrap()
}

#[test]
fn buffers_that_become_more_than_they_claim() {
    test(async {
        let server = start(|_| {});
        let mut client = server.own().await;
        let count = 4 << 20;
        let rows = batch(vec![("a", integers((0..count).map(|_| Some(0))))]);
        let mut sent = whole(rows, Some(CompressionType::LZ4_FRAME)).await;
        let length = i64::to_le_bytes(8 * count);
        let mut body = sent[1].data_body.to_vec();
        let places: Vec<_> = (0..body.len() - 8).step_by(8).filter(|&at| body[at..].starts_with(&length)).collect();
        assert!(!places.is_empty());
        for at in places {
            body[at..at + 8].copy_from_slice(&i64::to_le_bytes(8));
        }
        sent[1].data_body = body.into();
        let status = ingested(&mut client, "claims", sent).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains("more than the 8 bytes"), "{status}");
        assert_eq!(number(&mut server.own().await, "SELECT 42").await, 42);
    });
}

#[test]
fn rows_that_no_bytes_stand_for() {
    test(async {
        let server = start(|config| config.limits.message_bytes = 1 << 20);
        let mut client = server.own().await;
        update(&mut client, "CREATE TABLE bare (n BIGINT, k BIGINT)").await.unwrap();
        let nulls = |count| batch(vec![("n", new_null_array(&DataType::Null, count))]);
        // Some are written; not all missing columns at once.
        typed(ingested(&mut client, "bare", whole(nulls(1 << 20), None).await).await);
        let status = ingested(&mut client, "bare", whole(nulls(i32::MAX as usize), None).await).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        let mut prepared = client.prepare("SELECT count(*) FROM bare WHERE k = ?".into(), None).await.unwrap();
        for (count, code) in [(1 << 20, Code::ResourceExhausted), (i32::MAX as usize, Code::InvalidArgument)] {
            prepared.set_parameters(nulls(count)).unwrap();
            let error = crate::support::status(prepared.execute().await.unwrap_err());
            assert_eq!(error.code(), code, "{error}");
        }
        // A long text that is named in many rows.
        let text: DictionaryArray<Int32Type> = std::iter::repeat_n("x".repeat(10 << 10).as_str(), 1000).collect();
        prepared.set_parameters(batch(vec![("n", Arc::new(text) as _)])).unwrap();
        let error = crate::support::status(prepared.execute().await.unwrap_err());
        assert!(matches!(error.code(), Code::ResourceExhausted | Code::InvalidArgument), "{error}");
        assert_eq!(number(&mut server.own().await, "SELECT 42").await, 42);
    });
}

#[test]
fn dictionaries_of_a_stream_have_a_limit() {
    test(async {
        let server = start(|config| config.limits.query_memory = 4 << 20);
        let mut client = server.own().await;
        for (count, code) in [(1000, None), (200_000, Some(Code::ResourceExhausted))] {
            let words: Vec<_> = (0..count).map(|k| format!("a word of forty letters, number {k:08}")).collect();
            let column: DictionaryArray<Int32Type> = words.iter().map(String::as_str).collect();
            let sent = whole(batch(vec![("s", Arc::new(column) as _)]), None).await;
            let answered = ingested(&mut client, "words", sent).await;
            assert_eq!(answered.map_err(|status| status.code()).err(), code);
        }
    });
}

#[test]
fn rows_of_clients_are_counted_with_their_session() {
    test(async {
        let server = start(|config| config.limits.query_memory = 64 << 20);
        let mut client = server.own().await;
        update(&mut client, "CREATE TABLE words (s VARCHAR)").await.unwrap();
        let text = "x".repeat(1 << 10);
        let texts = |count| batch(vec![("s", Arc::new(StringArray::from_iter_values((0..count).map(|_| &text))) as _)]);
        let mut first = client.prepare("SELECT count(*) FROM words WHERE s = ?".into(), None).await.unwrap();
        let mut second = client.prepare("SELECT count(*) FROM words WHERE s >= ?".into(), None).await.unwrap();
        // Each row counts twice: its message's bytes, and its values.
        first.set_parameters(texts(20_000)).unwrap();
        second.set_parameters(texts(20_000)).unwrap();
        let error = crate::support::status(first.execute().await.unwrap_err());
        assert!(error.message().starts_with("a query runs for"), "they are bound: {error}");
        let error = crate::support::status(second.execute().await.unwrap_err());
        assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
        assert!(error.message().contains("bound parameters needs"), "{error}");
        // The limit for rows of a table is small; a single message reaches it.
        let large = || whole(texts(14 << 10), None);
        let error = ingested(&mut client, "words", large().await).await.unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
        assert!(error.message().contains("message of rows needs"), "{error}");
        first.close().await.unwrap();
        let error = crate::support::status(second.execute().await.unwrap_err());
        assert!(error.message().starts_with("a query runs for"), "there is room again: {error}");
        second.close().await.unwrap();
        // Written rows no longer count.
        for _ in 0..6 {
            ingested(&mut client, "words", large().await).await.unwrap();
        }
        assert_eq!(number(&mut client, "SELECT count(*) FROM words WHERE length(s) = 1024").await, 6 * (14 << 10));
    });
}

fn list_type() -> arrow::datatypes::DataType {
    arrow::datatypes::DataType::new_list(arrow::datatypes::DataType::Int64, true)
}

#[test]
fn handshakes_and_the_rest() {
    run(100, async |client, runner| {
        for (payload, protocol_version) in values((vec(any::<u8>(), 0..80), any::<u64>()), runner) {
            let inner = client.inner_mut();
            let request = HandshakeRequest { protocol_version, payload: payload.clone().into() };
            typed(inner.handshake(futures::stream::iter([request])).await);
            typed(inner.list_flights(Criteria { expression: payload.clone().into() }).await);
            let descriptor = FlightDescriptor { r#type: 77, cmd: payload.into(), path: vec!["x".into()] };
            typed(inner.poll_flight_info(descriptor.clone()).await);
            let empty = FlightData { flight_descriptor: Some(descriptor), ..FlightData::default() };
            typed(inner.do_put(futures::stream::iter([empty.clone()])).await);
            typed(inner.do_put(futures::stream::iter([FlightData::default()])).await);
            typed(inner.do_put(futures::stream::empty()).await);
            typed(inner.do_exchange(futures::stream::iter([empty])).await);
        }
    });
}

#[test]
fn bytes_that_are_not_http() {
    test(async {
        use tokio::io::AsyncWriteExt;
        let server = start(|_| ());
        for bytes in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff", b"\x16\x03\x01", b""]
        {
            let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
            stream.write_all(bytes).await.unwrap();
        }
        assert_eq!(number(&mut server.client().await, "SELECT 42").await, 42);
    });
}

#[test]
fn deep_and_long_statements() {
    test(async {
        let server = start(|_| ());
        let mut client = server.client().await;
        let most = 250 << 10;
        let times = |text: &str| text.repeat(most / text.len());
        let nested = |open: &str, inner: &str, close: &str| {
            let depth = most / (open.len() + close.len());
            format!("SELECT {}{inner}{}", open.repeat(depth), close.repeat(depth))
        };
        for sql in [
            format!("SELECT 1{}", "+1".repeat(900)),
            format!("SELECT 1{}", times(" +1")),
            format!("SELECT true{}", times(" AND true")),
            format!("SELECT {}1", times("- ")),
            format!("SELECT {}true", times("NOT ")),
            format!("SELECT 1{}", times(" UNION ALL SELECT 1")),
            format!("SELECT 1 {}", times(", 1")),
            format!("SELECT 'a'{}", times("||'a'")),
            format!("SELECT {}", times("(")),
            nested("(", "1", ")"),
            nested("abs(", "1", ")"),
            nested("CASE WHEN true THEN ", "1", " END"),
            nested("(SELECT ", "1", ")"),
            nested("[", "1", "]"),
        ] {
            let outcome = tokio::time::timeout(std::time::Duration::from_secs(30), query(&mut client, &sql)).await;
            let start: String = sql.chars().take(40).collect();
            match outcome {
                Ok(Ok(_)) => {}
                Ok(Err(status)) => assert!(status.code() != Code::Unknown, "{start}: {status}"),
                Err(_) => panic!("{start}: no answer"),
            }
        }
        assert_eq!(number(&mut client, "SELECT 42").await, 42);
    });
}
