use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::*;
use crate::kernels::library::Library;

/// Whether there is a compiler; without the wheel these tests do nothing.
fn compiler() -> bool {
    match available() {
        Ok(_) => true,
        Err(DeviceError::NoCompiler(reason)) => {
            eprintln!("skipped: {reason}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

fn source(text: &str, entry: &str) -> KernelSource {
    KernelSource { text: text.into(), entries: vec![entry.into()] }
}

/// Uses everything that the prelude defines.
const SUM: &str = r#"
struct Params { const i32* values; u64 count; i64* sum; i128* wide; };
extern "C" __global__ void sum(Params p) {
    DYNAMIC_SHARED(i64, partial);
    static_assert(sizeof(u8) == 1 && sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8, "");
    static_assert(sizeof(i8) == 1 && sizeof(i16) == 2 && sizeof(i32) == 4 && sizeof(i64) == 8, "");
    static_assert(sizeof(u128) == 16 && sizeof(i128) == 16, "");
    static_assert((i8)-1 < 0 && (u8)-1 > 0, "");
    i64 mine = 0;
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < p.count; i += step) mine += p.values[i];
    partial[threadIdx.x] = mine;
    __syncthreads();
    if (lane_mask_lt() == 0) {
        for (int i = 1; i < 32; i++) mine += partial[threadIdx.x + i];
        atomicAdd((u64*)p.sum, (u64)mine);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) *p.wide = (i128)mine * mine;
}
"#;

/// Machine code is an ELF file for NVIDIA's machine number.
fn assert_cubin(cubin: &[u8]) {
    assert_eq!(&cubin[..4], b"\x7fELF");
    assert_eq!(u16::from_le_bytes([cubin[18], cubin[19]]), 190);
}

#[test]
fn kernels_compile_for_every_generation_without_a_gpu() {
    if !compiler() {
        return;
    }
    let newest = *supported_archs().unwrap().last().unwrap();
    assert!(newest >= 90);
    for arch in ["sm_80".to_string(), "sm_90".to_string(), format!("sm_{newest}")] {
        let cubin = compile_cubin(&source(SUM, "sum"), &arch).unwrap();
        assert_cubin(&cubin);
        let name = b".text.sum\0";
        assert!(cubin.windows(name.len()).any(|window| window == name), "{arch}: no entry point");
    }
}

/// Compiles every device function, including unused ones. Later parts use earlier ones.
#[test]
fn the_device_library_compiles() {
    if !compiler() {
        return;
    }
    let mut text: String = Library::ALL.iter().map(|part| part.text()).collect();
    text.push_str("extern \"C\" __global__ void k(u32* p) { *p = lane_mask_lt(); }");
    for arch in ["sm_80", "sm_90"] {
        assert_cubin(&compile_cubin(&source(&text, "k"), arch).unwrap_or_else(|error| panic!("{error}")));
    }
}

#[test]
fn products_and_sums_round_apart() {
    if !compiler() {
        return;
    }
    let text = "struct P { double* v; }; extern \"C\" __global__ void k(P p) { p.v[0] = p.v[1] * p.v[2] + p.v[3]; }";
    let contracted = text.replace("p.v[1] * p.v[2] + p.v[3]", "fma(p.v[1], p.v[2], p.v[3])");
    let compile = |text: &str| compile_cubin(&source(text, "k"), "sm_90").unwrap();
    assert_ne!(compile(text), compile(&contracted));
}

#[test]
fn the_log_of_a_wrong_kernel_names_its_line() {
    if !compiler() {
        return;
    }
    let wrong = "extern \"C\" __global__ void k(u32* p) {\n    *p = missing;\n}\n";
    match compile_cubin(&source(wrong, "k"), "sm_90") {
        Err(DeviceError::Compile { log }) => {
            assert!(log.contains("kernel.cu(2)") && log.contains("missing"), "{log}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(compile_cubin(&source("\0", "k"), "sm_90"), Err(DeviceError::Compile { .. })));
}

#[test]
fn unknown_architectures_are_refused() {
    if !compiler() {
        return;
    }
    for arch in ["sm_999", "nonsense", "", "sm_90\0"] {
        match compile_cubin(&source(SUM, "sum"), arch) {
            Err(DeviceError::NoCompiler(_)) => {}
            other => panic!("{arch:?}: {other:?}"),
        }
    }
    assert_eq!(arch_for(90).unwrap(), "sm_90");
    assert!(matches!(arch_for(31), Err(DeviceError::NoCompiler(_))));
}

#[test]
fn threads_compile_at_once() {
    if !compiler() {
        return;
    }
    let alone = compile_cubin(&source(SUM, "sum"), "sm_90").unwrap();
    std::thread::scope(|scope| {
        let others: Vec<_> = (0..4).map(|_| scope.spawn(|| compile_cubin(&source(SUM, "sum"), "sm_90"))).collect();
        for other in others {
            assert_eq!(other.join().unwrap().unwrap(), alone);
        }
    });
}

#[test]
fn the_cache_key_depends_on_source_entries_and_architecture() {
    if !compiler() {
        return;
    }
    let key = |text, entry, arch| cache_key(&source(text, entry), arch).unwrap().expect("an identified compiler");
    let keys = [key("a", "b", "sm_90"), key("b", "b", "sm_90"), key("a", "c", "sm_90"), key("a", "b", "sm_80")];
    for (i, left) in keys.iter().enumerate() {
        assert_eq!(keys.iter().filter(|&right| left == right).count(), 1, "key {i}");
    }
    assert_eq!(keys[0], key("a", "b", "sm_90"));
    assert!(available().unwrap().path.is_some_and(|path| path.exists()));
}

#[test]
fn code_of_the_same_generation_runs() {
    let known = [75, 80, 86, 89, 90, 100, 120];
    assert_eq!(newest_before(&known, 86), Some(86));
    assert_eq!(newest_before(&known, 87), Some(86));
    assert_eq!(newest_before(&known, 103), Some(100));
    assert_eq!(newest_before(&known, 70), None);
    assert_eq!(newest_before(&known, 110), None);
}

/// The candidates under these environment variables.
fn candidates(variables: &[(&str, &Path)]) -> Vec<PathBuf> {
    library::candidates(&|name| {
        let found = variables.iter().find(|(other, _)| *other == name);
        found.map(|(_, value)| OsString::from(value))
    })
}

#[test]
fn wheels_and_toolkits_are_searched_after_the_loaders_path() {
    let root = tempfile::tempdir().unwrap();
    let file = |path: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        path
    };
    let new = file("site/nvidia/cu13/lib/libnvrtc.so.13");
    let old = file("site/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
    file("site/nvidia/cublas/lib/libcublas.so.12");
    let toolkit = file("toolkit/lib64/libnvrtc.so");
    let found =
        candidates(&[("WARPMILL_PYTHON_PATH", &root.path().join("site")), ("CUDA_HOME", &root.path().join("toolkit"))]);
    let place = |path: &Path| found.iter().position(|other| other == path).expect("a candidate");
    assert!(place(Path::new("libnvrtc.so.13")) < place(Path::new("libnvrtc.so.12")));
    assert!(place(Path::new("libnvrtc.so")) < place(&toolkit));
    assert!(place(&toolkit) < place(&new));
    assert!(found.contains(&old));
    assert!(candidates(&[("WARPMILL_PYTHON_PATH", Path::new(""))]).iter().all(|path| !path.starts_with("nvidia")));
}

#[test]
fn a_library_that_was_named_is_the_only_candidate() {
    let root = tempfile::tempdir().unwrap();
    let library = root.path().join("libnvrtc.so.12");
    assert_eq!(candidates(&[("WARPMILL_NVRTC", &library)]), std::slice::from_ref(&library));
    assert_eq!(candidates(&[("WARPMILL_NVRTC", root.path())]), [root.path().join("libnvrtc.so.13")]);
    fs::write(&library, "").unwrap();
    assert_eq!(candidates(&[("WARPMILL_NVRTC", root.path())]), [library]);
}
