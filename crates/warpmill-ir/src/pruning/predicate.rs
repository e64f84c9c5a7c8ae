//! Filters as conditions on ranks of columns.

use arrow::datatypes::{DataType, TimeUnit};
use warpmill_format::Dictionary;
use warpmill_format::pruning::{float_rank, integer_hash, last_rank_with_prefix, string_hash, string_rank};

use super::{CodeSets, Ranges};
use crate::{ArithOp, ColType, CompareOp, Expr, ExprKind, Function, Phys, Scalar};

/// A condition satisfied by every row for which a filter is true (and perhaps by others).
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Predicate {
    /// No row satisfies it.
    Never,
    /// Unknown: any row may satisfy it.
    Unknown,
    /// All of these are satisfied.
    All(Vec<Predicate>),
    /// One of these is satisfied.
    Any(Vec<Predicate>),
    /// The column's rank is in one of these ranges.
    Values(Values),
}

/// A condition on one column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Values {
    pub column: usize,
    pub ranges: Ranges,
    /// The hash of each range's value, if each range is a single value.
    pub hashes: Option<Vec<u64>>,
    /// Whether NULL satisfies it.
    pub nulls: bool,
}

impl Values {
    /// The conjunction of two conditions on one column.
    fn and(&self, other: &Self) -> Self {
        let ranges = self.ranges.intersection(&other.ranges);
        let hashes = ranges.as_slice().iter().map(|range| self.hash(range).or_else(|| other.hash(range)));
        Self { column: self.column, hashes: hashes.collect(), ranges, nulls: self.nulls && other.nulls }
    }

    /// The hash of the value of a range.
    fn hash(&self, range: &(i128, i128)) -> Option<u64> {
        let at = self.ranges.as_slice().binary_search(range).ok()?;
        self.hashes.as_ref().map(|hashes| hashes[at])
    }

    /// The disjunction as one condition; `None` if it would be weaker than the two (ranges would lose their hashes, or be too many to be tested at
    /// once) or stronger (several strings share a rank).
    fn or(&self, other: &Self) -> Option<Self> {
        if self.ranges.as_slice().len() + other.ranges.as_slice().len() > FEW_RANGES {
            return None;
        }
        let ranges = Ranges::union([self.ranges.as_slice(), other.ranges.as_slice()].concat());
        let hashes = match (&self.hashes, &other.hashes) {
            (None, None) => None,
            (Some(_), Some(_)) if self.ranges.intersection(&other.ranges).is_empty() => {
                let hash = |range| self.hash(range).or_else(|| other.hash(range));
                Some(ranges.as_slice().iter().map(hash).collect::<Option<_>>()?)
            }
            _ => return None,
        };
        Some(Self { column: self.column, ranges, hashes, nulls: self.nulls || other.nulls })
    }
}

/// Largest number of ranges tested against Bloom filters.
const MOST_POINTS: usize = 64;

/// Largest number of ranges that are tested against all zones at once; more are reduced to their hull.
pub(super) const FEW_RANGES: usize = 8;

/// Largest number of ranges of a condition.
pub(super) const MOST_RANGES: usize = 1024;

/// Largest number of months that are searched for ranges of a date field.
const MOST_MONTHS: i128 = 12 * 400;

impl Predicate {
    /// The condition that all of `filters` are true.
    pub fn of_filters(filters: &[Expr], codes: CodeSets<'_>) -> Self {
        all(filters.iter().map(|filter| compile(filter, true, codes)))
    }

    /// The condition that a column's integers or codes are in `ranges`.
    pub fn of_ranges(column: usize, ranges: Ranges) -> Self {
        values(column, ranges, false)
    }
}

fn all(list: impl Iterator<Item = Predicate>) -> Predicate {
    let mut kept: Vec<Predicate> = vec![];
    let flat = list.flat_map(|predicate| match predicate {
        Predicate::All(inner) => inner,
        other => vec![other],
    });
    for predicate in flat {
        match predicate {
            Predicate::Never => return Predicate::Never,
            Predicate::Unknown => {}
            Predicate::Values(new) => {
                let same = |p: &&mut Predicate| matches!(p, Predicate::Values(old) if old.column == new.column);
                match kept.iter_mut().find(same) {
                    Some(Predicate::Values(old)) => {
                        *old = old.and(&new);
                        if old.ranges.is_empty() && !old.nulls {
                            return Predicate::Never;
                        }
                    }
                    _ => kept.push(Predicate::Values(new)),
                }
            }
            other => kept.push(other),
        }
    }
    match kept.len() {
        0 => Predicate::Unknown,
        1 => kept.remove(0),
        _ => Predicate::All(kept),
    }
}

fn any(list: impl Iterator<Item = Predicate>) -> Predicate {
    let mut kept: Vec<Predicate> = vec![];
    let flat = list.flat_map(|predicate| match predicate {
        Predicate::Any(inner) => inner,
        other => vec![other],
    });
    for predicate in flat {
        match predicate {
            Predicate::Unknown => return Predicate::Unknown,
            Predicate::Never => {}
            Predicate::Values(new) => {
                let same = |p: &&mut Predicate| matches!(p, Predicate::Values(old) if old.column == new.column);
                let either = match kept.iter_mut().rfind(same) {
                    Some(Predicate::Values(old)) => old.or(&new).map(|both| (both, old)),
                    _ => None,
                };
                match either {
                    Some((both, old)) => *old = both,
                    None => kept.push(Predicate::Values(new)),
                }
            }
            other => kept.push(other),
        }
    }
    match kept.len() {
        0 => Predicate::Never,
        1 => kept.remove(0),
        _ => Predicate::Any(kept),
    }
}

fn values(column: usize, ranges: Ranges, nulls: bool) -> Predicate {
    if ranges.is_empty() && !nulls {
        return Predicate::Never;
    }
    let ranges = ranges.with_at_most(MOST_RANGES);
    let points = ranges.as_slice();
    let few = points.len() <= MOST_POINTS && points.iter().all(|(lo, hi)| lo == hi);
    let hashes = few.then(|| points.iter().map(|(rank, _)| integer_hash(*rank)).collect());
    Predicate::Values(Values { column, ranges, hashes, nulls })
}

/// The condition that `expr` is `truth` (and not NULL).
fn compile(expr: &Expr, truth: bool, codes: CodeSets<'_>) -> Predicate {
    match &expr.kind {
        ExprKind::Literal(Scalar::Bool(value)) if *value == truth => Predicate::Unknown,
        ExprKind::Literal(Scalar::Bool(_) | Scalar::Null) => Predicate::Never,
        ExprKind::And(list) if truth => all(list.iter().map(|e| compile(e, true, codes))),
        ExprKind::And(list) => any(list.iter().map(|e| compile(e, false, codes))),
        ExprKind::Or(list) if truth => any(list.iter().map(|e| compile(e, true, codes))),
        ExprKind::Or(list) => all(list.iter().map(|e| compile(e, false, codes))),
        ExprKind::Not(input) => compile(input, !truth, codes),
        ExprKind::IsNull(input) | ExprKind::IsNotNull(input) => {
            let null = matches!(expr.kind, ExprKind::IsNull(_)) == truth;
            match input.kind {
                ExprKind::Column(column) if null => values(column, Ranges::default(), true),
                ExprKind::Column(column) => values(column, Ranges::all(), false),
                _ => Predicate::Unknown,
            }
        }
        _ => leaf(expr, truth).or_else(|| by_codes(expr, truth, codes)).unwrap_or(Predicate::Unknown),
    }
}

/// A predicate of a dictionary column.
fn by_codes(expr: &Expr, truth: bool, codes: CodeSets<'_>) -> Option<Predicate> {
    let set = match truth {
        true => codes(expr)?,
        false => codes(&Expr { kind: ExprKind::Not(Box::new(expr.clone())), ty: expr.ty.clone() })?,
    };
    Some(values(set.column, Ranges::of_bits(&set.codes, 0, MOST_RANGES), set.null))
}

fn leaf(expr: &Expr, truth: bool) -> Option<Predicate> {
    Some(match &expr.kind {
        ExprKind::Column(column) if expr.ty.phys == Phys::Bool => {
            values(*column, Ranges::of(truth.into(), truth.into()), false)
        }
        ExprKind::Compare { op, left, right } => match (literal(left), literal(right)) {
            (None, Some(value)) => compare(*op, left, value, truth)?,
            (Some(value), None) => compare(op.mirrored(), right, value, truth)?,
            _ => return None,
        },
        ExprKind::InList { input, list, has_null, negated } => {
            // With a NULL in the list, a value outside of the list compares as unknown.
            if truth == *negated && *has_null {
                return Some(Predicate::Never);
            }
            if let Some((column, dictionary)) = dictionary_of(input) {
                let codes = list.iter().map(|value| match value {
                    Scalar::Str(text) => {
                        Some((dictionary.lower_bound(text).into(), i128::from(codes_end(dictionary, text)) - 1))
                    }
                    _ => None,
                });
                let listed = Ranges::union(codes.collect::<Option<_>>()?);
                let ranges = if truth == *negated { listed.complement() } else { listed };
                return Some(values(column, within_codes(&ranges, dictionary), false));
            }
            if truth == *negated && input.ty.phys == Phys::Str {
                return None;
            }
            let ranks = list.iter().map(|value| rank(value, input.ty.phys)).collect::<Option<Vec<_>>>()?;
            let ranges = Ranges::union(ranks.into_iter().map(|rank| (rank, rank)).collect());
            let ranges = if truth == *negated { ranges.complement() } else { ranges };
            let (column, ranges) = pull_back(input, ranges)?;
            match (input.ty.phys, values(column, ranges, false)) {
                (Phys::Str, Predicate::Values(values)) => {
                    let hashes = string_hashes(list, &values.ranges);
                    Predicate::Values(Values { hashes, ..values })
                }
                (_, predicate) => predicate,
            }
        }
        ExprKind::Like { input, pattern, escape, case_insensitive: false, negated } if *negated != truth => {
            let escape = escape.unwrap_or('\\');
            let end = pattern.find(['%', '_', escape]).unwrap_or(pattern.len());
            prefix(input, &pattern[..end])?
        }
        ExprKind::Call { function: Function::StartsWith, args } if truth => match &args[..] {
            [input, Expr { kind: ExprKind::Literal(Scalar::Str(text)), .. }] => prefix(input, text)?,
            _ => return None,
        },
        _ => return None,
    })
}

/// The hash of the string at each of `ranges`, if each is a single string of `list`.
fn string_hashes(list: &[Scalar], ranges: &Ranges) -> Option<Vec<u64>> {
    let hashed = list.iter().map(|value| match value {
        Scalar::Str(text) => Some((string_rank(text.as_bytes()), string_hash(text.as_bytes()))),
        _ => None,
    });
    let mut hashed = hashed.collect::<Option<Vec<_>>>()?;
    hashed.sort_unstable();
    hashed.dedup();
    let points = ranges.as_slice();
    let alike = hashed.len() == points.len() && hashed.iter().zip(points).all(|(h, p)| (h.0, h.0) == *p);
    (alike && points.len() <= MOST_POINTS).then(|| hashed.into_iter().map(|(_, hash)| hash).collect())
}

/// The condition that a string column begins with `text`.
fn prefix(input: &Expr, text: &str) -> Option<Predicate> {
    match input.kind {
        ExprKind::Column(column) if input.ty.phys == Phys::Str => {
            let ranges = Ranges::of(string_rank(text.as_bytes()), last_rank_with_prefix(text.as_bytes()));
            Some(Predicate::Values(Values { column, ranges, hashes: None, nulls: false }))
        }
        _ => None,
    }
}

/// The condition that comparing `input` with `value` results in `truth`.
fn compare(op: CompareOp, input: &Expr, value: &Scalar, truth: bool) -> Option<Predicate> {
    use CompareOp::{Eq, Ge, Gt, IsDistinct, IsNotDistinct, Le, Lt, Ne};
    let op = match (op, truth) {
        (op, true) => op,
        (Eq, false) => Ne,
        (Ne, false) => Eq,
        (Lt, false) => Ge,
        (Le, false) => Gt,
        (Gt, false) => Le,
        (Ge, false) => Lt,
        (IsDistinct, false) => IsNotDistinct,
        (IsNotDistinct, false) => IsDistinct,
    };
    if *value == Scalar::Null {
        return match (op, &input.kind) {
            (IsNotDistinct, ExprKind::Column(column)) => Some(values(*column, Ranges::default(), true)),
            (IsDistinct, ExprKind::Column(column)) => Some(values(*column, Ranges::all(), false)),
            (IsDistinct | IsNotDistinct, _) => None,
            _ => Some(Predicate::Never),
        };
    }
    if let (Some((column, dictionary)), Scalar::Str(text)) = (dictionary_of(input), value) {
        let (first, end) = (i128::from(dictionary.lower_bound(text)), i128::from(codes_end(dictionary, text)));
        let ranges = match op {
            Eq | IsNotDistinct => Ranges::of(first, end - 1),
            Ne | IsDistinct => Ranges::of(first, end - 1).complement(),
            Lt => Ranges::of(i128::MIN, first - 1),
            Le => Ranges::of(i128::MIN, end - 1),
            Gt => Ranges::of(end, i128::MAX),
            Ge => Ranges::of(first, i128::MAX),
        };
        return Some(values(column, within_codes(&ranges, dictionary), op == IsDistinct));
    }
    let text = input.ty.phys == Phys::Str;
    let at = rank(value, input.ty.phys)?;
    let (below, above) = (Ranges::of(i128::MIN, at.saturating_sub(1)), Ranges::of(at.saturating_add(1), i128::MAX));
    let (up_to, from) = (Ranges::of(i128::MIN, at), Ranges::of(at, i128::MAX));
    let ranges = match op {
        Eq | IsNotDistinct => Ranges::of(at, at),
        // Different strings may have one rank.
        Ne | IsDistinct if text => Ranges::all(),
        Lt if text => up_to,
        Gt if text => from,
        Ne | IsDistinct => Ranges::of(at, at).complement(),
        Lt => below,
        Le => up_to,
        Gt => above,
        Ge => from,
    };
    let (column, ranges) = pull_back(input, ranges)?;
    // An expression of NULL is NULL.
    let predicate = values(column, ranges, op == IsDistinct);
    Some(match (predicate, value) {
        (Predicate::Values(values), Scalar::Str(value)) if text => {
            let hashes = matches!(op, Eq | IsNotDistinct).then(|| vec![string_hash(value.as_bytes())]);
            Predicate::Values(Values { hashes, ..values })
        }
        (predicate, _) => predicate,
    })
}

/// The column and the dictionary of `expr`, if it is a column's codes converted to strings.
fn dictionary_of(expr: &Expr) -> Option<(usize, &Dictionary)> {
    match &expr.kind {
        ExprKind::Widen(input) if expr.ty.phys == Phys::Str && input.ty.phys == Phys::Code => match input.kind {
            ExprKind::Column(column) => Some((column, input.ty.dictionary.as_deref()?)),
            _ => None,
        },
        _ => None,
    }
}

/// The end of the codes of strings up to and including `text`.
fn codes_end(dictionary: &Dictionary, text: &str) -> u32 {
    let first = dictionary.lower_bound(text);
    first + u32::from((first as usize) < dictionary.len() && dictionary.get(first) == text)
}

/// `ranges` restricted to valid codes.
fn within_codes(ranges: &Ranges, dictionary: &Dictionary) -> Ranges {
    ranges.intersection(&Ranges::of(0, dictionary.len() as i128 - 1))
}

fn literal(expr: &Expr) -> Option<&Scalar> {
    match &expr.kind {
        ExprKind::Literal(value) => Some(value),
        ExprKind::Widen(input) if expr.ty.phys != Phys::Str => literal(input),
        _ => None,
    }
}

/// The rank of a constant in representation `phys`.
fn rank(value: &Scalar, phys: Phys) -> Option<i128> {
    match (value, phys) {
        (Scalar::Int(value), Phys::I32 | Phys::I64 | Phys::I128 | Phys::Code) => Some(*value),
        (Scalar::Bool(value), Phys::Bool) => Some((*value).into()),
        (Scalar::Float(value), Phys::F64) => Some(float_rank(*value)),
        (Scalar::Float(value), Phys::F32) => Some(float_rank(f64::from(*value as f32))),
        (Scalar::Str(value), Phys::Str) => Some(string_rank(value.as_bytes())),
        _ => None,
    }
}

/// The column that `expr` is a function of, and the ranks of the column for which the result is in `ranges`.
fn pull_back(expr: &Expr, ranges: Ranges) -> Option<(usize, Ranges)> {
    match &expr.kind {
        ExprKind::Column(column) => Some((*column, ranges)),
        ExprKind::Widen(input) if input.ty.phys.is_int() => pull_back(input, ranges),
        ExprKind::Cast { input, .. } => {
            let factor = match (input.ty.phys, expr.ty.phys) {
                (Phys::F32, Phys::F64) => 1,
                (from, to) if from.is_int() && to.is_int() => proven_factor(input, expr)?,
                _ => return None,
            };
            pull_back(input, divided(&ranges, factor))
        }
        // Expressions that may fail are left to the rows, so that the error is raised.
        ExprKind::Negate { input, checked: false } if expr.ty.phys.is_int() => {
            pull_back(input, ranges.map(|&(lo, hi)| Some((hi.saturating_neg(), lo.saturating_neg()))))
        }
        ExprKind::Arith { op: op @ (ArithOp::Add | ArithOp::Sub), left, right, checked: false }
            if expr.ty.phys.is_int() =>
        {
            match (op, literal(left), literal(right)) {
                (ArithOp::Add, None, Some(Scalar::Int(by))) => pull_back(left, shifted(&ranges, by.checked_neg()?)),
                (ArithOp::Add, Some(Scalar::Int(by)), None) => pull_back(right, shifted(&ranges, by.checked_neg()?)),
                (ArithOp::Sub, None, Some(Scalar::Int(by))) => pull_back(left, shifted(&ranges, *by)),
                (ArithOp::Sub, Some(Scalar::Int(from)), None) => {
                    let negated = ranges.map(|&(lo, hi)| Some((hi.saturating_neg(), lo.saturating_neg())));
                    pull_back(right, shifted(&negated, *from))
                }
                _ => None,
            }
        }
        ExprKind::Call { function: Function::DatePart, args } if expr.ty.phys.is_int() => match &args[..] {
            [Expr { kind: ExprKind::Literal(Scalar::Str(field)), .. }, input] => {
                pull_back(input, field_ranges(field, input, &ranges)?)
            }
            _ => None,
        },
        _ => None,
    }
}

fn shifted(ranges: &Ranges, by: i128) -> Ranges {
    // Open ends stay open.
    let shift = |x: i128| if x == i128::MIN || x == i128::MAX { x } else { x.saturating_add(by) };
    ranges.map(|&(lo, hi)| Some((shift(lo), shift(hi))))
}

/// The numbers whose product with `factor` is in `ranges`.
fn divided(ranges: &Ranges, factor: i128) -> Ranges {
    let up = |x: i128| x.div_euclid(factor) + i128::from(x.rem_euclid(factor) != 0);
    ranges.map(|&(lo, hi)| {
        Some((if lo == i128::MIN { lo } else { up(lo) }, if hi == i128::MAX { hi } else { hi.div_euclid(factor) }))
    })
}

/// The factor by which a cast multiplies unscaled integers, if it cannot fail.
fn proven_factor(input: &Expr, expr: &Expr) -> Option<i128> {
    let factor = factor(&input.ty.logical, &expr.ty.logical)?;
    let ((lo, hi), (least, greatest)) = (input.ty.range?, ColType::range_of(&expr.ty.logical)?);
    (lo.checked_mul(factor)? >= least && hi.checked_mul(factor)? <= greatest).then_some(factor)
}

/// The factor by which a cast multiplies unscaled integers; `None` for casts that do more than that.
fn factor(from: &DataType, to: &DataType) -> Option<i128> {
    let scale = |ty: &DataType| match ty {
        DataType::Decimal32(_, s) | DataType::Decimal64(_, s) | DataType::Decimal128(_, s) => Some(*s),
        ty if ty.is_integer() => Some(0),
        _ => None,
    };
    if from == to {
        return Some(1);
    }
    if let (Some(from), Some(to)) = (scale(from), scale(to)) {
        let digits = u32::try_from(i32::from(to) - i32::from(from)).ok()?;
        return 10i128.checked_pow(digits);
    }
    match (from, to) {
        (DataType::Date32, DataType::Timestamp(unit, None)) => Some(86_400 * per_second(unit)),
        // The same instant in finer ticks.
        (DataType::Timestamp(from, zone), DataType::Timestamp(to, other)) if zone == other => {
            let (from, to) = (per_second(from), per_second(to));
            (to >= from).then(|| to / from)
        }
        _ => None,
    }
}

fn per_second(unit: &TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// The ranks of a date or timestamp, within its proven range, whose year, quarter or month is in `ranges`.
fn field_ranges(field: &str, input: &Expr, ranges: &Ranges) -> Option<Ranges> {
    let part: fn(i128, i128) -> i128 = match field.to_ascii_lowercase().as_str() {
        "year" => |year, _| year,
        "quarter" => |_, month| (month - 1) / 3 + 1,
        "month" => |_, month| month,
        _ => return None,
    };
    let day = match &input.ty.logical {
        DataType::Date32 => 1,
        DataType::Timestamp(unit, None) => 86_400 * per_second(unit),
        _ => return None,
    };
    let (lo, hi) = input.ty.range?;
    let months = |rank: i128| {
        let (year, month) = month_of(rank.div_euclid(day));
        12 * year + month - 1
    };
    let (first, last) = (months(lo), months(hi));
    if last - first > MOST_MONTHS {
        return None;
    }
    let start = |months: i128| first_day(months.div_euclid(12), months.rem_euclid(12) + 1) * day;
    let within = (first..=last).filter(|m| ranges.contains(part(m.div_euclid(12), m.rem_euclid(12) + 1)));
    Some(Ranges::union(within.map(|m| (start(m), start(m + 1) - 1)).collect()))
}

/// Days from 1970-01-01 to the first of a month of the proleptic Gregorian calendar.
fn first_day(year: i128, month: i128) -> i128 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year and month of a day.
fn month_of(day: i128) -> (i128, i128) {
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + i128::from(month <= 2), month)
}
