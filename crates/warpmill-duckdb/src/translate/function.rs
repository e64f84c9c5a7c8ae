//! Scalar functions: those of numbers; functions of texts and dates are in their own modules.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchemaRef, ScalarValue};
use datafusion::functions::expr_fn as functions;
use datafusion::logical_expr::{Case, Expr, Operator, lit};

use super::Translator;
use super::date::date_function;
use super::expr::{binary, cast_to};
use super::text::text_function;
use crate::Refused;
use crate::encoding;
use crate::types::Type;

impl<'a> Translator<'a> {
    /// A call of DuckDB's function `name` with arguments of types `at`.
    pub(super) fn function(
        &mut self,
        name: &str,
        ty: Type,
        at: &[String],
        a: &'a [encoding::Expr],
        schema: &DFSchemaRef,
    ) -> Result<Expr, Refused> {
        let types = at.iter().map(|name| Type::parse(name)).collect::<Result<Vec<_>, _>>();
        let refused = || Refused::new(format!("the function {name}({})", at.join(", ")));
        let types = types.map_err(|_| refused())?;
        let args = self.list_of(a, schema)?;
        let result = match (name, &args[..], &types[..]) {
            ("concat", ..) if same(&types, Type::Varchar) => Some(functions::concat(args.clone())),
            ("least", ..) if same(&types, ty) => Some(functions::least(args.clone())),
            ("greatest", ..) if same(&types, ty) => Some(functions::greatest(args.clone())),
            (_, [x], [t]) => number(name, x, *t, ty, schema)?,
            (_, [left, right], [lt, rt]) => numbers(name, (left, *lt), (right, *rt), ty, schema)?,
            _ => None,
        };
        let result = match result {
            Some(result) => Some(result),
            None => text_function(name, &args, &types)?,
        };
        let result = match result {
            Some(result) => Some(result),
            None => date_function(name, &args, &types, ty, schema)?,
        };
        cast_to(result.ok_or_else(refused)?, &ty.arrow(), schema)
    }
}

fn same(types: &[Type], ty: Type) -> bool {
    types.iter().all(|t| *t == ty)
}

fn numbers(
    name: &str,
    (left, lt): (&Expr, Type),
    (right, rt): (&Expr, Type),
    ty: Type,
    schema: &DFSchemaRef,
) -> Result<Option<Expr>, Refused> {
    let (l, r) = (left.clone(), right.clone());
    let numeric = |t: Type| t.scale().is_some() || t.is_float();
    let op = match name {
        "+" => Some(Operator::Plus),
        "-" => Some(Operator::Minus),
        "*" => Some(Operator::Multiply),
        _ => None,
    };
    if let Some(op) = op.filter(|_| numeric(lt) && numeric(rt) && numeric(ty)) {
        return Ok(Some(arithmetic(l, op, r, ty, schema)?));
    }
    Ok(Some(match (name, lt, rt) {
        ("/", Type::Double, Type::Double) => binary(l, Operator::Divide, r),
        // A division by zero ends the query on Warpmill: its result depends on a setting of DuckDB's.
        ("//", lt, rt) if lt.is_integer() && rt.is_integer() => binary(l, Operator::Divide, r),
        ("%", lt, rt) if lt.is_integer() && rt.is_integer() => binary(l, Operator::Modulo, r),
        ("round", Type::Double, Type::Integer) => match places(right) {
            Some(places) => rounded(l, places),
            None => return Ok(None),
        },
        // DuckDB's result has as many digits as requested: the cast to its type rounds half away from zero.
        ("round", Type::Decimal(..), Type::Integer) if matches!(ty, Type::Decimal(..)) => {
            match (places(right), lt.scale(), ty.scale()) {
                (Some(places), Some(had), Some(has)) if has == places.min(had) => l,
                _ => return Ok(None),
            }
        }
        _ => return Ok(None),
    }))
}

/// The requested number of digits after the point, up to which powers of ten are exact.
fn places(e: &Expr) -> Option<i8> {
    match e {
        Expr::Literal(ScalarValue::Int32(Some(places)), _) if (0..=15).contains(places) => i8::try_from(*places).ok(),
        _ => None,
    }
}

/// `round(x, places)`, or `x` itself if it is too large to be scaled.
fn rounded(x: Expr, places: i8) -> Expr {
    let scaled = binary(x.clone(), Operator::Multiply, lit(10f64.powi(places.into())));
    let fits = functions::abs(scaled).lt_eq(lit(f64::MAX));
    let rounded = functions::round(vec![x.clone(), lit(i32::from(places))]);
    Expr::Case(Case::new(None, vec![(Box::new(fits), Box::new(rounded))], Some(Box::new(x))))
}

fn number(name: &str, x: &Expr, from: Type, ty: Type, schema: &DFSchemaRef) -> Result<Option<Expr>, Refused> {
    let e = x.clone();
    let exact = from.scale().is_some();
    Ok(Some(match name {
        "-" if from.is_float() => Expr::Negative(Box::new(e)),
        "-" if exact => {
            let zero = lit(ScalarValue::Decimal128(Some(0), 1, 0));
            binary(zero, Operator::Minus, cast_to(e, &wide(from), schema)?)
        }
        "+" if exact || from.is_float() => e,
        "abs" | "@" if from == Type::Double => functions::abs(e),
        "abs" | "@" if exact => functions::abs(cast_to(e, &wide(from), schema)?),
        "sqrt" if from == Type::Double => functions::sqrt(e),
        "round" if from == Type::Double => functions::round(vec![e]),
        "floor" if from == Type::Double => functions::floor(e),
        "ceil" | "ceiling" if from == Type::Double => functions::ceil(e),
        "round" if matches!(from, Type::Decimal(..)) && ty.scale() == Some(0) => e,
        "floor" | "ceil" | "ceiling" if matches!(from, Type::Decimal(..)) && ty.scale() == Some(0) => {
            // The result is the nearest whole number, or its neighbour.
            let nearest = cast_to(e.clone(), &ty.arrow(), schema)?;
            let (past, by) = match name {
                "floor" => (nearest.clone().gt(e), Operator::Minus),
                _ => (nearest.clone().lt(e), Operator::Plus),
            };
            let neighbour = binary(nearest.clone(), by, lit(ScalarValue::Decimal128(Some(1), 1, 0)));
            let neighbour = cast_to(neighbour, &ty.arrow(), schema)?;
            Expr::Case(Case::new(None, vec![(Box::new(past), Box::new(neighbour))], Some(Box::new(nearest))))
        }
        _ => return Ok(None),
    }))
}

/// Arithmetic in DuckDB's type: an integer that does not fit is an error, as in DuckDB.
pub(super) fn arithmetic(l: Expr, op: Operator, r: Expr, ty: Type, schema: &DFSchemaRef) -> Result<Expr, Refused> {
    if ty.is_integer() || ty == Type::HugeInt {
        // Decimals are exact on every device; the cast back is checked.
        let digits = |e: Expr| cast_to(e, &wide(ty), schema);
        return Ok(binary(digits(l)?, op, digits(r)?));
    }
    Ok(binary(l, op, r))
}

/// A decimal that holds any value of a type.
fn wide(ty: Type) -> DataType {
    match ty {
        Type::Decimal(width, scale) => DataType::Decimal128(width, scale),
        Type::HugeInt => DataType::Decimal128(38, 0),
        ty => DataType::Decimal128(
            match ty.bits() {
                Some(8) => 3,
                Some(16) => 5,
                Some(32) => 10,
                _ => 20,
            },
            0,
        ),
    }
}
