//! The messages of a file, checked and decoded one by one.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::buffer::Buffer;
use arrow::compute::{CastOptions, can_cast_types, cast_with_options};
use arrow::datatypes::{FieldRef, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow::ipc::{Message, MetadataVersion};
use datafusion::common::Result;
use datafusion::datasource::listing::FileRange;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use warpmill_format::arrow_ipc::{self, BareRows, Block, Columns, Footer};
use warpmill_format::guard::caught;

use super::dictionary_bytes;
use super::input::{Input, has_room};

/// Rows that are converted at a time, where a file lacks columns of its table.
const ROWS_AT_ONCE: usize = 8192;

/// A file that is being read: its columns, and its batches in order.
pub(super) struct Batches {
    input: Input,
    /// Its columns.
    pub schema: SchemaRef,
    messages: Messages,
    version: Option<MetadataVersion>,
    dictionaries: HashMap<i64, ArrayRef>,
    memory: Memory,
}

/// The remaining messages.
enum Messages {
    /// The blocks of a file, from its footer: dictionaries first.
    Listed(VecDeque<(Kind, Block)>),
    /// The messages of a stream from this offset on.
    From(u64),
}

/// A message: its metadata, and its body.
struct Found {
    /// The kind that the file's footer promises; `None`: either.
    kind: Option<Kind>,
    metadata: Vec<u8>,
    body: Buffer,
}

/// The session's memory that a file takes.
struct Memory {
    reserved: MemoryReservation,
    /// Bytes of a stream that was read into memory.
    whole: u64,
    /// Bytes of dictionaries, by dictionary number.
    dictionaries: HashMap<i64, u64>,
}

impl Memory {
    fn of(pool: &Arc<dyn MemoryPool>) -> Self {
        let reserved = MemoryConsumer::new("a file of Arrow").register(pool);
        Self { reserved, whole: 0, dictionaries: HashMap::new() }
    }

    /// Bytes of all dictionaries.
    fn of_dictionaries(&self) -> u64 {
        self.dictionaries.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes))
    }

    /// Reserves `bytes` in addition to what stays until the end, replacing the previous reservation.
    fn hold(&self, bytes: u64) -> Result<()> {
        let all = self.of_dictionaries().saturating_add(self.whole).saturating_add(bytes);
        // More than any machine has, but small enough that the sums of memory pools do not overflow.
        self.reserved.try_resize(all.min(1 << 48) as usize)
    }
}

impl Batches {
    /// Reads the schema of `input`. Of `range`, only batches that begin in it are read; a stream is read by the scan whose range includes its
    /// beginning. `pool` is the session's memory.
    pub async fn open(input: Input, pool: &Arc<dyn MemoryPool>, range: Option<FileRange>) -> Result<Self> {
        let memory = Memory::of(pool);
        let head = input.read(0..input.size.min(arrow_ipc::MAGIC.len() as u64)).await?;
        match head == arrow_ipc::MAGIC {
            true => Self::of_file(input, memory, range).await,
            false => Self::of_stream(input, memory, range).await,
        }
    }

    async fn of_file(input: Input, memory: Memory, range: Option<FileRange>) -> Result<Self> {
        let footer = footer(&input).await?;
        let begins_in = |block: &Block| {
            range
                .as_ref()
                .is_none_or(|range| i64::try_from(block.offset).is_ok_and(|at| range.start <= at && at < range.end))
        };
        let dictionaries = footer.dictionaries.into_iter().map(|block| (Kind::Dictionary, block));
        let blocks = footer.batches.into_iter().filter(begins_in).map(|block| (Kind::Batch, block));
        let (messages, version) = (Messages::Listed(dictionaries.chain(blocks).collect()), Some(footer.version));
        Ok(Self { input, schema: footer.schema, messages, version, dictionaries: HashMap::new(), memory })
    }

    async fn of_stream(input: Input, memory: Memory, range: Option<FileRange>) -> Result<Self> {
        let (metadata, body) = match message_at(&input, 0).await? {
            Some(first) => first,
            None => return Err(input.damage("neither a file nor a stream of Arrow".into())),
        };
        let schema = arrow_ipc::message(&metadata, body.end - body.start).and_then(|message| {
            let schema = message.header_as_schema().ok_or("neither a file nor a stream of Arrow")?;
            arrow_ipc::schema_of(schema)
        });
        let schema = Arc::new(schema.map_err(|detail| input.damage(detail))?);
        let from = if range.is_none_or(|range| range.start == 0) { body.end } else { input.size };
        let (messages, dictionaries) = (Messages::From(from), HashMap::new());
        Ok(Self { input, schema, messages, version: None, dictionaries, memory })
    }

    /// The rows of all batches, as the columns `wanted` of `schema`.
    pub fn rows(self, schema: SchemaRef, wanted: Vec<usize>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let schema = Arc::new(schema.project(&wanted)?);
        let projection = Projection::new(&self.schema, schema).map_err(|detail| self.input.mismatch(&detail))?;
        let state = Some(Rows { batches: self, projection, left: None });
        Ok(stream::unfold(state, async |state| {
            let mut rows = state?;
            match rows.next().await {
                Ok(Some(batch)) => Some((Ok(batch), Some(rows))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
        .boxed())
    }

    /// The columns `wanted` of the next batch.
    async fn next(&mut self, wanted: &[usize]) -> Result<Option<RecordBatch>> {
        loop {
            self.memory.hold(0)?;
            let Some(found) = self.next_message().await? else { return Ok(None) };
            // Many messages may precede a batch with rows.
            tokio::task::yield_now().await;
            if let Some((metadata, body)) = self.take(found)? {
                let rows = caught(|| self.decode(&metadata, body, wanted));
                let rows = rows.and_then(|rows| rows.map_err(|error| error.to_string()));
                return rows.map(Some).map_err(|detail| self.input.damage(detail));
            }
        }
    }

    async fn next_message(&mut self) -> Result<Option<Found>> {
        match &mut self.messages {
            Messages::Listed(blocks) => match blocks.pop_front() {
                Some((kind, block)) => self.at(kind, block).await.map(Some),
                None => Ok(None),
            },
            Messages::From(at) if *at >= self.input.size => Ok(None),
            Messages::From(at) => {
                if self.input.is_remote() {
                    self.memory.whole = self.input.size;
                    self.memory.hold(0)?;
                    self.input.bring().await?;
                }
                let Some((metadata, body)) = message_at(&self.input, *at).await? else { return Ok(None) };
                *at = body.end;
                self.memory.hold(body.end - body.start)?;
                let body = Buffer::from_vec(self.input.read(body).await?);
                Ok(Some(Found { kind: None, metadata, body }))
            }
        }
    }

    /// The message in `block`, expected to be of this kind.
    async fn at(&self, kind: Kind, block: Block) -> Result<Found> {
        self.memory.hold(block.body().end - block.offset)?;
        // One read for both parts: each request to a remote store is slow.
        let bytes = self.input.read(block.offset..block.body().end).await?;
        // The metadata is shorter than the bytes that were read.
        let until = block.metadata_bytes as usize;
        let part = arrow_ipc::metadata_length(&bytes[..until]).and_then(|length| {
            let (length, used) = length.ok_or("a block without a message")?;
            // Copied, so that the metadata are aligned.
            bytes[..until]
                .get(used..)
                .and_then(|rest| rest.get(..length))
                .map(<[u8]>::to_vec)
                .ok_or_else(|| format!("a message of {length} bytes in a block with {until} for it"))
        });
        let metadata = part.map_err(|detail| self.input.damage(detail))?;
        Ok(Found { kind: Some(kind), metadata, body: Buffer::from_vec(bytes).slice(until) })
    }

    /// Checks a message. A dictionary is decoded; a batch is returned with its body.
    fn take(&mut self, found: Found) -> Result<Option<(Vec<u8>, Buffer)>> {
        let Found { kind: wanted, metadata, body } = found;
        let (kind, claimed) = self.check(&metadata, &body).map_err(|detail| self.input.damage(detail))?;
        if wanted.is_some_and(|wanted| wanted != kind) {
            return Err(self.input.damage("a dictionary among batches, or a batch among dictionaries".into()));
        }
        has_room(claimed, body.len())?;
        // Uncompressed data are not copied.
        let there = body.len() as u64;
        let bytes = if claimed > there { claimed.saturating_add(there) } else { there };
        if kind == Kind::Batch {
            self.memory.hold(bytes)?;
            return Ok(Some((metadata, body)));
        }
        let message = root(&metadata)?;
        let dictionary = message.header_as_dictionary_batch().expect("it was checked");
        dictionary_bytes(&mut self.memory.dictionaries, &dictionary, bytes);
        has_room(self.memory.of_dictionaries(), body.len())?;
        // A delta dictionary is concatenated with the earlier parts in new memory.
        self.memory.hold(if dictionary.isDelta() { self.memory.dictionaries[&dictionary.id()] } else { 0 })?;
        let (schema, dictionaries) = (&self.schema, &mut self.dictionaries);
        let read = caught(|| read_dictionary(&body, dictionary, schema, dictionaries, &message.version()));
        let read = read.and_then(|read| read.map_err(|error| error.to_string()));
        read.map_err(|detail| self.input.damage(detail))?;
        Ok(None)
    }

    /// The kind of a message, and the decompressed bytes that it declares.
    fn check(&self, metadata: &[u8], body: &[u8]) -> Result<(Kind, u64), String> {
        let message = arrow_ipc::message(metadata, body.len() as u64)?;
        // Messages of files of the first version do not record it.
        let versions = self.version.filter(|version| *version != MetadataVersion::V1);
        if versions.is_some_and(|version| version != message.version()) {
            return Err("a message of another version than the file".into());
        }
        if let Some(batch) = message.header_as_record_batch() {
            let columns = Columns::Known(self.schema.fields());
            return Ok((Kind::Batch, arrow_ipc::check_batch(&batch, columns, BareRows::Any, body)?));
        }
        let Some(dictionary) = message.header_as_dictionary_batch() else {
            return Err(format!("a message of kind {:?} among batches", message.header_type()));
        };
        let batch = dictionary.data().ok_or("a dictionary without values")?;
        Ok((Kind::Dictionary, arrow_ipc::check_batch(&batch, Columns::Unknown, BareRows::Any, body)?))
    }

    fn decode(&self, metadata: &[u8], body: Buffer, wanted: &[usize]) -> Result<RecordBatch, ArrowError> {
        let message = root(metadata)?;
        let batch = message.header_as_record_batch().expect("it was checked");
        let (schema, version) = (Arc::clone(&self.schema), message.version());
        let decoder = RecordBatchDecoder::try_new(&body, batch, schema, &self.dictionaries, &version)?;
        decoder.with_projection(Some(wanted)).read_record_batch()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Batch,
    Dictionary,
}

/// A message that has been checked before.
fn root(metadata: &[u8]) -> Result<Message<'_>, ArrowError> {
    arrow::ipc::root_as_message(metadata).map_err(|error| ArrowError::IpcError(error.to_string()))
}

async fn footer(input: &Input) -> Result<Footer> {
    let tail = input.read(input.size.saturating_sub(arrow_ipc::TAIL_BYTES)..input.size).await?;
    let place = arrow_ipc::footer_place(&tail, input.size).map_err(|detail| input.damage(detail))?;
    let start = place.start;
    let bytes = input.read(place).await?;
    arrow_ipc::read_footer(&bytes, start).map_err(|detail| input.damage(detail))
}

/// The metadata of the message of a stream at `at`, and the range of its body; the next message follows it. `None`: the end.
async fn message_at(input: &Input, at: u64) -> Result<Option<(Vec<u8>, Range<u64>)>> {
    let prefix = input.read(at..input.size.min(at + arrow_ipc::PREFIX_BYTES as u64)).await?;
    let length = arrow_ipc::metadata_length(&prefix).map_err(|detail| input.damage(detail))?;
    let Some((length, used)) = length else { return Ok(None) };
    let start = at + used as u64;
    let Some(end) = start.checked_add(length as u64).filter(|&end| end <= input.size) else {
        return Err(input.damage(format!("a message of {length} bytes at {start} of {}", input.size)));
    };
    let metadata = input.read(start..end).await?;
    let message = arrow_ipc::message(&metadata, input.size - end);
    let bytes = message.map(|message| message.bodyLength() as u64).map_err(|detail| input.damage(detail))?;
    Ok(Some((metadata, end..end + bytes)))
}

/// The rows of a file, with the columns of its table.
struct Rows {
    batches: Batches,
    projection: Projection,
    /// The rest of the last batch.
    left: Option<RecordBatch>,
}

impl Rows {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let batch = match self.left.take() {
            Some(left) => left,
            None => match self.batches.next(&self.projection.read).await? {
                Some(batch) => batch,
                None => return Ok(None),
            },
        };
        let (all, some) = (batch.num_rows(), batch.num_rows().min(self.projection.at_once));
        self.left = (some < all).then(|| batch.slice(some, all - some));
        let batch = caught(|| self.projection.apply(&batch.slice(0, some)));
        Ok(Some(batch.map_err(|detail| self.batches.input.damage(detail))??))
    }
}

/// Columns of a table that are read from a file.
struct Projection {
    schema: SchemaRef,
    /// The positions of the columns that the file has.
    read: Vec<usize>,
    /// For each column of the table, its index in `read`; `None`: the file does not have it.
    from: Vec<Option<usize>>,
    /// Rows that are converted at a time.
    at_once: usize,
}

impl Projection {
    /// The columns of `schema` in a file with the columns `found`, matched by name. Columns are converted to the table's types, which come from
    /// another file or a declaration.
    fn new(found: &SchemaRef, schema: SchemaRef) -> Result<Self, String> {
        let (mut read, mut from, mut at_once) = (vec![], vec![], usize::MAX);
        for field in schema.fields() {
            let Some((position, own)) = found.fields().find(field.name()) else {
                from.push(None);
                at_once = ROWS_AT_ONCE;
                continue;
            };
            if own.data_type() != field.data_type() {
                let (name, found, wanted) = (field.name(), own.data_type(), field.data_type());
                if !can_cast_types(found, wanted) {
                    return Err(format!("column {name:?} is of type {found} in it, not {wanted}"));
                }
                at_once = ROWS_AT_ONCE;
            }
            from.push(Some(read.len()));
            read.push(position);
        }
        Ok(Self { schema, read, from, at_once })
    }

    fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let rows = batch.num_rows();
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let column = |(from, field): (&Option<usize>, &FieldRef)| match from.map(|at| batch.column(at)) {
            Some(own) if own.data_type() == field.data_type() => Ok(Arc::clone(own)),
            Some(own) => cast_with_options(own, field.data_type(), &strict),
            None => Ok(new_null_array(field.data_type(), rows)),
        };
        let columns = self.from.iter().zip(self.schema.fields()).map(column).collect::<Result<_, ArrowError>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, Int64Array, NullArray};
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};

    use super::*;

    fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
        let fields = fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    #[test]
    fn columns_of_other_types_become_those_of_the_table() {
        let list = |nullable| DataType::new_list(DataType::Int64, nullable);
        let own = schema(&[("n", DataType::Null), ("i", DataType::Int32), ("l", list(false))]);
        let table = schema(&[("i", DataType::Int64), ("n", DataType::Utf8), ("l", list(true)), ("x", DataType::Int64)]);
        let projection = Projection::new(&own, Arc::clone(&table)).unwrap();
        assert_eq!((&projection.read[..], projection.at_once), (&[1, 0, 2][..], ROWS_AT_ONCE));
        let lists = arrow::compute::cast(&Int64Array::from(vec![3, 4]), &list(false)).unwrap();
        let read: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(vec![1, 2])), Arc::new(NullArray::new(2)), lists];
        let batch = RecordBatch::try_new(Arc::new(own.project(&projection.read).unwrap()), read).unwrap();
        let rows = projection.apply(&batch).unwrap();
        assert_eq!(rows.schema(), table);
        assert_eq!(rows.column(0).as_ref(), &Int64Array::from(vec![1, 2]));
        assert_eq!((rows.column(1).null_count(), rows.column(3).null_count()), (2, 2));
        let pair = DataType::Struct(vec![Field::new("x", DataType::Int64, true)].into());
        assert!(Projection::new(&schema(&[("i", pair)]), schema(&[("i", DataType::Date32)])).is_err());
        assert_eq!(Projection::new(&own, Arc::clone(&own)).unwrap().at_once, usize::MAX);
    }

    #[test]
    fn memory_is_that_of_the_dictionaries_and_of_one_batch() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1000));
        let mut memory = Memory::of(&pool);
        memory.hold(600).unwrap();
        memory.hold(900).unwrap();
        memory.dictionaries.insert(7, 300);
        assert!(memory.hold(900).is_err());
        memory.hold(700).unwrap();
        assert_eq!(pool.reserved(), 1000);
        memory.hold(0).unwrap();
        assert_eq!(pool.reserved(), 300);
        drop(memory);
        assert_eq!(pool.reserved(), 0);
        let unbounded: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        Memory::of(&unbounded).hold(u64::MAX).unwrap();
    }
}
