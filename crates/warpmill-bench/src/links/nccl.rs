//! NCCL for comparison, loaded at run time if it is installed. One thread drives all devices, so every call is part of a group. Multicast over
//! NVSwitch (NVLS) is disabled: a fault there affects all devices of a host.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use libloading::Library;
use warpmill_gpu::device::cuda::nvrtc;
use warpmill_gpu::device::{DevicePtr, Stream};

/// The file that is looked for.
const SONAME: &str = "libnccl.so.2";

/// `ncclUint8`, `ncclUint64`, `ncclSum`.
const UINT8: c_int = 1;
const UINT64: c_int = 5;
const SUM: c_int = 0;

/// The reason why NCCL was not measured.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NcclError {
    /// The library was not found.
    #[error("NCCL is not found ({SONAME}); tried: {}", .0.join("; "))]
    NotFound(Vec<String>),
    /// NVLS is not switched off.
    #[error("NCCL is not loaded: NCCL_NVLS_ENABLE=0 is not set in this process")]
    Multicast,
    /// A function failed.
    #[error("{call} failed: {detail}")]
    Call {
        /// The function.
        call: &'static str,
        /// NCCL's own words.
        detail: String,
    },
}

type Comm = *mut c_void;
type Sends = unsafe extern "C" fn(*const c_void, usize, c_int, c_int, Comm, *mut c_void) -> c_int;
type Receives = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, Comm, *mut c_void) -> c_int;
type Reduces = unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, *mut c_void) -> c_int;

/// The NCCL functions in use, by their C signatures. They return 0 or an error code.
struct Functions {
    version: unsafe extern "C" fn(*mut c_int) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    init_all: unsafe extern "C" fn(*mut Comm, c_int, *const c_int) -> c_int,
    destroy: unsafe extern "C" fn(Comm) -> c_int,
    group_start: unsafe extern "C" fn() -> c_int,
    group_end: unsafe extern "C" fn() -> c_int,
    send: Sends,
    receive: Receives,
    all_reduce: Reduces,
}

impl Functions {
    fn of(library: &Library) -> Result<Self, libloading::Error> {
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the member's type is the function's C signature.
                *unsafe { library.get($name)? }
            };
        }
        Ok(Self {
            version: symbol!(b"ncclGetVersion\0"),
            error_string: symbol!(b"ncclGetErrorString\0"),
            init_all: symbol!(b"ncclCommInitAll\0"),
            destroy: symbol!(b"ncclCommDestroy\0"),
            group_start: symbol!(b"ncclGroupStart\0"),
            group_end: symbol!(b"ncclGroupEnd\0"),
            send: symbol!(b"ncclSend\0"),
            receive: symbol!(b"ncclRecv\0"),
            all_reduce: symbol!(b"ncclAllReduce\0"),
        })
    }
}

/// A loaded NCCL. Never unloaded.
pub(super) struct Nccl(Functions);

impl Nccl {
    /// Loads the library at `chosen` (a file or its folder), otherwise from the usual places.
    pub(super) fn find(chosen: Option<&Path>) -> Result<Self, NcclError> {
        if std::env::var("NCCL_NVLS_ENABLE").as_deref() != Ok("0") {
            return Err(NcclError::Multicast);
        }
        let mut tried = vec![];
        for candidate in candidates(chosen) {
            // SAFETY: NCCL's initializers have no preconditions.
            let found = unsafe { Library::new(&candidate) };
            match found.and_then(|library| Functions::of(&library).map(|functions| (library, functions))) {
                Ok((library, functions)) => {
                    // The library's own threads may be running when the process ends.
                    std::mem::forget(library);
                    return Ok(Self(functions));
                }
                Err(error) => tried.push(format!("{} ({error})", candidate.display())),
            }
        }
        Err(NcclError::NotFound(tried))
    }

    /// Its version in NCCL's format: 23203 is 2.32.3.
    pub(super) fn version(&self) -> Result<i32, NcclError> {
        let mut version = 0;
        // SAFETY: valid pointer; needs no device.
        self.judge("ncclGetVersion", unsafe { (self.0.version)(&mut version) })?;
        Ok(version)
    }

    fn judge(&self, call: &'static str, code: c_int) -> Result<(), NcclError> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: returns a static string, or null, for every code.
        let text = unsafe {
            let text = (self.0.error_string)(code);
            if text.is_null() { "no text".into() } else { CStr::from_ptr(text).to_string_lossy() }
        };
        Err(NcclError::Call { call, detail: format!("code {code}: {text}") })
    }

    /// Communicators of the GPUs with numbers `ordinals`.
    pub(super) fn join(&self, ordinals: &[usize]) -> Result<Ranks<'_>, NcclError> {
        let mut comms = vec![std::ptr::null_mut(); ordinals.len()];
        let list: Vec<c_int> = ordinals.iter().map(|&ordinal| ordinal as c_int).collect();
        // SAFETY: passes as many communicators and numbers as it states.
        let joined = unsafe { (self.0.init_all)(comms.as_mut_ptr(), list.len() as c_int, list.as_ptr()) };
        self.judge("ncclCommInitAll", joined)?;
        Ok(Ranks { nccl: self, comms })
    }
}

/// The communicators of a process with all ranks.
pub(super) struct Ranks<'a> {
    nccl: &'a Nccl,
    comms: Vec<Comm>,
}

impl Drop for Ranks<'_> {
    fn drop(&mut self) {
        for &comm in &self.comms {
            // SAFETY: made by `join`; the streams were synchronized after the last call.
            let _ = unsafe { (self.nccl.0.destroy)(comm) };
        }
    }
}

impl Ranks<'_> {
    /// Runs calls in a group, which is ended whatever fails.
    fn group(&self, calls: impl FnOnce() -> Result<(), NcclError>) -> Result<(), NcclError> {
        // SAFETY: no preconditions.
        self.nccl.judge("ncclGroupStart", unsafe { (self.nccl.0.group_start)() })?;
        let called = calls();
        // SAFETY: a group was started.
        let ended = self.nccl.judge("ncclGroupEnd", unsafe { (self.nccl.0.group_end)() });
        called.and(ended)
    }

    /// Queues an exchange, as [`warpmill_gpu::device::exchange::Exchange::all_to_all`] does.
    ///
    /// # Safety
    /// As there; `streams` are of the devices that the communicators were made for, in their order.
    pub(super) unsafe fn all_to_all(
        &self,
        bytes: &[Vec<u64>],
        (send, receive): (&[DevicePtr], &[DevicePtr]),
        streams: &[Stream],
    ) -> Result<(), NcclError> {
        let ranks = self.comms.len();
        self.group(|| {
            for rank in 0..ranks {
                let (mut from, mut to) = (send[rank], receive[rank]);
                for (peer, (&out, row)) in bytes[rank].iter().zip(bytes).enumerate() {
                    let back = row[rank];
                    let (comm, stream) = (self.comms[rank], streams[rank].0 as *mut c_void);
                    let other = peer as c_int;
                    // SAFETY: the caller's contract.
                    let (sent, received) = unsafe {
                        (
                            (self.nccl.0.send)(from as *const c_void, out as usize, UINT8, other, comm, stream),
                            (self.nccl.0.receive)(to as *mut c_void, back as usize, UINT8, other, comm, stream),
                        )
                    };
                    self.nccl.judge("ncclSend", sent)?;
                    self.nccl.judge("ncclRecv", received)?;
                    from += out;
                    to += back;
                }
            }
            Ok(())
        })
    }

    /// Queues the sum of 64-bit words over all ranks, for `bytes` bytes.
    ///
    /// # Safety
    /// As [`Self::all_to_all`]; `bytes` bytes at each address.
    pub(super) unsafe fn all_reduce(
        &self,
        bytes: u64,
        (send, receive): (&[DevicePtr], &[DevicePtr]),
        streams: &[Stream],
    ) -> Result<(), NcclError> {
        self.group(|| {
            for (rank, &comm) in self.comms.iter().enumerate() {
                let (from, to) = (send[rank] as *const c_void, receive[rank] as *mut c_void);
                let (words, stream) = ((bytes / 8) as usize, streams[rank].0 as *mut c_void);
                // SAFETY: the caller's contract.
                let code = unsafe { (self.nccl.0.all_reduce)(from, to, words, UINT64, SUM, comm, stream) };
                self.nccl.judge("ncclAllReduce", code)?;
            }
            Ok(())
        })
    }
}

/// The files to try. Only `chosen`, if given, so that its failure is reported.
fn candidates(chosen: Option<&Path>) -> Vec<PathBuf> {
    if let Some(chosen) = chosen {
        return vec![if chosen.is_dir() { chosen.join(SONAME) } else { chosen.to_owned() }];
    }
    let mut found = vec![PathBuf::from(SONAME)];
    let python = std::env::var_os("WARPMILL_PYTHON_PATH").unwrap_or_default();
    found.extend(std::env::split_paths(&python).map(|site| site.join("nvidia/nccl/lib").join(SONAME)));
    // NVRTC's wheel is installed beside NCCL's: `nvidia/cu13/lib/libnvrtc.so.13`.
    let beside = nvrtc::available().ok().and_then(|nvrtc| nvrtc.path);
    let packages = beside.as_deref().and_then(|path| path.ancestors().nth(3));
    found.extend(packages.map(|packages| packages.join("nccl/lib").join(SONAME)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_absent_is_named() {
        let tried = candidates(Some(Path::new("/nowhere/libnccl.so.2")));
        assert_eq!(tried, [PathBuf::from("/nowhere/libnccl.so.2")]);
        match Nccl::find(Some(Path::new("/nowhere/libnccl.so.2"))) {
            Err(NcclError::NotFound(tried)) => assert!(tried[0].contains("/nowhere/libnccl.so.2"), "{tried:?}"),
            Err(NcclError::Multicast) => assert_ne!(std::env::var("NCCL_NVLS_ENABLE").as_deref(), Ok("0")),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("there is no such file"),
        }
    }
}
