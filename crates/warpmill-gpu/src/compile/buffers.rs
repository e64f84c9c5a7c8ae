//! Device memory buffers of each sink, by name.

use super::layout::{BuildLayout, GroupLayout, GroupTable, RowsLayout, SinkLayout, Table};
use super::storage::FlatColumn;
use crate::compile::{top, wide};

use crate::memory::regions::aligned;

/// Bytes of a `KeyBounds` (kernels/aggregate.cuh).
const KEY_BOUNDS: u64 = 24;

/// An array in device memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Buffer {
    /// Name in `Binding::Named`.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Initial value of all bytes; `None`: uninitialized.
    pub fill: Option<u8>,
    /// Whether it is in page-locked host memory.
    pub on_host: bool,
}

impl Buffer {
    fn new(name: String, bytes: u64, fill: Option<u8>) -> Self {
        Self { name, bytes, fill, on_host: false }
    }
}

/// The buffers of all sinks, without their states.
pub fn of_sinks(layouts: &[SinkLayout]) -> Vec<Buffer> {
    let mut buffers = vec![];
    layouts.iter().enumerate().for_each(|(id, layout)| of_sink(id, layout, &mut buffers));
    buffers
}

fn of_sink(id: usize, layout: &SinkLayout, buffers: &mut Vec<Buffer>) {
    match layout {
        SinkLayout::Rows(rows) => of_rows(rows, buffers),
        SinkLayout::Build(build) => of_build(id, build, buffers),
        SinkLayout::Groups(groups) => of_groups(id, groups, buffers),
    }
}

/// Bytes of a region for the buffers of sink `id`.
pub fn bytes_of_sink(id: usize, layout: &SinkLayout) -> u64 {
    let mut buffers = vec![];
    of_sink(id, layout, &mut buffers);
    let on_device = buffers.iter().filter(|buffer| !buffer.on_host);
    on_device.map(|buffer| aligned(buffer.bytes)).fold(0, u64::saturating_add)
}

/// Bytes of host memory for the buffers of sink `id`.
pub fn host_bytes_of_sink(id: usize, layout: &SinkLayout) -> u64 {
    let mut buffers = vec![];
    of_sink(id, layout, &mut buffers);
    host_bytes(&buffers)
}

/// Bytes of the `buffers` in host memory.
pub fn host_bytes(buffers: &[Buffer]) -> u64 {
    let on_host = buffers.iter().filter(|buffer| buffer.on_host);
    on_host.map(|buffer| aligned(buffer.bytes)).fold(0, u64::saturating_add)
}

/// The buffers of columns of `capacity` rows.
pub fn of_columns(columns: &[FlatColumn], capacity: u64, buffers: &mut Vec<Buffer>) {
    for column in columns {
        buffers.push(Buffer::new(column.buffer.clone(), capacity * column.storage.size() as u64, None));
        if column.nullable {
            buffers.push(Buffer::new(column.valid_buffer(), capacity, None));
        }
    }
}

fn of_rows(rows: &RowsLayout, buffers: &mut Vec<Buffer>) {
    of_columns(&rows.columns, rows.capacity, buffers);
    if let Some(top) = &rows.top {
        of_columns(std::slice::from_ref(&top.order), rows.capacity, buffers);
        buffers.push(Buffer::new(top.selection(), top::SELECTION_BYTES, Some(0)));
        of_rows(&top.rows, buffers);
    }
    if let Some(sorted) = &rows.sorted {
        buffers.extend(sorted.buffers().into_iter().map(of_sort));
        of_rows(&sorted.rows, buffers);
    }
    if let Some(grouped) = &rows.grouped {
        buffers.extend(grouped.buffers().into_iter().map(of_sort));
        of_rows(&grouped.rows, buffers);
    }
    if let Some(window) = &rows.window {
        let own = window.operands.iter().filter(|operand| operand.own);
        own.for_each(|operand| of_columns(std::slice::from_ref(&operand.column), rows.capacity, buffers));
        buffers.extend(window.buffers().into_iter().map(of_sort));
    }
}

/// A buffer of a sort or a window, from its name, bytes, and whether it is zero initially.
fn of_sort((name, bytes, zero): (String, u64, bool)) -> Buffer {
    Buffer::new(name, bytes, zero.then_some(0))
}

/// Bytes of a bitmap with one more bit, always zero, for keys out of range.
fn bitmap_bytes(bits: u64) -> u64 {
    (bits / 32 + 1) * 4
}

fn of_build(id: usize, build: &BuildLayout, buffers: &mut Vec<Buffer>) {
    let mut add = |what: &str, bytes: u64, fill: Option<u8>| {
        buffers.push(Buffer::new(format!("sink{id}.{what}"), bytes, fill));
    };
    let cells = build.partition.map_or(build.keys.cells().unwrap_or(0), |partition| partition.most);
    for (key, part) in &build.bitmaps {
        add(&format!("bits{key}"), bitmap_bytes(part.size), Some(0));
    }
    for (key, ..) in &build.bounds {
        add(&format!("bounds{key}"), KEY_BOUNDS, Some(0));
    }
    match build.table {
        // By key: the positions of its rows in order.
        Table::All if build.order.is_some() => add("runs", 8, Some(0)),
        Table::Direct if build.order.is_some() => add("runs", 8 * cells, Some(0)),
        Table::Hash if build.order.is_some() => {
            add("keys", 8 * build.slots, Some(0xFF));
            add("runs", 8 * build.slots, Some(0));
        }
        Table::Wide if build.order.is_some() => {
            add("heads", 4 * build.slots, Some(0));
            add("runs", 8 * build.slots, Some(0));
        }
        Table::Bitmap => add("bits", bitmap_bytes(cells), Some(0)),
        Table::Direct => {
            add("heads", 4 * cells, Some(0));
            add("next", 4 * build.capacity, None);
        }
        Table::Hash => {
            add("keys", 8 * build.slots, Some(0xFF));
            add("heads", 4 * build.slots, Some(0));
            add("next", 4 * build.capacity, None);
        }
        Table::Wide => {
            add("heads", 4 * build.slots, Some(0));
            add("next", 4 * build.capacity, None);
            add("keyed", build.capacity, None);
        }
        Table::All => {}
    }
    if build.track_matches {
        add("flags", build.capacity, Some(0));
    }
    of_columns(&build.key_columns, build.capacity, buffers);
    if let Some(order) = &build.order {
        of_columns(&order.columns, build.capacity, buffers);
        buffers.extend(order.sorted.buffers().into_iter().map(of_sort));
    }
    let payload = buffers.len();
    of_columns(&build.payload, build.capacity, buffers);
    buffers[payload..].iter_mut().for_each(|buffer| buffer.on_host = build.on_host);
}

fn of_groups(id: usize, groups: &GroupLayout, buffers: &mut Vec<Buffer>) {
    let mut add = |what: &str, bytes: u64, fill: Option<u8>| {
        buffers.push(Buffer::new(format!("sink{id}.{what}"), bytes, fill));
    };
    add("groups", 8 * (groups.cells * groups.words as u64).max(1), Some(0));
    if groups.marked {
        add("marks", bitmap_bytes(groups.cells), Some(0));
    }
    match groups.table {
        GroupTable::Hash => add("keys", 8 * groups.cells, Some(0xFF)),
        GroupTable::Wide => {
            add("heads", 4 * wide::slots(groups.cells), Some(0));
            add("used", groups.cells, Some(0));
            add("taken", 8, Some(0));
        }
        _ => {}
    }
    if groups.rows.reserves {
        add("live", groups.rows.capacity, Some(0));
    }
    for (index, set) in groups.distinct.iter().enumerate() {
        if set.columns.is_empty() {
            add(&format!("set{index}"), 8 * groups.distinct_slots, Some(0xFF));
        } else {
            add(&format!("set{index}.heads"), 4 * wide::slots(groups.distinct_slots / 2), Some(0));
            add(&format!("set{index}.taken"), 8, Some(0));
        }
    }
    for set in &groups.distinct {
        of_columns(&set.columns, groups.distinct_slots / 2, buffers);
    }
    of_columns(&groups.key_columns, groups.cells, buffers);
    of_columns(&groups.rows.columns, groups.rows.capacity, buffers);
}
