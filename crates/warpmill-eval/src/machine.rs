//! The memory of the machine.

/// Bytes of memory that the process can still allocate, as far as the system reports it: limited by the machine, the container, and the address
/// space.
pub fn free_memory() -> Option<usize> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let meminfo = read("/proc/meminfo")?;
    let machine = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let machine = number(machine.trim().trim_end_matches("kB"))? << 10;
    let container = || {
        let most = number(&read("/sys/fs/cgroup/memory.max")?)?;
        Some(most.saturating_sub(number(&read("/sys/fs/cgroup/memory.current")?)?))
    };
    let address_space = || {
        let limits = read("/proc/self/limits")?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
        let most = number(line.split_whitespace().next()?)?;
        let status = read("/proc/self/status")?;
        let used = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
        Some(most.saturating_sub(number(used.trim().trim_end_matches("kB"))? << 10))
    };
    Some(machine.min(container().unwrap_or(usize::MAX)).min(address_space().unwrap_or(usize::MAX)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_is_memory_left() {
        assert!(super::free_memory().is_none_or(|free| free > 0));
    }
}
