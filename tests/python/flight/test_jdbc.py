"""The Arrow JDBC Flight SQL driver."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .support import serve

SCRIPT = Path(__file__).parents[2] / "jvm" / "flight.sh"


@pytest.mark.parametrize("users", [False, True])
def test_jdbc(tmp_path: Path, users: bool) -> None:
    from warpmill._warpmill import hash_password

    file = tmp_path / "users"
    file.write_text(f"ada:{hash_password('open sesame')}\n")
    with serve(tmp_path, *(["--users", file] if users else [])) as server:
        address = f"127.0.0.1:{server.port}"
        log_in = ["ada", "open sesame"] if users else []
        done = subprocess.run([SCRIPT, address, *log_in], capture_output=True, text=True, check=False, timeout=300)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr[-4000:]
    assert "checks passed" in done.stdout
