//! Removes unused columns: from scans, projections, probes' outputs and hash builds' payloads.
//!
//! A backward pass finds the columns needed at every point: since readers follow their sinks in the program, it visits a sink after all its readers.
//! A forward pass then rewrites every operator to the remaining columns.

use crate::{AggregateExpr, Expr, Field, Operator, Pipeline, Program, Sink, SinkId, Source};

/// For each column, whether it is needed.
type Needed = Vec<bool>;

/// Removes unused columns from `program`.
pub fn keep_needed_columns(program: &mut Program) {
    let Program { pipelines, sinks, .. } = program;
    let mut outputs: Vec<Needed> = sinks.iter().map(|sink| vec![false; sink.fields().len()]).collect();
    if let Some(result) = outputs.last_mut() {
        result.fill(true);
    }
    for (output, sink) in outputs.iter_mut().zip(sinks.iter()) {
        match sink {
            // The key columns stay among a sort's own columns.
            Sink::Sort { keys, .. } => keys.iter().for_each(|key| read(&key.expr, output)),
            Sink::Aggregate { .. } | Sink::Functions { .. } => output.fill(true),
            Sink::HashBuild { .. } | Sink::Window { .. } | Sink::Collect { .. } => {}
        }
    }
    let mut needs: Vec<Vec<Needed>> = Vec::with_capacity(pipelines.len());
    for pipeline in pipelines.iter().rev() {
        needs.push(needed_by(pipeline, &sinks[pipeline.sink], &mut outputs));
    }
    needs.reverse();
    let feeders = |sink: SinkId, pipelines: &[Pipeline]| pipelines.iter().filter(|p| p.sink == sink).count();
    let shared: Vec<bool> = (0..sinks.len()).map(|sink| feeders(sink, pipelines) > 1).collect();
    let mut rewritten = vec![false; sinks.len()];
    for (pipeline, needs) in pipelines.iter_mut().zip(needs) {
        let mut rewrite = Rewrite::source(&mut pipeline.source, &needs[0], &outputs);
        for (operator, after) in pipeline.operators.iter_mut().zip(&needs[2..]) {
            rewrite.operator(operator, after, &outputs);
        }
        let exact = matches!(sinks[pipeline.sink], Sink::Sort { .. } | Sink::Collect { .. });
        if exact || shared[pipeline.sink] {
            rewrite.select(pipeline, needs.last().map_or(&[][..], |end| end));
        }
        if !std::mem::replace(&mut rewritten[pipeline.sink], true) {
            rewrite.sink(&mut sinks[pipeline.sink], &outputs[pipeline.sink]);
        }
    }
}

fn read(expr: &Expr, needed: &mut Needed) {
    expr.visit_columns(&mut |column| needed[column] = true);
}

/// The columns needed in the source, after it, and after each operator. Adds the columns of finished sinks that the pipeline reads to `outputs`.
fn needed_by(pipeline: &Pipeline, sink: &Sink, outputs: &mut [Needed]) -> Vec<Needed> {
    let mut lengths = vec![pipeline.source.fields().len()];
    for operator in &pipeline.operators {
        lengths.push(match operator {
            Operator::Project(list) => list.len(),
            Operator::Probe(probe) => probe.fields.len(),
            Operator::Filter(_) | Operator::Limit { .. } => lengths[lengths.len() - 1],
        });
    }
    let mut needed = vec![false; lengths[lengths.len() - 1]];
    match sink {
        Sink::HashBuild { keys, order, payload, .. } => {
            keys.iter().chain(order).for_each(|key| read(key, &mut needed));
            let kept = payload.iter().zip(&outputs[pipeline.sink]);
            kept.filter(|(_, kept)| **kept).for_each(|(&column, _)| needed[column] = true);
        }
        Sink::Aggregate { groups, aggregates, .. } => {
            groups.iter().for_each(|group| read(group, &mut needed));
            let exprs = aggregates.iter().flat_map(AggregateExpr::expressions);
            exprs.for_each(|expr| read(expr, &mut needed));
        }
        Sink::Functions { groups, calls, .. } => {
            groups.iter().chain(calls.iter().flat_map(|call| &call.arguments)).for_each(|expr| read(expr, &mut needed));
        }
        Sink::Window { partition, order, calls, payload, .. } => {
            partition.iter().chain(order.iter().map(|key| &key.expr)).for_each(|key| read(key, &mut needed));
            let (kept, called) = outputs[pipeline.sink].split_at(payload.len());
            payload.iter().zip(kept).filter(|(_, kept)| **kept).for_each(|(&column, _)| needed[column] = true);
            let calls = calls.iter().zip(called).filter(|(_, called)| **called);
            calls.flat_map(|(call, _)| &call.argument).for_each(|argument| read(argument, &mut needed));
        }
        Sink::Sort { .. } | Sink::Collect { .. } => needed.clone_from(&outputs[pipeline.sink]),
    }
    let mut needs = vec![needed];
    for (operator, &inputs) in pipeline.operators.iter().zip(&lengths).rev() {
        let after = &needs[needs.len() - 1];
        let before = match operator {
            Operator::Filter(predicate) => {
                let mut before = after.clone();
                read(predicate, &mut before);
                before
            }
            Operator::Limit { .. } => after.clone(),
            Operator::Project(list) => {
                let mut before = vec![false; inputs];
                let kept = list.iter().zip(after).filter(|(_, kept)| **kept);
                kept.for_each(|((_, expr), _)| read(expr, &mut before));
                before
            }
            Operator::Probe(probe) => {
                let payload = outputs[probe.build].len();
                // Input columns, then the payload, then the mark.
                let mut all = vec![false; inputs + payload + 1];
                probe.expressions().for_each(|expr| read(expr, &mut all));
                let kept = probe.output.iter().zip(after).filter(|(_, kept)| **kept);
                kept.for_each(|(&column, _)| all[column] = true);
                let of_payload = outputs[probe.build].iter_mut().zip(&all[inputs..]);
                of_payload.for_each(|(output, needed)| *output |= needed);
                all.truncate(inputs);
                all
            }
        };
        needs.push(before);
    }
    // The source itself reads more columns than it emits.
    needs.push(needs[needs.len() - 1].clone());
    needs.reverse();
    let at_source = &mut needs[0];
    match &pipeline.source {
        Source::Scan(scan) => {
            scan.filters.iter().for_each(|filter| read(filter, at_source));
            scan.prune.iter().for_each(|key| at_source[key.column] = true);
        }
        Source::Rows { sink, .. } | Source::Build { sink, .. } => {
            outputs[*sink].iter_mut().zip(at_source.iter()).for_each(|(output, needed)| *output |= needed);
        }
        // External rows have a fixed layout.
        Source::Input { .. } | Source::Values { .. } => at_source.fill(true),
    }
    needs
}

/// The new positions of columns at a point of the pipeline.
struct Rewrite {
    /// New index of each column; `None` if removed.
    map: Vec<Option<usize>>,
    /// Old indices of the remaining columns.
    left: Vec<usize>,
    /// The remaining columns.
    fields: Vec<Field>,
}

impl Rewrite {
    /// Keeps the columns for which `kept` returns true.
    fn keep(fields: &[Field], kept: impl Fn(usize) -> bool) -> Self {
        let left: Vec<usize> = (0..fields.len()).filter(|&i| kept(i)).collect();
        let mut map = vec![None; fields.len()];
        left.iter().enumerate().for_each(|(new, &old)| map[old] = Some(new));
        Self { map, fields: left.iter().map(|&i| fields[i].clone()).collect(), left }
    }

    fn source(source: &mut Source, needed: &[bool], outputs: &[Needed]) -> Self {
        match source {
            Source::Scan(scan) => {
                let rewrite = Self::keep(&scan.fields, |i| needed[i]);
                scan.columns = rewrite.left.iter().map(|&i| scan.columns[i]).collect();
                scan.fields.clone_from(&rewrite.fields);
                scan.filters.iter_mut().for_each(|filter| rewrite.expr(filter));
                scan.prune.iter_mut().for_each(|key| key.column = rewrite.index(key.column));
                rewrite
            }
            Source::Rows { sink, fields } => {
                let rewrite = Self::keep(fields, |i| outputs[*sink][i]);
                fields.clone_from(&rewrite.fields);
                rewrite
            }
            Source::Build { sink, rows, fields } => {
                // The whole payload, followed by the needed NULL columns, or the mark.
                let kept = &outputs[*sink];
                let marked = *rows == crate::BuildRows::Marked;
                let rewrite = Self::keep(fields, |i| kept.get(i).copied().unwrap_or(marked || needed[i]));
                fields.clone_from(&rewrite.fields);
                rewrite
            }
            Source::Input { fields, .. } | Source::Values { fields, .. } => Self::keep(fields, |_| true),
        }
    }

    fn operator(&mut self, operator: &mut Operator, after: &[bool], outputs: &[Needed]) {
        match operator {
            Operator::Filter(predicate) => self.expr(predicate),
            Operator::Limit { .. } => {}
            Operator::Project(list) => {
                let fields: Vec<Field> = list.iter().map(|(field, _)| field.clone()).collect();
                let next = Self::keep(&fields, |i| after[i]);
                *list = next.left.iter().map(|&i| list[i].clone()).collect();
                list.iter_mut().for_each(|(_, expr)| self.expr(expr));
                *self = next;
            }
            Operator::Probe(probe) => {
                let mut map = self.map.clone();
                let mut next_index = self.left.len();
                for kept in &outputs[probe.build] {
                    map.push(kept.then_some(next_index));
                    next_index += usize::from(*kept);
                }
                map.push(Some(next_index));
                let all = Self { map, left: vec![], fields: vec![] };
                probe.expressions_mut().for_each(|expr| all.expr(expr));
                let next = Self::keep(&probe.fields, |i| after[i]);
                probe.output = next.left.iter().map(|&i| all.index(probe.output[i])).collect();
                probe.fields.clone_from(&next.fields);
                *self = next;
            }
        }
    }

    /// Reduces the columns at the end of `pipeline` to exactly the needed ones.
    fn select(&mut self, pipeline: &mut Pipeline, needed: &[bool]) {
        let wanted: Vec<usize> = (0..needed.len()).filter(|&i| needed[i]).collect();
        if wanted == self.left {
            return;
        }
        let positions: Vec<usize> = wanted.iter().map(|&old| self.index(old)).collect();
        let fields: Vec<Field> = positions.iter().map(|&i| self.fields[i].clone()).collect();
        match pipeline.operators.last_mut() {
            Some(Operator::Project(list)) => *list = positions.iter().map(|&i| list[i].clone()).collect(),
            Some(Operator::Probe(probe)) => {
                probe.output = positions.iter().map(|&i| probe.output[i]).collect();
                probe.fields.clone_from(&fields);
            }
            _ => {
                let column = |(&i, field): (&usize, &Field)| (field.clone(), Expr::column(i, field.ty.clone()));
                pipeline.operators.push(Operator::Project(positions.iter().zip(&fields).map(column).collect()));
            }
        }
        self.map.fill(None);
        wanted.iter().enumerate().for_each(|(new, &old)| self.map[old] = Some(new));
        (self.left, self.fields) = (wanted, fields);
    }

    fn sink(&self, sink: &mut Sink, output: &[bool]) {
        let kept = |fields: &[Field]| -> Vec<Field> {
            fields.iter().zip(output).filter(|(_, kept)| **kept).map(|(field, _)| field.clone()).collect()
        };
        match sink {
            Sink::HashBuild { keys, order, payload, fields, .. } => {
                keys.iter_mut().chain(order).for_each(|key| self.expr(key));
                let columns = payload.iter().zip(output).filter(|(_, kept)| **kept);
                *payload = columns.map(|(&column, _)| self.index(column)).collect();
                *fields = kept(fields);
            }
            Sink::Aggregate { groups, aggregates, .. } => {
                let exprs = aggregates.iter_mut().flat_map(AggregateExpr::expressions_mut);
                groups.iter_mut().chain(exprs).for_each(|expr| self.expr(expr));
            }
            Sink::Functions { groups, calls, .. } => {
                let arguments = calls.iter_mut().flat_map(|call| &mut call.arguments);
                groups.iter_mut().chain(arguments).for_each(|expr| self.expr(expr));
            }
            Sink::Sort { keys, fields, .. } => {
                keys.iter_mut().for_each(|key| self.expr(&mut key.expr));
                *fields = kept(fields);
            }
            Sink::Window { partition, order, calls, payload, fields } => {
                partition.iter_mut().chain(order.iter_mut().map(|key| &mut key.expr)).for_each(|key| self.expr(key));
                let (stay, called) = output.split_at(payload.len());
                *fields = kept(fields);
                let mut called = called.iter();
                calls.retain(|_| *called.next().expect("a column of each call"));
                calls.iter_mut().flat_map(|call| &mut call.argument).for_each(|argument| self.expr(argument));
                let columns = payload.iter().zip(stay).filter(|(_, kept)| **kept);
                *payload = columns.map(|(&column, _)| self.index(column)).collect();
            }
            Sink::Collect { fields } => *fields = kept(fields),
        }
    }

    fn index(&self, old: usize) -> usize {
        self.map[old].expect("a column that is read was marked as needed")
    }

    fn expr(&self, expr: &mut Expr) {
        expr.remap_columns(&|old| self.index(old));
    }
}
