#!/usr/bin/env python3
"""Everything that is to be measured on a machine with a GPU, most important first, recorded into one folder.

    python bench/gpu_session.py OUT                      all steps
    python bench/gpu_session.py OUT --list               what the steps are
    python bench/gpu_session.py OUT --steps tpch,qj      steps by name, or by the first words of names
    python bench/gpu_session.py OUT --minutes 25         no step begins, or goes on, after that time
    python bench/gpu_session.py /tmp/try --device cpu --scale 0.001 --steps tpch-sf1

Needs a Python in which `warpmill` can be imported, with the packages of its extra `bench`, and `./bench/studies`.
Each step is a process of its own with a time limit; one that fails or takes too long does not stop those after it.
OUT gets, for each step, NAME.log (its commands and all that they wrote) and its reports (JSON, pictures), and
summary.json, which is written anew after every step. Steps that are done already (in summary.json, without an error)
are run again with `--again` only. Tables are made under --data and removed after the last step that needs them,
unless there is `--keep`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: The memory limit that makes data larger than the device's memory.
LIMIT = "16GB"

#: Without new processes, each of which would copy large tables to the device for one query.
IN_PROCESS = ["--states", "new-statement,repeated"]

#: The locations of data that are streamed to the device.
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
    #: A command that must succeed, or else the step is skipped: a prerequisite is missing.
    needs: list[str] | None = None


@dataclass(frozen=True)
class Session:
    """The folders and options of a session."""

    out: Path
    data: Path
    device: str
    scale: float

    def sf(self, factor: float) -> str:
        """A scale factor, limited by `--scale`."""
        return f"{max(factor * self.scale, 0.01) if self.scale < 1 else factor:g}"

    def bench(self, *arguments: str) -> list[str]:
        """`warpmill bench`."""
        return [sys.executable, "-m", "warpmill", "bench", *arguments]

    def own(self, *arguments: str) -> list[str]:
        """A function of `gpu_parts.py`, in a process of its own."""
        return [sys.executable, str(Path(__file__).resolve().with_name("gpu_parts.py")), *arguments]


def steps(at: Session) -> list[Step]:
    """All steps, most important first."""
    return [
        Step("doctor", 60, [[sys.executable, "-m", "warpmill", "doctor"]]),
        *(tpch(at, sf, limit) for sf, limit in ((1, 300), (10, 600), (30, 900))),
        suite(at, "ssb-sf1", 300, "ssb", 1, ["--against", "duckdb", "--verify"]),
        start(at),
        concurrent_step(at),
        suite(at, "ssb-sf100", 600, "ssb", 100, ["--runs", "7", *IN_PROCESS]),
        parquet(at),
        matrix(at),
        *larger_than_memory(at, "ssb", 30, None, 600),
        *larger_than_memory(at, "tpch", 30, "1,3,5,6", 600),
        duckdb_step(at),
        # Its 82 GB of columns for six runs would take minutes from a disk.
        *larger_than_memory(at, "ssb", 100, None, 900, ("pinned", "host")),
        suite(at, "tpch-sf100", 900, "tpch", 100, ["--runs", "5", *IN_PROCESS]),
        limited(at),
        *qj_steps(at),
        *golap_steps(at),
    ]


def suite(at: Session, name: str, limit: int, kind: str, sf: float, options: list[str]) -> Step:
    """A suite of queries, its tables in a folder that other steps of the same scale share."""
    folder = f"{kind}-sf{sf:g}"
    where = ["--sf", at.sf(sf), "--device", at.device, "--data", str(at.data / folder)]
    report = ["--json", str(at.out / f"{name}.json")]
    return Step(name, limit, [at.bench(kind, *where, *options, *report)], [folder])


def tpch(at: Session, sf: float, limit: int) -> Step:
    """TPC-H in device memory, against DuckDB."""
    states = IN_PROCESS if sf > 10 else []
    return suite(at, f"tpch-sf{sf:g}", limit, "tpch", sf, ["--against", "duckdb", "--verify", *states])


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


def matrix(at: Session) -> Step:
    """MaxBench's measurements, as far as there is time, and its model."""
    out = at.out / "matrix"
    where = ["--data", str(at.data / "matrix"), "--out", str(out), "--discard"]
    tried = [] if at.scale == 1 else ["--quick", "--suites", "tpch", "--device", at.device, "--peers", "none"]
    commands = [
        at.bench("matrix", *where, "--budget", "1500", *tried),
        at.bench("model", str(out / "matrix.json")),
    ]
    return Step("matrix", 1800, commands, ["matrix"])


def larger_than_memory(
    at: Session, kind: str, sf: float, queries: str | None, limit: int, locations: tuple[str, ...] = LOCATIONS
) -> list[Step]:
    """A suite whose data are read from disk or host for each run, with and without codecs."""
    made = []
    for codec in ("none", "lz4", "auto"):
        folder = f"{kind}-sf{sf:g}" + ("" if codec == "none" else f"-{codec}")
        place = at.data / folder
        for location in locations:
            name = f"{kind}-sf{sf:g}-{location}-{codec}"
            report = at.out / f"{name}.json"
            where = ["--sf", at.sf(sf), "--data", str(place), "--device", at.device]
            what = ["--gpu-memory-limit", LIMIT, "--data-location", location, "--json", str(report)]
            what += ["--states", "repeated"]
            chosen = ["--queries", queries] if queries else []
            effective = at.out / f"{name}-effective.json"
            commands = [
                at.own("tables", kind, at.sf(sf), codec, str(place)),
                at.bench(kind, *where, *what, *chosen),
                at.own("effective", kind, str(place / "warpmill"), str(report), str(effective)),
            ]
            made.append(Step(name, limit, commands, [folder]))
    return made


def duckdb_step(at: Session) -> Step:
    """TPC-H through DuckDB with Warpmill, against DuckDB alone."""
    place = at.data / "tpch-sf30"
    commands = [
        at.own("tables", "tpch", at.sf(30), "none", str(place)),
        at.own("duckdb", str(place / "warpmill"), str(at.out / "duckdb-tpch-sf30.json"), at.device),
    ]
    return Step("duckdb-tpch-sf30", 1200, commands, ["tpch-sf30"])


def limited(at: Session) -> Step:
    """TPC-H with little device memory, and on a CPU with little memory."""
    place = at.data / "tpch-sf100"
    memories = ",".join([*(f"{at.device}:{memory}" for memory in ("16GB", "8GB", "4GB")), "cpu:4GB"])
    commands = [
        at.own("tables", "tpch", at.sf(100), "none", str(place)),
        at.own("limits", "tpch", str(place / "warpmill"), str(at.out / "tpch-sf100-limits.json"), memories),
    ]
    return Step("tpch-sf100-limits", 1800, commands, ["tpch-sf100"])


def concurrent_step(at: Session) -> Step:
    """Clients at once on one device."""
    place = at.data / "tpch-sf10"
    commands = [
        at.own("tables", "tpch", at.sf(10), "none", str(place)),
        at.own("concurrent", "tpch", str(place / "warpmill"), str(at.out / "concurrent-tpch-sf10.json"), at.device),
    ]
    return Step("concurrent-tpch-sf10", 120, commands, ["tpch-sf10"])


def qj_steps(at: Session) -> list[Step]:
    """Joins, selectivity, drives and codecs."""
    where = ["--sf", at.sf(30), "--device", at.device, "--gpu-memory-limit", LIMIT, "--data", str(at.data / "qj")]
    return [
        Step("qj-disk", 1200, [at.bench("qj", *where, "--out", str(at.out / "qj-disk"))], ["qj"]),
        # Drives that together are slower than the disk: their speed is the same in every run.
        Step(
            "qj-drives",
            1200,
            [at.bench("qj", *where, "--drive-bandwidth", "120MB", "--out", str(at.out / "qj-drives"))],
            ["qj"],
        ),
        Step(
            "qj-pinned",
            600,
            # The automatic choice is for a link, not for a disk.
            [
                at.bench(
                    *("qj", *where, "--data-location", "pinned", "--set", "storage_bandwidth=55GB"),
                    *("--out", str(at.out / "qj-pinned")),
                )
            ],
            ["qj"],
        ),
    ]


def golap_steps(at: Session) -> list[Step]:
    """Compression, pruning, pipelines and co-execution."""
    made = []
    flight = ["--suites", "ssb", "--queries", "1.1,1.2,1.3"]
    for name, limit, sf, options in (
        # Small chunks are left out, in the paper's layout and clustered by all attributes.
        (
            "flight1",
            600,
            10,
            [*flight, "--sweep", "chunks", "--values", "65536,16384", "--layouts", "filtered,clustered"],
        ),
        ("ssb-flight1", 300, 10, [*flight, "--layouts", "clustered"]),
        ("pipelines", 180, 10, ["--sweep", "pipelines"]),
        ("coexecution", 300, 1, ["--sweep", "coexecution", "--values", "1,10,100", "--queries", "3.1,3.2"]),
        ("taxi", 300, 10, ["--suites", "taxi", "--layouts", "clustered"]),
        ("tpch", 600, 10, ["--suites", "tpch", "--layouts", "clustered"]),
        ("chunks", 600, 10, ["--sweep", "chunks"]),
        ("ssb", 900, 10, ["--suites", "ssb"]),
        ("zones", 900, 10, ["--sweep", "zones", "--layouts", "clustered", "--queries", "1.1,1.2,1.3"]),
    ):
        if at.device == "cpu" and name in ("pipelines", "coexecution"):
            continue
        # One folder per scale: the names of databases do not tell.
        folder = f"golap-sf{sf}"
        where = ["--device", at.device, "--data", str(at.data / folder), "--out", str(at.out / f"golap-{name}")]
        command = at.bench("golap", "--sf", at.sf(sf), "--runs", "3", *where, *options)
        made.append(Step(f"golap-{name}", limit, [command], [folder]))
    return made


def shown(command: list[str], at: Session) -> str:
    """A command as one would type it: without the paths of this machine."""
    text = " ".join(command)
    names = {sys.executable: "python", str(Path(__file__).resolve()): "bench/gpu_session.py"}
    for path, name in {**names, str(at.out): "OUT", str(at.data): "DATA"}.items():
        text = text.replace(path, name)
    return text


def run(step: Step, at: Session, seconds: float) -> dict[str, Any]:
    """Run a step within a time limit; returns the outcome."""
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
            # A process group of its own, so that all its processes are ended with it.
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
    """Run steps; returns the number of those that failed."""
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


def main() -> None:
    """Entry point."""
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
