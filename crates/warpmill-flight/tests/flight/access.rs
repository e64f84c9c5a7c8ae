//! Log-ins, tokens, sessions, TLS, and refusals.

use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;

use arrow_flight::Action;
use prost::Message;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Status};
use warpmill_flight::{Config, ConfigError, Server, hash_password};

use crate::support::*;

pub fn with_users(config: &mut Config, folder: &std::path::Path) {
    let lines = ["ada", "eve"].map(|name| format!("{name}:{}\n", hash_password(&format!("{name}'s")).unwrap()));
    let file = folder.join("users");
    std::fs::write(&file, lines.concat()).unwrap();
    config.users = Some(file);
}

pub async fn log_in(server: &Running, name: &str) -> Client {
    let mut client = server.client().await;
    client.handshake(name, &format!("{name}'s")).await.unwrap();
    client
}

#[test]
fn passwords_give_tokens_and_nothing_else_does() {
    test(async {
        let folder = tempfile::tempdir().unwrap();
        let server = start(|config| with_users(config, folder.path()));
        let mut nobody = server.client().await;
        assert_eq!(code(&mut nobody, "SELECT 1").await, Code::Unauthenticated);
        for (name, password) in [("ada", "eve's"), ("nobody", "x"), ("", "")] {
            let refused = nobody.handshake(name, password).await.unwrap_err();
            assert!(refused.to_string().to_lowercase().contains("wrong user name or password"), "{refused}");
        }
        for header in ["Bearer x", "Basic YWRhOmFkYSdz", "Digest x"] {
            nobody.set_header("authorization", header);
            assert_eq!(code(&mut nobody, "SELECT 1").await, Code::Unauthenticated, "{header}");
        }
        let mut ada = log_in(&server, "ada").await;
        assert_eq!(number(&mut ada, "SELECT 1").await, 1);
        assert!(metric(&server, "warpmill_logins_refused_total").await >= 7.0);
        assert!(!server.http("/metrics").await.contains(ada.token().unwrap().as_str()));
    });
}

#[test]
fn handles_work_for_their_user_only() {
    test(async {
        let folder = tempfile::tempdir().unwrap();
        let server = start(|config| with_users(config, folder.path()));
        let (mut ada, mut eve) = (log_in(&server, "ada").await, log_in(&server, "eve").await);
        let info = ada.execute("SELECT 7 AS secret".into(), None).await.unwrap();
        assert_eq!(status(fetch(&mut eve, info.clone()).await.unwrap_err()).code(), Code::NotFound);
        let cancel = arrow_flight::CancelFlightInfoRequest::new(info.clone()).encode_to_vec();
        let refused = eve.do_action(Action::new("CancelFlightInfo", cancel)).await.map(drop).unwrap_err();
        assert_eq!(status(refused).code(), Code::NotFound);
        assert_eq!(numbers(&fetch(&mut ada, info).await.unwrap()), [Some(7)]);
        // Another log-in belongs to the same user.
        let info = ada.execute("SELECT 8".into(), None).await.unwrap();
        let mut again = log_in(&server, "ada").await;
        assert_eq!(numbers(&fetch(&mut again, info).await.unwrap()), [Some(8)]);
    });
}

#[test]
fn tokens_expire() {
    test(async {
        let folder = tempfile::tempdir().unwrap();
        let server = start(|config| {
            with_users(config, folder.path());
            config.token_ttl = 1;
        });
        // A busy machine may take longer from a log-in to its first query than the token lives.
        let mut tries = 0;
        let mut ada = loop {
            let mut ada = log_in(&server, "ada").await;
            match query(&mut ada, "SELECT 1").await {
                Ok(_) => break ada,
                Err(refused) => assert!(refused.message().contains("expired") && tries < 20, "{refused}"),
            }
            tries += 1;
        };
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let refused = query(&mut ada, "SELECT 1").await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
        assert!(refused.message().contains("expired"), "{refused}");
    });
}

#[test]
fn the_token_of_the_environment_lets_in() {
    // The only test that writes the environment, before its server's threads read it.
    unsafe { std::env::set_var("WARPMILL_TEST_TOKEN", "0123456789abcdef") };
    test(async {
        let server = start(|config| config.token_env = Some("WARPMILL_TEST_TOKEN".into()));
        let mut client = server.client().await;
        assert_eq!(code(&mut client, "SELECT 1").await, Code::Unauthenticated);
        client.set_token("0123456789abcdeF".into());
        assert_eq!(code(&mut client, "SELECT 1").await, Code::Unauthenticated);
        client.set_token("0123456789abcdef".into());
        assert_eq!(number(&mut client, "SELECT 1").await, 1);
    });
    let config = Config { token_env: Some("WARPMILL_TEST_NO_TOKEN".into()), ..Config::local("db") };
    assert!(matches!(Server::bind(config), Err(ConfigError::Invalid(_))));
}

#[test]
fn public_addresses_are_refused() {
    let config = Config { host: "0.0.0.0".into(), ..Config::local("db") };
    assert!(matches!(Server::bind(config), Err(ConfigError::Unsafe(_))));
}

/// A certificate for `localhost`, made for this test by openssl.
pub fn certificate(folder: &std::path::Path) {
    let arguments = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
                     -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE \
                     -keyout key.pem -out cert.pem";
    let made = Command::new("openssl").args(arguments.split_whitespace()).current_dir(folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn tls_protects_public_addresses() {
    test(async {
        let folder = tempfile::tempdir().unwrap();
        certificate(folder.path());
        let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        let server = start(|config| {
            with_users(config, folder.path());
            config.host = "0.0.0.0".into();
            (config.tls_cert, config.tls_key) = (Some(cert.clone()), Some(key.clone()));
        });
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(std::fs::read(&cert).unwrap()));
        let uri = format!("https://localhost:{}", server.address.port());
        let endpoint = Endpoint::from_shared(uri).unwrap().tls_config(tls).unwrap();
        let mut client = Client::new(endpoint.connect().await.unwrap());
        client.handshake("ada", "ada's").await.unwrap();
        assert_eq!(number(&mut client, "SELECT 42").await, 42);
        // A plain-text connection gets no answer.
        let plain = Endpoint::from_shared(format!("http://127.0.0.1:{}", server.address.port())).unwrap();
        let refused = match plain.connect().await {
            Ok(channel) => Client::new(channel).handshake("ada", "ada's").await.is_err(),
            Err(_) => true,
        };
        assert!(refused);
        let swapped = Config { tls_cert: Some(key), tls_key: Some(cert), ..Config::local("db") };
        assert!(matches!(Server::bind(swapped), Err(ConfigError::Invalid(_))));
    });
}

/// SetSessionOptionsRequest with text values, and GetSessionOptionsResult.
#[derive(Clone, PartialEq, Message)]
struct Options {
    #[prost(map = "string, message", tag = "1")]
    options: HashMap<String, OptionValue>,
}

#[derive(Clone, PartialEq, Message)]
struct OptionValue {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
    #[prost(sfixed64, optional, tag = "3")]
    integer: Option<i64>,
    #[prost(double, optional, tag = "4")]
    real: Option<f64>,
}

/// SetSessionOptionsResult and CloseSessionResult.
#[derive(Clone, PartialEq, Message)]
struct SetResult {
    #[prost(map = "string, message", tag = "1")]
    errors: HashMap<String, SetError>,
}

#[derive(Clone, PartialEq, Message)]
struct SetError {
    #[prost(int32, tag = "1")]
    value: i32,
}

fn options(values: &[(&str, &str)]) -> Vec<u8> {
    let value = |text: &str| OptionValue { text: Some(text.into()), ..OptionValue::default() };
    Options { options: values.iter().map(|(name, text)| (name.to_string(), value(text))).collect() }.encode_to_vec()
}

pub async fn act(client: &mut Client, name: &str, body: Vec<u8>) -> Result<Vec<u8>, Status> {
    let mut answers = client.do_action(Action::new(name, body)).await.map_err(status)?;
    Ok(answers.message().await?.unwrap().body.to_vec())
}

#[test]
fn sessions_have_options_of_their_own() {
    test(async {
        let server = start(|_| ());
        let (mut one, mut other) = (server.own().await, server.own().await);
        let wanted = [
            ("query_timeout", "5"),
            ("warpmill.fallback", "error"),
            ("join_order", "off"),
            ("schema", "public"),
            ("nothing", "1"),
            ("memory_limit", "1TB"),
            ("catalog", "elsewhere"),
        ];
        let answer = act(&mut one, "SetSessionOptions", options(&wanted)).await.unwrap();
        let errors = SetResult::decode(&*answer).unwrap().errors;
        let mut failed: Vec<_> = errors.iter().map(|(name, error)| (name.as_str(), error.value)).collect();
        failed.sort_unstable();
        assert_eq!(failed, [("catalog", 2), ("memory_limit", 2), ("nothing", 1)]);
        let answer = act(&mut one, "GetSessionOptions", vec![]).await.unwrap();
        let found = Options::decode(&*answer).unwrap().options;
        assert_eq!(found["query_timeout"].real, Some(5.0));
        assert_eq!(found["warpmill.fallback"].text.as_deref(), Some("error"));
        let fallback = "SELECT array_agg(x) FROM (VALUES (1)) AS t(x)";
        assert_eq!(code(&mut one, fallback).await, Code::Unimplemented);
        assert!(query(&mut other, fallback).await.is_ok());
        update(&mut other, "SET warpmill.fallback = 'error'").await.unwrap();
        assert_eq!(code(&mut other, fallback).await, Code::Unimplemented);
        // Views belong to the database, as tables do.
        update(&mut one, "CREATE VIEW v AS SELECT 1 AS a").await.unwrap();
        assert_eq!(number(&mut one, "SELECT a FROM v").await, 1);
        assert_eq!(number(&mut other, "SELECT a FROM v").await, 1);
        let closed = act(&mut one, "CloseSession", vec![]).await.unwrap();
        assert_eq!(SetError::decode(&*closed).unwrap().value, 1);
        assert_eq!(code(&mut one, "SELECT 1").await, Code::Unauthenticated);
    });
}

#[test]
fn clients_that_share_a_session_cannot_change_it() {
    test(async {
        let server = start(|_| ());
        let (mut one, mut other) = (server.client().await, server.client().await);
        let refused = update(&mut one, "SET warpmill.fallback = 'error'").await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        let closed = act(&mut one, "CloseSession", vec![]).await.unwrap();
        assert_eq!(SetError::decode(&*closed).unwrap().value, 3, "not closeable");
        // Setting options creates a separate session with a cookie.
        let request = Action::new("SetSessionOptions", options(&[("fallback", "error")]));
        let answer = one.inner_mut().do_action(request).await.unwrap();
        let cookie = answer.metadata().get("set-cookie").unwrap().to_str().unwrap().to_string();
        let cookie = cookie.split(';').next().unwrap();
        assert!(cookie.starts_with("arrow_flight_session_id="));
        one.set_header("cookie", cookie);
        let fallback = "SELECT array_agg(x) FROM (VALUES (1)) AS t(x)";
        assert_eq!(code(&mut one, fallback).await, Code::Unimplemented);
        assert!(query(&mut other, fallback).await.is_ok());
        other.set_header("cookie", "arrow_flight_session_id=0000");
        assert_eq!(code(&mut other, "SELECT 1").await, Code::Unauthenticated);
    });
}

#[test]
fn idle_sessions_end() {
    test(async {
        let server = start(|config| config.limits.session_idle_seconds = 1);
        let mut client = server.own().await;
        assert_eq!(number(&mut client, "SELECT 1").await, 1);
        until("it ends", || async { metric(&server, "warpmill_sessions_open").await == 0.0 }).await;
        assert_eq!(code(&mut client, "SELECT 1").await, Code::Unauthenticated);
        assert_eq!(number(&mut server.own().await, "SELECT 2").await, 2);
    });
}

#[test]
fn health_and_metrics() {
    test(async {
        let mut server = start(|_| ());
        let mut client = server.client().await;
        assert_eq!(number(&mut client, "SELECT 1").await, 1);
        assert!(server.http("/health").await.starts_with("HTTP/1.1 200"));
        let text = server.http("/metrics").await;
        for line in [
            "warpmill_requests_total{method=\"DoGet\",code=\"Ok\"} 1",
            "warpmill_statements_total{kind=\"query\",code=\"Ok\"} 1",
            "warpmill_rows_sent_total 1",
            "warpmill_statement_seconds_count 1",
            "warpmill_connections_open 1",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(metric(&server, "warpmill_process_resident_memory_bytes").await > 1e6);
        assert!(server.http("/else").await.starts_with("HTTP/1.1 404"));
        // Shutdown waits for a running statement, and refuses new ones.
        let slow = "SELECT value FROM generate_series(1, 3000000) AS s(value)";
        let info = client.execute(slow.into(), None).await.unwrap();
        let late = client.execute("SELECT 1".into(), None).await.unwrap();
        let mut stream = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
        use futures::StreamExt;
        let mut rows = stream.next().await.unwrap().unwrap().num_rows();
        server.stop();
        until("it drains", || async { server.http("/health").await.starts_with("HTTP/1.1 503") }).await;
        let refused = fetch(&mut client, late).await.unwrap_err();
        // Refused by the server, or by its closing connection: HTTP/2 signals that by GOAWAY without an error, tonic as internal.
        let refused = status(refused);
        let goes_away = refused.code() == Code::Internal && format!("{refused:?}").contains("NO_ERROR, Remote");
        let codes = [Code::Unavailable, Code::Cancelled, Code::Unknown];
        assert!(goes_away || codes.contains(&refused.code()), "{refused:?}");
        while let Some(batch) = stream.next().await {
            rows += batch.unwrap().num_rows();
        }
        assert_eq!(rows, 3_000_000);
        let served = server.served.take().unwrap();
        tokio::time::timeout(Duration::from_secs(10), served).await.unwrap().unwrap().unwrap();
        let again: Result<Channel, _> =
            Endpoint::from_shared(format!("http://{}", server.address)).unwrap().connect().await;
        assert!(again.is_err());
    });
}

#[test]
fn statements_that_outlive_the_grace_are_cancelled() {
    test(async {
        let mut server = start(|config| config.shutdown_grace = 0);
        let mut client = server.client().await;
        let info =
            client.execute("SELECT value FROM generate_series(1, 10000000000) AS s(value)".into(), None).await.unwrap();
        let reading = tokio::spawn(async move { fetch(&mut client, info).await.map(drop) });
        until("it runs", || async { metric(&server, "warpmill_statements_running").await == 1.0 }).await;
        server.stop();
        let failed = tokio::time::timeout(Duration::from_secs(10), reading).await.unwrap().unwrap().unwrap_err();
        assert!(matches!(status(failed).code(), Code::Unavailable | Code::Unknown));
        tokio::time::timeout(Duration::from_secs(10), server.served.take().unwrap()).await.unwrap().unwrap().unwrap();
    });
}
