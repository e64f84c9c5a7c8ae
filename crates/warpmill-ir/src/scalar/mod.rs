//! What functions of SQL do with one value, for every back end.

pub mod case;
