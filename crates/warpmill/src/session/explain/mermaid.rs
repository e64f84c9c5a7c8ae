//! Plans as Mermaid flowcharts, which many editors, forges and notebooks draw.

use std::fmt::Write;

use super::document::{Document, PlanNode, ShownPipeline, ShownProgram, ShownStep};

/// The most characters of a node's label.
const MOST: usize = 100;

/// Rows flow upwards: sources are at the bottom, the result is at the top.
pub(super) fn chart(document: &Document) -> String {
    let mut chart = "flowchart BT\n".to_string();
    let programs = document.shown_programs();
    for program in &programs {
        subgraph(&mut chart, program);
    }
    tree(&mut chart, &document.plan, &mut 0, &programs);
    chart
}

fn subgraph(chart: &mut String, program: &ShownProgram<'_>) {
    let (number, site) = (program.program, program.site.unwrap_or("?"));
    line(chart, format_args!("  subgraph program{number}[\"program {number} on {site}\"]"));
    for pipeline in &program.pipelines {
        let title = match &pipeline.measured {
            Some(measured) => {
                let nanos = measured.kernel_nanos.unwrap_or(measured.wall_nanos + measured.finish_nanos);
                format!("pipeline {}, {:.1} ms", pipeline.pipeline, nanos as f64 / 1e6)
            }
            None => format!("pipeline {}", pipeline.pipeline),
        };
        line(chart, format_args!("    subgraph program{number}pipeline{}[\"{title}\"]", pipeline.pipeline));
        for (i, step) in pipeline.operators.iter().enumerate() {
            line(chart, format_args!("      {}[\"{}\"]", node(number, pipeline, i), label(step)));
            if i > 0 {
                line(chart, format_args!("      {} --> {}", node(number, pipeline, i - 1), node(number, pipeline, i)));
            }
        }
        line(chart, format_args!("    end"));
    }
    for reader in &program.pipelines {
        for (i, step) in reader.operators.iter().enumerate() {
            for sink in &step.step.reads {
                for feeder in program.pipelines.iter().filter(|pipeline| pipeline.sink == *sink) {
                    let (from, to) = (node(number, feeder, feeder.operators.len() - 1), node(number, reader, i));
                    // Keys that prune a scan are no rows that it reads.
                    let arrow = if step.step.operator == "scan" { "-.->" } else { "-->" };
                    line(chart, format_args!("    {from} {arrow} {to}"));
                }
            }
        }
    }
    line(chart, format_args!("  end"));
}

/// Writes the nodes of DataFusion's plan; returns the name of `plan`'s node.
fn tree(chart: &mut String, plan: &PlanNode, next: &mut usize, programs: &[ShownProgram<'_>]) -> Option<String> {
    let inputs: Vec<_> = plan.inputs.iter().filter_map(|input| tree(chart, input, next, programs)).collect();
    if let Some(program) = plan.program.and_then(|number| programs.get(number)) {
        for (input, from) in inputs.iter().enumerate() {
            let reads = |step: &ShownStep| step.step.text.starts_with(&format!("input {input} "));
            let reader = program.pipelines.iter().find(|pipeline| pipeline.operators.first().is_some_and(reads));
            if let Some(reader) = reader {
                line(chart, format_args!("  {from} --> {}", node(program.program, reader, 0)));
            }
        }
        let result = program.pipelines.iter().rfind(|pipeline| pipeline.result)?;
        return Some(node(program.program, result, result.operators.len() - 1));
    }
    let name = format!("node{next}");
    *next += 1;
    line(chart, format_args!("  {name}[\"DataFusion: {}\"]", escaped(&plan.text)));
    for input in inputs {
        line(chart, format_args!("  {input} --> {name}"));
    }
    Some(name)
}

fn node(program: usize, pipeline: &ShownPipeline, step: usize) -> String {
    format!("p{program}_{}_{step}", pipeline.pipeline)
}

fn label(step: &ShownStep) -> String {
    let text = escaped(&step.step.text);
    match &step.measured {
        Some(measured) => format!("{text}<br/>{} rows, {:.1} ms", measured.rows, measured.nanos as f64 / 1e6),
        None => text,
    }
}

/// Escapes text within a quoted label.
fn escaped(text: &str) -> String {
    let mut short: String = text.chars().take(MOST).collect();
    if text.chars().count() > MOST {
        short.push('…');
    }
    short.replace('#', "#35;").replace('"', "#quot;").replace('<', "#lt;").replace('>', "#gt;").replace('\n', " ")
}

fn line(chart: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(chart, "{text}");
}
