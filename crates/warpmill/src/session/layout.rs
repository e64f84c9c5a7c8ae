//! The layout of written tables: order of rows, and metadata by which scans skip them.

use datafusion::common::TableReference;
use warpmill_format::pruning::Sideways;

use super::Session;
use crate::{Error, Result, WriteOptions};

/// `[TABLE.]COLUMN=OTHER.KEY:ATTRIBUTE,...`
struct Spec<'a> {
    table: Option<&'a str>,
    column: &'a str,
    other: &'a str,
    key: &'a str,
    attributes: Vec<&'a str>,
}

fn parse(text: &str) -> Result<Spec<'_>> {
    let malformed = || {
        let form = "[table.]column=other.key:attribute,... such as lo_custkey=customer.c_custkey:c_region,c_nation";
        Error::Plan(format!("sideways metadata {text:?} is not of the form {form}"))
    };
    let (own, rest) = text.split_once('=').ok_or_else(malformed)?;
    let (key, attributes) = rest.split_once(':').ok_or_else(malformed)?;
    let (other, key) = key.trim().split_once('.').ok_or_else(malformed)?;
    let (table, column) = match own.trim().split_once('.') {
        Some((table, column)) => (Some(table), column),
        None => (None, own.trim()),
    };
    let attributes: Vec<&str> = attributes.split(',').map(str::trim).collect();
    let names = [column, other, key].into_iter().chain(table).chain(attributes.iter().copied());
    if names.clone().any(str::is_empty) {
        return Err(malformed());
    }
    Ok(Spec { table, column, other, key, attributes })
}

impl Session {
    /// Parses sideways metadata `[TABLE.]COLUMN=OTHER.KEY:ATTRIBUTE,...`: attributes of the current version of table `OTHER`, to which `COLUMN`
    /// refers by `KEY`.
    ///
    /// # Errors
    /// A malformed text, or an unknown table.
    pub fn sideways(&self, text: &str) -> Result<Sideways> {
        self.resolve(&parse(text)?)
    }

    fn resolve(&self, spec: &Spec<'_>) -> Result<Sideways> {
        let missing = || Error::Catalog(format!("sideways metadata: '{}' is not a table of Warpmill", spec.other));
        let (place, name) = self.place(&TableReference::bare(spec.other))?;
        let table = place.warpmill_table(&name)?.ok_or_else(missing)?;
        Ok(Sideways {
            column: spec.column.to_owned(),
            name: spec.other.to_owned(),
            table: table.snapshot()?,
            key: spec.key.to_owned(),
            attributes: spec.attributes.iter().map(ToString::to_string).collect(),
        })
    }

    /// `options` for table `name`, completed by the session's settings.
    pub(super) fn layout(&self, name: &str, options: WriteOptions) -> Result<WriteOptions> {
        let (settings, mut options) = (self.options(), self.defaults(options));
        if options.sideways.is_empty() {
            let texts = settings.sideways.split(';').map(str::trim).filter(|text| !text.is_empty());
            for spec in texts.map(parse) {
                let spec = spec?;
                // The setting applies to all tables, so that each entry names its table.
                if spec.table == Some(name) {
                    options.sideways.push(self.resolve(&spec)?);
                }
            }
        }
        if options.sort_by.is_empty() && !options.cluster {
            match settings.cluster.trim() {
                "" => {}
                "auto" => options.cluster = true,
                columns => options.sort_by = columns.split(',').map(|column| column.trim().to_owned()).collect(),
            }
        }
        Ok(options)
    }
}
