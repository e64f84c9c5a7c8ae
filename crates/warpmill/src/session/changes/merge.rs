//! MERGE INTO: the first matching clause is applied to each row of the join of source and table.

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{
    Merge, MergeAction, MergeClause, MergeClauseKind, MergeInsertExpr, MergeInsertKind, TableFactor,
};
use warpmill_format::TableSnapshot;

use super::assign::{assignments, column_of, value_of};
use super::target::{Target, quoted};
use super::{Action, Edit, refuse};
use crate::catalog::ROW;
use crate::session::ddl::default_of;
use crate::{Error, Result};

/// The column of the source that is NULL where only the table has a row.
const HERE: &str = "\u{1}here";
/// The name of a source without a name.
const SOURCE: &str = "\u{1}source";

pub(super) fn edit(merge: &Merge, target: &Target, base: &TableSnapshot) -> Result<Edit> {
    refuse("MERGE", merge.output.is_some(), "RETURNING or OUTPUT")?;
    let all = base.schema().fields().len();
    let type_of = |column: usize| base.schema().field(column).data_type().clone();
    let source = source_name(&merge.source)?;
    let here = format!("{source}.{}", quoted(HERE));
    let mut columns = vec![];
    for clause in &merge.clauses {
        if let MergeAction::Update(update) = &clause.action {
            columns.extend(assignments(&update.assignments, base, target)?.into_iter().map(|(column, _)| column));
        }
    }
    columns.sort_unstable();
    columns.dedup();
    let action = format!(
        "CASE{} END",
        merge
            .clauses
            .iter()
            .enumerate()
            .map(|(number, clause)| { format!(" WHEN {} THEN {number}", condition(clause, target, &here)) })
            .collect::<String>()
    );
    let name = |at: usize| quoted(&format!("{ROW}{at}"));
    let mut select = format!("SELECT {} AS {}, CAST({action} AS BIGINT) AS {}", target.row(), quoted(ROW), name(1));
    let (mut actions, mut types) = (vec![], vec![DataType::Int64, DataType::Int64]);
    for (number, clause) in merge.clauses.iter().enumerate() {
        let at = types.len();
        let mut add = |value: &str, column: usize| {
            select.push_str(&format!(", CASE WHEN ({action}) = {number} THEN {value} END AS {}", name(types.len())));
            types.push(type_of(column));
        };
        actions.push(match (&clause.action, clause.clause_kind) {
            (
                MergeAction::Update(_) | MergeAction::Delete { .. },
                MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget,
            )
            | (MergeAction::Insert(_), MergeClauseKind::Matched | MergeClauseKind::NotMatchedBySource) => {
                return Err(Error::Plan(format!(
                    "MERGE: {clause}: no row of the table matches here, so that it can only INSERT"
                )));
            }
            (MergeAction::Delete { .. }, _) => Action::Delete,
            (MergeAction::Update(update), _) => {
                refuse(
                    "MERGE",
                    update.update_predicate.is_some() || update.delete_predicate.is_some(),
                    "WHERE in UPDATE",
                )?;
                let set = assignments(&update.assignments, base, target)?;
                for &column in &columns {
                    let own = || format!("{}.{}", target.alias(), quoted(base.schema().field(column).name()));
                    let value = set.iter().find(|(known, _)| *known == column);
                    add(&value.map_or_else(own, |(_, value)| format!("({value})")), column);
                }
                Action::Update(at)
            }
            (MergeAction::Insert(insert), _) => {
                let values = inserted(insert, base, target)?;
                (0..all).for_each(|column| {
                    let default = default_of(base.schema().field(column)).unwrap_or("NULL");
                    add(values[column].as_deref().unwrap_or(default), column);
                });
                Action::Insert(at)
            }
        });
    }
    let by_source = merge.clauses.iter().any(|clause| clause.clause_kind == MergeClauseKind::NotMatchedBySource);
    let join = if by_source { "FULL JOIN" } else { "LEFT JOIN" };
    let from = format!("(SELECT *, TRUE AS {} FROM {}) AS {source}", quoted(HERE), merge.source);
    let from = format!("FROM {from} {join} {} ON {} WHERE ({action}) IS NOT NULL", target.numbered(), merge.on);
    Ok(Edit { select, from, actions, columns, types, returned: None, repeats: false, chosen: true, word: "MERGE" })
}

/// When a clause fits.
fn condition(clause: &MergeClause, target: &Target, here: &str) -> String {
    let row = target.row();
    let kind = match clause.clause_kind {
        MergeClauseKind::Matched => format!("{row} IS NOT NULL AND {here} IS NOT NULL"),
        MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => format!("{row} IS NULL"),
        MergeClauseKind::NotMatchedBySource => format!("{here} IS NULL"),
    };
    clause.predicate.as_ref().map_or_else(|| kind.clone(), |predicate| format!("{kind} AND ({predicate})"))
}

/// The quoted qualifier of the source's columns.
fn source_name(source: &TableFactor) -> Result<String> {
    let alias = match source {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. } => alias,
        _ => &None,
    };
    let own = match (alias, source) {
        (Some(alias), _) => Some(alias.name.value.clone()),
        (None, TableFactor::Table { name, args: None, .. }) => {
            name.0.last().and_then(|part| Some(part.as_ident()?.value.clone()))
        }
        // A derived table without an alias: its columns are named without a qualifier.
        (None, TableFactor::Derived { .. }) => Some(SOURCE.to_string()),
        _ => None,
    };
    own.map(|name| quoted(&name))
        .ok_or_else(|| Error::NotImplemented(format!("MERGE with USING {source}: give the source a name (AS s)")))
}

/// For each column, the SQL of its value in a new row.
fn inserted(insert: &MergeInsertExpr, base: &TableSnapshot, target: &Target) -> Result<Vec<Option<String>>> {
    refuse("MERGE", insert.insert_predicate.is_some(), "WHERE in INSERT")?;
    let all = base.schema().fields().len();
    let MergeInsertKind::Values(values) = &insert.kind else {
        return Err(Error::NotImplemented("MERGE with INSERT ROW is not supported: list the values".into()));
    };
    let [row] = &values.rows[..] else {
        return Err(Error::Plan("MERGE: INSERT takes one row of values".into()));
    };
    let columns: Vec<usize> = match &insert.columns[..] {
        [] => (0..all).collect(),
        names => names.iter().map(|name| column_of(name, base, target)).collect::<Result<_>>()?,
    };
    let row: &[_] = row.as_ref();
    if row.len() != columns.len() {
        let (given, wanted) = (row.len(), columns.len());
        return Err(Error::Plan(format!(
            "MERGE: INSERT has {given} values for {wanted} columns of table {}",
            target.reference
        )));
    }
    let mut texts = vec![None; all];
    for (column, value) in columns.into_iter().zip(row) {
        if texts[column].replace(format!("({})", value_of(value, base.schema().field(column)))).is_some() {
            let name = base.schema().field(column).name();
            return Err(Error::Plan(format!("MERGE: INSERT names column {name} twice")));
        }
    }
    Ok(texts)
}
