//! DuckDB's names of columns that have no alias: expressions as it writes them.

mod calls;
mod queries;
mod special;
mod types;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Array, BinaryOperator, CastKind, Expr, Ident, ObjectName, ObjectNamePart, OneOrManyWithParens,
    Subscript, UnaryOperator, Value, ValueWithSpan,
};

use super::expr::elements;
use crate::dialect::types::optionally_quoted;

/// The name of the column that `expr` makes in a SELECT list of the text `sql`.
pub(crate) fn label(expr: &Expr, sql: &str) -> String {
    match expr {
        Expr::Nested(inner) => label(inner, sql),
        Expr::Identifier(name) => name.value.clone(),
        Expr::CompoundIdentifier(parts) => parts.last().map_or_else(String::new, |part| part.value.clone()),
        expr => Writer { sql }.text(expr),
    }
}

/// Writes labels of a statement's expressions.
#[derive(Clone, Copy)]
struct Writer<'t> {
    /// The statement's text, which says how its types are spelled.
    sql: &'t str,
}

impl Writer<'_> {
    fn text(self, expr: &Expr) -> String {
        match expr {
            Expr::Nested(inner) => self.text(inner),
            Expr::Identifier(name) => optionally_quoted(&name.value),
            Expr::CompoundIdentifier(parts) => path(parts),
            Expr::CompoundFieldAccess { root, access_chain } => self.accessed(root, access_chain),
            Expr::Value(value) => constant(value),
            Expr::Array(_) | Expr::Dictionary(_) | Expr::Map(_) | Expr::Tuple(_) => self.nested(expr),
            Expr::Exists { .. }
            | Expr::Subquery(_)
            | Expr::InSubquery { .. }
            | Expr::AnyOp { .. }
            | Expr::AllOp { .. } => self.subquery(expr),
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right),
            Expr::UnaryOp { op, expr } => self.unary(*op, expr),
            Expr::Between { expr, negated, low, high } => {
                let between = format!("({} BETWEEN {} AND {})", self.text(expr), self.text(low), self.text(high));
                negation(*negated, between)
            }
            Expr::InList { expr, list, negated } => {
                negation(*negated, format!("({} IN ({}))", self.text(expr), self.texts(list)))
            }
            Expr::Cast { kind, expr, data_type, .. } => {
                let cast = if *kind == CastKind::TryCast { "TRY_CAST" } else { "CAST" };
                format!("{cast}({} AS {})", self.text(expr), self.type_name(data_type))
            }
            Expr::TypedString(string) => {
                format!("CAST({} AS {})", constant(&string.value), self.type_name(&string.data_type))
            }
            Expr::Case { operand, conditions, else_result, .. } => {
                let arms = conditions.iter().map(|arm| {
                    let condition = match operand {
                        Some(operand) => format!("({} = {})", self.text(operand), self.text(&arm.condition)),
                        None => self.text(&arm.condition),
                    };
                    format!(" WHEN ({condition}) THEN ({})", self.text(&arm.result))
                });
                let arms: String = arms.collect();
                let otherwise = else_result.as_ref().map_or_else(|| "NULL".to_string(), |result| self.text(result));
                format!("CASE {arms} ELSE {otherwise} END")
            }
            Expr::Lambda(lambda) => {
                let names: Vec<_> = match &lambda.params {
                    OneOrManyWithParens::One(one) => vec![&one.name],
                    OneOrManyWithParens::Many(many) => many.iter().map(|one| &one.name).collect(),
                };
                self.lambda(&names, &lambda.body)
            }
            Expr::Collate { expr, collation } => format!("{} COLLATE {collation}", self.text(expr)),
            Expr::Function(function) => self.call(function),
            expr => self.special(expr).unwrap_or_else(|| expr.to_string()),
        }
    }

    fn texts(self, exprs: &[Expr]) -> String {
        exprs.iter().map(|expr| self.text(expr)).collect::<Vec<_>>().join(", ")
    }

    /// Lists, structs, maps and rows.
    fn nested(self, expr: &Expr) -> String {
        match expr {
            Expr::Array(Array { elem, named: true }) => format!("(ARRAY[{}])", self.texts(elem)),
            Expr::Array(array) => format!("list_value({})", self.texts(&array.elem)),
            Expr::Dictionary(fields) => {
                let fields = fields
                    .iter()
                    .map(|field| format!("{} := {}", optionally_quoted(&field.key.value), self.text(&field.value)));
                format!("struct_pack({})", fields.collect::<Vec<_>>().join(", "))
            }
            Expr::Map(map) => {
                let list = |part: Vec<String>| format!("list_value({})", part.join(", "));
                let keys = list(map.entries.iter().map(|entry| self.text(&entry.key)).collect());
                let values = list(map.entries.iter().map(|entry| self.text(&entry.value)).collect());
                format!("\"map\"({keys}, {values})")
            }
            Expr::Tuple(values) => format!("\"row\"({})", self.texts(values)),
            expr => expr.to_string(),
        }
    }

    /// `root[i].name` and slices.
    fn accessed(self, root: &Expr, chain: &[AccessExpr]) -> String {
        // Names after a name are a path.
        let mut in_path = matches!(root, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        let mut text = self.text(root);
        for access in chain {
            match access {
                AccessExpr::Dot(Expr::Function(method)) => text = format!("{text}.{}", self.call(method)),
                AccessExpr::Dot(field) if in_path => text = format!("{text}.{}", self.text(field)),
                AccessExpr::Dot(field) => text = format!("({text}).{}", self.text(field)),
                AccessExpr::Subscript(subscript) => text.push_str(&self.subscript(subscript)),
            }
            in_path &= matches!(access, AccessExpr::Dot(Expr::Identifier(_)));
        }
        text
    }

    fn subscript(self, subscript: &Subscript) -> String {
        let bound = |bound: &Option<Expr>| bound.as_ref().map_or_else(String::new, |bound| self.text(bound));
        match subscript {
            Subscript::Index { index } => format!("[{}]", self.text(index)),
            Subscript::Slice { lower_bound, upper_bound, stride } => {
                let stride = stride.as_ref().map_or_else(String::new, |stride| format!(":{}", self.text(stride)));
                format!("[{}:{}{stride}]", bound(lower_bound), bound(upper_bound))
            }
        }
    }

    fn binary(self, left: &Expr, op: &BinaryOperator, right: &Expr) -> String {
        use BinaryOperator::{And, Arrow, BitwiseXor, NotEq, Or, PGRegexMatch, PGRegexNotMatch};
        if matches!(op, And | Or) {
            let mut operands = vec![];
            self.operands(left, op, &mut operands);
            self.operands(right, op, &mut operands);
            return format!("({})", operands.join(&format!(" {op} ")));
        }
        // A lambda is spelled `(x) -> (e)` for the parser.
        if let (Arrow, Some(names), Expr::Nested(body)) = (op, parameters(left), right) {
            return self.lambda(&names, body);
        }
        let (left, right) = (self.text(left), self.text(right));
        match op {
            NotEq => format!("({left} != {right})"),
            PGRegexMatch => format!("regexp_matches({left}, {right})"),
            PGRegexNotMatch => format!("(NOT regexp_matches({left}, {right}))"),
            // The parser reads both as `^`.
            BitwiseXor if self.sql.contains("**") => format!("({left} ** {right})"),
            op => format!("({left} {op} {right})"),
        }
    }

    /// Collects the operands of a chain of AND or OR.
    fn operands(self, expr: &Expr, op: &BinaryOperator, operands: &mut Vec<String>) {
        let mut expr = expr;
        while let Expr::Nested(inner) = expr {
            expr = inner;
        }
        match expr {
            Expr::BinaryOp { left, op: inner, right } if inner == op => {
                self.operands(left, op, operands);
                self.operands(right, op, operands);
            }
            expr => operands.push(self.text(expr)),
        }
    }

    fn unary(self, op: UnaryOperator, expr: &Expr) -> String {
        let operand = self.text(expr);
        match op {
            UnaryOperator::Minus if is_number(expr) => match operand.strip_prefix('-') {
                Some(positive) => positive.to_string(),
                None => format!("-{operand}"),
            },
            UnaryOperator::Not => format!("(NOT {operand})"),
            op => format!("({op}({operand}))"),
        }
    }

    fn lambda(self, names: &[&Ident], body: &Expr) -> String {
        let names: Vec<_> = names.iter().map(|name| optionally_quoted(&name.value)).collect();
        format!("(lambda {}: {})", names.join(", "), self.text(body))
    }
}

fn negation(negated: bool, text: String) -> String {
    if negated { format!("(NOT {text})") } else { text }
}

/// The parameters of a lambda in parentheses; `None` for an expression.
fn parameters(expr: &Expr) -> Option<Vec<&Ident>> {
    let several = match expr {
        Expr::Nested(one) => std::slice::from_ref(&**one),
        Expr::Tuple(several) => several,
        _ => return None,
    };
    let names = several.iter().map(|expr| match expr {
        Expr::Identifier(name) => Some(name),
        _ => None,
    });
    names.collect()
}

/// Names with points between them.
fn path(parts: &[Ident]) -> String {
    parts.iter().map(|part| optionally_quoted(&part.value)).collect::<Vec<_>>().join(".")
}

/// The name of an object, with its parts separated by points.
fn object(name: &ObjectName) -> String {
    let parts: Vec<_> = name.0.iter().filter_map(ObjectNamePart::as_ident).cloned().collect();
    path(&parts)
}

fn constant(value: &ValueWithSpan) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    match &value.value {
        Value::Boolean(value) => value.to_string(),
        Value::Null => "NULL".to_string(),
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => quoted(text),
        Value::DollarQuotedString(text) => quoted(&text.value),
        other => other.to_string(),
    }
}

/// Whether an expression is a number, possibly with signs or in parentheses.
fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => is_number(inner),
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        _ => false,
    }
}
