//! Input rows from DataFusion's operators, and constant rows, in the form of device memory.

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

/// The rows of a program's sources other than scans.
#[derive(Default)]
pub struct Inputs {
    /// Per source: its prefix of buffer names, number of rows, and arrays.
    pub sources: Vec<(String, u64, Vec<InputArray>)>,
    /// Traffic between devices, for rows received from other devices.
    pub shuffled: Option<ExchangeProfile>,
    /// Memory of other devices that strings of received rows point into.
    pub(super) texts: Vec<Arc<Texts>>,
}

/// An array of rows to be copied to device memory.
pub enum InputArray {
    /// In host memory.
    Host(HostArray),
    /// In pieces on other devices.
    Peers(PeerArray),
}

/// An array whose pieces are on devices of a group.
pub struct PeerArray {
    /// Buffer name.
    name: String,
    group: Arc<PeerGroup>,
    /// Number in the group of the receiving device.
    number: usize,
    /// The pieces in order, with their bytes.
    pieces: Vec<(Place, u64)>,
}

impl Inputs {
    /// Encodes the rows of `batches`, by input number, and the constant rows of `program`.
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

    /// The rows received from other devices as input 0 of `program`, and its constant rows.
    ///
    /// # Errors
    /// Rows with other columns.
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

    /// Bytes of a region for all arrays.
    pub fn allocated(&self) -> u64 {
        self.sources.iter().flat_map(|(_, _, arrays)| arrays).map(InputArray::allocated).sum()
    }
}

/// The arrays of `fields` of received rows, with buffer names prefixed by `owner`.
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
    /// Buffer name.
    pub fn name(&self) -> &str {
        match self {
            Self::Host(array) => &array.name,
            Self::Peers(array) => &array.name,
        }
    }

    /// Bytes of a region.
    fn allocated(&self) -> u64 {
        match self {
            Self::Host(array) => array.allocated(),
            Self::Peers(_) => aligned(self.bytes()),
        }
    }

    /// Bytes to copy.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Host(array) => array.bytes(),
            Self::Peers(array) => array.pieces.iter().map(|(_, bytes)| bytes).sum(),
        }
    }

    /// Queues the copy to the device, and returns the address there.
    ///
    /// # Errors
    /// The device's, and [`Failure::Memory`](crate::Failure::Memory) if the region is full.
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
        // Start with the successor, so that devices do not all read the same one.
        let next = (array.number + 1) % moves.len().max(1);
        moves.rotate_left(next);
        // SAFETY: just allocated with the bytes of all pieces; sources keep theirs until this device leaves the shuffle, after the run that waits for
        // `stream`.
        unsafe { array.group.devices().pull(&moves, array.number, stream)? };
        Ok(at)
    }
}
