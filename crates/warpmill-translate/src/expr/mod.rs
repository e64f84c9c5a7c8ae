//! Translation of DataFusion physical expressions into [`Expr`]s.

mod arith;
mod cast;
mod compare;
mod encode;
mod enumerate;
mod function;
mod literal;

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::logical_expr::Operator as Op;
use datafusion::logical_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    Literal, NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use warpmill_ir::{ArithOp, ColType, CompareOp, Expr, ExprKind, Phys, Scalar, Unsupported};

pub(crate) use arith::{arith, negate};
pub(crate) use cast::{common_type, convert, unify};
pub(crate) use compare::{comparable, compare};
pub(crate) use encode::Limit;
use enumerate::is_bitwise;
pub(crate) use function::only_row;
pub(crate) use literal::interval;

use crate::parameters::number_of;

/// Identifies a scalar subquery: the shared results of a plan node, and its index among them.
#[derive(Debug, Clone)]
pub(crate) struct SubqueryKey {
    results: ScalarSubqueryResults,
    index: usize,
}

impl SubqueryKey {
    pub fn new(results: &ScalarSubqueryResults, index: usize) -> Self {
        Self { results: results.clone(), index }
    }

    /// The key of `expr` if it is a scalar subquery.
    pub fn of(expr: &Arc<dyn PhysicalExpr>) -> Option<Self> {
        let expr = expr.downcast_ref::<ScalarSubqueryExpr>()?;
        #[allow(deprecated, reason = "the only way to the index from outside DataFusion")]
        Some(Self::new(expr.results(), expr.index().as_usize()))
    }

    /// Whether it belongs to the plan node that fills `results`.
    pub fn fills(&self, results: &ScalarSubqueryResults) -> bool {
        ScalarSubqueryResults::ptr_eq(&self.results, results)
    }
}

impl PartialEq for SubqueryKey {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && ScalarSubqueryResults::ptr_eq(&self.results, &other.results)
    }
}

/// Calls `f` with every scalar subquery that `expr` reads.
pub(crate) fn visit_subqueries(expr: &Arc<dyn PhysicalExpr>, f: &mut impl FnMut(SubqueryKey)) {
    SubqueryKey::of(expr).into_iter().for_each(&mut *f);
    expr.children().into_iter().for_each(|child| visit_subqueries(child, f));
}

/// Whether `expr` reads a scalar subquery.
pub(crate) fn reads_subquery(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut reads = false;
    visit_subqueries(expr, &mut |_| reads = true);
    reads
}

/// Maps the names of an expression to columns.
pub(crate) struct Scope<'a> {
    /// Index and type of the operator's input column that holds each column of `schema`.
    pub columns: Vec<(usize, &'a ColType)>,
    /// The schema that the expression was planned for.
    pub schema: &'a Schema,
    /// Columns that hold the values of scalar subqueries.
    pub subqueries: Vec<(SubqueryKey, usize, &'a ColType)>,
}

impl Scope<'_> {
    /// Translates `expr`.
    pub fn expr(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Expr, Unsupported> {
        let unsupported = |reason: &str| Unsupported::new(expr, reason);
        if let Some(column) = expr.downcast_ref::<Column>() {
            let found = self.columns.get(column.index());
            let (index, ty) = found.ok_or_else(|| unsupported("the column is not among the input's"))?;
            return Ok(Expr::column(*index, (*ty).clone()));
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            if number_of(literal).is_some() {
                return Err(unsupported("a parameter that is in no condition"));
            }
            return literal::literal(literal.value()).ok_or_else(|| unsupported("a constant of this type"));
        }
        if expr.is::<DynamicFilterPhysicalExpr>() {
            // A dynamic filter only drops rows early that a join or a top-k drops anyway.
            return Ok(Expr::bool(true));
        }
        if let Some(key) = SubqueryKey::of(expr) {
            let found = self.subqueries.iter().find(|(known, ..)| *known == key);
            let (_, index, ty) = found.ok_or_else(|| unsupported("the subquery is planned outside of this part"))?;
            return Ok(Expr::column(*index, (*ty).clone()));
        }
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.binary(expr, binary);
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            return convert(self.expr(cast.expr())?, cast.cast_type(), false);
        }
        if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
            return convert(self.expr(cast.expr())?, cast.cast_type(), true);
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            return Ok(negation(self.expr(not.arg())?));
        }
        if let Some(test) = expr.downcast_ref::<IsNullExpr>() {
            return Ok(null_test(self.expr(test.arg())?, true));
        }
        if let Some(test) = expr.downcast_ref::<IsNotNullExpr>() {
            return Ok(null_test(self.expr(test.arg())?, false));
        }
        if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
            return negate(self.expr(negative.arg())?).ok_or_else(|| unsupported("negation of this type"));
        }
        if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            return self.case(case, &self.data_type(expr)?);
        }
        if let Some(list) = expr.downcast_ref::<InListExpr>() {
            return self.in_list(list);
        }
        if let Some(like) = expr.downcast_ref::<LikeExpr>() {
            return self.like(expr, like.expr(), like.pattern(), like.case_insensitive(), like.negated());
        }
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            return self.call(expr, call);
        }
        Err(unsupported("this kind of expression"))
    }

    /// Translates a predicate into its conjuncts; omits those that are always true.
    pub fn conjuncts(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Vec<Expr>, Unsupported> {
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == Op::And) {
            let mut list = self.conjuncts(binary.left())?;
            list.extend(self.conjuncts(binary.right())?);
            return Ok(list);
        }
        let translated = self.expr(expr)?;
        if is_true(&translated) { Ok(vec![]) } else { Ok(vec![translated]) }
    }

    fn data_type(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<DataType, Unsupported> {
        expr.data_type(self.schema).map_err(|error| Unsupported::new(expr, error))
    }

    fn binary(&self, expr: &Arc<dyn PhysicalExpr>, binary: &BinaryExpr) -> Result<Expr, Unsupported> {
        let unsupported = |reason: &str| Unsupported::new(expr, reason);
        if let Some(interval) = self.add_interval(binary)? {
            return Ok(interval);
        }
        if let Some((case_insensitive, negated)) = like_operator(binary.op()) {
            return self.like(expr, binary.left(), binary.right(), case_insensitive, negated);
        }
        if is_bitwise(binary.op()) {
            return self.by_value(expr);
        }
        let (left, right) = (self.expr(binary.left())?, self.expr(binary.right())?);
        if let Some(op) = compare_operator(binary.op()) {
            return compare(op, left, right).ok_or_else(|| unsupported("comparison of these types"));
        }
        if let Some(op) = arith_operator(binary.op()) {
            return arith(op, left, right, &self.data_type(expr)?)
                .ok_or_else(|| unsupported("arithmetic on these types"));
        }
        match binary.op() {
            Op::And | Op::Or => Ok(connective(*binary.op() == Op::And, left, right)),
            Op::StringConcat => function::concat_operator(left, right),
            Op::RegexMatch | Op::RegexIMatch | Op::RegexNotMatch | Op::RegexNotIMatch => {
                let flags = matches!(binary.op(), Op::RegexIMatch | Op::RegexNotIMatch).then_some("i");
                let matched = function::regexp_like(left, right, flags)
                    .ok_or_else(|| unsupported("a regular expression that is not constant"))?;
                let negated = matches!(binary.op(), Op::RegexNotMatch | Op::RegexNotIMatch);
                Ok(if negated { negation(matched) } else { matched })
            }
            _ => Err(unsupported("this operator")),
        }
    }

    /// `x + interval`, `interval + x` or `x - interval` with a constant interval.
    fn add_interval(&self, binary: &BinaryExpr) -> Result<Option<Expr>, Unsupported> {
        let sign = match binary.op() {
            Op::Plus => 1,
            Op::Minus => -1,
            _ => return Ok(None),
        };
        let constant =
            |e: &Arc<dyn PhysicalExpr>| e.downcast_ref::<Literal>().and_then(|l| literal::interval(l.value()));
        let (input, (months, days, nanos)) = match (constant(binary.left()), constant(binary.right())) {
            (None, Some(interval)) => (binary.left(), interval),
            (Some(interval), None) if sign == 1 => (binary.right(), interval),
            _ => return Ok(None),
        };
        let input = self.expr(input)?;
        let phys = match input.ty.logical {
            DataType::Date32 => Phys::I32,
            DataType::Timestamp(_, None) => Phys::I64,
            _ => return Ok(None),
        };
        let (months, days, nanos) = (sign * months, sign * days, i64::from(sign) * nanos);
        let Some(ty) = ColType::of(&input.ty.logical, input.ty.nullable) else { return Ok(None) };
        let kind = ExprKind::AddInterval { input: Box::new(input.widen(phys)), months, days, nanos };
        Ok(Some(Expr { kind, ty: ty.widened(phys) }))
    }

    fn case(&self, case: &CaseExpr, logical: &DataType) -> Result<Expr, Unsupported> {
        let base = case.expr().map(|base| self.expr(base)).transpose()?;
        let (mut conditions, mut values) = (Vec::new(), Vec::new());
        for (when, then) in case.when_then_expr() {
            let condition = match &base {
                None => self.expr(when)?,
                Some(base) => compare(CompareOp::Eq, base.clone(), self.expr(when)?)
                    .ok_or_else(|| Unsupported::new(when, "comparison with the CASE operand"))?,
            };
            conditions.push(condition);
            values.push(self.expr(then)?);
        }
        let otherwise = match case.else_expr() {
            Some(e) if e.downcast_ref::<Literal>().is_some_and(|l| l.value().is_null()) => None,
            Some(e) => Some(self.expr(e)?),
            None => None,
        };
        let has_otherwise = otherwise.is_some();
        values.extend(otherwise);
        let (mut values, ty) = unify(values, logical)?;
        let ty = ty.with_nullable(ty.nullable || !has_otherwise);
        let otherwise = if has_otherwise { values.pop().map(Box::new) } else { None };
        let branches = conditions.into_iter().zip(values).collect();
        Ok(Expr { kind: ExprKind::Case { branches, otherwise }, ty })
    }

    fn in_list(&self, list: &InListExpr) -> Result<Expr, Unsupported> {
        let input = self.expr(list.expr())?;
        let items: Vec<Expr> = list.list().iter().map(|item| self.expr(item)).collect::<Result<_, _>>()?;
        compare::in_list(input, items, list.negated()).ok_or_else(|| Unsupported::new(list, "IN on these types"))
    }

    fn like(
        &self,
        whole: &Arc<dyn PhysicalExpr>,
        input: &Arc<dyn PhysicalExpr>,
        pattern: &Arc<dyn PhysicalExpr>,
        case_insensitive: bool,
        negated: bool,
    ) -> Result<Expr, Unsupported> {
        let input = self.expr(input)?;
        let ExprKind::Literal(Scalar::Str(pattern)) = self.expr(pattern)?.kind else {
            return Err(Unsupported::new(whole, "a pattern that is not constant"));
        };
        if !is_string(&input.ty.logical) {
            return Err(Unsupported::new(whole, "LIKE on this type"));
        }
        let ty = Expr::bool(true).ty.with_nullable(input.ty.nullable);
        let input = Box::new(input.widen(Phys::Str));
        Ok(Expr { kind: ExprKind::Like { input, pattern, escape: None, case_insensitive, negated }, ty })
    }
}

/// Whether `logical` is one of Arrow's string types.
pub(crate) fn is_string(logical: &DataType) -> bool {
    matches!(logical, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether `expr` is the constant true.
pub(crate) fn is_true(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Literal(Scalar::Bool(true)))
}

/// The negation of `expr`.
pub(crate) fn negation(expr: Expr) -> Expr {
    let ty = expr.ty.clone();
    match expr.kind {
        ExprKind::Literal(Scalar::Bool(value)) => Expr::bool(!value),
        ExprKind::Not(inner) => *inner,
        ExprKind::Like { input, pattern, escape, case_insensitive, negated } => {
            Expr { kind: ExprKind::Like { input, pattern, escape, case_insensitive, negated: !negated }, ty }
        }
        ExprKind::InList { input, list, has_null, negated } => {
            Expr { kind: ExprKind::InList { input, list, has_null, negated: !negated }, ty }
        }
        _ => Expr { kind: ExprKind::Not(Box::new(expr)), ty },
    }
}

/// `expr IS NULL` or `expr IS NOT NULL`.
fn null_test(expr: Expr, is_null: bool) -> Expr {
    if !expr.ty.nullable {
        return Expr::bool(!is_null);
    }
    let kind = if is_null { ExprKind::IsNull(Box::new(expr)) } else { ExprKind::IsNotNull(Box::new(expr)) };
    Expr { kind, ty: Expr::bool(true).ty }
}

/// `left AND right` or `left OR right`, without nesting.
pub(crate) fn connective(and: bool, left: Expr, right: Expr) -> Expr {
    let mut list = Vec::new();
    for side in [left, right] {
        match side.kind {
            // The neutral element adds nothing; the absorbing element decides, even against NULL.
            ExprKind::Literal(Scalar::Bool(value)) if value == and => {}
            ExprKind::Literal(Scalar::Bool(value)) => return Expr::bool(value),
            ExprKind::And(inner) if and => list.extend(inner),
            ExprKind::Or(inner) if !and => list.extend(inner),
            _ => list.push(side),
        }
    }
    match list.len() {
        0 => Expr::bool(and),
        1 => list.remove(0),
        _ => {
            let ty = Expr::bool(true).ty.with_nullable(list.iter().any(|e| e.ty.nullable));
            Expr { kind: if and { ExprKind::And(list) } else { ExprKind::Or(list) }, ty }
        }
    }
}

fn compare_operator(op: &Op) -> Option<CompareOp> {
    Some(match op {
        Op::Eq => CompareOp::Eq,
        Op::NotEq => CompareOp::Ne,
        Op::Lt => CompareOp::Lt,
        Op::LtEq => CompareOp::Le,
        Op::Gt => CompareOp::Gt,
        Op::GtEq => CompareOp::Ge,
        Op::IsDistinctFrom => CompareOp::IsDistinct,
        Op::IsNotDistinctFrom => CompareOp::IsNotDistinct,
        _ => return None,
    })
}

fn arith_operator(op: &Op) -> Option<ArithOp> {
    Some(match op {
        Op::Plus => ArithOp::Add,
        Op::Minus => ArithOp::Sub,
        Op::Multiply => ArithOp::Mul,
        Op::Divide => ArithOp::Div,
        Op::Modulo => ArithOp::Mod,
        _ => return None,
    })
}

/// Whether a LIKE operator is case insensitive, and whether it is negated.
fn like_operator(op: &Op) -> Option<(bool, bool)> {
    Some(match op {
        Op::LikeMatch => (false, false),
        Op::NotLikeMatch => (false, true),
        Op::ILikeMatch => (true, false),
        Op::NotILikeMatch => (true, true),
        _ => return None,
    })
}
