//! One join, run by the operators and by a nested loop.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use warpmill_format::{Bitmap, StrView};
use warpmill_ir::{BuildRows, ColType, CompareOp, Expr, ExprKind, Field, JoinKind, Phys, Probe};

use crate::aggregate::tests::spilling;
use crate::chunk::Chunk;
use crate::compaction::{Compaction, CompactionOperator};
use crate::context::{CancelToken, QueryContext, Settings};
use crate::expr::PreparedExpr;
use crate::join::{HashBuildSink, HashTable, ProbeOperator};
use crate::operator::{LocalOperator, Operator, Sink, SinkOutput};
use crate::vector::{Data, Vector};

/// The rows of a side: the keys, and a value for the residual condition.
pub type Side = Vec<(Vec<Option<u8>>, Option<i64>)>;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    Normal,
    NoDirect,
    EqualHashes,
}

#[derive(Debug, Clone)]
pub struct Case {
    pub types: Vec<Phys>,
    pub probe: Side,
    pub build: Side,
    pub mode: Mode,
    /// Whether pairs must also satisfy `probe value < build value`.
    pub residual: bool,
    pub null_equals_null: bool,
    pub chunk_rows: usize,
    pub workers: usize,
    /// Memory limit in bytes, beyond which rows are spilled.
    pub limit: Option<usize>,
}

/// Output rows: row numbers of both sides, and the mark.
type Output = Vec<(Option<i64>, Option<i64>, Option<bool>)>;

pub fn column_type(phys: Phys) -> ColType {
    let logical = match phys {
        Phys::Bool => DataType::Boolean,
        Phys::I32 => DataType::Int32,
        Phys::I64 => DataType::Int64,
        Phys::I128 => DataType::Decimal128(38, 0),
        Phys::F32 => DataType::Float32,
        Phys::F64 => DataType::Float64,
        Phys::Str | Phys::Code => DataType::Utf8,
    };
    let ty = ColType::of(&logical, true).unwrap();
    ColType { phys, ..ty }
}

fn column(index: usize, phys: Phys) -> Expr {
    Expr::column(index, column_type(phys))
}

/// Key `i` in a representation; equal numbers make equal keys.
fn key_column(phys: Phys, keys: &[Option<u8>]) -> Vector {
    const STRINGS: [&str; 8] =
        ["", "a", "ab", "abcd", "abcde", "abcdefgh1", "abcdefgh2", "a longer string than two words"];
    let ints = || keys.iter().map(|key| key.unwrap_or(5));
    let float = |(i, key): (usize, u8)| match key {
        0 if i % 2 == 1 => -0.0,
        7 => f64::NAN,
        key => f64::from(key) * 1.5,
    };
    let data = match phys {
        Phys::Bool => Data::Bool(ints().map(|key| key % 2 == 1).collect()),
        Phys::I32 => Data::I32(ints().map(|key| i32::from(key) - 3).collect()),
        Phys::I64 => Data::I64(ints().map(|key| (i64::from(key) - 3) * (i64::MAX / 4)).collect()),
        Phys::I128 => Data::I128(ints().map(|key| i128::from(key) << 70).collect()),
        Phys::F32 => Data::F32(ints().enumerate().map(|key| float(key) as f32).collect()),
        Phys::F64 => Data::F64(ints().enumerate().map(float).collect()),
        Phys::Str => Data::Str(ints().map(|key| StrView::new(STRINGS[usize::from(key)])).collect()),
        Phys::Code => Data::Code(ints().map(u32::from).collect()),
    };
    Vector::with_validity(data, Some(Bitmap::from_fn(keys.len(), |row| keys[row].is_some())))
}

fn pool() -> &'static rayon::ThreadPool {
    static POOL: LazyLock<rayon::ThreadPool> =
        LazyLock::new(|| rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
    &POOL
}

impl Case {
    /// Runs the join under every compaction strategy.
    pub fn check(&self, kind: JoinKind, null_aware: bool) {
        let expected = self.expected(kind, null_aware);
        let strategies = if self.limit.is_some() { &[Compaction::Smart][..] } else { &Compaction::ALL };
        for &strategy in strategies {
            let got = self.run(kind, null_aware, strategy);
            assert_eq!(got, expected, "{kind:?}, null aware: {null_aware}, {strategy:?}, {self:?}");
        }
    }

    /// Columns: the keys, the row number, the value.
    fn vectors(&self, side: &Side) -> Vec<Arc<Vector>> {
        let mut columns: Vec<Vector> = (0..self.types.len())
            .map(|k| key_column(self.types[k], &side.iter().map(|(keys, _)| keys[k]).collect::<Vec<_>>()))
            .collect();
        columns.push(Vector::new(Data::I64((0..side.len() as i64).collect())));
        let values = Data::I64(side.iter().map(|(_, value)| value.unwrap_or(9)).collect());
        columns.push(Vector::with_validity(values, Some(Bitmap::from_fn(side.len(), |row| side[row].1.is_some()))));
        columns.into_iter().map(Arc::new).collect()
    }

    /// A side in chunks, each a view of all rows.
    fn chunks(&self, side: &Side) -> Vec<Chunk> {
        let whole = Chunk::from_vectors(self.vectors(side));
        let rows: Vec<u32> = (0..side.len() as u32).collect();
        rows.chunks(self.chunk_rows).map(|rows| whole.selected(rows)).collect()
    }

    fn key_exprs(&self) -> Vec<Expr> {
        self.types.iter().enumerate().map(|(k, &phys)| column(k, phys)).collect()
    }

    fn build(&self, query: &Arc<QueryContext>) -> Arc<HashTable> {
        let keys = self.key_exprs().iter().map(|key| PreparedExpr::new(key).unwrap()).collect();
        let (id, value) = (self.types.len(), self.types.len() + 1);
        let types = vec![Phys::I64, Phys::I64];
        let sink = HashBuildSink::new(keys, self.types.clone(), vec![id, value], types, self.null_equals_null, true);
        let sink = match self.mode {
            Mode::Normal => sink,
            Mode::NoDirect => sink.without_direct(),
            Mode::EqualHashes => sink.with_equal_hashes(),
        };
        let mut locals: Vec<_> = (0..self.workers).map(|_| sink.local(query)).collect();
        for (i, chunk) in self.chunks(&self.build).into_iter().enumerate() {
            locals[i % self.workers].consume(chunk).unwrap();
        }
        match sink.finish(locals, query, pool()).unwrap() {
            SinkOutput::Hash(table) => table,
            SinkOutput::Rows(_) | SinkOutput::Spilled(_) => panic!("a hash build gives a hash table"),
        }
    }

    fn probe_operator(&self, kind: JoinKind, null_aware: bool, table: &Arc<HashTable>) -> (ProbeOperator, Vec<Field>) {
        let inputs = self.types.len() + 2;
        let output = match kind {
            JoinKind::ProbeSemi | JoinKind::ProbeAnti | JoinKind::BuildOnly => vec![inputs - 2],
            JoinKind::ProbeMark => vec![inputs - 2, inputs + 2],
            _ => vec![inputs - 2, inputs],
        };
        let types = [Phys::I64, if kind == JoinKind::ProbeMark { Phys::Bool } else { Phys::I64 }];
        let field = |phys: &Phys| Field { name: "c".into(), ty: column_type(*phys) };
        let fields: Vec<Field> = types[..output.len()].iter().map(field).collect();
        let residual = self.residual.then(|| Expr {
            kind: ExprKind::Compare {
                op: CompareOp::Lt,
                left: Box::new(column(inputs - 1, Phys::I64)),
                right: Box::new(column(inputs + 1, Phys::I64)),
            },
            ty: column_type(Phys::Bool),
        });
        let keys = self.key_exprs();
        let probe = Probe {
            build: 0,
            kind,
            keys,
            residual,
            asof: None,
            range: None,
            null_aware,
            output,
            fields: fields.clone(),
        };
        (ProbeOperator::new(&probe, table.clone()).unwrap(), fields)
    }

    fn run(&self, kind: JoinKind, null_aware: bool, compaction: Compaction) -> Output {
        let settings = self.limit.map_or_else(Settings::default, spilling);
        let settings = Settings { chunk_rows: self.chunk_rows, compaction, ..settings };
        let query = Arc::new(QueryContext::new(settings, CancelToken::default()));
        let table = self.build(&query);
        let (operator, fields) = self.probe_operator(kind, null_aware, &table);
        let mut compact = CompactionOperator::for_strategy(compaction, &fields, false).map(|o| o.local(&query));
        let mut probe = operator.local(&query);
        let mut rows = vec![];
        for chunk in self.chunks(&self.probe) {
            let mut joined = vec![];
            probe
                .process(chunk, &mut |chunk| {
                    joined.push(chunk);
                    Ok(())
                })
                .unwrap();
            joined.into_iter().for_each(|chunk| self.pass(&mut compact, chunk, kind, &mut rows));
        }
        probe.finish(&mut |_| panic!("a probe holds nothing back")).unwrap();
        while let Some(resumed) = operator.resume(&query, pool()).unwrap() {
            let mut source = resumed.source.local(&query);
            let mut probe = resumed.operator.local(&query);
            let mut joined = vec![];
            let mut keep = |chunk| {
                joined.push(chunk);
                Ok(())
            };
            while source.next_morsel(&mut |chunk| probe.process(chunk, &mut keep)).unwrap() {}
            probe.finish(&mut keep).unwrap();
            (resumed.done)();
            joined.into_iter().for_each(|chunk| self.pass(&mut compact, chunk, kind, &mut rows));
        }
        if let Some(compact) = &mut compact {
            compact
                .finish(&mut |chunk| {
                    self.collect(&chunk, kind, &mut rows);
                    Ok(())
                })
                .unwrap();
        }
        if matches!(kind, JoinKind::BuildOuter | JoinKind::Full | JoinKind::BuildOnly) {
            self.collect_build(&table, &mut rows);
        }
        rows.sort();
        rows
    }

    fn pass(&self, compact: &mut Option<Box<dyn LocalOperator>>, chunk: Chunk, kind: JoinKind, rows: &mut Output) {
        match compact {
            Some(compact) => {
                compact
                    .process(chunk, &mut |chunk| {
                        self.collect(&chunk, kind, rows);
                        Ok(())
                    })
                    .unwrap();
            }
            None => self.collect(&chunk, kind, rows),
        }
    }

    fn collect(&self, chunk: &Chunk, kind: JoinKind, rows: &mut Output) {
        assert!(!chunk.is_empty() && chunk.len() <= self.chunk_rows);
        for row in 0..chunk.len() {
            let int = |column: usize| match &chunk.dense(column).data {
                Data::I64(values) => chunk.dense(column).is_valid(row).then(|| values[row]),
                other => panic!("{other:?}"),
            };
            rows.push(match kind {
                JoinKind::ProbeSemi | JoinKind::ProbeAnti => (int(0), None, None),
                JoinKind::ProbeMark => {
                    let Data::Bool(marks) = &chunk.dense(1).data else { panic!("the mark is a Bool") };
                    (int(0), None, chunk.dense(1).is_valid(row).then(|| marks[row]))
                }
                JoinKind::BuildOnly => panic!("no output"),
                _ => (int(0), int(1), None),
            });
        }
    }

    /// All build rows with their marks, which must agree with those matched and unmatched.
    fn collect_build(&self, table: &HashTable, rows: &mut Output) {
        let read = |which: BuildRows| -> Output {
            let chunks = (0..table.rows())
                .step_by(7)
                .flat_map(|start| table.build_rows(which, &[Phys::Str], start..start + 7, self.chunk_rows));
            let spilled = table.spilled_blocks().into_iter();
            let chunks = chunks.chain(
                spilled.flat_map(|block| table.spilled_rows(which, &[Phys::Str], block, self.chunk_rows).unwrap()),
            );
            let row = |chunk: &Chunk, row: usize| {
                let Data::I64(ids) = &chunk.dense(0).data else { panic!() };
                assert!(!chunk.dense(2).is_valid(row));
                let mark = match which {
                    BuildRows::Marked => match &chunk.dense(3).data {
                        Data::Bool(marks) => marks[row],
                        _ => panic!(),
                    },
                    which => which == BuildRows::Matched,
                };
                (None, Some(ids[row]), Some(mark))
            };
            chunks.flat_map(|chunk| (0..chunk.len()).map(|i| row(&chunk, i)).collect::<Vec<_>>()).collect()
        };
        let mut marked = read(BuildRows::Marked);
        let mut split = read(BuildRows::Matched);
        split.extend(read(BuildRows::Unmatched));
        marked.sort();
        split.sort();
        assert_eq!(marked, split);
        rows.append(&mut marked);
    }

    /// Whether two rows' keys are equal; `None`: unknown.
    fn keys_equal(&self, a: &[Option<u8>], b: &[Option<u8>]) -> Option<bool> {
        let equal = |k: usize| match (a[k], b[k]) {
            (Some(a), Some(b)) if self.types[k] == Phys::Bool => Some(a % 2 == b % 2),
            (Some(a), Some(b)) => Some(a == b),
            (a, b) if self.null_equals_null => Some(a == b),
            _ => None,
        };
        let all: Vec<_> = (0..self.types.len()).map(equal).collect();
        if all.contains(&Some(false)) { Some(false) } else { (!all.contains(&None)).then_some(true) }
    }

    fn passes(&self, probe: Option<i64>, build: Option<i64>) -> bool {
        !self.residual || matches!((probe, build), (Some(a), Some(b)) if a < b)
    }

    fn expected(&self, kind: JoinKind, null_aware: bool) -> Output {
        let mut out = vec![];
        let mut build_matched = vec![false; self.build.len()];
        for (i, (keys, value)) in self.probe.iter().enumerate() {
            let id = Some(i as i64);
            let candidates = || self.build.iter().enumerate().filter(|(_, (_, other))| self.passes(*value, *other));
            let matches: Vec<usize> = candidates()
                .filter(|(_, (other, _))| self.keys_equal(keys, other) == Some(true))
                .map(|(j, _)| j)
                .collect();
            let unknown = null_aware && candidates().any(|(_, (other, _))| self.keys_equal(keys, other).is_none());
            matches.iter().for_each(|&j| build_matched[j] = true);
            let found = !matches.is_empty();
            match kind {
                JoinKind::ProbeSemi if found => out.push((id, None, None)),
                JoinKind::ProbeAnti if !found && !unknown => out.push((id, None, None)),
                JoinKind::ProbeMark => out.push((id, None, (found || !unknown).then_some(found))),
                JoinKind::ProbeSemi | JoinKind::ProbeAnti | JoinKind::BuildOnly => {}
                JoinKind::ProbeOuter | JoinKind::Full if !found => out.push((id, None, None)),
                _ => out.extend(matches.iter().map(|&j| (id, Some(j as i64), None))),
            }
        }
        if matches!(kind, JoinKind::BuildOuter | JoinKind::Full | JoinKind::BuildOnly) {
            out.extend(build_matched.iter().enumerate().map(|(j, &mark)| (None, Some(j as i64), Some(mark))));
        }
        out.sort();
        out
    }
}
