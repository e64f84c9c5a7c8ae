//! Searches of `asof.cuh`, compared with searches on the host.

use std::sync::Arc;

use crate::device::kernel::{Kernel, ParamBytes};
use crate::device::sim::{SimDevice, SimOptions};
use crate::device::{Device, DevicePtr, Stream};
use crate::kernels::library::Library;

const CHECK: &str = r#"
struct Check {
    const u32* narrow;
    const u64* wide;
    const u64* values;
    u32* out;               // [values][4]
    Run* runs;              // [rows]
    u32 rows;
    u32 count;
};

extern "C" __global__ void search(Check p) {
    const u32 stride = gridDim.x * blockDim.x;
    for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < p.count; at += stride) {
        const u64 value = p.values[at];
        p.out[4 * at] = times_before<false, u32>(p.narrow, p.rows, (u32)value);
        p.out[4 * at + 1] = times_before<true, u32>(p.narrow, p.rows, (u32)value);
        p.out[4 * at + 2] = times_before<false, u64>(p.wide, p.rows, value);
        p.out[4 * at + 3] = times_before<true, u64>(p.wide, p.rows, value);
    }
    for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < p.rows; at += stride) {
        mark_run(p.runs, at, p.rows, [&](u64 position) { return p.narrow[position] % 1024; });
    }
}
"#;

struct Fixture {
    device: Arc<dyn Device>,
    stream: Stream,
    kernel: Kernel,
}

impl Fixture {
    fn new() -> Self {
        let sanitize = std::env::var_os("WARPMILL_SIM_SANITIZE").is_some();
        let options = SimOptions { sanitize, ..SimOptions::default() };
        let device: Arc<dyn Device> = Arc::new(SimDevice::new(options).expect("a C++ compiler"));
        let stream = device.stream().unwrap();
        let parts = [Library::Value, Library::Lane, Library::Table, Library::Aggregate, Library::Asof];
        let text = parts.map(Library::text).into_iter().chain([CHECK]).collect::<Vec<_>>().join("\n");
        let [kernel] = Kernel::compile(&device, text, [("search", 256, 0)]).unwrap();
        Self { device, stream, kernel }
    }

    fn upload<const N: usize>(&self, values: impl IntoIterator<Item = [u8; N]>) -> DevicePtr {
        let bytes = values.into_iter().flatten().collect::<Vec<u8>>();
        let at = self.device.allocate((bytes.len() as u64).max(16)).unwrap();
        // SAFETY: just allocated, at least as long.
        unsafe { self.device.copy_to_device(at, &bytes, self.stream).unwrap() };
        at
    }

    fn download(&self, from: DevicePtr, count: usize) -> Vec<u32> {
        let mut bytes = vec![0; 4 * count];
        // SAFETY: what was uploaded there is as long.
        unsafe { self.device.copy_to_host(&mut bytes, from, self.stream).unwrap() };
        self.device.synchronize(self.stream).unwrap();
        bytes.as_chunks().0.iter().copied().map(u32::from_le_bytes).collect()
    }

    /// Searches `values` among `times`, as 64-bit numbers, and as 32-bit numbers, to which times are clamped.
    fn check(&self, times: &[u64], values: &[u64]) {
        let narrow: Vec<u32> = times.iter().map(|&time| time.min(u32::MAX.into()) as u32).collect();
        let places = [
            self.upload(narrow.iter().map(|time| time.to_le_bytes())),
            self.upload(times.iter().map(|time| time.to_le_bytes())),
            self.upload(values.iter().map(|value| value.to_le_bytes())),
            self.upload(vec![[0u8; 16]; values.len()]),
            self.upload(vec![[0u8; 8]; times.len().max(1024)]),
        ];
        let params = places.into_iter().fold(ParamBytes::new(), ParamBytes::u64);
        let params = params.u32(times.len() as u32).u32(values.len() as u32);
        // SAFETY: all arrays are as long as the kernel takes them to be.
        unsafe { self.kernel.launch(2, params, self.stream).unwrap() };
        let found = self.download(places[3], 4 * values.len());
        for (value, found) in values.iter().zip(found.as_chunks::<4>().0) {
            let wanted = [
                narrow.partition_point(|&time| time < *value as u32),
                narrow.partition_point(|&time| time <= *value as u32),
                times.partition_point(|time| time < value),
                times.partition_point(|time| time <= value),
            ];
            assert_eq!(found.map(|place| place as usize), wanted, "{value} among {} times", times.len());
        }
        let runs = self.download(places[4], 2048);
        let keys: Vec<u32> = narrow.iter().map(|time| time % 1024).collect();
        // Keys that occur again have two runs; parts of either may be recorded.
        for (key, run) in runs.as_chunks::<2>().0.iter().enumerate() {
            let is_own = |at: &usize| keys[*at] as usize == key;
            let heads = (0..keys.len()).filter(is_own).filter(|&at| at == 0 || keys[at - 1] as usize != key);
            let starts: Vec<usize> = heads.collect();
            assert!(if starts.is_empty() { *run == [0, 0] } else { starts.contains(&(run[0] as usize)) });
        }
    }
}

fn draw(at: usize) -> u64 {
    let x = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ x >> 31
}

#[test]
fn places_agree_with_those_of_the_host() {
    let fixture = Fixture::new();
    for rows in [0usize, 1, 2, 15, 16, 17, 63, 64, 65, 300, 4097, 20_000] {
        // Evenly spread times, times that crowd at either end, few distinct ones, and extremes.
        let spreads: [&dyn Fn(usize) -> u64; 5] = [
            &|at| draw(at) % (10 * rows as u64 + 1),
            &|at| (((at + 1) as f64 / (rows + 1) as f64).powi(9) * 4e9) as u64,
            &|at| 4_000_000_000 - (((at + 1) as f64 / (rows + 1) as f64).powi(7) * 4e9) as u64,
            &|at| draw(at) % 7,
            &|at| [0, u64::MAX, u64::MAX - 1, 1, u32::MAX.into(), draw(at)][at % 6],
        ];
        for spread in spreads {
            let mut times: Vec<u64> = (0..rows).map(spread).collect();
            times.sort_unstable();
            let near = times.iter().step_by(rows / 40 + 1).flat_map(|&time| [time, time.wrapping_add(1), time / 2]);
            let values: Vec<u64> = near.chain([0, 1, u64::MAX, u32::MAX.into()]).chain((0..20).map(draw)).collect();
            fixture.check(&times, &values);
        }
    }
    fixture.device.destroy_stream(fixture.stream);
}
