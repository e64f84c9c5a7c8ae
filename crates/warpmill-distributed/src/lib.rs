//! Queries over several processes, one per machine.
//!
//! A session with workers ([`warpmill::WorkerOptions`]) plans a query as it would for itself. `cut` puts exchanges into that plan: the
//! scans of tables with several row segments are split between the workers, and so is what lies above them, until rows have to
//! meet. Between exchanges lie *stages*, each of one *task* per worker, or of one task. The library `datafusion-distributed` sends the
//! tasks and moves their rows (`cluster`). Each worker (`worker`) translates its task into programs of its own (`stage`), and keeps
//! them (`task`): what travels is DataFusion's plan, with scans by path, version and row segments ([`warpmill_translate::codec`]).
//!
//! `link` is what all processes have in common: tokens, versions, certificates, and errors that name the worker.

pub(crate) mod cluster;
pub(crate) mod cut;
pub(crate) mod explain;
pub(crate) mod link;
pub(crate) mod stage;
pub(crate) mod task;
pub mod worker;

pub use cluster::install;
pub use worker::{Config, ConfigError, Worker, serve};
