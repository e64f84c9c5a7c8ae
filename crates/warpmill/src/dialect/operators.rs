//! Arithmetic of exact numbers: DuckDB's result types, and errors on overflow.
//!
//! Each operator is a function of this crate instead of a DataFusion operator, because DataFusion's integers wrap around and its integer quotients
//! are truncated. Programs have the same operators ([`warpmill_ir::ArithOp`]).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::compute::kernels::numeric;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Float32Type, Float64Type};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use warpmill_translate::kept;

use super::dates;
use super::types::{self, HUGEINT, MAX_WIDTH, common_number, digits, is_float, is_whole};
use super::{casts, own_casts};
use crate::planning::limits::check_nesting;

/// An operator of arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    Add,
    Subtract,
    Multiply,
    Divide,
    /// `//`: the quotient without its fraction.
    IntegerDivide,
    Modulo,
}

impl Op {
    const ALL: [Op; 6] = [Op::Add, Op::Subtract, Op::Multiply, Op::Divide, Op::IntegerDivide, Op::Modulo];

    fn symbol(self) -> &'static str {
        match self {
            Op::Add => "+",
            Op::Subtract => "-",
            Op::Multiply => "*",
            Op::Divide => "/",
            Op::IntegerDivide => "//",
            Op::Modulo => "%",
        }
    }

    pub(super) fn parsed(op: &BinaryOperator) -> Option<Self> {
        let text = op.to_string();
        Self::ALL.into_iter().find(|op| op.symbol() == text)
    }

    /// The operator that DataFusion calls so.
    pub(super) fn of(op: Operator) -> Option<Self> {
        Some(match op {
            Operator::Plus => Op::Add,
            Operator::Minus => Op::Subtract,
            Operator::Multiply => Op::Multiply,
            Operator::Divide => Op::Divide,
            Operator::IntegerDivide => Op::IntegerDivide,
            Operator::Modulo => Op::Modulo,
            _ => return None,
        })
    }

    /// DataFusion's operator, for floating-point numbers.
    fn of_floats(self) -> Operator {
        match self {
            Op::Add => Operator::Plus,
            Op::Subtract => Operator::Minus,
            Op::Multiply => Operator::Multiply,
            Op::Divide | Op::IntegerDivide => Operator::Divide,
            Op::Modulo => Operator::Modulo,
        }
    }

    /// The type of the result for numeric operands of these types; `None` for other types.
    pub(super) fn result(self, left: &DataType, right: &DataType) -> Option<DataType> {
        let (left, right) = match (left, right) {
            (DataType::Null, DataType::Null) => (&DataType::Int64, &DataType::Int64),
            (DataType::Null, other) | (other, DataType::Null) => (other, other),
            both => both,
        };
        let common = common_number(left, right)?;
        if is_float(&common) {
            return Some(common);
        }
        match self {
            Op::Divide => Some(DataType::Float64),
            Op::IntegerDivide if !(is_whole(left) && is_whole(right)) => Some(DataType::Float64),
            _ if left.is_integer() && right.is_integer() => Some(common),
            _ => {
                let ((lw, ls), (rw, rs)) = (digits(left)?, digits(right)?);
                // Products of decimals of at most 18 digits (64 bits) are limited to 18 digits, too.
                const NARROW: i16 = 18;
                let (lw, ls, rw, rs) = (i16::from(lw), i16::from(ls), i16::from(rw), i16::from(rs));
                let (scale, whole) = (ls.max(rs), (lw - ls).max(rw - rs));
                let (width, scale) = match self {
                    Op::Multiply if lw + rw > NARROW && lw.max(rw) <= NARROW && ls + rs < NARROW => (NARROW, ls + rs),
                    Op::Multiply => (lw + rw, ls + rs),
                    Op::Add | Op::Subtract => (whole + scale + 1, scale),
                    _ => (whole + scale, scale),
                };
                let most = i16::from(MAX_WIDTH);
                (scale <= most).then_some(DataType::Decimal128(width.min(most) as u8, scale as i8))
            }
        }
    }
}

/// The functions of chains of at most `most` operators; their names are distinct.
pub(crate) fn chains(most: usize) -> Vec<Arc<ScalarUDF>> {
    let (mut all, mut longest): (Vec<Vec<Op>>, Vec<Vec<Op>>) = (vec![], vec![vec![]]);
    for _ in 0..most {
        let longer = |chain: &Vec<Op>| Op::ALL.map(|op| chain.iter().copied().chain([op]).collect::<Vec<_>>());
        longest = longest.iter().flat_map(longer).collect();
        all.extend(longest.iter().cloned());
    }
    all.into_iter().map(|ops| Arc::new(ScalarUDF::from(Arithmetic::new(ops)))).collect()
}

/// `left op right` with its operands converted to the types that DuckDB computes with; `None` for non-numeric operands.
pub(crate) fn bind(op: Op, left: Expr, right: Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let left = Typed { ty: left.get_type(schema)?, expr: left };
    Ok(bind_typed(op, left, right, schema)?.map(|bound| bound.expr))
}

/// Converts the operands of a call of an operator of this module likewise, from left to right.
pub(super) fn bind_call(function: ScalarFunction, schema: &DFSchema) -> Result<Expr> {
    let Some(Arithmetic { ops, .. }) = arithmetic(&function) else { return Ok(Expr::ScalarFunction(function)) };
    let ops = ops.clone();
    if function.args.len() == 1 {
        return Ok(Expr::ScalarFunction(function));
    }
    let mut args = function.args.into_iter();
    let Some(first) = args.next() else { return plan_err!("arithmetic of nothing") };
    let mut left = Typed { ty: first.get_type(schema)?, expr: first };
    for (op, right) in ops.into_iter().zip(args) {
        let Some(bound) = bind_typed(op, left, right, schema)? else {
            return plan_err!("{} is for numbers", op.symbol());
        };
        left = bound;
    }
    Ok(left.expr)
}

/// An expression with its type, which is expensive to derive for a call of many operands.
struct Typed {
    expr: Expr,
    ty: DataType,
}

fn bind_typed(op: Op, left: Typed, right: Expr, schema: &DFSchema) -> Result<Option<Typed>> {
    let Typed { expr: left, ty: lt } = left;
    let rt = right.get_type(schema)?;
    if let Some(moved) = dates::arithmetic(op, (&left, &lt), (&right, &rt))? {
        return Ok(Some(Typed { ty: moved.get_type(schema)?, expr: moved }));
    }
    let (lt, rt) = (as_neighbour(&left, &lt, &rt), as_neighbour(&right, &rt, &lt));
    let Some(result) = op.result(&lt, &rt) else { return Ok(None) };
    // Checked first: the result is NULL even if the other operand would overflow.
    if is_null(&left) || is_null(&right) {
        return Ok(Some(Typed { expr: lit(ScalarValue::try_from(&result)?), ty: result }));
    }
    let flat = lt == result;
    let whole = result == HUGEINT && is_whole(&lt) && is_whole(&rt);
    if is_float(&result) {
        let (left, right) = (converted(left, &lt, &result, schema)?, converted(right, &rt, &result, schema)?);
        let expr = match op {
            Op::IntegerDivide => binary(op, left, right, flat),
            // Arrow orders NaN by its sign, which a processor gives to one that it makes.
            op if is_nan(op, &left, &right) => convert(lit(f64::NAN), &result, schema)?,
            op => Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op.of_floats(), Box::new(right))),
        };
        return Ok(Some(Typed { expr, ty: result }));
    }
    let operand = |e: Expr, ty: &DataType| match (&result, ty) {
        (result, ty) if result.is_integer() => converted(e, ty, result, schema),
        // Operands that are whole numbers: as decimals they would give a decimal quotient, or a sum of more digits.
        (_, ty) if op == Op::IntegerDivide || whole => converted(e, ty, &HUGEINT, schema),
        (result, DataType::Null) => convert(e, result, schema),
        (_, ty) => match digits(ty) {
            Some((width, scale)) => converted(e, ty, &DataType::Decimal128(width, scale), schema),
            None => Ok(e),
        },
    };
    let expr = binary(op, operand(left, &lt)?, operand(right, &rt)?, flat);
    Ok(Some(Typed { expr, ty: result }))
}

/// Whether the result of literals of floating-point types is NaN.
fn is_nan(op: Op, left: &Expr, right: &Expr) -> bool {
    let (Some(left), Some(right)) = (literal(left), literal(right)) else { return false };
    let result = match op {
        Op::Add => left + right,
        Op::Subtract => left - right,
        Op::Multiply => left * right,
        Op::Divide | Op::IntegerDivide => left / right,
        Op::Modulo => left % right,
    };
    result.is_nan()
}

/// The value of a literal of a floating-point type; parameters have metadata.
fn literal(e: &Expr) -> Option<f64> {
    match e {
        Expr::Literal(ScalarValue::Float64(value), None) => *value,
        Expr::Literal(ScalarValue::Float32(value), None) => value.map(f64::from),
        _ => None,
    }
}

/// Whether an operand is the NULL literal.
fn is_null(e: &Expr) -> bool {
    match e {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        _ => false,
    }
}

/// The type of an integer literal: the type of the other operand, where that holds it, or else INTEGER or BIGINT.
fn as_neighbour(e: &Expr, ty: &DataType, other: &DataType) -> DataType {
    let Expr::Literal(ScalarValue::Int64(Some(value)), _) = e else { return ty.clone() };
    let (other, wide) = match other {
        other if types::is_decimal(other) && *other != HUGEINT => (&DataType::Int32, ty),
        other => (other, ty),
    };
    match ScalarValue::Int64(Some(*value)).cast_to(other) {
        Ok(_) if other.is_integer() => other.clone(),
        _ if other.is_integer() && i32::try_from(*value).is_ok() => DataType::Int32,
        _ => wide.clone(),
    }
}

/// Casts `e` to `to` unless it has that type; constants are cast at once.
pub(super) fn convert(e: Expr, to: &DataType, schema: &DFSchema) -> Result<Expr> {
    if own_casts::is_within(to) || own_casts::has_enums(&e.get_type(schema)?) {
        return casts::bind(e, to, false, schema);
    }
    if let Expr::Literal(value, _) = &e
        && value.data_type() != *to
        && let Ok(value) = value.cast_to(to)
    {
        return Ok(lit(value));
    }
    e.cast_to(to, schema)
}

/// [`convert`] of an expression of type `from`; literals are always converted.
fn converted(e: Expr, from: &DataType, to: &DataType, schema: &DFSchema) -> Result<Expr> {
    if from == to && !matches!(e, Expr::Literal(..)) { Ok(e) } else { convert(e, to, schema) }
}

/// `-e` of an exact number; `None` for others.
pub(super) fn negated(e: Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    // NaN of one kind.
    if literal(&e).is_some_and(f64::is_nan) {
        return Ok(Some(e));
    }
    // -(-(-x)) is -x, also where -x overflows, so that rows of signs do not nest.
    if let Some(inner) = operand_of_negation(&e)
        && operand_of_negation(inner).is_some()
    {
        return Ok(Some(inner.clone()));
    }
    Ok(digits(&e.get_type(schema)?).map(|_| call(Op::Subtract, vec![e])))
}

fn operand_of_negation(e: &Expr) -> Option<&Expr> {
    match e {
        Expr::ScalarFunction(function) if arithmetic(function).is_some() => match function.args.as_slice() {
            [only] => Some(only),
            _ => None,
        },
        _ => None,
    }
}

/// The operators of a call of a function of this module.
pub(super) fn arithmetic(function: &ScalarFunction) -> Option<&Arithmetic> {
    function.func.inner().downcast_ref::<Arithmetic>()
}

/// Whether `function` is part of the operators of numbers and dates, whose operands are bound already.
pub(super) fn is_operator(function: &ScalarFunction) -> bool {
    arithmetic(function).is_some() || function.func.name() == kept::NAME
}

/// `op` of two operands, or of one.
pub(super) fn call(op: Op, args: Vec<Expr>) -> Expr {
    Arithmetic::new(vec![op]).of(args)
}

/// `left op right`. Where `left` is a call with the type of the result (`flat`), `op` is appended to it: DataFusion would write the whole text of
/// nested calls each time that it asks for a type.
pub(super) fn binary(op: Op, left: Expr, right: Expr, flat: bool) -> Expr {
    match left {
        Expr::ScalarFunction(function) if flat && function.args.len() > 1 && arithmetic(&function).is_some() => {
            let mut ops = arithmetic(&function).map(|first| first.ops.clone()).unwrap_or_default();
            ops.push(op);
            let mut args = function.args;
            args.push(right);
            Arithmetic::new(ops).of(args)
        }
        left => call(op, vec![left, right]),
    }
}

/// Refuses operands with too many calls of this module's inside each other.
pub(super) fn check_arithmetic(operands: [&Expr; 2]) -> Result<()> {
    operands.into_iter().try_for_each(|e| check_nesting(nested(e)?))
}

fn nested(e: &Expr) -> Result<usize> {
    let mut below = 0;
    e.apply_children(|child| {
        below = below.max(nested(child)?);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(below + usize::from(matches!(e, Expr::ScalarFunction(function) if arithmetic(function).is_some())))
}

/// Operators as a function: `((a op b) op c) op ...` of numbers, where every result has the same type, or the negation of one.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Arithmetic {
    ops: Vec<Op>,
    /// The operator symbols, separated by spaces: other crates know the function by this name.
    name: String,
    signature: Signature,
}

impl Arithmetic {
    fn new(ops: Vec<Op>) -> Self {
        let symbols: Vec<_> = ops.iter().map(|op| op.symbol()).collect();
        Self { name: symbols.join(" "), ops, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn of(self, args: Vec<Expr>) -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(self)), args))
    }

    /// Writes a call, in time linear in its text.
    fn write(&self, args: &[Expr], out: &mut String, name: fn(&Expr) -> String) {
        let operand = |e: &Expr, out: &mut String| match e {
            Expr::ScalarFunction(inner) if let Some(inside) = arithmetic(inner) => {
                let brackets = inner.args.len() > 1;
                out.push_str(if brackets { "(" } else { "" });
                inside.write(&inner.args, out, name);
                out.push_str(if brackets { ")" } else { "" });
            }
            Expr::BinaryExpr(_) => {
                out.push('(');
                out.push_str(&name(e));
                out.push(')');
            }
            e => out.push_str(&name(e)),
        };
        let [first, others @ ..] = args else { return };
        if others.is_empty() {
            out.push_str("(- ");
            operand(first, out);
            return out.push(')');
        }
        out.extend(std::iter::repeat_n('(', others.len() - 1));
        operand(first, out);
        for (at, (op, right)) in self.ops.iter().zip(others).enumerate() {
            out.push_str(if at > 0 { ")" } else { "" });
            out.extend([" ", op.symbol(), " "]);
            operand(right, out);
        }
    }

    /// The type of a call of numbers.
    fn result(&self, types: &[DataType]) -> Option<DataType> {
        let (first, others) = types.split_first()?;
        let mut pairs = self.ops.iter().zip(others);
        pairs.try_fold(first.clone(), |left, (op, right)| op.result(&left, right))
    }
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        &self.name
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        let mut text = String::new();
        self.write(args, &mut text, ToString::to_string);
        Ok(text)
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let mut text = String::new();
        self.write(args, &mut text, |e| e.schema_name().to_string());
        Ok(text)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.result(types).map_or_else(|| plan_err!("{} is for numbers", self.name), Ok)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let [first, others @ ..] = args.args.as_slice() else { return exec_err!("{} of nothing", self.name) };
        let mut result = first.to_array(rows)?;
        if others.is_empty() {
            result = Op::Subtract.computed(&zeros(&result), &result, args.return_type())?;
        }
        for (op, right) in self.ops.iter().zip(others) {
            result = op.applied(&result, &right.to_array(rows)?)?;
        }
        Ok(if constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)
        } else {
            ColumnarValue::Array(result)
        })
    }
}

impl Op {
    fn applied(self, left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
        match self.result(left.data_type(), right.data_type()) {
            Some(to) if is_float(&to) => self.floats(left, right, &to),
            Some(to) => self.computed(left, right, &to),
            None => exec_err!("{} is for numbers", self.symbol()),
        }
    }

    /// The results of floating-point numbers; DuckDB's `//` refuses quotients by zero.
    fn floats(self, left: &ArrayRef, right: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
        let (left, right) = (strict_cast(left, to)?, strict_cast(right, to)?);
        let divisors = strict_cast(&right, &DataType::Float64)?;
        let divisors = divisors.as_primitive::<Float64Type>();
        let by_zero = |row| left.is_valid(row) && divisors.is_valid(row) && divisors.value(row) == 0.0;
        if self == Op::IntegerDivide && (0..divisors.len()).any(by_zero) {
            return exec_err!("division by zero");
        }
        let made = match self {
            Op::Add => numeric::add(&left, &right)?,
            Op::Subtract => numeric::sub(&left, &right)?,
            Op::Multiply => numeric::mul(&left, &right)?,
            Op::Divide | Op::IntegerDivide => numeric::div(&left, &right)?,
            Op::Modulo => numeric::rem(&left, &right)?,
        };
        Ok(with_one_nan(&made))
    }

    /// The results, in 128 bits first.
    fn computed(self, left: &ArrayRef, right: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
        let (width, scale) = digits(to).unwrap_or((MAX_WIDTH, 0));
        let aligned = self != Op::Multiply;
        let (left, left_up) = unscaled(left, scale, aligned)?;
        let (right, right_up) = unscaled(right, scale, aligned)?;
        let bound = 10i128.pow(width.into());
        let one = |row: usize| {
            let (a, b) = (left.value(row).checked_mul(left_up)?, right.value(row).checked_mul(right_up)?);
            let value = match self {
                Op::Add => a.checked_add(b),
                Op::Subtract => a.checked_sub(b),
                Op::Multiply => a.checked_mul(b),
                Op::Modulo => a.checked_rem(b),
                Op::Divide | Op::IntegerDivide => a.checked_div(b),
            };
            value.filter(|value| to.is_integer() || value.unsigned_abs() < bound.unsigned_abs())
        };
        let divides = matches!(self, Op::Modulo | Op::IntegerDivide);
        let known = |row: usize| left.is_valid(row) && right.is_valid(row);
        let rows = (0..left.len()).map(|row| match known(row).then(|| one(row)) {
            None => Ok(None),
            Some(Some(value)) => Ok(Some(value)),
            Some(None) if divides && right.value(row) == 0 => exec_err!("division by zero"),
            Some(None) => exec_err!(
                "overflow of {to}: {} {} {}",
                left.value_as_string(row),
                self.symbol(),
                right.value_as_string(row)
            ),
        });
        let values = rows.collect::<Result<Decimal128Array>>()?;
        if to.is_integer() {
            let whole: ArrayRef = Arc::new(values.with_precision_and_scale(MAX_WIDTH, 0)?);
            return strict_cast(&whole, to);
        }
        Ok(Arc::new(values.with_precision_and_scale(width, scale)?))
    }
}

/// Floats with one kind of NaN: processors give those that they make a sign, by which Arrow orders and tells them apart.
pub(super) fn with_one_nan(floats: &ArrayRef) -> ArrayRef {
    if let Some(doubles) = floats.as_primitive_opt::<Float64Type>() {
        return Arc::new(doubles.unary::<_, Float64Type>(|x| if x.is_nan() { f64::NAN } else { x }));
    }
    match floats.as_primitive_opt::<Float32Type>() {
        Some(singles) => Arc::new(singles.unary::<_, Float32Type>(|x| if x.is_nan() { f32::NAN } else { x })),
        None => Arc::clone(floats),
    }
}

/// Exact numbers as 128-bit integers, and the factor that gives them `scale` digits after the point.
fn unscaled(array: &ArrayRef, scale: i8, aligned: bool) -> Result<(Decimal128Array, i128)> {
    let (width, own) = digits(array.data_type()).unwrap_or((MAX_WIDTH, 0));
    let width = if array.data_type().is_integer() { MAX_WIDTH } else { width };
    let decimals = strict_cast(array, &DataType::Decimal128(width, own))?;
    let up = if aligned { 10i128.pow((scale - own).max(0) as u32) } else { 1 };
    Ok((decimals.as_primitive::<Decimal128Type>().clone(), up))
}

fn zeros(like: &ArrayRef) -> ArrayRef {
    let (width, scale) = digits(like.data_type()).unwrap_or((MAX_WIDTH, 0));
    let zeros = Decimal128Array::from(vec![0; like.len()]);
    Arc::new(zeros.with_precision_and_scale(width, scale).expect("the type of another array"))
}

/// An array as another type; a value that does not convert is an error.
pub(super) fn strict_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    Ok(cast_with_options(array, to, &CastOptions { safe: false, ..CastOptions::default() })?)
}
