"""Completion in the shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import warpmill
from warpmill.cli.completion import Names, completions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def names() -> Iterator[Names]:
    with warpmill.connect() as con:
        con.sql("CREATE TABLE orders (o_orderkey BIGINT, o_total DECIMAL(15, 2))")
        con.sql('CREATE TABLE customers (c_name TEXT, "Odd name" INT)')
        con.sql("CREATE SCHEMA shop")
        con.sql("CREATE TABLE shop.sales (city TEXT)")
        yield Names(con)


def found(names: Names, before: str, after: str = "") -> list[str]:
    return [text for text, _, _ in completions(names, before, before + after)]


def test_tables_follow_from(names: Names) -> None:
    assert found(names, "SELECT * FROM ord") == ["orders"]
    assert found(names, "select * from ") == ["customers", "orders", "shop.sales"]
    assert found(names, "SELECT * FROM shop.") == ["sales"]
    assert found(names, "DESCRIBE cus") == ["customers"]


def test_columns_are_those_of_the_statements_tables(names: Names) -> None:
    assert found(names, "SELECT o_", " FROM orders") == ["o_orderkey", "o_total"]
    assert "c_name" not in found(names, "SELECT c_", " FROM orders")
    assert found(names, "SELECT * FROM orders o JOIN customers AS c ON o.") == ["o_orderkey", "o_total"]
    assert found(names, "SELECT * FROM orders o JOIN customers AS c ON c.") == ["c_name", '"Odd name"']
    assert found(names, 'SELECT "Odd', " FROM customers") == ['"Odd name"']
    assert found(names, "SELECT nobody.") == []


def test_functions_and_keywords(names: Names) -> None:
    assert "date_trunc" in found(names, "SELECT date_tr")
    assert "year" in found(names, "SELECT yea")
    assert "explain" in found(names, "exp")
    assert found(names, "") == []


def test_commands_and_files(names: Names, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "report.sql").write_text("")
    (tmp_path / "reports").mkdir()
    monkeypatch.chdir(tmp_path)
    assert found(names, ".mo") == [".mode"]
    assert found(names, ".mode m") == ["markdown"]
    assert found(names, ".read rep") == ["report.sql", "reports/"]
    assert found(names, f".read {tmp_path}/report.") == ["report.sql"]
    assert found(names, ".read nowhere/x") == []


def test_names_are_asked_for_again_after_statements(names: Names) -> None:
    assert found(names, "FROM new") == []
    names._con.sql("CREATE TABLE new_table (a INT)")
    assert found(names, "FROM new") == []
    names.forget()
    assert found(names, "FROM new") == ["new_table"]
