//! Random expression trees: nested branches, errors in terms that may or may not be evaluated, repeated parts.

use super::*;

struct Trees {
    random: Random,
    columns: Vec<Column>,
    /// Earlier expressions, to be repeated.
    made: Vec<Expr>,
}

impl Trees {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed * 0x9e37_79b9 + 1);
        let mut small = |nullable| {
            let data = Data::I64((0..ROWS).map(|_| random.below(12) as i64 - 4).collect());
            let valid = Bitmap::from_fn(ROWS, |_| random.below(5) != 0);
            let vector = Arc::new(Vector::with_validity(data, Some(valid).filter(|_| nullable)));
            Column { vector, ty: ty(DataType::Int64).with_nullable(nullable) }
        };
        let mut columns = vec![small(true), small(false)];
        columns.extend([bools(seed, true), bools(seed + 1, false), texts(seed, true), texts(seed + 1, false)]);
        columns[3].ty = columns[3].ty.with_nullable(false);
        columns[5].ty = columns[5].ty.with_nullable(false);
        columns.push(codes(&["", "AIR", "MAIL", "RAIL", "SHIP"], seed, true));
        Self { random, columns, made: vec![] }
    }

    fn column(&self, index: usize) -> Expr {
        col(index, &self.columns)
    }

    /// An expression of representation `phys`.
    fn tree(&mut self, phys: Phys, depth: usize) -> Expr {
        if self.random.below(6) == 0 {
            let known: Vec<&Expr> = self.made.iter().filter(|expr| expr.ty.phys == phys).collect();
            if !known.is_empty() {
                return known[self.random.below(known.len())].clone();
            }
        }
        let tree = match (depth, phys) {
            (0, _) => return self.leaf(phys),
            (_, Phys::Bool) => self.truth(depth - 1),
            (_, Phys::I64) => self.number(depth - 1),
            _ => self.text(depth - 1),
        };
        self.made.push(tree.clone());
        tree
    }

    fn leaf(&mut self, phys: Phys) -> Expr {
        let pick = self.random.below(5);
        match (phys, pick) {
            (Phys::Bool, _) => self.column(2 + pick % 2),
            (Phys::I64, 0..3) => self.column(pick % 2),
            (Phys::I64, _) => int(self.random.below(9) as i128 - 2, DataType::Int64),
            (_, 0) => self.column(6).widen(Phys::Str),
            (_, 1 | 2) => self.column(3 + pick),
            (_, 3) => null(&ty(DataType::Utf8)),
            _ => text(TEXTS[self.random.below(TEXTS.len())]),
        }
    }

    fn truth(&mut self, depth: usize) -> Expr {
        let bool = |kind| expr(kind, DataType::Boolean);
        let phys = [Phys::Bool, Phys::I64, Phys::Str][self.random.below(3)];
        match self.random.below(10) {
            0 | 1 => bool(ExprKind::And(self.list(Phys::Bool, depth))),
            2 | 3 => bool(ExprKind::Or(self.list(Phys::Bool, depth))),
            4 => bool(ExprKind::Not(self.tree(Phys::Bool, depth).into())),
            5 => bool(ExprKind::IsNull(self.tree(phys, depth).into())),
            6 => like(self.tree(Phys::Str, depth), ["%A%", "a%", "_%b%", ""][self.random.below(4)], false, false),
            7 => {
                let list = (0..self.random.below(12)).map(|i| Scalar::Int(i as i128 * 2 - 3)).collect();
                in_list(self.tree(Phys::I64, depth), list, self.random.below(2) == 0, self.random.below(2) == 0)
            }
            8 => self.branch(Phys::Bool, depth),
            _ => {
                let op = COMPARES[self.random.below(COMPARES.len())];
                compare(op, self.tree(phys, depth), self.tree(phys, depth))
            }
        }
    }

    fn number(&mut self, depth: usize) -> Expr {
        let number = ty(DataType::Int64);
        match self.random.below(9) {
            0..=3 => {
                let op = ARITHS[self.random.below(ARITHS.len())];
                arith(op, self.tree(Phys::I64, depth), self.tree(Phys::I64, depth), true, number)
            }
            4 => {
                Expr { kind: ExprKind::Negate { input: self.tree(Phys::I64, depth).into(), checked: true }, ty: number }
            }
            5 => call(Function::CharLength, vec![self.tree(Phys::Str, depth)], number),
            6 => cast(self.tree(Phys::Str, depth), DataType::Int64, self.random.below(3) > 0),
            _ => self.branch(Phys::I64, depth),
        }
    }

    fn text(&mut self, depth: usize) -> Expr {
        let text = |function, args| call(function, args, ty(DataType::Utf8));
        match self.random.below(7) {
            0 | 1 => {
                let args = vec![self.tree(Phys::Str, depth), self.tree(Phys::I64, depth), self.tree(Phys::I64, depth)];
                text(Function::Substr, args)
            }
            2 => text(Function::Concat, self.list(Phys::Str, depth)),
            3 => text(Function::Trim, vec![self.tree(Phys::Str, depth)]),
            4 => cast(self.tree(Phys::I64, depth), DataType::Utf8, false),
            _ => self.branch(Phys::Str, depth),
        }
    }

    /// A choice between values.
    fn branch(&mut self, phys: Phys, depth: usize) -> Expr {
        let ty = ty(match phys {
            Phys::Bool => DataType::Boolean,
            Phys::I64 => DataType::Int64,
            _ => DataType::Utf8,
        });
        match self.random.below(5) {
            0 => call(Function::Coalesce, self.list(phys, depth), ty),
            1 => call(Function::NullIf, vec![self.tree(phys, depth), self.tree(phys, depth)], ty),
            2 => call(Function::Greatest, self.list(phys, depth), ty),
            _ => {
                let branches = (0..self.random.below(3) + 1)
                    .map(|_| (self.tree(Phys::Bool, depth), self.tree(phys, depth)))
                    .collect();
                let otherwise = (self.random.below(3) > 0).then(|| Box::new(self.tree(phys, depth)));
                Expr { kind: ExprKind::Case { branches, otherwise }, ty }
            }
        }
    }

    fn list(&mut self, phys: Phys, depth: usize) -> Vec<Expr> {
        (0..self.random.below(3) + 1).map(|_| self.tree(phys, depth)).collect()
    }
}

#[test]
fn random_trees() {
    for seed in 1..3 {
        let mut trees = Trees::new(seed);
        let values: Vec<Expr> =
            (0..50).map(|i| trees.tree([Phys::Bool, Phys::I64, Phys::Str][i % 3], 3 + i % 2)).collect();
        // The number of expressions whose literals fit a kernel's parameter.
        values.chunks(20).for_each(|values| check(&trees.columns, values));
        let predicates: Vec<Expr> = (0..40).map(|_| trees.tree(Phys::Bool, 3)).collect();
        predicates.chunks(20).for_each(|predicates| check_predicates(&trees.columns, predicates));
    }
}
