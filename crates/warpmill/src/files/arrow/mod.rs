//! Arrow IPC files and streams, which have no checksums: their declared sizes and offsets are checked against the actual bytes before anything is
//! decoded.
//!
//! - `input`: bytes of local or remote files;
//! - `batches`: messages, checked and decoded one by one;
//! - `source`: scans;
//! - `format`: schemas and plans.

mod batches;
mod format;
mod input;
mod source;

use std::collections::HashMap;

use arrow::ipc::DictionaryBatch;
use warpmill_format::arrow_ipc::{self, BareRows, Columns};

pub(crate) use format::CheckedArrowFactory;

use crate::{Error, Result};

/// Checks the metadata and data of a message of a received Arrow stream before it is decoded. Adds up the bytes of the stream's `dictionaries`, by
/// dictionary number.
///
/// # Errors
/// [`Error::Execution`] where the message is malformed, [`Error::OutOfMemory`] where there is no memory for its decompressed data.
pub fn check_message(metadata: &[u8], data: &[u8], dictionaries: &mut HashMap<i64, u64>) -> Result<u64> {
    let claimed = arrow_ipc::message(metadata, data.len() as u64).and_then(|message| {
        if let Some(schema) = message.header_as_schema() {
            arrow_ipc::schema_of(schema)?;
        }
        let dictionary = message.header_as_dictionary_batch();
        let values = dictionary.and_then(|dictionary| dictionary.data());
        let Some(batch) = message.header_as_record_batch().or(values) else { return Ok(0) };
        let claimed = arrow_ipc::check_batch(&batch, Columns::Unknown, BareRows::Few, data)?;
        if let Some(dictionary) = dictionary {
            dictionary_bytes(dictionaries, &dictionary, claimed.max(data.len() as u64));
        }
        Ok(claimed)
    });
    let claimed = claimed.map_err(Error::Execution)?;
    input::has_room(claimed, data.len())?;
    Ok(claimed)
}

/// Counts the `bytes` of a dictionary, which replaces the one before or is appended to it (delta).
fn dictionary_bytes(all: &mut HashMap<i64, u64>, dictionary: &DictionaryBatch<'_>, bytes: u64) {
    let before = all.entry(dictionary.id()).or_default();
    *before = if dictionary.isDelta() { before.saturating_add(bytes) } else { bytes };
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, DictionaryArray, NullArray, RecordBatch};
    use arrow::datatypes::{DataType, Field, Int32Type, Schema};
    use arrow::ipc::writer::StreamWriter;

    use super::*;

    /// The messages of a stream: metadata and data.
    fn messages(stream: &[u8]) -> Vec<(&[u8], &[u8])> {
        let (mut found, mut at) = (vec![], 0);
        while let Some((length, used)) = arrow_ipc::metadata_length(&stream[at..]).unwrap() {
            let body = at + used + length;
            let metadata = &stream[at + used..body];
            let bytes = arrow_ipc::message(metadata, u64::MAX).unwrap().bodyLength() as usize;
            found.push((metadata, &stream[body..body + bytes]));
            at = body + bytes;
        }
        found
    }

    fn stream(column: ArrayRef) -> Vec<u8> {
        let rows = RecordBatch::try_from_iter([("x", column)]).unwrap();
        let mut writer = StreamWriter::try_new(Vec::new(), &rows.schema()).unwrap();
        writer.write(&rows).unwrap();
        writer.into_inner().unwrap()
    }

    #[test]
    fn schemas_of_messages_are_checked() {
        let values = |precision| Box::new(DataType::Decimal128(precision, 2));
        for (precision, sound) in [(38, true), (39, false)] {
            let data_type = DataType::Dictionary(Box::new(DataType::Int32), values(precision));
            let schema = Schema::new(vec![Field::new("x", data_type, true)]);
            let stream = StreamWriter::try_new(Vec::new(), &schema).unwrap().into_inner().unwrap();
            let (metadata, data) = messages(&stream)[0];
            assert_eq!(check_message(metadata, data, &mut HashMap::new()).is_ok(), sound, "{precision}");
        }
    }

    #[test]
    fn rows_without_bytes_are_few() {
        for (count, sound) in [(1 << 20, true), (i32::MAX as usize, false)] {
            let stream = stream(Arc::new(NullArray::new(count)));
            let (metadata, data) = messages(&stream)[1];
            assert_eq!(check_message(metadata, data, &mut HashMap::new()).is_ok(), sound, "{count}");
        }
    }

    #[test]
    fn dictionaries_are_counted() {
        let column: DictionaryArray<Int32Type> = ["one", "two", "one"].into_iter().collect();
        let stream = stream(Arc::new(column));
        let (metadata, data) = messages(&stream)[1];
        let mut dictionaries = HashMap::new();
        // A dictionary that replaces itself counts once.
        for _ in 0..2 {
            check_message(metadata, data, &mut dictionaries).unwrap();
            assert_eq!(dictionaries.values().copied().collect::<Vec<_>>(), [data.len() as u64]);
        }
    }
}
