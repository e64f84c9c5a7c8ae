//! Size limits for DataFusion functions whose results may be much larger than their arguments: the result's size is computed, or found step by step,
//! before memory is allocated. A result without room is an error, not the end of the process.

mod concat;
mod pool;
mod room;
mod sizes;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::concat;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::udf_eq::UdfEq;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

pub(crate) use concat::with_bounded_concat;
pub(crate) use pool::SessionPool;
use room::room;
use sizes::{Sizes, elements, is_exact, may_grow};

/// A rule that replaces DataFusion's functions by [`Bounded`] ones: runs first, since rules compute constants, and last, since rules make calls of
/// DataFusion's functions.
#[derive(Debug)]
pub(crate) struct BoundedResults;

impl OptimizerRule for BoundedResults {
    fn name(&self) -> &str {
        "bounded_results"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        plan.map_expressions(|expr| expr.transform_up(|expr| Ok(bounded(expr))))
    }
}

/// The replacement of `func` by [`BoundedResults`].
pub(crate) fn bounded_function(func: &Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match may_grow(func.name()) && func.inner().downcast_ref::<Bounded>().is_none() {
        true => Arc::new(ScalarUDF::from(Bounded { inner: UdfEq::from(Arc::clone(func.inner())) })),
        false => Arc::clone(func),
    }
}

fn bounded(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args })
            if may_grow(func.name()) && func.inner().downcast_ref::<Bounded>().is_none() =>
        {
            let func = bounded_function(&func);
            Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args }))
        }
        expr => Transformed::no(expr),
    }
}

/// A function that allocates memory for its result only if there is room for it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: UdfEq<Arc<dyn ScalarUDFImpl>>,
}

impl Bounded {
    /// Computes the results for groups of rows, each of a size known to be small enough, or of a single row.
    fn in_parts(&self, args: &ScalarFunctionArgs, sizes: &Sizes<'_>, room: usize) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let (mut parts, mut used, mut start) = (Vec::<ArrayRef>::new(), 0usize, 0);
        while start < rows {
            let mut end = start + 1;
            let mut size = sizes.row(start);
            while end < rows && size.saturating_add(sizes.row(end)) <= PART {
                size = size.saturating_add(sizes.row(end));
                end += 1;
            }
            if size > room.max(PART) {
                return Err(self.too_large(size, room));
            }
            let slice = |arg: &ColumnarValue| match arg {
                ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(start, end - start)),
                scalar => scalar.clone(),
            };
            let part = ScalarFunctionArgs {
                args: args.args.iter().map(slice).collect(),
                arg_fields: args.arg_fields.clone(),
                number_rows: end - start,
                return_field: Arc::clone(&args.return_field),
                config_options: Arc::clone(&args.config_options),
            };
            let part = self.inner.invoke_with_args(part)?.into_array(end - start)?;
            used = used.saturating_add(elements(&part));
            if used > room {
                return Err(self.too_large(used, room));
            }
            parts.push(part);
            start = end;
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&parts)?))
    }

    fn too_large(&self, size: usize, room: usize) -> DataFusionError {
        DataFusionError::ResourcesExhausted(format!(
            "{} would make {size} bytes at a time, but only {room} bytes are free (raise warpmill.memory_limit)",
            self.inner.name()
        ))
    }
}

/// Size in bytes of a part of a result whose total size is unknown before.
const PART: usize = 16 << 20;

/// Counts with negative ones replaced by 0, for which DataFusion's functions allocate too much.
fn not_negative(counts: &ColumnarValue) -> Result<ColumnarValue> {
    Ok(match counts {
        ColumnarValue::Array(array) => match array.as_primitive_opt::<Int64Type>() {
            Some(counts) => ColumnarValue::Array(Arc::new(counts.unary::<_, Int64Type>(|count| count.max(0)))),
            None => ColumnarValue::Array(Arc::clone(array)),
        },
        ColumnarValue::Scalar(ScalarValue::Int64(Some(count))) => {
            ColumnarValue::from(ScalarValue::from((*count).max(0)))
        }
        counts => counts.clone(),
    })
}

impl ScalarUDFImpl for Bounded {
    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let ("lpad" | "rpad", Some(count)) = (self.inner.name(), args.args.get_mut(1)) {
            *count = not_negative(count)?;
        }
        let sizes = Sizes::of(self.inner.name(), &args.args);
        let constant = !args.args.iter().any(|arg| matches!(arg, ColumnarValue::Array(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let size = (0..rows).fold(0usize, |all, row| all.saturating_add(sizes.row(row)));
        let room = room(&args.config_options, args.return_field.data_type(), size);
        if size <= room {
            return self.inner.invoke_with_args(args);
        }
        if is_exact(self.inner.name()) || constant {
            return Err(self.too_large(size, room));
        }
        self.in_parts(&args, &sizes, room)
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.inner.is_strict()
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.preserves_lex_ordering(inputs)
    }

    fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.strictly_order_preserving(inputs)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Error, Session};

    #[test]
    fn results_are_bounded_before_they_are_made() {
        let session = Session::builder().memory_limit(64 << 20).build().unwrap();
        let run = |value: &str| session.execute(&format!("SELECT {value} AS x FROM range(5001) AS t(v)"), &[]);
        let text = "CAST(v AS VARCHAR)";
        for value in [
            format!("max(length(repeat({text} || 'x', 10000000)))"),
            "max(length(repeat('x', 1000000000)))".into(),
            format!("max(length(lpad({text}, 1000000)))"),
            format!("max(length(replace(repeat({text}, 1000), '1', repeat('x', 10000))))"),
            format!("max(length(regexp_replace(repeat({text}, 1000), '1', repeat('x', 10000), 'g')))"),
            format!("max(length(concat(repeat({text}, 5000), repeat({text}, 5000))))"),
            format!("max(length(initcap({text}) || repeat({text}, 10000)))"),
            format!("max(cardinality(array_repeat({text}, 1000000)))"),
            "max(cardinality(range(0, 1000000 + v)))".into(),
        ] {
            let outcome = run(&value).map(|result| result.batches);
            assert!(matches!(outcome, Err(Error::OutOfMemory(_))), "{value}: {outcome:?}");
        }
        // Found to be small enough during the computation.
        let small = format!("sum(length(replace(repeat({text}, 100), 'z', repeat('x', 1000))))");
        let expected = format!("sum(length(repeat({text}, 100)))");
        let rows = |value: &str| run(value).unwrap().batches;
        assert_eq!(rows(&small), rows(&expected));
        let padded = format!("sum(length(lpad(concat('ä', {text}), 5000, 'ö')))");
        let counted = rows(&padded);
        let sum = arrow::util::display::array_value_to_string(counted[0].column(0), 0).unwrap();
        assert_eq!(sum, (5001 * 5000).to_string());
    }

    #[test]
    fn operators_of_datafusion_keep_the_limit() {
        let session = Session::builder().memory_limit(64 << 20).build().unwrap();
        let all = "SELECT cardinality(array_agg(repeat(CAST(v AS VARCHAR), 100))) AS x FROM range(1000000) AS t(v)";
        let outcome = session.execute(all, &[]).map(|result| result.batches);
        assert!(matches!(outcome, Err(Error::OutOfMemory(_))), "{outcome:?}");
        session.set("memory_limit", "unlimited").unwrap();
        let rows = session.execute(all, &[]).unwrap().batches;
        assert_eq!(arrow::util::display::array_value_to_string(rows[0].column(0), 0).unwrap(), "1000000");
    }
}
