//! Classes of equal columns: the scan columns from which join keys come.

use std::collections::HashMap;

use warpmill_ir::origin::{self, ScanColumn, column};
use warpmill_ir::{Program, Sink, SinkId};

/// Equivalence classes of scan columns that joins compare, each with a representative.
#[derive(Default)]
pub struct Classes {
    parents: HashMap<ScanColumn, ScanColumn>,
}

impl Classes {
    /// Makes the classes of the scan columns that the joins of a program compare.
    pub fn new(program: &Program) -> Self {
        let mut classes = Self::default();
        for (index, pipeline) in program.pipelines.iter().enumerate() {
            for (position, probe) in warpmill_ir::graph::probes(pipeline) {
                // ASOF joins are not partitioned.
                if probe.asof.is_some() {
                    continue;
                }
                let Sink::HashBuild { keys, .. } = &program.sinks[probe.build] else { continue };
                for (own, built) in probe.keys.iter().zip(keys) {
                    let own = column(own).and_then(|own| origin(program, index, own, position));
                    let built = column(built).and_then(|built| into_sink(program, probe.build, built));
                    if let (Some(own), Some(built)) = (own, built) {
                        classes.join(own, built);
                    }
                }
            }
        }
        classes
    }

    /// The representative of the class of `of`.
    pub fn find(&self, mut of: ScanColumn) -> ScanColumn {
        while let Some(&parent) = self.parents.get(&of) {
            of = parent;
        }
        of
    }

    fn join(&mut self, one: ScanColumn, other: ScanColumn) {
        let (one, other) = (self.find(one), self.find(other));
        if one != other {
            self.parents.insert(one, other);
        }
    }

    /// The scan columns of the class of `of`, one for each pipeline that has any.
    pub fn members(&self, of: ScanColumn) -> HashMap<usize, usize> {
        let class = self.find(of);
        let all = self.parents.keys().chain(self.parents.values()).filter(|&&member| self.find(member) == class);
        let mut members: Vec<ScanColumn> = all.copied().chain([of]).collect();
        members.sort_unstable();
        let mut members: HashMap<usize, usize> = members.into_iter().rev().collect();
        members.insert(of.0, of.1);
        members
    }
}

/// The scan column from which column `index` before operator `position` of pipeline `of` comes: the first of several.
pub fn origin(program: &Program, of: usize, index: usize, position: usize) -> Option<ScanColumn> {
    origin::origins(program, of, index, position)?.first().copied()
}

fn into_sink(program: &Program, sink: SinkId, index: usize) -> Option<ScanColumn> {
    origin::into_sink(program, sink, index)?.first().copied()
}
