//! The window order of rows: the row at each position, and the starts of partitions and peer groups.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use rayon::prelude::*;

use super::bucket::{Entry, sort};
use crate::sort::normalize::{Direction, Prefix};
use crate::vector::Vector;

/// Number of rows per task for making entries or finding heads.
const PART_ROWS: usize = 1 << 16;

/// The order of all rows.
pub(super) struct Order {
    /// The row at each position; `None`: the input order.
    pub rows: Option<Vec<u32>>,
    /// The number of rows.
    pub len: usize,
    /// The first position of each partition, then the number of rows.
    pub partitions: Vec<u32>,
    /// The first group of each partition, then the number of groups.
    partition_groups: Vec<u32>,
    /// The first position of each group of peers, then the number of rows.
    pub groups: Vec<u32>,
}

/// The keys of all rows.
pub(super) struct Keys<'a, P> {
    /// Normalized prefixes, batch by batch.
    pub prefixes: Vec<&'a [P]>,
    /// Number of bits of a prefix.
    pub bits: u32,
    /// Number of its upper bits that belong to partition keys.
    pub partition_bits: u32,
    /// Whether there are order keys.
    pub is_ordered: bool,
    /// The keys that prefixes do not hold completely.
    pub open: Vec<(Direction, Vector)>,
    /// Number of them, from the first, that are partition keys.
    pub open_partitions: usize,
}

/// Rows of one partition.
pub(super) struct Piece {
    /// Index of the partition.
    pub number: usize,
    /// Positions of the whole partition.
    pub partition: Range<usize>,
    /// Positions of the piece.
    pub rows: Range<usize>,
    /// Peer groups of the partition.
    pub groups: Range<usize>,
    /// Index of the peer group of the piece's first row.
    pub group: usize,
}

impl Order {
    /// The order without keys: one partition of peers.
    pub fn of_source(len: usize) -> Self {
        let starts = if len == 0 { vec![0] } else { vec![0, len as u32] };
        let partition_groups = (0..starts.len() as u32).collect();
        Self { rows: None, len, partitions: starts.clone(), partition_groups, groups: starts }
    }

    /// The order by `keys`, then by row.
    pub fn new<P: Prefix>(keys: &Keys<'_, P>) -> Self {
        let len: usize = keys.prefixes.iter().map(|batch| batch.len()).sum();
        let row_bits = usize::BITS - len.leading_zeros();
        match keys.bits + row_bits {
            0..=64 => keys.order::<P, u64>(len, row_bits),
            65..=128 => keys.order::<P, u128>(len, row_bits),
            _ => keys.order::<P, (u128, u32)>(len, 0),
        }
    }

    /// By row, the number that `of` returns for the row's piece and position. `None`: rows are in input order.
    pub fn by_row(&self, of: impl Fn(&Piece, usize) -> usize + Sync) -> Option<Vec<AtomicU32>> {
        let rows = self.rows.as_ref()?;
        let numbers: Vec<AtomicU32> = (0..self.len).map(|_| AtomicU32::new(0)).collect();
        self.tasks(PART_ROWS, true).into_par_iter().for_each(|task| {
            for piece in self.pieces(task) {
                for position in piece.rows.clone() {
                    numbers[rows[position] as usize].store(of(&piece, position) as u32, Relaxed);
                }
            }
        });
        Some(numbers)
    }

    /// Divides positions `rows` into pieces of one partition each.
    pub fn pieces(&self, rows: Range<usize>) -> impl Iterator<Item = Piece> + '_ {
        let first = self.partitions.partition_point(|&start| start as usize <= rows.start).saturating_sub(1);
        let mut next = rows.start;
        (first..self.partitions.len() - 1).map_while(move |partition| {
            let at = |list: &[u32]| list[partition] as usize..list[partition + 1] as usize;
            let (all, groups) = (at(&self.partitions), at(&self.partition_groups));
            let piece = next..all.end.min(rows.end);
            next = piece.end;
            let before = self.groups[groups.clone()].partition_point(|&start| start as usize <= piece.start);
            let group = groups.start + before.saturating_sub(1);
            (!piece.is_empty()).then_some(Piece { number: partition, partition: all, rows: piece, groups, group })
        })
    }

    /// Divides all positions into ranges of `rows` rows or somewhat more for threads. Large partitions are divided if `split`.
    pub fn tasks(&self, rows: usize, split: bool) -> Vec<Range<usize>> {
        let mut tasks = vec![];
        let mut start = 0;
        for pair in self.partitions.windows(2) {
            let (first, end) = (pair[0] as usize, pair[1] as usize);
            if split && end - first > 2 * rows {
                if start < first {
                    tasks.push(start..first);
                }
                tasks.extend((first..end).step_by(rows).map(|from| from..end.min(from + rows)));
                start = end;
            } else if end - start >= rows {
                tasks.push(start..end);
                start = end;
            }
        }
        if start < self.len {
            tasks.push(start..self.len);
        }
        tasks
    }
}

impl Piece {
    /// Calls `f` with the position and the peer group of each row.
    pub fn for_each(&self, order: &Order, mut f: impl FnMut(usize, usize)) {
        let mut group = self.group;
        for row in self.rows.clone() {
            while order.groups[group + 1] as usize <= row {
                group += 1;
            }
            f(row, group);
        }
    }
}

/// Positions at which peer groups or partitions begin.
#[derive(Default)]
struct Heads {
    groups: Vec<u32>,
    /// Indices in `groups` of those that begin a partition.
    partitions: Vec<u32>,
}

impl<P: Prefix> Keys<'_, P> {
    fn order<Q: Prefix, E: Entry>(&self, len: usize, row_bits: u32) -> Order {
        let mut entries = sort(self.entries::<E>(row_bits), row_bits);
        if !self.open.is_empty() {
            let by_value = |a: &E, b: &E| self.compare_open(a.row(row_bits), b.row(row_bits), self.open.len());
            entries
                .par_chunk_by_mut(|a, b| a.agrees(*b, row_bits))
                .filter(|run| run.len() > 1)
                .for_each(|run| run.sort_unstable_by(|a, b| by_value(a, b).then_with(|| a.cmp(b))));
        }
        let heads: Vec<Heads> = (0..len)
            .into_par_iter()
            .step_by(PART_ROWS)
            .map(|from| self.heads(&entries, from..len.min(from + PART_ROWS), row_bits))
            .collect();
        let (mut groups, mut partitions, mut partition_groups) = (vec![], vec![], vec![]);
        for part in heads {
            partitions.extend(part.partitions.iter().map(|&head| part.groups[head as usize]));
            partition_groups.extend(part.partitions.iter().map(|head| groups.len() as u32 + head));
            groups.extend(part.groups);
        }
        partition_groups.push(groups.len() as u32);
        groups.push(len as u32);
        partitions.push(len as u32);
        let rows = entries.par_iter().map(|entry| entry.row(row_bits)).collect();
        Order { rows: Some(rows), len, partitions, partition_groups, groups }
    }

    /// Makes the entries of all rows, in parts.
    fn entries<E: Entry>(&self, row_bits: u32) -> Vec<Vec<E>> {
        let mut parts: Vec<(u32, Vec<&[P]>)> = vec![];
        let (mut row, mut room) = (0u32, 0usize);
        for &batch in &self.prefixes {
            if room == 0 {
                parts.push((row, vec![]));
                room = PART_ROWS;
            }
            parts.last_mut().expect("one was pushed").1.push(batch);
            row += batch.len() as u32;
            room = room.saturating_sub(batch.len());
        }
        let part = |(first, batches): (u32, Vec<&[P]>)| {
            let prefixes = batches.into_iter().flatten();
            prefixes.zip(first..).map(|(prefix, row)| E::new(prefix.wide(), row, row_bits)).collect()
        };
        parts.into_par_iter().map(part).collect()
    }

    /// Compares two rows by the first `keys` open keys.
    fn compare_open(&self, a: u32, b: u32, keys: usize) -> Ordering {
        let mut orders =
            self.open[..keys].iter().map(|(key, values)| key.compare(values, a as usize, values, b as usize));
        orders.find(|order| *order != Ordering::Equal).unwrap_or(Ordering::Equal)
    }

    /// The heads of groups and partitions among positions `range`.
    fn heads<E: Entry>(&self, entries: &[E], range: Range<usize>, row_bits: u32) -> Heads {
        let order_bits = self.bits - self.partition_bits + row_bits;
        let mut heads = Heads::default();
        for position in range {
            let entry = entries[position];
            let before = position.checked_sub(1).map(|before| entries[before]);
            let open = |keys: usize| {
                before.is_some_and(|before| self.compare_open(before.row(row_bits), entry.row(row_bits), keys).is_eq())
            };
            let same_partition =
                before.is_some_and(|before| before.agrees(entry, order_bits)) && open(self.open_partitions);
            let same_group = same_partition
                && (!self.is_ordered
                    || before.is_some_and(|before| before.agrees(entry, row_bits)) && open(self.open.len()));
            if !same_partition {
                heads.partitions.push(heads.groups.len() as u32);
            }
            if !same_group {
                heads.groups.push(position as u32);
            }
        }
        heads
    }
}
