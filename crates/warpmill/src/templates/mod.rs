//! Plans of statements that differ in constants only.
//!
//! The constants that a bound plan compares columns with are replaced by parameters ([`parameters`]), and the plan is looked up: a known plan is not
//! optimized again; the optimized plan gets the constants in place of its parameters ([`template`]). Steps that may depend on the values of constants
//! are still repeated: binding, simplification of conditions, the physical plan, its program and its placement. The order of joins follows estimates:
//! a template is used for constants that keep about as many rows as those that it was made for.
//!
//! A text with such a plan is analyzed further: where its constants reach the bound plan only through expressions ([`statement`]), and the optimized
//! plan is one program whose shape does not depend on the values ([`skeleton`]), the next text of the same [`shape`] is neither parsed nor bound: its
//! constants are evaluated, and the program is translated with them.

mod computed;
pub(crate) mod parameters;
pub(crate) mod shape;
mod skeleton;
mod statement;
mod store;
mod template;

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use parking_lot::Mutex;

use self::parameters::Parametrized;
use self::shape::Shape;
use self::statement::Statement;
use self::store::{Family, Store};
use self::template::{Made, Program, Template};
use crate::plan_cache::{Generation, Read, Text, read_by};
use crate::settings::WarpmillOptions;
use crate::{Error, Result, ScalarValue};

/// The optimized plan of a statement.
#[derive(Debug)]
pub(crate) struct Optimized {
    pub plan: LogicalPlan,
    /// Whether a template gave it.
    pub from_template: bool,
}

/// The templates of a session. The least recently used are evicted first.
#[derive(Debug, Default)]
pub(crate) struct Templates(Mutex<Store>);

/// A statement found by its text, with the values of its plan's constants.
#[derive(Debug)]
pub(crate) struct Found {
    family: Arc<Family>,
    values: Vec<ScalarValue>,
}

impl Templates {
    /// The optimized plan of the bound plan `plan` of the statement `text`, which depends on tables only. A template is made at the second statement
    /// of its kind, because most statements do not repeat.
    pub(crate) async fn optimized(
        &self,
        plan: &LogicalPlan,
        text: &Text,
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
        let Some(family) = self.0.lock().find(key, read, generation) else { return usual() };
        for template in family.templates() {
            if let Some(plan) = template.plan_of(&parametrized.values, state)? {
                let hit = Hit { text, bound: &parametrized, optimized: &plan, family: &family, template: &template };
                self.learn(hit, state, generation).await;
                return Ok(Optimized { plan, from_template: true });
            }
        }
        let usual = usual()?;
        if family.has_room() {
            let made = Made::of(&parametrized, &usual.plan, state)?;
            self.0.lock().add(key, &family, made);
        }
        Ok(usual)
    }

    /// Analyzes a text, so that the next one of its shape need not be planned. Errors here are not errors of the statement.
    async fn learn(&self, hit: Hit<'_>, state: &SessionState, generation: Generation) {
        let shape = Shape::of(&hit.text.sql, &hit.text.params);
        if shape.constants.is_empty() || !self.0.lock().wants(&shape, hit.family, generation) {
            return;
        }
        let has_skeleton = hit.template.has_skeleton(&hit.bound.values, hit.optimized, state).await;
        let statement = match has_skeleton {
            Ok(true) => Statement::of(&shape, hit.bound, Arc::clone(hit.family), state).await,
            Ok(false) | Err(_) => None,
        };
        self.0.lock().add_statement(&shape, statement, generation);
    }

    /// The statement of a text, if one of its shape was analyzed and its tables are unchanged.
    pub(crate) fn find(&self, text: &Text, generation: Generation) -> Option<Found> {
        let shape = Shape::of(&text.sql, &text.params);
        let (family, values) = self.0.lock().statement(&shape, generation)?;
        family.read.is_unchanged().then_some(Found { family, values })
    }
}

/// A statement whose optimized plan came from a template.
struct Hit<'a> {
    text: &'a Text,
    bound: &'a Parametrized,
    optimized: &'a LogicalPlan,
    family: &'a Arc<Family>,
    template: &'a Template,
}

impl Found {
    /// The program of the statement, and the data that it reads; `None` where it has to be planned.
    pub(crate) fn program(&self, options: &WarpmillOptions) -> Option<(Program, Read)> {
        let templates = self.family.templates();
        let program = templates.iter().find_map(|template| template.program(&self.values, options))?;
        Some((program, self.family.read.clone()))
    }

    /// Whether [`Found::program`] needs neither a deep stack nor long.
    pub(crate) fn is_small(&self) -> bool {
        self.family.templates().iter().all(|template| template.is_small())
    }
}
