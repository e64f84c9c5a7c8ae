//! Splits SQL texts into pieces as the parser does, for code that inspects a text before it is parsed.

/// The kind of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// One character of white space.
    Space,
    /// A comment to the end of its line, or between `/*` and `*/`; the latter nest.
    Comment,
    /// A string or a quoted name, with its quotes: `'it''s'`, `E'it\'s'`, `$tag$it's$tag$`, `"a name"`.
    Quoted,
    /// A name without quotes, a keyword, or a number up to its point.
    Word,
    /// One other character.
    Other,
}

/// The pieces of `text`, one after the other.
pub fn pieces(text: &str) -> impl Iterator<Item = (Piece, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, length) = first_piece(rest)?;
        let (found, after) = rest.split_at(length);
        rest = after;
        Some((piece, found))
    })
}

/// The first piece of `text`, and its length in bytes; `None` for an empty text. An unclosed piece ends with the text.
pub fn first_piece(text: &str) -> Option<(Piece, usize)> {
    let first = text.chars().next()?;
    let one = first.len_utf8();
    Some(match text.as_bytes() {
        [b'\'' | b'"' | b'`', ..] => (Piece::Quoted, after(text, one, &text[..one])),
        [b'e' | b'E', b'\'', ..] => (Piece::Quoted, escaped(text)),
        [b'-', b'-', ..] => (Piece::Comment, text.find('\n').unwrap_or(text.len())),
        [b'/', b'*', ..] => (Piece::Comment, comment(text)),
        [b'$', ..] => match tag(text) {
            Some(tag) => (Piece::Quoted, after(text, tag.len(), tag)),
            None => (Piece::Other, one),
        },
        _ if first.is_whitespace() => (Piece::Space, one),
        _ if is_word(first) || matches!(first, '@' | '#') => {
            let end = |c: char| !is_word(c) && (first.is_ascii_digit() || !matches!(c, '@' | '#' | '$'));
            (Piece::Word, text[one..].find(end).map_or(text.len(), |end| one + end))
        }
        _ => (Piece::Other, one),
    })
}

/// The statements of `text`, without the semicolons between them and without empty ones.
pub fn statements(text: &str) -> Vec<&str> {
    let (mut found, mut begin, mut at, mut empty) = (vec![], 0, 0, true);
    for (piece, part) in pieces(text) {
        if (piece, part) == (Piece::Other, ";") {
            if !empty {
                found.push(text[begin..at].trim());
            }
            (begin, empty) = (at + part.len(), true);
        } else if !matches!(piece, Piece::Space | Piece::Comment) {
            empty = false;
        }
        at += part.len();
    }
    if !empty {
        found.push(text[begin..].trim());
    }
    found
}

/// Adds the parameter `$n` to a text, apart from a word that it ends with.
pub fn push_parameter(text: &mut String, n: usize) {
    if text.ends_with(|c| is_word(c) || matches!(c, '$' | '@' | '#')) {
        text.push(' ');
    }
    text.push_str(&format!("${n}"));
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The position after the next `end` in `text` from `from` on. A doubled quote ends one string and begins the next.
fn after(text: &str, from: usize, end: &str) -> usize {
    text[from..].find(end).map_or(text.len(), |found| from + found + end.len())
}

/// The length of a string with escapes.
fn escaped(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 2;
    while at < bytes.len() {
        at += match bytes[at] {
            b'\\' => 2,
            b'\'' if bytes.get(at + 1) == Some(&b'\'') => 2,
            b'\'' => return at + 1,
            _ => 1,
        };
    }
    text.len()
}

/// The length of a comment.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while let Some(next) = text[at..].find(['/', '*']) {
        at += next;
        match text.as_bytes().get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The `$$` or `$tag$` that `text` begins with.
fn tag(text: &str) -> Option<&str> {
    let end = 1 + text[1..].find(|c| !is_word(c))?;
    text[end..].starts_with('$').then(|| &text[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quoted(text: &str) -> Vec<&str> {
        pieces(text).filter(|(piece, _)| *piece == Piece::Quoted).map(|(_, text)| text).collect()
    }

    #[test]
    fn strings_and_names() {
        assert_eq!(quoted("'a''b', \"c\"\"d\" `e`"), ["'a'", "'b'", "\"c\"", "\"d\"", "`e`"]);
        assert_eq!(quoted(r"E'it\'s ''one''' || e'\\'"), [r"E'it\'s ''one'''", r"e'\\'"]);
        // The last letter of a word is not a string prefix.
        assert_eq!(quoted(r"type'a\' b"), [r"'a\'"]);
        assert_eq!(quoted("$$it's$$ $a$ $$ $a$ $1 + $2 $a"), ["$$it's$$", "$a$ $$ $a$"]);
        assert_eq!(quoted("'open"), ["'open"]);
        assert_eq!(quoted(r"E'open\"), [r"E'open\"]);
    }

    #[test]
    fn statements_are_told_apart() {
        assert_eq!(statements("SELECT ';' -- ;\n; ;/* ; */; INSERT 1;"), ["SELECT ';' -- ;", "INSERT 1"]);
        assert_eq!(statements(" ; -- nothing"), [""; 0]);
    }

    #[test]
    fn comments_and_words() {
        let found: Vec<_> = pieces("a$1 -- 'x'\n/* /* */ ' */1_0.5").collect();
        let comments = [(Piece::Comment, "-- 'x'"), (Piece::Space, "\n"), (Piece::Comment, "/* /* */ ' */")];
        assert_eq!(found[..2], [(Piece::Word, "a$1"), (Piece::Space, " ")]);
        assert_eq!(found[2..5], comments);
        assert_eq!(found[5..], [(Piece::Word, "1_0"), (Piece::Other, "."), (Piece::Word, "5")]);
    }

    proptest! {
        #[test]
        fn pieces_are_the_whole_text(text in "[eE$'\"`/*\\\\a1_é \n-]{0,40}") {
            prop_assert_eq!(pieces(&text).map(|(_, text)| text).collect::<String>(), text);
        }
    }
}
