//! Page headers: the few structures of Thrift's compact protocol that stand between the pages of a column chunk.

/// The kind of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    Data,
    Index,
    Dictionary,
    DataV2,
}

/// What a page header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageHeader {
    pub kind: PageKind,
    /// Bytes of the page decompressed.
    pub uncompressed: u32,
    /// Bytes behind the header.
    pub compressed: u32,
    pub crc: Option<u32>,
    /// Values, NULLs included.
    pub values: u32,
    /// By its number in the specification.
    pub encoding: i32,
    /// The same, of definition levels (version 1).
    pub level_encoding: i32,
    /// Bytes of definition and of repetition levels (version 2).
    pub level_bytes: [u32; 2],
    /// Whether the values of a version 2 page are compressed.
    pub is_compressed: bool,
}

/// Why bytes are no page header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// There may be one: it ends behind the bytes.
    Short,
    /// What is wrong.
    Damaged(&'static str),
}

type Result<T> = std::result::Result<T, HeaderError>;

/// Members of one structure that page headers have: numbers by field, and structures by field.
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

/// The header at the start of `bytes`, and its length.
///
/// # Errors
/// Bytes that are none, or that end before it does.
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
        header.level_bytes = [inner.count(5, "no size of levels")?, inner.count(6, "no size of levels")?];
        header.is_compressed = inner.number(7) != Some(0);
    }
    Ok((header, reader.at))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

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
