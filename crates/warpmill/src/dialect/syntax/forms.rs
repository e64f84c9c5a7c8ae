//! Small forms: `name: e`, `x IN l`, `* LIKE 'a%'`, `5!`, `@(x)`, `x ISNULL`, `TIMESTAMP_S '...'`, `[::2]`, `CREATE FUNCTION`, `(DESCRIBE ...)`, EXPORT_STATE.

use super::{Token, is_operand_end, limits, next, step, subject, write};
use crate::catalog::statement_name;
use crate::dialect::states;
use crate::pieces::Piece;

/// Rewrites the form at the beginning of `rest`, and returns its number of tokens; `None`: none of these forms.
pub(super) fn form(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> Option<usize> {
    named(rest, before, out)
        .or_else(|| in_list(rest, before, out))
        .or_else(|| like_columns(rest, before, out))
        .or_else(|| arithmetic(rest, before, out))
        .or_else(|| moment(rest, out))
        .or_else(|| function(rest, before, out))
        .or_else(|| statement(rest, before, out))
        .or_else(|| sample(rest, before, out))
        .or_else(|| table_alone(rest, before, out))
        .or_else(|| from_alone(rest, before, out))
        .or_else(|| null_test(rest, before, out))
        .or_else(|| long_unit(rest, before, out))
        .or_else(|| empty_width(rest, out))
        .or_else(|| whole_slice(rest, out))
        .or_else(|| all_keys(rest, before, out))
        .or_else(|| nested_sets(rest, before, out))
        .or_else(|| inserted_list(rest, before, out))
        .or_else(|| key_column(rest, before, out))
        .or_else(|| limits::percent(rest, out))
        .or_else(|| exported_state(rest, before, out))
}

/// Rewrites `agg(x) EXPORT_STATE` to a call over the window that marks it.
fn exported_state(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> Option<usize> {
    (rest[0].is("export_state") && ends_call(before)).then(|| {
        out.push_str(states::CLAUSE);
        1
    })
}

/// Whether a function call ends here: with its arguments, a filter or an order.
fn ends_call(before: &[Token<'_>]) -> bool {
    const OTHERS: [&str; 10] = ["in", "values", "as", "over", "using", "exists", "any", "all", "by", "where"];
    let Some(close) = before.iter().rposition(|token| !token.is_blank()) else { return false };
    let Some((open, "(")) = (before[close].text == ")").then(|| open_bracket(&before[..close])).flatten() else {
        return false;
    };
    let mut words = before[..open].iter().rev().filter(|token| !token.is_blank());
    let is_relation = |token: Option<&Token<'_>>| token.is_some_and(|token| token.is("from") || token.is("join"));
    match words.next() {
        Some(name) if is_name(name) => !OTHERS.iter().any(|word| name.is(word)) && !is_relation(words.next()),
        _ => false,
    }
}

/// `GROUP BY *` and `ORDER BY *`, which mean ALL.
fn all_keys(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> Option<usize> {
    let is_all = rest[0].text == "*" && last(before)?.is("by");
    is_all.then(|| {
        out.push_str("ALL");
        1
    })
}

/// Merges GROUPING SETS within GROUPING SETS into the outer ones.
fn nested_sets(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> Option<usize> {
    let (open, end) = grouping_sets(rest)?;
    let (around, _) = open_bracket(before)?;
    let sets = before[..around].iter().rposition(|token| !token.is_blank())?;
    if !before[sets].is("sets") || !last(&before[..sets])?.is("grouping") {
        return None;
    }
    write_sets(&rest[open + 1..end - 1], out);
    Some(end)
}

/// The positions of the bracket that opens GROUPING SETS, and after the closing one.
fn grouping_sets(rest: &[Token<'_>]) -> Option<(usize, usize)> {
    let sets = next(rest, 1).filter(|&sets| rest[0].is("grouping") && rest[sets].is("sets"))?;
    let open = next(rest, sets + 1).filter(|&open| rest[open].text == "(")?;
    Some((open, closed(rest, open)?))
}

/// Writes sets, with nested GROUPING SETS flattened.
fn write_sets(sets: &[Token<'_>], out: &mut String) {
    let mut at = 0;
    while at < sets.len() {
        match grouping_sets(&sets[at..]) {
            Some((open, end)) => {
                write_sets(&sets[at + open + 1..at + end - 1], out);
                at += end;
            }
            None => at += step(&sets[at..], &sets[..at], out),
        }
    }
}

/// Drops the brackets of `INSERT INTO t (VALUES ...)`, which the parser takes for a column list.
fn inserted_list(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> Option<usize> {
    let values = next(rest, 1).filter(|&values| rest[0].text == "(" && rest[values].is("values"))?;
    let mut words = before.iter().rev().filter(|token| !token.is_blank());
    loop {
        words.next().filter(|token| is_name(token))?;
        match words.next()? {
            token if token.text == "." => {}
            token if token.is("into") => break,
            _ => return None,
        }
    }
    let end = closed(rest, 0)?;
    write(&rest[values..end - 1], out);
    Some(end)
}

/// Quotes a column called `key` in CREATE TABLE, where the parser expects an index.
fn key_column(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> Option<usize> {
    let begins = rest[0].is("key") && matches!(last(before)?.text, "(" | ",");
    let is_type = next(rest, 1).is_some_and(|ty| rest[ty].piece == Piece::Word);
    (begins && is_type).then(|| {
        out.push_str(&format!("\"{}\"", rest[0].text));
        1
    })
}

/// The last token before that is no space.
fn last<'t, 'a>(before: &'t [Token<'a>]) -> Option<&'t Token<'a>> {
    before.iter().rev().find(|token| !token.is_blank())
}

/// Whether a token is a name.
fn is_name(token: &Token<'_>) -> bool {
    match token.piece {
        Piece::Word => !token.text.starts_with(|c: char| c.is_ascii_digit()),
        Piece::Quoted => token.text.starts_with('"'),
        _ => false,
    }
}

/// The innermost open bracket at the end of `tokens`, with its position.
fn open_bracket<'a>(tokens: &[Token<'a>]) -> Option<(usize, &'a str)> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().rev() {
        match token.text {
            ")" | "]" | "}" => depth += 1,
            "(" | "[" | "{" if depth == 0 => return Some((at, token.text)),
            "(" | "[" | "{" => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The position after the bracket that closes the one at `open`.
pub(super) fn closed(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether the innermost open bracket belongs to VALUES, so that a row would follow a comma.
pub(super) fn ends_rows(before: &[Token<'_>]) -> bool {
    open_bracket(before)
        .and_then(|(at, _)| next(before, at + 1).map(|first| before[first].is("values")))
        .unwrap_or(false)
}

/// `name: e` of a SELECT list as `e AS name`.
fn named(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> Option<usize> {
    let colon = next(rest, 1)?;
    let value = next(rest, colon + 1)?;
    if !is_name(&rest[0]) || rest[colon].text != ":" || matches!(rest[colon + 1].text, ":" | "=") {
        return None;
    }
    let previous = last(before)?;
    let begins = previous.text == "," || ["select", "distinct", "all"].iter().any(|word| previous.is(word));
    if !begins || open_bracket(before).is_some_and(|(_, open)| open != "(") || !in_select_list(before) {
        return None;
    }
    let ends =
        ["from", "where", "group", "having", "order", "limit", "union", "except", "intersect", "window", "qualify"];
    let mut depth = 0usize;
    let mut end = rest.len();
    for (at, token) in rest.iter().enumerate().skip(value) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" | "," | ";" if depth == 0 => {
                end = at;
                break;
            }
            ")" | "]" | "}" => depth -= 1,
            // `IS DISTINCT FROM` does not end the expression.
            _ if depth == 0
                && ends.iter().any(|word| token.is(word))
                && !last(&rest[..at]).is_some_and(|token| token.is("distinct")) =>
            {
                end = at;
                break;
            }
            _ => {}
        }
    }
    let mut written = String::new();
    write(&rest[value..end], &mut written);
    out.push_str(&format!("{} AS {} ", written.trim_end(), rest[0].text));
    Some(end)
}

/// Whether the last clause that has begun in the innermost bracket is a SELECT list.
fn in_select_list(before: &[Token<'_>]) -> bool {
    let mut depth = 0usize;
    for (at, token) in before.iter().enumerate().rev() {
        match token.text {
            ")" | "]" | "}" => depth += 1,
            "(" | "[" | "{" if depth == 0 => return false,
            "(" | "[" | "{" => depth -= 1,
            _ if depth > 0 => {}
            _ if token.is("select") => return true,
            _ if token.is("from") && !last(&before[..at]).is_some_and(|token| token.is("distinct")) => return false,
            _ => {}
        }
    }
    false
}

/// Rewrites `x IN l` of a list `l` to a comparison with any of its elements.
fn in_list(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> Option<usize> {
    if !rest[0].is("in") || !last(before).is_some_and(|token| token.is("not") || is_operand_end(before)) {
        return None;
    }
    // `position('a' IN s)`, `SHOW TABLES IN s`.
    let of_call = open_bracket(before).is_some_and(|(at, _)| last(&before[..at]).is_some_and(|t| t.is("position")));
    if of_call || next(before, 0).is_some_and(|first| before[first].is("show")) {
        return None;
    }
    let from = next(rest, 1)?;
    let mut end = from + 1;
    match rest[from].text {
        "[" => end = closed(rest, from)?,
        _ if is_name(&rest[from]) && !rest[from].is("unnest") => {
            while rest.get(end).is_some_and(|token| token.text == ".") && rest.get(end + 1).is_some_and(is_name) {
                end += 2;
            }
            if rest.get(end).is_some_and(|token| token.text == "(") {
                end = closed(rest, end)?;
            }
            while rest.get(end).is_some_and(|token| token.text == "[") {
                end = closed(rest, end)?;
            }
        }
        _ => return None,
    }
    let negated = last(before).is_some_and(|token| token.is("not"));
    if negated {
        let length = out.trim_end().len().checked_sub("not".len())?;
        out.truncate(length);
    }
    out.push_str(if negated { "<> ALL(__elements(" } else { "= ANY(__elements(" });
    write(&rest[from..end], out);
    out.push_str("))");
    Some(end)
}

/// Rewrites `* LIKE 'pattern'` and similar forms to `COLUMNS('regular expression')`.
fn like_columns(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> Option<usize> {
    let previous = last(before)?;
    let begins = matches!(previous.text, "," | "(") || ["select", "distinct", "all"].iter().any(|w| previous.is(w));
    if rest[0].text != "*" || !begins {
        return None;
    }
    let word = next(rest, 1)?;
    let mut pattern = next(rest, word + 1)?;
    let kind = rest[word];
    if kind.is("similar") {
        if !rest[pattern].is("to") {
            return None;
        }
        pattern = next(rest, pattern + 1)?;
    }
    let quoted = rest[pattern].text.strip_prefix('\'')?.strip_suffix('\'')?.replace("''", "'");
    if next(rest, pattern + 1).is_some_and(|at| rest[at].is("escape")) {
        return None;
    }
    let wild = |many: char, one: char| {
        let one_of = |c: char| match c {
            c if c == many => ".*".to_string(),
            c if c == one => ".".to_string(),
            c => regex::escape(&c.to_string()),
        };
        quoted.chars().map(one_of).collect::<String>()
    };
    let regex = match () {
        () if kind.is("like") => format!("^(?s:{})$", wild('%', '_')),
        () if kind.is("ilike") => format!("^(?si:{})$", wild('%', '_')),
        () if kind.is("glob") && !quoted.contains(['[', '\\']) => format!("^(?s:{})$", wild('*', '?')),
        () if kind.is("similar") => quoted.clone(),
        () => return None,
    };
    out.push_str(&format!("COLUMNS('{}')", regex.replace('\'', "''")));
    Some(pattern + 1)
}

/// `5!` and `@(x)`.
fn arithmetic(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> Option<usize> {
    if rest[0].text == "@" {
        let at = next(rest, 1)?;
        if rest[at].text == "(" && !last(before).is_some_and(|_| is_operand_end(before)) {
            out.push_str("abs");
            return Some(at);
        }
        let number = next(rest, at + 1)?;
        if rest[at].text == "-" && rest[number].text.starts_with(|c: char| c.is_ascii_digit()) {
            out.push_str(&format!("abs(-{})", rest[number].text));
            return Some(number + 1);
        }
    }
    let is_alone = rest.get(1).is_none_or(|token| !matches!(token.text, "=" | "~" | "!"));
    if rest[0].text == "!"
        && is_alone
        && let Some((operand, length)) = subject(before, out)
    {
        out.truncate(length);
        out.push_str(&format!("factorial({operand})"));
        return Some(1);
    }
    None
}

/// `TIMESTAMP_S '2024-01-01'` as a cast.
fn moment(rest: &[Token<'_>], out: &mut String) -> Option<usize> {
    if !["timestamp_s", "timestamp_ms", "timestamp_us", "timestamp_ns"].iter().any(|ty| rest[0].is(ty)) {
        return None;
    }
    let text = next(rest, 1)?;
    if rest[text].piece != Piece::Quoted || !rest[text].text.starts_with('\'') {
        return None;
    }
    out.push_str(&format!("CAST({} AS {})", rest[text].text, rest[0].text));
    Some(text + 1)
}

/// `x ISNULL` and `x NOTNULL`.
fn null_test(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> Option<usize> {
    let test = match () {
        () if rest[0].is("isnull") => "IS NULL",
        () if rest[0].is("notnull") => "IS NOT NULL",
        () => return None,
    };
    let is_call = rest.get(1).is_some_and(|token| token.text == "(");
    let is_name = last(before).is_some_and(|token| token.is("as"));
    if is_call || is_name || !is_operand_end(before) {
        return None;
    }
    out.push_str(test);
    Some(1)
}

/// The type `DECIMAL()`, which is DECIMAL.
fn empty_width(rest: &[Token<'_>], out: &mut String) -> Option<usize> {
    if !["decimal", "numeric"].iter().any(|word| rest[0].is(word)) {
        return None;
    }
    let open = next(rest, 1).filter(|&open| rest[open].text == "(")?;
    let close = next(rest, open + 1).filter(|&close| rest[close].text == ")")?;
    out.push_str(rest[0].text);
    Some(close + 1)
}

/// Rewrites `[::step]`, whose colons the parser takes for a cast.
fn whole_slice(rest: &[Token<'_>], out: &mut String) -> Option<usize> {
    let [open, first, second, step, ..] = rest else { return None };
    if (open.text, first.text, second.text) != ("[", ":", ":") {
        return None;
    }
    out.push_str(if step.text == "-" { "[-1:1:" } else { "[1:-1:" });
    Some(3)
}

/// Rewrites `INTERVAL 2 DECADES` and similar forms: the parser knows these units in the singular only.
fn long_unit(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> Option<usize> {
    let units = [("decades", "DECADE"), ("centuries", "CENTURY"), ("millennia", "MILLENNIUM")];
    let (_, unit) = units.into_iter().find(|(word, _)| rest[0].is(word))?;
    let count = before.iter().rposition(|token| !token.is_blank())?;
    let count = match before[count].text {
        ")" => open_bracket(&before[..count])?.0,
        _ => count,
    };
    if !last(&before[..count]).is_some_and(|token| token.is("interval")) {
        return None;
    }
    out.push_str(unit);
    Some(1)
}

/// `CREATE FUNCTION`, which makes a macro.
fn function(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> Option<usize> {
    let makes = ["create", "replace", "temp", "temporary"];
    let is_create = next(before, 0).is_some_and(|first| before[first].is("create"));
    if !rest[0].is("function") || !is_create || !last(before).is_some_and(|t| makes.iter().any(|word| t.is(word))) {
        return None;
    }
    out.push_str("MACRO");
    Some(1)
}

/// Rewrites `FROM t USING SAMPLE 10%` or `10 ROWS` of one relation, and `TABLESAMPLE 10%`, to `TABLESAMPLE`.
fn sample(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> Option<usize> {
    let mut at = match () {
        () if rest[0].is("tablesample") => next(rest, 1)?,
        () if rest[0].is("using") => {
            let word = next(rest, 1).filter(|&word| rest[word].is("sample"))?;
            if !is_one_relation(before) {
                return None;
            }
            next(rest, word + 1)?
        }
        () => return None,
    };
    if !rest[at].text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut number = rest[at].text.to_string();
    if rest.get(at + 1).is_some_and(|token| token.text == ".")
        && let Some(fraction) = rest.get(at + 2).filter(|token| token.piece == Piece::Word)
    {
        number = format!("{number}.{}", fraction.text);
        at += 2;
    }
    let unit = next(rest, at + 1);
    let is = |word: &str| unit.is_some_and(|unit| rest[unit].is(word));
    let (unit, end) = match unit {
        Some(unit) if rest[unit].text == "%" || is("percent") => ("PERCENT", unit + 1),
        Some(unit) if is("rows") => ("ROWS", unit + 1),
        _ => ("ROWS", at + 1),
    };
    let (method, end) = match next(rest, end).filter(|&open| rest[open].text == "(") {
        Some(open) => sample_method(rest, open)?,
        None => ("", end),
    };
    out.push_str(&format!("TABLESAMPLE {method}({number} {unit})"));
    Some(end)
}

/// The method that is in brackets after the size of a sample, which may not have a seed; and the position after it.
fn sample_method(rest: &[Token<'_>], open: usize) -> Option<(&'static str, usize)> {
    let name = next(rest, open + 1)?;
    let close = next(rest, name + 1).filter(|&close| rest[close].text == ")")?;
    let method = match () {
        () if rest[name].is("bernoulli") => "BERNOULLI ",
        () if rest[name].is("system") => "SYSTEM ",
        () if rest[name].is("reservoir") => "",
        () => return None,
    };
    Some((method, close + 1))
}

/// `TABLE t` in the place of a query.
fn table_alone(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> Option<usize> {
    let name = next(rest, 1).filter(|&name| rest[0].is("table") && name > 1 && is_name(&rest[name]))?;
    let previous = last(before)?;
    let begins = match previous.text {
        "(" => true,
        // Of WITH.
        ")" => next(before, 0)
            .is_some_and(|first| ["with", "explain", "prepare"].iter().any(|word| before[first].is(word))),
        _ => ["union", "except", "intersect", "all", "name"].iter().any(|word| previous.is(word)),
    };
    let is_call = next(rest, name + 1).is_some_and(|after| rest[after].text == "(");
    if !begins || is_call {
        return None;
    }
    out.push_str("SELECT * FROM");
    Some(1)
}

/// Rewrites `FROM t WHERE c` without SELECT, at the beginning of a query.
fn from_alone(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> Option<usize> {
    let begins = match last(before) {
        None => true,
        Some(token) if token.text == "(" => {
            let at = before.iter().rposition(|token| token.text == "(")?;
            !last(&before[..at]).is_some_and(|token| ["substring", "trim", "extract"].iter().any(|word| token.is(word)))
        }
        Some(token) => token.text == ";" || token.is("as") && next(before, 0).is_some_and(|at| before[at].is("create")),
    };
    if !rest[0].is("from") || !begins {
        return None;
    }
    let mut depth = 0usize;
    for token in &rest[1..] {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" | ";" if depth == 0 => break,
            ")" | "]" | "}" => depth -= 1,
            // The next query of a set operation.
            _ if depth == 0 && ["union", "except", "intersect"].iter().any(|word| token.is(word)) => break,
            _ if depth == 0 && token.is("select") => return None,
            _ => {}
        }
    }
    out.push_str("SELECT * FROM");
    Some(1)
}

/// Whether the last clause is a FROM of one relation.
fn is_one_relation(before: &[Token<'_>]) -> bool {
    let clauses =
        ["where", "group", "having", "order", "limit", "join", "select", "qualify", "window", "pivot", "unpivot"];
    let mut depth = 0usize;
    for token in before.iter().rev() {
        match token.text {
            ")" | "]" | "}" => depth += 1,
            "(" | "[" | "{" if depth == 0 => return false,
            "(" | "[" | "{" => depth -= 1,
            _ if depth > 0 => {}
            "," => return false,
            _ if token.is("from") => return true,
            _ if clauses.iter().any(|word| token.is(word)) => return false,
            _ => {}
        }
    }
    false
}

/// The query for the result of a DESCRIBE or SUMMARIZE statement.
pub(crate) fn answer(sql: &str) -> String {
    let name = statement_name(sql).replace('"', "\"\"");
    let summary = sql.get(..9).is_some_and(|word| word.eq_ignore_ascii_case("summarize"));
    match summary {
        true => format!("SELECT * EXCLUDE (\"\u{1}at\") FROM \"{name}\" ORDER BY \"\u{1}at\""),
        false => format!("SELECT * FROM \"{name}\""),
    }
}

/// Rewrites `(DESCRIBE ...)` and `(SUMMARIZE ...)` to a query of their result.
fn statement(rest: &[Token<'_>], before: &[Token<'_>], out: &mut String) -> Option<usize> {
    let is_show = rest[0].is("show")
        && next(rest, 1)
            .is_some_and(|first| ["select", "from", "with", "values"].iter().any(|word| rest[first].is(word)));
    if !(rest[0].is("describe") || rest[0].is("summarize") || is_show)
        || last(before).is_none_or(|token| token.text != "(")
    {
        return None;
    }
    // A name or a query follows.
    let first = next(rest, 1)?;
    if !is_name(&rest[first]) && !matches!(rest[first].text, "(") && rest[first].piece != Piece::Quoted {
        return None;
    }
    let mut depth = 0usize;
    let end = rest.iter().position(|token| match token.text {
        "(" => {
            depth += 1;
            false
        }
        ")" if depth == 0 => true,
        ")" => {
            depth -= 1;
            false
        }
        _ => false,
    })?;
    // `DESCRIBE TABLE t`.
    let named = next(rest, first + 1).filter(|&name| rest[first].is("table") && name < end && is_name(&rest[name]));
    let source: String = rest[named.unwrap_or(first)..end].iter().map(|token| token.text).collect();
    let word = if is_show { "DESCRIBE" } else { rest[0].text };
    out.push_str(&answer(&format!("{word} {}", source.trim())));
    Some(end)
}
