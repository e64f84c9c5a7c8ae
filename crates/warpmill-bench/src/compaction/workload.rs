//! The tables of the chunk compaction paper's synthetic experiments (section 6.1).
//!
//! R has columns `id_1 .. id_k` and a payload; each S_i has `id_i` and a payload. For a chunk-reducing factor r with as
//! many result rows as probe rows, every key of S_i occurs r times and one in r values of R.id_i is among them: a probe
//! chunk of d rows then gives r result chunks of d / r rows. Keys are scattered over 64 bits, so that the joins hash.
//!
//! The paper's payloads are strings that its engine copies. Views of strings would make every length cost the same here,
//! so payloads are 16-byte (and one 8-byte) integer columns that add up to the tuple length.

use std::sync::Arc;

use arrow::datatypes::DataType;
use warpmill_cpu::context::{QueryContext, Settings};
use warpmill_cpu::join::{HashBuildSink, HashTable, ProbeOperator};
use warpmill_cpu::operator::{Sink, SinkOutput};
use warpmill_eval::Result;
use warpmill_eval::cancel::CancelToken;
use warpmill_eval::chunk::{Chunk, Column, Selection, Values};
use warpmill_eval::expr::PreparedExpr;
use warpmill_eval::vector::{Data, Vector};
use warpmill_ir::{ColType, Expr, Field, JoinKind, Phys, Probe};

/// Sizes of one experiment.
#[derive(Debug, Clone)]
pub struct Shape {
    pub probe_rows: usize,
    /// The r of the paper.
    pub factor: usize,
    /// Bytes of a tuple of R.
    pub probe_bytes: usize,
    /// Bytes of a tuple of each S_i: as many as there are joins.
    pub build_bytes: Vec<usize>,
}

/// The tables: R in memory, each S_i in a hash table.
pub struct Workload {
    ids: Vec<Arc<Vector>>,
    padding: Vec<Arc<Vector>>,
    rows: usize,
    tables: Vec<Arc<HashTable>>,
}

/// Rows after which R's payload repeats: larger than caches, and small enough for long tuples.
const PADDING_ROWS: usize = 1 << 16;

/// A bijection that scatters keys over all of 64 bits (splitmix64's finalizer).
pub fn scatter(key: u64) -> i64 {
    let key = (key.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ key >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (key ^ key >> 31) as i64
}

/// Pseudo-random numbers below `bound`, the same in every run.
fn random(seed: u64, bound: u64, rows: usize) -> impl Iterator<Item = u64> {
    let word = move |row: u64| scatter(scatter(seed) as u64 ^ row) as u64;
    (0..rows as u64).map(move |row| ((u128::from(word(row)) * u128::from(bound)) >> 64) as u64)
}

/// A random order of `0 .. rows`.
fn shuffled(rows: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..rows as u32).collect();
    random(u64::MAX, rows as u64, rows).enumerate().for_each(|(row, other)| order.swap(row, other as usize));
    order
}

/// The types of `bytes` bytes of payload.
fn payload_types(bytes: usize) -> Vec<Phys> {
    let mut types = vec![Phys::I128; bytes / 16];
    if bytes % 16 >= 8 {
        types.insert(0, Phys::I64);
    }
    types
}

fn payload(types: &[Phys], rows: usize) -> Vec<Arc<Vector>> {
    let column = |&phys: &Phys| match phys {
        Phys::I64 => Data::I64((0..rows as i64).collect()),
        _ => Data::I128((0..rows as i128).collect()),
    };
    types.iter().map(|phys| Arc::new(Vector::new(column(phys)))).collect()
}

pub fn field(phys: Phys) -> Field {
    let logical = if phys == Phys::I64 { DataType::Int64 } else { DataType::Decimal128(38, 0) };
    Field { name: String::new(), ty: ColType::of(&logical, false).expect("a supported type") }
}

impl Workload {
    /// Makes the tables; S_i has a tenth of R's rows.
    pub fn new(shape: &Shape) -> Result<Self> {
        let joins = shape.build_bytes.len();
        let build_rows = (shape.probe_rows / 10).max(shape.factor);
        let keys = build_rows / shape.factor;
        let order = shuffled(shape.probe_rows);
        let id = |i: usize| {
            let period = (shape.factor as u64).pow(i as u32);
            let hits = random(2 * i as u64, keys as u64, shape.probe_rows);
            let misses = random(2 * i as u64 + 1, (keys * (shape.factor - 1)) as u64, shape.probe_rows);
            let key = |((&place, hit), miss): ((&u32, u64), u64)| {
                let matches = (u64::from(place) / period).is_multiple_of(shape.factor as u64);
                scatter(if matches { hit } else { keys as u64 + miss })
            };
            Arc::new(Vector::new(Data::I64(order.iter().zip(hits).zip(misses).map(key).collect())))
        };
        let tables = shape.build_bytes.iter().enumerate().map(|(i, &bytes)| build(i, keys, shape.factor, bytes));
        Ok(Self {
            ids: (0..joins).map(id).collect(),
            padding: payload(&payload_types(shape.probe_bytes.saturating_sub(8 * joins)), PADDING_ROWS),
            rows: shape.probe_rows,
            tables: tables.collect::<Result<_>>()?,
        })
    }

    /// R in chunks.
    pub fn chunks(&self, chunk_rows: usize) -> impl Iterator<Item = Chunk> {
        (0..self.rows).step_by(chunk_rows).map(move |start| {
            let column = |group| move |v: &Arc<Vector>| Column { values: Values::Vector(v.clone()), group };
            let columns = self.ids.iter().map(column(0)).chain(self.padding.iter().map(column(1))).collect();
            let groups = [start, start % PADDING_ROWS].map(|start| Selection::Range { start: start as u32 });
            let mut chunk = Chunk::from_parts(chunk_rows.min(self.rows - start), columns, groups.to_vec());
            chunk.sequence = start as u64;
            chunk
        })
    }

    /// R's columns.
    pub fn fields(&self) -> Vec<Field> {
        self.ids.iter().chain(&self.padding).map(|vector| field(vector.data.phys())).collect()
    }

    /// The natural joins with S_1 .. S_k, and the output fields of each: its input's and S_i's payload.
    pub fn joins(&self) -> Result<Vec<(ProbeOperator, Vec<Field>)>> {
        let mut fields = self.fields();
        let probe = |(i, table): (usize, &Arc<HashTable>)| {
            fields.extend(table.payload().iter().map(|vector| field(vector.data.phys())));
            let probe = Probe {
                build: i,
                kind: JoinKind::Inner,
                keys: vec![Expr::column(i, field(Phys::I64).ty)],
                residual: None,
                asof: None,
                range: None,
                null_aware: false,
                output: (0..fields.len()).collect(),
                fields: fields.clone(),
            };
            Ok((ProbeOperator::new(&probe, table.clone())?, fields.clone()))
        };
        self.tables.iter().enumerate().map(probe).collect()
    }
}

/// The hash table of S_i: `keys` keys, each `factor` times, in random order.
fn build(i: usize, keys: usize, factor: usize, bytes: usize) -> Result<Arc<HashTable>> {
    let rows = keys * factor;
    let mut ids: Vec<u64> = (0..rows as u64).map(|row| row % keys as u64).collect();
    random(!(i as u64), rows as u64, rows).enumerate().for_each(|(row, other)| ids.swap(row, other as usize));
    let types = payload_types(bytes.saturating_sub(8).max(8));
    let mut columns = vec![Arc::new(Vector::new(Data::I64(ids.into_iter().map(scatter).collect())))];
    columns.extend(payload(&types, rows));
    let query = Arc::new(QueryContext::new(Settings::default(), CancelToken::default()));
    let key = PreparedExpr::new(&Expr::column(0, field(Phys::I64).ty))?;
    let sink = HashBuildSink::new(vec![key], vec![Phys::I64], (1..columns.len()).collect(), types, false, false);
    let mut local = sink.local(&query);
    local.consume(Chunk::from_vectors(columns))?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("one thread");
    match sink.finish(vec![local], &query, &pool)? {
        SinkOutput::Hash(table) => Ok(table),
        SinkOutput::Rows(_) | SinkOutput::Spilled(_) => unreachable!("a hash build gives a hash table"),
    }
}
