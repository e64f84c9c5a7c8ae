//! Clients that stay silent, guess passwords, or take all sessions; and the logs about them.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

use crate::access::{act, certificate, log_in, with_users};
use crate::support::*;

/// Whether the server closes a connection within a few seconds.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 256];
    let reads = async { while stream.read(&mut buffer).await.is_ok_and(|bytes| bytes > 0) {} };
    tokio::time::timeout(Duration::from_secs(10), reads).await.is_ok()
}

#[test]
fn silent_connections_lose_their_place() {
    test(async {
        let server = start(|config| {
            config.limits.connections = 3;
            config.limits.first_request_seconds = 1;
        });
        let mut asks = server.own().await;
        // A connection without data, and an HTTP/2 connection without a request.
        let mut nothing = TcpStream::connect(server.address).await.unwrap();
        let mut preface = TcpStream::connect(server.address).await.unwrap();
        preface.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        assert!(is_closed(&mut nothing).await && is_closed(&mut preface).await);
        let mut half = TcpStream::connect(server.address).await.unwrap();
        half.write_all(b"PRI * HT").await.unwrap();
        assert!(is_closed(&mut half).await);
        assert_eq!(number(&mut server.own().await, "SELECT 1").await, 1);
        // A client that has sent a request may be silent.
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(number(&mut asks, "SELECT 2").await, 2);
        until("they are gone", || async { metric(&server, "warpmill_connections_open").await == 1.0 }).await;
    });
}

#[test]
fn silence_after_a_handshake_of_tls_is_silence() {
    test(async {
        let folder = tempfile::tempdir().unwrap();
        certificate(folder.path());
        let server = start(|config| {
            config.tls_cert = Some(folder.path().join("cert.pem"));
            config.tls_key = Some(folder.path().join("key.pem"));
            config.limits.first_request_seconds = 2;
        });
        let port = server.address.port();
        let begun = Instant::now();
        let ended = tokio::task::spawn_blocking(move || {
            let arguments = format!("s_client -connect 127.0.0.1:{port} -alpn h2 -quiet");
            let mut client = Command::new("openssl");
            client.args(arguments.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::piped());
            let mut client = client.spawn().unwrap();
            // Its input stays open, so that it stays silent and does not end.
            let _input = client.stdin.take();
            let until = Instant::now() + Duration::from_secs(15);
            while Instant::now() < until {
                if client.try_wait().unwrap().is_some() {
                    return true;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            client.kill().unwrap();
            client.wait().unwrap();
            false
        });
        assert!(ended.await.unwrap(), "the connection stays");
        assert!(begun.elapsed() > Duration::from_secs(1));
    });
}

#[test]
fn failed_log_ins_are_counted() {
    test(async {
        let folder = tempfile::tempdir().unwrap();
        let server = start(|config| with_users(config, folder.path()));
        let mut ada = log_in(&server, "ada").await;
        let mut guesser = server.client().await;
        let mut refused = Vec::new();
        for i in 0..14 {
            refused.push(guesser.handshake("ada", &format!("guess{i}")).await.unwrap_err().to_string().to_lowercase());
        }
        assert!(refused[..10].iter().all(|text| text.contains("wrong user name or password")), "{refused:?}");
        assert!(refused[10..].iter().all(|text| text.contains("too many log-ins have failed")), "{refused:?}");
        // Now even the right password is refused; existing sessions, and other users, are not affected.
        assert!(guesser.handshake("ada", "ada's").await.is_err());
        assert_eq!(number(&mut ada, "SELECT 1").await, 1);
        assert_eq!(number(&mut log_in(&server, "eve").await, "SELECT 2").await, 2);
    });
}

#[test]
fn one_user_does_not_take_all_sessions() {
    test(async {
        let folder = tempfile::tempdir().unwrap();
        let server = start(|config| {
            with_users(config, folder.path());
            config.limits.user_sessions = 2;
        });
        let mut first = log_in(&server, "ada").await;
        let _second = log_in(&server, "ada").await;
        let refused = server.client().await.handshake("ada", "ada's").await.unwrap_err().to_string();
        assert!(refused.contains("2 sessions of this user"), "{refused}");
        // All clients of this test have one address.
        let refused = server.client().await.handshake("eve", "eve's").await.unwrap_err().to_string();
        assert!(refused.contains("2 sessions from this address"), "{refused}");
        assert_eq!(number(&mut first, "SELECT 1").await, 1);
        act(&mut first, "CloseSession", vec![]).await.unwrap();
        until("there is room", || async { server.client().await.handshake("eve", "eve's").await.is_ok() }).await;
    });
}

/// The logs of this process.
fn logs() -> Arc<Mutex<Vec<u8>>> {
    #[derive(Clone)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    static LOGS: OnceLock<Arc<Mutex<Vec<u8>>>> = OnceLock::new();
    let logs = LOGS.get_or_init(|| {
        let lines = Lines(Arc::default());
        let writer = lines.clone();
        let builder = tracing_subscriber::fmt().with_env_filter("warn,warpmill=trace,warpmill_flight=trace");
        builder.with_writer(move || writer.clone()).init();
        lines.0
    });
    Arc::clone(logs)
}

#[test]
fn logs_have_no_values() {
    test(async {
        let logs = logs();
        let server = start(|_| ());
        let mut client = server.own().await;
        update(&mut client, "CREATE TABLE t AS SELECT 'hushhush-7' AS s, 4711471 AS n").await.unwrap();
        for sql in [
            "SELECT CAST('hushhush-1' AS INTEGER)",
            "SELECT CAST(s AS INTEGER) FROM t",
            "SELECT CAST(n AS TINYINT) FROM t",
            "INSERT INTO t VALUES ('hushhush-2', 'hushhush-3')",
            "SELECT 'hushhush-4' FROM nowhere",
            "SELECT 'hushhush-5",
            "SELECT CAST('hushhush-6' AS DATE) FROM t",
        ] {
            assert!(query(&mut client, sql).await.is_err(), "{sql}");
        }
        until("they are logged", || async {
            String::from_utf8_lossy(&logs.lock().unwrap()).matches("statement failed").count() >= 3
        })
        .await;
        let logs = String::from_utf8_lossy(&logs.lock().unwrap()).into_owned();
        let bad: Vec<_> = logs.lines().filter(|line| line.contains("hushhush") || line.contains("4711471")).collect();
        assert!(bad.is_empty(), "{bad:?}");
    });
}

#[test]
fn tests_settings_are_not_the_clients() {
    test(async {
        let server = start(|config| config.settings = vec![("device".into(), "cpu".into())]);
        let mut client = server.own().await;
        for sql in ["SET warpmill.device = 'sim'", "SET equal_hashes = on", "RESET warpmill.device"] {
            assert_eq!(update(&mut client, sql).await.unwrap_err().code(), Code::PermissionDenied, "{sql}");
        }
    });
}
