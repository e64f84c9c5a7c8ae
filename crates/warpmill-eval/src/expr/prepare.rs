//! Expressions to prepared nodes: constants folded, dictionary sub-expressions tabulated.

use std::sync::Arc;

use warpmill_ir::{ArithOp, ColType, Expr, ExprKind, Function, Phys, Scalar};

use super::arith::Arith;
use super::call::{Compute, Extreme, OnlyRow};
use super::cast::Cast;
use super::dates::{AddInterval, Part, Read, Trunc, Write};
use super::lookup::{CodeStrings, Lookup};
use super::math::Math;
use super::members::InList;
use super::node::{Kind, Node};
use super::recode::Recode;
use super::text::Text;
use super::text::like::Like;
use super::text::regexp::Regexp;
use super::value::{Native, Value};
use crate::chunk::Chunk;
use crate::error::{ExecError, Result};
use crate::memory::Worker;
use crate::vector::Vector;

/// Prepares `expr`; the worker's arena owns the strings that are computed.
pub(super) fn with_lookups(expr: &Expr, worker: &mut Worker) -> Result<Node> {
    Prepare { lookups: true, worker }.node(expr)
}

/// As [`with_lookups`], but evaluates everything per row.
pub(super) fn without_lookups(expr: &Expr, worker: &mut Worker) -> Result<Node> {
    Prepare { lookups: false, worker }.node(expr)
}

struct Prepare<'a> {
    lookups: bool,
    worker: &'a mut Worker,
}

impl Prepare<'_> {
    fn node(&mut self, expr: &Expr) -> Result<Node> {
        if self.lookups
            && let Some(lookup) = Lookup::of(expr, self.worker)
        {
            return Ok(Node { kind: Kind::Lookup(lookup), ty: expr.ty.clone(), fallible: false, heavy: false });
        }
        let kind = self.kind(expr)?;
        let children = kind.children();
        let constant = !children.is_empty() && children.iter().all(|child| child.constant().is_some());
        let fallible = kind.fallible(&expr.ty) || children.iter().any(|child| child.fallible);
        let heavy = kind.heavy() || children.iter().any(|child| child.heavy);
        let node = Node { kind, ty: expr.ty.clone(), fallible, heavy };
        // An error is raised later, by the rows that need the value, if any.
        if constant && let Ok(value) = node.eval(&Chunk::without_columns(1), self.worker) {
            let kind = Kind::Const(value.into_vector(1));
            return Ok(Node { kind, ty: expr.ty.clone(), fallible: false, heavy: false });
        }
        Ok(node)
    }

    fn boxed(&mut self, expr: &Expr) -> Result<Box<Node>> {
        Ok(Box::new(self.node(expr)?))
    }

    fn list(&mut self, list: &[Expr]) -> Result<Vec<Node>> {
        list.iter().map(|expr| self.node(expr)).collect()
    }

    fn kind(&mut self, expr: &Expr) -> Result<Kind> {
        Ok(match &expr.kind {
            ExprKind::Column(index) => Kind::Column(*index),
            ExprKind::Literal(value) => Kind::Const(Arc::new(self.literal(value, &expr.ty)?)),
            ExprKind::Arith { op, left, right, checked } => {
                let arith = Arith::new(*op, *checked, &expr.ty, &left.ty, &right.ty)?;
                Kind::Arith(arith, self.boxed(left)?, self.boxed(right)?)
            }
            ExprKind::Negate { input, checked } => Kind::Negate(*checked, self.boxed(input)?),
            ExprKind::Compare { op, left, right } => Kind::Compare(*op, self.boxed(left)?, self.boxed(right)?),
            ExprKind::And(list) => Kind::And(flat(self.list(list)?, true)),
            ExprKind::Or(list) => Kind::Or(flat(self.list(list)?, false)),
            ExprKind::Not(input) => Kind::Not(self.boxed(input)?),
            ExprKind::IsNull(input) => Kind::IsNull(self.boxed(input)?),
            ExprKind::IsNotNull(input) => Kind::IsNotNull(self.boxed(input)?),
            ExprKind::Case { branches, otherwise } => {
                let branches = branches.iter().map(|(when, then)| Ok((self.node(when)?, self.node(then)?)));
                let branches = branches.collect::<Result<Vec<_>>>()?;
                Kind::Case(branches, otherwise.as_deref().map(|e| self.boxed(e)).transpose()?)
            }
            ExprKind::Cast { input, try_cast } => self.cast(input, &expr.ty, *try_cast)?,
            ExprKind::Widen(input) if input.ty.phys == Phys::Code && expr.ty.phys == Phys::Str => {
                self.strings(input)?
            }
            ExprKind::Widen(input) => Kind::Widen(self.boxed(input)?),
            ExprKind::Call { function, args } => self.call(*function, args, &expr.ty)?,
            ExprKind::Recode(recoding) => {
                let recode = Recode::new(recoding, expr.ty.nullable);
                Kind::Call(Box::new(recode), self.list(&recoding.inputs)?)
            }
            ExprKind::InList { input, list, has_null, negated } => {
                let constant = |value: &Scalar| Ok(Value::Const(Arc::new(self.literal(value, &input.ty)?)));
                let constants = list.iter().map(constant).collect::<Result<Vec<_>>>()?;
                let members = InList::new(list, constants, input.ty.phys, *has_null, *negated);
                Kind::Call(Box::new(members), vec![self.node(input)?])
            }
            ExprKind::Like { input, pattern, escape, case_insensitive, negated } => {
                let like = Like::new(pattern, *escape, *case_insensitive, *negated);
                Kind::Call(Box::new(like), vec![self.string(input)?])
            }
            ExprKind::AddInterval { input, months, days, nanos } => {
                let mut input = self.node(input)?;
                if input.ty.logical != expr.ty.logical {
                    input = self.converted(input, &expr.ty);
                }
                Kind::Call(Box::new(AddInterval::new(&expr.ty, *months, *days, *nanos)?), vec![input])
            }
        })
    }

    /// `input` as a value of type `ty` (a date that becomes a timestamp).
    fn converted(&self, input: Node, ty: &ColType) -> Node {
        let cast = Cast::new(&input.ty, ty, false);
        let (fallible, heavy) = (input.fallible || cast.fallible(), input.heavy);
        Node { kind: Kind::Cast(cast, Box::new(input)), ty: ty.clone(), fallible, heavy }
    }

    /// Prepares an operand as a string, decoding dictionary codes.
    fn string(&mut self, input: &Expr) -> Result<Node> {
        if input.ty.phys == Phys::Code { self.node(&input.clone().widen(Phys::Str)) } else { self.node(input) }
    }

    fn call(&mut self, function: Function, args: &[Expr], ty: &ColType) -> Result<Kind> {
        let wrong = || ExecError::Unsupported(format!("{function:?} of {} arguments", args.len()));
        let first = args.first().ok_or_else(wrong)?;
        let compute: Box<dyn Compute> = match function {
            Function::Coalesce => return Ok(Kind::Coalesce(self.list(args)?)),
            Function::NullIf => {
                let [value, other] = args else { return Err(wrong()) };
                return Ok(Kind::NullIf(self.boxed(value)?, self.boxed(other)?));
            }
            Function::Greatest | Function::Least => Box::new(Extreme { greatest: function == Function::Greatest }),
            Function::OnlyRow => {
                let [_, _] = args else { return Err(wrong()) };
                Box::new(OnlyRow)
            }
            Function::DatePart | Function::DateTrunc => {
                let [field, input] = args else { return Err(wrong()) };
                let ExprKind::Literal(Scalar::Str(field)) = &field.kind else {
                    return Err(ExecError::Unsupported(format!("{function:?} of a field that is not a literal")));
                };
                let compute: Box<dyn Compute> = match function {
                    Function::DatePart => Box::new(Part::new(field, &input.ty, ty)?),
                    _ => Box::new(Trunc::new(field, &input.ty.logical, ty)?),
                };
                return Ok(Kind::Call(compute, vec![self.node(input)?]));
            }
            Function::ReadMoment | Function::TryReadMoment => {
                Box::new(Read::new(&ty.logical, function == Function::TryReadMoment)?)
            }
            Function::WriteMoment => Box::new(Write::new(&first.ty)?),
            Function::Abs
            | Function::Sign
            | Function::Round
            | Function::Floor
            | Function::Ceil
            | Function::Trunc
            | Function::Sqrt
            | Function::Power
            | Function::Exp
            | Function::Ln
            | Function::Log10 => Box::new(Math::new(function, &first.ty, ty)),
            Function::RegexpLike | Function::RegexpReplace => {
                let literal = |arg: &Expr| match &arg.kind {
                    ExprKind::Literal(Scalar::Str(value)) => Some(value.clone()),
                    _ => None,
                };
                let constants: Option<Vec<_>> = args[1..].iter().map(literal).collect();
                let constants = constants.filter(|c| !c.is_empty());
                let constants: Option<Vec<&str>> = constants.as_ref().map(|c| c.iter().map(|s| &**s).collect());
                Box::new(Regexp::new(function, constants.as_deref()))
            }
            _ => Box::new(Text { function, phys: ty.phys }),
        };
        let strings = !matches!(function, Function::Greatest | Function::Least | Function::OnlyRow);
        let args = args.iter().map(|arg| if strings { self.string(arg) } else { self.node(arg) });
        Ok(Kind::Call(compute, args.collect::<Result<_>>()?))
    }

    fn cast(&mut self, input: &Expr, ty: &ColType, try_cast: bool) -> Result<Kind> {
        if input.ty.phys != Phys::Code {
            return Ok(Kind::Cast(Cast::new(&input.ty, ty, try_cast), self.boxed(input)?));
        }
        let strings = self.node(&input.clone().widen(Phys::Str))?;
        Ok(Kind::Cast(Cast::new(&strings.ty, ty, try_cast), Box::new(strings)))
    }

    fn strings(&mut self, input: &Expr) -> Result<Kind> {
        let dictionary = input.ty.dictionary.as_ref();
        let dictionary = dictionary.ok_or_else(|| ExecError::Unsupported("codes without a dictionary".into()))?;
        Ok(Kind::CodeStrings(CodeStrings::new(dictionary), self.boxed(input)?))
    }

    fn literal(&mut self, value: &Scalar, ty: &ColType) -> Result<Vector> {
        let mismatch = || ExecError::Unsupported(format!("literal {value:?} held as {:?}", ty.phys));
        let data = match (value, ty.phys) {
            (Scalar::Null, phys) => return Ok(Vector::nulls(phys, 1)),
            (Scalar::Bool(value), Phys::Bool) => bool::wrap(vec![*value]),
            (Scalar::Int(value), Phys::I32) => i32::wrap(vec![i32::try_from(*value).map_err(|_| mismatch())?]),
            (Scalar::Int(value), Phys::I64) => i64::wrap(vec![i64::try_from(*value).map_err(|_| mismatch())?]),
            (Scalar::Int(value), Phys::I128) => i128::wrap(vec![*value]),
            (Scalar::Int(value), Phys::Code) => u32::wrap(vec![u32::try_from(*value).map_err(|_| mismatch())?]),
            (Scalar::Float(value), Phys::F32) => f32::wrap(vec![*value as f32]),
            (Scalar::Float(value), Phys::F64) => f64::wrap(vec![*value]),
            (Scalar::Str(value), Phys::Str) => Native::wrap(vec![self.worker.strings.alloc(value)]),
            _ => return Err(mismatch()),
        };
        Ok(Vector::new(data))
    }
}

/// The members of nested conjunctions (or disjunctions) as one list.
fn flat(list: Vec<Node>, conjunction: bool) -> Vec<Node> {
    let members = list.into_iter().flat_map(|node| match node.kind {
        Kind::And(inner) if conjunction => inner,
        Kind::Or(inner) if !conjunction => inner,
        _ => vec![node],
    });
    members.collect()
}

impl Kind {
    /// The direct operands.
    fn children(&self) -> Vec<&Node> {
        match self {
            Kind::Column(_) | Kind::Const(_) | Kind::Lookup(_) => vec![],
            Kind::Arith(_, left, right) | Kind::Compare(_, left, right) | Kind::NullIf(left, right) => {
                vec![left, right]
            }
            Kind::And(list) | Kind::Or(list) | Kind::Coalesce(list) | Kind::Call(_, list) => list.iter().collect(),
            Kind::CodeStrings(_, input)
            | Kind::Negate(_, input)
            | Kind::Not(input)
            | Kind::IsNull(input)
            | Kind::IsNotNull(input)
            | Kind::Cast(_, input)
            | Kind::Widen(input) => vec![input],
            Kind::Case(branches, otherwise) => {
                branches.iter().flat_map(|(when, then)| [when, then]).chain(otherwise.as_deref()).collect()
            }
        }
    }

    /// Whether the operation itself can be an error.
    fn fallible(&self, ty: &ColType) -> bool {
        match self {
            Kind::Arith(arith, ..) => {
                ty.phys.is_int() && (arith.checked || matches!(arith.op, ArithOp::Div | ArithOp::Mod))
            }
            Kind::Negate(checked, _) => *checked && ty.phys.is_int(),
            Kind::Cast(cast, _) => cast.fallible(),
            Kind::Call(function, _) => function.fallible(),
            _ => false,
        }
    }

    /// Whether the operation costs more per row than selecting rows does.
    fn heavy(&self) -> bool {
        match self {
            Kind::Compare(_, left, _) => left.phys() == Phys::Str,
            Kind::Arith(arith, ..) => matches!(arith.op, ArithOp::Div | ArithOp::Mod),
            Kind::Cast(..) | Kind::Case(..) => true,
            Kind::Call(function, _) => function.heavy(),
            _ => false,
        }
    }
}
