//! The refusals of a device, with reasons.

use super::data::{Nulls, table};
use super::session;
use crate::device;

#[test]
fn the_list_is_complete_and_true() {
    let session = session(vec![("t", table(41, 2500, 1500, Nulls::Some))]);
    session.set("warpmill.device", &device()).unwrap();
    for (sql, reason) in [
        ("SELECT regexp_like(name, '[0-9]$') FROM t", "regular expression"),
        ("SELECT regexp_replace(name || code, 'kind', 'k') FROM t", "regular expression"),
    ] {
        match session.execute(sql, &[]) {
            Ok(_) => panic!("{sql} runs on the device: strike it off the list, and out of docs/device.md"),
            Err(error) => assert!(error.to_string().contains(reason), "{sql}: {error}"),
        }
    }
}
