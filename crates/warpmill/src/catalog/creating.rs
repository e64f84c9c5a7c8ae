//! CREATE statements, in DuckDB's form, that create existing objects again.

use arrow::datatypes::Schema;
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, Word};
use warpmill_format::table::Constraint;

use super::{View, is_main, same};
use crate::dialect::{optionally_quoted, shown, type_name};
use crate::session::constraints::shown as constraints_of;
use crate::session::ddl::default_of;
use crate::{Error, Result};

/// A name with its schema; without the schema if it is the main one.
pub(crate) fn qualified(schema: &str, name: &str) -> String {
    match is_main(schema) {
        true => optionally_quoted(name),
        false => format!("{}.{}", optionally_quoted(schema), optionally_quoted(name)),
    }
}

/// `CREATE TABLE name(column TYPE DEFAULT(x) NOT NULL, CHECK(...), UNIQUE(...));`, without unique indexes. `name` is that of the table in `place`, its
/// schema.
pub(crate) fn table(place: &str, name: &str, schema: &Schema, constraints: &[Constraint]) -> String {
    let single = |at: usize, primary: bool| {
        constraints.iter().any(|constraint| {
            !constraints_of::is_index(constraint)
                && constraint.is_primary() == primary
                && constraint.key().is_some_and(|columns| columns == [at])
        })
    };
    let in_primary = |at: usize| {
        let primary = constraints.iter().find(|constraint| constraint.is_primary());
        primary.and_then(Constraint::key).is_some_and(|columns| columns.contains(&at))
    };
    let mut parts = vec![];
    for (at, field) in schema.fields().iter().enumerate() {
        let mut column = format!("{} {}", optionally_quoted(shown(field.name())), type_name(field.data_type()));
        if let Some(default) = default_of(field) {
            column.push_str(&format!(" DEFAULT({default})"));
        }
        if !field.is_nullable() && !in_primary(at) {
            column.push_str(" NOT NULL");
        }
        if single(at, true) {
            column.push_str(" PRIMARY KEY");
        }
        if single(at, false) {
            column.push_str(" UNIQUE");
        }
        parts.push(column);
    }
    let is_of_column = |constraint: &Constraint| constraint.key().is_some_and(|columns| columns.len() == 1);
    let others =
        constraints.iter().filter(|constraint| !constraints_of::is_index(constraint) && !is_of_column(constraint));
    parts.extend(constraints_of::texts(name, schema, &others.cloned().collect::<Vec<_>>()));
    format!("CREATE TABLE {}({});", qualified(place, name), parts.join(", "))
}

/// `CREATE UNIQUE INDEX index ON table(columns);`; `None` if the constraint is no index.
pub(crate) fn index(table: &str, schema: &Schema, constraint: &Constraint) -> Option<String> {
    let Constraint::Unique { index: Some(name), .. } = constraint else { return None };
    let columns = constraints_of::columns(schema, constraint);
    Some(format!("CREATE UNIQUE INDEX {} ON {table}({columns});", optionally_quoted(name)))
}

/// `CREATE VIEW name AS query;`.
pub(crate) fn view(name: &str, view: &View) -> Result<String> {
    Ok(format!("CREATE VIEW {name}{};", Created::of(view.sql(), &["view"])?.rest))
}

/// `CREATE MACRO name(parameters) AS definition;`.
pub(crate) fn macro_called(name: &str, sql: &str) -> Result<String> {
    Ok(format!("CREATE MACRO {name}{};", Created::of(sql, &["macro", "function"])?.rest))
}

/// The definition of a macro (the text after AS), and whether the macro returns a table.
pub(crate) fn definition_of_macro(sql: &str) -> Result<(String, bool)> {
    let tokens = Created::of(sql, &["macro", "function"])?.tokens;
    let mut depth = 0;
    let found = tokens.iter().position(|token| {
        depth += i32::from(*token == Token::LParen) - i32::from(*token == Token::RParen);
        depth == 0 && is_word(token, &["as"])
    });
    let Some(at) = found else { return Err(Error::Parse(format!("{sql}: AS is missing"))) };
    let mut rest: &[Token] = &tokens[at + 1..];
    while let [Token::Whitespace(_), after @ ..] = rest {
        rest = after;
    }
    Ok(match rest {
        [first, after @ ..] if is_word(first, &["table"]) => (text(after).trim().to_string(), true),
        rest => (text(rest).trim().to_string(), false),
    })
}

/// `CREATE RECURSIVE VIEW name(columns) AS query` as a view of a recursive query.
///
/// # Errors
/// There is no list of columns, or no AS.
pub(crate) fn recursive_view(sql: &str) -> Result<String> {
    let created = Created::of(sql, &["view"])?;
    let missing = || Error::Parse("CREATE RECURSIVE VIEW requires a column list".into());
    let (columns, rest) = in_brackets(&created.tokens).ok_or_else(missing)?;
    let query = after_as(rest).ok_or_else(|| Error::Parse(format!("{sql}: AS is missing")))?;
    let (head, name, columns) = (created.head_without("recursive"), &created.name, text(columns));
    let own = created.last_name;
    let query = text(query);
    Ok(format!("{head}{name} AS WITH RECURSIVE {own}({columns}) AS ({}) SELECT * FROM {own}", query.trim()))
}

/// Rewrites `CREATE TABLE name(columns) AS query`, with names but no types of columns, to a query with these names. `None` for other statements.
///
/// # Errors
/// A name occurs twice.
pub(crate) fn with_named_columns(sql: &str) -> Result<Option<String>> {
    let Ok(created) = Created::of(sql, &["table"]) else { return Ok(None) };
    let Some((columns, rest)) = in_brackets(&created.tokens) else { return Ok(None) };
    let mut names: Vec<&Word> = vec![];
    for part in columns.split(|token| *token == Token::Comma) {
        let mut words = part.iter().filter(|token| !matches!(token, Token::Whitespace(_)));
        match (words.next(), words.next()) {
            (Some(Token::Word(name)), None) => names.push(name),
            _ => return Ok(None),
        }
    }
    let Some(query) = after_as(rest) else { return Ok(None) };
    let is_twice = |at: usize| names[..at].iter().any(|other| same(&other.value, &names[at].value));
    if let Some(at) = (0..names.len()).find(|at| is_twice(*at)) {
        return Err(Error::Catalog(format!("column {} is named twice", names[at])));
    }
    let (head, name, columns) = (created.head_without(""), &created.name, text(columns));
    Ok(Some(format!("{head}{name} AS SELECT * FROM ({}) AS \"rows\"({columns})", text(query).trim())))
}

/// The tokens between the brackets at the beginning of `tokens`, and the tokens after the brackets.
fn in_brackets(tokens: &[Token]) -> Option<(&[Token], &[Token])> {
    let open = tokens.iter().position(|token| !matches!(token, Token::Whitespace(_)))?;
    if tokens[open] != Token::LParen {
        return None;
    }
    let close = tokens.iter().position(|token| *token == Token::RParen)?;
    Some((&tokens[open + 1..close], &tokens[close + 1..]))
}

/// The tokens after the AS at the beginning of `tokens`.
fn after_as(tokens: &[Token]) -> Option<&[Token]> {
    let at = tokens.iter().position(|token| !matches!(token, Token::Whitespace(_)))?;
    is_word(&tokens[at], &["as"]).then(|| &tokens[at + 1..])
}

/// The parts of a CREATE statement.
struct Created {
    /// The tokens before the name.
    head: Vec<Token>,
    /// The name with its schema, as written.
    name: String,
    /// The last part of the name.
    last_name: String,
    /// The tokens after the name.
    tokens: Vec<Token>,
    /// The text of these tokens.
    rest: String,
}

impl Created {
    /// Reads `CREATE [OR REPLACE] [TEMP] kind [IF NOT EXISTS] name rest`.
    fn of(sql: &str, kind: &[&str]) -> Result<Self> {
        let malformed = || Error::Parse(format!("{sql} is no CREATE {}", kind[0].to_uppercase()));
        let tokens = Tokenizer::new(&DuckDbDialect, sql).with_unescape(false).tokenize();
        let mut head = tokens.map_err(|error| Error::Parse(error.to_string()))?;
        while matches!(head.last(), Some(Token::SemiColon | Token::Whitespace(_))) {
            head.pop();
        }
        let skip = |at: &mut usize| {
            while matches!(head.get(*at), Some(Token::Whitespace(_))) {
                *at += 1;
            }
        };
        let mut at = head.iter().position(|token| is_word(token, kind)).ok_or_else(malformed)? + 1;
        skip(&mut at);
        if head.get(at).is_some_and(|token| is_word(token, &["if"])) {
            for _ in 0..3 {
                at += 1;
                skip(&mut at);
            }
        }
        let begin = at;
        loop {
            if !matches!(head.get(at), Some(Token::Word(_))) {
                return Err(malformed());
            }
            at += 1;
            match head.get(at) {
                Some(Token::Period) => at += 1,
                _ => break,
            }
        }
        let tokens = head.split_off(at);
        let name = head.split_off(begin);
        let last_name = name.last().map(ToString::to_string).unwrap_or_default();
        Ok(Self { head, name: text(&name), last_name, rest: text(&tokens), tokens })
    }

    /// The text before the name, without `word`.
    fn head_without(&self, word: &str) -> String {
        self.head.iter().filter(|token| !is_word(token, &[word])).map(ToString::to_string).collect()
    }
}

fn is_word(token: &Token, words: &[&str]) -> bool {
    matches!(token, Token::Word(found)
        if found.quote_style.is_none() && words.iter().any(|word| found.value.eq_ignore_ascii_case(word)))
}

fn text(tokens: &[Token]) -> String {
    tokens.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field};

    #[test]
    fn tables_are_as_duckdb_shows_them() {
        let fields = vec![
            Field::new("a", DataType::Int32, false),
            Field::new("B c", DataType::Utf8, false),
            Field::new("d", DataType::Decimal128(9, 2), true),
        ];
        let constraints = [
            Constraint::PrimaryKey(vec![0]),
            Constraint::Check("d > 0".into()),
            Constraint::Unique { columns: vec![1, 2], index: None },
            Constraint::Unique { columns: vec![2], index: Some("i".into()) },
        ];
        let schema = Schema::new(fields);
        assert_eq!(
            table("s", "t", &schema, &constraints),
            "CREATE TABLE s.t(a INTEGER PRIMARY KEY, \"B c\" VARCHAR NOT NULL, d DECIMAL(9,2), CHECK((d > 0)), UNIQUE(\"B c\", d));"
        );
        assert_eq!(index("s.t", &schema, &constraints[3]).unwrap(), "CREATE UNIQUE INDEX i ON s.t(d);");
        assert_eq!(index("s.t", &schema, &constraints[2]), None);
    }

    #[test]
    fn names_are_put_into_texts() {
        let of = |sql: &str| view("s.w", &View::new(sql, "main")).unwrap();
        assert_eq!(
            of("CREATE VIEW v AS SELECT 'it''s' AS \"a\"\"b\""),
            "CREATE VIEW s.w AS SELECT 'it''s' AS \"a\"\"b\";"
        );
        assert_eq!(of("create or replace view if not exists x.\"v w\"(a) as from t;"), "CREATE VIEW s.w(a) as from t;");
        assert_eq!(
            macro_called("m", "CREATE OR REPLACE MACRO f(a, b := 2) AS a + b").unwrap(),
            "CREATE MACRO m(a, b := 2) AS a + b;"
        );
        assert_eq!(definition_of_macro("CREATE FUNCTION f(a) AS (a + 1)").unwrap(), ("(a + 1)".to_string(), false));
        assert_eq!(
            definition_of_macro("CREATE MACRO f(as_of) AS TABLE SELECT 1").unwrap(),
            ("SELECT 1".to_string(), true)
        );
        assert!(view("w", &View::new("SELECT 1", "main")).is_err());
    }

    #[test]
    fn other_forms_are_plain_ones() {
        assert_eq!(
            recursive_view("CREATE OR REPLACE RECURSIVE VIEW s.v (n) AS VALUES (1) UNION ALL SELECT n + 1 FROM v;")
                .unwrap(),
            "CREATE OR REPLACE  VIEW s.v AS WITH RECURSIVE v(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM v) SELECT * FROM v"
        );
        assert!(recursive_view("CREATE RECURSIVE VIEW v AS SELECT 1").is_err());
        assert_eq!(
            with_named_columns("CREATE TEMP TABLE t(a, \"B c\") AS FROM x;").unwrap().unwrap(),
            "CREATE TEMP TABLE t AS SELECT * FROM (FROM x) AS \"rows\"(a, \"B c\")"
        );
        for other in [
            "CREATE TABLE t(a INT)",
            "CREATE TABLE t AS SELECT (1)",
            "CREATE TABLE t(a INT) AS SELECT 1",
            "CREATE TABLE t()",
        ] {
            assert_eq!(with_named_columns(other).unwrap(), None, "{other}");
        }
        assert!(with_named_columns("CREATE TABLE t(a, A) AS SELECT 1, 2").is_err());
    }
}
