//! The configuration of a worker, and checks of it.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use serde::Deserialize;

/// Configuration of a worker.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `host:port` to listen on; port 0: any free one.
    pub listen: String,
    /// The file of the token that all processes share.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// PEM file of the certificate chain. With [`Config::tls_key`], the worker accepts TLS connections only.
    #[serde(default)]
    pub tls_cert: Option<PathBuf>,
    /// PEM file of the certificate's private key.
    #[serde(default)]
    pub tls_key: Option<PathBuf>,
    /// PEM file of the certificates that sign the other workers'.
    #[serde(default)]
    pub tls_ca: Option<PathBuf>,
    /// Whether other machines may connect without TLS.
    #[serde(default)]
    pub plaintext: bool,
    /// Seconds without an answer after which another worker counts as lost.
    #[serde(default = "default_timeout")]
    pub timeout: f64,
    /// Settings of tasks, as in `SET name = value`.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
}

/// The reason why a worker did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// An invalid value, or two that contradict each other.
    #[error("{0}")]
    Invalid(String),
    /// A public address without a token or without encryption.
    #[error("{0}")]
    Unsafe(String),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(String, std::io::Error),
    /// A file could not be read.
    #[error("cannot read {path}: {1}", path = .0.display())]
    File(PathBuf, std::io::Error),
    /// A setting is not valid.
    #[error(transparent)]
    Engine(#[from] warpmill::Error),
    /// The transport failed.
    #[error("the worker failed: {0}")]
    Transport(String),
}

impl Config {
    /// A worker at `listen`, with default settings.
    pub fn at(listen: &str) -> Self {
        Self {
            listen: listen.to_string(),
            token_file: None,
            tls_cert: None,
            tls_key: None,
            tls_ca: None,
            plaintext: false,
            timeout: default_timeout(),
            settings: vec![],
        }
    }

    /// The address to listen on.
    ///
    /// # Errors
    /// [`ConfigError::Unsafe`] for one that is reachable from other machines, without a token, or without TLS unless [`Config::plaintext`];
    /// [`ConfigError::Invalid`] for half a key pair, a TLS worker that cannot reach others, or an invalid timeout.
    pub fn check(&self) -> Result<SocketAddr, ConfigError> {
        let invalid = |text: String| Err(ConfigError::Invalid(text));
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return invalid("TLS needs both a certificate (--tls-cert) and its private key (--tls-key)".into());
        }
        if self.tls_cert.is_some() != self.tls_ca.is_some() {
            return invalid("TLS needs --tls-cert, --tls-key, and --tls-ca to reach the other workers".into());
        }
        if !(0.5..=3600.0).contains(&self.timeout) {
            return invalid(format!("--timeout expects seconds from 0.5 to 3600, not {}", self.timeout));
        }
        let address = resolve(&self.listen)?;
        let encrypted = self.tls_cert.is_some() || self.plaintext;
        if is_loopback(address.ip()) || encrypted && self.token_file.is_some() {
            return Ok(address);
        }
        let missing = match self.token_file {
            None => {
                "a token that all processes share (--token-file): whoever connects can read all files that the worker can"
            }
            Some(_) => "TLS (--tls-cert, --tls-key, --tls-ca), or --plaintext on a network that nobody else listens to",
        };
        Err(ConfigError::Unsafe(format!(
            "{} is not a loopback address: other machines can reach it, and that needs {missing}",
            self.listen
        )))
    }
}

/// Resolves `host:port`. If a name has several addresses, returns the first that is not loopback, if any: the most public one decides whether the
/// configuration is safe.
fn resolve(listen: &str) -> Result<SocketAddr, ConfigError> {
    let found = listen.to_socket_addrs();
    let found: Vec<_> = found.map_err(|error| ConfigError::Listen(listen.to_string(), error))?.collect();
    let public = found.iter().find(|address| !is_loopback(address.ip()));
    public
        .or(found.first())
        .copied()
        .ok_or_else(|| ConfigError::Invalid(format!("{listen} does not resolve to an address")))
}

fn is_loopback(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(v6.is_loopback(), |v4| v4.is_loopback()),
        IpAddr::V4(v4) => v4.is_loopback(),
    }
}

fn default_timeout() -> f64 {
    10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses_need_a_token_and_tls() {
        for listen in ["127.0.0.1:0", "[::1]:0", "localhost:0"] {
            assert!(Config::at(listen).check().is_ok(), "{listen}");
        }
        let open = Config::at("0.0.0.0:0");
        let text = |config: &Config| config.check().unwrap_err().to_string();
        assert!(text(&open).contains("--token-file"));
        let with_token = Config { token_file: Some("t".into()), ..open.clone() };
        assert!(text(&with_token).contains("--tls-cert"));
        assert!(Config { plaintext: true, ..with_token.clone() }.check().is_ok());
        assert!(text(&Config { plaintext: true, ..open }).contains("--token-file"));
        let file = Some(PathBuf::from("f"));
        let keys = Config { tls_cert: file.clone(), tls_key: file.clone(), tls_ca: file.clone(), ..with_token.clone() };
        assert!(keys.check().is_ok());
        assert!(text(&Config { tls_ca: None, ..keys.clone() }).contains("--tls-ca"));
        assert!(text(&Config { tls_key: None, ..keys }).contains("--tls-key"));
        assert!(matches!(Config::at("nowhere").check(), Err(ConfigError::Listen(..))));
        assert!(text(&Config { timeout: 0.0, ..Config::at("127.0.0.1:0") }).contains("--timeout"));
    }
}
