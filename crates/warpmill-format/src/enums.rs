//! ENUMs: types of named texts (members), in whose order values are compared.
//!
//! A value is a struct with the position of its member. The metadata of the struct's only field contain the members.

use std::collections::HashMap;

use arrow::array::{Array, AsArray, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, UInt32Type};

/// The metadata key of the members, a list in JSON.
const METADATA: &str = "warpmill.enum";

/// The name of the only field of values.
const POSITION: &str = "$ position";

/// The ENUM with these members.
pub fn data_type(members: &[String]) -> DataType {
    let members = serde_json::Value::from(members).to_string();
    let field = Field::new(POSITION, DataType::UInt32, true);
    let field = field.with_metadata(HashMap::from([(METADATA.to_string(), members)]));
    DataType::Struct(vec![field].into())
}

/// Whether a type is an ENUM.
pub fn is_enum(ty: &DataType) -> bool {
    matches!(ty, DataType::Struct(fields)
        if fields.len() == 1 && *fields[0].data_type() == DataType::UInt32 && fields[0].metadata().contains_key(METADATA))
}

/// The members of an ENUM type in their order; `None` for other types.
pub fn members(ty: &DataType) -> Option<Vec<String>> {
    let DataType::Struct(fields) = ty else { return None };
    serde_json::from_str(fields.first().filter(|_| is_enum(ty))?.metadata().get(METADATA)?).ok()
}

/// The positions of values, NULL for NULLs; `None` for arrays of other types.
pub fn positions(array: &dyn Array) -> Option<UInt32Array> {
    let values = array.as_struct_opt().filter(|_| is_enum(array.data_type()))?;
    let own = values.column(0).as_primitive::<UInt32Type>();
    let nulls = NullBuffer::union(values.nulls(), own.nulls());
    Some(UInt32Array::new(own.values().clone(), nulls))
}
