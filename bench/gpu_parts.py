#!/usr/bin/env python3
"""The steps of `gpu_session.py` that run as processes of their own.

python bench/gpu_parts.py tables KIND SF CODEC FOLDER
python bench/gpu_parts.py duckdb DATABASE OUT.json [DEVICE [RUNS [PROCESSES]]]
python bench/gpu_parts.py limits KIND DATABASE OUT.json DEVICE:BYTES,... [RUNS]
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def make_tables(kind: str, sf: str, codec: str, folder: str) -> None:
    """A suite's tables with a codec, where `warpmill bench --data` looks for them."""
    import warpmill
    from warpmill import _warpmill

    place = Path(folder) / "warpmill"
    place.mkdir(parents=True, exist_ok=True)
    with warpmill.connect(place) as con:
        con.set("codec", codec)
        there = {table.name for table in con.tables()}
        for name in _warpmill.tables(kind):
            if name not in there:
                begun = time.perf_counter()
                con.generate(kind, name, float(sf))
                print(f"{name} ({codec}): {time.perf_counter() - begun:.1f} s", flush=True)


def effective_bandwidth(kind: str, database: str, report: str, out: str) -> None:
    """Per query: uncompressed bytes of its columns per second, bytes moved, their ratio, and the disk's rate."""
    import warpmill
    from warpmill import _warpmill
    from warpmill_bench.disk import disk_gb_per_s

    texts = dict(_warpmill.queries(kind))
    with warpmill.connect(database) as con:
        columns = {column["name"]: column for table in con.tables() for column in con.inspect(table.name)}
    queries = []
    for row in json.loads(Path(report).read_text(encoding="utf-8"))["results"]:
        if row["engine"] != "warpmill" or not row["median_ms"]:
            continue
        # Columns of both suites have their table's prefix: a word of the text that is one is that column.
        named = [columns[word] for word in set(re.findall(r"\w+", texts[row["query"]].lower())) if word in columns]
        plain, stored = (sum(column[kind_] for column in named) for kind_ in ("plain_bytes", "stored_bytes"))
        moved = sum(t["bytes"] for t in row["transfers"] if t["what"].startswith("segments from"))
        seconds = row["median_ms"] / 1000
        queries.append(
            {
                "query": row["query"],
                "median_ms": row["median_ms"],
                "plain_bytes": plain,
                "stored_bytes": stored,
                "moved_bytes": moved,
                "ratio": round(plain / stored, 3),
                "effective_gb_per_s": round(plain / seconds / 1e9, 3),
                "moved_gb_per_s": round(moved / seconds / 1e9, 3),
                "device": row["device"],
            }
        )
    found = {"report": Path(report).name, "disk_gb_per_s": disk_gb_per_s(Path(database)), "queries": queries}
    Path(out).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for query in queries:
        print(f"{query['query']:>4} {query['effective_gb_per_s']:9.2f} GB/s, moved {query['moved_gb_per_s']:.2f} GB/s")
    print(f"disk, read past the page cache: {found['disk_gb_per_s']} GB/s")


def through_duckdb(database: str, out: str, device: str = "auto", runs: str = "5", processes: str = "1") -> None:
    """TPC-H through `import warpmill.duckdb`, with and without Warpmill, in turn: first touch and hot medians.

    First touch twice, each time in as many new processes as `processes` says: with no kernel compiled before, and with
    kernels on disk. Hot runs follow in the very first of them. What first runs spent their time on is in the report.
    """
    report: dict[str, Any] = {"suite": "tpch", "runs": int(runs), "processes": int(processes), "device": device}
    with tempfile.TemporaryDirectory() as folder:
        for kernels in ("none", "kept"):
            report[f"kernels_{kernels}"] = []
            for number in range(int(processes)):
                place = Path(folder) / "report.json"
                cache = Path(folder) / ("kernels-0" if kernels == "kept" else f"kernels-{number}")
                hot = runs if kernels == "none" and number == 0 else "0"
                command = [sys.executable, str(Path(__file__).resolve()), "duckdb_process", database, str(place), hot]
                environment = {**os.environ, "WARPMILL_CACHE_DIR": str(cache), "WARPMILL_DEVICE": device}
                environment["WARPMILL_PROFILE"] = "kernels"
                print(f"process {number + 1}, kernels on disk: {kernels}", flush=True)
                subprocess.run(command, env=environment, check=True)
                report[f"kernels_{kernels}"].append(json.loads(place.read_text(encoding="utf-8")))
    first = report["kernels_none"][0]
    report["results"] = first.pop("results_hot")
    report["duckdb"] = first["duckdb"]
    report["totals"] = {
        f"{who}_{what}": sums(report["results"], f"{who}_{what}")
        for who in ("warpmill", "duckdb")
        for what in ("median_s", "cpu_s")
    }
    for kernels in ("none", "kept"):
        # The totals of each process; the median is the expected time.
        made = [process["totals"] for process in report[f"kernels_{kernels}"]]
        medians = {key: statistics.median(total[key] for total in made) for key in made[0] if made[0][key] is not None}
        ratios = [total["warpmill_first_s"] / total["duckdb_first_s"] for total in made if total["warpmill_first_s"]]
        if ratios:
            medians["first_ratio"] = round(statistics.median(ratios), 3)
        report["totals"][f"kernels_{kernels}"] = medians
    Path(out).write_text(json.dumps(report, default=str) + "\n", encoding="utf-8")
    print(json.dumps(report["totals"], indent=1))
    processes_ = report["kernels_none"] + report["kernels_kept"]
    if any(row["error"] for process in processes_ for row in process["results"]):
        sys.exit(1)


def sums(rows: list[dict[str, Any]], key: str) -> float | None:
    """The sum of a column of a report; None where a row lacks it."""
    values = [row.get(key) for row in rows]
    return None if any(value is None for value in values) else sum(value for value in values if value is not None)


#: Parts of a first run, in the profile of a query through DuckDB: all in milliseconds.
FIRST_PARTS = ("reading_ms", "encoding_ms", "finishing_ms", "planning_ms", "execution_ms", "compiling_ms", "copying_ms")


def duckdb_process(database: str, out: str, hot: str) -> None:
    """One process of `through_duckdb`: loads the tables, runs each query first with and then without Warpmill."""
    import pyarrow

    import warpmill
    import warpmill.duckdb as duckdb
    from warpmill import _warpmill
    from warpmill.bench.verify import difference

    con = duckdb.connect()
    with warpmill.connect(database) as source:
        # A device gives the rows of a table in any order: with scattered keys, joins are slower, in DuckDB too.
        source.set("device", "cpu")
        for table in source.tables():
            begun = time.perf_counter()
            con.register("incoming", pyarrow.RecordBatchReader.from_stream(source.sql(f"SELECT * FROM {table.name}")))
            con.execute(f"CREATE TABLE {table.name} AS SELECT * FROM incoming")
            con.unregister("incoming")
            print(f"{table.name}: {time.perf_counter() - begun:.1f} s", flush=True)
    for name, key in (("orders", "o_orderkey"), ("part", "p_partkey")):
        before = f"lag({key}, 1, 0) OVER ()"
        [(ordered,)] = con.execute(f"SELECT bool_and(d) FROM (SELECT {key} > {before} AS d FROM {name})").fetchall()
        if not ordered:
            sys.exit(
                f"the rows of {name} are not in the order of {key}: what follows would be measured on other tables"
            )

    def timed(sql: str, enabled: bool) -> tuple[float, float, Any]:
        con.execute(f"SET warpmill_enabled = {str(enabled).lower()}")
        begun, cpu = time.perf_counter(), time.process_time()
        table = con.sql(sql).to_arrow_table()
        return time.perf_counter() - begun, time.process_time() - cpu, table

    def profile_of() -> tuple[dict[str, Any], dict[str, Any]]:
        (last,) = con.sql("FROM warpmill_last()").to_arrow_table().to_pylist() or [{}]
        profile = json.loads(last.get("profile") or "{}")
        devices = profile.get("on_device") or []
        profile["compiling_ms"] = sum(one["prepare_nanos"] for one in devices) / 1e6
        profile["copying_ms"] = sum(t["nanos"] for one in devices for t in one["transfers"]) / 1e6
        return last, profile

    def rows(table: Any) -> list[tuple[Any, ...]]:
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    found: list[dict[str, Any]] = []
    queries = list(_warpmill.queries("tpch"))
    for name, sql in queries:
        row: dict[str, Any] = {"query": name, "error": None}
        found.append(row)
        try:
            row["warpmill_first_s"], row["warpmill_first_cpu_s"], ours = timed(sql, True)
            last, profile = profile_of()
            row["accelerated"], row["reason"] = last.get("accelerated"), last.get("reason")
            row["devices"], row["not_on_device"] = profile.get("devices"), profile.get("not_on_device")
            row["first"] = {part: profile.get(part) for part in FIRST_PARTS}
            row["first_on_device"] = profile.get("on_device")
            row["duckdb_first_s"], row["duckdb_first_cpu_s"], theirs = timed(sql, False)
            row["error"] = difference(rows(ours), rows(theirs), theirs.column_names, sql)
            parts = ", ".join(f"{part[:-3]} {profile.get(part) or 0:.0f}" for part in FIRST_PARTS)
            print(
                f"{name:>3} first {row['warpmill_first_s']:.3f} s, duckdb {row['duckdb_first_s']:.3f} s; "
                f"accelerated: {row['accelerated']} {row['reason'] or ''}; ms: {parts}",
                flush=True,
            )
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}"
            print(f"{name:>3} {row['error']}", flush=True)
    names = [f"{who}_first_{what}" for who in ("warpmill", "duckdb") for what in ("s", "cpu_s")]
    report = {"duckdb": duckdb.__version__, "totals": {key: sums(found, key) for key in names}, "results": found}
    if int(hot) > 0:
        report["results_hot"] = hot_rows = []
        for name, sql in queries:
            ours_s: list[float] = []
            theirs_s: list[float] = []
            ours_cpu: list[float] = []
            theirs_cpu: list[float] = []
            for _ in range(int(hot)):
                for enabled, seconds, cpu in ((True, ours_s, ours_cpu), (False, theirs_s, theirs_cpu)):
                    wall, used, _ = timed(sql, enabled)
                    seconds.append(wall)
                    cpu.append(used)
            # Profiles are those of runs with Warpmill: one more.
            timed(sql, True)
            _, profile = profile_of()
            hot_rows.append(
                {
                    "query": name,
                    "warpmill_s": ours_s,
                    "duckdb_s": theirs_s,
                    "warpmill_median_s": statistics.median(ours_s),
                    "duckdb_median_s": statistics.median(theirs_s),
                    "warpmill_cpu_s": statistics.median(ours_cpu),
                    "duckdb_cpu_s": statistics.median(theirs_cpu),
                    "execution_ms": profile.get("execution_ms"),
                    "on_device": profile.get("on_device"),
                }
            )
            medians = hot_rows[-1]
            print(
                f"{name:>3} hot {medians['warpmill_median_s']:.4f} s, of which executing "
                f"{medians['execution_ms'] or 0:.1f} ms; duckdb {medians['duckdb_median_s']:.4f} s",
                flush=True,
            )
    Path(out).write_text(json.dumps(report, indent=1, default=str) + "\n", encoding="utf-8")


def limits(kind: str, database: str, out: str, memories: str, runs: str = "3") -> None:
    """A suite with each of some memory limits (`gpu:4GB,cpu:4GB`); answers compared with those of a CPU without one.

    Medians are of runs after a first one; without runs, of the first one. The report is written after each limit.
    """
    import warpmill
    from warpmill import _warpmill

    queries = _warpmill.queries(kind)
    expected: dict[str, tuple[list[tuple[Any, ...]], list[str]]] = {}
    report: dict[str, Any] = {"suite": kind, "unlimited_cpu_s": {}, "runs": []}
    with warpmill.connect(database) as con:
        con.set("device", "cpu")
        for name, sql in queries:
            begun = time.perf_counter()
            result = con.sql(sql)
            report["unlimited_cpu_s"][name] = time.perf_counter() - begun
            expected[name] = (result.fetchall(), result.columns)
    print(f"cpu without a limit: {sum(report['unlimited_cpu_s'].values()):.1f} s", flush=True)
    for device, memory in (text.split(":") for text in memories.split(",")):
        with warpmill.connect(database) as con:
            con.set("device", device)
            con.set("memory_limit" if device == "cpu" else "gpu_memory_limit", memory)
            for name, sql in queries:
                row = {
                    "query": name,
                    "device": device,
                    "memory": memory,
                    **limited(con, sql, expected[name], int(runs)),
                }
                report["runs"].append(row)
                said = " ".join(row.get("not_on_device") or []) or row["error"] or "equal"
                print(
                    f"{device} {memory} {name:>3} {row.get('median_s', 0):.3f} s {row.get('devices')} {said}",
                    flush=True,
                )
        Path(out).write_text(json.dumps(report, indent=1, default=str) + "\n", encoding="utf-8")
    if any(row["error"] for row in report["runs"]):
        sys.exit(1)


def limited(con: Any, sql: str, expected: tuple[list[tuple[Any, ...]], list[str]], runs: int) -> dict[str, Any]:
    """One query: times, where its programs ran, what differs from `expected` (rows, columns)."""
    from warpmill.bench.verify import difference

    row: dict[str, Any] = {"s": [], "error": None}
    try:
        for _ in range(runs + 1):
            begun = time.perf_counter()
            result = con.sql(sql)
            row["s"].append(time.perf_counter() - begun)
        programs = result.profile.get("programs") or []
        row["devices"] = sorted({program["device"] for program in programs})
        row["not_on_device"] = [p["not_on_device"] for p in programs if p["not_on_device"]]
        row["median_s"] = statistics.median(row["s"][1:] or row["s"])
        row["error"] = difference(result.fetchall(), *expected, sql)
        row["spilled_bytes"] = sum(program["spilled_bytes"] for program in programs)
        devices = [program["on_device"] for program in programs if program["on_device"]]
        row["on_device"] = [
            {key: one[key] for key in ("runs", "parts", "join", "bytes_again", "transfers")} for one in devices
        ]
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {error}"
    return row


def clients(threads: int, queries: list[tuple[str, str]], connect: Callable[[], Any], seconds: float) -> dict[str, Any]:
    """Run all queries in turn on `threads` threads, each with its own connection: times, wrong row counts."""
    ready = threading.Barrier(threads)
    ends: list[float] = []
    times: list[float] = []
    wrong: list[str] = []

    def client(number: int) -> None:
        with connect() as con:
            rows = {name: len(con.sql(sql)) for name, sql in queries}
            if ready.wait() == 0:
                ends.append(time.perf_counter() + seconds)
            ready.wait()
            at = number
            while time.perf_counter() < ends[0]:
                name, sql = queries[at % len(queries)]
                begun = time.perf_counter()
                if len(con.sql(sql)) != rows[name]:
                    wrong.append(name)
                times.append(time.perf_counter() - begun)
                at += 1

    workers = [threading.Thread(target=client, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    times.sort()
    return {
        "threads": threads,
        "queries_per_second": round(len(times) / seconds, 1),
        "p50_ms": round(times[len(times) // 2] * 1000, 3),
        "p99_ms": round(times[int(len(times) * 0.99)] * 1000, 3),
        "wrong": wrong,
    }


def concurrent(kind: str, database: str, out: str, device: str, seconds: str = "5") -> None:
    """Queries per second of 1 to 16 clients at once."""
    import warpmill
    from warpmill import _warpmill

    def connect() -> Any:
        con = warpmill.connect(database)
        con.set("device", device)
        return con

    found = []
    for threads in (1, 2, 4, 8, 16):
        found.append(clients(threads, _warpmill.queries(kind), connect, float(seconds)))
        print(found[-1], flush=True)
    report = {"suite": kind, "device": device, "runs": found}
    Path(out).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if any(row["wrong"] for row in found):
        sys.exit(1)


# The runner.


#: By the first argument.
PARTS: dict[str, Callable[..., None]] = {
    "tables": make_tables,
    "effective": effective_bandwidth,
    "duckdb": through_duckdb,
    "duckdb_process": duckdb_process,
    "limits": limits,
    "concurrent": concurrent,
}


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in PARTS:
        sys.exit(__doc__)
    PARTS[sys.argv[1]](*sys.argv[2:])
