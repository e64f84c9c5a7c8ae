"""``warpmill ballista-scheduler`` and ``ballista-executor``: the program ``warpmill-ballista``, configured."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from warpmill.cli import options
from warpmill.cli.serve import LogFormat
from warpmill.connection import _bytes

SCHEDULER_EXAMPLES = (
    "Examples:\n\n"
    "warpmill ballista-scheduler --database shop/\n\n"
    "warpmill ballista-scheduler --database shop/ --listen 10.0.0.1:50050 --plaintext --host 10.0.0.1 --users users "
    "--tls-cert cert.pem --tls-key key.pem"
)
EXECUTOR_EXAMPLES = (
    "Examples:\n\n"
    "warpmill ballista-executor --scheduler 127.0.0.1:50050\n\n"
    "warpmill ballista-executor --scheduler 10.0.0.1:50050 --host 10.0.0.2 --plaintext --memory-limit 64GB"
)

Plaintext = Annotated[
    bool, typer.Option("--plaintext", help="Let other machines connect, on a network of trusted machines.")
]


def program() -> str:
    """The program `warpmill-ballista`: beside the interpreter, or in PATH."""
    beside = Path(sys.executable).with_name("warpmill-ballista")
    found = str(beside) if beside.exists() else shutil.which("warpmill-ballista")
    if found is None:
        raise FileNotFoundError(
            "the program warpmill-ballista is not beside the interpreter nor in PATH: it is no part of the wheel; "
            "`make ballista` in a clone of the repository builds it (docs/distributed.md)"
        )
    return found


def _become(role: str, config: dict[str, Any]) -> NoReturn:
    """Replace this process by `warpmill-ballista`."""
    path = program()
    sys.stdout.flush()
    os.execv(path, [path, role, json.dumps(config)])


def scheduler(
    database: options.Database = None,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where executors connect.")] = "127.0.0.1:50050",
    plaintext: Plaintext = False,
    timeout: Annotated[
        int, typer.Option(min=3, metavar="SECONDS", help="Time without a sign of life after which an executor is lost.")
    ] = 15,
    host: Annotated[str, typer.Option(help="Address of the Flight SQL server; others than loopback need TLS.")] = (
        "127.0.0.1"
    ),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the Flight SQL server; 0: any free one.")
    ] = 31337,
    tls_cert: Annotated[str | None, typer.Option(metavar="FILE", help="Certificate chain, PEM.")] = None,
    tls_key: Annotated[str | None, typer.Option(metavar="FILE", help="Its private key, PEM.")] = None,
    users: Annotated[str | None, typer.Option(metavar="FILE", help="Lines of name:hash (warpmill serve).")] = None,
    token_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Environment variable that holds a bearer token.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve /metrics and /health on this port.")
    ] = None,
    memory: Annotated[str | None, typer.Option(metavar="SIZE", help="Memory of all statements (75% of RAM).")] = None,
    query_timeout: Annotated[
        int | None, typer.Option(min=1, metavar="SECONDS", help="Longest run of a statement.")
    ] = None,
    log_format: Annotated[LogFormat, typer.Option(help="Log lines for people, or JSON.")] = LogFormat.text,
    log_level: Annotated[str, typer.Option(help="error, warn, info, debug, trace.")] = "warn",
    set_: options.Settings = None,
) -> None:
    """Schedule the queries of Flight SQL clients on Ballista's executors, until Ctrl-C or SIGTERM."""
    if database is None:
        raise typer.BadParameter("--database DIR names the tables to serve")
    limits = {"memory": _bytes(memory), "query_seconds": query_timeout}
    flight: dict[str, Any] = {
        "database": database,
        "host": host,
        "port": port,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "users": users,
        "token_env": token_env,
        "metrics_port": metrics_port,
        "settings": [options.pair(text, "--set") for text in set_ or []],
        "log_format": log_format.value,
        "log_level": log_level,
        "limits": {name: value for name, value in limits.items() if value is not None},
    }
    _become("scheduler", {"listen": listen, "plaintext": plaintext, "timeout": timeout, "flight": flight})


def executor(
    scheduler: Annotated[str, typer.Option(metavar="HOST:PORT", help="The scheduler.")] = "127.0.0.1:50050",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST", help="The name of this machine for the others (--host).")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port from which rows are fetched; 0: any free one.")] = 0,
    grpc_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the scheduler's calls; 0: any free one.")
    ] = 0,
    plaintext: Plaintext = False,
    slots: Annotated[int, typer.Option(min=1, help="Tasks at once; each of them uses all --threads.")] = 1,
    work_dir: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder for rows between stages (a temporary one).")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of a task (all cores).")] = None,
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory that a task may take, such as 4GB.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, gpu, gpu:0,1 or sim:2.")] = None,
    log_level: Annotated[str, typer.Option(help="error, warn, info, debug, trace.")] = "warn",
    set_: options.Settings = None,
) -> None:
    """Run tasks of the queries of a Ballista scheduler, until Ctrl-C or SIGTERM."""
    named = {"threads": threads, "memory_limit": _bytes(memory_limit), "device": device}
    settings = [(name, str(value)) for name, value in named.items() if value is not None]
    config = {
        "scheduler": scheduler,
        "host": host,
        "advertise": advertise,
        "port": port,
        "grpc_port": grpc_port,
        "plaintext": plaintext,
        "slots": slots,
        "work_dir": work_dir,
        "settings": settings + [options.pair(text, "--set") for text in set_ or []],
        "log_level": log_level,
    }
    _become("executor", config)
