"""Workers that fail, hang, or do not belong to the session."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

import warpmill
from distributed.support import TIMEOUT, Rows, WorkerProcess, Workers, in_order, is_distributed, within
from warpmill import _warpmill

if TYPE_CHECKING:
    from pathlib import Path

#: Queries that a worker is killed in.
KILLS = int(os.environ.get("WARPMILL_KILLS", "8"))


def answered(con: warpmill.Connection, sql: str, expected: Rows, victim: str) -> bool:
    """Whether a query gave its answer, in time; otherwise it has named the worker that is gone."""
    try:
        found = within(30, lambda: con.sql(sql).fetchall())
    except warpmill.WorkerError as failure:
        message = str(failure)
    else:
        assert in_order(found) == expected
        return True
    assert victim in message
    return False


def test_a_worker_killed_at_random_moments(tpch: tuple[Path, dict[str, Rows]]) -> None:
    """No wrong answer, no query that does not end, and the next query goes without it."""
    database, answers = tpch
    chosen = [(name, sql) for name, sql in _warpmill.queries("tpch") if name in {"1", "3", "5", "9", "13", "18", "21"}]
    seed = random.randrange(1 << 30)
    print("seed", seed)
    dice, failed, killed = random.Random(seed), 0, []
    with Workers(2) as workers:
        lasts = {}
        with workers.connect(database) as con:
            for name, sql in chosen:
                begin = time.monotonic()
                assert in_order(con.sql(sql).fetchall()) == answers[name]
                lasts[name] = time.monotonic() - begin
        for _ in range(KILLS):
            name, sql = dice.choice(chosen)
            with workers.connect(database) as con:
                victim = dice.choice(workers.workers)
                timer = threading.Timer(dice.uniform(0, lasts[name]), victim.kill)
                timer.start()
                failed += not answered(con, sql, answers[name], victim.address)
                timer.join()
                # It fails of the lost worker where the one before has not, and then goes without it.
                assert answered(con, sql, answers[name], victim.address) or answered(
                    con, sql, answers[name], victim.address
                )
            killed.append(victim.process.pid)
            workers.workers[workers.workers.index(victim)] = WorkerProcess()
    assert failed > 0, "no kill has met a query"
    assert not any(os.path.exists(f"/proc/{pid}") for pid in killed)


def test_a_worker_that_hangs(tpch: tuple[Path, dict[str, Rows]]) -> None:
    database, answers = tpch
    sql = dict(_warpmill.queries("tpch"))["1"]
    with Workers(2) as workers, workers.connect(database) as con:
        assert in_order(con.sql(sql).fetchall()) == answers["1"]
        workers.workers[1].pause()
        start = time.monotonic()
        with pytest.raises(warpmill.WorkerError, match=workers.addresses[1]):
            within(30, lambda: con.sql(sql))
        assert time.monotonic() - start < 2 * TIMEOUT + 2
        assert in_order(within(30, lambda: con.sql(sql).fetchall())) == answers["1"]
        workers.workers[1].resume()
        time.sleep(3.5)
        assert in_order(con.sql(sql).fetchall()) == answers["1"]
        assert workers.addresses[1] in con.explain(sql)


def test_no_worker_is_left(tpch: tuple[Path, dict[str, Rows]]) -> None:
    database, _ = tpch
    with Workers(1) as workers, workers.connect(database) as con:
        workers.workers[0].kill()
        for _ in range(2):
            with pytest.raises(warpmill.WorkerError, match=workers.addresses[0]):
                within(30, lambda: con.sql("SELECT count(*) FROM lineitem"))
        con.execute("SET warpmill.workers = ''")
        assert con.sql("SELECT count(*) > 0 FROM lineitem").fetchall() == [(True,)]


def test_tokens(tpch: tuple[Path, dict[str, Rows]], tmp_path: Path) -> None:
    database, answers = tpch
    token, other = tmp_path / "token", tmp_path / "other"
    token.write_text("a secret of all processes\n".replace(" ", "-"))
    other.write_text("another-secret-of-others")
    sql = dict(_warpmill.queries("tpch"))["3"]
    with Workers(2, "--token-file", str(token)) as workers:
        with workers.connect(database, workers_token_file=token) as con:
            assert is_distributed(con, sql)
            assert in_order(con.sql(sql).fetchall()) == answers["3"]
        with workers.connect(database) as con, pytest.raises(warpmill.WorkerError, match="no token"):
            con.sql(sql)
        with (
            workers.connect(database, workers_token_file=other) as con,
            pytest.raises(warpmill.WorkerError, match="another token"),
        ):
            con.sql(sql)
        with (
            workers.connect(database, workers_token_file=tmp_path / "missing") as con,
            pytest.raises(warpmill.SettingError, match="workers_token_file"),
        ):
            con.sql(sql)


def test_bad_addresses(tpch: tuple[Path, dict[str, Rows]]) -> None:
    database, _ = tpch
    for bad in ["nowhere", "a:b", "http://a:1", "127.0.0.1:0", "127.0.0.1:99999"]:
        with pytest.raises(warpmill.SettingError, match=r"warpmill\.workers"):
            warpmill.connect(database, workers=[bad])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        free = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            warpmill.connect(database, workers=[free], workers_timeout=1) as con,
            pytest.raises(warpmill.WorkerError, match=free),
        ):
            within(10, lambda: con.sql("SELECT count(*) FROM lineitem"))
    with (
        warpmill.connect(database, workers=["no.such.host.invalid:31338"], workers_timeout=2) as con,
        pytest.raises(warpmill.WorkerError, match=r"no\.such\.host"),
    ):
        within(20, lambda: con.sql("SELECT count(*) FROM lineitem"))


def test_something_else_at_the_address(tpch: tuple[Path, dict[str, Rows]]) -> None:
    database, _ = tpch
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with (
            warpmill.connect(database, workers=[address], workers_timeout=1) as con,
            pytest.raises(warpmill.WorkerError, match=address),
        ):
            within(20, lambda: con.sql("SELECT count(*) FROM lineitem"))


def refused(*options: str) -> str:
    """The message of a worker that does not start."""
    command = [sys.executable, "-m", "warpmill", "worker", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done
    return done.stderr


def test_public_addresses_need_a_token_and_tls(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    assert "--token-file" in refused("--listen", "0.0.0.0:0")
    assert "--plaintext" in refused("--listen", "0.0.0.0:0", "--token-file", str(token))
    token.write_text("short")
    assert "16" in refused("--listen", "127.0.0.1:0", "--token-file", str(token))
    assert "warpmill.device" in refused("--listen", "127.0.0.1:0", "--device", "abacus")
    token.write_text("0123456789abcdef")
    worker = WorkerProcess("--token-file", str(token), "--plaintext", listen="0.0.0.0:0")
    assert worker.stop() == 0


def certificate(folder: Path, name: str, *options: str) -> None:
    """Make a key and a certificate for this machine: an authority's, or one signed by it (`options`)."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-days", "2", "-subj", f"/CN={name}", *options]
    files = ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem")]
    subprocess.run([*command, *files], check=True, capture_output=True)


def test_tls(tpch: tuple[Path, dict[str, Rows]], tmp_path: Path) -> None:
    """Sessions and workers trust certificates by their issuer."""
    database, answers = tpch
    for authority in ("authority", "stranger"):
        certificate(tmp_path, authority)
    signed = ["-CA", str(tmp_path / "authority.pem"), "-CAkey", str(tmp_path / "authority.key")]
    certificate(
        tmp_path, "worker", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE", *signed
    )
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    files = ["--tls-cert", "worker.pem", "--tls-key", "worker.key", "--tls-ca", "authority.pem"]
    options = [option if option.startswith("--") else str(tmp_path / option) for option in files]
    sql = dict(_warpmill.queries("tpch"))["13"]
    with Workers(2, *options, "--token-file", str(token)) as workers:
        known = {"workers_token_file": token, "workers_ca_file": tmp_path / "authority.pem"}
        with workers.connect(database, **known) as con:
            # Rows are shuffled between the workers, too.
            assert "shuffled by" in con.explain(sql)
            assert in_order(con.sql(sql).fetchall()) == answers["13"]
        for wrong in ({"workers_ca_file": tmp_path / "stranger.pem"}, {"workers_ca_file": None}):
            settings = {name: value for name, value in (known | wrong).items() if value is not None}
            with workers.connect(database, **settings) as con, pytest.raises(warpmill.WorkerError) as failure:
                con.sql(sql)
            assert any(address in str(failure.value) for address in workers.addresses)


def test_cancelling_reaches_workers(tpch: tuple[Path, dict[str, Rows]], two: Workers) -> None:
    """A cancelled query stops using the workers."""
    database, _ = tpch

    def ticks() -> int:
        spent = 0
        for worker in two.workers:
            with open(f"/proc/{worker.process.pid}/stat", encoding="ascii") as stat:
                fields = stat.read().rsplit(") ", 1)[1].split()
            spent += int(fields[11]) + int(fields[12])
        return spent

    sql = """SELECT count(*) FROM lineitem a JOIN lineitem b ON a.l_linenumber = b.l_linenumber
             JOIN lineitem c ON a.l_tax > c.l_tax"""
    with two.connect(database) as con:
        assert is_distributed(con, sql)
        timer = threading.Timer(1.0, con.interrupt)
        timer.start()
        with pytest.raises(warpmill.InterruptError):
            within(30, lambda: con.sql(sql))
        time.sleep(1.5)
        before = ticks()
        time.sleep(1.0)
        assert ticks() - before < 30, "workers still compute"
        assert con.sql("SELECT count(*) > 0 FROM lineitem").fetchall() == [(True,)]
