//! `FROM t AT (VERSION => n)`, which the parser does not know, rewritten to a table name that includes the version.

use std::borrow::Cow;

use crate::catalog::version_name;
use crate::pieces::{Piece, pieces};

/// Words that may follow a table without being its alias.
const FOLLOWING: [&str; 33] = [
    "where",
    "join",
    "left",
    "right",
    "inner",
    "outer",
    "full",
    "cross",
    "on",
    "using",
    "group",
    "order",
    "limit",
    "union",
    "intersect",
    "except",
    "having",
    "natural",
    "window",
    "qualify",
    "offset",
    "fetch",
    "select",
    "set",
    "when",
    "asof",
    "semi",
    "anti",
    "positional",
    "tablesample",
    "pivot",
    "unpivot",
    "for",
];

/// `sql` with `t AT (VERSION => n)` replaced by names of versions.
pub(crate) fn named(sql: &str) -> Cow<'_, str> {
    let has = |word: &str| sql.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()));
    if !has("version") || !has("=>") {
        return Cow::Borrowed(sql);
    }
    let all: Vec<(Piece, &str)> = pieces(sql).collect();
    let told: Vec<usize> = (0..all.len()).filter(|&at| !matches!(all[at].0, Piece::Space | Piece::Comment)).collect();
    let (mut out, mut copied) = (String::new(), 0);
    for window in 0..told.len() {
        let Some([table, word, rest @ ..]) = told.get(window..).and_then(|told| told.get(..8)) else { break };
        let is_name = match all[*table] {
            (Piece::Word, _) => true,
            (Piece::Quoted, name) => name.starts_with('"'),
            _ => false,
        };
        let texts: Vec<&str> = rest.iter().map(|&at| all[at].1).collect();
        let ["(", version, "=", ">", number, ")"] = texts[..] else { continue };
        let fits = is_name && all[*word].1.eq_ignore_ascii_case("at") && version.eq_ignore_ascii_case("version");
        let Some(number) = number.parse::<u64>().ok().filter(|_| fits && *table >= copied) else { continue };
        out.extend(all[copied..*table].iter().map(|(_, text)| *text));
        let name = match all[*table] {
            (Piece::Quoted, name) => name.trim_matches('"').replace("\"\"", "\""),
            (_, name) => name.to_string(),
        };
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        out.push_str(&quoted(&version_name(&name, number)));
        let next = told.get(window + 8).map(|&at| all[at]);
        let has_alias = match next {
            Some((Piece::Word, next)) => !FOLLOWING.iter().any(|word| next.eq_ignore_ascii_case(word)),
            Some((Piece::Quoted, next)) => next.starts_with('"'),
            _ => false,
        };
        if !has_alias {
            out.push_str(&format!(" AS {}", quoted(&name)));
        }
        copied = rest[5] + 1;
    }
    if copied == 0 {
        return Cow::Borrowed(sql);
    }
    out.extend(all[copied..].iter().map(|(_, text)| *text));
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn versions_get_names() {
        assert_eq!(named("FROM t AT (VERSION => 3)"), "FROM \"\u{1}version 3 t\" AS \"t\"");
        assert_eq!(named("FROM s.\"a b\" at(version=>12) x JOIN u"), "FROM s.\"\u{1}version 12 a b\" x JOIN u");
        assert_eq!(named("FROM t AT (VERSION => 3) WHERE a"), "FROM \"\u{1}version 3 t\" AS \"t\" WHERE a");
        for same in ["SELECT 't AT (VERSION => 3)'", "SELECT version(a) => 3", "FROM t AT (VERSION => x)"] {
            assert_eq!(named(same), same);
        }
    }
}
