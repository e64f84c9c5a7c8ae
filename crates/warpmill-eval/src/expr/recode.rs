//! Codes looked up by other codes and small integers ([`Recoding`]), and construction of their tables and dictionaries.

use std::sync::Arc;

use hashbrown::HashMap;
use warpmill_format::{Bitmap, Dictionary, StrView};
use warpmill_ir::recoding::{Digit, NO_CODE, digits};
use warpmill_ir::{ColType, Expr, ExprKind, Phys, Recoding};

use super::call::Compute;
use super::prepare;
use super::value::{Native, Value};
use crate::chunk::Chunk;
use crate::error::Result;
use crate::memory::{QueryMemory, Worker};
use crate::vector::{Data, Vector};

/// The lookup of codes by combinations of values.
#[derive(Debug)]
pub(super) struct Recode {
    codes: Arc<[u32]>,
    digits: Vec<Digit>,
    /// Whether the result can be NULL.
    nullable: bool,
}

impl Recode {
    pub fn new(recoding: &Recoding, nullable: bool) -> Self {
        Self { codes: recoding.codes.clone(), digits: recoding.digits(), nullable }
    }

    /// The combination of each row.
    fn combinations(&self, inputs: &[Arc<Vector>], len: usize) -> Vec<u32> {
        let mut combinations = vec![0; len];
        for (input, digit) in inputs.iter().zip(&self.digits) {
            match &input.data {
                Data::I32(values) => {
                    add(digit, input, values, |value| i64::from(value).wrapping_sub(digit.low), &mut combinations)
                }
                Data::I64(values) => {
                    add(digit, input, values, |value| value.wrapping_sub(digit.low), &mut combinations)
                }
                data => add(digit, input, u32::values(data), i64::from, &mut combinations),
            }
        }
        combinations
    }
}

/// Adds the digit of every value to the row's combination.
#[inline(always)]
fn add<T: Copy>(digit: &Digit, input: &Vector, values: &[T], above: impl Fn(T) -> i64, combinations: &mut [u32]) {
    let (stride, null) = (digit.stride as u32, digit.values as u32);
    // Bounds the value, which is arbitrary under a NULL.
    let digit = |value: T| (above(value) as u64).min(null.into()) as u32;
    let rows = combinations.iter_mut().zip(values);
    match &input.validity {
        None => rows.for_each(|(at, &value)| *at += digit(value) * stride),
        Some(valid) => rows.enumerate().for_each(|(i, (at, &value))| {
            let digit = if valid.get(i) { digit(value) } else { null };
            *at += digit * stride;
        }),
    }
}

impl Compute for Recode {
    fn eval(&self, args: &[Value], len: usize, _worker: &mut Worker) -> Result<Value> {
        let inputs: Vec<Arc<Vector>> = args.iter().map(|arg| arg.clone().into_vector(len)).collect();
        let mut codes = self.combinations(&inputs, len);
        codes.iter_mut().for_each(|at| *at = self.codes[*at as usize]);
        let validity = self.nullable.then(|| Bitmap::from_fn(len, |i| codes[i] != NO_CODE));
        Ok(Value::rows(Vector::with_validity(Data::Code(codes), validity)))
    }

    fn fallible(&self) -> bool {
        false
    }

    fn heavy(&self) -> bool {
        false
    }
}

/// Bytes of the largest dictionary that is made.
const MOST_BYTES: usize = 16 << 20;

/// Encodes `source`, a string over `inputs` as columns, as a code of a new dictionary; `None` if the inputs are not codes or bounded integers, some
/// combination of them fails (which the rows need not contain), or the strings are too long in total.
pub fn recode(source: Expr, inputs: Vec<Expr>) -> Option<Expr> {
    let (digits, combinations) = digits(&inputs)?;
    let mut worker = Worker::new(&Arc::new(QueryMemory::for_planning()));
    let node = prepare::without_lookups(&source, &mut worker).ok()?;
    let columns = digits.iter().zip(&inputs).map(|(digit, input)| {
        let values = (0..combinations).map(|i| digit.low + digit.of(i).min(digit.values.saturating_sub(1)) as i64);
        let data = match input.ty.phys {
            Phys::I32 => Data::I32(values.map(|value| value as i32).collect()),
            Phys::I64 => Data::I64(values.collect()),
            _ => Data::Code(values.map(|value| value as u32).collect()),
        };
        let validity = Bitmap::from_fn(combinations, |i| digit.of(i) < digit.values);
        Arc::new(Vector::with_validity(data, Some(validity)))
    });
    let values = node.eval(&Chunk::from_vectors(columns.collect()), &mut worker).ok()?.into_vector(combinations);

    // Combinations with a NULL that an input never is do not occur.
    let occurs =
        |i: usize| digits.iter().zip(&inputs).all(|(digit, input)| digit.of(i) < digit.values || input.ty.nullable);
    let (mut codes, mut nullable) = (vec![NO_CODE; combinations], false);
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let mut bytes = 0;
    for (i, (code, view)) in codes.iter_mut().zip(StrView::values(&values.data)).enumerate() {
        if !occurs(i) {
            continue;
        }
        if !values.is_valid(i) {
            nullable = true;
            continue;
        }
        let next = numbers.len() as u32;
        *code = *numbers.entry(view.as_str()).or_insert_with(|| {
            bytes += view.len();
            next
        });
        if bytes > MOST_BYTES {
            return None;
        }
    }
    let mut ascending: Vec<(&str, u32)> = numbers.into_iter().collect();
    ascending.sort_unstable();
    let mut rank = vec![0; ascending.len()];
    ascending.iter().zip(0..).for_each(|((_, number), code)| rank[*number as usize] = code);
    codes.iter_mut().filter(|code| **code != NO_CODE).for_each(|code| *code = rank[*code as usize]);
    let dictionary = Arc::new(Dictionary::from_sorted(ascending.into_iter().map(|(text, _)| text)));
    let ty = ColType { phys: Phys::Code, dictionary: Some(dictionary), nullable, ..source.ty.clone() };
    let recoding = Recoding { inputs, codes: codes.into(), source: Arc::new(source) };
    Some(Expr { kind: ExprKind::Recode(recoding), ty })
}
