//! Values of window functions at a position.

use warpmill_functions::aggregate::Input;
use warpmill_ir::{AggregateFunction as F, ColType, Expr, Field, Scalar, WindowCall, WindowFunction};

use super::Functions;
use super::place::Places;
use crate::compile::cpp::{CType, Value};
use crate::compile::generator::{Generator, Result, widened};
use crate::compile::group::{average, extreme};
use crate::compile::layout::{Accumulator, Slot, Way};

impl Functions<'_> {
    /// The value of a call at the thread's position.
    pub(super) fn value(
        &self,
        g: &mut Generator,
        places: &mut Places<'_>,
        call: &WindowCall,
        field: &Field,
    ) -> Result<Value> {
        let number = |g: &mut Generator, text: String| {
            let ty = CType::of(field.ty.phys);
            Value::new(g.code.define(ty, "v", format!("({})({text})", ty.name())), ty)
        };
        Ok(match &call.function {
            WindowFunction::RowNumber => {
                let start = places.start(g);
                number(g, format!("row - {start} + 1"))
            }
            WindowFunction::Rank => {
                let (start, peers) = (places.start(g), places.group_start(g));
                number(g, format!("{peers} - {start} + 1"))
            }
            WindowFunction::DenseRank => {
                let (group, first) = (places.group(g), places.first_group(g));
                number(g, format!("{group} - {first} + 1"))
            }
            WindowFunction::PercentRank => {
                let (start, end, peers) = (places.start(g), places.end(g), places.group_start(g));
                number(
                    g,
                    format!("(double)({peers} - {start}) / (double)({end} - {start} > 1 ? {end} - {start} - 1 : 1)"),
                )
            }
            WindowFunction::CumeDist => {
                let (start, end, peers) = (places.start(g), places.end(g), places.group_end(g));
                number(g, format!("(double)({peers} - {start}) / (double)({end} - {start})"))
            }
            WindowFunction::Ntile(parts) => {
                let tile = tile(g, places, *parts);
                number(g, tile)
            }
            WindowFunction::Shift { back, default } => {
                let (there, at) = match self.passes_nulls(call)? {
                    Some(operand) if *back != 0 => self.shifted_over_nulls(g, places, *back, operand)?,
                    _ => shifted(g, places, *back),
                };
                let value = self.pick(g, places, call, &there, &at)?;
                let value = or_default(g, call, value, &there, default)?;
                widened(&mut g.code, value, field.ty.phys)
            }
            WindowFunction::First | WindowFunction::Last | WindowFunction::Nth(_) => {
                let frame = places.frame(g, &self.window.frame(call))?;
                let (there, at) = match self.passes_nulls(call)? {
                    Some(operand) => {
                        let values = self.differences(g, operand, Accumulator::Count, &frame)?;
                        let [first, end] = values.map(|text| g.code.define(CType::U64, "value", text));
                        let (there, number) = of_frame(g, &call.function, &(first, end));
                        (there, self.listed(g, operand, &number))
                    }
                    None => of_frame(g, &call.function, &frame),
                };
                let value = self.pick(g, places, call, &there, &at)?;
                widened(&mut g.code, value, field.ty.phys)
            }
            WindowFunction::Aggregate(F::CountStar | F::Count) => {
                let count = self.count(g, places, call)?;
                number(g, count)
            }
            WindowFunction::Aggregate(function) => self.aggregate(g, places, call, *function, field)?,
        })
    }

    /// The argument of a call that ignores NULLs, if it is nullable.
    fn passes_nulls(&self, call: &WindowCall) -> Result<Option<usize>> {
        let (operand, ty) = self.window.argument(call)?;
        Ok((call.ignore_nulls && ty.nullable).then_some(operand))
    }

    /// A C++ expression for the position of an operand's non-NULL value number `number`.
    fn listed(&self, g: &mut Generator, operand: usize, number: &str) -> String {
        let listed = g.params.pointer("u32", "listed", self.window.named(&format!("listed{operand}")));
        format!("{listed}[{number}]")
    }

    /// Like [`shifted`], among the rows whose operand is not NULL.
    fn shifted_over_nulls(
        &self,
        g: &mut Generator,
        places: &mut Places<'_>,
        back: i64,
        operand: usize,
    ) -> Result<(String, String)> {
        let n = g.params.value(CType::U64, "shift", back.unsigned_abs().to_le_bytes().to_vec());
        let range = match back > 0 {
            true => (places.start(g), "row".to_string()),
            false => ("row + 1".to_string(), places.end(g)),
        };
        // No counts beyond the last position.
        let range = (format!("(present ? {} : 0)", range.0), format!("(present ? {} : 0)", range.1));
        let [first, end] = self.differences(g, operand, Accumulator::Count, &range)?;
        let [first, end] = [first, end].map(|text| g.code.define(CType::U64, "value", text));
        let there = g.code.define(CType::Bool, "there", format!("present && {end} - {first} >= {n}"));
        let number = if back > 0 { format!("{end} - {n}") } else { format!("{first} + ({n} - 1)") };
        Ok((there, self.listed(g, operand, &number)))
    }

    /// The argument of the row at position `at`, NULL unless `there` holds.
    fn pick(&self, g: &mut Generator, places: &Places<'_>, call: &WindowCall, there: &str, at: &str) -> Result<Value> {
        let (operand, _) = self.window.argument(call)?;
        let row = places.row(at);
        let row = g.code.define(CType::U32, "picked", format!("{there} ? {row} : 0u"));
        let scope = g.scope();
        let loads = g.flat_loads(&self.columns[operand..=operand], &row, Some(there));
        g.push_loads(loads);
        let value = g.column(g.scope(), 0)?;
        g.pop_to(scope);
        Ok(value)
    }

    /// An operand for the number of rows, or of non-NULL values, of a frame.
    fn count(&self, g: &mut Generator, places: &mut Places<'_>, call: &WindowCall) -> Result<String> {
        let frame = places.frame(g, &self.window.frame(call))?;
        let nullable = match call.argument {
            Some(_) => Some(self.window.argument(call)?).filter(|(_, ty)| ty.nullable),
            None => None,
        };
        let Some((operand, _)) = nullable else {
            return Ok(g.code.define(CType::U64, "count", format!("{} - {}", frame.1, frame.0)));
        };
        let [before, through] = self.differences(g, operand, Accumulator::Count, &frame)?;
        Ok(g.code.define(CType::U64, "count", format!("(u64)({through} - {before})")))
    }

    /// C++ expressions for the prefix sums of a series at the start and at the end of a frame.
    fn differences(
        &self,
        g: &mut Generator,
        operand: usize,
        accumulator: Accumulator,
        (start, end): &(String, String),
    ) -> Result<[String; 2]> {
        let number = self.window.series(operand, accumulator, Way::Differences)?;
        let (monoid, ty, _) = self.window.series[number].monoid();
        let series = g.params.pointer(ty, "series", self.window.named(&format!("series{number}")));
        let totals = g.params.pointer(ty, "totals", self.window.named(&format!("totals{number}")));
        Ok([start, end].map(|at| format!("all_before<{monoid}>({series}, {totals}, {at})")))
    }

    /// A C++ expression for the sum of a frame, for series without differences.
    fn sum(
        &self,
        g: &mut Generator,
        places: &mut Places<'_>,
        (operand, accumulator, way): (usize, Accumulator, Way),
        (start, end): &(String, String),
    ) -> Result<String> {
        let number = self.window.series(operand, accumulator, way)?;
        let (monoid, ty, _) = self.window.series[number].monoid();
        let series = g.params.pointer(ty, "series", self.window.named(&format!("series{number}")));
        Ok(match way {
            Way::Tree(levels) => {
                let tree = g.params.pointer(ty, "tree", self.window.named(&format!("tree{number}")));
                let room = g.params.value(CType::U64, "room", self.window.capacity.to_le_bytes().to_vec());
                let levels = g.params.value(CType::U32, "levels", levels.to_le_bytes().to_vec());
                format!("sum_of_frame<{monoid}>({series}, {tree}, {room}, {levels}, {start}, {end})")
            }
            _ => {
                let element = format!("Since<{monoid}>::T");
                let totals = g.params.pointer(&element, "totals", self.window.named(&format!("totals{number}")));
                let first = places.start(g);
                format!("since_head<{monoid}>({series}, {totals}, {first}, {end})")
            }
        })
    }

    /// The value of an aggregate; NULL if its frame has no values.
    fn aggregate(
        &self,
        g: &mut Generator,
        places: &mut Places<'_>,
        call: &WindowCall,
        function: F,
        field: &Field,
    ) -> Result<Value> {
        let (operand, argument) = self.window.argument(call)?;
        let count = self.count(g, places, call)?;
        let frame = self.window.frame(call);
        let accumulator = self.window.accumulator(function, argument)?;
        let way = self.window.way(accumulator, &frame);
        let frame = places.frame(g, &frame)?;
        let valid = g.code.define(CType::Bool, "some", format!("{count} > 0"));
        if way == Way::Differences {
            let [before, through] = self.differences(g, operand, accumulator, &frame)?;
            g.code.line(match accumulator {
                Accumulator::SumI64 => format!("record[0] = {through} - {before};"),
                Accumulator::SumI128 => format!(
                    "{{ const u128 sum = {through} - {before}; record[0] = (u64)sum; record[1] = (u64)(sum >> 64); }}"
                ),
                _ => format!(
                    "{{ const Long sum = long_difference({through}, {before}); record[0] = sum.low; record[1] = sum.high; record[2] = sum.top; }}"
                ),
            });
        } else {
            let sum = self.sum(g, places, (operand, accumulator, way), &frame)?;
            g.code.line(match accumulator {
                Accumulator::SumF64 => format!("record[0] = double_bits({sum});"),
                Accumulator::MinWide | Accumulator::MaxWide => {
                    format!("{{ const u128 best = {sum}; record[0] = (u64)best; record[1] = (u64)(best >> 64); }}")
                }
                _ => format!("record[0] = {sum};"),
            });
        }
        let ty = CType::of(field.ty.phys);
        if function == F::Avg {
            let slot = Slot { accumulator, input: Input::default(), word: 0 };
            let value = average(g, slot, Some(argument), field, &valid, &count)?;
            return Ok(value.with_valid(Some(valid)));
        }
        let text = match accumulator {
            Accumulator::Min => extreme(g, "~record[0]", Some(argument), ty)?,
            Accumulator::Max => extreme(g, "record[0]", Some(argument), ty)?,
            Accumulator::MinWide => format!("({})order_i128(~load_u128(record))", ty.name()),
            Accumulator::MaxWide => format!("({})order_i128(load_u128(record))", ty.name()),
            Accumulator::SumF64 => format!("({})bits_double(record[0])", ty.name()),
            _ => whole_sum(g, accumulator, field, &valid),
        };
        Ok(Value::new(g.code.define(ty, "v", text), ty).with_valid(Some(valid)))
    }
}

/// A C++ expression for the sum in `record`; raises an error if it does not fit its type.
fn whole_sum(g: &mut Generator, accumulator: Accumulator, field: &Field, valid: &str) -> String {
    let ty = CType::of(field.ty.phys);
    if accumulator == Accumulator::SumI64 && ty == CType::I64 {
        return "(i64)record[0]".into();
    }
    let text = if accumulator == Accumulator::SumI64 { "(i128)(i64)record[0]" } else { "load_i128(record)" };
    let sum = g.code.define(CType::I128, "sum", text);
    let (low, high) = ColType::range_of(&field.ty.logical).unwrap_or((i128::MIN, i128::MAX));
    let [low, high] = [low, high].map(|end| g.params.value(CType::I128, "end", end.to_le_bytes().to_vec()));
    let mut wrong = vec![format!("{sum} < {low}"), format!("{sum} > {high}")];
    if accumulator == Accumulator::SumWide {
        wrong.insert(0, "wraps(record) != 0".into());
    }
    if field.ty.phys.is_int() {
        wrong.push(format!("(i128)({}){sum} != {sum}", ty.name()));
    }
    let state = g.params.state();
    g.code.line(format!("if (present && {valid} && ({})) raise({state}, ERROR_OVERFLOW);", wrong.join(" || ")));
    format!("({}){sum}", ty.name())
}

/// A C++ expression for the number of the NTILE bucket, of `parts`, that a position belongs to.
fn tile(g: &mut Generator, places: &mut Places<'_>, parts: u64) -> String {
    let (start, end) = (places.start(g), places.end(g));
    let parts = g.params.value(CType::U64, "parts", parts.to_le_bytes().to_vec());
    let at = g.code.define(CType::U64, "at", format!("row - {start}"));
    let size = g.code.define(CType::U64, "size", format!("({end} - {start}) / {parts}"));
    let larger = g.code.define(CType::U64, "larger", format!("({end} - {start}) % {parts}"));
    let in_larger = g.code.define(CType::U64, "rows", format!("{larger} * ({size} + 1)"));
    let rest = format!("{larger} + ({at} - {in_larger}) / ({size} ? {size} : 1)");
    format!("({at} < {in_larger} ? {at} / ({size} + 1) : {rest}) + 1")
}

/// Operands for whether there is a row `back` rows before, and its position.
fn shifted(g: &mut Generator, places: &mut Places<'_>, back: i64) -> (String, String) {
    let n = g.params.value(CType::U64, "shift", back.unsigned_abs().to_le_bytes().to_vec());
    let (there, at) = if back >= 0 {
        let start = places.start(g);
        (format!("present && row - {start} >= {n}"), format!("row - {n}"))
    } else {
        let end = places.end(g);
        (format!("present && {end} - row > {n}"), format!("row + {n}"))
    };
    (g.code.define(CType::Bool, "there", there), at)
}

/// Operands for whether a frame has the row that a function selects, and its position.
fn of_frame(g: &mut Generator, function: &WindowFunction, (start, end): &(String, String)) -> (String, String) {
    let rows = format!("{end} - {start}");
    let (least, at) = match function {
        WindowFunction::Nth(n @ 1..) => {
            let n = g.params.value(CType::U64, "nth", n.to_le_bytes().to_vec());
            (n.clone(), format!("{start} + ({n} - 1)"))
        }
        WindowFunction::Nth(n) if *n < 0 => {
            let n = g.params.value(CType::U64, "nth", n.unsigned_abs().to_le_bytes().to_vec());
            (n.clone(), format!("{end} - {n}"))
        }
        // There is no row number 0.
        WindowFunction::Nth(_) => ("~0ull".into(), start.clone()),
        WindowFunction::Last => ("1".into(), format!("{end} - 1")),
        _ => ("1".into(), start.clone()),
    };
    (g.code.define(CType::Bool, "there", format!("present && {rows} >= {least}")), at)
}

/// `value`, or the default of a shift unless `there` holds.
fn or_default(g: &mut Generator, call: &WindowCall, value: Value, there: &str, default: &Scalar) -> Result<Value> {
    if *default == Scalar::Null {
        return Ok(value);
    }
    let ty = call.ty.with_nullable(false);
    let default = g.eval(&Expr::literal(default.clone(), ty))?;
    let text = g.code.define(value.ty, "v", format!("{there} ? {} : {}", value.text, default.text));
    let valid = value.valid.map(|valid| g.code.define(CType::Bool, "ok", format!("!{there} || {valid}")));
    Ok(Value { text, ty: value.ty, valid })
}
