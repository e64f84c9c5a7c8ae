"""``warpmill sql``: statements in, rows out."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import warpmill
from warpmill.cli import options
from warpmill.cli.output import Mode, Output
from warpmill.cli.statements import split

if TYPE_CHECKING:
    from warpmill.relation import Relation

EXAMPLES = (
    "Examples:\n\n"
    "warpmill sql \"SELECT count(*) FROM 'logs/*.parquet'\"\n\n"
    'warpmill sql "SELECT city, sum(price) FROM sales GROUP BY city" --table sales=sales.csv\n\n'
    'warpmill sql -c "SELECT * FROM lineorder LIMIT 5" --database ssb/ --format json\n\n'
    "warpmill sql -f report.sql --format markdown --output report.md\n\n"
    "warpmill sql \"SELECT * FROM 'a.csv'\" --format parquet --output a.parquet"
)

#: Statements whose result is only the number of affected rows.
_WRITES = re.compile(r"(insert|update|delete|merge|copy|create|truncate)\b", re.IGNORECASE)


def sql(
    statements: Annotated[
        str | None, typer.Argument(metavar="[SQL]", help="Statements, separated by ';'; '-' reads stdin.")
    ] = None,
    command: Annotated[
        list[str] | None, typer.Option("--command", "-c", metavar="SQL", help="Statements. Repeatable.")
    ] = None,
    file: Annotated[
        list[str] | None, typer.Option("--file", "-f", metavar="FILE", help="A file of statements. Repeatable.")
    ] = None,
    table: options.Tables = None,
    database: options.Database = None,
    format: Annotated[Mode, typer.Option("--format", "-F", help="How rows are written.")] = Mode.table,  # noqa: A002 - the option's name
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write here, not to stdout.")
    ] = None,
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    set_: options.Settings = None,
) -> None:
    """Run SQL and print the rows of every statement: files first, then -c, then SQL."""
    texts = [_read(path) for path in file or []] + [*(command or [])]
    if statements is not None:
        texts.append(sys.stdin.read() if statements == "-" else statements)
    elif not texts:
        raise typer.BadParameter("give SQL, -c SQL, -f FILE, or - for stdin")
    parts = [statement for text in texts for statement in split(text)]
    if not parts:
        raise typer.BadParameter("there is no statement to run")
    with options.connect(database, table, threads, memory_limit, set_) as con:
        out = Output(format, output)
        for number, statement in enumerate(parts):
            result = run(con, statement)._result
            # The number of rows that a statement wrote is no row: it is shown where nothing else is.
            if number + 1 == len(parts) or not _WRITES.match(statement):
                out.write(result)
        out.close()


def _read(path: str) -> str:
    if not Path(path).is_file():
        hint = f": --format {path} says how rows are written" if path in Mode.__members__ else ""
        raise typer.BadParameter(f"no such file: {path}{hint}")
    return Path(path).read_text(encoding="utf-8")


def run(con: warpmill.Connection, statement: str) -> Relation:
    """Run a statement; notices about ignored parts go to stderr."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", warpmill.Notice)
        relation = con.sql(statement)
    for notice in relation.notices:
        typer.echo(f"notice: {notice}", err=True)
    return relation
