use std::collections::{HashMap, HashSet};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, Int32Type, Int64Type};

use super::*;

fn table(suite: Suite, name: &str, sf: f64) -> RecordBatch {
    let schema = schema(suite, name).unwrap();
    let mut batches = Vec::new();
    for part in 0..parts(suite, name, sf).unwrap() {
        batches.extend(generate(suite, name, sf, part).unwrap());
    }
    concat_batches(&schema, &batches).unwrap()
}

fn ints(batch: &RecordBatch, name: &str) -> Vec<i64> {
    let column = batch.column_by_name(name).unwrap();
    match column.data_type() {
        DataType::Int32 => column.as_primitive::<Int32Type>().values().iter().map(|&v| v.into()).collect(),
        DataType::Int64 => column.as_primitive::<Int64Type>().values().to_vec(),
        DataType::Date32 => column.as_primitive::<Date32Type>().values().iter().map(|&v| v.into()).collect(),
        DataType::Decimal128(15, 2) => {
            column.as_primitive::<Decimal128Type>().values().iter().map(|&v| v as i64).collect()
        }
        other => panic!("{name} is {other}"),
    }
}

fn texts(batch: &RecordBatch, name: &str) -> Vec<String> {
    batch.column_by_name(name).unwrap().as_string::<i32>().iter().map(|v| v.unwrap().to_owned()).collect()
}

fn distinct<T: std::hash::Hash + Eq>(values: Vec<T>) -> HashSet<T> {
    values.into_iter().collect()
}

/// Checks that every value of the range occurs about equally often.
fn assert_uniform(values: &[i64], low: i64, high: i64) {
    let mut counts = HashMap::new();
    values.iter().for_each(|v| *counts.entry(*v).or_insert(0usize) += 1);
    let expected = values.len() as f64 / (high - low + 1) as f64;
    for value in low..=high {
        let count = counts.remove(&value).unwrap_or(0) as f64;
        assert!((count - expected).abs() < 6.0 * expected.sqrt() + 1.0, "{value}: {count} of {expected}");
    }
    assert!(counts.is_empty(), "outside {low}..={high}: {counts:?}");
}

#[test]
fn every_table_follows_its_schema_and_row_count() {
    for suite in [Suite::Tpch, Suite::Ssb, Suite::Taxi] {
        for name in tables(suite) {
            let rows = table(suite, name, 0.01);
            assert!(rows.schema().fields().iter().all(|f| !f.is_nullable() && f.data_type() != &DataType::Utf8View));
            assert!(rows.columns().iter().all(|c| c.null_count() == 0));
            let (got, expected) = (rows.num_rows() as f64, expected_rows(suite, name, 0.01).unwrap() as f64);
            let slack = if matches!(*name, "lineitem" | "lineorder") { 0.02 } else { 0.0 };
            assert!((got - expected).abs() <= slack * expected, "{name}: {got} rows, expected {expected}");
        }
    }
}

#[test]
fn scale_factors_follow_the_specifications() {
    let ssb = |name, sf| expected_rows(Suite::Ssb, name, sf).unwrap();
    assert_eq!((ssb("customer", 1.0), ssb("supplier", 1.0), ssb("part", 1.0)), (30_000, 2000, 200_000));
    assert_eq!((ssb("part", 2.0), ssb("part", 3.0), ssb("part", 4.0)), (400_000, 400_000, 600_000));
    assert_eq!((ssb("date", 0.1), ssb("date", 100.0), ssb("lineorder", 10.0)), (2556, 2556, 60_000_000));
    let tpch = |name, sf| expected_rows(Suite::Tpch, name, sf).unwrap();
    assert_eq!((tpch("orders", 1.0), tpch("partsupp", 1.0), tpch("nation", 30.0)), (1_500_000, 800_000, 25));
}

#[test]
fn tpch_keys_refer_to_rows() {
    let sf = 0.01;
    let lineitem = table(Suite::Tpch, "lineitem", sf);
    let orders = table(Suite::Tpch, "orders", sf);
    let partsupp = table(Suite::Tpch, "partsupp", sf);
    let order_keys = distinct(ints(&orders, "o_orderkey"));
    assert_eq!(order_keys.len(), orders.num_rows());
    assert_eq!(distinct(ints(&lineitem, "l_orderkey")), order_keys);
    let pairs = |batch: &RecordBatch, part: &str, supplier: &str| -> HashSet<(i64, i64)> {
        ints(batch, part).into_iter().zip(ints(batch, supplier)).collect()
    };
    let offered = pairs(&partsupp, "ps_partkey", "ps_suppkey");
    assert!(pairs(&lineitem, "l_partkey", "l_suppkey").is_subset(&offered));
    let customers = distinct(ints(&table(Suite::Tpch, "customer", sf), "c_custkey"));
    assert!(distinct(ints(&orders, "o_custkey")).is_subset(&customers));
    assert_uniform(&ints(&lineitem, "l_quantity").iter().map(|q| q / 100).collect::<Vec<_>>(), 1, 50);
}

#[test]
fn ssb_keys_refer_to_rows() {
    let sf = 0.01;
    let fact = table(Suite::Ssb, "lineorder", sf);
    for (name, key, foreign) in [
        ("customer", "c_custkey", "lo_custkey"),
        ("supplier", "s_suppkey", "lo_suppkey"),
        ("part", "p_partkey", "lo_partkey"),
        ("date", "d_datekey", "lo_orderdate"),
        ("date", "d_datekey", "lo_commitdate"),
    ] {
        let dimension = table(Suite::Ssb, name, sf);
        let keys = distinct(ints(&dimension, key));
        assert_eq!(keys.len(), dimension.num_rows(), "{name} keys are unique");
        assert!(distinct(ints(&fact, foreign)).is_subset(&keys), "{foreign} refers to {name}");
    }
}

#[test]
fn ssb_lines_follow_the_formulas() {
    let fact = table(Suite::Ssb, "lineorder", 0.01);
    let column = |name| ints(&fact, name);
    let (part, quantity) = (column("lo_partkey"), column("lo_quantity"));
    let (extended, discount) = (column("lo_extendedprice"), column("lo_discount"));
    let (revenue, tax, cost) = (column("lo_revenue"), column("lo_tax"), column("lo_supplycost"));
    let mut totals: HashMap<i64, i64> = HashMap::new();
    for row in 0..fact.num_rows() {
        let price = 90_000 + (part[row] / 10) % 20_001 + 100 * (part[row] % 1000);
        assert_eq!(extended[row], quantity[row] * price);
        assert_eq!(revenue[row], extended[row] * (100 - discount[row]) / 100);
        assert_eq!(cost[row], 6 * price / 10);
    }
    for (row, key) in column("lo_orderkey").into_iter().enumerate() {
        *totals.entry(key).or_default() += revenue[row] * (100 + tax[row]) / 100;
    }
    for (key, total) in column("lo_orderkey").into_iter().zip(column("lo_ordtotalprice")) {
        assert_eq!(totals[&key], total);
    }
    assert!(column("lo_orderkey").iter().all(|key| (key - 1) % 32 < 8), "only the first 8 of 32 keys are used");
    assert!(column("lo_custkey").iter().all(|key| key % 3 != 0), "a third of the customers never orders");
}

#[test]
fn ssb_distributions_follow_the_specification() {
    let fact = table(Suite::Ssb, "lineorder", 0.02);
    assert_uniform(&ints(&fact, "lo_quantity"), 1, 50);
    assert_uniform(&ints(&fact, "lo_discount"), 0, 10);
    assert_uniform(&ints(&fact, "lo_tax"), 0, 8);
    assert_eq!(distinct(texts(&fact, "lo_shipmode")).len(), 7);
    assert_eq!(distinct(texts(&fact, "lo_orderpriority")).len(), 5);
    let (numbers, keys) = (ints(&fact, "lo_linenumber"), ints(&fact, "lo_orderkey"));
    let mut lines = HashMap::new();
    keys.iter().zip(numbers).for_each(|(key, number)| {
        let last = lines.insert(*key, number).unwrap_or(0);
        assert_eq!(number, last + 1);
    });
    assert_uniform(&lines.into_values().collect::<Vec<_>>(), 1, 7);
    let (first, last) = (19920101, 19980802);
    assert!(ints(&fact, "lo_orderdate").iter().all(|date| (first..=last).contains(date)));

    let part = table(Suite::Ssb, "part", 1.0);
    assert_eq!(distinct(texts(&part, "p_brand1")).len(), 1000);
    assert_eq!(distinct(texts(&part, "p_category")).len(), 25);
    assert_eq!(distinct(texts(&part, "p_mfgr")).len(), 5);
    assert_eq!(distinct(texts(&part, "p_type")).len(), 150);
    assert_eq!(distinct(texts(&part, "p_container")).len(), 40);
    assert!(texts(&part, "p_brand1").iter().zip(texts(&part, "p_category")).all(|(b, c)| b.starts_with(&c)));

    let customer = table(Suite::Ssb, "customer", 1.0);
    let cities = distinct(texts(&customer, "c_city"));
    assert_eq!(cities.len(), 250);
    assert!(cities.contains("UNITED KI1") && cities.contains("PERU     0"));
    assert!(cities.iter().all(|city| city.len() == 10));
    assert_eq!(distinct(texts(&customer, "c_nation")).len(), 25);
    assert_eq!(distinct(texts(&customer, "c_region")).len(), 5);
}

#[test]
fn the_date_table_has_seven_years_of_days() {
    let date = table(Suite::Ssb, "date", 1.0);
    assert_eq!(date.num_rows(), 2556);
    let keys = ints(&date, "d_datekey");
    assert_eq!((keys[0], keys[2555]), (19920101, 19981230));
    assert!(keys.is_sorted());
    assert_eq!(texts(&date, "d_date")[59], "February 29, 1992");
    assert_eq!(texts(&date, "d_yearmonth")[59], "Feb1992");
    assert_eq!(texts(&date, "d_dayofweek")[0], "Wednesday");
    let weeks = ints(&date, "d_weeknuminyear");
    assert_eq!((weeks.iter().min(), weeks.iter().max()), (Some(&1), Some(&53)));
    assert_eq!(distinct(texts(&date, "d_sellingseason")).len(), 5);
}

#[test]
fn rows_do_not_depend_on_workers_or_cuts() {
    for (suite, name) in [(Suite::Ssb, "lineorder"), (Suite::Tpch, "lineitem"), (Suite::Tpch, "partsupp")] {
        let sf = if name == "partsupp" { 0.7 } else { 0.1 };
        let whole = table(suite, name, sf);
        assert!(parts(suite, name, sf).unwrap() > 1, "{name}: the scale should give several parts");
        for threads in [1, 3] {
            let batches: Vec<_> = stream(suite, name, sf, threads).unwrap().collect();
            assert_eq!(concat_batches(&whole.schema(), &batches).unwrap(), whole);
        }
    }
    // The workers of a dropped stream end.
    drop(stream(Suite::Ssb, "lineorder", 1.0, 2).unwrap().next());
}

#[test]
fn tpch_matches_the_reference_generator() {
    let lineitem = table(Suite::Tpch, "lineitem", 1.0 / 100.0);
    assert_eq!(lineitem.num_rows(), 60_175);
    assert_uniform(&ints(&lineitem, "l_discount"), 0, 10);
    // The first line of every dbgen run at this scale.
    assert_eq!((ints(&lineitem, "l_orderkey")[0], ints(&lineitem, "l_partkey")[0]), (1, 1552));
    assert_eq!((ints(&lineitem, "l_quantity")[0], ints(&lineitem, "l_extendedprice")[0]), (1700, 2471035));
}

#[test]
fn errors_name_the_culprit() {
    let message = |error: DatagenError| error.to_string();
    assert!(message(schema(Suite::Ssb, "orders").unwrap_err()).contains("ssb has no table 'orders'"));
    assert!(message(parts(Suite::Ssb, "part", 0.0).unwrap_err()).contains("scale factor 0"));
    assert!(message(parts(Suite::Ssb, "part", 301.0).unwrap_err()).contains("at most 300"));
    assert!(message(parts(Suite::Tpch, "part", f64::NAN).unwrap_err()).contains("NaN"));
    assert!(message("tpcds".parse::<Suite>().unwrap_err()).contains("tpcds"));
    let part = generate(Suite::Tpch, "nation", 1.0, 1).err().unwrap();
    assert!(message(part).contains("nation has 1 parts"));
}

#[test]
fn queries_are_single_statements() {
    assert_eq!(queries(Suite::Tpch).len(), 22);
    assert_eq!(queries(Suite::Ssb).len(), 13);
    for query in queries(Suite::Tpch).iter().chain(queries(Suite::Ssb)) {
        assert!(!query.sql.contains(';'), "query {} ends with a semicolon", query.name);
        assert!(query.sql.starts_with("-- "), "query {} names itself", query.name);
    }
}

#[test]
fn taxi_trips_have_rush_hours_busy_zones_and_fares_that_follow() {
    use arrow::datatypes::TimestampSecondType;
    let trips = table(Suite::Taxi, "trips", 0.02);
    let time = |name: &str| trips.column_by_name(name).unwrap().as_primitive::<TimestampSecondType>().values().to_vec();
    let money = |name: &str| -> Vec<i64> {
        let column = trips.column_by_name(name).unwrap().as_primitive::<Decimal128Type>();
        column.values().iter().map(|&cents| cents as i64).collect()
    };
    let (pickup, dropoff) = (time("pickup_datetime"), time("dropoff_datetime"));
    let n = pickup.len() as f64;
    // A year, nearly in order, every trip with a length.
    assert!(pickup[0] < 1_546_300_800 + 600 && *pickup.last().unwrap() > 1_577_750_400);
    assert!(pickup.windows(2).all(|pair| pair[1] > pair[0] - 300));
    assert!(pickup.iter().zip(&dropoff).all(|(a, b)| (60..40_000).contains(&(b - a))));
    let at =
        |hours: std::ops::Range<i64>| pickup.iter().filter(|&t| hours.contains(&(t / 3600 % 24))).count() as f64 / n;
    assert!(at(18..19) > 0.06 && at(4..5) < 0.015, "{} {}", at(18..19), at(4..5));
    let zones = ints(&trips, "pickup_location_id");
    let mut counts = vec![0usize; 264];
    zones.iter().for_each(|&zone| counts[zone as usize] += 1);
    counts.sort_unstable();
    assert!(counts[264 - 26..].iter().sum::<usize>() as f64 > 0.4 * n && counts[1] > 0);
    let mut miles = money("trip_distance");
    miles.sort_unstable();
    let quantile = |part: f64| miles[(part * n) as usize];
    assert!((140..200).contains(&quantile(0.5)) && quantile(0.99) > 1200, "{} {}", quantile(0.5), quantile(0.99));
    let parts = ["fare_amount", "extra", "mta_tax", "tip_amount", "tolls_amount", "improvement_surcharge"].map(money);
    let (total, congestion) = (money("total_amount"), money("congestion_surcharge"));
    for row in 0..total.len() {
        assert_eq!(total[row], parts.iter().map(|part| part[row]).sum::<i64>() + congestion[row]);
    }
    // Only cards tip.
    let payment = ints(&trips, "payment_type");
    assert!(payment.iter().zip(&parts[3]).all(|(&payment, &tip)| payment == 1 || tip == 0));
    assert!(queries(Suite::Taxi).is_empty());
}
