//! Functions that accept UUIDs, moments, truth values and ENUM values together with other types during planning: functions whose arguments have a
//! common type, functions that convert all arguments to texts, and, if there are ENUMs, all functions of texts.
//!
//! DataFusion finds no common type for a UUID or a date and a text while it plans a statement. When types are bound, arguments are cast, and
//! DataFusion's own functions replace these.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::types::{common, is_text, is_whole};
use super::uuids::UUID;
use super::{enums, own_casts};

/// The planning replacement of `function`; most functions are unchanged. `has_enums`: the statement may have ENUM values.
pub(super) fn planned(function: Arc<ScalarUDF>, has_enums: bool) -> Arc<ScalarUDF> {
    let takes_values = has_enums && !function.signature().type_signature.supports_zero_argument();
    let is_known = has_one_type(function.name()) || makes_texts(function.name()) || takes_positions(function.name());
    if !is_known && !takes_values {
        return function;
    }
    let signature = Signature::user_defined(function.signature().volatility);
    Arc::new(ScalarUDF::from(Alike { plain: function, signature }))
}

/// Replaces a call of a function from [`planned`] by one of the original function.
pub(super) fn plain(call: ScalarFunction) -> ScalarFunction {
    match call.func.inner().downcast_ref::<Alike>() {
        Some(alike) => ScalarFunction { func: Arc::clone(&alike.plain), args: call.args },
        None => call,
    }
}

/// Whether a function of a text takes positions, which are BIGINT for DataFusion.
pub(super) fn takes_positions(name: &str) -> bool {
    matches!(name, "substr" | "left" | "right" | "lpad" | "rpad" | "repeat")
}

/// Whether the function makes a text of all its arguments.
fn makes_texts(name: &str) -> bool {
    matches!(name, "concat" | "concat_ws" | "format" | "printf")
}

/// Whether all arguments of a function have a common type.
fn has_one_type(name: &str) -> bool {
    matches!(name, "coalesce" | "greatest" | "least" | "nullif" | "make_array")
}

/// Whether values of a type are dates, times or timestamps.
pub(super) fn is_moment(ty: &DataType) -> bool {
    matches!(ty, DataType::Date32 | DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_))
}

/// The common type of moments, beside which constant texts are read as moments; `None` where nothing or something else is beside them.
fn of_moments<'t>(mut types: impl Iterator<Item = &'t DataType> + Clone) -> Option<DataType> {
    let with_texts = types.clone().any(is_moment) && types.clone().any(is_text);
    if !with_texts || types.clone().any(|ty| !is_moment(ty) && !is_text(ty) && !ty.is_null()) {
        return None;
    }
    let first = types.find(|ty| is_moment(ty))?.clone();
    Some(types.filter(|ty| is_moment(ty)).fold(first, |all, ty| common(&all, ty).unwrap_or(all)))
}

/// The common type of truth values and integers; `None` where one of both is missing, or something else is beside them.
fn of_truth_values<'t>(types: impl Iterator<Item = &'t DataType> + Clone) -> Option<DataType> {
    let mut known = types.filter(|ty| !ty.is_null());
    let with_both = known.clone().any(|ty| *ty == DataType::Boolean) && known.clone().any(is_whole);
    known.try_fold(DataType::Boolean, |all, ty| common(&all, ty)).filter(|_| with_both)
}

/// Whether a function with common or text arguments gets types that only [`Alike`] accepts.
fn has_own<'t>(name: &str, mut types: impl Iterator<Item = &'t DataType> + Clone) -> bool {
    if has_one_type(name) && of_moments(types.clone()).or_else(|| of_truth_values(types.clone())).is_some() {
        return true;
    }
    if name == "nullif" {
        let mut known = types.clone().filter(|ty| !ty.is_null());
        let first = known.next();
        return known.any(|ty| Some(ty) != first || enums::is_enum(ty));
    }
    types.any(|ty| match makes_texts(name) {
        true => own_casts::is_within(ty),
        false => has_one_type(name) && (*ty == UUID || own_casts::has_enums(ty)),
    })
}

/// The common type of ENUM and other values; without one, the first type, until types are bound.
fn of_enums<'t>(types: impl Iterator<Item = &'t DataType>) -> DataType {
    types.fold(DataType::Null, |all, ty| match enums::common(&all, ty) {
        Some(both) => both,
        None if all.is_null() => ty.clone(),
        None => all,
    })
}

/// DataFusion's function, which also accepts texts beside UUIDs, moments and ENUM values, and truth values beside integers.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Alike {
    plain: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for Alike {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.plain.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if has_own(self.name(), types.iter()) {
            return Ok(types.to_vec());
        }
        // Other functions get the texts of ENUM values, to which they are bound later.
        let mut given = enums::taken(self.name(), types);
        if takes_positions(self.name()) {
            given.iter_mut().filter(|ty| ty.is_integer()).for_each(|ty| *ty = DataType::Int64);
        }
        let fields: Vec<FieldRef> = given.iter().map(|ty| Arc::new(Field::new("", ty.clone(), true))).collect();
        let fields = fields_with_udf(&fields, self.plain.as_ref())?;
        let types = fields.iter().zip(types.iter().zip(&given)).map(|(field, (ty, given))| match ty == given {
            true => field.data_type().clone(),
            false => ty.clone(),
        });
        Ok(types.collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.plain.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types = || args.arg_fields.iter().map(|field| field.data_type());
        if !has_own(self.name(), types()) {
            let taken = enums::taken(self.name(), &types().cloned().collect::<Vec<_>>()).into_iter();
            let fields = args.arg_fields.iter().zip(taken);
            let arg_fields: Vec<FieldRef> =
                fields.map(|(field, ty)| Arc::new(field.as_ref().clone().with_data_type(ty))).collect();
            let scalar_arguments = args.scalar_arguments;
            return self.plain.return_field_from_args(ReturnFieldArgs { arg_fields: &arg_fields, scalar_arguments });
        }
        let common = match of_moments(types()).or_else(|| of_truth_values(types())) {
            Some(common) => common,
            None if types().any(|ty| *ty == UUID) => UUID,
            None => of_enums(types()),
        };
        let ty = match self.name() {
            name if makes_texts(name) => DataType::Utf8,
            "make_array" => DataType::new_list(common, true),
            "nullif" => args.arg_fields[0].data_type().clone(),
            _ => common,
        };
        Ok(Arc::new(Field::new(self.name(), ty, true)))
    }

    fn short_circuits(&self) -> bool {
        self.plain.short_circuits()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.plain.invoke_with_args(args)
    }
}
