//! The types that CREATE TYPE has made.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::catalog::{CatalogProvider, SchemaProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType as SqlType, Expr, ObjectName, TypedString};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::types;
use crate::Error;
use crate::catalog::{CATALOG, Defined, MAIN, Schema, same};
use crate::visit::visit_expressions;

/// The types that a statement may name: without a schema, those of the default schema, then those of the main schema.
#[derive(Debug, Clone, Default)]
pub(super) struct CustomTypes {
    catalog: Option<Arc<dyn CatalogProvider>>,
    /// The schemas of unqualified types by lower-case name.
    schemas: HashMap<String, Arc<dyn SchemaProvider>>,
}

impl CustomTypes {
    pub(super) fn of(state: &SessionState) -> Result<Self> {
        let mut schemas = HashMap::new();
        let Some(catalog) = state.catalog_list().catalog(CATALOG) else { return Ok(Self::default()) };
        let default = &state.config_options().catalog.default_schema;
        for name in HashSet::from([default.as_str(), MAIN]) {
            let Some(provider) = catalog.schema(name) else { continue };
            let Some(schema) = own(&provider) else { continue };
            for defined in schema.defined_names(Defined::Type)? {
                if name == default || !schemas.contains_key(&defined) {
                    schemas.insert(defined, Arc::clone(&provider));
                }
            }
        }
        Ok(Self { catalog: Some(catalog), schemas })
    }

    /// Whether `statement` may use one of them.
    pub(super) fn are_in(&self, statement: &Statement) -> bool {
        let Statement::Statement(statement) = statement else { return !self.schemas.is_empty() };
        let names_schema = |e: &Expr| match e {
            Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. })
                if data_type.to_string().contains('.') =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        };
        !self.schemas.is_empty() || visit_expressions(&**statement, names_schema).is_break()
    }

    /// The type `name`; `None` if it does not exist. Reads only definitions that are used.
    pub(super) fn called(&self, name: &ObjectName) -> Result<Option<DataType>> {
        let parts: Option<Vec<&str>> = name.0.iter().map(|part| Some(part.as_ident()?.value.as_str())).collect();
        let schema = |name: &str| self.catalog.as_ref()?.schema(name);
        let (provider, name) = match parts.as_deref() {
            Some([name]) => (self.schemas.get(&name.to_lowercase()).cloned(), *name),
            Some([of, name]) => (schema(of), *name),
            Some([catalog, of, name]) if same(catalog, CATALOG) => (schema(of), *name),
            _ => return Ok(None),
        };
        let definition = provider.as_ref().and_then(own).map(|schema| schema.definition(Defined::Type, name));
        definition.transpose()?.flatten().map(|text| type_of(&text)).transpose()
    }
}

fn own(provider: &Arc<dyn SchemaProvider>) -> Option<&Schema> {
    (&**provider as &dyn SchemaProvider).downcast_ref::<Schema>()
}

/// Parses the name of a type.
pub(super) fn parsed(text: &str) -> Result<SqlType> {
    let parser = Parser::new(&DuckDbDialect).try_with_sql(text);
    let parsed = parser.and_then(|mut parser| parser.parse_data_type());
    parsed.map_err(|error| DataFusionError::from(Error::Parse(format!("{error} (of {text})"))))
}

/// The type in the text of a definition.
pub(crate) fn type_of(text: &str) -> Result<DataType> {
    types::whole(&parsed(text)?, &CustomTypes::default())
}

/// Whether a name is a type without a user definition.
pub(crate) fn is_type(name: &str) -> bool {
    parsed(name).is_ok_and(|parsed| match &parsed {
        SqlType::Custom(..) => matches!(types::named(&parsed, &CustomTypes::default()), Ok(Some(_))),
        _ => true,
    })
}

/// Whether an expression casts to the type `name`, or to one that contains it.
pub(crate) fn casts_to(e: &Expr, name: &str) -> bool {
    let cast = |e: &Expr| match e {
        Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) if names(data_type, name) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(e, cast).is_break()
}

/// Whether a type is the one called `name`, or contains it.
fn names(ty: &SqlType, name: &str) -> bool {
    match ty {
        SqlType::Custom(own, _) => {
            own.0.last().and_then(|part| part.as_ident()).is_some_and(|own| same(&own.value, name))
        }
        SqlType::Array(
            ArrayElemTypeDef::SquareBracket(element, _)
            | ArrayElemTypeDef::AngleBracket(element)
            | ArrayElemTypeDef::Parenthesis(element),
        ) => names(element, name),
        SqlType::Map(key, value) => names(key, name) || names(value, name),
        SqlType::Struct(fields, _) => fields.iter().any(|field| names(&field.field_type, name)),
        _ => false,
    }
}
