//! Fields of structs that are known before types are: `unnest(s)` makes a column of each.

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, SelectItem,
    SelectItemQualifiedWildcardKind, Value,
};

use super::calls::arguments;
use super::scope::{Scope, field_access};

/// The fields of a struct by name, and those of nested structs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parts(Vec<(String, Option<Parts>)>);

impl Parts {
    pub(super) fn of_type(ty: &DataType) -> Option<Self> {
        let DataType::Struct(fields) = ty else { return None };
        Some(Self(fields.iter().map(|field| (field.name().clone(), Self::of_type(field.data_type()))).collect()))
    }

    /// The struct fields of the value of an expression: a column, or a struct constructor.
    pub(super) fn of(expr: &Expr, scope: &Scope<'_>) -> Option<Self> {
        match expr {
            Expr::Nested(inner) => Self::of(inner, scope),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => scope.parts(expr),
            Expr::Dictionary(fields) => {
                let part = fields.iter().map(|field| (field.key.value.clone(), Self::of(&field.value, scope)));
                Some(Self(part.collect()))
            }
            Expr::Tuple(values) => Some(Self::of_row(values, scope)),
            Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("row") => {
                Some(Self::of_row(&arguments(call)?, scope))
            }
            Expr::Function(call) if call.name.to_string() == "named_struct" => {
                let args = arguments(call)?;
                let part = |pair: &[Expr]| match pair {
                    [Expr::Value(name), value] => match &name.value {
                        Value::SingleQuotedString(name) => Some((name.clone(), Self::of(value, scope))),
                        _ => None,
                    },
                    _ => None,
                };
                Some(Self(args.chunks(2).map(part).collect::<Option<_>>()?))
            }
            _ => None,
        }
    }

    fn of_row(values: &[Expr], scope: &Scope<'_>) -> Self {
        Self(values.iter().enumerate().map(|(at, value)| (format!("c{at}"), Self::of(value, scope))).collect())
    }

    /// Whether these are the fields of a row, which are unnamed.
    fn is_row(&self) -> bool {
        self.0.iter().enumerate().all(|(at, (name, _))| *name == format!("c{at}"))
    }
}

/// The columns of `unnest(s)` for a struct with known fields: each of them, by name.
pub(super) fn unnested(call: &Function, scope: &Scope<'_>) -> Option<Vec<(SelectItem, Option<String>)>> {
    let ([name], FunctionArguments::List(list)) = (call.name.0.as_slice(), &call.args) else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(of))] = list.args.as_slice() else { return None };
    if !name.as_ident()?.value.eq_ignore_ascii_case("unnest") {
        return None;
    }
    fields_of(of, scope)
}

/// The columns of `s.*` for a struct `s` with known fields; `None` where that is a relation, or something else.
pub(super) fn starred(item: &SelectItem, scope: &Scope<'_>) -> Option<Vec<(SelectItem, Option<String>)>> {
    let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) = item else {
        return None;
    };
    let is_plain = options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none();
    let parts: Vec<Ident> = name.0.iter().map(|part| part.as_ident().cloned()).collect::<Option<_>>()?;
    if !is_plain || scope.relation(&parts).is_some() {
        return None;
    }
    let of = match parts.as_slice() {
        [name] => Expr::Identifier(name.clone()),
        _ => Expr::CompoundIdentifier(parts),
    };
    fields_of(&of, scope)
}

/// The fields of a struct as columns.
fn fields_of(of: &Expr, scope: &Scope<'_>) -> Option<Vec<(SelectItem, Option<String>)>> {
    let parts = Parts::of(of, scope).filter(|parts| !parts.0.is_empty())?;
    let is_row = parts.is_row();
    let column = |(at, (name, _)): (usize, (String, _))| {
        let access_chain = vec![field_access(&Ident::new(name.as_str()))];
        let field = Expr::CompoundFieldAccess { root: Box::new(of.clone()), access_chain };
        (SelectItem::UnnamedExpr(field), Some(if is_row { format!("element{}", at + 1) } else { name }))
    };
    Some(parts.0.into_iter().enumerate().map(column).collect())
}
