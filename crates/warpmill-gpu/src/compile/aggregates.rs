//! Accumulators of an aggregation.

use warpmill_functions::aggregate::Input;
use warpmill_ir::{AggregateExpr, AggregateFunction, Expr, Phys, Unsupported};

use super::layout::{Accumulator, DistinctSet, Output, Slot};

/// The accumulators of several aggregates, shared where aggregates overlap.
#[derive(Default)]
pub struct Aggregates {
    /// Distinct argument expressions.
    pub arguments: Vec<Expr>,
    /// Distinct filter expressions.
    pub filters: Vec<Expr>,
    /// Sets of distinct values.
    pub distinct: Vec<DistinctSet>,
    /// The accumulators.
    pub slots: Vec<Slot>,
    /// One output per aggregate.
    pub outputs: Vec<Output>,
    /// Words of a group's record.
    pub words: usize,
}

impl Aggregates {
    /// Adds an aggregate over at most `rows` rows. `grouped`: there are group keys, so every group has a row.
    ///
    /// # Errors
    /// Expressions that the device does not support.
    pub fn add(&mut self, aggregate: &AggregateExpr, rows: u64, grouped: bool) -> Result<(), Unsupported> {
        use AggregateFunction as F;
        let argument = aggregate.argument.as_ref().map(|expr| index_of(&mut self.arguments, expr));
        let second = aggregate.second.as_ref().map(|expr| index_of(&mut self.arguments, expr));
        let filter = aggregate.filter.as_ref().map(|expr| index_of(&mut self.filters, expr));
        let unsupported = |reason: &str| Unsupported::new(format!("{:?}", aggregate.function), reason);
        let matters = !matches!(aggregate.function, F::Min | F::Max | F::AnyValue | F::BoolAnd | F::BoolOr);
        let distinct = argument.filter(|_| aggregate.distinct && matters).map(|argument| {
            let set = DistinctSet { argument, filter, columns: vec![] };
            self.distinct.iter().position(|other| *other == set).unwrap_or_else(|| {
                self.distinct.push(set);
                self.distinct.len() - 1
            })
        });
        let input = Input { argument, second, filter, distinct };
        let phys = aggregate.argument.as_ref().map_or(Phys::I64, |argument| argument.ty.phys);
        let accumulator = match aggregate.function {
            F::CountStar | F::Count => Accumulator::Count,
            F::Sum => match aggregate.ty.phys {
                _ if !phys.is_int() => Accumulator::SumF64,
                Phys::I128 => wide_sum(aggregate.argument.as_ref(), rows),
                Phys::I32 | Phys::I64 => Accumulator::SumI64,
                _ => Accumulator::SumF64,
            },
            F::Avg if !phys.is_int() => Accumulator::SumF64,
            F::Avg => {
                match self.slots.iter().find(|slot| slot.accumulator == Accumulator::SumI64 && slot.input == input) {
                    Some(_) => Accumulator::SumI64,
                    None => match largest_sum(aggregate.argument.as_ref(), rows) {
                        Some(sum) if sum <= i64::MAX.into() => Accumulator::SumI64,
                        _ => wide_sum(aggregate.argument.as_ref(), rows),
                    },
                }
            }
            F::Min | F::Max | F::AnyValue | F::BoolAnd | F::BoolOr => {
                let least = matches!(aggregate.function, F::Min | F::BoolAnd);
                match phys {
                    Phys::Str if least => Accumulator::MinText,
                    Phys::Str => Accumulator::MaxText,
                    Phys::I128 if least => Accumulator::MinWide,
                    Phys::I128 => Accumulator::MaxWide,
                    _ if least => Accumulator::Min,
                    _ => Accumulator::Max,
                }
            }
            F::StddevSamp | F::StddevPop | F::VarSamp | F::VarPop => match phys {
                Phys::F32 | Phys::F64 => Accumulator::Moments,
                _ => return Err(unsupported("of values that are no floats")),
            },
            F::OfPairs(_) if distinct.is_some() || second.is_none() => return Err(unsupported("of different pairs")),
            F::OfPairs(_) => Accumulator::Pairs,
        };
        let slot = match aggregate.function {
            F::CountStar => self.slot(accumulator, Input { argument: None, distinct: None, ..input }),
            F::Count => self.count(input),
            _ => self.slot(accumulator, input),
        };
        // A group has a row, and, if none of its values can be NULL, a value.
        let some = argument.is_some_and(|argument| !self.arguments[argument].ty.nullable)
            && grouped
            && filter.is_none()
            && distinct.is_none();
        let count = match aggregate.function {
            F::CountStar | F::Count | F::OfPairs(_) => false,
            F::Avg | F::StddevSamp | F::StddevPop | F::VarSamp | F::VarPop => true,
            _ => !some,
        };
        let count = count.then(|| self.count(input));
        self.outputs.push(Output { function: aggregate.function, slot, count, argument });
        Ok(())
    }

    /// The accumulator whose first word tells whether a group has rows: an existing count or sum of positive values, otherwise a mark of its own.
    pub fn presence(&mut self) -> usize {
        match self.slots.iter().position(|slot| self.is_presence(slot)) {
            Some(slot) => slot,
            None => self.slot(Accumulator::Presence, Input::default()),
        }
    }

    /// Whether an accumulator already tells that, without a mark.
    pub fn tells_presence(&self) -> bool {
        self.slots.iter().any(|slot| self.is_presence(slot))
    }

    /// Whether the first word of an accumulator is zero only for groups without rows.
    fn is_presence(&self, slot: &Slot) -> bool {
        let positive = |argument: usize| {
            let ty = &self.arguments[argument].ty;
            !ty.nullable && ty.range.is_some_and(|(lo, _)| lo > 0)
        };
        slot.input.filter.is_none()
            && slot.input.distinct.is_none()
            && match slot.accumulator {
                Accumulator::Count => slot.input.argument.is_none(),
                Accumulator::SumI64 => slot.input.argument.is_some_and(positive),
                _ => false,
            }
    }

    /// The accumulator, if there is one, that counts rows whose argument is not NULL.
    pub fn counted(&self) -> Option<usize> {
        let is_plain = |slot: &Slot| slot.input.filter.is_none() && slot.input.distinct.is_none();
        self.slots.iter().position(|slot| slot.accumulator == Accumulator::Count && is_plain(slot))
    }

    /// The count of the rows that an aggregate takes in; the count of all rows if its argument is never NULL.
    fn count(&mut self, input: Input) -> usize {
        let nullable = input.argument.is_some_and(|argument| self.arguments[argument].ty.nullable);
        let argument = input.argument.filter(|_| nullable || input.distinct.is_some());
        self.slot(Accumulator::Count, Input { argument, ..input })
    }

    fn slot(&mut self, accumulator: Accumulator, input: Input) -> usize {
        let slot = Slot { accumulator, input, word: self.words };
        let same = |other: &Slot| Slot { word: slot.word, ..*other } == slot;
        self.slots.iter().position(same).unwrap_or_else(|| {
            self.words += accumulator.words();
            self.slots.push(slot);
            self.slots.len() - 1
        })
    }
}

/// Upper bound of the absolute value of an argument's sum over `rows` rows; `None` if it exceeds 128 bits.
fn largest_sum(argument: Option<&Expr>, rows: u64) -> Option<i128> {
    let (lo, hi) = argument?.ty.range?;
    lo.checked_abs()?.max(hi.checked_abs()?).checked_mul(rows.max(1).into())
}

/// The accumulator of a sum that may exceed 64 bits.
fn wide_sum(argument: Option<&Expr>, rows: u64) -> Accumulator {
    if largest_sum(argument, rows).is_some() { Accumulator::SumI128 } else { Accumulator::SumWide }
}

fn index_of(list: &mut Vec<Expr>, expr: &Expr) -> usize {
    list.iter().position(|other| other == expr).unwrap_or_else(|| {
        list.push(expr.clone());
        list.len() - 1
    })
}
