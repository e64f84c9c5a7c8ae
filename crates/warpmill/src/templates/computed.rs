//! Constants that are computed from numbered inputs: from the literals of a text, or from the parameters of a plan.

use std::sync::{Arc, LazyLock};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, internal_err};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{ColumnarValue, Expr};
use datafusion::physical_expr::expressions::{Column as PhysicalColumn, Literal};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};

use super::parameters::evaluated;
use crate::ScalarValue;

/// Returns the number of the input that an expression is.
type Number = fn(&Expr) -> Option<usize>;

/// A constant expression over inputs.
#[derive(Debug)]
pub(super) struct Computed {
    expr: Expr,
    number: Number,
    /// Its physical form, which is evaluated without simplification; `None`: it has none, or gives another value.
    physical: Option<Physical>,
}

/// A physical expression in which inputs are columns.
#[derive(Debug)]
struct Physical {
    expr: Arc<dyn PhysicalExpr>,
    types: Vec<DataType>,
}

/// One row without columns.
static ROW: LazyLock<RecordBatch> = LazyLock::new(|| {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).expect("a batch without columns")
});

impl Computed {
    /// The constant `expr`, whose inputs `number` tells; `examples` are values of the inputs.
    pub fn of(expr: Expr, number: Number, examples: &[ScalarValue]) -> Self {
        let plain = Self { expr, number, physical: None };
        if number(&plain.expr).is_some() {
            return plain;
        }
        let same = |physical: &Physical| {
            let value = physical.value(examples);
            value.is_some() && value == plain.simplified(examples)
        };
        let physical = Physical::of(&plain.expr, number, examples).filter(same);
        Self { physical, ..plain }
    }

    /// The value for `inputs`; `None` where evaluation fails.
    pub fn value(&self, inputs: &[ScalarValue]) -> Option<ScalarValue> {
        if let Some(number) = (self.number)(&self.expr) {
            return inputs.get(number).cloned();
        }
        let quick = self.physical.as_ref().and_then(|physical| physical.value(inputs));
        quick.or_else(|| self.simplified(inputs))
    }

    fn simplified(&self, inputs: &[ScalarValue]) -> Option<ScalarValue> {
        let literal = |expr: Expr| match (self.number)(&expr) {
            Some(number) => match inputs.get(number) {
                Some(value) => Ok(Transformed::yes(Expr::Literal(value.clone(), None))),
                None => internal_err!("no input {number}"),
            },
            None => Ok(Transformed::no(expr)),
        };
        evaluated(&self.expr.clone().transform(literal).ok()?.data)
    }
}

impl Physical {
    fn of(expr: &Expr, number: Number, examples: &[ScalarValue]) -> Option<Self> {
        let types: Vec<DataType> = examples.iter().map(ScalarValue::data_type).collect();
        let named = |(number, ty): (usize, &DataType)| Field::new(number.to_string(), ty.clone(), false);
        let schema = Schema::new(types.iter().enumerate().map(named).collect::<Vec<_>>());
        let column = |expr: Expr| match number(&expr) {
            Some(number) => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(number.to_string())))),
            None => Ok(Transformed::no(expr)),
        };
        let expr = expr.clone().transform(column).ok()?.data;
        let schema = DFSchema::try_from(schema).ok()?;
        let expr =
            create_physical_expr(&expr, &schema, &ExecutionProps::new(), &PhysicalPlanningContext::default()).ok()?;
        Some(Self { expr, types })
    }

    /// The value for `inputs`; `None` where an input has another type than the examples, and where evaluation fails.
    fn value(&self, inputs: &[ScalarValue]) -> Option<ScalarValue> {
        let literal = |expr: Arc<dyn PhysicalExpr>| {
            let Some(column) = expr.downcast_ref::<PhysicalColumn>() else { return Ok(Transformed::no(expr)) };
            let value = inputs.get(column.index()).filter(|value| value.data_type() == self.types[column.index()]);
            let Some(value) = value else { return internal_err!("no input of the type that column {column} has") };
            Ok(Transformed::yes(Arc::new(Literal::new(value.clone())) as Arc<dyn PhysicalExpr>))
        };
        let expr = Arc::clone(&self.expr).transform(literal).ok()?.data;
        match expr.evaluate(&ROW).ok()? {
            ColumnarValue::Scalar(value) => Some(value),
            ColumnarValue::Array(values) => ScalarValue::try_from_array(&values, 0).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;
    use datafusion::logical_expr::{cast, lit};
    use datafusion::prelude::Expr;
    use warpmill_translate::parameters::metadata;

    use super::super::parameters::numbered;
    use super::*;

    fn input(number: usize, value: ScalarValue) -> Expr {
        Expr::Literal(value, Some(metadata(number)))
    }

    fn decimal(value: i128, precision: u8, scale: i8) -> ScalarValue {
        ScalarValue::Decimal128(Some(value), precision, scale)
    }

    #[test]
    fn values_are_those_of_the_expression() {
        let (six, one) = (decimal(6, 2, 2), decimal(1, 2, 2));
        let difference = input(0, six.clone()) - input(1, one.clone());
        let computed = Computed::of(difference, numbered, &[six, one.clone()]);
        assert!(computed.physical.is_some());
        assert_eq!(computed.value(&[decimal(9, 2, 2), one.clone()]), Some(decimal(8, 3, 2)));
        // Another type: by simplification.
        let wide = computed.value(&[decimal(95, 3, 3), decimal(10, 3, 3)]);
        assert_eq!(wide, Some(decimal(85, 4, 3)));
    }

    #[test]
    fn dates_are_cast_from_texts() {
        let text = |text: &str| ScalarValue::from(text);
        let computed =
            Computed::of(cast(input(0, text("1994-01-01")), DataType::Date32), numbered, &[text("1994-01-01")]);
        assert!(computed.physical.is_some());
        assert_eq!(computed.value(&[text("1970-02-01")]), Some(ScalarValue::Date32(Some(31))));
        assert_eq!(computed.value(&[text("no date")]), None);
    }

    #[test]
    fn errors_give_no_value() {
        let one = ScalarValue::from(1i64);
        let computed = Computed::of(lit(12i64) / input(0, one.clone()), numbered, std::slice::from_ref(&one));
        assert!(computed.physical.is_some());
        assert_eq!(computed.value(&[ScalarValue::from(5i64)]), Some(ScalarValue::from(2i64)));
        assert_eq!(computed.value(&[ScalarValue::from(0i64)]), None);
        assert_eq!(computed.value(&[]), None);
    }
}
