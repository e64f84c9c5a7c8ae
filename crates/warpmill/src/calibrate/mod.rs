//! Measures this machine for the hardware profile ([`warpmill_machine`]): `warpmill doctor --calibrate`.

mod queries;

use std::path::Path;

use warpmill_format::measure;
use warpmill_machine::{HardwareProfile, Rate};

use crate::{Error, Result};

/// A part of the machine to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measurement {
    /// Copies from memory to memory.
    Copies,
    /// Decompression on the host.
    Codecs,
    /// Reading files.
    Storage,
    /// Scans and joins of the CPU back end.
    Queries,
    /// Links and memory of the devices.
    Devices,
}

impl Measurement {
    /// All measurements, in order of execution.
    pub const ALL: [Self; 5] = [Self::Copies, Self::Codecs, Self::Storage, Self::Queries, Self::Devices];

    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copies => "copying memory",
            Self::Codecs => "decompression",
            Self::Storage => "reading files",
            Self::Queries => "scans and joins",
            Self::Devices => "devices",
        }
    }
}

/// Measures the profile of this machine. Returns it with the measurements that failed, and the reasons. Takes some seconds, in which nothing else
/// should run; writes temporary files of 256 MB to `folder`, whose drive is measured. `begin` is called before each measurement.
///
/// # Errors
/// A folder that cannot be written to; queries that fail.
pub fn calibrate(folder: &Path, begin: &mut dyn FnMut(Measurement)) -> Result<(HardwareProfile, Vec<String>)> {
    let (mut profile, mut problems) = (HardwareProfile::default(), vec![]);
    let threads = profile.machine.threads;
    for measurement in Measurement::ALL {
        begin(measurement);
        match measurement {
            Measurement::Copies => {
                profile.cpu.copy = measure::copying(1);
                // Threads together copy no less than one of them alone.
                profile.cpu.copy_limit = measure::copying(threads).max(profile.cpu.copy);
                profile.measured.insert(Rate::Copy);
            }
            Measurement::Codecs => {
                profile.cpu.codecs = measure::codecs()?;
                profile.measured.insert(Rate::HostCodecs);
            }
            Measurement::Storage => {
                match measure::storage(folder).map_err(|error| Error::Io(format!("{}: {error}", folder.display())))? {
                    Some(curve) => {
                        profile.storage = curve;
                        profile.measured.insert(Rate::Storage);
                    }
                    None => problems.push(format!(
                        "reading files: the system keeps files of {} in memory, or does not tell",
                        folder.display()
                    )),
                }
            }
            Measurement::Queries => problems.extend(queries::measure(&mut profile, threads, queries::FULL)?),
            Measurement::Devices => {
                for found in warpmill_engine::device_rates() {
                    match found {
                        Ok(rates) => profile.put_device(rates),
                        Err(why) => problems.push(why),
                    }
                }
            }
        }
    }
    Ok((profile, problems))
}
