//! Statements that were bound once for all constants of their texts.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result as DataFusionResult;
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use warpmill_translate::parameters::metadata;

use super::computed::Computed;
use super::parameters::{Parametrized, numbered, of_type};
use super::shape::Shape;
use super::store::Family;
use crate::ScalarValue;
use crate::dialect;

/// A statement whose text determines the constants of its bound plan.
#[derive(Debug)]
pub(super) struct Statement {
    /// Constants of the text that have to equal these values, by position.
    fixed: Vec<(usize, ScalarValue)>,
    /// The constants of the bound plan.
    constants: Vec<Constant>,
    /// The templates of the bound plan.
    pub family: Arc<Family>,
}

/// A constant of a bound plan, computed from the text's constants.
#[derive(Debug)]
struct Constant {
    /// All must have the same value.
    computed: Vec<Computed>,
    ty: DataType,
}

impl Statement {
    /// The statement of a text whose bound plan is `bound`, with the templates `family`; `None` where the plan may depend on the text's constants
    /// otherwise than through expressions over them.
    ///
    /// The text is bound again with parameters in place of its constants. The parameters' values carry numbers, which are lost as soon as something
    /// computes with the values.
    pub async fn of(
        shape: &Shape<'_>,
        bound: &Parametrized,
        family: Arc<Family>,
        state: &SessionState,
    ) -> Option<Self> {
        let mut chosen: BTreeSet<usize> = (0..shape.constants.len()).collect();
        // First with all constants as parameters, then only with those that reached a condition.
        for _ in 0..2 {
            if chosen.is_empty() {
                return None;
            }
            let (text, given) = shape.with_parameters(&chosen);
            let given = given.into_iter().map(|(value, number)| ScalarAndMetadata::new(value, number.map(metadata)));
            let plan = dialect::logical_plan(state, &text, &given.collect::<Vec<_>>()).await.ok()?;
            let found = Parametrized::of(&plan).ok()?;
            let arrived = numbers(found.constants.iter().flatten()).ok()?;
            if arrived == chosen && found.plan == bound.plan && found.values == bound.values {
                let fixed = shape.constants.iter().enumerate().filter(|(at, _)| !chosen.contains(at));
                // Numbered literals are the text's constants.
                let computed = |expr| Computed::of(expr, numbered, &shape.constants);
                let constant = |(exprs, value): (Vec<Expr>, &ScalarValue)| Constant {
                    computed: exprs.into_iter().map(computed).collect(),
                    ty: value.data_type(),
                };
                return Some(Self {
                    fixed: fixed.map(|(at, value)| (at, value.clone())).collect(),
                    constants: found.constants.into_iter().zip(&found.values).map(constant).collect(),
                    family,
                });
            }
            chosen.retain(|number| arrived.contains(number));
        }
        None
    }

    /// The values of the bound plan's constants for the constants of a text of the same shape; `None` where that is another statement: one of its
    /// constants has no value, or another type, or differs from one that it has to equal.
    pub fn values(&self, given: &[ScalarValue]) -> Option<Vec<ScalarValue>> {
        let is_same = self.fixed.iter().all(|(at, value)| given.get(*at) == Some(value));
        let values = || self.constants.iter().map(|constant| constant.value(given)).collect();
        is_same.then(values).flatten()
    }
}

impl Constant {
    fn value(&self, given: &[ScalarValue]) -> Option<ScalarValue> {
        let mut values = self.computed.iter().map(|computed| computed.value(given));
        let first = values.next()??;
        let is_one = values.all(|value| value.as_ref() == Some(&first));
        of_type(first, &self.ty).filter(|_| is_one)
    }
}

/// The numbers of the literals in `exprs`.
fn numbers<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> DataFusionResult<BTreeSet<usize>> {
    let mut found = BTreeSet::new();
    for expr in exprs {
        expr.apply(|expr| {
            found.extend(numbered(expr));
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(found)
}
