"""Code blocks and examples run as they stand. Documents of hosts have tests of their own, beside those of the hosts."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import TYPE_CHECKING

import pytest

import warpmill

from .markdown import DOCUMENTS, ROOT, blocks, statements

if TYPE_CHECKING:
    from pathlib import Path

#: Texts that the Python code of a document prints.
PRINTED = {
    "README.md": ["b    │               5.0", "167"],
    "docs/distributed.md": ["[(0, 3000), (1, 3000), (2, 3000)]", "stage 1: 2 tasks", "orders: segments 0.."],
    "docs/udf.md": ["(1, -1.82", "[(-0.5, 0.5)]", "compiled\n"],
    "docs/start/cpu.md": [
        "5.50",
        "[(Decimal('4.00'),)]",
        "[('Oslo', Decimal('5.50')), ('Rome', Decimal('2.50'))]",
        "scan sales",
    ],
    "docs/relations.md": [
        "['country', 'count_star()', 'total']",
        "[('IT', 2, Decimal('5.5')), ('NO', 1, Decimal('2.5'))]",
        "1  Rome  5.50",
    ],
    "docs/start/gpu.md": ["pu\n", "program 0"],
    "docs/start/duckdb.md": ["[(0, 499950000), (1,", "[(True, None)]", "[(100000,)] [(100000,)]"],
    "docs/start/server.md": ["[('Rome',)]"],
}

#: Texts that each example prints.
EXAMPLES = {
    "parquet_on_cpu.py": ["Rome │                70", "[(1, 30), (2, 50)]", "month,largest\n1,30\n2,50\n"],
    "own_tables.py": [
        "IT      │             40.00",
        "now: [(2,)]",
        "before DELETE: [(3,)]",
        "['cities', 'sales'] [(Decimal('50.50'),)]",
    ],
    "duckdb_session.py": ["run by Warpmill", "[(8,)]\n[(7,)]"],
    "python_functions.py": ["var_samp", "a loop (for) is no expression", "[(-0.5, 0.5)]"],
    "flight_server.py": ["[('Oslo', 6), ('Rome', 21)]", "'degrees': [4, 6, 21]"],
}

#: Documents whose blocks other tests run.
ELSEWHERE = {"docs/duckdb.md", "docs/flight.md", "docs/substrait.md", "docs/datafusion.md"}


def test_every_document_with_code_is_run() -> None:
    with_code = {str(path.relative_to(ROOT)) for path in DOCUMENTS if blocks(path, "python")}
    assert with_code == set(PRINTED) | ELSEWHERE
    with_sql = {str(path.relative_to(ROOT)) for path in DOCUMENTS if blocks(path, "sql")}
    assert with_sql == {"docs/duckdb.md", "docs/tables.md", "docs/parquet.md"}


@pytest.mark.parametrize("document", PRINTED)
def test_python_code_runs(document: str, tmp_path: Path) -> None:
    # A file, since Python functions need their source, in a separate process.
    script = tmp_path / "code.py"
    script.write_text("\n".join(blocks(ROOT / document, "python")))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for text in PRINTED[document]:
        assert text in done.stdout, done.stdout


def test_settings_of_parquet_files_are_there() -> None:
    # In a separate process, since one of them is process-wide.
    code = "".join(blocks(ROOT / "docs/parquet.md", "sql"))
    command = [sys.executable, "-m", "warpmill", "sql", "-"]
    done = subprocess.run(command, input=code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "directory"])
def test_sql_of_tables_runs(stored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answers = {}
    with warpmill.connect("db" if stored else None) as con, warnings.catch_warnings():
        warnings.simplefilter("ignore", warpmill.Notice)
        for code in blocks(ROOT / "docs/tables.md", "sql"):
            for statement in statements(code):
                answers[statement] = con.sql(statement).fetchall()
    assert [[str(value) for value in row] for row in answers["FROM shop.totals ORDER BY city"]] == [
        ["Oslo", "40.00"],
        ["Rome", "40.00"],
    ]
    assert answers["SELECT count(*) FROM 'sales.parquet'"] == [(3,)]


def test_every_example_is_run() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    for text in EXAMPLES[name]:
        assert text in done.stdout, done.stdout
    assert list(tmp_path.iterdir()) == [], "an example leaves nothing behind"
