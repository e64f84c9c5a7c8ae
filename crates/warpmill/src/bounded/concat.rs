//! Size limits for `||` in DataFusion: texts that double at each step of a query become long in few steps.

use std::sync::Arc;

use arrow::compute::kernels::concat_elements::concat_elements_dyn;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::udf_eq::UdfEq;
use datafusion::logical_expr::{
    ColumnarValue, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::Bounded;
use crate::settings::WarpmillOptions;

/// `plan`, which DataFusion runs; in a projection, operators `||` get size limits.
pub(crate) fn with_bounded_concat(
    plan: Arc<dyn ExecutionPlan>,
    options: &WarpmillOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else { return Ok(plan) };
    let schema = projection.input().schema();
    let mut config = ConfigOptions::default();
    config.extensions.insert(options.clone());
    let config = Arc::new(config);
    let replaced = |expr: Arc<dyn PhysicalExpr>| {
        let Some(binary) = expr.downcast_ref::<BinaryExpr>().filter(|it| *it.op() == Operator::StringConcat) else {
            return Ok(Transformed::no(expr));
        };
        let operator =
            Concat { result: binary.data_type(&schema)?, signature: Signature::any(2, Volatility::Immutable) };
        let inner = UdfEq::from(Arc::new(operator) as Arc<dyn ScalarUDFImpl>);
        let function = Arc::new(ScalarUDF::from(Bounded { inner }));
        let args = vec![Arc::clone(binary.left()), Arc::clone(binary.right())];
        let call = ScalarFunctionExpr::try_new(function, args, &schema, Arc::clone(&config))?;
        Ok(Transformed::yes(Arc::new(call) as Arc<dyn PhysicalExpr>))
    };
    let mut changed = false;
    let mut list = Vec::with_capacity(projection.expr().len());
    for item in projection.expr() {
        let expr = Arc::clone(&item.expr).transform_up(replaced)?;
        changed |= expr.transformed;
        list.push(ProjectionExpr { expr: expr.data, alias: item.alias.clone() });
    }
    match changed {
        true => Ok(Arc::new(ProjectionExec::try_new(list, Arc::clone(projection.input()))?)),
        false => Ok(plan),
    }
}

/// `||` as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Concat {
    result: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Concat {
    fn name(&self) -> &str {
        "||"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.result.clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let sides = ColumnarValue::values_to_arrays(&args.args)?;
        let joined = concat_elements_dyn(&sides[0], &sides[1])?;
        Ok(ColumnarValue::Array(joined))
    }
}
