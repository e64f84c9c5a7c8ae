//! Partial aggregations: the states of accumulators as columns.
//!
//! A site that aggregates some of the rows returns its groups with one column per accumulator; another site merges them into its own states. The
//! states are aggregates themselves (`avg` is sent as a sum and a count), so that every back end can compute them.

use arrow::datatypes::DataType;
use warpmill_ir::{AggregateExpr, AggregateFunction, ColType, Expr, Field, Phys, Unsupported};

use crate::aggregate::{Aggregation, Kind, Slot};

/// An aggregation that returns states instead of results: first the group keys, then one column per accumulator of the original [`Aggregation`], and
/// last, if accumulators are proven for a limited number of rows only, the number of rows added.
#[derive(Debug, Clone)]
pub struct Partial {
    /// The aggregates that compute the states.
    pub aggregates: Vec<AggregateExpr>,
    /// Names and types of all columns.
    pub fields: Vec<Field>,
    /// Whether the last column is the number of rows.
    pub counts_rows: bool,
}

impl Partial {
    /// The states of `aggregation`, which has output columns `fields`. `counts_rows`: whether to add the number of rows, because accumulators are
    /// proven for a limited number.
    ///
    /// # Errors
    /// States that no column holds yet: sets of different values, moments.
    pub fn new(aggregation: &Aggregation, fields: &[Field], counts_rows: bool) -> Result<Self, Unsupported> {
        if !aggregation.distinct.is_empty() {
            return Err(Unsupported::new("DISTINCT aggregate", "sets of values are not merged between sites"));
        }
        let mut aggregates =
            aggregation.slots.iter().map(|slot| state(aggregation, slot)).collect::<Result<Vec<_>, _>>()?;
        if counts_rows {
            aggregates.push(count(None, None));
        }
        let keys = aggregation.groups.iter().zip(fields);
        let keys = keys.map(|(group, field)| Field { name: field.name.clone(), ty: group.ty.clone() });
        let states = aggregates.iter().enumerate();
        let states = states.map(|(i, state)| Field { name: format!("state {i}"), ty: state.ty.clone() });
        let fields = keys.chain(states).collect();
        Ok(Self { aggregates, fields, counts_rows })
    }
}

/// The aggregate that computes an accumulator's state.
fn state(aggregation: &Aggregation, slot: &Slot) -> Result<AggregateExpr, Unsupported> {
    use AggregateFunction as F;
    let argument = slot.input.argument.map(|argument| aggregation.arguments[argument].clone());
    let filter = slot.input.filter.map(|filter| aggregation.filters[filter].clone());
    if slot.kind == Kind::Count {
        return Ok(count(argument, filter));
    }
    let own = argument.as_ref().map(|argument| ColType { nullable: true, ..argument.ty.clone() });
    let (function, ty) = match slot.kind {
        Kind::Count | Kind::Moments { .. } => {
            return Err(Unsupported::new("variance", "moments are not merged between sites"));
        }
        Kind::Pairs => return Err(Unsupported::new("correlation", "sums of pairs are not merged between sites")),
        Kind::SumI64 => (F::Sum, ColType::of(&DataType::Int64, true)),
        Kind::SumI128 | Kind::SumWide => (F::Sum, ColType::of(&DataType::Decimal128(38, 0), true)),
        Kind::SumF64 => (F::Sum, ColType::of(&DataType::Float64, true)),
        Kind::Min(Phys::Bool) => (F::BoolAnd, own),
        Kind::Max(Phys::Bool) => (F::BoolOr, own),
        Kind::Min(_) => (F::Min, own),
        Kind::Max(_) => (F::Max, own),
        Kind::Any => (F::AnyValue, own),
    };
    let ty = ty.ok_or_else(|| Unsupported::new(format!("{function:?}"), "a state without a type"))?;
    Ok(AggregateExpr { function, argument, second: None, filter, distinct: false, ty })
}

fn count(argument: Option<Expr>, filter: Option<Expr>) -> AggregateExpr {
    let function = if argument.is_some() { AggregateFunction::Count } else { AggregateFunction::CountStar };
    let ty = ColType { logical: DataType::Int64, phys: Phys::I64, nullable: false, range: None, dictionary: None };
    AggregateExpr { function, argument, second: None, filter, distinct: false, ty }
}
