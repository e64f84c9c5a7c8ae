//! Expressions of serialized plans.

use serde_json::{Value, json};

use super::constant;
use super::serialized::{Column, Reader, list, text, type_name};
use crate::Refused;

/// The name of a function, without the qualification that DuckDB 2.0 puts before it.
pub(super) fn function_name(e: &Value) -> &str {
    e["name"].as_str().or_else(|| list(&e["qname"], "path").last()?.as_str()).unwrap_or("")
}

/// The type of a bound expression.
pub(super) fn type_of(e: &Value) -> Result<String, Refused> {
    match text(e, "expression_class") {
        "BOUND_CONSTANT" => type_name(&e["value"]["type"]),
        "BOUND_COMPARISON" | "BOUND_BETWEEN" | "BOUND_CONJUNCTION" => Ok("BOOLEAN".to_string()),
        _ => type_name(&e["return_type"]),
    }
}

pub(super) fn comparison(name: &str) -> Option<&'static str> {
    Some(match name {
        "COMPARE_EQUAL" => "=",
        "COMPARE_NOTEQUAL" => "<>",
        "COMPARE_LESSTHAN" => "<",
        "COMPARE_GREATERTHAN" => ">",
        "COMPARE_LESSTHANOREQUALTO" => "<=",
        "COMPARE_GREATERTHANOREQUALTO" => ">=",
        "COMPARE_DISTINCT_FROM" => "distinct",
        "COMPARE_NOT_DISTINCT_FROM" => "not distinct",
        _ => return None,
    })
}

impl Reader<'_> {
    /// An expression over `input` in the plan encoding.
    pub(super) fn expr(&mut self, e: &Value, input: &[Column]) -> Result<Value, Refused> {
        let class = text(e, "expression_class");
        if class == "BOUND_CONSTANT" {
            let ty = type_name(&e["value"]["type"])?;
            return Ok(json!({"k": "const", "t": ty, "v": constant::encoded(&e["value"])?}));
        }
        if constant::is_foldable(e) {
            return self.folded(e);
        }
        let kind = text(e, "type");
        match class {
            "BOUND_REF" => self.column(e, input),
            "BOUND_CAST" => self.cast(&e["child"], e, e["try_cast"].as_bool(), input),
            "BOUND_COMPARISON" => self.compare(kind, &e["left"], &e["right"], input),
            "BOUND_BETWEEN" => {
                let inclusive = (e["lower_inclusive"].as_bool(), e["upper_inclusive"].as_bool());
                self.between([&e["input"], &e["lower"], &e["upper"]], inclusive, input)
            }
            "BOUND_CONJUNCTION" => {
                let k = if kind == "CONJUNCTION_AND" { "and" } else { "or" };
                Ok(json!({"k": k, "a": self.exprs(list(e, "children"), input)?}))
            }
            "BOUND_CASE" => self.case(e, input),
            "BOUND_OPERATOR" => {
                let k = match kind {
                    "OPERATOR_NOT" => "not",
                    "OPERATOR_IS_NULL" => "isnull",
                    "OPERATOR_IS_NOT_NULL" => "isnotnull",
                    "COMPARE_IN" => "in",
                    "COMPARE_NOT_IN" => "notin",
                    "OPERATOR_COALESCE" => "coalesce",
                    _ => return Err(Refused::new(format!("the operator {kind}"))),
                };
                Ok(json!({"k": k, "t": type_of(e)?, "a": self.exprs(list(e, "children"), input)?}))
            }
            "BOUND_FUNCTION" => self.function(e, input),
            "BOUND_AGGREGATE" => self.aggregate_call(e, input),
            "BOUND_PARAMETER" => Err(Refused::new("a parameter inside of the query's text")),
            "BOUND_WINDOW" => Err(Refused::new("window functions")),
            _ => Err(Refused::new(format!("an expression of the kind {class}"))),
        }
    }

    pub(super) fn exprs(&mut self, es: &[Value], input: &[Column]) -> Result<Vec<Value>, Refused> {
        es.iter().map(|e| self.expr(e, input)).collect()
    }

    fn column(&mut self, e: &Value, input: &[Column]) -> Result<Value, Refused> {
        let column = e["index"].as_u64().and_then(|index| input.get(usize::try_from(index).ok()?));
        let column = column.ok_or_else(|| Refused::new("a column that its input does not have"))?;
        Ok(match column.binding {
            Some((table, position)) => json!({"k": "col", "b": [table, position], "t": type_of(e)?}),
            None => json!({"k": "const", "t": "BOOLEAN", "v": column.mark.to_string()}),
        })
    }

    fn function(&mut self, e: &Value, input: &[Column]) -> Result<Value, Refused> {
        let (kind, children) = (text(e, "type"), list(e, "children"));
        match (kind, children) {
            ("OPERATOR_CAST", [child]) => return self.cast(child, e, e["function_data"]["try_cast"].as_bool(), input),
            ("COMPARE_BETWEEN", [value, lower, upper]) => {
                let data = &e["function_data"];
                let inclusive = (data["lower_inclusive"].as_bool(), data["upper_inclusive"].as_bool());
                return self.between([value, lower, upper], inclusive, input);
            }
            (_, [left, right]) if comparison(kind).is_some() => return self.compare(kind, left, right, input),
            _ => {}
        }
        let name = function_name(e);
        if name == "/" && !self.ieee {
            return Err(Refused::new("division with ieee_floating_point_ops = false"));
        }
        let types = children.iter().map(type_of).collect::<Result<Vec<_>, _>>()?;
        Ok(json!({"k": "fn", "f": name, "t": type_of(e)?, "at": types, "a": self.exprs(children, input)?}))
    }

    fn aggregate_call(&mut self, e: &Value, input: &[Column]) -> Result<Value, Refused> {
        if !e["order_bys"].is_null() {
            return Err(Refused::new("an aggregate with ORDER BY"));
        }
        let children = list(e, "children");
        let types = children.iter().map(type_of).collect::<Result<Vec<_>, _>>()?;
        let distinct = text(e, "aggregate_type") == "DISTINCT";
        let mut call = json!({"k": "agg", "f": function_name(e), "t": type_of(e)?, "distinct": distinct, "at": types,
            "a": self.exprs(children, input)?});
        if !e["filter"].is_null() {
            call["filter"] = self.expr(&e["filter"], input)?;
        }
        Ok(call)
    }

    fn cast(&mut self, child: &Value, e: &Value, attempt: Option<bool>, input: &[Column]) -> Result<Value, Refused> {
        let (from, to) = (type_of(child)?, type_of(e)?);
        let a = [self.expr(child, input)?];
        Ok(json!({"k": "cast", "try": attempt.unwrap_or(false), "t": to, "from": from, "a": a}))
    }

    /// A comparison of two expressions over the same input.
    pub(super) fn compare(&mut self, kind: &str, l: &Value, r: &Value, input: &[Column]) -> Result<Value, Refused> {
        let f = comparison(kind).ok_or_else(|| Refused::new("this kind of comparison"))?;
        Ok(json!({"k": "cmp", "f": f, "a": [self.expr(l, input)?, self.expr(r, input)?]}))
    }

    fn between(
        &mut self,
        [value, lower, upper]: [&Value; 3],
        (from, to): (Option<bool>, Option<bool>),
        input: &[Column],
    ) -> Result<Value, Refused> {
        let (Some(from), Some(to)) = (from, to) else { return Err(Refused::new("BETWEEN of an unknown form")) };
        let least = if from { "COMPARE_GREATERTHANOREQUALTO" } else { "COMPARE_GREATERTHAN" };
        let most = if to { "COMPARE_LESSTHANOREQUALTO" } else { "COMPARE_LESSTHAN" };
        let both = [self.compare(least, value, lower, input)?, self.compare(most, value, upper, input)?];
        Ok(json!({"k": "and", "a": both}))
    }

    fn case(&mut self, e: &Value, input: &[Column]) -> Result<Value, Refused> {
        let mut parts = Vec::new();
        for check in list(e, "case_checks") {
            parts.push(self.expr(&check["when_expr"], input)?);
            parts.push(self.expr(&check["then_expr"], input)?);
        }
        parts.push(self.expr(&e["else_expr"], input)?);
        Ok(json!({"k": "case", "t": type_of(e)?, "a": parts}))
    }

    /// A constant expression: its value, or a request for the value if it is not known yet.
    fn folded(&mut self, e: &Value) -> Result<Value, Refused> {
        let ty = type_of(e)?;
        let Some(values) = self.values else {
            self.requests.push(constant::value_text(e, &ty)?);
            // A NULL of this type takes its place: this plan is not run.
            return Ok(json!({"k": "const", "t": ty, "v": null}));
        };
        let value = values.get(self.next_value).ok_or_else(|| Refused::new("fewer constants than asked for"))?;
        self.next_value += 1;
        let value = value.as_deref().ok_or_else(|| Refused::new("a constant expression that fails"))?;
        Ok(json!({"k": "const", "t": ty, "v": value.strip_prefix('v')}))
    }
}
