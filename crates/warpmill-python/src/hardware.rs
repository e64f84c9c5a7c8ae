//! The hardware profile, as JSON.

use std::path::PathBuf;

use pyo3::prelude::*;
use serde_json::json;
use warpmill_machine::{HardwareProfile, Origin};

use crate::errors::{EngineError, Error, guarded};

/// The rates that cost models use: `profile`; `file`, its actual or possible path; `origin` (`assumed`, `file`, `refused`, `installed`) and `reason`,
/// why a file is refused.
#[pyfunction]
pub(crate) fn hardware() -> String {
    let (origin, reason) = match warpmill_machine::origin() {
        Origin::Assumed => ("assumed", None),
        Origin::File(_) => ("file", None),
        Origin::Refused(_, reason) => ("refused", Some(reason)),
        Origin::Installed => ("installed", None),
    };
    let profile: &HardwareProfile = &warpmill_machine::current();
    json!({ "origin": origin, "reason": reason, "file": warpmill_machine::file(), "profile": profile }).to_string()
}

/// Measures this machine and writes the profile to its file. Returns what could not be measured. `begin` is called with the name of each measurement
/// before it begins.
#[pyfunction]
pub(crate) fn calibrate(py: Python<'_>, folder: PathBuf, begin: Py<PyAny>) -> PyResult<Vec<String>> {
    let Some(file) = warpmill_machine::file() else {
        return Err(Error::new_err("WARPMILL_HARDWARE is empty: there is no file for the hardware profile"));
    };
    let mut failed = None;
    let measured = py.detach(|| {
        guarded(|| {
            let mut begin = |measurement: warpmill::Measurement| {
                // An exception of the callback, or Ctrl-C, is raised after the measurement.
                let told = Python::attach(|py| {
                    begin.call1(py, (measurement.name(),)).map(drop).and_then(|()| py.check_signals())
                });
                failed = failed.take().or(told.err());
            };
            Ok(warpmill::calibrate(&folder, &mut begin).map_err(EngineError)?)
        })
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let (profile, problems) = measured?;
    warpmill_machine::write(profile, &file).map_err(|error| Error::new_err(format!("{}: {error}", file.display())))?;
    Ok(problems)
}
