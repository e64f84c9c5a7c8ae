//! Numeric functions whose types or results differ between DuckDB and DataFusion.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DataType, Decimal128Type};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err, internal_err, not_impl_err, plan_err};
use datafusion::functions::expr_fn;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, Case, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, lit,
};

use super::operators::{convert, strict_cast};
use super::types::{HUGEINT, common, digits, is_decimal, is_number, is_text, is_whole, type_name};
use super::uuids::{self, UUID};
use super::{alike, castable, casts, enums, library, own_casts, shifts};

/// The common type of several values, if it differs from DataFusion's choice: for numbers, and for dates with timestamps.
pub(super) fn common_type<'a>(values: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> Result<Option<DataType>> {
    let Some(given) = Given::of(values, schema)? else { return Ok(None) };
    // Constants alone are BIGINT.
    let Some(others) = &given.common else { return Ok(None) };
    let mixed = given.mixed || !given.constants.is_empty() && *others != DataType::Int64;
    Ok(given.with_constants().filter(|_| mixed))
}

/// The type of a VALUES column; constants alone are INTEGER if they fit.
pub(super) fn listed_type(values: &[&Expr], schema: &DFSchema) -> Result<Option<DataType>> {
    let values = values.iter().copied().filter(|e| !matches!(e, Expr::Literal(value, _) if value.is_null()));
    Ok(Given::of(values, schema)?.and_then(Given::with_constants))
}

/// Values for which a common type is computed.
#[derive(Default)]
struct Given {
    /// The common type of those that are not integer constants.
    common: Option<DataType>,
    /// Whether these have several types.
    mixed: bool,
    constants: Vec<i64>,
}

impl Given {
    /// Analyses the values; `None` if they have no common type.
    fn of<'a>(values: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> Result<Option<Self>> {
        let values: Vec<&Expr> = values.collect();
        if let Some(given) = Self::of_own(&values, schema)? {
            return Ok(Some(given));
        }
        let mut given = Self::default();
        let (texts, others) = split_texts(values, schema)?;
        given.mixed = !texts.is_empty();
        for value in others {
            match value {
                Expr::Literal(ScalarValue::Int64(Some(constant)), _) => given.constants.push(*constant),
                value => {
                    let ty = value.get_type(schema)?;
                    if ty.is_null() {
                        continue;
                    }
                    let both = match &given.common {
                        None => Some(ty),
                        Some(before) => {
                            castable::check_pair(before, &ty)?;
                            given.mixed |= *before != ty;
                            common(before, &ty)
                        }
                    };
                    if both.is_none() {
                        return Ok(None);
                    }
                    given.common = both;
                }
            }
        }
        if let (Some(ty), [_, ..]) = (&given.common, given.constants.as_slice()) {
            castable::check_pair(ty, &DataType::Int64)?;
        }
        Ok(Some(given))
    }

    /// UUIDs, beside which constant texts are read as UUIDs, or ENUM values, which are texts beside others; `None` without such.
    ///
    /// # Errors
    /// Values of other types beside them.
    fn of_own(values: &[&Expr], schema: &DFSchema) -> Result<Option<Self>> {
        let types = values.iter().map(|value| value.get_type(schema)).collect::<Result<Vec<_>>>()?;
        if types.iter().any(own_casts::has_enums) {
            let mut common = DataType::Null;
            for ty in &types {
                castable::check_pair(&common, ty)?;
                common =
                    enums::common(&common, ty).unwrap_or_else(|| if common.is_null() { ty.clone() } else { common });
            }
            let mixed = types.iter().any(|ty| *ty != common);
            return Ok(Some(Self { common: Some(common), mixed, constants: vec![] }));
        }
        if !types.contains(&UUID) {
            return Ok(None);
        }
        let is_one = |value: &Expr, ty: &DataType| *ty == UUID || ty.is_null() || uuids::is_constant_text(value);
        if let Some((_, other)) = values.iter().zip(&types).find(|(value, ty)| !is_one(value, ty)) {
            let other = type_name(other);
            return plan_err!("Cannot mix values of type UUID and {other} - an explicit cast is required");
        }
        let mixed = types.iter().any(|ty| *ty != UUID);
        Ok(Some(Self { common: Some(UUID), mixed, constants: vec![] }))
    }

    /// The common type including constants: these get the type of the other integers if they fit, otherwise INTEGER or BIGINT.
    fn with_constants(self) -> Option<DataType> {
        self.constants.into_iter().try_fold(self.common, |all, constant| {
            let own = if i32::try_from(constant).is_ok() { DataType::Int32 } else { DataType::Int64 };
            Some(match all {
                None => Some(own),
                Some(ty) if ty.is_integer() && ScalarValue::Int64(Some(constant)).cast_to(&ty).is_ok() => Some(ty),
                Some(ty) => Some(common(&ty, &own)?),
            })
        })?
    }
}

/// Constant texts, which are read as values of the type of the others, and these; all values are others if they are texts, nested values or NULL.
fn split_texts<'e>(values: Vec<&'e Expr>, schema: &DFSchema) -> Result<(Vec<&'e Expr>, Vec<&'e Expr>)> {
    let types = values.iter().map(|value| value.get_type(schema)).collect::<Result<Vec<_>>>()?;
    let is_known = |ty: &DataType| is_number(ty) || alike::is_moment(ty);
    if !types.iter().any(is_known) || !types.iter().all(|ty| is_known(ty) || is_text(ty) || ty.is_null()) {
        return Ok((vec![], values));
    }
    Ok(values.into_iter().partition(|value| uuids::is_constant_text(value)))
}

/// `e` as a value of the common type `ty` of several: texts by DuckDB's rules.
pub(super) fn unified(e: Expr, ty: &DataType, schema: &DFSchema) -> Result<Expr> {
    if is_text(&e.get_type(schema)?) { casts::bind(e, ty, false, schema) } else { convert(e, ty, schema) }
}

/// A call with DuckDB's semantics.
pub(super) fn bind(function: ScalarFunction, schema: &DFSchema) -> Result<Expr> {
    let types = function.args.iter().map(|arg| arg.get_type(schema)).collect::<Result<Vec<_>>>()?;
    if types.iter().any(own_casts::has_enums) {
        let taken = enums::taken(function.func.name(), &types);
        if taken != types {
            let args = function.args.into_iter().zip(&taken).map(|(arg, ty)| casts::bind(arg, ty, false, schema));
            return bind(ScalarFunction { func: function.func, args: args.collect::<Result<_>>()? }, schema);
        }
        enums::check_arguments(function.func.name(), &types)?;
    }
    if alike::takes_positions(function.func.name()) && types.iter().any(|ty| ty.is_integer() && *ty != DataType::Int64)
    {
        let wide = |(arg, ty): (Expr, &DataType)| match ty.is_integer() {
            true => convert(arg, &DataType::Int64, schema),
            false => Ok(arg),
        };
        let args = function.args.into_iter().zip(&types).map(wide).collect::<Result<_>>()?;
        return bind(ScalarFunction { func: function.func, args }, schema);
    }
    let again = |args: Vec<Expr>| Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&function.func), args });
    let float = |e: &Expr| convert(e.clone(), &DataType::Float64, schema);
    if let ("nullif", [left, right]) = (function.func.name(), types.as_slice()) {
        castable::check_pair(left, right)?;
    }
    match (function.func.name(), function.args.as_slice(), types.as_slice()) {
        ("coalesce" | "greatest" | "least" | "make_array", args, _) => match common_type(args.iter(), schema)? {
            Some(ty) => Ok(again(args.iter().map(|e| unified(e.clone(), &ty, schema)).collect::<Result<_>>()?)),
            None => Ok(Expr::ScalarFunction(function)),
        },
        // The first value where it is not the second.
        ("nullif", [left, right], [lt, rt]) if !lt.is_null() && !rt.is_null() && (lt != rt || enums::is_enum(lt)) => {
            let (left_value, right) = super::bind::comparable(left.clone(), right.clone(), true, schema)?;
            let (left_value, right) = enums::positioned(left_value, right, schema)?;
            let null = lit(ScalarValue::try_from(lt)?);
            let equal = vec![(Box::new(left_value.eq(right)), Box::new(null))];
            Ok(Expr::Case(Case::new(None, equal, Some(Box::new(left.clone())))))
        }
        ("concat_ws", _, [separator, ..]) if *separator == UUID => {
            plan_err!("No function matches concat_ws(UUID, ...): its first argument is a VARCHAR")
        }
        ("concat" | "concat_ws", args, types) if types.iter().any(own_casts::is_within) => {
            let text = |(arg, ty): (&Expr, &DataType)| match ty {
                DataType::List(_) if own_casts::is_within(ty) => {
                    casts::bind(arg.clone(), &DataType::new_list(DataType::Utf8, true), false, schema)
                }
                ty if own_casts::is_within(ty) => casts::bind(arg.clone(), &DataType::Utf8, false, schema),
                _ => Ok(arg.clone()),
            };
            Ok(again(args.iter().zip(types).map(text).collect::<Result<_>>()?))
        }
        ("contains" | "list_contains" | "list_position", [list, value], [of, ty]) if is_text(ty) && has_uuids(of) => {
            let value = uuid_of(function.func.name(), value)?;
            Ok(again(vec![list.clone(), value]))
        }
        (name @ ("uuid_extract_version" | "uuid_extract_timestamp"), [value], [ty]) if is_text(ty) => {
            Ok(again(vec![uuid_of(name, value)?]))
        }
        ("round" | "trunc", [x, ..], [ty, ..]) if ty.is_integer() && to_whole(&function.args) => Ok(x.clone()),
        ("ceil" | "floor", [x], [ty]) if ty.is_integer() => float(x),
        ("round" | "trunc" | "ceil" | "floor", [x, places @ ..], [ty, ..]) if is_decimal(ty) || is_whole(ty) => {
            let how = match function.func.name() {
                "round" => Rounding::Nearest,
                "trunc" => Rounding::TowardZero,
                "ceil" => Rounding::Up,
                _ => Rounding::Down,
            };
            let places = match places {
                [] => 0,
                [Expr::Literal(places, _)] => match places.cast_to(&DataType::Int64)? {
                    ScalarValue::Int64(Some(places)) => places,
                    _ => return Ok(lit(ScalarValue::try_from(ty)?)),
                },
                _ => return not_impl_err!("{}: digits that are not constant, of {ty}", function.func.name()),
            };
            rounded(x, ty, how, places, schema)
        }
        ("round_even", [x, Expr::Literal(places, _)], [ty, ..]) if is_decimal(ty) => {
            match places.cast_to(&DataType::Int64)? {
                ScalarValue::Int64(Some(places)) => rounded(x, ty, Rounding::Even, places, schema),
                _ => Ok(lit(ScalarValue::try_from(ty)?)),
            }
        }
        // All bits of an unsigned number; -1 is not a value of its type.
        ("xor", [x, Expr::Literal(ScalarValue::Int64(Some(-1)), _)], [ty, _]) if ty.is_unsigned_integer() => {
            let all = match ty {
                DataType::UInt8 => ScalarValue::from(u8::MAX),
                DataType::UInt16 => ScalarValue::from(u16::MAX),
                DataType::UInt32 => ScalarValue::from(u32::MAX),
                _ => ScalarValue::from(u64::MAX),
            };
            Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(x.clone()), Operator::BitwiseXor, Box::new(lit(all)))))
        }
        ("xor", [x, y], [lt, rt]) if is_whole(lt) && is_whole(rt) => Ok(shifts::xor(x, y, [lt.clone(), rt.clone()])),
        ("round", [x, places], [DataType::Float64, _]) => Ok(rounded_float(x, places, &again)),
        ("round", [x, places], [DataType::Float32, _]) => {
            convert(rounded_float(&float(x)?, places, &again), &DataType::Float32, schema)
        }
        // Functions of floating-point numbers for any numeric arguments.
        (
            "sqrt" | "cbrt" | "ln" | "log2" | "log10" | "log" | "exp" | "power" | "pow" | "sin" | "cos" | "tan" | "cot"
            | "asin" | "acos" | "atan" | "atan2" | "sinh" | "cosh" | "tanh" | "degrees" | "radians",
            args,
            types,
        ) if types.iter().any(|ty| digits(ty).is_some() || *ty == DataType::Float32) => {
            Ok(again(args.iter().map(float).collect::<Result<_>>()?))
        }
        (TYPED_AS, [value, _], [_, ty]) => casts::bind(value.clone(), ty, false, schema),
        ("typeof", [_], [ty]) => Ok(lit(type_name(ty))),
        ("contains", [x, part], [ty, other]) if is_text(ty) && is_text(other) => {
            Ok(datafusion::functions::string::expr_fn::contains(x.clone(), part.clone()))
        }
        ("length" | "len", [x], [ty]) if is_text(ty) => Ok(expr_fn::character_length(x.clone())),
        ("octet_length", [x], [ty]) if is_text(ty) => Ok(expr_fn::octet_length(x.clone())),
        // Positions before the first one count from the end.
        ("substr", [_, from @ ..], _) if !from_first(from) => again_as("substring_duckdb", function.args.clone()),
        ("regexp_replace", [_, pattern, by, ..], _)
            if function.args.len() > 3 || !is_plain(pattern) || !is_plain(by) =>
        {
            again_as("regexp_replace_re2", function.args.clone())
        }
        // DataFusion takes `.*` for a test that is false for NULL.
        ("regexp_matches", [x, pattern], _) if is_plain(pattern) && !is_any(pattern) => {
            Ok(datafusion::functions::regex::expr_fn::regexp_like(x.clone(), pattern.clone(), None))
        }
        ("isfinite", [x], [ty]) if ty.is_temporal() => again_as("is_finite_moment", vec![x.clone()]),
        ("isinf", [x], [ty]) if ty.is_temporal() => {
            Ok(Expr::Not(Box::new(again_as("is_finite_moment", vec![x.clone()])?)))
        }
        (name @ ("list_quantile_cont" | "list_quantile_disc"), [_, at], _) => {
            library::check_fraction(name, at)?;
            Ok(Expr::ScalarFunction(function))
        }
        ("format" | "printf", [pattern, args @ ..], [_, types @ ..]) => {
            let written = |(arg, ty): (&Expr, &DataType)| match is_number(ty) || is_text(ty) || *ty == DataType::Boolean
            {
                true => Ok(arg.clone()),
                false => casts::bind(arg.clone(), &DataType::Utf8, false, schema),
            };
            let args = args.iter().zip(types).map(written).collect::<Result<Vec<_>>>()?;
            Ok(again(std::iter::once(pattern.clone()).chain(args).collect()))
        }
        ("range" | "generate_series", [_, _, _], [from, to, _]) if is_moment(from) || is_moment(to) => {
            let name = if function.func.name() == "range" { "moment_range" } else { "moment_series" };
            again_as(name, function.args.clone())
        }
        _ => Ok(Expr::ScalarFunction(function)),
    }
}

/// Whether values of a type are lists of UUIDs.
fn has_uuids(ty: &DataType) -> bool {
    matches!(ty, DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _)
        if *element.data_type() == UUID)
}

/// The UUID of a text that is an argument of function `name`.
///
/// # Errors
/// A non-constant text, or an invalid UUID.
fn uuid_of(name: &str, text: &Expr) -> Result<Expr> {
    match uuids::is_constant_text(text) {
        true => uuids::constant(text.clone()),
        false => plan_err!("{name} takes a UUID, not a VARCHAR: an explicit cast is required"),
    }
}

fn is_moment(ty: &DataType) -> bool {
    matches!(ty, DataType::Date32 | DataType::Timestamp(..))
}

/// A call of a library function.
fn again_as(name: &str, args: Vec<Expr>) -> Result<Expr> {
    library::call(name, args).map_or_else(|| internal_err!("no function {name}"), Ok)
}

/// Whether a substring begins at a known position, and has no negative length.
fn from_first(bounds: &[Expr]) -> bool {
    let at_least = |e: &Expr, least: i64| matches!(e, Expr::Literal(ScalarValue::Int64(Some(n)), _) if *n >= least);
    match bounds {
        [from] => at_least(from, 1),
        [from, count] => at_least(from, 1) && at_least(count, 0),
        _ => false,
    }
}

/// Whether a regular expression matches every text.
fn is_any(e: &Expr) -> bool {
    matches!(e, Expr::Literal(text, _) if text.try_as_str().flatten() == Some(".*"))
}

/// Whether a regular expression has the same meaning in RE2 and Rust: no classes that Unicode extends, no flags.
fn is_plain(e: &Expr) -> bool {
    let Expr::Literal(text, _) = e else { return false };
    let Some(pattern) = text.try_as_str().flatten() else { return false };
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' if !characters.next().is_some_and(|c| c.is_ascii_punctuation() || c.is_ascii_digit()) => return false,
            '(' => {
                let rest = characters.as_str();
                if rest.starts_with('?') && !rest.starts_with("?:") {
                    return false;
                }
            }
            '$' if !characters.as_str().is_empty() => return false,
            c if !c.is_ascii() => return false,
            _ => {}
        }
    }
    !pattern.contains("[:")
}

/// `typeof(x)`: the name of a value's type.
pub(super) fn type_of() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(TypeOf { signature: Signature::any(1, Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TypeOf {
    signature: Signature,
}

/// DuckDB's function of a value and another one, to whose type the value is cast.
pub(super) const TYPED_AS: &str = "cast_to_type";

/// The function [`TYPED_AS`], which [`bind`] replaces by a cast.
pub(super) fn typed_as() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(TypedAs { signature: Signature::any(2, Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TypedAs {
    signature: Signature,
}

impl ScalarUDFImpl for TypedAs {
    fn name(&self) -> &str {
        TYPED_AS
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[1].clone())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("a cast to the type of another value that is not bound")
    }
}

impl ScalarUDFImpl for TypeOf {
    fn name(&self) -> &str {
        "typeof"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(type_name(args.arg_fields[0].data_type()).into()))
    }
}

/// Whether rounding keeps no digits after the point.
fn to_whole(args: &[Expr]) -> bool {
    match args {
        [_, Expr::Literal(places, _)] => {
            matches!(places.cast_to(&DataType::Int64), Ok(ScalarValue::Int64(Some(0..))))
        }
        [_, ..] => args.len() == 1,
        [] => false,
    }
}

/// `round(x, places)`, or `x` itself if it is too large to be scaled.
fn rounded_float(x: &Expr, places: &Expr, again: &dyn Fn(Vec<Expr>) -> Expr) -> Expr {
    let call = again(vec![x.clone(), places.clone()]);
    let Expr::Literal(ScalarValue::Int64(Some(count @ 1..)), _) = places else { return call };
    let limit = f64::MAX / 10f64.powi(i32::try_from(*count).unwrap_or(i32::MAX));
    let fits = expr_fn::abs(x.clone()).lt_eq(lit(limit));
    Expr::Case(Case::new(None, vec![(Box::new(fits), Box::new(call))], Some(Box::new(x.clone()))))
}

/// A rounding mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Rounding {
    /// Half away from zero.
    Nearest,
    /// Half to the even digit.
    Even,
    TowardZero,
    Up,
    Down,
}

/// An exact number rounded to `places` digits after the point (before it if negative).
fn rounded(x: &Expr, ty: &DataType, how: Rounding, places: i64, schema: &DFSchema) -> Result<Expr> {
    let Some((width, scale)) = digits(ty) else { return Ok(x.clone()) };
    if places >= scale.into() {
        return Ok(x.clone());
    }
    let to = if ty.is_integer() { ty.clone() } else { DataType::Decimal128(width, places.max(0) as i8) };
    if how == Rounding::Nearest && places >= 0 {
        return casts::bind(x.clone(), &to, false, schema);
    }
    let function = Rounded::new(how, places.max(-38) as i8, to);
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(function)), vec![x.clone()])))
}

impl Rounding {
    const ALL: [Self; 5] = [Self::Nearest, Self::Even, Self::TowardZero, Self::Up, Self::Down];
}

/// A rounding of exact numbers as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Rounded {
    how: Rounding,
    places: i8,
    to: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Rounded {
    fn name(&self) -> &str {
        match self.how {
            Rounding::Nearest => "round_exact",
            Rounding::Even => "round_even_exact",
            Rounding::TowardZero => "trunc_exact",
            Rounding::Up => "ceil_exact",
            Rounding::Down => "floor_exact",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        casts::of_one(&args.args, |array| self.rounded(array))
    }
}

impl Rounded {
    fn new(how: Rounding, places: i8, to: DataType) -> Self {
        Self { how, places, to, signature: Signature::any(1, Volatility::Immutable) }
    }

    /// The type, and the places.
    pub(super) fn parts(&self) -> (DataType, i32) {
        (self.to.clone(), self.places.into())
    }

    /// The rounding of that name with these parts.
    pub(super) fn named(name: &str, to: &DataType, places: i32) -> Option<Self> {
        let places = i8::try_from(places).ok()?;
        Rounding::ALL.into_iter().map(|how| Self::new(how, places, to.clone())).find(|rounded| rounded.name() == name)
    }

    fn rounded(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let (width, scale) = digits(array.data_type()).unwrap_or((38, 0));
        let held = if array.data_type().is_integer() { HUGEINT } else { DataType::Decimal128(width, scale) };
        let values = strict_cast(array, &held)?;
        let values = values.as_primitive::<Decimal128Type>();
        let lost = u32::from((scale - self.places).unsigned_abs());
        let (_, kept) = digits(&self.to).unwrap_or((38, 0));
        let unit = 10i128.checked_pow(lost.min(38)).filter(|_| lost <= 38);
        let one = |value: i128| {
            let Some(unit) = unit else { return Some(0) };
            let (quotient, rest) = (value / unit, value % unit);
            let away = match self.how {
                Rounding::Nearest => rest.abs() >= unit - rest.abs(),
                Rounding::Even => match rest.abs().cmp(&(unit - rest.abs())) {
                    std::cmp::Ordering::Equal => quotient % 2 != 0,
                    order => order.is_gt(),
                },
                Rounding::TowardZero => false,
                Rounding::Up => rest > 0,
                Rounding::Down => rest < 0,
            };
            let quotient = quotient + if away { value.signum() } else { 0 };
            // Digits before the point become zeros.
            quotient.checked_mul(10i128.checked_pow((kept - self.places).unsigned_abs().into())?)
        };
        let rows = values.iter().map(|value| match value.map(one) {
            None => Ok(None),
            Some(Some(value)) => Ok(Some(value)),
            Some(None) => exec_err!("overflow in {}", self.name()),
        });
        let rows = rows.collect::<Result<Decimal128Array>>()?;
        let (width, scale) = if self.to.is_integer() { (38, 0) } else { digits(&self.to).unwrap_or((38, 0)) };
        let rows = rows.with_precision_and_scale(width, scale)?;
        rows.validate_decimal_precision(width)?;
        let rows: ArrayRef = Arc::new(rows);
        if self.to.is_integer() { strict_cast(&rows, &self.to) } else { Ok(rows) }
    }
}
