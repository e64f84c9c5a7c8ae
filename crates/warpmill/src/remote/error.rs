//! The reason why an object could not be read.

use std::error::Error as StdError;

use object_store::Error as StoreError;

/// A file in an object store or on a web server that could not be read. Contains no credentials, and of the server's answer only status and code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{url}: {reason}")]
pub struct RemoteError {
    /// The requested URL: `s3://bucket/path` or `https://host/path`, without a query.
    pub url: String,
    /// The reason.
    pub reason: RemoteReason,
}

/// The reason of a failure, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteReason {
    /// No object has this name.
    #[error(
        "there is no such object (404 Not Found): check the path, and warpmill.s3_endpoint where the store is not AWS"
    )]
    NotFound,
    /// A pattern or a folder with nothing in it.
    #[error("no object matches")]
    Nothing,
    /// The store refused the credentials, or access with them.
    #[error(
        "access was denied ({status}{}): check warpmill.s3_access_key_id, s3_secret_access_key and s3_session_token, or the \
         variables AWS_ACCESS_KEY_ID and so on; a public bucket is read with warpmill.s3_skip_signature = 'on'",
        shown(code)
    )]
    Denied {
        /// 401 or 403.
        status: u16,
        /// The store's code.
        code: Option<String>,
    },
    /// There are no credentials.
    #[error(
        "no credentials were found: set warpmill.s3_access_key_id and s3_secret_access_key, or the variables AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY; a public bucket is read with warpmill.s3_skip_signature = 'on'"
    )]
    NoCredentials,
    /// An unexpected status.
    #[error("the server answered {status}{}{}: {}", shown(code), after(*retries), advice(*status))]
    Status {
        /// The answer's status.
        status: u16,
        /// The store's code.
        code: Option<String>,
        /// The number of repetitions of the request.
        retries: u32,
    },
    /// The object has changed since the query was planned.
    #[error("the object was changed while a query read it: run the query again")]
    Changed,
    /// The server gives whole files only.
    #[error(
        "the server does not answer requests for parts of a file (Range): copy the file to a disk, and read it there"
    )]
    NoRanges,
    /// An answer ended before its end.
    #[error("the answer ended after {found} of {expected} bytes: try again, or raise warpmill.http_retries")]
    Truncated {
        /// Bytes received.
        found: u64,
        /// Bytes that were announced.
        expected: u64,
    },
    /// No answer in time.
    #[error("no answer within warpmill.http_timeout{}: try again, or raise it", after(*retries))]
    Timeout {
        /// The number of repetitions of the request.
        retries: u32,
    },
    /// The connection was not made, or broke.
    #[error("the connection failed{}: {detail}", after(*retries))]
    Connection {
        /// The system's message.
        detail: String,
        /// The number of repetitions of the request.
        retries: u32,
    },
    /// A web server cannot list its files.
    #[error("a web server does not say which files it has: name each file, or use an object store (s3://)")]
    NoListing,
    /// A connection without TLS.
    #[error("connections without TLS are not allowed: SET warpmill.allow_http = 'on' allows them")]
    NoTls,
    /// The session may not read files.
    #[error("this session may not read files")]
    Forbidden,
    /// The URL is malformed, or has unsupported parts.
    #[error("{0}")]
    BadUrl(String),
    /// Settings that do not fit each other.
    #[error("{0}")]
    Settings(String),
    /// The query was cancelled.
    #[error("the query was cancelled")]
    Cancelled,
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

fn shown(code: &Option<String>) -> String {
    code.as_ref().map_or_else(String::new, |code| format!(", {code}"))
}

fn after(retries: u32) -> String {
    match retries {
        0 => String::new(),
        1 => " (repeated once)".into(),
        retries => format!(" (repeated {retries} times)"),
    }
}

fn advice(status: u16) -> &'static str {
    match status {
        301 | 307 | 308 => "check warpmill.s3_region and warpmill.s3_endpoint",
        429 | 500.. => "try again later, or raise warpmill.http_retries",
        _ => "check the URL and warpmill.s3_endpoint",
    }
}

impl RemoteError {
    /// The error for `url` with this reason.
    pub fn new(url: impl Into<String>, reason: RemoteReason) -> Self {
        Self { url: url.into(), reason }
    }

    /// The remote error in the source chain of `error`.
    pub fn find<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Self> {
        let mut error = Some(error);
        while let Some(current) = error {
            if let Some(found) = current.downcast_ref::<Self>() {
                return Some(found);
            }
            error = current.source();
        }
        None
    }

    /// Converts an `error` of a store for `url`.
    pub(super) fn of(url: String, error: &StoreError) -> Self {
        if let Some(found) = Self::find(error) {
            return found.clone();
        }
        let text = chain(error);
        let (code, retries) = (code(&text), retries(&text));
        let reason = match (error, status(&text)) {
            (StoreError::NotFound { .. }, _) | (_, Some(404)) => RemoteReason::NotFound,
            (StoreError::Precondition { .. }, _) | (_, Some(412)) => RemoteReason::Changed,
            (_, _) if text.contains("/latest/meta-data") || text.contains("/latest/api/token") => {
                RemoteReason::NoCredentials
            }
            (StoreError::PermissionDenied { .. }, status) => {
                RemoteReason::Denied { status: status.unwrap_or(403), code }
            }
            (StoreError::Unauthenticated { .. }, status) => {
                RemoteReason::Denied { status: status.unwrap_or(401), code }
            }
            (_, Some(status @ (401 | 403))) => RemoteReason::Denied { status, code },
            (_, Some(status)) => RemoteReason::Status { status, code, retries },
            (StoreError::NotSupported { .. }, _) => RemoteReason::NoRanges,
            _ if text.contains("non-partial response") => RemoteReason::NoRanges,
            _ if text.contains("without LOCATION") => RemoteReason::Status { status: 301, code, retries },
            _ if text.contains("timed out") => RemoteReason::Timeout { retries },
            _ if text.contains("URL scheme is not allowed") => RemoteReason::NoTls,
            _ => RemoteReason::Connection { detail: innermost(error), retries },
        };
        Self { url, reason }
    }
}

impl From<RemoteError> for StoreError {
    fn from(error: RemoteError) -> Self {
        match error.reason {
            RemoteReason::NotFound => StoreError::NotFound { path: error.url.clone(), source: Box::new(error) },
            _ => StoreError::Generic { store: "remote", source: Box::new(error) },
        }
    }
}

/// The texts of an error and of its sources.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push('\n');
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

/// The text of the innermost source of an error. Outer texts may contain a server's answer, which repeats the request.
fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    let text = error.to_string();
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}

/// The HTTP status in an error's text: the client exposes it only there.
fn status(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("non-2xx status code: ")?;
    rest.get(..3)?.parse().ok()
}

/// The number of its repetitions of the request.
fn retries(text: &str) -> u32 {
    let number = text.split_once(", after ").and_then(|(_, rest)| rest.split_once(" retries"));
    number.and_then(|(number, _)| number.parse().ok()).unwrap_or(0)
}

/// The code in an answer of S3's.
fn code(text: &str) -> Option<String> {
    let (code, _) = text.split_once("<Code>")?.1.split_once("</Code>")?;
    let plain = code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain.then(|| code.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_without_what_they_repeat() {
        let answer = "Error performing GET http://h/b/k in 1ms, after 3 retries, max_retries: 3, retry_timeout: 60s  - Server returned \
                      non-2xx status code: 503 Service Unavailable: <Error><Code>SlowDown</Code><CanonicalRequest>token\
                      </CanonicalRequest></Error>";
        let error = StoreError::Generic { store: "S3", source: answer.into() };
        let found = RemoteError::of("s3://b/k".into(), &error);
        let reason = RemoteReason::Status { status: 503, code: Some("SlowDown".into()), retries: 3 };
        assert_eq!(found, RemoteError::new("s3://b/k", reason));
        let text = found.to_string();
        assert!(text.contains("503, SlowDown (repeated 3 times)") && text.contains("http_retries"), "{text}");
        assert!(!text.contains("token"), "{text}");
    }

    #[test]
    fn errors_are_found_below_others() {
        let error = RemoteError::new("https://h/x", RemoteReason::Changed);
        let store = StoreError::from(error.clone());
        assert_eq!(RemoteError::find(&store), Some(&error));
        let parquet = parquet::errors::ParquetError::External(Box::new(StoreError::from(error.clone())));
        assert_eq!(RemoteError::find(&parquet), Some(&error));
        let io = std::io::Error::other(StoreError::from(error.clone()));
        assert_eq!(RemoteError::find(&io), Some(&error));
        assert_eq!(RemoteError::of("https://h/x".into(), &store), error);
    }

    #[test]
    fn refusals_say_what_to_do() {
        let source = "Server returned non-2xx status code: 403 Forbidden: <Code>SignatureDoesNotMatch</Code>";
        let error = StoreError::PermissionDenied { path: "k".into(), source: source.into() };
        let text = RemoteError::of("s3://b/k".into(), &error).to_string();
        assert!(text.contains("403, SignatureDoesNotMatch") && text.contains("s3_access_key_id"), "{text}");
        let error = StoreError::Generic { store: "S3", source: "Received non-partial response when range".into() };
        assert_eq!(RemoteError::of("s3://b/k".into(), &error).reason, RemoteReason::NoRanges);
    }
}
