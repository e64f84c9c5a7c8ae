//! Benchmark data and queries: TPC-H and the Star Schema Benchmark (SSB) as Arrow batches; taxi trips, without queries.
//!
//! Every table is cut into [`parts`], a number that depends on the table and the scale factor only. A part's rows depend
//! on (scale factor, table, part) and on nothing else, so that any number of workers, in any order, makes the same table:
//! [`stream`] does it on several threads and yields the batches in table order.
//!
//! ```
//! use warpmill_datagen::{Suite, generate, parts, tables};
//! for table in tables(Suite::Ssb) {
//!     for part in 0..parts(Suite::Ssb, table, 0.001)? {
//!         for batch in generate(Suite::Ssb, table, 0.001, part)? {
//!             assert!(batch.num_rows() > 0);
//!         }
//!     }
//! }
//! # Ok::<(), warpmill_datagen::DatagenError>(())
//! ```

mod queries;
mod random;
mod ssb;
mod stream;
mod taxi;
mod tpch;

use std::fmt;
use std::str::FromStr;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

pub use queries::{Query, queries};
pub use stream::{Stream, stream};

/// A benchmark suite: tables and queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Suite {
    /// TPC-H, 8 tables and 22 queries; rows as the reference generator (dbgen) makes them.
    Tpch,
    /// Star Schema Benchmark, 5 tables and 13 queries (O'Neil et al., revision 3).
    Ssb,
    /// Taxi trips: one table with the skew of New York's yellow cabs, no queries.
    Taxi,
}

/// The reason why no data can be made.
#[derive(Debug, thiserror::Error)]
pub enum DatagenError {
    /// The name is no suite.
    #[error("unknown benchmark suite '{0}': the suites are tpch, ssb and taxi")]
    UnknownSuite(String),
    /// The suite has no such table.
    #[error("{suite} has no table '{table}': its tables are {}", tables(*.suite).join(", "))]
    UnknownTable {
        /// The requested suite.
        suite: Suite,
        /// The requested name.
        table: String,
    },
    /// The scale factor is not a positive number, or too large for the key types.
    #[error("scale factor {sf} is out of range for {suite}: it must be above 0 and at most {max}")]
    ScaleFactor {
        /// The requested suite.
        suite: Suite,
        /// The requested scale factor.
        sf: f64,
        /// The largest one whose keys fit.
        max: f64,
    },
    /// The part number is not below [`parts`].
    #[error("{table} has {parts} parts at this scale factor, there is no part {part}")]
    Part {
        /// The table.
        table: String,
        /// The requested part, from 0.
        part: usize,
        /// The number of parts.
        parts: usize,
    },
}

/// The result of [`generate`]: the batches of one part, in order.
pub type Batches = Box<dyn Iterator<Item = RecordBatch> + Send>;

/// Approximate number of rows of a batch.
const BATCH_ROWS: usize = 32 * 1024;

impl Suite {
    /// The name that the command line uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tpch => "tpch",
            Self::Ssb => "ssb",
            Self::Taxi => "taxi",
        }
    }

    /// The largest scale factor whose keys fit their types (and that the reference generators allow).
    fn max_scale(self) -> f64 {
        match self {
            Self::Tpch => 100_000.0,
            Self::Ssb => 300.0,
            Self::Taxi => 1000.0,
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Suite {
    type Err = DatagenError;

    fn from_str(name: &str) -> Result<Self, DatagenError> {
        match name.to_ascii_lowercase().as_str() {
            "tpch" | "tpc-h" => Ok(Self::Tpch),
            "ssb" => Ok(Self::Ssb),
            "taxi" => Ok(Self::Taxi),
            _ => Err(DatagenError::UnknownSuite(name.to_owned())),
        }
    }
}

/// The tables of a suite, small ones first, the fact table last.
pub fn tables(suite: Suite) -> &'static [&'static str] {
    match suite {
        Suite::Tpch => tpch::TABLES,
        Suite::Ssb => ssb::TABLES,
        Suite::Taxi => taxi::TABLES,
    }
}

/// Columns of a table: no column is nullable; strings are `Utf8`.
pub fn schema(suite: Suite, table: &str) -> Result<SchemaRef, DatagenError> {
    match suite {
        Suite::Tpch => tpch::schema(table),
        Suite::Ssb => ssb::schema(table),
        Suite::Taxi => taxi::schema(table),
    }
    .ok_or_else(|| DatagenError::UnknownTable { suite, table: table.to_owned() })
}

/// The number of parts of a table: at least 1, independent of the number of workers.
pub fn parts(suite: Suite, table: &str, sf: f64) -> Result<usize, DatagenError> {
    check(suite, table, sf)?;
    Ok(match suite {
        Suite::Tpch => tpch::parts(table, sf),
        Suite::Ssb => ssb::parts(table, sf),
        Suite::Taxi => taxi::parts(sf),
    })
}

/// Number of rows of a table: exact, except the expected value for TPC-H `lineitem` and SSB `lineorder` (four lines an order).
pub fn expected_rows(suite: Suite, table: &str, sf: f64) -> Result<u64, DatagenError> {
    check(suite, table, sf)?;
    Ok(match suite {
        Suite::Tpch => tpch::expected_rows(table, sf),
        Suite::Ssb => ssb::expected_rows(table, sf),
        Suite::Taxi => taxi::rows(sf),
    })
}

/// The rows of part `part` (from 0) of a table.
pub fn generate(suite: Suite, table: &str, sf: f64, part: usize) -> Result<Batches, DatagenError> {
    let parts = parts(suite, table, sf)?;
    if part >= parts {
        return Err(DatagenError::Part { table: table.to_owned(), part, parts });
    }
    Ok(match suite {
        Suite::Tpch => tpch::generate(table, sf, part, parts),
        Suite::Ssb => ssb::generate(table, sf, part),
        Suite::Taxi => taxi::generate(sf, part),
    })
}

fn check(suite: Suite, table: &str, sf: f64) -> Result<(), DatagenError> {
    if !tables(suite).contains(&table) {
        return Err(DatagenError::UnknownTable { suite, table: table.to_owned() });
    }
    let max = suite.max_scale();
    if !(sf > 0.0 && sf <= max) {
        return Err(DatagenError::ScaleFactor { suite, sf, max });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
