//! Texts of statements without the values of their literals.

use std::fmt::Write;

use crate::pieces::{Piece, pieces};

/// A text with a mark in the place of each number and string.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The text. A mark tells all of a number that types depend on: digits before and after the point, and the integer types that hold it.
    pub key: String,
    /// The literals, in the order of the text.
    pub literals: Vec<LiteralText>,
}

/// A literal of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LiteralText {
    /// The byte of the text that it begins at.
    pub at: usize,
    /// The number as it is written, or the characters between the quotes.
    pub text: String,
    /// Whether it is a string.
    pub is_string: bool,
}

/// The character that marks begin with: no text that has it has a shape.
const MARK: char = '\u{1}';

impl Shape {
    /// The shape of a text on one line with single spaces ([`crate::plan_cache::normalized`]); `None` where positions in it would be
    /// ambiguous, and for texts without literals.
    pub fn of(text: &str) -> Option<Self> {
        if !text.is_ascii() || text.contains([MARK, '\n', '\r', '\t']) {
            return None;
        }
        let mut shape = Self { key: String::with_capacity(text.len()), literals: vec![] };
        let parts: Vec<(Piece, &str)> = pieces(text).collect();
        let (mut next, mut at) = (0, 0);
        while let Some(&(piece, part)) = parts.get(next) {
            let (mark, used) = match piece {
                Piece::Quoted => {
                    // A doubled quote is where two pieces meet.
                    let pieces = parts[next..].iter().take_while(|(piece, _)| *piece == Piece::Quoted).count();
                    (if pieces == 1 { string(part) } else { None }, pieces)
                }
                Piece::Word if !text[..at].ends_with(['.', '$', '@', '#', ':']) => number(&parts[next..]),
                _ => (None, 1),
            };
            let length = parts[next..next + used].iter().map(|(_, part)| part.len()).sum::<usize>();
            match mark {
                Some((class, text, is_string)) => {
                    let _ = write!(shape.key, "{MARK}{class}{MARK}");
                    shape.literals.push(LiteralText { at, text, is_string });
                }
                None => shape.key.push_str(&text[at..at + length]),
            }
            (next, at) = (next + used, at + length);
        }
        (!shape.literals.is_empty()).then_some(shape)
    }
}

type Mark = Option<(String, String, bool)>;

/// The mark of a plain string.
fn string(part: &str) -> Mark {
    let inner = part.strip_prefix('\'')?.strip_suffix('\'')?;
    let plain = !inner.contains(['\'', '\\']);
    plain.then(|| ("s".to_owned(), inner.to_owned(), true))
}

/// The mark of a number that `parts` begin with, and how many of them it takes.
fn number(parts: &[(Piece, &str)]) -> (Mark, usize) {
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = match parts {
        [(Piece::Word, whole), (Piece::Other, "."), (Piece::Word, fraction), ..] => (*whole, Some(*fraction)),
        // `1.` and `1..2` are left as they are.
        [_, (Piece::Other, "."), ..] => return (None, 1),
        [(_, whole), ..] => (*whole, None),
        [] => return (None, 1),
    };
    let plain = is_digits(whole) && fraction.is_none_or(is_digits) && (whole.len() == 1 || !whole.starts_with('0'));
    let Some(value) = whole.parse::<i64>().ok().filter(|_| plain) else { return (None, 1) };
    match fraction {
        None => (Some((format!("i{}.{}", whole.len(), held_by(value)), whole.to_owned(), false)), 1),
        Some(fraction) => {
            let zero = if value == 0 { "z" } else { "" };
            (Some((format!("d{}.{}{zero}", whole.len(), fraction.len()), format!("{whole}.{fraction}"), false)), 3)
        }
    }
}

/// The number of the smallest integer type that holds a value, with and without sign.
fn held_by(value: i64) -> usize {
    const LIMITS: [i64; 6] =
        [i8::MAX as i64, u8::MAX as i64, i16::MAX as i64, u16::MAX as i64, i32::MAX as i64, u32::MAX as i64];
    LIMITS.iter().filter(|&&limit| value > limit).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(sql: &str) -> Vec<String> {
        Shape::of(sql).map_or_else(Vec::new, |shape| shape.literals.into_iter().map(|literal| literal.text).collect())
    }

    #[test]
    fn literals_are_found_where_they_are() {
        let sql = "SELECT t1.c2, 'a b' FROM t1 WHERE x > 10 AND y BETWEEN 0.05 AND 1.50 AND d < DATE '1995-01-01'";
        let shape = Shape::of(sql).unwrap();
        assert_eq!(texts(sql), ["a b", "10", "0.05", "1.50", "1995-01-01"]);
        for literal in &shape.literals {
            let quote = if literal.is_string { "'" } else { "" };
            assert!(sql[literal.at..].starts_with(&format!("{quote}{}{quote}", literal.text)));
        }
    }

    #[test]
    fn others_stay_in_the_key() {
        for sql in
            ["SELECT t.1", "SELECT $1", "SELECT 1e5", "SELECT 1.", "SELECT 'it''s'", "SELECT 007", "SELECT \"1\""]
        {
            assert_eq!(texts(sql), Vec::<String>::new(), "{sql}");
        }
        assert!(Shape::of("SELECT 1 FROM é").is_none() && Shape::of("SELECT 'a\nb', 1").is_none());
    }

    #[test]
    fn keys_are_equal_where_types_are() {
        let key = |sql: &str| Shape::of(sql).unwrap().key;
        assert_eq!(key("SELECT 'a', 12, 0.05"), key("SELECT 'bcd', 99, 0.40"));
        for (left, right) in [("100", "200"), ("9", "10"), ("0.5", "1.5"), ("0.5", "0.50"), ("1", "'1'")] {
            assert_ne!(key(&format!("SELECT {left}")), key(&format!("SELECT {right}")), "{left} {right}");
        }
    }
}
