//! Functions that take UUIDs beside other values, as statements are planned with them: those whose arguments have one type, as which constant
//! texts are read, and those that make texts of all.
//!
//! DataFusion finds no type for a UUID and a text while it plans a statement. When types are bound, arguments are cast, and DataFusion's own
//! functions take the place of these.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::uuids::{self, UUID};

/// The function that calls in texts are planned with in the place of `function`: most of them are what they are.
pub(super) fn planned(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    let is_known = matches!(function.name(), "coalesce" | "greatest" | "least" | "nullif" | "make_array");
    if !is_known && !makes_texts(function.name()) {
        return function;
    }
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(ScalarUDF::from(Alike { plain: function, signature }))
}

/// A call of what [`planned`] has given, as one of the function itself.
pub(super) fn plain(call: ScalarFunction) -> ScalarFunction {
    match call.func.inner().downcast_ref::<Alike>() {
        Some(alike) => ScalarFunction { func: Arc::clone(&alike.plain), args: call.args },
        None => call,
    }
}

/// Whether the function makes a text of all its arguments.
fn makes_texts(name: &str) -> bool {
    matches!(name, "concat" | "concat_ws" | "format" | "printf")
}

/// Whether arguments of a function have types that only [`Alike`] takes.
fn has_uuids<'t>(name: &str, mut types: impl Iterator<Item = &'t DataType>) -> bool {
    types.any(|ty| if makes_texts(name) { uuids::is_within(ty) } else { *ty == UUID })
}

/// DataFusion's function, which also takes texts beside UUIDs.
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
        if has_uuids(self.name(), types.iter()) {
            return Ok(types.to_vec());
        }
        let fields: Vec<FieldRef> = types.iter().map(|ty| Arc::new(Field::new("", ty.clone(), true))).collect();
        let fields = fields_with_udf(&fields, self.plain.as_ref())?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.plain.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if !has_uuids(self.name(), args.arg_fields.iter().map(|field| field.data_type())) {
            return self.plain.return_field_from_args(args);
        }
        let ty = match self.name() {
            name if makes_texts(name) => DataType::Utf8,
            "make_array" => DataType::new_list(UUID, true),
            "nullif" => args.arg_fields[0].data_type().clone(),
            _ => UUID,
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
