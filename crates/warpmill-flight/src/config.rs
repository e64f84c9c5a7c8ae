//! The configuration of a server, and checks of it.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use warpmill::physical_memory;

/// Configuration of a server. Every field but the database has a default.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The directory of tables that all clients share.
    pub database: PathBuf,
    /// Address or name to listen on.
    #[serde(default = "loopback")]
    pub host: String,
    /// Port of the Flight SQL service; 0: any free one.
    #[serde(default = "default_port")]
    pub port: u16,
    /// PEM file of the certificate chain. With [`Config::tls_key`], the service accepts TLS connections only.
    #[serde(default)]
    pub tls_cert: Option<PathBuf>,
    /// PEM file of the certificate's private key.
    #[serde(default)]
    pub tls_key: Option<PathBuf>,
    /// File of `name:hash` lines ([`crate::hash_password`]).
    #[serde(default)]
    pub users: Option<PathBuf>,
    /// Name of the environment variable with the bearer token.
    #[serde(default)]
    pub token_env: Option<String>,
    /// Seconds for which a token that a log-in gave is good.
    #[serde(default = "default_token_ttl")]
    pub token_ttl: u64,
    /// Host that `/metrics` and `/health` are served on.
    #[serde(default = "loopback")]
    pub metrics_host: String,
    /// Port of `/metrics` and `/health`; 0: any free one. None: not served.
    #[serde(default)]
    pub metrics_port: Option<u16>,
    /// Whether SQL may read files of the server's machine by quoted path or as external tables, and write them with COPY.
    #[serde(default)]
    pub allow_files: bool,
    /// Settings that every session starts with, as in `SET name = value`.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
    /// Format of log lines.
    #[serde(default)]
    pub log_format: LogFormat,
    /// The level of the log: `info`, `debug`, or directives of `tracing_subscriber::EnvFilter`.
    #[serde(default = "default_log_level")]
    pub log_level: String,
    /// Seconds for running statements to finish at shutdown.
    #[serde(default = "default_grace")]
    pub shutdown_grace: u64,
    /// The limits of clients.
    #[serde(default)]
    pub limits: Limits,
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Readable text.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Limits for all clients together, and for each of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Largest number of bytes of all running statements together. Each reserves its session's `warpmill.memory_limit`; DataFusion's operators
    /// additionally use one pool of this size.
    pub memory: usize,
    /// Initial `warpmill.memory_limit` of a session, in bytes. Clients may raise it up to [`Limits::memory`].
    pub query_memory: usize,
    /// Statements that run at once.
    pub queries: usize,
    /// Number of concurrent statements per session.
    pub session_queries: usize,
    /// Number of statements that may wait for room; further ones are refused.
    pub queue: usize,
    /// Seconds that a statement may wait for room.
    pub queue_seconds: u64,
    /// Seconds that a statement may run, the reading of its rows included.
    pub query_seconds: u64,
    /// Largest size of a statement's encoded rows, in bytes; 0: unlimited.
    pub result_bytes: u64,
    /// Largest size of a message in either direction, in bytes.
    pub message_bytes: usize,
    /// Largest size of a statement's text, in bytes.
    pub sql_bytes: usize,
    /// Connections at once.
    pub connections: usize,
    /// Seconds after which a connection without any request is closed.
    pub first_request_seconds: u64,
    /// Sessions at once.
    pub sessions: usize,
    /// Number of sessions per user, and per address.
    pub user_sessions: usize,
    /// Number of prepared statements and unread results per session.
    pub handles: usize,
    /// Seconds after which an unused session ends.
    pub session_idle_seconds: u64,
    /// Seconds for which a result waits to be read.
    pub ticket_seconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let memory = physical_memory().map_or(4 << 30, |bytes| bytes as usize) / 4 * 3;
        Self {
            memory,
            query_memory: memory / 8,
            queries: (2 * cores).clamp(4, 64),
            session_queries: 16,
            queue: 256,
            queue_seconds: 60,
            query_seconds: 600,
            result_bytes: 0,
            message_bytes: 16 << 20,
            sql_bytes: 256 << 10,
            connections: 1024,
            first_request_seconds: 20,
            sessions: 1024,
            user_sessions: 512,
            handles: 256,
            session_idle_seconds: 3600,
            ticket_seconds: 600,
        }
    }
}

/// The reason why a server did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// An invalid value, or two that contradict each other.
    #[error("{0}")]
    Invalid(String),
    /// A public address without encryption or without authentication.
    #[error("{0}")]
    Unsafe(String),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(String, std::io::Error),
    /// A file could not be read.
    #[error("cannot read {path}: {1}", path = .0.display())]
    File(PathBuf, std::io::Error),
    /// The engine does not open the database.
    #[error(transparent)]
    Engine(#[from] warpmill::Error),
    /// The transport failed.
    #[error("the server failed: {0}")]
    Transport(String),
}

impl Config {
    /// A server of `database` on a free loopback port, without authentication.
    pub fn local(database: impl Into<PathBuf>) -> Self {
        Self {
            database: database.into(),
            host: loopback(),
            port: 0,
            tls_cert: None,
            tls_key: None,
            users: None,
            token_env: None,
            token_ttl: default_token_ttl(),
            metrics_host: loopback(),
            metrics_port: None,
            allow_files: false,
            settings: vec![],
            log_format: LogFormat::Text,
            log_level: default_log_level(),
            shutdown_grace: default_grace(),
            limits: Limits::default(),
        }
    }

    pub(crate) fn has_tls(&self) -> bool {
        self.tls_cert.is_some()
    }

    pub(crate) fn has_users(&self) -> bool {
        self.users.is_some() || self.token_env.is_some()
    }

    /// The address to listen on.
    ///
    /// # Errors
    /// [`ConfigError::Unsafe`] for one that is reachable from other machines without TLS or without users; [`ConfigError::Invalid`] for limits of
    /// zero, half a key pair, or a host without an address.
    pub fn check(&self) -> Result<SocketAddr, ConfigError> {
        let invalid = |text: &str| Err(ConfigError::Invalid(text.to_string()));
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return invalid("TLS needs both a certificate (--tls-cert) and its private key (--tls-key)");
        }
        let limits = &self.limits;
        let sessions = [limits.session_queries, limits.sessions, limits.user_sessions];
        let zero = sessions.contains(&0) || [limits.queries, limits.connections, limits.handles].contains(&0);
        if zero || [limits.query_seconds, limits.first_request_seconds, self.token_ttl].contains(&0) {
            return invalid("limits of queries, sessions, connections, handles and seconds must be at least 1");
        }
        if limits.message_bytes < 64 << 10 || limits.query_memory == 0 || limits.query_memory > limits.memory {
            return invalid(
                "a message may have 64 KiB at least, and a query's memory is between 1 byte and all memory",
            );
        }
        let address = resolve(&self.host, self.port)?;
        let guarded = self.has_tls() && self.has_users();
        if !guarded && !is_loopback(address.ip()) {
            let missing = match (self.has_tls(), self.has_users()) {
                (false, false) => "TLS (--tls-cert, --tls-key) and authentication (--users or --token-env)",
                (false, true) => "TLS (--tls-cert, --tls-key): passwords and tokens would be readable on the way",
                _ => "authentication (--users or --token-env): everybody could read and write the tables",
            };
            return Err(ConfigError::Unsafe(format!(
                "{} is not a loopback address: other machines can reach it, and that needs {missing}",
                self.host
            )));
        }
        Ok(address)
    }

    /// The address of `/metrics` and `/health`, if they are served.
    pub(crate) fn metrics_address(&self) -> Result<Option<SocketAddr>, ConfigError> {
        self.metrics_port.map(|port| resolve(&self.metrics_host, port)).transpose()
    }
}

impl Limits {
    pub(crate) fn query_time(&self) -> Duration {
        Duration::from_secs(self.query_seconds)
    }
}

/// Resolves `host`. If a name has several addresses, returns the first that is not loopback, if any: the most public one decides whether the
/// configuration is safe.
fn resolve(host: &str, port: u16) -> Result<SocketAddr, ConfigError> {
    let found = (host, port).to_socket_addrs();
    let found: Vec<_> = found.map_err(|error| ConfigError::Listen(host.to_string(), error))?.collect();
    let public = found.iter().find(|address| !is_loopback(address.ip()));
    public
        .or(found.first())
        .copied()
        .ok_or_else(|| ConfigError::Invalid(format!("{host} does not resolve to an address")))
}

fn is_loopback(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(v6.is_loopback(), |v4| v4.is_loopback()),
        IpAddr::V4(v4) => v4.is_loopback(),
    }
}

fn loopback() -> String {
    "127.0.0.1".to_string()
}

fn default_port() -> u16 {
    31337
}

fn default_token_ttl() -> u64 {
    24 * 3600
}

fn default_log_level() -> String {
    "info".to_string()
}

fn default_grace() -> u64 {
    30
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(host: &str) -> Config {
        Config { host: host.to_string(), ..Config::local("db") }
    }

    #[test]
    fn public_addresses_need_tls_and_users() {
        for host in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "127.8.8.8"] {
            assert!(config(host).check().is_ok(), "{host}");
        }
        for host in ["0.0.0.0", "::", "192.168.1.2", "::ffff:8.8.8.8"] {
            let tls = || (Some(PathBuf::from("cert.pem")), Some(PathBuf::from("key.pem")));
            let bare = config(host);
            let (tls_cert, tls_key) = tls();
            let encrypted = Config { tls_cert, tls_key, ..config(host) };
            let named = Config { users: Some("users".into()), ..config(host) };
            for (config, what) in
                [(&bare, "TLS"), (&bare, "--users"), (&encrypted, "--token-env"), (&named, "--tls-cert")]
            {
                let error = config.check().unwrap_err();
                assert!(matches!(error, ConfigError::Unsafe(_)) && error.to_string().contains(what), "{host}: {error}");
            }
            let (tls_cert, tls_key) = tls();
            assert!(Config { tls_cert, tls_key, token_env: Some("TOKEN".into()), ..config(host) }.check().is_ok());
        }
    }

    #[test]
    fn half_a_key_pair_and_zero_limits_are_refused() {
        let half = Config { tls_cert: Some("cert.pem".into()), ..Config::local("db") };
        assert!(matches!(half.check(), Err(ConfigError::Invalid(_))));
        let none = Config { limits: Limits { queries: 0, ..Limits::default() }, ..Config::local("db") };
        assert!(matches!(none.check(), Err(ConfigError::Invalid(_))));
        let greedy = Limits { memory: 10, query_memory: 11, ..Limits::default() };
        assert!(matches!(Config { limits: greedy, ..Config::local("db") }.check(), Err(ConfigError::Invalid(_))));
    }

    #[test]
    fn json_names_every_field() {
        let config: Config = serde_json::from_str(r#"{"database": "db", "limits": {"queries": 3}}"#).unwrap();
        assert_eq!((config.limits.queries, config.host.as_str(), config.port), (3, "127.0.0.1", 31337));
        assert!(serde_json::from_str::<Config>(r#"{"database": "db", "prot": 1}"#).is_err());
    }
}
