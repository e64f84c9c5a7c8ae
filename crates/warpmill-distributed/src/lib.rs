//! Queries over several processes, one per machine.
//!
//! A session with workers ([`warpmill::WorkerOptions`]) plans a query like any other. `cut` then inserts exchanges into that plan: scans of tables
//! with several row segments are split between the workers, together with the operators above them, until rows have to be combined. Exchanges
//! separate *stages*, each of one *task* per worker, or of a single task. The library `datafusion-distributed` sends the tasks and moves their rows
//! (`cluster`). Each worker (`worker`) translates its task into programs (`stage`), and caches
//! them (`task`): the plan sent is DataFusion's, with scans by path, version and row segments ([`warpmill_translate::codec`]).
//!
//! Other engines that send tasks and rows themselves get the same stages from [`stages`].
//!
//! `link` is shared by all processes: tokens, versions, certificates, and errors that name the worker.

pub(crate) mod cluster;
pub(crate) mod cut;
pub(crate) mod explain;
pub(crate) mod link;
pub(crate) mod stage;
pub mod stages;
pub(crate) mod task;
pub mod worker;

pub use cluster::install;
pub use worker::{Config, ConfigError, Worker, serve};
