//! Constants of serialized plans: as text of the plan encoding, and as SQL.

use serde_json::Value;

use super::serialized::{list, text, type_name};
use crate::Refused;

/// Functions that DuckDB computes for constant arguments: their values depend on nothing but the arguments.
const PURE: &[&str] = &[
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "||",
    "abs",
    "ceil",
    "concat",
    "date_part",
    "date_trunc",
    "floor",
    "lower",
    "make_date",
    "replace",
    "round",
    "strptime",
    "substring",
    "to_centuries",
    "to_days",
    "to_decades",
    "to_hours",
    "to_microseconds",
    "to_milliseconds",
    "to_minutes",
    "to_months",
    "to_quarters",
    "to_seconds",
    "to_weeks",
    "to_years",
    "trunc",
    "upper",
];

/// The value of a constant as the plan encoding writes it; `None` is NULL.
pub(super) fn encoded(constant: &Value) -> Result<Option<String>, Refused> {
    if constant["is_null"].as_bool() == Some(true) {
        return Ok(None);
    }
    let (ty, value) = (type_name(&constant["type"])?, &constant["value"]);
    let bad = || Refused::new(format!("a constant of the type {ty}"));
    Ok(Some(match (ty.as_str(), value) {
        (_, Value::Bool(truth)) => truth.to_string(),
        ("DOUBLE" | "FLOAT", Value::Number(number)) => {
            // The digits of JSON numbers are read with an error of one unit in the last place: only whole numbers are exact.
            let number = number.as_f64().filter(|x| x.fract() == 0.0 && x.abs() < 1e15).ok_or_else(bad)?;
            number.to_string()
        }
        ("INTERVAL", Value::Object(parts)) => {
            let part = |name: &str| parts.get(name).and_then(Value::as_i64).ok_or_else(bad);
            format!("{},{},{}", part("months")?, part("days")?, part("micros")?)
        }
        (ty, value) if ty.starts_with("DECIMAL(") => {
            let scale = ty.trim_end_matches(')').rsplit(',').next().and_then(|scale| scale.trim().parse().ok());
            decimal(whole(value).ok_or_else(bad)?, scale.ok_or_else(bad)?)
        }
        ("VARCHAR", Value::String(text)) => text.clone(),
        ("DATE" | "TIMESTAMP", Value::Number(number)) => number.to_string(),
        (ty, value) if ty.ends_with("INT") || ty.ends_with("INTEGER") => whole(value).ok_or_else(bad)?.to_string(),
        _ => return Err(bad()),
    }))
}

/// A whole number: 128 bits are written in two halves.
fn whole(value: &Value) -> Option<i128> {
    if let Value::Object(halves) = value {
        let (upper, lower) = (halves.get("upper")?, halves.get("lower")?);
        return Some(i128::from(upper.as_i64()?) << 64 | i128::from(lower.as_u64()?));
    }
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

fn decimal(value: i128, scale: usize) -> String {
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if value < 0 { "-" } else { "" };
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// Whether an expression consists of constants and of functions whose values depend on nothing but their arguments.
pub(super) fn is_foldable(e: &Value) -> bool {
    match text(e, "expression_class") {
        "BOUND_CONSTANT" => true,
        "BOUND_CAST" => is_foldable(&e["child"]),
        "BOUND_FUNCTION" => {
            let cast = text(e, "type") == "OPERATOR_CAST";
            let name = super::expression::function_name(e);
            (cast || text(e, "type") == "BOUND_FUNCTION" && PURE.contains(&name))
                && list(e, "children").iter().all(is_foldable)
        }
        _ => false,
    }
}

/// The SQL expression for the value of a constant expression: `v` and the value as the plan encoding writes it, `n` for NULL, and
/// NULL if computing the value fails.
pub(super) fn value_text(e: &Value, ty: &str) -> Result<String, Refused> {
    let sql = sql(e)?;
    let value = match ty {
        "DATE" => format!("CAST({sql} - DATE '1970-01-01' AS VARCHAR)"),
        "TIMESTAMP" => format!("CAST(epoch_us({sql}) AS VARCHAR)"),
        "INTERVAL" => format!(
            "concat(datepart('year', {sql}) * 12 + datepart('month', {sql}), ',', datepart('day', {sql}), ',', \
             datepart('hour', {sql}) * 3600000000 + datepart('minute', {sql}) * 60000000 + datepart('microsecond', {sql}))"
        ),
        _ => format!("CAST({sql} AS VARCHAR)"),
    };
    Ok(format!("TRY(CASE WHEN {sql} IS NULL THEN 'n' ELSE 'v' || {value} END)"))
}

/// A constant expression as SQL.
fn sql(e: &Value) -> Result<String, Refused> {
    match text(e, "expression_class") {
        "BOUND_CONSTANT" => literal(&e["value"]),
        "BOUND_CAST" => cast(&e["child"], &e["return_type"], e["try_cast"].as_bool()),
        "BOUND_FUNCTION" if text(e, "type") == "OPERATOR_CAST" => {
            let child = list(e, "children").first().ok_or_else(|| Refused::new("a cast of nothing"))?;
            cast(child, &e["return_type"], e["function_data"]["try_cast"].as_bool())
        }
        "BOUND_FUNCTION" => {
            let name = super::expression::function_name(e);
            let children = list(e, "children").iter().map(sql).collect::<Result<Vec<_>, _>>()?;
            let call = match &children[..] {
                [left, right] if !name.starts_with(|c: char| c.is_alphabetic()) => format!("({left} {name} {right})"),
                [child] if !name.starts_with(|c: char| c.is_alphabetic()) => format!("({name} {child})"),
                _ => format!("{name}({})", children.join(", ")),
            };
            Ok(format!("CAST({call} AS {})", type_name(&e["return_type"])?))
        }
        other => Err(Refused::new(format!("a constant of the kind {other}"))),
    }
}

fn cast(child: &Value, ty: &Value, attempt: Option<bool>) -> Result<String, Refused> {
    let kind = if attempt == Some(true) { "TRY_CAST" } else { "CAST" };
    Ok(format!("{kind}({} AS {})", sql(child)?, type_name(ty)?))
}

fn literal(constant: &Value) -> Result<String, Refused> {
    let ty = type_name(&constant["type"])?;
    let Some(value) = encoded(constant)? else {
        // The type of a bare NULL has no name for a cast.
        return Ok(if ty.contains("NULL") { "NULL".to_string() } else { format!("CAST(NULL AS {ty})") });
    };
    Ok(match ty.as_str() {
        "DATE" => format!("(DATE '1970-01-01' + CAST({value} AS INTEGER))"),
        "TIMESTAMP" => format!("make_timestamp(CAST({value} AS BIGINT))"),
        "INTERVAL" => {
            let parts: Vec<&str> = value.split(',').collect();
            format!("(to_months({}) + to_days({}) + to_microseconds({}))", parts[0], parts[1], parts[2])
        }
        _ => format!("CAST({} AS {ty})", quoted(&value)),
    })
}

/// `text` as an SQL literal.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn decimals_have_their_digits() {
        for (value, scale, expected) in
            [(6, 2, "0.06"), (-1, 2, "-0.01"), (100, 2, "1.00"), (7, 0, "7"), (0, 3, "0.000")]
        {
            assert_eq!(decimal(value, scale), expected);
        }
    }

    #[test]
    fn halves_of_large_numbers() {
        assert_eq!(whole(&json!({"upper": -1, "lower": u64::MAX})), Some(-1));
        assert_eq!(whole(&json!({"upper": 1, "lower": 0})), Some(1 << 64));
    }

    #[test]
    fn text_is_quoted() {
        let constant = json!({"type": {"id": "VARCHAR", "type_info": null}, "is_null": false, "value": "it's"});
        assert_eq!(literal(&constant).unwrap(), "CAST('it''s' AS VARCHAR)");
    }
}
