//! Memory available for the results of one call.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use warpmill_eval::free_memory;

use crate::settings::WarpmillOptions;

/// Bytes that are always available, enough for a batch of ordinary texts.
const LEAST: usize = 64 << 20;

/// Largest size of a result of this type: limited by a quarter of the query's limit, since several such results exist at a time, half of the
/// machine's free memory, and the type. `size` is the requested size.
pub(super) fn room(config: &ConfigOptions, data_type: &DataType, size: usize) -> usize {
    if size <= LEAST {
        return size;
    }
    let limit = WarpmillOptions::of(config).memory_limit;
    let held = match data_type {
        DataType::Utf8 | DataType::Binary => i32::MAX as usize,
        _ => usize::MAX,
    };
    let within = if limit == usize::MAX { limit } else { limit / 4 };
    within.max(LEAST).min(held).min(free_memory().map_or(usize::MAX, |free| free / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_within_limits() {
        let config = ConfigOptions::default();
        assert_eq!(room(&config, &DataType::Utf8, 1000), 1000);
        assert!(room(&config, &DataType::Utf8, usize::MAX) <= i32::MAX as usize);
        let limited = WarpmillOptions { memory_limit: 1 << 20, ..WarpmillOptions::default() };
        let mut config = ConfigOptions::default();
        config.extensions.insert(limited);
        assert!(room(&config, &DataType::Utf8, usize::MAX) <= LEAST);
    }
}
