"""Columns of Parquet files that are kept between queries: the same answers, until a file is another one."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import warpmill
from warpmill import _warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = 5000


@pytest.fixture(autouse=True)
def empty_cache() -> Iterator[None]:
    """Forgets columns of other tests, and puts the limit back afterwards."""
    with warpmill.connect() as con:
        [(before,)] = con.sql(
            "SELECT value FROM information_schema.df_settings WHERE name = 'warpmill.column_cache_limit'"
        ).fetchall()
        con.execute("SET warpmill.column_cache_limit = '1'")
        con.execute(f"SET warpmill.column_cache_limit = '{before}'")
        yield
        con.execute(f"SET warpmill.column_cache_limit = '{before}'")


def settle(path: Path) -> Path:
    """Make a file old enough for its columns to be cached."""
    then = time.time() - 60
    os.utime(path, (then, then))
    # The time of change of its inode cannot be set.
    time.sleep(0.06)
    return path


def write(path: Path, table: pa.Table, **options: Any) -> Path:
    pq.write_table(table, path, **options)
    return settle(path)


def numbers(first: int = 0, rows: int = ROWS) -> pa.Table:
    names = pa.array([f"name {i % 7}" for i in range(rows)], pa.string())
    return pa.table({"k": pa.array(range(first, first + rows), pa.int64()), "s": names})


class Shop:
    """A connection, and the cache reads of its last query."""

    def __init__(self, device: str = "cpu") -> None:
        self.con = warpmill.connect()
        self.con.execute(f"SET warpmill.device = '{device}'")
        self.cached: list[str] = []

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        result = self.con.sql(sql)
        rows = result.fetchall()
        self.cached = [file for program in result.profile["programs"] for file in program["from_column_cache"]]
        return rows


def total(path: Path) -> str:
    return f"SELECT count(*), sum(k), max(s) FROM '{path}' WHERE k >= 0"


def answers(path: Path | str, sql: str) -> list[tuple[Any, ...]]:
    return duckdb.connect().execute(sql.format(f"'{path}'")).fetchall()


def test_a_query_keeps_what_it_reads(tmp_path: Path) -> None:
    shop, path = Shop(), write(tmp_path / "n.parquet", numbers())
    expected = answers(path, "SELECT count(*), sum(k), max(s) FROM {} WHERE k >= 0")
    for _ in range(3):
        assert shop.rows(total(path)) == expected
        assert shop.cached == ["n.parquet: 2 columns"]
    # Another statement reads the same columns.
    assert shop.rows(f"SELECT s, count(*) FROM '{path}' GROUP BY s ORDER BY s") == answers(
        path, "SELECT s, count(*) FROM {} GROUP BY s ORDER BY s"
    )
    assert shop.cached == ["n.parquet: 1 columns"]
    shop.con.execute("SET warpmill.column_cache = 'off'")
    assert shop.rows(total(path)) == expected
    assert shop.cached == []


def replaced(path: Path) -> None:
    write(path.with_suffix(".new"), numbers(100))
    path.with_suffix(".new").rename(path)


def overwritten(path: Path) -> None:
    path.write_bytes(write(path.with_suffix(".new"), numbers(100)).read_bytes())


def appended(path: Path) -> None:
    write(path, pa.concat_tables([pq.read_table(path), numbers(ROWS)]))


def shortened(path: Path) -> None:
    write(path, numbers(0, ROWS // 2))


def overwritten_with_its_old_time(path: Path) -> None:
    """In place, of the same size and with the same time: what ``rsync --inplace -t`` does."""
    before, other = path.stat(), path.with_suffix(".new")
    assert any(write(other, numbers(first)).stat().st_size == before.st_size for first in range(1, 300))
    with path.open("r+b") as file:
        file.write(other.read_bytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize(
    "change", [replaced, overwritten, appended, shortened, overwritten_with_its_old_time], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("settles", [True, False])
def test_changed_files_are_read_again(tmp_path: Path, change: Any, *, settles: bool) -> None:
    shop, path = Shop(), write(tmp_path / "n.parquet", numbers())
    shop.rows(total(path))
    assert shop.cached
    change(path)
    if settles:
        before = path.stat()
        settle(path)
        if change is overwritten_with_its_old_time:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            time.sleep(0.06)
    for _ in range(2):
        assert shop.rows(total(path)) == answers(path, "SELECT count(*), sum(k), max(s) FROM {} WHERE k >= 0")


def test_a_link_that_is_moved_names_another_file(tmp_path: Path) -> None:
    shop, link = Shop(), tmp_path / "link.parquet"
    for first in (0, 1000, 0):
        target = tmp_path / f"{first}.parquet"
        if not target.exists():
            write(target, numbers(first))
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        for _ in range(2):
            assert shop.rows(total(link)) == answers(target, "SELECT count(*), sum(k), max(s) FROM {} WHERE k >= 0")
            assert shop.cached


def test_touched_files_are_read_again_and_removed_ones_are_missed(tmp_path: Path) -> None:
    shop, path = Shop(), write(tmp_path / "n.parquet", numbers())
    shop.rows(total(path))
    path.touch()
    # Too young to be kept: another change could have the same time.
    shop.rows(total(path))
    assert not shop.cached
    settle(path)
    shop.rows(total(path))
    assert shop.cached
    path.unlink()
    with pytest.raises(warpmill.Error, match=r"n\.parquet"):
        shop.rows(total(path))
    damaged = tmp_path / "m.parquet"
    shutil.copy(write(path, numbers()), damaged)
    settle(damaged)
    shop.rows(total(damaged))
    damaged.write_bytes(damaged.read_bytes()[:-100])
    with pytest.raises(warpmill.Error, match=r"m\.parquet"):
        shop.rows(total(damaged))


def everything() -> pa.Table:
    """Columns of all types that are stored, with NULLs, and some that are not."""
    wave = [i % 11 for i in range(ROWS)]

    def column(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array([None if i % 13 == 5 else value for i, value in enumerate(values)], kind)

    day, moment = dt.date(1969, 12, 25), dt.datetime(1969, 12, 31, 23, 59, 59, 999999)
    return pa.table(
        {
            "i8": column([x - 5 for x in wave], pa.int8()),
            "i16": column([x * 1000 - 5000 for x in wave], pa.int16()),
            "i32": column([(x - 5) * 2**28 for x in wave], pa.int32()),
            "i64": column([(x - 5) * 2**60 for x in wave], pa.int64()),
            "u8": column([x * 20 for x in wave], pa.uint8()),
            "u32": column([x * 2**28 for x in wave], pa.uint32()),
            "u64": column([x * 2**60 for x in wave], pa.uint64()),
            "f32": column([x / 3 for x in wave], pa.float32()),
            "f64": column([float("nan") if x == 3 else float("-inf") if x == 4 else x / 3 for x in wave], pa.float64()),
            "b": column([x % 2 == 0 for x in wave], pa.bool_()),
            "d9": column([Decimal(x - 5).scaleb(-2) for x in wave], pa.decimal128(9, 2)),
            "d38": column([Decimal(x - 5).scaleb(20) for x in wave], pa.decimal128(38, 4)),
            "day": column([day + dt.timedelta(days=x) for x in wave], pa.date32()),
            "us": column([moment + dt.timedelta(microseconds=x) for x in wave], pa.timestamp("us")),
            "ms": column([dt.datetime(2000 + x, 1, 1) for x in wave], pa.timestamp("ms")),
            "few": column([f"text {x}" if x else "" for x in wave], pa.string()),
            "many": column([f"text {i} {'ü' * (i % 40)}" for i in range(ROWS)], pa.string()),
            "large": column([f"text {x}" for x in wave], pa.large_string()),
            "null": pa.array([None] * ROWS, pa.int32()),
            "list": column([[x] for x in wave], pa.list_(pa.int32())),
        }
    )


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_every_type_is_what_it_was(tmp_path: Path, device: str, *, dictionary: bool) -> None:
    path = write(tmp_path / "e.parquet", everything(), row_group_size=1700, use_dictionary=dictionary)
    shop = Shop(device)
    for name in everything().column_names:
        where = f'"{name}" IS NOT NULL OR i8 > 2'
        sql = f'SELECT "{name}" AS x, count(*) AS n FROM {{}} WHERE {where} GROUP BY 1 ORDER BY 1 NULLS FIRST'
        expected = repr(answers(path, sql))
        for _ in range(2):
            assert repr(shop.rows(sql.format(f"'{path}'"))) == expected, name
        assert bool(shop.cached) == (name != "list"), name


@pytest.mark.parametrize("group", [100, 1777, ROWS])
def test_files_of_a_folder_are_one_table(tmp_path: Path, group: int) -> None:
    for number in range(3):
        write(tmp_path / f"{number}.parquet", numbers(number * ROWS), row_group_size=group)
    # One has its columns in another order.
    write(tmp_path / "3.parquet", numbers(7).select(["s", "k"]))
    write(tmp_path / "4.parquet", numbers(0, 0))
    shop, sql = Shop(), "SELECT s, count(*), sum(k) FROM {} WHERE k <> 3 GROUP BY s ORDER BY s"
    for _ in range(2):
        assert shop.rows(sql.format(f"'{tmp_path}/*.parquet'")) == answers(f"{tmp_path}/*.parquet", sql)
    assert shop.cached
    write(tmp_path / "2.parquet", numbers(1))
    assert shop.rows(sql.format(f"'{tmp_path}/*.parquet'")) == answers(f"{tmp_path}/*.parquet", sql)


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(tmp_path: Path, rows: int) -> None:
    shop, path = Shop(), write(tmp_path / "n.parquet", numbers(5, rows))
    for _ in range(2):
        assert shop.rows(total(path)) == answers(path, "SELECT count(*), sum(k), max(s) FROM {} WHERE k >= 0")


def test_queries_that_read_little_encode_nothing(tmp_path: Path) -> None:
    shop, path = Shop(), write(tmp_path / "n.parquet", numbers(), row_group_size=100)
    assert shop.rows(f"SELECT sum(k) FROM '{path}' WHERE k < 50") == [(1225,)]
    assert not shop.cached
    assert _warpmill.wait_for_background(60)
    assert shop.rows(f"SELECT sum(k) FROM '{path}' WHERE k < 50") == [(1225,)]
    assert not shop.cached
    # More of them: in the background, for the next one.
    some = f"SELECT count(*), sum(k) FROM '{path}' WHERE k < 2000"
    assert shop.rows(some) == [(2000, 1999000)]
    assert not shop.cached
    assert _warpmill.wait_for_background(60)
    assert shop.rows(some) == [(2000, 1999000)]
    assert shop.cached


def test_the_limit_holds(tmp_path: Path) -> None:
    shop = Shop()
    shop.con.execute("SET warpmill.column_cache_limit = '60KB'")
    paths = [write(tmp_path / f"{n}.parquet", numbers(n)) for n in range(8)]
    expected = [answers(path, "SELECT count(*), sum(k), max(s) FROM {} WHERE k >= 0") for path in paths]
    for _ in range(2):
        assert [shop.rows(total(path)) for path in paths] == expected
    kept = [bool(shop.rows(total(path)) and shop.cached) for path in paths]
    assert any(kept)
    shop.con.execute("SET warpmill.column_cache_limit = '10'")
    assert shop.rows(total(paths[-1])) == expected[-1]
    assert not shop.cached
    with pytest.raises(warpmill.Error, match="column_cache_limit"):
        shop.con.execute("SET warpmill.column_cache_limit = 'much'")


def test_a_limit_of_memory_counts(tmp_path: Path) -> None:
    shop, path = Shop(), write(tmp_path / "n.parquet", numbers(0, 200_000))
    shop.con.execute("SET warpmill.memory_limit = '64KB'")
    assert shop.rows(f"SELECT count(*) FROM '{path}' WHERE k > 5") == [(199_994,)]
    assert not shop.cached


def test_joins_of_kept_and_other_files(tmp_path: Path) -> None:
    left, right = write(tmp_path / "l.parquet", numbers()), tmp_path / "r.parquet"
    pq.write_table(numbers(10, 100), right)
    sql = f"SELECT count(*), sum(l.k), min(r.s) FROM '{left}' l JOIN '{right}' r ON l.k = r.k"
    shop, expected = Shop(), duckdb.connect().execute(sql).fetchall()
    for _ in range(2):
        assert shop.rows(sql) == expected
        assert shop.cached == ["l.parquet: 1 columns"]


def test_times_as_spark_stores_them_are_read_as_before(tmp_path: Path) -> None:
    moments = [dt.datetime(1, 1, 1), dt.datetime(1970, 1, 1), dt.datetime(9999, 12, 31)]
    path = write(tmp_path / "t.parquet", pa.table({"t": moments, "k": [1, 2, 3]}), use_deprecated_int96_timestamps=True)
    shop = Shop()
    for query in (f"SELECT t FROM '{path}' WHERE k > 0 ORDER BY k", f"SELECT sum(k) FROM '{path}' WHERE k > 0"):
        on = [repr(shop.rows(query)) for _ in range(2)]
        cached = bool(shop.cached)
        shop.con.execute("SET warpmill.column_cache = 'off'")
        assert on == [repr(shop.rows(query))] * 2
        assert cached == ("sum" in query)
        shop.con.execute("SET warpmill.column_cache = 'on'")


def test_row_groups_larger_than_row_segments(tmp_path: Path) -> None:
    count = 2_500_000
    many = pa.table({"k": pa.array(range(count), pa.int32()), "s": pa.array([str(i % 9) for i in range(count)])})
    path = write(tmp_path / "n.parquet", many, row_group_size=count)
    shop = Shop()
    for _ in range(2):
        assert shop.rows(f"SELECT count(*), sum(k), count(DISTINCT s) FROM '{path}' WHERE k >= 0") == [
            (count, count * (count - 1) // 2, 9)
        ]
        assert shop.cached


def test_sessions_that_forget_and_find_at_once(tmp_path: Path) -> None:
    """More columns than fit, used by many threads: no deadlock, and correct answers."""
    paths = [write(tmp_path / f"{n}.parquet", numbers(n)) for n in range(4)]
    expected = [answers(path, "SELECT count(*), sum(k), max(s) FROM {} WHERE k >= 0") for path in paths]
    shops = [Shop() for _ in range(6)]
    shops[0].con.execute("SET warpmill.column_cache_limit = '60KB'")

    def work(number: int) -> bool:
        shop = shops[number]
        return all(shop.rows(total(paths[i % 4])) == expected[i % 4] for i in range(number, number + 60))

    with ThreadPoolExecutor(len(shops)) as pool:
        assert all(pool.map(work, range(len(shops)), timeout=120))


def test_a_limit_reads_only_what_it_needs(tmp_path: Path) -> None:
    shop, path = Shop(), write(tmp_path / "n.parquet", numbers(0, 100_000))
    assert len(shop.rows(f"SELECT k + 1 FROM '{path}' WHERE k > 5 LIMIT 10")) == 10
    assert not shop.cached
    assert _warpmill.wait_for_background(60)
    assert len(shop.rows(f"SELECT k + 1 FROM '{path}' WHERE k > 5 LIMIT 11")) == 11
    assert not shop.cached


def test_what_has_no_room_is_not_tried_again(tmp_path: Path) -> None:
    shop, path = Shop(), write(tmp_path / "n.parquet", numbers(0, 100_000))
    shop.con.execute("SET warpmill.column_cache_limit = '300KB'")
    texts = f"SELECT count(*), max(s), sum(k) FROM '{path}' WHERE s || k <> ''"
    for _ in range(2):
        assert shop.rows(texts) == answers(path, "SELECT count(*), max(s), sum(k) FROM {} WHERE s || k <> ''")
    shop.con.execute("SET warpmill.column_cache_limit = '100MB'")
    shop.rows(texts)
    shop.rows(texts)
    assert shop.cached


def test_repeated_statements_keep_their_plan_until_a_file_comes(tmp_path: Path) -> None:
    folder, other = tmp_path / "data", tmp_path / "other"
    (folder / "year=2023").mkdir(parents=True)
    (folder / "ignored").mkdir()
    other.mkdir()
    (folder / "year=2024").symlink_to(other)
    write(folder / "year=2023" / "0.parquet", numbers())
    write(folder / "ignored" / "9.parquet", numbers(9))
    write(other / "1.parquet", numbers(0))
    con = warpmill.connect()
    con.execute(f"CREATE EXTERNAL TABLE t STORED AS PARQUET PARTITIONED BY (year) LOCATION '{folder}/'")
    query = "SELECT count(*), sum(k) FROM t"
    first = con.sql(query).fetchall()
    result = con.sql(query)
    assert result.profile["plan_cached"]
    assert result.fetchall() == first == [(2 * ROWS, ROWS * (ROWS - 1))]
    write(other / "2.parquet", numbers(0))
    result = con.sql(query)
    assert not result.profile["plan_cached"]
    assert result.fetchall() == [(3 * ROWS, sum(range(ROWS)) * 3)]
    os.remove(other / "2.parquet")
    assert con.sql(query).fetchall() == first


def test_relative_paths_begin_where_the_process_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    con = warpmill.connect()
    for first in (0, 50, 0):
        folder = tmp_path / str(first)
        folder.mkdir(exist_ok=True)
        if not (folder / "n.parquet").exists():
            write(folder / "n.parquet", numbers(first))
        monkeypatch.chdir(folder)
        for _ in range(2):
            assert con.sql("SELECT min(k) FROM 'n.parquet' WHERE k >= 0").fetchall() == [(first,)]


def test_joins_over_files_build_on_the_smaller_side(tmp_path: Path) -> None:
    large, small = write(tmp_path / "l.parquet", numbers(0, 50_000)), write(tmp_path / "s.parquet", numbers(0, 50))
    con = warpmill.connect(device="cpu")
    plans = [
        con.explain(f"SELECT count(*) FROM '{a}' a JOIN '{b}' b ON a.k = b.k")
        for a, b in ((large, small), (small, large))
    ]
    # The hash table is built on the first input.
    assert all(
        plan.find("projection=[k]") > 0 and plan.rfind("s.parquet") < plan.find("l.parquet") for plan in plans
    ), plans


def wide(columns: int, rows: int = 50_000) -> pa.Table:
    return pa.table(
        {f"c{c}": pa.array([(i * 7919 + c) % 1_000_003 for i in range(rows)], pa.int32()) for c in range(columns)}
    )


def test_columns_that_have_no_room_together_push_nothing_out(tmp_path: Path) -> None:
    other, large = write(tmp_path / "n.parquet", numbers()), write(tmp_path / "w.parquet", wide(6))
    shop = Shop()
    shop.con.execute("SET warpmill.column_cache_limit = '500KB'")
    sums = f"SELECT {' + '.join(f'sum(c{c})' for c in range(6))} FROM '{large}' WHERE c0 >= 0"
    shop.rows(total(other))
    assert shop.cached
    for _ in range(3):
        assert shop.rows(sums) == answers(large, sums.replace(f"'{large}'", "{}"))
        assert not shop.cached
    shop.rows(total(other))
    assert shop.cached
    # Some of them were.
    assert shop.rows(f"SELECT sum(c1) FROM '{large}' WHERE c1 >= 0")
    assert shop.cached


def test_the_room_of_one_session_is_not_anothers(tmp_path: Path) -> None:
    path, small, large = write(tmp_path / "w.parquet", wide(2)), Shop(), Shop()
    small.con.execute("SET warpmill.memory_limit = '400KB'")
    query = f"SELECT sum(c0), max(c1) FROM '{path}' WHERE c0 >= 0"
    expected = small.rows(query)
    assert not small.cached
    assert _warpmill.wait_for_background(60)
    assert large.rows(query) == expected
    assert large.cached


def test_plans_are_kept_for_the_usual_listing_only(tmp_path: Path) -> None:
    (tmp_path / "d" / "sub").mkdir(parents=True)
    write(tmp_path / "d" / "x.parquet", numbers())
    write(tmp_path / "d" / "sub" / "y.parquet", numbers())
    con = warpmill.connect()
    con.execute("SET datafusion.execution.listing_table_ignore_subdirectory = false")
    con.execute(f"CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{tmp_path}/d/'")
    for files in (2, 3):
        if files == 3:
            write(tmp_path / "d" / "sub" / "z.parquet", numbers())
        for _ in range(2):
            assert con.sql("SELECT count(*) FROM t WHERE k >= 0").fetchall() == [(files * ROWS,)]
