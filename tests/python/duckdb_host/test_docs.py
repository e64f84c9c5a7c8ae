"""The code blocks of docs/duckdb.md run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import warpmill.duckdb

if TYPE_CHECKING:
    import pytest

TEXT = (Path(__file__).parents[3] / "docs" / "duckdb.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_python_blocks() -> None:
    scope: dict[str, object] = {}
    for code in blocks("python"):
        exec(code, scope)
    con = scope["con"]
    assert con.execute("FROM warpmill_last()").fetchall()[0][0]  # type: ignore[attr-defined]


def test_sql_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    con = warpmill.duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT i AS a, i % 10 AS g FROM range(1000) r(i)")
    statements = [text for block in blocks("sql") for text in re.sub(r"--[^\n]*", "", block).split(";") if text.strip()]
    assert len(statements) >= 9
    for statement in statements:
        con.execute(statement).fetchall()
