//! A scheduler: Ballista's, with Warpmill's Flight SQL server before it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ballista_core::extension::SessionConfigExt;
use ballista_scheduler::cluster::{BallistaCluster, ClusterState};
use ballista_scheduler::config::SchedulerConfig as BallistaConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use warpmill_distributed::stages;

use crate::cluster::Executors;
use crate::codec::JobCodec;
use crate::config::{ConfigError, SchedulerConfig, listened};
use crate::job::Scheduled;
use crate::run::Jobs;

/// Ballista's scheduler of DataFusion's plans.
pub(crate) type Scheduler = ballista_scheduler::scheduler_server::SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

/// The addresses of a scheduler.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// Of executors' calls.
    pub scheduler: SocketAddr,
    /// Of the Flight SQL server.
    pub flight: SocketAddr,
}

/// Runs a scheduler until the process receives SIGINT or SIGTERM. Calls `ready` when it listens. Must be called inside a tokio runtime, once in a
/// process.
///
/// # Errors
/// [`ConfigError::Unsafe`] for a public address without [`SchedulerConfig::plaintext`], ports that are in use, and errors of the Flight SQL server.
pub async fn run_scheduler(mut config: SchedulerConfig, ready: impl FnOnce(Addresses)) -> Result<(), ConfigError> {
    let address = listened(&config.listen, config.plaintext)?;
    let refused = |error| ConfigError::Listen(config.listen.clone(), error);
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let ballista = ballista(address, config.timeout);
    let states = BallistaCluster::new_from_config(&ballista).await?.job_state();
    let executors = Arc::new(Executors::default());
    let cluster = BallistaCluster::new(Arc::clone(&executors) as Arc<dyn ClusterState>, Arc::clone(&states));
    let scheduler: Scheduler = create_scheduler(cluster, Arc::new(ballista)).await?;
    let jobs = Jobs {
        scheduler: scheduler.clone(),
        states,
        executors,
        timeout: Duration::from_secs(config.timeout),
        address: address.to_string(),
        runtime: Handle::current(),
    };
    warpmill::distribution::install(Arc::new(Scheduled::new(Arc::new(jobs))));

    // Queries of sessions with workers are planned over the executors.
    config.flight.settings.push(("warpmill.workers".into(), address.to_string()));
    let flight = warpmill_flight::Server::bind(config.flight)?;
    ready(Addresses { scheduler: address, flight: flight.address() });
    let watch = |kind| signal(kind).map_err(|error| ConfigError::Ballista(error.to_string()));
    let (mut interrupt, mut terminate) = (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?);
    let stop = async move {
        tokio::select! {
            _ = interrupt.recv() => (),
            _ = terminate.recv() => (),
        }
    };
    tokio::select! {
        stopped = start_grpc_service_with_listener(listener, scheduler) => Ok(stopped?),
        stopped = flight.run(stop) => Ok(stopped?),
    }
}

/// Seconds for which the state of a finished job is kept.
const FINISHED: u64 = 60;

/// Ballista's configuration of a scheduler at `address`.
fn ballista(address: SocketAddr, timeout: u64) -> BallistaConfig {
    BallistaConfig {
        bind_host: address.ip().to_string(),
        external_host: address.ip().to_string(),
        bind_port: address.port(),
        executor_timeout_seconds: timeout,
        expire_dead_executor_interval_seconds: 1,
        no_executors_grace_period_seconds: timeout,
        finished_job_state_clean_up_interval_seconds: FINISHED,
        override_config_producer: Some(Arc::new(job_config)),
        override_session_builder: Some(Arc::new(|config| Ok(session(config)))),
        override_physical_codec: Some(Arc::new(JobCodec::default())),
        ..Default::default()
    }
}

/// The configuration of jobs: a task for each partition.
pub(crate) fn job_config() -> SessionConfig {
    let config = SessionConfig::new_with_ballista().with_round_robin_repartition(false);
    config.set_usize("ballista.scheduler.max_partitions_per_task", 1)
}

/// A session with the functions of all processes.
pub(crate) fn session(config: SessionConfig) -> SessionState {
    let state = stages::functions();
    SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_scalar_functions(state.scalar_functions().values().cloned().collect())
        .with_higher_order_functions(state.higher_order_functions().values().cloned().collect())
        .with_aggregate_functions(state.aggregate_functions().values().cloned().collect())
        .with_window_functions(state.window_functions().values().cloned().collect())
        .build()
}
