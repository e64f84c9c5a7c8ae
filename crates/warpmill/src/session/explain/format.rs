//! The options of EXPLAIN: `EXPLAIN (FORMAT json, ANALYZE) SELECT ...`.

use crate::{Error, Result};

/// The form in which EXPLAIN shows a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplainFormat {
    /// Titles and texts.
    Text,
    /// One JSON object.
    Json,
    /// A Mermaid flowchart.
    Mermaid,
    /// A page of HTML that needs nothing else.
    Html,
}

impl ExplainFormat {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Text, Self::Json, Self::Mermaid, Self::Html];

    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Mermaid => "mermaid",
            Self::Html => "html",
        }
    }

    /// The format called `name`, in any case.
    ///
    /// # Errors
    /// No such format.
    pub fn named(name: &str) -> Result<Self> {
        let name = name.trim_matches('\'');
        let found = Self::ALL.into_iter().find(|format| format.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| Error::Plan(format!("EXPLAIN has no format '{name}': use text, json, mermaid or html")))
    }
}

/// A statement EXPLAIN with options.
#[derive(Debug, PartialEq)]
pub(super) struct Explain<'a> {
    pub format: ExplainFormat,
    pub analyze: bool,
    pub verbose: bool,
    /// The statement that is explained.
    pub query: &'a str,
}

impl<'a> Explain<'a> {
    /// Parses `EXPLAIN [ANALYZE] [VERBOSE] (options) query` and `EXPLAIN [ANALYZE] FORMAT name query`; `None` for other statements, including EXPLAIN
    /// without format and options. `sql` has no comments and single spaces.
    ///
    /// # Errors
    /// An unknown option or format, or no statement.
    pub(super) fn parse(sql: &'a str) -> Result<Option<Self>> {
        let Some(mut rest) = after_word(sql, "explain") else { return Ok(None) };
        let mut found = Self { format: ExplainFormat::Text, analyze: false, verbose: false, query: "" };
        loop {
            if let Some(next) = after_word(rest, "analyze") {
                (found.analyze, rest) = (true, next);
            } else if let Some(next) = after_word(rest, "verbose") {
                (found.verbose, rest) = (true, next);
            } else {
                break;
            }
        }
        if let Some(next) = after_word(rest, "format") {
            let (name, query) = next.split_once(' ').unwrap_or((next, ""));
            // Other formats are left to DataFusion.
            let Ok(format) = ExplainFormat::named(name) else { return Ok(None) };
            (found.format, found.query) = (format, query);
        } else if let Some((options, query)) = options(rest) {
            for option in options.split(',') {
                found.set(option.trim())?;
            }
            found.query = query;
        } else {
            return Ok(None);
        }
        if found.query.is_empty() {
            return Err(Error::Parse("EXPLAIN is followed by a statement".into()));
        }
        Ok(Some(found))
    }

    fn set(&mut self, option: &str) -> Result<()> {
        let (name, value) = option.split_once([' ', '=']).unwrap_or((option, ""));
        let value = value.trim_matches([' ', '=']);
        let switch = || match value.to_ascii_lowercase().as_str() {
            "" | "true" | "on" | "1" => Ok(true),
            "false" | "off" | "0" => Ok(false),
            _ => Err(Error::Plan(format!("EXPLAIN: {name} is true or false, not {value}"))),
        };
        match name.to_ascii_lowercase().as_str() {
            "analyze" => self.analyze = switch()?,
            "verbose" => self.verbose = switch()?,
            "format" => self.format = ExplainFormat::named(value)?,
            _ => return Err(Error::Plan(format!("EXPLAIN has no option '{option}': use FORMAT, ANALYZE or VERBOSE"))),
        }
        Ok(())
    }
}

/// The rest of `sql` after `word` and a space or a bracket.
fn after_word<'a>(sql: &'a str, word: &str) -> Option<&'a str> {
    let (first, rest) = sql.split_at_checked(word.len())?;
    (first.eq_ignore_ascii_case(word) && rest.starts_with([' ', '('])).then(|| rest.trim_start())
}

/// The options in brackets at the beginning of `sql`, and the rest; `None` where the brackets contain a query.
fn options(sql: &str) -> Option<(&str, &str)> {
    let (inside, rest) = sql.strip_prefix('(')?.split_once(')')?;
    let word = inside.trim_start().split([' ', '=', ',', '(']).next()?;
    // Keywords that begin a query: other words in brackets are options, so that misspelled ones are reported.
    let queries =
        ["select", "with", "from", "values", "table", "pivot", "unpivot", "describe", "show", "summarize", ""];
    let is_query = queries.iter().any(|query| word.eq_ignore_ascii_case(query));
    (!is_query && word.chars().all(|c| c.is_ascii_alphanumeric())).then(|| (inside, rest.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::{Explain, ExplainFormat};

    fn parsed(sql: &str) -> (ExplainFormat, bool, bool, &str) {
        let found = Explain::parse(sql).unwrap().unwrap();
        (found.format, found.analyze, found.verbose, found.query)
    }

    #[test]
    fn options_are_in_brackets_or_words() {
        use ExplainFormat::{Html, Json, Mermaid, Text};
        assert_eq!(parsed("EXPLAIN (FORMAT JSON) SELECT 1"), (Json, false, false, "SELECT 1"));
        assert_eq!(parsed("explain(format 'html', analyze)select 1"), (Html, true, false, "select 1"));
        assert_eq!(parsed("EXPLAIN ANALYZE (FORMAT mermaid) FROM t"), (Mermaid, true, false, "FROM t"));
        assert_eq!(parsed("EXPLAIN (ANALYZE false, VERBOSE on) SELECT 1"), (Text, false, true, "SELECT 1"));
        assert_eq!(parsed("EXPLAIN ANALYZE FORMAT json SELECT 1"), (Json, true, false, "SELECT 1"));
        assert_eq!(parsed("EXPLAIN (FORMAT=json) (SELECT 1)"), (Json, false, false, "(SELECT 1)"));
    }

    #[test]
    fn other_statements_are_left_alone() {
        for sql in [
            "EXPLAIN SELECT 1",
            "EXPLAIN ANALYZE SELECT (1)",
            "EXPLAIN (SELECT 1)",
            "SELECT 1",
            "EXPLAIN",
            "explainer (format json) x",
        ] {
            assert_eq!(Explain::parse(sql).unwrap(), None, "{sql}");
        }
        assert_eq!(Explain::parse("EXPLAIN FORMAT indent SELECT 1").unwrap(), None);
        assert_eq!(Explain::parse("EXPLAIN ((SELECT 1))").unwrap(), None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (sql, part) in [
            ("EXPLAIN (FORMAT xml) SELECT 1", "xml"),
            ("EXPLAIN (FORMATS json) SELECT 1", "FORMATS"),
            ("EXPLAIN (ANALYZE maybe) SELECT 1", "maybe"),
            ("EXPLAIN (FORMAT json)", "followed"),
        ] {
            let error = Explain::parse(sql).unwrap_err().to_string();
            assert!(error.contains(part), "{sql}: {error}");
        }
    }
}
