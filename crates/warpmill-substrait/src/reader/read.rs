//! Read relations: tables, files, rows in the plan.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::builder::project;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion_substrait::substrait::proto::ReadRel;
use datafusion_substrait::substrait::proto::expression::MaskExpression;
use datafusion_substrait::substrait::proto::read_rel::{ReadType, VirtualTable};

use super::cast::reconciled;
use super::tables::{Source, local_files, named_table, spelled};
use super::types::{DeclaredColumn, columns};
use super::{Reader, Rows, Scope, Slot, literal};
use crate::error::{Result, SubstraitError, invalid, required, unsupported};

impl Reader<'_> {
    pub(super) fn read(&mut self, read: &ReadRel) -> Result<Rows> {
        let declared = match &read.base_schema {
            Some(schema) => Some(columns(schema, self.declarations)?),
            None => None,
        };
        let rows = match required(read.read_type.as_ref(), "what a read relation reads")? {
            ReadType::NamedTable(table) => self.scan(named_table(self.session, &table.names)?, declared)?,
            ReadType::LocalFiles(files) => self.scan(local_files(self.session, files)?, declared)?,
            ReadType::VirtualTable(table) => {
                self.virtual_table(table, required(declared, "the base schema of a virtual table")?)?
            }
            ReadType::ExtensionTable(table) => {
                let name = table.detail.as_ref().map_or("", |detail| detail.type_url.as_str());
                return unsupported(format!("extension table '{name}'"));
            }
            ReadType::IcebergTable(_) => return unsupported("Iceberg table"),
        };
        // A best-effort filter may be ignored: another filter above the read repeats it.
        let rows = match &read.filter {
            Some(filter) => self.filtered(rows, filter)?,
            None => rows,
        };
        masked(rows, read.projection.as_ref())
    }

    /// The declared columns of a table, with the declared types.
    fn scan(&mut self, source: Source, declared: Option<Vec<DeclaredColumn>>) -> Result<Rows> {
        let schema = source.table.schema();
        let declared = declared.unwrap_or_else(|| schema.fields().iter().map(as_declared).collect());
        let found =
            declared.iter().map(|column| index_of(&schema, &source.name, column)).collect::<Result<Vec<_>>>()?;
        let mut projection = found.clone();
        projection.sort_unstable();
        projection.dedup();
        let alias = self.alias(&source.name);
        let plan = LogicalPlanBuilder::scan(alias.clone(), Arc::clone(&source.table), Some(projection))?.build()?;
        let slot = |(&index, column): (&usize, &DeclaredColumn)| Slot {
            column: Column::new(Some(alias.clone()), schema.field(index).name()),
            chars: column.chars,
        };
        let mut rows = Rows { plan, slots: found.iter().zip(&declared).map(slot).collect() };
        let mut casts = vec![];
        for (position, (&index, column)) in found.iter().zip(&declared).enumerate() {
            let actual = schema.field(index).data_type();
            let expr = Expr::Column(rows.slots[position].column.clone());
            match reconciled(expr, actual, &column.data_type) {
                Some(Expr::Column(_)) => {}
                Some(cast) => casts.push((position, cast)),
                None => {
                    return Err(SubstraitError::Table(format!(
                        "column '{}' of '{}' has type {actual}, but the Substrait plan declares {}",
                        column.name, source.name, column.data_type
                    )));
                }
            }
        }
        if !casts.is_empty() {
            let width = rows.slots.len();
            let (positions, casts): (Vec<_>, Vec<_>) = casts.into_iter().unzip();
            let added = casts.into_iter().map(|cast| (cast, None)).collect();
            rows = self.extended(rows, added)?;
            let cast_slots = rows.slots.split_off(width);
            for (position, slot) in positions.into_iter().zip(cast_slots) {
                rows.slots[position].column = slot.column;
            }
        }
        Ok(rows)
    }

    fn virtual_table(&mut self, table: &VirtualTable, declared: Vec<DeclaredColumn>) -> Result<Rows> {
        let rows = self.values(table)?;
        if let Some(row) = rows.iter().find(|row| row.len() != declared.len()) {
            return invalid(format!("a row of {} values in a virtual table of {} columns", row.len(), declared.len()));
        }
        if declared.is_empty() && rows.len() > 1 {
            return unsupported("virtual table of several rows without columns");
        }
        let fields: Vec<_> =
            declared.iter().map(|column| Field::new(self.column_name(), column.data_type.clone(), true)).collect();
        let schema = Arc::new(DFSchema::try_from(Schema::new(fields))?);
        if rows.is_empty() || declared.is_empty() {
            let empty = EmptyRelation { produce_one_row: !rows.is_empty(), schema };
            return Ok(Rows::of(LogicalPlan::EmptyRelation(empty)));
        }
        let mut typed = Vec::with_capacity(rows.len());
        for row in rows {
            let mut values = Vec::with_capacity(row.len());
            for (value, column) in row.into_iter().zip(&declared) {
                let actual = super::type_of(&value, &DFSchema::empty())?;
                match reconciled(value, &actual, &column.data_type) {
                    Some(value) => values.push(value),
                    None => {
                        return invalid(format!(
                            "a value of type {actual} in column '{}' of a virtual table, which has type {}",
                            column.name, column.data_type
                        ));
                    }
                }
            }
            typed.push(values);
        }
        // All virtual tables have columns with the same names; a projection sets the schema's.
        let values = LogicalPlanBuilder::values_with_schema(typed, &schema)?.build()?;
        let named = values.schema().columns().into_iter().zip(schema.fields());
        let named: Vec<_> = named.map(|(column, field)| Expr::Column(column).alias(field.name())).collect();
        let slot = |(field, column): (&Arc<Field>, &DeclaredColumn)| Slot {
            column: Column::new_unqualified(field.name()),
            chars: column.chars,
        };
        let slots = schema.fields().iter().zip(&declared).map(slot).collect();
        Ok(Rows { plan: project(values, named)?, slots })
    }

    fn values(&mut self, table: &VirtualTable) -> Result<Vec<Vec<Expr>>> {
        #[allow(deprecated, reason = "plans of earlier versions hold literals instead of expressions")]
        let literals = &table.values;
        if !table.expressions.is_empty() && !literals.is_empty() {
            return invalid("a virtual table with values and expressions");
        }
        let nothing = Scope { slots: vec![], schema: Arc::new(DFSchema::empty()) };
        let mut rows = Vec::with_capacity(table.expressions.len() + literals.len());
        for row in &table.expressions {
            let values = row.fields.iter().map(|value| self.expression(value, &nothing));
            rows.push(values.collect::<Result<_>>()?);
        }
        for row in literals {
            let values =
                row.fields.iter().map(|value| Ok(Expr::Literal(literal::literal(value, self.declarations)?, None)));
            rows.push(values.collect::<Result<_>>()?);
        }
        Ok(rows)
    }
}

fn as_declared(field: &Arc<Field>) -> DeclaredColumn {
    DeclaredColumn { name: field.name().clone(), data_type: field.data_type().clone(), chars: None }
}

fn index_of(schema: &Schema, table: &str, column: &DeclaredColumn) -> Result<usize> {
    let names = schema.fields().iter().map(|field| field.name().clone()).collect();
    let found = spelled(&column.name, names)?.and_then(|name| schema.index_of(&name).ok());
    found.ok_or_else(|| SubstraitError::Table(format!("there is no column '{}' in '{table}'", column.name)))
}

/// The columns of a mask, in its order.
fn masked(rows: Rows, mask: Option<&MaskExpression>) -> Result<Rows> {
    let Some(select) = mask.and_then(|mask| mask.select.as_ref()) else { return Ok(rows) };
    let scope = rows.scope();
    let mut slots = Vec::with_capacity(select.struct_items.len());
    for item in &select.struct_items {
        if item.child.is_some() {
            return unsupported("mask of nested fields");
        }
        slots.push(scope.field(item.field)?.clone());
    }
    Ok(Rows { plan: rows.plan, slots })
}
