//! Codes that are looked up by other codes ([`Recoding`]), and how their tables and dictionaries are made.

use std::sync::Arc;

use hashbrown::HashMap;
use warpmill_format::{Bitmap, Dictionary, StrView};
use warpmill_ir::recoding::{NO_CODE, strides};
use warpmill_ir::{ColType, Expr, ExprKind, Phys, Recoding};

use super::call::Compute;
use super::prepare;
use super::value::{Native, Value};
use crate::chunk::Chunk;
use crate::error::Result;
use crate::memory::{QueryMemory, Worker};
use crate::vector::{Data, Vector};

/// The lookup of codes by codes.
#[derive(Debug)]
pub(super) struct Recode {
    codes: Arc<[u32]>,
    strides: Vec<(usize, usize)>,
    /// Whether the result can be NULL.
    nullable: bool,
}

impl Recode {
    pub fn new(recoding: &Recoding, nullable: bool) -> Self {
        Self { codes: recoding.codes.clone(), strides: recoding.strides(), nullable }
    }

    /// The combination of each row.
    fn combinations(&self, inputs: &[Arc<Vector>], len: usize) -> Vec<u32> {
        let mut combinations = vec![0; len];
        for (input, &(stride, null)) in inputs.iter().zip(&self.strides) {
            let (stride, null) = (stride as u32, null as u32);
            let rows = combinations.iter_mut().zip(u32::values(&input.data));
            match &input.validity {
                None => rows.for_each(|(at, &code)| *at += code.min(null) * stride),
                Some(valid) => rows
                    .enumerate()
                    .for_each(|(i, (at, &code))| *at += if valid.get(i) { code.min(null) } else { null } * stride),
            }
        }
        combinations
    }
}

impl Compute for Recode {
    fn eval(&self, args: &[Value], len: usize, _worker: &mut Worker) -> Result<Value> {
        let inputs: Vec<Arc<Vector>> = args.iter().map(|arg| arg.clone().into_vector(len)).collect();
        // An unsigned number is always in bounds of a slice that ends there.
        let (table, last) = (&self.codes[..], self.codes.len() as u32 - 1);
        let codes: Vec<u32> = match inputs.as_slice() {
            [one] if one.validity.is_none() => {
                u32::values(&one.data).iter().map(|&code| table[code.min(last) as usize]).collect()
            }
            _ => self.combinations(&inputs, len).into_iter().map(|at| table[at as usize]).collect(),
        };
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

/// `source`, a string over `inputs` as columns, which are held as codes, as a code of a dictionary of its own; `None` where
/// some combination of codes is an error (which the rows need not have), or the strings are too long together.
pub fn recode(source: Expr, inputs: Vec<Expr>) -> Option<Expr> {
    let (strides, combinations) = strides(&inputs);
    let combinations = combinations.filter(|&n| u32::try_from(n).is_ok())?;
    let mut worker = Worker::new(&Arc::new(QueryMemory::for_planning()));
    let node = prepare::without_lookups(&source, &mut worker).ok()?;
    let columns = strides.iter().map(|&(stride, null)| {
        let digit = |i: usize| i / stride % (null + 1);
        let codes = Data::Code((0..combinations).map(|i| digit(i) as u32).collect());
        let validity = Bitmap::from_fn(combinations, |i| digit(i) < null);
        Arc::new(Vector::with_validity(codes, Some(validity)))
    });
    let values = node.eval(&Chunk::from_vectors(columns.collect()), &mut worker).ok()?.into_vector(combinations);

    // Combinations with a NULL that an input never is do not occur.
    let occurs = |i: usize| {
        let digits = strides.iter().map(|&(stride, null)| i / stride % (null + 1) < null);
        digits.zip(&inputs).all(|(is_code, input)| is_code || input.ty.nullable)
    };
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
