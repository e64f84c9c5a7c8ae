//! The value of a scalar subquery that may have more than one row.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result, exec_err};
use datafusion::functions_aggregate::expr_fn::{count, first_value};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Subquery, Volatility, lit,
};

/// `only_row(value, rows)`: the value, unless it is one of several.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyRow {
    signature: Signature,
}

impl Default for OnlyRow {
    fn default() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for OnlyRow {
    fn name(&self) -> &str {
        "only_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.args[1].to_array(args.number_rows)?;
        let rows = rows.as_primitive::<Int64Type>();
        if (0..rows.len()).any(|at| rows.is_valid(at) && rows.value(at) > 1) {
            return exec_err!(
                "More than one row returned by a subquery used as an expression - scalar subqueries can only return a single row."
            );
        }
        Ok(args.args[0].clone())
    }
}

/// The function.
pub(crate) fn only_row() -> ScalarUDF {
    ScalarUDF::from(OnlyRow::default())
}

/// `plan`, whose scalar subqueries have one row each, as far as they name no columns from outside: an error takes the place of several rows when it
/// runs. So that they can become joins.
pub(crate) fn with_single_rows(plan: LogicalPlan) -> Result<LogicalPlan> {
    let node = |node: LogicalPlan| node.map_expressions(|expr| expr.transform_up(single_row));
    plan.transform_down_with_subqueries(node).data()
}

fn single_row(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::ScalarSubquery(subquery) = expr else { return Ok(Transformed::no(expr)) };
    let one = subquery.subquery.max_rows().is_some_and(|rows| rows <= 1);
    if one || !subquery.outer_ref_columns.is_empty() {
        return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
    }
    let plan = Arc::unwrap_or_clone(subquery.subquery);
    let column = Column::from(plan.schema().qualified_field(0));
    let name = column.name.clone();
    let counted = LogicalPlanBuilder::from(plan).aggregate(
        Vec::<Expr>::new(),
        [first_value(Expr::Column(column), vec![]).alias("value"), count(lit(1i64)).alias("rows")],
    )?;
    let columns = ["value", "rows"].map(|name| Expr::Column(Column::new_unqualified(name)));
    let single = counted.project([only_row().call(columns.to_vec()).alias(name)])?.build()?;
    Ok(Transformed::yes(Expr::ScalarSubquery(Subquery { subquery: Arc::new(single), ..subquery })))
}
