"""Query results and plans in notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from warpmill.display import cell, count_of, excerpt, is_numeric
from warpmill.explanation import fragment

if TYPE_CHECKING:
    from warpmill._warpmill import QueryResult

#: The most columns of a table; the last ones are shown after the first where there are more.
_MAX_COLUMNS = 30

_STYLE = (
    ".warpmill-rows td, .warpmill-rows th { text-align: left; white-space: pre; max-width: 60ch; "
    "overflow: hidden; text-overflow: ellipsis; padding: 2px 8px; } .warpmill-rows .n { text-align: right; } "
    ".warpmill-rows .t { font-weight: normal; opacity: 0.6; } "
    ".warpmill-rows .null { opacity: 0.5; font-style: italic; }"
)


def rows(result: QueryResult, max_rows: int) -> str:
    """The first rows of a result (and the last ones where there are more) as a table of HTML; plans as such."""
    if result.columns == ["plan_type", "plan"]:
        return "\n".join(_plan(*row) for row in result.rows(0, result.num_rows))
    if not result.columns:
        return "<p>done</p>"
    found = excerpt(result, max_rows)
    columns: list[int | None] = [*found.columns]
    if len(columns) > _MAX_COLUMNS:
        half = _MAX_COLUMNS // 2
        columns = [*columns[:half], None, *columns[-half:]]
    head = "".join(_header(result, at) for at in columns)
    body = "".join(f"<tr>{''.join(_cell(result, row, at) for at in columns)}</tr>" for row in found.rows)
    shown = [_shown(found.shown_rows, result.num_rows, "row")]
    shown.append(_shown(sum(at is not None for at in columns), len(result.columns), "column"))
    table = f'<table class="warpmill-rows"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f"<div><style>{_STYLE}</style>{table}<p>{', '.join(shown)}</p></div>"


def _shown(count: int, all_: int, what: str) -> str:
    return count_of(all_, what) + ("" if count == all_ else f" ({count:,} shown)")


def _header(result: QueryResult, at: int | None) -> str:
    if at is None:
        return "<th>…</th>"
    kind = result.types[at]
    name, number = escape(result.columns[at]), ' class="n"' if is_numeric(kind) else ""
    return f'<th{number}>{name}<br><span class="t">{escape(kind)}</span></th>'


def _cell(result: QueryResult, row: tuple[object, ...] | None, at: int | None) -> str:
    if row is None or at is None:
        return "<td>…</td>"
    value = row[at]
    if value is None:
        return '<td class="null">NULL</td>'
    number = ' class="n"' if is_numeric(result.types[at]) else ""
    return f"<td{number}>{escape(cell(value))}</td>"


def _plan(title: str, text: str) -> str:
    if title == "html":
        return fragment(text)
    return f"<h4>{escape(title)}</h4><pre>{escape(text)}</pre>"
