//! DuckDB's names of columns that have no alias.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, OrderByExpr, UnaryOperator, Value, WindowType,
};

use super::expr::elements;

/// The name of the column that `expr` makes in a SELECT list.
pub(crate) fn label(expr: &Expr) -> String {
    match expr {
        Expr::Nested(inner) => label(inner),
        Expr::Identifier(name) => name.value.clone(),
        Expr::CompoundIdentifier(parts) => parts.last().map_or_else(String::new, |part| part.value.clone()),
        expr => text(expr),
    }
}

fn text(expr: &Expr) -> String {
    match expr {
        Expr::Nested(inner) => text(inner),
        Expr::Identifier(name) => name.value.clone(),
        Expr::CompoundIdentifier(parts) => parts.iter().map(|part| part.value.as_str()).collect::<Vec<_>>().join("."),
        Expr::Value(value) => match &value.value {
            Value::Boolean(value) => value.to_string(),
            Value::Null => "NULL".to_string(),
            other => other.to_string(),
        },
        Expr::BinaryOp { left, op, right } => match op {
            BinaryOperator::NotEq => format!("({} != {})", text(left), text(right)),
            op => format!("({} {op} {})", text(left), text(right)),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match &**expr {
            Expr::Value(value) => format!("-{value}"),
            inner => format!("(-({}))", text(inner)),
        },
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => format!("(NOT {})", text(expr)),
        Expr::UnaryOp { op, expr } => format!("({op}({}))", text(expr)),
        Expr::AnyOp { left, right, .. } if elements(right).is_some() => {
            format!("contains({}, {})", elements(right).as_ref().map_or_else(String::new, text), text(left))
        }
        Expr::AllOp { left, right, .. } if elements(right).is_some() => {
            format!("(NOT contains({}, {}))", elements(right).as_ref().map_or_else(String::new, text), text(left))
        }
        Expr::IsNull(inner) => format!("({} IS NULL)", text(inner)),
        Expr::IsNotNull(inner) => format!("({} IS NOT NULL)", text(inner)),
        Expr::IsDistinctFrom(left, right) => format!("({} IS DISTINCT FROM {})", text(left), text(right)),
        Expr::IsNotDistinctFrom(left, right) => format!("({} IS NOT DISTINCT FROM {})", text(left), text(right)),
        Expr::Between { expr, negated, low, high } => {
            negation(*negated, format!("({} BETWEEN {} AND {})", text(expr), text(low), text(high)))
        }
        Expr::InList { expr, list, negated } => negation(*negated, format!("({} IN ({}))", text(expr), texts(list))),
        Expr::Like { negated, expr, pattern, escape_char: None, .. } => {
            format!("({} {}~~ {})", text(expr), if *negated { "!" } else { "" }, text(pattern))
        }
        Expr::ILike { negated, expr, pattern, escape_char: None, .. } => {
            format!("({} {}~~* {})", text(expr), if *negated { "!" } else { "" }, text(pattern))
        }
        Expr::Cast { kind, expr, data_type, .. } => {
            let cast = if *kind == CastKind::TryCast { "TRY_CAST" } else { "CAST" };
            format!("{cast}({} AS {})", text(expr), type_name(data_type))
        }
        Expr::TypedString(string) => {
            format!("CAST({} AS {})", string.value, string.data_type.to_string().to_lowercase())
        }
        Expr::Case { operand, conditions, else_result, .. } => {
            let arms = conditions.iter().map(|arm| {
                let condition = match operand {
                    Some(operand) => format!("({} = {})", text(operand), text(&arm.condition)),
                    None => text(&arm.condition),
                };
                format!(" WHEN ({condition}) THEN ({})", text(&arm.result))
            });
            let arms: String = arms.collect();
            let otherwise = else_result.as_ref().map_or_else(|| "NULL".to_string(), |result| text(result));
            format!("CASE {arms} ELSE {otherwise} END")
        }
        Expr::Function(function) => call(function),
        expr => expr.to_string(),
    }
}

fn texts(exprs: &[Expr]) -> String {
    exprs.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn negation(negated: bool, text: String) -> String {
    if negated { format!("(NOT {text})") } else { text }
}

fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Int(_) => "INTEGER".to_string(),
        DataType::Text | DataType::String(_) => "VARCHAR".to_string(),
        DataType::Float(_) | DataType::Real => "FLOAT".to_string(),
        data_type => data_type.to_string().to_uppercase(),
    }
}

fn call(function: &Function) -> String {
    let name = function.name.0.last().map_or_else(String::new, |part| part.to_string().to_lowercase());
    let mut text = match &function.args {
        FunctionArguments::List(list) => {
            let args: Vec<_> = list.args.iter().map(argument).collect();
            let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
            match (name.as_str(), args.as_slice()) {
                ("count", [star]) if star == "*" && function.over.is_none() => "count_star()".to_string(),
                ("count", [star]) if star == "*" => "count()".to_string(),
                ("coalesce", args) => format!("COALESCE({})", args.join(", ")),
                (name, args) => format!("{name}({}{})", if distinct { "DISTINCT " } else { "" }, args.join(", ")),
            }
        }
        FunctionArguments::None => name,
        FunctionArguments::Subquery(query) => format!("{name}({query})"),
    };
    if let Some(filter) = &function.filter {
        text.push_str(&format!(" FILTER (WHERE {})", self::text(filter)));
    }
    match &function.over {
        Some(WindowType::WindowSpec(window)) => {
            let mut parts = Vec::new();
            if !window.partition_by.is_empty() {
                parts.push(format!("PARTITION BY {}", texts(&window.partition_by)));
            }
            if !window.order_by.is_empty() {
                let keys: Vec<_> = window.order_by.iter().map(sort_key).collect();
                parts.push(format!("ORDER BY {}", keys.join(", ")));
            }
            parts.extend(window.window_frame.as_ref().map(|frame| match &frame.end_bound {
                Some(end) => format!("{} BETWEEN {} AND {end}", frame.units, frame.start_bound),
                None => format!("{} {}", frame.units, frame.start_bound),
            }));
            text.push_str(&format!(" OVER ({})", parts.join(" ")));
        }
        Some(WindowType::NamedWindow(name)) => text.push_str(&format!(" OVER {name}")),
        None => {}
    }
    text
}

fn argument(argument: &FunctionArg) -> String {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => text(expr),
        argument => argument.to_string(),
    }
}

fn sort_key(key: &OrderByExpr) -> String {
    let direction = match key.options.asc {
        Some(false) => " DESC",
        Some(true) => " ASC",
        None => "",
    };
    let nulls = match key.options.nulls_first {
        Some(true) => " NULLS FIRST",
        Some(false) => " NULLS LAST",
        None => "",
    };
    format!("{}{direction}{nulls}", text(&key.expr))
}
