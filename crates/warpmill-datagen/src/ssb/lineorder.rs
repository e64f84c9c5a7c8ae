//! The fact table: orders of 1 to 7 lines, the order's own columns repeated on every line.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringBuilder};
use arrow::datatypes::SchemaRef;
use tpchgen::distribution::Distributions;

use super::calendar::Day;
use super::dimension::retail_price;
use super::{DATE_ROWS, Sizes};
use crate::random::Random;

const LINEORDER: u64 = 5;

/// The last order date, 1998-08-02, in days after 1992-01-01.
const LAST_ORDER_DAY: u64 = 2405;

pub(super) fn schema() -> SchemaRef {
    super::columns(&[
        ("lo_orderkey", 'i'),
        ("lo_linenumber", 'i'),
        ("lo_custkey", 'i'),
        ("lo_partkey", 'i'),
        ("lo_suppkey", 'i'),
        ("lo_orderdate", 'i'),
        ("lo_orderpriority", 's'),
        ("lo_shippriority", 's'),
        ("lo_quantity", 'i'),
        ("lo_extendedprice", 'i'),
        ("lo_ordtotalprice", 'i'),
        ("lo_discount", 'i'),
        ("lo_revenue", 'i'),
        ("lo_supplycost", 'i'),
        ("lo_tax", 'i'),
        ("lo_commitdate", 'i'),
        ("lo_shipmode", 's'),
    ])
}

/// The lines of one batch, column by column.
#[derive(Default)]
struct Lines {
    order_key: Vec<i32>,
    number: Vec<i32>,
    customer: Vec<i32>,
    part: Vec<i32>,
    supplier: Vec<i32>,
    order_date: Vec<i32>,
    priority: StringBuilder,
    quantity: Vec<i32>,
    extended_price: Vec<i32>,
    total_price: Vec<i32>,
    discount: Vec<i32>,
    revenue: Vec<i32>,
    supply_cost: Vec<i32>,
    tax: Vec<i32>,
    commit_date: Vec<i32>,
    ship_mode: StringBuilder,
}

/// Every day's key: looking one up is cheaper than the calendar.
fn date_keys() -> Vec<i32> {
    (0..DATE_ROWS).map(|day| Day::after_start(day).key()).collect()
}

/// A random customer with orders: two thirds have some, as in TPC-H.
fn ordering_customer(random: &mut Random, customers: u64) -> u64 {
    loop {
        let key = random.between(1, customers);
        if !key.is_multiple_of(3) {
            return key;
        }
    }
}

impl Lines {
    fn append_order(&mut self, sizes: &Sizes, order: u64, dates: &[i32], priorities: &[&str], modes: &[&str]) {
        let mut random = Random::of_row(LINEORDER, order);
        let lines = random.between(1, 7);
        // The first 8 of every 32 keys are used (TPC-H 4.2.3).
        let key = (order / 8 * 32 + order % 8 + 1) as i32;
        let customer = ordering_customer(&mut random, sizes.customers) as i32;
        let day = random.between(0, LAST_ORDER_DAY);
        let priority = random.pick(priorities);
        let mut total = 0;
        for number in 1..=lines {
            let part = random.between(1, sizes.parts);
            let (quantity, discount, tax) = (random.between(1, 50), random.between(0, 10), random.between(0, 8));
            let price = retail_price(part);
            let extended = quantity * price;
            let revenue = extended * (100 - discount) / 100;
            total += revenue * (100 + tax) / 100;
            self.order_key.push(key);
            self.number.push(number as i32);
            self.customer.push(customer);
            self.part.push(part as i32);
            self.supplier.push(random.between(1, sizes.suppliers) as i32);
            self.order_date.push(dates[day as usize]);
            self.priority.append_value(priority);
            self.quantity.push(quantity as i32);
            self.extended_price.push(extended as i32);
            self.discount.push(discount as i32);
            self.revenue.push(revenue as i32);
            self.supply_cost.push((6 * price / 10) as i32);
            self.tax.push(tax as i32);
            self.commit_date.push(dates[(day + random.between(30, 90)) as usize]);
            self.ship_mode.append_value(random.pick(modes));
        }
        self.total_price.extend((0..lines).map(|_| total as i32));
    }

    fn finish(mut self) -> RecordBatch {
        let int = |values: Vec<i32>| -> ArrayRef { Arc::new(Int32Array::from(values)) };
        let mut ship_priority = StringBuilder::new();
        self.number.iter().for_each(|_| ship_priority.append_value("0"));
        let columns = vec![
            int(self.order_key),
            int(self.number),
            int(self.customer),
            int(self.part),
            int(self.supplier),
            int(self.order_date),
            Arc::new(self.priority.finish()),
            Arc::new(ship_priority.finish()),
            int(self.quantity),
            int(self.extended_price),
            int(self.total_price),
            int(self.discount),
            int(self.revenue),
            int(self.supply_cost),
            int(self.tax),
            int(self.commit_date),
            Arc::new(self.ship_mode.finish()),
        ];
        RecordBatch::try_new(schema(), columns).expect("columns follow the schema")
    }
}

pub(super) fn batch(sizes: &Sizes, orders: Range<u64>) -> RecordBatch {
    let words = Distributions::static_default();
    let (priorities, modes) = (words.order_priority().get_values(), words.ship_modes().get_values());
    let dates = date_keys();
    let mut lines = Lines::default();
    for order in orders {
        lines.append_order(sizes, order, &dates, priorities, modes);
    }
    lines.finish()
}
