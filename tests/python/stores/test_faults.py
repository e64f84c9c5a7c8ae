"""Failing stores: an error that names the object and gives advice, or a retry; never a wrong answer."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import warpmill

from .server import Request, Store
from .test_queries import connect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

URL = "s3://bench/x.parquet"
QUERY = "SELECT sum(v), max(k) FROM t WHERE k >= 0 AND v % 2 = 1"
ROWS = 100_000
ANSWER = (7 * ROWS, ROWS - 1)


def large(value: int, path: Path) -> bytes:
    """A file larger than the bytes that are read with its footer."""
    filler = [f"{n * 7919 % 104729:012d}" for n in range(ROWS)]
    table = pa.table({"k": range(ROWS), "v": [value] * ROWS, "filler": filler})
    pq.write_table(table, path, use_dictionary=False, compression="none")
    return path.read_bytes()


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return large(7, tmp_path_factory.mktemp("content") / "x.parquet")


def opened(store: Store, device: str, content: bytes, **settings: Any) -> warpmill.Connection:
    """A table of an object with its footer read."""
    store.objects["bench/x.parquet"] = content
    con = connect(store, device, http_retries=2, http_timeout=5, **settings)
    con.register_file("t", URL)
    return con


def is_data(request: Request) -> bool:
    """Whether a request is for data: not for the end of the object."""
    return request.method == "GET" and request.range is not None and request.range[0] < 2_500_000


def on_data(fault: Any) -> Callable[[Request], Any]:
    return lambda request: fault if is_data(request) else None


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (403, r"access was denied \(403, Injected\).*s3_access_key_id"),
        (404, r"no such object \(404"),
        (418, r"the server answered 418"),
        (503, r"the server answered 503, Injected \(repeated 2 times\).*http_retries"),
        ("whole", r"parts of a file \(Range\)"),
        ("short", r"ended after \d+ of \d+ bytes"),
        ("lie", r"ended after \d+ of \d+ bytes"),
    ],
)
def test_faults_are_errors_that_name_the_object(
    store: Store, device: str, content: bytes, fault: Any, message: str
) -> None:
    with opened(store, device, content) as con:
        store.fault = on_data(fault)
        with pytest.raises(warpmill.IOError, match=rf"^{URL}: .*{message}") as caught:
            con.sql(QUERY)
        assert "hush" not in str(caught.value)
        store.fault = lambda _: None
        assert con.sql(QUERY).fetchone() == ANSWER, "the next query finds it well"


@pytest.mark.parametrize("fault", [503, 500, "short"])
def test_what_fails_once_is_asked_again(store: Store, device: str, content: bytes, fault: Any) -> None:
    failed: set[str] = set()

    def once(request: Request) -> Any:
        key = f"{request.method} {request.path} {request.query}"
        first = key not in failed and (fault != "short" or request.range is not None)
        failed.add(key)
        return fault if first else None

    store.objects["bench/x.parquet"] = content
    store.fault = once
    with connect(store, device, http_retries=2) as con:
        con.register_file("t", URL)
        assert con.sql(QUERY).fetchone() == ANSWER
    assert any(request.status >= 500 for request in store.requests) or fault == "short"


@pytest.mark.parametrize("kept", ["if-match", "tags", "size"])
def test_an_object_that_changes_in_between_is_an_error(
    store: Store, device: str, content: bytes, tmp_path: Path, kept: str
) -> None:
    """Whether the server evaluates If-Match, only sends tags, or only the object's length."""
    other = content + b"longer" if kept == "size" else large(9, tmp_path / "other.parquet")
    assert (len(other) == len(content)) == (kept != "size")
    store.if_match, store.tags = kept == "if-match", kept != "size"

    def change(request: Request) -> None:
        if is_data(request):
            store.objects["bench/x.parquet"] = other

    with opened(store, device, content) as con:
        store.fault = change
        with pytest.raises(warpmill.IOError, match=rf"{URL}: the object was changed while a query read it"):
            con.sql(QUERY)
        store.fault = lambda _: None
        if kept != "size":
            assert con.sql(QUERY).fetchone() == (9 * ROWS, ROWS - 1), "the next query reads the new one"


def test_an_object_that_is_gone_is_an_error(store: Store, device: str, content: bytes) -> None:
    with opened(store, device, content) as con:
        del store.objects["bench/x.parquet"]
        with pytest.raises(warpmill.IOError, match=rf"{URL}: .*404|no object"):
            con.sql(QUERY)


def test_what_is_no_parquet_file_is_an_error(store: Store, device: str) -> None:
    store.objects["bench/x.parquet"] = b"PAR1" + bytes(1000) + b"PAR1"
    with connect(store, device) as con, pytest.raises(warpmill.Error, match=r"Parquet|parquet"):
        con.sql(f"SELECT * FROM '{URL}'")


def test_silence_ends_in_time(store: Store, device: str, content: bytes) -> None:
    with opened(store, device, content) as con:
        con.set("http_timeout", 0.4)
        con.set("http_retries", 1)
        store.fault = on_data("hang")
        started = time.monotonic()
        with pytest.raises(warpmill.IOError, match=rf"{URL}: no answer within warpmill.http_timeout \(repeated once\)"):
            con.sql(QUERY)
        assert time.monotonic() - started < 10


def test_nobody_there(store: Store) -> None:
    failed = pytest.raises(warpmill.IOError, match=rf"{URL}: the connection failed")
    with connect(store, s3_endpoint="127.0.0.1:9", http_retries=0) as con, failed:
        con.sql(f"SELECT * FROM '{URL}'")


def test_cancelling_ends_requests(store: Store, device: str, content: bytes) -> None:
    with opened(store, device, content) as con:
        con.set("http_timeout", 30)
        waiting = threading.Event()

        def hang(request: Request) -> Any:
            if not is_data(request):
                return None
            waiting.set()
            return "hang"

        store.fault = hang
        outcome: list[BaseException | None] = []

        def run() -> None:
            try:
                con.sql(QUERY)
                outcome.append(None)
            except warpmill.Error as error:
                outcome.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        assert waiting.wait(10)
        started = time.monotonic()
        con.interrupt()
        thread.join(10)
        assert isinstance(outcome[0], warpmill.InterruptError), outcome
        assert time.monotonic() - started < 2
        asked = len(store.requests)
        store.released.set()
        time.sleep(0.3)
        assert len(store.requests) == asked, "nothing is asked for after that"
        store.fault = lambda _: None
        assert con.sql(QUERY).fetchone() == ANSWER
