//! Texts of the form `INSERT INTO table (columns) VALUES (constants), ...`, apart from their constants.

use datafusion::common::TableReference;

use crate::ScalarValue;
use crate::pieces::Piece;
use crate::templates::shape::{KIND, LONGEST, Place, Shape, Token, number, tokens};

/// The most constants of a text whose rows are known without planning: each has expressions of its own.
const MOST: usize = 256;

/// Words that stand for values, which remain part of the text.
const WORDS: [&str; 4] = ["null", "true", "false", "default"];

/// The text of an INSERT of rows of constants.
#[derive(Debug)]
pub(super) struct Rows<'t> {
    /// The text apart from its constants.
    pub shape: Shape<'t>,
    /// The name of the table as written.
    pub table: TableReference,
}

impl<'t> Rows<'t> {
    /// The rows of a normalized text; `params` are its constants, if there are any. `None`: another statement, or one with other expressions than
    /// constants.
    pub fn of(text: &'t str, params: &[ScalarValue]) -> Option<Self> {
        let begins = text.get(.."insert into ".len()).is_some_and(|first| first.eq_ignore_ascii_case("insert into "));
        if !begins || text.len() > LONGEST || params.len() > MOST {
            return None;
        }
        let tokens = tokens(text);
        let mut reader = Reader { tokens: &tokens, at: 2, has_params: !params.is_empty() };
        let table = reader.name()?;
        reader.columns()?;
        let cells = reader.rows()?;
        if !params.is_empty() {
            return Some(Self { shape: Shape::of_params(text, params), table });
        }
        if cells.is_empty() || cells.len() > MOST {
            return None;
        }
        let cells = cells.into_iter().map(|(place, value)| (place, narrowed(value)));
        Some(Self { shape: Shape::of_constants(text, cells), table })
    }
}

/// A number as the planner reads it: an INTEGER where it is one.
fn narrowed(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Int64(Some(long)) => i32::try_from(long).map_or(value, |int| ScalarValue::Int32(Some(int))),
        value => value,
    }
}

/// Reads the tokens of a statement in order. Each method returns `None` where the text is of another form.
struct Reader<'a, 't> {
    tokens: &'a [Token<'t>],
    at: usize,
    /// Whether the statement has parameters: then its constants stay in the text.
    has_params: bool,
}

impl<'a, 't> Reader<'a, 't> {
    fn next(&mut self) -> Option<&'a Token<'t>> {
        self.at += 1;
        self.tokens.get(self.at - 1)
    }

    /// Skips a token, if it is the next one.
    fn skips(&mut self, text: &str) -> bool {
        let found = self.tokens.get(self.at).is_some_and(|token| token.text.eq_ignore_ascii_case(text));
        self.at += usize::from(found);
        found
    }

    fn part_of_name(&mut self) -> Option<String> {
        let token = self.next()?;
        match token.piece {
            Piece::Word => Some(token.text.to_string()),
            Piece::Quoted => {
                let inner = token.text.strip_prefix('"')?.strip_suffix('"')?;
                Some(inner.replace("\"\"", "\""))
            }
            _ => None,
        }
    }

    fn name(&mut self) -> Option<TableReference> {
        let mut parts = vec![self.part_of_name()?];
        while self.skips(".") {
            parts.push(self.part_of_name()?);
        }
        match &parts[..] {
            [table] => Some(TableReference::bare(table.as_str())),
            [schema, table] => Some(TableReference::partial(schema.as_str(), table.as_str())),
            _ => None,
        }
    }

    /// The list of columns, if there is one.
    fn columns(&mut self) -> Option<()> {
        if !self.skips("(") {
            return Some(());
        }
        loop {
            self.part_of_name()?;
            if self.skips(")") {
                return Some(());
            }
            self.skips(",").then_some(())?;
        }
    }

    /// VALUES and the rows after it, up to the end of the text. Returns the places and the values of constants.
    fn rows(&mut self) -> Option<Vec<(Place, ScalarValue)>> {
        self.skips("values").then_some(())?;
        let mut cells = vec![];
        loop {
            self.skips("(").then_some(())?;
            loop {
                cells.extend(self.cell()?);
                if self.skips(")") {
                    break;
                }
                self.skips(",").then_some(())?;
            }
            if self.at == self.tokens.len() {
                return Some(cells);
            }
            self.skips(",").then_some(())?;
        }
    }

    /// A value; `Some(None)` for one that stays in the text.
    fn cell(&mut self) -> Option<Option<(Place, ScalarValue)>> {
        let first = self.at;
        let token = self.next()?;
        if WORDS.iter().any(|word| token.is(word)) || (self.has_params && token.text == "?") {
            return Some(None);
        }
        if self.has_params && token.text == "$" {
            return self.next().is_some_and(Token::is_digits).then_some(None);
        }
        let ty = ["DATE", "TIMESTAMP"].into_iter().find(|ty| token.is(ty));
        let is_signed = token.text == "-";
        let last = if ty.is_some() || is_signed { self.next()? } else { self.tokens.get(first)? };
        let value = match last.piece {
            Piece::Quoted if !is_signed => plain_text(last.text)?,
            Piece::Word if ty.is_none() => number(last.text, is_signed)?,
            _ => return None,
        };
        let bytes = self.tokens[first].bytes.start..last.bytes.end;
        Some((!self.has_params).then_some((Place { bytes, ty }, value)))
    }
}

/// The value of a string without escapes other than doubled quotes.
fn plain_text(text: &str) -> Option<ScalarValue> {
    let inner = text.strip_prefix('\'')?.strip_suffix('\'').filter(|_| text.len() >= 2)?;
    if inner.contains('\\') {
        return None;
    }
    let value = inner.replace("''", "\u{1}");
    (!value.contains('\'') && !inner.contains(KIND)).then(|| ScalarValue::from(value.replace('\u{1}', "'")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn rows(text: &str) -> Option<Rows<'_>> {
        Rows::of(text, &[])
    }

    #[test]
    fn constants_of_rows_are_found() {
        let rows =
            rows("insert into s.\"a b\" (x, \"y\") VALUES (1, 'it''s'), (-3000000000,DATE '2020-01-01'), (.5, NULL)");
        assert!(rows.is_none(), "numbers without a digit before the point stay with the planner");
        let text = "INSERT INTO s.\"a b\" (x, \"y\") VALUES (1, 'it''s'), (-3000000000,DATE '2020-01-01'), (0.5, NULL)";
        let rows = Rows::of(text, &[]).unwrap();
        assert_eq!(rows.table, TableReference::partial("s", "a b"));
        let values: Vec<String> = rows.shape.constants.iter().map(ToString::to_string).collect();
        assert_eq!(values, ["1", "it's", "-3000000000", "2020-01-01", "0.5"]);
        assert_eq!(rows.shape.constants[0], ScalarValue::Int32(Some(1)));
        assert_eq!(rows.shape.constants[2], ScalarValue::Int64(Some(-3_000_000_000)));
        let (text, given) = rows.shape.with_parameters(&BTreeSet::from([1, 3]));
        assert_eq!(
            text,
            "INSERT INTO s.\"a b\" (x, \"y\") VALUES (1,  $1 ), (-3000000000, CAST($2 AS DATE) ), (0.5, NULL)"
        );
        assert_eq!(given, [(rows.shape.constants[1].clone(), Some(1)), (rows.shape.constants[3].clone(), Some(3))]);
    }

    #[test]
    fn parameters_are_the_constants() {
        let params = [ScalarValue::from(1i64), ScalarValue::from("x")];
        let text = "INSERT INTO t VALUES ($1, ?, 3, NULL)";
        let rows = Rows::of(text, &params).unwrap();
        assert_eq!(rows.shape.constants, params);
        assert_ne!(rows.shape.key, Rows::of("INSERT INTO t VALUES ($1, ?, 4, NULL)", &params).unwrap().shape.key);
        assert_eq!(
            rows.shape.with_parameters(&BTreeSet::from([1])).1,
            [(params[0].clone(), None), (params[1].clone(), Some(1))]
        );
    }

    #[test]
    fn other_texts_are_none() {
        for text in [
            "INSERT INTO t SELECT 1",
            "INSERT INTO t VALUES (1 + 2)",
            "INSERT INTO t VALUES (f(1))",
            "INSERT INTO t VALUES ('a'::DATE)",
            "INSERT INTO t VALUES (1) RETURNING a",
            "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING",
            "INSERT INTO t VALUES (1), (2",
            "INSERT INTO t VALUES (E'a\\n')",
            "INSERT INTO t VALUES ('a\\b')",
            "INSERT INTO t VALUES ($1)",
            "INSERT INTO t VALUES (NULL)",
            "INSERT INTO t BY NAME VALUES (1)",
            "INSERT INTO t (SELECT 1)",
            "INSERT INTO t DEFAULT VALUES",
            "INSERT INTO a.b.c VALUES (1)",
            "INSERT INTO values (1)",
            "INSERT INTO t VALUES ()",
            "INSERT OR REPLACE INTO t VALUES (1)",
            "SELECT 1",
        ] {
            assert!(rows(text).is_none(), "{text}");
        }
    }

    #[test]
    fn keys_are_equal_for_constants_of_one_kind() {
        let key = |text: &'static str| rows(text).unwrap().shape.key;
        assert_eq!(key("INSERT INTO t VALUES (1, 'a')"), key("INSERT INTO t VALUES (-7, 'it''s')"));
        for (one, other) in [
            ("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES ('1')"),
            ("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (3000000000)"),
            ("INSERT INTO t VALUES (1.5)", "INSERT INTO t VALUES (1.55)"),
            ("INSERT INTO t VALUES (DATE '2020-01-01')", "INSERT INTO t VALUES ('2020-01-01')"),
            ("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)"),
        ] {
            assert_ne!(key(one), key(other), "{one} and {other}");
        }
    }
}
