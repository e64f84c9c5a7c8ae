//! Tests of settings and their texts.

use super::*;

#[test]
fn every_entry_sets_to_its_own_value() {
    let mut options = WarpmillOptions::default();
    options.set("memory_limit", "1.5GB").unwrap();
    assert_eq!(options.memory_limit, 3 << 29);
    for entry in options.entries() {
        let key = entry.key.strip_prefix("warpmill.").unwrap();
        options.set(key, entry.value.as_deref().unwrap()).unwrap();
    }
    assert_eq!(options.memory_limit, 3 << 29);
}

#[test]
fn bad_values_name_the_setting() {
    let mut options = WarpmillOptions::default();
    let cases = [
        ("fallback", "perhaps"),
        ("profile", "2"),
        ("progress", "some"),
        ("device_data", "tape"),
        ("io_bandwidth_limit", "slow"),
        ("pinned_memory_limit", "some"),
        ("device_partitions", "many"),
        ("device_join", "loops"),
        ("device_pipelines", "17"),
        ("device_batch", "2GB"),
        ("device_overlap", "some"),
        ("device_exchange", "some"),
        ("device_replication", "some"),
        ("threads", "-1"),
        ("spill", "perhaps"),
        ("file_access", "tape"),
        ("temp_directory_limit", "much"),
        ("chunk_rows", "3"),
        ("segment_rows", "1000"),
        ("codec", "rar"),
        ("codec_block", "5000"),
        ("codec_sample", "0"),
        ("zone_rows", "1000"),
        ("pruning", "some"),
        ("pruning_metadata", "some"),
        ("workers", "here"),
        ("workers_timeout", "soon"),
        ("nope", "1"),
    ];
    for (key, value) in cases {
        let message = options.set(key, value).unwrap_err().to_string();
        assert!(message.contains(&format!("warpmill.{key}")), "{message}");
    }
    assert_eq!(parse_bytes("2TB"), Some(2 << 40));
    assert_eq!(parse_bytes("12 parsecs"), None);
}
