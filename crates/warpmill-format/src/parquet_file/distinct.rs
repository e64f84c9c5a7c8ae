//! Estimates of distinct values, from the headers of dictionary pages.

use std::sync::Arc;

use super::ParquetFile;
use super::pages::dictionary_header;

/// Number of row groups whose dictionaries are read: more would add little, and each is a read.
const SAMPLED: usize = 2;
/// If a smaller fraction of a row group's rows have distinct values, other row groups are assumed to have the same values.
const REPEATED: f64 = 0.1;

/// Estimated number of distinct values of column `name` of `files`; `None` without dictionaries. Reads the headers of at most two dictionaries.
pub fn distinct_values(files: &[Arc<ParquetFile>], name: &str) -> Option<f64> {
    let groups = files.iter().flat_map(|file| (0..file.metadata().num_row_groups()).map(move |group| (file, group)));
    let rows = |&(file, group): &(&Arc<ParquetFile>, usize)| file.metadata().row_group(group).num_rows();
    let all: f64 = groups.clone().map(|group| rows(&group) as f64).sum();
    let (mut values, mut sampled) = (0u64, 0f64);
    let mut most = 0u64;
    // Not neighbours: their values may be alike.
    let step = groups.clone().count().div_ceil(SAMPLED).max(1);
    for (file, group) in groups.step_by(step) {
        let column = file.leaf(name)?;
        let found = dictionary_header(file, group, column)?;
        (values, most) = (values + found, most.max(found));
        sampled += rows(&(file, group)).max(0) as f64;
    }
    if sampled == 0.0 {
        return None;
    }
    let share = values as f64 / sampled;
    Some(if share < REPEATED { most as f64 } else { (share * all).min(all) })
}
