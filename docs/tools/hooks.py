"""Pages of the site that lie outside of `docs`: the map of the code, benchmarks, changes, contributing.

Documents link to each other as files of the repository do, so that the same links work there; here they are turned to
the places that pages have in the site. Links to other files of the repository become plain text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]

#: Documents in the root of the repository, which are pages at the root of the site.
PAGES = ("ARCHITECTURE.md", "BENCHMARKS.md", "CHANGELOG.md", "CONTRIBUTING.md")

_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds pages and results."""
    for name in PAGES:
        files.append(File.generated(config, name, content=(ROOT / name).read_text(encoding="utf-8")))
    for path in sorted((ROOT / "bench" / "results").rglob("*.json")):
        place = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turns links between files of the repository to links between pages."""
    del config
    here = page.file.src_uri
    # The place of the document in the repository.
    folder = "" if here in PAGES else posixpath.dirname(f"docs/{here}")

    def turned(found: re.Match[str]) -> str:
        text, link = found.groups()
        name, mark, anchor = link.partition("#")
        if not name or re.match(r"[a-z]+:", link):
            return found[0]
        target = posixpath.normpath(posixpath.join(folder, name))
        if not (ROOT / target).exists():
            # Left as it is, so that --strict names it.
            return found[0]
        place = target if target in PAGES else target.removeprefix("docs/")
        if files.get_file_from_path(place) is None:
            return str(text)
        return f"[{text}]({posixpath.relpath(place, posixpath.dirname(here) or '.')}{mark}{anchor})"

    return _LINK.sub(turned, markdown)
