//! States of aggregates: the results of `agg(x) EXPORT_STATE`, and the arguments of `finalize`, `combine` and `combine_aggr`.
//!
//! A state is a struct of the results of ordinary aggregates ([`exported`]), so that programs compute it like these. The metadata of the struct's
//! first field names the state's origin ([`State`]), so that a column of states stays one in tables, views and subqueries. [`bound`] rewrites the
//! functions of states to expressions over the fields of states, [`combined`] rewrites `combine_aggr` to aggregates over them; [`moments`] combines
//! states whose numbers depend on each other.

mod bound;
mod combined;
mod converted;
mod exported;
mod kind;
mod moments;
mod named;
mod numbers;
mod order;
mod packed;
mod placeholders;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use serde::{Deserialize, Serialize};

use super::own_casts;
use super::types::type_name;
use super::uuids::UUID;
pub(super) use bound::{bound, checked_access};
pub(super) use combined::split;
pub(super) use converted::cast;
pub(super) use exported::{CLAUSE, Known, WRAPPER, expression, marked};
use kind::Kind;
pub(super) use moments::{combine_powers, kurtosis, skewness};
use order::Key;
pub(super) use placeholders::{aggregates, functions};

/// The metadata key for the origin of a state.
const METADATA: &str = "warpmill.state";

/// The field name of a state that is a single value.
const BARE: &str = "$ value";

/// The name of the type of states.
pub(super) const TYPE_NAME: &str = "AGGREGATE_STATE";

/// The origin of a state: states that are equal in it can be combined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// The name that the aggregate was called by.
    function: String,
    /// The names of the types of its arguments.
    types: Vec<String>,
    /// The constant argument: a separator, a fraction or several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    constant: Option<serde_json::Value>,
    /// The order of the values, which are fields of structs in a list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    order: Vec<Key>,
}

impl State {
    /// The origin of values of type `ty` that are states; `None`: they are not.
    fn of(ty: &DataType) -> Option<Self> {
        let DataType::Struct(fields) = ty else { return None };
        serde_json::from_str(fields.first()?.metadata().get(METADATA)?).ok()
    }

    /// The kind of such states.
    fn kind(&self) -> Kind {
        let kind = if self.order.is_empty() { Kind::of(&self.function) } else { Some(Kind::List) };
        kind.expect("states are made of functions that have a kind")
    }

    /// The type of states whose parts have the types `parts`.
    fn data_type(&self, parts: &[DataType]) -> DataType {
        let mut fields: Vec<Field> = match self.kind().shape() {
            Some(shape) => kind::fields(shape, &mut parts.iter()),
            None => parts.iter().map(|part| Field::new(BARE, part.clone(), true)).collect(),
        };
        if let Some(first) = fields.first_mut() {
            let text = serde_json::to_string(self).expect("a state is plain data with string keys");
            first.set_metadata(HashMap::from([(METADATA.into(), text)]));
        }
        DataType::Struct(fields.into())
    }
}

/// Whether values of type `ty` are states.
pub(super) fn is_state(ty: &DataType) -> bool {
    matches!(ty, DataType::Struct(fields) if fields.first().is_some_and(|field| field.metadata().contains_key(METADATA)))
}

/// Whether values of type `ty` are states with a single value, and are shown as that.
pub(super) fn is_bare(ty: &DataType) -> bool {
    is_state(ty) && matches!(ty, DataType::Struct(fields) if fields.len() == 1 && fields[0].name() == BARE)
}

/// The type of values of type `ty` with states replaced by plain structs, lists and values.
pub(super) fn plain(ty: &DataType) -> DataType {
    let element = |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(plain(field.data_type())));
    match ty {
        DataType::List(field) => DataType::List(element(field)),
        DataType::LargeList(field) => DataType::LargeList(element(field)),
        DataType::FixedSizeList(field, length) => DataType::FixedSizeList(element(field), *length),
        DataType::Map(field, sorted) => DataType::Map(element(field), *sorted),
        DataType::Struct(fields) if is_bare(ty) => plain(fields[0].data_type()),
        DataType::Struct(fields) => {
            let unmarked = |field: &FieldRef| {
                let mut field = element(field).as_ref().clone();
                field.metadata_mut().remove(METADATA);
                field
            };
            DataType::Struct(fields.iter().map(unmarked).collect::<Fields>())
        }
        ty => ty.clone(),
    }
}

/// The name of the type of a result's column: Arrow's, but for states and UUIDs.
pub fn column_type(ty: &DataType) -> String {
    match ty {
        ty if is_state(ty) => TYPE_NAME.into(),
        ty if *ty == UUID || own_casts::has_enums(ty) => type_name(ty),
        ty => plain(ty).to_string(),
    }
}

/// `batch` with states replaced by structs, lists and plain values.
///
/// # Errors
/// Malformed arrays.
pub fn without_states(batch: RecordBatch) -> Result<RecordBatch, arrow::error::ArrowError> {
    let fields = batch.schema_ref().fields();
    if fields.iter().all(|field| plain(field.data_type()) == *field.data_type()) {
        return Ok(batch);
    }
    let columns = batch.columns().iter().map(|column| plain_array(column)).collect();
    RecordBatch::try_new(Arc::new(schema_without_states(batch.schema_ref())), columns)
}

/// The schema of the batches that [`without_states`] makes of batches with `schema`.
pub fn schema_without_states(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_data_type(plain(field.data_type())));
    Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone())
}

/// `array` with states replaced by plain values.
fn plain_array(array: &ArrayRef) -> ArrayRef {
    let to = plain(array.data_type());
    if to == *array.data_type() {
        return Arc::clone(array);
    }
    if is_bare(array.data_type()) {
        return plain_array(&packed::with_nulls_of(array.as_struct(), array.as_struct().column(0)));
    }
    let data = array.to_data();
    let children =
        data.child_data().iter().map(|child| plain_array(&arrow::array::make_array(child.clone())).to_data());
    let children = children.collect();
    let plain = data.into_builder().data_type(to).child_data(children).build();
    arrow::array::make_array(plain.expect("the children have the types of the fields"))
}
