use std::process::Command;

use super::*;

/// Environment variable for the processes that [`processes_and_threads_share_a_folder`] starts: the cache's root.
const CHILD: &str = "WARPMILL_TEST_KERNEL_CACHE";

fn key(number: u32) -> Key {
    Key::of([&number.to_le_bytes()[..]])
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn keys_tell_fields_apart() {
    let of = |fields: &[&str]| Key::of(fields.iter().map(|field| field.as_bytes()));
    let lists: [&[&str]; 7] = [&[], &[""], &["", ""], &["ab"], &["a", "b"], &["ab", ""], &["", "ab"]];
    for (i, left) in lists.iter().enumerate() {
        for (j, right) in lists.iter().enumerate() {
            assert_eq!(of(left) == of(right), i == j, "{left:?} {right:?}");
        }
    }
}

#[test]
fn what_is_put_is_found_by_another_instance() {
    let root = tempfile::tempdir().unwrap();
    let cache = KernelCache::at(root.path().into(), "cubin/sm_90", 1 << 20);
    assert_eq!(cache.get(key(1)), None);
    cache.put(key(1), b"machine code");
    cache.put(key(2), b"");
    let again = KernelCache::at(root.path().into(), "cubin/sm_90", 1 << 20);
    assert_eq!(again.get(key(1)).unwrap(), b"machine code");
    assert_eq!(again.get(key(2)).unwrap(), b"");
    assert_eq!(KernelCache::at(root.path().into(), "cubin/sm_80", 1 << 20).get(key(1)), None);
    again.put(key(1), b"other code");
    assert_eq!(cache.get(key(1)).unwrap(), b"other code");
    assert_eq!(files(&root.path().join("cubin/sm_90")).len(), 2, "no unfinished file is left");
}

#[test]
fn damaged_files_are_misses() {
    let root = tempfile::tempdir().unwrap();
    let cache = KernelCache::at(root.path().into(), "cubin", 1 << 20);
    cache.put(key(1), &[7; 100]);
    let path = root.path().join("cubin").join(key(1).file_name());
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(cache.get(key(1)), None, "flipped bit in byte {at}");
        fs::write(&path, &whole[..at]).unwrap();
        assert_eq!(cache.get(key(1)), None, "cut to {at} bytes");
    }
    fs::write(&path, &whole).unwrap();
    assert!(cache.get(key(1)).is_some());
    fs::copy(&path, root.path().join("cubin").join(key(2).file_name())).unwrap();
    assert_eq!(cache.get(key(2)), None, "another kernel's file");
}

#[test]
fn the_least_recently_used_go_first() {
    let root = tempfile::tempdir().unwrap();
    let entry = 1000 + HEADER as u64;
    let cache = KernelCache::at(root.path().into(), "a", 10 * entry);
    let age = |number: u32, days: u64| {
        let path = root.path().join("a").join(key(number).file_name());
        let used = SystemTime::now() - Duration::from_secs(days * 86400);
        File::options().append(true).open(path).unwrap().set_modified(used).unwrap();
    };
    for number in 0..10 {
        cache.put(key(number), &[number as u8; 1000]);
        age(number, 20 - u64::from(number));
    }
    assert_eq!(files(&root.path().join("a")).len(), 10);
    assert!(cache.get(key(0)).is_some(), "a hit makes the oldest the newest");
    fs::write(root.path().join("a/README"), "not the cache's").unwrap();
    // Another folder of the same root counts towards the same limit.
    KernelCache::at(root.path().into(), "b", 10 * entry).put(key(10), &[10; 1000]);
    let left: Vec<_> = (0..10).filter(|&number| cache.get(key(number)).is_some()).collect();
    assert_eq!(left, [0, 3, 4, 5, 6, 7, 8, 9]);
    assert!(root.path().join("a/README").exists());
}

#[test]
fn an_entry_larger_than_the_limit_is_not_kept() {
    let root = tempfile::tempdir().unwrap();
    let cache = KernelCache::at(root.path().into(), "a", 100);
    cache.put(key(1), &[0; 100]);
    assert_eq!(cache.get(key(1)), None);
    cache.put(key(2), &[0; 50]);
    assert!(cache.get(key(2)).is_some());
}

#[test]
fn unfinished_files_are_removed_once_they_are_old() {
    let root = tempfile::tempdir().unwrap();
    let cache = KernelCache::at(root.path().into(), "a", 1 << 20);
    fs::create_dir_all(root.path().join("a")).unwrap();
    for (name, hours) in [("old", 2), ("new", 0)] {
        let file = File::create(root.path().join(format!("a/{PARTIAL_PREFIX}{name}"))).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
    }
    cache.put(key(1), b"x");
    assert_eq!(files(&root.path().join("a")), [format!("{PARTIAL_PREFIX}new"), key(1).file_name()]);
}

#[test]
fn a_place_that_cannot_be_written_is_no_failure() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("file"), "").unwrap();
    let cache = KernelCache::at(root.path().join("file"), "a", 1 << 20);
    cache.put(key(1), b"x");
    assert!(cache.warned.load(Ordering::Relaxed));
    assert_eq!(cache.get(key(1)), None);
}

/// Writes and reads entries whose content depends on their number, under a limit that makes all participants evict.
fn hammer(root: &Path) {
    let cache = KernelCache::at(root.into(), "shared", 20_000);
    for round in 0..20 {
        for number in 0..16u32 {
            let content = vec![number as u8; 500 + 100 * number as usize];
            if let Some(found) = cache.get(key(number)) {
                assert_eq!(found, content, "entry {number} in round {round}");
            } else {
                cache.put(key(number), &content);
            }
        }
    }
    assert!(!cache.warned.load(Ordering::Relaxed));
}

#[test]
fn processes_and_threads_share_a_folder() {
    if let Some(root) = std::env::var_os(CHILD) {
        return hammer(Path::new(&root));
    }
    let root = tempfile::tempdir().unwrap();
    let name = "device::kernel_cache::tests::processes_and_threads_share_a_folder";
    let start =
        || Command::new(std::env::current_exe().unwrap()).args(["--exact", name]).env(CHILD, root.path()).spawn();
    let children: Vec<_> = (0..2).map(|_| start().unwrap()).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| hammer(root.path()));
        }
    });
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}
