//! The keywords of settings, and their values.

use warpmill_engine::{
    ClaimUnit, Compaction, DataSource, DeviceChoice, DeviceExchange, FirstRuns, Granularity, JoinStrategy, Ordinals,
    Replication, Representation,
};
use warpmill_format::FileAccess;
use warpmill_ir::PruningMode;

use super::ProfileMode;

pub(super) const PROFILES: [(&str, ProfileMode); 3] =
    [("off", ProfileMode::Off), ("on", ProfileMode::On), ("kernels", ProfileMode::Kernels)];

pub(super) const DATA_SOURCES: [(&str, DataSource); 5] = [
    ("cache", DataSource::Cache),
    ("mirrored", DataSource::Mirrored),
    ("pinned", DataSource::Pinned),
    ("host", DataSource::Host),
    ("disk", DataSource::Disk),
];

pub(super) const JOINS: [(&str, JoinStrategy); 6] = [
    ("auto", JoinStrategy::Auto),
    ("partitioned", JoinStrategy::Partitioned),
    ("hybrid", JoinStrategy::Hybrid),
    ("fallback", JoinStrategy::Fallback),
    ("naive", JoinStrategy::Naive),
    ("cpu", JoinStrategy::Cpu),
];

pub(super) const EXCHANGES: [(&str, DeviceExchange); 3] =
    [("auto", DeviceExchange::Auto), ("staged", DeviceExchange::Staged), ("off", DeviceExchange::Off)];

pub(super) const REPLICATIONS: [(&str, Replication); 3] =
    [("auto", Replication::CacheAware), ("always", Replication::Always), ("never", Replication::Never)];

pub(super) const REPRESENTATIONS: [(&str, Representation); 4] = [
    ("auto", Representation::Auto),
    ("light", Representation::Light),
    ("heavy", Representation::Heavy),
    ("heavy_host", Representation::HeavyOnHost),
];

/// The name of a value.
pub(super) fn name_of<T: PartialEq>(values: &[(&'static str, T)], value: &T) -> &'static str {
    values.iter().find(|(_, other)| other == value).map_or("", |(name, _)| name)
}

pub(super) const FIRST_RUNS: [(&str, FirstRuns); 3] =
    [("auto", FirstRuns::Auto), ("device", FirstRuns::Device), ("cpu", FirstRuns::Cpu)];

pub(super) const FILE_ACCESS: [(&str, FileAccess); 2] = [("map", FileAccess::Map), ("read", FileAccess::Read)];

pub(super) const PRUNING: [(&str, PruningMode); 3] =
    [("none", PruningMode::None), ("minmax", PruningMode::MinMax), ("all", PruningMode::All)];

pub(super) const DEVICES: [(&str, DeviceChoice); 4] =
    [("auto", DeviceChoice::Auto), ("cpu", DeviceChoice::Cpu), ("gpu", DeviceChoice::Gpu), ("sim", DeviceChoice::Sim)];

/// The last three are the baselines that Mordred is measured with.
pub(super) const PLACEMENTS: [(&str, (Granularity, ClaimUnit)); 7] = [
    ("auto", (Granularity::Auto, ClaimUnit::Groups)),
    ("program", (Granularity::Program, ClaimUnit::Groups)),
    ("segment", (Granularity::Segment, ClaimUnit::Groups)),
    ("range", (Granularity::Range, ClaimUnit::Groups)),
    ("segment_ungrouped", (Granularity::Segment, ClaimUnit::Segments)),
    ("operator_by_data", (Granularity::Segment, ClaimUnit::OperatorByData)),
    ("operator_by_cost", (Granularity::Segment, ClaimUnit::OperatorByCost)),
];

/// A kind of device, and the devices: `gpu:0,1` are GPUs by their ordinals, `sim:4` are four simulated devices.
pub(super) fn parse_device(text: &str) -> Option<(DeviceChoice, Ordinals)> {
    let (name, which) = text.split_once(':').map_or((text, None), |(name, which)| (name, Some(which)));
    let device = DEVICES.iter().find(|(other, _)| *other == name)?.1;
    let ordinals = match (device, which) {
        (_, None) => Ordinals::default(),
        (DeviceChoice::Gpu, Some(list)) => {
            let ordinals: Option<Vec<u8>> = list.split(',').map(|ordinal| ordinal.trim().parse().ok()).collect();
            Ordinals::new(&ordinals?)?
        }
        (DeviceChoice::Sim, Some(count)) => {
            let count: u8 = count.trim().parse().ok()?;
            Ordinals::new(&(0..count).collect::<Vec<_>>())?
        }
        (DeviceChoice::Auto | DeviceChoice::Cpu, Some(_)) => return None,
    };
    Some((device, ordinals))
}

pub(super) const COMPACTIONS: [(&str, Compaction); 6] = [
    ("none", Compaction::None),
    ("full", Compaction::Full),
    ("binary", Compaction::Binary),
    ("logical", Compaction::Logical),
    ("learning", Compaction::Learning),
    ("smart", Compaction::Smart),
];
