//! Rewrites `LIMIT 20 %` and `LIMIT e PERCENT` to calls of a function that the planner of limits recognizes.

use super::forms::closed;
use super::{Token, next, write};
use crate::dialect::limits::PERCENT;

/// Words that may follow a limit.
const AFTER: [&str; 4] = ["offset", "union", "except", "intersect"];

/// Rewrites the limit at the beginning of `rest`, and returns its number of tokens.
pub(super) fn percent(rest: &[Token<'_>], out: &mut String) -> Option<usize> {
    if !rest[0].is("limit") {
        return None;
    }
    let begin = next(rest, 1)?;
    let mut at = begin;
    while let Some(token) = rest.get(at) {
        if at > begin && (token.is("percent") || token.text == "%" && is_end(rest, at + 1)) {
            out.push_str(&format!("LIMIT \"{PERCENT}\"("));
            write(&rest[begin..at], out);
            out.push(')');
            return Some(at + 1);
        }
        match token.text {
            "(" | "[" | "{" => at = closed(rest, at)?,
            ")" | ";" => return None,
            _ if AFTER.iter().any(|word| token.is(word)) => return None,
            _ => at += 1,
        }
    }
    None
}

/// Whether a limit ends at `at`.
fn is_end(rest: &[Token<'_>], at: usize) -> bool {
    next(rest, at).is_none_or(|at| matches!(rest[at].text, ")" | ";") || AFTER.iter().any(|word| rest[at].is(word)))
}
