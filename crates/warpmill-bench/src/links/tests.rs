//! All steps on simulated devices, small: received data are right, and steps that cannot be measured give a reason.

use std::sync::Arc;

use warpmill_gpu::device::Device;
use warpmill_gpu::device::sim::{SimDevice, SimOptions, SimPeers};

use super::steps::counts;
use super::{LinkOptions, LinkReport, run};

fn measure(peers: &[SimPeers], options: &LinkOptions) -> LinkReport {
    let device = |(ordinal, &peers)| {
        let options = SimOptions { ordinal, peers, memory_bytes: 16 << 20, ..SimOptions::default() };
        Arc::new(SimDevice::new(options).expect("a C++ compiler")) as Arc<dyn Device>
    };
    run(&peers.iter().enumerate().map(device).collect::<Vec<_>>(), options).unwrap()
}

#[test]
fn what_arrives_is_checked_and_kept() {
    let folder = std::env::temp_dir().join(format!("links-{}.json", std::process::id()));
    let report = measure(&[SimPeers::Reachable; 3], &LinkOptions { out: Some(folder.clone()), ..LinkOptions::small() });
    let wrong: Vec<_> = report.figures.iter().filter(|figure| figure.verified != Some(true)).collect();
    assert!(wrong.is_empty() && report.complete, "{wrong:?}");
    // Two exchanges of two and of three; of 6 pairs three means and two sizes, both directions of 3 of them; reads.
    assert_eq!(report.figures.len(), 4 + 6 * 3 * 2 + 3 * 3 * 2 + 6);
    assert!(report.nccl.contains("no NCCL"), "{}", report.nccl);
    let kept: serde_json::Value = serde_json::from_slice(&std::fs::read(&folder).unwrap()).unwrap();
    std::fs::remove_file(&folder).unwrap();
    assert_eq!(kept["figures"].as_array().unwrap().len(), report.figures.len());
    assert_eq!((&kept["complete"], kept["links"].as_array().unwrap().len()), (&serde_json::json!(true), 6));
}

#[test]
fn steps_without_access_say_so_and_others_go_on() {
    let report = measure(&[SimPeers::Reachable, SimPeers::Unreachable], &LinkOptions::small());
    let failed: Vec<_> = report.figures.iter().filter(|figure| figure.error.is_some()).collect();
    assert!(!failed.is_empty() && failed.len() < report.figures.len());
    assert!(failed.iter().all(|figure| figure.error.as_ref().unwrap().contains("no access")), "{failed:?}");
    // Exchanges go through the host then.
    let exchanged = |figure: &&super::Figure| figure.what == "all to all" && figure.verified == Some(true);
    assert_eq!(report.figures.iter().filter(exchanged).count(), 2);
    assert!(report.all_verified() && report.failures() == failed.len());
}

#[test]
fn devices_without_room_leave_a_reason() {
    let out = std::env::temp_dir().join(format!("links-room-{}.json", std::process::id()));
    let device = |ordinal| {
        let options = SimOptions { ordinal, memory_bytes: 4 << 20, ..SimOptions::default() };
        Arc::new(SimDevice::new(options).expect("a C++ compiler")) as Arc<dyn Device>
    };
    let devices: Vec<_> = (0..2).map(device).collect();
    let options = LinkOptions { out: Some(out.clone()), table: 8 << 20, ..LinkOptions::small() };
    assert!(run(&devices, &options).is_err());
    let kept: serde_json::Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    std::fs::remove_file(&out).unwrap();
    assert_eq!((&kept["figures"][0]["what"], &kept["links"][0]["link"]), (&"prepare".into(), &"direct".into()));
    // The failed step has freed all memory.
    devices.iter().for_each(|device| assert_eq!(device.free_memory().unwrap(), 4 << 20));
}

#[test]
fn shares_are_even_or_fall() {
    assert_eq!(counts(2, 64, false), [[32, 32], [32, 32]]);
    let skewed = counts(4, 1 << 20, true);
    assert!(skewed[0].windows(2).all(|pair| pair[0] > pair[1]) && skewed[0].iter().sum::<u64>() <= 1 << 20);
}
