//! The kinds of states: their aggregates, their parts, and the names of these.

use arrow::datatypes::{DataType, Field};
use warpmill_ir::PairFunction;

use super::moments::{Block, Moments};
use crate::dialect::types::{HUGEINT, is_float, is_whole, type_name};

/// A way to build a state and to combine two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Count,
    /// The number of pairs, `regr_count`.
    PairCount,
    Sum,
    Average,
    Least,
    Greatest,
    Product,
    BitAnd,
    BitOr,
    BitXor,
    All,
    Any,
    List,
    Text,
    /// The list of values; the result is the named function of it.
    Values(&'static str),
    /// A value of the first rows that come: `first`, `last`, `any_value`.
    First,
    /// The value of the row where another value is least or greatest.
    Extreme {
        greatest: bool,
    },
    /// Numbers that depend on each other.
    Moments(Moments),
}

impl Kind {
    /// The kind of the states of the aggregate of this name, which is in lower case.
    pub(super) fn of(function: &str) -> Option<Self> {
        if let Some(pairs) = PairFunction::named(function) {
            return Some(match pairs {
                PairFunction::Count => Self::PairCount,
                pairs => Self::Moments(Moments::Pairs(pairs)),
            });
        }
        Some(match function {
            "count" | "count_star" => Self::Count,
            "sum" | "count_if" | "countif" => Self::Sum,
            "avg" | "mean" => Self::Average,
            "min" => Self::Least,
            "max" => Self::Greatest,
            "product" => Self::Product,
            "bit_and" => Self::BitAnd,
            "bit_or" => Self::BitOr,
            "bit_xor" => Self::BitXor,
            "bool_and" => Self::All,
            "bool_or" => Self::Any,
            "list" | "array_agg" => Self::List,
            "string_agg" | "group_concat" | "listagg" => Self::Text,
            "median" => Self::Values("list_median"),
            "mad" => Self::Values("list_mad"),
            "quantile_cont" => Self::Values("list_quantile_cont"),
            "quantile_disc" | "quantile" => Self::Values("list_quantile_disc"),
            "first" | "last" | "any_value" | "arbitrary" => Self::First,
            "arg_min" | "argmin" | "min_by" | "arg_min_null" => Self::Extreme { greatest: false },
            "arg_max" | "argmax" | "max_by" | "arg_max_null" => Self::Extreme { greatest: true },
            name => Self::Moments(Moments::named(name)?),
        })
    }

    /// The numbers of arguments that the aggregate of this name has.
    pub(super) fn counts(self, function: &str) -> std::ops::RangeInclusive<usize> {
        match self {
            Self::Count if function == "count_star" => 0..=0,
            Self::Count => 0..=1,
            Self::Text => 1..=2,
            Self::Values(_) if function.starts_with("quantile") => 2..=2,
            Self::Extreme { .. } | Self::PairCount | Self::Moments(Moments::Pairs(_)) => 2..=2,
            _ => 1..=1,
        }
    }

    /// The fields of such states; `None`: they are single values.
    pub(super) fn shape(self) -> Option<&'static [Shape]> {
        Some(match self {
            Self::Average => &[Shape::Part("count"), Shape::Part("value")],
            Self::First => &[Shape::Part("value")],
            Self::Extreme { .. } => &[Shape::Part("arg"), Shape::Part("by")],
            Self::Moments(moments) => moments.shape(),
            _ => return None,
        })
    }

    /// The types of the parts of such states, from the result types `given` of their aggregates.
    pub(super) fn parts(self, given: &[DataType]) -> Vec<DataType> {
        let whole = |at: usize| match &given[at] {
            DataType::Decimal128(..) => HUGEINT,
            other => other.clone(),
        };
        match self {
            Self::Count => vec![DataType::Int64],
            Self::PairCount => vec![DataType::UInt64],
            Self::Sum => vec![whole(0)],
            Self::Average => vec![DataType::UInt64, whole(1)],
            Self::Values(function) => vec![match &given[0] {
                DataType::List(element) => DataType::new_list(value_type(function, element.data_type()), true),
                other => other.clone(),
            }],
            Self::Moments(moments) => {
                let blocks = moments.blocks().iter();
                blocks.flat_map(|block| block.parts()).map(|part| part.data_type()).collect()
            }
            _ => given.to_vec(),
        }
    }

    /// The names of the aggregate's argument types after conversion to its parameter types.
    pub(super) fn arguments(self, function: &str, given: &[DataType]) -> Vec<String> {
        let named = |(at, ty): (usize, &DataType)| match self {
            Self::Count if function == "count" => "ANY".into(),
            Self::Sum if matches!(function, "count_if" | "countif") => "BOOLEAN".into(),
            Self::Sum | Self::Average => summed(self, ty),
            Self::Product | Self::PairCount | Self::Moments(_) => "DOUBLE".into(),
            Self::All | Self::Any => "BOOLEAN".into(),
            Self::Text => "VARCHAR".into(),
            Self::Values(function) if at == 0 => type_name(&value_type(function, ty)),
            Self::Values(_) if ty.is_list() => "DOUBLE[]".into(),
            Self::Values(_) => "DOUBLE".into(),
            _ => type_name(ty),
        };
        given.iter().enumerate().map(named).collect()
    }

    /// Whether a state is there although none of its parts is.
    pub(super) fn keeps_nulls(self) -> bool {
        self == Self::First
    }
}

/// The name of the type that values of type `ty` are summed up in.
fn summed(kind: Kind, ty: &DataType) -> String {
    use DataType::{Boolean, Date32, Int8, Int16, Int32, Int64, Timestamp, UInt8, UInt16, UInt32, UInt64};
    match ty {
        Boolean if kind == Kind::Sum => "BOOLEAN".into(),
        Int16 => "SMALLINT".into(),
        Int32 => "INTEGER".into(),
        Int8 | UInt8 | UInt16 | UInt32 | Int64 => "BIGINT".into(),
        UInt64 => "HUGEINT".into(),
        ty if is_float(ty) => "DOUBLE".into(),
        Date32 | Timestamp(_, None) => "TIMESTAMP".into(),
        ty => type_name(ty),
    }
}

/// The element type of the list that the function `function` takes, for values of type `ty`.
fn value_type(function: &str, ty: &DataType) -> DataType {
    match function {
        "list_mad" if is_whole(ty) => DataType::Float64,
        "list_median" if ty.is_unsigned_integer() => DataType::Float64,
        "list_quantile_cont" if *ty == DataType::UInt64 => HUGEINT,
        "list_quantile_cont" if ty.is_unsigned_integer() => DataType::Int64,
        _ => ty.clone(),
    }
}

/// A field of a state.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Part(&'static str),
    Struct(&'static str, &'static [Shape]),
}

/// The fields that `shape` describes, with types taken from `parts` in order.
pub(super) fn fields<'t>(shape: &[Shape], parts: &mut impl Iterator<Item = &'t DataType>) -> Vec<Field> {
    let mut made = vec![];
    for field in shape {
        let (name, ty) = match field {
            Shape::Part(name) => (*name, parts.next().cloned().unwrap_or(DataType::Null)),
            Shape::Struct(name, inner) => (*name, DataType::Struct(fields(inner, &mut *parts).into())),
        };
        made.push(Field::new(name, ty, true));
    }
    made
}

/// A number of a block of [`Moments`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    Count,
    Double,
}

impl Number {
    fn data_type(self) -> DataType {
        match self {
            Self::Count => DataType::UInt64,
            Self::Double => DataType::Float64,
        }
    }
}

impl Block {
    /// The numbers of the block.
    pub(super) fn parts(self) -> Vec<Number> {
        let first =
            if matches!(self, Self::SumX | Self::SumY | Self::Carried) { Number::Double } else { Number::Count };
        let mut parts = vec![Number::Double; self.len()];
        parts[0] = first;
        parts
    }
}
