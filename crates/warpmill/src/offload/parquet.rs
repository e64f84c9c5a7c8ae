//! Scans of Parquet files that devices decode themselves.
//!
//! A program gets such files as an input, whose rows DataFusion decodes. For devices the same part of the plan is translated once more,
//! with scans of the files' row groups ([`warpmill_format::parquet_file`]) in place of DataFusion's. That is done for every run: files may
//! have changed, and their footers and pages are cached by the files' identity, not by plans.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use warpmill_engine::{CancelToken, DeviceProgram};
use warpmill_format::parquet_file::{KeptBytes, ParquetFile, Unreadable, table_of};
use warpmill_ir::pruning::leave_out_pages;
use warpmill_ir::{Program, Source};
use warpmill_translate::Options;

use super::UnprovenSums;
use super::functions::{self, Runner};
use super::leaf::{Named, ParquetLeaf};
use crate::Error;
use crate::remote::RemoteParquet;
use crate::settings::WarpmillOptions;

/// Bytes of column chunks of remote files that a query caches on the host, at most; other chunks are read again by each scan.
const KEPT: u64 = 1 << 30;

/// The plan that devices run instead of a program with inputs of Parquet files.
#[derive(Debug, Default)]
pub struct ForDevices {
    /// The program; `None` where there is no such input, or none that devices decode.
    pub program: Option<DeviceProgram>,
    /// The files that the CPU still decodes, with the reason.
    pub notes: Vec<String>,
    /// The cached parts of remote files.
    pub held: Held,
}

/// Remote files, whose cached parts are dropped with this.
#[derive(Debug, Default)]
pub struct Held(Vec<Arc<ParquetFile>>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.iter().for_each(|file| file.release());
    }
}

/// The means to read files.
pub(super) struct Readers<'a> {
    /// The session's settings.
    pub options: &'a WarpmillOptions,
    /// The place where stores are found.
    pub runtime: &'a RuntimeEnv,
    /// Ends requests.
    pub cancel: CancelToken,
    room: Arc<KeptBytes>,
}

impl<'a> Readers<'a> {
    /// The readers for a query, which `cancel` stops.
    pub fn new(options: &'a WarpmillOptions, runtime: &'a RuntimeEnv, cancel: CancelToken) -> Self {
        let room = KeptBytes::new(KEPT.min(options.memory_limit as u64 / 2));
        Self { options, runtime, cancel, room }
    }
}

/// The scan in place of a leaf, or the reason why there is none.
type Found = Result<Arc<dyn ExecutionPlan>, String>;

/// The plan that devices run instead of the program of `source`, whose inputs are `leaves`. Must not be called on threads of the async runtime: it
/// waits for footers.
///
/// # Errors
/// Unreadable files.
pub(super) fn for_devices(
    source: &Arc<dyn ExecutionPlan>,
    leaves: &[Arc<dyn ExecutionPlan>],
    sums: UnprovenSums,
    readers: &Readers<'_>,
) -> Result<ForDevices, Error> {
    let (mut scans, mut notes, mut held) = (HashMap::new(), vec![], Held::default());
    for leaf in leaves {
        match scan(leaf, readers, &mut held)? {
            Some(Ok(scan)) => drop(scans.insert(address(leaf), scan)),
            Some(Err(reason)) => notes.push(reason),
            None => {}
        }
    }
    if scans.is_empty() {
        return Ok(ForDevices { program: None, notes, held });
    }
    let program = match with_scans((source, leaves), &scans, sums, readers.options) {
        Ok((mut program, inputs)) => {
            for pipeline in &mut program.pipelines {
                if let Source::Scan(scan) = &mut pipeline.source {
                    leave_out_pages(scan)?;
                }
            }
            Ok(DeviceProgram { program: Arc::new(program), inputs })
        }
        Err(reason) => Err(reason),
    };
    Ok(match program {
        Ok(program) => ForDevices { program: Some(program), notes, held },
        Err(reason) => {
            notes.push(format!("Parquet files: {reason}"));
            ForDevices { program: None, notes, held }
        }
    })
}

/// The program of `source` with `scans` in place of some of `leaves`, by their addresses, and the positions of the leaves that are its inputs.
///
/// Errors: the reason why there is no such program.
pub(super) fn with_scans(
    (source, leaves): (&Arc<dyn ExecutionPlan>, &[Arc<dyn ExecutionPlan>]),
    scans: &HashMap<usize, Arc<dyn ExecutionPlan>>,
    sums: UnprovenSums,
    options: &WarpmillOptions,
) -> Result<(Program, Vec<usize>), String> {
    let scan = |leaf: &Arc<dyn ExecutionPlan>| scans.get(&address(leaf)).cloned();
    let wide_sums = sums == UnprovenSums::Wide;
    let translation = Options { fallback: true, wide_sums, scans: &scan, ..options.translation() };
    let (translated, _) = functions::program(source, options, (translation, Runner::Device));
    let translated = translated.map_err(|reason| reason.to_string())?;
    let position = |input: &Arc<dyn ExecutionPlan>| leaves.iter().position(|leaf| address(leaf) == address(input));
    let inputs: Option<Vec<usize>> = translated.inputs.iter().map(position).collect();
    Ok((translated.program, inputs.ok_or("the plan falls apart in another way")?))
}

/// The address of a plan, unique while the plan is held.
pub(super) fn address(plan: &Arc<dyn ExecutionPlan>) -> usize {
    Arc::as_ptr(plan).cast::<()>() as usize
}

/// The scan that devices run in place of `leaf`; `None` where the leaf does not scan Parquet files.
fn scan(leaf: &Arc<dyn ExecutionPlan>, readers: &Readers<'_>, held: &mut Held) -> Result<Option<Found>, Error> {
    let leaf = match ParquetLeaf::of(leaf) {
        None => return Ok(None),
        Some(Err(reason)) => return Ok(Some(Err(reason))),
        Some(Ok(leaf)) => leaf,
    };
    let files = leaf.files.iter().map(|file| open(file, &leaf, readers)).collect::<Result<Vec<_>, Error>>()?;
    held.0.extend(files.iter().cloned());
    match table_of(&files, &Arc::new(Schema::new(leaf.fields()))) {
        Ok(found) => Ok(Some(Ok(leaf.scan(found)?))),
        Err(Unreadable::Format(error)) => Err(error.into()),
        Err(unreadable @ Unreadable::Column { .. }) => Ok(Some(Err(unreadable.to_string()))),
    }
}

fn open(file: &Named, leaf: &ParquetLeaf, readers: &Readers<'_>) -> Result<Arc<ParquetFile>, Error> {
    match file {
        Named::Local(path) => Ok(ParquetFile::open(path)?),
        Named::Remote(object) => {
            let file = RemoteParquet::new(readers.runtime, &leaf.store, object.clone(), readers.cancel.clone())?;
            Ok(ParquetFile::open_remote(Arc::new(file), &readers.room)?)
        }
    }
}
