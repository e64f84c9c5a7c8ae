"""Pages of Parquet files that page indexes and Bloom filters rule out on the simulated device: DuckDB's answers."""

from __future__ import annotations

import datetime
import decimal
import json
import random
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

pytestmark = pytest.mark.skipif(
    json.loads(_warpmill.devices())["no_simulated_device"] is not None, reason="no C++ compiler"
)

ROWS = 20_000
EPOCH = datetime.datetime(2001, 9, 9)


def rows(count: int = ROWS) -> pa.Table:
    """Types whose values ascend, descend, lie in clusters, or are random, each some with NULLs and pages of NULLs."""
    rng = random.Random(4)
    clusters = [rng.randrange(-1000, 1000) for _ in range(count // 500 + 1)]
    long = "the same beginning that is longer than any bound of a page "

    def cluster(n: int) -> int:
        return clusters[n // 500] * 50 + n % 7

    def maybe(n: int, value: Any) -> Any:
        return None if n % 17 == 3 or n // 1500 % 4 == 2 else value

    day = datetime.date(1992, 1, 1)
    return pa.table(
        {
            "k": pa.array(range(count), pa.int64()),
            "i": pa.array([maybe(n, cluster(n)) for n in range(count)], pa.int32()),
            "u": pa.array([2**64 - 1 - 3 * n for n in range(count)], pa.uint64()),
            "small": pa.array([n // 200 % 100 - 50 for n in range(count)], pa.int8()),
            "f": pa.array(
                [float("nan") if n % 991 == 0 else maybe(n, n / 8 - 100) for n in range(count)], pa.float64()
            ),
            "g": pa.array([-n / 4 for n in range(count)], pa.float32()),
            "money": pa.array([decimal.Decimal(cluster(n) * 7) / 100 for n in range(count)], pa.decimal128(15, 2)),
            "wide": pa.array([decimal.Decimal((n - count // 2) * 10**25) for n in range(count)], pa.decimal128(38, 0)),
            "day": pa.array([maybe(n, day + datetime.timedelta(days=n // 40)) for n in range(count)], pa.date32()),
            "ms": pa.array([EPOCH + datetime.timedelta(seconds=n) for n in range(count)], pa.timestamp("ms")),
            "us": pa.array([EPOCH - datetime.timedelta(seconds=n) for n in range(count)], pa.timestamp("us")),
            "word": pa.array([maybe(n, f"{chr(97 + cluster(n) % 26)}{n % 10}") for n in range(count)]),
            "text": pa.array([f"{long}{n:06}" if n % 3 else f"{n:06} süß" for n in range(count)]),
            "b": pa.array([n // 3000 % 2 == 0 for n in range(count)], pa.bool_()),
            "none": pa.array([None] * count, pa.int32()),
        }
    )


WRITERS: dict[str, dict[str, Any]] = {
    "snappy v1": {"compression": "snappy", "data_page_size": 3000, "row_group_size": 7001},
    "none v2": {"compression": "none", "data_page_version": "2.0", "data_page_size": 1500},
    "zstd v2, no dictionaries": {
        "compression": "zstd",
        "data_page_version": "2.0",
        "data_page_size": 4000,
        "use_dictionary": False,
        "store_decimal_as_integer": True,
    },
}

# Shapes of filters, and the values for their placeholders: each shape is one kernel.
SHAPES: list[tuple[str, str]] = [
    ("k BETWEEN {0} AND {1}", "k"),
    ("i > {0} AND i < {1}", "i"),
    ("i = {0} OR k = {1}", "k"),
    ("u >= 18446744073709500000 + {0} AND u <= 18446744073709500000 + {1}", "k"),
    ("small IN ({0}, {1})", "small"),
    ("f BETWEEN {0} AND {1}", "k"),
    ("g < -{0} AND k < {1}", "k"),
    ("money BETWEEN {0} AND {1}", "i"),
    ("wide BETWEEN {0} * 10000000000000000000000000 AND {1} * 10000000000000000000000000", "small"),
    ("day BETWEEN DATE '1992-01-01' + {0} AND DATE '1992-01-01' + {1}", "small"),
    ("ms >= TIMESTAMP '2001-09-09 00:{2:02}:00' AND us < TIMESTAMP '2001-09-08 23:{3:02}:00'", "k"),
    ("word = '{4}'", "k"),
    ("text BETWEEN '{0:06}' AND '{1:06}'", "k"),
    ("text > 'the same beginning that is longer than any bound of a page {0:06}'", "k"),
    ("i IS NULL AND k < {1}", "k"),
    ("none IS NOT NULL OR k > {1}", "k"),
    ("b AND k BETWEEN {0} AND {1}", "k"),
    ("NOT (k < {0} OR k > {1}) AND word IS NOT NULL", "k"),
]

ANSWER = "count(*), sum(k), count(i), sum(money), count(word) FROM t WHERE"


def filters(rng: random.Random, shape: str, kind: str) -> str:
    """A filter of a shape, of few rows mostly."""
    if kind == "k":
        low = rng.randrange(-10, ROWS)
        high = low + rng.choice([0, 5, 300, 3000])
    elif kind == "i":
        low = rng.randrange(-52_000, 50_000)
        high = low + rng.choice([10, 2000])
    else:
        low = rng.randrange(-60, 60)
        high = low + rng.choice([0, 3, 20])
    word = f"{chr(97 + rng.randrange(26))}{rng.randrange(10)}"
    return shape.format(max(low, 0) if kind == "k" else low, high, rng.randrange(60), rng.randrange(60), word)


@pytest.fixture(scope="module")
def con() -> Iterator[warpmill.Connection]:
    with warpmill.connect(device="sim", column_cache="off", device_fallback="error") as opened:
        yield opened


def plain(values: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Numbers of any type as floats."""
    as_number = (int, float, decimal.Decimal)
    return [
        tuple(float(v) if isinstance(v, as_number) and not isinstance(v, bool) else v for v in row) for row in values
    ]


def scans(result: Any) -> list[dict[str, Any]]:
    """The profiles of scans, all of which must have run on the device."""
    programs = result.profile["programs"]
    assert {program["device"] for program in programs} == {"sim"}, [p["not_on_device"] for p in programs]
    assert not any(program["decoded_on_host"] for program in programs), programs
    return [scan for program in programs for scan in program["on_device"]["scans"]]


def compare(con: warpmill.Connection, other: duckdb.DuckDBPyConnection, condition: str) -> dict[str, Any]:
    """The device's answer is DuckDB's; gives the profile of its scan."""
    result = con.sql(f"SELECT {ANSWER} {condition}")
    assert plain(result.fetchall()) == plain(other.sql(f"SELECT {ANSWER} {condition}").fetchall()), condition
    (scan,) = scans(result)
    return scan


@pytest.mark.parametrize("name", WRITERS)
def test_filters_find_what_duckdb_finds(con: warpmill.Connection, tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.parquet"
    table = rows()
    pq.write_table(table, path, write_page_index=True, write_batch_size=100, **WRITERS[name])
    con.register_file("t", path)
    other = duckdb.connect()
    other.sql(f"CREATE TABLE t AS SELECT * FROM read_parquet('{path}')")
    rng = random.Random(name)
    pruned = 0
    # Each shape takes a second or two to compile.
    for shape, kind in rng.sample(SHAPES, 6):
        for _ in range(8):
            scan = compare(con, other, filters(rng, shape, kind))
            pruned += scan["pruning"]["rows_pruned"] > 0
    assert pruned > 0


def test_only_pages_that_overlap_are_read(con: warpmill.Connection, tmp_path: Path) -> None:
    """Pages of different columns begin at different rows; columns without a filter are read where rows remain."""
    path = tmp_path / "t.parquet"
    table = rows().select(["k", "day", "text", "wide"])
    pq.write_table(table, path, write_page_index=True, write_batch_size=100, data_page_size=3000, use_dictionary=False)
    con.register_file("t", path)
    query = "SELECT count(*), min(text), max(text), sum(wide) FROM t WHERE k BETWEEN {} AND {}"
    other = duckdb.connect()
    other.sql(f"CREATE TABLE t AS SELECT * FROM read_parquet('{path}')")
    bytes_read = []
    for bounds in [(1, ROWS), (7000, 7000), (7000, 7500), (ROWS - 1, ROWS + 5), (-5, -1), (0, 0)]:
        result = con.sql(query.format(*bounds))
        assert plain(result.fetchall()) == plain(other.sql(query.format(*bounds)).fetchall()), bounds
        (scan,) = scans(result)
        bytes_read.append(scan["parquet"]["stored_bytes"])
        pruning = scan["pruning"]
        assert pruning["rows"] == ROWS
        if bounds == (7000, 7000):
            assert pruning["rows_pruned"] > ROWS - 1000
            assert pruning["by_minmax"] > 10
            assert scan["parquet"]["pages_left_out"] > 10
            assert "pages left out by indexes" in con.explain(query.format(*bounds), analyze=True)
    assert bytes_read[1] * 10 < bytes_read[0]
    assert bytes_read[1] <= bytes_read[2]
    assert bytes_read[4] == 0
    # Zones that are not to be pruned are not.
    con.sql("SET warpmill.pruning = 'none'")
    try:
        (scan,) = scans(con.sql(query.format(7000, 7000)))
        assert scan["parquet"]["stored_bytes"] == bytes_read[0]
    finally:
        con.sql("SET warpmill.pruning = 'all'")


def test_rows_far_apart_become_row_segments(con: warpmill.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    rng = random.Random(9)
    table = pa.table(
        {
            "c": pa.array([n // 4000 % 5 for n in range(60_000)], pa.int32()),
            "v": pa.array([rng.getrandbits(60) for _ in range(60_000)], pa.int64()),
        }
    )
    pages = {"write_page_index": True, "data_page_size": 8000, "write_batch_size": 500}
    pq.write_table(table, path, compression="none", use_dictionary=False, **pages)
    con.register_file("t", path)
    other = duckdb.connect()
    other.sql(f"CREATE TABLE t AS SELECT * FROM read_parquet('{path}')")
    for value in (1, 3, 7):
        query = f"SELECT count(*), sum(v % 1000), min(v) FROM t WHERE c = {value}"
        result = con.sql(query)
        assert plain(result.fetchall()) == plain(other.sql(query).fetchall())
        (scan,) = scans(result)
        # Three times 4000 rows in a row for each value.
        assert scan["pruning"]["rows_pruned"] >= 40_000
        assert scan["parquet"]["by_device"] == (0 if value == 7 else 6)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_rows(con: warpmill.Connection, tmp_path: Path, count: int) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(rows(count), path, write_page_index=True)
    con.register_file("t", path)
    other = duckdb.connect()
    other.sql(f"CREATE TABLE t AS SELECT * FROM read_parquet('{path}')")
    for condition in ("k BETWEEN 0 AND 0", "k BETWEEN 5 AND 9"):
        query = f"SELECT {ANSWER} {condition}"
        assert plain(con.sql(query).fetchall()) == plain(other.sql(query).fetchall()), condition


@pytest.mark.parametrize("at", [0, 1, 999])
def test_a_page_of_one_row_need_not_be_null(con: warpmill.Connection, tmp_path: Path, at: int) -> None:
    path = tmp_path / "t.parquet"
    ids = [None if n == at else n for n in range(4001)]
    table = pa.table({"id": pa.array(ids, pa.int64()), "k": pa.array(range(4001), pa.int64())})
    options: dict[str, Any] = {"write_page_index": True, "write_batch_size": 1000, "data_page_size": 1}
    pq.write_table(table, path, compression="none", use_dictionary=False, **options)
    con.register_file("t", path)
    for wanted in (4000, 3999, 1000, 2):
        assert con.sql(f"SELECT k, id FROM t WHERE id = {wanted}").fetchall() == [(wanted, wanted)]
    assert con.sql("SELECT k FROM t WHERE id IS NULL").fetchall() == [(at,)]
    assert con.sql("SELECT count(id), max(id) FROM t WHERE id > 3998").fetchall() == [(2, 4000)]


def test_bloom_filters_of_duckdb(con: warpmill.Connection, tmp_path: Path) -> None:
    """Row groups whose bounds include a value that none of their rows has."""
    path = tmp_path / "t.parquet"
    other = duckdb.connect()
    other.sql(
        "CREATE TABLE t AS SELECT (n * 7919 % 250) * 2 AS k, CAST((n % 500) * 2 AS INTEGER) AS i,"
        " 'value ' || (n % 300) AS s, CAST((n % 400) * 2 AS DECIMAL(12, 2)) AS m, n AS v FROM range(20000) r(n)"
    )
    other.sql(f"COPY t TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 4096)")
    blooms = other.sql(f"SELECT count(bloom_filter_offset) FROM parquet_metadata('{path}')").fetchall()
    assert blooms[0][0] > 0
    con.register_file("t", path)
    for condition, is_there in [
        ("k = 78", True),
        ("k = 77", False),
        ("k IN (77, 101, 3)", False),
        ("i = 400", True),
        ("i = 401", False),
        ("s = 'value 17'", True),
        ("s = 'value 1717'", False),
        ("s IN ('value 1717', 'value 99999')", False),
        ("m = 3", False),
        ("m = 4", True),
        ("s = 'value 17' AND i = 401", False),
    ]:
        query = f"SELECT count(*), sum(v) FROM t WHERE {condition}"
        result = con.sql(query)
        found = result.fetchall()
        assert plain(found) == plain(other.sql(query).fetchall()), condition
        assert (found[0][0] > 0) == is_there, condition
        (scan,) = scans(result)
        assert (scan["pruning"]["by_bloom"] > 0) == (not is_there), (condition, scan)


def outcome(con: warpmill.Connection, query: str) -> list[tuple[Any, ...]] | str:
    """The answer, or the error."""
    try:
        return con.sql(query).fetchall()
    except warpmill.Error as error:
        return str(error)


def test_damaged_indexes_are_errors_or_no_other_answer(con: warpmill.Connection, tmp_path: Path) -> None:
    """Only for an unread page may a column index contain anything, if it contradicts nothing."""
    path = tmp_path / "t.parquet"
    table = rows(6000).select(["k", "i", "text"])
    pq.write_table(table, path, write_page_index=True, data_page_size=2000, write_batch_size=50, use_dictionary=False)
    whole = path.read_bytes()
    con.register_file("t", path)
    query = "SELECT count(*), sum(k), min(text), sum(i) FROM t WHERE k BETWEEN 3100 AND 3222"
    expected = con.sql(query).fetchall()
    footer = len(whole) - int.from_bytes(whole[-8:-4], "little") - 8
    # Column indexes, then offset indexes, then the footer.
    last = pq.ParquetFile(path).metadata.row_group(0).column(2)
    start = last.data_page_offset + last.total_compressed_size
    rng = random.Random(1)
    for number in range(60):
        damaged = bytearray(whole)
        at = rng.randrange(start, footer)
        damaged[at] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        answer = outcome(con, query)
        if isinstance(answer, str):
            # DataFusion, which plans, reads indexes too, and names no file.
            planning = "EOF" in answer or "Parquet error" in answer
            assert planning or all(part in answer for part in ("t.parquet", "row group", "column")), answer
        else:
            # Pages that were left out because of it.
            assert answer == expected or answer[0][0] < expected[0][0], (number, at, answer)


def test_bounds_that_lie_about_pages_that_are_read_are_noticed(con: warpmill.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    # Pages of 250 rows, in no order, of which the twelfth has the values from 4000 on.
    table = pa.table({"k": pa.array([n // 250 * 7 % 16 * 1000 + n % 250 * 2 for n in range(4000)], pa.int64())})
    pq.write_table(table, path, write_page_index=True, data_page_size=2000, write_batch_size=50, use_dictionary=False)
    con.register_file("t", path)
    query = "SELECT count(*) FROM t WHERE k BETWEEN 4100 AND 4101"
    (scan,) = scans(con.sql(query))
    assert scan["pruning"]["rows_pruned"] == 3750
    content = path.read_bytes()
    metadata = pq.ParquetFile(path).metadata.row_group(0).column(0)
    start = metadata.data_page_offset + metadata.total_compressed_size
    old, new = (4000).to_bytes(8, "little"), (4001).to_bytes(8, "little")
    assert content.count(old, start) == 1
    path.write_bytes(content[:start] + content[start:].replace(old, new))
    answer = outcome(con, query)
    assert "outside of their statistics" in str(answer), answer
    assert all(part in str(answer) for part in ("t.parquet", "row group 0", 'column "k"')), answer


PREFIXES = {
    "snappy v1": {"compression": "snappy", "data_page_size": 3000, "write_batch_size": 100},
    "zstd v2": {"compression": "zstd", "data_page_version": "2.0", "row_group_size": 2500},
}


@pytest.mark.parametrize("name", PREFIXES)
def test_strings_that_begin_as_the_ones_before_them(con: warpmill.Connection, tmp_path: Path, name: str) -> None:
    """DELTA_BYTE_ARRAY: sorted and not, empty, equal, long, with NULLs; and decimals."""
    path = tmp_path / "t.parquet"
    count = 5000
    rng = random.Random(2)
    table = pa.table(
        {
            "k": pa.array(range(count), pa.int64()),
            "sorted": pa.array([f"https://example.org/süß/{n // 3:07}/{'x' * (n % 40)}" for n in range(count)]),
            "mixed": pa.array(
                [None if n % 7 == 1 else "".join(rng.choices("ab日", k=rng.randrange(9))) for n in range(count)]
            ),
            "equal": pa.array(["the same" if n % 1000 else "" for n in range(count)]),
            "long": pa.array([("long " * (n % 300)) if n % 50 == 0 else "" for n in range(count)]),
            "money": pa.array([decimal.Decimal(n * 37 - 9000) / 100 for n in range(count)], pa.decimal128(15, 2)),
            "wide": pa.array([None if n % 5 == 0 else decimal.Decimal(10**30 + n) for n in range(count)]),
            "none": pa.array([None] * count, pa.string()),
        }
    )
    names = table.column_names[1:]
    encodings = dict.fromkeys(names, "DELTA_BYTE_ARRAY")
    pq.write_table(
        table, path, write_page_index=True, use_dictionary=False, column_encoding=encodings, **PREFIXES[name]
    )
    con.register_file("t", path)
    other = duckdb.connect()
    other.sql(f"CREATE TABLE t AS SELECT * FROM read_parquet('{path}')")
    for query in [
        f"SELECT {', '.join(f'min({c}), max({c}), count({c})' for c in names)} FROM t",
        "SELECT k, sorted, mixed, equal, long, money, wide, none FROM t WHERE k % 61 = 7 ORDER BY k",
        "SELECT mixed, count(*), sum(money), max(sorted) FROM t GROUP BY mixed ORDER BY 1",
        "SELECT k, sorted, long FROM t WHERE k BETWEEN 2100 AND 2130 ORDER BY k",
    ]:
        result = con.sql(query)
        assert plain(result.fetchall()) == plain(other.sql(query).fetchall()), query
        for scan in scans(result):
            assert scan["parquet"]["by_host"] == 0, scan["parquet"]["reasons"]
            assert scan["parquet"]["by_device"] > 0


@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_damaged_prefixes_are_told_by_their_checksum(con: warpmill.Connection, tmp_path: Path, codec: str) -> None:
    """Checked before use: the host adds up page bytes."""
    path = tmp_path / "t.parquet"
    values = [f"value {n // 7:05} of {n % 13}" for n in range(3000)]
    table = pa.table({"text": pa.array(values)})
    options: dict[str, Any] = {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}
    pq.write_table(table, path, compression=codec, write_page_checksum=True, write_statistics=False, **options)
    whole = path.read_bytes()
    con.register_file("t", path)
    query = "SELECT max(text), sum(length(text)), count(DISTINCT text) FROM t"
    assert con.sql(query).fetchall() == [(max(values), sum(map(len, values)), len(set(values)))]
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    # All of it but the header.
    first, end = column.data_page_offset + 60, column.data_page_offset + column.total_compressed_size
    for number in range(8):
        damaged = bytearray(whole)
        damaged[first + (number * 7919) % (end - first)] ^= 1 << number
        path.write_bytes(damaged)
        with pytest.raises(warpmill.Error, match=r't\.parquet.*row group 0, column "text".*checksum of a page'):
            con.sql(query)
