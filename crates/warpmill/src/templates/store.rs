//! The storage of templates: lookup by bound plan and by shape.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::Arc;

use datafusion::logical_expr::LogicalPlan;
use parking_lot::Mutex;

use super::shape::Shape;
use super::statement::Statement;
use super::template::{Made, Template};
use crate::ScalarValue;
use crate::plan_cache::{Generation, Read};

/// Bound plans that are kept.
const CAPACITY: usize = 256;

/// Bound plans that came once, by hash.
const MOST_ONCE: usize = 4096;

/// Templates of one bound plan, each for other numbers of rows.
const MOST_OF_ONE: usize = 4;

/// Statements whose constants decide a condition, after which no template is made.
const MOST_DECIDED: usize = 3;

/// Shapes of texts that are kept.
const SHAPES: usize = 512;

/// Statements of one shape: they differ in constants that are part of the plan.
const MOST_STATEMENTS: usize = 8;

/// The templates of a bound plan over one version of its tables.
#[derive(Debug, Default)]
pub(super) struct Family {
    /// The table versions that are read: bound plans do not include them.
    pub read: Read,
    templates: Mutex<Vec<Arc<Template>>>,
}

impl Family {
    /// The current templates.
    pub fn templates(&self) -> Vec<Arc<Template>> {
        self.templates.lock().clone()
    }

    /// Whether another template may be added.
    pub fn has_room(&self) -> bool {
        self.templates.lock().len() < MOST_OF_ONE
    }
}

/// The state of a bound plan in the store.
#[derive(Debug)]
struct Known {
    family: Arc<Family>,
    /// Statements whose constants decided a condition.
    decided: usize,
    /// Whether no template is to be made.
    refused: bool,
    used: u64,
}

/// The state of a shape in the store.
#[derive(Debug, Default)]
struct Texts {
    statements: Vec<Statement>,
    /// Whether no further statements are looked at.
    refused: bool,
    used: u64,
}

#[derive(Debug, Default)]
pub(super) struct Store {
    generation: Option<Generation>,
    /// By bound plan with parameters.
    known: HashMap<LogicalPlan, Known>,
    once: HashSet<u64>,
    /// By shape.
    texts: HashMap<String, Texts>,
    clock: u64,
}

impl Store {
    /// Whether the store is at the session's generation; a newer generation empties the store. A statement that began before a change does not use
    /// entries of later statements.
    fn is_at(&mut self, generation: Generation) -> bool {
        if self.generation < Some(generation) {
            *self = Self { generation: Some(generation), ..Self::default() };
        }
        self.clock += 1;
        self.generation == Some(generation)
    }

    /// The family of a bound plan. `None` at its first occurrence, or where no template is to be made.
    pub fn find(&mut self, plan: &LogicalPlan, read: Read, generation: Generation) -> Option<Arc<Family>> {
        if !self.is_at(generation) {
            return None;
        }
        if let Some(known) = self.known.get_mut(plan) {
            known.used = self.clock;
            if !known.family.read.is_of_same(&read) {
                known.family = Arc::new(Family { read, templates: Mutex::default() });
                known.decided = 0;
            }
            return (!known.refused).then(|| Arc::clone(&known.family));
        }
        if self.once.len() >= MOST_ONCE {
            self.once.clear();
        }
        if self.once.insert(BuildHasherDefault::<DefaultHasher>::default().hash_one(plan)) {
            return None;
        }
        make_room(&mut self.known, CAPACITY, |known| known.used);
        let family = Arc::new(Family { read, templates: Mutex::default() });
        let known = Known { family: Arc::clone(&family), decided: 0, refused: false, used: self.clock };
        self.known.insert(plan.clone(), known);
        Some(family)
    }

    /// Adds the template made for a bound plan of `family`, if that is still the plan's family.
    pub fn add(&mut self, plan: &LogicalPlan, family: &Arc<Family>, made: Made) {
        let Some(known) = self.known.get_mut(plan).filter(|known| Arc::ptr_eq(&known.family, family)) else { return };
        match made {
            Made::Template(template) => {
                let mut templates = known.family.templates.lock();
                if templates.len() < MOST_OF_ONE {
                    templates.push(template);
                }
            }
            Made::OfOtherValues => {
                known.decided += 1;
                known.refused |= known.decided >= MOST_DECIDED;
            }
            Made::Refused => known.refused = true,
        }
    }

    /// The family of a text of this shape, and the values of its bound plan's constants.
    pub fn statement(&mut self, shape: &Shape<'_>, generation: Generation) -> Option<(Arc<Family>, Vec<ScalarValue>)> {
        if !self.is_at(generation) {
            return None;
        }
        let texts = self.texts.get_mut(&shape.key)?;
        texts.used = self.clock;
        texts.statements.iter().find_map(|known| Some((Arc::clone(&known.family), known.values(&shape.constants)?)))
    }

    /// Whether to analyze a text of this shape that has no statement of `family`.
    pub fn wants(&mut self, shape: &Shape<'_>, family: &Arc<Family>, generation: Generation) -> bool {
        if !self.is_at(generation) {
            return false;
        }
        let Some(texts) = self.texts.get(&shape.key) else { return true };
        let is_known =
            |known: &Statement| known.values(&shape.constants).is_some() && Arc::ptr_eq(&known.family, family);
        !texts.refused && !texts.statements.iter().any(is_known)
    }

    /// Adds the statement of a text of this shape; `None`: the shape has none.
    pub fn add_statement(&mut self, shape: &Shape<'_>, statement: Option<Statement>, generation: Generation) {
        if !self.is_at(generation) {
            return;
        }
        if !self.texts.contains_key(&shape.key) {
            make_room(&mut self.texts, SHAPES, |texts| texts.used);
        }
        let texts = self.texts.entry(shape.key.clone()).or_default();
        texts.used = self.clock;
        texts.statements.retain(|known| known.values(&shape.constants).is_none());
        let Some(statement) = statement else {
            texts.refused = true;
            return;
        };
        if texts.statements.len() >= MOST_STATEMENTS {
            texts.statements.remove(0);
        }
        texts.statements.push(statement);
    }
}

/// Removes the least recently used entry of a full map.
fn make_room<K: Clone + Eq + Hash, V>(map: &mut HashMap<K, V>, capacity: usize, used: impl Fn(&V) -> u64) {
    if map.len() >= capacity {
        let oldest = map.iter().min_by_key(|(_, value)| used(value)).map(|(key, _)| key.clone());
        oldest.map(|key| map.remove(&key));
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::LogicalPlanBuilder;

    use super::*;

    fn plan() -> LogicalPlan {
        LogicalPlanBuilder::empty(true).build().unwrap()
    }

    /// Templates made while a table changes belong to the version that they were made from.
    #[test]
    fn templates_of_other_versions_are_dropped() {
        let plan = plan();
        let generation = Generation { catalog: 1, settings: 1 };
        let old = Read::default;
        let new = || Read { folder: Some("another".into()), ..Read::default() };
        let template = || Made::Template(Arc::new(Template::new(plan.clone(), vec![])));
        let mut store = Store::default();
        assert!(store.find(&plan, old(), generation).is_none());
        let family = store.find(&plan, old(), generation).unwrap();
        assert!(store.find(&plan, new(), generation).unwrap().templates().is_empty());
        store.add(&plan, &family, template());
        let family = store.find(&plan, new(), generation).unwrap();
        assert!(family.templates().is_empty());
        store.add(&plan, &family, template());
        assert_eq!(store.find(&plan, new(), generation).unwrap().templates().len(), 1);
        assert!(store.find(&plan, new(), Generation { catalog: 0, settings: 1 }).is_none());
        assert!(store.find(&plan, new(), Generation { catalog: 1, settings: 2 }).is_none());
    }

    #[test]
    fn constants_that_decide_conditions_end_it() {
        let plan = plan();
        let generation = Generation { catalog: 1, settings: 1 };
        let mut store = Store::default();
        assert!(store.find(&plan, Read::default(), generation).is_none());
        for _ in 0..MOST_DECIDED {
            let family = store.find(&plan, Read::default(), generation).unwrap();
            store.add(&plan, &family, Made::OfOtherValues);
        }
        assert!(store.find(&plan, Read::default(), generation).is_none());
    }

    #[test]
    fn a_shape_that_is_refused_stays_so() {
        let generation = Generation { catalog: 1, settings: 1 };
        let mut store = Store::default();
        let shape = Shape::of("SELECT a FROM t WHERE b > 5", &[]);
        let family = Arc::new(Family::default());
        assert!(store.wants(&shape, &family, generation));
        store.add_statement(&shape, None, generation);
        assert!(!store.wants(&shape, &family, generation));
        assert!(store.wants(&shape, &family, Generation { catalog: 2, settings: 1 }));
    }
}
