//! Warpmill as an Arrow Flight SQL server.
//!
//! [`Server::bind`] checks a [`Config`] and binds the port, [`Server::run`] serves until it is stopped; [`serve`] does both, with logs and signals,
//! for a process that does nothing else (`warpmill serve`).
//!
//! A request passes `door` (panics and transport errors become typed statuses), `auth` (authentication), `session` (settings and handles),
//! `statement` (which statements are permitted), `admission` (limits), and `answer` (rows to messages, within the limits of time and size).
//! `docs/flight.md` is the documentation for users.

mod admission;
mod answer;
mod auth;
mod config;
mod connection;
mod door;
mod http;
mod logging;
mod memory;
mod metrics;
mod placeholders;
mod server;
mod service;
mod session;
mod statement;
mod status;

pub use auth::hash_password;
pub use config::{Config, ConfigError, Limits, LogFormat};
pub use logging::start as start_logging;
pub use server::{Server, serve};
