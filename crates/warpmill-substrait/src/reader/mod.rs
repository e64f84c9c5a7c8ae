//! Translation of Substrait plans to logical plans of DataFusion.
//!
//! Substrait refers to columns by position, DataFusion by name. A reader that keeps the tables' column names cannot distinguish the two sides of a
//! self-join, and returns wrong rows for some correlated subqueries. Here every relation becomes [`Rows`]: a plan, and the plan's column for each
//! position. Every read of a table has a unique alias and every computed column a unique name, so that a column has one meaning anywhere in the plan,
//! and an output mapping only permutes positions.

mod aggregate;
mod cast;
mod expression;
mod function;
mod join;
mod literal;
mod read;
mod relation;
mod subquery;
mod tables;
#[cfg(test)]
mod tests;
mod types;
mod window;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::{Column, DFSchema, DFSchemaRef, ScalarValue, TableReference};
use datafusion::execution::SessionState;
use datafusion::logical_expr::builder::project;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion_substrait::substrait::proto::{Plan, PlanRel, Rel, plan_rel};
use warpmill::Session;

use crate::declarations::Declarations;
use crate::error::{Result, invalid, required, unsupported};

/// Relations that a plan may have after references to other relations are followed.
const MAX_RELATIONS: usize = 20_000;

/// The logical plan of `plan` over the tables of `session`.
pub(crate) fn read(session: &Session, plan: &Plan) -> Result<LogicalPlan> {
    let declarations = Declarations::of(plan)?;
    let (relation, names) = root(plan)?;
    let mut reader = Reader {
        session,
        state: session.context().state(),
        declarations: &declarations,
        relations: &plan.relations,
        parameters: parameters(plan, &declarations)?,
        of_datafusion: plan
            .version
            .as_ref()
            .is_some_and(|version| ["datafusion", crate::writer::PRODUCER].contains(&version.producer.as_str())),
        outer: vec![],
        aliases: HashSet::new(),
        computed: 0,
        relations_left: MAX_RELATIONS,
    };
    let rows = reader.relation(relation)?;
    reader.named(rows, names)
}

/// The root relation, and the names of its columns.
fn root(plan: &Plan) -> Result<(&Rel, &[String])> {
    let mut roots = plan.relations.iter().filter_map(|relation| match &relation.rel_type {
        Some(plan_rel::RelType::Root(root)) => Some(root),
        _ => None,
    });
    match (roots.next(), roots.next()) {
        (Some(_), Some(_)) => unsupported("plan of more than one root"),
        (Some(root), None) => Ok((required(root.input.as_ref(), "the input of the root")?, &root.names)),
        (None, _) => match plan.relations.as_slice() {
            [PlanRel { rel_type: Some(plan_rel::RelType::Rel(relation)) }] => Ok((relation, &[])),
            _ => unsupported("plan of several relations without a root"),
        },
    }
}

fn parameters(plan: &Plan, declarations: &Declarations) -> Result<HashMap<u32, ScalarValue>> {
    let bound = |binding: &datafusion_substrait::substrait::proto::DynamicParameterBinding| {
        let value = required(binding.value.as_ref(), "the value of a parameter")?;
        Ok((binding.parameter_anchor, literal::literal(value, declarations)?))
    };
    plan.parameter_bindings.iter().map(bound).collect()
}

/// The state of reading a plan.
struct Reader<'a> {
    session: &'a Session,
    state: SessionState,
    declarations: &'a Declarations,
    relations: &'a [PlanRel],
    parameters: HashMap<u32, ScalarValue>,
    /// Whether DataFusion made the plan: its grouping sets have additional columns.
    of_datafusion: bool,
    /// The rows around the subquery that is read, outermost first.
    outer: Vec<Scope>,
    /// Names of tables that are taken.
    aliases: HashSet<String>,
    /// Computed columns so far.
    computed: usize,
    relations_left: usize,
}

/// The column at a position.
#[derive(Debug, Clone)]
struct Slot {
    column: Column,
    /// Largest length of a string in characters, if the plan declares it.
    chars: Option<u32>,
}

/// A relation: a plan, and its columns in Substrait's order.
#[derive(Debug, Clone)]
struct Rows {
    plan: LogicalPlan,
    slots: Vec<Slot>,
}

/// The targets of field references in an expression.
#[derive(Debug, Clone)]
struct Scope {
    slots: Vec<Slot>,
    schema: DFSchemaRef,
}

impl Scope {
    fn field(&self, position: i32) -> Result<&Slot> {
        let slot = usize::try_from(position).ok().and_then(|position| self.slots.get(position));
        match slot {
            Some(slot) => Ok(slot),
            None => invalid(format!("field {position} of {} fields is referred to", self.slots.len())),
        }
    }

    fn arrow_field(&self, slot: &Slot) -> Result<FieldRef> {
        Ok(Arc::clone(self.schema.qualified_field_from_column(&slot.column)?.1))
    }
}

impl Rows {
    /// The rows of a plan, with each of its columns at its own position.
    fn of(plan: LogicalPlan) -> Self {
        let slots = plan.schema().columns().into_iter().map(|column| Slot { column, chars: None }).collect();
        Self { plan, slots }
    }

    fn scope(&self) -> Scope {
        Scope { slots: self.slots.clone(), schema: Arc::clone(self.plan.schema()) }
    }

    /// The distinct columns of all positions.
    fn columns(&self) -> Vec<Expr> {
        let mut seen: Vec<&Column> = Vec::with_capacity(self.slots.len());
        for slot in &self.slots {
            if !seen.contains(&&slot.column) {
                seen.push(&slot.column);
            }
        }
        seen.into_iter().cloned().map(Expr::Column).collect()
    }

    /// A plan with exactly one column for each position.
    fn exactly(self) -> Result<LogicalPlan> {
        let columns = self.columns();
        if columns.len() < self.slots.len() {
            return unsupported("relation that has a column twice, at this place");
        }
        Ok(project(self.plan, columns)?)
    }
}

impl Reader<'_> {
    /// A unique name for a table in the plan: its own, if not used yet.
    fn alias(&mut self, name: &str) -> TableReference {
        let mut alias = name.to_string();
        let mut count = 1;
        while !self.aliases.insert(alias.clone()) {
            count += 1;
            alias = format!("{name}_{count}");
        }
        TableReference::bare(alias)
    }

    /// A name for a computed column that no other column has.
    fn column_name(&mut self) -> String {
        self.computed += 1;
        format!("${}", self.computed)
    }

    /// `rows` with additional columns; expressions that are columns already are not computed again.
    fn extended(&mut self, rows: Rows, added: Vec<(Expr, Option<u32>)>) -> Result<Rows> {
        let mut slots = rows.slots.clone();
        let mut projected = rows.columns();
        let before = projected.len();
        for (expr, chars) in added {
            let column = match expr {
                Expr::Column(column) => column,
                expr => {
                    let name = self.column_name();
                    projected.push(expr.alias(&name));
                    Column::new_unqualified(name)
                }
            };
            slots.push(Slot { column, chars });
        }
        let plan = if projected.len() == before { rows.plan } else { project(rows.plan, projected)? };
        Ok(Rows { plan, slots })
    }

    /// The result of the plan, with columns `names`.
    fn named(&mut self, rows: Rows, names: &[String]) -> Result<LogicalPlan> {
        let names = self.column_names(&rows, names)?;
        let columns = rows.slots.iter().zip(&names).map(|(slot, name)| {
            // Columns with equal names are distinguished by table names, which results do not show.
            let repeated = names.iter().filter(|other| *other == name).count() > 1;
            let table = repeated.then(|| TableReference::bare(self.column_name()));
            Expr::Column(slot.column.clone()).alias_qualified(table, name)
        });
        let columns: Vec<_> = columns.collect();
        Ok(project(rows.plan, columns)?)
    }

    /// A name for each column; `names` also contains those of nested fields, or is empty.
    fn column_names(&self, rows: &Rows, names: &[String]) -> Result<Vec<String>> {
        if names.is_empty() {
            return Ok(rows.slots.iter().map(|slot| slot.column.name.clone()).collect());
        }
        let scope = rows.scope();
        let mut left = names.iter();
        let mut found = Vec::with_capacity(rows.slots.len());
        for slot in &rows.slots {
            found.push(required(left.next(), "the name of a column of the root")?.clone());
            for _ in 0..types::nested_names(scope.arrow_field(slot)?.data_type()) {
                required(left.next(), "the name of a nested field of the root")?;
            }
        }
        match left.count() {
            0 => Ok(found),
            more => invalid(format!("the root has {more} names too many")),
        }
    }
}

/// The type of an expression over `schema`.
fn type_of(expr: &Expr, schema: &DFSchema) -> Result<arrow::datatypes::DataType> {
    Ok(expr.get_type(schema)?)
}
