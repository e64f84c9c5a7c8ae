//! The profile of the process, and its file.
//!
//! The file is `hardware.json` in [`cache_folder`], or the path in `WARPMILL_HARDWARE`; an empty path means no file. It is written completely and
//! then renamed, so that readers see either profile.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

use crate::{HardwareProfile, Machine};

/// The environment variable for the file's path.
const VARIABLE: &str = "WARPMILL_HARDWARE";

/// The source of the rates in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// No file: all rates are assumptions.
    Assumed,
    /// The file.
    File(PathBuf),
    /// A file that is not used, with the reason: the rates are assumptions.
    Refused(PathBuf, String),
    /// The process itself ([`install`]).
    Installed,
}

struct Known {
    profile: Arc<HardwareProfile>,
    origin: Origin,
}

static KNOWN: LazyLock<RwLock<Known>> = LazyLock::new(|| RwLock::new(of_file(file().as_deref())));

/// The current rates for cost models.
pub fn current() -> Arc<HardwareProfile> {
    KNOWN.read().profile.clone()
}

/// The source of the current rates.
pub fn origin() -> Origin {
    KNOWN.read().origin.clone()
}

/// Installs rates for this process, without a file.
pub fn install(profile: HardwareProfile) {
    *KNOWN.write() = Known { profile: Arc::new(profile), origin: Origin::Installed };
}

/// The folder of all caches of Warpmill: `$WARPMILL_CACHE_DIR`, `$XDG_CACHE_HOME/warpmill` or `~/.cache/warpmill`; `None` if none of them is set.
pub fn cache_folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("WARPMILL_CACHE_DIR")
        .or_else(|| variable("XDG_CACHE_HOME").map(|folder| folder.join("warpmill")))
        .or_else(|| variable("HOME").map(|folder| folder.join(".cache/warpmill")))
}

/// The path of the profile; `None` if files are disabled.
pub fn file() -> Option<PathBuf> {
    match std::env::var_os(VARIABLE) {
        Some(name) if name.is_empty() => None,
        Some(name) => Some(name.into()),
        None => cache_folder().map(|folder| folder.join("hardware.json")),
    }
}

fn of_file(file: Option<&Path>) -> Known {
    let assumed = |origin| Known { profile: Arc::new(HardwareProfile::default()), origin };
    let Some(file) = file else { return assumed(Origin::Assumed) };
    let text = match std::fs::read(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return assumed(Origin::Assumed),
        Err(error) => return assumed(Origin::Refused(file.into(), error.to_string())),
    };
    match read(&text) {
        Ok(profile) => Known { profile: Arc::new(profile), origin: Origin::File(file.into()) },
        Err(why) => assumed(Origin::Refused(file.into(), why)),
    }
}

/// Parses a profile, which must be for this machine.
fn read(text: &[u8]) -> Result<HardwareProfile, String> {
    let profile: HardwareProfile = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if let Some(flaw) = profile.flaw() {
        return Err(flaw);
    }
    let here = Machine::here();
    if profile.machine != here {
        let Machine { cpu, threads } = &profile.machine;
        return Err(format!(
            "it is of another machine: {cpu:?} with {threads} threads, not {:?} with {}",
            here.cpu, here.threads
        ));
    }
    Ok(profile)
}

/// Writes the profile to `file`, and installs it for this process.
///
/// # Errors
/// A rate that is not a positive number ([`std::io::ErrorKind::InvalidData`]); file system errors. The file is then unchanged.
pub fn write(profile: HardwareProfile, file: &Path) -> std::io::Result<()> {
    save(&profile, file)?;
    *KNOWN.write() = Known { profile: Arc::new(profile), origin: Origin::File(file.into()) };
    Ok(())
}

fn save(profile: &HardwareProfile, file: &Path) -> std::io::Result<()> {
    if let Some(flaw) = profile.flaw() {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, flaw));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(&mut new, profile)?;
    new.write_all(b"\n")?;
    new.as_file().sync_all()?;
    new.persist(file)?;
    Ok(())
}

/// Smallest time between two writes of refined rates.
const PAUSE: Duration = Duration::from_secs(60);

static LAST: Mutex<Option<Instant>> = Mutex::new(None);

/// Refines rates by measurements of runs. If they come from a file, a thread rewrites it, at most once a minute; a file that cannot be written stays
/// unchanged.
pub fn refine(change: impl FnOnce(&mut HardwareProfile)) {
    let mut known = KNOWN.write();
    let mut profile = HardwareProfile::clone(&known.profile);
    change(&mut profile);
    if profile.flaw().is_some() {
        return;
    }
    known.profile = Arc::new(profile);
    let Origin::File(file) = known.origin.clone() else { return };
    let profile = known.profile.clone();
    drop(known);
    let mut last = LAST.lock();
    if last.is_none_or(|last| last.elapsed() >= PAUSE) {
        *last = Some(Instant::now());
        // If no thread can be started, rates are refined in memory only.
        let _ = std::thread::Builder::new().name("warpmill-hardware".into()).spawn(move || drop(save(&profile, &file)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Curve, DeviceRates, Rate};

    fn measured() -> HardwareProfile {
        let mut profile = HardwareProfile::default();
        profile.cpu.values = 1.5e9;
        profile.measured.insert(Rate::Values);
        profile.put_device(DeviceRates { link: Curve { bandwidth: 55e9, half: 1e6 }, ..DeviceRates::assumed("GPU") });
        profile
    }

    #[test]
    fn a_profile_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deeper/hardware.json");
        assert_eq!(of_file(Some(&file)).origin, Origin::Assumed);
        save(&measured(), &file).unwrap();
        let known = of_file(Some(&file));
        assert_eq!((&*known.profile, known.origin), (&measured(), Origin::File(file.clone())));
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
        assert_eq!(of_file(None).origin, Origin::Assumed);
    }

    #[test]
    fn files_that_mislead_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hardware.json");
        let refusal = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let known = of_file(Some(&file));
            assert_eq!(*known.profile, HardwareProfile::default());
            match known.origin {
                Origin::Refused(_, why) => why,
                origin => panic!("{origin:?}"),
            }
        };
        let text = serde_json::to_string(&measured()).unwrap();
        assert!(refusal("").contains("EOF"));
        assert!(refusal(&text.replace("\"threads\":", "\"threads\":1")).contains("another machine"));
        assert!(refusal(&text.replace("\"near\":", "\"near\":-")).contains("cpu.near"));
        assert!(refusal(&text.replace("\"near\":", "\"nearer\":")).contains("nearer"));
        let mut broken = measured();
        broken.cpu.merge = f64::INFINITY;
        assert_eq!(save(&broken, &file).unwrap_err().kind(), std::io::ErrorKind::InvalidData);
    }
}
