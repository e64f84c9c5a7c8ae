//! Functions that build states from their parts, and take parts out of states.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, StructArray, make_array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Decimal128Type, Fields};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::State;
use super::kind::Shape;

/// The task of one of these functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    /// A state of its parts.
    Packed,
    /// The part at a position of a state.
    Part(usize),
    /// A state without the mark that it is one.
    Plain,
    /// A struct or value marked as a state.
    Marked,
    /// The digits of a decimal at another scale.
    Rescaled,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    what: What,
    to: DataType,
    signature: Signature,
}

fn call(what: What, to: DataType, args: Vec<Expr>) -> Expr {
    let function = Function { what, to, signature: Signature::variadic_any(Volatility::Immutable) };
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(function)), args))
}

/// The state of type `ty` with the parts `parts`; NULL where all parts are, except for [`super::Kind::keeps_nulls`].
pub(super) fn packed(ty: &DataType, parts: Vec<Expr>) -> Expr {
    call(What::Packed, ty.clone(), parts)
}

/// Part `at` of a state; `to` is its type.
pub(super) fn part(state: &Expr, at: usize, to: &DataType) -> Expr {
    match packed_parts(state) {
        Some(parts) => parts[at].clone(),
        None => call(What::Part(at), to.clone(), vec![state.clone()]),
    }
}

/// A state of type `from` as a value of the type that [`super::plain`] gives.
pub(super) fn unmarked(state: Expr, from: &DataType) -> Expr {
    call(What::Plain, super::plain(from), vec![state])
}

/// A value as a state of type `ty`, which has the same fields.
pub(super) fn marked(value: Expr, ty: &DataType) -> Expr {
    call(What::Marked, ty.clone(), vec![value])
}

/// The digits of a decimal as a decimal of type `to`.
pub(super) fn rescaled(value: Expr, to: &DataType) -> Expr {
    call(What::Rescaled, to.clone(), vec![value])
}

/// The parts of a state that is built in the same expression.
fn packed_parts(state: &Expr) -> Option<&[Expr]> {
    let Expr::ScalarFunction(call) = state else { return None };
    let function = call.func.inner().downcast_ref::<Function>()?;
    (function.what == What::Packed).then_some(&call.args)
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        match self.what {
            What::Packed => "state_of_parts",
            What::Part(_) => "state_part",
            What::Plain => "state_value",
            What::Marked => "state_of_value",
            What::Rescaled => "rescaled_digits",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let args = args.iter().map(|arg| arg.schema_name().to_string()).collect::<Vec<_>>().join(", ");
        Ok(match self.what {
            What::Part(at) => format!("{}({args}, {at})", self.name()),
            _ => format!("{}({args})", self.name()),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match (self.what, args.as_slice()) {
            (What::Part(at), [state]) if let Some(parts) = packed_parts(state) => {
                Ok(ExprSimplifyResult::Simplified(parts[at].clone()))
            }
            _ => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args.args.iter().map(|arg| arg.to_array(args.number_rows)).collect::<Result<Vec<_>>>()?;
        let made = match self.what {
            What::Packed => of_parts(&self.to, &arrays)?,
            What::Part(at) => part_of(&arrays[0], at)?,
            What::Plain => super::plain_array(&arrays[0]),
            What::Marked => with_mark(&arrays[0], &self.to)?,
            What::Rescaled => with_scale(&arrays[0], &self.to)?,
        };
        Ok(ColumnarValue::Array(made))
    }
}

fn with_scale(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let DataType::Decimal128(width, scale) = to else { return exec_err!("{to} has no digits") };
    let digits: Decimal128Array = array.as_primitive::<Decimal128Type>().clone();
    Ok(Arc::new(digits.with_precision_and_scale(*width, *scale)?))
}

/// States of type `ty` of their parts.
pub(super) fn of_parts(ty: &DataType, parts: &[ArrayRef]) -> Result<ArrayRef> {
    let (DataType::Struct(fields), Some(state)) = (ty, State::of(ty)) else { return exec_err!("no state: {ty}") };
    let rows = parts.first().map_or(0, |part| part.len());
    let columns = match state.kind().shape() {
        Some(shape) => nested(shape, fields, &mut parts.iter().cloned())?,
        None => parts.to_vec(),
    };
    let nulls = if state.kind().keeps_nulls() { None } else { any_valid(parts, rows) };
    Ok(Arc::new(StructArray::try_new(fields.clone(), columns, nulls)?))
}

/// Packs the columns that `shape` describes, taken from `parts` in order.
fn nested(shape: &[Shape], fields: &Fields, parts: &mut impl Iterator<Item = ArrayRef>) -> Result<Vec<ArrayRef>> {
    let mut columns: Vec<ArrayRef> = vec![];
    for (field, of) in fields.iter().zip(shape) {
        columns.push(match (of, field.data_type()) {
            (Shape::Struct(_, inner), DataType::Struct(fields)) => {
                Arc::new(StructArray::try_new(fields.clone(), nested(inner, fields, &mut *parts)?, None)?)
            }
            _ => match parts.next() {
                Some(part) => part,
                None => return exec_err!("a state without its part {:?}", field.name()),
            },
        });
    }
    Ok(columns)
}

/// The validity of rows in which any of some columns is not NULL; `None`: all are valid.
fn any_valid(columns: &[ArrayRef], rows: usize) -> Option<NullBuffer> {
    let mut valid = BooleanBuffer::new_unset(rows);
    for column in columns {
        valid = &valid | column.logical_nulls()?.inner();
    }
    Some(NullBuffer::new(valid))
}

/// Part number `at` of states.
fn part_of(states: &ArrayRef, at: usize) -> Result<ArrayRef> {
    let Some(state) = State::of(states.data_type()) else { return exec_err!("no state: {}", states.data_type()) };
    let parts = parts_of(&state, states.as_struct());
    Ok(with_nulls_of(states.as_struct(), &parts[at]))
}

/// All parts of states; parts of NULL states are arbitrary.
pub(super) fn parts_of(state: &State, states: &StructArray) -> Vec<ArrayRef> {
    let mut parts = vec![];
    match state.kind().shape() {
        Some(shape) => flatten(shape, states, &mut parts),
        None => parts.push(Arc::clone(states.column(0))),
    }
    parts
}

fn flatten(shape: &[Shape], states: &StructArray, parts: &mut Vec<ArrayRef>) {
    for (of, column) in shape.iter().zip(states.columns()) {
        match of {
            Shape::Part(_) => parts.push(Arc::clone(column)),
            Shape::Struct(_, inner) => flatten(inner, column.as_struct(), parts),
        }
    }
}

/// `column`, NULL where `states` are.
pub(super) fn with_nulls_of(states: &StructArray, column: &ArrayRef) -> ArrayRef {
    if states.null_count() == 0 || column.data_type().is_null() {
        return Arc::clone(column);
    }
    let nulls = NullBuffer::union(states.nulls(), column.logical_nulls().as_ref());
    let data = column.to_data().into_builder().nulls(nulls).build();
    make_array(data.expect("the rows of a state and of its part are as many"))
}

/// Marks values as states of type `ty`, which has the same fields.
fn with_mark(values: &ArrayRef, ty: &DataType) -> Result<ArrayRef> {
    let DataType::Struct(fields) = ty else { return exec_err!("no state: {ty}") };
    if super::is_bare(ty) {
        let nulls = values.logical_nulls();
        return Ok(Arc::new(StructArray::try_new(fields.clone(), vec![Arc::clone(values)], nulls)?));
    }
    let (_, columns, nulls) = values.as_struct().clone().into_parts();
    Ok(Arc::new(StructArray::try_new(fields.clone(), columns, nulls)?))
}
