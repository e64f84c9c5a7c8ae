//! Placeholders of the functions of states for planning: once the types of their arguments are known, expressions and aggregates replace them
//! ([`super::bound`], [`super::combined`]).

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err, not_impl_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use super::State;
use super::bound::{result_type, state_type};
use super::named;
use super::numbers::Combining;
use crate::dialect::types::type_name;

/// The placeholder of an exported state. Arguments: the aggregate's name, [`TYPES`] of its arguments, its constant argument, its sort keys, the
/// parts.
pub(super) const EXPORTED: &str = "state_of_aggregates";

/// The placeholder of a state built from a value and a text that describes the state.
pub(super) const NAMED: &str = "state_of_description";

/// The aggregate whose result type carries the types of its arguments: a NULL struct of them.
pub(super) const TYPES: &str = "types_of_arguments";

/// A function of states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Function {
    /// [`EXPORTED`].
    Exported,
    Finalize,
    Combine,
    /// [`NAMED`].
    Named,
    /// A value in the form in which it is summed: timestamps become numbers.
    Summand,
}

impl Function {
    const ALL: [Self; 5] = [Self::Exported, Self::Finalize, Self::Combine, Self::Named, Self::Summand];
}

/// The functions.
pub(in crate::dialect) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    Function::ALL.into_iter().map(|function| {
        let signature = Signature::variadic_any(Volatility::Immutable);
        Arc::new(ScalarUDF::from(Placeholder { function, signature }))
    })
}

/// The aggregates.
pub(in crate::dialect) fn aggregates() -> impl Iterator<Item = Arc<AggregateUDF>> {
    let signature = || Signature::variadic_any(Volatility::Immutable);
    let types = AggregateUDF::from(Types { signature: signature() });
    [types, AggregateUDF::from(Combined { signature: signature() })].into_iter().map(Arc::new)
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Placeholder {
    pub(super) function: Function,
    signature: Signature,
}

impl ScalarUDFImpl for Placeholder {
    fn name(&self) -> &str {
        match self.function {
            Function::Exported => EXPORTED,
            Function::Finalize => "finalize",
            Function::Combine => "combine",
            Function::Named => NAMED,
            Function::Summand => "state_summand",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {} depends on constants", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<&DataType> = args.arg_fields.iter().map(|field| field.data_type()).collect();
        let ty = match (self.function, types.as_slice()) {
            (Function::Exported, [_, types, _, _, parts @ ..]) => {
                let constants: Vec<_> = args.scalar_arguments.iter().map(|constant| constant.cloned()).collect();
                state_type(&constants, types, parts)?
            }
            (Function::Finalize, [state]) => match State::of(state) {
                Some(of) => result_type(&of, state)?,
                None => {
                    return plan_err!("Can only finalize an AGGREGATE_STATE, not a value of type {}", type_name(state));
                }
            },
            (Function::Combine, [state, _]) => match State::of(state) {
                Some(_) => DataType::clone(state),
                None => {
                    return plan_err!("Can only combine an AGGREGATE_STATE, not a value of type {}", type_name(state));
                }
            },
            (Function::Named, [of, _]) => match args.scalar_arguments[1] {
                Some(text) => named::state_type(text, of)?,
                None => return internal_err!("a state without a description"),
            },
            (Function::Summand, [DataType::Interval(_)]) => return not_impl_err!("EXPORT_STATE of avg of intervals"),
            (Function::Summand, [ty]) if ty.is_temporal() => DataType::Int64,
            (Function::Summand, [ty]) => DataType::clone(ty),
            _ => {
                let names: Vec<_> = types.iter().map(|ty| type_name(ty)).collect();
                return plan_err!("No function matches {}({})", self.name(), names.join(", "));
            }
        };
        Ok(Arc::new(Field::new(self.name(), ty, true)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        not_impl_err!("{} of types that are not known when a statement is planned", self.name())
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Types {
    signature: Signature,
}

impl AggregateUDFImpl for Types {
    fn name(&self) -> &str {
        TYPES
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let field = |(at, ty): (usize, &DataType)| Field::new(format!("c{at}"), ty.clone(), true);
        Ok(DataType::Struct(types.iter().enumerate().map(field).collect()))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(NoValue { ty: args.return_type().clone() }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(args.name, args.return_type().clone(), true))])
    }
}

/// A NULL constant of a type.
#[derive(Debug)]
struct NoValue {
    ty: DataType,
}

impl Accumulator for NoValue {
    fn update_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from(&self.ty)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        Ok(())
    }
}

/// `combine_aggr(state)`, with an optional weight per state.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Combined {
    signature: Signature,
}

impl AggregateUDFImpl for Combined {
    fn name(&self) -> &str {
        "combine_aggr"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [state] | [state, _] if super::is_state(state) => Ok(state.clone()),
            [other] | [other, _] => {
                plan_err!("Can only combine an AGGREGATE_STATE, not a value of type {}", type_name(other))
            }
            types => {
                let names: Vec<_> = types.iter().map(type_name).collect();
                plan_err!("No function matches combine_aggr({})", names.join(", "))
            }
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Combining::of(args.return_type())?))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(args.name, args.return_type().clone(), true))])
    }
}
