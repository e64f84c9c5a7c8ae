//! EXPLAIN and EXPLAIN ANALYZE.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, displayable};

use super::query::logical_plan;
use super::running::Query;
use super::{QueryResult, Session};
use crate::Result;
use crate::join_order::{ProviderStatistics, with_estimates};
use crate::offload::WarpmillExec;
use crate::plan_cache::Prepared;

impl Session {
    pub(super) async fn explain_text(&self, sql: &str, analyze: bool, query: &Query) -> Result<String> {
        let plan = logical_plan(&self.inner.context.state(), sql, &[]).await?;
        let plan = match &plan {
            LogicalPlan::Explain(explain) => &explain.plan,
            LogicalPlan::Analyze(analyze) => &analyze.input,
            plan => plan,
        };
        let mut text = String::new();
        for (title, part) in Box::pin(self.explain_parts(plan, false, analyze, query)).await? {
            let _ = writeln!(text, "== {title} ==\n{}\n", part.trim_end());
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        Ok(text)
    }

    /// The result of the statement EXPLAIN.
    pub(super) async fn explain_rows(
        &self,
        plan: &LogicalPlan,
        verbose: bool,
        analyze: bool,
        query: &Query,
    ) -> Result<QueryResult> {
        let (titles, parts): (Vec<_>, Vec<_>) =
            self.explain_parts(plan, verbose, analyze, query).await?.into_iter().unzip();
        let text = |name| Field::new(name, DataType::Utf8, false);
        let schema = Arc::new(Schema::new(vec![text("plan_type"), text("plan")]));
        let columns: Vec<ArrayRef> =
            vec![Arc::new(StringArray::from_iter_values(titles)), Arc::new(StringArray::from_iter_values(parts))];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
        Ok(QueryResult { schema, batches: vec![batch], profile: None })
    }

    async fn explain_parts(
        &self,
        plan: &LogicalPlan,
        verbose: bool,
        analyze: bool,
        query: &Query,
    ) -> Result<Vec<(String, String)>> {
        let state = self.inner.context.state();
        let mut parts = Vec::new();
        if verbose {
            let optimized = state.optimize(plan)?;
            parts.push(("logical plan".to_string(), with_estimates(&optimized, &ProviderStatistics)));
        }
        let (prepared, _) = self.prepare(&state, plan, &self.options()).await?;
        // The programs are shown as they ran in the end.
        let profile = if analyze { self.run_prepared(&prepared, query).await?.profile } else { None };
        parts.extend(plan_parts(&prepared, verbose));
        parts.extend(profile.map(|profile| ("profile".to_string(), profile.to_string())));
        Ok(parts)
    }
}

/// The plan, its programs, and what stays with DataFusion.
fn plan_parts(prepared: &Prepared, verbose: bool) -> Vec<(String, String)> {
    let tree = displayable(prepared.plan.as_ref()).indent(verbose).to_string();
    let mut parts = vec![("physical plan".to_string(), tree)];
    let mut programs = Vec::new();
    collect_programs(&prepared.plan, &mut programs);
    parts.extend(programs.into_iter().enumerate().map(|(i, text)| (format!("program {i}"), text)));
    if !prepared.fallbacks.is_empty() {
        let lines: Vec<_> = prepared.fallbacks.iter().map(ToString::to_string).collect();
        parts.push(("run by DataFusion".to_string(), lines.join("\n")));
    }
    parts
}

fn collect_programs(plan: &Arc<dyn ExecutionPlan>, programs: &mut Vec<String>) {
    if let Some(node) = plan.downcast_ref::<WarpmillExec>() {
        if let Some(wide) = node.widened() {
            return collect_programs(wide, programs);
        }
        programs.push(node.program().to_string());
    }
    plan.children().into_iter().for_each(|child| collect_programs(child, programs));
}
