//! Functions of strings. Positions and lengths count characters (code points); substrings are views, not copies.

use memchr::memmem;
use warpmill_format::StrView;
use warpmill_ir::scalar::case;
use warpmill_ir::{Function, Phys};

use super::arith::is_set;
use super::call::{Compute, all_valid, rows};
use super::cast::widen;
use super::value::{Native, Texts, Value};
use crate::error::{ExecError, Result};
use crate::memory::Worker;
use crate::vector::{Data, Vector};

pub(super) mod like;
pub(super) mod regexp;
pub(super) mod test;

/// A string function with result representation `phys`.
#[derive(Debug)]
pub(super) struct Text {
    pub function: Function,
    pub phys: Phys,
}

impl Compute for Text {
    fn eval(&self, args: &[Value], len: usize, worker: &mut Worker) -> Result<Value> {
        if self.function == Function::Concat {
            return Ok(Value::rows(Vector::new(concat(args, len, worker)?)));
        }
        let Some(validity) = all_valid(args) else { return Ok(Value::null(self.phys)) };
        let valid = validity.as_ref();
        let text = args[0].texts();
        let string = |i: usize| text.at(i);
        let second = |i: usize| args[1].texts().at(i);
        // The parts are substrings of the first argument.
        let parts = |part: &dyn for<'a> Fn(usize, &'a str) -> &'a str| -> Result<Data> {
            Ok(StrView::wrap(rows(len, valid, |i| Ok(StrView::new(part(i, string(i)))))?))
        };
        let data = match self.function {
            Function::Substr => substr(args, valid, len)?,
            Function::CharLength => self.int(len, valid, |i| char_count(string(i))),
            Function::OctetLength => self.int(len, valid, |i| string(i).len()),
            Function::StrPos => match args[1].texts() {
                Texts::One(needle) => {
                    let finder = memmem::Finder::new(needle.as_bytes());
                    self.int(len, valid, |i| position(string(i), &finder))
                }
                Texts::Many(_) => {
                    self.int(len, valid, |i| position(string(i), &memmem::Finder::new(second(i).as_bytes())))
                }
            },
            Function::Upper => StrView::wrap(rows(len, valid, |i| upper(*text.view(i), str::to_uppercase, worker))?),
            Function::Lower => StrView::wrap(rows(len, valid, |i| lower(*text.view(i), str::to_lowercase, worker))?),
            Function::SimpleUpper => {
                let mapped = |text: &str| case::mapped(text, true);
                StrView::wrap(rows(len, valid, |i| upper(*text.view(i), mapped, worker))?)
            }
            Function::SimpleLower => {
                let mapped = |text: &str| case::mapped(text, false);
                StrView::wrap(rows(len, valid, |i| lower(*text.view(i), mapped, worker))?)
            }
            Function::Trim | Function::LTrim | Function::RTrim => {
                let (left, right) = (self.function != Function::RTrim, self.function != Function::LTrim);
                match args.len() {
                    1 => parts(&|_, s| trim(s, left, right, |c| c == ' '))?,
                    _ => parts(&|i, s| trim(s, left, right, |c| second(i).contains(c)))?,
                }
            }
            Function::Left | Function::Right => {
                let count = widen(Phys::I64, args[1].clone());
                let count = count.side::<i64>();
                match self.function {
                    Function::Left => parts(&|i, s| &s[..prefix_bytes(s, count.at(i))])?,
                    _ => parts(&|i, s| right(s, count.at(i)))?,
                }
            }
            Function::StartsWith => bool::wrap(rows(len, valid, |i| Ok(string(i).starts_with(second(i))))?),
            Function::EndsWith => bool::wrap(rows(len, valid, |i| Ok(string(i).ends_with(second(i))))?),
            Function::Contains => match args[1].texts() {
                Texts::One(needle) => {
                    let finder = memmem::Finder::new(needle.as_bytes());
                    bool::wrap(rows(len, valid, |i| Ok(finder.find(string(i).as_bytes()).is_some()))?)
                }
                Texts::Many(_) => bool::wrap(rows(len, valid, |i| Ok(string(i).contains(second(i))))?),
            },
            Function::Replace => {
                let to = args[2].texts();
                let mut line = String::new();
                let mut replace =
                    |i: usize, from: &memmem::Finder<'_>| replace(*text.view(i), from, to.at(i), &mut line, worker);
                StrView::wrap(match args[1].texts() {
                    Texts::One(from) => {
                        let finder = memmem::Finder::new(from.as_bytes());
                        rows(len, valid, |i| replace(i, &finder))?
                    }
                    Texts::Many(from) => rows(len, valid, |i| replace(i, &memmem::Finder::new(from[i].as_bytes())))?,
                })
            }
            other => return Err(ExecError::Unsupported(format!("{other:?}"))),
        };
        Ok(Value::rows(Vector::with_validity(data, validity)))
    }

    fn fallible(&self) -> bool {
        self.function == Function::Substr
    }
}

impl Text {
    fn int(&self, len: usize, valid: Option<&warpmill_format::Bitmap>, f: impl Fn(usize) -> usize) -> Data {
        let at = |i: usize| if is_set(valid, i) { f(i) } else { 0 };
        match self.phys {
            Phys::I32 => i32::wrap((0..len).map(|i| at(i) as i32).collect()),
            Phys::I128 => i128::wrap((0..len).map(|i| at(i) as i128).collect()),
            _ => i64::wrap((0..len).map(|i| at(i) as i64).collect()),
        }
    }
}

/// Number of characters: bytes that do not continue one.
pub(super) fn char_count(s: &str) -> usize {
    s.as_bytes().iter().filter(|&&b| b as i8 >= -64).count()
}

/// The byte at which character `n` starts, or the end.
fn char_start(s: &str, n: usize) -> usize {
    if s.len() <= n {
        return s.len();
    }
    // The characters before `n` take `n` bytes exactly when they are ASCII.
    if s.as_bytes()[..n].is_ascii() {
        return n;
    }
    s.char_indices().nth(n).map_or(s.len(), |(at, _)| at)
}

/// `substr(s, start [, count])`: `start` counts from 1, and a part before the string is cut off.
fn substr(args: &[Value], valid: Option<&warpmill_format::Bitmap>, len: usize) -> Result<Data> {
    let text = args[0].texts();
    let start = widen(Phys::I64, args[1].clone());
    let start = start.side::<i64>();
    let count = args.get(2).map(|count| widen(Phys::I64, count.clone()));
    let count = count.as_ref().map(|count| count.side::<i64>());
    let views = rows(len, valid, |i| {
        let (s, start) = (text.at(i), start.at(i));
        let Some(first) = start.checked_sub(1) else {
            return Err(ExecError::Value(format!("substr: start position {start} is out of range")));
        };
        let from = char_start(s, first.max(0) as usize);
        let Some(count) = count else { return Ok(StrView::new(&s[from..])) };
        let count = count.at(i);
        if count < 0 {
            return Err(ExecError::Value(format!("substr: negative count not allowed: {count}")));
        }
        let wanted = first.saturating_add(count).max(0) as usize - first.max(0) as usize;
        let rest = &s[from..];
        Ok(StrView::new(&rest[..char_start(rest, wanted)]))
    });
    Ok(StrView::wrap(views?))
}

/// The position of the first match of `finder`, from 1; 0 without a match.
fn position(s: &str, finder: &memmem::Finder<'_>) -> usize {
    finder.find(s.as_bytes()).map_or(0, |at| char_count(&s[..at]) + 1)
}

/// `other` is the mapping of texts that are not ASCII.
fn upper(view: StrView, other: impl Fn(&str) -> String, worker: &mut Worker) -> Result<StrView> {
    let s = view.as_str();
    if s.is_ascii() {
        if !s.bytes().any(|b| b.is_ascii_lowercase()) {
            return Ok(view);
        }
        return worker.ascii_text(s, |b| b.to_ascii_uppercase());
    }
    worker.text(&other(s))
}

fn lower(view: StrView, other: impl Fn(&str) -> String, worker: &mut Worker) -> Result<StrView> {
    let s = view.as_str();
    if s.is_ascii() {
        if !s.bytes().any(|b| b.is_ascii_uppercase()) {
            return Ok(view);
        }
        return worker.ascii_text(s, |b| b.to_ascii_lowercase());
    }
    worker.text(&other(s))
}

fn trim(s: &str, left: bool, right: bool, drop: impl Fn(char) -> bool + Copy) -> &str {
    let s = if left { s.trim_start_matches(drop) } else { s };
    if right { s.trim_end_matches(drop) } else { s }
}

/// The bytes of the first `n` characters, or of all but the last `-n`.
fn prefix_bytes(s: &str, n: i64) -> usize {
    let count = usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX);
    if n >= 0 { char_start(s, count) } else { char_start(s, char_count(s).saturating_sub(count)) }
}

/// The last `n` characters, or all but the first `-n`.
fn right(s: &str, n: i64) -> &str {
    match n {
        0 | i64::MIN => "",
        n => &s[prefix_bytes(s, -n)..],
    }
}

/// `s` with every match of `from` replaced; an empty needle matches nowhere. `line` is a buffer.
fn replace(s: StrView, from: &memmem::Finder<'_>, to: &str, line: &mut String, worker: &mut Worker) -> Result<StrView> {
    let text = s.as_str();
    let needle = from.needle().len();
    if needle == 0 {
        return Ok(s);
    }
    line.clear();
    let mut end = 0;
    for at in from.find_iter(text.as_bytes()) {
        // Matches of a string begin and end at character boundaries.
        worker.push(line, &text[end..at])?;
        worker.push(line, to)?;
        end = at + needle;
    }
    if end == 0 {
        return Ok(s);
    }
    worker.push(line, &text[end..])?;
    worker.text(line)
}

/// Concatenates all arguments; NULLs count as empty.
fn concat(args: &[Value], len: usize, worker: &mut Worker) -> Result<Data> {
    let sides: Vec<(Texts<'_>, &Value)> = args.iter().map(|arg| (arg.texts(), arg)).collect();
    let mut parts = vec![""; sides.len()];
    let views = rows(len, None, |i| {
        for (part, (texts, arg)) in parts.iter_mut().zip(&sides) {
            *part = if arg.is_valid(i) { texts.at(i) } else { "" };
        }
        worker.joined(&parts)
    });
    Ok(StrView::wrap(views?))
}
