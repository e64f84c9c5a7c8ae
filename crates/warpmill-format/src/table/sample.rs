//! Samples of text columns, by which planning estimates how many rows a pattern keeps.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, Datum, StringArray, StringBuilder};
use arrow::compute::{ilike, like};
use arrow::datatypes::DataType;
use parking_lot::Mutex;

use super::snapshot::TableSnapshot;
use crate::{Result, StrView};

/// Largest number of row segments that rows are taken from.
const SEGMENTS: usize = 4;
/// Largest number of rows that are taken from a row segment.
const ROWS: usize = 256;
/// Largest number of patterns whose fractions are kept.
const PATTERNS: usize = 64;

/// Texts of up to 1024 rows, spread over a table.
#[derive(Debug)]
pub struct TextSample {
    texts: StringArray,
    known: Mutex<HashMap<(String, bool), f64>>,
}

impl TextSample {
    /// The fraction of rows with a text that is LIKE `pattern`, or ILIKE it; the fraction of half a row if no text of the sample is. `None` for a
    /// pattern that cannot be evaluated.
    pub fn like(&self, pattern: &str, case_insensitive: bool) -> Option<f64> {
        let key = (pattern.to_string(), case_insensitive);
        if let Some(known) = self.known.lock().get(&key) {
            return Some(*known);
        }
        let pattern = StringArray::new_scalar(pattern);
        let pattern: &dyn Datum = &pattern;
        let found = if case_insensitive { ilike(&self.texts, pattern) } else { like(&self.texts, pattern) }.ok()?;
        let fraction = (found.true_count() as f64).max(0.5) / self.texts.len() as f64;
        let mut known = self.known.lock();
        if known.len() == PATTERNS {
            known.clear();
        }
        known.insert(key, fraction);
        Some(fraction)
    }
}

impl TableSnapshot {
    /// A sample of the text column `column`, taken at the first call. `None` for other columns, for Parquet files, for an empty table, and if a
    /// segment cannot be read: the scan reports the reason.
    pub fn text_sample(&self, column: usize) -> Option<Arc<TextSample>> {
        if self.is_parquet() || self.num_rows() == 0 || *self.schema().field(column).data_type() != DataType::Utf8 {
            return None;
        }
        let known = self.samples.lock().get(&column).cloned();
        known.unwrap_or_else(|| {
            // Without the lock, because reading takes time.
            let sample = self.sampled(column).ok().map(Arc::new);
            self.samples.lock().entry(column).or_insert(sample).clone()
        })
    }

    fn sampled(&self, column: usize) -> Result<TextSample> {
        let (all, mut texts) = (self.num_segments(), StringBuilder::new());
        for number in 0..all.min(SEGMENTS) {
            let segment = self.segment(number * all / all.min(SEGMENTS), column)?;
            let count = segment.rows().min(ROWS);
            let rows: Vec<u32> = (0..count).map(|i| sampled_row(i, count, segment.rows())).collect();
            let validity = segment.gather_validity(&rows);
            let (mut bytes, mut views) = (Vec::new(), vec![StrView::default(); count]);
            match self.dictionary(column) {
                Some(dictionary) => {
                    let mut codes = vec![0; count];
                    segment.gather_codes(&rows, &mut codes);
                    // The code of a NULL has no meaning.
                    let view = |code: u32| {
                        if (code as usize) < dictionary.len() { dictionary.view(code) } else { StrView::default() }
                    };
                    views.iter_mut().zip(codes).for_each(|(out, code)| *out = view(code));
                }
                None => segment.gather_str(&rows, &mut bytes, &mut views),
            }
            for (i, view) in views.iter().enumerate() {
                let valid = validity.as_ref().is_none_or(|validity| validity.get(i));
                texts.append_option(valid.then(|| view.as_str()));
            }
        }
        Ok(TextSample { texts: texts.finish(), known: Mutex::default() })
    }
}

/// A row of part `part` of `parts` parts of `rows` rows: at a pseudo-random place, because texts may repeat with the length of the parts.
fn sampled_row(part: usize, parts: usize, rows: usize) -> u32 {
    let (first, end) = (part * rows / parts, (part + 1) * rows / parts);
    let random = xxhash_rust::xxh3::xxh3_64(&part.to_le_bytes());
    (first + random as usize % (end - first)) as u32
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, RecordBatch, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};

    use crate::table::tests::small;
    use crate::{Table, TableSnapshot};

    fn in_memory(batch: &RecordBatch) -> Arc<TableSnapshot> {
        let mut writer = Table::in_memory(batch.schema()).append(small()).unwrap();
        writer.write(batch).unwrap();
        writer.commit().unwrap()
    }

    #[test]
    fn samples_tell_how_many_rows_a_pattern_keeps() {
        let text = |i: i32| match i % 10 {
            0 => None,
            1 => Some(format!("special packages {i}")),
            2 => Some("Customer".to_string()),
            _ => Some(format!("text {i}")),
        };
        let flag = |i: i32| Some(if i % 4 == 0 { "yes" } else { "no" });
        let schema = Schema::new(vec![
            Field::new("number", DataType::Int32, false),
            Field::new("text", DataType::Utf8, true),
            Field::new("flag", DataType::Utf8, true),
        ]);
        let rows = 50_000;
        let columns: Vec<arrow::array::ArrayRef> = vec![
            Arc::new(Int32Array::from_iter_values(0..rows)),
            Arc::new(StringArray::from_iter((0..rows).map(text))),
            Arc::new(StringArray::from_iter((0..rows).map(flag))),
        ];
        let table = in_memory(&RecordBatch::try_new(Arc::new(schema), columns).unwrap());
        assert!(table.text_sample(0).is_none());
        let sample = table.text_sample(1).unwrap();
        let near = |pattern: &str, case_insensitive: bool, expected: f64| {
            for _ in 0..2 {
                let fraction = sample.like(pattern, case_insensitive).unwrap();
                assert!((fraction - expected).abs() < 0.05, "{pattern}: {fraction}, not {expected}");
            }
        };
        near("special%packages%", false, 0.1);
        near("%CUSTOM%", true, 0.1);
        near("%CUSTOM%", false, 0.0);
        near("%", false, 0.9);
        assert!(sample.like("%nothing%", false).unwrap() > 0.0);
        assert!((table.text_sample(2).unwrap().like("y%", false).unwrap() - 0.25).abs() < 0.1);
        let empty = in_memory(&RecordBatch::new_empty(table.schema().clone()));
        assert!(empty.text_sample(1).is_none());
    }
}
