//! Whether the page indexes that come with a footer fit it.

use std::cmp::Ordering;

use parquet::basic::{BoundaryOrder, SortOrder};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;
use parquet::file::statistics::Statistics;

use super::index::Locations;
use super::thrift::{OffsetIndex, PageLocation};

/// Ok, or a description of the contradiction.
type Checked = std::result::Result<(), String>;

/// The stored form of an offset index.
pub(super) fn stored(index: &OffsetIndexMetaData) -> OffsetIndex {
    let location = |page: &parquet::file::page_index::offset_index::PageLocation| PageLocation {
        offset: page.offset,
        bytes: page.compressed_page_size.into(),
        first_row: page.first_row_index,
    };
    OffsetIndex { pages: index.page_locations().iter().map(location).collect() }
}

/// Checks the column index of a column chunk, whose pages are at `locations`, against them and the footer's statistics.
pub(super) fn check_index(
    index: &ColumnIndexMetaData,
    chunk: &ColumnChunkMetaData,
    locations: Option<&Locations>,
) -> Checked {
    if matches!(index, ColumnIndexMetaData::NONE) {
        return Ok(());
    }
    if locations.is_some_and(|locations| locations.len() as u64 != index.num_pages()) {
        return Err(format!("a column index of {} pages, and an offset index of others", index.num_pages()));
    }
    let stats = chunk.statistics();
    if let Some(counts) = index.null_counts() {
        let all = counts.iter().try_fold(0u64, |all, count| all.checked_add(u64::try_from(*count).ok()?));
        let said = stats.and_then(Statistics::null_count_opt);
        if counts.len() as u64 != index.num_pages() || all.is_none() || said.is_some_and(|said| all != Some(said)) {
            return Err("a column index of other NULLs than the footer's".into());
        }
    }
    let sorted = chunk.column_descr().sort_order();
    /// Pairs of numbers in the order of their type; `None` where that has none.
    macro_rules! numbers {
        ($pairs:expr, $unsigned:ty) => {
            match sorted {
                SortOrder::SIGNED => Some($pairs.map(|(a, b)| (i128::from(a), i128::from(b))).collect::<Vec<_>>()),
                SortOrder::UNSIGNED => {
                    Some($pairs.map(|(a, b)| (i128::from(a as $unsigned), i128::from(b as $unsigned))).collect())
                }
                SortOrder::UNDEFINED => None,
            }
        };
    }
    /// The same for the bounds of pages with values.
    macro_rules! bounds {
        ($index:expr, $unsigned:ty) => {{
            let pairs = $index.min_values_iter().zip($index.max_values_iter());
            let pairs = pairs.filter_map(|(least, greatest)| Some((*least?, *greatest?)));
            numbers!(pairs, $unsigned)
        }};
    }
    let (bounds, said) = match (index, stats) {
        (ColumnIndexMetaData::INT32(index), Some(Statistics::Int32(stats))) => {
            let said = stats.min_opt().zip(stats.max_opt()).into_iter().map(|(a, b)| (*a, *b));
            (bounds!(index, u32), numbers!(said, u32))
        }
        (ColumnIndexMetaData::INT64(index), Some(Statistics::Int64(stats))) => {
            let said = stats.min_opt().zip(stats.max_opt()).into_iter().map(|(a, b)| (*a, *b));
            (bounds!(index, u64), numbers!(said, u64))
        }
        _ => return Ok(()),
    };
    let Some(bounds) = bounds else { return Ok(()) };
    let ordered = |a: &(i128, i128), b: &(i128, i128), order: Ordering| {
        [a.0.cmp(&b.0), a.1.cmp(&b.1)].iter().all(|found| *found == order || *found == Ordering::Equal)
    };
    let all = |order| bounds.is_sorted_by(|a, b| ordered(a, b, order));
    let in_order = match index.get_boundary_order() {
        Some(BoundaryOrder::ASCENDING) => all(Ordering::Less),
        Some(BoundaryOrder::DESCENDING) => all(Ordering::Greater),
        _ => true,
    };
    if !in_order || bounds.iter().any(|(least, greatest)| least > greatest) {
        return Err("a column index whose bounds are out of order".into());
    }
    let own = bounds.iter().copied().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let said = said.and_then(|said| said.first().copied());
    match said.zip(own).is_some_and(|(said, own)| said != own) {
        true => Err("a column index of other bounds than the footer's".into()),
        false => Ok(()),
    }
}
