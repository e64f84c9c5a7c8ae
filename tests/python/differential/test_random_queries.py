"""Random queries: a fixed set of seeds, or as many as fit into WARPMILL_FUZZ_SECONDS.

A seed is run alone by ``WARPMILL_FUZZ_SEED=N pytest tests/python/differential``.
"""

from __future__ import annotations

import faulthandler
import os
import time
from itertools import count

import pytest

from differential.judge import Tally, run_seed
from differential.shrink import script, shrink

SEEDS = 40
QUERIES = 25
#: One seed takes about half a second: an engine that hangs is stopped, and the stack of every thread printed.
HANG_SECONDS = 300


def report(seed: int, tally: Tally) -> list[str]:
    """Run a seed; the scripts of what differs."""
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    try:
        found = run_seed(seed, QUERIES, tally)
        return [f"# seed {seed}\n" + script(shrink(case), how) for case, how in found[:3]]
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.mark.skipif("WARPMILL_FUZZ_SECONDS" in os.environ or "WARPMILL_FUZZ_SEED" in os.environ, reason="a long run")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_seeds(seed: int) -> None:
    tally = Tally()
    scripts = report(seed, tally)
    assert not scripts, "\n\n".join(scripts)
    assert tally.counts["equal"] >= QUERIES * 0.7, str(tally)


@pytest.mark.skipif("WARPMILL_FUZZ_SEED" not in os.environ, reason="WARPMILL_FUZZ_SEED is not set")
def test_one_seed() -> None:
    scripts = report(int(os.environ["WARPMILL_FUZZ_SEED"]), Tally())
    assert not scripts, "\n\n".join(scripts)


@pytest.mark.skipif("WARPMILL_FUZZ_SECONDS" not in os.environ, reason="WARPMILL_FUZZ_SECONDS is not set")
def test_for_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    end = time.monotonic() + float(os.environ["WARPMILL_FUZZ_SECONDS"])
    tally = Tally()
    failing: list[str] = []
    # Every run goes on where time is: other seeds than the fixed ones, and than those of the run before.
    for seed in count(int(time.time())):
        if time.monotonic() > end or len(failing) >= 20:
            break
        failing += report(seed, tally)
    with capsys.disabled():
        print(f"\n{tally}")
    assert not failing, "\n\n".join(failing)
