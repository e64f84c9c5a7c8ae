//! Rows of INSERTs as expressions over the constants of their texts.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::datasource::source_as_provider;
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, Projection, Volatility, WriteOp};
use datafusion::physical_expr::PhysicalExpr;
use warpmill_format::table::{Constraint, Identity};
use warpmill_format::{Table, TableSnapshot};
use warpmill_translate::parameters::metadata;

use super::text::Rows;
use crate::ScalarValue;
use crate::catalog::WarpmillTable;
use crate::dialect;
use crate::session::constraints::Checks;
use crate::session::ddl::default_of;
use crate::session::query::with_nullable_rows;
use crate::templates::parameters::{numbered, without_number};

/// The prefix of the columns that stand for constants, which no name in a statement has.
const CONSTANT: &str = "$ constant ";

/// The rows of an INSERT, for all constants of texts with the same key.
#[derive(Debug)]
pub(super) struct Learned {
    /// Constants that must have these values, by position.
    fixed: Vec<(usize, ScalarValue)>,
    rows: Compiled,
    /// The table's columns, nullable.
    schema: SchemaRef,
    target: Target,
    /// The CHECK conditions of the table, and the state of the catalog that they were planned with.
    checks: Option<(Arc<Checks>, u64)>,
}

/// Rows as expressions over a row of constants.
#[derive(Debug)]
struct Compiled {
    /// The columns of the row of constants.
    constants: SchemaRef,
    /// For each row, the values of its columns.
    rows: Vec<Vec<Arc<dyn PhysicalExpr>>>,
}

/// The table of a learned INSERT: it is the same one as long as these are equal.
#[derive(Debug)]
struct Target {
    identity: Option<Identity>,
    schema: SchemaRef,
    constraints: Arc<[Constraint]>,
}

impl Target {
    fn of(snapshot: &TableSnapshot) -> Self {
        let (schema, constraints) = (Arc::clone(snapshot.schema()), Arc::clone(snapshot.constraints()));
        Self { identity: snapshot.identity(), schema, constraints }
    }

    fn is(&self, snapshot: &TableSnapshot) -> bool {
        self.identity == snapshot.identity()
            && self.schema == *snapshot.schema()
            && self.constraints == *snapshot.constraints()
    }
}

impl Learned {
    /// The rows of the text `rows`, which has been planned as `usual`; `None` where they may depend on the text's constants otherwise than through
    /// expressions. `table` is the table that its name means, `catalog` the state of the catalog.
    ///
    /// The text is bound again with numbered parameters in place of its constants. Numbers are lost as soon as something computes with the values.
    pub async fn of(
        rows: &Rows<'_>,
        usual: &LogicalPlan,
        table: &Arc<Table>,
        catalog: u64,
        state: &Arc<SessionState>,
    ) -> Option<Self> {
        let snapshot = appended(usual).filter(|appended| Arc::ptr_eq(&appended.table, table))?.snapshot;
        // The text of a default may call macros, which have other meanings later.
        let calls = |field: &Arc<Field>| default_of(field).is_some_and(|default| default.contains('('));
        if snapshot.schema().fields().iter().any(calls) {
            return None;
        }
        let target = Target::of(&snapshot);
        let checks = Checks::planned(state, &target.schema, &target.constraints, rows.table.table()).await.ok()?;
        let checks = checks.map(|checks| (checks, catalog));
        let expected = Compiled::of(&written(usual)?, &[], state)?.columns(&[])?;
        let mut chosen: BTreeSet<usize> = (0..rows.shape.constants.len()).collect();
        // First with all constants as parameters, then only with those that reached the rows.
        for _ in 0..2 {
            let values = values_with(rows, &chosen, table, &target, state).await?;
            let arrived = numbers(&values)?;
            if arrived == chosen && !chosen.is_empty() {
                let compiled = Compiled::of(&values, &rows.shape.constants, state)?;
                if compiled.columns(&rows.shape.constants)? != expected {
                    return None;
                }
                let fixed = rows.shape.constants.iter().enumerate().filter(|(at, _)| !chosen.contains(at));
                let fixed = fixed.map(|(at, value)| (at, value.clone())).collect();
                let learned = Self { fixed, rows: compiled, schema: nullable(&snapshot), target, checks };
                return learned.rows(&rows.shape.constants).is_some().then_some(learned);
            }
            chosen.retain(|number| arrived.contains(number));
        }
        None
    }

    /// Whether a text with the same key and these constants writes such rows.
    pub fn is_of(&self, constants: &[ScalarValue]) -> bool {
        self.fixed.iter().all(|(at, value)| constants.get(*at) == Some(value))
    }

    /// Whether it is of few constants, or of one state of the catalog.
    pub fn is_narrow(&self) -> bool {
        !self.fixed.is_empty() || self.checks.is_some()
    }

    /// Whether it still holds for `snapshot` of the table that its name means now, in this state of the catalog.
    pub fn holds(&self, snapshot: &TableSnapshot, catalog: u64) -> bool {
        self.target.is(snapshot) && self.checks.as_ref().is_none_or(|(_, planned)| *planned == catalog)
    }

    /// The CHECK conditions of the table.
    pub fn checks(&self) -> Option<Arc<Checks>> {
        self.checks.as_ref().map(|(checks, _)| Arc::clone(checks))
    }

    /// The rows for the constants of a text; `None` where they have to be planned, as after an error, which the planned statement reports.
    pub fn rows(&self, constants: &[ScalarValue]) -> Option<RecordBatch> {
        RecordBatch::try_new(Arc::clone(&self.schema), self.rows.columns(constants)?).ok()
    }
}

impl Compiled {
    /// The physical expressions of `values`, in which numbered literals stand for `constants`.
    fn of(values: &[Vec<Expr>], constants: &[ScalarValue], state: &SessionState) -> Option<Self> {
        let field = |(at, value): (usize, &ScalarValue)| Field::new(format!("{CONSTANT}{at}"), value.data_type(), true);
        let schema = Arc::new(Schema::new(constants.iter().enumerate().map(field).collect::<Vec<_>>()));
        let columns = Arc::new(DFSchema::try_from(Arc::clone(&schema)).ok()?);
        let mut rows = vec![];
        for row in values {
            let named =
                row.iter().enumerate().map(|(at, value)| read_from_columns(value.clone()).alias(at.to_string()));
            let leaf = EmptyRelation { produce_one_row: true, schema: Arc::clone(&columns) };
            let leaf = Arc::new(LogicalPlan::EmptyRelation(leaf));
            let projection = Projection::try_new(named.collect(), leaf).ok()?;
            let typed = state.optimize(&LogicalPlan::Projection(projection)).ok()?;
            let typed = rows_of(&typed)?.into_iter().next().filter(|typed| typed.len() == row.len())?;
            let physical = |value: Expr| state.create_physical_expr(value, &columns).ok();
            rows.push(typed.into_iter().map(physical).collect::<Option<Vec<_>>>()?);
        }
        Some(Self { constants: schema, rows })
    }

    /// The columns of the rows for these constants; `None` after an error, or where a constant has another type.
    fn columns(&self, constants: &[ScalarValue]) -> Option<Vec<ArrayRef>> {
        let one = constants.iter().map(|value| value.to_array().ok()).collect::<Option<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let one = RecordBatch::try_new_with_options(Arc::clone(&self.constants), one, &options).ok()?;
        let value = |value: &Arc<dyn PhysicalExpr>| value.evaluate(&one).ok()?.into_array(1).ok();
        let mut columns: Vec<Vec<ArrayRef>> = vec![vec![]; self.rows.first()?.len()];
        for row in &self.rows {
            for (column, expr) in columns.iter_mut().zip(row) {
                column.push(value(expr)?);
            }
        }
        let whole = |parts: Vec<ArrayRef>| match parts.as_slice() {
            [one] => Some(Arc::clone(one)),
            parts => concat(&parts.iter().map(|part| part.as_ref() as &dyn Array).collect::<Vec<_>>()).ok(),
        };
        columns.into_iter().map(whole).collect()
    }
}

/// The rows that a text writes, bound with numbered parameters in place of the `chosen` constants; `None` where it writes another table than `table`
/// as `target` describes it.
async fn values_with(
    rows: &Rows<'_>,
    chosen: &BTreeSet<usize>,
    table: &Arc<Table>,
    target: &Target,
    state: &SessionState,
) -> Option<Vec<Vec<Expr>>> {
    let (text, given) = rows.shape.with_parameters(chosen);
    let given = given.into_iter().map(|(value, number)| ScalarAndMetadata::new(value, number.map(metadata)));
    let plan = dialect::logical_plan(state, &text, &given.collect::<Vec<_>>()).await.ok()?;
    let plan = with_nullable_rows(plan).ok()?;
    let own = appended(&plan)?;
    if Arc::ptr_eq(&own.table, table) && target.is(&own.snapshot) { written(&plan) } else { None }
}

/// The target of an INSERT.
struct Appended {
    table: Arc<Table>,
    snapshot: Arc<TableSnapshot>,
}

/// The table that an INSERT appends to.
fn appended(plan: &LogicalPlan) -> Option<Appended> {
    let LogicalPlan::Dml(dml) = plan else { return None };
    if !matches!(dml.op, WriteOp::Insert(InsertOp::Append)) {
        return None;
    }
    let provider = source_as_provider(&dml.target).ok()?;
    let table = provider.downcast_ref::<WarpmillTable>()?;
    Some(Appended { table: Arc::clone(table.table()), snapshot: Arc::clone(table.snapshot()) })
}

/// The rows that an INSERT writes, if they are constants.
fn written(plan: &LogicalPlan) -> Option<Vec<Vec<Expr>>> {
    let LogicalPlan::Dml(dml) = plan else { return None };
    let rows = rows_of(&dml.input)?;
    rows.iter().flatten().all(is_immutable).then_some(rows)
}

/// The rows of a plan as expressions over the columns of its leaf; `None` for other operators than lists of values and projections of them.
fn rows_of(plan: &LogicalPlan) -> Option<Vec<Vec<Expr>>> {
    match plan {
        LogicalPlan::Values(list) => Some(list.values.clone()),
        LogicalPlan::EmptyRelation(one) if one.produce_one_row => {
            Some(vec![one.schema.columns().into_iter().map(Expr::Column).collect()])
        }
        LogicalPlan::SubqueryAlias(named) => rows_of(&named.input),
        LogicalPlan::Projection(projection) => {
            let schema = projection.input.schema();
            let row = |values: Vec<Expr>| {
                let column = |expr: Expr| match &expr {
                    Expr::Column(column) => {
                        let value = values.get(schema.index_of_column(column)?);
                        Ok(value.map_or_else(|| Transformed::no(expr.clone()), |value| Transformed::yes(value.clone())))
                    }
                    Expr::Alias(named) => Ok(Transformed::yes(named.expr.as_ref().clone())),
                    _ => Ok(Transformed::no(expr)),
                };
                let exprs = projection.expr.iter();
                exprs
                    .map(|expr| expr.clone().transform_up(column).ok().map(|done| done.data))
                    .collect::<Option<Vec<_>>>()
            };
            rows_of(&projection.input)?.into_iter().map(row).collect()
        }
        _ => None,
    }
}

/// Whether the value of an expression depends on nothing but its literals and columns.
fn is_immutable(expr: &Expr) -> bool {
    let varies = |expr: &Expr| match expr {
        Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
        Expr::ScalarVariable(..) | Expr::Placeholder(_) | Expr::HigherOrderFunction(_) => true,
        Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::OuterReferenceColumn(..) => true,
        _ => false,
    };
    !expr.exists(|expr| Ok(varies(expr))).unwrap_or(true)
}

/// The numbers of the literals in rows.
fn numbers(rows: &[Vec<Expr>]) -> Option<BTreeSet<usize>> {
    let mut found = BTreeSet::new();
    for expr in rows.iter().flatten() {
        let noted = expr.apply(|expr| {
            found.extend(numbered(expr));
            Ok(TreeNodeRecursion::Continue)
        });
        noted.ok()?;
    }
    Some(found)
}

/// `expr` with columns in place of numbered literals.
fn read_from_columns(expr: Expr) -> Expr {
    let column = |expr: Expr| match numbered(&expr) {
        Some(number) => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(format!("{CONSTANT}{number}"))))),
        None => Ok(without_number(expr)),
    };
    expr.clone().transform_up(column).map_or(expr, |done| done.data)
}

/// The columns of the table, nullable: the writer refuses NULLs itself.
fn nullable(snapshot: &TableSnapshot) -> SchemaRef {
    let fields = snapshot.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), HashMap::new()))
}
