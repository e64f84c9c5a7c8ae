//! An executor: a process that runs tasks of jobs.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ballista_core::RuntimeProducer;
use ballista_core::extension::SessionConfigExt;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use datafusion::prelude::SessionConfig;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use warpmill::{Session, WarpmillOptions};
use warpmill_distributed::stages;

use crate::clients::Clients;
use crate::codec::JobCodec;
use crate::config::{ConfigError, ExecutorConfig, listened};
use crate::engine::TaskEngine;

/// Seconds between signs of life.
const HEARTBEAT: u64 = 2;
/// Seconds to wait for a scheduler that does not answer yet.
const CONNECT: u16 = 30;
/// Seconds for which rows between stages are kept, should the scheduler not ask for their removal.
const LONGEST_JOB: u64 = 24 * 3600;

/// Runs an executor until the process receives SIGINT or SIGTERM. Calls `ready` with the address of its rows before the first task arrives. Must be
/// called inside a tokio runtime; `threads` is another one, whose threads tasks may block.
///
/// # Errors
/// [`ConfigError::Unsafe`] for a public address without [`ExecutorConfig::plaintext`], errors in settings, ports that are in use, and a scheduler that
/// does not answer.
pub async fn run_executor(
    config: ExecutorConfig,
    threads: Handle,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ConfigError> {
    let (rows, calls) = addresses(&config)?;
    if rows.ip().is_unspecified() && config.advertise.is_none() {
        return Err(ConfigError::Invalid(format!(
            "--host {} needs --advertise: the name by which others reach it",
            config.host
        )));
    }
    let (scheduler_host, scheduler_port) = host_and_port(&config.scheduler)?;
    // Kept until the process ends.
    let temporary = tempfile::tempdir().map_err(|error| ConfigError::Folder(std::env::temp_dir(), error))?;
    let work_dir = config.work_dir.unwrap_or_else(|| temporary.path().to_path_buf());
    std::fs::create_dir_all(&work_dir).map_err(|error| ConfigError::Folder(work_dir.clone(), error))?;

    let builder = config.settings.iter().fold(Session::builder(), |builder, (key, value)| builder.set(key, value));
    let session = builder.build()?;
    let options = WarpmillOptions::of(session.context().copied_config().options());
    let runtime = session.context().runtime_env();
    let task_config = move || {
        let mut config = SessionConfig::new_with_ballista().with_target_partitions(1);
        config.options_mut().extensions.insert(options.clone());
        config
    };
    let runtime: RuntimeProducer = Arc::new(move |_| Ok(Arc::clone(&runtime)));
    let process = ExecutorProcessConfig {
        bind_host: host_of(rows),
        external_host: Some(config.advertise.unwrap_or_else(|| host_of(rows))),
        port: rows.port(),
        grpc_port: calls.port(),
        scheduler_host,
        scheduler_port,
        scheduler_connect_timeout_seconds: CONNECT,
        vcores: config.slots.max(1),
        work_dir: Some(work_dir.to_string_lossy().into_owned()),
        job_data_ttl_seconds: LONGEST_JOB,
        job_data_clean_up_interval_seconds: 600,
        executor_heartbeat_interval_seconds: HEARTBEAT,
        // Memory is that of the session's settings.
        memory_pool_size: Some(0),
        override_execution_engine: Some(Arc::new(TaskEngine::new(Arc::new(Clients::default()), threads))),
        override_function_registry: Some(Arc::new(functions())),
        override_runtime_producer: Some(runtime),
        override_config_producer: Some(Arc::new(task_config)),
        override_physical_codec: Some(Arc::new(JobCodec::default())),
        ..Default::default()
    };
    ready(rows);
    // It listens for signals, too, and ends without an error whatever the reason.
    let asked = Arc::new(AtomicBool::new(false));
    let watch = |kind| signal(kind).map_err(|error| ConfigError::Ballista(error.to_string()));
    let (mut interrupt, mut terminate) = (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?);
    let seen = Arc::clone(&asked);
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => (),
            _ = terminate.recv() => (),
        }
        seen.store(true, Ordering::SeqCst);
    });
    start_executor_process(Arc::new(process)).await?;
    match asked.load(Ordering::SeqCst) {
        true => Ok(()),
        false => {
            Err(ConfigError::Ballista("the scheduler does not answer any more, or has stopped this executor".into()))
        }
    }
}

/// The functions of all processes.
fn functions() -> BallistaFunctionRegistry {
    let state = stages::functions();
    BallistaFunctionRegistry {
        scalar_functions: state.scalar_functions().clone(),
        aggregate_functions: state.aggregate_functions().clone(),
        window_functions: state.window_functions().clone(),
        higher_order_functions: state.higher_order_functions().clone(),
    }
}

/// The addresses of rows and of the scheduler's calls. Ports that are 0 become free ones: Ballista tells the scheduler those that it is configured with.
fn addresses(config: &ExecutorConfig) -> Result<(SocketAddr, SocketAddr), ConfigError> {
    let host = if config.host.contains(':') {
        format!("[{}]", config.host.trim_matches(['[', ']']))
    } else {
        config.host.clone()
    };
    let bound = |port: u16| {
        let address = listened(&format!("{host}:{port}"), config.plaintext)?;
        let refused = |error| ConfigError::Listen(address.to_string(), error);
        let listener = TcpListener::bind(address).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        Ok::<_, ConfigError>((listener, address))
    };
    // Both are held until both are known, so that they differ.
    let (rows, calls) = (bound(config.port)?, bound(config.grpc_port)?);
    Ok((rows.1, calls.1))
}

/// The host of an address as a part of URLs.
fn host_of(address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

fn host_and_port(address: &str) -> Result<(String, u16), ConfigError> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host.to_string(), port.parse().ok()?)));
    parts.ok_or_else(|| ConfigError::Invalid(format!("{address} is not host:port of a scheduler")))
}
