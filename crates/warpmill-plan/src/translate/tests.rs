use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::execution::context::{SessionConfig, SessionContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use warpmill_datagen::Suite;
use warpmill_format::{Table, TableSnapshot};

use crate::{Options, Translated, WarpmillScanExec, translate};

/// A table as plans see it.
struct Stored {
    name: String,
    table: Arc<TableSnapshot>,
}

impl std::fmt::Debug for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

#[async_trait]
impl TableProvider for Stored {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.table.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = WarpmillScanExec::try_new(Arc::clone(&self.table), &self.name, projection.cloned())?;
        Ok(Arc::new(scan))
    }
}

fn session() -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2))
}

fn stored(name: &str, batches: &[RecordBatch]) -> Arc<Stored> {
    let table = Table::in_memory(batches[0].schema());
    let mut writer = table.append(Default::default()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    Arc::new(Stored { name: name.into(), table: writer.commit().unwrap() })
}

/// The tables of a suite at a small scale, made once.
fn suite(suite: Suite) -> SessionContext {
    static TABLES: [OnceLock<Vec<(&'static str, Arc<Stored>)>>; 2] = [const { OnceLock::new() }; 2];
    let tables = TABLES[usize::from(suite == Suite::Ssb)].get_or_init(|| {
        let sf = 0.01;
        let make = |&name: &&'static str| {
            let parts = warpmill_datagen::parts(suite, name, sf).unwrap();
            let batches = (0..parts).flat_map(|part| warpmill_datagen::generate(suite, name, sf, part).unwrap());
            (name, stored(name, &batches.collect::<Vec<_>>()))
        };
        warpmill_datagen::tables(suite).iter().map(make).collect()
    });
    let context = session();
    for (name, table) in tables {
        context.register_table(*name, Arc::clone(table) as _).unwrap();
    }
    context
}

fn plan(context: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { context.sql(sql).await.unwrap().create_physical_plan().await.unwrap() })
}

fn translated(context: &SessionContext, sql: &str) -> Translated {
    let plan = plan(context, sql);
    let shown = || displayable(plan.as_ref()).indent(false).to_string();
    let translated = translate(&plan, &Options::default()).unwrap_or_else(|e| panic!("{sql}\n{e}\n{}", shown()));
    translated.program.validate().unwrap_or_else(|e| panic!("{sql}\n{e}\n{}", shown()));
    translated
}

fn query(suite_of: Suite, name: &str) -> &'static str {
    warpmill_datagen::queries(suite_of).iter().find(|query| query.name == name).unwrap().sql
}

#[test]
fn every_query_of_the_suites_translates_as_a_whole() {
    let mut failures = Vec::new();
    for which in [Suite::Tpch, Suite::Ssb] {
        let context = suite(which);
        for query in warpmill_datagen::queries(which) {
            let plan = plan(&context, query.sql);
            let shown = displayable(plan.as_ref()).indent(false).to_string();
            match translate(&plan, &Options::default()) {
                Err(error) => failures.push(format!("{which} {}: {error}\n{shown}", query.name)),
                Ok(translated) => {
                    if let Err(error) = translated.program.validate() {
                        failures.push(format!("{which} {}: {error}\n{shown}", query.name));
                    }
                    assert!(translated.inputs.is_empty() && translated.fallbacks.is_empty());
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

macro_rules! suite_snapshots {
    ($($test:ident: $suite:ident $name:literal;)*) => {
        $(#[test]
        fn $test() {
            let program = translated(&suite(Suite::$suite), query(Suite::$suite, $name)).program;
            insta::assert_snapshot!(program);
        })*
    };
}

suite_snapshots! {
    tpch_1_aggregates_in_one_pass: Tpch "1";
    tpch_3_joins_and_keeps_ten: Tpch "3";
    tpch_4_semi_join: Tpch "4";
    tpch_6_filters_in_the_scan: Tpch "6";
    tpch_11_subquery_in_having: Tpch "11";
    tpch_13_outer_join: Tpch "13";
    tpch_15_subquery_in_a_join: Tpch "15";
    tpch_16_not_in: Tpch "16";
    tpch_18_semi_join_with_groups: Tpch "18";
    tpch_19_residual: Tpch "19";
    tpch_21_semi_and_anti_joins_with_residuals: Tpch "21";
    tpch_22_subquery_and_anti_join: Tpch "22";
    ssb_1_1: Ssb "1.1";
    ssb_4_1: Ssb "4.1";
}
