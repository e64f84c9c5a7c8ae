//! The Flight SQL server, for the command line.

use std::io::Write;

use pyo3::prelude::*;
use warpmill_flight::{Config, ConfigError};

use crate::errors::{EngineError, Error, IOError, SettingError, guarded};

fn raise(error: ConfigError) -> PyErr {
    match error {
        ConfigError::Engine(error) => EngineError(error).into(),
        ConfigError::Invalid(_) | ConfigError::Unsafe(_) => SettingError::new_err(error.to_string()),
        ConfigError::Listen(..) | ConfigError::File(..) => IOError::new_err(error.to_string()),
        ConfigError::Transport(_) => Error::new_err(error.to_string()),
    }
}

/// Serves until the process receives SIGINT or SIGTERM; `config` is JSON. Prints the addresses when clients can connect.
#[pyfunction]
pub(crate) fn serve(py: Python<'_>, config: &str) -> PyResult<()> {
    let config: Config = serde_json::from_str(config).map_err(|error| SettingError::new_err(error.to_string()))?;
    let ready = |server: &warpmill_flight::Server| {
        let mut out = std::io::stdout().lock();
        // Stdout may be closed.
        let _ = writeln!(out, "Warpmill serves {}", server.uri());
        if let Some(address) = server.metrics_address() {
            let _ = writeln!(out, "metrics and health: http://{address}/metrics http://{address}/health");
        }
        let _ = out.flush();
    };
    py.detach(|| guarded(|| warpmill_flight::serve(config, ready).map_err(raise)))
}

/// The hash of a password, for the file of users.
#[pyfunction]
pub(crate) fn hash_password(py: Python<'_>, password: &str) -> PyResult<String> {
    py.detach(|| guarded(|| warpmill_flight::hash_password(password).map_err(raise)))
}
