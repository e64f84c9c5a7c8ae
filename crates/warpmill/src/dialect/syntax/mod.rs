//! Rewrites SQL forms of DuckDB that the parser does not read to forms that it does, before parsing.

mod exclude;
mod forms;
mod joins;
mod keys;
mod limits;
mod pivots;

pub(crate) use exclude::MARK as EXCLUDE;
pub(crate) use forms::answer;
pub(crate) use pivots::{GROUPS, VALUES};
use std::borrow::Cow;

use crate::pieces::{Piece, pieces, push_parameter};

/// A token of a text, or the space between tokens.
#[derive(Debug, Clone, Copy)]
struct Token<'a> {
    piece: Piece,
    text: &'a str,
}

impl Token<'_> {
    fn is(&self, word: &str) -> bool {
        self.piece == Piece::Word && self.text.eq_ignore_ascii_case(word)
    }

    fn is_blank(&self) -> bool {
        matches!(self.piece, Piece::Space | Piece::Comment)
    }
}

/// `sql` rewritten to forms that the parser reads:
/// `STRUCT(x INTEGER)` as a type, `**` (power), `lambda x: e`, `[e FOR x IN l IF c]`, `FILTER (c)` without WHERE, `AS MATERIALIZED (`, `ASOF LEFT JOIN r ON c`,
/// commas after the last item or row, `?` (numbered), `PIVOT` and `UNPIVOT` as statements, and those of [`forms`] and [`exclude`].
pub(crate) fn plain(sql: &str) -> Cow<'_, str> {
    match exclude::moved(sql) {
        Cow::Borrowed(sql) => without_forms(sql),
        Cow::Owned(sql) => Cow::Owned(without_forms(&sql).into_owned()),
    }
}

fn without_forms(sql: &str) -> Cow<'_, str> {
    if !is_concerned(sql) {
        return Cow::Borrowed(sql);
    }
    let numbered = numbered(sql);
    let tokens = tokens(&numbered);
    let mut out = String::with_capacity(sql.len() + 16);
    write(&tokens, &mut out);
    // DataFusion names the columns of VALUES differently: the list becomes a derived table, unless it is ordered.
    let ordered =
        tokens.iter().any(|token| ["order", "limit", "union", "except", "intersect"].iter().any(|word| token.is(word)));
    if next(&tokens, 0).is_some_and(|first| tokens[first].is("values")) && !ordered {
        out = format!("SELECT * FROM ({})", out.trim_end().trim_end_matches(';'));
    }
    Cow::Owned(out)
}

fn tokens(sql: &str) -> Vec<Token<'_>> {
    pieces(sql).map(|(piece, text)| Token { piece, text }).collect()
}

/// `sql` with numbers for its parameters `?`, each a parameter of its own; named parameters are unchanged.
fn numbered(sql: &str) -> Cow<'_, str> {
    if !sql.contains('?') {
        return Cow::Borrowed(sql);
    }
    let mut out = String::with_capacity(sql.len() + 8);
    let mut number = 0;
    for piece in pieces(sql) {
        match piece {
            (Piece::Other, "?") => {
                number += 1;
                push_parameter(&mut out, number);
            }
            (Piece::Other, "$") => return Cow::Borrowed(sql),
            (_, text) => out.push_str(text),
        }
    }
    Cow::Owned(out)
}

/// The words of forms that the parser does not read.
const WORDS: [&str; 34] = [
    "asof",
    "positional",
    "lambda",
    "for",
    "filter",
    "materialized",
    "glob",
    "pivot",
    " in ",
    "like",
    "timestamp_",
    "function",
    "(describe",
    "(summarize",
    "(show",
    "similar",
    "sample",
    "(from",
    "null",
    "as from",
    "interval",
    "struct",
    "row",
    "decimal()",
    "numeric()",
    "by *",
    "sets(",
    "sets (",
    "(values",
    "key ",
    "percent",
    "using key",
    "export_state",
    "table",
];

/// Whether a colon that is not doubled, `@(`, `@-`, `!` or a comma before a bracket is there.
fn has_other_forms(sql: &str) -> bool {
    let bytes = sql.as_bytes();
    let at = |at: usize| bytes.get(at).copied().unwrap_or_default();
    (0..bytes.len()).any(|i| match bytes[i] {
        b':' => at(i + 1) != b':' && (i == 0 || at(i - 1) != b':') && at(i + 1) != b'=',
        b'!' => !matches!(at(i + 1), b'=' | b'~'),
        b'[' => at(i + 1) == b':' && at(i + 2) == b':',
        b',' => sql[i + 1..].trim_start().starts_with(')'),
        b'@' => matches!(at(i + 1), b'(' | b'-'),
        _ => false,
    })
}

/// Whether there may be something to rewrite.
fn is_concerned(sql: &str) -> bool {
    let has = |word: &str| sql.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()));
    let list = sql.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("values"));
    let from = sql.trim_start().get(..4).is_some_and(|word| word.eq_ignore_ascii_case("from"));
    list || from
        || sql.contains("**")
        || sql.contains('?')
        || sql.contains('%') && has("limit")
        || sql.trim_end().ends_with(',')
        || has_other_forms(sql)
        || WORDS.into_iter().any(has)
}

fn write(tokens: &[Token<'_>], out: &mut String) {
    let mut at = 0;
    while at < tokens.len() {
        at += step(&tokens[at..], &tokens[..at], out);
    }
}

/// Rewrites the beginning of `rest`, and returns its number of tokens.
fn step(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> usize {
    let first = rest[0];
    if first.is("lambda")
        && let Some((names, length)) = parameters(&rest[1..])
    {
        let body = &rest[1 + length..];
        let end = end(body, 0, &[]);
        out.push_str(&format!("({}) -> (", names.join(", ")));
        write(&body[..end], out);
        out.push(')');
        return 1 + length + end;
    }
    if first.text == "["
        && let Some((comprehension, length)) = comprehension(rest)
    {
        out.push_str(&comprehension);
        return length;
    }
    if first.text == "*" && rest.get(1).is_some_and(|next| next.text == "*") && is_operand_end(before) {
        out.push('^');
        return 2;
    }
    if first.is("filter")
        && let Some(open) = next(rest, 1).filter(|&open| rest[open].text == "(")
        && next(rest, open + 1).is_some_and(|inside| !rest[inside].is("where"))
        && before.iter().rev().find(|token| !token.is_blank()).is_some_and(|token| token.text == ")")
    {
        out.push_str("FILTER (WHERE ");
        return open + 1;
    }
    if first.is("materialized")
        && next(rest, 1).is_some_and(|open| rest[open].text == "(")
        && before.iter().rev().find(|token| !token.is_blank()).is_some_and(|token| token.is("as") || token.is("not"))
    {
        if before.iter().rev().find(|token| !token.is_blank()).is_some_and(|token| token.is("not")) {
            // NOT is written already; it is removed here.
            let end = out.trim_end().len() - "not".len();
            out.truncate(end);
        }
        return 1;
    }
    let is_relation = |token: &Token<'_>| token.text == "," || ["from", "join", "as"].iter().any(|word| token.is(word));
    if first.is("asof")
        && !before.iter().rev().find(|token| !token.is_blank()).is_some_and(is_relation)
        && let Some((join, length)) = joins::asof(rest)
    {
        out.push_str(&join);
        return length;
    }
    if first.is("positional")
        && !before.iter().rev().find(|token| !token.is_blank()).is_some_and(is_relation)
        && let Some((join, length)) = joins::positional(rest)
    {
        out.push_str(&join);
        return length;
    }
    if is_glob(rest, before) {
        // Of LIKE's precedence for the parser; DuckDB has no such operator.
        out.push_str("RLIKE");
        return 1;
    }
    if first.is("interval")
        && let Some((count, length)) = bracketed_number(rest)
        && next(rest, length).is_some_and(|unit| rest[unit].piece == Piece::Word)
    {
        // The parser takes a number in single brackets for a precision.
        out.push_str(&format!("INTERVAL (({count}))"));
        return length;
    }
    if (first.is("struct") || first.is("row"))
        && let Some(length) = struct_type(rest, out)
    {
        return length;
    }
    if first.text == "," && next(rest, 1).is_none_or(|after| rest[after].text == ")" && forms::ends_rows(before)) {
        return 1;
    }
    if let Some(length) = keys::using_key(rest, out) {
        return length;
    }
    if let Some(length) = pivots::pivot(rest, before, out).or_else(|| forms::form(rest, before, out)) {
        return length;
    }
    out.push_str(first.text);
    1
}

/// Rewrites the type `STRUCT(name type, ...)` or `ROW` at the beginning of `tokens` to `STRUCT<name type, ...>`, and returns its number of tokens.
fn struct_type(tokens: &[Token<'_>], out: &mut String) -> Option<usize> {
    let open = next(tokens, 1).filter(|&open| tokens[open].text == "(")?;
    let name = next(tokens, open + 1)?;
    let is_name = tokens[name].piece == Piece::Word || tokens[name].text.starts_with('"');
    let type_name = next(tokens, name + 1).filter(|&at| tokens[at].piece == Piece::Word && at > name + 1)?;
    let operators = [
        "as", "is", "in", "not", "between", "like", "ilike", "glob", "similar", "and", "or", "collate", "isnull",
        "notnull",
    ];
    if !is_name || operators.iter().any(|word| tokens[type_name].is(word)) {
        return None;
    }
    let mut depth = 0usize;
    let length = tokens[open + 1..].iter().position(|token| {
        match token.text {
            "(" => depth += 1,
            ")" if depth == 0 => return true,
            ")" => depth -= 1,
            _ => {}
        }
        false
    })?;
    out.push_str("STRUCT<");
    write_fields(&tokens[open + 1..open + 1 + length], out);
    // Two brackets in a row would be an operator.
    out.push_str(" >");
    Some(open + 2 + length)
}

/// Writes `name type, ...` with quoted names, which keep their case.
fn write_fields(tokens: &[Token<'_>], out: &mut String) {
    let mut depth = 0usize;
    let fields = tokens.split(|token| {
        match token.text {
            "(" | "<" => depth += 1,
            ")" | ">" => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && token.text == ","
    });
    for (at, field) in fields.enumerate() {
        out.push_str(if at == 0 { "" } else { ", " });
        let Some(name) = next(field, 0) else { continue };
        match field[name].piece {
            Piece::Word => out.push_str(&format!("\"{}\"", field[name].text)),
            _ => out.push_str(field[name].text),
        }
        write(&field[name + 1..], out);
    }
}

/// The integer in brackets after the first token, and the number of tokens up to the closing bracket.
fn bracketed_number<'a>(tokens: &[Token<'a>]) -> Option<(&'a str, usize)> {
    let open = next(tokens, 1).filter(|&open| tokens[open].text == "(")?;
    let number = next(tokens, open + 1)?;
    let close = next(tokens, number + 1).filter(|&close| tokens[close].text == ")")?;
    let text = tokens[number].text;
    text.bytes().all(|byte| byte.is_ascii_digit()).then_some((text, close + 1))
}

/// The position of the first of `words` from token `from` on, or of the comma, semicolon or bracket that ends the item, outside of inner brackets.
fn end(tokens: &[Token<'_>], from: usize, words: &[&str]) -> usize {
    let mut depth = 0usize;
    let end = (from..tokens.len()).find(|&at| {
        match tokens[at].text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" | "," | ";" if depth == 0 => return true,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        depth == 0 && words.iter().any(|word| tokens[at].is(word))
    });
    end.unwrap_or(tokens.len())
}

/// The position of the next token from `from` on that is no space.
fn next(tokens: &[Token<'_>], from: usize) -> Option<usize> {
    (from..tokens.len()).find(|&at| !tokens[at].is_blank())
}

fn is_operand_end(before: &[Token<'_>]) -> bool {
    before.iter().rev().find(|token| !token.is_blank()).is_some_and(|token| {
        matches!(token.text, ")" | "]")
            || token.piece == Piece::Quoted
            || token.piece == Piece::Word
                && !["select", "distinct", "all", "by", "where", "and", "or", "not"].iter().any(|word| token.is(word))
    })
}

/// Whether the word that begins `rest` is the operator GLOB, or NOT GLOB, between operands, rather than a name or a function.
fn is_glob(rest: &[Token<'_>], before: &[Token<'_>]) -> bool {
    let last = before.iter().rposition(|token| !token.is_blank());
    let negated = last.filter(|at| before[*at].is("not"));
    let before = &before[..negated.unwrap_or(before.len())];
    let is_relation = |token: &Token<'_>| ["from", "join", "lateral", "table", "as"].iter().any(|word| token.is(word));
    if !rest[0].is("glob")
        || !is_operand_end(before)
        || before.iter().rev().find(|token| !token.is_blank()).is_some_and(is_relation)
    {
        return false;
    }
    next(rest, 1).map(|at| &rest[at]).is_some_and(|pattern| match pattern.piece {
        Piece::Quoted => true,
        Piece::Word => !AFTER_NAMES.iter().any(|word| pattern.is(word)),
        _ => pattern.text == "(" || pattern.text.starts_with(['$', '?']),
    })
}

/// Words that may come after an alias.
const AFTER_NAMES: [&str; 26] = [
    "from",
    "where",
    "group",
    "order",
    "having",
    "limit",
    "offset",
    "union",
    "except",
    "intersect",
    "join",
    "inner",
    "left",
    "right",
    "full",
    "cross",
    "asof",
    "on",
    "using",
    "as",
    "and",
    "or",
    "qualify",
    "window",
    "then",
    "end",
];

/// The name or string before an operator, and the length of the text without it; longer expressions are not supported.
fn subject<'a>(before: &[Token<'a>], out: &str) -> Option<(&'a str, usize)> {
    let at = before.iter().rposition(|token| !token.is_blank())?;
    let token = before[at];
    let single = matches!(token.piece, Piece::Word | Piece::Quoted)
        && before[..at].iter().rev().find(|token| !token.is_blank()).is_none_or(|token| token.text != ".");
    let trimmed = out.trim_end();
    (single && trimmed.ends_with(token.text)).then(|| (token.text, trimmed.len() - token.text.len()))
}

/// The parameter names of `lambda x, y: e`, and the number of tokens up to and including the colon.
fn parameters<'a>(tokens: &[Token<'a>]) -> Option<(Vec<&'a str>, usize)> {
    let mut names = vec![];
    let mut at = next(tokens, 0)?;
    if at == 0 {
        return None;
    }
    loop {
        let is_name = matches!(tokens[at].piece, Piece::Word) || tokens[at].text.starts_with('"');
        if !is_name {
            return None;
        }
        names.push(tokens[at].text);
        at = next(tokens, at + 1)?;
        match tokens[at].text {
            ":" => return Some((names, at + 1)),
            "," => at = next(tokens, at + 1)?,
            _ => return None,
        }
    }
}

/// Rewrites `[e FOR x IN l IF c]` at the beginning of `tokens` to function calls; also returns its number of tokens.
fn comprehension(tokens: &[Token<'_>]) -> Option<(String, usize)> {
    let mut depth = 0usize;
    let (mut for_at, mut in_at, mut if_at) = (None, None, None);
    let mut end = None;
    // CASE contains the same keywords.
    let mut cases = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    end = Some(at);
                    break;
                }
            }
            _ if depth != 1 => {}
            _ if token.is("case") => cases += 1,
            _ if token.is("end") => cases = cases.saturating_sub(1),
            _ if cases > 0 => {}
            _ if token.is("for") && for_at.is_none() => for_at = Some(at),
            _ if token.is("in") && for_at.is_some() && in_at.is_none() => in_at = Some(at),
            _ if token.is("if") && in_at.is_some() && if_at.is_none() => {
                // The function `if` is followed by its arguments, and preceded by an operator or a comma.
                if_at = Some(at);
            }
            _ => {}
        }
    }
    let (for_at, in_at, end) = (for_at?, in_at?, end?);
    let names: String = tokens[for_at + 1..in_at].iter().map(|token| token.text).collect();
    let names = names.trim();
    let is_names = !names.is_empty()
        && names.split(',').all(|name| {
            let name = name.trim();
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
        });
    if !is_names {
        return None;
    }
    let part = |from: usize, to: usize| {
        let mut text = String::new();
        write(&tokens[from..to], &mut text);
        text.trim().to_string()
    };
    let value = part(1, for_at);
    let list = part(in_at + 1, if_at.unwrap_or(end));
    let list = match if_at {
        Some(if_at) => format!("list_filter({list}, ({names}) -> ({}))", part(if_at + 1, end)),
        None => list,
    };
    Some((format!("list_apply({list}, ({names}) -> ({value}))"), end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for (sql, plain_sql) in [
            ("SELECT 2 ** 3, a**b", "SELECT 2 ^ 3, a^b"),
            ("SELECT list_filter(l, lambda x: x > 1)", "SELECT list_filter(l, (x) -> ( x > 1))"),
            ("f(l, LAMBDA x, i : x + i)", "f(l, (x, i) -> ( x + i))"),
            ("SELECT [x + 1 FOR x IN l IF x > 1]", "SELECT list_apply(list_filter(l, (x) -> (x > 1)), (x) -> (x + 1))"),
            ("SELECT [[y for y in x] for x in l]", "SELECT list_apply(l, (x) -> (list_apply(x, (y) -> (y))))"),
            ("sum(x) FILTER (x > 1)", "sum(x) FILTER (WHERE x > 1)"),
            ("SELECT a: x + 1, b: 2 FROM t", "SELECT x + 1 AS a , 2 AS b FROM t"),
            ("SELECT {'a': 1}, l[1:2], x::INT", "SELECT {'a': 1}, l[1:2], x::INT"),
            ("x IN l AND y NOT IN m.n", "x = ANY(__elements(l)) AND y <> ALL(__elements(m.n))"),
            ("position('a' IN s), x IN (1, 2)", "position('a' IN s), x IN (1, 2)"),
            ("SELECT * LIKE 'a%.b_'", "SELECT COLUMNS('^(?s:a.*\\.b.)$')"),
            ("SELECT 5!, x != 1", "SELECT factorial(5), x != 1"),
            ("SELECT @(-3)", "SELECT abs(-3)"),
            ("SELECT TIMESTAMP_S '2024-01-01'", "SELECT CAST('2024-01-01' AS TIMESTAMP_S)"),
            ("CREATE FUNCTION f(x) AS x", "CREATE MACRO f(x) AS x"),
            (
                "CREATE TABLE t (s STRUCT(X INTEGER, d DECIMAL(5, 2), r STRUCT(\"a b\" BLOB))[], struct INTEGER)",
                "CREATE TABLE t (s STRUCT<\"X\" INTEGER, \"d\" DECIMAL(5, 2), \"r\" STRUCT<\"a b\" BLOB > >[], struct INTEGER)",
            ),
            ("FROM t WHERE x", "SELECT * FROM t WHERE x"),
            ("FROM t SELECT x WHERE y", "FROM t SELECT x WHERE y"),
            ("FROM (FROM t WHERE x) q", "SELECT * FROM (SELECT * FROM t WHERE x) q"),
            ("SELECT extract(year FROM x) FROM t", "SELECT extract(year FROM x) FROM t"),
            ("SELECT x FROM t USING SAMPLE 10%", "SELECT x FROM t TABLESAMPLE (10 PERCENT)"),
            ("SELECT x FROM t JOIN u USING (id)", "SELECT x FROM t JOIN u USING (id)"),
            (
                "PIVOT t ON a USING sum(b) AS s GROUP BY c ORDER BY c",
                "SELECT * FROM t PIVOT (sum(b) AS s, __pivot_groups(c) FOR ((a)) IN (ANY)) ORDER BY c",
            ),
            ("(PIVOT t ON a IN (1, 2))", "(SELECT * FROM t PIVOT (count(*) FOR ((a)) IN (1, 2)) )"),
            ("SELECT x AS pivot FROM t JOIN u ON pivot", "SELECT x AS pivot FROM t JOIN u ON pivot"),
            ("CREATE VIEW v AS PIVOT t ON a", "CREATE VIEW v AS SELECT * FROM t PIVOT (count(*) FOR ((a)) IN (ANY)) "),
            ("UNPIVOT t ON a, b INTO NAME n VALUE v", "SELECT * FROM t UNPIVOT (v FOR n IN (a, b)) "),
            ("WITH a AS NOT MATERIALIZED (SELECT 1) FROM a", "WITH a AS  (SELECT 1) FROM a"),
            ("WITH a AS MATERIALIZED (SELECT 1) FROM a", "WITH a AS  (SELECT 1) FROM a"),
            ("SELECT 1, 2,", "SELECT 1, 2"),
            ("VALUES (1)", "SELECT * FROM (VALUES (1))"),
            (
                "FROM l ASOF JOIN r ON l.t >= r.t asof left outer join (SELECT 1 ON x) s USING (t)",
                "SELECT * FROM l ASOF JOIN r  MATCH_CONDITION ('asof inner') ON l.t >= r.t ASOF JOIN (SELECT 1 ON x) s  MATCH_CONDITION \
                 ('asof left') USING (t)",
            ),
            (
                "FROM a POSITIONAL JOIN (SELECT 1) b JOIN c USING (i) positional join d WHERE x",
                "SELECT * FROM a ASOF JOIN (SELECT 1) b  MATCH_CONDITION ('asof positional') ON true JOIN c USING (i) ASOF JOIN d  \
                 MATCH_CONDITION ('asof positional') ON true WHERE x",
            ),
            ("SELECT INTERVAL ( 5 ) DAY, INTERVAL (5.5) DAY", "SELECT INTERVAL ((5)) DAY, INTERVAL (5.5) DAY"),
            ("PREPARE p AS SELECT ?+1, '?', ?", "PREPARE p AS SELECT $1+1, '?', $2"),
            (
                "WITH RECURSIVE t(a, b) USING KEY (a, max(b)) AS MATERIALIZED (SELECT 1, 2 UNION (FROM t)) FROM t",
                "WITH RECURSIVE t(a, b) AS (SELECT a, max(b) FROM (SELECT 1, 2 UNION (SELECT * FROM t)) AS \"$ key\") FROM t",
            ),
            (
                "SELECT avg(x) FILTER (y) export_state, (a) export_state FROM f(x) export_state",
                "SELECT avg(x) FILTER (WHERE y) OVER \"export$state\", (a) export_state FROM f(x) export_state",
            ),
            ("SELECT s GLOB 'a*'", "SELECT s RLIKE 'a*'"),
            ("SELECT a || 'b' NOT GLOB lower('A*')", "SELECT a || 'b' NOT RLIKE lower('A*')"),
            ("SELECT s glob FROM glob('x') glob, glob('y')", "SELECT s glob FROM glob('x') glob, glob('y')"),
            (
                "WITH t AS (TABLE u) TABLE t UNION ALL\nTABLE t ORDER BY 1",
                "WITH t AS (SELECT * FROM u) SELECT * FROM t UNION ALL\nSELECT * FROM t ORDER BY 1",
            ),
            ("FROM t USING SAMPLE 5% (bernoulli)", "SELECT * FROM t TABLESAMPLE BERNOULLI (5 PERCENT)"),
        ] {
            assert_eq!(plain(sql), plain_sql);
        }
        for same in [
            "SELECT lambda FROM t",
            "SELECT asof FROM asof JOIN t ON true",
            "SELECT positional FROM positional JOIN t ON true",
            "SELECT * FROM l ASOF JOIN r MATCH_CONDITION (l.t >= r.t) ON l.k = r.k",
            "SELECT * FROM t",
            "SELECT 'a ** b', \"lambda x: y\"",
            "SELECT count(*) FILTER (WHERE x)",
            "SELECT trim(x FOR y)",
            "SELECT substring(x FROM 1 FOR 2) IN (1)",
            "SELECT filter(l, x)",
            "SELECT x FROM materialized (1)",
            "SELECT ?, $1",
            "CREATE TABLE t (table_name INTEGER)",
            "CREATE MACRO f(a) AS TABLE SELECT a",
            "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES table_of(b)",
        ] {
            assert_eq!(plain(same), same);
        }
    }
}
