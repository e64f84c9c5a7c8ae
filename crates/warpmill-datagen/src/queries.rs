//! The SQL texts of the suites, from the repository's `queries` folder.

use crate::Suite;

/// One benchmark query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    /// `1` .. `22` for TPC-H, `1.1` .. `4.3` for SSB.
    pub name: &'static str,
    /// One statement, without a semicolon at its end.
    pub sql: &'static str,
}

macro_rules! texts {
    ($($name:literal => $file:literal),* $(,)?) => {
        &[$(Query { name: $name, sql: include_str!(concat!("../../../queries/", $file, ".sql")) }),*]
    };
}

/// The queries of a suite in the order of their numbers.
///
/// TPC-H has the validation parameters of its specification (Q11's fraction is that of scale factor 1 at every scale),
/// with Q15's view as a common table expression.
pub fn queries(suite: Suite) -> &'static [Query] {
    match suite {
        Suite::Tpch => texts![
            "1" => "tpch/q01", "2" => "tpch/q02", "3" => "tpch/q03", "4" => "tpch/q04", "5" => "tpch/q05",
            "6" => "tpch/q06", "7" => "tpch/q07", "8" => "tpch/q08", "9" => "tpch/q09", "10" => "tpch/q10",
            "11" => "tpch/q11", "12" => "tpch/q12", "13" => "tpch/q13", "14" => "tpch/q14", "15" => "tpch/q15",
            "16" => "tpch/q16", "17" => "tpch/q17", "18" => "tpch/q18", "19" => "tpch/q19", "20" => "tpch/q20",
            "21" => "tpch/q21", "22" => "tpch/q22",
        ],
        Suite::Ssb => texts![
            "1.1" => "ssb/q1.1", "1.2" => "ssb/q1.2", "1.3" => "ssb/q1.3",
            "2.1" => "ssb/q2.1", "2.2" => "ssb/q2.2", "2.3" => "ssb/q2.3",
            "3.1" => "ssb/q3.1", "3.2" => "ssb/q3.2", "3.3" => "ssb/q3.3", "3.4" => "ssb/q3.4",
            "4.1" => "ssb/q4.1", "4.2" => "ssb/q4.2", "4.3" => "ssb/q4.3",
        ],
        Suite::Taxi => &[],
    }
}
