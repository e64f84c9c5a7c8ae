//! Tests of symbol-encoded strings without decoding: an automaton over bytes advances by a whole symbol at a time.

use super::table::{CODES, SymbolTable};

/// A test of texts, byte by byte: a deterministic automaton. State 0 is the first.
#[derive(Debug, Clone)]
pub struct TextAutomaton {
    /// The next state by state and byte.
    next: Vec<[u8; 256]>,
    /// Per state, whether a text that ends there passes.
    accepts: Vec<bool>,
    /// The first of the states that nothing leads out of, which are the last ones.
    last: usize,
}

/// Largest number of states: their tables by symbol fit a core's cache.
const MOST_STATES: usize = 64;

impl TextAutomaton {
    /// Texts that are `text`; `None` where it is too long.
    pub fn exactly(text: &str) -> Option<Self> {
        let mut automaton = Self { next: vec![], accepts: vec![], last: 0 };
        automaton.literal(text.as_bytes());
        // The text must end here.
        automaton.push([DEAD; 256], true);
        automaton.last = automaton.next.len();
        automaton.finish()
    }

    /// Texts that begin with `prefix`, end with `suffix`, and contain the `middle` parts in between, in this order without overlap; `None` if these
    /// are too long.
    pub fn parts<'a>(prefix: &str, middle: impl Iterator<Item = &'a [u8]>, suffix: &str) -> Option<Self> {
        let mut automaton = Self { next: vec![], accepts: vec![], last: 0 };
        automaton.literal(prefix.as_bytes());
        for part in middle.filter(|part| !part.is_empty()) {
            automaton.search(part, false);
        }
        if !suffix.is_empty() {
            automaton.search(suffix.as_bytes(), true);
        }
        automaton.last = automaton.next.len();
        if suffix.is_empty() {
            automaton.push([automaton.last; 256], true);
        }
        automaton.finish()
    }

    /// Adds a state. States beyond [`MOST_STATES`] are only counted.
    fn push(&mut self, next: [usize; 256], accepts: bool) {
        self.next.push(next.map(|state| state.min(DEAD) as u8));
        self.accepts.push(accepts);
    }

    /// The automaton with its dead state, unless it has become too large.
    fn finish(mut self) -> Option<Self> {
        let dead = self.next.len();
        self.push([dead; 256], false);
        if self.next.len() > MOST_STATES {
            return None;
        }
        let all = self.next.iter_mut().flatten();
        all.filter(|state| usize::from(**state) == DEAD).for_each(|state| *state = dead as u8);
        Some(self)
    }

    /// States that `text` must follow in.
    fn literal(&mut self, text: &[u8]) {
        for &byte in text {
            let mut next = [DEAD; 256];
            next[usize::from(byte)] = self.next.len() + 1;
            self.push(next, false);
        }
    }

    /// Adds states that search for `text` (Knuth, Morris and Pratt): the first occurrence leads to the state after them; with `at_end`, an occurrence
    /// must be at the end.
    fn search(&mut self, text: &[u8], at_end: bool) {
        let first = self.next.len();
        // The state in which the search continues after a match, as a position in `text`.
        let mut border = 0;
        let mut rows: Vec<[usize; 256]> = Vec::with_capacity(text.len() + 1);
        for (at, &byte) in text.iter().enumerate() {
            let mut row = rows.get(border).copied().unwrap_or([0; 256]);
            row[usize::from(byte)] = at + 1;
            border = if at == 0 { 0 } else { rows[border][usize::from(byte)] };
            rows.push(row);
        }
        if at_end {
            rows.push(rows[border]);
        }
        let accepted = if at_end { text.len() } else { usize::MAX };
        for (at, row) in rows.into_iter().enumerate() {
            self.push(row.map(|state| first + state), at == accepted);
        }
    }

    /// Whether `text` passes.
    pub fn accepts(&self, text: &[u8]) -> bool {
        let state = text.iter().fold(0, |state, &byte| self.next[state][usize::from(byte)].into());
        self.accepts[state]
    }
}

/// Placeholder for the dead state until its number is known: larger than any state.
const DEAD: usize = 255;

/// A [`TextAutomaton`] compiled for the symbols of one segment.
#[derive(Debug)]
pub struct SymbolAutomaton {
    /// The next state by state and code.
    next: Vec<u8>,
    accepts: Vec<bool>,
    last: usize,
}

impl SymbolAutomaton {
    /// Compiles `automaton` for the codes of `table`.
    pub(super) fn new(automaton: &TextAutomaton, table: &SymbolTable) -> Self {
        let mut next = vec![0; automaton.next.len() * CODES];
        for code in 0..CODES {
            let (symbol, len) = table.get(code as u64);
            let bytes = symbol.to_le_bytes();
            for first in 0..automaton.next.len() {
                let mut state = first;
                for &byte in &bytes[..len] {
                    if state >= automaton.last {
                        break;
                    }
                    state = automaton.next[state][usize::from(byte)].into();
                }
                next[first * CODES + code] = state as u8;
            }
        }
        Self { next, accepts: automaton.accepts.clone(), last: automaton.last }
    }

    /// Whether the text of `codes`, each below [`CODES`], passes.
    #[inline(always)]
    pub(super) fn accepts(&self, codes: &[u16]) -> bool {
        let mut state = 0;
        for &code in codes {
            state = usize::from(self.next[state * CODES + usize::from(code) % CODES]);
            if state >= self.last {
                break;
            }
        }
        self.accepts[state]
    }
}
