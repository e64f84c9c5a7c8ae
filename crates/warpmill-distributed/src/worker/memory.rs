//! The memory of a worker's process.

/// Smallest number of bytes of a block that gets pages of its own: the C library's maximum.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_PAGES: libc::c_int = 32 << 20;
/// Freed bytes at the end of a heap, of which the C library has some for the threads, that stay with the process.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT: libc::c_int = 128 << 20;

/// Lets the C library use freed memory again. Otherwise the batches that a worker receives and sends, of some hundred kilobytes each, get new pages
/// every time: that took a sixth of the time of large shuffles.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn keep_freed() {
    // SAFETY: takes no pointers; other threads may allocate at the same time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_PAGES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn keep_freed() {}
