//! `PIVOT t ON x USING sum(y) GROUP BY z` and `UNPIVOT t ON a, b INTO NAME n VALUE v` as queries of the forms that SQL has in FROM.

use super::{Token, next};

/// A call of this name among the aggregates has the columns that PIVOT groups by.
pub(crate) const GROUPS: &str = "__pivot_groups";
/// A call of this name holds a pivoted column and its values.
pub(crate) const VALUES: &str = "__pivot_values";

/// Rewrites the statement at the beginning of `rest`, and returns its number of tokens; `None`: no such statement.
pub(super) fn pivot(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> Option<usize> {
    let turns = rest[0].is("pivot") || rest[0].is("pivot_wider");
    if !turns && !rest[0].is("unpivot") && !rest[0].is("pivot_longer") {
        return None;
    }
    let begins = match before.iter().rev().find(|token| !token.is_blank()) {
        None => true,
        Some(token) if token.text == ")" => next(rest, 1).is_some_and(|first| rest[first].text != "("),
        // An alias may have this name; in CREATE TABLE or VIEW ... AS no query precedes it.
        Some(token) if token.is("as") => !before.iter().any(|token| token.is("select") || token.is("from")),
        Some(token) => matches!(token.text, "(" | ";") || ["explain", "analyze"].iter().any(|word| token.is(word)),
    };
    if !begins {
        return None;
    }
    let clause = Clauses::of(rest);
    if turns { pivoted(&clause, out) } else { unpivoted(&clause, out) }
}

/// The clauses of a statement.
struct Clauses<'t, 'a> {
    tokens: &'t [Token<'a>],
    /// The positions of words outside of brackets, up to the end of the statement.
    words: Vec<usize>,
    end: usize,
}

impl<'t, 'a> Clauses<'t, 'a> {
    fn of(tokens: &'t [Token<'a>]) -> Self {
        let mut words = vec![];
        let mut depth = 0usize;
        let mut end = tokens.len();
        for (at, token) in tokens.iter().enumerate().skip(1) {
            match token.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" | ";" if depth == 0 => {
                    end = at;
                    break;
                }
                ")" | "]" | "}" => depth -= 1,
                _ if depth == 0 && !token.is_blank() => words.push(at),
                _ => {}
            }
        }
        Self { tokens, words, end }
    }

    /// The position of the first of these keywords from `from` on, or the end.
    fn find(&self, from: usize, words: &[&str]) -> usize {
        let found = self.words.iter().find(|&&at| at >= from && words.iter().any(|word| self.tokens[at].is(word)));
        found.copied().unwrap_or(self.end)
    }

    fn is(&self, at: usize, word: &str) -> bool {
        at < self.end && self.tokens[at].is(word)
    }

    fn text(&self, from: usize, to: usize) -> String {
        let mut text = String::new();
        super::write(&self.tokens[from..to], &mut text);
        text.trim().to_string()
    }

    /// The parts between the commas outside of brackets.
    fn list(&self, from: usize, to: usize) -> Vec<(usize, usize)> {
        let mut depth = 0usize;
        let mut parts = vec![];
        let mut start = from;
        for at in from..to {
            match self.tokens[at].text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                "," if depth == 0 => {
                    parts.push((start, at));
                    start = at + 1;
                }
                _ => {}
            }
        }
        parts.push((start, to));
        parts
    }
}

/// Keywords of clauses after the statement.
const LATER: [&str; 6] = ["order", "limit", "offset", "union", "except", "intersect"];

fn pivoted(clauses: &Clauses<'_, '_>, out: &mut String) -> Option<usize> {
    let on = clauses.find(1, &["on"]);
    if on == clauses.end {
        return None;
    }
    let source = clauses.text(1, on);
    let using = clauses.find(on, &["using"]);
    let later = clauses.find(on, &LATER);
    let group = clauses.find(on, &["group"]).min(later);
    let using = if using < group { using } else { group };
    let aggregates = if using < group { clauses.text(using + 1, group) } else { "count(*)".to_string() };
    let groups = match group < later {
        true => {
            let by = next(clauses.tokens, group + 1).filter(|&by| clauses.is(by, "by"))?;
            format!(", {GROUPS}({})", clauses.text(by + 1, later))
        }
        false => String::new(),
    };
    let columns = clauses.list(on + 1, using);
    let column = |&(from, to): &(usize, usize)| {
        let values = clauses.find(from, &["in"]).min(to);
        let list = (values < to).then(|| clauses.text(values + 1, to));
        (clauses.text(from, values), list)
    };
    let columns: Vec<(String, Option<String>)> = columns.iter().map(column).collect();
    if source.is_empty() || columns.iter().any(|(column, _)| column.is_empty()) {
        return None;
    }
    let (named, values) = match &columns[..] {
        [(column, Some(list))] => (format!("({column})"), list.clone()),
        columns => {
            let named = columns.iter().map(|(column, list)| match list {
                Some(list) => {
                    let values = list.trim_start_matches('(').strip_suffix(')').unwrap_or(list);
                    format!("{VALUES}({column}, {values})")
                }
                None => format!("({column})"),
            });
            (named.collect::<Vec<_>>().join(", "), "(ANY)".to_string())
        }
    };
    out.push_str(&format!("SELECT * FROM {source} PIVOT ({aggregates}{groups} FOR ({named}) IN {values}) "));
    Some(later)
}

fn unpivoted(clauses: &Clauses<'_, '_>, out: &mut String) -> Option<usize> {
    let on = clauses.find(1, &["on"]);
    if on == clauses.end {
        return None;
    }
    let mut source = clauses.text(1, on);
    let nulls = source.to_ascii_lowercase().strip_suffix("include nulls").map(str::len);
    if let Some(length) = nulls {
        source.truncate(length);
    }
    let later = clauses.find(on, &LATER);
    let into = clauses.find(on, &["into"]).min(later);
    let (mut name, mut value) = ("name".to_string(), "value".to_string());
    if into < later {
        let called = next(clauses.tokens, into + 1).filter(|&at| clauses.is(at, "name"))?;
        let values = clauses.find(called + 1, &["value"]).min(later);
        name = clauses.text(called + 1, values);
        let listed = clauses.text(values + 1, later);
        value = if clauses.list(values + 1, later).len() > 1 { format!("({listed})") } else { listed };
    }
    let columns = clauses.list(on + 1, into).into_iter().map(|(from, to)| match clauses.text(from, to) {
        all if all == "*" => "COLUMNS(*)".to_string(),
        column => column,
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    if source.is_empty() || columns.is_empty() || name.is_empty() || value.is_empty() {
        return None;
    }
    let nulls = if nulls.is_some() { "INCLUDE NULLS " } else { "" };
    out.push_str(&format!("SELECT * FROM {source} UNPIVOT {nulls}({value} FOR {name} IN ({columns})) "));
    Some(later)
}
