"""Writes of few rows to tables on disk: in a log beside the table, as right and as durable as large ones."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from pathlib import Path

CREATE = "CREATE TABLE t (k BIGINT, v INTEGER, s VARCHAR, x DOUBLE, d DECIMAL(12,2), day DATE)"
ALL = "SELECT * FROM t ORDER BY ALL"


def files(folder: Path) -> list[str]:
    """The names of the files of the table."""
    return sorted(path.name for path in (folder / "t").iterdir())


def values(random: random.Random, k: int) -> str:
    """A row, with NULLs and strings that are new, or have been there."""
    text = random.choice(["NULL", f"'new {k}'", f"'word {k % 7}'", "''", "'süd'"])
    number = random.choice(["NULL", str(random.randrange(-(2**31), 2**31)), "0"])
    ratio = random.choice(["NULL", str(k / 8), "-0.5"])
    return f"({k}, {number}, {text}, {ratio}, {k % 1000}.25, DATE '2020-01-01' + {k % 400})"


@pytest.mark.parametrize("base", [0, 3000])
def test_inserts_of_rows_make_few_files(tmp_path: Path, base: int) -> None:
    with warpmill.connect(tmp_path) as con:
        con.execute(f"CREATE TABLE t AS SELECT i AS k, 'x' || i AS s FROM range({base}) r(i)")
        for i in range(200):
            con.execute(f"INSERT INTO t VALUES ({base + i}, 'x{base + i}')")
        assert len(files(tmp_path)) < 12
        assert sum(name.endswith(".log") for name in files(tmp_path)) == 1
        expected = [(base + 200, base + 200, "x0", "x999" if base else "x99")]
        assert con.execute("SELECT count(*), count(DISTINCT s), min(s), max(s) FROM t").fetchall() == expected
    with warpmill.connect(tmp_path) as con:
        assert con.execute("SELECT count(*), count(DISTINCT s), min(s), max(s) FROM t").fetchall() == expected
        assert con.execute("SELECT * FROM t ORDER BY k").fetchall() == [(i, f"x{i}") for i in range(base + 200)]


@pytest.mark.parametrize("seed", range(4))
def test_random_statements_give_what_duckdb_gives(tmp_path: Path, seed: int) -> None:
    own = random.Random(seed)
    con, other = warpmill.connect(tmp_path), duckdb.connect()
    both = (con, other)
    for engine in both:
        engine.execute(CREATE)
    key, within = 0, False
    for step in range(160):
        kind = own.randrange(20)
        text = None
        if kind < 11:
            count = own.choice([1, 1, 1, 2, 30])
            text = "INSERT INTO t VALUES " + ", ".join(values(own, key + i) for i in range(count))
            key += count
        elif kind < 13:
            text = f"UPDATE t SET v = k % 100, s = 'updated ' || k % 5 WHERE k % 17 = {own.randrange(17)}"
        elif kind < 15:
            text = f"DELETE FROM t WHERE k % 23 = {own.randrange(23)}"
        elif kind == 15:
            text = f"INSERT INTO t SELECT k + {key}, v, s, x, d, day FROM t WHERE k < {key // 3}"
            key *= 2
        elif kind < 18:
            text = own.choice(["COMMIT", "COMMIT", "ROLLBACK"]) if within else "BEGIN"
            within = not within
        elif kind == 18 and not within:
            con.execute("OPTIMIZE t")
        elif not within:
            con.close()
            con = warpmill.connect(tmp_path)
            both = (con, other)
        if text is not None:
            for engine in both:
                engine.execute(text)
        if step % 8 == 0:
            assert con.execute(ALL).fetchall() == other.execute(ALL).fetchall(), text
    if within:
        for engine in both:
            engine.execute("COMMIT")
    con.close()
    with warpmill.connect(tmp_path) as con:
        assert con.execute(ALL).fetchall() == other.execute(ALL).fetchall()
        grouped = "SELECT s, count(*), sum(v), max(day) FROM t GROUP BY s ORDER BY ALL"
        assert con.execute(grouped).fetchall() == other.execute(grouped).fetchall()
    other.close()


WRITER = """
import sys, warpmill
folder, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with warpmill.connect(folder) as con:
    done = 0
    while done < count:
        try:
            con.execute(f"INSERT INTO t VALUES ('{name}', {done})")
            done += 1
        except warpmill.ConflictError:
            pass
"""


def test_two_processes_write_at_once_and_a_reader_sees_whole_prefixes(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path) as con:
        con.execute("CREATE TABLE t (name VARCHAR, i INTEGER)")
        command = [sys.executable, "-c", WRITER, str(tmp_path)]
        writers = [subprocess.Popen([*command, name, "120"]) for name in ("a", "b")]
        query = "SELECT name, count(*), max(i), count(DISTINCT i) FROM t GROUP BY name ORDER BY name"
        last: dict[str, int] = {}
        while any(writer.poll() is None for writer in writers):
            for name, count, most, distinct in con.execute(query).fetchall():
                assert count == most + 1 == distinct
                assert count >= last.get(name, 0)
                last[name] = count
        assert [writer.wait() for writer in writers] == [0, 0]
        assert con.execute(query).fetchall() == [("a", 120, 119, 120), ("b", 120, 119, 120)]


def test_a_statement_that_began_before_reads_its_version(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path) as con, warpmill.connect(tmp_path) as other:
        con.execute("CREATE TABLE t (i INTEGER)")
        for i in range(10):
            con.execute(f"INSERT INTO t VALUES ({i})")
        other.execute("BEGIN")
        assert other.execute("SELECT count(*) FROM t").fetchall() == [(10,)]
        for i in range(10, 300):
            con.execute(f"INSERT INTO t VALUES ({i})")
        assert other.execute("SELECT count(*), max(i) FROM t").fetchall() == [(10, 9)]
        with pytest.raises(warpmill.ConflictError):
            other.execute("INSERT INTO t VALUES (1000)")
        other.execute("ROLLBACK")
        assert other.execute("SELECT count(*), max(i) FROM t").fetchall() == [(300, 299)]


def test_constraints_hold_of_rows_in_logs(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path) as con:
        con.execute("CREATE TABLE p (id INTEGER PRIMARY KEY, s VARCHAR UNIQUE)")
        con.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, p INTEGER REFERENCES p (id), n INTEGER CHECK (n > 0))")
        for i in range(60):
            con.execute(f"INSERT INTO p VALUES ({i}, 's{i}')")
            con.execute(f"INSERT INTO t VALUES ({i}, {i}, 1)")
    with warpmill.connect(tmp_path) as con:
        for text in (
            "INSERT INTO p VALUES (59, 'x')",
            "INSERT INTO p VALUES (100, 's7')",
            "INSERT INTO t VALUES (100, 61, 1)",
            "INSERT INTO t VALUES (100, 1, 0)",
            "DELETE FROM p WHERE id = 33",
        ):
            with pytest.raises(warpmill.ConstraintError):
                con.execute(text)
        con.execute("INSERT INTO t VALUES (7, 8, 2) ON CONFLICT (id) DO UPDATE SET n = excluded.n, p = excluded.p")
        con.execute("DELETE FROM t WHERE id = 33")
        con.execute("DELETE FROM p WHERE id = 33")
        assert con.execute("SELECT count(*), sum(n), sum(p) FROM t").fetchall() == [(59, 60, 1738)]
        assert con.execute("SELECT count(*) FROM p").fetchall() == [(59,)]


def test_a_transaction_of_rows_is_one_commit(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path) as con, warpmill.connect(tmp_path) as other:
        con.execute(CREATE)
        con.execute("INSERT INTO t (k) VALUES (1)")
        con.execute("INSERT INTO t (k) VALUES (2)")
        before = files(tmp_path)
        con.execute("BEGIN")
        for k in range(3, 203):
            con.execute(f"INSERT INTO t (k, s) VALUES ({k}, 'text {k}')")
        con.execute("UPDATE t SET v = 5 WHERE k = 100")
        assert files(tmp_path) == before
        assert con.execute("SELECT count(*), sum(v) FROM t").fetchall() == [(202, 5)]
        assert other.execute("SELECT count(*) FROM t").fetchall() == [(2,)]
        con.execute("COMMIT")
        assert other.execute("SELECT count(*), sum(v), count(DISTINCT s) FROM t").fetchall() == [(202, 5, 200)]
        # A record, and the mark of another version.
        assert len(files(tmp_path)) == len(before)


def test_rows_with_all_pruning_metadata_are_merged(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path, pruning_metadata="all") as con:
        con.execute("CREATE TABLE t (k BIGINT, s VARCHAR)")
        for k in range(600):
            con.execute(f"INSERT INTO t VALUES ({k}, 'word {k % 9}')")
        (column, _) = con.inspect("t")
        assert sum(column["encodings"].values()) <= 40
        assert con.execute("SELECT count(*), sum(k) FROM t WHERE k >= 300").fetchall() == [(300, 134850)]
    with warpmill.connect(tmp_path) as con:
        assert con.execute("SELECT count(*), count(DISTINCT s), max(k) FROM t").fetchall() == [(600, 9, 599)]


@pytest.mark.parametrize(
    "again",
    [
        ["CREATE OR REPLACE TABLE t AS SELECT 0 AS k, 'other' AS s"],
        ["DROP TABLE t", "CREATE TABLE t AS SELECT 0 AS k, 'other' AS s"],
    ],
)
def test_a_table_made_again_has_none_of_the_rows_before(tmp_path: Path, again: list[str]) -> None:
    with warpmill.connect(tmp_path) as con, warpmill.connect(tmp_path) as reader:
        con.execute("CREATE TABLE t AS SELECT 0 AS k, 'first' AS s")
        query = "SELECT count(*), max(k), min(s), max(s) FROM t"
        for _ in range(6):
            for k in range(1, 8):
                con.execute(f"INSERT INTO t VALUES ({k}, 'row {k}')")
                assert reader.execute(query).fetchall()[0][:2] == (k + 1, k)
            for text in again:
                con.execute(text)
            assert reader.execute(query).fetchall() == [(1, 0, "other", "other")]
    with warpmill.connect(tmp_path) as con:
        assert con.execute(query).fetchall() == [(1, 0, "other", "other")]
