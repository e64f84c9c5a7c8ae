//! `EXCLUDE` at the end of a window's frame, which the parser does not read: it becomes the name of a first partition.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{Token, next, tokens};

/// The beginning of that name, before the words.
pub(crate) const MARK: &str = "\u{1}exclude ";

/// `sql` without `EXCLUDE` in frames.
pub(super) fn moved(sql: &str) -> Cow<'_, str> {
    if !sql.as_bytes().windows(7).any(|part| part.eq_ignore_ascii_case(b"exclude")) {
        return Cow::Borrowed(sql);
    }
    let tokens = tokens(sql);
    let found: HashMap<usize, Exclusion> =
        (0..tokens.len()).filter_map(|at| Some((at, Exclusion::at(&tokens, at)?))).collect();
    if found.is_empty() {
        return Cow::Borrowed(sql);
    }
    let places: HashMap<usize, &str> =
        found.values().filter_map(|exclusion| Some((exclusion.place, exclusion.words?))).collect();
    let mut out = String::with_capacity(sql.len() + 32 * found.len());
    let mut at = 0;
    while at < tokens.len() {
        if let Some(exclusion) = found.get(&at) {
            at = exclusion.end;
            continue;
        }
        match places.get(&at) {
            // PARTITION BY is there already.
            Some(words) if tokens[at].is("by") => out.push_str(&format!("BY \"{MARK}{words}\",")),
            Some(words) => out.push_str(&format!("PARTITION BY \"{MARK}{words}\" {}", tokens[at].text)),
            None => out.push_str(tokens[at].text),
        }
        at += 1;
    }
    Cow::Owned(out)
}

/// `EXCLUDE` with its words.
struct Exclusion {
    /// The token after both.
    end: usize,
    /// The token of the window that the partition is written before, or the BY of its partitions.
    place: usize,
    /// `None`: nothing is left out.
    words: Option<&'static str>,
}

impl Exclusion {
    /// That of a frame whose EXCLUDE is token `from`.
    fn at(tokens: &[Token<'_>], from: usize) -> Option<Self> {
        if !tokens[from].is("exclude") {
            return None;
        }
        let bound = tokens[..from].iter().rev().find(|token| !token.is_blank())?;
        if !["preceding", "following", "row"].iter().any(|word| bound.is(word)) {
            return None;
        }
        let first = next(tokens, from + 1)?;
        let second = || next(tokens, first + 1);
        let (words, last) = match &tokens[first] {
            word if word.is("group") => (Some("group"), first),
            word if word.is("ties") => (Some("ties"), first),
            word if word.is("current") => (Some("current row"), second().filter(|&at| tokens[at].is("row"))?),
            word if word.is("no") => (None, second().filter(|&at| tokens[at].is("others"))?),
            _ => return None,
        };
        next(tokens, last + 1).filter(|&close| tokens[close].text == ")")?;
        let place = place(tokens, from)?;
        Some(Self { end: last + 1, place, words })
    }
}

/// The token before which a partition is written, in the window around token `at`; the BY of its partitions where it has some.
fn place(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let mut depth = 0usize;
    let open = tokens[..at].iter().rposition(|token| match token.text {
        ")" => {
            depth += 1;
            false
        }
        "(" if depth == 0 => true,
        "(" => {
            depth -= 1;
            false
        }
        _ => false,
    })?;
    let begins = ["partition", "order", "rows", "range", "groups"];
    let is_begin = |at: usize| begins.iter().any(|word| tokens[at].is(word));
    // A window's name comes first.
    let first = next(tokens, open + 1).and_then(|at| if is_begin(at) { Some(at) } else { next(tokens, at + 1) })?;
    match tokens[first].is("partition") {
        true => next(tokens, first + 1).filter(|&by| tokens[by].is("by")),
        false => Some(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excluded_rows_become_a_partition() {
        for (sql, expected) in [
            (
                "sum(x) OVER (PARTITION BY p ORDER BY f(x) ROWS 1 PRECEDING EXCLUDE  Ties )",
                "sum(x) OVER (PARTITION BY \"\u{1}exclude ties\", p ORDER BY f(x) ROWS 1 PRECEDING  )",
            ),
            (
                "sum(x) OVER (ORDER BY x RANGE CURRENT ROW exclude current row)",
                "sum(x) OVER (PARTITION BY \"\u{1}exclude current row\" ORDER BY x RANGE CURRENT ROW )",
            ),
            (
                "SELECT 1 WINDOW w AS (v GROUPS BETWEEN 1 PRECEDING AND 2 FOLLOWING EXCLUDE GROUP)",
                "SELECT 1 WINDOW w AS (v PARTITION BY \"\u{1}exclude group\" GROUPS BETWEEN 1 PRECEDING AND 2 FOLLOWING )",
            ),
            (
                "sum(x) OVER (w PARTITION BY p ROWS 1 PRECEDING EXCLUDE TIES)",
                "sum(x) OVER (w PARTITION BY \"\u{1}exclude ties\", p ROWS 1 PRECEDING )",
            ),
            ("sum(x) OVER (ROWS 1 PRECEDING EXCLUDE NO OTHERS)", "sum(x) OVER (ROWS 1 PRECEDING )"),
        ] {
            assert_eq!(moved(sql), expected);
        }
        for same in ["SELECT * EXCLUDE (a) FROM t", "(FROM t SELECT * EXCLUDE ties)", "SELECT row EXCLUDE FROM t"] {
            assert_eq!(moved(same), same);
        }
    }
}
