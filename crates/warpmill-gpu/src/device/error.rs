//! Errors of devices.

/// The result of device calls.
pub type Result<T, E = DeviceError> = std::result::Result<T, E>;

/// The reason why a device cannot be used, or failed.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// There is no driver or no device.
    #[error("no GPU: {0}")]
    Absent(String),
    /// The driver is older than the engine needs.
    #[error("the GPU driver supports CUDA {found}, {needed} or later is needed: update the driver")]
    #[allow(missing_docs, reason = "fields are named in the message")]
    DriverTooOld { found: String, needed: String },
    /// Not enough device (or pinned host) memory.
    #[error("out of {what} memory: {requested} bytes asked for, {available} available")]
    #[allow(missing_docs, reason = "fields are named in the message")]
    OutOfMemory { what: &'static str, requested: u64, available: u64 },
    /// No compiler (NVRTC, or the host's C++ compiler for the simulated device).
    #[error("no kernel compiler: {0}")]
    NoCompiler(String),
    /// A kernel does not compile: a defect of the code generator.
    #[error("kernel does not compile: {log}")]
    #[allow(missing_docs, reason = "fields are named in the message")]
    Compile { log: String },
    /// The device failed while it ran `what` and can no longer be used.
    #[error("the device was lost in {what}: {detail}")]
    #[allow(missing_docs, reason = "fields are named in the message")]
    Lost { what: String, detail: String },
    /// A call failed.
    #[error("{call} failed: {detail}")]
    #[allow(missing_docs, reason = "fields are named in the message")]
    Call { call: &'static str, detail: String },
    /// The simulated device found a defect in a kernel (divergent barrier, deadlock, use of uninitialized shared memory).
    #[error("defect in kernel {kernel}: {detail}")]
    #[allow(missing_docs, reason = "fields are named in the message")]
    KernelDefect { kernel: String, detail: String },
}
