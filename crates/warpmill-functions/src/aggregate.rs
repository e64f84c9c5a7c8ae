//! Aggregations as accumulators: the values to count, sum and compare, shared between aggregates, and the computation of results.
//!
//! Accumulators are mergeable: the state of all rows can be computed from the states of any partition of them, in any order.

use arrow::datatypes::DataType;
use warpmill_ir::{AggregateExpr, AggregateFunction, ColType, Expr, Field, Phys, Unsupported};

/// The kind of an accumulator. Several aggregates may share one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Rows whose argument is not NULL.
    Count,
    /// Sum, proven to fit.
    SumI64,
    /// Sum, proven to fit 128 bits.
    SumI128,
    /// Sum that may exceed 128 bits.
    SumWide,
    /// Sum of floats.
    SumF64,
    /// Least value.
    Min(Phys),
    /// Greatest value.
    Max(Phys),
    /// The first value.
    Any,
    /// Count, mean and squared deviations of `value * scale`.
    Moments {
        /// The factor that makes values of integers: a power of ten for decimals.
        scale: f64,
    },
    /// Count, means, squared deviations and products of pairs of floats.
    Pairs,
}

impl Kind {
    /// Whether it is a sum of more than 64 bits.
    pub fn is_wide_sum(self) -> bool {
        matches!(self, Self::SumI128 | Self::SumWide)
    }
}

/// The arguments and rows that an accumulator reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Input {
    /// Index among the arguments; `None`: rows are counted whatever their values.
    pub argument: Option<usize>,
    /// Index among the arguments of the second argument.
    pub second: Option<usize>,
    /// Index among the filters.
    pub filter: Option<usize>,
    /// Index of the distinct set that provides the values; `None`: all values.
    pub distinct: Option<usize>,
}

/// An accumulator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slot {
    /// Kind of the accumulator.
    pub kind: Kind,
    /// The argument's representation.
    pub phys: Phys,
    /// Its input.
    pub input: Input,
}

/// How an aggregate's result is computed from accumulators.
#[derive(Debug, Clone)]
pub struct Output {
    /// The function.
    pub function: AggregateFunction,
    /// The accumulator.
    pub slot: usize,
    /// The count that decides whether there is a value; `None`: every group has one.
    pub count: Option<usize>,
    /// The argument's type.
    pub argument: Option<ColType>,
    /// The result's type.
    pub ty: ColType,
}

/// The distinct values of an argument per group: a separate aggregation by the groups and the argument.
#[derive(Debug, Clone)]
pub struct DistinctSet {
    /// Index among the arguments.
    pub argument: usize,
    /// Index among the filters.
    pub filter: Option<usize>,
}

/// An aggregation's accumulators and outputs.
#[derive(Debug, Clone)]
pub struct Aggregation {
    /// The group keys.
    pub groups: Vec<Expr>,
    /// The distinct arguments.
    pub arguments: Vec<Expr>,
    /// The distinct filters.
    pub filters: Vec<Expr>,
    /// The accumulators.
    pub slots: Vec<Slot>,
    /// The sets of different values.
    pub distinct: Vec<DistinctSet>,
    /// One per aggregate.
    pub outputs: Vec<Output>,
    /// Largest number of input rows, if known.
    max_rows: Option<u64>,
}

/// No query has more rows than this.
const MOST_ROWS: u64 = 1 << 40;

impl Aggregation {
    /// The aggregation for [`warpmill_ir::Sink::Aggregate`]; `max_rows` is the largest number of input rows, if known.
    ///
    /// # Errors
    /// Aggregates without the argument that they need; fields that do not match.
    pub fn new(
        groups: &[Expr],
        aggregates: &[AggregateExpr],
        fields: &[Field],
        max_rows: Option<u64>,
    ) -> Result<Self, Unsupported> {
        if fields.len() != groups.len() + aggregates.len() {
            let reason =
                format!("{} fields for {} groups and {} aggregates", fields.len(), groups.len(), aggregates.len());
            return Err(Unsupported::new("aggregation", reason));
        }
        let (arguments, filters, slots, distinct, outputs) = Default::default();
        let mut plan = Self { groups: groups.to_vec(), arguments, filters, slots, distinct, outputs, max_rows };
        let mut inputs = vec![];
        for aggregate in aggregates {
            let argument = aggregate.argument.as_ref().map(|expr| index_of(&mut plan.arguments, expr));
            let filter = aggregate.filter.as_ref().map(|expr| index_of(&mut plan.filters, expr));
            let second = aggregate.second.as_ref().map(|expr| index_of(&mut plan.arguments, expr));
            inputs.push(Input { second, ..plan.input(aggregate, argument, filter) });
        }
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
        // The other functions ignore duplicates.
        let matters = matches!(aggregate.function, Count | Sum | Avg | StddevSamp | StddevPop | VarSamp | VarPop);
        let distinct = argument.filter(|_| aggregate.distinct && matters).map(|argument| {
            let set = self.distinct.iter().position(|set| set.argument == argument && set.filter == filter);
            set.unwrap_or_else(|| {
                self.distinct.push(DistinctSet { argument, filter });
                self.distinct.len() - 1
            })
        });
        Input { argument, second: None, filter, distinct }
    }

    fn slot(&mut self, kind: Kind, phys: Phys, input: Input) -> usize {
        let slot = Slot { kind, phys, input };
        self.slots.iter().position(|other| *other == slot).unwrap_or_else(|| {
            self.slots.push(slot);
            self.slots.len() - 1
        })
    }

    fn count(&mut self, input: Input) -> usize {
        let nullable = input.argument.is_some_and(|argument| self.arguments[argument].ty.nullable);
        let argument = input.argument.filter(|_| nullable || input.distinct.is_some());
        self.slot(Kind::Count, Phys::I64, Input { argument, ..input })
    }

    fn output(&mut self, aggregate: &AggregateExpr, input: Input, ty: ColType) -> Result<Output, Unsupported> {
        use AggregateFunction as F;
        let argument = input.argument.map(|argument| self.arguments[argument].ty.clone());
        let phys = argument.as_ref().map_or(Phys::I64, |ty| ty.phys);
        if argument.is_none() && aggregate.function != F::CountStar {
            return Err(Unsupported::new(format!("{:?}", aggregate.function), "without an argument"));
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
            F::OfPairs(function) if input.second.is_none() || aggregate.distinct => {
                return Err(Unsupported::new(function.name(), "without pairs, or of different ones"));
            }
            F::OfPairs(_) => self.slot(Kind::Pairs, phys, input),
        };
        let own = matches!(aggregate.function, F::CountStar | F::Count)
            || matches!(self.slots[slot].kind, Kind::Moments { .. } | Kind::Pairs)
            || (phys == Phys::Str);
        let nullable = argument.as_ref().is_some_and(|ty| ty.nullable);
        let sparse = nullable || input.filter.is_some() || self.groups.is_empty();
        let count = (!own && (sparse || aggregate.function == F::Avg)).then(|| self.count(input));
        Ok(Output { function: aggregate.function, slot, count, argument, ty })
    }

    /// The accumulator of an average; exact for integers.
    fn average_kind(&self, argument: Option<&ColType>, input: Input) -> Kind {
        let Some(argument) = argument.filter(|ty| ty.phys.is_int()) else { return Kind::SumF64 };
        let proven = self.slots.iter().any(|slot| slot.kind == Kind::SumI64 && slot.input == input);
        if proven || self.largest_sum(Some(argument)).is_some_and(|sum| sum <= i64::MAX.into()) {
            Kind::SumI64
        } else {
            self.wide_kind(Some(argument))
        }
    }

    /// The accumulator of a sum that may exceed 64 bits.
    fn wide_kind(&self, argument: Option<&ColType>) -> Kind {
        if self.largest_sum(argument).is_some() { Kind::SumI128 } else { Kind::SumWide }
    }

    /// Upper bound of the magnitude of any sum of the argument; `None` if it exceeds 128 bits.
    fn largest_sum(&self, argument: Option<&ColType>) -> Option<i128> {
        let rows = i128::from(self.max_rows.unwrap_or(MOST_ROWS).max(1));
        let (lo, hi) = argument?.range?;
        lo.checked_abs()?.max(hi.checked_abs()?).checked_mul(rows)
    }
}

fn index_of(list: &mut Vec<Expr>, expr: &Expr) -> usize {
    list.iter().position(|other| other == expr).unwrap_or_else(|| {
        list.push(expr.clone());
        list.len() - 1
    })
}

/// Digits after the decimal point; 0 for other types.
pub fn decimal_scale(ty: &ColType) -> i32 {
    match ty.logical {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => scale.into(),
        _ => 0,
    }
}
