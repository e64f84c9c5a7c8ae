//! Catalogs, schemas, tables, types, and the server's capabilities.

use arrow::array::AsArray;
use arrow::datatypes::Schema;
use arrow::record_batch::RecordBatch;
use arrow_flight::IpcMessage;
use arrow_flight::sql::{
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetTables, CommandGetXdbcTypeInfo, SqlInfo,
};
use arrow_flight::{Empty, FlightInfo};
use futures::TryStreamExt;

use crate::support::*;

async fn all(client: &mut Client, info: Result<FlightInfo, arrow_flight::error::FlightError>) -> RecordBatch {
    let batches = fetch(client, info.unwrap()).await.unwrap();
    arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap()
}

fn texts(batch: &RecordBatch, column: &str) -> Vec<String> {
    let column = batch.column_by_name(column).unwrap().as_string::<i32>();
    column.iter().map(|text| text.unwrap().to_string()).collect()
}

#[test]
fn tables_are_listed() {
    test(async {
        let server = start(|_| ());
        let mut client = server.own().await;
        update(&mut client, "CREATE TABLE alpha AS SELECT 1 AS a, 'x' AS s").await.unwrap();
        update(&mut client, "CREATE TABLE beta AS SELECT 1.5 AS b").await.unwrap();
        update(&mut client, "CREATE VIEW gamma AS SELECT a FROM alpha").await.unwrap();
        let info = client.get_catalogs().await;
        assert_eq!(texts(&all(&mut client, info).await, "catalog_name"), ["datafusion"]);
        let info = client.get_db_schemas(CommandGetDbSchemas::default()).await;
        assert!(texts(&all(&mut client, info).await, "db_schema_name").contains(&"public".to_string()));
        let info = client.get_table_types().await;
        assert_eq!(texts(&all(&mut client, info).await, "table_type"), ["LOCAL TEMPORARY", "TABLE", "VIEW"]);
        let tables = |pattern: &str, kinds: &[&str]| CommandGetTables {
            table_name_filter_pattern: Some(pattern.into()),
            table_types: kinds.iter().map(|kind| kind.to_string()).collect(),
            include_schema: true,
            ..CommandGetTables::default()
        };
        let info = client.get_tables(tables("%", &[])).await;
        let found = all(&mut client, info).await;
        assert_eq!(texts(&found, "table_name"), ["alpha", "beta", "gamma"]);
        assert_eq!(texts(&found, "table_type"), ["TABLE", "TABLE", "VIEW"]);
        let bytes = found.column_by_name("table_schema").unwrap().as_binary::<i32>().value(0).to_vec();
        let schema = Schema::try_from(IpcMessage(bytes.into())).unwrap();
        let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["a", "s"]);
        let info = client.get_tables(tables("%a%", &["VIEW"])).await;
        assert_eq!(texts(&all(&mut client, info).await, "table_name"), ["gamma"]);
        let none = fetch(&mut client, client_tables(&server, "nothing").await).await.unwrap();
        assert_eq!(none.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
    });
}

async fn client_tables(server: &Running, catalog: &str) -> FlightInfo {
    let request = CommandGetTables { catalog: Some(catalog.into()), ..CommandGetTables::default() };
    server.client().await.get_tables(request).await.unwrap()
}

#[test]
fn keys_are_none() {
    test(async {
        let server = start(|_| ());
        let mut client = server.client().await;
        let table = || "t".to_string();
        let infos = [
            client.get_primary_keys(CommandGetPrimaryKeys { table: table(), ..Default::default() }).await,
            client.get_imported_keys(CommandGetImportedKeys { table: table(), ..Default::default() }).await,
            client.get_exported_keys(CommandGetExportedKeys { table: table(), ..Default::default() }).await,
            client.get_cross_reference(CommandGetCrossReference::default()).await,
        ];
        for (info, columns) in infos.into_iter().zip([6, 13, 13, 13]) {
            let info = info.unwrap();
            assert_eq!(info.clone().try_decode_schema().unwrap().fields().len(), columns);
            let rows = fetch(&mut client, info).await.unwrap();
            assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
        }
    });
}

#[test]
fn types_and_facts() {
    test(async {
        let server = start(|_| ());
        let mut client = server.client().await;
        let info = client.get_xdbc_type_info(CommandGetXdbcTypeInfo::default()).await;
        let types = texts(&all(&mut client, info).await, "type_name");
        for name in ["BIGINT", "BOOLEAN", "DATE", "DECIMAL", "DOUBLE", "TIMESTAMP", "VARCHAR"] {
            assert!(types.contains(&name.to_string()), "{name}");
        }
        let info = client.get_xdbc_type_info(CommandGetXdbcTypeInfo { data_type: Some(12) }).await;
        assert_eq!(texts(&all(&mut client, info).await, "type_name"), ["VARCHAR"]);
        let info = client.get_sql_info(vec![SqlInfo::FlightSqlServerName, SqlInfo::FlightSqlServerCancel]).await;
        assert_eq!(all(&mut client, info).await.num_rows(), 2);
        let info = client.get_sql_info(vec![]).await;
        assert!(all(&mut client, info).await.num_rows() > 50);
        let actions = client.inner_mut().list_actions(Empty {}).await.unwrap().into_inner();
        let actions: Vec<_> = actions.map_ok(|action| action.r#type).try_collect().await.unwrap();
        for name in ["CreatePreparedStatement", "CancelFlightInfo", "SetSessionOptions", "CloseSession"] {
            assert!(actions.contains(&name.to_string()), "{name}");
        }
    });
}
