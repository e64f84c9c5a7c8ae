use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::library::{Nvcomp, Options, candidates};
use super::*;

/// The library, if a wheel or a path provides one: these tests need no GPU.
fn library() -> Option<&'static Nvcomp> {
    match Nvcomp::get() {
        Ok(library) => Some(library),
        Err(reason) => {
            eprintln!("not tested: {reason}");
            None
        }
    }
}

#[test]
fn the_interface_is_the_one_that_is_known() {
    assert_eq!((size_of::<Options>(), align_of::<Options>()), (64, 4));
    let Some(library) = library() else { return };
    assert!(library.version().version.starts_with("6."), "{:?}", library.version());
    for format in BatchFormat::ALL {
        let found = library.format(format).unwrap_or_else(|| panic!("{} is there", format.name()));
        assert!(found.alignments.input <= 16, "{}: {:?}", format.name(), found.alignments);
        let ask = |count: usize, largest: usize| {
            let mut bytes = usize::MAX;
            // SAFETY: valid pointer; asks for a size.
            let status = unsafe {
                (found.temp_bytes)(
                    count,
                    largest,
                    Options::DECOMPRESS,
                    &mut bytes,
                    count * largest,
                    std::ptr::null_mut(),
                )
            };
            assert_eq!(status, 0, "{}", format.name());
            bytes
        };
        let (one, many) = (ask(1, 64 << 10), ask(100, 64 << 10));
        assert!(one <= many && many <= 100 * one.max(1), "{}: {one}, {many}", format.name());
        assert!(one < 1 << 20, "{}: {one}", format.name());
    }
    assert!(!library.describe(12).is_empty() && library.describe(12) != library.describe(0));
}

#[test]
fn a_library_that_is_none_has_a_reason() {
    let missing = Nvcomp::load(Path::new("/nowhere/libnvcomp.so.6")).err().unwrap();
    assert!(missing.contains("/nowhere/libnvcomp.so.6"), "{missing}");
    // Another library that loads.
    let other = Nvcomp::load(Path::new("libc.so.6")).err().unwrap();
    assert!(other.contains("nvcompGetProperties"), "{other}");
}

#[test]
fn it_is_looked_for_where_people_put_it() {
    let folder = tempfile::tempdir().unwrap();
    let wheel = folder.path().join("nvidia/libnvcomp/lib64");
    std::fs::create_dir_all(&wheel).unwrap();
    std::fs::write(wheel.join("libnvcomp.so.6"), "").unwrap();
    let site = folder.path().as_os_str().to_owned();
    let found = candidates(&|name| (name == "WARPMILL_PYTHON_PATH").then(|| site.clone()));
    assert_eq!(found[0], PathBuf::from("libnvcomp.so.6"), "the loader's path comes first");
    assert!(found.contains(&wheel.join("libnvcomp.so.6")), "{found:?}");
    let chosen = candidates(&|name| (name == "WARPMILL_NVCOMP").then(|| wheel.clone().into_os_string()));
    assert_eq!(chosen, [wheel.join("libnvcomp.so.6")]);
    let chosen = candidates(&|name| (name == "WARPMILL_NVCOMP").then(|| OsString::from("/x/libnvcomp.so.6")));
    assert_eq!(chosen, [PathBuf::from("/x/libnvcomp.so.6")]);
}
