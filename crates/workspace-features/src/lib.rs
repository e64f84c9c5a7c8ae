//! Nothing but dependency features: see this crate's Cargo.toml.
