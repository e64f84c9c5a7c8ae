//! Forms of SQL that become calls while names are bound: arithmetic, fields of structs, elements of lists, sums of conditions.

use arrow::datatypes::{DataType, Field};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, TableReference, plan_err};
use datafusion::functions::core::get_field;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawFieldAccessExpr,
};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, GetFieldAccess, Operator, cast, lit};

use super::intervals::is_comparison;
use super::operators::{Op, binary, check_arithmetic};
use super::types::{MAX_WIDTH, is_number, is_text};
use super::{dates, field_names, library, shifts};

/// Operators, fields and elements as calls: arithmetic whose operands [`bind`](super::operators::bind) converts.
#[derive(Debug)]
pub(super) struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if let Some(bits) = shifts::of_hugeints(&raw.op, &raw.left, &raw.right, schema) {
            return Ok(PlannerResult::Planned(bits));
        }
        let placeholder = |e: &Expr| matches!(e, Expr::Placeholder(_));
        let Some(op) = Op::parsed(&raw.op) else { return Ok(PlannerResult::Original(raw)) };
        if op != Op::IntegerDivide && (placeholder(&raw.left) || placeholder(&raw.right)) {
            return Ok(PlannerResult::Original(raw));
        }
        let (Ok(left), Ok(right)) = (raw.left.get_type(schema), raw.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(raw));
        };
        if let Some(moved) = dates::arithmetic(op, (&raw.left, &left), (&raw.right, &right))? {
            return Ok(PlannerResult::Planned(moved));
        }
        if !is_number(&left) && left != DataType::Null || !is_number(&right) && right != DataType::Null {
            return Ok(PlannerResult::Original(raw));
        }
        let Some(result) = op.result(&left, &right) else {
            return plan_err!("{left} {} {right}: the result has more than {MAX_WIDTH} digits after the point", raw.op);
        };
        check_arithmetic([&raw.left, &raw.right])?;
        Ok(PlannerResult::Planned(binary(op, raw.left, raw.right, result == left)))
    }

    /// Fields of structs, whose names match without regard to case.
    fn plan_compound_identifier(
        &self,
        field: &Field,
        qualifier: Option<&TableReference>,
        nested_names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let (mut expr, mut ty) = (Expr::Column(Column::from((qualifier, field))), field.data_type().clone());
        for name in nested_names {
            let known = field_names::field(&ty, name).map(|field| (field.name().clone(), field.data_type().clone()));
            let (name, inner) = known.unwrap_or_else(|| (name.clone(), DataType::Null));
            expr = get_field().call(vec![expr, lit(name)]);
            ty = inner;
        }
        Ok(PlannerResult::Planned(expr))
    }

    /// Elements of lists and characters of texts: DataFusion knows none of the latter. Values of maps by keys of any type. Fields of structs as
    /// above.
    fn plan_field_access(
        &self,
        mut raw: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let ty = raw.expr.get_type(schema)?;
        if let (DataType::Map(..), GetFieldAccess::NamedStructField { name }) = (&ty, &raw.field_access)
            && let Some(value) = library::call("map_element", vec![raw.expr.clone(), lit(name.clone())])
        {
            return Ok(PlannerResult::Planned(value));
        }
        if let GetFieldAccess::NamedStructField { name } = &mut raw.field_access
            && let Some(known) = name.try_as_str().flatten()
            && let Some(field) = field_names::field(&ty, known)
        {
            *name = ScalarValue::from(field.name().as_str());
        }
        let GetFieldAccess::ListIndex { key } = &raw.field_access else { return Ok(PlannerResult::Original(raw)) };
        let function = match &ty {
            DataType::Map(..) => "map_element",
            DataType::List(_) | DataType::LargeList(_) => "array_extract",
            ty if is_text(ty) => "array_extract",
            _ => return Ok(PlannerResult::Original(raw)),
        };
        match library::call(function, vec![raw.expr.clone(), (**key).clone()]) {
            Some(call) => Ok(PlannerResult::Planned(call)),
            None => Ok(PlannerResult::Original(raw)),
        }
    }

    /// Sums of conditions count: DataFusion knows no sums of truth values.
    fn plan_aggregate(&self, mut raw: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        if raw.func.name() == "sum"
            && let [arg] = raw.args.as_mut_slice()
            && is_condition(arg)
        {
            *arg = cast(std::mem::take(arg), DataType::Int32);
        }
        Ok(PlannerResult::Original(raw))
    }
}

/// Whether an expression is a truth value by what it is.
fn is_condition(e: &Expr) -> bool {
    match e {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => is_comparison(*op) || matches!(op, Operator::And | Operator::Or),
        e => matches!(
            e,
            Expr::Not(_)
                | Expr::IsNull(_)
                | Expr::IsNotNull(_)
                | Expr::IsTrue(_)
                | Expr::IsNotTrue(_)
                | Expr::IsFalse(_)
                | Expr::IsNotFalse(_)
                | Expr::Between(_)
                | Expr::InList(_)
                | Expr::Like(_)
        ),
    }
}
