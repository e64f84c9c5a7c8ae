//! Hash builds and probes.

/// A finished hash build.
#[derive(Debug)]
pub struct HashTable {}
