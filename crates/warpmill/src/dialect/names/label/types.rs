//! Labels of types in DuckDB's notation: those of its grammar under one name, all others as in the text.

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType, EnumMember, ExactNumberInfo, ObjectNamePart, StructField, TimezoneInfo,
};

use super::Writer;
use crate::dialect::types::optionally_quoted;
use crate::pieces::{Piece, pieces};

impl Writer<'_> {
    pub(super) fn type_name(self, data_type: &DataType) -> String {
        match data_type {
            DataType::Int(_) | DataType::Integer(_) => "INTEGER".to_string(),
            DataType::SmallInt(_) => "SMALLINT".to_string(),
            DataType::BigInt(_) => "BIGINT".to_string(),
            DataType::Float(_) | DataType::Real => "FLOAT".to_string(),
            DataType::DoublePrecision => "DOUBLE".to_string(),
            DataType::Double(_) => self.spelled("double"),
            DataType::Decimal(width) | DataType::Numeric(width) | DataType::Dec(width) => decimal(*width),
            DataType::Boolean => "BOOLEAN".to_string(),
            DataType::Varchar(length)
            | DataType::Char(length)
            | DataType::Character(length)
            | DataType::CharVarying(length)
            | DataType::CharacterVarying(length) => varchar(length.as_ref()),
            DataType::Timestamp(Some(0), TimezoneInfo::None) => "TIMESTAMP_S".to_string(),
            DataType::Timestamp(Some(1..=3), TimezoneInfo::None) => "TIMESTAMP_MS".to_string(),
            DataType::Timestamp(Some(7..), TimezoneInfo::None) => "TIMESTAMP_NS".to_string(),
            DataType::Timestamp(_, zone) => self.moment("TIMESTAMP", zone),
            DataType::Time(_, zone) => self.moment("TIME", zone),
            DataType::Interval { .. } => "INTERVAL".to_string(),
            DataType::JSON => format!("\"{}\"", self.spelled("json")),
            DataType::Bit(_) => "BIT".to_string(),
            DataType::Array(ArrayElemTypeDef::SquareBracket(of, length)) => {
                let length = length.map_or_else(String::new, |length| length.to_string());
                format!("{}[{length}]", self.type_name(of))
            }
            DataType::Map(key, value) => format!("MAP({}, {})", self.type_name(key), self.type_name(value)),
            DataType::Struct(fields, _) => format!("STRUCT({})", self.fields(fields)),
            DataType::Union(fields) => {
                let field = |name: &str, ty: &DataType| format!("{} {}", optionally_quoted(name), self.type_name(ty));
                let fields = fields.iter().map(|of| field(&of.field_name.value, &of.field_type));
                format!("UNION({})", fields.collect::<Vec<_>>().join(", "))
            }
            DataType::Custom(name, _) => {
                let parts = name.0.iter().map(|part| match part {
                    ObjectNamePart::Identifier(name) => optionally_quoted(&name.value),
                    part => part.to_string(),
                });
                parts.collect::<Vec<_>>().join(".")
            }
            DataType::Enum(members, _) => {
                let text = |member: &EnumMember| match member {
                    EnumMember::Name(text) | EnumMember::NamedValue(text, _) => {
                        format!("'{}'", text.replace('\'', "''"))
                    }
                };
                let members: Vec<String> = members.iter().map(text).collect();
                format!("{}({})", self.spelled("ENUM"), members.join(", "))
            }
            data_type => self.spelled(&data_type.to_string()),
        }
    }

    fn fields(self, fields: &[StructField]) -> String {
        let field = |field: &StructField| {
            let ty = self.type_name(&field.field_type);
            field
                .field_name
                .as_ref()
                .map_or_else(|| ty.clone(), |name| format!("{} {ty}", optionally_quoted(&name.value)))
        };
        fields.iter().map(field).collect::<Vec<_>>().join(", ")
    }

    fn moment(self, name: &str, zone: &TimezoneInfo) -> String {
        match zone {
            TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => name.to_string(),
            TimezoneInfo::WithTimeZone => format!("{name} WITH TIME ZONE"),
            TimezoneInfo::Tz => self.spelled(&format!("{name}TZ")),
        }
    }

    /// The spelling in the statement of a word that is a type: after `AS` or `::`, or before a string.
    fn spelled(self, word: &str) -> String {
        let mut first = None;
        let mut before: [&str; 2] = ["", ""];
        let mut waiting = None;
        for (piece, text) in pieces(self.sql).filter(|(piece, _)| !matches!(piece, Piece::Space | Piece::Comment)) {
            if piece == Piece::Quoted && text.starts_with('\'') && waiting.is_some() {
                break;
            }
            waiting = None;
            if piece == Piece::Word && text.eq_ignore_ascii_case(word) {
                if before[1].eq_ignore_ascii_case("as") || before == [":", ":"] {
                    first = Some(text);
                    break;
                }
                first = first.or(Some(text));
                waiting = Some(text);
            }
            before = [before[1], text];
        }
        waiting.or(first).map_or_else(|| word.to_uppercase(), str::to_string)
    }
}

fn decimal(width: ExactNumberInfo) -> String {
    match width {
        ExactNumberInfo::None => "DECIMAL".to_string(),
        ExactNumberInfo::Precision(precision) => format!("DECIMAL({precision})"),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => format!("DECIMAL({precision}, {scale})"),
    }
}

fn varchar(length: Option<&CharacterLength>) -> String {
    match length {
        Some(CharacterLength::IntegerLength { length, .. }) => format!("VARCHAR({length})"),
        _ => "VARCHAR".to_string(),
    }
}
