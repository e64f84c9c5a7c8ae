//! Proofs about a serialized plan that do not run it.

use std::collections::HashMap;

use serde_json::Value;

use super::expression::{comparison, function_name, type_of};
use super::serialized::{list, text, type_name};
use crate::Refused;

/// The value of a mark that a condition requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    True,
    False,
}

/// Common table expressions, by their index.
pub(super) type Ctes<'a> = HashMap<u64, Cte<'a>>;

/// A common table expression.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cte<'a> {
    body: &'a Value,
    /// Whether DuckDB's decorrelation has made it, for the left side of a join.
    correlated: bool,
}

/// Gathers the common table expressions of a plan.
pub(super) fn find_ctes<'a>(op: &'a Value, ctes: &mut Ctes<'a>) {
    let children = list(op, "children");
    if let ("LOGICAL_MATERIALIZED_CTE", Some(index), [body, _]) =
        (text(op, "type"), op["table_index"].as_u64(), children)
    {
        let name = text(op, "ctename");
        let correlated = name.starts_with("__duckdb_delim_") && !name.starts_with("__duckdb_delim_dedup_");
        ctes.insert(index, Cte { body, correlated });
    }
    children.iter().for_each(|child| find_ctes(child, ctes));
}

/// Whether an expression reads only the first `width` columns of its input.
pub(super) fn reads_only(e: &Value, width: usize) -> bool {
    match e {
        Value::Object(fields) => {
            position(e).is_none_or(|at| at < width) && fields.values().all(|field| reads_only(field, width))
        }
        Value::Array(items) => items.iter().all(|item| reads_only(item, width)),
        _ => true,
    }
}

/// The number of columns of an operator.
fn width(op: &Value) -> usize {
    types(op).map_or(usize::MAX, |types| types.len())
}

/// The types of an operator's columns.
pub(super) fn types(op: &Value) -> Result<Vec<String>, Refused> {
    let children = list(op, "children");
    let of = |at: usize| children.get(at).map_or_else(|| Err(Refused::new("an operator without input")), types);
    let kept = |all: Vec<String>, map: &str| match list(op, map) {
        [] => all,
        map => map.iter().filter_map(|at| all.get(usize::try_from(at.as_u64()?).ok()?).cloned()).collect(),
    };
    let exprs = |key: &str| list(op, key).iter().map(type_of).collect::<Result<Vec<_>, _>>();
    Ok(match text(op, "type") {
        "LOGICAL_GET" => {
            let types = list(op, "returned_types");
            let columns = list(op, "column_indexes").iter();
            let at = columns.map(|column| column["index"].as_u64().and_then(|at| types.get(usize::try_from(at).ok()?)));
            at.map(|ty| ty.map_or(String::new(), |ty| type_name(ty).unwrap_or_default())).collect()
        }
        "LOGICAL_PROJECTION" => exprs("expressions")?,
        "LOGICAL_AGGREGATE_AND_GROUP_BY" => {
            let mut all = exprs("groups")?;
            all.extend(exprs("expressions")?);
            all.extend(list(op, "grouping_functions").iter().map(|_| "BIGINT".to_string()));
            all
        }
        "LOGICAL_FILTER" => kept(of(0)?, "projection_map"),
        "LOGICAL_ORDER_BY" => kept(of(0)?, "projections"),
        "LOGICAL_MATERIALIZED_CTE" => of(1)?,
        "LOGICAL_CTE_REF" | "LOGICAL_DELIM_GET" => {
            list(op, "chunk_types").iter().map(type_name).collect::<Result<_, _>>()?
        }
        "LOGICAL_COMPARISON_JOIN" | "LOGICAL_DELIM_JOIN" | "LOGICAL_ANY_JOIN" => {
            let mut all = kept(of(0)?, "left_projection_map");
            match text(op, "join_type") {
                "SEMI" | "ANTI" => {}
                "MARK" => all.push("BOOLEAN".to_string()),
                _ => all.extend(kept(of(1)?, "right_projection_map")),
            }
            all
        }
        "LOGICAL_CROSS_PRODUCT" => [of(0)?, of(1)?].concat(),
        "LOGICAL_DUMMY_SCAN" => vec!["INTEGER".to_string()],
        "LOGICAL_LIMIT" | "LOGICAL_DISTINCT" | "LOGICAL_UNION" | "LOGICAL_EXCEPT" | "LOGICAL_INTERSECT" => of(0)?,
        other => return Err(Refused::new(format!("the operator {}", other.trim_start_matches("LOGICAL_")))),
    })
}

fn position(e: &Value) -> Option<usize> {
    (text(e, "expression_class") == "BOUND_REF")
        .then(|| e["index"].as_u64())
        .flatten()
        .and_then(|at| at.try_into().ok())
}

/// The position in an operator's input of its column `at`, if a projection map leaves some columns out.
fn through(op: &Value, map: &str, at: usize) -> Option<usize> {
    match list(op, map) {
        [] => Some(at),
        map => usize::try_from(map.get(at)?.as_u64()?).ok(),
    }
}

/// The mark join of `e`, a condition over `child` that is a mark or the negation of a mark.
pub(super) fn mark_of<'a>(e: &Value, child: &'a Value, ctes: &Ctes<'a>) -> Option<(&'a Value, Wanted)> {
    let negated = text(e, "type") == "OPERATOR_NOT";
    let (mark, wanted) = if negated { (list(e, "children").first()?, Wanted::False) } else { (e, Wanted::True) };
    Some((mark_join(child, position(mark)?, ctes)?, wanted))
}

fn mark_join<'a>(op: &'a Value, at: usize, ctes: &Ctes<'a>) -> Option<&'a Value> {
    let children = list(op, "children");
    match text(op, "type") {
        "LOGICAL_COMPARISON_JOIN" | "LOGICAL_DELIM_JOIN" | "LOGICAL_CROSS_PRODUCT" => {
            let left = match list(op, "left_projection_map") {
                [] => width(children.first()?),
                map => map.len(),
            };
            match text(op, "join_type") {
                "MARK" if at == left => Some(op),
                "INNER" | "MARK" | "SINGLE" | "LEFT" | "" if at < left => {
                    mark_join(children.first()?, through(op, "left_projection_map", at)?, ctes)
                }
                _ => None,
            }
        }
        "LOGICAL_FILTER" => mark_join(children.first()?, through(op, "projection_map", at)?, ctes),
        "LOGICAL_PROJECTION" => mark_join(children.first()?, position(list(op, "expressions").get(at)?)?, ctes),
        "LOGICAL_MATERIALIZED_CTE" => mark_join(children.get(1)?, at, ctes),
        // The left side of a correlated join; only that join and its correlated values read it (2.0).
        "LOGICAL_CTE_REF" => {
            let cte = ctes.get(&op["cte_index"].as_u64()?)?;
            if !cte.correlated {
                return None;
            }
            mark_join(cte.body, at, ctes)
        }
        _ => None,
    }
}

/// Whether a mark is never NULL, because all comparisons give true or false.
pub(super) fn never_unknown(conditions: &[Value]) -> bool {
    let total = ["COMPARE_NOT_DISTINCT_FROM", "COMPARE_DISTINCT_FROM"];
    conditions.iter().all(|condition| total.contains(&text(condition, "comparison")))
}

/// The simplest comparison with the meaning of a join condition: NULLs do not matter if at least one side has none.
pub(super) fn simplest<'v>(condition: &'v Value, left: &Value, right: &Value, ctes: &Ctes<'_>) -> &'v str {
    let safe = |side: &str, op: &Value| position(&condition[side]).is_some_and(|at| not_null(op, at, ctes));
    match text(condition, "comparison") {
        "COMPARE_NOT_DISTINCT_FROM" if safe("right", right) || safe("left", left) => "COMPARE_EQUAL",
        "COMPARE_DISTINCT_FROM" if safe("right", right) && safe("left", left) => "COMPARE_NOTEQUAL",
        name => name,
    }
}

/// Whether a column has no NULLs; false if this cannot be proved.
fn not_null(op: &Value, at: usize, ctes: &Ctes<'_>) -> bool {
    let children = list(op, "children");
    let below = |child: usize, at: usize| children.get(child).is_some_and(|child| not_null(child, at, ctes));
    match text(op, "type") {
        "LOGICAL_FILTER" => through(op, "projection_map", at)
            .is_some_and(|at| list(op, "expressions").iter().any(|e| rejects_null(e, at)) || below(0, at)),
        "LOGICAL_PROJECTION" => list(op, "expressions").get(at).and_then(position).is_some_and(|at| below(0, at)),
        "LOGICAL_ORDER_BY" => through(op, "projections", at).is_some_and(|at| below(0, at)),
        "LOGICAL_LIMIT" | "LOGICAL_DISTINCT" => below(0, at),
        "LOGICAL_AGGREGATE_AND_GROUP_BY" if list(op, "grouping_sets").len() < 2 => {
            list(op, "groups").get(at).and_then(position).is_some_and(|at| below(0, at))
        }
        "LOGICAL_MATERIALIZED_CTE" => below(1, at),
        "LOGICAL_CTE_REF" => {
            op["cte_index"].as_u64().and_then(|cte| ctes.get(&cte)).is_some_and(|cte| not_null(cte.body, at, ctes))
        }
        "LOGICAL_CROSS_PRODUCT" | "LOGICAL_COMPARISON_JOIN" => {
            let left = match list(op, "left_projection_map") {
                [] => children.first().map_or(0, width),
                map => map.len(),
            };
            let inner = matches!(text(op, "join_type"), "INNER" | "");
            let (side, map, at) = match at.checked_sub(left) {
                None => ("left", "left_projection_map", at),
                Some(at) => ("right", "right_projection_map", at),
            };
            let Some(at) = through(op, map, at) else { return false };
            let (child, other) = if side == "left" { (0, "right") } else { (1, "left") };
            let compared = |condition: &Value| {
                let theirs = position(&condition[other]);
                position(&condition[side]) == Some(at)
                    && match text(condition, "comparison") {
                        "COMPARE_NOT_DISTINCT_FROM" => theirs.is_some_and(|theirs| below(1 - child, theirs)),
                        name => name != "COMPARE_DISTINCT_FROM",
                    }
            };
            inner && (list(op, "conditions").iter().any(compared) || below(child, at))
                || !inner
                    && side == "left"
                    && text(op, "join_type") != "RIGHT"
                    && text(op, "join_type") != "OUTER"
                    && below(0, at)
        }
        _ => false,
    }
}

/// Whether a condition is never true where the column `at` is NULL.
fn rejects_null(e: &Value, at: usize) -> bool {
    let is = |e: &Value| position(e) == Some(at);
    match text(e, "type") {
        "OPERATOR_IS_NOT_NULL" => list(e, "children").iter().any(is),
        "CONJUNCTION_AND" => list(e, "children").iter().any(|e| rejects_null(e, at)),
        name => {
            let sides = [&e["left"], &e["right"]].into_iter().chain(list(e, "children"));
            comparison(name).is_some_and(|name| !name.contains("distinct")) && sides.into_iter().any(is)
        }
    }
}

/// Whether the right side of a join has at most one row for the values that it is compared with.
pub(super) fn gives_one_row_per_key(conditions: &[Value], right: &Value, ctes: &Ctes<'_>) -> bool {
    let equal =
        |condition: &&Value| ["COMPARE_EQUAL", "COMPARE_NOT_DISTINCT_FROM"].contains(&text(condition, "comparison"));
    let keys: Vec<usize> =
        conditions.iter().filter(equal).filter_map(|condition| position(&condition["right"])).collect();
    is_key(right, &keys, ctes)
}

/// Whether no two rows of an operator agree in the columns `keys`.
fn is_key(op: &Value, keys: &[usize], ctes: &Ctes<'_>) -> bool {
    let children = list(op, "children");
    let below = |child: usize, keys: &[usize]| children.get(child).is_some_and(|child| is_key(child, keys, ctes));
    let mapped = |map: &str| keys.iter().filter_map(|&at| through(op, map, at)).collect::<Vec<_>>();
    match text(op, "type") {
        "LOGICAL_PROJECTION" => {
            let exprs = list(op, "expressions");
            let keys: Vec<usize> = keys.iter().filter_map(|&at| position(exprs.get(at)?)).collect();
            below(0, &keys)
        }
        "LOGICAL_FILTER" => below(0, &mapped("projection_map")),
        "LOGICAL_ORDER_BY" => below(0, &mapped("projections")),
        "LOGICAL_AGGREGATE_AND_GROUP_BY" if list(op, "grouping_sets").len() < 2 => {
            (0..list(op, "groups").len()).all(|group| keys.contains(&group))
        }
        "LOGICAL_DELIM_GET" => (0..width(op)).all(|at| keys.contains(&at)),
        "LOGICAL_MATERIALIZED_CTE" => below(1, keys),
        "LOGICAL_CTE_REF" => {
            op["cte_index"].as_u64().and_then(|cte| ctes.get(&cte)).is_some_and(|cte| is_key(cte.body, keys, ctes))
        }
        "LOGICAL_COMPARISON_JOIN" if ["INNER", "LEFT"].contains(&text(op, "join_type")) => {
            let left = match list(op, "left_projection_map") {
                [] => children.first().map_or(0, width),
                map => map.len(),
            };
            let of_left = keys.iter().filter(|&&at| at < left).filter_map(|&at| through(op, "left_projection_map", at));
            let of_left: Vec<usize> = of_left.collect();
            let single =
                children.get(1).is_some_and(|right| gives_one_row_per_key(list(op, "conditions"), right, ctes));
            below(0, &of_left) && single
        }
        _ => false,
    }
}

/// Refuses queries whose rows come in the order of a table, on which people rely. `crate::plan` does this for the binder's own
/// operators; this function also knows the operators that replace subqueries.
pub(super) fn check_order(root: &Value, ctes: &Ctes<'_>) -> Result<(), Refused> {
    if keeps_order(root, ctes) {
        return Err(Refused::new("rows as they come, in the order of the table"));
    }
    check_limits(root, ctes)
}

fn check_limits(op: &Value, ctes: &Ctes<'_>) -> Result<(), Refused> {
    let children = list(op, "children");
    if text(op, "type") == "LOGICAL_LIMIT" && children.first().is_some_and(|child| keeps_order(child, ctes)) {
        return Err(Refused::new("LIMIT without ORDER BY, which takes the first rows of a table"));
    }
    children.iter().try_for_each(|child| check_limits(child, ctes))
}

fn keeps_order(op: &Value, ctes: &Ctes<'_>) -> bool {
    let children = list(op, "children");
    let below = |child: usize| children.get(child).is_some_and(|child| keeps_order(child, ctes));
    let is_left_of_subquery = || {
        let left = children.first().filter(|left| text(left, "type") == "LOGICAL_CTE_REF");
        let cte = left.and_then(|left| ctes.get(&left["cte_index"].as_u64()?));
        cte.is_some_and(|cte| cte.correlated && keeps_order(cte.body, ctes))
    };
    match text(op, "type") {
        "LOGICAL_GET" => true,
        "LOGICAL_CTE_REF" => {
            let cte = op["cte_index"].as_u64().and_then(|cte| ctes.get(&cte));
            cte.is_none_or(|cte| !cte.correlated || keeps_order(cte.body, ctes))
        }
        "LOGICAL_PROJECTION" | "LOGICAL_FILTER" | "LOGICAL_LIMIT" | "LOGICAL_DELIM_JOIN" => below(0),
        "LOGICAL_MATERIALIZED_CTE" => below(1),
        "LOGICAL_COMPARISON_JOIN" => match text(op, "join_type") {
            "MARK" | "SINGLE" => below(0),
            _ => is_left_of_subquery(),
        },
        "LOGICAL_CROSS_PRODUCT" => below(0) && children.get(1).is_some_and(|right| guarded(right).is_some()),
        "LOGICAL_UNION" => op["setop_all"].as_bool() != Some(false) && (0..children.len()).all(below),
        _ => false,
    }
}

/// The rows of a scalar subquery that is guarded against a second row although it has exactly one.
pub(super) fn guarded(op: &Value) -> Option<&Value> {
    let [case] = list(op, "expressions") else { return None };
    let [aggregate] = list(op, "children") else { return None };
    let [check] = list(case, "case_checks") else { return None };
    let kinds = (text(op, "type"), text(aggregate, "type"), function_name(&check["then_expr"]));
    if kinds != ("LOGICAL_PROJECTION", "LOGICAL_AGGREGATE_AND_GROUP_BY", "error") {
        return None;
    }
    let [first, count] = list(aggregate, "expressions") else { return None };
    let names = (function_name(first), function_name(count));
    let plain = list(aggregate, "groups").is_empty() && position(&case["else_expr"]) == Some(0);
    let value = list(first, "children").first().and_then(position);
    let rows = list(aggregate, "children").first()?;
    let expected = matches!(names, ("first" | "any_value", "count_star")) && value == Some(0);
    (plain && expected && has_one_row(rows)).then_some(rows)
}

fn has_one_row(op: &Value) -> bool {
    match text(op, "type") {
        "LOGICAL_AGGREGATE_AND_GROUP_BY" => list(op, "groups").is_empty() && list(op, "grouping_sets").len() < 2,
        "LOGICAL_PROJECTION" => list(op, "children").first().is_some_and(has_one_row),
        _ => false,
    }
}
