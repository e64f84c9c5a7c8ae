//! The life of a server: port, service, shutdown.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tonic::transport::{Identity, Server as Transport, ServerTlsConfig};

use crate::admission::Admission;
use crate::config::{Config, ConfigError};
use crate::door::Door;
use crate::memory::Trimmer;
use crate::metrics::Metrics;
use crate::service::metadata::Facts;
use crate::session::Sessions;
use crate::statement::Policy;
use crate::{connection, http, logging};

/// The state that all requests share.
pub(crate) struct Shared {
    pub sessions: Sessions,
    pub admission: Admission,
    pub metrics: Metrics,
    pub policy: Policy,
    pub facts: Facts,
}

/// A server that has its port.
pub struct Server {
    config: Config,
    shared: Arc<Shared>,
    listener: StdListener,
    metrics: Option<StdListener>,
    tls: Option<ServerTlsConfig>,
}

/// The interval at which expired sessions and handles are removed, and freed memory is returned.
const SWEEP: Duration = Duration::from_secs(1);
/// The interval of keepalive pings to silent clients, and the time for their answer.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// Streams that one connection may have open.
const STREAMS: u32 = 256;
/// Largest size of a request's headers, in bytes.
const HEADERS: u32 = 64 << 10;
/// The time that cancelled statements have to end at shutdown, after their grace.
const LAST_CALL: Duration = Duration::from_secs(5);
/// Deep expressions are planned by recursion.
const STACK: usize = 32 << 20;

impl Server {
    /// Checks a configuration and binds its ports. Does not serve yet.
    ///
    /// # Errors
    /// [`ConfigError::Unsafe`] for a public address without TLS and users; errors in the files that the configuration names; [`ConfigError::Listen`]
    /// for a port that is in use.
    pub fn bind(config: Config) -> Result<Self, ConfigError> {
        let address = config.check()?;
        let metrics = config.metrics_address()?;
        let tls = tls(&config)?;
        if config.database.exists() && !config.database.is_dir() {
            return Err(ConfigError::Invalid(format!("{} is not a directory", config.database.display())));
        }
        let pool = Arc::new(GreedyMemoryPool::new(config.limits.memory));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().map_err(warpmill::Error::from)?;
        let shared = Shared {
            sessions: Sessions::new(&config, runtime)?,
            admission: Admission::new(&config.limits),
            metrics: Metrics::new(),
            policy: Policy { files: config.allow_files, limits: config.limits.clone() },
            facts: Facts::new(&config.limits)?,
        };
        let listen = |address: SocketAddr| {
            let listener = StdListener::bind(address).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok(listener)
            });
            listener.map_err(|error| ConfigError::Listen(address.to_string(), error))
        };
        let (listener, metrics) = (listen(address)?, metrics.map(listen).transpose()?);
        Ok(Self { config, shared: Arc::new(shared), listener, metrics, tls })
    }

    /// The address of the Flight SQL service.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("a bound socket has an address")
    }

    /// The address of `/metrics` and `/health`, if they are served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// The address that clients connect to.
    pub fn uri(&self) -> String {
        let scheme = if self.tls.is_some() { "grpc+tls" } else { "grpc" };
        format!("{scheme}://{}", self.address())
    }

    /// Serves until `stop` ends, then until running statements have ended or their grace period is over. Must be called inside a tokio runtime.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Result<(), ConfigError> {
        let uri = self.uri();
        let Self { config, shared, listener, metrics, tls } = self;
        let failed = |error: std::io::Error| ConfigError::Transport(error.to_string());
        let (ended, end) = watch::channel(false);
        let sweeper = tokio::spawn(sweep(Arc::clone(&shared)));
        let side = match metrics {
            Some(listener) => {
                let listener = TcpListener::from_std(listener).map_err(failed)?;
                Some(tokio::spawn(http::serve(listener, Arc::clone(&shared), wait(end.clone()))))
            }
            None => None,
        };
        let listener = TcpListener::from_std(listener).map_err(failed)?;
        let (draining, drain) = watch::channel(false);
        let serving = serve_flight(listener, Arc::clone(&shared), tls, drain);
        tracing::info!(uri, database = %config.database.display(), "serving");
        let mut serving = tokio::spawn(serving);
        let outcome = tokio::select! {
            outcome = &mut serving => outcome,
            () = stop => {
                let running = shared.sessions.handles.running();
                tracing::info!(running, grace_seconds = config.shutdown_grace, "shutting down");
                shared.admission.drain();
                draining.send_replace(true);
                drained(&shared, &mut serving, Duration::from_secs(config.shutdown_grace)).await
            }
        };
        ended.send_replace(true);
        sweeper.abort();
        if let Some(side) = side {
            side.abort();
        }
        tracing::info!("stopped");
        outcome.unwrap_or_else(|error| match error.is_cancelled() {
            true => Ok(()),
            false => Err(ConfigError::Transport(error.to_string())),
        })
    }
}

type Served = tokio::task::JoinHandle<Result<(), ConfigError>>;

/// Waits for the last statements: first for the grace period, then for the time that they need to stop.
async fn drained(
    shared: &Shared,
    serving: &mut Served,
    grace: Duration,
) -> Result<Result<(), ConfigError>, tokio::task::JoinError> {
    if let Ok(outcome) = tokio::time::timeout(grace, &mut *serving).await {
        return outcome;
    }
    tracing::warn!(running = shared.sessions.handles.running(), "the grace is over: statements are cancelled");
    shared.sessions.handles.cancel_all();
    match tokio::time::timeout(LAST_CALL, &mut *serving).await {
        Ok(outcome) => outcome,
        // Connections that clients do not close.
        Err(_) => {
            serving.abort();
            serving.await
        }
    }
}

async fn serve_flight(
    listener: TcpListener,
    shared: Arc<Shared>,
    tls: Option<ServerTlsConfig>,
    drain: watch::Receiver<bool>,
) -> Result<(), ConfigError> {
    let failed = |error: tonic::transport::Error| ConfigError::Transport(with_sources(&error));
    let mut transport = Transport::builder()
        .http2_keepalive_interval(Some(KEEPALIVE.0))
        .http2_keepalive_timeout(Some(KEEPALIVE.1))
        .max_concurrent_streams(STREAMS)
        .http2_max_header_list_size(HEADERS);
    if let Some(tls) = tls {
        transport = transport.tls_config(tls).map_err(failed)?;
    }
    let connections = connection::incoming(listener, Arc::clone(&shared));
    let router = transport.add_service(Door::new(shared));
    router.serve_with_incoming_shutdown(connections, wait(drain)).await.map_err(failed)
}

async fn wait(mut flag: watch::Receiver<bool>) {
    let _ = flag.wait_for(|set| *set).await;
}

async fn sweep(shared: Arc<Shared>) {
    let mut trimmer = Trimmer::default();
    loop {
        tokio::time::sleep(SWEEP).await;
        shared.sessions.sweep();
        let trimmed = tokio::task::spawn_blocking(move || {
            trimmer.trim();
            trimmer
        });
        trimmer = trimmed.await.unwrap_or_default();
    }
}

/// The certificate and its key, after a check that they match.
fn tls(config: &Config) -> Result<Option<ServerTlsConfig>, ConfigError> {
    let (Some(cert), Some(key)) = (&config.tls_cert, &config.tls_key) else { return Ok(None) };
    let read = |path: &std::path::PathBuf| std::fs::read(path).map_err(|error| ConfigError::File(path.clone(), error));
    let identity = Identity::from_pem(read(cert)?, read(key)?);
    let tls = ServerTlsConfig::new().identity(identity).timeout(Duration::from_secs(10));
    // The transport checks the pair when it is set.
    let checked = Transport::builder().tls_config(tls.clone());
    checked.map_err(|error| {
        let files = format!("{} and {}", cert.display(), key.display());
        ConfigError::Invalid(format!(
            "{files} are not a certificate and its private key in PEM format: {}",
            with_sources(&error)
        ))
    })?;
    Ok(Some(tls))
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

/// Serves until the process receives SIGINT or SIGTERM. Calls `ready` with the server before the first client connects.
///
/// # Errors
/// The errors of [`Server::bind`], and of the transport.
pub fn serve(config: Config, ready: impl FnOnce(&Server)) -> Result<(), ConfigError> {
    logging::start(config.log_format, &config.log_level)?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().thread_name("warpmill-flight").thread_stack_size(STACK).build();
    let runtime = runtime.map_err(|error| ConfigError::Transport(error.to_string()))?;
    let server = Server::bind(config)?;
    ready(&server);
    let outcome = runtime.block_on(async {
        let watch = |kind| signal(kind).map_err(|error| ConfigError::Transport(error.to_string()));
        let (mut interrupt, mut terminate) = (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?);
        let stop = async move {
            tokio::select! {
                _ = interrupt.recv() => (),
                _ = terminate.recv() => (),
            }
        };
        server.run(stop).await
    });
    // Statements that do not stop must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}
