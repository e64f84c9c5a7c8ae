//! Launches and their parameters. They are made once per set of addresses: a repeated query that gets the same addresses only has to launch.

use std::collections::HashMap;

use crate::compile::kernel::{Kernel, Work};
use crate::compile::params::Binding;
use crate::compile::replay::{Launch, Places};
use crate::compile::{sort, top};
use crate::device::{Device, DevicePtr, Function, LaunchShape};
use crate::memory::error::Result;

use crate::compile::plan::{QUERY_STATE, SINK_STATE, STATES};
use crate::compile::prepared::Prepared;
use crate::data::items::{Descriptors, Resident};

/// Binary logarithm of the largest number of vectors that a warp takes at a time.
const MOST_VECTORS: u64 = 2;

/// Values of all names that kernel parameters refer to: addresses and counts. `inputs` has those of input rows.
pub(super) fn names(prepared: &Prepared, places: &Places, inputs: HashMap<String, u64>) -> HashMap<String, u64> {
    let mut names = inputs;
    name_places(prepared, places, &mut names);
    names
}

/// The launches of all kernels that have work.
///
/// # Errors
/// A buffer that a kernel asks for and no sink has: a defect.
pub(super) fn launches(
    device: &dyn Device,
    prepared: &Prepared,
    resident: &Resident,
    places: &Places,
    names: &HashMap<String, u64>,
) -> Result<Vec<Launch>> {
    let kernels = resident.descriptors.iter().enumerate();
    let launches = kernels.map(|(kernel, &segments)| {
        launch(device, prepared, (kernel, segments), (places.block, places.states, resident), names)
    });
    launches.filter_map(Result::transpose).collect()
}

/// The launch of a kernel over `segments`, unused by kernels that read other rows; `None` if there is no work.
///
/// # Errors
/// As [`launches`].
pub(super) fn launch(
    device: &dyn Device,
    prepared: &Prepared,
    (index, segments): (usize, Descriptors),
    (block, states, resident): (DevicePtr, DevicePtr, &Resident),
    names: &HashMap<String, u64>,
) -> Result<Option<Launch>> {
    let kernel = &prepared.kernels()[index];
    let (tasks, bytes, own) = work(device, kernel, segments);
    if tasks == 0 {
        return Ok(None);
    }
    let shape = shape(device, kernel, prepared.function(index), tasks)?;
    let mut missing = None;
    let params = kernel.params.image(|member| {
        let constant = prepared.constants.value(&member.binding, block, &resident.places);
        constant.unwrap_or_else(|| match &member.binding {
            Binding::State => states.to_le_bytes().to_vec(),
            Binding::Named(name) => {
                let value = own.get(name.as_str()).or_else(|| names.get(name));
                missing = value.is_none().then(|| name.clone()).or(missing.take());
                value.copied().unwrap_or(0).to_le_bytes()[..member.size.min(8)].to_vec()
            }
            _ => unreachable!("constants have values"),
        })
    });
    match missing {
        Some(name) => Err(warpmill_ir::Unsupported::new("kernel", format!("no buffer {name}")).into()),
        None => Ok(Some(Launch { kernel: index, shape, params, bytes })),
    }
}

/// Adds the addresses of states and buffers to `names`.
fn name_places(prepared: &Prepared, places: &Places, names: &mut HashMap<String, u64>) {
    let sinks = prepared.program.sinks.len() as u64;
    let state = |number: u64| places.states + QUERY_STATE + SINK_STATE * number;
    names.insert("arena".into(), places.arena);
    for sink in 0..sinks {
        names.insert(format!("sink{sink}.state"), state(sink));
        names.insert(top::state(sink as usize), state(sinks + sink));
        names.insert(sort::state(sink as usize), state(2 * sinks + sink));
    }
    for pipeline in 0..prepared.program.pipelines.len() as u64 {
        names.insert(format!("limit{pipeline}"), state(STATES * sinks + pipeline));
    }
    names.extend(prepared.memory.buffers.iter().map(|buffer| buffer.name.clone()).zip(places.buffers.iter().copied()));
}

/// Number of tasks (warps of work), bytes read, and the values of this kernel's own names.
fn work(device: &dyn Device, kernel: &Kernel, segments: Descriptors) -> (u64, u64, HashMap<&'static str, u64>) {
    match kernel.work {
        Work::Rows(rows) => return (rows.div_ceil(32), 0, HashMap::new()),
        Work::Blocks(blocks) => return (blocks * u64::from(kernel.threads / 32), 0, HashMap::new()),
        Work::Segments(_) => {}
    }
    // Small tables are split more finely, to occupy all multiprocessors.
    let warps = u64::from(device.properties().multiprocessors) * 32;
    let split = (0..4).find(|split| segments.vectors << split >= warps).unwrap_or(4);
    // In large tables a warp takes several vectors at a time, few of whose rows may be left.
    let most = MOST_VECTORS.min(segments.span_bits.into());
    let run = (0..=most).rev().find(|run| segments.vectors >> run >= 16 * warps).unwrap_or(0);
    let named = HashMap::from([
        ("scan.segments", segments.columns),
        ("scan.rows", segments.rows),
        ("scan.count", segments.count),
        ("scan.bits", segments.span_bits.into()),
        ("scan.split", split),
        ("scan.run", run),
    ]);
    (((segments.count << segments.span_bits) >> run) << split, segments.bytes, named)
}

fn shape(device: &dyn Device, kernel: &Kernel, function: &Function, tasks: u64) -> Result<LaunchShape> {
    let shared = kernel.shared as u32;
    let resident = device.occupancy(function, kernel.threads, shared)?;
    let most = u64::from(device.properties().multiprocessors * resident.max(1));
    // Each block has its own work.
    let most = if matches!(kernel.work, Work::Blocks(_)) { u64::MAX } else { most };
    let blocks = tasks.div_ceil(u64::from(kernel.threads / 32)).clamp(1, most.max(1));
    Ok(LaunchShape { blocks: blocks as u32, threads: kernel.threads, shared })
}
