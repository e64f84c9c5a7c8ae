//! Python's operators on SQL values: functions `__py_...` in the expressions of functions, which [`lower()`] rewrites to SQL expressions when the
//! types are known.
//!
//! Types are 64-bit integers, floating-point numbers, truth values, texts, dates and timestamps; other numbers become floating-point ones. A value is
//! missing where it is NULL or NaN. Comparisons with missing values are false (`!=`: true), as in pandas; all other results of missing values are
//! missing. Floating-point divisions by zero are infinite, others missing.

mod lowered;
mod python;

use std::sync::{Arc, LazyLock};

use std::collections::HashMap;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::Function as Call;

use super::Misfit;
use crate::dialect::type_name;

/// The beginning of the names of operators.
const PREFIX: &str = "__py_";

/// An operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Op {
    /// An argument of sums and similar aggregates: a number, NULL where missing.
    Number,
    /// An argument of MIN and MAX: of any type, NULL where missing.
    Value,
    /// A sum; zero for no rows.
    Total,
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
    Neg,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    Not,
    And,
    Or,
    /// The truth of a value.
    Truth,
    /// The second argument where the first is true, else the third.
    If,
    IsMissing,
    Abs,
    Float,
    /// A number without its fraction.
    Int,
    Sqrt,
    Exp,
    Log,
    Log10,
    Floor,
    Ceil,
    Trunc,
    /// The first argument.
    First,
    ReturnDouble,
    ReturnBigint,
    ReturnInteger,
    ReturnBoolean,
    ReturnVarchar,
    ReturnDate,
    ReturnTimestamp,
}

/// All operators, with their names after [`PREFIX`] and numbers of arguments.
const OPERATORS: [(Op, &str, usize); 41] = [
    (Op::Number, "number", 1),
    (Op::Value, "value", 1),
    (Op::Total, "total", 1),
    (Op::Add, "add", 2),
    (Op::Sub, "sub", 2),
    (Op::Mul, "mul", 2),
    (Op::Div, "div", 2),
    (Op::FloorDiv, "floordiv", 2),
    (Op::Mod, "mod", 2),
    (Op::Pow, "pow", 2),
    (Op::Neg, "neg", 1),
    (Op::Lt, "lt", 2),
    (Op::Le, "le", 2),
    (Op::Gt, "gt", 2),
    (Op::Ge, "ge", 2),
    (Op::Eq, "eq", 2),
    (Op::Ne, "ne", 2),
    (Op::Not, "not", 1),
    (Op::And, "and", 2),
    (Op::Or, "or", 2),
    (Op::Truth, "truth", 1),
    (Op::If, "if", 3),
    (Op::IsMissing, "ismissing", 1),
    (Op::Abs, "abs", 1),
    (Op::Float, "float", 1),
    (Op::Int, "int", 1),
    (Op::Sqrt, "sqrt", 1),
    (Op::Exp, "exp", 1),
    (Op::Log, "log", 1),
    (Op::Log10, "log10", 1),
    (Op::Floor, "floor", 1),
    (Op::Ceil, "ceil", 1),
    (Op::Trunc, "trunc", 1),
    (Op::First, "first", 2),
    (Op::ReturnDouble, "return_double", 1),
    (Op::ReturnBigint, "return_bigint", 1),
    (Op::ReturnInteger, "return_integer", 1),
    (Op::ReturnBoolean, "return_boolean", 1),
    (Op::ReturnVarchar, "return_varchar", 1),
    (Op::ReturnDate, "return_date", 1),
    (Op::ReturnTimestamp, "return_timestamp", 1),
];

static FUNCTIONS: LazyLock<HashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
    let function = |(op, name, arity): (Op, &str, usize)| {
        let name = format!("{PREFIX}{name}");
        let operator = Operator { op, name: name.clone(), signature: Signature::any(arity, Volatility::Immutable) };
        (name, Arc::new(ScalarUDF::from(operator)))
    };
    OPERATORS.into_iter().map(function).collect()
});

/// The operator called `name`, as a function for the SQL planner.
pub(crate) fn operator(name: &str) -> Option<Arc<ScalarUDF>> {
    if !name.starts_with(PREFIX) {
        return None;
    }
    FUNCTIONS.get(name).cloned()
}

/// Whether a call in an expression of a function is an aggregate: all calls that are not operators.
pub(super) fn is_aggregate(call: &Call) -> bool {
    let name = call.name.0.last().and_then(|name| name.as_ident());
    name.is_some_and(|name| !name.value.starts_with(PREFIX))
}

/// The expression of an operator's call; `None` for other functions.
pub(crate) fn lower(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let Some(Operator { op, .. }) = function.func.inner().downcast_ref::<Operator>() else { return Ok(None) };
    let typed = |e: &Expr| Ok(lowered::Typed { ty: Type::of(&e.get_type(schema)?)?, expr: e.clone() });
    // A sum of integers has 128 bits here.
    if *op == Op::Total {
        return lowered::total(function.args[0].clone(), schema).map(Some);
    }
    let args = function.args.iter().map(typed).collect::<Result<Vec<_>>>()?;
    lowered::lower(*op, args, schema).map(|typed| Some(typed.expr))
}

/// The types of operands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Type {
    /// The type of NULL.
    Nothing,
    Int,
    Float,
    Bool,
    Text,
    Date,
    Timestamp(DataType),
}

impl Type {
    fn of(ty: &DataType) -> Result<Self> {
        Ok(match ty {
            DataType::Null => Type::Nothing,
            ty if ty.is_integer() => Type::Int,
            ty if ty.is_floating() || ty.is_decimal() => Type::Float,
            DataType::Boolean => Type::Bool,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Type::Text,
            DataType::Date32 => Type::Date,
            DataType::Timestamp(TimeUnit::Microsecond, None) => Type::Timestamp(ty.clone()),
            ty => return Err(Misfit::error(format!("a value of type {} is no symbol", type_name(ty)))),
        })
    }

    fn data_type(&self) -> DataType {
        match self {
            Type::Nothing => DataType::Null,
            Type::Int => DataType::Int64,
            Type::Float => DataType::Float64,
            Type::Bool => DataType::Boolean,
            Type::Text => DataType::Utf8,
            Type::Date => DataType::Date32,
            Type::Timestamp(ty) => ty.clone(),
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Type::Int | Type::Float)
    }

    /// The type of values of both.
    fn both(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Type::Nothing, ty) | (ty, Type::Nothing) => Some(ty.clone()),
            (one, other) if one == other => Some(one.clone()),
            (Type::Int, Type::Float) | (Type::Float, Type::Int) => Some(Type::Float),
            _ => None,
        }
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Type::Nothing => "None",
            Type::Int => "int",
            Type::Float => "float",
            Type::Bool => "bool",
            Type::Text => "str",
            Type::Date => "date",
            Type::Timestamp(_) => "datetime",
        })
    }
}

impl Op {
    fn name(self) -> &'static str {
        OPERATORS.iter().find(|(op, ..)| *op == self).map_or("", |(_, name, _)| name)
    }

    /// The type of the result.
    fn result(self, types: &[Type]) -> Result<Type> {
        let misfit = || {
            let types: Vec<_> = types.iter().map(ToString::to_string).collect();
            Misfit::error(format!("'{}' of {} is no expression", self.name(), types.join(" and ")))
        };
        let as_number = |ty: &Type| match ty {
            Type::Bool => Some(Type::Int),
            Type::Nothing => Some(Type::Float),
            ty if ty.is_number() => Some(ty.clone()),
            _ => None,
        };
        let number = |at: usize| types.get(at).and_then(as_number).ok_or_else(misfit);
        let is_bool = |at: usize| types.get(at) == Some(&Type::Bool);
        let returned = |all: &[Type], ty: Type| match types.first() {
            Some(own) if *own == Type::Nothing || all.contains(own) => Ok(ty),
            _ => Err(misfit()),
        };
        Ok(match self {
            Op::Number | Op::Neg | Op::Abs | Op::Total => match number(0)? {
                // In numpy these are truth values or errors.
                _ if is_bool(0) && matches!(self, Op::Neg | Op::Abs) => return Err(misfit()),
                ty => ty,
            },
            Op::Value | Op::First => types[0].clone(),
            Op::Add | Op::Sub | Op::Mul if is_bool(0) && is_bool(1) => return Err(misfit()),
            Op::Add | Op::Sub | Op::Mul | Op::FloorDiv | Op::Mod => {
                let (left, right) = (number(0)?, number(1)?);
                left.both(&right).ok_or_else(misfit)?
            }
            Op::Pow => match (number(0)?, number(1)?) {
                (Type::Int, Type::Int) => Type::Int,
                _ => Type::Float,
            },
            Op::Div | Op::Sqrt | Op::Exp | Op::Log | Op::Log10 | Op::Floor | Op::Ceil | Op::Trunc => {
                number(0)?;
                if self == Op::Div {
                    number(1)?;
                }
                Type::Float
            }
            Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne => {
                let numbers = number(0).is_ok() && number(1).is_ok();
                match numbers || types[0].both(&types[1]).is_some() {
                    true => Type::Bool,
                    false => return Err(misfit()),
                }
            }
            Op::Not | Op::And | Op::Or if types.iter().all(|ty| *ty == Type::Bool) => Type::Bool,
            Op::Not | Op::And | Op::Or => return Err(misfit()),
            Op::Truth => match &types[0] {
                Type::Date | Type::Timestamp(_) | Type::Nothing => return Err(misfit()),
                _ => Type::Bool,
            },
            Op::If if is_bool(0) => types[1].both(&types[2]).ok_or_else(misfit)?,
            Op::If => return Err(misfit()),
            Op::IsMissing => Type::Bool,
            Op::Float if types[0] == Type::Text => Type::Float,
            Op::Float => number(0).map(|_| Type::Float)?,
            Op::Int => number(0).map(|_| Type::Int)?,
            Op::ReturnDouble => returned(&[Type::Int, Type::Float, Type::Bool], Type::Float)?,
            Op::ReturnBigint | Op::ReturnInteger => returned(&[Type::Int, Type::Bool], Type::Int)?,
            Op::ReturnBoolean => returned(&[Type::Bool], Type::Bool)?,
            Op::ReturnVarchar => returned(&[Type::Text], Type::Text)?,
            Op::ReturnDate => returned(&[Type::Date], Type::Date)?,
            Op::ReturnTimestamp => {
                let ty = Type::Timestamp(DataType::Timestamp(TimeUnit::Microsecond, None));
                returned(std::slice::from_ref(&ty), ty.clone())?
            }
        })
    }
}

/// An operator as a function. Binding removes it from plans, except for the operators that only [`python`] computes.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Operator {
    op: Op,
    name: String,
    signature: Signature,
}

impl Operator {
    fn call(op: Op, args: Vec<Expr>) -> Option<Expr> {
        let function = operator(&format!("{PREFIX}{}", op.name()))?;
        Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, args)))
    }
}

impl ScalarUDFImpl for Operator {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if self.op == Op::Total && matches!(types, [DataType::Decimal128(38, 0)]) {
            return Ok(DataType::Int64);
        }
        let types = types.iter().map(Type::of).collect::<Result<Vec<_>>>()?;
        let narrow = self.op == Op::ReturnInteger;
        Ok(if narrow { self.op.result(&types).map(|_| DataType::Int32)? } else { self.op.result(&types)?.data_type() })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        python::computed(self.op, &args)
    }
}
