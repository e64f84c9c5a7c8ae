"""Queries: joins, groups, windows, set operations."""

from __future__ import annotations

from dialect.case import Case

TITLE = "Queries"

_A = "CREATE TABLE a AS SELECT * FROM (VALUES (1, 10, 'a'), (2, NULL, 'b'), (NULL, 30, 'c'), (2, 20, 'd')) v(i, x, s)"
_B = "CREATE TABLE b AS SELECT * FROM (VALUES (1, 100), (3, 300), (2, 15), (NULL, 7)) v(i, y)"
_AB = (_A, _B)

CASTS = (
    "CREATE TABLE c AS SELECT * FROM (VALUES (1.5, 'a', CAST(3 AS BIGINT)), (2.5, 'a', 1), (NULL, 'b', 2), (1.4,"
    " 'b', 2))"
    " t(d, s, x)",
)

CASES = (
    Case("NULLs come last, in either direction", "SELECT x FROM (VALUES (1), (NULL), (2)) t(x) ORDER BY x DESC"),
    Case("NULLs come last in windows", "SELECT i, x, row_number() OVER (ORDER BY x DESC) AS r FROM a ORDER BY r", _AB),
    Case(
        "`GROUP BY ALL`",
        "SELECT g, sum(x) AS s FROM (VALUES ('a', 1), ('b', 2), ('a', 3)) t(g, x) GROUP BY ALL ORDER BY g",
    ),
    Case("`ORDER BY ALL`", "SELECT s, i FROM a ORDER BY ALL DESC", _AB),
    Case("positions in GROUP BY and ORDER BY", "SELECT s || '', sum(i) FROM a GROUP BY 1 ORDER BY 1 DESC", _AB),
    Case("`FROM` first", "FROM a SELECT s ORDER BY s", _AB),
    Case("`FROM` alone", "FROM a ORDER BY s", _AB),
    Case(
        "`FETCH FIRST`",
        "SELECT * FROM (SELECT s FROM a ORDER BY s OFFSET 1 ROW FETCH NEXT 2 ROWS ONLY) q"
        " UNION ALL (SELECT s FROM a ORDER BY s DESC FETCH FIRST ROW ONLY) ORDER BY 1",
        _AB,
    ),
    Case("`QUALIFY`", "SELECT s FROM a QUALIFY row_number() OVER (ORDER BY s DESC) = 1", _AB),
    Case(
        "variances over moving frames",
        "SELECT i, var_samp(x) OVER w AS a, stddev_pop(x) OVER w AS b, stddev(x) OVER (ORDER BY i ROWS BETWEEN"
        " 1 FOLLOWING AND 3 FOLLOWING) AS c, variance(x) FILTER (WHERE i > 2) OVER (ORDER BY i ROWS 2 PRECEDING) AS d"
        " FROM (VALUES (1, 1e12), (2, 1), (3, 2), (4, NULL), (5, 4), (6, 5.5), (7, 20), (8, 20), (9, 20)) t(i, x)"
        " WINDOW w AS (ORDER BY i ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) ORDER BY i",
    ),
    Case(
        "named windows",
        "SELECT s, sum(x) OVER (w ROWS 1 PRECEDING) AS t FROM a WINDOW w AS (ORDER BY s) ORDER BY s",
        _AB,
    ),
    Case(
        "`POSITIONAL JOIN`",
        "SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (NULL, 'c')) x(i, s) POSITIONAL JOIN (VALUES (10), (20)) y(j)"
        " POSITIONAL JOIN (SELECT 7 AS i UNION ALL SELECT 8) z WHERE s <> 'b' OR z.i = 8 ORDER BY s",
    ),
    Case(
        "`POSITIONAL JOIN` beside other joins",
        "SELECT a.s, a.x, t.n, u.i FROM a POSITIONAL JOIN range(3) t(n) JOIN a u ON u.s = a.s ORDER BY ALL",
        _AB,
    ),
    Case(
        "defaults of `lead` and `lag` from the row",
        "SELECT i, lead(x, 1, i * 10) OVER w AS a, lag(x, 2, -i) OVER w AS b, lag(s, 1, 'none ' || i) OVER w AS c,"
        " lead(CASE WHEN i <> 2 THEN i END, 1, i + 100 IGNORE NULLS) OVER w AS d, lag(x, 1, (SELECT 7)) OVER w AS e"
        " FROM (VALUES (1, 5, 'a'), (2, NULL, NULL), (3, 7, 'c')) t(i, x, s) WINDOW w AS (ORDER BY i) ORDER BY i",
    ),
    Case(
        "defaults of `lead` and `lag` have the type of the argument",
        "SELECT lag(i, 1, i + 0.5) OVER w AS a, lead(s, 1, i) OVER w AS b"
        " FROM (VALUES (1, 'a'), (2, 'b')) t(i, s) WINDOW w AS (ORDER BY i) ORDER BY i",
    ),
    Case(
        "defaults of `lag` that do not fit",
        "SELECT lag(i::TINYINT, 1, 300 + i) OVER (ORDER BY i) AS a FROM (VALUES (1)) t(i)",
    ),
    Case(
        "`EXCLUDE` in frames",
        "SELECT s, sum(x) OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW),"
        " count(*) OVER (ORDER BY i RANGE UNBOUNDED PRECEDING EXCLUDE TIES), max(s) OVER w FROM a"
        " WINDOW w AS (ORDER BY i GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE GROUP) ORDER BY s",
        _AB,
    ),
    Case(
        "DISTINCT in the order of what is not selected",
        "SELECT DISTINCT i FROM (VALUES (1, 2), (2, 1), (1, 0)) t(i, x) ORDER BY x",
    ),
    Case("`DISTINCT ON` in another order", "SELECT DISTINCT ON (i) i, x FROM a ORDER BY x DESC", _AB),
    Case("HAVING without groups", "SELECT 42 AS a HAVING 42 > 20 UNION ALL SELECT count(*) FROM a GROUP BY ()", _AB),
    Case("numbers as conditions", "SELECT s FROM a WHERE i AND i % 2 ORDER BY s", _AB),
    Case(
        "ROLLUP and CUBE of columns together",
        "SELECT i, s, x, count(*) AS n, grouping(i, s, x) AS g FROM a GROUP BY ROLLUP ((i, s), x) UNION ALL"
        " SELECT i, s, x, count(*), grouping(i, s, x) FROM a GROUP BY CUBE ((i, s), x) ORDER BY ALL",
        _AB,
    ),
    Case(
        "ROLLUP and CUBE within GROUPING SETS",
        "SELECT i, s, sum(x) AS n FROM a GROUP BY GROUPING SETS (ROLLUP (i, s), CUBE ((i, s), x), (s), (upper(s)))"
        " ORDER BY ALL",
        _AB,
    ),
    Case(
        "extremes of infinities and NaN in grouping sets",
        "SELECT s, min(d) AS a, max(d) AS b FROM (VALUES ('a', 'nan'::DOUBLE), ('a', 1), ('b', '-inf'::DOUBLE),"
        " ('c', 'inf'::DOUBLE), ('d', NULL)) t(s, d)"
        " GROUP BY ROLLUP (s) ORDER BY s",
    ),
    Case(
        "`IS NOT FALSE` under DISTINCT",
        "SELECT DISTINCT (i <= i) IS NOT FALSE AS p, (x > 1) IS TRUE AS q FROM a ORDER BY ALL",
        _AB,
    ),
    Case("`DISTINCT ON`", "SELECT DISTINCT ON (i) i, s FROM a ORDER BY i, s", _AB),
    Case(
        "FULL JOIN USING has one key", "SELECT i, a.i AS l, b.i AS r, y FROM a FULL JOIN b USING (i) ORDER BY ALL", _AB
    ),
    Case("RIGHT JOIN USING has the right key", "SELECT * FROM a RIGHT JOIN b USING (i) ORDER BY ALL", _AB),
    Case("NATURAL FULL JOIN", "SELECT * FROM a NATURAL FULL JOIN b ORDER BY ALL", _AB),
    Case("NATURAL JOIN without a common column", "SELECT * FROM a NATURAL JOIN (SELECT 1 AS z) c", _AB),
    Case(
        "USING three tables",
        "SELECT * FROM a FULL JOIN b USING (i) FULL JOIN (VALUES (3, 'q'), (9, 'r')) c(i, z) USING (i) ORDER BY ALL",
        _AB,
    ),
    Case("`t.*` under FULL JOIN USING", "SELECT b.*, s FROM a FULL JOIN b USING (i) ORDER BY ALL", _AB),
    Case("`SEMI JOIN`", "SELECT * FROM a SEMI JOIN b USING (i) ORDER BY ALL", _AB),
    Case("`ANTI JOIN`", "SELECT * FROM a ANTI JOIN b ON a.i = b.i ORDER BY ALL", _AB),
    Case("`ASOF JOIN`", "SELECT a.i, s, y FROM a ASOF JOIN b ON a.x >= b.i ORDER BY ALL", _AB),
    Case(
        "`ASOF JOIN` with USING: the last column is the inequality's",
        "SELECT * FROM a ASOF JOIN b USING (i) ORDER BY ALL",
        _AB,
    ),
    Case("`ASOF LEFT JOIN`", "SELECT s, b.i, y FROM a ASOF LEFT JOIN b ON a.i > b.i AND b.y > 100 ORDER BY ALL", _AB),
    Case("`ASOF JOIN` without an inequality is an error", "SELECT * FROM a ASOF JOIN b ON a.i = b.i", _AB),
    Case(
        "`ASOF JOIN` with two inequalities is an error", "SELECT * FROM a ASOF JOIN b ON a.i >= b.i AND a.x < b.y", _AB
    ),
    Case(
        "other ASOF joins than inner and left",
        "SELECT s, y FROM a ASOF RIGHT JOIN b ON a.i >= b.i",
        _AB,
        differs="RIGHT, FULL, SEMI and ANTI are refused",
    ),
    Case(
        "`ASOF JOIN` with a further condition on both sides",
        "SELECT s, y FROM a ASOF JOIN b ON a.i >= b.i AND a.x <> b.y",
        _AB,
        differs="refused, but for conditions on one side only",
    ),
    Case(
        "the order of a subquery",
        "SELECT list(s) AS l FROM (SELECT s FROM a ORDER BY s DESC) q",
        _AB,
        differs="lost: ORDER BY belongs to the outermost query, or into the call (`list(s ORDER BY s DESC)`)",
    ),
    Case(
        "`first` and `any_value` without an order take the first row of a small table",
        "SELECT first(x) AS a, any_value(x) AS b FROM (VALUES (2), (1), (3)) t(x)",
    ),
    Case(
        "a join with itself by NULL-safe equality",
        "SELECT l.s, r.s FROM a l JOIN a r ON l.i IS NOT DISTINCT FROM r.i ORDER BY ALL",
        _AB,
    ),
    Case(
        "`INTERSECT ALL` keeps multiplicities",
        "SELECT i FROM a INTERSECT ALL (SELECT i FROM b UNION ALL SELECT 2) ORDER BY 1",
        _AB,
    ),
    Case(
        "`EXCEPT ALL` keeps multiplicities",
        "SELECT x FROM (VALUES (1), (1), (2)) t(x) EXCEPT ALL SELECT 1",
    ),
    Case("`EXCEPT ALL` of NULLs", "SELECT i FROM a EXCEPT ALL SELECT NULL ORDER BY 1", _AB),
    Case(
        "set operations nest",
        "(SELECT i FROM a UNION SELECT y FROM b) EXCEPT ALL (SELECT 7 INTERSECT SELECT 7) ORDER BY 1",
        _AB,
    ),
    Case("`UNION` is called as its first query is", "SELECT i AS n FROM a UNION SELECT y FROM b ORDER BY n DESC", _AB),
    Case("`UNION` of columns of one name", "SELECT i, i FROM a UNION ALL SELECT y, y FROM b ORDER BY 1", _AB),
    Case("`UNION ALL BY NAME`", "SELECT i, s FROM a UNION ALL BY NAME SELECT i, y FROM b ORDER BY ALL", _AB),
    Case(
        "`IN` is NULL where it cannot be known",
        "SELECT x, x IN (SELECT y FROM b) AS known, x IN (SELECT i FROM b) AS unknown FROM a ORDER BY 1",
        _AB,
    ),
    Case("`NOT IN` in OR", "SELECT s FROM a WHERE i = 1 OR i NOT IN (SELECT i FROM b) ORDER BY 1", _AB),
    Case(
        "`NOT IN` in OR, without NULLs",
        "SELECT s FROM a WHERE i = 1 OR i NOT IN (SELECT i FROM b WHERE i > 2) ORDER BY 1",
        _AB,
    ),
    Case(
        "`NOT IN` of a constant",
        "SELECT s, 7 NOT IN (SELECT i FROM b) AS n FROM a WHERE 7 NOT IN (SELECT y FROM b WHERE y > 1)"
        " OR 7 NOT IN (SELECT i FROM b) ORDER BY 1",
        _AB,
    ),
    Case("`NOT IN` of a constant and NULLs", "SELECT s FROM a WHERE 7 NOT IN (SELECT i FROM b) ORDER BY 1", _AB),
    Case("`NOT IN` of nothing", "SELECT s FROM a WHERE i NOT IN (SELECT i FROM b WHERE i > 99) ORDER BY 1", _AB),
    Case(
        "`NOT IN` of a correlated query",
        "SELECT s FROM a WHERE x NOT IN (SELECT y FROM b WHERE b.i = a.i) ORDER BY 1",
        _AB,
    ),
    Case(
        "`NOT (x IN ...)` as a value",
        "SELECT s, NOT (i IN (SELECT y FROM b WHERE b.i = a.i)) AS n FROM a ORDER BY 1",
        _AB,
    ),
    Case("`EXISTS` as a value", "SELECT s, EXISTS (SELECT 1 FROM b WHERE b.i = a.i) AS e FROM a ORDER BY 1", _AB),
    Case(
        "`EXISTS` in CASE and in sums",
        "SELECT sum(CASE WHEN EXISTS (SELECT 1 FROM b WHERE b.y > a.x) THEN 1 ELSE 0 END) AS n FROM a",
        _AB,
    ),
    Case("`= ANY` over one table", "SELECT s FROM a WHERE x = ANY (SELECT x FROM a) ORDER BY 1", _AB),
    Case("`> ALL`", "SELECT s, x > ALL (SELECT y FROM b WHERE y < 20) AS g FROM a ORDER BY 1", _AB),
    Case("`> ALL` of NULLs", "SELECT s, x > ALL (SELECT x FROM a) AS g FROM a ORDER BY 1", _AB),
    Case("`> ALL` of nothing", "SELECT s, x > ALL (SELECT y FROM b WHERE false) AS g FROM a ORDER BY 1", _AB),
    Case(
        "`<= ANY`, `<> ANY`, `<> ALL`",
        "SELECT s, x <= ANY (SELECT y FROM b), x <> ANY (SELECT y FROM b), x <> ALL (SELECT y FROM b) FROM a "
        "ORDER BY 1",
        _AB,
    ),
    Case("`= ALL`", "SELECT s, i = ALL (SELECT 2) AS e, i = ALL (SELECT i FROM b) AS f FROM a ORDER BY 1", _AB),
    Case(
        "correlated by an inequality", "SELECT s, (SELECT count(*) FROM b WHERE b.y > a.x) AS n FROM a ORDER BY 1", _AB
    ),
    Case(
        "correlated, of a join",
        "SELECT s, (SELECT sum(b.y + c.y) FROM b JOIN b c ON b.i <= c.i WHERE b.i >= a.i) AS n FROM a ORDER BY 1",
        _AB,
    ),
    Case(
        "correlated, in the SELECT list inside", "SELECT s, (SELECT max(b.y + a.x) FROM b) AS n FROM a ORDER BY 1", _AB
    ),
    Case(
        "correlated, with GROUP BY and HAVING",
        "SELECT s, (SELECT count(*) FROM b WHERE b.i >= a.i HAVING count(*) > 1) AS n FROM a ORDER BY 1",
        _AB,
    ),
    Case(
        "correlated, with LIMIT",
        "SELECT s, (SELECT y FROM b WHERE b.i >= a.i ORDER BY y DESC LIMIT 1) AS n FROM a ORDER BY 1",
        _AB,
    ),
    Case(
        "correlated, of a UNION",
        "SELECT s, (SELECT sum(v) FROM (SELECT y AS v FROM b WHERE b.i = a.i UNION ALL SELECT a.x) u) AS n FROM a "
        "ORDER BY 1",
        _AB,
    ),
    Case(
        "correlated, of DISTINCT rows",
        "SELECT s, (SELECT count(DISTINCT y % 2) FROM b WHERE b.y > a.x) AS n FROM a ORDER BY 1",
        _AB,
    ),
    Case(
        "correlated, of a window",
        "SELECT s FROM a WHERE EXISTS (SELECT 1 FROM (SELECT row_number() OVER (ORDER BY y) AS r FROM b WHERE b.i "
        ">= a.i) q WHERE r = 2) ORDER BY 1",
        _AB,
    ),
    Case(
        "correlated twice",
        "SELECT s, (SELECT count(*) FROM b WHERE b.y > (SELECT count(*) FROM b c WHERE c.i = b.i AND c.y > a.x)) "
        "AS n FROM a ORDER BY 1",
        _AB,
    ),
    Case(
        "correlated, in HAVING",
        "SELECT i, sum(x) AS t FROM a GROUP BY i HAVING sum(x) > (SELECT min(y) FROM b WHERE b.i <= a.i) ORDER BY 1",
        _AB,
    ),
    Case("correlated, in ORDER BY", "SELECT s FROM a ORDER BY (SELECT count(*) FROM b WHERE b.y > a.x), s", _AB),
    Case("correlated, of nothing", "SELECT s, (SELECT a.i + 1) AS n FROM a ORDER BY 1", _AB),
    Case(
        "`IN` of several columns",
        "SELECT s FROM a WHERE (i, x) IN (SELECT i, y - 90 FROM b UNION ALL SELECT i, x FROM a) ORDER BY 1",
        _AB,
    ),
    Case(
        "`IN` of several columns may be NULL",
        "SELECT s, (i, x) IN (SELECT i, y FROM b) AS m, (i, x) NOT IN (SELECT i, x FROM a WHERE s < 'c') AS n,"
        " row(i, x) IN (SELECT i, x FROM a WHERE false) AS o FROM a ORDER BY 1",
        _AB,
    ),
    Case(
        "`NOT IN` of several columns",
        "SELECT s FROM a WHERE (i, s) NOT IN (SELECT max(i), max(s) FROM a GROUP BY i) ORDER BY 1",
        _AB,
    ),
    Case(
        "`= ANY` of several columns",
        "SELECT s FROM a WHERE (s, i) = ANY (SELECT 'a', i FROM b) OR (i, s) = ANY (SELECT 2, 'd') ORDER BY 1",
        _AB,
    ),
    Case("another number of columns", "SELECT s FROM a WHERE (i, x) IN (SELECT * FROM a)", _AB),
    Case(
        "rows order by their first values that differ",
        "SELECT s, (i, x) < (2, 20) AS a, (i, x) >= (2, 20) AS b, (i, x) > (i, 15) AS c, (2, 20) <= (i, x) AS d FROM a"
        " ORDER BY 1",
        _AB,
    ),
    Case(
        "rows of NULLs order and are equal",
        "SELECT s, (i, x) = (2, NULL) AS a, (i, x) <> (2, NULL) AS b, (i, x) < (2, NULL) AS c, row(x, i) <= row(x, i)"
        " AS d FROM a ORDER BY 1",
        _AB,
    ),
    Case("rows as keys", "SELECT l.s, r.s FROM a l JOIN a r ON (l.i, l.x) = (r.i, r.x) ORDER BY ALL", _AB),
    Case("a scalar subquery of several rows", "SELECT (SELECT y FROM b)", _AB),
    Case(
        "a correlated one of several rows",
        "SELECT s, (SELECT y FROM b WHERE b.i <= a.i + 5) AS n FROM a ORDER BY 1",
        _AB,
    ),
    Case("subqueries in ON", "SELECT a.s, b.y FROM a LEFT JOIN b ON a.i = b.i AND b.y IN (SELECT 100) ORDER BY 1", _AB),
    Case(
        "subqueries in ON that are about both sides",
        "SELECT a.s, b.y FROM a FULL JOIN b ON EXISTS (SELECT 1 FROM a c WHERE c.x = a.x AND c.i < b.i) ORDER BY ALL",
        _AB,
    ),
    Case("`LATERAL` of VALUES", "SELECT s, v FROM a, LATERAL (VALUES (i), (x)) q(v) ORDER BY ALL", _AB),
    Case("`LATERAL`", "SELECT s, y FROM a, LATERAL (SELECT y FROM b WHERE b.i = a.i) q ORDER BY ALL", _AB),
    Case("`LATERAL` need not be said", "SELECT s, j FROM a, (SELECT a.x + 1 AS j) q ORDER BY ALL", _AB),
    Case("`<` and ANY of rows", "SELECT s, (i, x) < ANY (SELECT i, y FROM b) AS v FROM a ORDER BY 1", _AB),
    Case("`= ANY` of a list", "SELECT 5 = ANY ([1, NULL]) AS a, 1 = ANY ([1, NULL]) AS b, 5 IN [1, NULL] AS c", _AB),
    Case(
        "`LEFT JOIN LATERAL` with LIMIT",
        "SELECT s, y FROM a LEFT JOIN LATERAL (SELECT y FROM b WHERE b.y > a.x ORDER BY y LIMIT 1) q ON true "
        "ORDER BY ALL",
        _AB,
    ),
    Case(
        "`LATERAL` aggregates",
        "SELECT s, n FROM a, LATERAL (SELECT count(*) AS n FROM b WHERE b.y > a.x) q ORDER BY ALL",
        _AB,
    ),
    Case(
        "`SIMILAR TO` is of the whole text",
        "SELECT 'abc' SIMILAR TO 'b', 'abc' SIMILAR TO '.b.', 'abc' NOT SIMILAR TO 'a|abc'",
    ),
    Case("`TABLESAMPLE` of all rows", "SELECT count(*) FROM a TABLESAMPLE 100 PERCENT", _AB),
    Case("`USING SAMPLE` of no rows", "SELECT count(*) AS n FROM a USING SAMPLE 0%", _AB),
    Case("`USING SAMPLE` of some rows", "SELECT count(*) AS n FROM (SELECT * FROM a USING SAMPLE 2 ROWS) q", _AB),
    Case("`FROM` without SELECT, with WHERE", "SELECT count(*) AS n FROM (FROM a WHERE i > 1) q", _AB),
    Case(
        "a window over a constant partition",
        "SELECT s, sum(x) OVER (PARTITION BY i ORDER BY s) AS t FROM a WHERE i = 2 ORDER BY 1",
        _AB,
    ),
    Case(
        "windows of finer and of coarser partitions",
        "SELECT g, h, y, avg(sum(x)) OVER (PARTITION BY g, h, y) AS a,"
        " rank() OVER (PARTITION BY g, h ORDER BY y, m) AS r FROM"
        " (VALUES ('a', 1, 1, 1, 5), ('a', 1, 1, 2, 6), ('b', 1, 2, 1, 7), ('b', 2, 2, 1, 8)) t(g, h, y, m, x)"
        " GROUP BY g, h, y, m ORDER BY ALL",
    ),
    Case("`LIMIT` of an expression", "SELECT s FROM a ORDER BY s LIMIT 1 + 1", _AB),
    Case("`LIMIT` of a query", "SELECT s FROM a ORDER BY s LIMIT (SELECT min(i) + 1 FROM b) OFFSET (SELECT 1)", _AB),
    Case("`LIMIT` in percent", "SELECT s FROM a ORDER BY s LIMIT 50 % OFFSET 1", _AB),
    Case(
        "GROUPING SETS and NULLs",
        "SELECT i, s, count(*) AS n, grouping(i) AS g FROM a GROUP BY GROUPING SETS ((i), (s), ()) ORDER BY ALL",
        _AB,
    ),
    Case(
        "ROLLUP with HAVING", "SELECT i, count(*) AS n FROM a GROUP BY ROLLUP (i) HAVING count(*) > 1 ORDER BY ALL", _AB
    ),
    Case(
        "`=` beside NULL-safe equality",
        "SELECT l.s, r.s FROM a l JOIN a r ON l.x IS NOT DISTINCT FROM r.x WHERE l.i = r.i ORDER BY 1, 2",
        _AB,
    ),
    Case(
        "AND after `IS NOT DISTINCT FROM`",
        "SELECT s FROM a WHERE s = 'a' OR x IS NOT DISTINCT FROM NULL AND i = 2 ORDER BY 1",
        _AB,
    ),
    Case(
        "aggregates that differ in casts",
        "SELECT sum(d) AS a, sum(d::INTEGER) AS b, sum(DISTINCT d) AS c, sum(DISTINCT TRY_CAST(d AS DOUBLE)) AS"
        " e, min(d)"
        " AS f, min(CAST(d AS DECIMAL(9,4))) AS g FROM c HAVING sum(d::DOUBLE) > 1 ORDER BY sum(CAST(d AS BIGINT))",
        CASTS,
    ),
    Case(
        "aggregates that differ in casts within casts",
        "SELECT s, avg(d::INTEGER::DOUBLE) AS a, avg(d::DOUBLE) AS b, avg(d::BIGINT::DOUBLE) AS e,"
        " count(d::VARCHAR) AS n,"
        " count(d) FILTER (WHERE d::INTEGER > 1) AS f, count(d) FILTER (WHERE d > 1) AS g FROM c GROUP BY s ORDER BY s",
        CASTS,
    ),
    Case(
        "windows that differ in casts",
        "SELECT sum(d) OVER (ORDER BY x, d) AS a, sum(d::INTEGER) OVER (ORDER BY x, d) AS b, max(s) OVER (PARTITION BY"
        " d::INTEGER) AS e, max(s) OVER (PARTITION BY d) AS f FROM c ORDER BY x, d",
        CASTS,
    ),
    Case(
        "keys that differ in casts",
        "SELECT d, d::INTEGER AS i, d::INTEGER + 1 AS j, count(*) AS n FROM c GROUP BY d, d::INTEGER ORDER BY"
        " d::INTEGER,"
        " d",
        CASTS,
    ),
    Case(
        "keys by position that differ in casts",
        "SELECT CAST(x AS DOUBLE) AS a, x AS b, CAST(x AS DECIMAL(9,1)) AS e, sum(x) AS s, sum(CAST(x AS DOUBLE)) AS t"
        " FROM c GROUP BY 1, 2, 3 HAVING CAST(x AS DOUBLE) > 1 ORDER BY 1",
        CASTS,
    ),
    Case(
        "sets of keys that differ in casts",
        "SELECT d, d::INTEGER AS i, count(*) AS n FROM c GROUP BY ROLLUP (d, d::INTEGER) ORDER BY ALL",
        CASTS,
    ),
    Case(
        "`grouping` of expressions",
        "SELECT d::INTEGER AS i, x + 1 AS j, grouping(d::INTEGER, x + 1) AS g, grouping(round(d)) AS h, count(*) AS n"
        " FROM c GROUP BY ROLLUP (d::INTEGER, x + 1, round(d))"
        " ORDER BY ALL",
        CASTS,
    ),
    Case(
        "views of aggregates that differ in casts",
        "SELECT * FROM v ORDER BY ALL",
        (
            *CASTS,
            "CREATE VIEW v AS SELECT sum(d), sum(d::INTEGER), d::INTEGER, d FROM c GROUP BY d, d::INTEGER",
        ),
    ),
    Case("a scalar subquery without rows", "SELECT (SELECT 1 WHERE false) AS n"),
    Case("a list's element by its table", "SELECT t.l[1] AS e FROM (SELECT [1, 2] AS l) t"),
    Case(
        "a recursive query",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 4) SELECT N FROM T ORDER BY 1",
    ),
    Case(
        "a recursive query that begins with VALUES",
        "WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n, typeof(n) AS t FROM r",
    ),
    Case(
        "a recursive query has the types of its first rows",
        "WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1.5 FROM r WHERE n < 3)"
        " SELECT n, typeof(n) AS t FROM r",
    ),
    Case(
        "a hierarchy over a list of rows",
        "WITH RECURSIVE t(id, parent, name) AS (SELECT * FROM (VALUES (1, NULL, 'a'), (2, 1, 'b'), (3, 2, 'c')) v),"
        " h AS (SELECT id, name, 0 AS depth FROM t WHERE parent IS NULL"
        " UNION ALL SELECT t.id, h.name || t.name, depth + 1 FROM t JOIN h ON t.parent = h.id) FROM h ORDER BY id",
    ),
    Case(
        "a recursive query that reads its rows twice",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION SELECT a.n + b.n FROM t a, t b WHERE a.n < 20) FROM t ORDER BY n",
    ),
    Case(
        "a recursive query whose rows replace those of their key",
        "WITH RECURSIVE t(k, v) USING KEY (k) AS (SELECT 1, 0 UNION SELECT k, v + 1 FROM t WHERE v < 5) TABLE t",
    ),
    Case(
        "bins of one width, and how many values are in each",
        "SELECT equi_width_bins(0, 50, 5, true) AS bins, (SELECT histogram(i, [10, 20]) FROM range(30) r(i)) AS h",
    ),
    Case(
        "states of aggregates, exported, kept and combined",
        "SELECT finalize(combine_aggr(s)) AS mean, finalize(combine(max(m), (SELECT max(9) EXPORT_STATE))) AS most"
        " FROM days",
        setup=(
            "CREATE TABLE days AS SELECT i % 3 AS day, avg(i::DOUBLE) EXPORT_STATE AS s,"
            " max(i::INTEGER) EXPORT_STATE AS m FROM range(30) r(i) GROUP BY day",
        ),
    ),
    Case(
        "a state is a struct, or a value, that casts show",
        "SELECT typeof(s) AS kind, s::VARCHAR AS parts"
        " FROM (SELECT avg(i::DOUBLE) EXPORT_STATE AS s FROM range(5) r(i))",
    ),
    Case(
        "`INTERSECT` of texts and numbers compares texts",
        "SELECT x FROM (VALUES ('1'), ('2')) t(x) INTERSECT SELECT y FROM (VALUES (1.00), (5)) u(y)",
    ),
    Case(
        "`EXCEPT` has the type that both sides have in common",
        "SELECT x, typeof(x) AS t FROM (SELECT 1::INTEGER AS x EXCEPT SELECT 2.5)",
    ),
    Case(
        "`INTERSECT` with a floating-point number",
        "SELECT x, typeof(x) AS t FROM (SELECT 16777217::INTEGER AS x INTERSECT SELECT 16777216::FLOAT)",
    ),
    Case(
        "`EXCEPT` of dates and moments",
        "SELECT DATE '2020-01-01' AS d EXCEPT SELECT TIMESTAMP '2020-01-01 00:00:00' UNION ALL"
        " (SELECT NULL::DATE INTERSECT SELECT NULL::TIMESTAMP)",
    ),
    Case(
        "`IN` of a subquery that names outer columns, of another type",
        "SELECT * FROM (SELECT 1::BIGINT AS k, 1::INTEGER AS i) a"
        " WHERE k IN (SELECT i FROM (SELECT 1::INTEGER AS i) b WHERE b.i = a.i)",
    ),
    Case(
        "`NOT IN` of a subquery that names outer columns, of another type",
        "SELECT k, k NOT IN (SELECT y FROM b WHERE b.i > a.i) AS n FROM (SELECT i, x::DOUBLE AS k FROM a) a ORDER BY k",
        _AB,
    ),
    Case(
        "parameters `?` of several types in `PREPARE`",
        "EXECUTE p(1, 'a')",
        setup=("PREPARE p AS SELECT ? + 1 AS n, ? || 'b' AS s",),
    ),
)
