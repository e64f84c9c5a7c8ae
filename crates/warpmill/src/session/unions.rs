//! The columns of unions after optimization.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{LogicalPlan, Union};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Makes columns of unions nullable where a column of an input is.
///
/// A scalar subquery becomes an outer join, so that its value may be NULL, after the columns of a union of it were named and typed.
#[derive(Debug)]
pub(super) struct NullableUnions;

impl OptimizerRule for NullableUnions {
    fn name(&self) -> &str {
        "nullable_unions"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut found = false;
        plan.apply(|node| {
            found |= matches!(node, LogicalPlan::Union(union) if (0..columns(union)).any(|at| is_wrong(union, at)));
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !found {
            return Ok(Transformed::no(plan));
        }
        plan.transform_up(|node| match node {
            LogicalPlan::Union(union) => Ok(Transformed::yes(LogicalPlan::Union(nullable(union)?))),
            node => Ok(Transformed::yes(node.recompute_schema()?)),
        })
    }
}

fn columns(union: &Union) -> usize {
    union.schema.fields().len()
}

/// Whether a column of a union may be NULL, unlike what its schema says.
fn is_wrong(union: &Union, at: usize) -> bool {
    let is_nullable =
        |input: &Arc<LogicalPlan>| input.schema().fields().get(at).is_some_and(|field| field.is_nullable());
    !union.schema.field(at).is_nullable() && union.inputs.iter().any(is_nullable)
}

fn nullable(union: Union) -> Result<Union> {
    let fields = union.schema.iter().enumerate().map(|(at, (qualifier, field))| {
        let is_nullable = field.is_nullable() || is_wrong(&union, at);
        (qualifier.cloned(), Arc::new(field.as_ref().clone().with_nullable(is_nullable)))
    });
    let schema = DFSchema::new_with_metadata(fields.collect(), union.schema.metadata().clone())?;
    Ok(Union { inputs: union.inputs, schema: Arc::new(schema) })
}
