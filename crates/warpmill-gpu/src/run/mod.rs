//! Runs compiled programs on a device.
//!
//! - [`executor`]: runs programs, again with more room where a size was guessed too small, as [`options`] say; `shared`: what all
//!   runs share; `coexecution`: what is below the joins of a program that is split between both back ends;
//! - [`preview`]: how all of that is expected to turn out;
//! - `load`: brings a program's data to the device, some of it from other devices ([`peers`], [`exchange`]); [`feed`]: where it passes through, from table files past the page cache (`disk`) or
//!   from the host's memory, by `copies`; `prune`: without segments of which no row finds a partner;
//! - [`shuffle`]: rows that devices send to each other between two programs, divided by `scatter`; `shuffled`: such programs;
//! - `once`: one run; `launch`: its launches; [`inputs`], [`rows`]: rows to and from device memory;
//! - [`profile`]: what a run took, with `scan_profiles`; `bandwidth`: what the device's memory could give; [`calibrate`]:
//!   rates for the hardware profile.

pub(crate) mod bandwidth;
pub mod calibrate;
mod coexecution;
pub(crate) mod copies;
mod disk;
pub mod exchange;
pub mod executor;
pub mod feed;
pub mod inputs;
mod launch;
mod load;
mod once;
pub mod options;
pub mod peers;
pub mod preview;
pub mod profile;
mod prune;
pub mod rows;
mod scan_profiles;
mod scatter;
pub(crate) mod shared;
pub mod shuffle;
mod shuffled;
