//! Tasks as bytes.

use std::sync::Arc;

use datafusion::common::{Result, exec_datafusion_err, not_impl_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_proto_converter, physical_plan_to_bytes_with_proto_converter,
};
use datafusion_proto::physical_plan::{
    DeduplicatingProtoConverter, PhysicalExtensionCodec, PhysicalProtoConverterExtension,
};
use warpmill_translate::any_rows::AnyRowsExec;
use warpmill_translate::codec::ScanCodec;

use super::{InputExec, KeptTasks, TaskExec, functions};
use crate::cluster::AGGREGATES_OF_TYPES;

/// Encodes and decodes [`TaskExec`]s and scans.
#[derive(Debug)]
pub(crate) enum TaskCodec {
    /// The process that sends a task checks that a worker can read it.
    Asking,
    /// A worker.
    Worker(Arc<KeptTasks>),
}

/// The first byte of a task; scans begin with a brace.
const TASK: u8 = b'T';

impl PhysicalExtensionCodec for TaskCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some((&TASK, bytes)) = bytes.split_first() else {
            return ScanCodec.try_decode(bytes, inputs, context, converter);
        };
        let plan = match self {
            Self::Asking => decode_apart(bytes, inputs, context)?,
            Self::Worker(kept) => kept.plan(bytes, inputs, context)?,
        };
        Ok(Arc::new(TaskExec { plan, bytes: bytes.into(), inputs: inputs.to_vec() }))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(task) = node.downcast_ref::<TaskExec>() else {
            return ScanCodec.try_encode(node, bytes, converter);
        };
        bytes.push(TASK);
        bytes.extend_from_slice(&task.bytes);
        Ok(())
    }

    fn try_encode_udf(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        functions::encode(function, bytes)
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        functions::decode(name, bytes)
    }
}

/// Serializes `plan`, which has [`InputExec`]s.
pub(super) fn encode_apart(plan: Arc<dyn ExecutionPlan>) -> Result<Vec<u8>> {
    let codec = InputCodec(vec![]);
    let bytes = physical_plan_to_bytes_with_proto_converter(plan, &codec, &DeduplicatingProtoConverter::default())?;
    Ok(bytes.to_vec())
}

/// Deserializes a plan of [`encode_apart`], with `inputs` inserted.
pub(crate) fn decode_apart(
    bytes: &[u8],
    inputs: &[Arc<dyn ExecutionPlan>],
    context: &TaskContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    let codec = InputCodec(inputs.to_vec());
    physical_plan_from_bytes_with_proto_converter(bytes, context, &codec, &DeduplicatingProtoConverter::default())
}

/// Encodes inputs as indices, and decodes indices to these inputs; [`AnyRowsExec`] as nothing; aggregate functions of types by the names that all processes have for them
/// ([`AGGREGATES_OF_TYPES`]), others as DataFusion does, by their own names.
#[derive(Debug)]
struct InputCodec(Vec<Arc<dyn ExecutionPlan>>);

impl PhysicalExtensionCodec for InputCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        children: &[Arc<dyn ExecutionPlan>],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let ([], [child]) = (bytes, children) {
            return Ok(Arc::new(AnyRowsExec::new(Arc::clone(child))));
        }
        let number = bytes.try_into().ok().map(u32::from_le_bytes);
        let input = number.and_then(|number| self.0.get(number as usize));
        input.cloned().ok_or_else(|| exec_datafusion_err!("a task's plan names an input that it has not"))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if node.is::<AnyRowsExec>() {
            return Ok(());
        }
        let Some(input) = node.downcast_ref::<InputExec>() else {
            return not_impl_err!("{} runs in this process only", node.name());
        };
        let number = u32::try_from(input.number).map_err(|_| exec_datafusion_err!("a task has too many inputs"))?;
        bytes.extend_from_slice(&number.to_le_bytes());
        Ok(())
    }

    fn try_encode_udf(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        functions::encode(function, bytes)
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        functions::decode(name, bytes)
    }

    fn try_encode_udaf(&self, function: &AggregateUDF, bytes: &mut Vec<u8>) -> Result<()> {
        if let Some((name, _)) = AGGREGATES_OF_TYPES.iter().find(|(_, known)| **known == *function) {
            bytes.extend_from_slice(name.as_bytes());
        }
        Ok(())
    }

    fn try_decode_udaf(&self, name: &str, bytes: &[u8]) -> Result<Arc<AggregateUDF>> {
        let known = AGGREGATES_OF_TYPES.iter().find(|(known, _)| known.as_bytes() == bytes);
        known.map(|(_, function)| Arc::clone(function)).ok_or_else(|| exec_datafusion_err!("no {name} is called so"))
    }
}
