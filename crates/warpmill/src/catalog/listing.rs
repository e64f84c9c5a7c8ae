//! `information_schema`: lists all tables, without the contents of unreadable ones.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::logical_expr::TableType;

use super::described::Described;
use super::{CATALOG, Catalog, DUCKDB_MAIN, MAIN, Shared};

/// The schema of that name.
pub(super) fn information_schema(catalog: &Arc<Catalog>, shared: &Arc<Shared>) -> Arc<dyn SchemaProvider> {
    let provider = InformationSchemaProvider::new(Arc::new(Listed(Arc::clone(catalog))));
    let functions = shared.state().map(|state| state.table_functions().clone()).unwrap_or_default();
    let inner = provider.with_table_functions(functions);
    Arc::new(Described { inner, catalog: Arc::clone(catalog), shared: Arc::clone(shared) })
}

/// A catalog in which damaged tables and broken views have no columns, instead of failing every query of columns.
#[derive(Debug)]
struct Listed<T>(Arc<T>);

impl CatalogProviderList for Listed<Catalog> {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.to_string()]
    }

    fn catalog(&self, _: &str) -> Option<Arc<dyn CatalogProvider>> {
        Some(Arc::new(Listed(Arc::clone(&self.0))))
    }
}

impl CatalogProvider for Listed<Catalog> {
    fn schema_names(&self) -> Vec<String> {
        let name = |name: String| if name == MAIN { DUCKDB_MAIN.to_string() } else { name };
        self.0.schema_names().into_iter().map(name).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let schema = self.0.find_schema(name).ok().flatten()?;
        Some(Arc::new(Listed(schema)))
    }
}

#[async_trait]
impl SchemaProvider for Listed<super::Schema> {
    fn table_names(&self) -> Vec<String> {
        self.0.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        Ok(self.0.table(name).await.unwrap_or_else(|error| {
            tracing::warn!(table = name, %error, "a table cannot be read");
            None
        }))
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>, DataFusionError> {
        self.0.table_type(name).await
    }

    fn table_exist(&self, name: &str) -> bool {
        self.0.table_exist(name)
    }
}
