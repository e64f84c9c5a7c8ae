//! Queries of many threads on one simulated device with little memory, and data streamed through it.

mod coexecution;
mod concurrent;
mod hybrid;
mod kept;
mod parts;
mod paths;
mod streamed;
mod zones;
