//! `range` and `generate_series` of timestamps in microseconds: DataFusion's use nanoseconds, from 1677 to 2262.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, TimestampMicrosecondArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::{Result, exec_err};

use super::own::{Call, Own, Typed, moment_like};
use super::parts::{Civil, DAY, add_months};
use crate::dialect::types::{TIMESTAMP, timestamptz};

pub(super) fn functions() -> Vec<Own> {
    vec![
        Own::new("moment_range", types, |call| lists(call, false)),
        Own::new("moment_series", types, |call| lists(call, true)),
    ]
}

fn types(types: &[DataType]) -> Option<Typed> {
    let [from, to, step] = types else { return None };
    let zoned = |ty: &DataType| matches!(ty, DataType::Timestamp(_, Some(_)));
    let moment = if zoned(from) || zoned(to) { timestamptz() } else { TIMESTAMP };
    let is_step = matches!(step, DataType::Interval(_) | DataType::Duration(_) | DataType::Null);
    let list = DataType::new_list(moment.clone(), true);
    let step = DataType::Interval(IntervalUnit::MonthDayNano);
    (moment_like(from) && moment_like(to) && is_step).then(|| (vec![moment.clone(), moment, step], list))
}

/// The series of all rows.
fn lists(call: &Call, with_end: bool) -> Result<ArrayRef> {
    let steps = call.args[2].as_primitive::<IntervalMonthDayNanoType>();
    let (mut values, mut ends, mut valid) = (vec![], vec![0i32], vec![]);
    for row in 0..call.rows {
        valid.push(call.all(row));
        if let (Some(from), Some(to), true) = (call.moment(0, row), call.moment(1, row), steps.is_valid(row)) {
            series(from, to, steps.value(row), with_end, &mut values)?;
        }
        match i32::try_from(values.len()) {
            Ok(end) => ends.push(end),
            Err(_) => return exec_err!("series of more than {} moments at a time", i32::MAX),
        }
    }
    let zone = match call.args[0].data_type() {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    let values = TimestampMicrosecondArray::from(values).with_timezone_opt(zone);
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let ends = OffsetBuffer::new(ends.into());
    Ok(Arc::new(ListArray::try_new(field, ends, Arc::new(values), Some(NullBuffer::from(valid)))?))
}

/// Adds the moments from `from` up to `to`.
fn series(from: i64, to: i64, step: IntervalMonthDayNano, with_end: bool, out: &mut Vec<i64>) -> Result<()> {
    let micros = step.nanoseconds / 1000;
    let parts = [i64::from(step.months), i64::from(step.days), micros];
    let (up, down) = (parts.iter().any(|part| *part > 0), parts.iter().any(|part| *part < 0));
    if up && down {
        return exec_err!("a series of moments with an interval of parts of both signs");
    }
    if !up && !down {
        return Ok(());
    }
    if [from, to].iter().any(|moment| moment.unsigned_abs() >= i64::MAX as u64) {
        return exec_err!("a series of moments from or to infinity");
    }
    let mut at = from;
    while (up && at < to) || (down && at > to) || (with_end && at == to) {
        out.push(at);
        let Some(next) = added(at, step, micros) else { break };
        at = next;
    }
    Ok(())
}

/// A timestamp plus an interval; `None` if out of range.
fn added(at: i64, step: IntervalMonthDayNano, micros: i64) -> Option<i64> {
    let at = if step.months == 0 { at } else { months_later(at, step.months)? };
    at.checked_add(i64::from(step.days).checked_mul(DAY)?)?.checked_add(micros)
}

fn months_later(at: i64, months: i32) -> Option<i64> {
    // Years that moments have are far from where days are counted wrongly.
    let year = (Civil::of(at).months() + i64::from(months)).div_euclid(12);
    (-290_308..=294_246).contains(&year).then(|| add_months(at, months.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpmill_ir::scalar::civil::days_from_civil;

    fn of(from: i64, to: i64, step: IntervalMonthDayNano, with_end: bool) -> Result<Vec<i64>> {
        let mut out = vec![];
        series(from, to, step, with_end, &mut out).map(|()| out)
    }

    #[test]
    fn series_of_moments() {
        let at = |year, month, day| days_from_civil(year, month, day) * DAY;
        let month = IntervalMonthDayNano::new(1, 0, 0);
        let ends = [at(1500, 1, 31), at(1500, 2, 28), at(1500, 3, 28)];
        assert_eq!(of(ends[0], ends[2], month, true).unwrap(), ends);
        assert_eq!(of(ends[0], ends[2], month, false).unwrap(), ends[..2]);
        let back = IntervalMonthDayNano::new(0, -1, 0);
        assert_eq!(of(at(2500, 1, 2), at(2500, 1, 1), back, true).unwrap(), [at(2500, 1, 2), at(2500, 1, 1)]);
        assert!(of(0, 1, back, true).unwrap().is_empty());
        assert!(of(0, 1, IntervalMonthDayNano::new(1, -1, 0), true).is_err());
        assert!(of(0, 1, IntervalMonthDayNano::new(0, 0, 0), true).unwrap().is_empty());
        assert!(of(0, i64::MAX, month, true).is_err());
        assert_eq!(of(i64::MAX - 1, i64::MAX - 1, month, true).unwrap().len(), 1);
    }
}
