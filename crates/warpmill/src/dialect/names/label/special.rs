//! Labels of expressions with special syntax that are function calls in DuckDB.

use datafusion::sql::sqlparser::ast::{DateTimeField, Expr, Interval, TrimWhereField, ValueWithSpan};

use super::{Writer, constant, negation};

impl Writer<'_> {
    pub(super) fn special(self, expr: &Expr) -> Option<String> {
        Some(match expr {
            Expr::IsNull(inner) | Expr::IsUnknown(inner) => format!("({} IS NULL)", self.text(inner)),
            Expr::IsNotNull(inner) | Expr::IsNotUnknown(inner) => format!("({} IS NOT NULL)", self.text(inner)),
            Expr::IsTrue(inner) => self.truth(inner, "IS NOT DISTINCT FROM true"),
            Expr::IsFalse(inner) => self.truth(inner, "IS NOT DISTINCT FROM false"),
            Expr::IsNotTrue(inner) => self.truth(inner, "IS DISTINCT FROM true"),
            Expr::IsNotFalse(inner) => self.truth(inner, "IS DISTINCT FROM false"),
            Expr::IsDistinctFrom(left, right) => {
                format!("({} IS DISTINCT FROM {})", self.text(left), self.text(right))
            }
            Expr::IsNotDistinctFrom(left, right) => {
                format!("({} IS NOT DISTINCT FROM {})", self.text(left), self.text(right))
            }
            Expr::Like { negated, expr, pattern, escape_char, .. } => {
                let pattern = Pattern { negated: *negated, expr, pattern, escape: escape_char.as_ref() };
                self.like(&pattern, "~~", "like_escape")
            }
            Expr::ILike { negated, expr, pattern, escape_char, .. } => {
                let pattern = Pattern { negated: *negated, expr, pattern, escape: escape_char.as_ref() };
                self.like(&pattern, "~~*", "ilike_escape")
            }
            Expr::RLike { negated, expr, pattern, regexp: false } => {
                negation(*negated, format!("({} ~~~ {})", self.text(expr), self.text(pattern)))
            }
            Expr::SimilarTo { negated, expr, pattern, escape_char: None } => {
                negation(*negated, format!("regexp_full_match({}, {})", self.text(expr), self.text(pattern)))
            }
            Expr::Extract { field, expr, .. } => format!("date_part('{}', {})", part(field), self.text(expr)),
            Expr::Substring { expr, substring_from, substring_for, shorthand, .. } => {
                let name = if *shorthand { "substr" } else { "\"substring\"" };
                let first = substring_from.as_ref().map_or_else(|| "1".to_string(), |from| self.text(from));
                let length = substring_for.as_ref().map_or_else(String::new, |of| format!(", {}", self.text(of)));
                format!("{name}({}, {first}{length})", self.text(expr))
            }
            Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                    Some(TrimWhereField::Both) | None => "\"trim\"",
                };
                let what = trim_what.as_deref().into_iter().chain(trim_characters.iter().flatten());
                let args: Vec<_> = std::iter::once(&**expr).chain(what).map(|arg| self.text(arg)).collect();
                format!("{name}({})", args.join(", "))
            }
            Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let args = [Some(expr), Some(overlay_what), Some(overlay_from), overlay_for.as_ref()];
                let args: Vec<_> = args.into_iter().flatten().map(|arg| self.text(arg)).collect();
                format!("\"overlay\"({})", args.join(", "))
            }
            Expr::Position { expr, r#in } => format!("\"position\"({}, {})", self.text(r#in), self.text(expr)),
            Expr::Ceil { expr, .. } => format!("ceil({})", self.text(expr)),
            Expr::Floor { expr, .. } => format!("floor({})", self.text(expr)),
            Expr::AtTimeZone { timestamp, time_zone } => {
                format!("timezone({}, {})", self.text(time_zone), self.text(timestamp))
            }
            Expr::Interval(interval) => self.interval(interval)?,
            Expr::GroupingSets(sets) => {
                let sets: Vec<_> = sets.iter().map(|set| format!("({})", self.texts(set))).collect();
                format!("GROUPING SETS ({})", sets.join(","))
            }
            _ => return None,
        })
    }

    fn truth(self, value: &Expr, comparison: &str) -> String {
        format!("(CAST({} AS BOOLEAN) {comparison})", self.text(value))
    }

    fn like(self, like: &Pattern<'_>, operator: &str, function: &str) -> String {
        let (text, pattern) = (self.text(like.expr), self.text(like.pattern));
        match like.escape {
            Some(escape) => negation(like.negated, format!("{function}({text}, {pattern}, {})", constant(escape))),
            None => format!("({text} {}{operator} {pattern})", if like.negated { "!" } else { "" }),
        }
    }

    fn interval(self, interval: &Interval) -> Option<String> {
        let value = self.text(&interval.value);
        let Some(unit) = &interval.leading_field else { return Some(format!("CAST({value} AS INTERVAL)")) };
        let (function, ty) = match unit.to_string().to_uppercase().as_str() {
            "YEAR" | "YEARS" => ("to_years", "INTEGER"),
            "MONTH" | "MONTHS" => ("to_months", "INTEGER"),
            "DAY" | "DAYS" => ("to_days", "INTEGER"),
            "WEEK" | "WEEKS" => ("to_weeks", "INTEGER"),
            "QUARTER" | "QUARTERS" => ("to_quarters", "INTEGER"),
            "DECADE" | "DECADES" => ("to_decades", "INTEGER"),
            "CENTURY" | "CENTURIES" => ("to_centuries", "INTEGER"),
            "MILLENNIUM" | "MILLENNIA" | "MILLENIUM" => ("to_millennia", "INTEGER"),
            "HOUR" | "HOURS" => ("to_hours", "BIGINT"),
            "MINUTE" | "MINUTES" => ("to_minutes", "BIGINT"),
            "MICROSECOND" | "MICROSECONDS" => ("to_microseconds", "BIGINT"),
            "SECOND" | "SECONDS" => return Some(format!("to_seconds(CAST({value} AS DOUBLE))")),
            "MILLISECOND" | "MILLISECONDS" => return Some(format!("to_milliseconds(CAST({value} AS DOUBLE))")),
            _ => return None,
        };
        Some(format!("{function}(CAST(trunc(CAST({value} AS DOUBLE)) AS {ty}))"))
    }
}

/// LIKE and ILIKE.
struct Pattern<'e> {
    negated: bool,
    expr: &'e Expr,
    pattern: &'e Expr,
    escape: Option<&'e ValueWithSpan>,
}

/// The part of EXTRACT: words of DuckDB's grammar under one name, others as in the text.
fn part(field: &DateTimeField) -> String {
    let written = match field {
        DateTimeField::Custom(name) if name.quote_style.is_some() => return name.value.clone(),
        field => field.to_string(),
    };
    let upper = written.to_uppercase();
    match upper.as_str() {
        "YEARS" | "MONTHS" | "DAYS" | "HOURS" | "MINUTES" | "SECONDS" | "WEEKS" | "QUARTERS" | "DECADES" => {
            upper.trim_end_matches('S').to_string()
        }
        "CENTURIES" => "CENTURY".to_string(),
        "MILLENNIA" | "MILLENIUM" => "MILLENNIUM".to_string(),
        "MILLISECOND" | "MICROSECOND" => format!("{upper}S"),
        "YEAR" | "MONTH" | "DAY" | "HOUR" | "MINUTE" | "SECOND" | "WEEK" | "QUARTER" | "DECADE" | "CENTURY"
        | "MILLENNIUM" | "MILLISECONDS" | "MICROSECONDS" => upper,
        _ => written.to_lowercase(),
    }
}
