"""The report of a model: one HTML file with its pictures and sortable tables, which asks for nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from warpmill_bench.maxbench.figures import Picture

    Row = dict[str, Any]

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1200px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; border-bottom: 1px solid #8884; }
figure { margin: 1rem 0; overflow-x: auto; } figure svg { background: #fff; }
figcaption, .note { color: #777; font-size: 0.9rem; max-width: 75ch; }
.scroll { overflow: auto; max-height: 32rem; }
table { border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.15rem 0.6rem; border-bottom: 1px solid #8883; text-align: left; white-space: nowrap; }
td.n, th.n { text-align: right; }
th { position: sticky; top: 0; background: Canvas; cursor: pointer; user-select: none; }
th[aria-sort=ascending]::after { content: " \\25B2"; } th[aria-sort=descending]::after { content: " \\25BC"; }
nav a { margin-right: 1em; white-space: nowrap; }
td.bad { color: #c22; }
"""

#: Sorts a table by the column whose head is clicked: numbers by value, texts by letters; empty cells come last.
_SCRIPT = """
for (const head of document.querySelectorAll('table.sortable th')) head.addEventListener('click', () => {
  const table = head.closest('table'), at = [...head.parentNode.children].indexOf(head), body = table.tBodies[0];
  const down = head.getAttribute('aria-sort') === 'ascending', sign = down ? -1 : 1;
  for (const other of head.parentNode.children) other.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  const key = cell => cell.dataset.v === undefined ? cell.textContent : +cell.dataset.v;
  const rows = [...body.rows].map(row => [key(row.cells[at]), row]);
  rows.sort(([a], [b]) => {
    if (a === '' || b === '') return (a === '') - (b === '');
    if (typeof a === 'number' && typeof b === 'number') return sign * (a - b);
    return sign * String(a).localeCompare(String(b), 'en', {numeric: true});
  });
  body.append(...rows.map(([, row]) => row));
});
"""


@dataclass(frozen=True)
class Column:
    """A column of a table: its key in the rows, its head, and the digits of its numbers."""

    key: str
    head: str
    digits: int = 3
    #: The factor for displayed numbers.
    unit: float = 1.0


def page(title: str, introduction: str, parts: Sequence[str]) -> str:
    """The whole file."""
    links = " ".join(re.sub(r'(?s).*?id="([^"]*)"><h2>(.*?)</h2>.*', r'<a href="#\1">\2</a>', part) for part in parts)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">\n'
        f"<style>{_STYLE}</style></head>\n<body>\n<h1>{escape(title)}</h1>\n{introduction}\n<nav>{links}</nav>\n"
        + "\n".join(parts)
        + f"\n<script>{_SCRIPT}</script>\n</body></html>\n"
    )


def section(name: str, title: str, *contents: str) -> str:
    """A part of the page with a heading."""
    return f'<section id="{escape(name)}"><h2>{escape(title)}</h2>\n' + "\n".join(contents) + "\n</section>"


def note(text: str) -> str:
    """A line of explanation."""
    return f'<p class="note">{escape(text)}</p>'


def figure(picture: Picture) -> str:
    """A picture with its caption, and the number of the paper's figure."""
    where = "Section" if "." in picture.number else "Figure"
    caption = (
        f"<b>{escape(picture.title)}.</b> {escape(picture.caption)} <i>({where} {picture.number} of the paper)</i>"
    )
    return f"<figure>{picture.svg}<figcaption>{caption}</figcaption></figure>"


def table(rows: Iterable[Row], columns: Sequence[Column], empty: str = "nothing") -> str:
    """A sortable table."""
    rows = list(rows)
    if not rows:
        return note(empty)
    numeric = {one.key for one in columns if any(_number(row.get(one.key)) for row in rows)}
    heads = "".join(f'<th scope="col"{_class(one.key in numeric)}>{escape(one.head)}</th>' for one in columns)
    body = "\n".join("<tr>" + "".join(_cell(row.get(one.key), one) for one in columns) + "</tr>" for row in rows)
    inner = f"<thead><tr>{heads}</tr></thead><tbody>\n{body}\n</tbody>"
    return f'<div class="scroll"><table class="sortable">{inner}</table></div>'


def _cell(value: Any, column: Column) -> str:
    if value is None or value == "":
        return "<td></td>"
    if _number(value):
        shown = value * column.unit
        text = f"{shown:,.0f}" if isinstance(value, int) and column.unit == 1 else number(shown, column.digits)
        return f'<td class="n" data-v="{shown!r}">{text}</td>'
    if isinstance(value, bool):
        return "<td>yes</td>" if value else '<td class="bad">no</td>'
    return f"<td>{escape(str(value))}</td>"


def number(value: float, digits: int = 3) -> str:
    """A number with `digits` significant digits."""
    if value == 0:
        return "0"
    if abs(value) >= 10**digits:
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return f"{value:.1e}" if "e" in text else text


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _class(numeric: bool) -> str:
    return ' class="n"' if numeric else ""
