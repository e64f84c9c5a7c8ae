//! The types of UNION, INTERSECT and EXCEPT, and of the recursive steps of recursive queries.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::{Distinct, Join, LogicalPlan, LogicalPlanBuilder, RecursiveQuery, TableScan, Union};

use super::bind::{bind, retyped};
use super::types::{common, is_text};
use super::{castable, enums, states, uuids};
use crate::recursion::{Added, Part, Queries, Recursion, nullable, result_fields};

fn columns(input: &LogicalPlan) -> Vec<DataType> {
    input.schema().fields().iter().map(|field| field.data_type().clone()).collect()
}

/// The types that hold the rows of all inputs; `None` where the inputs have them already, or where no such types exist.
fn types_of_all(inputs: &[&LogicalPlan]) -> Result<Option<Vec<DataType>>> {
    let Some((first, others)) = inputs.split_first() else { return Ok(None) };
    let mut types = columns(first);
    let mut mixed = false;
    for input in others {
        for (ty, other) in types.iter_mut().zip(columns(input)) {
            mixed |= *ty != other;
            if !states::is_state(ty) {
                castable::check_pair(ty, &other)?;
            }
            match stacked(ty, &other) {
                Some(both) => *ty = both,
                None if ty.is_null() => *ty = other,
                None => {}
            }
        }
    }
    let fits = |input: &&LogicalPlan| {
        columns(input)
            .iter()
            .zip(&types)
            .all(|(from, to)| from == to || from.is_null() || stacked(to, from).as_ref() == Some(to))
    };
    let found = mixed && inputs.iter().all(fits);
    Ok(found.then_some(types))
}

/// Casts the branches of a UNION to types that hold the rows of all.
pub(super) fn branches(union: Union) -> Result<Union> {
    let all: Vec<&LogicalPlan> = union.inputs.iter().map(AsRef::as_ref).collect();
    let Some(types) = types_of_all(&all)? else {
        // Values may have other types than when the statement was planned.
        let are_same = all.iter().all(|input| columns(input) == columns(all[0]));
        let is_known = union.schema.fields().iter().map(|field| field.data_type()).eq(&columns(all[0]));
        return if are_same && !is_known { Union::try_new(union.inputs) } else { Ok(union) };
    };
    let inputs = union.inputs.into_iter().map(|input| retyped(Arc::unwrap_or_clone(input), &types).map(Arc::new));
    Union::try_new(inputs.collect::<Result<_>>()?)
}

/// The type of a column of a set operation whose branches have both types: text, where one of them is text.
fn stacked(left: &DataType, right: &DataType) -> Option<DataType> {
    if states::is_state(left) && (states::is_state(right) || right.is_null()) {
        return Some(left.clone());
    }
    if let Some(ty) = uuids::stacked(left, right).or_else(|| enums::common(left, right)) {
        return Some(ty);
    }
    let is_plain = |ty: &DataType| !ty.is_nested() && !ty.is_null() && !ty.is_binary();
    match is_text(left) != is_text(right) && is_plain(left) && is_plain(right) {
        true => Some(DataType::Utf8),
        false => common(left, right),
    }
}

/// The inputs of an INTERSECT or EXCEPT whose types differ.
pub(super) struct Sides {
    left: LogicalPlan,
    right: LogicalPlan,
}

/// The inputs of a join that DataFusion has made of an INTERSECT or EXCEPT: only these are semi or anti joins with NULLs equal.
pub(super) fn sides(join: &Join) -> Option<Sides> {
    let LogicalPlan::Distinct(Distinct::All(left)) = &*join.left else { return None };
    let is_set = matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.on.len() == left.schema().fields().len();
    let sides = Sides { left: LogicalPlan::clone(left), right: LogicalPlan::clone(&join.right) };
    (is_set && columns(&sides.left) != columns(&sides.right)).then_some(sides)
}

impl Sides {
    /// The operation with its inputs cast to types that hold the rows of both.
    pub(super) fn alike(self, join_type: JoinType) -> Result<LogicalPlan> {
        let Self { mut left, mut right } = self;
        if let Some(types) = types_of_all(&[&left, &right])? {
            (left, right) = (retyped(left, &types)?, retyped(right, &types)?);
        }
        match join_type {
            JoinType::LeftSemi => LogicalPlanBuilder::intersect(left, right, false),
            _ => LogicalPlanBuilder::except(left, right, false),
        }
    }
}

/// Binds a recursion: its step reads rows with the types of the initial rows, or of its dictionary, and its results are cast to the types of the
/// initial rows.
pub(super) fn recursion(query: &Recursion) -> Result<LogicalPlan> {
    let first = bind(query.first().clone())?;
    // As in DuckDB, a column of NULLs only is INTEGER.
    let typed = |ty: DataType| if ty.is_null() { DataType::Int32 } else { ty };
    let types: Vec<DataType> = columns(&first).into_iter().map(typed).collect();
    let first = retyped(first, &types)?;
    let rows = nullable(&first);
    let aggregated =
        |plan: &LogicalPlan| bind(query.with_tables(plan.clone(), &[(Part::Candidates, Arc::clone(&rows))])?);
    let dictionary = query.dictionary().map(aggregated).transpose()?;
    let all: SchemaRef = Arc::new(Schema::new(result_fields(&first, dictionary.as_ref())));
    let last = if query.added() == Added::New { &all } else { &rows };
    let tables = [(Part::Last, Arc::clone(last)), (Part::All, Arc::clone(&all))];
    let step = retyped(bind(query.with_tables(query.step().clone(), &tables)?)?, &types)?;
    Ok(Recursion::try_new(query.number(), Queries { first, step, dictionary }, query.added())?.plan())
}

/// Binds a recursive query: its step reads rows with the types of the initial rows, and its results are cast to them.
pub(super) fn recursive(query: RecursiveQuery) -> Result<LogicalPlan> {
    let first = bind(Arc::unwrap_or_clone(query.static_term))?;
    let fields = first.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let is_work_table = |scan: &TableScan| {
        source_as_provider(&scan.source).is_ok_and(|provider| {
            let table = provider.downcast_ref::<CteWorkTable>();
            table.is_some_and(|table| table.name() == query.name && table.schema() != schema)
        })
    };
    let added = Arc::unwrap_or_clone(query.recursive_term).transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::TableScan(scan) if is_work_table(&scan) => {
            let table = Arc::new(CteWorkTable::new(&query.name, Arc::clone(&schema)));
            let scan = LogicalPlanBuilder::scan(scan.table_name, provider_as_source(table), scan.projection)?;
            scan.build().map(Transformed::yes)
        }
        plan => plan.recompute_schema().map(Transformed::yes),
    });
    let added = retyped(bind(added?.data)?, &columns(&first))?;
    let query = RecursiveQuery::try_new(query.name, Arc::new(first), Arc::new(added), query.is_distinct)?;
    Ok(LogicalPlan::RecursiveQuery(query))
}
