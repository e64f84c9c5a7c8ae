//! The errors of a session.

use std::sync::Arc;

use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::sqlparser::parser::ParserError;
use warpmill_engine::{EngineError, ExecError};
use warpmill_format::FormatError;

use crate::offload::Fallback;
use crate::remote::RemoteError;
use crate::udf::Misfit;

/// The reason why a statement failed. Nothing of a failed statement is visible.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The text is not SQL.
    #[error("{0}")]
    Parse(String),
    /// A name, a type or a parameter in the text does not fit.
    #[error("{0}")]
    Plan(String),
    /// A table does not exist, or exists already.
    #[error("{0}")]
    Catalog(String),
    /// The rows of a statement violate a constraint of their table: NOT NULL, a key, CHECK.
    #[error("{0}")]
    Constraint(String),
    /// A setting is unknown or its value is not valid.
    #[error("{0}")]
    Setting(String),
    /// An operator is not run by Warpmill, and `warpmill.fallback` is `error`.
    #[error("Warpmill does not run {0} (warpmill.fallback is 'error')")]
    Fallback(Fallback),
    /// Neither Warpmill nor DataFusion has this feature.
    #[error("{0}")]
    NotImplemented(String),
    /// The query needs more memory than `warpmill.memory_limit`.
    #[error("{0}")]
    OutOfMemory(String),
    /// A statement exceeds the limits on depth or size (docs/limits.md).
    #[error("{0}")]
    Limit(String),
    /// The query was cancelled.
    #[error("query cancelled")]
    Cancelled,
    /// A stored table could not be read or written.
    #[error(transparent)]
    Format(Arc<FormatError>),
    /// The operating system refused a file operation.
    #[error("{0}")]
    Io(String),
    /// A file in an object store or on a web server could not be read.
    #[error(transparent)]
    Remote(Arc<RemoteError>),
    /// A worker does not answer, has stopped answering, or does not belong to the session.
    #[error("worker {worker}: {reason}")]
    Worker {
        /// Its address.
        worker: String,
        /// The reason.
        reason: String,
    },
    /// The query failed while it ran: overflow, division by zero, an impossible cast, a broken input file.
    #[error("{0}")]
    Execution(String),
    /// A bug in Warpmill, DataFusion or Arrow: a panic, or an invalid state.
    #[error("internal error: {0}")]
    Internal(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// The result of a session's operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<FormatError> for Error {
    fn from(error: FormatError) -> Self {
        if let FormatError::Io { source, .. } = &error
            && let Some(remote) = source.get_ref().and_then(|source| RemoteError::find(source))
        {
            return remote.clone().into();
        }
        match error {
            FormatError::Io { ref source, .. } if source.kind() == std::io::ErrorKind::OutOfMemory => {
                Error::OutOfMemory(error.to_string())
            }
            FormatError::Catalog(message) => Error::Catalog(message),
            FormatError::Cancelled => Error::Cancelled,
            FormatError::NotNull { .. } | FormatError::Constraint(_) => Error::Constraint(error.to_string()),
            FormatError::Memory(text) => Error::OutOfMemory(text),
            error => Error::Format(Arc::new(error)),
        }
    }
}

impl From<RemoteError> for Error {
    fn from(error: RemoteError) -> Self {
        match error.reason {
            crate::remote::RemoteReason::Cancelled => Error::Cancelled,
            _ => Error::Remote(Arc::new(error)),
        }
    }
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Exec(ExecError::Cancelled) => Error::Cancelled,
            EngineError::Exec(ExecError::Format(error)) => error.into(),
            EngineError::Exec(error @ (ExecError::OutOfMemory { .. } | ExecError::SpillLimit { .. })) => {
                Error::OutOfMemory(error.to_string())
            }
            error => Error::Execution(error.to_string()),
        }
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        Self::of(&error)
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        Self::of(&DataFusionError::from(error))
    }
}

impl Error {
    /// Whether a table was dropped, created or replaced by another statement since this one was planned: planning it again resolves the current
    /// tables.
    pub fn is_outdated(&self) -> bool {
        matches!(self, Error::Format(error) if matches!(**error, FormatError::Replaced { .. }))
    }

    /// The error that `error` is at its root. Our own errors pass DataFusion unchanged.
    fn of(error: &DataFusionError) -> Self {
        let message = || error.strip_backtrace();
        if let Some(remote) = RemoteError::find(error) {
            return remote.clone().into();
        }
        match error {
            DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => Self::of(inner),
            DataFusionError::Shared(inner) => Self::of(inner),
            DataFusionError::Collection(list) => list.first().map_or_else(|| Error::Other(message()), Self::of),
            DataFusionError::External(inner) => Self::of_external(inner.as_ref()),
            DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
                arrow::error::ArrowError::ExternalError(inner) => Self::of_external(inner.as_ref()),
                inner => Error::Execution(inner.to_string()),
            },
            DataFusionError::SQL(inner, _) => match inner.as_ref() {
                ParserError::TokenizerError(text) | ParserError::ParserError(text) => Error::Parse(text.clone()),
                ParserError::RecursionLimitExceeded => Error::Limit("the statement is nested too deeply".into()),
            },
            DataFusionError::SchemaError(inner, _) => Self::of_schema(inner),
            DataFusionError::Plan(text) if is_about_tables(text) => Error::Catalog(text.clone()),
            DataFusionError::Execution(text) if is_about_tables(text) => Error::Catalog(text.clone()),
            DataFusionError::Plan(text) => Error::Plan(no_match(text).unwrap_or_else(|| with_good_suggestion(text))),
            DataFusionError::Configuration(text) => Error::Setting(text.clone()),
            DataFusionError::NotImplemented(text) => Error::NotImplemented(text.clone()),
            DataFusionError::ResourcesExhausted(text) => Error::OutOfMemory(text.clone()),
            DataFusionError::IoError(inner) => Error::Io(inner.to_string()),
            DataFusionError::ObjectStore(inner) => Error::Io(inner.to_string()),
            DataFusionError::Execution(text) => Error::Execution(text.clone()),
            // DataFusion's Arrow reader reports malformed files as internal errors.
            DataFusionError::Internal(text) if text.starts_with("Failed to parse Arrow file") => {
                Error::Io(text.clone())
            }
            DataFusionError::Internal(text) => Error::Internal(text.clone()),
            DataFusionError::ExecutionJoin(inner) if inner.is_panic() => Error::Internal(inner.to_string()),
            DataFusionError::ParquetError(inner) => Error::Execution(inner.to_string()),
            _ => Error::Other(message()),
        }
    }

    fn of_external(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Self {
        match (error.downcast_ref::<Error>(), error.downcast_ref::<DataFusionError>()) {
            (Some(error), _) => error.clone(),
            _ if error.is::<Misfit>() => Error::Plan(error.to_string()),
            (_, Some(error)) => Self::of(error),
            _ => Error::Execution(error.to_string()),
        }
    }

    fn of_schema(error: &SchemaError) -> Self {
        Error::Plan(with_good_suggestion(&error.to_string()))
    }
}

/// The error of a function without an overload for its argument types; DataFusion lists each overload.
fn no_match(text: &str) -> Option<String> {
    let (name, rest) =
        text.strip_prefix("Internal error: Function '")?.split_once("' failed to match any signature")?;
    let (_, received) = rest.split_once("but received ")?;
    let received = received.split([' ', ',']).next()?;
    Some(format!("No function matches {name}({received})"))
}

/// A text without a name that it suggests, if that is not nearly the name that is missing.
fn with_good_suggestion(text: &str) -> String {
    let Some((before, rest)) = text.split_once("Did you mean '") else { return text.to_string() };
    let Some((suggested, after)) = rest.split_once("'?") else { return text.to_string() };
    let missing = match before.split_once('\'').and_then(|(_, rest)| rest.split_once('\'')) {
        Some((name, _)) => name,
        None => before.trim_start_matches("No field named ").trim_end().trim_end_matches('.'),
    };
    let plain = |name: &str| name.rsplit('.').next().unwrap_or(name).trim_matches('"').to_lowercase();
    let (missing, likely) = (plain(missing), plain(suggested));
    match is_near(&missing, &likely) {
        true => text.to_string(),
        false => format!("{}{after}", before.trim_end()),
    }
}

/// Whether `likely` may be meant by `missing`: few letters differ, or one is a prefix of the other.
pub(crate) fn is_near(missing: &str, likely: &str) -> bool {
    let letters = missing.chars().count();
    let begins =
        letters.min(likely.chars().count()) > 2 && (likely.starts_with(missing) || missing.starts_with(likely));
    begins || edits(missing, likely) <= (letters / 3).max(1)
}

/// The edit distance of `a` and `b`: insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
pub(crate) fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let (mut before, mut last): (Vec<usize>, Vec<usize>) = (vec![], (0..=b.len()).collect());
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            let exchanged = if exchanged { before[j - 2] + 1 } else { usize::MAX };
            row.push((row[j - 1] + 1).min(last[j] + 1).min(replaced).min(exchanged));
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// DataFusion has no error variant for tables that are missing or exist already.
fn is_about_tables(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    (text.contains("table '") || text.starts_with("table ") || text.starts_with("view "))
        && (text.contains("not found") || text.contains("doesn't exist") || text.contains("already exists"))
}
