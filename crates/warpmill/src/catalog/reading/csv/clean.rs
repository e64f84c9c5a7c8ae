//! Cleans the bytes of CSV files: removes lines before the first record, comments, and records with a wrong number of fields.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use super::super::compressed::Compression;
use super::options::{Options, UNQUOTED};
use crate::{Error, Result};

/// Number of bytes at the beginning of a file in which its line ending is detected.
const LOOKED_AT: usize = 1 << 16;
const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

/// The treatment of records with fewer or more fields than the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Uneven {
    /// Keeps them; the reader then refuses them.
    Kept,
    /// Pads them with empty fields up to `width` fields; the first record with names if it is a header.
    Padded { width: usize, header: bool },
    /// Drops them.
    LeftOut { width: usize },
}

/// The rules for turning files into plain records.
#[derive(Debug, Clone)]
pub(super) struct Cleaning {
    compression: Option<Compression>,
    skip: usize,
    comment: Option<u8>,
    delimiter: u8,
    quote: Option<u8>,
    escape: Option<u8>,
    pub(super) uneven: Uneven,
    unquoted: Option<Arc<Unquoted>>,
}

/// Rules for fields that mean NULL unless they have quotes: they are replaced by a text of their own.
#[derive(Debug)]
struct Unquoted {
    nulls: Vec<Vec<u8>>,
    /// Whether the first record is a header.
    header: bool,
    /// Whether there is one column: a blank line is a record then.
    is_single: bool,
}

impl Unquoted {
    fn of(options: &Options) -> Option<Arc<Self>> {
        let nulls = options.unquoted.as_ref()?.iter().map(|null| null.as_bytes().to_vec()).collect();
        let is_single = options.columns.as_ref().is_some_and(|columns| columns.len() == 1);
        Some(Arc::new(Self { nulls, header: options.header.unwrap_or(false), is_single }))
    }
}

impl Cleaning {
    pub(super) fn of(options: &Options, delimiter: u8) -> Self {
        Self {
            compression: options.compression,
            skip: options.skip,
            comment: options.comment,
            delimiter,
            quote: options.quote,
            escape: options.escape_byte(),
            uneven: Uneven::Kept,
            unquoted: Unquoted::of(options),
        }
    }

    /// Whether the bytes of `path` need no cleaning.
    pub(super) fn is_plain(&self, path: &Path) -> bool {
        self.skip == 0
            && self.comment.is_none()
            && self.uneven == Uneven::Kept
            && self.unquoted.is_none()
            && Compression::of(self.compression, path) == Compression::None
    }

    /// The cleaned bytes of `path`.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub(super) fn open(&self, path: &Path) -> Result<Box<dyn Read + Send>> {
        match self.is_plain(path) {
            true => Compression::None.open(path),
            false => Ok(Box::new(Cleaned { records: self.records(path)?, record: vec![], at: 0, first: true })),
        }
    }

    /// The largest number of fields in a record of `path`, and the number of fields in its first record.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(super) fn widths(&self, path: &Path) -> Result<(usize, usize)> {
        let (mut records, mut record) = (self.records(path)?, vec![]);
        let (mut first, mut most) = (None, 0);
        let failed = |error: std::io::Error| Error::Io(format!("{}: {error}", path.display()));
        while let Some(fields) = records.next(&mut record).map_err(failed)? {
            first.get_or_insert(fields);
            most = most.max(fields);
        }
        Ok((most, first.unwrap_or(0)))
    }

    fn records(&self, path: &Path) -> Result<Records> {
        let compression = Compression::of(self.compression, path);
        let failed = |error: std::io::Error| Error::Io(format!("{}: {error}", path.display()));
        let mut reader = BufReader::with_capacity(LOOKED_AT, compression.open(path)?);
        let start = reader.fill_buf().map_err(failed)?;
        let is_old = start.contains(&b'\r') && !start.contains(&b'\n');
        let bom = if start.starts_with(&BOM) { BOM.len() } else { 0 };
        reader.consume(bom);
        let mut records = Records { reader, rules: self.clone(), ending: if is_old { b'\r' } else { b'\n' } };
        let mut line = vec![];
        for _ in 0..self.skip {
            line.clear();
            records.reader.read_until(records.ending, &mut line).map_err(failed)?;
        }
        Ok(records)
    }
}

/// A position in a record, as the scanner's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The beginning of a field.
    Start,
    Plain,
    Quoted,
    /// The position after a quote within quotes.
    Closing,
}

/// A reader of single records.
struct Records {
    reader: BufReader<Box<dyn Read + Send>>,
    rules: Cleaning,
    /// Last byte of a line ending.
    ending: u8,
}

impl Records {
    /// Reads the next non-blank record into `record`, with its line ending. Returns its number of fields.
    fn next(&mut self, record: &mut Vec<u8>) -> std::io::Result<Option<usize>> {
        loop {
            record.clear();
            let (mut place, mut fields, mut from) = (Place::Start, 1, 0);
            loop {
                if self.reader.read_until(self.ending, record)? == 0 {
                    break;
                }
                let end = from + content(&record[from..]);
                let cut;
                (place, cut) = self.rules.line(&record[from..end], place, &mut fields);
                if let Some(cut) = cut {
                    record.drain(from + cut..end);
                }
                if place != Place::Quoted {
                    break;
                }
                from = record.len();
            }
            if record.is_empty() {
                return Ok(None);
            }
            if self.ending == b'\r' && record.ends_with(b"\r") {
                record.pop();
                record.push(b'\n');
            }
            if content(record) > 0 || self.rules.unquoted.as_ref().is_some_and(|unquoted| unquoted.is_single) {
                return Ok(Some(fields));
            }
        }
    }
}

/// The length of a line without its line ending.
fn content(line: &[u8]) -> usize {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line).len()
}

impl Cleaning {
    /// Scans a line from state `place` on. Returns the state at its end, and the start of a comment. Adds the fields that begin in it to `fields`.
    fn line(&self, line: &[u8], mut place: Place, fields: &mut usize) -> (Place, Option<usize>) {
        let mut escaped = false;
        for (at, byte) in line.iter().copied().enumerate() {
            if std::mem::take(&mut escaped) {
                continue;
            }
            if place == Place::Quoted {
                escaped = Some(byte) == self.escape;
                if Some(byte) == self.quote {
                    place = Place::Closing;
                }
                continue;
            }
            if Some(byte) == self.comment {
                return (Place::Plain, Some(at));
            }
            place = match place {
                _ if byte == self.delimiter => {
                    *fields += 1;
                    Place::Start
                }
                Place::Start | Place::Closing if Some(byte) == self.quote => Place::Quoted,
                _ => Place::Plain,
            };
        }
        (place, None)
    }
}

impl Cleaning {
    /// A record in which [`UNQUOTED`] replaces fields without quotes that are one of `nulls`.
    fn marked(&self, record: &[u8], nulls: &[Vec<u8>]) -> Vec<u8> {
        let (mut rest, ending) = record.split_at(content(record));
        let mut out = Vec::with_capacity(record.len() + UNQUOTED.len());
        loop {
            let (field, after) = rest.split_at(self.field_end(rest));
            let is_quoted = self.quote.is_some_and(|quote| field.first() == Some(&quote));
            match !is_quoted && nulls.iter().any(|null| null == field) {
                true => out.extend_from_slice(UNQUOTED.as_bytes()),
                false => out.extend_from_slice(field),
            }
            let Some((delimiter, next)) = after.split_first() else { break };
            out.push(*delimiter);
            rest = next;
        }
        out.extend_from_slice(ending);
        out
    }

    /// The end of the field at the beginning of `rest`.
    fn field_end(&self, rest: &[u8]) -> usize {
        let (mut place, mut escaped) = (Place::Start, false);
        for (at, byte) in rest.iter().copied().enumerate() {
            if std::mem::take(&mut escaped) {
                continue;
            }
            if place == Place::Quoted {
                escaped = Some(byte) == self.escape;
                if Some(byte) == self.quote {
                    place = Place::Closing;
                }
                continue;
            }
            if byte == self.delimiter {
                return at;
            }
            place = match place {
                Place::Start | Place::Closing if Some(byte) == self.quote => Place::Quoted,
                _ => Place::Plain,
            };
        }
        rest.len()
    }
}

/// The cleaned records as bytes.
struct Cleaned {
    records: Records,
    record: Vec<u8>,
    /// Number of bytes of `record` that have been read.
    at: usize,
    /// Whether the next record is the first one.
    first: bool,
}

impl Cleaned {
    /// Moves to the next record to keep; returns false at the end.
    fn advance(&mut self) -> std::io::Result<bool> {
        loop {
            self.at = 0;
            let Some(fields) = self.records.next(&mut self.record)? else { return Ok(false) };
            let first = std::mem::take(&mut self.first);
            match self.records.rules.uneven {
                Uneven::LeftOut { width } if fields != width => continue,
                Uneven::Padded { width, header } if fields < width => {
                    let end = content(&self.record);
                    let ending = self.record.split_off(end);
                    for field in fields..width {
                        self.record.push(self.records.rules.delimiter);
                        if header && first {
                            self.record.extend_from_slice(super::numbered(field, width).as_bytes());
                        }
                    }
                    self.record.extend(ending);
                }
                Uneven::Kept | Uneven::LeftOut { .. } | Uneven::Padded { .. } => {}
            }
            if let Some(unquoted) = &self.records.rules.unquoted
                && !(first && unquoted.header)
            {
                self.record = self.records.rules.marked(&self.record, &unquoted.nulls);
            }
            return Ok(true);
        }
    }
}

impl Read for Cleaned {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            if self.at == self.record.len() && !self.advance()? {
                self.record.clear();
                self.at = 0;
                break;
            }
            let count = (buffer.len() - filled).min(self.record.len() - self.at);
            buffer[filled..filled + count].copy_from_slice(&self.record[self.at..self.at + count]);
            (self.at, filled) = (self.at + count, filled + count);
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &str, rules: impl FnOnce(&mut Cleaning)) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut cleaning = Cleaning::of(&Options::default(), b',');
        rules(&mut cleaning);
        let mut out = String::new();
        cleaning.open(file.path()).unwrap().read_to_string(&mut out).unwrap();
        out
    }

    #[test]
    fn comments_end_with_their_line() {
        let with = |rules: &mut Cleaning| rules.comment = Some(b'#');
        assert_eq!(cleaned("# x\na,b\r\n#\n1,\"#\n#\" # y\r\n\n2,z#", with), "a,b\r\n1,\"#\n#\" \r\n2,z");
        assert_eq!(cleaned("#\n# only", with), "");
    }

    #[test]
    fn lines_are_passed_over() {
        assert_eq!(cleaned("\u{feff}no, \"header\na,b\n1,2\n", |rules| rules.skip = 1), "a,b\n1,2\n");
        assert_eq!(cleaned("a\rb\r1\r", |rules| rules.skip = 1), "b\n1\n");
        assert_eq!(cleaned("a\n", |rules| rules.skip = 5), "");
    }

    #[test]
    fn records_get_the_same_numbers_of_fields() {
        let padded = |header| move |rules: &mut Cleaning| rules.uneven = Uneven::Padded { width: 3, header };
        assert_eq!(cleaned("a,b\n1\n\"x,\ny\",2\n1,2,3", padded(true)), "a,b,column2\n1,,\n\"x,\ny\",2,\n1,2,3");
        assert_eq!(cleaned("1\r\n", padded(false)), "1,,\r\n");
        let left_out = |rules: &mut Cleaning| rules.uneven = Uneven::LeftOut { width: 2 };
        assert_eq!(cleaned("a,b\n1\n\"x,\"\"y\",2\n1,2,3\n4,5", left_out), "a,b\n\"x,\"\"y\",2\n4,5");
    }

    #[test]
    fn nulls_without_quotes_get_a_text() {
        let with = |is_single| {
            move |rules: &mut Cleaning| {
                let nulls = vec![b"".to_vec(), b"NA".to_vec()];
                rules.unquoted = Some(Arc::new(Unquoted { nulls, header: true, is_single }));
            }
        };
        assert_eq!(
            cleaned("a,,c\n\"\",,NA\r\n\"NA\",\"x,\"\"\n\",\n\n1,2,3", with(false)),
            "a,,c\n\"\",\u{1}null,\u{1}null\r\n\"NA\",\"x,\"\"\n\",\u{1}null\n1,2,3"
        );
        assert_eq!(cleaned("a\n\n\"\"\nx\n", with(true)), "a\n\u{1}null\n\"\"\nx\n");
    }

    #[test]
    fn escapes_are_those_of_the_options() {
        let with = |rules: &mut Cleaning| {
            rules.escape = Some(b'\\');
            rules.uneven = Uneven::LeftOut { width: 2 };
        };
        assert_eq!(cleaned("\"a\\\",\",b\n1,2,3\n", with), "\"a\\\",\",b\n");
    }
}
