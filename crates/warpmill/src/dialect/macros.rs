//! Expansion of macro calls, before names are bound.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::catalog::SchemaProvider;
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement as AnyStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LambdaFunctionParameter, MacroArg,
    MacroDefinition, ObjectName, OneOrManyWithParens, Query, Select, Statement, TableAlias, TableFactor, VisitMut,
    VisitorMut,
};

use super::names::quoted;
use super::{syntax, walk};
use crate::catalog::{CATALOG, Defined, MAIN, Schema};
use crate::visit::{visit_expressions, visit_mut};
use crate::{Error, Result};

/// Macros inside each other.
const MOST_DEPTH: usize = 100;
/// Largest number of expression nodes that the macro calls of a statement expand to.
const MOST_NODES: usize = 50_000;

/// A macro.
struct Macro {
    name: String,
    parameters: Vec<MacroArg>,
    definition: MacroDefinition,
}

/// Parses `sql`, a text of CREATE MACRO.
///
/// # Errors
/// It is not one; it has a duplicate parameter.
fn definition(sql: &str, state: &SessionState) -> Result<Macro> {
    let statement = super::parse(state, &super::literals::plain_numbers(&syntax::plain(sql)))?;
    let AnyStatement::Statement(statement) = statement else {
        return Err(Error::Parse(format!("{sql} is no CREATE MACRO")));
    };
    let Statement::CreateMacro { name, args, definition, .. } = *statement else {
        return Err(Error::Parse(format!("{sql} is no CREATE MACRO")));
    };
    let parameters = args.unwrap_or_default();
    let mut seen = HashSet::new();
    if let Some(twice) = parameters.iter().find(|parameter| !seen.insert(parameter.name.value.to_lowercase())) {
        return Err(Error::Plan(format!("macro {name} has parameter {} twice", twice.name)));
    }
    Ok(Macro { name: name.to_string(), parameters, definition })
}

/// Whether `sql` defines a macro that can be called.
///
/// # Errors
/// As [`definition`]; a default that follows none.
pub(crate) fn check(sql: &str, state: &SessionState) -> Result<()> {
    let found = definition(sql, state)?;
    let first = found.parameters.iter().position(|parameter| parameter.default_expr.is_some());
    let after = found.parameters.iter().skip(first.unwrap_or(usize::MAX)).find(|other| other.default_expr.is_none());
    match after {
        Some(other) => Err(Error::Plan(format!(
            "macro {}: parameter {} has no default, and follows one that has",
            found.name, other.name
        ))),
        None => Ok(()),
    }
}

/// The names of the parameters of the macro that `sql` defines.
pub(crate) fn parameters_of(sql: &str, state: &SessionState) -> Result<Vec<String>> {
    let found = definition(sql, state)?;
    Ok(found.parameters.into_iter().map(|parameter| parameter.name.value).collect())
}

/// Replaces the calls of macros in `statement`.
pub(super) fn expand(statement: &mut AnyStatement, state: &SessionState) -> Result<()> {
    let Some(catalog) = state.catalog_list().catalog(CATALOG) else { return Ok(()) };
    let default = &state.config_options().catalog.default_schema;
    let mut schemas = HashMap::new();
    for schema in HashSet::from([default.as_str(), MAIN]) {
        let Some(provider) = catalog.schema(schema) else { continue };
        let Some(own) = (&*provider as &dyn SchemaProvider).downcast_ref::<Schema>() else { continue };
        for name in own.defined_names(Defined::Macro)? {
            if schema == default || !schemas.contains_key(&name) {
                schemas.insert(name, Arc::clone(&provider));
            }
        }
    }
    if schemas.is_empty() {
        return Ok(());
    }
    let mut expander = Expander { state, schemas, depth: 0, nodes: 0 };
    walk::result(walk::statement(statement, &mut expander))
}

struct Expander<'s> {
    state: &'s SessionState,
    /// Schemas of macros by lower-case name.
    schemas: HashMap<String, Arc<dyn SchemaProvider>>,
    depth: usize,
    nodes: usize,
}

impl Expander<'_> {
    /// The macro of a call. Reads only definitions that are called.
    fn called(&self, name: &ObjectName) -> Result<Option<Macro>> {
        let name = last(name).to_lowercase();
        let own =
            self.schemas.get(&name).and_then(|schema| (&**schema as &dyn SchemaProvider).downcast_ref::<Schema>());
        let text = own.map_or(Ok(None), |own| own.definition(Defined::Macro, &name))?;
        text.map(|text| definition(&text, self.state)).transpose()
    }

    fn calls(&self, expr: &Expr) -> bool {
        let found = visit_expressions(expr, |e| match e {
            Expr::Function(call) if self.schemas.contains_key(&last(&call.name).to_lowercase()) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        });
        found.is_break()
    }

    /// Expands a macro: substitutes arguments for its parameters.
    fn applied<T: VisitMut>(&mut self, found: &Macro, body: &mut T, given: &[FunctionArg]) -> Result<()> {
        let arguments = arguments(found, given)?;
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err(Error::Limit(format!(
                "macro {} is more than {MOST_DEPTH} macros deep: it calls itself?",
                found.name
            )));
        }
        let mut substitution = Substitution { arguments: &arguments, shadowed: vec![], nodes: 0 };
        let _: ControlFlow<()> = visit_mut(body, &mut substitution);
        self.nodes += substitution.nodes;
        if self.nodes > MOST_NODES {
            return Err(Error::Limit(format!(
                "calls of '{}' and other macros make an expression that is too large ({MOST_NODES} parts are the limit)",
                found.name
            )));
        }
        walk::result(visit_mut(body, self))?;
        self.depth -= 1;
        Ok(())
    }

    fn replacement(&mut self, call: &Function) -> Result<Option<Expr>> {
        let Some(found) = self.called(&call.name)? else { return Ok(None) };
        let refused = |what: &str| Error::NotImplemented(format!("macro {}: {what} in its call", found.name));
        let MacroDefinition::Expr(body) = &found.definition else {
            return Err(Error::Plan(format!("macro {} is a table: it is called in FROM", found.name)));
        };
        let given = match &call.args {
            FunctionArguments::List(list) if list.duplicate_treatment.is_some() => return Err(refused("DISTINCT")),
            FunctionArguments::List(list) if !list.clauses.is_empty() => return Err(refused("ORDER BY")),
            FunctionArguments::List(list) => list.args.as_slice(),
            FunctionArguments::None => &[],
            FunctionArguments::Subquery(_) => return Err(refused("a query without parentheses of its own")),
        };
        if call.over.is_some() || call.filter.is_some() || !call.within_group.is_empty() {
            return Err(refused("OVER, FILTER and WITHIN GROUP"));
        }
        let mut body = body.clone();
        self.applied(&found, &mut body, given)?;
        Ok(Some(Expr::Nested(Box::new(body))))
    }

    fn relation(&mut self, factor: &TableFactor) -> Result<Option<TableFactor>> {
        let TableFactor::Table { name, alias, args: Some(args), .. } = factor else { return Ok(None) };
        let Some(found) = self.called(name)? else { return Ok(None) };
        let MacroDefinition::Table(body) = &found.definition else {
            return Err(Error::Plan(format!("macro {} is a value: it is called in an expression", found.name)));
        };
        let mut subquery: Query = Query::clone(body);
        self.applied(&found, &mut subquery, &args.args)?;
        let called = || TableAlias { explicit: true, name: quoted(&last(name)), columns: vec![], at: None };
        let alias = Some(alias.clone().unwrap_or_else(called));
        Ok(Some(TableFactor::Derived { lateral: false, subquery: Box::new(subquery), alias, sample: None }))
    }
}

fn last(name: &ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map_or_else(String::new, |ident| ident.value.clone())
}

impl VisitorMut for Expander<'_> {
    type Break = Box<Error>;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Box<Error>> {
        walk::name_columns(select, |expr| self.calls(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<Error>> {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        match self.replacement(call) {
            Ok(Some(replacement)) => *expr = replacement,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(Box::new(error)),
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Box<Error>> {
        match self.relation(factor) {
            Ok(Some(replacement)) => *factor = replacement,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(Box::new(error)),
        }
        ControlFlow::Continue(())
    }
}

/// The argument of each parameter, by lower-case name.
fn arguments(found: &Macro, given: &[FunctionArg]) -> Result<HashMap<String, Expr>> {
    let list = || found.parameters.iter().map(|parameter| parameter.name.value.as_str()).collect::<Vec<_>>().join(", ");
    let mut all = HashMap::new();
    let mut add = |name: &Ident, value: &Expr| {
        let known = found.parameters.iter().any(|parameter| parameter.name.value.eq_ignore_ascii_case(&name.value));
        if !known {
            return Err(Error::Plan(format!("macro {}({}) has no parameter {name}", found.name, list())));
        }
        match all.insert(name.value.to_lowercase(), value.clone()) {
            Some(_) => Err(Error::Plan(format!("macro {}: parameter {name} is given twice", found.name))),
            None => Ok(()),
        }
    };
    let mut position = 0;
    for arg in given {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => {
                let Some(parameter) = found.parameters.get(position) else {
                    let (count, name) = (given.len(), &found.name);
                    return Err(Error::Plan(format!("macro {name}({}) is given {count} arguments", list())));
                };
                position += 1;
                add(&parameter.name, value)?;
            }
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => add(name, value)?,
            FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), .. } => {
                add(name, value)?;
            }
            other => return Err(Error::NotImplemented(format!("macro {}: the argument {other}", found.name))),
        }
    }
    for parameter in &found.parameters {
        if let Entry::Vacant(missing) = all.entry(parameter.name.value.to_lowercase()) {
            let default = parameter.default_expr.clone();
            missing.insert(default.ok_or_else(|| {
                Error::Plan(format!("macro {}({}): parameter {} is missing", found.name, list(), parameter.name))
            })?);
        }
    }
    Ok(all)
}

/// `expr` with names, in lower case, replaced by other expressions.
pub(super) fn substituted(mut expr: Expr, arguments: &HashMap<String, Expr>) -> Expr {
    let mut substitution = Substitution { arguments, shadowed: vec![], nodes: 0 };
    let _: ControlFlow<()> = visit_mut(&mut expr, &mut substitution);
    expr
}

/// Substitutes arguments for parameters.
struct Substitution<'a> {
    arguments: &'a HashMap<String, Expr>,
    /// Parameters of surrounding lambda functions, which hide the macro's.
    shadowed: Vec<String>,
    nodes: usize,
}

fn parameters(params: &OneOrManyWithParens<LambdaFunctionParameter>) -> &[LambdaFunctionParameter] {
    match params {
        OneOrManyWithParens::One(one) => std::slice::from_ref(one),
        OneOrManyWithParens::Many(many) => many,
    }
}

impl VisitorMut for Substitution<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Lambda(lambda) = expr {
            self.shadowed
                .extend(parameters(&lambda.params).iter().map(|parameter| parameter.name.value.to_lowercase()));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.nodes += 1;
        match expr {
            Expr::Lambda(lambda) => {
                let around = self.shadowed.len() - parameters(&lambda.params).len();
                self.shadowed.truncate(around);
            }
            Expr::Identifier(name) => {
                let name = name.value.to_lowercase();
                if !self.shadowed.contains(&name)
                    && let Some(argument) = self.arguments.get(&name)
                {
                    let _: ControlFlow<()> = visit_expressions(argument, |_| {
                        self.nodes += 1;
                        ControlFlow::Continue(())
                    });
                    *expr = match argument {
                        Expr::Identifier(_) | Expr::Value(_) | Expr::CompoundIdentifier(_) => argument.clone(),
                        other => Expr::Nested(Box::new(other.clone())),
                    };
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
