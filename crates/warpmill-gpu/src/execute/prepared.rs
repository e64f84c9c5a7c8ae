//! A program made ready for a device: sinks laid out, kernels generated, compiled and loaded, constants uploaded.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use rayon::prelude::*;
use warpmill_format::Dictionary;
use warpmill_plan::{Program, Source};

use crate::codegen::layout::{Hints, Limits, SinkLayout};
use crate::codegen::params::Binding;
use crate::codegen::planner;
use crate::codegen::program::{self, Kernel, Lowered};
use crate::codegen::{Library, Params};
use crate::device::{Device, DevicePtr, Function, KernelSource, Stream};

use super::Result;
use super::memory::Cache;
use super::segments::{self, OpenScan, Recoded};

/// A program made ready.
pub struct Prepared {
    /// The program, in an order that the device can keep.
    pub program: Arc<Program>,
    /// How sinks lie in memory.
    pub layouts: Vec<SinkLayout>,
    /// Kernels and places.
    pub lowered: Lowered,
    /// One per kernel.
    pub functions: Vec<Function>,
    /// The scans, by pipeline.
    pub scans: HashMap<usize, OpenScan>,
    /// Literals and tables.
    pub constants: Constants,
    /// What it was laid out with.
    pub hints: Hints,
    /// Rows of each input that it was laid out for.
    pub inputs: Vec<u64>,
    /// Time that it took, in nanoseconds.
    pub nanos: u64,
    /// What is in the cache for it.
    pub resident: Mutex<Resident>,
}

/// What the cache holds for a program: valid while the cache's generation is the same.
#[derive(Debug, Default)]
pub struct Resident {
    /// The generation in which all segments and dictionaries were found in the cache.
    pub loaded: Option<u64>,
    /// Descriptors of each kernel's segments, with the generation that they were made in.
    pub descriptors: HashMap<usize, (u64, Descriptors)>,
}

/// The segments of a kernel as it sees them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Descriptors {
    /// `SegmentColumn`s, row segment by row segment.
    pub columns: DevicePtr,
    /// Rows of each row segment.
    pub rows: DevicePtr,
    /// Row segments.
    pub count: u64,
    /// Vectors of 1024 rows.
    pub vectors: u64,
    /// Bytes of all columns.
    pub bytes: u64,
}

impl Prepared {
    /// Prepares `program` for inputs of so many rows.
    ///
    /// # Errors
    /// What the device cannot do, unreadable segments, compiler errors.
    pub fn new(
        program: &Arc<Program>,
        inputs: &[u64],
        hints: Hints,
        limits: Limits,
        device: &Arc<dyn Device>,
        recoded: &Recoded,
    ) -> Result<Self> {
        let started = Instant::now();
        let program = super::defer::defer_sorts(program).map_or_else(|| program.clone(), Arc::new);
        let layouts = planner::sinks(&program, inputs, &hints, limits)?;
        let mut scans = HashMap::new();
        for (index, pipeline) in program.pipelines.iter().enumerate() {
            if let Source::Scan(scan) = &pipeline.source {
                scans.insert(index, segments::open(scan, recoded)?);
            }
        }
        let described = scans.iter().map(|(index, scan)| (*index, &scan.segments)).collect();
        let lowered = program::lower(&program, &layouts, &described, inputs)?;
        let functions = compile(&lowered.kernels, device)?;
        let constants = Constants::collect(lowered.kernels.iter().map(|kernel| &kernel.params));
        let nanos = started.elapsed().as_nanos() as u64;
        let inputs = inputs.to_vec();
        let resident = Mutex::default();
        Ok(Self { resident, program, layouts, lowered, functions, scans, constants, hints, inputs, nanos })
    }

    /// What it is laid out with next where memory does not suffice for the sort of its result: the host sorts then.
    pub fn with_host_sort(&self) -> Option<Hints> {
        let last = self.layouts.len() - 1;
        let sorts = matches!(&self.layouts[last], SinkLayout::Rows(rows) if rows.sorted.is_some());
        sorts.then(|| {
            let mut hints = self.hints.clone();
            hints.host_sorts.push(last);
            hints
        })
    }
}

/// Compiles kernels: those of the same text once.
fn compile(kernels: &[Kernel], device: &Arc<dyn Device>) -> Result<Vec<Function>> {
    let sources: Vec<KernelSource> = kernels.iter().map(source).collect();
    let distinct: HashSet<&KernelSource> = sources.iter().collect();
    let compiled = distinct
        .into_par_iter()
        .map(|source| Ok((source, device.compile(source)?.function(&source.entries[0])?)))
        .collect::<Result<HashMap<_, _>>>()?;
    Ok(sources.iter().map(|source| compiled[source].clone()).collect())
}

/// The complete text of a kernel.
pub fn source(kernel: &Kernel) -> KernelSource {
    let mut libraries: Vec<Library> = kernel.params.libraries().chain([Library::Value]).collect();
    let order = |part: &Library| Library::ALL.iter().position(|other| other == part);
    libraries.sort_by_key(order);
    libraries.dedup();
    let mut text: String = libraries.iter().map(|part| part.text()).collect::<Vec<_>>().join("\n");
    text.push('\n');
    text.push_str(&kernel.text);
    KernelSource { text, entries: vec![kernel.entry.clone()] }
}

/// The literals and tables of a program's kernels, as one block of device memory.
#[derive(Debug, Default)]
pub struct Constants {
    /// Everything but addresses.
    bytes: Vec<u8>,
    /// Where in `bytes` an address of another part of the block stands: position, and the offset that it points to.
    pointers: Vec<(usize, usize)>,
    data: HashMap<Vec<u8>, usize>,
    strings: HashMap<Vec<String>, usize>,
    dictionaries: Vec<Arc<Dictionary>>,
}

impl Constants {
    fn collect<'a>(params: impl Iterator<Item = &'a Params>) -> Self {
        let mut constants = Self::default();
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
                Binding::Bytes(_) | Binding::State | Binding::Named(_) => {}
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
        // Words may be read whole past the last byte.
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

    /// Size of the block.
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether there is none.
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

    /// The bytes, without addresses: what strings that kernels give out point into.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Puts the dictionaries into the cache.
    pub fn upload_dictionaries(&self, cache: &mut Cache, stream: Stream) -> Result<()> {
        for dictionary in &self.dictionaries {
            super::rows::upload_dictionary(dictionary, cache, stream)?;
        }
        Ok(())
    }

    /// The bytes of a member, if it is a constant; the block is at `base`.
    pub fn value(&self, binding: &Binding, base: DevicePtr, cache: &Cache) -> Option<Vec<u8>> {
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
                super::rows::dictionary_at(dictionary, cache).unwrap_or(0).to_le_bytes().to_vec()
            }
            Binding::State | Binding::Named(_) => return None,
        })
    }
}
