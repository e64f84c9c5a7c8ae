//! Random join graphs: the ordered plan returns the rows of the written one.

use datafusion::arrow::util::display::array_value_to_string;

use super::*;

/// xorshift64*: the cases are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }
}

/// Small tables with duplicates and NULLs; the statistics are random too, so that any order may win.
fn database(random: &mut Random, tables: usize) -> Database {
    let mut db = Database::default();
    for t in 0..tables {
        let rows = random.below(if tables > 4 { 6 } else { 12 });
        let mut column = || -> Vec<Option<i64>> {
            (0..rows).map(|_| (random.below(8) > 0).then(|| random.below(5) as i64)).collect()
        };
        db.rows(&format!("t{t}"), vec![("a", column()), ("b", column()), ("c", column())]);
        if random.below(3) > 0 {
            let columns =
                (0..3).map(|_| ColumnStats { distinct: Some(1.0 + random.below(500) as f64), ..Default::default() });
            let columns = columns.collect();
            let stats = TableStats { rows: 1.0 + random.below(1000) as f64, columns };
            db.statistics.0.insert(format!("t{t}"), stats);
        }
    }
    db
}

fn column(random: &mut Random, table: usize) -> String {
    format!("t{table}.{}", ["a", "b", "c"][random.below(3)])
}

/// A query over all tables: a random spanning forest of equalities, then random predicates of every kind.
fn query(random: &mut Random, tables: usize) -> String {
    let mut predicates = vec![];
    for t in 1..tables {
        if random.below(8) > 0 {
            let other = random.below(t);
            predicates.push(format!("{} = {}", column(random, t), column(random, other)));
        }
    }
    for _ in 0..random.below(4) {
        let [x, y, z] = [(); 3].map(|()| random.below(tables));
        let (l, r, m) = (column(random, x), column(random, y), column(random, z));
        predicates.push(match random.below(6) {
            0 => format!("{l} = {r}"),
            1 => format!("{l} <= {r}"),
            2 => format!("{l} + {r} = {m} + 1"),
            3 => format!("({l} = 1 OR {r} = 2 OR {m} IS NULL)"),
            4 => format!("{l} > {}", random.below(3)),
            _ => format!("{l} + 1 = {r}"),
        });
    }
    let names: Vec<String> = (0..tables).map(|t| format!("t{t}")).collect();
    let mut from = names.join(", ");
    match random.below(4) {
        0 => {
            from = names[1..].join(", ");
            from = format!("{from} LEFT JOIN t0 ON t0.a = {}", column(random, tables - 1));
            predicates.retain(|p| !p.contains("t0."));
        }
        1 => predicates.push(format!("{} IN (SELECT b FROM t0 AS s WHERE s.a > 0)", column(random, 0))),
        2 => predicates.push(format!("{} NOT IN (SELECT b FROM t0 AS s WHERE s.b IS NOT NULL)", column(random, 0))),
        _ => {}
    }
    let filter = if predicates.is_empty() { String::new() } else { format!(" WHERE {}", predicates.join(" AND ")) };
    let select = if random.below(2) == 0 { "*" } else { "t1.b, t0.a, t1.c" };
    format!("SELECT {select} FROM {from}{filter}")
}

/// The rows of a query as sorted text, below its column names.
async fn run(db: &Database, sql: &str, ordered: bool) -> Vec<String> {
    let frame = db.session(ordered).sql(sql).await.expect("valid SQL");
    let names: Vec<String> = frame.schema().fields().iter().map(|f| f.name().clone()).collect();
    let mut rows = vec![format!("{names:?}")];
    for batch in frame.collect().await.unwrap_or_else(|e| panic!("{sql}: {e}")) {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|c| array_value_to_string(c, row).expect("an integer"));
            rows.push(values.collect::<Vec<_>>().join(","));
        }
    }
    rows[1..].sort();
    rows
}

/// A query of outer joins of every kind, below and beside inner ones.
fn outer_query(random: &mut Random, tables: usize) -> String {
    let mut from = "t0".to_string();
    for t in 1..tables {
        let kind = ["LEFT", "RIGHT", "FULL", "INNER", "LEFT"][random.below(5)];
        let other = random.below(t);
        let mut on = format!("{} = {}", column(random, t), column(random, other));
        if random.below(4) == 0 {
            on = format!("{on} AND {} < {}", column(random, t), column(random, other));
        }
        from = format!("{from} {kind} JOIN t{t} ON {on}");
    }
    let key = column(random, tables - 1);
    let any = random.below(tables);
    let tail = match random.below(6) {
        0 => format!(" WHERE {key} IN (SELECT b FROM t0 AS s)"),
        1 => format!(" WHERE {key} NOT IN (SELECT b FROM t0 AS s WHERE s.b IS NOT NULL)"),
        2 => format!(" JOIN t0 AS s ON s.a = {}", column(random, any)),
        3 => format!(" LEFT JOIN t0 AS s ON s.a = {key} WHERE s.b IS NULL"),
        4 => format!(" JOIN (SELECT b, count(*) AS n FROM t0 AS r GROUP BY b) AS s ON s.b = {key}"),
        _ => String::new(),
    };
    format!("SELECT t0.a, t0.b, t1.a AS c, t1.b AS d, t{any}.c AS e FROM {from}{tail}")
}

/// Runs random cases with the rules and without; at least `least` of them have to give rows.
async fn compare(seed: u64, cases: usize, query: fn(&mut Random, usize) -> String, least: usize) {
    let (mut random, mut filled) = (Random(seed), 0);
    for case in 0..cases {
        let tables = 2 + random.below(5);
        let db = database(&mut random, tables);
        let sql = query(&mut random, tables);
        let (written, ordered) = (run(&db, &sql, false).await, run(&db, &sql, true).await);
        assert!(written == ordered, "case {case}: {sql}: {} rows became {}", written.len() - 1, ordered.len() - 1);
        filled += usize::from(written.len() > 1);
    }
    assert!(filled >= least, "only {filled} cases returned rows");
}

#[tokio::test]
async fn random_outer_joins_return_the_same_rows() {
    compare(0xD1B5_4A32_D192_ED03, 150, outer_query, 60).await;
}

#[tokio::test]
async fn random_join_graphs_return_the_same_rows() {
    compare(0x9E37_79B9_7F4A_7C15, 80, query, 15).await;
}
