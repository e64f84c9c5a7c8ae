//! Rows that one thread collects.

use std::ffi::c_void;
use std::ops::RangeInclusive;

use warpmill_format::table::{Piece, Values};

use crate::Refused;
use crate::types::Type;

/// A column of a chunk in the layout of DuckDB's vectors; see `wm_vector` in `duckdb/src/engine.h`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct VectorView {
    values: *const c_void,
    /// One bit per value; null if all values are valid.
    validity: *const u64,
    /// The index of the value of each row; null if it is the row itself.
    selection: *const u32,
}

/// Rows of some columns of one input that have not been handed over yet.
#[derive(Default)]
pub struct Part {
    pub(super) types: Vec<Type>,
    pub(super) pieces: Vec<Piece>,
    pub(super) rows: usize,
}

impl Part {
    /// An empty part with columns of `types`, and a piece for each.
    pub fn new(types: Vec<Type>, pieces: Vec<Piece>) -> Self {
        Self { types, pieces, rows: 0 }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds copies of `rows` rows.
    ///
    /// # Safety
    /// There is a vector of DuckDB's for each column, of its type and with this many rows.
    pub unsafe fn push(&mut self, rows: usize, columns: &[VectorView]) -> Result<(), Refused> {
        for ((&ty, piece), view) in self.types.iter().zip(&mut self.pieces).zip(columns) {
            // SAFETY: the caller's promise.
            unsafe { add(ty, view, rows, piece.values()) }?;
            let valid = |row: usize| {
                // SAFETY: see above; there is a bit for each selected value.
                unsafe { view.is_valid(view.place(row)) }
            };
            if let Some(limits) = ty.limits() {
                let has = match piece.values() {
                    Values::Wide(values) => is_within(&values[values.len() - rows..], &limits, valid),
                    // Decimals of 64 bits cannot have more digits.
                    Values::Narrow(values) if matches!(ty, Type::Date | Type::Timestamp) => {
                        let narrow = |limit: i128| limit.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
                        let limits = narrow(*limits.start())..=narrow(*limits.end());
                        is_within(&values[values.len() - rows..], &limits, valid)
                    }
                    _ => true,
                };
                if !has {
                    return Err(ty.beyond_limits());
                }
            }
            piece.added(rows, (!view.validity.is_null()).then_some(&valid));
        }
        self.rows += rows;
        Ok(())
    }
}

impl VectorView {
    /// A flat vector: a value for each row, and a bit for each; `validity` is null if all are valid.
    pub fn flat(values: *const c_void, validity: *const u64) -> Self {
        Self { values, validity, selection: std::ptr::null() }
    }

    /// SAFETY: `row` is a row of the vector.
    #[inline(always)]
    unsafe fn place(&self, row: usize) -> usize {
        // SAFETY: the caller's promise.
        if self.selection.is_null() { row } else { unsafe { *self.selection.add(row) as usize } }
    }

    /// SAFETY: `place` is the index of the value of a row of the vector.
    #[inline(always)]
    unsafe fn is_valid(&self, place: usize) -> bool {
        // SAFETY: the caller's promise.
        self.validity.is_null() || unsafe { *self.validity.add(place / 64) } >> (place % 64) & 1 == 1
    }

    /// Adds the results of `f` for the value of each row.
    ///
    /// SAFETY: the vector has `rows` values of this type; they need not be aligned.
    unsafe fn extend<T: Copy, U>(&self, rows: usize, out: &mut Vec<U>, f: impl Fn(T) -> U) {
        let first = self.values.cast::<T>();
        if self.selection.is_null() {
            // SAFETY: the caller's promise.
            out.extend((0..rows).map(|row| f(unsafe { first.add(row).read_unaligned() })));
        } else {
            // SAFETY: the caller's promise, and `place`'s.
            out.extend((0..rows).map(|row| f(unsafe { first.add(self.place(row)).read_unaligned() })));
        }
    }
}

/// SAFETY: as [`Part::push`].
unsafe fn add(ty: Type, view: &VectorView, rows: usize, values: &mut Values) -> Result<(), Refused> {
    macro_rules! narrow {
        ($out:ident, $ty:ty) => {
            // SAFETY: the caller's promise.
            unsafe { view.extend::<$ty, i64>(rows, $out, i64::from) }
        };
    }
    macro_rules! wide {
        ($out:ident, $ty:ty) => {
            // SAFETY: the caller's promise.
            unsafe { view.extend::<$ty, i128>(rows, $out, i128::from) }
        };
    }
    match (values, ty) {
        // SAFETY: the caller's promise; only zero is false.
        (Values::Narrow(out), Type::Boolean) => unsafe { view.extend::<u8, i64>(rows, out, |x| i64::from(x != 0)) },
        (Values::Narrow(out), Type::TinyInt) => narrow!(out, i8),
        (Values::Narrow(out), Type::SmallInt | Type::Decimal(0..=4, _)) => narrow!(out, i16),
        (Values::Narrow(out), Type::Integer | Type::Date | Type::Decimal(5..=9, _)) => narrow!(out, i32),
        (Values::Narrow(out), Type::BigInt | Type::Timestamp | Type::Decimal(10..=18, _)) => narrow!(out, i64),
        (Values::Narrow(out), Type::UTinyInt) => narrow!(out, u8),
        (Values::Narrow(out), Type::USmallInt) => narrow!(out, u16),
        (Values::Narrow(out), Type::UInteger) => narrow!(out, u32),
        (Values::Wide(out), Type::UBigInt) => wide!(out, u64),
        // Unsigned values of 128 bits become negative, and are beyond the limits.
        (Values::Wide(out), Type::Decimal(..) | Type::HugeInt | Type::UHugeInt) => wide!(out, i128),
        // SAFETY: the caller's promise.
        (Values::F32(out), Type::Float) => unsafe { view.extend::<f32, f32>(rows, out, |x| x) },
        // SAFETY: the caller's promise.
        (Values::F64(out), Type::Double) => unsafe { view.extend::<f64, f64>(rows, out, |x| x) },
        (Values::Strings(out), Type::Varchar) => {
            let entries = view.values.cast::<[u8; 16]>();
            for row in 0..rows {
                // SAFETY: the caller's promise; the text lives as long as the vector.
                unsafe {
                    let place = view.place(row);
                    if !view.is_valid(place) {
                        out.push_null();
                        continue;
                    }
                    let entry = entries.add(place).cast::<u8>();
                    let whole = entry.cast::<u128>().read_unaligned();
                    // An entry holds short texts as a whole: equal entries are equal texts.
                    match whole as u32 <= INLINED {
                        true => out.push_keyed(whole, || text(entry))?,
                        false => out.push(text(entry))?,
                    }
                }
            }
        }
        (_, ty) => return Err(Refused::new(format!("a column of the type {ty:?}"))),
    }
    Ok(())
}

/// Largest number of bytes of a text that is in the entry itself.
const INLINED: u32 = 12;

/// `duckdb_string_t`: the length, then 12 bytes of text, or its first four and its address.
///
/// SAFETY: an entry of a vector that is not NULL.
#[inline(always)]
unsafe fn text<'a>(entry: *const u8) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe {
        let length = entry.cast::<u32>().read_unaligned();
        let start = if length <= INLINED { entry.add(4) } else { entry.add(8).cast::<*const u8>().read_unaligned() };
        std::slice::from_raw_parts(start, length as usize)
    }
}

/// Whether all valid values are within `limits`.
fn is_within<T: Copy + PartialOrd>(values: &[T], limits: &RangeInclusive<T>, valid: impl Fn(usize) -> bool) -> bool {
    let (least, most) = (*limits.start(), *limits.end());
    // A loop without branches: nearly always all values are within the limits.
    if !values.iter().fold(false, |any, &x| any | (x < least) | (x > most)) {
        return true;
    }
    values.iter().enumerate().all(|(row, x)| limits.contains(x) || !valid(row))
}

/// A `duckdb_string_t` of `value`.
#[cfg(test)]
pub(crate) fn entry(value: &'static str) -> [u8; 16] {
    let mut entry = [0; 16];
    entry[..4].copy_from_slice(&(value.len() as u32).to_ne_bytes());
    match value.len() {
        0..=12 => entry[4..4 + value.len()].copy_from_slice(value.as_bytes()),
        _ => entry[8..].copy_from_slice(&(value.as_ptr() as usize).to_ne_bytes()),
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view<T>(values: &[T], validity: Option<&u64>, selection: Option<&[u32]>) -> VectorView {
        VectorView {
            values: values.as_ptr().cast(),
            validity: validity.map_or(std::ptr::null(), std::ptr::from_ref),
            selection: selection.map_or(std::ptr::null(), <[u32]>::as_ptr),
        }
    }

    fn part(types: &[Type]) -> Part {
        let pieces = types.iter().map(|ty| Piece::new(&ty.arrow(), false).unwrap()).collect();
        Part { types: types.to_vec(), pieces, rows: 0 }
    }

    #[test]
    fn columns_are_copied() {
        let types =
            [Type::Integer, Type::Varchar, Type::Decimal(15, 2), Type::Decimal(38, 0), Type::Boolean, Type::UBigInt];
        let mut part = part(&types);
        let valid = 0b101;
        let texts = [entry("short"), entry(""), entry("longer than twelve bytes")];
        let columns = [
            view(&[1i32, 2, 3], Some(&valid), None),
            view(&texts, None, Some(&[2, 2, 0])),
            view(&[100i64, -1, 7], None, None),
            view(&[i128::MAX / 2, 0, -1], Some(&valid), Some(&[1, 0, 2])),
            view(&[1u8, 0, 7], None, None),
            view(&[u64::MAX], None, Some(&[0, 0, 0])),
        ];
        // SAFETY: three rows of these types.
        unsafe { part.push(3, &columns) }.unwrap();
        assert!(part.rows == 3 && part.pieces.iter().all(|piece| piece.len() == 3));
        let [a, b, c, d, e, f] = &mut part.pieces[..] else { panic!("six columns") };
        assert!(matches!(a.values(), Values::Narrow(values) if values[2] == 3));
        assert!(matches!(b.values(), Values::Strings(strings) if format!("{strings:?}").contains("2 known")));
        assert!(matches!(c.values(), Values::Narrow(values) if *values == [100, -1, 7]));
        assert!(matches!(d.values(), Values::Wide(values) if values[1..] == [i128::MAX / 2, -1]));
        assert!(matches!(e.values(), Values::Narrow(values) if *values == [1, 0, 1]));
        assert!(matches!(f.values(), Values::Wide(values) if *values == [i128::from(u64::MAX); 3]));
    }

    #[test]
    fn numbers_of_more_digits_are_refused() {
        let nines = 10i128.pow(38) - 1;
        for (ty, value, refused) in [
            (Type::HugeInt, nines, false),
            (Type::HugeInt, nines + 1, true),
            (Type::HugeInt, i128::MIN, true),
            (Type::UHugeInt, nines, false),
            (Type::UHugeInt, -1, true),
            (Type::Decimal(19, 2), 10i128.pow(19), true),
        ] {
            for valid in [1u64, 0] {
                let mut part = part(&[ty]);
                // SAFETY: one row of this type.
                let pushed = unsafe { part.push(1, &[view(&[value], Some(&valid), None)]) };
                assert_eq!(pushed.is_err(), refused && valid == 1, "{ty:?} {value}");
            }
        }
    }

    #[test]
    fn infinite_dates_are_refused() {
        for (ty, valid, refused) in [(Type::Date, 1u64, true), (Type::Date, 0, false), (Type::Integer, 1, false)] {
            let mut part = part(&[ty]);
            for value in [i32::MAX, -i32::MAX] {
                // SAFETY: one row of this type.
                let pushed = unsafe { part.push(1, &[view(&[value], Some(&valid), None)]) };
                assert_eq!(pushed.is_err(), refused, "{ty:?} {valid}");
            }
        }
    }
}
