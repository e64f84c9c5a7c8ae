//! Appends rows of DuckDB's to tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use warpmill::Error;

use super::transaction::Transaction;
use super::{Failed, Kind};

/// Largest number of batches that wait for the writer.
const WAITING: usize = 4;

/// Appends rows to a table in a transaction, on a thread of its own. Dropped before [`Append::finish`] it adds nothing.
pub struct Append {
    received: SchemaRef,
    writer: Arc<Writer>,
}

/// The thread that writes the rows.
pub(super) struct Writer {
    sender: Mutex<Option<SyncSender<RecordBatch>>>,
    work: Mutex<Work>,
    given_up: Arc<AtomicBool>,
}

enum Work {
    Running(JoinHandle<Result<u64, Error>>),
    Done(Result<u64, Failed>),
}

/// The rows that the writer receives, until the sender is dropped.
struct Rows {
    receiver: Receiver<RecordBatch>,
    given_up: Arc<AtomicBool>,
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.receiver.recv() {
            Ok(batch) => Some(Ok(batch)),
            Err(_) => self.given_up.load(Ordering::Acquire).then_some(Err(Error::Cancelled)),
        }
    }
}

impl Append {
    /// Begins to append rows of `schema`, which are matched by position, to the table that SQL calls `name`.
    ///
    /// # Errors
    /// The system has no threads.
    pub fn new(transaction: &Transaction, name: String, schema: &SchemaRef) -> Result<Self, Failed> {
        let (sender, receiver) = sync_channel(WAITING);
        let given_up = Arc::new(AtomicBool::new(false));
        let rows = Rows { receiver, given_up: Arc::clone(&given_up) };
        let session = transaction.session().clone();
        let write = move || {
            let appended = warpmill::caught(move || session.append_table(&name, rows));
            appended.and_then(|rows| rows)
        };
        let thread = std::thread::Builder::new().name("warpmill-append".into()).spawn(write);
        let thread = thread.map_err(|error| Failed::new(Kind::Memory, format!("no thread for a writer: {error}")))?;
        let received = warpmill::received_schema(schema);
        let (sender, work) = (Mutex::new(Some(sender)), Mutex::new(Work::Running(thread)));
        let writer = Arc::new(Writer { sender, work, given_up });
        transaction.has_writer(&writer);
        Ok(Self { received, writer })
    }

    /// Adds rows.
    ///
    /// # Errors
    /// The reason why the writer has stopped.
    pub fn push(&self, batch: RecordBatch) -> Result<(), Failed> {
        let batch = warpmill::with_schema(batch, &self.received)?;
        let sender = self.writer.sender.lock().clone();
        match sender.map(|sender| sender.send(batch)) {
            Some(Ok(())) => Ok(()),
            _ => Err(self.writer.outcome().err().unwrap_or_else(|| Failed::new(Kind::Invalid, "the writer has ended"))),
        }
    }

    /// Waits until all rows are written, and gives their number.
    ///
    /// # Errors
    /// The reason why the writer has failed; no row is added then.
    pub fn finish(&self) -> Result<u64, Failed> {
        self.writer.outcome()
    }
}

impl Drop for Append {
    fn drop(&mut self) {
        self.writer.give_up();
    }
}

impl Writer {
    /// Closes the channel of rows, waits for the writer, and gives the number of rows that it has written.
    fn outcome(&self) -> Result<u64, Failed> {
        drop(self.sender.lock().take());
        let mut work = self.work.lock();
        let running =
            std::mem::replace(&mut *work, Work::Done(Err(Failed::new(Kind::Internal, "a writer has panicked"))));
        let done = match running {
            Work::Running(thread) => match thread.join() {
                Ok(written) => written.map_err(Failed::from),
                Err(_) => Err(Failed::new(Kind::Internal, "a writer has panicked")),
            },
            Work::Done(done) => done,
        };
        *work = Work::Done(done.clone());
        done
    }

    /// Ends the writer, which adds nothing unless it has finished.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
        // The outcome does not matter: the writer was told to stop.
        let _ = self.outcome();
    }
}
