//! Strings as dictionary codes: a string that depends on few codes and integers is computed once per combination of them, and a choice among a few
//! constants becomes codes of these, so that groups, joins and sorts handle integers.

use std::sync::Arc;

use warpmill_eval::expr::recode;
use warpmill_format::Dictionary;
use warpmill_ir::recoding::{NO_CODE, digits};
use warpmill_ir::{ColType, Expr, ExprKind, Function, Phys, Recoding, Scalar};

/// Number of combinations that is always worth computing.
const FEW: usize = 1024;
/// Largest number of combinations for keys.
const MOST: usize = 1 << 16;
/// Largest number of combinations for columns that may not be keys.
const MOST_PROJECTED: usize = 1 << 12;

/// Largest number of code combinations that are computed before the first row is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit(usize);

impl Limit {
    /// The limit for keys of at most about `rows` rows.
    pub fn of_keys(rows: f64) -> Self {
        // Computing a combination takes no longer than a few rows do.
        Self((rows / 8.0).clamp(FEW as f64, MOST as f64) as usize)
    }

    /// The limit for columns, of any use, of at most about `rows` rows.
    pub fn of_columns(rows: f64) -> Self {
        Self(Self::of_keys(rows).0.min(MOST_PROJECTED))
    }

    /// Encodes `expr` as codes if it is a string that depends on few of them; otherwise returns it unchanged.
    pub fn encode(self, expr: Expr) -> Expr {
        self.encoded(&expr).unwrap_or(expr)
    }

    fn encoded(self, expr: &Expr) -> Option<Expr> {
        if expr.ty.phys != Phys::Str {
            return None;
        }
        if let ExprKind::Widen(input) = &expr.kind {
            return (input.ty.phys == Phys::Code).then(|| relabelled((**input).clone(), expr));
        }
        if let Some(recoded) = self.recoded(expr.clone()) {
            return Some(recoded);
        }
        match &expr.kind {
            ExprKind::Case { branches, otherwise } => {
                let values = branches.iter().map(|(_, then)| then).chain(otherwise.as_deref());
                let (mut values, dictionary) = self.alike(values)?;
                let ty = held_in(&expr.ty, dictionary);
                let otherwise = otherwise.as_ref().and_then(|_| values.pop()).map(Box::new);
                let branches = branches.iter().map(|(when, _)| when.clone()).zip(values).collect();
                Some(Expr { kind: ExprKind::Case { branches, otherwise }, ty })
            }
            ExprKind::Call { function: Function::Coalesce, args } => {
                let (args, dictionary) = self.alike(args.iter())?;
                let ty = held_in(&expr.ty, dictionary);
                Some(Expr { kind: ExprKind::Call { function: Function::Coalesce, args }, ty })
            }
            ExprKind::Call { function, args } => {
                // An argument may have fewer codes than its inputs have combinations.
                let mut changed = false;
                let args = args.iter().map(|arg| match self.encoded(arg) {
                    Some(encoded) => {
                        changed |= !matches!(encoded.kind, ExprKind::Column(_));
                        encoded.widen(Phys::Str)
                    }
                    None => arg.clone(),
                });
                let kind = ExprKind::Call { function: *function, args: args.collect() };
                if changed { self.recoded(Expr { kind, ty: expr.ty.clone() }) } else { None }
            }
            _ => None,
        }
    }

    /// `expr` as a code computed from its inputs, if these are codes and integers with few combinations.
    fn recoded(self, mut expr: Expr) -> Option<Expr> {
        let mut inputs = vec![];
        if !take_inputs(&mut expr, &mut inputs) || inputs.is_empty() {
            return None;
        }
        digits(&inputs).filter(|(_, combinations)| *combinations <= self.0)?;
        recode(expr, inputs)
    }

    /// Converts `values`, each a constant or encodable, to codes of one dictionary.
    fn alike<'a>(self, values: impl Iterator<Item = &'a Expr>) -> Option<(Vec<Expr>, Arc<Dictionary>)> {
        let encoded = |value: &'a Expr| match value.kind {
            ExprKind::Literal(_) => Some(value.clone()),
            _ => self.encoded(value),
        };
        let values: Vec<Expr> = values.map(encoded).collect::<Option<_>>()?;
        let dictionary = self.union(&values)?;
        let values = values.into_iter().map(|value| within(value, &dictionary)).collect::<Option<_>>()?;
        Some((values, dictionary))
    }

    /// The dictionary of all possible strings of `values` (constants and codes), if there are few.
    fn union(self, values: &[Expr]) -> Option<Arc<Dictionary>> {
        let mut dictionaries: Vec<&Arc<Dictionary>> = vec![];
        let mut entries: Vec<&str> = vec![];
        for value in values {
            match (&value.kind, &value.ty.dictionary) {
                (ExprKind::Literal(Scalar::Str(text)), _) => entries.push(text),
                (_, Some(dictionary)) if !dictionaries.iter().any(|known| Arc::ptr_eq(known, dictionary)) => {
                    dictionaries.push(dictionary);
                }
                _ => {}
            }
        }
        if dictionaries.iter().map(|dictionary| dictionary.len()).sum::<usize>() > self.0 {
            return None;
        }
        entries.sort_unstable();
        entries.dedup();
        if let [only] = dictionaries[..]
            && entries.iter().all(|entry| only.code(entry).is_some())
        {
            return Some(Arc::clone(only));
        }
        entries.extend(dictionaries.iter().flat_map(|dictionary| dictionary.iter()));
        entries.sort_unstable();
        entries.dedup();
        if entries.is_empty() { None } else { Some(Arc::new(Dictionary::from_sorted(entries))) }
    }

    /// Converts both keys of a join to codes of one dictionary if they are codes of two.
    pub fn one_dictionary(self, left: Expr, right: Expr) -> (Expr, Expr) {
        let (Some(a), Some(b)) = (&left.ty.dictionary, &right.ty.dictionary) else { return (left, right) };
        if Arc::ptr_eq(a, b) {
            return (left, right);
        }
        let both = [left, right];
        let alike = self.union(&both).and_then(|dictionary| {
            let [left, right] = &both;
            within(left.clone(), &dictionary).zip(within(right.clone(), &dictionary))
        });
        let [left, right] = both;
        alike.unwrap_or((left, right))
    }
}

/// Moves the sub-expressions of `expr` that are codes, and its integer columns, to `inputs`, and replaces them by columns. Returns whether `expr`
/// depends on nothing else.
fn take_inputs(expr: &mut Expr, inputs: &mut Vec<Expr>) -> bool {
    if matches!(expr.kind, ExprKind::Literal(_)) {
        return true;
    }
    let is_column = matches!(expr.kind, ExprKind::Column(_));
    if expr.ty.phys == Phys::Code || is_column && matches!(expr.ty.phys, Phys::I32 | Phys::I64) {
        let index = inputs.iter().position(|input| input == expr).unwrap_or_else(|| {
            inputs.push(expr.clone());
            inputs.len() - 1
        });
        *expr = Expr::column(index, expr.ty.clone());
        return true;
    }
    !is_column && expr.children_mut().into_iter().all(|child| take_inputs(child, inputs))
}

/// Converts `value`, a constant or a code, to a code of `dictionary`, which contains all its strings.
fn within(value: Expr, dictionary: &Arc<Dictionary>) -> Option<Expr> {
    let ty = held_in(&value.ty, Arc::clone(dictionary));
    match &value.kind {
        ExprKind::Literal(Scalar::Str(text)) => Some(Expr::literal(Scalar::Int(dictionary.code(text)?.into()), ty)),
        ExprKind::Literal(_) => Some(Expr::literal(Scalar::Null, ty)),
        _ => translated(value, dictionary),
    }
}

/// Converts `value`, a code, to a code of `dictionary`, which contains all its strings.
fn translated(value: Expr, dictionary: &Arc<Dictionary>) -> Option<Expr> {
    let own = Arc::clone(value.ty.dictionary.as_ref()?);
    let ty = held_in(&value.ty, Arc::clone(dictionary));
    if own.len() == dictionary.len() {
        // Equal dictionaries have equal codes.
        return Some(Expr { ty, ..value });
    }
    let new: Vec<u32> = own.iter().map(|entry| dictionary.code(entry)).collect::<Option<_>>()?;
    let of = |code: u32| new.get(code as usize).copied().unwrap_or(NO_CODE);
    let recoding = match value.kind {
        ExprKind::Recode(Recoding { inputs, codes, source }) => {
            Recoding { inputs, codes: codes.iter().map(|&code| of(code)).collect(), source }
        }
        _ => {
            let source = Arc::new(Expr::column(0, value.ty.clone()).widen(Phys::Str));
            Recoding { inputs: vec![value], codes: (0..=own.len() as u32).map(of).collect(), source }
        }
    };
    Some(Expr { kind: ExprKind::Recode(recoding), ty })
}

/// The type `ty` as codes of `dictionary`.
fn held_in(ty: &ColType, dictionary: Arc<Dictionary>) -> ColType {
    ColType { phys: Phys::Code, dictionary: Some(dictionary), ..ty.clone() }
}

/// `expr` as a value of the logical type of `of`.
fn relabelled(expr: Expr, of: &Expr) -> Expr {
    let ty = ColType { logical: of.ty.logical.clone(), ..expr.ty };
    Expr { kind: expr.kind, ty }
}
