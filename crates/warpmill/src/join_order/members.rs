//! Lists of values that are not known yet: `x IN ($1, $2)`. A call replaces them, so that no rule decides by the members.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

static IN: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Members::function(false));
static NOT_IN: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Members::function(true));

/// The call in place of a list. It is never evaluated.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Members {
    negated: bool,
    signature: Signature,
}

impl Members {
    fn function(negated: bool) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::from(Self { negated, signature: Signature::variadic_any(Volatility::Immutable) }))
    }
}

impl ScalarUDFImpl for Members {
    fn name(&self) -> &str {
        if self.negated { "not in members" } else { "in members" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("members of a list that are not known")
    }
}

/// The call in place of `list`.
pub(crate) fn call(list: InList) -> Expr {
    let function = if list.negated { &*NOT_IN } else { &*IN };
    let args = std::iter::once(*list.expr).chain(list.list).collect();
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args))
}

/// The list of such a call.
pub(crate) fn list(expr: &Expr) -> Option<InList> {
    let (expr, list, negated) = parts(expr)?;
    Some(InList { expr: Box::new(expr.clone()), list: list.to_vec(), negated })
}

/// The parts of such a call: the tested value, the members, and whether the list is negated.
pub(super) fn parts(expr: &Expr) -> Option<(&Expr, &[Expr], bool)> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let negated = call.func.inner().downcast_ref::<Members>()?.negated;
    let (expr, list) = call.args.split_first()?;
    Some((expr, list, negated))
}
