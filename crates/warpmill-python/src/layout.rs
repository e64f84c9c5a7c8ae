//! The storage layout of a table, as specified in Python.

use pyo3::prelude::*;
use warpmill::{Error, Session, WriteOptions};
use warpmill_format::pruning::Metadata;

/// A dict of `sort_by`, `cluster`, `pruning`, `sideways`.
#[derive(FromPyObject)]
pub(crate) struct Layout {
    #[pyo3(item)]
    sort_by: Vec<String>,
    #[pyo3(item)]
    cluster: bool,
    #[pyo3(item)]
    pruning: String,
    #[pyo3(item)]
    sideways: Vec<String>,
}

impl Layout {
    /// The options for a write of `session`, with `storage` (names and values of settings) instead of its own settings.
    ///
    /// # Errors
    /// Names unknown or malformed settings.
    pub fn options(&self, session: &Session, storage: &[(String, String)]) -> Result<WriteOptions, Error> {
        let unknown = || {
            let names = Metadata::NAMES.map(|(name, _)| name).join(", ");
            Error::Plan(format!("unknown pruning metadata {:?}: one of {names}", self.pruning))
        };
        let metadata = Metadata::parse(&self.pruning).ok_or_else(unknown)?;
        let sideways = self.sideways.iter().map(|text| session.sideways(text)).collect::<Result<_, _>>()?;
        let (sort_by, cluster) = (self.sort_by.clone(), self.cluster);
        Ok(WriteOptions { sort_by, cluster, metadata, sideways, ..session.write_options(storage)? })
    }
}
