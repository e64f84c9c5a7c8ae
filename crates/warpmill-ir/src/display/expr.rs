//! Expressions in SQL notation, with the names of the columns that they read.

use std::fmt::{self, Display, Formatter};

use super::literal::literal;
use crate::{ArithOp, CompareOp, Expr, ExprKind, Field, Function};

/// An expression with the names of its input's columns.
struct Named<'a> {
    expr: &'a Expr,
    fields: &'a [Field],
}

impl Expr {
    /// Shows the expression with the names of `fields`, the columns that it reads.
    pub fn over<'a>(&'a self, fields: &'a [Field]) -> impl Display + 'a {
        Named { expr: self, fields }
    }
}

/// Columns are shown as `$i`; see [`Expr::over`] for names.
impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Named { expr: self, fields: &[] }.fmt(f)
    }
}

impl<'a> Named<'a> {
    fn of(&self, expr: &'a Expr) -> Named<'a> {
        Named { expr, fields: self.fields }
    }

    /// An operand, in parentheses where it is an operator itself.
    fn operand(&self, expr: &'a Expr) -> String {
        let shown = self.of(expr).to_string();
        let mut expr = expr;
        while let ExprKind::Widen(input) = &expr.kind {
            expr = input;
        }
        match expr.kind {
            ExprKind::Arith { .. }
            | ExprKind::Compare { .. }
            | ExprKind::And(_)
            | ExprKind::Or(_)
            | ExprKind::Not(_) => {
                format!("({shown})")
            }
            _ => shown,
        }
    }

    fn joined(&self, exprs: &'a [Expr], separator: &str) -> String {
        exprs.iter().map(|expr| self.operand(expr)).collect::<Vec<_>>().join(separator)
    }

    fn cast(&self, input: &'a Expr, try_cast: bool, f: &mut Formatter<'_>) -> fmt::Result {
        let name = if try_cast { "TRY_CAST" } else { "CAST" };
        write!(f, "{name}({} AS {})", self.of(input), self.expr.ty.logical)
    }
}

impl Display for Named<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let not = |negated: bool| if negated { " NOT" } else { "" };
        match &self.expr.kind {
            ExprKind::Column(index) => match self.fields.get(*index) {
                Some(field) => f.write_str(&field.name),
                None => write!(f, "${index}"),
            },
            ExprKind::Literal(value) => literal(f, value, &self.expr.ty),
            ExprKind::Arith { op, left, right, checked } => {
                let mark = if *checked { "?" } else { "" };
                write!(f, "{} {}{mark} {}", self.operand(left), arith_symbol(*op), self.operand(right))
            }
            ExprKind::Negate { input, .. } => write!(f, "-{}", self.operand(input)),
            ExprKind::Compare { op, left, right } => {
                write!(f, "{} {} {}", self.operand(left), compare_symbol(*op), self.operand(right))
            }
            ExprKind::And(list) => f.write_str(&self.joined(list, " AND ")),
            ExprKind::Or(list) => f.write_str(&self.joined(list, " OR ")),
            ExprKind::Not(input) => write!(f, "NOT {}", self.operand(input)),
            ExprKind::IsNull(input) => write!(f, "{} IS NULL", self.operand(input)),
            ExprKind::IsNotNull(input) => write!(f, "{} IS NOT NULL", self.operand(input)),
            ExprKind::Case { branches, otherwise } => {
                write!(f, "CASE")?;
                for (when, then) in branches {
                    write!(f, " WHEN {} THEN {}", self.of(when), self.of(then))?;
                }
                if let Some(otherwise) = otherwise {
                    write!(f, " ELSE {}", self.of(otherwise))?;
                }
                write!(f, " END")
            }
            ExprKind::Cast { input, try_cast } => self.cast(input, *try_cast, f),
            // Another representation of the same value.
            ExprKind::Widen(input) => self.of(input).fmt(f),
            ExprKind::InList { input, list, has_null, negated } => {
                write!(f, "{}{} IN (", self.operand(input), not(*negated))?;
                for (i, value) in list.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    literal(f, value, &input.ty)?;
                }
                f.write_str(if *has_null { ", NULL)" } else { ")" })
            }
            ExprKind::Like { input, pattern, case_insensitive, negated, .. } => {
                let like = if *case_insensitive { "ILIKE" } else { "LIKE" };
                write!(f, "{}{} {like} '{pattern}'", self.operand(input), not(*negated))
            }
            ExprKind::AddInterval { input, months, days, nanos } => {
                write!(f, "{} + INTERVAL '{months} months {days} days {nanos} ns'", self.operand(input))
            }
            ExprKind::Call { function: Function::ReadMoment | Function::WriteMoment, args } => {
                self.cast(&args[0], false, f)
            }
            ExprKind::Call { function: Function::TryReadMoment, args } => self.cast(&args[0], true, f),
            ExprKind::Call { function, args } => {
                let args: Vec<String> = args.iter().map(|arg| self.of(arg).to_string()).collect();
                write!(f, "{}({})", format!("{function:?}").to_lowercase(), args.join(", "))
            }
            ExprKind::Recode(recoding) => {
                let input = |input: &'_ Expr| Field { name: self.of(input).to_string(), ty: input.ty.clone() };
                let inputs: Vec<Field> = recoding.inputs.iter().map(input).collect();
                recoding.source.over(&inputs).fmt(f)
            }
        }
    }
}

fn arith_symbol(op: ArithOp) -> &'static str {
    match op {
        ArithOp::Add => "+",
        ArithOp::Sub => "-",
        ArithOp::Mul => "*",
        ArithOp::Div => "/",
        ArithOp::Mod => "%",
    }
}

fn compare_symbol(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "=",
        CompareOp::Ne => "<>",
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
        CompareOp::IsDistinct => "IS DISTINCT FROM",
        CompareOp::IsNotDistinct => "IS NOT DISTINCT FROM",
    }
}
