//! Scalar functions of SQL on one value, for every back end.

pub mod case;
pub mod civil;
pub mod moments;
