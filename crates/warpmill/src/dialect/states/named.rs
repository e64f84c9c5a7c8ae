//! `to_aggregate_state(value, name, types, constants, order)`: a state that is described by constants.

use datafusion::common::{Result as PlanResult, ScalarValue, internal_err, plan_datafusion_err, plan_err};
use datafusion::sql::sqlparser::ast::{Array, Expr, UnaryOperator, Value};

use arrow::datatypes::{DataType, Field};
use serde::de::DeserializeOwned;

use super::State;
use super::kind::Kind;
use super::order::Key;
use crate::dialect::custom_types::{self, CustomTypes};
use crate::dialect::names::calls::{arguments, text};
use crate::dialect::names::function;
use crate::dialect::syntax;
use crate::dialect::types::{HUGEINT, is_float, type_name, whole};
use crate::{Error, Result};

/// The name of the function.
pub(super) const NAME: &str = "to_aggregate_state";

/// Plain data that this crate has written as text.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> PlanResult<T> {
    serde_json::from_str(text).map_err(|error| plan_datafusion_err!("a state's description is malformed: {error}"))
}

/// The type called `name`.
pub(super) fn data_type(name: &str) -> PlanResult<DataType> {
    match custom_types::parsed(&syntax::plain(name)) {
        Ok(named) => whole(&named, &CustomTypes::default()),
        Err(_) => plan_err!("Type with name {name} does not exist"),
    }
}

/// A constant argument of an aggregate of this kind in the form in which states keep it; `None` for NULL.
pub(super) fn constant(value: &ScalarValue, kind: Kind) -> Option<serde_json::Value> {
    if value.is_null() {
        return None;
    }
    match value.try_as_str() {
        Some(text) if matches!(kind, Kind::Values(_)) => serde_json::from_str(text?).ok(),
        Some(text) => text.map(Into::into),
        None => match value.cast_to(&DataType::Float64) {
            Ok(ScalarValue::Float64(Some(number))) => Some(number.into()),
            _ => None,
        },
    }
}

/// Rewrites a call of [`NAME`] so that a description replaces its constants.
///
/// # Errors
/// Arguments that are not constant, or do not describe a state.
pub(super) fn described(call: &datafusion::sql::sqlparser::ast::Function) -> Result<Option<Expr>> {
    let args = arguments(call).unwrap_or_default();
    let [value, name, types, rest @ ..] = args.as_slice() else { return Ok(None) };
    // Described already.
    if rest.len() > 2 {
        return Ok(None);
    }
    let name = constant_text(name).ok_or_else(|| refused("the name of the aggregate must be constant"))?.to_lowercase();
    let kind = Kind::of(&name).ok_or_else(|| Error::NotImplemented(format!("{NAME} of {name}")))?;
    let types = elements(types).ok_or_else(|| refused("the types of arguments must be a list"))?;
    let types = types.iter().map(type_text).collect::<Option<Vec<_>>>();
    let types = types.ok_or_else(|| refused("the types of arguments must be constant"))?;
    let types = types.iter().map(|name| data_type_of_argument(name)).collect::<PlanResult<Vec<_>>>()?;
    check(kind, &name, &types)?;
    let (constants, order) = (rest.first(), rest.get(1));
    let constant =
        match constants.map(|constants| elements(constants).ok_or_else(|| refused("the constants must be a list"))) {
            None => None,
            Some(constants) => {
                let constants = constants?;
                if constants.len() != types.len() {
                    return Err(refused("the constants must have exactly one entry per argument"));
                }
                constants.iter().find_map(json)
            }
        };
    let order = match order {
        Some(order) => keys(order)?,
        None => vec![],
    };
    let state = State { types: kind.arguments(&name, &types), function: name, constant, order };
    let description = serde_json::to_string(&state).expect("a state is plain data with string keys");
    Ok(Some(function(super::placeholders::NAMED, vec![value.clone(), text(&description)])))
}

fn refused(reason: &str) -> Error {
    Error::Plan(format!("{NAME}: {reason}"))
}

/// Refuses argument types that the aggregate does not take or converts to others.
fn check(kind: Kind, name: &str, types: &[DataType]) -> Result<()> {
    let (given, bound) = (types.iter().map(type_name).collect::<Vec<_>>(), kind.arguments(name, types));
    if !kind.counts(name).contains(&types.len()) {
        return Err(Error::Plan(format!("No function matches {name}({})", given.join(", "))));
    }
    match kind == Kind::Count || given == bound {
        true => Ok(()),
        false => Err(refused(&format!("the types of {name} are [{}], not [{}]", bound.join(", "), given.join(", ")))),
    }
}

/// The type of an argument; `count` takes any.
fn data_type_of_argument(name: &str) -> PlanResult<DataType> {
    if name.eq_ignore_ascii_case("any") { Ok(DataType::Null) } else { data_type(name) }
}

fn constant_text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        Expr::Nested(inner) => constant_text(inner),
        _ => None,
    }
}

/// The name of a type as a text, or as a value of `make_type`.
fn type_text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("make_type") => {
            match arguments(call)?.as_slice() {
                [name] => constant_text(name).map(str::to_string),
                _ => None,
            }
        }
        expr => constant_text(expr).map(str::to_string),
    }
}

fn elements(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Array(Array { elem, .. }) => Some(elem),
        _ => None,
    }
}

/// A constant as JSON; `None` for NULL and for other expressions.
fn json(expr: &Expr) -> Option<serde_json::Value> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.as_str().into()),
            Value::Number(digits, _) => digits.parse::<f64>().ok().map(Into::into),
            _ => None,
        },
        Expr::Array(Array { elem, .. }) => Some(elem.iter().map(json).collect::<Option<Vec<_>>>()?.into()),
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => json(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => json(expr)?.as_f64().map(|number| (-number).into()),
        _ => None,
    }
}

/// The constant fractions of a quantile as a text.
pub(super) fn fractions(list: &Array) -> Result<String> {
    let numbers = list.elem.iter().map(json).collect::<Option<Vec<_>>>();
    let numbers = numbers.ok_or_else(|| Error::NotImplemented("EXPORT_STATE of fractions that are computed".into()))?;
    Ok(serde_json::Value::from(numbers).to_string())
}

/// The keys of `[{'column': 1, 'order': 'ASC NULLS LAST'}]`.
fn keys(expr: &Expr) -> Result<Vec<Key>> {
    let key = |expr: &Expr| {
        let Expr::Dictionary(fields) = expr else { return None };
        let field = |name: &str| fields.iter().find(|field| field.key.value.eq_ignore_ascii_case(name));
        let column = json(&field("column")?.value)?.as_f64()? as usize;
        let order = constant_text(&field("order")?.value)?.to_uppercase();
        Some(Key { column, descending: order.starts_with("DESC"), nulls_first: order.ends_with("NULLS FIRST") })
    };
    let keys = elements(expr).and_then(|keys| keys.iter().map(key).collect());
    keys.ok_or_else(|| refused("the order must be a list of columns and their orders"))
}

/// The type of the state that `text` describes, made of values of type `of`.
pub(super) fn state_type(text: &ScalarValue, of: &DataType) -> PlanResult<DataType> {
    let Some(text) = text.try_as_str().flatten() else { return internal_err!("a state without a description") };
    let state: State = read(text)?;
    let types = state.types.iter().map(|name| data_type_of_argument(name)).collect::<PlanResult<Vec<_>>>()?;
    if !state.order.is_empty() {
        return Ok(state.data_type(&[ordered(&state, types, of)?]));
    }
    Ok(state.with_parts(&results(&state, &types)))
}

/// The type of the list of values and sort keys of an ordered state; the keys have the types of values of type `of`.
fn ordered(state: &State, types: Vec<DataType>, of: &DataType) -> PlanResult<DataType> {
    let given: Vec<DataType> = match of {
        DataType::List(element) => match element.data_type() {
            DataType::Struct(fields) => fields.iter().map(|field| field.data_type().clone()).collect(),
            _ => vec![],
        },
        _ => vec![],
    };
    if state.order.iter().any(|key| key.column >= given.len()) {
        return plan_err!("{NAME}: a column of the order is out of range");
    }
    let types = types.into_iter().take(1).chain(given.into_iter().skip(1));
    let fields = types.enumerate().map(|(at, ty)| Field::new(format!("v{at}"), ty, true));
    Ok(DataType::new_list(DataType::Struct(fields.collect()), true))
}

/// The result types of a state's aggregates, for arguments of types `types`.
fn results(state: &State, types: &[DataType]) -> Vec<DataType> {
    let sum = || if is_float(&types[0]) { DataType::Float64 } else { HUGEINT };
    match state.kind() {
        Kind::Sum => vec![sum()],
        Kind::Average => vec![DataType::UInt64, sum()],
        Kind::Product => vec![DataType::Float64],
        Kind::All | Kind::Any => vec![DataType::Boolean],
        Kind::Text => vec![DataType::Utf8],
        Kind::List | Kind::Values(_) => vec![DataType::new_list(types[0].clone(), true)],
        Kind::Extreme { .. } => types.to_vec(),
        _ => types.iter().take(1).cloned().collect(),
    }
}
