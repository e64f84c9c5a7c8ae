//! Recursive queries that name outer columns: one recursion computes the rows of all values, each row with its value.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, Result};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableScan};

use super::Rewriter;
use super::dependent::{Dependent, Domain};
use crate::recursion::{Added, Part, Queries, Recursion, StepTable, nullable, result_fields};

/// A recursion's tables extended by the domain's values.
#[derive(Debug, Clone, Default)]
pub(super) struct WithValues {
    /// The names of the columns that have the values.
    names: Vec<String>,
    tables: Vec<(Part, SchemaRef)>,
}

/// Such recursions by number.
pub(super) type Recursions = HashMap<u64, WithValues>;

impl Rewriter {
    /// The rows of a recursion for each value of `domain`.
    pub(super) fn dependent_recursion(&self, recursion: &Recursion, domain: &Domain<'_>) -> Result<Dependent> {
        let (name, number) = (self.name("outer"), recursion.number());
        let names: Vec<String> = (0..domain.columns.len()).map(|at| format!("{name}_{at}")).collect();
        let first = self.with_values(recursion.first(), domain, &names)?;
        let rows = nullable(&first);
        let around = self.recursions.borrow_mut().remove(&number);
        let tables = vec![(Part::Candidates, Arc::clone(&rows))];
        self.recursions.borrow_mut().insert(number, WithValues { names: names.clone(), tables });
        let aggregated = |plan: &LogicalPlan| self.with_values(plan, domain, &names);
        let dictionary = recursion.dictionary().map(aggregated).transpose();
        let step = dictionary.and_then(|dictionary| {
            let all: SchemaRef = Arc::new(Schema::new(result_fields(&first, dictionary.as_ref())));
            let last = if recursion.added() == Added::New { &all } else { &rows };
            let tables = vec![(Part::Last, Arc::clone(last)), (Part::All, Arc::clone(&all))];
            self.recursions.borrow_mut().insert(number, WithValues { names: names.clone(), tables });
            Ok((self.with_values(recursion.step(), domain, &names)?, dictionary))
        });
        let mut recursions = self.recursions.borrow_mut();
        recursions.remove(&number);
        recursions.extend(around.map(|around| (number, around)));
        let (step, dictionary) = step?;
        let plan = Recursion::try_new(number, Queries { first, step, dictionary }, recursion.added())?.plan();
        Ok(Dependent { plan, keys: names.into_iter().map(Column::new_unqualified).collect() })
    }

    /// The rows of `plan` for each value of `domain`, which is appended in columns with these names.
    fn with_values(&self, plan: &LogicalPlan, domain: &Domain<'_>, names: &[String]) -> Result<LogicalPlan> {
        let columns = plan.schema().columns();
        let Dependent { plan, keys } = self.dependent(plan.clone(), domain)?;
        let mut exprs: Vec<Expr> = columns.into_iter().map(Expr::Column).collect();
        exprs.extend(keys.into_iter().zip(names).map(|(key, name)| Expr::Column(key).alias(name)));
        LogicalPlanBuilder::from(plan).project(exprs)?.build()
    }

    /// The scan of a recursion's table with the domain's values; `None` where the table has none.
    pub(super) fn dependent_scan(&self, scan: &TableScan) -> Result<Option<Dependent>> {
        let Some(table) = StepTable::of(scan) else { return Ok(None) };
        let recursions = self.recursions.borrow();
        let Some(with_values) = recursions.get(&table.number()) else { return Ok(None) };
        let Some((_, whole)) = with_values.tables.iter().find(|(part, _)| *part == table.part()) else {
            return Ok(None);
        };
        // The columns of the planned table: columns of the whole query may be nullable where these are not.
        let own = table.columns();
        let values = whole.fields()[own.fields().len()..].iter().cloned();
        let fields: Vec<Arc<Field>> = own.fields().iter().cloned().chain(values).collect();
        let width = fields.len();
        let schema = Arc::new(Schema::new(fields));
        let with = StepTable::new(table.number(), table.part(), schema);
        let projection = scan
            .projection
            .as_ref()
            .map(|columns| columns.iter().copied().chain(own.fields().len()..width).collect::<Vec<_>>());
        let source = provider_as_source(Arc::new(with));
        let plan = LogicalPlanBuilder::scan(scan.table_name.clone(), source, projection)?.build()?;
        let names = with_values.names.iter();
        let keys = names.map(|name| Column::new(Some(scan.table_name.clone()), name.clone())).collect();
        Ok(Some(Dependent { plan, keys }))
    }

    /// Whether `plan` reads a recursion's table with domain values.
    pub(super) fn reads_values(&self, plan: &LogicalPlan) -> Result<bool> {
        let recursions = self.recursions.borrow();
        if recursions.is_empty() {
            return Ok(false);
        }
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                found |= StepTable::of(scan).is_some_and(|table| recursions.contains_key(&table.number()));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(found)
    }
}
