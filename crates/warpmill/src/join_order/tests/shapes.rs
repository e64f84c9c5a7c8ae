//! Join orders of known graph shapes.

use super::*;

fn chain() -> Database {
    let mut db = Database::default();
    db.table("lineitem", 6_000_000, &[("l_order", 1_500_000), ("l_supp", 10_000)]);
    db.table("orders", 1_500_000, &[("o_key", 1_500_000), ("o_cust", 100_000)]);
    db.table("customer", 150_000, &[("c_key", 150_000), ("c_nation", 25)]);
    db.table("nation", 25, &[("n_key", 25), ("n_region", 5)]);
    db.table("region", 5, &[("r_key", 5)]);
    db
}

#[tokio::test]
async fn chain_starts_at_the_selective_end() {
    let sql = "SELECT * FROM lineitem, orders, customer, nation, region WHERE l_order = o_key AND o_cust = c_key \
               AND c_nation = n_key AND n_region = r_key AND r_key = 3";
    assert_eq!(chain().order(sql).await, "((((region nation) customer) orders) lineitem)");
}

#[tokio::test]
async fn two_relations_build_on_the_smaller() {
    let db = chain();
    assert_eq!(db.order("SELECT * FROM orders JOIN customer ON o_cust = c_key").await, "(customer orders)");
    assert_eq!(db.order("SELECT * FROM customer JOIN orders ON o_cust = c_key").await, "(customer orders)");
}

#[tokio::test]
async fn star_builds_on_every_dimension() {
    let mut db = Database::default();
    db.table("fact", 1_000_000, &[("f1", 1000), ("f2", 100), ("f3", 10)]);
    db.table("d1", 1000, &[("k1", 1000), ("x1", 50)]);
    db.table("d2", 100, &[("k2", 100), ("x2", 10)]);
    db.table("d3", 10, &[("k3", 10)]);
    let sql = "SELECT * FROM fact, d1, d2, d3 WHERE f1 = k1 AND f2 = k2 AND f3 = k3 AND x1 = 7";
    assert_eq!(db.order(sql).await, "(d3 (d2 (d1 fact)))");
}

#[tokio::test]
async fn equalities_are_transitive() {
    let mut db = Database::default();
    db.table("a", 1_000_000, &[("ax", 1000)]);
    db.table("b", 10, &[("bx", 10)]);
    db.table("c", 10, &[("cx", 10)]);
    // No predicate names b and c together.
    let sql = "SELECT * FROM b, a, c WHERE a.ax = b.bx AND a.ax = c.cx";
    assert_eq!(db.order(sql).await, "((b c) a)");
}

#[tokio::test]
async fn clique_and_cycle_keep_all_predicates_once() {
    let mut db = Database::default();
    for (name, rows) in [("t1", 1000), ("t2", 10), ("t3", 500), ("t4", 50)] {
        db.table(name, rows, &[("x", rows), ("y", rows), ("z", rows)]);
    }
    let cycle = "SELECT * FROM t1, t2, t3, t4 WHERE t1.x = t2.x AND t2.y = t3.y AND t3.z = t4.z AND t4.y = t1.y";
    let plan = db.optimized(cycle, true).await;
    let found = predicates(&plan);
    // t2.y = t3.y is apart from t4.y = t1.y: four keys, each once.
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.values().all(|n| *n == 1), "{found:?}");
    let clique = "SELECT * FROM t1, t2, t3, t4 WHERE t1.x = t2.x AND t1.x = t3.x AND t1.x = t4.x AND t2.x = t3.x \
                  AND t2.x = t4.x AND t3.x = t4.x";
    let found = predicates(&db.optimized(clique, true).await);
    assert_eq!(found.values().sum::<usize>(), 3, "{found:?}");
}

#[tokio::test]
async fn hyperedge_is_applied_once_where_its_columns_meet() {
    let mut db = Database::default();
    for name in ["a", "b", "c"] {
        db.table(name, 100, &[("x", 100), ("y", 10)]);
    }
    let sql = "SELECT * FROM a, b, c WHERE a.x = b.x AND b.y = c.y AND a.y + b.y > c.x";
    let found = predicates(&db.optimized(sql, true).await);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.values().all(|n| *n == 1), "{found:?}");
}

#[tokio::test]
async fn disconnected_parts_are_crossed_by_cost() {
    let mut db = chain();
    db.table("tiny", 2, &[("t", 2)]);
    let sql = "SELECT * FROM tiny, orders, customer WHERE o_cust = c_key";
    // The search alone crosses last; a cross product that an earlier rule leaves is kept where it is cheaper.
    assert_eq!(db.order(sql).await, "((tiny customer) orders)");
}

#[tokio::test]
async fn many_relations_are_ordered_greedily() {
    let mut db = Database::default();
    let names: Vec<String> = (0..20).map(|i| format!("t{i}")).collect();
    for (i, name) in names.iter().enumerate() {
        db.table(name, 10 + i * 100, &[("p", 10 + i * 50), ("q", 10 + i * 100)]);
    }
    let links: Vec<String> = (1..20).map(|i| format!("t{}.q = t{i}.p", i - 1)).collect();
    let sql = format!("SELECT * FROM {} WHERE {}", names.join(", "), links.join(" AND "));
    let plan = db.optimized(&sql, true).await;
    assert_eq!(predicates(&plan).values().sum::<usize>(), 19);
    assert!(names.iter().all(|n| order(&plan).contains(n.as_str())));
}

#[tokio::test]
async fn other_joins_build_on_the_smaller_input() {
    let db = chain();
    let outer = "SELECT * FROM orders LEFT JOIN nation ON o_cust = n_key";
    assert_eq!(db.order(outer).await, "(nation Right orders)");
    let semi = "SELECT * FROM orders WHERE o_cust IN (SELECT c_key FROM customer)";
    assert_eq!(db.order(semi).await, "(customer RightSemi orders)");
    let small = "SELECT * FROM nation WHERE EXISTS (SELECT 1 FROM customer WHERE c_nation = n_key)";
    assert_eq!(db.order(small).await, "(nation LeftSemi customer)");
}

#[tokio::test]
async fn outer_joins_below_keys_of_their_columns_become_inner() {
    let mut db = Database::default();
    db.table("sales", 3_000_000, &[("s_item", 18_000), ("s_ticket", 240_000), ("s_day", 1800)]);
    db.table("returns", 290_000, &[("r_ticket", 170_000), ("r_reason", 35)]);
    db.table("reason", 1, &[("x_key", 1)]);
    let outer = "FROM sales LEFT JOIN returns ON r_ticket = s_ticket";
    let joined = format!("SELECT s_item {outer}, reason WHERE r_reason = x_key");
    assert_eq!(db.order(&joined).await, "((reason returns) sales)");
    // Also through aliases, projections and aggregations, and for keys of semi joins.
    let named = format!("SELECT s_item AS i, r_reason AS why {outer}");
    let named = format!("SELECT q.i FROM ({named}) AS q JOIN reason ON q.why = x_key");
    assert_eq!(db.order(&named).await, "(reason (returns sales))");
    let grouped = format!(
        "SELECT n FROM (SELECT r_reason, count(*) n {outer} GROUP BY r_reason) JOIN reason ON r_reason = x_key"
    );
    assert_eq!(db.order(&grouped).await, "(reason (returns sales))");
    let semi = format!("SELECT s_item {outer} WHERE r_reason IN (SELECT x_key FROM reason)");
    assert_eq!(db.order(&semi).await, "(reason RightSemi (returns sales))");
    // Keys of the other side, and joins that keep rows without a partner, allow no change.
    for rest in [
        ", reason WHERE s_day = x_key",
        "LEFT JOIN reason ON r_reason = x_key",
        "JOIN reason ON r_reason IS NOT DISTINCT FROM x_key",
        ", reason WHERE coalesce(r_reason, 1) = x_key",
    ] {
        let sql = format!("SELECT s_item {outer} {rest}");
        assert!(db.order(&sql).await.contains("(returns Right sales)"), "{sql}");
    }
}

#[tokio::test]
async fn rows_without_a_partner_are_not_taken_for_none() {
    let mut db = Database::default();
    db.table("sales", 3_000_000, &[("s_day", 1800), ("s_item", 18_000), ("s_ticket", 240_000)]);
    db.table("returns", 290_000, &[("r_item", 18_000), ("r_ticket", 170_000)]);
    db.table("days", 370, &[("d_day", 370)]);
    let sql = "SELECT s_item FROM sales LEFT JOIN returns ON r_ticket = s_ticket AND r_item = s_item \
               JOIN days ON s_day = d_day WHERE r_ticket IS NULL";
    assert_eq!(db.order(sql).await, "(days (returns Right sales))");
}

#[tokio::test]
async fn optimizing_twice_changes_nothing() {
    let db = chain();
    let sql = "SELECT n_key, count(*) FROM lineitem, orders, customer, nation, region WHERE l_order = o_key \
               AND o_cust = c_key AND c_nation = n_key AND n_region = r_key AND r_key = 3 GROUP BY n_key";
    let once = db.optimized(sql, true).await;
    let twice = db.session(true).state().optimize(&once).expect("a plan");
    assert_eq!(once.display_indent_schema().to_string(), twice.display_indent_schema().to_string());
}
