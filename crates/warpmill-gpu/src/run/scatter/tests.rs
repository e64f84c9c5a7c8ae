//! Rows divided on the simulated device, compared with the host.

use super::*;
use crate::device::sim::{SimDevice, SimOptions};

/// Columns on a device, given by element bytes.
struct Columns {
    device: Arc<dyn Device>,
    stream: Stream,
    arrays: Vec<RowArray>,
    tables: DevicePtr,
}

impl Columns {
    fn new(columns: &[(u64, u32, Vec<u8>)]) -> Self {
        let device: Arc<dyn Device> = Arc::new(SimDevice::new(SimOptions::default()).unwrap());
        let stream = device.stream().unwrap();
        let mut arrays: Vec<RowArray> = vec![];
        for (width, role, bytes) in columns {
            let (from, to) =
                (device.allocate(bytes.len() as u64).unwrap(), device.allocate(bytes.len() as u64).unwrap());
            // SAFETY: just allocated with this size.
            unsafe { device.copy_to_device(from, bytes, stream).unwrap() };
            arrays.push(RowArray { from, to, width: *width, valid: 0, role: *role });
        }
        let tables = device.allocate(tables_bytes(arrays.len())).unwrap();
        Self { device, stream, arrays, tables }
    }

    /// Divides the rows; returns the starts of the parts, and the divided arrays.
    fn divide(&self, count: u64, parts: usize, route: &Route) -> (Vec<u64>, Vec<Vec<u8>>) {
        let scatter = Scatter::compile(&self.device).unwrap();
        let rows = Rows { arrays: &self.arrays, count, parts, route };
        // SAFETY: all arrays were allocated with `count` elements.
        let starts = unsafe { scatter.divide(rows, self.tables, self.stream).unwrap() };
        let read = |array: &RowArray| {
            let mut bytes = vec![0; (count * array.width) as usize];
            // SAFETY: as above.
            unsafe { self.device.copy_to_host(&mut bytes, array.to, self.stream).unwrap() };
            self.device.synchronize(self.stream).unwrap();
            bytes
        };
        (starts, self.arrays.iter().map(read).collect())
    }
}

fn bytes<const N: usize, T: Copy>(values: &[T], of: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&value| of(value)).collect()
}

/// Columns of all widths; the second numbers the rows.
fn numbered(keys: &[i64]) -> Vec<(u64, u32, Vec<u8>)> {
    let numbers: Vec<u32> = (0..keys.len() as u32).collect();
    vec![
        (8, 2, bytes(keys, i64::to_le_bytes)),
        (4, 0, bytes(&numbers, u32::to_le_bytes)),
        (1, 0, bytes(&numbers, |number| [number as u8])),
        (2, 0, bytes(&numbers, |number| (number as u16).to_le_bytes())),
        (16, 0, bytes(&numbers, |number| (u128::from(number) << 70 | 5).to_le_bytes())),
    ]
}

fn check_rows(keys: &[i64], made: &[Vec<u8>], order: &[u32]) {
    let picked = |columns: &[(u64, u32, Vec<u8>)]| -> Vec<Vec<u8>> {
        let element = |(width, _, bytes): &(u64, u32, Vec<u8>)| {
            let width = *width as usize;
            order.iter().flat_map(|&row| bytes[row as usize * width..][..width].to_vec()).collect()
        };
        columns.iter().map(element).collect()
    };
    assert_eq!(made, picked(&numbered(keys)), "columns of a row stay together");
    let mut all = order.to_vec();
    all.sort_unstable();
    assert_eq!(all, (0..keys.len() as u32).collect::<Vec<_>>(), "each row once");
}

fn order_of(made: &[Vec<u8>]) -> Vec<u32> {
    made[1].as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

#[test]
fn rows_go_to_the_range_of_their_key() {
    for count in [1, 31, 2048, 5000] {
        let keys: Vec<i64> =
            (0..count).map(|row: i64| row.wrapping_mul(7919) % 1000 - 500).chain([i64::MIN, i64::MAX]).collect();
        let last = vec![-200, -200, 100];
        let route = Route::Ranges { column: 0, last: last.clone() };
        let (starts, made) = Columns::new(&numbered(&keys)).divide(keys.len() as u64, 4, &route);
        let part = |key: i64| last.iter().take_while(|&&last| key > last).count();
        let counted = |wanted: usize| keys.iter().filter(|&&key| part(key) == wanted).count() as u64;
        let ends: Vec<u64> = (0..4)
            .scan(0, |sum, wanted| {
                *sum += counted(wanted);
                Some(*sum)
            })
            .collect();
        assert_eq!(starts, [&[0], &ends[..]].concat());
        assert_eq!(counted(1), 0, "an empty range");
        let order = order_of(&made);
        check_rows(&keys, &made, &order);
        for (wanted, rows) in starts.windows(2).enumerate() {
            assert!(order[rows[0] as usize..rows[1] as usize].iter().all(|&row| part(keys[row as usize]) == wanted));
        }
    }
}

#[test]
fn equal_keys_go_to_one_part() {
    let keys: Vec<i64> = (0..9000).map(|row| if row % 3 == 0 { 7 } else { row % 1000 }).collect();
    let mut columns = numbered(&keys);
    columns[0].1 = 1;
    let (starts, made) = Columns::new(&columns).divide(keys.len() as u64, 16, &Route::Hash { columns: vec![0] });
    let order = order_of(&made);
    check_rows(&keys, &made, &order);
    let mut parts = std::collections::HashMap::new();
    for (part, rows) in starts.windows(2).enumerate() {
        for &row in &order[rows[0] as usize..rows[1] as usize] {
            assert_eq!(*parts.entry(keys[row as usize]).or_insert(part), part);
        }
        assert!(rows[1] > rows[0], "1,000 keys in 16 parts");
    }
}

#[test]
fn nulls_are_one_key_whatever_lies_under_them() {
    let keys: Vec<u32> = (0..3000).collect();
    let valid: Vec<u8> = (0..3000).map(|row| u8::from(row % 2 == 0)).collect();
    let mut columns = Columns::new(&[(4, 1, bytes(&keys, u32::to_le_bytes)), (1, 0, valid)]);
    columns.arrays[0].valid = columns.arrays[1].from;
    let (starts, made) = columns.divide(3000, 5, &Route::Hash { columns: vec![0] });
    let with_nulls = starts.windows(2).filter(|rows| made[1][rows[0] as usize..rows[1] as usize].contains(&0)).count();
    assert_eq!(with_nulls, 1);
    assert_eq!(made[1].iter().filter(|&&valid| valid == 0).count(), 1500);
}

#[test]
fn no_rows_are_no_parts() {
    let (starts, _) = Columns::new(&[(8, 1, vec![0; 8])]).divide(0, 3, &Route::Hash { columns: vec![0] });
    assert_eq!(starts, [0, 0, 0, 0]);
}
