//! Parameters of a plan: literals in conditions that differ between statements. The plan is translated again for each statement, with its values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_datafusion_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::ExecutionPlan;

/// The metadata key for a literal's parameter number.
const NUMBER: &str = "warpmill.parameter";

/// The metadata for a literal that is parameter `number` of a plan.
pub fn metadata(number: usize) -> FieldMetadata {
    FieldMetadata::new(BTreeMap::from([(NUMBER.to_string(), number.to_string())]))
}

/// The parameter number in a literal's metadata.
pub fn number(metadata: &FieldMetadata) -> Option<usize> {
    metadata.inner().get(NUMBER)?.parse().ok()
}

/// The parameter number of `literal`.
pub(crate) fn number_of(literal: &Literal) -> Option<usize> {
    let field = literal.return_field(&Schema::empty()).ok()?;
    field.metadata().get(NUMBER)?.parse().ok()
}

/// The numbers of all parameters in the expressions of `plan`.
///
/// # Errors
/// Errors of DataFusion's walk through expressions.
pub fn numbers(plan: &Arc<dyn ExecutionPlan>) -> Result<BTreeSet<usize>> {
    let mut found = own_numbers(plan)?;
    for child in plan.children() {
        found.append(&mut numbers(child)?);
    }
    Ok(found)
}

/// Whether the node `plan` itself has parameters.
///
/// # Errors
/// Errors of DataFusion's walk through expressions.
pub fn has_parameters(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    Ok(!own_numbers(plan)?.is_empty())
}

fn own_numbers(plan: &Arc<dyn ExecutionPlan>) -> Result<BTreeSet<usize>> {
    let mut found = BTreeSet::new();
    plan.apply_expressions(&mut |expr| {
        expr.apply(|expr| {
            found.extend(expr.downcast_ref::<Literal>().and_then(number_of));
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

/// A condition with `values` for its parameters; `None`: unchanged.
///
/// # Errors
/// A parameter without a value.
pub(crate) fn with_values(
    condition: &Arc<dyn PhysicalExpr>,
    values: Option<&[ScalarValue]>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let value = |expr: Arc<dyn PhysicalExpr>| {
        let Some(literal) = expr.downcast_ref::<Literal>() else { return Ok(Transformed::no(expr)) };
        let Some(number) = number_of(literal) else { return Ok(Transformed::no(expr)) };
        let value = match values {
            Some(values) => {
                values.get(number).ok_or_else(|| internal_datafusion_err!("parameter {number} has no value"))?
            }
            None => literal.value(),
        };
        Ok::<_, DataFusionError>(Transformed::yes(Arc::new(Literal::new(value.clone())) as Arc<dyn PhysicalExpr>))
    };
    Ok(Arc::clone(condition).transform_down(value)?.data)
}
