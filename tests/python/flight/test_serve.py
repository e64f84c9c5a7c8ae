"""The command `warpmill serve`, and the code of docs/flight.md."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_flightsql import dbapi as flight_sql

from .support import serve

pytestmark = pytest.mark.filterwarnings("ignore:Cannot disable autocommit")
DOCS = Path(__file__).parents[3] / "docs" / "flight.md"


def command(*arguments: object, text: str | None = None) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "warpmill", "serve", *map(str, arguments)]
    return subprocess.run(program, input=text, capture_output=True, text=True, check=False, timeout=60)


def test_unsafe_and_wrong_options_are_refused(tmp_path: Path) -> None:
    for options, message in (
        (["--host", "0.0.0.0"], "TLS (--tls-cert"),
        (["--tls-cert", "x.pem"], "--tls-key"),
        (["--users", tmp_path / "none"], "cannot read"),
        (["--token-env", "WARPMILL_NOT_SET"], "WARPMILL_NOT_SET"),
        (["--memory", "1GB", "--query-memory", "2GB"], "query's memory"),
    ):
        done = command("--database", tmp_path / "db", *options)
        assert done.returncode == 1, done
        assert done.stderr.startswith("error: "), done.stderr
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    assert command().returncode == 2


def test_passwords_are_hashed() -> None:
    done = command("--hash-password", text="secret\n")
    assert done.stdout.startswith("$argon2id$")
    assert command("--hash-password", text="\n").returncode == 1


def test_all_forms_of_the_dialect_are_read(tmp_path: Path) -> None:
    """Forms that are rewritten before they are parsed: what Python's `sql` reads, clients may say, too."""
    with serve(tmp_path) as server, flight_sql.connect(server.uri, autocommit=True) as con, con.cursor() as cursor:
        for sql, expected in (
            ("SELECT 3 ** 2", 9.0),
            ("SELECT [1, 2, 3][::-1][1]", 3),
            ("SELECT list_sum([x * 2 for x in [1, 2, 3] if x > 1])", 10),
            ("FROM (VALUES (7)) v(x)", 7),
            ("SELECT list_transform([1, 2], lambda x: x + 1)[2]", 3),
            ("SELECT count(*) FILTER (x > 1) FROM (VALUES (1), (2),) v(x)", 1),
        ):
            cursor.execute(sql)
            assert cursor.fetchone() == (expected,), sql
        cursor.execute("SELECT ? ** 2 + ?", (3.0, 1))
        assert cursor.fetchone() == (10.0,)


def test_logs_are_json_and_sigterm_ends_it(tmp_path: Path) -> None:
    with serve(tmp_path, "--log-format", "json") as server:
        with flight_sql.connect(server.uri, autocommit=True) as con, con.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchone() == (1,)
        assert urllib.request.urlopen(f"{server.metrics}/health").status == 200
        taken = command("--database", tmp_path / "db", "--port", server.port)
        assert taken.returncode == 1
        assert "cannot listen" in taken.stderr
        assert server.stop() == 0
        lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    messages = [line["message"] for line in lines]
    assert messages[0] == "serving"
    assert messages[-1] == "stopped"
    (done,) = [line for line in lines if line["message"] == "statement done"]
    assert (done["kind"], done["rows"], done["user"]) == ("query", 1, "anonymous")
    assert "SELECT" not in server.log.read_text(), "statements may hold secrets"


def certificate(folder: Path) -> None:
    options = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(["openssl", *options, *names, *files], check=True, capture_output=True)


def test_tls_on_a_public_address(tmp_path: Path) -> None:
    certificate(tmp_path)
    (tmp_path / "users").write_text(f"ada:{command('--hash-password', text='open').stdout}")
    tls = ["--tls-cert", tmp_path / "cert.pem", "--tls-key", tmp_path / "key.pem"]
    with serve(tmp_path, "--host", "0.0.0.0", *tls, "--users", tmp_path / "users") as server:
        options = {
            "username": "ada",
            "password": "open",
            DatabaseOptions.TLS_ROOT_CERTS.value: (tmp_path / "cert.pem").read_text(),
        }
        uri = f"grpc+tls://localhost:{server.port}"
        with flight_sql.connect(uri, db_kwargs=options, autocommit=True) as con, con.cursor() as cursor:
            cursor.execute("SELECT 42")
            assert cursor.fetchone() == (42,)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)


def test_the_documentation_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = blocks("python")
    assert len(found) >= 3
    with serve(tmp_path) as server:
        space: dict[str, Any] = {}
        for block in found:
            exec(compile(block.replace("grpc://127.0.0.1:31337", server.uri), str(DOCS), "exec"), space)
        assert "2" in capsys.readouterr().out
    for line in re.findall(r"^    warpmill serve (.*)$", DOCS.read_text(), re.MULTILINE):
        for option in re.findall(r"--[a-z-]+", line):
            assert option in HELP, option


HELP = command("--help").stdout


def test_every_option_is_documented() -> None:
    text = DOCS.read_text()
    missing = [option for option in set(re.findall(r"--[a-z-]+", HELP)) if option not in text]
    assert set(missing) <= {"--help"}, missing
