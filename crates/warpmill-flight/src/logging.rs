//! Logs on stderr, as readable text or as JSON.

use tracing_subscriber::EnvFilter;

use crate::config::{ConfigError, LogFormat};

/// Levels for libraries that log texts of statements, values and headers; a `--log-level` for one of them overrides this.
const QUIET: &str = "datafusion=warn,sqlparser=warn,h2=info,hyper=info,tonic=info,tower=info,object_store=info,\
                     ballista_core=warn,ballista_executor=warn,ballista_scheduler=warn,\
                     ballista_scheduler::state::executor_manager=error";

/// Starts the process's logging, unless it has been started already. `level`: `info`, `debug`, or directives of [`EnvFilter`].
///
/// # Errors
/// [`ConfigError::Invalid`] for other levels.
pub fn start(format: LogFormat, level: &str) -> Result<(), ConfigError> {
    let filter = EnvFilter::try_new(format!("{QUIET},{level}"))
        .map_err(|error| ConfigError::Invalid(format!("--log-level {level:?}: {error}")))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // An error means that a logger exists.
    let _ = match format {
        LogFormat::Text => logs.with_ansi(false).try_init(),
        LogFormat::Json => logs.json().flatten_event(true).try_init(),
    };
    // The message of a panic may contain values.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "a panic");
    }));
    Ok(())
}
