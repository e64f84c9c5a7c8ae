"""Lancelot's policies on simulated devices: answers, bytes from device to device, refusals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from warpmill import _warpmill
from warpmill.cli import app
from warpmill_bench import lancelot

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    json.loads(_warpmill.devices())["no_simulated_device"] is not None, reason="no C++ compiler"
)


def test_policies_differ_in_what_goes_from_device_to_device(tmp_path: Path) -> None:
    saved = tmp_path / "lancelot.json"
    shown = ["bench", "lancelot", "--sf", "0.01", "--device", "sim", "--devices", "2", "--percents", "100"]
    # Copies are made when a device begins with a query, while another may look for them: the pass after finds them.
    shown += ["--count", "3", "--seed", "2", "--runs", "2", "--data", str(tmp_path), "--json", str(saved)]
    done = CliRunner().invoke(app, shown)
    assert done.exit_code == 0, done.output
    found = json.loads(saved.read_text())
    assert (found["suite"], found["wrong"], found["errors"]) == ("lancelot", [], [])
    rows = {(row["workload"], row["policy"]): row for row in found["results"]}
    assert list(rows) == [(workload, policy) for workload in lancelot.WORKLOADS for policy in lancelot.POLICIES]
    for row in rows.values():
        assert (row["same_answer"], row["as_planned"], row["error"]) == (True, True, None)
        assert row["peer_bytes"] == sum(map(sum, row["traffic"]))
    for workload in lancelot.WORKLOADS:
        one, every = rows[workload, "never"], rows[workload, "always"]
        # Dimensions on one device are read from there; dimensions on all devices are not transferred.
        assert one["peer_bytes"] > 0 == every["peer_bytes"]
        assert one["own_bytes"] + one["peer_bytes"] == every["own_bytes"]


@pytest.mark.parametrize(
    "options", [["--device", "cpu"], ["--devices", "1"], ["--policies", "some"], ["--percents", "101"]]
)
def test_what_makes_no_sense_is_refused(options: list[str]) -> None:
    device = [] if "--device" in options else ["--device", "sim"]
    done = CliRunner().invoke(app, ["bench", "lancelot", *device, *options])
    assert done.exit_code == 2, done.output


def test_matrices_add_up() -> None:
    assert lancelot.added([], [[1, 2], [3, 4]]) == [[1, 2], [3, 4]]
    assert lancelot.added([[1, 2], [3, 4]], [[0, 5], [6, 0]]) == [[1, 7], [9, 4]]
    assert lancelot.device("sim", 3, False) == "sim:3"
    assert (lancelot.device("gpu", 2, False), lancelot.device("gpu", 2, True)) == ("gpu:0,1", "gpu:0,0")
