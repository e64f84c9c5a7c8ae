//! Sub-expressions that the CPU evaluates before the kernel runs: constants, and expressions over one dictionary column, which become tables in
//! device memory indexed by code. The kernel text depends on a table's size class and on whether it has NULLs, not on its values.

use std::sync::Arc;

use warpmill_eval::expr::{fold, tabulate};
use warpmill_eval::{Data, Vector};
use warpmill_ir::recoding::{NO_CODE, Recoding};
use warpmill_ir::{Expr, ExprKind, Phys, Unsupported};

use super::context::Context;
use super::leaf::literal;
use crate::compile::cpp::{CType, Value};
use crate::compile::params::Binding;

/// The value of an expression of constants.
pub(super) fn constant(expr: &Expr, context: &mut Context<'_>) -> Option<Value> {
    let value = fold(expr)?;
    literal(expr, &value, context).ok()
}

/// The value of an expression over one dictionary column, looked up by code.
pub(super) fn by_code(expr: &Expr, context: &mut Context<'_>) -> Option<Value> {
    if let ExprKind::Widen(input) = &expr.kind
        && matches!(input.kind, ExprKind::Column(_))
    {
        // The dictionary itself is the table.
        return None;
    }
    let table = tabulate(expr)?;
    let codes = context.columns.get(table.column)?.clone()?;
    Some(Lookup::new(&table.values, codes).emit(expr.ty.phys, context))
}

/// The code of a combination of values.
pub(super) fn recode(expr: &Expr, recoding: &Recoding, context: &mut Context<'_>) -> Result<Value, Unsupported> {
    let mut parts = Vec::with_capacity(recoding.inputs.len());
    for (input, digit) in recoding.inputs.iter().zip(recoding.digits()) {
        let mut value = context.emit(input)?;
        if input.ty.phys != Phys::Code {
            let low = context.params.value(CType::I64, "low", digit.low.to_le_bytes().to_vec());
            value = Value { text: format!("(u32)((i64){} - {low})", value.text), ty: CType::U32, ..value };
        }
        let row = code_or_null(&value, digit.values, context);
        parts.push(match parts.is_empty() {
            // The first stride is 1.
            true => row,
            false => {
                let stride = (digit.stride as u32).to_le_bytes().to_vec();
                format!("{row} * {}", context.params.value(CType::U32, "stride", stride))
            }
        });
    }
    let index = context.named(CType::U32, "row", &parts.join(" + "));
    let codes = recoding.codes.iter().flat_map(|code| code.to_le_bytes()).collect::<Vec<u8>>();
    let table = context.params.pointer("u32", "codes", Binding::Data(codes.into()));
    let value = context.define(CType::U32, &format!("{table}[{index}]"), None);
    let valid = expr.ty.nullable.then(|| format!("{} != {NO_CODE}u", value.text));
    let valid = valid.map(|valid| context.named(CType::Bool, "valid", &valid));
    Ok(value.with_valid(valid))
}

/// `code`, or `null` if it is NULL or there is no row.
fn code_or_null(code: &Value, null: usize, context: &mut Context<'_>) -> String {
    let ok = context.ok(code.valid.as_deref());
    if ok == "true" {
        return code.text.clone();
    }
    let null = context.params.value(CType::U32, "null_row", (null as u32).to_le_bytes().to_vec());
    context.named(CType::U32, "row", &format!("{ok} ? {} : {null}", code.text))
}

/// A table and the codes that index it.
struct Lookup<'a> {
    /// One row for each code, and one for NULL.
    rows: &'a Vector,
    codes: Value,
    null_row: usize,
    /// Whether NULL has a value that is not NULL.
    null_has_value: bool,
    /// Whether codes have values that are NULL.
    has_nulls: bool,
}

/// Largest number of truth values that are stored as bits of a parameter.
const INLINE_BITS: usize = 64;

impl<'a> Lookup<'a> {
    fn new(rows: &'a Vector, codes: Value) -> Self {
        let null_row = rows.len() - 1;
        let has_nulls = (0..null_row).any(|row| !rows.is_valid(row));
        Self { rows, codes, null_row, null_has_value: rows.is_valid(null_row), has_nulls }
    }

    fn emit(&self, phys: Phys, context: &mut Context<'_>) -> Value {
        let ty = CType::of(phys);
        let small = phys == Phys::Bool && self.rows.len() <= INLINE_BITS;
        let index = self.index(small, context);
        let of_entry = self.has_nulls.then(|| {
            let words = bits(self.rows.len(), |row| self.rows.is_valid(row));
            bit(&words, &index, context)
        });
        let of_code = self.codes.valid.clone().filter(|_| !self.null_has_value);
        let valid = match (of_code, of_entry) {
            (Some(code), Some(entry)) => Some(context.named(CType::Bool, "valid", &format!("{code} && {entry}"))),
            (code, entry) => code.or_else(|| entry.map(|entry| context.named(CType::Bool, "valid", &entry))),
        };
        let text = match &self.rows.data {
            Data::Bool(truth) => {
                let words = bits(truth.len(), |row| truth[row] && self.rows.is_valid(row));
                bit(&words, &index, context)
            }
            data => {
                let table = context.params.pointer(ty.name(), "table", entries(data, self.rows));
                format!("{table}[{index}]")
            }
        };
        context.define(ty, &text, valid)
    }

    /// The table row for this thread; the NULL row if there is no code.
    fn index(&self, small: bool, context: &mut Context<'_>) -> String {
        let code = &self.codes;
        if small && !self.null_has_value {
            // No memory is read, so any code is safe.
            return context.named(CType::U32, "row", &format!("{} & {}", code.text, INLINE_BITS - 1));
        }
        code_or_null(code, self.null_row, context)
    }
}

/// A bitmap in words of 32 bits.
fn bits(len: usize, is_set: impl Fn(usize) -> bool) -> Vec<u32> {
    let word = |word: usize| {
        let rows = word * 32..len.min(word * 32 + 32);
        rows.filter(|&row| is_set(row)).fold(0, |bits, row| bits | 1 << (row % 32))
    };
    (0..len.div_ceil(32)).map(word).collect()
}

/// Bit `index` of a bitmap: in a parameter if it is small, otherwise in device memory.
fn bit(words: &[u32], index: &str, context: &mut Context<'_>) -> String {
    if words.len() * 32 <= INLINE_BITS {
        let word = words.iter().rev().fold(0u64, |word, &part| word << 32 | u64::from(part));
        let set = context.params.value(CType::U64, "set", word.to_le_bytes().to_vec());
        return format!("({set} >> {index} & 1) != 0");
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let words = context.params.pointer("u32", "bits", Binding::Data(bytes.into()));
    format!("({words}[{index} >> 5] >> ({index} & 31) & 1) != 0")
}

/// The values of a table.
fn entries(data: &Data, rows: &Vector) -> Binding {
    macro_rules! bytes {
        ($values:expr) => {
            Binding::Data($values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>().into())
        };
    }
    match data {
        Data::Bool(values) => Binding::Data(values.iter().map(|&value| value.into()).collect::<Vec<u8>>().into()),
        Data::I32(values) => bytes!(values),
        Data::I64(values) => bytes!(values),
        Data::I128(values) => bytes!(values),
        Data::F32(values) => bytes!(values),
        Data::F64(values) => bytes!(values),
        Data::Code(values) => bytes!(values),
        Data::Str(views) => {
            let text = |row: usize| if rows.is_valid(row) { views[row].as_str().to_owned() } else { String::new() };
            Binding::Strings(Arc::new((0..views.len()).map(text).collect()))
        }
    }
}
