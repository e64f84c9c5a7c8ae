//! Positions of the parts of an image and of a work area, and upper bounds of their sizes for columns of which only the footer has been read.

use super::PageCodec;
use super::slice::PageCodecs;
use super::table::ParquetColumn;
use super::types::Kind;
use crate::{SegmentLayout, ValueLayout};

/// Sizes in bytes of the header and of a page's descriptor (`ParquetChunk`, `ParquetPage` of `kernels/parquet.cuh`).
pub(super) const HEADER: u64 = 96;
pub(super) const PAGE: u64 = 96;

/// Number of values that a warp decodes: the size of a page's tiles.
pub(super) const TILE: u64 = 1024;

/// A library for batches takes scratch memory by its largest page: larger ones are the host's.
pub(super) const MAX_BATCH_PAGE: u64 = 16 << 20;

/// Number of bytes that may be read past the end of a page.
pub(super) const SLACK: u64 = 16;

/// Allocates consecutive positions.
pub(super) struct Places(pub u64);

impl Places {
    pub fn take(&mut self, bytes: u64) -> u64 {
        let at = self.0;
        self.0 += bytes.next_multiple_of(16);
        at
    }
}

/// Allocates the values, and the validity bits, in a work area.
pub(super) fn take_values(column: &ParquetColumn, work: &mut Places) -> [u64; 2] {
    let rows = column.rows.end - column.rows.start;
    let values = work.take(rows * u64::from(column.ty.made));
    [values, work.take(if column.has_nulls() { rows.div_ceil(64) * 8 } else { 0 })]
}

/// Position of a column's values in its work area, which does not depend on its pages.
pub(super) fn chunk_layout(column: &ParquetColumn) -> SegmentLayout {
    let (ty, [values, valid]) = (&column.ty, take_values(column, &mut Places(0)));
    let offset = values as usize;
    let values = match ty.kind {
        Kind::Text => ValueLayout::Views { offset },
        _ => ValueLayout::Plain { bytes: ty.made as usize, signed: ty.is_signed(), offset },
    };
    SegmentLayout { validity: column.has_nulls().then_some(valid as usize), values }
}

/// Largest padding of a position, in bytes.
const PAD: u64 = 15;

/// Upper bound of the image size of a column, from its numbers of pages, stored bytes and decompressed bytes.
pub(super) fn most_image_bytes(
    (codec, codecs): (PageCodec, PageCodecs),
    (stored, uncompressed): (u64, u64),
    pages: u64,
) -> u64 {
    let large = matches!(codec, PageCodec::Zstd | PageCodec::Gzip) && uncompressed > MAX_BATCH_PAGE;
    let bytes = if codecs.has(codec) && !large { stored } else { stored.max(uncompressed) };
    HEADER + PAGE * pages + PAD + bytes + (SLACK + PAD) * pages
}

/// Upper bound of the work area of a column with so many pages and decompressed bytes; `deltas`: some values may be stored as differences.
/// Prefix-encoded values take more.
pub(super) fn most_work_bytes(
    column: &ParquetColumn,
    (codec, codecs): (PageCodec, PageCodecs),
    (uncompressed, pages): (u64, u64),
    deltas: bool,
) -> u64 {
    let (ty, rows) = (&column.ty, column.rows.end - column.rows.start);
    let mut work = Places(0);
    take_values(column, &mut work);
    // Dictionaries have at most as many entries as rows, each after its length.
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
