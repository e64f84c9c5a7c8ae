"""``warpmill sql``: statements in, rows out."""

from __future__ import annotations

import sys
import warnings
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

import warpmill
from warpmill.cli import options
from warpmill.cli.statements import split
from warpmill.display import render

if TYPE_CHECKING:
    from warpmill.relation import Relation

EXAMPLES = (
    "Examples:\n\n"
    "warpmill sql \"SELECT count(*) FROM 'logs/*.parquet'\"\n\n"
    'warpmill sql "SELECT city, sum(price) FROM sales GROUP BY city" --table sales=sales.csv\n\n'
    'warpmill sql "SELECT * FROM lineorder LIMIT 5" --database ssb/ --format json\n\n'
    "warpmill sql \"SELECT * FROM 'a.csv'\" --format parquet --output a.parquet"
)


class Format(StrEnum):
    """The way rows are written."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


def sql(
    statements: Annotated[str, typer.Argument(metavar="SQL", help="Statements, separated by ';'; '-' reads stdin.")],
    table: options.Tables = None,
    database: options.Database = None,
    format: Annotated[Format, typer.Option("--format", "-f", help="How rows are written.")] = Format.table,  # noqa: A002
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write here, not to stdout.")
    ] = None,
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    set_: options.Settings = None,
) -> None:
    """Run SQL and print its rows."""
    text = sys.stdin.read() if statements == "-" else statements
    with options.connect(database, table, threads, memory_limit, set_) as con:
        parts = split(text)
        if not parts:
            raise typer.BadParameter("there is no statement to run")
        for statement in parts[:-1]:
            run(con, statement)
        emit(run(con, parts[-1]), format, output)


def run(con: warpmill.Connection, statement: str) -> Relation:
    """Run a statement; what it did not do as it was said goes to stderr."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", warpmill.Notice)
        relation = con.sql(statement)
    for notice in relation.notices:
        typer.echo(f"notice: {notice}", err=True)
    return relation


def emit(relation: Relation, format: Format, output: str | None) -> None:  # noqa: A002
    """Write rows to stdout or to a file."""
    result = relation._result
    if not result.columns:
        return
    if format is Format.table:
        text = render(result, 10_000 if output else 200)
        if output is None:
            typer.echo(text)
        else:
            with open(output, "w", encoding="utf-8") as file:
                file.write(text + "\n")
    elif output is not None:
        result.write(format.value, output)
    else:
        if format is Format.parquet and sys.stdout.isatty():
            raise typer.BadParameter("Parquet is binary: add --output FILE, or pipe it")
        written = result.write(format.value)
        assert written is not None
        sys.stdout.buffer.write(written)
        sys.stdout.buffer.flush()
