//! Expressions: trees over the columns of an operator's input, with SQL's three-valued logic.
//!
//! Invariants that the translator establishes and back ends rely on:
//! - operands of `Arith` have the result's representation ([`ColType::phys`]) and, for `Add`/`Sub`/`Mod`, its decimal scale;
//! - operands of `Compare` have equal representation, scale and (for `Code`) the same dictionary;
//! - all branches of `Case`/`Coalesce`/`NullIf` have the result's type;
//! - the result of `Recode` and its inputs are codes;
//! - only `checked` arithmetic can exceed its representation; ranges prove that all other arithmetic does not.

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::recoding::Recoding;
use crate::types::{ColType, Phys};

/// A constant. Floats are compared by bits: the two zeros differ, and a NaN equals itself.
#[derive(Debug, Clone)]
pub enum Scalar {
    /// NULL of the expression's type.
    Null,
    /// A truth value.
    Bool(bool),
    /// An unscaled integer (or a dictionary code).
    Int(i128),
    /// A float of either width.
    Float(f64),
    /// A string.
    Str(Arc<str>),
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Str(a), Self::Str(b)) => a == b,
            _ => false,
        }
    }
}

/// Arithmetic on numbers of one representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArithOp {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product (decimal scales add up).
    Mul,
    /// Quotient; integers and decimals truncate toward zero after the dividend is scaled up by 10^`Expr`'s scale rule
    /// (see [`ExprKind::Arith`]); division by zero is an error for integers and decimals, IEEE for floats.
    Div,
    /// Remainder, sign of the dividend; by zero: an error for integers and decimals.
    Mod,
}

/// Comparisons. Floats compare with NaN equal to itself and greater than everything (as DuckDB and Arrow order them).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// `=`
    Eq,
    /// `<>`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `IS DISTINCT FROM`: never NULL.
    IsDistinct,
    /// `IS NOT DISTINCT FROM`: never NULL.
    IsNotDistinct,
}

impl CompareOp {
    /// The comparison with its operands exchanged: `a < b` is `b > a`.
    pub fn mirrored(self) -> Self {
        match self {
            Self::Lt => Self::Gt,
            Self::Le => Self::Ge,
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
            other => other,
        }
    }
}

/// Scalar functions. Argument and result types are those of the DataFusion function of the same name.
///
/// Representations of arguments: strings as `Str`, integers (positions, counts) and timestamps as `I64`, dates as `I32`; the arguments of `Abs`,
/// `Coalesce`, `NullIf`, `Greatest` and `Least` as the result. The numeric functions from `Sign` to `Log10` take floats only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is the SQL function of its name")]
pub enum Function {
    // strings
    Substr,
    CharLength,
    OctetLength,
    Upper,
    Lower,
    /// Upper case by the simple case mapping: see [`crate::scalar::case`].
    SimpleUpper,
    /// Lower case by the simple case mapping.
    SimpleLower,
    Trim,
    LTrim,
    RTrim,
    Concat,
    StartsWith,
    EndsWith,
    Contains,
    StrPos,
    Left,
    Right,
    Replace,
    RegexpLike,
    RegexpReplace,
    // numbers
    Abs,
    Sign,
    Round,
    Floor,
    Ceil,
    Trunc,
    Sqrt,
    Power,
    Exp,
    Ln,
    Log10,
    // dates and timestamps: the field is named by the first argument, a string literal, as in date_part('year', x)
    DatePart,
    DateTrunc,
    /// Parses a date or a timestamp, see [`crate::scalar::moments`]. Other texts are errors.
    ReadMoment,
    /// As `ReadMoment`, but NULL for other texts.
    TryReadMoment,
    /// Formats a date or a timestamp.
    WriteMoment,
    // conditionals
    Coalesce,
    NullIf,
    Greatest,
    Least,
    /// The first argument, the value of a scalar subquery; the second argument is its number of rows: an error if more than one.
    OnlyRow,
}

/// An expression and its type.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// Kind of the expression.
    pub kind: ExprKind,
    /// The type of its value.
    pub ty: ColType,
}

/// The kinds of expressions.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// Column `i` of the operator's input.
    Column(usize),
    /// A constant.
    Literal(Scalar),
    /// Arithmetic. For `Div` of decimals: result = left * 10^(s_result - s_left + s_right) / right (s = decimal scale; the exponent is never
    /// negative), rounded half away from zero, unlike DataFusion's decimal division, which truncates. With `checked`, a result outside the
    /// representation (or, for decimals, the precision) is an error.
    #[allow(missing_docs, reason = "fields are named after their role")]
    Arith { op: ArithOp, left: Box<Expr>, right: Box<Expr>, checked: bool },
    /// Arithmetic negation.
    #[allow(missing_docs, reason = "fields are named after their role")]
    Negate { input: Box<Expr>, checked: bool },
    /// Comparison.
    #[allow(missing_docs, reason = "fields are named after their role")]
    Compare { op: CompareOp, left: Box<Expr>, right: Box<Expr> },
    /// Conjunction (three-valued).
    And(Vec<Expr>),
    /// Disjunction (three-valued).
    Or(Vec<Expr>),
    /// Negation (three-valued).
    Not(Box<Expr>),
    /// Whether the input is NULL.
    IsNull(Box<Expr>),
    /// Whether the input is not NULL.
    IsNotNull(Box<Expr>),
    /// The value of the first branch whose condition is true, else `otherwise`, else NULL.
    #[allow(missing_docs, reason = "fields are named after their role")]
    Case { branches: Vec<(Expr, Expr)>, otherwise: Option<Box<Expr>> },
    /// Conversion to another logical type; a value that does not convert is an error, or NULL with `try_cast`.
    #[allow(missing_docs, reason = "fields are named after their role")]
    Cast { input: Box<Expr>, try_cast: bool },
    /// The same value in another representation: integers widen, `Code` becomes `Str`.
    Widen(Box<Expr>),
    /// Membership in a list of constants of the input's representation. NULLs as in SQL: `x IN (1, NULL)` is true or NULL; `list` contains no NULLs,
    /// `has_null` tells whether there was one.
    #[allow(missing_docs, reason = "fields are named after their role")]
    InList { input: Box<Expr>, list: Vec<Scalar>, has_null: bool, negated: bool },
    /// SQL LIKE on strings with a constant pattern; `\` escapes unless another character is given.
    #[allow(missing_docs, reason = "fields are named after their role")]
    Like { input: Box<Expr>, pattern: Arc<str>, escape: Option<char>, case_insensitive: bool, negated: bool },
    /// A date or timestamp plus a constant interval (calendar months first, clamped to the month's last day).
    #[allow(missing_docs, reason = "fields are named after their role")]
    AddInterval { input: Box<Expr>, months: i32, days: i32, nanos: i64 },
    /// A scalar function.
    #[allow(missing_docs, reason = "fields are named after their role")]
    Call { function: Function, args: Vec<Expr> },
    /// A string computed from dictionary codes, as a code of the type's dictionary.
    Recode(Recoding),
}

impl Expr {
    /// Column `index` of type `ty`.
    pub fn column(index: usize, ty: ColType) -> Self {
        Self { kind: ExprKind::Column(index), ty }
    }

    /// A constant.
    pub fn literal(value: Scalar, ty: ColType) -> Self {
        Self { kind: ExprKind::Literal(value), ty }
    }

    /// The truth value `value`.
    pub fn bool(value: bool) -> Self {
        let ty =
            ColType { logical: DataType::Boolean, phys: Phys::Bool, nullable: false, range: None, dictionary: None };
        Self::literal(Scalar::Bool(value), ty)
    }

    /// The conjunction of `list`: true when empty.
    pub fn all(mut list: Vec<Expr>) -> Self {
        if list.len() == 1 {
            return list.remove(0);
        }
        let nullable = list.iter().any(|e| e.ty.nullable);
        let ty = Self::bool(true).ty.with_nullable(nullable);
        if list.is_empty() { Self::bool(true) } else { Self { kind: ExprKind::And(list), ty } }
    }

    /// This expression converted to representation `phys`, if necessary.
    pub fn widen(self, phys: Phys) -> Self {
        if self.ty.phys == phys {
            return self;
        }
        let ty = self.ty.widened(phys);
        match self.kind {
            ExprKind::Literal(ref value) if phys.is_int() => Self::literal(value.clone(), ty),
            _ => Self { kind: ExprKind::Widen(Box::new(self)), ty },
        }
    }

    /// The direct operands.
    pub fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Column(_) | ExprKind::Literal(_) => vec![],
            ExprKind::Arith { left, right, .. } | ExprKind::Compare { left, right, .. } => vec![left, right],
            ExprKind::And(list) | ExprKind::Or(list) => list.iter().collect(),
            ExprKind::Not(input)
            | ExprKind::IsNull(input)
            | ExprKind::IsNotNull(input)
            | ExprKind::Widen(input)
            | ExprKind::Negate { input, .. }
            | ExprKind::Cast { input, .. }
            | ExprKind::InList { input, .. }
            | ExprKind::Like { input, .. }
            | ExprKind::AddInterval { input, .. } => vec![input],
            ExprKind::Case { branches, otherwise } => {
                branches.iter().flat_map(|(when, then)| [when, then]).chain(otherwise.as_deref()).collect()
            }
            ExprKind::Call { args, .. } => args.iter().collect(),
            ExprKind::Recode(recoding) => recoding.inputs.iter().collect(),
        }
    }

    /// The direct operands, mutable, in the order of [`Expr::children`].
    pub fn children_mut(&mut self) -> Vec<&mut Expr> {
        match &mut self.kind {
            ExprKind::Column(_) | ExprKind::Literal(_) => vec![],
            ExprKind::Arith { left, right, .. } | ExprKind::Compare { left, right, .. } => vec![left, right],
            ExprKind::And(list) | ExprKind::Or(list) => list.iter_mut().collect(),
            ExprKind::Not(input)
            | ExprKind::IsNull(input)
            | ExprKind::IsNotNull(input)
            | ExprKind::Widen(input)
            | ExprKind::Negate { input, .. }
            | ExprKind::Cast { input, .. }
            | ExprKind::InList { input, .. }
            | ExprKind::Like { input, .. }
            | ExprKind::AddInterval { input, .. } => vec![input],
            ExprKind::Case { branches, otherwise } => {
                branches.iter_mut().flat_map(|(when, then)| [when, then]).chain(otherwise.as_deref_mut()).collect()
            }
            ExprKind::Call { args, .. } => args.iter_mut().collect(),
            ExprKind::Recode(recoding) => recoding.inputs.iter_mut().collect(),
        }
    }

    /// Whether evaluation succeeds for every row: no overflow, no division by zero, no failing conversion. May return false for total expressions:
    /// functions count as partial, except conditionals.
    pub fn is_total(&self) -> bool {
        let own = match &self.kind {
            ExprKind::Arith { op: ArithOp::Div | ArithOp::Mod, .. } => !self.ty.phys.is_int(),
            ExprKind::Arith { checked, .. } | ExprKind::Negate { checked, .. } => !checked,
            ExprKind::Cast { input, try_cast } => *try_cast || self.ty.phys == Phys::F64 && input.ty.phys.is_int(),
            ExprKind::AddInterval { .. } => false,
            ExprKind::Call { function, .. } => {
                matches!(function, Function::Coalesce | Function::NullIf | Function::Greatest | Function::Least)
            }
            ExprKind::Column(_)
            | ExprKind::Literal(_)
            | ExprKind::Compare { .. }
            | ExprKind::And(_)
            | ExprKind::Or(_)
            | ExprKind::Not(_)
            | ExprKind::IsNull(_)
            | ExprKind::IsNotNull(_)
            | ExprKind::Case { .. }
            | ExprKind::Widen(_)
            | ExprKind::Recode(_)
            | ExprKind::InList { .. }
            | ExprKind::Like { .. } => true,
        };
        own && self.children().into_iter().all(Expr::is_total)
    }

    /// Calls `f` with the index of every column read, once per occurrence.
    pub fn visit_columns(&self, f: &mut impl FnMut(usize)) {
        if let ExprKind::Column(index) = self.kind {
            f(index);
        }
        self.children().into_iter().for_each(|child| child.visit_columns(f));
    }

    /// Replaces every column index `i` by `f(i)`.
    pub fn remap_columns(&mut self, f: &impl Fn(usize) -> usize) {
        if let ExprKind::Column(index) = &mut self.kind {
            *index = f(*index);
        }
        self.children_mut().into_iter().for_each(|child| child.remap_columns(f));
    }
}
