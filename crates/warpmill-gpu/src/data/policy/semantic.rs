//! Semantic-aware weights (Algorithm 2): the time that a query takes without a segment's copy, less the time with copies of it and of the segments
//! correlated with it.
//!
//! The model (section 4.1.2.2) is one of bytes and bandwidths. A row segment runs on the device, to which the columns without a copy are transferred,
//! or on the CPU. Both work at the same time, so the time of a row segment is that of the combined rate.

use super::history::History;

/// Ranks by seconds saved per byte.
pub(super) fn rank(history: &History, bytes: u64) -> f64 {
    history.weight / bytes.max(1) as f64
}

/// The role of a column in a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// Operand of the filter conjunct with this number.
    Filter(usize),
    /// Join key.
    Join,
    /// Group key, or argument of an aggregate.
    Group,
    /// Any other role.
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
    pub role: Role,
}

/// Bandwidths in bytes per second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bandwidths {
    /// Decoding and processing on the CPU, all threads.
    pub cpu: f64,
    /// Reads of the device's memory.
    pub device: f64,
    /// Transfers over the link.
    pub link: f64,
}

/// Expected bytes from memory per probe, on the CPU and on the device: a cache line times the cache miss rate.
const PROBE: (f64, f64) = (64.0 * 0.25, 128.0 * 0.25);

/// Cost of a row segment.
struct Work {
    /// Row segments of this kind that the CPU processes per second.
    cpu_rate: f64,
    /// Seconds on the device, without transfers.
    device: f64,
    link: f64,
}

impl Work {
    fn new(columns: &[ColumnUse], rows: u64, rates: &Bandwidths) -> Self {
        let probes = rows as f64 * columns.iter().filter(|column| column.role == Role::Join).count() as f64;
        let all = columns.iter().map(|column| column.bytes).sum::<u64>() as f64;
        let cpu = (all + probes * PROBE.0) / rates.cpu;
        Self { cpu_rate: 1.0 / cpu, device: (all + probes * PROBE.1) / rates.device, link: rates.link }
    }

    /// Seconds if `travelling` bytes are transferred.
    fn seconds(&self, travelling: u64) -> f64 {
        let device = self.device.max(travelling as f64 / self.link);
        1.0 / (self.cpu_rate + 1.0 / device)
    }
}

/// The weight that a query adds to each column of a row segment of `rows` rows.
pub(crate) fn weights(columns: &[ColumnUse], rows: u64, rates: &Bandwidths) -> Vec<f64> {
    let mut weights = vec![0.0; columns.len()];
    let work = Work::new(columns, rows, rates);
    let travels = |column: &ColumnUse| if column.cached { 0 } else { column.bytes };
    let travelling: u64 = columns.iter().map(travels).sum();
    for (own, column) in columns.iter().enumerate() {
        let correlated = |&other: &usize| {
            other != own
                && match (column.role, columns[other].role) {
                    (Role::Filter(a), Role::Filter(b)) => a == b,
                    (Role::Group, Role::Group) => true,
                    _ => false,
                }
        };
        let others = || (0..columns.len()).filter(correlated);
        let (mut count, mut spared) = (0.0, travels(column));
        others().for_each(|other| (count, spared) = (count + 1.0, spared + travels(&columns[other])));
        let without = work.seconds(travelling - travels(column) + column.bytes);
        let weight = (without - work.seconds(travelling - spared)).max(0.0);
        weights[own] += weight;
        others().for_each(|other| weights[other] += weight / count);
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

    /// Weights by the definition of the algorithm: the times with each set of copies, computed from scratch.
    fn by_definition(columns: &[ColumnUse], rows: u64) -> Vec<f64> {
        let seconds = |cached: &dyn Fn(usize) -> bool| {
            let travelling = (0..columns.len()).filter(|&column| !cached(column)).map(|column| columns[column].bytes);
            Work::new(columns, rows, &RATES).seconds(travelling.sum())
        };
        let mut weights = vec![0.0; columns.len()];
        for own in 0..columns.len() {
            let correlated = |other: usize| {
                let same = columns[own].role == columns[other].role;
                other != own && same && matches!(columns[own].role, Role::Filter(_) | Role::Group)
            };
            let without = seconds(&|column| column != own && columns[column].cached);
            let with = seconds(&|column| column == own || correlated(column) || columns[column].cached);
            let others: Vec<usize> = (0..columns.len()).filter(|&other| correlated(other)).collect();
            weights[own] += (without - with).max(0.0);
            others.iter().for_each(|&other| weights[other] += (without - with).max(0.0) / others.len() as f64);
        }
        weights
    }

    #[test]
    fn weights_are_those_of_the_definition() {
        let roles = [Role::Filter(0), Role::Filter(1), Role::Join, Role::Group, Role::Other];
        let mut state = 1u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for _ in 0..500 {
            let count = next(8);
            let columns: Vec<ColumnUse> =
                (0..count).map(|_| column(next(8 << 20), next(2) == 0, roles[next(5) as usize])).collect();
            let rows = next(1 << 20);
            assert_eq!(weights(&columns, rows, &RATES), by_definition(&columns, rows));
        }
    }

    #[test]
    fn joins_make_the_device_worth_more() {
        // Values of four bytes: the CPU's probes cost more than the device's.
        let plain = weights(&[column(4 << 20, false, Role::Other)], 1 << 20, &RATES)[0];
        assert!(weights(&[column(4 << 20, false, Role::Join)], 1 << 20, &RATES)[0] > plain);
    }
}
