//! The bytes of a segment: owned or a range of a memory map, and typed views into them.

use std::alloc::Layout;
use std::fs::File;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::{FileState, FormatError, Mapping, Result};

/// Alignment of a segment and of every section in it: a cache line, which also suffices for 16-byte device loads.
pub const SEGMENT_ALIGN: usize = 64;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; SEGMENT_ALIGN]);

#[derive(Clone)]
enum Owner {
    Lines(#[allow(dead_code, reason = "held only to keep the bytes alive")] Arc<[Line]>),
    Map(#[allow(dead_code, reason = "held only to keep the bytes alive")] Arc<Mapping>),
    Buffer(#[allow(dead_code, reason = "held only to keep the bytes alive")] Arc<Buffer>),
}

/// Alignment of buffers that are filled piece by piece: a page, the best for direct I/O and device copies.
const BUFFER_ALIGN: usize = 4096;

/// Allocated bytes.
#[derive(Debug)]
struct Buffer {
    ptr: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain bytes that this owns.
unsafe impl Send for Buffer {}
// SAFETY: written only through `&mut BufferWriter`, or by the threads to which `codec::shared` gives disjoint parts.
unsafe impl Sync for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { std::alloc::dealloc(self.ptr.as_ptr(), self.layout) }
    }
}

/// Bytes to be filled before they become [`SegmentBytes`]; zero at first.
#[derive(Debug)]
pub(crate) struct BufferWriter {
    buffer: Buffer,
    len: usize,
}

impl BufferWriter {
    /// `len` bytes.
    pub(crate) fn new(len: usize) -> Self {
        let layout = Self::layout(len).expect("segments are far smaller than memory");
        Self::with_layout(layout, len).unwrap_or_else(|| std::alloc::handle_alloc_error(layout))
    }

    /// Allocates `len` bytes, a length read from a file; `None` if the system lacks memory.
    pub(crate) fn try_new(len: usize) -> Option<Self> {
        Self::with_layout(Self::layout(len)?, len)
    }

    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len.max(1).checked_next_multiple_of(SEGMENT_ALIGN)?, BUFFER_ALIGN).ok()
    }

    fn with_layout(layout: Layout, len: usize) -> Option<Self> {
        // SAFETY: the size is not zero.
        let ptr = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(Self { buffer: Buffer { ptr, layout }, len })
    }

    /// The bytes.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: `len` initialized bytes that `self` owns.
        unsafe { std::slice::from_raw_parts_mut(self.buffer.ptr.as_ptr(), self.len) }
    }

    /// The address of the first byte: writes continue there while [`BufferWriter::finish`]'s bytes are in use.
    pub(crate) fn target(&self) -> *mut u8 {
        self.buffer.ptr.as_ptr()
    }

    /// The bytes, which do not change any more.
    pub(crate) fn finish(self) -> SegmentBytes {
        let ptr = self.buffer.ptr.as_ptr().cast_const();
        SegmentBytes { ptr, len: self.len, _owner: Owner::Buffer(Arc::new(self.buffer)), file: None }
    }
}

/// Shared, immutable, 64-byte aligned bytes. Cloning shares them.
#[derive(Clone)]
pub struct SegmentBytes {
    ptr: *const u8,
    len: usize,
    _owner: Owner,
    file: Option<Arc<FilePlace>>,
}

/// The position of bytes in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePlace {
    /// The file.
    pub path: PathBuf,
    /// Offset of the first byte.
    pub offset: u64,
    /// XXH3 (64 bits, seed 0) of the bytes.
    pub xxh3: u64,
    /// Description of the bytes, for messages.
    pub what: String,
    /// The state of the file when it was mapped.
    pub state: FileState,
}

impl FilePlace {
    /// Whether `file`, opened by name, is the unchanged file that was mapped: a table may have been dropped and created again since.
    pub fn is_in(&self, file: &File) -> bool {
        file.metadata().is_ok_and(|metadata| FileState::of(&metadata) == self.state)
    }

    /// Checks that `bytes`, read again, are as they were written.
    ///
    /// Errors: [`FormatError::Corrupt`] with the file's name.
    pub fn check(&self, bytes: &[u8]) -> Result<()> {
        if xxhash_rust::xxh3::xxh3_64(bytes) == self.xxh3 {
            return Ok(());
        }
        let detail = format!("checksum mismatch in {} bytes at {}", bytes.len(), self.offset);
        Err(FormatError::Corrupt { path: self.path.clone(), segment: Some(self.what.clone()), detail })
    }
}

// SAFETY: the bytes are immutable and kept alive by `_owner`, which is itself Send + Sync.
unsafe impl Send for SegmentBytes {}
// SAFETY: as above.
unsafe impl Sync for SegmentBytes {}

impl SegmentBytes {
    /// A copy of `bytes` in an aligned buffer.
    pub fn copy_from(bytes: &[u8]) -> Self {
        Self::from_parts([(0, bytes)].into_iter(), bytes.len())
    }

    /// An aligned buffer of `len` bytes, zero except for `parts` at their offsets, which ascend.
    pub(crate) fn from_parts<'a>(parts: impl Iterator<Item = (usize, &'a [u8])>, len: usize) -> Self {
        let mut lines = Arc::<[Line]>::new_uninit_slice(len.div_ceil(SEGMENT_ALIGN));
        let target = Arc::get_mut(&mut lines).expect("not shared yet");
        let (start, size) = (target.as_mut_ptr().cast::<u8>(), size_of_val(target));
        let mut end = 0;
        for (offset, part) in parts {
            assert!(end <= offset && offset + part.len() <= size, "parts ascend within the buffer");
            // SAFETY: both ranges are inside the buffer, as just checked, and it is not shared.
            unsafe {
                start.add(end).write_bytes(0, offset - end);
                start.add(offset).copy_from_nonoverlapping(part.as_ptr(), part.len());
            }
            end = offset + part.len();
        }
        // SAFETY: the rest of the buffer; then every byte has been written, and `Line` is an array of bytes.
        let lines = unsafe {
            start.add(end).write_bytes(0, size - end);
            lines.assume_init()
        };
        Self { ptr: lines.as_ptr().cast(), len, _owner: Owner::Lines(lines), file: None }
    }

    /// A range of a memory map, without a copy. Fails if the range is outside of the map or not 64-byte aligned.
    ///
    /// The file must not change while it is mapped: the table layer never writes to a published file.
    pub fn mapped(map: Arc<Mapping>, range: Range<usize>) -> Result<Self> {
        let bytes = map.get(range.clone()).ok_or_else(|| corrupt(format!("no bytes {range:?} in {}", map.len())))?;
        let (ptr, len) = (bytes.as_ptr(), bytes.len());
        if ptr.align_offset(SEGMENT_ALIGN) != 0 {
            return Err(corrupt(format!("a segment at byte {} is not {SEGMENT_ALIGN}-byte aligned", range.start)));
        }
        Ok(Self { ptr, len, _owner: Owner::Map(map), file: None })
    }

    /// A range of the bytes; `None` if it exceeds them, or does not begin at a multiple of [`SEGMENT_ALIGN`].
    pub(crate) fn slice(&self, range: Range<usize>) -> Option<Self> {
        let bytes = self.get(range.clone()).filter(|_| range.start.is_multiple_of(SEGMENT_ALIGN))?;
        let (ptr, len) = (bytes.as_ptr(), bytes.len());
        Some(Self { ptr, len, _owner: self._owner.clone(), file: None })
    }

    /// The same bytes, with their position in an immutable file.
    pub fn with_file(self, place: FilePlace) -> Self {
        Self { file: Some(Arc::new(place)), ..self }
    }

    /// The position of the bytes in a file, if known.
    pub fn file(&self) -> Option<&FilePlace> {
        self.file.as_deref()
    }
}

impl Deref for SegmentBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: constructed from a slice of this length that `_owner` keeps alive and unchanged.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}

impl std::fmt::Debug for SegmentBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SegmentBytes({} bytes)", self.len)
    }
}

/// An error for inconsistent bytes; the table layer adds file and segment.
pub(crate) fn corrupt(detail: impl Into<String>) -> FormatError {
    FormatError::Corrupt { path: PathBuf::new(), segment: None, detail: detail.into() }
}

/// Types of section elements: every bit pattern is a valid value.
///
/// # Safety
/// No padding, no invalid bit patterns, alignment at most [`SEGMENT_ALIGN`].
pub(crate) unsafe trait Pod: Copy + 'static {}
macro_rules! pod {
    ($($t:ty),*) => { $(
        // SAFETY: a primitive number.
        unsafe impl Pod for $t {}
    )* };
}
pod!(u8, u16, u32, u64, i8, i16, i32, i64, i128, f32, f64);

/// The bytes of a slice of numbers (the format is little-endian, like every supported machine).
pub(crate) fn bytes_of<T: Pod>(values: &[T]) -> &[u8] {
    // SAFETY: `Pod` has no padding.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// A typed slice inside [`SegmentBytes`], which it keeps alive.
#[derive(Clone)]
pub(crate) struct View<T> {
    ptr: *const T,
    len: usize,
    _owner: SegmentBytes,
    _type: PhantomData<T>,
}

// SAFETY: a shared read-only slice whose owner is Send + Sync.
unsafe impl<T: Pod> Send for View<T> {}
// SAFETY: as above.
unsafe impl<T: Pod> Sync for View<T> {}

impl<T: Pod> View<T> {
    fn new(bytes: &SegmentBytes, range: Range<usize>) -> Result<Self> {
        let slice = bytes.get(range).ok_or_else(|| corrupt("a section lies outside the segment"))?;
        if slice.len() % size_of::<T>() != 0 || slice.as_ptr().align_offset(align_of::<T>()) != 0 {
            return Err(corrupt("a section is not a whole number of aligned values"));
        }
        let len = slice.len() / size_of::<T>();
        Ok(Self { ptr: slice.as_ptr().cast(), len, _owner: bytes.clone(), _type: PhantomData })
    }
}

impl<T> Deref for View<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: checked in `new`: aligned, inside the bytes, which the owner keeps alive; all bit patterns are valid for `T`.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}

/// Collects the sections of a segment and lays them out.
///
/// Layout: [`Header`] (64 bytes), a directory of `{offset: u64, len: u64}` per section, then the sections in order,
/// each at a multiple of [`SEGMENT_ALIGN`].
#[derive(Default)]
pub(crate) struct SectionWriter {
    sections: Vec<Section>,
}

/// The bytes of a section in their original storage: large ones are copied only once, to their final position.
enum Section {
    Bytes(Vec<u8>),
    Words(Vec<u32>),
}

impl Deref for Section {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Section::Bytes(bytes) => bytes,
            Section::Words(words) => bytes_of(words),
        }
    }
}

impl SectionWriter {
    pub(crate) fn push<T: Pod>(&mut self, values: &[T]) {
        self.push_bytes(bytes_of(values).to_vec());
    }

    /// Takes the bytes over.
    pub(crate) fn push_bytes(&mut self, bytes: Vec<u8>) {
        self.sections.push(Section::Bytes(bytes));
    }

    /// Takes the words over.
    pub(crate) fn push_words(&mut self, words: Vec<u32>) {
        self.sections.push(Section::Words(words));
    }

    pub(crate) fn append(&mut self, other: SectionWriter) {
        self.sections.extend(other.sections);
    }

    /// The size of all sections, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.sections.iter().map(|section| section.len()).sum()
    }

    pub(crate) fn finish(self, header: Header) -> SegmentBytes {
        let mut head = header.to_bytes(self.sections.len() as u32);
        let mut end = (HEADER_LEN + 16 * self.sections.len()).next_multiple_of(SEGMENT_ALIGN);
        let mut offsets = Vec::with_capacity(self.sections.len());
        for section in &self.sections {
            let offset = end.next_multiple_of(SEGMENT_ALIGN);
            head.extend_from_slice(&(offset as u64).to_le_bytes());
            head.extend_from_slice(&(section.len() as u64).to_le_bytes());
            offsets.push(offset);
            end = offset + section.len();
        }
        let parts = offsets.into_iter().zip(self.sections.iter().map(|s| &s[..]));
        SegmentBytes::from_parts(std::iter::once((0, &head[..])).chain(parts), end)
    }
}

/// Bytes of the fixed header.
pub(crate) const HEADER_LEN: usize = 64;
/// Upper bound of the number of sections of any encoding.
const MOST_SECTIONS: usize = 64;
const MAGIC: u32 = u32::from_le_bytes(*b"WMSG");
const VERSION: u16 = 1;

/// The fixed header: magic `WMSG`, version u16, encoding u8, kind u8, rows u32, nulls u32, sections u32, 44 zero bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) encoding: u8,
    pub(crate) kind: u8,
    pub(crate) rows: u32,
    pub(crate) nulls: u32,
}

impl Header {
    fn to_bytes(self, sections: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_LEN + 16 * sections as usize);
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[self.encoding, self.kind]);
        for word in [self.rows, self.nulls, sections] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.resize(HEADER_LEN, 0);
        out
    }
}

/// Returns the sections of a segment in order, and checks all claims of header and directory.
pub(crate) struct SectionReader<'a> {
    bytes: SegmentBytes,
    sections: usize,
    next: usize,
    /// Fetches a range of the bytes before it is read.
    fetch: Option<Fetch<'a>>,
}

/// Called with the next range of a segment's bytes that will be read.
pub(crate) type Fetch<'a> = &'a mut dyn FnMut(Range<usize>) -> Result<()>;

impl<'a> SectionReader<'a> {
    /// A reader of the sections of `bytes`. With `fetch`, only bytes passed to it are valid: everything except [bulk](SectionReader::bulk) sections.
    pub(crate) fn new(bytes: SegmentBytes, mut fetch: Option<Fetch<'a>>) -> Result<(Header, Self)> {
        if bytes.len() < HEADER_LEN {
            return Err(corrupt(format!("{} bytes are no segment", bytes.len())));
        }
        if let Some(fetch) = &mut fetch {
            fetch(0..bytes.len().min(HEADER_LEN + 16 * MOST_SECTIONS))?;
        }
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        if u32_at(0) != MAGIC {
            return Err(corrupt("not a segment (wrong magic)"));
        }
        let version = u16::from_le_bytes([bytes[4], bytes[5]]);
        if version != VERSION {
            return Err(corrupt(format!("segment format version {version}, this build reads {VERSION}")));
        }
        let header = Header { encoding: bytes[6], kind: bytes[7], rows: u32_at(8), nulls: u32_at(12) };
        let sections = u32_at(16) as usize;
        if sections > MOST_SECTIONS || HEADER_LEN + 16 * sections > bytes.len() {
            return Err(corrupt(format!("a directory of {sections} sections does not fit")));
        }
        Ok((header, Self { bytes, sections, next: 0, fetch }))
    }

    /// The next section, of any length.
    pub(crate) fn any<T: Pod>(&mut self) -> Result<View<T>> {
        let range = self.range()?;
        if let Some(fetch) = &mut self.fetch {
            fetch(range.clone())?;
        }
        View::new(&self.bytes, range)
    }

    /// The bytes of the next section.
    pub(crate) fn section(&mut self) -> Result<SegmentBytes> {
        let range = self.range()?;
        if let Some(fetch) = &mut self.fetch {
            fetch(range.clone())?;
        }
        self.bytes.slice(range).ok_or_else(|| corrupt("a section of segments is not aligned"))
    }

    /// The byte range of the next section.
    fn range(&mut self) -> Result<Range<usize>> {
        if self.next == self.sections {
            return Err(corrupt("a section is missing"));
        }
        let at = HEADER_LEN + 16 * self.next;
        self.next += 1;
        let u64_at = |at: usize| u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("8 bytes"));
        let (offset, len) = (u64_at(at), u64_at(at + 8));
        let end = offset.checked_add(len).filter(|&end| end <= self.bytes.len() as u64);
        let end = end.ok_or_else(|| corrupt("a section lies outside the segment"))?;
        Ok(offset as usize..end as usize)
    }

    /// The next section, which must have `len` values.
    pub(crate) fn exactly<T: Pod>(&mut self, len: usize) -> Result<View<T>> {
        let view = self.any::<T>()?;
        has(view, len)
    }

    /// The next section, which must have `len` values that no check depends on.
    pub(crate) fn bulk<T: Pod>(&mut self, len: usize) -> Result<View<T>> {
        let range = self.range()?;
        has(View::new(&self.bytes, range)?, len)
    }
}

/// Checks that `view` has `len` values.
fn has<T>(view: View<T>, len: usize) -> Result<View<T>> {
    if view.len() == len { Ok(view) } else { Err(corrupt(format!("{} values where {len} belong", view.len()))) }
}
