//! `warpmill-ballista`: Ballista's scheduler and executors with Warpmill in them (docs/distributed.md).

use std::process::ExitCode;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;
use warpmill_ballista::{ConfigError, ExecutorConfig, SchedulerConfig, run_executor, run_scheduler};
use warpmill_flight::{LogFormat, start_logging};

const USAGE: &str = "\
Usage: warpmill-ballista scheduler CONFIG
       warpmill-ballista executor CONFIG

CONFIG is a JSON object; `warpmill ballista-scheduler --help` and `warpmill ballista-executor --help`, which make it, say what it holds.

Examples:
  warpmill-ballista scheduler '{\"flight\": {\"database\": \"shop/\"}}'
  warpmill-ballista executor '{\"scheduler\": \"127.0.0.1:50050\"}'";

/// Deep expressions are planned and run by recursion.
const STACK: usize = 32 << 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["scheduler", config] => scheduler(config),
        ["executor", config] => executor(config),
        ["--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn scheduler(text: &str) -> Result<(), ConfigError> {
    let config: SchedulerConfig = read(text)?;
    start_logging(config.flight.log_format, &config.flight.log_level)?;
    run(run_scheduler(config, |addresses| {
        println!("scheduler on {}, Flight SQL on {}", addresses.scheduler, addresses.flight);
    }))
}

fn executor(text: &str) -> Result<(), ConfigError> {
    let config: ExecutorConfig = read(text)?;
    start_logging(LogFormat::Text, &config.log_level)?;
    let tasks = runtime("warpmill-task")?;
    let outcome = run(run_executor(config, tasks.handle().clone(), |address| println!("executor on {address}")));
    tasks.shutdown_timeout(Duration::from_secs(1));
    outcome
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, ConfigError> {
    serde_json::from_str(text).map_err(|error| ConfigError::Invalid(format!("the configuration: {error}")))
}

fn run(process: impl Future<Output = Result<(), ConfigError>>) -> Result<(), ConfigError> {
    let runtime = runtime("warpmill-ballista")?;
    let outcome = runtime.block_on(process);
    // Statements that do not stop must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

fn runtime(name: &str) -> Result<Runtime, ConfigError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().thread_name(name).thread_stack_size(STACK).build();
    runtime.map_err(|error| ConfigError::Ballista(error.to_string()))
}
