"""Query results as text tables."""

from __future__ import annotations

import io
import shutil
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from warpmill._warpmill import QueryResult

_NUMERIC = ("Int", "UInt", "Float", "Decimal")


def cell(value: Any) -> str:
    """One value as SQL people write it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    return str(value)


def table(result: QueryResult, max_rows: int) -> Group:
    """The first `max_rows` rows (and the last ones where there are more) under names and types."""
    out = Table(box=box.ROUNDED, header_style="bold")
    for name, kind in zip(result.columns, result.types, strict=True):
        header = Text(name)
        header.append(f"\n{kind}", style="dim")
        out.add_column(header, justify="right" if kind.startswith(_NUMERIC) else "left", overflow="fold")
    count = result.num_rows
    head = count if count <= max_rows else (max_rows + 1) // 2
    for row in result.rows(0, head):
        out.add_row(*(Text(cell(value), style="dim" if value is None else "") for value in row))
    if head < count:
        out.add_row(*("·" for _ in result.columns))
        for row in result.rows(count - (max_rows - head), max_rows - head):
            out.add_row(*(Text(cell(value)) for value in row))
    shown = "" if head == count else f" ({max_rows} shown)"
    columns = len(result.columns)
    footer = f"{count:,} {'row' if count == 1 else 'rows'}{shown}, {columns} {'column' if columns == 1 else 'columns'}"
    return Group(out, Text(footer, style="dim"))


def render(result: QueryResult, max_rows: int) -> str:
    """The table as plain text, as wide as the terminal."""
    out = io.StringIO()
    width = shutil.get_terminal_size((120, 24)).columns
    if result.columns:
        Console(file=out, width=width).print(table(result, max_rows))
    return out.getvalue().rstrip("\n")
