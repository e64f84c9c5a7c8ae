"""Answers queries on mutants, in a separate process, so that its parent sees crashes.

Reads a line of JSON per mutant from stdin, writes a line of JSON per mutant to stdout.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import warpmill


def answer(subject: dict[str, Any], path: str, settings: dict[str, Any]) -> list[list[str]]:
    """The result of each query: its rows, or an error, or a panic."""
    found = []
    own = subject["source"] == "t"
    for query in subject["queries"]:
        sql = query.format(t=subject["source"].format(path=path))
        try:
            with warpmill.connect(path if own else None, **settings) as con:
                found.append(["rows", repr(con.sql(sql).fetchall())])
        except warpmill.Error as error:
            internal = type(error).__name__ == "InternalError" or "panicked" in str(error)
            found.append(["panic" if internal else "error", f"{type(error).__name__}: {error}"])
        except (ValueError, OverflowError) as error:
            # Python has no such dates.
            found.append(["rows", repr(error)])
        except BaseException as error:
            found.append(["panic", f"{type(error).__name__}: {error}"])
    return found


def main() -> None:
    for line in sys.stdin:
        task = json.loads(line)
        print(json.dumps(answer(task["subject"], task["path"], task["settings"])), flush=True)


if __name__ == "__main__":
    main()
