"""Other clients: DuckDB 1.5.6 in Python (both doors), the stock command line, and JDBC (the explicit door)."""

from __future__ import annotations

import csv
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import warpmill._warpmill as native
from warpmill.duckdb import extension_path

from .clients import QUERIES, TPCH, literal, package, tpch

HERE = Path(__file__).parent
JDBC = Path(__file__).parents[2] / "jvm" / "duckdb.sh"

#: The tests of this folder that the other Python package runs: both doors, and of the behaviours a selection.
BEHAVIOURS = "group or types or parameter or rollback or attach or temp or error or prepare or own"
OF_1_5_6 = f"(tpch or door or extension or staleness or test_attach or (behaviours and ({BEHAVIOURS})))"


def run_with(version: str, selection: str, least: int) -> None:
    """The tests of this folder that `selection` names, in a process whose `duckdb` is another one."""
    paths = [str(package("duckdb", version)), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "WARPMILL_TEST_STEPS": "60"}
    asked = [sys.executable, "-c", "import duckdb; print(duckdb.__version__)"]
    found = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == version
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", selection, str(HERE)]
    command += [f"--ignore={HERE / 'test_clients.py'}", f"--ignore={HERE / 'test_docs.py'}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= least


@pytest.mark.slow
def test_duckdb_1_5_6() -> None:
    run_with("1.5.6", OF_1_5_6, 240)


@pytest.mark.slow
def test_duckdb_1_4() -> None:
    """There is no shim for it: the explicit door alone."""
    run_with("1.4.5", "test_door and alone", 30)


def command_line(script: str) -> str:
    """The answer of DuckDB's own command line to a script."""
    program = package("duckdb-cli", "1.5.6") / "duckdb_cli" / "duckdb"
    if not program.exists():
        pytest.skip("the package duckdb-cli has no program for this machine")
    arguments = [str(program), "-unsigned", "-batch", "-csv"]
    # Nothing of Python's may be needed: neither its library nor its settings.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LD_", "WARPMILL"))
    }
    done = subprocess.run(
        arguments, input=script, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode >= 0, f"the command line died: {done.stderr[-2000:]}"
    return done.stdout + done.stderr


def tables(output: str) -> dict[str, list[list[str]]]:
    """The rows between lines that begin with `@`, by what they say."""
    parts = re.split(r"^@(.+)\n", output, flags=re.MULTILINE)
    return {name: list(csv.reader(text.splitlines())) for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def equal(ours: str, theirs: str) -> bool:
    if ours == theirs:
        return True
    try:
        return math.isclose(float(ours), float(theirs), rel_tol=1e-9)
    except ValueError:
        return False


def test_command_line_tpch(tmp_path: Path) -> None:
    folder = tpch(tmp_path)
    script = [f"LOAD {literal(str(extension_path()))};", "SET VARIABLE warpmill_fallback = 'error';"]
    script += [
        f"CREATE TABLE {table} AS FROM read_parquet('{folder}/{table}.parquet');" for table in native.tables("tpch")
    ]
    for name, sql in TPCH.items():
        explicit = f"FROM warpmill({literal(sql)})"
        script += [f".print @{name} DuckDB", f"{sql};", f".print @{name} Warpmill", f"{explicit};"]
        script += [
            f".print @{name} types of DuckDB",
            f"DESCRIBE {sql};",
            f".print @{name} types of Warpmill",
            f"DESCRIBE {explicit};",
        ]
        script += [f".print @{name} last", "SELECT accelerated, reason FROM warpmill_last();"]
    found = tables(command_line("\n".join(script)))
    for name in TPCH:
        theirs, ours = found[f"{name} DuckDB"], found[f"{name} Warpmill"]
        assert len(theirs) == len(ours) > 0, (name, ours[:3])
        for a, b in zip(ours, theirs, strict=True):
            assert len(a) == len(b), name
            assert all(map(equal, a, b)), (name, a, b)
        assert found[f"{name} types of DuckDB"] == found[f"{name} types of Warpmill"], name
        assert found[f"{name} last"][1] == ["true", "NULL"] or found[f"{name} last"][1] == ["true", ""], name


def test_command_line_session(tmp_path: Path) -> None:
    """Transactions, errors with advice, and a database in a file."""
    script = f"""
LOAD {literal(str(extension_path()))};
CREATE TABLE t AS SELECT i AS a, i % 3 AS g FROM range(1000) r(i);
.print @file
FROM warpmill('SELECT sum(a) AS s FROM t');
.print @door
CREATE TEMP MACRO warpmill(q) AS TABLE FROM query(warpmill_sql(q));
FROM warpmill('SELECT g, sum(a) AS s FROM t GROUP BY g ORDER BY g');
.print @transaction
BEGIN;
DELETE FROM t WHERE a > 4;
FROM warpmill('SELECT sum(a) AS s FROM t');
ROLLBACK;
FROM warpmill('SELECT sum(a) AS s FROM t');
.print @stats
SELECT * FROM warpmill_stats() WHERE name = 'queries_accelerated';
.print @end
"""
    output = command_line(f".open {tmp_path}/x.db\n" + script)
    found = tables(output)
    assert found["door"] == [["g", "s"], ["0", "166833"], ["1", "166167"], ["2", "166500"]]
    assert found["transaction"] == [["s"], ["10"], ["s"], ["499500"]]
    assert found["stats"][1] == ["queries_accelerated", "3"]
    assert "CREATE TEMP MACRO warpmill(q)" in output
    assert "INTERNAL" not in output


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.0.0.0", "1.5.6.0"])
def test_jdbc(tmp_path: Path, version: str) -> None:
    command = [str(JDBC), version, str(extension_path()), str(tpch(tmp_path)), str(QUERIES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr[-4000:]
    assert "checks passed" in done.stdout
