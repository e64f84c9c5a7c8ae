//! The hardware profile: the rates of this machine that cost models read, and where they come from.
//!
//! One profile serves all decisions that compare times: the codec of a column, the form in which data travels to a device, the way of a join
//! that does not fit, the weights of cached segments, the share of the CPU in a scan, and whether several devices pay. A rate is an
//! assumption ([`HardwareProfile::default`]) until `warpmill doctor --calibrate` measures it; the file that it writes is read by every later
//! process on the same machine, and refined by runs ([`refine`]).

mod curve;
mod machine;
mod profile;
mod store;

pub use curve::{Curve, Line};
pub use machine::Machine;
pub use profile::{CodecRates, CpuRates, DeviceRates, HardwareProfile, Rate};
pub use store::{Origin, cache_folder, current, file, install, origin, refine, write};
