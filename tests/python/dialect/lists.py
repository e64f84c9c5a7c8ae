"""Lists and the aggregates of their elements."""

from __future__ import annotations

from dialect.case import Case

TITLE = "Lists"

#: Lists of whole numbers, decimals, floats and texts: whole, with NULLs, empty, and none.
LISTS = (
    "CREATE VIEW l AS SELECT * FROM (VALUES"
    " (1, [CAST(9007199254740993 AS BIGINT), 0], [CAST(1.25 AS DECIMAL(9,2)), 2.5], [CAST(1.5 AS DOUBLE), -2],"
    " ['b', 'a']),"
    " (2, [NULL, CAST(5 AS BIGINT), NULL], [NULL, CAST(0.01 AS DECIMAL(9,2))], [NULL, CAST('nan' AS DOUBLE), 1],"
    " [NULL, 'c']),"
    " (3, [CAST(9223372036854775807 AS BIGINT), 9223372036854775807, 1],"
    " [CAST(9999999.99 AS DECIMAL(9,2)), 9999999.99], [CAST('inf' AS DOUBLE)], ['']),"
    " (4, [CAST(NULL AS BIGINT)], [CAST(NULL AS DECIMAL(9,2))], [CAST(NULL AS DOUBLE)], [CAST(NULL AS VARCHAR)]),"
    " (5, NULL, NULL, NULL, NULL)) t(k, i, d, f, s)",
)

CASES = (
    Case(
        "`||` of a list and NULL",
        "SELECT [1] || l AS a FROM (SELECT CAST(NULL AS INTEGER[]) AS l) t",
    ),
    Case(
        "distances and products of lists of numbers",
        "SELECT list_distance(a, b) AS d, list_inner_product(a, b) AS p, list_negative_inner_product(a, b) AS n,"
        " list_cosine_similarity(a, b) AS s, list_cosine_distance(a, a) AS z, list_dot_product(f, f) AS f,"
        " list_cosine_similarity([0.0, 0.0], [1.0, 2.0]) AS o, list_distance([1, 2], [4, 6]) AS i FROM (VALUES"
        " ([1.5::DOUBLE, -2], [0.25::DOUBLE, 3], [1.5::FLOAT, 2.5]), ([]::DOUBLE[], []::DOUBLE[], []::FLOAT[]),"
        " (NULL, [1.0::DOUBLE], NULL)) t(a, b, f) ORDER BY p NULLS LAST",
    ),
    Case(
        "angles between very long and very short vectors",
        "SELECT list_cosine_similarity(a, b) AS s, list_cosine_distance(a, a) AS d, list_cosine_similarity(f, f) AS f"
        " FROM (VALUES ([1e200::DOUBLE, 0], [1e200::DOUBLE, 1], [1e30::FLOAT, 1]),"
        " ([1e-200::DOUBLE], [1e-200::DOUBLE], [1e-30::FLOAT])) t(a, b, f)",
    ),
    Case("lists of different length have no distance", "SELECT list_distance([1.0, 2.0], [1.0])"),
    Case("lists with NULLs have no distance", "SELECT list_inner_product([1.0, NULL], [1.0, 2.0])"),
    Case(
        "`generate_subscripts`",
        "SELECT i, generate_subscripts(l, 1) AS n FROM (VALUES (1, [7, 8]), (2, []), (3, NULL)) t(i, l) ORDER BY ALL",
    ),
    Case("`list_sum` of integers is HUGEINT, and exact", "SELECT list_sum([9007199254740993, 0]) AS a"),
    Case(
        "`list_sum` of columns",
        "SELECT k, list_sum(i) AS i, list_sum(d) AS d, list_sum(f) AS f FROM l ORDER BY k",
        LISTS,
    ),
    Case(
        "`list_avg` is a DOUBLE",
        "SELECT k, list_avg(i) AS i, list_avg(d) AS d, list_avg(f) AS f FROM l ORDER BY k",
        LISTS,
    ),
    Case(
        "`list_min`",
        "SELECT k, list_min(i) AS i, list_min(d) AS d, list_min(f) AS f, list_min(s) AS s FROM l ORDER BY k",
        LISTS,
    ),
    Case(
        "`list_max`",
        "SELECT k, list_max(i) AS i, list_max(d) AS d, list_max(f) AS f, list_max(s) AS s FROM l ORDER BY k",
        LISTS,
    ),
    Case("`list_product` is a DOUBLE", "SELECT k, list_product(i) AS i, list_product(f) AS f FROM l ORDER BY k", LISTS),
    Case("`list_count` counts values", "SELECT k, list_count(i) AS i, list_count(s) AS s FROM l ORDER BY k", LISTS),
    Case(
        "`list_first`, `list_last` and `list_any_value`",
        "SELECT k, list_first(i) AS a, list_last(i) AS b, list_any_value(i) AS c FROM l ORDER BY k",
        LISTS,
    ),
    Case(
        "`list_aggregate` names the aggregate",
        "SELECT k, list_aggregate(i, 'sum') AS a, list_aggr(i, 'MAX') AS b, array_aggregate(d, 'avg') AS c,"
        " array_aggr(s, 'count') AS d, list_aggregate(s, 'any_value') AS e FROM l ORDER BY k",
        LISTS,
    ),
    Case("`list_aggregate` of what is no aggregate", "SELECT list_aggregate([1, 2], 'nothing')"),
    Case(
        "aggregates of empty lists",
        "SELECT list_sum([]) AS a, list_avg([]) AS b, list_count([]) AS c, list_product([]) AS d",
    ),
    Case("aggregates of no list", "SELECT list_sum(NULL) AS a, list_avg(NULL) AS b, list_min(NULL) AS c"),
    Case("`list_sum` of truth values counts", "SELECT list_sum([true, false, NULL, true]) AS a"),
    Case(
        "`list_sum` of every integer",
        "SELECT list_sum([CAST(127 AS TINYINT), 127]) AS a, list_sum([CAST(65535 AS USMALLINT), 1]) AS b,"
        " list_sum([CAST(18446744073709551615 AS UBIGINT), 1]) AS c,"
        " list_sum([CAST(18446744073709551616 AS HUGEINT), -1]) AS d",
    ),
    Case(
        "elements have the type that values have in common",
        "SELECT [CAST(0.5 AS FLOAT), 0.25] AS a, [1e300, 0.5] AS b, [1.5, 2] AS c,"
        " [DATE '2020-01-01', TIMESTAMP '2020-01-01 01:00:00'] AS d, [CAST(1 AS TINYINT), 2] AS e",
    ),
    Case("numbers and dates have none", "SELECT [DATE '2020-01-01', 5]"),
    Case("`list_sum` of FLOAT is a DOUBLE", "SELECT list_sum([CAST(0.5 AS FLOAT), 0.25]) AS a"),
    Case("`list_sum` of decimals", "SELECT list_sum([0.1, 0.2, 0.3]) AS a, list_sum([1.50, 2]) AS b"),
    Case(
        "sums of lists are numbers to compute with",
        "SELECT list_sum(i) + 1 AS a, list_sum(i) // 2 AS b FROM l WHERE k < 3",
        LISTS,
    ),
    Case(
        "sums of lists of more than 38 digits are an error",
        "SELECT list_sum([CAST('99999999999999999999999999999999999999' AS DECIMAL(38,0)), 1])",
    ),
    Case("`list_sum` of texts is an error", "SELECT list_sum(['1', '2'])"),
    Case("`list_sum` of dates is an error", "SELECT list_sum([DATE '2020-01-01'])"),
    Case("`list_avg` of truth values is an error", "SELECT list_avg([true, false])"),
    Case("`list_sum` of no list is an error", "SELECT list_sum(5)"),
    Case(
        "the least of dates, truth values and lists",
        "SELECT list_min([DATE '2020-01-02', DATE '2020-01-01']) AS a, list_max([true, false]) AS b,"
        " list_max([[1, 2], [1, 3], [0]]) AS c",
    ),
    Case(
        "NaN is the greatest",
        "SELECT list_max([CAST('nan' AS DOUBLE), 1]) AS a, list_min([CAST('nan' AS DOUBLE), 1]) AS b",
    ),
    Case(
        "the least of intervals",
        "SELECT list_min([INTERVAL 25 HOUR, INTERVAL 1 DAY]) AS a",
        differs="refused: equal lengths are written in several ways",
    ),
    Case(
        "other aggregates of lists",
        "SELECT list_median([1, 2, 4]) AS a",
    ),
    Case(
        "`-0.0` within lists",
        "SELECT [x * 0] = [0e0] AS a FROM (VALUES (-1e0), (1e0)) t(x) ORDER BY x",
        differs="lists tell -0.0 from 0.0, which are equal as numbers",
    ),
    Case(
        "a NULL among elements that are looked for",
        "SELECT list_has_any([1, NULL], [NULL, 5]::INTEGER[]) AS a, list_has_all([1], [NULL]::INTEGER[]) AS b",
    ),
    Case(
        "NULL in the place of lists and lengths",
        "SELECT list_concat(NULL::INTEGER[], NULL::INTEGER[]) AS a, list_resize([1, 2], NULL) AS b",
    ),
)
