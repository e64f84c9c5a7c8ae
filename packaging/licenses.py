"""Writes the licence texts of everything that is linked into the Python module into one file, for the wheel.

    python packaging/licenses.py --out python/warpmill/licenses/THIRD_PARTY_LICENSES.txt

The crates are those that `cargo metadata` resolves for `warpmill-python`, without those of builds and tests only; texts
are what their packages hold. Crates without one are listed with their licence, whose text is that of others.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGET = "x86_64-unknown-linux-gnu"
LINKED = ("warpmill-python", "warpmill-duckdb-loader")
_TEXT = re.compile(r"^(licen[cs]e|copying|notice|unlicense|copyright)([-._].*)?$", re.IGNORECASE)


@dataclass(frozen=True)
class Crate:
    """A package that is linked in."""

    name: str
    version: str
    licence: str
    authors: tuple[str, ...]
    folder: Path

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}"


def linked(metadata: dict[str, Any], roots: tuple[str, ...] = LINKED) -> list[Crate]:
    """The crates of others that `roots` link, by name."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [key for key, package in packages.items() if package["name"] in roots]
    seen = set(waiting)
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            # Of kinds normal (None), build and dev, only the first is part of a program; procedural macros are none.
            kinds = [kind["kind"] for kind in dependency["dep_kinds"]]
            key = dependency["pkg"]
            macros = any("proc-macro" in target["kind"] for target in packages[key]["targets"])
            if None in kinds and not macros and key not in seen:
                seen.add(key)
                waiting.append(key)
    others = [packages[key] for key in seen if packages[key]["source"] is not None]
    return sorted(map(_crate, others), key=lambda crate: (crate.name, crate.version))


def _crate(package: dict[str, Any]) -> Crate:
    folder = Path(package["manifest_path"]).parent
    licence = package["license"] or f"see {package['license_file']}"
    return Crate(package["name"], package["version"], licence, tuple(package["authors"]), folder)


def texts(crate: Crate) -> list[str]:
    """The licence texts and notices in a crate's package."""
    found = sorted(path for path in crate.folder.iterdir() if path.is_file() and _TEXT.match(path.name))
    return [path.read_text(encoding="utf-8", errors="replace").strip() for path in found]


def document(crates: list[Crate]) -> str:
    """One text: a list of the crates, then each licence text once, with the crates that have it."""
    by_text: dict[str, list[Crate]] = defaultdict(list)
    spelled: dict[str, str] = {}
    without = []
    for crate in crates:
        own = [text for text in texts(crate) if text]
        if not own:
            without.append(crate)
        for text in own:
            key = " ".join(text.split())
            spelled.setdefault(key, text)
            by_text[key].append(crate)
    lines = [
        "Third-party software in Warpmill's binaries",
        "",
        f"{len(crates)} crates are linked into the Python module and the DuckDB extension. Their licences:",
        "",
        *(f"  {crate.title}: {crate.licence}" for crate in crates),
    ]
    if without:
        lines += ["", "These packages hold no licence text; their expressions name licences whose texts are below:", ""]
        lines += (
            f"  {crate.title}: {crate.licence}; {', '.join(crate.authors) or 'no authors named'}" for crate in without
        )
    for key, users in sorted(by_text.items(), key=lambda entry: (-len(entry[1]), entry[1][0].name)):
        lines += ["", "=" * 100, ", ".join(crate.title for crate in users), "=" * 100, "", spelled[key]]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--offline", action="store_true", help="take what cargo has already")
    options = parser.parse_args()
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET]
    done = subprocess.run(
        [*command, *(["--offline"] if options.offline else [])], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"cargo metadata failed: {done.stderr.strip()}")
    crates = linked(json.loads(done.stdout))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    text = document(crates)
    options.out.write_text(text, encoding="utf-8")
    print(f"{options.out}: {len(crates)} crates, {len(text):,} characters")


if __name__ == "__main__":
    main()
