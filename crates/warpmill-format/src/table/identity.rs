//! The identity of a table, which distinguishes tables that have had the same name.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number that no other table has: kept by appends, new when a table is made or all its rows are replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Identity(u128);

impl Identity {
    /// A new, unique identity.
    pub(crate) fn new() -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let count = MADE.fetch_add(1, Ordering::Relaxed);
        let half = || {
            // Its keys are random, but a forked process has the same as its parent.
            let mut hasher = RandomState::new().build_hasher();
            hasher.write_u128(nanos);
            hasher.write_u32(std::process::id());
            hasher.write_u64(count);
            u128::from(hasher.finish())
        };
        Self(half() << 64 | half())
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Serialize for Identity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

impl<'de> Deserialize<'de> for Identity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(Self).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::Identity;

    #[test]
    fn no_two_are_the_same() {
        let made: Vec<Identity> = (0..1000).map(|_| Identity::new()).collect();
        assert!(made.iter().enumerate().all(|(at, own)| !made[..at].contains(own)));
        let text = serde_json::to_string(&made[0]).unwrap();
        assert_eq!(serde_json::from_str::<Identity>(&text).unwrap(), made[0]);
    }
}
