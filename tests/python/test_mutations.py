"""Mutants of files of every kind: the right answer or an error.

``python -m mutations`` in this folder tries more of them.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from attack.tally import tally
from mutations.files import subjects
from mutations.run import Reader, run
from trials import trials
from warpmill import _warpmill

if TYPE_CHECKING:
    from pathlib import Path

COUNT = trials(90, "WARPMILL_MUTATIONS")
SEED = int(os.environ.get("WARPMILL_MUTATION_SEED", "17"))
NO_SIM = json.loads(_warpmill.devices())["no_simulated_device"] is not None


@pytest.mark.trials
@pytest.mark.parametrize("device", ["cpu", pytest.param("sim", marks=pytest.mark.skipif(NO_SIM, reason="no compiler"))])
def test_mutants_are_right_or_errors(tmp_path: Path, device: str, capsys: pytest.CaptureFixture[str]) -> None:
    made, mutants = tmp_path / "made", tmp_path / "mutants"
    made.mkdir()
    mutants.mkdir()
    count = COUNT if device == "cpu" else COUNT // 3
    result = run(subjects(made), count, SEED, {"device": device}, mutants)
    with capsys.disabled():
        print(f"\n{device}\n{result.table()}")
        for kind, counts in result.counts.items():
            tally(f"{device}, {kind.partition(':')[0]}", counts)
    assert not result.failures, "\n".join(result.failures)
    # Footers store most facts redundantly.
    footers = [counts for kind, counts in result.counts.items() if kind.startswith("parquet") and "footer" in kind]
    tried, unnoticed = sum(map(Counter.total, footers)), sum(counts["unnoticed"] for counts in footers)
    assert unnoticed <= 1 + tried // 20, "\n".join(result.unnoticed)


def test_a_reader_that_does_not_answer_is_ended() -> None:
    reader = Reader(seconds=8)
    endless = "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i % 7 + 1 FROM r) SELECT count(*) FROM r"
    end = reader.ask({"subject": {"source": "", "queries": [endless]}, "path": "", "settings": {}})
    assert reader.hangs
    assert isinstance(end, str)
    assert "the process ended with -6" in end
    # The next one is read by another process.
    one = {"subject": {"source": "", "queries": ["SELECT 1 AS x"]}, "path": "", "settings": {}}
    assert reader.ask(one) == [["rows", "[(1,)]"]]
    reader.close()
