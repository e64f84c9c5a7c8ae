"""The server with the ADBC Flight SQL driver, and with frames through it."""

from __future__ import annotations

import contextlib
import threading
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_flightsql import dbapi as flight_sql
from adbc_driver_manager import Error, ProgrammingError

from warpmill._warpmill import hash_password

from .support import Served, serve, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:Cannot disable autocommit")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("served")) as served:
        yield served


@pytest.fixture
def con(server: Served) -> Iterator[Any]:
    with flight_sql.connect(server.uri, autocommit=True) as connection:
        yield connection


@pytest.fixture
def sales(con: Any) -> pa.Table:
    table = pa.table(
        {
            "day": pa.array([f"2026-01-0{i % 9 + 1}" for i in range(1000)]).cast(pa.date32()),
            "item": [None if i % 7 == 0 else f"item {i % 5}" for i in range(1000)],
            "price": pa.array([Decimal(i) / 4 for i in range(1000)], pa.decimal128(9, 2)),
            "amount": pa.array(range(1000), pa.int32()),
        }
    )
    with con.cursor() as cursor:
        assert cursor.adbc_ingest("sales", table, mode="replace") == 1000
    return table


def all_rows(cursor: Any, sql: str) -> list[Any]:
    cursor.execute(sql)
    return list(cursor.fetchall())


def one(uri: str, options: dict[str, str]) -> list[Any]:
    with flight_sql.connect(uri, db_kwargs=options, autocommit=True) as con, con.cursor() as cursor:
        return all_rows(cursor, "SELECT 1")


def test_queries_and_types(con: Any, sales: pa.Table) -> None:
    with con.cursor() as cursor:
        cursor.execute("SELECT day, item, price, amount FROM sales ORDER BY amount")
        assert cursor.fetch_arrow_table().cast(sales.schema).equals(sales)
        cursor.execute(
            "SELECT item, sum(price) AS total, count(*) AS n FROM sales GROUP BY item ORDER BY item NULLS LAST"
        )
        rows = cursor.fetchall()
    expected = sales.to_pandas().groupby("item", dropna=False)["price"].agg(["sum", "count"])
    assert [(row[1], row[2]) for row in rows] == [(row["sum"], row["count"]) for _, row in expected.iterrows()]
    with con.cursor() as cursor:
        cursor.execute("SELECT 1 AS a WHERE false")
        assert cursor.fetchall() == []


def test_uuids_are_texts(con: Any) -> None:
    one = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    with con.cursor() as cursor:
        cursor.execute("CREATE TABLE ids (u UUID, n BIGINT)")
        cursor.execute(f"INSERT INTO ids VALUES ('{one}', 1), (NULL, 2)")
        cursor.execute("SELECT u, [u] AS l, n FROM ids ORDER BY n")
        table = cursor.fetch_arrow_table()
        assert table.column("u").to_pylist() == [one, None]
        assert table.column("l").to_pylist() == [[one], [None]]
        cursor.execute("SELECT n FROM ids WHERE u = ?", (one,))
        assert cursor.fetchall() == [(1,)]


def test_parameters(con: Any, sales: pa.Table) -> None:
    with con.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM sales WHERE item = ? AND amount < ?", ("item 1", 100))
        expected = sum(1 for i in range(100) if i % 5 == 1 and i % 7)
        assert cursor.fetchone() == (expected,)
        cursor.execute("SELECT amount FROM sales WHERE day = $1 AND price > $2", ("2026-01-02", 249.5))
        assert [row[0] for row in cursor.fetchall()] == [i for i in range(1000) if i % 9 == 1 and i / 4 > 249.5]
        cursor.execute("CREATE TABLE few (a BIGINT, s VARCHAR)")
        cursor.executemany("INSERT INTO few VALUES (?, ?)", [(1, "x"), (2, None), (3, "z")])
        cursor.execute("SELECT a, s FROM few ORDER BY a")
        assert cursor.fetchall() == [(1, "x"), (2, None), (3, "z")]
        cursor.execute("DROP TABLE few")
        with pytest.raises(ProgrammingError, match="parameters"):
            cursor.execute("SELECT ?")
    del sales


def test_changes(con: Any) -> None:
    with con.cursor() as cursor:
        cursor.execute("CREATE TABLE changed AS SELECT i AS a, 'x' || i AS s FROM range(10) r(i)")
        cursor.execute("DELETE FROM changed WHERE a < ?", (2,))
        cursor.execute("UPDATE changed SET s = ? WHERE a = ?", ("new", 5))
        cursor.executemany("DELETE FROM changed WHERE a = ?", [(8,), (9,)])
        cursor.execute(
            "MERGE INTO changed AS c USING (SELECT 5 AS a UNION ALL SELECT 77) AS s ON c.a = s.a "
            "WHEN MATCHED THEN UPDATE SET a = 50 WHEN NOT MATCHED THEN INSERT VALUES (s.a, 'in')"
        )
        cursor.execute("SELECT a, s FROM changed ORDER BY a")
        assert cursor.fetchall() == [(2, "x2"), (3, "x3"), (4, "x4"), (6, "x6"), (7, "x7"), (50, "new"), (77, "in")]
        # Preparing a statement changes nothing.
        cursor.adbc_prepare("DELETE FROM changed")
        cursor.execute("SELECT count(*) FROM changed")
        assert cursor.fetchone() == (7,)
        cursor.execute("OPTIMIZE changed")
        deep = " OR ".join(f"a = {i}" for i in range(2000))
        cursor.execute(f"DELETE FROM changed WHERE {deep}")
        with pytest.raises(Error, match="RETURNING"):
            cursor.execute("DELETE FROM changed RETURNING a")
        cursor.execute("TRUNCATE changed")
        cursor.execute("SELECT count(*) FROM changed")
        assert cursor.fetchone() == (0,)
        cursor.execute("DROP TABLE changed")


def test_ingest_modes(con: Any) -> None:
    rows = pa.table({"a": [1, 2]})
    with con.cursor() as cursor:
        cursor.adbc_ingest("loaded", rows, mode="create")
        with pytest.raises(Error, match="already exists"):
            cursor.adbc_ingest("loaded", rows, mode="create")
        cursor.adbc_ingest("loaded", rows, mode="append")
        cursor.adbc_ingest("loaded", pa.table({"a": pa.array([5], pa.int16())}), mode="append")
        cursor.execute("SELECT sum(a), count(*) FROM loaded")
        assert cursor.fetchone() == (11, 5)
        cursor.adbc_ingest("loaded", rows.to_batches()[0], mode="create_append")
        cursor.adbc_ingest("loaded", rows, mode="replace")
        cursor.execute("SELECT count(*) FROM loaded")
        assert cursor.fetchone() == (2,)
        with pytest.raises(Error, match="not found"):
            cursor.adbc_ingest("nowhere", rows, mode="append")
        cursor.execute("DROP TABLE loaded")


def test_ingested_rows_fulfil_constraints(con: Any) -> None:
    with con.cursor() as cursor:
        cursor.execute("CREATE TABLE keyed (a BIGINT PRIMARY KEY CHECK (a < 100))")
        cursor.adbc_ingest("keyed", pa.table({"a": [1, 2]}), mode="append")
        for rows, culprit in (([3, 2], "a: 2"), ([7, 7], "a: 7"), ([100], "CHECK")):
            with pytest.raises(Error, match=culprit):
                cursor.adbc_ingest("keyed", pa.table({"a": rows}), mode="append")
        cursor.execute("SELECT count(*) FROM keyed")
        assert cursor.fetchone() == (2,)
        cursor.execute("COMMENT ON TABLE keyed IS 'with a key'")
        cursor.execute("SELECT comment FROM duckdb_tables() WHERE table_name = 'keyed'")
        assert cursor.fetchone() == ("with a key",)
        cursor.execute("SELECT path FROM duckdb_databases()")
        assert cursor.fetchone() == (None,)
        cursor.execute("DROP TABLE keyed")


def test_errors_have_their_class(con: Any) -> None:
    with con.cursor() as cursor:
        for sql in ("SELEC", "SELECT nope FROM (SELECT 1 AS a)", "SELECT * FROM '/etc/passwd'"):
            with pytest.raises(ProgrammingError):
                cursor.execute(sql)
        for sql in (
            "COPY (SELECT 1) TO '/tmp/x.csv'",
            "EXPORT DATABASE '/tmp/x'",
            "import  database '/tmp/x'",
        ):
            with pytest.raises(Error, match="allow-files"):
                cursor.execute(sql)
        # The environment is the server's.
        with pytest.raises(Error, match="getenv"):
            cursor.execute("SELECT getenv('HOME')")
        with pytest.raises(Error, match="Flight SQL"):
            cursor.execute("PREPARE p AS DELETE FROM sales")
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_metadata(con: Any, sales: pa.Table) -> None:
    info = con.adbc_get_info()
    assert (info["vendor_name"], info["driver_name"]) == ("Warpmill", "ADBC Flight SQL Driver - Go")
    assert "TABLE" in con.adbc_get_table_types()
    found = con.adbc_get_objects(depth="all", table_name_filter="sales").read_all().to_pylist()
    (catalog,) = found
    (schema,) = [schema for schema in catalog["catalog_db_schemas"] if schema["db_schema_name"] == "public"]
    (table,) = schema["db_schema_tables"]
    assert (table["table_name"], table["table_type"]) == ("sales", "TABLE")
    assert [column["column_name"] for column in table["table_columns"]] == sales.column_names
    assert con.adbc_get_table_schema("sales").names == sales.column_names


def test_statements_are_cancelled(con: Any, server: Served) -> None:
    with con.cursor() as cursor:
        threading.Timer(1.0, cursor.adbc_cancel).start()
        begun = time.monotonic()
        slow = (
            "SELECT count(*) FROM generate_series(1, 3000000) AS a(x) "
            "CROSS JOIN generate_series(1, 3000000) AS b(y) WHERE x * y % 7 = 1"
        )
        with pytest.raises(Error, match=r"(?i)cancel"):
            all_rows(cursor, slow)
        assert time.monotonic() - begun < 30
    until(lambda: server.metric("warpmill_statements_running") == 0)


def test_readers_may_leave_early(server: Served) -> None:
    with flight_sql.connect(server.uri, autocommit=True) as con, con.cursor() as cursor:
        cursor.execute("SELECT value FROM generate_series(1, 10000000000) s(value)")
        assert cursor.fetchone() == (1,)
    until(lambda: server.metric("warpmill_statements_running") == 0)


def test_polars(con: Any, server: Served, sales: pa.Table) -> None:
    frame = pl.read_database("SELECT item, amount FROM sales WHERE amount < 10 ORDER BY amount", con)
    expected = pl.from_arrow(sales.select(["item", "amount"]).slice(0, 10))
    assert isinstance(expected, pl.DataFrame)
    assert frame.equals(expected)
    frame = pl.DataFrame({"k": [1, 2, 3], "v": ["a", None, "c"]})
    frame.write_database("frames", con, if_table_exists="replace", engine="adbc")
    assert pl.read_database("SELECT * FROM frames ORDER BY k", con).equals(frame)
    assert server.process.poll() is None


def test_pandas(con: Any, sales: pa.Table) -> None:
    frame = pd.read_sql("SELECT amount, price FROM sales WHERE amount < 5 ORDER BY amount", con)
    assert frame["amount"].tolist() == [0, 1, 2, 3, 4]
    del sales
    written = pd.DataFrame({"k": [1, 2], "v": ["a", "b"]})
    written.to_sql("panda", con, if_exists="replace", index=False)
    assert pd.read_sql("SELECT k, v FROM panda ORDER BY k", con).equals(written)


def test_users_log_in(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(f"ada:{hash_password('open sesame')}\n")
    options = {"username": "ada", "password": "open sesame"}
    with serve(tmp_path, "--users", users, "--token-ttl", 3) as server:
        with flight_sql.connect(server.uri, db_kwargs=options, autocommit=True) as con:
            with con.cursor() as cursor:
                cursor.execute("SET warpmill.fallback = 'error'")
                cursor.execute("SHOW warpmill.fallback")
                assert cursor.fetchall()[0][1] == "error"
            time.sleep(3.1)
            late = con.cursor()
            with pytest.raises(Error, match="expired"):
                late.execute("SELECT 1")
            # The server refuses to close for a log-in that has expired, too.
            with contextlib.suppress(Error):
                late.close()
        for wrong in ({**options, "password": "x"}, {}):
            with pytest.raises(Error, match=r"(?i)unauthenticated|log-in|wrong user"):
                one(server.uri, wrong)


def test_bearer_tokens(tmp_path: Path) -> None:
    token = "0123456789abcdef0123"
    with serve(tmp_path, "--token-env", "DOOR", environment={"DOOR": token}) as server:
        header = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {token}"}
        with flight_sql.connect(server.uri, db_kwargs=header, autocommit=True) as con, con.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchone() == (1,)
