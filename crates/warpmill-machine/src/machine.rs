//! The identity of a machine: rates that were measured on another one are not used.

use serde::{Deserialize, Serialize};

/// The hardware that rates depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name; empty where the system does not tell.
    pub cpu: String,
    /// Threads that the process may run at a time.
    pub threads: usize,
}

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { cpu: name.map_or(String::new(), |(_, name)| name.trim().to_string()), threads }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_itself() {
        assert_eq!(Machine::here(), Machine::here());
        assert!(Machine::here().threads > 0);
    }
}
