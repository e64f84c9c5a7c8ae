"""Output formats of results, and output files."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from warpmill.display import full_width, lines, markdown, render

if TYPE_CHECKING:
    from warpmill._warpmill import QueryResult

#: Rows of a table on a terminal, and in a file.
_TERMINAL_ROWS = 200
_FILE_ROWS = 10_000


class Mode(StrEnum):
    """The output format of rows."""

    table = "table"
    line = "line"
    csv = "csv"
    json = "json"
    markdown = "markdown"
    arrow = "arrow"
    parquet = "parquet"

    @property
    def is_binary(self) -> bool:
        """Whether it is of bytes that no terminal shows, and a file holds one result."""
        return self in (Mode.arrow, Mode.parquet)


class Output:
    """The output of results: stdout, or a file.

    A file appears (or is replaced) when its results are complete: `close` writes it.
    """

    def __init__(self, mode: Mode = Mode.table, path: str | None = None) -> None:
        self.mode = mode
        self.path = path
        # Results of a file that were written so far.
        self._texts: list[str] = []
        self._result: QueryResult | None = None
        if path is not None and not (folder := Path(path).absolute().parent).is_dir():
            raise ValueError(f"there is no folder {folder} for {path}")

    def write(self, result: QueryResult) -> None:
        """Write the rows of a statement; nothing for one without columns."""
        if not result.columns:
            return
        if self.path is None:
            self._show(result)
        elif self.mode.is_binary:
            if self._result is not None:
                raise ValueError(f"a file of {self.mode} holds one result, and {self.path} has one")
            self._result = result
        else:
            self._texts.append(self._text(result, _FILE_ROWS))

    def close(self) -> None:
        """Write the file, if results go to one."""
        if self.path is None:
            return
        if self._result is not None:
            self._result.write(self.mode.value, self.path)
            self._result = None
        elif self._texts or not self.mode.is_binary:
            _replace(Path(self.path), "".join(self._texts))
            self._texts = []

    def _show(self, result: QueryResult) -> None:
        if self.mode.is_binary:
            if sys.stdout.isatty():
                raise typer.BadParameter(f"{self.mode} is binary: add --output FILE, or pipe it")
            sys.stdout.flush()
            sys.stdout.buffer.write(result.write(self.mode.value) or b"")
            sys.stdout.buffer.flush()
        else:
            # Bytes, since the encoding of a terminal may lack characters of values.
            sys.stdout.flush()
            sys.stdout.buffer.write(self._text(result, _TERMINAL_ROWS).encode(errors="replace"))
            sys.stdout.buffer.flush()

    def _text(self, result: QueryResult, max_rows: int) -> str:
        match self.mode:
            case Mode.table:
                width = full_width() if self.path is None else 1 << 20
                return render(result, max_rows, width) + "\n"
            case Mode.line:
                return lines(result, max_rows) + "\n"
            case Mode.markdown:
                return markdown(result) + "\n"
            case _:
                return (result.write(self.mode.value) or b"").decode()


def _replace(path: Path, text: str) -> None:
    """Write to a temporary file beside `path`, then rename it; pipes and devices are written directly."""
    target = path.resolve() if path.exists() else path
    if target.exists() and not target.is_file():
        with open(target, "a", encoding="utf-8") as stream:
            stream.write(text)
        return
    partial = target.with_name(target.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
