//! `TABLESAMPLE` and `USING SAMPLE`, rewritten to queries of random rows.

use datafusion::sql::sqlparser::ast::{
    Expr, TableFactor, TableSample, TableSampleKind, TableSampleMethod, TableSampleUnit, Value,
};

use super::pivot::parsed;
use crate::{Error, Result};

/// Rewrites a sample of a table to a query: each row with a probability, or some rows in a random order.
pub(super) fn sampled(factor: &mut TableFactor) -> Result<()> {
    let (TableFactor::Table { sample, alias, .. } | TableFactor::Derived { sample, alias, .. }) = factor else {
        return Ok(());
    };
    let Some(TableSampleKind::BeforeTableAlias(clause) | TableSampleKind::AfterTableAlias(clause)) = sample.take()
    else {
        return Ok(());
    };
    let alias = alias.take();
    let refused = || Error::NotImplemented(format!("a sample like {clause}"));
    let TableSample { name, quantity: Some(quantity), seed: None, bucket: None, offset: None, .. } = &*clause else {
        return Err(refused());
    };
    let Expr::Value(value) = &quantity.value else { return Err(refused()) };
    let Value::Number(number, _) = &value.value else { return Err(refused()) };
    let own = match (&alias, &*factor) {
        (Some(alias), _) => Some(alias.clone()),
        (None, TableFactor::Table { name, args: None, .. }) => {
            name.0.last().and_then(|part| part.as_ident()).map(|name| datafusion::sql::sqlparser::ast::TableAlias {
                explicit: true,
                name: name.clone(),
                columns: vec![],
                at: None,
            })
        }
        _ => None,
    };
    let text = match (&quantity.unit, name) {
        (Some(TableSampleUnit::Percent), None | Some(TableSampleMethod::Bernoulli | TableSampleMethod::System)) => {
            let percent = number.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
            let percent = percent.ok_or_else(|| Error::Plan(format!("{clause}: a sample is of 0 to 100 percent")))?;
            format!("SELECT * FROM {factor} WHERE random() < {percent:e} / 100")
        }
        (Some(TableSampleUnit::Rows), None) => {
            let count: u64 = number
                .parse()
                .map_err(|_| Error::Plan(format!("{clause}: the number of rows must be a whole number")))?;
            format!("SELECT * FROM {factor} ORDER BY random() LIMIT {count}")
        }
        _ => return Err(refused()),
    };
    let subquery = Box::new(parsed(&text)?);
    *factor = TableFactor::Derived { lateral: false, subquery, alias: own, sample: None };
    Ok(())
}
