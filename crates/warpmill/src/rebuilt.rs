//! Sessions' states made of others. DataFusion registers their functions anew in any order, by which a name may come to stand for another function
//! that has it beside its own: `list_sort` of a session is another name of DataFusion's `array_sort`, too.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};

/// A function that has other names beside its own.
pub trait Function {
    /// Its own name.
    fn name(&self) -> &str;
    /// Its other names.
    fn aliases(&self) -> &[String];
}

macro_rules! functions {
    ($($kind:ty),*) => {
        $(impl Function for $kind {
            fn name(&self) -> &str {
                self.name()
            }

            fn aliases(&self) -> &[String] {
                self.aliases()
            }
        })*
    };
}

functions!(ScalarUDF, HigherOrderUDF, AggregateUDF, WindowUDF);

/// The functions of a registry in an order in which registering them gives each name the function that it has there, as long as no two functions both
/// have lost a name to others (a test looks at today's).
pub fn in_order<F: Function>(functions: &HashMap<String, Arc<F>>) -> Vec<Arc<F>> {
    let is_found =
        |name: &str, function: &Arc<F>| functions.get(name).is_some_and(|found| Arc::ptr_eq(found, function));
    let mut seen = HashSet::new();
    let mut all: Vec<&Arc<F>> = functions.values().filter(|function| seen.insert(Arc::as_ptr(function))).collect();
    // Functions that are not found by a name come before that which is.
    all.sort_by_cached_key(|function| {
        let others = function.aliases().iter().all(|name| is_found(name, function));
        (is_found(function.name(), function), others)
    });
    all.into_iter().cloned().collect()
}

/// A builder of a state like `state`; its id is new, unless it is set.
pub fn rebuilt(state: SessionState) -> SessionStateBuilder {
    let scalar = in_order(state.scalar_functions());
    let higher_order = in_order(state.higher_order_functions());
    let aggregate = in_order(state.aggregate_functions());
    let window = in_order(state.window_functions());
    SessionStateBuilder::new_from_existing(state)
        .with_scalar_functions(scalar)
        .with_higher_order_functions(higher_order)
        .with_aggregate_functions(aggregate)
        .with_window_functions(window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Session;

    #[test]
    fn names_stand_for_the_same_functions() {
        let state = Session::new().unwrap().context().state();
        let (names, functions): (Vec<_>, Vec<_>) =
            state.scalar_functions().iter().map(|(name, function)| (name.clone(), Arc::clone(function))).unzip();
        let other = rebuilt(state).build();
        assert_eq!(names.len(), other.scalar_functions().len());
        // Some are made anew, with the time zone of the settings.
        for (name, function) in names.iter().zip(&functions) {
            assert!(*other.scalar_functions()[name] == **function, "{name} was {}", function.name());
        }
    }
}
