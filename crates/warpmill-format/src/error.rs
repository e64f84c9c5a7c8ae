//! The errors of the format layer. Each names the file, column or line at fault.

use std::path::{Path, PathBuf};

/// Everything that can go wrong while reading, writing or ingesting a table.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// An operating-system error on a file.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// The action that failed, e.g. `cannot read`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file is not what its checksum, header or manifest says.
    #[error("corrupt file {}{}: {detail}", path.display(), segment.as_ref().map(|s| format!(" ({s})")).unwrap_or_default())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// `column "c", segment n`, where known.
        segment: Option<String>,
        /// The mistake.
        detail: String,
    },
    /// A value of the input cannot be stored.
    #[error("{source_name}{}: {detail}", location.as_ref().map(|l| format!(" {l}")).unwrap_or_default())]
    Input {
        /// The file or source.
        source_name: String,
        /// `line 17, column "price"` or `row group 3, column "price"`, where known.
        location: Option<String>,
        /// The mistake.
        detail: String,
    },
    /// The table, column or version does not exist, or exists already.
    #[error("{0}")]
    Catalog(String),
    /// Another writer, of this or another process, is at work on the table.
    #[error("table {table} is being written by another writer")]
    Locked {
        /// The table's directory, or what a table in memory is called.
        table: String,
    },
    /// Since a statement looked at it, the table was dropped, made or replaced by another one of its name: what was to be written does not
    /// belong there any more.
    #[error("table {table} was dropped, made or replaced meanwhile")]
    Replaced {
        /// The table's directory, or what a table in memory is called.
        table: String,
    },
    /// Another writer has committed to the table since the transaction that writes it now began.
    #[error("table {table} was changed by another writer since the transaction began: ROLLBACK, and try again")]
    Changed {
        /// The table's directory, or what a table in memory is called.
        table: String,
    },
    /// The transaction that a statement belonged to has ended meanwhile.
    #[error("the transaction has ended")]
    Ended,
    /// The writer was told not to commit.
    #[error("cancelled before it was committed")]
    Cancelled,
    /// The schema does not fit the table or a type is not supported.
    #[error("column {column:?}: {detail}")]
    Schema {
        /// The column.
        column: String,
        /// The mistake.
        detail: String,
    },
    /// A NULL in a column that is NOT NULL.
    #[error("NOT NULL constraint failed: {column}")]
    NotNull {
        /// The column, with its table where that is known.
        column: String,
    },
    /// Rows that a constraint of their table forbids.
    #[error("{0}")]
    Constraint(String),
    /// More memory than was allowed.
    #[error("{0}")]
    Memory(String),
    /// A codec that does not exist or that this build does not have, or that failed on sound input.
    #[error("codec {codec}: {detail}")]
    Codec {
        /// The codec.
        codec: String,
        /// The mistake, and the remedy.
        detail: String,
    },
    /// An error of the Arrow libraries that has no better place.
    #[error("{0}")]
    Arrow(#[from] arrow::error::ArrowError),
}

impl FormatError {
    /// An operating-system error while doing `action` on `path`; for use in `map_err`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// A file that is not what it should be.
    pub(crate) fn corrupt(path: &Path, detail: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_owned(), segment: None, detail: detail.into() }
    }

    /// The error with the name of the table whose column it is about.
    pub fn of_table(self, table: &str) -> Self {
        match self {
            Self::NotNull { column } if !table.is_empty() => Self::NotNull { column: format!("{table}.{column}") },
            error => error,
        }
    }

    /// A column that does not fit.
    pub(crate) fn schema(column: &str, detail: impl Into<String>) -> Self {
        Self::Schema { column: column.to_owned(), detail: detail.into() }
    }
}

/// The result of a format operation.
pub type Result<T, E = FormatError> = std::result::Result<T, E>;
