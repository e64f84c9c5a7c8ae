//! Binds plans of SQL texts to DuckDB's types: converts every operand as DuckDB would, before DataFusion coerces the rest.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, not_impl_err, plan_err};
use datafusion::logical_expr::expr::{
    AggregateFunction, Between, Case, Cast, InList, InSubquery, ScalarFunction, TryCast, WindowFunction,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::utils::{grouping_set_to_exprlist, merge_schema};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, DmlStatement, Expr, ExprSchemable, Extension, Join, LogicalPlan, LogicalPlanBuilder,
    Operator, Projection, Values, WindowFunctionDefinition, WriteOp, lit,
};

use super::operators::{self, Op, convert};
use super::types::{common, common_number, digits, is_float, is_number, is_text, is_whole};
use super::{
    aggregates, alike, castable, casts, copied, dates, enums, field_names, functions, limits, outer, own_casts,
    row_lists, sets, states, uuids,
};
use crate::asof::AsofJoin;
use crate::recursion::Recursion;
use crate::udf;

/// `plan` with DuckDB's types. Parts that have them already are not changed.
pub(super) fn bind(plan: LogicalPlan) -> Result<LogicalPlan> {
    if outer::is_named(&plan)? {
        return outer::bound(plan);
    }
    let bound = plan.transform_down_up_with_subqueries(
        |plan| match plan {
            LogicalPlan::RecursiveQuery(query) => {
                Ok(Transformed::new(sets::recursive(query)?, true, TreeNodeRecursion::Jump))
            }
            LogicalPlan::Dml(dml) => Ok(Transformed::yes(with_texts_read(dml)?)),
            plan => match Recursion::of(&plan) {
                Some(recursion) => Ok(Transformed::new(sets::recursion(recursion)?, true, TreeNodeRecursion::Jump)),
                None => Ok(Transformed::no(plan)),
            },
        },
        |plan| node(plan).map(Transformed::yes),
    );
    Ok(bound?.data)
}

/// An expression over rows of `schema` with DuckDB's types.
pub(super) fn bound(e: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(e.transform_up(|e| expression(e, schema).map(Transformed::yes))?.data)
}

/// A node with bound inputs.
pub(super) fn node(plan: LogicalPlan) -> Result<LogicalPlan> {
    if let LogicalPlan::Dml(dml) = plan {
        return inserted(dml);
    }
    let plan = match plan {
        LogicalPlan::Values(values) => listed(with_bound_values(values)?)?,
        plan => plan,
    };
    if let LogicalPlan::Unnest(unnest) = &plan {
        enums::check_unnest(unnest)?;
    }
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let names = NamePreserver::new(&plan);
    let plan = plan.map_expressions(|e| named(e, &names, &schema))?;
    let plan = match plan.data {
        LogicalPlan::Join(join) => match sets::sides(&join) {
            Some(sides) => sides.alike(join.join_type)?,
            None => LogicalPlan::Join(keys(join)?),
        },
        LogicalPlan::Union(union) => LogicalPlan::Union(sets::branches(union)?),
        LogicalPlan::Aggregate(aggregate) => states::split(grouped(aggregate)?)?,
        LogicalPlan::Limit(limit) => limits::planned(limit)?,
        LogicalPlan::Copy(copy) => LogicalPlan::Copy(copied::written(copy)?),
        plan => match AsofJoin::of(&plan) {
            Some(join) => {
                let join = join.with_keys(|left, right, equality| alike(left, right, equality, &schema))?;
                LogicalPlan::Extension(Extension { node: Arc::new(join) })
            }
            None => plan,
        },
    };
    plan.recompute_schema()
}

/// An aggregation whose keys `grouping` refers to by name; the names are kept.
fn grouped(mut aggregate: Aggregate) -> Result<Aggregate> {
    let keys: Vec<Expr> = grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().cloned().collect();
    let as_key = |e: Expr| {
        let Expr::AggregateFunction(mut call) = e else { return Ok(Transformed::no(e)) };
        if call.func.name() == "grouping" {
            for arg in &mut call.params.args {
                if let Some(key) = keys.iter().find(|key| matches!(key, Expr::Alias(named) if *named.expr == *arg)) {
                    *arg = key.clone();
                }
            }
        }
        Ok(Transformed::yes(Expr::AggregateFunction(call)))
    };
    for e in &mut aggregate.aggr_expr {
        *e = std::mem::take(e).transform_up(as_key)?.data;
    }
    Ok(aggregate)
}

/// `e`, bound, under its original name.
fn named(e: Expr, names: &NamePreserver, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if matches!(e, Expr::GroupingSet(_)) {
        return e.map_children(|key| named(key, names, schema));
    }
    let name = names.save(&e);
    // Parameters of lambdas have the types that columns had before binding, and lists may have other types afterwards.
    let has_lambdas = e.exists(|e| Ok(matches!(e, Expr::HigherOrderFunction(_))))?;
    let typed =
        |e: Expr| -> Result<Expr> { if has_lambdas { Ok(e.resolve_lambda_variables(schema)?.data) } else { Ok(e) } };
    let e = typed(e)?.transform_up(|e| expression(e, schema).map(Transformed::yes))?.data;
    Ok(Transformed::yes(name.restore(typed(e)?)))
}

/// A VALUES list with bound values, below DataFusion's casts to the columns' types: binding may change the types of computed values, which decide
/// the types of the columns.
fn with_bound_values(mut list: Values) -> Result<Values> {
    let nothing = DFSchema::empty();
    let bound = |e: Expr| -> Result<Expr> {
        Ok(match e.transform_up(|e| expression(e, &nothing).map(Transformed::yes))?.data {
            // Casts of the text are told apart from DataFusion's.
            cast @ Expr::Cast(_) => Expr::ScalarFunction(ScalarFunction::new_udf(casts::shown(), vec![cast])),
            other => other,
        })
    };
    let types: Vec<DataType> = list.schema.fields().iter().map(|field| field.data_type().clone()).collect();
    for row in &mut list.values {
        for (value, ty) in row.iter_mut().zip(&types).filter(|(_, ty)| holds_numbers(ty)) {
            match as_given(value, ty) {
                Expr::Literal(..) => {}
                // Casts in the text stay: their types are known.
                Expr::ScalarFunction(function) if casts::unmarked(function).is_some() => {}
                given if std::ptr::eq(given, value) => *value = bound(std::mem::take(value))?,
                given => *value = bound(given.clone())?.cast_to(ty, &nothing)?,
            }
        }
    }
    Ok(list)
}

/// A VALUES list whose numeric columns have the common types of their values: DataFusion considers integer constants as BIGINT, and converts decimals
/// to floats beside floats.
fn listed(list: Values) -> Result<LogicalPlan> {
    let nothing = DFSchema::empty();
    let mut retyped = vec![];
    for (column, field) in list.schema.fields().iter().enumerate().filter(|(_, field)| holds_numbers(field.data_type()))
    {
        let values: Vec<&Expr> = list.values.iter().map(|row| as_given(&row[column], field.data_type())).collect();
        let numbers: Vec<&Expr> = values.iter().copied().filter(|e| !is_text_constant(e)).collect();
        if let Some(ty) = functions::listed_type(&numbers, &nothing)?.filter(|ty| ty != field.data_type()) {
            let bound = |e: &&Expr| match e {
                e if is_text_constant(e) => casts::bind((*e).clone(), &ty, false, &nothing),
                Expr::Literal(..) => convert((*e).clone(), &ty, &nothing),
                e => casts::bind((*e).clone(), &ty, false, &nothing),
            };
            retyped.push((column, values.iter().map(bound).collect::<Result<Vec<_>>>()?));
        }
    }
    if retyped.is_empty() {
        return Ok(LogicalPlan::Values(list));
    }
    let mut rows = list.values;
    for (column, values) in retyped {
        rows.iter_mut().zip(values).for_each(|(row, value)| row[column] = value);
    }
    LogicalPlanBuilder::values(rows)?.build()
}

pub(super) fn with_texts_read(mut dml: DmlStatement) -> Result<LogicalPlan> {
    dml.input = Arc::new(texts_read(Arc::unwrap_or_clone(dml.input))?);
    Ok(LogicalPlan::Dml(dml))
}

/// VALUES for a table: texts among numbers are read as numbers, such as `'nan'` in a column of floats.
fn texts_read(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Projection(mut projection) => {
            projection.input = Arc::new(texts_read(Arc::unwrap_or_clone(projection.input))?);
            Ok(LogicalPlan::Projection(projection))
        }
        LogicalPlan::Values(mut list) => {
            for value in list.values.iter_mut().flatten() {
                if let Expr::Cast(Cast { expr, field }) = value
                    && is_text_constant(expr)
                    && is_number(field.data_type())
                {
                    *value = casts::bind((**expr).clone(), field.data_type(), false, &DFSchema::empty())?;
                }
            }
            Ok(LogicalPlan::Values(list))
        }
        plan => Ok(plan),
    }
}

/// Whether values of a type are numbers or lists of numbers.
fn holds_numbers(ty: &DataType) -> bool {
    is_number(ty) || matches!(ty, DataType::List(element) if is_number(element.data_type()))
}

/// Whether a value of a list is a text constant that is read as the type of the others.
fn is_text_constant(value: &Expr) -> bool {
    matches!(value, Expr::Literal(constant, _) if is_text(&constant.data_type()))
}

/// A value of a list without DataFusion's cast to its column's type `ty`: casts in the text are marked.
fn as_given<'e>(value: &'e Expr, ty: &DataType) -> &'e Expr {
    match value {
        Expr::Cast(cast) if cast.field.data_type() == ty => match cast.expr.get_type(&DFSchema::empty()) {
            Ok(from) if holds_numbers(&from) || is_text_constant(&cast.expr) => &cast.expr,
            _ => value,
        },
        value => value,
    }
}

/// An INSERT whose rows have the table's types.
fn inserted(mut dml: DmlStatement) -> Result<LogicalPlan> {
    if matches!(dml.op, WriteOp::Insert(_)) {
        let types: Vec<DataType> = dml.target.schema().fields().iter().map(|field| field.data_type().clone()).collect();
        if types.len() == dml.input.schema().fields().len() {
            dml.input = Arc::new(retyped(Arc::unwrap_or_clone(dml.input), &types)?);
        }
    }
    Ok(LogicalPlan::Dml(dml))
}

/// `plan` with columns cast to these types by DuckDB's rules.
pub(super) fn retyped(plan: LogicalPlan, types: &[DataType]) -> Result<LogicalPlan> {
    let schema = Arc::clone(plan.schema());
    if schema.fields().iter().zip(types).all(|(field, ty)| field.data_type() == ty) {
        return Ok(plan);
    }
    let columns = schema.columns().into_iter().zip(types).map(|(column, ty)| {
        let cast = casts::bind(Expr::Column(column.clone()), ty, false, &schema)?;
        Ok(if matches!(cast, Expr::Column(_)) { cast } else { cast.alias_qualified(column.relation, column.name) })
    });
    Ok(LogicalPlan::Projection(Projection::try_new(columns.collect::<Result<_>>()?, Arc::new(plan))?))
}

fn keys(mut join: Join) -> Result<Join> {
    let pair = |(left, right): (Expr, Expr)| {
        let (ls, rs) = (join.left.schema(), join.right.schema());
        let ty = compared((&left, &left.get_type(ls)?), (&right, &right.get_type(rs)?), true)?;
        let is_one = |e: &Expr, schema: &DFSchema| e.get_type(schema).is_ok_and(|ty| enums::is_enum(&ty));
        Ok(match ty {
            Some(ty) => (casts::bind(left, &ty, false, ls)?, casts::bind(right, &ty, false, rs)?),
            None if is_one(&left, ls) && is_one(&right, rs) => (casts::position(left), casts::position(right)),
            None => (left, right),
        })
    };
    join.on = join.on.clone().into_iter().map(pair).collect::<Result<_>>()?;
    Ok(join)
}

/// Converts both sides of a comparison to one type.
fn alike(left: Expr, right: Expr, equality: bool, schema: &DFSchema) -> Result<(Expr, Expr)> {
    let (left, right) = comparable(left, right, equality, schema)?;
    let (lt, rt) = (left.get_type(schema)?, right.get_type(schema)?);
    if lt == rt {
        return Ok((left, right));
    }
    match comparison_coercion(&lt, &rt) {
        Some(ty) => Ok((left.cast_to(&ty, schema)?, right.cast_to(&ty, schema)?)),
        None => plan_err!("Cannot compare values of type {lt} and values of type {rt}: an explicit cast is required"),
    }
}

/// Binds one expression whose operands are bound.
fn expression(e: Expr, schema: &DFSchema) -> Result<Expr> {
    match e {
        Expr::Literal(ScalarValue::Decimal256(..), _) => not_impl_err!("a number of more than 38 digits"),
        Expr::BinaryExpr(binary) => binary_operator(binary, schema),
        Expr::Negative(inner) => match operators::negated((*inner).clone(), schema)? {
            Some(negated) => Ok(negated),
            None => Ok(Expr::Negative(inner)),
        },
        Expr::Cast(Cast { expr, field }) => casts::bind(*expr, field.data_type(), false, schema),
        Expr::TryCast(TryCast { expr, field }) => casts::bind(*expr, field.data_type(), true, schema),
        // DataFusion's logical and physical forms of these disagree about nullability.
        Expr::IsTrue(of) if is_boolean(&of, schema) => Ok(as_truth_value(of, Operator::IsNotDistinctFrom, true)),
        Expr::IsFalse(of) if is_boolean(&of, schema) => Ok(as_truth_value(of, Operator::IsNotDistinctFrom, false)),
        Expr::IsNotTrue(of) if is_boolean(&of, schema) => Ok(as_truth_value(of, Operator::IsDistinctFrom, true)),
        Expr::IsNotFalse(of) if is_boolean(&of, schema) => Ok(as_truth_value(of, Operator::IsDistinctFrom, false)),
        Expr::Between(between) => range(between, schema),
        Expr::Like(mut like) => {
            like.expr = as_text(like.expr, schema)?;
            Ok(Expr::Like(like))
        }
        Expr::SimilarTo(mut like) => {
            like.expr = as_text(like.expr, schema)?;
            Ok(Expr::SimilarTo(like))
        }
        Expr::InList(list) => match row_lists::compared(&list, schema)? {
            Some(compared) => Ok(compared),
            None => members(list, schema),
        },
        Expr::InSubquery(membership) => member(membership, schema),
        Expr::Case(case) => branched(case, schema),
        Expr::ScalarFunction(function) => match casts::unmarked(&function) {
            Some(cast) => Ok(cast.clone()),
            None => called(alike::plain(function), schema),
        },
        Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
            aggregates::check_distinct(func.name(), params.distinct)?;
            params.args = aggregates::arguments(func.name(), params.args, schema)?;
            let func = aggregates::checked(func, &params.args, schema)?;
            Ok(Expr::AggregateFunction(AggregateFunction { func, params }))
        }
        Expr::WindowFunction(mut window) => {
            // DataFusion has no RANGE frames of UUIDs, but has them for texts, whose order is the same.
            for key in &mut window.params.order_by {
                if key.expr.get_type(schema)? == uuids::UUID {
                    key.expr = casts::bind(std::mem::take(&mut key.expr), &DataType::Utf8, false, schema)?;
                }
            }
            if let WindowFunctionDefinition::AggregateUDF(func) = &window.fun {
                aggregates::check_distinct(func.name(), window.params.distinct)?;
                let args = std::mem::take(&mut window.params.args);
                let args = aggregates::filtered(func.name(), args, &mut window.params.filter);
                let args = aggregates::arguments(func.name(), args, schema)?;
                let func = aggregates::checked(Arc::clone(func), &args, schema)?;
                let func = aggregates::in_window(func, &args, window.params.distinct, schema)?;
                let fun = WindowFunctionDefinition::AggregateUDF(func);
                let params = datafusion::logical_expr::expr::WindowFunctionParams { args, ..window.params };
                return Ok(Expr::from(WindowFunction { fun, params }));
            }
            // DataFusion counts negative positions from the end.
            if window.fun.name() == "nth_value"
                && let [value, position] = window.params.args.as_mut_slice()
                && matches!(position, Expr::Literal(ScalarValue::Int64(Some(..0)), _))
            {
                (*value, *position) = (lit(ScalarValue::try_from(value.get_type(schema)?)?), lit(1i64));
            }
            if let [value, _, default] = window.params.args.as_mut_slice() {
                match value.get_type(schema)? {
                    ty if ty == uuids::UUID => *default = uuids::constant(std::mem::take(default))?,
                    ty if enums::is_enum(&ty) => *default = casts::bind(std::mem::take(default), &ty, false, schema)?,
                    // DataFusion cuts off digits.
                    ty if is_whole(&ty) && is_number(&default.get_type(schema)?) => {
                        *default = casts::bind(std::mem::take(default), &ty, false, schema)?;
                    }
                    _ => {}
                }
            }
            Ok(Expr::WindowFunction(window))
        }
        e => Ok(e),
    }
}

/// A value for pattern matching: for an ENUM, its text.
fn as_text(e: Box<Expr>, schema: &DFSchema) -> Result<Box<Expr>> {
    match enums::is_enum(&e.get_type(schema)?) {
        true => casts::bind(*e, &DataType::Utf8, false, schema).map(Box::new),
        false => Ok(e),
    }
}

fn is_boolean(e: &Expr, schema: &DFSchema) -> bool {
    matches!(e.get_type(schema), Ok(DataType::Boolean))
}

/// A condition compared with a truth value.
fn as_truth_value(condition: Box<Expr>, op: Operator, value: bool) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(condition, op, Box::new(lit(value))))
}

pub(super) fn binary_operator(binary: BinaryExpr, schema: &DFSchema) -> Result<Expr> {
    let BinaryExpr { left, op, right } = binary;
    if let Some(arithmetic) = Op::of(op) {
        return match operators::bind(arithmetic, (*left).clone(), (*right).clone(), schema)? {
            Some(bound) => Ok(bound),
            None => Ok(Expr::BinaryExpr(BinaryExpr { left, op, right })),
        };
    }
    let ordering = matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
    let equality =
        matches!(op, Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom);
    if !ordering && !equality {
        return Ok(Expr::BinaryExpr(BinaryExpr { left, op, right }));
    }
    let (left, right) = comparable(*left, *right, equality, schema)?;
    let (left, right) = enums::positioned(left, right, schema)?;
    Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
}

/// Converts both sides of a comparison to a common type.
pub(super) fn comparable(left: Expr, right: Expr, equality: bool, schema: &DFSchema) -> Result<(Expr, Expr)> {
    let (lt, rt) = (left.get_type(schema)?, right.get_type(schema)?);
    match (&lt, &rt) {
        (DataType::Date32, DataType::Timestamp(..)) => {
            if let Some(right) = dates::midnight(&right) {
                return Ok((left, right));
            }
        }
        (DataType::Timestamp(..), DataType::Date32) => {
            if let Some(left) = dates::midnight(&left) {
                return Ok((left, right));
            }
        }
        _ => {}
    }
    Ok(match compared((&left, &lt), (&right, &rt), equality)? {
        Some(ty) => (casts::bind(left, &ty, false, schema)?, casts::bind(right, &ty, false, schema)?),
        None => (left, right),
    })
}

/// The type for comparing two values, if it differs from DataFusion's choice: with floating-point numbers and truth values, and with texts, of which
/// constants are read as the other side's type.
fn compared(left: (&Expr, &DataType), right: (&Expr, &DataType), equality: bool) -> Result<Option<DataType>> {
    let ((left, lt), (right, rt)) = (left, right);
    castable::check_pair(lt, rt)?;
    if let Some(ty) = uuids::compared((left, lt), (right, rt), equality)?.or_else(|| enums::common(lt, rt)) {
        return Ok(Some(ty).filter(|ty| lt != ty || rt != ty));
    }
    for (e, ty, other) in [(left, lt, rt), (right, rt, lt)] {
        if is_text(ty) && (is_number(other) || *other == DataType::Boolean) {
            if !matches!(e, Expr::Literal(..)) && !equality {
                return plan_err!("a text is compared with a value of type {other}: an explicit cast is required");
            }
            return Ok(Some(other.clone()));
        }
    }
    let apart = lt != rt && (digits(lt).is_none() || digits(rt).is_none());
    Ok(if apart { common(lt, rt) } else { None })
}

fn range(between: Between, schema: &DFSchema) -> Result<Expr> {
    let Between { mut expr, negated, mut low, mut high } = between;
    let [own, from, to] = [expr.get_type(schema)?, low.get_type(schema)?, high.get_type(schema)?];
    if [&own, &from, &to].into_iter().any(own_casts::has_enums)
        && let Some(ty) = enums::common(&own, &from).and_then(|ty| enums::common(&ty, &to).or(Some(ty)))
    {
        for e in [&mut expr, &mut low, &mut high] {
            **e = casts::bind(std::mem::take(&mut **e), &ty, false, schema)?;
        }
    }
    // A text between a date and a moment is a moment.
    for (text, ty, other) in [(&mut low, &from, &to), (&mut high, &to, &from)] {
        if is_text_constant(text) && is_text(ty) && own.is_temporal() && other.is_temporal() {
            let both = common(&own, other).unwrap_or_else(|| own.clone());
            **text = casts::bind(std::mem::take(&mut **text), &both, false, schema)?;
        }
    }
    let (left, low) = comparable((*expr).clone(), *low, false, schema)?;
    let (left, low) = enums::positioned(left, low, schema)?;
    let (right, high) = comparable(*expr, *high, false, schema)?;
    let (right, high) = enums::positioned(right, high, schema)?;
    if left == right {
        return Ok(Expr::Between(Between::new(Box::new(left), negated, Box::new(low), Box::new(high))));
    }
    let within = left.gt_eq(low).and(right.lt_eq(high));
    Ok(if negated { Expr::Not(Box::new(within)) } else { within })
}

fn members(list: InList, schema: &DFSchema) -> Result<Expr> {
    let InList { expr, list, negated } = list;
    let own = expr.get_type(schema)?;
    let mut ty = own.clone();
    for e in &list {
        let other = e.get_type(schema)?;
        match compared((&expr, &ty), (e, &other), true)? {
            Some(both) => ty = both,
            None if ty.is_null() => ty = other,
            // The difference of two moments among intervals.
            None if matches!((&ty, &other), (DataType::Duration(_), DataType::Interval(_))) => ty = other,
            // Exact numbers of other types.
            None => ty = common_number(&ty, &other).unwrap_or(ty),
        }
    }
    if enums::is_enum(&ty) {
        ty = DataType::Utf8;
    }
    // Exact numbers stay with DataFusion, unless other operands require more.
    let is_exact =
        |e: &Expr| e.get_type(schema).is_ok_and(|other| other == own || other.is_null() || digits(&other).is_some());
    if (ty == own || digits(&own).is_some()) && !is_float(&own) && list.iter().all(is_exact) {
        return Ok(Expr::InList(InList { expr, list, negated }));
    }
    let convertible = |e: &Expr| {
        let ty = e.get_type(schema)?;
        Ok::<_, datafusion::common::DataFusionError>(!ty.is_nested() || enums::is_enum(&ty))
    };
    let all = std::iter::once(expr.as_ref()).chain(&list).map(convertible).collect::<Result<Vec<_>>>()?;
    if all.contains(&false) {
        return Ok(Expr::InList(InList { expr, list, negated }));
    }
    let list = list.into_iter().map(|e| casts::bind(e, &ty, false, schema)).collect::<Result<_>>()?;
    let expr = Box::new(casts::bind(*expr, &ty, false, schema)?);
    Ok(Expr::InList(InList { expr, list, negated }))
}

fn member(membership: InSubquery, schema: &DFSchema) -> Result<Expr> {
    let InSubquery { expr, mut subquery, negated } = membership;
    let (own, theirs) = (expr.get_type(schema)?, subquery.subquery.schema().field(0).data_type().clone());
    castable::check_pair(&own, &theirs)?;
    if own != theirs || enums::is_enum(&own) {
        subquery.subquery = Arc::new(member_column(subquery.subquery)?);
    }
    if enums::is_enum(&own) || enums::is_enum(&theirs) {
        subquery.subquery = Arc::new(retyped(Arc::unwrap_or_clone(subquery.subquery), &[DataType::Utf8])?);
        let expr = Box::new(casts::bind(*expr, &DataType::Utf8, false, schema)?);
        return Ok(Expr::InSubquery(InSubquery { expr, subquery, negated }));
    }
    let is_apart = |ty: &DataType| is_float(ty) || *ty == DataType::Boolean;
    if let Some(ty) = common(&own, &theirs).filter(|_| own != theirs && (is_apart(&own) || is_apart(&theirs))) {
        subquery.subquery = Arc::new(retyped(Arc::unwrap_or_clone(subquery.subquery), std::slice::from_ref(&ty))?);
        let expr = Box::new(casts::bind(*expr, &ty, false, schema)?);
        return Ok(Expr::InSubquery(InSubquery { expr, subquery, negated }));
    }
    Ok(Expr::InSubquery(InSubquery { expr, subquery, negated }))
}

/// `subquery` with a unique name for its only column, so that casts of it can be used in the join.
fn member_column(subquery: Arc<LogicalPlan>) -> Result<LogicalPlan> {
    const NAME: &str = "__member";
    match Arc::unwrap_or_clone(subquery) {
        LogicalPlan::Projection(mut projection) if projection.expr.len() == 1 => {
            let value = projection.expr.remove(0).unalias().alias(NAME);
            Ok(LogicalPlan::Projection(Projection::try_new(vec![value], projection.input)?))
        }
        plan => {
            let columns = plan.schema().columns().into_iter().map(|column| Expr::Column(column).alias(NAME));
            Ok(LogicalPlan::Projection(Projection::try_new(columns.collect(), Arc::new(plan))?))
        }
    }
}

fn branched(mut case: Case, schema: &DFSchema) -> Result<Expr> {
    if let Some(base) = case.expr.take() {
        // Every comparison in its own type.
        for (when, _) in &mut case.when_then_expr {
            let (left, right) = comparable((*base).clone(), (**when).clone(), true, schema)?;
            let (left, right) = enums::positioned(left, right, schema)?;
            **when = left.eq(right);
        }
        let plain = base.get_type(schema)?;
        let same = |when: &Expr| matches!(when, Expr::BinaryExpr(eq) if *eq.left == *base);
        // DataFusion looks constants up among those of WHEN, except UUIDs; ENUM values are not constants.
        let looks_up = plain != uuids::UUID && !enums::is_enum(&plain);
        if looks_up
            && (case.when_then_expr.iter().all(|(when, _)| same(when))
                || !is_number(&plain) && plain != DataType::Boolean)
        {
            for (when, _) in &mut case.when_then_expr {
                if let Expr::BinaryExpr(eq) = when.as_ref() {
                    *when = eq.right.clone();
                }
            }
            case.expr = Some(base);
        }
    }
    let values = case.when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(case.else_expr.as_deref());
    if let Some(ty) = functions::common_type(values, schema)? {
        for (_, then) in &mut case.when_then_expr {
            **then = functions::unified(std::mem::take(then.as_mut()), &ty, schema)?;
        }
        if let Some(otherwise) = &mut case.else_expr {
            **otherwise = functions::unified(std::mem::take(otherwise.as_mut()), &ty, schema)?;
        }
    }
    Ok(Expr::Case(case))
}

fn called(function: ScalarFunction, schema: &DFSchema) -> Result<Expr> {
    if let Some(lowered) = udf::lower(&function, schema)? {
        return Ok(lowered);
    }
    if let Some(bound) = states::bound(&function, schema)? {
        return Ok(bound);
    }
    states::checked_access(&function, schema)?;
    enums::check_access(&function, schema)?;
    if operators::arithmetic(&function).is_some() {
        return operators::bind_call(function, schema);
    }
    if let Some(bound) = dates::function(&function, schema)? {
        return Ok(bound);
    }
    if function.func.name() == "named_struct" {
        field_names::check_names(&function)?;
    }
    functions::bind(function, schema)
}
