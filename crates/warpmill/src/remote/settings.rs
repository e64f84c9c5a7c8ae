//! The settings of object stores and web servers.

use std::fmt;
use std::time::Duration;

use datafusion::common::config::ConfigEntry;
use datafusion::common::{DataFusionError, Result};

/// The text shown in place of a secret.
const HIDDEN: &str = "***";

/// A text that is not shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether it is not set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn shown(&self) -> String {
        if self.is_empty() { String::new() } else { HIDDEN.to_string() }
    }

    /// Sets the secret. The placeholder is ignored, so that copied settings keep it.
    fn set(&mut self, value: &str) {
        if value != HIDDEN {
            self.0 = value.to_string();
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

/// The form of bucket names in request URLs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UrlStyle {
    /// In the host name at AWS, in the path elsewhere.
    #[default]
    Auto,
    /// `https://host/bucket/path`.
    Path,
    /// `https://bucket.host/path`.
    VirtualHost,
}

const URL_STYLES: [(&str, UrlStyle); 3] =
    [("auto", UrlStyle::Auto), ("path", UrlStyle::Path), ("vhost", UrlStyle::VirtualHost)];

/// The access to objects. Empty settings are taken from the environment (`AWS_ACCESS_KEY_ID` and so on).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteOptions {
    /// Host and port, or a URL, of a store that is not AWS.
    pub s3_endpoint: String,
    /// The buckets' region.
    pub s3_region: String,
    /// The name of the key.
    pub s3_access_key_id: String,
    /// The key.
    pub s3_secret_access_key: Secret,
    /// The token of a key that is valid for a while.
    pub s3_session_token: Secret,
    /// The form of bucket names in request URLs.
    pub s3_url_style: UrlStyle,
    /// Whether an endpoint that is no URL is spoken to by TLS.
    pub s3_use_ssl: bool,
    /// Whether requests are not signed: for public buckets.
    pub s3_skip_signature: bool,
    /// Whether `http://` is read.
    pub allow_http: bool,
    /// The time that a request may take.
    pub http_timeout: Duration,
    /// The number of repetitions of a request that failed.
    pub http_retries: usize,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            s3_endpoint: String::new(),
            s3_region: String::new(),
            s3_access_key_id: String::new(),
            s3_secret_access_key: Secret::default(),
            s3_session_token: Secret::default(),
            s3_url_style: UrlStyle::Auto,
            s3_use_ssl: true,
            s3_skip_signature: false,
            allow_http: false,
            http_timeout: Duration::from_secs(30),
            http_retries: 3,
        }
    }
}

impl RemoteOptions {
    /// Sets `warpmill.KEY`; `None` for keys of other groups.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Option<Result<()>> {
        let value = value.trim();
        let text = value.to_ascii_lowercase();
        match key {
            "s3_endpoint" => self.s3_endpoint = value.to_string(),
            "s3_region" => self.s3_region = value.to_string(),
            "s3_access_key_id" => self.s3_access_key_id = value.to_string(),
            "s3_secret_access_key" => self.s3_secret_access_key.set(value),
            "s3_session_token" => self.s3_session_token.set(value),
            "s3_url_style" => match URL_STYLES.iter().find(|(name, _)| *name == text) {
                Some((_, style)) => self.s3_url_style = *style,
                None => return Some(Err(expects(key, "auto, path or vhost"))),
            },
            "s3_use_ssl" | "s3_skip_signature" | "allow_http" => {
                let on = match &text[..] {
                    "on" | "true" | "1" => true,
                    "off" | "false" | "0" => false,
                    _ => return Some(Err(expects(key, "on or off"))),
                };
                match key {
                    "s3_use_ssl" => self.s3_use_ssl = on,
                    "s3_skip_signature" => self.s3_skip_signature = on,
                    _ => self.allow_http = on,
                }
            }
            "http_timeout" => match text.parse::<f64>() {
                Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => {
                    self.http_timeout = Duration::from_secs_f64(seconds);
                }
                _ => return Some(Err(expects(key, "seconds, such as 30"))),
            },
            "http_retries" => match text.parse() {
                Ok(retries @ 0..=100) => self.http_retries = retries,
                _ => return Some(Err(expects(key, "a number up to 100"))),
            },
            _ => return None,
        }
        Some(Ok(()))
    }

    /// The settings in their displayed form.
    pub(crate) fn entries(&self) -> Vec<ConfigEntry> {
        let switch = |on: bool| if on { "on" } else { "off" }.to_string();
        let style = URL_STYLES.iter().find(|(_, style)| *style == self.s3_url_style).map_or("", |(name, _)| name);
        let entries = [
            ("warpmill.allow_http", switch(self.allow_http), "Read http:// URLs: connections without TLS"),
            ("warpmill.http_retries", self.http_retries.to_string(), "Number of retries of a failed request"),
            (
                "warpmill.http_timeout",
                self.http_timeout.as_secs_f64().to_string(),
                "Seconds that a request to an object store or a web server may take",
            ),
            ("warpmill.s3_access_key_id", self.s3_access_key_id.clone(), "Access key id for s3:// URLs"),
            ("warpmill.s3_endpoint", self.s3_endpoint.clone(), "Host and port, or URL, of a store that is not AWS"),
            ("warpmill.s3_region", self.s3_region.clone(), "Region of the buckets"),
            (
                "warpmill.s3_secret_access_key",
                self.s3_secret_access_key.shown(),
                "Secret access key for s3:// URLs (never shown)",
            ),
            (
                "warpmill.s3_session_token",
                self.s3_session_token.shown(),
                "Session token of temporary credentials (never shown)",
            ),
            (
                "warpmill.s3_skip_signature",
                switch(self.s3_skip_signature),
                "Send requests without a signature, for public buckets",
            ),
            (
                "warpmill.s3_url_style",
                style.to_string(),
                "Where requests name the bucket: path, vhost (in the host name) or auto",
            ),
            ("warpmill.s3_use_ssl", switch(self.s3_use_ssl), "Whether to connect to warpmill.s3_endpoint by TLS"),
        ];
        let entry = |(key, value, description): (&str, String, &'static str)| ConfigEntry {
            key: key.to_string(),
            value: Some(value),
            description,
        };
        entries.into_iter().map(entry).collect()
    }
}

fn expects(key: &str, what: &str) -> DataFusionError {
    DataFusionError::Configuration(format!("warpmill.{key} expects {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let mut options = RemoteOptions::default();
        for key in ["s3_secret_access_key", "s3_session_token"] {
            options.set(key, "hush-hush").unwrap().unwrap();
        }
        let shown = options.entries().into_iter().filter_map(|entry| entry.value).collect::<Vec<_>>().join(" ");
        for text in [format!("{options:?}"), shown] {
            assert!(!text.contains("hush") && text.contains(HIDDEN), "{text}");
        }
        assert_eq!(options.s3_secret_access_key.reveal(), "hush-hush");
        for entry in options.clone().entries() {
            let key = entry.key.strip_prefix("warpmill.").unwrap();
            options.set(key, &entry.value.unwrap()).unwrap().unwrap();
        }
        assert_eq!(options.s3_secret_access_key.reveal(), "hush-hush");
    }

    #[test]
    fn bad_values_name_the_setting() {
        let mut options = RemoteOptions::default();
        for (key, value) in [
            ("s3_url_style", "flat"),
            ("s3_use_ssl", "perhaps"),
            ("http_timeout", "soon"),
            ("http_retries", "-1"),
            ("allow_http", "2"),
        ] {
            let message = options.set(key, value).unwrap().unwrap_err().to_string();
            assert!(message.contains(&format!("warpmill.{key}")), "{message}");
        }
        assert!(options.set("threads", "1").is_none());
    }
}
