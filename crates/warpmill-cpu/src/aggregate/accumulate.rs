//! Accumulators: one array per primitive state, indexed by group id.

use warpmill_format::{Bitmap, StrView};
pub(super) use warpmill_functions::aggregate::Kind;
use warpmill_ir::Phys;
use warpmill_ir::pairs::Pairs;

use super::groups::Feed;
use super::moments::Moments;
use super::wide::Wide;
use crate::context::{ExecError, Result, Worker};
use crate::vector::{Data, Vector};

/// Group ids of a batch's rows.
#[derive(Clone, Copy)]
pub(super) enum Ids<'a> {
    /// All rows belong to group 0.
    One(usize),
    /// Row `i` belongs to group `ids[i]`.
    Each(&'a [u32]),
}

/// The states of all groups.
#[derive(Debug, Clone)]
pub(super) enum Accumulator {
    Count(Vec<i64>),
    SumI64(Vec<i64>),
    SumI128(Vec<i128>),
    SumWide(Vec<Wide>),
    SumF64(Vec<f64>),
    Min(Data),
    Max(Data),
    /// The first value of each group, and whether the group has one.
    First {
        values: Data,
        seen: Vec<bool>,
    },
    Text {
        values: Vec<StrView>,
        seen: Vec<bool>,
        pick: Pick,
        taken: Vec<u32>,
    },
    Moments {
        states: Vec<Moments>,
        scale: f64,
    },
    Pairs(Vec<Pairs>),
}

/// The choice of the string that a group keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pick {
    Min,
    Max,
    First,
}

/// Runs `$body` for `$kind`'s array, whatever its type.
macro_rules! each_state {
    ($accumulator:expr, $states:ident => $body:expr) => {
        match $accumulator {
            Accumulator::Count($states) | Accumulator::SumI64($states) => $body,
            Accumulator::SumI128($states) => $body,
            Accumulator::SumWide($states) => $body,
            Accumulator::SumF64($states) => $body,
            Accumulator::Min(data) | Accumulator::Max(data) | Accumulator::First { values: data, .. } => {
                crate::with_data!(data, $states => $body)
            }
            Accumulator::Moments { states: $states, .. } => $body,
            Accumulator::Pairs($states) => $body,
            Accumulator::Text { values: $states, .. } => $body,
        }
    };
}

/// Runs `$body` with the arrays of two vectors of one ordered type.
macro_rules! with_ordered {
    ($a:expr, $b:expr, ($x:ident, $y:ident) => $body:expr, $otherwise:expr) => {
        match ($a, $b) {
            (Data::Bool($x), Data::Bool($y)) => $body,
            (Data::I32($x), Data::I32($y)) => $body,
            (Data::I64($x), Data::I64($y)) => $body,
            (Data::I128($x), Data::I128($y)) => $body,
            (Data::F32($x), Data::F32($y)) => $body,
            (Data::F64($x), Data::F64($y)) => $body,
            (Data::Code($x), Data::Code($y)) => $body,
            _ => $otherwise,
        }
    };
}

/// A value with an order in which NaN is greatest.
trait Ordered: Copy {
    const LEAST: Self;
    const GREATEST: Self;
    fn less(self, other: Self) -> bool;
}

macro_rules! ordered_integers {
    ($($t:ty),*) => {$(
        impl Ordered for $t {
            const LEAST: Self = <$t>::MIN;
            const GREATEST: Self = <$t>::MAX;
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }
        }
    )*};
}
ordered_integers!(i32, i64, i128, u32);

macro_rules! ordered_floats {
    ($($t:ty),*) => {$(
        impl Ordered for $t {
            const LEAST: Self = <$t>::NEG_INFINITY;
            const GREATEST: Self = <$t>::NAN;
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other || (other.is_nan() && !self.is_nan())
            }
        }
    )*};
}
ordered_floats!(f32, f64);

impl Ordered for bool {
    const LEAST: Self = false;
    const GREATEST: Self = true;
    #[inline(always)]
    fn less(self, other: Self) -> bool {
        !self & other
    }
}

impl Accumulator {
    /// States for strings, without groups.
    pub fn text(pick: Pick) -> Self {
        Self::Text { values: vec![], seen: vec![], pick, taken: vec![] }
    }

    /// The initial states of `groups` groups.
    pub fn new(kind: Kind, phys: Phys, groups: usize) -> Self {
        let mut accumulator = match kind {
            Kind::Count => Self::Count(vec![]),
            Kind::SumI64 => Self::SumI64(vec![]),
            Kind::SumI128 => Self::SumI128(vec![]),
            Kind::SumWide => Self::SumWide(vec![]),
            Kind::SumF64 => Self::SumF64(vec![]),
            Kind::Moments { scale } => Self::Moments { states: vec![], scale },
            Kind::Pairs => Self::Pairs(vec![]),
            Kind::Min(Phys::Str) => Self::text(Pick::Min),
            Kind::Max(Phys::Str) => Self::text(Pick::Max),
            Kind::Any if phys == Phys::Str => Self::text(Pick::First),
            Kind::Min(phys) => Self::Min(Data::with_capacity(phys, 0)),
            Kind::Max(phys) => Self::Max(Data::with_capacity(phys, 0)),
            Kind::Any => Self::First { values: Data::with_capacity(phys, 0), seen: vec![] },
        };
        accumulator.resize(groups);
        accumulator
    }

    /// Adds initial states until there are `groups`.
    pub fn resize(&mut self, groups: usize) {
        match self {
            Self::Count(v) | Self::SumI64(v) => v.resize(groups, 0),
            Self::SumI128(v) => v.resize(groups, 0),
            Self::SumWide(v) => v.resize(groups, Wide::default()),
            Self::SumF64(v) => v.resize(groups, 0.0),
            Self::Moments { states, .. } => states.resize(groups, Moments::default()),
            Self::Pairs(states) => states.resize(groups, Pairs::default()),
            Self::Text { values, seen, .. } => {
                values.resize(groups, StrView::default());
                seen.resize(groups, false);
            }
            Self::Min(data) => resize_extreme(data, groups, true),
            Self::Max(data) => resize_extreme(data, groups, false),
            Self::First { values, seen } => {
                resize_extreme(values, groups, false);
                seen.resize(groups, false);
            }
        }
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        fn capacity<T>(v: &Vec<T>) -> usize {
            v.capacity() * size_of::<T>()
        }
        each_state!(self, states => capacity(states))
    }

    /// Adds the rows of a batch: row `i` counts for its group where bit `i` of the mask is set.
    pub fn update(&mut self, ids: Ids<'_>, feed: &Feed<'_>) -> Result<()> {
        let mask = feed.mask;
        let argument = || &feed.values.expect("all functions but count take an argument").data;
        match self {
            Self::Count(counts) => count(counts, ids, mask),
            Self::SumI64(sums) => match argument() {
                Data::I32(v) => add(sums, ids, v, mask, |v| i64::from(*v)),
                Data::I64(v) => add(sums, ids, v, mask, |v| *v),
                // Cannot overflow: the sum of all values is proven to fit, whatever type represents one.
                Data::I128(v) => add(sums, ids, v, mask, |v| *v as i64),
                data => return Err(mismatch("sum", data)),
            },
            Self::SumI128(sums) => match argument() {
                Data::I32(v) => add(sums, ids, v, mask, |v| i128::from(*v)),
                Data::I64(v) => add(sums, ids, v, mask, |v| i128::from(*v)),
                Data::I128(v) => add(sums, ids, v, mask, |v| *v),
                data => return Err(mismatch("sum", data)),
            },
            Self::SumWide(sums) => match argument() {
                Data::I32(v) => each(ids, mask, v.len(), |row, group| sums[group].add(v[row].into())),
                Data::I64(v) => each(ids, mask, v.len(), |row, group| sums[group].add(v[row].into())),
                Data::I128(v) => each(ids, mask, v.len(), |row, group| sums[group].add(v[row])),
                data => return Err(mismatch("sum", data)),
            },
            Self::SumF64(sums) => match argument() {
                Data::F32(v) => add(sums, ids, v, mask, |v| f64::from(*v)),
                Data::F64(v) => add(sums, ids, v, mask, |v| *v),
                Data::I32(v) => add(sums, ids, v, mask, |v| f64::from(*v)),
                Data::I64(v) => add(sums, ids, v, mask, |v| *v as f64),
                Data::I128(v) => add(sums, ids, v, mask, |v| *v as f64),
                data => return Err(mismatch("sum", data)),
            },
            Self::Min(states) => return extreme(states, ids, argument(), mask, true),
            Self::Max(states) => return extreme(states, ids, argument(), mask, false),
            Self::First { values, seen } => return first(values, seen, ids, argument(), mask),
            Self::Text { values, seen, pick, taken } => match argument() {
                Data::Str(v) => {
                    taken.clear();
                    each(ids, mask, v.len(), |row, group| {
                        if take(values, seen, *pick, group, v[row]) {
                            taken.push(group as u32);
                        }
                    });
                }
                data => return Err(mismatch("min or max of strings", data)),
            },
            Self::Moments { states, scale } => {
                let scale = *scale;
                match argument() {
                    Data::F64(v) => each(ids, mask, v.len(), |row, group| states[group].add(v[row])),
                    Data::F32(v) => each(ids, mask, v.len(), |row, group| states[group].add(f64::from(v[row]))),
                    Data::I32(v) => each(ids, mask, v.len(), |row, g| states[g].add(f64::from(v[row]) * scale)),
                    Data::I64(v) => each(ids, mask, v.len(), |row, g| states[g].add(v[row] as f64 * scale)),
                    Data::I128(v) => each(ids, mask, v.len(), |row, g| states[g].add(v[row] as f64 * scale)),
                    data => return Err(mismatch("variance", data)),
                }
            }
            Self::Pairs(states) => match (argument(), feed.second.map(|second| &second.data)) {
                (Data::F64(y), Some(Data::F64(x))) => {
                    each(ids, mask, y.len(), |row, group| states[group].add(y[row], x[row]));
                }
                (data, _) => return Err(mismatch("pairs", data)),
            },
        }
        Ok(())
    }

    /// Adds partial states of groups computed elsewhere: row `i`'s state counts for its group where bit `i` of `mask` is set. All states but counts
    /// are added as if they were values of a row.
    pub fn update_states(&mut self, ids: Ids<'_>, states: &Vector, mask: Option<&Bitmap>) -> Result<()> {
        match (self, &states.data) {
            (Self::Count(counts), Data::I64(other)) => {
                add(counts, ids, other, mask, |count| *count);
                Ok(())
            }
            (Self::Count(_) | Self::Moments { .. } | Self::Pairs(_), data) => Err(mismatch("a state", data)),
            (accumulator, _) => accumulator.update(ids, &Feed { slot: 0, values: Some(states), second: None, mask }),
        }
    }

    /// Copies the strings that the last [`Accumulator::update`] stored.
    pub fn copy_strings(&mut self, worker: &mut Worker) -> Result<()> {
        let Self::Text { values, taken, .. } = self else { return Ok(()) };
        taken.sort_unstable();
        taken.dedup();
        for group in taken.drain(..) {
            let value = &mut values[group as usize];
            *value = worker.text(value.as_str())?;
        }
        Ok(())
    }

    /// Merges group `from[i]` of `other` into group `into[i]`.
    pub fn merge(&mut self, into: &[u32], other: &Accumulator, from: &[u32]) {
        fn pairs<'a>(into: &'a [u32], from: &'a [u32]) -> impl Iterator<Item = (usize, usize)> + 'a {
            into.iter().zip(from).map(|(&a, &b)| (a as usize, b as usize))
        }
        match (self, other) {
            (Self::Count(a), Self::Count(b)) | (Self::SumI64(a), Self::SumI64(b)) => {
                pairs(into, from).for_each(|(i, j)| a[i] += b[j]);
            }
            (Self::SumF64(a), Self::SumF64(b)) => pairs(into, from).for_each(|(i, j)| a[i] += b[j]),
            (Self::SumI128(a), Self::SumI128(b)) => pairs(into, from).for_each(|(i, j)| a[i] += b[j]),
            (Self::SumWide(a), Self::SumWide(b)) => pairs(into, from).for_each(|(i, j)| a[i].merge(b[j])),
            (Self::Min(a), Self::Min(b)) => merge_extreme(a, b, pairs(into, from), true),
            (Self::Max(a), Self::Max(b)) => merge_extreme(a, b, pairs(into, from), false),
            (Self::First { values, seen }, Self::First { values: b, seen: b_seen }) => {
                with_ordered!(values, b, (a, b) => {
                    for (i, j) in pairs(into, from).filter(|&(_, j)| b_seen[j]) {
                        keep_first(a, seen, i, b[j]);
                    }
                }, unreachable!("accumulators of one slot are of one kind"));
            }
            (Self::Text { values, seen, pick, .. }, Self::Text { values: b, seen: b_seen, .. }) => {
                for (i, j) in pairs(into, from).filter(|&(_, j)| b_seen[j]) {
                    take(values, seen, *pick, i, b[j]);
                }
            }
            (Self::Moments { states, .. }, Self::Moments { states: b, .. }) => {
                pairs(into, from).for_each(|(i, j)| states[i].merge(&b[j]));
            }
            (Self::Pairs(a), Self::Pairs(b)) => pairs(into, from).for_each(|(i, j)| a[i].merge(&b[j])),
            _ => unreachable!("accumulators of one slot are of one kind"),
        }
    }

    /// The states of groups `order`, in that order.
    pub fn gather(&self, order: &[u32]) -> Self {
        fn pick<T: Copy>(v: &[T], order: &[u32]) -> Vec<T> {
            order.iter().map(|&group| v[group as usize]).collect()
        }
        match self {
            Self::Count(v) => Self::Count(pick(v, order)),
            Self::SumI64(v) => Self::SumI64(pick(v, order)),
            Self::SumI128(v) => Self::SumI128(pick(v, order)),
            Self::SumWide(v) => Self::SumWide(pick(v, order)),
            Self::SumF64(v) => Self::SumF64(pick(v, order)),
            Self::Min(v) => Self::Min(v.gather(order)),
            Self::Max(v) => Self::Max(v.gather(order)),
            Self::First { values, seen } => Self::First { values: values.gather(order), seen: pick(seen, order) },
            Self::Text { values, seen, pick: how, .. } => {
                Self::Text { values: pick(values, order), seen: pick(seen, order), pick: *how, taken: vec![] }
            }
            Self::Moments { states, scale } => Self::Moments { states: pick(states, order), scale: *scale },
            Self::Pairs(v) => Self::Pairs(pick(v, order)),
        }
    }
}

fn mismatch(function: &str, data: &Data) -> ExecError {
    ExecError::Unsupported(format!("{function} over {:?}", data.phys()))
}

/// Calls `f` with every row whose bit is set; words whose bits are all set take a fast loop.
#[inline(always)]
fn each_set(mask: &Bitmap, mut f: impl FnMut(usize)) {
    for (w, &word) in mask.words().iter().enumerate() {
        if word == u64::MAX {
            (w * 64..w * 64 + 64).for_each(&mut f);
        } else {
            let mut rest = word;
            while rest != 0 {
                f(w * 64 + rest.trailing_zeros() as usize);
                rest &= rest - 1;
            }
        }
    }
}

/// Calls `f` with every row of the mask (all if `None`) and its group.
#[inline(always)]
fn each(ids: Ids<'_>, mask: Option<&Bitmap>, rows: usize, mut f: impl FnMut(usize, usize)) {
    match (ids, mask) {
        (Ids::One(_), None) => (0..rows).for_each(|row| f(row, 0)),
        (Ids::One(_), Some(mask)) => each_set(mask, |row| f(row, 0)),
        (Ids::Each(ids), None) => ids.iter().enumerate().for_each(|(row, &group)| f(row, group as usize)),
        (Ids::Each(ids), Some(mask)) => each_set(mask, |row| f(row, ids[row] as usize)),
    }
}

fn count(counts: &mut [i64], ids: Ids<'_>, mask: Option<&Bitmap>) {
    match (ids, mask) {
        (Ids::One(rows), None) => counts[0] += rows as i64,
        (Ids::One(_), Some(mask)) => counts[0] += mask.count_ones() as i64,
        _ => each(ids, mask, 0, |_, group| counts[group] += 1),
    }
}

/// Number of independent partial sums: enough for the vector units, and float rounding errors spread more evenly.
const LANES: usize = 16;

#[inline(always)]
fn add<T, A>(sums: &mut [A], ids: Ids<'_>, values: &[T], mask: Option<&Bitmap>, as_sum: impl Fn(&T) -> A)
where
    A: Copy + Default + std::ops::Add<Output = A>,
{
    if let (Ids::One(_), None) = (ids, mask) {
        let mut lanes = [A::default(); LANES];
        let (blocks, rest) = values.as_chunks::<LANES>();
        for block in blocks {
            for (lane, value) in lanes.iter_mut().zip(block) {
                *lane = *lane + as_sum(value);
            }
        }
        let sum = rest.iter().fold(A::default(), |sum, value| sum + as_sum(value));
        sums[0] = lanes.into_iter().fold(sums[0] + sum, |sum, lane| sum + lane);
        return;
    }
    each(ids, mask, values.len(), |row, group| sums[group] = sums[group] + as_sum(&values[row]));
}

/// Stores `value` for `group` if it is better than the present one. Returns whether it was stored.
fn take(values: &mut [StrView], seen: &mut [bool], pick: Pick, group: usize, value: StrView) -> bool {
    let better = !seen[group]
        || match pick {
            Pick::Min => value < values[group],
            Pick::Max => value > values[group],
            Pick::First => false,
        };
    if better {
        values[group] = value;
        seen[group] = true;
    }
    better
}

#[inline(always)]
fn better<T: Ordered>(state: T, value: T, min: bool) -> T {
    let replace = if min { value.less(state) } else { state.less(value) };
    if replace { value } else { state }
}

fn extreme(states: &mut Data, ids: Ids<'_>, values: &Data, mask: Option<&Bitmap>, min: bool) -> Result<()> {
    #[inline(always)]
    fn run<T: Ordered>(states: &mut [T], ids: Ids<'_>, values: &[T], mask: Option<&Bitmap>, min: bool) {
        if let (Ids::One(_), None) = (ids, mask) {
            let mut lanes = [states[0]; LANES];
            let (blocks, rest) = values.as_chunks::<LANES>();
            for block in blocks {
                for (lane, &value) in lanes.iter_mut().zip(block) {
                    *lane = better(*lane, value, min);
                }
            }
            states[0] = lanes.iter().chain(rest).fold(states[0], |state, &value| better(state, value, min));
            return;
        }
        each(ids, mask, values.len(), |row, group| states[group] = better(states[group], values[row], min));
    }
    with_ordered!(states, values, (states, values) => {
        if min { run(states, ids, values, mask, true) } else { run(states, ids, values, mask, false) }
        Ok(())
    }, Err(mismatch("min or max", values)))
}

/// Stores `value` for `group` if the group has no value yet.
#[inline(always)]
fn keep_first<T>(values: &mut [T], seen: &mut [bool], group: usize, value: T) {
    if !seen[group] {
        values[group] = value;
        seen[group] = true;
    }
}

fn first(states: &mut Data, seen: &mut [bool], ids: Ids<'_>, values: &Data, mask: Option<&Bitmap>) -> Result<()> {
    with_ordered!(states, values, (states, values) => {
        if !matches!(ids, Ids::One(_)) || !seen[0] {
            each(ids, mask, values.len(), |row, group| keep_first(states, seen, group, values[row]));
        }
        Ok(())
    }, Err(mismatch("any value", values)))
}

fn merge_extreme(a: &mut Data, b: &Data, pairs: impl Iterator<Item = (usize, usize)>, min: bool) {
    with_ordered!(a, b, (a, b) => pairs.for_each(|(i, j)| a[i] = better(a[i], b[j], min)),
        unreachable!("accumulators of one slot are of one kind"))
}

fn resize_extreme(data: &mut Data, groups: usize, min: bool) {
    fn fill<T: Ordered>(values: &mut Vec<T>, groups: usize, min: bool) {
        values.resize(groups, if min { T::GREATEST } else { T::LEAST });
    }
    match data {
        Data::Bool(v) => fill(v, groups, min),
        Data::I32(v) => fill(v, groups, min),
        Data::I64(v) => fill(v, groups, min),
        Data::I128(v) => fill(v, groups, min),
        Data::F32(v) => fill(v, groups, min),
        Data::F64(v) => fill(v, groups, min),
        Data::Code(v) => fill(v, groups, min),
        Data::Str(_) => unreachable!("strings are kept with flags"),
    }
}
