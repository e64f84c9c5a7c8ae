//! Sinks that are built in parts, one after the other, because they do not fit the device's memory.
//!
//! Every key has a value: the packed key, or a hash of keys that are compared column by column. A part is a range of values, which kernels receive as
//! parameters, so that all parts have the same kernels. Rows outside the part are dropped before they enter the sink, and probe rows before the
//! lookup: each finds its partners in exactly one part. Keys that no row of the build can have (NULL, or out of range) belong to the part with value
//! 0.

use warpmill_ir::SinkId;

use super::cpp::{CType, Value};
use super::generator::Generator;
use super::hashing::wide_hash;
use super::keys::KeyShape;
use super::layout::{BuildLayout, Partition, names};
use super::params::Binding;

impl Partition {
    /// Operands for the first value and the number of values of the current part of sink `id`.
    pub fn bounds(&self, g: &mut Generator, id: SinkId) -> (String, String) {
        let [from, size] = names(id).map(|name| {
            let same = |binding: &Binding| matches!(binding, Binding::Named(other) if *other == name);
            let known = g.params.members().iter().find(|member| same(&member.binding));
            match known.map(|member| format!("p.{}", member.name)) {
                Some(operand) => operand,
                None => g.params.add("u64".into(), 8, "part", Binding::Named(name)),
            }
        });
        (from, size)
    }

    /// Keeps the rows that belong to the current part of sink `id`, by key values `values`. `keyed`: operand for whether a row has keys.
    pub fn keep_own(&self, g: &mut Generator, id: SinkId, keys: &KeyShape, values: &[Value], keyed: &str) {
        let value = match keys {
            KeyShape::Packed { .. } => {
                let (key, _) = g.packed_key(keys, values, false);
                g.code.define(CType::U64, "part", format!("{keyed} ? {key} : 0"))
            }
            _ => hash(g, values),
        };
        self.keep(g, id, &value);
    }

    /// Keeps the rows whose partners, if any, are in the current part of build `id`.
    pub fn keep_probed(&self, g: &mut Generator, id: SinkId, build: &BuildLayout, values: &[Value]) {
        let value = match &build.keys {
            KeyShape::Packed { .. } => {
                let (key, inside) = g.packed_key(&build.keys, values, true);
                g.code.define(CType::U64, "part", format!("{inside} ? {key} : 0"))
            }
            _ => hash(g, values),
        };
        self.keep(g, id, &value);
    }

    fn keep(&self, g: &mut Generator, id: SinkId, value: &str) {
        let (from, size) = self.bounds(g, id);
        g.filter(&format!("{value} - {from} < {size}"));
    }
}

/// A `u64` variable with a hash of keys, below [`HASHES`].
fn hash(g: &mut Generator, values: &[Value]) -> String {
    let part = g.code.variable(CType::U64, "part", "0");
    let depth = g.code.depth();
    g.code.open(format!("if ({})", g.active));
    let hash = wide_hash(g, values);
    g.code.line(format!("{part} = {hash} >> 1;"));
    g.code.close_to(depth);
    part
}

/// The index of packed key `key` in a table of sink `id` that is indexed by key: relative to the part's first value.
pub fn within(g: &mut Generator, partition: Option<&Partition>, id: SinkId, key: String) -> String {
    let Some(partition) = partition else { return key };
    let (from, _) = partition.bounds(g, id);
    g.code.define(CType::U64, "key", format!("{key} - {from}"))
}
