"""Arithmetic and functions of numbers."""

from __future__ import annotations

from dialect.everyday.everyday import Everyday

TITLE = "Numbers"

CASES = (
    Everyday("SELECT 7 // 2 AS a, -7 // 2 AS b, 7 / 2 AS c, 7 % 3 AS d"),
    Everyday("SELECT 2 ** 10 AS a, 2 ^ 3 AS b, pow(2, 0.5) AS c, power(2, -1) AS d"),
    Everyday("SELECT mod(7, 3) AS a, fmod(7.5, 2) AS b, mod(-7, 3) AS c"),
    Everyday(
        "SELECT abs(-5) AS a, abs(-5.5) AS b, @(-3) AS c, sign(-2.5) AS d, sign(0) AS e",
    ),
    Everyday("SELECT ceil(1.2) AS a, ceiling(-1.2) AS b, floor(1.8) AS c, trunc(-1.8) AS d, even(2.9) AS e"),
    Everyday(
        "SELECT round(1234.567, 1) AS a, round(1234.567, -2) AS b, round(2.5) AS c, round_even(2.5, 0) AS d",
    ),
    Everyday(
        "SELECT sqrt(2) AS a, cbrt(27) AS b, exp(1) AS c, ln(2.718281828) AS d, log(100) AS e, log2(8) AS f, log10(1000) AS g"
    ),
    Everyday("SELECT log(2, 8) AS a, log(10, 1000) AS b"),
    Everyday(
        "SELECT sin(1) AS a, cos(1) AS b, tan(1) AS c, asin(0.5) AS d, acos(0.5) AS e, atan(1) AS f, atan2(1, 2) AS g, cot(1) AS h"
    ),
    Everyday("SELECT sinh(1) AS a, cosh(1) AS b, tanh(1) AS c, asinh(1) AS d, acosh(2) AS e, atanh(0.5) AS f"),
    Everyday("SELECT degrees(pi()) AS a, radians(180) AS b, pi() AS c"),
    Everyday(
        "SELECT factorial(5) AS a, 5! AS b, gcd(42, 57) AS c, lcm(4, 6) AS d, gamma(5) AS e, lgamma(5) AS f",
    ),
    Everyday("SELECT greatest(1, 5, 3) AS a, least(1, NULL, 3) AS b, greatest('a', 'b') AS c"),
    Everyday(
        "SELECT isnan('nan'::DOUBLE) AS a, isinf('inf'::DOUBLE) AS b, isfinite(1.0::DOUBLE) AS c, isnan(NULL::DOUBLE) AS d"
    ),
    Everyday(
        "SELECT bit_count(255) AS a, xor(5, 3) AS b, 5 & 3 AS c, 5 | 3 AS d, ~5 AS e, 1 << 4 AS f, 16 >> 2 AS g",
    ),
    Everyday("SELECT add(1, 2) AS a, subtract(5, 3) AS b, multiply(2, 3) AS c, divide(7, 2) AS d"),
    Everyday("SELECT nextafter(1::DOUBLE, 2::DOUBLE) AS a, signbit(-1.0::DOUBLE) AS b"),
    Everyday(
        "SELECT random() BETWEEN 0 AND 1 AS r, setseed(0.5) IS NULL AS s",
        state="refused",
        why="Invalid function 'setseed'.",
    ),
    Everyday(
        "SELECT 170141183460469231731687303715884105727::HUGEINT AS a, (1::HUGEINT + 5) AS b",
        state="refused",
        why="a number of more than 38 digits",
    ),
    Everyday("SELECT 18446744073709551615::UBIGINT AS a, 255::UTINYINT AS b, 1::USMALLINT AS c, 1::SMALLINT AS d"),
    Everyday("SELECT 1.5::DECIMAL(10, 3) AS a, '2.50'::NUMERIC(5, 1) AS b, 1e3 AS c, 0.1 + 0.2 AS d"),
    Everyday(
        "SELECT if(1 > 2, 'a', 'b') AS a, if(NULL, 1, 2) AS b, ifnull(NULL, 3) AS c, nullif(1, 1) AS d, coalesce(NULL, NULL, 4) AS e"
    ),
    Everyday(
        "SELECT CASE WHEN x > 1 THEN 'big' WHEN x = 1 THEN 'one' ELSE 'small' END AS s FROM (VALUES (0), (1), (2), (NULL)) t(x)"
    ),
    Everyday(
        "SELECT typeof(1) AS a, typeof(1.5) AS b, typeof('x') AS c, typeof(DATE '2020-01-01') AS d, typeof([1]) AS e, typeof(now()) AS f",
        state="differs",
        why="a whole constant is a BIGINT",
    ),
    Everyday("SELECT bin(10) AS a, hex(255) AS b, to_base(10, 2) AS c"),
    Everyday("SELECT 5 BETWEEN 1 AND 10 AS a, 5 IN (1, 5) AS b, 5 NOT IN (1, NULL) AS c, 5 IS DISTINCT FROM NULL AS d"),
    Everyday("SELECT x % 2 = 0 AS even, x // 3 AS third FROM range(5) t(x) ORDER BY x"),
)
