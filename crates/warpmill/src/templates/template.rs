//! Optimized plans with parameters.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;

use super::parameters::{Parametrized, has_parameters_in_conditions_only, with_values};
use super::skeleton::Skeleton;
use crate::join_order::{ProviderStatistics, kept_rows};
use crate::offload::WarpmillExec;
use crate::settings::WarpmillOptions;
use crate::{Result, ScalarValue};

/// The factor between row counts up to which the order of joins is considered the same.
const SIMILAR: f64 = 4.0;

/// An optimized plan with parameters.
#[derive(Debug)]
pub(super) struct Template {
    plan: LogicalPlan,
    /// Rows that its conditions on tables keep.
    rows: Vec<f64>,
    /// Its physical plan, once requested; `None`: the plan is not one program.
    skeleton: OnceLock<Option<Skeleton>>,
    /// How long its last program ran; 0: none has.
    last_nanos: Arc<AtomicU64>,
}

/// A template's program for one statement.
pub(crate) struct Program {
    pub plan: WarpmillExec,
    /// How long the last one ran; 0: none has.
    pub last_nanos: Arc<AtomicU64>,
}

/// The outcome of making a template.
pub(super) enum Made {
    Template(Arc<Template>),
    /// The values decide a condition, so that the plan holds for them only.
    OfOtherValues,
    /// The optimized plan has parameters outside of conditions, or fewer conditions on tables than with values, or optimizing it fails, unlike the
    /// usual plan.
    Refused,
}

impl Made {
    /// A template for a bound plan, whose usual optimized plan is `usual`.
    pub fn of(parametrized: &Parametrized, usual: &LogicalPlan, state: &SessionState) -> Result<Self> {
        let Ok(plan) = state.optimize(&parametrized.with_examples()?) else { return Ok(Self::Refused) };
        if !has_parameters_in_conditions_only(&plan)? {
            return Ok(Self::Refused);
        }
        let Some(own) = with_values(&plan, &parametrized.values, state) else { return Ok(Self::OfOtherValues) };
        let rows = kept_rows(&own, &ProviderStatistics)?;
        // Some rules depend on values, such as the one that copies conditions to the other side of outer joins.
        if kept_rows(usual, &ProviderStatistics)?.len() > rows.len() {
            return Ok(Self::Refused);
        }
        Ok(Self::Template(Arc::new(Template::new(plan, rows))))
    }
}

impl Template {
    pub fn new(plan: LogicalPlan, rows: Vec<f64>) -> Self {
        Self { plan, rows, skeleton: OnceLock::new(), last_nanos: Arc::default() }
    }

    /// The plan for `values`, if these keep about as many rows as the values that the template was made for.
    pub fn plan_of(&self, values: &[ScalarValue], state: &SessionState) -> Result<Option<LogicalPlan>> {
        let Some(plan) = with_values(&self.plan, values, state) else { return Ok(None) };
        Ok(self.keeps(&kept_rows(&plan, &ProviderStatistics)?).then_some(plan))
    }

    /// Whether conditions that keep this many rows of their tables match the template.
    fn keeps(&self, rows: &[f64]) -> bool {
        let similar = |(a, b): (&f64, &f64)| a.max(*b) <= SIMILAR * a.min(*b);
        rows.len() == self.rows.len() && rows.iter().zip(&self.rows).all(similar)
    }

    /// Makes the physical plan from the values of a statement whose optimized plan `own` came from the template; returns whether there is one.
    pub async fn has_skeleton(&self, values: &[ScalarValue], own: &LogicalPlan, state: &SessionState) -> Result<bool> {
        if self.skeleton.get().is_none() {
            let made = Skeleton::of(&self.plan, values, own, state).await?;
            self.skeleton.get_or_init(|| made);
        }
        Ok(matches!(self.skeleton.get(), Some(Some(_))))
    }

    /// Whether its program, if it has one, is made for other values without a deep stack, and soon.
    pub fn is_small(&self) -> bool {
        self.skeleton.get().and_then(Option::as_ref).is_none_or(|skeleton| skeleton.is_small)
    }

    /// The program for `values`, without optimizing a plan for them; `None` where the statement has to be planned.
    pub fn program(&self, values: &[ScalarValue], options: &WarpmillOptions) -> Option<Program> {
        let skeleton = self.skeleton.get()?.as_ref()?;
        let slots = skeleton.slots(values)?;
        let rows = skeleton.kept_rows(&slots)?;
        let plan = self.keeps(&rows).then(|| skeleton.program(slots, options)).flatten()?;
        Some(Program { plan, last_nanos: Arc::clone(&self.last_nanos) })
    }
}
