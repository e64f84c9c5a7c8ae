"""Makes a failing case small, and prints it as a script."""

from __future__ import annotations

import dataclasses
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from differential.expressions import LITERAL, Node, type_name
from differential.judge import Case, judged
from differential.queries import Combined, Order, Select, Source, With

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from differential.columns import Table


def shrink(case: Case, fails: Callable[[Case], bool] | None = None, seconds: float = 60.0) -> Case:
    """The smallest case found in a time that still fails: fewer clauses, columns, rows, settings."""
    still = fails or _same_failure(case)
    end = time.monotonic() + seconds
    smaller: Case | None = case
    while smaller is not None and time.monotonic() < end:
        case = smaller
        smaller = next((made for made in _smaller(case) if time.monotonic() < end and still(made)), None)
    return case


def _same_failure(case: Case) -> Callable[[Case], bool]:
    """Whether a case still fails in the same way: by differing rows, or by an error of the same kind."""
    kind = _kind(judged(case))

    def still(made: Case) -> bool:
        found = judged(made)
        return found is not None and _kind(found) == kind

    return still


def _kind(found: str | None) -> str:
    name = re.match(r"\w*(Error|Exception)\b: .{0,25}", found or "")
    return name.group() if name else "rows" if found else ""


def _smaller(case: Case) -> Iterator[Case]:
    text = " ".join(case.statements()).lower()
    if case.into:
        yield replace(case, into="")
    yield from (replace(case, chain=case.chain[:at] + case.chain[at + 1 :]) for at in range(len(case.chain)))
    for at, step in enumerate(case.chain):
        for query in _variants(step.query):
            made = (*case.chain[:at], replace(step, query=query), *case.chain[at + 1 :])
            yield replace(case, chain=made)
    used = tuple(table for table in case.tables if re.search(rf"\b{table.name}\b", text))
    if len(used) < len(case.tables):
        yield replace(case, tables=used)
    for query in _variants(case.query):
        yield replace(case, query=query)
    for at, table in enumerate(case.tables):
        for fewer in _fewer(table, text):
            yield replace(case, tables=(*case.tables[:at], fewer, *case.tables[at + 1 :]))
    if case.settings:
        yield replace(case, settings=())
    for at in range(len(case.settings) if len(case.settings) > 1 else 0):
        yield replace(case, settings=case.settings[:at] + case.settings[at + 1 :])


def _fewer(table: Table, text: str) -> Iterator[Table]:
    """The table without columns that are not used, without some rows, stored in a plainer way."""
    used = tuple(column for column in table.columns if column.name.lower() in text) or table.columns[:1]
    if len(used) < len(table.columns):
        sort_by = table.sort_by if any(column.name == table.sort_by for column in used) else None
        yield replace(table, columns=used, sort_by=sort_by)
    if table.sort_by or table.appended:
        yield replace(table, sort_by=None, appended=0)
    step = table.rows
    while step > 0:
        for start in range(0, table.rows, step):
            keep = [row for row in range(table.rows) if not start <= row < start + step]
            columns = tuple(replace(c, values=tuple(c.values[row] for row in keep)) for c in table.columns)
            yield replace(table, columns=columns, rows=len(keep), appended=min(table.appended, len(keep)))
        step //= 2


def _variants(part: Any) -> Iterator[Any]:
    """The part with one element removed from it or from a nested part; largest removals first."""
    if isinstance(part, With):
        yield part.inner
    elif isinstance(part, Combined):
        yield part.left
        yield part.right
    elif isinstance(part, Select):
        yield from _selects(part)
    elif isinstance(part, Node):
        yield from _nodes(part)
    elif isinstance(part, Order) and part.offset is not None:
        yield replace(part, offset=None)
    elif isinstance(part, Source) and isinstance(part.what, Select) and isinstance(part.what.sources[0].what, Select):
        yield replace(part, what=part.what.sources[0].what)
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if isinstance(value, tuple):
            for at, element in enumerate(value):
                for made in _variants(element):
                    yield replace(part, **{field.name: (*value[:at], made, *value[at + 1 :])})
        elif dataclasses.is_dataclass(value):
            for made in _variants(value):
                yield replace(part, **{field.name: made})


def _selects(query: Select) -> Iterator[Select]:
    for at in range(len(query.sources) - 1, 0, -1):
        yield replace(query, sources=query.sources[:at] + query.sources[at + 1 :])
    plain: dict[str, Any] = {
        "where": None,
        "having": None,
        "order": None,
        "hidden": None,
        "distinct": False,
        "sets": "",
    }
    for change in ({name: value} for name, value in plain.items()):
        if any(getattr(query, name) != value for name, value in change.items()):
            yield replace(query, **change)
    if len(query.items) > 1:
        for at in range(len(query.items)):
            order = query.order and replace(query.order, keys=query.order.keys[:at] + query.order.keys[at + 1 :])
            yield replace(query, items=query.items[:at] + query.items[at + 1 :], order=order)
    for at in range(len(query.group)):
        yield replace(query, group=query.group[:at] + query.group[at + 1 :])


def _nodes(node: Node) -> Iterator[Node]:
    for arg in node.args:
        if isinstance(arg, Node) and arg.family == node.family:
            yield arg
    if node.args:
        yield Node(LITERAL if node.family == "int" else node.kind, f"CAST(NULL AS {type_name(node.kind)})")
    if node.args and node.family == "bool":
        yield Node(node.kind, "TRUE")
    if node.args and node.family == "int":
        yield Node(LITERAL, "1")
    cut = re.sub(r" FILTER \(WHERE \{\d\}\)|DISTINCT ", "", node.text)
    if cut != node.text:
        yield replace(node, text=cut)


def script(case: Case, found: str) -> str:
    """A Python program that shows the difference."""
    lines = [
        "import datetime, duckdb, pyarrow as pa, warpmill",
        "from decimal import Decimal",
        "nan, inf = float('nan'), float('inf')",
        "peer = duckdb.connect(config={'threads': 1})",
        "peer.execute(\"SET TimeZone = 'UTC'\")",
    ]
    native = case.door != "duckdb"
    if native:
        options = {name: value for name, value in case.settings if name != "stored"}
        options |= {"device": "sim"} if case.door == "sim" else {}
        lines.append(f"con = warpmill.connect({', '.join(f'{name}={value!r}' for name, value in options.items())})")
    else:
        lines[0] += ", warpmill.duckdb"
        lines.append("con = warpmill.duckdb.connect(config={'threads': 1})")
        lines.append("con.execute(\"SET TimeZone = 'UTC'\")")
    for table in case.tables:
        lines.append(f"{table.name} = pa.table({{")
        for column in table.columns:
            kind = re.sub(r"^(decimal128|timestamp)\((.*)\)$", r"pa.\1(\2)", str(column.kind.arrow))
            kind = {"timestamp[us]": "pa.timestamp('us')", "float": "pa.float32()", "double": "pa.float64()"}.get(
                kind, {"bool": "pa.bool_()", "date32[day]": "pa.date32()"}.get(kind, kind)
            )
            kind = kind if "(" in kind else f"pa.{kind}()"
            lines.append(f"    {column.name!r}: pa.array({list(column.values)!r}, {kind}),")
        lines.append("})")
        lines.append(f"peer.execute('CREATE TABLE {table.name} AS SELECT * FROM {table.name}')")
        if not native:
            lines.append(f"con.execute('CREATE TABLE {table.name} AS SELECT * FROM {table.name}')")
            continue
        first = table.rows - table.appended
        rows = f"{table.name}.slice(0, {first})" if table.appended else table.name
        lines.append(f"con.create_table({table.name!r}, {rows}, sort_by={[table.sort_by] if table.sort_by else []})")
        if table.appended:
            lines.append(f"rest = {table.name}.slice({first})")
            lines.append(f'con.sql("INSERT INTO {table.name} SELECT * FROM rest")')
    *makes, sql = case.statements()
    lines += [f"con.execute({make!r}), peer.execute({make!r})" for make in makes]
    lines.append(f'print("warpmill", con.execute({sql!r}).fetchall())')
    lines.append(f'print("duckdb  ", peer.execute({sql!r}).fetchall())')
    return "\n".join([f"# {' '.join(found.split())[:300]}", *lines])
