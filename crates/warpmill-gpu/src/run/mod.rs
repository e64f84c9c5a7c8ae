//! Runs compiled programs on a device.
//!
//! - [`executor`]: runs programs with [`options`], and again with more room if a size was guessed too small; `shared`: state that all runs share;
//!   `coexecution`: programs that are split between both back ends;
//! - [`preview`]: the expected way of running a program;
//! - `load`: brings a program's data to the device, some of it from other devices ([`peers`], [`exchange`]); [`feed`]: streams it, from table files
//!   past the page cache (`disk`) or from host memory, by `copies`; `prune`: skips segments without join partners;
//! - [`shuffle`]: rows sent between devices in the middle of a query, divided by `scatter`; `shuffled`: such programs;
//! - `once`: one run; `launch`: its launches; [`inputs`], [`rows`]: rows to and from device memory;
//! - [`profile`]: profile of a run, with `scan_profiles`; `bandwidth`: measured bandwidth of device memory; [`calibrate`]: rates for the hardware
//!   profile.

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
