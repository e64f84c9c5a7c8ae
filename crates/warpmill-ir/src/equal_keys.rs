//! Reads join keys from the probe side: a pair's key is in the probe's row already, and need not be fetched from the build's.

use crate::validate::holds;
use crate::{ColType, ExprKind, JoinKind, Operator, Phys, Probe, Program, Sink};

/// Replaces build key columns in the outputs of inner probes by the probe side's equal columns. [`crate::needed_columns`] removes payload columns
/// that are unused afterwards.
pub fn read_keys_of_probes(program: &mut Program) {
    let Program { pipelines, sinks, .. } = program;
    for pipeline in pipelines {
        let mut columns = pipeline.source.fields().len();
        for operator in &mut pipeline.operators {
            match operator {
                Operator::Project(list) => columns = list.len(),
                Operator::Probe(probe) => {
                    read_own_keys(probe, &sinks[probe.build], columns);
                    columns = probe.fields.len();
                }
                Operator::Filter(_) | Operator::Limit { .. } => {}
            }
        }
    }
}

/// Rewrites the output of a probe with `columns` input columns.
fn read_own_keys(probe: &mut Probe, build: &Sink, columns: usize) {
    let Sink::HashBuild { keys, payload, .. } = build else { return };
    // Other kinds emit rows without a partner, whose payload is NULL.
    if !matches!(probe.kind, JoinKind::Inner | JoinKind::BuildOuter) {
        return;
    }
    for (output, field) in probe.output.iter_mut().zip(&probe.fields) {
        let Some(&kept) = output.checked_sub(columns).and_then(|at| payload.get(at)) else { continue };
        let own = keys.iter().zip(&probe.keys).find_map(|(built, key)| match (&built.kind, &key.kind) {
            (ExprKind::Column(built), ExprKind::Column(own)) if *built == kept && stands_for(&key.ty, &field.ty) => {
                Some(*own)
            }
            _ => None,
        });
        if let Some(own) = own {
            *output = own;
        }
    }
}

/// Whether a key of type `own` may replace the equal key of type `of`. Equal floats may differ in bits (0 and -0).
fn stands_for(own: &ColType, of: &ColType) -> bool {
    !matches!(own.phys, Phys::F32 | Phys::F64) && holds(own, of).is_ok()
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;
    use crate::{Expr, Field};

    fn ty(data_type: &DataType) -> ColType {
        ColType::of(data_type, false).unwrap()
    }

    /// The output of a probe with one key and three columns; the last two are the build's value and key, and are requested as key, value.
    fn output(kind: JoinKind, own: &ColType, built: &ColType) -> Vec<usize> {
        let field = |ty: &ColType| Field { name: "c".into(), ty: ty.clone() };
        let build = Sink::HashBuild {
            keys: vec![Expr::column(4, built.clone())],
            payload: vec![2, 4],
            fields: vec![field(built), field(built)],
            null_equals_null: false,
            track_matches: kind == JoinKind::BuildOuter,
            order: None,
        };
        let mut probe = Probe {
            build: 0,
            kind,
            keys: vec![Expr::column(0, own.clone())],
            residual: None,
            asof: None,
            range: None,
            null_aware: false,
            output: vec![2, 1],
            fields: vec![field(built), field(built)],
        };
        read_own_keys(&mut probe, &build, 1);
        probe.output
    }

    #[test]
    fn pairs_have_the_key_of_the_probe() {
        let int = ty(&DataType::Int64);
        for kind in [JoinKind::Inner, JoinKind::BuildOuter] {
            assert_eq!(output(kind, &int, &int), [0, 1]);
        }
        for kind in [JoinKind::ProbeOuter, JoinKind::Full] {
            assert_eq!(output(kind, &int, &int), [2, 1]);
        }
    }

    #[test]
    fn types_have_to_stand_for_each_other() {
        let int = ty(&DataType::Int64);
        assert_eq!(output(JoinKind::Inner, &int.narrowed((0, 1 << 40)), &int), [0, 1]);
        assert_eq!(output(JoinKind::Inner, &int, &int.narrowed((0, 1 << 40))), [2, 1]);
        assert_eq!(output(JoinKind::Inner, &int.with_nullable(true), &int), [2, 1]);
        let float = ty(&DataType::Float64);
        assert_eq!(output(JoinKind::Inner, &float, &float), [2, 1]);
        let text = ty(&DataType::Utf8);
        assert_eq!(output(JoinKind::Inner, &text, &text), [0, 1]);
    }
}
