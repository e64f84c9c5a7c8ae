//! The hardware profile: the rates of this machine for cost models, and their origin.
//!
//! One profile serves all decisions that compare times: the codec of a column, the form in which data are sent to a device, the strategy of a join
//! that does not fit device memory, the weights of cached segments, the CPU's share of a scan, and whether several devices pay. A rate is an
//! assumption ([`HardwareProfile::default`]) until `warpmill doctor --calibrate` measures it; later processes on the same machine read the file that
//! it writes, and runs refine it ([`refine`]).

mod curve;
mod machine;
mod profile;
mod store;

pub use curve::{Curve, Line};
pub use machine::{Machine, cores};
pub use profile::{CodecRates, CpuRates, DeviceRates, HardwareProfile, Rate};
pub use store::{Origin, cache_folder, current, file, install, origin, refine, write};
