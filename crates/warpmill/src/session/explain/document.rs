//! The contents of EXPLAIN in one structure, which all formats show.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, displayable};
use serde::Serialize;
use warpmill_engine::{OperatorProfile, PipelineProfile, Placement, SiteDecision};
use warpmill_ir::Program;
use warpmill_ir::display::{Described, Step};
use warpmill_ir::pruning::PruningReport;

use super::{ExplainFormat, Parts, html, mermaid, text};
use crate::offload::{Fallback, WarpmillExec};
use crate::{Error, QueryProfile, Result};

/// The contents of EXPLAIN for a statement.
pub(super) struct Document {
    /// The logical plan, with VERBOSE.
    pub logical_plan: Option<String>,
    pub plan: PlanNode,
    /// Outermost first.
    pub programs: Vec<Arc<Program>>,
    /// The place of each program; empty with a profile, which has the actual places.
    pub placed: Vec<Placed>,
    pub pruned: Vec<Pruned>,
    pub fallbacks: Vec<Fallback>,
    /// The stages over workers, or the reason why there are none, as titles and texts.
    pub distribution: Vec<(String, String)>,
    /// Files that the CPU decodes although a device was requested, with reasons.
    pub notes: Vec<String>,
    /// The profile, with ANALYZE.
    pub profile: Option<Arc<QueryProfile>>,
}

/// DataFusion's plan, whose nodes may be programs.
#[derive(Debug, Serialize)]
pub(super) struct PlanNode {
    /// The node's name.
    pub operator: String,
    /// The node in one line.
    pub text: String,
    /// The program that the node runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<PlanNode>,
    /// The whole tree, indented; set for the root only.
    #[serde(skip)]
    pub indented: String,
}

impl PlanNode {
    pub fn of(plan: &Arc<dyn ExecutionPlan>, verbose: bool) -> Self {
        let indented = displayable(plan.as_ref()).indent(verbose).to_string();
        Self { indented, ..Self::node(plan, &mut 0) }
    }

    /// Numbers programs in the order of `programs`: outermost first.
    fn node(plan: &Arc<dyn ExecutionPlan>, programs: &mut usize) -> Self {
        let (operator, text) = (plan.name().to_string(), displayable(plan.as_ref()).one_line().to_string());
        let node = Self {
            operator,
            text: text.trim_end().to_string(),
            program: None,
            inputs: vec![],
            indented: String::new(),
        };
        let exec = plan.downcast_ref::<WarpmillExec>();
        if let Some(other) = exec.and_then(WarpmillExec::instead) {
            return Self { inputs: vec![Self::node(other, programs)], ..node };
        }
        let program = exec.map(|_| std::mem::replace(programs, *programs + 1));
        let inputs = plan.children().into_iter().map(|child| Self::node(child, programs)).collect();
        Self { program, inputs, ..node }
    }
}

/// The place where a program will run.
#[derive(Debug, Serialize)]
pub(super) struct Placed {
    /// `cpu`, `gpu` or `sim`.
    pub site: &'static str,
    /// In words.
    pub text: String,
    /// The sites that were considered.
    pub decisions: Vec<SiteDecision>,
    /// The reason why the requested device does not run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_on_device: Option<String>,
    /// The reason why sites do not share it, where sharing was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_shared: Option<String>,
    /// The strategy for fitting it into device memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// The streaming of data through device memory, and predicted times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Pipelines that the CPU runs although a device runs the program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pipelines_on_cpu: Vec<usize>,
    /// The pipeline that CPU and devices share, and its row segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<Shared>,
    /// The parts that run on several devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Shared {
    pub pipeline: usize,
    pub segments: usize,
    pub devices: usize,
}

impl From<Placement> for Placed {
    fn from(placement: Placement) -> Self {
        let text = placement.to_string();
        Self {
            site: placement.device,
            text,
            decisions: placement.decisions,
            not_on_device: placement.not_on_device,
            not_shared: placement.not_shared,
            strategy: placement.strategy.map(|strategy| strategy.to_string()),
            data: placement.path,
            pipelines_on_cpu: placement.on_host,
            shared: placement.shared.map(|shared| Shared {
                pipeline: shared.pipeline,
                segments: shared.segments,
                devices: shared.devices,
            }),
            parts: placement.parts,
        }
    }
}

/// The row segments, zones or partitions of a scan that metadata prune.
#[derive(Debug, Serialize)]
pub(super) struct Pruned {
    #[serde(skip)]
    pub program: usize,
    pub table: String,
    #[serde(flatten)]
    pub report: PruningReport,
}

/// A program as shown: with its place, and the measurements of its operators.
#[derive(Debug, Serialize)]
pub(super) struct ShownProgram<'a> {
    pub program: usize,
    /// `cpu`, `gpu` or `sim`; `None` where it did not run.
    pub site: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<&'a Placed>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pruning: Vec<&'a Pruned>,
    pub pipelines: Vec<ShownPipeline>,
    /// Its index in `profile.programs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<usize>,
}

#[derive(Debug, Serialize)]
pub(super) struct ShownPipeline {
    pub pipeline: usize,
    pub sink: usize,
    pub result: bool,
    pub operators: Vec<ShownStep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredPipeline>,
}

#[derive(Debug, Serialize)]
pub(super) struct MeasuredPipeline {
    pub workers: usize,
    pub wall_nanos: u64,
    pub finish_nanos: u64,
    /// Time of its kernels on a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_nanos: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct ShownStep {
    #[serde(flatten)]
    pub step: Step,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<OperatorProfile>,
}

#[derive(Serialize)]
struct Json<'a> {
    warpmill: &'static str,
    plan: &'a PlanNode,
    programs: Vec<ShownProgram<'a>>,
    run_by_datafusion: Vec<Refused<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    distribution: BTreeMap<&'a str, &'a str>,
    decoded_by_cpu: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    logical_plan: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<&'a QueryProfile>,
}

/// An operator that stays with DataFusion.
#[derive(Serialize)]
struct Refused<'a> {
    node: &'a str,
    operator: &'a str,
    reason: &'a str,
}

impl<'a> Refused<'a> {
    fn of(fallback: &'a Fallback) -> Self {
        Self { node: &fallback.node, operator: &fallback.operator, reason: &fallback.reason }
    }
}

impl Document {
    pub fn shown(&self, format: ExplainFormat) -> Result<String> {
        Ok(match format {
            ExplainFormat::Text => text(self.parts()),
            ExplainFormat::Json => self.json()?,
            ExplainFormat::Mermaid => mermaid::chart(self),
            ExplainFormat::Html => html::page(self),
        })
    }

    /// Titles and texts.
    pub fn parts(&self) -> Parts {
        let lines = |lines: Vec<String>| lines.join("\n");
        let mut parts = Parts::new();
        parts.extend(self.logical_plan.clone().map(|plan| ("logical plan".to_string(), plan)));
        parts.push(("physical plan".to_string(), self.plan.indented.clone()));
        let numbered = self.programs.iter().enumerate();
        parts.extend(numbered.map(|(i, program)| (format!("program {i}"), program.to_string())));
        if !self.fallbacks.is_empty() {
            let fallbacks = self.fallbacks.iter().map(ToString::to_string).collect();
            parts.push(("run by DataFusion".to_string(), lines(fallbacks)));
        }
        parts.extend(self.distribution.iter().cloned());
        if !self.placed.is_empty() {
            let placed = self.placed.iter().enumerate().map(|(i, placed)| format!("program {i}: {}", placed.text));
            parts.push(("runs on".to_string(), lines(placed.collect())));
        }
        if !self.pruned.is_empty() {
            let pruned = self
                .pruned
                .iter()
                .map(|Pruned { program, table, report }| format!("program {program}, {table}: {report}"));
            parts.push(("pruning".to_string(), lines(pruned.collect())));
        }
        if self.profile.is_none() && !self.notes.is_empty() {
            parts.push(("decoded by the CPU".to_string(), self.notes.join("\n")));
        }
        parts.extend(self.profile.as_ref().map(|profile| ("profile".to_string(), profile.to_string())));
        parts
    }

    fn json(&self) -> Result<String> {
        let json = Json {
            warpmill: env!("CARGO_PKG_VERSION"),
            plan: &self.plan,
            programs: self.shown_programs(),
            run_by_datafusion: self.fallbacks.iter().map(Refused::of).collect(),
            distribution: self.distribution.iter().map(|(title, text)| (title.as_str(), text.as_str())).collect(),
            decoded_by_cpu: &self.notes,
            logical_plan: self.logical_plan.as_deref(),
            profile: self.profile.as_deref(),
        };
        serde_json::to_string_pretty(&json).map_err(|error| Error::Internal(error.to_string()))
    }

    /// The programs with their places and measurements.
    pub fn shown_programs(&self) -> Vec<ShownProgram<'_>> {
        let runs = self.profile.as_ref().map_or(&[][..], |profile| &profile.programs);
        let mut free: Vec<usize> = (0..runs.len()).collect();
        let shown = |(number, program): (usize, &Arc<Program>)| {
            let described = program.described();
            // Programs end in another order than they are nested in.
            let run = free.iter().position(|&run| fits(&described, &runs[run].pipelines)).map(|at| free.remove(at));
            let placement = self.placed.get(number);
            let site = run.map(|run| runs[run].device).or(placement.map(|placed| placed.site));
            let pipelines = described.into_iter().map(|described| {
                let measured = run.map(|run| {
                    let profile = runs[run].pipelines.get(described.pipeline);
                    let kernels = runs[run].on_device.as_ref().map(|device| {
                        let own = device.kernels.iter().filter(|kernel| kernel.pipeline == described.pipeline);
                        own.map(|kernel| kernel.nanos).sum()
                    });
                    (profile.filter(|profile| profile.workers > 0), kernels)
                });
                shown_pipeline(described, measured)
            });
            let pipelines = pipelines.collect();
            let pruning = self.pruned.iter().filter(|pruned| pruned.program == number).collect();
            ShownProgram { program: number, site, placement, pruning, pipelines, run }
        };
        self.programs.iter().enumerate().map(shown).collect()
    }
}

/// The measured stages that correspond to a pipeline's steps: without those that combine small chunks.
fn stages(profile: &PipelineProfile) -> impl Iterator<Item = &OperatorProfile> {
    profile.operators.iter().filter(|operator| !operator.name.starts_with("Compaction"))
}

/// Whether `run` may belong to a program with these pipelines.
fn fits(program: &[Described], run: &[PipelineProfile]) -> bool {
    let fits = |described: &Described, profile: &PipelineProfile| {
        let (mut stages, steps) = (stages(profile), described.steps.len());
        let first = stages.next();
        let table = described.steps.first().and_then(|step| step.table.as_deref());
        let is_same = first.is_none_or(|stage| table.is_none_or(|table| stage.name.ends_with(table)));
        is_same && (first.is_none() || stages.count() + 1 == steps || profile.workers == 0)
    };
    run.len() <= program.len() && program.iter().zip(run).all(|(described, profile)| fits(described, profile))
}

fn shown_pipeline(
    Described { pipeline, sink, result, steps }: Described,
    measured: Option<(Option<&PipelineProfile>, Option<u64>)>,
) -> ShownPipeline {
    let profile = measured.and_then(|(profile, _)| profile);
    let kernel_nanos = measured.and_then(|(_, kernels)| kernels).filter(|&nanos| nanos > 0);
    let stages: Vec<&OperatorProfile> = profile.map(|profile| stages(profile).collect()).unwrap_or_default();
    let is_whole = stages.len() == steps.len();
    let step = |(i, step): (usize, Step)| {
        let stage = stages.get(i).copied().filter(|_| is_whole);
        ShownStep { step, measured: stage.cloned() }
    };
    let operators = steps.into_iter().enumerate().map(step).collect();
    let measured = (profile.is_some() || kernel_nanos.is_some()).then(|| MeasuredPipeline {
        workers: profile.map_or(0, |profile| profile.workers),
        wall_nanos: profile.map_or(0, |profile| profile.wall_nanos),
        finish_nanos: profile.map_or(0, |profile| profile.finish_nanos),
        kernel_nanos,
    });
    ShownPipeline { pipeline, sink, result, operators, measured }
}
