//! Plans as pages of HTML that need nothing else: the tree of operators, results on top.

use std::collections::HashSet;
use std::fmt::Write;

use super::document::{Document, PlanNode, ShownPipeline, ShownProgram, ShownStep};

const STYLE: &str = include_str!("plan.css");

/// The plan as one element with its style, within a page.
pub(super) fn page(document: &Document) -> String {
    let mut html =
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Plan</title></head>\n<body>\n"
            .to_string();
    add(&mut html, format_args!("<div class=\"warpmill-plan\"><style>{STYLE}</style>\n"));
    if let Some(profile) = &document.profile {
        let ms = |nanos: u64| nanos as f64 / 1e6;
        let (planning, execution) = (ms(profile.planning_nanos), ms(profile.execution_nanos));
        let bytes = profile.bytes_read;
        add(
            &mut html,
            format_args!("<p>planning {planning:.3} ms, execution {execution:.3} ms, {bytes} bytes read</p>\n"),
        );
    }
    let programs = document.shown_programs();
    html.push_str("<ul>");
    node(&mut html, &document.plan, &programs);
    html.push_str("</ul>\n");
    notes(&mut html, document, &programs);
    html.push_str("</div>\n</body></html>\n");
    html
}

/// Writes a node of DataFusion's plan, or the program that it runs.
fn node(html: &mut String, plan: &PlanNode, programs: &[ShownProgram<'_>]) {
    let Some(program) = plan.program.and_then(|number| programs.get(number)) else {
        add(
            html,
            format_args!("<li><span class=\"step other\"><b>{}</b> {}</span><ul>", escaped(&plan.operator), rest(plan)),
        );
        plan.inputs.iter().for_each(|input| node(html, input, programs));
        html.push_str("</ul></li>\n");
        return;
    };
    let site = program.site.unwrap_or("nowhere yet");
    let open =
        format_args!("<li class=\"program\"><span class=\"title\">program {} on {site}</span><ul>", program.program);
    add(html, open);
    let most = program.pipelines.iter().flat_map(|pipeline| &pipeline.operators).map(nanos).max().unwrap_or_default();
    let mut tree = Tree { program, inputs: &plan.inputs, programs, most: most.max(1), shown: HashSet::new() };
    for pipeline in program.pipelines.iter().filter(|pipeline| pipeline.result) {
        tree.pipeline(html, pipeline);
    }
    html.push_str("</ul></li>\n");
}

/// The text of a node after its name.
fn rest(plan: &PlanNode) -> String {
    escaped(plan.text.strip_prefix(&plan.operator).unwrap_or(&plan.text).trim_start_matches(':').trim_start())
}

struct Tree<'a> {
    program: &'a ShownProgram<'a>,
    /// The plans whose rows it reads.
    inputs: &'a [PlanNode],
    programs: &'a [ShownProgram<'a>],
    /// Time of the slowest operator.
    most: u64,
    /// Pipelines that are in the page already.
    shown: HashSet<usize>,
}

impl Tree<'_> {
    /// Writes the steps of a pipeline, the last first, each with the pipelines that it reads.
    fn pipeline(&mut self, html: &mut String, pipeline: &ShownPipeline) {
        if !self.shown.insert(pipeline.pipeline) {
            add(html, format_args!("<li><span class=\"again\">pipeline {}, as above</span></li>\n", pipeline.pipeline));
            return;
        }
        let program = self.program;
        for (i, step) in pipeline.operators.iter().enumerate().rev() {
            let title = if i + 1 == pipeline.operators.len() { label(pipeline) } else { String::new() };
            html.push_str("<li>");
            self.step(html, step, &title);
            html.push_str("<ul>");
            // Keys that prune a scan are no rows that it reads.
            let reads = if step.step.operator == "scan" { &[][..] } else { &step.step.reads };
            for feeder in program.pipelines.iter().filter(|feeder| reads.contains(&feeder.sink)) {
                self.pipeline(html, feeder);
            }
            let input = step.step.text.strip_prefix("input ").and_then(|rest| rest.split(' ').next()?.parse().ok());
            if let Some(input) = input.and_then(|input: usize| self.inputs.get(input)) {
                node(html, input, self.programs);
            }
        }
        html.push_str(&"</ul></li>\n".repeat(pipeline.operators.len()));
    }

    fn step(&self, html: &mut String, step: &ShownStep, title: &str) {
        let text = step.step.text.strip_prefix(step.step.operator).unwrap_or(&step.step.text);
        let (name, text) = (escaped(step.step.operator), escaped(text.trim_start()));
        add(html, format_args!("<span class=\"step\" title=\"{title}\"><b>{name}</b> {text}"));
        if let Some(measured) = &step.measured {
            let (ms, part) = (measured.nanos as f64 / 1e6, 100 * measured.nanos / self.most);
            add(html, format_args!("<i>{} rows, {ms:.3} ms</i><s style=\"width:{part}%\"></s>", measured.rows));
        }
        html.push_str("</span>");
    }
}

fn nanos(step: &ShownStep) -> u64 {
    step.measured.as_ref().map_or(0, |measured| measured.nanos)
}

fn label(pipeline: &ShownPipeline) -> String {
    let ms = |nanos: u64| nanos as f64 / 1e6;
    match &pipeline.measured {
        Some(measured) => {
            let kernels =
                measured.kernel_nanos.map_or(String::new(), |nanos| format!(", {:.3} ms in kernels", ms(nanos)));
            format!(
                "pipeline {}: {:.3} ms on {} worker(s){kernels}",
                pipeline.pipeline,
                ms(measured.wall_nanos),
                measured.workers
            )
        }
        None => format!("pipeline {}", pipeline.pipeline),
    }
}

/// Writes places, pruning and fallbacks, with reasons.
fn notes(html: &mut String, document: &Document, programs: &[ShownProgram<'_>]) {
    let mut notes = Vec::new();
    for program in programs {
        let number = program.program;
        if let Some(placed) = program.placement {
            notes.push(format!("program {number} runs on {}", placed.text));
            let considered = placed.decisions.iter().map(|decision| {
                let runs = if decision.chosen { "runs it" } else { "does not run it" };
                format!("program {number}: {} {runs}: {}", decision.site, decision.reason)
            });
            notes.extend(considered);
        }
        notes.extend(
            program.pruning.iter().map(|pruned| format!("program {number}, {}: {}", pruned.table, pruned.report)),
        );
    }
    notes.extend(document.fallbacks.iter().map(|fallback| format!("run by DataFusion: {fallback}")));
    notes.extend(document.distribution.iter().map(|(title, text)| format!("{title}: {text}")));
    notes.extend(document.notes.iter().map(|note| format!("decoded by the CPU: {note}")));
    if let Some(profile) = &document.profile {
        let reasons = profile.programs.iter().filter_map(|run| run.not_on_device.as_ref());
        notes.extend(reasons.map(|reason| format!("not on the device: {reason}")));
    }
    if notes.is_empty() {
        return;
    }
    html.push_str("<ol>");
    notes.iter().for_each(|note| add(html, format_args!("<li>{}</li>", escaped(note))));
    html.push_str("</ol>\n");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn add(html: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = html.write_fmt(text);
}
