"""The parts of Markdown that tests read: code blocks, links, the anchors of headings."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]

#: All documents of the repository.
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").rglob("*.md")])

_FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path: Path, language: str) -> list[str]:
    """The code blocks in a language."""
    return [code for found, code in _FENCE.findall(path.read_text()) if found == language]


def links(path: Path) -> list[str]:
    """The targets of links outside of code; not those of the web."""
    text = re.sub(r"`[^`\n]*`", "code", _FENCE.sub("", path.read_text()))
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)]


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#{1,6} (.+)$", _FENCE.sub("", path.read_text()), re.MULTILINE)
    words = [re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()) for heading in headings]
    return {re.sub(r"\s+", "-", text.strip()) for text in words}


def statements(code: str) -> list[str]:
    """The statements of SQL code without comments."""
    return [text.strip() for text in re.sub(r"--[^\n]*", "", code).split(";") if text.strip()]
