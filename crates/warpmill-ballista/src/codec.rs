//! Nodes of jobs as bytes.

use std::sync::Arc;

use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{AsExecutionPlan, PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use datafusion_proto::protobuf;
use prost::Message;
use warpmill_translate::codec::ScanCodec;
use warpmill_translate::scan_exec::WarpmillScanExec;

use crate::plan::{InputKind, PartsExec, TaskExec};

/// Encodes and decodes Warpmill's nodes, and Ballista's.
#[derive(Debug, Default)]
pub(crate) struct JobCodec {
    ballista: BallistaPhysicalExtensionCodec,
}

/// The first bytes of Warpmill's nodes. Ballista's are Protobuf messages, which never begin with a zero.
const OWN: &[u8] = b"\0warpmill";

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(oneof = "NodeKind", tags = "1, 2, 3")]
    kind: Option<NodeKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum NodeKind {
    #[prost(message, tag = "1")]
    Task(TaskNode),
    /// The leaves of [`PartsExec`].
    #[prost(message, tag = "2")]
    Parts(PartsNode),
    /// A scan, encoded by [`ScanCodec`].
    #[prost(bytes, tag = "3")]
    Scan(Vec<u8>),
}

#[derive(Clone, PartialEq, Message)]
struct TaskNode {
    #[prost(bytes = "vec", tag = "1")]
    task: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    schema: Option<protobuf::Schema>,
    #[prost(enumeration = "InputKind", repeated, tag = "3")]
    kinds: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct PartsNode {
    #[prost(message, repeated, tag = "1")]
    parts: Vec<protobuf::PhysicalPlanNode>,
}

impl PhysicalExtensionCodec for JobCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(own) = bytes.strip_prefix(OWN) else {
            return self.ballista.try_decode(bytes, inputs, context, converter);
        };
        match Node::decode(own).map_err(|error| broken(&error))?.kind {
            Some(NodeKind::Task(task)) => Ok(Arc::new(task.decoded(inputs)?)),
            Some(NodeKind::Parts(node)) => {
                let parts = node.parts.iter().map(|part| part.try_into_physical_plan(context, self));
                let parts = parts.collect::<Result<Vec<_>>>()?;
                match inputs {
                    [numbers] if !parts.is_empty() => Ok(Arc::new(PartsExec::new(Arc::clone(numbers), parts))),
                    _ => Err(broken(&"parts without numbers")),
                }
            }
            Some(NodeKind::Scan(scan)) => ScanCodec.try_decode(&scan, inputs, context, converter),
            None => Err(broken(&"an unknown node")),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let kind = if let Some(task) = node.downcast_ref::<TaskExec>() {
            NodeKind::Task(TaskNode::of(task)?)
        } else if let Some(node) = node.downcast_ref::<PartsExec>() {
            let part = |part: &Arc<dyn ExecutionPlan>| {
                protobuf::PhysicalPlanNode::try_from_physical_plan(Arc::clone(part), self)
            };
            NodeKind::Parts(PartsNode { parts: node.parts().iter().map(part).collect::<Result<_>>()? })
        } else if node.is::<WarpmillScanExec>() {
            let mut scan = vec![];
            ScanCodec.try_encode(node, &mut scan, converter)?;
            NodeKind::Scan(scan)
        } else {
            return self.ballista.try_encode(node, bytes, converter);
        };
        bytes.extend_from_slice(OWN);
        Node { kind: Some(kind) }.encode(bytes).map_err(|error| broken(&error))
    }
}

impl TaskNode {
    fn of(task: &TaskExec) -> Result<Self> {
        Ok(Self {
            task: task.task().to_vec(),
            schema: Some(task.schema().as_ref().try_into()?),
            kinds: task.kinds().iter().map(|&kind| kind.into()).collect(),
        })
    }

    fn decoded(self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<TaskExec> {
        let kinds = self.kinds.iter().map(|&kind| InputKind::try_from(kind)).collect::<Result<Vec<_>, _>>();
        let kinds = kinds.map_err(|error| broken(&error))?;
        let schema: arrow::datatypes::Schema = match &self.schema {
            Some(schema) if kinds.len() == inputs.len() => schema.try_into()?,
            _ => return Err(broken(&"a task whose inputs are not there")),
        };
        Ok(TaskExec::new(self.task.into(), Arc::new(schema), kinds, inputs.to_vec()))
    }
}

fn broken(reason: &dyn std::fmt::Display) -> datafusion::common::DataFusionError {
    exec_datafusion_err!("this is no part of a job in bytes: {reason}")
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use ballista_scheduler::state::task_builder::restrict_plan_to_partitions;
    use datafusion::physical_plan::ExecutionPlanProperties;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::prelude::SessionContext;
    use datafusion_proto::bytes::{
        physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec,
    };
    use warpmill_distributed::stages::{Exchange, Input, Stage, TaskInput};

    use super::*;
    use crate::plan;

    fn leaf(name: &str) -> Arc<dyn ExecutionPlan> {
        Arc::new(EmptyExec::new(Arc::new(Schema::new(vec![Field::new(name, DataType::Int64, true)]))))
    }

    fn there_and_back(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let codec = JobCodec::default();
        let bytes = physical_plan_to_bytes_with_extension_codec(plan, &codec).unwrap();
        physical_plan_from_bytes_with_extension_codec(&bytes, &SessionContext::new().task_ctx(), &codec).unwrap()
    }

    #[test]
    fn a_task_has_its_own_part_of_a_leaf() {
        let parts = vec![leaf("a"), leaf("b"), leaf("c")];
        let inputs = vec![Input::Whole(leaf("w")), Input::Parts(parts)];
        let stage = Stage { task: b"task".as_slice().into(), schema: leaf("x").schema(), spread: true, inputs };
        let job = plan::job(stage, 3).unwrap();
        assert_eq!(job.output_partitioning().partition_count(), 3);
        for (task, name) in ["a", "b", "c"].into_iter().enumerate() {
            let sent = restrict_plan_to_partitions(Arc::clone(&job), &[task]).unwrap();
            let sent = there_and_back(sent);
            assert_eq!((sent.schema(), sent.output_partitioning().partition_count()), (leaf("x").schema(), 1));
            let node = sent.downcast_ref::<TaskExec>().unwrap();
            assert_eq!(
                (node.task(), node.kinds()),
                (b"task".as_slice(), [InputKind::Whole, InputKind::Part].as_slice())
            );
            let inputs = node.task_inputs().unwrap();
            let names = inputs.iter().map(|input| match input {
                TaskInput::Leaf(leaf) => leaf.schema().field(0).name().clone(),
                TaskInput::Rows(_) => panic!("a leaf is no exchange"),
            });
            assert_eq!(names.collect::<Vec<_>>(), ["w", name]);
        }
    }

    #[test]
    fn a_stage_over_all_rows_has_one_task() {
        let below = Stage {
            task: b"below".as_slice().into(),
            schema: leaf("x").schema(),
            spread: true,
            inputs: vec![Input::Parts(vec![leaf("a"), leaf("b")])],
        };
        let inputs = vec![Input::Rows(Box::new(below), Exchange::Gather)];
        let stage = Stage { task: b"task".as_slice().into(), schema: leaf("y").schema(), spread: false, inputs };
        let job = there_and_back(plan::job(stage, 2).unwrap());
        assert_eq!(job.output_partitioning().partition_count(), 1);
        // The partitions of the stage below are kept apart.
        let inputs = job.downcast_ref::<TaskExec>().unwrap().task_inputs().unwrap();
        let [TaskInput::Rows(rows)] = inputs.as_slice() else { panic!("{inputs:?}") };
        assert_eq!(rows.output_partitioning().partition_count(), 2);
    }

    #[test]
    fn broken_bytes_are_refused() {
        let codec = JobCodec::default();
        let context = SessionContext::new().task_ctx();
        let converter = datafusion_proto::physical_plan::DefaultPhysicalProtoConverter {};
        for bytes in [b"\0warpmill".as_slice(), b"\0warpmill\x0a\x01", b"\0warpmillrubbish", b""] {
            assert!(codec.try_decode(bytes, &[], &context, &converter).is_err(), "{bytes:?}");
        }
    }
}
