//! Functions of text.

use datafusion::common::ScalarValue;
use datafusion::functions::expr_fn as functions;
use datafusion::logical_expr::expr::Like;
use datafusion::logical_expr::{Expr, Operator, lit};
use warpmill_ir::scalar::case;
use warpmill_translate::functions::simple_case;

use super::expr::binary;
use crate::Refused;
use crate::types::Type;

/// The characters that `trim` without an argument removes: Unicode's space separators.
const SPACES: &str = " \u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\u{2007}\u{2008}\u{2009}\u{200a}\u{202f}\u{205f}\u{3000}";

/// DuckDB's function `name` of texts; `None` for others.
pub(super) fn text_function(name: &str, args: &[Expr], types: &[Type]) -> Result<Option<Expr>, Refused> {
    use Type::Varchar;
    let (Some(x), true) = (args.first(), types.first() == Some(&Varchar)) else { return Ok(None) };
    let x = x.clone();
    Ok(Some(match (name, &args[1..], &types[1..]) {
        ("upper" | "ucase", [], _) => simple_case(true).call(vec![x]),
        ("lower" | "lcase", [], _) => simple_case(false).call(vec![x]),
        ("length" | "len" | "char_length" | "character_length", [], _) => functions::character_length(x),
        ("strlen", [], _) => functions::octet_length(x),
        ("trim", [], _) => functions::btrim(vec![x, lit(SPACES)]),
        ("ltrim", [], _) => functions::ltrim(vec![x, lit(SPACES)]),
        ("rtrim", [], _) => functions::rtrim(vec![x, lit(SPACES)]),
        ("trim", [set], [Varchar]) => functions::btrim(vec![x, set.clone()]),
        ("ltrim", [set], [Varchar]) => functions::ltrim(vec![x, set.clone()]),
        ("rtrim", [set], [Varchar]) => functions::rtrim(vec![x, set.clone()]),
        ("~~", [pattern], [Varchar]) => like(x, pattern, None, false)?,
        ("!~~", [pattern], [Varchar]) => like(x, pattern, None, true)?,
        ("~~*", [pattern], [Varchar]) => ilike(x, pattern, None, false)?,
        ("!~~*", [pattern], [Varchar]) => ilike(x, pattern, None, true)?,
        ("like_escape", [pattern, escape], _) => like(x, pattern, Some(escape), false)?,
        ("not_like_escape", [pattern, escape], _) => like(x, pattern, Some(escape), true)?,
        ("ilike_escape", [pattern, escape], _) => ilike(x, pattern, Some(escape), false)?,
        ("not_ilike_escape", [pattern, escape], _) => ilike(x, pattern, Some(escape), true)?,
        ("||", [y], [Varchar]) => binary(x, Operator::StringConcat, y.clone()),
        ("starts_with" | "prefix" | "^@", [y], [Varchar]) => functions::starts_with(x, y.clone()),
        ("ends_with" | "suffix", [y], [Varchar]) => functions::ends_with(x, y.clone()),
        ("contains", [y], [Varchar]) => functions::contains(x, y.clone()),
        ("strpos" | "instr" | "position", [y], [Varchar]) => functions::strpos(x, y.clone()),
        ("left", [n], [Type::BigInt]) => functions::left(x, n.clone()),
        ("right", [n], [Type::BigInt]) => functions::right(x, n.clone()),
        ("replace", [from, to], [Varchar, Varchar]) => functions::replace(x, from.clone(), to.clone()),
        // Positions before the first count from the end in DuckDB.
        ("substring" | "substr", [start], _) if at_least(start, 1) => functions::substr(x, start.clone()),
        ("substring" | "substr", [start, count], _) if at_least(start, 1) && at_least(count, 0) => {
            functions::substring(x, start.clone(), count.clone())
        }
        ("regexp_replace", [pattern, by], _) if plain_pattern(pattern) && constant(by).is_some() => {
            functions::regexp_replace(x, pattern.clone(), by.clone(), None)
        }
        _ => return Ok(None),
    }))
}

/// The text of a constant.
pub(super) fn constant(e: &Expr) -> Option<&str> {
    match e {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text),
        _ => None,
    }
}

fn at_least(e: &Expr, least: i64) -> bool {
    matches!(e, Expr::Literal(ScalarValue::Int64(Some(n)), _) if *n >= least)
}

/// LIKE with a constant pattern, which has no escape character where none is given.
fn like(value: Expr, pattern: &Expr, escape: Option<&Expr>, negated: bool) -> Result<Expr, Refused> {
    let pattern = pattern_of(pattern, escape)?;
    Ok(Expr::Like(Like::new(negated, Box::new(value), Box::new(lit(pattern)), None, false)))
}

/// ILIKE: LIKE of both sides in lower case.
fn ilike(value: Expr, pattern: &Expr, escape: Option<&Expr>, negated: bool) -> Result<Expr, Refused> {
    let pattern = case::mapped(&pattern_of(pattern, escape)?, false);
    let value = simple_case(false).call(vec![value]);
    Ok(Expr::Like(Like::new(negated, Box::new(value), Box::new(lit(pattern)), None, false)))
}

/// The pattern of DataFusion for a pattern of DuckDB's; a backslash escapes in it.
fn pattern_of(pattern: &Expr, escape: Option<&Expr>) -> Result<String, Refused> {
    let refused = |why: &str| Refused::new(format!("LIKE with {why}"));
    let text = constant(pattern).ok_or_else(|| refused("a pattern that is not constant"))?;
    let escape = escape.map(|escape| constant(escape).ok_or_else(|| refused("an escape that is not constant")));
    let mut escape = escape.transpose()?.unwrap_or("").chars();
    let (escape, more) = (escape.next(), escape.next());
    if more.is_some() || escape.is_some_and(|c| !c.is_ascii() || c.is_ascii_alphabetic()) {
        return Err(refused("this escape"));
    }
    let mut result = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        let (c, literal) = match escape == Some(c) {
            true => (characters.next().ok_or_else(|| refused("an escape at the end of its pattern"))?, true),
            false => (c, c == '\\'),
        };
        if literal && matches!(c, '%' | '_' | '\\') {
            result.push('\\');
        }
        result.push(c);
    }
    Ok(result)
}

/// A regular expression that means the same to RE2 and to Rust: no classes that Unicode makes larger, no flags.
fn plain_pattern(e: &Expr) -> bool {
    let Some(pattern) = constant(e) else { return false };
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

    #[test]
    fn escapes() {
        let of = |pattern: &str, escape: Option<&str>| pattern_of(&lit(pattern), escape.map(lit).as_ref());
        assert_eq!(of(r"a\b%_", None).unwrap(), r"a\\b%_");
        assert_eq!(of(r"a#%b##\%", Some("#")).unwrap(), r"a\%b#\\%");
        assert_eq!(of(r"a\%b\c\\", Some("\\")).unwrap(), r"a\%bc\\");
        assert_eq!(of("a%", Some("")).unwrap(), "a%");
        for (pattern, escape) in [("a#", "#"), ("a", "ab"), ("a", "x"), ("a", "é")] {
            assert!(of(pattern, Some(escape)).is_err(), "{pattern} {escape}");
        }
    }
}
