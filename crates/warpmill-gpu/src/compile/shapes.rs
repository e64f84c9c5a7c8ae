//! Shapes of programs: layouts of sinks, kernels with their functions and plans of memory, shared by statements that differ in constants which are
//! parameters of kernels.
//!
//! The key of each is everything that it is made from, compared as a whole. Lowering gets only the part of the program that is compared
//! ([`identity::seen`]), so that no text can depend on anything else; sinks are laid out by the estimates of filters, never by these themselves.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use warpmill_ir::{Field, Program, Unsupported};

use super::filters::{Filters, ScanFilters, selectivities};
use super::functions::Functions;
use super::hints::{Hints, Limits};
use super::identity::{self, Identity, Named};
use super::layout::SinkLayout;
use super::plan::MemoryPlan;
use super::program::{self, Lowered, Place};
use super::scan_shape::{ScanShape, coarse_of_keys};
use super::{planner, shares};
use crate::data::shape::ColumnShape;
use crate::memory::error::Result;

/// Most shapes that are kept: those used least recently go first.
const MOST_SHAPES: usize = 256;

/// Most layouts, kernels and plans of memory that are kept of a shape: those made first go first.
const MOST_MADE: usize = 32;

/// Whether what is shared is made anew each time, too, and compared: for tests.
static VERIFIED: AtomicBool = AtomicBool::new(cfg!(debug_assertions));

/// Lets all that programs share in this process be made anew each time, too, and compared: a difference panics. For tests.
pub fn verify() {
    VERIFIED.store(true, Ordering::Relaxed);
}

fn is_verified() -> bool {
    VERIFIED.load(Ordering::Relaxed)
}

/// The shapes of programs that were made ready for a device.
#[derive(Default)]
pub struct Shapes(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// By identity, with the time of the last use.
    shapes: HashMap<Box<[u8]>, (Arc<Shape>, u64)>,
    clock: u64,
}

/// Programs that lowering cannot tell apart but by the estimates of filters.
pub struct Shape {
    named: Named,
    /// Hints that the last of its programs that needed others than the first ones has ended with, by those that it began with.
    learnt: Mutex<Vec<(Hints, Hints)>>,
    laid_out: Mutex<Vec<(Vec<u64>, Arc<LaidOut>)>>,
    made: Mutex<Vec<Arc<Made>>>,
}

/// A program whose sinks are laid out.
pub struct LaidOut {
    /// Rows of each input that it was laid out for.
    pub inputs: Vec<u64>,
    /// By these hints.
    pub hints: Hints,
    /// The way sinks lie in memory.
    pub layouts: Vec<SinkLayout>,
}

/// Kernels, as programs share them.
pub struct Made {
    laid_out: Arc<LaidOut>,
    scans: BTreeMap<usize, ScanShape>,
    /// Kernels and places.
    pub lowered: Lowered,
    /// One per kernel, once they are compiled.
    pub(super) functions: Functions,
    /// By the bytes of constants.
    memory: Mutex<Vec<(u64, Arc<MemoryPlan>)>>,
}

impl Shapes {
    /// The shape of `program`, whose scans have `filters`.
    pub fn of(&self, program: &Program, filters: &Filters) -> Arc<Shape> {
        let identity = Identity::of(program, filters);
        let mut gone = vec![];
        let mut known = self.0.lock();
        known.clock += 1;
        let clock = known.clock;
        if let Some((shape, used)) = known.shapes.get_mut(identity.bytes()) {
            *used = clock;
            return shape.clone();
        }
        if known.shapes.len() >= MOST_SHAPES {
            gone.extend(known.shapes.extract_if(|_, (shape, _)| !shape.named.are_there()));
            let oldest = known.shapes.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            gone.extend(oldest.and_then(|oldest| known.shapes.remove_entry(&oldest)));
        }
        let (learnt, laid_out, made) = Default::default();
        let shape = Arc::new(Shape { named: identity.named(), learnt, laid_out, made });
        known.shapes.insert(identity.bytes().into(), (shape.clone(), clock));
        // Functions may be unloaded with it, for which the device is waited: not under the lock.
        drop(known);
        drop(gone);
        shape
    }
}

impl Shape {
    /// The hints that a program begins with after others have learnt them; `None` where `first` have been good enough.
    pub fn learnt(&self, first: &Hints) -> Option<Hints> {
        self.learnt.lock().iter().find(|(other, _)| other == first).map(|(_, learnt)| learnt.clone())
    }

    /// Notes that a program that began with `first` has ended with `hints`.
    pub fn learn(&self, first: &Hints, hints: &Hints) {
        if !hints.are_sizes(first) {
            return;
        }
        let mut learnt = self.learnt.lock();
        match learnt.iter_mut().find(|(other, _)| other == first) {
            Some((_, known)) => known.clone_from(hints),
            None => drop(push(&mut learnt, (first.clone(), hints.clone()))),
        }
    }

    /// Forgets what was learnt for programs that begin with `first`: it does not fit one of them.
    pub fn forget(&self, first: &Hints) {
        self.learnt.lock().retain(|(other, _)| other != first);
    }

    /// Lays out the sinks of `program`, whose scans have `filters`, for inputs of so many rows.
    ///
    /// # Errors
    /// Operations that the device cannot do.
    pub fn lay_out(
        &self,
        program: &Program,
        filters: &Filters,
        inputs: &[u64],
        hints: &Hints,
        limits: Limits,
    ) -> Result<Arc<LaidOut>> {
        let selectivities = selectivities(program, filters);
        let key: Vec<u64> = selectivities.iter().map(|part| part.to_bits()).collect();
        let fits = |laid_out: &LaidOut| laid_out.inputs == inputs && laid_out.hints == *hints;
        let find = |known: &[(Vec<u64>, Arc<LaidOut>)]| {
            known.iter().find(|(other, laid_out)| *other == key && fits(laid_out)).map(|(_, laid_out)| laid_out.clone())
        };
        let known = find(&self.laid_out.lock());
        if let Some(known) = known.as_ref().filter(|_| !is_verified()) {
            return Ok(known.clone());
        }
        let layouts = layouts(program, &selectivities, inputs, hints, limits)?;
        if let Some(known) = known {
            assert_eq!(known.layouts, layouts, "the same layouts by the same estimates");
            return Ok(known);
        }
        let mut all = self.laid_out.lock();
        let same = all.iter().find(|(_, other)| fits(other) && other.layouts == layouts);
        let laid_out = match same {
            Some((_, same)) => same.clone(),
            None => Arc::new(LaidOut { inputs: inputs.to_vec(), hints: hints.clone(), layouts }),
        };
        push(&mut all, (key, laid_out.clone()));
        Ok(laid_out)
    }

    /// The kernels of `program`, whose scans have `filters`, with sinks that were laid out like that.
    ///
    /// # Errors
    /// Operations that the device cannot do.
    pub fn lower(
        &self,
        program: &Program,
        filters: &Filters,
        laid_out: &Arc<LaidOut>,
        scans: BTreeMap<usize, ScanShape>,
    ) -> Result<Arc<Made>> {
        let fits = |made: &&Arc<Made>| Arc::ptr_eq(&made.laid_out, laid_out) && made.scans == scans;
        let known = self.made.lock().iter().find(fits).cloned();
        if let Some(known) = known.as_ref().filter(|_| !is_verified()) {
            return Ok(known.clone());
        }
        let seen = identity::seen(program, filters);
        let LaidOut { inputs, hints, layouts } = &**laid_out;
        let lowered = program::lower(&seen, layouts, &scans, inputs, hints.streamed)?;
        if let Some(known) = known {
            assert_eq!(format!("{:?}", known.lowered), format!("{lowered:?}"), "the same kernels of the same shape");
            return Ok(known);
        }
        let (functions, memory) = Default::default();
        let made = Arc::new(Made { laid_out: laid_out.clone(), scans, lowered, functions, memory });
        let gone = push(&mut self.made.lock(), made.clone());
        drop(gone);
        Ok(made)
    }
}

impl Made {
    /// The memory of `program`, with so many bytes of constants.
    pub fn memory(&self, program: &Program, limits: Limits, constants: u64) -> Arc<MemoryPlan> {
        let mut known = self.memory.lock();
        if let Some((_, plan)) = known.iter().find(|(bytes, _)| *bytes == constants) {
            return plan.clone();
        }
        let LaidOut { hints, layouts, .. } = &*self.laid_out;
        let plan = Arc::new(MemoryPlan::new(program, layouts, &self.lowered, (hints, limits), constants));
        push(&mut known, (constants, plan.clone()));
        plan
    }
}

/// The places where the pipelines of `program` run. Generates its kernels, for row segments in any encoding, to find out whether that works.
///
/// # Errors
/// Operations that the device cannot do.
pub fn places(program: &Program, inputs: &[u64], limits: Limits) -> Result<Vec<Place>, Unsupported> {
    let (filters, hints) = (ScanFilters::of_program(program)?, Hints::default());
    let layouts = planner::lay_out(program, &selectivities(program, &filters), inputs, &hints, limits)?;
    let shape = |(&index, filters): (&usize, &ScanFilters)| {
        let any = |field: &Field| ColumnShape::Any { phys: field.ty.phys, nullable: field.ty.nullable };
        let fields = program.pipelines[index].source.fields().iter();
        (index, filters.shape(vec![fields.map(any).collect()]))
    };
    let scans = filters.iter().map(shape).collect();
    Ok(program::lower(&identity::seen(program, &filters), &layouts, &scans, inputs, hints.streamed)?.places)
}

/// Appends `one`; gives what has to go for it.
fn push<T>(all: &mut Vec<T>, one: T) -> Option<T> {
    let gone = (all.len() >= MOST_MADE).then(|| all.remove(0));
    all.push(one);
    gone
}

/// The layouts of the sinks of `program`, whose scans let such parts of their rows pass.
fn layouts(
    program: &Program,
    selectivities: &[f64],
    inputs: &[u64],
    hints: &Hints,
    limits: Limits,
) -> Result<Vec<SinkLayout>> {
    let mut layouts = planner::lay_out(program, selectivities, inputs, hints, limits)?;
    if hints.makes_parts() {
        let places = program::places(program, &layouts)?;
        shares::share_out(program, &mut layouts, &places, hints);
    }
    // Kernels depend on the coarse fraction only.
    for layout in &mut layouts {
        if let SinkLayout::Build(build) = layout {
            build.fraction = coarse_of_keys(build.fraction).unwrap_or(1.0);
        }
    }
    Ok(layouts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learnt_is_forgotten_by_the_hints_it_was_learnt_for() {
        let program = Program::new(vec![], vec![], Arc::new(arrow::datatypes::Schema::empty()));
        let shape = Shapes::default().of(&program, &Filters::default());
        let with = |rows: u64| Hints { capacity: [(0, rows)].into(), ..Hints::default() };
        let (first, others) = (Hints::default(), Hints { streamed: true, ..Hints::default() });
        shape.learn(&first, &with(1));
        shape.learn(&first, &with(2));
        shape.learn(&others, &Hints { streamed: true, ..with(3) });
        assert_eq!(shape.learnt(&first), Some(with(2)));
        shape.forget(&first);
        assert_eq!(shape.learnt(&first), None);
        assert!(shape.learnt(&others).is_some());
    }
}
