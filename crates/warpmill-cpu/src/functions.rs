//! Functions of groups, which this back end does not run: the host calls them in its own operators.

use std::any::Any;
use std::sync::Arc;

use crate::chunk::Chunk;
use crate::context::{ExecError, QueryContext, Result};
use crate::operator::{LocalSink, Sink, SinkOutput};

/// The sink of [`warpmill_ir::Sink::Functions`], which refuses all rows: either a device has run it, or the program fails.
pub struct FunctionsSink;

struct LocalFunctions;

fn refused() -> ExecError {
    ExecError::NeedsHost { given_up: false }
}

impl Sink for FunctionsSink {
    fn name(&self) -> String {
        "Functions".into()
    }

    fn local(&self, _: &Arc<QueryContext>) -> Box<dyn LocalSink> {
        Box::new(LocalFunctions)
    }

    fn finish(&self, _: Vec<Box<dyn LocalSink>>, _: &Arc<QueryContext>, _: &rayon::ThreadPool) -> Result<SinkOutput> {
        Err(refused())
    }
}

impl LocalSink for LocalFunctions {
    fn consume(&mut self, _: Chunk) -> Result<()> {
        Err(refused())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}
