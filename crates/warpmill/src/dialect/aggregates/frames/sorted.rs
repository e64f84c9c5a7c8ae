//! A sorted collection with access by rank, for values that enter and leave.

/// The most elements of a block.
const MOST: usize = 512;

/// Elements in order, in blocks of limited size: changes move the elements of one block, access by rank counts blocks.
#[derive(Debug)]
pub(super) struct Sorted<T> {
    /// Non-empty blocks.
    blocks: Vec<Vec<T>>,
    count: usize,
}

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Self { blocks: vec![], count: 0 }
    }
}

impl<T: Ord> Sorted<T> {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The first block whose last element is not less than `value`.
    fn block(&self, value: &T) -> usize {
        self.blocks.partition_point(|block| block.last().is_some_and(|last| last < value))
    }

    pub(super) fn insert(&mut self, value: T) {
        self.count += 1;
        if self.blocks.is_empty() {
            return self.blocks.push(vec![value]);
        }
        let at = self.block(&value).min(self.blocks.len() - 1);
        let block = &mut self.blocks[at];
        block.insert(block.partition_point(|other| *other < value), value);
        if block.len() > MOST {
            let upper = block.split_off(MOST / 2);
            self.blocks.insert(at + 1, upper);
        }
    }

    /// Removes an element that is equal to `value`, if there is one.
    pub(super) fn remove(&mut self, value: &T) {
        let at = self.block(value);
        let Some(block) = self.blocks.get_mut(at) else { return };
        let place = block.partition_point(|other| other < value);
        if block[place] == *value {
            block.remove(place);
            self.count -= 1;
        }
        if block.is_empty() {
            self.blocks.remove(at);
        }
    }

    /// The element of a rank from 0.
    ///
    /// # Panics
    /// There are not so many elements.
    pub(super) fn get(&self, mut rank: usize) -> &T {
        for block in &self.blocks {
            match block.get(rank) {
                Some(found) => return found,
                None => rank -= block.len(),
            }
        }
        panic!("rank {rank} is past the last element")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_a_sorted_vector() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut sorted, mut expected) = (Sorted::default(), vec![]);
        for step in 0..20_000 {
            let value = random(700);
            // Grows at first, shrinks at the end.
            if random(20_000) > step {
                sorted.insert(value);
                expected.push(value);
            } else if !expected.is_empty() {
                let removed = expected.swap_remove(random(expected.len() as u64) as usize);
                sorted.remove(&removed);
            }
            sorted.remove(&1000);
            assert_eq!(sorted.len(), expected.len());
            if step % 500 == 0 || step > 19_900 {
                expected.sort_unstable();
                let found: Vec<u64> = (0..sorted.len()).map(|rank| *sorted.get(rank)).collect();
                assert_eq!(found, expected);
            }
        }
        expected.iter().for_each(|value| sorted.remove(value));
        assert!(sorted.len() == 0 && sorted.blocks.is_empty());
    }
}
