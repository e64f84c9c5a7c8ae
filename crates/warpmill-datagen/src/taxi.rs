//! A table of taxi trips with the columns and the skew of New York's yellow cab records: trips in order of their pickup, days
//! and weeks with rush hours, few zones with most trips, short distances with a long tail, fares that follow from them.
//!
//! Synthetic data, not the city's: deterministic, with integers only. Scale factor 1 is 10 million trips of the year 2019.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Int32Array, RecordBatch, StringBuilder, TimestampSecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::random::Random;
use crate::{BATCH_ROWS, Batches};

pub(crate) const TABLES: &[&str] = &["trips"];

const TRIPS: u64 = 6;

/// Number of rows of a part.
const PART_ROWS: u64 = 1 << 17;

/// 2019-01-01 00:00:00.
const START: i64 = 1_546_300_800;
const DAYS: u64 = 365;

/// Trips that begin in each hour of a day, in thousandths.
const HOURS: [u64; 24] = [29, 20, 15, 10, 8, 9, 21, 36, 45, 46, 45, 47, 50, 50, 53, 54, 47, 57, 67, 66, 62, 61, 57, 45];

/// Hundredths of miles at each twentieth of the trips, by distance.
const DISTANCES: [u64; 21] =
    [0, 45, 63, 76, 88, 100, 112, 124, 137, 151, 166, 184, 205, 230, 262, 305, 367, 472, 740, 1140, 4200];

/// Taxi zones: 1 to 263.
const ZONES: u64 = 263;
/// The airport with fixed-price trips.
const AIRPORT: i32 = 132;

pub(crate) fn schema(table: &str) -> Option<SchemaRef> {
    if table != "trips" {
        return None;
    }
    let time = || DataType::Timestamp(TimeUnit::Second, None);
    let money = || DataType::Decimal128(8, 2);
    let fields = [
        ("vendor_id", DataType::Int32),
        ("pickup_datetime", time()),
        ("dropoff_datetime", time()),
        ("passenger_count", DataType::Int32),
        ("trip_distance", money()),
        ("rate_code_id", DataType::Int32),
        ("store_and_fwd_flag", DataType::Utf8),
        ("pickup_location_id", DataType::Int32),
        ("dropoff_location_id", DataType::Int32),
        ("payment_type", DataType::Int32),
        ("fare_amount", money()),
        ("extra", money()),
        ("mta_tax", money()),
        ("tip_amount", money()),
        ("tolls_amount", money()),
        ("improvement_surcharge", money()),
        ("total_amount", money()),
        ("congestion_surcharge", money()),
    ];
    Some(Arc::new(Schema::new(fields.map(|(name, kind)| Field::new(name, kind, false)).to_vec())))
}

pub(crate) fn rows(sf: f64) -> u64 {
    ((10_000_000.0 * sf).round() as u64).max(1000)
}

pub(crate) fn parts(sf: f64) -> usize {
    rows(sf).div_ceil(PART_ROWS) as usize
}

pub(crate) fn generate(sf: f64, part: usize) -> Batches {
    let all = rows(sf);
    let first = part as u64 * PART_ROWS;
    let end = (first + PART_ROWS).min(all);
    let step = BATCH_ROWS as u64;
    Box::new((first..end).step_by(BATCH_ROWS).map(move |first| batch(all, first..(first + step).min(end))))
}

/// The columns of a batch.
#[derive(Default)]
struct Trips {
    vendor: Vec<i32>,
    pickup: Vec<i64>,
    dropoff: Vec<i64>,
    passengers: Vec<i32>,
    distance: Vec<i128>,
    rate: Vec<i32>,
    flag: StringBuilder,
    from: Vec<i32>,
    to: Vec<i32>,
    payment: Vec<i32>,
    fare: Vec<i128>,
    extra: Vec<i128>,
    tax: Vec<i128>,
    tip: Vec<i128>,
    tolls: Vec<i128>,
    improvement: Vec<i128>,
    total: Vec<i128>,
    congestion: Vec<i128>,
}

/// Second of the day by which `part` of `whole` of a day's trips have begun.
fn second_of_day(part: u64, whole: u64) -> u64 {
    let total: u64 = HOURS.iter().sum();
    let mut left = part * total * 1000 / whole;
    for (hour, share) in HOURS.iter().enumerate() {
        if left < share * 1000 {
            return hour as u64 * 3600 + left * 3600 / (share * 1000);
        }
        left -= share * 1000;
    }
    86_399
}

/// A random zone; the first tenth of the zones has more than half of all trips, and these are spread over the numbers.
fn zone(random: &mut Random) -> i32 {
    const PART: u64 = 1 << 20;
    let u = random.between(0, PART - 1);
    let rank = u * u / PART * u / PART * ZONES / PART;
    (rank * 167 % ZONES + 1) as i32
}

/// Hundredths of miles.
fn distance(random: &mut Random) -> u64 {
    let (step, within) = (random.between(0, 19) as usize, random.between(0, 999));
    let (low, high) = (DISTANCES[step], DISTANCES[step + 1]);
    // Long trips are rarer the longer they are.
    let within = if step == 19 { within * within / 1000 * within / 1000 } else { within };
    low + (high - low) * within / 1000
}

impl Trips {
    fn append(&mut self, row: u64, all: u64) {
        let mut random = Random::of_row(TRIPS, row);
        // Rows are in order of time, except for late deliveries.
        let day = row * DAYS / all;
        let (first, next) = ((day * all).div_ceil(DAYS), ((day + 1) * all).div_ceil(DAYS));
        let second = second_of_day(row - first, (next - first).max(1)) + random.between(0, 240);
        let pickup = START + (day * 86_400 + second) as i64;
        let hour = second / 3600 % 24;
        let (from, to, distance) = (zone(&mut random), zone(&mut random), distance(&mut random));
        // Four minutes a mile at night, up to nine by day, plus some time to get in.
        let per_mile = if (7..20).contains(&hour) { random.between(300, 540) } else { random.between(200, 330) };
        let seconds = 60 + random.between(0, 120) + distance * per_mile / 100;
        let airport = (from == AIRPORT || to == AIRPORT) && distance > 800;
        let (rate, fare) = if airport { (2, 5200) } else { (1, fare(distance, seconds)) };
        let weekday = (day + 1) % 7 < 5;
        let extra = match hour {
            16..20 if weekday => 100,
            20.. | 0..6 => 50,
            _ => 0,
        };
        let tolls = if distance > 700 && random.between(0, 9) < 4 { 612 } else { 0 };
        let congestion = if random.between(0, 99) < 92 { 250 } else { 0 };
        let payment = match random.between(0, 999) {
            0..710 => 1,
            710..990 => 2,
            990..996 => 3,
            _ => 4,
        };
        let due = fare + extra + 50 + 30 + tolls + congestion;
        let tip = match (payment, random.between(0, 9)) {
            (1, 0) => 0,
            (1, 1..7) => due / 5,
            (1, _) => random.between(1, 10) * 50,
            _ => 0,
        };
        self.vendor.push(if random.between(0, 99) < 64 { 2 } else { 1 });
        self.pickup.push(pickup);
        self.dropoff.push(pickup + seconds as i64);
        self.passengers
            .push(*[1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4, 5, 6].get(random.between(0, 12) as usize).unwrap_or(&1));
        self.distance.push(distance.into());
        self.rate.push(rate);
        self.flag.append_value(if random.between(0, 199) == 0 { "Y" } else { "N" });
        self.from.push(from);
        self.to.push(to);
        self.payment.push(payment);
        self.fare.push(fare.into());
        self.extra.push(extra.into());
        self.tax.push(50);
        self.tip.push(tip.into());
        self.tolls.push(tolls.into());
        self.improvement.push(30);
        self.total.push((due + tip).into());
        self.congestion.push(congestion.into());
    }

    fn finish(mut self) -> RecordBatch {
        let int = |values: Vec<i32>| Arc::new(Int32Array::from(values)) as ArrayRef;
        let time = |values: Vec<i64>| Arc::new(TimestampSecondArray::from(values)) as ArrayRef;
        let money = |values: Vec<i128>| {
            let column = Decimal128Array::from(values).with_precision_and_scale(8, 2);
            Arc::new(column.expect("no fare has nine digits")) as ArrayRef
        };
        let columns = vec![
            int(self.vendor),
            time(self.pickup),
            time(self.dropoff),
            int(self.passengers),
            money(self.distance),
            int(self.rate),
            Arc::new(self.flag.finish()),
            int(self.from),
            int(self.to),
            int(self.payment),
            money(self.fare),
            money(self.extra),
            money(self.tax),
            money(self.tip),
            money(self.tolls),
            money(self.improvement),
            money(self.total),
            money(self.congestion),
        ];
        RecordBatch::try_new(schema("trips").expect("a table"), columns).expect("columns follow the schema")
    }
}

/// The fare in cents: 2.50, plus 0.50 for each fifth of a mile or minute of waiting.
fn fare(distance: u64, seconds: u64) -> u64 {
    let moving = distance / 20;
    let standing = seconds.saturating_sub(distance * 300 / 100) / 60;
    250 + 50 * (moving + standing)
}

fn batch(all: u64, rows: Range<u64>) -> RecordBatch {
    let mut trips = Trips::default();
    rows.for_each(|row| trips.append(row, all));
    trips.finish()
}
