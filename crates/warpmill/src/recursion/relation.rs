//! Plans of recursive queries in FROM clauses. Names have been bound such that each recursive query is a derived table with a marked alias.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::sql::sqlparser::ast::{
    Ident, Query, SetExpr, SetOperator, SetQuantifier, TableAlias, TableFactor, With,
};

use super::{Added, Part, Queries, Recursion, nullable, result_fields, table_name};
use crate::dialect::query_of;

/// The beginning of the alias, which is followed by the number; no text has such a name.
const NAME: &str = "$ recursion ";

/// The alias of the derived table of the recursion `number`: a UNION of the first rows and the rows of a step, or with a key the INTERSECT of
/// this UNION with the aggregation by the key.
pub(crate) fn marker(number: u64) -> String {
    format!("{NAME}{number}")
}

/// Whether an alias marks a recursion.
pub(crate) fn is_marked(alias: Option<&TableAlias>) -> bool {
    number(alias).is_some()
}

fn number(alias: Option<&TableAlias>) -> Option<u64> {
    alias?.name.value.strip_prefix(NAME)?.parse().ok()
}

/// The parts of the query of a recursion.
struct Parts {
    first: SetExpr,
    step: SetExpr,
    dictionary: Option<SetExpr>,
    added: Added,
}

impl Parts {
    fn of(body: SetExpr) -> Option<Self> {
        match body {
            SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, left, right } => {
                let added = if set_quantifier == SetQuantifier::All { Added::All } else { Added::New };
                Some(Self { first: *left, step: *right, dictionary: None, added })
            }
            SetExpr::SetOperation { op: SetOperator::Intersect, left, right, .. } => {
                let parts = Self::of(*left)?;
                Some(Self { dictionary: Some(*right), ..parts })
            }
            _ => None,
        }
    }
}

/// The plan of the recursion in a marked derived table.
pub(crate) fn relation(
    query: Query,
    alias: TableAlias,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let Some(number) = number(Some(&alias)) else { return internal_err!("a recursive query without a number") };
    let Some(parts) = Parts::of(*query.body) else { return internal_err!("a recursive query that is no UNION") };
    let with = query.with;
    let first = context.plan(derived(with.clone(), parts.first, Some(alias)))?;
    let rows = nullable(&first);
    let register = |part: Part, schema: &SchemaRef, context: &mut dyn RelationPlannerContext| {
        let name = table_name(number, part);
        context.context_provider().create_cte_work_table(&name, Arc::clone(schema)).map(drop)
    };
    let dictionary = match parts.dictionary {
        Some(aggregation) => {
            register(Part::Candidates, &rows, context)?;
            Some(context.plan(derived(None, aggregation, None))?)
        }
        None => None,
    };
    let all: SchemaRef = Arc::new(Schema::new(result_fields(&first, dictionary.as_ref())));
    register(Part::Last, if parts.added == Added::New { &all } else { &rows }, context)?;
    register(Part::All, &all, context)?;
    let step = context.plan(derived(with, parts.step, None))?;
    Ok(Recursion::try_new(number, Queries { first, step, dictionary }, parts.added)?.plan())
}

/// A derived table.
fn derived(with: Option<With>, body: SetExpr, alias: Option<TableAlias>) -> TableFactor {
    let alias = alias.map(|alias| TableAlias { name: Ident::with_quote('"', "first"), ..alias });
    TableFactor::Derived { lateral: false, subquery: Box::new(Query { with, ..query_of(body) }), alias, sample: None }
}
