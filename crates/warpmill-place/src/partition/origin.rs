//! Classes of equal columns: the scan columns from which join keys come.

use warpmill_ir::origin::{self, Classes, ScanColumn, column};
use warpmill_ir::{Program, Sink, SinkId};

/// The classes of the scan columns that the joins of a program compare.
pub fn classes(program: &Program) -> Classes {
    let mut classes = Classes::default();
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

/// The scan column from which column `index` before operator `position` of pipeline `of` comes: the first of several.
pub fn origin(program: &Program, of: usize, index: usize, position: usize) -> Option<ScanColumn> {
    origin::origins(program, of, index, position)?.first().copied()
}

fn into_sink(program: &Program, sink: SinkId, index: usize) -> Option<ScanColumn> {
    origin::into_sink(program, sink, index)?.first().copied()
}
