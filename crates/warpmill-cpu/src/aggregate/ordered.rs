//! Groups of rows that arrive in key order.
//!
//! Tables are often clustered by a column that queries group by (the lines of an order). As long as a worker's keys ascend, a row belongs to the
//! group of the row before it, or begins a new one: nothing is hashed. Workers share the row segments of a scan, so that their groups interleave. A
//! piece is a range of a worker's groups; where the key ranges of all workers' pieces overlap at their ends only, pieces are disjoint but for groups
//! at their ends, which are merged.

use super::accumulate::Accumulator;

/// Groups with ascending keys of one word each.
#[derive(Debug, Clone, Default)]
pub(super) struct Ordered {
    /// Key of each group.
    keys: Vec<u64>,
    /// The first group of each piece.
    pieces: Vec<u32>,
}

/// A piece among those of all workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    first_key: u64,
    last_key: u64,
    worker: usize,
    /// Range of its groups.
    start: u32,
    end: u32,
}

/// A group of one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    pub worker: usize,
    pub group: u32,
}

/// Two groups with one key: the second is merged into the first and no longer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Same {
    pub into: Member,
    pub from: Member,
}

impl Ordered {
    /// Writes the group of each row to `ids` if the rows' keys `words` ascend and are not below the last key; otherwise changes nothing and returns
    /// false.
    pub fn find_or_insert(&mut self, words: &[u64], ids: &mut Vec<u32>) -> bool {
        let Some(&first) = words.first() else {
            ids.clear();
            return true;
        };
        let last = self.keys.last().copied();
        if last.is_some_and(|last| last > first) || !ascend(words) || self.keys.len() + words.len() > u32::MAX as usize
        {
            return false;
        }
        if last != Some(first) {
            self.pieces.push(self.keys.len() as u32);
            self.keys.push(first);
        }
        let (mut group, mut before) = (self.keys.len() - 1, first);
        // Writes a key for every row and advances only for new groups: no branches.
        self.keys.resize(group + 1 + words.len(), 0);
        ids.clear();
        ids.extend(words.iter().map(|&word| {
            group += usize::from(word != before);
            before = word;
            self.keys[group] = word;
            group as u32
        }));
        self.keys.truncate(group + 1);
        true
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// The keys of all groups.
    pub fn into_keys(self) -> Vec<u64> {
        self.keys
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        self.keys.capacity() * 8 + self.pieces.capacity() * 4
    }

    fn pieces(&self, worker: usize) -> impl Iterator<Item = Piece> {
        let ends = self.pieces.iter().skip(1).copied().chain([self.keys.len() as u32]);
        self.pieces.iter().zip(ends).map(move |(&start, end)| Piece {
            first_key: self.keys[start as usize],
            last_key: self.keys[end as usize - 1],
            worker,
            start,
            end,
        })
    }
}

/// Whether no value is less than the one before it.
fn ascend(words: &[u64]) -> bool {
    words.iter().zip(&words[1..]).fold(true, |all, (a, b)| all & (a <= b))
}

/// Pairs of groups with the same key, in merge order; `None` where pieces overlap by more than their ends.
pub(super) fn same_groups(workers: &[&Ordered]) -> Option<Vec<Same>> {
    let mut pieces: Vec<Piece> = workers.iter().enumerate().flat_map(|(at, worker)| worker.pieces(at)).collect();
    pieces.sort_unstable();
    let mut same = vec![];
    // The greatest key so far, and its group.
    let mut last: Option<(u64, Member)> = None;
    for piece in pieces {
        let member = |group| Member { worker: piece.worker, group };
        match last {
            Some((key, _)) if piece.first_key < key => return None,
            Some((key, into)) if piece.first_key == key => {
                same.push(Same { into, from: member(piece.start) });
                if piece.first_key == piece.last_key {
                    continue;
                }
            }
            _ => {}
        }
        last = Some((piece.last_key, member(piece.end - 1)));
    }
    Some(same)
}

/// Merges the states of the pairs `same`.
pub(super) fn merge_states(slots: &mut [Vec<Accumulator>], same: &[Same]) {
    for Same { into, from } in same {
        let others = slots[from.worker].iter().map(|slot| slot.gather(&[from.group])).collect::<Vec<_>>();
        for (slot, other) in slots[into.worker].iter_mut().zip(&others) {
            slot.merge(&[into.group], other, &[0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(batches: &[&[u64]]) -> Ordered {
        let (mut ordered, mut ids) = (Ordered::default(), vec![]);
        for batch in batches {
            assert!(ordered.find_or_insert(batch, &mut ids), "{batch:?}");
            assert_eq!(ids.len(), batch.len());
        }
        ordered
    }

    #[test]
    fn rows_of_one_key_are_a_group() {
        let (mut ordered, mut ids) = (Ordered::default(), vec![7]);
        assert!(ordered.find_or_insert(&[], &mut ids) && ids.is_empty() && ordered.len() == 0);
        assert!(ordered.find_or_insert(&[0, 0, 3, 3, 3, u64::MAX], &mut ids));
        assert_eq!(ids, [0, 0, 1, 1, 1, 2]);
        assert!(ordered.find_or_insert(&[u64::MAX, u64::MAX], &mut ids));
        assert_eq!(ids, [2, 2]);
        assert_eq!((ordered.pieces.len(), ordered.keys.as_slice()), (1, [0, 3, u64::MAX].as_slice()));
    }

    #[test]
    fn rows_out_of_order_change_nothing() {
        let mut ordered = of(&[&[5, 6], &[8]]);
        let (keys, mut ids) = (ordered.keys.clone(), vec![]);
        for batch in [&[7][..], &[8, 9, 8], &[9, 0]] {
            assert!(!ordered.find_or_insert(batch, &mut ids));
        }
        assert_eq!((ordered.keys, ordered.pieces), (keys, vec![0, 2]));
    }

    #[test]
    fn ends_of_pieces_are_merged() {
        // Three workers take turns; 4 is in all of them, 9 ends a piece and begins one.
        let (a, b, c) = (of(&[&[1, 4], &[9, 12]]), of(&[&[4, 4], &[20]]), of(&[&[4, 7, 9], &[30]]));
        let member = |worker, group| Member { worker, group };
        let same = same_groups(&[&a, &b, &c]).unwrap();
        assert_eq!(
            same,
            [
                Same { into: member(0, 1), from: member(1, 0) },
                Same { into: member(0, 1), from: member(2, 0) },
                Same { into: member(2, 2), from: member(0, 2) },
            ]
        );
        assert_eq!(same_groups(&[]), Some(vec![]));
        assert_eq!(same_groups(&[&a, &Ordered::default()]), Some(vec![]));
    }

    #[test]
    fn overlapping_pieces_are_not() {
        assert_eq!(same_groups(&[&of(&[&[1, 5]]), &of(&[&[3]])]), None);
        assert_eq!(same_groups(&[&of(&[&[1, 5]]), &of(&[&[1, 2]])]), None);
        assert_eq!(same_groups(&[&of(&[&[1], &[5]]), &of(&[&[3]])]), Some(vec![]));
    }
}
