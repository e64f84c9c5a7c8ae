//! Compares generated expressions on the simulated device with the CPU back end's evaluator, row by row. NULL rows and threads without a row hold
//! garbage. `WARPMILL_TEST_DEVICE` selects another device: `cuda` is the first GPU, `sanitized` the simulated device with sanitizers (with
//! AddressSanitizer's runtime preloaded).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use warpmill_eval::expr::PreparedExpr;
use warpmill_eval::memory::{QueryMemory, Worker};
use warpmill_eval::{Chunk, Data, Vector};
use warpmill_format::Bitmap;
use warpmill_ir::{ArithOp, ColType, CompareOp, Expr, ExprKind, Function, Phys, Scalar};

use super::context::Context;
use super::emit_predicate;
use crate::compile::cpp::{CType, Code, Value};
use crate::compile::params::{Binding, Member, Params};
use crate::device::cuda::CudaDevice;
use crate::device::sim::{SimDevice, SimOptions};
use crate::device::{Device, DeviceKind, DevicePtr, KernelSource, LaunchShape, Stream};

mod columns;
mod conversions;
mod dictionaries;
mod logic;
mod numbers;
mod random;
mod snapshots;
mod strings;
mod times;

pub use columns::*;

/// A column and its type.
#[derive(Debug, Clone)]
pub struct Column {
    pub vector: Arc<Vector>,
    pub ty: ColType,
}

const THREADS: usize = 64;
/// Largest number of bytes of strings that an expression makes per row.
const ARENA: usize = 4096;
/// `QueryState` and, behind it, its arena.
const STATE: usize = 32 + ARENA;

/// The method of evaluating an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ask {
    Value,
    /// As a predicate: true, or not.
    Truth,
}

/// Runs expressions over columns on a device.
struct Rig {
    device: Arc<dyn Device>,
    stream: Stream,
    rows: usize,
    /// Number of threads, some of them without a row.
    threads: usize,
}

/// The outcome of a row: an `ErrorCode`, or the bytes of a value (for strings, of the text).
type Outcome = Result<Option<Vec<u8>>, u32>;

impl Rig {
    fn new(rows: usize) -> Self {
        let on = std::env::var("WARPMILL_TEST_DEVICE").unwrap_or_default();
        let device: Arc<dyn Device> = if on == "cuda" {
            CudaDevice::open(0).expect("there is a GPU")
        } else {
            let options = SimOptions { memory_bytes: 2 << 30, sanitize: on == "sanitized", ..SimOptions::default() };
            Arc::new(SimDevice::new(options).expect("the host has a C++ compiler"))
        };
        let stream = device.stream().unwrap();
        Self { device, stream, rows, threads: (rows + 1).next_multiple_of(THREADS) }
    }

    fn upload(&self, bytes: &[u8]) -> DevicePtr {
        // Strings are read in aligned words of up to 16 bytes.
        let ptr = self.device.allocate(bytes.len().max(1).next_multiple_of(16) as u64).unwrap();
        // SAFETY: just allocated.
        unsafe { self.device.copy_to_device(ptr, bytes, self.stream) }.unwrap();
        ptr
    }

    fn download(&self, ptr: DevicePtr, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        // SAFETY: callers ask for what they allocated or what the kernel points to, which copies check.
        unsafe { self.device.copy_to_host(&mut bytes, ptr, self.stream) }.unwrap();
        self.device.synchronize(self.stream).unwrap();
        bytes
    }

    /// A string in device memory as the image of a `Str`.
    fn text(&self, s: &str) -> Vec<u8> {
        let mut image = self.upload(s.as_bytes()).to_le_bytes().to_vec();
        image.extend((s.len() as u64).to_le_bytes());
        image
    }

    fn texts<'a>(&self, strings: impl Iterator<Item = &'a str>) -> DevicePtr {
        let images: Vec<u8> = strings.flat_map(|s| self.text(s)).collect();
        self.upload(&images)
    }

    /// Values and validity bytes for all threads; garbage where there is no value.
    fn column(&self, vector: &Vector) -> (DevicePtr, DevicePtr) {
        let size = CType::of(vector.data.phys()).size();
        let garbage = |row: usize| -> Vec<u8> {
            let byte = |i: usize| (row.wrapping_mul(2_654_435_761) >> (i % 4 * 8)) as u8;
            match vector.data.phys() {
                Phys::Bool => vec![byte(0) & 1],
                _ if row.is_multiple_of(3) => vec![0xff; size],
                _ if row % 3 == 1 => vec![0; size],
                _ => (0..size).map(byte).collect(),
            }
        };
        let exists = |row: usize| row < self.rows && vector.is_valid(row);
        let image = |row: usize| if exists(row) { self.value(vector, row) } else { garbage(row) };
        let values: Vec<u8> = (0..self.threads).flat_map(image).collect();
        let valid: Vec<u8> = (0..self.threads).map(|row| exists(row).into()).collect();
        (self.upload(&values), self.upload(&valid))
    }

    /// The image of a row's value.
    fn value(&self, vector: &Vector, row: usize) -> Vec<u8> {
        match &vector.data {
            Data::Str(views) => self.text(views[row].as_str()),
            _ => plain(vector, row),
        }
    }

    fn bind(&self, member: &Member, named: &HashMap<String, DevicePtr>) -> Vec<u8> {
        let ptr = match &member.binding {
            Binding::Bytes(bytes) => return bytes.clone(),
            Binding::Text(s) => return self.text(s),
            Binding::Data(bytes) => self.upload(bytes),
            Binding::Strings(strings) => self.texts(strings.iter().map(String::as_str)),
            Binding::Dictionary(dictionary) => self.texts(dictionary.iter()),
            Binding::State => 0,
            Binding::Named(name) => named[name],
            Binding::Test { .. } => unreachable!("a test of a scan, in an expression"),
        };
        ptr.to_le_bytes().to_vec()
    }

    /// The value of each expression for each row.
    fn run(&self, columns: &[Column], exprs: &[Expr], ask: Ask) -> Vec<Vec<Outcome>> {
        let (source, params) = kernel(columns, exprs, ask);
        let module = self.device.compile(&source).unwrap_or_else(|error| panic!("{error}\n{}", source.text));
        let function = module.function("evaluate").unwrap();
        let mut named = HashMap::new();
        for (i, column) in columns.iter().enumerate() {
            let (values, valid) = self.column(&column.vector);
            named.extend([(format!("column {i}"), values), (format!("valid {i}"), valid)]);
        }
        for (i, expr) in exprs.iter().enumerate() {
            let size = CType::of(expr.ty.phys).size();
            named.insert(format!("result {i}"), self.upload(&vec![0; size * self.threads]));
            named.insert(format!("result valid {i}"), self.upload(&vec![0; self.threads]));
        }
        let states = self.states(exprs.len());
        named.insert("states".into(), states);
        let image = params.image(|member| match &member.binding {
            Binding::Named(name) if name == "rows" => (self.rows as u32).to_le_bytes().to_vec(),
            Binding::Named(name) if name == "threads" => (self.threads as u32).to_le_bytes().to_vec(),
            _ => self.bind(member, &named),
        });
        let shape = LaunchShape { blocks: (self.threads / THREADS) as u32, threads: THREADS as u32, shared: 0 };
        // SAFETY: the parameter is the kernel's, and its addresses are those of buffers for all threads.
        unsafe { self.device.launch(&function, shape, &image, self.stream) }.unwrap();
        self.device.synchronize(self.stream).unwrap();
        let states = self.download(states, STATE * self.threads * exprs.len());
        exprs.iter().enumerate().map(|(i, expr)| self.outcomes(i, expr, &named, &states)).collect()
    }

    /// A `QueryState` for each expression and thread.
    fn states(&self, exprs: usize) -> DevicePtr {
        let count = exprs * self.threads;
        let states = self.device.allocate((count * STATE) as u64).unwrap();
        let mut image = Vec::with_capacity(count * STATE);
        for i in 0..count {
            let arena = states + (i * STATE + 32) as u64;
            for word in [0, 0, ARENA as u64, arena] {
                image.extend(word.to_le_bytes());
            }
            image.extend([0; ARENA]);
        }
        // SAFETY: just allocated.
        unsafe { self.device.copy_to_device(states, &image, self.stream) }.unwrap();
        states
    }

    fn outcomes(&self, index: usize, expr: &Expr, named: &HashMap<String, DevicePtr>, states: &[u8]) -> Vec<Outcome> {
        let size = CType::of(expr.ty.phys).size();
        let values = self.download(named[&format!("result {index}")], size * self.threads);
        let valid = self.download(named[&format!("result valid {index}")], self.threads);
        let outcome = |thread: usize| {
            let state = &states[(index * self.threads + thread) * STATE..];
            let word = |at: usize| u32::from_le_bytes(state[at..at + 4].try_into().unwrap());
            assert_eq!(word(4), 0, "the arena is too small for {expr}");
            if word(0) != 0 {
                return Err(word(0));
            }
            if valid[thread] == 0 {
                return Ok(None);
            }
            let value = &values[thread * size..(thread + 1) * size];
            if expr.ty.phys != Phys::Str {
                return Ok(Some(value.to_vec()));
            }
            let (ptr, len) = value.split_at(8);
            let (ptr, len) =
                (u64::from_le_bytes(ptr.try_into().unwrap()), u32::from_le_bytes(len[..4].try_into().unwrap()));
            Ok(Some(if len == 0 { vec![] } else { self.download(ptr, len as usize) }))
        };
        for thread in self.rows..self.threads {
            assert_eq!(outcome(thread), Ok(None), "an effect of a thread without a row: {expr}");
        }
        (0..self.rows).map(outcome).collect()
    }
}

/// A kernel that evaluates `exprs` for a row per thread, and its parameter.
fn kernel(columns: &[Column], exprs: &[Expr], ask: Ask) -> (KernelSource, Params) {
    let mut params = Params::default();
    let mut code = Code::at_depth(1);
    for name in ["rows", "threads"] {
        params.add("u32".into(), 4, name, Binding::Named(name.into()));
    }
    let state = params.state();
    let states = params.output("u8", "states", Binding::Named("states".into()));
    code.line("Params p = params;");
    code.line("const u32 row = blockIdx.x * blockDim.x + threadIdx.x;");
    code.line("const bool active = row < p.rows_0;");
    let mut values = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        let ty = CType::of(column.ty.phys);
        let source = params.pointer(ty.name(), "column", Binding::Named(format!("column {i}")));
        let validity = params.pointer("bool", "valid", Binding::Named(format!("valid {i}")));
        let value = code.define(ty, "column", format!("{source}[row]"));
        let valid = column.vector.validity.is_some();
        let valid = valid.then(|| code.define(CType::Bool, "present", format!("{validity}[row]")));
        values.push(Some(Value::new(value, ty).with_valid(valid)));
    }
    for (i, expr) in exprs.iter().enumerate() {
        let ty = CType::of(expr.ty.phys);
        let result = params.output(ty.name(), "result", Binding::Named(format!("result {i}")));
        let validity = params.output("bool", "valid", Binding::Named(format!("result valid {i}")));
        code.block("", |code| {
            code.line(format!("{state} = (QueryState*)({states} + ({i}ull * p.threads_1 + row) * {STATE});"));
            let mut context = Context::new(code, &mut params, &values, "active");
            let value = match ask {
                Ask::Value => context.emit(expr),
                Ask::Truth => emit_predicate(expr, &mut context).map(|truth| Value::new(truth, CType::Bool)),
            };
            let value = value.unwrap_or_else(|error| panic!("{expr}: {error:?}"));
            assert_eq!(value.ty, ty, "{expr}");
            code.line(format!("if (active) {result}[row] = {};", value.text));
            code.line(format!("if (active) {validity}[row] = {};", value.valid_text()));
        });
    }
    let text = format!(
        "{}\n{}\nextern \"C\" __global__ void evaluate(const Params params) {{\n{}}}\n",
        params.library_text(),
        params.definition("Params"),
        code.text()
    );
    (KernelSource { text, entries: vec!["evaluate".into()] }, params)
}

/// The bytes of a row's value that is no string.
fn plain(vector: &Vector, row: usize) -> Vec<u8> {
    match &vector.data {
        Data::Bool(v) => vec![v[row].into()],
        Data::I32(v) => v[row].to_le_bytes().to_vec(),
        Data::I64(v) => v[row].to_le_bytes().to_vec(),
        Data::I128(v) => v[row].to_le_bytes().to_vec(),
        Data::F32(v) => v[row].to_le_bytes().to_vec(),
        Data::F64(v) => v[row].to_le_bytes().to_vec(),
        Data::Code(v) => v[row].to_le_bytes().to_vec(),
        Data::Str(v) => v[row].as_bytes().to_vec(),
    }
}

/// The CPU's value for each row, evaluated individually so that errors are attributed to rows.
fn oracle(columns: &[Column], expr: &Expr, rows: usize, ask: Ask) -> Vec<Result<Option<Vec<u8>>, String>> {
    let prepared = PreparedExpr::new(expr).unwrap_or_else(|error| panic!("{expr}: {error}"));
    let mut worker = Worker::new(&Arc::new(QueryMemory::default()));
    let mut row = |row: usize| {
        let columns = columns.iter().map(|column| Arc::new(column.vector.gather(&[row as u32]))).collect();
        let chunk = Chunk::from_vectors(columns);
        if ask == Ask::Truth {
            let selected = prepared.select(&chunk, &mut worker).map_err(|error| error.to_string())?;
            return Ok(Some(vec![selected.is_none_or(|rows| !rows.is_empty()).into()]));
        }
        let value = prepared.eval(&chunk, &mut worker).map_err(|error| error.to_string())?;
        Ok(value.is_valid(0).then(|| plain(&value, 0)))
    };
    (0..rows).map(&mut row).collect()
}

/// Whether two values are the same; all NaNs are. GPU approximations may differ slightly.
fn alike(expr: &Expr, device: DeviceKind, a: &[u8], b: &[u8]) -> bool {
    let double = |bytes: &[u8]| match expr.ty.phys {
        Phys::F32 => f64::from(f32::from_le_bytes(bytes.try_into().unwrap())),
        _ => f64::from_le_bytes(bytes.try_into().unwrap()),
    };
    if a == b || !matches!(expr.ty.phys, Phys::F32 | Phys::F64) {
        return a == b;
    }
    let approximate = [Function::Exp, Function::Ln, Function::Log10, Function::Power];
    let approximate = device == DeviceKind::Cuda
        && matches!(&expr.kind, ExprKind::Call { function, .. } if approximate.contains(function));
    let tolerance = if expr.ty.phys == Phys::F32 { 1e-6 } else { 1e-14 };
    let (a, b) = (double(a), double(b));
    a.is_nan() && b.is_nan() || approximate && (a - b).abs() <= tolerance * a.abs()
}

/// Compares every expression on every row. At most `host` rows may be left to the CPU.
fn compare_rows(columns: &[Column], exprs: &[Expr], ask: Ask, host: usize) {
    const ERROR_HOST: u32 = 5;
    let rows = columns[0].vector.len();
    let rig = Rig::new(rows);
    for exprs in exprs.chunks(60) {
        let found = rig.run(columns, exprs, ask);
        for (expr, found) in exprs.iter().zip(found) {
            let mut left = 0;
            for (row, (cpu, device)) in oracle(columns, expr, rows, ask).into_iter().zip(found).enumerate() {
                let same = match (&cpu, &device) {
                    (_, Err(ERROR_HOST)) => {
                        left += 1;
                        true
                    }
                    (Ok(None), Ok(None)) | (Err(_), Err(_)) => true,
                    (Ok(Some(a)), Ok(Some(b))) => alike(expr, rig.device.properties().kind, a, b),
                    _ => false,
                };
                let values: Vec<_> = columns.iter().map(|c| show(&c.vector, row)).collect();
                assert!(same, "{expr} of {values:?}: CPU {cpu:?}, device {device:?}");
            }
            assert!(left == 0 || host > 0 && left * host <= rows, "{expr} leaves {left} of {rows} rows to the CPU");
        }
    }
}

/// Compares values; at most one in `host` may be left to the CPU.
pub fn check_with_host(columns: &[Column], exprs: &[Expr], host: usize) {
    compare_rows(columns, exprs, Ask::Value, host);
}

/// Compares values.
pub fn check(columns: &[Column], exprs: &[Expr]) {
    compare_rows(columns, exprs, Ask::Value, 0);
}

/// Compares the rows that predicates keep.
pub fn check_predicates(columns: &[Column], exprs: &[Expr]) {
    compare_rows(columns, exprs, Ask::Truth, 0);
}

fn show(vector: &Vector, row: usize) -> String {
    if !vector.is_valid(row) {
        return "NULL".into();
    }
    match &vector.data {
        Data::Str(v) => format!("{:?}", v[row].as_str()),
        data => warpmill_eval::with_data!(data, values => format!("{:?}", values[row])),
    }
}
