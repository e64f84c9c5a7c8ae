//! Plans that other systems might send, as JSON, and their rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, StringArray};
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde_json::{Value, json};
use warpmill::Session;
use warpmill_datagen::Suite;

use super::read;
use crate::{SubstraitError, execute, from_bytes, from_json};

/// Table `t` (k, v, s) with NULLs and duplicates, and `Mixed` (Id: 32 bits).
fn session() -> Session {
    let session = Session::builder().threads(2).build().unwrap();
    let columns: [(&str, ArrayRef); 3] = [
        ("k", Arc::new(Int64Array::from(vec![Some(1), Some(1), Some(2), Some(3), None]))),
        ("v", Arc::new(Int64Array::from(vec![Some(10), Some(20), Some(20), None, Some(50)]))),
        ("s", Arc::new(StringArray::from(vec![Some("one"), Some("uno"), Some("two"), None, Some("nil")]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    session.register_batches("t", batch.schema(), vec![batch]).unwrap();
    let ids: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 2]));
    let batch = RecordBatch::try_from_iter([("Id", ids)]).unwrap();
    session.register_batches("Mixed", batch.schema(), vec![batch]).unwrap();
    session
}

/// Functions by anchor, declared by all plans here.
const FUNCTIONS: [(&str, &str); 18] = [
    ("functions_comparison", "equal:any_any"),
    ("functions_comparison", "not_equal:any_any"),
    ("functions_comparison", "gt:any_any"),
    ("functions_boolean", "and:bool"),
    ("functions_aggregate_generic", "count:"),
    ("functions_arithmetic", "sum:i64"),
    ("functions_arithmetic", "sum0:i64"),
    ("functions_arithmetic", "row_number:"),
    ("functions_datetime", "extract:req_date"),
    ("functions_comparison", "least:any"),
    ("functions_comparison", "least_skip_null:any"),
    ("functions_string", "concat:str"),
    ("functions_arithmetic_decimal", "divide:dec_dec"),
    ("functions_string", "frobnicate:str"),
    ("functions_arithmetic", "add:i64_i64"),
    ("functions_arithmetic", "variance:fp64"),
    ("functions_boolean", "not:bool"),
    ("functions_arithmetic", "lag:any"),
];

fn anchor(name: &str) -> usize {
    FUNCTIONS.iter().position(|(_, other)| other.split(':').next() == Some(name)).unwrap_or(99) + 1
}

fn plan_of(relations: Value) -> String {
    let urn = |(at, (extension, _)): (usize, &(&str, &str))| json!({"extensionUrnAnchor": at + 1, "urn": format!("extension:io.substrait:{extension}")});
    let urns: Vec<_> = FUNCTIONS.iter().enumerate().map(urn).collect();
    let functions: Vec<_> = FUNCTIONS
        .iter()
        .enumerate()
        .map(|(at, (_, name))| {
            json!({"extensionFunction": {"extensionUrnReference": at + 1, "functionAnchor": at + 1, "name": name}})
        })
        .collect();
    json!({"extensionUrns": urns, "extensions": functions, "relations": relations}).to_string()
}

fn root(relation: Value, names: &[&str]) -> String {
    plan_of(json!([{"root": {"input": relation, "names": names}}]))
}

fn ty(name: &str) -> Value {
    json!({name: {"nullability": "NULLABILITY_REQUIRED"}})
}

fn table(name: &str, columns: &[(&str, &str)]) -> Value {
    let names: Vec<_> = columns.iter().map(|(name, _)| name).collect();
    let types: Vec<_> = columns.iter().map(|(_, kind)| ty(kind)).collect();
    json!({"read": {"baseSchema": {"names": names, "struct": {"types": types}}, "namedTable": {"names": [name]}}})
}

fn t() -> Value {
    table("T", &[("K", "i64"), ("V", "i64"), ("S", "string")])
}

fn field(position: i32) -> Value {
    json!({"selection": {"directReference": {"structField": {"field": position}}, "rootReference": {}}})
}

fn outer(position: i32) -> Value {
    json!({"selection": {"directReference": {"structField": {"field": position}}, "outerReference": {"stepsOut": 1}}})
}

fn call(name: &str, arguments: &[Value]) -> Value {
    let arguments: Vec<_> = arguments.iter().map(|value| json!({"value": value})).collect();
    json!({"scalarFunction": {"functionReference": anchor(name), "arguments": arguments}})
}

fn measure(name: &str, arguments: &[Value]) -> Value {
    let arguments: Vec<_> = arguments.iter().map(|value| json!({"value": value})).collect();
    json!({"measure": {"functionReference": anchor(name), "arguments": arguments}})
}

fn int(value: i64) -> Value {
    json!({"literal": {"i64": value.to_string()}})
}

fn sorted(input: Value, keys: &[i32]) -> Value {
    let sorts: Vec<_> =
        keys.iter().map(|&key| json!({"expr": field(key), "direction": "SORT_DIRECTION_ASC_NULLS_LAST"})).collect();
    json!({"sort": {"input": input, "sorts": sorts}})
}

/// `SELECT expressions` without a table.
fn values(expressions: &[Value]) -> String {
    let one = json!({"read": {"baseSchema": {"struct": {}}, "virtualTable": {"expressions": [{}]}}});
    root(json!({"project": {"input": one, "expressions": expressions}}), &[])
}

fn rows_of(session: &Session, plan: &str) -> Result<Vec<String>, SubstraitError> {
    let result = execute(session, &from_json(plan).unwrap())?;
    let options = FormatOptions::default().with_null("-");
    let mut rows = vec![];
    for batch in &result.batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<_> = columns.iter().map(|column| column.value(row).to_string()).collect();
            rows.push(cells.join(" "));
        }
    }
    Ok(rows)
}

#[track_caller]
fn check(plan: &str, expected: &[&str]) {
    assert_eq!(rows_of(&session(), plan).unwrap(), expected);
}

#[track_caller]
fn refused(plan: &str, message: &str) -> SubstraitError {
    let error = rows_of(&session(), plan).unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
    error
}

#[test]
fn both_sides_of_a_correlated_self_join_are_told_apart() {
    // WHERE EXISTS (SELECT * FROM t AS other WHERE other.k = t.k AND other.v <> t.v)
    let same = call("equal", &[field(0), outer(0)]);
    let differs = call("not_equal", &[field(1), outer(1)]);
    let inner = json!({"filter": {"input": t(), "condition": call("and", &[same, differs])}});
    let exists = |relation: Value| json!({"subquery": {"setPredicate": {"predicateOp": "PREDICATE_OP_EXISTS", "tuples": relation}}});
    let with = json!({"filter": {"input": t(), "condition": exists(inner.clone())}});
    check(&root(sorted(with, &[1]), &["k", "v", "s"]), &["1 10 one", "1 20 uno"]);
    let without = json!({"filter": {"input": t(), "condition": call("not", &[exists(inner)])}});
    check(&root(sorted(without, &[1]), &["k", "v", "s"]), &["2 20 two", "- 50 nil", "3 - -"]);
}

#[test]
fn output_mappings_permute_and_repeat_columns() {
    let emit = json!({"emit": {"outputMapping": [3, 0, 0, 3]}});
    let sum = call("add", &[field(0), field(1)]);
    let project = json!({"project": {"common": emit, "input": t(), "expressions": [sum]}});
    let plan = root(sorted(project, &[0]), &["x", "k", "k", "x"]);
    check(&plan, &["11 1 1 11", "21 1 1 21", "22 2 2 22", "- 3 3 -", "- - - -"]);
    let schema = execute(&session(), &from_json(&plan).unwrap()).unwrap().schema;
    assert_eq!(schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["x", "k", "k", "x"]);
}

#[test]
fn joins_of_every_kind() {
    let mixed = || table("MIXED", &[("ID", "i64")]);
    let on = || call("equal", &[field(0), field(3)]);
    let join = |kind: &str| json!({"join": {"left": t(), "right": mixed(), "expression": on(), "type": kind}});
    let keys = |kind: &str| root(sorted(join(kind), &[0, 1]), &[]);
    check(&keys("JOIN_TYPE_LEFT"), &["1 10 one 1", "1 20 uno 1", "2 20 two 2", "2 20 two 2", "3 - - -", "- 50 nil -"]);
    check(&keys("JOIN_TYPE_LEFT_SEMI"), &["1 10 one", "1 20 uno", "2 20 two"]);
    check(&keys("JOIN_TYPE_LEFT_ANTI"), &["3 - -", "- 50 nil"]);
    check(
        &keys("JOIN_TYPE_LEFT_MARK"),
        &["1 10 one true", "1 20 uno true", "2 20 two true", "3 - - false", "- 50 nil false"],
    );
    check(&root(sorted(join("JOIN_TYPE_RIGHT_SEMI"), &[0]), &[]), &["1", "2", "2"]);
    refused(&keys("JOIN_TYPE_LEFT_SINGLE"), "join type 'left_single'");
    refused(&keys("JOIN_TYPE_UNSPECIFIED"), "a join of no type");

    // NULL meets NULL where keys are compared so.
    let key = |comparison: &str| {
        let reference = field(0)["selection"].clone();
        json!({"left": reference, "right": reference, "comparison": {"simple": comparison}})
    };
    let hash = |comparison: &str| {
        let side = || json!({"fetch": {"input": t(), "offset": 3, "count": -1}});
        let join = json!({"left": side(), "right": side(), "keys": [key(comparison)], "type": "JOIN_TYPE_INNER"});
        root(sorted(json!({"hashJoin": join}), &[1]), &[])
    };
    check(&hash("SIMPLE_COMPARISON_TYPE_EQ"), &["3 - - 3 - -"]);
    check(&hash("SIMPLE_COMPARISON_TYPE_IS_NOT_DISTINCT_FROM"), &["- 50 nil - 50 nil", "3 - - 3 - -"]);
}

#[test]
fn aggregations_number_their_grouping_sets() {
    let groupings = json!([
        {"expressionReferences": [0]},
        {"expressionReferences": []},
        {"expressionReferences": [0]},
    ]);
    let aggregate = json!({"aggregate": {
        "input": t(),
        "groupingExpressions": [field(0)],
        "groupings": groupings,
        "measures": [measure("count", &[]), measure("sum", &[field(1)])],
    }});
    // Grouping sets without references are read from the deprecated lists, here empty: the set of all rows.
    check(
        &root(sorted(aggregate, &[3, 0]), &[]),
        &["1 2 30 0", "2 1 20 0", "3 1 - 0", "- 1 50 0", "- 5 100 1", "1 2 30 2", "2 1 20 2", "3 1 - 2", "- 1 50 2"],
    );
}

#[test]
fn measures_repeat_and_finish() {
    let none = json!({"filter": {"input": t(), "condition": call("gt", &[field(1), int(1000)])}});
    let measures =
        [measure("sum", &[field(1)]), measure("sum0", &[field(1)]), measure("sum", &[field(1)]), measure("count", &[])];
    check(&root(json!({"aggregate": {"input": none, "measures": measures}}), &["a", "b", "c", "d"]), &["- 0 - 0"]);
    // The variance of 10, 20, 20, 50, as a sample and as a population.
    let of = |distribution: &str| {
        let mut measure = measure("variance", &[field(1)]);
        measure["measure"]["options"] = json!([{"name": "distribution", "preference": [distribution]}]);
        json!({"aggregate": {"input": t(), "measures": [measure]}})
    };
    for (distribution, expected) in [("POPULATION", 225.0), ("SAMPLE", 300.0)] {
        let rows = rows_of(&session(), &root(of(distribution), &[])).unwrap();
        assert!((rows[0].parse::<f64>().unwrap() - expected).abs() < 1e-9, "{rows:?}");
    }
    assert!(crate::functions::behaviours("round:fp64_i32", "rounding").contains(&"TIE_AWAY_FROM_ZERO"));
    assert!(!crate::functions::behaviours("add:fp64_fp64", "rounding").contains(&"TIE_AWAY_FROM_ZERO"));
    assert!(crate::functions::behaviours("add:fp64_fp64", "mood").is_empty());
    refused(&root(of("BAYESIAN"), &[]), "option 'distribution' = BAYESIAN of aggregate function 'variance:fp64'");
}

#[test]
fn windows_in_projections_and_relations() {
    let order = json!([{"expr": field(1), "direction": "SORT_DIRECTION_DESC_NULLS_LAST"}]);
    let number = json!({"windowFunction": {
        "functionReference": anchor("row_number"), "partitions": [field(0)], "sorts": order,
        "outputType": {"i64": {"nullability": "NULLABILITY_REQUIRED"}},
    }});
    let plus = call("add", &[number.clone(), int(100)]);
    let project = json!({"project": {"input": t(), "expressions": [number, plus]}});
    check(
        &root(sorted(project, &[0, 1]), &[]),
        &["1 10 one 2 102", "1 20 uno 1 101", "2 20 two 1 101", "3 - - 1 101", "- 50 nil 1 101"],
    );
    let lag = json!({"functionReference": anchor("lag"), "arguments": [{"value": field(1)}]});
    let sum = json!({"functionReference": anchor("sum"), "arguments": [{"value": field(1)}]});
    let window = json!({"window": {
        "input": t(), "windowFunctions": [lag, sum], "partitionExpressions": [field(0)],
        "sorts": [{"expr": field(1), "direction": "SORT_DIRECTION_ASC_NULLS_LAST"}],
    }});
    check(
        &root(sorted(window, &[0, 1]), &[]),
        &["1 10 one - 30", "1 20 uno 10 30", "2 20 two - 20", "3 - - - -", "- 50 nil - 50"],
    );
}

#[test]
fn set_operations_take_rows_by_position() {
    let keys = || json!({"project": {"common": {"emit": {"outputMapping": [0]}}, "input": t()}});
    let set = |op: &str| {
        let mixed = table("Mixed", &[("Id", "i64")]);
        root(sorted(json!({"set": {"inputs": [keys(), mixed], "op": op}}), &[0]), &["x"])
    };
    check(&set("SET_OP_UNION_ALL"), &["1", "1", "1", "2", "2", "2", "3", "-"]);
    check(&set("SET_OP_UNION_DISTINCT"), &["1", "2", "3", "-"]);
    check(&set("SET_OP_MINUS_PRIMARY"), &["3", "-"]);
    check(&set("SET_OP_INTERSECTION_PRIMARY"), &["1", "2"]);
    refused(&set("SET_OP_MINUS_PRIMARY_ALL"), "set operation 'SET_OP_MINUS_PRIMARY_ALL'");
    let unequal = json!({"set": {"inputs": [keys(), t()], "op": "SET_OP_UNION_ALL"}});
    refused(&root(unequal, &[]), "a set operation on 1 and 3 columns");
}

#[test]
fn rows_come_from_the_plan_and_from_other_relations() {
    let rows = json!([{"fields": [int(7), {"literal": {"string": "a"}}]}, {"fields": [int(8), {"literal": {"null": {"string": {}}}}]}]);
    let schema = json!({"names": ["n", "c"], "struct": {"types": [ty("i64"), ty("string")]}});
    let values = json!({"read": {"baseSchema": schema, "virtualTable": {"expressions": rows}}});
    let twice =
        json!({"cross": {"left": {"reference": {"subtreeOrdinal": 1}}, "right": {"reference": {"subtreeOrdinal": 1}}}});
    let exchanged = json!({"exchange": {"input": sorted(twice, &[0, 2]), "partitionCount": 4, "roundRobin": {}}});
    let plan = plan_of(json!([{"root": {"input": exchanged, "names": ["a", "b", "c", "d"]}}, {"rel": values}]));
    check(&plan, &["7 a 7 a", "7 a 8 -", "8 - 7 a", "8 - 8 -"]);
    // Each relation refers twice to the next: 2^30 rows of plan.
    let doubling = |next: i32| {
        let reference = || json!({"reference": {"subtreeOrdinal": next}});
        json!({"cross": {"left": reference(), "right": reference()}})
    };
    let mut relations = vec![json!({"root": {"input": doubling(1), "names": []}})];
    relations.extend((2..=30).map(|next| json!({"rel": doubling(next)})));
    relations.push(json!({"rel": t()}));
    refused(&plan_of(relations.into()), "plan of more than 20000 relations");
}

#[test]
fn functions_mean_what_substrait_says() {
    let null = json!({"literal": {"null": {"i64": {}}}});
    let text = |text: &str| json!({"literal": {"string": text}});
    let no_text = json!({"literal": {"null": {"string": {}}}});
    let plan = values(&[
        call("least", &[int(3), int(2)]),
        call("least", &[int(3), null.clone()]),
        call("least_skip_null", &[int(3), null]),
        call("concat", &[text("a"), text("b"), text("c")]),
        call("concat", &[text("a"), no_text]),
    ]);
    check(&plan, &["2 - 3 abc -"]);
    // 2024-12-30, a Monday: the first ISO week of 2025.
    let date = json!({"literal": {"date": 20_087}});
    let extract = |words: &[&str]| {
        let mut arguments: Vec<_> = words.iter().map(|word| json!({"enum": word})).collect();
        arguments.push(json!({"value": date}));
        json!({"scalarFunction": {"functionReference": anchor("extract"), "arguments": arguments, "outputType": ty("i64")}})
    };
    let plan = values(&[
        extract(&["YEAR"]),
        extract(&["ISO_YEAR"]),
        extract(&["MONTH", "ONE"]),
        extract(&["MONTH", "ZERO"]),
        extract(&["SUNDAY_DAY_OF_WEEK", "ONE"]),
        extract(&["MONDAY_DAY_OF_WEEK", "ZERO"]),
        extract(&["ISO_WEEK", "ONE"]),
        extract(&["UNIX_TIME"]),
    ]);
    check(&plan, &["2024 2025 12 11 2 0 1 1735516800"]);
    refused(&values(&[extract(&["PICOSECOND"])]), "component 'PICOSECOND' of function 'extract'");
    // One third with the ten digits that the plan declares.
    let decimal = |value: u8| {
        let mut bytes = [0; 16];
        bytes[0] = value;
        json!({"literal": {"decimal": {"value": base64(&bytes), "precision": 3, "scale": 1}}})
    };
    let mut third = call("divide", &[decimal(10), decimal(30)]);
    third["scalarFunction"]["outputType"] = json!({"decimal": {"precision": 20, "scale": 10}});
    check(&values(&[third]), &["0.3333333333"]);
}

/// Base64, the JSON form of bytes.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let groups = bytes.chunks(3).map(|group| {
        let bits = group.iter().fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        let digit = |at: usize| char::from(DIGITS[(bits >> (18 - 6 * at) & 63) as usize]);
        (0..4).map(|at| if at <= group.len() { digit(at) } else { '=' }).collect::<String>()
    });
    groups.collect()
}

#[test]
fn casts_to_shorter_strings_cut() {
    let short = |input: Value| json!({"cast": {"type": {"varchar": {"length": 2}}, "input": input}});
    let project = json!({"project": {
        "common": {"emit": {"outputMapping": [3]}}, "input": t(), "expressions": [short(field(2))],
    }});
    check(&root(sorted(project, &[0]), &["s"]), &["ni", "on", "tw", "un", "-"]);
    check(&values(&[short(json!({"literal": {"fixedChar": "a"}}))]), &["a"]);
}

#[test]
fn what_is_missing_is_named() {
    let error = refused(&root(table("nowhere", &[("a", "i64")]), &[]), "table 'nowhere' not found");
    assert!(matches!(warpmill::Error::from(error), warpmill::Error::Catalog(_)));
    refused(&root(table("t", &[("z", "i64")]), &[]), "there is no column 'z' in 't'");
    refused(
        &root(table("t", &[("s", "i64")]), &[]),
        "column 's' of 't' has type Utf8, but the Substrait plan declares Int64",
    );
    refused(&root(table("Mixed", &[("Id", "string")]), &[]), "has type Int32");
    check(&root(sorted(table("MIXED", &[("ID", "i64")]), &[0]), &["ID"]), &["1", "2", "2"]);
    let unknown = values(&[call("frobnicate", &[json!({"literal": {"string": "a"}})])]);
    let error = refused(
        &unknown,
        "Substrait scalar function 'frobnicate:str' (anchor 14, extension 'extension:io.substrait:functions_string') is not supported",
    );
    let SubstraitError::UnknownFunction(function) = error else { panic!("{error:?}") };
    assert_eq!((function.kind, function.anchor), ("scalar", 14));
    refused(&values(&[call("undeclared", &[])]), "function anchor 100 is not declared");
    let unknown = root(json!({"aggregate": {"input": t(), "measures": [measure("frobnicate", &[field(0)])]}}), &[]);
    refused(&unknown, "Substrait aggregate function 'frobnicate:str' (anchor 14");
    refused(&root(json!({"expand": {"input": t()}}), &[]), "relation 'expand'");
    refused(&root(json!({"extensionLeaf": {}}), &[]), "extension relation");
    refused(&root(json!({"filter": {"input": t(), "condition": field(3)}}), &[]), "field 3 of 3 fields is referred to");
    refused(
        &root(json!({"filter": {"input": t(), "condition": outer(0)}}), &[]),
        "a reference 1 queries outwards, of 0",
    );
    refused(&root(t(), &["only one"]), "the name of a column of the root is missing");
    refused(&root(t(), &["a", "b", "c", "d"]), "the root has 1 names too many");
}

/// Deterministic pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % count.max(1) as u64) as usize
    }
}

fn fixtures() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/substrait/isthmus");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 22);
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// TPC-H without rows.
fn tpch() -> Session {
    let session = Session::new().unwrap();
    for table in ["nation", "region", "part", "supplier", "partsupp", "customer", "orders", "lineitem"] {
        session.register_batches(table, warpmill_datagen::schema(Suite::Tpch, table).unwrap(), vec![]).unwrap();
    }
    session
}

/// Mutates a node of a plan: removes it, or replaces it by another number or another part of the plan.
fn mutate(plan: &mut Value, random: &mut Random, other: &Value) {
    let mut node = plan;
    for _ in 0..random.below(40) {
        let count = match node {
            Value::Object(object) => object.len(),
            Value::Array(array) => array.len(),
            _ => 0,
        };
        if count == 0 {
            break;
        }
        let at = random.below(count);
        node = match node {
            Value::Object(object) => object.values_mut().nth(at).unwrap(),
            Value::Array(array) => &mut array[at],
            _ => unreachable!("it has children"),
        };
    }
    *node = match (random.below(4), &*node) {
        (0, _) => Value::Null,
        (1, Value::Array(array)) => array.iter().chain(array).cloned().collect(),
        (1, Value::Object(object)) => object.iter().skip(1).map(|(key, value)| (key.clone(), value.clone())).collect(),
        (_, Value::Number(_)) => [-1, 0, 1, 3, 38, 1000, i64::from(i32::MAX)][random.below(7)].into(),
        (_, Value::String(_)) => ["", "YEAR", "L_ORDERKEY", "12", "sum:i64"][random.below(5)].into(),
        (2, _) => other.clone(),
        (_, node) => node.clone(),
    };
}

#[test]
fn mutated_plans_never_panic() {
    let session = tpch();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let plans: Vec<Value> =
        fixtures().iter().map(|bytes| serde_json::to_value(from_bytes(bytes).unwrap()).unwrap()).collect();
    let (mut read_anyway, mut refused) = (0, 0);
    for plan in &plans {
        for _ in 0..120 {
            let mut mutant = plan.clone();
            let other = plans[random.below(plans.len())]["relations"][0]["root"]["input"].clone();
            for _ in 0..=random.below(3) {
                mutate(&mut mutant, &mut random, &other);
            }
            match serde_json::from_value(mutant).map(|plan| read(&session, &plan)) {
                Ok(Ok(_)) => read_anyway += 1,
                Ok(Err(_)) => refused += 1,
                Err(_) => {}
            }
        }
    }
    assert!(read_anyway > 50 && refused > 500, "{read_anyway} plans were read and {refused} refused");
}

#[test]
fn mutated_bytes_never_panic() {
    let session = tpch();
    let mut random = Random(42);
    for bytes in fixtures() {
        for _ in 0..100 {
            let mut bytes = bytes.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                match random.below(4) {
                    0 => bytes.truncate(at),
                    1 => bytes[at] ^= 1 << random.below(8),
                    2 => bytes.insert(at, random.below(256) as u8),
                    _ => drop(bytes.remove(at.min(bytes.len() - 1))),
                }
                if bytes.is_empty() {
                    break;
                }
            }
            if let Ok(plan) = from_bytes(&bytes) {
                let _ = read(&session, &plan);
            }
        }
    }
}

#[test]
fn every_fixture_is_read() {
    let session = tpch();
    for bytes in fixtures() {
        let plan = read(&session, &from_bytes(&bytes).unwrap()).unwrap();
        let text = session.block_on(session.explain_plan(&plan, false)).unwrap();
        assert!(text.contains("WarpmillExec"), "{text}");
    }
}
