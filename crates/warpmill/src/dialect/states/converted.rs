//! Casts of states: a state is cast as the struct or value that it is shown as.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::Expr;

use super::packed::{marked, unmarked};
use super::{State, is_state, plain};
use crate::dialect::casts;
use crate::dialect::types::type_name;

/// Casts `e` from `from` to `to`, where one of them is a type of states; `None`: neither is.
///
/// # Errors
/// States of one aggregate as those of another.
pub(in crate::dialect) fn cast(
    e: &Expr,
    [from, to]: [&DataType; 2],
    try_cast: bool,
    schema: &DFSchema,
) -> Result<Option<Expr>> {
    let value = match State::of(from) {
        Some(_) => unmarked(e.clone(), from),
        None if is_state(to) && !from.is_null() => e.clone(),
        None => return Ok(None),
    };
    let Some(target) = State::of(to) else { return casts::bind(value, to, try_cast, schema).map(Some) };
    if State::of(from).is_some_and(|state| state.function != target.function) {
        return plan_err!("Unimplemented type for cast ({} -> {})", type_name(from), type_name(to));
    }
    Ok(Some(marked(casts::bind(value, &plain(to), try_cast, schema)?, to)))
}
