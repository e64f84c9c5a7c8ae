//! Queries over Ballista's executors.
//!
//! Ballista schedules tasks and moves rows between them as files; Warpmill plans the queries and runs the tasks:
//! - `scheduler`: a process with Ballista's scheduler and Warpmill's Flight SQL server in front of it. A session's queries are cut into stages
//!   ([`warpmill_distributed::stages`]) and submitted as a job (`job`), whose rows `run` waits for; `cluster` chooses the executors of tasks.
//! - `executor`: a process with Ballista's executor, whose engine (`engine`) makes programs of the tasks.
//! - `plan`: the plan of a job. Ballista splits it at the exchanges; each stage between them is a single node, `plan::TaskExec`, over its inputs, so
//!   that Ballista's rules change nothing in it.

mod clients;
mod cluster;
mod codec;
mod config;
mod engine;
mod errors;
mod executor;
mod job;
mod plan;
mod run;
mod scheduler;

pub use config::{ConfigError, ExecutorConfig, SchedulerConfig};
pub use executor::run_executor;
pub use scheduler::{Addresses, run_scheduler};
