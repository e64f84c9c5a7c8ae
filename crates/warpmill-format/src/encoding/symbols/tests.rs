use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::DataType;
use proptest::prelude::*;

use super::TextAutomaton;
use crate::segment::{Encoding, Segment, SegmentBytes};
use crate::{StrView, VECTOR_ROWS};

/// Rows in symbols, read again from their bytes; `None` where symbols do not pay.
fn encoded(rows: &[Option<String>]) -> Option<Segment> {
    let array: ArrayRef = Arc::new(rows.iter().map(|row| row.as_deref()).collect::<StringArray>());
    let plain = Segment::encode(&array, None, None).unwrap();
    let symbols = plain.to_symbols().unwrap()?;
    assert_eq!(symbols.encoding(), Encoding::Symbols);
    assert!(symbols.as_bytes().len() < plain.as_bytes().len());
    assert_eq!(symbols.stats().plain_bytes, plain.stats().plain_bytes);
    let back = symbols.to_plain().unwrap();
    assert!(back.as_bytes()[..] == plain.as_bytes()[..]);
    Some(Segment::from_bytes(SegmentBytes::copy_from(symbols.as_bytes()), &DataType::Utf8, rows.len()).unwrap())
}

/// Compares the results of all read methods with `rows`.
fn check(segment: &Segment, rows: &[Option<String>], picks: &[u32]) {
    let expected = |row: usize| rows[row].as_deref().unwrap_or("");
    let mut text = b"left over".to_vec();
    for start in (0..rows.len()).step_by(2 * VECTOR_ROWS) {
        let mut views = vec![StrView::default(); (2 * VECTOR_ROWS).min(rows.len() - start)];
        segment.decode_str(start, &mut text, &mut views);
        views.iter().enumerate().for_each(|(i, view)| assert_eq!(view.as_str(), expected(start + i)));
    }
    let mut views = vec![StrView::default(); picks.len()];
    segment.gather_str(picks, &mut text, &mut views);
    picks.iter().zip(&views).for_each(|(&row, view)| assert_eq!(view.as_str(), expected(row as usize)));
    let valid = segment.validity(0, rows.len());
    assert!((0..rows.len()).all(|i| valid.as_ref().is_none_or(|valid| valid.get(i)) == rows[i].is_some()));
}

/// Compares the results of automata on a segment with searches in `rows`.
fn check_tests(segment: &Segment, rows: &[Option<String>], words: &[String], seed: u64) {
    let [a, b, c] = [0, 1, 2].map(|i| words.get(i).map_or("", String::as_str));
    let middle = |s: &str| {
        let Some(rest) = s.strip_prefix(a).and_then(|rest| rest.strip_suffix(c)) else { return false };
        rest.contains(b)
    };
    let in_order = |s: &str| s.find(a).is_some_and(|at| s[at + a.len()..].contains(b));
    type Test<'a> = &'a dyn Fn(&str) -> bool;
    let tests: [(Option<TextAutomaton>, Test<'_>); 5] = [
        (TextAutomaton::exactly(a), &|s| s == a),
        (TextAutomaton::parts(a, [b.as_bytes()].into_iter(), c), &middle),
        (TextAutomaton::parts("", [a.as_bytes(), b.as_bytes()].into_iter(), ""), &in_order),
        (TextAutomaton::parts("", [].into_iter(), c), &|s| s.ends_with(c)),
        (TextAutomaton::parts(a, [].into_iter(), ""), &|s| s.starts_with(a)),
    ];
    for (automaton, expected) in tests {
        let Some(automaton) = automaton else { continue };
        let symbols = segment.text_automaton(&automaton).unwrap();
        for (start, wanted) in (0..rows.len()).step_by(VECTOR_ROWS).flat_map(|start| [(start, true), (start, false)]) {
            let len = (2 * VECTOR_ROWS).min(rows.len() - start);
            let mut mask: Vec<u64> =
                (0..len.div_ceil(64)).map(|i| if i % 3 == 0 { !0 } else { seed.rotate_left(i as u32) }).collect();
            let before = mask.clone();
            segment.and_text(start, len, &symbols, wanted, &mut mask);
            for row in 0..len {
                let text = rows[start + row].as_deref().unwrap_or("");
                assert_eq!(automaton.accepts(text.as_bytes()), expected(text), "{text:?}: {a:?} {b:?} {c:?}");
                let kept = before[row / 64] >> (row % 64) & 1 != 0 && expected(text) == wanted;
                assert_eq!(mask[row / 64] >> (row % 64) & 1 != 0, kept, "{text:?}: {a:?} {b:?} {c:?}");
            }
        }
    }
}

const WORDS: [&str; 12] = [
    "carefully ",
    "final ",
    "deposits ",
    "naïve",
    "дом ",
    "家",
    "🦀🦀",
    "x",
    "",
    "0000",
    "http://www.example.com/",
    "\u{0}",
];

fn rows() -> impl Strategy<Value = Vec<Option<String>>> {
    let words = prop::collection::vec(prop::sample::select(&WORDS[..]), 0..12);
    let text = prop_oneof![
        8 => words.prop_map(|words| words.concat()),
        1 => "\\PC{0,20}",
        1 => Just("long and longer ".repeat(300)),
    ];
    prop::collection::vec(prop::option::weighted(0.95, text), 400..3000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn strings_round_trip(rows in rows(), seed in any::<u32>(), words in prop::collection::vec("[a-z ]{0,2}|ly f|deposits|000|家", 0..4)) {
        if let Some(segment) = encoded(&rows) {
            check_tests(&segment, &rows, &words, u64::from(seed) << 20 | 5);
            let picks: Vec<u32> = (0..500u32).map(|i| i.wrapping_mul(seed | 1) % rows.len() as u32).collect();
            check(&segment, &rows, &picks);
        }
    }

    #[test]
    fn damaged_bytes_are_errors_or_text(rows in rows(), damage in prop::collection::vec((any::<u32>(), any::<u8>()), 1..6), near in any::<bool>()) {
        let Some(segment) = encoded(&rows) else { return Ok(()) };
        let mut bytes = segment.to_bytes();
        let reach = if near { bytes.len().min(2048) } else { bytes.len() };
        for (at, value) in damage {
            bytes[at as usize % reach] = value;
        }
        let Ok(read) = Segment::from_bytes(SegmentBytes::copy_from(&bytes), &DataType::Utf8, rows.len()) else { return Ok(()) };
        let (mut text, mut views) = (Vec::new(), vec![StrView::default(); rows.len()]);
        read.decode_str(0, &mut text, &mut views);
        let sound = |view: &StrView| std::str::from_utf8(view.as_bytes()).is_ok();
        prop_assert!(views.iter().all(sound));
        let picks: Vec<u32> = (0..rows.len() as u32).step_by(3).collect();
        let mut views = vec![StrView::default(); picks.len()];
        read.gather_str(&picks, &mut text, &mut views);
        prop_assert!(views.iter().all(sound));
        let _plain = read.to_plain();
    }
}

#[test]
fn cut_off_bytes_are_errors() {
    let rows: Vec<_> = (0..3000).map(|i| Some(format!("slyly final accounts {}", i % 7))).collect();
    let bytes = encoded(&rows).unwrap().to_bytes();
    for len in (0..bytes.len()).step_by(7) {
        assert!(Segment::from_bytes(SegmentBytes::copy_from(&bytes[..len]), &DataType::Utf8, 3000).is_err(), "{len}");
    }
}

#[test]
fn a_symbol_table_that_lies_is_an_error() {
    let rows: Vec<_> = (0..3000).map(|i| Some(format!("slyly final accounts {}", i % 7))).collect();
    let bytes = encoded(&rows).unwrap().to_bytes();
    let section = |i: usize| {
        let at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        at(64 + 16 * i)..at(64 + 16 * i) + at(64 + 16 * i + 8)
    };
    // Statistics, encoding of the ends, lengths, symbols, starts, texts.
    let cases = [
        (section(1).start, 200u8, "does not exist"),
        (section(1).start, 8, "integers in encoding Symbols"),
        (section(2).start, 0, "a symbol of 0 bytes"),
        (section(2).start, 17, "a symbol of 17 bytes"),
        (section(2).end - 1, 16, "cut off"),
        (section(3).start, 0xC3, "not UTF-8"),
        (section(4).start, 1, "not where they belong"),
        (section(4).start + 7, 0xFF, "not where they belong"),
        (section(5).start + 7, 0x70, "does not fit"),
    ];
    for (at, value, expected) in cases {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        let read = Segment::from_bytes(SegmentBytes::copy_from(&bytes), &DataType::Utf8, 3000);
        let error = read.expect_err(expected).to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn what_does_not_repeat_stays_plain() {
    let mut state = 7u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u32
    };
    let mut text = |len: usize, most: u32| -> String {
        (0..len).map(|_| char::from_u32(0x4E00 + random() % most).unwrap()).collect()
    };
    // Too many characters for a table; few, without any repetition of more than one; too few bytes.
    let characters: Vec<_> = (0..3000).map(|_| Some(text(10, 5000))).collect();
    let random: Vec<_> = (0..3000).map(|_| Some(text(10, 1500))).collect();
    let few = vec![Some("again and again".to_owned()); 100];
    assert!(encoded(&characters).is_none());
    assert!(encoded(&few).is_none());
    if let Some(segment) = encoded(&random) {
        check(&segment, &random, &[0, 2999]);
    }
}

#[test]
fn equal_and_empty_rows_round_trip() {
    for rows in [vec![Some("the same text again".to_owned()); 5000], {
        let mut rows = vec![Some(String::new()); 5000];
        rows[1023] = Some("only one row has text ".repeat(2000));
        rows[1024] = None;
        rows
    }] {
        let segment = encoded(&rows).unwrap();
        check(&segment, &rows, &[0, 1023, 1024, 1025, 1023, 4999, 2048, 2047]);
    }
}
