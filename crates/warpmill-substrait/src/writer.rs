//! Queries as plans of Substrait.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, binary_expr};
use datafusion_substrait::logical_plan::producer::to_substrait_plan;
use datafusion_substrait::substrait::proto::Plan;
use datafusion_substrait::substrait::proto::extensions::SimpleExtensionUrn;
use datafusion_substrait::substrait::proto::extensions::simple_extension_declaration::MappingType;
use warpmill::Session;

use crate::declarations::WARPMILL_URN;
use crate::error::{Result, SubstraitError};
use crate::functions::{AGGREGATES, SCALARS, Scalar, Special, WINDOWS, find};

/// The maker of plans of ours.
pub(crate) const PRODUCER: &str = "warpmill";

/// The optimized plan of a query: subqueries are joins where possible, joins are ordered. Tables have the names used in the query. Functions of
/// Substrait's standard extensions have their URNs, others [`WARPMILL_URN`] with their
/// SQL names.
///
/// # Errors
/// [`SubstraitError::Session`] for a text that is not a query, [`SubstraitError::Unsupported`] for one that Substrait cannot express.
pub fn to_plan(session: &Session, sql: &str) -> Result<Plan> {
    let plan = session.block_on(session.optimized_plan(sql, &[]))?;
    if matches!(
        plan,
        LogicalPlan::Ddl(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::Explain(_)
    ) {
        return Err(SubstraitError::Unsupported(format!("form of a statement that is no query ({})", plan.display())));
    }
    let plan = with_operators(plan).map_err(warpmill::Error::from)?;
    let plan = to_substrait_plan(&plan, &session.context().state());
    let mut plan = *plan.map_err(|error| match warpmill::Error::from(error) {
        warpmill::Error::NotImplemented(message) => {
            SubstraitError::Unsupported(format!("form of this query: {message};"))
        }
        error => SubstraitError::Session(error),
    })?;
    if let Some(version) = &mut plan.version {
        version.producer = PRODUCER.to_string();
    }
    declare_extensions(&mut plan);
    Ok(plan)
}

/// Replaces the dialect's checked operators in `plan` by DataFusion's, which its producer supports, and makes chains of AND and OR
/// [balanced](balanced) trees.
fn with_operators(plan: LogicalPlan) -> datafusion::common::Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let mut schema = merge_schema(&node.inputs());
        if let LogicalPlan::TableScan(scan) = &node {
            schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
        }
        let names = NamePreserver::new(&node);
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|expr| operators(expr, &schema))?;
            let expr = expr.transform_data(|expr| expr.transform_down(|expr| Ok(balanced(expr))))?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })?;
        node.map_data(|node| node.recompute_schema())
    });
    Ok(rewritten?.data)
}

/// A chain of AND or OR as a tree of logarithmic depth: readers refuse deeply nested messages, and the producer's time grows with the cube of the
/// depth.
fn balanced(expr: Expr) -> Transformed<Expr> {
    let Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) = &expr else {
        return Transformed::no(expr);
    };
    let op = *op;
    let (mut operands, mut rest) = (vec![], vec![expr]);
    while let Some(next) = rest.pop() {
        match next {
            Expr::BinaryExpr(BinaryExpr { left, op: of, right }) if of == op => rest.extend([*right, *left]),
            operand => operands.push(operand),
        }
    }
    Transformed::yes(tree(op, &operands))
}

fn tree(op: Operator, operands: &[Expr]) -> Expr {
    match operands {
        [one] => one.clone(),
        _ => {
            let (left, right) = operands.split_at(operands.len() / 2);
            binary_expr(tree(op, left), op, tree(op, right))
        }
    }
}

/// Replaces a call of a function named after operators by these operators, with results of the same type.
fn operators(expr: Expr, schema: &DFSchema) -> datafusion::common::Result<Transformed<Expr>> {
    let Expr::ScalarFunction(call) = &expr else { return Ok(Transformed::no(expr)) };
    let ops: Option<Vec<Operator>> = call.func.name().split(' ').map(operator).collect();
    let (Some(ops), [first, others @ ..]) = (ops, call.args.as_slice()) else { return Ok(Transformed::no(expr)) };
    let ty = expr.get_type(schema)?;
    if ops.contains(&Operator::IntegerDivide) && !ty.is_integer() {
        return Ok(Transformed::no(expr));
    }
    if others.is_empty() {
        return Ok(Transformed::yes(Expr::Negative(Box::new(first.clone())).cast_to(&ty, schema)?));
    }
    let plain = |op| if op == Operator::IntegerDivide { Operator::Divide } else { op };
    let mut left = first.clone();
    for (op, right) in ops.into_iter().zip(others) {
        left = binary_expr(left, plain(op), right.clone()).cast_to(&ty, schema)?;
    }
    Ok(Transformed::yes(left))
}

fn operator(symbol: &str) -> Option<Operator> {
    Some(match symbol {
        "+" => Operator::Plus,
        "-" => Operator::Minus,
        "*" => Operator::Multiply,
        "/" => Operator::Divide,
        "//" => Operator::IntegerDivide,
        "%" => Operator::Modulo,
        "shift_left" => Operator::BitwiseShiftLeft,
        "shift_right" => Operator::BitwiseShiftRight,
        _ => return None,
    })
}

/// Declares the extension that defines each function.
fn declare_extensions(plan: &mut Plan) {
    let mut urns: Vec<String> = vec![];
    for extension in &mut plan.extensions {
        let (name, reference) = match &mut extension.mapping_type {
            Some(MappingType::ExtensionFunction(function)) => {
                (function.name.clone(), &mut function.extension_urn_reference)
            }
            Some(MappingType::ExtensionType(ty)) => (String::new(), &mut ty.extension_urn_reference),
            Some(MappingType::ExtensionTypeVariation(ty)) => (String::new(), &mut ty.extension_urn_reference),
            None => continue,
        };
        let urn = match standard(&name) {
            Some(extension) => format!("extension:io.substrait:{extension}"),
            None => WARPMILL_URN.to_string(),
        };
        let at = urns.iter().position(|other| *other == urn).unwrap_or_else(|| {
            urns.push(urn);
            urns.len() - 1
        });
        *reference = at as u32 + 1;
    }
    let urn = |(at, urn)| SimpleExtensionUrn { extension_urn_anchor: at as u32 + 1, urn };
    plan.extension_urns = urns.into_iter().enumerate().map(urn).collect();
}

/// The standard extension with an equivalent function of that name.
fn standard(name: &str) -> Option<&'static str> {
    let scalar = SCALARS.iter().find(|extension| {
        let found = extension.functions.iter().find(|(other, _)| *other == name);
        found.is_some_and(|(_, function)| match function {
            // SQL functions of these names treat NULL differently.
            Scalar::Special(Special::Concat | Special::Extreme(_) | Special::Extract) => false,
            Scalar::Call(function) => *function == name || name == "substring" || name == "is_nan",
            _ => true,
        })
    });
    let aggregate = || {
        let same = find(AGGREGATES, None, name).filter(|found| found.function == name)?;
        let has = |functions: &[(&str, _)]| functions.iter().any(|(other, _)| *other == same.function);
        AGGREGATES.iter().find(|extension| has(extension.functions)).map(|extension| extension.name)
    };
    let window = || find(WINDOWS, None, name).map(|_| WINDOWS[0].name);
    scalar.map(|extension| extension.name).or_else(aggregate).or_else(window)
}
