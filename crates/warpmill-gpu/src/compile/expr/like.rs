//! LIKE: the pattern's shape is part of the kernel text, its characters are parameters.

use std::sync::Arc;

use warpmill_ir::{Expr, Unsupported};

use super::cast::string;
use super::context::Context;
use crate::compile::cpp::{CType, Value};
use crate::compile::params::Binding;
use crate::kernels::library::Library;

/// A pattern.
#[derive(Debug, PartialEq)]
pub(super) enum Shape {
    Exact(String),
    Prefix(String),
    Suffix(String),
    Contains(String),
    /// Parts with `%` between them; the first and last are anchored at the ends and may be empty.
    Parts {
        prefix: String,
        middle: Vec<String>,
        suffix: String,
    },
    /// A pattern with `_`, or case-insensitive: characters, [`ANY_CHAR`] and [`ANY_STRING`].
    Tokens {
        tokens: Vec<u32>,
        any_case: bool,
    },
}

const ANY_CHAR: u32 = u32::MAX;
const ANY_STRING: u32 = u32::MAX - 1;

/// The characters and wildcards of a pattern. An escape character makes the next one literal; as the last one it stands for
/// itself.
fn tokens(pattern: &str, escape: char, any_case: bool) -> Vec<u32> {
    let mut tokens: Vec<u32> = vec![];
    let literal = |c: char, tokens: &mut Vec<u32>| match any_case {
        true => tokens.extend(c.to_lowercase().map(u32::from)),
        false => tokens.push(c.into()),
    };
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c == escape => literal(chars.next().unwrap_or(escape), &mut tokens),
            '%' if tokens.last() == Some(&ANY_STRING) => {}
            '%' => tokens.push(ANY_STRING),
            '_' => tokens.push(ANY_CHAR),
            c => literal(c, &mut tokens),
        }
    }
    tokens
}

impl Shape {
    pub fn new(pattern: &str, escape: char, any_case: bool) -> Self {
        let tokens = tokens(pattern, escape, any_case);
        if any_case || tokens.contains(&ANY_CHAR) {
            return Shape::Tokens { tokens, any_case };
        }
        let literal = |part: &[u32]| part.iter().filter_map(|&c| char::from_u32(c)).collect::<String>();
        let mut parts: Vec<String> = tokens.split(|&token| token == ANY_STRING).map(literal).collect();
        let suffix = parts.pop().unwrap_or_default();
        if parts.is_empty() {
            return Shape::Exact(suffix);
        }
        let prefix = parts.remove(0);
        match (prefix.is_empty(), parts.len(), suffix.is_empty()) {
            (_, 0, true) => Shape::Prefix(prefix),
            (true, 0, _) => Shape::Suffix(suffix),
            (true, 1, true) => Shape::Contains(parts.remove(0)),
            _ => Shape::Parts { prefix, middle: parts, suffix },
        }
    }
}

/// A `Needle` and its span as C++ arguments (kernels/strings.cuh). The span is part of the kernel text, as it selects the instructions that search
/// for the needle. `part` is not empty.
fn needle(context: &mut Context<'_>, part: &str) -> String {
    let bytes = part.as_bytes();
    let text = context.params.text("like", part.into());
    if let Some(word) = bytes.first_chunk::<4>() {
        let first = context.params.value(CType::U32, "bytes", word.to_vec());
        return format!("Needle{{{text}, {first}, 0}}, 3");
    }
    let span = bytes.len() - 1;
    let [first, other] = [bytes[0], bytes[span]].map(|byte| context.params.value(CType::U32, "byte", vec![byte; 4]));
    format!("Needle{{{text}, {first}, {other}}}, {span}")
}

/// `input [NOT] LIKE` a pattern of this shape.
pub(super) fn like(
    input: &Expr,
    shape: &Shape,
    negated: bool,
    context: &mut Context<'_>,
) -> Result<Value, Unsupported> {
    let value = string(input, context)?;
    context.params.require(Library::Like);
    let s = &value.text;
    let valid = value.valid.as_deref();
    let text = |context: &mut Context<'_>, text: &str| context.params.text("like", text.into());
    let test = match shape {
        Shape::Exact(part) => format!("same({s}, {})", text(context, part)),
        Shape::Prefix(part) => format!("starts_with({s}, {})", text(context, part)),
        Shape::Suffix(part) => format!("ends_with({s}, {})", text(context, part)),
        Shape::Contains(part) => format!("contains({s}, {})", needle(context, part)),
        Shape::Parts { prefix, middle, suffix } => {
            let rest = match prefix.is_empty() && suffix.is_empty() {
                true => format!("like_any({s})"),
                false => format!("like_ends({s}, {}, {})", text(context, prefix), text(context, suffix)),
            };
            let found =
                middle.iter().fold(rest, |found, part| format!("like_part({found}, {})", needle(context, part)));
            format!("{found}.match")
        }
        Shape::Tokens { tokens, any_case } => {
            if *any_case {
                let ascii = context.where_ok(CType::Bool, &format!("!is_ascii({s})"), valid);
                context.raise(&format!("({ascii})"), valid, "ERROR_HOST");
            }
            let bytes: Arc<[u8]> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
            let count = (tokens.len() as u32).to_le_bytes().to_vec();
            let pattern = context.params.pointer("u32", "pattern", Binding::Data(bytes));
            let count = context.params.value(CType::U32, "tokens", count);
            format!("like_tokens({s}, {pattern}, {count}, {any_case})")
        }
    };
    let found = context.where_ok(CType::Bool, &test, valid);
    let found = context.named(CType::Bool, "like", &found);
    let text = if negated { format!("!{found}") } else { found };
    Ok(context.define(CType::Bool, &text, value.valid))
}
