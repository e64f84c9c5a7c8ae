"""Literals, operators and functions of numbers."""

from __future__ import annotations

from dialect.case import Case

TITLE = "Numbers"

#: A value of each kind of number, and NULL.
NUMBERS = (
    "CREATE TABLE n AS SELECT * FROM (VALUES (CAST(7 AS TINYINT), CAST(1000 AS INTEGER), CAST(-9 AS BIGINT),"
    " CAST(1.25 AS DECIMAL(9,2)), CAST(2.5 AS DOUBLE), CAST(0.5 AS FLOAT)), (NULL, NULL, NULL, NULL, NULL, NULL),"
    " (CAST(-128 AS TINYINT), CAST(2147483647 AS INTEGER), 9223372036854775807, -1.75, 1e300, -2.5))"
    " t(t, i, b, d, f, r)",
)
FEW = (
    "CREATE TABLE few AS SELECT CAST(x AS DECIMAL(9,2)) AS d, CAST(x AS INTEGER) AS i, CAST(x AS DOUBLE) AS f,"
    " CAST(x AS"
    " FLOAT) AS r FROM (VALUES (1.0), (2.0), (2.0), (NULL)) t(x)",
)
WIDE = (
    "CREATE TABLE wide AS SELECT CAST(x AS DECIMAL(38,0)) AS d FROM (VALUES"
    " ('99999999999999999999999999999999999999'), ('1')) t(x)",
)

CASES = (
    Case("`/` of integers is a DOUBLE", "SELECT 7 / 2 AS q, 1 / 3 AS r"),
    Case("`/` of decimals is a DOUBLE", "SELECT (1.0 / 3) * 1000000 AS a, 7 * 1.0 / 10000000 AS b, 1.5 / 0.5 AS c"),
    Case("`/` by zero follows floating-point numbers", "SELECT 1 / 0 AS a, -1 / 0 AS b, 0 / 0 AS c, 1.5 / 0 AS d"),
    Case(
        "square roots of negative numbers",
        "SELECT sqrt(x) AS a FROM (VALUES (CAST(-1 AS DOUBLE))) t(x)",
        differs="an error, as of `ln`: DuckDB 2.0 gives NaN",
    ),
    Case("`//` of integers cuts off", "SELECT 7 // 2 AS q, -7 // 2 AS r"),
    Case("`//` by zero is an error", "SELECT i // 0 FROM n", NUMBERS),
    Case("`//` of others than integers is a quotient", "SELECT 7.5 // 2 AS a, CAST(-7.5 AS DOUBLE) // 2 AS b"),
    Case(
        "`||`, `&`, `|`, `<<` and `>>` bind less than arithmetic, and all alike",
        "SELECT 'a' || 1 + 2 AS a, 1 + 2 || 3 * 4 AS b, 5 | 2 & 1 AS c, 1 << 1 + 1 AS d, ~1 + 1 AS e",
    ),
    Case("`%` has the sign of the dividend", "SELECT -7 % 3 AS a, 7 % (0 - 3) AS b, 7.5 % 2 AS c, (0 - 7.5) % 2 AS d"),
    Case("`%` by zero is an error", "SELECT i % 0 FROM n", NUMBERS),
    Case("`%` of floats by zero is NaN", "SELECT f % 0 AS x FROM n WHERE f = 2.5", NUMBERS),
    Case("numbers with an exponent are DOUBLE", "SELECT 1e3 AS a, 15 * 1e-1 AS b, 12 / 1e6 AS c"),
    Case("numbers beyond DOUBLE are infinite", "SELECT 1.5e400 AS a, 1e-400 AS b, -1e400 AS c"),
    Case(
        "numbers of more than 38 digits with a point are DOUBLE", "SELECT 12345678901234567890123456789012345678.5 AS x"
    ),
    Case(
        "whole constants of a list are INTEGER or BIGINT",
        "SELECT typeof(a) AS a, typeof(b) AS b, typeof(c) AS c, typeof(d) AS d, typeof(e) AS e, typeof(f) AS f,"
        " typeof(a + 1)"
        " AS g FROM (VALUES (1, 1, CAST(1 AS TINYINT), CAST(1 AS TINYINT), 1.5, CAST(1 AS BIGINT)), (-2,"
        " 3000000000, NULL,"
        " 300, 2, 2), (NULL, NULL, 2, NULL, NULL, 3)) t(a, b, c, d, e, f)",
    ),
    Case("INTEGER overflows, of a list, too", "SELECT x + 1 FROM (VALUES (2147483647)) t(x)"),
    Case(
        "casts in a list",
        "SELECT x, y, z FROM (VALUES (CAST(1e0 AS DECIMAL(5,2)), CAST(2e0 AS DECIMAL(25,2)), CAST('7' AS TINYINT)),"
        " (CAST(2 AS DECIMAL(5,2)), 3, (CAST(2.5 AS TINYINT)))) t(x, y, z)",
    ),
    Case(
        "constants take the type of the integers beside them",
        "SELECT typeof(coalesce(t, 1)) AS a, typeof(CASE WHEN t > 1 THEN 1000 ELSE t END) AS b,"
        " typeof(greatest(i, 1)) AS c,"
        " typeof(coalesce(d, 1)) AS d, coalesce(t, 100) AS e, coalesce(i, 1000) AS f FROM n",
        NUMBERS,
    ),
    Case("underscores between digits", "SELECT 1_000_000 AS a, 1_000.5 AS b, 'a_1_0' AS c, 1_0 + 1 AS d"),
    Case("whole numbers beyond BIGINT", "SELECT 9223372036854775808 AS a, -9223372036854775808 AS b"),
    Case("points without digits on a side", "SELECT 1. AS a, .5 AS b"),
    Case(
        "casts of decimals to integers round half away from zero",
        "SELECT CAST(2.5 AS INTEGER) AS a, CAST(-2.5 AS INTEGER) AS b",
    ),
    Case(
        "casts of floats to integers round half to even",
        "SELECT CAST(CAST(x AS DOUBLE) AS INTEGER) AS y, CAST(CAST(x AS FLOAT) AS BIGINT) AS z FROM (VALUES (0.5),"
        " (1.5),"
        " (2.5), (-0.5), (-1.5), (2.4), (-2.6), (NULL)) t(x)",
    ),
    Case("floats out of range do not become integers", "SELECT CAST(f AS BIGINT) FROM n", NUMBERS),
    Case("NaN does not become an integer", "SELECT CAST(CAST('nan' AS DOUBLE) AS INTEGER)"),
    Case("integer overflow is an error", "SELECT x + 1 AS y FROM (SELECT 9223372036854775807 AS x) t"),
    Case("overflow of constants is an error", "SELECT 9223372036854775807 + 1"),
    Case("overflow of columns is an error", "SELECT b + 1 FROM n", NUMBERS),
    Case("overflow of products is an error", "SELECT b * b FROM n", NUMBERS),
    Case("overflow of differences is an error", "SELECT -2 - b FROM n", NUMBERS),
    Case(
        "sums of decimals that leave 128 bits are an error",
        "SELECT CAST('-99999999999999999999999999999999999999' AS DECIMAL(38,0))"
        " + CAST('-70141183460469231731687303715884105729' AS DECIMAL(38,0)) AS x",
    ),
    Case("overflow of INTEGER is an error", "SELECT i + 1 FROM n", NUMBERS),
    Case("overflow of TINYINT is an error", "SELECT t - 1 FROM n", NUMBERS),
    Case("negation of the least integer is an error", "SELECT -t FROM n", NUMBERS),
    Case("the absolute value of the least integer is an error", "SELECT abs(t) FROM n", NUMBERS),
    Case(
        "what is not computed does not overflow", "SELECT CASE WHEN b > 100 THEN 0 ELSE b + 1 END AS x FROM n", NUMBERS
    ),
    Case(
        "constants take the type of the integer they are computed with",
        "SELECT t + 1 AS a, i * 2 AS b, 1 - b AS c FROM n WHERE t = 7",
        NUMBERS,
    ),
    Case(
        "constants alone are BIGINT",
        "SELECT 2147483647 + 1 AS x",
        differs="a constant is a BIGINT: INTEGER arithmetic of constants does not overflow",
    ),
    Case(
        "sums and products of decimals are exact", "SELECT 0.1 + 0.2 AS a, 0.1 * 3 AS b, 1.10 + 2.2 AS c, 5 - 0.05 AS d"
    ),
    Case("decimals and integers", "SELECT d + i AS a, d * t AS b, d - 1 AS c, 2 * d AS e FROM n WHERE t = 7", NUMBERS),
    Case(
        "products of decimals stay in 64 bits where both are",
        "SELECT d * d * d * d * d * d AS x FROM n WHERE t = 7",
        NUMBERS,
    ),
    Case(
        "products of decimals beyond 18 digits are an error",
        "SELECT CAST(999999999 AS DECIMAL(10,0)) * CAST(9999999999 AS DECIMAL(10,0)) * 10 AS x",
    ),
    Case("products of more than 38 digits are an error", "SELECT d * 10 FROM wide", WIDE),
    Case("sums of more than 38 digits are an error", "SELECT d + 1 FROM wide", WIDE),
    Case(
        "scales beyond 38 are an error",
        "SELECT CAST(1 AS DECIMAL(38,20)) * CAST(1 AS DECIMAL(38,20))",
    ),
    Case(
        "FLOAT wins over decimals, DOUBLE over FLOAT",
        "SELECT r + 1.5 AS a, r * 2 AS b, f + 0.1 AS c, r + f AS d FROM n WHERE t = 7",
        NUMBERS,
    ),
    Case("floats overflow to infinity", "SELECT f * 1e300 AS a, 0 - f * 1e300 AS b FROM n", NUMBERS),
    Case(
        "DOUBLE beside decimals stays DOUBLE",
        "SELECT coalesce(f, 0.0) AS a, nullif(f, 2.5) AS b, greatest(f, 0.5) AS c, least(f, 0.5) AS d, CASE WHEN f >"
        " 0.5 THEN"
        " f ELSE 0.0 END AS e FROM n",
        NUMBERS,
    ),
    Case(
        "DOUBLE is compared as DOUBLE",
        "SELECT f FROM n WHERE f > 0.5 AND f <> 0.0 AND f BETWEEN 0.1 AND 1e301",
        NUMBERS,
    ),
    Case(
        "DOUBLE without decimals' limits",
        "SELECT x > 0.5 AS a, x <> 0.0 AS b, x IN (0.0, 1e-16) AS c FROM (VALUES (1e-16), (1e15), (1e200),"
        " (CAST('nan' AS"
        " DOUBLE)), (CAST('inf' AS DOUBLE)), (CAST('-inf' AS DOUBLE))) t(x)",
    ),
    Case(
        "FLOAT is compared with decimals as FLOAT",
        "SELECT CAST(1.1 AS FLOAT) = 1.1 AS a, CAST(1.1 AS FLOAT) = CAST(1.1 AS DOUBLE) AS b",
    ),
    Case(
        "texts and numbers in UNION",
        "SELECT 'a' AS x, 1.50 AS y UNION ALL SELECT 1e20, 'b' UNION ALL SELECT NULL, '2' ORDER BY 1, 2",
    ),
    Case("decimals and DOUBLE in UNION", "SELECT 1.5 AS x, 1 AS y UNION ALL SELECT CAST(2.5 AS DOUBLE), 3.25"),
    Case(
        "decimals in CASE and coalesce",
        "SELECT coalesce(i, 1.5) AS a, CASE WHEN t > 0 THEN 1 ELSE 2.5 END AS b FROM n",
        NUMBERS,
    ),
    Case(
        "nullif has the type of its first value", "SELECT nullif(1, 1.5) AS a, nullif(1.5, 1) AS b, nullif(2, 2.0) AS c"
    ),
    Case("averages of decimals are DOUBLE", "SELECT avg(d) AS a, avg(i) AS b, avg(f) AS c FROM few", FEW),
    Case("averages in windows", "SELECT avg(d) OVER () AS a, sum(i) OVER (ORDER BY i) AS b FROM few", FEW),
    Case(
        "sums of integers are HUGEINT",
        "SELECT sum(i) AS s, sum(i) + 1 AS t, sum(i) // 2 AS u, sum(i) / 2 AS v, sum(i) % 2 AS w FROM few",
        FEW,
    ),
    Case(
        "sums of integers leave BIGINT",
        "SELECT sum(x) AS s FROM (VALUES (9223372036854775807), (9223372036854775807), (1)) t(x)",
    ),
    Case("sums of truth values count", "SELECT sum(i = 2) AS n FROM few", FEW),
    Case("sums of decimals", "SELECT sum(d) AS s, sum(d * 2) AS t FROM few", FEW),
    Case("sums of FLOAT are DOUBLE", "SELECT sum(r) AS s, avg(r) AS a FROM few", FEW),
    Case("sums of more than 38 digits, of columns", "SELECT sum(d) FROM wide", WIDE),
    Case("sums of more than 38 digits, of different values", "SELECT sum(DISTINCT d) FROM wide", WIDE),
    Case(
        "sums of more than 38 digits, of different values of two columns",
        "SELECT sum(DISTINCT d), sum(DISTINCT d - 1) FROM wide",
        WIDE,
    ),
    Case(
        "sums leave 128 bits on their way",
        "SELECT sum(x) AS s FROM (VALUES (CAST('99999999999999999999999999999999999999' AS DECIMAL(38,0))),"
        " (CAST('99999999999999999999999999999999999998' AS DECIMAL(38,0))),"
        " (CAST('-99999999999999999999999999999999999998' AS DECIMAL(38,0)))) t(x)",
        differs="the sum, which is exact whatever the order of the rows: DuckDB fails where it meets the large ones"
        " first",
    ),
    Case(
        "averages of more than 38 digits",
        "SELECT avg(d) AS a, avg(DISTINCT d) AS b FROM (SELECT d FROM wide UNION ALL SELECT d - 1 FROM wide) t",
        WIDE,
        differs="the average, which has no such limit: DuckDB fails when the sum leaves 128 bits",
    ),
    Case("sums of more than 38 digits, in windows", "SELECT sum(d) OVER () FROM wide", WIDE),
    Case("quotients of sums are DOUBLE", "SELECT 100.00 * sum(d) / sum(i) AS q, sum(i) / 1e6 AS r FROM few", FEW),
    Case(
        "`ceil`, `floor`, `round` and `trunc` of decimals",
        "SELECT ceil(9.9) AS a, floor(-9.9) AS b, round(2.5) AS c, round(-2.5) AS d, trunc(9.9) AS e, trunc(-9.99)"
        " AS f,"
        " round(2.345, 2) AS g, trunc(9.99, 1) AS h, round(155.4, -1) AS i, round(99.99, 1) AS j",
    ),
    Case(
        "and of columns",
        "SELECT ceil(d) AS a, floor(d) AS b, round(d) AS c, trunc(d) AS e, round(d, 1) AS g FROM n",
        NUMBERS,
    ),
    Case(
        "`ceil` of the widest decimals",
        "SELECT ceil(d) AS a, floor(d) AS b, ceil(9999999999999999999999999999999999999.9) AS c FROM wide",
        WIDE,
    ),
    Case(
        "`round` of integers",
        "SELECT round(15) AS a, round(15, -1) AS b, round(25, -1) AS c, ceil(15) AS d, trunc(15) AS e",
    ),
    Case(
        "`round` of floats",
        "SELECT round(2.5e0) AS a, round(-2.5e0) AS b, round(2.676e0, 2) AS c, round(1e300, 2) AS d,"
        " round(1234.5678e0, 2) AS e",
    ),
    Case(
        "`round` of floats that lie just below a half",
        "SELECT round(2.675e0, 2) AS a",
        differs="2.68: the number times 100 is rounded. DuckDB 2.0.1 looks at all digits of the number, and gives 2.67",
        since="2.0.1",
    ),
    Case(
        "functions of numbers are DOUBLE",
        "SELECT sqrt(2) AS a, power(2, 3) AS b, ln(10) AS c, log10(100) AS d, exp(1) AS e, 2 * pi() AS f",
    ),
    Case(
        "the least integer modulo -1 is 0",
        "SELECT a % -1 AS a, b % CAST(-1 AS TINYINT) AS b, c % d AS c, a % CAST(-1 AS HUGEINT) AS d, a % d AS e"
        " FROM (VALUES (CAST('-9223372036854775808' AS BIGINT), CAST(-128 AS TINYINT), CAST(-2147483648 AS INTEGER),"
        " CAST(-1 AS INTEGER)), (5, 5, 5, -1), (NULL, NULL, NULL, -1)) t(a, b, c, d)",
        since="2.0.1",
    ),
    Case(
        "the least integer `//` -1 is an error",
        "SELECT a // -1 FROM (VALUES (CAST('-9223372036854775808' AS BIGINT))) t(a)",
    ),
    Case("a 0 and letters: a number and its name", "SELECT 0x1F"),
    Case("hexadecimal numbers are none", "SELECT 0x1F AS x"),
    Case("hexadecimal bytes", "SELECT X'1F' AS x"),
    Case(
        "shifts",
        "SELECT x << 3 AS a, x >> 1 AS b, x >> 64 AS c, 0 << 64 AS d FROM (VALUES (CAST(5 AS BIGINT)), (NULL)) t(x)",
    ),
    Case("shifts that lose bits are errors", "SELECT x << 64 AS a FROM (VALUES (CAST(1 AS BIGINT))) t(x)"),
    Case("shifts of and by negative numbers are errors", "SELECT x << 1 AS a FROM (VALUES (CAST(-1 AS BIGINT))) t(x)"),
    Case(
        "shapes of equal numbers",
        "SELECT skewness(2.4999) AS a FROM range(3)",
    ),
    Case(
        "moving sums of floats",
        "SELECT sum(x) OVER (ORDER BY x DESC ROWS 1 PRECEDING) AS a FROM (VALUES (1e17), (2e0), (1e0)) t(x) ORDER BY x",
    ),
    Case(
        "moving sums of floats beside windows of different values",
        "SELECT sum(x) OVER w AS a, sum(DISTINCT x) OVER (ORDER BY x DESC) AS b FROM (VALUES (1e17), (2e0), (1e0)) t(x)"
        " WINDOW w AS (ORDER BY x DESC ROWS 1 PRECEDING) ORDER BY x",
    ),
)
