use super::pinned::available_host_memory;
use super::*;

#[test]
fn a_machine_without_a_gpu_says_so() {
    match CudaDevice::count() {
        Ok(count) => {
            assert!(matches!(CudaDevice::open(count), Err(DeviceError::Absent(_))));
            let device = CudaDevice::open(0).unwrap();
            assert_eq!(device.properties().kind, DeviceKind::Cuda);
            assert!(device.free_memory().unwrap() <= device.properties().memory_bytes);
        }
        Err(DeviceError::Absent(reason)) => {
            assert!(!reason.is_empty());
            assert!(matches!(CudaDevice::open(0), Err(DeviceError::Absent(other)) if other == reason));
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn available_host_memory_is_known_on_linux() {
    assert!(available_host_memory().is_none_or(|bytes| bytes > 1 << 20));
}
