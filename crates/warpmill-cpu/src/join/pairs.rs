//! Enumerates the pairs of a chunk's matches in batches of at most a chunk.

use super::Matches;
use crate::vector::NULL_ROW;

/// Matching rows: `probe[i]` of the chunk pairs with `build[i]` of the table (or [`NULL_ROW`]).
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub probe: Vec<u32>,
    pub build: Vec<u32>,
}

impl Pairs {
    pub fn len(&self) -> usize {
        self.probe.len()
    }

    pub fn clear(&mut self) {
        self.probe.clear();
        self.build.clear();
    }

    /// Keeps the pairs at positions `which` (ascending) only.
    pub fn keep(&mut self, which: &[u32]) {
        if which.len() == self.len() {
            return;
        }
        for (to, &from) in which.iter().enumerate() {
            self.probe[to] = self.probe[from as usize];
            self.build[to] = self.build[from as usize];
        }
        self.probe.truncate(which.len());
        self.build.truncate(which.len());
    }

    #[inline(always)]
    fn push(&mut self, probe: u32, build: u32) {
        self.probe.push(probe);
        self.build.push(build);
    }
}

/// The order of pairs and the size of batches.
pub(super) enum Enumerate {
    /// All matches of a row, then those of the next, in full batches. This is logical compaction in the order that keeps the rows of both sides
    /// together.
    Rows { row: usize, offset: u32 },
    /// The first match of every row, then the second of each row that has one, and so on: the successive `Next()` calls of the chunk compaction paper
    /// (section 2.2). A batch is one step, or, with `accumulate`, as many steps as fit.
    Steps { active: Vec<u32>, at: usize, step: u32, accumulate: bool },
}

impl Enumerate {
    pub fn rows() -> Self {
        Enumerate::Rows { row: 0, offset: 0 }
    }

    /// Enumeration in steps. With `outer`, rows without a match pair with [`NULL_ROW`], here and in [`Enumerate::next`].
    pub fn steps(matches: &Matches, outer: bool, accumulate: bool) -> Self {
        let active = (0..matches.lens.len() as u32).filter(|&row| outer || matches.lens[row as usize] > 0).collect();
        Enumerate::Steps { active, at: 0, step: 0, accumulate }
    }

    /// Replaces `out` by the next batch of at most `cap` pairs; false when there are no more. `matches.lens` must be filled. With
    /// [`Enumerate::Steps`], rows with a flag in `done` are skipped from the next step on.
    pub fn next(&mut self, matches: &Matches, outer: bool, done: &[bool], cap: usize, out: &mut Pairs) -> bool {
        out.clear();
        match self {
            Enumerate::Rows { row, offset } => {
                while *row < matches.lens.len() && out.len() < cap {
                    let (start, len) = (matches.starts[*row], matches.lens[*row]);
                    if len == 0 {
                        if outer {
                            out.push(*row as u32, NULL_ROW);
                        }
                        *row += 1;
                        continue;
                    }
                    let end = len.min(*offset + (cap - out.len()) as u32);
                    (*offset..end).for_each(|i| out.push(*row as u32, start + i));
                    (*row, *offset) = if end == len { (*row + 1, 0) } else { (*row, end) };
                }
                out.len() > 0
            }
            Enumerate::Steps { active, at, step, accumulate } => {
                while out.len() < cap {
                    if *at == active.len() {
                        *at = 0;
                        *step += 1;
                        active.retain(|&row| {
                            matches.lens[row as usize] > *step && !done.get(row as usize).is_some_and(|&done| done)
                        });
                        if active.is_empty() || (!*accumulate && out.len() > 0) {
                            break;
                        }
                    }
                    let end = active.len().min(*at + cap - out.len());
                    for &row in &active[*at..end] {
                        let matched = matches.lens[row as usize] > 0;
                        out.push(row, if matched { matches.starts[row as usize] + *step } else { NULL_ROW });
                    }
                    *at = end;
                }
                out.len() > 0
            }
        }
    }
}
