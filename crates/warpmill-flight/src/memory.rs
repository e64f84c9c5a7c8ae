//! The memory of the process.

/// Growth in bytes that justifies returning freed memory.
const GROWTH: u64 = 16 << 20;

/// Bytes of memory that the process has.
pub(crate) fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// Returns memory freed by statements to the operating system. The C library keeps it otherwise: a server would stay as large as at its peak.
#[derive(Debug, Default)]
pub(crate) struct Trimmer {
    /// The bytes that the process had when this was last done.
    after: u64,
}

impl Trimmer {
    /// Returns free memory if the process has grown since the last call.
    pub(crate) fn trim(&mut self) {
        let Some(now) = resident_bytes() else { return };
        if now > self.after + GROWTH {
            trim();
            self.after = resident_bytes().unwrap_or(now);
        } else {
            self.after = self.after.min(now);
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    // SAFETY: takes no pointer, and any thread may call it at any time.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_memory_goes_back() {
        // Blocks below the C library's threshold for separate mappings; the last of each row stays and pins the heap's end.
        let mut rows: Vec<Vec<Vec<u8>>> = (0..64).map(|_| (0..64).map(|_| vec![1u8; 32 << 10]).collect()).collect();
        let full = resident_bytes().unwrap();
        rows.iter_mut().for_each(|row| drop(row.drain(..63)));
        Trimmer::default().trim();
        let after = resident_bytes().unwrap();
        assert!(after + (64 << 20) < full, "{full} bytes, then {after}");
        assert_eq!(rows.iter().map(Vec::len).sum::<usize>(), 64);
    }
}
