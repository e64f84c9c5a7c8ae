"""Rows of a query, in every form that Python takes them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from zoneinfo import ZoneInfo

import polars as pl
import pyarrow as pa
import pytest

import warpmill


def test_values_have_their_python_types(con: warpmill.Connection) -> None:
    row = con.sql(
        """SELECT 1, 1.5, 'text', TRUE, NULL, DATE '2024-02-29', TIMESTAMP '2024-02-29 12:30:01.25',
                  CAST('-1.25' AS DECIMAL(10, 2)), X'00ff', [1, NULL, 3]"""
    ).fetchone()
    assert row == (
        1,
        1.5,
        "text",
        True,
        None,
        dt.date(2024, 2, 29),
        dt.datetime(2024, 2, 29, 12, 30, 1, 250_000),
        Decimal("-1.25"),
        b"\x00\xff",
        [1, None, 3],
    )


def test_every_arrow_type_becomes_python(con: warpmill.Connection) -> None:
    zone = ZoneInfo("Europe/Paris")
    columns = {
        "i8": pa.array([-128, None, 127], pa.int8()),
        "u64": pa.array([0, None, 2**64 - 1], pa.uint64()),
        "f32": pa.array([0.5, None, -0.25], pa.float32()),
        "large": pa.array(["a", None, "ü"], pa.large_string()),
        "view": pa.array(["a" * 30, None, ""], pa.string_view()),
        "binary": pa.array([b"", None, b"\x01"], pa.binary()),
        "date": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)], pa.date32()),
        "ms": pa.array([dt.datetime(1969, 12, 31, 23, 59), None, dt.datetime(2024, 1, 1)], pa.timestamp("ms")),
        "zoned": pa.array([dt.datetime(2024, 7, 1, tzinfo=zone), None, None], pa.timestamp("us", "Europe/Paris")),
        "time": pa.array([dt.time(1, 2, 3, 4), None, dt.time()], pa.time64("us")),
        "delta": pa.array([dt.timedelta(days=1), None, -dt.timedelta(seconds=1)], pa.duration("us")),
        "decimal": pa.array([Decimal("1.20"), None, Decimal("-99999999.99")], pa.decimal128(10, 2)),
        "codes": pa.array(["x", None, "x"]).dictionary_encode(),
        "struct": pa.array([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.int32())])),
        "list": pa.array([[1], None, []], pa.list_(pa.int32())),
    }
    table = pa.table(columns)
    con.register("t", table)
    rows = con.sql("SELECT * FROM t").fetchall()
    expected = list(zip(*(column.to_pylist() for column in columns.values()), strict=True))
    assert rows == expected


def test_fetching_goes_on_where_it_stopped(con: warpmill.Connection) -> None:
    con.register("t", {"a": list(range(10))})
    relation = con.sql("SELECT a FROM t ORDER BY a")
    assert relation.fetchone() == (0,)
    assert relation.fetchmany(3) == [(1,), (2,), (3,)]
    assert relation.fetchall() == [(n,) for n in range(4, 10)]
    assert relation.fetchone() is None
    assert relation.fetchmany(5) == []
    assert len(relation) == 10
    with pytest.raises(ValueError, match="-1"):
        relation.fetchmany(-1)


def test_iteration_crosses_batches(con: warpmill.Connection) -> None:
    batches = [pa.record_batch({"a": list(range(start, start + 700))}) for start in range(0, 2100, 700)]
    con.register("t", pa.Table.from_batches(batches))
    assert sorted(a for (a,) in con.sql("SELECT a FROM t")) == list(range(2100))


def test_columns_types_and_shape(con: warpmill.Connection) -> None:
    relation = con.sql("SELECT 1 AS a, 'x' AS b WHERE FALSE")
    assert relation.columns == ["a", "b"]
    assert relation.types[0] == "Int64"
    assert relation.shape == (0, 2)
    assert relation.fetchall() == []
    assert relation.arrow().num_rows == 0


def test_results_reach_arrow_pandas_and_polars(con: warpmill.Connection) -> None:
    relation = con.sql("SELECT * FROM (VALUES (1, 'x'), (2, NULL)) AS t (a, b) ORDER BY a")
    assert relation.arrow().to_pydict() == {"a": [1, 2], "b": ["x", None]}
    assert relation.df()["a"].tolist() == [1, 2]
    assert relation.pl().rows() == [(1, "x"), (2, None)]
    assert pa.table(relation).num_rows == 2
    assert pl.DataFrame(relation).shape == (2, 2)


def test_show_prints_rows_types_and_count(con: warpmill.Connection, capsys: pytest.CaptureFixture[str]) -> None:
    con.sql("SELECT 1 AS one, NULL AS nothing").show()
    out = capsys.readouterr().out
    assert "one" in out
    assert "Int64" in out
    assert "NULL" in out
    assert "1 row" in out


def test_show_leaves_out_the_middle(con: warpmill.Connection) -> None:
    con.register("t", {"a": list(range(1000))})
    text = repr(con.sql("SELECT a FROM t ORDER BY a"))
    assert "1,000 rows (20 shown)" in text
    assert "999" in text
    assert "500" not in text


def test_rows_can_be_written(con: warpmill.Connection, tmp_path: object) -> None:
    for name in ("out.csv", "out.parquet", "out.json"):
        path = f"{tmp_path}/{name}"
        con.sql("SELECT 1 AS a, 'x' AS b").write(path)
        assert con.sql(f"SELECT * FROM '{path}'").fetchall() == [(1, "x")]
    with pytest.raises(ValueError, match="xlsx"):
        con.sql("SELECT 1").write(f"{tmp_path}/out.xlsx")


def test_moments_that_python_cannot_hold_are_texts(con: warpmill.Connection) -> None:
    days = con.sql("SELECT DATE '9999-12-31' + 1 AS a, DATE '0001-01-01' - 1 AS b, DATE '2000-01-01' AS c")
    ((above, below, within),) = days.fetchall()
    assert "10000-01-01" in above
    assert isinstance(below, str)
    assert within == dt.date(2000, 1, 1)
    moments = con.sql(
        "SELECT TIMESTAMP '9999-12-31 12:00:00' + INTERVAL 1 DAY AS a, TIMESTAMP '0001-01-01' - INTERVAL 1 SECOND AS b,"
        " NULL::TIMESTAMP AS c"
    )
    ((above, below, nothing),) = moments.fetchall()
    assert "10000-01-01" in above
    assert isinstance(below, str)
    assert nothing is None


def test_polars_has_no_intervals(con: warpmill.Connection) -> None:
    for value in ("INTERVAL '1 month 2 days'", "[INTERVAL '1 day']"):
        with pytest.raises(warpmill.NotSupportedError, match="'x': Polars has no INTERVAL"):
            con.sql(f"SELECT 1 AS y, {value} AS x").pl()
