"""``warpmill serve``: the Arrow Flight SQL server."""

from __future__ import annotations

import getpass
import json
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from warpmill import _warpmill
from warpmill.cli import options
from warpmill.connection import _bytes

EXAMPLES = (
    "Examples:\n\n"
    "warpmill serve --database shop/\n\n"
    'echo "ada:$(warpmill serve --hash-password)" >> users\n\n'
    "warpmill serve --database shop/ --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --users users"
)


class LogFormat(StrEnum):
    """The way log lines look."""

    text = "text"
    json = "json"


def serve(
    database: options.Database = None,
    host: Annotated[str, typer.Option(help="Address to listen on; others than loopback need TLS and users.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the service; 0: any free one.")] = 31337,
    tls_cert: Annotated[str | None, typer.Option(metavar="FILE", help="Certificate chain, PEM.")] = None,
    tls_key: Annotated[str | None, typer.Option(metavar="FILE", help="Its private key, PEM.")] = None,
    users: Annotated[str | None, typer.Option(metavar="FILE", help="Lines of name:hash (see --hash-password).")] = None,
    token_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Environment variable that holds a bearer token.")
    ] = None,
    token_ttl: Annotated[
        int, typer.Option(min=1, metavar="SECONDS", help="Time for which the token of a login is valid.")
    ] = 86400,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve /metrics and /health on this port.")
    ] = None,
    metrics_host: Annotated[str, typer.Option(help="Address of /metrics and /health.")] = "127.0.0.1",
    allow_files: Annotated[bool, typer.Option("--allow-files", help="Let SQL read and write this machine's files.")] = (
        False
    ),
    memory: Annotated[str | None, typer.Option(metavar="SIZE", help="Memory of all statements (75% of RAM).")] = None,
    query_memory: Annotated[str | None, typer.Option(metavar="SIZE", help="Memory of a statement (1/8 of that).")] = (
        None
    ),
    queries: Annotated[int | None, typer.Option(min=1, help="Statements that run at once.")] = None,
    session_queries: Annotated[int | None, typer.Option(min=1, help="Statements of one session at once.")] = None,
    queue: Annotated[int | None, typer.Option(min=0, help="Statements that may wait for their turn.")] = None,
    queue_timeout: Annotated[
        int | None, typer.Option(min=0, metavar="SECONDS", help="Longest wait for a turn.")
    ] = None,
    query_timeout: Annotated[
        int | None, typer.Option(min=1, metavar="SECONDS", help="Longest run of a statement.")
    ] = None,
    max_result: Annotated[str | None, typer.Option(metavar="SIZE", help="Largest result (any).")] = None,
    max_message: Annotated[str | None, typer.Option(metavar="SIZE", help="Largest message (16MB).")] = None,
    max_connections: Annotated[int | None, typer.Option(min=1, help="Connections at once.")] = None,
    max_sessions: Annotated[int | None, typer.Option(min=1, help="Sessions at once.")] = None,
    max_user_sessions: Annotated[
        int | None, typer.Option(min=1, help="Sessions of one user, and from one address (512).")
    ] = None,
    session_idle: Annotated[
        int | None, typer.Option(min=1, metavar="SECONDS", help="Idle time after which a session ends.")
    ] = None,
    shutdown_grace: Annotated[
        int, typer.Option(min=0, metavar="SECONDS", help="Time for running statements to end at shutdown.")
    ] = 30,
    log_format: Annotated[LogFormat, typer.Option(help="Log lines for people, or JSON.")] = LogFormat.text,
    log_level: Annotated[str, typer.Option(help="error, warn, info, debug, trace.")] = "info",
    set_: options.Settings = None,
    hash_password: Annotated[
        bool, typer.Option("--hash-password", help="Ask for a password, print its hash, and end.")
    ] = False,
) -> None:
    """Serve the tables of a database directory over Arrow Flight SQL, until Ctrl-C or SIGTERM."""
    if hash_password:
        typer.echo(_warpmill.hash_password(_password()))
        return
    if database is None:
        raise typer.BadParameter("--database DIR names the tables to serve")
    all_memory = _bytes(memory)
    limits = {
        "memory": all_memory,
        "query_memory": _bytes(query_memory) or (all_memory and max(all_memory // 8, 1)),
        "queries": queries,
        "session_queries": session_queries,
        "queue": queue,
        "queue_seconds": queue_timeout,
        "query_seconds": query_timeout,
        "result_bytes": _bytes(max_result),
        "message_bytes": _bytes(max_message),
        "connections": max_connections,
        "sessions": max_sessions,
        "user_sessions": max_user_sessions,
        "session_idle_seconds": session_idle,
    }
    config: dict[str, Any] = {
        "database": database,
        "host": host,
        "port": port,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "users": users,
        "token_env": token_env,
        "token_ttl": token_ttl,
        "metrics_host": metrics_host,
        "metrics_port": metrics_port,
        "allow_files": allow_files,
        "settings": [options.pair(text, "--set") for text in set_ or []],
        "log_format": log_format.value,
        "log_level": log_level,
        "shutdown_grace": shutdown_grace,
        "limits": {name: value for name, value in limits.items() if value is not None},
    }
    _warpmill.serve(json.dumps(config))


def _password() -> str:
    """A password from the terminal, typed twice, or the first line of piped input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != password:
        raise ValueError("the two passwords differ")
    return password
