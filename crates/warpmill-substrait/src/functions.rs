//! The supported functions of Substrait's standard extensions, and their translations.

use datafusion::logical_expr::{Expr, Operator};

/// The translation of a scalar function.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scalar {
    /// An operator between two arguments or more.
    Infix(Operator),
    /// An operator between two arguments.
    Compare(Operator),
    /// Something around one argument.
    Around(fn(Expr) -> Expr),
    /// A call of the session's function of that name, with the same arguments.
    Call(&'static str),
    /// Translated by special code.
    Special(Special),
}

/// Scalar functions translated by special code (`reader/function.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Special {
    AndNot,
    Xor,
    Between,
    Concat,
    Divide,
    Extract,
    /// `least` and `greatest`, which are NULL if an argument is.
    Extreme(&'static str),
    Like,
    ILike,
    Log,
    Log1p,
}

/// The operation applied to an aggregate's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    Nothing,
    ZeroForNull,
}

/// The translation of an aggregate or window function: a function of the session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    pub(crate) function: &'static str,
    /// Name of the function if the option `distribution` is `POPULATION`.
    pub(crate) population: Option<&'static str>,
    pub(crate) finish: Finish,
}

const fn named(function: &'static str) -> Named {
    Named { function, population: None, finish: Finish::Nothing }
}

/// The functions of an extension.
pub(crate) struct Extension<T: 'static> {
    /// The last part of its URN: `functions_arithmetic`.
    pub(crate) name: &'static str,
    pub(crate) functions: &'static [(&'static str, T)],
}

use Scalar::{Around, Call, Compare, Infix};

const ADD: (&str, Scalar) = ("add", Infix(Operator::Plus));
const SUBTRACT: (&str, Scalar) = ("subtract", Infix(Operator::Minus));
const MULTIPLY: (&str, Scalar) = ("multiply", Infix(Operator::Multiply));
const MODULUS: (&str, Scalar) = ("modulus", Compare(Operator::Modulo));
const LT: (&str, Scalar) = ("lt", Compare(Operator::Lt));
const LTE: (&str, Scalar) = ("lte", Compare(Operator::LtEq));
const GT: (&str, Scalar) = ("gt", Compare(Operator::Gt));
const GTE: (&str, Scalar) = ("gte", Compare(Operator::GtEq));
const DIVIDE: (&str, Scalar) = ("divide", Scalar::Special(Special::Divide));
const ABS: (&str, Scalar) = ("abs", Call("abs"));
const SQRT: (&str, Scalar) = ("sqrt", Call("sqrt"));
const POWER: (&str, Scalar) = ("power", Call("power"));
const FACTORIAL: (&str, Scalar) = ("factorial", Call("factorial"));
const BITWISE_AND: (&str, Scalar) = ("bitwise_and", Compare(Operator::BitwiseAnd));
const BITWISE_OR: (&str, Scalar) = ("bitwise_or", Compare(Operator::BitwiseOr));
const BITWISE_XOR: (&str, Scalar) = ("bitwise_xor", Compare(Operator::BitwiseXor));
const ROUNDING: &[(&str, Scalar)] = &[("ceil", Call("ceil")), ("floor", Call("floor")), ("round", Call("round"))];

/// Scalar functions by extension. Functions of the same name in several extensions mean the same.
pub(crate) const SCALARS: &[Extension<Scalar>] = &[
    Extension {
        name: "functions_arithmetic",
        functions: &[
            ADD,
            SUBTRACT,
            MULTIPLY,
            DIVIDE,
            MODULUS,
            ("negate", Around(|value| Expr::Negative(Box::new(value)))),
            ABS,
            ("sign", Call("signum")),
            POWER,
            SQRT,
            ("exp", Call("exp")),
            ("sin", Call("sin")),
            ("cos", Call("cos")),
            ("tan", Call("tan")),
            ("asin", Call("asin")),
            ("acos", Call("acos")),
            ("atan", Call("atan")),
            ("atan2", Call("atan2")),
            ("sinh", Call("sinh")),
            ("cosh", Call("cosh")),
            ("tanh", Call("tanh")),
            ("asinh", Call("asinh")),
            ("acosh", Call("acosh")),
            ("atanh", Call("atanh")),
            ("radians", Call("radians")),
            ("degrees", Call("degrees")),
            FACTORIAL,
            BITWISE_AND,
            BITWISE_OR,
            BITWISE_XOR,
            ("shift_left", Compare(Operator::BitwiseShiftLeft)),
            ("shift_right", Compare(Operator::BitwiseShiftRight)),
        ],
    },
    Extension {
        name: "functions_arithmetic_decimal",
        functions: &[
            ADD,
            SUBTRACT,
            MULTIPLY,
            DIVIDE,
            MODULUS,
            ABS,
            SQRT,
            POWER,
            FACTORIAL,
            BITWISE_AND,
            BITWISE_OR,
            BITWISE_XOR,
        ],
    },
    Extension {
        name: "functions_boolean",
        functions: &[
            ("and", Infix(Operator::And)),
            ("or", Infix(Operator::Or)),
            ("not", Around(|value| Expr::Not(Box::new(value)))),
            ("xor", Scalar::Special(Special::Xor)),
            ("and_not", Scalar::Special(Special::AndNot)),
        ],
    },
    Extension {
        name: "functions_comparison",
        functions: &[
            ("equal", Compare(Operator::Eq)),
            ("not_equal", Compare(Operator::NotEq)),
            LT,
            LTE,
            GT,
            GTE,
            ("between", Scalar::Special(Special::Between)),
            ("is_distinct_from", Compare(Operator::IsDistinctFrom)),
            ("is_not_distinct_from", Compare(Operator::IsNotDistinctFrom)),
            ("is_null", Around(Expr::is_null)),
            ("is_not_null", Around(Expr::is_not_null)),
            ("is_true", Around(Expr::is_true)),
            ("is_not_true", Around(Expr::is_not_true)),
            ("is_false", Around(Expr::is_false)),
            ("is_not_false", Around(Expr::is_not_false)),
            ("is_nan", Call("isnan")),
            ("nullif", Call("nullif")),
            ("coalesce", Call("coalesce")),
            ("least", Scalar::Special(Special::Extreme("least"))),
            ("least_skip_null", Call("least")),
            ("greatest", Scalar::Special(Special::Extreme("greatest"))),
            ("greatest_skip_null", Call("greatest")),
        ],
    },
    Extension {
        name: "functions_datetime",
        functions: &[
            ADD,
            SUBTRACT,
            LT,
            LTE,
            GT,
            GTE,
            ("extract", Scalar::Special(Special::Extract)),
            ("strftime", Call("to_char")),
        ],
    },
    Extension {
        name: "functions_logarithmic",
        functions: &[
            ("ln", Call("ln")),
            ("log10", Call("log10")),
            ("log2", Call("log2")),
            ("logb", Scalar::Special(Special::Log)),
            ("log1p", Scalar::Special(Special::Log1p)),
        ],
    },
    Extension { name: "functions_rounding", functions: ROUNDING },
    Extension { name: "functions_rounding_decimal", functions: ROUNDING },
    Extension {
        name: "functions_string",
        functions: &[
            ("concat", Scalar::Special(Special::Concat)),
            ("concat_ws", Call("concat_ws")),
            ("like", Scalar::Special(Special::Like)),
            ("substring", Call("substr")),
            ("starts_with", Call("starts_with")),
            ("ends_with", Call("ends_with")),
            ("contains", Call("contains")),
            ("strpos", Call("strpos")),
            ("replace", Call("replace")),
            ("repeat", Call("repeat")),
            ("reverse", Call("reverse")),
            ("lower", Call("lower")),
            ("upper", Call("upper")),
            ("initcap", Call("initcap")),
            ("char_length", Call("character_length")),
            ("bit_length", Call("bit_length")),
            ("octet_length", Call("octet_length")),
            ("ltrim", Call("ltrim")),
            ("rtrim", Call("rtrim")),
            ("trim", Call("btrim")),
            ("lpad", Call("lpad")),
            ("rpad", Call("rpad")),
            ("left", Call("left")),
            ("right", Call("right")),
        ],
    },
];

/// Names that DataFusion's plans use for its operators, which are in no extension.
pub(crate) const DATAFUSION: &[(&str, Scalar)] = &[
    ("ilike", Scalar::Special(Special::ILike)),
    ("is_unknown", Around(Expr::is_unknown)),
    ("is_not_unknown", Around(Expr::is_not_unknown)),
    ("mod", Compare(Operator::Modulo)),
    ("negative", Around(|value| Expr::Negative(Box::new(value)))),
    ("str_concat", Infix(Operator::StringConcat)),
    ("regex_match", Compare(Operator::RegexMatch)),
    ("regex_imatch", Compare(Operator::RegexIMatch)),
    ("regex_not_match", Compare(Operator::RegexNotMatch)),
    ("regex_not_imatch", Compare(Operator::RegexNotIMatch)),
    ("bitwise_shift_left", Compare(Operator::BitwiseShiftLeft)),
    ("bitwise_shift_right", Compare(Operator::BitwiseShiftRight)),
];

const SUM: (&str, Named) = ("sum", named("sum"));
const SUM0: (&str, Named) = ("sum0", Named { finish: Finish::ZeroForNull, ..named("sum") });
const AVG: (&str, Named) = ("avg", named("avg"));
const MIN: (&str, Named) = ("min", named("min"));
const MAX: (&str, Named) = ("max", named("max"));

/// Aggregate functions by extension.
pub(crate) const AGGREGATES: &[Extension<Named>] = &[
    Extension { name: "functions_aggregate_approx", functions: &[("approx_count_distinct", named("approx_distinct"))] },
    Extension {
        name: "functions_aggregate_generic",
        functions: &[("count", named("count")), ("any_value", named("first_value"))],
    },
    Extension {
        name: "functions_arithmetic",
        functions: &[
            SUM,
            SUM0,
            AVG,
            MIN,
            MAX,
            ("std_dev", Named { population: Some("stddev_pop"), ..named("stddev") }),
            ("variance", Named { population: Some("var_pop"), ..named("var") }),
            ("corr", named("corr")),
            ("median", named("median")),
        ],
    },
    Extension { name: "functions_arithmetic_decimal", functions: &[SUM, SUM0, AVG, MIN, MAX] },
    Extension {
        name: "functions_boolean",
        functions: &[("bool_and", named("bool_and")), ("bool_or", named("bool_or"))],
    },
    Extension { name: "functions_datetime", functions: &[MIN, MAX] },
    Extension { name: "functions_string", functions: &[("string_agg", named("string_agg"))] },
];

/// Window functions by extension; aggregate functions are window functions as well.
pub(crate) const WINDOWS: &[Extension<Named>] = &[Extension {
    name: "functions_arithmetic",
    functions: &[
        ("row_number", named("row_number")),
        ("rank", named("rank")),
        ("dense_rank", named("dense_rank")),
        ("percent_rank", named("percent_rank")),
        ("cume_dist", named("cume_dist")),
        ("ntile", named("ntile")),
        ("first_value", named("first_value")),
        ("last_value", named("last_value")),
        ("nth_value", named("nth_value")),
        ("lead", named("lead")),
        ("lag", named("lag")),
    ],
}];

/// Options of functions, and their supported values. A plan lists the values that it accepts, best first; it is refused if none of them is supported.
pub(crate) const OPTIONS: &[(&str, &[&str])] = &[
    ("overflow", &["SILENT", "ERROR"]),
    ("rounding", &["TIE_TO_EVEN"]),
    ("division_type", &["TRUNCATE"]),
    ("on_division_by_zero", &["ERROR"]),
    ("on_domain_error", &["NAN"]),
    ("on_log_zero", &["MINUS_INFINITY"]),
    ("case_sensitivity", &["CASE_SENSITIVE"]),
    ("null_handling", &["ACCEPT_NULLS", "IGNORE_NULLS"]),
    ("negative_start", &["LEFT_OF_BEGINNING"]),
    ("distribution", &["SAMPLE", "POPULATION"]),
    ("char_set", &["UTF8"]),
];

/// Options of functions that differ from the rest: quotients of floats are infinite.
pub(crate) const OPTIONS_OF_FUNCTIONS: &[(&str, &str, &[&str])] = &[
    ("round", "rounding", &["TIE_AWAY_FROM_ZERO"]),
    ("divide:fp32_fp32", "on_division_by_zero", &["IEEE"]),
    ("divide:fp64_fp64", "on_division_by_zero", &["IEEE"]),
];

/// The behaviours that are ours for an option of the function `name`, which may have a signature.
pub(crate) fn behaviours(name: &str, option: &str) -> &'static [&'static str] {
    let own = OPTIONS_OF_FUNCTIONS
        .iter()
        .find(|(function, of, _)| *of == option && (*function == name || name.split(':').next() == Some(*function)));
    match own {
        Some((_, _, values)) => values,
        None => OPTIONS.iter().find(|(known, _)| *known == option).map_or(&[], |(_, values)| values),
    }
}

/// The entry of `name` in `extension`; in any extension if that is `None`.
pub(crate) fn find<T: Copy>(table: &[Extension<T>], extension: Option<&str>, name: &str) -> Option<T> {
    let extensions = table.iter().filter(|entry| extension.is_none_or(|extension| entry.name == extension));
    let mut functions = extensions.flat_map(|entry| entry.functions);
    functions.find(|(other, _)| *other == name).map(|(_, found)| *found)
}
