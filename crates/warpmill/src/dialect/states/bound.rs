//! Rewrites the functions of states to expressions over the parts of states, once the types of their arguments are known.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, internal_err, plan_err};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_nested::expr_fn::{array_concat, make_array};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{BinaryExpr, Case, Expr, ExprSchemable, Operator, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use super::kind::Kind;
use super::named;
use super::numbers::{self, What};
use super::order::{Pick, in_order};
use super::packed::{marked, packed, part, rescaled, unmarked};
use super::placeholders::{Function, Placeholder};
use super::{State, is_state};
use crate::dialect::operators::{self, Op, convert};
use crate::dialect::types::{HUGEINT, TIMESTAMP, digits, is_decimal, is_number, is_text, type_name};
use crate::dialect::{casts, functions, library};

/// The expression for a call of a function of states; `None`: another function.
///
/// # Errors
/// Arguments that are not states, or are states of other aggregates.
pub(in crate::dialect) fn bound(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let Some(placeholder) = function.func.inner().downcast_ref::<Placeholder>() else {
        return shown(function, schema);
    };
    match (placeholder.function, function.args.as_slice()) {
        (Function::Exported, [name, types, constant, order, parts @ ..]) => {
            exported([name, constant, order], types, parts, schema).map(Some)
        }
        (Function::Finalize, [state]) => {
            let ty = state.get_type(schema)?;
            finalized(&of_state("finalize", &ty)?, state, &ty, schema).map(Some)
        }
        (Function::Combine, [left, right]) => combined(left, right, schema).map(Some),
        (Function::Named, [value, text]) => named_state(value, text, schema).map(Some),
        (Function::Summand, [value]) => match value.get_type(schema)? {
            ty if ty.is_temporal() => {
                let micros = match ty {
                    DataType::Date32 => convert(value.clone(), &TIMESTAMP, schema)?,
                    _ => value.clone(),
                };
                Ok(Some(micros.cast_to(&DataType::Int64, schema)?))
            }
            ty if is_number(&ty) || ty.is_null() => Ok(Some(value.clone())),
            ty => plan_err!("No function matches avg({})", type_name(&ty)),
        },
        (_, args) => internal_err!("{} of {} arguments", function.func.name(), args.len()),
    }
}

/// A call that writes values as JSON, with states replaced by the values that they are shown as; `None`: another call, or no states.
fn shown(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    if function.func.name() != "to_json" {
        return Ok(None);
    }
    let mut has_states = false;
    let args = function.args.iter().map(|arg| {
        let ty = arg.get_type(schema)?;
        let is_plain = super::plain(&ty) == ty;
        has_states |= !is_plain;
        Ok(if is_plain { arg.clone() } else { unmarked(arg.clone(), &ty) })
    });
    let call = ScalarFunction { func: Arc::clone(&function.func), args: args.collect::<Result<_>>()? };
    Ok(has_states.then_some(Expr::ScalarFunction(call)))
}

/// Refuses fields of states: only casts to structs show them.
pub(in crate::dialect) fn checked_access(function: &ScalarFunction, schema: &DFSchema) -> Result<()> {
    match (function.func.name(), function.args.as_slice()) {
        ("get_field", [of, ..]) if is_state(&of.get_type(schema)?) => {
            plan_err!("No function matches struct_extract({}, VARCHAR): cast the state to a STRUCT", super::TYPE_NAME)
        }
        _ => Ok(()),
    }
}

fn of_state(function: &str, ty: &DataType) -> Result<State> {
    match State::of(ty) {
        Some(state) => Ok(state),
        None => plan_err!("Can only {function} an {}, not a value of type {}", super::TYPE_NAME, type_name(ty)),
    }
}

/// The type of states with these constants (name, types, constant argument and order); the constant argument may be unknown yet.
pub(super) fn state_type(constants: &[Option<ScalarValue>], types: &DataType, parts: &[&DataType]) -> Result<DataType> {
    let text = |at: usize| constants.get(at).and_then(Option::as_ref).and_then(|text| text.try_as_str().flatten());
    let (Some(name), Some(order)) = (text(0), text(3)) else { return internal_err!("a state without a name") };
    let constant = constants.get(2).and_then(Option::as_ref);
    let parts: Vec<DataType> = parts.iter().copied().cloned().collect();
    Ok(described(name, types, constant, order)?.with_parts(&parts))
}

/// The origin of a state: aggregate, argument types, constant argument and order.
fn described(name: &str, types: &DataType, constant: Option<&ScalarValue>, order: &str) -> Result<State> {
    let Some(kind) = Kind::of(name) else { return internal_err!("no states of {name}") };
    let types: Vec<DataType> = match types {
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type().clone()).collect(),
        _ => vec![],
    };
    let order = if order.is_empty() { vec![] } else { named::read(order)? };
    let types = kind.arguments(name, &types);
    Ok(State { function: name.into(), types, constant: constant.and_then(|value| named::constant(value, kind)), order })
}

impl State {
    /// The type of such states, whose parts are the results of aggregates with the types `given`.
    pub(super) fn with_parts(&self, given: &[DataType]) -> DataType {
        self.data_type(&self.kind().parts(given))
    }

    /// The types of the parts of a state of type `ty`.
    pub(super) fn part_types(&self, ty: &DataType) -> Vec<DataType> {
        fn flatten(ty: &DataType, nested: bool, parts: &mut Vec<DataType>) {
            match ty {
                DataType::Struct(fields) if nested => {
                    fields.iter().for_each(|field| flatten(field.data_type(), true, parts));
                }
                ty => parts.push(ty.clone()),
            }
        }
        let mut parts = vec![];
        if let DataType::Struct(fields) = ty {
            // Values may be structs, too.
            let nested = matches!(self.kind(), Kind::Moments(_));
            fields.iter().for_each(|field| flatten(field.data_type(), nested, &mut parts));
        }
        parts
    }

    /// Whether combining two states of type `ty` keeps the later one: as in DuckDB, that of `last` over values of variable length.
    pub(super) fn takes_later(&self, ty: &DataType) -> bool {
        let value = self.part_types(ty);
        self.function == "last" && value.iter().any(|ty| is_text(ty) || ty.is_binary() || ty.is_nested())
    }

    /// The number of digits after the point of the decimals that it sums up.
    fn scale(&self) -> Result<i8> {
        let ty = self.types.first().map(|name| named::data_type(name)).transpose()?;
        Ok(ty.filter(is_decimal).and_then(|ty| digits(&ty)).map_or(0, |(_, scale)| scale))
    }
}

fn exported(constants: [&Expr; 3], types: &Expr, parts: &[Expr], schema: &DFSchema) -> Result<Expr> {
    let literals = constants.map(|constant| folded(constant.clone()));
    let [name, constant, order] = literals.map(|literal| match literal {
        Ok(Expr::Literal(value, _)) => Ok(value),
        Ok(other) => plan_err!("the constant argument of an aggregate is no constant: {other}"),
        Err(error) => Err(error),
    });
    let (name, order) = (name?, order?);
    let (Some(name), Some(order)) = (name.try_as_str().flatten(), order.try_as_str().flatten()) else {
        return internal_err!("a state without a name");
    };
    let state = described(name, &types.get_type(schema)?, Some(&constant?), order)?;
    let given = parts.iter().map(|part| part.get_type(schema)).collect::<Result<Vec<_>>>()?;
    let ty = state.with_parts(&given);
    let parts = parts.iter().zip(state.part_types(&ty)).map(|(part, to)| {
        let part = as_part(part.clone(), &to, schema)?;
        let begins_with_zero = state.kind() == Kind::Average;
        Ok(if begins_with_zero { coalesce(vec![part, lit(ScalarValue::new_zero(&to)?)]) } else { part })
    });
    Ok(packed(&ty, parts.collect::<Result<_>>()?))
}

/// Converts the result of an aggregate to a part of a state; decimals become their digits.
fn as_part(e: Expr, to: &DataType, schema: &DFSchema) -> Result<Expr> {
    let from = e.get_type(schema)?;
    match is_decimal(&from) && *to == HUGEINT && digits(&from).is_some_and(|(_, scale)| scale > 0) {
        true => Ok(rescaled(e, to)),
        false => casts::bind(e, to, false, schema),
    }
}

/// `e` as a literal, where it can be folded.
fn folded(e: Expr) -> Result<Expr> {
    match e {
        Expr::Literal(..) => Ok(e),
        e => ExprSimplifier::new(SimplifyContext::builder().build()).simplify(e),
    }
}

/// The type of the results of states of type `ty`.
pub(super) fn result_type(state: &State, ty: &DataType) -> Result<DataType> {
    let schema =
        DFSchema::from_unqualified_fields(vec![Field::new("state", ty.clone(), true)].into(), Default::default())?;
    finalized(state, &Expr::Column(Column::new_unqualified("state")), ty, &schema)?.get_type(&schema)
}

/// The result of the aggregate that `e` is a state of.
pub(super) fn finalized(state: &State, e: &Expr, ty: &DataType, schema: &DFSchema) -> Result<Expr> {
    let types = state.part_types(ty);
    let part = |at: usize| part(e, at, &types[at]);
    if !state.order.is_empty() {
        return in_given_order(state, part(0), schema);
    }
    let double = |e: Expr| convert(e, &DataType::Float64, schema);
    Ok(match state.kind() {
        Kind::PairCount => convert(part(0), &DataType::UInt32, schema)?,
        Kind::Sum => match state.scale()? {
            0 => part(0),
            scale => rescaled(part(0), &DataType::Decimal128(38, scale)),
        },
        Kind::Average => match named::data_type(&state.types[0])? {
            ty if ty.is_temporal() => numbers::call(What::MeanMoment, &ty, vec![part(1), part(0)]),
            _ => {
                let (sum, count) = (double(part(1))?, double(part(0))?);
                let units = match state.scale()? {
                    0 => count,
                    scale => computed(count, Operator::Multiply, lit(10f64.powi(scale.into()))),
                };
                when(part(0).gt(lit(0u64)), computed(sum, Operator::Divide, units), None)
            }
        },
        Kind::Values(function) => {
            let args = std::iter::once(part(0)).chain(state.constant.as_ref().map(constant_expr));
            let Some(Expr::ScalarFunction(call)) = library::call(function, args.collect()) else {
                return internal_err!("no function {function}");
            };
            functions::bind(call, schema)?
        }
        Kind::Moments(_) => numbers::call(What::Value, &DataType::Float64, vec![e.clone()]),
        _ => part(0),
    })
}

/// The result of an aggregate over a list of values in arrival order.
fn in_given_order(state: &State, list: Expr, schema: &DFSchema) -> Result<Expr> {
    let pick = match state.function.as_str() {
        "first" | "arbitrary" => Pick::First,
        "last" => Pick::Last,
        "any_value" => Pick::FirstPresent,
        _ => Pick::All,
    };
    let values = in_order(list, &state.order, pick);
    if Kind::of(&state.function) != Some(Kind::Text) {
        return Ok(values);
    }
    let texts = casts::bind(values, &DataType::new_list(DataType::Utf8, true), false, schema)?;
    let by = state.constant.as_ref().map_or_else(|| lit(","), constant_expr);
    library::call("list_string_agg", vec![texts, by]).map_or_else(|| internal_err!("no function list_string_agg"), Ok)
}

/// A constant argument as an expression.
pub(super) fn constant_expr(constant: &serde_json::Value) -> Expr {
    match constant {
        serde_json::Value::Array(elements) => make_array(elements.iter().map(constant_expr).collect()),
        serde_json::Value::String(text) => lit(text.as_str()),
        number => number.as_f64().map_or_else(|| lit(ScalarValue::Null), lit),
    }
}

pub(super) fn when(condition: Expr, then: Expr, otherwise: Option<Expr>) -> Expr {
    Expr::Case(Case::new(None, vec![(Box::new(condition), Box::new(then))], otherwise.map(Box::new)))
}

fn computed(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// `combine(left, right)`.
fn combined(left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Expr> {
    let (ty, other) = (left.get_type(schema)?, right.get_type(schema)?);
    let state = of_state("combine", &ty)?;
    match State::of(&other) {
        Some(other) if other == state => {}
        Some(other) if other.function == state.function => {
            let parameters = |state: &State| {
                let constant = state.constant.as_ref().map_or_else(String::new, |constant| format!(" with {constant}"));
                format!("[{}]{constant}", state.types.join(", "))
            };
            return plan_err!(
                "Cannot COMBINE aggregate states of {:?} that were created with different parameters: {} <> {}",
                state.function,
                parameters(&state),
                parameters(&other)
            );
        }
        _ => {
            let [left, right] = [&ty, &other].map(type_name);
            return plan_err!("Cannot COMBINE aggregate states from different functions, {left} <> {right}");
        }
    }
    let right = casts::bind(right.clone(), &ty, false, schema)?;
    // The second one is there first.
    let either = |both: Expr, left: Expr, right: Expr| {
        let both = when(left.clone().is_null(), right.clone(), Some(both));
        when(right.is_null(), left, Some(both))
    };
    Ok(match state.kind() {
        Kind::Moments(_) => numbers::call(What::Combined, &ty, vec![left.clone(), right]),
        Kind::First if state.takes_later(&ty) => coalesce(vec![left.clone(), right]),
        Kind::First => coalesce(vec![right, left.clone()]),
        Kind::Extreme { greatest } => {
            let by = |e: &Expr| part(e, 1, &state.part_types(&ty)[1]);
            let op = if greatest { Operator::Gt } else { Operator::Lt };
            let is_first = computed(by(left), op, by(&right));
            either(when(is_first, left.clone(), Some(right.clone())), left.clone(), right)
        }
        _ => {
            let types = state.part_types(&ty);
            let merged = types.iter().enumerate().map(|(at, ty)| {
                let (left, right) = (part(left, at, ty), part(&right, at, ty));
                let both = state.merged(left.clone(), right.clone(), ty, schema)?;
                Ok(either(both, left, right))
            });
            packed(&ty, merged.collect::<Result<_>>()?)
        }
    })
}

impl State {
    /// Combines the same part of two states.
    fn merged(&self, left: Expr, right: Expr, ty: &DataType, schema: &DFSchema) -> Result<Expr> {
        Ok(match self.kind() {
            Kind::Least | Kind::Greatest => {
                let op = if self.kind() == Kind::Least { Operator::Lt } else { Operator::Gt };
                when(computed(left.clone(), op, right.clone()), left, Some(right))
            }
            Kind::Product => computed(right, Operator::Multiply, left),
            Kind::BitAnd => computed(right, Operator::BitwiseAnd, left),
            Kind::BitOr => computed(right, Operator::BitwiseOr, left),
            Kind::BitXor => computed(right, Operator::BitwiseXor, left),
            Kind::All => right.and(left),
            Kind::Any => right.or(left),
            Kind::List | Kind::Values(_) => array_concat(vec![right, left]),
            Kind::Text => {
                let by = self.constant.as_ref().map_or_else(|| lit(","), constant_expr);
                computed(computed(right, Operator::StringConcat, by), Operator::StringConcat, left)
            }
            _ => arithmetic(Op::Add, right, left, ty, schema)?,
        })
    }
}

/// A sum or product of two values, with type `ty`.
pub(super) fn arithmetic(op: Op, left: Expr, right: Expr, ty: &DataType, schema: &DFSchema) -> Result<Expr> {
    let plain = if op == Op::Add { Operator::Plus } else { Operator::Multiply };
    let result = match operators::bind(op, left.clone(), right.clone(), schema)? {
        Some(bound) => bound,
        None => computed(left, plain, right),
    };
    casts::bind(result, ty, false, schema)
}

/// `to_aggregate_state`, where `text` describes the state.
fn named_state(value: &Expr, text: &Expr, schema: &DFSchema) -> Result<Expr> {
    let Expr::Literal(text, _) = text else { return internal_err!("a state without a description") };
    let ty = named::state_type(text, &value.get_type(schema)?)?;
    let plain = casts::bind(value.clone(), &super::plain(&ty), false, schema)?;
    Ok(marked(plain, &ty))
}
