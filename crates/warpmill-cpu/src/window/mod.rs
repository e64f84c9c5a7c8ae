//! Window functions. Rows are not moved: their keys are sorted together with row numbers, arguments are gathered in that order, functions are
//! computed there, and results are scattered back as columns beside the row's own.

pub(crate) mod bucket;
mod call;
mod frame;
mod order;
mod pick;
mod rank;
mod slide;
mod sum;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;
use warpmill_ir::{Expr, Phys, SortKey, WindowCall};

use crate::aggregate::operand::Operand;
use crate::chunk::Chunk;
use crate::collect::downcast;
use crate::context::{ExecError, QueryContext, Result, Share, Worker};
use crate::map_data;
use crate::operator::{LocalSink, Sink, SinkOutput};
use crate::rows::RowSet;
use crate::sort::normalize::{Direction, Normalizer, Prefix};
use crate::vector::Vector;
use call::{Call, Values, concat};
use order::{Keys, Order};

/// The sink of [`warpmill_ir::Sink::Window`].
pub struct WindowSink {
    shared: Arc<Shared>,
}

struct Shared {
    /// The partition's keys, then the order's.
    keys: Vec<Operand>,
    normalizer: Normalizer,
    directions: Vec<Direction>,
    partition: usize,
    /// The distinct expressions that calls read by position, with their representation.
    operands: Vec<(Operand, Phys)>,
    calls: Vec<WindowCall>,
    /// Index of the operand that is each call's argument.
    arguments: Vec<Option<usize>>,
    /// Index of the operand that RANGE frames compare.
    key: Option<usize>,
    payload: Vec<usize>,
}

impl WindowSink {
    /// A sink that returns columns `payload` and the results of `calls`; rows with equal `partition` keys form a partition, sorted by `order`.
    pub fn new(partition: &[Expr], order: &[SortKey], calls: &[WindowCall], payload: &[usize]) -> Result<Self> {
        let ascending = |expr: &Expr| SortKey { expr: expr.clone(), descending: false, nulls_first: false };
        let keys: Vec<SortKey> = partition.iter().map(ascending).chain(order.iter().cloned()).collect();
        let mut read: Vec<&Expr> = vec![];
        let mut index = |expr| {
            read.iter().position(|other| *other == expr).unwrap_or_else(|| {
                read.push(expr);
                read.len() - 1
            })
        };
        let arguments = calls.iter().map(|call| call.argument.as_ref().map(&mut index)).collect();
        let compares = calls.iter().any(|call| call.function.has_frame() && call.frame.compares_values());
        let key = order.first().filter(|_| compares).map(|key| index(&key.expr));
        let operand = |expr: &&Expr| Ok((Operand::new(expr)?, expr.ty.phys));
        let shared = Shared {
            normalizer: Normalizer::new(&keys),
            directions: keys
                .iter()
                .map(|k| Direction { descending: k.descending, nulls_first: k.nulls_first })
                .collect(),
            keys: keys.iter().map(|key| Operand::new(&key.expr)).collect::<Result<_>>()?,
            partition: partition.len(),
            operands: read.iter().map(operand).collect::<Result<_>>()?,
            calls: calls.to_vec(),
            arguments,
            key,
            payload: payload.to_vec(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    fn finish_as<P: Prefix>(
        &self,
        locals: Vec<Box<dyn LocalSink>>,
        query: &Arc<QueryContext>,
        pool: &rayon::ThreadPool,
    ) -> Result<SinkOutput> {
        let mut batches: Vec<Batch<P>> = vec![];
        for (worker, local) in locals.into_iter().map(downcast::<LocalWindow<P>>).enumerate() {
            batches.extend(local.batches.into_iter().map(|batch| Batch { worker, ..batch }));
        }
        batches.sort_by_key(|batch| (batch.sequence, batch.worker));
        let rows: usize = batches.iter().map(|batch| batch.rows).sum();
        if u32::try_from(rows).is_err() {
            return Err(ExecError::Unsupported("window functions over more than 4294967295 rows".into()));
        }
        let working = rows * self.shared.working_bytes::<P>();
        query.reserve_share(Share::Result, "Window", working + rows * self.shared.result_bytes())?;
        let output = pool.install(|| self.shared.evaluate(batches, rows, query));
        query.release_share(Share::Result, working);
        Ok(SinkOutput::Rows(Arc::new(output?)))
    }
}

impl Sink for WindowSink {
    fn name(&self) -> String {
        "Window".into()
    }

    fn local(&self, query: &Arc<QueryContext>) -> Box<dyn LocalSink> {
        if self.shared.normalizer.is_narrow() {
            Box::new(LocalWindow::<u64>::new(&self.shared, query))
        } else {
            Box::new(LocalWindow::<u128>::new(&self.shared, query))
        }
    }

    fn finish(
        &self,
        locals: Vec<Box<dyn LocalSink>>,
        query: &Arc<QueryContext>,
        pool: &rayon::ThreadPool,
    ) -> Result<SinkOutput> {
        if self.shared.normalizer.is_narrow() {
            self.finish_as::<u64>(locals, query, pool)
        } else {
            self.finish_as::<u128>(locals, query, pool)
        }
    }
}

/// The rows of a chunk.
struct Batch<P> {
    prefixes: Vec<P>,
    /// The keys that prefixes do not hold completely.
    open: Vec<Arc<Vector>>,
    operands: Vec<Arc<Vector>>,
    payload: Vec<Arc<Vector>>,
    rows: usize,
    /// The chunk's sequence, for the source's order.
    sequence: u64,
    worker: usize,
}

struct LocalWindow<P> {
    shared: Arc<Shared>,
    query: Arc<QueryContext>,
    worker: Worker,
    batches: Vec<Batch<P>>,
}

impl<P: Prefix> LocalWindow<P> {
    fn new(shared: &Arc<Shared>, query: &Arc<QueryContext>) -> Self {
        let worker = Worker::new(&query.memory);
        Self { shared: shared.clone(), query: query.clone(), worker, batches: vec![] }
    }
}

impl<P: Prefix> LocalSink for LocalWindow<P> {
    fn consume(&mut self, chunk: Chunk) -> Result<()> {
        let shared = self.shared.clone();
        let eval = |operand: &Operand| operand.eval(&chunk, &mut self.worker);
        let mut keys = shared.keys.iter().map(eval).collect::<Result<Vec<_>>>()?;
        let prefixes: Vec<P> = match keys.is_empty() {
            true => vec![],
            false => shared.normalizer.encode(&keys, chunk.len()),
        };
        let eval = |(operand, _): &(Operand, Phys)| operand.eval(&chunk, &mut self.worker);
        let operands = shared.operands.iter().map(eval).collect::<Result<Vec<_>>>()?;
        let payload: Vec<Arc<Vector>> = shared.payload.iter().map(|&column| chunk.dense(column).clone()).collect();
        let open = keys.split_off(shared.normalizer.open);
        let vectors: usize = payload.iter().chain(&operands).chain(&open).map(|vector| vector.bytes()).sum();
        self.query.reserve_share(Share::Result, "Window", vectors + size_of_val(prefixes.as_slice()))?;
        let (rows, sequence) = (chunk.len(), chunk.sequence);
        self.batches.push(Batch { prefixes, open, operands, payload, rows, sequence, worker: 0 });
        Ok(())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

/// Estimated bytes of a value in columns.
const VALUE: usize = 8;

impl Shared {
    /// Bytes per row during the computation: keys with rows twice, positions, operands in both orders.
    fn working_bytes<P>(&self) -> usize {
        2 * (size_of::<P>() + VALUE) + 2 * size_of::<u32>() + VALUE * (2 * self.operands.len() + 2 * self.calls.len())
    }

    /// Bytes per row of the calls' results.
    fn result_bytes(&self) -> usize {
        VALUE * self.calls.len()
    }

    fn evaluate<P: Prefix>(&self, mut batches: Vec<Batch<P>>, rows: usize, query: &QueryContext) -> Result<RowSet> {
        let order = self.order(&batches, rows);
        query.cancel.check()?;
        batches.iter_mut().for_each(|batch| (batch.prefixes, batch.open) = Default::default());
        let operands: Vec<Vector> =
            self.operands.iter().enumerate().map(|(at, (_, phys))| placed(&batches, at, *phys, &order)).collect();
        let descending = self.directions.get(self.partition).is_some_and(|direction| direction.descending);
        let key = self.key.map(|key| (&operands[key], descending));
        let mut results = Vec::with_capacity(self.calls.len());
        for (call, argument) in self.calls.iter().zip(&self.arguments) {
            let argument = argument.map(|argument| &operands[argument]);
            results.push(Call { call, order: &order, argument, key }.evaluate(query)?);
        }
        Ok(output(batches, &order, &results))
    }

    fn order<P: Prefix>(&self, batches: &[Batch<P>], rows: usize) -> Order {
        if self.keys.is_empty() || rows == 0 {
            return Order::of_source(rows);
        }
        let first = self.normalizer.open;
        let open = self.directions[first..].iter().enumerate().map(|(at, &direction)| {
            let parts = batches.iter().map(|batch| &*batch.open[at]);
            let phys = parts.clone().next().map_or(Phys::I32, |part| part.data.phys());
            (direction, concat(parts, phys))
        });
        Order::new(&Keys {
            prefixes: batches.iter().map(|batch| batch.prefixes.as_slice()).collect(),
            bits: self.normalizer.bits(),
            partition_bits: self.normalizer.bits_of(self.partition),
            is_ordered: self.partition < self.keys.len(),
            open: open.collect(),
            open_partitions: self.partition.saturating_sub(first),
        })
    }
}

/// Operand `at` of all rows, by position.
fn placed<P: Prefix>(batches: &[Batch<P>], at: usize, phys: Phys, order: &Order) -> Vector {
    let values = concat(batches.iter().map(|batch| &*batch.operands[at]), phys);
    let Some(rows) = &order.rows else { return values };
    let data = map_data!(&values.data, v => rows.par_iter().map(|&row| v[row as usize]).collect());
    Vector::with_validity(data, values.validity.as_ref().map(|validity| validity.gather(rows)))
}

/// The rows in input order, each with its values of `results`.
fn output<P: Prefix>(batches: Vec<Batch<P>>, order: &Order, results: &[Values]) -> RowSet {
    let (of_position, of_partition): (Vec<&Values>, Vec<&Values>) =
        results.iter().partition(|values| matches!(values, Values::Positions(_)));
    let positions = (!of_position.is_empty()).then(|| order.by_row(|_, position| position)).flatten();
    let partitions = (!of_partition.is_empty()).then(|| order.by_row(|piece, _| piece.number)).flatten();
    let firsts = batches.iter().scan(0, |next, batch| {
        *next += batch.rows;
        Some(*next - batch.rows)
    });
    let firsts: Vec<usize> = firsts.collect();
    let with_results = |(batch, first): (Batch<P>, usize)| {
        let (rows, mut columns) = (batch.rows, batch.payload);
        let of_batch = |numbers: &Option<Vec<AtomicU32>>| -> Option<Vec<u32>> {
            let numbers = numbers.as_ref()?[first..first + rows].iter();
            Some(numbers.map(|number| number.load(Ordering::Relaxed)).collect())
        };
        let (positions, partitions) = (of_batch(&positions), of_batch(&partitions));
        columns.extend(results.iter().map(|values| {
            Arc::new(match values {
                Values::Positions(values) => match &positions {
                    Some(positions) => values.gather(positions),
                    None => values.slice(first, rows),
                },
                // All rows are one partition if they were not sorted.
                Values::Partitions(values) => match &partitions {
                    Some(partitions) => values.gather(partitions),
                    None => values.gather(&vec![0; rows]),
                },
            })
        }));
        (columns, rows)
    };
    RowSet { batches: batches.into_par_iter().zip(firsts).map(with_results).collect() }
}
