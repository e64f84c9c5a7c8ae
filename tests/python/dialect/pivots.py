"""PIVOT, UNPIVOT, SUMMARIZE, and other forms of queries."""

from __future__ import annotations

from dialect.case import Case

TITLE = "Pivots, summaries and short forms"

S = (
    "CREATE TABLE s AS SELECT * FROM (VALUES ('n', 2023, 10), ('n', 2024, 20), ('s', 2023, 5), ('s', 2024, NULL), "
    "('n', 2023, 1), (NULL, NULL, 3), ('z', 9, 7)) v(region, year, amount)"
)
E = "CREATE TABLE e AS SELECT * FROM (VALUES ('n', 2023, 10)) v(region, year, amount) WHERE false"
#: Names that need quotes.
Q = 'CREATE TABLE q AS SELECT 1 AS "a b", \'it\'\'s\' AS "Kind", 2.5 AS "x""y"'
M = "CREATE TABLE m AS SELECT * FROM (VALUES (1, 10, 20, NULL), (2, NULL, NULL, 7), (3, 0, 1, 2)) v(id, jan, feb, mar)"
L = "CREATE VIEW l AS SELECT * FROM (VALUES ('a', [1, 2]), ('b', [3]), ('c', NULL), ('d', [])) v(k, l)"

CASES = (
    Case("PIVOT finds the values", "PIVOT s ON year USING sum(amount) ORDER BY region", setup=(S,)),
    Case("PIVOT with GROUP BY", "PIVOT s ON year USING sum(amount) GROUP BY region ORDER BY region", setup=(S,)),
    Case(
        "PIVOT on values that are listed",
        "PIVOT s ON year IN (2024, 2023, 1) USING sum(amount) AS t, count(*) AS n GROUP BY region ORDER BY region",
        setup=(S,),
    ),
    Case("PIVOT on NULL", "PIVOT s ON year IN (2023, NULL) USING count(*) GROUP BY region ORDER BY region", setup=(S,)),
    Case("values with names of their own", "PIVOT s ON year IN (2023 AS a, 9) USING max(amount)", setup=(S,)),
    Case("PIVOT without USING counts", "PIVOT s ON year ORDER BY ALL", setup=(S,)),
    Case("PIVOT on several columns", "PIVOT s ON region, year USING sum(amount)", setup=(S,)),
    Case("PIVOT on an expression", "PIVOT s ON region || '-' || year USING sum(amount)", setup=(S,)),
    Case("PIVOT of no rows", "PIVOT e ON year IN (2023) USING sum(amount)", setup=(E,)),
    Case("PIVOT of no rows into one", "PIVOT (SELECT year FROM e) ON year IN (2023) USING count(*)", setup=(E,)),
    Case("PIVOT of one row", "PIVOT (SELECT 1 AS x, 'a' AS k) ON k USING first(x)"),
    Case("PIVOT of names in quotes", 'PIVOT q ON "Kind" USING sum("x""y") GROUP BY "a b"', setup=(Q,)),
    Case(
        "PIVOT with FILTER",
        "PIVOT s ON year USING sum(amount) FILTER (WHERE amount > 1) ORDER BY region",
        setup=(S,),
        differs="refused: DuckDB reads over the condition",
    ),
    Case("PIVOT in FROM", 'SELECT region, "2023" FROM (PIVOT s ON year USING sum(amount)) ORDER BY region', setup=(S,)),
    Case("PIVOT in WITH", "WITH p AS (PIVOT s ON year USING sum(amount)) SELECT * FROM p ORDER BY region", setup=(S,)),
    Case(
        "PIVOT of a CTE",
        "WITH c AS (SELECT * FROM s WHERE year > 2000) PIVOT c ON year USING sum(amount) ORDER BY region",
        setup=(S,),
    ),
    Case(
        "CREATE TABLE AS PIVOT",
        "FROM p ORDER BY region",
        setup=(S, "CREATE TABLE p AS PIVOT s ON year USING sum(amount)"),
    ),
    Case(
        "PIVOT as SQL has it",
        "SELECT * FROM s PIVOT (sum(amount) FOR year IN (2023, 2024)) ORDER BY region",
        setup=(S,),
    ),
    Case(
        "PIVOT as SQL has it, of a query, with a name",
        'SELECT p.region, p."2023_t" FROM (FROM s WHERE amount > 1) PIVOT (sum(amount) AS t FOR year '
        "IN (2023)) AS p ORDER BY 1",
        setup=(S,),
    ),
    Case("PIVOT of all values in a view", "CREATE VIEW v AS PIVOT s ON year USING sum(amount)", setup=(S,)),
    Case(
        "PIVOT of listed values in a view",
        "FROM v ORDER BY region",
        setup=(S, "CREATE VIEW v AS PIVOT s ON year IN (2023) USING sum(amount)"),
    ),
    Case("PIVOT on a column that is not there", "PIVOT s ON nothing USING sum(amount)", setup=(S,)),
    Case("UNPIVOT", "UNPIVOT m ON jan, feb, mar ORDER BY ALL", setup=(M,)),
    Case("UNPIVOT with names", "UNPIVOT m ON jan, feb INTO NAME month VALUE n ORDER BY ALL", setup=(M,)),
    Case("UNPIVOT of chosen columns", "UNPIVOT m ON COLUMNS(* EXCLUDE (id, mar)) ORDER BY ALL", setup=(M,)),
    Case("UNPIVOT of all columns", "UNPIVOT m ON * ORDER BY ALL", setup=(M,)),
    Case(
        "UNPIVOT into several values",
        "UNPIVOT m ON (jan, feb) AS first, (feb, mar) AS then INTO NAME q VALUE a, b ORDER BY ALL",
        setup=(M,),
    ),
    Case(
        "UNPIVOT as SQL has it", "SELECT * FROM m UNPIVOT (n FOR month IN (jan, feb AS 'F')) ORDER BY ALL", setup=(M,)
    ),
    Case(
        "UNPIVOT INCLUDE NULLS",
        "SELECT * FROM m UNPIVOT INCLUDE NULLS (n FOR month IN (jan, feb)) AS u(a, b, c, d) ORDER BY ALL",
        setup=(M,),
    ),
    Case("UNPIVOT of no rows", "UNPIVOT (FROM m WHERE false) ON jan, feb", setup=(M,)),
    Case(
        "UNPIVOT of numbers of several types", "UNPIVOT (SELECT 1 AS a, 2.5 AS b, 3::DOUBLE AS c) ON a, b ORDER BY ALL"
    ),
    Case("UNPIVOT of a column that is not there", "UNPIVOT m ON jan, nothing", setup=(M,)),
    Case("SUMMARIZE", "SUMMARIZE s", setup=(S,)),
    Case("SUMMARIZE of no rows", "SUMMARIZE e", setup=(E,)),
    Case(
        "SUMMARIZE of a query", "SUMMARIZE SELECT DATE '2024-01-31' AS d, true AS b, 'x' AS \"a b\", NULL::DOUBLE AS f"
    ),
    Case("SUMMARIZE in FROM", "SELECT column_name, min, count FROM (SUMMARIZE s) ORDER BY 1", setup=(S,)),
    Case("DESCRIBE in FROM", "SELECT column_name, column_type FROM (DESCRIBE s) ORDER BY 1", setup=(S,)),
    Case("DESCRIBE of a query", "DESCRIBE SELECT region, amount::DOUBLE AS a FROM s", setup=(S,)),
    Case("a name before its expression", 'SELECT n: sum(amount), "a b": count(*) FROM s', setup=(S,)),
    Case("`IN` of a list", "SELECT k, 2 IN l AS a, 2 NOT IN l AS b FROM l ORDER BY k", setup=(L,)),
    Case("`IN` of a constant list", "SELECT k FROM l WHERE k IN ['a', 'd', NULL] ORDER BY k", setup=(L,)),
    Case("`* LIKE`", "SELECT * LIKE '%ar%' FROM m ORDER BY id", setup=(M,)),
    Case("`* ILIKE`, `* SIMILAR TO`", "SELECT * ILIKE 'J%', * SIMILAR TO 'f.*' FROM m ORDER BY id", setup=(M,)),
    Case(
        "COLUMNS of a function",
        "SELECT COLUMNS(lambda c: c LIKE '%a%' AND length(c) = 3) FROM m ORDER BY id",
        setup=(M,),
    ),
    Case("COLUMNS of no column", "SELECT COLUMNS(lambda c: c = 'nothing') FROM m", setup=(M,)),
    Case("a row as a value", "SELECT m FROM m ORDER BY m.id", setup=(M,)),
    Case("a row as a value, of no rows", "SELECT t FROM (FROM m WHERE false) t", setup=(M,)),
    Case("`unnest` of a column in FROM", "SELECT k, x FROM l, unnest(l.l) u(x) ORDER BY ALL", setup=(L,)),
    Case("`LEFT JOIN unnest`", "SELECT k, x FROM l LEFT JOIN unnest(l.l) u(x) ON true ORDER BY ALL", setup=(L,)),
    Case(
        "`unnest` of an outer column",
        "SELECT k, (SELECT sum(x) FROM unnest(l.l) u(x)) AS s FROM l ORDER BY k",
        setup=(L,),
    ),
    Case("all bits: `~`", "SELECT ~x AS a, ~5::UTINYINT AS b FROM (VALUES (1), (NULL), (-2147483648)) t(x)"),
    Case("`!` and `@`", "SELECT 5! AS a, x! AS b, @(-3) AS c FROM (VALUES (4), (0)) t(x)"),
    Case("the n greatest values", "SELECT max(x, 2) AS a, min(x, 5) AS b FROM (VALUES (1), (3), (NULL), (2)) t(x)"),
    Case("the n greatest values of no rows", "SELECT max(x, 2) AS a FROM (VALUES (1)) t(x) WHERE false"),
    Case(
        "`string_agg` in several orders",
        "SELECT string_agg(x, ',' ORDER BY x) AS a, string_agg(x, ';' ORDER BY x DESC) AS b, "
        "string_agg(DISTINCT x, '' ORDER BY x) AS c "
        "FROM (VALUES ('b'), ('a'), (NULL), ('b')) t(x)",
    ),
    Case(
        "`string_agg` without a separator",
        "SELECT string_agg(x ORDER BY x) AS a, string_agg(DISTINCT x ORDER BY x DESC) AS b, string_agg(upper(x)"
        " ORDER BY x DESC) FILTER (WHERE x > 'a') AS c FROM (VALUES ('b'), ('a'), (NULL), ('b')) t(x)",
    ),
    Case(
        "lambdas with positions",
        "SELECT list_transform(l, lambda x, i: x * 10 + i) AS a, list_filter(l, lambda x, i: i > 1) AS "
        "b FROM l ORDER BY k",
        setup=(L,),
    ),
    Case(
        "lambdas over groups",
        "SELECT list_transform(l, lambda n: n + 1) AS a, [n * 2 for n in l if n > 2] AS b,"
        " list_transform(l, lambda m: m + 1) AS c"
        " FROM (SELECT i, list(x ORDER BY x) AS l"
        " FROM (VALUES (CAST(1 AS BIGINT), CAST(2 AS BIGINT)), (1, 3), (2, 5)) t(i, x) GROUP BY i) q ORDER BY c[1]",
    ),
    Case(
        "a parameter of a lambda that is called as a column is",
        "SELECT list_transform(l, lambda column2: column2 + 1) AS a"
        " FROM (VALUES ([CAST(1 AS BIGINT), 2], CAST(100 AS BIGINT), 200)) t(l, b, c)",
    ),
    Case(
        "lambdas over INTEGER",
        "SELECT list_transform(l, lambda x: x + 1) AS a, list_transform([i, i], lambda x: x * i) AS b"
        " FROM (SELECT i, list(i) AS l FROM (VALUES (1), (2)) t(i) GROUP BY i) q ORDER BY i",
    ),
    Case(
        "`regexp_extract` of named groups",
        "SELECT regexp_extract(s, '(\\d+)-(\\d+)', ['y', 'm']) AS a FROM (VALUES ('1-2'), ('x'), (NULL)) t(s)",
    ),
    Case(
        "several parts of a date",
        "SELECT date_part(['year', 'month'], d) AS a FROM (VALUES (DATE '2024-02-29'), (NULL)) t(d)",
    ),
    Case(
        "JSON objects of groups",
        "SELECT json_group_object(k, x)::VARCHAR AS a FROM (VALUES ('p', 1), ('q', NULL)) t(k, x)",
    ),
    Case(
        "JSON objects of no rows",
        "SELECT json_group_object(k, x)::VARCHAR AS a FROM (VALUES ('p', 1)) t(k, x) WHERE false",
    ),
    Case(
        "moments in steps",
        "SELECT d FROM generate_series(TIMESTAMP '2024-01-31', TIMESTAMP '2024-05-01', INTERVAL 1 "
        "MONTH) g(d) ORDER BY d",
    ),
)
