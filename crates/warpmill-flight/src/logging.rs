//! Logs on stderr, for people or as JSON.

use tracing_subscriber::EnvFilter;

use crate::config::{Config, ConfigError, LogFormat};

/// Starts the process's logs. Those of a process that has some already stay.
pub(crate) fn start(config: &Config) -> Result<(), ConfigError> {
    let filter = EnvFilter::try_new(&config.log_level)
        .map_err(|error| ConfigError::Invalid(format!("--log-level {:?}: {error}", config.log_level)))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // An error means that there is a logger.
    let _ = match config.log_format {
        LogFormat::Text => logs.with_ansi(false).try_init(),
        LogFormat::Json => logs.json().flatten_event(true).try_init(),
    };
    Ok(())
}
