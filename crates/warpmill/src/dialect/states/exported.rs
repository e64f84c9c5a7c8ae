//! `agg(x) EXPORT_STATE` as a call of the function that makes a state of the results of ordinary aggregates.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, Ident, ObjectName, OrderByExpr, Value, VisitorMut, WindowType,
};

use super::kind::Kind;
use super::moments::{Block, Moments};
use super::named;
use super::order::Key;
use super::placeholders::{EXPORTED, TYPES};
use crate::dialect::names::calls::{arguments, binary, case, cast, number, text};
use crate::dialect::names::{filtered, function, nested, renamed};
use crate::dialect::walk;
use crate::visit::visit_expressions;
use crate::{Error, Result};

/// The function that wraps a call whose state is exported.
pub(in crate::dialect) const WRAPPER: &str = "export$state";

/// The window that `syntax` writes for EXPORT_STATE after a call.
const WINDOW: &str = "export$state";

/// The clause that `syntax` writes for EXPORT_STATE.
pub(in crate::dialect) const CLAUSE: &str = "OVER \"export$state\"";

/// Aggregates with states that are DuckDB's alone.
const MISSING: [&str; 3] = ["approx_quantile", "lttb", "sum_no_overflow"];

/// Wraps calls in the window that marks EXPORT_STATE in [`WRAPPER`].
pub(in crate::dialect) fn marked(statement: &mut Statement) -> Result<()> {
    walk::result(walk::statement(statement, &mut Marking))
}

struct Marking;

impl VisitorMut for Marking {
    type Break = Box<Error>;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<Error>> {
        if let Expr::Function(call) = expr
            && matches!(&call.over, Some(WindowType::NamedWindow(name)) if name.value == WINDOW)
        {
            call.over = None;
            let call = Expr::Function(call.clone());
            *expr = function(WRAPPER, vec![call]);
        }
        ControlFlow::Continue(())
    }
}

/// The expression for a call of [`WRAPPER`] or of `to_aggregate_state`; `None`: another call.
///
/// # Errors
/// Aggregates without exportable states.
pub(in crate::dialect) fn expression(expr: &Expr, names: &dyn Known) -> Result<Option<Expr>> {
    let Expr::Function(wrapper) = expr else { return Ok(None) };
    match wrapper.name.0.last().and_then(|part| part.as_ident()) {
        Some(name) if name.value == WRAPPER => {}
        Some(name) if name.value.eq_ignore_ascii_case(named::NAME) => return named::described(wrapper),
        _ => return Ok(None),
    }
    let args = arguments(wrapper).unwrap_or_default();
    let [Expr::Function(call)] = args.as_slice() else {
        return Err(Error::Plan("EXPORT_STATE is of the call of an aggregate".into()));
    };
    let name = call.name.0.last().and_then(|part| part.as_ident()).map_or("", |name| &name.value);
    if !names.is_aggregate(name) {
        // As in DuckDB, other functions have no state to export.
        return match MISSING.iter().any(|missing| name.eq_ignore_ascii_case(missing)) {
            true => Err(refused(name, "")),
            false => Ok(Some(args[0].clone())),
        };
    }
    let export = Export::of(call)?;
    let varies = visit_expressions(&export.args, |e| match e {
        Expr::Function(call) if names.is_volatile(&call.name.to_string().to_lowercase()) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    if varies.is_break() {
        return Err(refused(&export.name, " of values that vary from call to call"));
    }
    export.state().map(Some)
}

/// Properties of functions by their names.
pub(in crate::dialect) trait Known {
    /// Whether it is an aggregate.
    fn is_aggregate(&self, name: &str) -> bool;

    /// Whether its results may differ from call to call.
    fn is_volatile(&self, name: &str) -> bool;
}

/// A call of an aggregate whose state is exported.
struct Export {
    name: String,
    kind: Kind,
    call: Function,
    args: Vec<Expr>,
}

fn refused(name: &str, what: &str) -> Error {
    Error::NotImplemented(format!("EXPORT_STATE of {name}{what}"))
}

/// `of`; an integer constant is cast to INTEGER, the type that DuckDB gives it.
fn typed(of: &Expr) -> Expr {
    match of {
        Expr::Value(value) if matches!(&value.value, Value::Number(digits, _) if digits.parse::<i32>().is_ok()) => {
            cast(of.clone(), DataType::Integer(None))
        }
        of => of.clone(),
    }
}

fn double(of: &Expr) -> Expr {
    cast(nested(of.clone()), DataType::Double(ExactNumberInfo::None))
}

fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

fn present(of: &Expr) -> Expr {
    Expr::IsNotNull(Box::new(nested(of.clone())))
}

/// `of`, or zero where it is NULL.
fn or_zero(of: Expr) -> Expr {
    function("coalesce", vec![of, double(&number(0))])
}

fn product(left: Expr, right: Expr) -> Expr {
    binary(left, BinaryOperator::Multiply, right)
}

impl Export {
    fn of(call: &Function) -> Result<Self> {
        let name = call.name.0.last().and_then(|part| part.as_ident()).map(|name| name.value.to_lowercase());
        let mut name = name.unwrap_or_default();
        let mut call = call.clone();
        if matches!(name.as_str(), "percentile_cont" | "percentile_disc") {
            (name, call) = quantile(&name, &call).ok_or_else(|| refused(&name, " in such an order"))?;
        }
        let FunctionArguments::List(list) = &mut call.args else { return Err(refused(&name, " of a query")) };
        let is_star = |arg: &FunctionArg| matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Wildcard));
        if name == "count" && (list.args.is_empty() || list.args.iter().all(is_star)) {
            name = "count_star".into();
            list.args.clear();
        }
        let given = arguments(&call).ok_or_else(|| refused(&name, " with such arguments"))?;
        let kind = Kind::of(&name).ok_or_else(|| refused(&name, ""))?;
        let args: Vec<Expr> = given.iter().map(typed).collect();
        let export = Self { call, name, kind, args };
        export.check()?;
        Ok(export)
    }

    /// Refuses numbers of arguments that the aggregate has no state with.
    fn check(&self) -> Result<()> {
        match self.kind.counts(&self.name).contains(&self.args.len()) {
            true => Ok(()),
            false => Err(refused(&self.name, &format!(" with {} arguments", self.args.len()))),
        }
    }

    /// The sort keys within the call.
    fn keys(&self) -> Vec<OrderByExpr> {
        let FunctionArguments::List(list) = &self.call.args else { return vec![] };
        let clauses = list.clauses.iter();
        let keys = clauses.filter_map(|clause| match clause {
            FunctionArgumentClause::OrderBy(keys) => Some(keys.iter()),
            _ => None,
        });
        keys.flatten().filter(|key| !matches!(key.expr, Expr::Value(_))).cloned().collect()
    }

    /// A call of another aggregate over the same rows.
    fn aggregate(&self, name: &str, args: Vec<Expr>) -> Expr {
        Expr::Function(renamed(&self.call, name, args))
    }

    /// A call of another aggregate over those of the rows where `of` is not NULL.
    fn of_present(&self, name: &str, args: Vec<Expr>, of: &Expr) -> Expr {
        Expr::Function(filtered(renamed(&self.call, name, args), present(of)))
    }

    /// The call that makes the state.
    fn state(self) -> Result<Expr> {
        let keys = self.keys();
        if !keys.is_empty() {
            return self.ordered(&keys);
        }
        let constant = match (self.kind, self.args.as_slice()) {
            (Kind::Values(_), [_, Expr::Array(fractions)]) => text(&named::fractions(fractions)?),
            (Kind::Text | Kind::Values(_), [_, constant]) => constant.clone(),
            _ => null(),
        };
        let parts = self.parts();
        let state = self.made(constant, text(""), parts);
        Ok(match self.kind {
            Kind::First => {
                let rows = match self.name.as_str() {
                    "any_value" => self.aggregate("count", self.args.clone()),
                    _ => self.aggregate("count", vec![number(1)]),
                };
                case(binary(rows, BinaryOperator::Gt, number(0)), state, None)
            }
            _ => state,
        })
    }

    /// A call of [`EXPORTED`].
    fn made(&self, constant: Expr, order: Expr, parts: Vec<Expr>) -> Expr {
        let types = match self.args.is_empty() {
            true => null(),
            false => {
                let mut types = renamed(&self.call, TYPES, self.args.clone());
                types.filter = None;
                if let FunctionArguments::List(list) = &mut types.args {
                    list.duplicate_treatment = None;
                    list.clauses.clear();
                }
                Expr::Function(types)
            }
        };
        let head = [text(&self.name), types, constant, order];
        function(EXPORTED, head.into_iter().chain(parts).collect())
    }

    /// A state that is the list of the arguments and keys of all rows.
    fn ordered(&self, keys: &[OrderByExpr]) -> Result<Expr> {
        if !matches!(self.kind, Kind::List | Kind::Text | Kind::First) {
            return Err(refused(&self.name, " of values in an order"));
        }
        let mut columns = self.args.clone();
        let mut order = vec![];
        for key in keys {
            let of = typed(&key.expr);
            let column = columns.iter().position(|column| *column == of).unwrap_or_else(|| {
                columns.push(of);
                columns.len() - 1
            });
            let descending = key.options.asc == Some(false);
            order.push(Key { column, descending, nulls_first: key.options.nulls_first == Some(true) });
        }
        let fields = columns.iter().enumerate().flat_map(|(at, column)| [text(&format!("v{at}")), column.clone()]);
        let row = function("named_struct", fields.collect());
        let mut list = renamed(&self.call, "array_agg", vec![row]);
        if let FunctionArguments::List(list) = &mut list.args {
            list.clauses.clear();
        }
        let order = serde_json::to_string(&order).expect("keys are plain data");
        let constant = if self.kind == Kind::Text { self.args.get(1).cloned() } else { None };
        Ok(self.made(constant.unwrap_or_else(null), text(&order), vec![Expr::Function(list)]))
    }

    /// The aggregates whose results are the parts of the state.
    fn parts(&self) -> Vec<Expr> {
        let args = || self.args.clone();
        match (self.kind, self.args.as_slice()) {
            (Kind::Count, []) => vec![self.aggregate("count", vec![number(1)])],
            (Kind::Average, [x]) => {
                vec![
                    self.aggregate("count", args()),
                    self.aggregate("sum", vec![function("state_summand", vec![x.clone()])]),
                ]
            }
            (Kind::All | Kind::Any, [Expr::Value(value)]) if value.value == Value::Null => {
                vec![self.aggregate(&self.name, vec![cast(null(), DataType::Boolean)])]
            }
            (Kind::List, _) => vec![self.aggregate("array_agg", args())],
            (Kind::Text, [x, ..]) => {
                let by = self.args.get(1).cloned().unwrap_or_else(|| text(","));
                vec![self.aggregate("string_agg", vec![cast(nested(x.clone()), DataType::Varchar(None)), by])]
            }
            (Kind::Values(_), [x, ..]) => vec![self.of_present("array_agg", vec![x.clone()], x)],
            (Kind::First, [x]) => vec![self.aggregate(&self.name, vec![x.clone()])],
            (Kind::Extreme { greatest }, [x, y]) => {
                let extreme = if greatest { "max" } else { "min" };
                let by = match self.name.ends_with("_null") {
                    true => self.aggregate(extreme, vec![y.clone()]),
                    false => self.of_present(extreme, vec![y.clone()], x),
                };
                vec![self.aggregate(&self.name, args()), by]
            }
            (Kind::Moments(moments), _) => {
                moments.blocks().iter().flat_map(|block| self.block(*block, moments)).collect()
            }
            _ => vec![self.aggregate(&self.name, args())],
        }
    }

    /// The aggregates for the parts of a block of numbers.
    fn block(&self, block: Block, moments: Moments) -> Vec<Expr> {
        let pair = |name: &str| self.aggregate(name, self.args.clone());
        let (pairs, mean_x, mean_y) = (pair("regr_count"), pair("regr_avgx"), pair("regr_avgy"));
        let is_of_pairs = matches!(moments, Moments::Pairs(_));
        let x = double(&self.args[0]);
        let count = self.aggregate("count", vec![self.args[0].clone()]);
        match block {
            Block::Count if is_of_pairs => vec![pairs],
            Block::Count => vec![count],
            Block::SumX => vec![or_zero(product(mean_x, pairs))],
            Block::SumY => vec![or_zero(product(mean_y, pairs))],
            Block::Covariance => vec![pairs, or_zero(mean_x), or_zero(mean_y), or_zero(pair("regr_sxy"))],
            Block::X if is_of_pairs => vec![pairs, or_zero(mean_x), or_zero(pair("regr_sxx"))],
            Block::Y => vec![pairs, or_zero(mean_y), or_zero(pair("regr_syy"))],
            Block::X => {
                let mean = self.aggregate("avg", vec![x.clone()]);
                let squares = product(self.aggregate("var_pop", vec![x]), count.clone());
                vec![count, or_zero(mean), or_zero(squares)]
            }
            Block::Third | Block::Fourth => {
                let values = self.aggregate("array_agg", vec![x.clone()]);
                let power = |power| or_zero(function(&format!("list_moment_{power}"), vec![values.clone()]));
                let powers = if block == Block::Third { 2..=3 } else { 2..=4 };
                [count, or_zero(self.aggregate("avg", vec![x]))].into_iter().chain(powers.map(power)).collect()
            }
            Block::Carried => {
                let parts = ["fsum", "fsum_error"].map(|name| self.aggregate(name, vec![x.clone()]));
                if moments == Moments::CarriedAverage { parts.map(or_zero).into() } else { parts.into() }
            }
        }
    }
}

/// Rewrites `percentile_cont(at) WITHIN GROUP (ORDER BY x)` to a quantile of x, with its name.
fn quantile(name: &str, call: &Function) -> Option<(String, Function)> {
    let [OrderByExpr { expr: x, options, .. }] = call.within_group.as_slice() else { return None };
    let [at] = arguments(call)?.try_into().ok()?;
    if options.asc == Some(false) {
        return None;
    }
    let name = name.replace("percentile", "quantile");
    let mut made = renamed(call, &name, vec![x.clone(), at]);
    made.name = ObjectName::from(vec![Ident::new(&name)]);
    made.within_group.clear();
    Some((name, made))
}
