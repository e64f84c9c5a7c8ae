//! The SQL texts that a query is replaced by.

use serde_json::Value;

use super::constant::quoted;
use super::serialized::{InputTable, Reader, list, text};
use super::stopped;
use crate::Refused;
use crate::plan::Plan;
use crate::types::Type;

/// Largest number of columns of the aggregate `warpmill_take`, which has an overload for each number.
const MOST_COLUMNS: usize = 64;

/// The value of the argument `fallback` that asks for the way in which a query would be run.
const EXPLAIN: &str = "explain";

/// The facts about a query that its replacement depends on.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The text of the query.
    pub query: &'a str,
    /// The answer of `json_serialize_plan`.
    pub plan: &'a str,
    /// The setting `ieee_floating_point_ops`.
    pub ieee: bool,
    /// The version of DuckDB: 20000 for 2.0.0.
    pub version: u32,
    /// The values of its constant expressions as a JSON list, if they have been requested.
    pub values: Option<&'a str>,
}

/// The text that replaces a query.
#[derive(Debug, PartialEq, Eq)]
pub enum Rewritten {
    /// A SELECT that runs the query on Warpmill, or that requests further facts.
    Text(String),
    /// The query's own text, which DuckDB runs, and the reason; no reason if the query reads no data or is wrong.
    Left(String, Option<String>),
}

/// `query` without blanks and semicolons at its end.
fn trimmed(query: &str) -> &str {
    query.trim_end_matches(|c: char| c.is_whitespace() || c == ';')
}

/// The first text for a query: a SELECT that requests DuckDB's plan of it. `fallback` is SQL that gives 'allow' or 'error'.
pub fn first_text(query: &str, fallback: &str) -> String {
    let query = quoted(trimmed(query));
    format!(
        "FROM query(warpmill_plan({query}, CAST(json_serialize_plan({query}) AS VARCHAR), \
         CAST(current_setting('ieee_floating_point_ops') AS VARCHAR), {fallback}, ''))"
    )
}

/// The next text for a query. `again` is the argument `fallback` of the next call.
pub fn rewrite(request: Request<'_>, again: &str) -> Rewritten {
    let own = || trimmed(request.query).to_string();
    let Ok(plan) = serde_json::from_str::<Value>(request.plan) else {
        return Rewritten::Left(own(), Some("a plan that is not JSON".to_string()));
    };
    if plan["error"].as_bool() != Some(false) {
        // DuckDB reports errors of a query best itself.
        let known =
            ["internal", "not implemented", "serialization", "invalid input"].contains(&text(&plan, "error_type"));
        let reason = format!("DuckDB does not show its plan: {}", text(&plan, "error_message"));
        return Rewritten::Left(own(), known.then_some(reason));
    }
    let [root] = list(&plan, "plans") else { return Rewritten::Left(own(), None) };
    if !request.plan.contains("\"LOGICAL_GET\"") {
        return Rewritten::Left(own(), None);
    }
    match accelerated(request, root, again) {
        Ok(text) => Rewritten::Text(text),
        Err(refused) => Rewritten::Left(own(), Some(refused.reason)),
    }
}

fn accelerated(request: Request<'_>, root: &Value, again: &str) -> Result<String, Refused> {
    let values: Option<Vec<Option<String>>> = match request.values {
        Some(values) => Some(serde_json::from_str(values).map_err(|_| Refused::new("constants that are not a list"))?),
        None => None,
    };
    let mut reader = Reader::new(request.ieee, values.as_deref());
    let statement = reader.statement(root, request.version)?;
    if !reader.requests.is_empty() {
        let (query, plan, ieee) = (quoted(request.query), quoted(request.plan), request.ieee);
        let asked = reader.requests.join(", ");
        return Ok(format!(
            "FROM query(warpmill_plan({query}, {plan}, '{ieee}', {}, CAST(to_json([{asked}]) AS VARCHAR)))",
            quoted(again)
        ));
    }
    let statement = statement.to_string();
    let plan = Plan::of(&statement, || false)?.ok_or_else(stopped)?;
    if let Some(wide) = plan.inputs.iter().find(|needed| needed.columns.len() > MOST_COLUMNS) {
        return Err(Refused::new(format!("{} columns of one table", wide.columns.len())));
    }
    if again == EXPLAIN {
        return Ok(format!("SELECT true AS accelerated, {} AS text", quoted(&plan.text)));
    }
    Ok(select(request.query, &statement, &plan, &reader.inputs))
}

/// The SELECT that scans the inputs, runs the query over their rows, and returns the result's columns. The query itself is its
/// first part, which gives the names of columns and is not run.
fn select(query: &str, statement: &str, plan: &Plan, inputs: &[InputTable]) -> String {
    let takes = inputs.iter().zip(&plan.inputs).enumerate().map(|(at, (input, needed))| {
        let columns = needed.columns.iter().zip(&needed.positions).map(|(&column, position)| {
            let (_, name, _) = &input.columns[column as usize];
            (format!("c{position}"), identifier(name))
        });
        let (mut names, mut columns): (Vec<String>, Vec<String>) = columns.unzip();
        if columns.is_empty() {
            // A constant that only counts the rows.
            (names, columns) = (vec!["rows".to_string()], vec!["true".to_string()]);
        }
        let table: Vec<String> = input.path.iter().map(|part| identifier(part)).collect();
        let (names, columns, table) = (names.join(" "), columns.join(", "), table.join("."));
        format!("(SELECT warpmill_take('{names}', {columns}) AS k{at} FROM {table})")
    });
    let takes: Vec<String> = takes.collect();
    let keys: String = (0..inputs.len()).map(|at| format!(", k{at}")).collect();
    let columns = plan.types.iter().enumerate().map(|(at, &ty)| column(ty, at));
    let columns: Vec<String> = columns.collect();
    format!(
        "(SELECT * FROM ({query}\n) LIMIT 0) UNION ALL (SELECT {columns} FROM (SELECT h, unnest(range(warpmill_rows(h))) AS r \
         FROM (SELECT warpmill_run({statement}, CAST(current_setting('threads') AS UBIGINT), scope{keys}) AS h \
         FROM warpmill_scope(), {takes})))",
        query = trimmed(query),
        columns = columns.join(", "),
        statement = quoted(statement),
        takes = takes.join(", "),
    )
}

fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The expression for column `at` of the result.
fn column(ty: Type, at: usize) -> String {
    let name = match ty {
        Type::Boolean => "boolean",
        Type::TinyInt => "tinyint",
        Type::SmallInt => "smallint",
        Type::Integer => "integer",
        Type::BigInt => "bigint",
        Type::UTinyInt => "utinyint",
        Type::USmallInt => "usmallint",
        Type::UInteger => "uinteger",
        Type::UBigInt => "ubigint",
        Type::HugeInt | Type::UHugeInt | Type::Decimal(..) => "hugeint",
        Type::Float => "float",
        Type::Double => "double",
        Type::Varchar => "varchar",
        Type::Date => "date",
        Type::Timestamp => "timestamp",
        // Results have no such columns: translation has refused them.
        Type::Interval | Type::Null => "varchar",
    };
    let value = format!("warpmill_get_{name}(h, r, {at})");
    match ty {
        Type::UHugeInt => format!("CAST({value} AS UHUGEINT)"),
        Type::Decimal(width, 0) => format!("CAST(CAST({value} AS DECIMAL(38,0)) AS DECIMAL({width},0))"),
        Type::Decimal(width, scale) => {
            // The digits as an integer, multiplied by an exact power of ten.
            let scale = usize::from(scale.unsigned_abs());
            let unit = format!("CAST('0.{}1' AS DECIMAL({scale},{scale}))", "0".repeat(scale - 1));
            format!("CAST(CAST({value} AS DECIMAL(38,0)) * {unit} AS DECIMAL({width},{scale}))")
        }
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request<'a>(query: &'a str, plan: &'a str) -> Request<'a> {
        Request { query, plan, ieee: true, version: 20_000, values: None }
    }

    #[test]
    fn the_first_text_quotes_the_query() {
        let text = first_text("SELECT 'it''s' ; ", "'allow'");
        assert!(text.starts_with("FROM query(warpmill_plan('SELECT ''it''''s''', CAST(json_serialize_plan("), "{text}");
    }

    #[test]
    fn errors_are_left_to_duckdb() {
        let wrong = r#"{"error":true,"error_type":"catalog","error_message":"no such table"}"#;
        assert_eq!(rewrite(request("FROM x;", wrong), "allow"), Rewritten::Left("FROM x".to_string(), None));
        let hidden = r#"{"error":true,"error_type":"invalid input","error_message":"PIVOT"}"#;
        let Rewritten::Left(_, Some(reason)) = rewrite(request("FROM x", hidden), "allow") else { panic!("a reason") };
        assert_eq!(reason, "DuckDB does not show its plan: PIVOT");
    }

    #[test]
    fn names_are_quoted() {
        assert_eq!(identifier("a\"b"), "\"a\"\"b\"");
    }

    #[test]
    fn decimals_are_moved_exactly() {
        let text = column(Type::Decimal(15, 2), 3);
        assert!(text.contains("warpmill_get_hugeint(h, r, 3)") && text.contains("'0.01' AS DECIMAL(2,2)"), "{text}");
    }
}
