//! Options of a session, as named by Flight's SetSessionOptions: the engine's settings, and two limits of this server.

use std::collections::BTreeMap;
use std::time::Duration;

use super::ClientSession;
use crate::config::Limits;
use crate::statement::{Policy, check_setting, full_name};

/// Seconds that a statement of the session may run.
const QUERY_TIMEOUT: &str = "query_timeout";
/// Bytes of rows that a statement of the session may return.
const MAX_RESULT_BYTES: &str = "max_result_bytes";
/// Options that clients may set to a single value only.
const PLACES: [(&str, &str); 2] = [("catalog", "datafusion"), ("schema", "public")];

/// The value of an option.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OptionValue {
    Text(String),
    Flag(bool),
    Integer(i64),
    Real(f64),
    List(Vec<String>),
}

/// The reason why an option was not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionError {
    Name,
    Value,
}

/// The settings of a session, and its limits.
#[derive(Debug, Clone)]
pub(crate) struct SessionOptions {
    /// Time limit of a statement.
    pub query_time: Duration,
    /// Size limit of a result, in bytes; 0: unlimited.
    pub result_bytes: u64,
    set: BTreeMap<String, OptionValue>,
}

impl SessionOptions {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { query_time: limits.query_time(), result_bytes: limits.result_bytes, set: BTreeMap::new() }
    }

    /// The options set so far, and the limits.
    pub(crate) fn all(&self) -> BTreeMap<String, OptionValue> {
        let mut all = self.set.clone();
        all.insert(QUERY_TIMEOUT.into(), OptionValue::Real(self.query_time.as_secs_f64()));
        all.insert(MAX_RESULT_BYTES.into(), OptionValue::Integer(self.result_bytes.min(i64::MAX as u64) as i64));
        all.extend(PLACES.map(|(name, value)| (name.to_string(), OptionValue::Text(value.into()))));
        all
    }
}

impl ClientSession {
    /// Sets an option; `None` resets it.
    pub(crate) fn set_option(
        &self,
        name: &str,
        value: Option<OptionValue>,
        policy: &Policy,
    ) -> Result<(), OptionError> {
        let mut options = self.options.lock();
        match name {
            QUERY_TIMEOUT => {
                let most = policy.limits.query_time();
                options.query_time = match value.map(|value| value.number()) {
                    None => most,
                    Some(seconds) => seconds
                        .filter(|seconds| (0.001..=most.as_secs_f64()).contains(seconds))
                        .map(Duration::from_secs_f64)
                        .ok_or(OptionError::Value)?,
                };
            }
            MAX_RESULT_BYTES => {
                let most = policy.limits.result_bytes;
                options.result_bytes = match value.map(|value| value.number()) {
                    None => most,
                    Some(bytes) => bytes
                        .filter(|&bytes| bytes >= 1.0 && (most == 0 || bytes <= most as f64))
                        .map(|bytes| bytes as u64)
                        .ok_or(OptionError::Value)?,
                };
            }
            name => {
                if let Some((_, is)) = PLACES.iter().find(|(place, _)| *place == name) {
                    let fits = value.is_none_or(|value| value == OptionValue::Text((*is).into()));
                    return if fits { Ok(()) } else { Err(OptionError::Value) };
                }
                let setting = full_name(name);
                let known = self.engine.settings().into_iter().any(|(known, _)| known == setting);
                let text = value.as_ref().ok_or(OptionError::Value)?.text().ok_or(OptionError::Value)?;
                if !known {
                    return Err(OptionError::Name);
                }
                check_setting(&setting, &text, policy).map_err(|_| OptionError::Value)?;
                self.engine.set(&setting, &text).map_err(|_| OptionError::Value)?;
                options.set.extend(value.map(|value| (name.to_string(), value)));
            }
        }
        Ok(())
    }
}

impl OptionValue {
    fn number(&self) -> Option<f64> {
        match self {
            OptionValue::Integer(number) => Some(*number as f64),
            OptionValue::Real(number) => Some(*number),
            OptionValue::Text(text) => text.parse().ok(),
            OptionValue::Flag(_) | OptionValue::List(_) => None,
        }
    }

    fn text(&self) -> Option<String> {
        match self {
            OptionValue::Text(text) => Some(text.clone()),
            OptionValue::Flag(flag) => Some(flag.to_string()),
            OptionValue::Integer(number) => Some(number.to_string()),
            OptionValue::Real(number) => Some(number.to_string()),
            OptionValue::List(_) => None,
        }
    }
}
