//! Values derived from a program: they live as long as the program, so that no cache keyed by its address is needed.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Values by their types, one of each.
#[derive(Default)]
pub struct Derived(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Derived {
    /// The value of type `T`; `make` makes it at the first call.
    pub fn get_or<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(make()));
        Arc::clone(value).downcast().unwrap_or_else(|_| unreachable!("values are found by their types"))
    }

    /// The value of type `T`.
    pub fn get<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        self.get_or(T::default)
    }
}

impl std::fmt::Debug for Derived {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Derived").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Derived;

    #[test]
    fn a_value_is_made_once() {
        let derived = Derived::default();
        assert_eq!(*derived.get_or(|| 1u8), 1);
        assert_eq!(*derived.get_or(|| 2u8), 1);
        assert_eq!(*derived.get::<u16>(), 0);
    }
}
