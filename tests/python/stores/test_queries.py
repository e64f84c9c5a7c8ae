"""Parquet in stores and on web servers: the answers of the same files on a disk, and no more bytes than needed."""

from __future__ import annotations

import decimal
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import warpmill
from warpmill import _warpmill

from .server import KEY, SECRET, TOKEN, Store

if TYPE_CHECKING:
    from pathlib import Path


def connect(store: Store, device: str = "cpu", **settings: Any) -> warpmill.Connection:
    strict = "error" if device == "sim" else "allow"
    return warpmill.connect(device=device, device_fallback=strict, **store.settings(**settings))


def file_of(table: pa.Table, path: Path, **options: Any) -> bytes:
    pq.write_table(table, path, **options)
    return path.read_bytes()


def small(path: Path, value: int = 7, rows: int = 100) -> bytes:
    return file_of(pa.table({"k": list(range(rows)), "v": [value] * rows}), path)


def numbers(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Numbers of any type as floats, to compare with."""

    def one(value: Any) -> Any:
        number = isinstance(value, (int, float, decimal.Decimal)) and not isinstance(value, bool)
        return pytest.approx(float(value), rel=1e-9, abs=2e-6) if number else value

    return [tuple(one(value) for value in row) for row in rows]


def on_device(result: Any) -> list[dict[str, Any]]:
    """The profiles of scans of Parquet that a device ran."""
    programs = result.profile["programs"]
    assert {program["device"] for program in programs} == {"sim"}, programs
    assert not any(program["decoded_on_host"] for program in programs), programs
    return [scan["parquet"] for program in programs for scan in program["on_device"]["scans"] if scan["parquet"]]


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tpch")
    files = {name: folder / f"{name}.parquet" for name in _warpmill.tables("tpch")}
    for name, path in files.items():
        _warpmill.generate_parquet("tpch", name, 0.01, str(path), 0, None)
    return files


def test_tpch(store: Store, device: str, tpch: dict[str, Path]) -> None:
    queries = dict(_warpmill.queries("tpch"))
    other = duckdb.connect()
    with connect(store, device) as con:
        for name, path in tpch.items():
            store.objects[f"bench/tpch/{name}.parquet"] = path.read_bytes()
            con.register_file(name, f"s3://bench/tpch/{name}.parquet")
            other.sql(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{path}')")
        for number in queries if device == "cpu" else ["1", "3", "6", "12", "14"]:
            result = con.sql(queries[number])
            assert numbers(result.fetchall()) == numbers(other.sql(queries[number]).fetchall()), number
            if device == "sim":
                scans = on_device(result)
                assert scans
                assert all(scan["by_device"] > 0 and scan["by_host"] == 0 for scan in scans), scans


ROWS, GROUPS = 200_000, 4


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Ten columns that do not compress, sorted by one more: 400 kB a column chunk."""
    noise = [pa.Array.from_buffers(pa.int64(), ROWS, [None, pa.py_buffer(os.urandom(8 * ROWS))]) for _ in range(10)]
    columns = {f"c{n}": values for n, values in enumerate(noise[:5])}
    columns |= {"k": pa.array(range(ROWS))} | {f"c{n + 5}": values for n, values in enumerate(noise[5:])}
    path = tmp_path_factory.mktemp("wide") / "wide.parquet"
    options = {
        "row_group_size": ROWS // GROUPS,
        "use_dictionary": False,
        "compression": "none",
        "write_page_index": True,
    }
    return file_of(pa.table(columns), path, **options)


def test_only_what_a_query_needs_is_read(store: Store, device: str, wide: bytes, tmp_path: Path) -> None:
    store.objects["bench/wide.parquet"] = wide
    (tmp_path / "wide.parquet").write_bytes(wide)
    query = "SELECT count(*), max(c7), min(c7) FROM {} WHERE k BETWEEN 60000 AND 60100"
    with connect(store, device) as con:
        con.register_file("t", "s3://bench/wide.parquet")
        footer = store.sent
        assert footer <= 600_000, "the footer and what is read with it"
        result = con.sql(query.format("t"))
        expected = duckdb.connect().execute(query.format(f"'{tmp_path}/wide.parquet'")).fetchall()
        assert result.fetchall() == expected
        chunk = 8 * ROWS // GROUPS
        read = store.sent - footer
        assert read <= 2 * chunk + 100_000, "two column chunks of one of four row groups"
        assert store.sent < len(wide) / 2
        if device == "sim":
            assert [scan["by_device"] for scan in on_device(result)] == [2]
        assert read < chunk, "pages that their index rules out are not read"
        # Every request for content names the version that the footer was of.
        assert all(
            "if-match" in request.headers for request in store.gets if request.range and request.range[0] < 10_000_000
        )
        before = len(store.gets)
        assert con.sql(query.format("t")).fetchall() == expected
        again = store.gets[before:]
        assert sum(request.sent for request in again) <= read, "footers are kept"


def test_neighbours_are_one_request_and_many_are_in_flight(store: Store, device: str, wide: bytes) -> None:
    store.objects["bench/wide.parquet"] = wide
    with connect(store, device, threads=4) as con:
        con.register_file("t", "s3://bench/wide.parquet")
        before = len(store.gets)
        columns = ", ".join(f"max(c{n})" for n in range(10))
        store.delay, store.most = 0.1, 0
        assert con.sql(f"SELECT {columns}, max(k) + 0 FROM t WHERE k % 2 = 0 OR k >= 0").fetchone()
        gets = store.gets[before:]
    assert len(gets) <= 2 * GROUPS, "all columns of a row group lie behind each other"
    assert store.most > 1


def test_what_there_is_no_room_to_keep_is_read_once(store: Store, device: str, wide: bytes, tmp_path: Path) -> None:
    """Devices cache half of the memory limit of a remote file; the rest is streamed."""
    (tmp_path / "wide.parquet").write_bytes(wide)
    store.objects["bench/wide.parquet"] = wide
    columns = ", ".join(f"max(c{n}), min(c{n})" for n in range(10))
    query = f"SELECT {columns}, sum(k) FROM {{}}"
    with connect(store, device, memory_limit="4MB") as con:
        con.register_file("t", "s3://bench/wide.parquet")
        footer = store.sent
        result = con.sql(query.format("t"))
        assert result.fetchall() == duckdb.execute(query.format(f"'{tmp_path}/wide.parquet'")).fetchall()
        assert store.sent - footer <= len(wide)
        if device == "sim":
            assert [scan["by_device"] for scan in on_device(result)] == [11 * GROUPS]


def test_keys_of_joins_leave_out_row_groups(store: Store, device: str, wide: bytes, tmp_path: Path) -> None:
    """The bytes of a scan are requested once the keys of the hash build before it are known."""
    (tmp_path / "wide.parquet").write_bytes(wide)
    store.objects["bench/wide.parquet"] = wide
    few = file_of(pa.table({"k": [50_001, 50_002, 60_000], "name": ["a", "b", "a"]}), tmp_path / "few.parquet")
    store.objects["bench/few.parquet"] = few
    query = "SELECT name, count(*), max(c3) FROM {} few JOIN {} t USING (k) GROUP BY name ORDER BY name"
    with connect(store, device) as con:
        con.register_file("t", "s3://bench/wide.parquet")
        con.register_file("few", "s3://bench/few.parquet")
        before = store.sent
        result = con.sql(query.format("few", "t"))
        files = [f"'{tmp_path}/{name}.parquet'" for name in ("few", "wide")]
        assert result.fetchall() == duckdb.execute(query.format(*files)).fetchall()
        chunk = 8 * ROWS // GROUPS
        if device == "sim":
            assert store.sent - before <= 2 * chunk + 100_000, "two columns of one of four row groups"


def test_pages_of_a_few_rows(store: Store, device: str, tmp_path: Path) -> None:
    """More pages than footers let expect: devices read the file before they make room for it."""
    rows = 20_000
    table = pa.table({"k": list(range(rows)), "s": [f"row {row % 1000}" for row in range(rows)]})
    options = {"data_page_size": 8, "write_batch_size": 2, "use_dictionary": False, "row_group_size": 5_000}
    tiny = file_of(table, tmp_path / "tiny.parquet", **options)
    usual = file_of(table, tmp_path / "usual.parquet", row_group_size=5_000)
    expected = [row for row in range(rows) if row % 3 == 0]
    largest = max(f"row {row % 1000}" for row in expected)
    with connect(store, device) as con:
        # With one such file only that one is read in advance; then all are.
        for number, (files, runs) in enumerate([([usual, tiny, usual], 2), ([tiny] * 4 + [usual], 3)]):
            store.objects |= {f"bench/{number}/{at}.parquet": content for at, content in enumerate(files)}
            before = store.sent
            result = con.sql(f"SELECT sum(k), max(s), count(*) FROM 's3://bench/{number}/*.parquet' WHERE k % 3 = 0")
            count = len(files)
            assert result.fetchall() == [(count * sum(expected), largest, count * len(expected))]
            if device == "sim":
                assert [scan["by_device"] for scan in on_device(result)] == [8 * count]
                assert [program["on_device"]["runs"] for program in result.profile["programs"]] == [runs]
                footers = 600_000 * count
                assert store.sent - before <= footers + sum(map(len, files)), "what was read is kept"


def test_folders_patterns_and_pages_of_listings(store: Store, device: str, tmp_path: Path) -> None:
    for part in range(5):
        store.objects[f"bench/parts/part-{part}.parquet"] = small(tmp_path / "x", part)
    store.objects["bench/parts/_SUCCESS"] = b""
    store.objects["bench/parts/notes.txt"] = b"no Parquet"
    store.objects["bench/parts2/other.parquet"] = small(tmp_path / "x", 99)
    with connect(store, device) as con:
        for source, rows, total in [
            ("s3://bench/parts/*.parquet", 500, 1000),
            ("s3://bench/parts/part-[12].parquet", 200, 300),
            ("s3://bench/parts/part-?.parquet", 500, 1000),
            ("s3://bench/parts/", 500, 1000),
        ]:
            assert con.sql(f"SELECT count(*), sum(v) FROM '{source}'").fetchone() == (rows, total), source
            con.register_file("parts", source)
            assert con.sql("SELECT sum(v), count(*) FROM parts").fetchone() == (total, rows), source
        # A file that is added is seen.
        store.objects["bench/parts/part-7.parquet"] = small(tmp_path / "x", 1)
        assert con.sql("SELECT count(*), sum(v) FROM parts").fetchone() == (600, 1100)
        with pytest.raises(warpmill.IOError, match=r"s3://bench/none/\*\.parquet: no object matches"):
            con.sql("SELECT * FROM 's3://bench/none/*.parquet'")


def test_everywhere_where_files_are_named(store: Store, tmp_path: Path) -> None:
    url = "s3://bench/a b/x.parquet"
    store.objects["bench/a b/x.parquet"] = small(tmp_path / "x.parquet")
    store.objects["bench/x.csv"] = b"k,v\n1,7\n2,7\n"
    with connect(store) as con:
        con.sql(f"CREATE EXTERNAL TABLE outside STORED AS PARQUET LOCATION '{url}'")
        con.sql("CREATE EXTERNAL TABLE every STORED AS PARQUET LOCATION 's3://bench/a b/*.parquet'")
        con.sql("CREATE EXTERNAL TABLE typed (k BIGINT, v BIGINT) STORED AS PARQUET LOCATION 's3://bench/a b/'")
        con.register_file("registered", url)
        con.create_table("imported", url)
        con.sql(f"CREATE TABLE copied AS SELECT * FROM '{url}'")
        for table in ("outside", "every", "typed", "registered", "imported", "copied", f"'{url}'"):
            assert con.sql(f"SELECT count(*), sum(v) FROM {table}").fetchone() == (100, 700), table
        assert con.read_parquet(url).fetchone() == (0, 7)
        con.register_file("csv", "s3://bench/x.csv")
        assert con.sql("SELECT sum(v) FROM csv").fetchone() == (14,)
        with pytest.raises(warpmill.Error, match="writing to object stores"):
            con.sql("COPY copied TO 's3://bench/out.parquet'")
        plain = {"localFiles": {"items": [{"uriFile": "s3://bench/x2.parquet", "parquet": {}}]}}
        store.objects["bench/x2.parquet"] = store.objects["bench/a b/x.parquet"]
        required = [{"i64": {"nullability": "NULLABILITY_NULLABLE"}}]
        schema = {"names": ["k", "v"], "struct": {"types": required * 2}}
        relation = {"root": {"input": {"read": {"baseSchema": schema, **plain}}, "names": ["k", "v"]}}
        assert len(con.execute_substrait({"relations": [relation]}).fetchall()) == 100


def test_the_command_line_imports_urls(store: Store, tmp_path: Path) -> None:
    store.objects["bench/x.parquet"] = small(tmp_path / "x.parquet")
    environment = os.environ | {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": TOKEN,
        "AWS_REGION": "test-1",
        "AWS_ENDPOINT_URL": f"http://{store.address}",
    }
    command = [sys.executable, "-m", "warpmill", "import", "s3://bench/x.parquet", str(tmp_path / "db" / "x")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(request.headers["x-amz-security-token"] == TOKEN for request in store.requests)
    with warpmill.connect(tmp_path / "db") as con:
        assert con.sql("SELECT sum(v) FROM x").fetchone() == (700,)


def test_web_servers(store: Store, device: str, tmp_path: Path) -> None:
    store.objects["web/data/a b.parquet"] = small(tmp_path / "x.parquet")
    url = f"http://{store.address}/web/data/a%20b.parquet"
    with connect(store, device) as con:
        with pytest.raises(warpmill.IOError, match=r"TLS are not allowed.*allow_http"):
            con.sql(f"SELECT * FROM '{url}'")
        assert not store.requests
        con.set("allow_http", "on")
        assert con.sql(f"SELECT count(*), sum(v) FROM '{url}'").fetchone() == (100, 700)
        con.register_file("t", url)
        assert con.sql("SELECT count(*), sum(v + 0) FROM t WHERE k < 50").fetchone() == (50, 350)
        assert not any("authorization" in request.headers for request in store.requests)
        with pytest.raises(warpmill.IOError, match=r"missing\.parquet.*404"):
            con.sql(f"SELECT * FROM 'http://{store.address}/web/missing.parquet'")
        for text in ("data/*.parquet", "data/"):
            with pytest.raises(warpmill.IOError, match="which files it has"):
                con.sql(f"SELECT * FROM 'http://{store.address}/web/{text}'")
        for text in (f"http://user:hush@{store.address}/x.parquet", f"{url}?X-Amz-Signature=hush"):
            with pytest.raises(warpmill.IOError) as caught:
                con.sql(f"SELECT * FROM '{text}'")
            assert "hush" not in str(caught.value)


def test_files_of_one_name_and_size_in_two_places(store: Store, device: str, tmp_path: Path) -> None:
    one, two = small(tmp_path / "x", 7), small(tmp_path / "x", 8)
    assert len(one) == len(two)
    store.objects |= {"first/x.parquet": one, "second/x.parquet": two}
    with connect(store, device) as con:
        for bucket, total in (("first", 700), ("second", 800), ("first", 700)):
            assert con.sql(f"SELECT sum(v), max(v) FROM 's3://{bucket}/x.parquet'").fetchone() == (total, total // 100)
        # Written anew within the same second.
        store.objects["first/x.parquet"] = two
        assert con.sql("SELECT sum(v), max(v) FROM 's3://first/x.parquet'").fetchone() == (800, 8)


def test_settings_apply_to_tables_that_exist(store: Store, tmp_path: Path) -> None:
    store.objects["bench/x.parquet"] = small(tmp_path / "x")
    with connect(store) as con:
        con.register_file("t", "s3://bench/x.parquet")
        con.set("s3_access_key_id", "somebody-else")
        with pytest.raises(warpmill.IOError, match=r"s3://bench/x\.parquet.*403"):
            con.sql("SELECT sum(v) FROM t")
        con.set("s3_access_key_id", KEY)
        assert con.sql("SELECT sum(v) FROM t").fetchone() == (700,)
        con.set("s3_secret_access_key", "")
        with pytest.raises(warpmill.IOError, match="set together"):
            con.sql("SELECT sum(v) FROM t")


def test_secrets_are_never_shown(store: Store, tmp_path: Path) -> None:
    store.objects["bench/x.parquet"] = small(tmp_path / "x")
    with connect(store, s3_session_token=TOKEN) as con:
        con.register_file("t", "s3://bench/x.parquet")
        shown = [
            str(con.settings()),
            str(con.sql("SHOW ALL").fetchall()),
            str(con.sql("SHOW warpmill.s3_secret_access_key").fetchall()),
            str(con.sql("SELECT * FROM information_schema.df_settings").fetchall()),
            con.explain("SELECT sum(v) FROM t"),
            con.explain("SELECT sum(v) FROM t", analyze=True),
            str(con.sql("EXPLAIN VERBOSE SELECT sum(v) FROM t").fetchall()),
        ]
        store.fault = lambda _: 403
        with pytest.raises(warpmill.IOError) as caught:
            con.sql("SELECT sum(v) FROM t")
        shown.append(repr(caught.value))
        store.fault = lambda _: None
    assert store.requests[0].headers["x-amz-security-token"] == TOKEN
    for text in shown:
        assert "hush" not in text
    assert "***" in shown[0]
