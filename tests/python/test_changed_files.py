"""Data files that are cut off or overwritten while a session has them open: an error, and no end of the process."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from attack.tally import tally
from trials import trials

if TYPE_CHECKING:
    from pathlib import Path

CHILD = textwrap.dedent(
    """
    import glob, json, os, random, sys, warpmill
    folder, how, codec, when, access, seed = *sys.argv[1:6], int(sys.argv[6])
    chance = random.Random(seed)
    rows = 150_000
    con = warpmill.connect(folder, threads=2)
    con.register("source", {
        "n": [chance.randrange(1 << 40) for _ in range(rows)],
        "code": [f"code {i % 100}" for i in range(rows)],
        "text": [f"{chance.randrange(1 << 60):x} grün {i}" for i in range(rows)],
    })
    con.sql(f"SET warpmill.codec = '{codec}'")
    con.sql("CREATE TABLE t AS SELECT * FROM source")
    queries = [
        "SELECT sum(n), min(n), max(n) FROM t",
        "SELECT code, count(*) FROM t GROUP BY code ORDER BY code",
        "SELECT sum(length(text)), max(upper(text)) FROM t",
        "SELECT count(*) FROM t WHERE text LIKE '%gr_n 1%' AND n % 3 = 1",
        "SELECT * FROM t ORDER BY text LIMIT 3",
    ]
    with warpmill.connect(folder, threads=2) as reader:
        right = [reader.sql(query).fetchall() for query in queries]
    con.close()
    con = warpmill.connect(folder, threads=2, file_access=access)
    if when == "used":
        for query in queries:
            con.sql(query).fetchall()
    else:
        con.sql("SELECT count(*) FROM t").fetchall()
    for path in glob.glob(folder + "/t/*.data"):
        size = os.path.getsize(path)
        with open(path, "r+b") as file:
            if how == "cut":
                file.truncate(chance.randrange(size))
            else:
                begin = chance.randrange(size)
                file.seek(begin)
                file.write(chance.randbytes(min(size - begin, chance.randrange(1, size))))
    told = []
    for query, answer in zip(queries, right):
        try:
            told.append("right" if con.sql(query).fetchall() == answer else "wrong")
        except Exception as error:
            told.append(type(error).__name__)
    print(json.dumps(told))
    """
)


def outcomes(folder: Path, how: str, codec: str, when: str, access: str, seed: int) -> list[str]:
    command: list[Any] = [sys.executable, "-c", CHILD, folder, how, codec, when, access, seed]
    child = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, check=False)
    assert child.returncode == 0, (child.returncode, child.stderr[-2000:])
    told: list[str] = json.loads(child.stdout)
    return told


@pytest.mark.trials
@pytest.mark.parametrize("access", ["map", "read"])
@pytest.mark.parametrize("when", ["used", "new"])
@pytest.mark.parametrize("codec", ["none", pytest.param("zstd", marks=pytest.mark.long)])
@pytest.mark.parametrize("how", ["cut", "overwritten"])
def test_files_that_change_are_errors(tmp_path: Path, how: str, codec: str, when: str, access: str) -> None:
    all_told: Counter[str] = Counter()
    for seed in range(trials(1, "WARPMILL_CHANGES")):
        told = outcomes(tmp_path / str(seed), how, codec, when, access, seed)
        all_told.update(told)
        assert set(told) <= {"right", "CorruptDataError"}, (seed, told)
        assert "CorruptDataError" in told, (seed, told)
    tally(f"queries of files that were {how}, {access}", all_told)
