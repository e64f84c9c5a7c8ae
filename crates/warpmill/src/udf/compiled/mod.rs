//! Functions of groups and of rows as machine code: a translator of the host's language produces C++ for the argument types of a call, the C++
//! compiler compiles it, and threads run it over rows that were gathered by group. Or the host has another compiler, and gives an address.
//!
//! Compiled code behaves as the host's language, or gives a group up (a NULL in arithmetic, an integer beyond 64 bits, a division by zero, ...). The
//! host's code is called for such groups; without host code, they are an error.

mod gather;
mod reasons;
mod run;

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use arrow::datatypes::DataType;
use parking_lot::Mutex;
use warpmill_engine::warpmill_gpu::device::sim::{HostFunction, host_compiler, host_function};
use warpmill_engine::warpmill_gpu::kernels::functions;
use warpmill_ir::GroupFunction;

pub(super) use self::run::{Outcome, run, run_rows};
use super::COMPILED;
use crate::{Error, Result};

/// The type that a column has in compiled code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// Truth values.
    Bool,
    /// 64-bit integers.
    Int,
    /// Floating-point numbers of 64 bits.
    Float,
}

impl ColumnKind {
    /// The kind of columns of type `ty`: integers have 64 bits, other numbers are 64-bit floats.
    pub(super) fn of(ty: &DataType) -> Option<Self> {
        Some(match ty {
            DataType::Boolean => Self::Bool,
            ty if ty.is_integer() => Self::Int,
            DataType::Null => Self::Float,
            ty if ty.is_numeric() => Self::Float,
            _ => return None,
        })
    }

    /// The Arrow type of columns of this kind.
    pub(super) fn arrow(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int => DataType::Int64,
            Self::Float => DataType::Float64,
        }
    }
}

/// A function as C++, for columns of some types.
#[derive(Debug, Clone)]
pub struct Translation {
    /// The text (`warpmill_gpu::kernels::functions`). It depends on the function's code and the types only: constants from outside of the function
    /// are parameters.
    pub text: String,
    /// Integer and boolean constants, by their numbers in the text.
    pub whole: Vec<i64>,
    /// Constants that are floats.
    pub floats: Vec<f64>,
    /// The line of each place that may give a group up, starting with place 1.
    pub lines: Vec<u32>,
}

/// Machine code that another compiler of the host's has made of a function of groups, for columns of some types.
///
/// # Safety
/// At the address there is the function that [`HostFunction::at`] describes, for columns of these types, for as long as the object lives.
pub unsafe trait MachineCode: fmt::Debug + Send + Sync {
    /// Its address.
    fn address(&self) -> NonZeroUsize;

    /// The compiler, for EXPLAIN.
    fn compiler(&self) -> &str;
}

/// A function for columns of some types.
#[derive(Debug, Clone)]
pub enum FunctionCode {
    /// C++.
    Text(Translation),
    /// Code of another compiler.
    Machine(Arc<dyn MachineCode>),
}

/// A translator of functions of groups, or of rows.
pub trait Translator: fmt::Debug + Send + Sync {
    /// Translates the function for columns of these types, or returns the reason why it cannot.
    fn translate(&self, columns: &[ColumnKind]) -> Result<Result<FunctionCode, String>>;
}

/// A translated function that is ready to run.
#[derive(Debug)]
pub(super) struct Native {
    pub(super) columns: Vec<ColumnKind>,
    code: FunctionCode,
    /// Compiled when it runs first.
    function: Mutex<Option<HostFunction>>,
}

impl Native {
    /// The function for devices, under the name `name`, or the reason why there is none.
    pub(super) fn group_function(&self, name: &str) -> std::result::Result<GroupFunction, String> {
        match &self.code {
            FunctionCode::Text(Translation { text, whole, floats, .. }) => {
                let (name, text) = (name.to_string(), text.as_str().into());
                Ok(GroupFunction { name, text, whole: whole.clone(), floats: floats.clone() })
            }
            FunctionCode::Machine(code) => Err(format!("{} compiles it for the host", code.compiler())),
        }
    }

    /// The way it runs, for EXPLAIN.
    pub(super) fn how(&self) -> String {
        match &self.code {
            FunctionCode::Text(_) => COMPILED.to_string(),
            FunctionCode::Machine(code) => format!("{COMPILED} by {}", code.compiler()),
        }
    }

    fn function(&self) -> Result<HostFunction> {
        let mut made = self.function.lock();
        if let Some(function) = &*made {
            return Ok(function.clone());
        }
        let function = match &self.code {
            FunctionCode::Text(translation) => {
                let function = host_function(&functions::on_host(&translation.text), functions::HOST_ENTRY);
                function.map_err(|error| Error::Execution(format!("compilation failed: {error}")))?
            }
            // SAFETY: `MachineCode` promises such a function at its address for as long as it lives.
            FunctionCode::Machine(code) => unsafe { HostFunction::at(code.address(), Arc::new(Arc::clone(code))) },
        };
        tracing::debug!(build = ?function.build, "a function was compiled");
        Ok(made.insert(function).clone())
    }

    /// The line of each place that may give a group up, as far as known.
    fn lines(&self) -> &[u32] {
        match &self.code {
            FunctionCode::Text(translation) => &translation.lines,
            FunctionCode::Machine(_) => &[],
        }
    }

    /// The integer and the float constants of the text.
    fn constants(&self) -> (&[i64], &[f64]) {
        match &self.code {
            FunctionCode::Text(translation) => (&translation.whole, &translation.floats),
            FunctionCode::Machine(_) => (&[], &[]),
        }
    }
}

/// A function for columns of some types, or the reason why it is not compiled.
type Known = std::result::Result<Arc<Native>, String>;

/// A function that may be compiled.
#[derive(Debug)]
pub(super) struct Compiler {
    translator: Arc<dyn Translator>,
    runs: Arc<Runs>,
    known: Mutex<HashMap<Vec<DataType>, Known>>,
}

impl Compiler {
    pub(super) fn new(translator: Arc<dyn Translator>, runs: Arc<Runs>) -> Self {
        Self { translator, runs, known: Mutex::default() }
    }

    pub(super) fn runs(&self) -> &Runs {
        &self.runs
    }

    /// The function for columns of these types, or the reason why it is not compiled.
    pub(super) fn native(&self, types: &[DataType]) -> Result<Known> {
        if let Some(known) = self.known.lock().get(types) {
            return Ok(known.clone());
        }
        // Translation runs without this lock: it waits for the interpreter's lock, whose holder may wait for this one.
        let found = self.translated(types)?;
        Ok(self.known.lock().entry(types.to_vec()).or_insert(found).clone())
    }

    fn translated(&self, types: &[DataType]) -> Result<Known> {
        let mut columns = vec![];
        for ty in types {
            match ColumnKind::of(ty) {
                Some(kind) => columns.push(kind),
                None => return Ok(Err(format!("a column of type {ty}"))),
            }
        }
        let code = self.translator.translate(&columns)?;
        if let (Ok(FunctionCode::Text(_)), Err(error)) = (&code, host_compiler()) {
            return Ok(Err(error.to_string()));
        }
        Ok(code.map(|code| Arc::new(Native { columns, code, function: Mutex::default() })))
    }
}

/// The running compiled functions of a session, and their number of threads.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    threads: AtomicUsize,
    flags: Mutex<Vec<Weak<AtomicI32>>>,
}

impl Runs {
    /// Sets the number of threads of compiled functions.
    pub(crate) fn set_threads(&self, threads: usize) {
        self.threads.store(threads, Ordering::Relaxed);
    }

    fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed).max(1)
    }

    /// Stops all that run now.
    pub(crate) fn stop(&self) {
        for flag in self.flags.lock().iter().filter_map(Weak::upgrade) {
            flag.store(1, Ordering::Relaxed);
        }
    }

    /// A flag that stops a run, registered while it is held.
    fn flag(&self) -> Arc<AtomicI32> {
        let flag = Arc::new(AtomicI32::new(0));
        let mut flags = self.flags.lock();
        flags.retain(|other| other.strong_count() > 0);
        flags.push(Arc::downgrade(&flag));
        flag
    }
}
