//! Functions of strings.

use warpmill_ir::{Expr, Function, Phys, Unsupported};

use super::cast::{held_as, string};
use super::context::{Context, null};
use crate::compile::cpp::{CType, Value};
use crate::kernels::library::Library;

/// `function(args)`.
pub(super) fn call(
    expr: &Expr,
    function: Function,
    args: &[Expr],
    context: &mut Context<'_>,
) -> Result<Value, Unsupported> {
    context.params.require(Library::Text);
    if function == Function::Concat {
        return concat(args, context);
    }
    let values = args.iter().map(|arg| argument(arg, context)).collect::<Result<Vec<_>, _>>()?;
    let valid = context.both_valid(&values.iter().collect::<Vec<_>>());
    if valid.as_deref() == Some("false") {
        return Ok(null(CType::of(expr.ty.phys)));
    }
    let wrong = || Unsupported::new(expr, format!("{function:?} of {} arguments", args.len()));
    let texts: Vec<&str> = values.iter().map(|value| value.text.as_str()).collect();
    let (ty, call) = match (function, texts.as_slice()) {
        (Function::Substr, [s, start]) => {
            range_checks(start, None, valid.as_deref(), context);
            (CType::Str, format!("substr({s}, {start})"))
        }
        (Function::Substr, [s, start, count]) => {
            range_checks(start, Some(count), valid.as_deref(), context);
            (CType::Str, format!("substr({s}, {start}, {count})"))
        }
        (Function::CharLength, [s]) => (CType::U32, format!("char_count({s})")),
        (Function::OctetLength, [s]) => (CType::U32, format!("{s}.len")),
        (Function::StrPos, [s, part]) => (CType::U32, format!("position({s}, {part})")),
        // The mappings agree on ASCII; for other characters the kernel defers to the host.
        (Function::Upper | Function::Lower | Function::SimpleUpper | Function::SimpleLower, [s]) => {
            let state = context.params.state();
            let upper = matches!(function, Function::Upper | Function::SimpleUpper);
            (CType::Str, format!("ascii_case({state}, {s}, {upper})"))
        }
        (Function::Trim | Function::LTrim | Function::RTrim, [s, set @ ..]) => {
            let ends = format!("{}, {}", function != Function::RTrim, function != Function::LTrim);
            match set {
                [] => (CType::Str, format!("trim_spaces({s}, {ends})")),
                [set] => (CType::Str, format!("trim({s}, {set}, {ends})")),
                _ => return Err(wrong()),
            }
        }
        // Qualified, since kernels have variables of these names.
        (Function::Left, [s, count]) => (CType::Str, format!("::left({s}, {count})")),
        (Function::Right, [s, count]) => (CType::Str, format!("::right({s}, {count})")),
        (Function::StartsWith, [s, part]) => (CType::Bool, format!("starts_with({s}, {part})")),
        (Function::EndsWith, [s, part]) => (CType::Bool, format!("ends_with({s}, {part})")),
        (Function::Contains, [s, part]) => (CType::Bool, format!("contains({s}, {part})")),
        (Function::Replace, [s, from, to]) => {
            let state = context.params.state();
            (CType::Str, format!("replace({state}, {s}, {from}, {to})"))
        }
        (Function::RegexpLike | Function::RegexpReplace, _) => {
            return Err(Unsupported::new(expr, "a regular expression on strings that are not a column's dictionary"));
        }
        _ => return Err(wrong()),
    };
    let text = context.where_ok(ty, &call, valid.as_deref());
    let value = context.define(ty, &text, valid);
    Ok(held_as(value, CType::of(expr.ty.phys), context))
}

/// Strings as `Str`, numbers as `i64`.
fn argument(arg: &Expr, context: &mut Context<'_>) -> Result<Value, Unsupported> {
    match arg.ty.phys {
        Phys::Code => string(arg, context),
        Phys::I32 => {
            let value = context.emit(arg)?;
            Ok(held_as(value, CType::I64, context))
        }
        Phys::Str | Phys::I64 => context.emit(arg),
        other => Err(Unsupported::new(arg, format!("an argument held as {other:?}"))),
    }
}

fn range_checks(start: &str, count: Option<&str>, valid: Option<&str>, context: &mut Context<'_>) {
    let mut bad = format!("{start} == {}", super::leaf::constant(i64::MIN.into(), CType::I64));
    if let Some(count) = count {
        bad.push_str(&format!(" || {count} < 0"));
    }
    context.raise(&format!("({bad})"), valid, "ERROR_VALUE");
}

/// Concatenates all arguments; NULLs count as empty.
fn concat(args: &[Expr], context: &mut Context<'_>) -> Result<Value, Unsupported> {
    let mut parts = Vec::with_capacity(args.len());
    for arg in args {
        let value = string(arg, context)?;
        parts.push(match value.valid.as_deref() {
            None => value.text,
            Some("false") => continue,
            Some(valid) => {
                let text = format!("{valid} ? {} : {}", value.text, CType::Str.zero());
                context.code.define(CType::Str, "part", text)
            }
        });
    }
    let (state, guard) = (context.params.state(), context.guard.clone());
    let result = context.code.variable(CType::Str, "v", CType::Str.zero());
    let length: Vec<String> = parts.iter().map(|part| format!("(u64){part}.len")).collect();
    let length = if length.is_empty() { "0".to_owned() } else { length.join(" + ") };
    let body = |context: &mut Context<'_>| {
        let (len, bytes) = (context.code.fresh("len"), context.code.fresh("bytes"));
        context.code.line(format!("const u64 {len} = {length};"));
        context.code.line(format!("u8* const {bytes} = arena_alloc({state}, {len});"));
        let filled = parts.iter().fold(bytes.clone(), |at, part| format!("append({at}, {part})"));
        context.code.when(&format!("{bytes} != nullptr"), |code| {
            code.line(format!("{filled};"));
            code.line(format!("{result} = Str{{{bytes}, (u32){len}}};"));
        });
        Ok(())
    };
    context.block(&if guard == "true" { String::new() } else { format!("if ({guard})") }, "true".into(), body)?;
    Ok(Value::new(result, CType::Str))
}
