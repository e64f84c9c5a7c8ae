//! The place where the parts of an image and of a work area lie, and what both take at most where only the footer has been read.

use super::PageCodec;
use super::slice::PageCodecs;
use super::table::ParquetColumn;
use super::types::Kind;
use crate::{SegmentLayout, ValueLayout};

/// Bytes of the header and of a page's descriptor (`ParquetChunk`, `ParquetPage` of `kernels/parquet.cuh`).
pub(super) const HEADER: u64 = 96;
pub(super) const PAGE: u64 = 96;

/// Values that a warp decodes: a page has tiles of them.
pub(super) const TILE: u64 = 1024;

/// A library for batches takes scratch memory by its largest page: larger ones are the host's.
pub(super) const MAX_BATCH_PAGE: u64 = 16 << 20;

/// Bytes that may be read behind the last of a page.
pub(super) const SLACK: u64 = 16;

/// Gives out places behind each other.
pub(super) struct Places(pub u64);

impl Places {
    pub fn take(&mut self, bytes: u64) -> u64 {
        let at = self.0;
        self.0 += bytes.next_multiple_of(16);
        at
    }
}

/// The place where values, and the bits of those that are not NULL, are placed in a work area.
pub(super) fn take_values(column: &ParquetColumn, work: &mut Places) -> [u64; 2] {
    let rows = column.rows.end - column.rows.start;
    let values = work.take(rows * u64::from(column.ty.made));
    [values, work.take(if column.has_nulls() { rows.div_ceil(64) * 8 } else { 0 })]
}

/// The place in its work area where the values of a column lie, whatever its pages are.
pub(super) fn chunk_layout(column: &ParquetColumn) -> SegmentLayout {
    let (ty, [values, valid]) = (&column.ty, take_values(column, &mut Places(0)));
    let offset = values as usize;
    let values = match ty.kind {
        Kind::Text => ValueLayout::Views { offset },
        _ => ValueLayout::Plain { bytes: ty.made as usize, signed: ty.is_signed(), offset },
    };
    SegmentLayout { validity: column.has_nulls().then_some(valid as usize), values }
}

/// The bytes that a place takes beyond its contents, at most.
const PAD: u64 = 15;

/// Bytes of the image of a column of at most so many pages, which have so many bytes as they are stored, and decompressed.
pub(super) fn most_image_bytes(
    (codec, codecs): (PageCodec, PageCodecs),
    (stored, uncompressed): (u64, u64),
    pages: u64,
) -> u64 {
    let large = matches!(codec, PageCodec::Zstd | PageCodec::Gzip) && uncompressed > MAX_BATCH_PAGE;
    let bytes = if codecs.has(codec) && !large { stored } else { stored.max(uncompressed) };
    HEADER + PAGE * pages + PAD + bytes + (SLACK + PAD) * pages
}

/// Bytes of the work area of a column of at most so many pages, which have so many bytes decompressed; `deltas`: some values may be stored
/// as differences. Where values are made of parts of others, it takes more.
pub(super) fn most_work_bytes(
    column: &ParquetColumn,
    (codec, codecs): (PageCodec, PageCodecs),
    (uncompressed, pages): (u64, u64),
    deltas: bool,
) -> u64 {
    let (ty, rows) = (&column.ty, column.rows.end - column.rows.start);
    let mut work = Places(0);
    take_values(column, &mut work);
    // No more entries of dictionaries than rows, each behind its length.
    work.take(if ty.kind == Kind::Text { (4 * rows).min(uncompressed) } else { 0 });
    let tiles = rows / TILE + pages;
    work.take(if codecs.has(codec) { uncompressed + (SLACK + PAD) * pages } else { 0 });
    work.take(if ty.optional { 4 * (rows / 32 + pages) + PAD * pages } else { 0 });
    work.take(4 * (tiles + pages) + PAD * pages);
    let runs = match ty.kind {
        Kind::Text => 4 * (rows + pages),
        _ if deltas => u64::from(ty.width) * rows + SLACK * pages,
        _ => 0,
    };
    work.take(runs.max(8 * tiles) + PAD * pages);
    work.0
}
