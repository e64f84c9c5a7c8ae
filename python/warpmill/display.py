"""Query results as text tables."""

from __future__ import annotations

import io
import os
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from warpmill._warpmill import QueryResult

_NUMERIC = ("Int", "UInt", "Float", "Decimal")

#: The least width of truncated text columns: less is unreadable.
_LEAST_WIDTH = 12
#: Characters that a column takes besides its cells.
_FRAME = 3
#: Width of text that goes to no terminal.
_WIDTH = 120


def cell(value: Any) -> str:
    """One value as SQL people write it, in one line."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    return str(value).replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t")


def is_numeric(kind: str) -> bool:
    """Whether a column type is one of numbers, which are aligned to the right."""
    return kind.startswith(_NUMERIC)


def count_of(count: int, what: str) -> str:
    """A number of things: "1 row", "2,000 rows"."""
    return f"{count:,} {what if count == 1 else what + 's'}"


@dataclass
class Excerpt:
    """The first and last rows of a result, as text; None marks skipped rows and columns."""

    columns: list[int | None]
    rows: list[tuple[Any, ...] | None]
    shown_rows: int


def excerpt(result: QueryResult, max_rows: int) -> Excerpt:
    """The first `max_rows` rows, or half as many and the last ones where there are more."""
    count = result.num_rows
    head = count if count <= max_rows else (max_rows + 1) // 2
    rows: list[tuple[Any, ...] | None] = [*result.rows(0, head)]
    if head < count:
        rows.append(None)
        rows += result.rows(count - (max_rows - head), max_rows - head)
    return Excerpt([*range(len(result.columns))], rows, min(count, max_rows))


def _widths(result: QueryResult, rows: list[tuple[Any, ...] | None], width: int) -> list[int | None]:
    """Widths of the columns, truncated where they do not all fit; None: the column is left out."""
    heads = zip(result.columns, result.types, strict=True)
    natural = [max(cell_len(cell(name)), cell_len(kind)) for name, kind in heads]
    for row in rows:
        if row is not None:
            natural = [max(wide, cell_len(cell(value))) for wide, value in zip(natural, row, strict=True)]
    room = width - 1
    if sum(natural) + _FRAME * len(natural) <= room:
        return [*natural]
    least = [min(wide, _LEAST_WIDTH) for wide in natural]
    widths: list[int | None] = [*least]
    if sum(least) + _FRAME * len(least) > room:
        # The first and the last columns are kept, as many as fit around a column of dots.
        left, first, last = room - (1 + _FRAME), 0, len(least) - 1
        widths = [None] * len(least)
        while first <= last:
            at = first if first <= len(least) - 1 - last else last
            if least[at] + _FRAME > left and first > 0:
                break
            left -= least[at] + _FRAME
            widths[at] = least[at]
            first, last = (first + 1, last) if at == first else (first, last - 1)
    else:
        left = room - sum(least) - _FRAME * len(least)
    # The remaining width is distributed over the truncated columns, one character each in turn.
    cut = [at for at, wide in enumerate(widths) if wide is not None and wide < natural[at]]
    while left > 0 and cut:
        share = max(left // len(cut), 1)
        for at in cut:
            more = min(share, natural[at] - (widths[at] or 0), left)
            widths[at] = (widths[at] or 0) + more
            left -= more
        cut = [at for at in cut if (widths[at] or 0) < natural[at]]
    return widths


def _cut(text: str, width: int) -> str:
    """`text` in at most `width` cells, with an ellipsis where some of it is missing."""
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)).rstrip() + "…"


def table(result: QueryResult, max_rows: int, width: int) -> Group:
    """The first rows (and the last ones where there are more) under names and types.

    Columns are cut, and then left out, where all do not fit `width`.
    """
    found = excerpt(result, max_rows)
    widths = _widths(result, found.rows, width)
    columns: list[int | None] = [at for at, wide in enumerate(widths) if wide is not None]
    if None in widths:
        gap = widths.index(None)
        columns.insert(sum(1 for wide in widths[:gap] if wide is not None), None)
    out = Table(box=box.ROUNDED, header_style="bold")
    for at in columns:
        if at is None:
            out.add_column("…\n", no_wrap=True)
            continue
        wide, kind = widths[at] or 1, result.types[at]
        header = Text(_cut(cell(result.columns[at]), wide))
        header.append(f"\n{_cut(kind, wide)}", style="dim")
        justify = "right" if is_numeric(kind) else "left"
        out.add_column(header, justify=justify, no_wrap=True, min_width=min(wide, max(width - 4, 1)))  # type: ignore[arg-type]  # the two literals
    for row in found.rows:
        if row is None:
            out.add_row(*("·" for _ in columns))
            continue
        texts = (Text("…") if at is None else _value(row[at], widths[at] or 1) for at in columns)
        out.add_row(*texts)
    footer = _footer(result, found.shown_rows, sum(wide is not None for wide in widths))
    return Group(out, Text(footer, style="dim", no_wrap=True, overflow="ignore"))


def _value(value: Any, width: int) -> Text:
    return Text(_cut(cell(value), width), style="dim" if value is None else "")


def _footer(result: QueryResult, rows: int, columns: int) -> str:
    def shown(count: int, all_: int, what: str) -> str:
        return count_of(all_, what) + ("" if count == all_ else f" ({count:,} shown)")

    return f"{shown(rows, result.num_rows, 'row')}, {shown(columns, len(result.columns), 'column')}"


def terminal_width() -> int:
    """The width of the terminal of stdout, or of COLUMNS; a default without a terminal."""
    return shutil.get_terminal_size((_WIDTH, 24)).columns


def full_width() -> int:
    """The width of tables for stdout: nothing is cut in what goes to a file or a pipe, unless COLUMNS is set."""
    return terminal_width() if sys.stdout.isatty() or os.environ.get("COLUMNS") else 1 << 20


def render(result: QueryResult, max_rows: int, width: int | None = None) -> str:
    """The table as plain text, as wide as the terminal."""
    out = io.StringIO()
    width = terminal_width() if width is None else width
    if result.columns:
        Console(file=out, width=width).print(table(result, max_rows, width))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def lines(result: QueryResult, max_rows: int) -> str:
    """Each row as lines of `column = value`, for rows that are too wide for a table."""
    names = [cell(name) for name in result.columns]
    wide = max(map(cell_len, names), default=0)
    found = excerpt(result, max_rows)
    blocks = []
    for row in found.rows:
        if row is None:
            blocks.append("·")
            continue
        pairs = zip(names, row, strict=True)
        blocks.append("\n".join(f"{' ' * (wide - cell_len(name))}{name} = {cell(value)}" for name, value in pairs))
    return "\n\n".join(blocks)


def markdown(result: QueryResult) -> str:
    """All rows as a table of Markdown."""

    def line(texts: list[str]) -> str:
        return f"| {' | '.join(text.replace('|', chr(92) + '|') for text in texts)} |"

    rules = ["---:" if is_numeric(kind) else "---" for kind in result.types]
    out = [line([cell(name) for name in result.columns]), f"| {' | '.join(rules)} |"]
    out += (line([cell(value) for value in row]) for row in result.rows(0, result.num_rows))
    return "\n".join(out)
