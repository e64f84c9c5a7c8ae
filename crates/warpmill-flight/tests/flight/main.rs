//! The server over a real connection, with the client of the Arrow crate.

mod access;
mod clients;
mod fuzz;
mod limits;
mod metadata;
mod queries;
mod support;
