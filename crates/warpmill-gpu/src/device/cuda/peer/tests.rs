//! Exchanges through driver calls, with a fake driver whose device memory is main memory.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::device::cuda::CudaDevice;
use crate::device::exchange::{Exchange, Place};
use crate::device::group::{DeviceGroup, Link};
use crate::device::{Device, Stream};

const INNER: &str = "device::cuda::peer::tests::with_that_driver";

/// Compiles the fake driver into `folder`.
fn compile(folder: &Path) {
    let source = folder.join("driver.cpp");
    std::fs::write(&source, include_str!("driver.cpp")).unwrap();
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let library = folder.join("libcuda.so.1");
    let mut made = Command::new(compiler);
    made.args(["-std=c++17", "-O1", "-shared", "-fPIC", "-o"]).args([&library, &source]);
    let made = made.output().expect("there is a C++ compiler");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    std::fs::copy(&library, folder.join("libcuda.so")).unwrap();
}

#[test]
fn links_are_those_that_carry_data() {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path());
    for mode in ["direct", "lossy", "none"] {
        let mut inner = Command::new(std::env::current_exe().unwrap());
        inner.args(["--exact", INNER, "--nocapture"]);
        let inner = inner.env("FAKE_DRIVER", mode).env("LD_LIBRARY_PATH", folder.path()).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&inner.stdout), String::from_utf8_lossy(&inner.stderr));
        assert!(inner.status.success() && said.contains("exchanged"), "{mode}: {said}");
    }
}

/// The test within a process that has the fake driver; does nothing elsewhere.
#[test]
fn with_that_driver() {
    let Ok(mode) = std::env::var("FAKE_DRIVER") else { return };
    assert_eq!(CudaDevice::count().unwrap(), 2);
    // The last one is a logical device on the first.
    let devices: Vec<Arc<dyn Device>> =
        [0, 1, 0].map(|ordinal| CudaDevice::open(ordinal).unwrap() as Arc<dyn Device>).to_vec();
    let group = DeviceGroup::new(devices.clone()).without_kernels();
    // Enabling access again is no error.
    DeviceGroup::new(devices.clone());
    assert_eq!((group.link(0, 2), group.link(2, 0)), (&Link::Own, &Link::Own));
    for (source, destination) in [(0, 1), (1, 0), (1, 2), (2, 1)] {
        match (mode.as_str(), group.link(source, destination)) {
            ("direct", Link::Direct) => {}
            ("lossy", Link::Staged(reason)) => assert!(reason.contains("has not arrived"), "{reason}"),
            ("none", Link::Staged(reason)) => assert!(reason.contains("no peer access"), "{reason}"),
            (mode, link) => panic!("{mode}: {link:?}"),
        }
    }
    let streams: Vec<Stream> = devices.iter().map(|device| device.stream().unwrap()).collect();
    let bytes = vec![vec![3, 5, 0], vec![1_100_000, 2, 7], vec![0, 9, 5_000_000]];
    exchange(&devices, &group, &streams, &bytes);
    println!("exchanged");
}

fn exchange(devices: &[Arc<dyn Device>], group: &DeviceGroup, streams: &[Stream], bytes: &[Vec<u64>]) {
    let sent = |source: usize| -> Vec<u8> {
        let bytes = bytes[source].iter().sum::<u64>();
        (0..bytes).map(|index| (index * 7 + source as u64 * 13) as u8).collect()
    };
    let room = |device: usize, bytes: u64| devices[device].allocate(bytes.max(1)).unwrap();
    let send: Vec<u64> = (0..3).map(|source| room(source, bytes[source].iter().sum())).collect();
    let receive: Vec<u64> = (0..3).map(|to| room(to, bytes.iter().map(|row| row[to]).sum())).collect();
    let get = |device: usize, at: u64, bytes: usize| {
        let mut found = vec![0; bytes];
        // SAFETY: allocated above.
        unsafe { devices[device].copy_to_host(&mut found, at, streams[device]) }.unwrap();
        devices[device].synchronize(streams[device]).unwrap();
        found
    };
    // SAFETY: allocated above, with the sums of rows and columns.
    unsafe {
        for source in 0..3 {
            devices[source].copy_to_device(send[source], &sent(source), streams[source]).unwrap();
        }
        group.all_to_all(bytes, (&send, &receive), streams).unwrap();
    }
    for to in 0..3 {
        let part = |source: usize| {
            let begin = bytes[source][..to].iter().sum::<u64>() as usize;
            sent(source)[begin..begin + bytes[source][to] as usize].to_vec()
        };
        let expected: Vec<u8> = (0..3).flat_map(part).collect();
        assert!(get(to, receive[to], expected.len()) == expected, "device {to}");
    }
    let whole = bytes[1].iter().sum::<u64>();
    let to: Vec<Place> = [0, 2].iter().map(|&device| Place { device, at: room(device, whole) }).collect();
    // SAFETY: allocated above.
    unsafe { group.broadcast(Place { device: 1, at: send[1] }, whole, &to, streams) }.unwrap();
    to.iter().for_each(|place| assert!(get(place.device, place.at, whole as usize) == sent(1)));
    let traffic = group.traffic();
    assert_eq!(traffic.rows()[1], [1_100_000 + whole, 0, 7 + whole]);
    assert_eq!((traffic.rows()[0][1], traffic.rows()[2][1]), (5, 9));
}
