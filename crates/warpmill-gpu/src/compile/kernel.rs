//! Generated kernels.

use warpmill_ir::SinkId;

use super::cpp::CType;
use super::generator::Generator;
use super::params::{Binding, Params};
use crate::kernels::library::Library;

/// A kernel: the text of its parameter struct and its function, without the library functions that it calls.
#[derive(Debug)]
pub struct Kernel {
    /// Name of the function.
    pub entry: String,
    /// Text without the library.
    pub text: String,
    /// Members of the parameter struct.
    pub params: Params,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory per block.
    pub shared: usize,
    /// The input that the grid is sized for.
    pub work: Work,
    /// The pipeline.
    pub pipeline: usize,
    /// Label in profiles.
    pub label: String,
    /// Whether it finishes the sink, after all pipelines that feed it have run.
    pub finishes: bool,
}

/// The input of a kernel's loop.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Row segments of the pipeline's scan: group number among those encoded alike ([`crate::data::shape::Alike`]).
    Segments(usize),
    /// Largest number of rows.
    Rows(u64),
    /// Fixed number of blocks, each with its own task.
    Blocks(u64),
}

/// An operand for the number of rows in sink `id`, at most `capacity`.
pub fn sink_count(g: &mut Generator, id: SinkId, capacity: u64) -> String {
    state_count(g, &format!("sink{id}.state"), capacity)
}

/// An operand for the count in the `SinkState` named `state`, at most `capacity`.
pub fn state_count(g: &mut Generator, state: &str, capacity: u64) -> String {
    let state = g.params.pointer("SinkState", "from", Binding::Named(state.into()));
    let capacity = g.params.value(CType::U64, "most", capacity.to_le_bytes().to_vec());
    format!("{state}->count < {capacity} ? {state}->count : {capacity}")
}

/// Completes a kernel from its generator.
pub fn kernel(g: Generator, entry: String, threads: u32, work: Work, pipeline: usize, label: String) -> Kernel {
    let Generator { code, mut params, shared, min_blocks, .. } = g;
    [Library::Scan, Library::Table, Library::Aggregate].into_iter().for_each(|part| params.require(part));
    let parameters = format!("Params_{entry}");
    let mut text = params.definition(&parameters);
    let bounds = if min_blocks > 0 { format!("{threads}, {min_blocks}") } else { threads.to_string() };
    text.push_str(&format!(
        "\nextern \"C\" __global__ void __launch_bounds__({bounds}) {entry}(const {parameters} p) {{\n"
    ));
    if shared > 0 {
        text.push_str("    DYNAMIC_SHARED(u64, shared);\n");
    }
    text.push_str(code.text());
    text.push_str("}\n");
    Kernel { entry, text, params, threads, shared, work, pipeline, label, finishes: false }
}
