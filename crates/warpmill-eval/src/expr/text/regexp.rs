//! Regular expressions, with the `regex` crate's syntax as in DataFusion.

use std::borrow::Cow;
use std::collections::HashMap;

use regex::Regex;
use warpmill_format::StrView;
use warpmill_ir::{Function, Phys};

use crate::error::{ExecError, Result};
use crate::expr::call::{Compute, all_valid, rows};
use crate::expr::value::{Native, Value};
use crate::memory::Worker;
use crate::vector::Vector;

/// `regexp_like(string, pattern [, flags])` or `regexp_replace(string, pattern, replacement [, flags])`.
#[derive(Debug)]
pub(in crate::expr) struct Regexp {
    function: Function,
    /// The compiled pattern where pattern, replacement and flags are constants.
    compiled: Option<Compiled>,
}

/// Largest size of a result, in bytes, that is not checked during its construction.
const SMALL: usize = 1 << 20;

#[derive(Debug)]
struct Compiled {
    regex: Regex,
    replacement: String,
    all: bool,
    /// For `regexp_replace(s, '^...(...).*$', '\1')`: the pattern without its end, which finds the group sooner.
    short: Option<Regex>,
}

impl Compiled {
    fn new(function: Function, pattern: &str, replacement: Option<&str>, flags: Option<&str>) -> Result<Self> {
        let all = flags.is_some_and(|f| f.contains('g'));
        if all && function == Function::RegexpLike {
            return Err(ExecError::Value("regexp_like() does not support the \"global\" option".into()));
        }
        let flags = flags.map(|f| f.replace('g', "")).unwrap_or_default();
        let text = if flags.is_empty() { pattern.to_owned() } else { format!("(?{flags}){pattern}") };
        let regex = Regex::new(&text)
            .map_err(|error| ExecError::Value(format!("invalid regular expression '{pattern}': {error}")))?;
        let replacement = rust_groups(replacement.unwrap_or_default());
        let short = text.strip_suffix(".*$").filter(|_| !all && replacement == "${1}" && text.starts_with('^'));
        let short = short.and_then(|short| Regex::new(short).ok()).filter(|short| short.captures_len() == 2);
        Ok(Self { regex, replacement, all, short })
    }

    /// `s` after replacement: a part of `s`, or the content of `line`.
    fn replace<'a>(&self, s: &'a str, line: &mut String, worker: &Worker) -> Result<Option<&'a str>> {
        if let Some(short) = &self.short {
            let Some(found) = short.captures(s) else { return Ok(Some(s)) };
            let end = found.get(0).map_or(0, |all| all.end());
            // `.` does not match a line end, so the rest always matches only within one line.
            if memchr::memchr(b'\n', &s.as_bytes()[end..]).is_none() {
                return Ok(Some(found.get(1).map_or("", |group| group.as_str())));
            }
        }
        // Upper bound of the size of a replacement.
        let groups = self.replacement.matches('$').count();
        let most = self.replacement.len() + groups * s.len();
        let times = if self.all { s.len() + 1 } else { 1 };
        if times.saturating_mul(most).saturating_add(s.len()) <= SMALL {
            return Ok(match self.regex.replacen(s, usize::from(!self.all), self.replacement.as_str()) {
                Cow::Borrowed(part) => Some(part),
                Cow::Owned(made) => {
                    *line = made;
                    None
                }
            });
        }
        line.clear();
        let mut end = 0;
        for found in self.regex.captures_iter(s).take(times) {
            let Some(all) = found.get(0) else { continue };
            worker.room_in(line, all.start() - end + most)?;
            line.push_str(&s[end..all.start()]);
            found.expand(&self.replacement, line);
            end = all.end();
        }
        worker.room_in(line, s.len() - end)?;
        line.push_str(&s[end..]);
        Ok(None)
    }
}

/// Converts group references from POSIX (`\1`) to the `regex` crate's (`${1}`).
fn rust_groups(replacement: &str) -> String {
    let mut out = String::with_capacity(replacement.len() + 8);
    let mut rest = replacement;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        let slashes = tail.bytes().take_while(|b| *b == b'\\').count();
        let digits = tail[slashes..].bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            // Of more than two backslashes all but the last two are literal.
            out.push_str(&tail[..slashes.saturating_sub(2)]);
            out.push_str(&format!("${{{}}}", &tail[slashes..slashes + digits]));
        } else {
            out.push_str(&tail[..slashes]);
        }
        rest = &tail[slashes + digits..];
    }
    out + rest
}

impl Regexp {
    /// Compiles the pattern if the arguments after the first are the given constants. An invalid pattern becomes an error of the rows that need it.
    pub fn new(function: Function, constants: Option<&[&str]>) -> Self {
        let flags_at = if function == Function::RegexpLike { 1 } else { 2 };
        let compiled = constants.and_then(|c| {
            let replacement = c.get(1).filter(|_| flags_at == 2).copied();
            Compiled::new(function, c[0], replacement, c.get(flags_at).copied()).ok()
        });
        Self { function, compiled }
    }

    fn compile(&self, args: &[Value], i: usize) -> Result<Compiled> {
        let at = |arg: usize| args.get(arg).map(|a| a.texts().at(i));
        let pattern = at(1).unwrap_or_default();
        match self.function {
            Function::RegexpLike => Compiled::new(self.function, pattern, None, at(2)),
            _ => Compiled::new(self.function, pattern, at(2), at(3)),
        }
    }
}

impl Compute for Regexp {
    fn eval(&self, args: &[Value], len: usize, worker: &mut Worker) -> Result<Value> {
        let phys = if self.function == Function::RegexpLike { Phys::Bool } else { Phys::Str };
        let Some(validity) = all_valid(args) else { return Ok(Value::null(phys)) };
        let valid = validity.as_ref();
        let text = args[0].texts();
        let mut cache: HashMap<Vec<&str>, Compiled> = HashMap::new();
        let mut line = String::new();
        let mut with = |i: usize, f: &mut dyn FnMut(&Compiled) -> Result<()>| -> Result<()> {
            if let Some(compiled) = &self.compiled {
                return f(compiled);
            }
            let key: Vec<&str> = args[1..].iter().map(|arg| arg.texts().at(i)).collect();
            if !cache.contains_key(&key) {
                cache.insert(key.clone(), self.compile(args, i)?);
            }
            f(&cache[&key])
        };
        let data = match phys {
            Phys::Bool => bool::wrap(rows(len, valid, |i| {
                let mut found = false;
                with(i, &mut |c| {
                    found = c.regex.is_match(text.at(i));
                    Ok(())
                })?;
                Ok(found)
            })?),
            _ => StrView::wrap(rows(len, valid, |i| {
                let mut view = StrView::default();
                with(i, &mut |c| {
                    view = match c.replace(text.at(i), &mut line, &*worker)? {
                        Some(part) => StrView::new(part),
                        None => worker.text(&line)?,
                    };
                    Ok(())
                })?;
                Ok(view)
            })?),
        };
        Ok(Value::rows(Vector::with_validity(data, validity)))
    }

    fn fallible(&self) -> bool {
        self.compiled.is_none()
    }
}
