//! Rewrites `t(a, b) USING KEY (a, max(b)) AS (...)` to a query in brackets with an alias, with the key in its SELECT list.

use super::forms::closed;
use super::{Token, next, write};
use crate::recursion::KEYED;

/// Rewrites `USING KEY (...) AS (...)`, and returns its number of tokens.
pub(super) fn using_key(rest: &[Token<'_>], out: &mut String) -> Option<usize> {
    let key = next(rest, 1).filter(|&key| rest[0].is("using") && rest[key].is("key"))?;
    let open = next(rest, key + 1).filter(|&open| rest[open].text == "(")?;
    let close = closed(rest, open)?;
    let mut at = next(rest, close).filter(|&at| rest[at].is("as"))?;
    at = next(rest, at + 1)?;
    for word in ["not", "materialized"] {
        if rest[at].is(word) {
            at = next(rest, at + 1)?;
        }
    }
    let end = closed(rest, at).filter(|_| rest[at].text == "(")?;
    out.push_str("AS (SELECT ");
    write(&rest[open + 1..close - 1], out);
    out.push_str(" FROM (");
    write(&rest[at + 1..end - 1], out);
    out.push_str(&format!(") AS \"{KEYED}\")"));
    Some(end)
}
