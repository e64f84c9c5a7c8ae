//! Functions that Warpmill's plans need and DataFusion lacks.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::datatypes::DataType;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use warpmill_ir::scalar::case;

/// The functions `simple_upper` and `simple_lower` of DataFusion plans, which become
/// [`Function::SimpleUpper`](warpmill_ir::Function) and [`Function::SimpleLower`](warpmill_ir::Function). All sessions have the same ones: two that are
/// made by closures are never equal.
pub fn simple_case(upper_case: bool) -> Arc<ScalarUDF> {
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| [false, true].map(make_simple_case));
    Arc::clone(&FUNCTIONS[usize::from(upper_case)])
}

fn make_simple_case(upper_case: bool) -> Arc<ScalarUDF> {
    let convert = move |args: &[ColumnarValue]| {
        let arrays = ColumnarValue::values_to_arrays(args)?;
        let texts = arrays[0].as_string::<i32>().iter();
        let texts: StringArray = texts.map(|text| text.map(|text| case::mapped(text, upper_case))).collect();
        Ok(ColumnarValue::Array(Arc::new(texts) as ArrayRef))
    };
    let name = if upper_case { "simple_upper" } else { "simple_lower" };
    Arc::new(create_udf(name, vec![DataType::Utf8], DataType::Utf8, Volatility::Immutable, Arc::new(convert)))
}
