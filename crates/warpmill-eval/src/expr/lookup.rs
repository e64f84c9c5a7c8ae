//! Sub-expressions over one dictionary column: evaluated once per dictionary entry, then looked up by code.

use std::borrow::Cow;
use std::sync::Arc;

use warpmill_format::{Bitmap, Dictionary, StrView};
use warpmill_ir::pruning::CodeSet;
use warpmill_ir::{Expr, ExprKind, Phys, Scalar};

use super::node::Node;
use super::prepare;
use super::value::{Bits, Native, Value, both, map, with_native};
use crate::chunk::Chunk;
use crate::memory::{QueryMemory, StringArena, Worker};
use crate::vector::{Data, Vector};

/// Larger dictionaries are not worth evaluating whole before the first row is seen.
const MAX_ENTRIES: usize = 100_000;

/// The values of an expression over one dictionary column, by code.
#[derive(Debug)]
pub(super) struct Lookup {
    /// The column of codes.
    pub column: usize,
    /// One row per code, and one more for NULL. Out-of-range codes (of NULL rows) read the last row.
    table: Vector,
    /// Keeps the bytes of entries alive.
    _dictionary: Arc<Dictionary>,
}

impl Lookup {
    /// The table of `expr`, if it reads exactly one column, of codes, does more with it than comparing codes, and succeeds for every entry.
    pub fn of(expr: &Expr, worker: &mut Worker) -> Option<Self> {
        if is_cheap_on_codes(expr) { None } else { Self::tabulate(expr, worker) }
    }

    /// The table of `expr`, if it reads exactly one column, of codes, and succeeds for every entry.
    pub fn tabulate(expr: &Expr, worker: &mut Worker) -> Option<Self> {
        let (column, dictionary) = only_code_column(expr)?;
        if dictionary.len() > MAX_ENTRIES {
            return None;
        }
        let mut expr = expr.clone();
        expr.remap_columns(&|_| 0);
        let node = prepare::without_lookups(&expr, worker).ok()?;
        let table = table(&node, dictionary.len(), worker)?;
        Some(Self { column, table, _dictionary: dictionary })
    }

    fn null_row(&self) -> usize {
        self.table.len() - 1
    }

    /// The codes that index the table: NULL rows read the last row where that has a value.
    fn indexes<'a>(&self, codes: &'a Vector) -> Cow<'a, [u32]> {
        let values = u32::values(&codes.data);
        match &codes.validity {
            Some(valid) if self.table.is_valid(self.null_row()) => {
                let null = self.null_row() as u32;
                values.iter().enumerate().map(|(i, &code)| if valid.get(i) { code } else { null }).collect()
            }
            _ => Cow::Borrowed(values),
        }
    }

    /// The valid rows, given their table indexes.
    fn validity(&self, codes: &Vector, indexes: &[u32]) -> Option<Bitmap> {
        let null = self.null_row();
        let of_rows = if self.table.is_valid(null) { None } else { codes.validity.as_ref() };
        let nulls_in_table =
            self.table.validity.as_ref().filter(|v| v.count_ones() + usize::from(!v.get(null)) < v.len());
        let of_entries =
            nulls_in_table.map(|v| Bitmap::from_fn(indexes.len(), |i| v.get((indexes[i] as usize).min(null))));
        both(of_rows, of_entries.as_ref())
    }

    /// The value for each code.
    pub fn eval(&self, codes: &Vector) -> Value {
        let indexes = self.indexes(codes);
        let null = self.null_row();
        let data = with_native!(self.table.data.phys(), T => {
            let table = &T::values(&self.table.data)[..=null];
            T::wrap(indexes.iter().map(|&code| table[(code as usize).min(null)]).collect())
        });
        Value::rows(Vector::with_validity(data, self.validity(codes, &indexes)))
    }

    /// The truth value for each code.
    pub fn bits(&self, codes: &Vector) -> Bits {
        let indexes = self.indexes(codes);
        let null = self.null_row();
        let table = &bool::values(&self.table.data)[..=null];
        let truth = super::value::bits_of(&indexes, |code| table[(code as usize).min(null)]);
        Bits::new(truth, self.validity(codes, &indexes))
    }

    /// The codes for which a predicate is true, if it is not true for NULL.
    pub fn code_set(&self) -> Option<Bitmap> {
        let null = self.null_row();
        let truth = bool::values(&self.table.data);
        let holds = |row: usize| truth[row] && self.table.is_valid(row);
        (!holds(null)).then(|| Bitmap::from_fn(null, holds))
    }
}

/// The values of an expression over one dictionary column, by code, for back ends that look them up.
#[derive(Debug)]
pub struct Table {
    /// The column of codes.
    pub column: usize,
    /// One row per code, and one more for NULL.
    pub values: Vector,
    /// Keep the bytes of strings alive.
    _owners: (StringArena, Arc<Dictionary>),
}

/// The values of `expr` by code, if it reads exactly one column, of codes, does more with it than comparing codes, and succeeds for every entry.
pub fn tabulate(expr: &Expr) -> Option<Table> {
    let mut worker = Worker::new(&Arc::new(QueryMemory::for_planning()));
    let Lookup { column, table, _dictionary } = Lookup::of(expr, &mut worker)?;
    Some(Table { column, values: table, _owners: (std::mem::take(&mut worker.strings), _dictionary) })
}

/// The codes for which `expr` is true, if it is a predicate that reads exactly one column, of codes, and succeeds for every entry.
pub fn code_set(expr: &Expr) -> Option<CodeSet> {
    if expr.ty.phys != Phys::Bool {
        return None;
    }
    let mut worker = Worker::new(&Arc::new(QueryMemory::for_planning()));
    let lookup = Lookup::tabulate(expr, &mut worker)?;
    let truth = bool::values(&lookup.table.data);
    let holds = |row: usize| truth[row] && lookup.table.is_valid(row);
    let null = lookup.null_row();
    Some(CodeSet { column: lookup.column, codes: Bitmap::from_fn(null, holds), null: holds(null) })
}

/// The value of `expr`, if it reads no column and is no error.
pub fn fold(expr: &Expr) -> Option<Scalar> {
    let mut constant = true;
    expr.visit_columns(&mut |_| constant = false);
    if !constant {
        return None;
    }
    let mut worker = Worker::new(&Arc::new(QueryMemory::for_planning()));
    let node = prepare::without_lookups(expr, &mut worker).ok()?;
    let value = node.eval(&Chunk::without_columns(1), &mut worker).ok()?.into_vector(1);
    if !value.is_valid(0) {
        return Some(Scalar::Null);
    }
    Some(match &value.data {
        Data::Bool(v) => Scalar::Bool(v[0]),
        Data::I32(v) => Scalar::Int(v[0].into()),
        Data::I64(v) => Scalar::Int(v[0].into()),
        Data::I128(v) => Scalar::Int(v[0]),
        Data::F32(v) => Scalar::Float(v[0].into()),
        Data::F64(v) => Scalar::Float(v[0]),
        Data::Str(v) => Scalar::Str(v[0].as_str().into()),
        Data::Code(v) => Scalar::Int(v[0].into()),
    })
}

/// Evaluates `node`, whose only column is 0, for every code and for NULL; `None` if one of them fails.
fn table(node: &Node, entries: usize, worker: &mut Worker) -> Option<Vector> {
    let codes = Vector::new(Data::Code((0..entries as u32).collect()));
    let mut table = Vector::new(Data::with_capacity(node.phys(), entries + 1));
    for codes in [codes, Vector::nulls(Phys::Code, 1)] {
        let len = codes.len();
        if len > 0 {
            table.extend(&node.eval(&Chunk::from_vectors(vec![Arc::new(codes)]), worker).ok()?.into_vector(len));
        }
    }
    Some(table)
}

/// The column and dictionary of an expression that reads exactly one column, of codes.
fn only_code_column(expr: &Expr) -> Option<(usize, Arc<Dictionary>)> {
    fn visit(expr: &Expr, found: &mut Option<(usize, Arc<Dictionary>)>) -> bool {
        if let ExprKind::Column(index) = expr.kind {
            let Some(dictionary) = expr.ty.dictionary.as_ref().filter(|_| expr.ty.phys == Phys::Code) else {
                return false;
            };
            let (column, _) = found.get_or_insert_with(|| (index, dictionary.clone()));
            return *column == index;
        }
        expr.children().into_iter().all(|child| visit(child, found))
    }
    let mut found = None;
    if visit(expr, &mut found) { found } else { None }
}

/// Whether evaluating `expr` per row costs no more than a lookup: it compares codes, or is the column itself.
fn is_cheap_on_codes(expr: &Expr) -> bool {
    let leaf = |e: &Expr| matches!(e.kind, ExprKind::Column(_) | ExprKind::Literal(_));
    match &expr.kind {
        ExprKind::Column(_) | ExprKind::Literal(_) => true,
        ExprKind::Compare { left, right, .. } => leaf(left) && leaf(right),
        ExprKind::IsNull(input) | ExprKind::IsNotNull(input) => leaf(input),
        ExprKind::Recode(recoding) => recoding.inputs.iter().all(leaf),
        _ => false,
    }
}

/// The strings of a dictionary, by code.
#[derive(Debug)]
pub(super) struct CodeStrings {
    views: Vec<StrView>,
    /// Keeps the bytes alive.
    _dictionary: Arc<Dictionary>,
}

impl CodeStrings {
    pub fn new(dictionary: &Arc<Dictionary>) -> Self {
        // One more entry, for NULL rows of an empty dictionary.
        let views = (0..dictionary.len() as u32).map(|code| dictionary.view(code)).chain([StrView::default()]);
        Self { views: views.collect(), _dictionary: dictionary.clone() }
    }

    /// The string of each code.
    pub fn eval(&self, codes: &Value) -> Value {
        let last = self.views.len() - 1;
        let views = &self.views[..=last];
        map::<u32, StrView>(codes, |code| views[(code as usize).min(last)])
    }
}
