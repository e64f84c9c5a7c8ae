//! `ORDER BY ... LIMIT` on the simulated device, which hands only the rows that can be in the result to the host: random
//! data against the CPU back end.
//!
//! `WARPMILL_TEST_DEVICE=gpu` runs it on a GPU instead.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use warpmill::{QueryResult, Session};

/// More rows than the buffer of first rows.
const ROWS: usize = 70_000;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }

    /// `ROWS` values, about one in `nulls` of them NULL (0: none).
    fn column<T>(&mut self, nulls: u64, value: impl Fn(&mut Self) -> T) -> Vec<Option<T>> {
        let draw = |_| if nulls > 0 && self.below(nulls) == 0 { None } else { Some(value(self)) };
        (0..ROWS).map(draw).collect()
    }
}

fn float(random: &mut Random) -> f64 {
    match random.below(2000) {
        0 => f64::NAN,
        1 => -f64::NAN,
        2 => f64::INFINITY,
        3 => f64::NEG_INFINITY,
        4 => 0.0,
        5 => -0.0,
        _ => (random.next() as i64 as f64) * 10f64.powi(random.below(40) as i32 - 20),
    }
}

/// Letters and non-ASCII characters: names that differ early or late, prefixes of each other.
fn text(random: &mut Random) -> String {
    let prefix = ["", "Customer#0", "\u{e9}t\u{e9} ", "a"][random.below(4) as usize];
    let tail = |random: &mut Random| char::from_u32(97 + random.below(26) as u32).expect("a letter");
    let len = random.below(9);
    prefix.chars().chain((0..len).map(|_| tail(random)).collect::<Vec<_>>()).collect()
}

fn wide(random: &mut Random) -> i128 {
    let value = i128::from(random.next() as i64) * i128::from(random.below(1 << 60) as i64);
    if random.below(2) == 0 { value >> 64 } else { value }
}

fn table(seed: u64) -> RecordBatch {
    let mut r = Random(seed | 1);
    let decimal = |values: Vec<Option<i128>>, precision, scale| {
        Decimal128Array::from(values).with_precision_and_scale(precision, scale).unwrap()
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new((0..ROWS as i64).map(Some).collect::<Int64Array>())),
        ("same", Arc::new(r.column(0, |_| 7).into_iter().collect::<Int32Array>())),
        ("few", Arc::new(r.column(5, |r| r.below(40) as i32 - 20).into_iter().collect::<Int32Array>())),
        ("int", Arc::new(r.column(0, |r| r.next() as i32).into_iter().collect::<Int32Array>())),
        ("big", Arc::new(r.column(1000, |r| r.next() as i64).into_iter().collect::<Int64Array>())),
        ("truth", Arc::new(r.column(3, |r| r.below(2) == 0).into_iter().collect::<BooleanArray>())),
        ("single", Arc::new(r.column(900, |r| float(r) as f32).into_iter().collect::<Float32Array>())),
        ("double", Arc::new(r.column(0, float).into_iter().collect::<Float64Array>())),
        ("name", Arc::new(r.column(800, text).into_iter().collect::<StringArray>())),
        ("kind", Arc::new(r.column(7, |r| format!("kind {}", r.below(9))).into_iter().collect::<StringArray>())),
        ("day", Arc::new(r.column(100, |r| r.below(4000) as i32).into_iter().collect::<Date32Array>())),
        ("price", Arc::new(decimal(r.column(2000, |r| i128::from(r.below(1 << 24)) - (1 << 20)), 15, 2))),
        ("huge", Arc::new(decimal(r.column(700, wide), 38, 4))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn session(seed: u64) -> Session {
    let session =
        Session::builder().set("warpmill.fallback", "error").set("warpmill.device_fallback", "error").build().unwrap();
    let batch = table(seed);
    session.register_batches("given", batch.schema(), vec![batch]).unwrap();
    session.set("warpmill.device", "cpu").unwrap();
    session.set("warpmill.fallback", "allow").unwrap();
    session.execute("CREATE TABLE t AS SELECT * FROM given", &[]).unwrap();
    session.set("warpmill.fallback", "error").unwrap();
    session
}

fn rows(result: &QueryResult) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in &result.batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap()).collect();
        let row = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|");
        rows.extend((0..batch.num_rows()).map(row));
    }
    rows
}

/// Runs `sql` on both sites; returns whether the device looked for the first rows, and how often it ran.
fn check(session: &Session, sql: &str) -> (bool, u32) {
    session.set("warpmill.device", "cpu").unwrap();
    let expected = rows(&session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}")));
    let device = std::env::var("WARPMILL_TEST_DEVICE").unwrap_or_else(|_| "sim".into());
    session.set("warpmill.device", &device).unwrap();
    let result = session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!(rows(&result), expected, "{sql}");
    let profile = result.profile.as_ref().and_then(|profile| profile.programs[0].on_device.as_ref());
    let profile = profile.unwrap_or_else(|| panic!("{sql}: not on the device"));
    (profile.kernels.iter().any(|kernel| kernel.label.contains(": top ")), profile.runs)
}

#[test]
fn first_rows_by_every_type() {
    let session = session(1);
    let columns = ["few", "int", "big", "single", "double", "name", "kind", "day", "price", "huge"];
    let mut random = Random(77);
    for column in columns {
        for order in ["ASC NULLS LAST", "ASC NULLS FIRST", "DESC NULLS LAST", "DESC NULLS FIRST"] {
            let limit = [1, 20, 300][random.below(3) as usize];
            let skip = [0, 1, 50][random.below(3) as usize];
            let found =
                check(&session, &format!("SELECT * FROM t ORDER BY {column} {order}, id LIMIT {limit} OFFSET {skip}"));
            assert_eq!(found, (true, 1), "{column} {order}");
        }
    }
}

#[test]
fn first_rows_of_expressions_and_groups() {
    let session = session(2);
    for sql in [
        "SELECT id, int FROM t ORDER BY int % 1000 DESC, id LIMIT 10",
        "SELECT id, price * few AS x FROM t ORDER BY x NULLS FIRST, id DESC LIMIT 10",
        "SELECT id, sum(huge) AS total, max(kind) AS k FROM t GROUP BY id ORDER BY total DESC NULLS LAST, id LIMIT 20",
        "SELECT int, sum(price) AS total FROM t GROUP BY int ORDER BY total, int LIMIT 20",
        "SELECT a.id, a.name FROM t AS a JOIN t AS b ON a.id = b.id WHERE b.few > 0 ORDER BY b.big, a.id LIMIT 7",
        "SELECT few AS x FROM t UNION ALL SELECT big FROM t ORDER BY x DESC NULLS LAST LIMIT 9",
    ] {
        assert_eq!(check(&session, sql), (true, 1), "{sql}");
    }
    let sql = "(SELECT id, few FROM t WHERE id % 2 = 0 ORDER BY few, id LIMIT 5) UNION ALL \
               SELECT id, few FROM t WHERE id % 2 = 1 ORDER BY 2, 1 LIMIT 7";
    assert_eq!(check(&session, sql), (true, 1), "a sort of rows from the device and from the host");
    let sql = "SELECT count(*) FROM ((SELECT id FROM t ORDER BY few, id LIMIT 5) UNION ALL SELECT id FROM t) AS u";
    check(&session, sql);
    let sql = "SELECT id, name FROM t ORDER BY upper(name) DESC NULLS LAST, id LIMIT 10";
    assert_eq!(check(&session, sql), (false, 1), "upper cases beyond ASCII are the host's");
}

#[test]
fn too_many_rows_with_the_same_first_key() {
    let session = session(3);
    let sql = "SELECT id, name FROM t ORDER BY same, name DESC NULLS LAST, id LIMIT 20";
    assert_eq!(check(&session, sql), (false, 2), "all rows are fetched");
    let sql = "SELECT id, truth FROM t ORDER BY truth NULLS FIRST, huge, id LIMIT 20";
    assert_eq!(check(&session, sql), (true, 1), "a third of the rows fits");
}

#[test]
fn fewer_rows_than_wanted() {
    let session = session(4);
    for (sql, found) in [
        ("SELECT id FROM t WHERE int % 10000 = 3 ORDER BY huge, id LIMIT 500", true),
        ("SELECT id FROM t WHERE int + 1 = int - 1 ORDER BY double DESC, id LIMIT 5", true),
        ("SELECT id FROM t WHERE few IS NULL ORDER BY few, id LIMIT 5 OFFSET 3", true),
        ("SELECT id FROM t ORDER BY name, id LIMIT 60000", false),
        ("SELECT id FROM t ORDER BY name, id LIMIT 5 OFFSET 80000", false),
    ] {
        assert_eq!(check(&session, sql), (found, 1), "{sql}");
    }
}
