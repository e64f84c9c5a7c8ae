//! LIKE: patterns compiled to prefix, suffix and substring searches; patterns with `_` use a character matcher.

use std::borrow::Cow;

use memchr::memmem::Finder;
use warpmill_format::TextAutomaton;

use crate::error::Result;
use crate::expr::call::{Compute, all_valid, rows};
use crate::expr::value::{Native, Value};
use crate::memory::Worker;
use crate::vector::Vector;

/// A compiled LIKE with a constant pattern.
#[derive(Debug)]
pub(in crate::expr) struct Like {
    pattern: Pattern,
    case_insensitive: bool,
    negated: bool,
}

#[derive(Debug)]
enum Pattern {
    Exact(String),
    /// Literal parts with `%` between them. The first and last are anchored at the ends and may be empty.
    Parts {
        prefix: String,
        middle: Vec<Finder<'static>>,
        suffix: String,
    },
    /// Tokens, for patterns with `_`.
    Tokens(Vec<Token>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token {
    Char(char),
    AnyChar,
    AnyString,
}

impl Token {
    fn lower(self) -> Vec<Token> {
        match self {
            Token::Char(c) => c.to_lowercase().map(Token::Char).collect(),
            other => vec![other],
        }
    }
}

impl Like {
    pub fn new(pattern: &str, escape: Option<char>, case_insensitive: bool, negated: bool) -> Self {
        let mut tokens = tokens(pattern, escape.unwrap_or('\\'));
        if case_insensitive {
            tokens = tokens.into_iter().flat_map(Token::lower).collect();
        }
        Self { pattern: Pattern::new(&tokens), case_insensitive, negated }
    }

    /// An automaton for the texts that match before negation; `None` if the pattern has none, or it would be too large.
    pub fn automaton(&self) -> Option<TextAutomaton> {
        match &self.pattern {
            _ if self.case_insensitive => None,
            Pattern::Exact(literal) => TextAutomaton::exactly(literal),
            Pattern::Parts { prefix, middle, suffix } => {
                TextAutomaton::parts(prefix, middle.iter().map(Finder::needle), suffix)
            }
            Pattern::Tokens(_) => None,
        }
    }

    /// Whether the predicate is true for `s`.
    #[inline]
    pub fn passes(&self, s: &str) -> bool {
        self.matches(s) != self.negated
    }

    fn matches(&self, s: &str) -> bool {
        if !self.case_insensitive {
            return self.pattern.matches(s);
        }
        let lower: Cow<'_, str> = if s.is_ascii() && !s.bytes().any(|b| b.is_ascii_uppercase()) {
            Cow::Borrowed(s)
        } else {
            Cow::Owned(s.to_lowercase())
        };
        self.pattern.matches(&lower)
    }
}

/// An escape character makes the next one literal; at the end it is literal itself.
fn tokens(pattern: &str, escape: char) -> Vec<Token> {
    let mut tokens = vec![];
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        tokens.push(match c {
            c if c == escape => Token::Char(chars.next().unwrap_or(escape)),
            '%' if tokens.last() == Some(&Token::AnyString) => continue,
            '%' => Token::AnyString,
            '_' => Token::AnyChar,
            c => Token::Char(c),
        });
    }
    tokens
}

impl Pattern {
    fn new(tokens: &[Token]) -> Self {
        if tokens.contains(&Token::AnyChar) {
            return Pattern::Tokens(tokens.to_vec());
        }
        let literal = |part: &[Token]| -> String {
            part.iter()
                .map(|token| match token {
                    Token::Char(c) => *c,
                    other => unreachable!("{other:?} in a literal part"),
                })
                .collect()
        };
        let mut parts: Vec<String> = tokens.split(|token| *token == Token::AnyString).map(literal).collect();
        let Some(suffix) = parts.pop().filter(|_| !parts.is_empty()) else {
            return Pattern::Exact(literal(tokens));
        };
        let prefix = parts.remove(0);
        let middle = parts.iter().map(|part| Finder::new(part.as_bytes()).into_owned()).collect();
        Pattern::Parts { prefix, middle, suffix }
    }

    fn matches(&self, s: &str) -> bool {
        match self {
            Pattern::Exact(literal) => s == literal,
            Pattern::Parts { prefix, middle, suffix } => {
                let s = s.as_bytes();
                // Empty parts are not compared: comparing zero bytes at a dangling pointer may take 80 ns if the library uses masked loads.
                if s.len() < prefix.len() + suffix.len()
                    || !prefix.is_empty() && !s.starts_with(prefix.as_bytes())
                    || !suffix.is_empty() && !s.ends_with(suffix.as_bytes())
                {
                    return false;
                }
                // The leftmost occurrence of each part leaves the most for the next.
                let mut rest = &s[prefix.len()..s.len() - suffix.len()];
                for part in middle {
                    match part.find(rest) {
                        Some(at) => rest = &rest[at + part.needle().len()..],
                        None => return false,
                    }
                }
                true
            }
            // Bytes that are characters need not be decoded.
            Pattern::Tokens(tokens) if s.is_ascii() => matches_tokens(tokens, s.bytes().map(char::from)),
            Pattern::Tokens(tokens) => matches_tokens(tokens, s.chars()),
        }
    }
}

/// Greedy matching of all of `rest`, backtracking to the last `%` only.
fn matches_tokens(tokens: &[Token], mut rest: impl Iterator<Item = char> + Clone) -> bool {
    let mut t = 0;
    let mut back = None;
    loop {
        let mut ahead = rest.clone();
        let next = ahead.next();
        match (tokens.get(t), next) {
            (Some(Token::AnyString), _) => {
                t += 1;
                back = Some((t, rest.clone()));
            }
            (None, None) => return true,
            (Some(Token::AnyChar), Some(_)) => (t, rest) = (t + 1, ahead),
            (Some(Token::Char(c)), Some(n)) if *c == n => (t, rest) = (t + 1, ahead),
            _ => {
                let Some((token, from)) = &mut back else { return false };
                if from.next().is_none() {
                    return false;
                }
                (t, rest) = (*token, from.clone());
            }
        }
    }
}

impl Compute for Like {
    fn eval(&self, args: &[Value], len: usize, _worker: &mut Worker) -> Result<Value> {
        let Some(validity) = all_valid(args) else { return Ok(Value::null(warpmill_ir::Phys::Bool)) };
        let text = args[0].texts();
        let truth = rows(len, validity.as_ref(), |i| Ok(self.passes(text.at(i))))?;
        Ok(Value::rows(Vector::with_validity(bool::wrap(truth), validity)))
    }

    fn fallible(&self) -> bool {
        false
    }
}
