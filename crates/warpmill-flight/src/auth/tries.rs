//! Recent failed log-ins, and the refusal of further ones after too many.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tonic::Status;

/// Time for which failures count, from the first one on.
const WINDOW: Duration = Duration::from_secs(60);
/// Number of failures of one name from one address after which further attempts are refused.
const OF_USER: u32 = 10;
/// Number of failures of all names from one address after which further attempts are refused.
const OF_ADDRESS: u32 = 100;

/// Key of the counters: an address, or an address and a name.
type Key = (IpAddr, Option<Box<str>>);

/// The failures.
#[derive(Debug, Default)]
pub(super) struct Tries(Mutex<HashMap<Key, Failures>>);

#[derive(Debug)]
struct Failures {
    since: Instant,
    count: u32,
}

fn keys(name: &str, address: Option<IpAddr>) -> [(Key, u32); 2] {
    let address = match address {
        // A client that has one IPv6 address usually controls the whole /64 network.
        Some(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_none() => {
            IpAddr::V6(Ipv6Addr::from(u128::from(v6) & !u128::from(u64::MAX)))
        }
        Some(address) => address.to_canonical(),
        None => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    [((address, Some(name.into())), OF_USER), ((address, None), OF_ADDRESS)]
}

impl Tries {
    /// Refuses a log-in after too many that failed.
    pub(super) fn check(&self, name: &str, address: Option<IpAddr>) -> Result<(), Status> {
        let failures = self.0.lock();
        for (key, most) in keys(name, address) {
            let Some(found) = failures.get(&key) else { continue };
            let age = found.since.elapsed();
            if found.count >= most && age < WINDOW {
                let rest = (WINDOW - age).as_secs() + 1;
                let text = format!("too many log-ins have failed: try again in {rest} seconds");
                return Err(Status::resource_exhausted(text));
            }
        }
        Ok(())
    }

    /// Counts a failed log-in.
    pub(super) fn failed(&self, name: &str, address: Option<IpAddr>) {
        let now = Instant::now();
        let mut failures = self.0.lock();
        for (key, _) in keys(name, address) {
            let found = failures.entry(key).or_insert(Failures { since: now, count: 0 });
            if found.since.elapsed() >= WINDOW {
                *found = Failures { since: now, count: 0 };
            }
            found.count += 1;
        }
    }

    /// Removes expired counters.
    pub(super) fn sweep(&self) {
        self.0.lock().retain(|_, found| found.since.elapsed() < WINDOW);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count_by_name_and_address() {
        let tries = Tries::default();
        let at = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        (0..OF_USER).for_each(|_| tries.failed("ada", at("10.0.0.1")));
        assert!(tries.check("ada", at("10.0.0.1")).is_err());
        assert!(tries.check("ada", at("::ffff:10.0.0.1")).is_err());
        assert!(tries.check("eve", at("10.0.0.1")).is_ok() && tries.check("ada", at("10.0.0.2")).is_ok());
        (0..OF_ADDRESS).for_each(|i| tries.failed(&format!("u{i}"), at(&format!("2001:db8::{i:x}"))));
        assert!(tries.check("ada", at("2001:db8::ffff")).is_err() && tries.check("ada", at("2001:db9::1")).is_ok());
        tries.sweep();
        assert!(tries.check("ada", at("10.0.0.1")).is_err());
    }
}
