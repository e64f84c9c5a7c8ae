//! Mapped files whose bytes may vanish while they are read: a file may be truncated, or a disk may fail.
//!
//! The system answers a read of such bytes with SIGBUS, which ends a process. Here the reader gets zeros instead, and the mapping is marked as
//! damaged: readers check the mark before they return a result. A SIGBUS at any other address goes to the previous handler.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};

use memmap2::Mmap;

/// A file in memory.
#[derive(Debug)]
pub struct Mapping {
    // Dropped before the map, whose addresses may be reused afterwards.
    region: Claimed,
    map: Mmap,
}

impl Mapping {
    /// Maps all of `file`, which must not be changed.
    pub fn of(file: &File) -> io::Result<Self> {
        handle_signals();
        // SAFETY: data files are never changed after they got their name, only unlinked, which leaves a mapping intact. Where somebody does
        // so nevertheless, every length that was read of it was copied, and every place is within its bounds.
        let map = unsafe { Mmap::map(file) }?;
        let start = map.as_ptr() as usize;
        Ok(Self { region: Claimed::new(start, start + map.len()), map })
    }

    /// Whether bytes were read that the file no longer has.
    pub fn is_damaged(&self) -> bool {
        self.region.0.damaged.load(Ordering::Acquire)
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

/// Addresses of a mapping for the signal handler; unused if it starts at 0.
#[derive(Debug)]
struct Region {
    claimed: AtomicBool,
    start: AtomicUsize,
    end: AtomicUsize,
    damaged: AtomicBool,
}

impl Region {
    const fn free() -> Self {
        let (claimed, damaged) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { claimed, start: AtomicUsize::new(0), end: AtomicUsize::new(0), damaged }
    }
}

/// The process's regions: never freed, because a signal may arrive at any time.
struct Regions {
    all: [Region; 256],
    more: AtomicPtr<Regions>,
}

impl Regions {
    const fn new() -> Self {
        Self { all: [const { Region::free() }; 256], more: AtomicPtr::new(null_mut()) }
    }

    /// The next block, if any.
    fn next(&self) -> Option<&'static Regions> {
        // SAFETY: null, or a leaked box.
        unsafe { self.more.load(Ordering::Acquire).as_ref() }
    }

    /// The next block, allocated if missing.
    fn grown(&self) -> &'static Regions {
        self.next().unwrap_or_else(|| {
            let made = Box::into_raw(Box::new(Regions::new()));
            match self.more.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: just leaked.
                Ok(_) => unsafe { &*made },
                Err(other) => {
                    // SAFETY: nobody has seen `made`; `other` is a leaked box.
                    unsafe {
                        drop(Box::from_raw(made));
                        &*other
                    }
                }
            }
        })
    }
}

static REGIONS: Regions = Regions::new();

/// A region owned exclusively until dropped.
#[derive(Debug)]
struct Claimed(&'static Region);

impl Claimed {
    fn new(start: usize, end: usize) -> Self {
        let claim = |region: &Region| !region.claimed.swap(true, Ordering::AcqRel);
        let mut regions = &REGIONS;
        let region = loop {
            match regions.all.iter().find(|region| claim(region)) {
                Some(region) => break region,
                None => regions = regions.grown(),
            }
        };
        region.damaged.store(false, Ordering::Relaxed);
        region.end.store(end, Ordering::Relaxed);
        region.start.store(start, Ordering::Release);
        Self(region)
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        self.0.start.store(0, Ordering::Release);
        self.0.claimed.store(false, Ordering::Release);
    }
}

/// Bytes of a page.
static PAGE: AtomicUsize = AtomicUsize::new(4096);
/// The handler of SIGBUS before this one.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

fn handle_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: structures of C, all zero at first, that these calls fill or read; the handler does only what a handler may.
        unsafe {
            PAGE.store(usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(4096), Ordering::Relaxed);
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGBUS, std::ptr::null(), &mut before) != 0 {
                return;
            }
            let _ = BEFORE.set(before);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_sigbus as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(libc::SIGBUS, &action, null_mut());
        }
    });
}

extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the system gives the signal's own information.
    let address = unsafe { (*info).si_addr() } as usize;
    if !put_zeros(address) {
        pass_on(signal, info, context);
    }
}

/// Replaces the rest of the mapping that contains `address` by zeros; returns false if no mapping contains it.
fn put_zeros(address: usize) -> bool {
    let mut regions = Some(&REGIONS);
    while let Some(some) = regions {
        for region in &some.all {
            let (start, end) = (region.start.load(Ordering::Acquire), region.end.load(Ordering::Relaxed));
            let page = PAGE.load(Ordering::Relaxed);
            if start == 0 || !(start..end.next_multiple_of(page)).contains(&address) {
                continue;
            }
            let first = address - address % page;
            let (flags, access) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED, libc::PROT_READ);
            // SAFETY: pages of a mapping that this process has made, and that only its bytes are read of.
            let at = unsafe { libc::mmap(first as *mut _, end.next_multiple_of(page) - first, access, flags, -1, 0) };
            region.damaged.store(true, Ordering::Release);
            return at != libc::MAP_FAILED;
        }
        regions = some.next();
    }
    false
}

/// Does what would have happened without this handler.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let handler = BEFORE.get().map_or(libc::SIG_DFL, |before| before.sa_sigaction);
    let with_info = BEFORE.get().is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0);
    // SAFETY: what the system was told to call has the type that its flags say.
    unsafe {
        match handler {
            libc::SIG_DFL | libc::SIG_IGN => {
                // The read is repeated, and ends the process as without this handler.
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &action, null_mut());
            }
            handler if with_info => {
                type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
                std::mem::transmute::<usize, Handler>(handler)(signal, info, context);
            }
            handler => std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(handler)(signal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_have_gone_are_zeros() {
        let file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut &file, &[7; 40_000]).unwrap();
        let (mapping, other) = (Mapping::of(&file).unwrap(), Mapping::of(&file).unwrap());
        assert!(mapping[39_999] == 7 && !mapping.is_damaged());
        file.set_len(10_000).unwrap();
        assert_eq!((mapping[100], mapping[39_999]), (7, 0));
        assert!(mapping.is_damaged() && !other.is_damaged());
        drop(mapping);
        assert!(!Mapping::of(&file).unwrap().is_damaged());
        // More mappings than one block of regions has.
        let many: Vec<Mapping> = (0..600).map(|_| Mapping::of(&file).unwrap()).collect();
        file.set_len(0).unwrap();
        assert!(many.iter().all(|mapping| mapping[5000] == 0 && mapping.is_damaged()));
    }
}
