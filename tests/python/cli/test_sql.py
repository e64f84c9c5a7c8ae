"""`warpmill sql`: sources of statements, and output of all their rows."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from .support import run

if TYPE_CHECKING:
    from pathlib import Path

ROWS = "SELECT * FROM (VALUES (1, 'a|b', NULL), (NULL, 'two\nlines', 2.50)) v(i, s, d)"


def test_every_result_is_printed() -> None:
    done = run("sql", "SELECT 1 AS one; SELECT 2 AS two", "--format", "csv")
    assert (done.exit_code, done.output) == (0, "one\n1\ntwo\n2\n")
    done = run("sql", "SELECT 1 AS one; SELECT 2 AS two")
    assert done.output.count("1 row, 1 column") == 2


def test_counts_of_writes_do_not_mix_with_rows() -> None:
    text = "CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2); SELECT sum(a) AS s FROM t"
    assert run("sql", text, "--format", "csv").output == "s\n3\n"
    last = run("sql", "CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)", "--format", "csv")
    assert last.output.splitlines()[-1] == "2"


def test_statements_come_from_files_options_and_arguments(tmp_path: Path) -> None:
    first, second = tmp_path / "first.sql", tmp_path / "second.sql"
    first.write_text("-- a table\nCREATE TABLE t AS SELECT 7 AS a;\n")
    second.write_text("SELECT a FROM t")
    done = run("sql", "-f", first, "-f", second, "-c", "SELECT a + 1 AS b FROM t", "SELECT 9 AS c", "-F", "csv")
    assert (done.exit_code, done.output) == (0, "a\n7\nb\n8\nc\n9\n")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    done = run("sql")
    assert done.exit_code == 2
    assert "-f FILE" in done.output
    done = run("sql", "-f", "csv")
    assert done.exit_code == 2
    assert "--format csv" in " ".join(done.output.split())
    assert run("sql", "-f", tmp_path / "nowhere.sql").exit_code == 2
    assert run("sql", " ; -- nothing").exit_code == 2
    assert run("sql", "SELECT 1", "--output", tmp_path / "no" / "file.csv").exit_code == 1


def test_an_error_ends_the_text_and_leaves_no_file(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("before")
    done = run("sql", "SELECT 1 AS a; SELECT nothing; SELECT 3", "--format", "csv", "--output", out)
    assert done.exit_code == 1
    assert out.read_text() == "before"


def test_files_hold_all_results(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    assert run("sql", "SELECT 1 AS a; SELECT 2 AS b", "--format", "csv", "--output", out).exit_code == 0
    assert out.read_text() == "a\n1\nb\n2\n"
    assert run("sql", "SELECT 1 AS a; SELECT 2 AS b", "--format", "parquet", "--output", out).exit_code == 1
    assert out.read_text() == "a\n1\nb\n2\n"


def test_markdown() -> None:
    lines = run("sql", ROWS, "--format", "markdown").output.splitlines()
    assert lines == ["| i | s | d |", "| ---: | --- | ---: |", "| 1 | a\\|b | NULL |", "| NULL | two\\nlines | 2.50 |"]


def test_lines() -> None:
    done = run("sql", "SELECT 1 AS a, NULL AS longer", "--format", "line")
    assert done.output == "     a = 1\nlonger = NULL\n"


def test_arrow_is_a_stream_on_stdout_and_a_file_in_files(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "warpmill", "sql", ROWS, "--format", "arrow"]
    done = subprocess.run(command, capture_output=True, check=True)
    expected = {"i": [1, None], "s": ["a|b", "two\nlines"]}
    assert pa.ipc.open_stream(io.BytesIO(done.stdout)).read_all().select(["i", "s"]).to_pydict() == expected
    out = tmp_path / "out.arrow"
    assert run("sql", ROWS, "--format", "arrow", "--output", out).exit_code == 0
    assert pa.ipc.open_file(out).read_all().select(["i", "s"]).to_pydict() == expected
    empty = tmp_path / "empty.arrow"
    assert run("sql", f"{ROWS} WHERE false", "--format", "arrow", "--output", empty).exit_code == 0
    assert pa.ipc.open_file(empty).read_all().num_rows == 0
    # The output file can be read.
    assert run("sql", f"SELECT count(*) AS n FROM '{out}'", "--format", "csv").output == "n\n2\n"


def test_headers_are_the_text_as_duckdb_gives_it() -> None:
    import duckdb

    for query in ("SELECT 1", "SELECT 1 + 2, 'x'", "SELECT count(*), sum(1)", "SELECT -1, NOT true, 1.50"):
        names = [column[0] for column in duckdb.execute(query).description or []]
        assert run("sql", query, "--format", "csv").output.splitlines()[0] == ",".join(names)


def test_json_and_parquet_stay(tmp_path: Path) -> None:
    lines = run("sql", "SELECT 1 AS a; SELECT 'x' AS b", "--format", "json").output.splitlines()
    assert [json.loads(line) for line in lines] == [{"a": 1}, {"b": "x"}]
    lines = run("sql", "SELECT * FROM (VALUES (1, NULL), (NULL, 'x')) t(a, b)", "--format", "json").output.splitlines()
    assert [json.loads(line) for line in lines] == [{"a": 1, "b": None}, {"a": None, "b": "x"}]
    out = tmp_path / "out.parquet"
    assert run("sql", ROWS, "--format", "parquet", "-o", out).exit_code == 0
    assert pq.read_table(out).num_rows == 2
