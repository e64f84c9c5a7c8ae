//! Constants of a program: literals, texts and code sets, in one block of device memory that its kernels read.

use std::collections::HashMap;
use std::sync::Arc;

use warpmill_format::{Bitmap, Dictionary};

use super::filters::Filters;
use super::params::{Binding, Params, TestPart};
use super::scan_shape::PackedTest;
use crate::data::items::dictionary_key;
use crate::device::DevicePtr;
use crate::memory::regions::KeyMap;

/// The literals and tables of a program's kernels, as one block of device memory.
#[derive(Debug, Default)]
pub struct Constants {
    /// The block, with zeros for addresses.
    bytes: Vec<u8>,
    /// Addresses within the block: the position of each in `bytes`, and the offset that it refers to.
    pointers: Vec<(usize, usize)>,
    data: HashMap<Vec<u8>, usize>,
    strings: HashMap<Vec<String>, usize>,
    dictionaries: Vec<Arc<Dictionary>>,
    /// Tests of packed values, by pipeline and test number.
    tests: HashMap<(usize, usize), Test>,
}

/// The constants of a test of packed values.
#[derive(Debug)]
enum Test {
    Range(i64, i64),
    /// A set of codes: the offset of its words in the block, and the number of codes.
    Set(usize, u32),
}

impl Constants {
    /// Collects the constants that `params` of kernels and the packed tests in `filters` of scans bind.
    pub fn collect<'a>(params: impl Iterator<Item = &'a Params>, filters: &Filters) -> Self {
        let mut constants = Self::default();
        for (&pipeline, filters) in filters {
            for (number, test) in filters.packed.iter().enumerate() {
                let test = match &test.test {
                    PackedTest::Range(least, greatest) => Test::Range(*least, *greatest),
                    PackedTest::Codes(set) => Test::Set(constants.data(&words(set)), set.len() as u32),
                };
                constants.tests.insert((pipeline, number), test);
            }
        }
        for member in params.flat_map(|params| params.members()) {
            match &member.binding {
                Binding::Data(bytes) => drop(constants.data(bytes)),
                Binding::Text(text) => drop(constants.data(text.as_bytes())),
                Binding::Strings(strings) => drop(constants.strings(strings)),
                Binding::Dictionary(dictionary) => {
                    if !constants.dictionaries.iter().any(|other| Arc::ptr_eq(other, dictionary)) {
                        constants.dictionaries.push(dictionary.clone());
                    }
                }
                Binding::Bytes(_) | Binding::State | Binding::Named(_) | Binding::Test { .. } => {}
            }
        }
        constants
    }

    fn data(&mut self, bytes: &[u8]) -> usize {
        if let Some(&at) = self.data.get(bytes) {
            return at;
        }
        let at = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        // Kernels may read a whole word past the last byte.
        self.bytes.resize((self.bytes.len() + 8).next_multiple_of(16), 0);
        self.data.insert(bytes.to_vec(), at);
        at
    }

    fn strings(&mut self, strings: &[String]) -> usize {
        if let Some(&at) = self.strings.get(strings) {
            return at;
        }
        let places: Vec<usize> = strings.iter().map(|text| self.data(text.as_bytes())).collect();
        let at = self.bytes.len();
        for (place, text) in places.into_iter().zip(strings) {
            self.pointers.push((self.bytes.len(), place));
            self.bytes.extend_from_slice(&[0; 8]);
            self.bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        }
        self.strings.insert(strings.to_vec(), at);
        at
    }

    /// The dictionaries that kernels read.
    pub fn dictionaries(&self) -> &[Arc<Dictionary>] {
        &self.dictionaries
    }

    /// Bytes of the block.
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether the block is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The block, for device memory at `base`.
    pub fn image(&self, base: DevicePtr) -> Vec<u8> {
        let mut image = self.bytes.clone();
        for &(position, offset) in &self.pointers {
            image[position..position + 8].copy_from_slice(&(base + offset as u64).to_le_bytes());
        }
        image
    }

    /// The bytes of the block without addresses: the host original of strings that kernels return.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The value of a parameter, if it is a constant. The block is at `base`; `places` has the addresses of dictionaries.
    pub fn value(&self, binding: &Binding, base: DevicePtr, places: &KeyMap<DevicePtr>) -> Option<Vec<u8>> {
        let address = |offset: usize| (base + offset as u64).to_le_bytes().to_vec();
        Some(match binding {
            Binding::Bytes(bytes) => bytes.clone(),
            Binding::Data(bytes) => address(self.data[&bytes[..]]),
            Binding::Strings(strings) => address(self.strings[&strings[..]]),
            Binding::Text(text) => {
                let mut image = address(self.data[text.as_bytes()]);
                image.extend_from_slice(&(text.len() as u64).to_le_bytes());
                image
            }
            Binding::Dictionary(dictionary) => {
                places.get(&dictionary_key(dictionary)).copied().unwrap_or(0).to_le_bytes().to_vec()
            }
            Binding::Test { pipeline, number, part } => match (self.tests.get(&(*pipeline, *number))?, part) {
                (Test::Range(least, _), TestPart::Least) => least.to_le_bytes().to_vec(),
                (Test::Range(_, greatest), TestPart::Greatest) => greatest.to_le_bytes().to_vec(),
                (Test::Set(at, _), TestPart::Set) => address(*at),
                (Test::Set(_, codes), TestPart::Codes) => codes.to_le_bytes().to_vec(),
                _ => return None,
            },
            Binding::State | Binding::Named(_) => return None,
        })
    }
}

/// The bits of a set.
fn words(set: &Bitmap) -> Vec<u8> {
    set.words().iter().flat_map(|word| word.to_le_bytes()).collect()
}
