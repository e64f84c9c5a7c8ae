//! An executor: a process that runs tasks of jobs.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use ballista_core::RuntimeProducer;
use ballista_core::extension::SessionConfigExt;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use datafusion::prelude::SessionConfig;
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
/// called inside a tokio runtime.
///
/// # Errors
/// [`ConfigError::Unsafe`] for a public address without [`ExecutorConfig::plaintext`], errors in settings, ports that are in use, and a scheduler that
/// does not answer.
pub async fn run_executor(config: ExecutorConfig, ready: impl FnOnce(SocketAddr)) -> Result<(), ConfigError> {
    let port = |port: u16| free(listened(&format!("{}:{port}", config.host), config.plaintext)?);
    let (rows, calls) = (port(config.port)?, port(config.grpc_port)?);
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
        bind_host: rows.ip().to_string(),
        external_host: Some(config.advertise.unwrap_or(config.host)),
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
        override_execution_engine: Some(Arc::new(TaskEngine::new(Arc::new(Clients::default())))),
        override_function_registry: Some(Arc::new(functions())),
        override_runtime_producer: Some(runtime),
        override_config_producer: Some(Arc::new(task_config)),
        override_physical_codec: Some(Arc::new(JobCodec::default())),
        ..Default::default()
    };
    ready(rows);
    Ok(start_executor_process(Arc::new(process)).await?)
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

/// `address`, with a free port in place of 0: Ballista tells the scheduler the port that it is configured with.
fn free(address: SocketAddr) -> Result<SocketAddr, ConfigError> {
    let bound = TcpListener::bind(address).and_then(|listener| listener.local_addr());
    bound.map_err(|error| ConfigError::Listen(address.to_string(), error))
}

fn host_and_port(address: &str) -> Result<(String, u16), ConfigError> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host.to_string(), port.parse().ok()?)));
    parts.ok_or_else(|| ConfigError::Invalid(format!("{address} is not host:port of a scheduler")))
}
