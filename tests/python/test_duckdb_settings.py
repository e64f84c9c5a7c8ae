"""DuckDB's settings: with an equivalent, without effect, and refused ones."""

import duckdb
import pytest

import warpmill

QUERIES = (
    "SELECT * FROM t ORDER BY i, s",
    "SELECT * FROM t ORDER BY i DESC, s",
    "SELECT s, row_number() OVER (ORDER BY s) AS n FROM t ORDER BY n, s NULLS LAST LIMIT 2",
    "SELECT i, max(s) AS m FROM t GROUP BY i ORDER BY ALL",
    "SELECT i FROM t UNION SELECT 7 ORDER BY 1",
)


@pytest.mark.parametrize("order", ["nulls_first", "nulls_last", "sqlite", "postgres", "NULLS FIRST"])
def test_the_place_of_nulls(order: str) -> None:
    with warpmill.connect() as ours, duckdb.connect() as theirs:
        for con in (ours, theirs):
            con.execute(
                "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (NULL, 'b'), (2, NULL), (NULL, NULL)) v(i, s)"
            )
            con.execute(f"SET default_null_order = '{order}'")
        setting = "SELECT current_setting('default_null_order')"
        for query in (*QUERIES, setting):
            assert ours.execute(query).fetchall() == theirs.execute(query).fetchall(), query
        for con in (ours, theirs):
            con.execute("RESET default_null_order")
        assert ours.execute(QUERIES[0]).fetchall() == theirs.execute(QUERIES[0]).fetchall()


@pytest.mark.parametrize(
    "statement",
    [
        "SET disabled_optimizers = 'join_order,filter_pushdown'",
        "RESET disabled_optimizers",
        "PRAGMA enable_verification",
        "PRAGMA disable_optimizer",
        "PRAGMA explain_output = 'optimized_only'",
        "SET debug_force_external = true",
        "SET preserve_insertion_order = false",
    ],
)
def test_settings_without_effect_say_so(statement: str) -> None:
    with warpmill.connect() as con, pytest.warns(warpmill.Notice, match="without effect here"):
        con.execute(statement)


def test_settings_by_duckdbs_names() -> None:
    with warpmill.connect() as con:
        con.execute("PRAGMA threads = 2; SET max_memory = '1GB'")
        assert con.execute("SELECT current_setting('threads'), current_setting('worker_threads')").fetchall() == [
            (2, 2)
        ]
        assert con.execute("SELECT current_setting('memory_limit')").fetchall() == [(1 << 30,)]
        con.execute("RESET memory_limit")
        con.execute("SET default_order = 'asc'; SET scalar_subquery_error_on_multiple_rows = true; CHECKPOINT")
        assert con.execute("SELECT current_setting('TimeZone'), current_setting('default_order')").fetchall() == [
            ("UTC", "asc")
        ]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("SET default_order = 'desc'", warpmill.NotSupportedError),
        ("SET enable_external_access = false", warpmill.NotSupportedError),
        ("SET integer_division = true", warpmill.NotSupportedError),
        ("SET default_null_order = 'middle'", warpmill.SettingError),
        ("SET no_such_setting = 1", warpmill.SettingError),
        ("PRAGMA no_such_pragma", warpmill.NotSupportedError),
        ("SELECT current_setting('no_such_setting')", warpmill.BinderError),
    ],
)
def test_settings_that_are_refused(statement: str, error: type[warpmill.Error]) -> None:
    with warpmill.connect() as con, pytest.raises(error):
        con.execute(statement)
