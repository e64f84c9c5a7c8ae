//! Roles that a pipeline gives the columns of its scan.

use warpmill_ir::{AggregateExpr, Expr, ExprKind, Operator, Pipeline, Sink, Source};

use super::semantic::Role;

/// The role of each column of the scan of `pipeline`, which feeds `sink`; of several roles, the one that costs the CPU most.
pub(crate) fn roles(pipeline: &Pipeline, sink: &Sink) -> Vec<Role> {
    let Source::Scan(scan) = &pipeline.source else { return vec![] };
    let mut tracer = Tracer {
        roles: vec![Role::Other; scan.columns.len()],
        origins: (0..scan.columns.len()).map(|column| vec![column]).collect(),
    };
    let mut conjunct = 0;
    for filter in &scan.filters {
        tracer.note(filter, Role::Filter(conjunct));
        conjunct += 1;
    }
    for operator in &pipeline.operators {
        match operator {
            Operator::Filter(filter) => {
                tracer.note(filter, Role::Filter(conjunct));
                conjunct += 1;
            }
            Operator::Project(list) => {
                tracer.origins = list.iter().map(|(_, expr)| tracer.origins_of(expr)).collect();
            }
            Operator::Probe(probe) => {
                probe.keys.iter().for_each(|key| tracer.note(key, Role::Join));
                let own = |&column: &usize| tracer.origins.get(column).cloned().unwrap_or_default();
                tracer.origins = probe.output.iter().map(own).collect();
            }
            Operator::Limit { .. } => {}
        }
    }
    if let Sink::Aggregate { groups, aggregates, .. } = sink {
        let used = aggregates.iter().flat_map(AggregateExpr::expressions);
        groups.iter().chain(used).for_each(|expr| tracer.note(expr, Role::Group));
    }
    tracer.roles
}

struct Tracer {
    /// By column of the scan.
    roles: Vec<Role>,
    /// The scan's columns that each current column is computed from.
    origins: Vec<Vec<usize>>,
}

impl Tracer {
    fn origins_of(&self, expr: &Expr) -> Vec<usize> {
        if let ExprKind::Column(column) = expr.kind {
            return self.origins.get(column).cloned().unwrap_or_default();
        }
        let mut all = vec![];
        expr.visit_columns(&mut |column| all.extend(self.origins.get(column).into_iter().flatten().copied()));
        all
    }

    fn note(&mut self, expr: &Expr, role: Role) {
        let rank = |role: Role| match role {
            Role::Other => 0,
            Role::Filter(_) => 1,
            Role::Group => 2,
            Role::Join => 3,
        };
        for column in self.origins_of(expr) {
            if rank(role) > rank(self.roles[column]) {
                self.roles[column] = role;
            }
        }
    }
}
