//! Rows of values, `(a, b)`: comparison value by value, and search in subqueries with several columns.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Query, SetExpr, TableAlias,
    TableFactor, UnaryOperator, Value,
};

use super::defaults::expression;
use super::pivot::parsed;
use super::scope::{combined, nested, operation, quoted};
use crate::{Error, Result};

/// The alias of a subquery that is searched for a row.
const ROW: &str = "__row";

/// Largest size in bytes of a statement's comparisons and searches of rows, each counted as often as surrounding ones repeat their values.
const MOST_BYTES: usize = 1 << 17;

/// The rewritten form of a comparison of rows, or of a search for a row in a subquery; `None` for other expressions. Adds its size to `bytes`: values
/// are repeated in the result, so that nested rows grow with every level.
///
/// Rows are ordered by their first different values, NULL above all others and equal to NULL, as structs in DuckDB. `IN`, and `ANY` and `ALL` with
/// `=` and `<>`, compare value by value, so that they may be NULL.
///
/// # Errors
/// [`Error::Limit`] for more than [`MOST_BYTES`].
pub(super) fn meaning(expr: &Expr, bytes: &mut usize) -> Result<Option<Expr>> {
    let mut count = || {
        *bytes += expr.to_string().len();
        match *bytes > MOST_BYTES {
            true => Err(Error::Limit(format!(
                "comparisons of rows within rows have more than {MOST_BYTES} bytes, which is the limit"
            ))),
            false => Ok(()),
        }
    };
    if let Expr::BinaryOp { left, op, right } = expr
        && let (Some(left), Some(right)) = (values(left), values(right))
        && left.len() == right.len()
    {
        count()?;
        return Ok(compared(&left, op, &right));
    }
    if let Some(found) = listed(expr) {
        count()?;
        return Ok(Some(found));
    }
    let Some(search) = searched(expr) else { return Ok(None) };
    count()?;
    search.value().map(Some)
}

/// A search for a row in a list of rows, or `IS [NOT] DISTINCT FROM` of rows: NULL equals NULL.
fn listed(expr: &Expr) -> Option<Expr> {
    let rows_of = |left: &Expr, right: &Expr| {
        let (left, right) = (values(left)?, values(right)?);
        (left.len() == right.len()).then_some((left, right))
    };
    let equal = |left: &Expr, right: &Expr| {
        let (left, right) = rows_of(left, right)?;
        compared(&left, &BinaryOperator::Eq, &right)
    };
    match expr {
        // Looked up where the types of the values allow it (`dialect/row_lists.rs`).
        Expr::InList { expr: row, list, .. } if std::iter::once(&**row).chain(list).all(is_plain_row) => None,
        Expr::InList { expr: row, list, negated } => {
            let any = list.iter().map(|other| equal(row, other)).collect::<Option<Vec<_>>>()?;
            let any = combined(any, &BinaryOperator::Or)?;
            Some(if *negated { not(nested(any)) } else { nested(any) })
        }
        Expr::IsNotDistinctFrom(left, right) => equal(left, right),
        Expr::IsDistinctFrom(left, right) => equal(left, right).map(not),
        _ => None,
    }
}

/// [`meaning`] where NULL counts as FALSE: in the conditions of WHERE, and the operands of AND and OR in them.
pub(super) fn in_condition(condition: &mut Expr) -> Result<()> {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            in_condition(left)?;
            in_condition(right)?;
        }
        Expr::Nested(inner) => in_condition(inner)?,
        other => {
            if let Some(search) = searched(other).filter(|search| !search.negated) {
                *other = search.exists(search.found())?;
            }
        }
    }
    Ok(())
}

/// Refuses a search for a row in a subquery whose number of columns, `fields`, differs from the row's; `alias` is the subquery's.
pub(super) fn check(alias: Option<&TableAlias>, fields: Option<usize>) -> Result<()> {
    match (alias.filter(|alias| alias.name.value == ROW), fields) {
        (Some(alias), Some(columns)) if columns != alias.columns.len() => {
            let expected = alias.columns.len();
            Err(Error::Plan(format!("Subquery returns {columns} columns - expected {expected}")))
        }
        _ => Ok(()),
    }
}

/// Whether a row consists of names and constants.
fn is_plain_row(row: &Expr) -> bool {
    let is_plain = |e: &Expr| matches!(e, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_));
    values(row).is_some_and(|values| values.iter().all(is_plain))
}

/// The values of a row.
fn values(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Nested(inner) => values(inner),
        Expr::Tuple(values) if values.len() > 1 => Some(values.clone()),
        Expr::Function(Function { name, args: FunctionArguments::List(list), filter: None, over: None, .. })
            if name.to_string().eq_ignore_ascii_case("row") && list.args.len() > 1 =>
        {
            let value = |arg: &FunctionArg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
                _ => None,
            };
            list.args.iter().map(value).collect()
        }
        _ => None,
    }
}

fn compared(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Option<Expr> {
    let equal = || all(left.iter().zip(right).map(|(a, b)| same(a, b)));
    Some(match op {
        BinaryOperator::Eq => nested(equal()),
        BinaryOperator::NotEq => not(nested(equal())),
        BinaryOperator::Lt => nested(below(left, right, false)),
        BinaryOperator::LtEq => nested(below(left, right, true)),
        BinaryOperator::Gt => nested(below(right, left, false)),
        BinaryOperator::GtEq => nested(below(right, left, true)),
        _ => return None,
    })
}

/// Whether row `left` is less than row `right`, or equal to it if `or_equal`.
fn below(left: &[Expr], right: &[Expr], or_equal: bool) -> Expr {
    let ([a, left @ ..], [b, right @ ..]) = (left, right) else { unreachable!("rows have values, and as many") };
    let further = match (left.is_empty(), or_equal) {
        (false, _) => Some(nested(below(left, right, or_equal))),
        (true, true) => None,
        (true, false) => return less(a, b),
    };
    let level = further.into_iter().fold(same(a, b), |level, further| operation(level, BinaryOperator::And, further));
    operation(less(a, b), BinaryOperator::Or, nested(level))
}

/// Whether `a` is less than `b`, with NULL above all others.
fn less(a: &Expr, b: &Expr) -> Expr {
    let known = operation(plain(a, BinaryOperator::Lt, b), BinaryOperator::And, is_known(a));
    if is_constant(b) {
        return nested(known);
    }
    let known = operation(known, BinaryOperator::And, is_known(b));
    let above = operation(is_known(a), BinaryOperator::And, Expr::IsNull(Box::new(nested(b.clone()))));
    nested(operation(nested(known), BinaryOperator::Or, nested(above)))
}

/// Whether `a` equals `b`, or both are NULL. Plain comparisons allow pruning of scans.
fn same(a: &Expr, b: &Expr) -> Expr {
    let (value, constant) = if is_constant(a) { (b, a) } else { (a, b) };
    match is_constant(constant) {
        true => nested(operation(plain(value, BinaryOperator::Eq, constant), BinaryOperator::And, is_known(value))),
        false => Expr::IsNotDistinctFrom(Box::new(nested(a.clone())), Box::new(nested(b.clone()))),
    }
}

fn is_constant(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if value.value != Value::Null)
}

fn plain(a: &Expr, op: BinaryOperator, b: &Expr) -> Expr {
    nested(operation(nested(a.clone()), op, nested(b.clone())))
}

fn is_known(value: &Expr) -> Expr {
    Expr::IsNotNull(Box::new(nested(value.clone())))
}

/// TRUE if `holds`, otherwise NULL if `unknown`, otherwise FALSE.
pub(super) fn three_valued(holds: Expr, unknown: Expr) -> Result<Expr> {
    let mut value = expression("CASE WHEN true THEN true WHEN true THEN NULL::BOOLEAN ELSE false END")?;
    if let Expr::Case { conditions, .. } = &mut value {
        conditions[0].condition = holds;
        conditions[1].condition = unknown;
    }
    Ok(nested(value))
}

/// A comparison of a row with the rows of a subquery: whether it holds for one of them.
struct Search {
    values: Vec<Expr>,
    op: BinaryOperator,
    subquery: Query,
    negated: bool,
}

fn searched(expr: &Expr) -> Option<Search> {
    let (row, op, subquery, negated) = match expr {
        Expr::InSubquery { expr, subquery, negated } => (expr, BinaryOperator::Eq, subquery, *negated),
        Expr::AnyOp { left, compare_op, right, .. } => match &**right {
            Expr::Subquery(subquery) => (left, compare_op.clone(), subquery, false),
            _ => return None,
        },
        // ALL: the opposite does not hold for any of them.
        Expr::AllOp { left, compare_op, right } => match &**right {
            Expr::Subquery(subquery) => (left, opposite(compare_op)?, subquery, true),
            _ => return None,
        },
        _ => return None,
    };
    let search = Search { values: values(row)?, op, subquery: (**subquery).clone(), negated };
    opposite(&search.op).map(|_| search)
}

/// The negated comparison operator.
fn opposite(op: &BinaryOperator) -> Option<BinaryOperator> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    Some(match op {
        Eq => NotEq,
        NotEq => Eq,
        Lt => GtEq,
        LtEq => Gt,
        Gt => LtEq,
        GtEq => Lt,
        _ => return None,
    })
}

impl Search {
    /// TRUE, FALSE or NULL.
    fn value(&self) -> Result<Expr> {
        if !matches!(self.op, BinaryOperator::Eq | BinaryOperator::NotEq) {
            let found = self.exists(self.found())?;
            return Ok(if self.negated { not(found) } else { found });
        }
        let unknown = || Expr::IsNull(Box::new(nested(self.found())));
        let any_null = |values: &mut dyn Iterator<Item = Expr>| {
            let nulls = values.map(|value| Expr::IsNull(Box::new(nested(value))));
            nested(nulls.reduce(|one, other| operation(one, BinaryOperator::Or, other)).expect("a row has values"))
        };
        // Rows with NULLs are usually few: each side is tested separately.
        let theirs = any_null(&mut (0..self.values.len()).map(column));
        let own = any_null(&mut self.values.iter().cloned());
        let theirs = self.exists(operation(theirs, BinaryOperator::And, unknown()))?;
        let own = self.exists(operation(own, BinaryOperator::And, unknown()))?;
        let value = three_valued(self.exists(self.found())?, operation(theirs, BinaryOperator::Or, own))?;
        Ok(if self.negated { not(value) } else { value })
    }

    /// Whether the comparison holds for a row of the subquery.
    fn found(&self) -> Expr {
        let equal = || {
            let pairs = self.values.iter().enumerate();
            all(pairs.map(|(at, value)| operation(column(at), BinaryOperator::Eq, nested(value.clone()))))
        };
        let columns: Vec<Expr> = (0..self.values.len()).map(column).collect();
        match self.op {
            BinaryOperator::Eq => equal(),
            BinaryOperator::NotEq => not(nested(equal())),
            _ => compared(&self.values, &self.op, &columns).expect("rows are compared so"),
        }
    }

    /// Whether the subquery has a row that satisfies a condition.
    fn exists(&self, condition: Expr) -> Result<Expr> {
        let names = (0..self.values.len()).map(|at| column(at).to_string()).collect::<Vec<_>>().join(", ");
        let mut query = parsed(&format!("SELECT 1 FROM (SELECT 1) AS \"{ROW}\" ({names}) WHERE true"))?;
        if let SetExpr::Select(select) = query.body.as_mut() {
            if let TableFactor::Derived { subquery, .. } = &mut select.from[0].relation {
                **subquery = self.subquery.clone();
            }
            select.selection = Some(condition);
        }
        Ok(Expr::Exists { subquery: Box::new(query), negated: false })
    }
}

/// A unique name for a column of the subquery.
fn column(at: usize) -> Expr {
    Expr::Identifier(quoted(&format!("__row_{at}")))
}

fn all(conditions: impl Iterator<Item = Expr>) -> Expr {
    conditions.reduce(|one, other| operation(one, BinaryOperator::And, other)).expect("a row has values")
}

fn not(expr: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) }
}
