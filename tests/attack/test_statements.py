"""Statements that are too deep, too wide or too large: each is answered, or refused with a typed error, in time.

The quick tier is for every run; `make attack` runs all tiers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from attack.bombs import BOMBS
from attack.tally import tally

MEMORY = 6 << 30
CHILD = Path(__file__).with_name("child.py")
# Kinds whose size is the number of pairs or of levels.
QUADRATIC = {"windows", "explain windows", "copy windows", "clique"}
Work = list[tuple[str, int]]
Outcome = dict[str, Any]


def survive(door: str, work: Work, seconds: int, *rest: str, memory: int = MEMORY) -> list[Outcome]:
    """The outcome of each statement; one that ends the process has the outcome "died"."""
    outcomes: list[Outcome] = []
    while work:
        command = [sys.executable, str(CHILD), door, str(memory), str(seconds), *rest]
        child = subprocess.run(
            command, input=json.dumps(work), capture_output=True, text=True, timeout=4 * seconds, check=False
        )
        lines = [json.loads(line) for line in child.stdout.splitlines()]
        ended = [line for line in lines if "end" in line]
        outcomes += ended
        if child.returncode == 0:
            break
        begun = [line for line in lines if "begin" in line]
        assert begun, child.stderr[-2000:]
        kind, size = work[len(ended)]
        error = child.stderr.strip()[-200:]
        outcomes.append({"end": kind, "size": size, "outcome": "died", "code": child.returncode, "message": error})
        work = work[len(ended) + 1 :]
    print_table(door, outcomes)
    tally(door, Counter(it["outcome"] for it in outcomes))
    return outcomes


def print_table(door: str, outcomes: list[Outcome]) -> None:
    for it in outcomes:
        what = it.get("message") or it.get("rows", "")
        time = it.get("seconds", float("nan"))
        numbers = f"{time:7.2f} s {it.get('peak_mb', 0):6} MB"
        print(f"{door:9} {it['end']:20} {it['size']:8} {it['outcome']:9} {numbers}  {what}")


def check(outcomes: list[Outcome], answered: bool, seconds: float) -> None:
    wrong = [it for it in outcomes if it["outcome"] == "died" or it["seconds"] > seconds]
    wrong += [it for it in outcomes if answered and it["outcome"] != "answered"]
    # A mistake inside is not a refusal.
    wrong += [it for it in outcomes if "nternal" in it.get("message", "")]
    assert not wrong


# Statements that are refused at 1,000 levels: kinds that double at each level, and nesting besides operators.
REFUSED = {
    "doubled ctes",
    "explain doubled ctes",
    "copy doubled ctes",
    "copy windows",
    "doubled expressions",
    "in subqueries",
    "function",
    "two-sided function",
    "lists",
    "explain explain",
}
SLOW = {"explain windows", "joins", "left joins", "comma join", "star", "windows", "ctes", "explain kernels"}


def sizes(kinds: list[str], size: int) -> Work:
    return [(kind, size) for kind in kinds]


def test_a_hundred_terms_are_answered() -> None:
    work = sizes([kind for kind in BOMBS if kind not in REFUSED], 100)
    check(survive("native", work, 60), answered=True, seconds=20)


def test_a_thousand_terms_of_operators_are_answered() -> None:
    signs = ["plus", "minus", "times", "divide", "modulo", "negation"]
    kinds = [*signs, "concat", "and", "or", "is true", "is null", "not", "parentheses", "casts", "case", "in list"]
    check(survive("native", sizes(kinds, 1000), 60), answered=True, seconds=20)


@pytest.mark.parametrize("size", [20_000, 100_000])
def test_more_is_answered_or_refused_at_once(size: int) -> None:
    flat = {"aggregates", "columns", "group keys", "case", "in list", "values"} | QUADRATIC
    kinds = [kind for kind in BOMBS if kind not in flat]
    outcomes = survive("native", sizes(kinds, size), 60)
    check(outcomes, answered=False, seconds=5)
    assert {it["error"] for it in outcomes if "error" in it} <= {"LimitError"}


def test_what_doubles_is_refused_at_once() -> None:
    work = [("doubled ctes", 26), ("doubled ctes", 60), ("in subqueries", 17)]
    work += [(f"{around} doubled ctes", size) for around in ("explain", "copy") for size in (26, 60)]
    outcomes = survive("native", work, 30)
    check(outcomes, answered=False, seconds=2)
    assert {it.get("error") for it in outcomes} == {"LimitError"}


def test_many_windows_are_refused_at_once() -> None:
    kinds = ["windows", "explain windows", "copy windows"]
    outcomes = survive("native", sizes(kinds, 501) + sizes(kinds, 9000), 30)
    check(outcomes, answered=False, seconds=2)
    assert [it.get("error") for it in outcomes] == ["LimitError"] * 6


def test_joins_on_equal_keys_take_no_exponential_time() -> None:
    two, *many = survive(
        "native", [(kind, size * of) for size in (2, 17) for kind, of in (("clique", 50), ("star", 1))], 30
    )
    assert {it["outcome"] for it in (two, *many)} == {"answered"}
    assert max(it["seconds"] for it in many) < 2
    assert max(it["peak_mb"] for it in many) - two["peak_mb"] < 100


@pytest.mark.parametrize("door", ["substrait", "duckdb"])
def test_other_doors_survive(door: str) -> None:
    kinds = ["plus", "concat", "or", "and", "is true", "not", "parentheses", "function", "case", "ctes", "doubled ctes"]
    outcomes = survive(door, [(kind, size) for kind in kinds for size in (26, 20_000)], 60)
    assert not [it for it in outcomes if it["outcome"] == "died"]


@pytest.mark.slow
def test_programs_above_each_other_wait_for_no_thread() -> None:
    """As many windows as are allowed run; without room for the stacks of their threads, there is an error."""
    [outcome] = survive("native", [("windows", 500)], 600, memory=64 << 30)
    assert outcome["outcome"] == "answered"
    [outcome] = survive("native", [("windows", 200)], 600)
    assert outcome.get("error", "OutOfMemoryError") == "OutOfMemoryError"


@pytest.mark.slow
@pytest.mark.parametrize("size", [200, 1000, 2400, 5000])
def test_all_kinds(size: int) -> None:
    outcomes = survive("native", sizes(list(BOMBS), size), 1200)
    assert not [it for it in outcomes if it["outcome"] == "died"]
    must = [it for it in outcomes if it["end"] not in REFUSED | QUADRATIC]
    check(must if size <= 1000 else [], answered=True, seconds=120)


@pytest.mark.slow
@pytest.mark.parametrize("door", ["substrait", "duckdb"])
@pytest.mark.parametrize("size", [200, 1000])
def test_all_kinds_through_other_doors(door: str, size: int) -> None:
    outcomes = survive(door, sizes([kind for kind in BOMBS if kind not in QUADRATIC | SLOW], size), 600)
    assert not [it for it in outcomes if it["outcome"] == "died"]
