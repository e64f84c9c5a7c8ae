//! The depth of a statement, estimated from its tokens: linear in the text, without recursion, and never too low.

use datafusion::common::config::Dialect;
use datafusion::sql::sqlparser::dialect::{GenericDialect, dialect_from_str};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::{MAX_CALLS, MAX_DEPTH, MAX_RELATIONS};
use crate::{Error, Result};

/// Refuses a text that nests too deeply, or names too many tables, for the parser and the planner.
pub(crate) fn check_text(sql: &str, dialect: &Dialect) -> Result<()> {
    // Every call takes two characters at least, and no other limit is lower.
    if sql.len() < 2 * MAX_CALLS {
        return Ok(());
    }
    let dialect = dialect_from_str(dialect).unwrap_or_else(|| Box::new(GenericDialect {}));
    // The parser refuses a text that has no tokens.
    let Ok(tokens) = Tokenizer::new(&*dialect, sql).tokenize() else { return Ok(()) };
    let mut measure = Measure::default();
    for token in tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_) | Token::EOF)) {
        measure.take(token);
        // Unclosed brackets nest already.
        measure.check(measure.frames.len())?;
    }
    while !measure.frames.is_empty() {
        measure.close();
    }
    let depth = measure.outermost.ended();
    measure.check(depth)
}

/// The tokens between two brackets, or between CASE and END.
#[derive(Debug, Default)]
struct Frame {
    /// AND and OR since the last comma or clause.
    connectives: usize,
    /// Other operators since the last connective.
    operators: usize,
    /// The deepest bracket since the last connective.
    below: usize,
    /// The deepest part between connectives since the last comma or clause.
    part: usize,
    /// The deepest part between commas and clauses.
    deepest: usize,
    /// Set operations, and nested statements.
    sets: usize,
    /// Whether a comma is between two tables.
    from: bool,
    is_case: bool,
    is_call: bool,
}

impl Frame {
    fn end_part(&mut self) {
        self.part = self.part.max(std::mem::take(&mut self.operators) + std::mem::take(&mut self.below));
    }

    fn end_segment(&mut self) {
        self.end_part();
        self.deepest = self.deepest.max(std::mem::take(&mut self.connectives) + std::mem::take(&mut self.part));
    }

    /// Closes the frame, and returns its depth.
    fn ended(&mut self) -> usize {
        self.end_segment();
        self.deepest + self.sets
    }
}

/// The measures of a text so far.
#[derive(Debug, Default)]
struct Measure {
    outermost: Frame,
    frames: Vec<Frame>,
    /// Open calls, and the maximum of them.
    open_calls: usize,
    calls: usize,
    relations: usize,
    last: Last,
    /// Period-separated name parts so far.
    path: usize,
}

/// The token before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Last {
    /// The beginning, or after an operator, a comma, an opening bracket, or a keyword before an expression.
    #[default]
    Start,
    /// A word that may be the name of a function.
    Name,
    /// A literal.
    Value,
    /// A closing bracket.
    Closed,
}

impl Measure {
    fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().unwrap_or(&mut self.outermost)
    }

    fn take(&mut self, token: &Token) {
        let last = std::mem::take(&mut self.last);
        if !matches!(token, Token::Word(_) | Token::Period) {
            self.path = 0;
        }
        match token {
            Token::Word(word) if word.quote_style.is_some() => self.last = Last::Name,
            Token::Word(word) => self.word(word.keyword, last),
            Token::Comma => {
                let frame = self.frame();
                frame.end_segment();
                let between_tables = frame.from;
                self.relations += usize::from(between_tables);
            }
            Token::SemiColon => {
                self.frame().end_segment();
                self.frame().from = false;
            }
            Token::LParen | Token::LBracket | Token::LBrace => {
                let is_call = *token != Token::LParen || last == Last::Name;
                // `f(1)(2)(3)` and `a[1][2][3]` nest.
                self.frame().operators += usize::from(*token == Token::LBracket || last == Last::Closed);
                self.open(Frame { is_call, ..Frame::default() });
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                while self.frames.last().is_some_and(|frame| frame.is_case) {
                    self.close();
                }
                self.close();
                self.last = Last::Closed;
            }
            Token::Period => {
                self.path += 1;
                // Further than `catalog.schema.table.column` are fields of fields.
                self.frame().operators += usize::from(self.path > 3);
            }
            // `SELECT *`
            Token::Mul if last == Last::Start => self.last = Last::Value,
            token if is_value(token) => self.last = Last::Value,
            _ => self.frame().operators += 1,
        }
    }

    fn word(&mut self, word: Keyword, last: Last) {
        let after_operand = last != Last::Start;
        match word {
            Keyword::AND | Keyword::OR | Keyword::XOR => {
                let frame = self.frame();
                frame.end_part();
                frame.connectives += 1;
            }
            Keyword::CASE => self.open(Frame { is_case: true, ..Frame::default() }),
            Keyword::END if self.frames.last().is_some_and(|frame| frame.is_case) && after_operand => {
                self.close();
                self.last = Last::Closed;
            }
            Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::MINUS => {
                if after_operand {
                    self.frame().end_segment();
                }
                self.frame().sets += 1;
                self.frame().from = false;
            }
            Keyword::EXPLAIN | Keyword::DESCRIBE | Keyword::PREPARE | Keyword::ANALYZE => self.frame().sets += 1,
            Keyword::DESC if !after_operand => self.frame().sets += 1,
            Keyword::JOIN | Keyword::APPLY => {
                self.relations += 1;
                self.clause(after_operand);
            }
            Keyword::FROM => {
                self.relations += 1;
                self.clause(after_operand);
                self.frame().from = true;
            }
            // The conditions of joins are among the tables.
            Keyword::ON => self.clause(after_operand),
            word if is_clause(word) => {
                self.clause(after_operand);
                self.frame().from = false;
            }
            word if is_operator(word) => self.frame().operators += 1,
            _ => self.last = Last::Name,
        }
    }

    /// Begins a clause. A word in the place of an operand is the name of a column, even if it is a keyword.
    fn clause(&mut self, after_operand: bool) {
        match after_operand {
            true => self.frame().end_segment(),
            false => self.last = Last::Value,
        }
    }

    fn open(&mut self, frame: Frame) {
        self.open_calls += usize::from(frame.is_call);
        self.calls = self.calls.max(self.open_calls);
        self.frames.push(frame);
    }

    /// Ends the innermost frame.
    fn close(&mut self) {
        if let Some(mut ended) = self.frames.pop() {
            self.open_calls -= usize::from(ended.is_call);
            let depth = 1 + ended.ended();
            let frame = self.frame();
            frame.below = frame.below.max(depth);
        }
    }

    fn check(&self, depth: usize) -> Result<()> {
        let refuse = |text: String| Err(Error::Limit(text));
        match () {
            () if depth > MAX_DEPTH => refuse(format!(
                "the statement has more than {MAX_DEPTH} operators in a row or levels of nesting, which is the limit: \
                 use lists (IN, VALUES) or several statements"
            )),
            () if self.calls > MAX_CALLS => refuse(format!(
                "more than {MAX_CALLS} function calls or lists are inside each other, which is the limit"
            )),
            () if self.relations > MAX_RELATIONS => {
                refuse(format!("the statement names more than {MAX_RELATIONS} tables, which is the limit"))
            }
            () => Ok(()),
        }
    }
}

fn is_value(token: &Token) -> bool {
    matches!(
        token,
        Token::Number(..)
            | Token::Char(_)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::TripleSingleQuotedString(_)
            | Token::TripleDoubleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::DoubleQuotedByteStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::Placeholder(_)
    )
}

/// Keywords that end an expression and begin another one, or names.
fn is_clause(word: Keyword) -> bool {
    matches!(
        word,
        Keyword::SELECT
            | Keyword::WHERE
            | Keyword::GROUP
            | Keyword::HAVING
            | Keyword::QUALIFY
            | Keyword::WINDOW
            | Keyword::ORDER
            | Keyword::LIMIT
            | Keyword::OFFSET
            | Keyword::VALUES
            | Keyword::WHEN
            | Keyword::THEN
            | Keyword::ELSE
    )
}

/// Keywords that are operators.
fn is_operator(word: Keyword) -> bool {
    matches!(
        word,
        Keyword::NOT
            | Keyword::IS
            | Keyword::IN
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::SIMILAR
            | Keyword::TO
            | Keyword::RLIKE
            | Keyword::REGEXP
            | Keyword::MATCH
            | Keyword::MEMBER
            | Keyword::OF
            | Keyword::BETWEEN
            | Keyword::SYMMETRIC
            | Keyword::ASYMMETRIC
            | Keyword::COLLATE
            | Keyword::AT
            | Keyword::ZONE
            | Keyword::ESCAPE
            | Keyword::UESCAPE
            | Keyword::DISTINCT
            | Keyword::DIV
            | Keyword::MOD
            | Keyword::OVERLAPS
            | Keyword::OPERATOR
            | Keyword::PRIOR
            | Keyword::INTERVAL
            | Keyword::NOTNULL
            | Keyword::ALL
            | Keyword::ANY
            | Keyword::SOME
            | Keyword::BINARY
            | Keyword::EXISTS
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str) -> Result<()> {
        // Short texts are not looked at.
        check_text(&format!("{sql}{}", " ".repeat(2 * MAX_CALLS)), &Dialect::Generic)
    }

    fn chain(operand: &str, operator: &str, count: usize) -> String {
        format!("SELECT {} FROM t", vec![operand; count].join(operator))
    }

    #[test]
    fn a_thousand_terms_are_no_problem() {
        for operator in [" + ", " || ", " AND ", " OR ", "::int + ", " IS NULL = ", " BETWEEN 1 AND ", " NOT LIKE "] {
            assert!(check(&chain("x", operator, 1000)).is_ok(), "{operator}");
        }
        assert!(check(&chain("(a = 1 AND b = 'x')", " OR ", 1000)).is_ok());
        assert!(check(&chain("t.a * (1 - t.b)", " + ", 1000)).is_ok());
        assert!(check(&format!("SELECT {}i{}", "(".repeat(1000), ")".repeat(1000))).is_ok());
        assert!(check(&format!("SELECT {}i{}", "CASE WHEN a THEN 1 ELSE ".repeat(1000), " END".repeat(1000))).is_ok());
        assert!(check(&vec!["SELECT a + b FROM t WHERE c = 1"; 1000].join(" UNION ALL ")).is_ok());
        assert!(check(&format!("SELECT 1 FROM a0{}", " JOIN t AS b ON a.x = b.x AND a.y = b.y".repeat(1000))).is_ok());
    }

    #[test]
    fn wide_statements_are_not_deep() {
        let rows = vec!["(-1, 'x' || 'y', f(1))"; 100_000].join(", ");
        assert!(check(&format!("INSERT INTO t VALUES {rows}")).is_ok());
        let list = vec!["1"; 100_000].join(", ");
        assert!(check(&format!("SELECT * FROM t WHERE x IN ({list}) AND y NOT IN ({list})")).is_ok());
        let whens = "WHEN a = 1 THEN b + 1 ".repeat(20_000);
        assert!(check(&format!("SELECT CASE {whens} ELSE 0 END FROM t")).is_ok());
        assert!(check(&format!("SELECT {} FROM t", vec!["sum(a + 1) AS \"from\""; 20_000].join(", "))).is_ok());
        assert!(check(&vec!["SELECT a + b FROM t"; 1000].join("; ")).is_ok());
    }

    #[test]
    fn what_nests_too_deeply_is_refused() {
        let long = MAX_DEPTH + 2;
        let operators = [
            " + ",
            " || ",
            " AND ",
            " OR ",
            " = ",
            " IS DISTINCT FROM ",
            " + where + ",
            " + from + ",
            " -> ",
            " LIKE ",
            " AT TIME ZONE where AT TIME ZONE ",
            " COLLATE where + ",
            " BETWEEN 1 AND ",
            " UNION SELECT ",
            " + set - ",
            " * select * ",
            " + case + ",
            " IN ",
        ];
        for operator in operators {
            assert!(check(&chain("x", operator, long)).is_err(), "{operator}");
        }
        for before in
            ["NOT ", "- ", "~ ", "(", "[", "f(", "{", "CASE WHEN ", "EXPLAIN ", "(SELECT 1 WHERE a IN ", "a.b."]
        {
            assert!(check(&format!("SELECT {}x", before.repeat(long))).is_err(), "{before}");
        }
        for after in [" IS NULL", "::int", "[1]", "(1)", " ESCAPE 'x'", " COLLATE c", " NOTNULL"] {
            assert!(check(&format!("SELECT x{}", after.repeat(long))).is_err(), "{after}");
        }
        for tables in [", t", " JOIN t ON true", " CROSS JOIN t", " NATURAL JOIN t"] {
            assert!(check(&format!("SELECT 1 FROM t{} WHERE true", tables.repeat(long))).is_err(), "{tables}");
        }
        let tables = (1..long).map(|i| format!(", c{i} AS (SELECT 1 FROM c{})", i - 1)).collect::<String>();
        assert!(check(&format!("WITH c0 AS (SELECT 1){tables} SELECT 1")).is_err());
    }
}
