"""Lists, structs, maps, JSON and other types with parts."""

from __future__ import annotations

from dialect.everyday.everyday import Everyday

TITLE = "Lists, structs, maps, JSON"

_L = " FROM (VALUES ([3, 1, 2]), ([]), (NULL), ([NULL, 5, 5])) t(l)"

CASES = (
    Everyday("SELECT [1, 2, 3] AS a, [] AS b, [1, NULL] AS c, ['a', 'b'] AS d, [[1], [2, 3]] AS e"),
    Everyday(
        "SELECT list_value(1, 2) AS a, array_value(1, 2)::INTEGER[] AS b, list_pack('x') AS c",
    ),
    Everyday(
        "SELECT l[1] AS a, l[-1] AS b, l[9] AS c, l[0] AS d, list_extract(l, 2) AS e, list_element(l, 1) AS f" + _L
    ),
    Everyday("SELECT l[1:2] AS a, l[2:] AS b, l[:-2] AS c, list_slice(l, 1, 2) AS d, array_slice(l, 2, 3) AS e" + _L),
    Everyday(
        "SELECT len(l) AS a, length(l) AS b, array_length(l) AS c, list_count(l) AS d, cardinality(map([1], [2])) AS e"
        + _L
    ),
    Everyday(
        "SELECT list_contains(l, 5) AS a, list_has(l, 1) AS b, array_contains(l, 9) AS c, 5 IN l AS d, contains(l, 1) AS e"
        + _L,
    ),
    Everyday("SELECT list_position(l, 5) AS a, list_indexof(l, 9) AS b, array_position(l, 1) AS c" + _L),
    Everyday(
        "SELECT list_concat([1], [2]) AS a, [1] || [2, 3] AS b, array_cat([1], NULL) AS c, list_append([1], 2) AS d, list_prepend(0, [1]) AS e, array_push_back([1], 3) AS f",
    ),
    Everyday(
        "SELECT list_sort(l) AS a, list_reverse_sort(l) AS b, list_sort(l, 'DESC') AS c, list_sort(l, 'ASC', 'NULLS LAST') AS d, array_sort(l) AS e"
        + _L
    ),
    Everyday(
        "SELECT list_distinct([1, 1, NULL, 2])::INTEGER[] <> [] AS a, list_sort(list_distinct([2, 1, 1])) AS b, list_unique([1, 1, 2]) AS c"
    ),
    Everyday("SELECT list_reverse(l) AS a, array_reverse(l) AS b" + _L),
    Everyday("SELECT list_sum(l) AS a, list_avg(l) AS b, list_min(l) AS c, list_max(l) AS d" + _L),
    Everyday(
        "SELECT list_median([1, 2, 4]) AS a, list_mode([1, 1, 2]) AS b, list_stddev_samp([1, 2, 3]) AS c, list_var_pop([1, 2, 3]) AS d, list_string_agg(['a', 'b']) AS e, list_bool_and([true, false]) AS f"
    ),
    Everyday(
        "SELECT list_transform(l, lambda x: x + 1) AS a, list_apply(l, lambda x: x * 2) AS b, array_transform(l, lambda x: x IS NULL) AS c"
        + _L
    ),
    Everyday("SELECT list_filter(l, lambda x: x > 1) AS a, array_filter(l, lambda x: x IS NOT NULL) AS b" + _L),
    Everyday(
        "SELECT list_transform(['a', 'b'], lambda x, i: x || i) AS a, list_filter([5, 6, 7], lambda x, i: i > 1) AS b",
    ),
    Everyday(
        "SELECT list_reduce([1, 2, 3], lambda x, y: x + y) AS a, list_reduce([1, 2, 3], lambda x, y: x * y, 10) AS b, reduce(['a', 'b'], lambda x, y: x || y) AS c",
    ),
    Everyday("SELECT [x + 1 FOR x IN [1, 2, 3] IF x > 1] AS a, [upper(s) FOR s IN ['a', 'b']] AS b"),
    Everyday("SELECT list_zip([1, 2], ['a', 'b']) AS a", state="differs", why="structs without names have names"),
    Everyday("SELECT flatten([[1, 2], [3]]) AS a, flatten([[], NULL, [4]]) AS b"),
    Everyday(
        "SELECT array_to_string(['a', 'b', NULL], ',') AS a, list_aggregate(['a', 'b'], 'string_agg', '-') AS b",
    ),
    Everyday(
        "SELECT list_has_any([1, 2], [2, 3]) AS a, list_has_all([1, 2], [2]) AS b, [1, 2] && [3] AS c, [1, 2] @> [1] AS d, list_intersect([1, 2], [2]) AS e"
    ),
    Everyday("SELECT range(3) AS a, range(1, 4) AS b, range(5, 0, -2) AS c, generate_series(1, 3) AS d, range(0) AS e"),
    Everyday("SELECT unnest([1, 2, 3]) AS x ORDER BY x"),
    Everyday("SELECT x FROM unnest(['a', 'b']) u(x) ORDER BY x"),
    Everyday(
        "SELECT k, unnest(l) AS x FROM (VALUES ('a', [1, 2]), ('b', []), ('c', NULL), ('d', [3])) t(k, l) ORDER BY ALL"
    ),
    Everyday(
        "SELECT k, x FROM (VALUES ('a', [1, 2]), ('b', [3])) t(k, l), unnest(l) u(x) ORDER BY ALL",
    ),
    Everyday(
        "SELECT unnest([{'a': 1, 'b': 2}, {'a': 3, 'b': 4}], recursive := true)",
    ),
    Everyday(
        "SELECT list_resize([1, 2], 4, 0) AS a, list_where([1, 2, 3], [true, false, true]) AS b, list_select([10, 20, 30], [3, 1]) AS c, list_grade_up([3, 1, 2]) AS d"
    ),
    Everyday("SELECT [1, 2] = [1, 2] AS a, [1, 2] < [1, 3] AS b, [1] IS NULL AS c, [3, 1, 2][2] AS d"),
    Everyday(
        "SELECT {'a': 1, 'b': 'x'} AS s, struct_pack(a := 1, b := 2) AS t, row(1, 'x') AS u",
        state="differs",
        why="structs without names have names",
    ),
    Everyday(
        "SELECT s.a AS a, s['b'] AS b, struct_extract(s, 'a') AS c, s.* FROM (SELECT {'a': 1, 'b': 'x'} AS s) t",
    ),
    Everyday(
        "SELECT struct_insert({'a': 1}, b := 2) AS a, {'a': {'b': 3}}.a.b AS b, struct_keys({'x': 1, 'y': 2}) AS c",
    ),
    Everyday(
        "SELECT unnest({'a': 1, 'b': 2})",
    ),
    Everyday(
        "SELECT MAP {'a': 1, 'b': 2} AS m, map(['x'], [5]) AS n, MAP {} AS e",
        state="differs",
        why="maps of whole constants have BIGINT values",
    ),
    Everyday(
        "SELECT m['a'] AS a, m['z'] AS b, element_at(m, 'a') AS c, map_extract(m, 'b') AS d, map_keys(m) AS e, map_values(m) AS f, cardinality(m) AS g FROM (SELECT MAP {'a': 1, 'b': 2} AS m) t"
    ),
    Everyday(
        "SELECT map_entries(MAP {'a': 1}) AS a, map_contains(MAP {'a': 1}, 'a') AS b, map_from_entries([{k: 'a', v: 1}]) AS c, map_concat(MAP {'a': 1}, MAP {'b': 2}) AS d",
        state="differs",
        why="maps of whole constants have BIGINT values",
    ),
    Everyday(
        "SELECT '{\"a\": {\"b\": [1, 2]}}'::JSON -> 'a' AS a, '{\"a\": {\"b\": [1, 2]}}'::JSON ->> '$.a.b[1]' AS b, '{\"a\": \"x\"}'::JSON ->> 'a' AS c"
    ),
    Everyday(
        "SELECT json_extract('{\"a\": {\"b\": 1}}', '$.a.b') AS a, json_extract_string('{\"a\": \"x\"}', '$.a') AS b, json_extract('[1, 2]', 1) AS c, json_extract('{\"a\": 1}', ['$.a', '$.z']) AS d"
    ),
    Everyday(
        "SELECT json_extract_path_text('{\"a\": \"x\"}', 'a') AS a, json_value('{\"a\": 5}', '$.a') AS b, json_exists('{\"a\": 5}', '$.a') AS c"
    ),
    Everyday(
        "SELECT json_array_length('[1, 2, 3]') AS a, json_type('{\"a\": 1}') AS b, json_type('[1]', '$[0]') AS c, json_valid('{') AS d, json_keys('{\"a\": 1, \"b\": 2}') AS e, json_valid('[]') AS f"
    ),
    Everyday(
        "SELECT to_json({'a': 1, 'b': [1, NULL]})::VARCHAR AS a, json_object('a', 1, 'b', 'x')::VARCHAR AS b, json_array(1, 'x', NULL)::VARCHAR AS c, json_quote('x')::VARCHAR AS d"
    ),
    Everyday(
        "SELECT ('{\"a\": \"5\"}'::JSON ->> 'a')::INTEGER + 1 AS a, (j ->> '$.n')::DOUBLE AS b FROM (VALUES ('{\"n\": 1.5}'::JSON), ('{}'), (NULL)) t(j)"
    ),
    Everyday(
        "SELECT json_group_array(x)::VARCHAR AS a, json_group_object(k, x)::VARCHAR AS b FROM (VALUES ('p', 1)) t(k, x)",
    ),
    Everyday(
        "SELECT json_structure('{\"a\": 1}')::VARCHAR AS a, json_contains('{\"a\": 1}', '1') AS b, json_merge_patch('{\"a\": 1}', '{\"b\": 2}')::VARCHAR AS c",
    ),
    Everyday(
        "SELECT from_json('{\"a\": 1}', '{\"a\": \"INTEGER\"}') AS a, json_transform('[1, 2]', '[\"INTEGER\"]') AS b",
        state="refused",
        why="Invalid function 'from_json'.",
    ),
    Everyday(
        "SELECT '[1, 2]'::INTEGER[] AS a, [1, 2]::VARCHAR AS b, {'a': 1}::VARCHAR AS c, ['1', '2']::INTEGER[] AS d, [1, 2]::DOUBLE[] AS e",
    ),
    Everyday(
        "SELECT [1, 2, 3]::INTEGER[3] AS a, array_value(1.0, 2.0) AS b, array_distance([1, 2]::FLOAT[2], [1, 3]::FLOAT[2]) AS c, list_cosine_similarity([1.0, 2.0], [1.0, 2.0]) AS d",
    ),
    Everyday(
        "SELECT 'sad'::mood AS a, 'sad'::mood < 'happy'::mood AS b, enum_range(NULL::mood) AS c",
        setup=("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",),
    ),
)
