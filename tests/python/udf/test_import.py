"""The modules that importing Warpmill imports."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CODE = """
import sys
import warpmill

assert "warpmill.udf.definition" not in sys.modules
con = warpmill.connect(device="cpu")
con.create_function("twice", lambda x: 2 * x)
assert "warpmill.udf.definition" in sys.modules
print(con.sql("SELECT twice(21)").fetchall())
"""


def test_translation_of_functions_is_imported_with_the_first(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(CODE)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[(42.0,)]", "")
