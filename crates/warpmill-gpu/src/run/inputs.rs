//! Rows from outside (of DataFusion's operators below) and constant rows, made ready for device memory.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use warpmill_eval::rows::RowSet;
use warpmill_ir::{Field, Program, Source, Unsupported};

use super::peers::PeerGroup;
use super::profile::ExchangeProfile;
use super::rows::{self, HostArray};
use super::shuffle::{Received, Texts};
use crate::compile::storage::FlatColumn;
use crate::device::exchange::{Move, Place, gather};
use crate::device::{Device, DevicePtr, Stream};
use crate::memory::error::Result;
use crate::memory::mirrors::Mirrors;
use crate::memory::regions::{Region, aligned};

/// The rows of a program's sources that are no scans.
#[derive(Default)]
pub struct Inputs {
    /// The names of each source among the query's buffers, its rows and its arrays.
    pub sources: Vec<(String, u64, Vec<InputArray>)>,
    /// The traffic between devices, where the rows come from others.
    pub shuffled: Option<ExchangeProfile>,
    /// The memory of other devices that their strings point into.
    pub(super) texts: Vec<Arc<Texts>>,
}

/// An array of rows that is to be in device memory.
pub enum InputArray {
    /// Made on the host.
    Host(HostArray),
    /// In pieces on other devices.
    Peers(PeerArray),
}

/// An array in pieces on devices of a group.
pub struct PeerArray {
    /// Its name among the query's buffers.
    name: String,
    group: Arc<PeerGroup>,
    /// The number in the group of the device that gets it.
    number: usize,
    /// With their bytes, in their order.
    pieces: Vec<(Place, u64)>,
}

impl Inputs {
    /// The rows of `batches`, by number of the input, and the constant rows of `program`.
    ///
    /// # Errors
    /// Values that the program's types cannot hold.
    pub fn encode(program: &Program, batches: &[Vec<RecordBatch>]) -> Result<Self> {
        let mut sources = vec![];
        for (index, pipeline) in program.pipelines.iter().enumerate() {
            let (owner, rows, fields) = match &pipeline.source {
                Source::Input { input, fields } => {
                    let mut rows = RowSet::default();
                    for batch in &batches[*input] {
                        let columns = batch.columns().iter().zip(fields);
                        let vectors = columns
                            .map(|(array, field)| warpmill_eval::arrow::from_arrow(array, &field.ty).map(Arc::new));
                        rows.batches.push((vectors.collect::<Result<_, _>>()?, batch.num_rows()));
                    }
                    (format!("input{input}"), rows, fields)
                }
                Source::Values { rows, fields } => {
                    (format!("values{index}"), warpmill_eval::rows::values(rows, fields), fields)
                }
                _ => continue,
            };
            let arrays = rows::encode(&owner, fields, &rows).into_iter().map(InputArray::Host).collect();
            sources.push((owner, rows.rows() as u64, arrays));
        }
        Ok(Self { sources, ..Self::default() })
    }

    /// The rows that have come from other devices, the one input of `program`, and its constant rows.
    ///
    /// # Errors
    /// Rows of other columns.
    pub(super) fn received(program: &Program, received: &Received) -> Result<Self> {
        let mut inputs = Self::default();
        for (index, pipeline) in program.pipelines.iter().enumerate() {
            match &pipeline.source {
                Source::Input { input: 0, fields } => {
                    inputs.sources.push(("input0".into(), received.rows, peer_arrays("input0", fields, received)?));
                }
                Source::Input { .. } => {
                    return Err(Unsupported::new("a shuffle of rows between devices", "rows from outside").into());
                }
                Source::Values { rows, fields } => {
                    let (owner, rows) = (format!("values{index}"), warpmill_eval::rows::values(rows, fields));
                    let arrays = rows::encode(&owner, fields, &rows).into_iter().map(InputArray::Host).collect();
                    inputs.sources.push((owner, rows.rows() as u64, arrays));
                }
                _ => {}
            }
        }
        let (traffic, staged_links) = (received.traffic(), received.group.staged_links());
        inputs.texts.clone_from(&received.texts);
        inputs.shuffled = Some(ExchangeProfile { planned: traffic.clone(), traffic, staged_links });
        Ok(inputs)
    }

    /// The bytes that they take of a region.
    pub fn allocated(&self) -> u64 {
        self.sources.iter().flat_map(|(_, _, arrays)| arrays).map(InputArray::allocated).sum()
    }
}

/// The arrays of `fields` of received rows, which are called `owner`.
fn peer_arrays(owner: &str, fields: &[Field], received: &Received) -> Result<Vec<InputArray>> {
    let columns = FlatColumn::all(owner, fields);
    let arrays = columns.iter().flat_map(|column| {
        let valid = column.nullable.then(|| (column.valid_buffer(), 1));
        [Some((column.buffer.clone(), column.storage.size() as u64)), valid].into_iter().flatten()
    });
    let (names, widths): (Vec<String>, Vec<u64>) = arrays.unzip();
    if widths != received.widths {
        return Err(Unsupported::new("a shuffle of rows between devices", "rows of other columns").into());
    }
    let array = |(name, pieces): (String, &Vec<(Place, u64)>)| {
        let (group, pieces) = (received.group.clone(), pieces.clone());
        InputArray::Peers(PeerArray { name, group, number: received.number, pieces })
    };
    Ok(names.into_iter().zip(&received.arrays).map(array).collect())
}

impl InputArray {
    /// Its name among the query's buffers.
    pub fn name(&self) -> &str {
        match self {
            Self::Host(array) => &array.name,
            Self::Peers(array) => &array.name,
        }
    }

    /// The bytes that it takes of a region.
    fn allocated(&self) -> u64 {
        match self {
            Self::Host(array) => array.allocated(),
            Self::Peers(_) => aligned(self.bytes()),
        }
    }

    /// Bytes that are copied.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Host(array) => array.bytes(),
            Self::Peers(array) => array.pieces.iter().map(|(_, bytes)| bytes).sum(),
        }
    }

    /// Queues what brings it to the device, and gives its address there.
    ///
    /// # Errors
    /// The device's, and [`Failure::Memory`](crate::Failure::Memory) where the region is full.
    pub fn upload(
        &self,
        device: &dyn Device,
        stream: Stream,
        region: &mut Region,
        mirrors: &mut Mirrors,
    ) -> Result<DevicePtr> {
        let array = match self {
            Self::Host(array) => return array.upload(device, stream, region, mirrors),
            Self::Peers(array) => array,
        };
        let at = region.allocate(self.bytes())?;
        let mut moves: Vec<Move> = gather(&array.pieces, Place { device: array.number, at });
        // Not every device begins with the same one.
        let next = (array.number + 1) % moves.len().max(1);
        moves.rotate_left(next);
        // SAFETY: just allocated with the bytes of all pieces; sources hold theirs until this device leaves the shuffle, which is after the
        // run that waits for `stream`.
        unsafe { array.group.devices().pull(&moves, array.number, stream)? };
        Ok(at)
    }
}
