"""Rows of files come in the order of the files, and stay so in tables that are made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import warpmill

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 3_000_000
#: Rows of a row group: several groups for each thread, and a short one at the end.
GROUP = 170_000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same rows in one Parquet file, in several, and as CSV: large enough to be split between threads."""
    folder = tmp_path_factory.mktemp("order")
    noise = np.random.default_rng(1).integers(0, 2**62, ROWS)
    table = pa.table({"i": np.arange(ROWS), "x": noise, "s": pa.array(noise).cast(pa.string())})
    pa.parquet.write_table(table, folder / "one.parquet", row_group_size=GROUP)
    pa.parquet.write_table(table, folder / "large.parquet", row_group_size=ROWS // 2)
    for part in range(5):
        length = ROWS // 5
        some = table.slice(part * length, length)
        pa.parquet.write_table(some, folder / f"part-{part}.parquet", row_group_size=GROUP)
    pa.csv.write_csv(table.select(["i", "x"]), folder / "one.csv")
    return {
        "one": f"{folder}/one.parquet",
        "large": f"{folder}/large.parquet",
        "several": f"{folder}/part-*.parquet",
        "csv": f"{folder}/one.csv",
    }


def numbers(con: warpmill.Connection, sql: str) -> np.ndarray:
    return np.asarray(pa.table(con.sql(sql)).column("i").to_numpy())


@pytest.mark.parametrize("threads", [2, 3, 16])
@pytest.mark.parametrize("form", ["one", "large", "several", "csv"])
def test_rows_come_in_the_order_of_files(files: dict[str, str], form: str, threads: int, tmp_path: Path) -> None:
    with warpmill.connect(tmp_path / "db", threads=threads, device="cpu") as con:
        con.execute("SET warpmill.column_cache = 'off'")
        source = f"'{files[form]}'"
        assert np.array_equal(numbers(con, f"SELECT * FROM {source}"), np.arange(ROWS))
        computed = numbers(con, f"SELECT i + 1 AS i FROM {source} WHERE x % 3 > 5 OR i >= 0")
        assert np.array_equal(computed, np.arange(ROWS) + 1)
        if form != "several":  # LIMIT takes the file whose footer is read first.
            assert np.array_equal(numbers(con, f"SELECT i FROM {source} LIMIT 10"), np.arange(10))
        con.execute(f"CREATE TABLE t AS SELECT * FROM {source}")
        con.execute(f"INSERT INTO t SELECT * FROM {source}")
        assert np.array_equal(numbers(con, "SELECT i FROM t"), np.tile(np.arange(ROWS), 2))
        con.execute(f"COPY (SELECT i, x + 1 AS x FROM {source}) TO '{tmp_path}/copied.parquet'")
        copied = pa.parquet.read_table(tmp_path / "copied.parquet", columns=["i"])
        assert np.array_equal(copied.column("i").to_numpy(), np.arange(ROWS))


def test_tables_of_files_keep_their_order(files: dict[str, str], tmp_path: Path) -> None:
    """Each row segment has its own part of the values, so that scans skip the others."""
    with warpmill.connect(tmp_path / "db", threads=4, device="cpu") as con:
        con.execute("SET warpmill.segment_rows = 65536")
        con.execute(f"CREATE TABLE t AS SELECT i, x FROM '{files['one']}'")
        result = con.sql("SELECT count(*), sum(x) FROM t WHERE i BETWEEN 1500000 AND 1510000")
        assert result.fetchall()[0][0] == 10001
        segments = con.sql(
            "SELECT DISTINCT i // 65536 AS s, (row_number() OVER () - 1) // 65536 AS own FROM t"
        ).fetchall()
        assert len(segments) == -(-ROWS // 65536)


@pytest.mark.parametrize("form", ["one", "large"])
def test_small_limits_read_less_ahead(files: dict[str, str], form: str, tmp_path: Path) -> None:
    with warpmill.connect(threads=16, device="cpu", memory_limit="64MB") as con:
        target = tmp_path / "copied.parquet"
        con.execute(f"COPY (SELECT * FROM '{files[form]}') TO '{target}'")
        copied = pa.parquet.read_table(target, columns=["i"]).column("i").to_numpy()
        assert np.array_equal(copied, np.arange(ROWS))
