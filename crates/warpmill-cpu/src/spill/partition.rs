//! Rows partitioned by key hash into blocks of a file.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{BLOCK_ROWS, Block, SpillFile};
use crate::context::{QueryContext, Result};
use crate::vector::Vector;

/// Number of partitions of one division.
pub(crate) const PARTITIONS: usize = 16;
/// Largest number of divisions of a partition that does not fit, each by other bits of the hash.
pub(crate) const MOST_DEPTH: u32 = 4;

/// The partition of a key with hash `hash` in a division at `depth`.
#[inline(always)]
pub(crate) fn of_hash(hash: u64, depth: u32) -> u8 {
    // Tables within a partition use the bits of the hash itself.
    let product = u128::from(hash ^ 0x9e6c_63d0_876a_3f6b) * u128::from(0xd1b5_4a32_d192_ed03u64);
    let mixed = product as u64 ^ (product >> 64) as u64;
    (mixed >> (60 - 4 * depth)) as u8 & (PARTITIONS as u8 - 1)
}

/// Rows in the blocks of a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Part {
    /// `None` only where there are no blocks.
    pub file: Option<Arc<SpillFile>>,
    /// Blocks in the order of writing.
    pub blocks: Vec<Block>,
}

impl Part {
    /// Number of rows of all blocks.
    pub fn rows(&self) -> usize {
        self.blocks.iter().map(|block| block.rows).sum()
    }

    /// Bytes of all blocks.
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().map(Block::bytes).sum()
    }

    /// Reads the columns of block `index`.
    pub fn read(&self, index: usize) -> Result<Vec<Vector>> {
        self.file.as_ref().expect("a part with blocks has a file").read(&self.blocks[index])
    }
}

/// A file whose blocks belong to partitions. Any number of threads may write.
#[derive(Debug)]
pub(crate) struct Partitioned {
    file: Arc<SpillFile>,
    parts: Vec<Mutex<Vec<Block>>>,
}

impl Partitioned {
    /// A new file with `parts` partitions.
    pub fn create(query: &QueryContext, parts: usize) -> Result<Self> {
        let file = Arc::new(query.spill.create()?);
        Ok(Self { file, parts: (0..parts).map(|_| Mutex::default()).collect() })
    }

    /// Writes row `i` of `columns` to partition `ids[i]`. Returns the bytes written.
    pub fn write(&self, columns: &[&Vector], ids: &[u8]) -> Result<u64> {
        let mut bytes = 0;
        let mut rows: Vec<Vec<u32>> = vec![vec![]; self.parts.len()];
        ids.iter().enumerate().for_each(|(row, &id)| rows[id as usize].push(row as u32));
        for (id, rows) in rows.iter().enumerate() {
            for rows in rows.chunks(BLOCK_ROWS) {
                let gathered: Vec<Vector> = columns.iter().map(|column| column.gather(rows)).collect();
                let block = self.file.append(&gathered.iter().collect::<Vec<_>>(), rows.len())?;
                bytes += block.bytes();
                self.parts[id].lock().push(block);
            }
        }
        Ok(bytes)
    }

    /// The partitions; complete after the last write.
    pub fn parts(&self) -> Vec<Part> {
        let part = |blocks: &Mutex<Vec<Block>>| Part { file: Some(self.file.clone()), blocks: blocks.lock().clone() };
        self.parts.iter().map(part).collect()
    }
}
