"""Connections: settings, errors, plans, cancellation, threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import warpmill
from warpmill import _cpu
from warpmill.connection import _bytes

#: A query that runs for minutes.
LONG = """SELECT count(*) FROM generate_series(1, 200000) AS a (x), generate_series(1, 200000) AS b (y)
          WHERE (x * y) % 7 = 3"""


def test_errors_say_what_kind_they_are(con: warpmill.Connection) -> None:
    with pytest.raises(warpmill.ParserError):
        con.sql("SELEC 1")
    with pytest.raises(warpmill.CatalogError, match="nowhere"):
        con.sql("SELECT * FROM nowhere")
    with pytest.raises(warpmill.Error, match="nothing"):
        con.sql("SELECT nothing FROM (SELECT 1 AS a) AS t")
    assert issubclass(warpmill.ParserError, warpmill.Error)


def test_a_failed_query_leaves_the_session_usable(con: warpmill.Connection) -> None:
    with pytest.raises(warpmill.Error):
        con.sql("SELECT * FROM nowhere")
    assert con.sql("SELECT 1").fetchone() == (1,)


def test_a_closed_connection_says_so() -> None:
    con = warpmill.connect()
    relation = con.sql("SELECT 1")
    con.close()
    assert relation.fetchone() == (1,)
    with pytest.raises(warpmill.Error, match="closed"):
        con.sql("SELECT 1")
    con.close()


def test_explain_shows_a_plan(con: warpmill.Connection) -> None:
    con.create_table("t", {"a": [1, 2, 3]})
    assert "t" in con.explain("SELECT sum(a) FROM t")
    assert con.sql("SELECT a FROM t WHERE a > ?", [1]).explain()
    assert con.explain("SELECT sum(a) FROM t", analyze=True)


def test_settings(con: warpmill.Connection) -> None:
    con.set("fallback", "error")
    assert con.settings()["warpmill.fallback"] == "error"
    con.sql("SET warpmill.fallback = 'allow'")
    assert con.settings()["warpmill.fallback"] == "allow"
    with pytest.raises(warpmill.Error, match="no_such_setting"):
        con.set("no_such_setting", 1)
    with pytest.raises(warpmill.Error, match="fallback"):
        con.set("fallback", "sometimes")
    with warpmill.connect(threads=1, fallback="error") as other:
        assert other.settings()["warpmill.fallback"] == "error"


@pytest.mark.parametrize(
    ("text", "expected"), [("10", 10), ("1kB", 1000), ("4GB", 4 * 10**9), ("1.5 GiB", 1536 << 20), ("2m", 2 * 10**6)]
)
def test_sizes(text: str, expected: int) -> None:
    assert _bytes(text) == expected


def test_sizes_that_are_none() -> None:
    with pytest.raises(ValueError, match="many"):
        warpmill.connect(memory_limit="many")


def test_threads_share_a_connection(con: warpmill.Connection) -> None:
    con.register("t", {"a": list(range(1000))})

    def work(n: int) -> object:
        return con.sql("SELECT sum(a) FROM t WHERE a < ?", [n]).fetchone()

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(1, 40)))
    assert results == [(sum(range(n)),) for n in range(1, 40)]


def test_interrupt_cancels_from_another_thread(con: warpmill.Connection) -> None:
    timer = threading.Timer(0.3, con.interrupt)
    timer.start()
    start = time.monotonic()
    with pytest.raises(warpmill.InterruptError):
        con.sql(LONG)
    assert time.monotonic() - start < 20
    assert con.sql("SELECT 1").fetchone() == (1,)


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_ctrl_c_cancels() -> None:
    program = f"""
import signal
import warpmill
# A shell has it ignored in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
con = warpmill.connect()
print("ready", flush=True)
try:
    con.sql('''{LONG}''')
except KeyboardInterrupt:
    print("cancelled", con.sql("SELECT 42").fetchone(), flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    assert child.stdout.readline() == "cancelled (42,)\n"
    assert child.wait(20) == 0


def test_a_cpu_without_avx2_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(_cpu, "flags", lambda: frozenset({"sse2", "fma"}))
    with pytest.raises(ImportError, match="AVX2"):
        _cpu.require()
    monkeypatch.setattr(_cpu, "flags", lambda: None)
    _cpu.require()
