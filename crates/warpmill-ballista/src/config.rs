//! The configurations of both processes, and checks of them.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use serde::Deserialize;

/// Configuration of a scheduler.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerConfig {
    /// `host:port` that executors connect to; port 0: any free one.
    #[serde(default = "scheduler_address")]
    pub listen: String,
    /// Whether other machines may connect: Ballista's connections have neither encryption nor passwords.
    #[serde(default)]
    pub plaintext: bool,
    /// Seconds without a sign of life after which an executor counts as lost, and queries that it has tasks of run again.
    #[serde(default = "default_timeout")]
    pub timeout: u64,
    /// The Flight SQL server.
    pub flight: warpmill_flight::Config,
}

/// Configuration of an executor.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutorConfig {
    /// `host:port` of the scheduler.
    #[serde(default = "scheduler_address")]
    pub scheduler: String,
    /// Address to listen on.
    #[serde(default = "loopback")]
    pub host: String,
    /// The name of this machine for the others; [`ExecutorConfig::host`] if `None`.
    #[serde(default)]
    pub advertise: Option<String>,
    /// Port from which the others fetch rows; 0: any free one.
    #[serde(default)]
    pub port: u16,
    /// Port for the scheduler's calls; 0: any free one.
    #[serde(default)]
    pub grpc_port: u16,
    /// Whether other machines may connect: Ballista's connections have neither encryption nor passwords.
    #[serde(default)]
    pub plaintext: bool,
    /// Tasks that run at once. Each of them uses all of `threads`.
    #[serde(default = "one")]
    pub slots: usize,
    /// Folder for rows between stages; a temporary one if `None`.
    #[serde(default)]
    pub work_dir: Option<PathBuf>,
    /// Settings of tasks, as in `SET name = value`.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
    /// The level of the log: `info`, `debug`, or directives of `tracing_subscriber::EnvFilter`.
    #[serde(default = "default_log_level")]
    pub log_level: String,
}

/// The reason why a process did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// An invalid value.
    #[error("{0}")]
    Invalid(String),
    /// An address that other machines can reach, without `plaintext`.
    #[error(
        "{0} is not a loopback address: other machines can reach it, and Ballista's connections have neither encryption nor passwords; --plaintext \
         permits them on a network of trusted machines"
    )]
    Unsafe(String),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(String, std::io::Error),
    /// The work folder cannot be made.
    #[error("cannot make the folder {path}: {1}", path = .0.display())]
    Folder(PathBuf, std::io::Error),
    /// A setting is not valid.
    #[error(transparent)]
    Engine(#[from] warpmill::Error),
    /// The Flight SQL server did not start, or stopped.
    #[error(transparent)]
    Flight(#[from] warpmill_flight::ConfigError),
    /// Ballista failed.
    #[error("{0}")]
    Ballista(String),
}

impl From<ballista_core::error::BallistaError> for ConfigError {
    fn from(error: ballista_core::error::BallistaError) -> Self {
        Self::Ballista(error.to_string())
    }
}

/// Resolves `host:port`, of which only loopback addresses are permitted without `plaintext`. If a name has several addresses, the most public one
/// counts.
pub(crate) fn listened(address: &str, plaintext: bool) -> Result<SocketAddr, ConfigError> {
    let found = address.to_socket_addrs().map_err(|error| ConfigError::Listen(address.to_string(), error))?;
    let found: Vec<_> = found.collect();
    let public = found.iter().find(|address| !is_loopback(address.ip()));
    match (public, found.first()) {
        (Some(_), _) if !plaintext => Err(ConfigError::Unsafe(address.to_string())),
        (Some(address), _) | (None, Some(address)) => Ok(*address),
        (None, None) => Err(ConfigError::Invalid(format!("{address} does not resolve to an address"))),
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

fn scheduler_address() -> String {
    "127.0.0.1:50050".into()
}

fn loopback() -> String {
    "127.0.0.1".into()
}

fn one() -> usize {
    1
}

fn default_timeout() -> u64 {
    15
}

fn default_log_level() -> String {
    "info".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses_are_refused_without_plaintext() {
        for address in ["127.0.0.1:0", "[::1]:0", "localhost:0"] {
            assert!(listened(address, false).is_ok(), "{address}");
        }
        let refused = listened("0.0.0.0:0", false).unwrap_err().to_string();
        assert!(refused.contains("--plaintext"), "{refused}");
        assert!(listened("0.0.0.0:0", true).is_ok());
        assert!(matches!(listened("nowhere", false), Err(ConfigError::Listen(..))));
    }
}
