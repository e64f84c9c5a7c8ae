//! Customers, suppliers and parts.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Int32Builder, RecordBatch, StringBuilder};
use arrow::datatypes::SchemaRef;
use tpchgen::distribution::Distributions;

use crate::random::Random;

/// Nations and their regions, numbered as in TPC-H.
const NATIONS: [(&str, &str); 25] = [
    ("ALGERIA", "AFRICA"),
    ("ARGENTINA", "AMERICA"),
    ("BRAZIL", "AMERICA"),
    ("CANADA", "AMERICA"),
    ("EGYPT", "MIDDLE EAST"),
    ("ETHIOPIA", "AFRICA"),
    ("FRANCE", "EUROPE"),
    ("GERMANY", "EUROPE"),
    ("INDIA", "ASIA"),
    ("INDONESIA", "ASIA"),
    ("IRAN", "MIDDLE EAST"),
    ("IRAQ", "MIDDLE EAST"),
    ("JAPAN", "ASIA"),
    ("JORDAN", "MIDDLE EAST"),
    ("KENYA", "AFRICA"),
    ("MOROCCO", "AFRICA"),
    ("MOZAMBIQUE", "AFRICA"),
    ("PERU", "AMERICA"),
    ("CHINA", "ASIA"),
    ("ROMANIA", "EUROPE"),
    ("SAUDI ARABIA", "MIDDLE EAST"),
    ("VIETNAM", "ASIA"),
    ("RUSSIA", "EUROPE"),
    ("UNITED KINGDOM", "EUROPE"),
    ("UNITED STATES", "AMERICA"),
];

const CUSTOMER: u64 = 1;
const SUPPLIER: u64 = 2;
const PART: u64 = 3;

pub(super) fn customer_schema() -> SchemaRef {
    super::columns(&[
        ("c_custkey", 'i'),
        ("c_name", 's'),
        ("c_address", 's'),
        ("c_city", 's'),
        ("c_nation", 's'),
        ("c_region", 's'),
        ("c_phone", 's'),
        ("c_mktsegment", 's'),
    ])
}

pub(super) fn supplier_schema() -> SchemaRef {
    super::columns(&[
        ("s_suppkey", 'i'),
        ("s_name", 's'),
        ("s_address", 's'),
        ("s_city", 's'),
        ("s_nation", 's'),
        ("s_region", 's'),
        ("s_phone", 's'),
    ])
}

pub(super) fn part_schema() -> SchemaRef {
    super::columns(&[
        ("p_partkey", 'i'),
        ("p_name", 's'),
        ("p_mfgr", 's'),
        ("p_category", 's'),
        ("p_brand1", 's'),
        ("p_color", 's'),
        ("p_type", 's'),
        ("p_size", 'i'),
        ("p_container", 's'),
    ])
}

/// The columns that customers and suppliers share.
#[derive(Default)]
struct Trader {
    key: Int32Builder,
    name: StringBuilder,
    address: StringBuilder,
    city: StringBuilder,
    nation: StringBuilder,
    region: StringBuilder,
    phone: StringBuilder,
}

impl Trader {
    fn append(&mut self, kind: &str, row: u64, random: &mut Random) {
        let key = row + 1;
        self.key.append_value(key as i32);
        self.name.append_value(format!("{kind}#{key:09}"));
        self.address.append_value(random.text(10, 25));
        let number = random.between(0, NATIONS.len() as u64 - 1);
        let (nation, region) = NATIONS[number as usize];
        // The nation's first 9 characters, padded with blanks, and a digit.
        self.city.append_value(format!("{nation:9.9}{}", random.between(0, 9)));
        self.nation.append_value(nation);
        self.region.append_value(region);
        let (area, exchange, line) = (random.between(100, 999), random.between(100, 999), random.between(1000, 9999));
        self.phone.append_value(format!("{}-{area}-{exchange}-{line}", number + 10));
    }

    fn finish(mut self) -> Vec<arrow::array::ArrayRef> {
        vec![
            Arc::new(self.key.finish()),
            Arc::new(self.name.finish()),
            Arc::new(self.address.finish()),
            Arc::new(self.city.finish()),
            Arc::new(self.nation.finish()),
            Arc::new(self.region.finish()),
            Arc::new(self.phone.finish()),
        ]
    }
}

pub(super) fn customer(rows: Range<u64>) -> RecordBatch {
    let segments = Distributions::static_default().market_segments().get_values();
    let (mut trader, mut segment) = (Trader::default(), StringBuilder::new());
    for row in rows {
        let mut random = Random::of_row(CUSTOMER, row);
        trader.append("Customer", row, &mut random);
        segment.append_value(random.pick(segments));
    }
    let mut columns = trader.finish();
    columns.push(Arc::new(segment.finish()));
    RecordBatch::try_new(customer_schema(), columns).expect("columns follow the schema")
}

pub(super) fn supplier(rows: Range<u64>) -> RecordBatch {
    let mut trader = Trader::default();
    for row in rows {
        trader.append("Supplier", row, &mut Random::of_row(SUPPLIER, row));
    }
    RecordBatch::try_new(supplier_schema(), trader.finish()).expect("columns follow the schema")
}

pub(super) fn part(rows: Range<u64>) -> RecordBatch {
    let words = Distributions::static_default();
    let colors = words.part_colors().get_values();
    let (types, containers) = (words.part_types().get_values(), words.part_containers().get_values());
    let (mut key, mut size) = (Int32Builder::new(), Int32Builder::new());
    let mut texts: [StringBuilder; 7] = Default::default();
    for row in rows {
        let mut random = Random::of_row(PART, row);
        let (maker, category, brand) = (random.between(1, 5), random.between(1, 5), random.between(1, 40));
        let (color, shade) = (random.pick(colors), random.pick(colors));
        key.append_value(row as i32 + 1);
        size.append_value(random.between(1, 50) as i32);
        let [name, mfgr, category_text, brand1, color_text, kind, container] = &mut texts;
        name.append_value(format!("{color} {shade}"));
        mfgr.append_value(format!("MFGR#{maker}"));
        category_text.append_value(format!("MFGR#{maker}{category}"));
        brand1.append_value(format!("MFGR#{maker}{category}{brand}"));
        color_text.append_value(color);
        kind.append_value(random.pick(types));
        container.append_value(random.pick(containers));
    }
    let [mut name, mut mfgr, mut category, mut brand1, mut color, mut kind, mut container] = texts;
    RecordBatch::try_new(
        part_schema(),
        vec![
            Arc::new(key.finish()),
            Arc::new(name.finish()),
            Arc::new(mfgr.finish()),
            Arc::new(category.finish()),
            Arc::new(brand1.finish()),
            Arc::new(color.finish()),
            Arc::new(kind.finish()),
            Arc::new(size.finish()),
            Arc::new(container.finish()),
        ],
    )
    .expect("columns follow the schema")
}

/// Price of a part in cents (TPC-H 4.2.3, `p_retailprice`).
pub(super) fn retail_price(part: u64) -> u64 {
    90_000 + (part / 10) % 20_001 + 100 * (part % 1000)
}
