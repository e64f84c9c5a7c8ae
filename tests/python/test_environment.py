"""`getenv`: variables of the process's environment, which DuckDB has in its shell only."""

from __future__ import annotations

import pytest

import warpmill


def test_variables_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPMILL_TEST_VALUE", "größer")
    monkeypatch.delenv("WARPMILL_TEST_NOTHING", raising=False)
    with warpmill.connect() as con:
        query = "SELECT getenv('WARPMILL_TEST_VALUE') AS a, getenv('WARPMILL_TEST_NOTHING') AS b, getenv(NULL) AS c"
        assert con.sql(query).fetchall() == [("größer", "", None)]
        assert con.sql("DESCRIBE SELECT getenv('HOME') AS h").fetchall()[0][:2] == ("h", "VARCHAR")
        con.execute("CREATE TABLE t AS SELECT 'größer' AS s UNION ALL SELECT 'x'")
        assert con.sql("SELECT count(*) FROM t WHERE s = getenv('WARPMILL_TEST_VALUE')").fetchall() == [(1,)]
        names = "SELECT getenv(n) AS v FROM (VALUES ('WARPMILL_TEST_VALUE'), ('a=b'), (''), (NULL)) t(n)"
        assert con.sql(names).fetchall() == [("größer",), ("",), ("",), (None,)]
        # No plan keeps a value.
        monkeypatch.setenv("WARPMILL_TEST_VALUE", "x")
        assert con.sql(query).fetchall() == [("x", "", None)]
        for wrong in ("getenv()", "getenv('a', 'b')"):
            with pytest.raises(warpmill.Error):
                con.sql(f"SELECT {wrong}").fetchall()
