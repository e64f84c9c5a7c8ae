//! Arithmetic of exact numbers: DuckDB's types, and errors where values leave them.
//!
//! An operator is a function of its own rather than one of DataFusion's, whose integers wrap and whose quotients of whole
//! numbers are cut off. Programs have the same operators ([`warpmill_plan::ArithOp`]).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::compute::kernels::numeric;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Float64Type};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, cast, lit,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::dates;
use super::types::{self, HUGEINT, MAX_WIDTH, common_number, digits, is_float, is_number, is_whole};

/// An operator of arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Op {
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

    fn parsed(op: &BinaryOperator) -> Option<Self> {
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

    /// The type of the result for numbers of these types; `None` for others.
    fn result(self, left: &DataType, right: &DataType) -> Option<DataType> {
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
                // Of decimals that 64 bits hold, products do not go beyond that either.
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

/// `left op right` as a call whose operands [`bind`] converts, for SQL's planner.
#[derive(Debug)]
pub(super) struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let placeholder = |e: &Expr| matches!(e, Expr::Placeholder(_));
        let Some(op) = Op::parsed(&raw.op) else { return Ok(PlannerResult::Original(raw)) };
        if op != Op::IntegerDivide && (placeholder(&raw.left) || placeholder(&raw.right)) {
            return Ok(PlannerResult::Original(raw));
        }
        let (Ok(left), Ok(right)) = (raw.left.get_type(schema), raw.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(raw));
        };
        if let Some(moved) = dates::arithmetic(op, (&raw.left, &left), (&raw.right, &right))? {
            return Ok(PlannerResult::Planned(moved));
        }
        if !is_number(&left) && left != DataType::Null || !is_number(&right) && right != DataType::Null {
            return Ok(PlannerResult::Original(raw));
        }
        if op.result(&left, &right).is_none() {
            return plan_err!("{left} {} {right}: the result has more than {MAX_WIDTH} digits after the point", raw.op);
        }
        Ok(PlannerResult::Planned(call(op, vec![raw.left, raw.right])))
    }

    /// Sums of conditions count: DataFusion knows no sums of truth values.
    fn plan_aggregate(&self, mut raw: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        if raw.func.name() == "sum"
            && let [arg] = raw.args.as_mut_slice()
            && is_condition(arg)
        {
            *arg = cast(std::mem::take(arg), DataType::Int32);
        }
        Ok(PlannerResult::Original(raw))
    }
}

/// Whether an expression is a truth value by what it is.
fn is_condition(e: &Expr) -> bool {
    match e {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(
            op,
            Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq
                | Operator::IsDistinctFrom
                | Operator::IsNotDistinctFrom
                | Operator::And
                | Operator::Or
        ),
        e => matches!(
            e,
            Expr::Not(_)
                | Expr::IsNull(_)
                | Expr::IsNotNull(_)
                | Expr::IsTrue(_)
                | Expr::IsNotTrue(_)
                | Expr::IsFalse(_)
                | Expr::IsNotFalse(_)
                | Expr::Between(_)
                | Expr::InList(_)
                | Expr::Like(_)
        ),
    }
}

/// `left op right` with its operands converted to the types that DuckDB computes with; `None` for others than numbers.
pub(super) fn bind(op: Op, left: Expr, right: Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let (lt, rt) = (left.get_type(schema)?, right.get_type(schema)?);
    if let Some(moved) = dates::arithmetic(op, (&left, &lt), (&right, &rt))? {
        return Ok(Some(moved));
    }
    let (lt, rt) = (as_neighbour(&left, &lt, &rt), as_neighbour(&right, &rt, &lt));
    let Some(result) = op.result(&lt, &rt) else { return Ok(None) };
    // What the other operand overflows is never seen.
    if is_null(&left) || is_null(&right) {
        return Ok(Some(lit(ScalarValue::try_from(&result)?)));
    }
    if is_float(&result) {
        let (left, right) = (convert(left, &result, schema)?, convert(right, &result, schema)?);
        if op == Op::IntegerDivide {
            return Ok(Some(call(op, vec![left, right])));
        }
        return Ok(Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op.of_floats(), Box::new(right)))));
    }
    let operand = |e: Expr, ty: &DataType| match (&result, ty) {
        (result, _) if result.is_integer() => convert(e, result, schema),
        // Of whole numbers: a decimal that holds one would make it a quotient.
        _ if op == Op::IntegerDivide => convert(e, &HUGEINT, schema),
        (result, DataType::Null) => convert(e, result, schema),
        (_, ty) => match digits(ty) {
            Some((width, scale)) => convert(e, &DataType::Decimal128(width, scale), schema),
            None => Ok(e),
        },
    };
    Ok(Some(call(op, vec![operand(left, &lt)?, operand(right, &rt)?])))
}

/// Whether an operand is NULL by what it is.
fn is_null(e: &Expr) -> bool {
    match e {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        _ => false,
    }
}

/// The type of a whole number's literal: that of the number beside it, where that holds it, or else INTEGER or BIGINT.
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

/// `e` as `to`, where it is not that already; constants at once.
pub(super) fn convert(e: Expr, to: &DataType, schema: &DFSchema) -> Result<Expr> {
    if let Expr::Literal(value, _) = &e
        && value.data_type() != *to
        && let Ok(value) = value.cast_to(to)
    {
        return Ok(lit(value));
    }
    e.cast_to(to, schema)
}

/// `-e` of an exact number; `None` for others.
pub(super) fn negated(e: Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    Ok(digits(&e.get_type(schema)?).map(|_| call(Op::Subtract, vec![e])))
}

/// The operator and the operands of a call.
pub(super) fn parts(function: &ScalarFunction) -> Option<(Op, &[Expr])> {
    Some((function.func.inner().downcast_ref::<Arithmetic>()?.op, &function.args))
}

pub(super) fn call(op: Op, args: Vec<Expr>) -> Expr {
    let signature = Signature::user_defined(Volatility::Immutable);
    let function = Arc::new(ScalarUDF::from(Arithmetic { op, signature }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, args))
}

/// An operator as a function: of two numbers, or the negation of one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Arithmetic {
    op: Op,
    signature: Signature,
}

impl Arithmetic {
    fn written(&self, args: &[Expr], name: impl Fn(&Expr) -> String) -> String {
        let operand = |e: &Expr| match e {
            Expr::ScalarFunction(inner) if parts(inner).is_some_and(|(_, args)| args.len() > 1) => {
                format!("({})", name(e))
            }
            Expr::BinaryExpr(_) => format!("({})", name(e)),
            e => name(e),
        };
        match args {
            [left, right] => format!("{} {} {}", operand(left), self.op.symbol(), operand(right)),
            args => format!("(- {})", args.iter().map(operand).collect::<String>()),
        }
    }
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        self.op.symbol()
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(self.written(args, ToString::to_string))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(self.written(args, |e| e.schema_name().to_string()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let result = match types {
            [only] => Some(only.clone()),
            [left, right] => self.op.result(left, right),
            _ => None,
        };
        result.map_or_else(|| plan_err!("{} is for numbers", self.op.symbol()), Ok)
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
        let to = args.return_type().clone();
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let operands = ColumnarValue::values_to_arrays(&args.args)?;
        let result = match operands.as_slice() {
            [only] => self.computed(&zeros(only), only, &to)?,
            [left, right] if is_float(&to) => self.floats(left, right, &to)?,
            [left, right] => self.computed(left, right, &to)?,
            _ => return exec_err!("{} of {} operands", self.op.symbol(), operands.len()),
        };
        Ok(if constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)
        } else {
            ColumnarValue::Array(result)
        })
    }
}

impl Arithmetic {
    /// The results of floating-point numbers; DuckDB's `//` refuses quotients by zero.
    fn floats(&self, left: &ArrayRef, right: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
        let (left, right) = (strict_cast(left, to)?, strict_cast(right, to)?);
        let divisors = strict_cast(&right, &DataType::Float64)?;
        let divisors = divisors.as_primitive::<Float64Type>();
        let by_zero = |row| left.is_valid(row) && divisors.is_valid(row) && divisors.value(row) == 0.0;
        if self.op == Op::IntegerDivide && (0..divisors.len()).any(by_zero) {
            return exec_err!("division by zero");
        }
        Ok(match self.op {
            Op::Add => numeric::add(&left, &right)?,
            Op::Subtract => numeric::sub(&left, &right)?,
            Op::Multiply => numeric::mul(&left, &right)?,
            Op::Divide | Op::IntegerDivide => numeric::div(&left, &right)?,
            Op::Modulo => numeric::rem(&left, &right)?,
        })
    }

    /// The results, in 128 bits first.
    fn computed(&self, left: &ArrayRef, right: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
        let (width, scale) = digits(to).unwrap_or((MAX_WIDTH, 0));
        let aligned = self.op != Op::Multiply;
        let (left, left_up) = unscaled(left, scale, aligned)?;
        let (right, right_up) = unscaled(right, scale, aligned)?;
        let bound = 10i128.pow(width.into());
        let one = |row: usize| {
            let (a, b) = (left.value(row).checked_mul(left_up)?, right.value(row).checked_mul(right_up)?);
            let value = match self.op {
                Op::Add => a.checked_add(b),
                Op::Subtract => a.checked_sub(b),
                Op::Multiply => a.checked_mul(b),
                Op::Modulo => a.checked_rem(b),
                Op::Divide | Op::IntegerDivide => a.checked_div(b),
            };
            value.filter(|value| to.is_integer() || value.abs() < bound)
        };
        let divides = matches!(self.op, Op::Modulo | Op::IntegerDivide);
        let known = |row: usize| left.is_valid(row) && right.is_valid(row);
        let rows = (0..left.len()).map(|row| match known(row).then(|| one(row)) {
            None => Ok(None),
            Some(Some(value)) => Ok(Some(value)),
            Some(None) if divides && right.value(row) == 0 => exec_err!("division by zero"),
            Some(None) => exec_err!(
                "overflow of {to}: {} {} {}",
                left.value_as_string(row),
                self.op.symbol(),
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

/// Exact numbers as integers of 128 bits, and what these are multiplied by to have `scale` digits after the point.
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
