//! Plans of statements whose constants are parameters: the same statement with other literals runs the same plan.
//!
//! Only the program is translated anew, with all that it takes from constants: types proven by ranges, codes of dictionaries, row segments
//! that are left out. Everything before is kept: parsing, binding, DataFusion's rules, the order of joins.
//!
//! A template is made when a text comes for the second time with other literals. The constants that may change ([`slots`]) are marked in the
//! statement, and the marks followed through all rules to the physical plan. There is a template if every mark arrives, no
//! constant arrives that planning has computed, and the program is, word for word, what planning without marks has given.

//!
//! **Off unless `warpmill.debug.templates` is on, for it gives wrong answers.** Rules decide by values that marks do not show: a condition
//! written beside a marked one is dropped where this value implies it; whether a condition rejects NULL is found out by evaluating it, so
//! that it moves below an outer join; a condition that was copied to another side of a join, or into branches of a UNION, arrives in one place
//! and is folded in another. `tests/python/test_templates.py` has such statements. Parameters would have to pass the rules as
//! expressions that none can evaluate or compare.

mod constant;
mod shape;
mod slots;
mod typed;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::{DataType, Schema};
use datafusion::common::metadata::{FieldMetadata, ScalarAndMetadata};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{ParamValues, Result, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement;
use warpmill_ir::Program;
use warpmill_ir::pruning::PruningMode;
use warpmill_translate::{Options, translate};

use crate::offload::WarpmillExec;
use crate::plan_cache::Basis;
use constant::{Constant, converted};
pub(crate) use shape::Shape;
pub(crate) use typed::typed;

/// Texts that are known.
const CAPACITY: usize = 256;

/// Templates of one text, which differ in literals that are no parameters.
const PER_TEXT: usize = 4;

/// Statements of one text of which none could be made: no more are tried.
const FAILURES: usize = 2;

/// The key of a mark in the metadata of a constant.
const MARK: &str = "warpmill:parameter";

/// A plan with parameters.
#[derive(Debug)]
pub(crate) struct Template {
    /// The literals that are no parameters, as they must be; `None`: part of a parameter.
    fixed: Vec<Option<String>>,
    slots: Vec<Slot>,
    /// One [`WarpmillExec`].
    plan: Arc<dyn ExecutionPlan>,
    pruning: PruningMode,
    basis: Arc<Basis>,
    /// Whether sums have turned out to need 128 bits.
    widened: Arc<AtomicBool>,
}

/// A parameter.
#[derive(Debug)]
struct Slot {
    constant: Constant,
    /// The types that the plan has it as.
    types: Vec<DataType>,
}

/// The values of a plan's parameters.
#[derive(Debug)]
pub(crate) struct Parameters {
    values: Vec<(usize, ScalarValue)>,
    widened: Arc<AtomicBool>,
}

impl Parameters {
    /// The value of a constant of the plan; `None`: it is no parameter.
    pub fn of(&self, literal: &Literal) -> Option<ScalarValue> {
        let slot = mark(literal)?;
        let ty = literal.value().data_type();
        self.values.iter().find(|(of, value)| *of == slot && value.data_type() == ty).map(|(_, value)| value.clone())
    }

    /// Notes that sums need 128 bits.
    pub fn note_widened(&self) {
        self.widened.store(true, Ordering::Relaxed);
    }
}

impl Template {
    /// The plan of a statement of the same shape; `None` where it has to be planned.
    fn plan_of(&self, shape: &Shape) -> Option<Arc<dyn ExecutionPlan>> {
        let mut literals = self.fixed.iter().zip(&shape.literals);
        if !literals.all(|(fixed, literal)| fixed.as_ref().is_none_or(|fixed| *fixed == literal.text)) {
            return None;
        }
        let mut values = vec![];
        for (number, slot) in self.slots.iter().enumerate() {
            let value = slot.constant.value(&shape.literals)?;
            for ty in &slot.types {
                values.push((number, converted(&value, ty)?));
            }
        }
        let parameters = Arc::new(Parameters { values, widened: Arc::clone(&self.widened) });
        let wide_sums = self.widened.load(Ordering::Relaxed);
        let literals = |literal: &Literal| parameters.of(literal);
        let plan = self.plan.downcast_ref::<WarpmillExec>()?;
        let program = program(plan, &literals, wide_sums, self.pruning)?;
        Some(Arc::new(plan.with_parameters(Arc::new(program), parameters)))
    }
}

/// The program of a plan that has no inputs.
fn program(
    plan: &WarpmillExec,
    literals: &warpmill_translate::ValueOf<'_>,
    wide_sums: bool,
    pruning: PruningMode,
) -> Option<Program> {
    let translated = translate(plan.source(), &Options { wide_sums, pruning, literals, ..Options::default() }).ok()?;
    translated.inputs.is_empty().then_some(translated.program)
}

/// The text of a program with the planner's own names (`__common_expr_7`) numbered from 1: it goes on counting from plan to plan.
fn renumbered(text: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut known, mut out, mut rest) = (HashMap::new(), String::with_capacity(text.len()), text);
    while let Some(start) = rest.find("__") {
        let length = rest[start..].find(|c| !is_word(c)).unwrap_or(rest.len() - start);
        let name = &rest[start..start + length];
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let next = known.len() + 1;
        out.push_str(&rest[..start]);
        out.push_str(stem);
        if stem != name {
            out.push_str(&known.entry(name).or_insert(next).to_string());
        }
        rest = &rest[start + length..];
    }
    out + rest
}

/// The parameter that a constant is marked as.
fn mark(literal: &Literal) -> Option<usize> {
    let field = literal.return_field(&Schema::empty()).ok()?;
    field.metadata().get(MARK)?.parse().ok()
}

/// The parameter that metadata marks.
fn mark_in(metadata: Option<&FieldMetadata>) -> Option<usize> {
    metadata?.inner().get(MARK)?.parse().ok()
}

/// A statement with marked constants.
pub(crate) struct Marked {
    /// The statement, with parameters in their places.
    pub statement: Statement,
    constants: Vec<Constant>,
    values: Vec<ScalarValue>,
}

impl Marked {
    /// Marks the constants of a statement whose text has this shape; `None` where none can be a parameter.
    ///
    /// With `only_single`, constants that are written more than once are none.
    pub fn of(mut statement: Statement, shape: &Shape, only_single: bool) -> Option<Self> {
        let constants = slots::replace(&mut statement, &shape.literals, only_single);
        let values = constants.iter().map(|constant| constant.value(&shape.literals)).collect::<Option<Vec<_>>>()?;
        (!values.is_empty()).then_some(Self { statement, constants, values })
    }

    /// The marked values of the parameters.
    pub fn values(&self) -> ParamValues {
        let marked = |(number, value): (usize, &ScalarValue)| {
            let metadata = FieldMetadata::from(BTreeMap::from([(MARK.to_owned(), number.to_string())]));
            ScalarAndMetadata::new(value.clone(), Some(metadata))
        };
        ParamValues::List(self.values.iter().enumerate().map(marked).collect())
    }

    /// The template that the marked plan makes, where it makes one. `bound`: the plan before all rules; `planned`: the program that the
    /// statement has without marks.
    pub fn template(
        self,
        shape: &Shape,
        (bound, planned): (&LogicalPlan, &Arc<dyn ExecutionPlan>),
        plan: Arc<dyn ExecutionPlan>,
        (pruning, basis): (PruningMode, Arc<Basis>),
    ) -> Result<Option<Template>> {
        let Some(written) = self.unmarked(bound)? else { return Ok(None) };
        let both = (plan.downcast_ref::<WarpmillExec>(), planned.downcast_ref::<WarpmillExec>());
        let (Some(marked), Some(planned)) = both else { return Ok(None) };
        let seen = RefCell::new(vec![]);
        let record = |literal: &Literal| {
            seen.borrow_mut().push((mark(literal), literal.value().clone()));
            None
        };
        let same = program(marked, &record, false, pruning).is_some_and(|program| {
            renumbered(&program.to_string()) == renumbered(&planned.program().to_string())
                && marked.schema() == planned.schema()
        });
        let wide = program(marked, &|_| None, true, pruning).is_some();
        let Some(slots) = self.slots(&written, &seen.into_inner()).filter(|_| same && wide) else { return Ok(None) };
        let mut fixed: Vec<_> = shape.literals.iter().map(|literal| Some(literal.text.clone())).collect();
        slots.iter().flat_map(|slot| slot.constant.literals()).for_each(|literal| fixed[literal] = None);
        Ok(Some(Template { fixed, slots, plan, pruning, basis, widened: Arc::default() }))
    }

    /// The constants of a plan that are not marked; `None` unless each mark is there once.
    fn unmarked(&self, bound: &LogicalPlan) -> Result<Option<Vec<ScalarValue>>> {
        let mut times = vec![0; self.values.len()];
        let mut others = vec![];
        bound.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    if let Expr::Literal(value, metadata) = expr {
                        match mark_in(metadata.as_ref()).and_then(|mark| times.get_mut(mark)) {
                            Some(times) => *times += 1,
                            None => others.push(value.clone()),
                        }
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        Ok(times.iter().all(|&times| times == 1).then_some(others))
    }

    /// The parameters of a plan with the constants `seen`, of which those that are not marked must be `written`, and no parameter's value.
    fn slots(&self, written: &[ScalarValue], seen: &[(Option<usize>, ScalarValue)]) -> Option<Vec<Slot>> {
        let same = |one: &ScalarValue, other: &ScalarValue| {
            one == other || one.cast_to(&other.data_type()).is_ok_and(|cast| !cast.is_null() && cast == *other)
        };
        let slot = |constant: &Constant| Slot { constant: constant.clone(), types: vec![] };
        let mut slots: Vec<Slot> = self.constants.iter().map(slot).collect();
        for (mark, value) in seen {
            match mark {
                Some(mark) => {
                    let ty = value.data_type();
                    let same = converted(self.values.get(*mark)?, &ty).as_ref() == Some(value);
                    let types = &mut slots[*mark].types;
                    if same && !types.contains(&ty) {
                        types.push(ty);
                    }
                    same.then_some(())?;
                }
                None if matches!(value, ScalarValue::Boolean(_)) || value.is_null() => {}
                None => {
                    let known = written.iter().any(|written| same(written, value));
                    (known && !self.values.iter().any(|parameter| same(parameter, value))).then_some(())?;
                }
            }
        }
        slots.iter().all(|slot| !slot.types.is_empty()).then_some(slots)
    }
}

/// The templates of a session's statements.
#[derive(Default)]
pub(crate) struct Templates {
    texts: HashMap<String, Known>,
    clock: u64,
}

/// A text that has come before.
struct Known {
    /// Its literals then.
    first: Vec<String>,
    made: Vec<Arc<Template>>,
    failures: usize,
    used: u64,
}

impl Templates {
    /// The plan of a statement, with the state that it is of. `catalog`, `settings`: as in [`Basis`].
    pub fn plan_of(
        this: &parking_lot::Mutex<Self>,
        shape: &Shape,
        catalog: u64,
        settings: u64,
    ) -> Option<(Arc<dyn ExecutionPlan>, Arc<Basis>)> {
        let made = {
            let mut this = this.lock();
            this.clock += 1;
            let clock = this.clock;
            let known = this.texts.get_mut(&shape.key)?;
            known.used = clock;
            known.made.retain(|template| template.basis.holds(catalog, settings));
            known.made.clone()
        };
        made.iter().find_map(|template| Some((template.plan_of(shape)?, Arc::clone(&template.basis))))
    }

    /// Whether a template is to be made of a statement that had to be planned: its text has come before, with other literals.
    pub fn wants(&mut self, shape: &Shape) -> bool {
        let literals: Vec<String> = shape.literals.iter().map(|literal| literal.text.clone()).collect();
        self.clock += 1;
        if let Some(known) = self.texts.get_mut(&shape.key) {
            known.used = self.clock;
            return known.first != literals && known.made.len() < PER_TEXT && known.failures < FAILURES;
        }
        if self.texts.len() >= CAPACITY {
            let oldest = self.texts.iter().min_by_key(|(_, known)| known.used).map(|(key, _)| key.clone());
            oldest.map(|key| self.texts.remove(&key));
        }
        let known = Known { first: literals, made: vec![], failures: 0, used: self.clock };
        self.texts.insert(shape.key.clone(), known);
        false
    }

    /// Keeps a template, or notes that none could be made.
    pub fn put(&mut self, shape: &Shape, template: Option<Template>) {
        let Some(known) = self.texts.get_mut(&shape.key) else { return };
        match template {
            // Sessions that share this may have made one meanwhile.
            Some(template) if known.made.len() < PER_TEXT => known.made.push(Arc::new(template)),
            Some(_) => {}
            None => known.failures += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::renumbered;

    #[test]
    fn names_of_the_planner_are_numbered_anew() {
        let text = "a__7 + __common_expr_12 * __common_expr_4 - __common_expr_12 + x_12";
        assert_eq!(renumbered(text), "a__1 + __common_expr_2 * __common_expr_3 - __common_expr_2 + x_12");
        assert_eq!(renumbered("__sq_1, __sq_2"), renumbered("__sq_8, __sq_5"));
        assert_ne!(renumbered("__sq_1, __sq_1"), renumbered("__sq_8, __sq_5"));
    }
}
