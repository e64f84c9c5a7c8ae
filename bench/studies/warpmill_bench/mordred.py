"""``warpmill bench mordred``: the CPU and a device on the same queries, as Mordred is measured (thesis, section 4.4).

All data is in page-locked memory of the host; the device's caching region has copies of some row segments, which a
policy chooses. Swept are the bytes of copies (by placement: `baselines`; by policy: `sizes`), what queries ask for (in
`warpmill_bench.mordred_workloads`), and what makes them fast (`optimizations`). Every answer has to be the CPU's.

Copies are replaced after so many queries. Times of whole queries are of repeated statements between two replacements:
before, queries run until the policy has seen all of them, and small queries until copies are replaced. All of that is
in one session: another one would not find its copies, which are of the memory that its tables are mapped into.
"""

from __future__ import annotations

import re
import statistics
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import warpmill
from warpmill_bench.golap import answer, connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from warpmill_bench.golap import Place

Row = dict[str, Any]


def _on_device(placement: str, data: str = "mirrored", fallback: str = "allow") -> dict[str, str]:
    return {"placement": placement, "device_data": data, "device_fallback": fallback}


#: Placements, and the settings that make them.
PLACEMENTS: dict[str, dict[str, str]] = {
    "cpu": {"device": "cpu"},
    # All data travels for every query.
    "gpu_streaming": _on_device("program", "pinned", "error"),
    # The device alone: segments without a copy travel.
    "gpu": _on_device("program", fallback="error"),
    "operator_by_data": _on_device("operator_by_data"),
    "operator_by_cost": _on_device("operator_by_cost"),
    "segment_ungrouped": _on_device("segment_ungrouped"),
    "segment": _on_device("segment"),
}

#: The placements on one site alone, and the one that should be faster.
SINGLE, HYBRID = ("cpu", "gpu_streaming", "gpu"), "segment"

#: Policies that choose copies; the last is Mordred's.
POLICIES = ("lru_column", "lfu_column", "lru2_column", "lru_segment", "lfu_segment", "lru2_segment", "semantic")

#: Optimizations that can be switched: the settings of all but this one, and of this one alone. Fused pipelines and
#: memory that is allocated once are always there.
OPTIMIZATIONS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "segment-level plans": ({"placement": "operator_by_data"}, {"placement": "segment_ungrouped"}),
    "segment groups": ({"placement": "segment_ungrouped"}, {"placement": "segment"}),
    "copies by segment": ({"device_cache_policy": "lfu_column"}, {"device_cache_policy": "lfu_segment"}),
    "semantic weights": ({"device_cache_policy": "lfu_segment"}, {"device_cache_policy": "semantic"}),
    "segment skipping": ({"pruning": "none"}, {"pruning": "all"}),
    "copies while kernels work": ({"device_overlap": "off"}, {"device_overlap": "on"}),
}

#: All optimizations, and none.
ALL = {"placement": HYBRID, "device_cache_policy": "semantic", "pruning": "all", "device_overlap": "on"}
NONE = {
    "placement": "operator_by_data",
    "device_cache_policy": "lfu_column",
    "pruning": "none",
    "device_overlap": "off",
}

#: The limit that leaves no room for any copy: 0 would be none.
NO_CACHE = 1

#: A query that does next to nothing, on the device wherever there is one: its table is one row segment. It has the
#: cache's counts, and brings the next replacement nearer.
TICK = "SELECT sum(d_datekey) AS s FROM date"

#: Rounds of all queries, each with a replacement after it, until copies are where they stay: weights depend on them.
SETTLE = 3

#: Seconds after which a query is stopped.
PATIENCE = 300.0

#: Counts of the cache: of what queries have read, and of replacements.
READS = ("hits", "misses", "hit_bytes", "miss_bytes")
MOVES = ("copies", "copied_bytes", "evictions", "replacements", "nanos")

#: Bytes by the memory that they were read of, and over the link.
TRAFFIC = ("cpu_bytes", "gpu_bytes", "link_bytes")

#: The tables of SSB by the prefix of their column names.
TABLES = {"lo": "lineorder", "c": "customer", "s": "supplier", "p": "part", "d": "date"}


@dataclass(frozen=True)
class Run:
    """A query that has run: its time from text to result, whether its plan was there, the profile of its program."""

    ms: float
    repeated: bool
    profile: Row

    @property
    def program_ms(self) -> float:
        """The time from program to batches: without planning."""
        return float(self.profile.get("wall_nanos", 0)) / 1e6

    def traffic(self) -> Row:
        """Bytes that the CPU read from host memory, that kernels read from device memory, and that crossed the link."""
        device = self.profile.get("on_device") or {}
        gpu = sum(kernel["bytes"] for kernel in device.get("kernels", []))
        # Work of the host to make segments ready is listed among them.
        crossed = ("segments from", "segments to", "dictionaries to", "rows to")
        transfers = [one for one in device.get("transfers", []) if one["what"].startswith(crossed)]
        link = sum(transfer["bytes"] for transfer in transfers)
        return {"cpu_bytes": self.profile.get("bytes_read", 0) - gpu, "gpu_bytes": gpu, "link_bytes": link}

    def segments(self) -> list[int]:
        """Row segments of the shared scan that the CPU ran, and devices; nothing where one site ran the query."""
        found: list[int] = self.profile.get("segments", [])
        return [found[0], sum(found[1:])] if found else []

    def mirror(self) -> Row:
        """The counts of the cache."""
        found: Row = (self.profile.get("on_device") or {}).get("mirror") or {}
        return found


@dataclass
class Study:
    """The folder and options of the measurements, and the wrong answers."""

    database: Path
    #: The types of all columns.
    types: dict[str, str]
    #: The settings of all sessions: the device, and those of the command line.
    settings: dict[str, str]
    queries: dict[str, str]
    runs: int
    told: Callable[[str], None]
    #: Answers that are not the CPU's.
    wrong: list[Row] = field(default_factory=list)
    #: Queries that did not run.
    errors: list[Row] = field(default_factory=list)
    _answers: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    _cpu: warpmill.Connection | None = None

    @contextmanager
    def session(self, *settings: Mapping[str, str]) -> Iterator[Session]:
        """A session with these settings, the last of which take precedence.

        Only the session whose queries made copies finds them.
        """
        chosen = {"fallback": "error", **self.settings}
        for some in settings:
            chosen |= some
        with connect(self.database, chosen) as con:
            yield Session(self, chosen, con)

    def probes(self) -> dict[str, str]:
        """For each column that the queries read, a query that reads only this column."""
        return probes(self.queries.values(), self.types)

    def expected(self, sql: str) -> list[tuple[Any, ...]]:
        """The answer of the CPU alone."""
        if sql not in self._answers:
            if self._cpu is None:
                self._cpu = connect(self.database, {"fallback": "error", **self.settings, "device": "cpu"})
            self._answers[sql] = answer(self._cpu.sql(sql))
        return self._answers[sql]


@dataclass
class Session:
    """A session of a study."""

    study: Study
    settings: dict[str, str]
    con: warpmill.Connection
    #: Whether all answers are the CPU's, and the last error, since settings changed.
    same_answer: bool = True
    error: str | None = None

    def change(self, settings: Mapping[str, str]) -> None:
        """Change settings."""
        for name, value in settings.items():
            if self.settings.get(name) != value:
                self.con.set(name, value)
                self.settings[name] = value
        self.same_answer, self.error = True, None

    def run(self, sql: str) -> Run:
        """Run a query, and compare its answer.

        Raises `warpmill.Error`, which the study has noted, where it does not run, or takes too long.
        """
        timer = threading.Timer(PATIENCE, self.con.interrupt)
        timer.start()
        try:
            begin = time.perf_counter()
            result = self.con.sql(sql)
            ms = (time.perf_counter() - begin) * 1e3
        except warpmill.InterruptError:
            raise self.failed(f"stopped after {PATIENCE:g} s", sql) from None
        except warpmill.Error as error:
            raise self.failed(str(error), sql) from error
        finally:
            timer.cancel()
        found, expected = answer(result), self.study.expected(sql)
        if found != expected:
            self.same_answer = False
            self._note_wrong(sql, found, expected)
        profile = result.profile
        programs = profile["programs"]
        return Run(ms, profile["plan_cached"], programs[0] if len(programs) == 1 else {})

    def tried(self, sql: str) -> Run | None:
        """The same; None if it fails, which ends the session."""
        try:
            return self.run(sql)
        except warpmill.Error:
            return None

    def failed(self, error: str, sql: str | None = None) -> warpmill.Error:
        """An error that the study has noted."""
        self.error = error
        self.study.errors.append({"statement": sql, "settings": dict(self.settings), "error": error})
        return warpmill.Error(error)

    def _note_wrong(self, sql: str, found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> None:
        pairs = zip(found, expected, strict=False)
        row = {
            "statement": sql,
            "settings": dict(self.settings),
            "rows": len(found),
            "expected_rows": len(expected),
            "first_difference": next(([repr(a), repr(b)] for a, b in pairs if a != b), None),
        }
        if row not in self.study.wrong:
            self.study.wrong.append(row)


class Cache:
    """The mirrored cache, as a session that uses it sees it. The small queries that look at it do not count."""

    def __init__(self, session: Session) -> None:
        self.session = session
        #: Bytes that other queries have read since `begin`.
        self.read = dict.fromkeys(READS, 0)
        self._own = dict.fromkeys(READS, 0)
        self._begun: Row = {}
        self._seen: Row = {}

    def begin(self) -> None:
        """Clear the statistics of the cache policy; no copies exist then."""
        # A temporary cache for one query: other settings of this session would invalidate its plans.
        with self.session.study.session(PLACEMENTS["gpu"], mirror("semantic", NO_CACHE + 1, 1)) as other:
            other.run(TICK)
        self._tick()
        self._seen = {}
        self._look(self._tick(), 1)
        self._begun = self._seen
        self.read = dict.fromkeys(READS, 0)

    def look(self) -> None:
        """Update the statistics with queries since the last call."""
        self._look(self._tick(), 1)

    def replace(self) -> None:
        """Let copies be replaced once, unless they have been since the last look."""
        most = 2 * int(self.session.settings["device_cache_every"]) + 2
        for ticks in range(1, most + 1):
            found = self._tick()
            if found["replacements"] > self._seen["replacements"]:
                self._look(found, ticks)
                return
        raise self.session.failed(f"copies were not replaced after {most} queries", TICK)

    def settle(self, queries: Iterable[str], rounds: int = SETTLE) -> None:
        """Run queries until copies are where they stay."""
        texts = list(queries)
        for _ in range(rounds):
            for sql in texts:
                self.session.run(sql)
            self.replace()

    def moved(self) -> Row:
        """Copies made and dropped since `begin`, as of the last look."""
        return {name: self._seen[name] - self._begun[name] for name in MOVES}

    @property
    def bytes(self) -> int:
        """Bytes of copies, as of the last look."""
        return int(self._seen["bytes"])

    @property
    def replacements(self) -> int:
        """Replacements since the process began, as of the last look."""
        return int(self._seen["replacements"])

    def columns(self, queries: Iterable[str]) -> Row | None:
        """For each column that queries read, its bytes and those of copies; None if copies were replaced meanwhile.

        Reads the columns on the device alone, which the policy counts.
        """
        self.session.change(PLACEMENTS["gpu"])
        self.look()
        found: Row = {}
        before = self._seen
        for column, sql in probes(queries, self.session.study.types).items():
            after = self._counts(self.session.run(sql))
            hit, miss = (after[name] - before[name] for name in ("hit_bytes", "miss_bytes"))
            found[column] = {"cached_bytes": hit, "bytes": hit + miss}
            before = after
        replaced = before["replacements"] > self.replacements
        self._seen = before
        return None if replaced else found

    def _tick(self) -> Row:
        return self._counts(self.session.run(TICK))

    def _counts(self, run: Run) -> Row:
        found = run.mirror()
        if not found:
            raise self.session.failed("a query did not run on the device with mirrored data: there are no counts")
        return found

    def _look(self, found: Row, ticks: int) -> None:
        again = self._tick()
        own = {name: again[name] - found[name] for name in READS}
        for name in READS if self._seen else ():
            # The last small query reads as much as the next one, the earlier ones as much as before.
            ours = own[name] + (ticks - 1) * self._own[name]
            self.read[name] += found[name] - self._seen[name] - ours
        self._seen, self._own = again, own


def probes(queries: Iterable[str], types: Mapping[str, str]) -> dict[str, str]:
    """For each named column (of SSB, with its type), a query that reads only this column."""
    found = {}
    for name in sorted({name for sql in queries for name in re.findall(r"\b[a-z]+_\w+", sql)} & types.keys()):
        # The least number would be known without looking.
        function = "sum" if types[name].startswith("Int") else "min"
        found[name] = f"SELECT {function}({name}) AS v FROM {TABLES[name.split('_')[0]]}"
    return found


def segment_rows(sf: float) -> int:
    """Rows of a segment: the thesis' 2^20, fewer where the facts would have less than 64 segments."""
    wanted = max(int(6e6 * sf / 64), 1024)
    return min(1 << (wanted.bit_length() - 1), 1 << 20)


def prepare(place: Place, rows: int) -> Path:
    """SSB with facts sorted by date, in segments of `rows` rows; created where missing."""
    folder = place.base / f"ssb-orderdate-segments{rows}"
    with place.writer(folder) as con:
        there = {table.name for table in con.tables()}
        for name in ("date", "customer", "supplier", "part"):
            if name not in there:
                con.generate("ssb", name, place.sf, progress=place.bar(f"{name} ({folder.name})"))
        if "lineorder" not in there:
            con.set("segment_rows", rows)
            con.set("cluster", "lo_orderdate")
            con.generate("ssb", "lineorder", place.sf, progress=place.bar(f"lineorder ({folder.name})"))
    return folder


def facts(database: Path) -> Row:
    """Rows, row segments and stored bytes of the facts, and the types of all columns."""
    with warpmill.connect(database) as con:
        table = con.info("lineorder")
        columns = {name: con.inspect(name) for name in TABLES.values()}
    types = {column["name"]: column["type"] for own in columns.values() for column in own}
    segments = sum(columns["lineorder"][0]["encodings"].values())
    return {"rows": table.rows, "segments": segments, "stored_bytes": table.stored_bytes, "types": types}


def mirror(policy: str, limit: int | str, every: int) -> dict[str, str]:
    """The settings of a cache."""
    return {"device_cache_policy": policy, "device_cache_limit": str(limit), "device_cache_every": str(every)}


def limit_of(percent: float, all_bytes: int) -> int:
    """The limit that is so much of all columns' bytes."""
    return max(int(all_bytes * percent / 100), NO_CACHE)


def column_bytes(study: Study) -> tuple[int, bool]:
    """Bytes of copies of all that the queries read, and whether the device has room for them."""
    study.told("bytes of all columns")
    every = len(study.queries) + len(study.probes()) + 16
    with study.session(PLACEMENTS["gpu"], mirror("semantic", "unlimited", every)) as session:
        cache = Cache(session)
        cache.begin()
        cache.settle(study.queries.values(), 2)
        before = dict(cache.read)
        for sql in study.queries.values():
            session.run(sql)
        cache.look()
        return cache.bytes, cache.read["miss_bytes"] == before["miss_bytes"]


def measured(
    study: Study, variants: Mapping[str, Mapping[str, str]], common: Mapping[str, str], limit: int
) -> dict[str, Row]:
    """All queries in every variant, between two replacements of copies; by variant.

    `common` are settings of all of them; the policy, which has seen all queries, is one of them, or `semantic`.
    """
    texts = study.queries
    every = len(texts) * (study.runs + 1) * len(variants) + 4 * len(variants) + len(study.probes()) + 16
    own = {**PLACEMENTS["gpu"], **mirror("semantic", limit, every), **common}
    found = {name: _alone(study) for name, settings in variants.items() if settings.get("device") == "cpu"}
    with study.session(own) as session:
        cache = Cache(session)
        state: Row = {"limit_bytes": limit}
        try:
            session.change({**own, **PLACEMENTS["gpu"]})
            cache.begin()
            cache.settle(texts.values())
        except warpmill.Error:
            return {name: found.get(name) or _row({}, session, state) for name in variants}
        state |= {"copies_bytes": cache.bytes, **cache.moved()}
        replacements = cache.replacements
        for name in (name for name in variants if name not in found):
            session.change({**own, **variants[name]})
            counted = session.settings["device_data"] == "mirrored"
            before = dict(cache.read)
            runs = _runs(session, texts, study.runs)
            if counted and session.error is None:
                cache.look()
            reads = {kind: cache.read[kind] - before[kind] for kind in READS} if counted else {}
            found[name] = _row(runs, session, {**state, **reads, "hit_rate": hit_rate(reads)})
        steady, cached = None, None
        try:
            cached = cache.columns(texts.values())
            steady = cached is not None and cache.replacements == replacements
        except warpmill.Error:
            pass
        for name, row in found.items():
            row |= {} if variants[name].get("device") == "cpu" else {"steady": steady, "cached": cached}
        return {name: found[name] for name in variants}


def _alone(study: Study) -> Row:
    """All queries on the CPU alone."""
    with study.session(PLACEMENTS["cpu"]) as session:
        return _row(_runs(session, study.queries, study.runs), session, {})


def _runs(session: Session, texts: Mapping[str, str], count: int) -> dict[str, list[Run]]:
    """One run of each query, and `count` more; fewer where one does not run."""
    runs: dict[str, list[Run]] = {query: [] for query in texts}
    for _ in range(count + 1):
        for query, sql in texts.items():
            run = session.tried(sql)
            if run is None:
                return runs
            runs[query].append(run)
    return runs


def hit_rate(reads: Row) -> float | None:
    """The fraction of bytes read by queries that had copies; None: they read nothing on the device."""
    read = reads.get("hit_bytes", 0) + reads.get("miss_bytes", 0)
    return reads["hit_bytes"] / read if read else None


def _row(runs: dict[str, list[Run]], session: Session, found: Row) -> Row:
    """A session's measurements: of each query the first run (a new statement), and the median of the later ones."""
    whole = bool(runs) and session.error is None
    queries: dict[str, Row] = {}
    for query, (first, *rest) in runs.items() if whole else ():
        queries[query] = {
            "ms": statistics.median(run.ms for run in rest),
            "runs_ms": [round(run.ms, 4) for run in rest],
            "repeated": all(run.repeated for run in rest),
            "first_ms": first.ms,
            "device": rest[-1].profile.get("device"),
            "segments": rest[-1].segments(),
            **rest[-1].traffic(),
        }
    summed = ("ms", "first_ms", *TRAFFIC)
    return {
        **{name: sum(row[name] for row in queries.values()) if whole else None for name in summed},
        "segments": [sum(row["segments"][site] for row in queries.values() if row["segments"]) for site in (0, 1)],
        "repeated": all(row["repeated"] for row in queries.values()) if whole else None,
        "same_answer": session.same_answer,
        "error": session.error,
        **dict.fromkeys((*READS, *MOVES, "hit_rate", "limit_bytes", "copies_bytes", "steady", "cached")),
        **found,
        "queries": queries,
    }


def baselines(study: Study, percents: Iterable[float], placements: Iterable[str], all_bytes: int) -> list[Row]:
    """Every placement with every size of the cache; copies are chosen by the semantic policy."""
    rows = []
    variants = {name: PLACEMENTS[name] for name in placements}
    for percent in percents:
        study.told(f"placements, {percent:g}% cached")
        found = measured(study, variants, {}, limit_of(percent, all_bytes))
        rows += [{"percent": percent, "placement": name, **row} for name, row in found.items()]
    return rows


def verdicts(rows: list[Row]) -> list[Row]:
    """By size of the cache: segments on both sites against the better of one site alone, and the sum of their rates.

    A query's rate is one by its time; with the sum of both sites' rates, they would share the work without any loss.
    """
    found = []
    for percent in dict.fromkeys(row["percent"] for row in rows):
        at = {row["placement"]: row for row in rows if row["percent"] == percent and row["ms"] is not None}
        devices = [name for name in SINGLE[1:] if name in at]
        if "cpu" not in at or HYBRID not in at or not devices:
            continue
        of = {name: {query: one["ms"] for query, one in row["queries"].items()} for name, row in at.items()}
        best = min(("cpu", *devices), key=lambda name: at[name]["ms"])
        device = {query: min(of[name][query] for name in devices) for query in of["cpu"]}
        sums = {query: 1 / (1 / of["cpu"][query] + 1 / device[query]) for query in device}
        ratios = {query: min(of["cpu"][query], device[query]) / of[HYBRID][query] for query in device}
        worst = min(ratios, key=lambda query: ratios[query])
        hybrid = at[HYBRID]["ms"]
        found.append(
            {
                "percent": percent,
                "best": best,
                "best_ms": at[best]["ms"],
                "hybrid_ms": hybrid,
                # Over all queries together; then for each query against the better site.
                "speedup": at[best]["ms"] / hybrid,
                "of_sum": sum(sums.values()) / hybrid,
                "query_speedup": statistics.geometric_mean(ratios.values()),
                # Queries that ran on one site, because their facts become a hash build, for example.
                "not_shared": [query for query, one in at[HYBRID]["queries"].items() if not one["segments"]],
                "worst_query": worst,
                "worst_query_speedup": ratios[worst],
            }
        )
    return found


def sizes(study: Study, percents: Iterable[float], policies: Iterable[str], all_bytes: int) -> list[Row]:
    """Every policy with every size of the cache; both sites run row segments (figures 4.5, 4.6 and 4.9)."""
    rows = []
    for percent in percents:
        for policy in policies:
            study.told(f"policies, {percent:g}% cached, {policy}")
            common = {"device_cache_policy": policy}
            found = measured(study, {HYBRID: PLACEMENTS[HYBRID]}, common, limit_of(percent, all_bytes))
            rows.append({"percent": percent, "policy": policy, **found[HYBRID]})
    return rows


def optimizations(study: Study, percents: Iterable[float], all_bytes: int) -> list[Row]:
    """Without each optimization, and with each alone, against all and none of them (figures 4.10 and 4.11)."""
    rows = []
    for percent in percents:
        limit = limit_of(percent, all_bytes)

        def of(label: str, settings: dict[str, str], limit: int = limit, percent: float = percent) -> Row:
            study.told(f"optimizations, {percent:g}% cached, {label}")
            return measured(study, {label: {}}, settings, limit)[label]

        every, none = of("all", ALL), of("none", NONE)
        both = (("all", every), ("none", none))
        rows += [{"percent": percent, "optimization": name, "variant": None, **row} for name, row in both]
        for name, (without, alone) in OPTIMIZATIONS.items():
            less = of(f"without {name}", {**ALL, **without})
            only = of(f"only {name}", {**NONE, **alone})
            rows.append({"percent": percent, "optimization": name, "variant": "without", **less})
            rows[-1]["speedup"] = _quotient(less["ms"], every["ms"])
            rows.append({"percent": percent, "optimization": name, "variant": "alone", **only})
            rows[-1]["speedup"] = _quotient(none["ms"], only["ms"])
    return rows


def _quotient(slower: float | None, faster: float | None) -> float | None:
    return slower / faster if slower and faster else None
