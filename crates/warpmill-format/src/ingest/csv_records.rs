//! Boundaries of CSV records: dividing a file into pieces that can be parsed separately, and finding the line of a row.

use std::io::Read;

use memchr::{memchr, memchr_iter, memchr2, memrchr};

use super::from_csv::CsvOptions;

/// Size of a piece in bytes; larger only for a longer record.
const PIECE_BYTES: usize = 4 << 20;
/// A record longer than this is taken for a quote that is never closed.
const LONGEST_RECORD: usize = 256 << 20;

/// Whole records of a file.
pub(super) struct Piece {
    pub bytes: Vec<u8>,
    /// The line, from 1, of the first record.
    pub first_line: u64,
}

/// The end, past its newline, of the record that starts at `start`; `None` if it is incomplete.
fn record_end(bytes: &[u8], start: usize, options: &CsvOptions) -> Option<usize> {
    let mut at = start;
    loop {
        if bytes.get(at) == Some(&options.quote) {
            at = quoted_end(bytes, at + 1, options)?;
        }
        at += memchr2(options.delimiter, b'\n', &bytes[at..])? + 1;
        if bytes[at - 1] == b'\n' {
            return Some(at);
        }
    }
}

/// The position after the closing quote of a field whose text starts at `at`.
fn quoted_end(bytes: &[u8], mut at: usize, options: &CsvOptions) -> Option<usize> {
    loop {
        let rest = bytes.get(at..)?;
        let next = match options.escape {
            Some(escape) => memchr2(options.quote, escape, rest)?,
            None => memchr(options.quote, rest)?,
        };
        at += next + 1;
        let escaped = bytes[at - 1] != options.quote || bytes.get(at) == Some(&options.quote);
        if !escaped {
            return Some(at);
        }
        at += 1;
    }
}

/// The end of the last whole record of `bytes`, which start with a record.
fn last_record_end(bytes: &[u8], options: &CsvOptions) -> Option<usize> {
    if memchr(options.quote, bytes).is_none() {
        return memrchr(b'\n', bytes).map(|at| at + 1);
    }
    let mut last = None;
    while let Some(end) = record_end(bytes, last.unwrap_or(0), options) {
        last = Some(end);
    }
    last
}

/// The starts of the records of `bytes`; skips blank lines, as the parser does.
pub(super) fn record_starts(bytes: &[u8], options: &CsvOptions) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let end = record_end(bytes, at, options).unwrap_or(bytes.len());
        if !bytes[at..end].iter().all(|b| matches!(b, b'\r' | b'\n')) {
            starts.push(at);
        }
        at = end;
    }
    starts
}

/// Newlines in `bytes`.
pub(super) fn lines(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}

/// Divides the data of `reader` into pieces.
pub(super) struct Pieces<'a, R> {
    reader: R,
    options: &'a CsvOptions,
    /// Data read, but not returned yet.
    rest: Vec<u8>,
    line: u64,
    skip_header: bool,
    end: bool,
}

impl<'a, R: Read> Pieces<'a, R> {
    pub fn new(reader: R, options: &'a CsvOptions) -> Self {
        Self { reader, options, rest: Vec::new(), line: 1, skip_header: options.has_header, end: false }
    }

    /// The next piece; an error is one of reading, or contains the line of a record without an end.
    pub fn next(&mut self) -> Result<Option<Piece>, (Option<u64>, std::io::Error)> {
        let mut wanted = PIECE_BYTES;
        loop {
            let missing = wanted.saturating_sub(self.rest.len());
            if !self.end {
                let read =
                    (&mut self.reader).take(missing as u64).read_to_end(&mut self.rest).map_err(|e| (None, e))?;
                self.end = read < missing;
            }
            let end = if self.end { Some(self.rest.len()) } else { last_record_end(&self.rest, self.options) };
            let Some(end) = end else {
                if wanted >= LONGEST_RECORD {
                    let text = format!("a record of more than {LONGEST_RECORD} bytes: a quote that is not closed?");
                    return Err((Some(self.line), std::io::Error::other(text)));
                }
                wanted *= 2;
                continue;
            };
            let rest = self.rest.split_off(end);
            let mut bytes = std::mem::replace(&mut self.rest, rest);
            let mut first_line = self.line;
            self.line += lines(&bytes);
            if std::mem::take(&mut self.skip_header) {
                let header = header_end(&bytes, self.options);
                first_line += lines(&bytes[..header]);
                bytes.drain(..header);
            }
            if !bytes.is_empty() {
                return Ok(Some(Piece { bytes, first_line }));
            }
            if self.end {
                return Ok(None);
            }
            wanted = PIECE_BYTES;
        }
    }
}

/// The end of the first record that is not a blank line.
fn header_end(bytes: &[u8], options: &CsvOptions) -> usize {
    let start = bytes.iter().position(|b| !matches!(b, b'\r' | b'\n')).unwrap_or(bytes.len());
    record_end(bytes, start, options).unwrap_or(bytes.len())
}
