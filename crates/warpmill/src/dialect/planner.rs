//! Forms of SQL that become calls while names are bound: arithmetic, fields of structs, elements of lists, sums of conditions.

use arrow::datatypes::{DataType, Field};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, TableReference, plan_err};
use datafusion::functions::core::get_field;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawFieldAccessExpr,
};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, GetFieldAccess, Operator, cast, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::intervals::is_comparison;
use super::operators::{Op, binary, check_arithmetic};
use super::types::{MAX_WIDTH, is_number, is_text, is_whole};
use super::uuids::{self, UUID};
use super::{alike, bind, casts, dates, enums, field_names, functions, library, own_casts, shifts};

/// Plans operators, fields and elements as calls: arithmetic whose operands [`bind`](super::operators::bind) converts.
#[derive(Debug)]
pub(super) struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let raw = with_truth_values(with_uuids(raw, schema)?, schema)?;
        let is = |e: &Expr, of: fn(&DataType) -> bool| e.get_type(schema).is_ok_and(|ty| of(&ty));
        let is_list = |ty: &DataType| matches!(ty, DataType::List(_));
        let is_list_or_null = |ty: &DataType| matches!(ty, DataType::List(_) | DataType::Null);
        if raw.op == BinaryOperator::StringConcat
            && [&raw.left, &raw.right].iter().all(|e| is(e, is_list_or_null))
            && [&raw.left, &raw.right].iter().any(|e| is(e, is_list))
            && let Some(joined) = library::call("list_after_list", vec![raw.left.clone(), raw.right.clone()])
        {
            return Ok(PlannerResult::Planned(joined));
        }
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

    /// Lists of UUIDs or moments: constant texts in them are read as such.
    fn plan_array_literal(&self, exprs: Vec<Expr>, schema: &DFSchema) -> Result<PlannerResult<Vec<Expr>>> {
        let is_uuid = |e: &Expr| e.get_type(schema).is_ok_and(|ty| ty == UUID);
        let one = |e: &Expr| e.get_type(schema).ok().filter(own_casts::has_enums);
        if exprs.iter().any(|e| one(e).is_some()) {
            let ty = functions::common_type(exprs.iter(), schema)?.or_else(|| exprs.iter().find_map(one));
            let ty = ty.unwrap_or(DataType::Utf8);
            let elements = exprs.into_iter().map(|e| casts::bind(e, &ty, false, schema));
            return Ok(PlannerResult::Original(elements.collect::<Result<_>>()?));
        }
        if !exprs.iter().any(is_uuid) {
            return match functions::common_type(exprs.iter(), schema)?.filter(alike::is_moment) {
                Some(ty) => {
                    let elements = exprs.into_iter().map(|e| functions::unified(e, &ty, schema));
                    Ok(PlannerResult::Original(elements.collect::<Result<_>>()?))
                }
                None => Ok(PlannerResult::Original(exprs)),
            };
        }
        let as_uuid = |e: Expr| match e.get_type(schema) {
            Ok(DataType::Null) => casts::bind(e, &UUID, false, schema),
            _ => uuids::constant(e),
        };
        Ok(PlannerResult::Original(exprs.into_iter().map(as_uuid).collect::<Result<_>>()?))
    }

    /// Fields of structs, whose names are matched without regard to case.
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

    /// Elements of lists, characters of texts (unknown to DataFusion), values of maps with keys of any type, and fields of structs as above.
    fn plan_field_access(
        &self,
        mut raw: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let mut ty = raw.expr.get_type(schema)?;
        if enums::is_enum(&ty) && matches!(raw.field_access, GetFieldAccess::ListIndex { .. }) {
            ty = DataType::Utf8;
            raw.expr = casts::bind(raw.expr, &ty, false, schema)?;
        }
        if let (DataType::Map(entries, _), GetFieldAccess::NamedStructField { name }) = (&ty, &raw.field_access)
            && let Some(value) =
                library::call("map_element", vec![raw.expr.clone(), key_of(entries, lit(name.clone()))?])
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

    /// Sums of conditions are counts: DataFusion does not sum BOOLEANs.
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

/// A comparison of a truth value with an integer or a text, as one of values of one type.
fn with_truth_values(mut raw: RawBinaryExpr, schema: &DFSchema) -> Result<RawBinaryExpr> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let is = |e: &Expr, of: fn(&DataType) -> bool| e.get_type(schema).is_ok_and(|ty| of(&ty));
    let is_bool = |ty: &DataType| *ty == DataType::Boolean;
    let is_other = |ty: &DataType| is_whole(ty) || is_text(ty);
    let are = is(&raw.left, is_bool) && is(&raw.right, is_other) || is(&raw.left, is_other) && is(&raw.right, is_bool);
    if are && matches!(raw.op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
        let equality = matches!(raw.op, Eq | NotEq);
        (raw.left, raw.right) = bind::comparable(raw.left, raw.right, equality, schema)?;
    }
    Ok(raw)
}

/// A key to look up in maps with these entries: a constant text becomes a UUID or an ENUM value, where the keys are.
fn key_of(entries: &Field, key: Expr) -> Result<Expr> {
    match entries.data_type() {
        DataType::Struct(fields) if enums::is_enum(fields[0].data_type()) => {
            casts::bind(key, fields[0].data_type(), true, &DFSchema::empty())
        }
        DataType::Struct(fields) if fields.first().is_some_and(|key| *key.data_type() == UUID) => uuids::constant(key),
        _ => Ok(key),
    }
}

/// Whether values are neither texts, nor made of others.
fn is_plain(ty: &DataType) -> bool {
    ty.is_numeric() || ty.is_temporal() || matches!(ty, DataType::Boolean | DataType::Null)
}

/// An operation with a UUID or an ENUM value, with operands that DataFusion supports: text for `||`, UUIDs or text for comparisons.
fn with_uuids(mut raw: RawBinaryExpr, schema: &DFSchema) -> Result<RawBinaryExpr> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq, StringConcat};
    // Chains of `||` are texts, and nest once per operand.
    let is_row = |e: &Expr| matches!(e, Expr::BinaryExpr(BinaryExpr { op: Operator::StringConcat, .. }));
    let type_of = |e: &Expr| if is_row(e) { DataType::Utf8 } else { e.get_type(schema).unwrap_or(DataType::Null) };
    let is_uuid = |e: &Expr| type_of(e) == UUID;
    let is_enum = |e: &Expr| enums::is_enum(&type_of(e));
    let has_enums = |e: &Expr| own_casts::has_enums(&type_of(e));
    match raw.op {
        StringConcat => {
            let lists = match has_enums(&raw.left) || has_enums(&raw.right) {
                true => enums::common(&type_of(&raw.left), &type_of(&raw.right)).filter(DataType::is_list),
                false => None,
            };
            // As numbers and dates in DuckDB.
            let are_plain = is_plain(&type_of(&raw.left)) && is_plain(&type_of(&raw.right));
            for operand in [&mut raw.left, &mut raw.right] {
                if are_plain || is_uuid(operand) || is_enum(operand) {
                    *operand = casts::bind(std::mem::take(operand), &DataType::Utf8, false, schema)?;
                } else if let Some(ty) = &lists {
                    *operand = casts::bind(std::mem::take(operand), ty, false, schema)?;
                }
            }
        }
        Eq | NotEq | Lt | LtEq | Gt | GtEq if is_uuid(&raw.left) || is_uuid(&raw.right) => {
            for operand in [&mut raw.left, &mut raw.right] {
                if matches!(operand, Expr::Placeholder(_)) {
                    *operand = cast(std::mem::take(operand), UUID);
                }
            }
            let equality = matches!(raw.op, Eq | NotEq);
            (raw.left, raw.right) = bind::comparable(raw.left, raw.right, equality, schema)?;
        }
        Eq | NotEq | Lt | LtEq | Gt | GtEq if has_enums(&raw.left) || has_enums(&raw.right) => {
            for operand in [&mut raw.left, &mut raw.right] {
                if matches!(operand, Expr::Placeholder(_)) {
                    *operand = cast(std::mem::take(operand), DataType::Utf8);
                }
            }
            (raw.left, raw.right) = bind::comparable(raw.left, raw.right, true, schema)?;
        }
        _ => {}
    }
    Ok(raw)
}

/// Whether an expression is a condition by its form.
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
