//! The parts of a physical plan that Warpmill runs.
//!
//! [`place`] replaces each of the largest subtrees that translate into a program by one [`WarpmillExec`]. The rest stays DataFusion's; every
//! remaining operator (except foreign sources and writes) is a [`Fallback`] with its reason.

mod exec;
mod fetch;
mod functions;
mod input;
mod kept;
mod late;
mod leaf;
mod parquet;
mod row_groups;
mod scan_filters;
mod threads;
mod whole;

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use warpmill_engine::DeviceChoice;
use warpmill_ir::{Operator, Program, Sink, Source, Unsupported};
use warpmill_translate::parameters::has_parameters;
use warpmill_translate::{Options, Translated};

pub use exec::{QueryHandle, WarpmillExec, context_of_program, has_device, is_one_program};
pub use parquet::{ForDevices, Held};
pub(crate) use whole::{WholePlanRule, shown};

use crate::Error;
use crate::bounded::with_bounded_concat;
use crate::files::guarded;
use crate::recursion::with_small_steps;
use crate::settings::{FallbackMode, WarpmillOptions};
use crate::udf::{COMPILED, called_in};
use fetch::FetchExec;
use functions::Runner;

/// An operator that Warpmill leaves to DataFusion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// The operator of the physical plan.
    pub node: String,
    /// The operator or expression at fault.
    pub operator: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.node == self.operator {
            write!(f, "{}: {}", self.node, self.reason)
        } else {
            write!(f, "{}: {}: {}", self.node, self.operator, self.reason)
        }
    }
}

/// A physical plan after placement.
#[derive(Debug)]
pub struct Placement {
    /// The plan, with [`WarpmillExec`]s.
    pub plan: Arc<dyn ExecutionPlan>,
    /// The operators that stay with DataFusion, and why; outermost first.
    pub fallbacks: Vec<Fallback>,
}

/// The representation of sums whose row count is estimated, but not proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnprovenSums {
    /// In 64 bits. Execution counts the rows, and starts again with wide sums when there are too many.
    Narrow,
    /// In 128 bits.
    Wide,
}

/// Replaces all that Warpmill runs.
///
/// # Errors
/// [`Error::Fallback`] for the first operator that stays, if the settings refuse fallbacks.
pub fn place(plan: Arc<dyn ExecutionPlan>, options: &WarpmillOptions, sums: UnprovenSums) -> Result<Placement> {
    place_around(plan, options, sums, &|_| false)
}

/// [`place`] for a plan with subtrees that run elsewhere: nodes for which `stays` returns true are unchanged, and their rows are inputs.
///
/// # Errors
/// As [`place`].
pub fn place_around(
    plan: Arc<dyn ExecutionPlan>,
    options: &WarpmillOptions,
    sums: UnprovenSums,
    stays: &dyn Fn(&Arc<dyn ExecutionPlan>) -> bool,
) -> Result<Placement> {
    placed(plan, Placer { stays, ..Placer::new(options, sums) })
}

/// The parameters for placing a part of a plan again.
#[derive(Debug, Clone, Copy)]
struct Again<'a> {
    sums: UnprovenSums,
    /// The executor of functions of groups.
    functions: Runner,
    /// The values of the plan's parameters, if any.
    values: Option<&'a [ScalarValue]>,
}

/// [`place`] in another way.
fn place_again(plan: Arc<dyn ExecutionPlan>, options: &WarpmillOptions, again: Again<'_>) -> Result<Placement> {
    let Again { sums, functions, values } = again;
    placed(plan, Placer { functions, values, ..Placer::new(options, sums) })
}

fn placed(plan: Arc<dyn ExecutionPlan>, mut placer: Placer<'_>) -> Result<Placement> {
    let options = placer.options;
    let plan = placer.node(late::fetched_last(scan_filters::without_subqueries(plan)?)?)?;
    let fallbacks = placer.fallbacks;
    match fallbacks.first() {
        Some(first) if options.fallback == FallbackMode::Error => Err(Error::Fallback(first.clone()).into()),
        _ => Ok(Placement { plan, fallbacks }),
    }
}

/// Places the parts of one plan.
struct Placer<'a> {
    sums: UnprovenSums,
    options: &'a WarpmillOptions,
    stays: &'a dyn Fn(&Arc<dyn ExecutionPlan>) -> bool,
    functions: Runner,
    values: Option<&'a [ScalarValue]>,
    fallbacks: Vec<Fallback>,
}

impl<'a> Placer<'a> {
    fn new(options: &'a WarpmillOptions, sums: UnprovenSums) -> Self {
        Self { sums, options, stays: &|_| false, functions: Runner::Device, values: None, fallbacks: vec![] }
    }

    fn node(&mut self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if plan.is::<WarpmillExec>() || (self.stays)(&plan) {
            return Ok(plan);
        }
        let wide_sums = self.sums == UnprovenSums::Wide;
        let translation =
            Options { fallback: true, wide_sums, stays: self.stays, values: self.values, ..self.options.translation() };
        let (translated, not_on_device) = functions::program(&plan, self.options, (translation, self.functions));
        match translated {
            Ok(Translated { program, inputs, .. }) if is_only_an_input(&program) => self.children(plan, &inputs),
            Ok(Translated { program, inputs, .. }) => {
                let leaves = inputs.clone();
                let inputs = inputs.into_iter().map(|input| self.node(input));
                let inputs = inputs.collect::<Result<Vec<_>>>()?;
                let exec = WarpmillExec::new(plan, Arc::new(program), (leaves, inputs), self.sums);
                Ok(Arc::new(exec.translated_with(self.values)))
            }
            Err(_) if self.values.is_some() && has_parameters(&plan)? => {
                internal_err!("{} stays, whose parameters have values elsewhere", plan.name())
            }
            Err(_) if plan.children().is_empty() => Ok(guarded(plan)),
            Err(reason) => {
                if !is_no_operator(&plan) {
                    let fallback = self.fallback(&plan, reason, not_on_device);
                    self.fallbacks.push(fallback);
                }
                with_bounded_concat(self.children(plan, &[])?, self.options)
            }
        }
    }

    /// Records an operator that stays, for `reason`; `not_on_device`: the reason why no device runs its functions, where one could.
    fn fallback(&self, plan: &Arc<dyn ExecutionPlan>, reason: Unsupported, not_on_device: Option<String>) -> Fallback {
        let Some((operator, called)) = called_in(plan) else { return Fallback::new(plan, reason) };
        let refused = self.functions == Runner::Device && self.options.device != DeviceChoice::Cpu;
        let why = match not_on_device {
            Some(why) => Some(why),
            None if refused && plan.is::<AggregateExec>() => Some(reason.to_string()),
            None => None,
        };
        let reason = match why.filter(|_| called.starts_with(COMPILED)) {
            Some(why) => format!("{called}; not on the device: {why}"),
            None => called,
        };
        Fallback { node: plan.name().to_string(), operator, reason }
    }

    /// Places the children of `plan`, which stays; `inputs` are leaves or subtrees known not to translate.
    fn children(
        &mut self,
        plan: Arc<dyn ExecutionPlan>,
        inputs: &[Arc<dyn ExecutionPlan>],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if plan.children().is_empty() || inputs.iter().any(|input| Arc::ptr_eq(input, &plan)) {
            return Ok(guarded(plan));
        }
        let children = plan.children().into_iter().cloned();
        let placed = children.enumerate().map(|(at, child)| in_order(self.node(child)?, &plan, at));
        let placed = placed.collect::<Result<Vec<_>>>()?;
        if plan.children().iter().zip(&placed).all(|(before, after)| Arc::ptr_eq(before, after)) {
            return Ok(plan);
        }
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let placed = Arc::clone(&plan).replace_children(placed, options)?;
        with_small_steps(&plan, placed, self.options)
    }
}

/// Whether a node has no work that a program could do: it writes, fetches unsupported columns, or passes rows on.
fn is_no_operator(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<DataSinkExec>() || plan.is::<FetchExec>() || plan.is::<CooperativeExec>()
}

/// `input`, placed as input number `at` of `plan`, sorted as the plan requires: the input may have had a stricter order, of which the program
/// declares less.
fn in_order(input: Arc<dyn ExecutionPlan>, plan: &Arc<dyn ExecutionPlan>, at: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(required) = plan.required_input_ordering().into_iter().nth(at).flatten() else { return Ok(input) };
    let required = required.into_single();
    let has = input.equivalence_properties().ordering_satisfy_requirement(required.clone())?;
    match has || input.output_partitioning().partition_count() > 1 {
        true => Ok(input),
        false => Ok(Arc::new(SortExec::new(LexOrdering::from(required), input))),
    }
}

/// Whether a program does nothing but pass on the rows of another source.
fn is_only_an_input(program: &Program) -> bool {
    let [pipeline] = program.pipelines.as_slice() else { return false };
    matches!(pipeline.source, Source::Input { .. })
        && pipeline.operators.iter().all(|operator| matches!(operator, Operator::Limit { skip: 0, fetch: None }))
        && matches!(program.sinks.as_slice(), [Sink::Collect { .. }])
}

impl Fallback {
    fn new(plan: &Arc<dyn ExecutionPlan>, Unsupported { operator, reason }: Unsupported) -> Self {
        Self { node: plan.name().to_string(), operator, reason }
    }
}

/// [`place`] as a DataFusion rule, for hosts that have a `SessionContext` of their own: add it after all other rules.
#[derive(Debug, Default)]
pub struct OffloadRule;

impl PhysicalOptimizerRule for OffloadRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(place(plan, &WarpmillOptions::of(config), UnprovenSums::Narrow)?.plan)
    }

    fn name(&self) -> &str {
        "warpmill_offload"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
