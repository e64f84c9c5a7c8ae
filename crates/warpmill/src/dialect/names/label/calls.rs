//! Labels of function calls, including windows.

use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, NullTreatment, ObjectNamePart, OrderByExpr, WindowFrame, WindowFrameBound, WindowFrameUnits,
    WindowSpec, WindowType,
};

use super::super::windows::excluded_words;
use super::{Writer, negation};
use crate::dialect::states;
use crate::dialect::types::optionally_quoted;

impl Writer<'_> {
    pub(super) fn call(self, function: &Function) -> String {
        let mut text = match (self.name(function), &function.args) {
            (name, FunctionArguments::List(list)) if name == optionally_quoted(states::WRAPPER) => {
                let call = list.args.iter().map(|call| self.argument(call)).collect::<String>();
                return format!("{call} EXPORT_STATE");
            }
            (name, FunctionArguments::List(list)) => self.with_arguments(&name, function, list),
            (name, FunctionArguments::None) => name,
            (name, FunctionArguments::Subquery(query)) => format!("{name}({})", self.query(query)),
        };
        if !function.within_group.is_empty() && !is_quantile(function) {
            text.push_str(&format!(" WITHIN GROUP ( ORDER BY {})", self.sort_keys(&function.within_group)));
        }
        if let Some(filter) = &function.filter {
            text.push_str(&format!(" FILTER (WHERE {})", self.text(filter)));
        }
        match &function.over {
            Some(WindowType::WindowSpec(window)) => text.push_str(&format!(" OVER ({})", self.window(window))),
            Some(WindowType::NamedWindow(name)) => text.push_str(&format!(" OVER {name}")),
            None => {}
        }
        text
    }

    /// The name of a function, in lower case except for words of the grammar.
    fn name(self, function: &Function) -> String {
        let is_value = matches!(function.args, FunctionArguments::None);
        let plain = |part: &ObjectNamePart| part.as_ident().map_or_else(|| part.to_string(), |name| name.value.clone());
        let mut parts: Vec<_> = function.name.0.iter().map(plain).collect();
        let name = parts.pop().unwrap_or_default().to_lowercase();
        let name = match (name.as_str(), function.over.is_some()) {
            ("first" | "last", true) => format!("{name}_value"),
            ("coalesce" | "ifnull", _) => "COALESCE".to_string(),
            ("grouping" | "grouping_id", _) => "GROUPING".to_string(),
            ("try", _) => "TRY".to_string(),
            ("columns", _) => "COLUMNS".to_string(),
            ("percentile_cont", _) if is_quantile(function) => "quantile_cont".to_string(),
            ("percentile_disc", _) if is_quantile(function) => "quantile_disc".to_string(),
            // Window functions' names are written as in the text.
            (name, in_window) if is_value || in_window => name.to_string(),
            (name, _) => optionally_quoted(name),
        };
        parts.iter().map(|part| optionally_quoted(part)).chain([name]).collect::<Vec<_>>().join(".")
    }

    fn with_arguments(self, name: &str, function: &Function, list: &FunctionArgumentList) -> String {
        let args = list.args.iter().map(|arg| self.argument(arg)).collect::<Vec<_>>().join(", ");
        let args = match (name, args.as_str()) {
            ("count", "" | "*") if function.over.is_none() => return "count_star()".to_string(),
            ("count", "*") => "",
            (_, args) => args,
        };
        let distinct = match list.duplicate_treatment {
            Some(DuplicateTreatment::Distinct) => "DISTINCT ",
            _ => "",
        };
        let sorting = match is_quantile(function) {
            true => format!(" ORDER BY {}", self.sort_keys(&function.within_group)),
            false => self.sorting(list),
        };
        let ignores = |clause: &FunctionArgumentClause| {
            matches!(clause, FunctionArgumentClause::IgnoreOrRespectNulls(NullTreatment::IgnoreNulls))
        };
        let ignored = function.null_treatment == Some(NullTreatment::IgnoreNulls) || list.clauses.iter().any(ignores);
        let nulls = if ignored { " IGNORE NULLS" } else { "" };
        format!("{name}({distinct}{args}{sorting}{nulls})")
    }

    /// The ORDER BY within the parentheses of a call, preceded by a space.
    fn sorting(self, list: &FunctionArgumentList) -> String {
        let keys = list.clauses.iter().find_map(|clause| match clause {
            FunctionArgumentClause::OrderBy(keys) => Some(self.sort_keys(keys)),
            _ => None,
        });
        keys.map_or_else(String::new, |keys| format!(" ORDER BY {keys}"))
    }

    pub(super) fn argument(self, argument: &FunctionArg) -> String {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => self.text(expr),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } => {
                format!("{} := {}", optionally_quoted(&name.value), self.text(expr))
            }
            FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(expr), .. } => {
                format!("{} := {}", optionally_quoted(&name.value), self.text(expr))
            }
            argument => argument.to_string(),
        }
    }

    fn window(self, window: &WindowSpec) -> String {
        let mut parts = Vec::new();
        let excluded = window.partition_by.iter().find_map(excluded_words);
        let keys: Vec<Expr> = window.partition_by.iter().filter(|key| excluded_words(key).is_none()).cloned().collect();
        if !keys.is_empty() {
            parts.push(format!("PARTITION BY {}", self.texts(&keys)));
        }
        if !window.order_by.is_empty() {
            parts.push(format!("ORDER BY {}", self.sort_keys(&window.order_by)));
        }
        parts.extend(window.window_frame.as_ref().and_then(|frame| self.frame(frame, excluded.is_some())));
        parts.extend(excluded.map(|words| format!("EXCLUDE {}", words.to_uppercase())));
        parts.join(" ")
    }

    /// A frame, unless it is the one that a window has anyway, with all of its rows.
    fn frame(self, frame: &WindowFrame, has_excluded: bool) -> Option<String> {
        use WindowFrameBound::{CurrentRow, Following, Preceding};
        let end = frame.end_bound.as_ref().unwrap_or(&CurrentRow);
        let units = match (&frame.start_bound, end) {
            (Preceding(None), CurrentRow) if frame.units == WindowFrameUnits::Range && !has_excluded => return None,
            (Preceding(None), Following(None)) => WindowFrameUnits::Rows,
            _ => frame.units,
        };
        Some(format!("{units} BETWEEN {} AND {}", self.bound(&frame.start_bound), self.bound(end)))
    }

    fn bound(self, bound: &WindowFrameBound) -> String {
        match bound {
            WindowFrameBound::Preceding(Some(offset)) => format!("{} PRECEDING", self.text(offset)),
            WindowFrameBound::Following(Some(offset)) => format!("{} FOLLOWING", self.text(offset)),
            bound => bound.to_string(),
        }
    }

    pub(super) fn sort_keys(self, keys: &[OrderByExpr]) -> String {
        keys.iter().map(|key| self.sort_key(key)).collect::<Vec<_>>().join(", ")
    }

    fn sort_key(self, key: &OrderByExpr) -> String {
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
        format!("{}{direction}{nulls}", self.text(&key.expr))
    }

    /// `contains(list, value)`, which `value IN list` is.
    pub(super) fn contains(self, list: &Expr, value: &Expr, negated: bool) -> String {
        negation(negated, format!("contains({}, {})", self.text(list), self.text(value)))
    }
}

/// Whether a call is a quantile in the order of WITHIN GROUP.
fn is_quantile(function: &Function) -> bool {
    let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(|name| name.value.to_lowercase());
    !function.within_group.is_empty() && matches!(name.as_deref(), Some("percentile_cont" | "percentile_disc"))
}
