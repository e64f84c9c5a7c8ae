//! NVRTC on the kernels that a test ran on the simulated device: the same text must compile for the supported GPUs: the oldest, the one that is
//! measured, and the newest. Needs the compiler, but no GPU.
//!
//! Each kernel is compiled for one of the three, chosen by a hash of its text; with `WARPMILL_ALL_ARCHITECTURES`, for all of them.
//!
//! Without NVRTC the check prints a note and is skipped, unless `WARPMILL_REQUIRE_NVRTC` is set (CI sets it).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use warpmill_engine::warpmill_gpu::device::cuda::{compile_ahead, nvrtc};
use warpmill_engine::warpmill_gpu::device::sim::{record_sources, recorded_sources};

/// Starts recording kernels.
pub fn record() {
    record_sources();
}

/// Compiles all kernels that the process's simulated devices have loaded since recording began and that no check has compiled.
pub fn check(what: &str) {
    let sources = recorded_sources();
    let newest = match nvrtc::supported_archs() {
        Ok(archs) => archs.into_iter().max().expect("NVRTC knows architectures"),
        Err(error) if std::env::var_os("WARPMILL_REQUIRE_NVRTC").is_some() => {
            panic!("{error} (WARPMILL_REQUIRE_NVRTC is set; the wheel is in the package's extra `dev`)")
        }
        Err(error) => return eprintln!("{what}: kernels are not compiled for GPUs: {error}"),
    };
    let archs = [80, 90, newest];
    let all = std::env::var_os("WARPMILL_ALL_ARCHITECTURES").is_some();
    for (at, arch) in archs.into_iter().enumerate() {
        let started = Instant::now();
        let sources: Vec<_> =
            sources.iter().filter(|source| all || position(&source.text, archs.len()) == at).cloned().collect();
        let failed = compile_ahead(&sources, &format!("sm_{arch}")).unwrap();
        let shown: Vec<String> = failed
            .iter()
            .map(|(source, error)| {
                format!("{error}\n{}", sources[*source].text.lines().rev().take(80).collect::<Vec<_>>().join("\n"))
            })
            .take(3)
            .collect();
        assert!(failed.is_empty(), "{what}, sm_{arch}: {} kernels\n{}", failed.len(), shown.join("\n\n"));
        eprintln!("{what}: {} kernels for sm_{arch} in {:.1} s", sources.len(), started.elapsed().as_secs_f64());
    }
}

/// A number below `count`, a function of the text.
fn position(text: &str, count: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    (hasher.finish() % count as u64) as usize
}
