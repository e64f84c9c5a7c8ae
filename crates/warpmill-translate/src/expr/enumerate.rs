//! Expressions of one integer column with few values, tabulated: one result per value.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::Operator as Op;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use warpmill_ir::{CompareOp, Expr, ExprKind, Scalar, Unsupported};

use super::{Scope, compare, literal, unify};

/// Largest number of values of the column.
const MOST_VALUES: i128 = 256;

/// Whether an operator works on bits of integers, as `grouping(a, b)` does on the number of a grouping set.
pub(super) fn is_bitwise(op: &Op) -> bool {
    matches!(op, Op::BitwiseAnd | Op::BitwiseOr | Op::BitwiseXor | Op::BitwiseShiftLeft | Op::BitwiseShiftRight)
}

impl Scope<'_> {
    /// `expr` as a CASE over the values of its only column, with results that DataFusion computes now.
    pub(super) fn by_value(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Expr, Unsupported> {
        let unsupported = |reason: &str| Unsupported::new(expr, reason);
        let columns = collect_columns(expr);
        let mut columns = columns.iter();
        let (Some(column), None) = (columns.next(), columns.next()) else {
            return Err(unsupported("an operator on bits that reads more or less than one column"));
        };
        let (index, ty) =
            self.columns.get(column.index()).ok_or_else(|| unsupported("the column is not among the input's"))?;
        let range = ty.range.filter(|(least, greatest)| ty.logical.is_integer() && greatest - least < MOST_VALUES);
        let (least, greatest) = range.ok_or_else(|| unsupported("an operator on bits of a column of many values"))?;
        let values: Vec<i128> = (least..=greatest).collect();
        let results =
            evaluate(expr, column.name(), &ty.logical, &values).map_err(|error| Unsupported::new(expr, error))?;
        let results = (0..values.len()).map(|row| {
            let result = ScalarValue::try_from_array(&results, row).map_err(|error| Unsupported::new(expr, error))?;
            literal::literal(&result).ok_or_else(|| unsupported("a result of this type"))
        });
        let (results, result_ty) = unify(results.collect::<Result<_, _>>()?, &self.data_type(expr)?)?;
        if let ([result], false) = (results.as_slice(), ty.nullable) {
            return Ok(result.clone());
        }
        let branches = values.into_iter().zip(results).map(|(value, result)| {
            let constant = Expr::literal(Scalar::Int(value), ty.narrowed((value, value)).with_nullable(false));
            let condition = compare(CompareOp::Eq, Expr::column(*index, (*ty).clone()), constant);
            Some((condition?, result))
        });
        let branches: Option<Vec<_>> = branches.collect();
        let branches = branches.ok_or_else(|| unsupported("comparison of these types"))?;
        Ok(Expr { kind: ExprKind::Case { branches, otherwise: None }, ty: result_ty.with_nullable(true) })
    }
}

/// Evaluates `expr` for these values of its column.
fn evaluate(
    expr: &Arc<dyn PhysicalExpr>,
    name: &str,
    logical: &DataType,
    values: &[i128],
) -> datafusion::common::Result<ArrayRef> {
    let first = Arc::clone(expr).transform(|node| {
        Ok(match node.downcast_ref::<Column>() {
            Some(_) => Transformed::yes(Arc::new(Column::new(name, 0)) as Arc<dyn PhysicalExpr>),
            None => Transformed::no(node),
        })
    })?;
    // Within the bounds of the integer type, so that each value fits.
    let wide = ScalarValue::iter_to_array(values.iter().map(|value| ScalarValue::Decimal128(Some(*value), 38, 0)))?;
    let column = cast(&wide, logical)?;
    let schema = Arc::new(Schema::new(vec![Field::new(name, logical.clone(), true)]));
    let batch = RecordBatch::try_new(schema, vec![column])?;
    first.data.evaluate(&batch)?.into_array(values.len())
}
