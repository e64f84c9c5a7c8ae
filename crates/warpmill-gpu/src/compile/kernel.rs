//! Kernels as generators end them.

use warpmill_ir::SinkId;

use super::cpp::CType;
use super::generator::Generator;
use super::params::{Binding, Params};
use crate::kernels::library::Library;

/// A kernel: the text of its parameter's struct and its function, without the device functions that it calls.
#[derive(Debug)]
pub struct Kernel {
    /// Name of the function.
    pub entry: String,
    /// The text.
    pub text: String,
    /// Its parameter.
    pub params: Params,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub shared: usize,
    /// Its work.
    pub work: Work,
    /// The pipeline that it belongs to.
    pub pipeline: usize,
    /// As profiles show it.
    pub label: String,
    /// Whether it finishes the sink, after all pipelines that feed it.
    pub finishes: bool,
}

/// The work of a kernel's loop.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Row segments of the pipeline's scan: those of this number that are encoded alike ([`crate::data::shape::Alike`]).
    Segments(usize),
    /// At most so many rows.
    Rows(u64),
    /// Nothing that is shared out: so many blocks, each of which knows what to do.
    Blocks(u64),
}

/// The rows that sink `id` holds, as an operand: not more than fit.
pub fn sink_count(g: &mut Generator, id: SinkId, capacity: u64) -> String {
    state_count(g, &format!("sink{id}.state"), capacity)
}

/// The rows that `state`, the name of a `SinkState`, counts, as an operand: not more than `capacity`.
pub fn state_count(g: &mut Generator, state: &str, capacity: u64) -> String {
    let state = g.params.pointer("SinkState", "from", Binding::Named(state.into()));
    let capacity = g.params.value(CType::U64, "most", capacity.to_le_bytes().to_vec());
    format!("{state}->count < {capacity} ? {state}->count : {capacity}")
}

/// The kernel that a generator has generated.
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
