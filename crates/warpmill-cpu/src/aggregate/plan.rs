//! The computations of an aggregation: the accumulators behind its aggregates, shared where aggregates overlap.

use arrow::datatypes::DataType;
use warpmill_ir::{AggregateExpr, AggregateFunction, ColType, Expr, Field, Phys};

use super::accumulate::Kind;
use super::keys::{KeyLayout, PerfectLayout};
use super::operand::Operand;
use crate::context::{ExecError, Result};

/// The way rows find their group.
#[derive(Debug)]
pub(super) enum Grouping {
    /// There are no keys: one group.
    One,
    /// By arithmetic.
    Perfect(PerfectLayout),
    /// By hash table.
    Hash(KeyLayout),
}

impl Grouping {
    fn new(keys: &[ColType], slots: usize, plan: &Plan) -> Self {
        if keys.is_empty() {
            return Self::One;
        }
        let perfect = if plan.equal_hashes { None } else { PerfectLayout::new(keys, plan.max_rows) };
        // About 16 bytes per accumulator, and a flag.
        match perfect.filter(|perfect| perfect.cells.saturating_mul(1 + 16 * slots) <= plan.perfect_bytes) {
            Some(perfect) => Self::Perfect(perfect),
            None => Self::Hash(KeyLayout::new(keys)),
        }
    }
}

/// The rows of which argument an accumulator takes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Input {
    /// Index among the arguments; `None`: rows are counted whatever their values.
    pub argument: Option<usize>,
    /// Index among the filters.
    pub filter: Option<usize>,
    /// Index among the distinct sets that the values come from; `None`: all values.
    pub distinct: Option<usize>,
}

/// An accumulator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slot {
    pub kind: Kind,
    /// The argument's representation.
    pub phys: Phys,
    pub input: Input,
}

/// The way an aggregate's result follows from accumulators.
#[derive(Debug)]
pub(super) struct Output {
    pub function: AggregateFunction,
    /// The accumulator.
    pub slot: usize,
    /// The count without which there is no value; `None`: every group has one.
    pub count: Option<usize>,
    pub argument: Option<ColType>,
    pub ty: ColType,
}

/// Groups and accumulators, without the expressions they are fed from.
#[derive(Debug)]
pub(super) struct Layout {
    pub grouping: Grouping,
    pub slots: Vec<Slot>,
    /// Whether all keys hash alike (see [`crate::context::Settings::equal_hashes`]).
    pub equal_hashes: bool,
}

impl Layout {
    fn new(keys: &[ColType], slots: Vec<Slot>, plan: &Plan) -> Self {
        Self { grouping: Grouping::new(keys, slots.len(), plan), slots, equal_hashes: plan.equal_hashes }
    }
}

/// Different values of an argument per group: an aggregation of its own, by the groups and the argument.
#[derive(Debug)]
pub(super) struct DistinctSet {
    pub argument: usize,
    pub filter: Option<usize>,
}

/// Everything known about an aggregation before it runs.
#[derive(Debug)]
pub(super) struct Plan {
    pub groups: Vec<Operand>,
    pub arguments: Vec<Operand>,
    pub argument_types: Vec<ColType>,
    pub filters: Vec<Operand>,
    pub slots: Vec<Slot>,
    pub distinct: Vec<DistinctSet>,
    pub outputs: Vec<Output>,
    pub group_types: Vec<ColType>,
    /// Of the output.
    pub field_types: Vec<ColType>,
    pub max_rows: Option<u64>,
    /// Whether rows find their group by hash in any case, and all hashes are equal.
    pub equal_hashes: bool,
    /// Bytes that the arrays of perfect hashing may take. They cannot be put aside.
    pub perfect_bytes: usize,
}

/// No query has more rows than this.
const MOST_ROWS: u64 = 1 << 40;

impl Plan {
    pub fn new(groups: &[Expr], aggregates: &[AggregateExpr], fields: &[Field], max_rows: Option<u64>) -> Result<Self> {
        if fields.len() != groups.len() + aggregates.len() {
            let message =
                format!("{} fields for {} groups and {} aggregates", fields.len(), groups.len(), aggregates.len());
            return Err(ExecError::Unsupported(message));
        }
        let mut plan = Self {
            groups: groups.iter().map(Operand::new).collect::<Result<_>>()?,
            arguments: vec![],
            argument_types: vec![],
            filters: vec![],
            slots: vec![],
            distinct: vec![],
            outputs: vec![],
            group_types: groups.iter().map(|group| group.ty.clone()).collect(),
            field_types: fields.iter().map(|field| field.ty.clone()).collect(),
            max_rows,
            equal_hashes: false,
            perfect_bytes: usize::MAX,
        };
        let mut arguments: Vec<&Expr> = vec![];
        let mut filters: Vec<&Expr> = vec![];
        let mut inputs = vec![];
        for aggregate in aggregates {
            let argument = aggregate.argument.as_ref().map(|expr| index_of(&mut arguments, expr));
            let filter = aggregate.filter.as_ref().map(|expr| index_of(&mut filters, expr));
            inputs.push(plan.input(aggregate, argument, filter));
        }
        plan.arguments = arguments.iter().map(|expr| Operand::new(expr)).collect::<Result<_>>()?;
        plan.filters = filters.iter().map(|expr| Operand::new(expr)).collect::<Result<_>>()?;
        plan.argument_types = arguments.iter().map(|expr| expr.ty.clone()).collect();
        // Sums first: an average shares the accumulator that was proven for the sum.
        let mut order: Vec<usize> = (0..aggregates.len()).collect();
        order.sort_by_key(|&i| aggregates[i].function != AggregateFunction::Sum);
        let mut outputs: Vec<Option<Output>> = aggregates.iter().map(|_| None).collect();
        for i in order {
            let ty = fields[groups.len() + i].ty.clone();
            outputs[i] = Some(plan.output(&aggregates[i], inputs[i], ty)?);
        }
        plan.outputs = outputs.into_iter().flatten().collect();
        Ok(plan)
    }

    fn input(&mut self, aggregate: &AggregateExpr, argument: Option<usize>, filter: Option<usize>) -> Input {
        use AggregateFunction::{Avg, Count, StddevPop, StddevSamp, Sum, VarPop, VarSamp};
        // The others give the same with duplicates and without.
        let matters = matches!(aggregate.function, Count | Sum | Avg | StddevSamp | StddevPop | VarSamp | VarPop);
        let distinct = argument.filter(|_| aggregate.distinct && matters).map(|argument| {
            let set = self.distinct.iter().position(|set| set.argument == argument && set.filter == filter);
            set.unwrap_or_else(|| {
                self.distinct.push(DistinctSet { argument, filter });
                self.distinct.len() - 1
            })
        });
        Input { argument, filter, distinct }
    }

    fn slot(&mut self, kind: Kind, phys: Phys, input: Input) -> usize {
        let slot = Slot { kind, phys, input };
        self.slots.iter().position(|other| *other == slot).unwrap_or_else(|| {
            self.slots.push(slot);
            self.slots.len() - 1
        })
    }

    fn count(&mut self, input: Input) -> usize {
        let nullable = input.argument.is_some_and(|argument| self.argument_types[argument].nullable);
        let argument = input.argument.filter(|_| nullable || input.distinct.is_some());
        self.slot(Kind::Count, Phys::I64, Input { argument, ..input })
    }

    fn output(&mut self, aggregate: &AggregateExpr, input: Input, ty: ColType) -> Result<Output> {
        use AggregateFunction as F;
        let argument = input.argument.map(|argument| self.argument_types[argument].clone());
        let phys = argument.as_ref().map_or(Phys::I64, |ty| ty.phys);
        if argument.is_none() && aggregate.function != F::CountStar {
            return Err(ExecError::Unsupported(format!("{:?} without an argument", aggregate.function)));
        }
        let slot = match aggregate.function {
            F::CountStar => self.count(Input { argument: None, ..input }),
            F::Count => self.count(input),
            F::Sum => {
                let kind = match aggregate.ty.phys {
                    _ if !phys.is_int() => Kind::SumF64,
                    Phys::I128 => self.wide_kind(argument.as_ref()),
                    Phys::I32 | Phys::I64 => Kind::SumI64,
                    _ => Kind::SumF64,
                };
                self.slot(kind, phys, input)
            }
            F::Avg => {
                let kind = self.average_kind(argument.as_ref(), input);
                self.slot(kind, phys, input)
            }
            F::Min | F::BoolAnd => self.slot(Kind::Min(phys), phys, input),
            F::Max | F::BoolOr => self.slot(Kind::Max(phys), phys, input),
            F::AnyValue => self.slot(Kind::Any, phys, input),
            F::StddevSamp | F::StddevPop | F::VarSamp | F::VarPop => {
                let scale = 10f64.powi(-argument.as_ref().map_or(0, decimal_scale));
                self.slot(Kind::Moments { scale }, phys, input)
            }
        };
        let own = matches!(aggregate.function, F::CountStar | F::Count)
            || matches!(self.slots[slot].kind, Kind::Moments { .. })
            || (phys == Phys::Str);
        let nullable = argument.as_ref().is_some_and(|ty| ty.nullable);
        let sparse = nullable || input.filter.is_some() || self.groups.is_empty();
        let count = (!own && (sparse || aggregate.function == F::Avg)).then(|| self.count(input));
        Ok(Output { function: aggregate.function, slot, count, argument, ty })
    }

    /// The accumulator of an average: of integers, exact.
    fn average_kind(&self, argument: Option<&ColType>, input: Input) -> Kind {
        let Some(argument) = argument.filter(|ty| ty.phys.is_int()) else { return Kind::SumF64 };
        let proven = self.slots.iter().any(|slot| slot.kind == Kind::SumI64 && slot.input == input);
        if proven || self.largest_sum(Some(argument)).is_some_and(|sum| sum <= i64::MAX.into()) {
            Kind::SumI64
        } else {
            self.wide_kind(Some(argument))
        }
    }

    /// The accumulator of a sum that may leave 64 bits.
    fn wide_kind(&self, argument: Option<&ColType>) -> Kind {
        if self.largest_sum(argument).is_some() { Kind::SumI128 } else { Kind::SumWide }
    }

    /// What no sum of the argument is greater than, nor its opposite; `None` where that is beyond 128 bits.
    fn largest_sum(&self, argument: Option<&ColType>) -> Option<i128> {
        let rows = i128::from(self.max_rows.unwrap_or(MOST_ROWS).max(1));
        let (lo, hi) = argument?.range?;
        lo.checked_abs()?.max(hi.checked_abs()?).checked_mul(rows)
    }

    /// The layout of the aggregation itself.
    pub fn layout(&self) -> Layout {
        Layout::new(&self.group_types, self.slots.clone(), self)
    }

    /// The layout of a distinct set.
    pub fn distinct_layout(&self, set: &DistinctSet) -> Layout {
        let mut keys = self.group_types.clone();
        keys.push(self.argument_types[set.argument].clone());
        Layout::new(&keys, vec![], self)
    }
}

fn index_of<'a>(list: &mut Vec<&'a Expr>, expr: &'a Expr) -> usize {
    list.iter().position(|other| *other == expr).unwrap_or_else(|| {
        list.push(expr);
        list.len() - 1
    })
}

/// Digits after the decimal point; 0 for other types.
pub(super) fn decimal_scale(ty: &ColType) -> i32 {
    match ty.logical {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => scale.into(),
        _ => 0,
    }
}
