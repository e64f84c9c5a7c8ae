//! The simple streaming operators: filter, project, limit.

mod limit;

use std::any::Any;
use std::sync::Arc;

use warpmill_ir::{Expr, Field, Phys};

use crate::chunk::Chunk;
use crate::context::{QueryContext, Result, Worker};
use crate::expr::PreparedExpr;
use crate::operator::{Emit, LocalOperator, Operator};

pub use limit::LimitOperator;

/// Keeps the rows for which a predicate is true.
pub struct FilterOperator {
    predicate: Arc<PreparedExpr>,
    text: String,
}

impl FilterOperator {
    /// A filter on `predicate` over the input's columns.
    pub fn new(predicate: &Expr) -> Result<Self> {
        Ok(Self { predicate: Arc::new(PreparedExpr::new(predicate)?), text: predicate.to_string() })
    }
}

impl Operator for FilterOperator {
    fn into_kept(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }

    fn name(&self) -> String {
        format!("Filter {}", self.text)
    }

    fn local(&self, query: &Arc<QueryContext>) -> Box<dyn LocalOperator> {
        Box::new(LocalFilter { predicate: self.predicate.clone(), worker: Worker::new(&query.memory) })
    }
}

struct LocalFilter {
    predicate: Arc<PreparedExpr>,
    worker: Worker,
}

impl LocalOperator for LocalFilter {
    fn process(&mut self, mut chunk: Chunk, emit: Emit<'_>) -> Result<()> {
        if let Some(rows) = self.predicate.select(&chunk, &mut self.worker)? {
            chunk.select(&rows);
        }
        self.worker.forget_texts();
        if chunk.is_empty() { Ok(()) } else { emit(chunk) }
    }

    fn holds_rows(&self) -> bool {
        false
    }
}

/// Computes output columns; plain column references stay zero-copy.
pub struct ProjectOperator {
    outputs: Arc<Vec<Output>>,
    text: String,
}

enum Output {
    Column(usize),
    Computed(Box<PreparedExpr>),
}

impl ProjectOperator {
    /// A projection to `list`, over the input's columns.
    pub fn new(list: &[(Field, Expr)]) -> Result<Self> {
        let outputs = list
            .iter()
            .map(|(_, expr)| match expr.kind {
                warpmill_ir::ExprKind::Column(index) => Ok(Output::Column(index)),
                _ => PreparedExpr::new(expr).map(|expr| Output::Computed(Box::new(expr))),
            })
            .collect::<Result<_>>()?;
        let text = list.iter().map(|(_, expr)| expr.to_string()).collect::<Vec<_>>().join(", ");
        Ok(Self { outputs: Arc::new(outputs), text })
    }
}

impl Operator for ProjectOperator {
    fn into_kept(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }

    fn name(&self) -> String {
        format!("Project {}", self.text)
    }

    fn local(&self, query: &Arc<QueryContext>) -> Box<dyn LocalOperator> {
        Box::new(LocalProject { outputs: self.outputs.clone(), worker: Worker::new(&query.memory), forgets: false })
    }
}

struct LocalProject {
    outputs: Arc<Vec<Output>>,
    worker: Worker,
    /// Whether the strings of a chunk may be freed once it is emitted.
    forgets: bool,
}

impl LocalOperator for LocalProject {
    fn process(&mut self, chunk: Chunk, emit: Emit<'_>) -> Result<()> {
        let mut computed = Vec::new();
        for output in self.outputs.iter() {
            if let Output::Computed(expr) = output {
                computed.push(expr.eval(&chunk, &mut self.worker)?);
            }
        }
        let mut computed = computed.into_iter();
        let chunk = chunk.rebuild(self.outputs.iter().map(|output| match output {
            Output::Column(index) => Err(*index),
            Output::Computed(_) => Ok(computed.next().expect("one vector per computed output")),
        }));
        emit(chunk)?;
        if self.forgets {
            self.worker.forget_texts();
        }
        Ok(())
    }

    fn made_texts(&self) -> Vec<usize> {
        let makes = |output: &Output| matches!(output, Output::Computed(expr) if expr.phys() == Phys::Str);
        let outputs = self.outputs.iter().enumerate();
        outputs.filter(|(_, output)| makes(output)).map(|(column, _)| column).collect()
    }

    fn forget_texts(&mut self) {
        self.forgets = true;
    }

    fn holds_rows(&self) -> bool {
        false
    }
}
