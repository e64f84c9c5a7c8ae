//! Case conversion by Unicode's *simple* mapping, one code point for one, as in DuckDB and C libraries.
//!
//! Rust (and DataFusion's `upper` and `lower`) use the full mapping, where `ß` becomes `SS`. Letters that got a counterpart after Unicode 14 are not
//! converted: hosts' tables have version 14.

/// The upper-case letter; `c` if there is none.
pub fn upper(c: char) -> char {
    match c {
        'ß' => 'ẞ',
        // The full mapping has two letters; the title case is one code point.
        '\u{1F80}'..='\u{1F87}' | '\u{1F90}'..='\u{1F97}' | '\u{1FA0}'..='\u{1FA7}' => moved(c, 8),
        '\u{1FB3}' | '\u{1FC3}' | '\u{1FF3}' => moved(c, 9),
        c => only(c, c.to_uppercase()),
    }
}

/// The lower-case letter; `c` if there is none.
pub fn lower(c: char) -> char {
    match c {
        'İ' => 'i',
        c => only(c, c.to_lowercase()),
    }
}

/// `upper` or `lower` of every character of `text`.
pub fn mapped(text: &str, upper_case: bool) -> String {
    text.chars().map(if upper_case { upper } else { lower }).collect()
}

fn moved(c: char, by: u32) -> char {
    char::from_u32(u32::from(c) + by).unwrap_or(c)
}

fn only(c: char, mut mapping: impl ExactSizeIterator<Item = char>) -> char {
    let single = (mapping.len() == 1).then(|| mapping.next()).flatten();
    single.filter(|&other| !is_paired_lately(c) && !is_paired_lately(other)).unwrap_or(c)
}

/// Letters whose counterpart was added in Unicode 15 to 17.
fn is_paired_lately(c: char) -> bool {
    matches!(
        c,
        '\u{1C89}'..='\u{1C8A}'
            | '\u{A7CB}'..='\u{A7CF}'
            | '\u{A7D2}'..='\u{A7D5}'
            | '\u{A7DA}'..='\u{A7DC}'
            | '\u{10D50}'..='\u{10D85}'
            | '\u{16EA0}'..='\u{16ED3}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_letter_for_one() {
        assert_eq!(mapped("Straße ŉ ǰ ﬁ ᾳ ᾀ", true), "STRAẞE ŉ ǰ ﬁ ᾼ ᾈ");
        assert_eq!(mapped("ΟΔΟΣ İI ẞ ᾈ ΑΣ", false), "οδοσ ii ß ᾀ ασ");
        for c in ['\u{19B}', '\u{264}', '\u{1C89}', '\u{A7CB}', '\u{10D50}', '\u{16EA0}', '\u{16EBB}', '1', 'ª'] {
            assert_eq!((upper(c), lower(c)), (c, c), "{c:?}");
        }
        assert_eq!((upper('ǆ'), lower('ǅ'), upper('ÿ'), upper('µ')), ('Ǆ', 'ǆ', 'Ÿ', 'Μ'));
    }
}
