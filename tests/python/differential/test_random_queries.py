"""Random queries: a fixed set of seeds, or as many as fit into WARPMILL_FUZZ_SECONDS.

They go in through every door: `warpmill.connect()`, the same on the simulated device, and `warpmill.duckdb`. One seed
is run alone by ``WARPMILL_FUZZ_SEED=N WARPMILL_FUZZ_DOOR=duckdb pytest tests/python/differential``.
"""

from __future__ import annotations

import faulthandler
import json
import os
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from dialect.case import Case
from dialect.lockstep import compare
from differential import expressions, queries
from differential.judge import Tally, run_seed
from differential.known import KNOWN, REFUSALS, Known, Refusal
from differential.shrink import script, shrink
from trials import trials
from warpmill import _warpmill

if TYPE_CHECKING:
    from differential.judge import Door

#: Seeds of each door, and queries of a seed: on the simulated device, most queries have kernels to compile.
SEEDS: dict[Door, tuple[int, int]] = {"native": (trials(20), 25), "sim": (trials(3), 8), "duckdb": (trials(10), 25)}
DOOR = cast("Door", os.environ.get("WARPMILL_FUZZ_DOOR", "native"))
#: One seed takes about half a second: an engine that hangs is stopped, and the stack of every thread printed.
HANG_SECONDS = 300
#: Failing cases of a seed that are made small, and the seconds that one may take.
SHOWN, SHRINKING = 3, 20.0

NO_SIM = json.loads(_warpmill.devices())["no_simulated_device"]
FIXED = not {"WARPMILL_FUZZ_SECONDS", "WARPMILL_FUZZ_SEED"} & os.environ.keys()


def report(seed: int, asked: int, door: Door, tally: Tally) -> list[str]:
    """Run a seed; returns the scripts of failures."""
    # The standard error of the process: a test's captured replacement may have no file.
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True, file=2)
    try:
        found = run_seed(seed, asked, door, tally)
        shown = [(shrink(case, seconds=SHRINKING), how) for case, how in found[:SHOWN]]
        return [f"# seed {seed}, {door}\n" + script(case, how) for case, how in shown]
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.mark.trials
@pytest.mark.skipif(not FIXED, reason="a long run, or one seed")
@pytest.mark.parametrize(
    ("door", "seed"), [(door, seed) for door, (seeds, _) in SEEDS.items() for seed in range(seeds)]
)
def test_seeds(door: Door, seed: int) -> None:
    if door == "sim" and NO_SIM:
        pytest.skip(NO_SIM)
    tally, asked = Tally(), SEEDS[door][1]
    scripts = report(seed, asked, door, tally)
    assert not scripts, "\n\n".join(scripts)
    assert tally.counts["equal"] >= (asked - tally.counts["of a table that is not there"]) * 0.7, str(tally)
    if door == "sim":
        assert tally.counts["on sim"] >= asked * 0.3, str(tally)
    if door == "duckdb":
        assert tally.counts["accelerated"] >= asked * 0.3, str(tally)


@pytest.mark.skipif("WARPMILL_FUZZ_SEED" not in os.environ, reason="WARPMILL_FUZZ_SEED is not set")
def test_one_seed() -> None:
    scripts = report(int(os.environ["WARPMILL_FUZZ_SEED"]), SEEDS[DOOR][1], DOOR, Tally())
    assert not scripts, "\n\n".join(scripts)


@pytest.mark.skipif("WARPMILL_FUZZ_SECONDS" not in os.environ, reason="WARPMILL_FUZZ_SECONDS is not set")
def test_for_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    end = time.monotonic() + float(os.environ["WARPMILL_FUZZ_SECONDS"])
    tally = Tally()
    failing: list[str] = []
    # Seeds continue from the current time: different from the fixed ones, and from those of earlier runs.
    for seed in count(int(time.time())):
        if time.monotonic() > end or len(failing) >= 20:
            break
        failing += report(seed, SEEDS[DOOR][1], DOOR, tally)
    with capsys.disabled():
        print(f"\n{tally}")
    assert not failing, "\n\n".join(failing)


@pytest.mark.parametrize("known", [*KNOWN, *REFUSALS], ids=lambda known: getattr(known, "name", None))
def test_what_is_left_out_is_wrong_still(known: Known | Refusal) -> None:
    found = compare(Case(known.reason, known.sql, known.setup))
    if isinstance(known, Refusal):
        assert known.words.lower() in (found.ours.error or "").lower(), (
            f"take it out of differential/known.py: {found.ours}"
        )
    else:
        assert found.rows or found.types, f"take it out of differential/known.py: {known.name}: {found.ours}"


def test_what_is_left_out_could_be_made() -> None:
    text = "".join(Path(str(module.__file__)).read_text() for module in (expressions, queries))
    assert not [known.name for known in KNOWN if f'"{known.name}"' not in text]
