//! Conversion of drivers' placeholders (`?`, `$1`, `$name`) to the engine's `$1`, `$2`, ...

use warpmill::pieces::{Piece, first_piece, push_parameter};

/// A statement with numbered placeholders.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    /// The text.
    pub sql: String,
    /// The names of the parameters, in order; `1`, `2`, ... for unnamed ones.
    pub names: Vec<String>,
}

/// Numbers the placeholders of a statement: `?` by position, `$name` by first appearance. Strings, quoted names and comments are not changed.
///
/// # Errors
/// Placeholders of different kinds in one statement; numbers beyond [`MAX`].
pub(crate) fn number(sql: &str) -> Result<Numbered, String> {
    let (mut out, mut rest) = (String::with_capacity(sql.len()), sql);
    let (mut names, mut kind, mut largest) = (Vec::<String>::new(), None, 0);
    while let Some((piece, length)) = first_piece(rest) {
        let name = match piece {
            Piece::Other if rest.starts_with('$') => {
                let end = rest[1..].find(|c: char| !c.is_alphanumeric() && c != '_').map_or(rest.len(), |end| end + 1);
                &rest[1..end]
            }
            _ => "",
        };
        let skipped = if name.is_empty() { length } else { 1 + name.len() };
        let this = match piece {
            Piece::Other if rest.starts_with('?') => Kind::Mark,
            _ if name.is_empty() => {
                out.push_str(&rest[..skipped]);
                rest = &rest[skipped..];
                continue;
            }
            _ if name.bytes().all(|byte| byte.is_ascii_digit()) => Kind::Number,
            _ => Kind::Name,
        };
        if kind.replace(this).is_some_and(|before| before != this) {
            return Err("a statement cannot mix placeholders of several kinds (?, $1, $name)".into());
        }
        let n = match this {
            Kind::Number => name.parse().ok().filter(|n| (1..=MAX).contains(n)),
            Kind::Mark => Some(largest + 1),
            Kind::Name => Some(names.iter().position(|known| known == name).map_or(names.len(), |at| at) + 1),
        };
        let n = n.filter(|n| *n <= MAX).ok_or_else(|| format!("placeholders are numbered from $1 to ${MAX}"))?;
        if this == Kind::Name && n > names.len() {
            names.push(name.to_string());
        }
        largest = largest.max(n);
        push_parameter(&mut out, n);
        rest = &rest[skipped..];
        // The next character must not become part of the number, or close a dollar quote.
        if this == Kind::Mark && rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$')) {
            out.push(' ');
        }
    }
    names.extend((names.len()..largest).map(|n| (n + 1).to_string()));
    Ok(Numbered { sql: out, names })
}

/// Largest number of parameters of a statement.
const MAX: usize = 10_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Mark,
    Number,
    Name,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbered(sql: &str) -> (String, Vec<String>) {
        let found = number(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        (found.sql, found.names)
    }

    #[test]
    fn marks_numbers_and_names() {
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        assert_eq!(numbered("a = ? AND b = ?"), ("a = $1 AND b = $2".into(), names(&["1", "2"])));
        assert_eq!(numbered("a = $2 OR $1 OR $2"), ("a = $2 OR $1 OR $2".into(), names(&["1", "2"])));
        assert_eq!(numbered("$lo < x AND x < $hi AND $lo > 0").0, "$1 < x AND x < $2 AND $1 > 0");
        assert_eq!(numbered("$lo + $hi").1, names(&["lo", "hi"]));
        assert_eq!(numbered("SELECT 1"), ("SELECT 1".into(), vec![]));
    }

    #[test]
    fn quotes_and_comments_are_left_alone() {
        let text = "SELECT '?''$1', \"?\", 1-1/1 -- ?\n, /* ? /* $1 */ ? */ 'ü', $";
        assert_eq!(numbered(text), (text.to_string(), vec![]));
        let text = r"$$?$$, $a$ ? $1 $a$, E'it\'s ?', `?`, a$1";
        assert_eq!(numbered(text), (text.to_string(), vec![]));
        assert_eq!(numbered("'open ?").1.len(), 0);
        assert_eq!(numbered("/* open ?").1.len(), 0);
    }

    #[test]
    fn mixed_kinds_and_large_numbers_are_refused() {
        for sql in ["? + $1", "$1 + $a", "$0", "$99999", "$99999999999999999999999"] {
            assert!(number(sql).is_err(), "{sql}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_numbered_or_refused(text in "[?$'\"/*\\-a1 é\n]{0,40}") {
            if let Ok(found) = number(&text) {
                let again = number(&found.sql).unwrap();
                prop_assert_eq!(again.names.len(), found.names.len());
                prop_assert_eq!(again.sql, found.sql);
            }
        }
    }
}
