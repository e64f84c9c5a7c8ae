//! Scalar functions.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchemaRef, ScalarValue};
use datafusion::functions::expr_fn as functions;
use datafusion::logical_expr::{Expr, Operator, lit};

use super::Translator;
use super::expr::{binary, cast_to, like};
use crate::Refused;
use crate::encoding;
use crate::types::Type;

impl<'a> Translator<'a> {
    /// A call of DuckDB's function `name` with arguments of the types `at`.
    pub(super) fn function(
        &mut self,
        name: &str,
        ty: Type,
        at: &[String],
        a: &'a [encoding::Expr],
        schema: &DFSchemaRef,
    ) -> Result<Expr, Refused> {
        let types = at.iter().map(|name| Type::parse(name)).collect::<Result<Vec<_>, _>>();
        let refused = || Refused::new(format!("the function {name}({})", at.join(", ")));
        let types = types.map_err(|_| refused())?;
        let args = self.list_of(a, schema)?;
        let result = match (&args[..], &types[..]) {
            ([left, right], [lt, rt]) if name != "concat" => {
                self.binary_function(name, (left, *lt), (right, *rt), ty, schema)?
            }
            ([x], [t]) => unary(name, x, *t, schema)?,
            ([x, y, z], [Type::Varchar, ..]) => ternary(name, x, y, z),
            _ => None,
        };
        let result = match (result, name) {
            (Some(result), _) => result,
            (None, "concat") if same(&types, Type::Varchar) => functions::concat(args),
            (None, "least") if same(&types, ty) => functions::least(args),
            (None, "greatest") if same(&types, ty) => functions::greatest(args),
            (None, _) => return Err(refused()),
        };
        cast_to(result, &ty.arrow(), schema)
    }

    fn binary_function(
        &mut self,
        name: &str,
        (left, lt): (&Expr, Type),
        (right, rt): (&Expr, Type),
        ty: Type,
        schema: &DFSchemaRef,
    ) -> Result<Option<Expr>, Refused> {
        let (l, r) = (left.clone(), right.clone());
        let numeric = |t: Type| t.scale().is_some() || t.is_float();
        let op = match name {
            "+" => Some(Operator::Plus),
            "-" => Some(Operator::Minus),
            "*" => Some(Operator::Multiply),
            _ => None,
        };
        if let Some(op) = op.filter(|_| numeric(lt) && numeric(rt) && numeric(ty)) {
            return Ok(Some(arithmetic(l, op, r, ty, schema)?));
        }
        Ok(Some(match (name, lt, rt) {
            ("+" | "-", Type::Date | Type::Timestamp, Type::Interval) => {
                let start = cast_to(l, &Type::Timestamp.arrow(), schema)?;
                binary(start, op.unwrap_or(Operator::Plus), r)
            }
            ("+", Type::Interval, Type::Date | Type::Timestamp) => {
                binary(cast_to(r, &Type::Timestamp.arrow(), schema)?, Operator::Plus, l)
            }
            ("+" | "-", Type::Date, rt) if rt.is_integer() && ty == Type::Date => {
                let days = cast_to(l, &Type::Integer.arrow(), schema)?;
                let days = arithmetic(days, op.unwrap_or(Operator::Plus), r, Type::Integer, schema)?;
                cast_to(days, &Type::Integer.arrow(), schema)?
            }
            ("/", Type::Double, Type::Double) => binary(l, Operator::Divide, r),
            // A zero ends the query on Warpmill: what it means is a setting of DuckDB's.
            ("//", lt, rt) if lt.is_integer() && rt.is_integer() => binary(l, Operator::Divide, r),
            ("%", lt, rt) if lt.is_integer() && rt.is_integer() => binary(l, Operator::Modulo, r),
            ("~~", Type::Varchar, Type::Varchar) => like(l, r, false, false)?,
            ("!~~", Type::Varchar, Type::Varchar) => like(l, r, true, false)?,
            ("||", Type::Varchar, Type::Varchar) => binary(l, Operator::StringConcat, r),
            ("starts_with" | "prefix" | "^@", Type::Varchar, Type::Varchar) => functions::starts_with(l, r),
            ("ends_with" | "suffix", Type::Varchar, Type::Varchar) => functions::ends_with(l, r),
            ("contains", Type::Varchar, Type::Varchar) => functions::contains(l, r),
            ("date_part" | "datepart", Type::Varchar, Type::Date | Type::Timestamp) => match field(left) {
                Some(field) => date_part(field, r),
                None => return Ok(None),
            },
            ("date_trunc" | "datetrunc", Type::Varchar, Type::Date | Type::Timestamp) => match truncation(left) {
                Some(unit) => functions::date_trunc(lit(unit), cast_to(r, &Type::Timestamp.arrow(), schema)?),
                None => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }
}

fn same(types: &[Type], ty: Type) -> bool {
    types.iter().all(|t| *t == ty)
}

fn unary(name: &str, x: &Expr, ty: Type, schema: &DFSchemaRef) -> Result<Option<Expr>, Refused> {
    let e = x.clone();
    let dated = matches!(ty, Type::Date | Type::Timestamp);
    Ok(Some(match name {
        "year" | "month" | "day" | "quarter" if dated => date_part(name, e),
        "hour" | "minute" if ty == Type::Timestamp => date_part(name, e),
        "dayofmonth" if dated => date_part("day", e),
        "dayofweek" if dated => date_part("dow", e),
        "dayofyear" if dated => date_part("doy", e),
        "-" if ty.is_float() => Expr::Negative(Box::new(e)),
        "-" if ty.scale().is_some() => {
            let zero = lit(ScalarValue::Decimal128(Some(0), 1, 0));
            binary(zero, Operator::Minus, cast_to(e, &wide(ty), schema)?)
        }
        "+" if ty.scale().is_some() || ty.is_float() => e,
        "abs" if ty == Type::Double => functions::abs(e),
        "sqrt" if ty == Type::Double => return Ok(None),
        "floor" if ty == Type::Double => functions::floor(e),
        "ceil" | "ceiling" if ty == Type::Double => functions::ceil(e),
        "length" | "len" | "char_length" | "character_length" if ty == Type::Varchar => functions::character_length(e),
        "strlen" if ty == Type::Varchar => functions::octet_length(e),
        _ => return Ok(None),
    }))
}

fn ternary(name: &str, x: &Expr, y: &Expr, z: &Expr) -> Option<Expr> {
    match name {
        // Positions before the first count from the end in DuckDB.
        "substring" | "substr" if at_least(y, 1) && at_least(z, 0) => {
            Some(functions::substring(x.clone(), y.clone(), z.clone()))
        }
        "regexp_replace" if plain_pattern(y) && matches!(z, Expr::Literal(ScalarValue::Utf8(Some(_)), _)) => {
            Some(functions::regexp_replace(x.clone(), y.clone(), z.clone(), None))
        }
        _ => None,
    }
}

/// Arithmetic of DuckDB's type: an integer that does not fit is an error, as it is there.
fn arithmetic(l: Expr, op: Operator, r: Expr, ty: Type, schema: &DFSchemaRef) -> Result<Expr, Refused> {
    if ty.is_integer() || ty == Type::HugeInt {
        // Exact in decimals, whoever computes it; the cast back is checked.
        let digits = |e: Expr| cast_to(e, &wide(ty), schema);
        return Ok(binary(digits(l)?, op, digits(r)?));
    }
    Ok(binary(l, op, r))
}

/// A decimal that holds any value of a type.
fn wide(ty: Type) -> DataType {
    match ty {
        Type::Decimal(width, scale) => DataType::Decimal128(width, scale),
        Type::HugeInt => DataType::Decimal128(38, 0),
        ty => DataType::Decimal128(
            match ty.bits() {
                Some(8) => 3,
                Some(16) => 5,
                Some(32) => 10,
                _ => 20,
            },
            0,
        ),
    }
}

fn date_part(field: &str, e: Expr) -> Expr {
    functions::date_part(lit(field), e)
}

fn text(e: &Expr) -> Option<String> {
    match e {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text.to_ascii_lowercase()),
        _ => None,
    }
}

/// Fields that both systems number alike.
fn field(e: &Expr) -> Option<&'static str> {
    Some(match text(e)?.as_str() {
        "year" | "years" | "y" => "year",
        "month" | "months" | "mon" => "month",
        "day" | "days" | "d" => "day",
        "quarter" | "quarters" => "quarter",
        "hour" | "hours" | "h" => "hour",
        "minute" | "minutes" | "min" | "m" => "minute",
        "dow" | "dayofweek" | "weekday" => "dow",
        "doy" | "dayofyear" => "doy",
        _ => return None,
    })
}

fn truncation(e: &Expr) -> Option<&'static str> {
    Some(match text(e)?.as_str() {
        "year" => "year",
        "quarter" => "quarter",
        "month" => "month",
        "week" => "week",
        "day" => "day",
        "hour" => "hour",
        "minute" => "minute",
        "second" => "second",
        _ => return None,
    })
}

fn at_least(e: &Expr, least: i64) -> bool {
    matches!(e, Expr::Literal(ScalarValue::Int64(Some(n)), _) if *n >= least)
}

/// A regular expression that means the same to RE2 and to Rust: no classes that Unicode makes larger, no flags.
fn plain_pattern(e: &Expr) -> bool {
    let Expr::Literal(ScalarValue::Utf8(Some(pattern)), _) = e else { return false };
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' if !characters.next().is_some_and(|c| c.is_ascii_punctuation()) => return false,
            '(' => {
                let rest = characters.as_str();
                if rest.starts_with('?') && !rest.starts_with("?:") {
                    return false;
                }
            }
            c if !c.is_ascii() => return false,
            _ => {}
        }
    }
    !pattern.contains("[:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for plain in [r"^https?://(?:www\.)?([^/]+)/.*$", "a+|b", r"\[x\]"] {
            assert!(plain_pattern(&lit(plain)), "{plain}");
        }
        for other in [r"\d+", r"(?i)x", r"\bword", "[[:alpha:]]", "é", r"\pL"] {
            assert!(!plain_pattern(&lit(other)), "{other}");
        }
    }
}
