//! Plans of statements that differ in constants only.
//!
//! Optimizing takes about half of the time of planning. A bound plan has the constants that columns are compared with taken out
//! ([`parameters`]) and is looked up: one that came before is not optimized again, but gets its constants where the optimized plan has
//! parameters. The parts of planning that values of constants may decide are done anew for each statement: binding, the simplification of
//! conditions, the physical plan, its program and its placement. The order of joins follows estimates: a template is used for constants
//! that keep about as many rows as those that it was made for.

mod parameters;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use parking_lot::Mutex;

use self::parameters::{Parametrized, has_parameters_in_conditions_only, with_values};
use crate::join_order::{ProviderStatistics, kept_rows};
use crate::plan_cache::{Read, read_by};
use crate::{Error, Result, ScalarValue};

/// Bound plans that are kept.
const CAPACITY: usize = 256;

/// Bound plans that came once, by their hashes.
const MOST_ONCE: usize = 4096;

/// Templates of one bound plan, each for other numbers of rows.
const MOST_OF_ONE: usize = 4;

/// Statements whose constants decide a condition, after which there is no template.
const MOST_DECIDED: usize = 3;

/// The factor between numbers of rows for which the order of joins is taken to be the same.
const SIMILAR: f64 = 4.0;

/// The state of a session that templates are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Generation {
    /// [`crate::catalog::Catalog::changes`].
    pub catalog: u64,
    /// Changes of settings.
    pub settings: u64,
}

/// The optimized plan of a statement.
#[derive(Debug)]
pub(crate) struct Optimized {
    pub plan: LogicalPlan,
    /// Whether a template gave it.
    pub from_template: bool,
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
    /// The versions of tables that they are for: bound plans do not differ in these.
    read: Arc<Read>,
    templates: Vec<Arc<Template>>,
    /// Statements whose constants decided a condition.
    decided: usize,
    /// Whether there is to be none.
    refused: bool,
    used: u64,
}

#[derive(Debug, Default)]
struct Store {
    generation: Option<Generation>,
    /// By bound plans with parameters.
    known: HashMap<LogicalPlan, Known>,
    once: HashSet<u64>,
    clock: u64,
}

/// The templates of a session. The least recently used make room for new ones.
#[derive(Debug, Default)]
pub(crate) struct Templates(Mutex<Store>);

impl Templates {
    /// The optimized plan of the bound plan `plan`, which depends on nothing but tables. A template is made when the second statement of its kind
    /// comes: most never come again.
    pub(crate) fn optimized(
        &self,
        plan: &LogicalPlan,
        state: &SessionState,
        generation: Generation,
    ) -> Result<Optimized> {
        let usual = || Ok::<_, Error>(Optimized { plan: state.optimize(plan)?, from_template: false });
        let parametrized = Parametrized::of(plan)?;
        if parametrized.values.is_empty() {
            return usual();
        }
        let Some(read) = read_by(plan, state)? else { return usual() };
        let key = &parametrized.plan;
        let Some((read, templates)) = self.0.lock().find(key, read, generation) else { return usual() };
        for template in &templates {
            if let Some(plan) = template.plan_of(&parametrized.values, state)? {
                return Ok(Optimized { plan, from_template: true });
            }
        }
        let usual = usual()?;
        if templates.len() < MOST_OF_ONE {
            let made = Made::of(&parametrized, &usual.plan, state)?;
            self.0.lock().add(key, &read, made);
        }
        Ok(usual)
    }
}

impl Store {
    /// The templates of a bound plan, and the versions that they are for. `None` where it came for the first time, or is to have none.
    fn find(
        &mut self,
        plan: &LogicalPlan,
        read: Read,
        generation: Generation,
    ) -> Option<(Arc<Read>, Vec<Arc<Template>>)> {
        if self.generation != Some(generation) {
            // A statement that began before a change leaves alone what came after it.
            if self.generation > Some(generation) {
                return None;
            }
            *self = Self { generation: Some(generation), ..Self::default() };
        }
        self.clock += 1;
        if let Some(known) = self.known.get_mut(plan) {
            known.used = self.clock;
            if !known.read.is_of_same(&read) {
                *known = Known { read: Arc::new(read), templates: vec![], decided: 0, ..*known };
            }
            return (!known.refused).then(|| (Arc::clone(&known.read), known.templates.clone()));
        }
        if self.once.len() >= MOST_ONCE {
            self.once.clear();
        }
        if self.once.insert(BuildHasherDefault::<DefaultHasher>::default().hash_one(plan)) {
            return None;
        }
        if self.known.len() >= CAPACITY {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.used).map(|(plan, _)| plan.clone());
            oldest.map(|plan| self.known.remove(&plan));
        }
        let read = Arc::new(read);
        let known = Known { read: Arc::clone(&read), templates: vec![], decided: 0, refused: false, used: self.clock };
        self.known.insert(plan.clone(), known);
        Some((read, vec![]))
    }

    /// Adds what was made for a bound plan and the versions `read`, if these are still those that it is known with.
    fn add(&mut self, plan: &LogicalPlan, read: &Arc<Read>, made: Made) {
        let Some(known) = self.known.get_mut(plan).filter(|known| Arc::ptr_eq(&known.read, read)) else { return };
        match made {
            Made::Template(template) if known.templates.len() < MOST_OF_ONE => known.templates.push(template),
            Made::Template(_) => {}
            Made::OfOtherValues => {
                known.decided += 1;
                known.refused |= known.decided >= MOST_DECIDED;
            }
            Made::Refused => known.refused = true,
        }
    }
}

/// The outcome of making a template.
enum Made {
    Template(Arc<Template>),
    /// These values decide a condition: the plan is one of its own.
    OfOtherValues,
    /// The optimized plan has parameters elsewhere than in conditions, or fewer conditions on tables than with values, or there is an error, which
    /// the usual plan has not.
    Refused,
}

impl Made {
    /// A template for a bound plan, whose usual optimized plan is `usual`.
    fn of(parametrized: &Parametrized, usual: &LogicalPlan, state: &SessionState) -> Result<Self> {
        let Ok(plan) = state.optimize(&parametrized.with_examples()?) else { return Ok(Self::Refused) };
        if !has_parameters_in_conditions_only(&plan)? {
            return Ok(Self::Refused);
        }
        let Some(own) = with_values(&plan, &parametrized.values, state) else { return Ok(Self::OfOtherValues) };
        let rows = kept_rows(&own, &ProviderStatistics)?;
        // Some rules go by values, as that which takes conditions to the other side of outer joins.
        if kept_rows(usual, &ProviderStatistics)?.len() > rows.len() {
            return Ok(Self::Refused);
        }
        Ok(Self::Template(Arc::new(Template { plan, rows })))
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

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::LogicalPlanBuilder;

    use super::*;

    /// Templates that are made while a table changes are those of the version that they were made of.
    #[test]
    fn templates_of_other_versions_are_dropped() {
        let plan = LogicalPlanBuilder::empty(true).build().unwrap();
        let generation = Generation { catalog: 1, settings: 1 };
        let old = || Read::default();
        let new = || Read { folder: Some("another".into()), ..Read::default() };
        let template = || Made::Template(Arc::new(Template { plan: plan.clone(), rows: vec![] }));
        let mut store = Store::default();
        assert!(store.find(&plan, old(), generation).is_none());
        let (read, _) = store.find(&plan, old(), generation).unwrap();
        assert!(store.find(&plan, new(), generation).unwrap().1.is_empty());
        store.add(&plan, &read, template());
        let (read, templates) = store.find(&plan, new(), generation).unwrap();
        assert!(templates.is_empty());
        store.add(&plan, &read, template());
        assert_eq!(store.find(&plan, new(), generation).unwrap().1.len(), 1);
        assert!(store.find(&plan, new(), Generation { catalog: 0, settings: 1 }).is_none());
        assert!(store.find(&plan, new(), Generation { catalog: 1, settings: 2 }).is_none());
    }

    #[test]
    fn constants_that_decide_conditions_end_it() {
        let plan = LogicalPlanBuilder::empty(true).build().unwrap();
        let generation = Generation { catalog: 1, settings: 1 };
        let mut store = Store::default();
        assert!(store.find(&plan, Read::default(), generation).is_none());
        for _ in 0..MOST_DECIDED {
            let (read, _) = store.find(&plan, Read::default(), generation).unwrap();
            store.add(&plan, &read, Made::OfOtherValues);
        }
        assert!(store.find(&plan, Read::default(), generation).is_none());
    }
}
