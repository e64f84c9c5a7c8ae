//! Sorts on the device. Each sort key becomes one or more images, unsigned numbers of known widths in the order of the key; images that fit together
//! share a 64-bit word. Row numbers are sorted stably by one word after the other, the least significant first (`kernels/radix_sort.cuh`), and the
//! rows are copied in that order.
//!
//! Initially only the first [`TEXT_WORDS`] words of a string are sorted by. Afterwards neighbours are compared; if two are in the wrong order, the
//! program is run again with more words.

use warpmill_ir::{Expr, Field, Phys, SinkId, SortKey};

use super::build::append_at;
use super::cpp::{CType, Value};
use super::generator::{Generator, Result};
use super::hints::Hints;
use super::kernel::{Kernel, Work, kernel, state_count};
use super::keys::bounds;
use super::layout::{Image, ImageKind, RowsLayout, Sorted, Word};
use super::params::Binding;
use super::scan_shape::BLOCK;
use super::source;
use super::storage::FlatColumn;
use super::top;
use crate::kernels::library::Library;

/// Results of at most this many rows are sorted on the host: a device sort takes ten to forty launches.
pub const FEW_ROWS: u64 = 4 << 10;

/// Initial number of words of strings that are sorted by, and the limit beyond which the host sorts.
pub const TEXT_WORDS: u32 = 2;
const MOST_TEXT_WORDS: u32 = 31;

/// Bits of a digit, rows of a tile and threads of a pass (kernels/sort_rows.cuh).
const DIGIT_BITS: u32 = 8;
const DIGITS: u64 = 1 << DIGIT_BITS;
const TILE: u64 = 256 * 12;
const PASS_THREADS: u32 = 256;
const COUNT_THREADS: u32 = 512;

/// A pass's shared memory: `RadixTile::Shared` for 64-bit words with row numbers.
const PASS_SHARED: usize = (8 * DIGITS + TILE * 12 + 4 * DIGITS * (PASS_THREADS as u64 / 32) + 64) as usize;

impl Word {
    fn places(&self) -> u32 {
        self.bits.div_ceil(DIGIT_BITS)
    }
}

impl Sorted {
    /// The sort of the rows of sort `id`, at most `capacity`, by `text_words` words of strings.
    pub fn of(
        id: SinkId,
        (keys, fields): (&[SortKey], &[Field]),
        (skip, fetch): (u64, Option<u64>),
        capacity: u64,
        text_words: u32,
    ) -> Self {
        let columns = FlatColumn::all(&owner(id), fields);
        let room = fetch.unwrap_or(capacity).min(capacity).max(1);
        let rows = RowsLayout { columns, capacity: room, ..RowsLayout::default() };
        Self { skip, fetch, rows, ..Self::in_place(id, keys, capacity, text_words) }
    }

    /// The sort of the row numbers of sink `id`, without copying the rows.
    pub fn in_place(id: SinkId, keys: &[SortKey], capacity: u64, text_words: u32) -> Self {
        let images = keys.iter().enumerate().flat_map(|(key, sort)| images(key, sort, text_words)).collect();
        let rows = RowsLayout::default();
        Self { skip: 0, fetch: None, words: words(images), rows, capacity, owner: owner(id) }
    }

    /// The ordered row numbers, on side `side`.
    pub fn numbers(&self, side: u32) -> Binding {
        Binding::Named(format!("{}.order{side}", self.owner))
    }

    /// The next number of string words if `text_words` did not suffice; `None`: the limit is reached.
    pub fn more_text_words(text_words: u32) -> Option<u32> {
        (text_words < MOST_TEXT_WORDS).then(|| (4 * text_words).min(MOST_TEXT_WORDS))
    }

    /// The side on which the ordered row numbers, and the most significant word, end up.
    pub fn side(&self) -> u32 {
        self.words.iter().map(Word::places).sum::<u32>() % 2
    }

    /// C++ type and bytes of a pass's look-back words.
    fn state(&self) -> (&'static str, u64) {
        if self.capacity < 1 << 30 { ("u32", 4) } else { ("u64", 8) }
    }

    fn tiles(&self) -> u64 {
        self.capacity.div_ceil(TILE)
    }

    /// The buffers besides [`Sorted::rows`]: names, bytes, and whether they are zero initially.
    pub fn buffers(&self) -> Vec<(String, u64, bool)> {
        let name = |what: &str| format!("{}.{what}", self.owner);
        let mut buffers = vec![];
        for side in 0..2 {
            buffers.push((name(&format!("words{side}")), 8 * self.capacity, false));
            buffers.push((name(&format!("order{side}")), 4 * self.capacity, false));
            buffers.push((name(&format!("state{side}")), self.tiles() * DIGITS * self.state().1, true));
            buffers.push((name(&format!("counter{side}")), 8, true));
        }
        for (index, word) in self.words.iter().enumerate() {
            buffers.push((name(&format!("counts{index}")), 8 * DIGITS * u64::from(word.places()), true));
        }
        buffers
    }
}

impl Hints {
    /// Makes sink `id` be sorted by more string words, or by the host if the limit is reached.
    pub fn more_text(&mut self, id: SinkId) {
        let looked_at = self.text_words.get(&id).copied().unwrap_or(TEXT_WORDS);
        match Sorted::more_text_words(looked_at) {
            Some(more) => drop(self.text_words.insert(id, more)),
            None => self.host_sorts.push(id),
        }
    }
}

fn owner(id: SinkId) -> String {
    format!("sink{id}.sorted")
}

/// Name of the `SinkState` of the sorted rows of sink `id`; its `overflow` means that rows are out of order.
pub fn state(id: SinkId) -> String {
    format!("sink{id}.sorted.state")
}

/// The images of a key, most significant first.
fn images(key: usize, sort: &SortKey, text_words: u32) -> Vec<Image> {
    let ty = &sort.expr.ty;
    let image = |kind, bits| Image { key, kind, bits };
    let mut images: Vec<Image> = ty.nullable.then_some(image(ImageKind::Null, 1)).into_iter().collect();
    match ty.phys {
        Phys::F32 | Phys::F64 => return vec![image(ImageKind::Float, 64)],
        Phys::Str => {
            images.extend((0..text_words).map(|word| image(ImageKind::Text { from: 8 * word }, 64)));
            images.push(image(ImageKind::Length, 8));
        }
        _ => {
            let (least, most) = bounds(ty);
            let span = most.max(least).wrapping_sub(least) as u128;
            let with_null = span.checked_add(u128::from(ty.nullable)).filter(|&last| last <= u64::MAX.into());
            let bits = |last: u128| (128 - last.leading_zeros()).max(1);
            match (with_null, bits(span)) {
                (Some(last), _) => {
                    return vec![image(ImageKind::Distance { least, most, null: ty.nullable }, bits(last))];
                }
                (None, 64) => images.push(image(ImageKind::Distance { least, most, null: false }, 64)),
                (None, all) => {
                    images.push(image(ImageKind::Wide { least, most, shift: 64 }, all - 64));
                    images.push(image(ImageKind::Wide { least, most, shift: 0 }, 64));
                }
            }
        }
    }
    images
}

/// Packs images into words, both most significant first.
fn words(images: Vec<Image>) -> Vec<Word> {
    let mut words: Vec<Word> = vec![];
    for image in images.into_iter().rev() {
        match words.last_mut().filter(|word| word.bits + image.bits <= 64) {
            Some(word) => {
                word.images.insert(0, image);
                word.bits += image.bits;
            }
            None => words.push(Word { images: vec![image], bits: image.bits }),
        }
    }
    words.reverse();
    words
}

/// Generation of a sort's kernels.
pub(super) struct Sorting<'a> {
    pub id: SinkId,
    pub sorted: &'a Sorted,
    pub keys: &'a [SortKey],
    /// Columns before the sort.
    pub columns: &'a [FlatColumn],
    /// Whether the least significant word of each row, and its number, are already stored.
    pub has_words: bool,
    pub capacity: u64,
    pub input: String,
    pub pipeline: usize,
}

/// The kernels that sort the rows of sink `id`, or the first ones selected from it.
pub fn kernels(id: SinkId, layout: &RowsLayout, keys: &[SortKey], pipeline: usize) -> Result<Vec<Kernel>> {
    let Some(sorted) = &layout.sorted else { return Ok(vec![]) };
    let (rows, input) = match &layout.top {
        Some(first) => (&first.rows, top::state(id)),
        None => (layout, format!("sink{id}.state")),
    };
    let (columns, capacity, has_words) = (&rows.columns, rows.capacity, false);
    let sorting = Sorting { id, sorted, keys, columns, has_words, capacity, input, pipeline };
    let (mut kernels, side) = sorting.order()?;
    kernels.push(sorting.copy(side)?);
    Ok(kernels)
}

impl Sorting<'_> {
    /// The kernels that sort the row numbers, and the side with the ordered row numbers and the most significant word.
    pub fn order(&self) -> Result<(Vec<Kernel>, u32)> {
        let mut kernels = vec![];
        let mut side = 0;
        for (index, word) in self.sorted.words.iter().enumerate().rev() {
            if !(self.has_words && index + 1 == self.sorted.words.len()) {
                kernels.push(self.images(index, word, side)?);
            }
            kernels.push(self.count(index, word, side));
            kernels.push(self.starts(index, word));
            for place in 0..word.places() {
                kernels.push(self.pass(index, word, place, side));
                side = 1 - side;
            }
        }
        if self.sorted.words.iter().flat_map(|word| &word.images).any(|image| image.kind == ImageKind::Length) {
            kernels.push(self.check(side)?);
        }
        Ok((kernels, side))
    }

    /// The ordered row numbers, on side `side`.
    pub fn numbers(&self, side: u32) -> Binding {
        self.sorted.numbers(side)
    }

    /// The ordered words, on side `side`.
    pub fn sorted_words(&self, side: u32) -> Binding {
        self.named(&format!("words{side}"))
    }

    fn named(&self, what: &str) -> Binding {
        Binding::Named(format!("{}.{what}", self.sorted.owner))
    }

    fn finish(&self, mut g: Generator, entry: String, threads: u32, work: Work, what: &str) -> Kernel {
        g.params.require(Library::Sort);
        kernel(g, entry, threads, work, self.pipeline, format!("pipeline {}: sort: {what}", self.pipeline))
    }

    /// An operand for the number of rows to sort.
    fn rows(&self, g: &mut Generator) -> String {
        state_count(g, &self.input, self.capacity)
    }

    /// Writes a word of every row, in the current order.
    fn images(&self, index: usize, word: &Word, side: u32) -> Result<Kernel> {
        let mut g = Generator::new();
        let first = index + 1 == self.sorted.words.len();
        g.code.line("const u32 lane = threadIdx.x & 31;");
        let order = g.params.output("u32", "order", self.named(&format!("order{side}")));
        let out = g.params.output("u64", "words", self.named(&format!("words{side}")));
        let count = self.rows(&mut g);
        source::flat(&mut g, &count);
        let from = if first { "(u32)row".into() } else { format!("present ? {order}[row] : 0u") };
        g.code.line(format!("const u32 from = {from};"));
        let loads = g.flat_loads(self.columns, "from", None);
        g.push_loads(loads);
        let mut text = String::new();
        for image in &word.images {
            let key = &self.keys[image.key];
            let value = g.eval(&key.expr)?;
            let image_text = bits_of(&mut g, image, key, &value);
            let own = g.code.define(CType::U64, "image", image_text);
            text = if text.is_empty() { own } else { format!("({text}) << {} | {own}", image.bits) };
        }
        g.code.line(format!("if (present) {out}[row] = {text};"));
        if first {
            g.code.line(format!("if (present) {order}[row] = from;"));
        }
        g.code.close_to(1);
        Ok(self.finish(g, format!("sort_keys_{}", self.id), BLOCK, Work::Rows(self.capacity), "keys"))
    }

    /// Counts the digits of all places of a word.
    fn count(&self, index: usize, word: &Word, side: u32) -> Kernel {
        let mut g = Generator::new();
        let keys = g.params.pointer("u64", "words", self.named(&format!("words{side}")));
        let counts = g.params.output("u64", "counts", self.named(&format!("counts{index}")));
        let bits = g.params.value(CType::U32, "bits", word.bits.to_le_bytes().to_vec());
        let rows = self.rows(&mut g);
        g.shared = (8 * DIGITS * 4) as usize;
        g.code.line(format!("const RadixCount count = {{{keys}, {counts}, {rows}, 0, {bits}}};"));
        g.code.line("radix_count<u64, false>(count, (u32*)shared);");
        self.finish(g, "sort_count".into(), COUNT_THREADS, Work::Rows(self.capacity), "digits")
    }

    /// Turns counts of digits into positions.
    fn starts(&self, index: usize, word: &Word) -> Kernel {
        let mut g = Generator::new();
        let counts = g.params.output("u64", "counts", self.named(&format!("counts{index}")));
        g.code.line("__shared__ u64 sums[8];");
        g.code.line(format!("radix_starts({counts}, sums);"));
        self.finish(g, "sort_starts".into(), DIGITS as u32, Work::Blocks(word.places().into()), "positions of digits")
    }

    /// Moves words and row numbers by the digit at `place`, from side `side` to the other.
    fn pass(&self, index: usize, word: &Word, place: u32, side: u32) -> Kernel {
        let mut g = Generator::new();
        let other = 1 - side;
        let side_of = |what: &str, side: u32| self.named(&format!("{what}{side}"));
        let (state, _) = self.sorted.state();
        let from = g.params.pointer("u64", "words", side_of("words", side));
        let to = g.params.output("u64", "words", side_of("words", other));
        let order = g.params.pointer("u32", "order", side_of("order", side));
        let order_to = g.params.output("u32", "order", side_of("order", other));
        let starts = g.params.pointer("u64", "counts", self.named(&format!("counts{index}")));
        let own = g.params.output(state, "state", side_of("state", side));
        let counter = g.params.output("u32", "counter", side_of("counter", side));
        let next = g.params.output(state, "state", side_of("state", other));
        let next_counter = g.params.output("u32", "counter", side_of("counter", other));
        let bit = place * DIGIT_BITS;
        let [bit, bits, place] = [bit, (word.bits - bit).min(DIGIT_BITS), place]
            .map(|number| g.params.value(CType::U32, "digit", number.to_le_bytes().to_vec()));
        let rows = self.rows(&mut g);
        g.shared = PASS_SHARED;
        g.code.line(format!(
            "const RadixPass pass = {{{from}, {to}, {order}, {order_to}, {starts} + {place} * {DIGITS}, {own}, {counter}, {rows}, {bit}, {bits}}};"
        ));
        g.code.line(format!("const SortState<{state}> next = {{{next}, {next_counter}}};"));
        g.code.line("sort_by_digit(pass, next, shared);");
        self.finish(g, "sort_pass".into(), PASS_THREADS, Work::Blocks(self.sorted.tiles()), "by a digit")
    }

    /// Checks for neighbours in the wrong order: strings that differ only beyond the sorted words.
    fn check(&self, side: u32) -> Result<Kernel> {
        let mut g = Generator::new();
        g.code.line("const u32 lane = threadIdx.x & 31;");
        let order = g.params.pointer("u32", "order", self.named(&format!("order{side}")));
        let state = g.params.output("SinkState", "sorted", Binding::Named(state(self.id)));
        let count = self.rows(&mut g);
        source::flat(&mut g, &count);
        g.filter("row > 0");
        let active = g.active.clone();
        let mut sides = vec![];
        for (name, row) in [("before", "row - 1"), ("after", "row")] {
            g.code.line(format!("const u32 {name} = {active} ? {order}[{row}] : 0u;"));
            let loads = g.flat_loads(self.columns, name, None);
            g.push_loads(loads);
            sides.push(g.eval_all(&self.keys.iter().map(|key| key.expr.clone()).collect::<Vec<Expr>>())?);
        }
        let open = g.code.variable(CType::Bool, "open", active);
        let (before, after) = (&sides[0], &sides[1]);
        for (key, (a, b)) in self.keys.iter().zip(before.iter().zip(after)) {
            let (there, other) = (a.valid_text(), b.valid_text());
            if a.ty == CType::Str {
                let (first, second) = if key.descending { (a, b) } else { (b, a) };
                let wrong = format!("{open} && {there} && {other} && less({}, {})", first.text, second.text);
                g.code.line(format!("if ({wrong}) {state}->overflow = 1;"));
                let same = format!("{there} == {other} && (!{there} || same({}, {}))", a.text, b.text);
                g.code.line(format!("{open} = {open} && {same};"));
            } else {
                let same = format!("same_value({}, {})", a.text, b.text);
                g.code.line(format!("{open} = {open} && {there} == {other} && (!{there} || {same});"));
            }
        }
        g.code.close_to(1);
        g.params.require(Library::Strings);
        Ok(self.finish(g, format!("sort_check_{}", self.id), BLOCK, Work::Rows(self.capacity), "check of strings"))
    }

    /// Copies the wanted rows in order.
    fn copy(&self, side: u32) -> Result<Kernel> {
        let mut g = Generator::new();
        let Sorted { skip, fetch, rows, .. } = self.sorted;
        g.code.line("const u32 lane = threadIdx.x & 31;");
        let order = g.params.pointer("u32", "order", self.named(&format!("order{side}")));
        let state = g.params.output("SinkState", "sorted", Binding::Named(state(self.id)));
        let end = skip.saturating_add(fetch.unwrap_or(u64::MAX));
        let [skip, end] = [*skip, end].map(|rows| g.params.value(CType::U64, "rank", rows.to_le_bytes().to_vec()));
        let count = self.rows(&mut g);
        source::flat(&mut g, &count);
        let cut = |rank: &str| format!("(rows < {rank} ? rows : {rank})");
        let (first, last) = (cut(&skip), cut(&end));
        g.code.line(format!("if (present && row == 0) {state}->count = {last} - {first};"));
        g.filter(&format!("row >= {skip} && row < {end}"));
        g.code.line(format!("const u32 from = {} ? {order}[row] : 0u;", g.active));
        let loads = g.flat_loads(self.columns, "from", None);
        g.push_loads(loads);
        let scope = g.scope();
        let values = (0..self.columns.len()).map(|i| g.column(scope, i)).collect::<Result<Vec<_>>>()?;
        let at = g.code.define(CType::U64, "at", format!("row - {skip}"));
        append_at(&mut g, rows, &values, &at);
        g.code.close_to(1);
        Ok(self.finish(g, format!("sort_rows_{}", self.id), BLOCK, Work::Rows(self.capacity), "rows in order"))
    }
}

/// A `u64` expression for the image of a key's value.
fn bits_of(g: &mut Generator, image: &Image, key: &SortKey, value: &Value) -> String {
    let x = &value.text;
    let there = value.valid.as_ref().map_or(g.active.clone(), |valid| format!("{} && {valid}", g.active));
    let not = if key.descending { "~" } else { "" };
    let param = |g: &mut Generator, number: u64| g.params.value(CType::U64, "key", number.to_le_bytes().to_vec());
    match image.kind {
        ImageKind::Null => format!("(u64)(({there}) == {})", key.nulls_first),
        ImageKind::Float => {
            let null = if key.nulls_first { "0ull" } else { "~0ull" };
            format!("{there} ? {not}order_bits({x}) : {null}")
        }
        ImageKind::Distance { least, most, null } => {
            let start = param(g, (if key.descending { most } else { least }) as u64);
            let distance = if key.descending { format!("{start} - (u64){x}") } else { format!("(u64){x} - {start}") };
            let behind =
                param(g, if null && !key.nulls_first { (most.wrapping_sub(least) as u64).wrapping_add(1) } else { 0 });
            let before = param(g, u64::from(null && key.nulls_first));
            format!("{there} ? {distance} + {before} : {behind}")
        }
        ImageKind::Wide { least, most, shift } => {
            let start = if key.descending { most } else { least };
            let start = g.params.value(CType::I128, "key", start.to_le_bytes().to_vec());
            let (a, b) = if key.descending { (start, x.clone()) } else { (x.clone(), start) };
            format!("{there} ? (u64)(((u128){a} - (u128){b}) >> {shift}) : 0ull")
        }
        ImageKind::Text { from } => {
            let from = g.params.value(CType::U32, "byte", from.to_le_bytes().to_vec());
            format!("{there} ? {not}string_word({x}, {from}) : 0ull")
        }
        ImageKind::Length => {
            let length = format!("(u64)({x}.len < 255 ? {x}.len : 255u)");
            let length = if key.descending { format!("255 - {length}") } else { length };
            format!("{there} ? {length} : 0ull")
        }
    }
}

#[cfg(test)]
mod tests;
