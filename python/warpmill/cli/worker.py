"""``warpmill worker``: a process that runs parts of other processes' queries."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from warpmill import _warpmill
from warpmill.cli import options
from warpmill.connection import _bytes

EXAMPLES = (
    "Examples:\n\n"
    "warpmill worker --listen 127.0.0.1:31338\n\n"
    "warpmill worker --listen 0.0.0.0:31338 --token-file token --tls-cert cert.pem --tls-key key.pem --tls-ca ca.pem"
)


def worker(
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where sessions connect; others than loopback need a token.")
    ] = "127.0.0.1:31338",
    token_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="The token that all processes share: 16 characters or more.")
    ] = None,
    tls_cert: Annotated[str | None, typer.Option(metavar="FILE", help="Certificate chain, PEM.")] = None,
    tls_key: Annotated[str | None, typer.Option(metavar="FILE", help="Its private key, PEM.")] = None,
    tls_ca: Annotated[
        str | None, typer.Option(metavar="FILE", help="Authority that signed the other workers' certificates, PEM.")
    ] = None,
    plaintext: Annotated[
        bool, typer.Option("--plaintext", help="Let other machines connect without TLS, on a trusted network.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time without an answer after which a worker counts as lost.")
    ] = 10.0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of a query (all cores).")] = None,
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory that a query may take, such as 4GB.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, gpu, gpu:0,1 or sim:2.")] = None,
    set_: options.Settings = None,
) -> None:
    """Run parts of the queries of sessions that name this process in warpmill.workers, until Ctrl-C or SIGTERM."""
    named = {"threads": threads, "memory_limit": _bytes(memory_limit), "device": device}
    settings = [(name, str(value)) for name, value in named.items() if value is not None]
    config: dict[str, Any] = {
        "listen": listen,
        "token_file": token_file,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "tls_ca": tls_ca,
        "plaintext": plaintext,
        "timeout": timeout,
        "settings": settings + [options.pair(text, "--set") for text in set_ or []],
    }
    _warpmill.worker(json.dumps(config))
