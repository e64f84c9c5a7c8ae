//! Queries of many threads at once on one simulated device with little memory, and data that passes through it.

mod coexecution;
mod concurrent;
mod hybrid;
mod kept;
mod parts;
mod paths;
mod streamed;
mod zones;
