//! The structures of Thrift's compact protocol that are read besides the footer: page headers, which are between the pages of a column chunk, and the
//! two page indexes.

/// The kind of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    Data,
    Index,
    Dictionary,
    DataV2,
}

/// The contents of a page header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageHeader {
    pub kind: PageKind,
    /// Bytes of the page decompressed.
    pub uncompressed: u32,
    /// Number of bytes after the header.
    pub compressed: u32,
    pub crc: Option<u32>,
    /// Values, NULLs included.
    pub values: u32,
    /// Number of NULLs, and of rows (version 2).
    pub nulls: u32,
    pub rows: u32,
    /// Encoding, by its number in the specification.
    pub encoding: i32,
    /// Encoding of definition levels (version 1), by its number.
    pub level_encoding: i32,
    /// Bytes of definition and of repetition levels (version 2).
    pub level_bytes: [u32; 2],
    /// Whether the values of a version 2 page are compressed.
    pub is_compressed: bool,
}

/// The reason why bytes are no page header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// Incomplete: the header may continue after the bytes.
    Short,
    /// The mistake.
    Damaged(&'static str),
}

type Result<T> = std::result::Result<T, HeaderError>;

/// Fields of one structure: numbers by field id, and structures by field id.
#[derive(Default)]
struct Fields {
    numbers: Vec<(i16, i64)>,
    structs: Vec<(i16, Fields)>,
}

impl Fields {
    fn number(&self, field: i16) -> Option<i64> {
        self.numbers.iter().find(|(found, _)| *found == field).map(|(_, value)| *value)
    }

    fn count(&self, field: i16, missing: &'static str) -> Result<u32> {
        let value = self.number(field).ok_or(HeaderError::Damaged(missing))?;
        // Sizes and counts are signed 32-bit numbers.
        i32::try_from(value)
            .ok()
            .and_then(|value| u32::try_from(value).ok())
            .ok_or(HeaderError::Damaged("a size below 0"))
    }

    fn inner(&self, field: i16) -> Result<&Fields> {
        let found = self.structs.iter().find(|(found, _)| *found == field);
        found.map(|(_, fields)| fields).ok_or(HeaderError::Damaged("the header of another kind of page"))
    }
}

/// Parses the header at the start of `bytes`. Returns it with its length.
///
/// # Errors
/// Invalid bytes, or bytes that end too early.
pub(super) fn page_header(bytes: &[u8]) -> Result<(PageHeader, usize)> {
    let mut reader = Reader { bytes, at: 0 };
    let fields = reader.fields(0)?;
    let kind = match fields.number(1) {
        Some(0) => PageKind::Data,
        Some(1) => PageKind::Index,
        Some(2) => PageKind::Dictionary,
        Some(3) => PageKind::DataV2,
        _ => return Err(HeaderError::Damaged("an unknown kind of page")),
    };
    let mut header = PageHeader {
        kind,
        uncompressed: fields.count(2, "no uncompressed size")?,
        compressed: fields.count(3, "no compressed size")?,
        crc: fields.number(4).map(|crc| crc as u32),
        values: 0,
        nulls: 0,
        rows: 0,
        encoding: 0,
        level_encoding: 3,
        level_bytes: [0; 2],
        is_compressed: true,
    };
    let inner = match kind {
        PageKind::Index => return Ok((header, reader.at)),
        PageKind::Data => fields.inner(5)?,
        PageKind::Dictionary => fields.inner(7)?,
        PageKind::DataV2 => fields.inner(8)?,
    };
    header.values = inner.count(1, "no number of values")?;
    let encoding = if kind == PageKind::DataV2 { 4 } else { 2 };
    header.encoding = inner.count(encoding, "no encoding")? as i32;
    if kind == PageKind::Data {
        header.level_encoding = inner.count(3, "no encoding of levels")? as i32;
    }
    if kind == PageKind::DataV2 {
        (header.nulls, header.rows) = (inner.count(2, "no number of NULLs")?, inner.count(3, "no number of rows")?);
        header.level_bytes = [inner.count(5, "no size of levels")?, inner.count(6, "no size of levels")?];
        header.is_compressed = inner.number(7) != Some(0);
    }
    Ok((header, reader.at))
}

/// The column index of a column chunk: by page, the bounds of its values in stored form.
#[derive(Debug, Default)]
pub(super) struct ColumnIndex {
    /// Whether a page has NULLs only.
    pub null_pages: Vec<bool>,
    pub least: Vec<Vec<u8>>,
    pub greatest: Vec<Vec<u8>>,
    /// 0: unordered, 1: bounds ascend, 2: they descend.
    pub order: i64,
    pub nulls: Option<Vec<i64>>,
}

/// The position of a page: its offset and size, including the header, and the index in the row group of its first row.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct PageLocation {
    pub offset: i64,
    pub bytes: i64,
    pub first_row: i64,
}

/// The offset index of a column chunk.
#[derive(Debug, Default)]
pub(super) struct OffsetIndex {
    pub pages: Vec<PageLocation>,
}

/// Parses the column index at the start of `bytes`.
///
/// # Errors
/// Invalid bytes, or bytes that end too early.
pub(super) fn column_index(bytes: &[u8]) -> Result<ColumnIndex> {
    let mut index = ColumnIndex::default();
    Reader { bytes, at: 0 }.members(|reader, field, kind| {
        match (field, kind) {
            (1, LIST) => index.null_pages = reader.list(|reader| reader.byte().map(|byte| byte == 1))?,
            (2, LIST) => index.least = reader.list(Reader::binary)?,
            (3, LIST) => index.greatest = reader.list(Reader::binary)?,
            (4, 5) => index.order = reader.zigzag()?,
            (5, LIST) => index.nulls = Some(reader.list(Reader::zigzag)?),
            _ => reader.skip(kind, 0)?,
        }
        Ok(())
    })?;
    Ok(index)
}

/// Parses the offset index at the start of `bytes`.
///
/// # Errors
/// Invalid bytes, or bytes that end too early.
pub(super) fn offset_index(bytes: &[u8]) -> Result<OffsetIndex> {
    let mut index = OffsetIndex::default();
    Reader { bytes, at: 0 }.members(|reader, field, kind| {
        match (field, kind) {
            (1, LIST) => index.pages = reader.list(Reader::location)?,
            _ => reader.skip(kind, 0)?,
        }
        Ok(())
    })?;
    Ok(index)
}

/// The claims of a footer about a column chunk that parsers drop.
#[derive(Debug, Default)]
pub(super) struct ChunkClaims {
    /// The number of its physical type.
    pub physical: i64,
    pub path: Vec<Vec<u8>>,
    /// Least and greatest value, in the deprecated and in the current fields.
    pub bounds: [[Option<Vec<u8>>; 2]; 2],
}

/// By row group, the claims of the footer `bytes` about its column chunks.
///
/// # Errors
/// Invalid bytes, or bytes that end too early.
pub(super) fn chunk_claims(bytes: &[u8]) -> Result<Vec<Vec<ChunkClaims>>> {
    let mut groups = vec![];
    Reader { bytes, at: 0 }.members(|reader, field, kind| match (field, kind) {
        (4, LIST) => {
            groups = reader.list(|reader| {
                let mut chunks = vec![];
                reader.members(|reader, field, kind| match (field, kind) {
                    (1, LIST) => {
                        chunks = reader.list(Reader::chunk)?;
                        Ok(())
                    }
                    _ => reader.skip(kind, 0),
                })?;
                Ok(chunks)
            })?;
            Ok(())
        }
        _ => reader.skip(kind, 0),
    })?;
    Ok(groups)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The numbers of the types of strings, lists and structures.
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Structures within structures that a header may have.
const MOST_LEVELS: u32 = 8;

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8> {
        let byte = self.bytes.get(self.at).copied().ok_or(HeaderError::Short)?;
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127).checked_shl(shift).unwrap_or(0);
            if byte < 128 {
                return Ok(value);
            }
        }
        Err(HeaderError::Damaged("a number of more than 64 bits"))
    }

    fn zigzag(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads a structure; calls `f` with the id and the type of each field, to read or skip its value.
    fn members(&mut self, mut f: impl FnMut(&mut Self, i16, u8) -> Result<()>) -> Result<()> {
        let mut last = 0i16;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            last = match head >> 4 {
                0 => self.zigzag()? as i16,
                delta => last.wrapping_add(i16::from(delta)),
            };
            f(self, last, head & 15)?;
        }
    }

    /// Reads a list by `element`, whatever its declared element type: if that differs, the result is detected as damaged.
    fn list<T>(&mut self, mut element: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        // Every element takes at least a byte.
        if count > (self.bytes.len() - self.at) as u64 {
            return Err(HeaderError::Short);
        }
        (0..count).map(|_| element(self)).collect()
    }

    fn binary(&mut self) -> Result<Vec<u8>> {
        let (bytes, start) = (self.varint()?, self.at);
        self.pass(bytes).map(|()| self.bytes[start..].get(..bytes as usize).unwrap_or_default().to_vec())
    }

    fn location(&mut self) -> Result<PageLocation> {
        let mut location = PageLocation::default();
        self.members(|reader, field, kind| {
            match (field, kind) {
                (1, 6) => location.offset = reader.zigzag()?,
                (2, 5) => location.bytes = reader.zigzag()?,
                (3, 6) => location.first_row = reader.zigzag()?,
                _ => reader.skip(kind, 0)?,
            }
            Ok(())
        })?;
        Ok(location)
    }

    /// Reads a column chunk of a row group.
    fn chunk(&mut self) -> Result<ChunkClaims> {
        let mut claims = ChunkClaims::default();
        self.members(|reader, field, kind| match (field, kind) {
            (3, STRUCT) => reader.members(|reader, field, kind| {
                match (field, kind) {
                    (1, 5) => claims.physical = reader.zigzag()?,
                    (3, LIST) => claims.path = reader.list(Reader::binary)?,
                    (12, STRUCT) => claims.bounds = reader.bounds()?,
                    _ => reader.skip(kind, 0)?,
                }
                Ok(())
            }),
            _ => reader.skip(kind, 0),
        })?;
        Ok(claims)
    }

    /// Bounds of statistics.
    fn bounds(&mut self) -> Result<[[Option<Vec<u8>>; 2]; 2]> {
        let mut bounds: [[Option<Vec<u8>>; 2]; 2] = Default::default();
        self.members(|reader, field, kind| {
            match (field, kind) {
                (1, BINARY) => bounds[0][1] = Some(reader.binary()?),
                (2, BINARY) => bounds[0][0] = Some(reader.binary()?),
                (5, BINARY) => bounds[1][1] = Some(reader.binary()?),
                (6, BINARY) => bounds[1][0] = Some(reader.binary()?),
                _ => reader.skip(kind, 0)?,
            }
            Ok(())
        })?;
        Ok(bounds)
    }

    fn fields(&mut self, level: u32) -> Result<Fields> {
        if level > MOST_LEVELS {
            return Err(HeaderError::Damaged("structures within structures"));
        }
        let (mut fields, mut last) = (Fields::default(), 0i16);
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(fields);
            }
            last = match head >> 4 {
                0 => self.zigzag()? as i16,
                delta => last.wrapping_add(i16::from(delta)),
            };
            match head & 15 {
                // Truth values are their type.
                1 => fields.numbers.push((last, 1)),
                2 => fields.numbers.push((last, 0)),
                3 => {
                    let value = self.byte()? as i8;
                    fields.numbers.push((last, value.into()));
                }
                4..=6 => {
                    let value = self.zigzag()?;
                    fields.numbers.push((last, value));
                }
                12 => {
                    let inner = self.fields(level + 1)?;
                    fields.structs.push((last, inner));
                }
                other => self.skip(other, level)?,
            }
        }
    }

    fn skip(&mut self, kind: u8, level: u32) -> Result<()> {
        if level > MOST_LEVELS {
            return Err(HeaderError::Damaged("lists within lists"));
        }
        match kind {
            1 | 2 => {}
            3 => drop(self.byte()?),
            4..=6 => drop(self.varint()?),
            7 => self.pass(8)?,
            8 => {
                let bytes = self.varint()?;
                self.pass(bytes)?;
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                for _ in 0..count {
                    // In lists, truth values are bytes.
                    let element = if matches!(head & 15, 1 | 2) { 3 } else { head & 15 };
                    self.skip(element, level + 1)?;
                }
            }
            12 => drop(self.fields(level + 1)?),
            _ => return Err(HeaderError::Damaged("a member of an unknown type")),
        }
        Ok(())
    }

    fn pass(&mut self, bytes: u64) -> Result<()> {
        let left = (self.bytes.len() - self.at) as u64;
        if bytes > left {
            return Err(HeaderError::Short);
        }
        self.at += bytes as usize;
        Ok(())
    }
}
