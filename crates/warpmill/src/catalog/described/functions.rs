//! Functions that SQL can call: `duckdb_functions()`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, ListBuilder, StringBuilder};
use datafusion::catalog::TableProvider;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Documentation, Volatility};

use super::{FUNCTIONS, shown_schema, table, texts, truths};
use crate::Result;
use crate::catalog::{CATALOG, Catalog, DUCKDB_MAIN, Defined, creating};
use crate::dialect::{aggregate_names, called_names, macro_parameters, scalar_aliases};
use crate::udf::Functions;

/// Table functions that the dialect implements itself.
const READERS: [&str; 13] = [
    "glob",
    "parquet_scan",
    "pragma_table_info",
    "read_blob",
    "read_csv",
    "read_csv_auto",
    "read_json",
    "read_json_auto",
    "read_json_objects",
    "read_ndjson",
    "read_ndjson_auto",
    "read_parquet",
    "read_text",
];

/// A function or a macro.
struct Function {
    schema: String,
    alias_of: Option<&'static str>,
    description: Option<String>,
    /// The names of its parameters, if known.
    parameters: Option<Vec<String>>,
    /// The definition of a macro.
    definition: Option<String>,
    side_effects: Option<bool>,
    internal: bool,
}

impl Function {
    fn internal(documentation: Option<&Documentation>, volatility: Option<Volatility>) -> Self {
        let named = |of: &Documentation| {
            let arguments = of.arguments.as_ref()?;
            Some(arguments.iter().map(|(name, _)| name.clone()).collect())
        };
        Self {
            schema: DUCKDB_MAIN.to_string(),
            alias_of: None,
            description: documentation.map(|of| of.description.trim().to_string()),
            parameters: documentation.and_then(named),
            definition: None,
            side_effects: volatility.map(|volatility| volatility == Volatility::Volatile),
            internal: true,
        }
    }
}

/// The functions by name and kind: overloads of one name and kind have one entry.
type All = BTreeMap<(String, &'static str), Function>;

/// `duckdb_functions()`, with one row per name and without the types of arguments.
pub(super) fn functions(catalog: &Catalog, state: &SessionState) -> Result<Arc<dyn TableProvider>> {
    let mut all = All::new();
    add_registered(&mut all, state);
    add_macros(&mut all, catalog, state)?;
    if let Some(own) = state.config().get_extension::<Functions>() {
        for name in own.names() {
            let kind = if own.aggregate(&name).is_some() { "aggregate" } else { "scalar" };
            all.insert((name, kind), Function { internal: false, ..Function::internal(None, None) });
        }
    }
    let rows = || all.values();
    let mut parameters = ListBuilder::new(StringBuilder::new());
    for function in rows() {
        parameters.append_option(function.parameters.as_ref().map(|names| names.iter().map(Some)));
    }
    let stability =
        |function: &Function| Some(if function.side_effects? { "VOLATILE" } else { "CONSISTENT" }.to_string());
    table(vec![
        ("database_name", texts(rows().map(|_| Some(CATALOG.to_string())))),
        ("schema_name", texts(rows().map(|function| Some(function.schema.clone())))),
        ("function_name", texts(all.keys().map(|(name, _)| Some(name.clone())))),
        ("alias_of", texts(rows().map(|function| function.alias_of.map(str::to_string)))),
        ("function_type", texts(all.keys().map(|(_, kind)| Some(kind.to_string())))),
        ("description", texts(rows().map(|function| function.description.clone()))),
        ("comment", texts(rows().map(|_| None))),
        ("parameters", Arc::new(parameters.finish()) as ArrayRef),
        ("macro_definition", texts(rows().map(|function| function.definition.clone()))),
        ("has_side_effects", Arc::new(rows().map(|function| function.side_effects).collect::<BooleanArray>())),
        ("internal", truths(rows().map(|function| function.internal))),
        ("stability", texts(rows().map(stability))),
    ])
}

fn add_registered(all: &mut All, state: &SessionState) {
    let is_callable = |name: &str| {
        !name.starts_with("__")
            && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
    };
    let mut add = |name: &str, kind, function: Function| {
        if is_callable(name) {
            all.entry((name.to_string(), kind)).or_insert(function);
        }
    };
    for (name, function) in state.scalar_functions() {
        add(name, "scalar", Function::internal(function.documentation(), Some(function.signature().volatility)));
    }
    for name in state.higher_order_functions().keys() {
        add(name, "scalar", Function::internal(None, None));
    }
    for (name, stands_for) in scalar_aliases() {
        let known = state.scalar_functions().get(stands_for);
        let function = match known {
            Some(known) => Function::internal(known.documentation(), Some(known.signature().volatility)),
            None => Function::internal(None, None),
        };
        add(
            name,
            "scalar",
            Function { alias_of: (!stands_for.starts_with("simple_")).then_some(stands_for), ..function },
        );
    }
    for (name, function) in state.aggregate_functions() {
        add(name, "aggregate", Function::internal(function.documentation(), None));
    }
    for name in aggregate_names() {
        add(name, "aggregate", Function::internal(None, None));
    }
    for (name, function) in state.window_functions() {
        add(name, "window", Function::internal(function.documentation(), None));
    }
    for name in state.table_functions().keys().map(String::as_str).chain(READERS).chain(FUNCTIONS) {
        add(name, "table", Function::internal(None, None));
    }
    let aggregates = state.aggregate_functions();
    for name in called_names().filter(|name| !aggregates.contains_key(*name)) {
        add(name, "scalar", Function::internal(None, None));
    }
}

fn add_macros(all: &mut All, catalog: &Catalog, state: &SessionState) -> Result<()> {
    for of in catalog.all_schemas()? {
        let Some(schema) = catalog.find_schema(&of)? else { continue };
        for name in schema.defined_names(Defined::Macro)? {
            let Some(sql) = schema.definition(Defined::Macro, &name)? else { continue };
            let (definition, is_table) = creating::definition_of_macro(&sql)?;
            let function = Function {
                schema: shown_schema(&of),
                parameters: Some(macro_parameters(&sql, state)?),
                definition: Some(definition),
                internal: false,
                ..Function::internal(None, None)
            };
            all.insert((name, if is_table { "table_macro" } else { "macro" }), function);
        }
    }
    Ok(())
}
