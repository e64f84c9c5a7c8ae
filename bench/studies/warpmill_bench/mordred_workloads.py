"""Workloads of `warpmill_bench.mordred`: queries that ask for some dates more often than for others.

Each query is one of SSB's four flights in small, over a span of dates that ends with a month; facts are sorted by date,
so that a span is a run of row segments. Months are drawn with Zipf's skew, recent ones more often (section 4.4.2.3), or
around a mean that moves (section 4.4.2.4).
"""

from __future__ import annotations

import random
import statistics
from typing import TYPE_CHECKING, Any

import warpmill
from warpmill_bench.mordred import (
    HYBRID,
    PLACEMENTS,
    READS,
    TRAFFIC,
    Cache,
    Row,
    Run,
    Session,
    Study,
    hit_rate,
    limit_of,
    mirror,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Months of a span, and the query.
TEMPLATES = (
    (
        1,
        "SELECT sum(lo_extendedprice * lo_discount) AS r FROM lineorder WHERE lo_orderdate BETWEEN {} AND {} "
        "AND lo_discount BETWEEN 1 AND 3 AND lo_quantity < 25",
    ),
    (
        12,
        "SELECT sum(lo_revenue) AS r, p_brand1 FROM lineorder, part, supplier WHERE lo_partkey = p_partkey "
        "AND lo_suppkey = s_suppkey AND p_category = 'MFGR#12' AND s_region = 'AMERICA' "
        "AND lo_orderdate BETWEEN {} AND {} GROUP BY p_brand1",
    ),
    (
        12,
        "SELECT c_nation, s_nation, sum(lo_revenue) AS r FROM customer, lineorder, supplier "
        "WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND c_region = 'ASIA' AND s_region = 'ASIA' "
        "AND lo_orderdate BETWEEN {} AND {} GROUP BY c_nation, s_nation",
    ),
    (
        6,
        "SELECT c_nation, sum(lo_revenue - lo_supplycost) AS p FROM customer, lineorder, supplier, part "
        "WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_partkey = p_partkey AND c_region = 'AMERICA' "
        "AND s_region = 'AMERICA' AND (p_mfgr = 'MFGR#1' OR p_mfgr = 'MFGR#2') "
        "AND lo_orderdate BETWEEN {} AND {} GROUP BY c_nation",
    ),
)

#: Whole months of SSB's orders (1992-01-01 to 1998-08-02), the last first.
MONTHS = [(year, month) for year in range(1998, 1991, -1) for month in range(12, 0, -1) if (year, month) < (1998, 8)]

#: The phases: months by which the mean moves, and the standard deviation.
SHIFT, DEVIATION = 36, 6.0

#: Batches of a phase, where there are twice as many.
PHASE = 5


def span(last: int, months: int) -> tuple[str, str]:
    """The first and the last day of so many months, as SSB has them; `last` is the number of the last month."""
    first_year, first = MONTHS[min(last + months, len(MONTHS)) - 1]
    year, number = MONTHS[last]
    return f"{first_year}{first:02}01", f"{year}{number:02}31"


def zipf(theta: float, count: int, seed: int) -> list[int]:
    """Months by their ranks: rank `r` with probability proportional to `r ** -theta`."""
    weights = [(rank + 1) ** -theta for rank in range(len(MONTHS))]
    return random.Random(seed).choices(range(len(MONTHS)), weights, k=count)


def phases(batches: int, batch: int, seed: int) -> list[int]:
    """Months around a mean that moves by three years after some batches; the first batch is of the first phase, too."""
    source = random.Random(seed)
    period = phase_batches(batches)
    found = []
    for number in range((batches + 1) * batch):
        phase = max(number // batch - 1, 0) // period
        mean = (DEVIATION * 2 + SHIFT * phase) % len(MONTHS)
        found.append(min(max(round(source.normalvariate(mean, DEVIATION)), 0), len(MONTHS) - 1))
    return found


def phase_batches(batches: int) -> int:
    """Batches of a phase: with few of them, half."""
    return min(PHASE, -(-batches // 2))


def statements(months: list[int], seed: int) -> list[str]:
    """The queries of a workload, so few different ones that a session keeps all of their plans."""
    source = random.Random(seed + 1)
    found = []
    for month in months:
        length, text = source.choice(TEMPLATES[month % 2 :: 2])
        found.append(text.format(*span(month, length)))
    return found


def workload(study: Study, texts: list[str], batch: int, policy: str, limit: int) -> Row:
    """All queries under a policy, copies replaced after every batch, the first of which is not measured.

    A first pass of them is of new statements; then `runs` passes, each from an empty cache, are of repeated ones.
    """
    batches = [texts[at : at + batch] for at in range(0, len(texts), batch)]
    # Two queries of the cache's own follow each batch: the one that copies are replaced before, and one more.
    own = mirror(policy, limit, batch + 2)
    with study.session(own, PLACEMENTS[HYBRID]) as session:
        cache = Cache(session)
        try:
            passes = [_pass(cache, session, batches) for _ in range(study.runs + 1)]
            cached = cache.columns(texts)
        except warpmill.Error as error:
            return {"ms": None, "error": str(error), "same_answer": session.same_answer}
    first, *rest = passes
    last = rest[-1]
    reads = {name: last[name] for name in READS}
    return {
        "ms": statistics.median(one["ms"] for one in rest),
        "passes_ms": [round(one["ms"], 3) for one in rest],
        "run_ms": statistics.median(one["run_ms"] for one in rest),
        "repeated": all(one["new"] == 0 for one in rest),
        # Times of the first pass: all statements, and those without a cached plan.
        "first_ms": first["ms"],
        "new_statements": first["new"],
        "new_statements_ms": first["new_ms"],
        "batches_ms": [statistics.median(part) for part in zip(*(one["batches_ms"] for one in rest), strict=True)],
        **{name: value for name, value in last.items() if name not in ("ms", "run_ms", "batches_ms", "new", "new_ms")},
        "hit_rate": hit_rate(reads),
        "cached": cached,
        "same_answer": session.same_answer,
        "error": None,
    }


def _pass(cache: Cache, session: Session, batches: list[list[str]]) -> Row:
    """The workload from an empty cache."""
    warm, *rest = batches
    cache.begin()
    cache.replace()
    for sql in warm:
        session.run(sql)
    cache.replace()
    reads, moved = dict(cache.read), cache.moved()
    sums: dict[str, Any] = dict.fromkeys(("ms", "run_ms", "new_ms", *TRAFFIC), 0.0)
    new, shared, batches_ms = 0, [0, 0], []
    for batch in rest:
        batches_ms.append(0.0)
        for sql in batch:
            run = session.run(sql)
            batches_ms[-1] += run.ms
            sums["run_ms"] += run.program_ms
            if not run.repeated:
                new += 1
                sums["new_ms"] += run.ms
            for name, count in run.traffic().items():
                sums[name] += int(count)
            for site, count in enumerate(run.segments()):
                shared[site] += count
        cache.replace()
    sums |= {name: int(sums[name]) for name in TRAFFIC}
    return {
        **sums,
        "ms": sum(batches_ms),
        "batches_ms": batches_ms,
        "new": new,
        "segments": shared,
        **{name: cache.read[name] - reads[name] for name in READS},
        **{name: count - moved[name] for name, count in cache.moved().items()},
        "copies_bytes": cache.bytes,
    }


def cpu_alone(study: Study, texts: list[str], batch: int) -> Row:
    """The CPU's time for the same queries, all repeated: the median for each text."""
    runs: dict[str, list[Run]] = {}
    with study.session(PLACEMENTS["cpu"]) as session:
        for _ in range(study.runs + 1):
            for sql in dict.fromkeys(texts[batch:]):
                run = session.tried(sql)
                if run is None:
                    return {"ms": None, "run_ms": None, "different": None}
                runs.setdefault(sql, []).append(run)
    ms = {sql: statistics.median(run.ms for run in own[1:]) for sql, own in runs.items()}
    program = {sql: statistics.median(run.program_ms for run in own[1:]) for sql, own in runs.items()}
    sums = {"ms": sum(ms[sql] for sql in texts[batch:]), "run_ms": sum(program[sql] for sql in texts[batch:])}
    return {**sums, "different": len(ms)}


def skew(
    study: Study,
    thetas: Iterable[float],
    sizes: tuple[Iterable[float], int],
    policies: Iterable[str],
    shape: tuple[int, int, int],
) -> tuple[list[Row], list[Row]]:
    """Every policy with every skew; `sizes` are percents of all bytes, `shape` is batches, their length and a seed."""
    batches, batch, seed = shape
    workloads = {theta: statements(zipf(theta, (batches + 1) * batch, seed), seed) for theta in thetas}
    return _compared(study, {f"{theta:g}": texts for theta, texts in workloads.items()}, sizes, policies, batch)


def changing(
    study: Study, sizes: tuple[Iterable[float], int], policies: Iterable[str], shape: tuple[int, int, int]
) -> tuple[list[Row], list[Row]]:
    """Every policy with a workload that changes."""
    batches, batch, seed = shape
    return _compared(study, {"phases": statements(phases(batches, batch, seed), seed)}, sizes, policies, batch)


def _compared(
    study: Study,
    workloads: dict[str, list[str]],
    sizes: tuple[Iterable[float], int],
    policies: Iterable[str],
    batch: int,
) -> tuple[list[Row], list[Row]]:
    """Rows by workload, size and policy, and what the CPU alone takes for each workload."""
    percents, all_bytes = sizes
    rows, alone = [], []
    for label, texts in workloads.items():
        study.told(f"{label}: the CPU")
        alone.append({"workload": label, "statements": len(texts) - batch, **cpu_alone(study, texts, batch)})
        for percent in percents:
            for policy in policies:
                study.told(f"{label}, {percent:g}% cached, {policy}")
                found = workload(study, texts, batch, policy, limit_of(percent, all_bytes))
                rows.append({"workload": label, "percent": percent, "policy": policy, **found})
    return rows, alone


def gains(rows: list[Row], by: str = "workload") -> list[Row]:
    """The semantic policy against the best of the others: of each workload (or other label) and size.

    Times in programs count where they are known: planning takes as long under every policy.
    """
    found = []
    for label, percent in dict.fromkeys((row[by], row["percent"]) for row in rows):
        here = [row for row in rows if (row[by], row["percent"]) == (label, percent) and row["ms"] is not None]
        at: dict[str, float] = {row["policy"]: row["run_ms"] if "run_ms" in row else row["ms"] for row in here}
        others = {policy: ms for policy, ms in at.items() if policy != "semantic"}
        if "semantic" in at and others:
            best = min(others, key=lambda policy: others[policy])
            found.append({by: label, "percent": percent, "best_other": best, "gain": others[best] / at["semantic"]})
    return found
