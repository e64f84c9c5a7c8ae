"""The code in docs/substrait.md and docs/datafusion.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


def blocks(document: str, language: str) -> list[str]:
    text = (ROOT / "docs" / document).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("document", "printed"),
    [
        ("substrait.md", ["[(2, Decimal('17.75'))]", "WarpmillExec", "[(1,), (2,)]"]),
        ("datafusion.md", ["('Oslo', 6)", "{'city': ['Oslo', 'Rome']}"]),
    ],
)
def test_python_code_runs(document: str, printed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "docs"}
    code = blocks(document, "python")
    assert len(code) == 2
    for block in code:
        exec(compile(block, document, "exec"), names)
    output = capsys.readouterr().out
    for text in printed:
        assert text in output


def test_rust_code_is_that_of_the_example() -> None:
    # Cargo compiles the example with the tests.
    example = (ROOT / "crates/warpmill/examples/datafusion_context.rs").read_text()
    lines = {line.strip() for line in example.splitlines()}
    code = blocks("datafusion.md", "rust")
    assert len(code) == 2
    for line in "".join(code).splitlines():
        assert line.strip() in lines
