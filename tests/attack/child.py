"""Runs statements in this process, which may die of them: one line of JSON before and after each.

usage: child.py DOOR ADDRESS_SPACE_BYTES CPU_SECONDS [ARGUMENTS OF THE DOOR] < [[kind, size], ...]
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.insert(0, str(Path(__file__).parents[1]))

from attack.bombs import BOMBS, SETUP, Door, doors
from attack.hogs import HOGS, ROWS
from attack.memory import peak_mb


def main() -> None:
    door, memory, seconds, *rest = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
    work: list[tuple[str, int]] = json.load(sys.stdin)
    # Processes of one server share what the first has created.
    run = doors()[door](*rest[:-1]) if rest[-1:] == ["again"] else open_door(doors()[door], rest)
    # Some statements write files to the working directory.
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        for kind, size in work:
            sql = (BOMBS | HOGS)[kind](size)
            tell(begin=kind, size=size)
            start = time.perf_counter()
            outcome = attempt(run, sql)
            tell(end=kind, size=size, seconds=time.perf_counter() - start, peak_mb=round(peak_mb("self")), **outcome)


def open_door(door: Door, rest: list[str]) -> Callable[[str], Any]:
    run = door(*rest)
    for statement in SETUP + ROWS:
        run(statement)
    return run


def attempt(run: Callable[[str], Any], sql: str) -> dict[str, str]:
    try:
        return {"outcome": "answered", "rows": str(run(sql))[:60]}
    except Exception as error:
        return {"outcome": "refused", "error": type(error).__name__, "message": str(error)[:200]}


def tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
