//! Measurements for the hardware profile: reading files, copying memory, decompressing.

use std::fs::File;
use std::io;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use warpmill_machine::{CodecRates, Curve};

use crate::codec::{self, BLOCK_BYTES, Codec, CodecConfig};

/// Bytes of the file that is read.
const FILE_BYTES: usize = 256 << 20;

/// Sizes of the reads; the file has several of each.
const READS: [usize; 5] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];

/// Bytes that are read in each size.
const READ_BYTES: usize = 64 << 20;

/// Number of reading threads: drives and stores serve several requests at a time.
const READERS: usize = 4;

/// Pseudo-random words, which drives cannot compress.
fn noise(bytes: usize, mut state: u64) -> Vec<u8> {
    let mut words = Vec::with_capacity(bytes + 8);
    while words.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        words.extend_from_slice(&state.to_le_bytes());
    }
    words.truncate(bytes);
    words
}

/// Measures reads of files in `folder` that bypass the system's cache, by read size; `None` if the system keeps the file in memory anyway (a file
/// system in memory), or does not tell.
///
/// # Errors
/// File system errors: a folder that cannot be written to, a full drive.
pub fn storage(folder: &Path) -> io::Result<Option<Curve>> {
    let mut file = tempfile::tempfile_in(folder)?;
    for part in 0..FILE_BYTES >> 24 {
        file.write_all(&noise(1 << 24, 0x9e37_79b9 + part as u64))?;
    }
    file.sync_all()?;
    let mut transfers = vec![];
    for size in READS {
        if !forget(&file)? {
            return Ok(None);
        }
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..READERS)
                .map(|reader| {
                    scope.spawn({
                        let file = &file;
                        move || read(file, size, reader)
                    })
                })
                .collect();
            readers
                .into_iter()
                .try_for_each(|reader| reader.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())))
        })?;
        let reads = (READ_BYTES / size) as f64;
        transfers.push((size as f64, begun.elapsed().as_secs_f64() / reads));
    }
    Ok(Curve::fit(&transfers))
}

/// Reads the parts of the file assigned to `reader`, spread over all of it.
fn read(file: &File, size: usize, reader: usize) -> io::Result<()> {
    let mut buffer = vec![0; size];
    let reads = READ_BYTES / size;
    for read in (reader..reads).step_by(READERS) {
        // Consecutive reads are far apart, so that the system does not read ahead.
        let place = (read * (FILE_BYTES / reads)) / size * size;
        file.read_exact_at(&mut buffer, place as u64)?;
    }
    Ok(())
}

/// Drops a file from the system's cache. Returns whether that succeeded.
#[cfg(not(target_os = "linux"))]
fn forget(_: &File) -> io::Result<bool> {
    Ok(false)
}

/// Drops a file from the system's cache. Returns whether that succeeded.
#[cfg(target_os = "linux")]
fn forget(file: &File) -> io::Result<bool> {
    let fd = std::os::fd::AsRawFd::as_raw_fd(file);
    // SAFETY: the descriptor is open; no memory is passed.
    let failed = unsafe { libc::posix_fadvise(fd, 0, 0, libc::POSIX_FADV_DONTNEED) };
    // SAFETY: as above.
    let random = unsafe { libc::posix_fadvise(fd, 0, 0, libc::POSIX_FADV_RANDOM) };
    if failed != 0 || random != 0 {
        return Ok(false);
    }
    // SAFETY: the file has no name and no other process has it: nobody changes its size while it is mapped.
    let map = unsafe { memmap2::Mmap::map(file)? };
    let pages = map.len().div_ceil(4096);
    let mut resident = vec![0u8; pages];
    // SAFETY: the map lives; there is a byte for each of its pages, which are 4096 bytes or larger.
    let told = unsafe { libc::mincore(map.as_ptr() as *mut _, map.len(), resident.as_mut_ptr().cast()) };
    Ok(told == 0 && resident.iter().filter(|page| **page & 1 == 1).count() < pages / 8)
}

/// Smallest duration of a measurement.
const LONG: Duration = Duration::from_millis(100);

/// Bytes per second that `threads` threads together copy from memory to memory.
pub fn copying(threads: usize) -> f64 {
    const BYTES: usize = 32 << 20;
    let copied = |_: usize| {
        let (from, mut to) = (vec![1u8; BYTES], vec![0u8; BYTES]);
        let (begun, mut times) = (Instant::now(), 0);
        while times == 0 || begun.elapsed() < LONG {
            to.copy_from_slice(std::hint::black_box(&from));
            std::hint::black_box(&mut to);
            times += 1;
        }
        (BYTES * times) as f64 / begun.elapsed().as_secs_f64()
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads.max(1)).map(|thread| scope.spawn(move || copied(thread))).collect();
        all.into_iter().filter_map(|thread| thread.join().ok()).sum()
    })
}

/// Decompressed bytes per second of one thread, by codec, for a column of small numbers in blocks of 64 KiB.
///
/// # Errors
/// [`crate::FormatError::Codec`] for a codec that fails.
pub fn codecs() -> crate::Result<CodecRates> {
    // Prices with some repetition, which compress to about half.
    let random = noise(64 << BLOCK_BYTES.ilog2(), 7);
    let column: Vec<u8> =
        random.chunks_exact(8).flat_map(|word| [word[0], word[1], 0, 0].map(|byte| byte & 0x3f)).collect();
    let rate = |codec: Codec| -> crate::Result<f64> {
        let blocks = codec::blocks(&CodecConfig::new(codec), &column)?;
        let mut out = vec![0; BLOCK_BYTES];
        let (begun, mut bytes) = (Instant::now(), 0);
        while bytes == 0 || begun.elapsed() < LONG {
            for (block, plain) in blocks.iter().zip(column.chunks(BLOCK_BYTES)) {
                codec::decompress_block(codec, block, &mut out[..plain.len()])?;
                bytes += plain.len();
            }
        }
        Ok(bytes as f64 / begun.elapsed().as_secs_f64())
    };
    Ok(CodecRates {
        lz4: rate(Codec::Lz4)?,
        snappy: rate(Codec::Snappy)?,
        zstd: rate(Codec::Zstd)?,
        deflate: rate(Codec::Deflate)?,
        gdeflate: rate(Codec::Gdeflate)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_numbers() {
        let rates = codecs().unwrap();
        let all = [rates.lz4, rates.snappy, rates.zstd, rates.deflate, rates.gdeflate, copying(1), copying(2)];
        assert!(all.iter().all(|rate| *rate > 1e5 && *rate < 1e13), "{rates:?} {all:?}");
    }

    #[test]
    fn folders_that_cannot_be_written_are_errors() {
        assert!(storage(Path::new("/proc")).is_err());
        let folder = tempfile::tempdir().unwrap();
        if let Some(curve) = storage(folder.path()).unwrap() {
            assert!(curve.bandwidth > 1e5 && curve.half >= 0.0, "{curve:?}");
        }
    }
}
