//! Search for library files.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The file mapped at `address`.
pub(super) fn mapped_file(address: usize) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
        let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        let path = &line[line.find('/')?..];
        range.contains(&address).then(|| PathBuf::from(path))
    })
}

/// The subfolders of `folder` whose names start with `prefix`, in descending order of names.
pub(super) fn subfolders(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let starts = |name: &OsStr| name.to_string_lossy().starts_with(prefix);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter(|entry| starts(&entry.file_name()))
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found.reverse();
    found
}
