//! Exchange of data that several devices need for their parts of a query: one device loads them from the host, the others copy them from it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use warpmill_gpu::device::exchange::Traffic;
use warpmill_gpu::memory::regions::{Key, KeyMap};
use warpmill_gpu::{DataSource, Executor, Lacking, Options, PeerGroup, PeerReads, RunExchange};
use warpmill_ir::Program;
use warpmill_place::{Distribution, Origin, Partition, Piece, distribute};

use crate::background::STACK;
use crate::device::DeviceKey;
use crate::execute::ExecutionContext;

/// How devices get data that several of them need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum DeviceExchange {
    /// From each other if the link between them is direct; otherwise each from the host.
    #[default]
    Auto,
    /// From each other, through page-locked memory of the host whatever the links are (for tests).
    Staged,
    /// Each from the host.
    Off,
}

/// Groups of executors that exchange data, by their devices and by whether all data are staged.
type Groups = HashMap<(Vec<DeviceKey>, bool), Arc<PeerGroup>>;

static GROUPS: LazyLock<Mutex<Groups>> = LazyLock::new(Mutex::default);

/// The group of some open devices; links are checked at the first call.
fn group(devices: &[(DeviceKey, Arc<Executor>)], staged: bool) -> Arc<PeerGroup> {
    let keys: Vec<DeviceKey> = devices.iter().map(|(key, _)| *key).collect();
    let mut groups = GROUPS.lock();
    let made = || Executor::group(&devices.iter().map(|(_, executor)| executor.clone()).collect::<Vec<_>>(), staged);
    groups.entry((keys, staged)).or_insert_with(made).clone()
}

/// The exchange before each of `devices` runs a program, in this order; `None` if there is nothing to exchange.
pub(crate) fn plan(
    devices: &[(DeviceKey, Arc<Executor>)],
    programs: &[Arc<Program>],
    (way, options): (DeviceExchange, &Options),
) -> Option<Arc<RunExchange>> {
    if way == DeviceExchange::Off || devices.len() < 2 {
        return None;
    }
    let parts = || devices.iter().zip(programs);
    if parts().all(|((_, executor), program)| executor.has_data(program, options)) {
        return None;
    }
    let lacking = lacking(devices, programs, options);
    if lacking.iter().flatten().all(|lacking| lacking.items.is_empty()) {
        return None;
    }
    let (keys, pieces) = pieces(devices, &lacking);
    let group = group(devices, way == DeviceExchange::Staged);
    let is_direct = |source: usize, destination: usize| {
        way == DeviceExchange::Staged || group.devices().link(source, destination).is_direct()
    };
    let made = distribute(&pieces, devices.len(), &is_direct);
    if made.traffic.iter().flatten().all(|&bytes| bytes == 0) {
        return None;
    }
    let origins = origins(devices.len(), (&keys, &pieces), &made);
    let mut planned = Traffic::new(devices.len());
    for (source, row) in made.traffic.iter().enumerate() {
        row.iter().enumerate().for_each(|(destination, &bytes)| planned.add(source, destination, bytes));
    }
    let keeps = lacking.into_iter().flatten().map(|lacking| lacking.owner).collect();
    Some(RunExchange::new(group, origins, planned, keeps))
}

/// The mirrored copies on other devices that each of `devices` may read, in this order; empty if data are not mirrored, or some device cannot reach
/// another: a single copy for all would not be readable by all then.
pub(crate) fn reads(
    devices: &[(DeviceKey, Arc<Executor>)],
    partition: &Partition,
    (way, options): (DeviceExchange, &Options),
) -> Vec<PeerReads> {
    let is_mirrored = options.data == DataSource::Mirrored && !partition.whole.is_empty();
    if way == DeviceExchange::Off || devices.len() < 2 || !is_mirrored {
        return vec![];
    }
    let staged = way == DeviceExchange::Staged;
    let group = group(devices, staged);
    if !staged && !group.staged_links().is_empty() {
        return vec![];
    }
    let of_device = |number| PeerReads::new(group.clone(), number, (partition.whole.clone(), staged));
    (0..devices.len()).map(of_device).collect()
}

/// Whether `devices` devices may exchange rows within a query.
pub(crate) fn may_send(context: &ExecutionContext, devices: usize) -> bool {
    match context.device_exchange {
        DeviceExchange::Off => false,
        DeviceExchange::Staged => true,
        DeviceExchange::Auto => {
            let open = |number: usize| {
                let key = context.device_key(u16::try_from(number).ok()?);
                Some((key, crate::device::executor(key).ok()?))
            };
            let devices: Option<Vec<_>> = (0..devices).map(open).collect();
            devices.is_some_and(|devices| group(&devices, false).staged_links().is_empty())
        }
    }
}

/// The shuffle of one run among `devices`, in this order.
pub(crate) fn shuffle(
    devices: &[(DeviceKey, Arc<Executor>)],
    planned: &warpmill_place::Shuffle,
    way: DeviceExchange,
) -> Arc<warpmill_gpu::Shuffle> {
    warpmill_gpu::Shuffle::new(group(devices, way == DeviceExchange::Staged), planned.route.clone(), planned.safe_rows)
}

/// The data that each device lacks for its program; `None` if data are streamed, if the device does not run the program, or if no thread could be
/// started. Programs are prepared in parallel.
fn lacking(
    devices: &[(DeviceKey, Arc<Executor>)],
    programs: &[Arc<Program>],
    options: &Options,
) -> Vec<Option<Lacking>> {
    std::thread::scope(|scope| {
        let ask = |((_, executor), program): (&(DeviceKey, Arc<Executor>), &Arc<Program>)| {
            let (executor, program) = (executor.clone(), program.clone());
            // Programs are lowered there, level by level of their expressions.
            let builder = std::thread::Builder::new().name("warpmill-exchange".into()).stack_size(STACK);
            builder.spawn_scoped(scope, move || executor.lacking(&program, options).ok().flatten()).ok()
        };
        let asked: Vec<_> = devices.iter().zip(programs).map(ask).collect();
        // A panic is met again where the device runs its part.
        asked.into_iter().map(|thread| thread?.join().ok().flatten()).collect()
    })
}

/// The distinct pieces that devices lack, with their keys, in a deterministic order.
fn pieces(devices: &[(DeviceKey, Arc<Executor>)], lacking: &[Option<Lacking>]) -> (Vec<Key>, Vec<Piece>) {
    let (mut positions, mut keys, mut pieces) = (KeyMap::<usize>::default(), vec![], Vec::<Piece>::new());
    for (number, lacking) in lacking.iter().enumerate() {
        for &(key, bytes) in lacking.iter().flat_map(|lacking| &lacking.items) {
            let position = *positions.entry(key).or_insert_with(|| {
                keys.push(key);
                pieces.push(Piece { bytes, lacking: vec![], holders: vec![] });
                keys.len() - 1
            });
            pieces[position].lacking.push(number);
        }
    }
    for (key, piece) in keys.iter().zip(&mut pieces) {
        let others = devices.iter().enumerate().filter(|(number, _)| !piece.lacking.contains(number));
        piece.holders = others.filter(|(_, (_, executor))| executor.holds(key)).map(|(number, _)| number).collect();
    }
    (keys, pieces)
}

/// By device, the origins of the data that it lacks.
fn origins(
    devices: usize,
    (keys, pieces): (&[Key], &[Piece]),
    made: &Distribution,
) -> Vec<KeyMap<warpmill_gpu::Origin>> {
    let mut origins = vec![KeyMap::default(); devices];
    for ((key, piece), from) in keys.iter().zip(pieces).zip(&made.origins) {
        for (&device, from) in piece.lacking.iter().zip(from) {
            let origin = match *from {
                Origin::Host => warpmill_gpu::Origin::Host,
                Origin::Peer(source) => warpmill_gpu::Origin::Peer(source),
            };
            origins[device].insert(*key, origin);
        }
    }
    origins
}
