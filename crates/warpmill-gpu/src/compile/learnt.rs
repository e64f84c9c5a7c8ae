//! Hints that programs pass to those with other constants.

use std::sync::Arc;

use parking_lot::Mutex;

use super::functions::Loaded;
use super::hints::Hints;
use super::shapes::Made;

/// Largest number of initial hints for which others are kept; the oldest are dropped.
const MOST: usize = 32;

/// Hints learnt by programs that differ in constants.
#[derive(Default)]
pub struct Learnt {
    /// By initial hints: those with which the last program completed that needed others than the initial ones.
    known: Mutex<Vec<(Hints, Hints)>>,
    /// Smaller tables by initial hints, whose kernels are being compiled.
    coming: Mutex<Vec<(Hints, Arc<Made>)>>,
}

impl Learnt {
    /// The hints learnt by earlier programs that started with `first`; `None` if `first` sufficed. `loaded` keeps kernels that have been compiled
    /// meanwhile.
    pub fn get(&self, first: &Hints, loaded: &Loaded) -> Option<Hints> {
        let is_ready = |(other, made): &mut (Hints, Arc<Made>)| other == first && made.functions.are_ready();
        let come = self.coming.lock().extract_if(.., is_ready).last();
        if let Some((_, made)) = come {
            match made.functions.wait(&made.lowered.kernels, loaded) {
                Ok(()) => self.add(first, &made.laid_out.hints),
                Err(error) => tracing::warn!(%error, "kernels for smaller tables cannot be compiled"),
            }
        }
        self.known.lock().iter().find(|(other, _)| other == first).map(|(_, learnt)| learnt.clone())
    }

    /// Records that a program that started with `first` completed with `hints`.
    pub fn add(&self, first: &Hints, hints: &Hints) {
        if !hints.are_sizes(first) {
            return;
        }
        let mut known = self.known.lock();
        if let Some((_, learnt)) = known.iter_mut().find(|(other, _)| other == first) {
            learnt.clone_from(hints);
            return;
        }
        if known.len() >= MOST {
            known.remove(0);
        }
        known.push((first.clone(), hints.clone()));
    }

    /// Records that the tables of `made` suffice for a program that started with `first`: others use them once their kernels are compiled.
    pub fn expect(&self, first: &Hints, made: &Arc<Made>) {
        let mut coming = self.coming.lock();
        coming.retain(|(other, _)| other != first);
        coming.push((first.clone(), Arc::clone(made)));
    }

    /// Whether smaller tables for `first` are being compiled.
    pub fn expects(&self, first: &Hints) -> bool {
        self.coming.lock().iter().any(|(other, _)| other == first)
    }

    /// Forgets the hints learnt for `first`: they do not suit some program.
    pub fn forget(&self, first: &Hints) {
        self.known.lock().retain(|(other, _)| other != first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::device::sim::{SimDevice, SimOptions};

    #[test]
    fn what_was_learnt_is_forgotten_by_the_hints_it_was_learnt_for() {
        let device: Arc<dyn Device> = Arc::new(SimDevice::new(SimOptions::default()).expect("a C++ compiler"));
        let loaded = Loaded::new(&device);
        let learnt = Learnt::default();
        let with = |rows: u64| Hints { capacity: [(0, rows)].into(), ..Hints::default() };
        let (first, others) = (Hints::default(), Hints { streamed: true, ..Hints::default() });
        learnt.add(&first, &with(1));
        learnt.add(&first, &with(2));
        learnt.add(&others, &Hints { streamed: true, ..with(3) });
        assert_eq!(learnt.get(&first, &loaded), Some(with(2)));
        learnt.forget(&first);
        assert_eq!(learnt.get(&first, &loaded), None);
        assert!(learnt.get(&others, &loaded).is_some());
    }
}
