//! A worker: a process that runs tasks of other processes' queries.

mod config;
mod door;
mod memory;
mod queries;
mod session;

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::time::Duration;

use futures::Stream;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tonic::transport::{Identity, Server, ServerTlsConfig};

pub use config::{Config, ConfigError};

use crate::link::{Access, Channels, Token, read_token, version};
use door::Door;
use queries::Queries;
use session::TaskSessions;

/// A worker that has its port.
pub struct Worker {
    listener: StdListener,
    token: Option<Token>,
    tls: Option<ServerTlsConfig>,
    sessions: TaskSessions,
    queries: Queries,
}

/// The interval of keepalive pings to silent processes, and the time for their answer.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(10));
/// Streams that one connection may have open: a few for each task of each query.
const STREAMS: u32 = 4096;
/// Window size of HTTP/2 connections, in bytes.
const WINDOW: u32 = 4 << 20;
/// The time that running tasks have at shutdown.
const LAST_CALL: Duration = Duration::from_secs(2);
/// Deep expressions are planned and run by recursion.
const STACK: usize = 32 << 20;

impl Worker {
    /// Checks a configuration and binds its port. Does not serve yet.
    ///
    /// # Errors
    /// [`ConfigError::Unsafe`] for a public address without a token, or without TLS unless the configuration permits it; errors in files and
    /// settings; [`ConfigError::Listen`] for a port that is in use.
    pub fn bind(config: &Config) -> Result<Self, ConfigError> {
        let address = config.check()?;
        let token = config.token_file.as_deref().map(read_token).transpose().map_err(ConfigError::Invalid)?;
        let tls = tls(config)?;
        let read =
            |path: &std::path::PathBuf| std::fs::read(path).map_err(|error| ConfigError::File(path.clone(), error));
        let ca = config.tls_ca.as_ref().map(read).transpose()?;
        let access = Access { token: token.clone(), ca, timeout: Duration::from_secs_f64(config.timeout) };
        let queries = Queries::default();
        let sessions = TaskSessions::new(&config.settings, Channels::new(access), queries.clone())?;
        let listener = StdListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener = listener.map_err(|error| ConfigError::Listen(address.to_string(), error))?;
        Ok(Self { listener, token, tls, sessions, queries })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("a bound socket has an address")
    }

    /// Serves until `stop` ends, then waits briefly for running tasks. Must be called inside a tokio runtime.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Result<(), ConfigError> {
        let listener = TcpListener::from_std(self.listener).map_err(|error| failed(&error))?;
        let mut server = Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE.0))
            .http2_keepalive_timeout(Some(KEEPALIVE.1))
            .max_concurrent_streams(STREAMS)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        if let Some(tls) = self.tls {
            server = server.tls_config(tls).map_err(|error| failed(&error))?;
        }
        let service = self.sessions.into_worker().with_version(version()).into_worker_server();
        let door = Door::new(service, self.token, self.queries);
        let (stopping, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = server.add_service(door).serve_with_incoming_shutdown(incoming(listener), async {
            let _ = stopped.await;
        });
        let mut serving = Box::pin(serving);
        tokio::select! {
            outcome = &mut serving => return outcome.map_err(|error| failed(&error)),
            () = stop => {}
        }
        drop(stopping);
        match tokio::time::timeout(LAST_CALL, serving).await {
            Ok(outcome) => outcome.map_err(|error| failed(&error)),
            // Sessions keep their connections open.
            Err(_) => Ok(()),
        }
    }
}

/// Accepts connections for ever.
fn incoming(listener: TcpListener) -> impl Stream<Item = io::Result<TcpStream>> + Send {
    futures::stream::unfold(listener, |listener| async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    // Only latency suffers where the system refuses.
                    let _ = stream.set_nodelay(true);
                    return Some((Ok(stream), listener));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    })
}

/// The certificate and its key, after a check that they match.
fn tls(config: &Config) -> Result<Option<ServerTlsConfig>, ConfigError> {
    let (Some(cert), Some(key)) = (&config.tls_cert, &config.tls_key) else { return Ok(None) };
    let read = |path: &std::path::PathBuf| std::fs::read(path).map_err(|error| ConfigError::File(path.clone(), error));
    let tls = ServerTlsConfig::new().identity(Identity::from_pem(read(cert)?, read(key)?));
    // The transport checks the pair when it is set.
    let checked = Server::builder().tls_config(tls.clone());
    checked.map_err(|error| {
        let files = format!("{} and {}", cert.display(), key.display());
        ConfigError::Invalid(format!(
            "{files} are not a certificate and its private key in PEM format: {}",
            with_sources(&error)
        ))
    })?;
    Ok(Some(tls))
}

fn failed(error: &dyn std::error::Error) -> ConfigError {
    ConfigError::Transport(with_sources(error))
}

fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(&format!(": {inner}"));
        source = inner.source();
    }
    text
}

/// Serves until the process receives SIGINT or SIGTERM. Calls `ready` before the first task arrives.
///
/// # Errors
/// Errors of [`Worker::bind`] and of the transport.
pub fn serve(config: &Config, ready: impl FnOnce(&Worker)) -> Result<(), ConfigError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().thread_name("warpmill-worker").thread_stack_size(STACK).build();
    let runtime = runtime.map_err(|error| ConfigError::Transport(error.to_string()))?;
    let worker = Worker::bind(config)?;
    memory::keep_freed();
    let outcome = runtime.block_on(async {
        let watch = |kind| signal(kind).map_err(|error| ConfigError::Transport(error.to_string()));
        let (mut interrupt, mut terminate) = (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?);
        ready(&worker);
        let stop = async move {
            tokio::select! {
                _ = interrupt.recv() => (),
                _ = terminate.recv() => (),
            }
        };
        worker.run(stop).await
    });
    // Tasks that do not stop must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}
