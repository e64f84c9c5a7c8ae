//! Joins that the parser does not read: ASOF joins in DuckDB's spelling, and POSITIONAL joins.

use super::{Token, end, next, write};

/// Rewrites `ASOF [LEFT] JOIN r` at the beginning of `tokens`, up to ON or USING, adding a MATCH_CONDITION that names the join's kind; also returns
/// the number of tokens. A join with a MATCH_CONDITION is left unchanged.
pub(super) fn asof(tokens: &[Token<'_>]) -> Option<(String, usize)> {
    let word = |at: usize| next(tokens, at);
    let mut at = word(1)?;
    let kinds = ["inner", "left", "right", "full", "semi", "anti"];
    let kind = kinds.into_iter().find(|kind| tokens[at].is(kind));
    if let Some(kind) = kind {
        at = word(at + 1)?;
        if tokens[at].is("outer") && matches!(kind, "left" | "right" | "full") {
            at = word(at + 1)?;
        }
    }
    if !tokens[at].is("join") {
        return None;
    }
    // One without conditions is refused when its names are bound.
    let end = end(tokens, at + 1, &["on", "using", "join", "match_condition", "where"]);
    if tokens.get(end).is_some_and(|token| token.is("match_condition")) {
        return None;
    }
    let mut out = String::from("ASOF JOIN");
    write(&tokens[at + 1..end], &mut out);
    out.push_str(&format!(" MATCH_CONDITION ('asof {}') ", kind.unwrap_or("inner")));
    Some((out, end))
}

/// Words after the right side of a join without conditions.
const AFTER_JOINS: [&str; 26] = [
    "on",
    "where",
    "group",
    "having",
    "window",
    "qualify",
    "order",
    "limit",
    "offset",
    "fetch",
    "union",
    "except",
    "intersect",
    "using",
    "join",
    "inner",
    "left",
    "right",
    "full",
    "cross",
    "natural",
    "asof",
    "positional",
    "semi",
    "anti",
    "select",
];

/// Rewrites `POSITIONAL JOIN r` at the beginning of `tokens` to an ASOF join whose MATCH_CONDITION names its kind; also returns the number of tokens.
pub(super) fn positional(tokens: &[Token<'_>]) -> Option<(String, usize)> {
    let join = next(tokens, 1).filter(|&at| tokens[at].is("join"))?;
    let first = next(tokens, join + 1)?;
    let end = end(tokens, first, &AFTER_JOINS);
    let mut out = String::from("ASOF JOIN ");
    write(&tokens[first..end], &mut out);
    out.push_str(" MATCH_CONDITION ('asof positional') ON true ");
    Some((out, end))
}
