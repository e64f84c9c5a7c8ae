//! A worker for other processes' queries, for the command line.

use std::io::Write;

use pyo3::prelude::*;
use warpmill_distributed::{Config, ConfigError};

use crate::errors::{EngineError, Error, IOError, SettingError, guarded};

fn raise(error: ConfigError) -> PyErr {
    match error {
        ConfigError::Engine(error) => EngineError(error).into(),
        ConfigError::Invalid(_) | ConfigError::Unsafe(_) => SettingError::new_err(error.to_string()),
        ConfigError::Listen(..) | ConfigError::File(..) => IOError::new_err(error.to_string()),
        ConfigError::Transport(_) => Error::new_err(error.to_string()),
    }
}

/// Runs tasks until the process receives SIGINT or SIGTERM; `config` is JSON. Prints the address when sessions can connect.
#[pyfunction]
pub(crate) fn worker(py: Python<'_>, config: &str) -> PyResult<()> {
    let config: Config = serde_json::from_str(config).map_err(|error| SettingError::new_err(error.to_string()))?;
    let ready = |worker: &warpmill_distributed::Worker| {
        let mut out = std::io::stdout().lock();
        // Stdout may be closed.
        let _ = writeln!(out, "Warpmill worker at {}", worker.address());
        let _ = out.flush();
    };
    py.detach(|| guarded(|| warpmill_distributed::serve(&config, ready).map_err(raise)))
}
