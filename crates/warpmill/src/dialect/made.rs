//! Functions that binding makes for a call: they belong to no session, so that other processes do not find them by their names.

use arrow::datatypes::DataType;
use datafusion::logical_expr::ScalarUDF;

use super::casts::Convert;
use super::functions::Rounded;
use super::shifts::Bits;

/// The parts of such a function besides its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeFunction {
    /// The type of its results.
    pub to: DataType,
    /// Whether casts give NULL for errors (0 or 1), the places of a rounding, otherwise 0.
    pub detail: i32,
}

impl MadeFunction {
    /// The parts of `function`, if it is made for a call.
    pub fn of(function: &ScalarUDF) -> Option<Self> {
        let inner = function.inner();
        let convert = || inner.downcast_ref::<Convert>().map(Convert::parts);
        let rounded = || inner.downcast_ref::<Rounded>().map(Rounded::parts);
        let bits = || inner.downcast_ref::<Bits>().map(Bits::parts);
        let (to, detail) = convert().or_else(rounded).or_else(bits)?;
        Some(Self { to, detail })
    }

    /// The function of that name with these parts; `None` for other names.
    pub fn named(&self, name: &str) -> Option<ScalarUDF> {
        let convert = || Convert::named(name, &self.to, self.detail).map(ScalarUDF::from);
        let rounded = || Rounded::named(name, &self.to, self.detail).map(ScalarUDF::from);
        let bits = || Bits::named(name, &self.to).map(ScalarUDF::from);
        convert().or_else(rounded).or_else(bits)
    }
}
