"""The promises of a query about the order and the choice of its rows, from DuckDB's own parser."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Promise:
    """The outermost ORDER BY and LIMIT of a SELECT."""

    #: Output columns that rows are sorted by, first key first; keys that are not output columns are left out.
    keys: tuple[int, ...] = ()
    #: Whether there is an ORDER BY.
    ordered: bool = False
    #: Whether all of its keys are in `keys`.
    complete: bool = True
    #: Whether a LIMIT, or DISTINCT ON, chooses among rows.
    chooses: bool = False
    #: The query with its other sort keys as additional columns; None where that is not possible.
    with_keys: str | None = None
    #: The query without its LIMIT.
    unlimited: str | None = None


class Parser:
    """DuckDB's parser, in a database of its own."""

    def __init__(self, plain: Any) -> None:
        """`plain`: a connection of plain DuckDB that runs nothing else."""
        self._plain = plain

    def is_query(self, sql: str) -> bool:
        """Whether the text is one SELECT, which can be run again without changing anything."""
        return self._node(sql) is not None

    def promise(self, sql: str, names: tuple[str, ...]) -> Promise | None:
        """The promises of the query, None where the text is no single SELECT."""
        tree = self._tree(sql)
        node = None if tree is None else tree["statements"][0]["node"]
        if tree is None or node is None:
            return None
        orders = [order for part in node["modifiers"] if part["type"] == "ORDER_MODIFIER" for order in part["orders"]]
        kinds = {part["type"] for part in node["modifiers"]}
        on = any(part.get("distinct_on_targets") for part in node["modifiers"])
        keys: list[int] = []
        others: list[Any] = []
        for order in orders:
            found = _output_columns(order["expression"], names)
            if found is None:
                others.append(order["expression"])
            elif not others:
                keys += found
        limited = bool(kinds & {"LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER"})
        return Promise(
            tuple(keys),
            bool(orders),
            not others,
            limited or on,
            self._with_keys(tree, node, others) if others and not on else None,
            self._without(tree, node, {"LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER"}) if limited and not on else None,
        )

    def _tree(self, sql: str) -> dict[str, Any] | None:
        try:
            [(text,)] = self._plain.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
        except Exception:  # what DuckDB cannot put into JSON is no query that is looked at
            return None
        tree: dict[str, Any] = json.loads(text)
        return tree if not tree["error"] and len(tree["statements"]) == 1 else None

    def _node(self, sql: str) -> Any:
        tree = self._tree(sql)
        return tree and tree["statements"][0]["node"]

    def _text(self, tree: dict[str, Any]) -> str | None:
        try:
            [(text,)] = self._plain.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]).fetchall()
        except Exception:
            return None
        return str(text)

    def _with_keys(self, tree: dict[str, Any], node: dict[str, Any], others: list[Any]) -> str | None:
        if node["type"] != "SELECT_NODE" or any(part["type"] == "DISTINCT_MODIFIER" for part in node["modifiers"]):
            return None
        longer = {**node, "select_list": node["select_list"] + others}
        return self._text(_replaced(tree, longer))

    def _without(self, tree: dict[str, Any], node: dict[str, Any], kinds: set[str]) -> str | None:
        rest = [part for part in node["modifiers"] if part["type"] not in kinds]
        return self._text(_replaced(tree, {**node, "modifiers": rest}))


def _replaced(tree: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    return {**tree, "statements": [{**tree["statements"][0], "node": node}]}


def _output_columns(expression: dict[str, Any], names: tuple[str, ...]) -> list[int] | None:
    """The output columns that a sort key is, None where it is an expression over something else."""
    if expression["class"] == "STAR" and not expression.get("expr"):
        return list(range(len(names)))
    if expression["class"] == "CONSTANT":
        text = str(expression.get("literal", expression.get("value", {})).get("text", ""))
        number = int(text) if text.isdigit() else 0
        return [number - 1] if 0 < number <= len(names) else None
    if expression["class"] == "COLUMN_REF":
        lower = [name.lower() for name in names]
        name = str(expression["column_names"][-1]).lower()
        if lower.count(name) == 1 and len(expression["column_names"]) == 1:
            return [lower.index(name)]
    return None
