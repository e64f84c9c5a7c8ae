//! Validation of Arrow IPC files and streams: checks claimed lengths, positions and counts against the actual bytes before memory is allocated for
//! them.
//!
//! Nothing here reads a file: callers pass the bytes of a footer or a message, and get the position of the next ones. Errors are the detail texts of
//! an error about the file.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::{
    Block as StoredBlock, CompressionType, Message, MetadataVersion, RecordBatch, Schema as StoredSchema,
    root_as_footer, root_as_message,
};
use lz4_flex::frame::FrameDecoder;

use crate::guard::caught;

/// The magic bytes at the beginning and at the end of a file.
pub const MAGIC: &[u8; 6] = b"ARROW1";
/// Number of bytes at the end of a file that contain the length of its footer.
pub const TAIL_BYTES: u64 = 10;
/// Number of bytes at the beginning of a message that contain the length of its metadata.
pub const PREFIX_BYTES: usize = 8;
/// Number of bytes before the first block of a file: the padded magic.
const HEAD_BYTES: u64 = 8;
/// The first bytes of a message, except in files older than version 0.15 of the format.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// Largest decompression ratios: LZ4 adds up to 255 for each byte of a length, Zstd has blocks of 128 KiB in four bytes.
const LZ4_RATIO: u64 = 255;
const ZSTD_RATIO: u64 = 32 << 10;
/// The bytes that very short buffers may become in addition.
const RATIO_SLACK: u64 = 128 << 10;
/// The magic number of an LZ4 frame.
const LZ4_MAGIC: u32 = 0x184D_2204;
/// Bytes of a frame's largest block: a buffer may exceed its claim by this much before decoding fails.
const LZ4_BLOCK: u64 = 4 << 20;

/// The footer of a file.
#[derive(Debug, Clone)]
pub struct Footer {
    /// The columns.
    pub schema: SchemaRef,
    /// The version of all messages.
    pub version: MetadataVersion,
    /// Dictionary batches, which precede all others.
    pub dictionaries: Vec<Block>,
    /// Batches of rows.
    pub batches: Vec<Block>,
}

/// The position of a message in a file, completely before the footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Offset of its first byte.
    pub offset: u64,
    /// Bytes of its metadata, including prefix and padding.
    pub metadata_bytes: u64,
    /// Bytes of its body, which follows.
    pub body_bytes: u64,
}

impl Block {
    /// Byte range of the metadata.
    pub fn metadata(&self) -> Range<u64> {
        self.offset..self.offset + self.metadata_bytes
    }

    /// Byte range of the body.
    pub fn body(&self) -> Range<u64> {
        let start = self.offset + self.metadata_bytes;
        start..start + self.body_bytes
    }

    fn of(stored: &StoredBlock, end: u64) -> Result<Self, String> {
        let (offset, metadata, body) = (stored.offset(), stored.metaDataLength(), stored.bodyLength());
        let outside = || {
            format!("a block of {metadata} + {body} bytes at {offset} is outside of the {end} bytes before the footer")
        };
        let number = |number: i64| u64::try_from(number).map_err(|_| outside());
        let (offset, metadata_bytes, body_bytes) = (number(offset)?, number(metadata.into())?, number(body)?);
        let ends = offset.checked_add(metadata_bytes).and_then(|start| start.checked_add(body_bytes));
        if offset < HEAD_BYTES || metadata_bytes < PREFIX_BYTES as u64 || ends.is_none_or(|ends| ends > end) {
            return Err(outside());
        }
        Ok(Self { offset, metadata_bytes, body_bytes })
    }
}

/// The byte range of the footer of a file of `bytes` bytes, whose last [`TAIL_BYTES`] are `tail`.
///
/// # Errors
/// A file with a wrong end, or one that is shorter than its footer.
pub fn footer_place(tail: &[u8], bytes: u64) -> Result<Range<u64>, String> {
    let Some((length, MAGIC)) = tail.split_first_chunk::<4>().and_then(|(a, b)| Some((a, b.first_chunk::<6>()?)))
    else {
        return Err("no footer at the end of the file".into());
    };
    let length = i32::from_le_bytes(*length);
    let end = bytes.saturating_sub(TAIL_BYTES);
    let start = u64::try_from(length).ok().filter(|&length| length > 0).and_then(|length| end.checked_sub(length));
    match start.filter(|&start| start >= HEAD_BYTES) {
        Some(start) => Ok(start..end),
        None => Err(format!("a footer of {length} bytes in a file of {bytes}")),
    }
}

/// Parses the footer in `bytes`, which begin at `start` in their file.
///
/// # Errors
/// Inconsistent parts: blocks outside of the file, or overlapping ones, unknown types.
pub fn read_footer(bytes: &[u8], start: u64) -> Result<Footer, String> {
    let footer = root_as_footer(bytes).map_err(|error| format!("the footer: {error}"))?;
    let schema = schema_of(footer.schema().ok_or("the footer has no schema")?)?;
    let batches = footer.recordBatches().ok_or("the footer has no list of batches")?;
    let batches = batches.iter().map(|block| Block::of(block, start)).collect::<Result<Vec<_>, _>>()?;
    let dictionaries = footer.dictionaries().into_iter().flatten();
    let dictionaries = dictionaries.map(|block| Block::of(block, start)).collect::<Result<Vec<_>, _>>()?;
    check_apart(dictionaries.iter().chain(&batches))?;
    Ok(Footer { schema: Arc::new(schema), version: footer.version(), dictionaries, batches })
}

/// Refuses blocks that share bytes: a file is read as often as its footer names its parts.
fn check_apart<'a>(blocks: impl Iterator<Item = &'a Block>) -> Result<(), String> {
    let mut places: Vec<(u64, u64)> = blocks.map(|block| (block.offset, block.body().end)).collect();
    places.sort_unstable();
    match places.windows(2).find(|pair| pair[1].0 < pair[0].1) {
        Some(pair) => Err(format!("a block at {} is in the one at {}", pair[1].0, pair[0].0)),
        None => Ok(()),
    }
}

/// The schema in a footer or in the first message of a stream.
///
/// # Errors
/// Unknown types; numbers in another byte order than this machine's.
pub fn schema_of(stored: StoredSchema<'_>) -> Result<Schema, String> {
    if !stored.endianness().equals_to_target_endianness() {
        return Err("its numbers are in another byte order than this machine's".into());
    }
    let schema = caught(|| fb_to_schema(stored))?;
    schema.fields().iter().try_for_each(|field| check_type(field.data_type()))?;
    Ok(schema)
}

fn check_type(data_type: &DataType) -> Result<(), String> {
    let decimal = |precision: u8, scale: i8, most: u8| {
        (1..=most).contains(&precision) && i16::from(scale).abs() <= i16::from(most)
    };
    let sound = match data_type {
        DataType::FixedSizeBinary(width) => *width >= 0,
        DataType::FixedSizeList(_, length) => *length >= 0,
        DataType::Decimal32(precision, scale) => decimal(*precision, *scale, 9),
        DataType::Decimal64(precision, scale) => decimal(*precision, *scale, 18),
        DataType::Decimal128(precision, scale) => decimal(*precision, *scale, 38),
        DataType::Decimal256(precision, scale) => decimal(*precision, *scale, 76),
        _ => true,
    };
    if !sound {
        return Err(format!("a column of type {data_type}"));
    }
    // Dictionary values are in separate batches.
    if let DataType::Dictionary(key, value) = data_type {
        return [key, value].into_iter().try_for_each(|part| check_type(part));
    }
    children(data_type).into_iter().try_for_each(check_type)
}

/// The child types of a type in a batch.
fn children(data_type: &DataType) -> Vec<&DataType> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => vec![item.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field.data_type()).collect(),
        DataType::RunEndEncoded(ends, values) => vec![ends.data_type(), values.data_type()],
        _ => vec![],
    }
}

/// Number of field nodes of an array of a type.
fn nodes(data_type: &DataType) -> usize {
    1 + children(data_type).into_iter().map(nodes).sum::<usize>()
}

/// The length of the metadata after a message's prefix, and the length of the prefix; `None` at the end of a stream.
///
/// # Errors
/// A negative length.
pub fn metadata_length(prefix: &[u8]) -> Result<Option<(usize, usize)>, String> {
    let number = |at: usize| prefix.get(at..at + 4).map(|bytes| <[u8; 4]>::try_from(bytes).expect("4 bytes"));
    let (length, used) = match number(0) {
        None => return Ok(None),
        Some(CONTINUATION) => (number(4).ok_or("it ends within the beginning of a message")?, 8),
        Some(length) => (length, 4),
    };
    match i32::from_le_bytes(length) {
        0 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) => Ok(Some((length, used))),
            Err(_) => Err(format!("a message of {length} bytes")),
        },
    }
}

/// Parses the message with metadata `bytes`, without prefix; its body has at most `body` bytes.
///
/// # Errors
/// Bytes that are not a message, or that claim more data.
pub fn message(bytes: &[u8], body: u64) -> Result<Message<'_>, String> {
    let message = root_as_message(bytes).map_err(|error| format!("a message: {error}"))?;
    match u64::try_from(message.bodyLength()) {
        Ok(length) if length <= body => Ok(message),
        _ => Err(format!("a message with {} bytes of data where there are {body}", message.bodyLength())),
    }
}

/// The columns of a batch, as far as known.
#[derive(Debug, Clone, Copy)]
pub enum Columns<'a> {
    /// All columns.
    Known(&'a [FieldRef]),
    /// The columns of a dictionary, whose type is known by its id only.
    Unknown,
}

/// Whether a batch may have many rows without bytes: of NULLs only, of run-end encoded arrays, or without columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BareRows {
    /// Any number: the reader processes a part at a time.
    Any,
    /// Few: the reader allocates memory for all.
    Few,
}

impl BareRows {
    fn most(self) -> u64 {
        match self {
            Self::Any => i32::MAX as u64,
            Self::Few => 1 << 20,
        }
    }
}

/// Checks that the data of `batch` are within its body. Returns the bytes that its buffers claim to have decompressed.
///
/// # Errors
/// Buffers outside of `body` or with a different decompressed size, columns of another length than the batch, more rows than bits and than `bare`
/// permits.
pub fn check_batch(batch: &RecordBatch<'_>, columns: Columns<'_>, bare: BareRows, body: &[u8]) -> Result<u64, String> {
    let codec = batch.compression().map(|compression| compression.codec());
    let buffers = batch.buffers().ok_or("a batch without a list of buffers")?;
    let mut claimed = 0_u64;
    for (number, buffer) in buffers.iter().enumerate() {
        let (offset, length) = (buffer.offset(), buffer.length());
        let place = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
        let data = place.and_then(|(offset, length)| body.get(offset..offset.checked_add(length)?));
        let data = data.ok_or_else(|| {
            format!("buffer {number}, {length} bytes at {offset}, is outside of the {} bytes of its batch", body.len())
        })?;
        let bytes = match codec {
            Some(codec) if !data.is_empty() => {
                claim(codec, data).map_err(|detail| format!("buffer {number}: {detail}"))?
            }
            _ => data.len() as u64,
        };
        claimed = claimed.saturating_add(bytes);
    }
    check_nodes(batch, columns, claimed.saturating_mul(8).max(bare.most()), claimed)?;
    Ok(claimed)
}

/// The bytes that a compressed buffer claims to have decompressed.
fn claim(codec: CompressionType, data: &[u8]) -> Result<u64, String> {
    let Some((length, data)) = data.split_first_chunk::<8>() else {
        return Err(format!("{} bytes, compressed", data.len()));
    };
    let (length, stored) = (i64::from_le_bytes(*length), data.len() as u64);
    let ratio = if codec == CompressionType::ZSTD { ZSTD_RATIO } else { LZ4_RATIO };
    let most = stored.saturating_mul(ratio).saturating_add(RATIO_SLACK);
    match u64::try_from(length) {
        // Not compressed.
        Err(_) if length == -1 => Ok(stored),
        Ok(length) if length <= most => match codec {
            CompressionType::LZ4_FRAME if length > 0 => check_lz4(data, length).map(|()| length),
            _ => Ok(length),
        },
        _ => Err(format!("{stored} bytes that claim to be {length} decompressed")),
    }
}

/// Checks that an LZ4 frame decompresses to at most the claimed `length` bytes plus a block: its decoder always continues to the end.
fn check_lz4(data: &[u8], length: u64) -> Result<(), String> {
    if most_of_lz4(data).is_some_and(|most| most <= length.saturating_mul(2).saturating_add(LZ4_BLOCK)) {
        return Ok(());
    }
    let mut some = FrameDecoder::new(data).take(length + 1);
    match std::io::copy(&mut some, &mut std::io::sink()) {
        Ok(found) if found == length => Ok(()),
        Ok(found) if found > length => Err(format!("more than the {length} bytes that it claims to be decompressed")),
        Ok(found) => Err(format!("{found} bytes that claim to be {length} decompressed")),
        Err(error) => Err(error.to_string()),
    }
}

/// Upper bound of the decompressed size of all blocks of an LZ4 frame; `None` for other bytes.
fn most_of_lz4(data: &[u8]) -> Option<u64> {
    let number = |at: usize| Some(u32::from_le_bytes(*data.get(at..)?.first_chunk()?));
    if number(0)? != LZ4_MAGIC {
        return None;
    }
    let (flags, sizes) = (*data.get(4)?, *data.get(5)?);
    // 64 KiB, four times as many for each next number.
    let block = match (sizes >> 4) & 7 {
        size @ 4..=7 => 1_u64 << (2 * size + 8),
        _ => return None,
    };
    let bit = |bit: u8| usize::from((flags >> bit) & 1);
    // Magic, flags, sizes and a checksum; the total length, the dictionary id.
    let mut at = 7 + 8 * bit(3) + 4 * bit(0);
    let mut most = 0_u64;
    while let Some(length) = number(at).filter(|&length| length != 0) {
        most = most.saturating_add(block);
        at = at.checked_add(4 + (length & !(1 << 31)) as usize + 4 * bit(4))?;
    }
    Some(most)
}

/// Checks field nodes. `most`: largest number of rows; `bytes`: size of all buffers.
fn check_nodes(batch: &RecordBatch<'_>, columns: Columns<'_>, most: u64, bytes: u64) -> Result<(), String> {
    let all = batch.nodes().ok_or("a batch without a list of columns")?;
    let rows = batch.length();
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    if !(0..=most).contains(&rows) {
        return Err(format!("a batch of {rows} rows in {bytes} bytes"));
    }
    for node in all {
        let (length, nulls) = (node.length(), node.null_count());
        if !(0..=most).contains(&length) || !(0..=length).contains(&nulls) {
            return Err(format!("an array of {length} values and {nulls} NULLs in {bytes} bytes"));
        }
    }
    let Columns::Known(fields) = columns else { return Ok(()) };
    let mut at = 0;
    for field in fields {
        let found = (at < all.len()).then(|| all.get(at).length());
        if found != Some(rows) {
            let found = found.map_or("none".into(), |found| format!("{found} rows"));
            return Err(format!("column {:?} has {found} in a batch of {rows}", field.name()));
        }
        at += nodes(field.data_type());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
