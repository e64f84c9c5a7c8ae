//! Semantic-aware weights (Algorithm 2): the time that a query would take without a segment's copy, less the time with it and those that are
//! correlated with it.
//!
//! The model (section 4.1.2.2) is one of bytes and bandwidths. A row segment is run by the device, to which the columns without a copy travel,
//! or by the CPU; both work at the same time, so that a row segment takes as long as if each did its share of it.

use super::history::History;

/// Seconds saved per byte.
pub(super) fn rank(history: &History, bytes: u64) -> f64 {
    history.weight / bytes.max(1) as f64
}

/// The use that a query makes of a column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// In the conjunct of a filter with this number.
    Filter(usize),
    /// A key of a join.
    Join,
    /// A group key, or the argument of an aggregate.
    Group,
    /// Another one.
    #[default]
    Other,
}

/// A column of a row segment that a query reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnUse {
    /// Encoded bytes.
    pub bytes: u64,
    /// Whether the caching region has a copy.
    pub cached: bool,
    /// The use.
    pub role: Role,
}

/// Bytes per second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bandwidths {
    /// That the CPU decodes and works on, with all threads.
    pub cpu: f64,
    /// That the device reads of its memory.
    pub device: f64,
    /// Of the link.
    pub link: f64,
}

/// Bytes per second that a thread of the CPU decodes and works on.
pub(crate) const CPU_THREAD: f64 = 1.2e9;

/// Bytes of cache lines that a probe reads, in the CPU's memory and in the device's, times the part of them that no cache has.
const PROBE: (f64, f64) = (64.0 * 0.25, 128.0 * 0.25);

/// Seconds for a row segment of `rows` rows, with copies of the columns that `cached` says.
fn seconds(columns: &[ColumnUse], rows: u64, rates: &Bandwidths, cached: impl Fn(usize) -> bool) -> f64 {
    let sum = |which: &dyn Fn(usize) -> bool| {
        let bytes = columns.iter().enumerate().filter(|(index, _)| which(*index)).map(|(_, column)| column.bytes);
        bytes.sum::<u64>() as f64
    };
    let probes = rows as f64 * columns.iter().filter(|column| column.role == Role::Join).count() as f64;
    let all = sum(&|_| true);
    let cpu = (all + probes * PROBE.0) / rates.cpu;
    let device = (all + probes * PROBE.1) / rates.device;
    let device = device.max(sum(&|index| !cached(index)) / rates.link);
    1.0 / (1.0 / cpu + 1.0 / device)
}

/// The weight that a query adds to each column of a row segment of `rows` rows.
pub(crate) fn weights(columns: &[ColumnUse], rows: u64, rates: &Bandwidths) -> Vec<f64> {
    let mut weights = vec![0.0; columns.len()];
    for own in 0..columns.len() {
        let correlated = |other: usize| {
            other != own
                && match (columns[own].role, columns[other].role) {
                    (Role::Filter(a), Role::Filter(b)) => a == b,
                    (Role::Group, Role::Group) => true,
                    _ => false,
                }
        };
        let without = seconds(columns, rows, rates, |index| index != own && columns[index].cached);
        let with = seconds(columns, rows, rates, |index| index == own || correlated(index) || columns[index].cached);
        let weight = (without - with).max(0.0);
        weights[own] += weight;
        let others: Vec<usize> = (0..columns.len()).filter(|&other| correlated(other)).collect();
        others.iter().for_each(|&other| weights[other] += weight / others.len() as f64);
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Bandwidths = Bandwidths { cpu: 20e9, device: 3e12, link: 50e9 };

    fn column(bytes: u64, cached: bool, role: Role) -> ColumnUse {
        ColumnUse { bytes, cached, role }
    }

    #[test]
    fn what_completes_a_row_segment_weighs_most() {
        let alone = weights(&[column(1 << 20, false, Role::Other); 3], 1 << 20, &RATES);
        let last = [
            column(1 << 20, true, Role::Other),
            column(1 << 20, true, Role::Other),
            column(1 << 20, false, Role::Other),
        ];
        let last = weights(&last, 1 << 20, &RATES);
        assert!(last[2] > alone[2] && alone.iter().all(|weight| *weight > 0.0));
    }

    #[test]
    fn correlated_columns_share_a_weight() {
        let columns = [
            column(1 << 20, false, Role::Group),
            column(1 << 20, false, Role::Group),
            column(1 << 20, false, Role::Other),
        ];
        let weights = weights(&columns, 1 << 20, &RATES);
        assert!(weights[0] > weights[2] && (weights[0] - weights[1]).abs() < 1e-12);
    }

    #[test]
    fn joins_make_the_device_worth_more() {
        // Values of four bytes: the CPU's probes cost more than the device's.
        let plain = weights(&[column(4 << 20, false, Role::Other)], 1 << 20, &RATES)[0];
        assert!(weights(&[column(4 << 20, false, Role::Join)], 1 << 20, &RATES)[0] > plain);
    }
}
