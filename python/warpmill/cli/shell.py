"""``warpmill shell``: SQL line by line."""

from __future__ import annotations

import fnmatch
import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import warpmill
from warpmill.cli import options
from warpmill.cli.output import Mode, Output
from warpmill.cli.query import run
from warpmill.cli.statements import complete, entries, is_command, split

if TYPE_CHECKING:
    from collections.abc import Iterator

    from warpmill.cli.completion import Names

EXAMPLES = "Examples:\n\nwarpmill shell\n\nwarpmill shell --database ssb/ --threads 4"

HELP = """\
SQL statements end with ';' and may take several lines.
.tables [PATTERN]  list the tables (also \\dt)
.schema [TABLE]    columns and types of one table, or of all (also \\d TABLE)
.mode [FORMAT]     how rows are written: table, line, csv, json, markdown, arrow, parquet
.output [FILE]     write rows to a file, until .output without one: then it is complete
.read FILE         run the statements and commands of a file
.timer [on|off]    print how long each statement took
.help              this text (also \\?)
.quit              leave (also \\q, Ctrl-D)"""

#: Commands of psql, with their equivalents.
_OTHER_NAMES = {"\\d": ".schema", "\\dt": ".tables", "\\q": ".quit", "\\?": ".help", "\\i": ".read", "\\o": ".output"}

#: Files that read each other.
_MOST_DEPTH = 16


class Shell:
    """The effects of a line."""

    def __init__(self, con: warpmill.Connection, names: Names | None = None) -> None:
        self.con = con
        self.output = Output()
        self.timer = False
        #: Whether a statement or a command has failed.
        self.failed = False
        self._names = names
        self._depth = 0

    def entry(self, text: str) -> bool:
        """Run a command or statements; False ends the shell, an error does not."""
        if is_command(text):
            return self.command(text.strip())
        self.statements(text)
        return True

    def command(self, line: str) -> bool:
        """Run a line that starts with a dot; False ends the shell, an error does not."""
        try:
            return self._command(line)
        except KeyboardInterrupt:
            typer.echo("cancelled", err=True)
        except (warpmill.Error, OSError, ValueError, typer.BadParameter) as error:
            self._failed(str(error))
        return True

    def _failed(self, text: str) -> None:
        self.failed = True
        typer.echo(f"error: {text}", err=True)

    def _command(self, line: str) -> bool:
        # A backslash of a name escapes nothing.
        name, _, rest = line.rstrip(";").partition(" ")
        arguments = shlex.split(rest)
        name = ".tables" if name == "\\d" and not arguments else _OTHER_NAMES.get(name, name)
        match name, arguments:
            case ((".quit" | ".exit"), []):
                return False
            case ".help", []:
                typer.echo(HELP)
            case ".tables", ([] | [_]):
                self._tables(arguments[0] if arguments else "*")
            case ".schema", []:
                for table in self.con.tables():
                    self._schema(table.qualified)
            case ".schema", [table]:
                self._schema(table)
            case ".mode", []:
                typer.echo(self.output.mode.value)
            case ".mode", [mode] if mode in Mode.__members__:
                self._output(Mode(mode), self.output.path)
            case ".mode", [mode]:
                raise ValueError(f"there is no mode {mode!r}: {', '.join(Mode)}")
            case ".output", ([] | ["stdout"]):
                self._output(self.output.mode, None)
            case ".output", [path]:
                self._output(self.output.mode, path)
            case ".read", [path]:
                return self.read(path)
            case ".timer", [("on" | "off") as state]:
                self.timer = state == "on"
            case ".timer", []:
                self.timer = not self.timer
                typer.echo(f"timer is {'on' if self.timer else 'off'}")
            case _:
                raise ValueError(f"{line!r} is no command: .help lists them")
        return True

    def _output(self, mode: Mode, path: str | None) -> None:
        """Write to `path` from now on; the file before it is complete."""
        if path == self.output.path and path is not None and not (mode.is_binary or self.output.mode.is_binary):
            self.output.mode = mode
            return
        following = Output(mode, path)
        self.output.close()
        self.output = following

    def read(self, path: str) -> bool:
        """Run a file; False ends the shell."""
        if self._depth == _MOST_DEPTH:
            raise ValueError(f"{path}: files read each other more than {_MOST_DEPTH} deep")
        text = Path(path).expanduser().read_text(encoding="utf-8")
        self._depth += 1
        try:
            return all(self.entry(entry) for entry in entries(text.splitlines(keepends=True)))
        finally:
            self._depth -= 1

    def _tables(self, pattern: str) -> None:
        for table in self.con.tables():
            if fnmatch.fnmatchcase(table.qualified.lower(), pattern.lower().replace("%", "*")):
                rows = "" if table.rows is None else f"  {table.rows:,} rows"
                typer.echo(f"{table.qualified}  [{table.kind}]{rows}")

    def _schema(self, table: str) -> None:
        try:
            relation = self.con.table(table)
        except warpmill.Error as error:
            self._failed(str(error))
            return
        typer.echo(f"{table} (")
        typer.echo(",\n".join(f"    {n} {t}" for n, t in zip(relation.columns, relation.types, strict=True)))
        typer.echo(")")

    def statements(self, text: str) -> bool:
        """Run statements; an error ends the text, not the shell. False if one failed."""
        for statement in split(text):
            start = time.perf_counter()
            try:
                self.output.write(run(self.con, statement)._result)
            except KeyboardInterrupt:
                typer.echo("cancelled", err=True)
                self.failed = True
                return False
            except (warpmill.Error, ValueError, typer.BadParameter) as error:
                self._failed(str(error))
                return False
            finally:
                if self._names is not None:
                    self._names.forget()
            if self.timer:
                typer.echo(f"{(time.perf_counter() - start) * 1000:.1f} ms")
        return True


def _history() -> Path:
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    (base / "warpmill").mkdir(parents=True, exist_ok=True)
    return base / "warpmill" / "history"


def _prompted(names: Names) -> Iterator[str]:
    """Entries of a terminal: a whole statement or one command each."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import get_app
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    from warpmill.cli.completion import SqlCompleter

    def unfinished() -> bool:
        text = get_app().current_buffer.text
        return bool(text.strip()) and not is_command(text) and not complete(text)

    session: PromptSession[str] = PromptSession(
        "warpmill> ",
        history=FileHistory(str(_history())),
        lexer=PygmentsLexer(SqlLexer),
        completer=SqlCompleter(names),
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


def shell(
    database: options.Database = None,
    table: options.Tables = None,
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    set_: options.Settings = None,
) -> None:
    """Type SQL and see rows; files in the working directory are tables under their quoted paths."""
    with options.connect(database, table, threads, memory_limit, set_) as con:
        interactive = sys.stdin.isatty()
        if interactive:
            from warpmill.cli.completion import Names

            typer.echo(f"Warpmill {warpmill.__version__}. Statements end with ';'. Type .help for commands.")
            names = Names(con)
            state, lines = Shell(con, names), _prompted(names)
        else:
            state, lines = Shell(con), entries(sys.stdin)
        for entry in lines:
            if not state.entry(entry):
                break
        state.output.close()
    if state.failed and not interactive:
        raise typer.Exit(1)
