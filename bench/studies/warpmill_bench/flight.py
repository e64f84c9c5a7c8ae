"""A soak test of the Flight SQL server: many clients, mixed statements, cancellations, dropped connections.

``python -m warpmill_bench.flight --clients 64 --minutes 5`` prints one JSON object, and ends with 1 where an
answer was wrong, a statement failed that should not, or something (memory, too) is left when all clients have gone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROWS = 200_000
#: Megabytes that the server may have more when all clients have gone than after it was warm.
GROWN_MB = 200
#: Words in the errors of cancelled statements.
CANCELLED = ("cancel", "Cancel", "CANCEL", "EOF", "closed", "closing")


@dataclass
class Tally:
    """The counts of all clients together."""

    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    wrong: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def took(self, kind: str, seconds: float) -> None:
        """A statement that ended well."""
        with self.lock:
            self.times[kind].append(seconds)

    def note(self, where: list[str], text: str) -> None:
        """Record the first failure."""
        with self.lock:
            self.counts["wrong" if where is self.wrong else "failed"] += 1
            if len(where) < 20:
                where.append(text)


def expect(tally: Tally, what: str, found: object, expected: object) -> None:
    """Count a wrong answer."""
    if found != expected:
        tally.note(tally.wrong, f"{what}: {found!r}, not {expected!r}")


def query(cursor: Any, sql: str, parameters: tuple[object, ...] | None = None) -> list[tuple[Any, ...]]:
    """All rows of a statement."""
    cursor.execute(sql, parameters)
    return list(cursor.fetchall())


class Client:
    """One client: statements with known answers, until it is stopped."""

    def __init__(self, uri: str, number: int, tally: Tally, end: float) -> None:
        self.uri, self.number, self.tally, self.end = uri, number, tally, end
        self.random = random.Random(number)
        self.kinds = {
            "total": (30, self.total),
            "groups": (20, self.groups),
            "parameters": (15, self.parameters),
            "rows": (10, self.rows),
            "fallback": (5, self.fallback),
            "change": (5, self.change),
            "metadata": (5, self.metadata),
            "error": (5, self.error),
            "cancel": (3, self.cancel),
            "drop": (2, self.drop),
        }

    def run(self) -> None:
        """Statements in random order, a few dozen a connection."""
        names = list(self.kinds)
        weights = [self.kinds[name][0] for name in names]
        while time.monotonic() < self.end:
            try:
                with self.connect() as con, con.cursor() as cursor:
                    for _ in range(30):
                        (kind,) = self.random.choices(names, weights)
                        if time.monotonic() >= self.end:
                            break
                        begun = time.perf_counter()
                        self.kinds[kind][1](cursor)
                        self.tally.took(kind, time.perf_counter() - begun)
            except Exception as error:
                self.tally.note(self.tally.failed, f"client {self.number}: {type(error).__name__}: {error}")

    def connect(self) -> Any:
        """A connection with a session of its own."""
        from adbc_driver_flightsql import dbapi

        options = {"username": "soak", "password": "soak"}
        return dbapi.connect(self.uri, db_kwargs=options, autocommit=True)

    def total(self, cursor: Any) -> None:
        """A filtered aggregate."""
        low = self.random.randrange(ROWS)
        found = query(cursor, f"SELECT count(*), sum(a) FROM facts WHERE a >= {low}")
        expect(self.tally, f"total from {low}", found, [(ROWS - low, sum(range(low, ROWS)))])

    def groups(self, cursor: Any) -> None:
        """Groups of a join."""
        found = query(
            cursor, "SELECT name, count(*), min(a), max(a) FROM facts JOIN names ON k = id GROUP BY name ORDER BY name"
        )
        expected = [(f"name {k:02}", len(range(k, ROWS, 50)), k, range(k, ROWS, 50)[-1]) for k in range(50)]
        expect(self.tally, "groups", found, expected)

    def parameters(self, cursor: Any) -> None:
        """A prepared statement."""
        k, most = self.random.randrange(50), self.random.randrange(1, ROWS)
        found = query(cursor, "SELECT a FROM facts WHERE k = ? AND a < ? ORDER BY a DESC LIMIT 3", (k, most))
        expect(self.tally, f"parameters {k} {most}", found, [(a,) for a in reversed(range(k, most, 50)[-3:])])

    def rows(self, cursor: Any) -> None:
        """A result of many messages."""
        cursor.execute("SELECT a, s FROM facts")
        table = cursor.fetch_arrow_table()
        expect(self.tally, "rows", table.num_rows, ROWS)
        a, s = table.column("a").to_pylist(), table.column("s").to_pylist()
        expect(
            self.tally,
            "values",
            all(y == (None if x % 10 == 0 else f"s{x % 100}") for x, y in zip(a, s, strict=True)),
            True,
        )

    def fallback(self, cursor: Any) -> None:
        """A query that DataFusion runs."""
        found = query(cursor, "SELECT sum(x) FROM (SELECT a - lag(a) OVER (ORDER BY a) AS x FROM facts WHERE a < 1000)")
        expect(self.tally, "fallback", found, [(999,)])

    def change(self, cursor: Any) -> None:
        """A table made, filled, read and dropped."""
        import pyarrow as pa

        name = f"own_{self.number}_{self.random.randrange(10**9)}"
        expect(self.tally, "ingest", cursor.adbc_ingest(name, pa.table({"a": range(100)}), mode="create"), 100)
        cursor.execute(f"INSERT INTO {name} VALUES (1000)")
        cursor.fetchall()
        expect(self.tally, "change", query(cursor, f"SELECT sum(a), count(*) FROM {name}"), [(5950, 101)])
        cursor.execute(f"DROP TABLE {name}")
        cursor.fetchall()

    def metadata(self, cursor: Any) -> None:
        """The columns of a table."""
        schema = cursor.connection.adbc_get_table_schema("facts")
        expect(self.tally, "metadata", schema.names, ["a", "k", "s"])

    def error(self, cursor: Any) -> None:
        """A statement that must fail."""
        # A different text each time: ADBC's cursor does not prepare the same text twice in a row.
        try:
            query(cursor, f"SELECT nothing_{self.random.randrange(10**9)} FROM facts")
        except Exception as error:
            if "INVALID_ARGUMENT" not in str(error).upper().replace(" ", "_"):
                self.tally.note(self.tally.wrong, f"error: {error}")
        else:
            expect(self.tally, "error", "rows", "an error")

    def cancel(self, cursor: Any) -> None:
        """A statement that is stopped soon after it began."""
        # Again and again: a cancellation that comes before the server has the statement stops nothing.
        done = threading.Event()
        wait = self.random.uniform(0.0, 0.3)

        def stop() -> None:
            while not done.wait(wait or 0.01):
                self._quietly(cursor.adbc_cancel)

        stopper = threading.Thread(target=stop)
        stopper.start()
        try:
            query(cursor, "SELECT count(*) FROM facts AS x CROSS JOIN facts AS y WHERE x.a * y.a % 7 = 1")
            expect(self.tally, "cancel", "rows", "cancelled")
        except Exception as error:
            if not any(word in str(error) for word in CANCELLED):
                self.tally.note(self.tally.failed, f"cancel: {error}")
        finally:
            done.set()
            stopper.join()

    def drop(self, cursor: Any) -> None:
        """A connection that goes away with rows unread."""
        del cursor
        con = self.connect()
        other = con.cursor()
        other.execute("SELECT value FROM generate_series(1, 10000000000) s(value)")
        expect(self.tally, "drop", other.fetchone(), (1,))
        self._quietly(other.close)
        self._quietly(con.close)

    @staticmethod
    def _quietly(work: Any) -> None:
        with contextlib.suppress(Exception):
            work()


#: A process that is killed while it reads.
KILLED = """
import sys
from adbc_driver_flightsql import dbapi
options = {"username": "soak", "password": "soak"}
con = dbapi.connect(sys.argv[1], db_kwargs=options, autocommit=True)
cursor = con.cursor()
cursor.execute("SELECT value FROM generate_series(1, 10000000000) s(value)")
print(cursor.fetchone(), flush=True)
while cursor.fetchone(): pass
"""


def kill_clients(uri: str, end: float, tally: Tally) -> None:
    """Processes that end without a word, one after the other."""
    while time.monotonic() < end:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", KILLED, uri], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
        process.wait()
        process.stdout.close()
        with tally.lock:
            tally.counts["killed"] += 1
        time.sleep(1)


class Server:
    """`warpmill serve` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        from warpmill._warpmill import hash_password

        (folder / "users").write_text(f"soak:{hash_password('soak')}\n", encoding="utf-8")
        command = [sys.executable, "-m", "warpmill", "serve", "--database", str(folder / "db"), "--port", "0"]
        options = ["--metrics-port", "0", "--users", str(folder / "users"), "--log-level", "error"]
        limits = ["--session-idle", "20", "--queue", "1000", "--queue-timeout", "300"]
        self.process = subprocess.Popen([*command, *options, *limits], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.uri = self.process.stdout.readline().split()[-1]
        self.http = self.process.stdout.readline().split()[3]

    def metric(self, name: str) -> float:
        """A metric, labels added up."""
        with urllib.request.urlopen(self.http) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))

    def memory(self) -> float:
        """Resident megabytes."""
        return self.metric("warpmill_process_resident_memory_bytes") / 1e6

    def settle(self) -> dict[str, float]:
        """Count the sessions that are left when clients have gone: waits until their sessions have ended too."""
        names = ("statements_running", "statements_waiting", "connections_open", "sessions_open")
        end = time.monotonic() + 60
        while True:
            left = {name: self.metric(f"warpmill_{name}") for name in names}
            if not any(left.values()) or time.monotonic() > end:
                return left
            time.sleep(1)

    def stop(self) -> int:
        """Its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


def load(uri: str) -> None:
    """The tables that statements read."""
    import pyarrow as pa

    facts = pa.table(
        {
            "a": range(ROWS),
            "k": [a % 50 for a in range(ROWS)],
            "s": [None if a % 10 == 0 else f"s{a % 100}" for a in range(ROWS)],
        }
    )
    names = pa.table({"id": range(50), "name": [f"name {k:02}" for k in range(50)]})
    with Client(uri, 0, Tally(), 0).connect() as con, con.cursor() as cursor:
        cursor.adbc_ingest("facts", facts, mode="replace")
        cursor.adbc_ingest("names", names, mode="replace")


def clients(uri: str, count: int, seconds: float, kill: bool = True) -> Tally:
    """Run all clients to their end."""
    tally, end = Tally(), time.monotonic() + seconds
    threads = [threading.Thread(target=Client(uri, number, tally, end).run) for number in range(count)]
    if kill:
        threads.append(threading.Thread(target=kill_clients, args=(uri, end, tally)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tally


def quantile(values: list[float], part: float) -> float:
    """A time in milliseconds."""
    return round(sorted(values)[min(int(len(values) * part), len(values) - 1)] * 1000, 1)


def soak(count: int, minutes: float) -> dict[str, Any]:
    """The complete test; returns its findings."""
    warnings.filterwarnings("ignore", message="Cannot disable autocommit")
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        try:
            load(server.uri)
            # The same clients for a short time first: code, pools and caches are there before memory is looked at.
            warm = clients(server.uri, count, min(30.0, minutes * 20))
            server.settle()
            before = server.memory()
            tally = clients(server.uri, count, minutes * 60)
            busy = server.memory()
            left = server.settle()
            after = server.memory()
            code = server.stop()
        finally:
            server.process.kill()
            server.process.wait()
    every = [seconds for times in tally.times.values() for seconds in times]
    return {
        "clients": count,
        "minutes": minutes,
        "statements": len(every),
        "statements_per_second": round(len(every) / (minutes * 60), 1),
        "wrong": tally.counts["wrong"] + warm.counts["wrong"],
        "failed": tally.counts["failed"] + warm.counts["failed"],
        "killed_processes": tally.counts["killed"],
        "first_wrong": (tally.wrong + warm.wrong)[:5],
        "first_failed": (tally.failed + warm.failed)[:5],
        "p50_ms": quantile(every, 0.5),
        "p99_ms": quantile(every, 0.99),
        "by_kind": {
            kind: {"n": len(times), "p50_ms": quantile(times, 0.5), "p99_ms": quantile(times, 0.99)}
            for kind, times in sorted(tally.times.items())
        },
        "memory_mb": {"before": round(before), "busy": round(busy), "after": round(after)},
        "left": left,
        "exit_code": code,
    }


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description="Soak test of the Flight SQL server.")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=5.0)
    options = parser.parse_args()
    found = soak(options.clients, options.minutes)
    print(json.dumps(found, indent=2))
    grown = found["memory_mb"]["after"] - found["memory_mb"]["before"] > GROWN_MB
    sys.exit(bool(found["wrong"] or found["failed"] or any(found["left"].values()) or found["exit_code"] or grown))


if __name__ == "__main__":
    main()
