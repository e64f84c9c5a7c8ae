"""Forms of queries."""

from __future__ import annotations

from dialect.everyday.everyday import Everyday

TITLE = "Queries"

_A = "CREATE TABLE a AS SELECT * FROM (VALUES (1, 'x', 10.5), (2, 'y', 20.0), (3, NULL, NULL), (2, 'z', 5.0)) v(id, name, price)"
_B = "CREATE TABLE b AS SELECT * FROM (VALUES (1, 'one'), (2, 'two'), (9, 'nine')) v(id, word)"
_AB = (_A, _B)
_SALES = (
    "CREATE TABLE sales AS SELECT * FROM (VALUES ('n', 2023, 10), ('n', 2024, 20), ('s', 2023, 5), ('s', 2024, NULL), ('n', 2023, 1)) v(region, year, amount)",
)

CASES = (
    Everyday("FROM a", setup=_AB),
    Everyday("FROM a SELECT name WHERE id > 1 ORDER BY name", setup=_AB),
    Everyday("SELECT * EXCLUDE (price) FROM a", setup=_AB),
    Everyday("SELECT * EXCLUDE price, id + 1 AS next FROM a", setup=_AB),
    Everyday("SELECT * REPLACE (price * 2 AS price) FROM a", setup=_AB),
    Everyday("SELECT * RENAME (name AS label) FROM a", setup=_AB),
    Everyday("SELECT a.* EXCLUDE (id), b.* FROM a JOIN b USING (id)", setup=_AB),
    Everyday("SELECT COLUMNS('i.*') FROM a", setup=_AB),
    Everyday("SELECT COLUMNS(*) FROM a", setup=_AB),
    Everyday("SELECT min(COLUMNS(*)), max(COLUMNS(* EXCLUDE name)) FROM a", setup=_AB),
    Everyday(
        "SELECT COLUMNS(lambda c: c LIKE '%e') FROM a",
        setup=_AB,
    ),
    Everyday("SELECT COLUMNS(['id', 'name']) FROM a", setup=_AB),
    Everyday("SELECT * LIKE 'n%' FROM a", setup=_AB),
    Everyday("SELECT * FROM a WHERE COLUMNS(['id', 'price']) > 1", setup=_AB),
    Everyday("SELECT name, count(*) FROM a GROUP BY ALL ORDER BY ALL", setup=_AB),
    Everyday("SELECT id, name FROM a ORDER BY ALL DESC", setup=_AB),
    Everyday("SELECT id FROM a ORDER BY price NULLS FIRST, id LIMIT 2 OFFSET 1", setup=_AB),
    Everyday("SELECT count(*) AS n FROM (SELECT * FROM a LIMIT 50%) q", setup=_AB),
    Everyday("SELECT DISTINCT ON (id) id, name FROM a ORDER BY id, name", setup=_AB),
    Everyday("SELECT id, count(*) FROM a GROUP BY id", setup=_AB),
    Everyday("SELECT count(*), sum(id), avg(price), min(price) FROM a", setup=_AB),
    Everyday("SELECT a.id, word FROM a LEFT JOIN b ON a.id = b.id ORDER BY ALL", setup=_AB),
    Everyday("SELECT * FROM a FULL OUTER JOIN b USING (id) ORDER BY ALL", setup=_AB),
    Everyday("SELECT * FROM a NATURAL JOIN b ORDER BY ALL", setup=_AB),
    Everyday("SELECT * FROM a CROSS JOIN b ORDER BY ALL", setup=_AB),
    Everyday("SELECT * FROM a SEMI JOIN b USING (id) ORDER BY ALL", setup=_AB),
    Everyday("SELECT * FROM a ANTI JOIN b USING (id) ORDER BY ALL", setup=_AB),
    Everyday(
        "SELECT * FROM (VALUES (1), (2)) x(p) POSITIONAL JOIN (VALUES ('a'), ('b'), ('c')) y(q)",
    ),
    Everyday(
        "SELECT * FROM (VALUES (1, 5), (2, 15)) l(k, t) ASOF JOIN (VALUES (3, 'p'), (10, 'q')) r(t, v) ON l.t >= r.t ORDER BY k",
    ),
    Everyday("SELECT a.id, q.word FROM a, LATERAL (SELECT word FROM b WHERE b.id = a.id) q ORDER BY ALL", setup=_AB),
    Everyday("SELECT id, (SELECT word FROM b WHERE b.id = a.id) AS w FROM a ORDER BY ALL", setup=_AB),
    Everyday(
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.id = a.id) AND id IN (SELECT id FROM b)", setup=_AB
    ),
    Everyday("SELECT id FROM a UNION SELECT id FROM b ORDER BY id", setup=_AB),
    Everyday("SELECT id FROM a EXCEPT SELECT id FROM b", setup=_AB),
    Everyday("SELECT id FROM a INTERSECT ALL SELECT id FROM b", setup=_AB),
    Everyday("SELECT id, name FROM a UNION ALL BY NAME SELECT id, word FROM b ORDER BY ALL", setup=_AB),
    Everyday("SELECT id, name FROM a UNION BY NAME SELECT word, id FROM b ORDER BY ALL", setup=_AB),
    Everyday(
        "WITH q AS (SELECT id FROM a), r AS MATERIALIZED (SELECT * FROM q WHERE id > 1) SELECT count(*) AS n FROM r",
        setup=_AB,
    ),
    Everyday(
        "WITH RECURSIVE t(n, f) AS (SELECT 1, 1 UNION ALL SELECT n + 1, f * (n + 1) FROM t WHERE n < 5) SELECT * FROM t ORDER BY n"
    ),
    Everyday("WITH RECURSIVE t(n) AS (SELECT 1 UNION SELECT (n * 2) % 7 FROM t) SELECT * FROM t ORDER BY n"),
    Everyday("VALUES (1, 'a'), (2, 'b')"),
    Everyday("SELECT * FROM (VALUES (1, 'a'), (2, 'b'))"),
    Everyday("SELECT * FROM range(3)"),
    Everyday("SELECT i, i * i AS sq FROM range(1, 6, 2) t(i)"),
    Everyday("SELECT * FROM generate_series(1, 3) g(i)"),
    Everyday(
        "PIVOT sales ON year USING sum(amount) GROUP BY region ORDER BY region",
        setup=_SALES,
    ),
    Everyday("PIVOT sales ON year USING sum(amount)", setup=_SALES),
    Everyday(
        "PIVOT sales ON year IN (2023, 2024) USING sum(amount) AS s, count(*) AS n GROUP BY region ORDER BY region",
        setup=_SALES,
    ),
    Everyday(
        "SELECT * FROM sales PIVOT (sum(amount) FOR year IN (2023, 2024)) ORDER BY region",
        setup=_SALES,
    ),
    Everyday(
        "UNPIVOT (SELECT 1 AS id, 10 AS jan, 20 AS feb) ON jan, feb INTO NAME month VALUE amount",
    ),
    Everyday(
        "SELECT * FROM (SELECT 1 AS id, 10 AS jan, NULL::INTEGER AS feb) UNPIVOT (amount FOR month IN (jan, feb))",
    ),
    Everyday(
        "UNPIVOT (SELECT 1 AS id, 10 AS jan, 20 AS feb) ON COLUMNS(* EXCLUDE id)",
    ),
    Everyday("SUMMARIZE a", setup=_AB),
    Everyday("DESCRIBE a", setup=_AB),
    Everyday(
        "DESCRIBE SELECT id, price * 2 AS p FROM a",
        setup=_AB,
    ),
    Everyday("SELECT price AS p, p * 2 AS q FROM a WHERE p > 5 ORDER BY q", setup=_AB),
    Everyday("SELECT id % 2 AS odd, sum(price) AS s FROM a GROUP BY odd HAVING s > 1 ORDER BY odd", setup=_AB),
    Everyday("SELECT a.id.foo FROM (SELECT {'foo': 5} AS id) a"),
    Everyday("SELECT name: 'x', n: 1 + 1"),
    Everyday(
        "SELECT TRY_CAST('x' AS INTEGER) AS a, '5'::INTEGER AS b, CAST('1.5' AS DOUBLE) AS c, try_cast('2024-01-01' AS DATE) AS d"
    ),
    Everyday("SELECT count(*) AS n FROM a USING SAMPLE 100%", setup=_AB),
    Everyday("SELECT id, price, FROM a ORDER BY id, price,", setup=_AB),
    Everyday("SELECT * FROM a WHERE name = 'x' OR name IS NULL ORDER BY id", setup=_AB),
    Everyday("SELECT a FROM (SELECT 1 AS x, 2 AS y) a"),
    Everyday(
        "SELECT x.a, y FROM (SELECT [1, 2] AS a) x, unnest(x.a) t(y)",
    ),
    Everyday("FROM (FROM a SELECT id, name) SELECT count(*)", setup=_AB),
    Everyday("(SELECT 1 AS x) UNION ALL (SELECT 2) ORDER BY x DESC LIMIT 1"),
)
