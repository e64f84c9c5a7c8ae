//! The identity of a machine: a profile measured on another machine is not used.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// The hardware that rates depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name; empty if the system does not report it.
    pub cpu: String,
    /// Number of threads that the process may run in parallel.
    pub threads: usize,
}

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let threads = cores();
        Self { cpu: name.map_or(String::new(), |(_, name)| name.trim().to_string()), threads }
    }
}

/// Number of threads that the process may run in parallel, as of the first call: the system reads several files to tell it.
pub fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
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
