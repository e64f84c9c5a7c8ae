"""Parquet files on the simulated device, which decodes their pages: DuckDB's answers, or errors that name it."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import warpmill
from warpmill import _warpmill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    json.loads(_warpmill.devices())["no_simulated_device"] is not None, reason="no C++ compiler"
)

ROWS = 6000


def rows(count: int = ROWS) -> pa.Table:
    """Types of TPC-H and more, NULLs, a column too large for a dictionary, and nested columns."""
    day = datetime.date(1992, 1, 1)
    return pa.table(
        {
            "k": pa.array(range(count), pa.int64()),
            "i": pa.array([None if n % 11 == 0 else n * 13 % 41 - 20 for n in range(count)], pa.int32()),
            "b": pa.array([None if n % 7 == 3 else n % 3 == 0 for n in range(count)], pa.bool_()),
            "f": pa.array([None if n % 5 == 0 else n * 0.125 for n in range(count)], pa.float64()),
            "money": pa.array([decimal.Decimal(n * 37 - 9000) / 100 for n in range(count)], pa.decimal128(15, 2)),
            "day": pa.array([day + datetime.timedelta(days=n % 900) for n in range(count)], pa.date32()),
            "moment": pa.array([n * 1_000_003 for n in range(count)], pa.timestamp("us")),
            "word": pa.array([None if n % 13 == 5 else ["", "nord", "süd", "hafen"][n * n % 4] for n in range(count)]),
            "text": pa.array([f"row {n} of {count}" for n in range(count)]),
            "none": pa.array([None] * count, pa.int32()),
            "nested": pa.array([[n, n + 1] for n in range(count)], pa.list_(pa.int64())),
            "pair": pa.array([{"a": n, "b": str(n)} for n in range(count)]),
        }
    )


QUERIES = [
    "SELECT count(*), sum(k), min(i), max(i), sum(i), count(i), count(none), sum(money), min(money) FROM t",
    "SELECT min(day), max(day), min(moment), max(moment), min(text), max(text), count(DISTINCT word), sum(f) FROM t",
    "SELECT word, b, count(*), sum(money), max(text) FROM t GROUP BY word, b ORDER BY word, b",
    "SELECT k, i, b, money, day, word, text, none FROM t WHERE k % 97 = 5 AND (i > 0 OR i IS NULL) ORDER BY k",
    "SELECT k, text FROM t WHERE text LIKE '%99%' AND day < DATE '1993-03-01' ORDER BY k",
    "SELECT count(*), sum(k) FROM t WHERE k BETWEEN 2000 AND 2100",
]

WRITERS: dict[str, dict[str, Any]] = {
    "none v1": {"compression": "none"},
    "snappy v1, small pages": {"compression": "snappy", "data_page_size": 4000, "dictionary_pagesize_limit": 20_000},
    "snappy v2": {"compression": "snappy", "data_page_version": "2.0", "store_decimal_as_integer": True},
    "zstd v2": {"compression": "zstd", "data_page_version": "2.0", "data_page_size": 4000},
    "gzip v1": {"compression": "gzip"},
    "lz4, no dictionaries": {"compression": "lz4", "use_dictionary": False},
    "differences": {
        "compression": "snappy",
        "use_dictionary": ["word"],
        "store_decimal_as_integer": True,
        "column_encoding": {
            **dict.fromkeys(["k", "i", "day", "moment"], "DELTA_BINARY_PACKED"),
            **dict.fromkeys(["f", "money"], "BYTE_STREAM_SPLIT"),
            "text": "DELTA_LENGTH_BYTE_ARRAY",
        },
    },
    "no statistics": {"compression": "snappy", "write_statistics": False},
}


@pytest.fixture(scope="module")
def con() -> Iterator[warpmill.Connection]:
    # Kernels decompress supported codecs, although the host would be faster here.
    with warpmill.connect(device="sim", column_cache="off", device_fallback="error", representation="heavy") as opened:
        yield opened


def numbers(values: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Numbers of any type as floats."""
    as_number = (int, float, decimal.Decimal)

    def one(value: Any) -> Any:
        return float(value) if isinstance(value, as_number) and not isinstance(value, bool) else value

    return [tuple(one(value) for value in row) for row in values]


def nearly(values: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The same, to compare with: sums of DOUBLE come in any order, averages are rounded or cut."""
    return [
        tuple(pytest.approx(value, rel=1e-9, abs=2e-6) if isinstance(value, float) else value for value in row)
        for row in numbers(values)
    ]


def decoded(result: Any) -> list[dict[str, Any]]:
    """The profiles of Parquet scans, all of which must have run on the device."""
    programs = result.profile["programs"]
    assert {program["device"] for program in programs} == {"sim"}, [p["not_on_device"] for p in programs]
    assert not any(program["decoded_on_host"] for program in programs), programs
    return [scan["parquet"] for program in programs for scan in program["on_device"]["scans"] if scan["parquet"]]


def check(con: warpmill.Connection, path: Path | str, queries: list[str] = QUERIES) -> None:
    """The device decodes every column that queries read, and the answers are DuckDB's."""
    con.register_file("t", path)
    other = duckdb.connect()
    other.sql(f"CREATE VIEW t AS SELECT * FROM read_parquet('{path}')")
    for query in queries:
        result = con.sql(query)
        assert numbers(result.fetchall()) == nearly(other.sql(query).fetchall()), query
        scans = decoded(result)
        assert scans, query
        assert all(scan["by_host"] == 0 for scan in scans), scans


@pytest.mark.parametrize("name", WRITERS)
def test_files_of_pyarrow(con: warpmill.Connection, tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(rows(), path, row_group_size=2500, write_batch_size=500, **WRITERS[name])
    # Kernels take their time to compile: all queries once.
    check(con, path, QUERIES if name == "none v1" else QUERIES[1:3])


@pytest.mark.parametrize(
    "options", ["CODEC snappy", "CODEC zstd, ROW_GROUP_SIZE 2048", "CODEC uncompressed, PARQUET_VERSION v2"]
)
def test_files_of_duckdb(con: warpmill.Connection, tmp_path: Path, options: str) -> None:
    path = tmp_path / "t.parquet"
    table = rows()
    other = duckdb.connect()
    other.register("source", table)
    other.sql(f"COPY source TO '{path}' (FORMAT parquet, {options})")
    check(con, path, QUERIES if options == "CODEC snappy" else QUERIES[1:3])


#: Strings of a large page. Lanes guess where strings begin: by bytes that are lengths, seem to be, or are all the same.
LONG_TEXTS: dict[str, Callable[[int], str | None]] = {
    "of any length": lambda n: "x" * (n * 7919 % 60) + str(n),
    "empty": lambda _: "",
    "mostly empty": lambda n: "" if n % 50 else f"row {n}",
    "like lengths": lambda n: "\x05\x00\x00\x00abcde" * (n % 9),
    "like empty ones": lambda n: "\x00" * (n % 40),
    "missing": lambda n: None if n % 3 else f"{n} and some more",
    "long and short": lambda n: "y" * 9000 if n % 997 == 0 else "z",
    "ends of others": lambda n: ("\x03\x00\x00\x00" * 3)[: n % 13],
}


@pytest.mark.parametrize("name", LONG_TEXTS)
def test_strings_of_large_pages(con: warpmill.Connection, tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.parquet"
    texts = [LONG_TEXTS[name](n) for n in range(6000)]
    table = pa.table({"k": pa.array(range(6000), pa.int64()), "text": pa.array(texts, pa.string())})
    pq.write_table(table, path, compression="none", use_dictionary=False, data_page_size=1 << 20)
    con.register_file("t", path)
    result = con.sql("SELECT k, text FROM t ORDER BY k")
    assert all(scan["by_host"] == 0 for scan in decoded(result))
    assert result.fetchall() == list(enumerate(texts))


def test_differences_wrap(con: warpmill.Connection, tmp_path: Path) -> None:
    """Integers whose differences need all bits, and NULLs across blocks and tiles."""
    path = tmp_path / "t.parquet"
    large = [[2**63 - 1, -(2**63), 0, -1][n % 4] if n % 6 else None for n in range(4000)]
    small = [[2**31 - 1, -(2**31), 5][n % 3] if n % 1100 > 40 else None for n in range(4000)]
    table = pa.table({"a": pa.array(large, pa.int64()), "b": pa.array(small, pa.int32()), "c": pa.array(range(4000))})
    pq.write_table(
        table,
        path,
        use_dictionary=False,
        column_encoding=dict.fromkeys("abc", "DELTA_BINARY_PACKED"),
        data_page_size=9000,
        write_batch_size=700,
    )
    check(con, path, ["SELECT a, b, count(*), min(c), max(c) FROM t GROUP BY a, b ORDER BY a, b"])


def test_row_groups_are_pruned_and_files_read_together(con: warpmill.Connection, tmp_path: Path) -> None:
    table = rows()
    for part in range(3):
        pq.write_table(table.slice(part * 2000, 2000), tmp_path / f"{part}.parquet", row_group_size=500)
    check(con, f"{tmp_path}/*.parquet")
    result = con.sql("SELECT count(*), min(text) FROM t WHERE k >= 5600")
    (program,) = result.profile["programs"]
    (scan,) = program["on_device"]["scans"]
    assert (scan["pruning"]["segments"], scan["pruning"]["segments_pruned"]) == (12, 11)
    assert result.fetchone() == (400, "row 5600 of 6000")


@pytest.mark.parametrize("count", [0, 1, 1025])
def test_few_rows(con: warpmill.Connection, tmp_path: Path, count: int) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(rows(count), path)
    con.register_file("t", path)
    other = duckdb.connect()
    other.sql(f"CREATE VIEW t AS SELECT * FROM read_parquet('{path}')")
    for query in [QUERIES[0], QUERIES[2]]:
        assert numbers(con.sql(query).fetchall()) == nearly(other.sql(query).fetchall()), query


def test_paths_and_external_tables(con: warpmill.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(rows(), path)
    con.sql(f"CREATE EXTERNAL TABLE outside STORED AS PARQUET LOCATION '{path}'")
    for table in ("outside", f"'{path}'"):
        result = con.sql(f"SELECT sum(k), max(text) FROM {table} WHERE i > 3")
        assert [scan["by_device"] for scan in decoded(result)] == [3], table
    con.sql("DROP TABLE outside")


def test_few_rows_without_statistics(con: warpmill.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({"k": pa.array([None], pa.int64()), "j": pa.array([7], pa.int64())}), path, write_statistics=False
    )
    con.register_file("t", path)
    assert con.sql("SELECT max(k), max(j), count(k) FROM t WHERE j > 0").fetchall() == [(None, 7, 0)]


def test_what_the_device_does_not_decode_is_told(con: warpmill.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = rows().drop_columns(["nested", "pair"])
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    query = "SELECT max(moment), sum(k) FROM t"
    con.register_file("t", path)
    result = con.sql(query)
    (program,) = result.profile["programs"]
    assert program["device"] == "sim"
    assert 'column "moment": it is stored as INT96' in program["decoded_on_host"][0]
    assert [row[1] for row in result.fetchall()] == [sum(range(ROWS))]
    for analyze in (False, True):
        assert "it is stored as INT96" in con.explain(query, analyze=analyze)


def test_a_file_that_changes_is_read_anew(con: warpmill.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for count in (100, 3000, 50):
        pq.write_table(rows(count), path)
        con.register_file("t", path)
        assert con.sql("SELECT count(text), sum(k) FROM t").fetchone() == (count, sum(range(count)))


def test_damage_is_an_error_or_no_other_answer(con: warpmill.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = rows(3000).select(["k", "i", "word", "text", "money"])
    query = "SELECT sum(k), sum(i), max(word), max(text), count(word), sum(money) FROM t"
    pq.write_table(table, path, compression="snappy", write_page_checksum=True, row_group_size=1000)
    whole = path.read_bytes()
    con.register_file("t", path)
    expected = con.sql(query).fetchall()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    for number in range(12):
        damaged = bytearray(whole)
        at = 4 + (number * 7919 + 1234) % (len(whole) - footer - 4)
        damaged[at] ^= 1 << number % 8
        path.write_bytes(damaged)
        # A part that is not read may be damaged: statistics in page headers, for instance.
        answer = outcome(con, query)
        assert answer == expected or all(part in str(answer) for part in ("t.parquet", "row group", "column")), answer


def outcome(con: warpmill.Connection, query: str) -> list[tuple[Any, ...]] | str:
    """The answer, or the error."""
    try:
        return con.sql(query).fetchall()
    except warpmill.Error as error:
        return str(error)


def test_statistics_that_lie_are_noticed(con: warpmill.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"k": pa.array([5, 6, 77_777_777, 8] * 300, pa.int64())}), path, use_dictionary=False)
    content = path.read_bytes()
    greatest = (77_777_777).to_bytes(8, "little")
    start = len(content) - int.from_bytes(content[-8:-4], "little") - 8
    # In the footer only: the values stay.
    path.write_bytes(content[:start] + content[start:].replace(greatest, (9).to_bytes(8, "little")))
    con.register_file("t", path)
    with pytest.raises(warpmill.Error, match=r'row group 0, column "k".*outside of their statistics'):
        con.sql("SELECT sum(k * 2) FROM t")


def test_a_file_that_was_cut_is_an_error(con: warpmill.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(rows(), path, compression="zstd")
    con.register_file("t", path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(warpmill.Error, match=r"t\.parquet|Parquet|parquet"):
        con.sql("SELECT sum(k) + 1 FROM t WHERE i > 3")


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tpch")
    files = {}
    for name in _warpmill.tables("tpch"):
        files[name] = folder / f"{name}.parquet"
        _warpmill.generate_parquet("tpch", name, 0.01, str(files[name]), 0, None)
    return files


@pytest.mark.parametrize("number", ["1", "3", "6", "12", "14"])
def test_tpch(tpch: dict[str, Path], number: str) -> None:
    query = dict(_warpmill.queries("tpch"))[number]
    other = duckdb.connect()
    with warpmill.connect(device="sim", column_cache="off", device_fallback="error", fallback="error") as con:
        for name, path in tpch.items():
            con.register_file(name, path)
            other.sql(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{path}')")
        result = con.sql(query)
        assert numbers(result.fetchall()) == nearly(other.sql(query).fetchall())
        scans = decoded(result)
        assert scans
        assert all(scan["by_device"] > 0 and scan["by_host"] == 0 for scan in scans)
