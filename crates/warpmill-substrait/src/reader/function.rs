//! Calls of functions.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::ScalarFunction as ScalarCall;
use datafusion::logical_expr::{AggregateUDF, BinaryExpr, Case, Expr, Like, Operator, lit};
use datafusion_substrait::substrait::proto::expression::{RexType, ScalarFunction};
use datafusion_substrait::substrait::proto::function_argument::ArgType;
use datafusion_substrait::substrait::proto::{Expression, FunctionArgument, FunctionOption};
use std::sync::Arc;

use super::cast::{cast, conformed, scale};
use super::types::data_type;
use super::{Reader, Scope, type_of};
use crate::error::{FunctionName, Result, SubstraitError, invalid, required, unsupported};
use crate::functions::{
    AGGREGATES, DATAFUSION, Finish, Named, OPTIONS, SCALARS, Scalar, Special, WINDOWS, behaviours, find,
};

/// An argument of a function.
#[derive(Debug, Clone)]
pub(super) enum Argument {
    Value(Expr),
    /// One of the words that the extension lists.
    Word(String),
}

/// A function of the session that aggregates.
pub(super) struct FoundAggregate {
    pub(super) function: Arc<AggregateUDF>,
    pub(super) arguments: Vec<Expr>,
    pub(super) finish: Finish,
}

impl Reader<'_> {
    pub(super) fn scalar_function(&mut self, call: &ScalarFunction, scope: &Scope) -> Result<Expr> {
        let anchor = call.function_reference;
        let declared = self.declarations.function(anchor)?;
        let unknown = || SubstraitError::UnknownFunction(declared.named("scalar", anchor));
        let name = declared.base().to_lowercase();
        #[allow(deprecated, reason = "plans of earlier versions hold arguments that are all expressions")]
        let arguments = self.arguments(&call.arguments, &call.args, scope)?;
        check_options(&call.options, &declared.named("scalar", anchor))?;
        let output = call.output_type.as_ref().map(|ty| data_type(ty, self.declarations)).transpose()?;
        let extension = declared.standard_extension();
        let of_session = |name: &str| self.state.scalar_functions().get(name).cloned();
        let found = match extension {
            Some(extension) => find(SCALARS, Some(extension), &name),
            None => match of_session(&name) {
                Some(function) => {
                    let expr = Expr::ScalarFunction(ScalarCall::new_udf(function, values(arguments, &name)?));
                    return conformed(expr, output.as_ref(), &scope.schema);
                }
                None => {
                    let operator = DATAFUSION.iter().find(|(other, _)| *other == name).map(|(_, found)| *found);
                    operator.or_else(|| find(SCALARS, None, &name))
                }
            },
        };
        let lowering = Lowering { name: &name, options: &call.options, output: output.as_ref(), scope };
        let expr = match found.ok_or_else(unknown)? {
            Scalar::Infix(op) => infix(op, values(arguments, &name)?, &name)?,
            Scalar::Compare(op) => {
                let [left, right] = exactly(arguments, &name)?;
                binary(left, op, right)
            }
            Scalar::Around(build) => {
                let [value] = exactly(arguments, &name)?;
                build(value)
            }
            Scalar::Call(function) => self.call(function, values(arguments, &name)?)?,
            Scalar::Special(special) => self.special(special, arguments, &lowering)?,
        };
        conformed(expr, output.as_ref(), &scope.schema)
    }

    /// The arguments of a function; plans of earlier versions store them in `earlier`.
    pub(super) fn arguments(
        &mut self,
        arguments: &[FunctionArgument],
        earlier: &[Expression],
        scope: &Scope,
    ) -> Result<Vec<Argument>> {
        if arguments.is_empty() {
            return earlier.iter().map(|value| self.argument(value, scope)).collect();
        }
        let argument = |argument: &FunctionArgument| match required(argument.arg_type.as_ref(), "an argument")? {
            ArgType::Value(value) => self.argument(value, scope),
            ArgType::Enum(word) => Ok(Argument::Word(word.to_uppercase())),
            ArgType::Type(_) => unsupported("function argument that is a type"),
        };
        arguments.iter().map(argument).collect()
    }

    fn argument(&mut self, value: &Expression, scope: &Scope) -> Result<Argument> {
        use datafusion_substrait::substrait::proto::expression::r#enum::EnumKind;
        #[allow(deprecated, reason = "plans of earlier versions hold words as expressions")]
        if let Some(RexType::Enum(word)) = &value.rex_type {
            return match &word.enum_kind {
                Some(EnumKind::Specified(word)) => Ok(Argument::Word(word.to_uppercase())),
                _ => unsupported("enumerator that is not specified"),
            };
        }
        Ok(Argument::Value(self.expression(value, scope)?))
    }

    /// The aggregate function that a measure or a window calls.
    pub(super) fn aggregate_function(
        &self,
        anchor: u32,
        arguments: Vec<Argument>,
        options: &[FunctionOption],
        kind: &'static str,
    ) -> Result<FoundAggregate> {
        let declared = self.declarations.function(anchor)?;
        let name = declared.base().to_lowercase();
        check_options(options, &declared.named(kind, anchor))?;
        let of_session = |name: &str| self.state.aggregate_functions().get(name).cloned();
        let (words, mut arguments) = split(arguments);
        let population =
            words.iter().any(|word| word == "POPULATION") || chosen(options, "distribution", "SAMPLE") == "POPULATION";
        let resolve = |found: Named| {
            let function = found.population.filter(|_| population).unwrap_or(found.function);
            of_session(function).map(|function| (function, found.finish))
        };
        let found = match declared.standard_extension() {
            Some(extension) => find(AGGREGATES, Some(extension), &name).and_then(resolve),
            None => of_session(&name)
                .map(|function| (function, Finish::Nothing))
                .or_else(|| find(AGGREGATES, None, &name).and_then(resolve)),
        };
        let (function, finish) = found.ok_or_else(|| SubstraitError::UnknownFunction(declared.named(kind, anchor)))?;
        if function.name() == "count" && arguments.is_empty() {
            arguments.push(lit(1_i64));
        }
        Ok(FoundAggregate { function, arguments, finish })
    }

    /// The session's name of a window function that is not an aggregate.
    pub(super) fn window_function_name(&self, anchor: u32) -> Result<Option<String>> {
        let declared = self.declarations.function(anchor)?;
        let name = declared.base().to_lowercase();
        let of_session = |name: &str| self.state.window_functions().contains_key(name).then(|| name.to_string());
        Ok(match declared.standard_extension() {
            Some(extension) => find(WINDOWS, Some(extension), &name).and_then(|found| of_session(found.function)),
            None => of_session(&name),
        })
    }

    fn call(&self, function: &str, arguments: Vec<Expr>) -> Result<Expr> {
        match self.state.scalar_functions().get(function) {
            Some(function) => Ok(Expr::ScalarFunction(ScalarCall::new_udf(Arc::clone(function), arguments))),
            None => unsupported(format!("function that needs the session's '{function}', which it lacks,")),
        }
    }

    fn special(&self, special: Special, arguments: Vec<Argument>, lowering: &Lowering<'_>) -> Result<Expr> {
        let name = lowering.name;
        Ok(match special {
            Special::AndNot => {
                let [left, right] = exactly(arguments, name)?;
                left.and(Expr::Not(Box::new(right)))
            }
            Special::Xor => {
                let [left, right] = exactly(arguments, name)?;
                binary(left, Operator::NotEq, right)
            }
            Special::Between => {
                let [value, low, high] = exactly(arguments, name)?;
                value.between(low, high)
            }
            Special::Concat if chosen(lowering.options, "null_handling", "ACCEPT_NULLS") == "IGNORE_NULLS" => {
                self.call("concat", values(arguments, name)?)?
            }
            Special::Concat => infix(Operator::StringConcat, values(arguments, name)?, name)?,
            Special::Divide => {
                let [left, right] = exactly(arguments, name)?;
                divide(left, right, lowering)?
            }
            Special::Extract => self.extract(arguments)?,
            Special::Extreme(function) => {
                let arguments = values(arguments, name)?;
                let null = arguments.iter().cloned().map(Expr::is_null).reduce(Expr::or);
                let null = required(null, "an argument of least or greatest")?;
                Expr::Case(Case {
                    expr: None,
                    when_then_expr: vec![(
                        Box::new(Expr::Not(Box::new(null))),
                        Box::new(self.call(function, arguments)?),
                    )],
                    else_expr: None,
                })
            }
            Special::Like => like(values(arguments, name)?, false)?,
            Special::ILike => like(values(arguments, name)?, true)?,
            Special::Log => {
                let [value, base] = exactly(arguments, name)?;
                self.call("log", vec![base, value])?
            }
            Special::Log1p => {
                let [value] = exactly(arguments, name)?;
                self.call("ln", vec![value + lit(1.0_f64)])?
            }
        })
    }

    /// `extract(component, [indexing,] value)`.
    fn extract(&self, arguments: Vec<Argument>) -> Result<Expr> {
        let (words, arguments) = split(arguments);
        let [value] =
            <[Expr; 1]>::try_from(arguments).or_else(|_| unsupported("function 'extract' with a time zone"))?;
        let mut words = words.into_iter();
        let component = required(words.next(), "the component of 'extract'")?;
        let indexing = words.next();
        let part = |part: &str, value: Expr| self.call("date_part", vec![lit(part), value]);
        let from_one = |expr: Expr| match indexing.as_deref() {
            None | Some("ONE") => Ok(expr),
            Some("ZERO") => Ok(expr - lit(1)),
            Some(other) => invalid(format!("indexing '{other}' of 'extract'")),
        };
        match component.as_str() {
            "YEAR" => part("year", value),
            "ISO_YEAR" => part("isoyear", value),
            "QUARTER" => from_one(part("quarter", value)?),
            "MONTH" => from_one(part("month", value)?),
            "DAY" => from_one(part("day", value)?),
            "DAY_OF_YEAR" => from_one(part("doy", value)?),
            "ISO_WEEK" => from_one(part("week", value)?),
            // Sunday is 0 for DataFusion.
            "SUNDAY_DAY_OF_WEEK" => from_one(part("dow", value)? + lit(1)),
            "MONDAY_DAY_OF_WEEK" => from_one((part("dow", value)? + lit(6)) % lit(7) + lit(1)),
            "HOUR" => part("hour", value),
            "MINUTE" => part("minute", value),
            "SECOND" => part("second", value),
            // DataFusion counts from the last full minute.
            "MILLISECOND" => Ok(part("millisecond", value)? % lit(1000)),
            "SUBSECOND" => Ok(part("microsecond", value)? % lit(1_000_000)),
            "UNIX_TIME" => part("epoch", value),
            other => unsupported(format!("component '{other}' of function 'extract'")),
        }
    }
}

/// A call's properties besides its arguments.
struct Lowering<'a> {
    name: &'a str,
    options: &'a [FunctionOption],
    output: Option<&'a DataType>,
    scope: &'a Scope,
}

/// A division of decimals with as many digits as the plan declares: DataFusion's has four more than the dividend.
fn divide(left: Expr, right: Expr, lowering: &Lowering<'_>) -> Result<Expr> {
    let schema = &lowering.scope.schema;
    let plain = binary(left.clone(), Operator::Divide, right.clone());
    let Some(wanted) = lowering.output.and_then(scale) else { return Ok(plain) };
    let (Some(has), DataType::Decimal128(digits, left_scale)) =
        (scale(&type_of(&plain, schema)?), type_of(&left, schema)?)
    else {
        return Ok(plain);
    };
    let missing = wanted - has;
    if missing <= 0 {
        return Ok(plain);
    }
    let wider = DataType::Decimal128(digits.saturating_add(missing as u8).min(38), left_scale + missing);
    Ok(binary(cast(left, &wider), Operator::Divide, right))
}

fn like(arguments: Vec<Expr>, case_insensitive: bool) -> Result<Expr> {
    let mut arguments = arguments.into_iter();
    let (expr, pattern, escape) = (arguments.next(), arguments.next(), arguments.next());
    let escape_char = match escape {
        None | Some(Expr::Literal(ScalarValue::Utf8(None), _)) => None,
        Some(Expr::Literal(ScalarValue::Utf8(Some(text)), _)) if text.chars().count() == 1 => text.chars().next(),
        Some(other) => return unsupported(format!("escape character {other} of function 'like'")),
    };
    match (expr, pattern, arguments.next()) {
        (Some(expr), Some(pattern), None) => Ok(Expr::Like(Like {
            negated: false,
            expr: Box::new(expr),
            pattern: Box::new(pattern),
            escape_char,
            case_insensitive,
        })),
        _ => invalid("function 'like' takes two or three arguments"),
    }
}

pub(super) fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// Joins all arguments by `op`; as a balanced tree if the order of evaluation does not matter, for long chains of ANDs and ORs.
fn infix(op: Operator, mut arguments: Vec<Expr>, name: &str) -> Result<Expr> {
    if matches!(op, Operator::And | Operator::Or) {
        while arguments.len() > 1 {
            let mut halved = Vec::with_capacity(arguments.len().div_ceil(2));
            let mut left = arguments.into_iter();
            while let Some(first) = left.next() {
                halved.push(match left.next() {
                    Some(second) => binary(first, op, second),
                    None => first,
                });
            }
            arguments = halved;
        }
    }
    let all = arguments.into_iter().reduce(|left, right| binary(left, op, right));
    match (all, op) {
        (Some(all), _) => Ok(all),
        (None, Operator::And) => Ok(lit(true)),
        (None, Operator::Or) => Ok(lit(false)),
        (None, _) => invalid(format!("function '{name}' without arguments")),
    }
}

fn split(arguments: Vec<Argument>) -> (Vec<String>, Vec<Expr>) {
    let (mut words, mut exprs) = (vec![], vec![]);
    for argument in arguments {
        match argument {
            Argument::Value(expr) => exprs.push(expr),
            Argument::Word(word) => words.push(word),
        }
    }
    (words, exprs)
}

fn values(arguments: Vec<Argument>, name: &str) -> Result<Vec<Expr>> {
    match split(arguments) {
        (words, exprs) if words.is_empty() => Ok(exprs),
        (words, _) => unsupported(format!("argument '{}' of function '{name}'", words[0])),
    }
}

fn exactly<const N: usize>(arguments: Vec<Argument>, name: &str) -> Result<[Expr; N]> {
    let exprs = values(arguments, name)?;
    let count = exprs.len();
    exprs.try_into().or_else(|_| invalid(format!("function '{name}' takes {N} arguments, not {count}")))
}

/// The value of option `name`: the first supported one that the plan accepts, or the default.
fn chosen<'a>(options: &'a [FunctionOption], name: &str, default: &'a str) -> &'a str {
    let ours = |preference: &&String| {
        OPTIONS.iter().any(|(option, values)| *option == name && values.contains(&preference.as_str()))
    };
    let option = options.iter().find(|option| option.name.eq_ignore_ascii_case(name));
    option.and_then(|option| option.preference.iter().find(ours)).map_or(default, String::as_str)
}

/// Refuses options without a supported value.
fn check_options(options: &[FunctionOption], function: &FunctionName) -> Result<()> {
    for option in options {
        let ours = behaviours(&function.name, &option.name.to_lowercase());
        if !option.preference.is_empty() && !option.preference.iter().any(|value| ours.contains(&value.as_str())) {
            let asked = option.preference.join(", ");
            return unsupported(format!("option '{}' = {asked} of {function}", option.name));
        }
    }
    Ok(())
}
