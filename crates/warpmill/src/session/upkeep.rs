//! DuckDB's statements for maintenance and extensions, most of which have nothing to do here.

use super::statements::Taken;
use super::{QueryResult, Session};
use crate::{Error, Result};

/// DuckDB extensions whose functions are built into this program.
const BUILT_IN: [&str; 6] = ["core_functions", "httpfs", "icu", "json", "parquet", "autocomplete"];

impl Session {
    /// `VACUUM [ANALYZE] [t [(columns)]]` and `ANALYZE [t]`: statistics are made when rows are written.
    ///
    /// # Errors
    /// The table does not exist.
    pub(super) fn vacuum(&self, sql: &str) -> Result<Taken> {
        let said = sql.trim_end_matches([';', ' ']);
        let words = said.split(' ').skip_while(|word| ["vacuum", "analyze"].contains(&&*word.to_ascii_lowercase()));
        let table = words.map(|word| word.split('(').next().unwrap_or_default()).find(|word| !word.is_empty());
        if let Some(table) = table {
            let (schema, name) = self.place_of(table)?;
            if schema.kind(&name)?.is_none() {
                return Err(Error::Catalog(format!("table '{table}' not found")));
            }
        }
        Ok(noticed(format!(
            "{said}: statistics are made when rows are written; OPTIMIZE makes few row segments of many"
        )))
    }

    /// `INSTALL name` and `LOAD name`.
    ///
    /// # Errors
    /// An extension that is not built in.
    pub(super) fn load_extension(&self, sql: &str) -> Result<Taken> {
        let said = sql.trim_end_matches([';', ' ']);
        let name = said.split(' ').nth(1).unwrap_or_default().trim_matches(['\'', '"']).to_ascii_lowercase();
        match BUILT_IN.contains(&name.as_str()) {
            true => Ok(noticed(format!("{said}: it is built in"))),
            false => Err(Error::NotImplemented(format!(
                "{said}: there are no extensions besides the built-in ones: {}",
                BUILT_IN.join(", ")
            ))),
        }
    }
}

fn noticed(text: String) -> Taken {
    let mut done = QueryResult::empty();
    done.notices.push(text);
    Taken::Done(done)
}
