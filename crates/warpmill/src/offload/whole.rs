//! Plans that are one program as a whole.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use warpmill_translate::scan_exec::WarpmillScanExec;

use super::functions::{self, Runner};
use super::{UnprovenSums, WarpmillExec};
use crate::dialect;
use crate::settings::WarpmillOptions;

/// A rule that replaces a plan by its program where the program covers all of it, before DataFusion's other physical rules: a program has no
/// partitions, and chooses its own order of operators, while those rules would take as long as all other planning.
#[derive(Debug, Default)]
pub(crate) struct WholePlanRule;

impl PhysicalOptimizerRule for WholePlanRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !has_own_leaves(&plan) {
            return Ok(plan);
        }
        let options = WarpmillOptions::of(config);
        let shown = shown(Arc::clone(&plan))?;
        match functions::program(&shown, &options, (options.translation(), Runner::Device)).0 {
            Ok(translated) if translated.inputs.is_empty() => {
                let program = Arc::new(translated.program);
                Ok(Arc::new(WarpmillExec::new(shown, program, (vec![], vec![]), UnprovenSums::Narrow)))
            }
            _ => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        "warpmill_whole_plan"
    }

    fn schema_check(&self) -> bool {
        // Columns may get other names.
        false
    }
}

/// Whether all leaves of `plan` are tables of Warpmill, or constant rows, so that no rows come from outside.
fn has_own_leaves(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let children = plan.children();
    let own = || plan.is::<WarpmillScanExec>() || plan.is::<EmptyExec>() || plan.is::<PlaceholderRowExec>();
    if children.is_empty() { own() } else { children.into_iter().all(has_own_leaves) }
}

/// `plan` with its columns called as results show them.
pub(crate) fn shown(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = plan.schema();
    if schema.fields().iter().all(|field| dialect::shown(field.name()) == field.name()) {
        return Ok(plan);
    }
    let columns = schema.fields().iter().enumerate().map(|(at, field)| ProjectionExpr {
        expr: Arc::new(Column::new(field.name(), at)),
        alias: dialect::shown(field.name()).to_string(),
    });
    Ok(Arc::new(ProjectionExec::try_new(columns, Arc::clone(&plan))?))
}
