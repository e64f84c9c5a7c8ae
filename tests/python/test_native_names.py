"""Names of columns without an alias, beside DuckDB 2.0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = """
    CREATE TABLE t AS SELECT 1 AS i, 2 AS j, 'a' AS s, DATE '2020-01-01' AS d, TIMESTAMP '2020-01-01' AS ts,
        [1, 2] AS l, {'a': 1} AS st, true AS b, MAP {'a': 1} AS m, 1.5::DOUBLE AS f
"""

#: A statement a line.
STATEMENTS = """
SELECT 1::tinyint FROM t
SELECT 1::TINYINT FROM t
SELECT 1::TinyInt FROM t
SELECT 1::smallint FROM t
SELECT 1::int4 FROM t
SELECT 1::INT4 FROM t
SELECT 1::signed FROM t
SELECT 1::int8 FROM t
SELECT 1::long FROM t
SELECT 1::hugeint FROM t
SELECT 1::utinyint FROM t
SELECT 1::usmallint FROM t
SELECT 1::uinteger FROM t
SELECT 1::ubigint FROM t
SELECT 1::float4 FROM t
SELECT 1::real FROM t
SELECT 1::double FROM t
SELECT 1::double precision FROM t
SELECT 1::float8 FROM t
SELECT 1::decimal FROM t
SELECT 1::numeric FROM t
SELECT 1::dec FROM t
SELECT 1::numeric(10) FROM t
SELECT 1::dec(4,1) FROM t
SELECT 1::bool FROM t
SELECT 1::boolean FROM t
SELECT 1::logical FROM t
SELECT 1::VARCHAR(10) FROM t
SELECT 1::text FROM t
SELECT 1::string FROM t
SELECT 1::CHAR(3) FROM t
SELECT 1::bpchar FROM t
SELECT 1::nvarchar FROM t
SELECT s::BYTEA FROM t
SELECT s::bytea FROM t
SELECT s::varbinary FROM t
SELECT s::binary FROM t
SELECT s::blob FROM t
SELECT d::date FROM t
SELECT d::datetime FROM t
SELECT d::DATETIME FROM t
SELECT d::timestamptz FROM t
SELECT d::timestamp with time zone FROM t
SELECT d::timestamp without time zone FROM t
SELECT d::timestamp_s FROM t
SELECT d::TIMESTAMP_S FROM t
SELECT ts::time FROM t
SELECT ts::time without time zone FROM t
SELECT '1 day'::interval FROM t
SELECT NULL::json FROM t
SELECT NULL::JSON FROM t
SELECT NULL::int[] FROM t
SELECT NULL::tinyint[] FROM t
SELECT NULL::int[3][] FROM t
SELECT NULL::map(int, varchar) FROM t
SELECT NULL::MAP(TINYINT, BOOL) FROM t
SELECT NULL::struct(a int, b varchar) FROM t
SELECT NULL::STRUCT(a INT, "B c" DATE, "select" bool) FROM t
SELECT NULL::row(a int, b varchar) FROM t
SELECT NULL::decimal(10,2)[] FROM t
SELECT NULL::short FROM t
SELECT NULL::int2 FROM t
SELECT NULL::int1 FROM t
SELECT NULL::int16 FROM t
SELECT NULL::int32 FROM t
SELECT NULL::int64 FROM t
SELECT NULL::int128 FROM t
SELECT NULL::uint8 FROM t
SELECT try_cast(1 as date) FROM t
SELECT try_cast(1 as tinyint) FROM t
SELECT date '2020-01-01' FROM t
SELECT DATE '2020-01-01' FROM t
SELECT timestamptz '2020-01-01' FROM t
SELECT TIMESTAMP WITH TIME ZONE '2020-01-01' FROM t
SELECT interval '1 day' FROM t
SELECT INTERVAL '1' DAY FROM t
SELECT INTERVAL (i) day FROM t
SELECT INTERVAL 2 millisecond FROM t
SELECT INTERVAL 2 decade FROM t
SELECT INTERVAL 2 century FROM t
SELECT INTERVAL 2 millennium FROM t
SELECT double '1.5' FROM t
SELECT DOUBLE '1.5' FROM t
SELECT int '1' FROM t
SELECT decimal(4,1) '1.5' FROM t
SELECT bool 'true' FROM t
SELECT varchar 'a' FROM t
SELECT i FROM t
SELECT t.i FROM t
SELECT "i" FROM t
SELECT main.t.i FROM t
SELECT st.a FROM t
SELECT t.st.a FROM t
SELECT st['a'] FROM t
SELECT l[1:2:1] FROM t
SELECT l[i+1] FROM t
SELECT (l)[1] FROM t
SELECT [1,2][1] FROM t
SELECT (st).a FROM t
SELECT {'a':1}.a FROM t
SELECT upper(s) FROM t
SELECT +i FROM t
SELECT -i FROM t
SELECT - 1 FROM t
SELECT -(1) FROM t
SELECT -(-1) FROM t
SELECT - -1 FROM t
SELECT +1 FROM t
SELECT ~i FROM t
SELECT not not b FROM t
SELECT i + j * 2 FROM t
SELECT i - -1 FROM t
SELECT i // j FROM t
SELECT i ** j FROM t
SELECT i ^ j FROM t
SELECT i << j FROM t
SELECT xor(i,j) FROM t
SELECT i <> j FROM t
SELECT i == j FROM t
SELECT i isnull FROM t
SELECT i notnull FROM t
SELECT b is unknown FROM t
SELECT b is not unknown FROM t
SELECT b is not true FROM t
SELECT i not between 1 and 2 FROM t
SELECT i in [1,2] FROM t
SELECT i not in l FROM t
SELECT s like 'a' escape '$' FROM t
SELECT s not like 'a' escape '$' FROM t
SELECT s ilike 'a' escape '$' FROM t
SELECT s not ilike 'a' FROM t
SELECT s glob 'a*' FROM t
SELECT s similar to 'a' FROM t
SELECT s not similar to 'a' FROM t
SELECT s ~ 'a' FROM t
SELECT s !~ 'a' FROM t
SELECT s ~~ 'a' FROM t
SELECT s !~~ 'a' FROM t
SELECT s ~~* 'a' FROM t
SELECT s || 'b' || 'c' FROM t
SELECT s ^@ 'a' FROM t
SELECT (b and b) and b FROM t
SELECT b and (b and b) FROM t
SELECT b or b or b FROM t
SELECT b and b or b FROM t
SELECT (b or b) and b FROM t
SELECT case i when 1 then 2 when 2 then 3 else 4 end FROM t
SELECT count(*) FROM t
SELECT count() FROM t
SELECT count(distinct i) FROM t
SELECT count(*) filter (where b) FROM t
SELECT count(*) over () FROM t
SELECT count(i) over () FROM t
SELECT sum(i) over (partition by i order by j desc nulls last) FROM t
SELECT sum(i) over (rows between unbounded preceding and current row) FROM t
SELECT sum(i) over (order by j rows 1 preceding) FROM t
SELECT sum(i) over (order by j range between unbounded preceding and unbounded following) FROM t
SELECT row_number() over () FROM t
SELECT last_value(i ignore nulls) over () FROM t
SELECT last_value(i respect nulls) over () FROM t
SELECT sum(distinct i) over () FROM t
SELECT sum(i) filter (where b) over () FROM t
SELECT first(i) FROM t
SELECT last(i order by j desc nulls first, i) FROM t
SELECT string_agg(s, ',' order by i) FROM t
SELECT array_agg(distinct i order by i) FROM t
SELECT mode(i) FROM t
SELECT percentile_cont(0.5) within group (order by i) FROM t
SELECT percentile_disc(0.5) within group (order by i desc) FROM t
SELECT quantile_cont(i, [0.5, 0.2]) FROM t
SELECT COALESCE(NULL, i) FROM t
SELECT nullif(i, j) FROM t
SELECT ifnull(i, j) FROM t
SELECT if(b, i, j) FROM t
SELECT extract(year from d) FROM t
SELECT extract('year' from d) FROM t
SELECT extract(epoch from ts) FROM t
SELECT extract(dow from d) FROM t
SELECT extract(days from d) FROM t
SELECT extract(millisecond from ts) FROM t
SELECT year(d) FROM t
SELECT YEAR(d) FROM t
SELECT position('a' in s) FROM t
SELECT substring(s from 1 for 2) FROM t
SELECT substring(s for 2) FROM t
SELECT substring(s, 1, 2) FROM t
SELECT substr(s, 1, 2) FROM t
SELECT overlay(s placing 'a' from 1) FROM t
SELECT trim(s) FROM t
SELECT trim(leading 'a' from s) FROM t
SELECT trim(trailing 'a' from s) FROM t
SELECT trim(both 'a' from s) FROM t
SELECT trim(s, 'a') FROM t
SELECT ceil(f) FROM t
SELECT ceiling(f) FROM t
SELECT floor(f) FROM t
SELECT ts at time zone 'UTC' FROM t
SELECT current_date FROM t
SELECT current_timestamp FROM t
SELECT now() FROM t
SELECT current_time FROM t
SELECT left(s, 1) FROM t
SELECT replace(s, 'a', 'b') FROM t
SELECT "upper"(s) FROM t
SELECT range(3) FROM t
SELECT unnest(l) FROM t
SELECT row(1,2) FROM t
SELECT (1,2) FROM t
SELECT (i, j) FROM t
SELECT struct_pack(a := 1, "B c" := 2) FROM t
SELECT struct_pack(i) FROM t
SELECT struct_insert(st, b := 1) FROM t
SELECT {'a': 1, 'B': 2} FROM t
SELECT {a: 1} FROM t
SELECT {'a b': i} FROM t
SELECT {"x": 1} FROM t
SELECT {'select': 1} FROM t
SELECT [] FROM t
SELECT [[1],[2]] FROM t
SELECT array[1,2] FROM t
SELECT array_value(1,2) FROM t
SELECT MAP {'a': 1} FROM t
SELECT map{1:2, 3:4} FROM t
SELECT MAP {} FROM t
SELECT map([1],[2]) FROM t
SELECT m['a'] FROM t
SELECT [x for x in l] FROM t
SELECT [x+y for x, y in l] FROM t
SELECT list_transform(l, lambda x: x + 1) FROM t
SELECT list_transform(l, lambda x, i: x + i) FROM t
SELECT list_transform(l, lambda X: X * 2) FROM t
SELECT (select i as x, from t limit 1) FROM t
SELECT exists (select 1) FROM t
SELECT not exists (select 1 from t where i = 1) FROM t
SELECT exists(from t) FROM t
SELECT i not in (select i from t) FROM t
SELECT i = any(select i from t) FROM t
SELECT i <> all(select i from t) FROM t
SELECT i >= all (select i from t) FROM t
SELECT i < some (select i from t) FROM t
SELECT i = any(l) FROM t
SELECT i > any([1,2]) FROM t
SELECT i = all(l) FROM t
SELECT i < all(l) FROM t
SELECT (i, j) in (select i, j from t) FROM t
SELECT (i, j) = (1, 2) FROM t
SELECT (select max(i) from t where i > 1 group by j having count(*) > 1 order by 1 limit 1 offset 1) FROM t
SELECT (select distinct i from t t2 order by i desc nulls last limit 1) FROM t
SELECT (select count(*) from t a, t b) FROM t
SELECT (select count(*) from t a left join t b using (i)) FROM t
SELECT (select count(*) from t a cross join t b) FROM t
SELECT (select count(*) from range(3) r(x)) FROM t
SELECT (select 1 union all select 1 limit 1) FROM t
SELECT (with c as (select 1 as x) select x from c) FROM t
SELECT (select t2.* exclude (i) from (select 1 i, 2 k) t2) FROM t
SELECT (select * replace (1 as i) from (select 1 i) t2) FROM t
SELECT (select i from t qualify row_number() over () = 1) FROM t
SELECT 'it''s' FROM t
SELECT $$abc$$ FROM t
SELECT 1.50 FROM t
SELECT 1E3 FROM t
SELECT .5 FROM t
SELECT 5. FROM t
SELECT TRUE FROM t
SELECT null FROM t
SELECT x'AB' FROM t
SELECT i! FROM t
SELECT a: i FROM t
SELECT 1 AS "X y" FROM t
SELECT (i + 1) * 2 FROM t
SELECT i::varchar::int FROM t
SELECT (i AND b)::int FROM t
SELECT 's'[1] FROM t
SELECT sum(i) / count(*) FROM t
SELECT d + interval 1 day FROM t
SELECT date_add(d, interval 1 day) FROM t
select sum(i) over (order by j range between unbounded preceding and current row) from t
select grouping(i) from t group by i
select GROUPING(i, j) from t group by i, j
select T.I + 1, main.t.i + 1, memory.main.t.i+1 from t
select "B c"+1 from (select 1 as "B c")
SELECT '{"a":1}'::json -> 'a' FROM t
SELECT '{"a":1}'::json ->> '$.a' FROM t
SELECT '{"a":1}'::json -> 'a' -> 'b' FROM t
select (select a.i from t a, t b where a.i = b.i and a.j = b.j) from t
select (select a.i from t a inner join t b on a.i = b.i and a.j=b.j left outer join t c on true limit 1) from t
select (select a.i from t a natural join t b) from t
select (select 1 from t a semi join t b on (a.i=b.i)) from t
select (select 1 from t a anti join t b using (i, j)) from t
select (select 1 from t a asof join t b on a.i >= b.i) from t
select (select i from t group by all) from t
select (select i from t group by grouping sets ((i), (j), ()) limit 1) from t
select (select i from t limit 1+1) from t
select (select distinct on (i) i from t) from t
select (select 1 union select 2 union all select 3 limit 1) from t
select (select 1 union all (select 2 union all select 3) limit 1) from t
select (select 1 except all select 2 order by 1) from t
select (select x from (values (1, 2)) v(x, y)) from t
select (with recursive c as (select 1 as x union all select x+1 from c where x < 3) select max(x) from c) from t
select (select count(*) from t t2, lateral (select t2.i) x) from t
select (select max(k) from unnest([1,2]) as u(k)) from t
select (select "i" as "select" from t "Xy") from t
select i in (values (1), (2)) from t
select struct_pack(a := 1).a, {'a': {'b': 1}}['a']['b'], {'a': {'b': 1}}.a.b, ({'a': {'b': 1}}).a.b
select [[1,2],[3]][1][2], (l)[1:2][1] from t
select t.l[1], t.st.a + 1, t.st['a'], (t.st).a from t
select l[-1], l[1:-1], l[:-1:1], l[-1:] from t
select count(distinct (i, j)) from t
select sum(all i) from t
select - i + 1, -(i + 1), - - i, -1.5, -'1'::int from t
select (1,2) in ((1,2))
"""


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[duckdb.DuckDBPyConnection, warpmill.Connection]]:
    with duckdb.connect() as theirs, warpmill.connect() as ours:
        theirs.execute(TABLE)
        ours.execute(TABLE)
        yield theirs, ours


@pytest.mark.skipif(duckdb.__version__ < "2", reason="names of DuckDB 2.0")
@pytest.mark.parametrize("sql", STATEMENTS.strip().splitlines())
def test_columns_are_called_as_duckdb_calls_them(
    both: tuple[duckdb.DuckDBPyConnection, warpmill.Connection], sql: str
) -> None:
    theirs, ours = both
    assert ours.sql(sql).columns == theirs.sql(sql).columns


def test_statements_that_differ_in_constants_and_letters_have_names_of_their_own(
    both: tuple[duckdb.DuckDBPyConnection, warpmill.Connection],
) -> None:
    for number in range(8):
        for spelled in ("TINYINT", "tinyint"):
            sql = f"SELECT i + {number}, i::{spelled} FROM t"
            assert both[1].sql(sql).columns == [f"(i + {number})", f"CAST(i AS {spelled})"]
