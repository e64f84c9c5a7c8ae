"""``warpmill shell``: SQL line by line."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import warpmill
from warpmill.cli import options
from warpmill.cli.query import Format, emit, run
from warpmill.cli.statements import complete, split

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = "Examples:\n\nwarpmill shell\n\nwarpmill shell --database ssb/ --threads 4"

HELP = """\
SQL statements end with ';' and may take several lines.
.tables            list the tables
.schema [TABLE]    columns and types of one table, or of all
.mode [FORMAT]     how rows are written: table, csv, json
.timer [on|off]    print how long each statement took
.help              this text
.quit              leave (also Ctrl-D)"""

_KEYWORDS = (
    "select from where group by having order limit offset join left right full outer inner cross "
    "on using union all distinct as and or not in exists between like is null case "
    "when then else end cast create table replace drop insert into values with explain analyze set "
    "show describe count sum avg min max date interval extract "
)


class Shell:
    """The effects of a line."""

    def __init__(self, con: warpmill.Connection) -> None:
        self.con = con
        self.mode = Format.table
        self.timer = False

    def command(self, line: str) -> bool:
        """Run a line that starts with a dot; False ends the shell, an error does not."""
        try:
            return self._command(line)
        except KeyboardInterrupt:
            typer.echo("cancelled", err=True)
        except warpmill.Error as error:
            typer.echo(f"error: {error}", err=True)
        return True

    def _command(self, line: str) -> bool:
        name, *arguments = line.rstrip(";").split()
        match name, arguments:
            case ((".quit" | ".exit"), []):
                return False
            case ".help", []:
                typer.echo(HELP)
            case ".tables", []:
                for table in self.con.tables():
                    rows = "" if table.rows is None else f"  {table.rows:,} rows"
                    typer.echo(f"{table.qualified}  [{table.kind}]{rows}")
            case ".schema", []:
                for table in self.con.tables():
                    self._schema(table.qualified)
            case ".schema", [table]:
                self._schema(table)
            case ".mode", []:
                typer.echo(self.mode.value)
            case ".mode", [("table" | "csv" | "json") as mode]:
                self.mode = Format(mode)
            case ".timer", [("on" | "off") as state]:
                self.timer = state == "on"
            case ".timer", []:
                self.timer = not self.timer
                typer.echo(f"timer is {'on' if self.timer else 'off'}")
            case _:
                typer.echo(f"error: {line!r} is no command: .help lists them", err=True)
        return True

    def _schema(self, table: str) -> None:
        try:
            relation = self.con.table(table)
        except warpmill.Error as error:
            typer.echo(f"error: {error}", err=True)
            return
        typer.echo(f"{table} (")
        typer.echo(",\n".join(f"    {n} {t}" for n, t in zip(relation.columns, relation.types, strict=True)))
        typer.echo(")")

    def statements(self, text: str) -> bool:
        """Run statements; an error ends the text, not the shell. False if one failed."""
        for statement in split(text):
            start = time.perf_counter()
            try:
                emit(run(self.con, statement), self.mode, None)
            except KeyboardInterrupt:
                typer.echo("cancelled", err=True)
                return False
            except warpmill.Error as error:
                typer.echo(f"error: {error}", err=True)
                return False
            if self.timer:
                typer.echo(f"{(time.perf_counter() - start) * 1000:.1f} ms")
        return True


def _history() -> Path:
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    (base / "warpmill").mkdir(parents=True, exist_ok=True)
    return base / "warpmill" / "history"


def _prompted(con: warpmill.Connection) -> Iterator[str]:
    """Entries of a terminal: a whole statement or one dot command each."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import get_app
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    def unfinished() -> bool:
        text = get_app().current_buffer.text
        return bool(text.strip()) and not text.lstrip().startswith(".") and not complete(text)

    words = [*_KEYWORDS.split(), *(table.qualified for table in con.tables())]
    session: PromptSession[str] = PromptSession(
        "warpmill> ",
        history=FileHistory(str(_history())),
        lexer=PygmentsLexer(SqlLexer),
        completer=WordCompleter(words, ignore_case=True),
        complete_while_typing=False,
        multiline=Condition(unfinished),
        prompt_continuation=lambda width, _line, _wrap: "·" * (width - 1) + " ",
    )
    while True:
        try:
            yield session.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def _piped() -> Iterator[str]:
    """Entries of standard input that is no terminal."""
    text = ""
    for line in sys.stdin:
        if not text.strip() and line.lstrip().startswith("."):
            yield line.strip()
            continue
        text += line
        if complete(text):
            yield text
            text = ""
    if text.strip():
        yield text


def shell(
    database: options.Database = None,
    table: options.Tables = None,
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    set_: options.Settings = None,
) -> None:
    """Type SQL and see rows; files in the working directory are tables under their quoted paths."""
    with options.connect(database, table, threads, memory_limit, set_) as con:
        state, failed = Shell(con), False
        interactive = sys.stdin.isatty()
        if interactive:
            typer.echo(f"Warpmill {warpmill.__version__}. Statements end with ';'. Type .help for commands.")
        for entry in _prompted(con) if interactive else _piped():
            if entry.strip().startswith("."):
                if not state.command(entry.strip()):
                    break
            elif not state.statements(entry):
                failed = True
    if failed and not interactive:
        raise typer.Exit(1)
