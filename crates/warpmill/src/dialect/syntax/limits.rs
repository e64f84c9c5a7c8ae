//! `LIMIT 20 %` and `LIMIT e PERCENT`, as calls of a function that the plan of the limit looks for.

use super::forms::closed;
use super::{Token, next, write};
use crate::dialect::limits::PERCENT;

/// Words that may follow a limit.
const AFTER: [&str; 4] = ["offset", "union", "except", "intersect"];

/// Writes the limit that `rest` begins with, and says how many tokens it has.
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
