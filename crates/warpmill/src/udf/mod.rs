//! Functions that users of a session define in the language of its host (docs/udf.md).
//!
//! A function has an expression, an implementation, or both. The expression is SQL over its parameters, with operators of the host's language
//! (`operators`): it replaces a call before names are bound (`expand`), so that the call runs like any other SQL. The implementation is called with
//! rows, in DataFusion's operators (`groups`, `rows`); EXPLAIN gives the reason. Functions may also be translated to C++ and compiled (`compiled`);
//! compiled code is preferred to calling the implementation.

mod compiled;
mod expand;
mod groups;
mod operators;
mod rows;
mod template;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use parking_lot::RwLock;
use warpmill_ir::GroupFunction as DeviceFunction;

use compiled::Compiler;
pub(crate) use compiled::Runs;
pub use compiled::{ColumnKind, FunctionCode, MachineCode, Translation, Translator};
pub(crate) use expand::{Expansion, expand};
pub(crate) use operators::{lower, operator};
use template::Template;

use crate::{Error, Result};

/// The parameters that a function has at most.
const MOST_PARAMETERS: usize = 64;

/// A function to be defined.
#[derive(Debug, Clone)]
pub struct FunctionDefinition {
    /// The name that SQL calls it by, in any case.
    pub name: String,
    /// The names of its parameters: one value each, or one column of a group.
    pub parameters: Vec<String>,
    /// The type of its results.
    pub returns: DataType,
    /// Whether it computes one value per group of rows.
    pub is_aggregate: bool,
    /// Equivalent SQL, with `__p0`, `__p1`, ... for the parameters. Contains aggregate functions only where the function is one.
    pub expression: Option<String>,
    /// Code that is called where there is no expression, or where it does not support the types of a call.
    pub implementation: Option<Implementation>,
    /// A translator of the function to C++: compiled code is preferred to `implementation`.
    pub translator: Option<Arc<dyn Translator>>,
    /// The reason why there is no expression.
    pub reason: String,
    /// Whether it may return different results for the same arguments.
    pub is_volatile: bool,
}

/// Code of the host that computes a function.
#[derive(Debug, Clone)]
pub enum Implementation {
    /// One value per group, computed from all of its rows.
    Groups(Arc<dyn GroupFunction>),
    /// One value per group, from a state that is updated with rows.
    States(Arc<dyn StateFunction>),
    /// One value for each row.
    Rows(Arc<dyn RowFunction>),
}

/// A function of whole groups.
pub trait GroupFunction: fmt::Debug + Send + Sync {
    /// Returns one value per group, of type `returns`. The rows of group `i` are `offsets[i]..offsets[i + 1]` of the columns.
    fn call(&self, columns: &[ArrayRef], offsets: &[i64], returns: &DataType) -> Result<ArrayRef>;
}

/// A function whose states can be added to and merged.
pub trait StateFunction: fmt::Debug + Send + Sync {
    /// States of no group yet.
    fn start(&self) -> Result<Box<dyn States>>;
}

/// The states of some groups, by group number.
pub trait States: Send + Sync {
    /// Adds row `i` of the columns to the state of group `groups[i]`; there are `total` groups.
    fn update(&mut self, columns: &[ArrayRef], groups: &[usize], total: usize) -> Result<()>;
    /// Merges state `i` of a column of binary values into that of group `groups[i]`.
    fn merge(&mut self, states: &ArrayRef, groups: &[usize], total: usize) -> Result<()>;
    /// Removes and returns the states of the first `count` groups as binary values; later groups are renumbered from 0.
    fn take(&mut self, count: usize) -> Result<ArrayRef>;
    /// Removes the first `count` groups and returns their results, of type `returns`; later groups are renumbered from 0.
    fn finish(&mut self, count: usize, returns: &DataType) -> Result<ArrayRef>;
    /// A copy.
    fn copy(&self) -> Result<Box<dyn States>>;
    /// Bytes held, as far as known.
    fn size(&self) -> usize;
}

/// A function of rows.
pub trait RowFunction: fmt::Debug + Send + Sync {
    /// Returns one value for each of `rows` rows, of type `returns`.
    fn call(&self, columns: &[ArrayRef], rows: usize, returns: &DataType) -> Result<ArrayRef>;
}

/// A function of a session.
#[derive(Debug)]
pub(crate) struct Function {
    name: String,
    parameters: Vec<String>,
    is_aggregate: bool,
    template: Option<Template>,
    aggregate: Option<Arc<AggregateUDF>>,
    scalar: Option<Arc<ScalarUDF>>,
}

impl Function {
    fn new(definition: FunctionDefinition, runs: &Arc<Runs>) -> Result<Self> {
        let FunctionDefinition { name, parameters, returns, is_aggregate, expression, reason, .. } = definition;
        let name = name.to_lowercase();
        if parameters.is_empty() || parameters.len() > MOST_PARAMETERS {
            let count = parameters.len();
            return Err(Error::Plan(format!(
                "function '{name}' has {count} parameters: between 1 and {MOST_PARAMETERS} are possible"
            )));
        }
        let template = expression.map(|text| Template::parse(&text, parameters.len())).transpose()?;
        let called = Called { name: name.clone(), reason, returns };
        let compiler = definition.translator.map(|translator| Compiler::new(translator, Arc::clone(runs)));
        let (mut aggregate, mut scalar) = (None, None);
        match definition.implementation {
            Some(Implementation::Groups(code)) if is_aggregate => {
                aggregate = Some(groups::of_groups(called, parameters.len(), Some(code), compiler));
            }
            None if is_aggregate && compiler.is_some() => {
                aggregate = Some(groups::of_groups(called, parameters.len(), None, compiler));
            }
            Some(Implementation::States(code)) if is_aggregate => {
                aggregate = Some(groups::of_states(called, parameters.len(), code));
            }
            Some(Implementation::Rows(code)) if !is_aggregate => {
                scalar = Some(rows::of_rows(called, parameters.len(), Some(code), compiler, definition.is_volatile));
            }
            None if compiler.is_some() => {
                scalar = Some(rows::of_rows(called, parameters.len(), None, compiler, definition.is_volatile));
            }
            None if template.is_some() => {}
            _ => return Err(Error::Plan(format!("function '{name}' has neither an expression nor code of its kind"))),
        }
        Ok(Self { name, parameters, is_aggregate, template, aggregate, scalar })
    }

    /// Whether there is code to call.
    fn is_callable(&self) -> bool {
        self.aggregate.is_some() || self.scalar.is_some()
    }
}

/// The name, EXPLAIN reason and result type of a called function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Called {
    name: String,
    reason: String,
    returns: DataType,
}

impl Called {
    /// `error` with the function's name.
    fn named(&self, error: Error) -> Error {
        match error {
            Error::Execution(text) => Error::Execution(format!("function '{}': {text}", self.name)),
            other => other,
        }
    }

    /// The error of a compiled-only function on input that compiled code does not support.
    fn gives_up(&self, reason: &str) -> DataFusionError {
        let name = &self.name;
        let text = format!("function '{name}', {reason} (mode=\"compiled\" does not call Python there)");
        Error::Execution(text).into()
    }
}

/// The functions of a session, by their names in lower case.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    all: RwLock<HashMap<String, Arc<Function>>>,
    /// The number of functions: most sessions have none, which skips further checks.
    count: AtomicUsize,
    runs: Arc<Runs>,
}

impl Functions {
    /// Defines a function, replacing one of the same name; returns whether there was one.
    pub(crate) fn define(&self, definition: FunctionDefinition) -> Result<bool> {
        let function = Arc::new(Function::new(definition, &self.runs)?);
        let mut all = self.all.write();
        let replaced = all.insert(function.name.clone(), function).is_some();
        self.count.store(all.len(), Ordering::Release);
        Ok(replaced)
    }

    /// The compiled functions that run now.
    pub(crate) fn runs(&self) -> &Arc<Runs> {
        &self.runs
    }

    /// The names of all functions, in lower case.
    pub(crate) fn names(&self) -> Vec<String> {
        self.all.read().keys().cloned().collect()
    }

    /// Forgets a function; whether there was one.
    pub(crate) fn remove(&self, name: &str) -> bool {
        let mut all = self.all.write();
        let removed = all.remove(&name.to_lowercase());
        self.count.store(all.len(), Ordering::Release);
        removed.is_some()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Function>> {
        match self.count.load(Ordering::Acquire) {
            0 => None,
            _ => self.all.read().get(&name.to_lowercase()).cloned(),
        }
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// The aggregate function to call by that name.
    pub(crate) fn aggregate(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.get(name)?.aggregate.clone()
    }

    /// The function of rows to call by that name.
    pub(crate) fn scalar(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.get(name)?.scalar.clone()
    }
}

/// An expression that does not support the types of a call.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Misfit(pub(crate) String);

impl Misfit {
    fn error(text: impl Into<String>) -> DataFusionError {
        DataFusionError::External(Box::new(Self(text.into())))
    }

    /// The misfit that `error` is at its root.
    pub(crate) fn find(error: &DataFusionError) -> Option<&Self> {
        match error {
            DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => Self::find(inner),
            DataFusionError::Shared(inner) => Self::find(inner),
            DataFusionError::Collection(list) => list.iter().find_map(Self::find),
            DataFusionError::External(inner) => inner.downcast_ref::<Self>(),
            _ => None,
        }
    }
}

/// The device translation of an aggregate function for columns of these types, or the reason why there is none; `None`: not a function of a session.
pub(crate) fn translated(
    function: &AggregateUDF,
    types: &[DataType],
) -> Option<std::result::Result<Arc<DeviceFunction>, String>> {
    groups::translated(function, types)
}

/// The session's function that prevents `plan` from being a program, and the reason why it is called.
pub(crate) fn called_in(plan: &Arc<dyn ExecutionPlan>) -> Option<(String, String)> {
    let types = |args: &[Arc<dyn PhysicalExpr>], schema: &Schema| {
        args.iter().map(|arg| arg.data_type(schema)).collect::<DataFusionResult<Vec<_>>>()
    };
    if let Some(aggregation) = plan.downcast_ref::<AggregateExec>() {
        let schema = aggregation.input_schema();
        let found =
            |call: &Arc<AggregateFunctionExpr>| groups::explained(call.fun(), || types(&call.expressions(), &schema));
        return aggregation.aggr_expr().iter().find_map(found);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let schema = projection.input().schema();
        return projection.expr().iter().find_map(|column| in_expression(&column.expr, &schema));
    }
    let filter = plan.downcast_ref::<FilterExec>()?;
    in_expression(filter.predicate(), &filter.input().schema())
}

fn in_expression(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<(String, String)> {
    let own = expr.downcast_ref::<ScalarFunctionExpr>().and_then(|call| {
        let types = || call.args().iter().map(|arg| arg.data_type(schema)).collect();
        rows::explained(call.fun(), types)
    });
    own.or_else(|| expr.children().into_iter().find_map(|child| in_expression(child, schema)))
}

/// The prefix of EXPLAIN's text for compiled functions.
pub(crate) const COMPILED: &str = "its code is compiled";

/// The execution of a function for some argument types, in words.
fn how(
    called: &Called,
    compiler: Option<&Compiler>,
    types: impl FnOnce() -> DataFusionResult<Vec<DataType>>,
) -> String {
    let reason = &called.reason;
    let Some(compiler) = compiler else { return format!("its code is called: {reason}") };
    let native = types().map_err(Error::from).and_then(|types| compiler.native(&types));
    match native {
        Ok(Ok(native)) => format!("{}: {reason}", native.how()),
        Ok(Err(why)) => format!("its code is called: {reason}; it is not compiled: {why}"),
        Err(error) => format!("its code is called: {reason}; it is not compiled: {error}"),
    }
}
