//! Metadata: catalogs, schemas, tables, types, and capabilities of the server.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use arrow_flight::sql::metadata::{
    GetTablesBuilder, SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    Command, Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity, SqlSupportedTransaction,
    SqlSupportsConvert, XdbcDataType, XdbcDatetimeSubcode,
};
use datafusion::logical_expr::TableType;
use tonic::Status;

use super::no_such_command;
use crate::config::{ConfigError, Limits};
use crate::server::Shared;
use crate::session::ClientSession;
use crate::status;

/// The facts that do not change while the server runs.
pub(crate) struct Facts {
    server: SqlInfoData,
    types: XdbcTypeInfoData,
}

impl Facts {
    pub(crate) fn new(limits: &Limits) -> Result<Self, ConfigError> {
        let failed = |error: arrow_flight::error::FlightError| ConfigError::Invalid(error.to_string());
        Ok(Self { server: server_facts(limits).build().map_err(failed)?, types: types().build().map_err(failed)? })
    }
}

/// The schema of a command's result.
pub(super) fn schema(server: &Shared, command: &Command) -> Result<SchemaRef, Status> {
    Ok(match command {
        Command::CommandGetCatalogs(command) => (*command).into_builder().schema(),
        Command::CommandGetDbSchemas(command) => command.clone().into_builder().schema(),
        Command::CommandGetTables(command) => command.clone().into_builder().schema(),
        Command::CommandGetTableTypes(command) => (*command).into_builder().schema(),
        Command::CommandGetSqlInfo(command) => command.clone().into_builder(&server.facts.server).schema(),
        Command::CommandGetXdbcTypeInfo(command) => (*command).into_builder(&server.facts.types).schema(),
        Command::CommandGetPrimaryKeys(_) => primary_keys(),
        Command::CommandGetImportedKeys(_)
        | Command::CommandGetExportedKeys(_)
        | Command::CommandGetCrossReference(_) => foreign_keys(),
        command => return Err(no_such_command(command)),
    })
}

/// A command's answer.
pub(super) async fn batch(server: &Shared, session: &ClientSession, command: Command) -> Result<RecordBatch, Status> {
    let built = match command {
        Command::CommandGetCatalogs(command) => {
            let mut catalogs = command.into_builder();
            session.engine.context().catalog_names().into_iter().for_each(|name| catalogs.append(name));
            catalogs.build()
        }
        Command::CommandGetDbSchemas(command) => {
            let mut schemas = command.into_builder();
            for (catalog, schema) in places(session) {
                schemas.append(catalog, schema);
            }
            schemas.build()
        }
        Command::CommandGetTables(command) => {
            let mut tables = command.into_builder();
            add_tables(session, &mut tables).await?;
            tables.build()
        }
        Command::CommandGetTableTypes(command) => {
            let mut kinds = command.into_builder();
            ["TABLE", "VIEW", "LOCAL TEMPORARY"].into_iter().for_each(|kind| kinds.append(kind));
            kinds.build()
        }
        Command::CommandGetSqlInfo(command) => command.into_builder(&server.facts.server).build(),
        Command::CommandGetXdbcTypeInfo(command) => command.into_builder(&server.facts.types).build(),
        // Tables have no keys.
        command => return Ok(RecordBatch::new_empty(schema(server, &command)?)),
    };
    built.map_err(status::internal)
}

/// All pairs of catalog and schema.
fn places(session: &ClientSession) -> Vec<(String, String)> {
    let context = session.engine.context();
    let catalogs = context.catalog_names().into_iter();
    let places = catalogs.flat_map(|catalog| {
        let schemas = context.catalog(&catalog).map_or_else(Vec::new, |found| found.schema_names());
        schemas.into_iter().map(move |schema| (catalog.clone(), schema))
    });
    places.collect()
}

async fn add_tables(session: &ClientSession, tables: &mut GetTablesBuilder) -> Result<(), Status> {
    let context = session.engine.context();
    for (catalog, schema) in places(session) {
        let Some(found) = context.catalog(&catalog).and_then(|found| found.schema(&schema)) else { continue };
        for table in found.table_names() {
            // A table that has been dropped meanwhile, or cannot be read, is not listed.
            let provider = match found.table(&table).await {
                Ok(Some(provider)) => provider,
                Ok(None) => continue,
                Err(error) => {
                    tracing::warn!(table, %error, "a table cannot be opened");
                    continue;
                }
            };
            let kind = match provider.table_type() {
                TableType::Base => "TABLE",
                TableType::View => "VIEW",
                TableType::Temporary => "LOCAL TEMPORARY",
            };
            let appended = tables.append(&catalog, &schema, &table, kind, &provider.schema());
            appended.map_err(status::internal)?;
        }
    }
    Ok(())
}

fn text(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Utf8, nullable)
}

/// The columns of CommandGetPrimaryKeys' answer.
fn primary_keys() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("catalog_name", true),
        text("db_schema_name", true),
        text("table_name", false),
        text("column_name", false),
        text("key_name", true),
        Field::new("key_sequence", DataType::Int32, false),
    ]))
}

/// The schema of results about foreign keys.
fn foreign_keys() -> SchemaRef {
    let side = |side: &str| {
        ["catalog_name", "db_schema_name", "table_name", "column_name"]
            .map(|name| text(&format!("{side}_{name}"), name.starts_with("catalog") || name.starts_with("db")))
    };
    let mut fields: Vec<_> = side("pk").into_iter().chain(side("fk")).collect();
    fields.push(Field::new("key_sequence", DataType::Int32, false));
    fields.extend([text("fk_key_name", true), text("pk_key_name", true)]);
    fields.extend(["update_rule", "delete_rule"].map(|name| Field::new(name, DataType::UInt8, false)));
    Arc::new(Schema::new(fields))
}

fn server_facts(limits: &Limits) -> SqlInfoDataBuilder {
    let mut facts = SqlInfoDataBuilder::new();
    facts.append(SqlInfo::FlightSqlServerName, "Warpmill");
    facts.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    facts.append(SqlInfo::FlightSqlServerArrowVersion, "1.3");
    facts.append(SqlInfo::FlightSqlServerReadOnly, false);
    facts.append(SqlInfo::FlightSqlServerSql, true);
    facts.append(SqlInfo::FlightSqlServerSubstrait, false);
    facts.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::None as i32);
    facts.append(SqlInfo::FlightSqlServerCancel, true);
    facts.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    facts.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, false);
    facts.append(SqlInfo::FlightSqlServerStatementTimeout, i32::try_from(limits.query_seconds).unwrap_or(i32::MAX));
    facts.append(SqlInfo::FlightSqlServerTransactionTimeout, 0);
    facts.append(SqlInfo::SqlDdlCatalog, false);
    facts.append(SqlInfo::SqlDdlSchema, false);
    facts.append(SqlInfo::SqlDdlTable, true);
    facts.append(SqlInfo::SqlIdentifierCase, SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32);
    facts.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    facts.append(SqlInfo::SqlQuotedIdentifierCase, SqlSupportedCaseSensitivity::SqlCaseSensitivityUnknown as i32);
    facts.append(SqlInfo::SqlAllTablesAreSelectable, true);
    facts.append(SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i32);
    facts.append(SqlInfo::SqlKeywords, &[][..] as &[&str]);
    facts.append(SqlInfo::SqlNumericFunctions, &["abs", "ceil", "exp", "floor", "ln", "pow", "round", "sqrt"][..]);
    let strings = ["char_length", "concat", "lower", "ltrim", "replace", "rtrim", "substring", "trim", "upper"];
    facts.append(SqlInfo::SqlStringFunctions, &strings[..]);
    facts.append(SqlInfo::SqlSystemFunctions, &[][..] as &[&str]);
    facts.append(SqlInfo::SqlDatetimeFunctions, &["current_date", "date_part", "date_trunc", "extract", "now"][..]);
    facts.append(SqlInfo::SqlSearchStringEscape, "\\");
    facts.append(SqlInfo::SqlExtraNameCharacters, "");
    facts.append(SqlInfo::SqlSupportsColumnAliasing, true);
    facts.append(SqlInfo::SqlNullPlusNullIsNull, true);
    facts.append(SqlInfo::SqlSupportsConvert, BTreeMap::from([(conversion_of_integers(), conversions())]));
    facts.append(SqlInfo::SqlSupportsTableCorrelationNames, true);
    facts.append(SqlInfo::SqlSupportsDifferentTableCorrelationNames, false);
    facts.append(SqlInfo::SqlSupportsExpressionsInOrderBy, true);
    facts.append(SqlInfo::SqlSupportsOrderByUnrelated, true);
    // Bits: GROUP BY of columns beyond the selected; the grammars; outer joins of all kinds; subqueries; unions.
    facts.append(SqlInfo::SqlSupportedGroupBy, 0b11);
    facts.append(SqlInfo::SqlSupportsLikeEscapeClause, true);
    facts.append(SqlInfo::SqlSupportsNonNullableColumns, true);
    facts.append(SqlInfo::SqlSupportedGrammar, 0b11);
    facts.append(SqlInfo::SqlSupportsIntegrityEnhancementFacility, false);
    facts.append(SqlInfo::SqlOuterJoinsSupportLevel, 0b100);
    facts.append(SqlInfo::SqlSchemaTerm, "schema");
    facts.append(SqlInfo::SqlProcedureTerm, "procedure");
    facts.append(SqlInfo::SqlCatalogTerm, "catalog");
    facts.append(SqlInfo::SqlCatalogAtStart, true);
    facts.append(SqlInfo::SqlSchemasSupportedActions, 0);
    facts.append(SqlInfo::SqlCatalogsSupportedActions, 0);
    facts.append(SqlInfo::SqlSupportedPositionedCommands, 0);
    facts.append(SqlInfo::SqlSelectForUpdateSupported, false);
    facts.append(SqlInfo::SqlStoredProceduresSupported, false);
    facts.append(SqlInfo::SqlSupportedSubqueries, 0b1111);
    facts.append(SqlInfo::SqlCorrelatedSubqueriesSupported, true);
    facts.append(SqlInfo::SqlSupportedUnions, 0b11);
    facts.append(SqlInfo::SqlMaxStatementLength, i64::try_from(limits.sql_bytes).unwrap_or(i64::MAX));
    facts.append(SqlInfo::SqlMaxConnections, i64::try_from(limits.connections).unwrap_or(i64::MAX));
    facts.append(SqlInfo::SqlDefaultTransactionIsolation, 0i64);
    facts.append(SqlInfo::SqlTransactionsSupported, false);
    facts.append(SqlInfo::SqlSupportedTransactionsIsolationLevels, 0);
    facts.append(SqlInfo::SqlDataDefinitionCausesTransactionCommit, false);
    facts.append(SqlInfo::SqlDataDefinitionsInTransactionsIgnored, false);
    facts.append(SqlInfo::SqlSupportedResultSetTypes, 0b10);
    facts.append(SqlInfo::SqlBatchUpdatesSupported, true);
    facts.append(SqlInfo::SqlSavepointsSupported, false);
    facts.append(SqlInfo::SqlNamedParametersSupported, true);
    facts.append(SqlInfo::SqlLocatorsUpdateCopy, false);
    facts.append(SqlInfo::SqlStoredFunctionsUsingCallSyntaxSupported, false);
    facts
}

fn conversion_of_integers() -> i32 {
    SqlSupportsConvert::SqlConvertInteger as i32
}

/// The types that integers can be cast to.
fn conversions() -> Vec<i32> {
    use SqlSupportsConvert as To;
    [To::SqlConvertBigint, To::SqlConvertDecimal, To::SqlConvertReal, To::SqlConvertSmallint, To::SqlConvertVarchar]
        .map(|to| to as i32)
        .to_vec()
}

/// The types of columns, with their SQL names.
fn types() -> XdbcTypeInfoDataBuilder {
    use XdbcDataType as T;
    let mut types = XdbcTypeInfoDataBuilder::new();
    // Name, type, digits or characters, unsigned (of numbers).
    let numbers = [
        ("TINYINT", T::XdbcTinyint, 3, false),
        ("TINYINT UNSIGNED", T::XdbcTinyint, 3, true),
        ("SMALLINT", T::XdbcSmallint, 5, false),
        ("SMALLINT UNSIGNED", T::XdbcSmallint, 5, true),
        ("INTEGER", T::XdbcInteger, 10, false),
        ("INTEGER UNSIGNED", T::XdbcInteger, 10, true),
        ("BIGINT", T::XdbcBigint, 19, false),
        ("BIGINT UNSIGNED", T::XdbcBigint, 20, true),
        ("REAL", T::XdbcReal, 7, false),
        ("DOUBLE", T::XdbcDouble, 15, false),
        ("DECIMAL", T::XdbcDecimal, 38, false),
    ];
    for (name, data_type, digits, unsigned) in numbers {
        let scaled = data_type == T::XdbcDecimal;
        types.append(XdbcTypeInfo {
            column_size: Some(digits),
            unsigned_attribute: Some(unsigned),
            num_prec_radix: Some(10),
            create_params: scaled.then(|| vec!["precision".into(), "scale".into()]),
            minimum_scale: scaled.then_some(0),
            maximum_scale: scaled.then_some(38),
            ..plain(name, data_type)
        });
    }
    types.append(plain("BOOLEAN", T::XdbcBit));
    let quoted = |name, data_type| XdbcTypeInfo {
        literal_prefix: Some(if data_type == T::XdbcVarchar { "'".into() } else { format!("{name} '") }),
        literal_suffix: Some("'".into()),
        ..plain(name, data_type)
    };
    types.append(XdbcTypeInfo { case_sensitive: true, ..quoted("VARCHAR", T::XdbcVarchar) });
    types.append(XdbcTypeInfo { searchable: Searchable::Basic, ..plain("BYTEA", T::XdbcVarbinary) });
    let timed = |name, data_type, subcode, size| XdbcTypeInfo {
        sql_data_type: XdbcDataType::XdbcDatetime,
        datetime_subcode: Some(subcode),
        column_size: Some(size),
        ..quoted(name, data_type)
    };
    types.append(timed("DATE", T::XdbcDate, XdbcDatetimeSubcode::XdbcSubcodeYear, 10));
    types.append(timed("TIME", T::XdbcTime, XdbcDatetimeSubcode::XdbcSubcodeTime, 18));
    types.append(timed("TIMESTAMP", T::XdbcTimestamp, XdbcDatetimeSubcode::XdbcSubcodeTimestamp, 29));
    types
}

fn plain(name: &str, data_type: XdbcDataType) -> XdbcTypeInfo {
    XdbcTypeInfo {
        type_name: name.into(),
        data_type,
        sql_data_type: data_type,
        local_type_name: Some(name.into()),
        nullable: Nullable::NullabilityNullable,
        searchable: Searchable::Full,
        ..XdbcTypeInfo::default()
    }
}
