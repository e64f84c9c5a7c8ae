//! The mistakes of plans.

use std::fmt;

use datafusion::common::DataFusionError;

/// The reason why a Substrait plan cannot be run, or made.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SubstraitError {
    /// The bytes or the text are not a plan.
    #[error("not a Substrait plan: {0}")]
    Decode(String),
    /// The plan contradicts itself or the specification: a field that does not exist, a missing part, a bad literal.
    #[error("invalid Substrait plan: {0}")]
    Invalid(String),
    /// A relation, an expression, a type or an option that is not supported.
    #[error("Substrait {0} is not supported")]
    Unsupported(String),
    /// A function that is not supported.
    #[error("Substrait {0} is not supported")]
    UnknownFunction(Box<FunctionName>),
    /// A table or file of the plan does not exist, or has other columns.
    #[error("{0}")]
    Table(String),
    /// Planning or execution failed.
    #[error(transparent)]
    Session(#[from] warpmill::Error),
}

/// A function as a plan declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionName {
    /// `scalar`, `aggregate` or `window`.
    pub kind: &'static str,
    /// The name with its signature where the plan has one: `add:i64_i64`.
    pub name: String,
    /// The number by which expressions refer to it.
    pub anchor: u32,
    /// The URN of the extension that defines it.
    pub urn: Option<String>,
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} function '{}' (anchor {}", self.kind, self.name, self.anchor)?;
        match &self.urn {
            Some(urn) => write!(f, ", extension '{urn}')"),
            None => write!(f, ", no extension)"),
        }
    }
}

/// The result of an operation on plans.
pub type Result<T, E = SubstraitError> = std::result::Result<T, E>;

impl From<DataFusionError> for SubstraitError {
    fn from(error: DataFusionError) -> Self {
        Self::Session(error.into())
    }
}

impl From<SubstraitError> for warpmill::Error {
    fn from(error: SubstraitError) -> Self {
        let message = error.to_string();
        match error {
            SubstraitError::Decode(_) => Self::Parse(message),
            SubstraitError::Invalid(_) => Self::Plan(message),
            SubstraitError::Unsupported(_) | SubstraitError::UnknownFunction(_) => Self::NotImplemented(message),
            SubstraitError::Table(_) => Self::Catalog(message),
            SubstraitError::Session(error) => error,
        }
    }
}

pub(crate) fn invalid<T>(what: impl Into<String>) -> Result<T> {
    Err(SubstraitError::Invalid(what.into()))
}

pub(crate) fn unsupported<T>(what: impl Into<String>) -> Result<T> {
    Err(SubstraitError::Unsupported(what.into()))
}

/// A part that the specification requires.
pub(crate) fn required<T>(part: Option<T>, what: &str) -> Result<T> {
    part.ok_or_else(|| SubstraitError::Invalid(format!("{what} is missing")))
}
