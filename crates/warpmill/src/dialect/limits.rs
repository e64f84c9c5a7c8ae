//! LIMIT and OFFSET with non-constant expressions, and LIMIT in percent: the rows are numbered, and the numbers compared.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DataFusionError, Result, ScalarValue, exec_err};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{ScalarFunction, Sort};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Limit, LogicalPlan, LogicalPlanBuilder, Projection, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility, WindowFunctionDefinition, lit,
};

use super::casts;
use super::windows::window;

/// The name of the function that represents a limit in percent.
pub(super) const PERCENT: &str = "limit in percent";

/// Names of internal columns.
const ROW: &str = "\u{1}row";
const ROWS: &str = "\u{1}rows";
const SKIPPED: &str = "\u{1}skipped";
const KEPT: &str = "\u{1}kept";

/// The function for a limit in percent: in texts its argument is a percentage; in plans it also gets the total number of rows, and returns the number
/// of rows to keep.
pub(super) fn percent() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Percent { signature: Signature::variadic_any(Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Percent {
    signature: Signature,
}

impl ScalarUDFImpl for Percent {
    fn name(&self) -> &str {
        PERCENT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let args = ColumnarValue::values_to_arrays(&call.args)?;
        let [percent, rows] = args.as_slice() else { return exec_err!("a percentage that is not LIMIT's") };
        let (percent, rows) = (percent.as_primitive::<Float64Type>(), rows.as_primitive::<Int64Type>());
        let kept = percent.iter().zip(rows).map(|parts| match parts {
            (None, rows) => Ok(rows),
            (Some(percent), _) if !(0.0..=100.0).contains(&percent) => {
                exec_err!("Limit percent out of range, should be between 0% and 100%")
            }
            (Some(percent), rows) => Ok(rows.map(|rows| (rows as f64 * percent / 100.0) as i64)),
        });
        Ok(ColumnarValue::Array(Arc::new(kept.collect::<Result<Int64Array>>()?) as ArrayRef))
    }
}

/// A non-constant limit as a comparison of row numbers; other limits are unchanged.
pub(super) fn planned(mut limit: Limit) -> Result<LogicalPlan> {
    for count in [&mut limit.skip, &mut limit.fetch] {
        *count = count
            .take()
            .map(|count| Ok::<_, DataFusionError>(Box::new(without_queries_of_one(*count)?)))
            .transpose()?;
    }
    if is_constant(limit.skip.as_deref()) && is_constant(limit.fetch.as_deref()) {
        return Ok(LogicalPlan::Limit(limit));
    }
    match Arc::unwrap_or_clone(limit.input) {
        // The rows are sorted below it.
        LogicalPlan::Projection(mut projection) if !projection.expr.iter().any(has_rows_of_its_own) => {
            projection.input = Arc::new(planned(Limit { input: projection.input, ..limit })?);
            Ok(LogicalPlan::Projection(Projection::try_new(projection.expr, projection.input)?))
        }
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
            numbered(Arc::unwrap_or_clone(sort.input), sort.expr, limit.skip, limit.fetch)
        }
        input => numbered(input, vec![], limit.skip, limit.fetch),
    }
}

/// `count` with trivial subqueries such as `(SELECT 3)` replaced by their expressions.
fn without_queries_of_one(count: Expr) -> Result<Expr> {
    let expression = |e: Expr| {
        if let Expr::ScalarSubquery(query) = &e
            && let LogicalPlan::Projection(projection) = &*query.subquery
            && let ([one], LogicalPlan::EmptyRelation(empty)) = (&projection.expr[..], &*projection.input)
            && empty.produce_one_row
            && query.outer_ref_columns.is_empty()
            && !has_rows_of_its_own(one)
        {
            return Ok(Transformed::yes(one.clone().unalias_nested().data));
        }
        Ok(Transformed::no(e))
    };
    Ok(count.transform_up(expression)?.data)
}

/// Whether DataFusion can plan a count.
fn is_constant(count: Option<&Expr>) -> bool {
    count.is_none_or(|count| {
        let is_late = |e: &Expr| match e {
            Expr::ScalarSubquery(_) => true,
            Expr::ScalarFunction(call) => call.func.name() == PERCENT || e.is_volatile_node(),
            _ => false,
        };
        let is_whole = |ty: DataType| ty.is_integer() || ty.is_null();
        let late = count.exists(|e| Ok(is_late(e))).unwrap_or(true);
        !late && count.get_type(&DFSchema::empty()).is_ok_and(is_whole)
    })
}

/// Whether an expression of a SELECT list returns several rows, or is volatile.
fn has_rows_of_its_own(e: &Expr) -> bool {
    e.exists(|e| Ok(matches!(e, Expr::Unnest(_)) || e.is_volatile_node())).unwrap_or(true)
}

/// The rows of `input` in the order of `keys`, without the skipped ones, limited to the number to keep.
fn numbered(
    input: LogicalPlan,
    keys: Vec<Sort>,
    skip: Option<Box<Expr>>,
    fetch: Option<Box<Expr>>,
) -> Result<LogicalPlan> {
    let columns = input.schema().columns();
    let row = window(WindowFunctionDefinition::WindowUDF(row_number_udwf()), vec![], keys)?;
    let rows = window(WindowFunctionDefinition::AggregateUDF(count_udaf()), vec![lit(1_i64)], vec![])?;
    let names = [row.schema_name().to_string(), rows.schema_name().to_string()];
    let named = columns.iter().cloned().map(Expr::Column).chain(
        names.into_iter().zip([ROW, ROWS]).map(|(name, alias)| Expr::Column(Column::from_name(name)).alias(alias)),
    );
    let named: Vec<Expr> = named.collect();
    let plan = LogicalPlanBuilder::from(input).window([row, rows])?.project(named)?;
    let percentage = matches!(fetch.as_deref(), Some(Expr::ScalarFunction(call)) if call.func.name() == PERCENT);
    let plan = plan.cross_join(counts(skip, fetch)?)?;
    let column = |name: &str| Expr::Column(Column::from_name(name));
    let kept = match percentage {
        true => percent().call(vec![column(KEPT), column(ROWS)]),
        false => coalesce(vec![column(KEPT), column(ROWS)]),
    };
    let after = column(ROW) - column(SKIPPED);
    let plan = plan.filter(after.clone().gt(lit(0_i64)).and(after.lt_eq(kept)))?;
    plan.sort([column(ROW).sort(true, false)])?.project(columns.into_iter().map(Expr::Column))?.build()
}

/// One row with the number of rows to skip, and to keep (or in percent).
fn counts(skip: Option<Box<Expr>>, fetch: Option<Box<Expr>>) -> Result<LogicalPlan> {
    let skip = skip.map_or(Ok(lit(0_i64)), |skip| whole(*skip))?;
    let kept = match fetch.map(|fetch| *fetch) {
        Some(Expr::ScalarFunction(ScalarFunction { func, mut args })) if func.name() == PERCENT => {
            casts::bind(args.swap_remove(0), &DataType::Float64, false, &DFSchema::empty())?
        }
        Some(fetch) => whole(fetch)?,
        None => lit(ScalarValue::Int64(None)),
    };
    let counts = [coalesce(vec![skip, lit(0_i64)]).alias(SKIPPED), kept.alias(KEPT)];
    LogicalPlanBuilder::empty(true).project(counts)?.build()
}

/// A count; negative ones are errors at run time.
fn whole(count: Expr) -> Result<Expr> {
    let nothing = DFSchema::empty();
    let count = casts::bind(count, &DataType::UInt64, false, &nothing)?;
    casts::bind(count, &DataType::Int64, false, &nothing)
}
