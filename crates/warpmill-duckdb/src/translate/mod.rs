//! Translates DuckDB's plans into DataFusion plans of the same meaning.
//!
//! A column of the binder becomes a DataFusion column of a name that is unique in the statement (`t12_3`), so that no
//! qualification is needed. Subqueries become DataFusion's subquery expressions, which its optimizer decorrelates. Common
//! table expressions are copied to where they are read.

mod aggregate;
mod date;
mod exact;
mod expr;
mod function;
mod subquery;
mod text;
mod window;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::{Column, DFSchemaRef, ScalarValue};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder, SortExpr, lit};

use crate::Refused;
use crate::encoding::{self, Binding, Node, Statement};
use crate::types::Type;

/// The source of a scan: the provider of an input, and the columns that it has.
pub struct Source {
    /// The provider of the rows.
    pub provider: Arc<dyn TableProvider>,
    /// For each column of the input its position in the provider; `None` for columns that the plan does not need.
    pub columns: Vec<Option<usize>>,
}

/// Translates a statement over `sources`, one for each input. The result's columns have DuckDB's types.
pub fn translate(statement: &Statement, sources: &[Source]) -> Result<LogicalPlan, Refused> {
    let mut translator = Translator {
        statement,
        sources,
        prefix: String::new(),
        copies: 0,
        outer: vec![],
        ctes: HashMap::new(),
        results: HashMap::new(),
        allowed: Allowed::Nothing,
        windowed: has_window(&statement.root),
        top: true,
    };
    check_projected(&statement.root)?;
    let plan = translator.node(&statement.root)?;
    let columns = plan.schema().columns();
    if columns.len() != statement.types.len() {
        return Err(Refused::new("a result whose columns are not those of its plan"));
    }
    let typed = columns.iter().zip(&statement.types).map(|(column, name)| {
        let ty = Type::parse(name)?;
        if !ty.is_column() {
            return Err(Refused::new(format!("a result of type {name}")));
        }
        Ok(expr::cast_to(Expr::Column(column.clone()), &ty.arrow(), plan.schema())?.alias(column.name()))
    });
    let typed = typed.collect::<Result<Vec<_>, Refused>>()?;
    Ok(LogicalPlanBuilder::from(plan).project(typed)?.build()?)
}

/// Refuses operators that take columns by position unless a projection has made them: a scan has only the columns that are read.
fn check_projected(node: &Node) -> Result<(), Refused> {
    match node {
        Node::Filter { child, .. }
        | Node::Order { child, .. }
        | Node::Limit { child, .. }
        | Node::Distinct { child }
        | Node::Cte { child, .. } => check_projected(child),
        Node::Project { .. } | Node::Aggregate { .. } | Node::Setop { .. } | Node::CteRef { .. } => Ok(()),
        _ => Err(Refused::new("columns without a projection")),
    }
}

fn has_window(node: &Node) -> bool {
    matches!(node, Node::Window { .. }) || node.children().into_iter().any(has_window)
}

struct Translator<'a> {
    statement: &'a Statement,
    sources: &'a [Source],
    /// Distinguishes the columns of several copies of one common table expression.
    prefix: String,
    copies: usize,
    /// The columns of the enclosing queries, innermost last.
    outer: Vec<DFSchemaRef>,
    ctes: HashMap<u64, &'a Node>,
    /// Subquery expressions that replace columns, by the column into which DuckDB computes their value.
    results: HashMap<Binding, Expr>,
    /// The kinds of subqueries that the current expression may contain.
    allowed: Allowed,
    /// Whether there are window functions. They stay in DataFusion, and values of subqueries would have to pass through them.
    windowed: bool,
    /// Whether the current node returns the rows of the query's result, apart from their order and additional columns.
    top: bool,
}

/// The kinds of subqueries that DataFusion can decorrelate in an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Allowed {
    Nothing,
    Scalars,
    All,
}

impl<'a> Translator<'a> {
    fn name(&self, (table, column): Binding) -> String {
        format!("{}t{table}_{column}", self.prefix)
    }

    fn node(&mut self, node: &'a Node) -> Result<LogicalPlan, Refused> {
        let top = self.top;
        // Rows below these operators are still rows of the result; other operators combine them.
        self.top &= matches!(
            node,
            Node::Project { .. } | Node::Filter { .. } | Node::Order { .. } | Node::Limit { .. } | Node::Cte { .. }
        );
        let plan = self.any_node(node, top);
        self.top = top;
        plan
    }

    fn any_node(&mut self, node: &'a Node, top: bool) -> Result<LogicalPlan, Refused> {
        match node {
            Node::Get { table, input, columns } => self.get(*table, *input, columns),
            Node::Project { table, exprs, child } => self.project(*table, exprs, child, top),
            Node::Filter { exprs, child } => {
                let input = self.node(child)?;
                self.filter(input, exprs)
            }
            Node::Aggregate { .. } => self.aggregate(node, top),
            Node::Window { table, calls, child } => self.window(*table, calls, child),
            Node::Order { by, child } => self.order(by, child),
            Node::Limit { limit, offset, child } => {
                let count = |n: u64| usize::try_from(n).map_err(|_| Refused::new("LIMIT of this size"));
                let (skip, fetch) = (count(offset.unwrap_or(0))?, limit.map(count).transpose()?);
                Ok(LogicalPlanBuilder::from(self.node(child)?).limit(skip, fetch)?.build()?)
            }
            Node::Distinct { child } => {
                check_projected(child)?;
                Ok(LogicalPlanBuilder::from(self.node(child)?).distinct()?.build()?)
            }
            Node::Join { r#type, mark, conds, left, right } => match mark {
                Some(mark) => self.membership(*mark, conds, left, right),
                None => self.join(r#type, conds, left, right),
            },
            Node::AnyJoin { r#type, cond, left, right } => self.join(r#type, std::slice::from_ref(cond), left, right),
            Node::Cross { left, right } => self.cross(left, right),
            Node::Dependent { mark, value, cond, left, right, .. } => {
                self.dependent(*mark, *value, cond.as_ref(), left, right)
            }
            Node::Setop { kind, all, table, children } => self.set_operation(kind, *all, *table, children),
            Node::Cte { index, body, child } => {
                self.ctes.insert(*index, body);
                self.node(child)
            }
            Node::CteRef { table, cte } => self.cte(*table, *cte),
            Node::Dummy => Ok(LogicalPlanBuilder::empty(true).build()?),
        }
    }

    fn get(&mut self, table: u64, input: usize, columns: &[Option<usize>]) -> Result<LogicalPlan, Refused> {
        let source = &self.sources[input];
        let fields = source.provider.schema();
        let name = format!("{}input{input}_{table}", self.prefix);
        let scan = LogicalPlanBuilder::scan(name.as_str(), provider_as_source(Arc::clone(&source.provider)), None)?;
        let mut list = Vec::with_capacity(columns.len());
        for (position, column) in columns.iter().enumerate() {
            let Some(column) = column else { continue };
            let (_, _, ty) = &self.statement.inputs[input].columns[*column];
            // Columns of unsupported types do not exist: expressions that read them are refused.
            let Some(ty) = Type::of_column(ty) else { continue };
            let value = match source.columns[*column] {
                Some(index) => Expr::Column(Column::new(Some(name.as_str()), fields.field(index).name())),
                // The optimizer has found that the result does not depend on the column.
                None => lit(ScalarValue::try_from(&ty.arrow())?),
            };
            list.push(value.alias(self.name((table, position as u64))));
        }
        if list.is_empty() {
            list.push(lit(true).alias(format!("{}rows{table}", self.prefix)));
        }
        Ok(scan.project(list)?.build()?)
    }

    fn project(
        &mut self,
        table: u64,
        exprs: &'a [encoding::Expr],
        child: &'a Node,
        top: bool,
    ) -> Result<LogicalPlan, Refused> {
        let input = self.node(child)?;
        self.top = top;
        let list = exprs.iter().enumerate().map(|(i, e)| {
            let name = self.name((table, i as u64));
            Ok(self.expr_with(e, input.schema(), Allowed::Scalars)?.alias(name))
        });
        let list = list.collect::<Result<Vec<_>, Refused>>()?;
        Ok(LogicalPlanBuilder::from(input).project(list)?.build()?)
    }

    /// Makes one filter of all conjuncts: DataFusion decorrelates the correlated conjuncts of one filter only.
    fn filter(&mut self, input: LogicalPlan, exprs: &'a [encoding::Expr]) -> Result<LogicalPlan, Refused> {
        let conjuncts = exprs.iter().map(|e| self.predicate(e, input.schema()));
        let conjuncts = conjuncts.collect::<Result<Vec<_>, Refused>>()?;
        let Some(predicate) = conjunction(conjuncts) else { return Ok(input) };
        Ok(LogicalPlanBuilder::from(input).filter(predicate)?.build()?)
    }

    fn order(&mut self, by: &'a [encoding::Key], child: &'a Node) -> Result<LogicalPlan, Refused> {
        let input = self.node(child)?;
        let top = std::mem::replace(&mut self.top, false);
        let keys = by.iter().map(|key| {
            let expr = self.expr(&key.e, input.schema())?;
            Ok(SortExpr::new(expr, !key.desc, key.nulls_first))
        });
        let keys: Result<Vec<_>, Refused> = keys.collect();
        self.top = top;
        let keys = keys?;
        Ok(LogicalPlanBuilder::from(input).sort(keys)?.build()?)
    }

    fn join(
        &mut self,
        kind: &str,
        conds: &'a [encoding::Expr],
        left: &'a Node,
        right: &'a Node,
    ) -> Result<LogicalPlan, Refused> {
        let kind = match kind {
            "INNER" => JoinType::Inner,
            "LEFT" => JoinType::Left,
            "RIGHT" => JoinType::Right,
            "OUTER" | "FULL" => JoinType::Full,
            "SEMI" => JoinType::LeftSemi,
            "ANTI" => JoinType::LeftAnti,
            _ => return Err(Refused::new(format!("a join of the kind {kind}"))),
        };
        let (left, right) = (self.node(left)?, self.node(right)?);
        let both = Arc::new(left.schema().join(right.schema())?);
        let on = conds.iter().map(|cond| self.expr(cond, &both)).collect::<Result<Vec<_>, Refused>>()?;
        Ok(LogicalPlanBuilder::from(left).join_on(right, kind, on)?.build()?)
    }

    fn cross(&mut self, left: &'a Node, right: &'a Node) -> Result<LogicalPlan, Refused> {
        let left = self.node(left)?;
        if self.windowed
            && let Some(right) = self.single_row(right)?
        {
            return Ok(LogicalPlanBuilder::from(left).cross_join(right)?.build()?);
        }
        // The binder joins a scalar subquery; here its value replaces the column.
        if let Some((binding, value)) = self.scalar(right)? {
            self.results.insert(binding, value);
            return Ok(left);
        }
        let right = self.node(right)?;
        Ok(LogicalPlanBuilder::from(left).cross_join(right)?.build()?)
    }

    fn set_operation(
        &mut self,
        kind: &str,
        all: bool,
        table: u64,
        children: &'a [Node],
    ) -> Result<LogicalPlan, Refused> {
        children.iter().try_for_each(check_projected)?;
        let mut plans = children.iter().map(|child| self.node(child)).collect::<Result<Vec<_>, _>>()?.into_iter();
        let first = plans.next().ok_or_else(|| Refused::new("a set operation of nothing"))?;
        let combined = plans.try_fold(first, |left, right| {
            if left.schema().fields().len() != right.schema().fields().len() {
                return Err(Refused::new("a set operation of different columns"));
            }
            match (kind, all) {
                ("union", _) => Ok(LogicalPlanBuilder::from(left).union(right)?.build()?),
                ("except", false) => Ok(LogicalPlanBuilder::except(left, right, false)?),
                ("intersect", false) => Ok(LogicalPlanBuilder::intersect(left, right, false)?),
                _ => Err(Refused::new(format!("{} ALL", kind.to_uppercase()))),
            }
        })?;
        let mut builder = LogicalPlanBuilder::from(combined);
        if kind == "union" && !all {
            builder = builder.distinct()?;
        }
        self.renamed(builder.build()?, table)
    }

    /// `plan` with its columns renamed to those of node `table`.
    fn renamed(&self, plan: LogicalPlan, table: u64) -> Result<LogicalPlan, Refused> {
        let columns = plan.schema().columns().into_iter().enumerate();
        let list: Vec<_> = columns.map(|(i, c)| Expr::Column(c).alias(self.name((table, i as u64)))).collect();
        Ok(LogicalPlanBuilder::from(plan).project(list)?.build()?)
    }

    fn cte(&mut self, table: u64, index: u64) -> Result<LogicalPlan, Refused> {
        let body = *self.ctes.get(&index).ok_or_else(|| Refused::new("a common table expression of another query"))?;
        self.copies += 1;
        if self.copies > 64 {
            return Err(Refused::new("common table expressions that are read very often"));
        }
        check_projected(body)?;
        let inner = format!("c{}_", self.copies);
        let outer = std::mem::replace(&mut self.prefix, inner);
        let results = std::mem::take(&mut self.results);
        let plan = self.node(body);
        self.prefix = outer;
        self.results = results;
        self.renamed(plan?, table)
    }
}
