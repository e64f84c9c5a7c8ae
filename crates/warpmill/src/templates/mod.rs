//! Plans of statements that differ in constants only.
//!
//! Optimizing takes about half of the time of planning. A bound plan has the constants that columns are compared with taken out
//! ([`parameters`]) and is looked up: one that came before is not optimized again, but gets its constants where the optimized plan has
//! parameters. The parts of planning that values of constants may decide are done anew for each statement: binding, the simplification of
//! conditions, the physical plan, its program and its placement. The order of joins follows estimates: a template is used for constants
//! that keep about as many rows as those that it was made for.

mod parameters;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use parking_lot::Mutex;

use self::parameters::{Parametrized, has_parameters_in_conditions_only, with_values};
use crate::join_order::{ProviderStatistics, kept_rows};
use crate::plan_cache::{Read, read_by};
use crate::{Result, ScalarValue};

/// Bound plans that are kept.
const CAPACITY: usize = 256;

/// Templates of one bound plan, each for other numbers of rows.
const MOST_OF_ONE: usize = 4;

/// The factor between numbers of rows for which the order of joins is taken to be the same.
const SIMILAR: f64 = 4.0;

/// The state of a session that templates are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation {
    /// [`crate::catalog::Catalog::changes`].
    pub catalog: u64,
    /// Changes of settings.
    pub settings: u64,
}

/// An optimized plan with parameters.
#[derive(Debug)]
struct Template {
    plan: LogicalPlan,
    /// Rows that its conditions on tables keep.
    rows: Vec<f64>,
}

/// The templates of a bound plan.
#[derive(Debug)]
struct Known {
    read: Read,
    templates: Vec<Arc<Template>>,
    /// Whether its optimized plan has parameters where none may be.
    refused: bool,
    used: u64,
}

#[derive(Debug, Default)]
struct Store {
    generation: Option<Generation>,
    /// By bound plans with parameters.
    known: HashMap<LogicalPlan, Known>,
    clock: u64,
}

/// The templates of a session. The least recently used make room for new ones.
#[derive(Debug, Default)]
pub(crate) struct Templates(Mutex<Store>);

impl Templates {
    /// The optimized plan of the bound plan `plan`, which depends on nothing but tables, from a template; `None` where it has to be optimized
    /// as usual. A template is made for the second statement of its kind: most never come again.
    pub(crate) fn optimized(
        &self,
        plan: &LogicalPlan,
        state: &SessionState,
        generation: Generation,
    ) -> Result<Option<LogicalPlan>> {
        let parametrized = Parametrized::of(plan)?;
        if parametrized.values.is_empty() {
            return Ok(None);
        }
        let Some(read) = read_by(plan, state)? else { return Ok(None) };
        let Some(templates) = self.known(&parametrized.plan, read, generation) else { return Ok(None) };
        for template in &templates {
            if let Some(plan) = template.plan_of(&parametrized.values, state)? {
                return Ok(Some(plan));
            }
        }
        if templates.len() == MOST_OF_ONE {
            return Ok(None);
        }
        let key = &parametrized.plan;
        match Made::of(&parametrized, state)? {
            Made::Template(made) => {
                let (template, plan) = *made;
                self.change(key, generation, |known| known.templates.push(Arc::new(template)));
                Ok(Some(plan))
            }
            Made::OfOtherValues => Ok(None),
            Made::Refused => {
                self.change(key, generation, |known| known.refused = true);
                Ok(None)
            }
        }
    }

    /// The templates of a bound plan. `None` where it is new, which it is not any more, or is to have none.
    fn known(&self, plan: &LogicalPlan, read: Read, generation: Generation) -> Option<Vec<Arc<Template>>> {
        let mut store = self.0.lock();
        let store = &mut *store;
        if store.generation != Some(generation) {
            store.known.clear();
            store.generation = Some(generation);
        }
        store.clock += 1;
        if let Some(known) = store.known.get_mut(plan) {
            known.used = store.clock;
            if known.read.is_of_same(&read) {
                return (!known.refused).then(|| known.templates.clone());
            }
            store.known.remove(plan);
        }
        if store.known.len() >= CAPACITY {
            let oldest = store.known.iter().min_by_key(|(_, known)| known.used).map(|(plan, _)| plan.clone());
            oldest.map(|plan| store.known.remove(&plan));
        }
        let known = Known { read, templates: vec![], refused: false, used: store.clock };
        store.known.insert(plan.clone(), known);
        None
    }

    /// Changes what is known of a bound plan.
    fn change(&self, plan: &LogicalPlan, generation: Generation, change: impl FnOnce(&mut Known)) {
        let mut store = self.0.lock();
        if store.generation == Some(generation)
            && let Some(known) = store.known.get_mut(plan)
        {
            change(known);
        }
    }
}

/// The outcome of making a template.
enum Made {
    /// A template, and the plan for the values that it was made from.
    Template(Box<(Template, LogicalPlan)>),
    /// These values decide a condition: the plan is one of its own.
    OfOtherValues,
    /// Parameters of the optimized plan are elsewhere than in conditions, or a rule fails for want of values.
    Refused,
}

impl Made {
    fn of(parametrized: &Parametrized, state: &SessionState) -> Result<Self> {
        // Errors are those of the plan as it is made usually.
        let Ok(plan) = state.optimize(&parametrized.with_examples()?) else { return Ok(Self::Refused) };
        if !has_parameters_in_conditions_only(&plan)? {
            return Ok(Self::Refused);
        }
        let Some(own) = with_values(&plan, &parametrized.values, state) else { return Ok(Self::OfOtherValues) };
        let rows = kept_rows(&own, &ProviderStatistics)?;
        Ok(Self::Template(Box::new((Template { plan, rows }, own))))
    }
}

impl Template {
    /// The plan for `values`, if these keep about as many rows as those that the template was made for.
    fn plan_of(&self, values: &[ScalarValue], state: &SessionState) -> Result<Option<LogicalPlan>> {
        let Some(plan) = with_values(&self.plan, values, state) else { return Ok(None) };
        let rows = kept_rows(&plan, &ProviderStatistics)?;
        let similar = |(a, b): (&f64, &f64)| a.max(*b) <= SIMILAR * a.min(*b);
        let alike = rows.len() == self.rows.len() && rows.iter().zip(&self.rows).all(similar);
        Ok(alike.then_some(plan))
    }
}
