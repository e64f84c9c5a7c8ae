//! The tables of one statement: looked up once, without regard to case, for all planning steps.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::compute::CastOptions;
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use datafusion::catalog::{SchemaProvider, TableFunction, TableFunctionArgs, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{
    DFSchema, DataFusionError, ResolvedTableReference, Result, TableReference, plan_datafusion_err, plan_err,
};
use datafusion::datasource::ViewTable;
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::file_format::format_as_file_type;
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    AggregateUDF, Cast, Expr, HigherOrderUDF, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TableSource, Volatility,
    WindowUDF,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::{ParserOptions, PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Value,
};
use parking_lot::Mutex;
use warpmill_translate::excluded;

use super::custom_types::CustomTypes;
use super::types::{self, TIMESTAMP};
use super::{aggregates, alike, bind, casts, functions, library, limits, own_casts};
use crate::ScalarValue;
use crate::catalog::{CATALOG, DUCKDB_MAIN, NUMBERED, WarpmillTable, is_main};
use crate::once::{Names, Once};
use crate::recursion::own_table;
use crate::session::duckdb_settings::setting_called;
use crate::session::variables::Variables;
use crate::udf::{self, Functions};

/// The session's state and the tables that a statement names.
pub(super) struct Tables<'a> {
    state: &'a SessionState,
    /// The functions that the session's user has defined.
    functions: Option<Arc<Functions>>,
    /// The meaning of names of types.
    types: Arc<types::Names>,
    /// Whether values may be ENUMs.
    has_enums: bool,
    found: HashMap<ResolvedTableReference, Arc<dyn TableSource>>,
    /// The errors of tables that cannot be read: raised by statements that read them, not by statements that replace them.
    failed: HashMap<ResolvedTableReference, Arc<DataFusionError>>,
    /// The tables of recursive queries, by their names.
    steps: Mutex<HashMap<String, Arc<dyn TableSource>>>,
}

impl<'a> Tables<'a> {
    /// Looks up all tables that `statement`, parsed from `sql`, names, with row numbers if the text mentions them. Missing tables are no error here;
    /// their readers report them.
    pub(super) async fn of(state: &'a SessionState, statement: &Statement, sql: &str) -> Result<Self> {
        let says =
            |word: &str| sql.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()));
        let (rowids, mut has_enums) = (says("rowid"), says("enum"));
        let functions = state.config().get_extension::<Functions>();
        let own_types = CustomTypes::of(state)?;
        has_enums |= own_types.are_in(statement);
        let types = Arc::new(types::Names(own_types));
        let (found, failed) = (HashMap::new(), HashMap::new());
        let mut tables = Self { state, functions, types, has_enums, found, failed, steps: Mutex::default() };
        for reference in state.resolve_table_references(statement)? {
            let name = tables.resolved(reference);
            if tables.found.contains_key(&name) {
                continue;
            }
            let Ok(schema) = state.schema_for_ref(name.clone()) else { continue };
            match table(&*schema, &name.table).await {
                Ok(Some(table)) => {
                    let fields = table.schema();
                    tables.has_enums |= fields.fields().iter().any(|field| own_casts::has_enums(field.data_type()));
                    if rowids {
                        tables.add_numbered(&name, &table);
                    }
                    tables.found.insert(name, provider_as_source(table));
                }
                Ok(None) => {}
                Err(error) => drop(tables.failed.insert(name, Arc::new(error))),
            }
        }
        Ok(tables)
    }

    /// Adds a table of Warpmill with the numbers of its rows.
    fn add_numbered(&mut self, name: &ResolvedTableReference, table: &Arc<dyn TableProvider>) {
        let Some(own) = table.downcast_ref::<WarpmillTable>().filter(|_| !name.table.starts_with(NUMBERED)) else {
            return;
        };
        let numbered = ResolvedTableReference { table: format!("{NUMBERED}{}", name.table).into(), ..name.clone() };
        match WarpmillTable::numbered(&name.table, Arc::clone(own.table())) {
            Ok(table) => drop(self.found.insert(numbered, provider_as_source(Arc::new(table)))),
            Err(error) => drop(self.failed.insert(numbered, Arc::new(error.into()))),
        }
    }

    /// The name of `table` with the numbers of its rows, if the statement needs them.
    pub(super) fn numbered(&self, table: &ResolvedTableReference) -> Option<String> {
        let name = format!("{NUMBERED}{}", table.table);
        let numbered = ResolvedTableReference { table: name.as_str().into(), ..table.clone() };
        self.found.contains_key(&numbered).then_some(name)
    }

    /// Whether values may be ENUMs.
    pub(super) fn has_enums(&self) -> bool {
        self.has_enums
    }

    /// `name` from the catalog on.
    pub(super) fn resolved(&self, name: TableReference) -> ResolvedTableReference {
        let catalog = &self.state.config_options().catalog;
        name.resolve(&catalog.default_catalog, &catalog.default_schema)
    }

    /// The columns of a table.
    pub(super) fn schema(&self, name: TableReference) -> Option<SchemaRef> {
        Some(self.found.get(&self.resolved(name))?.schema())
    }

    /// The value of a call about the session: `current_schema()`, `getvariable('name')`, `current_setting('name')`.
    pub(super) fn session_value(&self, call: &Function) -> Option<SqlExpr> {
        let [name] = call.name.0.as_slice() else { return None };
        let FunctionArguments::List(list) = &call.args else { return None };
        let text = |text: &str| SqlExpr::Value(Value::SingleQuotedString(text.to_string()).into());
        let schema = || {
            let schema = &self.state.config_options().catalog.default_schema;
            if is_main(schema) { DUCKDB_MAIN.to_string() } else { schema.clone() }
        };
        match (name.as_ident()?.value.to_lowercase().as_str(), list.args.as_slice()) {
            ("current_schema", []) => Some(text(&schema())),
            ("current_database" | "current_catalog", []) => Some(text(CATALOG)),
            ("getvariable", [FunctionArg::Unnamed(FunctionArgExpr::Expr(SqlExpr::Value(name)))]) => {
                let Value::SingleQuotedString(name) = &name.value else { return None };
                let variables = self.state.config().get_extension::<Variables>()?;
                Some(variables.get(name).unwrap_or_else(|| SqlExpr::Value(Value::Null.into())))
            }
            ("current_setting", [FunctionArg::Unnamed(FunctionArgExpr::Expr(SqlExpr::Value(name)))]) => {
                let Value::SingleQuotedString(name) = &name.value else { return None };
                let value = setting_called(name, self.state.config_options())?;
                Some(match value.parse::<i64>() {
                    Ok(_) => SqlExpr::Value(Value::Number(value, false).into()),
                    Err(_) => text(&value),
                })
            }
            _ => None,
        }
    }

    /// The value of a constant expression whose names are bound.
    ///
    /// # Errors
    /// An expression that is not constant.
    pub(super) fn constant(&self, expr: SqlExpr) -> Result<ScalarValue> {
        let text = expr.to_string();
        let schema = DFSchema::empty();
        let planner = SqlToRel::new_with_options(self, self.parser_options());
        let expr = planner.sql_to_expr(expr, &schema, &mut PlannerContext::new())?;
        match self.simplified(bind::bound(expr, &schema)?)? {
            Expr::Literal(value, _) => Ok(value),
            _ => plan_err!("{text} is no constant"),
        }
    }

    /// A series of timestamps: DataFusion's function counts nanoseconds; values out of their range become a list.
    fn moments(&self, function: &TableFunction, args: &[Expr]) -> Result<Arc<dyn TableSource>> {
        let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
        let mut counted = vec![];
        for arg in args {
            counted.push(match arg {
                Expr::Literal(ScalarValue::TimestampMicrosecond(_, Some(_)), _) => {
                    return listed_moments(function.name(), args);
                }
                Expr::Literal(value, metadata) if is_moment(arg) => {
                    let moment = value.cast_to(&TIMESTAMP)?.cast_to_with_options(&nanos, &CastOptions::default())?;
                    if moment.is_null() {
                        return listed_moments(function.name(), args);
                    }
                    Expr::Literal(moment, metadata.clone())
                }
                arg => arg.clone(),
            });
        }
        let provider = function.create_table_provider_with_args(TableFunctionArgs::new(&counted, self.state))?;
        let rows = LogicalPlanBuilder::scan("moments", provider_as_source(provider), None)?.build()?;
        let column = rows.schema().columns().swap_remove(0);
        let name = column.name.clone();
        let cast = Expr::Cast(Cast::new(Box::new(Expr::Column(column)), TIMESTAMP)).alias(name);
        let plan = LogicalPlanBuilder::from(rows).project([cast])?.build()?;
        Ok(provider_as_source(Arc::new(ViewTable::new(plan, None))))
    }

    fn simplified(&self, expr: Expr) -> Result<Expr> {
        let context = SimplifyContext::builder()
            .with_config_options(Arc::clone(self.state.config_options()))
            .with_query_execution_start_time(self.state.execution_props().query_execution_start_time)
            .build();
        let simplifier = ExprSimplifier::new(context);
        simplifier.simplify(simplifier.coerce(expr, &DFSchema::empty())?)
    }

    /// The options of the session's SQL parser.
    pub(super) fn parser_options(&self) -> ParserOptions {
        let options = &self.state.config_options().sql_parser;
        ParserOptions {
            parse_float_as_decimal: options.parse_float_as_decimal,
            enable_ident_normalization: options.enable_ident_normalization,
            support_varchar_with_length: options.support_varchar_with_length,
            enable_options_value_normalization: options.enable_options_value_normalization,
            collect_spans: options.collect_spans,
            map_string_types_to_utf8view: options.map_string_types_to_utf8view,
            default_null_ordering: options.default_null_ordering.as_str().into(),
        }
    }
}

/// Whether an argument is a timestamp in microseconds, or a date.
fn is_moment(arg: &Expr) -> bool {
    use ScalarValue::{Date32, TimestampMicrosecond};
    matches!(arg, Expr::Literal(TimestampMicrosecond(Some(_), _) | Date32(Some(_)), _))
}

/// The timestamps of the list function `name`, as rows.
fn listed_moments(name: &str, args: &[Expr]) -> Result<Arc<dyn TableSource>> {
    const COLUMN: &str = "value";
    let name = if name == "range" { "moment_range" } else { "moment_series" };
    let Some(list) = library::call(name, args.to_vec()) else { return plan_err!("no function {name}") };
    let plan = LogicalPlanBuilder::empty(true).project([list.alias(COLUMN)])?.unnest_column(COLUMN)?.build()?;
    Ok(provider_as_source(Arc::new(ViewTable::new(plan, None))))
}

/// The table called `name`, or else the only one whose name differs in case.
async fn table(schema: &dyn SchemaProvider, name: &str) -> Result<Option<Arc<dyn datafusion::catalog::TableProvider>>> {
    if let Some(table) = schema.table(name).await? {
        return Ok(Some(table));
    }
    let lower = name.to_lowercase();
    let names = schema.table_names();
    let mut alike = names.iter().filter(|other| other.to_lowercase() == lower);
    match (alike.next(), alike.next()) {
        (Some(only), None) => schema.table(only).await,
        _ => Ok(None),
    }
}

impl Names for Tables<'_> {
    fn is_volatile(&self, function: &str) -> bool {
        let function = self.state.scalar_functions().get(library::scalar(function));
        function.is_some_and(|function| function.signature().volatility == Volatility::Volatile)
    }

    fn varies(&self, table: &ObjectName) -> bool {
        let parts: Vec<&str> =
            table.0.iter().filter_map(|part| part.as_ident()).map(|name| name.value.as_str()).collect();
        let reference = match parts.as_slice() {
            [table] => TableReference::bare(*table),
            [schema, table] => TableReference::partial(*schema, *table),
            [catalog, schema, table] => TableReference::full(*catalog, *schema, *table),
            _ => return false,
        };
        let source = self.found.get(&self.resolved(reference));
        source.and_then(|source| source.get_logical_plan()).is_some_and(|plan| has_volatile(&plan))
    }
}

/// Whether an expression of a plan differs from run to run.
pub(super) fn has_volatile(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let walked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    });
    found || walked.is_err()
}

impl ContextProvider for Tables<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        if let TableReference::Bare { table } = &name
            && let Some(source) = self.steps.lock().get(&**table)
        {
            return Ok(Arc::clone(source));
        }
        let name = self.resolved(name);
        if let Some(error) = self.failed.get(&name) {
            return Err(DataFusionError::Shared(Arc::clone(error)));
        }
        let source = self.found.get(&name).ok_or_else(|| plan_datafusion_err!("table '{name}' not found"))?;
        let view = source.get_logical_plan().map(|plan| Once::renumbered(&plan)).transpose()?.flatten();
        Ok(view.map_or_else(|| Arc::clone(source), |plan| provider_as_source(Arc::new(ViewTable::new(plan, None)))))
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        let function = self.state.table_functions().get(name);
        let function = function.ok_or_else(|| plan_datafusion_err!("table function '{name}' not found"))?;
        let args = args.into_iter().map(|arg| self.simplified(arg)).collect::<Result<Vec<_>>>()?;
        if matches!(name, "range" | "generate_series") && args.iter().any(is_moment) {
            return self.moments(function, &args);
        }
        let provider = function.create_table_provider_with_args(TableFunctionArgs::new(&args, self.state))?;
        Ok(provider_as_source(provider))
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        if let Some(table) = own_table(name, &schema) {
            let source = provider_as_source(Arc::new(table));
            self.steps.lock().insert(name.to_string(), Arc::clone(&source));
            return Ok(source);
        }
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::<types::Names>::clone(&self.types))
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.state.relation_planners()
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        match name {
            casts::SHOWN => Some(casts::shown()),
            limits::PERCENT => Some(limits::percent()),
            excluded::NAME => Some(excluded::function()),
            functions::TYPED_AS => Some(functions::typed_as()),
            name => {
                let own = || udf::operator(name).or_else(|| self.functions.as_ref()?.scalar(name));
                self.state
                    .scalar_functions()
                    .get(library::scalar(name))
                    .cloned()
                    .map(|plain| alike::planned(plain, self.has_enums))
                    .or_else(own)
            }
        }
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(library::with_lambda(name)).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        let known = library::aggregate(name);
        let registered = || self.state.aggregate_functions().get(known).cloned();
        aggregates::of_texts(known).or_else(registered).or_else(|| self.functions.as_ref()?.aggregate(name))
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(library::aggregate(name)).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state.higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }

    fn get_file_type(&self, ext: &str) -> Result<Arc<dyn datafusion::common::file_options::file_type::FileType>> {
        let format = self.state.get_file_format_factory(ext);
        let format = format.ok_or_else(|| plan_datafusion_err!("no file format has the extension {ext}"))?;
        Ok(format_as_file_type(format))
    }
}
