//! Computes result columns from accumulators.

use std::sync::Arc;

use warpmill_format::Bitmap;
use warpmill_ir::{AggregateFunction, ColType, PairFunction, Phys};

use super::accumulate::Accumulator;
use super::groups::Part;
use super::plan::{Output, Plan, decimal_scale};
use super::wide::Wide;
use crate::context::{ExecError, Result};
use crate::vector::{Data, Vector};

/// The result columns of a part.
pub(super) fn finish(plan: &Plan, part: Part) -> Result<(Vec<Arc<Vector>>, usize)> {
    let Part { keys, mut slots, rows } = part;
    let mut columns = Vec::with_capacity(plan.field_types.len());
    for ((key, ty), field) in keys.into_iter().zip(&plan.group_types).zip(&plan.field_types) {
        let data = convert(key.data, ty, field.phys)?;
        columns.push(Arc::new(Vector { data, validity: key.validity }));
    }
    for (at, output) in plan.outputs.iter().enumerate() {
        let column = match sums_as_they_are(output, &mut slots, &plan.outputs[at + 1..]) {
            Some(sums) => Vector::with_validity(Data::I64(sums), validity(output, &slots, rows)),
            None => column(output, &slots, rows)?,
        };
        columns.push(Arc::new(column));
    }
    Ok((columns, rows))
}

/// Takes the states of an output out of `slots` if they are its values and no output of `later` needs them.
fn sums_as_they_are(output: &Output, slots: &mut [Accumulator], later: &[Output]) -> Option<Vec<i64>> {
    let slot = output.slot;
    let is_needed = output.count == Some(slot) || later.iter().any(|it| it.slot == slot || it.count == Some(slot));
    match &mut slots[slot] {
        Accumulator::SumI64(sums) if !is_needed && output.function == AggregateFunction::Sum => {
            (output.ty.phys == Phys::I64).then(|| std::mem::take(sums))
        }
        _ => None,
    }
}

/// The groups for which an output has added a value; `None`: all.
fn validity(output: &Output, slots: &[Accumulator], rows: usize) -> Option<Bitmap> {
    counts(output, slots).map(|counts| Bitmap::from_fn(rows, |group| counts[group] > 0))
}

/// The number of values that an output has added to each group, where it counts them.
fn counts<'a>(output: &Output, slots: &'a [Accumulator]) -> Option<&'a [i64]> {
    output.count.map(|slot| match &slots[slot] {
        Accumulator::Count(counts) => counts.as_slice(),
        _ => unreachable!("a count"),
    })
}

/// Sums by group; the variant gives their type.
pub(crate) enum Sums {
    I64(Vec<i64>),
    I128(Vec<i128>),
    Wide(Vec<Wide>),
    F64(Vec<f64>),
}

/// The sums or averages for `sums` of `counts` values each; NULL where the count is 0.
pub(crate) fn of_sums(
    call: (AggregateFunction, &ColType),
    argument: &ColType,
    sums: Sums,
    counts: Vec<i64>,
) -> Result<Vector> {
    let (function, ty) = call;
    let output = Output { function, slot: 0, count: Some(1), argument: Some(argument.clone()), ty: ty.clone() };
    let rows = counts.len();
    let sums = match sums {
        Sums::I64(sums) => Accumulator::SumI64(sums),
        Sums::I128(sums) => Accumulator::SumI128(sums),
        Sums::Wide(sums) => Accumulator::SumWide(sums),
        Sums::F64(sums) => Accumulator::SumF64(sums),
    };
    column(&output, &[sums, Accumulator::Count(counts)], rows)
}

fn column(output: &Output, slots: &[Accumulator], rows: usize) -> Result<Vector> {
    use AggregateFunction as F;
    let (counts, validity) = (counts(output, slots), validity(output, slots, rows));
    let to = output.ty.phys;
    let from = output.argument.as_ref().unwrap_or(&output.ty);
    let (data, validity) = match (&slots[output.slot], output.function) {
        (sums, F::Avg) => (average(output, sums, counts.unwrap_or_default())?, validity),
        (Accumulator::Count(counts), _) if to == Phys::I64 => (Data::I64(counts.clone()), None),
        (Accumulator::Count(counts), _) => (integers(counts.iter().map(|&c| c.into()), to)?, None),
        (Accumulator::SumI64(sums), _) if to == Phys::I64 => (Data::I64(sums.clone()), validity),
        (Accumulator::SumI64(sums), _) => (integers(sums.iter().map(|&s| s.into()), to)?, validity),
        (Accumulator::SumI128(sums), _) => (integers(within(sums.clone(), &output.ty)?.into_iter(), to)?, validity),
        (Accumulator::SumWide(sums), _) => {
            let sums: Option<Vec<i128>> = sums.iter().map(|sum| sum.exact()).collect();
            let sums = within(sums.ok_or_else(overflow)?, &output.ty)?;
            (integers(sums.into_iter(), to)?, validity)
        }
        (Accumulator::SumF64(sums), _) => (floats(sums.clone(), to)?, validity),
        (Accumulator::Min(data) | Accumulator::Max(data) | Accumulator::First { values: data, .. }, _) => {
            (convert(data.clone(), from, to)?, validity)
        }
        (Accumulator::Text { values, seen, .. }, _) => {
            (Data::Str(values.clone()), Some(Bitmap::from_fn(rows, |group| seen[group])))
        }
        (Accumulator::Moments { states, .. }, function) => {
            let sample = matches!(function, F::VarSamp | F::StddevSamp);
            let root = matches!(function, F::StddevSamp | F::StddevPop);
            let variance = |group: usize| states[group].variance(sample);
            let value = |group| variance(group).map_or(0.0, |v| if root { v.sqrt() } else { v });
            let data = floats((0..rows).map(value).collect(), to)?;
            (data, Some(Bitmap::from_fn(rows, |group| variance(group).is_some())))
        }
        (Accumulator::Pairs(states), F::OfPairs(PairFunction::Count)) => {
            (integers(states.iter().map(|pairs| pairs.count() as i128), to)?, None)
        }
        (Accumulator::Pairs(states), F::OfPairs(function)) => {
            let values: Vec<Option<f64>> = states.iter().map(|pairs| pairs.value(function)).collect();
            let valid = Bitmap::from_fn(rows, |group| values[group].is_some());
            (floats(values.into_iter().map(Option::unwrap_or_default).collect(), to)?, Some(valid))
        }
        (Accumulator::Pairs(_), _) => unreachable!("sums of pairs are those of functions of pairs"),
    };
    Ok(Vector::with_validity(data, validity))
}

/// `sums`, or an error if one exceeds the range of type `ty`.
fn within(sums: Vec<i128>, ty: &ColType) -> Result<Vec<i128>> {
    let (lo, hi) = ColType::range_of(&ty.logical).unwrap_or((i128::MIN, i128::MAX));
    if sums.iter().all(|sum| (lo..=hi).contains(sum)) { Ok(sums) } else { Err(overflow()) }
}

/// Averages. Decimals have the result's scale and are truncated, as in DataFusion; everything else is averaged as floats.
fn average(output: &Output, sums: &Accumulator, counts: &[i64]) -> Result<Data> {
    let to = output.ty.phys;
    let scale = output.argument.as_ref().map_or(0, decimal_scale);
    let unit = 10f64.powi(scale);
    let exact: Vec<i128> = match sums {
        Accumulator::SumI64(sums) => sums.iter().map(|&sum| sum.into()).collect(),
        Accumulator::SumI128(sums) => sums.clone(),
        Accumulator::SumWide(sums) if !to.is_int() => {
            let averages = sums.iter().zip(counts).map(|(sum, &count)| sum.as_f64() / count as f64 / unit);
            return floats(averages.collect(), to);
        }
        Accumulator::SumWide(sums) => {
            sums.iter().map(|sum| sum.exact()).collect::<Option<_>>().ok_or_else(average_overflow)?
        }
        Accumulator::SumF64(sums) => {
            return floats(sums.iter().zip(counts).map(|(sum, &count)| sum / count as f64).collect(), to);
        }
        _ => unreachable!("averages follow from sums"),
    };
    if !to.is_int() {
        return floats(exact.iter().zip(counts).map(|(&sum, &count)| sum as f64 / count as f64 / unit).collect(), to);
    }
    let up = u32::try_from(decimal_scale(&output.ty) - scale)
        .map_err(|_| ExecError::Unsupported("an average of fewer digits than its argument".into()))?;
    let up = 10i128.checked_pow(up).ok_or_else(average_overflow)?;
    let (lo, hi) = ColType::range_of(&output.ty.logical).unwrap_or((i128::MIN, i128::MAX));
    let mut averages = Vec::with_capacity(exact.len());
    for (sum, &count) in exact.into_iter().zip(counts) {
        let average = truncated(sum, count.max(1), up).ok_or_else(average_overflow)?;
        if !(lo..=hi).contains(&average) {
            return Err(average_overflow());
        }
        averages.push(average);
    }
    integers(averages.into_iter(), to)
}

/// `sum * up / count`, truncated toward zero; `None` on overflow.
fn truncated(sum: i128, count: i64, up: i128) -> Option<i128> {
    // Quotient and remainder have the sum's sign, so dividing first truncates alike. It avoids 128-bit division, which is slow and which few sums
    // need.
    if let (Ok(sum), Ok(up)) = (i64::try_from(sum), i64::try_from(up))
        && let Some(rest) = (sum % count).checked_mul(up)
    {
        return Some(i128::from(sum / count) * i128::from(up) + i128::from(rest / count));
    }
    let count = i128::from(count);
    (sum / count).checked_mul(up)?.checked_add((sum % count).checked_mul(up)? / count)
}

fn overflow() -> ExecError {
    ExecError::Value("overflow in sum".into())
}

fn average_overflow() -> ExecError {
    ExecError::Value("overflow in avg".into())
}

/// Integers as type `phys`, or an error if one does not fit.
fn integers(values: impl Iterator<Item = i128>, phys: Phys) -> Result<Data> {
    Ok(match phys {
        Phys::I32 => Data::I32(values.map(i32::try_from).collect::<Result<_, _>>().map_err(|_| overflow())?),
        Phys::I64 => Data::I64(values.map(i64::try_from).collect::<Result<_, _>>().map_err(|_| overflow())?),
        Phys::I128 => Data::I128(values.collect()),
        Phys::F64 => Data::F64(values.map(|v| v as f64).collect()),
        phys => return Err(ExecError::Unsupported(format!("an integer aggregate held as {phys:?}"))),
    })
}

fn floats(values: Vec<f64>, phys: Phys) -> Result<Data> {
    match phys {
        Phys::F64 => Ok(Data::F64(values)),
        Phys::F32 => Ok(Data::F32(values.into_iter().map(|v| v as f32).collect())),
        phys => Err(ExecError::Unsupported(format!("a float aggregate held as {phys:?}"))),
    }
}

/// Converts values of type `from` to representation `to`.
fn convert(data: Data, from: &ColType, to: Phys) -> Result<Data> {
    match data {
        data if data.phys() == to => Ok(data),
        Data::I32(values) => integers(values.into_iter().map(i128::from), to),
        Data::I64(values) => integers(values.into_iter().map(i128::from), to),
        Data::I128(values) => integers(values.into_iter(), to),
        Data::F32(values) => floats(values.into_iter().map(f64::from).collect(), to),
        Data::F64(values) => floats(values, to),
        Data::Code(codes) if to == Phys::Str => {
            let dictionary = from.dictionary.as_ref().filter(|d| !d.is_empty());
            let view = |code: u32| dictionary.map(|d| d.view(code.min(d.len() as u32 - 1))).unwrap_or_default();
            Ok(Data::Str(codes.into_iter().map(view).collect()))
        }
        data => Err(ExecError::Unsupported(format!("a {:?} aggregate held as {to:?}", data.phys()))),
    }
}
