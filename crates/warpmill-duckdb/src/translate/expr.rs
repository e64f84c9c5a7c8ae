//! Expressions.

use std::sync::Arc;

use arrow::datatypes::{DataType, IntervalMonthDayNano};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchemaRef, ScalarValue};
use datafusion::functions::expr_fn as functions;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Case, Expr, ExprSchemable, Operator, cast, lit};
use warpmill_translate::kept;

use super::exact;
use super::subquery::check_memberships;
use super::{Allowed, Translator};
use crate::Refused;
use crate::encoding::{self, Binding};
use crate::types::{DIGITS, Type};

impl<'a> Translator<'a> {
    pub(super) fn column(&self, binding: Binding) -> Column {
        Column::new_unqualified(self.name(binding))
    }

    /// Translates an expression without subqueries.
    pub(super) fn expr(&mut self, e: &'a encoding::Expr, schema: &DFSchemaRef) -> Result<Expr, Refused> {
        self.expr_with(e, schema, Allowed::Nothing)
    }

    /// Translates a conjunct of WHERE.
    pub(super) fn predicate(&mut self, e: &'a encoding::Expr, schema: &DFSchemaRef) -> Result<Expr, Refused> {
        let top = std::mem::replace(&mut self.top, false);
        let predicate = self.expr_with(e, schema, Allowed::All);
        self.top = top;
        let predicate = predicate?;
        check_memberships(&predicate)?;
        Ok(predicate)
    }

    pub(super) fn expr_with(
        &mut self,
        e: &'a encoding::Expr,
        schema: &DFSchemaRef,
        allowed: Allowed,
    ) -> Result<Expr, Refused> {
        let before = std::mem::replace(&mut self.allowed, allowed);
        let result = self.any(e, schema);
        self.allowed = before;
        result
    }

    fn any(&mut self, e: &'a encoding::Expr, schema: &DFSchemaRef) -> Result<Expr, Refused> {
        match e {
            encoding::Expr::Col { b, t } => self.column_ref(*b, t, schema),
            encoding::Expr::Const { t, v } => constant(Type::parse(t)?, v.as_deref()),
            encoding::Expr::Cmp { f, a } => {
                let (left, right) = (self.any(&a.0, schema)?, self.any(&a.1, schema)?);
                compare(f, left, right, schema)
            }
            encoding::Expr::And { a } => self.connected(Operator::And, a, schema),
            encoding::Expr::Or { a } => self.connected(Operator::Or, a, schema),
            encoding::Expr::Not { a } => Ok(negated(self.any(first(a)?, schema)?)),
            encoding::Expr::IsNull { a } => Ok(computed(self.any(first(a)?, schema)?)?.is_null()),
            encoding::Expr::IsNotNull { a } => Ok(computed(self.any(first(a)?, schema)?)?.is_not_null()),
            encoding::Expr::In { a } => self.list(a, false, schema),
            encoding::Expr::NotIn { a } => self.list(a, true, schema),
            encoding::Expr::Coalesce { t, a } => {
                let args = self.list_of(a, schema)?;
                cast_to(functions::coalesce(args), &Type::parse(t)?.arrow(), schema)
            }
            encoding::Expr::Case { t, a } => self.case(Type::parse(t)?, a, schema),
            encoding::Expr::Cast { r#try, t, from, a } => {
                let value = self.any(first(a)?, schema)?;
                if *r#try {
                    return Err(Refused::new("TRY_CAST"));
                }
                let (from, to) = (Type::parse(from)?, Type::parse(t)?);
                convert(value, from, to, schema)
            }
            encoding::Expr::Fn { f, t, at, a } => self.function(f, Type::parse(t)?, at, a, schema),
            encoding::Expr::Agg { f, .. } => Err(Refused::new(format!("the aggregate {f} outside of an aggregation"))),
            encoding::Expr::Subquery { f, cmp, a, child, .. } => {
                let scalar = f == "scalar";
                if self.allowed == Allowed::Nothing || !scalar && self.allowed != Allowed::All {
                    return Err(Refused::new("a subquery outside of SELECT and WHERE"));
                }
                self.subquery(f, cmp.as_deref(), a, child, schema)
            }
        }
    }

    fn column_ref(&mut self, binding: Binding, ty: &str, schema: &DFSchemaRef) -> Result<Expr, Refused> {
        Type::parse(ty)?;
        if let Some(result) = self.results.get(&binding) {
            let allowed = match result {
                Expr::ScalarSubquery(_) => self.allowed != Allowed::Nothing,
                _ => self.allowed == Allowed::All,
            };
            return match allowed {
                true => Ok(result.clone()),
                false => Err(Refused::new("a subquery outside of SELECT and WHERE")),
            };
        }
        let column = self.column(binding);
        if schema.has_column(&column) {
            return Ok(Expr::Column(column));
        }
        match self.outer.iter().rev().position(|outer| outer.has_column(&column)) {
            Some(0) => {
                let outer = self.outer.last().expect("a position was found");
                let (_, field) = outer.qualified_field_from_column(&column)?;
                Ok(Expr::OuterReferenceColumn(Arc::clone(field), column))
            }
            Some(_) => Err(Refused::new("a subquery that refers to a query further out than the next one")),
            None => Err(Refused::new(format!("a column of type {ty} that is not among its input's"))),
        }
    }

    fn connected(&mut self, op: Operator, list: &'a [encoding::Expr], schema: &DFSchemaRef) -> Result<Expr, Refused> {
        let list = self.list_of(list, schema)?;
        let all = list.into_iter().reduce(|left, right| binary(left, op, right));
        all.ok_or_else(|| Refused::new("an empty conjunction"))
    }

    pub(super) fn list_of(&mut self, list: &'a [encoding::Expr], schema: &DFSchemaRef) -> Result<Vec<Expr>, Refused> {
        list.iter().map(|e| self.any(e, schema)).collect()
    }

    fn list(&mut self, args: &'a [encoding::Expr], negated: bool, schema: &DFSchemaRef) -> Result<Expr, Refused> {
        let mut list = self.list_of(args, schema)?.into_iter();
        let member = list.next().ok_or_else(|| Refused::new("IN without a member"))?;
        Ok(Expr::InList(InList::new(Box::new(member), list.collect(), negated)))
    }

    fn case(&mut self, ty: Type, args: &'a [encoding::Expr], schema: &DFSchemaRef) -> Result<Expr, Refused> {
        let mut list = self.list_of(args, schema)?;
        let otherwise = list.pop().map(|e| cast_to(e, &ty.arrow(), schema)).transpose()?;
        let mut list = list.into_iter();
        let mut branches = Vec::new();
        while let (Some(when), Some(then)) = (list.next(), list.next()) {
            branches.push((Box::new(when), Box::new(cast_to(then, &ty.arrow(), schema)?)));
        }
        Ok(Expr::Case(Case::new(None, branches, otherwise.map(Box::new))))
    }
}

/// `e` as the argument of IS NULL. Expressions that may fail are refused: DataFusion might not compute them.
fn computed(e: Expr) -> Result<Expr, Refused> {
    let fails = e.exists(|e| Ok(matches!(e, Expr::ScalarFunction(call) if call.name() == kept::NAME)))?;
    if fails { Err(Refused::new("IS NULL of what may fail")) } else { Ok(e) }
}

fn first(args: &[encoding::Expr]) -> Result<&encoding::Expr, Refused> {
    args.first().ok_or_else(|| Refused::new("an operator without an argument"))
}

pub(super) fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

fn negated(e: Expr) -> Expr {
    match e {
        Expr::Exists(exists) => {
            Expr::Exists(datafusion::logical_expr::expr::Exists { negated: !exists.negated, ..exists })
        }
        Expr::InSubquery(member) => {
            Expr::InSubquery(datafusion::logical_expr::expr::InSubquery { negated: !member.negated, ..member })
        }
        e => Expr::Not(Box::new(e)),
    }
}

fn compare(name: &str, left: Expr, right: Expr, schema: &DFSchemaRef) -> Result<Expr, Refused> {
    let op = match name {
        "=" => Operator::Eq,
        "<>" => Operator::NotEq,
        "<" => Operator::Lt,
        ">" => Operator::Gt,
        "<=" => Operator::LtEq,
        ">=" => Operator::GtEq,
        "distinct" => Operator::IsDistinctFrom,
        "not distinct" => Operator::IsNotDistinctFrom,
        _ => return Err(Refused::new(format!("the comparison {name}"))),
    };
    if let Some(simpler) = compare_dates(&left, op, &right, schema) {
        return Ok(simpler);
    }
    Ok(binary(left, op, right))
}

/// A comparison of a date, cast to a timestamp, with a midnight as a comparison of dates, which statistics and encodings support.
fn compare_dates(left: &Expr, op: Operator, right: &Expr, schema: &DFSchemaRef) -> Option<Expr> {
    const DAY: i64 = 86_400_000_000;
    let (Expr::Cast(date), Expr::Literal(ScalarValue::TimestampMicrosecond(Some(micros), None), _)) = (left, right)
    else {
        return None;
    };
    if micros % DAY != 0 || date.expr.get_type(schema).ok()? != DataType::Date32 {
        return None;
    }
    let day = i32::try_from(micros / DAY).ok()?;
    Some(binary((*date.expr).clone(), op, lit(ScalarValue::Date32(Some(day)))))
}

/// `e` cast to the type `to`, unless it has that type.
pub(super) fn cast_to(e: Expr, to: &DataType, schema: &DFSchemaRef) -> Result<Expr, Refused> {
    if e.get_type(schema)? == *to {
        return Ok(e);
    }
    if let Expr::Literal(value, _) = &e
        && let Ok(value) = value.cast_to(to)
    {
        return Ok(lit(value));
    }
    let fits = kept::always_fits(&e.get_type(schema)?, to);
    let converted = cast(e, to.clone());
    Ok(if fits { converted } else { kept::kept(converted) })
}

/// A cast of DuckDB's. Casts that round or print differently in Arrow are refused.
fn convert(value: Expr, from: Type, to: Type, schema: &DFSchemaRef) -> Result<Expr, Refused> {
    let exact = |ty: Type| ty.scale().is_some();
    let same = match (from, to) {
        (from, to) if from == to => true,
        (Type::Null, _) => true,
        // Whole numbers are checked, and both systems round half away from zero if digits after the point are dropped.
        (from, Type::Decimal(..)) if exact(from) => true,
        (from, to) if from.scale() == Some(0) && (to.is_integer() || to == Type::HugeInt) => true,
        (from, Type::Double) if exact(from) || from == Type::Float => true,
        (from, Type::Float) if from.bits().is_some_and(|bits| bits <= 16) => true,
        (Type::Date, Type::Timestamp) => true,
        (Type::Boolean, to) if to.is_integer() => true,
        (from, Type::Varchar) if from.is_integer() => true,
        _ => false,
    };
    match (from, to) {
        (Type::Decimal(width, scale), Type::Double) => {
            return Ok(exact::decimal_to_float(value, width, scale.unsigned_abs()));
        }
        (Type::HugeInt, Type::Double) => return Ok(exact::decimal_to_float(value, DIGITS, 0)),
        (from, to) if from.is_float() && to.is_integer() => {
            let float = cast_to(value, &Type::Double.arrow(), schema)?;
            return cast_to(nearest(float), &to.arrow(), schema);
        }
        // Casts between decimals round as in DuckDB; a direct cast to an integer would truncate.
        (Type::Decimal(..), to) if to.is_integer() => {
            let whole = cast_to(value, &Type::HugeInt.arrow(), schema)?;
            return cast_to(whole, &to.arrow(), schema);
        }
        _ => {}
    }
    match same {
        true => cast_to(value, &to.arrow(), schema),
        false => Err(Refused::new(format!("a cast from {from:?} to {to:?}"))),
    }
}

/// An expression of type `to` that fails the query if it is computed. `always` is an integer expression that is not constant and at
/// least 0.
pub(super) fn failure(always: Expr, to: &DataType) -> Expr {
    let large = binary(cast(always, DataType::Int64), Operator::Plus, lit(1i64 << 40));
    let fails = cast(large, DataType::Int8);
    match to {
        DataType::Date32 => cast(cast(fails, DataType::Int32), to.clone()),
        DataType::Timestamp(..) => cast(cast(fails, DataType::Int64), to.clone()),
        to => cast(fails, to.clone()),
    }
}

/// The nearest whole number, or the even one of two. The following cast to an integer fails for values that are not finite.
fn nearest(x: Expr) -> Expr {
    let below = functions::floor(x.clone());
    let above = binary(below.clone(), Operator::Plus, lit(1.0));
    let rest = binary(x, Operator::Minus, below.clone());
    let half = binary(below.clone(), Operator::Divide, lit(2.0));
    let even = functions::floor(half.clone()).eq(half);
    let stays = rest.clone().lt(lit(0.5)).or(rest.eq(lit(0.5)).and(even));
    Expr::Case(Case::new(None, vec![(Box::new(stays), Box::new(below))], Some(Box::new(above))))
}

/// A constant.
fn constant(ty: Type, value: Option<&str>) -> Result<Expr, Refused> {
    let Some(text) = value else { return Ok(lit(ScalarValue::try_from(&ty.arrow())?)) };
    let bad = || Refused::new(format!("the constant {text} of type {ty:?}"));
    macro_rules! number {
        ($variant:ident) => {
            ScalarValue::$variant(Some(text.parse().map_err(|_| bad())?))
        };
    }
    let scalar = match ty {
        Type::Boolean => ScalarValue::Boolean(Some(text == "true")),
        Type::TinyInt => number!(Int8),
        Type::SmallInt => number!(Int16),
        Type::Integer => number!(Int32),
        Type::BigInt => number!(Int64),
        Type::UTinyInt => number!(UInt8),
        Type::USmallInt => number!(UInt16),
        Type::UInteger => number!(UInt32),
        Type::UBigInt => number!(UInt64),
        Type::Float => number!(Float32),
        Type::Double => number!(Float64),
        Type::HugeInt | Type::UHugeInt => ScalarValue::Decimal128(Some(text.parse().map_err(|_| bad())?), DIGITS, 0),
        Type::Decimal(width, scale) => {
            ScalarValue::Decimal128(Some(unscaled(text, scale).ok_or_else(bad)?), width, scale)
        }
        Type::Varchar => ScalarValue::Utf8(Some(text.to_string())),
        Type::Date => number!(Date32),
        Type::Timestamp => ScalarValue::TimestampMicrosecond(Some(text.parse().map_err(|_| bad())?), None),
        Type::Interval => interval(text).ok_or_else(bad)?,
        Type::Null => ScalarValue::Null,
    };
    let number = match &scalar {
        ScalarValue::Date32(Some(days)) => i128::from(*days),
        ScalarValue::TimestampMicrosecond(Some(micros), _) => i128::from(*micros),
        ScalarValue::Decimal128(Some(digits), ..) => *digits,
        _ => return Ok(lit(scalar)),
    };
    let has = ty.limits().is_none_or(|limits| limits.contains(&number));
    has.then(|| lit(scalar)).ok_or_else(bad)
}

/// The integer of all digits of a decimal in DuckDB's notation.
fn unscaled(text: &str, scale: i8) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() != usize::try_from(scale).ok()? {
        return None;
    }
    format!("{whole}{fraction}").parse().ok()
}

fn interval(text: &str) -> Option<ScalarValue> {
    let mut parts = text.split(',').map(str::parse::<i64>);
    let (months, days, micros) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let value = IntervalMonthDayNano::new(months.try_into().ok()?, days.try_into().ok()?, micros.checked_mul(1000)?);
    Some(ScalarValue::IntervalMonthDayNano(Some(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_decimals() {
        assert_eq!(unscaled("-12.50", 2), Some(-1250));
        assert_eq!(unscaled("0.06", 2), Some(6));
        assert_eq!(unscaled("-0.06", 2), Some(-6));
        assert_eq!(unscaled("7", 0), Some(7));
        assert_eq!(unscaled("1.5", 2), None);
    }

    #[test]
    fn casts_that_may_fail() {
        use DataType::{Boolean, Decimal128, Float64, Int8, Int16, Int32, Int64, Null, UInt8, UInt32};
        for (from, to) in [
            (Boolean, Int8),
            (Int8, Int16),
            (UInt8, Int16),
            (Int32, Decimal128(10, 0)),
            (Decimal128(4, 1), Decimal128(6, 3)),
            (Decimal128(4, 1), Decimal128(4, 1)),
            (Int64, Float64),
            (Null, Int8),
        ] {
            assert!(kept::always_fits(&from, &to), "{from} {to}");
        }
        for (from, to) in [
            (Int16, Int8),
            (Int8, UInt32),
            (UInt8, Int8),
            (Int32, Decimal128(10, 1)),
            (Decimal128(4, 1), Decimal128(4, 2)),
            (Decimal128(4, 1), Decimal128(6, 0)),
            (Decimal128(3, 0), Int64),
            (Float64, Int64),
        ] {
            assert!(!kept::always_fits(&from, &to), "{from} {to}");
        }
    }

    #[test]
    fn constants_out_of_range_are_refused() {
        let nines = "9".repeat(38);
        assert!(constant(Type::HugeInt, Some(&nines)).is_ok() && constant(Type::UHugeInt, Some("-1")).is_err());
        assert!(constant(Type::HugeInt, Some(&format!("1{nines}"))).is_err());
        assert!(constant(Type::Date, Some("2147483647")).is_err() && constant(Type::Date, Some("0")).is_ok());
        assert!(constant(Type::TinyInt, Some("128")).is_err());
        assert!(constant(Type::Varchar, None).is_ok());
    }
}
