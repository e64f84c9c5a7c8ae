"""The Arrow JDBC Flight SQL driver."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from warpmill._warpmill import hash_password

from .support import serve

SCRIPT = Path(__file__).parents[2] / "jvm" / "flight.sh"


@pytest.mark.long
def test_jdbc(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(f"ada:{hash_password('open sesame')}\n")
    with serve(tmp_path, "--users", users) as server:
        command: list[str | Path] = [SCRIPT, f"127.0.0.1:{server.port}", "ada", "open sesame"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr[-4000:]
    assert "checks passed" in done.stdout
