//! Checks of the invariants that [`crate::expr`] and [`crate::program`] state: a violation is a bug of the translator.

use std::sync::Arc;

use crate::{
    AggregateFunction, ArithOp, ColType, Expr, ExprKind, Field, Operator, Phys, Pipeline, Probe, Program, Scalar, Sink,
    Source,
};

type Checked = Result<(), String>;

impl Program {
    /// Checks the program's invariants; the error says which one is violated where.
    pub fn validate(&self) -> Checked {
        let last_feed = |sink: usize| self.pipelines.iter().rposition(|p| p.sink == sink);
        for (index, pipeline) in self.pipelines.iter().enumerate() {
            let finished = |sink: usize| last_feed(sink).is_some_and(|last| last < index);
            self.check_pipeline(pipeline, &finished).map_err(|error| format!("pipeline {index}: {error}\n{self}"))?;
        }
        let unfed = (0..self.sinks.len()).find(|&sink| last_feed(sink).is_none());
        if let Some(sink) = unfed {
            return Err(format!("no pipeline feeds sink {sink}\n{self}"));
        }
        match self.sinks.last() {
            Some(sink @ (Sink::Collect { .. } | Sink::Sort { .. })) => {
                let types = sink.fields().iter().map(|field| &field.ty.logical);
                ensure(types.eq(self.schema.fields().iter().map(|field| field.data_type())), || {
                    format!("the result's columns are not those of the schema {}\n{self}", self.schema)
                })
            }
            _ => Err(format!("the last sink gives no rows\n{self}")),
        }
    }

    fn check_pipeline(&self, pipeline: &Pipeline, finished: &dyn Fn(usize) -> bool) -> Checked {
        self.check_source(&pipeline.source, finished)?;
        let mut fields = pipeline.source.fields().to_vec();
        for operator in &pipeline.operators {
            match operator {
                Operator::Filter(predicate) => boolean(predicate, &fields)?,
                Operator::Limit { .. } => {}
                Operator::Project(list) => {
                    for (field, expr) in list {
                        check(expr, &fields)?;
                        holds(&expr.ty, &field.ty).map_err(|error| format!("projected {}: {error}", field.name))?;
                    }
                    fields = list.iter().map(|(field, _)| field.clone()).collect();
                }
                Operator::Probe(probe) => {
                    ensure(finished(probe.build), || format!("probe of unfinished sink {}", probe.build))?;
                    self.check_probe(probe, &fields)?;
                    fields.clone_from(&probe.fields);
                }
            }
        }
        self.check_sink(&self.sinks[pipeline.sink], &fields)
    }

    fn check_source(&self, source: &Source, finished: &dyn Fn(usize) -> bool) -> Checked {
        match source {
            Source::Scan(scan) => {
                ensure(scan.columns.len() == scan.fields.len(), || "scan columns without fields".to_owned())?;
                scan.filters.iter().try_for_each(|filter| boolean(filter, &scan.fields))?;
                scan.prune.iter().try_for_each(|key| {
                    ensure(key.column < scan.fields.len() && finished(key.build), || format!("prune key {key:?}"))
                })
            }
            Source::Rows { sink, fields } => {
                ensure(finished(*sink), || format!("rows of unfinished sink {sink}"))?;
                same_fields(self.sinks[*sink].fields(), fields)
            }
            Source::Build { sink, fields, .. } => {
                ensure(finished(*sink), || format!("rows of unfinished build {sink}"))?;
                let payload = self.sinks[*sink].fields();
                ensure(fields.len() >= payload.len(), || format!("fewer columns than the payload of {sink}"))?;
                same_fields(payload, &fields[..payload.len()])
            }
            Source::Values { rows, fields } => {
                ensure(rows.iter().all(|row| row.len() == fields.len()), || "constant rows of another width".to_owned())
            }
            Source::Input { .. } => Ok(()),
        }
    }

    fn check_probe(&self, probe: &Probe, fields: &[Field]) -> Checked {
        let Sink::HashBuild { keys, fields: payload, track_matches, order, null_equals_null, .. } =
            &self.sinks[probe.build]
        else {
            return Err(format!("probe of sink {}, which is no hash build", probe.build));
        };
        ensure(keys.len() == probe.keys.len(), || "another number of keys than the build's".to_owned())?;
        for (key, built) in probe.keys.iter().zip(keys) {
            check(key, fields)?;
            alike(&key.ty, &built.ty).map_err(|error| format!("probe key {key}: {error}"))?;
        }
        use crate::JoinKind::{BuildOnly, BuildOuter, Full};
        let flags = matches!(probe.kind, BuildOuter | Full | BuildOnly);
        match (&probe.asof, order) {
            (None, None) => {}
            (Some(asof), Some(order)) => {
                check(&asof.value, fields)?;
                alike(&asof.value.ty, &order.ty).map_err(|error| format!("ASOF value {}: {error}", asof.value))?;
                let kind = matches!(probe.kind, crate::JoinKind::Inner | crate::JoinKind::ProbeOuter);
                let plain = probe.residual.is_none() && !probe.null_aware && !null_equals_null;
                ensure(kind && plain, || "an ASOF join with more than keys and a value".to_owned())?;
            }
            (None, Some(order)) => {
                let Some(range) = &probe.range else { return Err("a build whose order nobody reads".to_owned()) };
                ensure(probe.residual.is_some() && !probe.null_aware, || "a range of no condition".to_owned())?;
                for bound in range.lower.iter().chain(&range.upper) {
                    check(&bound.value, fields)?;
                    alike(&bound.value.ty, &order.ty).map_err(|error| format!("bound {}: {error}", bound.value))?;
                }
            }
            (Some(_), None) => return Err("an ASOF probe of a build without an order".to_owned()),
        }
        ensure(!flags || *track_matches, || "a build without match flags".to_owned())?;
        let both: Vec<Field> = fields.iter().chain(payload).cloned().collect();
        if let Some(residual) = &probe.residual {
            boolean(residual, &both)?;
        }
        ensure(probe.output.len() == probe.fields.len(), || "probe outputs without fields".to_owned())?;
        for (&column, field) in probe.output.iter().zip(&probe.fields) {
            match both.get(column) {
                Some(from) => holds(&from.ty.with_nullable(false), &field.ty)?,
                None => {
                    ensure(column == both.len() && field.ty.phys == Phys::Bool, || format!("probe output {column}"))?
                }
            }
        }
        Ok(())
    }

    fn check_sink(&self, sink: &Sink, fields: &[Field]) -> Checked {
        match sink {
            Sink::HashBuild { keys, order, payload, fields: kept, .. } => {
                keys.iter().chain(order).try_for_each(|key| check(key, fields))?;
                ensure(payload.len() == kept.len(), || "payload without fields".to_owned())?;
                let columns = payload.iter().zip(kept);
                columns.into_iter().try_for_each(|(&column, field)| match fields.get(column) {
                    Some(from) => holds(&from.ty, &field.ty),
                    None => Err(format!("payload column {column}")),
                })
            }
            Sink::Aggregate { groups, aggregates, fields: output } => {
                groups.iter().try_for_each(|group| check(group, fields))?;
                for aggregate in aggregates {
                    aggregate
                        .argument
                        .iter()
                        .chain(&aggregate.second)
                        .try_for_each(|argument| check(argument, fields))?;
                    let of_pairs = matches!(aggregate.function, AggregateFunction::OfPairs(_));
                    ensure(aggregate.second.is_some() == of_pairs, || "a second argument".to_owned())?;
                    aggregate.filter.iter().try_for_each(|filter| boolean(filter, fields))?;
                }
                ensure(output.len() == groups.len() + aggregates.len(), || "aggregates without fields".to_owned())
            }
            Sink::Sort { keys, fields: kept, .. } => {
                keys.iter().try_for_each(|key| check(&key.expr, fields))?;
                same_fields(fields, kept)
            }
            Sink::Functions { groups, calls, fields: output } => {
                groups
                    .iter()
                    .chain(calls.iter().flat_map(|call| &call.arguments))
                    .try_for_each(|it| check(it, fields))?;
                let held = |ty: &ColType| matches!(ty.phys, Phys::Bool | Phys::I32 | Phys::I64 | Phys::F64);
                let types = calls.iter().flat_map(|call| call.arguments.iter().map(|it| &it.ty).chain([&call.ty]));
                ensure(types.into_iter().all(held), || "a function of other values than those of texts".to_owned())?;
                ensure(calls.iter().all(|call| call.ty.nullable), || "a function that gives no NULL".to_owned())?;
                ensure(output.len() == groups.len() + calls.len(), || "functions without fields".to_owned())
            }
            Sink::Window { .. } => check_window(sink, fields),
            Sink::Collect { fields: kept } => same_fields(fields, kept),
        }
    }
}

fn check_window(sink: &Sink, fields: &[Field]) -> Checked {
    let Sink::Window { partition, order, calls, payload, fields: output } = sink else { return Ok(()) };
    partition.iter().chain(order.iter().map(|key| &key.expr)).try_for_each(|key| check(key, fields))?;
    ensure(output.len() == payload.len() + calls.len(), || "window calls without fields".to_owned())?;
    for (&column, field) in payload.iter().zip(output) {
        let from = fields.get(column).ok_or_else(|| format!("payload column {column}"))?;
        holds(&from.ty, &field.ty)?;
    }
    for (call, field) in calls.iter().zip(&output[payload.len()..]) {
        call.argument.iter().try_for_each(|argument| check(argument, fields))?;
        holds(&call.ty, &field.ty)?;
        if call.function.picks() {
            let argument = call.argument.as_ref().ok_or_else(|| "a call without its argument".to_owned())?;
            alike(&argument.ty, &call.ty)?;
        }
        ensure(!call.frame.compares_values() || order.len() == 1, || "a frame of values without their key".to_owned())?;
    }
    Ok(())
}

fn ensure(holds: bool, error: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(error()) }
}

fn same_fields(from: &[Field], to: &[Field]) -> Checked {
    ensure(from.len() == to.len(), || format!("{} columns where {} are expected", from.len(), to.len()))?;
    from.iter()
        .zip(to)
        .try_for_each(|(a, b)| holds(&a.ty, &b.ty).map_err(|error| format!("column {}: {error}", b.name)))
}

/// Equal representation, scale and dictionary.
fn alike(a: &ColType, b: &ColType) -> Checked {
    let dictionaries = match (&a.dictionary, &b.dictionary) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (a, b) => a.is_none() && b.is_none(),
    };
    let scale = |ty: &ColType| match ty.logical {
        arrow::datatypes::DataType::Decimal128(_, scale) => scale,
        _ => 0,
    };
    ensure(a.phys == b.phys && dictionaries && (!a.phys.is_int() || scale(a) == scale(b)), || {
        format!("{a:?} is not held as {b:?}")
    })
}

/// Whether values of type `from` are values of type `to`.
pub(crate) fn holds(from: &ColType, to: &ColType) -> Checked {
    alike(from, to)?;
    ensure(to.nullable || !from.nullable, || "a NULL in a column without NULLs".to_owned())?;
    match (from.range, to.range) {
        (Some(a), Some(b)) => ensure(b.0 <= a.0 && a.1 <= b.1 || a.0 > a.1, || format!("{a:?} is beyond {b:?}")),
        _ => Ok(()),
    }
}

fn boolean(expr: &Expr, fields: &[Field]) -> Checked {
    check(expr, fields)?;
    ensure(expr.ty.phys == Phys::Bool, || format!("the predicate {expr} is no truth value"))
}

/// Checks an expression over `fields`.
fn check(expr: &Expr, fields: &[Field]) -> Checked {
    node(expr, fields).map_err(|error| format!("{}: {error}", expr.over(fields)))?;
    expr.children().into_iter().try_for_each(|child| check(child, fields))
}

fn node(expr: &Expr, fields: &[Field]) -> Checked {
    let ty = &expr.ty;
    ensure(ty.phys.is_int() || ty.range.is_none(), || "a range without integers".to_owned())?;
    ensure((ty.phys == Phys::Code) == ty.dictionary.is_some(), || "codes need a dictionary".to_owned())?;
    if let (Some(range), Phys::I32 | Phys::I64) = (ty.range, ty.phys) {
        ensure(Phys::for_range(range) <= ty.phys, || format!("{range:?} does not fit {:?}", ty.phys))?;
    }
    let held_as =
        |child: &Expr, phys: Phys| ensure(child.ty.phys == phys, || format!("{child} is not held as {phys:?}"));
    match &expr.kind {
        ExprKind::Column(index) => match fields.get(*index) {
            Some(field) => {
                ensure(field.ty.phys == ty.phys, || format!("held as {:?}, not {:?}", field.ty.phys, ty.phys))
            }
            None => Err(format!("there are {} columns only", fields.len())),
        },
        ExprKind::Literal(value) => literal(value, ty),
        ExprKind::Arith { op, left, right, .. } => {
            held_as(left, ty.phys)?;
            held_as(right, ty.phys)?;
            let same_scale = matches!(op, ArithOp::Add | ArithOp::Sub | ArithOp::Mod);
            if same_scale { alike(&left.ty, &right.ty) } else { Ok(()) }
        }
        ExprKind::Negate { input, .. } => held_as(input, ty.phys),
        ExprKind::Compare { left, right, .. } => alike(&left.ty, &right.ty),
        ExprKind::And(list) | ExprKind::Or(list) => list.iter().try_for_each(|child| held_as(child, Phys::Bool)),
        ExprKind::Not(child) => held_as(child, Phys::Bool),
        ExprKind::Case { branches, otherwise } => {
            branches.iter().try_for_each(|(when, _)| held_as(when, Phys::Bool))?;
            let values = branches.iter().map(|(_, then)| then).chain(otherwise.as_deref());
            values.into_iter().try_for_each(|value| alike(&value.ty, ty))
        }
        ExprKind::Widen(input) => {
            let widens = input.ty.phys == Phys::Code && ty.phys == Phys::Str
                || input.ty.phys.is_int() && ty.phys.is_int() && input.ty.phys < ty.phys;
            ensure(widens, || format!("{:?} does not widen to {:?}", input.ty.phys, ty.phys))
        }
        ExprKind::InList { input, list, .. } => list.iter().try_for_each(|value| literal(value, &input.ty)),
        ExprKind::Like { input, .. } => held_as(input, Phys::Str),
        ExprKind::Recode(recoding) => recoding.check(ty),
        ExprKind::Call { .. }
        | ExprKind::Cast { .. }
        | ExprKind::IsNull(_)
        | ExprKind::IsNotNull(_)
        | ExprKind::AddInterval { .. } => Ok(()),
    }
}

fn literal(value: &Scalar, ty: &ColType) -> Checked {
    let fits = match value {
        Scalar::Null => ty.nullable,
        Scalar::Bool(_) => ty.phys == Phys::Bool,
        Scalar::Int(code) if ty.phys == Phys::Code => {
            ty.dictionary.as_ref().is_some_and(|d| usize::try_from(*code).is_ok_and(|code| code < d.len()))
        }
        Scalar::Int(value) => ty.phys.is_int() && Phys::for_range((*value, *value)) <= ty.phys,
        Scalar::Float(_) => matches!(ty.phys, Phys::F32 | Phys::F64),
        Scalar::Str(_) => ty.phys == Phys::Str,
    };
    ensure(fits, || format!("{value:?} is no {ty:?}"))
}
