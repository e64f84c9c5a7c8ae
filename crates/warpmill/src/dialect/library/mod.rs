//! DuckDB functions that DataFusion lacks, or defines differently.

mod bins;
mod calendar;
mod combined_lists;
pub(super) mod csv_field;
mod enums;
mod errors;
mod formats;
mod intervals;
mod json;
mod json_structure;
mod json_writer;
mod lists;
mod moments;
mod numbers;
mod own;
mod parts;
mod quantiles;
mod ranks;
mod reduce;
mod regexps;
mod series;
mod similar;
mod structs;
mod texts;
mod uuids;
mod vectors;

use std::sync::{Arc, LazyLock};

use datafusion::logical_expr::{Expr, ScalarUDF, expr::ScalarFunction};
use warpmill_translate::functions::simple_case;

pub(super) use bins::other_bin;
pub(super) use calendar::read as moment_of;
pub(super) use quantiles::{Quantiles, check_fraction};
pub(super) use ranks::{Shape, map_type};
pub(super) use reduce::function as reduce;
pub(super) use structs::map_of_places;

/// The functions in registration order: a later one replaces earlier ones of the same name.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    ALL.iter().cloned().chain([simple_case(true), simple_case(false)]).chain(uuids::makers()).collect()
}

static ALL: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| {
    let own = [
        numbers::functions(),
        texts::functions(),
        similar::functions(),
        regexps::functions(),
        formats::functions(),
        calendar::functions(),
        moments::functions(),
        intervals::functions(),
        series::functions(),
        lists::functions(),
        ranks::functions(),
        bins::functions(),
        quantiles::functions(),
        combined_lists::functions(),
        json::functions(),
        structs::functions(),
        csv_field::functions(),
        errors::functions(),
        uuids::functions(),
        enums::functions(),
        vectors::functions(),
    ];
    own.into_iter().flatten().map(|function| Arc::new(ScalarUDF::from(function))).collect()
});

/// Defines a function that gives the name which stands for another one, and the list of all of these.
macro_rules! names {
    (#[doc = $doc:literal] $function:ident, $all:ident; $($($other:literal)|+ => $name:literal,)*) => {
        #[doc = $doc]
        pub(super) fn $function(name: &str) -> &str {
            match name {
                $($($other)|+ => $name,)*
                name => name,
            }
        }

        /// The other names of functions, each with the name that it stands for.
        const $all: &[(&str, &str)] = &[$($(($other, $name),)+)*];
    };
}

/// A call of one of the library's functions.
pub(super) fn call(name: &str, args: Vec<Expr>) -> Option<Expr> {
    let function = ALL.iter().find(|function| function.name() == name)?;
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args)))
}

names! {
    /// The name of a function that is called `name`, too.
    scalar, SCALARS;
    "upper" | "ucase" => "simple_upper",
    "lower" | "lcase" => "simple_lower",
    "len" => "length",
    "prefix" => "starts_with",
    "suffix" => "ends_with",
    "str_split" | "split" | "string_to_array" => "string_split",
    "regexp_split_to_array" | "str_split_regex" => "string_split_regex",
    "editdist3" => "levenshtein",
    "mismatches" => "hamming",
    "to_base64" => "base64",
    "to_hex" => "hex",
    "from_hex" => "unhex",
    "to_binary" => "bin",
    "from_binary" => "unbin",
    "formatreadablesize" => "format_bytes",
    "datediff" => "date_diff",
    "datesub" => "date_sub",
    "datepart" => "date_part",
    "datetrunc" => "date_trunc",
    "ceiling" => "ceil",
    "pow" => "power",
    "list_value" | "list_pack" | "array_value" => "make_array",
    "list_element" | "list_extract" => "array_extract",
    "array_slice" => "list_slice",
    "list_has" | "array_contains" | "array_has" => "list_contains",
    "list_indexof" | "array_indexof" | "array_position" => "list_position",
    "array_sort" => "list_sort",
    "array_reverse_sort" => "list_reverse_sort",
    "array_reverse" => "list_reverse",
    "array_distinct" => "list_distinct",
    "array_unique" => "list_unique",
    "array_select" => "list_select",
    "array_where" => "list_where",
    "array_grade_up" | "grade_up" => "list_grade_up",
    "list_cat" | "list_concat" | "array_cat" => "array_concat",
    "list_append" => "array_append",
    "list_prepend" => "array_prepend",
    "list_intersect" => "array_intersect",
    "array_distance" => "list_distance",
    "list_dot_product" | "array_inner_product" | "array_dot_product" => "list_inner_product",
    "list_negative_dot_product" | "array_negative_inner_product" | "array_negative_dot_product" => "list_negative_inner_product",
    "array_cosine_similarity" => "list_cosine_similarity",
    "array_cosine_distance" => "list_cosine_distance",
    "list_resize" => "array_resize",
    "array_has_any" => "list_has_any",
    "array_has_all" => "list_has_all",
    "list_variance" => "list_var_samp",
    "list_stddev" => "list_stddev_samp",
    "gen_random_uuid" | "uuidv4" => "uuid",
    "json_extract_path" => "json_extract",
    "json_extract_path_text" => "json_extract_string",
    "array_to_json" | "row_to_json" => "to_json",
    "struct_extract" => "get_field",
    "substr" | "substring" => "substr",
}

names! {
    /// The name of a function with a lambda that is called `name`, too.
    with_lambda, WITH_LAMBDAS;
    "list_apply" | "apply" | "array_apply" => "array_transform",
    "filter" => "array_filter",
    "array_reduce" | "reduce" => "list_reduce",
}

names! {
    /// The name of an aggregate that is called `name`, too.
    aggregate, AGGREGATES;
    "list" => "array_agg",
    "first" | "arbitrary" => "first_value",
    "last" => "last_value",
    "any_value" => "any_value",
    "mean" => "avg",
    "variance" => "var_samp",
    "grouping_id" => "grouping",
}

/// Names that stand for others, each with the name that it stands for: of scalar functions.
pub(super) fn scalar_aliases() -> impl Iterator<Item = (&'static str, &'static str)> {
    SCALARS.iter().chain(WITH_LAMBDAS).copied()
}

/// Names of aggregates that are not registered.
pub(super) fn aggregate_names() -> impl Iterator<Item = &'static str> {
    let aliases = AGGREGATES.iter().map(|(name, _)| *name);
    aliases.chain(COMPOSED).chain(OF_LISTS.iter().map(|(name, _)| *name))
}

/// Whether a name is an alias of a function, or an aggregate that is rewritten to other functions.
pub(super) fn is_taken(name: &str) -> bool {
    scalar(name) != name || with_lambda(name) != name || aggregate(name) != name || is_composed(name)
}

/// Aggregates of rows that become other functions, besides those of lists ([`composed_of_list`]).
const COMPOSED: [&str; 23] = [
    "weighted_avg",
    "wavg",
    "count_if",
    "countif",
    "arg_min",
    "argmin",
    "min_by",
    "arg_max",
    "argmax",
    "max_by",
    "arg_min_null",
    "arg_max_null",
    "group_concat",
    "listagg",
    "fsum",
    "sumkahan",
    "kahan_sum",
    "favg",
    "approx_count_distinct",
    "json_group_array",
    "json_group_object",
    "percentile_cont",
    "percentile_disc",
];

/// Whether a name is that of an aggregate of rows that becomes other functions.
pub(super) fn is_composed(name: &str) -> bool {
    composed_of_list(name).is_some() || COMPOSED.contains(&name)
}

/// Aggregates that are functions of lists, with these functions.
const OF_LISTS: [(&str, &str); 18] = [
    // Exact, not approximate.
    ("approx_quantile", "list_quantile_disc"),
    ("reservoir_quantile", "list_quantile_disc"),
    ("product", "list_product"),
    ("mode", "list_mode"),
    ("quantile_cont", "list_quantile_cont"),
    ("quantile_disc", "list_quantile_disc"),
    ("quantile", "list_quantile_disc"),
    ("median", "list_median"),
    ("mad", "list_mad"),
    ("histogram", "list_histogram"),
    ("approx_top_k", "list_top_k"),
    ("entropy", "list_entropy"),
    ("skewness", "list_skewness"),
    ("kurtosis", "list_kurtosis"),
    ("kurtosis_pop", "list_kurtosis_pop"),
    ("sem", "list_sem"),
    ("geomean", "list_geomean"),
    ("geometric_mean", "list_geomean"),
];

/// The functions of lists that compute aggregates.
pub(super) fn functions_of_lists() -> impl Iterator<Item = &'static str> {
    OF_LISTS.iter().map(|(_, of_list)| *of_list)
}

/// The function of a list that computes an aggregate of its elements.
pub(super) fn composed_of_list(name: &str) -> Option<&'static str> {
    OF_LISTS.iter().find(|(known, _)| *known == name).map(|(_, of_list)| *of_list)
}
