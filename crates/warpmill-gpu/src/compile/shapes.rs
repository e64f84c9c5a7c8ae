//! Shapes of programs: layouts of sinks, kernels with their functions, and memory plans, shared by statements that differ only in constants that are
//! kernel parameters.
//!
//! Cache keys consist of everything that an entry is made from, compared in full. Lowering gets only the part of the program that is compared
//! ([`identity::seen`]), so that kernel texts cannot depend on anything else; layouts depend on the selectivity of filters, never on the filters.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use warpmill_ir::{Field, Program, Unsupported};

use super::filters::{Filters, ScanFilters, selectivities};
use super::functions::Functions;
use super::hints::{Hints, Limits};
use super::identity::{self, Identity, Named};
use super::layout::SinkLayout;
use super::learnt::Learnt;
use super::plan::MemoryPlan;
use super::program::{self, Lowered, Place};
use super::scan_shape::{ScanShape, coarse_of_keys};
use super::{planner, shares};
use crate::data::shape::ColumnShape;
use crate::memory::error::Result;

/// Largest number of shapes; the least recently used are dropped.
const MOST_SHAPES: usize = 256;

/// Largest number of layouts, kernels and memory plans per shape; the oldest are dropped.
const MOST_MADE: usize = 32;

/// Whether cached entries are always remade and compared, for tests.
static VERIFIED: AtomicBool = AtomicBool::new(cfg!(debug_assertions));

/// Makes cached entries of this process be remade each time and compared; a difference panics. For tests.
pub fn verify() {
    VERIFIED.store(true, Ordering::Relaxed);
}

fn is_verified() -> bool {
    VERIFIED.load(Ordering::Relaxed)
}

/// Cache of the shapes of programs prepared for a device.
#[derive(Default)]
pub struct Shapes(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Shapes by identity, with the time of the last use.
    shapes: HashMap<Box<[u8]>, (Arc<Shape>, u64)>,
    /// Learnt hints by rough identity.
    learnt: HashMap<Box<[u8]>, Weak<Learnt>>,
    clock: u64,
}

/// The shared state of programs that lowering can distinguish only by the selectivity of filters.
pub struct Shape {
    named: Named,
    /// Hints that programs have learnt which differ in constants only, also in those that lowering sees.
    pub(super) learnt: Arc<Learnt>,
    laid_out: Mutex<Vec<(Vec<u64>, Arc<LaidOut>)>>,
    made: Mutex<Vec<Arc<Made>>>,
}

/// The layouts of a program's sinks.
pub struct LaidOut {
    /// Rows of each input that it was laid out for.
    pub inputs: Vec<u64>,
    /// The hints that it was laid out with.
    pub hints: Hints,
    /// Layouts of sinks.
    pub layouts: Vec<SinkLayout>,
}

/// Kernels, shared among programs.
pub struct Made {
    pub(super) laid_out: Arc<LaidOut>,
    scans: BTreeMap<usize, ScanShape>,
    /// Kernels, and the processor of each pipeline.
    pub lowered: Lowered,
    /// One function per kernel, once compiled.
    pub(super) functions: Functions,
    /// Memory plans by bytes of constants.
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
        let learnt = known.learnt_by(Identity::rough(program, filters).bytes());
        let (laid_out, made) = Default::default();
        let shape = Arc::new(Shape { named: identity.named(), learnt, laid_out, made });
        known.shapes.insert(identity.bytes().into(), (shape.clone(), clock));
        // Unloading functions may wait for the device, so the lock is released first.
        drop(known);
        drop(gone);
        shape
    }
}

impl Known {
    /// The hints that programs of a rough identity have learnt.
    fn learnt_by(&mut self, rough: &[u8]) -> Arc<Learnt> {
        if let Some(known) = self.learnt.get(rough).and_then(Weak::upgrade) {
            return known;
        }
        self.learnt.retain(|_, known| known.strong_count() > 0);
        let learnt = Arc::new(Learnt::default());
        self.learnt.insert(rough.into(), Arc::downgrade(&learnt));
        learnt
    }
}

impl Shape {
    /// Lays out the sinks of `program` with `filters`, for inputs of these row counts.
    ///
    /// # Errors
    /// Operations that the device does not support.
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

    /// The kernels of `program` with `filters` and these layouts.
    ///
    /// # Errors
    /// Operations that the device does not support.
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
    /// The memory plan of `program` with `constants` bytes of constants.
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

/// The processors of the pipelines of `program`. Generates its kernels, for row segments of any encoding, to check that they are supported.
///
/// # Errors
/// Operations that the device does not support.
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

/// Appends `one`; returns the dropped entry.
fn push<T>(all: &mut Vec<T>, one: T) -> Option<T> {
    let gone = (all.len() >= MOST_MADE).then(|| all.remove(0));
    all.push(one);
    gone
}

/// The layouts of the sinks of `program` with these selectivities.
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
    // Kernels depend on the coarse selectivity only.
    for layout in &mut layouts {
        if let SinkLayout::Build(build) = layout {
            build.fraction = coarse_of_keys(build.fraction).unwrap_or(1.0);
        }
    }
    Ok(layouts)
}
