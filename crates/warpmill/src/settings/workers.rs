//! The settings of sessions that run queries over several processes.

use std::time::Duration;

use datafusion::common::config::ConfigEntry;
use datafusion::common::{DataFusionError, Result};

/// The workers of a session, and the connection options.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkerOptions {
    /// Their addresses, `host:port` each; none: the session's process runs its queries alone.
    pub addresses: Vec<String>,
    /// The file of the token that all processes share; empty: none.
    pub token_file: String,
    /// The PEM file of the certificates that sign the workers' certificates; empty: connections without TLS.
    pub ca_file: String,
    /// The time without an answer after which a worker is considered lost.
    pub timeout: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        let (addresses, token_file, ca_file) = Default::default();
        Self { addresses, token_file, ca_file, timeout: Duration::from_secs(10) }
    }
}

impl WorkerOptions {
    /// Sets `warpmill.KEY`; `None` for keys of other groups.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Option<Result<()>> {
        let value = value.trim();
        match key {
            "workers" => match addresses(value) {
                Ok(addresses) => self.addresses = addresses,
                Err(error) => return Some(Err(error)),
            },
            "workers_token_file" => self.token_file = value.to_string(),
            "workers_ca_file" => self.ca_file = value.to_string(),
            "workers_timeout" => match value.parse::<f64>() {
                Ok(seconds) if (0.5..=3600.0).contains(&seconds) => self.timeout = Duration::from_secs_f64(seconds),
                _ => return Some(Err(expects(key, "seconds from 0.5 to 3600, such as 10", value))),
            },
            _ => return None,
        }
        Some(Ok(()))
    }

    /// The settings in their displayed form.
    pub(crate) fn entries(&self) -> Vec<ConfigEntry> {
        let entries = [
            (
                "warpmill.workers",
                self.addresses.join(","),
                "Addresses (host:port,...) of the worker processes that run queries together with this one",
            ),
            (
                "warpmill.workers_ca_file",
                self.ca_file.clone(),
                "PEM file of the authority that signed the workers' certificates; if set, connections use TLS",
            ),
            (
                "warpmill.workers_timeout",
                self.timeout.as_secs_f64().to_string(),
                "Seconds without an answer after which a worker counts as lost",
            ),
            (
                "warpmill.workers_token_file",
                self.token_file.clone(),
                "File with the secret token that this process and all workers share",
            ),
        ];
        let entry = |(key, value, description): (&str, String, &'static str)| ConfigEntry {
            key: key.to_string(),
            value: Some(value),
            description,
        };
        entries.into_iter().map(entry).collect()
    }
}

/// The addresses of a list, without duplicates.
fn addresses(list: &str) -> Result<Vec<String>> {
    let mut found: Vec<String> = vec![];
    for address in list.split(',').map(str::trim).filter(|address| !address.is_empty()) {
        check(address)?;
        if found.iter().any(|other| other == address) {
            return Err(DataFusionError::Configuration(format!("warpmill.workers names {address} twice")));
        }
        found.push(address.to_string());
    }
    Ok(found)
}

/// Whether `address` is a host and a port, `name:31338` or `[::1]:31338`.
fn check(address: &str) -> Result<()> {
    let refuse = || Err(expects("workers", "addresses such as 10.0.0.7:31338, with commas between them", address));
    let Some((host, port)) = address.rsplit_once(':') else { return refuse() };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let inside = if bracketed { &host[1..host.len() - 1] } else { host };
    let fits = match bracketed {
        true => inside.parse::<std::net::Ipv6Addr>().is_ok(),
        false => !inside.is_empty() && inside.chars().all(plain),
    };
    match fits && port.parse::<u16>().is_ok_and(|port| port > 0) {
        true => Ok(()),
        false => refuse(),
    }
}

fn expects(key: &str, what: &str, value: &str) -> DataFusionError {
    DataFusionError::Configuration(format!("warpmill.{key} expects {what}, not '{value}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        let list = "a:1, 10.0.0.7:31338,[::1]:9 ,";
        assert_eq!(addresses(list).unwrap(), ["a:1", "10.0.0.7:31338", "[::1]:9"]);
        assert_eq!(addresses(" ").unwrap(), Vec::<String>::new());
        for bad in ["a", "a:", ":1", "a:0", "a:70000", "a:1:2", "::1:9", "[x]:1", "a b:1", "http://a:1", "a:1,a:1"] {
            let message = addresses(bad).unwrap_err().to_string();
            assert!(message.contains("warpmill.workers"), "{bad}: {message}");
        }
    }
}
