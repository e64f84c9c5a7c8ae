//! Sinks that are made in parts, one after the other, because all of them does not fit the device's memory.
//!
//! Every key has a value: its packed key, or, of keys that are compared column by column, a hash. A part is a range of values, which
//! kernels get with their parameter, so that all parts have the same kernels. Rows outside the part are dropped before they are put into
//! the sink, and rows that look for a partner before they look: each finds its partners in exactly one part. Keys that no row of the build
//! can have (NULL, or beyond its range) belong to the part that has value 0.

use warpmill_ir::SinkId;

use super::cpp::{CType, Value};
use super::generator::Generator;
use super::hashing::wide_hash;
use super::keys::KeyShape;
use super::layout::{BuildLayout, Partition, names};
use super::params::Binding;

impl Partition {
    /// The least value of the part of sink `id`, and how many it has, as operands.
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

    /// Keeps the rows that are to be put into the part of sink `id`: those whose keys are `values`. `keyed`: which rows have keys.
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

    /// Keeps the rows that find their partners, if they have any, in the part of build `id`.
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

/// A hash of keys below [`HASHES`], as a `u64` variable.
fn hash(g: &mut Generator, values: &[Value]) -> String {
    let part = g.code.variable(CType::U64, "part", "0");
    let depth = g.code.depth();
    g.code.open(format!("if ({})", g.active));
    let hash = wide_hash(g, values);
    g.code.line(format!("{part} = {hash} >> 1;"));
    g.code.close_to(depth);
    part
}

/// The place where in a table that is indexed by keys of sink `id` the packed key `key` is: in a part, from its least value on.
pub fn within(g: &mut Generator, partition: Option<&Partition>, id: SinkId, key: String) -> String {
    let Some(partition) = partition else { return key };
    let (from, _) = partition.bounds(g, id);
    g.code.define(CType::U64, "key", format!("{key} - {from}"))
}
