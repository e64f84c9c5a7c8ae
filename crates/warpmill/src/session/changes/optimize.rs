//! OPTIMIZE: small row segments become few, and deleted rows are dropped.

use super::blocking;
use super::target::quoted;
use crate::catalog::write_options;
use crate::commit::GivenUp;
use crate::session::running::Query;
use crate::session::{QueryResult, Session};
use crate::{Error, Result};

impl Session {
    /// `OPTIMIZE [TABLE] t`: merges adjacent row segments that are at most half full, and writes those with deleted rows anew.
    pub(super) async fn optimize_statement(&self, sql: &str, query: &Query) -> Result<QueryResult> {
        let rest = sql.get("optimize ".len()..).unwrap_or_default();
        let name = match rest.get(..6) {
            Some(word) if word.eq_ignore_ascii_case("table ") => &rest[6..],
            _ => rest,
        };
        let name = name.trim();
        if name.is_empty() || (name.contains(' ') && !name.contains('"')) {
            return Err(Error::Parse(format!("OPTIMIZE takes the name of a table, not {}", quoted(name))));
        }
        let (schema, table) = self.place_of(name)?;
        let Some(table) = schema.warpmill_table(&table)? else {
            return Err(Error::Catalog(format!("table '{name}' of Warpmill not found")));
        };
        let gate = query.handle.commit.clone();
        let given_up = GivenUp::cancels(&gate);
        let options = write_options(&self.options());
        let done = blocking(move || {
            let mut writer = table.append(options)?;
            writer.commit_only_if(move || gate.pass());
            if writer.merge_small(0)? {
                writer.commit()?;
            }
            Ok(())
        });
        let done = done.await;
        given_up.done();
        done.map(|()| QueryResult::empty())
    }
}
