//! The order of a scan's filters.

use crate::{Expr, ExprKind, Phys, Scan};

impl Scan {
    /// Adds conjuncts, keeping the cheapest first.
    pub fn add_filters(&mut self, conjuncts: Vec<Expr>) {
        self.filters.extend(conjuncts);
        self.filters.sort_by_key(filter_cost);
    }
}

/// A rank of conjuncts by cost per row: integers, then dictionary predicates, then strings, then patterns and functions.
fn filter_cost(expr: &Expr) -> u32 {
    let own = match &expr.kind {
        ExprKind::Column(_) | ExprKind::Literal(_) => 0,
        // A predicate on a dictionary's strings is evaluated once per entry, then looked up.
        _ if over_one_code_column(expr) => return 4,
        ExprKind::Compare { left, .. } if left.ty.phys == Phys::Str => 20,
        ExprKind::InList { input, .. } if input.ty.phys == Phys::Str => 30,
        ExprKind::Like { .. } => 60,
        ExprKind::Call { .. } => 40,
        ExprKind::Cast { .. } | ExprKind::AddInterval { .. } => 10,
        _ => 1,
    };
    own + expr.children().into_iter().map(filter_cost).sum::<u32>()
}

/// Whether `expr` reads a single column, of dictionary codes.
fn over_one_code_column(expr: &Expr) -> bool {
    fn visit(expr: &Expr, seen: &mut Option<usize>) -> bool {
        if let ExprKind::Column(index) = expr.kind {
            return expr.ty.phys == Phys::Code && *seen.get_or_insert(index) == index;
        }
        expr.children().into_iter().all(|child| visit(child, seen))
    }
    let mut seen = None;
    visit(expr, &mut seen) && seen.is_some()
}
