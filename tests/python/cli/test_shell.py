"""Commands of the shell, through a pipe and on a terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from .support import Terminal, run

if TYPE_CHECKING:
    from pathlib import Path


def test_modes(tmp_path: Path) -> None:
    text = ".mode\n.mode csv\nSELECT 1 AS a;\n.mode markdown\nSELECT 1 AS a;\n.mode line\nSELECT 1 AS a;\n"
    done = run("shell", stdin=text)
    assert (done.exit_code, done.output) == (0, "table\na\n1\n| a |\n| ---: |\n| 1 |\na = 1\n")
    done = run("shell", stdin=".mode xml\n")
    assert done.exit_code == 1
    assert "table, line, csv, json, markdown, arrow, parquet" in done.output
    out = tmp_path / "x.parquet"
    assert run("shell", stdin=f".mode parquet\n.output {out}\nSELECT 5 AS a;\n.output\n").exit_code == 0
    assert pq.read_table(out).to_pydict() == {"a": [5]}


def test_output_goes_to_files_that_appear_when_they_are_complete(tmp_path: Path) -> None:
    first, second = tmp_path / "first file.csv", tmp_path / "second.csv"
    text = f".mode csv\n.output '{first}'\nSELECT 1 AS a;\nSELECT 2 AS b;\n.output {second}\nSELECT 3 AS c;\n"
    assert run("shell", stdin=f"{text}.output\nSELECT 4 AS d;\n").output == "d\n4\n"
    assert (first.read_text(), second.read_text()) == ("a\n1\nb\n2\n", "c\n3\n")
    # The end of input is an end, too.
    second.unlink()
    assert run("shell", stdin=f".mode csv\n.output {second}\nSELECT 3 AS c;\n").exit_code == 0
    assert second.read_text() == "c\n3\n"
    assert run("shell", stdin=f".output {tmp_path / 'no' / 'file'}\n").exit_code == 1


def test_read_runs_statements_and_commands_of_files(tmp_path: Path) -> None:
    inner, outer, endless = tmp_path / "inner.sql", tmp_path / "outer.sql", tmp_path / "endless.sql"
    inner.write_text("-- comment\nSELECT a\n  + 1 AS b\nFROM t;\n\nSELECT 'no end' AS c")
    outer.write_text(f".mode csv\nCREATE TABLE t AS SELECT 41 AS a;\n.read {inner}\n")
    endless.write_text(f".read {endless}\n")
    done = run("shell", stdin=f".read {outer}\nSELECT 'after' AS d;\n")
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-6:] == ["b", "42", "c", "no end", "d", "after"]
    done = run("shell", stdin=f".read {endless}\nSELECT 1 AS after;\n")
    assert done.exit_code == 1
    assert "read each other" in done.output
    assert "after" in done.output
    assert run("shell", stdin=f".read {tmp_path / 'nowhere.sql'}\n").exit_code == 1
    outer.write_text(".quit\nSELECT 1;")
    assert run("shell", stdin=f".read {outer}\nSELECT 'never' AS x;\n").output == ""


def test_tables_and_schemas_under_psqls_names() -> None:
    text = 'CREATE TABLE apples (a INT NOT NULL, "B c" TEXT);\nCREATE TABLE pears (d DATE);\n'
    done = run("shell", stdin=text + ".tables a*\n\\dt\n\\d apples\n.schema nothing\n")
    assert "apples  [memory]  0 rows\napples  [memory]  0 rows\npears  [memory]  0 rows\n" in done.output
    assert "apples (\n    a Int32,\n    B c Utf8" in done.output
    assert "error: table 'nothing' not found" in done.output
    assert done.exit_code == 1
    assert run("shell", stdin="\\q\nSELECT 'never' AS x;\n").output == ""


def test_show_tables_are_those_of_the_user() -> None:
    done = run("shell", stdin="CREATE TABLE mine (a INT);\n.mode csv\nSHOW TABLES;\nSELECT version();\n")
    assert done.output.startswith("name\nmine\n")
    assert "Warpmill" in done.output


def test_a_statement_that_fails_is_an_exit_code_and_not_the_end() -> None:
    done = run("shell", stdin=".mode csv\nSELECT yaer(DATE '2024-01-01');\nSELECT 1 AS a;\n.nonsense\n")
    assert done.exit_code == 1
    assert "Did you mean 'year'?" in done.output
    assert "a\n1\n" in done.output
    assert "is no command" in done.output


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals")
def test_on_a_terminal(tmp_path: Path) -> None:
    pq.write_table(pa.table({f"column_{i}": ["x" * 30] * 3 for i in range(30)}), tmp_path / "wide.parquet")
    shell = Terminal("-m", "warpmill", "shell", folder=tmp_path, columns=80)
    shell.until("warpmill>")
    shell.type("CREATE TABLE people (person_name TEXT, age INT);\r")
    shell.until("warpmill>")
    # Completion of a table and of its column.
    shell.type("SELECT person_n\t FROM peo\t;\x01\x0b")
    shell.type("SELECT 41 + 1 AS answer;\r")
    assert "42" in shell.until("1 row, 1 column")
    shell.type("SELECT * FROM 'wide.parquet';\r")
    seen = shell.until("3 rows, 30 columns")
    assert "xxxxxxx…" in seen
    shell.type(".quit\r")
    assert shell.end() == 0
