"""Aggregates, groups and windows."""

from __future__ import annotations

from dialect.everyday.everyday import Everyday

TITLE = "Aggregates and windows"

_T = (
    "CREATE TABLE t AS SELECT * FROM (VALUES ('a', 1, 1.5, 2.0::DOUBLE, true), ('a', 2, NULL, 4.5, false),"
    " ('b', 3, -2.5, -1.0, NULL), ('b', NULL, 0.0, 3.5, true), ('c', NULL, NULL, NULL, NULL), ('a', 2, 7.25, 9.0, true)) v(g, i, d, f, b)",
)

CASES = (
    Everyday(
        "SELECT g, count(*) AS a, count(i) AS b, count(DISTINCT i) AS c, count() AS d FROM t GROUP BY g", setup=_T
    ),
    Everyday(
        "SELECT g, sum(i) AS a, avg(d) AS b, min(f) AS c, max(b) AS d, mean(f) AS e FROM t GROUP BY ALL ORDER BY ALL",
        setup=_T,
    ),
    Everyday("SELECT median(i) AS a, median(f) AS b, median(d) AS c, g FROM t GROUP BY g", setup=_T),
    Everyday(
        "SELECT median(d) AS a FROM (VALUES (DATE '2024-01-01'), (DATE '2024-01-04')) v(d)",
    ),
    Everyday(
        "SELECT g, quantile_cont(f, 0.25) AS a, quantile_cont(i, 0.5) AS b, quantile_cont(d, 0.9) AS c FROM t GROUP BY g",
        setup=_T,
    ),
    Everyday(
        "SELECT g, quantile_disc(i, 0.5) AS a, quantile_disc(g, 0.5) AS b, quantile(f, 0.9) AS c FROM t GROUP BY g",
        setup=_T,
    ),
    Everyday("SELECT quantile_cont(f, [0.25, 0.5, 0.75]) AS a, quantile_disc(i, [0.1, 0.9]) AS b FROM t", setup=_T),
    Everyday(
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY f) AS a, percentile_disc(0.5) WITHIN GROUP (ORDER BY i) AS b FROM t",
        setup=_T,
    ),
    Everyday("SELECT g, mode(i) AS a FROM t WHERE g <> 'b' GROUP BY g", setup=_T),
    Everyday(
        "SELECT g, stddev(f) AS a, stddev_pop(f) AS b, stddev_samp(i) AS c, variance(f) AS d, var_pop(i) AS e, var_samp(d) AS h FROM t GROUP BY g",
        setup=_T,
    ),
    Everyday("SELECT corr(i, f) AS a, covar_pop(i, f) AS b, covar_samp(i, f) AS c FROM t", setup=_T),
    Everyday(
        "SELECT regr_slope(f, i) AS a, regr_intercept(f, i) AS b, regr_r2(f, i) AS c, regr_count(f, i) AS d, regr_avgx(f, i) AS e, regr_avgy(f, i) AS h, regr_sxx(f, i) AS j, regr_sxy(f, i) AS k, regr_syy(f, i) AS l FROM t",
        setup=_T,
    ),
    Everyday(
        "SELECT skewness(f) AS a, kurtosis(f) AS b, entropy(i) AS c, kurtosis_pop(f) AS d, sem(f) AS e, mad(f) AS h FROM t",
        setup=_T,
    ),
    Everyday(
        "SELECT list(i ORDER BY i) AS a, array_agg(g ORDER BY f DESC) AS b, list(DISTINCT g ORDER BY g) AS c FROM t",
        setup=_T,
    ),
    Everyday("SELECT g, list(i ORDER BY f) FILTER (WHERE i IS NOT NULL) AS a FROM t GROUP BY g", setup=_T),
    Everyday("SELECT g, string_agg(i::VARCHAR, '+' ORDER BY f) AS a FROM t GROUP BY g", setup=_T),
    Everyday(
        "SELECT arg_min(g, f) AS a, arg_max(i, f) AS b, argmax(g, d) AS c, min_by(i, d) AS d, max_by(g, f) AS e FROM t",
        setup=_T,
    ),
    Everyday(
        "SELECT arg_max(g, f, 2) AS a, max(f, 2) AS b, min(i, 2) AS c FROM t",
        setup=_T,
    ),
    Everyday(
        "SELECT g, bool_and(b) AS a, bool_or(b) AS c, count_if(f > 2) AS d, countif(b) AS e FROM t GROUP BY g", setup=_T
    ),
    Everyday("SELECT bit_and(i) AS a, bit_or(i) AS b, bit_xor(i) AS c FROM t", setup=_T),
    Everyday(
        "SELECT g, product(f) AS a, product(i) AS b, geomean(f) AS c, geometric_mean(f) AS d FROM t WHERE f > 0 GROUP BY g",
        setup=_T,
    ),
    Everyday(
        "SELECT first(g ORDER BY f) AS a, last(g ORDER BY f) AS b, any_value(i ORDER BY f DESC) AS c, arbitrary(g ORDER BY f) AS d FROM t",
        setup=_T,
    ),
    Everyday("SELECT any_value(i) AS a, first(i) AS b, last(i) AS c FROM (SELECT 7 AS i) q"),
    Everyday("SELECT approx_count_distinct(i) AS a FROM range(5) r(i)"),
    Everyday("SELECT histogram(i) AS a FROM t", setup=_T),
    Everyday(
        "SELECT sum(i) FILTER (WHERE f > 2) AS a, count(*) FILTER (i > 1) AS b, avg(DISTINCT i) AS c FROM t", setup=_T
    ),
    Everyday("SELECT fsum(f) AS a, kahan_sum(f) AS b, favg(f) AS c, sumkahan(f) AS d FROM t", setup=_T),
    Everyday("SELECT g, grouping(g) AS h, sum(i) AS s FROM t GROUP BY ROLLUP (g) ORDER BY ALL", setup=_T),
    Everyday("SELECT g, b, count(*) AS n FROM t GROUP BY CUBE (g, b) ORDER BY ALL", setup=_T),
    Everyday(
        "SELECT g, b, count(*) AS n, grouping_id(g, b) AS i FROM t GROUP BY GROUPING SETS ((g), (b), ()) ORDER BY ALL",
        setup=_T,
    ),
    Everyday("SELECT g, sum(i) AS s FROM t GROUP BY g HAVING sum(i) > 2 ORDER BY s DESC", setup=_T),
    Everyday(
        "SELECT count(*) AS n, sum(i) AS s, list(i) AS l, string_agg(g, ',') AS a, median(f) AS m FROM t WHERE false",
        setup=_T,
    ),
    Everyday(
        "SELECT g, row_number() OVER (PARTITION BY g ORDER BY f) AS a, rank() OVER (ORDER BY i) AS b, dense_rank() OVER (ORDER BY g) AS c, percent_rank() OVER (ORDER BY f) AS d, cume_dist() OVER (ORDER BY f) AS e, ntile(2) OVER (ORDER BY f) AS h FROM t",
        setup=_T,
    ),
    Everyday(
        "SELECT f, lag(f) OVER (ORDER BY f) AS a, lead(f, 2, 0) OVER (ORDER BY f) AS b, first_value(g) OVER (ORDER BY f) AS c, last_value(g) OVER (ORDER BY f ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS d, nth_value(g, 2) OVER (ORDER BY f) AS e FROM t",
        setup=_T,
    ),
    Everyday(
        "SELECT f, sum(f) OVER (ORDER BY f ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS a, avg(f) OVER (ORDER BY f ROWS 2 PRECEDING) AS b, count(*) OVER () AS c, max(i) OVER (PARTITION BY g) AS d FROM t",
        setup=_T,
    ),
    Everyday(
        "SELECT d, sum(n) OVER (ORDER BY d RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW) AS s FROM (VALUES (DATE '2024-01-01', 1), (DATE '2024-01-02', 2), (DATE '2024-01-04', 3)) v(d, n)"
    ),
    Everyday(
        "SELECT f, sum(f) OVER (ORDER BY f ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW) AS a FROM t",
        setup=_T,
    ),
    Everyday(
        "SELECT i, last_value(i IGNORE NULLS) OVER (ORDER BY f) AS a, lag(i IGNORE NULLS) OVER (ORDER BY f) AS b, first_value(i IGNORE NULLS) OVER (ORDER BY f) AS c FROM t",
        setup=_T,
    ),
    Everyday(
        "SELECT g, f, sum(f) FILTER (WHERE b) OVER (PARTITION BY g) AS a, median(f) OVER (PARTITION BY g) AS m, list(i) OVER (PARTITION BY g ORDER BY f) AS l FROM t",
        setup=_T,
    ),
    Everyday(
        "SELECT f, arg_max(i, f) OVER () AS a, arg_min(g, i) OVER (PARTITION BY b) AS c, max_by(i, f) FILTER (WHERE i < 3) OVER (PARTITION BY g) AS d, arg_max(f, CASE WHEN i > 90 THEN i END) OVER () AS e FROM t",
        setup=_T,
    ),
    Everyday(
        "SELECT arg_max(i, f) OVER (ORDER BY f) AS a FROM t",
        setup=_T,
    ),
    Everyday("SELECT g, f FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY f DESC) = 1 ORDER BY g", setup=_T),
    Everyday(
        "SELECT g, i / sum(i) OVER () AS share, row_number() OVER w AS r FROM t WINDOW w AS (PARTITION BY g ORDER BY f) ORDER BY ALL",
        setup=_T,
    ),
)
