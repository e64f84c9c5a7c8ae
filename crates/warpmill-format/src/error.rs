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
    /// A file contradicts its checksum, header or manifest.
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
    /// Another writer, of this or another process, has locked the table.
    #[error("table {table} is being written by another writer")]
    Locked {
        /// The table's directory, or the name of a table in memory.
        table: String,
    },
    /// The table was dropped, created or replaced by another one of its name since the statement read it: the rows to write do not belong to it any
    /// more.
    #[error("table {table} was dropped, made or replaced meanwhile")]
    Replaced {
        /// The table's directory, or the name of a table in memory.
        table: String,
    },
    /// Another writer has committed to the table since the writing transaction began.
    #[error("table {table} was changed by another writer since the transaction began: ROLLBACK, and try again")]
    Changed {
        /// The table's directory, or the name of a table in memory.
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
        /// The column, with its table if known.
        column: String,
    },
    /// Rows that a constraint of their table forbids.
    #[error("{0}")]
    Constraint(String),
    /// The memory limit was exceeded.
    #[error("{0}")]
    Memory(String),
    /// A codec that is unknown or missing in this build, or that failed on valid input.
    #[error("codec {codec}: {detail}")]
    Codec {
        /// The codec.
        codec: String,
        /// The mistake, and how to correct it.
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

    /// An error for an invalid file.
    pub(crate) fn corrupt(path: &Path, detail: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_owned(), segment: None, detail: detail.into() }
    }

    /// Adds the table's name to an error about one of its columns.
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
