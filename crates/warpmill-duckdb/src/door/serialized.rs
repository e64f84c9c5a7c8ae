//! Translates the unoptimized plans of `json_serialize_plan` into the plan encoding ([`crate::encoding`]).
//!
//! The binder's subqueries are joins in these plans: mark and single joins, and for correlated rows duplicate eliminated
//! joins (1.5) or materialized common table expressions (2.0). Columns are positions among those of an operator's inputs.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::proof::{self, Wanted};
use crate::Refused;
use crate::encoding::Binding;

/// A column of an operator's result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    /// The column of the plan encoding with its values; `None` for the mark of a join that has become a condition.
    pub binding: Option<Binding>,
    /// The value of such a mark in all remaining rows.
    pub mark: bool,
}

impl Column {
    fn at(table: u64, position: u64) -> Self {
        Self { binding: Some((table, position)), mark: false }
    }
}

/// A table that the plan reads.
#[derive(Debug)]
pub(super) struct InputTable {
    /// Catalog, schema and name.
    pub path: [String; 3],
    /// Positions, names and types of columns.
    pub columns: Vec<(u64, String, String)>,
}

/// Translates one plan.
pub(super) struct Reader<'a> {
    /// Whether divisions by zero give infinities.
    pub ieee: bool,
    /// The values of constant expressions, in the order in which they are found; `None` if they have not been requested yet.
    pub values: Option<&'a [Option<String>]>,
    pub next_value: usize,
    /// The SQL of the constant expressions whose values are needed.
    pub requests: Vec<String>,
    pub inputs: Vec<InputTable>,
    /// The use of mark joins, by the address of the join.
    wanted: HashMap<*const Value, Wanted>,
    /// Conditions on the left side of duplicate eliminated joins, by the address of the join. Only with them the right side is
    /// computed for few rows.
    pushed: HashMap<*const Value, Vec<&'a Value>>,
    /// The enclosing duplicate eliminated joins, innermost last: the common table expression of the left side, and its columns
    /// without duplicates.
    delims: Vec<(u64, Vec<usize>)>,
    ctes: proof::Ctes<'a>,
    next_index: u64,
}

/// The names of the kinds of joins in serialized plans.
const KINDS: &[&str] = &["INNER", "LEFT", "RIGHT", "OUTER", "FULL", "SEMI", "ANTI", "MARK", "SINGLE"];

impl<'a> Reader<'a> {
    pub fn new(ieee: bool, values: Option<&'a [Option<String>]>) -> Self {
        Self {
            ieee,
            values,
            next_value: 0,
            requests: vec![],
            inputs: vec![],
            wanted: HashMap::new(),
            pushed: HashMap::new(),
            delims: vec![],
            ctes: HashMap::new(),
            // Larger than all indices of DuckDB's own.
            next_index: 1 << 32,
        }
    }

    /// A statement of the plan encoding, for DuckDB `version`.
    pub fn statement(&mut self, root: &'a Value, version: u32) -> Result<Value, Refused> {
        let types = proof::types(root)?;
        proof::find_ctes(root, &mut self.ctes);
        proof::check_order(root, &self.ctes)?;
        let (node, columns) = self.node(root)?;
        if columns.len() != types.len() {
            return Err(Refused::new("a result whose columns are not those of its plan"));
        }
        let inputs = self.inputs.iter().map(|input| json!({"name": input.path[2], "columns": input.columns}));
        let inputs: Vec<Value> = inputs.collect();
        Ok(
            json!({"version": crate::encoding::VERSION, "duckdb": version, "types": types, "inputs": inputs, "root": node}),
        )
    }

    fn fresh(&mut self) -> u64 {
        self.next_index += 1;
        self.next_index
    }

    fn node(&mut self, op: &'a Value) -> Result<(Value, Vec<Column>), Refused> {
        let children = list(op, "children");
        let child = || children.first().ok_or_else(|| Refused::new("an operator without input"));
        match text(op, "type") {
            "LOGICAL_GET" => self.get(op),
            "LOGICAL_PROJECTION" => {
                let (input, columns) = self.node(child()?)?;
                let (table, exprs) = (index(op, "table_index")?, list(op, "expressions"));
                let node =
                    json!({"op": "project", "table": table, "exprs": self.exprs(exprs, &columns)?, "child": input});
                Ok((node, columns_of(table, exprs.len())))
            }
            "LOGICAL_FILTER" => self.filter(op, child()?),
            "LOGICAL_AGGREGATE_AND_GROUP_BY" => self.aggregate(op, child()?),
            "LOGICAL_ORDER_BY" => self.order(op, child()?),
            "LOGICAL_LIMIT" => {
                let (limit, offset) = (bound(&op["limit_val"])?, bound(&op["offset_val"])?);
                let (input, columns) = self.node(child()?)?;
                Ok((json!({"op": "limit", "limit": limit, "offset": offset, "child": input}), columns))
            }
            "LOGICAL_DISTINCT" => {
                if text(op, "distinct_type") != "DISTINCT" {
                    return Err(Refused::new("DISTINCT ON"));
                }
                let (input, columns) = self.node(child()?)?;
                Ok((json!({"op": "distinct", "child": input}), columns))
            }
            "LOGICAL_COMPARISON_JOIN" => {
                let [left, right] = children else { return Err(Refused::new("a join of other than two inputs")) };
                let left = self.node(left)?;
                self.join(op, left, right)
            }
            "LOGICAL_DELIM_JOIN" => self.delim_join(op),
            "LOGICAL_DELIM_GET" => self.delim_get(op),
            "LOGICAL_ANY_JOIN" => self.any_join(op),
            "LOGICAL_CROSS_PRODUCT" => self.cross(op),
            "LOGICAL_UNION" => self.set_operation(op, "union"),
            "LOGICAL_EXCEPT" => self.set_operation(op, "except"),
            "LOGICAL_INTERSECT" => self.set_operation(op, "intersect"),
            "LOGICAL_MATERIALIZED_CTE" => {
                let [body, rest] = children else { return Err(Refused::new("a common table expression without use")) };
                let index = index(op, "table_index")?;
                let (body, _) = self.node(body)?;
                let (rest, columns) = self.node(rest)?;
                Ok((json!({"op": "cte", "index": index, "body": body, "child": rest}), columns))
            }
            "LOGICAL_CTE_REF" => {
                if op["is_recurring"].as_bool() == Some(true) {
                    return Err(Refused::new("a recursive common table expression"));
                }
                let (table, cte) = (index(op, "table_index")?, index(op, "cte_index")?);
                let columns = columns_of(table, list(op, "chunk_types").len());
                Ok((json!({"op": "cte_ref", "table": table, "cte": cte}), columns))
            }
            "LOGICAL_DUMMY_SCAN" => Ok((json!({"op": "dummy"}), columns_of(index(op, "table_index")?, 1))),
            other => Err(Refused::new(format!("the operator {}", other.trim_start_matches("LOGICAL_")))),
        }
    }

    fn get(&mut self, op: &'a Value) -> Result<(Value, Vec<Column>), Refused> {
        let data = &op["function_data"];
        let function = super::expression::function_name(op);
        let [catalog, schema, name] = ["catalog", "schema", "table"].map(|key| data[key].as_str());
        let (Some(catalog), Some(schema), Some(name), "seq_scan") = (catalog, schema, name, function) else {
            return Err(Refused::new(format!("a scan by the table function {function}")));
        };
        let filters = list(&op["table_filters"], "filters").len();
        let more = [&op["extra_info"]["sample_options"], &op["at_clause"]].iter().any(|value| !value.is_null());
        if !list(op, "projection_ids").is_empty()
            || filters > 0
            || more
            || data["is_index_scan"].as_bool() == Some(true)
        {
            return Err(Refused::new("a scan that does more than read columns"));
        }
        let path = [catalog, schema, name].map(str::to_string);
        let input = self.inputs.iter().position(|input| input.path == path).unwrap_or_else(|| {
            self.inputs.push(InputTable { path, columns: vec![] });
            self.inputs.len() - 1
        });
        let (names, types) = (list(op, "names"), list(op, "returned_types"));
        let mut columns = Vec::new();
        for column in list(op, "column_indexes") {
            if !list(column, "child_indexes").is_empty() {
                return Err(Refused::new("a part of a nested column"));
            }
            let position = index(column, "index")?;
            let at = usize::try_from(position).ok();
            let Some((name, ty)) = at.and_then(|at| Some((names.get(at)?.as_str()?, types.get(at)?))) else {
                // A row identifier. A scan that only counts rows needs a column; the plan must not read it.
                columns.push(Value::Null);
                continue;
            };
            let known = &mut self.inputs[input].columns;
            let found = known.iter().position(|(known, ..)| *known == position);
            columns.push(found.unwrap_or(known.len()).into());
            if found.is_none() {
                // The type of a column that the plan does not read may be any.
                known.push((position, name.to_string(), type_name(ty).unwrap_or_default()));
            }
        }
        let table = index(op, "table_index")?;
        let result = columns_of(table, columns.len());
        Ok((json!({"op": "get", "table": table, "input": input, "columns": columns}), result))
    }

    /// Translates a filter. Conditions that are a mark or its negation become the kind of the mark's join.
    fn filter(&mut self, op: &'a Value, child: &'a Value) -> Result<(Value, Vec<Column>), Refused> {
        let mut conditions = Vec::new();
        for e in list(op, "expressions") {
            match proof::mark_of(e, child, &self.ctes) {
                Some((join, wanted)) => {
                    self.wanted.insert(std::ptr::from_ref(join), wanted);
                }
                None => conditions.push(e),
            }
        }
        let (input, columns) = self.filtered(child, conditions)?;
        Ok((input, mapped(op, "projection_map", columns)?))
    }

    /// The rows of `child` that satisfy all conditions.
    fn filtered(&mut self, child: &'a Value, mut conditions: Vec<&'a Value>) -> Result<(Value, Vec<Column>), Refused> {
        if let ("LOGICAL_DELIM_JOIN", [left, _]) = (text(child, "type"), list(child, "children"))
            && list(child, "left_projection_map").is_empty()
            && ["INNER", "LEFT", "SEMI", "ANTI", "MARK", "SINGLE"].contains(&text(child, "join_type"))
        {
            let width = proof::types(left)?.len();
            let (pushed, rest) = conditions.into_iter().partition(|e| proof::reads_only(e, width));
            self.pushed.insert(std::ptr::from_ref(child), pushed);
            conditions = rest;
        }
        let (input, columns) = self.node(child)?;
        if conditions.is_empty() {
            return Ok((input, columns));
        }
        let exprs = conditions.into_iter().map(|e| self.expr(e, &columns)).collect::<Result<Vec<_>, _>>()?;
        Ok((json!({"op": "filter", "exprs": exprs, "child": input}), columns))
    }

    fn aggregate(&mut self, op: &'a Value, child: &'a Value) -> Result<(Value, Vec<Column>), Refused> {
        let (input, columns) = self.node(child)?;
        let (groups, aggs) = (list(op, "groups"), list(op, "expressions"));
        let functions = list(op, "grouping_functions");
        let mut sets = list(op, "grouping_sets").to_vec();
        if sets.is_empty() && !groups.is_empty() {
            sets.push((0..groups.len()).collect());
        }
        let (group, agg) = (index(op, "group_index")?, index(op, "aggregate_index")?);
        let mut result = columns_of(group, groups.len());
        result.extend(columns_of(agg, aggs.len()));
        let mut node = json!({"op": "aggregate", "group": group, "agg": agg, "sets": sets, "grouping_functions": functions,
            "groups": self.exprs(groups, &columns)?, "aggs": self.exprs(aggs, &columns)?, "child": input});
        if !functions.is_empty() {
            let table = index(op, "groupings_index")?;
            node["groupings"] = table.into();
            result.extend(columns_of(table, functions.len()));
        }
        Ok((node, result))
    }

    fn order(&mut self, op: &'a Value, child: &'a Value) -> Result<(Value, Vec<Column>), Refused> {
        let (input, columns) = self.node(child)?;
        let keys = list(op, "orders").iter().map(|key| {
            let desc = text(key, "type") == "DESCENDING";
            let first = text(key, "null_order").replace('_', " ") == "NULLS FIRST";
            Ok(json!({"desc": desc, "nulls_first": first, "e": self.expr(&key["expression"], &columns)?}))
        });
        let by = keys.collect::<Result<Vec<_>, Refused>>()?;
        Ok((json!({"op": "order", "by": by, "child": input}), mapped(op, "projections", columns)?))
    }

    fn join(
        &mut self,
        op: &'a Value,
        (left, left_columns): (Value, Vec<Column>),
        right_op: &'a Value,
    ) -> Result<(Value, Vec<Column>), Refused> {
        let mut kind = text(op, "join_type");
        if !KINDS.contains(&kind) {
            return Err(Refused::new(format!("a join of the kind {kind}")));
        }
        let (right, right_columns) = self.node(right_op)?;
        let (left_op, conditions) = (&list(op, "children")[0], list(op, "conditions"));
        let wanted = self.wanted.get(&std::ptr::from_ref(op)).copied();
        if kind == "SINGLE" {
            if !proof::gives_one_row_per_key(conditions, right_op, &self.ctes) {
                return Err(Refused::new("a correlated scalar subquery that may give several rows"));
            }
            kind = "LEFT";
        }
        let mut mark = None;
        match (kind, wanted) {
            ("MARK", Some(Wanted::True)) => kind = "SEMI",
            ("MARK", Some(Wanted::False)) if proof::never_unknown(conditions) => kind = "ANTI",
            ("MARK", _) => mark = Some(index(op, "mark_index")?),
            _ => {}
        }
        let negated = wanted == Some(Wanted::False);
        let mut conds = Vec::new();
        for condition in conditions {
            let name = proof::simplest(condition, left_op, right_op, &self.ctes);
            let (Some(l), Some(r)) = (condition.get("left"), condition.get("right")) else {
                return Err(Refused::new("a join condition that is not a comparison"));
            };
            let f = super::expression::comparison(name).ok_or_else(|| Refused::new("this kind of comparison"))?;
            let a = [self.expr(l, &left_columns)?, self.expr(r, &right_columns)?];
            conds.push(json!({"k": "cmp", "f": f, "a": a}));
        }
        if !op["predicate"].is_null() {
            let both: Vec<Column> = left_columns.iter().chain(&right_columns).copied().collect();
            conds.push(self.expr(&op["predicate"], &both)?);
        }
        let mut columns = mapped(op, "left_projection_map", left_columns)?;
        if text(op, "join_type") == "MARK" {
            let value = Column { binding: None, mark: wanted == Some(Wanted::True) };
            columns.push(mark.map_or(value, |mark| Column::at(mark, 0)));
        } else if !["SEMI", "ANTI"].contains(&kind) {
            columns.extend(mapped(op, "right_projection_map", right_columns)?);
        }
        let mut node = json!({"op": "join", "type": kind, "conds": conds, "left": left, "right": right});
        if let Some(mark) = mark {
            node["mark"] = mark.into();
            if negated {
                // NOT IN: the translator implements its rules about NULL.
                let e = json!({"k": "not", "a": [{"k": "col", "b": [mark, 0], "t": "BOOLEAN"}]});
                node = json!({"op": "filter", "exprs": [e], "child": node});
                if let Some(last) = columns.last_mut() {
                    *last = Column { binding: None, mark: false };
                }
            }
        }
        Ok((node, columns))
    }

    /// Translates a duplicate eliminated join: the join and the rows that its right side is computed for read one common table expression.
    fn delim_join(&mut self, op: &'a Value) -> Result<(Value, Vec<Column>), Refused> {
        let [left, right] = list(op, "children") else { return Err(Refused::new("a join of other than two inputs")) };
        if op["delim_flipped"].as_bool() == Some(true) {
            return Err(Refused::new("a flipped duplicate eliminated join"));
        }
        let conditions = self.pushed.remove(&std::ptr::from_ref(op)).unwrap_or_default();
        let (body, body_columns) = self.filtered(left, conditions)?;
        let eliminated = list(op, "duplicate_eliminated_columns").iter().map(|e| {
            let at = e["index"].as_u64().and_then(|at| usize::try_from(at).ok());
            at.filter(|&at| body_columns.get(at).is_some_and(|column| column.binding.is_some()))
                .ok_or_else(|| Refused::new("a correlated expression that is not a column"))
        });
        let eliminated = eliminated.collect::<Result<Vec<_>, _>>()?;
        let (cte, table, types) = (self.fresh(), self.fresh(), proof::types(left)?);
        // Marks are not columns of the common table expression; the other columns keep their order.
        let kept: Vec<usize> = (0..body_columns.len()).filter(|&at| body_columns[at].binding.is_some()).collect();
        let body = self.kept(body, &body_columns, &types, &kept)?;
        let place = |at: usize| kept.iter().position(|&k| k == at);
        let columns = body_columns.iter().enumerate();
        let columns = columns.map(|(at, column)| place(at).map_or(*column, |place| Column::at(table, place as u64)));
        let columns: Vec<Column> = columns.collect();
        self.delims.push((cte, eliminated.iter().filter_map(|&at| place(at)).collect()));
        let joined = self.join(op, (json!({"op": "cte_ref", "table": table, "cte": cte}), columns), right);
        self.delims.pop();
        let (node, columns) = joined?;
        Ok((json!({"op": "cte", "index": cte, "body": body, "child": node}), columns))
    }

    /// `body` with its columns at the positions `kept`, in this order.
    fn kept(&mut self, body: Value, columns: &[Column], types: &[String], kept: &[usize]) -> Result<Value, Refused> {
        let table = self.fresh();
        let exprs = kept.iter().map(|&at| {
            let (table, column) = columns[at].binding.ok_or_else(|| Refused::new("a column that is not there"))?;
            Ok(json!({"k": "col", "b": [table, column], "t": types[at]}))
        });
        let exprs = exprs.collect::<Result<Vec<_>, Refused>>()?;
        Ok(json!({"op": "project", "table": table, "exprs": exprs, "child": body}))
    }

    fn delim_get(&mut self, op: &'a Value) -> Result<(Value, Vec<Column>), Refused> {
        let (cte, eliminated) = self.delims.last().cloned().ok_or_else(|| Refused::new("rows of no join"))?;
        let (rows, table) = (self.fresh(), index(op, "table_index")?);
        let types = list(op, "chunk_types").iter().map(type_name).collect::<Result<Vec<_>, _>>()?;
        if types.len() != eliminated.len() {
            return Err(Refused::new("correlated columns other than those of the join"));
        }
        let exprs = eliminated.iter().zip(&types).map(|(&at, ty)| json!({"k": "col", "b": [rows, at], "t": ty}));
        let exprs: Vec<Value> = exprs.collect();
        let source = json!({"op": "cte_ref", "table": rows, "cte": cte});
        let project = json!({"op": "project", "table": table, "exprs": exprs, "child": source});
        Ok((json!({"op": "distinct", "child": project}), columns_of(table, types.len())))
    }

    fn any_join(&mut self, op: &'a Value) -> Result<(Value, Vec<Column>), Refused> {
        let [left, right] = list(op, "children") else { return Err(Refused::new("a join of other than two inputs")) };
        let kind = text(op, "join_type");
        if !["INNER", "LEFT", "RIGHT", "OUTER", "FULL", "SEMI", "ANTI"].contains(&kind) {
            return Err(Refused::new(format!("a join of the kind {kind} with this condition")));
        }
        let ((left, left_columns), (right, right_columns)) = (self.node(left)?, self.node(right)?);
        let both: Vec<Column> = left_columns.iter().chain(&right_columns).copied().collect();
        let cond = self.expr(&op["condition"], &both)?;
        let mut columns = mapped(op, "left_projection_map", left_columns)?;
        if !["SEMI", "ANTI"].contains(&kind) {
            columns.extend(mapped(op, "right_projection_map", right_columns)?);
        }
        Ok((json!({"op": "any_join", "type": kind, "cond": cond, "left": left, "right": right}), columns))
    }

    fn cross(&mut self, op: &'a Value) -> Result<(Value, Vec<Column>), Refused> {
        let [left, right] = list(op, "children") else { return Err(Refused::new("a join of other than two inputs")) };
        let (left, mut columns) = self.node(left)?;
        // A scalar subquery that always has one row needs no guard against a second one.
        let (right, right_columns) = match proof::guarded(right) {
            Some(rows) => {
                let (rows, inner) = self.node(rows)?;
                let (table, ty) = (index(right, "table_index")?, &proof::types(right)?[0]);
                let value = inner.first().and_then(|column| column.binding);
                let (from, at) = value.ok_or_else(|| Refused::new("a subquery without a value"))?;
                let value = json!([{"k": "col", "b": [from, at], "t": ty}]);
                (json!({"op": "project", "table": table, "exprs": value, "child": rows}), columns_of(table, 1))
            }
            None => self.node(right)?,
        };
        columns.extend(right_columns);
        Ok((json!({"op": "cross", "left": left, "right": right}), columns))
    }

    fn set_operation(&mut self, op: &'a Value, kind: &str) -> Result<(Value, Vec<Column>), Refused> {
        let mut children = Vec::new();
        for child in list(op, "children") {
            let (node, columns) = self.node(child)?;
            let kept: Vec<usize> = (0..columns.len()).collect();
            children.push(self.kept(node, &columns, &proof::types(child)?, &kept)?);
        }
        let table = index(op, "table_index")?;
        let all = op["setop_all"].as_bool() != Some(false);
        let columns = columns_of(table, usize::try_from(index(op, "column_count")?).unwrap_or(0));
        Ok((json!({"op": "setop", "kind": kind, "all": all, "table": table, "children": children}), columns))
    }
}

fn columns_of(table: u64, count: usize) -> Vec<Column> {
    (0..count as u64).map(|at| Column::at(table, at)).collect()
}

/// The columns that a projection map keeps; an empty map keeps all.
fn mapped(op: &Value, map: &str, columns: Vec<Column>) -> Result<Vec<Column>, Refused> {
    let map = list(op, map);
    if map.is_empty() {
        return Ok(columns);
    }
    let kept = map.iter().map(|at| at.as_u64().and_then(|at| columns.get(usize::try_from(at).ok()?)).copied());
    kept.collect::<Option<_>>().ok_or_else(|| Refused::new("a projection map of columns that are not there"))
}

/// A constant bound of LIMIT or OFFSET.
fn bound(limit: &Value) -> Result<Option<u64>, Refused> {
    match text(limit, "type") {
        "UNSET" => Ok(None),
        "CONSTANT_VALUE" => Ok(limit["constant_integer"].as_u64()),
        _ => Err(Refused::new("LIMIT or OFFSET that is not a constant number of rows")),
    }
}

pub(super) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or("")
}

pub(super) fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn index(value: &Value, key: &str) -> Result<u64, Refused> {
    value[key].as_u64().ok_or_else(|| Refused::new(format!("a plan without {key}")))
}

/// DuckDB's name of a type.
pub(super) fn type_name(ty: &Value) -> Result<String, Refused> {
    let (id, info) = (text(ty, "id"), &ty["type_info"]);
    let alias = text(info, "alias");
    if !alias.is_empty() {
        return Ok(alias.to_string());
    }
    match id {
        "DECIMAL" => Ok(format!("DECIMAL({},{})", index(info, "width")?, index(info, "scale")?)),
        "VARCHAR" if !text(info, "collation").is_empty() => Err(Refused::new("text with a collation")),
        "" => Err(Refused::new("a value without a type")),
        _ => Ok(id.to_string()),
    }
}
