//! The shapes of statement texts: the texts without their constants.
//!
//! Texts of one shape differ only in constants that are compared or computed with (`+ - * /`), and in members of IN lists: numbers of equal types,
//! and strings. Constants with another meaning by their position (column positions, limits, interval units) are part of the shape. The meaning of a
//! constant is not decided here: wrongly extracted constants are detected when the text is bound with parameters.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;

use crate::ScalarValue;
use crate::pieces::{Piece, pieces};

/// The first character of a constant's kind in a shape, which occurs in no text.
pub(crate) const KIND: char = '\u{1}';

/// Digits of the longest numbers that are taken out.
const DIGITS: usize = 18;

/// The longest text, in bytes, whose constants are extracted.
pub(crate) const LONGEST: usize = 1 << 16;

/// Units of intervals that are taken out with their numbers: `INTERVAL '90' DAY`.
const UNITS: [&str; 5] = ["day", "month", "year", "hour", "minute"];

/// Keywords after which a constant may stand.
const BEFORE: [&str; 5] = ["between", "and", "like", "ilike", "escape"];

/// A text apart from its constants.
#[derive(Debug)]
pub(crate) struct Shape<'t> {
    /// The text with the kinds of constants in their places.
    pub key: String,
    pub constants: Vec<ScalarValue>,
    text: &'t str,
    /// The places of the constants; empty: they are the text's parameters.
    places: Vec<Place>,
}

/// The place of a constant in a text.
#[derive(Debug)]
pub(crate) struct Place {
    pub bytes: Range<usize>,
    /// The type keyword before it, as in `DATE '2020-01-01'`.
    pub ty: Option<&'static str>,
}

impl<'t> Shape<'t> {
    /// The shape of a text; `params` are its constants, if there are any.
    pub fn of(text: &'t str, params: &[ScalarValue]) -> Self {
        if !params.is_empty() {
            return Self::of_params(text, params);
        }
        if text.len() > LONGEST {
            return Self { key: String::new(), constants: vec![], text, places: vec![] };
        }
        let tokens = tokens(text);
        let begins = beginnings(&tokens);
        Self::of_constants(text, (0..tokens.len()).filter_map(|at| constant(text, &tokens, at, &begins)))
    }

    /// The shape of a text whose constants are its parameters.
    pub fn of_params(text: &'t str, params: &[ScalarValue]) -> Self {
        let mut key = text.to_string();
        for param in params {
            let _ = write!(key, "{KIND}{}", param.data_type());
        }
        Self { key, constants: params.to_vec(), text, places: vec![] }
    }

    /// The shape of a text with constants in these places, in order.
    pub fn of_constants(text: &'t str, constants: impl IntoIterator<Item = (Place, ScalarValue)>) -> Self {
        let mut shape = Self { key: String::with_capacity(text.len()), constants: vec![], text, places: vec![] };
        let mut copied = 0;
        for (place, value) in constants {
            shape.key.push_str(&text[copied..place.bytes.start]);
            let _ = write!(shape.key, "{KIND}{}{}", place.ty.unwrap_or_default(), kind(&value));
            copied = place.bytes.end;
            shape.constants.push(value);
            shape.places.push(place);
        }
        shape.key.push_str(&text[copied..]);
        shape
    }

    /// The text with parameters in place of constants, and their values. The `chosen` ones carry their positions; other constants of the text stay in
    /// it.
    pub fn with_parameters(&self, chosen: &BTreeSet<usize>) -> (String, Vec<(ScalarValue, Option<usize>)>) {
        if self.places.is_empty() {
            let numbered = |(at, value): (usize, &ScalarValue)| (value.clone(), chosen.contains(&at).then_some(at));
            return (self.text.to_string(), self.constants.iter().enumerate().map(numbered).collect());
        }
        let (mut text, mut given, mut copied) = (String::new(), vec![], 0);
        for &at in chosen {
            let Place { bytes, ty } = &self.places[at];
            given.push((self.constants[at].clone(), Some(at)));
            text.push_str(&self.text[copied..bytes.start]);
            let _ = match ty {
                Some(ty) => write!(text, " CAST(${} AS {ty}) ", given.len()),
                None => write!(text, " ${} ", given.len()),
            };
            copied = bytes.end;
        }
        text.push_str(&self.text[copied..]);
        (text, given)
    }
}

/// A piece of a text that is neither space nor comment, with its position.
pub(crate) struct Token<'t> {
    pub piece: Piece,
    pub text: &'t str,
    pub bytes: Range<usize>,
}

impl Token<'_> {
    /// Whether it is this keyword.
    pub fn is(&self, word: &str) -> bool {
        self.piece == Piece::Word && self.text.eq_ignore_ascii_case(word)
    }

    /// Whether a constant may follow, to be compared or computed with.
    fn is_before_constants(&self) -> bool {
        match self.piece {
            Piece::Other => matches!(self.text, "=" | "<" | ">" | "+" | "-" | "*" | "/"),
            Piece::Word => BEFORE.iter().any(|word| self.is(word)),
            _ => false,
        }
    }

    pub fn is_digits(&self) -> bool {
        self.piece == Piece::Word && self.text.bytes().all(|byte| byte.is_ascii_digit())
    }
}

/// The tokens of a text: a number with a point is one token, and so is a string with doubled quotes.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens: Vec<Token<'_>> = vec![];
    let mut at = 0;
    for (piece, piece_text) in pieces(text) {
        let bytes = at..at + piece_text.len();
        at = bytes.end;
        if matches!(piece, Piece::Space | Piece::Comment) {
            continue;
        }
        // A doubled quote continues a string.
        if let Some(last) = tokens.last_mut()
            && (last.piece, piece) == (Piece::Quoted, Piece::Quoted)
            && last.bytes.end == bytes.start
        {
            last.bytes.end = bytes.end;
            last.text = &text[last.bytes.clone()];
            continue;
        }
        tokens.push(Token { piece, text: piece_text, bytes });
        if let [.., whole, point, digits] = tokens.as_slice()
            && whole.is_digits()
            && point.text == "."
            && digits.is_digits()
            && whole.bytes.end == point.bytes.start
            && point.bytes.end == digits.bytes.start
        {
            let bytes = whole.bytes.start..digits.bytes.end;
            tokens.truncate(tokens.len() - 3);
            tokens.push(Token { piece: Piece::Word, text: &text[bytes.clone()], bytes });
        }
    }
    tokens
}

/// For each token, whether a constant may begin there: after comparisons and arithmetic operators, and in lists after IN.
fn beginnings(tokens: &[Token<'_>]) -> Vec<bool> {
    let mut lists = vec![];
    let mut beginnings = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.iter().enumerate() {
        let last = at.checked_sub(1).map(|last| &tokens[last]);
        let is_member = lists.last() == Some(&true) && last.is_some_and(|last| matches!(last.text, "(" | ","));
        beginnings.push(is_member || last.is_some_and(Token::is_before_constants));
        match token.text {
            "(" => lists.push(last.is_some_and(|last| last.is("in"))),
            ")" => drop(lists.pop()),
            _ => {}
        }
    }
    beginnings
}

/// The constant that ends with token `at`.
fn constant(text: &str, tokens: &[Token<'_>], at: usize, begins: &[bool]) -> Option<(Place, ScalarValue)> {
    let token = &tokens[at];
    let before = |count: usize| at.checked_sub(count).map(|before| &tokens[before]);
    let place = |first: usize, ty| Place { bytes: tokens[first].bytes.start..token.bytes.end, ty };
    if let (Some(interval), Some(number)) = (before(2), before(1))
        && interval.is("interval")
        && begins[at - 2]
    {
        let unit = UNITS.into_iter().find(|unit| token.is(unit))?;
        let digits = number.text.trim_matches('\'');
        let is_number = !digits.is_empty() && digits.len() <= 9 && digits.bytes().all(|byte| byte.is_ascii_digit());
        return is_number.then(|| (place(at - 2, Some("INTERVAL")), ScalarValue::from(format!("{digits} {unit}"))));
    }
    // Digits and quotes directly after another token belong to it: `$1`, `a.1`, `1e`, `E'..'`.
    let continues = before(1).is_some_and(|last| last.bytes.end == token.bytes.start) && !begins[at];
    match token.piece {
        _ if continues => None,
        Piece::Quoted => {
            let ty = ["DATE", "TIMESTAMP"].into_iter().find(|ty| before(1).is_some_and(|last| last.is(ty)));
            let first = if ty.is_some() { at - 1 } else { at };
            begins[first].then_some(())?;
            Some((place(first, ty), string(token.text)?))
        }
        Piece::Word => {
            let is_signed = before(1).is_some_and(|last| last.text == "-") && begins[at - 1];
            let first = if is_signed { at - 1 } else { at };
            begins[first].then_some(())?;
            Some((place(first, None), number(&text[token.bytes.clone()], is_signed)?))
        }
        _ => None,
    }
}

/// The value of a string without escapes.
pub(crate) fn string(text: &str) -> Option<ScalarValue> {
    let inner = text.strip_prefix('\'')?.strip_suffix('\'')?;
    (text.len() >= 2 && !inner.contains(['\'', '\\'])).then(|| ScalarValue::from(inner))
}

/// The value of a number, as the planner reads it: BIGINT, or a decimal with as many digits as written.
pub(crate) fn number(text: &str, negative: bool) -> Option<ScalarValue> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let unsigned: i64 = digits.parse().ok()?;
    let value = if negative { -unsigned } else { unsigned };
    if fraction.is_empty() {
        return Some(ScalarValue::Int64(Some(value)));
    }
    let count = unsigned.checked_ilog10().unwrap_or(0) as usize + 1;
    let (precision, scale) = (u8::try_from(count.max(fraction.len())).ok()?, i8::try_from(fraction.len()).ok()?);
    Some(ScalarValue::Decimal128(Some(value.into()), precision, scale))
}

/// The kind of a constant: constants of one kind lead to the same types.
pub(crate) fn kind(value: &ScalarValue) -> String {
    match value {
        // The planner distinguishes INTEGER and BIGINT.
        ScalarValue::Int64(Some(value)) if i32::try_from(*value).is_err() => "long".into(),
        value => value.data_type().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constants of a text, formatted.
    fn constants(text: &str) -> Vec<String> {
        Shape::of(text, &[]).constants.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_compared_is_a_constant() {
        let text =
            "SELECT 1, a + 2 FROM t WHERE b = 3 AND c >= -4 AND d BETWEEN 0.05 AND 0.07 AND e LIKE 'x%' LIMIT 10";
        assert_eq!(constants(text), ["2", "3", "-4", "0.05", "0.07", "x%"]);
        assert_eq!(constants("a < DATE '2020-01-01' AND b > timestamp '2020-01-01 00:00:00'").len(), 2);
        assert_eq!(constants("a - 5 > b AND c > a -6 AND d > 1 - -7"), ["5", "6", "1", "-7"]);
        assert_eq!(
            constants("a < DATE '2020-01-01' + INTERVAL '90' DAY - INTERVAL 1 month"),
            ["2020-01-01", "90 day", "1 month"]
        );
        assert_eq!(constants("y = INTERVAL '1 day' AND z = f('a', 2) AND u > INTERVAL (1) DAY"), [""; 0]);
        let lists = "x IN (1, -2,'a') AND y NOT IN('b') AND z IN (f(3, 4), DATE '2020-01-01')";
        assert_eq!(constants(lists), ["1", "-2", "a", "b", "2020-01-01"]);
    }

    #[test]
    fn what_only_looks_like_a_constant_is_none() {
        for text in [
            "a = $1",
            "a = b1",
            "a = 1e5",
            "a = 0x1F",
            "a = 1_000",
            "a = .5",
            "a = E'x'",
            "a = 'it''s'",
            "a = $$x$$",
            "a = \"b\"",
            "a = 1234567890123456789",
            "ORDER BY 1",
            "a = x'00'",
        ] {
            assert_eq!(constants(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn shapes_are_equal_for_constants_of_one_kind() {
        let key = |text: &str| Shape::of(text, &[]).key;
        assert_eq!(key("SELECT a FROM t WHERE b = 5"), key("SELECT a FROM t WHERE b = -77"));
        assert_eq!(key("a = DATE '2020-01-01'"), key("a = DATE '1999-12-31'"));
        assert_eq!(key("a = 0.05"), key("a = 0.99"));
        for (one, other) in [
            ("a = 5", "a = 5.0"),
            ("a = 5", "a = 3000000000"),
            ("a = 0.5", "a = 0.55"),
            ("a = 1.5", "a = 10.5"),
            ("a = 5", "a = '5'"),
            ("a = DATE '2020-01-01'", "a = '2020-01-01'"),
            ("a = 5", "b = 5"),
            ("a = 5 LIMIT 1", "a = 5 LIMIT 2"),
        ] {
            assert_ne!(key(one), key(other), "{one} and {other}");
        }
    }

    #[test]
    fn chosen_constants_become_parameters() {
        let shape = Shape::of("a = 5 AND b > DATE '2020-01-01' AND c < -7", &[]);
        let (text, given) = shape.with_parameters(&BTreeSet::from([1, 2]));
        assert_eq!(text, "a = 5 AND b >  CAST($1 AS DATE)  AND c <  $2 ");
        assert_eq!(given.iter().map(|(_, number)| *number).collect::<Vec<_>>(), [Some(1), Some(2)]);
        let params = [ScalarValue::from(1i64), ScalarValue::from("x")];
        let (text, given) = Shape::of("a = $1 AND b = $2", &params).with_parameters(&BTreeSet::from([1]));
        assert_eq!(text, "a = $1 AND b = $2");
        assert_eq!(given, [(params[0].clone(), None), (params[1].clone(), Some(1))]);
    }

    #[test]
    fn decimals_have_the_digits_that_are_written() {
        for (text, precision, scale) in
            [("0.05", 2, 2), ("0.5", 1, 1), ("10.50", 4, 2), ("0.00", 2, 2), ("1.0", 2, 1), ("007.5", 2, 1)]
        {
            let Some(ScalarValue::Decimal128(_, p, s)) = number(text, false) else { panic!("{text}") };
            assert_eq!((p, s), (precision, scale), "{text}");
        }
    }
}
