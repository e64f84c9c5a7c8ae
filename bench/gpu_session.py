#!/usr/bin/env python3
"""Everything that is to be measured on a machine with a GPU, most important first, recorded into one folder.

    python bench/gpu_session.py OUT                      all steps
    python bench/gpu_session.py OUT --list               what the steps are
    python bench/gpu_session.py OUT --steps tpch,qj      steps by name, or by the first words of names
    python bench/gpu_session.py OUT --minutes 25         no step begins, or goes on, after that time
    python bench/gpu_session.py /tmp/try --device cpu --scale 0.001 --steps tpch-sf1

Needs a Python in which `warpmill` can be imported, with the packages of its extra `bench`. Each step is a process of
its own with a time limit; one that fails or takes too long does not stop those after it. OUT gets, for each step,
NAME.log (its commands and all that they wrote) and its reports (JSON, pictures), and summary.json, which is written
anew after every step. Steps that are done already (in summary.json, without an error) are run again with `--again`
only. Tables are made under --data and removed after the last step that needs them, unless there is `--keep`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: The memory limit that makes data larger than the device's memory.
LIMIT = "16GB"

#: Where data can be that passes through.
LOCATIONS = ("pinned", "disk", "host")


@dataclass(frozen=True)
class Step:
    """One thing to measure: commands, one after the other, until one fails."""

    name: str
    #: Seconds for all of its commands.
    limit: int
    commands: list[list[str]]
    #: Folders of tables, under --data, that it makes or reads.
    uses: list[str] = field(default_factory=list)
    #: A command that must succeed, or else the step is skipped: what is not there yet cannot be measured.
    needs: list[str] | None = None


@dataclass(frozen=True)
class Session:
    """Where things are."""

    out: Path
    data: Path
    device: str
    scale: float

    def sf(self, factor: float) -> str:
        """A scale factor, as small as was asked for."""
        return f"{max(factor * self.scale, 0.01) if self.scale < 1 else factor:g}"

    def bench(self, *arguments: str) -> list[str]:
        """`warpmill bench`."""
        return [sys.executable, "-m", "warpmill", "bench", *arguments]

    def own(self, *arguments: str) -> list[str]:
        """A part of this script, in a process of its own."""
        return [sys.executable, str(Path(__file__).resolve()), *arguments]


def steps(at: Session) -> list[Step]:
    """All steps, most important first."""
    return [
        Step("doctor", 60, [[sys.executable, "-m", "warpmill", "doctor"]]),
        *(tpch(at, sf, limit) for sf, limit in ((1, 300), (10, 600), (30, 900))),
        suite(at, "ssb-sf1", 300, "ssb", 1, ["--against", "duckdb", "--verify"]),
        start(at),
        concurrent_step(at),
        suite(at, "ssb-sf100", 600, "ssb", 100, ["--runs", "7"]),
        parquet(at),
        *larger_than_memory(at, "ssb", 30, None, 600),
        *larger_than_memory(at, "tpch", 30, "1,3,5,6", 600),
        duckdb_step(at),
        # Its 82 GB of columns for six runs would take minutes from a disk.
        *larger_than_memory(at, "ssb", 100, None, 900, ("pinned", "host")),
        suite(at, "tpch-sf100", 900, "tpch", 100, ["--runs", "5"]),
        limited(at),
        *qj_steps(at),
        golap(at),
    ]


def suite(at: Session, name: str, limit: int, kind: str, sf: float, options: list[str]) -> Step:
    """A suite of queries, its tables in a folder that other steps of the same scale share."""
    folder = f"{kind}-sf{sf:g}"
    where = ["--sf", at.sf(sf), "--device", at.device, "--data", str(at.data / folder)]
    report = ["--json", str(at.out / f"{name}.json")]
    return Step(name, limit, [at.bench(kind, *where, *options, *report)], [folder])


def tpch(at: Session, sf: float, limit: int) -> Step:
    """TPC-H in device memory, against DuckDB."""
    return suite(at, f"tpch-sf{sf:g}", limit, "tpch", sf, ["--against", "duckdb", "--verify"])


def start(at: Session) -> Step:
    """New processes, without and with compiled kernels on disk."""
    where = ["--sf", at.sf(1), "--device", at.device, "--data", str(at.data / "tpch-sf1")]
    command = at.bench("start", "tpch", *where, "--json", str(at.out / "start-tpch-sf1.json"))
    return Step("start-tpch-sf1", 300, [command], ["tpch-sf1"])


def parquet(at: Session) -> Step:
    """Pages of Parquet decoded by the device, against the CPU."""
    where = ["--sf", at.sf(1), "--device", at.device, "--data", str(at.data / "parquet-sf1")]
    command = at.bench("parquet", *where, "--json", str(at.out / "parquet-sf1.json"))
    return Step("parquet-sf1", 300, [command], ["parquet-sf1"])


def larger_than_memory(
    at: Session, kind: str, sf: float, queries: str | None, limit: int, locations: tuple[str, ...] = LOCATIONS
) -> list[Step]:
    """A suite whose data comes from the disk or the host for every run, with and without codecs."""
    made = []
    for codec in ("none", "lz4", "auto"):
        folder = f"{kind}-sf{sf:g}" + ("" if codec == "none" else f"-{codec}")
        place = at.data / folder
        for location in locations:
            name = f"{kind}-sf{sf:g}-{location}-{codec}"
            report = at.out / f"{name}.json"
            where = ["--sf", at.sf(sf), "--data", str(place), "--device", at.device]
            what = ["--gpu-memory-limit", LIMIT, "--data-location", location, "--json", str(report)]
            chosen = ["--queries", queries] if queries else []
            effective = at.out / f"{name}-effective.json"
            commands = [
                at.own("_tables", kind, at.sf(sf), codec, str(place)),
                at.bench(kind, *where, *what, *chosen),
                at.own("_effective", kind, str(place / "warpmill"), str(report), str(effective)),
            ]
            made.append(Step(name, limit, commands, [folder]))
    return made


def duckdb_step(at: Session) -> Step:
    """TPC-H through DuckDB with Warpmill, against DuckDB alone."""
    place = at.data / "tpch-sf30"
    commands = [
        at.own("_tables", "tpch", at.sf(30), "none", str(place)),
        at.own("_duckdb", str(place / "warpmill"), str(at.out / "duckdb-tpch-sf30.json"), at.device),
    ]
    return Step("duckdb-tpch-sf30", 1200, commands, ["tpch-sf30"])


def limited(at: Session) -> Step:
    """TPC-H with little device memory, and on a CPU with little memory."""
    place = at.data / "tpch-sf100"
    memories = ",".join([*(f"{at.device}:{memory}" for memory in ("16GB", "8GB", "4GB")), "cpu:4GB"])
    commands = [
        at.own("_tables", "tpch", at.sf(100), "none", str(place)),
        at.own("_limits", "tpch", str(place / "warpmill"), str(at.out / "tpch-sf100-limits.json"), memories),
    ]
    return Step("tpch-sf100-limits", 1800, commands, ["tpch-sf100"])


def concurrent_step(at: Session) -> Step:
    """Clients at once on one device."""
    place = at.data / "tpch-sf10"
    commands = [
        at.own("_tables", "tpch", at.sf(10), "none", str(place)),
        at.own("_concurrent", "tpch", str(place / "warpmill"), str(at.out / "concurrent-tpch-sf10.json"), at.device),
    ]
    return Step("concurrent-tpch-sf10", 120, commands, ["tpch-sf10"])


def qj_steps(at: Session) -> list[Step]:
    """Joins, selectivity, drives and codecs."""
    where = ["--sf", at.sf(30), "--device", at.device, "--gpu-memory-limit", LIMIT, "--data", str(at.data / "qj")]
    return [
        Step("qj-disk", 1200, [at.bench("qj", *where, "--out", str(at.out / "qj-disk"))], ["qj"]),
        Step(
            "qj-pinned",
            600,
            # What the automatic choice is for is a link, not a disk.
            [
                at.bench(
                    *("qj", *where, "--data-location", "pinned", "--set", "storage_bandwidth=55GB"),
                    *("--out", str(at.out / "qj-pinned")),
                )
            ],
            ["qj"],
        ),
    ]


def golap(at: Session) -> Step:
    """Pruning and compression, where this version has the suite."""
    place = str(at.data / "golap")
    where = ["--device", at.device, "--data", place, "--out", str(at.out / "golap")]
    command = at.bench("golap", "--sf", at.sf(10), *where)
    return Step("golap", 1200, [command], ["golap"], needs=at.bench("golap", "--help"))


# What runs in processes of their own.


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
    """Per query: uncompressed bytes of the columns that it names per second, what was moved, the ratio, the disk."""
    import warpmill
    from warpmill import _warpmill

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


def disk_gb_per_s(database: Path, seconds: float = 3.0, threads: int = 4, block: int = 8 << 20) -> float | None:
    """GB/s at which the largest file of a database is read with O_DIRECT; None where the file system cannot."""
    files = sorted(database.glob("*/*.data"), key=lambda path: path.stat().st_size)
    blocks = files[-1].stat().st_size // block if files else 0
    if not blocks or not hasattr(os, "O_DIRECT"):
        return None
    try:
        handle = os.open(files[-1], os.O_RDONLY | os.O_DIRECT)
    except OSError:
        return None
    read = [0] * threads
    begun = time.perf_counter()

    def work(number: int) -> None:
        # Anonymous memory is aligned to pages, as direct reads need it.
        with mmap.mmap(-1, block) as buffer:
            at = number
            while at < blocks and time.perf_counter() - begun < seconds:
                read[number] += os.preadv(handle, [buffer], at * block)
                at += threads

    try:
        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        os.close(handle)
    return round(sum(read) / (time.perf_counter() - begun) / 1e9, 3)


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
                command = [sys.executable, str(Path(__file__).resolve()), "_duckdb_process", database, str(place), hot]
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
        # Of each process; the median says what to expect.
        made = [process["totals"] for process in report[f"kernels_{kernels}"]]
        medians = {key: statistics.median(total[key] for total in made) for key in made[0] if made[0][key] is not None}
        ratios = [total["warpmill_first_s"] / total["duckdb_first_s"] for total in made if total["warpmill_first_s"]]
        if ratios:
            medians["first_ratio"] = round(statistics.median(ratios), 3)
        report["totals"][f"kernels_{kernels}"] = medians
    Path(out).write_text(json.dumps(report, indent=1, default=str) + "\n", encoding="utf-8")
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
    """A suite with each of some memory limits (`gpu:4GB,cpu:4GB`); answers compared with those of a CPU without one."""
    import warpmill
    from warpmill import _warpmill
    from warpmill.bench.verify import difference

    queries = _warpmill.queries(kind)
    expected: dict[str, tuple[list[tuple[Any, ...]], list[str]]] = {}
    with warpmill.connect(database) as con:
        con.set("device", "cpu")
        for name, sql in queries:
            result = con.sql(sql)
            expected[name] = (result.fetchall(), result.columns)
    rows: list[dict[str, Any]] = []
    for device, memory in (text.split(":") for text in memories.split(",")):
        with warpmill.connect(database) as con:
            con.set("device", device)
            con.set("memory_limit" if device == "cpu" else "gpu_memory_limit", memory)
            for name, sql in queries:
                row: dict[str, Any] = {"query": name, "device": device, "memory": memory, "s": [], "error": None}
                rows.append(row)
                try:
                    for _ in range(int(runs) + 1):
                        begun = time.perf_counter()
                        result = con.sql(sql)
                        row["s"].append(time.perf_counter() - begun)
                    programs = result.profile.get("programs") or []
                    row["devices"] = sorted({program["device"] for program in programs})
                    row["not_on_device"] = [p["not_on_device"] for p in programs if p["not_on_device"]]
                    row["median_s"] = statistics.median(row["s"][1:])
                    row["error"] = difference(result.fetchall(), *expected[name], sql)
                    row["programs"] = programs
                except Exception as error:
                    row["error"] = f"{type(error).__name__}: {error}"
                said = " ".join(row.get("not_on_device") or []) or row["error"] or "equal"
                print(
                    f"{device} {memory} {name:>3} {row.get('median_s', 0):.3f} s {row.get('devices')} {said}",
                    flush=True,
                )
    report = {"suite": kind, "runs": rows}
    Path(out).write_text(json.dumps(report, indent=1, default=str) + "\n", encoding="utf-8")
    if any(row["error"] for row in rows):
        sys.exit(1)


def clients(threads: int, queries: list[tuple[str, str]], connect: Callable[[], Any], seconds: float) -> dict[str, Any]:
    """That many threads, each with a connection of its own, go through all queries in turn: times, wrong row counts."""
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


def shown(command: list[str], at: Session) -> str:
    """A command as one would type it: without the paths of this machine."""
    text = " ".join(command)
    names = {sys.executable: "python", str(Path(__file__).resolve()): "bench/gpu_session.py"}
    for path, name in {**names, str(at.out): "OUT", str(at.data): "DATA"}.items():
        text = text.replace(path, name)
    return text


def run(step: Step, at: Session, seconds: float) -> dict[str, Any]:
    """Run a step within a time; what came of it."""
    begun = time.monotonic()
    record: dict[str, Any] = {"step": step.name, "rc": 0, "timed_out": False, "skipped": None}
    with (at.out / f"{step.name}.log").open("w", encoding="utf-8") as log:
        if step.needs is not None:
            quiet = subprocess.DEVNULL
            if subprocess.run(step.needs, stdout=quiet, stderr=quiet, check=False).returncode:
                return {**record, "skipped": f"not there: {' '.join(step.needs[1:])}", "seconds": 0.0}
        for command in step.commands:
            log.write(f"$ {shown(command, at)}\n")
            log.flush()
            # A session of its own, so that all that it starts ends with it.
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                record["rc"] = process.wait(timeout=max(seconds - (time.monotonic() - begun), 0.1))
            except subprocess.TimeoutExpired:
                record |= {"rc": None, "timed_out": True}
                log.write(f"ended after {seconds:.0f} s\n")
            finally:
                if process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            if record["rc"] != 0:
                break
    return {**record, "seconds": round(time.monotonic() - begun, 1)}


def chosen(every: list[Step], names: str | None) -> list[Step]:
    """Steps by name, or by the first words of names; in the order of importance."""
    if names is None:
        return every
    wanted: set[str] = set()
    for name in (name.strip() for name in names.split(",")):
        found = {step.name for step in every if step.name == name}
        found = found or {step.name for step in every if step.name.startswith(f"{name}-")}
        if not found:
            raise SystemExit(f"no step {name!r}: there are {', '.join(step.name for step in every)}")
        wanted |= found
    return [step for step in every if step.name in wanted]


def run_all(todo: list[Step], at: Session, minutes: float, keep: bool, again: bool) -> int:
    """Run steps; the number of those that did not come to their end."""
    at.out.mkdir(parents=True, exist_ok=True)
    summary = at.out / "summary.json"
    before = json.loads(summary.read_text(encoding="utf-8")) if summary.exists() else []
    records = {record["step"]: record for record in before}
    end = time.monotonic() + minutes * 60
    failed = 0
    for number, step in enumerate(todo):
        left = end - time.monotonic()
        if not again and records.get(step.name, {}).get("rc", 1) == 0 and not records[step.name]["skipped"]:
            print(f"{step.name}: done before", flush=True)
            continue
        if left < 1:
            records[step.name] = {"step": step.name, "rc": None, "timed_out": False, "skipped": "no time left"}
            failed += 1
        else:
            records[step.name] = record = run(step, at, min(step.limit, left))
            failed += record["rc"] != 0
            ended = record["skipped"] or ("out of time" if record["timed_out"] else f"exit code {record['rc']}")
            print(f"{step.name}: {ended}, {record['seconds']} s", flush=True)
        summary.write_text(json.dumps(list(records.values()), indent=1) + "\n", encoding="utf-8")
        later = {folder for other in todo[number + 1 :] for folder in other.uses}
        if not keep:
            for folder in set(step.uses) - later:
                shutil.rmtree(at.data / folder, ignore_errors=True)
    return failed


#: Parts of this script that steps run as processes of their own.
PARTS: dict[str, Callable[..., None]] = {
    "_tables": make_tables,
    "_effective": effective_bandwidth,
    "_duckdb": through_duckdb,
    "_duckdb_process": duckdb_process,
    "_limits": limits,
    "_concurrent": concurrent,
}


def main() -> None:
    """Entry point."""
    if len(sys.argv) > 1 and sys.argv[1] in PARTS:
        PARTS[sys.argv[1]](*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT", help="where logs, reports and summary.json go")
    parser.add_argument("--steps", metavar="NAME,...", help="only these (default: all)")
    parser.add_argument("--list", action="store_true", help="print the steps, and do nothing")
    parser.add_argument("--minutes", type=float, default=24 * 60, help="time for all steps")
    parser.add_argument("--data", type=Path, default=Path("data/gpu-session"), help="where tables are made")
    parser.add_argument("--keep", action="store_true", help="keep the tables")
    parser.add_argument("--again", action="store_true", help="run steps that are done already")
    parser.add_argument("--device", default="gpu", help="gpu; cpu or sim to try the script")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of all scale factors, to try the script")
    options = parser.parse_args()
    at = Session(options.out.resolve(), options.data.resolve(), options.device, options.scale)
    todo = chosen(steps(at), options.steps)
    if options.list:
        for step in todo:
            print(f"{step.name:<28} {step.limit:>5} s  {' && '.join(' '.join(c[1:]) for c in step.commands)}")
        return
    sys.exit(bool(run_all(todo, at, options.minutes, options.keep, options.again)))


if __name__ == "__main__":
    main()
