"""The way names of tables and columns are found."""

from __future__ import annotations

from dialect.case import Case

TITLE = "Names"

_SALES = 'CREATE TABLE sales AS SELECT * FROM (VALUES (1, 10, 2), (2, 20, 1), (3, NULL, 3)) v("Amount", "Rate", k)'
_PARTS = "CREATE TABLE parts AS SELECT * FROM (VALUES (1, 'x'), (3, 'y'), (4, 'z')) v(k, name)"

CASES = (
    Case(
        "names match in any case of letters",
        "SELECT amount, AMOUNT AS b FROM sales ORDER BY amount",
        setup=('CREATE TABLE sales AS SELECT 1 AS "Amount" UNION ALL SELECT 2',),
    ),
    Case("so do names in quotes", 'SELECT "amount", "SALES"."aMOUNT", Sales.rate FROM sales ORDER BY 1', (_SALES,)),
    Case("results are called as the table's columns are", "SELECT AMOUNT, sales.rate FROM sales ORDER BY 1", (_SALES,)),
    Case("aliases keep their letters", "SELECT foo, FOO + 1 AS Bar FROM (SELECT 1 AS Foo) t"),
    Case("common table expressions match in any case", 'WITH Big AS (SELECT 1 AS A) SELECT a FROM "big"'),
    Case("two columns that differ in case: the later one gets a number", "SELECT * FROM (SELECT 1 AS a, 2 AS A) t"),
    Case("a name of two tables' columns needs its table", "SELECT k FROM sales, parts", (_SALES, _PARTS)),
    Case("a table named twice needs an alias", "SELECT 1 FROM sales, sales", (_SALES,)),
    Case("names of queries inside hide those around", "SELECT (SELECT max(k) FROM parts) FROM sales", (_SALES, _PARTS)),
    Case(
        "INSERT names columns in any case",
        "SELECT * FROM sales ORDER BY k",
        (_SALES, "INSERT INTO sales (K, amount, RATE) VALUES (9, 8, 7)"),
    ),
    Case("aliases are known in ORDER BY", "SELECT x + 1 AS y FROM (VALUES (2), (1)) t(x) ORDER BY y"),
    Case("ORDER BY a name alone: the alias", "SELECT -k AS k FROM sales ORDER BY k", (_SALES,)),
    Case("ORDER BY a name in an expression: the column", "SELECT -k AS k FROM sales ORDER BY k + 0", (_SALES,)),
    Case("aliases are known in WHERE", "SELECT k * 2 AS twice FROM sales WHERE twice > 2 ORDER BY 1", (_SALES,)),
    Case("a column hides an alias in WHERE", "SELECT amount AS k FROM sales WHERE k = 1", (_SALES,)),
    Case(
        "aliases are known in GROUP BY",
        "SELECT k % 2 AS odd, count(*) AS n FROM sales GROUP BY odd ORDER BY 1",
        (_SALES,),
    ),
    Case("a column hides an alias in GROUP BY", "SELECT amount AS k FROM sales GROUP BY k", (_SALES,)),
    Case(
        "aliases are known in HAVING", "SELECT k, sum(rate) AS rate FROM sales GROUP BY k HAVING rate > 10", (_SALES,)
    ),
    Case(
        "aliases are known in QUALIFY",
        "SELECT k, rank() OVER (ORDER BY k) AS r FROM sales QUALIFY r < 3 ORDER BY k",
        (_SALES,),
    ),
    Case("aliases are known to later items", "SELECT k + 1 AS q, q * 10 AS p FROM sales ORDER BY 1", (_SALES,)),
    Case("an alias that is an aggregate's argument", "SELECT sum(amount) AS amount FROM sales", (_SALES,)),
    Case(
        "an alias that is a column of another table",
        "SELECT s.k AS name, p.name AS k FROM sales s JOIN parts p USING (k) ORDER BY 1",
        (_SALES, _PARTS),
    ),
    Case("columns may have one name", "SELECT 1, 1"),
    Case("a column may be selected twice", "SELECT k, k, sum(k), sum(k) FROM sales GROUP BY k ORDER BY 1", (_SALES,)),
    Case(
        "tables may not: later columns get numbers",
        "SELECT * FROM t",
        ("CREATE TABLE t AS SELECT 1 AS i, 2 AS i, 3 AS i_1",),
    ),
    Case("nor may subqueries", "SELECT i, i_1 FROM (SELECT 1 AS i, 2 AS i) t"),
    Case("nor may views", "SELECT i_1 FROM v", ("CREATE VIEW v AS SELECT 1 AS i, 2 AS i",)),
    Case(
        "a column without an alias is called as its expression is",
        'SELECT "sum(k)", "(k + 1)" FROM (SELECT sum(k), k + 1 FROM sales GROUP BY k) t ORDER BY 1',
        (_SALES,),
    ),
    Case("`count(*)` is called `count_star()`", 'SELECT "count_star()" FROM (SELECT count(*) FROM sales) t', (_SALES,)),
    Case("VALUES: `col0`, `col1`", "SELECT col1, col0 FROM (VALUES (1, 'a')) ORDER BY ALL"),
    Case("an alias of fewer columns than there are", "SELECT * FROM (VALUES (1, 2)) v(a)"),
    Case("`range`'s column is called as the table is", "SELECT g FROM range(2) AS g ORDER BY g"),
    Case("`* EXCLUDE`", "SELECT * EXCLUDE (RATE) FROM sales ORDER BY 1", (_SALES,)),
    Case("`* REPLACE`", "SELECT * REPLACE (amount + 1 AS AMOUNT) FROM sales ORDER BY 1", (_SALES,)),
    Case("`* RENAME`", "SELECT * RENAME (amount AS cost) FROM sales ORDER BY 1", (_SALES,)),
    Case("`t.*` of one table", "SELECT p.*, s.k FROM sales s JOIN parts p ON s.k = p.k ORDER BY 1", (_SALES, _PARTS)),
)
