//! Join trees over numbered leaves.

/// A binary tree of joins; the left side of a join is its build side.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum JoinTree {
    Leaf(usize),
    Join(Box<JoinTree>, Box<JoinTree>),
}

impl JoinTree {
    pub fn join(left: JoinTree, right: JoinTree) -> Self {
        JoinTree::Join(Box::new(left), Box::new(right))
    }

    /// The bit set of the leaves below.
    pub fn leaves(&self) -> u64 {
        match self {
            JoinTree::Leaf(i) => 1 << i,
            JoinTree::Join(left, right) => left.leaves() | right.leaves(),
        }
    }
}

/// The members of a bit set in ascending order.
pub(super) fn members(set: u64) -> impl DoubleEndedIterator<Item = usize> {
    (0..64).filter(move |i| set >> i & 1 == 1)
}
