"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import warpmill

Database = Annotated[
    str | None, typer.Option("--database", "-d", metavar="DIR", help="Directory of Warpmill tables to work in.")
]
Tables = Annotated[
    list[str] | None,
    typer.Option(
        "--table", "-t", metavar="NAME=PATH", help="Give a Parquet or CSV file (or glob) a table name. Repeatable."
    ),
]
Threads = Annotated[int | None, typer.Option("--threads", metavar="N", min=1, help="Worker threads (default: all).")]
MemoryLimit = Annotated[
    str | None, typer.Option("--memory-limit", metavar="SIZE", help="Most memory a query may take, such as 4GB.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting, as SQL's SET. Repeatable.")
]


def pair(text: str, option: str) -> tuple[str, str]:
    """Split NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise typer.BadParameter(f"{option} wants NAME=VALUE, not {text!r}")
    return name, value


def connect(
    database: str | None,
    tables: list[str] | None,
    threads: int | None,
    memory_limit: str | None,
    settings: list[str] | None,
) -> warpmill.Connection:
    """A connection as the shared options describe it."""
    named: dict[str, Any] = dict(pair(text, "--set") for text in settings or [])
    con = warpmill.connect(database, threads=threads, memory_limit=memory_limit, **named)
    for text in tables or []:
        name, path = pair(text, "--table")
        con.register_file(name, path)
    return con
