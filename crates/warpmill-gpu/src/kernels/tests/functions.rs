//! Translated functions of the host's language: a thread, a warp and a block per group on the simulated device give the results of the host's machine
//! code (and NVRTC compiles the texts, like those of all kernel tests). `tests/python/udf/test_compiled.py` writes the texts.

use std::ffi::c_void;
use std::sync::Arc;

use crate::device::kernel::{Kernel, ParamBytes};
use crate::device::sim::{HostLaunch, SimDevice, SimOptions, host_function};
use crate::device::{Device, DevicePtr, Stream};
use crate::kernels::functions::{ENTRIES, HOST_ENTRY, on_device, on_host};

const COMPOUNDED: &str = include_str!("udf/compounded.cuh");
const CENTRED: &str = include_str!("udf/centred.cuh");

/// Groups of rows, of all sizes that matter to warps and blocks, including empty ones.
struct Groups {
    offsets: Vec<i64>,
    x: Vec<f64>,
    y: Vec<i64>,
    present: [Vec<u8>; 2],
}

/// Results: bits, validity, statuses.
type Made = (Vec<u64>, Vec<u8>, Vec<i32>);

impl Groups {
    fn new() -> Self {
        let mut offsets = vec![0];
        for rows in [1, 0, 2, 31, 32, 33, 500, 3, 0, 64, 1025] {
            offsets.push(offsets.last().unwrap() + rows);
        }
        let rows = *offsets.last().unwrap() as u64;
        let draw = |row: u64, seed: u64| (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ seed << 32) >> 40;
        // Multiples of 1/4, so that sums do not depend on their order.
        let x = (0..rows).map(|row| if draw(row, 1) % 19 == 0 { f64::NAN } else { (draw(row, 2) % 64) as f64 / 4.0 });
        let y = (0..rows).map(|row| (draw(row, 3) % 1000) as i64 - 500);
        let present = [4, 5].map(|seed| (0..rows).map(|row| u8::from(draw(row, seed) % 11 != 0)).collect());
        Self { offsets, x: x.collect(), y: y.collect(), present }
    }

    fn count(&self) -> usize {
        self.offsets.len() - 1
    }

    fn on_host(&self, text: &str) -> Made {
        let function = host_function(&on_host(text), HOST_ENTRY).unwrap();
        let groups = self.count();
        let (mut results, mut known, mut status) = (vec![0u64; groups], vec![0u8; groups], vec![0i32; groups]);
        let values: [*const c_void; 2] = [self.x.as_ptr().cast(), self.y.as_ptr().cast()];
        let present = [self.present[0].as_ptr(), self.present[1].as_ptr()];
        let launch = HostLaunch {
            values: values.as_ptr(),
            present: present.as_ptr(),
            offsets: self.offsets.as_ptr(),
            whole: std::ptr::null(),
            floats: std::ptr::null(),
            results: results.as_mut_ptr().cast(),
            known: known.as_mut_ptr(),
            status: status.as_mut_ptr(),
            cancelled: std::ptr::null(),
            groups: groups as i64,
        };
        // SAFETY: two columns of the types of the texts, no constants, room for all groups.
        unsafe { function.run(&launch, 0, groups as i64) };
        (results, known, status)
    }

    /// Runs each entry point.
    fn on_device(&self, text: &str, reverse: bool) -> [Made; 3] {
        let device: Arc<dyn Device> =
            Arc::new(SimDevice::new(SimOptions { reverse, ..SimOptions::default() }).unwrap());
        let stream = device.stream().unwrap();
        let kernels = Kernel::compile(&device, on_device(text).text, ENTRIES.map(|name| (name, 64, 0))).unwrap();
        let words = |words: &[u64]| {
            upload(&*device, stream, &words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())
        };
        let x = words(&self.x.iter().map(|value| value.to_bits()).collect::<Vec<_>>());
        let y = words(&self.y.iter().map(|value| value.cast_unsigned()).collect::<Vec<_>>());
        let present = [0, 1].map(|at| upload(&*device, stream, &self.present[at]));
        let offsets = words(&self.offsets.iter().map(|value| value.cast_unsigned()).collect::<Vec<_>>());
        let groups = self.count();
        let blocks = [1, groups.div_ceil(2), groups];
        let mut at = 0;
        let made = kernels.map(|kernel| {
            let out = [8, 1, 4].map(|bytes| upload(&*device, stream, &vec![0; bytes * groups]));
            let launch = [words(&[x, y]), words(&present), offsets, 0, 0, out[0], out[1], out[2], 0, groups as u64];
            let params = launch.into_iter().fold(ParamBytes::new(), ParamBytes::u64);
            // SAFETY: the launch points to what was just uploaded, with room for all groups.
            unsafe { kernel.launch(blocks[at] as u64, params, stream) }.unwrap();
            at += 1;
            let [results, known, status] =
                [0, 1, 2].map(|at| download(&*device, stream, out[at], [8, 1, 4][at] * groups));
            let results = results.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
            let status = status.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect();
            (results, known, status)
        });
        device.destroy_stream(stream);
        made
    }
}

fn upload(device: &dyn Device, stream: Stream, bytes: &[u8]) -> DevicePtr {
    let at = device.allocate((bytes.len() as u64).max(16)).unwrap();
    // SAFETY: just allocated, at least as long.
    unsafe { device.copy_to_device(at, bytes, stream).unwrap() };
    at
}

fn download(device: &dyn Device, stream: Stream, from: DevicePtr, bytes: usize) -> Vec<u8> {
    let mut found = vec![0; bytes];
    // SAFETY: what was uploaded there is as long.
    unsafe { device.copy_to_host(&mut found, from, stream).unwrap() };
    device.synchronize(stream).unwrap();
    found
}

#[test]
fn threads_warps_and_blocks_give_the_hosts_results() {
    let groups = Groups::new();
    for (name, text) in [("compounded", COMPOUNDED), ("centred", CENTRED)] {
        let (results, known, status) = groups.on_host(text);
        assert!(known.iter().any(|known| *known != 0), "{name}");
        for reverse in [false, true] {
            for (entry, made) in ENTRIES.iter().zip(groups.on_device(text, reverse)) {
                assert_eq!((&made.1, &made.2), (&known, &status), "{name}, {entry}");
                for group in (0..groups.count()).filter(|group| known[*group] != 0 && status[*group] == 0) {
                    let (one, other) = (f64::from_bits(made.0[group]), f64::from_bits(results[group]));
                    let close = (one - other).abs() <= 1e-12 * other.abs();
                    assert!(close, "{name}, {entry}, group {group}: {one} instead of {other}");
                }
            }
        }
    }
}
